/* kernel_efficiency: how the work is issued. What the kernels themselves do is in kernel_work.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "layers/finding.h"
#include "layers/live.h"

int gw_find_host_sync(struct gw_diag *d)
{
    if (!d->dev->nruns)
        return GW_NO_DATA;
    int64_t lost = d->dev->cause_ns[GW_CAUSE_HOST_SYNC], n = 0, drained = 0, after = 0, explicit_n = 0;
    struct gw_places *p = gw_places_new(d);
    for (size_t i = 0; i < d->dev->nblocks; i++) {
        const struct gw_block *b = d->dev->blocks + i;
        const struct gw_event *e = gw_ev(d->an, b->call);
        if (b->kind != GW_CAUSE_HOST_SYNC || !gw_diag_in(d, e))
            continue;
        n++;
        drained += b->drained;
        after += b->idle_after;
        explicit_n += (e->up == GW_NONE || gw_ev(d->an, e->up)->kind != GW_KIND_OP) && !(d->an->ctx[b->call] & GW_CTX_SYNC_OP);
        gw_places_add(p, b->call, b->idle_after);
    }
    if (d->busy >= GW_LIM_BUSY || gw_diag_share(d, GW_CAUSE_HOST_SYNC) < GW_LIM_SHARE || !n || d->answer[GW_F_DEBUG_MODE] == GW_FIRED) {
        gw_places_drop(p);
        return GW_SILENT;
    }
    struct gw_draft *f = gw_diag_add(d, GW_F_HOST_SYNC, lost);
    struct gw_whatif low = GW_WHATIF_NONE, likely, high;
    low.drop_wait = 1u << GW_CAUSE_HOST_SYNC; /* cautious: only the waits go */
    likely = low;
    likely.remove = 1u << GW_CAUSE_HOST_SYNC; /* the reading operators go too */
    likely.ctx = GW_CTX_SYNC_OP;
    likely.ctx_host_scale = 0;
    high = likely;
    high.ctx |= GW_CTX_FEEDS_READ; /* and what only computes the value that is read */
    gw_diag_gain(d, f, &low, &likely, &high);
    f->f.confidence = drained * 2 >= n ? GW_CONF_HIGH : GW_CONF_MEDIUM;
    gw_diag_seen(d, f, (double)n / d->steps, "count", "API calls", _("%.3g blocking reads or waits a step; the queue is empty after %.3g of them, %s of idle time each"),
                 (double)n / d->steps, (double)drained / d->steps, gw_diag_time_text(d, drained ? (double)after / (double)drained : 0));
    if (d->busy > 0.8)
        gw_diag_against(d, f, d->busy, "share", "timeline", _("the GPU is busy %.0f %% of the time: most of these waits cost nothing"), 100 * d->busy);
    if (d->dev->cause_ns[GW_CAUSE_LAUNCH] > lost)
        gw_diag_against(d, f, gw_diag_share(d, GW_CAUSE_LAUNCH), "share", "timeline", _("more idle time is lost to slow dispatch than to these waits"));
    gw_places_done(p, f, 4);
    if (explicit_n * 2 > n)
        gw_diag_fix(f, _("remove the explicit waits from the loop: `torch.cuda.synchronize()` and `event.synchronize()` belong around timings only"),
                    _("gpuwhy diff before.json after.json"), "");
    gw_diag_fix(f, _("keep the value on the GPU and read it every 50 steps: `if step % 50 == 0: log(loss.item())`; no `.item()`, `.cpu()`, `print(tensor)` or `if tensor:` in the loop"),
                _("gpuwhy diff before.json after.json"), _("logs lag by some steps"));
    return GW_FIRED;
}

/* Kernels given by calls in one context, and the idle time right before them. */
struct gw_under {
    int64_t kernels, busy, idle, fused;
};

