/*
 * A cause for every idle nanosecond of a device.
 *
 * A gap ends with an operation, and that operation was issued by a call on the host. Issued before the gap: the GPU made
 * it wait. Issued inside the gap: the host was late, and the gap is split by what the host was doing (hostline.c).
 *
 * Why the host was late matters more than where it was found. If it sat in a synchronising call (or waited for data, or
 * ran code of its own) when the queue ran dry, the dispatch that follows is a symptom: had the host run ahead, the GPU
 * would have had work. But only as far as the host could have kept ahead at all: with H the dispatch time and B the
 * GPU's busy time of the steady window, H - B is lost to slow dispatch even without any wait. So dispatch that follows a
 * wait is split: (H - B) of it stays launch-bound, the rest goes to the wait that emptied the queue.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/analysis.h"
#include "engine/timeline.h"

#define GW_KERNEL_GAP_NS 20000     /* a queued operation that starts later than this waited for something */
#define GW_LATENCY_DEFAULT 10000   /* launch to start on an idle GPU when the recording shows none (typical 5-10 us) */
#define GW_LATENCY_FACTOR 10       /* a launch that takes this many times the usual latency waited for something */
#define GW_LATENCY_MIN_NS 100000
#define GW_CLOCK_SLACK_NS 5000     /* GPU and host clocks agree to a few us in the recordings seen */
/* What recorders cost the host for each host event that they record, ns: likely, and the other end of what was measured; and
 * the most they were seen to slow dispatch down. All on one H200 machine.
 * torch.profiler: four paired runs, 0.9 (optimizer loop), 1.6, 4.2, 5.1 us (training steps with autograd); 2.4 times.
 * gpuwhy run: a launch-bound loop of 600 kernels and 5200 calls in a step of some 6.5 ms, 1.14 times (records of calls
 * switched on and off in one process) and 1.47 times (--full against no recorder). */
static const struct {
    const char *profiler;
    double event, event_max, floor;
} recorders[] = {{"torch.profiler", 2500, 5000, 0.42}, {"gpuwhy run", 350, 600, 0.67}};

enum { SPLIT = 1 };                /* gw_piece.pad of a provisional piece: dispatch after a wait */

struct gw_bl {
    struct gw_analysis *an;
    struct gw_dev *dev;
    struct gw_array gaps;
    struct gw_array pieces;
    size_t run;              /* first run that ends after the current gap's start */
    uint32_t drain, drain_event;
    int64_t budget;          /* idle time that the drain can still have caused: the host lost no more than it waited */
    int oom;
};

static void on_idle(void *user, int64_t start, int64_t end, size_t next)
{
    struct gw_bl *b = user;
    struct gw_gap *g = gw_array_push(&b->gaps);
    if (!g) {
        b->oom = 1;
        return;
    }
    *g = (struct gw_gap){.start = start, .end = end, .next_op = GW_NONE, .call = GW_NONE, .drain = GW_CAUSE_UNEXPLAINED,
                         .drain_event = GW_NONE};
    if (next < b->dev->nops) {
        g->next_op = b->dev->ops[next];
        g->call = gw_ev(b->an, g->next_op)->link;
    }
}

static void add(struct gw_bl *b, uint32_t gap, int64_t ns, unsigned cause, uint32_t culprit, unsigned split)
{
    if (ns <= 0)
        return;
    struct gw_piece *p = b->pieces.len ? (struct gw_piece *)b->pieces.data + b->pieces.len - 1 : NULL;
    if (p && p->gap == gap && p->cause == cause && p->pad == split && (p->culprit == culprit || cause == GW_CAUSE_LAUNCH)) {
        p->ns += ns;
        return;
    }
    p = gw_array_push(&b->pieces);
    if (p)
        *p = (struct gw_piece){.ns = ns, .gap = gap, .cause = cause, .culprit = culprit, .pad = split};
    else
        b->oom = 1;
}

static int is_wait(unsigned label)
{
    return label != GW_CAUSE_LAUNCH && label != GW_HOST_QUEUE_FULL && label != GW_CAUSE_UNEXPLAINED &&
           label != GW_CAUSE_PROFILER;
}

