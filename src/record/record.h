/*
 * record.h - the format of a gpuwhy record: what the recorder and the injected library write, and `read` reads.
 *
 * A record is a folder. Each *.gwr file in it has exactly one writer and is a file header followed by chunks. A chunk
 * is a header (magic, type, record size, payload bytes, sequence number, checksum) and an array of fixed-size records, or a text. A
 * writer only appends whole chunks with one writev(), so whatever was written stays readable when either side is
 * killed: the reader takes every whole chunk and names the loss of the rest. Only the status block of the file header
 * is rewritten in place.
 *
 * Little-endian, 64-bit Linux. Times are ns. Records may grow at their end in later versions: readers take the stride
 * from the chunk header and read the prefix that they know. See docs/record-format.md.
 *
 * This header and record_write.[ch] use libc only: the library inside the job is built from them.
 */
#ifndef GW_RECORD_H
#define GW_RECORD_H

#include <stdint.h>

#include "model/call_groups.h"

#define GW_REC_MAGIC "GPUWHY\1\n"   /* first 8 bytes of every file; byte 6 is the major version */
#define GW_REC_CHUNK_MAGIC 0x4b4e4843u /* "CHNK" */
#define GW_REC_VERSION 1u
#define GW_REC_MAX_PAYLOAD (4u << 20)  /* bytes; larger chunks are never written and never believed */
#define GW_REC_META "record.gwr"       /* the recorder's own file: host samples, counters, facts */
#define GW_REC_MACHINE "machine.gwr" /* facts about the machine: what `gpuwhy check` looks at, at the start of the job */
#define GW_REC_PM "pm.gwr"             /* GPU activity over the whole run, from hardware counters */
#define GW_REC_CONTROL "control"       /* struct gw_control, read by the injected libraries */

enum gw_rec_role { GW_ROLE_HOST = 1, GW_ROLE_CUDA = 2, GW_ROLE_MACHINE = 3, GW_ROLE_PM = 4 };

/* Why a CUDA file has what it has. Text in gw_rec_state_text(). */
enum gw_rec_state {
#define GW_REC_STATE(sym, id, loses, text) GW_RS_##sym,
#include "record/states.def"
#undef GW_REC_STATE
    GW_RS_COUNT
};

struct gw_rec_status { /* rewritten in place by its writer, at most a few times a second */
    uint32_t state;         /* enum gw_rec_state */
    int32_t cupti_result;   /* the CUPTI result code behind the state, 0 none */
    uint32_t cupti_version; /* cuptiGetVersion(), 0 unknown */
    uint32_t windows;       /* windows opened so far */
    uint64_t records;       /* activity records kept */
    uint64_t filtered;      /* short API calls without meaning for a diagnosis, left out on purpose */
    uint64_t dropped;       /* records that CUPTI says it dropped */
    uint64_t overflow;      /* buffers that CUPTI asked for when the pool was empty */
    uint64_t unfinished;    /* GPU records without a start or an end */
    uint64_t unknown;       /* records of kinds we do not read */
    uint64_t own_cpu_ns;    /* CPU time of our thread inside the job */
    uint64_t window_ns;     /* time spent in windows so far */
    uint64_t bytes;         /* bytes of chunks written */
    uint64_t spool_lost;    /* records that could not be written (disk full, size limit) */
    uint64_t calls_table;   /* CUDA files: address of struct gw_call_slot [] in the process, 0 none */
    uint32_t calls_slots;   /* slots in use */
    uint32_t launch_cost_ppm; /* CUDA files: what recording GPU work is expected to cost the job, millionths of its time */
    uint64_t reserved[6];
};

struct gw_rec_file { /* the file header */
    char magic[8];
    uint32_t version;
    uint32_t header_bytes; /* where the first chunk starts */
    uint32_t role;         /* enum gw_rec_role */
    uint32_t pid;          /* of the process that the file speaks of */
    uint64_t realtime_ns;  /* CLOCK_REALTIME when the file was made */
    uint64_t monotonic_ns;
    uint64_t start_ticks;  /* start time of the process, clock ticks after boot; 0 unknown */
    uint64_t reserved[4];
    struct gw_rec_status status;
};

struct gw_rec_chunk { /* 24 bytes, at a multiple of 8 */
    uint32_t magic;
    uint16_t type;   /* enum gw_rec_type */
    uint16_t stride; /* bytes a record; 1 = text */
    uint32_t bytes;  /* payload, without the padding to 8 */
    uint32_t sum;    /* gw_rec_fold(gw_rec_hash(GW_REC_SUM_SEED, payload)) */
    uint64_t seq;    /* counts up from 0 in each file: a hole is a loss */
};

