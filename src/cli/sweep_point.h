/*
 * sweep_point.h - one run of the job at one point: start, follow, measure, end.
 *
 * The job gets /dev/null as input; its output is read, not shown. It ends when the rate is known well enough, or at the
 * time limit, or when it hangs: TERM to every process that descends from it, KILL three seconds later to what is left.
 * Processes that left their parent are found too, because they become our children (PR_SET_CHILD_SUBREAPER).
 *
 *     gw_sweep_point_run(&job, &sweep, &ask, &run);     0: `run` filled; GW_EINTR: the user wants to stop; else it was
 * said
 */
#ifndef GW_SWEEP_POINT_H
#define GW_SWEEP_POINT_H

#include <signal.h>

#include "cli/run_session.h"
#include "cli/sweep_marks.h"
#include "sweep/sweep.h"

/* Where steps are read from. AUTO is left with the first run that shows steps: later runs must count the same thing. */
enum gw_sweep_source { GW_SWEEP_BY_AUTO, GW_SWEEP_BY_GPU, GW_SWEEP_BY_LOADER, GW_SWEEP_BY_OUTPUT };

/* Settings of a DataLoader that the hook can change. */
enum gw_sweep_loader { GW_SWEEP_WORKERS, GW_SWEEP_PREFETCH, GW_SWEEP_PIN, GW_SWEEP_PERSISTENT, GW_SWEEP_LOADER_COUNT };

struct gw_sweep_job {
    char **command;         /* with {name} for the value of a knob; NULL-terminated */
    const char *const *env; /* NAME=VALUE, the same; `envs` of them */
    size_t envs;
    int loader_setting[GW_SWEEP_KNOBS]; /* enum gw_sweep_loader of a knob that the hook applies, -1 none */
    const char *alone;                  /* "loader" or "model"; NULL the whole job */
    int counts_samples;                 /* batches are multiplied by the batch size that the hook saw: --loader-only */
    enum gw_sweep_source source;
    struct gw_sweep_pattern pattern;
    int no_gpu;     /* nothing is loaded into the job */
    int is_samples; /* steps are multiplied by the batch */
    size_t batch_knob;
    int64_t limit_ns, least_ns; /* of a run; of the steady stretch */
    int64_t began_ns;           /* CLOCK_MONOTONIC at the start of the sweep */
    /* Called a few times a second: for the progress line. */
    void (*progress)(void *user, double seconds, double rate, double error);
    void *user;
    const volatile sig_atomic_t *wish; /* a signal that came while no run was watching; NULL: nobody looks */
    /* filled by the runs */
    int loaders_changed;  /* loaders that were made with a setting of ours, in the last run */
    char alone_what[120]; /* the loader that was emptied: data set and batch */
    double alone_batch;   /* its batch size; NAN unknown */
    int saw_kernels;
    int stopped_by; /* the signal by which the user ended the sweep; 0 none */
};

int gw_sweep_point_run(struct gw_sweep_job *job, const struct gw_sweep *s, const struct gw_sweep_ask *ask,
                       struct gw_sweep_run *out);
/* Runs the job at a point under the full recorder, into `folder`, until it holds a window of GPU work. 0: there is one.
 */
int gw_sweep_point_record(struct gw_sweep_job *job, const struct gw_sweep *s, size_t point, const char *folder);

/* Makes a folder below TMPDIR, or /tmp. 0, or -1 when it was said why not. */
int gw_sweep_temporary(char *folder, size_t cap);

/* --- sweep_command.c --- */

/* "text with {workers}" -> "text with 4", for malloc(). NULL: out of memory. */
char *gw_sweep_fill(const char *text, const struct gw_sweep *s, size_t point);
/* 1 when `text` has "{name}" in it; "${name}" is none. */
int gw_sweep_has_place(const char *text, const char *name);
/* The command at a point, and what its environment has beside ours (NAME=VALUE): NULL-terminated, for
 * gw_sweep_free_list(). NULL: out of memory. */
char **gw_sweep_argv(const struct gw_sweep_job *job, const struct gw_sweep *s, size_t point);
char **gw_sweep_environment(const struct gw_sweep_job *job, const struct gw_session *rec, const struct gw_sweep *s,
                            size_t point);
void gw_sweep_free_list(char **list);

/* --- sweep_tree.c --- */

/* Sends a signal to every process below us. */
void gw_sweep_tree_signal(int proc, int signo);
/* Ends every process below us, the job first. */
void gw_sweep_tree_end(struct gw_child *c, int proc);
/* Takes the end of processes that became our children; and of the job. */
void gw_sweep_tree_reap(struct gw_child *c);
struct gw_sweep_memory {
    double workers, worker_bytes, host_free; /* NAN unknown */
};
/* The loader's workers of the job, and what is free. */
void gw_sweep_tree_memory(struct gw_session *s, struct gw_sweep_memory *m);
/* GPU memory and utilization out of a record; NAN unknown. Of the GPU whose use grew most. */
void gw_sweep_record_gpu(const char *folder, struct gw_sweep_run *out);
/* What the hook noted about the job's loaders. */
struct gw_sweep_hook {
    int applied;      /* loaders that were made with a setting of ours */
    char error[120];  /* why one was not; "" */
    char dataset[80]; /* class of the data set of a loader that ran alone; "" */
    double batch;     /* its batch size; NAN unknown */
};
void gw_sweep_hook_read(const char *folder, struct gw_sweep_hook *h);
/* Removes a record's folder. */
void gw_sweep_remove(const char *folder);

#endif
