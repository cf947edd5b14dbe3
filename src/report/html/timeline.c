/* From a recording to spans that can be drawn: lanes, resolution, windows in full. timeline.h says what is kept. */
#include "report/html/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "report/export.h"

/* Spans that a page holds, by sort of lane. A span takes about 14 bytes of the page, an idle span with what it waited
 * for about 40, so that all of them together stay below 700 KB. */
enum { STREAM_SPANS = 14000, IDLE_SPANS = 5000, HOST_SPANS = 5000, RANGE_SPANS = 5000, SIDE_SPANS = 1500 };
enum { STREAMS_SHOWN = 12, DEVICES_SHOWN = 16, RANGE_DEPTHS = 3 };
enum { NAME_MAX_BYTES = 160, NAMES_MAX_BYTES = 200000 };

/* ---- names ---- */

uint32_t gw_tl_name(struct gw_tl_build *b, uint32_t id, int kernel)
{
    if (b->name_of[id])
        return b->name_of[id] - 1;
    const char *s = gw_trace_text(b->an->t, id);
    if (kernel)
        s = gw_names_short_kernel(s, b->arena);
    size_t n = s ? strlen(s) : 0;
    if (n > NAME_MAX_BYTES)
        for (n = NAME_MAX_BYTES; n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80; n--)
            ;
    if (b->name_bytes + n > NAMES_MAX_BYTES) { /* the last one that fits says so */
        if (b->tl->names_left++)
            return (uint32_t)b->names.len - 1;
        s = "...";
        n = 3;
    }
    b->name_bytes += n;
    const char *copy = gw_arena_strndup(b->arena, s ? s : "", n);
    const char **slot = gw_array_push(&b->names);
    if (!slot || !copy) {
        b->oom = 1;
        return 0;
    }
    *slot = copy;
    if (!b->tl->names_left)
        b->name_of[id] = (uint32_t)b->names.len;
    return (uint32_t)b->names.len - 1;
}

/* ---- merging ---- */

struct lod {
    struct gw_tl_build *b;
    int64_t resolution;
    int windows;           /* of those that are kept in full: how many are here */
    size_t count;          /* spans that came out */
    uint64_t all;          /* spans that went in */
    struct gw_array *out;  /* NULL: only count */
    struct gw_tl_span now; /* names are those of the trace until they come out */
    int stream;            /* 1 = spans are GPU operations */
    int open;
    int64_t vote; /* ns by which now.name leads (the majority vote of Boyer and Moore) */
};

static int in_focus(const struct lod *l, int64_t at)
{
    const struct gw_timeline *tl = l->b->tl;
    for (int i = 0; i < l->windows; i++)
        if (tl->focus[i][1] && at >= tl->focus[i][0] && at < tl->focus[i][1])
            return 1;
    return 0;
}

static void emit(struct lod *l, const struct gw_tl_span *s)
{
    l->count++;
    if (!l->out)
        return;
    struct gw_tl_span *slot = gw_array_push(l->out);
    if (!slot) {
        l->b->oom = 1;
        return;
    }
    *slot = *s;
    if (s->name != GW_NONE) /* only names that come out get into the table */
        slot->name = gw_tl_name(l->b, s->name, l->stream && (s->kind == GW_TL_COMPUTE || s->kind == GW_TL_COMM));
}

static void flush(struct lod *l)
{
    if (l->open)
        emit(l, &l->now);
    l->open = 0;
}

static void merge(struct lod *l, const struct gw_tl_span *s)
{
    int64_t ns = s->end - s->start, covered = s->end - (s->start > l->now.end ? s->start : l->now.end);
    l->now.busy += covered > 0 ? covered : 0;
    l->now.end = s->end > l->now.end ? s->end : l->now.end;
    l->now.count++;
    l->now.detail = GW_NONE;
    if (s->name == l->now.name && s->kind == l->now.kind) {
        l->vote += ns;
    } else if (ns > l->vote) {
        l->now.name = s->name;
        l->now.kind = s->kind;
        l->vote = ns - l->vote;
    } else {
        l->vote -= ns;
    }
}

