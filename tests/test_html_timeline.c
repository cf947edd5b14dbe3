/* The timeline of a page: nothing is lost by merging, budgets hold, times add up; and the writer's escapes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine_check.h"
#include "report/html/html_page.h"
#include "report/html/timeline.h"
#include "text_trace.h"

/* A job of `steps` steps of 10 ms, each with `kernels` short kernels 10 us apart and a long one at its end. */
static char *job(int steps, int kernels)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    fprintf(f, "dev 0 name=\"GPU\" sm=132 cc=9.0\nrepeat %d every 10ms {\n", steps);
    fprintf(f, "annot 1:1 0 +9ms ProfilerStep#{i}\nop 1:1 50us +8ms train_step\n");
    for (int k = 0; k < kernels; k++)
        fprintf(f, "launch 1:1 %dus +4us > 0:7 %dus +3us small_%d\n", 100 + 10 * k, 106 + 10 * k, k % 5);
    fprintf(f, "launch 1:1 8ms +5us > 0:7 8100us +1500us large\n}\n");
    fclose(f);
    return text;
}

struct made {
    struct text_trace t;
    const struct gw_analysis *an;
    struct gw_timeline *tl;
};

static struct made make(char *text)
{
    struct made m;
    assert_int_equal(text_trace_parse(text, &m.t), 0);
    free(text);
    m.an = gw_analyse(m.t.t, m.t.t->arena);
    assert_non_null(m.an);
    m.tl = gw_timeline_make(m.an, m.t.t->arena);
    assert_non_null(m.tl);
    return m;
}

static void check_lane(const struct gw_timeline *tl, const struct gw_tl_lane *l)
{
    uint64_t all = 0;
    for (size_t i = 0; i < l->count; i++) {
        const struct gw_tl_span *s = l->spans + i;
        all += s->count;
        assert_true(s->start >= 0 && s->start <= s->end);
        assert_true(s->busy >= 0 && s->busy <= s->end - s->start);
        assert_true(i == 0 || s->start >= s[-1].start);
        assert_true(s->name == GW_NONE || s->name < tl->name_count);
        if (s->count == 1)
            assert_int_equal(s->busy, s->end - s->start);
        else
            assert_true(l->resolution > 0);
    }
    assert_int_equal(all, l->all);
}

/* Idle time of the drawn spans is that of the accounts, whatever was merged. */
static int64_t idle_of(const struct gw_tl_lane *l)
{
    int64_t ns = 0;
    for (size_t i = 0; i < l->count; i++)
        ns += l->spans[i].busy;
    return ns;
}

static void small_is_whole(void **state)
{
    (void)state;
    struct made m = make(job(6, 20));
    assert_true(m.tl->lane_count >= 3);
    for (size_t i = 0; i < m.tl->lane_count; i++) {
        check_lane(m.tl, m.tl->lanes + i);
        assert_int_equal(m.tl->lanes[i].resolution, 0);
        assert_int_equal(m.tl->lanes[i].count, m.tl->lanes[i].all);
    }
    assert_int_equal(m.tl->lanes[0].type, GW_TL_IDLE);
    assert_int_equal(idle_of(m.tl->lanes), m.an->dev[0].whole.idle);
    assert_int_equal(m.tl->lanes[1].count, 6 * 21);
    assert_int_equal(m.tl->length, m.an->dev[0].whole.wall);
    assert_int_equal(m.tl->step_count, m.an->steps.count);
    text_trace_free(&m.t);
}

static void large_is_merged(void **state)
{
    (void)state;
    struct made m = make(job(120, 400)); /* 48 120 kernels: three times what a page holds */
    for (size_t i = 0; i < m.tl->lane_count; i++)
        check_lane(m.tl, m.tl->lanes + i);
    const struct gw_tl_lane *idle = m.tl->lanes, *stream = m.tl->lanes + 1;
    assert_int_equal(stream->type, GW_TL_STREAM);
    assert_int_equal(stream->all, 120 * 401);
    assert_true(stream->count < 15000 && stream->count > 1000);
    assert_true(stream->resolution > 0);
    assert_true(idle->count < 6000);
    assert_int_equal(idle_of(idle), m.an->dev[0].whole.idle);
    text_trace_free(&m.t);
}

