/*
 * live_whole.c - from the window to the whole run: what takes a clearly larger share of the job's working time than of
 * the window becomes a finding, and what a window's finding is worth is scaled to the part of the run for which the
 * window stands. See live_phases.h.
 */
#include <math.h>
#include <string.h>

#include "layers/live_phases.h"

#define SURE 2.0        /* standard errors by which two shares must differ */
#define LEAST_SAMPLES 5 /* of a phase: fewer are an anecdote */
#define SURE_SAMPLES 20
#define CLEARLY_IDLER                                                                                                 \
    0.2 /* a phase is one in which the GPU idles more than else; a run that idles so much more than its window is not \
           explained by it */
#define ELSE_LEAST 0.05 /* of the working time must be something else to compare with */
#define UNKNOWN_LOW \
    0.5 /* share of a phase in which the GPU idles when nothing tells: a queue of work lasts for a while ... */
#define UNKNOWN 0.85   /* ... but not for as long as the host saves, or makes processes */
#define MOST 0.98      /* of the time; a gain of 50 is beyond what samples can tell apart from more */
#define LIKE_STEPS 0.1 /* scaled by less, the gain of the run is still about that of a step */
#define STRETCH_UP 0.8 /* a window with more of its time in a phase has too little else to be scaled up */

struct row { /* a cause that comes as a phase */
    unsigned cause;
    enum gw_finding_id id;
    double low, likely; /* parts of the lost time that its repair saves: cautious, likely; hopeful is all of it */
    int needs_idle;     /* 1 = it may as well run beside the GPU's work, or on the GPU: idle time must be seen */
    int starts_heavy;   /* 1 = warm-up and the first epoch have more of it: what counts is the second half of the run */
    int every_step;     /* 1 = it belongs to steps as a rule: what the window says of it is better than samples */
    const char *fix, *cost;
};

static const struct row rows[] = {
    {GW_CAUSE_CHECKPOINT, GW_F_CHECKPOINT, 0.5, 1, 0, 0, 0,
     N_("save less often, and not in the loop: copy to pinned memory once, then write from a thread "
        "(`torch.distributed.checkpoint.async_save`)"),
     N_("host memory for one copy of the state; more work lost after a crash")},
    {GW_CAUSE_EVALUATION, GW_F_EVALUATION, 0.5, 1, 1, 0, 0,
     N_("evaluate, plot and log less often, keep metrics on the GPU, or hand the numbers to another process"), ""},
    {GW_CAUSE_RESPAWN, GW_F_WORKER_RESPAWN, 0.7, 1, 0, 0, 0,
     N_("keep the workers: `DataLoader(..., persistent_workers=True)`, and build the loader once, outside the epoch "
        "loop"),
     N_("the workers' memory stays in use between epochs")},
    {GW_CAUSE_COMPILE, GW_F_RECOMPILE, 0.5, 0.9, 0, 1, 0,
     N_("keep shapes stable: pad, or `torch.compile(model, dynamic=True)`"),
     N_("padding computes a little for nothing")},
    {GW_CAUSE_DATA_WAIT, GW_F_LOADER_STARVED, 0.5, 0.85, 1, 1, 1,
     N_("more workers, `persistent_workers=True`, `prefetch_factor=4`; time a few numbers and keep the last that still "
        "pays"),
     N_("host memory for each worker")},
    {GW_CAUSE_MAIN_LOADING, GW_F_MAIN_LOADING, 0.5, 0.8, 1, 1, 1,
     N_("let worker processes load: `DataLoader(..., num_workers=8, persistent_workers=True, pin_memory=True)`"),
     N_("CPUs and memory for the workers")},
};
enum { ROWS = sizeof rows / sizeof *rows };

struct whole {
    struct gw_diag *d;
    struct gw_live_phases p;
    int weighed[GW_F_COUNT]; /* 1 = its gain is that of the whole run already */
    double taken, window;    /* shares of the run and of the window that such findings take */
};

const char *gw_live_phase_fix(enum gw_finding_id id)
{
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].id == id)
            return rows[i].fix;
    return NULL;
}

static struct gw_draft *draft_of(const struct gw_diag *d, enum gw_finding_id id)
{
    for (size_t i = 0; i < d->drafts; i++)
        if (d->draft[i]->id == id)
            return d->draft[i];
    return NULL;
}

