/* Saved output of the usual tools: small pieces written here, and files of other people's machines when they are there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check_fixture.h"
#include "collect/capture/capture.h"
#include "collect/checks/checks.h"

static const char *traces; /* argv[1], or GPUWHY_TRACES: holds smi/ */

static struct gw_env *parse_bytes(const char *text, size_t len)
{
    struct gw_env *env = gw_env_create();
    struct gw_error err = {0};
    if (gw_capture_parse(env, "test", text, len, &err) < 0)
        fail_msg("%s", err.what);
    return env;
}
static struct gw_env *parse(const char *text) { return parse_bytes(text, strlen(text)); }

static int64_t metric(const struct gw_env *env, size_t i, enum gw_gpu_metric m)
{
    const struct gw_gpu *g = gw_env_gpu_at(env, i);
    assert_non_null(g);
    return gw_gpu_get(g, m);
}

static void check_is(const struct gw_env *env, const char *id, enum gw_check_status status, const char *value)
{
    struct gw_arena *arena = gw_arena_create(0);
    const struct gw_check *c = gw_check_find(gw_checks_run(env, arena), id);
    if (c->status != status || !strstr(c->value, value))
        fail_msg("%s is %s: '%s', not %s: '%s'", id, gw_check_status_id(c->status), c->value,
                 gw_check_status_id(status), value);
    gw_arena_destroy(arena);
}

static int note_has(const struct gw_env *env, const char *text)
{
    for (size_t i = 0; i < gw_env_count(env, GW_REC_NOTE); i++)
        if (strstr(((const struct gw_env_note *)gw_env_at(env, GW_REC_NOTE, i))->text, text))
            return 1;
    return 0;
}

/* --- nvidia-smi -q
 * ----------------------------------------------------------------------------------------------------- */

static const char query[] = "==============NVSMI LOG==============\n"
                            "\n"
                            "Timestamp                                 : Wed Jul 31 11:22:39 2024\n"
                            "Driver Version                            : 535.161.08\n"
                            "CUDA Version                              : 12.2\n"
                            "\n"
                            "Attached GPUs                             : 2\n"
                            "GPU 00000000:19:00.0\n"
                            "    Product Name                          : NVIDIA H100 80GB HBM3\n"
                            "    Product Architecture                  : Hopper\n"
                            "    Persistence Mode                      : Enabled\n"
                            "    MIG Mode\n"
                            "        Current                           : Disabled\n"
                            "        Pending                           : Disabled\n"
                            "    PCI\n"
                            "        Bus Id                            : 00000000:19:00.0\n"
                            "        GPU Link Info\n"
                            "            PCIe Generation\n"
                            "                Max                       : 5\n"
                            "                Current                   : 4\n"
                            "                Host Max                  : N/A\n"
                            "            Link Width\n"
                            "                Max                       : 16x\n"
                            "                Current                   : 8x\n"
                            "        Replays Since Reset               : 67\n"
                            "        Tx Throughput                     : 632 KB/s\n"
                            "    Performance State                     : P0\n"
                            "    Clocks Throttle Reasons\n" /* as before driver 535 */
                            "        Idle                              : Not Active\n"
                            "        HW Slowdown                       : Active\n"
                            "            HW Thermal Slowdown           : Not Active\n"
                            "            HW Power Brake Slowdown       : Active\n"
                            "        SW Thermal Slowdown               : Not Active\n"
                            "    FB Memory Usage\n"
                            "        Total                             : 81559 MiB\n"
                            "        Used                              : 10 MiB\n"
                            "    Compute Mode                          : Exclusive_Process\n"
                            "    Utilization\n"
                            "        Gpu                               : 97 %\n"
                            "        Memory                            : N/A\n"
                            "    GPU Power Readings\n"
                            "        Power Draw                        : 412.25 W\n"
                            "        Current Power Limit               : 500.00 W\n"
                            "        Default Power Limit               : 700.00 W\n"
                            "    Module Power Readings\n"
                            "        Power Draw                        : 999.00 W\n"
                            "    Clocks\n"
                            "        SM                                : 86 MHz\n"
                            "    Max Clocks\n"
                            "        SM                                : 1980 MHz\n"
                            "    Processes\n"
                            "        GPU instance ID                   : N/A\n"
                            "        Process ID                        : 4242\n"
                            "            Type                          : C\n"
                            "            Name                          : /usr/bin/python3: a job\n"
                            "            Used GPU Memory               : 1024 MiB\n"
                            "GPU 00000000:3B:00.0\n"
                            "    Product Name                          : NVIDIA H100 80GB HBM3\n"
                            "    Processes                             : None\n";

