/*
 * xla.h - the importer of what JAX's and TensorFlow's profiler writes for its trace viewer (*.trace.json.gz), for the
 * table in importers.c; and its inside, shared by xla*.c.
 *
 * It is JSON in the trace event format like Kineto's, but rows tell what an event is, not categories. A process
 * "/device:GPU:0" is a GPU; of its threads only "Stream #13(Compute,MemcpyD2H)" hold work, the others ("Steps",
 * "XLA Modules", "XLA Ops", ...) show the same time once more. "/host:CPU" is the program. The names of rows come
 * before the events. The trace viewer keeps a million events at most, and says nothing when it drops the rest.
 *
 *   xla.c        sniff, read: the list of events, one after the other
 *   xla_event.c  one event
 */
#ifndef GW_XLA_H
#define GW_XLA_H

#include "import/importer.h"

extern const struct gw_importer gw_importer_xla;

#define XLA_VIEWER_MOST 1000000 /* events that the trace viewer's writer keeps (xprof, trace_viewer_max_events) */

struct xla_row {
    int64_t pid, tid;
    int64_t stream; /* of a GPU's stream; -1 for rows that are no work */
    uint32_t lane;  /* GW_NONE: not made yet */
};

struct xla_process {
    int64_t pid;
    int64_t device; /* -1: the host; -2: neither */
};

struct xla {
    struct gw_trace *t;
    struct gw_array processes; /* struct xla_process */
    struct gw_array rows;      /* struct xla_row */
    size_t last_process, last_row;
    uint64_t events, graphs;
    int jax;
};

int xla_init(struct xla *x, struct gw_trace *t);
void xla_free(struct xla *x);
/* One event, braces included. `at`: where in the text. 0, or GW_ENOMEM. */
int xla_event(struct xla *x, const char *text, size_t len, int64_t at);

#endif
