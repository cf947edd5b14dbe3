/*
 * live_host.c - a host that neither calls CUDA all the time nor prepares data: operators that take long before they launch anything,
 * shapes that are new in each step, convolutions that are tuned, an optimizer that goes tensor by tensor, a simulator. From counted
 * calls and sampled threads; without GPU records the host is what everything waits for, so a share of its time is a share of the
 * step. See live.h.
 */
#include <math.h>
#include <string.h>

#include "layers/live.h"

/* Launches with a grid that the kernel did not have before. Jobs of steady shapes have none after their warm-up: 0 of 23 jobs of bench/zoo on an
 * H200 had one in the second half of their working time. Random lengths gave 58 of 1000 (eight equal layers share a grid), random images
 * 243. So few of a thousand are a habit when they are more than an odd last batch makes. */
#define FRESH_SHARE 0.002
#define FRESH_LEAST 20.0 /* launches */
/* Of the time in operators, what is not issuing, for them to be slow and not just many: four fifths is 30 launch calls a launch; jobs bound by
 * their launches need 4.4 to 8.5 of them, 14 with much Python (live_calls.c). */
#define SLOW_PART 0.8
/* In the name of each of torch.optim's loops over single tensors: _single_tensor_adamw(), ... */
#define SINGLE_TENSORS ": _single_tensor_"
/* Stacks of the launching thread for their shares to say anything. */
enum { ENOUGH_STACKS = 20 };
/* Of the operators' samples, those in convolutions, for tuning them to be what takes the time. */
#define TUNED_PART 0.5
/* A simulator's turn: values are read (the action), a small input follows (the observation), few kernels lie between (the policy: tens;
 * a training step has hundreds), and code of its own runs in between. A server that decodes token by token has that rhythm too, with a CUDA
 * graph or hundreds of launches for each. */
#define TURNS 20.0 /* a second */
#define TURN_LAUNCHES 50.0
#define TURN_CODE 0.25

/* Shares of the launching thread's sampled time by cause (enum gw_cause). 0 = it was not sampled. */
static int shares_of(const struct gw_diag *d, const struct gw_live *l, double share[GW_CAUSE_COUNT])
{
    double all = 0;
    for (unsigned c = 0; c < GW_CAUSE_COUNT; c++)
        share[c] = 0;
    uint32_t at = gw_live_stack_lane(d, l);
    if (at == GW_NONE)
        return 0;
    const struct gw_lane *lane = gw_trace_lane(d->an->t, at);
    for (size_t i = 0; i < lane->count; i++) {
        const struct gw_event *e = gw_ev(d->an, lane->order[i]);
        /* in a call of CUDA it is known what the thread does, with a stack or without */
        if (e->kind != GW_KIND_SAMPLE || e->start < l->from || e->start >= l->to || !gw_samples_tells(d->an, e))
            continue;
        double ns = (double)(e->end - e->start);
        all += ns;
        if (gw_sample_call(e) == GW_CALL_NONE)
            share[gw_samples_cause(d->an, e)] += ns;
    }
    for (unsigned c = 0; c < GW_CAUSE_COUNT && all > 0; c++)
        share[c] /= all;
    return all > 0;
}

/* 1 when calls were counted and the thread was sampled: its shares. */
static int is_known(struct gw_diag *d, double share[GW_CAUSE_COUNT])
{
    const struct gw_live *l = gw_live_of(d);
    return l && !isnan(gw_live_rate(l, d->an, "cuda.launches", -1, l->pid)) && shares_of(d, l, share);
}

/* Share of the time in operators beyond what issuing their kernels takes, when that takes `times` as long as the calls. */
static double slow_operators(const struct gw_diag *d, const struct gw_live *l, const double share[GW_CAUSE_COUNT], double times)
{
    double issue = times * (gw_live_calls_rate(d, l, "cuda.launch_s") + gw_live_calls_rate(d, l, "cuda.graph_launch_s"));
    return fmin(fmax(0, share[GW_CAUSE_SLOW_OP] - issue), 1 - d->busy);
}

