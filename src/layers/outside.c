/* outside: not a bottleneck, or not one that a setting fixes. */
#include <math.h>

#include "layers/finding.h"

static size_t count_phases(const struct gw_diag *d, unsigned cause, int64_t *bytes, int64_t *excess, int *guessed)
{
    size_t n = 0;
    *bytes = *excess = 0;
    *guessed = 0;
    for (size_t i = 0; i < d->an->nphases; i++) {
        const struct gw_phase *p = d->an->phases + i;
        if (p->cause != cause)
            continue;
        n++;
        *bytes += p->to_host;
        *excess += p->excess;
        *guessed |= p->guessed;
    }
    return n;
}

/* The phase's copies to the host go with it. */
static float *without_phase_copies(struct gw_diag *d, unsigned cause, float factor, int which)
{
    float *scale = gw_diag_scales(d, which);
    for (size_t i = 0; scale && i < gw_replay_ops(d->dev->replay); i++) {
        const struct gw_event *e = gw_ev(d->an, gw_replay_op_event(d->dev->replay, i));
        if (e->kind != GW_KIND_COPY || !gw_mem_is_host(gw_copy_dst(e->sub)))
            continue;
        for (size_t k = 0; k < d->an->nphases; k++)
            if (d->an->phases[k].cause == cause && e->start >= d->an->phases[k].start && e->start < d->an->phases[k].end)
                scale[i] = factor;
    }
    return scale;
}

static void phase_places(struct gw_diag *d, struct gw_draft *f, unsigned cause)
{
    struct gw_places *p = gw_places_new(d);
    for (size_t i = 0; i < d->dev->nruns; i++) {
        const struct gw_run *r = d->dev->runs + i;
        if (r->label == cause && r->leaf != GW_NONE && r->start >= d->an->w0 && r->start < d->an->w1)
            gw_places_add(p, r->leaf, r->end - r->start);
    }
    if (gw_places_has_file(p) || d->an->t->facts.with_stack == 1)
        gw_places_done(p, f, 3);
    else
        gw_places_drop(p);
}

static struct gw_draft *phase_finding(struct gw_diag *d, enum gw_finding_id id, unsigned cause, size_t *n, int64_t *bytes)
{
    int64_t excess;
    int guessed;
    *n = count_phases(d, cause, bytes, &excess, &guessed);
    int64_t lost = d->dev->cause_ns[cause];
    if (*n && excess > lost)
        lost = excess;
    if ((double)lost < GW_LIM_SHARE * (double)d->wall)
        return NULL;
    struct gw_draft *f = gw_diag_add(d, id, lost);
    struct gw_whatif low = GW_WHATIF_NONE, gone = GW_WHATIF_NONE;
    low.label_scale[cause] = 0.5; /* half as often */
    low.op_scale = without_phase_copies(d, cause, 0.5f, 0);
    gone.remove = 1u << cause;
    gone.op_scale = without_phase_copies(d, cause, 0.0f, 1);
    if (cause == GW_CAUSE_CHECKPOINT || (*n && *bytes / (int64_t)*n >= GW_PHASE_STATE_BYTES)) { /* all that brings the state goes with it */
        low.ctx = gone.ctx = cause == GW_CAUSE_CHECKPOINT ? GW_CTX_CHECKPOINT : GW_CTX_EVAL;
        low.ctx_host_scale = 0.5;
        gone.ctx_host_scale = 0;
        gone.drop_wait = 1u << GW_CAUSE_BLOCKING_COPY;
    }
    gw_diag_gain(d, f, &low, &gone, &gone);
    /* host code alone, in a recording that has no words for host code, may be anything */
    f->f.confidence = !guessed ? GW_CONF_HIGH : cause == GW_CAUSE_EVALUATION && !d->an->ranges ? GW_CONF_LOW : GW_CONF_MEDIUM;
    if (*n)
        gw_diag_seen(d, f, (double)*n, "count", "step times", _("%zu of %zu steps take %s longer than the median of %s"), *n,
                     d->an->steps.steady_last - d->an->steps.steady_first, gw_diag_time_text(d, (double)excess / (double)*n),
                     gw_diag_time_text(d, (double)d->an->median_step));
    else
        gw_diag_seen(d, f, (double)lost / (double)d->wall, "share", "timeline", _("%.0f %% of the time"), 100 * (double)lost / (double)d->wall);
    phase_places(d, f, cause);
    return f;
}

int gw_find_checkpoint(struct gw_diag *d)
{
    size_t n;
    int64_t bytes;
    struct gw_draft *f = phase_finding(d, GW_F_CHECKPOINT, GW_CAUSE_CHECKPOINT, &n, &bytes);
    if (!f)
        return d->an->steps.count >= 3 && d->dev->nruns ? GW_SILENT : GW_NO_DATA;
    if (n && bytes > 0)
        gw_diag_seen(d, f, (double)bytes / (double)n, "bytes", "copy records", _("each brings %s to the host, then runs host code (writing a file, most likely)"),
                     gw_diag_bytes_text(d, (double)bytes / (double)n));
    gw_diag_fix(f, _("save less often, and not in the loop: copy to pinned memory once, then write from a thread (`torch.distributed.checkpoint.async_save`)"),
                _("gpuwhy diff before.json after.json"), _("host memory for one copy of the state; more work lost after a crash"));
    return GW_FIRED;
}

