/*
 * sweep_stats.h - from a series of steps to a rate: what is warm-up, how fast the rest is, and how well that is known.
 *
 * Warm-up is not a fixed count. The series is cut where its level changes (least squares), as long as the part before
 * the cut differs from all that follows by more than chance and more than 5 %. What is left is split into batches of
 * steps; their spread gives a 95 % confidence interval (method of batch means, Student's t), and batches are made
 * longer while neighbours resemble each other, because a pool of workers delivers in bursts.
 *
 * Pure; no allocation, no clock; any thread. Times are ns of one clock.
 *
 *     struct gw_sweep_rate r;
 *     gw_sweep_rate_of_marks(at, n, &r);          at[i]: when step i was seen
 *     if (r.error <= 0.02 && r.is_settled) ... known to 2 %
 */
#ifndef GW_SWEEP_STATS_H
#define GW_SWEEP_STATS_H

#include <stddef.h>
#include <stdint.h>

struct gw_sweep_rate {
    double rate;      /* per second, or in the unit of the values; NAN: too few to tell */
    double error;     /* half of the 95 % interval over the rate; INFINITY: too few to tell */
    size_t count;     /* intervals (or values) seen */
    size_t warmup;    /* of them left out */
    double warmup_s;  /* from the first mark to where the steady stretch begins */
    double steady_s;  /* length of that stretch */
    double longest_s; /* the longest interval between two marks of it */
    int is_settled;   /* 1: the last change lies in the first half of the series */
};

/* Least number of intervals for a rate. */
enum { GW_SWEEP_LEAST = 4 };

/* `at`: n times in ascending order. */
void gw_sweep_rate_of_marks(const int64_t *at, size_t n, struct gw_sweep_rate *out);
/* `value`: n rates as the job printed them, seen at `at`. */
void gw_sweep_rate_of_values(const double *value, const int64_t *at, size_t n, struct gw_sweep_rate *out);

/* Number of leading elements of `x` that belong to another level than what follows; below n. Exposed for tests. */
size_t gw_sweep_change(const double *x, size_t n);
/* Two-sided 95 % quantile of Student's t. */
double gw_sweep_t95(size_t degrees);

#endif
