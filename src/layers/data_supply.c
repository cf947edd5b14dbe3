/* data_supply: the GPU waits for the next batch, or for its way to the GPU. */
#include <math.h>
#include <stdlib.h>

#include "layers/finding.h"

/* Time in host_ns is of the whole steady window; the loader's own work continues while the GPU computes. */

static void loader_places(struct gw_diag *d, struct gw_draft *f, unsigned cause)
{
    struct gw_places *p = gw_places_new(d);
    for (size_t i = 0; i < d->dev->npieces; i++) {
        const struct gw_piece *q = d->dev->pieces + i;
        if (q->cause == cause && q->culprit != GW_NONE && d->dev->gaps[q->gap].start >= d->an->w0 &&
            d->dev->gaps[q->gap].start < d->an->w1)
            gw_places_add(p, q->culprit, q->ns);
    }
    gw_places_done(p, f, 3);
}

int gw_find_main_loading(struct gw_diag *d)
{
    double share = gw_diag_share(d, GW_CAUSE_MAIN_LOADING);
    int64_t lost = d->dev->cause_ns[GW_CAUSE_MAIN_LOADING];
    if (!d->dev->nruns || !d->an->ranges)
        return GW_NO_DATA;
    if (share < GW_LIM_DATA_WAIT)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_MAIN_LOADING, lost);
    struct gw_whatif none = GW_WHATIF_NONE, gone = GW_WHATIF_NONE;
    gone.remove = 1u << GW_CAUSE_MAIN_LOADING | 1u << GW_CAUSE_DATA_WAIT;
    double load = (double)d->dev->host_ns[GW_CAUSE_MAIN_LOADING];
    double now = gw_diag_time(d, &none, d->scale_likely), free_run = gw_diag_time(d, &gone, d->scale_likely);
    double fastest = gw_diag_time(d, &gone, d->scale_low);
    /* with W workers the loader supplies a batch every load / W; the step is the longer of that and the rest */
    gw_diag_gain_set(f, now / fmax(free_run, load / GW_LIM_WORKERS_FEW), now / fmax(free_run, load / GW_LIM_WORKERS_LIKELY),
                     now / fastest);
    f->f.now_step_ns = (int64_t)(now / d->steps);
    f->f.then_low_ns = (int64_t)(now / f->f.gain.high / d->steps);
    f->f.then_high_ns = (int64_t)(now / f->f.gain.low / d->steps);
    f->f.confidence = GW_CONF_HIGH;
    gw_diag_seen(d, f, gw_diag_per_step(d, load), "ns", "DataLoader ranges",
                 _("the main process loads for %s a step; the GPU idles for %s of it"),
                 gw_diag_time_text(d, gw_diag_per_step(d, load)), gw_diag_time_text(d, gw_diag_per_step(d, (double)lost)));
    gw_diag_seen(d, f, now / free_run, "1", "replay",
                 _("with %d workers a batch would take %s, without any wait a step %s"), (int)GW_LIM_WORKERS_LIKELY,
                 gw_diag_time_text(d, load / GW_LIM_WORKERS_LIKELY / d->steps), gw_diag_time_text(d, free_run / d->steps));
    loader_places(d, f, GW_CAUSE_MAIN_LOADING);
    gw_diag_fix(f, _("let worker processes load: `DataLoader(..., num_workers=8, persistent_workers=True, pin_memory=True, prefetch_factor=4)`, then time 4, 8, 12 and 16 workers and keep the last that still pays (start at 1-2 x the CPUs you may use per GPU)"),
                _("gpuwhy sweep --loader workers -- COMMAND"), _("host memory for each worker; the data set must be picklable under spawn"));
    return GW_FIRED;
}

