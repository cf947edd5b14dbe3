/*
 * fake_check_cuda.c - a libcuda.so.1 for `gpuwhy check --load` and `--measure`: device memory is host memory, copies
 * are real, time is real. It ends the program at a call that the driver API would not allow.
 *
 * GPUWHY_FAKE_CUDA chooses what goes wrong: "" nothing, "none" no device, "broken" cuInit fails, "noptx" no code is
 * taken, "hang" cuInit never returns, "crash" the first copy dies, "full" no memory is left.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_PTX = 218, DEVICES = 2 };

struct event {
    struct timespec t;
    int recorded;
};
static int ready, current = -1;
static char contexts[DEVICES];
static const char *mode = "";

#define API __attribute__((visibility("default"))) int

static void wrong(const char *what)
{
    fprintf(stderr, "fake CUDA: wrong call: %s\n", what);
    abort();
}
static void must_run(const char *what)
{
    if (!ready || current < 0)
        wrong(what);
}

API cuInit(unsigned flags);
API cuInit(unsigned flags)
{
    const char *m = getenv("GPUWHY_FAKE_CUDA");
    mode = m ? m : "";
    if (flags)
        wrong(__func__);
    while (strcmp(mode, "hang") == 0)
        sleep(1);
    if (strcmp(mode, "broken") == 0)
        return 999;
    ready = 1;
    return SUCCESS;
}
API cuGetErrorName(int rc, const char **out);
API cuGetErrorName(int rc, const char **out)
{
    *out = rc == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : rc == 999 ? "CUDA_ERROR_UNKNOWN" : "CUDA_ERROR_OTHER";
    return SUCCESS;
}
API cuDeviceGetCount(int *out);
API cuDeviceGetCount(int *out)
{
    if (!ready)
        wrong(__func__);
    *out = strcmp(mode, "none") == 0 ? 0 : DEVICES;
    return SUCCESS;
}
API cuDeviceGet(int *out, int i);
API cuDeviceGet(int *out, int i)
{
    if (!ready || i < 0 || i >= DEVICES)
        wrong(__func__);
    *out = i;
    return SUCCESS;
}
API cuDeviceGetPCIBusId(char *out, int cap, int d);
API cuDeviceGetPCIBusId(char *out, int cap, int d)
{
    /* The order of CUDA is not that of NVML: fastest first, or as CUDA_VISIBLE_DEVICES says. */
    snprintf(out, (size_t)cap, "%s", d == 0 ? "0000:C1:00.0" : "0000:41:00.0");
    return SUCCESS;
}
API cuDevicePrimaryCtxRetain(void **out, int d);
API cuDevicePrimaryCtxRetain(void **out, int d)
{
    *out = &contexts[d];
    return SUCCESS;
}
API cuCtxSetCurrent(void *c);
API cuCtxSetCurrent(void *c)
{
    for (int i = 0; i < DEVICES; i++)
        if (c == &contexts[i]) {
            current = i;
            return SUCCESS;
        }
    wrong(__func__);
    return INVALID_VALUE;
}
API cuCtxSynchronize(void);
API cuCtxSynchronize(void)
{
    must_run(__func__);
    return SUCCESS;
}
API cuMemGetInfo_v2(size_t *free_bytes, size_t *total);
API cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    must_run(__func__);
    *total = (size_t)80 << 30;
    *free_bytes = strcmp(mode, "full") == 0 ? (size_t)1 << 20 : (size_t)256 << 20; /* a job holds the rest */
    return SUCCESS;
}
API cuMemAlloc_v2(unsigned long long *out, size_t n);
API cuMemAlloc_v2(unsigned long long *out, size_t n)
{
    must_run(__func__);
    if (n > (size_t)64 << 20)
        wrong("cuMemAlloc_v2: more than a quarter of what is free");
    if (strcmp(mode, "full") == 0)
        return OUT_OF_MEMORY;
    *out = (unsigned long long)(size_t)malloc(n);
    return *out ? SUCCESS : OUT_OF_MEMORY;
}
API cuMemFree_v2(unsigned long long p);
API cuMemFree_v2(unsigned long long p)
{
    must_run(__func__);
    free((void *)(size_t)p);
    return SUCCESS;
}
API cuMemHostAlloc(void **out, size_t n, unsigned flags);
API cuMemHostAlloc(void **out, size_t n, unsigned flags)
{
    must_run(__func__);
    if (flags)
        wrong(__func__);
    *out = malloc(n);
    return *out ? SUCCESS : OUT_OF_MEMORY;
}
API cuMemFreeHost(void *p);
API cuMemFreeHost(void *p)
{
    must_run(__func__);
    free(p);
    return SUCCESS;
}
API cuStreamCreate(void **out, unsigned flags);
API cuStreamCreate(void **out, unsigned flags)
{
    must_run(__func__);
    if (flags > 1)
        wrong(__func__);
    *out = &contexts[current];
    return SUCCESS;
}
static void on_stream(void *s, const char *what)
{
    must_run(what);
    if (s != &contexts[current])
        wrong(what); /* a stream of another context */
}
API cuStreamSynchronize(void *s);
API cuStreamSynchronize(void *s)
{
    on_stream(s, __func__);
    return SUCCESS;
}
API cuEventCreate(void **out, unsigned flags);
API cuEventCreate(void **out, unsigned flags)
{
    must_run(__func__);
    (void)flags;
    *out = calloc(1, sizeof(struct event));
    return SUCCESS;
}
API cuEventRecord(void *e, void *s);
API cuEventRecord(void *e, void *s)
{
    on_stream(s, __func__);
    struct event *ev = e;
    clock_gettime(CLOCK_MONOTONIC, &ev->t);
    ev->recorded = 1;
    return SUCCESS;
}
API cuEventElapsedTime(float *ms, void *a, void *b);
API cuEventElapsedTime(float *ms, void *a, void *b)
{
    const struct event *x = a, *y = b;
    if (!x->recorded || !y->recorded)
        wrong(__func__);
    *ms = (float)((double)(y->t.tv_sec - x->t.tv_sec) * 1e3 + (double)(y->t.tv_nsec - x->t.tv_nsec) * 1e-6);
    return SUCCESS;
}
API cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t n, void *s);
API cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t n, void *s)
{
    on_stream(s, __func__);
    if (strcmp(mode, "crash") == 0)
        _exit(139);
    memcpy((void *)(size_t)to, from, n);
    return SUCCESS;
}
API cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t n, void *s);
API cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t n, void *s)
{
    on_stream(s, __func__);
    memcpy(to, (void *)(size_t)from, n);
    return SUCCESS;
}
API cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t n, void *s);
API cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t n, void *s)
{
    on_stream(s, __func__);
    if (!to || !from)
        wrong(__func__);
    memcpy((void *)(size_t)to, (void *)(size_t)from, n);
    return SUCCESS;
}
API cuMemsetD8Async(unsigned long long to, unsigned char v, size_t n, void *s);
API cuMemsetD8Async(unsigned long long to, unsigned char v, size_t n, void *s)
{
    on_stream(s, __func__);
    memset((void *)(size_t)to, v, n);
    return SUCCESS;
}
API cuModuleLoadData(void **out, const void *image);
API cuModuleLoadData(void **out, const void *image)
{
    must_run(__func__);
    if (strcmp(mode, "noptx") == 0)
        return INVALID_PTX;
    if (strncmp(image, ".version", 8) != 0 || !strstr(image, ".visible .entry empty"))
        wrong(__func__);
    *out = &contexts[current];
    return SUCCESS;
}
API cuModuleGetFunction(void **out, void *module, const char *name);
API cuModuleGetFunction(void **out, void *module, const char *name)
{
    if (strcmp(name, "empty") != 0)
        wrong(__func__);
    *out = module;
    return SUCCESS;
}
API cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *s, void **params, void **extra);
API cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *s, void **params, void **extra)
{
    on_stream(s, __func__);
    if (f != &contexts[current] || gx * gy * gz != 1 || bx * by * bz != 1 || shared || params || extra)
        wrong(__func__);
    return SUCCESS;
}
