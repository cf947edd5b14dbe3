/*
 * What the launching side of the host was doing at each instant of the recording: one sequence of labelled runs, taken
 * from the thread that makes the next launch, or from a sibling when that one shows nothing specific (the backward
 * pass runs on a thread of its own). Synchronising and blocking calls are collected on the way.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/analysis.h"

/* Eager PyTorch issues an operator every 5-30 us under the profiler (measured on an H200 machine); a stretch without any
 * GPU call of ten times the upper end is not dispatch but code of its own. */
#define GW_USER_CODE_MIN_NS 300000
/* The same for one operator that stays in its own host code. */
#define GW_SLOW_OP_MIN_NS 1000000
/* A launch call this much longer than the usual one, and at least this long, was held by a full queue. */
#define GW_QUEUE_FULL_FACTOR 10
#define GW_QUEUE_FULL_MIN_NS 30000
/* Reads below this are values (loss, counts, flags); above, results. */
#define GW_VALUE_BYTES 65536
/* A pageable copy's call returns this long before the copy's end at most (3-6 us on an H200 machine). */
#define GW_STAGING_NS 20000
/* From aten::item to its copy's call: 3.2 / 3.9 / 5.6 us (p10, median, p90 of 576 under torch.profiler on an H200 machine). */
#define GW_READ_DISPATCH_NS 4000
#define GW_LANES_MAX 64

enum { LBL_VAGUE = GW_HOST_QUEUE_FULL + 1 };

struct gw_cursor { /* walks the leaf segments of one lane, forward only */
    const struct gw_lane *lane;
    size_t next;   /* first event that starts after the position */
    uint32_t leaf; /* innermost event at the position, or GW_NONE */
};

struct gw_hl {
    struct gw_analysis *an;
    struct gw_dev *dev;
    struct gw_cursor cur[GW_LANES_MAX];
    size_t lanes;
    struct gw_array runs;
    struct gw_array blocks;
    uint32_t *calls; /* launching calls by start */
    size_t ncalls;
    const struct gw_lane *overhead; /* the profiler's own rows */
    size_t overhead_next;
    int64_t overhead_until;
    /* the vague stretch being collected */
    int64_t v_start, v_end, v_best;
    uint32_t v_leaf;
};

/* ---- leaf walking ---- */

static void cursor_to(const struct gw_analysis *an, struct gw_cursor *c, int64_t at)
{
    const struct gw_lane *l = c->lane;
    while (c->next < l->count && gw_ev(an, l->order[c->next])->start <= at) {
        const struct gw_event *e = gw_ev(an, l->order[c->next]);
        if (gw_kind_is_host(e->kind) && e->end > at)
            c->leaf = l->order[c->next];
        c->next++;
    }
    /* siblings that ended: the leaf is the innermost range around that is still open */
    while (c->leaf != GW_NONE && gw_ev(an, c->leaf)->end <= at)
        c->leaf = gw_ev(an, c->leaf)->up;
}

static int64_t cursor_next(const struct gw_analysis *an, const struct gw_cursor *c)
{
    int64_t n = c->next < c->lane->count ? gw_ev(an, c->lane->order[c->next])->start : INT64_MAX;
    if (c->leaf != GW_NONE && gw_ev(an, c->leaf)->end < n)
        n = gw_ev(an, c->leaf)->end;
    return n;
}

/* ---- labels ---- */

static int is_value_read(const struct gw_event *copy)
{
    return !(copy->flags & GW_EV_HAS_ARG0) || copy->arg0 < GW_VALUE_BYTES;
}

/* The copy a blocking copy call started, when the call did not return before it was done. A copy of some size from or to
 * pageable memory blocks by its nature: the call returns when the last piece has been staged, a few us before the copy
 * itself ends. */
static const struct gw_event *blocking_copy(const struct gw_analysis *an, const struct gw_event *call)
{
    if (call->link == GW_NONE)
        return NULL;
    const struct gw_event *op = gw_ev(an, call->link);
    enum gw_mem src = gw_copy_src(op->sub), dst = gw_copy_dst(op->sub);
    if (op->kind != GW_KIND_COPY || (!gw_mem_is_host(src) && !gw_mem_is_host(dst)))
        return NULL;
    int staged = (src == GW_MEM_PAGEABLE || dst == GW_MEM_PAGEABLE) && !is_value_read(op);
    if (staged ? call->end + GW_STAGING_NS < op->end : call->end < op->end || call->end - call->start < 5000)
        return NULL;
    return op;
}

