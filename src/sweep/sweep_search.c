/*
 * sweep_search.c - which point to run next. Stateless: everything follows from the points as they are, so that a sweep
 * that was interrupted goes on where it was.
 */
#include <math.h>
#include <string.h>

#include "sweep/sweep.h"

enum {
    ALL_OF_THEM = 4,    /* a list this short is measured whole */
    SPREAD = 4,         /* points spread over a longer one */
    FLAT_DOUBLINGS = 2, /* a batch that was doubled so often without a gain is not grown further */
    GIVE_UP = 2         /* failures without a success */
};
#define FAR_BELOW 0.80     /* of the best: such a point cannot be the knee ... */
#define FAR_PRECISION 0.20 /* ... and need not be known better than this */

static int is_untried(const struct gw_sweep_line *l, size_t i) { return gw_sweep_on(l, i)->state == GW_SWEEP_UNTRIED; }
static int is_measured(const struct gw_sweep_line *l, size_t i)
{
    return gw_sweep_on(l, i)->state == GW_SWEEP_MEASURED;
}

/* --- what memory forbids --- */

/* GPU memory that value i of a batch would need: a straight line through the two largest that were measured. */
static double gpu_bytes_at(const struct gw_sweep_line *l, size_t i, double *total)
{
    size_t a = GW_SWEEP_NONE, b = GW_SWEEP_NONE;
    for (size_t k = 0; k < i; k++)
        if (is_measured(l, k) && !isnan(gw_sweep_on(l, k)->last.gpu_bytes)) {
            a = b;
            b = k;
        }
    if (a == GW_SWEEP_NONE)
        return NAN;
    const double *v = l->s->knob[l->knob].number;
    double at_a = gw_sweep_on(l, a)->last.gpu_bytes, at_b = gw_sweep_on(l, b)->last.gpu_bytes;
    *total = gw_sweep_on(l, b)->last.gpu_total;
    return at_b + (at_b - at_a) / (v[b] - v[a]) * (v[i] - v[b]);
}

/* Memory that the workers at value i would need beyond what they have now, and what is free. */
static double host_bytes_at(const struct gw_sweep_line *l, size_t i, double *available)
{
    for (size_t k = i; k-- > 0;) {
        const struct gw_sweep_run *r = &gw_sweep_on(l, k)->last;
        double before = l->s->knob[l->knob].number[k];
        if (!is_measured(l, k) || isnan(r->worker_bytes) || isnan(r->host_free) || !(r->workers > 0) ||
            r->workers != before)
            continue; /* only a knob that is the number of processes says what more of it needs */
        *available = r->host_free;
        return r->worker_bytes * (l->s->knob[l->knob].number[i] - before);
    }
    return NAN;
}

/* 1: value i is left out because memory would not do. */
static int forbidden(struct gw_sweep *s, const struct gw_sweep_line *l, size_t i)
{
    struct gw_sweep_point *p = s->point + gw_sweep_line_point(l, i);
    double have = NAN, need = NAN;
    if (s->exhaustive || !s->knob[l->knob].is_number)
        return 0;
    if (s->knob[l->knob].is_batch) {
        need = gpu_bytes_at(l, i, &have);
        if (need > GW_SWEEP_MEMORY_FULL * have)
            p->skip = GW_SWEEP_SKIP_GPU_MEMORY;
    } else {
        need = host_bytes_at(l, i, &have);
        if (need > have)
            p->skip = GW_SWEEP_SKIP_HOST_MEMORY;
    }
    if (p->skip == GW_SWEEP_SKIP_NONE)
        return 0;
    p->state = GW_SWEEP_SKIPPED;
    p->expected_bytes = need;
    return 1;
}

/* Everything untried beyond the first failure is left out. */
static void skip_beyond(struct gw_sweep *s, const struct gw_sweep_line *l)
{
    size_t bound = gw_sweep_line_bound(l);
    for (size_t i = bound + 1; bound < l->n && i < l->n; i++) {
        struct gw_sweep_point *p = s->point + gw_sweep_line_point(l, i);
        if (p->state == GW_SWEEP_UNTRIED) {
            p->state = GW_SWEEP_SKIPPED;
            p->skip = GW_SWEEP_SKIP_BOUND;
        }
    }
}

