/* nvidia-smi topo, the host's tools, and the values that captures are made of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capture_text.h"

/* --- topology
 * --------------------------------------------------------------------------------------------------------------- */

static void topology(void **state)
{
    (void)state;
    struct gw_env *env =
        capture_parse("\t\033[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\033[0m\n"
                      "GPU0\t X \tNV12\tSYS\tPXB\t0-31,64-95\t0\t\tN/A\n"
                      "GPU1\tNV12\t X \tPHB\tNODE\t0-31,64-95\t0\t\tN/A\n"
                      "GPU2\tSYS\tPHB\t X \tSYS\t32-63\t1\t\tN/A\n"
                      "NIC0\tPXB\tNODE\tSYS\t X \t\t\t\t\n"
                      "\nLegend:\n\n  X    = Self\n\nNIC Legend:\n\n  NIC0: mlx5_0\n");
    assert_int_equal(env->gpus.len, 3);
    assert_int_equal(gw_env_count(env, GW_REC_PAIR), 6); /* three pairs of GPUs, three of a GPU and the NIC */
    const struct gw_env_pair *p = gw_env_find_pair(env, 0, 1, NULL);
    assert_int_equal(p->link, GW_LINK_NVLINK);
    assert_int_equal(p->nvlinks, 12);
    assert_int_equal(gw_env_find_pair(env, 0, 2, NULL)->link, GW_LINK_SYS);
    assert_string_equal(gw_env_gpu_at(env, 2)->cpus, "32-63");
    assert_int_equal(capture_metric(env, 2, GW_GPU_NUMA_NODE), 1);
    capture_check_is(env, "topology", GW_CHECK_LOOK, "3 pairs: 1 NVLink, 1 PHB, 1 SYS");
    capture_check_is(env, "nic", GW_CHECK_LOOK, "GPU 1: the nearest adapter is far (NODE)");
    gw_env_destroy(env);

    /* pasted into a mail: blanks instead of tabs */
    env = capture_parse(
        "        GPU0    GPU1    CPU Affinity\nGPU0     X      PIX     0-15\nGPU1    PIX      X      0-15\n");
    capture_check_is(env, "topology", GW_CHECK_GOOD, "1 pair: 1 PIX");
    gw_env_destroy(env);
    env = capture_parse(" \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tCNS\tX\t\n");
    capture_check_is(env, "peer-to-peer", GW_CHECK_LOOK, "1 of 1 pairs without: not by this chipset");
    gw_env_destroy(env);
    env = capture_parse(
        "GPU 0: NVIDIA H200 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\nGPU 1: NVIDIA H200 "
        "(UUID: GPU-2)\n\t Link 0: 26.562 GB/s\n\t Link 1: 26.562 GB/s\n");
    capture_check_is(env, "nvlink", GW_CHECK_BAD, "GPU 0: 1 of 2 links up");
    gw_env_destroy(env);
}

/* --- the host's tools
 * -------------------------------------------------------------------------------------------------------- */

static void host_tools(void **state)
{
    (void)state;
    struct gw_env *env =
        capture_parse("Architecture:                       x86_64\nCPU op-mode(s):                     "
                      "32-bit, 64-bit\nCPU(s):                             96\n"
                      "On-line CPU(s) list:                0-95\nModel name:                         AMD EPYC "
                      "9454 48-Core Processor\n"
                      "Thread(s) per core:                 2\nCore(s) per socket:                 "
                      "48\nSocket(s):                          1\n"
                      "CPU max MHz:                        3810.7910\nNUMA node(s):                       "
                      "1\nNUMA node0 CPU(s):                  0-95\n"
                      "              total        used        free      shared  buff/cache   available\n"
                      "Mem:          503Gi        20Gi       100Gi       1.0Gi       383Gi       480Gi\nSwap: "
                      "        8.0Gi       4.0Gi       4.0Gi\n"
                      "Linux 6.8.0 (node7)  01/12/26  _x86_64_ (96 CPU)\n\navg-cpu:  %user   %nice %system "
                      "%iowait  %steal   %idle\n           1.00    0.00    1.00   30.00    0.00   68.00\n\n"
                      "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   "
                      "wrqm/s  %wrqm w_await wareq-sz  aqu-sz  %util\n"
                      "sda             10.00    100.00     0.00   0.00    5.00    10.00    0.00      0.00     "
                      "0.00   0.00    0.00     0.00    0.05   4.00\n\n"
                      "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   "
                      "wrqm/s  %wrqm w_await wareq-sz  aqu-sz  %util\n"
                      "sda            500.00  20000.00     0.00   0.00   45.00    10.00  100.00      0.00     "
                      "0.00   0.00   15.00     0.00    0.05  99,50\n"
                      "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 11.8, "
                      "V11.8.89\nBuild cuda_11.8.r11.8/compiler.31833905_0\n"
                      "PyTorch version: 2.5.1+cu124\nCUDA used to build PyTorch: 12.4\nNvidia driver version: "
                      "550.54.15\n[pip3] nvidia-cudnn-cu12==9.1.0.70\n");
    assert_int_equal(gw_env_get(env, GW_HOST_CPUS), 96);
    assert_int_equal(gw_env_get(env, GW_HOST_CORES), 48);
    assert_int_equal(gw_env_get(env, GW_HOST_FREQ_MAX), 3810791);
    assert_int_equal(gw_env_get(env, GW_HOST_MEM_TOTAL), 503LL << 30);
    const struct gw_env_disk *d = gw_env_at(env, GW_REC_DISK, 0);
    assert_int_equal(gw_env_count(env, GW_REC_DISK), 1);
    assert_true(fabs(d->busy - 0.995) < 1e-9); /* the second report, with a decimal comma */
    assert_true(fabs(d->await_ms - 40) < 1e-9);
    assert_true(fabs(d->read_mbps - 20.48) < 1e-9);
    assert_string_equal(gw_env_lib(env, "toolkit")->version, "11.8");
    assert_string_equal(gw_env_lib(env, "torch")->version, "2.5.1+cu124");
    assert_string_equal(gw_env_str(env, GW_HSTR_DRIVER), "550.54.15");
    capture_check_is(env, "toolkit", GW_CHECK_LOOK, "11.8, PyTorch was built with 12.4");
    capture_check_is(env, "swap", GW_CHECK_LOOK, "4.0 GiB of 8.0 GiB");
    capture_check_is(env, "disk", GW_CHECK_LOOK, "sda 100 % busy, 40 ms");
    gw_env_destroy(env);
}

