/* Decimal text to integers: the table is worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "import/gw_decimal.h"
#include "import/kineto_event.h"

/* Microseconds as traces write them -> ns. */
static const struct {
    const char *text;
    int rc;
    int64_t ns;
} times[] = {
    {"0", GW_DEC_OK, 0},
    {"-0", GW_DEC_OK, 0},
    {"1", GW_DEC_OK, 1000},
    {"45", GW_DEC_OK, 45000},
    {"5249236442031.655", GW_DEC_OK, 5249236442031655},
    {"1610366662254362", GW_DEC_OK, 1610366662254362000},     /* 1.6e15: a double would be fine here ... */
    {"1610366662254362.123", GW_DEC_OK, 1610366662254362123}, /* ... and wrong here */
    {"1712195495520883.0", GW_DEC_OK, 1712195495520883000},
    {"0.001", GW_DEC_OK, 1},
    {"0.0004", GW_DEC_OK, 0},
    {"0.0005", GW_DEC_OK, 0},                             /* half to even: 0.5 -> 0 */
    {"0.0015", GW_DEC_OK, 2},                             /* 1.5 -> 2 */
    {"0.0025", GW_DEC_OK, 2},                             /* 2.5 -> 2 */
    {"0.0035", GW_DEC_OK, 4},                             /* 3.5 -> 4 */
    {"0.00250000000000000000000000000001", GW_DEC_OK, 3}, /* just above the half */
    {"0.00249999999999999999999999999999", GW_DEC_OK, 2},
    {"-0.0015", GW_DEC_OK, -2},
    {"-0.0005", GW_DEC_OK, 0},
    {"-12.5", GW_DEC_OK, -12500},
    {"12.34567", GW_DEC_OK, 12346},
    {"999.9996", GW_DEC_OK, 1000000},
    {"1e3", GW_DEC_OK, 1000000},
    {"1E+2", GW_DEC_OK, 100000},
    {"1.5e-3", GW_DEC_OK, 2},
    {"2.5e-3", GW_DEC_OK, 2},
    {"5.249236442031655e12", GW_DEC_OK, 5249236442031655},
    {"1.610366662254362123E15", GW_DEC_OK, 1610366662254362123},
    {"1e-400", GW_DEC_OK, 0},
    {"0e999999999999", GW_DEC_OK, 0},
    {"00012", GW_DEC_OK, 12000},
    {"+7", GW_DEC_OK, 7000},
    {".5", GW_DEC_OK, 500},
    {"7.", GW_DEC_OK, 7000},
    {"4611686018427387.904", GW_DEC_OK, GW_TIME_LIMIT},
    {"4611686018427387.905", GW_DEC_RANGE, 0},
    {"-4611686018427387.904", GW_DEC_OK, -GW_TIME_LIMIT},
    {"9223372036854775807", GW_DEC_RANGE, 0},
    {"18446744073709551616", GW_DEC_RANGE, 0},
    {"99999999999999999999999999999999999999", GW_DEC_RANGE, 0},
    {"1e400", GW_DEC_RANGE, 0},
    {"NaN", GW_DEC_RANGE, 0},
    {"nan", GW_DEC_RANGE, 0},
    {"Infinity", GW_DEC_RANGE, 0},
    {"-Infinity", GW_DEC_RANGE, 0},
    {"inf", GW_DEC_RANGE, 0},
    {"", GW_DEC_NAN, 0},
    {"-", GW_DEC_NAN, 0},
    {".", GW_DEC_NAN, 0},
    {"1e", GW_DEC_NAN, 0},
    {"1e+", GW_DEC_NAN, 0},
    {"12abc", GW_DEC_NAN, 0},
    {"0x12", GW_DEC_NAN, 0},
    {"1 2", GW_DEC_NAN, 0},
    {"1.2.3", GW_DEC_NAN, 0},
    {"null", GW_DEC_NAN, 0},
};

static void test_times(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        int64_t ns = 0;
        int rc = (int)gw_decimal_scaled(times[i].text, strlen(times[i].text), 3, &ns);
        if (rc != times[i].rc || (rc == GW_DEC_OK && ns != times[i].ns))
            fail_msg("\"%s\" gave %d, %lld", times[i].text, rc, (long long)ns);
    }
}

/* The fast way either says nothing or says the same, and stops at the end of the number. */
static void test_fast_agrees(void **state)
{
    (void)state;
    int used = 0;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        int64_t ns = 0;
        size_t n = strlen(times[i].text);
        const char *p = gw_decimal_us_fast(times[i].text, times[i].text + n, &ns);
        if (!p || p != times[i].text + n)
            continue;
        used++;
        assert_int_equal(times[i].rc, GW_DEC_OK);
        assert_int_equal(ns, times[i].ns);
    }
    assert_true(used >= 10);
    int64_t ns;
    const char text[] = "12.5,";
    assert_ptr_equal(gw_decimal_us_fast(text, text + 5, &ns), text + 4);
    assert_int_equal(ns, 12500);
}

