/*
 * fake_nvml.c - a libnvidia-ml.so.1 that plays a script and complains about every call that real NVML would not allow.
 *
 * The script is the file that GPUWHY_FAKE_NVML names. One line a fact, '#' begins a comment:
 *
 *     gpus 2                                  driver 580.159.04        cuda 13000       init 9
 *     missing nvmlDeviceGetMemoryInfo_v2      (must come from the older function)
 *     0 name NVIDIA H200                      0 bus 00000000:19:00.0   0 uuid GPU-1
 *     0 nvmlDeviceGetPowerUsage 100000 650000 (one value a call; the last one stays)
 *     0 nvmlDeviceGetClockInfo:1 1980         (the number behind ':' is the argument)
 *     0 field 269 5000000                     0 process 4242 1048576   0 graphics 17 4096
 *     0 links 18 18                           (NVLinks there and active; to a switch)
 *     pair 0 1 ancestor 50 p2p 0              pair 0 1 nvlinks 4
 *
 * What has no line answers NVML_ERROR_NOT_SUPPORTED. A wrong call (before init, after shutdown, a handle that was never
 * given out, a struct without its version, a null pointer) ends the program with a message: tests must notice.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, SMALL = 7 };
enum { MAX_GPUS = 16, MAX_LINES = 2000 };

typedef void *device;
struct line {
    char key[96];
    char rest[256];
    int calls;
};

static struct line lines[MAX_LINES];
static int line_count, running, ended;
static char handles[MAX_GPUS], mig_handles[MAX_GPUS][8];

#define API __attribute__((visibility("default"))) int

static void wrong(const char *what)
{
    fprintf(stderr, "fake NVML: wrong call: %s\n", what);
    abort();
}

static void load(void)
{
    const char *path = getenv("GPUWHY_FAKE_NVML");
    FILE *f = path ? fopen(path, "r") : NULL;
    char text[512];
    line_count = 0;
    if (!f)
        wrong("GPUWHY_FAKE_NVML names no file");
    while (fgets(text, sizeof text, f) && line_count < MAX_LINES) {
        char a[64] = "", b[64] = "";
        int after_a = 0, after_b = 0;
        text[strcspn(text, "#\n")] = '\0';
        int n = sscanf(text, "%63s%n %63s%n", a, &after_a, b, &after_b);
        if (n < 1)
            continue;
        struct line *l = &lines[line_count++];
        int two = n == 2 && a[0] >= '0' && a[0] <= '9'; /* "0 name ...": the GPU is part of the key */
        const char *rest = text + (two ? after_b : after_a);
        snprintf(l->key, sizeof l->key, "%.40s%s%.50s", a, two ? " " : "", two ? b : "");
        snprintf(l->rest, sizeof l->rest, "%s", rest + strspn(rest, " "));
        l->calls = 0;
    }
    fclose(f);
}

static struct line *find(const char *key)
{
    for (int i = 0; i < line_count; i++)
        if (strcmp(lines[i].key, key) == 0)
            return &lines[i];
    return NULL;
}

static int number(const char *key, long long *out)
{
    struct line *l = find(key);
    if (!l)
        return 0;
    char *p = l->rest, *end;
    long long v = strtoll(p, &end, 0);
    for (int i = 0; i < l->calls; i++) { /* one value a call, the last one stays */
        long long w = strtoll(end, &p, 0);
        if (p == end)
            break;
        v = w;
        end = p;
    }
    l->calls++;
    *out = v;
    return 1;
}

static int missing(const char *function)
{
    for (int i = 0; i < line_count; i++)
        if (strcmp(lines[i].key, "missing") == 0 && strcmp(lines[i].rest, function) == 0)
            return 1;
    return 0;
}

static void must_run(const char *function)
{
    if (!running || ended)
        wrong(function);
}

static int gpus(void)
{
    long long n = 0;
    number("gpus", &n);
    return n > MAX_GPUS ? MAX_GPUS : (int)n;
}

static int index_of(device d, const char *function)
{
    must_run(function);
    for (int i = 0; i < gpus(); i++)
        if (d == &handles[i])
            return i;
    for (int i = 0; i < gpus(); i++)
        for (int k = 0; k < 8; k++)
            if (d == &mig_handles[i][k])
                return 100 + i * 8 + k;
    wrong(function);
    return -1;
}

