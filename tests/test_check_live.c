/* The running machine, played by a folder with /proc and /sys and by a library that plays NVML. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_fixture.h"
#include "collect/checks/checks.h"
#include "collect/live/live.h"

static const char *fake_nvml; /* argv[1] */

struct machine {
    struct gw_env *env;
    struct gw_arena *arena;
    struct gw_check_list *checks;
    char root[256];
};

static void look_at(struct machine *m, const char *manifest, const char *script, struct gw_live_options *o)
{
    fixture_unpack(manifest, m->root, sizeof m->root);
    setenv("GPUWHY_FAKE_NVML", script, 1);
    o->root = m->root;
    o->nvml = fake_nvml;
    o->sample_ms = 300;
    m->env = gw_env_create();
    m->arena = gw_arena_create(0);
    assert_non_null(m->env);
    assert_int_equal(gw_live_collect(m->env, o), 0);
    m->checks = gw_checks_run(m->env, m->arena);
    assert_non_null(m->checks);
}

static void leave(struct machine *m)
{
    gw_env_destroy(m->env);
    gw_arena_destroy(m->arena);
    fixture_remove(m->root);
}

static void expect(struct machine *m, const char *id, enum gw_check_status status, const char *in_value)
{
    const struct gw_check *c = gw_check_find(m->checks, id);
    assert_non_null(c);
    if (c->status != status || !strstr(c->value, in_value))
        fail_msg("%s is %s: '%s', not %s: '%s'", id, gw_check_status_id(c->status), c->value,
                 gw_check_status_id(status), in_value);
    if (status >= GW_CHECK_LOOK && strcmp(id, "gpus") != 0)
        assert_true(*c->fix != '\0');
}

