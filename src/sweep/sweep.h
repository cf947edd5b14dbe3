/*
 * sweep.h - a job measured at several settings: which to try next, and what the measurements say. Pure: whoever runs
 * the job asks, measures and tells; no processes, no clock, no output.
 *
 *     struct gw_sweep s = {.repeats = 2, .precision = 0.02};
 *     gw_sweep_knob_parse(&s.knob[0], "workers=0,2,4,8", why, sizeof why);  s.knobs = 1;
 *     gw_sweep_begin(&s);
 *     while (gw_sweep_next(&s, &ask)) { ... run the job at ask.point ... gw_sweep_add(&s, &run); }
 *     gw_sweep_judge(&s, &verdict);
 *     gw_sweep_free(&s);
 *
 * The words: a KNOB is a setting with a list of values. A POINT is one value for each knob. A RUN is one start of the
 * job at a point; a point may have several. The KNEE is the smallest setting whose rate is within 5 % of the best (or
 * within the noise, where that is larger): more of it buys nothing.
 *
 * The search does not try every point. It looks at a few spread over the list, then halves the stretch in which the
 * knee must lie. A batch is grown from below by doubling, so that it ends before memory does. A point that fails is a
 * result: it bounds the list. In the end the points that decide are run again in the opposite order, so that a machine
 * that becomes slower in the meantime is noticed and taken out.
 *
 * Rates are steps, samples or whatever the caller counts, per second. Unknown numbers are NAN, never 0. One thread.
 */
#ifndef GW_SWEEP_H
#define GW_SWEEP_H

#include <stddef.h>
#include <stdint.h>

#include "base/gw_error.h"

enum {
    GW_SWEEP_KNOBS = 2,
    GW_SWEEP_VALUES = 128, /* of a knob */
    GW_SWEEP_VALUE = 24,   /* bytes of a value's text */
    GW_SWEEP_NAME = 32,
    GW_SWEEP_RUNS = 4096,
    GW_SWEEP_WHY = 200
};
#define GW_SWEEP_TOLERANCE \
    0.05 /* the knee is within this of the best: less is not worth CPUs, memory or a batch's side effects */
#define GW_SWEEP_MEMORY_FULL 0.97 /* of GPU memory: a batch that is expected to need more is not tried */
#define GW_SWEEP_MEMORY_LOW 0.80  /* the mark up to which a batch is usually grown, ... */
#define GW_SWEEP_MEMORY_HIGH 0.90 /* ... and the one above which fragmentation and longer inputs make it fail */
#define GW_SWEEP_SCALES 0.90      /* samples/s growing by this share of the batch's growth still count as linear */
#define GW_SWEEP_NONE ((size_t)-1)

struct gw_sweep_knob {
    char name[GW_SWEEP_NAME];
    size_t n;
    char value[GW_SWEEP_VALUES][GW_SWEEP_VALUE]; /* as it is put into the command */
    double number[GW_SWEEP_VALUES];              /* NAN in a knob whose values are not all numbers */
    int is_number;                               /* 1: ascending numbers; 0: words, all of which are tried */
    int is_batch;                                /* samples a step; memory grows with it */
};

enum gw_sweep_outcome {
    GW_SWEEP_OK,
    GW_SWEEP_OUT_OF_MEMORY, /* of the GPU or the host, as the job or the kernel says */
    GW_SWEEP_CRASHED,       /* ended with an error, or by a signal */
    GW_SWEEP_HUNG,          /* steps came, then no more */
    GW_SWEEP_NO_STEPS,      /* ran, but no step was seen */
    GW_SWEEP_OUTCOMES
};
const char *gw_sweep_outcome_id(unsigned o);   /* "ok", "out-of-memory", ... */
const char *gw_sweep_outcome_text(unsigned o); /* untranslated */

struct gw_sweep_run {
    size_t point;
    enum gw_sweep_outcome outcome;
    double rate, error;          /* error: half of the 95 % interval over the rate */
    double at_s;                 /* middle of the measured stretch, s since the sweep began */
    double took_s;               /* from start to end of the job */
    double warmup_s, steady_s;   /* left out; measured */
    double steps;                /* in the measured stretch */
    int is_settled;              /* 0: the rate was still changing when time ran out */
    double gpu_bytes, gpu_total; /* most GPU memory in use by all, and what there is; NAN unknown */
    double gpu_busy;             /* NVML's utilization in the run, 0 to 1; NAN unknown */
    double workers;              /* child processes that live on; NAN unknown */
    double worker_bytes;         /* memory of one of them that it shares with nobody; NAN unknown */
    double host_free;            /* bytes available on the host (and in the cgroup) at the end; NAN unknown */
    double kernels;              /* kernels a step, when the GPU's rhythm was followed; NAN unknown */
    char why[GW_SWEEP_WHY];      /* of a failure: the last words of the job; "" none */
};

enum gw_sweep_state { GW_SWEEP_UNTRIED, GW_SWEEP_MEASURED, GW_SWEEP_FAILED, GW_SWEEP_SKIPPED };
enum gw_sweep_skip { GW_SWEEP_SKIP_NONE, GW_SWEEP_SKIP_BOUND, GW_SWEEP_SKIP_GPU_MEMORY, GW_SWEEP_SKIP_HOST_MEMORY };

/* All runs of a point together. */
struct gw_sweep_point {
    enum gw_sweep_state state;
    enum gw_sweep_skip skip; /* why it is left out: beyond a failure, or memory would not do */
    double expected_bytes;   /* what it would need, when skipped for memory */
    size_t runs;
    double rate, error;       /* drift taken out; error of run-to-run noise included */
    struct gw_sweep_run last; /* the last run that went well, or the one that failed */
};

