/*
 * analysis.h - what the engine knows about a trace before anybody draws a conclusion. For layers and tests.
 *
 * Everything is constant once gw_analyse() returned and lives in its arena. Times in ns; event numbers index the trace.
 */
#ifndef GW_ANALYSIS_H
#define GW_ANALYSIS_H

#include "engine/engine.h"
#include "engine/names.h"

/* What the launching side of the host was doing, as runs that follow each other without holes. `label` is an enum
 * gw_cause or GW_HOST_QUEUE_FULL. Neighbouring runs of one label are one run. */
enum { GW_HOST_QUEUE_FULL = GW_CAUSE_COUNT }; /* held in a launch call because the GPU's queue is full: host ahead */
struct gw_run {
    int64_t start, end;
    uint32_t leaf;  /* the host event that says most about it (longest leaf), or GW_NONE */
    uint32_t label;
};

/* An idle span of a device. Its pieces follow each other in gw_dev.pieces and add up to its length exactly. */
struct gw_gap {
    int64_t start, end;
    uint32_t next_op;      /* GPU operation that ends it, GW_NONE at the window's end */
    uint32_t call;         /* the API call that launched it, GW_NONE unknown */
    uint32_t first_piece, pieces;
    uint32_t drain;        /* enum gw_cause that emptied the queue most recently */
    uint32_t drain_event;  /* the host event that did, GW_NONE unknown */
};

struct gw_piece {
    int64_t ns;
    uint32_t gap;
    uint32_t culprit; /* host event to blame, or GW_NONE */
    uint32_t cause;   /* enum gw_cause */
    uint32_t pad;
};

/* A synchronising or blocking host call. */
struct gw_block {
    uint32_t call;      /* API event */
    uint32_t kind;      /* GW_CAUSE_HOST_SYNC or GW_CAUSE_BLOCKING_COPY */
    int64_t bytes;      /* of the copy that it waits for, -1 none */
    uint32_t copy_op;   /* that copy on the GPU, or GW_NONE */
    int64_t idle_after; /* idle ns of the main device blamed on it */
    int64_t waited;     /* ns of it during which the device was busy */
    int32_t drained;    /* 1 when the device was idle at its end */
    int32_t to_host;    /* 1 = the copy goes to the host (a value is read), 0 = to the device */
};

struct gw_stack_info;

struct gw_dev {
    const struct gw_device *info;
    const uint32_t *ops;
    size_t nops;
    int64_t pid;              /* process that launches on it, -1 unknown */
    uint32_t main_lane;       /* the host lane with most launches, GW_NONE */
    struct gw_partition whole, steady;
    const struct gw_gap *gaps; /* of the whole window */
    size_t ngaps;
    const struct gw_piece *pieces;
    size_t npieces;
    const struct gw_run *runs;
    size_t nruns;
    const struct gw_block *blocks; /* by start */
    size_t nblocks;
    const struct gw_cause_total *whole_causes, *steady_causes; /* largest first */
    size_t nwhole, nsteady;
    int64_t cause_ns[GW_CAUSE_COUNT];   /* steady */
    uint64_t cause_gaps[GW_CAUSE_COUNT];
    int64_t host_ns[GW_CAUSE_COUNT + 1];/* steady window: what the host did, by label */
    int64_t launch_latency;  /* median ns from the start of a launch call to its kernel on an idle GPU */
    int64_t launch_median;   /* median duration of a launch call, ns */
    uint64_t host_events;    /* host events recorded in the steady window: what the profiler had to write down */
    struct gw_replay *replay;/* replay.h; NULL when it cannot be replayed */
};

struct gw_steps {
    size_t count;            /* boundaries are count + 1 */
    const int64_t *bound;    /* GPU-side boundaries, ascending */
    const int64_t *host;     /* host-side starts, count of them; NULL when found on the GPU only */
    size_t steady_first, steady_last; /* steps [first, last) make the steady window */
    const char *found_by, *marker;
    size_t empty;            /* marked steps without GPU work, left out */
    size_t warmup;           /* leading steps left out for compilation or start-up */
};