static int value_of(device d, const char *function, long long *out)
{
    char key[96];
    int i = index_of(d, function);
    if (i >= 100)
        return NOT_SUPPORTED;
    snprintf(key, sizeof key, "%d %s", i, function);
    return !missing(function) && number(key, out) ? SUCCESS : NOT_SUPPORTED;
}

/* --- system ----------------------------------------------------------------------------------------------------------
 */

API nvmlInit_v2(void);
API nvmlInit_v2(void)
{
    long long rc = 0;
    load();
    running = 1;
    ended = 0;
    if (number("init", &rc) && rc) {
        running = 0;
        return (int)rc;
    }
    return SUCCESS;
}
API nvmlShutdown(void);
API nvmlShutdown(void)
{
    must_run(__func__);
    ended = 1;
    return SUCCESS;
}

static int text(const char *key, char *out, unsigned cap)
{
    struct line *l = find(key);
    if (!out || !cap)
        wrong(key);
    if (!l)
        return NOT_SUPPORTED;
    if (strlen(l->rest) + 1 > cap)
        return SMALL;
    strcpy(out, l->rest);
    return SUCCESS;
}
API nvmlSystemGetDriverVersion(char *out, unsigned cap);
API nvmlSystemGetDriverVersion(char *out, unsigned cap)
{
    must_run(__func__);
    return text("driver", out, cap);
}
API nvmlSystemGetCudaDriverVersion_v2(int *out);
API nvmlSystemGetCudaDriverVersion_v2(int *out)
{
    long long v;
    must_run(__func__);
    if (!out)
        wrong(__func__);
    if (!number("cuda", &v))
        return NOT_SUPPORTED;
    *out = (int)v;
    return SUCCESS;
}
API nvmlDeviceGetCount_v2(unsigned *out);
API nvmlDeviceGetCount_v2(unsigned *out)
{
    must_run(__func__);
    *out = (unsigned)gpus();
    return SUCCESS;
}
API nvmlDeviceGetHandleByIndex_v2(unsigned i, device *out);
API nvmlDeviceGetHandleByIndex_v2(unsigned i, device *out)
{
    must_run(__func__);
    if ((int)i >= gpus())
        return INVALID;
    *out = &handles[i];
    return SUCCESS;
}

static int device_text(device d, const char *what, char *out, unsigned cap, const char *function)
{
    char key[32];
    snprintf(key, sizeof key, "%d %s", index_of(d, function), what);
    return text(key, out, cap);
}
API nvmlDeviceGetName(device d, char *out, unsigned cap);
API nvmlDeviceGetName(device d, char *out, unsigned cap) { return device_text(d, "name", out, cap, __func__); }
API nvmlDeviceGetUUID(device d, char *out, unsigned cap);
API nvmlDeviceGetUUID(device d, char *out, unsigned cap) { return device_text(d, "uuid", out, cap, __func__); }

struct pci {
    char legacy[16];
    unsigned domain, bus, device, id, sub;
    char bus_id[32];
};
API nvmlDeviceGetPciInfo_v3(device d, struct pci *out);
API nvmlDeviceGetPciInfo_v3(device d, struct pci *out)
{
    return device_text(d, "bus", out->bus_id, sizeof out->bus_id, __func__);
}

/* --- numbers ---------------------------------------------------------------------------------------------------------
 */

