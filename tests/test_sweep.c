/* Measuring at several settings without a job: steps to rates, the search over made-up curves, drift, failures, memory.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sweep/sweep.h"
#include "sweep/sweep_stats.h"

/* --- random numbers that are the same everywhere ---------------------------------------------------------------------
 */

static uint64_t seed;

static double uniform(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) / 9007199254740992.0;
}

static double normal(void)
{
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += uniform();
    return sum - 6;
}

/* --- steps to rates --- */

#define MOST 4000
struct marks {
    int64_t at[MOST];
    size_t n;
};

static void steps(struct marks *m, size_t n, double seconds, double noise)
{
    if (!m->n)
        m->at[m->n++] = 1000;
    for (size_t i = 0; i < n && m->n < MOST; i++, m->n++) {
        double dt = seconds * (1 + noise * normal());
        m->at[m->n] = m->at[m->n - 1] + (int64_t)(1e9 * (dt > 0 ? dt : 0));
    }
}

static struct gw_sweep_rate rate_of(const struct marks *m)
{
    struct gw_sweep_rate r;
    gw_sweep_rate_of_marks(m->at, m->n, &r);
    return r;
}

static void test_steady(void **state)
{
    (void)state;
    struct marks m = {0};
    seed = 1;
    steps(&m, 300, 0.010, 0.1);
    struct gw_sweep_rate r = rate_of(&m);
    assert_true(fabs(r.rate - 100) < 2 && r.error < 0.03 && r.error > 0.002);
    assert_true(r.is_settled);
    assert_int_equal(r.warmup, 0);
    assert_int_equal(r.count, 300);
}

static void test_warmup_is_cut_where_the_level_changes(void **state)
{
    (void)state;
    /* One huge first step; several slow ones; a long slow start; fast ones from a full queue. */
    static const struct {
        size_t n;
        double factor;
    } start[] = {{1, 400}, {5, 20}, {80, 3}, {60, 0.2}};
    for (size_t i = 0; i < sizeof start / sizeof *start; i++) {
        struct marks m = {0};
        seed = 10 + i;
        steps(&m, start[i].n, 0.010 * start[i].factor, 0.05);
        steps(&m, 300, 0.010, 0.05);
        struct gw_sweep_rate r = rate_of(&m);
        assert_true(r.warmup >= start[i].n && r.warmup <= start[i].n + 6); /* pieces of three steps */
        assert_true(fabs(r.rate - 100) < 1.5);
        assert_true(r.is_settled);
    }
}

static void test_not_settled(void **state)
{
    (void)state;
    struct marks m = {0};
    seed = 3;
    steps(&m, 200, 0.030, 0.05);
    steps(&m, 80, 0.010, 0.05); /* the change came late: perhaps there will be another */
    struct gw_sweep_rate r = rate_of(&m);
    assert_false(r.is_settled);
    assert_true(fabs(r.rate - 100) < 3);
}

static void test_no_change_in_noise(void **state)
{
    (void)state;
    size_t cut = 0;
    for (uint64_t s = 0; s < 400; s++) {
        struct marks m = {0};
        seed = 1000 + s;
        steps(&m, 40 + s, 0.010, 0.4);
        cut += rate_of(&m).warmup > 0;
    }
    assert_true(cut <= 8); /* 2 % */
}

/* The interval holds the true rate in at least nine of ten series (95 % wanted; batch means are approximate). */
static void test_interval_covers(void **state)
{
    (void)state;
    size_t independent = 0, bursts = 0, all = 500;
    for (uint64_t s = 0; s < all; s++) {
        struct marks m = {0};
        seed = 77 + 13 * s;
        steps(&m, 120, 0.010, 0.3);
        struct gw_sweep_rate r = rate_of(&m);
        independent += fabs(r.rate - 100) <= 100 * r.error;
        m.n = 0;
        double slow = 0;
        for (int i = 0; i < 240; i++) { /* neighbours resemble each other */
            slow = 0.8 * slow + 0.2 * normal();
            steps(&m, 1, 0.010 * (1 + slow * 0.5), 0);
        }
        r = rate_of(&m);
        bursts += fabs(r.rate - 100) <= 100 * r.error;
    }
    assert_true(independent * 100 > all * 90);
    assert_true(bursts * 100 > all * 85);
}

