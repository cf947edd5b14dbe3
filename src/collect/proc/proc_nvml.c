/* proc_nvml.c - see proc_nvml.h. Declarations and ids are those of nvml.h (CUDA 11.8 to 13). */
#include "collect/proc/proc_nvml.h"

#include <dlfcn.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum counter {
#define GW_NV(sym, name, text) N_##sym,
    GW_NVML_COUNTERS(GW_NV)
#undef GW_NV
    N_COUNT
};

enum { GPM_SM = 2 /* of GW_GPM_COUNTERS */, MAX_DEVICES = 64, GPM_WAIT_MS = 110 }; /* GPM needs more than 100 ms between the two samples it compares */

struct field { /* nvmlFieldValue_t */
    uint32_t id, scope;
    int64_t timestamp, latency_us;
    uint32_t type, result;
    union { double d; uint32_t u; unsigned long ul; unsigned long long ull; long long ll; int i; } v;
};
_Static_assert(sizeof(struct field) == 40, "nvmlFieldValue_t");

struct gpm_metric { /* nvmlGpmMetric_t */
    uint32_t id, result;
    double value;
    const char *names[3];
};
_Static_assert(sizeof(struct gpm_metric) == 40, "nvmlGpmMetric_t");

static const struct { uint32_t id; const char *name; } gpm_rows[] = {
#define GW_GPM(id, name) {id, name},
    GW_GPM_COUNTERS(GW_GPM)
#undef GW_GPM
};
enum { GPM_COUNT = sizeof gpm_rows / sizeof *gpm_rows };

struct gpm_get { /* nvmlGpmMetricsGet_t, cut after the metrics that we ask for */
    uint32_t version, count;
    void *sample1, *sample2;
    struct gpm_metric m[GPM_COUNT];
};

struct utilization { uint32_t gpu, memory; };
struct memory { unsigned long long total, free, used; };
struct process { /* nvmlProcessInfo_v2_t */
    uint32_t pid;
    unsigned long long bytes;
    uint32_t gi, ci;
};
struct gpm_support { uint32_t version, is_supported; };

/* FN(member, "symbol", "older symbol" or NULL, (arguments)) */
#define FUNCTIONS(FN)                                                                                                  \
    FN(init, "nvmlInit_v2", "nvmlInit", (void))                                                                        \
    FN(shutdown, "nvmlShutdown", NULL, (void))                                                                         \
    FN(count, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount", (uint32_t *))                                             \
    FN(handle, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex", (uint32_t, void **))                     \
    FN(name, "nvmlDeviceGetName", NULL, (void *, char *, uint32_t))                                                    \
    FN(uuid, "nvmlDeviceGetUUID", NULL, (void *, char *, uint32_t))                                                    \
    FN(driver, "nvmlSystemGetDriverVersion", NULL, (char *, uint32_t))                                                 \
    FN(cuda, "nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion", (int *))                           \
    FN(util, "nvmlDeviceGetUtilizationRates", NULL, (void *, struct utilization *))                                    \
    FN(mem, "nvmlDeviceGetMemoryInfo", NULL, (void *, struct memory *))                                                \
    FN(clock, "nvmlDeviceGetClockInfo", NULL, (void *, int, uint32_t *))                                               \
    FN(clock_max, "nvmlDeviceGetMaxClockInfo", NULL, (void *, int, uint32_t *))                                        \
    FN(power, "nvmlDeviceGetPowerUsage", NULL, (void *, uint32_t *))                                                   \
    FN(power_limit, "nvmlDeviceGetEnforcedPowerLimit", NULL, (void *, uint32_t *))                                     \
    FN(power_default, "nvmlDeviceGetPowerManagementDefaultLimit", NULL, (void *, uint32_t *))                          \
    FN(reasons, "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons",                 \
       (void *, unsigned long long *))                                                                                 \
    FN(temp, "nvmlDeviceGetTemperature", NULL, (void *, int, uint32_t *))                                              \
    FN(pcie_gen, "nvmlDeviceGetCurrPcieLinkGeneration", NULL, (void *, uint32_t *))                                    \
    FN(pcie_width, "nvmlDeviceGetCurrPcieLinkWidth", NULL, (void *, uint32_t *))                                       \
    FN(pcie_gen_max, "nvmlDeviceGetMaxPcieLinkGeneration", NULL, (void *, uint32_t *))                                 \
    FN(pcie_width_max, "nvmlDeviceGetMaxPcieLinkWidth", NULL, (void *, uint32_t *))                                    \
    FN(fields, "nvmlDeviceGetFieldValues", NULL, (void *, int, struct field *))                                        \
    FN(procs, "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",                    \
       (void *, uint32_t *, struct process *))                                                                         \
    FN(mig, "nvmlDeviceGetMigMode", NULL, (void *, uint32_t *, uint32_t *))                                            \
    FN(gpm_support, "nvmlGpmQueryDeviceSupport", NULL, (void *, struct gpm_support *))                                 \
    FN(gpm_alloc, "nvmlGpmSampleAlloc", NULL, (void **))                                                               \
    FN(gpm_free, "nvmlGpmSampleFree", NULL, (void *))                                                                  \
    FN(gpm_sample, "nvmlGpmSampleGet", NULL, (void *, void *))                                                         \
    FN(gpm_metrics, "nvmlGpmMetricsGet", NULL, (struct gpm_get *))

