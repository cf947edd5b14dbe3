#include "engine/ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/ranks_match.h"

#define SAME_WORK 0.10       /* share of kernel time under common names below which two ranks run different jobs */
#define LATE_SHARE 0.4       /* of the latest rank's lateness: such ranks are named together */
#define SYSTEMATIC_SHARE 0.6 /* of all lateness */
#define SYSTEMATIC_MIN 3     /* matched collectives */
#define SYSTEMATIC_STEPS 0.6 /* of the steps in which lateness costs something: in so many the latest rank is late */
#define LATE_IN_STEP 0.25    /* of the lateness of a step's latest rank: a rank with that much is late in that step */
#define REASON_SHARE 0.1     /* of the first reason: less is not worth a word */
#define REASON_MIN 0.05      /* of the rank's lateness: less explains nothing */
#define SAVED_MAX 0.95       /* of the wall: what a gain may claim at most */

struct gw_cmp { /* a comparison being made */
    const struct gw_rank_summary *const *list;
    size_t n;
    struct gw_arena *arena;
    struct gw_ranks *x;
    struct gw_matches m;
    struct gw_ranks_row *row;
    unsigned char *late;     /* [rank]: is it one of the late ones? */
    double *late_ns;         /* [rank] */
    int64_t *wait, *exposed; /* [rank], of the match at hand */
    int64_t *sorted;         /* scratch */
    struct gw_array steps;   /* int64_t: numbers of the steps */
    struct gw_array in_step; /* n doubles a step: lateness of each rank */
    size_t step_at;          /* where the last one was found */
};

static int cmp_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static const uint32_t *row_of(const struct gw_cmp *c, size_t i) { return (const uint32_t *)c->m.rows.data + i * c->n; }

/* Median of `k` values in c->sorted: the mean of the middle two when there is an even number. */
static int64_t median_sorted(struct gw_cmp *c, size_t k)
{
    if (!k)
        return 0;
    qsort(c->sorted, k, sizeof *c->sorted, cmp_i64);
    return c->sorted[(k - 1) / 2] / 2 + c->sorted[k / 2] / 2 + (c->sorted[(k - 1) / 2] % 2 + c->sorted[k / 2] % 2) / 2;
}

/* ---- do they belong together? ---- */

/* Kernel time under common names: sum of the smaller shares, collectives left out. */
static double same_work(const struct gw_rank_summary *a, const struct gw_rank_summary *b)
{
    double ta = 0, tb = 0, same = 0;
    const char *comm = gw_kclass_name(GW_K_COMM);
    for (size_t i = 0; i < a->kernel_count; i++)
        ta += strcmp(a->kernels[i].kclass, comm) ? a->kernels[i].ns : 0;
    for (size_t i = 0; i < b->kernel_count; i++)
        tb += strcmp(b->kernels[i].kclass, comm) ? b->kernels[i].ns : 0;
    if (ta <= 0 || tb <= 0)
        return 1; /* nothing to compare */
    for (size_t i = 0; i < a->kernel_count; i++)
        for (size_t k = 0; k < b->kernel_count; k++)
            if (!strcmp(a->kernels[i].name, b->kernels[k].name) && strcmp(a->kernels[i].kclass, comm))
                same += fmin(a->kernels[i].ns / ta, b->kernels[k].ns / tb);
    return same;
}

static void fit(struct gw_cmp *c)
{
    struct gw_ranks *x = c->x;
    x->fit = GW_RANKS_ONE;
    if (c->n < 2)
        return;
    x->fit = GW_RANKS_FIT;
    for (x->b = 1; x->b < c->n; x->b++)
        for (x->a = 0; x->a < x->b; x->a++) {
            const struct gw_rank_summary *a = c->list[x->a], *b = c->list[x->b];
            int sizes = a->world_size >= 0 && b->world_size >= 0;
            x->fit = sizes && (a->world_size != b->world_size || a->world_size < 2) ? GW_RANKS_WORLD
                     : a->rank >= 0 && a->rank == b->rank                           ? GW_RANKS_DUPLICATE
                     : a->rank < 0 && !a->ncoll                                     ? GW_RANKS_UNKNOWN
                     : same_work(a, b) < SAME_WORK                                  ? GW_RANKS_OTHER
                                                                                    : GW_RANKS_FIT;
            if (x->fit != GW_RANKS_FIT)
                return;
        }
    for (x->a = 0; x->a < c->n; x->a++)
        if (!c->list[x->a]->ncoll) {
            x->fit = GW_RANKS_NO_COMM;
            return;
        }
    x->a = x->b = 0;
}