static void test_little_and_strange(void **state)
{
    (void)state;
    struct marks m = {0};
    for (size_t n = 0; n < GW_SWEEP_LEAST; n++) {
        m.n = 0;
        if (n)
            steps(&m, n, 0.01, 0);
        assert_true(isnan(rate_of(&m).rate) && isinf(rate_of(&m).error));
    }
    for (size_t i = 0; i < 50; i++) /* all at one instant */
        m.at[i] = 5;
    m.n = 50;
    assert_true(isnan(rate_of(&m).rate));
    m.n = 0;
    seed = 5;
    for (int i = 0; i < 60; i++) { /* bursts of four, as from a pool of four workers */
        steps(&m, 1, 0.04, 0.02);
        steps(&m, 3, 0, 0);
    }
    struct gw_sweep_rate r = rate_of(&m);
    assert_true(fabs(r.rate - 100) < 2.5 && r.error < 0.1);
    double value[60];
    int64_t at[60];
    for (int i = 0; i < 60; i++) {
        value[i] = i < 9 ? 20 : 50 + (i % 2);
        at[i] = i * 1000000000ll;
    }
    gw_sweep_rate_of_values(value, at, 60, &r);
    assert_true(fabs(r.rate - 50.5) < 0.2 && r.warmup == 9);
}

/* --- what --vary says --- */

static void test_lists(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *values;
    } good[] = {{"workers=0,2,4,8", "0 2 4 8 "},
                {"w=8,2,4", "2 4 8 "},
                {"batch=32..1024x2", "32 64 128 256 512 1024 "},
                {"a=1..4", "1 2 3 4 "},
                {"a=1..9+3", "1 4 7 "},
                {"a=0..1+0.25", "0 0.25 0.5 0.75 1 "},
                {"a=0,4..8+2", "0 4 6 8 "},
                {"a=100..1000*10", "100 1000 "},
                {"mode=eager,compile", "eager compile "},
                {"lr=1e-3", "1e-3 "},
                {"p=a..b", "a..b "}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct gw_sweep_knob k;
        char why[100] = "", text[200] = "";
        assert_int_equal(gw_sweep_knob_parse(&k, good[i].spec, why, sizeof why), 0);
        for (size_t v = 0; v < k.n; v++)
            strcat(strcat(text, k.value[v]), " ");
        assert_string_equal(text, good[i].values);
    }
    static const char *const bad[] = {"",
                                      "workers",
                                      "=1,2",
                                      "a=",
                                      "a=1,,2",
                                      "a=1,1",
                                      "a=8..2",
                                      "a=1..8x1",
                                      "a=0..8x2",
                                      "a=1..8+0",
                                      "a=1..8-2",
                                      "a=1..8+x",
                                      "a b=1",
                                      "a=1..1000",
                                      "batch=0,8",
                                      "batch=-1..4",
                                      "a=123456789012345678901234567890",
                                      "averyveryveryveryverylongnameofaknob=1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct gw_sweep_knob k;
        char why[100] = "";
        assert_int_equal(gw_sweep_knob_parse(&k, bad[i], why, sizeof why), -1);
        assert_true(*why);
    }
    struct gw_sweep_knob k;
    char why[100];
    assert_int_equal(gw_sweep_knob_parse(&k, "train_batch_size=8,16", why, sizeof why), 0);
    assert_true(k.is_batch);
    assert_int_equal(gw_sweep_knob_parse(&k, "workers=8,16", why, sizeof why), 0);
    assert_false(k.is_batch);
}

