/* record_internal.h - what the parts of the record importer share. */
#ifndef GW_RECORD_INTERNAL_H
#define GW_RECORD_INTERNAL_H

#include "import/record_importer.h"
#include "model/host_facts.h"
#include "record/record_read.h"

enum { GW_RECORD_MAX_FILES = 4096, GW_RECORD_MAX_STEPS = 256 }; /* the latter: optimizers of all processes together */

struct gw_record_gpu { char uuid[48]; int64_t index; }; /* NVML's devices, from the facts */

struct gw_record_import {
    struct gw_trace *t;
    const struct gw_import_options *o;
    const char *folder;
    int64_t base_ns;        /* CLOCK_REALTIME of time zero */
    struct gw_record_gpu gpus[64];
    size_t n_gpus;
    int64_t bytes_done, bytes_total;
    int stopped;            /* the user asked to stop */
    uint32_t processes;     /* CUDA files read so far */
    int64_t clock_error_ns;
    int64_t gpu_from, gpu_to;   /* time for which GPU work is in the trace, CLOCK_REALTIME; gpu_from > gpu_to = none */
    double inject_cpu_s;        /* of our threads inside the job */
    uint32_t cuda_pids[GW_RECORD_MAX_FILES]; /* processes with a CUDA file, `processes` of them */
    uint64_t cuda_ops[GW_RECORD_MAX_FILES];  /* GPU records of each */
    const char *gpu_records;    /* state text of the first process whose recording failed, NULL none */
    struct gw_host_facts *host;
    struct gw_array host_gpus;   /* struct gw_host_gpu */
    struct gw_array host_mounts; /* struct gw_host_mount */
    struct gw_array host_cpus;   /* struct gw_record_cpus */
    int64_t job_pid;
    struct gw_record_blocking { int64_t pid; int on; } blocking[64]; /* CUDA_LAUNCH_BLOCKING of processes whose environment is known */
    size_t n_blocking;
    int machine_arm;             /* system call numbers are those of arm64 */
};
struct gw_record_cpus { int64_t pid; int cpus; };

/* A stamp further than this from the start of the record is damage: 70 years. Differences of sane stamps stay in range. */
#define GW_RECORD_FAR (70ull * 365 * 86400 * 1000000000)
static inline int gw_record_is_sane(const struct gw_record_import *im, uint64_t real)
{
    uint64_t base = (uint64_t)im->base_ns;
    return (real > base ? real - base : base - real) < GW_RECORD_FAR;
}

/* --- record_cuda.c: one file of the injected library ---------------------------------------------------------------- */
int gw_record_read_cuda(struct gw_record_import *im, const char *path, struct gw_error *err);
/* The complete windows of one file, in order of time; `*work`: kernels in all its windows. */
size_t gw_record_cuda_windows(struct gw_record_import *im, const char *path, struct gw_record_window *out, size_t cap,
                              uint64_t *work);
/* Bytes of the next chunk for the progress; sets `stopped`. */
void gw_record_progress(struct gw_record_import *im, uint64_t offset);

/* --- record_calls.c: counted calls of CUDA -------------------------------------------------------------------------------- */
enum { GW_RECORD_CALL_THREADS = 64 };
struct gw_record_calls { /* of one process */
    uint32_t tid[GW_RECORD_CALL_THREADS]; /* those that launch */
    size_t threads;
    int is_begun;
    double slack_s, fresh, count[GW_CALL_COUNT], time_s[GW_CALL_COUNT];
};
/* First all chunks to learn(), then all to add(): 0 or GW_ENOMEM. */
void gw_record_calls_learn(struct gw_record_calls *c, const struct gw_chunk *chunk);
int gw_record_calls_add(struct gw_record_calls *c, struct gw_record_import *im, int64_t pid, const struct gw_chunk *chunk);

/* --- record_facts.c: what the recorder wrote about the machine and the job, one "key=value" at a time -------------------- */
/* Sets im->host up; 0 or GW_ENOMEM. */
int gw_record_facts_begin(struct gw_record_import *im);
void gw_record_facts_line(struct gw_record_import *im, const char *line);
/* CUDA_LAUNCH_BLOCKING of a process, by its environment when it started; -1 unknown. */
int gw_record_facts_blocking(const struct gw_record_import *im, int64_t pid);
void gw_record_facts_free(struct gw_record_import *im);

/* --- record_host.c: samples, counters and processes of the recorder's own file ------------------------------------------- */
/* After the CUDA files: keeps events of the time around them. Completes im->host and gives it to the trace. */
int gw_record_read_host(struct gw_record_import *im, const char *path, struct gw_error *err);

/* --- record_pm.c: the GPUs' activity over the whole run ---------------------------------------------------------------------- */
/* After the recorder's own file. A file that is not there, or damaged, costs what it would have told and no more. */
void gw_record_read_pm(struct gw_record_import *im, const char *path);
/* The recorder's last word on it: a gw_pm_state_id(). */
void gw_record_pm_fact(struct gw_record_import *im, const char *id);

/* --- record_state.c ------------------------------------------------------------------------------------------------------- */
/* What a thread was doing, from what /proc said. `arm`: system call numbers of arm64, else of x86-64. */
unsigned gw_record_state(const struct gw_rec_thread *t, int arm, const char *wchan);
/* enum gw_host_role from the command line and name of a process and its flags; TRAINER is decided by the caller. */
unsigned gw_record_role(uint32_t flags, const char *comm, const char *command, unsigned parent_role);
/* 1 when files of this type come over a network or through a user-space server. */
int gw_record_is_remote(const char *fs_type);

/* --- record_hook.c: what the settings hook wrote in each Python process ---------------------------------------------------- */
void gw_record_read_hooks(struct gw_record_import *im);

/* --- record_names.c --------------------------------------------------------------------------------------------------- */
/* The readable form of a mangled C++ name in `out`, or the name itself. Needs libstdc++ at run time, found by dlopen. */
const char *gw_record_demangle(const char *name, char *out, size_t cap);
/* "cudaLaunchKernel_v7000" -> "cudaLaunchKernel": without CUPTI's version and _ptsz endings. Cuts in place; new length. */
size_t gw_record_api_name(char *name);
/* The words that torch.profiler uses, so that one table of names serves all sources. */
const char *gw_record_copy_name(unsigned kind, unsigned src, unsigned dst, char *out, size_t cap);
const char *gw_record_sync_name(unsigned type);
const char *gw_record_overhead_name(unsigned kind);

#endif
