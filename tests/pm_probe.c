/*
 * pm_probe.c - tries PM sampling on this machine's GPUs, beside whatever runs on them, and prints what came of it.
 *
 *   pm_probe [-t SECONDS] [-i US,US,...] [-m METRICS] [-b BUFFER_MIB] [-g ORDINAL] [-l LIBCUPTI] [-c] [-o FILE]
 *
 * For each interval: samples a second, CPU time a sample, overflows, what was measured. -c makes a context first, to see whether
 * one is needed; -o writes the samples of the first interval. A development tool, not installed.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "collect/pm/pm_runs.h"
#include "record/record_read.h"
#include "record/record_write.h"

struct sums {
    uint64_t n, first, last, hole, holes, backwards, measured, odd;
    double share[GW_PM_METRIC_COUNT];
    uint64_t idle, busy, records;
    uint64_t interval;
    struct gw_pm_runs runs;
    FILE *out;
};

static void count_run(void *user, const struct gw_rec_activity *a)
{
    (void)a;
    ((struct sums *)user)->records++;
}

static void take(void *user, const struct gw_pm_sample *s)
{
    struct sums *t = user;
    uint64_t ns = s->end - s->start;
    if (!t->n)
        t->first = s->start;
    else if (s->start > t->last + t->interval / 8) {
        t->hole += s->start - t->last;
        t->holes++;
    } else if (s->start < t->last) {
        t->backwards++;
    }
    t->odd += ns > t->interval * 5 / 4 || ns < t->interval * 3 / 4;
    t->n++;
    t->last = s->end;
    t->measured += ns;
    for (int k = 0; k < (int)GW_PM_METRIC_COUNT; k++)
        t->share[k] += s->share[k] * (double)ns;
    t->idle += s->share[GW_PM_GR] < GW_PM_IDLE;
    t->busy += s->share[GW_PM_GR] > GW_PM_BUSY;
    gw_pm_runs_add(&t->runs, s, count_run, t);
    if (t->out && t->n < 20000) {
        fprintf(t->out, "%" PRIu64 " %" PRIu64, s->start, ns);
        for (int k = 0; k < (int)GW_PM_METRIC_COUNT; k++)
            fprintf(t->out, " %.2f", s->share[k]);
        fputc('\n', t->out);
    }
}

static double rss_mib(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%*d %ld", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1048576;
}

static double cpu_s(void) { return (double)gw_clock_ns(CLOCK_PROCESS_CPUTIME_ID) * 1e-9; }
static double wall_s(void) { return (double)gw_clock_ns(CLOCK_MONOTONIC) * 1e-9; }

static int make_context(struct gw_pm_libs *l, int ordinal)
{
    int (*retain)(void **, int) = (int (*)(void **, int))(uintptr_t)dlsym(l->cuda, "cuDevicePrimaryCtxRetain");
    int dev;
    void *context = NULL;
    return retain && l->get(&dev, ordinal) == 0 ? retain(&context, dev) : -1;
}

static int probe(struct gw_pm_device *d, uint64_t interval, double seconds, FILE *out)
{
    struct sums t = {.interval = interval, .out = out};
    gw_pm_runs_init(&t.runs, 0, 1000000);
    uint64_t overflows = d->overflows;
    double cpu = cpu_s(), wall = wall_s(), end = wall + seconds;
    long got = 0;
    while (wall_s() < end) {
        uint64_t ns = interval * 100;
        ns = ns < 20000000 ? 20000000 : ns > 200000000 ? 200000000 : ns;
        struct timespec ts = {0, (long)ns};
        nanosleep(&ts, NULL);
        got = gw_pm_device_read(d, take, &t);
        if (got < 0)
            break;
    }
    cpu = cpu_s() - cpu;
    wall = wall_s() - wall;
    printf("interval %6.0f us: %8.1f samples/s, cpu %5.2f %% of a core, %6.1f us a sample, overflows %" PRIu64 ", holes %" PRIu64 " (%.1f ms), "
           "backwards %" PRIu64 ", odd length %" PRIu64 ", sample %.1f us, rss %.0f MiB\n",
           (double)interval * 1e-3, (double)t.n / wall, 100 * cpu / wall, t.n ? cpu / (double)t.n * 1e6 : NAN, d->overflows - overflows,
           t.holes, (double)t.hole * 1e-6, t.backwards, t.odd, (double)d->typical_ns * 1e-3, rss_mib());
    if (t.n) {
        printf("    covered %.3f s of %.3f s;", (double)t.measured * 1e-9, (double)(t.last - t.first) * 1e-9);
        for (int k = 0; k < (int)GW_PM_METRIC_COUNT; k++)
            printf(" %s %.2f %%", gw_pm_metric_id((unsigned)k), t.share[k] / (double)t.measured);
        printf("; samples idle %.1f %%, busy %.1f %%; records %.0f/s; last sample ended %.1f ms ago\n", 100.0 * (double)t.idle / (double)t.n,
               100.0 * (double)t.busy / (double)t.n, (double)t.records / wall, (double)((int64_t)gw_clock_ns(CLOCK_REALTIME) - (int64_t)t.last) * 1e-6);
    }
    if (got < 0)
        printf("    stopped: %s returned %d\n", d->call, d->result);
    return got < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
    struct gw_pm_hints h;
    struct gw_pm_libs l;
    struct gw_pm_device d;
    double seconds = 3;
    char intervals[200] = "1000,500,200,100,50";
    int ordinal = 0, context = 0, opt;
    FILE *out = NULL;
    memset(&h, 0, sizeof h);
    memset(&d, 0, sizeof d);
    while ((opt = getopt(argc, argv, "t:i:m:b:g:l:o:c")) >= 0) {
        switch (opt) {
        case 't': seconds = atof(optarg); break;
        case 'i': snprintf(intervals, sizeof intervals, "%s", optarg); break;
        case 'm': d.want = (unsigned)atoi(optarg); break;
        case 'b': d.buffer_bytes = (size_t)atoi(optarg) << 20; break;
        case 'g': ordinal = atoi(optarg); break;
        case 'l': snprintf(h.cupti, sizeof h.cupti, "%s", optarg); break;
        case 'o': out = fopen(optarg, "we"); break;
        case 'c': context = 1; break;
        default: return 2;
        }
    }
    if (getenv("GPUWHY_LIBCUDA"))
        snprintf(h.cuda, sizeof h.cuda, "%s", getenv("GPUWHY_LIBCUDA"));
    setvbuf(stdout, NULL, _IOLBF, 0);
    double t0 = wall_s(), c0 = cpu_s();
    unsigned state = gw_pm_load(&l, &h);
    printf("uid %d: libraries %s in %.0f ms (cpu %.0f ms), rss %.0f MiB: driver %d, %d GPUs, CUPTI %u from %s\n", (int)getuid(), gw_pm_state_id(state),
           (wall_s() - t0) * 1e3, (cpu_s() - c0) * 1e3, rss_mib(), l.driver_version, l.gpus, l.cupti_version, l.path);
    if (state != GW_PS_STARTING) {
        printf("    %s (%s returned %d)\n", gw_pm_state_text(state), l.call ? l.call : "-", l.result);
        return 1;
    }
    if (context)
        printf("context: result %d\n", make_context(&l, ordinal));
    char *save = NULL, *word = strtok_r(intervals, ",", &save);
    uint64_t interval = word ? (uint64_t)(atof(word) * 1e3) : 200000;
    t0 = wall_s();
    state = gw_pm_device_open(&d, &l, ordinal, interval);
    printf("GPU %d (compute capability %d): %s in %.0f ms, %u metrics, config %zu B, image %zu B for %u samples, buffer %zu MiB, rss %.0f MiB\n", ordinal,
           gw_pm_capability(&l, ordinal), gw_pm_state_id(state), (wall_s() - t0) * 1e3, d.metrics, d.config_bytes, d.image_bytes,
           GW_PM_IMAGE_SAMPLES, d.buffer_bytes >> 20, rss_mib());
    if (state != GW_PS_RUNNING) {
        printf("    %s (%s returned %d)\n", gw_pm_state_text(state), d.call ? d.call : "-", d.result);
        return 1;
    }
    int rc = probe(&d, interval, seconds, out);
    while (rc == 0 && (word = strtok_r(NULL, ",", &save))) {
        interval = (uint64_t)(atof(word) * 1e3);
        t0 = wall_s();
        rc = gw_pm_device_reopen(&d, d.want, interval, NULL, NULL) == GW_PS_RUNNING ? 0 : -1;
        printf("  new interval in %.1f ms: %s\n", (wall_s() - t0) * 1e3, rc == 0 ? "ok" : d.call);
        rc = rc == 0 ? probe(&d, interval, seconds, NULL) : rc;
    }
    t0 = wall_s();
    gw_pm_device_close(&d, NULL, NULL);
    printf("closed in %.0f ms; cpu in all %.2f s\n", (wall_s() - t0) * 1e3, cpu_s());
    if (out)
        fclose(out);
    return rc == 0 ? 0 : 1;
}
