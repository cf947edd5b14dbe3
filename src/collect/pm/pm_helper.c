/*
 * pm_helper.c - the sampling process: opens the libraries, samples the GPUs that it is asked to, writes stretches of activity.
 *
 * Interval and shortest stretch follow the age of the recording, so that a record of a week stays small; the interval also
 * follows our own CPU time. The share of busy time does not depend on the interval: each sample counts cycles.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "collect/pm/pm_runs.h"
#include "collect/pm/pm_shared.h"
#include "record/record_write.h"

#define MS 1000000ull
#define SEC 1000000000ull
/* Our own CPU: above the first the interval doubles, below the second it goes back; at the third with the longest interval we
 * end. Memory: CUPTI with its back ends and our buffers took some hundred MB on an H200 host; far above, something is wrong. */
#define CPU_HIGH 0.03
#define CPU_LOW 0.01
#define CPU_END 0.20
#define RSS_END (1500ull << 20)
#define LONGEST_INTERVAL (20 * MS)
#define COST_EVERY (2 * SEC)
#define NAP_LEAST (20 * MS)
#define NAP_MOST (200 * MS)
enum { RUNS = 512, RESTARTS = 3 };

/* Until this age: this interval, this shortest stretch. At most 1000, 200, 50, 10, 1 records of 40 bytes a second. */
static const struct phase {
    uint64_t until, interval, least;
} phases[] = {{60 * SEC, 200000, MS},
              {600 * SEC, MS, 5 * MS},
              {3600 * SEC, 2 * MS, 20 * MS},
              {36000 * SEC, 5 * MS, 100 * MS},
              {UINT64_MAX, 10 * MS, SEC}};

struct gpu {
    struct gw_pm_device d;
    struct gw_pm_runs runs;
    unsigned state;
    int restarts;
    /* Of the running second: percent * ns. */
    double engine, sm, ns;
};

struct helper {
    struct gw_pm_shared *shared;
    struct gw_pm_libs libs;
    struct gw_writer w;
    struct gpu gpu[GW_PM_GPUS];
    uint32_t known; /* gpu[0..known) were looked at */
    struct gw_rec_activity run[RUNS];
    uint32_t runs;
    uint64_t began, cost_at, cost_cpu, second;
    uint64_t interval;
};