/* Takes run `i` as the drain. A wait cannot cost more than it lasted and the latency of refilling the queue. */
static void set_drain(struct gw_bl *b, size_t i)
{
    const struct gw_run *r = b->dev->runs;
    size_t first = i, last = i;
    while (first > 0 && r[first - 1].label == r[i].label)
        first--;
    while (last + 1 < b->dev->nruns && r[last + 1].label == r[i].label)
        last++;
    b->drain = r[i].label;
    b->drain_event = r[i].leaf;
    b->budget = r[last].end - r[first].start + b->dev->launch_latency;
}

/* What emptied the queue: the wait the host was in when the gap began. */
static void find_drain(struct gw_bl *b, const struct gw_gap *g)
{
    const struct gw_run *r = b->dev->runs;
    size_t i = b->run;
    if (i < b->dev->nruns && r[i].start <= g->start && is_wait(r[i].label)) {
        set_drain(b, i);
        return;
    }
    for (size_t k = i; k-- > 0 && r[k].end + GW_CLOCK_SLACK_NS > g->start;)
        if (r[k].label == GW_CAUSE_HOST_SYNC || r[k].label == GW_CAUSE_BLOCKING_COPY) {
            set_drain(b, k);
            return;
        }
}

/* Dispatch in a gap: as far as the last drain's budget goes it may be the drain's doing. */
static void add_launch(struct gw_bl *b, uint32_t gap, int64_t ns, uint32_t culprit)
{
    int64_t after = b->drain == GW_CAUSE_UNEXPLAINED ? 0 : ns < b->budget ? ns : b->budget;
    add(b, gap, after, GW_CAUSE_LAUNCH, culprit, SPLIT);
    add(b, gap, ns - after, GW_CAUSE_LAUNCH, culprit, 0);
    b->budget -= after;
}

/* Splits [from, to) of gap `gi` by the host's runs. `known` = 0: the launching call is not recorded. */
static void split_by_host(struct gw_bl *b, uint32_t gi, int64_t from, int64_t to, int known)
{
    const struct gw_run *r = b->dev->runs;
    int64_t at = from;
    for (size_t i = b->run; i < b->dev->nruns && at < to; i++) {
        if (r[i].end <= at)
            continue;
        if (r[i].start > at) {
            add(b, gi, (r[i].start < to ? r[i].start : to) - at, GW_CAUSE_UNEXPLAINED, GW_NONE, 0);
            at = r[i].start;
            if (at >= to)
                break;
        }
        int64_t end = r[i].end < to ? r[i].end : to;
        unsigned label = r[i].label == GW_HOST_QUEUE_FULL ? GW_CAUSE_LAUNCH : r[i].label;
        if (label == GW_CAUSE_LAUNCH && !known)
            label = GW_CAUSE_UNEXPLAINED;
        if (label == GW_CAUSE_LAUNCH)
            add_launch(b, gi, end - at, r[i].leaf);
        else
            add(b, gi, end - at, label, r[i].leaf, 0);
        if (label == b->drain && b->budget > 0)
            b->budget = b->budget > end - at ? b->budget - (end - at) : 0;
        at = end;
    }
    add(b, gi, to - at, GW_CAUSE_UNEXPLAINED, GW_NONE, 0);
}

/* When the host issued the operation: at the start of an ordinary call, near the end of one that took long. */
static int64_t issue_time(const struct gw_bl *b, const struct gw_gap *g)
{
    const struct gw_event *c = gw_ev(b->an, g->call);
    int64_t at = c->end - c->start > 5 * b->dev->launch_median ? c->end - b->dev->launch_median : c->start;
    return at < g->end ? at : g->end;
}

