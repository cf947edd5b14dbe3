/*
 * env.h - what is known about a machine: its GPUs, CPUs, memory, storage, software and settings.
 *
 * A `struct gw_env` is filled by collectors (the running machine, saved captures, or a file written by
 * `gpuwhy check --collect`) and read by the checks (checks/checks.h), which are a pure function of it. So every
 * result can be reproduced from a file, on another machine.
 *
 * A fact that nobody supplied is not there: GPU and host numbers have a validity bit each, the small records use
 * GW_ENV_NONE, NAN and NULL. Nothing reads as 0 because it is unknown. Strings live in the arena and may hold bytes
 * that came from a capture; whoever prints them escapes them. One thread at a time.
 *
 *     struct gw_env *env = gw_env_create();
 *     struct gw_gpu *g = gw_env_gpu(env, 0, "00000000:19:00.0");
 *     gw_gpu_set(g, GW_GPU_POWER_LIMIT, 700000);
 *     gw_env_destroy(env);
 */
#ifndef GW_ENV_H
#define GW_ENV_H

#include <stddef.h>
#include <stdint.h>

#include "base/gw_arena.h"
#include "base/gw_error.h"

#define GW_ENV_NONE INT64_MIN /* an integer that is not known */
#define GW_ENV_MAX_GPUS 64    /* more than any machine holds; captures that claim more are cut, with a note */
#define GW_BUS_ID_CAP 24      /* "0000:19:00.0", or eight digits of domain, and the end */

/* What a number means; for printing, and for reading it from text ("700.00 W" of a _MW row is 700000). */
enum gw_unit {
    GW_UNIT_NONE, /* a plain number */
    GW_UNIT_BOOL, /* Enabled, Active, Yes, On = 1 */
    GW_UNIT_PCT,
    GW_UNIT_MHZ,
    GW_UNIT_MW,    /* milliwatts; text is in W */
    GW_UNIT_C,     /* degrees Celsius */
    GW_UNIT_BYTES, /* text is in MiB unless it names a unit */
    GW_UNIT_US,
    GW_UNIT_KBPS,   /* KB/s; text may be in MB/s (dmon) */
    GW_UNIT_MASK,   /* hexadecimal text */
    GW_UNIT_PSTATE, /* "P2" = 2 */
    GW_UNIT_CMODE,  /* compute mode: NVML's numbers, 0 default 1 exclusive thread 2 prohibited 3 exclusive process */
    GW_UNIT_FABRIC, /* NVML's fabric state: 1 not started, 2 in progress, 3 completed */
    GW_UNIT_ACTION  /* recovery action: 0 none, 1 something */
};

enum gw_gpu_metric {
#define GW_GPU(sym, id, unit, q, xml, csv) GW_GPU_##sym,
#include "collect/gpu_metrics.def"
#undef GW_GPU
    GW_GPU_COUNT
};
/* The first rows change from moment to moment and are what a sample holds. */
#define GW_GPU_DYNAMIC GW_GPU_MEM_TOTAL
_Static_assert(GW_GPU_DYNAMIC <= 32, "a sample has 32 validity bits");

enum gw_host_metric {
#define GW_HOST(sym, id, unit, text) GW_HOST_##sym,
#include "collect/host_metrics.def"
#undef GW_HOST
    GW_HOST_COUNT
};

enum gw_host_string {
#define GW_HOST_STR(sym, id, text) GW_HSTR_##sym,
#include "collect/host_strings.def"
#undef GW_HOST_STR
    GW_HSTR_COUNT
};

/* Reasons why a GPU runs below its highest clock: NVML's bits. */
enum gw_reason {
#define GW_REASON(sym, bit, id, q, word, text) GW_REASON_##sym = (bit),
#include "collect/reasons.def"
#undef GW_REASON
};

struct gw_gpu {
    int64_t index;      /* as nvidia-smi numbers it */
    const char *bus_id; /* "0000:19:00.0", lower case; NULL unknown */
    const char *name, *uuid, *arch;
    const char *cpus; /* CPUs near it, "0-23,48-71" */
    const char *virt; /* virtualisation mode as the driver calls it */
    int64_t v[GW_GPU_COUNT];
    uint64_t has[(GW_GPU_COUNT + 63) / 64];
};

