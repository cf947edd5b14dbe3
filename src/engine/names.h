/*
 * names.h - what a name means: the class of an API call, a kernel or a host range, decided once per distinct name.
 *
 * All knowledge of foreign naming is here, in tables. Nothing else in the engine looks at the text of a name, so a new
 * framework or driver version is a new row and not a new branch.
 */
#ifndef GW_NAMES_H
#define GW_NAMES_H

#include "model/trace.h"

enum gw_api {           /* classes of runtime and driver calls (CUDA and HIP) */
    GW_API_OTHER,
    GW_API_LAUNCH,
    GW_API_GRAPH_LAUNCH,
    GW_API_COPY_ASYNC,
    GW_API_COPY,        /* cudaMemcpy and kin: synchronous by contract */
    GW_API_SET,
    GW_API_SYNC_STREAM,
    GW_API_SYNC_DEVICE,
    GW_API_SYNC_EVENT,
    GW_API_ALLOC,       /* device memory: also map/unmap of virtual memory */
    GW_API_FREE,
    GW_API_HOST_ALLOC,  /* page-locked host memory, register/unregister */
    GW_API_MODULE,      /* module and library loading */
    GW_API_GRAPH_BUILD, /* capture and instantiate */
    GW_API_QUERY,
    GW_API_EVENT,       /* record, create, destroy */
    GW_API_WAIT_EVENT,  /* stream-side wait: the host does not wait */
    GW_API_CLASS_COUNT
};

enum gw_kclass {        /* classes of kernels by name */
    GW_K_OTHER,
    GW_K_COMM,
    GW_K_GEMM,          /* matrix products, tensor cores or unknown */
    GW_K_GEMM_FP32,     /* matrix products on the fp32 pipe, by name */
    GW_K_CONV,
    GW_K_CONV_FP32,
    GW_K_ATTENTION,
    GW_K_ELEMENTWISE,
    GW_K_REDUCE,
    GW_K_NORM,
    GW_K_COPY,          /* copies, casts, transposes, layout changes, concatenation */
    GW_K_EMBEDDING,     /* gather, scatter, index, embedding */
    GW_K_OPTIMIZER,     /* multi-tensor or fused optimizer kernels */
    GW_K_CLASS_COUNT
};
const char *gw_kclass_name(unsigned k); /* for evidence texts */

enum {                  /* contexts of host ranges; a range inherits those of the ranges around it */
    GW_CTX_STEP = 1u << 0,       /* ProfilerStep# */
    GW_CTX_LOADER = 1u << 1,     /* the main process waits for loader workers */
    GW_CTX_LOADING = 1u << 2,    /* the main process loads data itself */
    GW_CTX_OPTIMIZER = 1u << 3,
    GW_CTX_CHECKPOINT = 1u << 4,
    GW_CTX_EVAL = 1u << 5,       /* validation, metrics, logging */
    GW_CTX_COMPILE = 1u << 6,    /* torch.compile, Triton, ptxas, graph capture */
    GW_CTX_SYNC_OP = 1u << 7,    /* item, nonzero, ... : operators that read a value */
    GW_CTX_COMM = 1u << 8,       /* collectives, on whatever backend */
    GW_CTX_HOST_COMM = 1u << 9,  /* gloo, store, barrier: on the host */
    GW_CTX_SIM = 1u << 10,       /* an environment or simulator */
    GW_CTX_OP = 1u << 11,        /* inside a framework operator */
    GW_CTX_LOCK = 1u << 12,
    GW_CTX_BACKWARD = 1u << 13,
    GW_CTX_EMPTY_CACHE = 1u << 14,
    GW_CTX_PREP = 1u << 15,      /* a range whose name says it prepares input: tokenize, augment, collate, ... */
    GW_CTX_MODULE = 1u << 16,    /* inside the model's own forward code */
    GW_CTX_LAUNCHES = 1u << 17,  /* per event: some call below it gave the GPU work (set by the analysis, not by a name) */
    GW_CTX_FEEDS_READ = 1u << 18,/* per event: computes a value that the next operator reads (set by the analysis) */
    GW_CTX_SAVES = 1u << 19,     /* named just "checkpoint": a checkpoint on disk, or activation checkpointing */
    GW_CTX_KERNELS = 1u << 20,   /* per event, only under such a name: launches kernels (set by the analysis) */
    GW_CTX_BARE_READ = 1u << 22, /* per event: the copy of a value that is read, no operator around it (set by the analysis) */
    GW_CTX_TO_HOST = 1u << 21    /* per event, only under such a name: copies to the host (set by the analysis) */
};

struct gw_name_info {
    uint8_t api;     /* enum gw_api, for API events */
    uint8_t kclass;  /* enum gw_kclass, for kernels */
    uint32_t ctx;    /* GW_CTX_* that a host range of this name opens */
    uint8_t tensor;  /* kernels: 1 = the name says tensor cores */
    uint8_t user_frame; /* Python frame of the user's own code (not of an installed package) */
    uint8_t step;    /* 1 = an annotation that numbers steps (ProfilerStep#12) */
};

/* One row per interned name, [0..gw_intern_count]. In `arena`; NULL when out of memory. */
struct gw_name_info *gw_names_classify(const struct gw_trace *t, struct gw_arena *arena);

/* Contexts (GW_CTX_*) that one Python frame "path/file.py(57): func" opens; *user = 1 when it is the user's own code. */
uint32_t gw_names_frame(const char *frame, int *user);

/* Splits a Python frame name "path/file.py(57): func" : 1 when it is one. Outputs may be NULL; `file` is copied into
 * `arena`. */
int gw_names_pyframe(const char *name, struct gw_arena *arena, const char **file, int64_t *line, const char **func);

/* A kernel name fit for people: template arguments, return type and namespaces cut. In `arena`. */
const char *gw_names_short_kernel(const char *name, struct gw_arena *arena);

#endif
