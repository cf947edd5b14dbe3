/* Arena, growable array, string table, error text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/gw_arena.h"
#include "base/gw_error.h"
#include "base/gw_intern.h"

/* ---- arena ---- */

static void test_arena_zeroed_and_aligned(void **state)
{
    (void)state;
    struct gw_arena *a = gw_arena_create(0);
    unsigned char *last = NULL;
    for (size_t n = 0; n < 3000; n++) {
        unsigned char *p = gw_arena_alloc(a, n % 97);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < n % 97; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xa5, n % 97); /* must not show up in a later one */
        if (n % 97)
            assert_ptr_not_equal(p, last);
        last = n % 97 ? p : NULL;
    }
    gw_arena_destroy(a);
}

/* Big ones between small ones: none overlaps another. */
static void test_arena_no_overlap(void **state)
{
    (void)state;
    enum { N = 400 };
    static const size_t sizes[] = {1, 17, 300, 5000, 16384, 16400, 70000, 200000};
    struct gw_arena *a = gw_arena_create(0);
    unsigned char *p[N];
    size_t want = 0;
    for (size_t i = 0; i < N; i++) {
        size_t n = sizes[i % (sizeof sizes / sizeof *sizes)];
        p[i] = gw_arena_alloc(a, n);
        assert_non_null(p[i]);
        memset(p[i], (int)(i % 251) + 1, n);
        want += n;
    }
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < sizes[i % (sizeof sizes / sizeof *sizes)]; k++)
            if (p[i][k] != i % 251 + 1)
                fail_msg("allocation %zu was written over at byte %zu", i, k);
    assert_true(gw_arena_bytes(a) >= want);
    assert_true(gw_arena_bytes(a) < want + want / 4 + 131072); /* and little is wasted */
    gw_arena_destroy(a);
}

static void test_arena_cap(void **state)
{
    (void)state;
    struct gw_arena *a = gw_arena_create(100000);
    assert_null(gw_arena_alloc(a, 100001));
    assert_non_null(gw_arena_alloc(a, 90000));
    assert_null(gw_arena_alloc(a, 20000));
    assert_true(gw_arena_bytes(a) <= 100000);
    assert_null(gw_arena_calloc(a, SIZE_MAX / 2, 3)); /* the product overflows */
    assert_null(gw_arena_alloc(a, SIZE_MAX - 8));
    assert_null(gw_arena_strndup(a, "x", SIZE_MAX));
    gw_arena_destroy(a);
    gw_arena_destroy(NULL);
}

