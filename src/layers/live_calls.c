/*
 * live_calls.c - a job whose GPU work was not recorded, most often because it is bound by its launches: what its own calls of CUDA,
 * counted inside it, and the samples of the launching thread say. The host is what everything waits for, so a share of its time is a
 * share of the step. See live.h.
 */
#include <math.h>

#include "layers/live.h"

/* Issuing a kernel from PyTorch takes this many times its launch call: 7 us around 1.5 us on one H200 host, 36 us around 5 us on a
 * slower one (steps of 680 kernels; docs/overhead.md). */
#define ISSUE_TIMES 6.0
/* A launch-bound job never waits for the GPU for long: less than this share of the time. */
#define HARDLY_WAITS 0.20
/* Above this the host is not what is waited for. */
#define MOSTLY_WAITS 0.5
/* Waits and allocations a second: fewer are a step's end or a warm-up, not a habit. */
#define MANY_CALLS 50.0
/* A copy from pinned memory returns in microseconds; one that keeps the host this long is from pageable memory. */
#define LONG_COPY_S 100e-6
/* Of the time that lines with waits take, how much is the waits': all of the calls' own, half of the rest. */
#define LINE_PART 0.5
enum { MARK_SAMPLES = 2 }; /* samples inside waits that make a line one that waits */

static double rate(const struct gw_diag *d, const struct gw_live *l, const char *name)
{
    double v = gw_live_rate(l, d->an, name, -1, l->pid);
    return isnan(v) ? 0 : v;
}

static int has_counts(const struct gw_diag *d, const struct gw_live *l)
{
    return l && !isnan(gw_live_rate(l, d->an, "cuda.launches", -1, l->pid));
}

/* --- the time in which the job works ------------------------------------------------------------------------------------------- */

/* Between one launch in twenty and 98 in 100: without the start, which loads, and the end. */
int gw_live_calls_period(const struct gw_analysis *an, int64_t pid, int64_t *from, int64_t *to)
{
    struct gw_live whole = {.from = INT64_MIN, .to = INT64_MAX};
    double last = gw_live_last(&whole, an, "cuda.launches", -1, pid);
    if (!(last >= 1000))
        return 0;
    int64_t a = gw_live_reached(an, "cuda.launches", -1, pid, 0.05 * last), b = gw_live_reached(an, "cuda.launches", -1, pid, 0.98 * last);
    if (b - a < 1000000000)
        return 0;
    *from = a;
    *to = b + 1; /* that look included */
    return 1;
}

/* --- lines -------------------------------------------------------------------------------------------------------------------- */

struct gw_live_lines {
    uint32_t frame[256];
    unsigned waits[256], all[256];
    size_t n;
    unsigned samples; /* with a stack */
    unsigned own;     /* outside of CUDA, innermost frame the user's own */
    unsigned library; /* outside of CUDA, innermost frame somewhere else */
};

static void count_lines(struct gw_diag *d, const struct gw_live *l, struct gw_live_lines *x)
{
    const struct gw_lane *lane = gw_trace_lane(d->an->t, l->launcher);
    for (size_t k = 0; k < lane->count; k++) {
        const struct gw_event *e = gw_ev(d->an, lane->order[k]);
        const struct gw_stack_info *s = e->kind == GW_KIND_SAMPLE ? gw_samples_stack(d->an, e) : NULL;
        if (!s || e->start < l->from || e->start >= l->to || e->sub != GW_TS_RUNNING)
            continue;
        unsigned call = gw_sample_call(e);
        x->samples++;
        x->own += call == GW_CALL_NONE && s->user && s->user == s->inner && !s->ctx;
        x->library += call == GW_CALL_NONE && s->user != s->inner;
        size_t i = 0;
        while (i < x->n && x->frame[i] != s->user)
            i++;
        if (i == sizeof x->frame / sizeof *x->frame || !s->user)
            continue;
        if (i == x->n) {
            x->frame[i] = s->user;
            x->waits[i] = x->all[i] = 0;
            x->n++;
        }
        x->all[i]++;
        x->waits[i] += call == GW_CALL_WAIT || call == GW_CALL_READ;
    }
}

/* Counted once a report; NULL without a launching thread. */
static const struct gw_live_lines *lines_of(struct gw_diag *d, const struct gw_live *l)
{
    struct gw_live *own = (struct gw_live *)(uintptr_t)l; /* ours: made for this report */
    if (l->lines || l->launcher == GW_NONE)
        return l->lines;
    struct gw_live_lines *x = gw_arena_calloc(d->arena, 1, sizeof *x);
    if (x)
        count_lines(d, l, x);
    else
        d->oom = 1;
    own->lines = x;
    return x;
}

