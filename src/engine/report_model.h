/*
 * report_model.h - the report: what the engine and the layers found, ready for a renderer.
 *
 * Plain data in one arena; strings are borrowed from it and may hold bytes that came from a trace, so every renderer
 * escapes them for its own format. Times are ns. Missing numbers are NAN (double) or -1 (counts, ns); a renderer
 * prints "n/a" or null for them, never 0. Constant once built.
 */
#ifndef GW_REPORT_MODEL_H
#define GW_REPORT_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/gw_arena.h"
#include "model/kernel_metrics.h"
#include "model/trace.h"

enum gw_cause {
#define GW_CAUSE(sym, id, text) GW_CAUSE_##sym,
#include "engine/causes.def"
#undef GW_CAUSE
    GW_CAUSE_COUNT
};

const char *gw_cause_id(unsigned cause);
const char *gw_cause_text(unsigned cause); /* untranslated */

/* Every ns of a window belongs to exactly one of compute, comm_exposed, copy_exposed, idle: they add up to wall. */
struct gw_partition {
    int64_t start, end;   /* the window, ns on the trace's clock */
    int64_t wall, compute, comm_exposed, copy_exposed, idle;
    int64_t comm_hidden;  /* communication that ran under compute */
    int64_t copy_hidden;  /* copies and sets that ran under compute or communication */
    uint64_t ops;         /* GPU operations that start inside the window */
};

struct gw_cause_total {
    enum gw_cause cause;
    int64_t ns;
    uint64_t gaps;
};

struct gw_report_device {
    int64_t id;
    const char *name;             /* "" when unknown */
    struct gw_partition whole, steady;
    const struct gw_cause_total *idle_by_cause; /* steady window, largest first; the sum is steady.idle exactly */
    size_t cause_count;
    const struct gw_cause_total *whole_by_cause; /* the same over the whole window */
    size_t whole_cause_count;
    int64_t rank;                 /* of the process that used it, in a job of several; -1 unknown */
};

struct gw_report_steps {
    int64_t count;       /* steps found in the recording; 0 = none found */
    int64_t steady_count;/* steps the verdict rests on */
    int64_t median_ns, mean_ns, p95_ns, min_ns; /* over steady steps, GPU side; -1 unknown */
    const char *found_by; /* "annotation", "data-loader", "optimizer", "kernel-sequence", "none" */
    const char *marker;   /* the annotation or kernel that marks a step, "" when none */
    double tail_share;    /* share of steady wall spent in steps longer than 2x the median; NAN unknown */
};
#define GW_REPORT_TIMES 2000 /* steps whose times are kept; of more, every k-th */

enum gw_confidence { GW_CONF_LOW, GW_CONF_MEDIUM, GW_CONF_HIGH };
const char *gw_confidence_id(unsigned c); /* "low", "medium", "high" */

struct gw_gain {      /* speed-up factors, >= 1; all NAN when it cannot be told */
    double low, likely, high;
};

struct gw_evidence {
    const char *text;   /* one clause with the number in it, for people */
    double value;       /* the number itself, NAN when the evidence is not a number */
    const char *unit;   /* "ns", "1", "bytes", "bytes/s", "share", "count" */
    const char *source; /* where the number comes from: "timeline", "kernel names", "API calls", ... */
};

struct gw_where {
    const char *file;   /* "" when no stack was recorded */
    int64_t line;       /* 0 unknown */
    const char *text;   /* op, annotation, kernel or call, e.g. "aten::item under aten::norm" */
    double share;       /* of this finding's time or count, 0..1 */
    int64_t count;      /* -1 unknown */
};

struct gw_fix {
    const char *doit;   /* what to change, with a line to paste */
    const char *check;  /* how to see that it helped */
    const char *cost;   /* what it may cost; "" when nothing worth a word */
};

struct gw_finding {
    const char *id;     /* stable, from findings.def */
    const char *layer;  /* id of layers.def */
    const char *phrase; /* plain words for the sentence: "the code keeps asking the GPU for values" */
    int rank;           /* 1 = first */
    int64_t lost_ns;    /* steady wall lost to it over the steady window, -1 unknown */
    double share_of_wall; /* lost / steady wall, 0..1 */
    double share_of_idle; /* NAN when it is not idle time */
    int64_t now_step_ns, then_low_ns, then_high_ns; /* step time now and with the cause gone; -1 unknown */
    struct gw_gain gain;
    enum gw_confidence confidence;
    const struct gw_evidence *evidence;
    size_t evidence_count;
    const struct gw_evidence *against;
    size_t against_count;
    const struct gw_where *where;
    size_t where_count;
    const struct gw_fix *fix;
    size_t fix_count;
};

struct gw_not_evaluated {
    const char *id;
    const char *needs; /* what would supply the data */
};

struct gw_report_loss {
    const char *id;
    uint64_t count;
    int64_t first_byte; /* -1 unknown */
    const char *text;   /* untranslated: pass through _() */
};

struct gw_report_source {
    const char *path, *format;
    int64_t bytes, events; /* -1 unknown */
};

/* Work of the main device's steady window by name or by class, per step (of the whole window when no steps were found). */
struct gw_report_kernel {
    const char *name;   /* a short kernel name or the name of a copy; in the list of classes: the class */
    const char *kclass; /* gw_kclass_name(), "memory copy" or "memory set" */
    double count, ns;   /* a step */
};
#define GW_REPORT_KERNELS 50 /* names kept, most time first; the classes cover all of it */

