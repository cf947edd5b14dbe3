/* What the Nsight Compute importer makes of each shape of output, and how rows of kernel metrics combine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "import/gw_stream.h"
#include "import/ncu.h"

static struct gw_error error;
static size_t block_bytes = 64; /* lines cross blocks */

static struct gw_trace *read_bytes(const char *data, size_t len)
{
    struct gw_trace *t = gw_trace_create(0);
    struct gw_stream_options so = {.block_bytes = block_bytes};
    error = (struct gw_error){0};
    struct gw_stream *s = gw_stream_memory(data, len, &so, NULL);
    assert_non_null(t);
    assert_non_null(s);
    int rc = gw_importer_ncu.read_stream(t, s, "x.csv", NULL, &error);
    gw_stream_close(s);
    if (rc < 0) {
        assert_int_equal(rc, error.code);
        gw_trace_destroy(t);
        return NULL;
    }
    return t;
}
static struct gw_trace *read_text(const char *text) { return read_bytes(text, strlen(text)); }
static void done(struct gw_trace *t) { gw_trace_destroy(t); }
static const struct gw_kernel_metrics *row(const struct gw_trace *t, const char *name)
{
    for (size_t i = 0; i < gw_kernel_metrics_count(t); i++)
        if (!strcmp(gw_trace_text(t, gw_kernel_metrics_at(t, i)->name), name))
            return gw_kernel_metrics_at(t, i);
    fail_msg("no row %s", name);
    return NULL;
}
static void check(const struct gw_kernel_metrics *m, enum gw_km k, double want)
{
    double got = gw_kernel_metric(m, k);
    if (!(fabs(got - want) < 1e-9 * (1 + fabs(want))))
        fail_msg("%s: want %g, got %g", gw_km_id(k), want, got);
}
static void check_none(const struct gw_kernel_metrics *m, enum gw_km k)
{
    if (!isnan(gw_kernel_metric(m, k)))
        fail_msg("%s: want nothing, got %g", gw_km_id(k), gw_kernel_metric(m, k));
}

#define LONG_HEAD                                                                                                  \
    "\"ID\",\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\"Context\",\"Stream\",\"Block "         \
    "Size\",\"Grid Size\",\"Device\","                                                                             \
    "\"CC\",\"Section Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\",\"Rule Name\",\"Rule Type\",\"Rule " \
    "Description\"\n"
#define LONG_ROW(id, kernel, section, name, unit, value)                                                              \
    "\"" id "\",\"77\",\"app\",\"h\",\"" kernel                                                                       \
    "\",\"1\",\"7\",\"(256, 1, 1)\",\"(128, 2, 1)\",\"0\",\"9.0\",\"" section "\",\"" name "\",\"" unit "\",\"" value \
    "\",\"\",\"\",\"\"\n"

static void details_csv(void **state)
{
    (void)state;
    struct gw_trace *t = read_text(
        "==PROF== Connected to process 77 (/usr/bin/app)\n"
        "step 1, loss 0.3, lr 1e-3\n" /* the job's own output */
        "==PROF== Profiling \"gemm\" - 0: 0%....50%....100% - 8 passes\n" LONG_HEAD LONG_ROW(
            "0", "gemm(float *, int)", "GPU Speed Of Light Throughput", "Duration", "usecond", "2.00")
            LONG_ROW("0", "gemm(float *, int)", "GPU Speed Of Light Throughput", "Compute (SM) Throughput", "%",
                     "80.00") LONG_ROW("0", "gemm(float *, int)", "GPU Speed Of Light Throughput", "Memory Throughput",
                                       "%", "30.5")
                LONG_ROW("0", "gemm(float *, int)", "GPU Speed Of Light Throughput", "DRAM Throughput", "%", "20")
                    LONG_ROW("0", "gemm(float *, int)", "Memory Workload Analysis", "Memory Throughput", "Gbyte/second",
                             "900.1") LONG_ROW("0", "gemm(float *, int)", "Occupancy", "Achieved Occupancy", "%", "50")
                        LONG_ROW("0", "gemm(float *, int)", "SpeedOfLight", "", "", "")
                            LONG_ROW("1", "gemm(float *, int)", "GPU Speed Of Light Throughput", "Duration", "usecond",
                                     "6.00") LONG_ROW("1", "gemm(float *, int)", "GPU Speed Of Light Throughput",
                                                      "Compute (SM) Throughput", "%", "40.00")
                                LONG_ROW("1", "gemm(float *, int)", "Launch Statistics", "Waves Per SM", "", "0.25")
                                    LONG_ROW("2", "other", "Command line profiler metrics", "gpu__time_duration.sum",
                                             "nsecond", "1,234")
                                        LONG_ROW("2", "other", "Command line profiler metrics",
                                                 "dram__throughput.avg.pct_of_peak_sustained_elapsed", "",
                                                 "n/a") "==PROF== Disconnected from process 77\n");
    assert_non_null(t);
    assert_int_equal(gw_kernel_metrics_count(t), 2);
    const struct gw_kernel_metrics *m = row(t, "gemm(float *, int)");
    assert_int_equal(m->launches, 2);
    assert_int_equal(m->duration_ns, 8000);
    check(m, GW_KM_SM, (80 * 2 + 40 * 6) / 8.0); /* weighted by time */
    check(m, GW_KM_MEMORY, 30.5);
    check(m, GW_KM_DRAM, 20);
    check(m, GW_KM_OCCUPANCY, 50);
    check(m, GW_KM_WAVES, 0.25);
    check(m, GW_KM_BLOCKS, 256);
    check(m, GW_KM_THREADS, 256);
    check_none(m, GW_KM_TENSOR);
    m = row(t, "other");
    assert_int_equal(m->duration_ns, 1234);
    check_none(m, GW_KM_DRAM);
    const struct gw_source *s = t->sources.data;
    assert_string_equal(s->format, "ncu");
    assert_int_equal(s->events, 3);
    done(t);
}