/* --- a phase
 * -------------------------------------------------------------------------------------------------------------------
 */

/* Share of a phase's time that the GPU idles: cautious and likely. 0 = it does not count as a phase. */
static int idles(const struct whole *w, const struct row *r, const struct gw_live_phase *x, double *low, double *likely)
{
    double rest = 1 - x->share, elsewhere = rest >= ELSE_LEAST ? (w->p.idle - x->share * x->idle) / rest : NAN;
    *low = isnan(x->idle) || !x->is_idle_counted ? UNKNOWN_LOW : x->idle;
    *likely = isnan(x->idle) || !x->is_idle_counted ? UNKNOWN : x->idle;
    if (!r->needs_idle)
        return 1;
    if (isnan(x->idle))
        return 0;
    if (!x->is_idle_counted)
        *likely = fmin(*likely, x->idle);
    *low = fmin(*low, *likely);
    if (r->cause == GW_CAUSE_EVALUATION && rest < ELSE_LEAST) /* a job that does nothing else */
        return 0;
    /* An evaluation that keeps the GPU as busy as the rest of the job does is work like any other. */
    return r->cause != GW_CAUSE_EVALUATION || !x->is_idle_counted ? x->idle >= 0.5
                                                                  : x->idle - elsewhere >= CLEARLY_IDLER;
}

/* Of what the window shows: its idle time by cause, or its samples. */
static double in_window(const struct whole *w, const struct row *r, double idle)
{
    double engine = gw_diag_share(w->d, (enum gw_cause)r->cause), seen = w->p.of[r->cause].window * idle;
    return fmax(engine, isnan(seen) ? 0 : seen);
}

static double error_of(double share, double n) { return n > 0 ? sqrt(share * (1 - share) / n) : 0; }

/* Rows of one line of code become one, the `most` first are kept. */
static void join_lines(struct gw_draft *f, size_t most)
{
    struct gw_where *a = f->where.data;
    size_t n = 0;
    for (size_t i = 0; i < f->where.len; i++) {
        size_t k = 0;
        while (k < n && (!a[i].file[0] || strcmp(a[k].file, a[i].file) != 0 || a[k].line != a[i].line))
            k++;
        if (k < n) {
            a[k].share += a[i].share;
            a[k].count += a[i].count;
        } else {
            a[n++] = a[i];
        }
    }
    f->where.len = n < most ? n : most;
}

void gw_live_phases_where(struct gw_diag *d, const struct gw_live_phases *w, struct gw_draft *f, unsigned cause,
                          size_t most)
{
    const struct gw_lane *lane = w->lane == GW_NONE ? NULL : gw_trace_lane(d->an->t, w->lane);
    struct gw_places *p = gw_places_new(d);
    int guessed;
    for (size_t k = lane ? gw_lane_at(d->an, lane, w->from) : 0; lane && k < lane->count; k++) {
        const struct gw_event *e = gw_ev(d->an, lane->order[k]);
        if (e->start >= w->to)
            break;
        if (e->kind == GW_KIND_SAMPLE && gw_samples_stack(d->an, e) && gw_live_phases_cause(d, w, e, &guessed) == cause)
            gw_places_add(p, lane->order[k], e->end - e->start);
    }
    gw_places_done(p, f, 32);
    join_lines(f, most);
}

static void say(struct whole *w, struct gw_draft *f, const struct gw_live_phase *x, double window)
{
    struct gw_diag *d = w->d;
    double seconds = (double)(w->p.to - w->p.from) * 1e-9;
    gw_diag_seen(d, f, x->share, "share", "thread samples",
                 _("the training thread was seen at it in %zu of %zu stacks over %.0f s of work, which makes %.0f to "
                   "%.0f %% of the time; of the window it is %.0f %%"),
                 x->samples, w->p.samples, seconds, 100 * x->low, 100 * x->high, 100 * window);
    gw_diag_seen(d, f, (double)x->times, "count", "thread samples",
                 gw_ngettext("%zu such stretch, of %s", "%zu such stretches, the longest of %s", x->times), x->times,
                 gw_diag_time_text(d, (double)x->longest));
    if (x->is_idle_counted)
        gw_diag_seen(d, f, x->idle, "share", "hardware counters", _("the GPU had no work for %.0f %% of that time"),
                     100 * x->idle);
    else
        gw_diag_against(d, f, NAN, "1", "",
                        _("no hardware counters of that time: how much of it the GPU idled is an estimate"));
    if (x->times < 2)
        gw_diag_against(d, f, NAN, "1", "", _("it came once while recording: how often it comes back is not known"));
    if (x->guessed * 2 > x->samples)
        gw_diag_against(d, f, (double)x->guessed, "count", "thread samples",
                        _("what this host code is for is a guess: it runs for long while the GPU has no work"));
}

