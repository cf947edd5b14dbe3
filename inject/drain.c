/*
 * drain.c - turns CUPTI's records into the compact ones of the record format. Runs on our thread only. It keeps names
 * once, drops what cannot mean anything, and does no arithmetic on times: conversion and analysis belong to the reader.
 */
#include <errno.h>
#include <sys/mman.h>

#include "inject.h"

enum { NAMES = 1 << 14, NAME_TEXT = 8 << 20, NAME_MAX_BYTES = 4096, CBIDS = 2048 };

/* An API call shorter than this and of a sort that never explains a gap is left out: frameworks make eight of them for
 * each launch (measured: 5,200 runtime calls for 600 launches). A long one is kept, whatever it is. */
#define NOISE_NS 20000u

static const char *const noise[] = { /* prefixes of callback names */
    "cudaGetDevice", "cudaSetDevice", "cudaGetLastError", "cudaPeekAtLastError", "cudaDeviceGetAttribute", "cudaEventCreate",
    "cudaEventDestroy", "cudaEventQuery", "cudaStreamQuery", "cudaStreamIsCapturing",
    "cudaStreamGetCaptureInfo", "cudaThreadExchangeStreamCaptureMode", "cudaFuncGetAttributes", "cudaOccupancy",
    "cudaFuncSetAttribute", "cudaPointerGetAttributes", "cudaDriverGetVersion", "cudaRuntimeGetVersion", "cudaGetFuncBySymbol",
    "cudaKernelGetAttribute", "cudaStreamGetPriority", "cudaStreamGetDevice", "__cudaPushCallConfiguration",
    "__cudaPopCallConfiguration", "cuCtxGetCurrent", "cuCtxGetDevice", "cuCtxSetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent",
    "cuKernelGetAttribute", "cuFuncGetAttribute", "cuDevicePrimaryCtxGetState", "cuDeviceGet", "cuPointerGetAttribute",
    "cuStreamIsCapturing", "cuGetProcAddress", "cuDriverGetVersion", "cuOccupancy", "cuTensorMapEncode", "cuEventQuery",
    "cuStreamQuery"};

struct name {
    const char *key;   /* CUPTI's pointer */
    const char *text;  /* our copy */
    uint32_t len, id;
};

static struct {
    const struct gw_cupti *api;
    struct gw_writer *out;
    struct name *names;
    char *text;
    uint32_t text_used, name_count;
    uint8_t cbid[2][CBIDS]; /* 0 not seen, 1 kept, 2 noise when short */
    struct gw_rec_kernel kernel[1024];
    struct gw_rec_copy copy[256];
    struct gw_rec_set set[256];
    struct gw_rec_api call[4096];
    struct gw_rec_sync sync[512];
    struct gw_rec_overhead cost[256];
    uint32_t n_kernel, n_copy, n_set, n_call, n_sync, n_cost;
    uint64_t kernels, calls; /* records seen, kept or not */
} D;

uint64_t gw_drain_kernels(void) { return D.kernels; }
uint64_t gw_drain_calls(void) { return D.calls; }

int gw_drain_init(const struct gw_cupti *api, struct gw_writer *out)
{
    size_t bytes = sizeof(struct name) * NAMES + NAME_TEXT;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return -errno;
    D.api = api;
    D.out = out;
    D.names = p;
    D.text = (char *)p + sizeof(struct name) * NAMES;
    return 0;
}

static void put(uint16_t type, size_t stride, const void *data, uint32_t *n)
{
    if (*n == 0)
        return;
    if (gw_writer_append(D.out, type, (uint16_t)stride, data, (uint32_t)(stride * *n)) < 0)
        D.out->status.spool_lost += *n;
    else
        D.out->status.records += *n;
    *n = 0;
}

void gw_drain_flush(void)
{
    put(GW_RT_KERNEL, sizeof *D.kernel, D.kernel, &D.n_kernel);
    put(GW_RT_COPY, sizeof *D.copy, D.copy, &D.n_copy);
    put(GW_RT_SET, sizeof *D.set, D.set, &D.n_set);
    put(GW_RT_API, sizeof *D.call, D.call, &D.n_call);
    put(GW_RT_SYNC, sizeof *D.sync, D.sync, &D.n_sync);
    put(GW_RT_OVERHEAD, sizeof *D.cost, D.cost, &D.n_cost);
}

static void write_name(uint32_t space, uint32_t id, const char *text, uint32_t len)
{
    struct gw_rec_name_head h = {.space = space, .id = id};
    (void)gw_writer_append2(D.out, GW_RT_NAME, 1, &h, sizeof h, text, len);
}