/* Takes the spans of a lane in order of start. Merged ones are at most one resolution long, plus their last part. */
static void take(struct lod *l, const struct gw_tl_span *span)
{
    struct gw_tl_span clipped = *span, *s = &clipped;
    if (s->end <= 0 || s->start >= l->b->tl->length)
        return; /* of the host, before or after the GPU's work */
    if (s->start < 0) {
        s->busy += s->start;
        s->start = 0;
    }
    l->all++;
    if (l->resolution == 0 || s->end - s->start >= l->resolution || in_focus(l, s->start)) {
        flush(l);
        emit(l, s);
        return;
    }
    if (l->open && s->start - l->now.start < l->resolution && s->start - l->now.end < l->resolution) {
        merge(l, s);
        return;
    }
    flush(l);
    l->now = *s;
    l->vote = s->end - s->start;
    l->open = 1;
}

typedef void walker(struct lod *l, const struct gw_tl_lane *lane);

static size_t count(struct gw_tl_build *b, walker *walk, const struct gw_tl_lane *lanes, size_t n, int64_t resolution,
                    int windows)
{
    struct lod l = {.b = b, .resolution = resolution, .windows = windows};
    for (size_t i = 0; i < n; i++) {
        walk(&l, lanes + i);
        flush(&l);
    }
    return l.count;
}

/* The finest resolution at which `n` lanes together have at most `budget` spans. Windows in full may take half of it.
 */
static int64_t fit(struct gw_tl_build *b, walker *walk, const struct gw_tl_lane *lanes, size_t n, size_t budget,
                   int *windows)
{
    int64_t resolution = 0;
    *windows = 2;
    if (count(b, walk, lanes, n, 0, 0) <= budget)
        return 0;
    while (*windows > 0 && count(b, walk, lanes, n, INT64_MAX, *windows) > budget / 2)
        --*windows;
    do
        resolution = resolution ? resolution * 2 : b->tl->length / 100000 + 1;
    while (resolution <= b->tl->length && count(b, walk, lanes, n, resolution, *windows) > budget);
    return resolution;
}

static void fill(struct gw_tl_build *b, walker *walk, struct gw_tl_lane *lanes, size_t n, size_t budget)
{
    int windows;
    int64_t resolution = fit(b, walk, lanes, n, budget, &windows);
    for (size_t i = 0; i < n && !b->oom; i++) {
        struct gw_array spans;
        gw_array_init(&spans, sizeof(struct gw_tl_span), 0);
        struct lod l = {.b = b, .resolution = resolution, .windows = windows, .out = &spans};
        walk(&l, lanes + i);
        flush(&l);
        struct gw_tl_span *keep = gw_arena_calloc(b->arena, spans.len, sizeof *keep);
        struct gw_tl_lane *lane = gw_array_push(&b->lanes);
        if (lane && (keep || !spans.len)) {
            if (spans.len)
                memcpy(keep, spans.data, spans.len * sizeof *keep);
            *lane = lanes[i];
            lane->spans = keep;
            lane->count = spans.len;
            lane->all = l.all;
            lane->resolution = resolution;
        } else {
            b->oom = 1;
        }
        gw_array_free(&spans);
    }
}

/* ---- lanes ---- */

static const struct gw_dev *device_of(const struct gw_analysis *an, int64_t id)
{
    for (size_t i = 0; i < an->ndev; i++)
        if (an->dev[i].info->id == id)
            return an->dev + i;
    return NULL;
}

static uint32_t detail_of(struct gw_tl_build *b, const struct gw_gap *g, const struct gw_piece *p)
{
    const struct gw_analysis *an = b->an;
    struct gw_tl_detail d = {GW_NONE, GW_NONE, GW_NONE, GW_NONE, -1, -1, -1};
    struct gw_tl_detail *slot = gw_array_push(&b->details);
    if (!slot) {
        b->oom = 1;
        return GW_NONE;
    }
    if (p->culprit != GW_NONE) {
        const struct gw_event *e = gw_ev(an, p->culprit);
        uint32_t range = GW_NONE;
        for (uint32_t u = e->up; u != GW_NONE; u = gw_ev(an, u)->up)
            if (!(gw_ev_info(an, u)->ctx & GW_CTX_STEP) && gw_ev(an, u)->kind != GW_KIND_PYFUNC)
                range = u;
        if (!(an->names[e->name].ctx & GW_CTX_STEP)) { /* "inside step 4" is no answer */
            d.culprit = gw_tl_name(b, e->name, 0);
            d.culprit_start = e->start - b->tl->zero;
            d.culprit_end = e->end - b->tl->zero;
        }
        d.under = range == GW_NONE ? GW_NONE : gw_tl_name(b, gw_ev(an, range)->name, 0);
    }
    if (g->next_op != GW_NONE)
        d.next = gw_tl_name(b, gw_ev(an, g->next_op)->name, gw_ev(an, g->next_op)->kind == GW_KIND_KERNEL);
    if (g->call != GW_NONE) {
        d.call = gw_tl_name(b, gw_ev(an, g->call)->name, 0);
        d.call_start = gw_ev(an, g->call)->start - b->tl->zero;
    }
    *slot = d;
    return (uint32_t)b->details.len - 1;
}

