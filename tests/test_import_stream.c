/* Files as text: compressions, several members, cut and damaged streams, pipes; and borders between blocks. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>
#ifdef GW_HAVE_ZSTD
#include <zstd.h>
#endif

#include "import/gw_json_scan.h"
#include "import/gw_json_split.h"
#include "import_text.h"

/* Text that does not compress to nothing: numbers from a small generator. */
static char *make_text(size_t n)
{
    char *s = malloc(n + 1);
    assert_non_null(s);
    uint32_t x = 12345;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        s[i] = (char)('a' + (x >> 24) % 16);
    }
    s[n] = '\0';
    return s;
}

static size_t gzip_member(const char *s, size_t n, unsigned char *out, size_t cap)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)s;
    z.avail_in = (uInt)n;
    z.next_out = out;
    z.avail_out = (uInt)cap;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t len = cap - z.avail_out;
    deflateEnd(&z);
    return len;
}

/* Reads all of it. Returns the text; *st is how it ended. */
static char *read_back(const void *data, size_t len, size_t block, int threaded, size_t *n, struct gw_stream_status *st)
{
    struct gw_stream_options so = {.block_bytes = block, .headroom = 16, .threaded = threaded};
    struct gw_error err = {0};
    struct gw_stream *s = gw_stream_memory(data, len, &so, &err);
    assert_non_null(s);
    char *text = NULL;
    *n = 0;
    struct gw_stream_block *b;
    int last = 0;
    while ((b = gw_stream_next(s, 1)) != NULL) {
        assert_false(last);
        assert_int_equal(b->text_off, *n);
        text = realloc(text, *n + b->len + 1);
        assert_non_null(text);
        memcpy(text + *n, b->data, b->len);
        *n += b->len;
        last = b->last;
        gw_stream_release(s, b);
    }
    assert_true(last && gw_stream_ended(s));
    *st = *gw_stream_status(s);
    gw_stream_close(s);
    return text;
}

static void expect_text(const void *data, size_t len, const char *want, size_t want_n, int code)
{
    static const size_t blocks[] = {1, 7, 4096, 100000};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        for (int threaded = 0; threaded < 2; threaded++) {
            if (want_n / blocks[i] > 5000)
                continue;
            size_t n;
            struct gw_stream_status st;
            char *got = read_back(data, len, blocks[i], threaded, &n, &st);
            assert_int_equal(st.code, code);
            assert_int_equal(n, want_n);
            if (n)
                assert_memory_equal(got, want, n);
            if (code)
                assert_int_equal(st.text_off, n);
            free(got);
        }
}

static void test_plain(void **state)
{
    (void)state;
    char *text = make_text(10000);
    static const size_t sizes[] = {0, 1, 3, 7, 4096, 10000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        expect_text(text, sizes[i], text, sizes[i], 0);
    free(text);
}

static void test_gzip(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 100, 4095, 70000, 700000};
    unsigned char *out = malloc(1 << 20);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *text = make_text(sizes[i]);
        size_t n = gzip_member(text, sizes[i], out, 1 << 20);
        expect_text(out, n, text, sizes[i], 0);
        free(text);
    }
    free(out);
}

static void test_gzip_members(void **state)
{
    (void)state;
    enum { N = 3000 };
    unsigned char *out = malloc(1 << 20);
    char *text = make_text(N);
    /* Cut into members at every sort of place, empty ones too. */
    for (size_t a = 0; a < N; a += 271) {
        size_t n = gzip_member(text, a, out, 1 << 20);
        n += gzip_member(text + a, 0, out + n, (1 << 20) - n);
        n += gzip_member(text + a, N - a, out + n, (1 << 20) - n);
        expect_text(out, n, text, N, 0);
        memset(out + n, 0, 100); /* padding */
        expect_text(out, n + 100, text, N, 0);
        memcpy(out + n, "rubbish", 7); /* not a member: told, and nothing lost */
        expect_text(out, n + 7, text, N, GW_EFORMAT);
    }
    free(text);
    free(out);
}