/* ---- one collective ---- */

struct gw_one { /* of a match */
    size_t members, last;
    int cold;                 /* a rank's recording begins with it: who came when says nothing */
    int64_t transfer, median; /* median wait */
    int64_t median_exposed;   /* of all but the last */
    double hidden;            /* exposed share of the waiting, 0..1: lateness counts as far as it costs time */
};

/* 1 when the match says something about the job. Fills c->wait and c->exposed. */
static int look_at(struct gw_cmp *c, const uint32_t *row, struct gw_one *o)
{
    double wait = 0, exposed = 0;
    *o = (struct gw_one){.transfer = INT64_MAX};
    for (size_t r = 0; r < c->n; r++) {
        if (row[r] == GW_NONE)
            continue;
        const struct gw_rank_coll *k = c->list[r]->coll + row[r];
        o->cold |= k->cold;
        o->members++;
        if (k->end - k->start < o->transfer) {
            o->transfer = k->end - k->start;
            o->last = r;
        }
    }
    size_t n = 0;
    int64_t free_of_wait = c->list[o->last]->coll[row[o->last]].exposed;
    for (size_t r = 0; r < c->n; r++) {
        if (row[r] == GW_NONE)
            continue;
        const struct gw_rank_coll *k = c->list[r]->coll + row[r];
        /* the last rank shows what is exposed without waiting: others could hide as much of the transfer */
        int64_t e = k->exposed - free_of_wait;
        c->wait[r] = k->end - k->start - o->transfer;
        c->exposed[r] = c->wait[r] > 0 && e > 0 ? e : 0;
        c->sorted[n++] = c->wait[r];
        wait += (double)c->wait[r];
        exposed += (double)c->exposed[r];
    }
    o->median = median_sorted(c, n);
    n = 0;
    for (size_t r = 0; r < c->n; r++)
        if (row[r] != GW_NONE && r != o->last)
            c->sorted[n++] = c->exposed[r];
    o->median_exposed = median_sorted(c, n);
    o->hidden = wait > 0 ? fmin(exposed / wait, 1) : 0;
    return !o->cold;
}

static double lateness(const struct gw_cmp *c, const struct gw_one *o, size_t r)
{
    return c->wait[r] < o->median ? (double)(o->median - c->wait[r]) * o->hidden : 0;
}

/* Adds the lateness of the match in c->wait to its step. */
static int add_step(struct gw_cmp *c, const uint32_t *row, const struct gw_one *o, int64_t step)
{
    const int64_t *known = c->steps.data;
    size_t k = 0, at = c->steps.len;
    for (; k < c->steps.len; k++) { /* matches come in order, class by class: the next one is near the last */
        at = (c->step_at + k) % c->steps.len;
        if (known[at] == step)
            break;
    }
    if (k == c->steps.len) {
        int64_t *s = gw_array_push(&c->steps);
        at = c->steps.len - 1;
        if (!s || !gw_array_push(&c->in_step))
            return GW_ENOMEM;
        *s = step;
    }
    c->step_at = at;
    double *late = (double *)c->in_step.data + at * c->n;
    for (size_t r = 0; r < c->n; r++)
        late[r] += row[r] != GW_NONE ? lateness(c, o, r) : 0;
    return GW_OK;
}

/* ---- sums ---- */

