/*
 * live.h - what `gpuwhy run` saw beside the GPU's work, summed up for the diagnoses: which threads did what, in the
 * gaps and overall; the CPUs; the GPU's counters. Computed once a report, over the steady window and, where that is
 * short, some seconds around it. NULL for trace files: then every diagnosis of the live_*.c files answers GW_NO_DATA.
 */
#ifndef GW_LIVE_H
#define GW_LIVE_H

#include "engine/samples.h"
#include "layers/finding.h"
#include "model/call_groups.h"

enum gw_live_role {
    GW_LIVE_LAUNCHER, /* the thread that gives the GPU most work; without GPU work the trainer's main thread */
    GW_LIVE_TRAINER,  /* other threads of that process */
    GW_LIVE_WORKER,
    GW_LIVE_COMPILER,
    GW_LIVE_OTHER,
    GW_LIVE_ROLES
};

struct gw_live_threads {
    size_t threads;
    double time;               /* ns of thread time that samples cover; 0 = none */
    double state[GW_TS_COUNT]; /* shares of it */
    double gap_time;           /* the same, inside the GPU's idle gaps */
    double gap[GW_TS_COUNT];
    double cpu, wait; /* CPUs used and waited for, in CPUs: exact sums */
    /* workers' main threads: running or ready; asleep inside the data set's code; waiting for a task or for room in the
     * queue */
    double busy, blocked, idle;
};

struct gw_live {
    const struct gw_host_facts *h;
    int64_t from, to;  /* ns: the time that was looked at */
    int64_t pid;       /* the training process */
    uint32_t launcher; /* its lane, GW_NONE */
    struct gw_live_threads role[GW_LIVE_ROLES];
    size_t workers;      /* loader workers alive, at the median */
    double online, cpus; /* CPUs of the machine; that the job may use (affinity and quota); NAN unknown */
    double quota;        /* the cgroup's, NAN none */
    double used;         /* CPUs that the job used; NAN unknown */
    double spare;        /* CPUs that it could have used besides; NAN unknown */
    double others;       /* CPUs that processes outside the job use; NAN unknown */
    double throttled;    /* share of the quota's periods in which it ran out; NAN unknown */
    double gpu_busy;     /* share of time with a kernel, by hardware counters, GPM or NVML, the first of them that there is; NAN */
    int busy_is_counted; /* 1 = by hardware counters, which see every gap; NVML calls any period with a kernel busy */
    int64_t device;      /* NVML's index of the GPU, -1 unknown */
    double starved;      /* share of wall that is lost waiting for the loader */
    const struct gw_live_steps *steps; /* of live_steps.c, the same */
    const struct gw_live_lines *lines; /* of live_calls.c, which fills it when it is asked */
};

/* NULL when nothing was recorded beside the GPU's work. */
const struct gw_live *gw_live_of(struct gw_diag *d);

/* --- counters (live_counters.c): over [from, to); NAN when there is none
 * ------------------------------------------------ */
/* device -1 = the host or a process; pid -1 = not of a process. Names as the recorder writes them. */
double gw_live_mean(const struct gw_live *l, const struct gw_analysis *an, const char *name, int64_t device,
                    int64_t pid);
double gw_live_max(const struct gw_live *l, const struct gw_analysis *an, const char *name, int64_t device,
                   int64_t pid);
double gw_live_last(const struct gw_live *l, const struct gw_analysis *an, const char *name, int64_t device,
                    int64_t pid);
/* Growth of a counter that counts up, a second. */
double gw_live_rate(const struct gw_live *l, const struct gw_analysis *an, const char *name, int64_t device,
                    int64_t pid);

/* The same of a counter of the training process's own calls of CUDA; 0 when they were not counted. */
double gw_live_calls_rate(const struct gw_diag *d, const struct gw_live *l, const char *name);

/* When a counter that counts up first reached `value`; INT64_MAX never. */
int64_t gw_live_reached(const struct gw_analysis *an, const char *name, int64_t device, int64_t pid, double value);

struct gw_live_gpu { /* one look of NVML; NAN = not given */
    int64_t at;
    double util, sm_clock, mem_clock, power, temperature, reasons;
};
/* The samples of a device over the recording's kept time, in `arena`; their number. */
size_t gw_live_gpu_samples(const struct gw_live *l, const struct gw_analysis *an, struct gw_arena *arena,
                           struct gw_live_gpu **out);

/* --- places (live_places.c)
 * ------------------------------------------------------------------------------------------------ */
/* Lines of code on the stacks of a role's samples whose state is in `states` (1 << enum gw_thread_state). `gaps` 1:
 * only while the GPU idled. Adds at most `most` rows to the finding. */
void gw_live_where(struct gw_diag *d, struct gw_draft *f, enum gw_live_role role, uint32_t states, int gaps,
                   size_t most);
/* Lines on the stacks of the launching thread's samples inside a call of CUDA of one of `calls` (1 << enum gw_call). Their number of
 * samples. */