static void query_values(const struct gw_env *env)
{
    assert_int_equal(env->gpus.len, 2);
    assert_string_equal(gw_env_str(env, GW_HSTR_DRIVER), "535.161.08");
    assert_int_equal(gw_env_get(env, GW_HOST_CUDA_DRIVER), 12020);
    assert_string_equal(gw_env_gpu_at(env, 0)->bus_id, "0000:19:00.0");
    assert_string_equal(gw_env_gpu_at(env, 0)->name, "NVIDIA H100 80GB HBM3");
    assert_int_equal(metric(env, 0, GW_GPU_PCIE_GEN), 4);
    assert_int_equal(metric(env, 0, GW_GPU_PCIE_GEN_MAX), 5);
    assert_int_equal(metric(env, 0, GW_GPU_PCIE_WIDTH), 8);
    assert_int_equal(metric(env, 0, GW_GPU_PCIE_REPLAY), 67);
    assert_int_equal(metric(env, 0, GW_GPU_MEM_TOTAL), 81559LL << 20);
    assert_int_equal(metric(env, 0, GW_GPU_POWER), 412250); /* not the module's */
    assert_int_equal(metric(env, 0, GW_GPU_POWER_LIMIT), 500000);
    assert_int_equal(metric(env, 0, GW_GPU_SM_CLOCK), 86);
    assert_int_equal(metric(env, 0, GW_GPU_SM_MAX), 1980);
    assert_int_equal(metric(env, 0, GW_GPU_REASONS), GW_REASON_HW_SLOWDOWN | GW_REASON_HW_BRAKE);
    assert_int_equal(metric(env, 0, GW_GPU_REASONS_KNOWN), 0x1 | 0x8 | 0x40 | 0x80 | 0x20);
    assert_int_equal(metric(env, 0, GW_GPU_COMPUTE_MODE), 3);
    assert_int_equal(metric(env, 0, GW_GPU_UTIL_MEM), GW_ENV_NONE); /* N/A is not 0 */
    assert_int_equal(metric(env, 1, GW_GPU_UTIL), GW_ENV_NONE);
    const struct gw_env_proc *p = gw_env_at(env, GW_REC_PROC, 0);
    assert_int_equal(p->pid, 4242);
    assert_int_equal(p->bytes, 1LL << 30);
    assert_string_equal(p->name, "/usr/bin/python3: a job");
    assert_int_equal(gw_env_count(env, GW_REC_NOTE), 0);
}

static void query_text(void **state)
{
    (void)state;
    struct gw_env *env = parse(query);
    query_values(env);
    check_is(env, "power-brake", GW_CHECK_BAD, "GPU 0: HW power brake, HW slowdown; 86 of 1980 MHz");
    check_is(env, "pcie", GW_CHECK_BAD, "GPU 0: gen 4 x8 under load");
    gw_env_destroy(env);
}

static void odd_encodings(void **state)
{
    (void)state;
    size_t n = sizeof query - 1;
    char *wide = malloc(2 * n + 2), *marked = malloc(8 * n + 100);
    for (int big = 0; big < 2; big++) /* PowerShell's redirection writes UTF-16 */
        for (int mark = 0; mark < 2; mark++) {
            size_t at = 0;
            if (mark) {
                wide[at++] = big ? '\xfe' : '\xff';
                wide[at++] = big ? '\xff' : '\xfe';
            }
            for (size_t i = 0; i < n; i++) {
                wide[at++] = big ? '\0' : query[i];
                wide[at++] = big ? query[i] : '\0';
            }
            struct gw_env *env = parse_bytes(wide, at);
            query_values(env);
            gw_env_destroy(env);
        }
    size_t at = 0;
    memcpy(marked, "\xef\xbb\xbf\033]0;title\007", 13);
    at = 13;
    for (size_t i = 0; i < n; i++) { /* a coloured terminal log with CR LF */
        if (query[i] == '\n')
            marked[at++] = '\r';
        marked[at++] = query[i];
        if (query[i] == ':') {
            memcpy(marked + at, "\033[0;31m", 7);
            at += 7;
        }
    }
    struct gw_env *env = parse_bytes(marked, at);
    query_values(env);
    gw_env_destroy(env);
    free(wide);
    free(marked);
}

