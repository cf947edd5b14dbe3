/*
 * replay.h - what would the steady window last if something were different?
 *
 * The recorded dependency graph of one device is replayed: host calls in their order with the time between them, launch
 * edges, stream order, dependencies between streams where the times show one, and the waits of synchronising calls.
 * Replayed unchanged it must give the recorded time back; how far it is off (gw_replay_error) is the seed of every error
 * range. Then one thing is changed and the replay runs again.
 *
 *     struct gw_whatif w = GW_WHATIF_NONE;
 *     w.remove = 1u << GW_CAUSE_DATA_WAIT;
 *     double gain = (double)gw_replay_run(r, &base) / (double)gw_replay_run(r, &w);
 */
#ifndef GW_REPLAY_H
#define GW_REPLAY_H

#include "engine/analysis.h"

struct gw_replay;

struct gw_whatif {
    uint32_t remove;       /* host time with these labels (1 << enum gw_cause) takes no time */
    uint32_t drop_wait;    /* blocking calls of these kinds (1 << HOST_SYNC, 1 << BLOCKING_COPY) do not wait */
    double host_scale;     /* dispatch (label LAUNCH, launch calls) takes this much of its time */
    uint32_t ctx;          /* calls inside these contexts (GW_CTX_*) ... */
    double ctx_host_scale; /* ... take this much of their time, with the dispatch before them */
    const float *op_scale; /* per replay op: factor on its duration; NULL = 1 */
    double label_scale[GW_CAUSE_COUNT]; /* factor on host time by label, applied after `remove`; 0 is read as 1 */
};
#define GW_WHATIF_NONE ((struct gw_whatif){.host_scale = 1.0, .ctx_host_scale = 1.0})

/* Builds dev->replay over the steady window; leaves it NULL when fewer than half of the operations can be tied to a call.
 * 0 or GW_ENOMEM. */
int gw_replay_build(struct gw_analysis *an, struct gw_dev *dev);

/* Length of the window under `w`, ns; -1 out of memory. */
int64_t gw_replay_run(const struct gw_replay *r, const struct gw_whatif *w);

/* |replayed unchanged - recorded| / recorded. */
double gw_replay_error(const struct gw_replay *r);

/* The operations of the replay, for op_scale: count, and the event of each. */
size_t gw_replay_ops(const struct gw_replay *r);
uint32_t gw_replay_op_event(const struct gw_replay *r, size_t i);

#endif
