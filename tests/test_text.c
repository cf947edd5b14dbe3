#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "report/clean.h"
#include "report/elide.h"
#include "report/text.h"
#include "report/utf8.h"

#define BAD "\xef\xbf\xbd"

static void utf8_next(void **state)
{
    (void)state;
    /* Bytes, and the code points they must read as (the maximal subparts of the Unicode standard, section 3.9). */
    static const struct {
        const char *bytes;
        uint32_t want[6];
    } rows[] = {
        {"a", {'a'}},
        {"\xc3\xa9", {0xe9}},
        {"\xe2\x82\xac", {0x20ac}},
        {"\xf0\x9f\x94\xa5", {0x1f525}},
        {"\xf4\x8f\xbf\xbf", {0x10ffff}},
        {"\xf4\x90\x80\x80", {0xfffd, 0xfffd, 0xfffd, 0xfffd}}, /* past the end of Unicode */
        {"\xc0\xaf", {0xfffd, 0xfffd}},                         /* overlong */
        {"\xe0\x80\xaf", {0xfffd, 0xfffd, 0xfffd}},
        {"\xed\xa0\x80", {0xfffd, 0xfffd, 0xfffd}}, /* a surrogate */
        {"\xe2\x82", {0xfffd}},                     /* cut */
        {"\xe2\x82x", {0xfffd, 'x'}},
        {"\xf0\x9f\x94", {0xfffd}},
        {"\x80\xff", {0xfffd, 0xfffd}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *p = rows[i].bytes;
        uint32_t cp;
        size_t n = 0;
        while ((cp = gw_utf8_next(&p)) != 0)
            assert_int_equal(cp, rows[i].want[n++]);
        assert_int_equal(rows[i].want[n], 0);
        assert_ptr_equal(p, rows[i].bytes + strlen(rows[i].bytes));
    }
}

static void utf8_round_trip(void **state)
{
    (void)state;
    char buf[5];
    for (uint32_t cp = 1; cp <= 0x10ffff; cp += cp < 0x3000 ? 1 : 97) {
        if (cp >= 0xd800 && cp <= 0xdfff)
            continue;
        const char *p = buf;
        size_t n = gw_utf8_put(buf, cp);
        assert_int_equal(gw_utf8_next(&p), cp);
        assert_ptr_equal(p, buf + n);
    }
    gw_utf8_put(buf, 0xd800);
    assert_string_equal(buf, BAD);
    gw_utf8_put(buf, 0x110000);
    assert_string_equal(buf, BAD);
}

static void expect_clean(const char *in, int unicode, const char *want, int width)
{
    char out[256];
    assert_int_equal(gw_clean_copy(out, sizeof out, in, unicode), width);
    assert_string_equal(out, want);
    assert_int_equal(gw_clean_width(in, unicode), width);
}

static void cleaning(void **state)
{
    (void)state;
    expect_clean("plain", 1, "plain", 5);
    expect_clean(NULL, 1, "", 0);
    expect_clean("\033[31m", 1, BAD "[31m", 5);
    expect_clean("\033[31m", 0, "?[31m", 5);
    expect_clean("\xc2\x9b"
                 "31m",
                 1, BAD "31m", 4); /* CSI as one C1 character */
    expect_clean("a\tb\r\nc", 1, "a b  c", 6);
    expect_clean("\x7f\x01", 0, "??", 2);
    expect_clean("\xe2\x80\xae"
                 "evil",
                 1, BAD "evil", 5); /* right-to-left override */
    expect_clean("\xe5\x8d\xb7", 1, "\xe5\x8d\xb7", 2);
    expect_clean("\xe5\x8d\xb7", 0, "?", 1);
    expect_clean("\xc3\x97\xe2\x80\x93\xc2\xb5", 0, "x-u", 3);
    expect_clean("e\xcc\x81\xcc\x81\xcc\x81", 1, "e\xcc\x81\xcc\x81", 1);
    expect_clean("\xcc\x81x", 1, "x", 1);
    expect_clean("\xff", 1, BAD, 1);
}

/* Nothing that a terminal obeys may come out, whatever goes in; and a cut never splits a character. */
static void cleaning_any_bytes(void **state)
{
    (void)state;
    unsigned seed = 12345;
    for (int round = 0; round < 20000; round++) {
        char in[24], out[40];
        size_t n = (size_t)(seed >> 24) % sizeof in;
        for (size_t i = 0; i < n; i++) {
            seed = seed * 1664525u + 1013904223u;
            in[i] = (char)(1 + (seed >> 16) % 255);
        }
        in[n] = 0;
        seed = seed * 1664525u + 1013904223u;
        gw_clean_copy(out, 1 + (size_t)(seed >> 20) % sizeof out, in, round & 1);
        const char *p = out;
        for (uint32_t cp; (cp = gw_utf8_next(&p)) != 0;) {
            assert_false(cp < 0x20 || (cp >= 0x7f && cp < 0xa0));
            if (!(round & 1))
                assert_true(cp < 0x7f || cp == 0xa0);
        }
    }
}

static void expect_elided(const char *in, int width, const char *want)
{
    char out[256];
    assert_string_equal(gw_elide(out, sizeof out, in, width, 0), want);
    assert_true(gw_clean_width(out, 0) <= width || width < 1);
}

static void eliding(void **state)
{
    (void)state;
    expect_elided("short", 10, "short");
    expect_elided("void kernel(int)", 16, "void kernel(int)");
    expect_elided("void kernel(int)", 15, "kernel(int)");
    expect_elided("void kernel(int)", 10, "kernel");
    expect_elided("void a::vectorized<4, add<float>, array<char*, 3> >(int, float)", 45,
                  "a::vectorized<4, add<..>, array<..> >");
    expect_elided("void a::vectorized<4, add<float>, array<char*, 3> >(int, float)", 30, "a::vectorized<..>");
    expect_elided("K<what_the_kernel_really_is_called>", 30, "K<what_the_...eally_is_called>");
    expect_elided("a->b, operator<< x", 12, "a->...or<< x");
    expect_elided("(anonymous namespace)", 40, "(anonymous namespace)");
    expect_elided("unbalanced<<<(((", 8, "un...(((");
    expect_elided("abcdef", 1, "a");
    expect_elided("abcdef", 0, "");
}

static void eliding_wide(void **state)
{
    (void)state;
    char out[256];
    for (int width = 2; width < 30; width++) {
        gw_elide(out, sizeof out, "\xe5\x8d\xb7\xe7\xa7\xaf\xe5\xb1\x82 conv \xe5\x89\x8d\xe5\x90\x91\xe5\x8d\xb7",
                 width, 1);
        assert_true(gw_clean_width(out, 1) <= width);
    }
}

static char *flow(const char *s, int width, int indent)
{
    char *out = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&out, &size);
    struct gw_render_options o = {.width = width, .unicode = 1};
    struct gw_text t = gw_text_begin(f, &o);
    t.indent = indent;
    gw_text_words(&t, s);
    gw_text_line(&t);
    fclose(f);
    return out;
}

