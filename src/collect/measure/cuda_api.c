/* CUDA through libcuda.so.1, opened by name: contexts, copies, launches. Runs in the child process only. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collect/measure/measure.h"

typedef void *handle;              /* contexts, streams, events, modules, functions */
typedef unsigned long long devptr; /* CUdeviceptr */

/* Driver API (cuda.h), part of its stable binary interface: member, prototype, symbol. */
#define CUDA_FUNCTIONS(X)                                                                                       \
    X(init, (unsigned), "cuInit")                                                                               \
    X(error_name, (int, const char **), "cuGetErrorName")                                                       \
    X(count, (int *), "cuDeviceGetCount")                                                                       \
    X(device, (int *, int), "cuDeviceGet")                                                                      \
    X(bus, (char *, int, int), "cuDeviceGetPCIBusId")                                                           \
    X(retain, (handle *, int), "cuDevicePrimaryCtxRetain")                                                      \
    X(current, (handle), "cuCtxSetCurrent")                                                                     \
    X(sync, (void), "cuCtxSynchronize")                                                                         \
    X(memory, (size_t *, size_t *), "cuMemGetInfo_v2")                                                          \
    X(alloc, (devptr *, size_t), "cuMemAlloc_v2")                                                               \
    X(free_device, (devptr), "cuMemFree_v2")                                                                    \
    X(alloc_host, (void **, size_t, unsigned), "cuMemHostAlloc")                                                \
    X(free_host, (void *), "cuMemFreeHost")                                                                     \
    X(stream, (handle *, unsigned), "cuStreamCreate")                                                           \
    X(stream_sync, (handle), "cuStreamSynchronize")                                                             \
    X(event, (handle *, unsigned), "cuEventCreate")                                                             \
    X(record, (handle, handle), "cuEventRecord")                                                                \
    X(elapsed, (float *, handle, handle), "cuEventElapsedTime")                                                 \
    X(h2d, (devptr, const void *, size_t, handle), "cuMemcpyHtoDAsync_v2")                                      \
    X(d2h, (void *, devptr, size_t, handle), "cuMemcpyDtoHAsync_v2")                                            \
    X(d2d, (devptr, devptr, size_t, handle), "cuMemcpyDtoDAsync_v2")                                            \
    X(set, (devptr, unsigned char, size_t, handle), "cuMemsetD8Async")                                          \
    X(load, (handle *, const void *), "cuModuleLoadData")                                                       \
    X(function, (handle *, handle, const char *), "cuModuleGetFunction")                                        \
    X(launch,                                                                                                   \
      (handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, void **, void **), \
      "cuLaunchKernel")

enum { MAX_DEVICES = 16 };
#define COPY_BYTES ((size_t)256 << 20)
#define COPY_BYTES_MANY ((size_t)64 << 20) /* with more than two GPUs, to end in time */
#define LOAD_BYTES ((size_t)64 << 20)

struct device {
    int ordinal;
    handle context, stream;
    char bus[32];
    devptr memory, second;
    void *pinned;
    size_t bytes;
};

struct gw_cuda {
    void *lib;
    int n;
    struct device dev[MAX_DEVICES];
#define X(member, args, symbol) int(*member) args;
    CUDA_FUNCTIONS(X)
#undef X
};