static void two_sockets_full_of_trouble(void **state)
{
    (void)state;
    static struct machine m;
    char python[320];
    const char *data[] = {"/data/set", "/data/my disk/set"};
    struct gw_live_options o = {.python = python, .data = data, .data_count = 2};
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    setenv("OMP_NUM_THREADS", "64", 1);
    setenv("HF_TOKEN", "do-not-show", 1);
    unsetenv("CUDA_HOME");
    unsetenv("CUDA_PATH");
    char root[256];
    fixture_unpack("fixtures/check/two_socket.root", root, sizeof root); /* for --python alone */
    snprintf(python, sizeof python, "%s/opt/env", root);
    look_at(&m, "fixtures/check/two_socket.root", "fixtures/check/two_socket.nvml", &o);

    expect(&m, "driver", GW_CHECK_GOOD, "580.159.04, runs CUDA up to 13.0");
    expect(&m, "gpus", GW_CHECK_GOOD, "2 x NVIDIA H100");
    expect(&m, "framework", GW_CHECK_GOOD, "2.4.0+cu118, built with CUDA 11.7");
    expect(&m, "architecture", GW_CHECK_BAD, "capability 9.0 needs CUDA 11.8");
    expect(&m, "toolkit", GW_CHECK_LOOK, "12.4.1");
    expect(&m, "libraries", GW_CHECK_LOOK, "cudnn is for CUDA 12");
    expect(&m, "heat", GW_CHECK_BAD, "HW thermal slowdown");
    expect(&m, "power-brake", GW_CHECK_GOOD, "no"); /* HW slowdown goes with the heat */
    expect(&m, "throttled-before", GW_CHECK_LOOK, "HW thermal 45 s");
    expect(&m, "temperature", GW_CHECK_LOOK, "84 C, 3 C below");
    expect(&m, "power-limit", GW_CHECK_GOOD, "700 W, the default; a full load reaches it");
    expect(&m, "gpu-shared", GW_CHECK_LOOK, "2 compute processes: pt_data_worker 501");
    expect(&m, "persistence", GW_CHECK_LOOK, "GPU 1: off");
    expect(&m, "mig", GW_CHECK_LOOK, "GPU 1: on, 2 instances");
    expect(&m, "ecc", GW_CHECK_BAD, "waits for a reset");
    expect(&m, "profiling", GW_CHECK_LOOK, "administrators only");
    expect(&m, "pcie", GW_CHECK_LOOK, "gen 5 x8: all the slot has; the card can do x16");
    expect(&m, "pcie-errors", GW_CHECK_GOOD, "none in");
    expect(&m, "nvlink", GW_CHECK_BAD, "GPU 0: 17 of 18");
    expect(&m, "topology", GW_CHECK_GOOD, "NVLink");
    expect(&m, "peer-to-peer", GW_CHECK_LOOK, "not across these bridges");
    expect(&m, "nic", GW_CHECK_LOOK, "GPU 0: the nearest adapter is far (SYS)");
    expect(&m, "cpu", GW_CHECK_LOOK, "powersave (acpi-cpufreq)");
    expect(&m, "cpu-affinity", GW_CHECK_LOOK, "4 of 8 for 2 GPUs");
    expect(&m, "cpu-quota", GW_CHECK_LOOK, "throttled in 68 % of the periods so far");
    expect(&m, "cpu-load", GW_CHECK_GOOD, "3.5 on 8");
    expect(&m, "numa", GW_CHECK_BAD, "GPU 0: none of the allowed CPUs (4-7) is on its node (0-3)");
    expect(&m, "clocksource", GW_CHECK_LOOK, "hpet");
    expect(&m, "memory", GW_CHECK_LOOK, "64 GiB free (cgroup limit); 2 processes were killed");
    expect(&m, "swap", GW_CHECK_GOOD, "0 B of 8.0 GiB");
    expect(&m, "loader-workers", GW_CHECK_GOOD, "2 hold 3.0 GiB"); /* 1 GiB shared fairly and 2 GiB resident */
    expect(&m, "shm", GW_CHECK_BAD, "64 MiB");
    expect(&m, "memlock", GW_CHECK_BAD, "64 KiB");
    expect(&m, "open-files", GW_CHECK_GOOD, "1024");
    expect(&m, "data", GW_CHECK_LOOK, "/data/set: nfs4 (network); /data/my disk/set: xfs (local)");
    expect(&m, "disk", GW_CHECK_GOOD, "nvme1n1, 0 %");
    expect(&m, "variables", GW_CHECK_BAD, "CUDA_LAUNCH_BLOCKING=1");
    expect(&m, "threads", GW_CHECK_LOOK, "OMP_NUM_THREADS=64 on 4 CPUs");
    assert_string_equal(gw_check_find(m.checks, "variables")->finding, "debug-mode");

    /* The user's part of a mount source is not kept, and only listed variables are. */
    for (size_t i = 0; i < gw_env_count(m.env, GW_REC_FS); i++) {
        const struct gw_env_fs *f = gw_env_at(m.env, GW_REC_FS, i);
        assert_null(strstr(f->source, "secret"));
    }
    assert_null(gw_env_var_value(m.env, "HF_TOKEN"));
    assert_string_equal(gw_env_var_value(m.env, "OMP_NUM_THREADS"), "64");
    const struct gw_env_node *n = gw_env_at(m.env, GW_REC_NODE, 1);
    assert_string_equal(n->distances, "32 10");
    assert_int_equal(gw_env_get(m.env, GW_HOST_CORES), 2);
    assert_int_equal(gw_env_get(m.env, GW_HOST_SOCKETS), 2);
    leave(&m);
    fixture_remove(root);
}

/* --- topologies
 * ------------------------------------------------------------------------------------------------------- */

struct topology {
    const char *name;
    int gpus;
    const char *pair; /* what follows "pair I K " */
    const char *each; /* a line for each GPU, "%d" is its number */
    const char *check, *value;
    enum gw_check_status status;
};

