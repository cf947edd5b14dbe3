/*
 * run_session.h - one recording: the record folder, the control file, the samplers and the loop that drives them.
 *
 *     struct gw_session s;
 *     gw_session_open(&s, &options, &err);     makes the folder
 *     gw_child_start(&child, argv, s.env);
 *     gw_session_loop(&s, &child);              until the job or the recording ends
 *     gw_session_close(&s);
 */
#ifndef GW_RUN_SESSION_H
#define GW_RUN_SESSION_H

#include "base/gw_error.h"
#include "cli/run_child.h"
#include "cli/run_machine.h"
#include "cli/run_pm.h"
#include "cli/run_status.h"
#include "record/record.h"

struct gw_run_options {
    const char *folder;       /* -o; NULL = a new name in the working directory */
    int64_t for_ns;           /* --for; 0 = as long as the job runs */
    int64_t first_ns, first_len_ns, window_ns, period_ns; /* --windows; window_ns 0 with full */
    uint64_t after_steps;     /* --after-steps: no window before so many batches; 0 = not asked for */
    int full;                 /* --full */
    int fixed;                /* --windows: at the times above; else windows follow the work */
    int no_cuda;              /* --no-gpu-records, --gpu-records=never */
    int always;               /* --gpu-records=always: also where recording slows the job */
    int no_hook, no_stacks;   /* --no-hook, --no-stacks */
    int no_machine;           /* leave out what `gpuwhy check` looks at */
    int no_pm;                /* --no-pm */
    int status;               /* --status: the live line */
    int quiet;
    uint64_t max_bytes;       /* for each process of the job */
    uint32_t kinds;           /* GW_CK_* */
};

/* When each sampler is due next (CLOCK_MONOTONIC), and what they cost. */
struct gw_session_due {
    uint64_t sample, system, nvml, discover, second, five;
    uint64_t system_ns, nvml_ns, discover_ns;      /* between two looks */
    uint64_t sample_cpu, system_cpu, nvml_cpu, at; /* CPU time spent since `at` */
};

struct gw_session {
    struct gw_run_options o;
    char folder[4096];        /* absolute */
    int dir;                  /* descriptor of it */
    int made_folder;          /* 1: it was not there before */
    struct gw_control control;
    char *env[12];            /* for gw_child_start(); NULL-terminated */
    struct gw_sink *sink;
    struct gw_tree *tree;
    struct gw_system *system;
    struct gw_nvml_live *nvml;
    struct gw_run_pm pm;      /* the GPUs' activity over the whole run */
    struct gw_machine machine; /* collects what `gpuwhy check` looks at */
    int proc, sys;            /* roots */
    int is_recording;
    int ignored_looks;        /* times in a row that CUDA ran without us */
    int saw_injected, warned; /* warned: bits of messages already given */
    uint64_t env_read[64];    /* process images with CUDA whose environment was read: the stamp in the name of their file; 0 = free */
    uint64_t injected_ns;     /* CLOCK_MONOTONIC of the first sight of CUDA with our library in it; 0 not yet */
    uint64_t steps;           /* gw_status_steps(), when it is asked for */
    int is_held;              /* --after-steps: windows wait */
    struct gw_status status;  /* the live line */
    uint64_t started_ns, ended_ns; /* CLOCK_MONOTONIC */
    uint64_t records;         /* activity records of all processes, as their files say */
    uint64_t gpu_bytes;
    unsigned recording_processes, open_windows;
    uint64_t tick_ns;         /* between two thread samples; grows when we cost too much */
    struct gw_session_due due;
};

enum gw_loop_end { GW_LOOP_JOB_ENDED, GW_LOOP_RECORDING_ENDED };

/* 0, or a negative code with `err` filled. */
int gw_session_open(struct gw_session *s, const struct gw_run_options *o, struct gw_error *err);
/* Facts that need the job's pid. Call right after the start. */
void gw_session_begin(struct gw_session *s, const struct gw_child *c, char *const argv[]);
/* What the loop does, for callers that wait for other things too: takes the samples that are due; when the next ones are. */
void gw_session_tick(struct gw_session *s);
uint64_t gw_session_next(const struct gw_session *s);
enum gw_loop_end gw_session_loop(struct gw_session *s, struct gw_child *c);
/* Ends the recording (idempotent): tells the libraries, waits a moment for their last windows, writes the facts. */
void gw_session_stop(struct gw_session *s, const struct gw_child *c);
void gw_session_close(struct gw_session *s);
/* Instead, when the job could not be started: takes the record away again. */
void gw_session_discard(struct gw_session *s);
/* Waits for a process of ours (the report) and deals with signals meanwhile: they are the job's as long as it runs; then those
 * that ask for an end are the process's. Its status, as of waitpid(). */
int gw_session_wait_for(struct gw_session *s, struct gw_child *c, pid_t pid);
/* After the recording has ended: passes signals on until the job ends. */
void gw_session_wait(struct gw_session *s, struct gw_child *c);

#endif
