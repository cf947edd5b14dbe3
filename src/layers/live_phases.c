/* live_phases.c - how much of the run such phases take. See live_phases.h; what follows from it: live_whole.c. */
#include "layers/live_phases.h"

#include <math.h>
#include <string.h>

#define SEC 1000000000ll
#define STANDS_NS \
    (1500000000ll)   /* a stack stands for the time until the next one: a sleeping thread is looked at once a second */
#define NO_WORK 0.02 /* as in activity_report.c: a stretch with less is idle */
#define LONG_NS SEC  /* and so is this: a shorter idle stretch is part of a step */
#define STEPS_LONG 3 /* as is one of fewer steps (phases.c calls a step of three medians a phase) */
#define FEW_LAUNCHES 0.05   /* of the mean rate: nothing is trained meanwhile */
#define MEASURED 0.3        /* share of a phase's time that must have been measured */
#define RUN_MEASURED 0.5    /* and of the run's */
#define WINDOW_MEASURED 0.9 /* and of the window's (activity_report.c) */
enum {
    WINDOW_SAMPLES = 10, /* fewer samples in the window say nothing about it */
    STEP_KERNELS = 20,   /* between two samples of a phase: it ended and began again. A checkpoint copies and launches
                            next to none */
    MAX_IDLE = 4096
};

struct weigher {
    struct gw_diag *d;
    struct gw_live_phases *p;
    const struct gw_activity *activity; /* of the GPU, NULL none */
    struct gw_array looks;              /* struct look: launches, or NVML's utilization summed up */
    double rate;                        /* their growth a second over the working time; NAN not known */
    struct gw_array idle;               /* struct gw_live_stretch: long ones without work */
    double measured[GW_CAUSE_COUNT], work[GW_CAUSE_COUNT], flat[GW_CAUSE_COUNT], time[GW_CAUSE_COUNT],
        late[GW_CAUSE_COUNT], all, all_late;
    size_t in_window[GW_CAUSE_COUNT];
    int64_t begun;  /* of the stretch at hand */
    int64_t before; /* start of the sample before */
    unsigned last;  /* its cause */
};

struct look { /* at a counter that counts up */
    int64_t at;
    double done;
};

/* --- working time
 * -------------------------------------------------------------------------------------------------------------- */

static const struct gw_activity *activity_of(const struct gw_live *l)
{
    for (size_t i = 0; i < l->h->activity_count; i++)
        if (l->h->activity[i].count && l->h->activity[i].device == l->device)
            return l->h->activity + i;
    return NULL;
}

/* When `part` of all work of the run was done. */
static int64_t work_done(const struct gw_activity *a, double part)
{
    double all = 0, sum = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < a->count; i++) {
            double w = (double)a->run[i].share[GW_ACT_ENGINE] * (double)(a->run[i].end - a->run[i].start);
            w = isnan(w) ? 0 : w;
            *(pass ? &sum : &all) += w;
            if (pass && sum >= part * all)
                return a->run[i].start;
        }
    return INT64_MAX;
}

/* --- when nothing was done
 * ----------------------------------------------------------------------------------------------------- */

static void read_counter(struct weigher *w, const char *name, int64_t device, int64_t pid)
{
    const struct gw_analysis *an = w->d->an;
    const struct gw_lane *lane = an->t->lanes.data;
    uint32_t id = gw_intern_find(an->t->names, name, strlen(name));
    for (size_t i = 0; id && i < an->t->lanes.len; i++)
        for (size_t k = 0;
             lane[i].type == GW_LANE_COUNTER && lane[i].device == device && lane[i].pid == pid && k < lane[i].count;
             k++) {
            const struct gw_event *e = gw_ev(an, lane[i].order[k]);
            if (e->kind != GW_KIND_COUNTER || e->name != id)
                continue;
            struct look *last = w->looks.len ? (struct look *)w->looks.data + w->looks.len - 1 : NULL;
            struct look *x =
                last && last->at == e->start ? last : gw_array_push(&w->looks); /* of one instant the last */
            if (x)
                *x = (struct look){e->start, gw_counter_value(e)};
        }
}

/* When `part` of what was counted was reached. */
static int64_t reached(const struct weigher *w, double part)
{
    const struct look *x = w->looks.data;
    size_t n = w->looks.len, i = 0;
    while (i < n && x[i].done < part * x[n - 1].done)
        i++;
    return i < n ? x[i].at : INT64_MAX;
}

