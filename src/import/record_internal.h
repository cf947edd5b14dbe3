/* record_internal.h - what the parts of the record importer share. */
#ifndef GW_RECORD_INTERNAL_H
#define GW_RECORD_INTERNAL_H

#include "import/importer.h"
#include "record/record_read.h"

enum { GW_RECORD_MAX_FILES = 4096 };

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
};

/* --- record_cuda.c: one file of the injected library ---------------------------------------------------------------- */
int gw_record_read_cuda(struct gw_record_import *im, const char *path, struct gw_error *err);
/* Bytes of the next chunk for the progress; sets `stopped`. */
void gw_record_progress(struct gw_record_import *im, uint64_t offset);

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
