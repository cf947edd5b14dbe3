/* Repetition in a sequence of kernels: periods by hand, noise, and sequences without any. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/analysis.h"
#include "engine/steps.h"
#include "text_trace.h"

/* One letter, one kernel. */
static size_t period(const char *letters, double *share)
{
    uint32_t seq[4096];
    size_t n = strlen(letters);
    assert_true(n <= sizeof seq / sizeof *seq);
    for (size_t i = 0; i < n; i++)
        seq[i] = (uint32_t)(unsigned char)letters[i];
    return gw_steps_period(seq, n, share);
}

static void test_plain(void **state)
{
    (void)state;
    double share;
    assert_int_equal(period("abcabcabcabc", &share), 3);
    assert_true(share == 1.0);
    assert_int_equal(period("aaaaaaaaaa", &share), 1);
    assert_int_equal(period("abababab", &share), 2);
}

/* The smallest period that fits counts, not a multiple of it; a name that occurs twice in a step does not halve it. */
static void test_smallest(void **state)
{
    (void)state;
    double share;
    assert_int_equal(period("aabcaabcaabcaabcaabcaabcaabcaabc", &share), 4);
    assert_int_equal(period("abacabacabacabac", &share), 4);
}

static void test_noise(void **state)
{
    (void)state;
    double share;
    /* ten steps of five kernels with one foreign kernel in place of another: 4 of 45 comparisons fail at most */
    assert_int_equal(period("abcdeabcdeabcdeabxdeabcdeabcdeabcdeabydeabcdeabcde", &share), 5);
    assert_true(share > 0.85 && share < 1.0);
}

static void test_none(void **state)
{
    (void)state;
    double share = 9;
    assert_int_equal(period("", &share), 0);
    assert_int_equal(period("abc", &share), 0);
    assert_int_equal(period("abcabc", &share), 0); /* twice is no rhythm */
    assert_int_equal(period("abcdefghijklmnopqrstuvwx", &share), 0);
    assert_int_equal(period("abcdbadcabddcabcbdacadbc", &share), 0);
    assert_true(share == 0);
}

/* Long sequences stay cheap: half a million kernels, a period of 5000 with every name twice in it. */
static void test_long(void **state)
{
    (void)state;
    enum { N = 500000, P = 5000 };
    uint32_t *seq = malloc(N * sizeof *seq);
    for (uint32_t i = 0; i < N; i++)
        seq[i] = i % P < P / 2 ? i % P : i % P < P / 2 + 7 ? 9999 : P - 1 - i % P + 7;
    double share;
    assert_int_equal(gw_steps_period(seq, N, &share), P);
    for (uint32_t i = 0; i < N; i++) /* random: no period, and no quadratic search for one */
        seq[i] = (i * 2654435761u) >> 20;
    gw_steps_period(seq, N, &share);
    free(seq);
}

/* A recording with very many ranges and very many periods must not take their product. */
static void test_many_ranges_many_periods(void **state)
{
    (void)state;
    struct gw_trace *t = gw_trace_create(0);
    uint32_t host = gw_trace_lane_host(t, 1, 1), gpu = gw_trace_lane_gpu(t, 0, 7);
    uint32_t k = gw_trace_name(t, "k", 1), call = gw_trace_name(t, "cudaLaunchKernel", 16),
             range = gw_trace_name(t, "r", 1);
    enum { N = 60000 };
    for (int64_t i = 0; i < N; i++) {
        gw_trace_add(t, &(struct gw_event){
                            .kind = GW_KIND_ANNOT, .start = i * 100, .end = i * 100 + 20, .lane = host, .name = range});
        gw_trace_add(t, &(struct gw_event){.kind = GW_KIND_API,
                                           .start = i * 100 + 30,
                                           .end = i * 100 + 35,
                                           .lane = host,
                                           .name = call,
                                           .corr = (uint64_t)i,
                                           .flags = GW_EV_HAS_CORR});
        gw_trace_add(t, &(struct gw_event){.kind = GW_KIND_KERNEL,
                                           .start = i * 100 + 40,
                                           .end = i * 100 + 90,
                                           .lane = gpu,
                                           .name = k,
                                           .corr = (uint64_t)i,
                                           .flags = GW_EV_HAS_CORR});
    }
    assert_int_equal(gw_trace_finish(t), GW_OK);
    struct gw_arena *a = gw_arena_create(0);
    struct gw_analysis *an = gw_analyse(t, a);
    assert_non_null(an);
    assert_string_equal(an->steps.found_by, "kernel-sequence");
    gw_arena_destroy(a);
    gw_trace_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain), cmocka_unit_test(test_smallest), cmocka_unit_test(test_noise),
        cmocka_unit_test(test_none),  cmocka_unit_test(test_long),     cmocka_unit_test(test_many_ranges_many_periods),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