static void expect_flow(const char *s, int width, int indent, const char *want)
{
    char *out = flow(s, width, indent);
    assert_string_equal(out, want);
    free(out);
}

static void flowing(void **state)
{
    (void)state;
    expect_flow("one two", 40, 0, "one two\n");
    expect_flow("", 40, 0, "");
    expect_flow("aaaaaaaaa bbbbbbbbb ccccccccc ddddddddd eeeee", 40, 2,
                "  aaaaaaaaa bbbbbbbbb ccccccccc\n  ddddddddd eeeee\n");
    /* exactly full */
    expect_flow("aaaaaaaaa bbbbbbbbb ccccccccc dddddddddd eeeee", 40, 0,
                "aaaaaaaaa bbbbbbbbb ccccccccc dddddddddd\neeeee\n");
    /* a number stays with its unit */
    expect_flow("aaaaaaaaa bbbbbbbbb ccccccccc ddddd 12 ms x", 40, 0, "aaaaaaaaa bbbbbbbbb ccccccccc ddddd\n12 ms x\n");
    expect_flow("aaaaaaaaa bbbbbbbbb ccccccccc ddddd 12 msx", 40, 0, "aaaaaaaaa bbbbbbbbb ccccccccc ddddd 12\nmsx\n");
    /* a quotation stays in one piece when it fits */
    expect_flow("aaaaaaaaa bbbbbbbbb ccccccccc `if a: b(c)` x", 40, 0,
                "aaaaaaaaa bbbbbbbbb ccccccccc\n`if a: b(c)` x\n");
    /* a word longer than the line is cut, and nothing of it is lost */
    expect_flow("0123456789012345678901234567890123456789abc", 40, 0,
                "0123456789012345678901234567890123456789\nabc\n");
    /* wide characters count two */
    expect_flow("\xe5\x8d\xb7\xe5\x8d\xb7\xe5\x8d\xb7\xe5\x8d\xb7\xe5\x8d\xb7\xe5\x8d\xb7\xe5\x8d\xb7\xe5\x8d\xb7\xe5"
                "\x8d\xb7\xe5\x8d\xb7 "
                "01234567890123456789",
                40, 0,
                "\xe5\x8d\xb7\xe5\x8d\xb7\xe5\x8d\xb7\xe5\x8d\xb7\xe5\x8d\xb7\xe5\x8d\xb7\xe5\x8d\xb7\xe5\x8d\xb7\xe5"
                "\x8d\xb7\xe5\x8d\xb7\n"
                "01234567890123456789\n");
}

