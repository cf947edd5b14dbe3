/*
 * live_alone.c - a diagnosis without any record of GPU work: NVML says how busy the GPU was, sampled threads say what
 * the host did meanwhile. Nothing is known of single gaps, so what a cause costs is an upper bound: no more than the
 * GPU's idle time, and no more than the share of time in which the training thread was seen at it.
 */
#include <math.h>

#include "layers/live_phases.h"

static double seen_causes(const struct gw_diag *d, const struct gw_live *l, double share[GW_CAUSE_COUNT])
{
    double all = 0;
    for (unsigned c = 0; c < GW_CAUSE_COUNT; c++)
        share[c] = 0;
    if (l->launcher == GW_NONE)
        return 0;
    const struct gw_lane *lane = gw_trace_lane(d->an->t, l->launcher);
    for (size_t i = 0; i < lane->count; i++) {
        const struct gw_event *e = gw_ev(d->an, lane->order[i]);
        if (e->kind != GW_KIND_SAMPLE || e->start < l->from || e->start >= l->to || !gw_samples_tells(d->an, e))
            continue;
        double off = gw_samples_off_cpu(e);
        share[gw_samples_cause(d->an, e)] += (double)(e->end - e->start) * (1 - off);
        share[GW_CAUSE_OFF_CPU] += (double)(e->end - e->start) * off;
        all += (double)(e->end - e->start);
    }
    for (unsigned c = 0; c < GW_CAUSE_COUNT && all > 0; c++)
        share[c] /= all;
    return all;
}

/* One finding about what the training thread was seen doing. `p`: NULL when its working time is not known. */
static void add_seen(struct gw_diag *d, enum gw_finding_id id, unsigned cause, double share, const struct gw_live_phases *p, const char *what)
{
    double lost = fmin(share, 1 - d->busy);
    d->answer[id] = GW_SILENT;
    if (lost < GW_LIM_DATA_WAIT)
        return;
    struct gw_draft *f = gw_diag_add(d, id, (int64_t)(lost * (double)d->wall));
    gw_diag_gain_set(f, 1, 1 / (1 - lost * 0.6), 1 / (1 - lost));
    f->f.confidence = GW_CONF_LOW;
    gw_diag_seen(d, f, share, "share", "thread samples", _("%.0f %% of the time the training thread %s"), 100 * share,
                 what);
    gw_diag_against(d, f, NAN, "1", "", _("GPU work was not recorded: whether the GPU idled just then is not known"));
    if (p)
        gw_live_phases_where(d, p, f, cause, 3);
    if (!f->where.len)
        gw_live_where(d, f, GW_LIVE_LAUNCHER, ~0u, 0, 3);
    gw_diag_fix(f, _(gw_live_phase_fix(id)), _("gpuwhy diff before after"), "");
    d->answer[id] = GW_FIRED;
}

/* The same for what recurs: step times say it better, when they are known. */
static void add_recurring(struct gw_diag *d, enum gw_finding_id id, unsigned cause, double share, const struct gw_live_phases *p, const char *what)
{
    int told = gw_live_steps_phase(d, id);
    if (told == GW_FIRED)
        d->answer[id] = told;
    else
        add_seen(d, id, cause, share, p, what);
}

/* Only what a function's name gives away, and only as far as nothing was launched meanwhile or the GPU had no work. */
static double evaluates(const struct gw_live_phases *p)
{
    const struct gw_live_phase *x = p ? p->of + GW_CAUSE_EVALUATION : NULL;
    return x && x->samples > 2 * x->guessed && x->idle >= 0.5 ? x->share * x->idle : 0;
}

static void add_all_seen(struct gw_diag *d, const double share[GW_CAUSE_COUNT])
{
    struct gw_live_phases *p = gw_arena_alloc(d->arena, sizeof *p);
    if (p && !gw_live_phases_weigh(d, p))
        p = NULL;
    add_seen(d, GW_F_LOADER_STARVED, GW_CAUSE_DATA_WAIT, share[GW_CAUSE_DATA_WAIT], p, _("waits for the loader's workers"));
    add_seen(d, GW_F_MAIN_LOADING, GW_CAUSE_MAIN_LOADING, share[GW_CAUSE_MAIN_LOADING], p, _("loads data itself"));
    add_seen(d, GW_F_WORKER_RESPAWN, GW_CAUSE_RESPAWN, share[GW_CAUSE_RESPAWN], p, _("starts or ends loader workers"));
    add_recurring(d, GW_F_CHECKPOINT, GW_CAUSE_CHECKPOINT, share[GW_CAUSE_CHECKPOINT], p, _("saves a checkpoint"));
    add_seen(d, GW_F_RECOMPILE, GW_CAUSE_COMPILE, share[GW_CAUSE_COMPILE], p, _("compiles code"));
    add_recurring(d, GW_F_EVALUATION, GW_CAUSE_EVALUATION, evaluates(p), p, _("evaluates, plots or logs"));
}

