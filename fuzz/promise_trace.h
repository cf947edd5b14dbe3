/* promise_trace.h - what a reader of traces promises of any bytes: sound events, or an error with words. */
#ifndef GW_FUZZ_PROMISE_TRACE_H
#define GW_FUZZ_PROMISE_TRACE_H

#include "model/trace.h"
#include "promise.h"

static inline void require_event(const struct gw_trace *t, const struct gw_event *e)
{
    require(e->kind > GW_KIND_NONE && e->kind < GW_KIND_COUNT, "kinds are of the model");
    require(e->start <= e->end, "start <= end");
    require(e->start >= -((int64_t)1 << 62) && e->end <= (int64_t)1 << 62, "differences of times fit");
    require(e->lane < t->lanes.len, "lanes exist");
    require(e->name > 0 && e->name <= gw_intern_count(t->names), "names exist");
    require((e->flags & ~0x3fu) == 0, "flags are of the model");
    int gpu_row = gw_kind_is_gpu(e->kind) || e->kind == GW_KIND_GPU_SYNC;
    enum gw_lane_type want = gpu_row ? GW_LANE_GPU : e->kind == GW_KIND_COUNTER ? GW_LANE_COUNTER : GW_LANE_HOST;
    require(gw_trace_lane(t, e->lane)->type == want, "kinds fit their lanes");
}

/* After a reader has returned `rc`: the trace can be finished and is sound, or `err` says why there is none. */
static inline void require_read(struct gw_trace *t, int rc, const struct gw_error *err)
{
    if (rc < 0) {
        require(rc == err->code && err->what[0], "an error has its words");
        return;
    }
    require(gw_trace_finish(t) == 0, "any trace can be finished");
    for (uint32_t i = 0; i < gw_trace_count(t); i++)
        require_event(t, gw_trace_event(t, i));
}

#endif
