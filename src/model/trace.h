/*
 * trace.h - a recording: events, names, lanes, devices, losses and what the source says about itself.
 *
 * Owned by one caller. A source only adds; then gw_trace_finish() sorts and links, once; after that the trace is
 * constant and may be read from several threads. The engine takes it as `const`.
 *
 *     struct gw_trace *t = gw_trace_create(0);
 *     struct gw_event e = {.start = 0, .end = 1000, .kind = GW_KIND_KERNEL,
 *                          .name = gw_trace_name(t, "k", 1), .lane = gw_trace_lane_gpu(t, 0, 7)};
 *     gw_trace_add(t, &e);
 *     gw_trace_finish(t);
 */
#ifndef GW_TRACE_H
#define GW_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "base/gw_arena.h"
#include "base/gw_intern.h"
#include "model/event.h"

enum gw_lane_type { GW_LANE_GPU = 1, GW_LANE_HOST = 2, GW_LANE_COUNTER = 3 };

struct gw_lane {
    enum gw_lane_type type;
    int64_t device;  /* GPU and counter lanes: device id as the source numbers it; -1 on host lanes */
    int64_t stream;  /* GPU lanes */
    int64_t pid;     /* host lanes */
    int64_t tid;     /* host lanes */
    uint32_t name;   /* thread or stream name, interned; 0 when the source has none */
    /* After gw_trace_finish: this lane's events by (start, longer first, order of arrival). */
    const uint32_t *order;
    size_t count;
};

struct gw_device {
    int64_t id;
    uint32_t name;        /* 0 when unknown or empty */
    int64_t memory_bytes; /* -1 unknown */
    int32_t sm_count;     /* -1 unknown */
    int32_t cc_major;     /* compute capability; -1 unknown */
    int32_t cc_minor;
    int32_t max_threads_per_sm; /* -1 unknown */
    /* After gw_trace_finish: GPU operations of all streams by (start, order of arrival). */
    const uint32_t *ops;
    size_t op_count;
};

struct gw_source {
    const char *path;
    const char *format;  /* "kineto", "nsys", "record", ... */
    int64_t bytes;       /* size on disk */
    int64_t text_bytes;  /* size after decompression */
    int64_t events;      /* records seen in the file, kept or not */
};

struct gw_loss_count {
    uint64_t count;
    int64_t first_byte; /* -1 unknown */
};

/* What the source says about itself. -1 / NULL / 0 = not said. */
struct gw_facts {
    const char *framework;       /* "PyTorch", ... */
    const char *framework_version;
    int cuda_driver;             /* 13000 = 13.0 */
    int cuda_runtime;
    int cupti;
    int amd;                     /* 1 when recorded on ROCm */
    int64_t rank, world_size;    /* -1 unknown */
    const char *dist_backend;    /* "nccl", "gloo", ... */
    const char *host;
    int with_stack, record_shapes, profile_memory; /* 1 when the recorder says so */
    int64_t base_ns;             /* wall-clock ns of time zero, 0 unknown */
    int64_t clock_error_ns;      /* bound on the error of converted times */
    const char *profiler;        /* who recorded: "torch.profiler", "nsys", "gpuwhy run" */
    double link_rate;            /* host link's best rate, bytes/s, where the machine is known; 0 unknown */
    const char *link_name;       /* in words: "PCIe 4 x8" */
};

struct gw_host_facts;

struct gw_trace {
    struct gw_arena *arena;
    struct gw_intern *names;
    struct gw_array events;   /* struct gw_event */
    struct gw_array lanes;    /* struct gw_lane */
    struct gw_array devices;  /* struct gw_device */
    struct gw_array sources;  /* struct gw_source */
    struct gw_loss_count loss[GW_LOSS_COUNT];
    struct gw_facts facts;
    size_t max_bytes;         /* memory cap for events, 0 = none */
    int finished;
    void *priv;               /* lookup tables of trace.c */
    struct gw_array index;    /* uint32_t: storage of all order arrays */
    struct gw_array kernel_metrics; /* struct gw_kernel_metrics (kernel_metrics.h); zeroed = none were read */
    struct gw_array kernel_rows;    /* uint32_t by name: 1 + its row in kernel_metrics, 0 = none */
    struct gw_host_facts *host; /* host_facts.h: what was recorded beside the GPU's work; NULL = nothing was */
};

/* `max_bytes`: memory the events may take, 0 = no cap. NULL when out of memory. */
struct gw_trace *gw_trace_create(size_t max_bytes);
void gw_trace_destroy(struct gw_trace *t);

uint32_t gw_trace_name(struct gw_trace *t, const char *s, size_t len);
const char *gw_trace_text(const struct gw_trace *t, uint32_t name);
/* Find or make a lane. GW_NONE on out of memory. */
uint32_t gw_trace_lane_gpu(struct gw_trace *t, int64_t device, int64_t stream);
uint32_t gw_trace_lane_host(struct gw_trace *t, int64_t pid, int64_t tid);
uint32_t gw_trace_lane_counter(struct gw_trace *t, int64_t device, int64_t pid);
/* Find or make a device; facts unknown until set. NULL on out of memory. Pointer valid until the next device. */
struct gw_device *gw_trace_device(struct gw_trace *t, int64_t id);
/* Copies `e` into the trace (up and link are set to GW_NONE). 0, or GW_ENOMEM at the cap (the loss is counted). */
int gw_trace_add(struct gw_trace *t, const struct gw_event *e);
/* Counts `n` losses; `byte` is where in the input, or -1. */
void gw_trace_lose(struct gw_trace *t, enum gw_loss loss, uint64_t n, int64_t byte);
struct gw_source *gw_trace_source(struct gw_trace *t, const char *path, const char *format);
/* Sorts every lane, nests host events, links GPU operations with API calls, counts what does not fit. Idempotent. */
int gw_trace_finish(struct gw_trace *t);

static inline const struct gw_event *gw_trace_event(const struct gw_trace *t, uint32_t i) {
    return (const struct gw_event *)t->events.data + i;
}
static inline const struct gw_lane *gw_trace_lane(const struct gw_trace *t, uint32_t i) {
    return (const struct gw_lane *)t->lanes.data + i;
}
static inline size_t gw_trace_count(const struct gw_trace *t) { return t->events.len; }

#endif
