/* From an analysis to a report: run every diagnosis, rank what fired, write the sentence. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/activity_report.h"
#include "engine/kernel_table.h"
#include "layers/finding.h"
#include "layers/kernel_counters.h"
#include "layers/live.h"
#include "layers/live_phases.h"

struct gw_eval {
    enum gw_finding_id id;
    int (*fn)(struct gw_diag *);
};

static const struct gw_eval evals[] = {
#define GW_FINDING(sym, id, layer, signals, eval, title, phrase, needs) {GW_F_##sym, eval},
#include "layers/findings.def"
};

static const struct {
    const char *id, *name;
} layer_names[] = {
#define GW_LAYER(sym, id, name, what) {id, name},
#include "layers/layers.def"
#include "model/host_facts.h"
#undef GW_LAYER
};

const char *gw_layer_name(const char *layer_id)
{
    for (size_t i = 0; i < sizeof layer_names / sizeof *layer_names; i++)
        if (!strcmp(layer_names[i].id, layer_id))
            return layer_names[i].name;
    return layer_id;
}

/* ---- what the diagnoses share ---- */

/* Rate of the host link from pinned memory as measured on such machines: about 85 % of the link's raw rate. */
static void find_link(struct gw_diag *d)
{
    static const struct {
        int cc_major, cc_minor;
        int64_t rate;
        const char *name;
    } rows[] = {{6, 0, 12000000000, "PCIe 3 x16"}, {7, 0, 12000000000, "PCIe 3 x16"}, {7, 5, 12000000000, "PCIe 3 x16"},
                {8, 0, 25000000000, "PCIe 4 x16"}, {8, 6, 25000000000, "PCIe 4 x16"}, {8, 9, 25000000000, "PCIe 4 x16"},
                {9, 0, 54000000000, "PCIe 5 x16"}, {10, 0, 54000000000, "PCIe 5 x16"}, {10, 3, 54000000000, "PCIe 5 x16"},
                {12, 0, 54000000000, "PCIe 5 x16"}};
    d->link_rate = 25000000000;
    d->link_name = "PCIe 4 x16, assumed";
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !d->an->t->facts.amd; i++)
        if (rows[i].cc_major == d->dev->info->cc_major && rows[i].cc_minor == d->dev->info->cc_minor) {
            d->link_rate = rows[i].rate;
            d->link_name = rows[i].name;
        }
    if (d->an->t->facts.link_rate > 0) {
        d->link_rate = (int64_t)d->an->t->facts.link_rate;
        d->link_name = d->an->t->facts.link_name;
    }
}

static void find_kernels(struct gw_diag *d)
{
    for (size_t i = 0; i < d->dev->nops; i++) {
        const struct gw_event *e = gw_ev(d->an, d->dev->ops[i]);
        if (e->kind != GW_KIND_KERNEL || !gw_diag_in(d, e))
            continue;
        d->kclass_ns[d->an->names[e->name].kclass] += e->end - e->start;
        d->kernel_ns += e->end - e->start;
        d->kernels++;
    }
}

static void prepare(struct gw_diag *d, const struct gw_analysis *an)
{
    d->an = an;
    d->dev = an->ndev ? an->dev + an->main : NULL;
    if (!d->dev) {
        d->oom |= gw_counters_join(d) < 0;
        return;
    }
    d->wall = d->dev->steady.wall;
    size_t n = an->steps.steady_last - an->steps.steady_first;
    d->steps = n ? (double)n : 1;
    d->busy = d->wall > 0 ? 1 - (double)d->dev->steady.idle / (double)d->wall : 0;
    find_link(d);
    d->scale_likely = an->dispatch_likely;
    d->scale_low = an->dispatch_low;
    find_kernels(d);
    d->oom |= gw_counters_join(d) < 0;
}

