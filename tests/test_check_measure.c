/* --load and --measure, with a library that plays libcuda: what is measured is kept, and no driver can take us down. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "check_fixture.h"
#include "collect/checks/checks.h"
#include "collect/live/live.h"
#include "collect/measure/measure.h"

static const char *fake_cuda; /* argv[1] */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static const struct gw_env_measure *find(const struct gw_env *env, const char *id, int64_t gpu)
{
    for (size_t i = 0; i < gw_env_count(env, GW_REC_MEASURE); i++) {
        const struct gw_env_measure *m = gw_env_at(env, GW_REC_MEASURE, i);
        if (strcmp(m->id, id) == 0 && (m->gpu == gpu || gpu == GW_ENV_NONE))
            return m;
    }
    return NULL;
}

static struct gw_env *measure(const char *mode, double seconds)
{
    struct gw_env *env = gw_env_create();
    setenv("GPUWHY_FAKE_CUDA", mode, 1);
    struct gw_cuda_child *c = gw_cuda_child_start(fake_cuda);
    assert_non_null(c);
    gw_env_gpu(env, 0, "00000000:41:00.0"); /* as NVML numbers them */
    gw_env_gpu(env, 1, "00000000:C1:00.0");
    gw_cuda_child_measure(c, env, seconds);
    gw_cuda_child_stop(c, env);
    return env;
}

static void every_ceiling_of_every_gpu(void **state)
{
    (void)state;
    static const char *const ids[] = {"h2d-pinned",  "d2h-pinned", "h2d-pageable",
                                      "device-copy", "launch",     "launch-wait"};
    struct gw_env *env = measure("", 30);
    for (int64_t gpu = 0; gpu < 2; gpu++)
        for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
            const struct gw_env_measure *m = find(env, ids[i], gpu);
            assert_non_null(m);
            assert_true(m->value > 0);
            assert_true(strlen(m->how) > 10);
        }
    assert_int_equal(env->gpus.len, 2); /* CUDA's order differs, but no GPU is counted twice */
    assert_non_null(strstr(find(env, "launch", 0)->how, "empty kernel"));
    assert_null(gw_env_str(env, GW_HSTR_CUDA_PROBLEM));
    gw_env_destroy(env);
}

static void without_ptx_a_memset_stands_in(void **state)
{
    (void)state;
    struct gw_env *env = measure("noptx", 30);
    assert_non_null(strstr(find(env, "launch", 1)->how, "memset"));
    gw_env_destroy(env);
}

static void a_driver_that_fails_costs_the_measurement_only(void **state)
{
    (void)state;
    static const struct {
        const char *mode, *why;
    } cases[] = {{"none", "no GPU is visible"},
                 {"broken", "cuInit: CUDA_ERROR_UNKNOWN"},
                 {"crash", "the process that used CUDA ended"}};
    for (size_t i = 0; i < 3; i++) {
        struct gw_env *env = measure(cases[i].mode, 10);
        const char *why = gw_env_str(env, GW_HSTR_CUDA_PROBLEM);
        if (!why || !strstr(why, cases[i].why))
            fail_msg("%s: '%s'", cases[i].mode, why ? why : "");
        gw_env_destroy(env);
    }
    struct gw_env *env = measure("full", 10);
    assert_null(find(env, "h2d-pinned", GW_ENV_NONE));
    const struct gw_env_note *n = gw_env_at(env, GW_REC_NOTE, 0);
    assert_non_null(strstr(n->text, "OUT_OF_MEMORY"));
    gw_env_destroy(env);
}

static void a_driver_that_hangs_is_left_behind(void **state)
{
    (void)state;
    double t0 = now();
    struct gw_env *env = measure("hang", 0.5);
    assert_true(now() - t0 < 4);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
    gw_env_destroy(env);
}

static void the_load_runs_while_we_sample(void **state)
{
    (void)state;
    struct gw_env *env = gw_env_create();
    setenv("GPUWHY_FAKE_CUDA", "", 1);
    struct gw_cuda_child *c = gw_cuda_child_start(fake_cuda);
    assert_int_equal(gw_cuda_child_load(c), 0);
    nanosleep(&(struct timespec){0, 50000000}, NULL);
    gw_cuda_child_unload(c);
    gw_env_gpu(env, 0, "0000:41:00.0");
    gw_env_gpu(env, 1, "0000:c1:00.0");
    gw_cuda_child_measure(c, env, 30); /* the same child goes on to measure */
    assert_non_null(find(env, "h2d-pinned", 0));
    assert_non_null(find(env, "launch-wait", 1));
    gw_cuda_child_stop(c, env);
    assert_null(gw_env_str(env, GW_HSTR_CUDA_PROBLEM));
    gw_env_destroy(env);

    setenv("GPUWHY_FAKE_CUDA", "broken", 1);
    env = gw_env_create();
    c = gw_cuda_child_start(fake_cuda);
    assert_int_equal(gw_cuda_child_load(c), -1);
    gw_cuda_child_stop(c, env);
    assert_non_null(strstr(gw_env_str(env, GW_HSTR_CUDA_PROBLEM), "cuInit"));
    gw_env_destroy(env);
    env = gw_env_create();
    c = gw_cuda_child_start("/nowhere/libcuda.so.1");
    assert_int_equal(gw_cuda_child_load(c), -1);
    gw_cuda_child_stop(c, env);
    assert_non_null(strstr(gw_env_str(env, GW_HSTR_CUDA_PROBLEM), "not here"));
    gw_env_destroy(env);
}

static void memory_and_files(void **state)
{
    (void)state;
    struct gw_env *env = gw_env_create();
    char path[256];
    static char data[1 << 20];
    fixture_file(data, sizeof data, path, sizeof path);
    gw_measure_memory(env);
    gw_measure_disk(env, path);
    assert_true(find(env, "host-copy", GW_ENV_NONE)->value > 1e6);
    const struct gw_env_measure *m = find(env, "disk-read", GW_ENV_NONE);
    assert_true(m->value > 0);
    assert_non_null(strstr(m->how, "1 MiB of 1 files"));
    fixture_remove(path);
    gw_measure_disk(env, "/nowhere");
    assert_int_equal(gw_env_count(env, GW_REC_NOTE), 1);
    gw_env_destroy(env);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    fake_cuda = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_ceiling_of_every_gpu),
        cmocka_unit_test(without_ptx_a_memset_stands_in),
        cmocka_unit_test(a_driver_that_fails_costs_the_measurement_only),
        cmocka_unit_test(a_driver_that_hangs_is_left_behind),
        cmocka_unit_test(the_load_runs_while_we_sample),
        cmocka_unit_test(memory_and_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
