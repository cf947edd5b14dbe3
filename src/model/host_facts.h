/*
 * host_facts.h - what was recorded beside the GPU's work: the job's processes and threads, the machine, the GPUs as
 * NVML sees them, and the settings of the loaders. Hangs on gw_trace.host; NULL when the source has no such thing
 * (trace files).
 *
 * Three things are kept as events, because they belong to a time:
 *
 *   GW_KIND_SAMPLE on a host lane: from the instant of one sample of a thread to the next sample of it. sub = enum
 *     gw_thread_state at the start; arg0 = the system call's number, and gw_sample_call() above it; arg1 = name id of the Python stack; corr = CPU
 * time and waiting time until the end (gw_sample_cpu_ns, gw_sample_wait_ns; GW_EV_HAS_CORR says that they are known).
 * The state is that of an instant: count samples for "what was it doing in the gaps", add the times up for exact
 * shares. GW_KIND_COUNTER on a counter lane (device, pid): name as the recorder writes it, with the unit in it, and a
 * blank and the item behind it where there is one: "disk.read_bytes nvme0n1".
 *
 * A stack is text: one line a frame, innermost first, each as "path/file.py(57): function".
 *
 * Everything lives in the trace's arena. -1, NAN or NULL = not known; 0 is a value. Times are ns on the trace's clock.
 */
#ifndef GW_HOST_FACTS_H
#define GW_HOST_FACTS_H

#include <stddef.h>
#include <stdint.h>

#include "model/activity.h"
#include "model/trace.h"

enum gw_thread_state {
#define GW_THREAD_STATE(sym, id, text) GW_TS_##sym,
#include "model/thread_states.def"
#undef GW_THREAD_STATE
    GW_TS_COUNT
};
const char *gw_thread_state_id(unsigned s);

enum gw_host_role {
#define GW_HOST_ROLE(sym, id, text) GW_HR_##sym,
#include "model/host_roles.def"
#undef GW_HOST_ROLE
    GW_HR_COUNT
};
const char *gw_host_role_id(unsigned r);

/* Over the whole recording, also where no events were kept. */
struct gw_host_process {
    int64_t pid, ppid;
    int64_t start, end;                               /* first and last sight; end INT64_MAX = lived to the end */
    const char *name;                                 /* shortened command line; "" unknown */
    unsigned role;                                    /* enum gw_host_role */
    int uses_cuda;                                    /* 1 = its GPU work was recorded, or the driver is mapped */
    int cpus_allowed;                                 /* by its affinity; -1 unknown */
    double cpu_s;                                     /* at the last sight, since its start; NAN unknown */
    double rss_first, rss_last, rss_max, shared_last; /* bytes; NAN unknown */
    double rchar, read_bytes, write_bytes;            /* during the recording; NAN unknown */
};

struct gw_host_gpu {
    int64_t device; /* as in gw_device.id: NVML's index */
    const char *name;
    double memory_bytes, sm_clock_max_mhz, memory_clock_max_mhz, power_limit_w, power_default_w; /* NAN unknown */
};

/* A mount that loader or training threads were seen reading from. */
struct gw_host_mount {
    const char *type, *point; /* "nfs4", "/data" */
    const char *file;         /* one file seen there */
    uint64_t samples;         /* thread samples inside a read of it */
    int remote;               /* 1 = a network or user-space file system */
};

/* One data loader of one process, as the hook saw it. -1 / NULL = not said. */
struct gw_host_loader {
    int64_t pid;
    int num_workers, pin_memory, persistent_workers, prefetch_factor, batch_size, drop_last;
    int is_iterable;         /* an iterable data set: it shards itself, or not */
    const char *sampler;     /* class name */
    const char *dataset;     /* class name */
    int is_distributed;      /* the sampler splits the data over ranks */
    int64_t epochs;          /* iterators made */
    int64_t set_epoch_calls; /* on its sampler */
    int64_t length;          /* batches an epoch; -1 unknown */
};

/* Steps of one optimizer of one process, as the hook saw them end, in the order in which they came. The clock may have been set. */
struct gw_host_step {
    int64_t at;
    int64_t steps; /* since the row before: 1 = that one alone; more late in a job, where few times are kept; 0 = not known */
};
struct gw_host_steps {
    int64_t pid;
    int optimizer; /* 0, 1, ... in the order of their first steps */
    const struct gw_host_step *row;
    size_t count;
};