#define U32(name)                        \
    API name(device d, unsigned *out);   \
    API name(device d, unsigned *out)    \
    {                                    \
        long long v;                     \
        if (!out)                        \
            wrong(#name);                \
        int rc = value_of(d, #name, &v); \
        if (rc == SUCCESS)               \
            *out = (unsigned)v;          \
        return rc;                       \
    }
#define U32_OF(name)                                  \
    API name(device d, int what, unsigned *out);      \
    API name(device d, int what, unsigned *out)       \
    {                                                 \
        char key[80];                                 \
        long long v;                                  \
        if (!out)                                     \
            wrong(#name);                             \
        snprintf(key, sizeof key, #name ":%d", what); \
        int rc = value_of(d, key, &v);                \
        if (rc == SUCCESS)                            \
            *out = (unsigned)v;                       \
        return rc;                                    \
    }
#define PAIR(name, type)                  \
    API name(device d, type *a, type *b); \
    API name(device d, type *a, type *b)  \
    {                                     \
        long long v;                      \
        if (!a || !b)                     \
            wrong(#name);                 \
        int rc = value_of(d, #name, &v);  \
        if (rc == SUCCESS) {              \
            *a = (type)(v / 100);         \
            *b = (type)(v % 100);         \
        }                                 \
        return rc;                        \
    }
U32(nvmlDeviceGetPowerUsage)
U32(nvmlDeviceGetPerformanceState)
U32(nvmlDeviceGetCurrPcieLinkGeneration)
U32(nvmlDeviceGetCurrPcieLinkWidth)
U32(nvmlDeviceGetPcieReplayCounter)
U32(nvmlDeviceGetEnforcedPowerLimit)
U32(nvmlDeviceGetPowerManagementDefaultLimit)
U32(nvmlDeviceGetMaxPcieLinkGeneration)
U32(nvmlDeviceGetGpuMaxPcieLinkGeneration)
U32(nvmlDeviceGetMaxPcieLinkWidth)
U32(nvmlDeviceGetPersistenceMode)
U32(nvmlDeviceGetDisplayActive)
U32(nvmlDeviceGetComputeMode)
U32(nvmlDeviceGetMaxMigDeviceCount)
U32_OF(nvmlDeviceGetTemperature)
U32_OF(nvmlDeviceGetTemperatureThreshold)
U32_OF(nvmlDeviceGetClockInfo)
U32_OF(nvmlDeviceGetMaxClockInfo)
U32_OF(nvmlDeviceGetApplicationsClock)
U32_OF(nvmlDeviceGetDefaultApplicationsClock)
PAIR(nvmlDeviceGetMigMode, unsigned) /* 100 = on now, off next */
PAIR(nvmlDeviceGetEccMode, int)
PAIR(nvmlDeviceGetCudaComputeCapability, int) /* 900 = 9.0 */

struct memory {
    unsigned long long total, free, used;
};
struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};
API nvmlDeviceGetMemoryInfo(device d, struct memory *out);
API nvmlDeviceGetMemoryInfo(device d, struct memory *out)
{
    long long total, used = 0;
    char key[64];
    int i = index_of(d, __func__);
    if (i >= 100) { /* a MIG instance */
        out->total = 10ull << 30;
        out->used = 0;
        return SUCCESS;
    }
    snprintf(key, sizeof key, "%d memory", i);
    if (!number(key, &total))
        return NOT_SUPPORTED;
    snprintf(key, sizeof key, "%d used", i);
    number(key, &used);
    out->total = (unsigned long long)total;
    out->used = (unsigned long long)used;
    out->free = out->total - out->used;
    return SUCCESS;
}
API nvmlDeviceGetMemoryInfo_v2(device d, struct memory_v2 *out);
API nvmlDeviceGetMemoryInfo_v2(device d, struct memory_v2 *out)
{
    struct memory m;
    if (out->version != (sizeof *out | 2u << 24))
        wrong("nvmlDeviceGetMemoryInfo_v2 without its version");
    if (missing(__func__))
        return NOT_SUPPORTED;
    int rc = nvmlDeviceGetMemoryInfo(d, &m);
    if (rc == SUCCESS) {
        out->total = m.total;
        out->used = m.used;
        out->free = m.free;
        out->reserved = 0;
    }
    return rc;
}
API nvmlDeviceGetBAR1MemoryInfo(device d, struct memory *out);
API nvmlDeviceGetBAR1MemoryInfo(device d, struct memory *out)
{
    long long v;
    int rc = value_of(d, __func__, &v);
    if (rc == SUCCESS) {
        out->total = (unsigned long long)v;
        out->used = 0;
        out->free = out->total;
    }
    return rc;
}
struct utilization {
    unsigned gpu, memory;
};
API nvmlDeviceGetUtilizationRates(device d, struct utilization *out);
API nvmlDeviceGetUtilizationRates(device d, struct utilization *out)
{
    long long v;
    int rc = value_of(d, __func__, &v);
    if (rc == SUCCESS) {
        out->gpu = (unsigned)v;
        out->memory = (unsigned)v / 2;
    }
    return rc;
}
API nvmlDeviceGetCurrentClocksEventReasons(device d, unsigned long long *out);
API nvmlDeviceGetCurrentClocksEventReasons(device d, unsigned long long *out)
{
    long long v;
    int rc = value_of(d, __func__, &v);
    if (rc == SUCCESS)
        *out = (unsigned long long)v;
    return rc;
}
API nvmlDeviceGetTotalEccErrors(device d, int type, int counter, unsigned long long *out);
API nvmlDeviceGetTotalEccErrors(device d, int type, int counter, unsigned long long *out)
{
    char key[64];
    long long v;
    if (type < 0 || type > 1 || counter < 0 || counter > 1)
        wrong(__func__);
    snprintf(key, sizeof key, "nvmlDeviceGetTotalEccErrors:%d", type);
    int rc = value_of(d, key, &v);
    if (rc == SUCCESS)
        *out = (unsigned long long)v;
    return rc;
}
API nvmlDeviceGetRemappedRows(device d, unsigned *cor, unsigned *unc, unsigned *pending, unsigned *failed);
API nvmlDeviceGetRemappedRows(device d, unsigned *cor, unsigned *unc, unsigned *pending, unsigned *failed)
{
    char key[64];
    struct line *l;
    snprintf(key, sizeof key, "%d nvmlDeviceGetRemappedRows", index_of(d, __func__));
    l = find(key);
    return l && sscanf(l->rest, "%u %u %u %u", cor, unc, pending, failed) == 4 ? SUCCESS : NOT_SUPPORTED;
}

struct field {
    unsigned id, scope;
    long long stamp, latency;
    unsigned type;
    int result;
    union {
        unsigned u32;
        unsigned long long u64;
        double d;
    } value;
};
API nvmlDeviceGetFieldValues(device d, int n, struct field *f);
API nvmlDeviceGetFieldValues(device d, int n, struct field *f)
{
    int i = index_of(d, __func__);
    if (n <= 0 || n > 256 || !f || sizeof *f != 40)
        wrong(__func__);
    for (int k = 0; k < n; k++) {
        f[k].result = NOT_SUPPORTED;
        for (int l = 0; l < line_count; l++) {
            char key[32];
            unsigned id;
            long long v;
            snprintf(key, sizeof key, "%d field", i);
            if (strcmp(lines[l].key, key) == 0 && sscanf(lines[l].rest, "%u %lld", &id, &v) == 2 && id == f[k].id) {
                f[k].type = 3;
                f[k].value.u64 = (unsigned long long)v;
                f[k].result = SUCCESS;
            }
        }
    }
    return SUCCESS;
}

/* --- processes, MIG, links -------------------------------------------------------------------------------------------
 */

struct process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gi, ci;
};
static int processes(device d, unsigned *count, struct process *out, const char *what, const char *function)
{
    char key[32];
    unsigned n = 0;
    snprintf(key, sizeof key, "%d %s", index_of(d, function), what);
    if (!count || (*count && !out))
        wrong(function);
    for (int l = 0; l < line_count; l++) {
        unsigned pid;
        unsigned long long bytes;
        if (strcmp(lines[l].key, key) != 0 || sscanf(lines[l].rest, "%u %llu", &pid, &bytes) != 2)
            continue;
        if (n >= *count)
            return SMALL;
        out[n++] = (struct process){pid, bytes, ~0u, ~0u};
    }
    *count = n;
    return SUCCESS;
}
API nvmlDeviceGetComputeRunningProcesses_v3(device d, unsigned *count, struct process *out);
API nvmlDeviceGetComputeRunningProcesses_v3(device d, unsigned *count, struct process *out)
{
    return processes(d, count, out, "process", __func__);
}
API nvmlDeviceGetGraphicsRunningProcesses_v3(device d, unsigned *count, struct process *out);
API nvmlDeviceGetGraphicsRunningProcesses_v3(device d, unsigned *count, struct process *out)
{
    return processes(d, count, out, "graphics", __func__);
}

API nvmlDeviceGetMigDeviceHandleByIndex(device d, unsigned k, device *out);
API nvmlDeviceGetMigDeviceHandleByIndex(device d, unsigned k, device *out)
{
    char key[32];
    long long n = 0;
    int i = index_of(d, __func__);
    snprintf(key, sizeof key, "%d instances", i);
    number(key, &n);
    if (k >= 8 || (long long)k >= n)
        return NOT_FOUND;
    *out = &mig_handles[i][k];
    return SUCCESS;
}
API nvmlDeviceGetGpuInstanceId(device d, unsigned *out);
API nvmlDeviceGetGpuInstanceId(device d, unsigned *out)
{
    int i = index_of(d, __func__);
    if (i < 100)
        return NOT_SUPPORTED;
    *out = (unsigned)(i % 8);
    return SUCCESS;
}

/* "pair 0 1 ancestor 50 p2p 0": the number behind a word, for the pair in either order. */
static int pair_value(device a, device b, const char *word, int *out, const char *function)
{
    int i = index_of(a, function), k = index_of(b, function), low = i < k ? i : k, high = i < k ? k : i;
    for (int l = 0; l < line_count; l++) {
        int x, y;
        char *at;
        if (strcmp(lines[l].key, "pair") == 0 && sscanf(lines[l].rest, "%d %d", &x, &y) == 2 && x == low && y == high &&
            (at = strstr(lines[l].rest, word))) {
            *out = (int)strtol(at + strlen(word), NULL, 10);
            return SUCCESS;
        }
    }
    return NOT_SUPPORTED;
}
API nvmlDeviceGetTopologyCommonAncestor(device a, device b, int *out);
API nvmlDeviceGetTopologyCommonAncestor(device a, device b, int *out)
{
    return pair_value(a, b, "ancestor", out, __func__);
}
API nvmlDeviceGetP2PStatus(device a, device b, int caps, int *out);
API nvmlDeviceGetP2PStatus(device a, device b, int caps, int *out)
{
    if (caps < 0 || caps > 4)
        wrong(__func__);
    return pair_value(a, b, "p2p", out, __func__);
}

/* Links of GPU i: those of its pairs with "nvlinks", in order, or "links N ACTIVE" to a switch. */
static int peer_of_link(int i, unsigned link)
{
    unsigned n = 0;
    for (int l = 0; l < line_count; l++) {
        int x, y;
        char *at;
        if (strcmp(lines[l].key, "pair") != 0 || sscanf(lines[l].rest, "%d %d", &x, &y) != 2 || (x != i && y != i) ||
            !(at = strstr(lines[l].rest, "nvlinks")))
            continue;
        n += (unsigned)strtol(at + 7, NULL, 10);
        if (link < n)
            return x == i ? y : x;
    }
    return -1;
}
static int switch_links(int i, int *active)
{
    char key[32];
    int n = 0;
    struct line *l;
    snprintf(key, sizeof key, "%d links", i);
    l = find(key);
    *active = 0;
    if (l)
        sscanf(l->rest, "%d %d", &n, active);
    return n;
}
API nvmlDeviceGetNvLinkState(device d, unsigned link, int *out);
API nvmlDeviceGetNvLinkState(device d, unsigned link, int *out)
{
    int i = index_of(d, __func__), active, n = switch_links(i, &active);
    if (peer_of_link(i, link) >= 0) {
        *out = 1;
        return SUCCESS;
    }
    if ((int)link >= n)
        return INVALID;
    *out = (int)link < active;
    return SUCCESS;
}
API nvmlDeviceGetNvLinkRemotePciInfo_v2(device d, unsigned link, struct pci *out);
API nvmlDeviceGetNvLinkRemotePciInfo_v2(device d, unsigned link, struct pci *out)
{
    int peer = peer_of_link(index_of(d, __func__), link);
    char key[32];
    if (peer < 0) {
        strcpy(out->bus_id, "00000000:c0:00.0"); /* the switch */
        return SUCCESS;
    }
    snprintf(key, sizeof key, "%d bus", peer);
    return text(key, out->bus_id, sizeof out->bus_id);
}
API nvmlDeviceGetNvLinkRemoteDeviceType(device d, unsigned link, int *out);
API nvmlDeviceGetNvLinkRemoteDeviceType(device d, unsigned link, int *out)
{
    *out = peer_of_link(index_of(d, __func__), link) < 0 ? 2 : 0;
    return SUCCESS;
}
