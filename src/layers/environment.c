/* environment: what of it shows in a trace, and debugging modes that gpuwhy run was told of. The rest comes from gpuwhy check. */
#include <math.h>
#include <string.h>

#include "layers/finding.h"
#include "layers/live.h"

#define LEAST_BUSY 0.02         /* of a job: below, counters and samples are no measure of what it could gain */
#define GW_LONG_KERNEL_NS 20000 /* long enough that a launch call returns before it ends, when nothing blocks */

/* With anomaly detection off, what is left of the dispatch: all of it; half (no checks, no Python stack for each forward operator); hardly
 * any: 6.4x was measured on an H200 machine, 5.3x on another. */
static const double anomaly_left[3] = {1, 0.5, 0.15};

static void anomaly_fix(struct gw_draft *f, const char *check)
{
    gw_diag_fix(f, _("`torch.autograd.set_detect_anomaly(False)`: it is for finding NaN, not for training"), check, "");
}

/* The gain when neither waits for the other any more: the host's time `host` of `t` and the GPU's stay, side by side. */
static void blocking_gain(struct gw_draft *f, double t, double host, double gpu)
{
    gw_diag_gain_set(f, 1 + (t / fmax(host, gpu) - 1) * 0.5, t / fmax(host, gpu), t / gpu);
}

static void blocking_fix(struct gw_draft *f, const char *check)
{
    gw_diag_fix(f, _("`unset CUDA_LAUNCH_BLOCKING`"), check, "");
}

static void anomaly_gain(struct gw_diag *d, struct gw_draft *f)
{
    struct gw_whatif w[3] = {GW_WHATIF_NONE, GW_WHATIF_NONE, GW_WHATIF_NONE};
    for (int i = 0; i < 3; i++) {
        w[i].remove = w[i].drop_wait = 1u << GW_CAUSE_HOST_SYNC; /* the waits go */
        w[i].host_scale = anomaly_left[i];
        w[i].label_scale[GW_CAUSE_USER_CODE] = anomaly_left[i];
    }
    gw_diag_gain(d, f, w, w + 1, w + 2);
}

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
    anomaly_gain(d, f);
    f->f.confidence = GW_CONF_HIGH;
    gw_diag_seen(d, f, (double)reads / d->steps, "count", "API calls", _("%.3g values a step are read inside the backward pass, one for each of %.3g operators: anomaly detection"),
                 (double)reads / d->steps, (double)nodes / d->steps);
    anomaly_fix(f, _("gpuwhy diff before.json after.json"));
    return GW_FIRED;
}

/* With CUDA_LAUNCH_BLOCKING=1 every launch call lasts until its kernel ended. */
static int find_blocking(struct gw_diag *d)
{
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
    blocking_gain(f, (double)d->wall, (double)(d->wall - ns), (double)(d->wall - d->dev->steady.idle));
    f->f.confidence = GW_CONF_HIGH;
    gw_diag_seen(d, f, (double)held / (double)seen, "share", "API calls", _("%lld of %lld launch calls return only after their kernel ended: CUDA_LAUNCH_BLOCKING=1, most likely"),
                 (long long)held, (long long)seen);
    blocking_fix(f, _("gpuwhy diff before.json after.json"));
    return GW_FIRED;
}

/* Without GPU records: the host's time without its waits, of which a part stays; never less than the GPU's. */
static void anomaly_gain_alone(struct gw_diag *d, struct gw_draft *f)
{
    const struct gw_live *l = gw_live_of(d);
    double host = 1 - fmin(gw_live_calls_rate(d, l, "cuda.wait_s") + gw_live_calls_rate(d, l, "cuda.read_s"), 1), g[3];
    for (int i = 0; i < 3; i++)
        g[i] = 1 / fmax(fmax(anomaly_left[i] * host, d->busy), LEAST_BUSY);
    gw_diag_gain_set(f, g[0], g[1], g[2]);
}

/* What the job was told; `blocking`: 0 = its launches were seen not to wait, whatever its environment says. */
static int find_told(struct gw_diag *d, int blocking)
{
    const struct gw_live *l = gw_live_of(d);
    if (!l || (l->h->anomaly < 0 && l->h->launch_blocking < 0))
        return GW_NO_DATA;
    int anomaly = l->h->anomaly == 1;
    blocking = blocking && l->h->launch_blocking == 1;
    if (!anomaly && !blocking)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_DEBUG_MODE, (int64_t)((1 - d->busy) * (double)d->wall));
    if (!anomaly) { /* being woken after each kernel costs the host no more than all else that it does: 2.08x at 32 % busy was measured */
        blocking_gain(f, 1, 1 - d->busy, fmax(fmax(d->busy, LEAST_BUSY), (1 - d->busy) / 2));
    } else if (d->dev)
        anomaly_gain(d, f);
    else
        anomaly_gain_alone(d, f);
    f->f.confidence = GW_CONF_HIGH;
    if (anomaly)
        gw_diag_seen(d, f, 1, "1", "settings", _("anomaly detection is on: torch.is_anomaly_enabled() was asked in the job"));
    if (blocking)
        gw_diag_seen(d, f, 1, "1", "environment", _("CUDA_LAUNCH_BLOCKING is set for the job: each launch waits until its kernel ended"));
    if (!d->dev)
        gw_diag_against(d, f, NAN, "1", "", _("GPU work was not recorded: how much of the slow dispatch is this mode's doing is not known"));
    if (anomaly)
        anomaly_fix(f, _("gpuwhy diff before after"));
    if (blocking)
        blocking_fix(f, _("gpuwhy diff before after"));
    return GW_FIRED;
}

int gw_live_debug_mode(struct gw_diag *d) { return find_told(d, 1); }

/* What the calls show, else what the job said of itself. */
int gw_find_debug_mode(struct gw_diag *d)
{
    int seen = find_anomaly(d);
    if (seen != GW_FIRED)
        seen = find_blocking(d);
    int told = seen == GW_FIRED ? GW_NO_DATA : find_told(d, seen == GW_NO_DATA);
    return told == GW_NO_DATA ? seen : told;
}
