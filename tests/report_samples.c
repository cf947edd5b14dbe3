/*
 * report_samples.c - reports made by hand, printed by a renderer: for golden files and for the JSON contract.
 *
 *     report_samples list
 *     report_samples NAME terminal|json|html [width=N] [ascii] [all] [colour]
 *
 * The figures are invented to exercise the renderers; they are no measurements.
 */
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/html/html.h"
#include "report/renderer.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define MS INT64_C(1000000)

static const struct gw_report_source source = {"train.json.gz", "kineto", 409672, 12345};
static const struct gw_report unknown_report = {.ranks = -1,
                                                .world_size = -1,
                                                .framework = "",
                                                .profiler = "",
                                                .steps = {0, 0, -1, -1, -1, -1, "none", "", NAN},
                                                .replay_error = NAN,
                                                .profiler_slowdown = NAN,
                                                .verdict = {"none", "outside", ""},
                                                .trust = {1, NULL, 0, NAN, NULL, 0}};

static const struct gw_cause_total sync_causes[] = {{GW_CAUSE_HOST_SYNC, 41656789, 560},
                                                    {GW_CAUSE_LAUNCH, 5357696, 4211},
                                                    {GW_CAUSE_UNEXPLAINED, 546703, 37},
                                                    {GW_CAUSE_KERNEL_GAP, 12, 1}};
static const struct gw_report_device sync_device = {
    .id = 0,
    .rank = -1,
    .name = "NVIDIA H200",
    .whole = {0, 131 * MS, 131 * MS, 62 * MS, 0, 1 * MS, 68 * MS, 0, 40 * MS / 100, 9000},
    .steady = {21660000, 131 * MS, 109340000, 60793040, 0, 985760, 47561200, 0, 41000, 8100},
    .idle_by_cause = sync_causes,
    .cause_count = COUNT(sync_causes),
    .whole_by_cause = sync_causes,
    .whole_cause_count = COUNT(sync_causes)};
static const struct gw_evidence sync_seen[] = {
    {"72 blocking reads a step", 72, "count", "API calls"},
    {"the queue is empty after 70 of them, 71 \xc2\xb5s each", 71000, "ns", "timeline"}};
static const struct gw_where sync_where[] = {{"", 0, "aten::item under aten::norm", 0.6667, 384},
                                             {"train.py", 57, "aten::item under aten::max", 0.3333, 192}};
static const struct gw_fix sync_fix[] = {
    {"keep the value on the GPU and read it every 50 steps: `if step % 50 == 0: log(loss.item())`",
     "gpuwhy diff before.json after.json", ""}};
static const struct gw_evidence launch_against[] = {
    {"kernels are long, 120 \xc2\xb5s on average", 120000, "ns", "kernels"}};
static const struct gw_fix launch_fix[] = {{"compile the model:\n    model = torch.compile(model)",
                                            "the share of launch-bound in idle", "compiling takes minutes"}};
static const struct gw_finding sync_findings[] = {{.id = "host-sync",
                                                   .layer = "kernel_efficiency",
                                                   .phrase = "the code keeps asking the GPU for values and waits",
                                                   .rank = 1,
                                                   .lost_ns = 41656789,
                                                   .share_of_wall = 0.381,
                                                   .share_of_idle = 0.876,
                                                   .now_step_ns = 13600000,
                                                   .then_low_ns = 8800000,
                                                   .then_high_ns = 9800000,
                                                   .gain = {1.39, 1.47, 1.54},
                                                   .confidence = GW_CONF_HIGH,
                                                   .evidence = sync_seen,
                                                   .evidence_count = COUNT(sync_seen),
                                                   .where = sync_where,
                                                   .where_count = COUNT(sync_where),
                                                   .fix = sync_fix,
                                                   .fix_count = COUNT(sync_fix)},
                                                  {.id = "launch-bound",
                                                   .layer = "kernel_efficiency",
                                                   .phrase = "the host issues work more slowly than the GPU does it",
                                                   .rank = 2,
                                                   .lost_ns = 5357696,
                                                   .share_of_wall = 0.049,
                                                   .share_of_idle = 0.113,
                                                   .now_step_ns = -1,
                                                   .then_low_ns = -1,
                                                   .then_high_ns = -1,
                                                   .gain = {NAN, NAN, NAN},
                                                   .confidence = GW_CONF_LOW,
                                                   .evidence = sync_seen,
                                                   .evidence_count = 1,
                                                   .against = launch_against,
                                                   .against_count = 1,
                                                   .fix = launch_fix,
                                                   .fix_count = 1}};