static int add_match(struct gw_cmp *c, size_t i, double *balanced, double *unlate)
{
    struct gw_one o;
    const uint32_t *row = row_of(c, i);
    struct gw_ranks_class *k = (struct gw_ranks_class *)c->m.classes.data + ((const uint32_t *)c->m.cls.data)[i];
    int counts = look_at(c, row, &o);
    for (size_t r = 0; !counts && r < c->n; r++)
        c->row[r].cold += row[r] != GW_NONE ? c->exposed[r] : 0;
    if (!counts)
        return GW_OK;
    int64_t wait = 0, step = -1;
    c->row[o.last].last++;
    *unlate += (double)o.median_exposed * (double)o.members / (double)c->n;
    for (size_t r = 0; r < c->n; r++) {
        if (row[r] == GW_NONE)
            continue;
        const struct gw_rank_coll *e = c->list[r]->coll + row[r];
        step = e->step;
        c->row[r].wait += c->wait[r];
        c->row[r].wait_exposed += c->exposed[r];
        c->row[r].transfer += o.transfer;
        c->row[r].transfer_exposed += e->exposed - c->exposed[r];
        c->row[r].seen++;
        c->late_ns[r] += lateness(c, &o, r);
        wait += c->wait[r];
        *balanced += (double)c->exposed[r] / (double)c->n;
    }
    k->count++;
    k->transfer += o.transfer;
    k->wait += wait / (int64_t)o.members;
    c->x->matched += (int64_t)o.members;
    return step >= 0 ? add_step(c, row, &o, step) : GW_OK;
}

static int transfer_medians(struct gw_cmp *c)
{
    struct gw_ranks_class *k = c->m.classes.data;
    int64_t *v = calloc(c->m.rows.len + 1, sizeof *v);
    if (!v)
        return GW_ENOMEM;
    for (uint32_t q = 0; q < c->m.classes.len; q++) {
        size_t n = 0;
        struct gw_one o;
        for (size_t i = 0; i < c->m.rows.len; i++)
            if (((const uint32_t *)c->m.cls.data)[i] == q && look_at(c, row_of(c, i), &o))
                v[n++] = o.transfer;
        if (n)
            qsort(v, n, sizeof *v, cmp_i64);
        k[q].transfer_median = n ? v[n / 2] : -1;
        /* A group of all that were compared may well be the whole job. With some of its ranks not here, the last one may be
         * among those, and what looks like transfer is waiting. */
        int64_t world = c->list[0]->world_size;
        int missing = k[q].ranks == (int64_t)c->n && world > k[q].ranks;
        k[q].bus_bandwidth =
            n && !missing && k[q].bytes > 0 && k[q].transfer_median > 0
                ? (double)k[q].bytes * gw_coll_bus_factor(k[q].kind, k[q].ranks) / ((double)k[q].transfer_median * 1e-9)
                : NAN;
    }
    free(v);
    return GW_OK;
}

/* ---- who is late ---- */

static void choose_late(struct gw_cmp *c)
{
    struct gw_ranks *x = c->x;
    size_t *out = gw_arena_calloc(c->arena, c->n, sizeof *out);
    double most = 0, all = 0, theirs = 0;
    for (size_t r = 0; r < c->n; r++) {
        c->row[r].late = (int64_t)c->late_ns[r];
        most = fmax(most, c->late_ns[r]);
        all += c->late_ns[r];
    }
    x->late = out;
    for (size_t r = 0; out && most > 0 && r < c->n; r++)
        if (c->late_ns[r] >= LATE_SHARE * most) {
            size_t k = x->late_count++;
            for (; k > 0 && c->late_ns[out[k - 1]] < c->late_ns[r]; k--)
                out[k] = out[k - 1];
            out[k] = r;
            theirs += c->late_ns[r];
        }
    x->late_share = all > 0 ? theirs / all : 0;
    int64_t seen = 0;
    for (size_t r = 0; r < c->n; r++)
        seen = c->row[r].seen > seen ? c->row[r].seen : seen;
    x->systematic =
        x->late_count && x->late_count * 2 <= c->n && x->late_share >= SYSTEMATIC_SHARE && seen >= SYSTEMATIC_MIN;
    for (size_t k = 0; k < x->late_count; k++)
        c->late[x->late[k]] = 1;
}

