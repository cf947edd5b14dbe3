/* nvidia-smi -q as text and XML, and its table: small pieces, and files of other people's machines when they are there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture_text.h"

static const char *traces; /* argv[1], or GPUWHY_TRACES: holds smi/ */

/* --- nvidia-smi -q
 * ----------------------------------------------------------------------------------------------------- */

static void query_values(const struct gw_env *env)
{
    assert_int_equal(env->gpus.len, 2);
    assert_string_equal(gw_env_str(env, GW_HSTR_DRIVER), "535.161.08");
    assert_int_equal(gw_env_get(env, GW_HOST_CUDA_DRIVER), 12020);
    assert_string_equal(gw_env_gpu_at(env, 0)->bus_id, "0000:19:00.0");
    assert_string_equal(gw_env_gpu_at(env, 0)->name, "NVIDIA H100 80GB HBM3");
    assert_int_equal(capture_metric(env, 0, GW_GPU_PCIE_GEN), 4);
    assert_int_equal(capture_metric(env, 0, GW_GPU_PCIE_GEN_MAX), 5);
    assert_int_equal(capture_metric(env, 0, GW_GPU_PCIE_WIDTH), 8);
    assert_int_equal(capture_metric(env, 0, GW_GPU_PCIE_REPLAY), 67);
    assert_int_equal(capture_metric(env, 0, GW_GPU_MEM_TOTAL), 81559LL << 20);
    assert_int_equal(capture_metric(env, 0, GW_GPU_POWER), 412250); /* not the module's */
    assert_int_equal(capture_metric(env, 0, GW_GPU_POWER_LIMIT), 500000);
    assert_int_equal(capture_metric(env, 0, GW_GPU_SM_CLOCK), 86);
    assert_int_equal(capture_metric(env, 0, GW_GPU_SM_MAX), 1980);
    assert_int_equal(capture_metric(env, 0, GW_GPU_REASONS), GW_REASON_HW_SLOWDOWN | GW_REASON_HW_BRAKE);
    assert_int_equal(capture_metric(env, 0, GW_GPU_REASONS_KNOWN), 0x1 | 0x8 | 0x40 | 0x80 | 0x20);
    assert_int_equal(capture_metric(env, 0, GW_GPU_COMPUTE_MODE), 3);
    assert_int_equal(capture_metric(env, 0, GW_GPU_UTIL_MEM), GW_ENV_NONE); /* N/A is not 0 */
    assert_int_equal(capture_metric(env, 1, GW_GPU_UTIL), GW_ENV_NONE);
    const struct gw_env_proc *p = gw_env_at(env, GW_REC_PROC, 0);
    assert_int_equal(p->pid, 4242);
    assert_int_equal(p->bytes, 1LL << 30);
    assert_string_equal(p->name, "/usr/bin/python3: a job");
    assert_int_equal(gw_env_count(env, GW_REC_NOTE), 0);
}

static void query_text(void **state)
{
    (void)state;
    struct gw_env *env = capture_parse(capture_query);
    query_values(env);
    capture_check_is(env, "power-brake", GW_CHECK_BAD, "GPU 0: HW power brake, HW slowdown; 86 of 1980 MHz");
    capture_check_is(env, "pcie", GW_CHECK_BAD, "GPU 0: gen 4 x8 under load");
    gw_env_destroy(env);
}

static void odd_encodings(void **state)
{
    (void)state;
    size_t n = strlen(capture_query);
    char *wide = malloc(2 * n + 2), *marked = malloc(8 * n + 100);
    for (int big = 0; big < 2; big++) /* PowerShell's redirection writes UTF-16 */
        for (int mark = 0; mark < 2; mark++) {
            size_t at = 0;
            if (mark) {
                wide[at++] = big ? '\xfe' : '\xff';
                wide[at++] = big ? '\xff' : '\xfe';
            }
            for (size_t i = 0; i < n; i++) {
                wide[at++] = big ? '\0' : capture_query[i];
                wide[at++] = big ? capture_query[i] : '\0';
            }
            struct gw_env *env = capture_parse_bytes(wide, at);
            query_values(env);
            gw_env_destroy(env);
        }
    size_t at = 0;
    memcpy(marked, "\xef\xbb\xbf\033]0;title\007", 13);
    at = 13;
    for (size_t i = 0; i < n; i++) { /* a coloured terminal log with CR LF */
        if (capture_query[i] == '\n')
            marked[at++] = '\r';
        marked[at++] = capture_query[i];
        if (capture_query[i] == ':') {
            memcpy(marked + at, "\033[0;31m", 7);
            at += 7;
        }
    }
    struct gw_env *env = capture_parse_bytes(marked, at);
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
            capture_query);
    char *again = strdup(capture_query);
    memcpy(strstr(again, "11:22:39"), "11:22:49", 8);
    memcpy(strstr(again, ": 67\n"), ": 97\n", 5);
    fprintf(f, "%s\nuser@host:~$ exit\n", again);
    fclose(f);
    struct gw_env *env = capture_parse(text);
    assert_int_equal(env->gpus.len, 2);
    assert_int_equal(gw_env_count(env, GW_REC_PROC), 1); /* the same process twice is one */
    assert_int_equal(gw_env_sample_count(env), 4);
    assert_int_equal(gw_env_get(env, GW_HOST_MEM_TOTAL), 503LL << 30);
    capture_check_is(env, "pcie-errors", GW_CHECK_BAD,
                     "GPU 0: 30 in 10 s"); /* which needs both readings and their stamps */
    gw_env_destroy(env);
    free(again);
    free(text);
}