/* A kernel that does nothing. PTX 6.0 for 5.0 and later: every driver since CUDA 9 compiles it. */
static const char empty_kernel[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry empty()\n{\n ret;\n}\n";

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void explain(const struct gw_cuda *c, const char *what, int rc, char *why, size_t cap)
{
    const char *name = NULL;
    if (c->error_name)
        c->error_name(rc, &name);
    snprintf(why, cap, "%s: %s", what, name ? name : "unknown error");
}

struct gw_cuda *gw_cuda_open(const char *library, char *why, size_t cap)
{
    struct gw_cuda *c = calloc(1, sizeof *c);
    void *f;
    int rc;
    if (!c)
        return NULL;
    snprintf(why, cap, "out of memory");
    c->lib = dlopen(library ? library : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!c->lib) {
        snprintf(why, cap, "libcuda.so.1 is not here");
        goto fail;
    }
#define X(member, args, symbol)                               \
    f = dlsym(c->lib, symbol);                                \
    if (!f) {                                                 \
        snprintf(why, cap, "libcuda.so.1 has no %s", symbol); \
        goto fail;                                            \
    }                                                         \
    memcpy(&c->member, &f, sizeof f);
    CUDA_FUNCTIONS(X)
#undef X
    if ((rc = c->init(0)) != 0) {
        explain(c, "cuInit", rc, why, cap);
        goto fail;
    }
    if ((rc = c->count(&c->n)) != 0 || c->n <= 0) {
        explain(c, "cuDeviceGetCount", rc, why, cap);
        if (rc == 0)
            snprintf(why, cap, "no GPU is visible to CUDA (CUDA_VISIBLE_DEVICES?)");
        goto fail;
    }
    if (c->n > MAX_DEVICES)
        c->n = MAX_DEVICES;
    return c;
fail:
    free(c); /* the library stays loaded: this process ends soon, and drivers do not like to be unloaded */
    return NULL;
}

int gw_cuda_count(const struct gw_cuda *c) { return c->n; }

/* Context and stream of device i, made once. 0 or CUDA's error. */
static int open_device(struct gw_cuda *c, int i)
{
    struct device *d = &c->dev[i];
    int rc;
    if (d->stream)
        return c->current(d->context);
    if ((rc = c->device(&d->ordinal, i)) || (rc = c->bus(d->bus, sizeof d->bus, d->ordinal)) ||
        (rc = c->retain(&d->context, d->ordinal)) || (rc = c->current(d->context)))
        return rc;
    return c->stream(&d->stream, 1 /* non-blocking */);
}

/* Buffers of device i, unless it has them; `bytes` each, or what can be had. The device is current. 0 or CUDA's error.
 */
static int open_buffers(struct gw_cuda *c, int i, size_t bytes, int second)
{
    struct device *d = &c->dev[i];
    size_t free_bytes = 0, total = 0;
    int rc;
    if (d->pinned)
        return 0;
    if ((rc = c->memory(&free_bytes, &total)))
        return rc;
    /* A running job owns the rest: never take more than a quarter of what it left. */
    while (bytes > free_bytes / (second ? 8 : 4) && bytes > (size_t)1 << 20)
        bytes /= 2;
    d->bytes = bytes;
    if ((rc = c->alloc(&d->memory, bytes)) || (second && (rc = c->alloc(&d->second, bytes))) ||
        (rc = c->alloc_host(&d->pinned, bytes, 0)))
        return rc;
    memset(d->pinned, 1, bytes);
    return 0;
}

static void close_buffers(struct gw_cuda *c, int i)
{
    struct device *d = &c->dev[i];
    if (!d->stream || c->current(d->context) != 0)
        return;
    if (d->memory)
        c->free_device(d->memory);
    if (d->second)
        c->free_device(d->second);
    if (d->pinned)
        c->free_host(d->pinned);
    d->memory = d->second = 0;
    d->pinned = NULL;
}

int gw_cuda_copy_round(struct gw_cuda *c)
{
    int rc;
    for (int i = 0; i < c->n; i++)
        if ((rc = open_device(c, i)) || (rc = open_buffers(c, i, LOAD_BYTES, 0)) ||
            (rc = c->h2d(c->dev[i].memory, c->dev[i].pinned, c->dev[i].bytes, c->dev[i].stream)) ||
            (rc = c->d2h(c->dev[i].pinned, c->dev[i].memory, c->dev[i].bytes, c->dev[i].stream)))
            return -rc;
    for (int i = 0; i < c->n; i++)
        if ((rc = c->current(c->dev[i].context)) || (rc = c->stream_sync(c->dev[i].stream)))
            return -rc;
    return 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum way { H2D, D2H, D2D };

/* Median seconds of a copy, by events on the stream (pinned) or by the host's clock (pageable: the call blocks). -1 on
 * error. */
static double copy_seconds(struct gw_cuda *c, struct device *d, enum way way, void *host, int pageable)
{
    enum { ROUNDS = 9 };
    double s[ROUNDS];
    handle a, b;
    if (c->event(&a, 0) || c->event(&b, 0))
        return -1;
    for (int r = -2; r < ROUNDS; r++) { /* two for warming up: page tables, link speed */
        float ms = 0;
        double t0 = now();
        if (c->record(a, d->stream))
            return -1;
        int rc = way == H2D   ? c->h2d(d->memory, host, d->bytes, d->stream)
                 : way == D2H ? c->d2h(host, d->memory, d->bytes, d->stream)
                              : c->d2d(d->second, d->memory, d->bytes, d->stream);
        if (rc || c->record(b, d->stream) || c->stream_sync(d->stream) || c->elapsed(&ms, a, b))
            return -1;
        if (r >= 0)
            s[r] = pageable ? now() - t0 : (double)ms * 1e-3;
    }
    qsort(s, ROUNDS, sizeof *s, by_value);
    return s[ROUNDS / 2];
}

/* Host seconds of one launch alone (a burst that fits the queue), and of launch and wait together. 0 or -1. */
static int launch_seconds(struct gw_cuda *c, struct device *d, double *one, double *trip, const char **how)
{
    enum { BURST = 256, BURSTS = 21, TRIPS = 201 };
    double burst[BURSTS], wait[TRIPS];
    handle module, empty = NULL;
    int kernel = c->load(&module, empty_kernel) == 0 && c->function(&empty, module, "empty") == 0;
    *how = kernel ? "empty kernel" : "one-byte memset, since the driver took no PTX";
    for (int r = -1; r < BURSTS; r++) {
        double t0 = now();
        for (int i = 0; i < BURST; i++)
            if (kernel ? c->launch(empty, 1, 1, 1, 1, 1, 1, 0, d->stream, NULL, NULL)
                       : c->set(d->memory, 0, 1, d->stream))
                return -1;
        if (r >= 0)
            burst[r] = (now() - t0) / BURST;
        if (c->stream_sync(d->stream))
            return -1;
    }
    for (int i = 0; i < TRIPS; i++) {
        double t0 = now();
        if ((kernel ? c->launch(empty, 1, 1, 1, 1, 1, 1, 0, d->stream, NULL, NULL)
                    : c->set(d->memory, 0, 1, d->stream)) ||
            c->stream_sync(d->stream))
            return -1;
        wait[i] = now() - t0;
    }
    qsort(burst, BURSTS, sizeof *burst, by_value);
    qsort(wait, TRIPS, sizeof *wait, by_value);
    *one = burst[BURSTS / 2];
    *trip = wait[TRIPS / 2];
    return 0;
}

void gw_cuda_measure(struct gw_cuda *c, int i,
                     void (*say)(void *, const char *, const char *, double, const char *, const char *), void *user)
{
    struct device *d = &c->dev[i];
    char how[128];
    double s, one, trip;
    const char *launched;
    close_buffers(c, i); /* those of a load are smaller */
    int rc = open_device(c, i);
    if (rc == 0)
        rc = open_buffers(c, i, c->n > 2 ? COPY_BYTES_MANY : COPY_BYTES, 1);
    if (rc) {
        explain(c, "the device cannot be used", rc, how, sizeof how);
        say(user, d->bus, "problem", 0, "", how);
        close_buffers(c, i);
        return;
    }
    void *pageable = malloc(d->bytes);
    double mb = (double)d->bytes / (1 << 20);
    snprintf(how, sizeof how, "median of 9 copies of %.0f MiB", mb);
    if ((s = copy_seconds(c, d, H2D, d->pinned, 0)) > 0)
        say(user, d->bus, "h2d-pinned", (double)d->bytes / s, "bytes/s", how);
    if ((s = copy_seconds(c, d, D2H, d->pinned, 0)) > 0)
        say(user, d->bus, "d2h-pinned", (double)d->bytes / s, "bytes/s", how);
    if (pageable) {
        memset(pageable, 1, d->bytes);
        if ((s = copy_seconds(c, d, H2D, pageable, 1)) > 0)
            say(user, d->bus, "h2d-pageable", (double)d->bytes / s, "bytes/s", how);
    }
    snprintf(how, sizeof how, "median of 9 copies of %.0f MiB on the device, read and written bytes", mb);
    if ((s = copy_seconds(c, d, D2D, NULL, 0)) > 0)
        say(user, d->bus, "device-copy", 2 * (double)d->bytes / s, "bytes/s", how);
    if (launch_seconds(c, d, &one, &trip, &launched) == 0) {
        snprintf(how, sizeof how, "%s, median of 21 bursts of 256", launched);
        say(user, d->bus, "launch", one, "s", how);
        snprintf(how, sizeof how, "%s and cuStreamSynchronize, median of 201", launched);
        say(user, d->bus, "launch-wait", trip, "s", how);
    }
    free(pageable);
    close_buffers(c, i);
}
