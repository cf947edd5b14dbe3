/* Two reports compared: noise, parts, kernels, promises, scaling and gates, on reports of a few lines. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/diff.h"

#define US 1000LL

static struct gw_arena *arena;

static int begin(void **state)
{
    (void)state;
    arena = gw_arena_create(0);
    return !arena;
}

static int end(void **state)
{
    (void)state;
    gw_arena_destroy(arena);
    return 0;
}

/* A report: steps in us, then shares of the wall in percent (the rest is idle), one cause for all idle time. */
struct side {
    const char *steps; /* "100 101 99" */
    int compute, comm, copies;
    enum gw_cause cause;
    const struct gw_report_kernel *kernels;
    size_t kernel_count;
    int64_t ranks;
    const char *gpu;
    const struct gw_finding *finding;
};

static struct gw_report *report(const struct side *s)
{
    struct gw_report *r = gw_arena_alloc(arena, sizeof *r);
    struct gw_report_device *d = gw_arena_alloc(arena, sizeof *d);
    struct gw_cause_total *c = gw_arena_alloc(arena, sizeof *c);
    int64_t *times = gw_arena_calloc(arena, 100, sizeof *times), wall = 0;
    size_t n = 0;
    char *text = gw_arena_strdup(arena, s->steps), *save;
    for (char *w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        times[n] = atoll(w) * US;
        wall += times[n++];
    }
    int64_t busy = wall * (s->compute + s->comm + s->copies) / 100;
    *c = (struct gw_cause_total){.cause = s->cause, .ns = wall - busy, .gaps = 1};
    *d = (struct gw_report_device){
        .name = s->gpu ? s->gpu : "NVIDIA H200", .rank = -1, .idle_by_cause = c, .cause_count = wall > busy};
    d->steady = (struct gw_partition){.wall = wall,
                                      .compute = wall * s->compute / 100,
                                      .comm_exposed = wall * s->comm / 100,
                                      .copy_exposed = wall * s->copies / 100,
                                      .idle = wall - busy};
    *r = (struct gw_report){.ranks = s->ranks ? s->ranks : 1,
                            .world_size = -1,
                            .devices = d,
                            .device_count = 1,
                            .step_times = times,
                            .step_time_count = n,
                            .kernels = s->kernels,
                            .kernel_count = s->kernel_count,
                            .kernel_classes = s->kernels,
                            .kernel_class_count = s->kernel_count,
                            .findings = s->finding,
                            .finding_count = s->finding != NULL};
    r->steps = (struct gw_report_steps){.count = (int64_t)n, .steady_count = (int64_t)n, .median_ns = -1};
    r->verdict.finding = s->finding ? s->finding->id : "none";
    r->trust.complete = 1;
    return r;
}

static struct gw_diff *diff(const struct side *a, const struct side *b)
{
    struct gw_diff *d = gw_diff_make(report(a), report(b), NULL, arena);
    assert_non_null(d);
    return d;
}

#define BUSY .compute = 99, .cause = GW_CAUSE_KERNEL_GAP /* the GPU sets the pace */
#define HOST .compute = 50, .cause = GW_CAUSE_LAUNCH     /* the host does */

static void test_same(void **state)
{
    (void)state;
    const struct side a = {.steps = "1000 1001 999 1000 1002 1000", BUSY};
    struct gw_diff *d = diff(&a, &a);
    assert_int_equal(d->change, GW_DIFF_SAME);
    assert_true(d->ratio == 1 && d->low < 1 && d->high > 1);
    /* 1 % from run to run on each side: 1.96 * 1 % * sqrt 2 and next to nothing from the scatter */
    assert_true(fabs(log(d->high) - 1.96 * 0.01 * sqrt(2)) < 0.005);
    for (size_t i = 0; i < d->part_count; i++)
        assert_false(d->parts[i].real);
    assert_int_equal(d->cause_count, 1);
    assert_false(d->causes[0].real);
}

/* 2 % more: within what recordings of one job differ by. 10 % more: not. */
static void test_small_and_large(void **state)
{
    (void)state;
    const struct side a = {.steps = "1000 1001 999 1000 1002 1000", BUSY},
                      b = {.steps = "1020 1021 1019 1020 1022 1020", BUSY},
                      c = {.steps = "1100 1101 1099 1100 1102 1100", BUSY};
    assert_int_equal(diff(&a, &b)->change, GW_DIFF_SAME);
    assert_int_equal(diff(&a, &c)->change, GW_DIFF_SLOWER);
    assert_int_equal(diff(&c, &a)->change, GW_DIFF_FASTER);
    struct gw_diff *d = diff(&a, &c);
    assert_true(fabs(d->ratio - 1.1) < 1e-9);
    assert_true(d->low > 1.06 && d->high < 1.14);
}