static unsigned label_api(const struct gw_hl *h, const struct gw_event *e)
{
    switch ((enum gw_api)h->an->names[e->name].api) {
    case GW_API_SYNC_STREAM:
    case GW_API_SYNC_DEVICE:
    case GW_API_SYNC_EVENT: return GW_CAUSE_HOST_SYNC; /* may become BLOCKING_COPY: see note_block */
    case GW_API_ALLOC:
    case GW_API_FREE: return GW_CAUSE_ALLOCATOR;
    case GW_API_HOST_ALLOC: return GW_CAUSE_HOST_ALLOC;
    case GW_API_MODULE: return GW_CAUSE_MODULE_LOAD;
    case GW_API_GRAPH_BUILD: return GW_CAUSE_COMPILE;
    case GW_API_COPY:
    case GW_API_COPY_ASYNC: {
        const struct gw_event *op = blocking_copy(h->an, e);
        if (op)
            return is_value_read(op) ? GW_CAUSE_HOST_SYNC : GW_CAUSE_BLOCKING_COPY;
        break;
    }
    default: break;
    }
    int64_t d = e->end - e->start;
    if (d >= GW_QUEUE_FULL_MIN_NS && d >= GW_QUEUE_FULL_FACTOR * h->dev->launch_median)
        return GW_HOST_QUEUE_FULL;
    return GW_CAUSE_LAUNCH;
}

/* The operator's own code between a device allocation and its next call is the allocator's work on the new segment. */
static int after_alloc(const struct gw_hl *h, uint32_t leaf)
{
    const struct gw_event *e = gw_ev(h->an, leaf);
    if (e->kind != GW_KIND_OP)
        return 0;
    const struct gw_cursor *c = NULL;
    for (size_t i = 0; i < h->lanes && !c; i++)
        if (h->cur[i].leaf == leaf)
            c = h->cur + i;
    for (size_t k = c ? c->next : 0, tries = 0; k-- > 0 && tries < 4; tries++) {
        const struct gw_event *p = gw_ev(h->an, c->lane->order[k]);
        if (p->kind != GW_KIND_API)
            continue;
        enum gw_api api = (enum gw_api)h->an->names[p->name].api;
        return api == GW_API_ALLOC || api == GW_API_FREE;
    }
    return 0;
}

static unsigned label_of(const struct gw_hl *h, uint32_t leaf)
{
    if (leaf == GW_NONE)
        return LBL_VAGUE;
    const struct gw_event *e = gw_ev(h->an, leaf);
    uint32_t ctx = h->an->ctx[leaf];
    if (ctx & GW_CTX_LOADING)
        return GW_CAUSE_MAIN_LOADING;
    if (ctx & GW_CTX_LOADER)
        return GW_CAUSE_DATA_WAIT;
    if (ctx & GW_CTX_CHECKPOINT)
        return GW_CAUSE_CHECKPOINT;
    if (ctx & GW_CTX_COMPILE)
        return GW_CAUSE_COMPILE;
    if (e->kind == GW_KIND_API) {
        unsigned label = label_api(h, e);
        /* reading a value costs its dispatch as well as its wait */
        return (ctx & GW_CTX_SYNC_OP) && (label == GW_CAUSE_LAUNCH || label == GW_HOST_QUEUE_FULL) ? GW_CAUSE_HOST_SYNC : label;
    }
    if ((ctx & GW_CTX_SYNC_OP) && e->kind == GW_KIND_OP)
        return GW_CAUSE_HOST_SYNC;
    if (after_alloc(h, leaf))
        return GW_CAUSE_ALLOCATOR;
    if (e->kind == GW_KIND_OSRT)
        return LBL_VAGUE;
    if (ctx & GW_CTX_HOST_COMM)
        return GW_CAUSE_HOST_COMM;
    if (ctx & GW_CTX_SIM)
        return GW_CAUSE_SIMULATOR;
    if (ctx & GW_CTX_EVAL)
        return GW_CAUSE_EVALUATION;
    if (e->kind == GW_KIND_OP && e->end - e->start >= GW_SLOW_OP_MIN_NS && (ctx & GW_CTX_LAUNCHES))
        return GW_CAUSE_SLOW_OP; /* provisional: only a long stretch of it stays */
    if (ctx & (GW_CTX_OPTIMIZER | GW_CTX_BACKWARD | GW_CTX_MODULE))
        return GW_CAUSE_LAUNCH;
    for (uint32_t u = leaf; u != GW_NONE; u = gw_ev(h->an, u)->up) /* part of an operator that feeds the GPU? */
        if (gw_ev(h->an, u)->kind == GW_KIND_OP && (h->an->ctx[u] & GW_CTX_LAUNCHES))
            return GW_CAUSE_LAUNCH;
    return LBL_VAGUE;
}