int gw_find_loader_starved(struct gw_diag *d)
{
    int64_t lost = d->dev->cause_ns[GW_CAUSE_DATA_WAIT];
    if (!d->dev->nruns || !d->an->ranges)
        return GW_NO_DATA;
    if (gw_diag_share(d, GW_CAUSE_DATA_WAIT) < GW_LIM_DATA_WAIT)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_LOADER_STARVED, lost);
    struct gw_whatif low = GW_WHATIF_NONE, likely = GW_WHATIF_NONE, high = GW_WHATIF_NONE;
    low.label_scale[GW_CAUSE_DATA_WAIT] = 0.5; /* twice the supply */
    likely.label_scale[GW_CAUSE_DATA_WAIT] = 0.15;
    high.remove = 1u << GW_CAUSE_DATA_WAIT;
    gw_diag_gain(d, f, &low, &likely, &high);
    f->f.confidence = GW_CONF_MEDIUM;
    gw_diag_seen(d, f, gw_diag_per_step(d, (double)lost), "ns", "DataLoader ranges",
                 _("the loop waits %s a step inside the loader while the GPU is idle"),
                 gw_diag_time_text(d, gw_diag_per_step(d, (double)lost)));
    gw_diag_against(d, f, NAN, "1", "", _("a trace does not show the workers: storage, preprocessing and too few workers look the same"));
    loader_places(d, f, GW_CAUSE_DATA_WAIT);
    gw_diag_fix(f, _("raise num_workers while a step still gets shorter (time 2, 4, 8, 16), with persistent_workers=True and prefetch_factor=4; `gpuwhy run` tells whether the workers wait for storage or for CPUs"),
                _("gpuwhy sweep --loader workers -- COMMAND"), _("host memory for each worker"));
    return GW_FIRED;
}

int gw_find_worker_respawn(struct gw_diag *d)
{
    int64_t lost = d->dev->cause_ns[GW_CAUSE_RESPAWN];
    size_t n = 0;
    for (size_t i = 0; i < d->an->nphases; i++)
        n += d->an->phases[i].cause == GW_CAUSE_RESPAWN;
    if (!n)
        return d->an->steps.count && d->dev->nruns && d->an->ranges ? GW_SILENT : GW_NO_DATA;
    if (gw_diag_share(d, GW_CAUSE_RESPAWN) < GW_LIM_SHARE)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_WORKER_RESPAWN, lost);
    struct gw_whatif low = GW_WHATIF_NONE, high = GW_WHATIF_NONE;
    low.label_scale[GW_CAUSE_RESPAWN] = 0.3; /* the first batch of an epoch still has to be made */
    high.remove = 1u << GW_CAUSE_RESPAWN;
    gw_diag_gain(d, f, &low, &high, &high);
    f->f.confidence = n > 1 ? GW_CONF_MEDIUM : GW_CONF_LOW;
    gw_diag_seen(d, f, (double)n, "count", "step times",
                 _("%zu of the steps take a multiple of the median: host code first, then a wait for the first batch"), n);
    gw_diag_against(d, f, NAN, "1", "", _("a trace does not show the worker processes themselves: gpuwhy run does"));
    gw_diag_fix(f, _("keep the workers: `DataLoader(..., persistent_workers=True)`, and build the loader once, outside the epoch loop"),
                _("gpuwhy diff before.json after.json"), _("the workers' memory stays in use between epochs"));
    return GW_FIRED;
}

/* ---- copies ---- */

struct gw_span {
    int64_t start, end;
};

struct gw_copy_sum {
    int64_t exposed, dur, bytes, count, small;
    double best; /* bytes/s of the fastest copy of at least 1 MB */
};

enum { PAGEABLE_IN, PAGEABLE_OUT, PINNED_IN, PINNED_OUT, KINDS };

static int copy_kind(const struct gw_event *e)
{
    enum gw_mem s = gw_copy_src(e->sub), t = gw_copy_dst(e->sub);
    if (s == GW_MEM_PAGEABLE && !gw_mem_is_host(t))
        return PAGEABLE_IN;
    if (t == GW_MEM_PAGEABLE && !gw_mem_is_host(s))
        return PAGEABLE_OUT;
    if (gw_mem_is_host(s) && !gw_mem_is_host(t))
        return PINNED_IN;
    if (gw_mem_is_host(t) && !gw_mem_is_host(s))
        return PINNED_OUT;
    return -1;
}

