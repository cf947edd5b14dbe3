/*
 * kernel_metrics.h - hardware counters by kernel name: what Nsight Compute measured, beside the timeline.
 *
 * One row a kernel name. Launches of one name are averaged, each weighted with its duration; a metric that a source
 * does not give has no weight and reads as NAN. Durations are those under the profiler, at fixed clocks and with cold
 * caches: good as weights among launches, not as times of the job. To speak of a job, weight the rows with the kernel
 * time of the job's own timeline, by name (gw_km_find).
 *
 * The rows live in gw_trace.kernel_metrics and die with the trace. Same thread rule as the trace.
 *
 *     struct gw_km_index *x = gw_km_index(t, arena);
 *     struct gw_kernel_metrics m;
 *     if (gw_km_find(x, "void gemm<float>(int)", &m) && gw_kernel_metric(&m, GW_KM_DRAM) > 80)
 *         ...
 */
#ifndef GW_KERNEL_METRICS_H
#define GW_KERNEL_METRICS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

struct gw_trace;
struct gw_arena;

enum gw_km {
#define GW_KM(sym, id, unit, text) GW_KM_##sym,
#include "model/kernel_metrics.def"
#undef GW_KM
    GW_KM_COUNT
};

struct gw_kernel_metrics {
    uint32_t name;              /* interned in the trace, as the source writes it */
    uint64_t launches;          /* profiled launches of this name */
    int64_t duration_ns;        /* sum over those launches that gave one; -1 when none did */
    double value[GW_KM_COUNT];  /* weighted means; use gw_kernel_metric() */
    double weight[GW_KM_COUNT]; /* ns that went in; 0 = no value */
};

static inline double gw_kernel_metric(const struct gw_kernel_metrics *m, enum gw_km k)
{
    return m->weight[k] > 0 ? m->value[k] : NAN;
}

/* One profiled launch, or a summary of several. NAN = the source does not say. */
struct gw_kernel_sample {
    uint64_t launches;
    double duration_ns; /* of one launch */
    double value[GW_KM_COUNT];
};

#define GW_KERNEL_METRICS_MAX 65536u /* names; a large training job runs some thousand kernels */

/* Adds a sample to the row of `name` (interned; 0 is refused). 0 or GW_ENOMEM. Names beyond GW_KERNEL_METRICS_MAX are
 * left out and counted as the loss MEMORY_CAP. */
int gw_kernel_metrics_add(struct gw_trace *t, uint32_t name, const struct gw_kernel_sample *s);
/* Adds all rows of another trace, which was read for its counters. 0 or GW_ENOMEM. */
int gw_kernel_metrics_copy(struct gw_trace *to, const struct gw_trace *from);
size_t gw_kernel_metrics_count(const struct gw_trace *t);
const struct gw_kernel_metrics *gw_kernel_metrics_at(const struct gw_trace *t, size_t i); /* in order of first sight */

/* How a kernel of the timeline was found among the rows: sources spell template arguments and parameters differently,
 * and some leave them out. The first that gives something is taken; several rows are averaged. */
enum gw_km_match {
    GW_KM_NO_MATCH,
    GW_KM_EXACT,    /* the same name to the letter */
    GW_KM_INSTANCE, /* the same template arguments, differently spelt: "foo<(int)4, bool>" and "foo<4,bool>" */
    GW_KM_BASE,     /* the same name without template arguments: all instances together */
    GW_KM_FUNCTION  /* the rows give the function's bare name alone (--kernel-name-base function) */
};

struct gw_km_index;
/* Prepares the rows for gw_km_find(). In `arena`; NULL when out of memory. The rows must not change any more. */
struct gw_km_index *gw_km_index(const struct gw_trace *t, struct gw_arena *arena);
enum gw_km_match gw_km_find(const struct gw_km_index *x, const char *name, struct gw_kernel_metrics *out);

/* "void at::native::foo<4, bar>(int)" -> "at::native::foo": no return type, no template arguments, no parameters, no
 * anonymous namespaces. Writes at most cap - 1 bytes and a NUL; returns the length. */
size_t gw_kernel_base_name(const char *name, char *buf, size_t cap);

/* The same with its template arguments, spelt in one way: "at::native::foo<4,bar>". */
size_t gw_kernel_instance_name(const char *name, char *buf, size_t cap);

const char *gw_km_id(unsigned k);
const char *gw_km_unit(unsigned k);

#endif