enum gw_rec_type {
    GW_RT_CLOCK = 1,   /* struct gw_rec_clock */
    GW_RT_WINDOW = 2,  /* struct gw_rec_window */
    GW_RT_NAME = 3,    /* struct gw_rec_name_head, then the bytes of the name */
    GW_RT_KERNEL = 4,  /* struct gw_rec_kernel */
    GW_RT_COPY = 5,    /* struct gw_rec_copy */
    GW_RT_SET = 6,     /* struct gw_rec_set */
    GW_RT_API = 7,     /* struct gw_rec_api */
    GW_RT_SYNC = 8,    /* struct gw_rec_sync */
    GW_RT_OVERHEAD = 9,/* struct gw_rec_overhead */
    GW_RT_DEVICE = 10, /* struct gw_rec_device */
    GW_RT_FACT = 11,   /* text: "key=value\n" lines */
    GW_RT_THREAD = 12, /* struct gw_rec_thread: one sample of one thread */
    GW_RT_COUNTER = 13,/* struct gw_rec_counter */
    GW_RT_PROCESS = 14,/* struct gw_rec_process: a process appears or ends */
    GW_RT_END = 15,    /* empty: the writer closed the file in good order */
    GW_RT_MACHINE = 16, /* text: lines of the file that `gpuwhy check --collect` writes, with its version in the first */
    GW_RT_ACTIVITY = 17, /* struct gw_rec_activity: a stretch of a GPU's time */
    GW_RT_PM = 18,     /* struct gw_rec_pm: what PM sampling does on a GPU; the last of a GPU holds */
    GW_RT_CALLS = 19   /* struct gw_rec_calls: one thread's calls of the CUDA runtime in a stretch of time */
};

struct gw_rec_clock {
    uint64_t realtime_ns, monotonic_ns, boottime_ns;
    uint64_t cupti_ns; /* cuptiGetTimestamp() between two reads of CLOCK_REALTIME; 0 = not a CUDA file */
};

enum { GW_WIN_OPEN = 1, GW_WIN_CLOSE = 2 };
struct gw_rec_window {
    uint64_t realtime_ns;
    uint32_t what;   /* GW_WIN_* */
    uint32_t number; /* counts from 1 */
    uint32_t reason; /* enum gw_win_reason */
    uint32_t requested; /* CLOSE: buffers CUPTI asked for in the window */
};
enum gw_win_reason { GW_WR_TIME = 0, GW_WR_FULL, GW_WR_STOP, GW_WR_EXIT, GW_WR_POOL, GW_WR_PAUSE, GW_WR_TAKEN, GW_WR_ERROR };

enum gw_name_space { GW_NS_KERNEL = 1, GW_NS_RUNTIME = 2, GW_NS_DRIVER = 3, GW_NS_STRING = 4 };
struct gw_rec_name_head {
    uint32_t space; /* enum gw_name_space */
    uint32_t id;    /* kernel or string: the id used in records; runtime, driver: the callback id */
};

struct gw_rec_kernel {
    uint64_t start, end;
    uint64_t graph_node;
    uint32_t corr, name, device, context, stream, graph;
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t registers, shared_static, shared_dynamic, reserved;
    uint64_t grid_id;
};
struct gw_rec_copy {
    uint64_t start, end, bytes;
    uint32_t corr, device, context, stream, graph;
    uint8_t kind, src, dst, flags; /* CUPTI's copy kind, memory kinds, bit 0 = async */
    uint32_t peer;                 /* 1 + destination device of a peer copy, 0 otherwise */
    uint32_t reserved;
};
struct gw_rec_set {
    uint64_t start, end, bytes;
    uint32_t corr, device, context, stream, graph, reserved;
};
struct gw_rec_api {
    uint64_t start, end;
    uint32_t corr, cbid, tid;
    uint16_t domain; /* enum gw_name_space: RUNTIME or DRIVER */
    int16_t result;  /* the call's return value, clipped */
};
struct gw_rec_sync {
    uint64_t start, end;
    uint32_t corr, type, context, stream, event, reserved; /* CUPTI's synchronisation type */
};
struct gw_rec_overhead {
    uint64_t start, end;
    uint32_t kind, object, tid, corr; /* CUPTI's overhead and object kinds; tid when the object is a thread */
};
struct gw_rec_device {
    uint32_t ordinal;
    int32_t sm_count, cc_major, cc_minor, max_threads_per_sm, clock_khz, mem_clock_khz, bus_bits; /* -1 unknown */
    int64_t memory_bytes;
    uint8_t uuid[16];
    int32_t pci_domain, pci_bus, pci_device, l2_bytes;
    char name[96];
    int32_t driver_version, runtime_major; /* 13000 = 13.0; -1 unknown */
    uint64_t reserved;
};