/* Wall that would be saved if the late ranks came with the latest of the others: what that one still waits. */
static void add_saved(struct gw_cmp *c, size_t i, double *saved)
{
    struct gw_one o;
    const uint32_t *row = row_of(c, i);
    if (!look_at(c, row, &o))
        return;
    int64_t least = INT64_MAX;
    double late = 0;
    for (size_t r = 0; r < c->n; r++) {
        if (row[r] == GW_NONE)
            continue;
        if (c->late[r])
            late += lateness(c, &o, r);
        else
            least = c->exposed[r] < least ? c->exposed[r] : least;
    }
    if (least != INT64_MAX && late > 0)
        *saved += (double)least * (double)o.members / (double)c->n;
}

static double sum_of(const double *v, size_t n, const unsigned char *only)
{
    double sum = 0;
    for (size_t r = 0; r < n; r++)
        sum += !only || only[r] ? v[r] : 0;
    return sum;
}

/* In how many steps are they late, and is it always the same rank? */
static void judge_steps(struct gw_cmp *c)
{
    struct gw_ranks *x = c->x;
    const double *v = c->in_step.data;
    double all = 0, worst = 0, theirs = 0;
    size_t matter = 0, first = 0;
    x->seen_steps = (int64_t)c->steps.len;
    for (size_t i = 0; i < c->steps.len; i++)
        all += sum_of(v + i * c->n, c->n, NULL) / (double)c->steps.len;
    for (size_t i = 0; i < c->steps.len; i++, v += c->n) {
        double step = sum_of(v, c->n, NULL), late = sum_of(v, c->n, c->late), most = 0;
        for (size_t r = 0; r < c->n; r++)
            most = fmax(most, v[r]);
        theirs += late;
        worst = fmax(worst, late);
        if (step * 10 <= all) /* less than a tenth of the usual: nothing to speak of */
            continue;
        matter++;
        x->late_steps += late * 2 > step;
        first += v[x->late[0]] >= LATE_IN_STEP * most;
    }
    x->worst_step = theirs > 0 ? worst / theirs : 0;
    if (matter && (double)first < SYSTEMATIC_STEPS * (double)matter)
        x->systematic = 0;
}

/* ---- what the late rank did before ---- */

static int is_late_at(struct gw_cmp *c, size_t i, size_t r)
{
    struct gw_one o;
    const uint32_t *row = row_of(c, i);
    return row[r] != GW_NONE && look_at(c, row, &o) && c->wait[r] < o.median;
}

static void sum_before(const struct gw_cmp *c, const unsigned char *use, size_t r, int64_t did[GW_DID_COUNT],
                       int64_t *kernels, uint32_t top[GW_DID_COUNT])
{
    int64_t longest[GW_DID_COUNT] = {0};
    const struct gw_rank_summary *s = c->list[r];
    for (size_t i = 0; i < c->m.rows.len; i++) {
        uint32_t k = row_of(c, i)[r];
        if (!use[i] || k == GW_NONE)
            continue;
        *kernels += s->coll[k].kernels;
        for (uint32_t p = 0; p < s->coll[k].parts; p++) {
            const struct gw_rank_part *part = s->parts + s->coll[k].first_part + p;
            did[part->did] += part->ns;
            if (top && part->ns > longest[part->did]) {
                longest[part->did] = part->ns;
                top[part->did] = part->top;
            }
        }
    }
}

static void add_reason(struct gw_ranks *x, const struct gw_ranks_reason *q)
{
    size_t k = x->reasons < GW_RANKS_REASONS ? x->reasons++ : GW_RANKS_REASONS;
    for (; k > 0 && x->reason[k - 1].own - x->reason[k - 1].others < q->own - q->others; k--)
        if (k < GW_RANKS_REASONS)
            x->reason[k] = x->reason[k - 1];
    if (k < GW_RANKS_REASONS)
        x->reason[k] = *q;
}