static enum gw_confidence confidence(const struct gw_live_phase *x)
{
    if (x->times < 2)
        return GW_CONF_LOW;
    return x->samples >= SURE_SAMPLES && x->is_idle_counted && x->guessed * 2 <= x->samples ? GW_CONF_HIGH
                                                                                            : GW_CONF_MEDIUM;
}

/* The finding's weight in the whole run. `share`: of the working time. */
static void weigh(struct whole *w, const struct row *r, const struct gw_live_phase *x, double share, double idle_low,
                  double idle, double window)
{
    struct gw_diag *d = w->d;
    double part = x->share > 0 ? share / x->share : 1, lost = fmin(share * idle, MOST);
    double most = fmin(MOST, isnan(w->p.idle) ? 1 : w->p.idle); /* no more than the GPU idled */
    int64_t from = d->an->w0 > w->p.from ? d->an->w0 : w->p.from, to = d->an->w1 < w->p.to ? d->an->w1 : w->p.to;
    if (to > from) /* the rest of the window was something else */
        most = fmin(most, 1 - (1 - fmin(window, 1)) * (double)(to - from) / (double)(w->p.to - w->p.from));
    struct gw_draft *f = draft_of(d, r->id);
    int is_new = !f;
    if (is_new)
        f = gw_diag_add(d, r->id, (int64_t)(lost * (double)d->wall));
    lost = fmin(lost, most);
    gw_diag_gain_set(f, 1 / (1 - fmin(r->low * x->low * part * idle_low, most)), 1 / (1 - r->likely * lost),
                     1 / (1 - fmin(fmax(x->high * part, lost), most)));
    f->f.lost_ns = (int64_t)(lost * (double)d->wall);
    f->f.share_of_wall = lost;
    f->f.share_of_idle = isnan(w->p.idle) || w->p.idle <= 0 ? lost : fmin(1, lost / w->p.idle);
    f->f.now_step_ns = f->f.then_low_ns = f->f.then_high_ns = -1; /* of the window's steps: nothing about the run */
    f->f.confidence = confidence(x);
    say(w, f, x, window);
    if (is_new) {
        gw_live_phases_where(d, &w->p, f, r->cause, 3);
        gw_diag_fix(f, _(r->fix), _("gpuwhy diff before.json after.json"), r->cost[0] ? _(r->cost) : "");
    }
    d->answer[r->id] = GW_FIRED;
    w->weighed[r->id] = 1;
    w->taken += share;
    w->window += window;
}

static void look_at(struct whole *w, const struct row *r)
{
    const struct gw_live_phase *x = w->p.of + r->cause;
    double low, idle, share = r->starts_heavy ? fmin(x->share, x->late) : x->share;
    const struct gw_draft *f = draft_of(w->d, r->id);
    if (!idles(w, r, x, &low, &idle) ||
        (f && w->d->answer[r->id] != GW_FIRED)) /* a more specific finding took its place */
        return;
    if (r->every_step && (f || w->d->answer[GW_F_WORKER_RESPAWN] == GW_FIRED)) /* new workers make it wait, too */
        return;
    double window = in_window(w, r, idle), seen = w->p.of[r->cause].window;
    double error = SURE * hypot(error_of(x->share, (double)w->p.samples),
                                isnan(seen) ? 0 : error_of(seen, (double)w->p.window_samples));
    double least = fmax(GW_LIM_SHARE, error);
    int more = x->samples >= LEAST_SAMPLES && share * idle - window > least && 1 / (1 - share * idle) >= GW_LIM_WORTH;
    /* The window fell into one: by its own samples, as other waits may go by the same name there. */
    int less = f && !isnan(seen) && seen - x->share > least && seen * 2 > gw_diag_share(w->d, (enum gw_cause)r->cause);
    if (more || less)
        weigh(w, r, x, share, low, idle, less ? fmax(seen, window) : window);
}