static int in_phase(const struct gw_analysis *an, int64_t at)
{
    for (size_t i = 0; i < an->nphases; i++)
        if (at >= an->phases[i].start && at < an->phases[i].end)
            return 1;
    return 0;
}

/* Spans with a kernel running, merged. */
static struct gw_span *busy_spans(const struct gw_diag *d, size_t *count)
{
    struct gw_span *v = malloc((d->dev->nops + 1) * sizeof *v);
    size_t n = 0;
    for (size_t i = 0; v && i < d->dev->nops; i++) {
        const struct gw_event *e = gw_ev(d->an, d->dev->ops[i]);
        if (e->kind == GW_KIND_COPY || e->kind == GW_KIND_SET)
            continue;
        if (n && e->start <= v[n - 1].end)
            v[n - 1].end = e->end > v[n - 1].end ? e->end : v[n - 1].end;
        else
            v[n++] = (struct gw_span){e->start, e->end};
    }
    *count = n;
    return v;
}

static int64_t exposed_of(const struct gw_span *v, size_t n, const struct gw_event *e)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (v[mid].end <= e->start)
            lo = mid + 1;
        else
            hi = mid;
    }
    int64_t left = e->end - e->start;
    for (; lo < n && v[lo].start < e->end; lo++) {
        int64_t a = v[lo].start > e->start ? v[lo].start : e->start, b = v[lo].end < e->end ? v[lo].end : e->end;
        left -= b - a;
    }
    return left;
}

/* Sums by kind over the steady window, without the phases (a checkpoint's copies are the checkpoint's). */
static int sum_copies(const struct gw_diag *d, struct gw_copy_sum sum[KINDS])
{
    size_t n;
    struct gw_span *busy = busy_spans(d, &n);
    if (!busy)
        return GW_ENOMEM;
    for (size_t i = 0; i < d->dev->nops; i++) {
        const struct gw_event *e = gw_ev(d->an, d->dev->ops[i]);
        int k = e->kind == GW_KIND_COPY ? copy_kind(e) : -1;
        if (k < 0 || !gw_diag_in(d, e) || in_phase(d->an, e->start))
            continue;
        struct gw_copy_sum *s = sum + k;
        int64_t bytes = e->flags & GW_EV_HAS_ARG0 ? (int64_t)e->arg0 : 0, dur = e->end - e->start;
        s->count++;
        s->dur += dur;
        s->bytes += bytes;
        s->small += bytes < 65536;
        s->exposed += exposed_of(busy, n, e);
        if (bytes >= 1000000 && dur > 0 && (double)bytes / (double)dur * 1e9 > s->best)
            s->best = (double)bytes / (double)dur * 1e9;
    }
    free(busy);
    /* copies that run at once share the time in which only copies run */
    int64_t all = 0, most = d->dev->steady.copy_exposed;
    for (int k = 0; k < KINDS; k++)
        all += sum[k].exposed;
    for (int k = 0; k < KINDS && all > most; k++)
        sum[k].exposed = (int64_t)((double)sum[k].exposed * (double)most / (double)all);
    return GW_OK;
}

/* Scales the host copies of the given kinds: factor(rate) for their durations. */
static void scale_copies(const struct gw_diag *d, float *scale, unsigned kinds, double to_rate)
{
    size_t n = gw_replay_ops(d->dev->replay);
    for (size_t i = 0; i < n; i++) {
        const struct gw_event *e = gw_ev(d->an, gw_replay_op_event(d->dev->replay, i));
        int k = e->kind == GW_KIND_COPY ? copy_kind(e) : -1;
        if (k < 0 || !(kinds & (1u << k)) || in_phase(d->an, e->start))
            continue;
        double dur = (double)(e->end - e->start), want = 0;
        if (to_rate > 0 && (e->flags & GW_EV_HAS_ARG0))
            want = (double)e->arg0 / to_rate * 1e9 + 2000; /* a copy has about 2 us of its own */
        scale[i] = dur > 0 && want < dur ? (float)(want / dur) : 1.0f;
    }
}