static void test_gzip_cut(void **state)
{
    (void)state;
    enum { N = 20000 };
    unsigned char *out = malloc(1 << 20);
    char *text = make_text(N);
    size_t n = gzip_member(text, N, out, 1 << 20), last = 0;
    for (size_t cut = 11; cut < n; cut += n / 13) {
        size_t got;
        struct gw_stream_status st;
        char *back = read_back(out, cut, 512, 0, &got, &st);
        assert_int_equal(st.code, GW_EFORMAT);
        assert_true(strstr(st.what, "early") != NULL);
        assert_true(got >= last && got <= N);
        if (got)
            assert_memory_equal(back, text, got);
        last = got;
        free(back);
    }
    assert_true(last > N / 2);
    free(text);
    free(out);
}

static void test_gzip_damaged(void **state)
{
    (void)state;
    enum { N = 20000 };
    unsigned char *out = malloc(1 << 20);
    char *text = make_text(N);
    size_t n = gzip_member(text, N, out, 1 << 20);
    for (size_t at = 10; at < n; at += 97) {
        size_t got;
        struct gw_stream_status st;
        out[at] ^= 0x55;
        char *back = read_back(out, n, 512, 0, &got, &st);
        assert_int_equal(st.code, GW_EFORMAT); /* by the checksum, if by nothing else */
        free(back);
        out[at] ^= 0x55;
    }
    free(text);
    free(out);
}

static void test_zstd(void **state)
{
    (void)state;
#ifdef GW_HAVE_ZSTD
    enum { N = 300000 };
    size_t cap = 2 * ZSTD_compressBound(N);
    unsigned char *out = malloc(cap);
    char *text = make_text(N);
    size_t n = ZSTD_compress(out, cap, text, N, 3);
    expect_text(out, n, text, N, 0);
    size_t a = ZSTD_compress(out, cap, text, 1000, 3); /* two frames */
    a += ZSTD_compress(out + a, cap - a, text + 1000, N - 1000, 3);
    expect_text(out, a, text, N, 0);
    size_t got;
    struct gw_stream_status st;
    char *back = read_back(out, a - 5, 4096, 0, &got, &st);
    assert_int_equal(st.code, GW_EFORMAT);
    assert_true(got > 0 && got < N);
    assert_memory_equal(back, text, got);
    free(back);
    out[a / 2] ^= 0x55;
    back = read_back(out, a, 4096, 0, &got, &st);
    assert_true(st.code == GW_EFORMAT || memcmp(back, text, N) != 0);
    free(back);
    free(text);
    free(out);
#else
    static const unsigned char frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0, 0, 0, 0};
    struct gw_stream_options so = {.threaded = 0};
    struct gw_error err = {0};
    assert_null(gw_stream_memory(frame, sizeof frame, &so, &err));
    assert_int_equal(err.code, GW_ENOTSUP);
    assert_non_null(strstr(err.what, "zstd"));
#endif
}

/* ---- pipes ---- */

struct feed {
    int fd;
    const char *text;
    size_t len, piece;
};

static void *feeder(void *arg)
{
    struct feed *f = arg;
    for (size_t at = 0; at < f->len;) {
        size_t n = f->len - at < f->piece ? f->len - at : f->piece;
        ssize_t w = write(f->fd, f->text + at, n);
        if (w <= 0)
            break;
        at += (size_t)w;
    }
    close(f->fd);
    return NULL;
}

static void test_pipe(void **state)
{
    (void)state;
    static const char text[] =
        "{\"traceEvents\": [{" OP "}, {" KERNEL ", \"ts\": 1, \"dur\": 2.5}], \"traceName\": \"x\"}";
    for (size_t piece = 1; piece < 100; piece += 33) {
        int fds[2];
        char path[64];
        pthread_t th;
        assert_int_equal(pipe(fds), 0);
        struct feed f = {fds[1], text, sizeof text - 1, piece};
        pthread_create(&th, NULL, feeder, &f);
        snprintf(path, sizeof path, "/dev/fd/%d", fds[0]);
        struct reading r = {.t = gw_trace_create(0)};
        r.rc = gw_import_file(r.t, path, NULL, &r.err);
        pthread_join(th, NULL);
        close(fds[0]);
        assert_int_equal(r.rc, 0);
        assert_int_equal(gw_trace_count(r.t), 2);
        assert_int_equal(((const struct gw_source *)r.t->sources.data)->bytes, -1);
        reading_free(&r);
    }
}