static uint64_t now_ns(void) { return gw_clock_ns(CLOCK_MONOTONIC); }
static uint64_t cpu_ns(void) { return gw_clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

static const struct phase *phase_at(uint64_t age)
{
    const struct phase *p = phases;
    while (age >= p->until && p->until != UINT64_MAX)
        p++;
    return p;
}

static uint64_t resident(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f)
        return 0;
    if (fscanf(f, "%*d %ld", &pages) != 1)
        pages = 0;
    fclose(f);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* --- the file -------------------------------------------------------------------------------------------------------------- */

static void write_runs(struct helper *h)
{
    if (h->runs)
        (void)gw_writer_append(&h->w, GW_RT_ACTIVITY, sizeof *h->run, h->run, (uint32_t)(h->runs * sizeof *h->run));
    h->runs = 0;
}

static void put_run(void *user, const struct gw_rec_activity *a)
{
    struct helper *h = user;
    if (h->runs == RUNS)
        write_runs(h);
    h->run[h->runs++] = *a;
}

static void write_state(struct helper *h, int32_t device, unsigned state, const struct gw_pm_device *d, int result, const char *call)
{
    struct gw_rec_pm r;
    memset(&r, 0, sizeof r);
    r.realtime_ns = gw_clock_ns(CLOCK_REALTIME);
    r.device = device;
    r.state = state;
    r.result = result;
    r.cupti_version = h->libs.cupti_version;
    if (d) {
        r.interval_ns = (uint32_t)d->interval_ns;
        r.metrics = (1u << d->metrics) - 1;
        r.samples = d->samples;
        r.overflows = d->overflows;
    }
    r.cpu_ns = cpu_ns();
    r.rss_bytes = resident();
    snprintf(r.call, sizeof r.call, "%s", result && call ? call : "");
    (void)gw_writer_append(&h->w, GW_RT_PM, sizeof r, &r, sizeof r);
}

static void set_state(struct helper *h, uint32_t i, unsigned state)
{
    struct gpu *g = &h->gpu[i];
    g->state = state;
    h->shared->gpu[i].state = state;
    write_state(h, h->shared->gpu[i].device, state, &g->d, g->d.result, g->d.call);
}

/* --- one GPU --------------------------------------------------------------------------------------------------------------- */

struct taker {
    struct helper *h;
    struct gpu *g;
};

static void take(void *user, const struct gw_pm_sample *s)
{
    struct taker *t = user;
    double ns = (double)(s->end - s->start);
    gw_pm_runs_add(&t->g->runs, s, put_run, t->h);
    if (s->share[GW_PM_GR] >= 0) { /* not NAN */
        t->g->engine += s->share[GW_PM_GR] * ns;
        t->g->sm += s->share[GW_PM_SM] >= 0 ? s->share[GW_PM_SM] * ns : 0;
        t->g->ns += ns;
    }
}

static void open_gpu(struct helper *h, uint32_t i)
{
    struct gpu *g = &h->gpu[i];
    int ordinal = gw_pm_ordinal(&h->libs, h->shared->gpu[i].uuid);
    memset(&g->d, 0, sizeof g->d);
    gw_pm_runs_init(&g->runs, h->shared->gpu[i].device, phase_at(now_ns() - h->began)->least);
    set_state(h, i, ordinal < 0 ? GW_PS_NO_GPU : gw_pm_device_open(&g->d, &h->libs, ordinal, h->interval));
}

static void end_gpu(struct helper *h, uint32_t i, unsigned state)
{
    struct gpu *g = &h->gpu[i];
    struct taker t = {h, g};
    int result = g->d.result;
    const char *call = g->d.call;
    gw_pm_device_close(&g->d, state == GW_PS_ENDED ? take : NULL, &t);
    gw_pm_runs_flush(&g->runs, put_run, h);
    write_runs(h);
    g->d.result = state == GW_PS_ENDED ? 0 : result;
    g->d.call = call;
    set_state(h, i, state);
}

/* A failing decoder is started again a few times, at longer intervals; then the GPU is given up. */
static void restart(struct helper *h, uint32_t i)
{
    struct gpu *g = &h->gpu[i];
    unsigned why = gw_pm_state_of(g->d.result);
    uint64_t interval = g->d.interval_ns * 2;
    if (why != GW_PS_FAILED || g->restarts++ >= RESTARTS || gw_pm_device_pace(&g->d, interval) != 0)
        end_gpu(h, i, why);
    else
        h->interval = interval > h->interval ? interval : h->interval;
}

static void publish(struct helper *h)
{
    for (uint32_t i = 0; i < h->known; i++) {
        struct gpu *g = &h->gpu[i];
        if (g->state != GW_PS_RUNNING || g->ns <= 0)
            continue;
        h->shared->gpu[i].engine = (uint32_t)(g->engine / g->ns * 100 + 0.5);
        h->shared->gpu[i].sm = (uint32_t)(g->sm / g->ns * 100 + 0.5);
        h->shared->gpu[i].at_ns = now_ns();
        g->engine = g->sm = g->ns = 0;
    }
}

/* --- all of them ------------------------------------------------------------------------------------------------------------ */

static void pace(struct helper *h, uint64_t interval)
{
    h->interval = interval;
    for (uint32_t i = 0; i < h->known; i++)
        if (h->gpu[i].state == GW_PS_RUNNING && h->gpu[i].d.interval_ns != interval) {
            if (gw_pm_device_pace(&h->gpu[i].d, interval) != 0)
                end_gpu(h, i, gw_pm_state_of(h->gpu[i].d.result));
            else
                set_state(h, i, GW_PS_RUNNING);
        }
}

/* 0, or the state to end with. */
static unsigned watch_cost(struct helper *h, uint64_t now)
{
    uint64_t cpu = cpu_ns(), rss = resident();
    double share = h->cost_at ? (double)(cpu - h->cost_cpu) / (double)(now - h->cost_at) : 0;
    const struct phase *p = phase_at(now - h->began);
    h->shared->cpu_ns = cpu;
    h->shared->rss_bytes = rss;
    int is_first = !h->cost_at;
    h->cost_at = now;
    h->cost_cpu = cpu;
    for (uint32_t i = 0; i < h->known; i++)
        h->gpu[i].runs.least_ns = p->least;
    if (rss > RSS_END || (share > CPU_END && h->interval >= LONGEST_INTERVAL))
        return GW_PS_TOO_DEAR;
    uint64_t interval = h->interval;
    if (share > CPU_HIGH && interval < LONGEST_INTERVAL)
        interval *= 2;
    else if (!is_first && share < CPU_LOW && interval / 2 >= p->interval)
        interval /= 2;
    interval = interval < p->interval ? p->interval : interval > LONGEST_INTERVAL ? LONGEST_INTERVAL : interval;
    if (interval != h->interval) {
        pace(h, interval);
        h->cost_cpu = cpu_ns(); /* the change itself does not count */
    }
    return 0;
}

static void open_new(struct helper *h)
{
    uint32_t wanted = h->shared->wanted;
    for (; h->known < wanted; h->known++) {
        h->shared->heartbeat_ns = now_ns();
        open_gpu(h, h->known);
        h->cost_at = 0; /* opening is dear and comes once */
    }
}

static unsigned round_once(struct helper *h)
{
    open_new(h);
    for (uint32_t i = 0; i < h->known; i++) {
        struct taker t = {h, &h->gpu[i]};
        if (h->gpu[i].state == GW_PS_RUNNING && gw_pm_device_read(&h->gpu[i].d, take, &t) < 0)
            restart(h, i);
    }
    write_runs(h);
    uint64_t now = now_ns();
    h->shared->heartbeat_ns = now;
    if (now >= h->second) {
        publish(h);
        h->second = now + SEC;
    }
    if (h->w.bad)
        return GW_PS_DISK;
    return !h->cost_at || now >= h->cost_at + COST_EVERY ? watch_cost(h, now) : 0;
}

static void nap(const struct helper *h)
{
    uint64_t ns = h->interval * 200; /* the buffer holds several times that */
    ns = ns < NAP_LEAST ? NAP_LEAST : ns > NAP_MOST ? NAP_MOST : ns;
    struct timespec ts = {0, (long)ns};
    nanosleep(&ts, NULL);
}

static unsigned serve(struct helper *h)
{
    unsigned state = GW_PS_RUNNING;
    h->shared->state = state;
    for (int running = 1; running && !h->shared->stop;) {
        unsigned end = round_once(h);
        if (end) {
            state = end;
            break;
        }
        running = h->known == 0;
        for (uint32_t i = 0; i < h->known; i++)
            running |= h->gpu[i].state == GW_PS_RUNNING;
        if (running)
            nap(h);
    }
    unsigned end = state == GW_PS_RUNNING ? GW_PS_ENDED : state;
    for (uint32_t i = 0; i < h->known; i++)
        if (h->gpu[i].state == GW_PS_RUNNING)
            end_gpu(h, i, end);
    return end;
}

/* Until a GPU is wanted. 0 when the end came first. */
static int wait_wanted(struct gw_pm_shared *shared)
{
    const struct timespec ts = {0, 100 * (long)MS};
    while (!shared->wanted && !shared->stop) {
        shared->heartbeat_ns = now_ns();
        nanosleep(&ts, NULL);
    }
    return shared->wanted > 0;
}

int gw_pm_serve(struct gw_pm_shared *shared, int folder)
{
    if (!wait_wanted(shared))
        return 0;
    struct helper *h = calloc(1, sizeof *h);
    if (!h)
        return 1;
    h->shared = shared;
    h->began = now_ns();
    h->interval = phases[0].interval;
    shared->state = GW_PS_STARTING;
    if (gw_writer_open(&h->w, folder, GW_REC_PM, GW_ROLE_PM, (uint32_t)getpid(), 0) < 0) {
        shared->state = GW_PS_DISK;
        free(h);
        return 0;
    }
    (void)gw_writer_clock(&h->w, 0);
    write_state(h, -1, GW_PS_STARTING, NULL, 0, NULL);
    unsigned state = gw_pm_load(&h->libs, &shared->hints);
    if (state == GW_PS_STARTING)
        state = serve(h);
    write_state(h, -1, state, NULL, h->libs.result, h->libs.call);
    (void)gw_writer_clock(&h->w, 0);
    gw_writer_close(&h->w);
    shared->cpu_ns = cpu_ns();
    /* The GPUs' own reasons stand beside: a process that ended because no GPU can be sampled keeps them. */
    if (state != GW_PS_ENDED || shared->stop)
        shared->state = state;
    return 0;
}