static const struct gw_not_evaluated sync_not[] = {
    {"memory-bandwidth-bound", "hardware counters: gpuwhy run, or an ncu CSV"},
    {"slow-storage", "a live recording: gpuwhy run"},
    {"low-occupancy", "hardware counters: gpuwhy run, or an ncu CSV"},
    {"workers-cpu-bound", "a live recording: gpuwhy run"},
    {"gil-contention", "a live recording: gpuwhy run"},
    {"cpu-oversubscribed", "a live recording: gpuwhy run"},
    {"straggler", "recordings of all ranks"}};
static const struct gw_report_loss sync_losses[] = {
    {"no-sync-events", 1, -1, "the profiler wrote no stream-wait events; dependencies between streams are inferred"}};
static const char *const sync_notes[] = {"eight steps are few: record 100 for a firm figure"};

static const struct gw_report_kernel sync_kernels[] = {{"cutlass_80_tensorop_s1688gemm", "matmul", 48, 5.2e6},
                                                       {"vectorized_elementwise_kernel", "elementwise", 130.5, 2.1e6},
                                                       {"Memcpy DtoH", "memory copy", 72, 150e3}};
static const struct gw_report_kernel sync_classes[] = {{"matmul", "matmul", 48, 5.2e6},
                                                       {"elementwise", "elementwise", 130.5, 2.1e6},
                                                       {"memory copy", "memory copy", 72, 150e3}};
static const int64_t sync_times[] = {16400000, 16500000, 16900000};

static struct gw_report host_sync(void)
{
    struct gw_report r = unknown_report;
    r.sources = &source, r.source_count = 1, r.ranks = 1;
    r.framework = "PyTorch 2.11", r.profiler = "torch.profiler";
    r.devices = &sync_device, r.device_count = 1;
    r.kernels = sync_kernels, r.kernel_count = COUNT(sync_kernels);
    r.kernel_classes = sync_classes, r.kernel_class_count = COUNT(sync_classes);
    r.step_times = sync_times, r.step_time_count = COUNT(sync_times);
    r.steps =
        (struct gw_report_steps){8, 7, 16400000, 16500000, 16900000, 16100000, "annotation", "ProfilerStep#", 0.0};
    r.replay_error = 0.012, r.profiler_slowdown = 1.21;
    r.verdict.finding = "host-sync", r.verdict.layer = "kernel_efficiency";
    r.verdict.sentence = "Your GPU waits 44 % of the time. Main cause: the code keeps asking the GPU for values and "
                         "waits (host-sync). Removing it should bring a step from 13.6 ms to 8.8\xe2\x80\x93"
                         "9.8 ms (1.4\xe2\x80\x93"
                         "1.5\xc3\x97).";
    r.findings = sync_findings, r.finding_count = COUNT(sync_findings);
    r.not_evaluated = sync_not, r.not_evaluated_count = COUNT(sync_not);
    r.trust.losses = sync_losses, r.trust.loss_count = 1, r.trust.notes = sync_notes, r.trust.note_count = 1;
    return r;
}

static const struct gw_cause_total fine_causes[] = {{GW_CAUSE_KERNEL_GAP, 1 * MS, 900}};
static const struct gw_report_device fine_device = {.id = 0,
                                                    .name = "NVIDIA H200",
                                                    .whole = {0, 100 * MS, 100 * MS, 99 * MS, 0, 0, 1 * MS, 0, 0, 900},
                                                    .steady = {0, 100 * MS, 100 * MS, 99 * MS, 0, 0, 1 * MS, 0, 0, 900},
                                                    .idle_by_cause = fine_causes,
                                                    .cause_count = 1,
                                                    .whole_by_cause = fine_causes,
                                                    .whole_cause_count = 1};