/* By launches, else by the GPU's activity, else by NVML's figure: any period with a kernel counts as busy there, but
 * one without does not. */
static int find_period(struct weigher *w, int64_t pid)
{
    struct gw_live_phases *p = w->p;
    read_counter(w, "cuda.launches", -1, pid);
    if (!gw_live_calls_period(w->d->an, pid, &p->from, &p->to)) {
        w->looks.len = 0;
        read_counter(w, "nvml.utilization_percent", gw_live_of(w->d)->device, -1);
        struct look *x = w->looks.data;
        double sum = 0;
        for (size_t i = 0; i < w->looks.len; i++) { /* each says something of the time before it */
            sum += i ? x[i].done * (double)(x[i].at - x[i - 1].at) : 0;
            x[i].done = sum;
        }
        p->from = w->activity ? work_done(w->activity, 0.05) : reached(w, 0.05);
        p->to = w->activity ? work_done(w->activity, 0.98) : reached(w, 0.98);
        if (p->to == INT64_MAX || p->to - p->from < SEC)
            return 0;
    }
    double all = 0; /* the mean rate over the working time */
    const struct look *x = w->looks.data;
    for (size_t i = 1; i < w->looks.len; i++)
        all += x[i].at > p->from && x[i].at <= p->to ? x[i].done - x[i - 1].done : 0;
    w->rate = all > 0 ? all / ((double)(p->to - p->from) * 1e-9) : NAN;
    return 1;
}

/* Growth a second at a time; NAN not known. */
static double rate_at(const struct weigher *w, int64_t at)
{
    const struct look *x = w->looks.data;
    size_t lo = 0, hi = w->looks.len;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (x[mid].at <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (!lo || lo == w->looks.len || x[lo].at <= x[lo - 1].at)
        return NAN;
    return (x[lo].done - x[lo - 1].done) / ((double)(x[lo].at - x[lo - 1].at) * 1e-9);
}

static void add_idle(struct weigher *w, int64_t start, int64_t end, int64_t least)
{
    struct gw_live_stretch *s = end - start >= least && w->idle.len < MAX_IDLE ? gw_array_push(&w->idle) : NULL;
    if (s)
        *s = (struct gw_live_stretch){start, end};
}

/* Long stretches without any work, by hardware counters; without those, without launches. */
static void find_idle(struct weigher *w)
{
    int64_t step = w->d->dev ? w->d->an->median_step : -1,
            least =
                step > LONG_NS / STEPS_LONG ? (step < INT64_MAX / STEPS_LONG ? step * STEPS_LONG : INT64_MAX) : LONG_NS;
    const struct gw_activity *a = w->activity;
    const struct look *x = w->looks.data;
    int64_t start = 0, end = INT64_MIN;
    for (size_t i = 0; a && i < a->count; i++) {
        if (!(a->run[i].share[GW_ACT_ENGINE] < NO_WORK))
            continue;
        if (end == INT64_MIN || a->run[i].start - end > LONG_NS / 10 || (i && end != a->run[i - 1].end)) {
            add_idle(w, start, end == INT64_MIN ? start : end, least);
            start = a->run[i].start;
        }
        end = a->run[i].end;
    }
    if (a && end != INT64_MIN)
        add_idle(w, start, end, least);
    for (size_t i = 1, k; !a && i < w->looks.len; i = k) {
        for (k = i; k < w->looks.len && rate_at(w, x[k - 1].at) < FEW_LAUNCHES * w->rate; k++)
            ;
        if (k > i)
            add_idle(w, x[i - 1].at, x[k - 1].at, least);
        k = k == i ? i + 1 : k;
    }
}

/* Kept for gw_live_phases_cause(). */
static void keep_idle(struct weigher *w)
{
    struct gw_live_stretch *s = gw_arena_calloc(w->d->arena, w->idle.len + 1, sizeof *s);
    if (!s) {
        w->d->oom = 1;
        return;
    }
    if (w->idle.len)
        memcpy(s, w->idle.data, w->idle.len * sizeof *s);
    w->p->stretch = s;
    w->p->stretches = w->idle.len;
}

static int in_idle(const struct gw_live_phases *p, int64_t at)
{
    for (size_t i = 0; i < p->stretches; i++)
        if (at >= p->stretch[i].start && at < p->stretch[i].end)
            return 1;
    return 0;
}

/* --- what a sample shows
 * ------------------------------------------------------------------------------------------------------- */

/* Functions that people write for it, and packages that log and plot. */
static int names_evaluation(const char *stack)
{
    static const char *const words[] = {"evaluat", "validat", "metric", "plot", "_eval", "eval_", "histogram"};
    static const char *const paths[] = {"/tensorboard/",  "/matplotlib/",      "/wandb/",
                                        "/torchmetrics/", "/sklearn/metrics/", "/mlflow/"};
    const char *at = stack, *f;
    size_t n;
    while (gw_stack_next(&at, &f, &n)) {
        const char *name = memmem(f, n, "): ", 3);
        if (name && memmem(name, n - (size_t)(name - f), "train", 5)) /* train_and_evaluate() is all of the job */
            name = NULL;
        for (size_t i = 0; name && i < sizeof words / sizeof *words; i++)
            if (memmem(name, n - (size_t)(name - f), words[i], strlen(words[i])) && !memmem(f, n, "site-packages/", 14))
                return 1;
        for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
            if (memmem(f, n, paths[i], strlen(paths[i])))
                return 1;
    }
    return 0;
}

/* Inside the model host code is part of the step, however long it takes. */
static int is_model(const char *stack)
{
    return strstr(stack, "torch/nn/modules/") || strstr(stack, "torch/autograd/") || strstr(stack, "torch/optim/");
}

unsigned gw_live_phases_cause(const struct gw_diag *d, const struct gw_live_phases *p, const struct gw_event *e,
                              int *guessed)
{
    unsigned c = gw_samples_cause(d->an, e);
    const char *stack = gw_trace_text(d->an->t, (uint32_t)e->arg1);
    *guessed = 0;
    if (c != GW_CAUSE_USER_CODE && c != GW_CAUSE_SLOW_OP)
        return c;
    if (names_evaluation(stack))
        return GW_CAUSE_EVALUATION;
    *guessed = c == GW_CAUSE_USER_CODE && gw_sample_call(e) == GW_CALL_NONE && gw_samples_stack(d->an, e)->user &&
               !is_model(stack) && in_idle(p, e->start);
    return *guessed ? GW_CAUSE_EVALUATION : c;
}

/* Kernels of the trace that start in [from, to): a step was done in between. */
static size_t kernels_between(const struct gw_diag *d, int64_t from, int64_t to)
{
    size_t lo = 0, hi = d->dev ? d->dev->nops : 0, n = 0;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (gw_ev(d->an, d->dev->ops[mid])->start < from)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; d->dev && lo < d->dev->nops && n < STEP_KERNELS && gw_ev(d->an, d->dev->ops[lo])->start < to; lo++)
        n += gw_ev(d->an, d->dev->ops[lo])->kind == GW_KIND_KERNEL;
    return n;
}