#define WIDE_HEAD                                                                                                     \
    "\"ID\",\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\"Context\",\"Stream\",\"Block "            \
    "Size\",\"Grid Size\",\"Device\",\"CC\","                                                                         \
    "\"gpu__time_duration.sum\",\"launch__grid_size\",\"sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_"        \
    "active\","                                                                                                       \
    "\"sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_active\",\"sm__pipe_tensor_cycles_active.avg." \
    "pct_of_peak_sustained_elapsed\","                                                                                \
    "\"sm__throughput.avg.pct_of_peak_sustained_elapsed\",\"sm__warps_active.avg.pct_of_peak_sustained_active\"\n"

static void raw_csv(void **state)
{
    (void)state;
    struct gw_trace *t = read_text(
        WIDE_HEAD "\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"us\",\"\",\"%\",\"%\",\"%\",\"%\",\"%\"\n"
                  "\"0\",\"9\",\"a\",\"h\",\"void k<(int)4>(T1 \"\"x\"\", T2)\",\"1\",\"7\",\"(128, 1, 1)\",\"(1,024, "
                  "1, 1)\",\"0\",\"9.0\",\"1,234.50\",\"1,024\",\"1.5\",\"10\",\"61.25\",\"70.00\",\"12.5\"\n"
                  "\"1\",\"9\",\"a\",\"h\",\"second\",\"1\",\"7\",\"(64, 1, 1)\",\"(2, 1, "
                  "1)\",\"0\",\"9.0\",\"3\",\"2\",\"0\",\"0\",\"0\",\"1\",\"\"\n"
                  "\"2\",\"9\",\"a\",\"h\",\"cut off\",\"1\"\n");
    assert_non_null(t);
    assert_int_equal(gw_kernel_metrics_count(t), 2);
    const struct gw_kernel_metrics *m = row(t, "void k<(int)4>(T1 \"x\", T2)");
    assert_int_equal(m->duration_ns, 1234500);
    check(m, GW_KM_TENSOR, 61.25); /* the busiest of several */
    check(m, GW_KM_FP32, 1.5);
    check(m, GW_KM_SM, 70);
    check(m, GW_KM_BLOCKS, 1024);
    check(m, GW_KM_THREADS, 128);
    m = row(t, "second");
    assert_int_equal(m->duration_ns, 3000);
    check(m, GW_KM_TENSOR, 0); /* measured as zero is not missing */
    check_none(m, GW_KM_OCCUPANCY);
    done(t);
}

/* Re-saved by a spreadsheet or a script: no quotes, no row of units, other columns. */
static void bare_csv(void **state)
{
    (void)state;
    struct gw_trace *t =
        read_text("ID,Kernel Name,gpu__time_duration.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed\n"
                  "0,k1,500,88.5\r\n1,k2,700,3\r\n");
    assert_non_null(t);
    check(row(t, "k1"), GW_KM_DRAM, 88.5);
    assert_int_equal(row(t, "k2")->duration_ns, 700);
    done(t);
}