static void cut_short(void **state)
{
    (void)state;
    char *cut = strdup(capture_query);
    *strstr(cut, "    Utilization") = '\0';
    struct gw_env *env = capture_parse(cut);
    assert_true(capture_note_has(env, "block of GPU 0 ends early"));
    assert_true(capture_note_has(env, "speaks of 2 GPUs but holds 1"));
    capture_check_is(env, "gpus", GW_CHECK_LOOK, "the capture speaks of 2");
    capture_check_is(env, "power-limit", GW_CHECK_UNKNOWN, "");
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
    assert_true(capture_note_has(env, "no expat"));
    gw_env_destroy(env);
#else
    struct gw_env *env = capture_parse(xml);
    assert_string_equal(gw_env_gpu_at(env, 0)->name, "A & B");
    assert_int_equal(capture_metric(env, 0, GW_GPU_PCIE_GEN), 1);
    assert_int_equal(capture_metric(env, 0, GW_GPU_REASONS), GW_REASON_SW_THERMAL);
    assert_int_equal(((const struct gw_env_proc *)gw_env_at(env, GW_REC_PROC, 0))->pid, 77);
    assert_int_equal(((const struct gw_env_mig *)gw_env_at(env, GW_REC_MIG, 0))->bytes, 20096LL << 20);
    capture_check_is(env, "pcie", GW_CHECK_UNKNOWN, "idle link");
    capture_check_is(env, "heat", GW_CHECK_BAD, "SW thermal slowdown");
    gw_env_destroy(env);
    /* Cut in the middle: what came before is there, and the loss is named. */
    char *cut = strdup(xml);
    *strstr(cut, "</pcie_gen>") = '\0';
    env = capture_parse(cut);
    assert_int_equal(capture_metric(env, 0, GW_GPU_PCIE_GEN_MAX), 4);
    assert_true(capture_note_has(env, "ends early or is damaged"));
    gw_env_destroy(env);
    free(cut);
    /* An entity of an outside file is not fetched, and one that grows without end is refused. */
    env = capture_parse(
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
        capture_parse("Every 1.0s: nvidia-smi\n"
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
    assert_int_equal(capture_metric(env, 0, GW_GPU_TEMP), 85);
    assert_int_equal(capture_metric(env, 0, GW_GPU_PSTATE), 0);
    assert_int_equal(capture_metric(env, 0, GW_GPU_POWER), 398000);
    assert_int_equal(capture_metric(env, 0, GW_GPU_POWER_LIMIT), 400000);
    assert_int_equal(capture_metric(env, 0, GW_GPU_MEM_USED), 79000LL << 20);
    assert_int_equal(capture_metric(env, 0, GW_GPU_UTIL), 100);
    assert_int_equal(capture_metric(env, 0, GW_GPU_COMPUTE_MODE), 3);
    assert_int_equal(capture_metric(env, 0, GW_GPU_MIG), 0);
    assert_int_equal(capture_metric(env, 1, GW_GPU_PERSISTENCE), 0);
    assert_int_equal(capture_metric(env, 1, GW_GPU_POWER), GW_ENV_NONE);
    assert_int_equal(gw_env_count(env, GW_REC_PROC), 2);
    capture_check_is(env, "ecc", GW_CHECK_BAD, "GPU 0: 3 uncorrected");
    capture_check_is(env, "gpu-shared", GW_CHECK_LOOK, "GPU 0: 2 compute processes: python 4242 76 GiB");
    gw_env_destroy(env);

    /* Before driver 450 the process table had no instance columns. */
    env = capture_parse("| NVIDIA-SMI 418.67       Driver Version: 418.67       CUDA Version: 10.1     |\n"
                        "|   0  Tesla T4            Off  | 00000000:00:04.0 Off |                    0 |\n"
                        "| N/A   60C    P0    28W /  70W |    100MiB / 15079MiB |      9%      Default |\n"
                        "+-----------------------------------------------------------------------------+\n"
                        "| Processes:                                                       GPU Memory |\n"
                        "|    0     12345      C   python                                       90MiB |\n");
    assert_int_equal(((const struct gw_env_proc *)gw_env_at(env, GW_REC_PROC, 0))->pid, 12345);
    gw_env_destroy(env);
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
        cmocka_unit_test(other_peoples_machines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
