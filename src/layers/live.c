/* live.c - see live.h */
#include "layers/live.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of the time must have been measured for its counters to speak for it. On a busy host the sampler measures for 0.1 s and reads for 0.1 to
 * 0.2 s, in turn: 17 to 58 % of the time in 19 recordings, no pause over 0.22 s. That is a fair sample, and NVML's figure is none. */
#define COUNTED 0.1
#define LATE 0.1 /* of the waiting may stay however fast the loader is on average: batches come unevenly (a cautious guess) */
/* How much a host differs from itself between two runs, over the host's share of the time: 33 jobs of bench/zoo on H200 hosts, recorded and not,
 * differed by 20 % at most in nine of ten (2 % where the GPU was the limit); a gain compares two runs, so 1.4 times that. */
#define VARIES 0.28
#define LEAST_NS 2000000000ll /* shares of thread states need some 80 samples a thread: two seconds */

struct totals { /* of one role, while adding up */
    double state[GW_TS_COUNT], gap[GW_TS_COUNT], time, gap_time, cpu, wait;
    double work_time, work_cpu; /* workers' main threads: time, and running or waiting for a CPU, exact */
    double idle_known, blocked_known,
        unknown; /* theirs: asleep with a stack, and asleep where only the call is known and says little */
    size_t threads;
};

struct adder {
    struct gw_diag *d;
    struct gw_live *l;
    struct totals role[GW_LIVE_ROLES];
    size_t gap; /* first gap of the main device that ends after the current sample; restarts with each lane */
};

static enum gw_live_role role_of(const struct gw_live *l, const struct gw_lane *lane, uint32_t index)
{
    if (index == l->launcher)
        return GW_LIVE_LAUNCHER;
    if (lane->pid == l->pid)
        return GW_LIVE_TRAINER;
    const struct gw_host_process *p = gw_host_process(l->h, lane->pid);
    switch (p ? p->role : (unsigned)GW_HR_OTHER) {
    case GW_HR_WORKER: return p->ppid == l->pid || l->h->trainer == l->pid ? GW_LIVE_WORKER : GW_LIVE_OTHER;
    case GW_HR_COMPILER: return GW_LIVE_COMPILER;
    default: return GW_LIVE_OTHER;
    }
}

/* Time of [start, end) in which the main device idled. */
static double in_gaps(struct adder *a, int64_t start, int64_t end)
{
    const struct gw_dev *v = a->d->dev;
    double ns = 0;
    while (v && a->gap < v->ngaps && v->gaps[a->gap].end <= start)
        a->gap++;
    for (size_t i = a->gap; v && i < v->ngaps && v->gaps[i].start < end; i++) {
        int64_t s = v->gaps[i].start > start ? v->gaps[i].start : start,
                e = v->gaps[i].end < end ? v->gaps[i].end : end;
        ns += (double)(e - s);
    }
    return ns;
}

static void add_worker(struct totals *t, const struct gw_analysis *an, const struct gw_event *e, double ns, double part)
{
    const struct gw_stack_info *s = gw_samples_stack(an, e);
    t->work_time += ns;
    if (e->flags & GW_EV_HAS_CORR)
        t->work_cpu += part * (double)(gw_sample_cpu_ns(e) + gw_sample_wait_ns(e));
    else if (e->sub == GW_TS_RUNNING)
        t->work_cpu += ns;
    if (e->sub == GW_TS_RUNNING || e->sub == GW_TS_STOPPED || e->sub == GW_TS_UNKNOWN)
        return;
    if (s)
        *(s->flags & GW_STACK_IDLE_WORKER ? &t->idle_known : &t->blocked_known) += ns;
    else if (e->sub == GW_TS_DISK || e->sub == GW_TS_FILE || e->sub == GW_TS_NAP)
        t->blocked_known += ns;
    else
        t->unknown += ns;
}

