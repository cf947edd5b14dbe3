/* What counters of kernels say when there is no timeline. Gains are those of the profiled kernel time. */
#include <math.h>
#include <stdlib.h>

#include "layers/kernel_counters.h"

static double percent(double share) { return 100 * share; }

static int alone_bandwidth(struct gw_diag *d)
{
    double t = (double)d->counters->ns, bound = (double)gw_counter_time(d, gw_counter_is_bound), roof = t, half = t;
    if (gw_counter_coverage(d) < GW_LIM_COUNTER_COVER)
        return GW_NO_DATA;
    if (bound < GW_LIM_COUNTER_SHARE * t)
        return GW_SILENT;
    for (size_t i = 0; i < d->counters->count; i++) {
        const struct gw_counter_row *r = d->counters->row + i;
        if (!gw_counter_is_bound(r))
            continue;
        roof -= (double)r->ns * (1 - 1 / gw_counter_roof(r, 1));
        half -= (double)r->ns * (1 - 1 / gw_counter_roof(r, 0.5));
    }
    struct gw_draft *f = gw_diag_add(d, GW_F_BANDWIDTH, -1);
    f->f.share_of_wall = NAN; /* of a time that is not there */
    gw_diag_gain_set(f, 1, t / roof, t / half);
    f->f.confidence = GW_CONF_MEDIUM;
    gw_diag_seen(
        d, f, bound / t, "share", "Nsight Compute",
        _("%.0f %% of the profiled kernel time is in kernels whose limit is device memory: busy %.0f %% on average"),
        percent(bound / t), percent(gw_counter_mean(d, GW_KM_DRAM, gw_counter_is_bound)));
    gw_diag_against(
        d, f, NAN, "1", "",
        _("the likely gain supposes the same bytes at the rate that copies reach, the highest one half of the bytes; "
          "how many could be saved by fusing is in the order of the kernels, which only a trace shows"));
    gw_counter_basis(d, f);
    gw_counter_places(d, f, gw_counter_is_bound, 3);
    gw_diag_fix(f,
                _("move less: fuse (`torch.compile(model)`), bf16, `channels_last` for convolutions; for embeddings "
                  "and decoding this is normal"),
                _("gpuwhy diff before after"), _("first steps compile"));
    return GW_FIRED;
}

static int alone_tensor(struct gw_diag *d)
{
    double t = (double)d->counters->ns, idle = (double)gw_counter_time(d, gw_counter_is_idle), likely = t, high = t;
    int measured = 0;
    for (size_t i = 0; i < d->counters->count; i++) {
        const struct gw_counter_row *r = d->counters->row + i;
        unsigned k = d->an->names[r->name].kclass;
        int matrix = k == GW_K_GEMM || k == GW_K_CONV || k == GW_K_GEMM_FP32 || k == GW_K_CONV_FP32;
        measured |= matrix && !isnan(gw_kernel_metric(&r->m, GW_KM_TENSOR));
        if (!gw_counter_is_idle(r))
            continue;
        /* bf16 doubles the rate of the fp32 pipe on every generation with tensor cores; TF32 gives 8 on A100 and H100
         */
        likely -= (double)r->ns * (1 - 1 / fmin(2, gw_counter_roof(r, 1)));
        high -= (double)r->ns * (1 - 1 / fmin(8, gw_counter_roof(r, 0.5)));
    }
    if (!measured)
        return GW_NO_DATA;
    if (idle < GW_LIM_TENSOR_SHARE * t)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_TENSOR_IDLE, -1);
    f->f.share_of_wall = NAN;
    gw_diag_gain_set(f, 1, t / likely, t / high);
    f->f.confidence = GW_CONF_MEDIUM;
    gw_diag_seen(d, f, idle / t, "share", "Nsight Compute",
                 _("%.0f %% of the profiled kernel time is in matrix kernels that leave the tensor pipe idle"),
                 percent(idle / t));
    gw_counter_basis(d, f);
    gw_counter_places(d, f, gw_counter_is_idle, 3);
    gw_diag_fix(f,
                _("`torch.set_float32_matmul_precision(\"high\")` (TF32) before training, or bf16: `with "
                  "torch.autocast(\"cuda\", dtype=torch.bfloat16):`"),
                _("gpuwhy diff before after, and the loss curve"), _("TF32 keeps 10 bits of mantissa, bf16 7"));
    return GW_FIRED;
}

int gw_counters_alone(struct gw_diag *d)
{
    if (d->dev || !d->counters)
        return 0;
    d->answer[GW_F_BANDWIDTH] = alone_bandwidth(d);
    d->answer[GW_F_TENSOR_IDLE] = alone_tensor(d);
    d->answer[GW_F_LOW_OCCUPANCY] = gw_find_low_occupancy(d);
    return 1;
}

const char *gw_counters_sentence(struct gw_diag *d, const struct gw_finding *first)
{
    const char *tail = _("What the GPU waits for between kernels cannot be told from counters: give a trace of the "
                         "same job too, on the same command line.");
    size_t n = gw_kernel_metrics_count(d->an->t);
    if (!first)
        return gw_arena_printf(d->arena,
                               _("Hardware counters of kernels (%zu names) and no timeline: by them nothing is wrong "
                                 "with the kernels, as far as these metrics tell. %s"),
                               n, tail);
    return gw_arena_printf(d->arena,
                           _("Hardware counters of kernels (%zu names) and no timeline. What stands out: %s (%s). %s"),
                           n, first->phrase, first->id, tail);
}