/* The state of one GPU at one moment. */
struct gw_sample {
    int64_t t;      /* ns on any clock that all samples of a capture share; GW_ENV_NONE unknown */
    int64_t source; /* which capture it came from: samples of one source follow each other evenly */
    uint32_t gpu;   /* index into env->gpus */
    uint32_t has;   /* bit m: v[m] is known */
    int64_t v[GW_GPU_DYNAMIC];
};

enum gw_link_kind { /* how two devices reach each other; the words and order of nvidia-smi topo -m */
                    GW_LINK_NONE,
                    GW_LINK_SELF,
                    GW_LINK_NVLINK,
                    GW_LINK_PIX,
                    GW_LINK_PXB,
                    GW_LINK_PHB,
                    GW_LINK_NODE,
                    GW_LINK_SYS
};
const char *gw_link_name(int64_t kind); /* "NV", "PIX", ...; "?" for none */

/* Small records. A new field is one row in env_records.def as well, and nothing else. */
struct gw_env_pair {       /* two devices of the topology; GPUs by index, NICs by name */
    int64_t gpu, peer_gpu; /* peer_gpu GW_ENV_NONE when the peer is a NIC */
    const char *peer_nic;
    int64_t link;    /* enum gw_link_kind */
    int64_t nvlinks; /* bonded links of an NVLink connection */
    int64_t p2p;     /* NVML's P2P status for reads: 0 ok, 1 chipset, 2 GPU, 3 topology, 4 off by setting, 5 no */
};
struct gw_env_proc { /* a process with a context on a GPU */
    int64_t gpu, pid, bytes;
    int64_t compute;  /* 1 = compute, 0 = graphics only */
    int64_t ours;     /* 1 = this very program */
    int64_t resolved; /* 1 = the pid is visible here, 0 = it is not (another PID namespace) */
    const char *name;
};
struct gw_env_mig {
    int64_t gpu, gi, sm_count, bytes;
};
struct gw_env_fs { /* the file system under a --data path */
    const char *path, *mount, *type, *source, *disk;
    int64_t bytes_total, bytes_free;
    int64_t rotational;
};
struct gw_env_disk { /* block device over the sample */
    const char *name;
    int64_t rotational;
    double busy;     /* share of the sample in which I/O was in flight */
    double await_ms; /* mean time of an I/O; NAN when there was none */
    double read_mbps, write_mbps, iops;
    double sample_s;
};
struct gw_env_var {
    const char *name, *value;
};
struct gw_env_lib { /* a piece of software: "torch", "cudnn", "nccl", "toolkit", ... */
    const char *name, *version, *where;
};
struct gw_env_nic {
    const char *name, *kind; /* "infiniband", "net" */
    int64_t numa_node, up, mbps;
};
struct gw_env_node {
    int64_t node;
    const char *cpus;
    const char *distances;
    int64_t bytes;
};
struct gw_env_worker {
    int64_t pid, parent, rss, pss;
    const char *name;
};                      /* a data-loader worker that runs now */
struct gw_env_measure { /* a ceiling of the machine, and how it was measured */
    const char *id, *unit, *how;
    int64_t gpu; /* GW_ENV_NONE when it is not of a GPU */
    double value;
};
struct gw_env_note {
    const char *where, *text;
}; /* something that could not be read, and why */
struct gw_env_source {
    const char *path, *format;
    int64_t facts;
};

/* One row per kind of record: its array in struct gw_env, its struct and its fields, in env_records.def. */
enum gw_rec {
#define GW_REC(sym, id, type) GW_REC_##sym,
#define GW_FIELD(sym, type, ftype, field)
#include "collect/env_records.def"
#undef GW_REC
#undef GW_FIELD
    GW_REC_COUNT
};

struct gw_env {
    struct gw_arena *arena;
    struct gw_array gpus;    /* struct gw_gpu */
    struct gw_array samples; /* struct gw_sample */
    struct gw_array rec[GW_REC_COUNT];
    int64_t host[GW_HOST_COUNT];
    uint64_t host_has[(GW_HOST_COUNT + 63) / 64];
    const char *str[GW_HSTR_COUNT]; /* NULL unknown */
    int live;                       /* 1 = this is the machine we run on */
    int recorded;                   /* 1 = from a record of gpuwhy run */
    int no_memory;                  /* 1 = something was left out because memory or a cap ran out */
    int64_t next_source;
};

struct gw_env *gw_env_create(void); /* NULL when out of memory */
void gw_env_destroy(struct gw_env *env);