struct gw_host_facts {
    int64_t from, to;      /* the time that samples and counters are kept for */
    int64_t recorded_ns;   /* length of the recording, -1 unknown */
    double recorder_cpu_s; /* our own CPU time beside the job; NAN unknown */
    double inject_cpu_s;   /* our thread's inside the job; NAN unknown */

    int cpus_online;                         /* -1 unknown */
    double cpu_limit;                        /* of the cgroup, CPUs; NAN none */
    double memory_bytes, memory_limit_bytes; /* of the machine and of the cgroup; NAN unknown or none */
    const char *kernel;
    const char *gpu_records; /* why GPU work was not recorded, NULL when it was or nobody asked */

    const struct gw_host_process *process;
    size_t process_count;
    int64_t trainer; /* pid that the report speaks of when there is no GPU work in the trace; -1 unknown */
    const struct gw_host_gpu *gpu;
    size_t gpu_count;
    const struct gw_host_mount *mount;
    size_t mount_count;
    const struct gw_host_loader *loader;
    size_t loader_count;
    const struct gw_host_steps *steps;
    size_t steps_count;

    const struct gw_activity *activity; /* of each GPU, over the whole run */
    size_t activity_count;
    const char *activity_missing;       /* untranslated: why no GPU has one; NULL = they have, or nobody asked */
    double sampler_cpu_s;               /* CPU time of the process that sampled it; NAN unknown */

    /* Settings that the hook read in the training process. -1 / NULL unknown. */
    int hook; /* 1 = the hook reported something */
    const char *torch_version, *cuda_version, *matmul_precision;
    int cudnn_benchmark, cudnn_tf32, matmul_tf32, torch_threads, anomaly;
    int launch_blocking; /* CUDA_LAUNCH_BLOCKING of the trainer, by the hook or by its environment when it started */
    int omp_threads; /* OMP_NUM_THREADS of the job, -1 not set */
};

static inline uint64_t gw_sample_pack(uint64_t cpu_ns, uint64_t wait_ns)
{
    return (cpu_ns < UINT32_MAX ? cpu_ns : UINT32_MAX) << 32 | (wait_ns < UINT32_MAX ? wait_ns : UINT32_MAX);
}
/* enum gw_call (model/call_groups.h): the call of CUDA that the thread was in, 0 none or unknown. */
static inline uint64_t gw_sample_pack_call(uint32_t call) { return (uint64_t)call << 32; }
static inline unsigned gw_sample_call(const struct gw_event *e) { return (unsigned)(e->arg0 >> 32); }
static inline int64_t gw_sample_cpu_ns(const struct gw_event *e) { return (int64_t)(e->corr >> 32); }
static inline int64_t gw_sample_wait_ns(const struct gw_event *e) { return (int64_t)(e->corr & UINT32_MAX); }

/* Nothing known. */
struct gw_host_facts gw_host_facts_unknown(void);
struct gw_host_process gw_host_process_unknown(int64_t pid); /* from time 0 on, to the end */
struct gw_host_gpu gw_host_gpu_unknown(int64_t device);
struct gw_host_loader gw_host_loader_unknown(int64_t pid);

/* The settings of a loader that are whole numbers, by the key that the hook writes: row `i`, NULL past the end. */
struct gw_host_setting {
    const char *key;
    size_t offset;
};
const struct gw_host_setting *gw_host_loader_setting(size_t i);
static inline int *gw_host_setting_of(struct gw_host_loader *l, const struct gw_host_setting *k)
{
    return (int *)(void *)((char *)l + k->offset);
}

/* The process, or NULL. */
const struct gw_host_process *gw_host_process(const struct gw_host_facts *h, int64_t pid);
/* The GPU with this id, or NULL. */
const struct gw_host_gpu *gw_host_gpu(const struct gw_host_facts *h, int64_t device);
/* Next frame of a stack: its start and length; moves *at past it. 0 at the end. */
int gw_stack_next(const char **at, const char **frame, size_t *len);

static inline double gw_counter_value(const struct gw_event *e)
{
    double v;
    __builtin_memcpy(&v, &e->arg0, sizeof v);
    return v;
}
static inline uint64_t gw_counter_bits(double v)
{
    uint64_t b;
    __builtin_memcpy(&b, &v, sizeof b);
    return b;
}

#endif