static void test_other_scale(void **state)
{
    (void)state;
    int64_t v;
    assert_int_equal(gw_decimal_scaled("1.25", 4, 9, &v), GW_DEC_OK);
    assert_int_equal(v, 1250000000);
    assert_int_equal(gw_decimal_scaled("2.5", 3, 0, &v), GW_DEC_OK);
    assert_int_equal(v, 2);
}

static void test_ids(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int ok;
        int64_t id;
    } ids[] = {{"0", 1, 0},
               {"7", 1, 7},
               {"-1", 1, -1},
               {"7.0", 1, 7},
               {"7.5", 0, 0},
               {"", 0, 0},
               {"-", 0, 0},
               {"9223372036854775807", 1, INT64_MAX},
               {"9223372036854775808", 1, INT64_MIN},
               {"18446744073709551615", 1, -1},
               {"18446744073709551616", 0, 0},
               {"0x10", 1, 16},
               {"0xffffffffffffffff", 1, -1},
               {"0x", 0, 0},
               {"0x10000000000000000", 0, 0},
               {"12a", 0, 0},
               {"-9223372036854775807", 1, -INT64_MAX},
               {"-9223372036854775809", 0, 0}};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        int64_t id = 0;
        int ok = gw_decimal_id(ids[i].text, strlen(ids[i].text), &id);
        if (ok != ids[i].ok || (ok && id != ids[i].id))
            fail_msg("\"%s\" gave %d, %lld", ids[i].text, ok, (long long)id);
    }
}

static void test_text_ids(void **state)
{
    (void)state;
    assert_int_equal(kineto_text_id("stream 7", 8), 7);
    assert_int_equal(kineto_text_id("Stream 12", 9), 12);
    assert_int_equal(kineto_text_id("1890023232", 10), 1890023232);
    int64_t a = kineto_text_id("Spans", 5), b = kineto_text_id("Traces", 6);
    assert_true(a != b);
    assert_true(a >= (int64_t)1 << 62 && b >= (int64_t)1 << 62); /* clear of real ids */
    assert_int_equal(a, kineto_text_id("Spans", 5));
    assert_true(kineto_text_id("", 0) >= (int64_t)1 << 62);
}

static void test_copies(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum gw_mem src, dst;
    } names[] = {{"Memcpy HtoD (Pageable -> Device)", GW_MEM_PAGEABLE, GW_MEM_DEVICE},
                 {"Memcpy HtoD (Pinned -> Device)", GW_MEM_PINNED, GW_MEM_DEVICE},
                 {"Memcpy DtoH (Device -> Pageable)", GW_MEM_DEVICE, GW_MEM_PAGEABLE},
                 {"Memcpy DtoD (Device -> Device)", GW_MEM_DEVICE, GW_MEM_DEVICE},
                 {"Memcpy HtoD (Host -> Device)", GW_MEM_HOST, GW_MEM_DEVICE},
                 {"Memcpy DtoH (Device -> Managed Static)", GW_MEM_DEVICE, GW_MEM_MANAGED},
                 {"Memcpy HtoD (Unknown -> Device)", GW_MEM_HOST, GW_MEM_DEVICE},
                 {"Memcpy HtoD", GW_MEM_HOST, GW_MEM_DEVICE},
                 {"Memcpy PtoP (Device -> Device)", GW_MEM_DEVICE, GW_MEM_DEVICE},
                 {"CopyHostToDevice", GW_MEM_HOST, GW_MEM_DEVICE},
                 {"CopyDeviceToHost", GW_MEM_DEVICE, GW_MEM_HOST},
                 {"hipMemcpyDeviceToDevice", GW_MEM_DEVICE, GW_MEM_DEVICE},
                 {"Memcpy", GW_MEM_UNKNOWN, GW_MEM_UNKNOWN}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(kineto_copy_sub(names[i].name, strlen(names[i].name)),
                         gw_copy_sub(names[i].src, names[i].dst));
}

static void test_dtypes(void **state)
{
    (void)state;
    assert_int_equal(kineto_dtype_bytes("BFloat16", 8), 2);
    assert_int_equal(kineto_dtype_bytes("Float", 5), 4);
    assert_int_equal(kineto_dtype_bytes("Long", 4), 8);
    assert_int_equal(kineto_dtype_bytes("Float8_e4m3fn", 13), 1);
    assert_int_equal(kineto_dtype_bytes("Quaternion", 10), 0);
    assert_int_equal(kineto_dtype_bytes("", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times),  cmocka_unit_test(test_fast_agrees), cmocka_unit_test(test_other_scale),
        cmocka_unit_test(test_ids),    cmocka_unit_test(test_text_ids),    cmocka_unit_test(test_copies),
        cmocka_unit_test(test_dtypes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