/* --- an optimizer that goes tensor by tensor ----------------------------------------------------------------------------------------- */

int gw_live_unfused_optimizer(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    size_t n = 0;
    double in = l ? (double)gw_live_stacks_with(d, SINGLE_TENSORS, &n, NULL, 0) : 0, share = n ? in / (double)n : 0, idle = 1 - d->busy;
    if (n < ENOUGH_STACKS)
        return GW_NO_DATA;
    double doubt = 2 * sqrt(share * (1 - share) / (double)n); /* two standard deviations of a share from n samples */
    if (share - doubt < GW_LIM_OPT_SHARE || idle < GW_LIM_DATA_WAIT)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_UNFUSED_OPT, (int64_t)(fmin(share, idle) * (double)d->wall));
    /* What stays, of the host's part and of the GPU's, as in gw_find_unfused_optimizer(). */
    const double host[3] = {0.10, 0.025, 0.015}, gpu[3] = {1.0, 0.2, 0.05}, part[3] = {share - doubt, share, fmin(share + doubt, 1)};
    double g[3];
    for (int k = 0; k < 3; k++)
        g[k] = 1 / fmax(fmax(1 - part[k] * (1 - host[k]), d->busy * (1 - part[k] * (1 - gpu[k]))), host[k]);
    gw_diag_gain_set(f, g[0], g[1], g[2]);
    f->f.confidence = GW_CONF_MEDIUM;
    gw_diag_seen(d, f, share, "share", "thread samples", _("%.0f %% of the time the training thread is in the optimizer's loop over single tensors"), 100 * share);
    (void)gw_live_stacks_with(d, SINGLE_TENSORS, &n, f, 3);
    gw_diag_fix(f, _("one argument: `torch.optim.AdamW(params, lr=..., fused=True)` (or foreach=True where fused is not offered)"), _("gpuwhy diff before after"),
                _("fused needs all parameters on the GPU; rounding differs slightly"));
    return GW_FIRED;
}

/* --- convolutions that are tuned again and again --------------------------------------------------------------------------------- */

/* Of the stacks inside modules' forward(), those inside a convolution; 0 without any. */
static double in_convolutions(struct gw_diag *d)
{
    size_t n, all = gw_live_stacks_with(d, "torch/nn/modules/module.py(", &n, NULL, 0), conv = gw_live_stacks_with(d, "torch/nn/modules/conv.py(", &n, NULL, 0);
    return all ? fmin((double)conv / (double)all, 1) : 0;
}

int gw_live_autotune(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    double share[GW_CAUSE_COUNT], wall = (double)d->wall;
    if (!l || l->h->cudnn_benchmark < 0)
        return GW_NO_DATA;
    int has_gpu = d->dev && d->dev->nruns, is_sampled = shares_of(d, l, share);
    double lost = has_gpu ? (double)d->dev->cause_ns[GW_CAUSE_SLOW_OP] : is_sampled ? slow_operators(d, l, share, GW_LIVE_ISSUE) * wall : 0;
    if (l->h->cudnn_benchmark != 1 || lost < GW_LIM_SHARE * wall || in_convolutions(d) < TUNED_PART)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_AUTOTUNE, (int64_t)lost);
    const double left[3] = {0.5, 0.2, 0.05}; /* a candidate of two, five, twenty stays: what an untuned run does */
    if (has_gpu) {
        struct gw_whatif w[3] = {GW_WHATIF_NONE, GW_WHATIF_NONE, GW_WHATIF_NONE};
        for (int i = 0; i < 3; i++)
            w[i].label_scale[GW_CAUSE_SLOW_OP] = left[i];
        gw_diag_gain(d, f, w, w + 1, w + 2);
    } else {
        gw_diag_gain_set(f, 1 / (1 - (1 - left[0]) * lost / wall), 1 / (1 - (1 - left[1]) * lost / wall), 1 / (1 - (1 - left[2]) * lost / wall));
    }
    f->f.confidence = GW_CONF_MEDIUM;
    gw_diag_seen(d, f, lost / wall, "share", "thread samples", _("`torch.backends.cudnn.benchmark` is on, and convolutions keep the host for %.0f %% of the time"),
                 100 * lost / wall);
    gw_diag_fix(f, _("`torch.backends.cudnn.benchmark = False` while shapes vary, or pad to a few fixed shapes and leave it on"), _("gpuwhy diff before after"),
                _("without tuning a single convolution may be slower"));
    return GW_FIRED;
}