static struct gw_report fine(void)
{
    struct gw_report r = unknown_report;
    r.sources = &source, r.source_count = 1, r.ranks = 1, r.framework = "PyTorch 2.11";
    r.devices = &fine_device, r.device_count = 1;
    r.steps = (struct gw_report_steps){1, 1, 100 * MS, 100 * MS, -1, 100 * MS, "kernel-sequence", "gemm", NAN};
    r.verdict.sentence = "This job is fine: the GPU computes 99 % of the time, and nothing found is worth 3 %.";
    return r;
}

/* One GPU that stands for the run, one that does not and was measured in part, one refused, one without any work. */
static const struct gw_report_activity activity[] = {
    {.device = 0, .state = "ended", .why = "", .span_ns = 745000 * MS, .measured_ns = 744000 * MS, .before_ns = 35000 * MS, .after_ns = 0,
     .idle = 0.43, .window_idle = 0.41, .represents = 1, .sm = 0.41, .dram = 0.2, .tensor = 0.15, .shape = "periodic",
     .period_ns = 500 * MS, .depth = 0.9, .duty = 0.4, .interval_ns = 1 * MS, .samples = 700000},
    {.device = 1, .state = "failed", .why = "a call to CUPTI failed", .span_ns = 745000 * MS, .measured_ns = 300000 * MS, .before_ns = 0,
     .after_ns = 5000 * MS, .idle = 0.61, .window_idle = 0.12, .represents = 0, .sm = 0.3, .dram = NAN, .tensor = NAN, .pauses = 3,
     .pause_ns = 41000 * MS, .longest_ns = 20000 * MS, .longest_at = 190000 * MS, .shape = "bursts", .period_ns = -1, .depth = 0.9,
     .duty = 0.5, .interval_ns = -1, .samples = 300000, .overflows = 12},
    {.device = 2, .state = "busy", .why = "another tool holds the hardware counters (DCGM, Nsight)", .idle = NAN, .window_idle = NAN,
     .represents = -1, .sm = NAN, .dram = NAN, .tensor = NAN, .shape = "", .period_ns = -1, .depth = NAN, .duty = NAN, .interval_ns = -1},
    {.device = 3, .state = "ended", .why = "", .span_ns = 10000 * MS, .measured_ns = 10000 * MS, .before_ns = 10000 * MS, .idle = 1,
     .window_idle = NAN, .represents = -1, .sm = NAN, .dram = NAN, .tensor = NAN, .shape = "", .period_ns = -1, .depth = NAN, .duty = NAN,
     .interval_ns = 200000, .samples = 50000}};

static struct gw_report whole_run(void)
{
    struct gw_report r = fine();
    r.activity = activity, r.activity_count = COUNT(activity);
    return r;
}

static const struct gw_report_loss no_gpu_losses[] = {
    {"no-gpu", 1, -1, "no GPU work at all was recorded: record with ProfilerActivity.CUDA"},
    {"truncated", 1, 1234567, "the file ends in the middle of an event; everything before it was read"}};

static struct gw_report no_gpu(void)
{
    struct gw_report r = unknown_report;
    r.sources = &source, r.source_count = 1, r.framework = "PyTorch 2.3";
    r.verdict.finding = "too-little-data";
    r.verdict.sentence = "This recording holds no GPU work, so it cannot say why a GPU waits.";
    r.trust.complete = 0, r.trust.losses = no_gpu_losses, r.trust.loss_count = COUNT(no_gpu_losses);
    return r;
}

static const struct gw_cause_total rank_causes[] = {{GW_CAUSE_DATA_WAIT, 30 * MS, 8},
                                                    {GW_CAUSE_UNEXPLAINED, 4 * MS, 70}};
static struct gw_report_device ranks[20];

