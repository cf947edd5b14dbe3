/* Square waves of known period, noise, constant load, bursts: what is called periodic, and what is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/sawtooth.h"

enum { MAX = 400000 };
static int64_t t[MAX];
static double v[MAX];
static uint64_t seed;

static double uniform(void) /* xorshift: the same numbers on every machine */
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (double)(seed >> 11) / 9007199254740992.0;
}

/* `n` samples every `dt` seconds with up to `jitter` seconds of delay. */
static void clock_of(size_t n, double dt, double jitter)
{
    for (size_t i = 0; i < n; i++)
        t[i] = (int64_t)(((double)i * dt + jitter * uniform()) * 1e9);
}

static void square(size_t n, double dt, double period, double duty, double low, double high, double noise)
{
    for (size_t i = 0; i < n; i++) {
        double phase = fmod((double)i * dt, period) / period;
        v[i] = (phase < duty ? high : low) + noise * (2 * uniform() - 1);
        v[i] = v[i] < 0 ? 0 : v[i] > 100 ? 100 : v[i];
    }
}

static int setup(void **state)
{
    (void)state;
    seed = 88172645463325252ull;
    return 0;
}

static void squares_of_known_period(void **state)
{
    (void)state;
    static const double periods[] = {1.5, 2, 3.3, 5, 7.7, 12, 20, 35};
    static const double duties[] = {0.2, 0.5, 0.8}, noises[] = {0, 10, 20};
    for (size_t p = 0; p < 8; p++)
        for (size_t d = 0; d < 3; d++)
            for (size_t k = 0; k < 3; k++) {
                clock_of(800, 0.25, 0.02);
                square(800, 0.25, periods[p], duties[d], 5, 95, noises[k]);
                struct gw_sawtooth s = gw_sawtooth_find(t, v, 800);
                if (s.shape != GW_WAVE_PERIODIC || fabs(s.period_s - periods[p]) > 0.03 * periods[p] + s.period_error_s)
                    fail_msg("period %.1f duty %.1f noise %.0f: shape %d period %.2f", periods[p], duties[d], noises[k],
                             (int)s.shape, s.period_s);
                /* A sample that an edge cuts in two is neither high nor low, so depth and duty have the width of a
                 * sample. */
                assert_true(s.depth > (periods[p] < 5 ? 40 : 70) && s.depth < 100);
                assert_true(fabs(s.duty - duties[d]) < 0.25 / periods[p] + 0.08);
                assert_true(llabs(s.cycles - (long long)(200 / periods[p])) <= 1 + (long long)(20 / periods[p]));
            }
}

static void constant_load_is_steady(void **state)
{
    (void)state;
    clock_of(500, 0.25, 0.01);
    for (size_t i = 0; i < 500; i++)
        v[i] = 96 + 4 * uniform();
    struct gw_sawtooth s = gw_sawtooth_find(t, v, 500);
    assert_int_equal(s.shape, GW_WAVE_STEADY);
    assert_true(fabs(s.mean - 98) < 1);
    assert_true(isnan(s.period_s));
    memset(v, 0, sizeof v);
    assert_int_equal(gw_sawtooth_find(t, v, 500).shape, GW_WAVE_STEADY);
}

static void noise_has_no_period(void **state)
{
    (void)state;
    clock_of(600, 0.25, 0.01);
    for (int round = 0; round < 200; round++) {
        for (size_t i = 0; i < 600; i++)
            v[i] = 100 * uniform();
        enum gw_wave w = gw_sawtooth_find(t, v, 600).shape;
        assert_true(w == GW_WAVE_BURSTS || w == GW_WAVE_TOO_FAST);
    }
}

/* Bursts of random length: of a thousand logs at most a few may look periodic by chance. */
static void bursts_have_no_period(void **state)
{
    (void)state;
    int called = 0;
    clock_of(600, 0.25, 0.01);
    for (int round = 0; round < 1000; round++) {
        double left = 0;
        int up = 0;
        for (size_t i = 0; i < 600; i++, left--) {
            if (left <= 0) {
                up = !up;
                left = 1 + 40 * uniform();
            }
            v[i] = up ? 90 : 3;
        }
        called += gw_sawtooth_find(t, v, 600).shape == GW_WAVE_PERIODIC;
    }
    assert_true(called <= 5);
}

static void faster_than_the_samples(void **state)
{
    (void)state;
    clock_of(600, 0.25, 0);
    for (size_t i = 0; i < 600; i++)
        v[i] = i % 2 ? 95 : 5; /* two samples a period: cannot be told from an alias */
    assert_int_equal(gw_sawtooth_find(t, v, 600).shape, GW_WAVE_TOO_FAST);
}

static void gaps_and_odd_stamps(void **state)
{
    (void)state;
    clock_of(800, 0.25, 0.02);
    square(800, 0.25, 10, 0.5, 0, 100, 5);
    size_t n = 0;
    for (size_t i = 0; i < 800; i++) /* a logger that lost a tenth of its lines */
        if (i % 10 != 3) {
            t[n] = t[i];
            v[n++] = v[i];
        }
    struct gw_sawtooth s = gw_sawtooth_find(t, v, n);
    assert_int_equal(s.shape, GW_WAVE_PERIODIC);
    assert_true(fabs(s.period_s - 10) < 0.3);
    for (size_t i = 0; i < 100; i++)
        t[i] = 5; /* all stamps equal */
    assert_int_equal(gw_sawtooth_find(t, v, 100).shape, GW_WAVE_TOO_SHORT);
    for (size_t i = 0; i < 100; i++)
        t[i] = -(int64_t)i * 1000000000; /* falling */
    assert_int_equal(gw_sawtooth_find(t, v, 100).shape, GW_WAVE_TOO_SHORT);
    t[0] = INT64_MIN / 2;
    t[99] = INT64_MAX / 2; /* absurd span */
    (void)gw_sawtooth_find(t, v, 100);
    assert_int_equal(gw_sawtooth_find(t, v, 5).shape, GW_WAVE_TOO_SHORT);
    assert_int_equal(gw_sawtooth_find(t, v, 0).shape, GW_WAVE_TOO_SHORT);
}

static void a_day_of_log(void **state)
{
    (void)state;
    clock_of(345600, 0.25, 0.01);
    square(345600, 0.25, 600, 0.5, 10, 90, 5);
    struct gw_sawtooth s = gw_sawtooth_find(t, v, 345600);
    assert_int_equal(s.shape, GW_WAVE_PERIODIC);
    assert_true(fabs(s.period_s - 600) < 6);
}

static void two_swings_are_chance(void **state)
{
    (void)state;
    clock_of(200, 0.25, 0.01);
    square(200, 0.25, 22, 0.5, 0, 100, 3); /* 50 s: two and a bit */
    assert_int_not_equal(gw_sawtooth_find(t, v, 200).shape, GW_WAVE_PERIODIC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(squares_of_known_period, setup),
        cmocka_unit_test_setup(constant_load_is_steady, setup),
        cmocka_unit_test_setup(noise_has_no_period, setup),
        cmocka_unit_test_setup(bursts_have_no_period, setup),
        cmocka_unit_test_setup(faster_than_the_samples, setup),
        cmocka_unit_test_setup(gaps_and_odd_stamps, setup),
        cmocka_unit_test_setup(a_day_of_log, setup),
        cmocka_unit_test_setup(two_swings_are_chance, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
