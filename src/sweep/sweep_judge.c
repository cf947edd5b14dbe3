/* sweep_judge.c - what the measurements say. */
#include <math.h>
#include <string.h>

#include "sweep/sweep.h"

static const char *const kinds[GW_SWEEP_KINDS] = {"nothing", "one", "flat", "knee", "rising", "bounded", "open"};
const char *gw_sweep_kind_id(unsigned k) { return k < GW_SWEEP_KINDS ? kinds[k] : ""; }

/* Is no point more than the tolerance better than point i, whatever the noise? */
static int is_surely_there(const struct gw_sweep_line *l, size_t i)
{
    const struct gw_sweep_point *p = gw_sweep_on(l, i);
    for (size_t j = 0; j < l->n; j++) {
        const struct gw_sweep_point *q = gw_sweep_on(l, j);
        if (j != i && q->state == GW_SWEEP_MEASURED &&
            p->rate * (1 - hypot(p->error, q->error)) < (1 - GW_SWEEP_TOLERANCE) * q->rate)
            return 0;
    }
    return 1;
}

/* Which indices may hold the knee: from the first that may be within the tolerance of the best to the first that surely
 * is. */
static void knee_interval(const struct gw_sweep_line *l, size_t best, size_t knee, size_t *from, size_t *to)
{
    double top = gw_sweep_on(l, best)->rate;
    *from = *to = knee;
    for (size_t i = 0; i < knee; i++) {
        const struct gw_sweep_point *p = gw_sweep_on(l, i);
        double e = p->state == GW_SWEEP_MEASURED ? hypot(p->error, gw_sweep_on(l, best)->error) : 0;
        if (p->state == GW_SWEEP_MEASURED && p->rate * (1 + e) < (1 - GW_SWEEP_TOLERANCE) * top)
            *from = knee; /* surely below: the knee lies above it */
        else if (*from == knee && (p->state == GW_SWEEP_MEASURED || p->state == GW_SWEEP_UNTRIED))
            *from = i;
    }
    for (size_t i = knee; i < l->n; i++)
        if (gw_sweep_on(l, i)->state == GW_SWEEP_MEASURED && is_surely_there(l, i)) {
            *to = i;
            return;
        }
    *to = best; /* too much noise to be sure of any */
    for (size_t i = knee + 1; best == knee && i < l->n && *to == knee; i++)
        if (gw_sweep_on(l, i)->state == GW_SWEEP_MEASURED)
            *to = i;
}

/* Are all measured points the same, and are there enough of them over the list? */
static int is_flat(const struct gw_sweep_line *l, size_t best)
{
    size_t n = 0;
    double top = gw_sweep_on(l, best)->rate;
    for (size_t i = 0; i < l->n; i++) {
        const struct gw_sweep_point *p = gw_sweep_on(l, i);
        if (p->state != GW_SWEEP_MEASURED)
            continue;
        n++;
        if (p->rate < (1 - gw_sweep_line_tolerance(l, best, i)) * top)
            return 0;
    }
    return n >= 2;
}

/* Is the best the last of the list that could be measured, and clearly better than what comes before? */
static enum gw_sweep_kind kind_of(const struct gw_sweep_line *l, size_t best, size_t knee)
{
    size_t measured = 0, last = 0;
    for (size_t i = 0; i < l->n; i++)
        if (gw_sweep_on(l, i)->state == GW_SWEEP_MEASURED) {
            measured++;
            last = i;
        }
    if (measured < 2)
        return GW_SWEEP_ONE;
    if (is_flat(l, best))
        return GW_SWEEP_FLAT;
    if (!l->s->knob[l->knob].is_number || knee != last)
        return GW_SWEEP_KNEE;
    if (gw_sweep_line_bound(l) < l->n)
        return GW_SWEEP_BOUNDED;
    if (last + 1 == l->n)
        return GW_SWEEP_RISING;
    /* With one knob the search ends at the last value or beyond the knee; with two, one line is not followed to its end. */
    return l->s->knobs == 1 && gw_sweep_on(l, last + 1)->state == GW_SWEEP_UNTRIED ? GW_SWEEP_OPEN : GW_SWEEP_KNEE;
}