/* --- operators, shapes -------------------------------------------------------------------------------------------------------------- */

/* Of the launches in the second half of the working time, those with a new grid; NAN = not counted, or too few to be a habit. */
static double fresh_share(const struct gw_diag *d, const struct gw_live *l)
{
    struct gw_live half = *l;
    (void)gw_live_calls_period(d->an, l->pid, &half.from, &half.to);
    half.from += (half.to - half.from) / 2;
    double launches = gw_live_calls_rate(d, &half, "cuda.launches"), fresh = gw_live_rate(&half, d->an, "cuda.fresh_launches", -1, l->pid);
    if (isnan(fresh) || !(launches > 0))
        return NAN;
    return fresh * (double)(half.to - half.from) * 1e-9 < FRESH_LEAST ? 0 : fresh / launches;
}

int gw_live_churns(const struct gw_diag *d)
{
    double fresh = d->live ? fresh_share(d, d->live) : NAN;
    return fresh >= FRESH_SHARE;
}

static void not_recorded(struct gw_diag *d, struct gw_draft *f)
{
    gw_diag_against(d, f, NAN, "1", "", _("GPU work was not recorded: whether the GPU idled just then is not known"));
}

/* Without GPU records: a finding when the host is in operators for longer than issuing explains; NULL when it is not. `share`: by cause. */
static struct gw_draft *slow_operators_alone(struct gw_diag *d, enum gw_finding_id id, const double share[GW_CAUSE_COUNT])
{
    const struct gw_live *l = gw_live_of(d);
    double low = slow_operators(d, l, share, GW_LIVE_ISSUE_MOST), likely = slow_operators(d, l, share, GW_LIVE_ISSUE), high = slow_operators(d, l, share, 0);
    if (low < GW_LIM_DATA_WAIT || likely < SLOW_PART * share[GW_CAUSE_SLOW_OP])
        return NULL;
    struct gw_draft *f = gw_live_add_share(d, id, low / 2, likely, high);
    not_recorded(d, f);
    gw_diag_seen(d, f, share[GW_CAUSE_SLOW_OP], "share", "thread samples",
                 _("%.0f %% of the time the training thread is inside operators, outside of calls of CUDA; issuing their kernels explains %.0f %%"),
                 100 * share[GW_CAUSE_SLOW_OP], 100 * fmax(0, share[GW_CAUSE_SLOW_OP] - likely));
    gw_live_where_in_call(d, f, 1u << GW_CALL_NONE, 3);
    return f;
}

/* The part of the finding that is alike for new shapes and for slow operators, with and without GPU records. */
static void say_shapes(struct gw_diag *d, struct gw_draft *f, double fresh)
{
    gw_diag_seen(d, f, fresh, "share", "counted calls",
                 _("%.1f %% of the launches have a grid that their kernel did not have before, still in the second half of the run"), 100 * fresh);
    gw_diag_fix(f, _("put samples of like length into one batch (bucketing) and pad to a few fixed sizes"), _("gpuwhy diff before after"),
                _("a little padding is computed for nothing"));
}

