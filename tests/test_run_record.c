/* test_run_record.c - the record format: what was written is read back, and every kind of damage is survived. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "record/record_read.h"
#include "record/record_write.h"

static char dir[64];
static char path[128];

static int setup(void **state) {
    (void)state;
    strcpy(dir, "/tmp/gwrecXXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/a.gwr", dir);
    return 0;
}
static int teardown(void **state) {
    (void)state;
    unlink(path);
    rmdir(dir);
    return 0;
}

/* `chunks` chunks of 10 API records; record k of the file has corr k. */
static void write_file(int chunks, int end) {
    struct gw_writer w;
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    assert_int_equal(gw_writer_open(&w, fd, "a.gwr", GW_ROLE_CUDA, 42, 7), 0);
    close(fd);
    uint32_t k = 0;
    for (int i = 0; i < chunks; i++) {
        struct gw_rec_api a[10];
        memset(a, 0, sizeof a);
        for (int j = 0; j < 10; j++)
            a[j].corr = k++;
        assert_int_equal(gw_writer_append(&w, GW_RT_API, sizeof *a, a, sizeof a), 0);
        struct gw_rec_name_head h = {GW_NS_KERNEL, (uint32_t)i};
        assert_int_equal(gw_writer_append2(&w, GW_RT_NAME, 1, &h, sizeof h, "abc", (uint32_t)(i % 4)), 0);
    }
    w.status.records = k;
    if (end) {
        gw_writer_close(&w);
    } else {
        gw_writer_status(&w);
        close(w.fd); /* as kill -9 leaves it */
    }
}

struct sum { uint64_t api, names, last; };
static struct sum read_file(struct gw_reader *r) {
    struct gw_error err = {0};
    struct gw_chunk c;
    struct sum s = {0, 0, 0};
    assert_int_equal(gw_reader_open(r, path, &err), 0);
    while (gw_reader_next(r, &c)) {
        if (c.type == GW_RT_NAME)
            s.names++;
        for (uint32_t i = 0; c.type == GW_RT_API && i < c.count; i++) {
            struct gw_rec_api a;
            gw_chunk_get(&c, i, &a, sizeof a);
            s.last = a.corr;
            s.api++;
        }
    }
    gw_reader_close(r);
    return s;
}

static void test_round_trip(void **state) {
    (void)state;
    struct gw_reader r;
    write_file(50, 1);
    struct sum s = read_file(&r);
    assert_int_equal(s.api, 500);
    assert_int_equal(s.names, 50);
    assert_int_equal(s.last, 499);
    assert_int_equal(r.ended, 1);
    assert_int_equal(r.torn, 0);
    assert_int_equal(r.damaged, 0);
    assert_int_equal(r.head.pid, 42);
    assert_int_equal(r.head.start_ticks, 7);
    assert_int_equal(r.head.status.records, 500);
}

static void test_killed_at_any_byte(void **state) {
    (void)state;
    write_file(3, 0);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    for (long size = st.st_size; size >= (long)sizeof(struct gw_rec_file); size--) {
        assert_int_equal(truncate(path, size), 0);
        struct gw_reader r;
        struct sum s = read_file(&r);
        assert_int_equal(r.ended, 0);
        assert_int_equal(r.damaged, 0);
        if (s.api)
            assert_int_equal(s.last, s.api - 1);
        assert_true(s.api % 10 == 0);
    }
}

static void test_flipped_bytes(void **state) {
    (void)state;
    write_file(20, 1);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    srand(1);
    for (int i = 0; i < 400; i++) {
        int fd = open(path, O_RDWR);
        off_t at = (off_t)sizeof(struct gw_rec_file) + rand() % (st.st_size - (long)sizeof(struct gw_rec_file));
        unsigned char was, is;
        assert_int_equal(pread(fd, &was, 1, at), 1);
        is = (unsigned char)(was ^ (1u << (rand() % 8)));
        assert_int_equal(pwrite(fd, &is, 1, at), 1);
        struct gw_reader r;
        struct sum s = read_file(&r);
        assert_true(s.api >= 180); /* at most two chunks are lost to one bit: its own and, by a false size, a neighbour */
        assert_int_equal(pwrite(fd, &was, 1, at), 1);
        close(fd);
    }
    struct gw_reader r;
    assert_int_equal(read_file(&r).api, 200);
}