/* A machine may have no UTF-8 locale at all. */
static void widths_without_locale(void **state)
{
    (void)state;
    static const struct {
        uint32_t cp;
        int width;
    } rows[] = {{'a', 1},    {0x1b, -1},  {0xe9, 1},   {0x301, 0},  {0x4e00, 2},
                {0xff0c, 2}, {0x3002, 2}, {0xac00, 2}, {0x2588, 1}, {0x1f525, 2}};
    for (int bare = 0; bare < 2; bare++) {
        assert_non_null(setlocale(LC_CTYPE, bare ? "C" : "C.UTF-8"));
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            assert_int_equal(gw_utf8_width(rows[i].cp), rows[i].width);
    }
    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
}

/* Text without blanks: it breaks between characters, but never before a closing sign or after an opening one, and a
 * full-width sign swallows the blank beside it. */
static void flowing_chinese(void **state)
{
    (void)state;
    expect_flow("一二三四五六七八九十一二三四五六七八九十一二三四", 40, 0,
                "一二三四五六七八九十一二三四五六七八九十\n一二三四\n");
    expect_flow("一二三四五六七八九十一二三四五六七八九十，一二三", 40, 0,
                "一二三四五六七八九十一二三四五六七八九\n十，一二三\n");
    expect_flow("一二三四五六七八九十一二三四五六七八九（一二）三", 40, 0,
                "一二三四五六七八九十一二三四五六七八九\n（一二）三\n");
    expect_flow("一二三四五六七八九十一二三四五 GPU 12 ms 六", 40, 2,
                "  一二三四五六七八九十一二三四五 GPU\n  12 ms 六\n");
    expect_flow("一。 二， 三 （四） 五；abc", 40, 0, "一。二，三（四）五；abc\n");
    expect_flow("一二三四五六七八九十一二三四五`if 六: b(c)`七", 40, 0,
                "一二三四五六七八九十一二三四五\n`if 六: b(c)`七\n");
}

static void flowing_any_bytes(void **state)
{
    (void)state;
    unsigned seed = 99;
    for (int round = 0; round < 3000; round++) {
        char in[200];
        for (size_t i = 0; i < sizeof in - 1; i++) {
            seed = seed * 1664525u + 1013904223u;
            in[i] = (seed >> 28) < 3 ? ' ' : (char)(1 + (seed >> 16) % 255);
        }
        in[sizeof in - 1] = 0;
        char *out = flow(in, 40, round % 12);
        for (char *line = strtok(out, "\n"); line; line = strtok(NULL, "\n"))
            assert_true(gw_clean_width(line, 1) <= 40);
        free(out);
    }
}

static int utf8_locale(void **state)
{
    (void)state;
    return setlocale(LC_CTYPE, "C.UTF-8") ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(utf8_next),         cmocka_unit_test(utf8_round_trip),
                                       cmocka_unit_test(cleaning),          cmocka_unit_test(cleaning_any_bytes),
                                       cmocka_unit_test(eliding),           cmocka_unit_test(eliding_wide),
                                       cmocka_unit_test(flowing),           cmocka_unit_test(flowing_chinese),
                                       cmocka_unit_test(flowing_any_bytes), cmocka_unit_test(widths_without_locale)};
    return cmocka_run_group_tests(tests, utf8_locale, NULL);
}
