/* The exact partition: windows cut by hand, idle spans, and 4000 random timelines against a count of every nanosecond.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/timeline.h"
#include "text_trace.h"

struct world {
    struct text_trace tt;
    struct gw_arena *arena;
    const struct gw_name_info *names;
    const struct gw_device *dev;
};

static struct world read_world(const char *text)
{
    struct world w = {.arena = gw_arena_create(0)};
    if (text_trace_parse(text, &w.tt) < 0)
        fail_msg("%s", w.tt.error);
    w.names = gw_names_classify(w.tt.t, w.arena);
    w.dev = gw_trace_device(w.tt.t, 0);
    return w;
}

static void free_world(struct world *w)
{
    text_trace_free(&w->tt);
    gw_arena_destroy(w->arena);
}

static struct gw_partition cut(const struct world *w, int64_t w0, int64_t w1, gw_idle_fn *fn, void *user)
{
    return gw_timeline_partition(w->tt.t, w->names, w->dev->ops, w->dev->op_count, w0, w1, fn, user);
}

struct spans {
    int64_t start[32], end[32];
    size_t next[32], n;
};

static void note(void *user, int64_t start, int64_t end, size_t next)
{
    struct spans *s = user;
    assert_true(s->n < 32);
    s->start[s->n] = start;
    s->end[s->n] = end;
    s->next[s->n++] = next;
}

static const char sample[] = "kernel 0:7 100 +100 gemm\n"               /* 0: 100-200 */
                             "kernel 0:9 150 +100 ncclDevKernel_X\n"    /* 1: 150-250 */
                             "copy 0:8 220 +80 bytes=1 pinned>device\n" /* 2: 220-300 */
                             "kernel 0:7 400 +50 gemm\n";               /* 3: 400-450 */

static void test_whole(void **state)
{
    (void)state;
    struct world w = read_world(sample);
    struct spans s = {.n = 0};
    struct gw_partition p = cut(&w, 100, 450, note, &s);
    assert_int_equal(p.wall, 350);
    assert_int_equal(p.compute, 150);
    assert_int_equal(p.comm_exposed, 50);
    assert_int_equal(p.copy_exposed, 50);
    assert_int_equal(p.idle, 100);
    assert_int_equal(p.comm_hidden, 50);
    assert_int_equal(p.copy_hidden, 30);
    assert_int_equal(p.ops, 4);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.start[0], 300);
    assert_int_equal(s.end[0], 400);
    assert_int_equal(s.next[0], 3); /* the operation that ends the gap */
    free_world(&w);
}

/* A window that begins and ends inside operations: they count as far as they reach in, and only starts inside count as
 * ops. */
static void test_windows_cut_operations(void **state)
{
    (void)state;
    struct world w = read_world(sample);
    struct spans s = {.n = 0};
    struct gw_partition p = cut(&w, 180, 420, note, &s);
    assert_int_equal(p.compute, 20 + 20);
    assert_int_equal(p.comm_exposed, 50);
    assert_int_equal(p.comm_hidden, 20);
    assert_int_equal(p.copy_exposed, 50);
    assert_int_equal(p.copy_hidden, 30);
    assert_int_equal(p.idle, 100);
    assert_int_equal(p.ops, 2);
    assert_int_equal(s.n, 1);
    free_world(&w);
}

static void test_windows_outside(void **state)
{
    (void)state;
    struct world w = read_world(sample);
    struct spans s = {.n = 0};
    struct gw_partition p = cut(&w, 0, 120, note, &s);
    assert_int_equal(p.idle, 100);
    assert_int_equal(p.compute, 20);
    assert_int_equal(s.next[0], 0);
    s.n = 0;
    p = cut(&w, 440, 1000, note, &s); /* idle to the end of the window: no operation ends it */
    assert_int_equal(p.compute, 10);
    assert_int_equal(p.idle, 550);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.start[0], 450);
    assert_int_equal(s.end[0], 1000);
    assert_int_equal(s.next[0], 4);
    s.n = 0;
    p = cut(&w, 5000, 5010, note, &s);
    assert_int_equal(p.idle, 10);
    p = cut(&w, -100, -50, NULL, NULL);
    assert_int_equal(p.idle, 50);
    p = cut(&w, 150, 150, note, &s); /* an empty window */
    assert_int_equal(p.wall | p.compute | p.comm_exposed | p.copy_exposed | p.idle, 0);
    free_world(&w);
}

static void test_span(void **state)
{
    (void)state;
    struct world w = read_world("kernel 0:7 100 +500 long\nkernel 0:8 200 +10 short\n"),
                 none = read_world("op 1:1 0 +1 x\n");
    int64_t a = -1, b = -1;
    assert_int_equal(gw_timeline_span(w.tt.t, w.dev->ops, w.dev->op_count, &a, &b), 1);
    assert_int_equal(a, 100);
    assert_int_equal(b, 600); /* the last end is not the end of the last start */
    assert_int_equal(gw_timeline_span(none.tt.t, NULL, 0, &a, &b), 0);
    free_world(&w);
    free_world(&none);
}

