/*
 * sawtooth.h - does a utilization log swing up and down, and at what period?
 *
 * The signal is put on an even grid, split into high and low by two thresholds (so that noise near one does not count
 * as a swing), and called periodic only when two independent methods agree: a peak of the autocorrelation, and the
 * regularity of the rising edges. Anything else is "bursts", "steady" or "too short": a period is never guessed.
 * Pure; the caller's arrays are only read.
 *
 *     struct gw_sawtooth s = gw_sawtooth_find(t_ns, value, n);
 *     if (s.shape == GW_WAVE_PERIODIC) printf("%.1f s\n", s.period_s);
 */
#ifndef GW_SAWTOOTH_H
#define GW_SAWTOOTH_H

#include <stddef.h>
#include <stdint.h>

enum gw_wave {
    GW_WAVE_TOO_SHORT, /* fewer samples than could show anything */
    GW_WAVE_STEADY,    /* no swing worth the name */
    GW_WAVE_BURSTS,    /* it swings, but at no fixed period */
    GW_WAVE_PERIODIC,
    GW_WAVE_TOO_FAST /* it swings from sample to sample: sampled too slowly to tell a period */
};

struct gw_sawtooth {
    enum gw_wave shape;
    double mean;           /* of the values */
    double high, low;      /* mean of the upper and of the lower part; equal to the mean when steady */
    double depth;          /* high - low */
    double duty;           /* share of the time in the upper part, 0..1; NAN when steady */
    double period_s;       /* NAN unless periodic */
    double period_error_s; /* half a sample, or the spread of the edges when that is more */
    double strength;       /* the autocorrelation at the period, 0..1; NAN unless periodic */
    int64_t cycles;        /* whole swings seen */
    double interval_s;     /* between samples, median */
    double span_s;         /* the stretch that was looked at */
};

/* `t` in ns, rising (equal or falling stamps are taken as lost samples), `v` in percent. */
struct gw_sawtooth gw_sawtooth_find(const int64_t *t, const double *v, size_t n);

#endif
