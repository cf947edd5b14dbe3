/* Rows of GPU work: kernels, copies, sets, whole graphs; and synchronisation records, which are not work. */
#include "import/nsys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CUPTI writes this for a stream or an event that does not apply (CUPTI_SYNCHRONIZATION_INVALID_VALUE). */
#define NOT_APPLICABLE INT64_C(0xffffffff)

/* The lane of a row. Two processes that use one device may both number a stream 7: the second one's streams get the
 * process number above bit 32, since operations of two processes are not in order. */
static uint32_t gpu_lane(struct nsys *x, uint32_t process, int64_t pid, int64_t device, int64_t stream)
{
    uint64_t key = (uint64_t)process << 40 ^ (uint64_t)device << 32 ^ (uint64_t)stream;
    if (key == x->last_key && x->last_lane != GW_NONE)
        return x->last_lane;
    int64_t dev = nsys_device(x, pid, device);
    uint64_t place = (uint64_t)dev << 32 | (uint32_t)stream;
    uint32_t owner = nsys_map_get(&x->owner, place, UINT32_MAX);
    if (owner == UINT32_MAX) {
        nsys_map_put(&x->owner, place, process);
        owner = process;
    }
    nsys_map_put(&x->stream_dev, (uint64_t)process << 32 | (uint32_t)stream, (uint32_t)dev);
    nsys_map_put(&x->process_dev, process, (uint32_t)dev);
    x->last_key = key;
    return x->last_lane = gw_trace_lane_gpu(x->t, dev, owner == process ? stream : stream | (int64_t)process << 32);
}

/* The columns that every table of GPU work begins with. */
enum { START, END, DEVICE, STREAM, CORR, PID, REST };
#define GPU_COLUMNS "start end deviceId streamId correlationId globalPid"

static void gpu_event(struct nsys *x, const struct nsys_row *r, unsigned kind, struct gw_event *e)
{
    uint32_t process = nsys_process(x, r, PID);
    *e = (struct gw_event){.start = r->v[START], .end = r->v[END], .kind = (uint16_t)kind};
    e->lane = gpu_lane(x, process, nsys_pid(r->v[PID]), r->v[DEVICE], r->v[STREAM]);
    if (!nsys_null(r, CORR) && r->v[CORR] != 0) {
        e->corr = nsys_corr(process, r->v[CORR]);
        e->flags |= GW_EV_HAS_CORR;
    }
}

/* A row without an end, or that ends at 0, was still running when the recording stopped: its length is not known. */
static int add_gpu(struct nsys *x, const struct nsys_row *r, struct gw_event *e)
{
    x->gpu_rows++;
    if (nsys_null(r, START) || nsys_null(r, END) || (r->v[END] == 0 && r->v[START] > 0)) {
        gw_trace_lose(x->t, GW_LOSS_BAD_EVENT, 1, -1);
        return GW_OK;
    }
    return nsys_add(x, e);
}

static uint64_t product(const struct nsys_row *r, int col)
{
    uint64_t n = 1;
    for (int i = 0; i < 3; i++)
        if (__builtin_mul_overflow(n, (uint64_t)(r->v[col + i] > 0 ? r->v[col + i] : 1), &n))
            return UINT64_MAX;
    return n;
}

enum { K_NAME = REST, K_GRID, K_BLOCK = K_GRID + 3, K_NODE = K_BLOCK + 3 };
static int kernel_row(struct nsys *x, const struct nsys_row *r)
{
    struct gw_event e;
    gpu_event(x, r, GW_KIND_KERNEL, &e);
    e.name = nsys_name(x, r, K_NAME);
    if (!e.name) {
        if (!x->unnamed)
            x->unnamed = gw_trace_name(x->t, "(kernel without a name)", 23);
        e.name = x->unnamed;
    }
    if (!nsys_null(r, K_GRID)) {
        e.arg0 = product(r, K_GRID);
        e.flags |= GW_EV_HAS_ARG0;
    }
    if (!nsys_null(r, K_BLOCK)) {
        uint64_t threads = product(r, K_BLOCK);
        e.sub = threads < UINT32_MAX ? (uint32_t)threads : UINT32_MAX;
        e.flags |= GW_EV_HAS_SUB;
    }
    if (!nsys_null(r, K_NODE) && r->v[K_NODE]) {
        e.flags |= GW_EV_IN_GRAPH;
        x->graph_nodes++;
    }
    return add_gpu(x, r, &e);
}

