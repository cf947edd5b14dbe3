/*
 * measure.h - the machine's own ceilings, and a copy load that wakes the links up.
 *
 * Everything that touches CUDA runs in a child process, so that a driver that hangs or crashes costs a measurement and
 * not the report, and so that the memory it takes is gone afterwards. libcuda.so.1 is opened by name; no toolkit is
 * needed. The child is forked before NVML is opened in the parent.
 *
 *     struct gw_cuda_child *c = gw_cuda_child_start(&o);      before anything else
 *     gw_cuda_child_load(c);  ... sample ...  gw_cuda_child_stop(c, env);
 */
#ifndef GW_MEASURE_H
#define GW_MEASURE_H

#include "collect/env.h"

struct gw_cuda_child;

/* NULL when no child could be started. `library` NULL = libcuda.so.1. */
struct gw_cuda_child *gw_cuda_child_start(const char *library);
/* Begins copies on every visible GPU. 0 when they run (waits up to five seconds for contexts), -1 when they do not. */
int gw_cuda_child_load(struct gw_cuda_child *c);
/* Ends the load. */
void gw_cuda_child_unload(struct gw_cuda_child *c);
/* Measures every visible GPU, for at most `seconds`. Results become GW_REC_MEASURE records, problems notes. */
void gw_cuda_child_measure(struct gw_cuda_child *c, struct gw_env *env, double seconds);
/* Ends the child and frees. Says in `env` why CUDA could not be used, when it could not. NULL is fine. */
void gw_cuda_child_stop(struct gw_cuda_child *c, struct gw_env *env);

/* Copies memory with one thread. Bytes per second count what is read and written once each. */
void gw_measure_memory(struct gw_env *env);
/* Reads files below `path` past the page cache where the file system allows it. */
void gw_measure_disk(struct gw_env *env, const char *path);

void gw_measure_add(struct gw_env *env, const char *id, int64_t gpu, double value, const char *unit, const char *how);

/* --- the child's side
 * ------------------------------------------------------------------------------------------------- */

struct gw_cuda; /* cuda_api.c: libcuda's functions and the open devices */
struct gw_cuda *gw_cuda_open(const char *library, char *why, size_t cap); /* NULL with the reason in `why` */
int gw_cuda_count(const struct gw_cuda *c);
/* One round of copies there and back on every device; negative on an error of CUDA. */
int gw_cuda_copy_round(struct gw_cuda *c);
/* Measures device `i`; each result is one call of `say`. */
void gw_cuda_measure(struct gw_cuda *c, int i,
                     void (*say)(void *user, const char *bus, const char *id, double value, const char *unit,
                                 const char *how),
                     void *user);

#endif