/* One stack that stands for [from, to). */
static void add_sample(struct weigher *w, const struct gw_event *e, int64_t from, int64_t to)
{
    int guessed;
    unsigned c = gw_live_phases_cause(w->d, w->p, e, &guessed);
    struct gw_live_phase *x = w->p->of + c;
    double ns = (double)(to - from);
    int64_t measured = 0;
    double m = w->activity ? gw_activity_mean(w->activity, GW_ACT_ENGINE, from, to, &measured) : NAN;
    if (!isnan(m)) {
        w->measured[c] += (double)measured;
        w->work[c] += m * (double)measured;
    }
    w->flat[c] += rate_at(w, from + (to - from) / 2) < FEW_LAUNCHES * w->rate ? ns : 0;
    int is_late = from >= w->p->from + (w->p->to - w->p->from) / 2;
    w->time[c] += ns;
    w->all += ns;
    w->late[c] += is_late ? ns : 0;
    w->all_late += is_late ? ns : 0;
    w->p->samples++;
    x->samples++;
    x->guessed += (size_t)guessed;
    if (c != w->last || from - w->before > STANDS_NS || kernels_between(w->d, w->before, from) == STEP_KERNELS) {
        x->times++;
        w->begun = from;
    }
    x->longest = to - w->begun > x->longest ? to - w->begun : x->longest;
    w->last = c;
    w->before = from;
    if (w->d->dev && e->start >= w->d->an->w0 && e->start < w->d->an->w1) {
        w->p->window_samples++;
        w->in_window[c]++;
    }
}