size_t gw_live_where_in_call(struct gw_diag *d, struct gw_draft *f, unsigned calls, size_t most);
/* The thread whose stacks say what is launched (a lane, GW_NONE): the launching one, or the main thread beside autograd's. */
uint32_t gw_live_stack_lane(const struct gw_diag *d, const struct gw_live *l);
/* Its samples with `word` in their stack; `all`: those with any stack. Adds their lines to `f`, unless that is NULL, `most` at most. */
size_t gw_live_stacks_with(struct gw_diag *d, const char *word, size_t *all, struct gw_draft *f, size_t most);
/* Last of all: ranges of gains get the width that the host itself adds from run to run. */
void gw_live_vary(struct gw_diag *d);
/* After all diagnoses: findings about host time that have no file and line yet get them from samples. */
void gw_live_places(struct gw_diag *d);

/* --- shared by the diagnoses
 * ------------------------------------------------------------------------------------------------ */
/* A finding that saves such shares of the host's time, of medium confidence. */
struct gw_draft *gw_live_add_share(struct gw_diag *d, enum gw_finding_id id, double low, double likely, double high);
/* Gain when the loader supplies `low` to `high` times as fast. */
void gw_live_supply(struct gw_diag *d, struct gw_draft *f, double low, double likely, double high);
/* The same for a repair that frees CPUs: what threads wait for a CPU goes with the waiting for the loader. */
void gw_live_supply_cpus(struct gw_diag *d, struct gw_draft *f, double low, double likely, double high);
/* A finding about the workers is the answer to "why does the loader not keep up": the general one steps back. */
void gw_live_refines_loader(struct gw_diag *d);
/* Does starving or waiting for a CPU cost anything that can be seen? Share of wall. */
double gw_live_cpu_cost(const struct gw_diag *d, const struct gw_live *l);

/* --- without GPU records, from counted calls of CUDA (live_calls.c) */
int gw_live_calls_sync(struct gw_diag *d);
int gw_live_calls_launch(struct gw_diag *d);
int gw_live_calls_copy(struct gw_diag *d);
int gw_live_calls_allocator(struct gw_diag *d);
int gw_live_calls_host_allocation(struct gw_diag *d);
int gw_live_calls_preprocess(struct gw_diag *d);
/* Issuing a kernel takes this many times its launch call, and at most (measured; see live_calls.c). */
#define GW_LIVE_ISSUE 6.0
#define GW_LIVE_ISSUE_MOST 9.0
/* Host time of other sorts (live_host.c). Without GPU records: */
int gw_live_host_operators(struct gw_diag *d);
int gw_live_host_simulator(struct gw_diag *d);
/* With or without GPU records: operators are slow because shapes are always new; the host is in the optimizer's loop over single tensors; cuDNN's tuning is on, and the host is inside
 * convolutions. */
int gw_live_host_shapes(struct gw_diag *d);
int gw_live_churns(const struct gw_diag *d); /* 1: launches have new grids all the time */
int gw_live_unfused_optimizer(struct gw_diag *d);
int gw_live_autotune(struct gw_diag *d);
/* 1 when values of the GPU are read so often that reads stand inside what a CUDA graph would have to hold. */
int gw_live_calls_reads_between(struct gw_diag *d);
/* The time in which `pid` launched kernels, without start and end. 1, or 0 when launches were not counted or took no second. */
int gw_live_calls_period(const struct gw_analysis *an, int64_t pid, int64_t *from, int64_t *to);

/* --- steps, as the optimizer told them (live_steps.c): jobs without GPU records */
struct gw_live_span {
    int64_t start, end;
};
struct gw_live_steps {
    double count;            /* steps in the time looked at */
    double median, mean;     /* ns */
    double covered;          /* ns that they take */
    const int64_t *length;   /* ns of each that is known by itself, in order of time */
    size_t lengths;
    const struct gw_live_span *span; /* the long ones: those that last a multiple of the median */
    size_t longs;
    double excess;           /* share of the time that they take beyond the median */
    unsigned cause;          /* what they are, when they recur: GW_CAUSE_CHECKPOINT, GW_CAUSE_EVALUATION; else GW_CAUSE_UNEXPLAINED */
    int is_guessed;          /* no stack names it */
    double own;              /* part of `excess` in which the job's own code runs, and no name says what it does */
};
/* NULL when steps are not known for most of the time. Worked out once a report. */
const struct gw_live_steps *gw_live_steps_of(struct gw_diag *d);
/* Share of the time in which the job's own code runs in long steps, beyond the median, for a cause that is known: other findings about such
 * code must leave it alone. */
double gw_live_steps_claimed(struct gw_diag *d);
/* GW_F_CHECKPOINT or GW_F_EVALUATION from them. */
int gw_live_steps_phase(struct gw_diag *d, enum gw_finding_id id);
/* At the end: what each finding's gain means for a step. */
void gw_live_steps_findings(struct gw_diag *d);
/* Lines on the stacks of the launching thread's samples inside `span` (in order of time) whose cause is one of
 * `causes` (1 << enum gw_cause). */
void gw_live_where_spans(struct gw_diag *d, struct gw_draft *f, const struct gw_live_span *span, size_t count, unsigned causes, size_t most);

/* A debugging mode that the job was asked for or started with (environment.c). */
int gw_live_debug_mode(struct gw_diag *d);

/* The report when no GPU work was recorded (live_alone.c): runs what can be run. 1 = there is something to say. */
int gw_live_alone(struct gw_diag *d);
const char *gw_live_alone_sentence(struct gw_diag *d, const struct gw_finding *first);

#endif