static const struct topology topologies[] = {
    {"one GPU", 1, NULL, "%d links 18 0", "topology", "one GPU", GW_CHECK_UNKNOWN},
    {"one GPU whose links lead nowhere", 1, NULL, "%d links 18 0", "nvlink", "none is connected", GW_CHECK_GOOD},
    {"two by NVLink", 2, "ancestor 50 p2p 0 nvlinks 4", "%d uuid U%d", "topology", "1 pair: 1 NVLink", GW_CHECK_GOOD},
    {"two under one switch", 2, "ancestor 10 p2p 0", "%d uuid U%d", "topology", "1 pair: 1 PIX", GW_CHECK_GOOD},
    {"two under the CPU", 2, "ancestor 30 p2p 0", "%d uuid U%d", "topology", "1 pair: 1 PHB", GW_CHECK_LOOK},
    {"four across sockets", 4, "ancestor 50 p2p 0", "%d uuid U%d", "topology", "6 pairs: 6 SYS", GW_CHECK_LOOK},
    {"four without peer access", 4, "ancestor 30 p2p 5", "%d uuid U%d", "peer-to-peer",
     "6 of 6 pairs without: not supported", GW_CHECK_LOOK},
    {"eight on NVSwitch", 8, "ancestor 50 p2p 0", "%d links 18 18", "topology", "28 pairs: 28 NVLink", GW_CHECK_GOOD},
    {"eight on NVSwitch, peers", 8, "ancestor 50 p2p 0", "%d links 18 18", "peer-to-peer", "every pair", GW_CHECK_GOOD},
    {"eight, all with a link down", 8, "ancestor 50 p2p 0", "%d links 18 17", "nvlink", "all 8 GPUs: 17 of 18",
     GW_CHECK_BAD},
    {"two with MIG", 2, "ancestor 50 p2p 5", "%d nvmlDeviceGetMigMode 101", "mig", "no instance can be seen",
     GW_CHECK_LOOK},
};

static void every_topology(void **state)
{
    (void)state;
    for (size_t t = 0; t < sizeof topologies / sizeof topologies[0]; t++) {
        const struct topology *tp = &topologies[t];
        static struct machine m;
        char *script = NULL, path[256];
        size_t len = 0;
        FILE *f = open_memstream(&script, &len);
        fprintf(f, "gpus %d\ndriver 580.1\ncuda 13000\n", tp->gpus);
        for (int i = 0; i < tp->gpus; i++) {
            fprintf(f, "%d name NVIDIA X\n%d bus 00000000:%02X:00.0\n", i, i, i + 16);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            fprintf(f, tp->each, i, i);
#pragma GCC diagnostic pop
            fputc('\n', f);
            for (int k = i + 1; k < tp->gpus; k++)
                fprintf(f, "pair %d %d %s\n", i, k, tp->pair);
        }
        fclose(f);
        fixture_file(script, len, path, sizeof path);
        struct gw_live_options o = {.python = "/nowhere"};
        look_at(&m, "fixtures/check/empty.root", path, &o);
        assert_int_equal(m.env->gpus.len, tp->gpus);
        const struct gw_check *c = gw_check_find(m.checks, tp->check);
        if (c->status != tp->status || !strstr(c->value, tp->value))
            fail_msg("%s: %s is %s: '%s'", tp->name, tp->check, gw_check_status_id(c->status), c->value);
        leave(&m);
        fixture_remove(path);
        free(script);
    }
}

/* --- what is not there
 * -------------------------------------------------------------------------------------------------- */

static void an_empty_machine_says_nothing_good_about_gpus(void **state)
{
    (void)state;
    static struct machine m;
    struct gw_live_options o = {.python = "/nowhere"};
    fixture_unpack("fixtures/check/empty.root", m.root, sizeof m.root);
    o.root = m.root;
    o.nvml = "/nowhere/libnvidia-ml.so.1";
    o.sample_ms = 100;
    m.env = gw_env_create();
    m.arena = gw_arena_create(0);
    assert_int_equal(gw_live_collect(m.env, &o), 0);
    m.checks = gw_checks_run(m.env, m.arena);
    for (size_t i = 0; i < m.checks->count; i++) {
        const struct gw_check *c = &m.checks->items[i];
        int can_be_told = strcmp(c->info->id, "variables") == 0 || strcmp(c->info->id, "container") == 0;
        if (c->status == GW_CHECK_GOOD && !can_be_told)
            fail_msg("%s is called good without data: %s", c->info->id, c->value);
        assert_int_not_equal(c->status, GW_CHECK_BAD);
        assert_true(*c->info->needs != '\0');
    }
    leave(&m);
}