/* --- along one line --- */

/* Does the line fail wherever it was tried? */
static int is_hopeless(const struct gw_sweep_line *l)
{
    size_t failed = 0;
    for (size_t i = 0; i < l->n; i++) {
        if (is_measured(l, i))
            return 0;
        failed += gw_sweep_on(l, i)->state == GW_SWEEP_FAILED;
    }
    return failed >= GIVE_UP || (failed && l->n == 1);
}

static size_t first_untried(const struct gw_sweep_line *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (is_untried(l, i))
            return i;
    return GW_SWEEP_NONE;
}

/* A batch grows from below, doubled each time, until that brings nothing. */
static size_t grown(const struct gw_sweep_line *l)
{
    const double *v = l->s->knob[l->knob].number;
    double best = 0;
    size_t last = GW_SWEEP_NONE, flat = 0;
    for (size_t i = 0; i < l->n; i++) {
        if (is_untried(l, i))
            continue;
        if (!is_measured(l, i)) {
            last = i;
            continue;
        }
        double rate = gw_sweep_on(l, i)->rate;
        int doubled = last == GW_SWEEP_NONE || v[i] >= 2 * v[last] * (1 - 1e-9);
        if (rate > best * (1 + GW_SWEEP_TOLERANCE))
            flat = 0;
        else if (doubled)
            flat++;
        best = rate > best ? rate : best;
        last = i;
    }
    if (last == GW_SWEEP_NONE)
        return 0;
    if (flat >= FLAT_DOUBLINGS)
        return GW_SWEEP_NONE;
    for (size_t i = last + 1; i < l->n; i++)
        if (is_untried(l, i) && (v[i] >= 2 * v[last] * (1 - 1e-9) || i + 1 == l->n))
            return i;
    return GW_SWEEP_NONE;
}

/* A few, spread over the list, the small ones first. */
static size_t spread(const struct gw_sweep_line *l)
{
    for (size_t k = 0; k < SPREAD; k++) {
        size_t i = (k * (l->n - 1) + (SPREAD - 1) / 2) / (SPREAD - 1);
        if (is_untried(l, i))
            return i;
    }
    return GW_SWEEP_NONE;
}

static size_t middle_untried(const struct gw_sweep_line *l, size_t lo, size_t hi)
{
    size_t mid = lo + (hi - lo) / 2;
    for (size_t d = 0; d <= hi - lo; d++) { /* the nearest to the middle */
        if (mid >= lo + 1 + d && is_untried(l, mid - d))
            return mid - d;
        if (mid + d < hi && mid + d > lo && is_untried(l, mid + d))
            return mid + d;
    }
    return GW_SWEEP_NONE;
}

/* Next one below index `at` that was measured, or above it; GW_SWEEP_NONE. */
static size_t neighbour(const struct gw_sweep_line *l, size_t at, int up)
{
    for (size_t i = at; up ? ++i < l->n : i-- > 0;)
        if (is_measured(l, i))
            return i;
    return GW_SWEEP_NONE;
}

/* Halves the stretch that holds the knee; then looks for the end below a failure, or for a peak beside the best. */
static size_t refine(const struct gw_sweep_line *l)
{
    size_t knee = gw_sweep_line_knee(l), best = gw_sweep_line_best(l), next;
    if (knee == GW_SWEEP_NONE)
        return GW_SWEEP_NONE;
    size_t below = neighbour(l, knee, 0);
    if (knee && (next = middle_untried(l, below == GW_SWEEP_NONE ? 0 : below, knee)) != GW_SWEEP_NONE)
        return next;
    size_t bound = gw_sweep_line_bound(l), left = neighbour(l, best, 0), right = neighbour(l, best, 1);
    if (knee == best && right == GW_SWEEP_NONE && bound < l->n) /* it grew until it failed: how far does it go? */
        return middle_untried(l, best, bound);
    if (left == GW_SWEEP_NONE || right == GW_SWEEP_NONE)
        return GW_SWEEP_NONE;
    size_t high = gw_sweep_on(l, left)->rate > gw_sweep_on(l, right)->rate ? left : right;
    if (gw_sweep_on(l, high)->rate > (1 - gw_sweep_line_tolerance(l, best, high)) * gw_sweep_on(l, best)->rate)
        return GW_SWEEP_NONE; /* a plateau */
    return high < best ? middle_untried(l, high, best) : middle_untried(l, best, high);
}

