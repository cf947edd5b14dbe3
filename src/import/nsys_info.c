/* What an export says about itself: who wrote it, GPUs, processes, enumerations, thread and stream names, warnings. */
#include "import/nsys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int text_is(const struct nsys_row *r, int col, const char *s)
{
    return r->text_of == (uint32_t)col + 1 && r->text_len == strlen(s) && !memcmp(r->text, s, r->text_len);
}
static int text_has(const struct nsys_row *r, int col, const char *s)
{
    return r->text_of == (uint32_t)col + 1 && memmem(r->text, r->text_len, s, strlen(s)) != NULL;
}

/* ------------------------------------------------------------------ who wrote it */

/* "2025.5.1.121-..." as "Nsight Systems 2025.5.1": the fourth number is a build. */
static void set_profiler(struct nsys *x, const char *version, size_t len)
{
    size_t n = 0;
    for (int dots = 0; n < len && (version[n] == '.' || (version[n] >= '0' && version[n] <= '9')); n++)
        if (version[n] == '.' && ++dots == 3)
            break;
    x->t->facts.profiler = n ? gw_arena_printf(x->t->arena, "Nsight Systems %.*s", (int)n, version) : "Nsight Systems";
}

/* Each row is (name, value); names had no prefix before the table was renamed from EXPORT_META_DATA. */
static void read_versions(struct nsys *x)
{
    static const char *const queries[] = {
        "SELECT value FROM META_DATA_EXPORT WHERE name='EXPORT_PRODUCT_VERSION'",
        "SELECT value FROM EXPORT_META_DATA WHERE name LIKE '%PRODUCT_VERSION'",
        "SELECT value FROM EXPORT_META_DATA WHERE name LIKE '%PRODUCT%VERSION%'",
    };
    x->t->facts.profiler = "Nsight Systems";
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        sqlite3_stmt *st = nsys_prepare(x->db, queries[i]);
        int found = st && sqlite3_step(st) == SQLITE_ROW && sqlite3_column_text(st, 0);
        if (found)
            set_profiler(x, (const char *)sqlite3_column_text(st, 0), (size_t)sqlite3_column_bytes(st, 0));
        sqlite3_finalize(st);
        if (found)
            break;
    }
    if (nsys_has(x, "TARGET_INFO_SESSION_START_TIME"))
        x->t->facts.base_ns = nsys_number(x, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME", 0);
}

/* ------------------------------------------------------------------ enumerations */

static int mem_kind_row(struct nsys *x, const struct nsys_row *r)
{
    static const struct {
        const char *word;
        enum gw_mem mem;
    } words[] = {{"PAGEABLE", GW_MEM_PAGEABLE}, {"PINNED", GW_MEM_PINNED}, {"MANAGED", GW_MEM_MANAGED},
                 {"DEVICE", GW_MEM_DEVICE},     {"ARRAY", GW_MEM_ARRAY},   {"UNKNOWN", GW_MEM_UNKNOWN}};
    if (r->v[0] < 0 || r->v[0] >= NSYS_MEM_KINDS)
        return GW_OK;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (text_has(r, 1, words[i].word)) {
            x->mem_kind[r->v[0]] = (unsigned char)words[i].mem;
            break;
        }
    return GW_OK;
}

