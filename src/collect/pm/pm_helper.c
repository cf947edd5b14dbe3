/*
 * pm_helper.c - the sampling process: opens the libraries, samples the GPUs that it is asked to, writes stretches of activity.
 *
 * Interval and shortest stretch follow the age of the recording, so that a record of a week stays small; metrics and interval
 * follow our own CPU time. The share of busy time does not depend on the interval: each sample counts cycles.
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
/* Our own CPU: above the first there are fewer metrics, then longer intervals; above the second, with the cheapest of these, we
 * end. Decoding one sample took 3.6, 22, 35, 55 us of CPU with one, two, three, four metrics on an H200 host. Memory: CUPTI with its
 * back ends and our buffers took 256 MB there; far above, something is wrong. */
#define CPU_HIGH 0.03
#define CPU_END 0.20
#define METRICS 2 /* engine and SMs. Memory and tensor cores cost more than half of all, and GPM has them where there is one */
#define RSS_END (1500ull << 20)
#define LONGEST_INTERVAL (20 * MS)
#define COST_EVERY (2 * SEC)
#define NAP_LEAST (20 * MS)
#define NAP_MOST (200 * MS)
enum { RUNS = 512, RESTARTS = 3, BETWEEN_LOOKS = 100 /* samples */ };

/* Until this age: this interval, this shortest stretch. At most 1000, 200, 50, 10, 1 records of 40 bytes a second. */
static const struct phase {
    uint64_t until, interval, least;
} phases[] = {{60 * SEC, MS, MS},
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
    unsigned metrics;
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
    g->d.want = h->metrics;
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

/* With the metrics and the interval of now; when that is refused, with those that it had. */
static void reopen(struct helper *h, uint32_t i)
{
    struct gpu *g = &h->gpu[i];
    struct taker t = {h, g};
    unsigned metrics = g->d.metrics;
    uint64_t interval = g->d.interval_ns;
    unsigned state = gw_pm_device_reopen(&g->d, h->metrics, h->interval, take, &t);
    if (state != GW_PS_RUNNING && (metrics != h->metrics || interval != h->interval))
        state = gw_pm_device_reopen(&g->d, metrics, interval, take, &t);
    if (state == GW_PS_RUNNING)
        set_state(h, i, state);
    else
        end_gpu(h, i, state);
}

/* A failing decoder is started again a few times, at longer intervals; then the GPU is given up. */
static void restart(struct helper *h, uint32_t i)
{
    struct gpu *g = &h->gpu[i];
    unsigned why = gw_pm_state_of(g->d.result);
    if (why != GW_PS_FAILED || g->restarts++ >= RESTARTS) {
        end_gpu(h, i, why);
        return;
    }
    h->interval = h->interval * 2 < LONGEST_INTERVAL ? h->interval * 2 : LONGEST_INTERVAL;
    reopen(h, i);
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

/* 0: nothing can be made cheaper. */
static int make_cheaper(struct helper *h)
{
    if (h->metrics > 1)
        h->metrics--;
    else if (h->interval < LONGEST_INTERVAL)
        h->interval *= 2;
    else
        return 0;
    return 1;
}

/* 0, or the state to end with. */
static unsigned watch_cost(struct helper *h, uint64_t now)
{
    uint64_t cpu = cpu_ns(), rss = resident(), interval = h->interval;
    unsigned metrics = h->metrics;
    double share = h->cost_at ? (double)(cpu - h->cost_cpu) / (double)(now - h->cost_at) : 0;
    const struct phase *p = phase_at(now - h->began);
    h->shared->cpu_ns = cpu;
    h->shared->rss_bytes = rss;
    for (uint32_t i = 0; i < h->known; i++)
        h->gpu[i].runs.least_ns = p->least;
    if (rss > RSS_END || (share > CPU_HIGH && !make_cheaper(h) && share > CPU_END))
        return GW_PS_TOO_DEAR;
    if (h->interval < p->interval)
        h->interval = p->interval;
    for (uint32_t i = 0; (interval != h->interval || metrics != h->metrics) && i < h->known; i++)
        if (h->gpu[i].state == GW_PS_RUNNING)
            reopen(h, i);
    h->cost_at = now_ns();
    h->cost_cpu = cpu_ns(); /* a change itself does not count */
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
    uint64_t ns = h->interval; /* the shortest that really comes */
    for (uint32_t i = 0; i < h->known; i++)
        if (h->gpu[i].state == GW_PS_RUNNING && h->gpu[i].d.typical_ns && h->gpu[i].d.typical_ns < ns)
            ns = h->gpu[i].d.typical_ns;
    ns *= BETWEEN_LOOKS; /* the buffer holds several times that */
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
    h->metrics = METRICS;
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
