/*
 * kernel_metrics.h - hardware counters by kernel name: what Nsight Compute measured, beside the timeline.
 *
 * One row a kernel name. Launches of one name are averaged, each weighted with its duration; a metric that a source
 * does not give has no weight and reads as NAN. Durations are those under the profiler, at fixed clocks and with cold
 * caches: good as weights among launches, not as times of the job. To speak of a job, weight the rows with the kernel
 * time of the job's own timeline, by name (gw_kernel_metrics_match).
 *
 * The rows live in gw_trace.kernel_metrics and are freed by gw_kernel_metrics_free(). Same thread rule as the trace.
 *
 *     struct gw_kernel_metrics m;
 *     if (gw_kernel_metrics_match(t, "void gemm<float>(int)", &m) && gw_kernel_metric(&m, GW_KM_DRAM) > 80)
 *         ...
 */
#ifndef GW_KERNEL_METRICS_H
#define GW_KERNEL_METRICS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

struct gw_trace;

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

/* Adds a sample to the row of `name` (interned; 0 is refused). 0 or GW_ENOMEM. */
int gw_kernel_metrics_add(struct gw_trace *t, uint32_t name, const struct gw_kernel_sample *s);
size_t gw_kernel_metrics_count(const struct gw_trace *t);
const struct gw_kernel_metrics *gw_kernel_metrics_at(const struct gw_trace *t, size_t i); /* in order of first sight */

/* Metrics for a kernel of the timeline: the row of exactly this name; else all rows whose name has the same base,
 * averaged, since sources spell template arguments and parameters differently. 1 and `out`, or 0. */
int gw_kernel_metrics_match(const struct gw_trace *t, const char *name, struct gw_kernel_metrics *out);

/* "void at::native::foo<4, bar>(int)" -> "at::native::foo": no return type, no template arguments, no parameters, no
 * anonymous namespaces. Writes at most cap - 1 bytes and a NUL; returns the length. */
size_t gw_kernel_base_name(const char *name, char *buf, size_t cap);

void gw_kernel_metrics_free(struct gw_trace *t);

const char *gw_km_id(unsigned k);
const char *gw_km_unit(unsigned k);

#endif
