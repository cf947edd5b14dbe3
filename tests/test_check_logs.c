/* Logs of nvidia-smi: --query-gpu as CSV, dmon and pmon. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture_text.h"

/* --- logs
 * ----------------------------------------------------------------------------------------------------------------- */

static void csv_log(void **state)
{
    (void)state;
    struct gw_env *env = capture_parse(
        "timestamp, index, pci.bus_id, utilization.gpu [%], memory.used [MiB], power.draw [W], enforced.power.limit "
        "[W], clocks_throttle_reasons.active, clocks_throttle_reasons.hw_thermal_slowdown, pstate, name, compute_cap\n"
        "2026/12/01 06:43:04.549, 0, 00000000:19:00.0, 7 %, 100 MiB, 77.21 W, 700.00 W, 0x0000000000000041, Active, "
        "P2, \"NVIDIA H200\", 9.0\n"
        "2026/12/01 06:43:04.550, 1, 00000000:3B:00.0, [N/A], [Not Supported], [Unknown Error], 700.00 W, "
        "0x0000000000000001, Not Active, P0, NVIDIA H200, 9.0\n"
        "timestamp, index, pci.bus_id, utilization.gpu [%], memory.used [MiB], power.draw [W], enforced.power.limit "
        "[W], clocks_throttle_reasons.active, clocks_throttle_reasons.hw_thermal_slowdown, pstate, name, compute_cap\n"
        "2026/12/01 06:43:05.549, 0, 00000000:19:00.0, 9 %, 101 MiB, 78.00 W, 700.00 W, 0x0000000000000040, Active, "
        "P2, NVIDIA H200, 9.0\n"
        "2026/12/01 06:43:05.550, 1, 000000\n");
    assert_int_equal(env->gpus.len, 2);
    assert_int_equal(gw_env_sample_count(env), 3);
    assert_string_equal(gw_env_gpu_at(env, 0)->name, "NVIDIA H200");
    assert_int_equal(capture_metric(env, 0, GW_GPU_UTIL), 9);
    assert_int_equal(capture_metric(env, 0, GW_GPU_POWER), 78000);
    assert_int_equal(capture_metric(env, 0, GW_GPU_CC_MAJOR), 9);
    assert_int_equal(capture_metric(env, 1, GW_GPU_UTIL), GW_ENV_NONE);
    assert_int_equal(gw_env_sample_at(env, 2)->t - gw_env_sample_at(env, 0)->t, 1000000000);
    assert_true(capture_note_has(env, "1 line(s) with another number of columns"));
    capture_check_is(env, "heat", GW_CHECK_BAD, "GPU 0: HW thermal slowdown in 2 of 2 samples");
    gw_env_destroy(env);

    /* nounits, one column, no stamps; a word in a help text is no column */
    env = capture_parse("utilization.gpu [%]\n12\n99\n");
    assert_int_equal(gw_env_sample_count(env), 2);
    assert_int_equal(capture_metric(env, 0, GW_GPU_UTIL), 99);
    assert_true(capture_note_has(env, "no column names the GPU"));
    gw_env_destroy(env);
    struct gw_error err = {0};
    env = gw_env_create();
    assert_int_equal(gw_capture_parse(env, "t", "\"utilization.gpu\"\nPercent of time over the past\n", 49, &err),
                     GW_EFORMAT);
    gw_env_destroy(env);

    env =
        capture_parse("gpu_uuid, pid, process_name, used_gpu_memory [MiB]\nGPU-1, 4242, python, 100 MiB\nGPU-1, 4243, "
                      "python, [N/A]\n");
    assert_int_equal(gw_env_count(env, GW_REC_PROC), 2);
    assert_int_equal(env->gpus.len, 1);
    gw_env_destroy(env);
}

static void sawtooth_log(void **state)
{
    (void)state;
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    fprintf(f, "timestamp, index, utilization.gpu [%%]\n");
    for (int i = 0; i < 800; i++) { /* 4 Hz, 38 samples a swing, 16 of them high on GPU 0; steady on GPU 1 */
        int ms = i * 250;
        for (int gpu = 0; gpu < 2; gpu++)
            fprintf(f, "2026/12/01 06:%02d:%02d.%03d, %d, %d %%\n", ms / 60000, ms / 1000 % 60, ms % 1000, gpu,
                    gpu                         ? 97 + i % 3
                    : fmod(i * 0.25, 9.5) < 3.8 ? 98
                                                : 2);
    }
    fclose(f);
    struct gw_env *env = capture_parse(text);
    capture_check_is(env, "utilization", GW_CHECK_LOOK, "GPU 0: swings 2-98 % every 9.5 s, high 42 % of the time");
    gw_env_destroy(env);
    free(text);
}

static void monitors(void **state)
{
    (void)state;
    struct gw_env *env =
        capture_parse("# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk  pviol  tviol     "
                      "fb   bar1  rxpci  txpci    pci \n"
                      "# Idx      W      C      C      %      %      %      %    MHz    MHz      %   bool     "
                      "MB     MB   MB/s   MB/s   errs \n"
                      "    0    320     80      -     99     40      0      0   9501   1200     55      1   "
                      "2000     10   9000    120      3 \n"
                      "    1     50     40     41      0      0      -      -    405    210      0      0     "
                      " 0      1      0      0      0 \n"
                      "# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk  pviol  tviol     "
                      "fb   bar1  rxpci  txpci    pci \n"
                      "# Idx      W      C      C      %      %      %      %    MHz    MHz      %   bool     "
                      "MB     MB   MB/s   MB/s   errs \n"
                      "    0    321     80      -     98     40      0      0   9501   1200     55      1   "
                      "2000     10   9000    120      3 \n");
    assert_int_equal(gw_env_sample_count(env), 3);
    assert_int_equal(capture_metric(env, 0, GW_GPU_POWER), 321000);
    assert_int_equal(capture_metric(env, 0, GW_GPU_TEMP_MEM), GW_ENV_NONE);
    assert_int_equal(capture_metric(env, 0, GW_GPU_PCIE_RX), 9000000);
    assert_int_equal(capture_metric(env, 0, GW_GPU_MEM_USED), 2000LL << 20);
    capture_check_is(env, "heat", GW_CHECK_BAD, "GPU 0: SW thermal slowdown in 2 of 2");
    gw_env_destroy(env);
    env = capture_parse(
        "#Date       Time        gpu    pwr     sm\n#YYYYMMDD   HH:MM:SS    Idx      W      %\n 20261201   "
        "06:43:04      0    100     50 \n 20261201   06:43:06      0    100     50 \n");
    assert_int_equal(gw_env_sample_at(env, 1)->t - gw_env_sample_at(env, 0)->t, 2000000000);
    gw_env_destroy(env);
    env = capture_parse(
        "# gpu         pid   type     sm    mem    command \n# Idx           #    C/G      %      %    name \n "
        "   0       4242     C     90     10    python         \n    0       1696     G      -      -    "
        "Xwayland       \n    1          -     -      -      -    -              \n");
    assert_int_equal(gw_env_count(env, GW_REC_PROC), 2);
    assert_int_equal(env->gpus.len, 2);
    gw_env_destroy(env);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv_log),
        cmocka_unit_test(sawtooth_log),
        cmocka_unit_test(monitors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
