/*
 * Random timelines through the whole engine: sums are exact, gains and shares in range, whatever the trace. Half of
 * them are noise, half are training loops with random troubles, so that steps are found and diagnoses fire. A failure
 * prints its seed; run the program with that number to repeat it, or with two numbers, first and last, for more than
 * usual.
 */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/timeline.h"
#include "engine_check.h"
#include "model/host_facts.h"
#include "model/kernel_metrics.h"

#define TRACES 2600
#define US INT64_C(1000)
#define MS INT64_C(1000000)

static uint64_t seed;
static uint64_t first = 1, last = TRACES;
static int only; /* seeds were given on the command line */

static uint32_t rnd(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed >> 33) % n);
}

struct maker {
    struct gw_trace *t;
    int64_t shift;
    uint64_t corr;
    uint32_t lane;  /* of the host */
    int64_t gpu[3]; /* per stream: when it is free */
};

static uint32_t name(struct maker *m, const char *s) { return gw_trace_name(m->t, s, strlen(s)); }

static void add(struct maker *m, struct gw_event e)
{
    e.start += m->shift;
    e.end += m->shift;
    assert_int_equal(gw_trace_add(m->t, &e), GW_OK);
}

static void host(struct maker *m, unsigned kind, int64_t start, int64_t length, const char *s)
{
    add(m, (struct gw_event){
               .kind = (uint16_t)kind, .start = start, .end = start + length, .lane = m->lane, .name = name(m, s)});
}

static const char *const host_names[] = {"aten::mm",
                                         "aten::item",
                                         "aten::_local_scalar_dense",
                                         "aten::nonzero",
                                         "aten::cudnn_convolution",
                                         "train_step",
                                         "ProfilerStep#3",
                                         "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
                                         "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                                         "Optimizer.step#SGD.step",
                                         "torch/serialization.py(943): save",
                                         "train.py(57): step",
                                         "checkpoint",
                                         "validation",
                                         "env_step",
                                         "gloo:all_reduce",
                                         "autograd::engine::evaluate_function: MmBackward0",
                                         "torch/_dynamo/convert_frame.py(1): f",
                                         "threading.py(1): wait"};
static const char *const api_names[] = {
    "cudaLaunchKernel", "cudaLaunchKernel", "cudaLaunchKernel",      "cudaMemcpyAsync",       "cudaMemcpy",
    "cudaMemsetAsync",  "cudaGraphLaunch",  "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize",
    "cudaMalloc",       "cudaFree",         "cudaHostAlloc",         "cuModuleLoadData",      "cudaStreamBeginCapture",
    "cudaEventRecord",  "cudaEventQuery",   "cudaStreamIsCapturing"};