static void walk_idle(struct lod *l, const struct gw_tl_lane *lane)
{
    const struct gw_dev *d = device_of(l->b->an, lane->device);
    int64_t zero = l->b->tl->zero;
    for (size_t g = 0; g < d->ngaps; g++) {
        int64_t at = d->gaps[g].start - zero;
        for (uint32_t k = 0; k < d->gaps[g].pieces; k++) {
            const struct gw_piece *p = d->pieces + d->gaps[g].first_piece + k;
            struct gw_tl_span s = {at, at + p->ns, p->ns, GW_NONE, p->cause, 1, GW_NONE};
            int alone =
                l->out && lane->stream == 0 && (l->resolution == 0 || p->ns >= l->resolution || in_focus(l, at));
            if (alone)
                s.detail = detail_of(l->b, d->gaps + g, p);
            take(l, &s);
            at += p->ns;
        }
    }
}

static unsigned class_of(const struct gw_tl_build *b, const struct gw_event *e)
{
    switch (e->kind) {
    case GW_KIND_COPY: return GW_TL_COPY;
    case GW_KIND_SET: return GW_TL_SET;
    case GW_KIND_GRAPH: return GW_TL_GRAPH;
    default: return b->an->names[e->name].kclass == GW_K_COMM ? GW_TL_COMM : GW_TL_COMPUTE;
    }
}

static void take_op(struct lod *l, const struct gw_event *e)
{
    int64_t start = e->start - l->b->tl->zero, end = e->end - l->b->tl->zero;
    struct gw_tl_span s = {start, end, end - start, e->name, class_of(l->b, e), 1, GW_NONE};
    l->stream = 1;
    take(l, &s);
}

static const struct gw_lane *stream_lane(const struct gw_tl_build *b, const struct gw_tl_lane *lane)
{
    const struct gw_lane *all = b->an->t->lanes.data;
    for (size_t i = 0; i < b->an->t->lanes.len; i++)
        if (all[i].type == GW_LANE_GPU && all[i].device == lane->device && all[i].stream == lane->stream)
            return all + i;
    return NULL;
}

static void walk_stream(struct lod *l, const struct gw_tl_lane *lane)
{
    const struct gw_analysis *an = l->b->an;
    if (lane->type == GW_TL_STREAM) {
        const struct gw_lane *s = stream_lane(l->b, lane);
        for (size_t i = 0; s && i < s->count; i++) {
            const struct gw_event *e = gw_ev(an, s->order[i]);
            if (gw_kind_is_gpu(e->kind) && !(e->flags & GW_EV_DROPPED))
                take_op(l, e);
        }
        return;
    }
    const struct gw_dev *d = device_of(an, lane->device);
    const struct gw_tl_lane *shown = lane - STREAMS_SHOWN; /* the streams that have a lane stand before this one */
    for (size_t i = 0; i < d->nops; i++) {
        const struct gw_event *e = gw_ev(an, d->ops[i]);
        int64_t stream = gw_trace_lane(an->t, e->lane)->stream;
        int has = 0;
        for (int k = 0; k < STREAMS_SHOWN && !has; k++)
            has = shown[k].stream == stream;
        if (!has)
            take_op(l, e);
    }
}

