/*
 * pm_runs.h - many samples into few stretches: what is alike and adjacent becomes one record, sums stay exact.
 *
 * A sample is idle (engine below 2 %), busy (above 98 %) or partly busy. A stretch goes on while samples are of its sort, up to
 * a longest length; a stretch shorter than the shortest length takes what comes. Pure: no clock, no memory.
 *
 *     struct gw_pm_runs r;
 *     gw_pm_runs_init(&r, device, 1000000);
 *     gw_pm_runs_add(&r, &sample, put, user);   calls put() when a stretch is complete
 *     gw_pm_runs_flush(&r, put, user);
 */
#ifndef GW_PM_RUNS_H
#define GW_PM_RUNS_H

#include "collect/pm/pm_device.h"

#define GW_PM_IDLE 2.0  /* percent of the engine's time: below, a sample is idle. A kernel of 4 us in 200 us is 2 % */
#define GW_PM_BUSY 98.0
#define GW_PM_ALIKE 20.0 /* percent: partly busy samples that differ less from their mean are one stretch */
#define GW_PM_LONGEST 1000000000ull /* ns; also what a kill -9 can lose */

typedef void (*gw_pm_run_fn)(void *user, const struct gw_rec_activity *a);

struct gw_pm_runs {
    int32_t device;
    uint64_t least_ns;
    uint64_t start, end;
    uint32_t samples;
    int sort;
    double sum[GW_PM_METRIC_COUNT]; /* percent * ns */
    double weight[GW_PM_METRIC_COUNT]; /* ns for which it was measured */
    uint64_t last; /* end of all that was taken: samples never go back */
};

void gw_pm_runs_init(struct gw_pm_runs *r, int32_t device, uint64_t least_ns);
void gw_pm_runs_add(struct gw_pm_runs *r, const struct gw_pm_sample *s, gw_pm_run_fn put, void *user);
void gw_pm_runs_flush(struct gw_pm_runs *r, gw_pm_run_fn put, void *user);

#endif
