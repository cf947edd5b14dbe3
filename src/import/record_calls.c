/*
 * record_calls.c - the job's own calls of CUDA, counted inside the job without CUPTI (inject/calls.h), as counters that count up:
 * the sums of all threads that launch. They take turns: the loop's thread forward, autograd's backward.
 */
#include <math.h>
#include <string.h>

#include "import/record_internal.h"

#define BESIDE (30 * 1000000000ll) /* counts are kept this long around the GPU work that is in the trace */

static size_t find(const struct gw_record_calls *c, uint32_t tid)
{
    size_t k = 0;
    while (k < c->threads && c->tid[k] != tid)
        k++;
    return k;
}

void gw_record_calls_learn(struct gw_record_calls *c, const struct gw_chunk *chunk)
{
    for (uint32_t i = 0; i < chunk->count; i++) {
        struct gw_rec_calls r;
        gw_chunk_get(chunk, i, &r, sizeof r);
        if ((r.count[GW_CALL_LAUNCH] || r.count[GW_CALL_GRAPH]) && c->threads < GW_RECORD_CALL_THREADS && find(c, r.tid) == c->threads)
            c->tid[c->threads++] = r.tid;
    }
}

static int put(struct gw_record_import *im, int64_t at, uint32_t lane, const char *name, double value)
{
    struct gw_event e = {.kind = GW_KIND_COUNTER, .start = at, .end = at, .lane = lane, .flags = GW_EV_HAS_ARG0,
                         .name = gw_trace_name(im->t, name, strlen(name)), .arg0 = gw_counter_bits(value)};
    return gw_trace_add(im->t, &e);
}

static int put_all(struct gw_record_import *im, const struct gw_record_calls *c, int64_t at, uint32_t lane)
{
    static const struct { const char *count, *time; } names[GW_CALL_COUNT] = {
        [GW_CALL_LAUNCH] = {"cuda.launches", "cuda.launch_s"}, [GW_CALL_GRAPH] = {"cuda.graph_launches", "cuda.graph_launch_s"},
        [GW_CALL_WAIT] = {"cuda.waits", "cuda.wait_s"},        [GW_CALL_COPY] = {"cuda.copies", "cuda.copy_s"},
        [GW_CALL_ALLOC] = {"cuda.allocations", "cuda.allocation_s"}, [GW_CALL_READ] = {"cuda.reads", "cuda.read_s"},
        [GW_CALL_HOST_ALLOC] = {"cuda.host_allocations", "cuda.host_allocation_s"}};
    int rc = put(im, at, lane, "cuda.slack_s", c->slack_s);
    if (rc == 0)
        rc = put(im, at, lane, "cuda.fresh_launches", c->fresh);
    for (unsigned k = 1; rc == 0 && k < GW_CALL_COUNT; k++)
        rc = put(im, at, lane, names[k].count, c->count[k]) < 0 ? -1 : put(im, at, lane, names[k].time, c->time_s[k]);
    return rc;
}

int gw_record_calls_add(struct gw_record_calls *c, struct gw_record_import *im, int64_t pid, const struct gw_chunk *chunk)
{
    for (uint32_t i = 0; i < chunk->count; i++) {
        struct gw_rec_calls r;
        gw_chunk_get(chunk, i, &r, sizeof r);
        if (r.end <= r.start || find(c, r.tid) == c->threads)
            continue;
        int is_near = im->gpu_from > im->gpu_to ||
                      ((int64_t)r.end >= im->gpu_from - BESIDE && (int64_t)r.start <= im->gpu_to + BESIDE);
        uint32_t lane = gw_trace_lane_counter(im->t, -1, pid);
        if (is_near && !c->is_begun && put_all(im, c, (int64_t)r.start - im->base_ns, lane) < 0)
            return GW_ENOMEM;
        c->is_begun |= is_near;
        c->slack_s += (double)r.slack_ns * 1e-9;
        for (unsigned k = 1; k < GW_CALL_COUNT; k++) {
            c->count[k] += r.count[k];
            c->time_s[k] += (double)r.ns[k] * 1e-9;
        }
        /* a launch that has to wait for room in the queue is no launch's price: that is slack */
        c->time_s[GW_CALL_LAUNCH] -= fmin((double)r.ns[GW_CALL_NONE], (double)r.ns[GW_CALL_LAUNCH]) * 1e-9;
        c->fresh += r.fresh;
        if (is_near && put_all(im, c, (int64_t)r.end - im->base_ns, lane) < 0)
            return GW_ENOMEM;
    }
    return 0;
}