static void several_captures_in_one_file(void **state)
{
    (void)state;
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    fprintf(f,
            "user@host:~$ nvidia-smi -q\n%suser@host:~$ free -g\n"
            "              total        used        free      shared  buff/cache   available\n"
            "Mem:            503          20         100           1         383         480\n"
            "Swap:             7           0           7\n"
            "user@host:~$ nvidia-smi -q # ten seconds later\n",
            query);
    char *again = strdup(query);
    memcpy(strstr(again, "11:22:39"), "11:22:49", 8);
    memcpy(strstr(again, ": 67\n"), ": 97\n", 5);
    fprintf(f, "%s\nuser@host:~$ exit\n", again);
    fclose(f);
    struct gw_env *env = parse(text);
    assert_int_equal(env->gpus.len, 2);
    assert_int_equal(gw_env_count(env, GW_REC_PROC), 1); /* the same process twice is one */
    assert_int_equal(gw_env_sample_count(env), 4);
    assert_int_equal(gw_env_get(env, GW_HOST_MEM_TOTAL), 503LL << 30);
    check_is(env, "pcie-errors", GW_CHECK_BAD, "GPU 0: 30 in 10 s"); /* which needs both readings and their stamps */
    gw_env_destroy(env);
    free(again);
    free(text);
}

static void cut_short(void **state)
{
    (void)state;
    char *cut = strdup(query);
    *strstr(cut, "    Utilization") = '\0';
    struct gw_env *env = parse(cut);
    assert_true(note_has(env, "block of GPU 0 ends early"));
    assert_true(note_has(env, "speaks of 2 GPUs but holds 1"));
    check_is(env, "gpus", GW_CHECK_LOOK, "the capture speaks of 2");
    check_is(env, "power-limit", GW_CHECK_UNKNOWN, "");
    gw_env_destroy(env);
    free(cut);
}

/* --- XML
 * ----------------------------------------------------------------------------------------------------------------- */

static const char xml[] =
    "<?xml version=\"1.0\" encoding=\"UTF-16\"?>\n<!DOCTYPE nvidia_smi_log SYSTEM "
    "\"nvsmi_device_v12.dtd\">\n<nvidia_smi_log>\n"
    "<timestamp>Tue Dec 30 10:49:50 "
    "2025</timestamp><driver_version>590.44.01</driver_version><cuda_version>13.1</cuda_version>"
    "<attached_gpus>1</attached_gpus>\n<gpu id=\"00000000:09:00.0\"><product_name>A &amp; B</product_name>"
    "<pci><pci_gpu_link_info><pcie_gen><max_link_gen>4</max_link_gen><current_link_gen>1</current_link_gen></pcie_gen>"
    "<link_widths><max_link_width>16x</max_link_width><current_link_width>16x</current_link_width></link_widths></"
    "pci_gpu_link_info></pci>"
    "<clocks_throttle_reasons><clocks_throttle_reason_sw_thermal_slowdown>Active</"
    "clocks_throttle_reason_sw_thermal_slowdown></clocks_throttle_reasons>"
    "<utilization><gpu_util>0 %</gpu_util></utilization>"
    "<mig_devices><mig_device><gpu_instance_id>3</gpu_instance_id><fb_memory_usage><total>20096 "
    "MiB</total></fb_memory_usage></mig_device></mig_devices>"
    "<processes><process_info><pid>77</pid><type>C</type><process_name>x</process_name><used_memory>5 "
    "MiB</used_memory></process_info></processes>"
    "</gpu></nvidia_smi_log>\nrest\n";