static void summary_csv(void **state)
{
    (void)state;
    struct gw_trace *t =
        read_text("\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\"Block Size\",\"Grid "
                  "Size\",\"Device\",\"CC\",\"Invocations\",\"Section Name\",\"Metric Name\",\"Metric "
                  "Unit\",\"Minimum\",\"Maximum\",\"Average\"\n"
                  "\"1\",\"a\",\"h\",\"k(int)\",\"(256, 1, 1)\",\"(40, 1, "
                  "1)\",\"0\",\"11.0\",\"14\",\"S\",\"Duration\",\"us\",\"1.00\",\"3.00\",\"2.00\"\n"
                  "\"1\",\"a\",\"h\",\"k(int)\",\"(256, 1, 1)\",\"(40, 1, "
                  "1)\",\"0\",\"11.0\",\"14\",\"Occupancy\",\"Achieved Occupancy\",\"%\",\"70\",\"80\",\"75.0\"\n"
                  "\"1\",\"a\",\"h\",\"k(int)\",\"(1, 1, 1)\",\"(80, 1, "
                  "1)\",\"0\",\"11.0\",\"2\",\"S\",\"Duration\",\"us\",\"4.00\",\"4.00\",\"4.00\"\n"
                  "\"1\",\"a\",\"h\",\"k(int)\",\"(1, 1, 1)\",\"(80, 1, "
                  "1)\",\"0\",\"11.0\",\"2\",\"Occupancy\",\"Achieved Occupancy\",\"%\",\"3\",\"3\",\"3.0\"\n");
    assert_non_null(t);
    const struct gw_kernel_metrics *m = row(t, "k(int)");
    assert_int_equal(m->launches, 16);
    assert_int_equal(m->duration_ns, 14 * 2000 + 2 * 4000);
    check(m, GW_KM_OCCUPANCY, (75.0 * 28 + 3.0 * 8) / 36);
    done(t);
}

static const char page[] = "==PROF== Connected to process 1433 (/tmp/smoke)\n"
                           "[1433] smoke@127.0.0.1\n"
                           "  k(float *, int) (1024, 2, 1)x(32, 4, 1), Context 1, Stream 7, Device 0, CC 8.6\n"
                           "    Section: GPU Speed Of Light Throughput\n"
                           "    ----------------------- ----------- ------------\n"
                           "    Metric Name             Metric Unit Metric Value\n"
                           "    ----------------------- ----------- ------------\n"
                           "    DRAM Frequency                  Ghz         6.71\n"
                           "    Elapsed Cycles                cycle        2,616\n"
                           "    Memory Throughput                 %         1.42\n"
                           "    DRAM Throughput                   %         1.40\n"
                           "    Duration                         us         1.89\n"
                           "    Compute (SM) Throughput           %        26.78\n"
                           "    ----------------------- ----------- ------------\n"
                           "\n"
                           "    OPT   This kernel grid is too small, Context 9, Stream of words.\n"
                           "\n"
                           "    Section: Launch Statistics\n"
                           "    -------------------------------- --------------- ---------------\n"
                           "    Metric Name                          Metric Unit    Metric Value\n"
                           "    -------------------------------- --------------- ---------------\n"
                           "    Block Size                                                   128\n"
                           "    Function Cache Configuration                     CachePreferNone\n"
                           "    Grid Size                                                  2,048\n"
                           "    Registers Per Thread             register/thread              16\n"
                           "    Waves Per SM                                                0.50\n"
                           "    -------------------------------- --------------- ---------------\n"
                           "\n"
                           "  second (1, 1, 1)x(32, 1, 1), Context 1, Stream 7, Device 0, CC 8.6\n"
                           "    Section: Occupancy\n"
                           "    ------------------ ----------- ------------\n"
                           "    Metric Name        Metric Unit Metric Value\n"
                           "    ------------------ ----------- ------------\n"
                           "    Achieved Occupancy           %       104.46\n"
                           "    ------------------ ----------- ------------\n";

static void check_page(struct gw_trace *t)
{
    assert_non_null(t);
    assert_int_equal(gw_kernel_metrics_count(t), 2);
    const struct gw_kernel_metrics *m = row(t, "k(float *, int)");
    assert_int_equal(m->duration_ns, 1890);
    check(m, GW_KM_SM, 26.78);
    check(m, GW_KM_MEMORY, 1.42);
    check(m, GW_KM_DRAM, 1.4);
    check(m, GW_KM_WAVES, 0.5);
    check(m, GW_KM_BLOCKS, 2048);
    check(m, GW_KM_THREADS, 128);
    check(m, GW_KM_REGISTERS, 16);
    check(row(t, "second"), GW_KM_OCCUPANCY, 104.46);
    done(t);
}