/* Times near the ends of the clock: no overflow, nothing lost. */
static void test_far_times(void **state)
{
    (void)state;
    const int64_t far = 4000000000000000000;
    struct world w = {.arena = gw_arena_create(0)};
    w.tt.t = gw_trace_create(0);
    uint32_t lane = gw_trace_lane_gpu(w.tt.t, 0, 7), name = gw_trace_name(w.tt.t, "k", 1);
    gw_trace_add(w.tt.t, &(struct gw_event){
                             .kind = GW_KIND_KERNEL, .start = -far, .end = -far + 10, .lane = lane, .name = name});
    gw_trace_add(w.tt.t,
                 &(struct gw_event){.kind = GW_KIND_KERNEL, .start = far, .end = far + 10, .lane = lane, .name = name});
    gw_trace_finish(w.tt.t);
    w.names = gw_names_classify(w.tt.t, w.arena);
    w.dev = gw_trace_device(w.tt.t, 0);
    struct gw_partition p = cut(&w, -far, far + 10, NULL, NULL);
    assert_int_equal(p.compute, 20);
    assert_int_equal(p.idle, 2 * far - 10);
    free_world(&w);
}

/* ---- against a count of every nanosecond ---- */

enum { SPACE = 96, MOST = 14 };
static uint64_t seed;

static uint32_t rnd(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed >> 33) % n);
}

struct counted {
    int64_t compute, comm, copy, idle, comm_hidden, copy_hidden, spans;
};

static struct counted count(const struct gw_trace *t, int64_t w0, int64_t w1)
{
    struct counted c = {0};
    int was_idle = 0;
    for (int64_t at = w0; at < w1; at++) {
        int on[3] = {0, 0, 0};
        for (size_t i = 0; i < gw_trace_count(t); i++) {
            const struct gw_event *e = gw_trace_event(t, (uint32_t)i);
            if (e->start <= at && at < e->end)
                on[e->kind == GW_KIND_COPY || e->kind == GW_KIND_SET ? 2
                   : e->arg1                                         ? 1
                                                                     : 0] = 1; /* arg1 marks comm here */
        }
        c.compute += on[0];
        c.comm += !on[0] && on[1];
        c.copy += !on[0] && !on[1] && on[2];
        c.comm_hidden += on[0] && on[1];
        c.copy_hidden += (on[0] || on[1]) && on[2];
        int idle = !on[0] && !on[1] && !on[2];
        c.idle += idle;
        c.spans += idle && !was_idle;
        was_idle = idle;
    }
    return c;
}

struct sums {
    int64_t ns, last, spans;
};

static void add_span(void *user, int64_t start, int64_t end, size_t next)
{
    (void)next;
    struct sums *s = user;
    assert_true(start >= s->last && end > start);
    s->spans += start > s->last || s->last == INT64_MIN; /* an operation of no length may cut a span in two */
    s->ns += end - start;
    s->last = end;
}

static void one_random(uint64_t number)
{
    static const unsigned kinds[] = {GW_KIND_KERNEL, GW_KIND_KERNEL, GW_KIND_KERNEL,
                                     GW_KIND_COPY,   GW_KIND_SET,    GW_KIND_GRAPH};
    seed = number;
    struct world w = {.arena = gw_arena_create(0)};
    struct gw_trace *t = w.tt.t = gw_trace_create(0);
    uint32_t comm = gw_trace_name(t, "ncclDevKernel_AllReduce", 23), other = gw_trace_name(t, "gemm", 4);
    size_t n = 1 + rnd(MOST);
    for (size_t i = 0; i < n; i++) {
        unsigned kind = kinds[rnd(6)];
        int64_t start = (int64_t)rnd(SPACE), length = (int64_t)(rnd(4) ? rnd(12) : rnd(SPACE));
        int is_comm = kind == GW_KIND_KERNEL && rnd(3) == 0;
        gw_trace_add(t, &(struct gw_event){.kind = (uint16_t)kind,
                                           .start = start,
                                           .end = start + length,
                                           .arg1 = (uint64_t)is_comm,
                                           .name = is_comm ? comm : other,
                                           .lane = gw_trace_lane_gpu(t, 0, rnd(3))});
    }
    gw_trace_finish(t);
    w.names = gw_names_classify(t, w.arena);
    w.dev = gw_trace_device(t, 0);
    for (int k = 0; k < 6; k++) {
        int64_t w0 = (int64_t)rnd(SPACE) - 10, w1 = w0 + (int64_t)rnd(2 * SPACE);
        if (k == 0)
            gw_timeline_span(t, w.dev->ops, w.dev->op_count, &w0, &w1);
        struct sums s = {.last = INT64_MIN};
        struct gw_partition p = cut(&w, w0, w1, add_span, &s);
        struct counted c = count(t, w0, w1);
        if (p.compute != c.compute || p.comm_exposed != c.comm || p.copy_exposed != c.copy || p.idle != c.idle ||
            p.comm_hidden != c.comm_hidden || p.copy_hidden != c.copy_hidden || s.ns != c.idle || s.spans != c.spans ||
            p.wall != w1 - w0)
            fail_msg("seed %" PRIu64 " window [%" PRId64 ", %" PRId64 "): compute %" PRId64 "/%" PRId64 " comm %" PRId64
                     "/%" PRId64 " copy %" PRId64 "/%" PRId64 " idle %" PRId64 "/%" PRId64 " hidden %" PRId64
                     "/%" PRId64 " and %" PRId64 "/%" PRId64 ", spans %" PRId64 "/%" PRId64,
                     number, w0, w1, p.compute, c.compute, p.comm_exposed, c.comm, p.copy_exposed, c.copy, p.idle,
                     c.idle, p.comm_hidden, c.comm_hidden, p.copy_hidden, c.copy_hidden, s.spans, c.spans);
    }
    free_world(&w);
}

static void test_random(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= 4000; i++)
        one_random(i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),           cmocka_unit_test(test_windows_cut_operations),
        cmocka_unit_test(test_windows_outside), cmocka_unit_test(test_span),
        cmocka_unit_test(test_far_times),       cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
