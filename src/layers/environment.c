/* environment: what of it shows in a trace. The rest comes from gpuwhy check and gpuwhy run. */
#include <math.h>

#include "layers/finding.h"

#define GW_LONG_KERNEL_NS 20000 /* long enough that a launch call returns before it ends, when nothing blocks */

/* With CUDA_LAUNCH_BLOCKING=1 every launch call lasts until its kernel ended. */
int gw_find_debug_mode(struct gw_diag *d)
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
    double t = (double)d->wall, host = t - (double)ns, gpu = t - (double)d->dev->steady.idle;
    gw_diag_gain_set(f, 1 + (t / fmax(host, gpu) - 1) * 0.5, t / fmax(host, gpu), t / gpu);
    f->f.confidence = GW_CONF_HIGH;
    gw_diag_seen(d, f, (double)held / (double)seen, "share", "API calls", _("%lld of %lld launch calls return only after their kernel ended: CUDA_LAUNCH_BLOCKING=1, most likely"),
                 (long long)held, (long long)seen);
    gw_diag_fix(f, _("`unset CUDA_LAUNCH_BLOCKING`"), _("gpuwhy diff before.json after.json"), "");
    return GW_FIRED;
}