static int find_reasons(struct gw_cmp *c)
{
    struct gw_ranks *x = c->x;
    size_t s = x->late[0], all = 0, late = 0;
    int rc = GW_ENOMEM;
    unsigned char *use = calloc(c->m.rows.len + 1, 1);
    int64_t(*did)[GW_DID_COUNT] = calloc(c->n, sizeof *did), *kernels = calloc(c->n, sizeof *kernels);
    uint32_t top[GW_DID_COUNT] = {0};
    if (!use || !did || !kernels)
        goto out;
    for (size_t i = 0; i < c->m.rows.len; i++) {
        struct gw_one o;
        all += row_of(c, i)[s] != GW_NONE && look_at(c, row_of(c, i), &o);
        late += use[i] = (unsigned char)is_late_at(c, i, s);
    }
    if (late * 2 >= all) /* its lateness is everywhere: look at all, since waits hidden behind compute shift it about;
                          * other groups' collectives too, so that each rank's whole step is seen */
        for (size_t i = 0; i < c->m.rows.len; i++) {
            struct gw_one o;
            use[i] = (unsigned char)look_at(c, row_of(c, i), &o);
        }
    x->before = (int64_t)(late * 2 >= all ? all : late);
    for (size_t r = 0; r < c->n; r++)
        sum_before(c, use, r, did[r], kernels + r, r == s ? top : NULL);
    for (unsigned d = 0; d <= GW_DID_COUNT; d++) { /* the last round is for the kernels */
        size_t k = 0;
        for (size_t r = 0; r < c->n; r++)
            if (!c->late[r] && c->row[r].seen)
                c->sorted[k++] = d < GW_DID_COUNT ? did[r][d] : kernels[r];
        int64_t others = median_sorted(c, k);
        if (d == GW_DID_COUNT) {
            x->own_kernels = kernels[s];
            x->other_kernels = others;
        } else if (did[s][d] > others) {
            add_reason(x, &(struct gw_ranks_reason){
                              .did = d, .own = did[s][d], .others = others, .top = c->list[s]->names[top[d]]});
        }
    }
    if (x->reasons && (double)(x->reason[0].own - x->reason[0].others) < REASON_MIN * c->late_ns[s])
        x->reasons = 0;
    while (x->reasons > 1 && (double)(x->reason[x->reasons - 1].own - x->reason[x->reasons - 1].others) <
                                 REASON_SHARE * (double)(x->reason[0].own - x->reason[0].others))
        x->reasons--;
    rc = GW_OK;
out:
    free(use);
    free(did);
    free(kernels);
    return rc;
}

/* ---- all of it ---- */