/* Some go first: they explain host code that would look like preprocessing or like a slow operator. */
static void run_all(struct gw_diag *d)
{
    if (!d->dev) {
        for (size_t i = 0; i < GW_F_COUNT; i++)
            d->answer[i] = GW_NO_DATA;
        d->answer[GW_F_TOO_LITTLE] = GW_SILENT; /* it is the verdict, not an open question */
        d->alone = gw_live_alone(d);
        gw_live_places(d);
        gw_live_vary(d);
        gw_counters_alone(d);
        return;
    }
    static const enum gw_finding_id first[] = {GW_F_SIMULATOR, GW_F_GIL, GW_F_AUTOTUNE, GW_F_DEBUG_MODE, GW_F_LOADER_STARVED,
                                               GW_F_CPU_STARVED, GW_F_OVERSUBSCRIBED};
    unsigned char done[GW_F_COUNT] = {0};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        d->answer[first[i]] = evals[first[i]].fn(d);
        done[first[i]] = 1;
    }
    for (size_t i = 0; i < GW_F_COUNT; i++)
        if (!done[evals[i].id])
            d->answer[evals[i].id] = evals[i].fn ? evals[i].fn(d) : GW_NO_DATA;
    gw_live_places(d);
    gw_live_phases(d);
    gw_live_vary(d);
}

/* ---- ranking ---- */

static int by_gain(const void *a, const void *b)
{
    const struct gw_draft *x = *(struct gw_draft *const *)a, *y = *(struct gw_draft *const *)b;
    if (x->f.gain.likely != y->f.gain.likely)
        return x->f.gain.likely > y->f.gain.likely ? -1 : 1;
    return (int)x->id - (int)y->id;
}

static const void *keep(struct gw_diag *d, struct gw_array *arr, size_t *count)
{
    *count = arr->len;
    void *p = gw_arena_calloc(d->arena, arr->len, arr->size);
    if (p && arr->len)
        memcpy(p, arr->data, arr->len * arr->size);
    else if (!p)
        *count = 0, d->oom = 1;
    gw_array_free(arr);
    return p;
}

/* A finding that is worth nothing is noise, except where it explains why nothing is to be gained. */
static int worth_printing(const struct gw_diag *d, const struct gw_draft *f)
{
    return f->f.gain.likely >= 1.01 || f->id == GW_F_BY_NATURE || f->id == GW_F_TOO_LITTLE || f->id == GW_F_WARMUP_ONLY ||
           (f->id == GW_F_BANDWIDTH && d->counters) || f->id == GW_F_WORKER_MEMORY || f->id == GW_F_SAME_DATA || f->id == GW_F_NO_RESHUFFLE;
}

/* Slow dispatch is what remains when the host never waits. A specific, cheaper and surer fix goes first unless dispatch is
 * worth more than three times as much: its likely gain supposes that the model compiles. While values are read all the time it
 * does not, at least not to one CUDA graph: those reads go first whatever dispatch is worth. */
static void residual_last(struct gw_diag *d)
{
    int reads_first = d->alone && gw_live_calls_reads_between(d);
    for (size_t i = 0; i < d->drafts; i++) {
        struct gw_draft *f = d->draft[i];
        if (f->id != GW_F_LAUNCH_BOUND && f->id != GW_F_BATCH_SMALL)
            continue;
        for (size_t k = i + 1; k < d->drafts; k++) {
            struct gw_draft *g = d->draft[k];
            int residual = g->id == GW_F_LAUNCH_BOUND || g->id == GW_F_BATCH_SMALL;
            int is_worth = (g->f.gain.likely - 1) * 3 >= f->f.gain.likely - 1 || (reads_first && g->id == GW_F_HOST_SYNC);
            if (residual || g->f.gain.likely < 1.1 || !is_worth)
                continue;
            memmove(d->draft + i + 1, d->draft + i, (k - i) * sizeof *d->draft);
            d->draft[i++] = g;
        }
    }
}

/* On a crowded machine everything that the host does takes longer. What it was seen doing, code of its own or dispatch, is
 * judged after the crowd is gone. */
static void crowd_first(struct gw_diag *d)
{
    for (size_t k = 1; k < d->drafts; k++) {
        struct gw_draft *g = d->draft[k];
        if ((g->id != GW_F_OVERSUBSCRIBED && g->id != GW_F_CPU_STARVED) || g->f.gain.likely < 1.1)
            continue;
        size_t i = 0;
        while (i < k && d->draft[i]->id != GW_F_MAIN_PREPROCESS && d->draft[i]->id != GW_F_LAUNCH_BOUND)
            i++;
        memmove(d->draft + i + 1, d->draft + i, (k - i) * sizeof *d->draft);
        d->draft[i] = g;
    }
}