/* What is at least as long as the resolution stays by itself, and the typical step is there in full. */
static void merging_spares(void **state)
{
    (void)state;
    struct made m = make(job(120, 400));
    const struct gw_tl_lane *stream = m.tl->lanes + 1;
    size_t large = 0, in_full = 0;
    assert_true(m.tl->focus[0][1] > m.tl->focus[0][0]);
    for (size_t i = 0; i < stream->count; i++) {
        const struct gw_tl_span *s = stream->spans + i;
        if (s->count == 1 && strcmp(m.tl->names[s->name], "large") == 0)
            large++;
        if (s->start >= m.tl->focus[0][0] && s->start < m.tl->focus[0][1]) {
            assert_int_equal(s->count, 1);
            in_full++;
        }
    }
    if (stream->resolution <= 1500000)
        assert_int_equal(large, 120);
    assert_int_equal(in_full, 401);
    text_trace_free(&m.t);
}

static void places_add_up(void **state)
{
    (void)state;
    struct made m = make(job(6, 20));
    int64_t ns = 0;
    for (size_t i = 0; i < m.tl->place_count; i++)
        ns += m.tl->places[i].ns;
    assert_int_equal(m.tl->place_idle, m.an->dev[0].steady.idle);
    assert_true(llabs(ns - m.tl->place_idle) <= (int64_t)m.tl->place_count); /* each is rounded */
    assert_true(m.tl->gap_count > 0);
    const struct gw_tl_span *s = m.tl->lanes[0].spans;
    for (size_t i = 1; i < m.tl->gap_count; i++) /* longest first */
        assert_true(s[m.tl->gaps[i]].end - s[m.tl->gaps[i]].start <=
                    s[m.tl->gaps[i - 1]].end - s[m.tl->gaps[i - 1]].start);
    text_trace_free(&m.t);
}

static void no_gpu_is_no_timeline(void **state)
{
    (void)state;
    struct made m = make(strdup("op 1:1 0 +5ms aten::add\n"));
    assert_int_equal(m.tl->lane_count, 0);
    text_trace_free(&m.t);
}

static char *written(void (*write)(struct gw_html *, const char *), const char *s)
{
    char *out = NULL;
    size_t size = 0;
    struct gw_html h = {.out = open_memstream(&out, &size)};
    write(&h, s);
    fclose(h.out);
    return out;
}

static void check_written(void (*write)(struct gw_html *, const char *), const char *s, const char *want)
{
    char *got = written(write, s);
    assert_string_equal(got, want);
    free(got);
}

static void text_is_inert(void **state)
{
    (void)state;
    check_written(gw_html_text, "</script><img src=x onerror=\"a('b')\">&amp;",
                  "&lt;/script&gt;&lt;img src=x onerror=&quot;a(&#39;b&#39;)&quot;&gt;&amp;amp;");
    check_written(gw_html_text,
                  "a\x1b[31mb\xe2\x80\xae"
                  "c\xff",
                  "a\xef\xbf\xbd[31mb\xef\xbf\xbd"
                  "c\xef\xbf\xbd");
    check_written(gw_html_text, NULL, "");
    check_written(gw_html_word, "host-sync\" onclick=x", "host-sync--onclick-x");
}

static void advice_has_code(void **state)
{
    (void)state;
    check_written(gw_html_advice, "compile it:\n    m = compile(m) # <b>\nthen run",
                  "<p>compile it:</p>\n<pre><code>m = compile(m) # &lt;b&gt;\n</code></pre><p>then run</p>\n");
    check_written(gw_html_advice, "use `a<b>` now", "<p>use <code>a&lt;b&gt;</code> now</p>\n");
    check_written(gw_html_advice, "an open ` quote", "<p>an open ` quote</p>\n");
    check_written(gw_html_advice, "gpuwhy diff a b", "<pre><code>gpuwhy diff a b</code></pre>\n");
}

static void data_cannot_end_its_block(void **state)
{
    (void)state;
    char *out = NULL;
    size_t size = 0;
    struct gw_html h = {.out = open_memstream(&out, &size)};
    FILE *data = gw_html_data(&h, "d");
    fputs("{\n  \"a\": \"</script> <!-- & \\\" b\", \"c\": [1, 2]\n}", data);
    gw_html_data_end(&h, data);
    fclose(h.out);
    assert_string_equal(out, "\n<script type=\"application/json\" id=\"d\">"
                             "{\"a\":\"\\u003c/script\\u003e \\u003c!-- \\u0026 \\\" b\",\"c\":[1,2]}</script>\n");
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_is_whole),        cmocka_unit_test(large_is_merged),
        cmocka_unit_test(merging_spares),        cmocka_unit_test(places_add_up),
        cmocka_unit_test(no_gpu_is_no_timeline), cmocka_unit_test(text_is_inert),
        cmocka_unit_test(advice_has_code),       cmocka_unit_test(data_cannot_end_its_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
