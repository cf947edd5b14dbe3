/* live_cpu.c - CPU preprocessing, with threads and CPUs in sight. */
#include <math.h>
#include <string.h>

#include "layers/live.h"

/* Waiting for a CPU for each second on one, over all threads of the job. */
static double run_queue(const struct gw_live *l)
{
    double cpu = 0, wait = 0;
    for (int r = 0; r < GW_LIVE_ROLES; r++) {
        cpu += l->role[r].cpu;
        wait += l->role[r].wait;
    }
    return cpu > 0 ? wait / cpu : NAN;
}

static int64_t lost_of(const struct gw_diag *d, const struct gw_live *l)
{
    return d->dev ? d->dev->cause_ns[GW_CAUSE_DATA_WAIT] + d->dev->cause_ns[GW_CAUSE_OFF_CPU]
                  : (int64_t)(gw_live_cpu_cost(d, l) * (double)d->wall);
}

int gw_live_workers_cpu(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    if (!l || l->role[GW_LIVE_LAUNCHER].time <= 0 || isnan(l->spare))
        return GW_NO_DATA;
    const struct gw_live_threads *w = l->role + GW_LIVE_WORKER;
    int full = l->spare < GW_LIM_SPARE_CPUS * l->cpus || l->spare < w->cpu / (double)(l->workers ? l->workers : 1);
    if (!l->workers || l->starved < GW_LIM_DATA_WAIT || w->busy < GW_LIM_WORKER_BUSY || !full)
        return GW_SILENT;
    if (d->answer[GW_F_CPU_STARVED] == GW_FIRED || d->answer[GW_F_OVERSUBSCRIBED] == GW_FIRED)
        return GW_SILENT; /* that is why */
    struct gw_draft *f = gw_diag_add(d, GW_F_WORKERS_CPU, lost_of(d, l));
    gw_live_supply(d, f, 1.15, 1.6, 4); /* cheaper transforms: some, half, moved to the GPU */
    f->f.confidence = GW_CONF_HIGH;
    gw_diag_seen(
        d, f, w->busy, "share", "thread samples",
        _("%zu workers run or are ready to %.0f %% of their time, and sleep inside the data set's code %.0f %%"),
        l->workers, 100 * w->busy, 100 * w->blocked);
    gw_diag_seen(d, f, l->used, "1", "CPU time", _("the job uses %.3g of the %.3g CPUs it may use"), l->used, l->cpus);
    gw_live_where(d, f, GW_LIVE_WORKER, 1u << GW_TS_RUNNING, 0, 3);
    gw_diag_fix(
        f,
        _("make a sample cheaper: decode at a reduced size, crop before colour changes, batch the arithmetic; move "
          "normalisation and flips to the GPU; decode on it (DALI, nvJPEG); store decoded or resized data"),
        _("gpuwhy sweep --loader-only -- COMMAND"), _("GPU time and memory for what moves there"));
    gw_live_refines_loader(d);
    return GW_FIRED;
}

int gw_live_oversubscribed(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    if (!l || l->role[GW_LIVE_LAUNCHER].time <= 0 || isnan(l->cpus) || isnan(l->used))
        return GW_NO_DATA;
    double queue = run_queue(l), cost = gw_live_cpu_cost(d, l);
    if (isnan(queue))
        return GW_NO_DATA;
    if (queue < GW_LIM_RUN_QUEUE || l->used < 0.75 * l->cpus || cost < GW_LIM_COPY ||
        d->answer[GW_F_CPU_STARVED] == GW_FIRED)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_OVERSUBSCRIBED, lost_of(d, l));
    size_t threads = l->role[GW_LIVE_WORKER].threads;
    gw_live_supply_cpus(d, f, 1.1, fmin(1 + queue * 0.5, 3), 1 + queue);
    f->f.confidence = GW_CONF_MEDIUM;
    gw_diag_seen(d, f, 1 + queue, "1", "scheduler",
                 _("for each thread on a CPU another %.2g wait for one; the job uses %.3g of its %.3g CPUs"), queue,
                 l->used, l->cpus);
    gw_diag_seen(d, f, (double)threads, "count", "threads",
                 _("%zu workers with %zu threads that were seen, %zu in the training process"), l->workers, threads,
                 l->role[GW_LIVE_TRAINER].threads + 1);
    if (l->h->omp_threads > 0)
        gw_diag_against(d, f, l->h->omp_threads, "count", "environment", _("OMP_NUM_THREADS is set to %d"),
                        l->h->omp_threads);
    gw_live_where(d, f, GW_LIVE_WORKER, 1u << GW_TS_RUNNING, 0, 2);
    if (l->workers && threads > 2 * l->workers)
        gw_diag_fix(f,
                    _("one thread in each worker: `OMP_NUM_THREADS=1`, and in worker_init_fn "
                      "`torch.set_num_threads(1); cv2.setNumThreads(0)`"),
                    _("gpuwhy diff before after"), "");
    else
        gw_diag_fix(f,
                    gw_arena_printf(d->arena, _("fewer threads than CPUs: %.0f workers at most, `OMP_NUM_THREADS=1`"),
                                    fmax(1, floor(l->cpus) - 1)),
                    _("gpuwhy diff before after"), "");
    if (l->starved >= GW_LIM_DATA_WAIT)
        gw_live_refines_loader(d);
    return GW_FIRED;
}