/* A debugging mode costs nothing to switch off, and what it does looks like slow dispatch, waits or code of its own. */
static void debug_first(struct gw_diag *d)
{
    const uint64_t like = 1ull << GW_F_LAUNCH_BOUND | 1ull << GW_F_BATCH_SMALL | 1ull << GW_F_HOST_SYNC | 1ull << GW_F_MAIN_PREPROCESS |
                          1ull << GW_F_SLOW_OP | 1ull << GW_F_UNFUSED_OPT;
    for (size_t k = 1; k < d->drafts; k++) {
        struct gw_draft *g = d->draft[k];
        if (g->id != GW_F_DEBUG_MODE || g->f.gain.likely < 1.1)
            continue;
        size_t i = 0;
        while (i < k && !(like >> d->draft[i]->id & 1))
            i++;
        memmove(d->draft + i + 1, d->draft + i, (k - i) * sizeof *d->draft);
        d->draft[i] = g;
    }
}

void gw_diag_order(struct gw_diag *d)
{
    if (d->drafts)
        qsort(d->draft, d->drafts, sizeof *d->draft, by_gain);
    residual_last(d);
    crowd_first(d);
    debug_first(d);
}

void gw_diag_keep(struct gw_diag *d, struct gw_report *r)
{
    struct gw_finding *out = gw_arena_calloc(d->arena, d->drafts, sizeof *out);
    size_t n = 0;
    for (size_t i = 0; i < d->drafts; i++) {
        struct gw_draft *f = d->draft[i];
        f->f.evidence = keep(d, &f->evidence, &f->f.evidence_count);
        f->f.against = keep(d, &f->against, &f->f.against_count);
        f->f.where = keep(d, &f->where, &f->f.where_count);
        f->f.fix = keep(d, &f->fix, &f->f.fix_count);
        if (!out || !worth_printing(d, f) || d->answer[f->id] == GW_SILENT || (d->answer[GW_F_TOO_LITTLE] == GW_FIRED && f->id != GW_F_TOO_LITTLE))
            continue;
        out[n] = f->f;
        out[n].rank = (int)n + 1;
        n++;
    }
    r->findings = out;
    r->finding_count = out ? n : 0;
    d->oom |= !out;
}

static void not_evaluated(struct gw_diag *d, struct gw_report *r)
{
    struct gw_not_evaluated *out = gw_arena_calloc(d->arena, GW_F_COUNT, sizeof *out);
    for (size_t i = 0; out && i < GW_F_COUNT; i++)
        if (d->answer[i] == GW_NO_DATA)
            out[r->not_evaluated_count++] = (struct gw_not_evaluated){
                .id = gw_finding_info(i)->id, .needs = d->needs[i] ? d->needs[i] : _(gw_finding_info(i)->needs)};
    r->not_evaluated = out;
    d->oom |= !out;
}

/* ---- the sentence ---- */

static const char *range(struct gw_diag *d, const struct gw_gain *g)
{
    char lo[32], hi[32];
    snprintf(lo, sizeof lo, "%.*f", g->low < 10, g->low);
    snprintf(hi, sizeof hi, "%.*f", g->high < 10, g->high);
    if (!strcmp(lo, hi))
        return gw_arena_printf(d->arena, "%s×", lo);
    return gw_arena_printf(d->arena, "%s–%s×", lo, hi);
}

static const char *span_text(struct gw_diag *d, int64_t low, int64_t high)
{
    const char *a = gw_diag_time_text(d, (double)low), *b = gw_diag_time_text(d, (double)high);
    const char *ua = strchr(a, ' '), *ub = strchr(b, ' ');
    if (!strcmp(a, b))
        return a;
    if (ua && ub && !strcmp(ua, ub))
        return gw_arena_printf(d->arena, "%.*s–%s", (int)(ua - a), a, b);
    return gw_arena_printf(d->arena, "%s–%s", a, b);
}

/* What the GPU is mostly doing, for a job with nothing to fix. */
static const char *limit_text(struct gw_diag *d)
{
    unsigned best = GW_K_OTHER;
    for (unsigned k = 0; k < GW_K_CLASS_COUNT; k++)
        if (d->kclass_ns[k] > d->kclass_ns[best])
            best = k;
    if (!d->kernel_ns)
        return "";
    return gw_arena_printf(d->arena, _(" Its limit is the GPU itself: %s kernels take %.0f %% of the kernel time."), _(gw_kclass_name(best)),
                           100 * (double)d->kclass_ns[best] / (double)d->kernel_ns);
}