struct device {
    void *handle;
    void *gpm[2];        /* samples, the newer last; NULL = no GPM */
    uint64_t gpm_ns;     /* CLOCK_MONOTONIC of gpm[1] */
    int gpm_ready;       /* gpm[1] holds a sample */
    int utilization;
    int sm;              /* SM activity of the last GPM interval, percent; -1 unknown */
};

struct gw_nvml_live {
    struct gw_sink *sink;
    void *lib;
#define FN(member, symbol, older, args) int(*call_##member) args;
    FUNCTIONS(FN)
#undef FN
    uint32_t n;
    struct device dev[MAX_DEVICES];
    uint32_t name[N_COUNT], gpm_name[GPM_COUNT];
    uint32_t ignored_pid; /* 0 none */
};

static void *symbol(void *lib, const char *name, const char *older)
{
    void *p = dlsym(lib, name);
    return p || !older ? p : dlsym(lib, older);
}

static void fact(struct gw_nvml_live *n, uint32_t i, const char *what, const char *text)
{
    char key[64];
    snprintf(key, sizeof key, "gpu.%u.%s", i, what);
    gw_sink_fact(n->sink, key, text);
}

static void fact_number(struct gw_nvml_live *n, uint32_t i, const char *what, double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.0f", value);
    fact(n, i, what, text);
}

static void device_facts(struct gw_nvml_live *n, uint32_t i)
{
    char text[128] = "";
    void *h = n->dev[i].handle;
    uint32_t v, pending;
    struct memory m;
    if (n->call_name && n->call_name(h, text, sizeof text) == 0)
        fact(n, i, "name", text);
    if (n->call_uuid && n->call_uuid(h, text, sizeof text) == 0)
        fact(n, i, "uuid", text);
    if (n->call_mem && n->call_mem(h, &m) == 0)
        fact_number(n, i, "memory_bytes", (double)m.total);
    if (n->call_clock_max && n->call_clock_max(h, 1, &v) == 0)
        fact_number(n, i, "sm_clock_max_mhz", v);
    if (n->call_clock_max && n->call_clock_max(h, 2, &v) == 0)
        fact_number(n, i, "memory_clock_max_mhz", v);
    if (n->call_power_limit && n->call_power_limit(h, &v) == 0)
        fact_number(n, i, "power_limit_w", v / 1000.0);
    if (n->call_power_default && n->call_power_default(h, &v) == 0)
        fact_number(n, i, "power_default_w", v / 1000.0);
    if (n->call_pcie_gen_max && n->call_pcie_gen_max(h, &v) == 0)
        fact_number(n, i, "pcie_gen_max", v);
    if (n->call_pcie_width_max && n->call_pcie_width_max(h, &v) == 0)
        fact_number(n, i, "pcie_width_max", v);
    if (n->call_mig && n->call_mig(h, &v, &pending) == 0)
        fact_number(n, i, "mig", v);
    fact(n, i, "gpm", n->dev[i].gpm[0] ? "yes" : "no");
}

