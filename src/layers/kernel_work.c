/*
 * kernel_efficiency, second part: what the kernels themselves do. By name, and where Nsight Compute's output was read with
 * the recording by counters: kernel by kernel the counters decide, and names only where there are none.
 */
#include <math.h>
#include <string.h>

#include "layers/kernel_counters.h"

/* Peak dense rate of tensor cores over the fp32 pipe, from the vendor's data sheets: TF32 / fp32 and bf16 / fp32. */
static const struct gw_tensor_row {
    int major, minor;
    double tf32, bf16;
    const char *what;
} tensor_rows[] = {
    {8, 0, 8.0, 16.0, "A100: 19.5 / 156 / 312 TFLOP/s"},
    {8, 6, 1.0, 2.0, "A10, A40, RTX 30: 31 / 62 / 125 on A10, 35 / 35 / 71 on GeForce"},
    {8, 9, 1.0, 2.0, "L40, RTX 40: 83 / 83 / 165 on GeForce"},
    {9, 0, 7.4, 14.8, "H100, H200: 67 / 495 / 990"},
    {10, 0, 14.0, 28.0, "B200: 80 / 1100 / 2250"},
    {10, 3, 14.0, 28.0, "B300: as B200"},
    {12, 0, 1.0, 2.0, "RTX 50"},
};

static const struct gw_tensor_row *tensor_row(const struct gw_device *dev)
{
    for (size_t i = 0; i < sizeof tensor_rows / sizeof *tensor_rows; i++)
        if (tensor_rows[i].major == dev->cc_major && tensor_rows[i].minor == dev->cc_minor)
            return tensor_rows + i;
    return NULL;
}

static int is_fp32_matrix(const struct gw_diag *d, const struct gw_event *e)
{
    unsigned k = e->kind == GW_KIND_KERNEL ? d->an->names[e->name].kclass : GW_K_OTHER;
    return k == GW_K_GEMM_FP32 || k == GW_K_CONV_FP32;
}

static int is_large(const struct gw_diag *d, const struct gw_event *e)
{
    return (e->flags & GW_EV_HAS_ARG0) && d->dev->info->sm_count > 0 &&
           (double)e->arg0 >= GW_LIM_TENSOR_WAVES * d->dev->info->sm_count;
}

/* The kernels of a predicate with the largest share of the time. */
static void kernel_places(struct gw_diag *d, struct gw_draft *f, int (*pick)(const struct gw_diag *, const struct gw_event *),
                          size_t most)
{
    for (size_t round = 0; round < most; round++) {
        int64_t best = 0, all = 0;
        uint32_t best_name = 0;
        int64_t count = 0;
        uint32_t names = gw_intern_count(d->an->t->names);
        int64_t *ns = gw_arena_calloc(d->arena, (size_t)names + 1, sizeof *ns);
        for (size_t i = 0; ns && i < d->dev->nops; i++) {
            const struct gw_event *e = gw_ev(d->an, d->dev->ops[i]);
            if (!gw_diag_in(d, e) || !pick(d, e))
                continue;
            all += e->end - e->start;
            ns[e->name] += e->end - e->start;
        }
        for (uint32_t i = 1; ns && i <= names; i++) {
            int seen = 0;
            for (size_t k = 0; k < f->where.len; k++)
                seen |= !strcmp(((struct gw_where *)f->where.data)[k].text, gw_names_short_kernel(gw_trace_text(d->an->t, i), d->arena));
            if (ns[i] > best && !seen) {
                best = ns[i];
                best_name = i;
            }
        }
        if (!best_name)
            return;
        for (size_t i = 0; i < d->dev->nops; i++)
            count += gw_ev(d->an, d->dev->ops[i])->name == best_name && gw_diag_in(d, gw_ev(d->an, d->dev->ops[i]));
        gw_diag_where(f, "", 0, gw_names_short_kernel(gw_trace_text(d->an->t, best_name), d->arena),
                      (double)best / (double)all, count);
    }
}

/* NULL: no kernel, or its tensor pipe was not measured. */
static const struct gw_counter_row *tensor_counters(const struct gw_diag *d, const struct gw_event *e)
{
    const struct gw_counter_row *r = e->kind == GW_KIND_KERNEL ? gw_counter_row(d, e->name) : NULL;
    return r && !isnan(gw_kernel_metric(&r->m, GW_KM_TENSOR)) ? r : NULL;
}

/* Matrix work that could run on tensor cores and does not. */
static int is_tensor_idle(const struct gw_diag *d, const struct gw_event *e)
{
    const struct gw_counter_row *r = tensor_counters(d, e);
    return r ? r->tensor_idle : is_fp32_matrix(d, e) && is_large(d, e);
}

