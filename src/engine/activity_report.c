/* activity_report.c - see activity_report.h */
#include "engine/activity_report.h"

#include <math.h>
#include <stdlib.h>

#include "model/host_facts.h"
#include "model/sawtooth.h"

#define SEC 1000000000ll
#define NO_WORK 0.02   /* as the recorder's: a stretch with less is idle */
#define PAUSE SEC      /* shorter idle stretches are part of the steps, not pauses between phases */
#define STEPS_LONG 3   /* and so is what is shorter than this many steps */
#define COVERED 0.9    /* of a window must be measured to compare it */
#define AGREES 0.05    /* the window stands for the run when their idle shares differ by less */
enum { GRID = 4000 };
/* A period is looked for in two stretches from the middle of the run: a short one in small steps, a long one in large steps. */
static const int64_t spans[] = {8 * SEC, 120 * SEC};

static int is_idle(const struct gw_activity_run *r) { return r->share[GW_ACT_ENGINE] < NO_WORK; }

/* From the first work to the last. 0 when there is none. */
static int working_span(const struct gw_activity *a, int64_t *from, int64_t *to)
{
    size_t i = 0, j = a->count;
    while (i < j && is_idle(a->run + i))
        i++;
    while (j > i && is_idle(a->run + j - 1))
        j--;
    if (i == j)
        return 0;
    *from = a->run[i].start;
    *to = a->run[j - 1].end;
    return 1;
}

static const struct gw_dev *dev_of(const struct gw_analysis *an, int64_t device)
{
    for (size_t i = 0; i < an->ndev; i++)
        if (an->dev[i].info->id == device)
            return an->dev + i;
    return NULL;
}

static void add_pause(struct gw_report_activity *r, int64_t start, int64_t end, int64_t origin)
{
    r->pauses++;
    r->pause_ns += end - start;
    if (end - start > r->longest_ns) {
        r->longest_ns = end - start;
        r->longest_at = start - origin;
    }
}

/* Idle stretches without work in [from, to), as far as they lie outside of the window. */
static void find_pauses(struct gw_report_activity *r, const struct gw_activity *a, int64_t from, int64_t to, int64_t least,
                        const struct gw_partition *window)
{
    int64_t start = 0, end = 0;
    int open = 0;
    for (size_t i = 0; i <= a->count; i++) {
        const struct gw_activity_run *n = a->run + i;
        int goes_on = i < a->count && n->start < to && is_idle(n);
        if (goes_on && open && n->start - end < PAUSE / 10) {
            end = n->end;
            continue;
        }
        int inside = window && start < window->end && end > window->start;
        if (open && end - start >= least && start >= from && !inside)
            add_pause(r, start, end, a->run[0].start);
        open = goes_on;
        if (goes_on) {
            start = n->start;
            end = n->end;
        }
    }
}

static void find_period(struct gw_report_activity *r, const struct gw_activity *a, int64_t from, int64_t to)
{
    int64_t *t = malloc(GRID * sizeof *t);
    double *v = malloc(GRID * sizeof *v);
    r->shape = "";
    for (size_t s = 0; t && v && s < sizeof spans / sizeof *spans; s++) {
        int64_t span = to - from < spans[s] ? to - from : spans[s], step = span / GRID;
        int64_t at = from + (to - from - span) / 2;
        size_t n = 0;
        for (int i = 0; step > 0 && i < GRID; i++, at += step) {
            double m = gw_activity_mean(a, GW_ACT_ENGINE, at, at + step, NULL);
            if (isnan(m))
                continue;
            t[n] = at;
            v[n++] = m * 100;
        }
        struct gw_sawtooth w = gw_sawtooth_find(t, v, n);
        static const char *const shapes[] = {[GW_WAVE_TOO_SHORT] = "", [GW_WAVE_STEADY] = "steady", [GW_WAVE_BURSTS] = "bursts",
                                             [GW_WAVE_PERIODIC] = "periodic", [GW_WAVE_TOO_FAST] = "bursts"};
        if (w.shape == GW_WAVE_PERIODIC || !*r->shape) {
            r->shape = shapes[w.shape];
            r->depth = w.depth / 100;
            r->duty = w.duty;
            r->period_ns = w.shape == GW_WAVE_PERIODIC ? (int64_t)(w.period_s * 1e9) : -1;
        }
        if (w.shape == GW_WAVE_PERIODIC)
            break;
    }
    free(t);
    free(v);
}

static void fill(struct gw_report_activity *r, const struct gw_analysis *an, const struct gw_activity *a)
{
    const struct gw_dev *dev = dev_of(an, a->device);
    int64_t first = a->run[0].start, last = a->run[a->count - 1].end, from = last, to = last, covered;
    r->span_ns = last - first;
    (void)gw_activity_mean(a, GW_ACT_ENGINE, first, last, &r->measured_ns);
    int works = working_span(a, &from, &to);
    r->before_ns = from - first;
    r->after_ns = last - to;
    if (!works) {
        r->idle = 1;
        return;
    }
    r->idle = 1 - gw_activity_mean(a, GW_ACT_ENGINE, from, to, NULL);
    r->sm = gw_activity_mean(a, GW_ACT_SM, from, to, NULL);
    r->dram = gw_activity_mean(a, GW_ACT_DRAM, from, to, NULL);
    r->tensor = gw_activity_mean(a, GW_ACT_TENSOR, from, to, NULL);
    int64_t least = an->median_step > 0 && dev && an->median_step * STEPS_LONG > PAUSE ? an->median_step * STEPS_LONG : PAUSE;
    find_pauses(r, a, from, to, least, dev ? &dev->steady : NULL);
    if (dev && dev->steady.wall > 0) {
        double m = gw_activity_mean(a, GW_ACT_ENGINE, dev->steady.start, dev->steady.end, &covered);
        if ((double)covered >= COVERED * (double)dev->steady.wall) {
            r->window_idle = 1 - m;
            r->represents = fabs(r->window_idle - r->idle) < AGREES;
        }
    }
    find_period(r, a, from, to);
}

int gw_activity_report(const struct gw_analysis *an, struct gw_arena *arena, const struct gw_report_activity **rows, size_t *n)
{
    const struct gw_host_facts *h = an->t->host;
    *rows = NULL;
    *n = 0;
    if (!h || !h->activity_count)
        return 0;
    struct gw_report_activity *out = gw_arena_calloc(arena, h->activity_count, sizeof *out);
    if (!out)
        return GW_ENOMEM;
    for (size_t i = 0; i < h->activity_count; i++) {
        const struct gw_activity *a = h->activity + i;
        out[i] = (struct gw_report_activity){.device = a->device,
                                             .state = a->state ? a->state : "",
                                             .why = a->why ? a->why : "",
                                             .idle = NAN,
                                             .window_idle = NAN,
                                             .represents = -1,
                                             .sm = NAN,
                                             .dram = NAN,
                                             .tensor = NAN,
                                             .shape = "",
                                             .period_ns = -1,
                                             .depth = NAN,
                                             .duty = NAN,
                                             .interval_ns = a->interval_ns,
                                             .samples = (int64_t)a->samples,
                                             .overflows = (int64_t)a->overflows};
        if (a->count)
            fill(&out[i], an, a);
    }
    *rows = out;
    *n = h->activity_count;
    return 0;
}