/* Where the host sets the pace, the same 10 % are nothing; half as much again is something. */
static void test_host_paced(void **state)
{
    (void)state;
    const struct side a = {.steps = "1000 1001 999 1000 1002 1000", HOST},
                      b = {.steps = "1100 1101 1099 1100 1102 1100", HOST},
                      c = {.steps = "1500 1501 1499 1500 1502 1500", HOST};
    assert_int_equal(diff(&a, &b)->change, GW_DIFF_SAME);
    assert_int_equal(diff(&a, &c)->change, GW_DIFF_SLOWER);
    /* known to be a quiet machine */
    const struct gw_diff_options quiet = {.run_noise = 0.01};
    struct gw_diff *d = gw_diff_make(report(&a), report(&b), &quiet, arena);
    assert_int_equal(d->change, GW_DIFF_SLOWER);
}

/* The wider the steps scatter, the less can be told; and more so from few of them. */
static void test_scatter(void **state)
{
    (void)state;
    const struct side a = {.steps = "1000 1200 800 1100 900 1000 1150 850", BUSY},
                      b = {.steps = "1250 1500 1000 1375 1125 1250 1400 1100", BUSY},
                      c = {.steps = "1000 1200 800", BUSY}, f = {.steps = "1000", BUSY};
    assert_int_equal(diff(&a, &b)->change, GW_DIFF_SAME);
    struct gw_diff *many = diff(&a, &a), *few = diff(&c, &c);
    assert_true(few->high > many->high);
    assert_int_equal(diff(&a, &f)->change, GW_DIFF_UNKNOWN);
    assert_true(isnan(diff(&a, &f)->low));
}

/* Two copies of the same job with a jitter of 1 %: no real change. */
static void test_jittered(void **state)
{
    (void)state;
    const struct side a = {.steps = "1003 997 1008 992 1001 999 1006 995", BUSY},
                      b = {.steps = "1000 1009 991 1004 996 1002 1007 993", BUSY};
    assert_int_equal(diff(&a, &b)->change, GW_DIFF_SAME);
}

static void test_slow_steps(void **state)
{
    (void)state;
    const struct side a = {.steps = "1000 1000 9000 1000 1000 1000 1000", BUSY},
                      b = {.steps = "1000 1000 1000 1000 1000 1000 1000", BUSY};
    struct gw_diff *d = diff(&a, &b);
    assert_int_equal(d->change, GW_DIFF_SAME);
    assert_int_equal(d->slow_changed, 1);
    assert_int_equal(d->a.slow, 1);
    assert_true(fabs(d->mean_ratio - 7.0 / 15) < 1e-9);
    assert_int_equal(diff(&b, &b)->slow_changed, 0);
}

/* Parts add up to the mean step on both sides, whatever changed. */
static void test_parts(void **state)
{
    (void)state;
    const struct side
        a = {.steps = "1000 1000 1000 1000", .compute = 40, .comm = 20, .copies = 10, .cause = GW_CAUSE_DATA_WAIT},
        b = {.steps = "800 800 800 800", .compute = 50, .comm = 25, .copies = 13, .cause = GW_CAUSE_HOST_SYNC};
    struct gw_diff *d = diff(&a, &b);
    double sa = 0, sb = 0;
    for (size_t i = 0; i < d->part_count; i++) {
        sa += d->parts[i].a;
        sb += d->parts[i].b;
    }
    assert_true(fabs(sa - d->a.mean) < 1 && fabs(sb - d->b.mean) < 1);
    assert_int_equal(d->cause_count, 2);
    assert_string_equal(d->causes[0].id, "data-wait"); /* 300 us gone; 96 us of the other came */
    assert_true(d->causes[0].a == 300 * US && d->causes[0].b == 0);
    assert_string_equal(d->parts[2].id, "copies");
    assert_true(d->parts[2].a == 100 * US);
}

static void test_kernels(void **state)
{
    (void)state;
    static const struct gw_report_kernel ka[] = {{"gemm", "matmul", 10, 500000},
                                                 {"add", "elementwise", 100, 100000},
                                                 {"old", "other", 1, 50000}},
                                         kb[] = {{"gemm", "matmul", 10, 501000},
                                                 {"add", "elementwise", 50, 52000},
                                                 {"new", "other", 1, 40000}};
    const struct side a = {.steps = "1000 1000 1000", BUSY, .kernels = ka, .kernel_count = 3},
                      b = {.steps = "1000 1000 1000", BUSY, .kernels = kb, .kernel_count = 3};
    struct gw_diff *d = diff(&a, &b);
    assert_int_equal(d->kernel_count, 4);
    assert_string_equal(d->kernels[0].id, "old");
    assert_string_equal(d->kernels[1].id, "add");
    assert_true(d->kernels[1].na == 100 && d->kernels[1].nb == 50 && d->kernels[1].real);
    assert_string_equal(d->kernels[2].id, "new");
    assert_true(d->kernels[2].a == 0 && d->kernels[2].na == 0);
    assert_string_equal(d->kernels[3].id, "gemm");
    assert_false(d->kernels[3].real); /* 0.2 % is noise */
    assert_int_equal(d->same_work, 0);
    assert_int_equal(diff(&a, &a)->same_work, 1);
}

