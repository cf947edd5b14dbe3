/* test_pm.c - samples into stretches, GPUs by UUID, and the calls to CUPTI against a fake that checks every one of them. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "collect/pm/pm.h"
#include "collect/pm/pm_runs.h"
#include "model/activity.h"
#include "record/record_read.h"

#define MS ((uint64_t)1000000)
static const char *fakes; /* folder */

/* --- stretches ------------------------------------------------------------------------------------------------------------- */

static struct gw_rec_activity got[1000];
static size_t n_got;
static void put(void *user, const struct gw_rec_activity *a)
{
    (void)user;
    got[n_got++] = *a;
}

static void add(struct gw_pm_runs *r, uint64_t start, uint64_t ns, double gr)
{
    struct gw_pm_sample s = {.start = start, .end = start + ns, .share = {gr, gr * 0.8, NAN, NAN}};
    gw_pm_runs_add(r, &s, put, NULL);
}

static double total(int metric)
{
    double sum = 0;
    for (size_t i = 0; i < n_got; i++)
        sum += got[i].share[metric] / 1e4 * (double)(got[i].end - got[i].start);
    return sum;
}

static void runs_join(void **state)
{
    (void)state;
    struct gw_pm_runs r;
    gw_pm_runs_init(&r, 3, MS);
    n_got = 0;
    for (int step = 0; step < 10; step++)
        for (int i = 0; i < 50; i++) /* 5 ms busy, 5 ms idle, in samples of 200 us */
            add(&r, MS + (uint64_t)(step * 50 + i) * MS / 5, MS / 5, i < 25 ? 100 : 0);
    gw_pm_runs_flush(&r, put, NULL);
    assert_int_equal(n_got, 20);
    assert_int_equal(got[0].device, 3);
    assert_int_equal(got[0].samples, 25);
    assert_int_equal(got[0].share[GW_PM_GR], 10000);
    assert_int_equal(got[0].share[GW_PM_SM], 8000);
    assert_int_equal(got[0].share[GW_PM_DRAM], GW_PM_NO_SHARE);
    assert_int_equal(got[1].share[GW_PM_GR], 0);
    for (size_t i = 1; i < n_got; i++)
        assert_int_equal(got[i].start, got[i - 1].end);
    assert_int_equal(got[19].end - got[0].start, 100 * MS);
    assert_true(fabs(total(GW_PM_GR) - 50e6) < 1);
}

/* What swings from sample to sample is one stretch; its mean is exact all the same. */
static void runs_noise(void **state)
{
    (void)state;
    struct gw_pm_runs r;
    gw_pm_runs_init(&r, 0, 5 * MS);
    n_got = 0;
    for (int i = 0; i < 1000; i++)
        add(&r, (uint64_t)i * MS / 5, MS / 5, i % 2 ? 65 : 35);
    gw_pm_runs_flush(&r, put, NULL);
    assert_int_equal(n_got, 1);
    assert_int_equal(got[0].share[GW_PM_GR], 5000);
    assert_int_equal(got[0].samples, 1000);
}

/* Holes stay holes; time does not go back; empty samples are nothing; a second is the longest. */
static void runs_holes(void **state)
{
    (void)state;
    struct gw_pm_runs r;
    gw_pm_runs_init(&r, 0, 5 * MS);
    n_got = 0;
    add(&r, 10 * MS, MS, 100);
    add(&r, 20 * MS, MS, 100);
    add(&r, 20 * MS, MS, 100);           /* the same again */
    add(&r, 20 * MS + MS / 2, MS, 100);  /* half of it */
    add(&r, 5 * MS, 0, 100);
    gw_pm_runs_flush(&r, put, NULL);
    assert_int_equal(n_got, 2);
    assert_int_equal(got[0].end, 11 * MS);
    assert_int_equal(got[1].start, 20 * MS);
    assert_int_equal(got[1].end, 21 * MS + MS / 2);
    n_got = 0;
    for (unsigned i = 0; i < 3500; i++)
        add(&r, 100 * MS + i * MS, MS, 0);
    gw_pm_runs_flush(&r, put, NULL);
    assert_int_equal(n_got, 4);
    assert_int_equal(got[0].end - got[0].start, 1000 * MS);
    gw_pm_runs_flush(&r, put, NULL);
    assert_int_equal(n_got, 4);
}

/* --- the reader's bounded store ------------------------------------------------------------------------------------------------ */