/* How much faster that kernel becomes: what real kernels reach of the peak, and no more than its bytes allow. */
static double tensor_speedup(const struct gw_diag *d, const struct gw_event *e, const struct gw_tensor_row *row, int step)
{
    const double by[3] = {row->tf32 * 0.4, row->tf32 * 0.9, row->bf16};
    const struct gw_counter_row *r = tensor_counters(d, e);
    return r ? fmin(by[step], gw_counter_roof(r, step < 2 ? 1 : 0.5)) : by[step]; /* bf16 halves the bytes */
}

static void tensor_gain(struct gw_diag *d, struct gw_draft *f, const struct gw_tensor_row *row)
{
    if (d->dev->replay) {
        struct gw_whatif w[3];
        for (int k = 0; k < 3; k++) {
            float *scale = gw_diag_scales(d, k);
            for (size_t i = 0; scale && i < gw_replay_ops(d->dev->replay); i++) {
                const struct gw_event *e = gw_ev(d->an, gw_replay_op_event(d->dev->replay, i));
                if (is_tensor_idle(d, e))
                    scale[i] = (float)(1 / tensor_speedup(d, e, row, k));
            }
            w[k] = GW_WHATIF_NONE;
            w[k].op_scale = scale;
        }
        gw_diag_gain(d, f, w, w + 1, w + 2);
        return;
    }
    double t = (double)d->wall, then[3] = {t, t, t};
    for (size_t i = 0; i < d->dev->nops; i++) {
        const struct gw_event *e = gw_ev(d->an, d->dev->ops[i]);
        for (int k = 0; k < 3 && gw_diag_in(d, e) && is_tensor_idle(d, e); k++)
            then[k] -= (double)(e->end - e->start) * (1 - 1 / tensor_speedup(d, e, row, k));
    }
    gw_diag_gain_set(f, t / fmax(then[0], 1), t / fmax(then[1], 1), t / fmax(then[2], 1));
}

/* What the counters say about the kernels blamed; their words stand beside those from the names. */
static void tensor_counted(struct gw_diag *d, struct gw_draft *f)
{
    double tensor = gw_counter_mean(d, GW_KM_TENSOR, gw_counter_is_idle), fp32 = gw_counter_mean(d, GW_KM_FP32, gw_counter_is_idle);
    double share = (double)gw_counter_time(d, gw_counter_is_idle) / (double)(d->kernel_ns ? d->kernel_ns : 1);
    if (isnan(tensor))
        return;
    if (isnan(fp32))
        gw_diag_seen(d, f, tensor, "share", "Nsight Compute", _("by counters the tensor pipe is busy %.0f %% of the time in matrix kernels that take %.0f %% of the kernel time"),
                     100 * tensor, 100 * share);
    else
        gw_diag_seen(d, f, tensor, "share", "Nsight Compute", _("by counters the tensor pipe is busy %.0f %% of the time, and the fp32 pipe %.0f %%, in matrix kernels that take %.0f %% of the kernel time"),
                     100 * tensor, 100 * fp32, 100 * share);
    gw_counter_basis(d, f);
}

int gw_find_tensor_idle(struct gw_diag *d)
{
    int64_t large = 0, small = 0;
    for (size_t i = 0; i < d->dev->nops; i++) {
        const struct gw_event *e = gw_ev(d->an, d->dev->ops[i]);
        if (!gw_diag_in(d, e))
            continue;
        if (is_tensor_idle(d, e))
            large += e->end - e->start;
        else if (is_fp32_matrix(d, e) && !tensor_counters(d, e))
            small += e->end - e->start;
    }
    double gpu = d->kernel_ns ? (double)d->kernel_ns : 1;
    if (d->kclass_ns[GW_K_GEMM] + d->kclass_ns[GW_K_CONV] + d->kclass_ns[GW_K_GEMM_FP32] + d->kclass_ns[GW_K_CONV_FP32] == 0)
        return GW_NO_DATA;
    if ((double)(large + small) < GW_LIM_TENSOR_SHARE * gpu)
        return GW_SILENT;
    const struct gw_tensor_row *row = tensor_row(d->dev->info);
    if (!row || row->tf32 < 1.5 || (double)large < GW_LIM_TENSOR_SHARE * gpu) {
        d->needs[GW_F_TENSOR_IDLE] = gw_arena_printf(
            d->arena, !row || row->tf32 < 1.5
                          ? _("fp32 matrix kernels take %.0f %% of the GPU time, and this GPU's tensor cores need another precision: whether fp16 or bf16 is accurate enough is a question for a trial run with autocast")
                          : _("fp32 matrix kernels take %.0f %% of the GPU time, but most fill the GPU less than twice, where the gain of tensor cores cannot be told from a trace: try `torch.set_float32_matmul_precision(\"high\")` and compare"),
            100 * (double)(large + small) / gpu);
        return GW_NO_DATA;
    }
    struct gw_draft *f = gw_diag_add(d, GW_F_TENSOR_IDLE, large);
    tensor_gain(d, f, row);
    f->f.confidence = GW_CONF_HIGH;
    gw_diag_seen(d, f, (double)large / gpu, "share", "kernel names", _("%.0f %% of the GPU time is in large matrix kernels on the fp32 pipe"), 100 * (double)large / gpu);
    tensor_counted(d, f);
    gw_diag_seen(d, f, row->tf32, "1", "data sheet", _("this GPU's tensor cores are %.1fx (TF32) and %.1fx (bf16) faster at that by data sheet"), row->tf32, row->bf16);
    kernel_places(d, f, is_tensor_idle, 2);
    gw_diag_fix(f, _("`torch.set_float32_matmul_precision(\"high\")` (TF32) before training, or bf16: `with torch.autocast(\"cuda\", dtype=torch.bfloat16):`"),
                _("gpuwhy diff before.json after.json, and the loss curve"), _("TF32 keeps 10 bits of mantissa, bf16 7"));
    return GW_FIRED;
}