/* CUPTI's pointer to an id. Pointers may be reused after a module was unloaded, so the text is compared each time. */
static uint32_t name_id(const char *p)
{
    if (!p)
        return 0;
    uint32_t at = (uint32_t)(((uintptr_t)p >> 3) * 2654435761u) & (NAMES - 1);
    for (uint32_t i = 0; i < NAMES; i++, at = (at + 1) & (NAMES - 1)) {
        struct name *n = &D.names[at];
        if (n->key == p && strncmp(n->text, p, NAME_MAX_BYTES) == 0)
            return n->id;
        if (n->key)
            continue;
        uint32_t len = (uint32_t)strnlen(p, NAME_MAX_BYTES - 1);
        if (D.name_count >= NAMES - NAMES / 8 || NAME_TEXT - D.text_used < len + 1)
            return 0; /* table full: the kernel stays, without its name */
        char *copy = D.text + D.text_used;
        memcpy(copy, p, len);
        copy[len] = 0;
        D.text_used += len + 1;
        *n = (struct name){.key = p, .text = copy, .len = len, .id = ++D.name_count};
        write_name(GW_NS_KERNEL, n->id, copy, len);
        return n->id;
    }
    return 0;
}

static int is_noise(const char *name)
{
    for (size_t i = 0; i < sizeof noise / sizeof *noise; i++)
        if (strncmp(name, noise[i], strlen(noise[i])) == 0)
            return 1;
    return 0;
}

/* First sight of a call: write its name down, remember what to do with it. */
static uint8_t learn_cbid(uint32_t driver, uint32_t cbid)
{
    const char *name = NULL;
    int domain = driver ? GW_CUPTI_DOMAIN_DRIVER : GW_CUPTI_DOMAIN_RUNTIME;
    if (!D.api->fn_cuptiGetCallbackName || D.api->fn_cuptiGetCallbackName(domain, cbid, &name) != 0 || !name)
        name = "";
    write_name(driver ? GW_NS_DRIVER : GW_NS_RUNTIME, cbid, name, (uint32_t)strnlen(name, 255));
    return is_noise(name) ? 2 : 1;
}

static void take_api(const unsigned char *r, uint32_t driver)
{
    D.calls++;
    uint32_t cbid = gw_u32(r, GW_OFF_A_CBID);
    uint64_t start = gw_u64(r, GW_OFF_A_START), end = gw_u64(r, GW_OFF_A_END);
    if (cbid < CBIDS) {
        if (!D.cbid[driver][cbid])
            D.cbid[driver][cbid] = learn_cbid(driver, cbid);
        if (D.cbid[driver][cbid] == 2 && end - start < NOISE_NS) {
            D.out->status.filtered++;
            return;
        }
    }
    uint32_t result = gw_u32(r, GW_OFF_A_RETURN);
    D.call[D.n_call++] = (struct gw_rec_api){
        .start = start, .end = end, .corr = gw_u32(r, GW_OFF_A_CORR), .cbid = cbid, .tid = gw_u32(r, GW_OFF_A_THREAD),
        .domain = driver ? GW_NS_DRIVER : GW_NS_RUNTIME, .result = (int16_t)(result < 32767 ? result : 32767)};
    if (D.n_call == sizeof D.call / sizeof *D.call)
        put(GW_RT_API, sizeof *D.call, D.call, &D.n_call);
}

static void take_kernel(const unsigned char *r)
{
    D.kernels++;
    struct gw_rec_kernel k = {
        .start = gw_u64(r, GW_OFF_K_START), .end = gw_u64(r, GW_OFF_K_END), .graph_node = gw_u64(r, GW_OFF_K_GRAPH_NODE),
        .corr = gw_u32(r, GW_OFF_K_CORR), .device = gw_u32(r, GW_OFF_K_DEVICE), .context = gw_u32(r, GW_OFF_K_CONTEXT),
        .stream = gw_u32(r, GW_OFF_K_STREAM), .graph = gw_u32(r, GW_OFF_K_GRAPH), .registers = gw_u16(r, GW_OFF_K_REGISTERS),
        .shared_static = gw_u32(r, GW_OFF_K_SHARED_STATIC), .shared_dynamic = gw_u32(r, GW_OFF_K_SHARED_DYNAMIC),
        .grid_id = gw_u64(r, GW_OFF_K_GRID_ID)};
    if (!k.start || !k.end) {
        D.out->status.unfinished++;
        return;
    }
    for (unsigned i = 0; i < 3; i++) {
        k.grid[i] = gw_u32(r, GW_OFF_K_GRID + 4u * i);
        k.block[i] = gw_u32(r, GW_OFF_K_BLOCK + 4u * i);
    }
    k.name = name_id((const char *)(uintptr_t)gw_u64(r, GW_OFF_K_NAME));
    D.kernel[D.n_kernel++] = k;
    if (D.n_kernel == sizeof D.kernel / sizeof *D.kernel)
        put(GW_RT_KERNEL, sizeof *D.kernel, D.kernel, &D.n_kernel);
}