static void text_page(void **state)
{
    (void)state;
    check_page(read_text(page));
    struct gw_trace *t = read_text(/* 2020: another head, other labels, wide columns */
                                   "  k(float*), 2020-Sep-10 11:22:33, Context 1, Stream 7\n"
                                   "    Section: GPU Speed Of Light\n"
                                   "    ---------------------------------------------------------------------- "
                                   "--------------- ------------------------------\n"
                                   "    Memory Frequency                                                         "
                                   "cycle/usecond                         850.12\n"
                                   "    ---------------------------------------------------------------------- "
                                   "--------------- ------------------------------\n"
                                   "    SOL Memory                                                                     "
                                   "      %                          45.10\n"
                                   "    SOL SM                                                                         "
                                   "      %                          12.00\n"
                                   "    Duration                                                                       "
                                   "msecond                           1.50\n"
                                   "    ---------------------------------------------------------------------- "
                                   "--------------- ------------------------------\n");
    assert_non_null(t);
    const struct gw_kernel_metrics *m = row(t, "k(float*)");
    check(m, GW_KM_SM, 12);
    check(m, GW_KM_MEMORY, 45.1);
    assert_int_equal(m->duration_ns, 1500000);
    done(t);
}

/* What PowerShell's > makes of it, either byte order, with and without a mark. */
static void utf16(void **state)
{
    (void)state;
    size_t n = strlen(page);
    char *wide = malloc(2 * n + 2);
    assert_non_null(wide);
    for (int big = 0; big <= 1; big++) {
        wide[0] = (char)(big ? 0xfe : 0xff);
        wide[1] = (char)(big ? 0xff : 0xfe);
        for (size_t i = 0; i < n; i++) {
            wide[2 + 2 * i + (size_t)big] = page[i];
            wide[2 + 2 * i + (size_t)!big] = 0;
        }
        check_page(read_bytes(wide, 2 * n + 2));
        check_page(read_bytes(wide + 2, 2 * n));
        assert_int_equal(gw_importer_ncu.sniff("x", (unsigned char *)wide, 2 * n + 2), 95);
    }
    free(wide);
    struct gw_trace *t = read_text("\xef\xbb\xbfID,Kernel Name,gpu__time_duration.sum\n0,k1,500\n");
    assert_non_null(t);
    assert_int_equal(row(t, "k1")->duration_ns, 500);
    done(t);
}

static void decimal_comma(void **state)
{
    (void)state;
    block_bytes = 0; /* the first block tells how numbers are written: a whole one here */
    struct gw_trace *t =
        read_text(LONG_HEAD LONG_ROW("0", "k", "S", "Duration", "us", "1.234,50")
                      LONG_ROW("0", "k", "S", "Compute (SM) Throughput", "%", "9,00")
                          LONG_ROW("0", "k", "S", "Waves Per SM", "", "0,125") /* three digits: decimal all the same */
                  LONG_ROW("0", "k", "S", "Grid Size", "", "65.536"));
    block_bytes = 64;
    assert_non_null(t);
    const struct gw_kernel_metrics *m = row(t, "k");
    assert_int_equal(m->duration_ns, 1234500);
    check(m, GW_KM_SM, 9);
    check(m, GW_KM_WAVES, 0.125);
    done(t);
}

static void numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int comma, ok;
        double want;
    } cases[] = {{"1,234.56", 0, 1, 1234.56},
                 {"1.234,56", 0, 1, 1234.56},
                 {"65,536", 0, 1, 65536},
                 {"1,234,567", 1, 1, 1234567},
                 {"65.536", 1, 1, 65536},
                 {"9,00", 1, 1, 9},
                 {"1e3", 0, 1, 1000},
                 {"-2.5", 0, 1, -2.5},
                 {"1\xe2\x80\xaf"
                  "234,5",
                  1, 1, 1234.5},
                 {"1'000.25", 0, 1, 1000.25},
                 {"n/a", 0, 0, 0},
                 {"", 0, 0, 0},
                 {"CachePreferNone", 0, 0, 0},
                 {"nan", 0, 0, 0},
                 {"inf", 0, 0, 0},
                 {"1e999", 0, 0, 0},
                 {"(256, 1, 1)", 0, 0, 0},
                 {"3 (1.5%)", 0, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double got = 0;
        int ok = ncu_number(ncu_str(cases[i].text, strlen(cases[i].text)), cases[i].comma, &got);
        if (ok != cases[i].ok || (ok && fabs(got - cases[i].want) > 1e-9))
            fail_msg("'%s': %d %g", cases[i].text, ok, got);
    }
}