static int is_moving(const struct gw_diag *d, const struct gw_event *e)
{
    unsigned k = e->kind == GW_KIND_KERNEL ? d->an->names[e->name].kclass : GW_K_OTHER;
    return k == GW_K_ELEMENTWISE || k == GW_K_COPY || k == GW_K_NORM || k == GW_K_REDUCE;
}

/* Kernels whose limit is memory: by counters, where they tell, else by what their name says they do. */
static int is_memory_bound(const struct gw_diag *d, const struct gw_event *e)
{
    const struct gw_counter_row *r = e->kind == GW_KIND_KERNEL ? gw_counter_row(d, e->name) : NULL;
    return r && r->limit != GW_LIMITED_UNKNOWN ? gw_counter_is_bound(r) : is_moving(d, e);
}

/* Time that fusing neighbours would save at most: of a run of elementwise kernels on one stream, all but the longest. */
static int64_t fusable(const struct gw_diag *d)
{
    int64_t saved = 0, sum = 0, longest = 0;
    uint32_t lane = GW_NONE;
    for (size_t i = 0; i <= d->dev->nops; i++) {
        const struct gw_event *e = i < d->dev->nops ? gw_ev(d->an, d->dev->ops[i]) : NULL;
        unsigned k = e && e->kind == GW_KIND_KERNEL && gw_diag_in(d, e) ? d->an->names[e->name].kclass : GW_K_OTHER;
        int in = (k == GW_K_ELEMENTWISE || k == GW_K_COPY) && is_memory_bound(d, e);
        if (!in || e->lane != lane) {
            saved += sum - longest;
            sum = longest = 0;
        }
        if (in) {
            int64_t ns = e->end - e->start;
            sum += ns;
            longest = ns > longest ? ns : longest;
            lane = e->lane;
        }
    }
    return saved;
}

/* Counters of most of the kernel time decide: names are not asked. */
static int counted_bandwidth(struct gw_diag *d)
{
    double bound = (double)gw_counter_time(d, gw_counter_is_bound), share = bound / (double)d->kernel_ns, roof = 0;
    if (share < GW_LIM_COUNTER_SHARE || d->busy < GW_LIM_COUNTER_BUSY)
        return GW_SILENT;
    for (size_t i = 0; i < d->counters->count; i++) {
        const struct gw_counter_row *r = d->counters->row + i;
        roof += gw_counter_is_bound(r) ? (double)r->ns * (1 - 1 / gw_counter_roof(r, 1)) : 0;
    }
    struct gw_draft *f = gw_diag_add(d, GW_F_BANDWIDTH, -1);
    f->f.share_of_wall = NAN;
    double t = (double)d->wall, save = fmin((double)fusable(d), bound), rest = bound > 0 ? roof * (1 - save / bound) : 0;
    /* at best every kernel that remains moves its bytes as fast as copies do */
    gw_diag_gain_set(f, t / (t - save * 0.2), t / (t - save * 0.7), t / fmax(t - save * 0.98 - rest, t * 0.01));
    f->f.confidence = gw_counter_coverage(d) >= 0.8 ? GW_CONF_HIGH : GW_CONF_MEDIUM;
    double sm = gw_counter_mean(d, GW_KM_SM, gw_counter_is_bound);
    gw_diag_seen(d, f, share, "share", "Nsight Compute", _("%.0f %% of the kernel time is in kernels whose limit is device memory: busy %.0f %% on average"), 100 * share,
                 100 * gw_counter_mean(d, GW_KM_DRAM, gw_counter_is_bound));
    if (!isnan(sm))
        gw_diag_seen(d, f, sm, "share", "Nsight Compute", _("their multiprocessors do %.0f %% of what they can"), 100 * sm);
    gw_diag_seen(d, f, save / t, "share", "kernel order", _("neighbouring elementwise kernels that could be one hold %.0f %% of the time"), 100 * save / t);
    if (save < 0.1 * bound)
        gw_diag_against(d, f, NAN, "1", "", _("few of them can be fused: what is left is to move fewer bytes (precision, layout, quantised weights), or nothing"));
    gw_counter_basis(d, f);
    gw_counter_places(d, f, gw_counter_is_bound, 3);
    gw_diag_fix(f, _("fuse: `torch.compile(model)`; for convolutions `model.to(memory_format=torch.channels_last)`; bf16 halves what is moved"),
                _("gpuwhy diff before.json after.json"), _("first steps compile"));
    return GW_FIRED;
}