static const char *const kernel_names[] = {
    "ampere_sgemm_128x64_nn", "nvjet_hsh_128x256",         "vectorized_elementwise_kernel",
    "reduce_kernel",          "multi_tensor_apply_kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    "embedding_bag_kernel",   "implicit_convolve_sgemm",   "k"};
#define PICK(list) list[rnd(sizeof list / sizeof *list)]

static int64_t length(void)
{
    static const int64_t scale[] = {0, 1, 50, 3000, 40000, 700000, 20000000};
    int64_t s = PICK(scale);
    return s ? (int64_t)rnd((uint32_t)s * 2) : 0;
}

static const int64_t shifts[] = {0, -3000000000, 1700000000000000000};

/* ---- noise ---- */

static void gpu_noise(struct maker *m, int64_t at, uint64_t corr, int linked)
{
    static const unsigned kinds[] = {GW_KIND_KERNEL, GW_KIND_KERNEL, GW_KIND_KERNEL, GW_KIND_KERNEL,
                                     GW_KIND_COPY,   GW_KIND_SET,    GW_KIND_GRAPH,  GW_KIND_GPU_SYNC};
    int64_t start = at + (rnd(9) ? length() : -length()); /* clocks may disagree */
    unsigned kind = PICK(kinds);
    struct gw_event e = {.kind = (uint16_t)kind,
                         .start = start,
                         .end = start + length(),
                         .corr = corr,
                         .arg0 = rnd(3) ? rnd(2000) : rnd(400000000),
                         .arg1 = rnd(1000),
                         .lane = gw_trace_lane_gpu(m->t, rnd(2), rnd(3)),
                         .name = name(m, PICK(kernel_names))};
    e.flags = (uint16_t)((linked ? GW_EV_HAS_CORR : 0) | (rnd(4) ? GW_EV_HAS_ARG0 : 0) | (rnd(4) ? GW_EV_HAS_ARG1 : 0));
    e.sub = kind == GW_KIND_COPY ? gw_copy_sub((enum gw_mem)rnd(7), (enum gw_mem)rnd(7)) : rnd(1025);
    add(m, e);
}

static void make_host(struct maker *m, int64_t span);

static void make_noise(struct maker *m)
{
    static const unsigned kinds[] = {GW_KIND_OP,   GW_KIND_OP,   GW_KIND_ANNOT,   GW_KIND_PYFUNC,
                                     GW_KIND_OSRT, GW_KIND_STEP, GW_KIND_OVERHEAD};
    size_t n = rnd(90);
    int64_t span = 1 + length();
    for (size_t i = 0; i < n; i++) {
        int64_t at = (int64_t)rnd(1000) * span / 50 + (rnd(900) ? 0 : 1600000000000000000);
        m->lane = gw_trace_lane_host(m->t, rnd(8) ? 1 : 2, rnd(3));
        if (rnd(2))
            host(m, PICK(kinds), at, length(), PICK(host_names));
        if (rnd(40) == 0) {
            m->lane = gw_trace_lane_host(m->t, -1, 0);
            host(m, GW_KIND_OVERHEAD, at, length(), rnd(2) ? "Activity Buffer Flush" : "Command Buffer Full");
            continue;
        }
        int linked = rnd(5) != 0;
        uint64_t corr = rnd(6) ? m->corr++ : rnd(5); /* some ids are used twice */
        if (rnd(4))
            add(m, (struct gw_event){.kind = GW_KIND_API,
                                     .start = at,
                                     .end = at + length(),
                                     .corr = corr,
                                     .lane = m->lane,
                                     .name = name(m, PICK(api_names)),
                                     .flags = linked ? GW_EV_HAS_CORR : 0});
        if (rnd(3))
            gpu_noise(m, at, corr, linked);
    }
    if (rnd(6) == 0)
        make_host(m, span + MS);
}

/* ---- a training loop with troubles ---- */

struct loop {
    int64_t now;
    unsigned troubles; /* bits, see step() */
    int64_t busy;      /* length of a kernel */
};

static void launch(struct maker *m, struct loop *l, unsigned stream, int64_t ns, const char *kernel, unsigned blocks)
{
    uint64_t corr = ++m->corr;
    add(m, (struct gw_event){.kind = GW_KIND_API,
                             .start = l->now,
                             .end = l->now + 4 * US,
                             .corr = corr,
                             .lane = m->lane,
                             .name = name(m, "cudaLaunchKernel"),
                             .flags = GW_EV_HAS_CORR});
    int64_t start = l->now + 8 * US > m->gpu[stream] ? l->now + 8 * US : m->gpu[stream] + (int64_t)rnd(2000);
    add(m, (struct gw_event){.kind = GW_KIND_KERNEL,
                             .start = start,
                             .end = start + ns,
                             .corr = corr,
                             .arg0 = blocks,
                             .sub = 128,
                             .lane = gw_trace_lane_gpu(m->t, 0, stream),
                             .name = name(m, kernel),
                             .flags = GW_EV_HAS_CORR | GW_EV_HAS_ARG0});
    m->gpu[stream] = start + ns;
    l->now += 5 * US + (int64_t)rnd(10000);
}

static void sync(struct maker *m, struct loop *l, const char *call)
{
    int64_t until = m->gpu[0];
    for (int i = 1; i < 3; i++)
        until = m->gpu[i] > until ? m->gpu[i] : until;
    until = (until > l->now ? until : l->now) + 2 * US;
    host(m, GW_KIND_API, l->now, until - l->now, call);
    l->now = until;
}

static void copy(struct maker *m, struct loop *l, enum gw_mem from, enum gw_mem to, uint64_t bytes, int blocking)
{
    uint64_t corr = ++m->corr;
    int64_t start = l->now + 8 * US > m->gpu[0] ? l->now + 8 * US : m->gpu[0],
            end = start + (int64_t)(bytes / 10) + 2 * US;
    add(m, (struct gw_event){.kind = GW_KIND_API,
                             .start = l->now,
                             .end = blocking ? end + US : l->now + 6 * US,
                             .corr = corr,
                             .lane = m->lane,
                             .name = name(m, "cudaMemcpyAsync"),
                             .flags = GW_EV_HAS_CORR});
    add(m, (struct gw_event){.kind = GW_KIND_COPY,
                             .start = start,
                             .end = end,
                             .corr = corr,
                             .arg0 = bytes,
                             .sub = gw_copy_sub(from, to),
                             .lane = gw_trace_lane_gpu(m->t, 0, 0),
                             .name = name(m, "Memcpy"),
                             .flags = GW_EV_HAS_CORR | GW_EV_HAS_ARG0});
    m->gpu[0] = end;
    l->now = blocking ? end + US : l->now + 8 * US;
}

static void waits(struct maker *m, struct loop *l, unsigned kind, const char *s, int64_t most)
{
    int64_t ns = (int64_t)rnd((uint32_t)most);
    host(m, kind, l->now, ns, s);
    l->now += ns;
}

static void step(struct maker *m, struct loop *l, unsigned i)
{
    char mark[32];
    int64_t from = l->now;
    unsigned w = l->troubles;
    if (w & 1u << 0)
        waits(m, l, GW_KIND_OP, host_names[7 + rnd(2)], 8000000);
    if (w & 1u << 1)
        copy(m, l, GW_MEM_PAGEABLE, GW_MEM_DEVICE, rnd(20000000), 1);
    if (w & 1u << 2)
        copy(m, l, GW_MEM_PINNED, GW_MEM_DEVICE, rnd(20000000), (int)rnd(2));
    if (w & 1u << 3)
        waits(m, l, GW_KIND_PYFUNC, "train.py(12): tokenize", 6000000);
    if ((w & 1u << 4) && rnd(4) == 0)
        waits(m, l, GW_KIND_PYFUNC, PICK(host_names), 90000000);
    for (unsigned k = 0, n = 3 + rnd(8); k < n; k++)
        launch(m, l, 0, l->busy + (int64_t)rnd((uint32_t)l->busy + 1), kernel_names[k % 9],
               w & 1u << 5 ? 16 : 16 + rnd(4000));
    if (w & 1u << 6)
        launch(m, l, 2, (int64_t)rnd(2000000), "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 24);
    if (w & 1u << 7) {
        host(m, GW_KIND_OP, l->now, 30 * US, "aten::item");
        copy(m, l, GW_MEM_DEVICE, GW_MEM_PINNED, 4, 0);
        sync(m, l, "cudaStreamSynchronize");
    }
    if (w & 1u << 8) {
        waits(m, l, GW_KIND_API, "cudaFree", 600000);
        waits(m, l, GW_KIND_API, "cudaMalloc", 600000);
    }
    if (w & 1u << 9)
        waits(m, l, GW_KIND_API, rnd(2) ? "cudaHostAlloc" : "cuModuleLoadData", 900000);
    if (w & 1u << 10) {
        int64_t at = l->now;
        for (unsigned k = 0; k < 70; k++)
            launch(m, l, 0, 2 * US, "vectorized_elementwise_kernel", 8);
        host(m, GW_KIND_ANNOT, at, l->now - at, "Optimizer.step#Adam.step");
    }
    if (w & 1u << 11)
        sync(m, l, "cudaDeviceSynchronize");
    if (w & 1u << 12) {
        snprintf(mark, sizeof mark, "ProfilerStep#%u", i);
        host(m, GW_KIND_ANNOT, from, l->now - from, mark);
    }
}

/* ---- what `gpuwhy run` sees beside the GPU ---- */

static const char *const stacks[] = {
    "",
    "train.py(12): tokenize\ntrain.py(80): main",
    "select.py(1): wait\ntorch/utils/data/dataloader.py(701): __next__",
    "data.py(9): decode\ntorch/utils/data/_utils/fetch.py(52): fetch\ntorch/utils/data/_utils/worker.py(300): _worker_loop",
    "multiprocessing/queues.py(10): get\ntorch/utils/data/_utils/worker.py(300): _worker_loop",
    "torch/serialization.py(943): save"};
static const char *const counters[] = {"nvml.utilization_percent",
                                       "nvml.sm_clock_mhz",
                                       "nvml.power_w",
                                       "nvml.temperature_c",
                                       "nvml.clock_reasons",
                                       "nvml.memory_used_bytes",
                                       "nvml.process_bytes",
                                       "gpm.graphics_percent",
                                       "gpm.sm_percent",
                                       "gpm.tensor_percent",
                                       "gpm.fp32_percent",
                                       "gpm.dram_percent",
                                       "host.cpu_idle_s",
                                       "cgroup.periods",
                                       "cgroup.throttled_periods",
                                       "host.memory_available_bytes",
                                       "cgroup.memory_bytes",
                                       "process.rchar",
                                       "process.read_bytes",
                                       "psi.io_some_us"};

static double value(void)
{
    return rnd(30) == 0 ? NAN : rnd(20) == 0 ? 1e30 : rnd(3) ? rnd(101) : (double)rnd(1u << 30) * 200;
}

static void samples(struct maker *m, int64_t pid, int64_t span)
{
    static const uint32_t states[] = {GW_TS_RUNNING, GW_TS_RUNNING, GW_TS_POLL, GW_TS_DISK,    GW_TS_FILE,
                                      GW_TS_FUTEX,   GW_TS_GIL,     GW_TS_NAP,  GW_TS_UNKNOWN, GW_TS_STOPPED};
    uint32_t lane = gw_trace_lane_host(m->t, pid, pid), state = PICK(states);
    for (int64_t at = -(int64_t)rnd(40) * MS, n = 0; at < span && n < 60; n++) {
        int64_t ns = (int64_t)rnd(50) * MS, cpu = ns ? (int64_t)rnd((uint32_t)ns + 1) : 0;
        const char *stack = PICK(stacks);
        for (const char *f = stack; *f;) { /* frames have names of their own */
            size_t len = strcspn(f, "\n");
            gw_trace_name(m->t, f, len);
            f += len + (f[len] == '\n');
        }
        add(m, (struct gw_event){.kind = GW_KIND_SAMPLE,
                                 .start = at,
                                 .end = at + ns,
                                 .sub = rnd(4) ? state : PICK(states),
                                 .lane = lane,
                                 .arg1 = name(m, stack),
                                 .corr = gw_sample_pack((uint64_t)cpu, (uint64_t)(ns - cpu)),
                                 .flags = (uint16_t)((*stack ? GW_EV_HAS_ARG1 : 0) | (rnd(5) ? GW_EV_HAS_CORR : 0))});
        at += ns + (int64_t)rnd(10) * MS + 1;
    }
}

/* Steps of two optimizers: many alike, some long, some together, some whose number is lost, a clock that is set back. */
static void make_steps(struct maker *m, struct gw_host_facts *h, int64_t span)
{
    struct gw_host_steps *s = gw_arena_calloc(m->t->arena, 2, sizeof *s);
    h->steps = s;
    h->steps_count = rnd(3);
    for (size_t i = 0; i < h->steps_count; i++) {
        size_t n = rnd(300);
        struct gw_host_step *row = gw_arena_calloc(m->t->arena, n, sizeof *row);
        int64_t at = m->shift, each = span / 300 + 1;
        for (size_t k = 0; k < n; k++) {
            at += rnd(200) ? (int64_t)rnd(2) + each * (rnd(8) ? 1 : (int64_t)rnd(9)) : -each * 20;
            row[k] = (struct gw_host_step){at, rnd(10) ? 1 : (int64_t)rnd(50)};
        }
        s[i] = (struct gw_host_steps){.pid = rnd(5) ? 1 : 2, .optimizer = (int)i, .row = row, .count = n};
    }
}

static void make_host(struct maker *m, int64_t span)
{
    struct gw_arena *a = m->t->arena;
    struct gw_host_facts *h = gw_arena_alloc(a, sizeof *h);
    size_t n = 1 + rnd(6);
    struct gw_host_process *p = gw_arena_calloc(a, n, sizeof *p);
    struct gw_host_gpu *g = gw_arena_calloc(a, 1, sizeof *g);
    struct gw_host_loader *l = gw_arena_calloc(a, 1, sizeof *l);
    *h = (struct gw_host_facts){.from = m->shift,
                                .to = m->shift + span,
                                .cpus_online = (int)rnd(40) - 1,
                                .cpu_limit = rnd(2) ? NAN : (double)rnd(8),
                                .memory_bytes = value(),
                                .memory_limit_bytes = rnd(2) ? NAN : value(),
                                .trainer = rnd(4) ? 1 : -1,
                                .process = p,
                                .process_count = n,
                                .gpu = g,
                                .gpu_count = rnd(2),
                                .loader = l,
                                .loader_count = rnd(2),
                                .hook = (int)rnd(2),
                                .anomaly = (int)rnd(3) - 1,
                                .launch_blocking = (int)rnd(3) - 1,
                                .omp_threads = (int)rnd(9) - 1,
                                .recorded_ns = span};
    for (size_t i = 0; i < n; i++) {
        p[i] = (struct gw_host_process){.pid = (int64_t)i + 1,
                                        .ppid = i ? 1 : 0,
                                        .start = m->shift - (int64_t)rnd(50) * MS,
                                        .name = "python",
                                        .end = rnd(3) ? INT64_MAX : m->shift + (int64_t)rnd(400) * MS,
                                        .role = i ? rnd(GW_HR_COUNT) : GW_HR_TRAINER,
                                        .uses_cuda = !i,
                                        .cpus_allowed = (int)rnd(20) - 1,
                                        .rss_first = value(),
                                        .rss_last = value(),
                                        .shared_last = value()};
        if (i || rnd(2))
            samples(m, p[i].pid, span);
    }
    g[0] = (struct gw_host_gpu){
        .memory_bytes = value(), .sm_clock_max_mhz = value(), .power_limit_w = value(), .power_default_w = value()};
    l[0] = (struct gw_host_loader){.pid = 1,
                                   .is_distributed = (int)rnd(3) - 1,
                                   .is_iterable = (int)rnd(3) - 1,
                                   .sampler = rnd(2) ? "S" : NULL,
                                   .epochs = rnd(4),
                                   .set_epoch_calls = rnd(3),
                                   .length = (int64_t)rnd(9) - 1};
    for (size_t i = 0, all = rnd(120); i < all; i++) {
        int64_t at = (int64_t)rnd(500) * (span / 400);
        add(m, (struct gw_event){.kind = GW_KIND_COUNTER,
                                 .start = at,
                                 .end = at,
                                 .arg0 = gw_counter_bits(value()),
                                 .lane = gw_trace_lane_counter(m->t, (int64_t)rnd(3) - 1, (int64_t)rnd(4) - 1),
                                 .flags = GW_EV_HAS_ARG0,
                                 .name = name(m, PICK(counters))});
    }
    make_steps(m, h, span);
    m->t->host = h;
}

static void make_loop(struct maker *m)
{
    struct loop l = {.now = 0, .troubles = rnd(1u << 13), .busy = 1 + (int64_t)rnd(rnd(2) ? 20000 : 900000)};
    if (rnd(4) == 0)
        l.troubles &= 1u << rnd(12) | 1u << 12; /* one trouble alone */
    m->lane = gw_trace_lane_host(m->t, 1, 1);
    unsigned jump = rnd(60); /* the clock may jump, by 50 years at the worst: from 0 to the epoch */
    for (unsigned i = 0, n = 2 + rnd(9); i < n; i++) {
        step(m, &l, i);
        if (i == jump)
            l.now += rnd(2) ? 1600000000000000000 : 100000 * MS;
    }
    if (rnd(3) == 0)
        make_host(m, l.now < 100000 * MS ? l.now : MS);
    if (rnd(2))
        m->t->facts.profiler = rnd(3) ? "torch.profiler" : "gpuwhy run";
    if (rnd(2))
        m->t->facts.world_size = 2;
    struct gw_device *d = gw_trace_device(m->t, 0);
    if (d && rnd(3)) {
        d->sm_count = 132;
        d->cc_major = 9;
        d->cc_minor = 0;
    }
}

/* Rows of Nsight Compute: of some of the kernels, of none of them, with metrics missing or beyond 100 %. */
static void make_counters(struct maker *m)
{
    for (unsigned i = 0, n = 1 + rnd(12); i < n; i++) {
        struct gw_kernel_sample s = {.launches = 1 + rnd(9), .duration_ns = rnd(5) ? (double)length() : NAN};
        for (int k = 0; k < GW_KM_COUNT; k++)
            s.value[k] = rnd(4) == 0 ? NAN : rnd(20) == 0 ? 1e12 : k == GW_KM_WAVES ? rnd(300) / 100.0 : rnd(110);
        assert_int_equal(gw_kernel_metrics_add(m->t, name(m, rnd(4) ? PICK(kernel_names) : PICK(host_names)), &s), 0);
    }
}

static struct gw_trace *make(uint64_t number, int64_t shift)
{
    struct maker m = {.t = gw_trace_create(0), .shift = shift, .corr = 10};
    seed = number * 2654435761u + 7;
    if (number % 2)
        make_noise(&m);
    else
        make_loop(&m);
    if (rnd(3) == 0)
        make_counters(&m);
    assert_int_equal(gw_trace_finish(m.t), GW_OK);
    return m.t;
}

/* ---- checks ---- */

static void check_windows(const struct gw_analysis *an, uint64_t number)
{
    for (size_t i = 0; i < an->ndev; i++) {
        const struct gw_dev *d = an->dev + i;
        for (int k = 0; k < 4; k++) {
            int64_t wall = d->whole.wall,
                    a = d->whole.start + (wall ? (int64_t)((double)wall * (rnd(1200) / 1000.0 - 0.1)) : 0);
            int64_t b = a + (int64_t)((double)wall * (rnd(1200) / 1000.0));
            struct gw_partition p = gw_timeline_partition(an->t, an->names, d->ops, d->nops, a, b, NULL, NULL);
            if (p.compute + p.comm_exposed + p.copy_exposed + p.idle != b - a || p.compute < 0 || p.idle < 0)
                fail_msg("seed %" PRIu64 ": window [%" PRId64 ", %" PRId64 ") does not add up", number, a, b);
        }
    }
}

static void check_one(uint64_t number)
{
    char why[256];
    struct gw_trace *t = make(number, shifts[number % 3]);
    struct gw_arena *a = gw_arena_create(0);
    const struct gw_analysis *an = gw_analyse(t, a);
    const struct gw_report *r = an ? gw_diagnose(an, a) : NULL;
    if (!r)
        fail_msg("seed %" PRIu64 ": no %s", number, an ? "report" : "analysis");
    if (engine_check(an, r, why, sizeof why) < 0)
        fail_msg("seed %" PRIu64 ": %s", number, why);
    check_windows(an, number);
    gw_arena_destroy(a);
    gw_trace_destroy(t);
}

static void test_promises(void **state)
{
    (void)state;
    for (uint64_t i = first; i <= last; i++)
        check_one(i);
}

/* Where zero lies on the clock changes nothing: same causes to the nanosecond, same findings, same gains. */
static void test_shift(void **state)
{
    (void)state;
    for (uint64_t number = only ? first : 1; number <= (only ? last : 600); number++) {
        struct gw_trace *t[3];
        struct gw_arena *a[3];
        const struct gw_analysis *an[3];
        const struct gw_report *r[3];
        for (int k = 0; k < 3; k++) {
            t[k] = make(number, shifts[k]);
            a[k] = gw_arena_create(0);
            an[k] = gw_analyse(t[k], a[k]);
            r[k] = gw_diagnose(an[k], a[k]);
            assert_non_null(r[k]);
        }
        for (int k = 1; k < 3; k++) {
            for (size_t d = 0; d < an[0]->ndev; d++)
                for (unsigned c = 0; c < GW_CAUSE_COUNT; c++)
                    if (an[0]->dev[d].cause_ns[c] != an[k]->dev[d].cause_ns[c])
                        fail_msg("seed %" PRIu64 " shifted by %" PRId64 ": %s is %" PRId64 ", was %" PRId64, number,
                                 shifts[k], gw_cause_id(c), an[k]->dev[d].cause_ns[c], an[0]->dev[d].cause_ns[c]);
            if (strcmp(r[0]->verdict.finding, r[k]->verdict.finding) || r[0]->finding_count != r[k]->finding_count)
                fail_msg("seed %" PRIu64 " shifted by %" PRId64 ": verdict %s, was %s", number, shifts[k],
                         r[k]->verdict.finding, r[0]->verdict.finding);
            for (size_t f = 0; f < r[0]->finding_count; f++)
                if (fabs(r[0]->findings[f].gain.likely - r[k]->findings[f].gain.likely) > 1e-6)
                    fail_msg("seed %" PRIu64 " shifted by %" PRId64 ": %s gains %g, was %g", number, shifts[k],
                             r[k]->findings[f].id, r[k]->findings[f].gain.likely, r[0]->findings[f].gain.likely);
        }
        for (int k = 0; k < 3; k++) {
            gw_arena_destroy(a[k]);
            gw_trace_destroy(t[k]);
        }
    }
}

/* Memory that ends at any point gives no report, and nothing worse. */
static void test_memory_ends(void **state)
{
    (void)state;
    int none = 0, some = 0;
    for (uint64_t number = 2; number <= 24 && !only; number += 2) {
        struct gw_trace *t = make(number, 0);
        for (size_t cap = 1000, got = 0; !got && cap < 100000000; cap += cap < 400000 ? 9000 : cap / 3) {
            struct gw_arena *a = gw_arena_create(cap);
            const struct gw_analysis *an = gw_analyse(t, a);
            const struct gw_report *r = an ? gw_diagnose(an, a) : NULL;
            char why[256];
            if (r && engine_check(an, r, why, sizeof why) < 0)
                fail_msg("seed %" PRIu64 " with %zu bytes: %s", number, cap, why);
            got = r != NULL;
            none += !got;
            some += r != NULL;
            gw_arena_destroy(a);
        }
        gw_trace_destroy(t);
    }
    assert_true(only || (none > 20 && some == 12));
}

/* The generator is worth something only while the traces it makes reach the diagnoses. */
static void test_generator(void **state)
{
    (void)state;
    int steps = 0, fired = 0, devices = 0;
    char seen[64][48];
    size_t ids = 0;
    for (uint64_t number = 1; number <= 1200 && !only; number++) {
        struct gw_trace *t = make(number, 0);
        struct gw_arena *a = gw_arena_create(0);
        const struct gw_analysis *an = gw_analyse(t, a);
        const struct gw_report *r = gw_diagnose(an, a);
        steps += an->steps.count >= 3;
        devices += an->ndev > 1;
        for (size_t i = 0; i < r->finding_count; i++) {
            size_t k = 0;
            while (k < ids && strcmp(seen[k], r->findings[i].id))
                k++;
            if (k == ids && ids < 64)
                snprintf(seen[ids++], sizeof seen[0], "%s", r->findings[i].id);
            fired++;
        }
        gw_arena_destroy(a);
        gw_trace_destroy(t);
    }
    if (!only)
        print_message("1200 traces: %d with steps, %d with several devices, %d findings of %zu kinds\n", steps, devices,
                      fired, ids);
    assert_true(only || (steps > 200 && devices > 200 && fired > 500 && ids >= 12));
}

int main(int argc, char **argv)
{
    only = argc > 1;
    if (only) {
        first = strtoull(argv[1], NULL, 10);
        last = argc > 2 ? strtoull(argv[2], NULL, 10) : first;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_promises),
        cmocka_unit_test(test_shift),
        cmocka_unit_test(test_memory_ends),
        cmocka_unit_test(test_generator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