static void copy_places(struct gw_diag *d, struct gw_draft *f, unsigned kinds)
{
    struct gw_places *p = gw_places_new(d);
    for (size_t i = 0; i < d->dev->nops; i++) {
        const struct gw_event *e = gw_ev(d->an, d->dev->ops[i]);
        int k = e->kind == GW_KIND_COPY ? copy_kind(e) : -1;
        if (k >= 0 && (kinds & (1u << k)) && gw_diag_in(d, e) && e->link != GW_NONE)
            gw_places_add(p, e->link, e->end - e->start);
    }
    gw_places_done(p, f, 3);
}

static int no_copies(const struct gw_diag *d)
{
    for (size_t i = 0; i < d->dev->nops; i++)
        if (gw_ev(d->an, d->dev->ops[i])->kind == GW_KIND_COPY)
            return 0;
    return 1;
}

/* Time of copies from or to host memory of which the source does not say whether it was pinned. */
static int64_t of_unknown_sort(const struct gw_diag *d)
{
    int64_t ns = 0;
    for (size_t i = 0; i < d->dev->nops; i++) {
        const struct gw_event *e = gw_ev(d->an, d->dev->ops[i]);
        enum gw_mem s = gw_copy_src(e->sub), t = gw_copy_dst(e->sub);
        int unknown = s == GW_MEM_HOST || t == GW_MEM_HOST || s == GW_MEM_UNKNOWN || t == GW_MEM_UNKNOWN;
        if (e->kind == GW_KIND_COPY && unknown && gw_diag_in(d, e))
            ns += e->end - e->start;
    }
    return ns;
}

int gw_find_pageable_copy(struct gw_diag *d)
{
    struct gw_copy_sum s[KINDS] = {{0}};
    if (no_copies(d) || sum_copies(d, s) < 0)
        return GW_SILENT; /* a job without copies has none from pageable memory */
    int64_t exposed = s[PAGEABLE_IN].exposed + s[PAGEABLE_OUT].exposed, dur = s[PAGEABLE_IN].dur + s[PAGEABLE_OUT].dur;
    int64_t bytes = s[PAGEABLE_IN].bytes + s[PAGEABLE_OUT].bytes, n = s[PAGEABLE_IN].count + s[PAGEABLE_OUT].count;
    if ((double)exposed < GW_LIM_COPY * (double)d->wall)
        return (double)of_unknown_sort(d) < GW_LIM_COPY * (double)d->wall ? GW_SILENT : GW_NO_DATA;
    struct gw_draft *f = gw_diag_add(d, GW_F_PAGEABLE_COPY, exposed);
    unsigned kinds = 1u << PAGEABLE_IN | 1u << PAGEABLE_OUT;
    double rate = dur ? (double)bytes / (double)dur * 1e9 : 0;
    double link = fmax((double)d->link_rate, fmax(s[PINNED_IN].best, s[PINNED_OUT].best));
    if (d->dev->replay) {
        struct gw_whatif w[3];
        const double to[3] = {link / 2, link, 0}; /* half the link, the link, hidden behind compute */
        for (int i = 0; i < 3; i++) {
            float *scale = gw_diag_scales(d, i);
            w[i] = GW_WHATIF_NONE;
            if (scale)
                scale_copies(d, scale, kinds, to[i]);
            w[i].op_scale = scale;
            w[i].drop_wait = i ? 1u << GW_CAUSE_BLOCKING_COPY : 0;
        }
        gw_diag_gain(d, f, w, w + 1, w + 2);
    } else {
        gw_diag_gain(d, f, NULL, NULL, NULL);
    }
    f->f.confidence = GW_CONF_HIGH;
    if (link > 0 && bytes > 0) /* hidden or not, the bytes have to cross the link */
        gw_diag_gain_cap(f, (double)d->wall / ((double)bytes / link * 1e9));
    gw_diag_seen(d, f, rate, "bytes/s", "copy records", _("%s a step from or to pageable memory at %s/s; this GPU's link (%s) does about %s/s from pinned memory"),
                 gw_diag_bytes_text(d, gw_diag_per_step(d, (double)bytes)), gw_diag_bytes_text(d, rate), d->link_name,
                 gw_diag_bytes_text(d, link));
    gw_diag_seen(d, f, (double)exposed / (double)d->wall, "share", "timeline",
                 _("%.0f %% of the time only such a copy runs (%s a step)"), 100 * (double)exposed / (double)d->wall,
                 gw_diag_time_text(d, gw_diag_per_step(d, (double)exposed)));
    if (n && s[PAGEABLE_IN].small + s[PAGEABLE_OUT].small > n / 2)
        gw_diag_against(d, f, (double)n, "count", "copy records", _("most of these copies are small: waiting costs more than bandwidth"));
    copy_places(d, f, kinds);
    gw_diag_fix(f, _("pin and do not block, both: `DataLoader(..., pin_memory=True)` and `x.to(device, non_blocking=True)`; one alone gains nothing"),
                _("gpuwhy diff before.json after.json"), _("pinned memory cannot be swapped: leave the host some"));
    return GW_FIRED;
}