static struct gw_under under(const struct gw_diag *d, uint32_t ctx)
{
    struct gw_under u = {0};
    for (size_t i = 0; i < d->dev->nops; i++) {
        const struct gw_event *e = gw_ev(d->an, d->dev->ops[i]);
        if (!gw_diag_in(d, e) || e->link == GW_NONE || !(d->an->ctx[e->link] & ctx) || e->kind != GW_KIND_KERNEL)
            continue;
        u.kernels++;
        u.busy += e->end - e->start;
        u.fused += d->an->names[e->name].kclass == GW_K_OPTIMIZER;
    }
    for (size_t i = 0; i < d->dev->ngaps; i++) {
        const struct gw_gap *g = d->dev->gaps + i;
        if (g->call != GW_NONE && (d->an->ctx[g->call] & ctx) && g->start >= d->an->w0 && g->end <= d->an->w1)
            u.idle += g->end - g->start;
    }
    return u;
}

static int64_t optimizer_steps(const struct gw_diag *d)
{
    int64_t n = 0;
    const struct gw_lane *lane = d->an->t->lanes.data;
    for (size_t l = 0; l < d->an->t->lanes.len; l++)
        for (size_t i = 0; lane[l].type == GW_LANE_HOST && lane[l].pid == d->dev->pid && i < lane[l].count; i++) {
            const struct gw_event *e = gw_ev(d->an, lane[l].order[i]);
            n += (e->kind == GW_KIND_ANNOT || e->kind == GW_KIND_OP) && gw_diag_in(d, e) &&
                 !strncmp(gw_trace_text(d->an->t, e->name), "Optimizer.step#", 15);
        }
    return n;
}

/* Shortest kernels of the window: what any kernel costs the GPU at least. */
static int64_t kernel_floor(const struct gw_diag *d)
{
    uint32_t bin[64] = {0}; /* 0.1 us each */
    uint64_t n = 0;
    for (size_t i = 0; i < d->dev->nops; i++) {
        const struct gw_event *e = gw_ev(d->an, d->dev->ops[i]);
        if (e->kind != GW_KIND_KERNEL)
            continue;
        int64_t b = (e->end - e->start) / 100;
        bin[b < 63 ? b : 63]++;
        n++;
    }
    uint64_t seen = 0;
    for (int i = 0; i < 63; i++) {
        seen += bin[i];
        if (seen * 20 >= n)
            return (int64_t)i * 100;
    }
    return 1000;
}

int gw_find_unfused_optimizer(struct gw_diag *d)
{
    int64_t opts = optimizer_steps(d);
    if (!opts)
        return gw_live_unfused_optimizer(d);
    struct gw_under u = under(d, GW_CTX_OPTIMIZER);
    double per = (double)u.kernels / (double)opts, mean = u.kernels ? (double)u.busy / (double)u.kernels : 0;
    double share = (double)(u.busy + u.idle) / (double)d->wall;
    if (per < GW_LIM_OPT_KERNELS || share < GW_LIM_OPT_SHARE || u.fused * 2 > u.kernels)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_UNFUSED_OPT, u.busy + u.idle);
    if (d->dev->replay) {
        int64_t floor = kernel_floor(d);
        /* Fused, a few launches do the work of all. Left on the host: listing the parameters, measured on an H200 machine
         * as 3 % of the time of the tensor-by-tensor loop (300 tensors: 31.8 -> 0.93 ms). Left on the GPU: the part of
         * each kernel beyond the least that any kernel takes. */
        const double host[3] = {0.10, 0.025, 0.015}, gpu[3] = {1.0, 0.2, 0.05};
        struct gw_whatif w[3];
        for (int k = 0; k < 3; k++) {
            float *scale = gw_diag_scales(d, k);
            for (size_t i = 0; scale && i < gw_replay_ops(d->dev->replay); i++) {
                const struct gw_event *e = gw_ev(d->an, gw_replay_op_event(d->dev->replay, i));
                if (e->link == GW_NONE || !(d->an->ctx[e->link] & GW_CTX_OPTIMIZER) || e->end == e->start)
                    continue;
                double over = (double)(e->end - e->start - floor) / (double)(e->end - e->start);
                scale[i] = (float)(fmax(over, 0.02) * gpu[k]);
            }
            w[k] = GW_WHATIF_NONE;
            w[k].op_scale = scale;
            w[k].ctx = GW_CTX_OPTIMIZER;
            w[k].ctx_host_scale = host[k];
        }
        gw_diag_gain(d, f, w, w + 1, w + 2);
    } else {
        gw_diag_gain(d, f, NULL, NULL, NULL);
    }
    f->f.confidence = GW_CONF_HIGH;
    gw_diag_seen(d, f, per, "count", "API calls", _("%.0f kernels for each optimizer step, %s each on average"), per, gw_diag_time_text(d, mean));
    gw_diag_seen(d, f, share, "share", "timeline", _("%.0f %% of the time goes to them and the gaps before them"), 100 * share);
    const struct gw_lane *lane = d->dev->main_lane == GW_NONE ? NULL : gw_trace_lane(d->an->t, d->dev->main_lane);
    for (size_t i = 0; lane && i < lane->count; i++) {
        const char *s = gw_ev_name(d->an, lane->order[i]);
        if (strncmp(s, "Optimizer.step#", 15))
            continue;
        gw_diag_where(f, "", 0, s, 1, opts);
        break;
    }
    gw_diag_fix(f, _("one argument: `torch.optim.AdamW(params, lr=..., fused=True)` (or foreach=True where fused is not offered)"),
                _("gpuwhy diff before.json after.json"), _("fused needs all parameters on the GPU; rounding differs slightly"));
    return GW_FIRED;
}