/* Find or make GPU `index`. `bus_id` (any spelling, may be NULL) wins over the index when both are known. NULL when
 * there are too many. Valid until the next GPU is made. */
struct gw_gpu *gw_env_gpu(struct gw_env *env, int64_t index, const char *bus_id);
struct gw_gpu *gw_env_gpu_at(const struct gw_env *env, size_t i); /* NULL past the end */
/* Forgets all GPUs but those at the positions whose bit is set: a job that uses one of eight is not slowed by the others. */
void gw_env_keep_gpus(struct gw_env *env, uint64_t positions);
size_t gw_env_gpu_position(const struct gw_env *env, const struct gw_gpu *g);

void gw_gpu_set(struct gw_gpu *g, enum gw_gpu_metric m, int64_t value);
int gw_gpu_has(const struct gw_gpu *g, enum gw_gpu_metric m);
int64_t gw_gpu_get(const struct gw_gpu *g, enum gw_gpu_metric m); /* GW_ENV_NONE when not known */

void gw_env_set(struct gw_env *env, enum gw_host_metric m, int64_t value);
int gw_env_has(const struct gw_env *env, enum gw_host_metric m);
int64_t gw_env_get(const struct gw_env *env, enum gw_host_metric m); /* GW_ENV_NONE when not known */
/* Keeps a copy without surrounding blanks and control characters. */
void gw_env_set_str(struct gw_env *env, enum gw_host_string s, const char *text, size_t len);
const char *gw_env_str(const struct gw_env *env, enum gw_host_string s);  /* NULL when not known */
const char *gw_env_dup(struct gw_env *env, const char *text, size_t len); /* the same cleaning; never NULL */

/* A new record with every field unknown, or NULL when there are too many. Valid until the next one of its kind. */
void *gw_env_add(struct gw_env *env, enum gw_rec kind);
size_t gw_env_count(const struct gw_env *env, enum gw_rec kind);
void *gw_env_at(const struct gw_env *env, enum gw_rec kind, size_t i);
void gw_env_note(struct gw_env *env, const char *where, const char *fmt, ...) GW_PRINTF(3, 4);

/* Takes the dynamic metrics of `g` as a sample at time `t`. */
void gw_env_sample(struct gw_env *env, const struct gw_gpu *g, int64_t t, int64_t source);
size_t gw_env_sample_count(const struct gw_env *env);
const struct gw_sample *gw_env_sample_at(const struct gw_env *env, size_t i);
int64_t gw_sample_get(const struct gw_sample *s, enum gw_gpu_metric m);

/* The first library of that name, or NULL. */
const struct gw_env_lib *gw_env_lib(const struct gw_env *env, const char *name);
void gw_env_add_lib(struct gw_env *env, const char *name, const char *version, const char *where);
const char *gw_env_var_value(const struct gw_env *env, const char *name); /* NULL when unset or not known */

/* What the tables say. */
struct gw_metric_info {
    const char *id;
    enum gw_unit unit;
    const char *q, *xml, *csv; /* GPU metrics: alternatives separated by '|' */
};
const struct gw_metric_info *gw_gpu_metric_info(enum gw_gpu_metric m);
const struct gw_metric_info *gw_host_metric_info(enum gw_host_metric m);
const char *gw_host_string_id(enum gw_host_string s);

enum gw_field_type { GW_FT_I64, GW_FT_F64, GW_FT_STR };
struct gw_field {
    const char *name;
    enum gw_field_type type;
    size_t offset;
};
struct gw_rec_info {
    const char *id;
    size_t size;
    const struct gw_field *fields;
    size_t count;
};
struct gw_rec_info gw_rec_info(enum gw_rec kind);

/* Reads "700.00 W", "16x", "Enabled", "0x0000000000000004", "P8", "81559MiB" by unit. 0, or -1 when it is not a value.
 */
int gw_unit_parse(enum gw_unit unit, const char *text, size_t len, int64_t *out);
/* "0000:19:00.0" from any spelling of a PCI address ("00000000:19:00.0", "19:00.0"). 0 or -1. */
int gw_bus_id_normal(const char *text, size_t len, char out[GW_BUS_ID_CAP]);
/* Number of CPUs in a list such as "0-3,8"; sets bits of `mask` (of `bits` bits) when given. -1 when it is no list. */
int64_t gw_cpulist_count(const char *text, unsigned char *mask, size_t bits);

#endif