struct gw_sweep {
    /* set by the caller */
    struct gw_sweep_knob knob[GW_SWEEP_KNOBS];
    size_t knobs;
    int repeats;      /* runs of the points that decide; at least 1 */
    int exhaustive;   /* every point, as often as `repeats` says */
    double precision; /* relative error at which a run may end */
    /* kept by sweep_*.c */
    size_t points;
    struct gw_sweep_point *point;
    struct gw_sweep_run *run;
    size_t runs;
    double drift; /* change of the rate over the whole sweep, as a share; 0 = none seen; NAN = not looked at */
    double drift_slope, drift_mid; /* of log(rate) per s, and where it is zero */
    double
        noise; /* run-to-run standard deviation over the rate, beyond what a run's own spread explains; NAN unknown */
};

/* NAME=0,2,4,8   NAME=32..1024x2   NAME=1..9+2   NAME=1..4   or several of them with commas. 0, or -1 with `why`
 * filled. */
int gw_sweep_knob_parse(struct gw_sweep_knob *k, const char *spec, char *why, size_t cap);
/* 0 or GW_ENOMEM. */
int gw_sweep_begin(struct gw_sweep *s);
void gw_sweep_free(struct gw_sweep *s);
/* Index of a knob's value at a point, and back. */
size_t gw_sweep_at(const struct gw_sweep *s, size_t point, size_t knob);
size_t gw_sweep_point_of(const struct gw_sweep *s, const size_t at[GW_SWEEP_KNOBS]);
/* 0, or GW_ENOMEM when there are too many runs. Updates points, drift and noise. */
int gw_sweep_add(struct gw_sweep *s, const struct gw_sweep_run *run);

enum gw_sweep_phase { GW_SWEEP_SEARCH, GW_SWEEP_REFINE, GW_SWEEP_REPEAT };
struct gw_sweep_ask {
    size_t point;
    enum gw_sweep_phase phase;
    double best; /* rate of the best point so far; NAN none */
    size_t left; /* runs that are likely to follow, this one included */
};
/* The next point to run. 0 when enough is known. May mark points as skipped. */
int gw_sweep_next(struct gw_sweep *s, struct gw_sweep_ask *ask);
/* May the run end? A point far below the best need not be known well. */
int gw_sweep_enough(const struct gw_sweep *s, const struct gw_sweep_ask *ask, double rate, double error);
/* 1: the rate is so far below the best that it cannot be the knee, within its error, and is known well enough for that. */
int gw_sweep_is_far(double rate, double error, double best);

enum gw_sweep_kind {
    GW_SWEEP_NOTHING, /* no point could be measured */
    GW_SWEEP_ONE,     /* one only: nothing to compare */
    GW_SWEEP_FLAT,    /* the setting makes no difference */
    GW_SWEEP_KNEE,
    GW_SWEEP_RISING,  /* the best is the largest value of the list, and there may be more above it */
    GW_SWEEP_BOUNDED, /* the same, but the next larger one fails or would not fit into memory */
    GW_SWEEP_OPEN,    /* the best is the largest that was measured, and time ended before larger ones were tried */
    GW_SWEEP_KINDS
};
const char *gw_sweep_kind_id(unsigned k);

struct gw_sweep_verdict {
    enum gw_sweep_kind kind;
    size_t knee, best; /* points; GW_SWEEP_NONE none */
    size_t from, to;   /* the knee may be any setting from .. to of the first knob that varies there (points) */
    double tolerance;  /* within which rates count as the same here: 5 %, or the noise */
    size_t measured, failed, skipped, untried;
    size_t linear; /* batch: the largest point up to which samples/s grows in proportion; GW_SWEEP_NONE */
    size_t below_low, below_high; /* batch: the largest points below 80 % and 90 % of GPU memory; GW_SWEEP_NONE */
    double spent_s, mean_s;       /* time of all runs, and of one */
};
void gw_sweep_judge(const struct gw_sweep *s, struct gw_sweep_verdict *v);

/* --- between the files --- */

/* One knob varied, the other held: points in the knob's order. */
struct gw_sweep_line {
    const struct gw_sweep *s;
    size_t knob, n;
    size_t held; /* index of the other knob's value */
};
struct gw_sweep_line gw_sweep_line_of(const struct gw_sweep *s, size_t knob, size_t held);
const struct gw_sweep_point *gw_sweep_on(const struct gw_sweep_line *l, size_t i);
size_t gw_sweep_line_point(const struct gw_sweep_line *l, size_t i);
/* Index of the best point and of the knee on the line; GW_SWEEP_NONE when nothing is measured. */
size_t gw_sweep_line_best(const struct gw_sweep_line *l);
size_t gw_sweep_line_knee(const struct gw_sweep_line *l);
/* Share by which point `i` may be below the best and still count as the same. */
double gw_sweep_line_tolerance(const struct gw_sweep_line *l, size_t best, size_t i);
/* First index that failed (or was skipped) with nothing measured above it; n when there is none. */
size_t gw_sweep_line_bound(const struct gw_sweep_line *l);
/* The lines of a sweep of two knobs that were searched: value of knob 1 on which knob 0 was decided, and the other way.
 */
void gw_sweep_held(const struct gw_sweep *s, size_t held[GW_SWEEP_KNOBS]);

#endif
