/*
 * Phases: a step that lasts a multiple of the others is not a slow step but another activity (a checkpoint, an
 * evaluation, new loader workers). Its waits get the activity as their cause, so that they are not mistaken for the
 * cost of an ordinary step. A range or stack frame that names the activity settles it; else its shape does.
 */
#include <stddef.h>
#include <stdlib.h>

#include "engine/analysis.h"
#include "engine/samples.h"


struct gw_shape { /* what one step looks like */
    int64_t dur, to_host;
    int64_t cause[GW_CAUSE_COUNT];
    int64_t cpu_ops; /* of the host code: inside operators that compute on the CPU */
};

static int cmp_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t median_of(const struct gw_shape *s, size_t n, size_t field)
{
    int64_t *v = malloc(n * sizeof *v);
    if (!v)
        return 0;
    for (size_t i = 0; i < n; i++)
        v[i] = *(const int64_t *)(const void *)((const char *)(s + i) + field);
    qsort(v, n, sizeof *v, cmp_i64);
    int64_t m = v[n / 2];
    free(v);
    return m;
}

static void shapes(const struct gw_analysis *an, const struct gw_dev *d, struct gw_shape *s, size_t n)
{
    const int64_t *b = an->steps.bound;
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        s[i].dur = b[i + 1] - b[i];
    for (size_t i = 0; i < d->nops; i++) {
        const struct gw_event *e = gw_ev(an, d->ops[i]);
        while (k + 1 < n && e->start >= b[k + 1])
            k++;
        if (e->kind == GW_KIND_COPY && gw_mem_is_host(gw_copy_dst(e->sub)) && (e->flags & GW_EV_HAS_ARG0) &&
            e->start >= b[k])
            s[k].to_host += (int64_t)e->arg0;
    }
    k = 0;
    for (size_t i = 0; i < d->nruns; i++) {
        const struct gw_run *r = d->runs + i;
        while (k + 1 < n && r->start >= b[k + 1])
            k++;
        if (r->label == GW_CAUSE_USER_CODE && r->leaf != GW_NONE && gw_ev(an, r->leaf)->kind == GW_KIND_OP && r->start >= b[k])
            s[k].cpu_ops += r->end - r->start;
    }
    k = 0;
    for (size_t g = 0; g < d->ngaps; g++) {
        while (k + 1 < n && d->gaps[g].start >= b[k + 1])
            k++;
        for (uint32_t p = 0; p < d->gaps[g].pieces && d->gaps[g].start >= b[k]; p++) {
            const struct gw_piece *q = d->pieces + d->gaps[g].first_piece + p;
            s[k].cause[q->cause] += q->ns;
        }
    }
}

/* Stacks of sampled threads, where there are some, know a checkpoint by its names. */
#define GW_STACKS_ENOUGH 5
struct gw_seen {
    const struct gw_analysis *an;
    size_t stacks, saves;
};

static void on_sample(void *user, uint32_t event)
{
    struct gw_seen *seen = user;
    const struct gw_event *e = gw_ev(seen->an, event);
    seen->stacks += gw_samples_stack(seen->an, e) != NULL;
    seen->saves += gw_samples_cause(seen->an, e) == GW_CAUSE_CHECKPOINT;
}

static int is_outlier(const struct gw_shape *s, int64_t median) { return s->dur > GW_PHASE_FACTOR * median && s->dur - median > GW_PHASE_MIN_NS; }

/* 1 when the launching threads were seen often enough in the long steps, and never saving. */
static int never_saves(const struct gw_analysis *an, const struct gw_dev *d, const struct gw_shape *s, int64_t median)
{
    struct gw_seen seen = {.an = an};
    const struct gw_lane *lane = an->t->lanes.data;
    for (uint32_t k = 0; an->stacks && k < an->t->lanes.len; k++)
        for (size_t i = an->steps.steady_first; lane[k].type == GW_LANE_HOST && lane[k].pid == d->pid && i < an->steps.steady_last; i++)
            if (is_outlier(s + i, median))
                gw_samples_each(an, k, an->steps.bound[i], an->steps.bound[i + 1], on_sample, &seen);
    return seen.stacks >= GW_STACKS_ENOUGH && !seen.saves;
}

/* What an outlier is; 0 = nothing we know. */
static unsigned activity(const struct gw_shape *s, int64_t median, int64_t usual_to_host, int no_saves, int *guessed)
{
    int64_t excess = s->dur - median, half = excess / 2;
    int64_t waits = s->cause[GW_CAUSE_DATA_WAIT];
    *guessed = 0;
    if (s->cause[GW_CAUSE_CHECKPOINT] > excess / 4)
        return GW_CAUSE_CHECKPOINT;
    if (s->cause[GW_CAUSE_EVALUATION] > excess / 4)
        return GW_CAUSE_EVALUATION;
    /* stacks saw workers being started; the first batch is late because these have to begin */
    if (s->cause[GW_CAUSE_RESPAWN] > excess / 20 && s->cause[GW_CAUSE_RESPAWN] + waits > half)
        return GW_CAUSE_RESPAWN;
    *guessed = 1;
    int64_t own = s->cause[GW_CAUSE_USER_CODE] + s->cause[GW_CAUSE_BLOCKING_COPY] + s->cause[GW_CAUSE_HOST_SYNC] +
                  s->cause[GW_CAUSE_CHECKPOINT];
    if (s->to_host >= GW_PHASE_STATE_BYTES && s->to_host > 10 * usual_to_host && own > half)
        /* a checkpoint pickles and writes, which is no operator; statistics of the weights compute on the CPU */
        return no_saves || (s->cpu_ops * 2 > s->cause[GW_CAUSE_USER_CODE] && s->cpu_ops > excess / 10) ? GW_CAUSE_EVALUATION : GW_CAUSE_CHECKPOINT;
    if (waits > excess / 5 && waits + s->cause[GW_CAUSE_USER_CODE] > half && s->cause[GW_CAUSE_USER_CODE] > excess / 20)
        return GW_CAUSE_RESPAWN;
    if (s->cause[GW_CAUSE_USER_CODE] > half)
        return GW_CAUSE_EVALUATION;
    return 0;
}