/* All operations of a device that is not the main one. */
static void walk_device(struct lod *l, const struct gw_tl_lane *lane)
{
    const struct gw_dev *d = device_of(l->b->an, lane->device);
    for (size_t i = 0; i < d->nops; i++)
        take_op(l, gw_ev(l->b->an, d->ops[i]));
}

static void walk_host(struct lod *l, const struct gw_tl_lane *lane)
{
    const struct gw_dev *d = device_of(l->b->an, lane->device);
    int64_t zero = l->b->tl->zero;
    for (size_t i = 0; i < d->nruns; i++) {
        const struct gw_run *r = d->runs + i;
        struct gw_tl_span s = {r->start - zero, r->end - zero, r->end - r->start, GW_NONE, r->label, 1, GW_NONE};
        if (r->leaf != GW_NONE)
            s.name = gw_ev(l->b->an, r->leaf)->name;
        take(l, &s);
    }
}

static int is_range(const struct gw_analysis *an, const struct gw_event *e)
{
    return (e->kind == GW_KIND_OP || e->kind == GW_KIND_ANNOT) && !(e->flags & GW_EV_DROPPED) &&
           !(an->names[e->name].ctx & GW_CTX_STEP);
}

/* Depth of each range of the launching thread among operators and annotations: Python frames and marks of steps are not
 * counted. Once for all, because stacks may be deep; a parent stands before what is in it. */
static void depths(struct gw_tl_build *b)
{
    const struct gw_analysis *an = b->an;
    const struct gw_lane *host = gw_trace_lane(an->t, an->dev[an->main].main_lane);
    b->depth = gw_arena_calloc(b->arena, gw_trace_count(an->t), 1);
    b->oom |= !b->depth;
    for (size_t i = 0; b->depth && i < host->count; i++) {
        uint32_t up = gw_ev(an, host->order[i])->up;
        if (up == GW_NONE)
            continue;
        unsigned d = b->depth[up] + (unsigned)is_range(an, gw_ev(an, up));
        b->depth[host->order[i]] = (unsigned char)(d < RANGE_DEPTHS ? d : RANGE_DEPTHS);
    }
}

static void walk_range(struct lod *l, const struct gw_tl_lane *lane)
{
    const struct gw_analysis *an = l->b->an;
    const struct gw_lane *host = gw_trace_lane(an->t, an->dev[an->main].main_lane);
    int64_t zero = l->b->tl->zero;
    for (size_t i = 0; i < host->count; i++) {
        const struct gw_event *e = gw_ev(an, host->order[i]);
        if (!is_range(an, e) || l->b->depth[host->order[i]] != lane->stream)
            continue;
        struct gw_tl_span s = {e->start - zero, e->end - zero, e->end - e->start, e->name, 0, 1, GW_NONE};
        take(l, &s);
    }
}

/* ---- which lanes ---- */

struct stream {
    int64_t stream;
    uint32_t name;
    size_t count;
};

static int busiest(const void *a, const void *b)
{
    const struct stream *x = a, *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return (x->stream > y->stream) - (x->stream < y->stream);
}

static int by_number(const void *a, const void *b)
{
    const struct stream *x = a, *y = b;
    return (x->stream > y->stream) - (x->stream < y->stream);
}

static void streams(struct gw_tl_build *b, const struct gw_dev *d)
{
    const struct gw_lane *all = b->an->t->lanes.data;
    size_t n = 0, total = b->an->t->lanes.len;
    struct stream *s = gw_arena_calloc(b->arena, total + 1, sizeof *s);
    struct gw_tl_lane lanes[STREAMS_SHOWN + 1];
    if (!s) {
        b->oom = 1;
        return;
    }
    for (size_t i = 0; i < total; i++)
        if (all[i].type == GW_LANE_GPU && all[i].device == d->info->id && all[i].count)
            s[n++] = (struct stream){all[i].stream, all[i].name, all[i].count};
    qsort(s, n, sizeof *s, busiest);
    size_t shown = n > STREAMS_SHOWN ? STREAMS_SHOWN : n;
    qsort(s, shown, sizeof *s, by_number);
    memset(lanes, 0, sizeof lanes);
    for (size_t i = 0; i < shown; i++) {
        const char *name = gw_arena_strdup(b->arena, s[i].name ? gw_trace_text(b->an->t, s[i].name) : "");
        lanes[i] = (struct gw_tl_lane){
            .type = GW_TL_STREAM, .device = d->info->id, .stream = s[i].stream, .name = name ? name : ""};
    }
    if (n > shown)
        lanes[shown++] = (struct gw_tl_lane){
            .type = GW_TL_OTHER_STREAMS, .device = d->info->id, .stream = (int64_t)(n - STREAMS_SHOWN), .name = ""};
    fill(b, walk_stream, lanes, shown, STREAM_SPANS);
}