enum { GW_CALL_SLOTS = 8 };
struct gw_rec_calls { /* calls that ended in [start, end) */
    uint64_t start, end; /* CLOCK_REALTIME */
    uint64_t slack_ns;   /* time in them beyond 20 us each: the host had to wait for something */
    uint32_t tid;
    uint32_t fresh;      /* launches of a kernel with a grid that it did not have before */
    uint32_t count[GW_CALL_SLOTS]; /* by enum gw_call; [GW_CALL_NONE]: launches, counted as such too, that took more than 20 us */
    uint64_t ns[GW_CALL_SLOTS];    /* time inside them */
};
/* Lives in the job; the recorder reads it from outside (gw_rec_status.calls_table). Times in ticks of the CPU's counter. */
struct gw_call_slot {
    uint32_t tid; /* 0 = not in use yet */
    uint32_t now; /* enum gw_call that the thread is in at this moment */
    uint64_t slack_ticks; /* time beyond 20 us in each call that waits */
    uint64_t fresh;       /* as in struct gw_rec_calls, as are the next ones */
    uint64_t count[GW_CALL_SLOTS], ticks[GW_CALL_SLOTS];
};

enum gw_proc_what { GW_PW_APPEARED = 1, GW_PW_ENDED = 2, GW_PW_RENAMED = 3 };
struct gw_rec_process {
    uint64_t realtime_ns;
    uint64_t start_ticks;
    uint32_t what, pid, ppid;
    uint32_t name; /* string id: the command line, shortened */
    uint32_t comm; /* string id */
    uint32_t flags;/* GW_PF_* */
};
enum { GW_PF_CHILD = 1u << 0, GW_PF_PYTHON = 1u << 1, GW_PF_CUDA = 1u << 2, GW_PF_INJECTED = 1u << 3,
       GW_PF_FORKED = 1u << 4 /* same command line as its parent: a forked worker */ };

struct gw_rec_thread {
    uint64_t realtime_ns;
    uint64_t cpu_ns;    /* on a CPU since the thread started; UINT64_MAX unknown */
    uint64_t wait_ns;   /* runnable but waiting for a CPU since the thread started; UINT64_MAX unknown */
    uint32_t pid, tid;
    uint32_t comm;      /* string id */
    uint32_t wchan;     /* string id, 0 unknown */
    uint32_t stack;     /* string id of the Python stack, innermost first, 0 none */
    int32_t syscall;    /* -1 running or unknown */
    uint64_t syscall_arg; /* first argument: the descriptor of a read, write, poll */
    uint32_t path;      /* string id of what a read or write is on, 0 unknown */
    int16_t cpu;        /* last CPU, -1 unknown */
    char state;         /* R S D T Z ... as /proc shows it, '?' unknown */
    uint8_t flags;      /* GW_TF_* */
    uint32_t gil;       /* tid that held the interpreter lock, 0 unknown */
    uint32_t call;      /* enum gw_call that the thread was in, 0 none or unknown */
};
enum { GW_TF_MAIN = 1u << 0, GW_TF_WANTS_GIL = 1u << 1 };

struct gw_rec_counter {
    uint64_t realtime_ns;
    double value;
    uint32_t name;   /* string id; the unit is part of the name: "nvml.power_w" */
    int32_t device;  /* NVML index, -1 = not of a device */
    uint32_t pid;    /* 0 = of the host or cgroup */
    uint32_t item;   /* string id: mount, disk, ... ; 0 none */
};

/* Metrics of PM sampling, in the order of gw_rec_activity.share: percent of the peak while the clock ran. */
enum gw_pm_metric {
#define GW_PM_METRIC(sym, id, counter, text) GW_PM_##sym,
#include "record/pm_metrics.def"
#undef GW_PM_METRIC
    GW_PM_METRIC_COUNT
};
enum { GW_PM_SHARES = 6, GW_PM_NO_SHARE = 0xffff };
struct gw_rec_activity { /* neighbouring samples that are alike, as one; stretches of a GPU do not overlap */
    uint64_t start, end; /* CLOCK_REALTIME; what lies between two stretches was not measured */
    int32_t device;      /* NVML index, -1 unknown */
    uint32_t samples;    /* hardware samples in it */
    uint16_t share[GW_PM_SHARES]; /* mean, hundredths of a percent; GW_PM_NO_SHARE = not measured */
    uint32_t reserved;
};
/* What PM sampling does on a GPU, or why not. Text in gw_pm_state_text(). */
enum gw_pm_state {
#define GW_PM_STATE(sym, id, text) GW_PS_##sym,
#include "record/pm_states.def"
#undef GW_PM_STATE
    GW_PS_COUNT
};
struct gw_rec_pm {
    uint64_t realtime_ns;
    int32_t device;         /* NVML index, -1 = none in particular */
    uint32_t state;         /* enum gw_pm_state */
    int32_t result;         /* result code behind it, 0 none */
    uint32_t cupti_version; /* 0 unknown */
    uint32_t interval_ns;   /* between two samples */
    uint32_t metrics;       /* bit 1 << enum gw_pm_metric */
    uint64_t samples, overflows; /* so far */
    uint64_t cpu_ns, rss_bytes;  /* of the sampling process, all GPUs together */
    char call[48];          /* the call that failed, "" none */
};