static void activity_bound(void **state)
{
    (void)state;
    struct gw_activity_builder b;
    struct gw_activity a;
    memset(&a, 0, sizeof a);
    struct gw_arena *arena = gw_arena_create(0);
    gw_activity_begin(&b, 0);
    float share[GW_ACT_COUNT] = {0, 0, NAN, NAN};
    int64_t n = 3 * GW_ACTIVITY_RUNS;
    for (int64_t i = 0; i < n; i++) {
        share[0] = i % 4 ? 0 : 1;
        assert_int_equal(gw_activity_add(&b, i * 1000000, (i + 1) * 1000000, share), 0);
    }
    assert_int_equal(gw_activity_finish(&b, arena, &a), 0);
    assert_true(a.count <= GW_ACTIVITY_RUNS && a.count > GW_ACTIVITY_RUNS / 8);
    int64_t measured;
    assert_true(fabs(gw_activity_mean(&a, GW_ACT_ENGINE, 0, n * 1000000, &measured) - 0.25) < 1e-3);
    assert_int_equal(measured, n * 1000000);
    assert_true(isnan(gw_activity_mean(&a, GW_ACT_DRAM, 0, n * 1000000, NULL)) != 0);
    assert_true(isnan(gw_activity_mean(&a, GW_ACT_ENGINE, n * 1000000, n * 1000000 + 5, &measured)) != 0);
    assert_int_equal(measured, 0);
    gw_arena_destroy(arena);
}

/* --- UUIDs ---------------------------------------------------------------------------------------------------------------------- */

static void uuids(void **state)
{
    (void)state;
    uint8_t u[16];
    assert_int_equal(gw_pm_parse_uuid("GPU-01234567-89ab-cdef-0123-456789ABCDEF", u), 0);
    assert_int_equal(u[0], 0x01);
    assert_int_equal(u[15], 0xef);
    assert_int_equal(gw_pm_parse_uuid("GPU-01234567-89ab-cdef-0123-456789abcde", u), -1);
    assert_int_equal(gw_pm_parse_uuid("GPU-01234567-89ab-cdef-0123-456789abcdef0", u), -1);
    assert_int_equal(gw_pm_parse_uuid("GPU-0123456x-89ab-cdef-0123-456789abcdef", u), -1);
    assert_int_equal(gw_pm_parse_uuid("", u), -1);
}

/* --- against the fake -------------------------------------------------------------------------------------------------------------- */

static void hints_of(struct gw_pm_hints *h)
{
    memset(h, 0, sizeof *h);
    snprintf(h->cuda, sizeof h->cuda, "%s/libcuda.so.1", fakes);
    snprintf(h->cupti, sizeof h->cupti, "%s/libcupti.so.13", fakes);
}

struct sums {
    double busy, ns;
    uint64_t last, backwards;
    size_t n;
};
static void sum(void *user, const struct gw_pm_sample *s)
{
    struct sums *t = user;
    assert_true(s->share[GW_PM_GR] >= 0);
    t->busy += s->share[GW_PM_GR] / 100 * (double)(s->end - s->start);
    t->ns += (double)(s->end - s->start);
    t->backwards += s->start < t->last;
    t->last = s->end;
    t->n++;
}

static void nap(long ms)
{
    struct timespec ts = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&ts, NULL);
}