int gw_live_alone(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    double share[GW_CAUSE_COUNT];
    if (!l || isnan(l->gpu_busy))
        return 0;
    d->wall = l->to - l->from;
    d->busy = fmin(fmax(l->gpu_busy, 0), 1);
    if (seen_causes(d, l, share) > 0) {
        struct gw_live *own = (struct gw_live *)(uintptr_t)l; /* ours: made for this report */
        own->starved = fmin(share[GW_CAUSE_DATA_WAIT], 1 - d->busy);
        add_all_seen(d, share);
    }
    static const struct {
        enum gw_finding_id id;
        int (*fn)(struct gw_diag *);
    } rows[] = {{GW_F_DEBUG_MODE, gw_live_debug_mode},
                {GW_F_CPU_STARVED, gw_live_cpu_starved},
                {GW_F_OVERSUBSCRIBED, gw_live_oversubscribed},
                {GW_F_TOO_FEW_WORKERS, gw_live_too_few_workers},
                {GW_F_SIMULATOR, gw_live_host_simulator},
                {GW_F_AUTOTUNE, gw_live_autotune},
                {GW_F_UNFUSED_OPT, gw_live_unfused_optimizer},
                {GW_F_SHAPE_CHURN, gw_live_host_shapes},
                {GW_F_SLOW_OP, gw_live_host_operators},
                {GW_F_HOST_SYNC, gw_live_calls_sync},
                {GW_F_LAUNCH_BOUND, gw_live_calls_launch},
                {GW_F_PAGEABLE_COPY, gw_live_calls_copy},
                {GW_F_ALLOCATOR, gw_live_calls_allocator},
                {GW_F_HOST_ALLOCATION, gw_live_calls_host_allocation},
                {GW_F_MAIN_PREPROCESS, gw_live_calls_preprocess},
                {GW_F_SLOW_STORAGE, gw_live_slow_storage},
                {GW_F_WORKERS_CPU, gw_live_workers_cpu},
                {GW_F_GIL, gw_live_gil},
                {GW_F_WORKER_MEMORY, gw_live_worker_memory},
                {GW_F_SAME_DATA, gw_live_same_data},
                {GW_F_NO_RESHUFFLE, gw_live_no_reshuffle},
                {GW_F_THERMAL, gw_live_thermal},
                {GW_F_POWER, gw_live_power},
                {GW_F_CLOCKS, gw_live_clocks}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        d->answer[rows[i].id] = rows[i].fn(d);
    gw_live_steps_findings(d);
    return 1;
}

const char *gw_live_alone_sentence(struct gw_diag *d, const struct gw_finding *first)
{
    const char *why = d->live->h->gpu_records;
    const char *basis = d->live->busy_is_counted ? _("GPU work was not recorded, so this rests on the GPU's hardware counters and on sampled threads alone.")
                                                 : _("GPU work was not recorded, so this rests on NVML and on sampled threads alone.");
    if (why)
        basis = gw_arena_printf(d->arena,
                                d->live->busy_is_counted
                                    ? _("GPU work was not recorded (%s), so this rests on the GPU's hardware counters and on sampled threads alone.")
                                    : _("GPU work was not recorded (%s), so this rests on NVML and on sampled threads alone."),
                                why);
    if (first && first->gain.likely >= GW_LIM_WORTH)
        return gw_arena_printf(d->arena, _("Your GPU is busy %.0f %% of the time. Most likely cause: %s (%s). %s"),
                               100 * d->busy, first->phrase, first->id, basis);
    if (d->busy >= GW_LIM_BUSY)
        return gw_arena_printf(d->arena,
                               _("Your GPU is busy %.0f %% of the time, and nothing that was sampled stands out. %s"),
                               100 * d->busy, basis);
    return gw_arena_printf(d->arena, _("Your GPU is busy %.0f %% of the time; what it waits for cannot be told. %s"),
                           100 * d->busy, basis);
}