int gw_find_copy_link(struct gw_diag *d)
{
    struct gw_copy_sum s[KINDS] = {{0}};
    if (no_copies(d) || sum_copies(d, s) < 0)
        return GW_SILENT;
    for (int k = PINNED_IN; k <= PINNED_OUT; k++) {
        double rate = s[k].dur ? (double)s[k].bytes / (double)s[k].dur * 1e9 : 0;
        if ((double)s[k].exposed < GW_LIM_LINK_SHARE * (double)d->wall || s[k].best <= 0 || rate < GW_LIM_LINK_RATE * s[k].best)
            continue;
        struct gw_draft *f = gw_diag_add(d, GW_F_COPY_LINK, s[k].exposed);
        if (d->dev->replay) {
            struct gw_whatif w[3];
            const double faster[3] = {1.33, 2, 1e6}; /* a quarter less to move, half (fp32 -> bf16), nothing (kept on the GPU) */
            for (int i = 0; i < 3; i++) {
                float *scale = gw_diag_scales(d, i);
                w[i] = GW_WHATIF_NONE;
                if (scale)
                    scale_copies(d, scale, 1u << k, rate * faster[i]);
                w[i].op_scale = scale;
            }
            gw_diag_gain(d, f, w, w + 1, w + 2);
        } else {
            double rest = (double)(d->wall - s[k].exposed), c = (double)s[k].exposed, t = (double)d->wall;
            gw_diag_gain_set(f, t / (rest + c / 1.33), t / (rest + c / 2), t / fmax(rest, t * 0.02));
        }
        f->f.confidence = GW_CONF_HIGH;
        gw_diag_seen(d, f, (double)s[k].exposed / (double)d->wall, "share", "timeline",
                     _("%.0f %% of the time only copies %s run: %s in all"), 100 * (double)s[k].exposed / (double)d->wall,
                     k == PINNED_IN ? _("to the GPU") : _("from the GPU"), gw_diag_bytes_text(d, (double)s[k].bytes));
        gw_diag_seen(d, f, rate, "bytes/s", "copy records", _("they run at %s/s from pinned memory, as fast as any copy here (best %s/s)"),
                     gw_diag_bytes_text(d, rate), gw_diag_bytes_text(d, s[k].best));
        copy_places(d, f, 1u << k);
        gw_diag_fix(f, _("move less: send uint8 and convert on the GPU (`x.to(device).float().div_(255)`), keep what is used again on the GPU, send bf16 for fp32; then overlap the rest on a stream of its own"),
                    _("gpuwhy diff before.json after.json"), _("GPU memory for what stays there"));
        if (d->link_rate > 0 && s[k].best < 0.6 * (double)d->link_rate)
            gw_diag_fix(f, _("check the link: copies here reach half of what this kind of GPU can do (`gpuwhy check --load`: PCIe generation, width, NUMA node)"),
                        _("gpuwhy check --load"), "");
        return GW_FIRED;
    }
    return GW_SILENT;
}

