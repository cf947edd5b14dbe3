/*
 * event.h - the one event of the program, and the small vocabularies it uses.
 *
 * Every source (trace files, the recorder, counters) becomes these 64-byte events on one clock: half-open
 * [start, end), int64 nanoseconds. Importers convert at the door; nothing past them knows another unit or clock.
 * A value that a source does not give is a cleared GW_EV_HAS_* bit and never a zero.
 */
#ifndef GW_EVENT_H
#define GW_EVENT_H

#include <stdint.h>

#include "base/gw_i18n.h"

enum gw_kind {
#define GW_KIND(sym, name, gpu, host, text) GW_KIND_##sym,
#include "model/kinds.def"
#undef GW_KIND
    GW_KIND_COUNT
};

enum gw_loss {
#define GW_LOSS(sym, id, spoils, text) GW_LOSS_##sym,
#include "model/losses.def"
#undef GW_LOSS
    GW_LOSS_COUNT
};

enum {
    GW_EV_HAS_CORR = 1u << 0,
    GW_EV_HAS_ARG0 = 1u << 1,
    GW_EV_HAS_ARG1 = 1u << 2,
    GW_EV_HAS_SUB = 1u << 3,
    GW_EV_IN_GRAPH = 1u << 4,   /* a kernel that ran as a node of a CUDA graph */
    GW_EV_DROPPED = 1u << 5     /* kept for its index only; every consumer skips it */
};

/* Where one end of a copy lives (the words of CUPTI's memory kinds). HOST: host memory of unknown sort. */
enum gw_mem { GW_MEM_UNKNOWN, GW_MEM_PAGEABLE, GW_MEM_PINNED, GW_MEM_DEVICE, GW_MEM_ARRAY, GW_MEM_MANAGED, GW_MEM_HOST };

#define GW_NONE UINT32_MAX /* "no event", "no lane" */

struct gw_event {
    int64_t start;  /* ns */
    int64_t end;    /* ns, >= start */
    uint64_t corr;  /* correlation id: joins a GPU operation with the API call that launched it */
    uint64_t arg0;  /* see kinds.def */
    uint64_t arg1;  /* see kinds.def */
    uint32_t name;  /* interned */
    uint32_t lane;  /* index into the trace's lanes: a stream of a device, or a thread of a process */
    uint32_t sub;   /* see kinds.def */
    uint32_t up;    /* host events: the enclosing event on the same thread, or GW_NONE (set by gw_trace_finish) */
    uint32_t link;  /* GPU op: its API call; API call: its first GPU op; or GW_NONE (set by gw_trace_finish) */
    uint16_t kind;  /* enum gw_kind */
    uint16_t flags; /* GW_EV_* */
};
_Static_assert(sizeof(struct gw_event) == 64, "an event is one cache line");

static inline uint32_t gw_copy_sub(enum gw_mem src, enum gw_mem dst) { return ((uint32_t)src << 8) | (uint32_t)dst; }
static inline enum gw_mem gw_copy_src(uint32_t sub) { return (enum gw_mem)((sub >> 8) & 0xff); }
static inline enum gw_mem gw_copy_dst(uint32_t sub) { return (enum gw_mem)(sub & 0xff); }
static inline int gw_mem_is_host(enum gw_mem m) { return m == GW_MEM_PAGEABLE || m == GW_MEM_PINNED || m == GW_MEM_HOST; }

/* 1 for kernels, copies, sets and graph launches: what makes a device busy. */
static inline int gw_kind_is_gpu(unsigned kind) {
    return kind == GW_KIND_KERNEL || kind == GW_KIND_COPY || kind == GW_KIND_SET || kind == GW_KIND_GRAPH;
}
static inline int gw_kind_is_host(unsigned kind) {
    return kind == GW_KIND_API || kind == GW_KIND_OP || kind == GW_KIND_ANNOT || kind == GW_KIND_PYFUNC ||
           kind == GW_KIND_OVERHEAD || kind == GW_KIND_OSRT || kind == GW_KIND_STEP;
}

const char *gw_kind_name(unsigned kind);
const char *gw_loss_id(unsigned loss);
const char *gw_loss_text(unsigned loss); /* untranslated; pass through _() */
int gw_loss_spoils(unsigned loss);

#endif
