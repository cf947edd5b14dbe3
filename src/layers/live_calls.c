/*
 * live_calls.c - a job whose GPU work was not recorded, most often because it is bound by its launches: what its own calls of CUDA,
 * counted inside it, and the samples of the launching thread say. The host is what everything waits for, so a share of its time is a
 * share of the step. See live.h.
 */
#include <math.h>
#include <string.h>

#include "layers/live.h"

/* Issuing a kernel from PyTorch, with all that Python and the operators do for it, takes this many times its launch call: time a launch
 * over time in the call. Eight jobs bound by their launches, counted and not traced, on hosts with an H200: 4.4 (sgd_unfused), 4.7,
 * 5.2, 6.5 (launch_bound_infer), 7.2, 7.7 (launch_bound), 8.2, 8.5 (batch_small). In nine traces with operators, where the profiler makes
 * both longer: 2.7 to 7.2 (2.8: Adam over small tensors, one by one), the middle half 4.9 to 6.0; 11 and 14 in two of other people's, on
 * an unknown GPU and a B200, with more Python between launches. */
#define ISSUE_TIMES GW_LIVE_ISSUE
#define ISSUE_LEAST 3.0
#define ISSUE_MOST GW_LIVE_ISSUE_MOST
/* What a value read from the GPU costs the host beside the two calls that are counted, in launch calls: aten::item without its copy and
 * its wait takes 0.9 launch calls in one trace of an H200 (6.5 of 7.3 us, 576 reads), 1.1 in another (320 reads), 1.1 in one of an A100;
 * 2.3 on an MI300. */
#define READ_CALLS 1.0
/* What else goes when a read goes, in launches: the kernels that only made the value. Three jobs of bench/zoo whose repair was measured (on a
 * faster host), as the share of time that it saved beyond that of the calls, over the share of a launch: 0 (item_sync: norms kept, read
 * later), 0.7 (item_sync_params: norms computed every 50th step), 4.1 (nonzero_sync: boolean indexing and `if isnan(x).any()`). In a pair of
 * traces the repair issued 1.3 kernels less for each read less. */
#define VALUE_LAUNCHES 1.0
#define VALUE_MOST 5.0
/* A stretch of launches between two reads that is shorter than this on average is no step: reads stand inside the model or the loop. */
#define LAUNCHES_A_STEP 25.0
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
enum { MANY_LOOKS = 30 /* samples whose shares have errors of some 0.1 */ };
enum { MARK_SAMPLES = 2 }; /* samples inside waits that make a line one that waits */

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
    unsigned waiting; /* of them, inside a wait or a read */
    unsigned own;     /* outside of CUDA, innermost frame the user's own */
    unsigned library; /* outside of CUDA, innermost frame somewhere else */
    /* Asleep or not, with a stack, outside of counted calls that are no launches; of them: surely issuing (in a launch, in PyTorch's own
     * code, or in backward(), where autograd's thread issues), and perhaps (in an operator that the user's line calls). */
    unsigned looks, issues, may_issue;
};

static void count_issuing(const struct gw_diag *d, struct gw_live_lines *x, const struct gw_event *e, const struct gw_stack_info *s)
{
    unsigned call = gw_sample_call(e);
    int in_launch = call == GW_CALL_LAUNCH || call == GW_CALL_GRAPH;
    if (!in_launch && call != GW_CALL_NONE)
        return;
    x->looks++;
    unsigned cause = gw_samples_cause(d->an, e);
    if (cause != GW_CAUSE_USER_CODE && cause != GW_CAUSE_SLOW_OP)
        return;
    if (in_launch || (s->user != s->inner && strstr(gw_trace_text(d->an->t, s->inner), "torch/")))
        x->issues++;
    else if (e->sub == GW_TS_RUNNING)
        x->may_issue++;
}