static void launch_places(struct gw_diag *d, struct gw_draft *f)
{
    struct gw_places *p = gw_places_new(d);
    for (size_t i = 0; i < d->dev->npieces; i++) {
        const struct gw_piece *q = d->dev->pieces + i;
        const struct gw_gap *g = d->dev->gaps + q->gap;
        if (q->cause == GW_CAUSE_LAUNCH && g->call != GW_NONE && g->start >= d->an->w0 && g->start < d->an->w1)
            gw_places_add(p, g->call, q->ns);
    }
    gw_places_done(p, f, 3);
}

int gw_find_launch_bound(struct gw_diag *d)
{
    if (!d->dev->nruns)
        return GW_NO_DATA;
    int64_t lost = d->dev->cause_ns[GW_CAUSE_LAUNCH];
    if (d->busy >= GW_LIM_BUSY || gw_diag_share(d, GW_CAUSE_LAUNCH) < GW_LIM_LAUNCH)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_LAUNCH_BOUND, lost);
    struct gw_whatif w[3] = {GW_WHATIF_NONE, GW_WHATIF_NONE, GW_WHATIF_NONE};
    w[0].host_scale = 0.75; /* fewer Python frames, foreach: a quarter of the dispatch saved */
    w[1].host_scale = 0.35; /* torch.compile without graphs: two thirds */
    w[2].host_scale = 0.03; /* CUDA graphs: one launch a step */
    gw_diag_gain(d, f, w, w + 1, w + 2);
    f->f.confidence = d->scale_likely < 0.75 ? GW_CONF_MEDIUM : GW_CONF_HIGH;
    double mean = d->kernels ? (double)d->kernel_ns / (double)d->kernels : 0;
    gw_diag_seen(d, f, (double)d->kernels / d->steps, "count", "kernel records", _("%.0f kernels a step, %s each on average; the host needs %s to issue one"),
                 (double)d->kernels / d->steps, gw_diag_time_text(d, mean),
                 gw_diag_time_text(d, d->kernels ? (double)d->dev->host_ns[GW_CAUSE_LAUNCH] / (double)d->kernels : 0));
    gw_diag_seen(d, f, gw_diag_share(d, GW_CAUSE_LAUNCH), "share", "timeline", _("the GPU runs dry %.0f %% of the time while the host is still issuing; it waits for nothing else"),
                 100 * gw_diag_share(d, GW_CAUSE_LAUNCH));
    if (d->scale_likely < 0.97)
        gw_diag_against(d, f, 1 / d->scale_likely, "1", "host events", _("part of it is the profiler's: its records make the host about %.1fx slower here"),
                        1 / d->scale_likely);
    launch_places(d, f);
    gw_diag_fix(f, _("`model = torch.compile(model, mode=\"reduce-overhead\")` (CUDA graphs), or a larger batch; leave its warm-up steps out when comparing"),
                _("gpuwhy diff before.json after.json"), _("first steps compile for minutes; shapes must be stable"));
    return GW_FIRED;
}