/* Brought to the host in one step: a state (weights, their statistics), and not a few values. */
#define GW_PHASE_FACTOR 3 /* a step this many times the median is a phase of its own */
#define GW_PHASE_MIN_NS 1000000
#define GW_PHASE_STATE_BYTES 32000000

/* A step that is a phase of its own: much longer than the median, for a reason that is not in the other steps. */
struct gw_phase {
    int64_t start, end;  /* the step, GPU side */
    size_t step;
    uint32_t cause;      /* CHECKPOINT, EVALUATION or RESPAWN */
    int64_t to_host;     /* bytes copied to the host in it */
    int64_t excess;      /* ns beyond the median step */
    int guessed;         /* 1 = from its shape; 0 = a range or stack frame names it */
};

struct gw_analysis {
    const struct gw_trace *t;
    struct gw_arena *arena;
    const struct gw_name_info *names;
    uint64_t ranges;         /* operators, annotations and Python frames recorded; 0: the host shows calls alone, or nothing */
    const uint32_t *ctx;     /* per event: GW_CTX_* of it and of the ranges around it (host events) */
    struct gw_dev *dev;
    size_t ndev;
    size_t main;             /* index of the device the verdict speaks of; ndev when there is no GPU work */
    struct gw_steps steps;   /* of the main device */
    int64_t w0, w1;          /* steady window of the main device */
    const struct gw_phase *phases; /* of the main device, inside the steady window */
    size_t nphases;
    int64_t median_step;     /* ns over all complete steps, -1 unknown */
    /* Dispatch in a run without the profiler as a share of the recorded dispatch; 1 = no correction. `low` is the other
     * end of what was measured. Of the main device's process. */
    double dispatch_likely, dispatch_low;
    const unsigned char *stacked;       /* by lane: 1 = some of its samples have a stack */
    const struct gw_stack_info *stacks; /* by name id (samples.h); NULL when no threads were sampled */
    double replay_error;     /* of the unchanged replay, also when it was too large to be used; NAN = none */
};

/* helpers for layers */
static inline const struct gw_event *gw_ev(const struct gw_analysis *an, uint32_t i) { return gw_trace_event(an->t, i); }
static inline const char *gw_ev_name(const struct gw_analysis *an, uint32_t i)
{
    return gw_trace_text(an->t, gw_trace_event(an->t, i)->name);
}
static inline const struct gw_name_info *gw_ev_info(const struct gw_analysis *an, uint32_t i)
{
    return an->names + gw_trace_event(an->t, i)->name;
}

/* First place in the lane's order whose event starts at `at` or later; lane->count when none does. */
static inline size_t gw_lane_at(const struct gw_analysis *an, const struct gw_lane *lane, int64_t at)
{
    size_t lo = 0, hi = lane->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (gw_ev(an, lane->order[mid])->start < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* First blocking call of the device that starts at `at` or later; nblocks when none does. */
static inline size_t gw_block_at(const struct gw_analysis *an, const struct gw_dev *d, int64_t at)
{
    size_t lo = 0, hi = d->nblocks;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (gw_ev(an, d->blocks[mid].call)->start < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* stages, in order; each fills its part of `an` and returns 0 or GW_ENOMEM */
int gw_steps_find(struct gw_analysis *an);                       /* steps.c */
int gw_host_line(struct gw_analysis *an, struct gw_dev *dev);    /* hostline.c: runs, blocks */
int gw_blame(struct gw_analysis *an, struct gw_dev *dev);        /* blame.c: gaps, pieces, causes */
int gw_blame_totals(struct gw_analysis *an, struct gw_dev *dev); /* sums by cause, again after phases changed them */
int gw_phases(struct gw_analysis *an, struct gw_dev *dev);       /* phases.c: checkpoints and the like get their cause */

#endif