static void a_driver_that_refuses(void **state)
{
    (void)state;
    static struct machine m;
    static const struct {
        const char *script, *value;
    } cases[] = {{"init 18\n", "driver and library versions do not match"},
                 {"init 9\n", "the kernel module is not loaded"},
                 {"init 999\n", "NVML error 999"}};
    for (size_t i = 0; i < 3; i++) {
        char path[256];
        struct gw_live_options o = {.python = "/nowhere"};
        fixture_file(cases[i].script, strlen(cases[i].script), path, sizeof path);
        look_at(&m, "fixtures/check/two_socket.root", path, &o);
        expect(&m, "driver", GW_CHECK_BAD, cases[i].value);
        expect(&m, "gpus", GW_CHECK_BAD, "2 on the bus, none that can be used");
        expect(&m, "pcie", GW_CHECK_UNKNOWN, "");
        leave(&m);
        fixture_remove(path);
    }
}

static void a_missing_gpu(void **state)
{
    (void)state;
    static struct machine m;
    char path[256];
    static const char script[] = "gpus 1\ndriver 580.159.04\ncuda 13000\n0 name NVIDIA H100\n0 bus 00000000:41:00.0\n";
    struct gw_live_options o = {.python = "/nowhere"};
    fixture_file(script, sizeof script - 1, path, sizeof path);
    look_at(&m, "fixtures/check/two_socket.root", path, &o);
    expect(&m, "gpus", GW_CHECK_BAD, "1 x NVIDIA H100; the PCI bus has 2");
    /* Facts without a line in the script stay unknown; they are not zero. */
    struct gw_gpu *g = gw_env_gpu_at(m.env, 0);
    assert_false(gw_gpu_has(g, GW_GPU_POWER_LIMIT));
    assert_false(gw_gpu_has(g, GW_GPU_UTIL));
    expect(&m, "power-limit", GW_CHECK_UNKNOWN, "");
    expect(&m, "temperature", GW_CHECK_UNKNOWN, "");
    leave(&m);
    fixture_remove(path);
}

static void an_old_machine_with_cgroup_v1(void **state)
{
    (void)state;
    static struct machine m;
    struct gw_live_options o = {.python = "/nowhere"};
    look_at(&m, "fixtures/check/cgroup_v1.root", "fixtures/check/two_socket.nvml", &o);
    expect(&m, "cpu-quota", GW_CHECK_LOOK, "2 CPUs; throttled in 20 % of the periods so far");
    expect(&m, "memory", GW_CHECK_GOOD, "7.0 GiB of 8.0 GiB free (cgroup limit)");
    expect(&m, "container", GW_CHECK_GOOD, "Docker; processes of others cannot be seen");
    expect(&m, "profiling", GW_CHECK_GOOD, "open");
    expect(&m, "power-source", GW_CHECK_BAD, "on battery (37 %)");
    expect(&m, "cpu", GW_CHECK_GOOD, "powersave"); /* intel_pstate: the hardware picks */
    leave(&m);
}

static void windows_below(void **state)
{
    (void)state;
    static struct machine m;
    const char *data[] = {"/mnt/c/data"};
    struct gw_live_options o = {.python = "/nowhere", .data = data, .data_count = 1};
    look_at(&m, "fixtures/check/wsl.root", "fixtures/check/two_socket.nvml", &o);
    expect(&m, "container", GW_CHECK_LOOK, "Windows Subsystem");
    expect(&m, "data", GW_CHECK_BAD, "9p (passed through");
    leave(&m);
}

