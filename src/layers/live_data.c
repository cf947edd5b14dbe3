/* live_data.c - data supply, with the workers in sight. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "layers/live.h"

enum {
    STATES_BLOCKED = 1u << GW_TS_DISK | 1u << GW_TS_FILE | 1u << GW_TS_PIPE | 1u << GW_TS_POLL | 1u << GW_TS_NAP |
                     1u << GW_TS_FUTEX | 1u << GW_TS_OTHER,
    STATES_RUNNING = 1u << GW_TS_RUNNING
};

/* What the workers did, in one line. */
static void seen_workers(struct gw_diag *d, struct gw_draft *f, const struct gw_live *l)
{
    const struct gw_live_threads *w = l->role + GW_LIVE_WORKER;
    gw_diag_seen(d, f, w->busy, "share", "thread samples",
                 _("%zu workers: running or ready to %.0f %% of their time, asleep inside the data set's code %.0f %%, "
                   "without a task %.0f %%"),
                 l->workers, 100 * w->busy, 100 * w->blocked, 100 * w->idle);
}

static void seen_wait(struct gw_diag *d, struct gw_draft *f)
{
    double lost = (double)(f->f.lost_ns > 0 ? f->f.lost_ns : 0);
    gw_diag_seen(d, f, gw_diag_per_step(d, lost), "ns", "timeline",
                 _("the loop waits %s a step for a batch while the GPU is idle"),
                 gw_diag_time_text(d, gw_diag_per_step(d, lost)));
}

static int64_t lost_to_loader(const struct gw_diag *d, const struct gw_live *l)
{
    return d->dev ? d->dev->cause_ns[GW_CAUSE_DATA_WAIT] : (int64_t)(l->starved * (double)d->wall);
}

/* 1 when the question can be asked: a loader with workers that do not keep up. Else *answer. */
static int is_starved(const struct gw_live *l, int *answer)
{
    if (!l || l->role[GW_LIVE_LAUNCHER].time <= 0) {
        *answer = GW_NO_DATA;
        return 0;
    }
    *answer = GW_SILENT;
    return l->workers > 0 && l->role[GW_LIVE_WORKER].time > 0 && l->starved >= GW_LIM_DATA_WAIT;
}

int gw_live_loader_starved(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    int answer = d->dev ? gw_find_loader_starved(d) : GW_NO_DATA;
    if (answer != GW_FIRED || !l || !d->drafts)
        return answer;
    struct gw_draft *f = d->draft[d->drafts - 1];
    if (f->id != GW_F_LOADER_STARVED || l->role[GW_LIVE_WORKER].time <= 0)
        return answer;
    f->against.len = 0; /* the workers are in sight here */
    seen_workers(d, f, l);
    if (l->role[GW_LIVE_WORKER].idle > 0.6)
        gw_diag_against(d, f, l->role[GW_LIVE_WORKER].idle, "share", "thread samples",
                        _("the workers have nothing to do %.0f %% of the time: what follows them is slow (unpacking in "
                          "the main process, pinning, one queue for all)"),
                        100 * l->role[GW_LIVE_WORKER].idle);
    return answer;
}

int gw_live_too_few_workers(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    int answer;
    if (!is_starved(l, &answer))
        return answer;
    const struct gw_live_threads *w = l->role + GW_LIVE_WORKER;
    if (isnan(l->spare))
        return GW_NO_DATA;
    double each = fmax(w->cpu / (double)l->workers, 0.05), more = floor(l->spare / each);
    if (w->busy < GW_LIM_WORKER_BUSY || more < 1 || l->spare < GW_LIM_SPARE_CPUS * l->cpus)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_TOO_FEW_WORKERS, lost_to_loader(d, l));
    double grown = ((double)l->workers + more) / (double)l->workers;
    gw_live_supply(d, f, 1 + (grown - 1) * 0.4, 1 + (grown - 1) * 0.8, grown * 1.2);
    f->f.confidence = GW_CONF_HIGH;
    seen_wait(d, f);
    seen_workers(d, f, l);
    gw_diag_seen(d, f, l->spare, "1", "CPU time", _("the job may use %.3g CPUs and uses %.3g: %.3g are free"), l->cpus,
                 l->used, l->spare);
    gw_live_where(d, f, GW_LIVE_WORKER, STATES_RUNNING, 0, 3);
    int want = (int)fmin((double)l->workers + more, l->cpus);
    gw_diag_fix(
        f,
        gw_arena_printf(d->arena,
                        _("more workers: `DataLoader(..., num_workers=%d, persistent_workers=True, prefetch_factor=4)` "
                          "instead of %zu; time a few numbers and keep the last that still pays"),
                        want, l->workers),
        _("gpuwhy sweep --loader workers -- COMMAND"), _("host memory for each worker"));
    gw_live_refines_loader(d);
    return GW_FIRED;
}