static void blame_gap(struct gw_bl *b, uint32_t gi)
{
    struct gw_gap *g = (struct gw_gap *)b->gaps.data + gi;
    const struct gw_dev *d = b->dev;
    g->first_piece = (uint32_t)b->pieces.len;
    while (b->run < d->nruns && d->runs[b->run].end <= g->start)
        b->run++;
    int64_t len = g->end - g->start;
    if (g->next_op == GW_NONE) {
        add(b, gi, len, GW_CAUSE_DRAIN, GW_NONE, 0);
    } else if (g->call == GW_NONE || !d->nruns) {
        if (len <= GW_KERNEL_GAP_NS)
            add(b, gi, len, d->nruns ? GW_CAUSE_KERNEL_GAP : GW_CAUSE_UNEXPLAINED, GW_NONE, 0);
        else
            split_by_host(b, gi, g->start, g->end, 0);
    } else {
        int64_t issued = issue_time(b, g);
        int later_node = gw_ev(b->an, g->call)->link != g->next_op;
        if (later_node || issued + d->launch_latency < g->start) {
            int graph = b->an->names[gw_ev(b->an, g->call)->name].api == GW_API_GRAPH_LAUNCH;
            add(b, gi, len, len <= GW_KERNEL_GAP_NS ? GW_CAUSE_KERNEL_GAP : graph ? GW_CAUSE_IN_GRAPH : GW_CAUSE_GPU_DEPENDENCY,
                g->call, 0);
        } else {
            find_drain(b, g);
            int64_t until = issued > g->start ? issued : g->start;
            split_by_host(b, gi, g->start, until, 1);
            /* started long after it was issued, on an idle GPU: that is no launch latency */
            int64_t tail = g->end - until, most = GW_LATENCY_FACTOR * b->dev->launch_latency;
            most = most > GW_LATENCY_MIN_NS ? most : GW_LATENCY_MIN_NS;
            add_launch(b, gi, tail < most ? tail : most, g->call);
            add(b, gi, tail - most, GW_CAUSE_GPU_DEPENDENCY, g->call, 0);
        }
    }
    g->drain = b->drain;
    g->drain_event = b->drain_event;
    g->pieces = (uint32_t)b->pieces.len - g->first_piece;
}

static int cmp_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Median launch latency over the operations that found the GPU idle and the host just issuing them. */
static int measure_latency(struct gw_bl *b)
{
    b->dev->launch_latency = GW_LATENCY_DEFAULT;
    int64_t *v = malloc((b->gaps.len + 1) * sizeof *v);
    if (!v)
        return GW_ENOMEM;
    size_t n = 0;
    const struct gw_gap *g = b->gaps.data;
    for (size_t i = 0; i < b->gaps.len; i++) {
        if (g[i].call == GW_NONE || gw_ev(b->an, g[i].call)->link != g[i].next_op)
            continue;
        const struct gw_event *c = gw_ev(b->an, g[i].call);
        if (c->start >= g[i].start && c->start <= g[i].end && b->an->names[c->name].api == GW_API_LAUNCH)
            v[n++] = g[i].end - c->start;
    }
    if (n >= 8) {
        qsort(v, n, sizeof *v, cmp_i64);
        b->dev->launch_latency = v[n / 2];
    }
    free(v);
    return GW_OK;
}

/* Host time by label inside [w0, w1). */
static void host_totals(struct gw_dev *d, int64_t w0, int64_t w1)
{
    memset(d->host_ns, 0, sizeof d->host_ns);
    for (size_t i = 0; i < d->nruns; i++) {
        int64_t a = d->runs[i].start > w0 ? d->runs[i].start : w0, e = d->runs[i].end < w1 ? d->runs[i].end : w1;
        if (e > a && d->runs[i].label <= GW_HOST_QUEUE_FULL)
            d->host_ns[d->runs[i].label] += e - a;
    }
}

static void profiler_cost(struct gw_analysis *an, const struct gw_dev *d)
{
    an->dispatch_likely = an->dispatch_low = 1;
    double dispatch = (double)d->host_ns[GW_CAUSE_LAUNCH], n = (double)d->host_events;
    const char *who = an->t->facts.profiler;
    for (size_t i = 0; who && dispatch > 0 && i < sizeof recorders / sizeof *recorders; i++)
        if (!strcmp(who, recorders[i].profiler)) {
            an->dispatch_likely = fmax(recorders[i].floor, 1 - n * recorders[i].event / dispatch);
            an->dispatch_low = fmax(recorders[i].floor, 1 - n * recorders[i].event_max / dispatch);
        }
}

/* Part of dispatch-after-a-wait that would be lost without the waits too: 0..1. */
static double launch_share(const struct gw_bl *b, int64_t w0, int64_t w1)
{
    const struct gw_gap *g = b->gaps.data;
    const struct gw_piece *p = b->pieces.data;
    double after = 0, pure = 0;
    for (size_t i = 0; i < b->pieces.len; i++)
        if (g[p[i].gap].start >= w0 && g[p[i].gap].end <= w1 && p[i].cause == GW_CAUSE_LAUNCH)
            *(p[i].pad == SPLIT ? &after : &pure) += (double)p[i].ns;
    if (after <= 0)
        return 1;
    double busy = (double)(b->dev->steady.wall - b->dev->steady.idle);
    /* the profiler's share of the dispatch would not be there in a normal run */
    double need = (double)b->dev->host_ns[GW_CAUSE_LAUNCH] * b->an->dispatch_likely - busy - pure;
    return need <= 0 ? 0 : need >= after ? 1 : need / after;
}