/* ---- runs ---- */

static void push_run(struct gw_hl *h, int64_t a, int64_t b, unsigned label, uint32_t leaf)
{
    if (b <= a)
        return;
    struct gw_run *r = h->runs.len ? (struct gw_run *)h->runs.data + h->runs.len - 1 : NULL;
    /* Waiting calls stay apart from each other, because each has its own culprit; dispatch is one run. */
    int merge = r && r->label == label && r->end == a &&
                (label == GW_CAUSE_LAUNCH || label == GW_HOST_QUEUE_FULL || r->leaf == leaf);
    if (merge) {
        r->end = b;
        return;
    }
    r = gw_array_push(&h->runs);
    if (r)
        *r = (struct gw_run){.start = a, .end = b, .label = label, .leaf = leaf};
}

/* `read`: the call that reads a value and ends the stretch, of a recording without operators; its operator's own way
 * to the call belongs to the read. GW_NONE = none. */
static void flush_vague(struct gw_hl *h, uint32_t read)
{
    if (h->v_end > h->v_start) {
        int user = h->v_end - h->v_start >= GW_USER_CODE_MIN_NS;
        int64_t until = read == GW_NONE ? h->v_end : h->v_end - GW_READ_DISPATCH_NS;
        until = until > h->v_start ? until : h->v_start;
        push_run(h, h->v_start, until, user ? GW_CAUSE_USER_CODE : GW_CAUSE_LAUNCH, h->v_leaf);
        push_run(h, until, h->v_end, GW_CAUSE_HOST_SYNC, read);
    }
    h->v_start = h->v_end = h->v_best = 0;
    h->v_leaf = GW_NONE;
}

static void put(struct gw_hl *h, int64_t a, int64_t b, unsigned label, uint32_t leaf)
{
    if (label == GW_CAUSE_SLOW_OP && b - a < GW_SLOW_OP_MIN_NS)
        label = GW_CAUSE_LAUNCH;
    if (label != LBL_VAGUE) {
        int read = leaf != GW_NONE && gw_ev(h->an, leaf)->kind == GW_KIND_API && (h->an->ctx[leaf] & GW_CTX_BARE_READ);
        flush_vague(h, read ? leaf : GW_NONE);
        push_run(h, a, b, label, leaf);
        return;
    }
    if (h->v_end == h->v_start)
        h->v_start = a;
    h->v_end = b;
    if (b - a > h->v_best) {
        h->v_best = b - a;
        h->v_leaf = leaf;
    }
}

/* ---- synchronising calls ---- */

/* The last copy of this thread before a synchronising call: what the call waits for. */
static const struct gw_event *copy_before(const struct gw_analysis *an, uint32_t call, uint32_t *copy)
{
    const struct gw_event *e = gw_ev(an, call);
    const struct gw_lane *lane = gw_trace_lane(an->t, e->lane);
    size_t lo = gw_lane_at(an, lane, e->start);
    for (size_t k = lo, tries = 0; k-- > 0 && tries < 16;) {
        const struct gw_event *p = gw_ev(an, lane->order[k]);
        if (p->kind != GW_KIND_API)
            continue;
        tries++;
        enum gw_api api = (enum gw_api)an->names[p->name].api;
        if (api == GW_API_COPY_ASYNC || api == GW_API_COPY) {
            if (p->link == GW_NONE || gw_ev(an, p->link)->kind != GW_KIND_COPY)
                return NULL;
            *copy = p->link;
            return gw_ev(an, p->link);
        }
        if (api != GW_API_OTHER && api != GW_API_QUERY && api != GW_API_EVENT)
            return NULL;
    }
    return NULL;
}

