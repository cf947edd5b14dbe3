/*
 * fake_run_nvml.c - a libnvidia-ml.so.1 for the recorder: one GPU with fixed figures. Breaches of the rules (calls before
 * init, GPM samples less than 100 ms apart, one sample compared with itself) are written to $FAKE_LOG.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int started;

static void breach(const char *what)
{
    FILE *f = fopen(getenv("FAKE_LOG") ? getenv("FAKE_LOG") : "/dev/stderr", "a");
    if (f) {
        fprintf(f, "nvml: %s\n", what);
        fclose(f);
    }
}

static int ready(void)
{
    if (!started)
        breach("call before nvmlInit");
    return started;
}

struct sample { uint64_t ms; };
struct field { uint32_t id, scope; int64_t t, latency; uint32_t type, result; uint64_t v; };
struct process { uint32_t pid; unsigned long long bytes; uint32_t gi, ci; };
struct metric { uint32_t id, result; double value; const char *names[3]; };
struct metrics { uint32_t version, count; struct sample *a, *b; struct metric m[]; };

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(uint32_t *n);
int nvmlDeviceGetHandleByIndex_v2(uint32_t i, void **h);
int nvmlDeviceGetName(void *h, char *s, uint32_t n);
int nvmlDeviceGetUUID(void *h, char *s, uint32_t n);
int nvmlSystemGetDriverVersion(char *s, uint32_t n);
int nvmlDeviceGetUtilizationRates(void *h, uint32_t *u);
int nvmlDeviceGetMemoryInfo(void *h, unsigned long long *m);
int nvmlDeviceGetClockInfo(void *h, int type, uint32_t *v);
int nvmlDeviceGetPowerUsage(void *h, uint32_t *v);
int nvmlDeviceGetCurrentClocksEventReasons(void *h, unsigned long long *v);
int nvmlDeviceGetFieldValues(void *h, int n, struct field *f);
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, uint32_t *n, struct process *p);
int nvmlGpmQueryDeviceSupport(void *h, uint32_t *s);
int nvmlGpmSampleAlloc(struct sample **s);
int nvmlGpmSampleFree(struct sample *s);
int nvmlGpmSampleGet(void *h, struct sample *s);
int nvmlGpmMetricsGet(struct metrics *m);

static uint64_t ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

int nvmlInit_v2(void) { started = 1; return 0; }
int nvmlShutdown(void) { return ready() ? (started = 0, 0) : 1; }
int nvmlDeviceGetCount_v2(uint32_t *n) { *n = 1; return !ready(); }
int nvmlDeviceGetHandleByIndex_v2(uint32_t i, void **h) { *h = &started; return i != 0 || !ready(); }
int nvmlDeviceGetName(void *h, char *s, uint32_t n) { (void)h; snprintf(s, n, "Fake H200 0"); return 0; }
int nvmlDeviceGetUUID(void *h, char *s, uint32_t n)
{
    (void)h;
    snprintf(s, n, "GPU-40404040-4040-4040-4040-404040404040"); /* as the fake libcuda says in bytes */
    return 0;
}
int nvmlSystemGetDriverVersion(char *s, uint32_t n) { snprintf(s, n, "580.00.01"); return 0; }
int nvmlDeviceGetUtilizationRates(void *h, uint32_t *u) { (void)h; u[0] = 37; u[1] = 12; return !ready(); }
int nvmlDeviceGetMemoryInfo(void *h, unsigned long long *m)
{
    (void)h;
    m[0] = 150ull << 30, m[1] = 100ull << 30, m[2] = 50ull << 30;
    return 0;
}
int nvmlDeviceGetClockInfo(void *h, int type, uint32_t *v) { (void)h; *v = type == 1 ? 1980 : 3201; return 0; }
int nvmlDeviceGetPowerUsage(void *h, uint32_t *v) { (void)h; *v = 350500; return 0; }
int nvmlDeviceGetCurrentClocksEventReasons(void *h, unsigned long long *v) { (void)h; *v = 4; return 0; }
int nvmlDeviceGetFieldValues(void *h, int n, struct field *f)
{
    (void)h;
    for (int i = 0; i < n; i++) { /* energy and PCIe bytes are known, the rest is not supported */
        f[i].result = f[i].id == 83 || f[i].id == 197 || f[i].id == 198 ? 0 : 3;
        f[i].type = 3;
        f[i].v = ms() * 1000;
    }
    return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, uint32_t *n, struct process *p)
{
    (void)h;
    if (*n < 8)
        return 7;
    p[0] = (struct process){4242, 3ull << 30, 0, 0};
    *n = 1;
    const char *children = getenv("FAKE_NVML_CHILDREN"); /* "1": our children are on the GPU too */
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *f = children && *children ? fopen(path, "r") : NULL;
    for (unsigned pid; f && *n < 8 && fscanf(f, "%u", &pid) == 1;)
        p[(*n)++] = (struct process){pid, 1ull << 30, 0, 0};
    if (f)
        fclose(f);
    return 0;
}
int nvmlGpmQueryDeviceSupport(void *h, uint32_t *s)
{
    (void)h;
    if (s[0] != 1)
        breach("GPM support structure without version 1");
    s[1] = 1;
    return 0;
}
int nvmlGpmSampleAlloc(struct sample **s) { *s = calloc(1, sizeof **s); return !*s; }
int nvmlGpmSampleFree(struct sample *s) { free(s); return 0; }
int nvmlGpmSampleGet(void *h, struct sample *s) { (void)h; s->ms = ms(); return !ready(); }
int nvmlGpmMetricsGet(struct metrics *m)
{
    if (m->version != 1 || m->a == m->b)
        breach("GPM metrics of one sample");
    if (m->b->ms < m->a->ms + 100)
        breach("GPM samples less than 100 ms apart, or in the wrong order");
    for (uint32_t i = 0; i < m->count; i++) {
        m->m[i].result = m->m[i].id == 13 ? 3 : 0; /* one metric is not supported */
        m->m[i].value = 40 + m->m[i].id;
    }
    return 0;
}
