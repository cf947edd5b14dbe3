/* test_record_hook.c - steps that the settings hook noted: whole, thinned out, of several optimizers and processes, damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "import/record_internal.h"

#define BASE 1790000000000000000ll

static char dir[64];
static struct gw_record_import *im;

static int setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/gwhookXXXXXX");
    assert_non_null(mkdtemp(dir));
    im = calloc(1, sizeof *im);
    assert_non_null(im);
    im->t = gw_trace_create(1 << 24);
    assert_non_null(im->t);
    im->base_ns = BASE;
    im->folder = dir;
    return gw_record_facts_begin(im);
}

static int teardown(void **state)
{
    (void)state;
    char command[100];
    gw_record_facts_free(im);
    gw_trace_destroy(im->t);
    free(im);
    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command);
}

static void put(int pid, const char *lines)
{
    char path[128];
    snprintf(path, sizeof path, "%s/hook-%d.jsonl", dir, pid);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(lines, f);
    fclose(f);
}

static const struct gw_host_steps *series(size_t i, int64_t pid, int optimizer, size_t count)
{
    assert_true(i < im->host->steps_count);
    const struct gw_host_steps *s = im->host->steps + i;
    assert_int_equal(s->pid, pid);
    assert_int_equal(s->optimizer, optimizer);
    assert_int_equal(s->count, count);
    return s;
}

static void test_times(void **state)
{
    (void)state;
    put(7, "{\"what\": \"steps\", \"n\": 3, \"at\": 1790000001000000000, \"us\": [31000, 32001]}\n"
           "{\"what\": \"loader\", \"id\": 1}\n"
           "{\"what\": \"steps\", \"n\": 4, \"at\": 1790000001500000000, \"us\": []}\n");
    gw_record_read_hooks(im);
    assert_int_equal(im->host->steps_count, 1);
    const struct gw_host_steps *s = series(0, 7, 0, 4);
    const int64_t want[] = {1000000000, 1031000000, 1063001000, 1500000000};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(s->row[i].at, want[i]);
        assert_int_equal(s->row[i].steps, 1);
    }
}

static void test_optimizers_and_processes(void **state)
{
    (void)state;
    put(20, "{\"what\": \"steps\", \"n\": 5, \"at\": 1790000001000000000, \"us\": [5, 10, 5, 10], \"of\": [0, 1, 0, 3, 0]}\n");
    put(9, "{\"what\": \"steps\", \"n\": 121, \"at\": 1790000002000000000, \"us\": [1000000], \"steps\": [1, 120]}\n");
    gw_record_read_hooks(im);
    assert_int_equal(im->host->steps_count, 4);
    const struct gw_host_steps *s = series(0, 20, 0, 3);
    assert_int_equal(s->row[2].at - s->row[0].at, 30000);
    assert_int_equal(series(1, 20, 1, 1)->row[0].at, 1000005000);
    series(2, 20, 3, 1);
    assert_int_equal(series(3, 9, 0, 2)->row[1].steps, 120);
}

/* A line is missing: the steps before the next one's first are not known. */
static void test_lost_line(void **state)
{
    (void)state;
    put(7, "{\"what\": \"steps\", \"n\": 2, \"at\": 1790000001000000000, \"us\": [1000]}\n"
           "{\"what\": \"steps\", \"n\": 9, \"at\": 1790000002000000000, \"us\": [1000, 1000, 1000], \"of\": [0, 0, 1, 1]}\n"
           "{\"what\": \"steps\", \"n\": 11, \"at\": 1790000003000000000, \"us\": [1000]}\n");
    gw_record_read_hooks(im);
    const struct gw_host_steps *s = series(0, 7, 0, 6), *other = series(1, 7, 1, 2);
    const int64_t want[] = {1, 1, 0, 1, 1, 1};
    for (int i = 0; i < 6; i++)
        assert_int_equal(s->row[i].steps, want[i]);
    assert_int_equal(other->row[0].steps, 0);
    assert_int_equal(other->row[1].steps, 1);
}

/* Nothing of this may crash, and nothing may come of it that is no step. */
static void test_damage(void **state)
{
    (void)state;
    put(7, "{\"what\": \"steps\"}\n"
           "{\"what\": \"steps\", \"n\": 1, \"at\": -5, \"us\": [1]}\n"
           "{\"what\": \"steps\", \"n\": 9223372036854775807, \"at\": 1790000001000000000, \"us\": []}\n"
           "{\"what\": \"steps\", \"n\": 1, \"at\": 9223372036854775807, \"us\": [9223372036854775807, -9223372036854775807]}\n"
           "{\"what\": \"steps\", \"n\": 1, \"at\": 9000000000000000000, \"us\": [1]}\n" /* 2255 */
           "{\"what\": \"steps\", \"n\": 1, \"at\": 1790000001000000000, \"us\": [1], \"of\": [16, 0]}\n"
           "{\"what\": \"steps\", \"n\": 1, \"at\": 1790000001000000000, \"us\": [1], \"of\": \"no list\"}\n"
           "{\"what\": \"steps\", \"n\": 1, \"at\": 1790000001000000000, \"us\": [1], \"steps\": [-4, 0]}\n"
           "{\"what\": \"steps\", \"n\": 1, \"at\": 17900000010");
    gw_record_read_hooks(im);
    assert_int_equal(im->host->steps_count, 0);
    assert_null(im->host->steps);
    put(7, "{\"what\": \"steps\", \"n\": 4, \"at\": 1790000001000000000, \"us\": [1000, 99999999999999999999, 1000]}\n");
    gw_record_read_hooks(im);
    series(0, 7, 0, 2); /* up to the number that cannot be */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_times, setup, teardown),
                                       cmocka_unit_test_setup_teardown(test_optimizers_and_processes, setup, teardown),
                                       cmocka_unit_test_setup_teardown(test_lost_line, setup, teardown),
                                       cmocka_unit_test_setup_teardown(test_damage, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