static void add_sample(struct adder *a, const struct gw_event *e, enum gw_live_role role)
{
    struct totals *t = a->role + role;
    int64_t start = e->start > a->l->from ? e->start : a->l->from, end = e->end < a->l->to ? e->end : a->l->to;
    if (end <= start || e->sub >= GW_TS_COUNT)
        return;
    double ns = (double)(end - start), part = ns / (double)(e->end - e->start);
    t->time += ns;
    t->state[e->sub] += ns;
    if (e->flags & GW_EV_HAS_CORR) {
        t->cpu += part * (double)gw_sample_cpu_ns(e);
        t->wait += part * (double)gw_sample_wait_ns(e);
    }
    /* A thread that did not run kept its state for all of the time; of one that did, only the instant is known. */
    int still = (e->flags & GW_EV_HAS_CORR) && gw_sample_cpu_ns(e) == 0 && gw_sample_wait_ns(e) == 0;
    double gap = in_gaps(a, start, still ? end : start + 1);
    gap = still ? gap : gap > 0 ? ns : 0;
    t->gap[e->sub] += gap;
    t->gap_time += gap;
    const struct gw_lane *lane = gw_trace_lane(a->d->an->t, e->lane);
    if (role == GW_LIVE_WORKER && lane->tid == lane->pid)
        add_worker(t, a->d->an, e, ns, part);
}

static void add_lanes(struct adder *a)
{
    const struct gw_analysis *an = a->d->an;
    const struct gw_lane *lane = an->t->lanes.data;
    for (uint32_t i = 0; i < an->t->lanes.len; i++) {
        if (lane[i].type != GW_LANE_HOST)
            continue;
        enum gw_live_role role = role_of(a->l, lane + i, i);
        double before = a->role[role].time;
        a->gap = 0;
        for (size_t k = 0; k < lane[i].count; k++)
            if (gw_ev(an, lane[i].order[k])->kind == GW_KIND_SAMPLE)
                add_sample(a, gw_ev(an, lane[i].order[k]), role);
        a->role[role].threads += a->role[role].time > before;
    }
}

static void finish_role(struct gw_live_threads *r, const struct totals *t, double span)
{
    r->threads = t->threads;
    r->time = t->time;
    r->gap_time = t->gap_time;
    for (unsigned s = 0; s < GW_TS_COUNT; s++) {
        r->state[s] = t->time > 0 ? t->state[s] / t->time : 0;
        r->gap[s] = t->gap_time > 0 ? t->gap[s] / t->gap_time : 0;
    }
    r->cpu = t->cpu / span;
    r->wait = t->wait / span;
    if (t->time <= 0)
        return;
    /* Running is known from the scheduler's sums: samples miss it on a full machine, where the sampler itself has to
     * wait until somebody sleeps. Sleep of unknown sort is split like the sleep that a stack explains; without any, a
     * poll is a wait for a task. */
    double known = t->idle_known + t->blocked_known, idle = known > 0 ? t->idle_known / known : 1;
    if (t->work_time <= 0)
        return;
    r->busy = fmin(t->work_cpu / t->work_time, 1);
    r->idle = (1 - r->busy) * (known + t->unknown > 0 ? (t->idle_known + idle * t->unknown) / (known + t->unknown) : 1);
    r->blocked = 1 - r->busy - r->idle;
}

/* --- processes and CPUs
 * --------------------------------------------------------------------------------------------------- */

static int is_worker_of(const struct gw_live *l, const struct gw_host_process *p)
{
    return p->role == GW_HR_WORKER && (p->ppid == l->pid || l->h->trainer == l->pid);
}

/* Workers alive at the middle of the time looked at, or over most of it when they come and go. */
static size_t count_workers(const struct gw_live *l)
{
    double sum = 0, span = (double)(l->to - l->from);
    for (size_t i = 0; i < l->h->process_count; i++) {
        const struct gw_host_process *p = l->h->process + i;
        int64_t s = p->start > l->from ? p->start : l->from, e = p->end < l->to ? p->end : l->to;
        if (is_worker_of(l, p) && e > s)
            sum += (double)(e - s);
    }
    return (size_t)(sum / span + 0.5);
}

