/*
 * finding.h - the tools a diagnosis is written with. A diagnosis is one function `gw_find_x(struct gw_diag *)` of a layer
 * file and one row of findings.def. It looks at the analysis and answers one of: GW_SILENT (data there, signal absent),
 * GW_FIRED (it called gw_diag_add), GW_NO_DATA (listed under "not evaluated").
 *
 *     int gw_find_host_allocation(struct gw_diag *d)
 *     {
 *         if (gw_diag_share(d, GW_CAUSE_HOST_ALLOC) < GW_LIM_SHARE)
 *             return GW_SILENT;
 *         struct gw_draft *f = gw_diag_add(d, GW_F_HOST_ALLOCATION, d->dev->cause_ns[GW_CAUSE_HOST_ALLOC]);
 *         ...
 *         return GW_FIRED;
 *     }
 */
#ifndef GW_FINDING_H
#define GW_FINDING_H

#include "base/gw_i18n.h"
#include "engine/analysis.h"
#include "engine/replay.h"
#include "layers/layers.h"

enum gw_finding_id {
#define GW_FINDING(sym, id, layer, signals, eval, title, phrase, needs) GW_F_##sym,
#include "layers/findings.def"
    GW_F_COUNT
};

#define GW_LIMIT(sym, value, why) static const double GW_LIM_##sym = value;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-const-variable"
#pragma GCC diagnostic ignored "-Wunused-variable"
#include "layers/findings.def"
#pragma GCC diagnostic pop

enum gw_answer { GW_SILENT, GW_FIRED, GW_NO_DATA };

struct gw_live;
struct gw_counters;

struct gw_draft { /* a finding being written */
    struct gw_finding f;
    enum gw_finding_id id;
    struct gw_array evidence, against, where, fix;
};

struct gw_diag {
    const struct gw_analysis *an;
    const struct gw_dev *dev;    /* the main device; NULL without GPU work */
    struct gw_arena *arena;
    struct gw_draft *draft[GW_F_COUNT];
    struct gw_draft spare;       /* written to, and thrown away, when memory is gone */
    int oom;
    float *scales[3];            /* see gw_diag_scales */
    size_t drafts;
    int answer[GW_F_COUNT];
    const struct gw_live *live;  /* live.h; NULL until somebody asked */
    const struct gw_counters *counters; /* kernel_counters.h; NULL = none were given */
    int alone;                   /* 1 = no GPU work was recorded, but NVML and threads were: gw_live_alone() */
    const char *needs[GW_F_COUNT]; /* overrides the catalogue's words for "not evaluated" */
    int64_t wall;                /* of the steady window */
    double steps;                /* steps in it; 1 when none were found */
    double busy;                 /* share of wall in which the device was not idle */
    double stands;               /* part of the job's working time for which the window stands; 1 unless live_phases.h knows better */
    double scale_likely, scale_low; /* dispatch without the profiler, as a share of the recorded: 1 = no correction */
    int64_t kclass_ns[GW_K_CLASS_COUNT]; /* kernel time by class in the steady window */
    int64_t kernel_ns;
    uint64_t kernels;
    int64_t link_rate;           /* host link of this kind of GPU, bytes/s */
    const char *link_name;
};

/* New finding. `lost_ns` of the steady window, -1 unknown. Never NULL (allocation failure ends in a scratch draft). */
struct gw_draft *gw_diag_add(struct gw_diag *d, enum gw_finding_id id, int64_t lost_ns);
void gw_diag_seen(struct gw_diag *d, struct gw_draft *f, double value, const char *unit, const char *source,
                  const char *fmt, ...) GW_PRINTF(6, 7);
void gw_diag_against(struct gw_diag *d, struct gw_draft *f, double value, const char *unit, const char *source,
                     const char *fmt, ...) GW_PRINTF(6, 7);
void gw_diag_where(struct gw_draft *f, const char *file, int64_t line, const char *text, double share, int64_t count);
void gw_diag_fix(struct gw_draft *f, const char *doit, const char *check, const char *cost);

/* A factor for each operation of the replay, all 1.0, for gw_whatif.op_scale. `which` is 0..2: three buffers are shared by
 * all diagnoses, so use one before asking for it again. NULL without a replay or memory. */
float *gw_diag_scales(struct gw_diag *d, int which);

/* Gain from three what-ifs: cautious, likely, hopeful. Each is compared with the unchanged replay at the same correction
 * for the profiler; the replay's own error widens the range. Without a replay: from lost_ns alone. */
void gw_diag_gain(struct gw_diag *d, struct gw_draft *f, const struct gw_whatif *low, const struct gw_whatif *likely,
                  const struct gw_whatif *high);