static void run_places(struct gw_diag *d, struct gw_draft *f, uint32_t labels)
{
    struct gw_places *p = gw_places_new(d);
    for (size_t i = 0; i < d->dev->nruns; i++) {
        const struct gw_run *r = d->dev->runs + i;
        if (r->label < GW_CAUSE_COUNT && (labels & (1u << r->label)) && r->leaf != GW_NONE && r->start >= d->an->w0 &&
            r->start < d->an->w1)
            gw_places_add(p, r->leaf, r->end - r->start);
    }
    gw_places_done(p, f, 3);
}

/* Recorded shapes on one line: "[[2880], [32, 2880]]". */
static const char *one_line(struct gw_diag *d, const char *s)
{
    char *out = gw_arena_alloc(d->arena, strlen(s) + 1);
    size_t n = 0;
    for (; out && *s && n < 120; s++)
        if (*s > ' ')
            out[n++] = *s;
        else if (n && out[n - 1] == ',') /* one blank after a comma, none elsewhere */
            out[n++] = ' ';
    return out ? out : "";
}

int gw_find_slow_op(struct gw_diag *d)
{
    int64_t lost = d->dev->cause_ns[GW_CAUSE_SLOW_OP];
    if (!d->dev->nruns || !d->an->ranges)
        return GW_NO_DATA;
    if (gw_diag_share(d, GW_CAUSE_SLOW_OP) < GW_LIM_SHARE || d->answer[GW_F_GIL] == GW_FIRED ||
        d->answer[GW_F_AUTOTUNE] == GW_FIRED ||
        (d->answer[GW_F_SHAPE_CHURN] == GW_FIRED && gw_live_churns(d))) /* said there, with its reason */
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_SLOW_OP, lost);
    struct gw_whatif low = GW_WHATIF_NONE, gone = GW_WHATIF_NONE;
    low.label_scale[GW_CAUSE_SLOW_OP] = 0.5;
    gone.remove = 1u << GW_CAUSE_SLOW_OP;
    gw_diag_gain(d, f, &low, &gone, &gone);
    int64_t n = 0, longest = 0;
    const char *shape = "";
    for (size_t i = 0; i < d->dev->nruns; i++) {
        const struct gw_run *r = d->dev->runs + i;
        if (r->label != GW_CAUSE_SLOW_OP || r->start < d->an->w0 || r->start >= d->an->w1)
            continue;
        n++;
        if (r->end - r->start > longest) {
            longest = r->end - r->start;
            const struct gw_event *e = r->leaf == GW_NONE ? NULL : gw_ev(d->an, r->leaf);
            shape = e && (e->flags & GW_EV_HAS_ARG0) ? gw_trace_text(d->an->t, (uint32_t)e->arg0) : "";
        }
    }
    gw_diag_seen(d, f, (double)n / d->steps, "count", "operators", _("%.3g times a step an operator stays in its own host code, up to %s"),
                 (double)n / d->steps, gw_diag_time_text(d, (double)longest));
    if (shape[0])
        gw_diag_seen(d, f, NAN, "1", "operators", _("the longest one had the shapes %s"), one_line(d, shape));
    run_places(d, f, 1u << GW_CAUSE_SLOW_OP);
    gw_diag_fix(f, _("keep its shapes stable (plans and heuristics are redone for each new one), or choose another backend for this operator"),
                _("gpuwhy diff before.json after.json"), "");
    return GW_FIRED;
}

/* Factors that make the operations given by calls in some context vanish. */
static float *without_ctx(struct gw_diag *d, uint32_t ctx)
{
    float *scale = gw_diag_scales(d, 0);
    for (size_t i = 0; scale && i < gw_replay_ops(d->dev->replay); i++) {
        uint32_t call = gw_ev(d->an, gw_replay_op_event(d->dev->replay, i))->link;
        if (call != GW_NONE && (d->an->ctx[call] & ctx))
            scale[i] = 0;
    }
    return scale;
}