/* Calls that wait, as against the dispatch around a read. */
static int blocks(const struct gw_analysis *an, uint32_t leaf)
{
    const struct gw_event *e = gw_ev(an, leaf);
    enum gw_api api = e->kind == GW_KIND_API ? (enum gw_api)an->names[e->name].api : GW_API_OTHER;
    return api == GW_API_SYNC_STREAM || api == GW_API_SYNC_DEVICE || api == GW_API_SYNC_EVENT ||
           ((api == GW_API_COPY || api == GW_API_COPY_ASYNC) && blocking_copy(an, e));
}

static void note_block(struct gw_hl *h, uint32_t call, unsigned kind)
{
    struct gw_block *last = h->blocks.len ? (struct gw_block *)h->blocks.data + h->blocks.len - 1 : NULL;
    if (last && last->call == call)
        return;
    struct gw_block *b = gw_array_push(&h->blocks);
    if (!b)
        return;
    const struct gw_event *e = gw_ev(h->an, call), *op = NULL;
    *b = (struct gw_block){.call = call, .kind = kind, .bytes = -1, .copy_op = GW_NONE};
    enum gw_api api = (enum gw_api)h->an->names[e->name].api;
    if (api == GW_API_COPY || api == GW_API_COPY_ASYNC) {
        op = e->link == GW_NONE ? NULL : gw_ev(h->an, e->link);
        b->copy_op = e->link;
    } else {
        op = copy_before(h->an, call, &b->copy_op);
        if (op && !is_value_read(op))
            b->kind = GW_CAUSE_BLOCKING_COPY;
    }
    if (op && op->kind == GW_KIND_COPY) {
        b->bytes = op->flags & GW_EV_HAS_ARG0 ? (int64_t)op->arg0 : -1;
        b->to_host = gw_mem_is_host(gw_copy_dst(op->sub));
    }
}

/* ---- the sweep ---- */

