/*
 * fake_libcuda.c - a libcuda.so.1 whose GPU is a list of times. cuInit loads the library that CUDA_INJECTION64_PATH
 * names, as the real driver does, and is silent when it cannot. Work is reported to the fake CUPTI when one is loaded.
 *
 *   FAKE_UVM=path  a file that a started CUDA holds open, as the driver does with /dev/nvidia-uvm
 *   FAKE_GPUS=1   devices      FAKE_CUPTI_LIB=path   the fake CUPTI (default libcupti.so.13)
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake_cupti.h"
#include "fake_libcuda.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t free_at[16];
static _Atomic uint32_t corr_next = 1;
static _Atomic uint64_t launched;
static _Atomic int has_cupti;
static _Atomic int is_ready; /* cuInit has come to its end */

static struct {
    __typeof__(fake_cupti_now) *now;
    __typeof__(fake_cupti_api) *api;
    __typeof__(fake_cupti_kernel) *kernel;
    __typeof__(fake_cupti_copy) *copy;
    __typeof__(fake_cupti_set) *set;
    __typeof__(fake_cupti_sync) *sync;
} C;

static void init(void) {
    if (getenv("FAKE_UVM") && open(getenv("FAKE_UVM"), O_RDWR | O_CREAT | O_CLOEXEC, 0644) < 0)
        abort();
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *h = path && *path ? dlopen(path, RTLD_NOW) : NULL;
    int (*inject)(void) = h ? (int (*)(void))(uintptr_t)dlsym(h, "InitializeInjection") : NULL;
    if (inject && inject() != 1)
        abort();
}

/* CUPTI may come at any time; work is reported to it from then on. */
static void find_cupti(void) {
    static _Atomic unsigned looks;
    if (has_cupti || looks++ % 16)
        return;
    const char *lib = getenv("FAKE_CUPTI_LIB");
    void *h = dlopen(lib ? lib : "libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
    if (!h)
        return;
    pthread_mutex_lock(&lock);
    if (!has_cupti) {
        C.api = (__typeof__(C.api))(uintptr_t)dlsym(h, "fake_cupti_api");
        C.kernel = (__typeof__(C.kernel))(uintptr_t)dlsym(h, "fake_cupti_kernel");
        C.copy = (__typeof__(C.copy))(uintptr_t)dlsym(h, "fake_cupti_copy");
        C.set = (__typeof__(C.set))(uintptr_t)dlsym(h, "fake_cupti_set");
        C.sync = (__typeof__(C.sync))(uintptr_t)dlsym(h, "fake_cupti_sync");
        C.now = (__typeof__(C.now))(uintptr_t)dlsym(h, "fake_cupti_now");
        has_cupti = 1;
    }
    pthread_mutex_unlock(&lock);
}

int cuInit(unsigned flags) {
    (void)flags;
    pthread_once(&once, init);
    find_cupti();
    is_ready = 1;
    return 0;
}
int cuDriverGetVersion(int *v) {
    *v = 13000;
    return 0;
}
int cuDeviceGetCount(int *n) {
    if (!is_ready)
        return 3; /* CUDA_ERROR_NOT_INITIALIZED */
    const char *e = getenv("FAKE_GPUS");
    *n = e ? atoi(e) : 1;
    return 0;
}
int cuDeviceGet(int *dev, int ordinal) {
    *dev = ordinal;
    return 0;
}
int cuDeviceGetAttribute(int *v, int attribute, int dev) {
    (void)dev;
    static const struct { int id, v; } known[] = {{13, 1980000}, {16, 132}, {33, 0x1b}, {34, 0}, {36, 3201000}, {37, 6144},
                                                  {38, 62914560}, {39, 2048}, {50, 0}, {75, 9}, {76, 0}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].id == attribute) {
            *v = known[i].v;
            return 0;
        }
    return 1;
}
int cuDeviceGetName(char *name, int len, int dev) {
    snprintf(name, (size_t)len, "Fake H200 %d", dev);
    return 0;
}
int cuDeviceTotalMem_v2(size_t *bytes, int dev) {
    (void)dev;
    *bytes = 150ull << 30;
    return 0;
}
int cuDeviceGetUuid(void *uuid, int dev) {
    memset(uuid, 0x40 + dev, 16);
    return 0;
}

static uint64_t now(void) {
    if (has_cupti)
        return C.now();
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* When work of `ns` on a stream may start, and books it. */
static uint64_t book(int stream, uint64_t t, uint64_t ns) {
    pthread_mutex_lock(&lock);
    uint64_t start = free_at[stream & 15] > t + 2000 ? free_at[stream & 15] : t + 2000;
    free_at[stream & 15] = start + ns;
    pthread_mutex_unlock(&lock);
    return start;
}

uint32_t fake_launch(const char *kernel, uint64_t ns, int stream) {
    find_cupti();
    uint32_t corr = corr_next++;
    uint64_t t0 = now(), start = book(stream, t0 + 1000, ns);
    launched++;
    if (has_cupti)
        C.kernel(kernel, start, start + ns, corr, 0, (uint32_t)stream + 7);
    uint64_t t1 = now();
    if (has_cupti) {
        C.api(1, 307, t0 + 200, t1, corr, 0);
        C.api(0, 211, t0, now(), corr, 0);
    }
    return corr;
}
uint32_t fake_copy_h2d(uint64_t bytes, uint64_t ns, int stream, int pinned) {
    find_cupti();
    uint32_t corr = corr_next++;
    uint64_t t0 = now(), start = book(stream, t0 + 1000, ns);
    if (has_cupti)
        C.copy(1, pinned ? 2 : 1, 3, bytes, start, start + ns, corr, 0, (uint32_t)stream + 7);
    if (has_cupti)
        C.api(0, 41, t0, now(), corr, 0);
    return corr;
}
uint32_t fake_memset(uint64_t bytes, uint64_t ns, int stream) {
    find_cupti();
    uint32_t corr = corr_next++;
    uint64_t t0 = now(), start = book(stream, t0 + 1000, ns);
    if (has_cupti)
        C.set(bytes, start, start + ns, corr, 0, (uint32_t)stream + 7);
    if (has_cupti)
        C.api(0, 51, t0, now(), corr, 0);
    return corr;
}
void fake_noise(int calls) {
    for (int i = 0; i < calls && has_cupti; i++) {
        uint64_t t = now();
        C.api(0, 10, t, t + 150, corr_next++, 0);
    }
}
void fake_stream_sync(int stream) {
    find_cupti();
    uint32_t corr = corr_next++;
    uint64_t t0 = now();
    pthread_mutex_lock(&lock);
    uint64_t until = free_at[stream & 15];
    pthread_mutex_unlock(&lock);
    if (until > t0) {
        struct timespec ts = {(time_t)((until - t0) / 1000000000u), (long)((until - t0) % 1000000000u)};
        nanosleep(&ts, NULL);
    }
    if (has_cupti)
        C.sync(3, t0, now(), corr, (uint32_t)stream + 7);
    if (has_cupti)
        C.api(0, 131, t0, now(), corr, 0);
}
uint64_t fake_launched(void) { return launched; }
