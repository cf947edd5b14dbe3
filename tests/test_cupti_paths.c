/* Where CUPTI is looked for: beside a library of the job, then in toolkits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/gw_cupti_paths.h"

static void beside_a_library(void **state)
{
    (void)state;
    char path[200];
    assert_int_equal(gw_cupti_near(path, sizeof path, "/env/lib/libcudart.so.12", 12, 0), 1);
    assert_string_equal(path, "/env/lib/libcupti.so.12");
    assert_int_equal(gw_cupti_near(path, sizeof path, "/site/nvidia/cuda_runtime/lib/libcudart.so.12", 12, 1), 1);
    assert_string_equal(path, "/site/nvidia/cuda_runtime/lib/../../cuda_cupti/lib/libcupti.so.12");
    size_t n = 0;
    while (gw_cupti_near(path, sizeof path, "/a/b", 13, n))
        n++;
    assert_int_equal(n, 5);
    assert_int_equal(gw_cupti_near(path, sizeof path, "libcudart.so.12", 12, 0), 0); /* no folder known */
}

static void in_toolkits(void **state)
{
    (void)state;
    char path[200];
    unsetenv("CUDA_HOME");
    setenv("CUDA_PATH", "", 1);
    assert_int_equal(gw_cupti_toolkit(path, sizeof path, 13, 0), 1);
    assert_string_equal(path, "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13");
    assert_int_equal(gw_cupti_toolkit(path, sizeof path, 13, 5), 0);
    setenv("CUDA_PATH", "/opt/cuda", 1);
    assert_int_equal(gw_cupti_toolkit(path, sizeof path, 13, 1), 1);
    assert_string_equal(path, "/opt/cuda/lib64/libcupti.so.13");
    assert_int_equal(gw_cupti_toolkit(path, sizeof path, 13, 5), 1);
    assert_string_equal(path, "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13");
}

static void long_names_are_cut(void **state)
{
    (void)state;
    char path[8];
    assert_int_equal(gw_cupti_near(path, sizeof path, "/env/lib/libcudart.so.12", 12, 0), 1);
    assert_string_equal(path, "/env/li");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beside_a_library),
        cmocka_unit_test(in_toolkits),
        cmocka_unit_test(long_names_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