/* ENUM_CUDA_MEMCPY_OPER; the first eleven are CUPTI's, the last three are pages that moved by themselves. */
static const struct {
    const char *name;
    unsigned char src, dst; /* enum gw_mem, when the row does not say */
} copies[] = {
    {"Memcpy", GW_MEM_UNKNOWN, GW_MEM_UNKNOWN},
    {"Memcpy HtoD", GW_MEM_HOST, GW_MEM_DEVICE},
    {"Memcpy DtoH", GW_MEM_DEVICE, GW_MEM_HOST},
    {"Memcpy HtoA", GW_MEM_HOST, GW_MEM_ARRAY},
    {"Memcpy AtoH", GW_MEM_ARRAY, GW_MEM_HOST},
    {"Memcpy AtoA", GW_MEM_ARRAY, GW_MEM_ARRAY},
    {"Memcpy AtoD", GW_MEM_ARRAY, GW_MEM_DEVICE},
    {"Memcpy DtoA", GW_MEM_DEVICE, GW_MEM_ARRAY},
    {"Memcpy DtoD", GW_MEM_DEVICE, GW_MEM_DEVICE},
    {"Memcpy HtoH", GW_MEM_HOST, GW_MEM_HOST},
    {"Memcpy PtoP", GW_MEM_DEVICE, GW_MEM_DEVICE},
    {"Unified memory HtoD", GW_MEM_MANAGED, GW_MEM_MANAGED},
    {"Unified memory DtoH", GW_MEM_MANAGED, GW_MEM_MANAGED},
    {"Unified memory DtoD", GW_MEM_MANAGED, GW_MEM_MANAGED},
};

