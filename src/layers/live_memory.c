/* live_memory.c - GPU memory, and what the GPU's counters say about the kernels. */
#include <math.h>
#include <string.h>

#include "layers/kernel_counters.h"
#include "layers/live.h"

/* Largest share of the GPU's memory in use; NAN unknown. */
static double memory_share(const struct gw_diag *d, const struct gw_live *l, double *used, double *total)
{
    const struct gw_host_gpu *g = l ? gw_host_gpu(l->h, l->device) : NULL;
    *used = l ? gw_live_max(l, d->an, "nvml.memory_used_bytes", l->device, -1) : NAN;
    *total = g ? g->memory_bytes : NAN;
    return *total > 0 ? *used / *total : NAN;
}

int gw_live_batch_small(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    double used, total, share = memory_share(d, l, &used, &total);
    int answer = d->dev ? gw_find_batch_small(d) : GW_NO_DATA;
    if (answer != GW_FIRED || isnan(share) || !d->drafts || d->draft[d->drafts - 1]->id != GW_F_BATCH_SMALL)
        return answer;
    struct gw_draft *f = d->draft[d->drafts - 1];
    f->against.len = 0;
    if (share < GW_LIM_MEMORY_FREE) {
        f->f.confidence = GW_CONF_MEDIUM;
        gw_diag_seen(d, f, share, "share", "NVML", _("%s of %s of GPU memory are in use: a larger batch has room"),
                     gw_diag_bytes_text(d, used), gw_diag_bytes_text(d, total));
    } else {
        gw_diag_against(d, f, share, "share", "NVML",
                        _("%.0f %% of GPU memory are in use or kept by the allocator: a larger batch may not fit"),
                        100 * share);
    }
    return answer;
}

int gw_live_memory_full(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    double used, total, share = memory_share(d, l, &used, &total);
    if (isnan(share) || !d->dev)
        return GW_NO_DATA;
    /* full memory alone is no fault: the allocator keeps what it got. What costs is giving back and asking again. */
    int64_t lost = d->dev->cause_ns[GW_CAUSE_ALLOCATOR];
    if (share < GW_LIM_MEMORY_FULL || (double)lost < 0.01 * (double)d->wall)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_MEMORY_FULL, lost);
    struct gw_whatif low = GW_WHATIF_NONE, gone = GW_WHATIF_NONE;
    low.label_scale[GW_CAUSE_ALLOCATOR] = 0.5;
    gone.remove = 1u << GW_CAUSE_ALLOCATOR;
    gw_diag_gain(d, f, &low, &gone, &gone);
    f->f.confidence = GW_CONF_MEDIUM;
    gw_diag_seen(d, f, share, "share", "NVML", _("%s of %s of GPU memory are in use"), gw_diag_bytes_text(d, used),
                 gw_diag_bytes_text(d, total));
    gw_diag_seen(d, f, gw_diag_per_step(d, (double)lost), "ns", "timeline",
                 _("and memory is given back and asked for again for %s a step, with the GPU idle"),
                 gw_diag_time_text(d, gw_diag_per_step(d, (double)lost)));
    gw_diag_fix(f,
                _("leave 10 % free: a smaller batch, activation checkpointing, or "
                  "`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` against fragmentation"),
                _("gpuwhy sweep --vary batch=8..512x2 -- COMMAND --batch {batch}"), _("checkpointing computes a third more"));
    return GW_FIRED;
}

/* Hardware counters of the whole run, for the time that is looked at; NULL when there are none for enough of it. */
static const struct gw_activity *counted(const struct gw_live *l)
{
    for (size_t i = 0; l->busy_is_counted && i < l->h->activity_count; i++)
        if (l->h->activity[i].device == l->device && l->h->activity[i].count)
            return l->h->activity + i;
    return NULL;
}

/* A percentage of GPM while the GPU worked at all: its mean over the mean of "some kernel runs". Without GPM (before Hopper) the
 * same from the counters of the whole run, `what`; GW_ACT_COUNT = they have no such thing. */
static double while_busy(const struct gw_diag *d, const struct gw_live *l, const char *name, enum gw_activity_of what)
{
    double v = gw_live_mean(l, d->an, name, l->device, -1),
           busy = gw_live_mean(l, d->an, "gpm.graphics_percent", l->device, -1);
    const struct gw_activity *a = isnan(busy) && what != GW_ACT_COUNT ? counted(l) : NULL;
    if (a) {
        v = 100 * gw_activity_mean(a, what, l->from, l->to, NULL);
        busy = 100 * l->gpu_busy;
    }
    return busy > 1 && !isnan(v) ? fmin(v / busy, 1) : NAN;
}

