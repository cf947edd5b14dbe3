/*
 * diff.h - two reports compared: what changed in a step, where, and whether it is more than noise. Pure.
 *
 * A side is a report on its main device's steady window. Times are ns a step (doubles: means over steps); parts add up
 * to the mean step. Whether the typical step changed is asked of the medians, with an interval of 95 %:
 *
 *   scatter of the steps  Welch's t on the medians, with robust spreads. The steps of one recording follow each other
 * and are not independent, so their number does not shrink it. run to run            the same job recorded again on a
 * shared machine: GPU time repeats to 0.3 % (GW_DIFF_RUN_GPU), steps whose pace the host sets to 10 %
 * (GW_DIFF_RUN_HOST): docs/diff.md has the recordings.
 *
 * What cannot be told apart from that is "no real change".
 *
 *     struct gw_diff *d = gw_diff_make(before, after, NULL, arena);
 *     if (d->change == GW_DIFF_FASTER) printf("%.2f", 1 / d->ratio);
 */
#ifndef GW_DIFF_H
#define GW_DIFF_H

#include "engine/report_model.h"

#define GW_DIFF_RUN_GPU 0.01  /* measured 0.003; clocks and caches of another day deserve more */
#define GW_DIFF_RUN_HOST 0.10 /* measured 0.07 and 0.14 */

enum gw_diff_change { GW_DIFF_UNKNOWN, GW_DIFF_SAME, GW_DIFF_FASTER, GW_DIFF_SLOWER };
const char *gw_diff_change_id(enum gw_diff_change c); /* "unknown", "same", "faster", "slower" */

struct gw_diff_options {
    double
        run_noise; /* run-to-run noise of this machine as a share, from recording the same job twice; NAN: as above */
};

struct gw_diff_side {
    const struct gw_report *rep;
    const struct gw_report_device *dev; /* NULL without GPU work */
    double steps;                       /* in the steady window; 0 none */
    double mean, median;                /* ns; NAN unknown */
    double scatter;                     /* robust standard deviation of a step, as a share of the median; NAN unknown */
    double paced;                       /* 0..1: how far the host sets the pace */
    int64_t slow;                       /* steps longer than twice the median */
    int64_t ranks;                      /* GPUs of the job; 1 when nothing else is said */
};

struct gw_diff_row {
    const char *id;     /* part, cause, class or kernel */
    const char *kclass; /* of a kernel; else NULL */
    double a, b;        /* ns a step; NAN: not known */
    double na, nb;      /* a step: operations; NAN for parts and causes */
    int real;           /* 1 = more than noise */
};

enum gw_diff_outcome { GW_DIFF_NONE, GW_DIFF_WITHIN, GW_DIFF_LESS, GW_DIFF_MORE, GW_DIFF_NOT_DONE };
const char *gw_diff_outcome_id(enum gw_diff_outcome o); /* "none", "within", "less", "more", "not-done" */

struct gw_diff {
    struct gw_diff_side a, b;
    const char *why_not;             /* a clause: why step times cannot be compared; NULL when they can */
    enum gw_diff_change change;      /* of the typical step */
    double ratio, low, high;         /* median of B / median of A, and its interval of 95 %; NAN unknown */
    double mean_ratio;               /* NAN unknown */
    int slow_changed;                /* 1 = the mean changed otherwise than the median: slow steps came or went */
    const struct gw_diff_row *parts; /* compute, comm, copies, idle; empty when not comparable */
    size_t part_count;
    const struct gw_diff_row *causes, *classes, *kernels; /* largest change first; rows without any are left out */
    size_t cause_count, class_count, kernel_count;
    int same_work;                        /* 1 = the same kernels as often, and for as long */
    struct {                              /* what A's verdict promised */
        const struct gw_finding *finding; /* NULL: it promised nothing */
        double actual;                    /* speed-up of a step, from the means */
        enum gw_diff_outcome outcome;
        double still; /* likely gain of the same finding in B; 1 when it is gone */
    } promise;
    struct {               /* the two have different numbers of GPUs */
        int64_t few, many; /* 0 when not */
        int more_is_b;
        double work;       /* compute of a rank's step on many, of that on few */
        double efficiency; /* compute share of a step on many, of that on few: 1 = perfect */
        const char *grew;  /* part or cause that grew most on many; "" none */
        double grew_ns;
    } scaling;
    int other_gpu; /* 1 = the GPUs have different names */
};

/* NULL when out of memory. Borrows the reports. `o` may be NULL. */
struct gw_diff *gw_diff_make(const struct gw_report *a, const struct gw_report *b, const struct gw_diff_options *o,
                             struct gw_arena *arena);

/* ---- gates: "step>+5%", "idle>30%", "kernel:sgemm>+1ms" ---- */

struct gw_gate {
    char metric[80]; /* step, mean, compute, comm, copies, idle, kernel:NAME, cause:ID */
    int below;       /* 1 = '<' */
    int relative;    /* 1 = a change (written with a sign), 0 = the value of B */
    int percent;     /* 1 = of A's value for a change, of B's step for a value; 0 = ns */
    double limit;
};

/* 0, or GW_EUSAGE with `why` filled. */
int gw_gate_parse(const char *text, struct gw_gate *g, char *why, size_t cap);
/* 1 crossed, 0 not, -1 it cannot be told (then `*value` is NAN). A change within the noise does not cross, unless
 * `strict`.
 * `*value` is what was compared with the limit, in its unit. */
int gw_gate_crossed(const struct gw_diff *d, const struct gw_gate *g, int strict, double *value);

#endif