static void main_device(struct gw_tl_build *b)
{
    const struct gw_dev *d = b->an->dev + b->an->main;
    struct gw_tl_lane idle = {.type = GW_TL_IDLE, .device = d->info->id, .stream = 0, .name = ""};
    struct gw_tl_lane host = {.type = GW_TL_HOST, .device = d->info->id, .stream = -1, .name = ""};
    struct gw_tl_lane ranges[RANGE_DEPTHS];
    fill(b, walk_idle, &idle, 1, IDLE_SPANS);
    streams(b, d);
    if (d->nruns)
        fill(b, walk_host, &host, 1, HOST_SPANS);
    if (d->main_lane == GW_NONE || !b->an->ranges)
        return;
    for (int i = 0; i < RANGE_DEPTHS; i++)
        ranges[i] = (struct gw_tl_lane){.type = GW_TL_RANGE, .device = -1, .stream = i, .name = ""};
    size_t before = b->lanes.len;
    depths(b);
    if (b->oom)
        return;
    fill(b, walk_range, ranges, RANGE_DEPTHS, RANGE_SPANS);
    while (!b->oom && b->lanes.len > before && !((struct gw_tl_lane *)b->lanes.data)[b->lanes.len - 1].count)
        b->lanes.len--; /* depths that nothing reaches */
}

static void other_devices(struct gw_tl_build *b)
{
    size_t shown = 0;
    for (size_t i = 0; i < b->an->ndev && shown < DEVICES_SHOWN; i++) {
        const struct gw_dev *d = b->an->dev + i;
        if (i == b->an->main)
            continue;
        struct gw_tl_lane idle = {.type = GW_TL_IDLE, .device = d->info->id, .stream = 1, .name = ""};
        struct gw_tl_lane busy = {.type = GW_TL_OTHER_STREAMS, .device = d->info->id, .stream = -1, .name = ""};
        fill(b, walk_idle, &idle, 1, SIDE_SPANS / 2);
        fill(b, walk_device, &busy, 1, SIDE_SPANS);
        shown++;
    }
}

/* ---- windows in full ---- */