static const char *counter_source(const struct gw_diag *d, const struct gw_live *l)
{
    return isnan(gw_live_mean(l, d->an, "gpm.graphics_percent", l->device, -1)) ? "hardware counters" : "GPM";
}

int gw_live_tensor_idle(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    int answer = d->dev ? gw_find_tensor_idle(d) : GW_NO_DATA;
    double tensor = l ? while_busy(d, l, "gpm.tensor_percent", GW_ACT_TENSOR) : NAN;
    double sm = l ? while_busy(d, l, "gpm.sm_percent", GW_ACT_SM) : NAN;
    double fp32 = l ? while_busy(d, l, "gpm.fp32_percent", GW_ACT_COUNT) : NAN;
    if (isnan(tensor) || isnan(sm))
        return answer;
    if (answer == GW_FIRED && d->drafts && d->draft[d->drafts - 1]->id == GW_F_TENSOR_IDLE) {
        struct gw_draft *f = d->draft[d->drafts - 1];
        gw_diag_seen(d, f, tensor, "share", counter_source(d, l),
                     _("while the GPU works its tensor pipe is in use %.0f %% of the time"), 100 * tensor);
        return answer;
    }
    if (gw_counter_coverage(d) >= GW_LIM_COUNTER_COVER) /* counters of each kernel know more than their sum */
        return answer;
    if (isnan(fp32)) /* what could move is not known */
        return answer;
    /* names did not say it: the counters may */
    if (tensor > GW_LIM_TENSOR_USED || sm < GW_LIM_SM_USED || !(fp32 > GW_LIM_FP32_USED))
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_TENSOR_IDLE, -1);
    double part = fp32; /* the arithmetic that could move; a cautious factor, since its shape is not known */
    gw_diag_gain_set(f, 1, 1 / (1 - part * 0.3), 1 / (1 - part * 0.8));
    f->f.confidence = GW_CONF_LOW;
    gw_diag_seen(d, f, tensor, "share", counter_source(d, l),
                 _("while the GPU works its tensor pipe is in use %.0f %% of the time, the fp32 pipe %.0f %%, with "
                   "%.0f %% of the SMs occupied"),
                 100 * tensor, 100 * fp32, 100 * sm);
    gw_diag_against(d, f, NAN, "1", "", _("whether this arithmetic is matrix products cannot be told from counters"));
    gw_diag_fix(f,
                _("`torch.set_float32_matmul_precision(\"high\")` (TF32) before training, or bf16: `with "
                  "torch.autocast(\"cuda\", dtype=torch.bfloat16):`"),
                _("gpuwhy diff before after, and the loss curve"), _("TF32 keeps 10 bits of mantissa, bf16 7"));
    return GW_FIRED;
}

int gw_live_bandwidth(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    int answer = d->dev ? gw_find_bandwidth(d) : GW_NO_DATA;
    double dram = l ? while_busy(d, l, "gpm.dram_percent", GW_ACT_DRAM) : NAN,
           tensor = l ? while_busy(d, l, "gpm.tensor_percent", GW_ACT_TENSOR) : NAN;
    if (isnan(dram))
        return answer;
    if (answer == GW_FIRED && d->drafts && d->draft[d->drafts - 1]->id == GW_F_BANDWIDTH) {
        struct gw_draft *f = d->draft[d->drafts - 1];
        if (dram >= GW_LIM_DRAM_USED) {
            f->against.len = d->counters ? f->against.len : 0;
            f->f.confidence = GW_CONF_HIGH;
            gw_diag_seen(d, f, dram, "share", counter_source(d, l), _("while the GPU works its memory is busy %.0f %% of the time"),
                         100 * dram);
        } else {
            gw_diag_against(d, f, dram, "share", counter_source(d, l),
                            _("but while the GPU works its memory is busy only %.0f %% of the time"), 100 * dram);
        }
        return answer;
    }
    if (gw_counter_coverage(d) >= GW_LIM_COUNTER_COVER)
        return answer;
    if (dram < GW_LIM_DRAM_USED || tensor > 0.4)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_BANDWIDTH, -1);
    gw_diag_gain_set(f, 1, 1.05 + 0.3 * (d->busy - 0.8 > 0 ? d->busy - 0.8 : 0), 1.5);
    f->f.confidence = GW_CONF_MEDIUM;
    gw_diag_seen(d, f, dram, "share", counter_source(d, l),
                 _("while the GPU works its memory is busy %.0f %% of the time and its tensor pipe %.0f %%"),
                 100 * dram, 100 * tensor);
    gw_diag_fix(f,
                _("move less: fuse (`torch.compile(model)`), bf16, `channels_last` for convolutions; for embeddings "
                  "and decoding this is normal"),
                _("gpuwhy diff before after"), _("first steps compile"));
    return GW_FIRED;
}
