/* test_run_policy.c - when windows open and close, played through with jobs of known rates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "policy.h"

#define MS GW_POLICY_MS
#define SEC GW_POLICY_SEC
enum { MAX = 4096 };

struct job { /* works from `from`: `on` ns of kernels every `step` ns, `rate` kernels a second while on, `calls` for each */
    uint64_t from, to, step, on, rate, calls;
};
struct window { uint64_t start, end, kernels; int counts; };
struct played { struct window w[MAX]; size_t n; uint64_t recorded, cost; };

/* Kernels that the job launches in (a, b]. */
static uint64_t work(const struct job *j, uint64_t a, uint64_t b) {
    uint64_t n = 0;
    for (uint64_t t = a; t < b; t += MS)
        n += t >= j->from && t < j->to && (t - j->from) % j->step < j->on ? j->rate / 1000 : 0;
    return n;
}

static void play(const struct job *j, uint64_t life, struct played *out) {
    struct gw_policy p;
    uint64_t kernels = 0, t, last = 0;
    int open = 0;
    out->n = out->recorded = out->cost = 0;
    gw_policy_start(&p, 0);
    for (t = 0; t < life; t += 20 * MS) {
        if (open)
            kernels += work(j, last, t);
        last = t;
        if (!open && t >= p.next_open && out->n < MAX) {
            gw_policy_open(&p, t);
            kernels = 0;
            open = 1;
            out->w[out->n].start = t;
        } else if (open && gw_policy_look(&p, t, kernels) != GW_PL_STAY) {
            struct window *w = &out->w[out->n++];
            w->end = t;
            w->kernels = kernels;
            w->counts = gw_policy_close(&p, t, kernels, kernels * j->calls);
            out->recorded += t - w->start;
            out->cost += kernels * 600 + kernels * j->calls * 260;
            open = 0;
        }
    }
    if (open) { /* the job's end is the end of the window */
        struct window *w = &out->w[out->n++];
        w->end = life;
        w->kernels = kernels;
        w->counts = kernels >= GW_POLICY_COUNTS;
    }
}

static struct played P;

static void short_job_late_start(void **state) { /* CUDA starts, 4 s later 6 s of work with 20,000 kernels a second */
    (void)state;
    const struct job j = {4 * SEC, 100 * SEC, 32 * MS, 32 * MS, 20000, 20};
    play(&j, 10 * SEC, &P);
    size_t good = 0;
    for (size_t i = 0; i < P.n; i++)
        good += P.w[i].counts != 0;
    assert_true(good >= 1);
    assert_true(P.w[P.n - 1].start < 10 * SEC);
    for (size_t i = 0; i < P.n; i++)
        if (P.w[i].counts) {
            assert_true(P.w[i].start >= 3500 * MS && P.w[i].start < 5500 * MS);
            assert_true(P.w[i].end - P.w[i].start >= 2 * SEC && P.w[i].kernels >= 20000);
            break;
        }
}

static void init_is_not_work(void **state) { /* 400 kernels make the model, then 6 s of nothing, then steps */
    (void)state;
    struct job j = {2 * SEC, 100 * SEC, 100 * SEC, 100 * MS, 4000, 5};
    play(&j, 8 * SEC, &P);
    for (size_t i = 0; i < P.n; i++)
        assert_false(P.w[i].counts && P.w[i].end < 8 * SEC);
}

static void long_job_stays_below_its_share(void **state) {
    (void)state;
    const struct job jobs[] = {{3 * SEC, ~0ull, 32 * MS, 32 * MS, 21000, 20},  /* a launch loop */
                               {3 * SEC, ~0ull, 60 * MS, 60 * MS, 8000, 8},    /* a transformer */
                               {3 * SEC, ~0ull, 3000 * MS, 300 * MS, 3000, 8}, /* starved */
                               {3 * SEC, ~0ull, 5 * MS, 5 * MS, 300000, 1}};   /* graphs: a flood of kernels */
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        size_t good = 0;
        play(&jobs[i], 1800 * SEC, &P);
        for (size_t k = 0; k < P.n; k++) {
            good += P.w[k].counts != 0;
            assert_true(P.w[k].end - P.w[k].start <= GW_POLICY_LONGEST + 40 * MS);
        }
        assert_true(good >= 5);
        assert_true(P.cost * 100 <= 1800 * SEC * 11 / 10);
    }
}

static void slow_steps_are_recorded(void **state) { /* a step of 4 s with 0.3 s of kernels looks like lulls at first */
    (void)state;
    const struct job j = {3 * SEC, ~0ull, 4000 * MS, 300 * MS, 2000, 8};
    size_t good = 0;
    play(&j, 120 * SEC, &P);
    for (size_t i = 0; i < P.n; i++)
        good += P.w[i].counts != 0;
    assert_true(good >= 2);
}

static void no_work_costs_little(void **state) { /* a notebook that waits for its user: few probes, none counts */
    (void)state;
    const struct job j = {~0ull, ~0ull, SEC, SEC, 0, 0};
    play(&j, 3600 * SEC, &P);
    assert_true(P.n < 1400 && P.recorded < 700 * SEC);
    for (size_t i = 0; i < P.n; i++)
        assert_false(P.w[i].counts);
}

/* --- the gate ------------------------------------------------------------------------------------------------------------ */