/* Throughput against batch, and the marks on GPU memory. */
static void batch_marks(const struct gw_sweep_line *l, struct gw_sweep_verdict *v)
{
    const double *number = l->s->knob[l->knob].number;
    size_t base = GW_SWEEP_NONE;
    int linear = 1;
    for (size_t i = 0; i < l->n; i++) {
        const struct gw_sweep_point *p = gw_sweep_on(l, i);
        if (p->state != GW_SWEEP_MEASURED)
            continue;
        size_t point = gw_sweep_line_point(l, i);
        if (base != GW_SWEEP_NONE) {
            const struct gw_sweep_point *b = gw_sweep_on(l, base);
            linear &= p->rate / b->rate >= 1 + (number[i] / number[base] - 1) * GW_SWEEP_SCALES - p->error - b->error;
            if (linear)
                v->linear = point;
        }
        base = i;
        double share = p->last.gpu_bytes / p->last.gpu_total;
        if (share <= GW_SWEEP_MEMORY_LOW)
            v->below_low = point;
        if (share <= GW_SWEEP_MEMORY_HIGH)
            v->below_high = point;
    }
}

static void count(const struct gw_sweep *s, struct gw_sweep_verdict *v)
{
    for (size_t p = 0; p < s->points; p++) {
        v->measured += s->point[p].state == GW_SWEEP_MEASURED;
        v->failed += s->point[p].state == GW_SWEEP_FAILED;
        v->skipped += s->point[p].state == GW_SWEEP_SKIPPED;
        v->untried += s->point[p].state == GW_SWEEP_UNTRIED;
    }
    for (size_t i = 0; i < s->runs; i++)
        v->spent_s += s->run[i].took_s;
    v->mean_s = s->runs ? v->spent_s / (double)s->runs : NAN;
}

void gw_sweep_judge(const struct gw_sweep *s, struct gw_sweep_verdict *v)
{
    size_t held[GW_SWEEP_KNOBS], from = 0, to = 0;
    memset(v, 0, sizeof *v);
    v->knee = v->best = v->from = v->to = v->linear = v->below_low = v->below_high = GW_SWEEP_NONE;
    v->tolerance = GW_SWEEP_TOLERANCE;
    count(s, v);
    gw_sweep_held(s, held);
    struct gw_sweep_line l = gw_sweep_line_of(s, 0, held[0]);
    size_t best = gw_sweep_line_best(&l);
    if (best == GW_SWEEP_NONE)
        return;
    size_t knee = gw_sweep_line_knee(&l);
    v->knee = gw_sweep_line_point(&l, knee);
    v->best = gw_sweep_line_point(&l, best);
    v->tolerance = gw_sweep_line_tolerance(&l, best, knee);
    v->kind = kind_of(&l, best, knee);
    knee_interval(&l, best, knee, &from, &to);
    v->from = gw_sweep_line_point(&l, from);
    v->to = gw_sweep_line_point(&l, to);
    if (s->knobs > 1) { /* the second knob may make a difference where the first makes none */
        struct gw_sweep_line m = gw_sweep_line_of(s, 1, knee);
        size_t top = gw_sweep_line_best(&m);
        if (v->kind == GW_SWEEP_FLAT && top != GW_SWEEP_NONE && !is_flat(&m, top))
            v->kind = GW_SWEEP_KNEE;
        if (v->kind == GW_SWEEP_ONE && top != GW_SWEEP_NONE)
            v->kind = is_flat(&m, top) ? GW_SWEEP_FLAT : kind_of(&m, top, gw_sweep_line_knee(&m));
    }
    for (size_t k = 0; k < s->knobs; k++)
        if (s->knob[k].is_batch) {
            struct gw_sweep_line b = gw_sweep_line_of(s, k, k == 0 ? held[0] : knee);
            batch_marks(&b, v);
        }
}