/* A name that the other side may have cut off its list is not a kernel that came or went. */
static void test_cut_lists(void **state)
{
    (void)state;
    static struct gw_report_kernel ka[GW_REPORT_KERNELS], kb[1] = {{"tiny", "other", 1, 900}};
    static char names[GW_REPORT_KERNELS][8];
    for (size_t i = 0; i < GW_REPORT_KERNELS; i++) {
        snprintf(names[i], sizeof names[i], "k%zu", i);
        ka[i] = (struct gw_report_kernel){names[i], "other", 1, (double)(100000 - 1000 * i)};
    }
    const struct side a = {.steps = "9000 9000 9000", BUSY, .kernels = ka, .kernel_count = GW_REPORT_KERNELS},
                      b = {.steps = "9000 9000 9000", BUSY, .kernels = kb, .kernel_count = 1};
    struct gw_diff *d = diff(&a, &b);
    assert_int_equal(d->kernel_count, GW_REPORT_KERNELS);
    for (size_t i = 0; i < d->kernel_count; i++)
        assert_string_not_equal(d->kernels[i].id, "tiny");
}

static void test_promise(void **state)
{
    (void)state;
    static const struct gw_finding f = {.id = "host-sync", .gain = {1.2, 1.5, 1.8}},
                                   still = {.id = "host-sync", .gain = {1.2, 1.45, 1.7}};
    const struct side a = {.steps = "1500 1500 1500 1500", BUSY, .finding = &f},
                      within = {.steps = "1000 1000 1000 1000", BUSY}, less = {.steps = "1400 1400 1400 1400", BUSY},
                      more = {.steps = "500 500 500 500", BUSY},
                      kept = {.steps = "1500 1500 1500 1500", BUSY, .finding = &still};
    struct gw_diff *d = diff(&a, &within);
    assert_int_equal(d->promise.outcome, GW_DIFF_WITHIN);
    assert_true(fabs(d->promise.actual - 1.5) < 1e-9 && d->promise.still == 1);
    assert_int_equal(diff(&a, &less)->promise.outcome, GW_DIFF_LESS);
    assert_int_equal(diff(&a, &more)->promise.outcome, GW_DIFF_MORE);
    assert_int_equal(diff(&a, &kept)->promise.outcome, GW_DIFF_NOT_DONE);
    assert_null(diff(&within, &a)->promise.finding);
    assert_int_equal(diff(&within, &a)->promise.outcome, GW_DIFF_NONE);
}

/* Eight GPUs with the same work each: a step of 1250 instead of 1000 us is 80 %. */
static void test_scaling(void **state)
{
    (void)state;
    const struct side one = {.steps = "1000 1000 1000", .compute = 90, .cause = GW_CAUSE_LAUNCH},
                      eight = {
                          .steps = "1250 1250 1250", .compute = 72, .comm = 20, .cause = GW_CAUSE_LAUNCH, .ranks = 8};
    struct gw_diff *d = diff(&one, &eight);
    assert_int_equal(d->scaling.few, 1);
    assert_int_equal(d->scaling.many, 8);
    assert_true(d->scaling.more_is_b);
    assert_true(fabs(d->scaling.work - 1) < 1e-9);
    assert_true(fabs(d->scaling.efficiency - 0.8) < 1e-9);
    assert_string_equal(d->scaling.grew, "comm");
    assert_true(d->scaling.grew_ns == 250 * US);
    d = diff(&eight, &one);
    assert_false(d->scaling.more_is_b);
    assert_true(fabs(d->scaling.efficiency - 0.8) < 1e-9);
    assert_string_equal(d->scaling.grew, "comm");
    assert_int_equal(diff(&one, &one)->scaling.few, 0);
}

static void test_nothing_to_compare(void **state)
{
    (void)state;
    const struct side a = {.steps = "1000 1000 1000", BUSY};
    struct gw_report *none = report(&a), *stepless = report(&a);
    none->device_count = 0;
    stepless->steps.steady_count = 0;
    stepless->step_time_count = 0;
    struct gw_diff *d = gw_diff_make(report(&a), none, NULL, arena);
    assert_string_equal(d->why_not, "B holds no GPU work");
    assert_int_equal(d->change, GW_DIFF_UNKNOWN);
    d = gw_diff_make(stepless, report(&a), NULL, arena);
    assert_string_equal(d->why_not, "no steps were found in A");
    struct gw_gate g;
    char why[200];
    double v;
    assert_int_equal(gw_gate_parse("step>+5%", &g, why, sizeof why), 0);
    assert_int_equal(gw_gate_crossed(d, &g, 0, &v), -1);
}