static void open_gpm(struct gw_nvml_live *n, struct device *d)
{
    struct gpm_support s = {1, 0};
    if (!n->call_gpm_support || !n->call_gpm_alloc || !n->call_gpm_sample || !n->call_gpm_metrics || !n->call_gpm_free ||
        n->call_gpm_support(d->handle, &s) != 0 || !s.is_supported)
        return;
    if (n->call_gpm_alloc(&d->gpm[0]) != 0) {
        d->gpm[0] = NULL;
    } else if (n->call_gpm_alloc(&d->gpm[1]) != 0) {
        n->call_gpm_free(d->gpm[0]);
        d->gpm[0] = d->gpm[1] = NULL;
    }
}

static void names(struct gw_nvml_live *n)
{
    static const char *const counters[] = {
#define GW_NV(sym, name, text) name,
        GW_NVML_COUNTERS(GW_NV)
#undef GW_NV
    };
    for (int i = 0; i < N_COUNT; i++)
        n->name[i] = gw_sink_string(n->sink, counters[i]);
    for (int i = 0; i < GPM_COUNT; i++)
        n->gpm_name[i] = gw_sink_string(n->sink, gpm_rows[i].name);
}

struct gw_nvml_live *gw_nvml_open(struct gw_sink *sink, const char *library)
{
    struct gw_nvml_live *n = calloc(1, sizeof *n);
    const char *why = "out of memory";
    int rc = 0;
    if (!n)
        goto fail;
    n->sink = sink;
    n->lib = dlopen(library ? library : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    why = "libnvidia-ml.so.1 is not there";
    if (!n->lib)
        goto fail;
#define FN(member, sym, older, args) n->call_##member = (int(*) args)(uintptr_t)symbol(n->lib, sym, older);
    FUNCTIONS(FN)
#undef FN
    why = "NVML does not start";
    if (!n->call_init || !n->call_count || !n->call_handle || (rc = n->call_init()) != 0 || (rc = n->call_count(&n->n)) != 0)
        goto fail;
    if (n->n > MAX_DEVICES)
        n->n = MAX_DEVICES;
    names(n);
    char text[128];
    int cuda;
    if (n->call_driver && n->call_driver(text, sizeof text) == 0)
        gw_sink_fact(sink, "nvml.driver", text);
    if (n->call_cuda && n->call_cuda(&cuda) == 0)
        gw_sink_factf(sink, "nvml.cuda_driver", "%d", cuda);
    for (uint32_t i = 0; i < n->n; i++) {
        n->dev[i].utilization = n->dev[i].sm = -1;
        if (n->call_handle(i, &n->dev[i].handle) != 0)
            n->dev[i].handle = NULL;
        if (!n->dev[i].handle)
            continue;
        open_gpm(n, &n->dev[i]);
        device_facts(n, i);
    }
    gw_sink_factf(sink, "nvml.devices", "%u", n->n);
    return n;
fail:
    if (rc)
        gw_sink_factf(sink, "permission.nvml", "no: %s (result %d)", why, rc);
    else
        gw_sink_factf(sink, "permission.nvml", "no: %s", why);
    if (n && n->lib)
        dlclose(n->lib);
    free(n);
    return NULL;
}

void gw_nvml_close(struct gw_nvml_live *n)
{
    if (!n)
        return;
    for (uint32_t i = 0; i < n->n; i++)
        for (int k = 0; k < 2; k++)
            if (n->dev[i].gpm[k])
                n->call_gpm_free(n->dev[i].gpm[k]);
    if (n->call_shutdown)
        n->call_shutdown();
    dlclose(n->lib);
    free(n);
}

static void put(struct gw_nvml_live *n, uint32_t i, enum counter c, double v)
{
    gw_sink_counter(n->sink, n->name[c], (int)i, 0, 0, v);
}

static double field_value(const struct field *f)
{
    switch (f->type) { /* nvmlValueType_t */
    case 0: return f->v.d;
    case 1: return (double)f->v.u;
    case 2: return (double)f->v.ul;
    case 3: return (double)f->v.ull;
    case 4: return (double)f->v.ll;
    case 5: return (double)f->v.i;
    default: return NAN;
    }
}

static void sample_fields(struct gw_nvml_live *n, uint32_t i, struct device *d)
{
    static const struct { uint32_t id; enum counter c; double scale; } rows[] = {
        {83, N_ENERGY, 1e-3}, {186, N_POWER_NOW, 1e-3}, {197, N_PCIE_TX, 1}, {198, N_PCIE_RX, 1},
        {269, N_SW_THERMAL, 1}, {270, N_HW_THERMAL, 1}, {271, N_HW_BRAKE, 1}};
    struct field f[sizeof rows / sizeof *rows];
    memset(f, 0, sizeof f);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        f[k].id = rows[k].id;
    if (!n->call_fields || n->call_fields(d->handle, sizeof rows / sizeof *rows, f) != 0)
        return;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (f[k].result == 0)
            put(n, i, rows[k].c, field_value(&f[k]) * rows[k].scale);
}

static void sample_gpm(struct gw_nvml_live *n, uint32_t i, struct device *d)
{
    uint64_t now = gw_clock_ns(CLOCK_MONOTONIC);
    if (!d->gpm[0] || (d->gpm_ready && now - d->gpm_ns < GPM_WAIT_MS * 1000000ull))
        return;
    void *older = d->gpm[1];
    d->gpm[1] = d->gpm[0];
    d->gpm[0] = older;
    int had = d->gpm_ready;
    d->gpm_ready = n->call_gpm_sample(d->handle, d->gpm[1]) == 0;
    d->gpm_ns = now;
    if (!had || !d->gpm_ready)
        return;
    struct gpm_get g;
    memset(&g, 0, sizeof g);
    g.version = 1;
    g.count = GPM_COUNT;
    g.sample1 = d->gpm[0];
    g.sample2 = d->gpm[1];
    for (int k = 0; k < GPM_COUNT; k++)
        g.m[k].id = gpm_rows[k].id;
    if (n->call_gpm_metrics(&g) != 0)
        return;
    for (int k = 0; k < GPM_COUNT; k++)
        if (g.m[k].result == 0) {
            gw_sink_counter(n->sink, n->gpm_name[k], (int)i, 0, 0, g.m[k].value);
            d->sm = g.m[k].id == GPM_SM ? (int)(g.m[k].value + 0.5) : d->sm;
        }
}

static void sample_device(struct gw_nvml_live *n, uint32_t i, struct device *d)
{
    struct utilization u;
    struct memory m;
    uint32_t v;
    unsigned long long mask;
    d->utilization = -1;
    if (n->call_util && n->call_util(d->handle, &u) == 0) {
        d->utilization = (int)u.gpu;
        put(n, i, N_UTIL, u.gpu);
        put(n, i, N_UTIL_MEM, u.memory);
    }
    if (n->call_mem && n->call_mem(d->handle, &m) == 0)
        put(n, i, N_MEM_USED, (double)m.used);
    if (n->call_clock && n->call_clock(d->handle, 1, &v) == 0)
        put(n, i, N_SM_CLOCK, v);
    if (n->call_clock && n->call_clock(d->handle, 2, &v) == 0)
        put(n, i, N_MEM_CLOCK, v);
    if (n->call_power && n->call_power(d->handle, &v) == 0)
        put(n, i, N_POWER, v / 1000.0);
    if (n->call_reasons && n->call_reasons(d->handle, &mask) == 0)
        put(n, i, N_REASONS, (double)mask);
    if (n->call_temp && n->call_temp(d->handle, 0, &v) == 0)
        put(n, i, N_TEMP, v);
    if (n->call_pcie_gen && n->call_pcie_gen(d->handle, &v) == 0)
        put(n, i, N_PCIE_GEN, v);
    if (n->call_pcie_width && n->call_pcie_width(d->handle, &v) == 0)
        put(n, i, N_PCIE_WIDTH, v);
    sample_fields(n, i, d);
    sample_gpm(n, i, d);
}

void gw_nvml_sample(struct gw_nvml_live *n)
{
    for (uint32_t i = 0; n && i < n->n; i++)
        if (n->dev[i].handle)
            sample_device(n, i, &n->dev[i]);
}

enum { MAX_PROCESSES = 64 };

static uint32_t list_processes(const struct gw_nvml_live *n, unsigned i, struct process p[MAX_PROCESSES])
{
    uint32_t count = MAX_PROCESSES;
    if (!n->call_procs || !n->dev[i].handle || n->call_procs(n->dev[i].handle, &count, p) != 0)
        return 0;
    return count < MAX_PROCESSES ? count : MAX_PROCESSES;
}

int gw_nvml_processes(struct gw_nvml_live *n)
{
    int total = 0;
    for (uint32_t i = 0; n && i < n->n; i++) {
        struct process p[MAX_PROCESSES];
        uint32_t count = list_processes(n, i, p);
        for (uint32_t k = 0; k < count; k++) { /* memory is unknown (all ones) on some platforms */
            if (n->ignored_pid && p[k].pid == n->ignored_pid)
                continue;
            gw_sink_counter(n->sink, n->name[N_PROC_BYTES], (int)i, (int)p[k].pid, 0, p[k].bytes == ~0ull ? -1 : (double)p[k].bytes);
            total++;
        }
    }
    return total;
}

size_t gw_nvml_pids(const struct gw_nvml_live *n, unsigned i, uint32_t *pids, size_t cap)
{
    struct process p[MAX_PROCESSES];
    uint32_t count = n && i < n->n ? list_processes(n, i, p) : 0;
    size_t out = 0;
    for (uint32_t k = 0; k < count && out < cap; k++)
        pids[out++] = p[k].pid;
    return out;
}

int gw_nvml_uuid(const struct gw_nvml_live *n, unsigned i, char *out, size_t cap)
{
    return n && i < n->n && n->dev[i].handle && n->call_uuid && n->call_uuid(n->dev[i].handle, out, (uint32_t)cap) == 0 ? 0 : -1;
}

int gw_nvml_device_utilization(const struct gw_nvml_live *n, unsigned i) { return n && i < n->n ? n->dev[i].utilization : -1; }

void gw_nvml_ignore(struct gw_nvml_live *n, int pid)
{
    if (n)
        n->ignored_pid = pid > 0 ? (uint32_t)pid : 0;
}

unsigned gw_nvml_devices(const struct gw_nvml_live *n) { return n ? n->n : 0; }

static int mean(const struct gw_nvml_live *n, size_t field)
{
    int sum = 0, known = 0;
    for (uint32_t i = 0; n && i < n->n; i++) {
        int v;
        memcpy(&v, (const char *)&n->dev[i] + field, sizeof v);
        if (v >= 0) {
            sum += v;
            known++;
        }
    }
    return known ? sum / known : -1;
}

int gw_nvml_utilization(const struct gw_nvml_live *n) { return mean(n, offsetof(struct device, utilization)); }
int gw_nvml_sm_activity(const struct gw_nvml_live *n) { return mean(n, offsetof(struct device, sm)); }