/* --- the search --- */

struct world {
    double (*rate)(const struct world *w, double a, double b);
    double p, q;         /* of the curve */
    double noise, drift; /* run to run; per second */
    double gpu_fixed, gpu_each, gpu_total;
    double fails_from; /* values from here on fail */
    enum gw_sweep_outcome how;
    double clock;
    size_t runs;
};

static double saturates(const struct world *w, double a, double b)
{
    (void)b;
    return fmin((a > 0 ? a : 0.7) * w->p, w->q); /* workers against what the GPU eats */
}

static double peaks(const struct world *w, double a, double b)
{
    return saturates(w, a, b) / (1 + fmax(0, a - w->q / w->p) * 0.01);
}
static double soft(const struct world *w, double a, double b)
{
    (void)b;
    return w->q * a / (a + w->p); /* a batch against a fixed cost for each step */
}
static double both(const struct world *w, double a, double b) { return fmin(saturates(w, a, 0), b * 90); }

static void live(struct gw_sweep *s, struct world *w)
{
    struct gw_sweep_ask ask;
    while (gw_sweep_next(s, &ask)) {
        struct gw_sweep_run r = {.point = ask.point,
                                 .gpu_bytes = NAN,
                                 .gpu_total = NAN,
                                 .workers = NAN,
                                 .worker_bytes = NAN,
                                 .host_free = NAN};
        double a = s->knob[0].number[gw_sweep_at(s, ask.point, 0)];
        double b = s->knobs > 1 ? s->knob[1].number[gw_sweep_at(s, ask.point, 1)] : 0;
        assert_true(ask.left >= 1 && w->runs < 500);
        r.at_s = w->clock;
        r.took_s = 10;
        r.rate = w->rate(w, a, b) * (1 + w->noise * normal()) * exp(w->drift * w->clock);
        r.error = 0.01;
        if (w->gpu_total > 0) {
            r.gpu_bytes = w->gpu_fixed + w->gpu_each * a;
            r.gpu_total = w->gpu_total;
            if (r.gpu_bytes > w->gpu_total)
                r.outcome = GW_SWEEP_OUT_OF_MEMORY;
        }
        if (w->fails_from > 0 && a >= w->fails_from)
            r.outcome = w->how;
        w->clock += 10;
        w->runs++;
        assert_int_equal(gw_sweep_add(s, &r), 0);
    }
}

static struct gw_sweep_verdict sweep(struct gw_sweep *s, struct world *w, const char *first, const char *second)
{
    char why[200];
    struct gw_sweep_verdict v;
    assert_int_equal(gw_sweep_knob_parse(&s->knob[0], first, why, sizeof why), 0);
    if (second)
        assert_int_equal(gw_sweep_knob_parse(&s->knob[1], second, why, sizeof why), 0);
    s->knobs = second ? 2 : 1;
    s->precision = 0.02;
    assert_int_equal(gw_sweep_begin(s), 0);
    live(s, w);
    gw_sweep_judge(s, &v);
    return v;
}

static double value(const struct gw_sweep *s, size_t point, size_t knob)
{
    return s->knob[knob].number[gw_sweep_at(s, point, knob)];
}

static void test_knee(void **state)
{
    (void)state;
    struct gw_sweep s = {.repeats = 2};
    struct world w = {.rate = saturates, .p = 100, .q = 480};
    struct gw_sweep_verdict v = sweep(&s, &w, "workers=0,1,2,3,4,5,6,8,10,12,16", NULL);
    assert_int_equal(v.kind, GW_SWEEP_KNEE);
    assert_true(value(&s, v.knee, 0) == 5);
    assert_true(v.from == v.knee && v.to == v.knee);
    assert_true(s.point[v.knee].runs == 2);
    gw_sweep_free(&s);
}