static void take_copy(const unsigned char *r, int peer)
{
    struct gw_rec_copy c = {
        .start = gw_u64(r, GW_OFF_M_START), .end = gw_u64(r, GW_OFF_M_END), .bytes = gw_u64(r, GW_OFF_M_BYTES),
        .corr = gw_u32(r, peer ? GW_OFF_P_CORR : GW_OFF_M_CORR), .device = gw_u32(r, GW_OFF_M_DEVICE),
        .context = gw_u32(r, GW_OFF_M_CONTEXT), .stream = gw_u32(r, GW_OFF_M_STREAM),
        .graph = gw_u32(r, peer ? GW_OFF_P_GRAPH : GW_OFF_M_GRAPH), .kind = r[GW_OFF_M_COPY_KIND], .src = r[GW_OFF_M_SRC],
        .dst = r[GW_OFF_M_DST], .flags = r[GW_OFF_M_FLAGS], .peer = peer ? 1 + gw_u32(r, GW_OFF_P_DST_DEVICE) : 0};
    if (!c.start || !c.end) {
        D.out->status.unfinished++;
        return;
    }
    D.copy[D.n_copy++] = c;
    if (D.n_copy == sizeof D.copy / sizeof *D.copy)
        put(GW_RT_COPY, sizeof *D.copy, D.copy, &D.n_copy);
}

static void take_set(const unsigned char *r)
{
    struct gw_rec_set s = {
        .start = gw_u64(r, GW_OFF_S_START), .end = gw_u64(r, GW_OFF_S_END), .bytes = gw_u64(r, GW_OFF_S_BYTES),
        .corr = gw_u32(r, GW_OFF_S_CORR), .device = gw_u32(r, GW_OFF_S_DEVICE), .context = gw_u32(r, GW_OFF_S_CONTEXT),
        .stream = gw_u32(r, GW_OFF_S_STREAM), .graph = gw_u32(r, GW_OFF_S_GRAPH)};
    if (!s.start || !s.end) {
        D.out->status.unfinished++;
        return;
    }
    D.set[D.n_set++] = s;
    if (D.n_set == sizeof D.set / sizeof *D.set)
        put(GW_RT_SET, sizeof *D.set, D.set, &D.n_set);
}

static void take_sync(const unsigned char *r)
{
    D.sync[D.n_sync++] = (struct gw_rec_sync){
        .start = gw_u64(r, GW_OFF_Y_START), .end = gw_u64(r, GW_OFF_Y_END), .corr = gw_u32(r, GW_OFF_Y_CORR),
        .type = gw_u32(r, GW_OFF_Y_TYPE), .context = gw_u32(r, GW_OFF_Y_CONTEXT), .stream = gw_u32(r, GW_OFF_Y_STREAM),
        .event = gw_u32(r, GW_OFF_Y_EVENT)};
    if (D.n_sync == sizeof D.sync / sizeof *D.sync)
        put(GW_RT_SYNC, sizeof *D.sync, D.sync, &D.n_sync);
}

static void take_overhead(const unsigned char *r)
{
    uint32_t object = gw_u32(r, GW_OFF_O_OBJECT);
    D.cost[D.n_cost++] = (struct gw_rec_overhead){
        .start = gw_u64(r, GW_OFF_O_START), .end = gw_u64(r, GW_OFF_O_END), .kind = gw_u32(r, GW_OFF_O_KIND), .object = object,
        .tid = object == GW_CUPTI_OBJECT_THREAD ? gw_u32(r, GW_OFF_O_OBJECT_ID + 4) : 0};
    if (D.n_cost == sizeof D.cost / sizeof *D.cost)
        put(GW_RT_OVERHEAD, sizeof *D.cost, D.cost, &D.n_cost);
}

void gw_drain_buffer(uint8_t *data, size_t valid)
{
    void *rec = NULL;
    while (D.api->fn_cuptiActivityGetNextRecord(data, valid, &rec) == 0) {
        const unsigned char *r = rec;
        switch (gw_u32(r, 0)) {
        case GW_AK_CONCURRENT_KERNEL: take_kernel(r); break;
        case GW_AK_MEMCPY: take_copy(r, 0); break;
        case GW_AK_MEMCPY2: take_copy(r, 1); break;
        case GW_AK_MEMSET: take_set(r); break;
        case GW_AK_RUNTIME: take_api(r, 0); break;
        case GW_AK_DRIVER: take_api(r, 1); break;
        case GW_AK_SYNCHRONIZATION: take_sync(r); break;
        case GW_AK_OVERHEAD: take_overhead(r); break;
        case GW_AK_DEVICE: break; /* asked for only to see whether the buffers are still ours */
        default: D.out->status.unknown++;
        }
    }
}