/* What stays launch-bound of a provisional piece, ns. */
static int64_t kept(const struct gw_piece *p, double share)
{
    return p->pad == SPLIT ? (int64_t)((double)p->ns * share) : p->ns;
}

/* Second pass: the provisional pieces get their final causes. Lengths are kept to the nanosecond. */
static int settle(struct gw_bl *b, double share)
{
    const struct gw_piece *p = b->pieces.data;
    size_t want = 0, n = 0;
    for (size_t i = 0; i < b->pieces.len; i++) /* counted first, so that the pieces are held twice and not three times */
        want += (size_t)(kept(p + i, share) > 0) + (size_t)(kept(p + i, share) < p[i].ns);
    struct gw_gap *g = gw_arena_calloc(b->an->arena, b->gaps.len, sizeof *g);
    if (!g)
        return GW_ENOMEM;
    size_t gaps = b->gaps.len;
    if (gaps)
        memcpy(g, b->gaps.data, gaps * sizeof *g);
    gw_array_free(&b->gaps);
    struct gw_piece *o = gw_arena_calloc(b->an->arena, want, sizeof *o);
    if (!o)
        return GW_ENOMEM;
    for (size_t gi = 0; gi < gaps; gi++) {
        size_t first = n;
        for (uint32_t k = 0; k < g[gi].pieces; k++) {
            struct gw_piece q = p[g[gi].first_piece + k];
            int64_t keep = kept(&q, share);
            q.pad = 0;
            if (keep < q.ns) {
                struct gw_piece w = q;
                w.ns = q.ns - keep;
                w.cause = g[gi].drain;
                w.culprit = g[gi].drain_event;
                o[n++] = w;
            }
            q.ns = keep;
            if (keep > 0)
                o[n++] = q;
        }
        g[gi].first_piece = (uint32_t)first;
        g[gi].pieces = (uint32_t)(n - first);
    }
    b->dev->gaps = g;
    b->dev->ngaps = gaps;
    b->dev->pieces = o;
    b->dev->npieces = n;
    return GW_OK;
}

static int cmp_total(const void *a, const void *b)
{
    const struct gw_cause_total *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    return (int)x->cause - (int)y->cause;
}

/* Totals by cause over [w0, w1); pieces are laid out in order inside their gap, so a cut gap is cut exactly. */
static const struct gw_cause_total *totals(const struct gw_dev *d, struct gw_arena *arena, int64_t w0, int64_t w1,
                                           size_t *count, int64_t *ns_out, uint64_t *gaps_out)
{
    int64_t ns[GW_CAUSE_COUNT] = {0};
    uint64_t gaps[GW_CAUSE_COUNT] = {0};
    for (size_t i = 0; i < d->ngaps; i++) {
        int64_t at = d->gaps[i].start;
        for (uint32_t k = 0; k < d->gaps[i].pieces; k++) {
            const struct gw_piece *p = d->pieces + d->gaps[i].first_piece + k;
            int64_t a = at > w0 ? at : w0, e = at + p->ns < w1 ? at + p->ns : w1;
            at += p->ns;
            if (e <= a)
                continue;
            ns[p->cause] += e - a;
            gaps[p->cause]++;
        }
    }
    /* the window of another device may reach beyond this one's first and last operation */
    int64_t before = (d->whole.start < w1 ? d->whole.start : w1) - w0, from = d->whole.end > w0 ? d->whole.end : w0;
    int64_t after = d->whole.start < w1 ? w1 - from : 0;
    ns[GW_CAUSE_DRAIN] += (before > 0 ? before : 0) + (after > 0 ? after : 0);
    gaps[GW_CAUSE_DRAIN] += (uint64_t)(before > 0) + (uint64_t)(after > 0);
    struct gw_cause_total *t = gw_arena_calloc(arena, GW_CAUSE_COUNT, sizeof *t);
    *count = 0;
    for (unsigned c = 0; t && c < GW_CAUSE_COUNT; c++) {
        if (ns[c])
            t[(*count)++] = (struct gw_cause_total){.cause = (enum gw_cause)c, .ns = ns[c], .gaps = gaps[c]};
        if (ns_out)
            ns_out[c] = ns[c];
        if (gaps_out)
            gaps_out[c] = gaps[c];
    }
    if (t)
        qsort(t, *count, sizeof *t, cmp_total);
    return t;
}