/* --- fat binaries
 * ------------------------------------------------------------------------------------------------------- */

static void put16(char *p, unsigned v) { p[0] = (char)v, p[1] = (char)(v >> 8); }
static void put32(char *p, unsigned v) { put16(p, v & 0xffff), put16(p + 2, v >> 16); }
static void put64(char *p, unsigned long long v) { put32(p, (unsigned)v), put32(p + 4, (unsigned)(v >> 32)); }

/* An ELF file with one section .nv_fatbin of two fat binaries: SASS 8.0 and 9.0 and PTX 9.0; PTX 7.5 alone. */
static size_t make_library(char *f)
{
    size_t at = 512;
    memset(f, 0, 4096);
    static const struct {
        unsigned kind, arch;
    } image[] = {{2, 80}, {2, 90}, {1, 90}, {1, 75}};
    for (int b = 0; b < 2; b++) {
        size_t start = at, n = b ? 1 : 3;
        put32(f + at, 0xBA55ED50u), put16(f + at + 4, 1), put16(f + at + 6, 16), put64(f + at + 8, n * (64 + 32));
        at += 16;
        for (size_t i = 0; i < n; i++, at += 96) {
            const unsigned k = b ? 3 : (unsigned)i;
            put16(f + at, image[k].kind), put32(f + at + 4, 64), put64(f + at + 8, 32),
                put32(f + at + 28, image[k].arch);
        }
        (void)start;
    }
    memcpy(f, "\177ELF\2\1\1", 7);
    put64(f + 0x28, 64); /* section headers */
    put16(f + 0x3a, 64), put16(f + 0x3c, 2), put16(f + 0x3e, 1);
    put32(f + 64, 1), put64(f + 64 + 24, 512), put64(f + 64 + 32, at - 512);
    put32(f + 128, 0), put64(f + 128 + 24, 256), put64(f + 128 + 32, 16);
    memcpy(f + 257, ".nv_fatbin", 11);
    return at;
}

static void code_for_architectures(void **state)
{
    (void)state;
    char file[4096], path[256], list[128] = "";
    size_t n = make_library(file);
    fixture_file(file, n, path, sizeof path);
    assert_int_equal(gw_fatbin_archs(path, list, sizeof list), 0);
    assert_string_equal(list, "ptx7.5 8.0 9.0+PTX");
    fixture_remove(path);
    /* No length of it, and no broken byte in it, is read past its end or forever. */
    for (size_t cut = 0; cut < n; cut += 7) {
        fixture_file(file, cut, path, sizeof path);
        (void)gw_fatbin_archs(path, list, sizeof list);
        fixture_remove(path);
    }
    for (size_t i = 0; i < n; i++) {
        char old = file[i];
        file[i] = (char)~old;
        fixture_file(file, n, path, sizeof path);
        (void)gw_fatbin_archs(path, list, sizeof list);
        fixture_remove(path);
        file[i] = old;
    }
    assert_int_equal(gw_fatbin_archs("/nowhere", list, sizeof list), -1);
}

static int clean_environment(void **state)
{
    (void)state;
    unsetenv("CUDA_LAUNCH_BLOCKING");
    unsetenv("OMP_NUM_THREADS");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    fake_nvml = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(two_sockets_full_of_trouble, clean_environment),
        cmocka_unit_test_teardown(every_topology, clean_environment),
        cmocka_unit_test_teardown(an_empty_machine_says_nothing_good_about_gpus, clean_environment),
        cmocka_unit_test_teardown(a_driver_that_refuses, clean_environment),
        cmocka_unit_test_teardown(a_missing_gpu, clean_environment),
        cmocka_unit_test_teardown(an_old_machine_with_cgroup_v1, clean_environment),
        cmocka_unit_test_teardown(windows_below, clean_environment),
        cmocka_unit_test_teardown(code_for_architectures, clean_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