static int belongs(unsigned cause, unsigned phase)
{
    return cause == GW_CAUSE_USER_CODE || (phase == GW_CAUSE_RESPAWN && cause == GW_CAUSE_DATA_WAIT) ||
           ((phase == GW_CAUSE_CHECKPOINT || phase == GW_CAUSE_EVALUATION) &&
            (cause == GW_CAUSE_BLOCKING_COPY || cause == GW_CAUSE_HOST_SYNC)) ||
           cause == phase;
}

/* What brings a state to the host is one activity from its first wait to its last: the dispatch in between is its own too. */
static void relabel_span(struct gw_analysis *an, struct gw_dev *d, const struct gw_phase *ph)
{
    struct gw_piece *pieces = (struct gw_piece *)(uintptr_t)d->pieces;
    struct gw_run *runs = (struct gw_run *)(uintptr_t)d->runs;
    uint32_t *ctx = (uint32_t *)(uintptr_t)an->ctx;
    int64_t from = INT64_MAX, to = INT64_MIN;
    for (size_t i = 0; i < d->nruns; i++)
        if (runs[i].label == ph->cause && runs[i].end > ph->start && runs[i].start < ph->end) {
            from = runs[i].start < from ? runs[i].start : from;
            to = runs[i].end > to ? runs[i].end : to;
        }
    for (size_t i = 0; i < d->nruns; i++)
        if (runs[i].start >= from && runs[i].end <= to && runs[i].label == GW_CAUSE_LAUNCH)
            runs[i].label = ph->cause;
    for (size_t i = 0; i < d->nops; i++) {
        uint32_t call = gw_ev(an, d->ops[i])->link;
        if (call != GW_NONE && gw_ev(an, call)->start >= from && gw_ev(an, call)->end <= to)
            ctx[call] |= ph->cause == GW_CAUSE_CHECKPOINT ? GW_CTX_CHECKPOINT : GW_CTX_EVAL;
    }
    for (size_t g = 0; g < d->ngaps; g++)
        for (uint32_t k = 0; d->gaps[g].start >= from && d->gaps[g].end <= to && k < d->gaps[g].pieces; k++)
            if (pieces[d->gaps[g].first_piece + k].cause == GW_CAUSE_LAUNCH)
                pieces[d->gaps[g].first_piece + k].cause = ph->cause;
}

/* Pieces and host runs inside the phase that belong to it take its cause. */
static void relabel(struct gw_analysis *an, struct gw_dev *d, const struct gw_phase *ph)
{
    struct gw_piece *pieces = (struct gw_piece *)(uintptr_t)d->pieces;
    struct gw_run *runs = (struct gw_run *)(uintptr_t)d->runs;
    for (size_t g = 0; g < d->ngaps; g++) {
        if (d->gaps[g].start < ph->start || d->gaps[g].start >= ph->end)
            continue;
        for (uint32_t k = 0; k < d->gaps[g].pieces; k++) {
            struct gw_piece *p = pieces + d->gaps[g].first_piece + k;
            if (belongs(p->cause, ph->cause))
                p->cause = ph->cause;
        }
    }
    for (size_t i = 0; i < d->nruns; i++)
        if (runs[i].end > ph->start && runs[i].start < ph->end && belongs(runs[i].label, ph->cause))
            runs[i].label = ph->cause;
    if (ph->cause == GW_CAUSE_CHECKPOINT || (ph->cause == GW_CAUSE_EVALUATION && ph->to_host >= GW_PHASE_STATE_BYTES))
        relabel_span(an, d, ph);
}

int gw_phases(struct gw_analysis *an, struct gw_dev *d)
{
    size_t n = an->steps.count;
    an->median_step = -1;
    if (!n)
        return GW_OK;
    struct gw_shape *s = calloc(n, sizeof *s);
    struct gw_phase *ph = gw_arena_calloc(an->arena, n, sizeof *ph);
    if (!s || !ph) {
        free(s);
        return GW_ENOMEM;
    }
    shapes(an, d, s, n);
    int64_t median = median_of(s, n, offsetof(struct gw_shape, dur));
    int64_t usual = median_of(s, n, offsetof(struct gw_shape, to_host));
    an->median_step = median;
    size_t outliers = 0;
    for (size_t i = 0; i < n; i++)
        outliers += (size_t)is_outlier(s + i, median);
    int no_saves = never_saves(an, d, s, median);
    for (size_t i = an->steps.steady_first; n >= 4 && outliers * 2 < n && i < an->steps.steady_last; i++) {
        if (!is_outlier(s + i, median))
            continue;
        int guessed;
        unsigned what = activity(s + i, median, usual, no_saves, &guessed);
        if (!what)
            continue;
        ph[an->nphases] = (struct gw_phase){.start = an->steps.bound[i], .end = an->steps.bound[i + 1], .step = i,
                                            .cause = what, .to_host = s[i].to_host, .excess = s[i].dur - median,
                                            .guessed = guessed};
        relabel(an, d, ph + an->nphases++);
    }
    an->phases = ph;
    free(s);
    return an->nphases ? gw_blame_totals(an, d) : GW_OK;
}