static void find_cpus(struct gw_live *l, const struct gw_analysis *an)
{
    const struct gw_host_process *p = gw_host_process(l->h, l->pid);
    double sum = 0;
    l->online = l->h->cpus_online > 0 ? (double)l->h->cpus_online : NAN;
    l->quota = l->h->cpu_limit;
    l->cpus = p && p->cpus_allowed > 0 ? (double)p->cpus_allowed : l->online;
    l->cpus = fmin(l->cpus, l->quota); /* fmin() passes over NAN */
    for (int r = 0; r < GW_LIVE_ROLES; r++)
        sum += l->role[r].cpu;
    l->used = sum > 0 ? sum : NAN;
    double idle = gw_live_rate(l, an, "host.cpu_idle_s", -1, -1);
    l->spare = fmax(0, fmin(l->cpus - l->used, idle));
    if (isnan(l->cpus) || isnan(l->used))
        l->spare = NAN;
    double user = gw_live_rate(l, an, "host.cpu_user_s", -1, -1),
           kernel = gw_live_rate(l, an, "host.cpu_system_s", -1, -1);
    l->others = fmax(0, user + kernel - l->used);
    if (isnan(user) || isnan(kernel) || isnan(l->used))
        l->others = NAN;
    double periods = gw_live_rate(l, an, "cgroup.periods", -1, -1),
           out = gw_live_rate(l, an, "cgroup.throttled_periods", -1, -1);
    l->throttled = periods > 0 ? out / periods : NAN;
}

static void find_gpu(struct gw_live *l, const struct gw_diag *d)
{
    l->device = d->dev ? d->dev->info->id : l->h->gpu_count ? l->h->gpu[0].device : -1;
    if (!d->dev) { /* the busiest */
        double most = -1;
        for (size_t i = 0; i < l->h->gpu_count; i++) {
            double u = gw_live_mean(l, d->an, "nvml.utilization_percent", l->h->gpu[i].device, -1);
            if (u > most) {
                most = u;
                l->device = l->h->gpu[i].device;
            }
        }
    }
    double gpm = gw_live_mean(l, d->an, "gpm.graphics_percent", l->device, -1);
    double util = gw_live_mean(l, d->an, "nvml.utilization_percent", l->device, -1);
    l->gpu_busy = (isnan(gpm) ? util : gpm) / 100;
    for (size_t i = 0; i < l->h->activity_count; i++) {
        const struct gw_activity *a = l->h->activity + i;
        int64_t measured;
        double counted = a->device == l->device ? gw_activity_mean(a, GW_ACT_ENGINE, l->from, l->to, &measured) : NAN;
        if (isnan(counted) || (double)measured < COUNTED * (double)(l->to - l->from))
            continue;
        l->gpu_busy = counted;
        l->busy_is_counted = 1;
    }
}

static uint32_t find_launcher(const struct gw_diag *d, int64_t pid)
{
    const struct gw_lane *lane = d->an->t->lanes.data;
    if (d->dev && d->dev->main_lane != GW_NONE)
        return d->dev->main_lane;
    for (uint32_t i = 0; i < d->an->t->lanes.len; i++)
        if (lane[i].type == GW_LANE_HOST && lane[i].pid == pid && lane[i].tid == pid)
            return i;
    return GW_NONE;
}

/* The steady window, made longer on both sides where it is short. */
static void find_period(struct gw_live *l, const struct gw_diag *d)
{
    l->from = d->dev ? d->an->w0 : l->h->from;
    l->to = d->dev ? d->an->w1 : l->h->to;
    int64_t more = LEAST_NS - (l->to - l->from);
    if (d->dev && more > 0) {
        l->from -= more / 2;
        l->to += more / 2;
    }
    if (!d->dev && gw_live_calls_period(d->an, l->pid, &l->from, &l->to))
        return;
    if (!d->dev && l->to - l->from > 4 * LEAST_NS) /* the start of a job is not the job */
        l->from += (l->to - l->from) / 4;
    l->to = l->to > l->from ? l->to : l->from + 1;
}

const struct gw_live *gw_live_of(struct gw_diag *d)
{
    if (!d->an->t->host)
        return NULL;
    if (d->live)
        return d->live;
    struct gw_live *l = gw_arena_alloc(d->arena, sizeof *l);
    struct adder *a = gw_arena_alloc(d->arena, sizeof *a);
    if (!l || !a) {
        d->oom = 1;
        return NULL;
    }
    *l = (struct gw_live){.h = d->an->t->host};
    l->pid = d->dev && d->dev->pid >= 0 ? d->dev->pid : l->h->trainer;
    find_period(l, d);
    l->launcher = find_launcher(d, l->pid);
    *a = (struct adder){.d = d, .l = l};
    add_lanes(a);
    for (int r = 0; r < GW_LIVE_ROLES; r++)
        finish_role(l->role + r, a->role + r, (double)(l->to - l->from));
    l->workers = count_workers(l);
    find_cpus(l, d->an);
    find_gpu(l, d);
    l->starved = gw_diag_share(d, GW_CAUSE_DATA_WAIT);
    d->live = l;
    return l;
}

