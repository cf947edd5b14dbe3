#include "engine/replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GW_TIGHT_NS 20000   /* an operation that starts this soon after another one was waiting for it */
#define GW_REPLAY_ERROR_MAX 0.25 /* a replay this far off the recording predicts nothing */
#define GW_STARVED_NS 1000000   /* a shorter wait for the loader is the price of taking a batch that is there */
#define GW_BACK_MAX 256     /* how far to look back for what a synchronising call waited for */

struct gw_think { /* host time between two calls, by label */
    int64_t ns;
    uint32_t label;
    uint32_t pad;
};

struct gw_item { /* a host call that gives the GPU work, or waits for it */
    int64_t start, end;      /* recorded */
    int64_t own;             /* what it takes without waiting */
    int64_t ret;             /* what it takes to return once the awaited operation ended */
    uint32_t think, thinks;  /* pieces before it */
    uint32_t dep;            /* replay op that it waits for, or GW_NONE */
    uint32_t op, ops;        /* operations it launches */
    uint32_t ctx;
    uint16_t wait_kind;      /* GW_CAUSE_HOST_SYNC, GW_CAUSE_BLOCKING_COPY, GW_HOST_QUEUE_FULL, or 0 */
    uint16_t overlaps;       /* starts before its predecessor ended: on another thread */
};

struct gw_rop {
    int64_t dur;
    int64_t lat;     /* from the start of the call */
    int64_t gap;     /* after the predecessor on the stream; may be negative */
    int64_t dep_gap;
    uint32_t pred;   /* replay op before it on the stream, or GW_NONE */
    uint32_t dep;    /* replay op of another stream that it waited for, or GW_NONE */
    uint32_t event;
    uint32_t item;
};

struct gw_replay {
    struct gw_item *item;
    size_t nitems;
    struct gw_rop *op;
    size_t nops;
    struct gw_think *think;
    size_t nthinks;
    uint32_t first_op, last_op; /* window: start of first .. start of last (or the latest end) */
    int open_end;               /* 1 = the window ends with the last operation's end */
    int64_t recorded;
    double error;
};

struct gw_build {
    struct gw_analysis *an;
    struct gw_dev *dev;
    struct gw_replay *r;
    uint32_t *order;      /* ops of the window as events */
    size_t nops;
    struct gw_item *items;
    size_t nitems;
    struct gw_array thinks;
    uint32_t *call_ids;   /* calls, sorted by start: becomes items */
    size_t ncalls;
};

/* ---- building: items ---- */

static int cmp_start(const void *a, const void *b, void *arg)
{
    const struct gw_event *ev = arg, *x = ev + *(const uint32_t *)a, *y = ev + *(const uint32_t *)b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return (*(const uint32_t *)a > *(const uint32_t *)b) - (*(const uint32_t *)a < *(const uint32_t *)b);
}

static int collect(struct gw_build *b)
{
    const struct gw_dev *d = b->dev;
    const struct gw_analysis *an = b->an;
    b->order = malloc((d->nops + 1) * sizeof *b->order);
    b->call_ids = malloc((d->nops + d->nblocks + 1) * sizeof *b->call_ids);
    if (!b->order || !b->call_ids)
        return GW_ENOMEM;
    size_t linked = 0;
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (size_t i = 0; i < d->nops; i++) {
        const struct gw_event *e = gw_ev(an, d->ops[i]);
        if (e->start < an->w0)
            continue;
        b->order[b->nops++] = d->ops[i];
        if (e->link != GW_NONE) {
            const struct gw_event *c = gw_ev(an, e->link);
            linked++;
            b->call_ids[b->ncalls++] = e->link;
            first = c->start < first ? c->start : first;
            last = c->start > last ? c->start : last;
        }
        if (e->start >= an->w1)
            break; /* the sentinel: its start is the window's end */
    }
    if (b->nops < 3 || linked * 2 < b->nops)
        return GW_ENODATA;
    for (size_t i = 0; i < d->nblocks; i++) {
        const struct gw_event *c = gw_ev(an, d->blocks[i].call);
        if (c->start >= first && c->start <= last)
            b->call_ids[b->ncalls++] = d->blocks[i].call;
    }
    qsort_r(b->call_ids, b->ncalls, sizeof *b->call_ids, cmp_start, an->t->events.data);
    size_t n = 0;
    for (size_t i = 0; i < b->ncalls; i++)
        if (!n || b->call_ids[n - 1] != b->call_ids[i])
            b->call_ids[n++] = b->call_ids[i];
    b->ncalls = n;
    return GW_OK;
}