static void xml_text(void **state)
{
    (void)state;
#ifndef GW_HAVE_EXPAT
    struct gw_env *env = gw_env_create();
    struct gw_error err = {0};
    assert_int_equal(gw_capture_parse(env, "t", xml, sizeof xml - 1, &err), GW_EFORMAT);
    assert_true(note_has(env, "no expat"));
    gw_env_destroy(env);
#else
    struct gw_env *env = parse(xml);
    assert_string_equal(gw_env_gpu_at(env, 0)->name, "A & B");
    assert_int_equal(metric(env, 0, GW_GPU_PCIE_GEN), 1);
    assert_int_equal(metric(env, 0, GW_GPU_REASONS), GW_REASON_SW_THERMAL);
    assert_int_equal(((const struct gw_env_proc *)gw_env_at(env, GW_REC_PROC, 0))->pid, 77);
    assert_int_equal(((const struct gw_env_mig *)gw_env_at(env, GW_REC_MIG, 0))->bytes, 20096LL << 20);
    check_is(env, "pcie", GW_CHECK_UNKNOWN, "idle link");
    check_is(env, "heat", GW_CHECK_BAD, "SW thermal slowdown");
    gw_env_destroy(env);
    /* Cut in the middle: what came before is there, and the loss is named. */
    char *cut = strdup(xml);
    *strstr(cut, "</pcie_gen>") = '\0';
    env = parse(cut);
    assert_int_equal(metric(env, 0, GW_GPU_PCIE_GEN_MAX), 4);
    assert_true(note_has(env, "ends early or is damaged"));
    gw_env_destroy(env);
    free(cut);
    /* An entity of an outside file is not fetched, and one that grows without end is refused. */
    env = parse(
        "<?xml version=\"1.0\"?><!DOCTYPE nvidia_smi_log [<!ENTITY f SYSTEM \"file:///etc/passwd\">"
        "<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\"><!ENTITY c \"&b;&b;&b;&b;&b;&b;&b;&b;\">]>"
        "<nvidia_smi_log><driver_version>1.2&f;</driver_version><gpu "
        "id=\"0:1:0.0\"><product_name>&c;</product_name></gpu></nvidia_smi_log>");
    assert_string_equal(gw_env_str(env, GW_HSTR_DRIVER), "1.2");
    gw_env_destroy(env);
#endif
}

/* --- the table
 * ------------------------------------------------------------------------------------------------------------ */

static void plain_table(void **state)
{
    (void)state;
    struct gw_env *env =
        parse("Every 1.0s: nvidia-smi\n"
              "| NVIDIA-SMI 535.129.03             Driver Version: 535.129.03   CUDA Version: 12.2     |\n"
              "|-----------------------------------------+----------------------+----------------------+\n"
              "| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |\n"
              "| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |\n"
              "|                                         |                      |               MIG M. |\n"
              "|=========================================+======================+======================|\n"
              "|   0  NVIDIA A100-SXM4-80GB          On  | 00000000:07:00.0 Off |                    3 |\n"
              "| N/A   85C    P0             398W / 400W |  79000MiB / 81920MiB |    100%   E. Process |\n"
              "|                                         |                      |             Disabled |\n"
              "+-----------------------------------------+----------------------+----------------------+\n"
              "|   1  Tesla V100-SXM2...             Off | 00000000:0F:00.0 Off |                  N/A |\n"
              "| ERR!  N/A   ERR!             N/A / N/A  |      0MiB / 32768MiB |      0%      Default |\n"
              "|                                         |                      |                  N/A |\n"
              "+-----------------------------------------+----------------------+----------------------+\n"
              "\n"
              "+---------------------------------------------------------------------------------------+\n"
              "| Processes:                                                                            |\n"
              "|  GPU   GI   CI        PID   Type   Process name                            GPU Memory |\n"
              "|        ID   ID                                                             Usage      |\n"
              "|=======================================================================================|\n"
              "|    0   N/A  N/A      4242      C   python                                    78000MiB |\n"
              "|    0   N/A  N/A      4243    C+G   /opt/a b                                    900MiB |\n"
              "+---------------------------------------------------------------------------------------+\n");
    assert_int_equal(env->gpus.len, 2);
    assert_string_equal(gw_env_gpu_at(env, 0)->name, "NVIDIA A100-SXM4-80GB");
    assert_string_equal(gw_env_gpu_at(env, 1)->name, "Tesla V100-SXM2...");
    assert_int_equal(metric(env, 0, GW_GPU_TEMP), 85);
    assert_int_equal(metric(env, 0, GW_GPU_PSTATE), 0);
    assert_int_equal(metric(env, 0, GW_GPU_POWER), 398000);
    assert_int_equal(metric(env, 0, GW_GPU_POWER_LIMIT), 400000);
    assert_int_equal(metric(env, 0, GW_GPU_MEM_USED), 79000LL << 20);
    assert_int_equal(metric(env, 0, GW_GPU_UTIL), 100);
    assert_int_equal(metric(env, 0, GW_GPU_COMPUTE_MODE), 3);
    assert_int_equal(metric(env, 0, GW_GPU_MIG), 0);
    assert_int_equal(metric(env, 1, GW_GPU_PERSISTENCE), 0);
    assert_int_equal(metric(env, 1, GW_GPU_POWER), GW_ENV_NONE);
    assert_int_equal(gw_env_count(env, GW_REC_PROC), 2);
    check_is(env, "ecc", GW_CHECK_BAD, "GPU 0: 3 uncorrected");
    check_is(env, "gpu-shared", GW_CHECK_LOOK, "GPU 0: 2 compute processes: python 4242 76 GiB");
    gw_env_destroy(env);

    /* Before driver 450 the process table had no instance columns. */
    env = parse("| NVIDIA-SMI 418.67       Driver Version: 418.67       CUDA Version: 10.1     |\n"
                "|   0  Tesla T4            Off  | 00000000:00:04.0 Off |                    0 |\n"
                "| N/A   60C    P0    28W /  70W |    100MiB / 15079MiB |      9%      Default |\n"
                "+-----------------------------------------------------------------------------+\n"
                "| Processes:                                                       GPU Memory |\n"
                "|    0     12345      C   python                                       90MiB |\n");
    assert_int_equal(((const struct gw_env_proc *)gw_env_at(env, GW_REC_PROC, 0))->pid, 12345);
    gw_env_destroy(env);
}