/* The mount that was read from most; NULL when no read was caught. */
static const struct gw_host_mount *busiest_mount(const struct gw_live *l)
{
    const struct gw_host_mount *best = NULL;
    for (size_t i = 0; i < l->h->mount_count; i++)
        if (l->h->mount[i].samples && (!best || l->h->mount[i].samples > best->samples))
            best = l->h->mount + i;
    return best;
}

static double workers_read(const struct gw_live *l, const struct gw_analysis *an, const char *counter)
{
    double sum = NAN;
    for (size_t i = 0; i < l->h->process_count; i++) {
        const struct gw_host_process *p = l->h->process + i;
        double v = p->role == GW_HR_WORKER ? gw_live_rate(l, an, counter, -1, p->pid) : NAN;
        if (!isnan(v))
            sum = isnan(sum) ? v : sum + v;
    }
    return sum;
}

static void seen_storage(struct gw_diag *d, struct gw_draft *f, const struct gw_live *l)
{
    const struct gw_host_mount *m = busiest_mount(l);
    double chars = workers_read(l, d->an, "process.rchar"), disk = workers_read(l, d->an, "process.read_bytes");
    if (m)
        gw_diag_seen(d, f, (double)m->samples, "count", "thread samples", _("they were seen reading from %s (%s)"),
                     m->point, m->type);
    if (!isnan(chars) && !isnan(disk) && chars > 0)
        gw_diag_seen(d, f, chars, "bytes/s", "/proc/PID/io",
                     _("they read %s/s, %.0f %% of it from a disk and not from memory"), gw_diag_bytes_text(d, chars),
                     100 * fmin(1, disk / chars));
    double io = gw_live_rate(l, d->an, "psi.io_some_us", -1, -1);
    if (io > 0)
        gw_diag_seen(d, f, io * 1e-6, "share", "/proc/pressure/io",
                     _("some task of the machine waits for I/O %.0f %% of the time"), 100 * io * 1e-6);
}

int gw_live_slow_storage(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    int answer;
    if (!is_starved(l, &answer))
        return answer;
    const struct gw_live_threads *w = l->role + GW_LIVE_WORKER;
    if (w->blocked < GW_LIM_WORKER_BLOCKED || w->blocked < w->busy)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_SLOW_STORAGE, lost_to_loader(d, l));
    double faster = (w->busy + w->blocked) / fmax(w->busy, 0.05);
    gw_live_supply(d, f, fmin(1.5, faster), fmin(4, faster), faster);
    double sure = w->state[GW_TS_DISK] + w->state[GW_TS_FILE];
    f->f.confidence = sure > 0.5 * w->blocked ? GW_CONF_HIGH : GW_CONF_MEDIUM;
    seen_wait(d, f);
    seen_workers(d, f, l);
    seen_storage(d, f, l);
    if (sure <= 0.5 * w->blocked)
        gw_diag_against(d, f, sure, "share", "thread samples",
                        _("only %.0f %% of their time is in calls on files: a network, a data base or a pause of its "
                          "own is as likely"),
                        100 * sure);
    gw_live_where(d, f, GW_LIVE_WORKER, STATES_BLOCKED, 0, 3);
    const struct gw_host_mount *m = busiest_mount(l);
    if (m && m->remote)
        gw_diag_fix(f,
                    gw_arena_printf(d->arena,
                                    _("the data is on %s (%s): copy it to a local disk before training, or read fewer, "
                                      "larger files (tar shards, one archive)"),
                                    m->point, m->type),
                    _("gpuwhy diff before after"), _("local disk space"));
    else
        gw_diag_fix(f, _("make reading cheap: a local disk, fewer and larger files (shards), a cache in memory"),
                    _("gpuwhy diff before after"), _("disk or memory for the copy"));
    gw_diag_fix(
        f,
        gw_arena_printf(
            d->arena,
            _("workers that wait cost no CPU, so more of them hide latency: `num_workers=%zu, prefetch_factor=4`"),
            l->workers * 3),
        _("gpuwhy sweep --loader workers -- COMMAND"), _("host memory for each worker"));
    gw_live_refines_loader(d);
    return GW_FIRED;
}

/* Generations: moments at which most of the workers were started within two seconds. */
static size_t generations(const struct gw_live *l, double *every)
{
    int64_t last = INT64_MIN, first = 0;
    size_t n = 0;
    for (size_t i = 0; i < l->h->process_count; i++) {
        const struct gw_host_process *p = l->h->process + i;
        if (p->role != GW_HR_WORKER)
            continue;
        if (last == INT64_MIN || p->start > last + 2000000000) {
            first = n ? first : p->start;
            n++;
            last = p->start;
        }
    }
    *every = n > 1 ? (double)(last - first) / (double)(n - 1) : 0;
    return n;
}