int gw_find_bandwidth(struct gw_diag *d)
{
    if (d->kernel_ns > 0 && gw_counter_coverage(d) >= GW_LIM_COUNTER_COVER)
        return counted_bandwidth(d);
    int64_t bound = 0;
    for (size_t i = 0; i < d->dev->nops; i++) {
        const struct gw_event *e = gw_ev(d->an, d->dev->ops[i]);
        bound += gw_diag_in(d, e) && is_memory_bound(d, e) ? e->end - e->start : 0;
    }
    double moving = d->kernel_ns ? (double)bound / (double)d->kernel_ns : 0;
    if (d->busy < 0.8 || moving < GW_LIM_BANDWIDTH || d->kernels == 0 || d->kernel_ns / (int64_t)d->kernels < 10000) {
        d->needs[GW_F_BANDWIDTH] = gw_arena_printf(d->arena, _("hardware counters: gpuwhy run, or Nsight Compute (ncu); by name %.0f %% of kernel time moves data"), 100 * moving);
        return GW_NO_DATA;
    }
    struct gw_draft *f = gw_diag_add(d, GW_F_BANDWIDTH, -1);
    double t = (double)d->wall, save = (double)fusable(d);
    /* a fused chain moves each element once: nearly all of it is saved, if the compiler fuses it */
    gw_diag_gain_set(f, t / (t - save * 0.2), t / (t - save * 0.7), t / (t - save * 0.98));
    f->f.confidence = GW_CONF_LOW;
    gw_diag_seen(d, f, moving, "share", "kernel names", _("%.0f %% of the GPU time is in elementwise, reduction, normalisation and copy kernels"), 100 * moving);
    gw_diag_seen(d, f, save / t, "share", "kernel order", _("neighbouring elementwise kernels that could be one hold %.0f %% of the time"), 100 * save / t);
    gw_diag_against(d, f, NAN, "1", "", _("by name only: hardware counters would prove it"));
    if (d->counters)
        gw_counter_basis(d, f);
    kernel_places(d, f, is_memory_bound, 3);
    gw_diag_fix(f, _("fuse: `torch.compile(model)`; for convolutions `model.to(memory_format=torch.channels_last)`; bf16 halves what is moved"),
                _("gpuwhy diff before.json after.json"), _("first steps compile"));
    return GW_FIRED;
}

static int is_lookup(const struct gw_diag *d, const struct gw_event *e)
{
    return e->kind == GW_KIND_KERNEL && d->an->names[e->name].kclass == GW_K_EMBEDDING;
}

int gw_find_by_nature(struct gw_diag *d)
{
    double share = d->kernel_ns ? (double)d->kclass_ns[GW_K_EMBEDDING] / (double)d->kernel_ns : 0;
    if (!d->kernels)
        return GW_NO_DATA;
    if (d->busy < 0.8 || share < GW_LIM_NATURE)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_BY_NATURE, -1);
    gw_diag_gain_set(f, 1, 1, 1);
    f->f.confidence = GW_CONF_MEDIUM;
    gw_diag_seen(d, f, share, "share", "kernel names", _("%.0f %% of the GPU time is in lookups and gathers, which are bound by memory by their nature"), 100 * share);
    kernel_places(d, f, is_lookup, 2);
    gw_diag_fix(f, _("nothing, most likely: look at samples per second; smaller or quantised tables move less"), _("samples per second"), "");
    return GW_FIRED;
}
