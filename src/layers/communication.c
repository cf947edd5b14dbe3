/* communication: ranks wait for each other or for the link. What one rank's trace can tell; the rest needs all ranks. */
#include <math.h>
#include <string.h>

#include "layers/finding.h"

static int uses_comm(const struct gw_diag *d)
{
    return d->kclass_ns[GW_K_COMM] > 0 || d->an->t->facts.world_size > 1;
}

static void scale_comm(const struct gw_diag *d, float *scale, double factor)
{
    size_t n = gw_replay_ops(d->dev->replay);
    for (size_t i = 0; i < n; i++) {
        const struct gw_event *e = gw_ev(d->an, gw_replay_op_event(d->dev->replay, i));
        if (e->kind == GW_KIND_KERNEL && d->an->names[e->name].kclass == GW_K_COMM)
            scale[i] = (float)factor;
    }
}

int gw_find_comm_exposed(struct gw_diag *d)
{
    if (!uses_comm(d))
        return GW_NO_DATA;
    double share = (double)d->dev->steady.comm_exposed / (double)d->wall;
    if (share < GW_LIM_COMM_LINE)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_COMM_EXPOSED, d->dev->steady.comm_exposed);
    double total = (double)d->kclass_ns[GW_K_COMM], exposed = (double)d->dev->steady.comm_exposed;
    double part = total > 0 ? exposed / total : 1;
    if (d->dev->replay) {
        struct gw_whatif w[3];
        const double hidden[3] = {0.25, 0.6, 1.0}; /* of the exposed part */
        for (int i = 0; i < 3; i++) {
            float *scale = gw_diag_scales(d, i);
            w[i] = GW_WHATIF_NONE;
            if (scale)
                scale_comm(d, scale, fmax(0, 1 - part * hidden[i]));
            w[i].op_scale = scale;
        }
        gw_diag_gain(d, f, w, w + 1, w + 2);
    } else {
        gw_diag_gain(d, f, NULL, NULL, NULL);
    }
    f->f.confidence = share >= GW_LIM_COMM ? GW_CONF_MEDIUM : GW_CONF_LOW;
    gw_diag_seen(d, f, share, "share", "timeline", _("%.0f %% of the time only collectives run; %.0f %% of their time is hidden behind compute"),
                 100 * share, 100 * (1 - part));
    gw_diag_against(d, f, NAN, "1", "", _("one rank's trace cannot tell a slow link from waiting for a late rank: give the traces of all ranks"));
    gw_diag_fix(f, _("overlap more: larger DDP buckets (`bucket_cap_mb=100`, `gradient_as_bucket_view=True`), FSDP prefetch, gradient accumulation under `no_sync()`; compare the traces of all ranks for a late one"),
                _("gpuwhy diff before.json after.json"), _("accumulation changes the effective batch"));
    return GW_FIRED;
}

/* How often each gradient message comes back between two optimizer steps: with one reduction a step, once. Messages are
 * told apart by the shapes of the operator or the bytes of the kernel. */
struct gw_message {
    uint64_t what;
    int64_t count;
};

static int count_message(struct gw_array *list, uint64_t what)
{
    struct gw_message *m = list->data;
    for (size_t i = 0; i < list->len; i++)
        if (m[i].what == what) {
            m[i].count++;
            return GW_OK;
        }
    m = gw_array_push(list);
    if (!m)
        return GW_ENOMEM;
    *m = (struct gw_message){what, 1};
    return GW_OK;
}

