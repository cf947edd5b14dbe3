/*
 * activity.h - how busy a GPU was over a whole run, from hardware counters: stretches of time, each with means.
 *
 * Unlike GPU records it covers the time between windows, and other programs' work on the GPU is in it too. It hangs on
 * gw_host_facts. Stretches are in order and do not overlap; what lies between two was not measured. However many come, at most
 * GW_ACTIVITY_RUNS are kept (neighbours are joined, sums stay right).
 *
 *     struct gw_activity_builder b;
 *     gw_activity_begin(&b, device);
 *     gw_activity_add(&b, start, end, share);
 *     gw_activity_finish(&b, arena, &activity);
 */
#ifndef GW_ACTIVITY_H
#define GW_ACTIVITY_H

#include "base/gw_arena.h"

#include <stdint.h>

enum gw_activity_of { GW_ACT_ENGINE, GW_ACT_SM, GW_ACT_DRAM, GW_ACT_TENSOR, GW_ACT_COUNT }; /* as in record/pm_metrics.def */
enum { GW_ACTIVITY_RUNS = 1 << 18 };

struct gw_activity_run {
    int64_t start, end;         /* ns on the trace's clock */
    float share[GW_ACT_COUNT];  /* means, 0..1; NAN not measured */
};

struct gw_activity {
    int64_t device;             /* as in gw_device.id: NVML's index */
    const struct gw_activity_run *run;
    size_t count;
    uint64_t samples, overflows;/* of the hardware; overflows: times that samples were lost because its buffer was full */
    int64_t interval_ns;        /* between samples, the last one used; -1 unknown */
    const char *state;          /* id: "running", "ended", or why nothing was sampled (record/pm_states.def) */
    const char *why;            /* untranslated: why it was refused or ended early; NULL = all well */
};

struct gw_activity_builder {
    int64_t device;
    struct gw_array runs;
    int64_t least; /* stretches shorter than this are joined with their neighbours; 0 while there is room */
};

void gw_activity_begin(struct gw_activity_builder *b, int64_t device);
/* What overlaps with the time before is cut; empty stretches are left out. 0, or GW_ENOMEM. */
int gw_activity_add(struct gw_activity_builder *b, int64_t start, int64_t end, const float share[GW_ACT_COUNT]);
/* Copies the stretches into the arena and frees the builder. Fills device, run and count. 0, or GW_ENOMEM. */
int gw_activity_finish(struct gw_activity_builder *b, struct gw_arena *arena, struct gw_activity *out);

/* Mean of one metric over [from, to), weighted with time; *measured = ns of it that were measured. NAN when none. */
double gw_activity_mean(const struct gw_activity *a, enum gw_activity_of what, int64_t from, int64_t to, int64_t *measured);

#endif