static void test_arena_text(void **state)
{
    (void)state;
    struct gw_arena *a = gw_arena_create(70000);
    assert_string_equal(gw_arena_printf(a, "%d %s", 7, "steps"), "7 steps");
    assert_string_equal(gw_arena_strdup(a, ""), "");
    char *s = gw_arena_strndup(a, "a\0b", 3);
    assert_memory_equal(s, "a\0b", 4); /* the bytes, then a NUL */
    while (gw_arena_alloc(a, 1000))
        ;
    char big[2000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = 0;
    assert_string_equal(gw_arena_printf(a, "%s", big), ""); /* never NULL: texts are used unchecked */
    gw_arena_destroy(a);
}

/* ---- array ---- */

static void test_array_grows(void **state)
{
    (void)state;
    struct gw_array arr;
    gw_array_init(&arr, sizeof(uint64_t), 0);
    for (uint64_t i = 0; i < 300000; i++) {
        uint64_t *p = gw_array_push(&arr);
        assert_non_null(p);
        assert_int_equal(*p, 0);
        *p = i * 3 + 1;
    }
    assert_int_equal(arr.len, 300000);
    for (uint64_t i = 0; i < arr.len; i++) /* moved many times, nothing lost */
        assert_int_equal(((uint64_t *)arr.data)[i], i * 3 + 1);
    arr.len = 10;
    assert_int_equal(*(uint64_t *)gw_array_push(&arr), 0); /* zeroed again after being used */
    gw_array_free(&arr);
    assert_null(arr.data);
    assert_int_equal(arr.len, 0);
    assert_non_null(gw_array_push(&arr)); /* usable again */
    gw_array_free(&arr);
}

static void test_array_cap(void **state)
{
    (void)state;
    struct gw_array arr;
    gw_array_init(&arr, 24, 1000);
    for (int i = 0; i < 1000; i++)
        assert_non_null(gw_array_push(&arr));
    assert_null(gw_array_push(&arr));
    assert_int_equal(arr.len, 1000);
    assert_int_equal(gw_array_reserve(&arr, 1), GW_ENOMEM);
    assert_int_equal(gw_array_reserve(&arr, 0), GW_OK);
    assert_int_equal(gw_array_reserve(&arr, SIZE_MAX), GW_ENOMEM); /* len + extra overflows */
    gw_array_free(&arr);
    gw_array_init(&arr, 64, 0);
    assert_int_equal(gw_array_reserve(&arr, SIZE_MAX / 64 + 1), GW_ENOMEM); /* bytes overflow */
    assert_int_equal(gw_array_reserve(&arr, 5), GW_OK);
    assert_true(arr.cap >= 5);
    gw_array_free(&arr);
}

static void test_array_odd_sizes(void **state)
{
    (void)state;
    struct gw_array arr;
    gw_array_init(&arr, 5000, 0); /* larger than a page */
    for (int i = 0; i < 50; i++)
        memset(gw_array_push(&arr), i + 1, 5000);
    for (int i = 0; i < 50; i++)
        for (size_t k = 0; k < 5000; k += 4999)
            assert_int_equal(((unsigned char *)arr.data)[(size_t)i * 5000 + k], i + 1);
    gw_array_free(&arr);
}

/* ---- string table ---- */

static void test_intern_ids(void **state)
{
    (void)state;
    struct gw_intern *in = gw_intern_create();
    assert_int_equal(gw_intern_add(in, "", 0), 0);
    assert_int_equal(gw_intern_add(in, "a", 1), 1); /* they count up in order of first sight */
    assert_int_equal(gw_intern_add(in, "b", 1), 2);
    assert_int_equal(gw_intern_add(in, "a", 1), 1);
    assert_int_equal(gw_intern_find(in, "b", 1), 2);
    assert_int_equal(gw_intern_find(in, "c", 1), 0);
    assert_int_equal(gw_intern_count(in), 2);
    assert_string_equal(gw_intern_text(in, 0), "");
    assert_string_equal(gw_intern_text(in, 99), "");
    assert_int_equal(gw_intern_len(in, 99), 0);
    uint32_t nul = gw_intern_add(in, "a\0x", 3), nul2 = gw_intern_add(in, "a\0y", 3);
    assert_true(nul != 1 && nul != nul2); /* any bytes, compared as a whole */
    assert_memory_equal(gw_intern_text(in, nul2), "a\0y", 4);
    assert_int_equal(gw_intern_len(in, nul2), 3);
    gw_intern_destroy(in);
    gw_intern_destroy(NULL);
}

struct hashed {
    uint32_t hash, number;
};

static int by_hash(const void *a, const void *b)
{
    const struct hashed *x = a, *y = b;
    return x->hash != y->hash ? (x->hash > y->hash) - (x->hash < y->hash)
                              : (x->number > y->number) - (x->number < y->number);
}

/* 200000 strings through many rehashes; among so many, some share the 32 bits of hash that the table compares. */
static void test_intern_many_and_collisions(void **state)
{
    (void)state;
    enum { N = 200000 };
    struct gw_intern *in = gw_intern_create();
    struct hashed *h = malloc(N * sizeof *h);
    char s[32];
    for (uint32_t i = 0; i < N; i++) {
        int n = snprintf(s, sizeof s, "kernel_%u", i * 7919u);
        h[i] = (struct hashed){(uint32_t)gw_hash_bytes(s, (size_t)n), i};
        assert_int_equal(gw_intern_add(in, s, (size_t)n), i + 1);
    }
    for (uint32_t i = 0; i < N; i++) {
        int n = snprintf(s, sizeof s, "kernel_%u", i * 7919u);
        if (gw_intern_find(in, s, (size_t)n) != i + 1 || strcmp(gw_intern_text(in, i + 1), s))
            fail_msg("\"%s\" is %u, not %u", s, gw_intern_find(in, s, (size_t)n), i + 1);
    }
    qsort(h, N, sizeof *h, by_hash);
    int pairs = 0;
    for (uint32_t i = 1; i < N; i++)
        pairs += h[i].hash == h[i - 1].hash;
    assert_true(pairs > 0);  /* else the test proves nothing about collisions: N^2 / 2^33 = 4.7 are to be expected */
    assert_true(pairs < 60); /* and the hash is no hash when there are many */
    free(h);
    gw_intern_destroy(in);
}

static void test_hash_reads_only_its_bytes(void **state)
{
    (void)state;
    for (size_t n = 0; n < 40; n++) {
        char *p = malloc(n + 1), *q = malloc(n + 1); /* exact size: the sanitizer sees a read past the end */
        memset(p, 'a', n + 1);
        memset(q, 'a', n + 1);
        p[n] = 'x';
        char *exact = n ? malloc(n) : NULL;
        if (exact)
            memcpy(exact, q, n);
        assert_true(gw_hash_bytes(p, n) == gw_hash_bytes(q, n));
        assert_true(!exact || gw_hash_bytes(exact, n) == gw_hash_bytes(q, n));
        for (size_t k = 0; k < n; k++) { /* every byte counts */
            q[k] ^= 1;
            assert_true(gw_hash_bytes(p, n) != gw_hash_bytes(q, n));
            q[k] ^= 1;
        }
        free(p);
        free(q);
        free(exact);
    }
}

/* ---- errors ---- */

static void test_error_first_wins(void **state)
{
    (void)state;
    struct gw_error err = {0};
    char buf[1024];
    assert_int_equal(gw_error_set(&err, GW_EFORMAT, "t.json", 17, "copy it again", "bad token '%c'", 'x'), GW_EFORMAT);
    assert_int_equal(gw_error_set(&err, GW_EIO, "other", 99, "", "later"), GW_EIO); /* returned, not kept */
    assert_int_equal(err.code, GW_EFORMAT);
    assert_string_equal(gw_error_text(&err, buf, sizeof buf), "t.json: byte 17: bad token 'x'; copy it again");
    assert_int_equal(gw_error_set(NULL, GW_ENOMEM, NULL, -1, NULL, "x"), GW_ENOMEM);
}

static void test_error_places(void **state)
{
    (void)state;
    char buf[1024];
    struct gw_error err = {0};
    gw_error_set(&err, GW_EIO, NULL, -1, NULL, "no file");
    assert_string_equal(gw_error_text(&err, buf, sizeof buf), "no file");
    err = (struct gw_error){0};
    gw_error_set(&err, GW_EFORMAT, "a.csv", -1, NULL, "bad row");
    err.line = 3;
    assert_string_equal(gw_error_text(&err, buf, sizeof buf), "a.csv: line 3: bad row");
    err = (struct gw_error){.code = GW_ENOMEM, .byte = -1};
    assert_string_equal(gw_error_text(&err, buf, sizeof buf), "out of memory"); /* the code's own words */
}

static void test_error_is_one_clean_line(void **state)
{
    (void)state;
    char long_name[600], buf[64];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    struct gw_error err = {0};
    gw_error_set(&err, GW_EFORMAT, long_name, 0, long_name, "line\nfeed \033[31m %s", long_name);
    assert_int_equal(strlen(gw_error_text(&err, buf, sizeof buf)), sizeof buf - 1); /* cut, not overrun */
    err = (struct gw_error){0};
    gw_error_set(&err, GW_EFORMAT, "a\tb", -1, NULL, "line\nfeed \033[31m\177");
    assert_string_equal(gw_error_text(&err, buf, sizeof buf), "a?b: line?feed ?[31m?");
}

static void test_code_names(void **state)
{
    (void)state;
    assert_string_equal(gw_code_name(GW_OK), "ok");
    assert_string_equal(gw_code_name(GW_ENOMEM), "out of memory");
    assert_string_equal(gw_code_name(GW_ETRUNC), "the input ends early");
    assert_string_equal(gw_code_name(GW_EINTR), "interrupted"); /* the last: the table has a row for each */
    assert_string_equal(gw_code_name(GW_EINTR - 1), "unknown error");
    assert_string_equal(gw_code_name(1), "unknown error");
    assert_string_equal(gw_code_name(INT32_MIN + 1), "unknown error");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arena_zeroed_and_aligned),
        cmocka_unit_test(test_arena_no_overlap),
        cmocka_unit_test(test_arena_cap),
        cmocka_unit_test(test_arena_text),
        cmocka_unit_test(test_array_grows),
        cmocka_unit_test(test_array_cap),
        cmocka_unit_test(test_array_odd_sizes),
        cmocka_unit_test(test_intern_ids),
        cmocka_unit_test(test_intern_many_and_collisions),
        cmocka_unit_test(test_hash_reads_only_its_bytes),
        cmocka_unit_test(test_error_first_wins),
        cmocka_unit_test(test_error_places),
        cmocka_unit_test(test_error_is_one_clean_line),
        cmocka_unit_test(test_code_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