/* Exposed copies that nobody waits for are no bottleneck with a sure gain, but no secret either. */
static const char *copies_text(struct gw_diag *d)
{
    double share = (double)d->dev->steady.copy_exposed / (double)(d->wall ? d->wall : 1);
    return share < GW_LIM_COPY ? ""
                               : gw_arena_printf(d->arena, _(" %.0f %% of the time only copies run: prefetching on a stream of its own could hide part of them."),
                                                 100 * share);
}

static void fine(struct gw_diag *d, struct gw_report *r)
{
    r->verdict.finding = "none";
    r->verdict.layer = "outside";
    double idle = 100 * (1 - d->busy);
    if (d->busy >= 0.9)
        r->verdict.sentence = gw_arena_printf(d->arena, _("This job is fine: the GPU is busy %.0f %% of the time, and nothing that this recording can show is worth 3 %% or more.%s%s"),
                                              100 * d->busy, copies_text(d), limit_text(d));
    else if (gw_diag_share(d, GW_CAUSE_LAUNCH) * 2 > 1 - d->busy && d->scale_likely < 0.8)
        r->verdict.sentence = gw_arena_printf(d->arena, _("Your GPU idles %.0f %% of the time in this recording, but mostly because the profiler slows the host (about %.1fx): without it the host should keep up, and no other cause is worth 3 %%."), idle, 1 / d->scale_likely);
    else
        r->verdict.sentence = gw_arena_printf(d->arena, _("Your GPU idles %.0f %% of the time, but no cause in this recording is worth 3 %% by itself. See what was not evaluated."), idle);
}

/* The verdict on a finding. `head`: its first sentence, NULL for the usual one. */
void gw_diag_blame(struct gw_diag *d, struct gw_report *r, const struct gw_finding *f, const char *head)
{
    r->verdict.finding = f->id;
    r->verdict.layer = f->layer;
    double idle = 100 * (1 - d->busy);
    int waits = !isnan(f->share_of_idle) && idle >= 3;
    if (!head)
        head = waits ? gw_arena_printf(d->arena, _("Your GPU waits %.0f %% of the time. Main cause: %s (%s)."), idle, f->phrase, f->id)
                     : gw_arena_printf(d->arena, _("Your GPU is busy %.0f %% of the time, but not well used: %s (%s)."), 100 * d->busy, f->phrase, f->id);
    const char *tail = "";
    if (f->now_step_ns > 0 && r->steps.steady_count > 0)
        tail = gw_arena_printf(d->arena, _("Removing it should bring a step from %s to %s (%s)."), gw_diag_time_text(d, (double)f->now_step_ns),
                               span_text(d, f->then_low_ns, f->then_high_ns), range(d, &f->gain));
    else
        tail = gw_arena_printf(d->arena, _("Removing it should make the job %s faster."), range(d, &f->gain));
    r->verdict.sentence = gw_arena_printf(d->arena, "%s %s", head, tail);
}

/* Of a record of ours: the job is what it is, and advice about torch.profiler would not fit. */
static const char *no_gpu_work(struct gw_diag *d)
{
    const char *why = d->an->t->host->gpu_records;
    if (why)
        return gw_arena_printf(d->arena, _("No GPU data: GPU work was not recorded (%s), and no counter of a GPU was read, so nothing can be said about the GPU."), why);
    return _("No GPU data: no GPU work of the job was seen while it was recorded, so nothing can be said about the GPU.");
}

static void judge(struct gw_diag *d, struct gw_report *r)
{
    const struct gw_finding *f = r->finding_count ? r->findings : NULL;
    if (d->alone) {
        int worth = f && f->gain.likely >= GW_LIM_WORTH;
        r->verdict.finding = worth ? f->id : "none";
        r->verdict.layer = worth ? f->layer : "outside";
        r->verdict.sentence = gw_live_alone_sentence(d, f);
        return;
    }
    if (!d->dev || d->answer[GW_F_TOO_LITTLE] == GW_FIRED || d->answer[GW_F_WARMUP_ONLY] == GW_FIRED) {
        enum gw_finding_id id = d->dev && d->answer[GW_F_TOO_LITTLE] != GW_FIRED ? GW_F_WARMUP_ONLY : GW_F_TOO_LITTLE;
        int counted = !d->dev && d->counters && f && f->gain.likely >= GW_LIM_WORTH;
        r->verdict.finding = counted ? f->id : gw_finding_info(id)->id;
        r->verdict.layer = counted ? f->layer : "outside";
        r->verdict.sentence = !d->dev && d->counters ? gw_counters_sentence(d, f)
                              : !d->dev && d->an->t->host ? no_gpu_work(d)
                              : !d->dev ? _("No GPU data: the recording holds no GPU work at all, so nothing can be said about the GPU. Record with ProfilerActivity.CUDA, on a job that uses the GPU.")
                              : id == GW_F_TOO_LITTLE ? gw_arena_printf(d->arena, _("Too little was recorded to judge: %zu GPU operations. Record at least 10 steps after warm-up."), d->dev->nops)
                                                      : _("The recording holds only warm-up (compiling and loading). Record after it: `torch.profiler.schedule(wait=20, warmup=5, active=10)`.");
        return;
    }
    if (!f || f->gain.likely < GW_LIM_WORTH) {
        fine(d, r);
        return;
    }
    gw_diag_blame(d, r, f, NULL);
}