/* A gain that does not come from a replay. Clamped to low <= likely <= high, all >= 1. */
void gw_diag_gain_set(struct gw_draft *f, double low, double likely, double high);
/* No gain may be larger than `most`, whatever the replay says. */
void gw_diag_gain_cap(struct gw_draft *f, double most);
/* Time of the steady window under `w` with dispatch scaled by `s`, ns (falls back to wall when there is no replay). */
double gw_diag_time(const struct gw_diag *d, const struct gw_whatif *w, double s);

double gw_diag_share(const struct gw_diag *d, enum gw_cause cause); /* of steady wall, 0..1 */

/* A place tally: which user line, operator or annotation a set of host events belongs to. */
struct gw_places;
struct gw_places *gw_places_new(struct gw_diag *d);
void gw_places_add(struct gw_places *p, uint32_t host_event, int64_t weight_ns);
void gw_places_done(struct gw_places *p, struct gw_draft *f, size_t most); /* writes the `where` rows and frees */
void gw_places_drop(struct gw_places *p); /* frees without writing */
int gw_places_has_file(const struct gw_places *p);

/* time for texts: "13.6 ms" */
const char *gw_diag_time_text(struct gw_diag *d, double ns);
const char *gw_diag_bytes_text(struct gw_diag *d, double bytes);
double gw_diag_per_step(const struct gw_diag *d, double total);

/* For reports that are put together elsewhere (rank_report.c): the steps of gw_diagnose() that need no analysis. */
void gw_diag_order(struct gw_diag *d);                      /* drafts: best gain first, residual causes last */
void gw_diag_keep(struct gw_diag *d, struct gw_report *r);  /* drafts into r->findings, in their order */
void gw_diag_blame(struct gw_diag *d, struct gw_report *r, const struct gw_finding *f, const char *head);

/* Does the event lie in the steady window? */
static inline int gw_diag_in(const struct gw_diag *d, const struct gw_event *e)
{
    return e->start >= d->an->w0 && e->start < d->an->w1;
}

/* the diagnoses, in the layer files */
int gw_find_loader_starved(struct gw_diag *d);
int gw_find_main_loading(struct gw_diag *d);
int gw_find_worker_respawn(struct gw_diag *d);
int gw_find_pageable_copy(struct gw_diag *d);
int gw_find_blocking_copy(struct gw_diag *d);
int gw_find_copy_link(struct gw_diag *d);
int gw_find_gil_stalls(struct gw_diag *d);
int gw_find_main_preprocess(struct gw_diag *d);
int gw_find_batch_small(struct gw_diag *d);
int gw_find_allocator(struct gw_diag *d);
int gw_find_shape_churn(struct gw_diag *d);
int gw_find_comm_exposed(struct gw_diag *d);
int gw_find_microstep_sync(struct gw_diag *d);
int gw_find_host_comm(struct gw_diag *d);
int gw_find_launch_bound(struct gw_diag *d);
int gw_find_host_sync(struct gw_diag *d);
int gw_find_slow_op(struct gw_diag *d);
int gw_find_unfused_optimizer(struct gw_diag *d);
int gw_find_recompile(struct gw_diag *d);
int gw_find_autotune(struct gw_diag *d);
int gw_find_tensor_idle(struct gw_diag *d);
int gw_find_bandwidth(struct gw_diag *d);
int gw_find_low_occupancy(struct gw_diag *d);
int gw_find_host_allocation(struct gw_diag *d);
int gw_find_debug_mode(struct gw_diag *d);
int gw_find_checkpoint(struct gw_diag *d);
int gw_find_evaluation(struct gw_diag *d);
int gw_find_simulator(struct gw_diag *d);
int gw_find_by_nature(struct gw_diag *d);
int gw_find_warmup_only(struct gw_diag *d);
int gw_find_too_little(struct gw_diag *d);

/* with what gpuwhy run saw beside the GPU's work (live.h); without it they answer as their namesakes above, or NO_DATA */
int gw_live_loader_starved(struct gw_diag *d);
int gw_live_too_few_workers(struct gw_diag *d);
int gw_live_slow_storage(struct gw_diag *d);
int gw_live_worker_respawn(struct gw_diag *d);
int gw_live_same_data(struct gw_diag *d);
int gw_live_no_reshuffle(struct gw_diag *d);
int gw_live_workers_cpu(struct gw_diag *d);
int gw_live_oversubscribed(struct gw_diag *d);
int gw_live_gil(struct gw_diag *d);
int gw_live_worker_memory(struct gw_diag *d);
int gw_live_batch_small(struct gw_diag *d);
int gw_live_memory_full(struct gw_diag *d);
int gw_live_tensor_idle(struct gw_diag *d);
int gw_live_bandwidth(struct gw_diag *d);
int gw_live_thermal(struct gw_diag *d);
int gw_live_power(struct gw_diag *d);
int gw_live_clocks(struct gw_diag *d);
int gw_live_cpu_starved(struct gw_diag *d);
int gw_live_gpu_shared(struct gw_diag *d);

#endif