int gw_find_blocking_copy(struct gw_diag *d)
{
    struct gw_copy_sum s[KINDS] = {{0}};
    if (no_copies(d) || sum_copies(d, s) < 0)
        return GW_SILENT;
    int64_t idle = d->dev->cause_ns[GW_CAUSE_BLOCKING_COPY], exposed = s[PINNED_IN].exposed + s[PINNED_OUT].exposed;
    int64_t lost = idle + exposed, waits = 0, bytes = 0;
    for (size_t i = 0; i < d->dev->nblocks; i++)
        if (d->dev->blocks[i].kind == GW_CAUSE_BLOCKING_COPY && gw_diag_in(d, gw_ev(d->an, d->dev->blocks[i].call))) {
            waits++;
            bytes += d->dev->blocks[i].bytes > 0 ? d->dev->blocks[i].bytes : 0;
        }
    if ((double)lost < GW_LIM_COPY * (double)d->wall || !waits)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_BLOCKING_COPY, lost);
    unsigned kinds = 1u << PINNED_IN | 1u << PINNED_OUT;
    if (d->dev->replay) {
        struct gw_whatif w[3];
        for (int i = 0; i < 3; i++) {
            float *scale = gw_diag_scales(d, i);
            w[i] = GW_WHATIF_NONE;
            if (scale && i)
                scale_copies(d, scale, kinds, i == 1 ? 3e12 : 0); /* overlapped: all but a sliver disappears */
            w[i].op_scale = scale;
            w[i].drop_wait = 1u << GW_CAUSE_BLOCKING_COPY;
            w[i].remove = 1u << GW_CAUSE_BLOCKING_COPY;
        }
        gw_diag_gain(d, f, w, w + 1, w + 2);
    } else {
        gw_diag_gain(d, f, NULL, NULL, NULL);
    }
    /* the two directions of the link work side by side, copies of one direction do not */
    double in = (double)(s[PINNED_IN].dur + s[PAGEABLE_IN].dur), back = (double)(s[PINNED_OUT].dur + s[PAGEABLE_OUT].dur);
    if (in + back > 0)
        gw_diag_gain_cap(f, (double)d->wall / fmax(in, back));
    gw_diag_seen(d, f, (double)exposed / (double)d->wall, "share", "timeline", _("%.0f %% of the time only a copy runs, another %.0f %% nothing does because the host waited for one"),
                 100 * (double)exposed / (double)d->wall, 100 * (double)idle / (double)d->wall);
    gw_diag_seen(d, f, (double)waits / d->steps, "count", "API calls", _("the host waits for %.3g copies a step, %s each"),
                 (double)waits / d->steps, gw_diag_bytes_text(d, (double)bytes / (double)waits));
    copy_places(d, f, kinds | 1u << PAGEABLE_OUT | 1u << PAGEABLE_IN);
    gw_diag_fix(f, _("copy while the GPU computes: `x.to(device, non_blocking=True)` from pinned memory, one batch ahead on a stream of its own; fetch results less often and in one piece"),
                _("gpuwhy diff before.json after.json"), _("GPU memory for one more batch"));
    return GW_FIRED;
}