/* --- what the others are worth
 * ------------------------------------------------------------------------------------------------- */

static double scaled(double gain, double by) { return 1 / (1 - fmin(MOST, (1 - 1 / gain) * by)); }

static void lower_confidence(struct gw_draft *f)
{
    f->f.confidence = f->f.confidence == GW_CONF_HIGH ? GW_CONF_MEDIUM : GW_CONF_LOW;
}

/* `by`: of the share that a finding takes of the window, what it takes of the run; `high`: the same for its hopeful
 * end. */
static void scale(struct whole *w, double by, double high, int idle_only, int in_doubt)
{
    for (size_t i = 0; i < w->d->drafts; i++) {
        struct gw_draft *f = w->d->draft[i];
        if (w->weighed[f->id] || f->f.gain.high <= 1 || (idle_only && isnan(f->f.share_of_idle)))
            continue;
        struct gw_gain g = f->f.gain;
        gw_diag_gain_set(f, scaled(g.low, fmin(by, 1)), scaled(g.likely, by), scaled(g.high, high));
        if (fabs(by - 1) > LIKE_STEPS)
            f->f.now_step_ns = f->f.then_low_ns = f->f.then_high_ns = -1;
        if (in_doubt)
            lower_confidence(f);
    }
}

/* What the phases do not explain of the difference between the run and the window. */
static void explain_rest(struct whole *w, double stands)
{
    struct gw_diag *d = w->d;
    if (isnan(w->p.idle) || isnan(w->p.window_idle) || d->answer[GW_F_SHARED] == GW_FIRED)
        return;
    double rest = fmax(0, fmin(1, w->p.window_idle - w->window) * stands), expected = fmin(w->taken + rest, 1),
           more = w->p.idle - expected;
    if (fabs(more) < CLEARLY_IDLER)
        return;
    double busy = (1 - w->p.idle) / fmax(1 - expected, 0.01), idle = w->p.idle / fmax(expected, 0.01);
    if (more > 0)
        scale(w, fmin(busy, 1), 1, 0, 1);
    else
        scale(w, idle, idle, 1, 1);
    d->stands *= more > 0 ? fmin(busy, 1) : 1;
    for (size_t i = 0; i < d->drafts; i++)
        if (!w->weighed[d->draft[i]->id] && d->draft[i]->f.gain.high > 1)
            gw_diag_against(d, d->draft[i], w->p.idle, "share", "hardware counters",
                            more > 0 ? _("the GPU had no work for %.0f %% of the run, but for %.0f %% of the window: "
                                         "what it waits for else is not known")
                                     : _("the GPU had no work for %.0f %% of the run, but for %.0f %% of the window, "
                                         "which is not like the rest"),
                            100 * w->p.idle, 100 * w->p.window_idle);
}

void gw_live_phases(struct gw_diag *d)
{
    struct whole *w = gw_arena_calloc(d->arena, 1, sizeof *w);
    if (!w || !d->dev || !d->an->t->host || d->wall <= 0) {
        d->oom |= !w;
        return;
    }
    w->d = d;
    if (!gw_live_phases_weigh(d, &w->p))
        return;
    for (size_t i = 0; i < ROWS; i++)
        look_at(w, rows + i);
    w->taken = fmin(w->taken, MOST);
    w->window = fmin(w->window, 1);
    double stands = (1 - w->taken) / fmax(1 - w->window, 0.01);
    if (stands > 1) /* the window shows too little of the rest to make much of it */
        stands = w->window <= STRETCH_UP ? stands : 1;
    if (w->taken > 0 && stands != 1)
        scale(w, stands, stands, 0, w->window > 0.5);
    d->stands = fmin(stands, 1);
    explain_rest(w, stands);
    if (w->taken <= 0 && d->stands >= 1)
        return;
    d->busy = isnan(w->p.idle) ? fmax(0, fmin(1, d->busy * stands)) : 1 - w->p.idle;
    if (w->taken > 0.5 && w->p.samples >= SURE_SAMPLES) /* much was seen, though no step */
        d->answer[GW_F_TOO_LITTLE] = d->answer[GW_F_WARMUP_ONLY] = GW_SILENT;
}
