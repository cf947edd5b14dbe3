/* Facts saved by gpuwhy check and read back, folders of captures, and files that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture_text.h"
#include "check_fixture.h"

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
    struct gw_env *a = capture_parse(capture_query), *b = gw_env_create();
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
        assert_int_equal(capture_metric(a, 0, (enum gw_gpu_metric)m), capture_metric(b, 0, (enum gw_gpu_metric)m));
    gw_env_destroy(a);
    gw_env_destroy(b);
    fixture_remove(path);
    a = gw_env_create();
    assert_int_equal(gw_env_save(a, "/nowhere/file", &err), GW_EIO);
    gw_env_destroy(a);
    b = capture_parse("#gpuwhy-check 1\nhost cpus=4 later=5\nnewkind a=1\n");
    assert_true(capture_note_has(b, "ends early"));
    assert_true(capture_note_has(b, "2 facts are of a later version"));
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
    } files[] = {{"a-capture_query.txt", capture_query},
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
    assert_true(capture_note_has(env, "another driver"));
    assert_true(capture_note_has(env, "nothing in it is a capture"));
    gw_env_destroy(env);
    /* Two files on the command line are treated alike. */
    env = gw_env_create();
    snprintf(path, sizeof path, "%s/a-capture_query.txt", dir);
    assert_int_equal(gw_capture_read(env, path, &err), 0);
    snprintf(path, sizeof path, "%s/d-other.txt", dir);
    assert_int_equal(gw_capture_read(env, path, &err), 0);
    assert_string_equal(gw_env_str(env, GW_HSTR_DRIVER), "535.161.08");
    assert_true(capture_note_has(env, "another driver"));
    gw_env_destroy(env);
    fixture_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saved_and_read_back),
        cmocka_unit_test(folders_and_bad_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