int gw_find_evaluation(struct gw_diag *d)
{
    size_t n;
    int64_t bytes;
    struct gw_draft *f = phase_finding(d, GW_F_EVALUATION, GW_CAUSE_EVALUATION, &n, &bytes);
    if (!f)
        return d->an->steps.count >= 3 && d->dev->nruns ? GW_SILENT : GW_NO_DATA;
    gw_diag_fix(f, _("evaluate, plot and log less often, keep metrics on the GPU, or hand the numbers to another process"),
                _("gpuwhy diff before.json after.json"), "");
    return GW_FIRED;
}

/* Reinforcement learning: a value is read (the action), code of its own runs (the environment), a small input follows
 * (the observation), and so on, many times. */
int gw_find_simulator(struct gw_diag *d)
{
    if (!d->dev->nruns)
        return GW_NO_DATA;
    int64_t named = d->dev->cause_ns[GW_CAUSE_SIMULATOR], code = d->dev->cause_ns[GW_CAUSE_USER_CODE], shaped = 0, n = 0;
    for (size_t i = 0; i < d->dev->ngaps; i++) {
        const struct gw_gap *g = d->dev->gaps + i;
        const struct gw_event *next = g->next_op == GW_NONE ? NULL : gw_ev(d->an, g->next_op);
        int feeds = next && next->kind == GW_KIND_COPY && gw_mem_is_host(gw_copy_src(next->sub)) &&
                    (next->flags & GW_EV_HAS_ARG0) && next->arg0 < 1000000;
        if (!feeds || g->start < d->an->w0 || g->start >= d->an->w1)
            continue;
        int64_t own = 0;
        int read = 0;
        for (uint32_t k = 0; k < g->pieces; k++) {
            const struct gw_piece *p = d->dev->pieces + g->first_piece + k;
            own += p->cause == GW_CAUSE_USER_CODE ? p->ns : 0;
            read |= p->cause == GW_CAUSE_HOST_SYNC;
        }
        if (own && (read || g->drain == GW_CAUSE_HOST_SYNC)) {
            shaped += own;
            n++;
        }
    }
    int by_shape = n >= 10 && shaped * 10 > code * 7;
    int64_t lost = named + (by_shape ? code : 0);
    if ((double)lost < GW_LIM_DATA_WAIT * (double)d->wall)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_SIMULATOR, lost);
    struct gw_whatif low = GW_WHATIF_NONE, likely = GW_WHATIF_NONE, high = GW_WHATIF_NONE;
    /* With n environments for each forward pass, dispatch and reading are shared by n, and the environments step side by
     * side: 2, 6 and 16 of them (16 in processes of their own gave 5.9x on an H200 machine with 16 CPUs). */
    struct gw_whatif *const w[3] = {&low, &likely, &high};
    const double share[3] = {0.6, 0.2, 0.08};
    for (int i = 0; i < 3; i++) {
        w[i]->label_scale[GW_CAUSE_SIMULATOR] = w[i]->label_scale[GW_CAUSE_HOST_SYNC] = w[i]->host_scale = share[i];
        if (by_shape)
            w[i]->label_scale[GW_CAUSE_USER_CODE] = share[i];
    }
    gw_diag_gain(d, f, &low, &likely, &high);
    f->f.confidence = named ? GW_CONF_HIGH : GW_CONF_MEDIUM;
    if (by_shape)
        gw_diag_seen(d, f, (double)n / d->steps, "count", "timeline", _("%.3g times a step a value is read, host code runs, and a small input is sent back"), (double)n / d->steps);
    gw_diag_seen(d, f, (double)lost / (double)d->wall, "share", "timeline", _("%.0f %% of the time is spent there: low utilization is normal for such a job"), 100 * (double)lost / (double)d->wall);
    gw_diag_fix(f, _("look at environment steps per second; run many environments at once (vectorised, in processes of their own, or on the GPU) and let one forward pass serve all"),
                _("environment steps per second"), _("on-policy data gets older"));
    return GW_FIRED;
}

int gw_find_warmup_only(struct gw_diag *d)
{
    double share = gw_diag_share(d, GW_CAUSE_COMPILE) + gw_diag_share(d, GW_CAUSE_MODULE_LOAD);
    size_t steady = d->an->steps.steady_last - d->an->steps.steady_first;
    if (!d->dev->nruns && steady < 3)
        return GW_NO_DATA;
    if (share < 0.4 || steady >= 3)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_WARMUP_ONLY, d->dev->cause_ns[GW_CAUSE_COMPILE] + d->dev->cause_ns[GW_CAUSE_MODULE_LOAD]);
    gw_diag_gain_set(f, 1, 1, 1);
    gw_diag_seen(d, f, share, "share", "timeline", _("%.0f %% of the time is compiling or loading, and no steady step follows"), 100 * share);
    gw_diag_fix(f, _("record after warm-up: `torch.profiler.schedule(wait=20, warmup=5, active=10)`"), _("steps of equal length in the report"), "");
    return GW_FIRED;
}

int gw_find_too_little(struct gw_diag *d)
{
    if ((double)d->dev->nops >= GW_LIM_FEW_OPS)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_TOO_LITTLE, -1);
    gw_diag_gain_set(f, 1, 1, 1);
    f->f.confidence = GW_CONF_HIGH;
    gw_diag_seen(d, f, (double)d->dev->nops, "count", "trace", _("%zu GPU operations in the whole recording"), d->dev->nops);
    gw_diag_fix(f, _("record at least 10 steps after warm-up: `torch.profiler.schedule(wait=20, warmup=5, active=10)`"), _("steps in the report"), "");
    return GW_FIRED;
}