static void refusals(void **state)
{
    (void)state;
    assert_null(
        read_text("==PROF== Connected to process 1\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n"));
    assert_int_equal(error.code, GW_ENODATA);
    assert_non_null(strstr(error.what, "not allowed"));
    assert_non_null(strstr(error.advice, "NVreg_RestrictProfilingToAdminUsers=0"));
    assert_null(read_text("==PROF== Connected to process 1\n==WARNING== No kernels were profiled.\n"));
    assert_int_equal(error.code, GW_ENODATA);
    assert_non_null(strstr(error.what, "without a single kernel"));
    assert_null(
        read_text(LONG_HEAD LONG_ROW("0", "k", "S", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "sector", "5")));
    assert_non_null(strstr(error.what, "none of the metrics"));
    assert_null(read_text(""));
    assert_null(read_text("\"Kernel Name\"\"\"\"\",,,\n\",\n,,\"\n"));
}

/* Two runs appended to one file, with different columns. */
static void two_headers(void **state)
{
    (void)state;
    struct gw_trace *t = read_text(LONG_HEAD LONG_ROW(
        "0", "a", "S", "Duration", "us",
        "1.00") "ID,Kernel Name,gpu__time_duration.sum\n0,b,700\n" LONG_HEAD LONG_ROW("0", "a", "S", "Duration", "us",
                                                                                      "2.00"));
    assert_non_null(t);
    assert_int_equal(row(t, "a")->duration_ns, 3000);
    assert_int_equal(row(t, "a")->launches, 2);
    assert_int_equal(row(t, "b")->duration_ns, 700);
    done(t);
}

static void base_names(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"void at::native::foo<4, at::X<float>, std::array<char *, 1ul> >(int, T1)", "at::native::foo"},
        {"at::native::(anonymous namespace)::bar(float)", "at::native::bar"},
        {"<unnamed>::transposeNaive(const float *, float *, int)", "transposeNaive"},
        {"ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"},
        {"unsigned long long reduce<int>(int)", "reduce"},
        {"", ""},
    };
    char buf[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(gw_kernel_base_name(cases[i][0], buf, sizeof buf), strlen(cases[i][1]));
        assert_string_equal(buf, cases[i][1]);
    }
    assert_int_equal(gw_kernel_base_name("abcdefgh", buf, 4), 3);
    assert_string_equal(buf, "abc");
}

static void instance_names(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"void at::native::foo<(int)4, at::X<float>, std::array<char *, (unsigned long)3>>(int, T2)",
         "at::native::foo<4,at::X<float>,std::array<char*,3>>"},
        {"void at::native::foo<4, at::X<float>, std::array<char*, 3ul> >(int, at::X<float>)",
         "at::native::foo<4,at::X<float>,std::array<char*,3>>"},
        {"k<(bool)1, (int)-2>(T1)", "k<1,-2>"},
        {"k<true, -2>(float)", "k<1,-2>"},
        {"void k<is_true, x2u>(float)", "k<is_true,x2u>"}, /* no number, no truth */
        {"n::(anonymous namespace)::k<false>()", "n::k<0>"},
        {"void k<n::f(at::T &)::[lambda() (instance 3)]::operator ()() const::[lambda(float) (instance 1)], (int)2>(T1)",
         "k<n::f(at::T&)::[lambda()3]::operator()()const::[lambda(float)1],2>"},
        {"void k<n::f(at::T&)::{lambda()#3}::operator()() const::{lambda(float)#1}, 2>(int)",
         "k<n::f(at::T&)::[lambda()3]::operator()()const::[lambda(float)1],2>"},
        {"ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"},
    };
    char buf[128];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(gw_kernel_instance_name(cases[i][0], buf, sizeof buf), strlen(cases[i][1]));
        assert_string_equal(buf, cases[i][1]);
    }
    assert_int_equal(gw_kernel_instance_name("abcdefgh", buf, 4), 3);
    assert_string_equal(buf, "abc");
}