static int cmp_call(const void *a, const void *b, void *arg)
{
    const struct gw_event *ev = arg, *x = ev + *(const uint32_t *)a, *y = ev + *(const uint32_t *)b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

static int collect_calls(struct gw_hl *h)
{
    struct gw_dev *d = h->dev;
    h->calls = malloc((d->nops + 1) * sizeof *h->calls);
    if (!h->calls)
        return GW_ENOMEM;
    for (size_t i = 0; i < d->nops; i++) {
        uint32_t c = gw_ev(h->an, d->ops[i])->link;
        if (c != GW_NONE && gw_trace_lane(h->an->t, gw_ev(h->an, c)->lane)->pid == d->pid)
            h->calls[h->ncalls++] = c;
    }
    int sorted = 1;
    for (size_t i = 1; i < h->ncalls; i++)
        sorted &= gw_ev(h->an, h->calls[i - 1])->start <= gw_ev(h->an, h->calls[i])->start;
    if (!sorted)
        qsort_r(h->calls, h->ncalls, sizeof *h->calls, cmp_call, h->an->t->events.data);
    return GW_OK;
}

static size_t cursor_of(const struct gw_hl *h, uint32_t lane)
{
    const struct gw_lane *l = gw_trace_lane(h->an->t, lane);
    for (size_t i = 0; i < h->lanes; i++)
        if (h->cur[i].lane == l)
            return i;
    return 0;
}

static void collect_lanes(struct gw_hl *h)
{
    const struct gw_lane *lane = h->an->t->lanes.data;
    unsigned char *launches = calloc(h->an->t->lanes.len + 1, 1);
    for (size_t i = 0; launches && i < h->ncalls; i++)
        launches[gw_ev(h->an, h->calls[i])->lane] = 1;
    for (size_t l = 0; l < h->an->t->lanes.len; l++) {
        if (lane[l].type != GW_LANE_HOST)
            continue;
        const struct gw_event *e = lane[l].count ? gw_ev(h->an, lane[l].order[0]) : NULL;
        if (e && e->kind == GW_KIND_OVERHEAD && lane[l].pid < 0)
            h->overhead = lane + l;
        else if (launches && launches[l] && h->lanes < GW_LANES_MAX)
            h->cur[h->lanes++] = (struct gw_cursor){.lane = lane + l, .leaf = GW_NONE};
    }
    free(launches);
}

/* The profiler's own work at `at`: until when, or `at` itself when there is none. A full command buffer is the GPU's
 * doing, not the profiler's. */
static int64_t overhead_at(struct gw_hl *h, int64_t at)
{
    while (h->overhead && h->overhead_next < h->overhead->count) {
        const struct gw_event *e = gw_ev(h->an, h->overhead->order[h->overhead_next]);
        if (e->start > at)
            break;
        h->overhead_next++;
        const char *s = gw_trace_text(h->an->t, e->name);
        int profiler = strstr(s, "Buffer Flush") || strstr(s, "Buffer Request") || strstr(s, "Instrumentation") ||
                       strstr(s, "CUPTI") || strstr(s, "Resource");
        if (profiler && e->end > h->overhead_until)
            h->overhead_until = e->end;
    }
    return h->overhead_until > at ? h->overhead_until : at;
}

static int64_t overhead_next(const struct gw_hl *h)
{
    return h->overhead && h->overhead_next < h->overhead->count
               ? gw_ev(h->an, h->overhead->order[h->overhead_next])->start
               : INT64_MAX;
}

static void sweep(struct gw_hl *h, int64_t w0, int64_t w1)
{
    size_t call = 0;
    int64_t now = w0;
    while (now < w1) {
        while (call < h->ncalls && gw_ev(h->an, h->calls[call])->start <= now)
            call++;
        size_t main = call < h->ncalls ? cursor_of(h, gw_ev(h->an, h->calls[call])->lane)
                      : h->ncalls ? cursor_of(h, gw_ev(h->an, h->calls[h->ncalls - 1])->lane)
                                  : 0;
        int64_t next = call < h->ncalls ? gw_ev(h->an, h->calls[call])->start : w1;
        for (size_t i = 0; i < h->lanes; i++) {
            cursor_to(h->an, h->cur + i, now);
            int64_t n = cursor_next(h->an, h->cur + i);
            if (n > now && n < next)
                next = n;
        }
        int64_t over_until = overhead_at(h, now), on = overhead_next(h);
        int over = over_until > now;
        if (over && over_until < next)
            next = over_until;
        if (on > now && on < next)
            next = on;
        if (next > w1)
            next = w1;
        uint32_t leaf = h->lanes ? h->cur[main].leaf : GW_NONE;
        unsigned label = label_of(h, leaf);
        for (size_t i = 0; label == LBL_VAGUE && i < h->lanes; i++) {
            unsigned other = i == main ? LBL_VAGUE : label_of(h, h->cur[i].leaf);
            if (other != LBL_VAGUE) {
                label = other;
                leaf = h->cur[i].leaf;
            }
        }
        if ((label == GW_CAUSE_HOST_SYNC || label == GW_CAUSE_BLOCKING_COPY) && blocks(h->an, leaf)) {
            note_block(h, leaf, label);
            const struct gw_block *b = (const struct gw_block *)h->blocks.data + h->blocks.len - 1;
            if (h->blocks.len && b->call == leaf)
                label = b->kind;
        }
        put(h, now, next, over ? GW_CAUSE_PROFILER : label, leaf);
        now = next;
    }
    flush_vague(h, GW_NONE);
}

static int64_t median_launch(const struct gw_hl *h)
{
    enum { BINS = 400 };
    uint32_t bin[BINS] = {0};
    size_t n = 0;
    for (size_t i = 0; i < h->ncalls; i++) {
        const struct gw_event *e = gw_ev(h->an, h->calls[i]);
        if (h->an->names[e->name].api != GW_API_LAUNCH)
            continue;
        int64_t us4 = (e->end - e->start) / 250; /* bins of 0.25 us up to 100 us */
        bin[us4 < BINS ? us4 : BINS - 1]++;
        n++;
    }
    size_t seen = 0;
    for (int i = 0; i < BINS && n; i++) {
        seen += bin[i];
        if (seen * 2 >= n)
            return (int64_t)i * 250 + 125;
    }
    return 5000;
}

/* ---- values that are read, in recordings without operators ---- */

static int under_operator(const struct gw_analysis *an, uint32_t call)
{
    for (uint32_t u = gw_ev(an, call)->up; u != GW_NONE; u = gw_ev(an, u)->up)
        if (gw_ev(an, u)->kind == GW_KIND_OP)
            return 1;
    return 0;
}

/* Where in the lane's order the call is that waits for the copy which `lane->order[at]` started: the next one of the thread
 * that does anything. GW_NONE = there is none. */
static uint32_t waits_for(const struct gw_analysis *an, const struct gw_lane *lane, size_t at)
{
    for (size_t k = at + 1, tries = 0; k < lane->count && tries < 4; k++) {
        const struct gw_event *e = gw_ev(an, lane->order[k]);
        if (e->kind != GW_KIND_API || e->start < gw_ev(an, lane->order[at])->end) /* a driver call inside the copy's */
            continue;
        tries++;
        switch ((enum gw_api)an->names[e->name].api) {
        case GW_API_SYNC_STREAM:
        case GW_API_SYNC_DEVICE:
        case GW_API_SYNC_EVENT: return (uint32_t)k;
        case GW_API_OTHER:
        case GW_API_QUERY:
        case GW_API_EVENT: break;
        default: return GW_NONE;
        }
    }
    return GW_NONE;
}

/* `.item()` and its kin are a few bytes brought to the host and a wait for them. Where operators were recorded they name
 * it; else the calls themselves get the context of reading a value. */
static void mark_reads(struct gw_analysis *an, const struct gw_lane *lane)
{
    uint32_t *ctx = (uint32_t *)(uintptr_t)an->ctx;
    for (size_t i = 0; i < lane->count; i++) {
        uint32_t c = lane->order[i];
        const struct gw_event *e = gw_ev(an, c);
        enum gw_api api = e->kind == GW_KIND_API ? (enum gw_api)an->names[e->name].api : GW_API_OTHER;
        if ((api != GW_API_COPY && api != GW_API_COPY_ASYNC) || e->link == GW_NONE)
            continue;
        const struct gw_event *op = gw_ev(an, e->link);
        if (op->kind != GW_KIND_COPY || !gw_mem_is_host(gw_copy_dst(op->sub)) || !is_value_read(op) || under_operator(an, c))
            continue;
        uint32_t wait = blocking_copy(an, e) ? (uint32_t)i : waits_for(an, lane, i);
        if (wait == GW_NONE || under_operator(an, lane->order[wait]))
            continue;
        int64_t end = gw_ev(an, lane->order[wait])->end;
        for (size_t k = wait; k < lane->count && gw_ev(an, lane->order[k])->start < end; k++) /* and driver calls inside it */
            ctx[lane->order[k]] |= GW_CTX_SYNC_OP;
        ctx[c] |= GW_CTX_SYNC_OP | GW_CTX_BARE_READ;
    }
}

/* ---- values computed only to be read ---- */

static int small_reduction(const struct gw_analysis *an, uint32_t call)
{
    const struct gw_event *op = gw_ev(an, call)->link == GW_NONE ? NULL : gw_ev(an, gw_ev(an, call)->link);
    if (!op || op->kind == GW_KIND_SET)
        return op != NULL;
    return op->kind == GW_KIND_KERNEL && an->names[op->name].kclass == GW_K_REDUCE && op->end - op->start < 20000;
}

/* The same without operators: the last launches before the read, as far as they are small reductions. */
static void bare_feeds(const struct gw_analysis *an, const struct gw_lane *lane, size_t before)
{
    uint32_t *ctx = (uint32_t *)(uintptr_t)an->ctx;
    for (size_t k = before, launches = 0; k-- > 0 && launches < 4;) { /* two passes of a norm, each with its memset */
        uint32_t c = lane->order[k];
        if (gw_ev(an, c)->kind != GW_KIND_API || gw_ev(an, c)->link == GW_NONE || (ctx[c] & GW_CTX_BARE_READ))
            continue;
        if (!small_reduction(an, c))
            return;
        ctx[c] |= GW_CTX_FEEDS_READ;
        launches++;
    }
}

/* The operator right before a read, when all it does is a small reduction (norm, max, sum): logging, most likely, goes
 * away with the read. */
static void mark_feeds(struct gw_analysis *an, const struct gw_block *b)
{
    uint32_t *ctx = (uint32_t *)(uintptr_t)an->ctx;
    uint32_t top = b->call;
    while (gw_ev(an, top)->up != GW_NONE && gw_ev(an, gw_ev(an, top)->up)->kind == GW_KIND_OP)
        top = gw_ev(an, top)->up;
    const struct gw_lane *lane = gw_trace_lane(an->t, gw_ev(an, top)->lane);
    size_t lo = gw_lane_at(an, lane, gw_ev(an, top)->start);
    uint32_t op = GW_NONE; /* outermost operator that ended last before the read */
    for (size_t k = lo, tries = 0; k-- > 0 && tries < 64; tries++) {
        const struct gw_event *e = gw_ev(an, lane->order[k]);
        if (e->kind != GW_KIND_OP || e->end > gw_ev(an, top)->start)
            continue;
        if (op != GW_NONE && e->end < gw_ev(an, op)->start)
            break;
        op = lane->order[k];
    }
    if (op == GW_NONE) {
        bare_feeds(an, lane, lo);
        return;
    }
    if (!(ctx[op] & GW_CTX_LAUNCHES))
        return;
    for (int pass = 0; pass < 2; pass++)
        for (size_t k = lo; k-- > 0 && gw_ev(an, lane->order[k])->start >= gw_ev(an, op)->start;) {
            uint32_t c = lane->order[k];
            if (gw_ev(an, c)->kind != GW_KIND_API || gw_ev(an, c)->link == GW_NONE || gw_ev(an, c)->end > gw_ev(an, op)->end)
                continue;
            if (pass == 0 && !small_reduction(an, c))
                return;
            if (pass == 1)
                ctx[c] |= GW_CTX_FEEDS_READ;
        }
}

int gw_host_line(struct gw_analysis *an, struct gw_dev *dev)
{
    struct gw_hl h = {.an = an, .dev = dev, .v_leaf = GW_NONE, .overhead_until = INT64_MIN};
    gw_array_init(&h.runs, sizeof(struct gw_run), 0);
    gw_array_init(&h.blocks, sizeof(struct gw_block), 0);
    int rc = collect_calls(&h);
    if (rc < 0)
        goto out;
    collect_lanes(&h);
    dev->launch_median = median_launch(&h);
    for (size_t i = 0; i < h.lanes; i++)
        mark_reads(an, h.cur[i].lane);
    int64_t w0 = dev->whole.start, w1 = dev->whole.end;
    if (h.ncalls && gw_ev(an, h.calls[0])->start < w0)
        w0 = gw_ev(an, h.calls[0])->start;
    if (h.lanes)
        sweep(&h, w0, w1);
    rc = GW_ENOMEM;
    struct gw_run *runs = gw_arena_calloc(an->arena, h.runs.len, sizeof *runs);
    struct gw_block *blocks = gw_arena_calloc(an->arena, h.blocks.len, sizeof *blocks);
    if (!runs || !blocks)
        goto out;
    if (h.runs.len)
        memcpy(runs, h.runs.data, h.runs.len * sizeof *runs);
    if (h.blocks.len)
        memcpy(blocks, h.blocks.data, h.blocks.len * sizeof *blocks);
    dev->runs = runs;
    dev->nruns = h.runs.len;
    dev->blocks = blocks;
    dev->nblocks = h.blocks.len;
    for (size_t i = 0; i < h.blocks.len; i++)
        if (blocks[i].kind == GW_CAUSE_HOST_SYNC && (an->ctx[blocks[i].call] & GW_CTX_SYNC_OP))
            mark_feeds(an, blocks + i);
    rc = GW_OK;
out:
    free(h.calls);
    gw_array_free(&h.runs);
    gw_array_free(&h.blocks);
    return rc;
}
