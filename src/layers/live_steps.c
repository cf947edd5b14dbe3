/*
 * live_steps.c - steps of a job whose GPU work was not recorded, as its optimizer told them (the settings hook), and what recurs in some of
 * them: a step that lasts a multiple of the others is another activity (engine/phases.c has the same limits), and samples of the launching
 * thread say which. See live.h.
 */
#include <math.h>
#include <stdlib.h>

#include "layers/live_phases.h"

enum {
    LEAST_STEPS = 10, /* for a median that means something */
    RECURS = 2,       /* long steps: one is an accident */
    LEAST_SAMPLES = 5 /* in long steps, to say what they are */
};
#define COVERED 0.5 /* of the time must be steps that were told, for them to speak for it */

struct interval {
    int64_t start, end;
    int64_t steps;
    int is_long;
};

static double each(const struct interval *x) { return (double)(x->end - x->start) / (double)x->steps; }

static int by_length(const void *a, const void *b)
{
    double x = each(a), y = each(b);
    return (x > y) - (x < y);
}

/* The optimizer that steps most; of those that step alike, as in a GAN, the first. */
static const struct gw_host_steps *choose(const struct gw_live *l)
{
    const struct gw_host_steps *best = NULL;
    size_t most = 0;
    for (size_t i = 0; i < l->h->steps_count; i++) {
        const struct gw_host_steps *s = l->h->steps + i;
        size_t n = 0;
        for (size_t k = 0; s->pid == l->pid && k < s->count; k++)
            n += s->row[k].at >= l->from && s->row[k].at < l->to;
        if (n > most + most / 10) {
            best = s;
            most = n;
        }
    }
    return best;
}

/* The stretches between two rows that lie in the time looked at, in order of time; a clock that was set back leaves some out. */
static size_t collect(const struct gw_live *l, const struct gw_host_steps *s, struct interval *out)
{
    size_t n = 0;
    int64_t last = INT64_MIN;
    for (size_t k = 1; k < s->count; k++) {
        const struct gw_host_step *a = s->row + k - 1, *b = s->row + k;
        if (a->at < l->from || b->at > l->to || b->at <= a->at || a->at < last || b->steps < 1)
            continue;
        out[n++] = (struct interval){a->at, b->at, b->steps, 0};
        last = b->at;
    }
    return n;
}

/* Of all steps; those that are known together stand for their mean. `x` is sorted by it. */
static double median(const struct interval *x, size_t n, double steps)
{
    double seen = 0;
    for (size_t i = 0; i < n; i++) {
        seen += (double)x[i].steps;
        if (2 * seen > steps)
            return each(x + i);
    }
    return 0;
}

struct seen { /* what the launching thread was seen doing, ns by cause */
    double in_long[GW_CAUSE_COUNT], usual[GW_CAUSE_COUNT];
    size_t samples; /* in long steps */
};

static void look(const struct gw_diag *d, const struct gw_live *l, const struct interval *x, size_t n, struct seen *s)
{
    size_t i = 0;
    const struct gw_lane *lane = l->launcher == GW_NONE ? NULL : gw_trace_lane(d->an->t, l->launcher);
    *s = (struct seen){.samples = 0};
    for (size_t k = 0; lane && k < lane->count; k++) {
        const struct gw_event *e = gw_ev(d->an, lane->order[k]);
        if (e->kind != GW_KIND_SAMPLE || !gw_samples_tells(d->an, e))
            continue;
        while (i < n && x[i].end <= e->start)
            i++;
        if (i == n || e->start < x[i].start)
            continue;
        (x[i].is_long ? s->in_long : s->usual)[gw_samples_cause(d->an, e)] += (double)(e->end - e->start);
        s->samples += (size_t)x[i].is_long;
    }
}

/* What long steps are, as engine/phases.c decides it. `parts`: long steps for each other one, which tells how much of what is seen in them
 * belongs to every step. A name that stands on the stacks of all steps names none of them. */
static void decide(const struct seen *seen, double parts, struct gw_live_steps *s)
{
    double excess[GW_CAUSE_COUNT], all = 0, usual = 0;
    for (unsigned c = 0; c < GW_CAUSE_COUNT; c++) {
        excess[c] = fmax(0, seen->in_long[c] - parts * seen->usual[c]);
        all += excess[c];
        usual += seen->usual[c];
    }
    int is_named = 2 * seen->usual[GW_CAUSE_EVALUATION] <= usual;
    double code = excess[GW_CAUSE_USER_CODE] + (is_named ? 0 : excess[GW_CAUSE_EVALUATION]);
    if (all <= 0)
        return;
    s->own = excess[GW_CAUSE_USER_CODE] / all;
    if (excess[GW_CAUSE_CHECKPOINT] > all / 4)
        s->cause = GW_CAUSE_CHECKPOINT;
    else if (is_named && excess[GW_CAUSE_EVALUATION] > all / 4)
        s->cause = GW_CAUSE_EVALUATION;
    else if (code > all / 2) {
        s->cause = GW_CAUSE_EVALUATION;
        s->is_guessed = 1;
    }
}