/* --- shared by the diagnoses
 * ------------------------------------------------------------------------------------------------ */

struct gw_draft *gw_live_add_share(struct gw_diag *d, enum gw_finding_id id, double low, double likely, double high)
{
    struct gw_draft *f = gw_diag_add(d, id, (int64_t)(likely * (double)d->wall));
    gw_diag_gain_set(f, 1 / (1 - low), 1 / (1 - likely), 1 / (1 - high));
    f->f.confidence = GW_CONF_MEDIUM;
    return f;
}

/* A starved loop takes as long as its supply does: with `f` times the supply a step lasts what it lasts now divided by
 * f, but never less than what it takes without any wait. */
static void supply(struct gw_diag *d, struct gw_draft *f, uint32_t waits, double low, double likely, double high)
{
    struct gw_whatif none = GW_WHATIF_NONE, some = GW_WHATIF_NONE, gone = GW_WHATIF_NONE;
    for (unsigned c = 0; c < GW_CAUSE_COUNT; c++)
        if (waits >> c & 1)
            some.label_scale[c] = LATE;
    gone.remove = waits;
    int replays = d->dev && d->dev->replay;
    double now = replays ? gw_diag_time(d, &none, d->scale_likely) : (double)d->wall, lost = (double)(f->f.lost_ns > 0 ? f->f.lost_ns : 0);
    double rest = fmax(replays ? gw_diag_time(d, &gone, d->scale_likely) : (double)d->wall - lost, now * 0.02);
    double late = fmax(replays ? gw_diag_time(d, &some, d->scale_likely) : (double)d->wall - (1 - LATE) * lost, rest);
    gw_diag_gain_set(f, now / fmax(late, now / low), now / fmax(rest, now / likely), now / fmax(rest, now / high));
    if (!d->dev || !d->an->steps.count)
        return;
    f->f.now_step_ns = (int64_t)(now / d->steps);
    f->f.then_low_ns = (int64_t)(now / f->f.gain.high / d->steps);
    f->f.then_high_ns = (int64_t)(now / f->f.gain.low / d->steps);
}

void gw_live_supply(struct gw_diag *d, struct gw_draft *f, double low, double likely, double high)
{
    supply(d, f, 1u << GW_CAUSE_DATA_WAIT, low, likely, high);
}

void gw_live_supply_cpus(struct gw_diag *d, struct gw_draft *f, double low, double likely, double high)
{
    supply(d, f, 1u << GW_CAUSE_DATA_WAIT | 1u << GW_CAUSE_OFF_CPU, low, likely, high);
}

void gw_live_refines_loader(struct gw_diag *d)
{
    if (d->answer[GW_F_LOADER_STARVED] == GW_FIRED)
        d->answer[GW_F_LOADER_STARVED] = GW_SILENT; /* its draft is left out of the report */
}

double gw_live_cpu_cost(const struct gw_diag *d, const struct gw_live *l)
{
    const struct gw_live_threads *m = l->role + GW_LIVE_LAUNCHER;
    double own = m->cpu + m->wait > 0 ? m->wait : 0; /* CPUs waited for by one thread: its share of time */
    return fmax(l->starved, fmax(gw_diag_share(d, GW_CAUSE_OFF_CPU), own * (1 - d->busy)));
}

void gw_live_vary(struct gw_diag *d)
{
    double by = 1 + VARIES * (1 - d->busy);
    for (size_t i = 0; gw_live_of(d) && i < d->drafts; i++) {
        struct gw_finding *f = &d->draft[i]->f;
        if (!(f->gain.low >= 1) || !(f->gain.high > 1))
            continue;
        gw_diag_gain_set(d->draft[i], 1 + (f->gain.low - 1) / by, f->gain.likely, 1 + (f->gain.high - 1) * by);
        if (f->now_step_ns <= 0)
            continue;
        f->then_low_ns = (int64_t)((double)f->now_step_ns / f->gain.high);
        f->then_high_ns = (int64_t)((double)f->now_step_ns / f->gain.low);
    }
}
