/*
 * nsys_account - reads one Nsight Systems export and prints, per device, the exact sums of the whole window:
 * device, wall, compute, exposed communication, exposed copies, idle (ns), one line each, separated by tabs.
 *
 * A check of the importer that does not use the engine, for tests and for bench/bench_nsys.py. What was measured goes
 * to standard error as name=value words. GW_THREADS and GW_CAP_MB set the threads and the memory for events.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "import/nsys_importer.h"

enum { COMPUTE, COMM, COPY, IDLE };

struct point {
    int64_t at;
    int what, step;
};

static int what_of(const struct gw_trace *t, const struct gw_event *e)
{
    static const char *const comm[] = {"ncclDevKernel", "ncclKernel", "ncclSymk",   "rcclGenericKernel",
                                       "nvshmem",       "deep_ep::",  "dpsk::ep::", "cross_device_reduce",
                                       "mscclpp",       "multimem_"};
    if (e->kind == GW_KIND_COPY || e->kind == GW_KIND_SET)
        return COPY;
    for (size_t i = 0; e->kind == GW_KIND_KERNEL && i < sizeof comm / sizeof *comm; i++)
        if (strstr(gw_trace_text(t, e->name), comm[i]))
            return COMM;
    return COMPUTE;
}

static int by_time(const void *a, const void *b)
{
    const struct point *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

static int print_device(const struct gw_trace *t, const struct gw_device *d)
{
    int64_t sum[4] = {0};
    int on[3] = {0};
    size_t n = 0;
    struct point *p = malloc((2 * d->op_count + 1) * sizeof *p);
    unsigned char *known = calloc(gw_intern_count(t->names) + 1, 1); /* 1 + what, by name: names are told apart once */
    if (!p || !known) {
        free(p);
        free(known);
        return -1;
    }
    for (size_t i = 0; i < d->op_count; i++) {
        const struct gw_event *e = gw_trace_event(t, d->ops[i]);
        if (!known[e->name])
            known[e->name] = (unsigned char)(1 + what_of(t, e));
        int what = e->kind == GW_KIND_KERNEL ? known[e->name] - 1 : what_of(t, e);
        p[n++] = (struct point){e->start, what, 1};
        p[n++] = (struct point){e->end, what, -1};
    }
    qsort(p, n, sizeof *p, by_time);
    for (size_t i = 0; i < n; i++) {
        if (i)
            sum[on[COMPUTE] ? COMPUTE : on[COMM] ? COMM : on[COPY] ? COPY : IDLE] += p[i].at - p[i - 1].at;
        on[p[i].what] += p[i].step;
    }
    if (n)
        printf("%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\n", d->id,
               p[n - 1].at - p[0].at, sum[COMPUTE], sum[COMM], sum[COPY], sum[IDLE]);
    free(p);
    free(known);
    return 0;
}

static double seconds(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static size_t from_env(const char *name)
{
    const char *s = getenv(name);
    return s ? (size_t)strtoull(s, NULL, 10) : 0;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: nsys_account FILE.sqlite\n");
        return 2;
    }
    char line[1024];
    struct gw_error err = {0};
    struct gw_import_options o = {.threads = (int)from_env("GW_THREADS")};
    struct gw_trace *t = gw_trace_create(from_env("GW_CAP_MB") << 20);
    double t0 = seconds();
    if (!t || gw_importer_nsys.read(t, argv[1], &o, &err) < 0) {
        fprintf(stderr, "nsys_account: %s\n", gw_error_text(&err, line, sizeof line));
        gw_trace_destroy(t);
        return 3;
    }
    double t1 = seconds();
    int rc = gw_trace_finish(t);
    struct rusage ru;
    getrusage(RUSAGE_SELF, &ru);
    const struct gw_device *d = t->devices.data;
    for (size_t i = 0; i < t->devices.len && rc == 0; i++)
        rc = print_device(t, d + i);
    fprintf(stderr, "events=%zu read_s=%.2f total_s=%.2f peak_mb=%ld", t->events.len, t1 - t0, seconds() - t0,
            ru.ru_maxrss / 1024);
    for (unsigned i = 0; i < GW_LOSS_COUNT; i++)
        if (t->loss[i].count)
            fprintf(stderr, " %s=%" PRIu64, gw_loss_id(i), t->loss[i].count);
    fputc('\n', stderr);
    gw_trace_destroy(t);
    return rc ? 4 : 0;
}