/* Other threads of the process that ran while the launching thread waited for the lock: their code holds it. */
int gw_live_gil(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    if (!l)
        return d->dev ? gw_find_gil_stalls(d) : GW_NO_DATA;
    const struct gw_live_threads *m = l->role + GW_LIVE_LAUNCHER;
    if (m->time <= 0)
        return GW_NO_DATA;
    int64_t lost =
        d->dev ? d->dev->cause_ns[GW_CAUSE_LOCK] : (int64_t)(fmin(m->state[GW_TS_GIL], 1 - d->busy) * (double)d->wall);
    if ((double)lost < GW_LIM_SHARE * (double)d->wall || m->state[GW_TS_GIL] < GW_LIM_SHARE)
        return d->dev && !d->an->stacks ? gw_find_gil_stalls(d) : GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_GIL, lost);
    struct gw_whatif low = GW_WHATIF_NONE, gone = GW_WHATIF_NONE;
    low.label_scale[GW_CAUSE_LOCK] = 0.5;
    gone.remove = 1u << GW_CAUSE_LOCK;
    gw_diag_gain(d, f, &low, &gone, &gone);
    f->f.confidence = GW_CONF_HIGH;
    gw_diag_seen(d, f, m->state[GW_TS_GIL], "share", "thread samples",
                 _("the launching thread waits for Python's lock %.0f %% of the time"), 100 * m->state[GW_TS_GIL]);
    gw_diag_seen(d, f, l->role[GW_LIVE_TRAINER].cpu, "1", "CPU time", _("other threads of the process use %.2g CPUs"),
                 l->role[GW_LIVE_TRAINER].cpu);
    gw_live_where(d, f, GW_LIVE_TRAINER, 1u << GW_TS_RUNNING | 1u << GW_TS_GIL, 0, 3);
    gw_diag_fix(f,
                _("move the other thread's Python work (logging, metrics, decoding) into a process: "
                  "`multiprocessing.Process`, or code that releases the lock"),
                _("gpuwhy diff before after"), _("data has to be sent to the process"));
    return GW_FIRED;
}

/* --- memory of the workers
 * ------------------------------------------------------------------------------------------------------ */

struct worker_memory {
    double own, first, last, seconds;
    size_t n;
}; /* own: not shared with others; growth of those that live */

static struct worker_memory worker_memory(const struct gw_live *l)
{
    struct worker_memory m = {0};
    for (size_t i = 0; i < l->h->process_count; i++) {
        const struct gw_host_process *p = l->h->process + i;
        if (p->role != GW_HR_WORKER || isnan(p->rss_last) || p->end != INT64_MAX)
            continue;
        m.n++;
        m.own += p->rss_last - (isnan(p->shared_last) ? 0 : p->shared_last);
        m.first += p->rss_first;
        m.last += p->rss_last;
        double age = (double)(l->h->to - p->start) * 1e-9;
        m.seconds = age > m.seconds ? age : m.seconds;
    }
    return m;
}

int gw_live_worker_memory(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    struct worker_memory m = {0};
    if (l)
        m = worker_memory(l);
    double available = l ? gw_live_last(l, d->an, "host.memory_available_bytes", -1, -1) : NAN;
    double limit = l ? l->h->memory_limit_bytes : NAN,
           used = l ? gw_live_last(l, d->an, "cgroup.memory_bytes", -1, -1) : NAN;
    if (!isnan(limit) && !isnan(used))
        available = isnan(available) ? limit - used : fmin(available, limit - used);
    if (!l || isnan(available) || (l->workers && !m.n))
        return GW_NO_DATA;
    double grows = m.seconds > 30 ? (m.last - m.first) / m.seconds : 0; /* the first seconds fill caches */
    double hours = grows > 0 ? available / grows / 3600 : INFINITY;
    int leaks = m.first > 0 && m.last > 1.2 * m.first && hours<6, tight = m.own> 2 * available;
    if (!m.n || (!leaks && !tight))
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_WORKER_MEMORY, -1);
    gw_diag_gain_set(f, 1, 1, 1);
    f->f.confidence = leaks && tight ? GW_CONF_HIGH : GW_CONF_MEDIUM;
    gw_diag_seen(d, f, m.own, "bytes", "/proc/PID/status", _("%zu workers hold %s of their own; %s are free"), m.n,
                 gw_diag_bytes_text(d, m.own), gw_diag_bytes_text(d, available));
    if (leaks) {
        gw_diag_seen(d, f, grows, "bytes/s", "/proc/PID/status",
                     _("they grow by %s/s: full in %.2g hours at this pace"), gw_diag_bytes_text(d, grows), hours);
        gw_diag_fix(f,
                    _("no Python objects in the data set: reading them changes their counts, and forked pages are "
                      "copied; keep paths and labels in numpy arrays or Arrow"),
                    _("the workers' memory over an epoch"), "");
    }
    gw_diag_fix(
        f, _("fewer workers, or a smaller prefetch_factor; `persistent_workers=True` avoids two generations at once"),
        _("free memory"), _("a slower supply"));
    return GW_FIRED;
}