static void count_lines(struct gw_diag *d, const struct gw_live *l, struct gw_live_lines *x)
{
    const struct gw_lane *lane = gw_trace_lane(d->an->t, l->launcher);
    for (size_t k = 0; k < lane->count; k++) {
        const struct gw_event *e = gw_ev(d->an, lane->order[k]);
        const struct gw_stack_info *s = e->kind == GW_KIND_SAMPLE ? gw_samples_stack(d->an, e) : NULL;
        if (!s || e->start < l->from || e->start >= l->to)
            continue;
        count_issuing(d, x, e, s);
        if (e->sub != GW_TS_RUNNING)
            continue;
        unsigned call = gw_sample_call(e);
        unsigned waits = call == GW_CALL_WAIT || call == GW_CALL_READ;
        x->samples++;
        x->waiting += waits;
        int is_operator = (s->flags & GW_STACK_OPERATOR) != 0;
        x->own += call == GW_CALL_NONE && s->user && s->user == s->inner && !s->ctx && !is_operator;
        x->library += call == GW_CALL_NONE && (s->user != s->inner || is_operator);
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
        x->waits[i] += waits;
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

/* Share of the thread's time on lines that were seen waiting for the GPU. `inside`: of the time inside waits and reads, which is counted;
 * samples tell only about the rest, because a stack is read more often while a thread waits. */
static double lines_that_wait(const struct gw_live_lines *x, double inside)
{
    unsigned n = 0, rest = x->samples - x->waiting;
    int is_seen = 0;
    for (size_t i = 0; i < x->n; i++) {
        n += x->waits[i] >= MARK_SAMPLES ? x->all[i] - x->waits[i] : 0;
        is_seen |= x->waits[i] >= MARK_SAMPLES;
    }
    return is_seen ? inside + (1 - fmin(inside, 1)) * (rest ? (double)n / rest : 0) : 0;
}

/* --- the host's time --------------------------------------------------------------------------------------------------------------- */

/* Share of the time in which kernels are issued when that takes `times` as long as the launch calls. */
static double issuing(const struct gw_diag *d, const struct gw_live *l, double times)
{
    return fmin(times * (gw_live_calls_rate(d, l, "cuda.launch_s") + gw_live_calls_rate(d, l, "cuda.graph_launch_s")), 1);
}

/* Share of the time that counted calls of other sorts take: nothing is issued meanwhile. */
static double other_calls(const struct gw_diag *d, const struct gw_live *l)
{
    return gw_live_calls_rate(d, l, "cuda.copy_s") + gw_live_calls_rate(d, l, "cuda.allocation_s") + gw_live_calls_rate(d, l, "cuda.host_allocation_s");
}

struct issue { /* shares of the time */
    double low, likely, high;
};

/* Share of the time in which kernels are issued: from the launch calls, corrected by samples where those say that it is more, or less.
 * No more than the calls of other sorts leave. */
static struct issue find_issue(const struct gw_diag *d, const struct gw_live *l, const struct gw_live_lines *x, double left)
{
    struct issue s = {issuing(d, l, ISSUE_LEAST), issuing(d, l, ISSUE_TIMES), issuing(d, l, ISSUE_MOST)};
    if (x && x->looks >= MANY_LOOKS) {
        double n = x->looks, sure = x->issues / n, perhaps = (x->issues + x->may_issue) / n;
        double least = fmin(left * (sure - 2 * sqrt(sure * (1 - sure) / n)), s.high), /* beyond that PyTorch computes on the CPU */
            most = left * (perhaps + 2 * sqrt(perhaps * (1 - perhaps) / n));
        s.likely = fmin(fmax(s.likely, least), most);
        s.low = fmin(fmax(s.low, least), s.likely);
        s.high = fmax(fmin(s.high, most), s.likely);
    }
    return (struct issue){fmin(s.low, left), fmin(s.likely, left), fmin(s.high, left)};
}

struct stops { /* where the host asks the GPU for something and waits; a second */
    double count, reads; /* all, and those that read a value */
    double inside;       /* s in the calls */
    double around;       /* s that reading takes beside them */
    double making;       /* s to issue one kernel for each value */
};

static struct stops find_stops(const struct gw_diag *d, const struct gw_live *l)
{
    double launches = gw_live_calls_rate(d, l, "cuda.launches"), call = launches > 0 ? gw_live_calls_rate(d, l, "cuda.launch_s") / launches : 0;
    struct stops s = {.count = gw_live_calls_rate(d, l, "cuda.waits"), .reads = gw_live_calls_rate(d, l, "cuda.reads"), .inside = gw_live_calls_rate(d, l, "cuda.wait_s") + gw_live_calls_rate(d, l, "cuda.read_s")};
    s.around = READ_CALLS * call * s.reads;
    /* No more a launch than the host has time for. */
    double left = fmax(0, 1 - other_calls(d, l) - s.inside - s.around);
    s.making = launches > 0 ? s.reads / launches * fmin(issuing(d, l, ISSUE_TIMES), left) : 0;
    return s;
}

int gw_live_calls_reads_between(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    return has_counts(d, l) && gw_live_calls_rate(d, l, "cuda.reads") * LAUNCHES_A_STEP >= gw_live_calls_rate(d, l, "cuda.launches") && gw_live_calls_rate(d, l, "cuda.reads") >= MANY_CALLS;
}

/* --- the findings --------------------------------------------------------------------------------------------------------------- */

int gw_live_calls_sync(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    const struct gw_live_lines *x = has_counts(d, l) ? lines_of(d, l) : NULL;
    if (!x)
        return GW_NO_DATA;
    struct stops s = find_stops(d, l);
    double idle = 1 - d->busy, slack = gw_live_calls_rate(d, l, "cuda.slack_s"), lines = fmin(lines_that_wait(x, s.inside), idle), inside = fmin(s.inside, idle);
    /* A thread cannot save more time than it spends: what it runs, what it waits for a CPU, what it may sleep inside the calls. */
    const struct gw_live_threads *m = l->role + GW_LIVE_LAUNCHER;
    double most = m->cpu > 0 ? fmin(idle, m->cpu + m->wait + slack) : idle;
    double likely = fmin(inside + s.around + VALUE_LAUNCHES * s.making, most);
    if (2 * s.reads < s.count && lines > inside) /* bare waits: what the lines do beside them is all that is known */
        likely = fmax(likely, inside + LINE_PART * (lines - inside));
    if (likely < GW_LIM_SHARE || s.count < MANY_CALLS || slack > MOSTLY_WAITS)
        return GW_SILENT;
    /* Of the time inside the calls, what they last beyond 20 us may be work that the GPU has to do anyhow. */
    double low = fmin(fmax(s.inside - slack, s.inside / 2) + s.around, likely);
    double high = fmin(fmax(lines, inside + s.around + VALUE_MOST * s.making), most);
    struct gw_draft *f = gw_live_add_share(d, GW_F_HOST_SYNC, low, likely, fmax(high, likely));
    gw_diag_seen(d, f, s.count, "1/s", "counted calls", _("the job waits for the GPU %.0f times a second, %.0f µs each, copies included"), s.count,
                 1e6 * s.inside / s.count);
    if (s.reads >= MANY_CALLS)
        gw_diag_seen(d, f, s.reads, "1/s", "counted calls",
                     _("it reads %.0f values of the GPU a second, one in %.1f launches: the two calls and the code around them take %.1f %% of the time, the "
                       "kernels that make the values some %.0f %%"),
                     s.reads, gw_live_calls_rate(d, l, "cuda.launches") / s.reads, 100 * (inside + s.around), 100 * VALUE_LAUNCHES * s.making);
    if (lines > inside)
        gw_diag_seen(d, f, lines, "share", "thread samples", _("the lines that wait take %.0f %% of the training thread's time"), 100 * lines);
    gw_diag_against(d, f, NAN, "1", "", _("GPU work was not recorded: whether the queue was empty each time is not known"));
    gw_live_where_in_call(d, f, 1u << GW_CALL_WAIT | 1u << GW_CALL_READ, 3);
    gw_diag_fix(f, _("keep values on the GPU and read them every 50 steps; no `.item()`, `.cpu()`, `print(tensor)`, `if tensor:` or `x[mask]` in the loop"),
                _("gpuwhy diff before after"), _("logs lag by some steps"));
    return GW_FIRED;
}

int gw_live_calls_launch(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    if (!has_counts(d, l))
        return GW_NO_DATA;
    double idle = 1 - d->busy, launches = gw_live_calls_rate(d, l, "cuda.launches"), slack = gw_live_calls_rate(d, l, "cuda.slack_s");
    /* What else the host was seen to do is not issuing, and the GPU's own work stays. */
    struct stops s = find_stops(d, l);
    struct issue is = find_issue(d, l, lines_of(d, l), fmax(0, 1 - other_calls(d, l) - s.inside - s.around));
    double lost = fmin(is.likely, idle);
    if (lost < GW_LIM_DATA_WAIT || slack > HARDLY_WAITS)
        return GW_SILENT;
    struct gw_draft *f = gw_live_add_share(d, GW_F_LAUNCH_BOUND, 0.3 * fmin(is.low, idle), 0.65 * lost, fmin(is.high, idle));
    gw_diag_seen(d, f, launches, "1/s", "counted calls",
                 _("the job launches %.0f kernels a second, one every %.1f µs, and waits for the GPU in %.1f %% of the time: the GPU waits "
                   "for it"),
                 launches, 1e6 / launches, 100 * slack);
    gw_diag_seen(d, f, lost, "share", "counted calls", _("launch calls take %.1f %% of the time; issuing a kernel takes some %.0f times its call"),
                 100 * gw_live_calls_rate(d, l, "cuda.launch_s"), ISSUE_TIMES);
    if (gw_live_calls_reads_between(d))
        gw_diag_against(d, f, s.reads / launches, "1", "counted calls",
                        _("it reads a value of the GPU after every %.0f launches on average, and no CUDA graph can hold a read: those have to go first"), launches / s.reads);
    gw_diag_against(d, f, NAN, "1", "", _("kernels were not recorded, because that would slow such a job for good; launches of libraries that carry the CUDA "
                                          "runtime inside themselves were not counted"));
    gw_diag_fix(f, _("`model = torch.compile(model, mode=\"reduce-overhead\")` (CUDA graphs), or a larger batch; `fused=True` or `foreach=True` in the optimizer"),
                _("gpuwhy diff before after"), _("first steps compile for minutes; shapes must be stable"));
    return GW_FIRED;
}

int gw_live_calls_copy(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    if (!has_counts(d, l))
        return GW_NO_DATA;
    double share = fmin(gw_live_calls_rate(d, l, "cuda.copy_s"), 1 - d->busy), copies = gw_live_calls_rate(d, l, "cuda.copies");
    if (share < GW_LIM_DATA_WAIT || copies <= 0 || share / copies < LONG_COPY_S)
        return GW_SILENT;
    /* From pinned memory the copy is several times faster and beside the computing; the loader's thread copies into that memory. */
    struct gw_draft *f = gw_live_add_share(d, GW_F_PAGEABLE_COPY, 0.5 * share, 0.85 * share, share);
    gw_diag_seen(d, f, share, "share", "counted calls", _("copies keep the host for %.0f %% of the time: %.0f a second, %.1f ms each"), 100 * share, copies,
                 1e3 * share / copies);
    gw_diag_against(d, f, NAN, "1", "", _("copies were not recorded one by one: that they come from pageable memory is told from how long the call takes"));
    gw_live_where_in_call(d, f, 1u << GW_CALL_COPY, 3);
    gw_diag_fix(f, _("`DataLoader(..., pin_memory=True)` and `batch.to(device, non_blocking=True)`, both"), _("gpuwhy diff before after"),
                _("pinned memory for some batches"));
    return GW_FIRED;
}

static int allocates(struct gw_diag *d, enum gw_finding_id id, const char *count, const char *time, unsigned call, const char *fix)
{
    const struct gw_live *l = gw_live_of(d);
    if (!has_counts(d, l))
        return GW_NO_DATA;
    double share = fmin(gw_live_calls_rate(d, l, time), 1 - d->busy), n = gw_live_calls_rate(d, l, count);
    if (share < GW_LIM_DATA_WAIT || n < MANY_CALLS / 10)
        return GW_SILENT;
    struct gw_draft *f = gw_live_add_share(d, id, 0.7 * share, share, fmin(1.3 * share, 1 - d->busy));
    gw_diag_seen(d, f, share, "share", "counted calls", _("allocating and freeing takes the host %.0f %% of the time: %.0f calls a second"), 100 * share, n);
    gw_live_where_in_call(d, f, 1u << call, 3);
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
    double own = samples ? fmax(0, (double)x->own / samples - gw_live_steps_claimed(d)) : 0, library = samples ? (double)x->library / samples : 0;
    /* The user's lines issue kernels, too: what issuing needs and the library's frames do not show is theirs. */
    double share = fmin(own - fmax(0, find_issue(d, l, x, 1).likely - library), 1 - d->busy);
    if (samples < 20 || share < GW_LIM_DATA_WAIT || gw_live_calls_rate(d, l, "cuda.slack_s") > HARDLY_WAITS || d->answer[GW_F_SIMULATOR] == GW_FIRED)
        return GW_SILENT;
    struct gw_draft *f = gw_live_add_share(d, GW_F_MAIN_PREPROCESS, 0.5 * share, share, own < 1 - d->busy ? own : 1 - d->busy);
    gw_diag_seen(d, f, share, "share", "thread samples", _("%.0f %% of the time the training thread runs code of its own, outside of calls of CUDA"),
                 100 * share);
    gw_diag_against(d, f, NAN, "1", "", _("GPU work was not recorded: whether the GPU idled just then is not known"));
    gw_live_where_in_call(d, f, 1u << GW_CALL_NONE, 3);
    gw_diag_fix(f, _("move this work into the data set or `collate_fn`, so that loader workers do it ahead; or do it once, before training"),
                _("gpuwhy diff before after"), _("CPUs and memory for the workers"));
    return GW_FIRED;
}
