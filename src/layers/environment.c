/* environment: what of it shows in a trace. The rest comes from gpuwhy check and gpuwhy run. */
#include <math.h>
#include <string.h>

#include "layers/finding.h"

#define GW_LONG_KERNEL_NS 20000 /* long enough that a launch call returns before it ends, when nothing blocks */

/* With CUDA_LAUNCH_BLOCKING=1 every launch call lasts until its kernel ended. */
/* torch.autograd.set_detect_anomaly(True) looks for NaN after every backward operator: a reduction and a read for each. */
static int find_anomaly(struct gw_diag *d)
{
    int64_t reads = 0, nodes = 0, after = 0;
    for (size_t i = 0; i < d->dev->nblocks; i++) {
        const struct gw_block *b = d->dev->blocks + i;
        if (!gw_diag_in(d, gw_ev(d->an, b->call)) || !(d->an->ctx[b->call] & GW_CTX_BACKWARD) ||
            !(d->an->ctx[b->call] & GW_CTX_SYNC_OP))
            continue;
        reads++;
        after += b->idle_after;
    }
    const struct gw_lane *lane = d->an->t->lanes.data;
    for (size_t l = 0; reads && l < d->an->t->lanes.len; l++)
        for (size_t i = 0; lane[l].type == GW_LANE_HOST && lane[l].pid == d->dev->pid && i < lane[l].count; i++) {
            const struct gw_event *e = gw_ev(d->an, lane[l].order[i]);
            nodes += e->kind == GW_KIND_OP && gw_diag_in(d, e) &&
                     !strncmp(gw_trace_text(d->an->t, e->name), "autograd::engine::evaluate_function", 35);
        }
    if (reads < 10 || reads * 2 < nodes)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_DEBUG_MODE, after);
    struct gw_whatif w[3] = {GW_WHATIF_NONE, GW_WHATIF_NONE, GW_WHATIF_NONE};
    /* the waits; half of the dispatch (the checks, and a Python stack for each forward operator); nearly all of it: 6.4x was
     * measured on an H200 machine */
    const double left[3] = {1, 0.5, 0.15};
    for (int i = 0; i < 3; i++) {
        w[i].remove = w[i].drop_wait = 1u << GW_CAUSE_HOST_SYNC;
        w[i].host_scale = left[i];
        w[i].label_scale[GW_CAUSE_USER_CODE] = left[i];
    }
    gw_diag_gain(d, f, w, w + 1, w + 2);
    f->f.confidence = GW_CONF_HIGH;
    gw_diag_seen(d, f, (double)reads / d->steps, "count", "API calls", _("%.3g values a step are read inside the backward pass, one for each of %.3g operators: anomaly detection"),
                 (double)reads / d->steps, (double)nodes / d->steps);
    gw_diag_fix(f, _("`torch.autograd.set_detect_anomaly(False)`: it is for finding NaN, not for training"), _("gpuwhy diff before.json after.json"), "");
    return GW_FIRED;
}

int gw_find_debug_mode(struct gw_diag *d)
{
    if (find_anomaly(d) == GW_FIRED)
        return GW_FIRED;
    int64_t seen = 0, held = 0, ns = 0;
    for (size_t i = 0; i < d->dev->nops; i++) {
        const struct gw_event *e = gw_ev(d->an, d->dev->ops[i]);
        if (e->kind != GW_KIND_KERNEL || !gw_diag_in(d, e) || e->link == GW_NONE || e->end - e->start < GW_LONG_KERNEL_NS)
            continue;
        const struct gw_event *c = gw_ev(d->an, e->link);
        if (d->an->names[c->name].api != GW_API_LAUNCH)
            continue;
        seen++;
        held += c->end >= e->end;
        ns += c->end >= e->end ? e->end - e->start : 0;
    }
    if (seen < 30)
        return GW_NO_DATA;
    if (held * 100 < seen * 95)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_DEBUG_MODE, d->dev->steady.idle);
    double t = (double)d->wall, host = t - (double)ns, gpu = t - (double)d->dev->steady.idle;
    gw_diag_gain_set(f, 1 + (t / fmax(host, gpu) - 1) * 0.5, t / fmax(host, gpu), t / gpu);
    f->f.confidence = GW_CONF_HIGH;
    gw_diag_seen(d, f, (double)held / (double)seen, "share", "API calls", _("%lld of %lld launch calls return only after their kernel ended: CUDA_LAUNCH_BLOCKING=1, most likely"),
                 (long long)held, (long long)seen);
    gw_diag_fix(f, _("`unset CUDA_LAUNCH_BLOCKING`"), _("gpuwhy diff before.json after.json"), "");
    return GW_FIRED;
}