/* Gradient reductions for each optimizer step; 0 = cannot be told. */
static double reductions(const struct gw_diag *d)
{
    int64_t optimizer = 0;
    struct gw_array list;
    gw_array_init(&list, sizeof(struct gw_message), 4096);
    const struct gw_lane *lane = d->an->t->lanes.data;
    for (size_t l = 0; l < d->an->t->lanes.len; l++) {
        if (lane[l].type != GW_LANE_HOST || lane[l].pid != d->dev->pid)
            continue;
        for (size_t i = 0; i < lane[l].count; i++) {
            const struct gw_event *e = gw_ev(d->an, lane[l].order[i]);
            if (!gw_diag_in(d, e) || (e->kind != GW_KIND_ANNOT && e->kind != GW_KIND_OP))
                continue;
            const char *s = gw_trace_text(d->an->t, e->name);
            optimizer += !strncmp(s, "Optimizer.step#", 15);
            if (!strcmp(s, "c10d::allreduce_") && (e->flags & GW_EV_HAS_ARG0))
                count_message(&list, e->arg0);
        }
    }
    if (!list.len)
        for (size_t i = 0; i < d->dev->nops; i++) {
            const struct gw_event *e = gw_ev(d->an, d->dev->ops[i]);
            if (gw_diag_in(d, e) && e->kind == GW_KIND_KERNEL && d->an->names[e->name].kclass == GW_K_COMM &&
                (e->flags & GW_EV_HAS_ARG1) && strstr(gw_trace_text(d->an->t, e->name), "AllReduce"))
                count_message(&list, e->arg1);
        }
    int64_t least = INT64_MAX;
    const struct gw_message *m = list.data;
    for (size_t i = 0; i < list.len; i++)
        least = m[i].count < least ? m[i].count : least;
    /* two buckets of one size look like one bucket reduced twice: ask for several sizes and several steps */
    double r = list.len >= 2 && optimizer >= 2 ? (double)least / (double)optimizer : 0;
    gw_array_free(&list);
    return r;
}

int gw_find_microstep_sync(struct gw_diag *d)
{
    double micro = uses_comm(d) ? reductions(d) : 0;
    if (micro <= 0)
        return GW_NO_DATA;
    if (micro < 1.8 || (double)d->dev->steady.comm_exposed < GW_LIM_COPY * (double)d->wall)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_MICROSTEP_SYNC, (int64_t)((double)d->dev->steady.comm_exposed * (1 - 1 / micro)));
    if (d->dev->replay) {
        struct gw_whatif w[2];
        for (int i = 0; i < 2; i++) {
            float *scale = gw_diag_scales(d, i);
            w[i] = GW_WHATIF_NONE;
            if (scale)
                scale_comm(d, scale, i ? 1 / micro : (1 + 1 / micro) / 2);
            w[i].op_scale = scale;
        }
        gw_diag_gain(d, f, w, w + 1, w + 1);
    } else {
        gw_diag_gain(d, f, NULL, NULL, NULL);
    }
    f->f.confidence = GW_CONF_HIGH;
    gw_diag_seen(d, f, micro, "count", "operators", _("every gradient message is reduced %.3g times for each optimizer step"), micro);
    gw_diag_fix(f, _("reduce once: `with model.no_sync():` around all micro steps but the last"), _("gpuwhy diff before.json after.json"), _("gradients are kept for longer"));
    return GW_FIRED;
}

int gw_find_host_comm(struct gw_diag *d)
{
    int64_t lost = d->dev->cause_ns[GW_CAUSE_HOST_COMM];
    if (!d->dev->nruns || !d->an->ranges)
        return GW_NO_DATA;
    if ((double)lost < GW_LIM_COPY * (double)d->wall)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_HOST_COMM, lost);
    struct gw_whatif low = GW_WHATIF_NONE, high = GW_WHATIF_NONE;
    low.label_scale[GW_CAUSE_HOST_COMM] = 0.5;
    high.remove = 1u << GW_CAUSE_HOST_COMM;
    gw_diag_gain(d, f, &low, &high, &high);
    gw_diag_seen(d, f, gw_diag_per_step(d, (double)lost), "ns", "timeline", _("the host waits %s a step for other ranks while the GPU idles"),
                 gw_diag_time_text(d, gw_diag_per_step(d, (double)lost)));
    struct gw_places *p = gw_places_new(d);
    for (size_t i = 0; i < d->dev->nruns; i++) {
        const struct gw_run *r = d->dev->runs + i;
        if (r->label == GW_CAUSE_HOST_COMM && r->start >= d->an->w0 && r->start < d->an->w1 && r->leaf != GW_NONE)
            gw_places_add(p, r->leaf, r->end - r->start);
    }
    gw_places_done(p, f, 3);
    gw_diag_fix(f, _("use the NCCL backend for tensors on the GPU, and drop barriers from the loop"), _("gpuwhy diff before.json after.json"), "");
    return GW_FIRED;
}