/* Share of the thread's time on lines that were seen waiting for the GPU. */
static double lines_that_wait(const struct gw_live_lines *x)
{
    unsigned n = 0;
    for (size_t i = 0; i < x->n; i++)
        n += x->waits[i] >= MARK_SAMPLES ? x->all[i] : 0;
    return x->samples ? (double)n / x->samples : 0;
}

/* --- the findings --------------------------------------------------------------------------------------------------------------- */

static struct gw_draft *add(struct gw_diag *d, enum gw_finding_id id, double low, double likely, double high)
{
    struct gw_draft *f = gw_diag_add(d, id, (int64_t)(likely * (double)d->wall));
    gw_diag_gain_set(f, 1 / (1 - low), 1 / (1 - likely), 1 / (1 - high));
    f->f.confidence = GW_CONF_MEDIUM;
    return f;
}

int gw_live_calls_sync(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    const struct gw_live_lines *x = has_counts(d, l) ? lines_of(d, l) : NULL;
    if (!x)
        return GW_NO_DATA;
    double waits = rate(d, l, "cuda.waits"), inside = rate(d, l, "cuda.wait_s") + rate(d, l, "cuda.read_s"), idle = 1 - d->busy;
    double lines = fmin(lines_that_wait(x), idle);
    inside = fmin(inside, idle);
    double likely = lines > inside ? inside + LINE_PART * (lines - inside) : inside;
    if (likely < GW_LIM_DATA_WAIT || waits < MANY_CALLS || rate(d, l, "cuda.slack_s") > MOSTLY_WAITS)
        return GW_SILENT;
    struct gw_draft *f = add(d, GW_F_HOST_SYNC, inside / 2, likely, fmax(lines, likely));
    gw_diag_seen(d, f, waits, "1/s", "counted calls", _("the job waits for the GPU %.0f times a second, %.0f µs each, copies included"), waits,
                 1e6 * inside / waits);
    if (lines > inside)
        gw_diag_seen(d, f, lines, "share", "thread samples", _("the lines that wait take %.0f %% of the training thread's time"), 100 * lines);
    gw_diag_against(d, f, NAN, "1", "", _("GPU work was not recorded: whether the queue was empty each time is not known"));
    gw_live_where_in_call(d, f, GW_CALL_WAIT, 3);
    gw_diag_fix(f, _("keep values on the GPU and read them every 50 steps; no `.item()`, `.cpu()`, `print(tensor)` or `if tensor:` in the loop"),
                _("gpuwhy diff before after"), _("logs lag by some steps"));
    return GW_FIRED;
}

/* Share of the time in which kernels are issued, as far as launch calls tell. */
static double issuing(const struct gw_diag *d, const struct gw_live *l)
{
    return fmin(ISSUE_TIMES * (rate(d, l, "cuda.launch_s") + rate(d, l, "cuda.graph_launch_s")), 1);
}

int gw_live_calls_launch(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    if (!has_counts(d, l))
        return GW_NO_DATA;
    double idle = 1 - d->busy, launches = rate(d, l, "cuda.launches"), slack = rate(d, l, "cuda.slack_s");
    /* What else the host was seen to do is not issuing. */
    double others = rate(d, l, "cuda.copy_s") + rate(d, l, "cuda.allocation_s") + rate(d, l, "cuda.host_allocation_s");
    double lost = fmin(fmin(issuing(d, l), 1 - others), idle);
    if (lost < GW_LIM_DATA_WAIT || slack > HARDLY_WAITS)
        return GW_SILENT;
    struct gw_draft *f = add(d, GW_F_LAUNCH_BOUND, lost * 0.3, lost * 0.65, lost);
    gw_diag_seen(d, f, launches, "1/s", "counted calls",
                 _("the job launches %.0f kernels a second, one every %.1f µs, and waits for the GPU in %.1f %% of the time: the GPU waits "
                   "for it"),
                 launches, 1e6 / launches, 100 * slack);
    gw_diag_seen(d, f, lost, "share", "counted calls", _("launch calls take %.1f %% of the time; issuing a kernel takes some %.0f times its call"),
                 100 * rate(d, l, "cuda.launch_s"), ISSUE_TIMES);
    gw_diag_against(d, f, NAN, "1", "", _("kernels were not recorded, because that would slow such a job for good; launches of libraries that carry the CUDA "
                                          "runtime inside themselves were not counted"));
    gw_live_where(d, f, GW_LIVE_LAUNCHER, ~0u, 0, 3);
    gw_diag_fix(f, _("`model = torch.compile(model, mode=\"reduce-overhead\")` (CUDA graphs), or a larger batch; `fused=True` or `foreach=True` in the optimizer"),
                _("gpuwhy diff before after"), _("first steps compile for minutes; shapes must be stable"));
    return GW_FIRED;
}

