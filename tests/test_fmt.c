#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "report/fmt.h"

#define NBSP "\xc2\xa0"

static void times(void **state)
{
    (void)state;
    static const struct {
        int64_t ns;
        const char *want;
    } rows[] = {{0, "0" NBSP "ns"},
                {950, "950" NBSP "ns"},
                {999, "999" NBSP "ns"},
                {1000, "1.00" NBSP "\xc2\xb5s"},
                {71000, "71.0" NBSP "\xc2\xb5s"},
                {999499, "999" NBSP "\xc2\xb5s"},
                {999600, "1.00" NBSP "ms"},
                {13600000, "13.6" NBSP "ms"},
                {136000000, "136" NBSP "ms"},
                {2500000000, "2.50" NBSP "s"},
                {95000000000, "95.0" NBSP "s"},
                {119000000000, "119" NBSP "s"},
                {1000000000000, "16.7" NBSP "min"},
                {INT64_C(4) * 3600 * 1000000000, "4.00" NBSP "h"},
                {-1, "n/a"},
                {INT64_MIN, "n/a"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(gw_fmt_time(rows[i].ns).s, rows[i].want);
    assert_null(strstr(gw_fmt_time(INT64_MAX).s, "-"));
}

static void time_ranges(void **state)
{
    (void)state;
    assert_string_equal(gw_fmt_time_range(8800000, 9800000).s, "8.8\xe2\x80\x93"
                                                               "9.8" NBSP "ms");
    assert_string_equal(gw_fmt_time_range(9800000, 8800000).s, "8.8\xe2\x80\x93"
                                                               "9.8" NBSP "ms");
    assert_string_equal(gw_fmt_time_range(8800000, 8810000).s, "8.8" NBSP "ms");
    assert_string_equal(gw_fmt_time_range(500000, 136000000).s, "0\xe2\x80\x93"
                                                                "136" NBSP "ms");
    assert_string_equal(gw_fmt_time_range(12, 31).s, "12\xe2\x80\x93"
                                                     "31" NBSP "ns");
    assert_string_equal(gw_fmt_time_range(-1, 5).s, "n/a");
    assert_string_equal(gw_fmt_time_range(5, -1).s, "n/a");
}

static void bytes_and_rates(void **state)
{
    (void)state;
    assert_string_equal(gw_fmt_bytes(0).s, "0" NBSP "B");
    assert_string_equal(gw_fmt_bytes(1023).s, "1023" NBSP "B");
    assert_string_equal(gw_fmt_bytes(1024).s, "1.00" NBSP "KiB");
    assert_string_equal(gw_fmt_bytes(409672).s, "400" NBSP "KiB");
    assert_string_equal(gw_fmt_bytes(INT64_C(150109880320)).s, "140" NBSP "GiB");
    assert_string_equal(gw_fmt_bytes(-1).s, "n/a");
    assert_string_equal(gw_fmt_rate(85.1e6).s, "85.1" NBSP "MB/s");
    assert_string_equal(gw_fmt_rate(0).s, "0" NBSP "B/s");
    assert_string_equal(gw_fmt_rate(NAN).s, "n/a");
    assert_string_equal(gw_fmt_rate(INFINITY).s, "n/a");
}

static void counts(void **state)
{
    (void)state;
    assert_string_equal(gw_fmt_count(7).s, "7");
    assert_string_equal(gw_fmt_count(9999).s, "9999");
    assert_string_equal(gw_fmt_count(12345).s, "12" NBSP "345");
    assert_string_equal(gw_fmt_count(1234567).s, "1" NBSP "234" NBSP "567");
    assert_string_equal(gw_fmt_count(-1).s, "n/a");
    assert_int_equal(strlen(gw_fmt_count(INT64_MAX).s), 19 + 6 * 2);
}

static void shares(void **state)
{
    (void)state;
    assert_string_equal(gw_fmt_percent(0.5559).s, "55.6" NBSP "%");
    assert_string_equal(gw_fmt_percent(1).s, "100.0" NBSP "%");
    assert_string_equal(gw_fmt_percent(0).s, "0.0" NBSP "%");
    assert_string_equal(gw_fmt_percent(0.0001).s, "<0.1" NBSP "%");
    assert_string_equal(gw_fmt_percent(NAN).s, "n/a");
    assert_string_equal(gw_fmt_percent_short(0.381).s, "38" NBSP "%");
    assert_string_equal(gw_fmt_percent_short(0.004).s, "<1" NBSP "%");
    assert_string_equal(gw_fmt_percent_short(NAN).s, "n/a");
}

static void factors(void **state)
{
    (void)state;
    assert_string_equal(gw_fmt_factor(1.47).s, "1.5\xc3\x97");
    assert_string_equal(gw_fmt_factor(1.034).s, "1.03\xc3\x97");
    assert_string_equal(gw_fmt_factor(12.9).s, "13\xc3\x97");
    assert_string_equal(gw_fmt_factor(NAN).s, "n/a");
    assert_string_equal(gw_fmt_factor_range(1.39, 1.54).s, "1.4\xe2\x80\x93"
                                                           "1.5\xc3\x97");
    assert_string_equal(gw_fmt_factor_range(1.02, 1.06).s, "1.02\xe2\x80\x93"
                                                           "1.06\xc3\x97");
    assert_string_equal(gw_fmt_factor_range(1.17, 5).s, "1.17\xe2\x80\x93"
                                                        "5.0\xc3\x97");
    assert_string_equal(gw_fmt_factor_range(1.41, 1.42).s, "1.4\xc3\x97");
    assert_string_equal(gw_fmt_factor_range(NAN, 2).s, "n/a");
    assert_true(strlen(gw_fmt_factor_range(1e300, 1e308).s) < 47);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(times),           cmocka_unit_test(time_ranges),
                                       cmocka_unit_test(bytes_and_rates), cmocka_unit_test(counts),
                                       cmocka_unit_test(shares),          cmocka_unit_test(factors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