int gw_blame_totals(struct gw_analysis *an, struct gw_dev *dev)
{
    host_totals(dev, an->w0, an->w1);
    dev->whole_causes = totals(dev, an->arena, dev->whole.start, dev->whole.end, &dev->nwhole, NULL, NULL);
    dev->steady_causes = totals(dev, an->arena, an->w0, an->w1, &dev->nsteady, dev->cause_ns, dev->cause_gaps);
    return dev->whole_causes && dev->steady_causes ? GW_OK : GW_ENOMEM;
}

static struct gw_block *block_of(struct gw_dev *d, const struct gw_analysis *an, uint32_t call)
{
    struct gw_block *bl = (struct gw_block *)(uintptr_t)d->blocks;
    size_t lo = gw_block_at(an, d, gw_ev(an, call)->start);
    if (lo >= d->nblocks)
        return NULL;
    /* the call itself, the waiting call inside the operator that is blamed, or the one that waits for the call's copy */
    int its_copy = gw_ev(an, call)->link != GW_NONE && bl[lo].copy_op == gw_ev(an, call)->link;
    return bl[lo].call == call || its_copy || gw_ev(an, bl[lo].call)->start < gw_ev(an, call)->end ? bl + lo : NULL;
}

/* How long each blocking call waited for a busy GPU, and what idle time followed it. */
static void rate_blocks(struct gw_bl *b)
{
    struct gw_dev *d = b->dev;
    struct gw_block *bl = (struct gw_block *)(uintptr_t)d->blocks;
    size_t g = 0;
    for (size_t i = 0; i < d->nblocks; i++) {
        const struct gw_event *e = gw_ev(b->an, bl[i].call);
        while (g < d->ngaps && d->gaps[g].end <= e->start)
            g++;
        int64_t idle = 0;
        size_t k = g;
        for (; k < d->ngaps && d->gaps[k].start < e->end; k++) {
            int64_t a = d->gaps[k].start > e->start ? d->gaps[k].start : e->start;
            int64_t z = d->gaps[k].end < e->end ? d->gaps[k].end : e->end;
            idle += z - a;
            bl[i].drained = d->gaps[k].end > e->end;
        }
        if (!bl[i].drained && k < d->ngaps && d->gaps[k].start <= e->end + GW_CLOCK_SLACK_NS)
            bl[i].drained = 1;
        bl[i].waited = e->end - e->start - idle;
    }
    for (size_t i = 0; i < d->npieces; i++) {
        const struct gw_piece *p = d->pieces + i;
        if ((p->cause != GW_CAUSE_HOST_SYNC && p->cause != GW_CAUSE_BLOCKING_COPY) || p->culprit == GW_NONE)
            continue;
        struct gw_block *x = block_of(d, b->an, p->culprit);
        if (x)
            x->idle_after += p->ns;
    }
}

int gw_blame(struct gw_analysis *an, struct gw_dev *dev)
{
    struct gw_bl b = {.an = an, .dev = dev, .drain = GW_CAUSE_UNEXPLAINED, .drain_event = GW_NONE};
    gw_array_init(&b.gaps, sizeof(struct gw_gap), UINT32_MAX - 1);
    gw_array_init(&b.pieces, sizeof(struct gw_piece), UINT32_MAX - 1);
    int rc = GW_ENOMEM;
    gw_timeline_partition(an->t, an->names, dev->ops, dev->nops, dev->whole.start, dev->whole.end, on_idle, &b);
    dev->steady = gw_timeline_partition(an->t, an->names, dev->ops, dev->nops, an->w0, an->w1, NULL, NULL);
    if (measure_latency(&b) < 0)
        goto out;
    for (uint32_t i = 0; i < b.gaps.len; i++)
        blame_gap(&b, i);
    host_totals(dev, an->w0, an->w1);
    profiler_cost(an, dev);
    if (b.oom || settle(&b, launch_share(&b, an->w0, an->w1)) < 0)
        goto out;
    rate_blocks(&b);
    rc = gw_blame_totals(an, dev);
out:
    gw_array_free(&b.gaps);
    gw_array_free(&b.pieces);
    return rc;
}