/* ---- the rest of the report ---- */

static void fill_devices(struct gw_diag *d, struct gw_report *r)
{
    const struct gw_analysis *an = d->an;
    struct gw_report_device *out = gw_arena_calloc(d->arena, an->ndev, sizeof *out);
    for (size_t i = 0; out && i < an->ndev; i++) {
        const struct gw_dev *v = an->dev + i;
        out[i] = (struct gw_report_device){.id = v->info->id, .name = gw_trace_text(an->t, v->info->name), .whole = v->whole,
                                           .steady = v->steady, .idle_by_cause = v->steady_causes, .cause_count = v->nsteady,
                                           .whole_by_cause = v->whole_causes, .whole_cause_count = v->nwhole,
                                           .rank = an->t->facts.rank};
    }
    r->devices = out;
    r->device_count = out ? an->ndev : 0;
    r->main_device = an->main;
    d->oom |= !out;
}

static int cmp_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void keep_times(struct gw_diag *d, struct gw_report *r, const int64_t *v, size_t n)
{
    size_t every = (n + GW_REPORT_TIMES - 1) / GW_REPORT_TIMES;
    int64_t *out = gw_arena_calloc(d->arena, n / every + 1, sizeof *out);
    for (size_t i = 0; out && i < n; i += every)
        out[r->step_time_count++] = v[i];
    r->step_times = out;
    d->oom |= !out;
}

/* Median, mean, tail and times of `n` steady steps; sorts `v`. */
static void fill_step_times(struct gw_diag *d, struct gw_report *r, int64_t *v, size_t n)
{
    int64_t sum = 0, tail = 0;
    for (size_t i = 0; i < n; i++)
        sum += v[i];
    keep_times(d, r, v, n);
    qsort(v, n, sizeof *v, cmp_i64);
    r->steps.steady_count = (int64_t)n;
    r->steps.min_ns = v[0];
    r->steps.median_ns = v[n / 2];
    r->steps.mean_ns = sum / (int64_t)n;
    r->steps.p95_ns = v[(n - 1) * 95 / 100 + ((n - 1) * 95 % 100 ? 1 : 0)];
    for (size_t i = 0; i < n; i++)
        tail += v[i] > 2 * v[n / 2] ? v[i] : 0;
    r->steps.tail_share = sum ? (double)tail / (double)sum : NAN;
}

/* Without GPU records: as the optimizer told them. Late in a job most are known together only, which leaves median and mean. */
static void fill_told_steps(struct gw_diag *d, struct gw_report *r)
{
    const struct gw_live_steps *s = d->alone ? gw_live_steps_of(d) : NULL;
    if (!s)
        return;
    r->steps.count = r->steps.steady_count = (int64_t)s->count;
    r->steps.median_ns = (int64_t)s->median;
    r->steps.mean_ns = (int64_t)s->mean;
    r->steps.found_by = "optimizer-calls";
    r->steps.marker = "optimizer.step()";
    int64_t *v = s->lengths && (double)s->lengths == s->count ? gw_arena_calloc(d->arena, s->lengths, sizeof *v) : NULL;
    if (!v)
        return;
    memcpy(v, s->length, s->lengths * sizeof *v);
    fill_step_times(d, r, v, s->lengths);
}