static struct gw_report devices(size_t n)
{
    struct gw_report r = fine();
    for (size_t i = 0; i < n && i < COUNT(ranks); i++) {
        int64_t idle = 34 * MS, comm = (int64_t)i * MS;
        ranks[i] = (struct gw_report_device){
            .id = (int64_t)i,
            .name = "NVIDIA H100 80GB HBM3",
            .whole = {0, 200 * MS, 200 * MS, 120 * MS, 0, 0, 80 * MS, 0, 0, 900},
            .steady = {100 * MS, 200 * MS, 100 * MS, 66 * MS - comm, comm, 0, idle, 12 * MS, 3 * MS, 700},
            .idle_by_cause = rank_causes,
            .cause_count = 2,
            .whole_by_cause = rank_causes,
            .whole_cause_count = 2};
    }
    ranks[n - 1].steady = ranks[n - 1].whole = (struct gw_partition){0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    ranks[n - 1].name = "";
    ranks[n - 1].cause_count = ranks[n - 1].whole_cause_count = 0;
    r.devices = ranks, r.device_count = n, r.main_device = 1 % n, r.ranks = (int64_t)n;
    return r;
}

static struct gw_report two_devices(void) { return devices(2); }
static struct gw_report many_devices(void) { return devices(20); }

/* Names as an attacker, a C++ compiler and a broken writer would choose them. */
#define ESC "\033[31mred\033]0;title\007"
static const struct gw_evidence hostile_seen[] = {
    {ESC " </script><script>alert(1)</script> %s%n\r\nforged line", NAN, "1", ESC},
    {"bad bytes \xff\xfe \xc0\xaf \xed\xa0\x80 \xe2\x82", INFINITY, NULL, NULL}};
static const struct gw_where hostile_where[] = {
    {"/home/\xe7\x94\xa8\xe6\x88\xb7/\xe8\xae\xad\xe7\xbb\x83/a very long folder name/that goes on and on/and "
     "on/train.py",
     1234567,
     "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
     "(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
     0.5, 12345678},
    {"", 0,
     "void "
     "cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8>(cutlass_80_wmma_tensorop_"
     "bf16_s161616gemm_bf16_16x16_128x2_tn_align8::Params)",
     NAN, -1},
    {"", 0,
     "\xe5\x8d\xb7\xe7\xa7\xaf\xe5\xb1\x82\xe5\x89\x8d\xe5\x90\x91 "
     "\xe5\x8d\xb7\xe7\xa7\xaf\xe5\xb1\x82\xe5\x8f\x8d\xe5\x90\x91"
     "\xe5\x8d\xb7\xe7\xa7\xaf\xe5\xb1\x82\xe5\x89\x8d\xe5\x90\x91\xe5\x8d\xb7\xe7\xa7\xaf\xe5\xb1\x82\xe5\x8f\x8d\xe5"
     "\x90\x91"
     "\xe5\x8d\xb7\xe7\xa7\xaf\xe5\xb1\x82\xe5\x89\x8d\xe5\x90\x91\xe5\x8d\xb7\xe7\xa7\xaf\xe5\xb1\x82\xe5\x8f\x8d\xe5"
     "\x90\x91",
     0.004, 1},
    {"", 0,
     "right-to-left \xe2\x80\xae"
     "evil\xe2\x80\xac zero\xe2\x80\x8bwidth pile e\xcc\x81\xcc\x81\xcc\x81\xcc\x81 C1 \xc2\x9b"
     "31m",
     0.0, 0}};
static const struct gw_fix hostile_fix[] = {
    {"do `rm -rf / --no-preserve-root; echo a very long piece of code that cannot fit on one line of eighty columns` "
     "never",
     "averyveryverylongwordwithoutanyblankthatcannotfitononelineofeightycolumnsbutmustnotbelosteither", ESC}};
static const struct gw_finding hostile_findings[] = {{.id = ESC,
                                                      .layer = "no-such-layer\033",
                                                      .phrase = ESC,
                                                      .rank = 1,
                                                      .lost_ns = -1,
                                                      .share_of_wall = NAN,
                                                      .share_of_idle = NAN,
                                                      .now_step_ns = -1,
                                                      .then_low_ns = -1,
                                                      .then_high_ns = -1,
                                                      .gain = {NAN, INFINITY, -INFINITY},
                                                      .evidence = hostile_seen,
                                                      .evidence_count = COUNT(hostile_seen),
                                                      .where = hostile_where,
                                                      .where_count = COUNT(hostile_where),
                                                      .fix = hostile_fix,
                                                      .fix_count = 1}};
static const struct gw_report_source hostile_source = {"/tmp/\033[2J\"quoted\\path\"\n.json", "kineto", -1, -1};
static const struct gw_not_evaluated hostile_not[] = {{ESC, NULL}, {"b", ESC}};
static const struct gw_report_loss hostile_losses[] = {{"bad-event", UINT64_MAX, INT64_MAX, NULL}};
static const char *const hostile_notes[] = {ESC, NULL};

static struct gw_report hostile(void)
{
    struct gw_report r = host_sync();
    static struct gw_report_device d;
    d = sync_device;
    d.name = "GPU \xf0\x9f\x94\xa5 " ESC;
    r.devices = &d, r.framework = "Py\033Torch", r.sources = &hostile_source;
    r.steps.count = INT64_MAX, r.steps.median_ns = INT64_MAX, r.steps.p95_ns = INT64_MIN, r.steps.marker = ESC;
    r.verdict.sentence = "GPU " ESC " waits.\nSecond line \xe2\x80\x94 and a dash.";
    r.findings = hostile_findings, r.finding_count = 1;
    r.not_evaluated = hostile_not, r.not_evaluated_count = 2;
    r.trust.losses = hostile_losses, r.trust.loss_count = 1, r.trust.notes = hostile_notes, r.trust.note_count = 2;
    return r;
}

static struct gw_report unknown(void) { return unknown_report; }

static struct gw_report many_findings(void)
{
    static struct gw_finding f[6];
    struct gw_report r = host_sync();
    for (size_t i = 0; i < COUNT(f); i++) {
        f[i] = sync_findings[i % 2];
        f[i].rank = (int)i + 1;
        f[i].gain =
            (struct gw_gain){1.0 + 0.5 / (double)(i + 1), 1.0 + 0.6 / (double)(i + 1), 1.0 + 12.0 / (double)(i + 1)};
    }
    r.findings = f, r.finding_count = COUNT(f);
    return r;
}

static const struct {
    const char *name;
    struct gw_report (*make)(void);
} samples[] = {
    {"host-sync", host_sync},       {"fine", fine},       {"no-gpu", no_gpu},   {"two-devices", two_devices},
    {"many-devices", many_devices}, {"hostile", hostile}, {"unknown", unknown}, {"many-findings", many_findings},
    {"whole-run", whole_run}};

static int render(const struct gw_report *r, int argc, char **argv)
{
    struct gw_render_options o = {.unicode = 1};
    for (int i = 3; i < argc; i++) {
        if (strncmp(argv[i], "width=", 6) == 0)
            o.width = (int)strtol(argv[i] + 6, NULL, 10);
        else if (strcmp(argv[i], "ascii") == 0)
            o.unicode = 0;
        else if (strcmp(argv[i], "all") == 0)
            o.all = 1;
        else if (strcmp(argv[i], "colour") == 0)
            o.colour = 1;
        else
            return 2;
    }
    if (strcmp(argv[2], "json") == 0)
        return gw_render_json(r, stdout) ? 4 : 0;
    if (strcmp(argv[2], "html") == 0)
        return gw_render_html(r, NULL, stdout) ? 4 : 0;
    return gw_render_terminal(r, stdout, &o) ? 4 : 0;
}

int main(int argc, char **argv)
{
    if (!setlocale(LC_CTYPE, "C.UTF-8"))
        return 77;
    for (size_t i = 0; i < COUNT(samples); i++) {
        if (argc == 2 && strcmp(argv[1], "list") == 0)
            puts(samples[i].name);
        if (argc >= 3 && strcmp(argv[1], samples[i].name) == 0) {
            struct gw_report r = samples[i].make();
            return render(&r, argc, argv);
        }
    }
    return argc == 2 ? 0 : 2;
}