/* One rank of a job, over its steady window; collectives split by what the other ranks' recordings show. */
struct gw_report_rank {
    int64_t rank, device;  /* rank -1: devices of one recording, told apart by their number */
    const char *path, *name; /* the recording, the GPU */
    int64_t steps, median_step_ns; /* 0 and -1 when no steps were found */
    int64_t wall, compute, comm_exposed, copy_exposed, idle;
    int64_t wait, wait_exposed; /* inside collectives until the last rank arrived; the part no compute hides; -1 unknown */
    int64_t transfer;           /* inside collectives once all ranks were there; -1 unknown */
    int64_t last;               /* collectives at which it arrived last; -1 unknown */
    int64_t late;               /* ns by which it came later than the median rank, where that cost the others time; -1 */
    const char *cause;          /* id of the largest cause of its idle time, "" none */
};

/* One sort of collective: the same kind and size, matched over ranks. */
struct gw_report_collective {
    const char *kind;     /* "AllReduce", ... */
    int64_t bytes;        /* -1 unknown, or not the same each time */
    int64_t ranks;        /* that take part */
    double count;         /* a step */
    double transfer_ns, wait_ns; /* a step: shortest over the ranks; what the ranks wait for the last one, mean */
    double bus_bandwidth; /* bytes/s on the link, as nccl-tests defines it; NAN unknown */
};

/* Hardware counters of one kernel, from Nsight Compute. */
struct gw_report_counter {
    const char *name;           /* short */
    const char *kclass, *limit; /* gw_kclass_name(); what holds it back: docs/json.md */
    const char *match;          /* how the kernel was found among the counters: docs/json.md */
    double share;               /* of the kernel time that has counters, 0..1 */
    double value[GW_KM_COUNT];  /* percentages as shares 0..1; NAN = not measured */
};

struct gw_report_counters {
    int64_t names, launches;   /* that were profiled */
    int alone;                 /* 1 = no timeline: weighted with durations under the profiler */
    double covered;            /* share of the steady kernel time that has counters; NAN when alone */
    double mean[GW_KM_COUNT];  /* weighted with kernel time */
    const struct gw_report_counter *rows; /* most time first, at most GW_REPORT_KERNELS */
    size_t count;
};

/* One of the windows in which a recording looked at the GPU's work. What lies between two of them is not known: never idle. */
struct gw_report_window {
    int64_t start_ns;          /* since the recording began */
    int64_t wall_ns, idle_ns;  /* of its steady part, on the main device */
    int64_t steps, median_step_ns; /* 0 and -1 when no steps were found */
    int same_kernels;          /* 0 = another phase of the job: it does not count */
    int reported;              /* 1 = the one that all other figures of the report are of */
};

/* How busy a GPU was over the whole run, by its hardware counters: between windows too, and other programs' work with it. */
struct gw_report_activity {
    int64_t device;
    const char *state, *why;       /* id; why it was refused or ended early, untranslated, "" = all well */
    int64_t span_ns, measured_ns;  /* from the first sample to the last; the part that was measured. 0 = nothing was */
    int64_t before_ns, after_ns;   /* before the first work, after the last */
    double idle;                   /* share of the time between those in which the compute engine had no work; NAN unknown */
    double window_idle;            /* the same counters, in the window that the report is about; NAN none or not covered */
    int represents;                /* 1 = the two agree: the window stands for the run; 0 = they do not; -1 unknown */
    double sm, dram, tensor;       /* means, 0..1; NAN not measured */
    int64_t pauses, pause_ns;      /* idle stretches of a second and more outside of the window */
    int64_t longest_ns, longest_at;/* the longest, and when it began after the first sample; 0 none */
    const char *shape;             /* "steady", "bursts", "periodic", "" too short to tell */
    int64_t period_ns;             /* -1 unless periodic */
    double depth, duty;            /* of the swing: high minus low, share of time in the high part; NAN */
    int64_t interval_ns, samples, overflows;
};

struct gw_report {
    struct gw_arena *arena;
    const struct gw_report_source *sources;
    size_t source_count;
    int64_t ranks;
    int64_t world_size;         /* ranks of the job, as the recording says; -1 unknown */
    const char *framework;      /* "PyTorch 2.11", "" unknown */
    const char *profiler;       /* "torch.profiler", "" unknown */
    const struct gw_report_device *devices;
    size_t device_count;
    size_t main_device;         /* the device the verdict speaks of */
    struct gw_report_steps steps;
    const struct gw_report_window *windows; /* in order of time; none unless there were several to choose from */
    size_t window_count;
    const int64_t *step_times;  /* ns of each steady step in order of time, at most GW_REPORT_TIMES */
    size_t step_time_count;
    double replay_error;        /* |replayed - recorded| / recorded step time; NAN when not replayed */
    double profiler_slowdown;   /* estimated host slow-down by the profiler, e.g. 1.2; NAN unknown */
    struct {
        const char *finding;    /* id, "none" when nothing is worth 3 % */
        const char *layer;
        const char *sentence;   /* one or two plain sentences, ready to print */
    } verdict;
    const struct gw_finding *findings; /* by rank */
    size_t finding_count;
    const struct gw_not_evaluated *not_evaluated;
    size_t not_evaluated_count;
    const struct gw_report_kernel *kernels, *kernel_classes; /* of the main device; most time first */
    size_t kernel_count, kernel_class_count;
    const struct gw_report_counters *counters;       /* NULL = no Nsight Compute output was given */
    const struct gw_report_rank *per_rank;           /* none unless several ranks were compared */
    size_t rank_count;
    const struct gw_report_collective *collectives;  /* most time first */
    size_t collective_count;
    const struct gw_report_activity *activity;       /* one a GPU; none without hardware counters */
    size_t activity_count;
    struct {
        int complete;                  /* no loss that spoils */
        const struct gw_report_loss *losses;
        size_t loss_count;
        double own_overhead;           /* share of the job's time that our recording cost; NAN when we did not record */
        const char *const *notes;      /* further doubts, one sentence each */
        size_t note_count;
    } trust;
};

#endif