static int by_time(const void *a, const void *b)
{
    const struct gw_ranks_class *x = a, *y = b;
    int64_t tx = x->transfer + x->wait, ty = y->transfer + y->wait;
    if (tx != ty)
        return tx > ty ? -1 : 1;
    return x->kind != y->kind ? (x->kind > y->kind) - (x->kind < y->kind)
                              : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int keep_classes(struct gw_cmp *c)
{
    struct gw_ranks_class *k = c->m.classes.data, *out = gw_arena_calloc(c->arena, c->m.classes.len, sizeof *out);
    if (!out)
        return GW_ENOMEM;
    for (size_t i = 0; i < c->m.classes.len; i++)
        if (k[i].count)
            out[c->x->ncls++] = k[i];
    qsort(out, c->x->ncls, sizeof *out, by_time);
    c->x->cls = out;
    return GW_OK;
}

static void windows(struct gw_cmp *c)
{
    for (size_t r = 0; r < c->n; r++)
        c->sorted[r] = c->list[r]->window.wall - c->row[r].cold;
    c->x->wall = median_sorted(c, c->n);
    for (size_t r = 0; r < c->n; r++)
        c->sorted[r] = c->list[r]->steps;
    c->x->steps = median_sorted(c, c->n);
}

static int64_t times(int64_t v, double f) { return (int64_t)((double)v * f); }

/* Sums over the steps that all ranks recorded become sums over the window. Returns the factor for the window. */
static double extrapolate(struct gw_cmp *c)
{
    struct gw_ranks *x = c->x;
    if (!x->numbered || x->seen_steps <= 0)
        return 1;
    for (size_t r = 0; r < c->n; r++) {
        struct gw_ranks_row *w = c->row + r;
        double f = fmax(1, (double)c->list[r]->steps / (double)x->seen_steps);
        w->wait = times(w->wait, f);
        w->wait_exposed = times(w->wait_exposed, f);
        w->transfer = times(w->transfer, f);
        w->transfer_exposed = times(w->transfer_exposed, f);
        w->late = times(w->late, f);
    }
    double f = fmax(1, (double)x->steps / (double)x->seen_steps);
    struct gw_ranks_class *k = c->m.classes.data;
    for (size_t i = 0; i < c->m.classes.len; i++) {
        k[i].transfer = times(k[i].transfer, f);
        k[i].wait = times(k[i].wait, f);
        k[i].count = times(k[i].count, f);
    }
    for (size_t i = 0; i < x->reasons; i++) {
        x->reason[i].own = times(x->reason[i].own, f);
        x->reason[i].others = times(x->reason[i].others, f);
    }
    return f;
}

static int compare(struct gw_cmp *c)
{
    struct gw_ranks *x = c->x;
    double balanced = 0, saved = 0, unlate = 0;
    if (gw_matches_find(&c->m, c->list, c->n) < 0)
        return GW_ENOMEM;
    x->spread = c->m.spread;
    x->numbered = c->m.numbered;
    for (size_t i = 0; i < c->m.rows.len; i++)
        if (add_match(c, i, &balanced, &unlate) < 0)
            return GW_ENOMEM;
    for (size_t r = 0; r < c->n; r++)
        x->unmatched += (int64_t)c->list[r]->ncoll;
    x->unmatched -= x->matched;
    windows(c);
    if (!x->matched) {
        x->fit = GW_RANKS_NO_MATCH;
        return GW_OK;
    }
    choose_late(c);
    for (size_t i = 0; i < c->m.rows.len; i++)
        add_saved(c, i, &saved);
    if (x->late_count)
        judge_steps(c);
    if (x->late_count && find_reasons(c) < 0)
        return GW_ENOMEM;
    double most = SAVED_MAX * (double)x->wall, whole = extrapolate(c);
    x->saved = (int64_t)fmin(saved * whole, most);
    x->balanced = (int64_t)fmin(balanced * whole, most);
    x->unlate = (int64_t)fmin(unlate * whole, most);
    return transfer_medians(c) < 0 ? GW_ENOMEM : keep_classes(c);
}

struct gw_ranks *gw_ranks_compare(const struct gw_rank_summary *const *list, size_t n, struct gw_arena *arena)
{
    struct gw_cmp c = {.list = list, .n = n, .arena = arena};
    int rc = GW_ENOMEM;
    c.x = gw_arena_alloc(arena, sizeof *c.x);
    c.row = gw_arena_calloc(arena, n, sizeof *c.row);
    c.late = calloc(n, 1);
    c.late_ns = calloc(n, sizeof *c.late_ns);
    c.wait = calloc(n, sizeof *c.wait);
    c.exposed = calloc(n, sizeof *c.exposed);
    c.sorted = calloc(n, sizeof *c.sorted);
    gw_array_init(&c.steps, sizeof(int64_t), 0);
    gw_array_init(&c.in_step, n * sizeof(double), 0);
    if (!c.x || !c.row || !c.late || !c.late_ns || !c.wait || !c.exposed || !c.sorted)
        goto out;
    c.x->n = n;
    c.x->row = c.row;
    fit(&c);
    rc = c.x->fit == GW_RANKS_FIT ? compare(&c) : GW_OK;
out:
    gw_matches_free(&c.m);
    gw_array_free(&c.steps);
    gw_array_free(&c.in_step);
    free(c.late);
    free(c.late_ns);
    free(c.wait);
    free(c.exposed);
    free(c.sorted);
    return rc == GW_OK ? c.x : NULL;
}