/* Over many curves: within one point of the knee of the whole curve, at no more than half of its cost on long lists. */
static void test_against_the_whole_curve(void **state)
{
    (void)state;
    size_t far = 0, tried = 0, dear = 0;
    for (uint64_t i = 0; i < 600; i++) {
        seed = 9000 + i;
        struct world w = {.rate = i % 3 ? saturates : peaks, .p = 50 + 100 * uniform(), .noise = 0.01};
        w.q = w.p * (1 + 11 * uniform());
        size_t n = 12 + (size_t)(uniform() * 20);
        char spec[40];
        snprintf(spec, sizeof spec, "workers=0..%zu", n - 1);
        struct world again = w;
        struct gw_sweep s = {.repeats = 2}, whole = {.repeats = 2, .exhaustive = 1};
        struct gw_sweep_verdict v = sweep(&s, &w, spec, NULL), all = sweep(&whole, &again, spec, NULL);
        double d = fabs(value(&s, v.knee, 0) - value(&whole, all.knee, 0));
        far += d > 1;
        tried++;
        dear += w.runs * 2 > again.runs;
        assert_true(d <= 2);
        gw_sweep_free(&s);
        gw_sweep_free(&whole);
    }
    assert_true(far * 50 <= tried); /* noise of 1 % moves a knee on a slope now and then */
    assert_int_equal(dear, 0);
}

static void test_flat_and_rising(void **state)
{
    (void)state;
    struct gw_sweep s = {.repeats = 2};
    struct world w = {.rate = saturates, .p = 1000, .q = 300, .noise = 0.005};
    seed = 8;
    struct gw_sweep_verdict v = sweep(&s, &w, "workers=1..16", NULL);
    assert_int_equal(v.kind, GW_SWEEP_FLAT);
    assert_true(value(&s, v.knee, 0) == 1);
    assert_true(w.runs <= 8);
    gw_sweep_free(&s);
    struct gw_sweep t = {.repeats = 1};
    w = (struct world){.rate = saturates, .p = 10, .q = 1e9};
    v = sweep(&t, &w, "workers=1,2,4,8", NULL);
    assert_int_equal(v.kind, GW_SWEEP_RISING);
    assert_true(value(&t, v.knee, 0) == 8);
    gw_sweep_free(&t);
}

static void test_noise_widens_the_knee(void **state)
{
    (void)state;
    size_t wide = 0, holds = 0;
    for (uint64_t i = 0; i < 40; i++) {
        struct gw_sweep s = {.repeats = 4};
        struct world w = {.rate = saturates, .p = 100, .q = 320, .noise = 0.08};
        seed = 21 + i;
        struct gw_sweep_verdict v = sweep(&s, &w, "workers=1,2,3,4,5,6", NULL);
        wide += value(&s, v.to, 0) > value(&s, v.from, 0);
        holds += value(&s, v.from, 0) <= 4 && value(&s, v.to, 0) >= 4; /* three workers reach 94 % of the best */
        gw_sweep_free(&s);
    }
    assert_true(wide >= 20);
    assert_true(holds >= 34);
}

/* The machine gets slower by a third during the sweep: read in order, the larger settings look worse than they are. */
static void test_drift_is_taken_out(void **state)
{
    (void)state;
    struct gw_sweep s = {.repeats = 3};
    struct world w = {.rate = saturates, .p = 100, .q = 600, .drift = -0.0035, .noise = 0.003};
    seed = 4;
    struct gw_sweep_verdict v = sweep(&s, &w, "workers=1,2,4,6,8", NULL);
    assert_true(s.drift < -0.2 && s.drift > -0.5);
    assert_true(value(&s, v.knee, 0) == 6);
    double four = s.point[2].rate / s.point[3].rate;
    assert_true(fabs(four - 4.0 / 6) < 0.02);
    gw_sweep_free(&s);
    struct gw_sweep t = {.repeats = 3}; /* noise is no drift */
    w = (struct world){.rate = saturates, .p = 100, .q = 600, .noise = 0.03};
    seed = 6;
    (void)sweep(&t, &w, "workers=1,2,4,6,8", NULL);
    assert_true(t.drift == 0);
    gw_sweep_free(&t);
}