static const char *const mem_names[] = {"Unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "Host"};

static unsigned mem_of(const struct nsys *x, const struct nsys_row *r, int col, unsigned otherwise)
{
    if (nsys_null(r, col) || r->v[col] < 0 || r->v[col] >= NSYS_MEM_KINDS)
        return otherwise;
    unsigned m = x->mem_kind[r->v[col]];
    return m != GW_MEM_UNKNOWN ? m : otherwise;
}

enum { C_KIND = REST, C_BYTES, C_SRC, C_DST, C_NODE };
static int copy_row(struct nsys *x, const struct nsys_row *r)
{
    struct gw_event e;
    gpu_event(x, r, GW_KIND_COPY, &e);
    size_t kind = r->v[C_KIND] > 0 && r->v[C_KIND] < 14 ? (size_t)r->v[C_KIND] : 0;
    unsigned src = mem_of(x, r, C_SRC, copies[kind].src), dst = mem_of(x, r, C_DST, copies[kind].dst);
    uint32_t *name = &x->copy_name[kind][src][dst];
    if (!*name) {
        char text[64]; /* "Memcpy HtoD (Pageable -> Device)", as torch.profiler writes it */
        int n = snprintf(text, sizeof text, "%s (%s -> %s)", copies[kind].name, mem_names[src], mem_names[dst]);
        *name = gw_trace_name(x->t, text, (size_t)n);
    }
    e.name = *name;
    e.sub = gw_copy_sub((enum gw_mem)src, (enum gw_mem)dst);
    if (src != GW_MEM_UNKNOWN || dst != GW_MEM_UNKNOWN)
        e.flags |= GW_EV_HAS_SUB;
    if (!nsys_null(r, C_BYTES) && r->v[C_BYTES] >= 0) {
        e.arg0 = (uint64_t)r->v[C_BYTES];
        e.flags |= GW_EV_HAS_ARG0;
    }
    if (!nsys_null(r, C_NODE) && r->v[C_NODE]) {
        e.flags |= GW_EV_IN_GRAPH;
        x->graph_nodes++;
    }
    return add_gpu(x, r, &e);
}

enum { S_BYTES = REST, S_MEM, S_NODE };
static int set_row(struct nsys *x, const struct nsys_row *r)
{
    struct gw_event e;
    gpu_event(x, r, GW_KIND_SET, &e);
    unsigned mem = mem_of(x, r, S_MEM, GW_MEM_UNKNOWN);
    if (!x->set_name[mem]) {
        char text[32];
        int n = snprintf(text, sizeof text, "Memset (%s)", mem_names[mem]);
        x->set_name[mem] = gw_trace_name(x->t, text, (size_t)n);
    }
    e.name = x->set_name[mem];
    if (!nsys_null(r, S_BYTES) && r->v[S_BYTES] >= 0) {
        e.arg0 = (uint64_t)r->v[S_BYTES];
        e.flags |= GW_EV_HAS_ARG0;
    }
    if (!nsys_null(r, S_NODE) && r->v[S_NODE]) {
        e.flags |= GW_EV_IN_GRAPH;
        x->graph_nodes++;
    }
    return add_gpu(x, r, &e);
}

enum { G_GRAPH = REST };
static int graph_row(struct nsys *x, const struct nsys_row *r)
{
    struct gw_event e;
    char text[48];
    gpu_event(x, r, GW_KIND_GRAPH, &e);
    int n = nsys_null(r, G_GRAPH) ? snprintf(text, sizeof text, "CUDA graph")
                                  : snprintf(text, sizeof text, "CUDA graph %lld", (long long)r->v[G_GRAPH]);
    e.name = gw_trace_name(x->t, text, (size_t)n);
    x->graph_rows++;
    return add_gpu(x, r, &e);
}

/* The decompression engine moves memory: it counts as a copy. */
enum { D_BYTES = REST };
static int decompress_row(struct nsys *x, const struct nsys_row *r)
{
    struct gw_event e;
    gpu_event(x, r, GW_KIND_COPY, &e);
    e.name = gw_trace_name(x->t, "Memory decompression", 20);
    e.sub = gw_copy_sub(GW_MEM_DEVICE, GW_MEM_DEVICE);
    e.flags |= GW_EV_HAS_SUB;
    if (!nsys_null(r, D_BYTES) && r->v[D_BYTES] >= 0) {
        e.arg0 = (uint64_t)r->v[D_BYTES];
        e.flags |= GW_EV_HAS_ARG0;
    }
    return add_gpu(x, r, &e);
}

/* ------------------------------------------------------------------ synchronisation */

/* An event record: the stream that a later wait on that event waits for. */
struct nsys_record {
    uint64_t event; /* process number and event, or the id that ties a wait to one record (2025 and later) */
    int64_t corr, stream;
};

enum { E_STREAM, E_CORR, E_PID, E_EVENT, E_SYNC };
static int record_row(struct nsys *x, const struct nsys_row *r)
{
    uint64_t process = nsys_process(x, r, E_PID);
    int tied = !nsys_null(r, E_SYNC) && r->v[E_SYNC];
    if (!x->records.size)
        gw_array_init(&x->records, sizeof(struct nsys_record), 1u << 24); /* 400 MB of them at most */
    struct nsys_record *rec = gw_array_push(&x->records);
    if (!rec)
        return GW_OK; /* a hint less, not an event less */
    rec->event = process << 40 | (uint64_t)tied << 63 | (uint32_t)(tied ? r->v[E_SYNC] : r->v[E_EVENT]);
    rec->corr = r->v[E_CORR];
    rec->stream = r->v[E_STREAM];
    return GW_OK;
}

static int by_event(const void *a, const void *b)
{
    const struct nsys_record *x = a, *y = b;
    if (x->event != y->event)
        return x->event < y->event ? -1 : 1;
    return x->corr < y->corr ? -1 : x->corr > y->corr;
}

/* The last record of the event before the wait; call ids count up within a process. -1 when there is none. */
static int64_t awaited(const struct nsys *x, uint64_t event, int64_t corr)
{
    const struct nsys_record *rec = x->records.data;
    size_t lo = 0, hi = x->records.len;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (rec[mid].event < event || (rec[mid].event == event && rec[mid].corr < corr))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo && rec[lo - 1].event == event ? rec[lo - 1].stream : -1;
}

/* What kind of wait it is follows from which ids apply; the numbers of syncType changed between versions. */
enum { Y_EVENT = REST, Y_SYNC };
static int sync_row(struct nsys *x, const struct nsys_row *r)
{
    struct gw_event e = {.start = r->v[START], .end = r->v[END], .kind = GW_KIND_GPU_SYNC};
    uint32_t process = nsys_process(x, r, PID);
    int has_stream = !nsys_null(r, STREAM) && r->v[STREAM] >= 0 && r->v[STREAM] != NOT_APPLICABLE;
    int has_event = !nsys_null(r, Y_EVENT) && r->v[Y_EVENT] != NOT_APPLICABLE;
    if (!x->gpu_rows || nsys_null(r, START) || nsys_null(r, END))
        return GW_OK; /* without work there is nothing to wait for */
    if (!x->records_sorted && x->records.len)
        qsort(x->records.data, x->records.len, sizeof(struct nsys_record), by_event);
    x->records_sorted = 1;
    const char *name = has_stream  ? has_event ? "Stream Wait Event" : "Stream Sync"
                       : has_event ? "Event Sync"
                                   : "Context Sync";
    e.name = gw_trace_name(x->t, name, strlen(name));
    if (has_event) {
        int tied = !nsys_null(r, Y_SYNC) && r->v[Y_SYNC];
        uint64_t event =
            (uint64_t)process << 40 | (uint64_t)tied << 63 | (uint32_t)(tied ? r->v[Y_SYNC] : r->v[Y_EVENT]);
        int64_t stream = awaited(x, event, r->v[CORR]);
        if (stream >= 0) {
            e.arg0 = (uint64_t)stream;
            e.flags |= GW_EV_HAS_ARG0;
        }
    } else if (has_stream) {
        e.arg0 = (uint64_t)r->v[STREAM];
        e.flags |= GW_EV_HAS_ARG0;
    }
    if (!nsys_null(r, CORR) && r->v[CORR]) {
        e.corr = nsys_corr(process, r->v[CORR]);
        e.flags |= GW_EV_HAS_CORR;
    }
    /* The device of these rows is 0 in some versions, whatever the stream: trust the stream's work. */
    int64_t dev = nsys_device(x, nsys_pid(r->v[PID]), r->v[DEVICE]), stream = has_stream ? r->v[STREAM] : -1;
    dev = nsys_map_get(&x->process_dev, process, (uint32_t)dev);
    dev = nsys_map_get(&x->stream_dev, (uint64_t)process << 32 | (uint32_t)stream, (uint32_t)dev);
    if (nsys_map_get(&x->owner, (uint64_t)dev << 32 | (uint32_t)stream, process) != process)
        stream = (int64_t)process << 32 | (uint32_t)stream;
    e.lane = gw_trace_lane_gpu(x->t, dev, stream);
    x->other_rows++;
    return nsys_add(x, &e);
}

const struct nsys_table nsys_gpu_tables[] = {
    {"CUPTI_ACTIVITY_KIND_KERNEL",
     GPU_COLUMNS " demangledName|shortName gridX gridY gridZ blockX blockY blockZ graphNodeId", 3, kernel_row},
    {"CUPTI_ACTIVITY_KIND_MEMCPY", GPU_COLUMNS " copyKind bytes srcKind dstKind graphNodeId", 3, copy_row},
    {"CUPTI_ACTIVITY_KIND_MEMSET", GPU_COLUMNS " bytes memKind graphNodeId", 3, set_row},
    {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE", GPU_COLUMNS " graphId", 3, graph_row},
    {"CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS", GPU_COLUMNS " sourceBytes", 3, decompress_row},
    {"CUPTI_ACTIVITY_KIND_CUDA_EVENT", "streamId correlationId globalPid eventId eventSyncId", 1, record_row},
    {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", GPU_COLUMNS " eventId eventSyncId", 3, sync_row},
    {0},
};

int nsys_gpu_finish(struct nsys *x)
{
    if (x->graph_rows)
        gw_trace_lose(x->t, GW_LOSS_GRAPH_BLOCKS, x->graph_rows, -1);
    return GW_OK;
}
