/* The timeline of a page: nothing is lost by merging, budgets hold, times add up; and the writer's escapes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine_check.h"
#include "model/host_facts.h"
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

static void add(struct gw_trace *t, enum gw_kind kind, uint32_t lane, int64_t start, int64_t end, const char *name,
                double value)
{
    struct gw_event e = {.start = start, .end = end, .kind = (uint16_t)kind, .lane = lane};
    e.name = gw_trace_name(t, name, strlen(name));
    if (kind == GW_KIND_COUNTER) {
        e.arg0 = gw_counter_bits(value);
        e.flags = GW_EV_HAS_ARG0;
    }
    assert_int_equal(gw_trace_add(t, &e), 0);
}

/* Counters become curves over the GPU's time: of each bucket the lowest and the highest value, and nothing where none
 * was. */
static void counters_have_curves(void **state)
{
    (void)state;
    struct gw_trace *t = gw_trace_create(0);
    uint32_t gpu = gw_trace_lane_gpu(t, 0, 7), counter = gw_trace_lane_counter(t, 0, -1);
    assert_non_null(gw_trace_device(t, 0));
    for (int i = 0; i < 60; i++)
        add(t, GW_KIND_KERNEL, gpu, 1000000 * i, 1000000 * i + 500000, "k", 0);
    for (int i = 0; i < 10; i++) {
        add(t, GW_KIND_COUNTER, counter, 5000000 * i, 5000000 * i, "power W", 100 + i);
        add(t, GW_KIND_COUNTER, counter, 5000000 * i + 10, 5000000 * i + 10, "power W", 300 + i);
    }
    add(t, GW_KIND_COUNTER, counter, 100, 100, "seen once", 1);
    assert_int_equal(gw_trace_finish(t), 0);
    const struct gw_analysis *an = gw_analyse(t, t->arena);
    const struct gw_timeline *tl = gw_timeline_make(an, t->arena);
    assert_non_null(tl);
    assert_int_equal(tl->series_count, 1); /* no calls: no queue; a single value is no curve */
    const struct gw_tl_series *s = tl->series;
    assert_string_equal(s->name, "power W");
    size_t known = 0;
    for (size_t i = 0; i < s->count; i++) {
        assert_int_equal(isnan(s->low[i]) != 0, isnan(s->high[i]) != 0);
        known += isnan(s->low[i]) ? 0 : 1;
    }
    assert_int_equal(known, 10);
    assert_true(s->low[0] >= 100 && s->low[0] <= 100 && s->high[0] >= 300 && s->high[0] <= 300);
    gw_trace_destroy(t);
}

/* The queue fills while the host is ahead and is empty when the GPU runs dry. */
static void queue_is_drawn(void **state)
{
    (void)state;
    struct made m = make(
        strdup("repeat 6 every 10ms {\nannot 1:1 0 +9ms ProfilerStep#{i}\nlaunch 1:1 100us +5us > 0:7 200us +3ms a\n"
               "launch 1:1 110us +5us > 0:7 3200us +3ms b\nlaunch 1:1 120us +5us > 0:7 6200us +3ms c\n}\n"));
    assert_int_equal(m.tl->series_count, 1);
    const struct gw_tl_series *s = m.tl->series;
    float top = 0, bottom = 9;
    assert_int_equal(s->queue, 1);
    for (size_t i = 0; i < s->count; i++) {
        top = s->high[i] > top ? s->high[i] : top;
        bottom = s->low[i] < bottom ? s->low[i] : bottom;
    }
    assert_true(top >= 3 && top <= 3);
    assert_true(bottom >= 0 && bottom <= 0);
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
        cmocka_unit_test(counters_have_curves),  cmocka_unit_test(queue_is_drawn),
        cmocka_unit_test(no_gpu_is_no_timeline), cmocka_unit_test(text_is_inert),
        cmocka_unit_test(advice_has_code),       cmocka_unit_test(data_cannot_end_its_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