static void test_batch_stops_before_memory(void **state)
{
    (void)state;
    struct gw_sweep s = {.repeats = 1};
    struct world w = {.rate = soft, .p = 2000, .q = 9000, .gpu_fixed = 4e9, .gpu_each = 31.25e6, .gpu_total = 80e9};
    struct gw_sweep_verdict v = sweep(&s, &w, "batch=32..8192x2", NULL);
    for (size_t i = 0; i < s.runs; i++)
        assert_int_equal(s.run[i].outcome, GW_SWEEP_OK);
    assert_int_equal(v.kind, GW_SWEEP_BOUNDED);
    assert_true(value(&s, v.knee, 0) == 2048);
    assert_int_equal(s.point[7].skip, GW_SWEEP_SKIP_GPU_MEMORY);
    assert_true(fabs(s.point[7].expected_bytes - (4e9 + 4096 * 31.25e6)) < 1e6);
    assert_int_equal(s.point[8].skip, GW_SWEEP_SKIP_BOUND);
    assert_true(value(&s, v.below_low, 0) == 1024 && value(&s, v.below_high, 0) == 2048); /* 68 GB: 85 % of 80 GB */
    assert_true(value(&s, v.linear, 0) >= 128 && value(&s, v.linear, 0) < 2048);
    gw_sweep_free(&s);
}

static void test_batch_ends_when_it_brings_nothing(void **state)
{
    (void)state;
    struct gw_sweep s = {.repeats = 1};
    struct world w = {.rate = soft, .p = 20, .q = 9000};
    struct gw_sweep_verdict v = sweep(&s, &w, "batch=16..16384x2", NULL);
    assert_int_equal(v.kind, GW_SWEEP_KNEE);
    assert_true(value(&s, v.knee, 0) >= 128 && value(&s, v.knee, 0) <= 512);
    assert_true(v.untried >= 3);
    gw_sweep_free(&s);
}

/* Time ends while the rate still grows: larger values exist, so the largest measured one is no knee. */
static void test_search_that_was_cut_short(void **state)
{
    (void)state;
    static const double rates[] = {84, 176, 286, 532, 845};
    struct gw_sweep s = {.repeats = 1};
    char why[256];
    assert_int_equal(gw_sweep_knob_parse(&s.knob[0], "batch=16..2048x2", why, sizeof why), 0);
    s.knobs = 1;
    assert_int_equal(gw_sweep_begin(&s), 0);
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        assert_int_equal(gw_sweep_add(&s, &(struct gw_sweep_run){.point = i, .outcome = GW_SWEEP_OK, .rate = rates[i], .error = 0.04, .is_settled = 1}), 0);
    struct gw_sweep_verdict v;
    gw_sweep_judge(&s, &v);
    assert_int_equal(v.kind, GW_SWEEP_OPEN);
    assert_true(value(&s, v.knee, 0) == 256);
    gw_sweep_free(&s);
}

static void test_failures_bound(void **state)
{
    (void)state;
    for (int how = GW_SWEEP_OUT_OF_MEMORY; how < GW_SWEEP_OUTCOMES; how++) {
        struct gw_sweep s = {.repeats = 1};
        struct world w = {.rate = saturates, .p = 100, .q = 1e9, .fails_from = 9, .how = (enum gw_sweep_outcome)how};
        struct gw_sweep_verdict v = sweep(&s, &w, "workers=1..24", NULL);
        assert_int_equal(v.kind, GW_SWEEP_BOUNDED);
        assert_true(value(&s, v.knee, 0) == 8); /* the largest that works */
        assert_true(v.failed >= 1 && v.failed <= 4 && v.skipped > 10);
        gw_sweep_free(&s);
        struct gw_sweep t = {.repeats = 1}; /* fails everywhere: two tries are enough */
        w = (struct world){.rate = saturates, .p = 100, .q = 100, .fails_from = 1, .how = (enum gw_sweep_outcome)how};
        v = sweep(&t, &w, "workers=1..24", NULL);
        assert_int_equal(v.kind, GW_SWEEP_NOTHING);
        assert_true(w.runs <= 2);
        gw_sweep_free(&t);
    }
}