/* The next value on the line. */
static int line_next(struct gw_sweep *s, const struct gw_sweep_line *l, struct gw_sweep_ask *ask)
{
    for (;;) {
        size_t i;
        ask->phase = GW_SWEEP_SEARCH;
        if (s->exhaustive || !s->knob[l->knob].is_number) {
            i = first_untried(l);
        } else {
            skip_beyond(s, l);
            if (is_hopeless(l))
                return 0;
            i = s->knob[l->knob].is_batch ? grown(l) : l->n <= ALL_OF_THEM ? first_untried(l) : spread(l);
            if (i == GW_SWEEP_NONE) {
                ask->phase = GW_SWEEP_REFINE;
                i = refine(l);
            }
        }
        if (i == GW_SWEEP_NONE)
            return 0;
        if (forbidden(s, l, i))
            continue;
        ask->point = gw_sweep_line_point(l, i);
        return 1;
    }
}

/* --- two knobs --- */

static size_t or_first(size_t i) { return i == GW_SWEEP_NONE ? 0 : i; }

void gw_sweep_held(const struct gw_sweep *s, size_t held[GW_SWEEP_KNOBS])
{
    held[0] = held[1] = 0;
    if (s->knobs < 2)
        return;
    struct gw_sweep_line first = gw_sweep_line_of(s, 0, 0);
    held[1] = or_first(gw_sweep_line_knee(&first)); /* value of knob 0 on the line of knob 1 */
    struct gw_sweep_line second = gw_sweep_line_of(s, 1, held[1]);
    held[0] = or_first(gw_sweep_line_knee(&second)); /* value of knob 1 on the line of knob 0 */
}

/* Knob 0 with knob 1 at its first value, then knob 1 at the knee of it, then the neighbours of that knee again. */
static int grid_next(struct gw_sweep *s, struct gw_sweep_ask *ask)
{
    size_t held[GW_SWEEP_KNOBS];
    if (s->exhaustive) {
        for (size_t p = 0; p < s->points; p++)
            if (s->point[p].state == GW_SWEEP_UNTRIED) {
                ask->point = p;
                ask->phase = GW_SWEEP_SEARCH;
                return 1;
            }
        return 0;
    }
    struct gw_sweep_line first = gw_sweep_line_of(s, 0, 0);
    if (line_next(s, &first, ask))
        return 1;
    size_t knee = gw_sweep_line_knee(&first);
    if (knee == GW_SWEEP_NONE)
        return 0;
    struct gw_sweep_line second = gw_sweep_line_of(s, 1, knee);
    if (line_next(s, &second, ask))
        return 1;
    gw_sweep_held(s, held);
    struct gw_sweep_line again = gw_sweep_line_of(s, 0, held[0]);
    ask->phase = GW_SWEEP_REFINE;
    for (size_t i = knee ? knee - 1 : 0; i <= knee + 1 && i < again.n; i++)
        if (is_untried(&again, i) && !forbidden(s, &again, i)) {
            ask->point = gw_sweep_line_point(&again, i);
            return 1;
        }
    return 0;
}

/* --- again --- */

#define SAME 0.98 /* of the best: on a plateau chance decides which point is the best */

/* Was a point as good as the best run often enough already? */
static int is_known(const struct gw_sweep_line *l, size_t best, size_t knee)
{
    for (size_t i = 0; i < l->n; i++)
        if (i != knee && is_measured(l, i) && (int)gw_sweep_on(l, i)->runs >= l->s->repeats &&
            gw_sweep_on(l, i)->rate >= SAME * gw_sweep_on(l, best)->rate)
            return 1;
    return 0;
}

/* The points that decide on a line: the knee, the one below it, the best. Their number. */
static size_t deciding(const struct gw_sweep_line *l, size_t out[3])
{
    size_t knee = gw_sweep_line_knee(l), best = gw_sweep_line_best(l), n = 0;
    if (knee == GW_SWEEP_NONE)
        return 0;
    size_t below = neighbour(l, knee, 0), above = neighbour(l, knee, 1);
    out[n++] = knee;
    if (below != GW_SWEEP_NONE)
        out[n++] = below;
    if (best != knee && !is_known(l, best, knee))
        out[n++] = best;
    else if (n < 2 && above != GW_SWEEP_NONE)
        out[n++] = above; /* one point alone shows no drift */
    return n;
}

