#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/json_writer.h"

struct sink {
    FILE *f;
    char *text;
    size_t size;
    struct gw_json j;
};

static void begin(struct sink *s)
{
    memset(s, 0, sizeof *s);
    s->f = open_memstream(&s->text, &s->size);
    s->j = gw_json_begin(s->f);
}

static void expect(struct sink *s, const char *want)
{
    fclose(s->f);
    assert_string_equal(s->text, want);
    free(s->text);
}

static void structure(void **state)
{
    (void)state;
    struct sink s;
    begin(&s);
    gw_json_object(&s.j, NULL);
    gw_json_int(&s.j, "a", 1);
    gw_json_array(&s.j, "empty"), gw_json_end(&s.j);
    gw_json_array(&s.j, "list");
    gw_json_null(&s.j, NULL);
    gw_json_bool(&s.j, NULL, 2);
    gw_json_object(&s.j, NULL), gw_json_end(&s.j);
    gw_json_end(&s.j);
    gw_json_end(&s.j);
    expect(&s, "{\n  \"a\": 1,\n  \"empty\": [],\n  \"list\": [\n    null,\n    true,\n    {}\n  ]\n}\n");
}

/* One line from there on, and as before once that level is closed. */
static void on_one_line(void **state)
{
    (void)state;
    struct sink s;
    begin(&s);
    gw_json_array(&s.j, NULL);
    gw_json_object(&s.j, NULL);
    gw_json_inline(&s.j);
    gw_json_int(&s.j, "a", 1);
    gw_json_array(&s.j, "b"), gw_json_int(&s.j, NULL, 2), gw_json_int(&s.j, NULL, 3), gw_json_end(&s.j);
    gw_json_end(&s.j);
    gw_json_array(&s.j, NULL), gw_json_int(&s.j, NULL, 4), gw_json_end(&s.j);
    gw_json_end(&s.j);
    expect(&s, "[\n  {\"a\": 1, \"b\": [2, 3]},\n  [\n    4\n  ]\n]\n");
}

static void thousandths(int64_t v, const char *want)
{
    struct sink s;
    begin(&s);
    gw_json_thousandths(&s.j, NULL, v);
    expect(&s, want);
}

static void decimals(void **state)
{
    (void)state;
    thousandths(0, "0");
    thousandths(1, "0.001");
    thousandths(-1, "-0.001");
    thousandths(1234500, "1234.5");
    thousandths(1234560, "1234.56");
    thousandths(-1000, "-1");
    thousandths(7050, "7.05");
    thousandths(INT64_MAX, "9223372036854775.807");
    thousandths(INT64_MIN, "-9223372036854775.808");
}

static void string(const char *in, const char *want)
{
    struct sink s;
    begin(&s);
    gw_json_string(&s.j, NULL, in);
    expect(&s, want);
}

static void strings(void **state)
{
    (void)state;
    string("", "\"\"");
    string(NULL, "null");
    string("a\"b\\c/", "\"a\\\"b\\\\c/\"");
    string("\n\t\r\x01\x1f", "\"\\n\\t\\u000d\\u0001\\u001f\"");
    string("\033[31m\x7f", "\"\\u001b[31m\\u007f\"");
    string("\xc2\x9b", "\"\\u009b\"");
    string("\xe5\x8d\xb7\xf0\x9f\x94\xa5", "\"\xe5\x8d\xb7\xf0\x9f\x94\xa5\"");
    string("\xff"
           "a\xc0\xaf\xed\xa0\x80",
           "\"\xef\xbf\xbd"
           "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    string("\xe2\x80\xa8", "\"\\u2028\"");
    string("</script>", "\"</script>\"");
}

static void number(double v, const char *want)
{
    struct sink s;
    begin(&s);
    gw_json_double(&s.j, NULL, v);
    expect(&s, want);
}

static void numbers(void **state)
{
    (void)state;
    number(0, "0");
    number(1.5, "1.5");
    number(0.1, "0.1");
    number(1.0 / 3.0, "0.3333333333333333");
    number(1e300, "1e+300");
    number(-2.5e-7, "-2.5e-07");
    number(NAN, "null");
    number(INFINITY, "null");
    number(-INFINITY, "null");
    struct sink s;
    begin(&s);
    gw_json_array(&s.j, NULL);
    gw_json_int(&s.j, NULL, INT64_MIN);
    gw_json_int(&s.j, NULL, INT64_MAX);
    gw_json_uint(&s.j, NULL, UINT64_MAX);
    gw_json_known(&s.j, NULL, -1);
    gw_json_known(&s.j, NULL, 0);
    gw_json_end(&s.j);
    expect(&s, "[\n  -9223372036854775808,\n  9223372036854775807,\n  18446744073709551615,\n  null,\n  0\n]\n");
}

/* Every double reads back as itself. */
static void doubles_round_trip(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        double v;
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        memcpy(&v, &seed, sizeof v);
        if (!isfinite(v))
            continue;
        struct sink s;
        begin(&s);
        gw_json_double(&s.j, NULL, v);
        fclose(s.f);
        assert_true(strtod(s.text, NULL) == v);
        free(s.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(structure), cmocka_unit_test(on_one_line), cmocka_unit_test(decimals), cmocka_unit_test(strings),
                                       cmocka_unit_test(numbers), cmocka_unit_test(doubles_round_trip)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
