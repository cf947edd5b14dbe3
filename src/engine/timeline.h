/*
 * timeline.h - the exact partition of a device's time, and its gaps.
 *
 * Every nanosecond of a window belongs to exactly one of compute, comm_exposed, copy_exposed and idle; the four add up
 * to the window, always. Linear in the number of operations.
 */
#ifndef GW_TIMELINE_H
#define GW_TIMELINE_H

#include "engine/names.h"
#include "engine/report_model.h"

/* Called for every maximal idle span inside the window, in order of time. `next` indexes ops: the operation that ends
 * the span, or `n` when the window ends it. */
typedef void gw_idle_fn(void *user, int64_t start, int64_t end, size_t next);

/* Partitions [w0, w1). `ops` are event numbers sorted by start. `idle` may be NULL. */
struct gw_partition gw_timeline_partition(const struct gw_trace *t, const struct gw_name_info *names,
                                          const uint32_t *ops, size_t n, int64_t w0, int64_t w1, gw_idle_fn *idle,
                                          void *user);

/* First start and last end of the operations. 0 when there are none. */
int gw_timeline_span(const struct gw_trace *t, const uint32_t *ops, size_t n, int64_t *w0, int64_t *w1);

#endif