static size_t ops_before(const struct gw_analysis *an, const struct gw_dev *d, int64_t at)
{
    size_t lo = 0, hi = d->nops;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (gw_ev(an, d->ops[mid])->start < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void focus(struct gw_tl_build *b)
{
    const struct gw_steps *s = &b->an->steps;
    const struct gw_dev *d = b->an->dev + b->an->main;
    size_t typical = s->steady_first, slowest = s->steady_first;
    if (s->steady_last <= s->steady_first || s->steady_last > s->count)
        return;
    for (size_t i = s->steady_first; i < s->steady_last; i++) {
        int64_t ns = s->bound[i + 1] - s->bound[i];
        if (llabs(ns - b->an->median_step) < llabs(s->bound[typical + 1] - s->bound[typical] - b->an->median_step))
            typical = i;
        if (ns > s->bound[slowest + 1] - s->bound[slowest])
            slowest = i;
    }
    const size_t steps[2] = {typical, slowest};
    for (int i = 0; i < (slowest == typical ? 1 : 2); i++) {
        int64_t from = s->bound[steps[i]], to = s->bound[steps[i] + 1];
        if (ops_before(b->an, d, to) - ops_before(b->an, d, from) > STREAM_SPANS / 4)
            continue; /* a step too large to be kept in full */
        b->tl->focus[i][0] = from - b->tl->zero;
        b->tl->focus[i][1] = to - b->tl->zero;
    }
}

/* ---- all of it ---- */

static void window(struct gw_tl_build *b)
{
    const struct gw_analysis *an = b->an;
    struct gw_timeline *tl = b->tl;
    int64_t from = INT64_MAX, to = INT64_MIN;
    for (size_t i = 0; i < an->ndev; i++)
        if (an->dev[i].whole.wall > 0) {
            from = an->dev[i].whole.start < from ? an->dev[i].whole.start : from;
            to = an->dev[i].whole.end > to ? an->dev[i].whole.end : to;
        }
    tl->zero = from < to ? from : 0;
    tl->length = from < to ? to - from : 1;
    for (size_t i = 0; i < gw_trace_count(an->t); i++) {
        const struct gw_event *e = gw_ev(an, (uint32_t)i);
        tl->events += !(e->flags & GW_EV_DROPPED) && (gw_kind_is_gpu(e->kind) || gw_kind_is_host(e->kind));
    }
    tl->steady_start = an->w0 - tl->zero;
    tl->steady_end = an->w1 - tl->zero;
    tl->main_device = an->main;
    if (!an->steps.count)
        return;
    int64_t *bound = gw_arena_calloc(b->arena, an->steps.count + 1, sizeof *bound);
    if (!bound) {
        b->oom = 1;
        return;
    }
    for (size_t i = 0; i <= an->steps.count; i++)
        bound[i] = an->steps.bound[i] - tl->zero;
    tl->steps = bound;
    tl->step_count = an->steps.count;
}

static int longest(const void *a, const void *b, void *spans)
{
    const struct gw_tl_span *all = spans, *x = all + *(const uint32_t *)a, *y = all + *(const uint32_t *)b;
    if (x->end - x->start != y->end - y->start)
        return x->end - x->start > y->end - y->start ? -1 : 1;
    return (x->start > y->start) - (x->start < y->start);
}

static void gaps(struct gw_tl_build *b)
{
    const struct gw_tl_lane *idle = b->lanes.data;
    uint32_t *list = gw_arena_calloc(b->arena, idle->count + 1, sizeof *list);
    size_t n = 0;
    if (!list) {
        b->oom = 1;
        return;
    }
    for (size_t i = 0; i < idle->count; i++) {
        const struct gw_tl_span *s = idle->spans + i;
        int steady =
            b->tl->steady_end <= b->tl->steady_start || (s->end > b->tl->steady_start && s->start < b->tl->steady_end);
        if (s->count == 1 && steady)
            list[n++] = (uint32_t)i;
    }
    qsort_r(list, n, sizeof *list, longest, (void *)idle->spans);
    b->tl->gaps = list;
    b->tl->gap_count = n < GW_TL_GAPS ? n : GW_TL_GAPS;
}

static void *keep(struct gw_tl_build *b, const struct gw_array *a)
{
    void *p = gw_arena_calloc(b->arena, a->len, a->size);
    if (p && a->len)
        memcpy(p, a->data, a->len * a->size);
    b->oom |= !p && a->len;
    return p;
}

struct gw_timeline *gw_timeline_make(const struct gw_analysis *an, struct gw_arena *arena)
{
    struct gw_tl_build b = {.an = an, .arena = arena, .tl = gw_arena_alloc(arena, sizeof *b.tl)};
    if (!b.tl || an->main >= an->ndev)
        return b.tl; /* no GPU work: nothing to draw */
    gw_array_init(&b.names, sizeof(char *), 0);
    gw_array_init(&b.lanes, sizeof(struct gw_tl_lane), 0);
    gw_array_init(&b.details, sizeof(struct gw_tl_detail), 0);
    b.name_of = gw_arena_calloc(arena, gw_intern_count(an->t->names) + 1, sizeof *b.name_of);
    b.oom = !b.name_of;
    if (!b.oom) {
        window(&b);
        focus(&b);
        main_device(&b);
        other_devices(&b);
    }
    if (!b.oom) {
        gaps(&b);
        b.oom |= gw_tl_series_make(&b) < 0 || gw_tl_places_make(&b) < 0;
    }
    b.tl->names = keep(&b, &b.names);
    b.tl->name_count = b.names.len;
    b.tl->lanes = keep(&b, &b.lanes);
    b.tl->lane_count = b.lanes.len;
    b.tl->details = keep(&b, &b.details);
    gw_array_free(&b.names);
    gw_array_free(&b.lanes);
    gw_array_free(&b.details);
    return b.oom ? NULL : b.tl;
}