/* ---- gates ---- */

static int crossed(const struct gw_diff *d, const char *text, int strict, double want)
{
    struct gw_gate g;
    char why[200];
    double v;
    if (gw_gate_parse(text, &g, why, sizeof why) < 0)
        fail_msg("%s: %s", text, why);
    int c = gw_gate_crossed(d, &g, strict, &v);
    if (isfinite(want) && !(fabs(v - want) < 1e-6 * fmax(1, fabs(want))))
        fail_msg("%s: %g, not %g", text, v, want);
    return c;
}

static void test_gates(void **state)
{
    (void)state;
    static const struct gw_report_kernel ka[] = {{"sgemm_128", "matmul", 1, 400000}, {"sgemm_64", "matmul", 1, 100000}},
                                         kb[] = {{"sgemm_128", "matmul", 1, 800000}, {"sgemm_64", "matmul", 1, 200000}};
    const struct side a = {.steps = "1000 1000 1000 1000",
                           .compute = 99,
                           .cause = GW_CAUSE_DATA_WAIT,
                           .kernels = ka,
                           .kernel_count = 2},
                      b = {.steps = "1100 1100 1100 1100",
                           .compute = 70,
                           .cause = GW_CAUSE_DATA_WAIT,
                           .kernels = kb,
                           .kernel_count = 2},
                      c = {.steps = "1020 1020 1020 1020", .compute = 99, .cause = GW_CAUSE_DATA_WAIT};
    const struct gw_diff_options quiet = {.run_noise = 0.01};
    struct gw_diff *d = gw_diff_make(report(&a), report(&b), &quiet, arena),
                   *noise = gw_diff_make(report(&a), report(&c), &quiet, arena);
    assert_int_equal(crossed(d, "step>+5%", 0, 10), 1);
    assert_int_equal(crossed(d, "step>+15%", 0, 10), 0);
    assert_int_equal(crossed(d, "step>+50us", 0, 100 * US), 1);
    assert_int_equal(crossed(d, "step>1.05ms", 0, 1100 * US), 1);
    assert_int_equal(crossed(d, "step>2ms", 0, 1100 * US), 0);
    assert_int_equal(crossed(d, "idle>25%", 0, 30), 1);
    assert_int_equal(crossed(d, "idle>35%", 0, 30), 0);
    assert_int_equal(crossed(d, "compute<80%", 0, 70), 1);
    assert_int_equal(crossed(d, "cause:data-wait>+100us", 0, 320 * US), 1);
    assert_int_equal(crossed(d, "cause:checkpoint>+1ns", 0, 0), 0);
    assert_int_equal(crossed(d, "kernel:sgemm>+50%", 0, 100), 1);
    assert_int_equal(crossed(d, "kernel:nothing>+1%", 0, 0), 0);
    assert_int_equal(crossed(d, "comm>+1%", 0, 0), 0);
    /* an improvement that is missing */
    assert_int_equal(crossed(d, "step>-10%", 0, 10), 1);
    /* 2 % is noise, but not for those who want to know */
    assert_int_equal(crossed(noise, "step>+1%", 0, 2), 0);
    assert_int_equal(crossed(noise, "step>+1%", 1, 2), 1);
}

static void test_gate_grammar(void **state)
{
    (void)state;
    struct gw_gate g;
    char why[200];
    static const char *const bad[] = {"",          "step",        "step>",
                                      "step>5",    "step>five%",  "steps>+5%",
                                      ">+5%",      "kernel:>+5%", "cause:nonsense>+5%",
                                      "step>+5 %", "step>+nan%",  "step>+inf%",
                                      "step>+5%%", "step=+5%",    "idle>+5minutes"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        why[0] = 0;
        if (gw_gate_parse(bad[i], &g, why, sizeof why) != GW_EUSAGE || !why[0])
            fail_msg("'%s' was taken, or refused without a word", bad[i]);
    }
    assert_int_equal(gw_gate_parse("kernel:foo<int>::bar>-0.5ms", &g, why, sizeof why), 0);
    assert_string_equal(g.metric, "kernel:foo<int>::bar");
    assert_true(g.relative && !g.percent && !g.below && g.limit == -500 * US);
    assert_int_equal(gw_gate_parse("copies<10%", &g, why, sizeof why), 0);
    assert_true(!g.relative && g.percent && g.below && g.limit == 10);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {T(test_same),    T(test_small_and_large), T(test_host_paced),
                                       T(test_scatter), T(test_jittered),        T(test_slow_steps),
                                       T(test_parts),   T(test_kernels),         T(test_cut_lists),
                                       T(test_promise), T(test_scaling),         T(test_nothing_to_compare),
                                       T(test_gates),   T(test_gate_grammar)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