static void test_older_and_newer_records(void **state) {
    (void)state;
    struct gw_writer w;
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    assert_int_equal(gw_writer_open(&w, fd, "a.gwr", GW_ROLE_CUDA, 1, 0), 0);
    close(fd);
    unsigned char longer[80], shorter[16];
    memset(longer, 0xff, sizeof longer);
    memset(shorter, 0x11, sizeof shorter);
    assert_int_equal(gw_writer_append(&w, GW_RT_API, 40, longer, 80), 0);
    assert_int_equal(gw_writer_append(&w, GW_RT_API, 16, shorter, 16), 0);
    gw_writer_close(&w);
    struct gw_reader r;
    struct gw_error err = {0};
    struct gw_chunk c;
    struct gw_rec_api a;
    assert_int_equal(gw_reader_open(&r, path, &err), 0);
    assert_int_equal(gw_reader_next(&r, &c), 1);
    assert_int_equal(c.count, 2);
    gw_chunk_get(&c, 1, &a, sizeof a);
    assert_int_equal(a.corr, 0xffffffffu);
    assert_int_equal(gw_reader_next(&r, &c), 1);
    gw_chunk_get(&c, 0, &a, sizeof a);
    assert_int_equal(a.start, 0x1111111111111111ull);
    assert_int_equal(a.corr, 0); /* the older writer did not have it */
    gw_reader_close(&r);
}

static void test_not_a_record(void **state) {
    (void)state;
    struct gw_reader r;
    struct gw_error err = {0};
    char junk[4096];
    memset(junk, 'x', sizeof junk);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_int_equal(write(fd, junk, sizeof junk), (long)sizeof junk);
    close(fd);
    assert_int_equal(gw_reader_open(&r, path, &err), GW_EFORMAT);
    assert_int_equal(truncate(path, 0), 0);
    memset(&err, 0, sizeof err);
    assert_int_equal(gw_reader_open(&r, path, &err), GW_EFORMAT);
    memset(&err, 0, sizeof err);
    assert_int_equal(gw_reader_open(&r, "/tmp", &err), GW_EFORMAT);
    memset(&err, 0, sizeof err);
    assert_int_equal(gw_reader_open(&r, "/nonexistent/x.gwr", &err), GW_EIO);
}

static void test_limit_and_full_disk(void **state) {
    (void)state;
    struct gw_writer w;
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    assert_int_equal(gw_writer_open(&w, fd, "a.gwr", GW_ROLE_CUDA, 1, 0), 0);
    close(fd);
    w.max_bytes = 2000;
    char data[800] = {0};
    assert_int_equal(gw_writer_append(&w, GW_RT_FACT, 1, data, sizeof data), 0);
    assert_int_equal(gw_writer_append(&w, GW_RT_FACT, 1, data, sizeof data), 0);
    assert_true(gw_writer_append(&w, GW_RT_FACT, 1, data, sizeof data) < 0);
    assert_true(gw_writer_append(&w, GW_RT_FACT, 1, data, 1) < 0); /* once bad, always bad */
    gw_writer_close(&w);
    struct gw_reader r;
    struct gw_error err = {0};
    struct gw_chunk c;
    int n = 0;
    assert_int_equal(gw_reader_open(&r, path, &err), 0);
    while (gw_reader_next(&r, &c))
        n++;
    assert_int_equal(n, 2);
    assert_int_equal(r.torn, 0);
    gw_reader_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_killed_at_any_byte, setup, teardown),
        cmocka_unit_test_setup_teardown(test_flipped_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_older_and_newer_records, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_a_record, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limit_and_full_disk, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