/* The control file: written by the recorder with pwrite(), read by the libraries with pread(). Never mapped, so that a
 * truncated or full file system cannot signal the job. */
struct gw_control {
    char magic[8];        /* GW_REC_MAGIC */
    uint32_t version;
    uint32_t stop;        /* 1: close the window and stay off */
    uint64_t heartbeat_ns;/* CLOCK_BOOTTIME of the recorder's last sign of life; 0 = do not watch it */
    uint64_t first_ns;    /* first window this long after CUDA started */
    uint64_t first_len_ns;/* length of the first window */
    uint64_t window_ns;   /* length of the later ones; 0 = record all, from the start (--full) */
    uint64_t period_ns;   /* from the start of one window to the start of the next */
    uint64_t max_bytes;   /* a process may write this much, 0 = no limit */
    uint32_t kinds;       /* GW_CK_* */
    uint32_t recorder_pid;
    uint32_t open_now;    /* counts up: each change asks for one window now */
    uint32_t adaptive;    /* 1: windows follow the work, and the four times above are not used */
    uint32_t look_first;  /* 1: no window before it is known that recording costs the job next to nothing */
    uint32_t reserved[11];
};
enum { GW_CK_KERNELS = 1u << 0, GW_CK_COPIES = 1u << 1, GW_CK_RUNTIME = 1u << 2, GW_CK_DRIVER = 1u << 3,
       GW_CK_SYNC = 1u << 4, GW_CK_OVERHEAD = 1u << 5, GW_CK_ALL = 0x3f };

_Static_assert(sizeof(struct gw_rec_status) == 160, "status block");
_Static_assert(sizeof(struct gw_rec_file) == 240, "file header");
_Static_assert(sizeof(struct gw_rec_chunk) == 24, "chunk header");
_Static_assert(sizeof(struct gw_rec_kernel) == 96, "kernel record");
_Static_assert(sizeof(struct gw_rec_copy) == 56, "copy record");
_Static_assert(sizeof(struct gw_rec_set) == 48, "set record");
_Static_assert(sizeof(struct gw_rec_api) == 32, "API record");
_Static_assert(sizeof(struct gw_rec_sync) == 40, "sync record");
_Static_assert(sizeof(struct gw_rec_overhead) == 32, "overhead record");
_Static_assert(sizeof(struct gw_rec_device) == 184, "device record");
_Static_assert(sizeof(struct gw_rec_thread) == 72, "thread sample");
_Static_assert(sizeof(struct gw_rec_process) == 40, "process record");
_Static_assert(sizeof(struct gw_rec_counter) == 32, "counter sample");
_Static_assert(sizeof(struct gw_rec_activity) == 40, "activity record");
_Static_assert(sizeof(struct gw_rec_pm) == 112, "PM state record");
_Static_assert(sizeof(struct gw_rec_calls) == 128, "calls record");
_Static_assert(sizeof(struct gw_call_slot) == 152, "calls slot");
_Static_assert(sizeof(struct gw_control) == 128, "control file");

/* Checksum of a payload (FNV-1a over 8-byte words, folded to 32 bits): finds torn writes, not malice. A payload in two
 * parts may be hashed part by part when the first is a multiple of 8 bytes. */
static inline uint64_t gw_rec_hash(uint64_t h, const void *data, uint64_t bytes) {
    const unsigned char *p = (const unsigned char *)data;
    for (; bytes >= 8; bytes -= 8, p += 8) {
        uint64_t w;
        __builtin_memcpy(&w, p, 8);
        h = (h ^ w) * 0x100000001b3ull;
        h ^= h >> 29;
    }
    for (; bytes > 0; bytes--, p++)
        h = (h ^ *p) * 0x100000001b3ull;
    return h;
}
static inline uint32_t gw_rec_fold(uint64_t h) { return (uint32_t)(h ^ (h >> 32)); }
#define GW_REC_SUM_SEED 0xcbf29ce484222325ull

#endif