int gw_find_recompile(struct gw_diag *d)
{
    const uint32_t labels = 1u << GW_CAUSE_COMPILE | 1u << GW_CAUSE_MODULE_LOAD;
    int64_t lost = d->dev->cause_ns[GW_CAUSE_COMPILE] + d->dev->cause_ns[GW_CAUSE_MODULE_LOAD];
    if (!d->dev->nruns)
        return GW_NO_DATA;
    if ((double)lost < GW_LIM_SHARE * (double)d->wall)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_RECOMPILE, lost);
    struct gw_whatif low = GW_WHATIF_NONE, gone = GW_WHATIF_NONE;
    low.label_scale[GW_CAUSE_COMPILE] = low.label_scale[GW_CAUSE_MODULE_LOAD] = 0.3;
    gone.remove = labels;
    gone.ctx = GW_CTX_COMPILE; /* what a compiler runs to tune itself goes with it */
    gone.ctx_host_scale = 0;
    gone.op_scale = without_ctx(d, GW_CTX_COMPILE);
    gw_diag_gain(d, f, &low, &gone, &gone);
    int64_t n = 0;
    for (size_t i = 0; i < d->dev->nruns; i++)
        n += d->dev->runs[i].label < GW_CAUSE_COUNT && (labels & (1u << d->dev->runs[i].label)) &&
             d->dev->runs[i].start >= d->an->w0 && d->dev->runs[i].start < d->an->w1;
    gw_diag_seen(d, f, (double)lost / (double)d->wall, "share", "timeline", _("%.0f %% of the time after warm-up goes to compiling, capturing or loading code (%lld stretches)"),
                 100 * (double)lost / (double)d->wall, (long long)n);
    if (d->an->steps.count < 8)
        gw_diag_against(d, f, (double)d->an->steps.count, "count", "steps", _("only %zu steps were recorded: part of it may be warm-up"), d->an->steps.count);
    run_places(d, f, labels);
    gw_diag_fix(f, _("stop the shapes from changing: pad to a few sizes, or `torch.compile(model, dynamic=True)` / `torch._dynamo.mark_dynamic(x, 0)`; `TORCH_LOGS=recompiles` names the guard that failed"),
                _("gpuwhy diff before.json after.json"), _("padding computes a little for nothing"));
    return GW_FIRED;
}

/* The convolution operator around a kernel's launch, or GW_NONE. */
static uint32_t conv_op(const struct gw_diag *d, uint32_t call)
{
    for (uint32_t u = call; u != GW_NONE; u = gw_ev(d->an, u)->up)
        if (gw_ev(d->an, u)->kind == GW_KIND_OP && (strstr(gw_ev_name(d->an, u), "conv") || strstr(gw_ev_name(d->an, u), "Conv")))
            return u;
    return GW_NONE;
}

/* Counts the different matrix kernels seen. */
static void note_matrix(const struct gw_diag *d, const struct gw_event *e, uint32_t tried[64], size_t *n)
{
    unsigned k = e->kind == GW_KIND_KERNEL ? d->an->names[e->name].kclass : GW_K_OTHER;
    if (k != GW_K_CONV && k != GW_K_CONV_FP32 && k != GW_K_GEMM && k != GW_K_GEMM_FP32)
        return;
    for (size_t i = 0; i < *n; i++)
        if (tried[i] == e->name)
            return;
    if (*n < 64)
        tried[(*n)++] = e->name;
}

/* Timing calls under an operator: tuning measures each candidate with events, ordinary runs measure nothing. */
static int times_itself(const struct gw_diag *d, uint32_t op)
{
    const struct gw_event *o = gw_ev(d->an, op);
    const struct gw_lane *lane = gw_trace_lane(d->an->t, o->lane);
    size_t lo = gw_lane_at(d->an, lane, o->start);
    int n = 0;
    for (; lo < lane->count && gw_ev(d->an, lane->order[lo])->start < o->end; lo++) {
        const struct gw_event *e = gw_ev(d->an, lane->order[lo]);
        enum gw_api api = e->kind == GW_KIND_API ? (enum gw_api)d->an->names[e->name].api : GW_API_OTHER;
        n += api == GW_API_SYNC_EVENT || api == GW_API_SYNC_DEVICE;
    }
    return n >= 2;
}