static void matching(void **state)
{
    (void)state;
    struct gw_arena *arena = gw_arena_create(0);
    struct gw_trace *t = read_text(
        "ID,Kernel Name,gpu__time_duration.sum,gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed\n"
        "0,\"void n::foo<(int)1>(int, int)\",1000,10\n1,\"void n::foo<(int)2>(int, int)\",3000,50\n2,other,5,5\n");
    assert_non_null(t);
    struct gw_kernel_metrics m;
    struct gw_km_index *x = gw_km_index(t, arena);
    assert_non_null(x);
    assert_int_equal(gw_km_find(x, "void n::foo<(int)2>(int, int)", &m), GW_KM_EXACT);
    check(&m, GW_KM_DRAM, 50);
    assert_int_equal(gw_km_find(x, "void n::foo<1>(int, int)", &m), GW_KM_INSTANCE);
    check(&m, GW_KM_DRAM, 10);
    assert_int_equal(gw_km_find(x, "n::foo<3>", &m), GW_KM_BASE); /* no such instance: all of that base */
    check(&m, GW_KM_DRAM, (10.0 * 1000 + 50.0 * 3000) / 4000);
    assert_int_equal(m.launches, 2);
    assert_int_equal(m.duration_ns, 4000);
    assert_int_equal(gw_km_find(x, "void n::m::other<4>(int)", &m), GW_KM_FUNCTION);
    check(&m, GW_KM_DRAM, 5);
    assert_int_equal(gw_km_find(x, "n::fool", &m), GW_KM_NO_MATCH);
    assert_int_equal(gw_km_find(x, "foo", &m), GW_KM_NO_MATCH); /* the rows say n::foo */
    assert_int_equal(gw_km_find(x, "", &m), GW_KM_NO_MATCH);
    struct gw_trace *to = gw_trace_create(0); /* rows of several files in one trace: times and means add up */
    assert_int_equal(gw_kernel_metrics_copy(to, t), 0);
    assert_int_equal(gw_kernel_metrics_copy(to, t), 0);
    assert_int_equal(gw_kernel_metrics_count(to), 3);
    assert_int_equal(row(to, "other")->launches, 2);
    assert_int_equal(row(to, "other")->duration_ns, 10);
    check(row(to, "void n::foo<(int)1>(int, int)"), GW_KM_DRAM, 10);
    done(to);
    done(t);
    t = gw_trace_create(0);
    x = gw_km_index(t, arena);
    assert_int_equal(gw_km_find(x, "other", &m), GW_KM_NO_MATCH);
    assert_int_equal(gw_kernel_metrics_count(t), 0);
    done(t);
    gw_arena_destroy(arena);
}

/* More names than any program has: the rest is counted, and it does not take for ever. */
static void too_many_names(void **state)
{
    (void)state;
    struct gw_trace *t = gw_trace_create(0);
    struct gw_kernel_sample s = {.launches = 1, .duration_ns = 5};
    char name[32];
    for (unsigned i = 0; i < GW_KERNEL_METRICS_MAX + 7; i++) {
        int n = snprintf(name, sizeof name, "k%u", i);
        assert_int_equal(gw_kernel_metrics_add(t, gw_trace_name(t, name, (size_t)n), &s), 0);
    }
    assert_int_equal(gw_kernel_metrics_count(t), GW_KERNEL_METRICS_MAX);
    assert_int_equal(t->loss[GW_LOSS_MEMORY_CAP].count, 7);
    done(t);
}

static void sniffing(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int want;
    } cases[] = {{LONG_HEAD, 95},
                 {page, 95},
                 {"==PROF== Connected to process 1\n", 60},
                 {"{\"traceEvents\":[]}", 0},
                 {"[{\"name\":\"Kernel Name__Metric Name\"}]", 0},
                 {"timestamp, name, utilization.gpu [%]\n", 0},
                 {"", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(gw_importer_ncu.sniff("x", (const unsigned char *)cases[i].text, strlen(cases[i].text)),
                         cases[i].want);
    assert_int_equal(gw_importer_ncu.sniff("x", (const unsigned char *)strchr(page, '['), sizeof page - 50), 95);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(details_csv),   cmocka_unit_test(raw_csv),    cmocka_unit_test(bare_csv),
        cmocka_unit_test(summary_csv),   cmocka_unit_test(text_page),  cmocka_unit_test(utf16),
        cmocka_unit_test(decimal_comma), cmocka_unit_test(numbers),    cmocka_unit_test(refusals),
        cmocka_unit_test(two_headers),   cmocka_unit_test(base_names), cmocka_unit_test(matching),
        cmocka_unit_test(instance_names), cmocka_unit_test(too_many_names),
        cmocka_unit_test(sniffing),
    };
    return cmocka_run_group_tests_name("ncu", tests, NULL, NULL);
}