static void test_two_knobs(void **state)
{
    (void)state;
    struct gw_sweep s = {.repeats = 1};
    struct world w = {.rate = both, .p = 100, .q = 500};
    struct gw_sweep_verdict v = sweep(&s, &w, "workers=1..12", "prefetch=2,4,8");
    assert_int_equal(v.kind, GW_SWEEP_KNEE);
    assert_true(value(&s, v.knee, 1) == 4 || value(&s, v.knee, 1) == 8 || value(&s, v.knee, 0) == 2);
    assert_true(w.runs * 2 <= 36);
    gw_sweep_free(&s);
    struct gw_sweep t = {.repeats = 1};
    w = (struct world){.rate = both, .p = 100, .q = 500};
    v = sweep(&t, &w, "workers=1..12", "prefetch=8,16");
    assert_true(value(&t, v.knee, 0) == 5 && value(&t, v.knee, 1) == 8);
    gw_sweep_free(&t);
}

static void test_words(void **state)
{
    (void)state;
    struct gw_sweep s = {.repeats = 2};
    char why[100];
    assert_int_equal(gw_sweep_knob_parse(&s.knob[0], "mode=eager,compile,graph,trace,script,jit", why, sizeof why), 0);
    s.knobs = 1;
    assert_int_equal(gw_sweep_begin(&s), 0);
    struct gw_sweep_ask ask;
    for (int i = 0; gw_sweep_next(&s, &ask); i++) {
        struct gw_sweep_run r = {
            .point = ask.point, .rate = ask.point == 3 ? 200 : 100, .error = 0.01, .at_s = i, .took_s = 1};
        assert_true(i < 20);
        (void)gw_sweep_add(&s, &r);
    }
    struct gw_sweep_verdict v;
    gw_sweep_judge(&s, &v);
    assert_int_equal(v.kind, GW_SWEEP_KNEE);
    assert_int_equal(v.knee, 3);
    assert_int_equal(v.measured, 6);
    gw_sweep_free(&s);
}

static void test_enough(void **state)
{
    (void)state;
    struct gw_sweep s = {.precision = 0.02};
    struct gw_sweep_ask ask = {.best = 100};
    assert_true(gw_sweep_enough(&s, &ask, 95, 0.019));
    assert_false(gw_sweep_enough(&s, &ask, 95, 0.05));
    assert_true(gw_sweep_enough(&s, &ask, 60, 0.05));
    assert_false(gw_sweep_enough(&s, &ask, NAN, INFINITY));
    ask.best = NAN;
    assert_false(gw_sweep_enough(&s, &ask, 60, 0.05));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steady),
        cmocka_unit_test(test_warmup_is_cut_where_the_level_changes),
        cmocka_unit_test(test_not_settled),
        cmocka_unit_test(test_no_change_in_noise),
        cmocka_unit_test(test_interval_covers),
        cmocka_unit_test(test_little_and_strange),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_knee),
        cmocka_unit_test(test_against_the_whole_curve),
        cmocka_unit_test(test_flat_and_rising),
        cmocka_unit_test(test_noise_widens_the_knee),
        cmocka_unit_test(test_drift_is_taken_out),
        cmocka_unit_test(test_batch_stops_before_memory),
        cmocka_unit_test(test_batch_ends_when_it_brings_nothing),
        cmocka_unit_test(test_failures_bound),
        cmocka_unit_test(test_search_that_was_cut_short),
        cmocka_unit_test(test_two_knobs),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
