/* Idle time of the steady window by line of code, operator or call, each with its cause. */
#include <stdlib.h>

#include "engine/samples.h"
#include "layers/finding.h"
#include "report/html/timeline.h"

static int more(const void *a, const void *b)
{
    const struct gw_tl_place *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    return x->cause != y->cause ? (x->cause > y->cause ? 1 : -1) : (x->count < y->count) - (x->count > y->count);
}

/* The part of [from, to) inside the steady window, or all of it when there is none. */
static int64_t inside(const struct gw_analysis *an, int64_t from, int64_t to)
{
    if (an->w1 > an->w0) {
        from = from > an->w0 ? from : an->w0;
        to = to < an->w1 ? to : an->w1;
    }
    return to > from ? to - from : 0;
}

static void tally(const struct gw_analysis *an, const struct gw_dev *d, struct gw_places **by_cause, int64_t *ns)
{
    for (size_t g = 0; g < d->ngaps; g++) {
        int64_t at = d->gaps[g].start;
        for (uint32_t k = 0; k < d->gaps[g].pieces; k++) {
            const struct gw_piece *p = d->pieces + d->gaps[g].first_piece + k;
            int64_t part = inside(an, at, at + p->ns);
            if (part > 0) {
                gw_places_add(by_cause[p->cause], p->culprit != GW_NONE ? p->culprit : d->gaps[g].call, part);
                ns[p->cause] += part;
            }
            at += p->ns;
        }
    }
}

int gw_tl_places_make(struct gw_tl_build *b)
{
    const struct gw_analysis *an = b->an;
    const struct gw_dev *d = an->dev + an->main;
    struct gw_diag *diag = gw_arena_alloc(b->arena, sizeof *diag); /* what the tally of places needs of it */
    struct gw_places *by_cause[GW_CAUSE_COUNT];
    int64_t ns[GW_CAUSE_COUNT] = {0};
    struct gw_array all;
    if (!diag)
        return GW_ENOMEM;
    diag->an = an;
    diag->dev = d;
    diag->arena = b->arena;
    gw_array_init(&all, sizeof(struct gw_tl_place), 0);
    for (unsigned c = 0; c < GW_CAUSE_COUNT; c++)
        by_cause[c] = gw_places_new(diag);
    tally(an, d, by_cause, ns);
    for (unsigned c = 0; c < GW_CAUSE_COUNT; c++) {
        struct gw_draft f = {0};
        gw_array_init(&f.where, sizeof(struct gw_where), 0);
        gw_places_done(by_cause[c], &f, GW_TL_PLACES);
        const struct gw_where *w = f.where.data;
        for (size_t i = 0; i < f.where.len; i++) {
            struct gw_tl_place *p = gw_array_push(&all);
            if (p)
                *p = (struct gw_tl_place){
                    c, w[i].file, w[i].line, w[i].text, (int64_t)(w[i].share * (double)ns[c] + 0.5), w[i].count};
        }
        b->tl->place_idle += ns[c];
        gw_array_free(&f.where);
    }
    if (all.len)
        qsort(all.data, all.len, sizeof(struct gw_tl_place), more);
    size_t n = all.len < GW_TL_PLACES ? all.len : GW_TL_PLACES;
    struct gw_tl_place *keep = gw_arena_calloc(b->arena, n, sizeof *keep);
    for (size_t i = 0; keep && i < n; i++)
        keep[i] = ((struct gw_tl_place *)all.data)[i];
    gw_array_free(&all);
    b->tl->places = keep;
    b->tl->place_count = keep ? n : 0;
    return keep ? GW_OK : GW_ENOMEM;
}