static void samples(void **state)
{
    (void)state;
    struct gw_pm_hints h;
    struct gw_pm_libs l;
    struct gw_pm_device d;
    struct sums t = {0};
    uint8_t second[16];
    hints_of(&h);
    setenv("FAKE_GPUS", "2", 1);
    setenv("CUDA_VISIBLE_DEVICES", "7", 1); /* of the job; ours must see all */
    assert_int_equal(gw_pm_load(&l, &h), GW_PS_STARTING);
    assert_int_equal(l.gpus, 2);
    memset(second, 0x40, sizeof second); /* the fake numbers them the other way round */
    assert_int_equal(gw_pm_ordinal(&l, second), 1);
    memset(second, 0x77, sizeof second);
    assert_int_equal(gw_pm_ordinal(&l, second), -1);
    memset(&d, 0, sizeof d);
    assert_int_equal(gw_pm_device_open(&d, &l, 1, 200000), GW_PS_RUNNING);
    assert_int_equal(d.metrics, 4);
    for (int i = 0; i < 10; i++) {
        nap(40);
        assert_true(gw_pm_device_read(&d, sum, &t) > 0);
    }
    assert_true(t.n > 1000 && t.n < 4000 && !t.backwards);
    assert_true(fabs(t.busy / t.ns - 0.4) < 0.1); /* 40 ms of 100 ms, over some 400 ms */
    size_t before = t.n;
    assert_int_equal(gw_pm_device_reopen(&d, 3, 1000000, sum, &t), GW_PS_RUNNING);
    assert_int_equal(d.metrics, 3);
    nap(100);
    assert_true(gw_pm_device_read(&d, sum, &t) > 50);
    assert_true(t.n - before < 300);
    assert_true(d.typical_ns == 1000000 && !d.overflows);
    gw_pm_device_close(&d, sum, &t);
    gw_pm_device_close(&d, sum, &t);
    assert_null(d.object);
    /* A failed opening leaves nothing behind: the next one works. */
    setenv("FAKE_PM_FIT", "2", 1);
    memset(&d, 0, sizeof d);
    assert_int_equal(gw_pm_device_open(&d, &l, 0, 200000), GW_PS_RUNNING);
    assert_int_equal(d.metrics, 2);
    gw_pm_device_close(&d, NULL, NULL);
    setenv("FAKE_PM_FIT", "0", 1);
    memset(&d, 0, sizeof d);
    assert_int_equal(gw_pm_device_open(&d, &l, 0, 200000), GW_PS_PASSES);
    unsetenv("FAKE_PM_FIT");
    setenv("FAKE_CC", "75", 1);
    memset(&d, 0, sizeof d);
    assert_int_equal(gw_pm_device_open(&d, &l, 0, 200000), GW_PS_NOT_SUPPORTED);
    unsetenv("FAKE_CC");
}

static const char *const calls[] = {
#define FN(name, arg) #name,
    GW_PM_FUNCTIONS(FN)
#undef FN
};

/* Each call refuses in turn: a reason with the call's name, nothing left open, no crash. */
static void refusals(void **state)
{
    (void)state;
    struct gw_pm_hints h;
    struct gw_pm_libs l;
    hints_of(&h);
    memset(&l, 0, sizeof l);
    setenv("FAKE_GPUS", "2", 1);
    /* The library is loaded already, and may be initialized once only: take its functions as they are. */
    assert_int_equal(gw_pm_load(&l, &(struct gw_pm_hints){.cuda = "/no/such/file"}), GW_PS_NO_CUDA);
    snprintf(h.cupti, sizeof h.cupti, "%s/no-such-file", fakes);
    assert_int_equal(gw_pm_load(&l, &h), GW_PS_NO_CUPTI);
    hints_of(&h);
    setenv("FAKE_PM_REFUSE", "cuptiProfilerInitialize:35", 1);
    assert_int_equal(gw_pm_load(&l, &h), GW_PS_NO_PRIVILEGE);
    assert_string_equal(l.call, "cuptiProfilerInitialize");
    for (size_t i = 1; i < sizeof calls / sizeof *calls; i++) {
        struct gw_pm_device d;
        struct sums t = {0};
        char refuse[100];
        if (strstr(calls[i], "Stop"))
            continue; /* a GPU that does not stop cannot be let go of either */
        int is_last = strstr(calls[i], "Disable") != NULL; /* refused, it stays open in the fake: a GPU of its own */
        memset(&d, 0, sizeof d);
        snprintf(refuse, sizeof refuse, "%s:26", calls[i]);
        setenv("FAKE_PM_REFUSE", refuse, 1);
        unsigned s = gw_pm_device_open(&d, &l, is_last, 200000);
        if (s == GW_PS_RUNNING) { /* a call that comes later, or one on the way out */
            nap(30);
            long n = gw_pm_device_read(&d, sum, &t);
            int out = is_last || strstr(calls[i], "HostDeinit");
            assert_true(out ? n > 0 : n < 0);
            if (!out)
                assert_string_equal(d.call, calls[i]);
        } else {
            int known = strstr(calls[i], "AddMetrics") != NULL;
            assert_int_equal(s, known ? GW_PS_PASSES : GW_PS_BUSY);
            assert_string_equal(d.call, calls[i]);
            assert_null(d.object);
            assert_null(d.host);
        }
        unsetenv("FAKE_PM_REFUSE");
        if (is_last)
            d.object = NULL;
        gw_pm_device_close(&d, NULL, NULL);
    }
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    fakes = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs_join), cmocka_unit_test(runs_noise), cmocka_unit_test(runs_holes),
                                       cmocka_unit_test(activity_bound), cmocka_unit_test(uuids), cmocka_unit_test(samples),
                                       cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
