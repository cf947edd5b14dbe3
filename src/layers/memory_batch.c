/* memory_batch: memory or the batch size holds the GPU back. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "layers/finding.h"
#include "layers/live.h"

int gw_find_allocator(struct gw_diag *d)
{
    int64_t calls = 0, frees = 0, host = d->dev->host_ns[GW_CAUSE_ALLOCATOR], lost = d->dev->cause_ns[GW_CAUSE_ALLOCATOR];
    if (!d->dev->nruns)
        return GW_NO_DATA;
    struct gw_places *p = gw_places_new(d);
    const struct gw_lane *lane = d->an->t->lanes.data;
    for (size_t l = 0; l < d->an->t->lanes.len; l++) {
        if (lane[l].type != GW_LANE_HOST || lane[l].pid != d->dev->pid)
            continue;
        for (size_t i = 0; i < lane[l].count; i++) {
            const struct gw_event *e = gw_ev(d->an, lane[l].order[i]);
            if (e->kind != GW_KIND_API || !gw_diag_in(d, e))
                continue;
            enum gw_api api = (enum gw_api)d->an->names[e->name].api;
            if (api != GW_API_ALLOC && api != GW_API_FREE)
                continue;
            calls++;
            frees += api == GW_API_FREE;
            gw_places_add(p, lane[l].order[i], e->end - e->start);
        }
    }
    double per_step = (double)calls / d->steps;
    if (per_step < GW_LIM_ALLOC_CALLS || fmax((double)lost, (double)host) < GW_LIM_SHARE * (double)d->wall || !frees) {
        gw_places_drop(p);
        return GW_SILENT;
    }
    struct gw_draft *f = gw_diag_add(d, GW_F_ALLOCATOR, lost);
    struct gw_whatif low = GW_WHATIF_NONE, likely = GW_WHATIF_NONE;
    low.remove = likely.remove = 1u << GW_CAUSE_ALLOCATOR;
    /* giving memory back also waits for the device: that wait goes with it */
    likely.remove |= 1u << GW_CAUSE_HOST_SYNC;
    likely.drop_wait = 1u << GW_CAUSE_HOST_SYNC;
    gw_diag_gain(d, f, &low, &likely, &likely);
    /* Two paired runs on an H200 machine lost 0.9 and 2.2 times what the recorded calls took: what is mapped anew is also
     * slow at first touch. The hopeful end takes the upper one. */
    const struct gw_whatif none = GW_WHATIF_NONE;
    double then = gw_diag_time(d, &likely, d->scale_low);
    if (then > 0)
        gw_diag_gain_set(f, f->f.gain.low, f->f.gain.likely,
                         fmax(f->f.gain.high, (gw_diag_time(d, &none, d->scale_low) + 1.2 * (double)host) / then));
    f->f.confidence = GW_CONF_HIGH;
    gw_diag_seen(d, f, per_step, "count", "API calls", _("%.3g device allocations and frees a step, where a warm allocator makes none"), per_step);
    gw_diag_seen(d, f, gw_diag_per_step(d, (double)host), "ns", "API calls", _("they take %s of host time a step, and the GPU runs dry for %s of it"),
                 gw_diag_time_text(d, gw_diag_per_step(d, (double)host)), gw_diag_time_text(d, gw_diag_per_step(d, (double)lost)));
    gw_places_done(p, f, 3);
    gw_diag_fix(f, _("stop calling torch.cuda.empty_cache() (and gc.collect()) in the loop; if memory is short, `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` and a batch that leaves 10 % free"),
                _("gpuwhy diff before.json after.json"), _("memory stays reserved by the process"));
    return GW_FIRED;
}

/* Time-weighted share of kernels whose grid has fewer blocks than the GPU has SMs, and the median kernel. */
static int kernel_sizes(const struct gw_diag *d, double *small_share, double *mean_ns)
{
    int64_t small = 0, all = 0, n = 0;
    if (d->dev->info->sm_count <= 0)
        return 0;
    for (size_t i = 0; i < d->dev->nops; i++) {
        const struct gw_event *e = gw_ev(d->an, d->dev->ops[i]);
        if (e->kind != GW_KIND_KERNEL || !gw_diag_in(d, e) || !(e->flags & GW_EV_HAS_ARG0))
            continue;
        all += e->end - e->start;
        n++;
        if ((int64_t)e->arg0 < d->dev->info->sm_count)
            small += e->end - e->start;
    }
    if (!n || !all)
        return 0;
    *small_share = (double)small / (double)all;
    *mean_ns = (double)all / (double)n;
    return 1;
}

static int has_backward(const struct gw_diag *d)
{
    for (uint32_t i = 1; i <= gw_intern_count(d->an->t->names); i++)
        if (d->an->names[i].ctx & (GW_CTX_BACKWARD | GW_CTX_OPTIMIZER))
            return 1;
    return 0;
}

