/* Values over time for the timeline: the GPU's queue, and counters that the recording holds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/host_facts.h"
#include "report/html/timeline.h"

enum { BUCKETS = 600, SERIES_SHOWN = 12 };

static struct gw_tl_series *begin(struct gw_tl_build *b, struct gw_tl_series *s, const char *name)
{
    float *low = gw_arena_calloc(b->arena, BUCKETS, sizeof *low),
          *high = gw_arena_calloc(b->arena, BUCKETS, sizeof *high);
    const char *copy = gw_arena_strdup(b->arena, name);
    if (!low || !high || !copy)
        return NULL;
    for (int i = 0; i < BUCKETS; i++)
        low[i] = high[i] = NAN;
    *s = (struct gw_tl_series){
        .name = copy, .bucket = b->tl->length / BUCKETS + 1, .low = low, .high = high, .count = BUCKETS};
    return s;
}

static void widen(struct gw_tl_series *s, int64_t at, double v)
{
    float *low = (float *)s->low, *high = (float *)s->high, f = (float)v;
    int64_t i = (at - s->start) / s->bucket;
    if (at < s->start || i >= (int64_t)s->count)
        return;
    if (!(low[i] <= f))
        low[i] = f;
    if (!(high[i] >= f))
        high[i] = f;
}

static int cmp_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Operations that were issued and have not begun, at each change; a bucket without a change has what was before. */
static void depth(struct gw_tl_series *s, const int64_t *issued, const int64_t *begun, size_t n)
{
    size_t i = 0, k = 0;
    for (int64_t bucket = 0; bucket < (int64_t)s->count; bucket++) {
        widen(s, bucket * s->bucket, (double)i - (double)k);
        while (k < n) {
            int64_t at = i < n && issued[i] <= begun[k] ? issued[i] : begun[k];
            if (at >= (bucket + 1) * s->bucket)
                break;
            for (; i < n && issued[i] == at; i++)
                ;
            for (; k < n && begun[k] == at; k++)
                ;
            widen(s, at, (double)i - (double)k);
        }
    }
}

static int queue(struct gw_tl_build *b, struct gw_tl_series *s)
{
    const struct gw_dev *d = b->an->dev + b->an->main;
    size_t n = 0;
    int64_t *issued = calloc(d->nops + 1, sizeof *issued), *begun = calloc(d->nops + 1, sizeof *begun);
    int rc = issued && begun ? GW_OK : GW_ENOMEM;
    for (size_t i = 0; rc == GW_OK && i < d->nops; i++) {
        const struct gw_event *e = gw_ev(b->an, d->ops[i]);
        if (e->link == GW_NONE || gw_ev(b->an, e->link)->start > e->start)
            continue;
        issued[n] = gw_ev(b->an, e->link)->start - b->tl->zero;
        begun[n++] = e->start - b->tl->zero;
    }
    if (n && rc == GW_OK) {
        qsort(issued, n, sizeof *issued, cmp_i64);
        qsort(begun, n, sizeof *begun, cmp_i64);
        rc = begin(b, s, "") ? GW_OK : GW_ENOMEM;
        if (rc == GW_OK) {
            s->queue = 1;
            depth(s, issued, begun, n);
            rc = 1;
        }
    }
    free(issued);
    free(begun);
    return rc;
}

struct counter {
    uint32_t name, lane;
    uint64_t count;
};

/* The counters there are, those of the main device first, then as they come. */
static size_t counters(struct gw_tl_build *b, struct counter *list, size_t most)
{
    int64_t main_id = b->an->dev[b->an->main].info->id;
    size_t n = 0;
    for (int other = 0; other < 2; other++)
        for (size_t i = 0; i < gw_trace_count(b->an->t); i++) {
            const struct gw_event *e = gw_ev(b->an, (uint32_t)i);
            int64_t at = e->start - b->tl->zero;
            size_t k = 0;
            if (e->kind != GW_KIND_COUNTER || !(e->flags & GW_EV_HAS_ARG0) || (e->flags & GW_EV_DROPPED) || at < 0 ||
                at >= b->tl->length || (gw_trace_lane(b->an->t, e->lane)->device == main_id) == other)
                continue;
            while (k < n && (list[k].name != e->name || list[k].lane != e->lane))
                k++;
            if (k == n && n < most)
                list[n++] = (struct counter){e->name, e->lane, 0};
            else if (k == n)
                b->tl->series_left++;
            if (k < n)
                list[k].count++;
        }
    return n;
}

static int counter(struct gw_tl_build *b, const struct counter *c, struct gw_tl_series *s)
{
    if (!begin(b, s, gw_trace_text(b->an->t, c->name)))
        return GW_ENOMEM;
    for (size_t i = 0; i < gw_trace_count(b->an->t); i++) {
        const struct gw_event *e = gw_ev(b->an, (uint32_t)i);
        if (e->kind == GW_KIND_COUNTER && e->name == c->name && e->lane == c->lane && (e->flags & GW_EV_HAS_ARG0))
            widen(s, e->start - b->tl->zero, gw_counter_value(e));
    }
    return GW_OK;
}

int gw_tl_series_make(struct gw_tl_build *b)
{
    struct gw_tl_series *list = gw_arena_calloc(b->arena, SERIES_SHOWN + 1, sizeof *list);
    struct counter c[SERIES_SHOWN];
    if (!list)
        return GW_ENOMEM;
    int rc = queue(b, list);
    if (rc < 0)
        return rc;
    size_t n = (size_t)rc, m = counters(b, c, SERIES_SHOWN);
    for (size_t i = 0; i < m; i++) {
        if (c[i].count < 2) /* a single value is no curve */
            continue;
        if (counter(b, c + i, list + n++) < 0)
            return GW_ENOMEM;
    }
    b->tl->series = list;
    b->tl->series_count = n;
    return GW_OK;
}
