/* activity.c - see activity.h */
#include "model/activity.h"

#include <math.h>
#include <string.h>

void gw_activity_begin(struct gw_activity_builder *b, int64_t device)
{
    b->device = device;
    b->least = 0;
    gw_array_init(&b->runs, sizeof(struct gw_activity_run), GW_ACTIVITY_RUNS);
}

static void join(struct gw_activity_run *a, const struct gw_activity_run *b)
{
    double na = (double)(a->end - a->start), nb = (double)(b->end - b->start);
    for (int k = 0; k < GW_ACT_COUNT; k++)
        a->share[k] = isnan(a->share[k]) ? b->share[k]
                      : isnan(b->share[k]) ? a->share[k] : (float)((a->share[k] * na + b->share[k] * nb) / (na + nb));
    a->end = b->end;
}

/* Stamps are rounded: a hole of less than a hundredth is none. */
static int may_join(const struct gw_activity_run *a, const struct gw_activity_run *b, int64_t least)
{
    return b->start - a->end <= (b->end - b->start) / 100 && a->end - a->start < least;
}

/* Room for more: stretches shorter than twice the shortest so far go into their neighbours. */
static void thin(struct gw_activity_builder *b)
{
    struct gw_activity_run *r = b->runs.data;
    size_t n = b->runs.len;
    while (n >= GW_ACTIVITY_RUNS) {
        b->least = b->least ? b->least * 2 : 1000000;
        size_t out = 0;
        for (size_t i = 1; i < n; i++) {
            if (may_join(&r[out], &r[i], b->least))
                join(&r[out], &r[i]);
            else
                r[++out] = r[i];
        }
        n = out + 1;
        if (b->least > INT64_MAX / 4)
            n = n < GW_ACTIVITY_RUNS ? n : GW_ACTIVITY_RUNS - 1; /* nothing but holes: the last ones go */
    }
    b->runs.len = n;
}

int gw_activity_add(struct gw_activity_builder *b, int64_t start, int64_t end, const float share[GW_ACT_COUNT])
{
    struct gw_activity_run *last = b->runs.len ? (struct gw_activity_run *)b->runs.data + b->runs.len - 1 : NULL;
    struct gw_activity_run r = {.start = last && start < last->end ? last->end : start, .end = end};
    if (r.end <= r.start || isnan(share[GW_ACT_ENGINE]))
        return 0;
    memcpy(r.share, share, sizeof r.share);
    if (last && may_join(last, &r, b->least)) {
        join(last, &r);
        return 0;
    }
    if (b->runs.len == GW_ACTIVITY_RUNS)
        thin(b);
    struct gw_activity_run *to = gw_array_push(&b->runs);
    if (!to)
        return GW_ENOMEM;
    *to = r;
    return 0;
}

int gw_activity_finish(struct gw_activity_builder *b, struct gw_arena *arena, struct gw_activity *out)
{
    struct gw_activity_run *r = gw_arena_calloc(arena, b->runs.len, sizeof *r);
    out->device = b->device;
    out->run = r;
    out->count = r ? b->runs.len : 0;
    if (r && b->runs.len)
        memcpy(r, b->runs.data, b->runs.len * sizeof *r);
    int rc = r || !b->runs.len ? 0 : GW_ENOMEM;
    gw_array_free(&b->runs);
    return rc;
}

/* First stretch that ends after `at`. */
static size_t find(const struct gw_activity *a, int64_t at)
{
    size_t lo = 0, hi = a->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (a->run[mid].end <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

double gw_activity_mean(const struct gw_activity *a, enum gw_activity_of what, int64_t from, int64_t to, int64_t *measured)
{
    double sum = 0, ns = 0;
    for (size_t i = find(a, from); i < a->count && a->run[i].start < to; i++) {
        const struct gw_activity_run *r = a->run + i;
        int64_t s = r->start > from ? r->start : from, e = r->end < to ? r->end : to;
        if (isnan(r->share[what]))
            continue;
        sum += r->share[what] * (double)(e - s);
        ns += (double)(e - s);
    }
    if (measured)
        *measured = (int64_t)ns;
    return ns > 0 ? sum / ns : NAN;
}