int gw_find_batch_small(struct gw_diag *d)
{
    double small, mean, launch = gw_diag_share(d, GW_CAUSE_LAUNCH);
    if (!d->dev->nruns || !kernel_sizes(d, &small, &mean))
        return GW_NO_DATA;
    /* a small batch shows as a GPU that outruns the host although its kernels do not fill it */
    double waits = 0; /* anything else that the host waits for makes the grids a side issue */
    for (unsigned c = 0; c < GW_CAUSE_COUNT; c++)
        if (c != GW_CAUSE_LAUNCH && c != GW_CAUSE_KERNEL_GAP && c != GW_CAUSE_PROFILER)
            waits += gw_diag_share(d, (enum gw_cause)c);
    if (launch < 0.5 || waits > GW_LIM_DATA_WAIT || small < GW_LIM_SMALL_GRID || mean > 15000 || !has_backward(d))
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_BATCH_SMALL, d->dev->cause_ns[GW_CAUSE_LAUNCH]);
    /* samples per second: a step that waits for the host takes as long with twice the samples, until the GPU is full */
    double room = 1 / fmax(d->busy, 0.1);
    gw_diag_gain_set(f, 1.05, 1 + (fmin(room, 2) - 1) * 0.5, fmin(room, 4));
    f->f.confidence = GW_CONF_LOW;
    gw_diag_seen(d, f, small, "share", "kernel grids", _("%.0f %% of kernel time is in kernels with fewer blocks than the GPU has SMs (%d)"),
                 100 * small, (int)d->dev->info->sm_count);
    gw_diag_seen(d, f, mean, "ns", "kernel records", _("a kernel takes %s on average, and the host cannot issue them faster"), gw_diag_time_text(d, mean));
    gw_diag_against(d, f, NAN, "1", "", _("how much GPU memory is free is not in a trace: gpuwhy run shows it"));
    gw_diag_fix(f, _("raise the batch while samples/s still grows in proportion, up to 80-90 % of GPU memory (time doubled batches); where the optimizer needs the old batch, fewer accumulation steps"),
                _("gpuwhy sweep --vary batch=32..1024x2 -- COMMAND --batch {batch}"), _("learning rate and BatchNorm statistics depend on the batch"));
    return GW_FIRED;
}

static int cmp_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int cmp_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int gw_find_shape_churn(struct gw_diag *d)
{
    const struct gw_steps *s = &d->an->steps;
    size_t n = s->steady_last - s->steady_first;
    int live = gw_live_host_shapes(d);
    if (live == GW_FIRED || s->count < 4 || n < 4)
        return live;
    int64_t *busy = calloc(n, sizeof *busy), *sorted = calloc(n, sizeof *sorted);
    uint64_t *grids = calloc(n, sizeof *grids);
    int fired = GW_SILENT;
    if (!busy || !sorted || !grids)
        goto out;
    size_t k = 0;
    for (size_t i = 0; i < d->dev->nops; i++) {
        const struct gw_event *e = gw_ev(d->an, d->dev->ops[i]);
        if (!gw_diag_in(d, e) || e->kind != GW_KIND_KERNEL)
            continue;
        while (k + 1 < n && e->start >= s->bound[s->steady_first + k + 1])
            k++;
        busy[k] += e->end - e->start;
        grids[k] += e->flags & GW_EV_HAS_ARG0 ? e->arg0 : 0;
    }
    /* the sum of the grids is a fingerprint of the work: equal shapes give equal sums */
    memcpy(sorted, busy, n * sizeof *busy);
    qsort(sorted, n, sizeof *sorted, cmp_i64);
    qsort(grids, n, sizeof *grids, cmp_u64);
    size_t kinds = 0;
    for (size_t i = 0; i < n; i++)
        kinds += !i || grids[i] != grids[i - 1];
    if (!grids[n - 1]) {
        fired = GW_NO_DATA; /* no grids in this recording */
        goto out;
    }
    double median = (double)sorted[n / 2], spread = median > 0 ? (double)(sorted[n * 9 / 10] - sorted[n / 10]) / median : 0;
    if (kinds * 2 <= n || spread < 0.3 || d->an->nphases)
        goto out;
    double mean = 0;
    for (size_t i = 0; i < n; i++)
        mean += (double)busy[i] / (double)n;
    struct gw_draft *f = gw_diag_add(d, GW_F_SHAPE_CHURN, -1);
    gw_diag_gain_set(f, 1, 1 + fmax(0, mean / median - 1) * 0.5, 1 + fmax(0, mean / fmax((double)sorted[n / 10], median / 10) - 1) * 0.5);
    f->f.confidence = GW_CONF_LOW;
    gw_diag_seen(d, f, (double)kinds, "count", "kernel grids", _("%zu different amounts of work in %zu steps; kernel time a step from %s to %s"), kinds, n,
                 gw_diag_time_text(d, (double)sorted[n / 10]), gw_diag_time_text(d, (double)sorted[n * 9 / 10]));
    gw_diag_fix(f, _("put samples of like length into one batch (bucketing) and pad to a few fixed sizes"), _("the spread of step times in gpuwhy diff"),
                _("a little padding is computed for nothing"));
    fired = GW_FIRED;
out:
    free(busy);
    free(sorted);
    free(grids);
    return fired;
}