static void fill_steps(struct gw_diag *d, struct gw_report *r)
{
    const struct gw_steps *s = &d->an->steps;
    r->steps = (struct gw_report_steps){.count = (int64_t)s->count, .median_ns = -1, .mean_ns = -1, .p95_ns = -1, .min_ns = -1,
                                        .found_by = s->found_by ? s->found_by : "none", .marker = s->marker ? s->marker : "",
                                        .tail_share = NAN};
    size_t n = s->count >= 2 ? s->steady_last - s->steady_first : 0;
    int64_t *v = n ? gw_arena_calloc(d->arena, n, sizeof *v) : NULL;
    if (!v) {
        fill_told_steps(d, r);
        return;
    }
    for (size_t i = 0; i < n; i++)
        v[i] = s->bound[s->steady_first + i + 1] - s->bound[s->steady_first + i];
    fill_step_times(d, r, v, n);
}

static void fill_kernels(struct gw_diag *d, struct gw_report *r)
{
    struct gw_kernel_table k;
    if (!d->dev)
        return;
    d->oom |= gw_kernel_table(d->an, d->dev, d->arena, &k) < 0;
    r->kernels = k.rows;
    r->kernel_count = k.count;
    r->kernel_classes = k.classes;
    r->kernel_class_count = k.class_count;
}

/* Does the window stand for the run? NULL when nobody asked. */
static const char *whole_run_note(struct gw_diag *d, const struct gw_report *r)
{
    const struct gw_host_facts *h = d->an->t->host;
    for (size_t i = 0; d->dev && i < r->activity_count; i++) {
        const struct gw_report_activity *a = &r->activity[i];
        if (a->device != d->dev->info->id || a->represents < 0)
            continue;
        if (a->represents)
            return gw_arena_printf(d->arena, _("the window stands for the run: by hardware counters the GPU had no work for %.0f %% of the run and for %.0f %% of the window"),
                                   100 * a->idle, 100 * a->window_idle);
        if (d->stands < 1)
            return gw_arena_printf(d->arena, _("the window does not stand for the run: by hardware counters the GPU had no work for %.0f %% of the run, but for %.0f %% of the window; gains are those of the run, of which the window stands for %.0f %%"),
                                   100 * a->idle, 100 * a->window_idle, 100 * d->stands);
        return gw_arena_printf(d->arena, _("the window does not stand for the run: by hardware counters the GPU had no work for %.0f %% of the run, but for %.0f %% of the window; gains are those of the window"),
                               100 * a->idle, 100 * a->window_idle);
    }
    if (d->stands < 1)
        return gw_arena_printf(d->arena, _("the window stands for %.0f %% of the job's working time: gains are those of the whole run"), 100 * d->stands);
    if (d->dev && h && h->activity_missing)
        return gw_arena_printf(d->arena, _("whether the window stands for the run is not known, as there are no hardware counters over the whole run: %s"),
                               _(h->activity_missing));
    return NULL;
}

/* What recording took beside the job. NULL when it is not known. */
static const char *own_cost_note(struct gw_diag *d)
{
    const struct gw_host_facts *h = d->an->t->host;
    if (!h || isnan(h->recorder_cpu_s) || h->recorded_ns <= 0)
        return NULL;
    double seconds = (double)h->recorded_ns * 1e-9, sampler = isnan(h->sampler_cpu_s) ? 0 : h->sampler_cpu_s;
    return gw_arena_printf(d->arena, _("the recorder and its sampling process took %.1f s of CPU beside the job in %.0f s (%.1f %% of one CPU)"),
                           h->recorder_cpu_s + sampler, seconds, 100 * (h->recorder_cpu_s + sampler) / seconds);
}