static int event_type_row(struct nsys *x, const struct nsys_row *r)
{
    const struct {
        const char *name;
        int64_t *id;
    } names[] = {{"NvtxPushPopRange", &x->nvtx_push_pop},
                 {"NvtxStartEndRange", &x->nvtx_start_end},
                 {"NvtxtPushPopRange", &x->nvtxt_push_pop},
                 {"NvtxtStartEndRange", &x->nvtxt_start_end},
                 {"NvtxDomainCreate", &x->nvtx_domain}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (text_is(r, 1, names[i].name))
            *names[i].id = r->v[0];
    return GW_OK;
}

static void read_enums(struct nsys *x)
{
    /* The numbers of every version that has no ENUM_ table (2021.x), and so far of every one that has. They are not
     * CUPTI's, which start with "unknown". In early 2021 the list ended after "array", with 4 = unknown. */
    static const unsigned char kinds[] = {GW_MEM_PAGEABLE, GW_MEM_PINNED, GW_MEM_DEVICE,  GW_MEM_ARRAY,
                                          GW_MEM_MANAGED,  GW_MEM_DEVICE, GW_MEM_MANAGED, GW_MEM_UNKNOWN};
    memcpy(x->mem_kind, kinds, sizeof kinds);
    if (nsys_has(x, "TARGET_INFO_CUDA_GPU"))
        x->mem_kind[4] = GW_MEM_UNKNOWN;
    nsys_scan(x, &(struct nsys_table){"ENUM_CUDA_MEM_KIND", "id *name", 2, mem_kind_row});
    x->nvtx_push_pop = 59; /* the same in every version that was seen, 2021.1 to 2026.4 */
    x->nvtx_start_end = 60;
    x->nvtxt_push_pop = 70;
    x->nvtxt_start_end = 71;
    x->nvtx_domain = 75;
    nsys_scan(x, &(struct nsys_table){"ENUM_NSYS_EVENT_TYPE", "id *name", 2, event_type_row});
}

/* ------------------------------------------------------------------ processes and devices */

uint32_t nsys_process(struct nsys *x, const struct nsys_row *r, int col)
{
    if (!x->pid_known || nsys_null(r, col))
        return 0;
    uint64_t key = (uint64_t)r->v[col] >> 24; /* hardware, virtual machine and process */
    uint32_t n = nsys_map_get(&x->pids, key, UINT32_MAX);
    if (n == UINT32_MAX) {
        n = x->pid_count;
        if (nsys_map_put(&x->pids, key, n) < 0)
            return 0;
        x->pid_count++;
    }
    return n;
}

/* Without the machine's number a device keeps the process's: in one process, or when all agree, they are the same. */
int64_t nsys_device(const struct nsys *x, int64_t pid, int64_t device)
{
    if (!x->remap)
        return device;
    return nsys_map_get(&x->gpu_of, (uint64_t)pid << 32 | (uint32_t)device, (uint32_t)device);
}

enum { CD_GPU, CD_CUDA, CD_PID };
static int cuda_device_row(struct nsys *x, const struct nsys_row *r)
{
    if (nsys_null(r, CD_GPU))
        return GW_OK;
    /* Key without a process: the first GPU that any process knows by this number. Another one: the numbers differ. */
    uint64_t any = UINT64_MAX << 32 | (uint32_t)r->v[CD_CUDA];
    uint32_t gpu = (uint32_t)r->v[CD_GPU], first = nsys_map_get(&x->gpu_of, any, gpu);
    if (first != gpu)
        x->remap = 1;
    if (nsys_map_put(&x->gpu_of, any, first) < 0)
        return GW_ENOMEM;
    return nsys_map_put(&x->gpu_of, (uint64_t)r->v[CD_PID] << 32 | (uint32_t)r->v[CD_CUDA], gpu);
}

static void read_processes(struct nsys *x)
{
    static const char *const gpu_tables[] = {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY",
                                             "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"};
    x->pid_known = 1;
    for (size_t i = 0; i < sizeof gpu_tables / sizeof *gpu_tables; i++) {
        char sql[96];
        snprintf(sql, sizeof sql, "SELECT 1 FROM %s LIMIT 1", gpu_tables[i]);
        if (nsys_has(x, gpu_tables[i]) && !nsys_has_column(x, gpu_tables[i], "globalPid") && nsys_number(x, sql, 0))
            x->pid_known = 0;
    }
    nsys_scan(x, &(struct nsys_table){"TARGET_INFO_CUDA_DEVICE", "gpuId cudaId pid", 3, cuda_device_row});
}

void nsys_info_before(struct nsys *x)
{
    read_versions(x);
    read_enums(x);
    read_processes(x);
}

/* ------------------------------------------------------------------ after the events */

enum { G_ID, G_NAME, G_MEM, G_SM, G_MAJOR, G_MINOR, G_WARPS, G_THREADS };
static int gpu_row(struct nsys *x, const struct nsys_row *r)
{
    struct gw_device *dev = x->t->devices.data;
    for (size_t i = 0; i < x->t->devices.len; i++) {
        uint64_t any = UINT64_MAX << 32 | (uint32_t)dev[i].id;
        int64_t gpu = x->remap ? dev[i].id : (int64_t)nsys_map_get(&x->gpu_of, any, (uint32_t)dev[i].id);
        if (gpu != r->v[G_ID] || dev[i].name)
            continue;
        dev[i].name = nsys_name(x, r, G_NAME);
        if (r->v[G_MEM] > 0)
            dev[i].memory_bytes = r->v[G_MEM];
        if (r->v[G_SM] > 0 && r->v[G_SM] < INT32_MAX)
            dev[i].sm_count = (int32_t)r->v[G_SM];
        if (r->v[G_MAJOR] > 0 && r->v[G_MAJOR] < 1000 && r->v[G_MINOR] >= 0 && r->v[G_MINOR] < 1000) {
            dev[i].cc_major = (int32_t)r->v[G_MAJOR];
            dev[i].cc_minor = (int32_t)r->v[G_MINOR];
        }
        if (r->v[G_WARPS] > 0 && r->v[G_WARPS] < 4096 && r->v[G_THREADS] > 0 && r->v[G_THREADS] < 4096)
            dev[i].max_threads_per_sm = (int32_t)(r->v[G_WARPS] * r->v[G_THREADS]);
    }
    return GW_OK;
}

/* What a process sees of a GPU: fewer multiprocessors than the GPU has when it runs in a MIG slice. */
enum { CS_GPU, CS_CUDA, CS_SM };
static int slice_row(struct nsys *x, const struct nsys_row *r)
{
    struct gw_device *dev = x->t->devices.data;
    int64_t id = x->remap ? r->v[CS_GPU] : r->v[CS_CUDA];
    for (size_t i = 0; i < x->t->devices.len; i++)
        if (dev[i].id == id && r->v[CS_SM] > 0 && r->v[CS_SM] < INT32_MAX)
            dev[i].sm_count = (int32_t)r->v[CS_SM];
    return GW_OK;
}

static int by_number(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Devices in the order of their numbers, not of their first row. */
static void make_devices(struct nsys *x)
{
    const struct gw_lane *lane = x->t->lanes.data;
    int64_t *id = calloc(x->t->lanes.len + 1, sizeof *id);
    size_t n = 0;
    for (size_t i = 0; id && i < x->t->lanes.len; i++)
        if (lane[i].type == GW_LANE_GPU)
            id[n++] = lane[i].device;
    if (n)
        qsort(id, n, sizeof *id, by_number);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || id[i] != id[i - 1])
            gw_trace_device(x->t, id[i]);
    free(id);
}

static void read_gpus(struct nsys *x)
{
    make_devices(x);
    nsys_scan(
        x, &(struct nsys_table){"TARGET_INFO_GPU",
                                "id *name totalMemory smCount computeMajor computeMinor maxWarpsPerSm threadsPerWarp",
                                1, gpu_row});
    nsys_scan(x, &(struct nsys_table){"TARGET_INFO_CUDA_GPU",
                                      "deviceId *name globalMemorySize numMultiprocessors computeCapabilityMajor "
                                      "computeCapabilityMinor maxWarpsPerMultiprocessor numThreadsPerWarp",
                                      2, gpu_row});
    nsys_scan(x, &(struct nsys_table){"TARGET_INFO_CUDA_DEVICE", "gpuId cudaId numMultiprocessors", 2, slice_row});
}

enum { T_NAME, T_TID };
static int thread_row(struct nsys *x, const struct nsys_row *r)
{
    uint32_t lane = nsys_map_get(&x->thread_of, (uint64_t)r->v[T_TID] & 0xffffffffffffu, GW_NONE);
    if (lane != GW_NONE && !nsys_null(r, T_TID))
        ((struct gw_lane *)x->t->lanes.data)[lane].name = nsys_name(x, r, T_NAME);
    return GW_OK;
}

/* Names only threads that have events; most of a machine's threads have none. */
static void read_threads(struct nsys *x)
{
    const struct gw_lane *lane = x->t->lanes.data;
    for (uint32_t i = 0; i < x->t->lanes.len; i++) {
        uint64_t key = ((uint64_t)lane[i].pid & 0xffffff) << 24 | ((uint64_t)lane[i].tid & 0xffffff);
        if (lane[i].type == GW_LANE_HOST && nsys_map_put(&x->thread_of, key, i) < 0)
            return;
    }
    nsys_scan(x, &(struct nsys_table){"ThreadNames", "nameId globalTid", 2, thread_row});
}

/* nsys writes this warning for a process whose buffers may not all have come in: counted when that process used a GPU.
 */
enum { DE_PID, DE_TEXT };
static int warning_row(struct nsys *x, const struct nsys_row *r)
{
    int ours = nsys_null(r, DE_PID) || nsys_map_get(&x->pids, (uint64_t)r->v[DE_PID] >> 24, UINT32_MAX) != UINT32_MAX;
    if (ours && text_has(r, DE_TEXT, "Not all CUDA events"))
        gw_trace_lose(x->t, GW_LOSS_DROPPED_RECORDS, 1, -1);
    return GW_OK;
}

void nsys_info_after(struct nsys *x)
{
    read_gpus(x);
    read_threads(x);
    nsys_scan(x, &(struct nsys_table){"DIAGNOSTIC_EVENT", "globalPid *text", 0, warning_row});
    if (nsys_has(x, "MPI_RANKS") && nsys_number(x, "SELECT count(DISTINCT rank) FROM MPI_RANKS", 0) == 1)
        x->t->facts.rank = nsys_number(x, "SELECT rank FROM MPI_RANKS", -1);
}