int gw_find_autotune(struct gw_diag *d)
{
    int64_t bursts = 0, ns = 0, kernels = 0, from = 0, to = 0;
    uint32_t cur = GW_NONE, tried[64];
    size_t in = 0;
    if (!d->dev->nruns || !d->an->ranges)
        return GW_NO_DATA;
    struct gw_places *p = gw_places_new(d);
    for (size_t i = 0; i <= d->dev->nops; i++) {
        const struct gw_event *e = i < d->dev->nops ? gw_ev(d->an, d->dev->ops[i]) : NULL;
        uint32_t op = e && e->link != GW_NONE && gw_diag_in(d, e) ? conv_op(d, e->link) : GW_NONE;
        if (op == cur && op != GW_NONE && e) {
            note_matrix(d, e, tried, &in);
            to = e->end;
            continue;
        }
        if (cur != GW_NONE && (double)in >= GW_LIM_AUTOTUNE_KERNELS && times_itself(d, cur)) {
            bursts++;
            kernels += (int64_t)in;
            const struct gw_event *o = gw_ev(d->an, cur); /* the host is in the operator until the last candidate ran */
            int64_t whole = (o->end > to ? o->end : to) - (o->start < from ? o->start : from);
            ns += whole;
            gw_places_add(p, cur, whole);
        }
        cur = op;
        in = 0;
        if (e)
            note_matrix(d, e, tried, &in);
        from = e ? e->start : 0;
        to = e ? e->end : 0;
    }
    if (bursts < 2 || (double)ns < GW_LIM_SHARE * (double)d->wall) {
        gw_places_drop(p);
        return gw_live_autotune(d) == GW_FIRED ? GW_FIRED : GW_SILENT;
    }
    struct gw_draft *f = gw_diag_add(d, GW_F_AUTOTUNE, ns);
    double t = (double)d->wall, tuned = fmin((double)ns, t * 0.995), rest = t - tuned;
    double one = tuned / ((double)kernels / (double)bursts); /* one candidate of each: what an untuned run does */
    gw_diag_gain_set(f, t / (rest + tuned * 0.5), t / (rest + one * 0.5), t / (rest + one * 0.1));
    f->f.confidence = GW_CONF_HIGH;
    gw_diag_seen(d, f, (double)bursts / d->steps, "count", "kernels under operators", _("%.3g convolutions a step try %.0f algorithms each, %.0f %% of the time"),
                 (double)bursts / d->steps, (double)kernels / (double)bursts, 100 * (double)ns / t);
    gw_places_done(p, f, 3);
    gw_diag_fix(f, _("`torch.backends.cudnn.benchmark = False` while shapes vary, or pad to a few fixed shapes and leave it on"),
                _("gpuwhy diff before.json after.json"), _("without tuning a single convolution may be slower"));
    return GW_FIRED;
}

int gw_find_host_allocation(struct gw_diag *d)
{
    int64_t lost = d->dev->cause_ns[GW_CAUSE_HOST_ALLOC];
    if (!d->dev->nruns)
        return GW_NO_DATA;
    if (gw_diag_share(d, GW_CAUSE_HOST_ALLOC) < GW_LIM_SHARE)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_HOST_ALLOCATION, lost);
    struct gw_whatif w = GW_WHATIF_NONE;
    w.remove = 1u << GW_CAUSE_HOST_ALLOC;
    gw_diag_gain(d, f, &w, &w, &w);
    gw_diag_seen(d, f, gw_diag_per_step(d, (double)lost), "ns", "API calls", _("page-locked memory is allocated, registered or freed for %s a step"),
                 gw_diag_time_text(d, gw_diag_per_step(d, (double)lost)));
    run_places(d, f, 1u << GW_CAUSE_HOST_ALLOC);
    gw_diag_fix(f, _("pin once and use the buffer again: `DataLoader(..., pin_memory=True)`, not `tensor.pin_memory()` in the loop"),
                _("gpuwhy diff before.json after.json"), _("the buffers stay pinned"));
    return GW_FIRED;
}
