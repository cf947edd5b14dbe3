#include "engine/analysis.h"

#include <math.h>
#include <stdlib.h>

#include "engine/replay.h"
#include "engine/samples.h"
#include "engine/timeline.h"

/* What the ranges named just "checkpoint" give the GPU: saving brings tensors to the host, recomputing runs kernels. */
static void look_into_checkpoints(const struct gw_trace *t, const struct gw_name_info *names, uint32_t *ctx)
{
    const struct gw_event *ev = t->events.data;
    uint32_t any = 0;
    for (uint32_t i = 0; i <= gw_intern_count(t->names); i++)
        any |= names[i].ctx & GW_CTX_SAVES;
    for (size_t i = 0; any && i < t->events.len; i++) {
        if (ev[i].kind != GW_KIND_API || ev[i].link == GW_NONE)
            continue;
        const struct gw_event *op = ev + ev[i].link;
        uint32_t what = op->kind == GW_KIND_KERNEL || op->kind == GW_KIND_GRAPH                    ? GW_CTX_KERNELS
                        : op->kind == GW_KIND_COPY && gw_mem_is_host(gw_copy_dst(op->sub)) ? GW_CTX_TO_HOST
                                                                                           : 0;
        for (uint32_t u = ev[i].up; what && u != GW_NONE; u = ev[u].up)
            if (names[ev[u].name].ctx & GW_CTX_SAVES)
                ctx[u] |= what;
    }
}

/* Contexts flow from a range to what it encloses; launches flow from a call to the ranges around it. */
static uint32_t *contexts(const struct gw_trace *t, const struct gw_name_info *names, struct gw_arena *arena,
                          uint64_t *ranges)
{
    uint32_t *ctx = gw_arena_calloc(arena, t->events.len, sizeof *ctx);
    const struct gw_event *ev = t->events.data;
    const struct gw_lane *lane = t->lanes.data;
    if (!ctx)
        return NULL;
    look_into_checkpoints(t, names, ctx);
    for (size_t l = 0; l < t->lanes.len; l++) {
        if (lane[l].type != GW_LANE_HOST)
            continue;
        for (size_t i = 0; i < lane[l].count; i++) {
            uint32_t k = lane[l].order[i];
            *ranges += ev[k].kind == GW_KIND_OP || ev[k].kind == GW_KIND_ANNOT || ev[k].kind == GW_KIND_PYFUNC;
            ctx[k] |= names[ev[k].name].ctx;
            if ((names[ev[k].name].ctx & GW_CTX_SAVES) && (ctx[k] & (GW_CTX_KERNELS | GW_CTX_TO_HOST)) != GW_CTX_KERNELS)
                ctx[k] |= GW_CTX_CHECKPOINT;
            if (ev[k].up != GW_NONE)
                ctx[k] |= ctx[ev[k].up] & ~(uint32_t)GW_CTX_LAUNCHES;
            if ((ctx[k] & GW_CTX_LOADING) && (ctx[k] & GW_CTX_LOADER))
                ctx[k] &= ~(uint32_t)GW_CTX_LOADER;
            if (ev[k].kind == GW_KIND_API && ev[k].link != GW_NONE)
                for (uint32_t u = ev[k].up; u != GW_NONE && !(ctx[u] & GW_CTX_LAUNCHES); u = ev[u].up)
                    ctx[u] |= GW_CTX_LAUNCHES;
        }
    }
    return ctx;
}


/* The lane that launches most of the device's work, and its process. */
static int find_launcher(const struct gw_trace *t, struct gw_dev *d)
{
    size_t *n = calloc(t->lanes.len + 1, sizeof *n);
    if (!n)
        return GW_ENOMEM;
    d->pid = -1;
    d->main_lane = GW_NONE;
    for (size_t i = 0; i < d->nops; i++) {
        uint32_t c = gw_trace_event(t, d->ops[i])->link;
        if (c == GW_NONE)
            continue;
        uint32_t l = gw_trace_event(t, c)->lane;
        n[l]++;
        if (d->main_lane == GW_NONE || n[l] > n[d->main_lane])
            d->main_lane = l;
    }
    if (d->main_lane != GW_NONE)
        d->pid = gw_trace_lane(t, d->main_lane)->pid;
    free(n);
    return GW_OK;
}

static int begin_device(struct gw_analysis *an, struct gw_dev *d, const struct gw_device *info)
{
    *d = (struct gw_dev){.info = info, .ops = info->ops, .nops = info->op_count, .launch_latency = -1, .launch_median = -1};
    int64_t w0 = 0, w1 = 0;
    gw_timeline_span(an->t, d->ops, d->nops, &w0, &w1);
    d->whole = gw_timeline_partition(an->t, an->names, d->ops, d->nops, w0, w1, NULL, NULL);
    return find_launcher(an->t, d);
}

/* Host events inside the steady window on the launching process: each of them cost the profiler a record. */
static void count_host_events(struct gw_analysis *an, struct gw_dev *d)
{
    const struct gw_lane *lane = an->t->lanes.data;
    for (size_t l = 0; l < an->t->lanes.len; l++) {
        if (lane[l].type != GW_LANE_HOST || lane[l].pid != d->pid)
            continue;
        for (size_t i = 0; i < lane[l].count; i++) {
            const struct gw_event *e = gw_ev(an, lane[l].order[i]);
            d->host_events += e->start >= an->w0 && e->start < an->w1 && e->kind != GW_KIND_OVERHEAD && e->kind != GW_KIND_SAMPLE;
        }
    }
}

struct gw_analysis *gw_analyse(const struct gw_trace *t, struct gw_arena *arena)
{
    struct gw_analysis *an = gw_arena_alloc(arena, sizeof *an);
    if (!an)
        return NULL;
    an->t = t;
    an->arena = arena;
    an->steps = (struct gw_steps){.found_by = "none", .marker = ""};
    an->replay_error = NAN;
    an->names = gw_names_classify(t, arena);
    an->ctx = an->names ? contexts(t, an->names, arena, &an->ranges) : NULL;
    if (!an->ctx)
        return NULL;
    const struct gw_device *info = t->devices.data;
    an->dev = gw_arena_calloc(arena, t->devices.len + 1, sizeof *an->dev);
    if (!an->dev || gw_samples_stacks(an) < 0)
        return NULL;
    for (size_t i = 0; i < t->devices.len; i++) {
        if (!info[i].op_count)
            continue;
        if (begin_device(an, an->dev + an->ndev, info + i) < 0)
            return NULL;
        an->ndev++;
    }
    for (size_t i = 1; i < an->ndev; i++) { /* the device with most work leads */
        const struct gw_partition *p = &an->dev[i].whole, *q = &an->dev[an->main].whole;
        if (p->wall - p->idle > q->wall - q->idle)
            an->main = i;
    }
    if (!an->ndev)
        return an;
    if (gw_steps_find(an) < 0)
        return NULL;
    for (size_t k = 0; k < an->ndev; k++) {
        size_t i = (an->main + 1 + k) % an->ndev; /* the main device last: its correction for the profiler stays */
        count_host_events(an, an->dev + i);
        if (gw_host_line(an, an->dev + i) < 0 || gw_samples_label(an, an->dev + i) < 0 || gw_blame(an, an->dev + i) < 0)
            return NULL;
    }
    if (gw_phases(an, an->dev + an->main) < 0)
        return NULL;
    if (gw_replay_build(an, an->dev + an->main) < 0)
        return NULL;
    return an;
}