struct again {
    const struct gw_sweep *s;
    size_t found, fewest;
};

/* Fewest runs first; among equals the one whose last run is youngest, so that each round goes the other way. */
static void offer(struct again *a, size_t point)
{
    const struct gw_sweep_point *p = a->s->point + point;
    if (p->state != GW_SWEEP_MEASURED || p->runs > a->fewest || (int)p->runs >= a->s->repeats)
        return;
    if (p->runs < a->fewest || a->found == GW_SWEEP_NONE || p->last.at_s > a->s->point[a->found].last.at_s) {
        a->fewest = p->runs;
        a->found = point;
    }
}

static int repeat_next(const struct gw_sweep *s, struct gw_sweep_ask *ask)
{
    size_t held[GW_SWEEP_KNOBS], few[3];
    struct again a = {.s = s, .found = GW_SWEEP_NONE, .fewest = GW_SWEEP_RUNS};
    gw_sweep_held(s, held);
    for (size_t k = 0; k < s->knobs && !s->exhaustive; k++) {
        struct gw_sweep_line l = gw_sweep_line_of(s, k, held[k]);
        for (size_t i = 0, n = deciding(&l, few); i < n; i++)
            offer(&a, gw_sweep_line_point(&l, few[i]));
    }
    for (size_t p = 0; p < s->points && s->exhaustive; p++)
        offer(&a, p);
    ask->point = a.found;
    ask->phase = GW_SWEEP_REPEAT;
    return a.found != GW_SWEEP_NONE;
}

/* A guess for the progress line: what the search, the halving and the repeats may still take. */
static size_t runs_left(const struct gw_sweep *s, const struct gw_sweep_ask *ask)
{
    size_t tried = 0, more = (size_t)(s->repeats > 1 ? s->repeats - 1 : 0), n = 0, missing = 0;
    for (size_t p = 0; p < s->points; p++) {
        tried += s->point[p].runs > 0;
        if (s->exhaustive && s->point[p].state != GW_SWEEP_SKIPPED && s->point[p].runs < more + 1)
            missing += more + 1 - s->point[p].runs;
    }
    if (s->exhaustive)
        return missing ? missing : 1;
    if (ask->phase == GW_SWEEP_REPEAT) {
        size_t done = s->runs > tried ? s->runs - tried : 0, all = 3 * s->knobs * more;
        return all > done ? all - done : 1;
    }
    for (size_t k = 0; k < s->knobs; k++) {
        size_t len = s->knob[k].n, steps = 0;
        for (size_t gap = len / SPREAD; gap > 1; gap /= 2)
            steps++;
        n += len <= ALL_OF_THEM || !s->knob[k].is_number ? len : s->knob[k].is_batch ? len : SPREAD + steps;
    }
    return (n > tried ? n - tried : 1) + 3 * s->knobs * more;
}

int gw_sweep_next(struct gw_sweep *s, struct gw_sweep_ask *ask)
{
    memset(ask, 0, sizeof *ask);
    struct gw_sweep_line only = gw_sweep_line_of(s, 0, 0);
    if (!(s->knobs > 1 ? grid_next(s, ask) : line_next(s, &only, ask)) && !repeat_next(s, ask))
        return 0;
    ask->best = NAN;
    for (size_t p = 0; p < s->points; p++)
        if (s->point[p].state == GW_SWEEP_MEASURED && !(s->point[p].rate <= ask->best))
            ask->best = s->point[p].rate;
    ask->left = runs_left(s, ask);
    return 1;
}

int gw_sweep_is_far(double rate, double error, double best) { return error <= FAR_PRECISION && rate * (1 + error) < FAR_BELOW * best; }

int gw_sweep_enough(const struct gw_sweep *s, const struct gw_sweep_ask *ask, double rate, double error)
{
    if (isnan(rate))
        return 0;
    return error <= s->precision || gw_sweep_is_far(rate, error, ask->best);
}