/* Operators that prepare themselves anew for each new shape, beside GPU records. */
static int shapes_in_window(struct gw_diag *d, double fresh)
{
    double lost = (double)d->dev->cause_ns[GW_CAUSE_SLOW_OP], wall = (double)d->wall;
    if (lost < GW_LIM_SHARE * wall)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_SHAPE_CHURN, (int64_t)lost);
    struct gw_whatif low = GW_WHATIF_NONE, gone = GW_WHATIF_NONE;
    low.label_scale[GW_CAUSE_SLOW_OP] = 0.5;
    gone.remove = 1u << GW_CAUSE_SLOW_OP;
    gw_diag_gain(d, f, &low, &gone, &gone);
    f->f.confidence = GW_CONF_MEDIUM;
    gw_diag_seen(d, f, lost / wall, "share", "timeline", _("%.0f %% of the time the GPU waits while operators are busy on the host"), 100 * lost / wall);
    say_shapes(d, f, fresh);
    return GW_FIRED;
}

int gw_live_host_shapes(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    double share[GW_CAUSE_COUNT], fresh = l ? fresh_share(d, l) : NAN;
    if (isnan(fresh) || !shares_of(d, l, share))
        return GW_NO_DATA;
    if (fresh < FRESH_SHARE || d->answer[GW_F_AUTOTUNE] == GW_FIRED)
        return GW_SILENT;
    if (d->dev && d->dev->nruns)
        return shapes_in_window(d, fresh);
    struct gw_draft *f = slow_operators_alone(d, GW_F_SHAPE_CHURN, share);
    if (!f)
        return GW_SILENT;
    say_shapes(d, f, fresh);
    return GW_FIRED;
}

int gw_live_host_operators(struct gw_diag *d)
{
    double share[GW_CAUSE_COUNT];
    if (!is_known(d, share))
        return GW_NO_DATA;
    if (d->answer[GW_F_AUTOTUNE] == GW_FIRED || d->answer[GW_F_SHAPE_CHURN] == GW_FIRED)
        return GW_SILENT;
    struct gw_draft *f = slow_operators_alone(d, GW_F_SLOW_OP, share);
    if (!f)
        return GW_SILENT;
    gw_diag_fix(f, _("keep its shapes stable (plans and heuristics are redone for each new one), or choose another backend for this operator"),
                _("gpuwhy diff before after"), "");
    return GW_FIRED;
}

int gw_live_host_simulator(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    double share[GW_CAUSE_COUNT];
    if (!is_known(d, share))
        return GW_NO_DATA;
    double reads = gw_live_calls_rate(d, l, "cuda.reads"), copies = gw_live_calls_rate(d, l, "cuda.copies"), launches = gw_live_calls_rate(d, l, "cuda.launches");
    double named = share[GW_CAUSE_SIMULATOR], code = share[GW_CAUSE_USER_CODE], idle = 1 - d->busy;
    double graphs = gw_live_calls_rate(d, l, "cuda.graph_launches");
    int by_shape = reads >= TURNS && copies >= reads / 2 && launches <= TURN_LAUNCHES * reads && graphs < reads / 10 && code >= TURN_CODE;
    double lost = fmin(named + (by_shape ? code : 0), idle);
    if (lost < GW_LIM_DATA_WAIT)
        return GW_SILENT;
    /* As gw_find_simulator(): with 2, 6 and 16 environments for one forward pass, all of the host's turn is shared. */
    struct gw_draft *f = gw_live_add_share(d, GW_F_SIMULATOR, 0.4 * idle, 0.8 * idle, 0.92 * idle);
    not_recorded(d, f);
    if (by_shape)
        gw_diag_seen(d, f, reads, "1/s", "counted calls",
                     _("%.0f times a second a value is read, host code runs, and an input is sent back; %.0f launches lie between"), reads, launches / reads);
    gw_diag_seen(d, f, lost, "share", "thread samples", _("%.0f %% of the time is spent there: low utilization is normal for such a job"), 100 * lost);
    gw_live_where_in_call(d, f, 1u << GW_CALL_NONE, 3);
    gw_diag_fix(f, _("look at environment steps per second; run many environments at once (vectorised, in processes of their own, or on the GPU) and let one forward pass serve all"),
                _("environment steps per second"), _("on-policy data gets older"));
    return GW_FIRED;
}