static void add_samples(struct weigher *w)
{
    const struct gw_analysis *an = w->d->an;
    const struct gw_lane *lane = gw_trace_lane(an->t, w->p->lane);
    const struct gw_event *e = NULL;
    w->last = GW_CAUSE_COUNT;
    w->before = INT64_MIN / 2;
    for (size_t k = gw_lane_at(an, lane, w->p->from - STANDS_NS); k <= lane->count; k++) {
        const struct gw_event *next = k < lane->count ? gw_ev(an, lane->order[k]) : NULL;
        if (next && (next->kind != GW_KIND_SAMPLE || !gw_samples_stack(an, next)))
            continue;
        int64_t start = e ? e->start : 0, end = e ? start + STANDS_NS : 0;
        end = next && next->start < end ? next->start : end;
        start = start > w->p->from ? start : w->p->from;
        end = end < w->p->to ? end : w->p->to;
        if (e && end > start)
            add_sample(w, e, start, end);
        e = next;
    }
}

/* --- the sums
 * ------------------------------------------------------------------------------------------------------------------ */

/* Wilson's interval at 95 %: with few samples it does not claim certainty, not even when all of them agree. */
static void binomial(double share, double n, double *low, double *high)
{
    const double z = 1.96, z2 = z * z;
    double mid = (share + z2 / (2 * n)) / (1 + z2 / n),
           half = z / (1 + z2 / n) * sqrt(share * (1 - share) / n + z2 / (4 * n * n));
    *low = fmax(0, mid - half);
    *high = fmin(1, mid + half);
}

static void finish_phase(struct weigher *w, unsigned c)
{
    struct gw_live_phase *x = w->p->of + c;
    double n = (double)w->p->samples;
    x->idle = x->window = NAN;
    if (w->p->window_samples >= WINDOW_SAMPLES)
        x->window = (double)w->in_window[c] / (double)w->p->window_samples;
    if (!x->samples)
        return;
    double share = w->time[c] / w->all;
    binomial(share, n, &x->low, &x->high);
    x->share = (share * n + 1) / (n + 2); /* the mean of what so many samples allow */
    x->late = w->all_late > 0 ? w->late[c] / w->all_late : 0;
    if (w->measured[c] >= MEASURED * w->time[c]) {
        x->idle = 1 - w->work[c] / w->measured[c];
        x->is_idle_counted = 1;
    } else if (!isnan(w->rate)) {
        x->idle = w->flat[c] / w->time[c];
    }
}

static void find_idle_shares(struct weigher *w)
{
    struct gw_live_phases *p = w->p;
    const struct gw_diag *d = w->d;
    int64_t measured;
    double m = w->activity ? gw_activity_mean(w->activity, GW_ACT_ENGINE, p->from, p->to, &measured) : NAN;
    p->idle = p->window_idle = NAN;
    if (!isnan(m) && (double)measured >= RUN_MEASURED * (double)(p->to - p->from))
        p->idle = 1 - m;
    if (!d->dev || d->dev->steady.wall <= 0)
        return;
    p->window_idle = (double)(d->dev->steady.idle + d->dev->steady.copy_exposed) /
                     (double)d->dev->steady.wall; /* copies are no work of the engine */
    m = w->activity ? gw_activity_mean(w->activity, GW_ACT_ENGINE, d->dev->steady.start, d->dev->steady.end, &measured)
                    : NAN;
    if (!isnan(m) && (double)measured >= WINDOW_MEASURED * (double)d->dev->steady.wall)
        p->window_idle = 1 - m;
}

int gw_live_phases_weigh(struct gw_diag *d, struct gw_live_phases *p)
{
    const struct gw_live *l = gw_live_of(d);
    struct weigher *w = l ? gw_arena_calloc(d->arena, 1, sizeof *w) : NULL;
    *p = (struct gw_live_phases){.lane = GW_NONE};
    if (!w)
        return 0;
    w->d = d;
    w->p = p;
    w->activity = activity_of(l);
    gw_array_init(&w->looks, sizeof(struct look), 0);
    int known = find_period(w, l->pid);
    if (known) {
        find_idle_shares(w);
        p->lane = gw_live_stack_lane(d, l);
        if (p->lane != GW_NONE && !(d->an->stacked && d->an->stacked[p->lane]))
            p->lane = GW_NONE; /* without stacks it says nothing */
    }
    if (p->lane == GW_NONE) {
        gw_array_free(&w->looks);
        return known;
    }
    gw_array_init(&w->idle, sizeof(struct gw_live_stretch), 0);
    find_idle(w);
    keep_idle(w);
    add_samples(w);
    for (unsigned c = 0; c < GW_CAUSE_COUNT && w->all > 0; c++)
        finish_phase(w, c);
    gw_array_free(&w->looks);
    gw_array_free(&w->idle);
    return 1;
}