/* Closing must not wait for a writer that says nothing. */
static void test_silent_pipe(void **state)
{
    (void)state;
    int fds[2];
    char path[64];
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], "{\"a\":", 5), 5);
    snprintf(path, sizeof path, "/dev/fd/%d", fds[0]);
    struct gw_stream_options so = {.threaded = 1, .block_bytes = 4};
    struct gw_error err = {0};
    struct gw_stream *s = gw_stream_open(path, &so, &err);
    assert_non_null(s);
    struct gw_stream_block *b = gw_stream_next(s, 1);
    assert_int_equal(b->len, 4);
    gw_stream_close(s);
    close(fds[0]);
    close(fds[1]);
}

/* ---- borders ---- */

static const char borders[] =
    "\xef\xbb\xbf {\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"H\\u00e9 \\\"x\\\"\", "
    "\"numSms\": 132}],\n"
    " \"skip\": {\"a\": [1, {\"b\": \"]}\\\\\"}], \"traceEvents\": 3}, \"traceEvents\" : [\n"
    "{" KERNEL ", \"ts\": 10.0005, \"dur\": 2.001, \"args\": {\"device\": 3, \"stream\": 20, \"correlation\": 9453, "
               "\"grid\": [2, 4, 64]}},\n"
    "{}, {\"ph\": \"s\", \"id\": 1, \"pid\": 10, \"tid\": 11, \"ts\": 1, \"cat\": \"ac2g\", \"name\": \"ac2g\"},"
    "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"q\\\"uo\\\\ted {[ \\ud83d\\ude00\", \"pid\": 10, \"tid\": 11, "
    "\"ts\": 1e3, \"dur\": 2,"
    " \"args\": {\"Input Dims\": [[8, 3], []], \"path\": \"C:\\dir\\\"}}, @@ junk @@\n"
    "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"C:\\end\\\", \"pid\": 10, \"tid\": 11, \"ts\": 5, \"dur\": 2},"
    "{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 10, \"tid\": 11, \"args\": {\"name\": \"main\"}} {\"ph\": "
    "\"X\", \"lost\": "
    "{\"ph\": \"B\", \"cat\": \"cpu_op\", \"name\": \"b\", \"pid\": 1, \"tid\": 2, \"ts\": 1},{\"ph\": \"E\", \"pid\": "
    "1, \"tid\": 2, \"ts\": 3}"
    "], \"distributedInfo\": {\"rank\": 3, \"world_size\": 8}, \"traceName\": \"x\"}\n";

/* All that a reading shows, as text. */
static char *show(const struct reading *r)
{
    static char out[16384];
    size_t n = (size_t)snprintf(out, sizeof out, "rc %d rank %" PRId64 "\n", r->rc, r->t->facts.rank);
    for (uint32_t i = 0; i < gw_trace_count(r->t); i++) {
        const struct gw_event *e = ev(r, i);
        const struct gw_lane *l = lane_of(r, i);
        n += (size_t)snprintf(out + n, sizeof out - n,
                              "%u %" PRId64 " %" PRId64 " %u %u %" PRIu64 " %" PRIu64 " %s/%s %" PRId64 "\n", e->kind,
                              e->start, e->end, e->flags, e->lane, e->corr, e->arg0, name_of(r, i),
                              gw_trace_text(r->t, l->name), l->type == GW_LANE_GPU ? l->device : l->pid);
    }
    for (int i = 0; i < GW_LOSS_COUNT; i++)
        if (r->t->loss[i].count)
            n += (size_t)snprintf(out + n, sizeof out - n, "%s %" PRIu64 " at %" PRId64 "\n", gw_loss_id((unsigned)i),
                                  r->t->loss[i].count, r->t->loss[i].first_byte);
    return out;
}

