/* Rows of counters: GPU metrics that were sampled beside the trace, and device memory in use. */
#include "import/nsys.h"

#include <stdlib.h>
#include <string.h>

struct nsys_series {
    uint32_t name, lane;
    int64_t n; /* samples since the last event */
    double sum;
};

static int add_counter(struct nsys *x, uint32_t name, uint32_t lane, int64_t at, double value)
{
    struct gw_event e = {
        .start = at, .end = at, .name = name, .lane = lane, .kind = GW_KIND_COUNTER, .flags = GW_EV_HAS_ARG0};
    memcpy(&e.arg0, &value, sizeof value);
    x->other_rows++;
    return nsys_add(x, &e);
}

/* The GPU that a metric was sampled on: the low byte of the type's serialised id. */
static int64_t metric_device(const struct nsys *x, int64_t type)
{
    int64_t gpu = type & 0xff;
    for (int64_t cuda = 0; cuda < 64 && !x->remap; cuda++)
        if (nsys_map_get(&x->gpu_of, UINT64_MAX << 32 | (uint32_t)cuda, UINT32_MAX) == (uint32_t)gpu)
            return cuda;
    return gpu;
}

/* TARGET_INFO_GPU_METRICS names what GPU_METRICS numbers. The unit is in the name: "SMs Active [Throughput %]". */
enum { N_TYPE, N_METRIC, N_NAME };
static int metric_name_row(struct nsys *x, const struct nsys_row *r)
{
    uint64_t key = (uint64_t)r->v[N_TYPE] * 1024 + (uint64_t)r->v[N_METRIC];
    if (nsys_map_get(&x->series_of, key, UINT32_MAX) != UINT32_MAX)
        return GW_OK;
    if (!x->series.size)
        gw_array_init(&x->series, sizeof(struct nsys_series), 65536);
    struct nsys_series *s = gw_array_push(&x->series);
    if (!s)
        return GW_OK;
    s->name = nsys_name(x, r, N_NAME);
    s->lane = gw_trace_lane_counter(x->t, metric_device(x, r->v[N_TYPE]), 0);
    return nsys_map_put(&x->series_of, key, (uint32_t)(x->series.len - 1));
}

/* Samples come every 100 us, thirty metrics at a time. When that is more than can be kept, so many consecutive ones of
 * a metric become their mean, at the time of the last. */
enum { M_TIME, M_TYPE, M_METRIC, M_VALUE };
static int metric_row(struct nsys *x, const struct nsys_row *r)
{
    uint64_t key = (uint64_t)r->v[M_TYPE] * 1024 + (uint64_t)r->v[M_METRIC];
    uint32_t i = nsys_map_get(&x->series_of, key, UINT32_MAX);
    double value;
    if (i == UINT32_MAX || nsys_null(r, M_TIME) || nsys_null(r, M_VALUE))
        return GW_OK;
    struct nsys_series *s = (struct nsys_series *)x->series.data + i;
    memcpy(&value, &r->v[M_VALUE], sizeof value);
    s->sum += value;
    if (++s->n < x->metric_stride)
        return GW_OK;
    value = s->sum / (double)s->n;
    s->n = 0;
    s->sum = 0;
    return add_counter(x, s->name, s->lane, r->v[M_TIME], value);
}

/* cudaMalloc and cudaFree of device memory, added up: what the job holds on each device. */
enum { U_TIME, U_PID, U_DEVICE, U_BYTES, U_KIND, U_OPER };
static int memory_row(struct nsys *x, const struct nsys_row *r)
{
    static const char name[] = "device memory allocated [B]";
    if (nsys_null(r, U_OPER) || r->v[U_KIND] < 0 || r->v[U_KIND] >= NSYS_MEM_KINDS ||
        x->mem_kind[r->v[U_KIND]] != GW_MEM_DEVICE || r->v[U_OPER] > 1)
        return GW_OK;
    int64_t dev = nsys_device(x, nsys_pid(r->v[U_PID]), r->v[U_DEVICE]);
    uint64_t key = UINT64_C(1) << 63 | (uint64_t)dev;
    uint32_t i = nsys_map_get(&x->series_of, key, UINT32_MAX);
    if (i == UINT32_MAX) {
        if (!x->series.size)
            gw_array_init(&x->series, sizeof(struct nsys_series), 65536);
        struct nsys_series *s = gw_array_push(&x->series);
        if (!s)
            return GW_OK;
        s->name = gw_trace_name(x->t, name, sizeof name - 1);
        s->lane = gw_trace_lane_counter(x->t, dev, 0);
        i = (uint32_t)(x->series.len - 1);
        if (nsys_map_put(&x->series_of, key, i) < 0)
            return GW_ENOMEM;
    }
    struct nsys_series *s = (struct nsys_series *)x->series.data + i;
    s->sum += r->v[U_OPER] == 0 ? (double)r->v[U_BYTES] : -(double)r->v[U_BYTES]; /* 0 allocation, 1 release */
    return add_counter(x, s->name, s->lane, r->v[U_TIME], s->sum);
}

const struct nsys_table nsys_metric_tables[] = {
    {"TARGET_INFO_GPU_METRICS", "typeId metricId *metricName", 3, metric_name_row},
    {"GPU_METRICS", "timestamp typeId metricId #value", 4, metric_row},
    {"CUDA_GPU_MEMORY_USAGE_EVENTS", "start globalPid deviceId bytes memKind memoryOperationType", 1, memory_row},
    {0},
};

int nsys_metrics_finish(struct nsys *x)
{
    (void)x; /* an unfinished mean at the end stands for less time than the others: it is left out */
    return GW_OK;
}