/* Looks every half second at a job with `rate` launches a second and `slack` of its time to spare; the answer after `looks`. */
static enum gw_gate_answer gate(struct gw_gate *g, unsigned looks, uint64_t rate, double slack, unsigned entries) {
    enum gw_gate_answer a = GW_GATE_WAIT;
    for (unsigned i = 1; i <= looks; i++)
        a = gw_gate_look(g, g->start + i * GW_GATE_LOOK,
                         &(struct gw_gate_counts){GW_GATE_LOOK, rate / 2, rate / 2 * 1000, (uint64_t)(slack * GW_GATE_LOOK), rate, entries});
    return a;
}

static void test_gate_answers(void **state) {
    (void)state;
    static const struct { uint64_t rate; double slack; enum gw_gate_answer want; } rows[] = {
        {136000, 0.0, GW_GATE_HOLD},  /* 680 kernels a step of 5 ms: 35 % */
        {136000, 0.3, GW_GATE_HOLD},  /* 5 % more than it has to spare */
        {136000, 0.4, GW_GATE_OPEN},
        {36000, 0.5, GW_GATE_OPEN},   /* a GPU-bound transformer: the host waits for the queue */
        {11000, 0.0, GW_GATE_OPEN},   /* some launches between other work: 2.9 % */
        {12000, 0.0, GW_GATE_HOLD},   /* 3.1 % */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gw_gate g;
        gw_gate_start(&g, 5 * SEC);
        assert_int_equal(gate(&g, GW_GATE_LOOKS - 1, rows[i].rate, rows[i].slack, 20), GW_GATE_WAIT);
        assert_int_equal(gate(&g, 1, rows[i].rate, rows[i].slack, 20), rows[i].want);
    }
}

static void test_gate_forgets_no_phase(void **state) {
    (void)state;
    struct gw_gate g;
    gw_gate_start(&g, 0);
    assert_int_equal(gate(&g, 100, 136000, 0, 20), GW_GATE_HOLD);
    /* A pause, an evaluation that waits: CUPTI would still be there when the training goes on. */
    assert_int_equal(gate(&g, 60, 20000, 0.5, 20), GW_GATE_HOLD);
    gw_gate_start(&g, 0);
    assert_int_equal(gate(&g, 20, 20000, 0.5, 20), GW_GATE_OPEN);
    assert_int_equal(gate(&g, 1, 136000, 0, 20), GW_GATE_HOLD); /* the last looks count by themselves */
    gw_gate_start(&g, 0); /* a slow host: 4 us in each launch call */
    for (unsigned i = 1; i <= GW_GATE_LOOKS; i++)
        assert_int_equal(gw_gate_look(&g, i * GW_GATE_LOOK, &(struct gw_gate_counts){GW_GATE_LOOK, 2000, 8000000, 0, 2000, 20}),
                         i < GW_GATE_LOOKS ? GW_GATE_WAIT : GW_GATE_HOLD); /* 4.2 % */
}

static enum gw_gate_answer silent(struct gw_gate *g, uint64_t at, uint64_t ns, uint64_t launches, uint64_t calls, unsigned entries) {
    return gw_gate_look(g, at, &(struct gw_gate_counts){ns, launches, 0, 0, calls, entries});
}

static void test_gate_without_counts(void **state) {
    (void)state;
    struct gw_gate g;
    gw_gate_start(&g, 0);
    assert_int_equal(silent(&g, GW_GATE_BLIND - 1, GW_GATE_LOOK, 0, 0, 0), GW_GATE_WAIT);
    assert_int_equal(silent(&g, GW_GATE_BLIND, GW_GATE_LOOK, 0, 0, 0), GW_GATE_OPEN);
    gw_gate_start(&g, 0);
    assert_int_equal(silent(&g, GW_GATE_PATIENCE - 1, GW_GATE_LOOK, 0, 0, 20), GW_GATE_WAIT);
    assert_int_equal(silent(&g, GW_GATE_PATIENCE, GW_GATE_LOOK, 0, 0, 20), GW_GATE_OPEN);
    gw_gate_start(&g, 0); /* it waits and copies, and somebody else launches */
    for (unsigned i = 1; i < GW_GATE_OTHERS; i++)
        assert_int_equal(silent(&g, i * GW_GATE_LOOK, GW_GATE_LOOK, 0, 500, 20), GW_GATE_WAIT);
    assert_int_equal(silent(&g, GW_GATE_OTHERS * GW_GATE_LOOK, GW_GATE_LOOK, 0, 500, 20), GW_GATE_OPEN);
    gw_gate_start(&g, 0); /* clock not known yet: a look of no length says nothing */
    for (unsigned i = 0; i < 9; i++)
        assert_int_equal(silent(&g, i * GW_GATE_LOOK, 0, 1000000, 1000000, 20), GW_GATE_WAIT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gate_answers), cmocka_unit_test(test_gate_forgets_no_phase),
                                       cmocka_unit_test(test_gate_without_counts), cmocka_unit_test(short_job_late_start), cmocka_unit_test(init_is_not_work),
                                       cmocka_unit_test(long_job_stays_below_its_share), cmocka_unit_test(slow_steps_are_recorded),
                                       cmocka_unit_test(no_work_costs_little)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