int gw_live_worker_respawn(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    int answer = d->dev ? gw_find_worker_respawn(d) : GW_NO_DATA;
    double every;
    size_t n = l ? generations(l, &every) : 0;
    if (!l || l->role[GW_LIVE_LAUNCHER].time <= 0)
        return answer;
    if (answer == GW_FIRED && d->drafts && d->draft[d->drafts - 1]->id == GW_F_WORKER_RESPAWN) {
        struct gw_draft *f = d->draft[d->drafts - 1];
        f->against.len = 0;
        gw_diag_seen(d, f, (double)n, "count", "processes", _("workers were started %zu times while recording"), n);
        return answer;
    }
    int64_t lost = d->dev ? d->dev->cause_ns[GW_CAUSE_RESPAWN] : 0;
    if (n < 2 || (double)lost < GW_LIM_SHARE * (double)d->wall)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_WORKER_RESPAWN, lost);
    struct gw_whatif low = GW_WHATIF_NONE, high = GW_WHATIF_NONE;
    low.label_scale[GW_CAUSE_RESPAWN] = 0.3;
    high.remove = 1u << GW_CAUSE_RESPAWN;
    gw_diag_gain(d, f, &low, &high, &high);
    f->f.confidence = GW_CONF_HIGH;
    gw_diag_seen(d, f, (double)n, "count", "processes", _("workers were started %zu times while recording, every %s"),
                 n, gw_diag_time_text(d, every));
    gw_diag_seen(d, f, gw_diag_per_step(d, (double)lost), "ns", "thread samples",
                 _("starting and ending them takes %s a step on average, with the GPU idle"),
                 gw_diag_time_text(d, gw_diag_per_step(d, (double)lost)));
    gw_diag_fix(f,
                _("keep the workers: `DataLoader(..., persistent_workers=True)`, and build the loader once, outside "
                  "the epoch loop"),
                _("gpuwhy diff before after"), _("the workers' memory stays in use between epochs"));
    return GW_FIRED;
}

/* --- settings that the hook read
 * --------------------------------------------------------------------------------------------- */

int gw_live_same_data(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    const struct gw_host_loader *main = NULL;
    if (!l || !l->h->hook || !l->h->loader_count)
        return GW_NO_DATA;
    int64_t world = d->an->t->facts.world_size;
    for (size_t i = 0; i < l->h->loader_count; i++) { /* the training loader is the one that gives most batches */
        const struct gw_host_loader *x = l->h->loader + i;
        int64_t has = x->epochs * (x->length > 0 ? x->length : 1);
        if (x->pid == l->pid && (!main || has > main->epochs * (main->length > 0 ? main->length : 1)))
            main = x;
    }
    if (!main || main->is_distributed < 0)
        return GW_NO_DATA;
    if (world < 2 || main->is_distributed || main->is_iterable == 1 || !main->sampler)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_SAME_DATA, -1);
    gw_diag_gain_set(f, 1, 1, 1);
    f->f.confidence = GW_CONF_MEDIUM;
    gw_diag_seen(
        d, f, (double)world, "count", "settings",
        _("%lld ranks, and the loader's sampler is %s, which knows nothing of ranks: each rank goes through all of %s"),
        (long long)world, main->sampler, main->dataset ? main->dataset : _("the data set"));
    gw_diag_against(d, f, NAN, "1", "", _("unless the data set itself was split before"));
    gw_diag_fix(f,
                _("`sampler = DistributedSampler(ds); DataLoader(ds, sampler=sampler, ...)`, and "
                  "`sampler.set_epoch(epoch)` in each epoch"),
                _("batches in an epoch: they should be fewer by the number of ranks"), "");
    return GW_FIRED;
}

int gw_live_no_reshuffle(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    int known = 0;
    if (!l || !l->h->hook)
        return GW_NO_DATA;
    for (size_t i = 0; i < l->h->loader_count; i++) {
        const struct gw_host_loader *x = l->h->loader + i;
        known |= x->is_distributed >= 0;
        if (x->is_distributed != 1 || x->epochs < 2 || x->set_epoch_calls)
            continue;
        struct gw_draft *f = gw_diag_add(d, GW_F_NO_RESHUFFLE, -1);
        gw_diag_gain_set(f, 1, 1, 1);
        f->f.confidence = GW_CONF_HIGH;
        gw_diag_seen(d, f, (double)x->epochs, "count", "settings",
                     _("%lld epochs were begun and set_epoch() never called on the %s: each epoch has the same order"),
                     (long long)x->epochs, x->sampler ? x->sampler : _("sampler"));
        gw_diag_fix(f, _("`sampler.set_epoch(epoch)` at the start of each epoch"), _("the loss curve"), "");
        return GW_FIRED;
    }
    return known ? GW_SILENT : GW_NO_DATA;
}
