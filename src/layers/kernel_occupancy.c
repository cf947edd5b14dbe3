/* kernel_efficiency: kernels that fill only part of the GPU, by hardware counters. */
#include <math.h>

#include "layers/kernel_counters.h"

static double percent(double share) { return 100 * share; }

/* What-ifs of the replay in which the kernels that fill only part of the GPU take less time; else from kernel time
 * alone. */
static void filled_gain(struct gw_diag *d, struct gw_draft *f)
{
    if (d->dev && d->dev->replay) {
        struct gw_whatif w[3];
        for (int k = 0; k < 3; k++) {
            float *scale = gw_diag_scales(d, k);
            for (size_t i = 0; scale && i < gw_replay_ops(d->dev->replay); i++) {
                const struct gw_event *e = gw_ev(d->an, gw_replay_op_event(d->dev->replay, i));
                const struct gw_counter_row *row = e->kind == GW_KIND_KERNEL ? gw_counter_row(d, e->name) : NULL;
                if (row && gw_counter_is_partial(row))
                    scale[i] = (float)gw_counter_filled(row, k);
            }
            w[k] = GW_WHATIF_NONE;
            w[k].op_scale = scale;
        }
        gw_diag_gain(d, f, w, w + 1, w + 2);
        return;
    }
    double t = (double)(d->dev ? d->wall : d->counters->ns), then[3] = {t, t, t};
    for (size_t i = 0; i < d->counters->count; i++) {
        const struct gw_counter_row *r = d->counters->row + i;
        for (int k = 0; gw_counter_is_partial(r) && k < 3; k++)
            then[k] -= (double)r->ns * (1 - gw_counter_filled(r, k));
    }
    gw_diag_gain_set(f, t / then[0], t / then[1], t / then[2]);
}

static void seen_partial(struct gw_diag *d, struct gw_draft *f, double share)
{
    double waves = gw_counter_mean(d, GW_KM_WAVES, gw_counter_is_partial),
           warps = gw_counter_mean(d, GW_KM_OCCUPANCY, gw_counter_is_partial);
    double sm = gw_counter_mean(d, GW_KM_SM, gw_counter_is_partial),
           dram = gw_counter_mean(d, GW_KM_DRAM, gw_counter_is_partial);
    gw_diag_seen(d, f, share, "share", "Nsight Compute",
                 _("%.0f %% of the kernel time is in kernels that leave most of the GPU idle: neither multiprocessors "
                   "nor memory reach %.0f %%"),
                 percent(share), percent(GW_LIM_COUNTER_LOW));
    if (!isnan(sm) && !isnan(dram))
        gw_diag_seen(d, f, sm, "share", "Nsight Compute",
                     _("there the multiprocessors do %.0f %% of what they can and memory %.0f %%"), percent(sm),
                     percent(dram));
    if (!isnan(waves))
        gw_diag_seen(
            d, f, waves, "1", "Nsight Compute",
            _("their launches have %.2g waves of blocks on average; below 1 a launch does not fill the GPU once"),
            waves);
    if (!isnan(warps))
        gw_diag_seen(d, f, warps, "share", "Nsight Compute", _("%.0f %% of the warps that fit are there on average"),
                     percent(warps));
}

static struct gw_draft *draft_of(const struct gw_diag *d, enum gw_finding_id id)
{
    for (size_t i = 0; i < d->drafts; i++)
        if (d->draft[i]->id == id && d->answer[id] == GW_FIRED)
            return d->draft[i];
    return NULL;
}

int gw_find_low_occupancy(struct gw_diag *d)
{
    double covered = gw_counter_coverage(d);
    int64_t all = d->dev ? d->kernel_ns : d->counters ? d->counters->ns : 0;
    if (!d->counters || covered < GW_LIM_COUNTER_COVER || all <= 0)
        return GW_NO_DATA;
    double share = (double)gw_counter_time(d, gw_counter_is_partial) / (double)all;
    if (share < GW_LIM_COUNTER_SHARE)
        return GW_SILENT;
    struct gw_draft *batch = draft_of(d, GW_F_BATCH_SMALL);
    if (batch) { /* one thing, seen from two sides: the repair of small launches is the larger batch */
        seen_partial(d, batch, share);
        batch->f.confidence = batch->f.confidence == GW_CONF_LOW ? GW_CONF_MEDIUM : batch->f.confidence;
        return GW_SILENT;
    }
    struct gw_draft *f = gw_diag_add(d, GW_F_LOW_OCCUPANCY, -1);
    f->f.share_of_wall = NAN; /* work that takes longer than it need, not time that is lost */
    filled_gain(d, f);
    f->f.confidence = covered >= 0.8 && !d->counters->alone ? GW_CONF_MEDIUM : GW_CONF_LOW;
    seen_partial(d, f, share);
    gw_diag_against(d, f, NAN, "1", "",
                    _("the gain supposes that the same work comes in fewer, larger launches: more samples a second "
                      "from a larger batch, not a shorter kernel"));
    gw_counter_basis(d, f);
    gw_counter_places(d, f, gw_counter_is_partial, 3);
    gw_diag_fix(f,
                _("give each launch more work: a larger batch, fused kernels (`torch.compile(model)`), several small "
                  "tensors in one call (`torch._foreach_*`, batched matmul); in kernels of your own, more blocks or "
                  "less shared memory and registers for each"),
                _("waves and occupancy in Nsight Compute, samples per second in gpuwhy diff"),
                _("a larger batch needs memory and may need another learning rate"));
    return GW_FIRED;
}