static void find_long(const struct gw_diag *d, const struct gw_live *l, struct interval *x, size_t n, struct gw_live_steps *s)
{
    double usual = 0;
    for (size_t i = 0; i < n; i++) {
        double more = (double)(x[i].end - x[i].start) - s->median;
        x[i].is_long = x[i].steps == 1 && more + s->median > GW_PHASE_FACTOR * s->median && more > GW_PHASE_MIN_NS;
        s->longs += (size_t)x[i].is_long;
        s->excess += x[i].is_long ? more : 0;
        usual += x[i].is_long ? 0 : (double)x[i].steps;
    }
    struct seen seen;
    if (s->longs < RECURS || 2 * (double)s->longs >= s->count)
        return;
    look(d, l, x, n, &seen);
    if (seen.samples >= LEAST_SAMPLES)
        decide(&seen, (double)s->longs / usual, s);
}

/* What the report and the findings need of them. */
static void keep(struct gw_diag *d, const struct interval *x, size_t n, struct gw_live_steps *s)
{
    int64_t *length = gw_arena_calloc(d->arena, n, sizeof *length);
    struct gw_live_span *span = gw_arena_calloc(d->arena, s->longs, sizeof *span);
    d->oom |= !length || !span;
    for (size_t i = 0, k = 0; length && span && i < n; i++) {
        if (x[i].steps == 1)
            length[s->lengths++] = x[i].end - x[i].start;
        if (x[i].is_long)
            span[k++] = (struct gw_live_span){x[i].start, x[i].end};
    }
    s->length = length;
    s->span = span;
    s->longs = span ? s->longs : 0;
}

const struct gw_live_steps *gw_live_steps_of(struct gw_diag *d)
{
    struct gw_live *l = (struct gw_live *)(uintptr_t)gw_live_of(d); /* ours: made for this report */
    if (!l || l->steps)
        return l ? l->steps : NULL;
    const struct gw_host_steps *told = choose(l);
    struct interval *x = told ? calloc(2 * told->count, sizeof *x) : NULL;
    struct gw_live_steps *s = gw_arena_calloc(d->arena, 1, sizeof *s);
    d->oom |= !s || (told && !x);
    size_t n = s && x ? collect(l, told, x) : 0;
    double covered = 0;
    for (size_t i = 0; i < n; i++) {
        x[n + i] = x[i];
        s->count += (double)x[i].steps;
        covered += (double)(x[i].end - x[i].start);
    }
    if (n && s->count >= LEAST_STEPS && covered >= COVERED * (double)(l->to - l->from)) {
        qsort(x + n, n, sizeof *x, by_length);
        s->median = median(x + n, n, s->count);
        s->mean = covered / s->count;
        find_long(d, l, x, n, s);
        s->excess /= covered;
        s->covered = covered;
        keep(d, x, n, s);
        l->steps = s;
    }
    free(x);
    return l->steps;
}

/* --- what recurs ------------------------------------------------------------------------------------------------------------------------ */

static const struct gw_live_steps *recurs(struct gw_diag *d, unsigned cause)
{
    const struct gw_live_steps *s = gw_live_steps_of(d);
    return s && s->cause == cause && s->excess >= GW_LIM_SHARE ? s : NULL;
}

double gw_live_steps_claimed(struct gw_diag *d)
{
    const struct gw_live_steps *s = recurs(d, GW_CAUSE_EVALUATION);
    s = s ? s : recurs(d, GW_CAUSE_CHECKPOINT);
    return s ? s->excess * s->own : 0;
}

int gw_live_steps_phase(struct gw_diag *d, enum gw_finding_id id)
{
    unsigned cause = id == GW_F_CHECKPOINT ? GW_CAUSE_CHECKPOINT : GW_CAUSE_EVALUATION;
    const struct gw_live_steps *s = recurs(d, cause);
    if (!s)
        return gw_live_steps_of(d) ? GW_SILENT : GW_NO_DATA;
    struct gw_draft *f = gw_diag_add(d, id, (int64_t)(s->excess * (double)d->wall));
    gw_diag_gain_set(f, 1 / (1 - s->excess / 2), 1 / (1 - s->excess), 1 / (1 - s->excess)); /* half as often, or not at all */
    f->f.confidence = s->is_guessed ? GW_CONF_MEDIUM : GW_CONF_HIGH;
    double took = s->excess * s->covered / (double)s->longs;
    gw_diag_seen(d, f, (double)s->longs, "count", "step times", _("%zu of %.0f steps take %s longer than the median of %s"), s->longs, s->count,
                 gw_diag_time_text(d, took), gw_diag_time_text(d, s->median));
    if (s->is_guessed)
        gw_diag_against(d, f, NAN, "1", "", _("no name on the stacks says what these steps do: that it is evaluation or logging is a guess, because it is the job's own code and "
                                              "comes back every so often"));
    gw_live_where_spans(d, f, s->span, s->longs, 1u << cause | (s->is_guessed ? 1u << GW_CAUSE_USER_CODE : 0), 3);
    gw_diag_fix(f, _(gw_live_phase_fix(id)), _("gpuwhy diff before after"), "");
    return GW_FIRED;
}

void gw_live_steps_findings(struct gw_diag *d)
{
    const struct gw_live_steps *s = gw_live_steps_of(d);
    if (s && s->is_guessed && d->answer[GW_F_SIMULATOR] == GW_FIRED)
        d->answer[GW_F_EVALUATION] = GW_SILENT; /* rollouts between updates */
    for (size_t i = 0; s && i < d->drafts; i++) {
        struct gw_finding *f = &d->draft[i]->f;
        if (!(f->gain.low >= 1) || f->now_step_ns > 0)
            continue;
        f->now_step_ns = (int64_t)s->mean;
        f->then_low_ns = (int64_t)(s->mean / f->gain.high);
        f->then_high_ns = (int64_t)(s->mean / f->gain.low);
    }
}