/* --- logs
 * ----------------------------------------------------------------------------------------------------------------- */

static void csv_log(void **state)
{
    (void)state;
    struct gw_env *env = parse(
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
    assert_int_equal(metric(env, 0, GW_GPU_UTIL), 9);
    assert_int_equal(metric(env, 0, GW_GPU_POWER), 78000);
    assert_int_equal(metric(env, 0, GW_GPU_CC_MAJOR), 9);
    assert_int_equal(metric(env, 1, GW_GPU_UTIL), GW_ENV_NONE);
    assert_int_equal(gw_env_sample_at(env, 2)->t - gw_env_sample_at(env, 0)->t, 1000000000);
    assert_true(note_has(env, "1 line(s) with another number of columns"));
    check_is(env, "heat", GW_CHECK_BAD, "GPU 0: HW thermal slowdown in 2 of 2 samples");
    gw_env_destroy(env);

    /* nounits, one column, no stamps; a word in a help text is no column */
    env = parse("utilization.gpu [%]\n12\n99\n");
    assert_int_equal(gw_env_sample_count(env), 2);
    assert_int_equal(metric(env, 0, GW_GPU_UTIL), 99);
    assert_true(note_has(env, "no column names the GPU"));
    gw_env_destroy(env);
    struct gw_error err = {0};
    env = gw_env_create();
    assert_int_equal(gw_capture_parse(env, "t", "\"utilization.gpu\"\nPercent of time over the past\n", 49, &err),
                     GW_EFORMAT);
    gw_env_destroy(env);

    env = parse("gpu_uuid, pid, process_name, used_gpu_memory [MiB]\nGPU-1, 4242, python, 100 MiB\nGPU-1, 4243, "
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
    struct gw_env *env = parse(text);
    check_is(env, "utilization", GW_CHECK_LOOK, "GPU 0: swings 2-98 % every 9.5 s, high 42 % of the time");
    gw_env_destroy(env);
    free(text);
}

static void monitors(void **state)
{
    (void)state;
    struct gw_env *env = parse("# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk  pviol  tviol     "
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
    assert_int_equal(metric(env, 0, GW_GPU_POWER), 321000);
    assert_int_equal(metric(env, 0, GW_GPU_TEMP_MEM), GW_ENV_NONE);
    assert_int_equal(metric(env, 0, GW_GPU_PCIE_RX), 9000000);
    assert_int_equal(metric(env, 0, GW_GPU_MEM_USED), 2000LL << 20);
    check_is(env, "heat", GW_CHECK_BAD, "GPU 0: SW thermal slowdown in 2 of 2");
    gw_env_destroy(env);
    env = parse("#Date       Time        gpu    pwr     sm\n#YYYYMMDD   HH:MM:SS    Idx      W      %\n 20261201   "
                "06:43:04      0    100     50 \n 20261201   06:43:06      0    100     50 \n");
    assert_int_equal(gw_env_sample_at(env, 1)->t - gw_env_sample_at(env, 0)->t, 2000000000);
    gw_env_destroy(env);
    env = parse("# gpu         pid   type     sm    mem    command \n# Idx           #    C/G      %      %    name \n "
                "   0       4242     C     90     10    python         \n    0       1696     G      -      -    "
                "Xwayland       \n    1          -     -      -      -    -              \n");
    assert_int_equal(gw_env_count(env, GW_REC_PROC), 2);
    assert_int_equal(env->gpus.len, 2);
    gw_env_destroy(env);
}

/* --- topology
 * --------------------------------------------------------------------------------------------------------------- */

static void topology(void **state)
{
    (void)state;
    struct gw_env *env = parse("\t\033[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\033[0m\n"
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
    assert_int_equal(metric(env, 2, GW_GPU_NUMA_NODE), 1);
    check_is(env, "topology", GW_CHECK_LOOK, "3 pairs: 1 NVLink, 1 PHB, 1 SYS");
    check_is(env, "nic", GW_CHECK_LOOK, "GPU 1: the nearest adapter is far (NODE)");
    gw_env_destroy(env);

    /* pasted into a mail: blanks instead of tabs */
    env = parse("        GPU0    GPU1    CPU Affinity\nGPU0     X      PIX     0-15\nGPU1    PIX      X      0-15\n");
    check_is(env, "topology", GW_CHECK_GOOD, "1 pair: 1 PIX");
    gw_env_destroy(env);
    env = parse(" \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tCNS\tX\t\n");
    check_is(env, "peer-to-peer", GW_CHECK_LOOK, "1 of 1 pairs without: not by this chipset");
    gw_env_destroy(env);
    env = parse("GPU 0: NVIDIA H200 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\nGPU 1: NVIDIA H200 "
                "(UUID: GPU-2)\n\t Link 0: 26.562 GB/s\n\t Link 1: 26.562 GB/s\n");
    check_is(env, "nvlink", GW_CHECK_BAD, "GPU 0: 1 of 2 links up");
    gw_env_destroy(env);
}

/* --- the host's tools
 * -------------------------------------------------------------------------------------------------------- */

static void host_tools(void **state)
{
    (void)state;
    struct gw_env *env = parse("Architecture:                       x86_64\nCPU op-mode(s):                     "
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
    check_is(env, "toolkit", GW_CHECK_LOOK, "11.8, PyTorch was built with 12.4");
    check_is(env, "swap", GW_CHECK_LOOK, "4.0 GiB of 8.0 GiB");
    check_is(env, "disk", GW_CHECK_LOOK, "sda 100 % busy, 40 ms");
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

/* --- saved facts
 * --------------------------------------------------------------------------------------------------------------- */

static void same_results(const struct gw_env *a, const struct gw_env *b)
{
    struct gw_arena *arena = gw_arena_create(0);
    const struct gw_check_list *x = gw_checks_run(a, arena), *y = gw_checks_run(b, arena);
    for (size_t i = 0; i < x->count; i++)
        if (x->items[i].status != y->items[i].status || strcmp(x->items[i].value, y->items[i].value) != 0)
            fail_msg("%s: %s '%s', read back %s '%s'", x->items[i].info->id, gw_check_status_id(x->items[i].status),
                     x->items[i].value, gw_check_status_id(y->items[i].status), y->items[i].value);
    gw_arena_destroy(arena);
}

static void saved_and_read_back(void **state)
{
    (void)state;
    char path[256];
    struct gw_error err = {0};
    struct gw_env *a = parse(query), *b = gw_env_create();
    struct gw_env_var *v = gw_env_add(a, GW_REC_VAR);
    v->name = "NCCL_DEBUG";
    v->value = gw_env_dup(a, "INFO 100%=\ttab", 14); /* control characters never get in */
    fixture_file("", 0, path, sizeof path);
    assert_int_equal(gw_env_save(a, path, &err), 0);
    assert_int_equal(gw_capture_read(b, path, &err), 0);
    same_results(a, b);
    assert_string_equal(gw_env_var_value(b, "NCCL_DEBUG"), "INFO 100%= tab");
    assert_int_equal(gw_env_sample_count(b), gw_env_sample_count(a));
    for (int m = 0; m < GW_GPU_COUNT; m++)
        assert_int_equal(metric(a, 0, (enum gw_gpu_metric)m), metric(b, 0, (enum gw_gpu_metric)m));
    gw_env_destroy(a);
    gw_env_destroy(b);
    fixture_remove(path);
    a = gw_env_create();
    assert_int_equal(gw_env_save(a, "/nowhere/file", &err), GW_EIO);
    gw_env_destroy(a);
    b = parse("#gpuwhy-check 1\nhost cpus=4 later=5\nnewkind a=1\n");
    assert_true(note_has(b, "ends early"));
    assert_true(note_has(b, "2 facts are of a later version"));
    gw_env_destroy(b);
}

static void folders_and_bad_files(void **state)
{
    (void)state;
    struct gw_error err = {0};
    char dir[256], path[300];
    struct gw_env *env = gw_env_create();
    assert_int_equal(gw_capture_read(env, "/nowhere", &err), GW_EIO);
    memset(&err, 0, sizeof err);
    assert_int_equal(gw_capture_parse(env, "t", "no capture at all\n", 18, &err), GW_EFORMAT);
    assert_true(strlen(err.advice) > 20);
    assert_int_equal(gw_capture_read(env, "/dev/null", &(struct gw_error){0}), GW_EUSAGE);
    gw_env_destroy(env);

    fixture_unpack("fixtures/check/empty.root", dir, sizeof dir);
    const struct {
        const char *name, *text;
    } files[] = {{"a-query.txt", query},
                 {"b-free.txt", "       total used free\nMem: 64000000 1000000 2000000\n"},
                 {"c-notes.md", "my notes\n"},
                 {"d-other.txt", "| NVIDIA-SMI 470.1       Driver Version: 470.1       CUDA Version: 11.4     |\n"}};
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i].name);
        FILE *f = fopen(path, "w");
        fputs(files[i].text, f);
        fclose(f);
    }
    env = gw_env_create();
    memset(&err, 0, sizeof err);
    assert_int_equal(gw_capture_read(env, dir, &err), 0);
    assert_int_equal(env->gpus.len, 2);
    assert_int_equal(gw_env_get(env, GW_HOST_MEM_TOTAL), 64000000LL * 1024);
    assert_true(note_has(env, "another driver"));
    assert_true(note_has(env, "nothing in it is a capture"));
    gw_env_destroy(env);
    /* Two files on the command line are treated alike. */
    env = gw_env_create();
    snprintf(path, sizeof path, "%s/a-query.txt", dir);
    assert_int_equal(gw_capture_read(env, path, &err), 0);
    snprintf(path, sizeof path, "%s/d-other.txt", dir);
    assert_int_equal(gw_capture_read(env, path, &err), 0);
    assert_string_equal(gw_env_str(env, GW_HSTR_DRIVER), "535.161.08");
    assert_true(note_has(env, "another driver"));
    gw_env_destroy(env);
    fixture_remove(dir);
}

/* --- other people's machines
 * ------------------------------------------------------------------------------------------------------ */

/* What must be said about each file; all others must have nothing bad in them. */
static const struct {
    const char *file, *check;
    enum gw_check_status status;
    const char *value;
} known[] = {
    {"535.161.08", "power-brake", GW_CHECK_BAD, "all 8 GPUs: HW power brake, HW slowdown"},
    {"535.183.01.out.0.valid", "heat", GW_CHECK_BAD, "GPU 2: SW thermal slowdown"},
    {"535.183.01.out.0.valid", "power-brake", GW_CHECK_BAD, "GPU 2: HW power brake"},
    {"535.183.01.out.0.invalid", "heat", GW_CHECK_UNKNOWN, "not every reason"},
    {"560.35.03", "pcie", GW_CHECK_UNKNOWN, "gen 1 x16 now, gen 3 x16 possible"},
    {"h200-idle-q", "heat", GW_CHECK_GOOD, "no"},
    {"h200-idle-q", "pcie", GW_CHECK_GOOD, "gen 5 x16, all that both ends can do"},
    {"h200-training-4hz", "utilization", GW_CHECK_LOOK, "bursts at no fixed period"},
    {"h200-training-dmon", "utilization", GW_CHECK_LOOK, "bursts at no fixed period"},
    {"2080-super", "persistence", GW_CHECK_GOOD, "display"},
    {"2080-super", "pcie", GW_CHECK_GOOD, "gen 3 x16"},
    {"h100-mig", "mig", GW_CHECK_LOOK, "on, 4 instances"},
    {"nvidia-h200__590", "nvlink", GW_CHECK_GOOD, "18 of 18"},
    {"nvidia-h200__590", "gpu-shared", GW_CHECK_LOOK, "3 compute processes"},
#ifdef GW_HAVE_EXPAT
    {"3090-v13", "power-limit", GW_CHECK_GOOD, "350 W, the default"},
    {"a100-sxm4", "mig", GW_CHECK_LOOK, "on, 4 instances"},
    {"tesla-t4", "clocks", GW_CHECK_GOOD, "585 MHz"},
#endif
};

static void other_peoples_machines(void **state)
{
    (void)state;
    char dir[1024], path[2048];
    snprintf(dir, sizeof dir, "%s/smi", traces);
    struct dirent **names = NULL;
    int n = scandir(dir, &names, NULL, alphasort), used[sizeof known / sizeof known[0]] = {0}, files = 0;
    if (n <= 0) {
        print_message("[   SKIP   ] no captures in %s\n", dir);
        skip();
    }
    for (int i = 0; i < n; i++) {
        const char *name = names[i]->d_name;
        struct gw_error err = {0};
        size_t len = strlen(name);
#ifndef GW_HAVE_EXPAT
        if (len > 4 && strcmp(name + len - 4, ".xml") == 0)
            continue;
#endif
        if (len < 3 || name[0] == '.' || strcmp(name, "README.md") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, name);
        struct gw_env *env = gw_env_create();
        if (gw_capture_read(env, path, &err) < 0)
            fail_msg("%s: %s", name, err.what);
        files++;
        struct gw_arena *arena = gw_arena_create(0);
        const struct gw_check_list *l = gw_checks_run(env, arena);
        size_t bad = 0;
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
            if (!strstr(name, known[k].file))
                continue;
            const struct gw_check *c = gw_check_find(l, known[k].check);
            if (c->status != known[k].status || !strstr(c->value, known[k].value))
                fail_msg("%s: %s is %s: '%s'", name, known[k].check, gw_check_status_id(c->status), c->value);
            used[k] = 1;
            bad += known[k].status == GW_CHECK_BAD;
        }
        if (l->by_status[GW_CHECK_BAD] != bad)
            fail_msg("%s: %zu bad results, %zu are right", name, l->by_status[GW_CHECK_BAD], bad);
        gw_arena_destroy(arena);
        gw_env_destroy(env);
    }
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
    assert_true(files > 0);
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
        if (!used[k])
            fail_msg("no file for %s", known[k].file);
}

int main(int argc, char **argv)
{
    traces = getenv("GPUWHY_TRACES") ? getenv("GPUWHY_TRACES") : argc > 1 ? argv[1] : "/nowhere";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(query_text),
        cmocka_unit_test(odd_encodings),
        cmocka_unit_test(several_captures_in_one_file),
        cmocka_unit_test(cut_short),
        cmocka_unit_test(xml_text),
        cmocka_unit_test(plain_table),
        cmocka_unit_test(csv_log),
        cmocka_unit_test(sawtooth_log),
        cmocka_unit_test(monitors),
        cmocka_unit_test(topology),
        cmocka_unit_test(host_tools),
        cmocka_unit_test(values),
        cmocka_unit_test(saved_and_read_back),
        cmocka_unit_test(folders_and_bad_files),
        cmocka_unit_test(other_peoples_machines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