static void fill_trust(struct gw_diag *d, struct gw_report *r)
{
    const struct gw_trace *t = d->an->t;
    struct gw_report_loss *loss = gw_arena_calloc(d->arena, GW_LOSS_COUNT + 1, sizeof *loss);
    const char **notes = gw_arena_calloc(d->arena, 10, sizeof *notes);
    if (!loss || !notes) {
        d->oom = 1;
        return;
    }
    r->trust.complete = 1;
    int said_why = !d->dev && t->host && t->host->gpu_records;
    for (unsigned i = 0; i < GW_LOSS_COUNT; i++) {
        uint64_t n = t->loss[i].count;
        if (i == GW_LOSS_EMPTY_STEPS)
            n += d->an->steps.empty;
        if (i == GW_LOSS_GRAPH_HIDDEN && gw_diag_share(d, GW_CAUSE_IN_GRAPH) > 0.02)
            n += d->dev->cause_gaps[GW_CAUSE_IN_GRAPH];
        if (!n || (i == GW_LOSS_NO_GPU && !d->dev && d->counters)) /* counters have no timeline: the verdict says so */
            continue;
        if (said_why && (i == GW_LOSS_NO_GPU || i == GW_LOSS_NO_LAUNCHES)) { /* the verdict says so, and what to do */
            r->trust.complete = 0;
            continue;
        }
        loss[r->trust.loss_count++] = (struct gw_report_loss){.id = gw_loss_id(i), .count = n, .first_byte = t->loss[i].first_byte,
                                                              .text = gw_loss_text(i)};
        r->trust.complete &= !gw_loss_spoils(i);
    }
    r->trust.losses = loss;
    r->trust.own_overhead = NAN;
    r->replay_error = d->an->replay_error;
    r->profiler_slowdown = d->dev && d->scale_likely < 1 ? 1 / d->scale_likely : NAN;
    size_t n = 0;
    if (d->counters && !d->counters->count)
        notes[n++] = gw_arena_printf(d->arena, _("none of the %zu kernels in Nsight Compute's output runs in this recording: counters of another job, or names that were changed (--kernel-name-base)? They are not used"),
                                     gw_kernel_metrics_count(t));
    if (d->dev && !d->an->steps.count)
        notes[n++] = _("no steps were found: the verdict rests on the whole recording, warm-up included, and \"a step\" means all of it");
    if (d->dev && d->an->steps.warmup)
        notes[n++] = gw_arena_printf(d->arena, _("%zu leading steps of compilation or start-up were left out"), d->an->steps.warmup);
    if (d->dev && d->dev->replay && r->replay_error > 0.1)
        notes[n++] = gw_arena_printf(d->arena, _("replayed unchanged, the recording comes out %.0f %% off: gains are rough"), 100 * r->replay_error);
    if (d->dev && !d->dev->replay)
        notes[n++] = isnan(r->replay_error) ? _("gains come from idle time alone: too few operations could be tied to their calls for a replay")
                                            : _("gains come from idle time alone: the replay did not give the recorded time back");
    if (d->dev && gw_diag_share(d, GW_CAUSE_UNEXPLAINED) > 0.1)
        notes[n++] = gw_arena_printf(d->arena, _("%.0f %% of the time is idle without an explanation"), 100 * gw_diag_share(d, GW_CAUSE_UNEXPLAINED));
    notes[n] = whole_run_note(d, r);
    n += notes[n] != NULL;
    notes[n] = own_cost_note(d);
    n += notes[n] != NULL;
    r->trust.notes = notes;
    r->trust.note_count = n;
}

static void fill_sources(struct gw_diag *d, struct gw_report *r)
{
    const struct gw_trace *t = d->an->t;
    const struct gw_source *s = t->sources.data;
    struct gw_report_source *out = gw_arena_calloc(d->arena, t->sources.len, sizeof *out);
    for (size_t i = 0; out && i < t->sources.len; i++)
        out[i] = (struct gw_report_source){.path = s[i].path, .format = s[i].format, .bytes = s[i].bytes, .events = s[i].events};
    r->sources = out;
    r->source_count = out ? t->sources.len : 0;
    r->ranks = 1;
    r->world_size = t->facts.world_size;
    r->profiler = t->facts.profiler ? t->facts.profiler : "";
    r->framework = !t->facts.framework            ? ""
                   : t->facts.framework_version   ? gw_arena_printf(d->arena, "%s %s", t->facts.framework, t->facts.framework_version)
                                                  : t->facts.framework;
    d->oom |= !out;
}

struct gw_report *gw_diagnose(const struct gw_analysis *an, struct gw_arena *arena)
{
    struct gw_report *r = gw_arena_alloc(arena, sizeof *r);
    struct gw_diag *d = gw_arena_alloc(arena, sizeof *d);
    if (!r || !d)
        return NULL;
    r->arena = arena;
    d->arena = arena;
    d->steps = 1;
    d->scale_likely = d->scale_low = d->stands = 1;
    prepare(d, an);
    run_all(d);
    fill_sources(d, r);
    fill_devices(d, r);
    fill_steps(d, r);
    fill_kernels(d, r);
    gw_counters_report(d, r);
    gw_diag_order(d);
    gw_diag_keep(d, r);
    not_evaluated(d, r);
    judge(d, r);
    d->oom |= gw_activity_report(d->an, d->arena, &r->activity, &r->activity_count) < 0;
    fill_trust(d, r);
    return d->oom ? NULL : r;
}