static uint32_t find_item(const struct gw_build *b, uint32_t call)
{
    const struct gw_event *ev = b->an->t->events.data;
    size_t lo = 0, hi = b->ncalls;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (cmp_start(b->call_ids + mid, &call, (void *)(uintptr_t)ev) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < b->ncalls && b->call_ids[lo] == call ? (uint32_t)lo : GW_NONE;
}

static const struct gw_block *block_of_call(const struct gw_dev *d, const struct gw_analysis *an, uint32_t call)
{
    int64_t at = gw_ev(an, call)->start;
    size_t lo = gw_block_at(an, d, at);
    for (; lo < d->nblocks && gw_ev(an, d->blocks[lo].call)->start == at; lo++)
        if (d->blocks[lo].call == call)
            return d->blocks + lo;
    return NULL;
}

/* Host time [from, to) by label, from the runs. `run` moves forward only. */
static int add_thinks(struct gw_build *b, struct gw_item *it, int64_t from, int64_t to, size_t *run)
{
    const struct gw_dev *d = b->dev;
    it->think = (uint32_t)b->thinks.len;
    while (*run < d->nruns && d->runs[*run].end <= from)
        (*run)++;
    int64_t at = from;
    for (size_t i = *run; at < to; i++) {
        int64_t end = i < d->nruns && d->runs[i].end < to ? d->runs[i].end : to;
        unsigned label = i < d->nruns && d->runs[i].start <= at ? d->runs[i].label : GW_CAUSE_LAUNCH;
        if (end <= at && i < d->nruns)
            continue;
        struct gw_think *k = gw_array_push(&b->thinks);
        if (!k)
            return GW_ENOMEM;
        *k = (struct gw_think){.ns = end - at, .label = label};
        at = end;
    }
    it->thinks = (uint32_t)b->thinks.len - it->think;
    return GW_OK;
}

static int build_items(struct gw_build *b)
{
    const struct gw_analysis *an = b->an;
    size_t run = 0;
    int64_t until = INT64_MIN;
    b->items = gw_arena_calloc(an->arena, b->ncalls, sizeof *b->items);
    if (!b->items)
        return GW_ENOMEM;
    b->nitems = b->ncalls;
    for (size_t i = 0; i < b->ncalls; i++) {
        const struct gw_event *c = gw_ev(an, b->call_ids[i]);
        struct gw_item *it = b->items + i;
        *it = (struct gw_item){.start = c->start, .end = c->end, .own = c->end - c->start, .dep = GW_NONE,
                               .ctx = an->ctx[b->call_ids[i]]};
        const struct gw_block *bl = block_of_call(b->dev, an, b->call_ids[i]);
        if (bl)
            it->wait_kind = (uint16_t)bl->kind;
        else if (it->own >= 30000 && it->own >= 10 * b->dev->launch_median)
            it->wait_kind = GW_HOST_QUEUE_FULL; /* settled in find_deps: only when the GPU was busy */
        it->overlaps = i && c->start < until;
        if (i && !it->overlaps && add_thinks(b, it, until, c->start, &run) < 0)
            return GW_ENOMEM;
        if (c->end > until)
            until = c->end;
    }
    return GW_OK;
}

/* ---- building: operations ---- */

struct gw_stream_state {
    uint32_t lane, last;
};

static int cmp_rop(const void *a, const void *b, void *arg)
{
    const struct gw_event *ev = arg;
    const struct gw_rop *x = a, *y = b;
    if (x->item != y->item)
        return x->item < y->item ? -1 : 1;
    if (ev[x->event].start != ev[y->event].start)
        return ev[x->event].start < ev[y->event].start ? -1 : 1;
    return (x->event > y->event) - (x->event < y->event);
}

/* The operation that ended last at or before `at`, among those listed by end. */
static size_t ended_by(const struct gw_analysis *an, const struct gw_rop *op, const uint32_t *by_end, size_t n, int64_t at)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (gw_ev(an, op[by_end[mid]].event)->end <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo; /* count of those that ended */
}

static int cmp_end(const void *a, const void *b, void *arg)
{
    const struct gw_build *bd = arg;
    int64_t x = gw_ev(bd->an, bd->r->op[*(const uint32_t *)a].event)->end;
    int64_t y = gw_ev(bd->an, bd->r->op[*(const uint32_t *)b].event)->end;
    return (x > y) - (x < y);
}

static void tie_op(struct gw_build *b, size_t i, const uint32_t *by_end, struct gw_stream_state *st)
{
    struct gw_replay *r = b->r;
    struct gw_rop *o = r->op + i;
    const struct gw_event *e = gw_ev(b->an, o->event);
    const struct gw_item *it = b->items + o->item;
    int64_t since_call = e->start - it->start, typical = b->dev->launch_latency;
    int known = e->link != GW_NONE;
    o->dur = e->end - e->start;
    o->pred = st->last;
    o->dep = GW_NONE;
    int64_t since_pred = o->pred == GW_NONE ? INT64_MAX : e->start - gw_ev(b->an, r->op[o->pred].event)->end;
    o->gap = o->pred == GW_NONE ? 0 : since_pred;
    o->lat = since_call < typical ? since_call : typical;
    if (!known) /* issued at an unknown time: follows its predecessor; the first of a stream keeps its recorded start */
        o->lat = o->pred == GW_NONE ? since_call : INT64_MIN / 4;
    if (since_pred > GW_TIGHT_NS && since_call > 2 * typical) {
        /* neither the call nor the stream explains the start: another stream? */
        size_t k = ended_by(b->an, r->op, by_end, r->nops, e->start + 1000);
        if (k && by_end[k - 1] < i && e->start - gw_ev(b->an, r->op[by_end[k - 1]].event)->end <= GW_TIGHT_NS &&
            by_end[k - 1] != o->pred) {
            o->dep = by_end[k - 1];
            o->dep_gap = e->start - gw_ev(b->an, r->op[o->dep].event)->end;
            o->gap = 0;
        } else if (known && (since_call <= 20 * typical || since_pred >= since_call)) {
            o->lat = since_call; /* a slow launch; on a stream that was done before the call nothing else can hold it */
            o->gap = 0;
        }
    } else if (o->pred == GW_NONE || (since_pred > GW_TIGHT_NS && known)) {
        o->lat = since_call;
        o->gap = 0;
    } else if (since_pred > 2000 && known && since_call <= 2 * typical) {
        o->lat = since_call; /* just launched: the host set the pace */
        o->gap = 1000;
    }
    st->last = (uint32_t)i;
}

static struct gw_stream_state *stream_state(struct gw_array *streams, uint32_t lane)
{
    struct gw_stream_state *s = streams->data;
    for (size_t i = 0; i < streams->len; i++)
        if (s[i].lane == lane)
            return s + i;
    s = gw_array_push(streams);
    if (s)
        *s = (struct gw_stream_state){.lane = lane, .last = GW_NONE};
    return s;
}

/* What one waiting call waited for: of the operations issued before it (those below `lim`), the last that ended by its end. */
static void tie_wait(struct gw_build *b, struct gw_item *it, const uint32_t *by_end, size_t lim)
{
    const struct gw_replay *r = b->r;
    if (it->wait_kind != GW_HOST_QUEUE_FULL && it->ops) { /* a blocking copy waits for itself */
        it->dep = it->op + it->ops - 1;
        int64_t own_end = gw_ev(b->an, r->op[it->dep].event)->end;
        it->ret = it->end > own_end ? it->end - own_end : 0;
        it->own = it->own < 2 * b->dev->launch_median ? it->own : 2 * b->dev->launch_median;
        return;
    }
    size_t n = ended_by(b->an, r->op, by_end, r->nops, it->end + 2000);
    for (size_t tries = 0; n > 0 && tries < GW_BACK_MAX; n--, tries++) {
        if (by_end[n - 1] >= lim)
            continue;
        int64_t end = gw_ev(b->an, r->op[by_end[n - 1]].event)->end;
        it->dep = by_end[n - 1];
        if (end > it->start) { /* it did wait */
            it->ret = it->end > end ? it->end - end : 0;
            it->own = it->ret < it->own ? it->ret : it->own;
            if (it->wait_kind == GW_HOST_QUEUE_FULL)
                it->own = b->dev->launch_median;
        } else if (it->wait_kind == GW_HOST_QUEUE_FULL) {
            it->dep = GW_NONE; /* the GPU was not busy: a slow call, not a full queue */
        }
        break;
    }
    if (it->wait_kind == GW_HOST_QUEUE_FULL && it->dep == GW_NONE)
        it->wait_kind = 0;
}

static int build_ops(struct gw_build *b)
{
    struct gw_replay *r = b->r;
    struct gw_array streams;
    gw_array_init(&streams, sizeof(struct gw_stream_state), 0);
    int rc = GW_ENOMEM;
    uint32_t *by_end = NULL;
    r->op = gw_arena_calloc(b->an->arena, b->nops, sizeof *r->op);
    if (!r->op)
        goto out;
    for (size_t i = 0; i < b->nops; i++) {
        const struct gw_event *e = gw_ev(b->an, b->order[i]);
        struct gw_stream_state *s = stream_state(&streams, e->lane);
        if (!s)
            goto out;
        uint32_t item = e->link == GW_NONE ? GW_NONE : find_item(b, e->link);
        if (item == GW_NONE)
            item = s->last == GW_NONE ? 0 : s->last; /* `last` holds the item of the stream's previous op here */
        s->last = item;
        r->op[i] = (struct gw_rop){.event = b->order[i], .item = item};
    }
    r->nops = b->nops;
    qsort_r(r->op, r->nops, sizeof *r->op, cmp_rop, b->an->t->events.data);
    by_end = malloc((r->nops + 1) * sizeof *by_end);
    if (!by_end)
        goto out;
    for (size_t i = 0; i < r->nops; i++)
        by_end[i] = (uint32_t)i;
    qsort_r(by_end, r->nops, sizeof *by_end, cmp_end, b);
    streams.len = 0;
    struct gw_item *it = b->items;
    for (size_t i = 0; i < r->nops; i++) {
        struct gw_stream_state *s = stream_state(&streams, gw_ev(b->an, r->op[i].event)->lane);
        if (!s)
            goto out;
        tie_op(b, i, by_end, s);
        struct gw_item *x = it + r->op[i].item;
        if (!x->ops)
            x->op = (uint32_t)i;
        x->ops++;
    }
    for (size_t k = 0, before = 0; k < b->nitems; k++) { /* before: operations issued by then */
        size_t lim = it[k].ops && it[k].wait_kind == GW_HOST_QUEUE_FULL ? it[k].op : it[k].ops ? it[k].op + it[k].ops : before;
        before = it[k].ops ? it[k].op + it[k].ops : before;
        if (it[k].wait_kind)
            tie_wait(b, it + k, by_end, lim);
    }
    rc = GW_OK;
out:
    free(by_end);
    gw_array_free(&streams);
    return rc;
}

/* ---- running ---- */

static int changes(const struct gw_whatif *w, unsigned label)
{
    return label < GW_CAUSE_COUNT && ((w->remove & (1u << label)) || w->label_scale[label] > 0);
}

static double scaled(const struct gw_whatif *w, const struct gw_think *k, uint32_t ctx)
{
    double ns = (double)k->ns;
    if (k->label < GW_CAUSE_COUNT) {
        if (w->remove & (1u << k->label))
            return 0;
        if (w->label_scale[k->label] > 0)
            ns *= w->label_scale[k->label];
    }
    if (k->label == GW_CAUSE_LAUNCH) {
        ns *= w->host_scale;
        if (ctx & w->ctx)
            ns *= w->ctx_host_scale;
    }
    if (k->label == GW_HOST_QUEUE_FULL)
        return 0; /* waiting is computed, not replayed */
    return ns;
}

/* Where item `it` starts that follows host code which ended at `start`. `shift`: ns by which the host is ahead of the record. */
static double after_thinks(const struct gw_replay *r, const struct gw_whatif *w, const struct gw_item *it, double start, double *shift)
{
    double left = 0; /* recorded time from the end of piece k to the call */
    for (uint32_t k = 0; k < it->thinks; k++)
        left += (double)r->think[it->think + k].ns;
    for (uint32_t k = 0; k < it->thinks; k++) {
        const struct gw_think *t = r->think + it->think + k;
        left -= (double)t->ns;
        if (t->label == GW_CAUSE_DATA_WAIT && t->ns >= GW_STARVED_NS && !changes(w, GW_CAUSE_DATA_WAIT)) {
            /* the workers deliver when they do, however fast dispatch is */
            start = fmax(start, (double)(it->start - r->item[0].start) - left - *shift);
        } else {
            double ns = scaled(w, t, it->ctx);
            *shift += changes(w, t->label) ? (double)t->ns - ns : 0; /* but a pause that is gone is gone for them too */
            start += ns;
        }
    }
    return start;
}

int64_t gw_replay_run(const struct gw_replay *r, const struct gw_whatif *w)
{
    double *end = malloc((r->nops + 1) * sizeof *end);
    if (!end)
        return -1;
    /* from the first call on: absolute times may be 1e18 ns and more, where a double is 256 ns coarse */
    double host_start = 0, host_end = 0, first = 0, last = 0, latest = -INFINITY, shift = 0;
    for (size_t i = 0; i < r->nitems; i++) {
        const struct gw_item *it = r->item + i;
        double start;
        if (i == 0) {
            start = 0;
        } else if (it->overlaps) {
            start = host_start + (double)(it->start - r->item[i - 1].start) * w->host_scale;
        } else {
            start = after_thinks(r, w, it, host_end, &shift);
        }
        double own = (double)it->own * w->host_scale * (it->ctx & w->ctx ? w->ctx_host_scale : 1.0);
        for (uint32_t k = 0; k < it->ops; k++) {
            const struct gw_rop *o = r->op + it->op + k;
            size_t j = it->op + k;
            double f = w->op_scale ? (double)w->op_scale[j] : 1.0;
            double gap = f < 1 && o->gap > 0 ? (double)o->gap * f : (double)o->gap; /* fused away: so is its gap */
            double at = o->lat > INT64_MIN / 8 ? start + (double)o->lat : -INFINITY;
            if (o->pred != GW_NONE && end[o->pred] + gap > at)
                at = end[o->pred] + gap;
            if (o->dep != GW_NONE && end[o->dep] + (double)o->dep_gap > at)
                at = end[o->dep] + (double)o->dep_gap;
            end[j] = at + (double)o->dur * f;
            if (j == r->first_op)
                first = at;
            if (j == r->last_op)
                last = at;
            if (end[j] > latest)
                latest = end[j];
        }
        double fin = start + own;
        int waits = it->wait_kind && it->dep != GW_NONE &&
                    (it->wait_kind == GW_HOST_QUEUE_FULL || !(w->drop_wait & (1u << it->wait_kind)));
        if (waits && end[it->dep] + (double)it->ret > fin)
            fin = end[it->dep] + (double)it->ret;
        host_start = start;
        host_end = fin > host_end || !it->overlaps ? fin : host_end;
    }
    free(end);
    double ns = (r->open_end ? latest : last) - first;
    return ns > 0 && ns < 9e18 ? (int64_t)ns : 0; /* clocks that disagree may turn the order round: a length of nothing */
}

double gw_replay_error(const struct gw_replay *r) { return r->error; }
size_t gw_replay_ops(const struct gw_replay *r) { return r->nops; }
uint32_t gw_replay_op_event(const struct gw_replay *r, size_t i) { return r->op[i].event; }

int gw_replay_build(struct gw_analysis *an, struct gw_dev *dev)
{
    struct gw_build b = {.an = an, .dev = dev};
    gw_array_init(&b.thinks, sizeof(struct gw_think), 0);
    struct gw_replay *r = b.r = gw_arena_alloc(an->arena, sizeof *r);
    int rc = r ? collect(&b) : GW_ENOMEM;
    if (rc == GW_OK)
        rc = build_items(&b);
    if (rc == GW_OK)
        rc = build_ops(&b);
    if (rc < 0)
        goto out;
    rc = GW_ENOMEM;
    r->item = b.items;
    r->nitems = b.nitems;
    r->nthinks = b.thinks.len;
    r->think = gw_arena_calloc(an->arena, r->nthinks, sizeof *r->think);
    if (!r->think)
        goto out;
    if (r->nthinks)
        memcpy(r->think, b.thinks.data, r->nthinks * sizeof *r->think);
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (size_t i = 0; i < r->nops; i++) {
        int64_t s = gw_ev(an, r->op[i].event)->start;
        if (s < first) {
            first = s;
            r->first_op = (uint32_t)i;
        }
        if (s > last) {
            last = s;
            r->last_op = (uint32_t)i;
        }
    }
    r->open_end = last < an->w1;
    r->recorded = an->w1 - an->w0;
    int64_t again = gw_replay_run(r, &GW_WHATIF_NONE);
    if (again < 0)
        goto out;
    r->error = r->recorded > 0 ? fabs((double)(again - r->recorded)) / (double)r->recorded : 0;
    an->replay_error = r->error;
    dev->replay = r->error <= GW_REPLAY_ERROR_MAX ? r : NULL;
    rc = GW_OK;
out:
    free(b.order);
    free(b.call_ids);
    gw_array_free(&b.thinks);
    return rc == GW_ENODATA ? GW_OK : rc;
}