int gw_live_calls_copy(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    if (!has_counts(d, l))
        return GW_NO_DATA;
    double share = fmin(rate(d, l, "cuda.copy_s"), 1 - d->busy), copies = rate(d, l, "cuda.copies");
    if (share < GW_LIM_DATA_WAIT || copies <= 0 || share / copies < LONG_COPY_S)
        return GW_SILENT;
    /* From pinned memory the copy is several times faster and beside the computing; the loader's thread copies into that memory. */
    struct gw_draft *f = add(d, GW_F_PAGEABLE_COPY, 0.5 * share, 0.85 * share, share);
    gw_diag_seen(d, f, share, "share", "counted calls", _("copies keep the host for %.0f %% of the time: %.0f a second, %.1f ms each"), 100 * share, copies,
                 1e3 * share / copies);
    gw_diag_against(d, f, NAN, "1", "", _("copies were not recorded one by one: that they come from pageable memory is told from how long the call takes"));
    gw_live_where_in_call(d, f, GW_CALL_COPY, 3);
    gw_diag_fix(f, _("`DataLoader(..., pin_memory=True)` and `batch.to(device, non_blocking=True)`, both"), _("gpuwhy diff before after"),
                _("pinned memory for some batches"));
    return GW_FIRED;
}

static int allocates(struct gw_diag *d, enum gw_finding_id id, const char *count, const char *time, unsigned call, const char *fix)
{
    const struct gw_live *l = gw_live_of(d);
    if (!has_counts(d, l))
        return GW_NO_DATA;
    double share = fmin(rate(d, l, time), 1 - d->busy), n = rate(d, l, count);
    if (share < GW_LIM_DATA_WAIT || n < MANY_CALLS / 10)
        return GW_SILENT;
    struct gw_draft *f = add(d, id, 0.7 * share, share, fmin(1.3 * share, 1 - d->busy));
    gw_diag_seen(d, f, share, "share", "counted calls", _("allocating and freeing takes the host %.0f %% of the time: %.0f calls a second"), 100 * share, n);
    gw_live_where_in_call(d, f, call, 3);
    gw_diag_fix(f, fix, _("gpuwhy diff before after"), "");
    return GW_FIRED;
}

int gw_live_calls_allocator(struct gw_diag *d)
{
    return allocates(d, GW_F_ALLOCATOR, "cuda.allocations", "cuda.allocation_s", GW_CALL_ALLOC,
                     _("no `torch.cuda.empty_cache()` in the loop; `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`; a smaller batch when memory is full"));
}

int gw_live_calls_host_allocation(struct gw_diag *d)
{
    return allocates(d, GW_F_HOST_ALLOCATION, "cuda.host_allocations", "cuda.host_allocation_s", GW_CALL_HOST_ALLOC,
                     _("pin once: `DataLoader(..., pin_memory=True)`, or one pinned buffer that is filled again, instead of `.pin_memory()` in the loop"));
}

int gw_live_calls_preprocess(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    const struct gw_live_lines *x = has_counts(d, l) ? lines_of(d, l) : NULL;
    if (!x)
        return GW_NO_DATA;
    unsigned samples = x->samples;
    double own = samples ? (double)x->own / samples : 0, library = samples ? (double)x->library / samples : 0;
    /* The user's lines issue kernels, too: what issuing needs and the library's frames do not show is theirs. */
    double share = fmin(own - fmax(0, issuing(d, l) - library), 1 - d->busy);
    if (samples < 20 || share < GW_LIM_DATA_WAIT || rate(d, l, "cuda.slack_s") > HARDLY_WAITS)
        return GW_SILENT;
    struct gw_draft *f = add(d, GW_F_MAIN_PREPROCESS, 0.5 * share, share, own < 1 - d->busy ? own : 1 - d->busy);
    gw_diag_seen(d, f, share, "share", "thread samples", _("%.0f %% of the time the training thread runs code of its own, outside of calls of CUDA"),
                 100 * share);
    gw_diag_against(d, f, NAN, "1", "", _("GPU work was not recorded: whether the GPU idled just then is not known"));
    gw_live_where_in_call(d, f, GW_CALL_NONE, 3);
    gw_diag_fix(f, _("move this work into the data set or `collate_fn`, so that loader workers do it ahead; or do it once, before training"),
                _("gpuwhy diff before after"), _("CPUs and memory for the workers"));
    return GW_FIRED;
}
