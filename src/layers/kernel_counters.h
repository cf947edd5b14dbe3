/*
 * kernel_counters.h - hardware counters by kernel (Nsight Compute) joined with the kernel time of the job.
 *
 * The profiler runs each kernel alone, at fixed clocks and with cold caches: what it measures are properties of a
 * kernel, its durations are not times of the job. So every row is weighted with the kernel's time in the steady window
 * of the main device; without a timeline with the durations under the profiler (`alone`), which say nothing about the
 * time between kernels.
 *
 *     const struct gw_counter_row *row = gw_counter_row(d, event->name);
 *     if (row && row->limit == GW_LIMITED_BANDWIDTH) ...
 */
#ifndef GW_KERNEL_COUNTERS_H
#define GW_KERNEL_COUNTERS_H

#include "layers/finding.h"
#include "model/kernel_metrics.h"

/* What holds a kernel back, by its counters. Limits: GW_LIM_COUNTER_* in findings.def. */
enum gw_counter_limit {
    GW_LIMITED_UNKNOWN,   /* the counters needed were not collected */
    GW_LIMITED_BANDWIDTH, /* device memory is busy, and busier than the multiprocessors */
    GW_LIMITED_COMPUTE,
    GW_LIMITED_MEMORY,    /* a cache, or device memory below its limit */
    GW_LIMITED_GRID,      /* neither is busy, and the launch has too few blocks to fill the GPU once */
    GW_LIMITED_OCCUPANCY, /* neither is busy, and too few warps run */
    GW_LIMITED_LATENCY    /* neither is busy, for another reason */
};

struct gw_counter_row {
    uint32_t name; /* of the timeline's kernel; alone: as Nsight Compute writes it */
    enum gw_km_match how;
    int64_t ns;     /* kernel time */
    uint64_t count; /* launches in that time */
    struct gw_kernel_metrics m;
    enum gw_counter_limit limit;
    int tensor_idle; /* 1 = matrix work on the fp32 pipe; 0 = not, or not known */
};

struct gw_counters {
    const struct gw_counter_row *row; /* most time first */
    size_t count;
    const uint32_t *of; /* by name: 1 + its row, 0 = no counters */
    int64_t ns;         /* kernel time that has counters */
    int64_t judged_ns;  /* and whose limit is known */
    int64_t loose_ns;   /* and was matched without template arguments */
    int alone;
};

/* Joins them; NULL in d->counters when the trace has none. 0 or GW_ENOMEM. After d->dev and kernel times are there. */
int gw_counters_join(struct gw_diag *d);

/* NULL when the kernel has no counters. */
const struct gw_counter_row *gw_counter_row(const struct gw_diag *d, uint32_t name);
/* Percentages as shares 0..1, other metrics as they are; NAN = not measured. */
double gw_counter_share(const struct gw_kernel_metrics *m, enum gw_km k);
/* Mean over the rows that `pick` takes (NULL: all), weighted with kernel time; NAN when none has it. */
double gw_counter_mean(const struct gw_diag *d, enum gw_km k, int (*pick)(const struct gw_counter_row *));
int64_t gw_counter_time(const struct gw_diag *d, int (*pick)(const struct gw_counter_row *));
int gw_counter_is_bound(const struct gw_counter_row *row);   /* by bandwidth */
int gw_counter_is_idle(const struct gw_counter_row *row);    /* its tensor pipe */
int gw_counter_is_partial(const struct gw_counter_row *row); /* fills part of the GPU */
/* Share of the kernel time for which the limits are known, 0..1; 0 without counters. */
double gw_counter_coverage(const struct gw_diag *d);
/* The largest of the picked kernels with their counters, as places of the finding. */
void gw_counter_places(struct gw_diag *d, struct gw_draft *f, int (*pick)(const struct gw_counter_row *), size_t most);
/* How much the counters cover and how kernels were matched: evidence for, and against where it is thin. */
void gw_counter_basis(struct gw_diag *d, struct gw_draft *f);

/* Duration that a fix leaves of a kernel, as a share; `step` 0 cautious, 1 likely, 2 hopeful. */
double gw_counter_filled(const struct gw_counter_row *row, int step);
/* How much faster at most its bytes let it become, when each is moved `half` as often (1 = as now): >= 1. */
double gw_counter_roof(const struct gw_counter_row *row, double half);

int gw_find_low_occupancy(struct gw_diag *d);
/* Without a timeline: the three findings that counters alone can give. 1 = there are counters. */
int gw_counters_alone(struct gw_diag *d);
const char *gw_counters_sentence(struct gw_diag *d, const struct gw_finding *first);

void gw_counters_report(struct gw_diag *d, struct gw_report *r);

#endif