static void test_block_sizes(void **state)
{
    (void)state;
    struct reading r = read_bytes(borders, sizeof borders - 1, 0, 2);
    char *want = strdup(show(&r));
    reading_free(&r);
    assert_non_null(strstr(want, "q\"uo\\ted {[ \xf0\x9f\x98\x80/main"));
    assert_non_null(strstr(want, "C:\\end\\/main"));
    assert_non_null(strstr(want, "10000 12001 ")); /* 10.0005 us, half to even */
    assert_non_null(strstr(want, "damaged 2"));
    assert_non_null(strstr(want, "rank 3"));
    for (size_t block = 1; block < sizeof borders + 2; block += block < 140 ? 1 : 13)
        for (int threads = 1; threads <= 3; threads += 2) {
            r = read_bytes(borders, sizeof borders - 1, block, threads);
            if (strcmp(show(&r), want))
                fail_msg("blocks of %zu, %d threads:\n%s---\n%s", block, threads, show(&r), want);
            reading_free(&r);
        }
    free(want);
}

/* ---- the splitter alone ---- */

static size_t split_all(const char *isa, const char *text, size_t len, char *out, size_t cap)
{
    struct gw_split s;
    size_t start, n, o = 0, at = 0;
    gw_split_init(&s, 0);
    if (gw_split_force(&s, isa) < 0)
        return 0;
    enum gw_split_result rc;
    while ((rc = gw_split_next(&s, text + at, len - at, 1, &start, &n)) == GW_SPLIT_EVENT)
        o += (size_t)snprintf(out + o, cap - o, "%zu+%zu ", at + start, n);
    snprintf(out + o, cap - o, "%d at %zu, %d damaged from %d", (int)rc, at + s.pos, (int)s.damaged, (int)s.damaged_at);
    return o + 1;
}

static void test_vector_and_scalar_agree(void **state)
{
    (void)state;
    static const char *const pieces[] = {"{",
                                         "}",
                                         "\"",
                                         "\\",
                                         "[",
                                         "]",
                                         ",",
                                         ":",
                                         " ",
                                         "\n",
                                         "{\"ph\": \"X\"}",
                                         "{\"ph\":",
                                         "abc",
                                         "\\\"",
                                         "\\\\",
                                         "\"k\": {\"a\": \"}{\"}",
                                         "12.5",
                                         "{\"name\": \"",
                                         "\", \"b\": ",
                                         "\xff",
                                         "                                                                 "};
    char text[1024 + 64], a[8192], b[8192], c[8192];
    uint32_t x = 1;
    int vectors = 0;
    for (int round = 0; round < 20000; round++) {
        size_t n = 0;
        memset(text, 0, sizeof text);
        do {
            x = x * 1664525u + 1013904223u;
            const char *p = pieces[(x >> 16) % (sizeof pieces / sizeof *pieces)];
            n += (size_t)sprintf(text + n, "%s", p);
        } while (n < 900 && (x >> 8) % 61);
        split_all("scalar", text, n, a, sizeof a);
        if (split_all("sse2", text, n, b, sizeof b)) {
            vectors++;
            assert_string_equal(a, b);
        }
        if (split_all("avx2", text, n, c, sizeof c))
            assert_string_equal(a, c);
    }
#if defined(__x86_64__)
    assert_int_equal(vectors, 20000);
#endif
}

static void test_quote_rule(void **state)
{
    (void)state;
    static const struct {
        const char *text; /* behind a backslash, from the quote on */
        int complete, closes;
    } cases[] = {
        {"\", \"pid\": 1}", 1, 1}, /* a key follows: "...\" really ended */
        {"\"}, {\"ph\": 1", 1, 1},
        {"\" more\", \"b\": 1", 1, 0},       /* text follows: an escape */
        {"\", \\\"b\\\": 1\", \"c\"", 1, 0}, /* members inside of text */
        {"\"]}", 1, 1},                      /* no quote follows at all: it must close */
        {"\"", 1, 0},
        {"\"", 0, -1},
        {"\", ", 0, -1},
        {"\", \"pid", 0, 1},
        {"\", \"", 0, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(gw_json_quote_closes(cases[i].text, cases[i].text + strlen(cases[i].text), cases[i].complete),
                         cases[i].closes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),        cmocka_unit_test(test_gzip),
        cmocka_unit_test(test_gzip_members), cmocka_unit_test(test_gzip_cut),
        cmocka_unit_test(test_gzip_damaged), cmocka_unit_test(test_zstd),
        cmocka_unit_test(test_pipe),         cmocka_unit_test(test_silent_pipe),
        cmocka_unit_test(test_block_sizes),  cmocka_unit_test(test_vector_and_scalar_agree),
        cmocka_unit_test(test_quote_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