static void values(void **state)
{
    (void)state;
    static const struct {
        enum gw_unit unit;
        const char *text;
        int64_t want;
    } rows[] = {{GW_UNIT_MW, "700.00 W", 700000},
                {GW_UNIT_MW, "77.219 W", 77219},
                {GW_UNIT_BYTES, "81559MiB", 81559LL << 20},
                {GW_UNIT_BYTES, "1.5 GiB", 3LL << 29},
                {GW_UNIT_NONE, "16x", 16},
                {GW_UNIT_C, "-8 C", -8},
                {GW_UNIT_MASK, "0x0000000000000004", 4},
                {GW_UNIT_PSTATE, "P12", 12},
                {GW_UNIT_BOOL, "Not Active", 0},
                {GW_UNIT_NONE, "N/A", GW_ENV_NONE},
                {GW_UNIT_MW, "[Not Supported]", GW_ENV_NONE},
                {GW_UNIT_MHZ, "Requested functionality has been deprecated", GW_ENV_NONE},
                {GW_UNIT_NONE, "99999999999999999999", GW_ENV_NONE},
                {GW_UNIT_MASK, "0xffffffffffffffff", GW_ENV_NONE},
                {GW_UNIT_BYTES, "9223372036854775807 GiB", GW_ENV_NONE},
                {GW_UNIT_PSTATE, "P99", GW_ENV_NONE},
                {GW_UNIT_NONE, "", GW_ENV_NONE},
                {GW_UNIT_NONE, "3 things: that go on", GW_ENV_NONE}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t v = GW_ENV_NONE;
        (void)gw_unit_parse(rows[i].unit, rows[i].text, strlen(rows[i].text), &v);
        if (v != rows[i].want)
            fail_msg("'%s' reads %lld", rows[i].text, (long long)v);
    }
    static const struct {
        const char *text, *want;
    } buses[] = {{"00000000:19:00.0", "0000:19:00.0"},
                 {"0000:C1:00.0", "0000:c1:00.0"},
                 {"0a:1f.7", "0000:0a:1f.7"},
                 {"12345678:aB:00.0", "12345678:ab:00.0"},
                 {"19:00", NULL},
                 {"0000:19:00.8", NULL},
                 {"0000:19:20.0", NULL},
                 {"0000:1900:00.0", NULL},
                 {"", NULL},
                 {"123456789:00:00.0", NULL}};
    for (size_t i = 0; i < sizeof buses / sizeof buses[0]; i++) {
        char out[GW_BUS_ID_CAP];
        int rc = gw_bus_id_normal(buses[i].text, strlen(buses[i].text), out);
        if ((rc == 0) != (buses[i].want != NULL) || (rc == 0 && strcmp(out, buses[i].want) != 0))
            fail_msg("'%s'", buses[i].text);
    }
    assert_int_equal(gw_cpulist_count("0-3,8,10-11\n", NULL, 0), 7);
    assert_int_equal(gw_cpulist_count("", NULL, 0), 0);
    assert_int_equal(gw_cpulist_count("3-1", NULL, 0), -1);
    assert_int_equal(gw_cpulist_count("0-99999999", NULL, 0), -1);
    assert_int_equal(gw_cpulist_count("x", NULL, 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(topology),
        cmocka_unit_test(host_tools),
        cmocka_unit_test(values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
