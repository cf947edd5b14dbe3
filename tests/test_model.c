/* gw_trace_finish: order, nesting, links, devices, losses; and lanes, caps and words of the event model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text_trace.h"

static struct text_trace read_text(const char *text)
{
    struct text_trace tt;
    if (text_trace_parse(text, &tt) < 0)
        fail_msg("%s", tt.error);
    return tt;
}

static const struct gw_event *at(const struct text_trace *tt, uint32_t i) { return gw_trace_event(tt->t, i); }
static uint64_t lost(const struct text_trace *tt, enum gw_loss l) { return tt->t->loss[l].count; }

/* Names of a lane's events in its order, joined by spaces. */
static const char *order_of(const struct text_trace *tt, uint32_t lane)
{
    static char buf[512];
    const struct gw_lane *l = gw_trace_lane(tt->t, lane);
    buf[0] = 0;
    for (size_t i = 0; i < l->count; i++) {
        strncat(buf, i ? " " : "", sizeof buf - strlen(buf) - 1);
        strncat(buf, gw_trace_text(tt->t, at(tt, l->order[i])->name), sizeof buf - strlen(buf) - 1);
    }
    return buf;
}

static void test_host_order_and_ties(void **state)
{
    (void)state;
    struct text_trace tt = read_text("op 1:1 50 +10 late\n"
                                     "op 1:1 0 +10 inner\n"
                                     "op 1:1 0 +100 outer\n" /* same start: the longer one is outside, so first */
                                     "op 1:1 0 +10 twin\n"   /* same start and length: order of arrival */
                                     "op 1:1 -5 +2 early\n");
    assert_string_equal(order_of(&tt, 0), "early outer inner twin late");
    text_trace_free(&tt);
}

static void test_gpu_order_and_ties(void **state)
{
    (void)state;
    struct text_trace tt = read_text("kernel 0:7 10 +1 b\n"
                                     "kernel 0:7 0 +5 a\n"
                                     "kernel 0:7 10 +90 c\n" /* on a GPU a tie is settled by arrival, not by length */
                                     "kernel 0:8 10 +3 d\n"
                                     "kernel 0:7 0 +0 e\n");
    assert_string_equal(order_of(&tt, 0), "a e b c");
    const struct gw_device *d = gw_trace_device(tt.t, 0);
    assert_int_equal(d->op_count, 5);
    static const char *const want[] = {"a", "e", "b", "c", "d"}; /* merged from the streams, stable */
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(gw_trace_text(tt.t, at(&tt, d->ops[i])->name), want[i]);
    assert_int_equal(lost(&tt, GW_LOSS_OVERLAP_STREAM), 2); /* e starts inside a, c inside b; d is on another stream */
    text_trace_free(&tt);
}

/* A reversed and an interleaved input sort the same as a sorted one, over many runs and sizes. */
static void test_sort_of_runs(void **state)
{
    (void)state;
    for (unsigned n = 1; n < 70; n++)
        for (unsigned kind = 0; kind < 4; kind++) {
            struct gw_trace *t = gw_trace_create(0);
            uint32_t lane = gw_trace_lane_gpu(t, 0, 7);
            uint64_t seed = n * 131 + kind;
            for (unsigned i = 0; i < n; i++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                int64_t start = kind == 0   ? (int64_t)i
                                : kind == 1 ? (int64_t)(n - i)
                                : kind == 2 ? (int64_t)(i % 7)
                                            : (int64_t)(seed >> 59);
                gw_trace_add(
                    t, &(struct gw_event){.kind = GW_KIND_KERNEL, .start = start, .end = start + 1, .lane = lane});
            }
            assert_int_equal(gw_trace_finish(t), GW_OK);
            const struct gw_lane *l = gw_trace_lane(t, lane);
            assert_int_equal(l->count, n);
            for (unsigned i = 1; i < n; i++) {
                const struct gw_event *a = gw_trace_event(t, l->order[i - 1]), *b = gw_trace_event(t, l->order[i]);
                assert_true(a->start < b->start || (a->start == b->start && l->order[i - 1] < l->order[i]));
            }
            gw_trace_destroy(t);
        }
}

static void test_nesting(void **state)
{
    (void)state;
    struct text_trace tt = read_text("op 1:1 0 +100 outer\n"     /* 0 */
                                     "op 1:1 10 +20 child\n"     /* 1 */
                                     "op 1:1 15 +5 grandchild\n" /* 2 */
                                     "op 1:1 30 +10 sibling\n"   /* 3: starts where the child ends */
                                     "op 1:1 90 +20 sticks\n"    /* 4: sticks out of its parent */
                                     "op 1:1 105 +2 inside\n"    /* 5: its start is only in the one that sticks out */
                                     "op 1:2 20 +5 other\n"      /* 6: another thread */
                                     "op 1:1 50 +0 point\n"      /* 7: in the longer one of the same start */
                                     "op 1:1 50 +1 longer\n"     /* 8: and nothing is inside a point */
                                     "op 1:1 200 +1 alone\n");   /* 9 */
    static const uint32_t up[] = {GW_NONE, 0, 1, 0, 0, 4, GW_NONE, 8, 0, GW_NONE};
    for (uint32_t i = 0; i < 10; i++)
        if (at(&tt, i)->up != up[i])
            fail_msg("event %u hangs on %d, not on %d", i, (int)at(&tt, i)->up, (int)up[i]);
    text_trace_free(&tt);
}

static void test_links(void **state)
{
    (void)state;
    struct text_trace tt = read_text("api 1:1 0 +20 c5 cudaLaunchKernel\n" /* 0 */
                                     "api 1:1 5 +10 c5 cuLaunchKernel\n" /* 1: the driver call inside has the same id */
                                     "kernel 0:7 30 +10 c5 k\n"          /* 2 */
                                     "api 1:1 100 +9 c6 cudaGraphLaunch\n"  /* 3 */
                                     "kernel 0:7 140 +10 c6 second\n"       /* 4 */
                                     "kernel 0:7 120 +10 c6 first\n"        /* 5 */
                                     "kernel 0:7 200 +10 c9 orphan\n"       /* 6: its call is not here */
                                     "kernel 0:7 300 +10 none\n"            /* 7: no correlation at all */
                                     "api 1:1 400 +9 c7 cudaLaunchKernel\n" /* 8 */
                                     "kernel 0:7 390 +10 c7 early\n"        /* 9: starts before its call */
                                     "op 1:1 400 +9 c6 aten::mm\n");        /* 10: an operator is no call */
    static const uint32_t link[] = {2, GW_NONE, 0, 5, 3, 3, GW_NONE, GW_NONE, 9, 8, GW_NONE};
    for (uint32_t i = 0; i < 11; i++)
        if (at(&tt, i)->link != link[i])
            fail_msg("event %u is linked to %d, not to %d", i, (int)at(&tt, i)->link, (int)link[i]);
    assert_int_equal(lost(&tt, GW_LOSS_NO_CORRELATION), 2);
    assert_int_equal(lost(&tt, GW_LOSS_GPU_BEFORE_LAUNCH), 1);
    assert_int_equal(lost(&tt, GW_LOSS_NO_LAUNCHES), 0);
    text_trace_free(&tt);
}

/* Ids that do not come in order are sorted; the outer of two calls is the link even when it comes later in the file. */
static void test_links_out_of_order(void **state)
{
    (void)state;
    struct text_trace tt = read_text("api 1:1 205 +3 c1 cuLaunchKernel\n"
                                     "api 1:1 200 +9 c1 cudaLaunchKernel\n"
                                     "api 1:1 100 +9 c9 cudaLaunchKernel\n"
                                     "api 1:1 0 +9 c4 cudaLaunchKernel\n"
                                     "kernel 0:7 10 +1 c4 a\n"
                                     "kernel 0:7 110 +1 c9 b\n"
                                     "kernel 0:7 210 +1 c1 c\n");
    assert_int_equal(at(&tt, 4)->link, 3);
    assert_int_equal(at(&tt, 5)->link, 2);
    assert_int_equal(at(&tt, 6)->link, 1);
    assert_int_equal(at(&tt, 1)->link, 6);
    assert_int_equal(at(&tt, 0)->link, GW_NONE);
    text_trace_free(&tt);
}

static void test_losses_of_whole_traces(void **state)
{
    (void)state;
    struct text_trace none = read_text("op 1:1 0 +10 aten::mm\n"), gpu = read_text("kernel 0:7 0 +10 c1 k\n"),
                      empty = read_text("");
    assert_int_equal(lost(&none, GW_LOSS_NO_GPU), 1);
    assert_int_equal(lost(&gpu, GW_LOSS_NO_GPU), 0);
    assert_int_equal(lost(&gpu, GW_LOSS_NO_LAUNCHES), 1);
    assert_int_equal(lost(&gpu, GW_LOSS_NO_CORRELATION), 0); /* one loss says it */
    assert_int_equal(lost(&empty, GW_LOSS_NO_GPU), 1);
    assert_int_equal(lost(&empty, GW_LOSS_NO_LAUNCHES), 0);
    text_trace_free(&none);
    text_trace_free(&gpu);
    text_trace_free(&empty);
}

static void test_devices_and_lanes(void **state)
{
    (void)state;
    struct text_trace tt = read_text("dev 3 name=\"A\" sm=10 cc=8.0 memory=5\n"
                                     "kernel 1:7 0 +1 a\n"
                                     "kernel 3:7 0 +1 b\n"
                                     "gsync 1:7 1 +5 Stream Sync\n"
                                     "op 1:7 0 +1 c\n"); /* host lane 1:7 is not GPU lane 1:7 */
    assert_int_equal(tt.t->devices.len, 2);
    const struct gw_device *d = tt.t->devices.data;
    assert_int_equal(d[0].id, 3); /* order of first mention */
    assert_int_equal(d[0].sm_count, 10);
    assert_int_equal(d[0].memory_bytes, 5);
    assert_int_equal(d[1].id, 1);
    assert_int_equal(d[1].sm_count, -1); /* unknown is not zero */
    assert_int_equal(d[1].op_count, 1);  /* the synchronisation record is no work */
    assert_int_equal(at(&tt, 0)->lane, at(&tt, 2)->lane);
    assert_int_not_equal(at(&tt, 0)->lane, at(&tt, 3)->lane);
    const struct gw_lane *host = gw_trace_lane(tt.t, at(&tt, 3)->lane);
    assert_int_equal(host->type, GW_LANE_HOST);
    assert_int_equal(host->pid, 1);
    assert_int_equal(host->tid, 7);
    assert_int_equal(host->device, -1);
    text_trace_free(&tt);
}

static void test_many_lanes(void **state)
{
    (void)state;
    struct gw_trace *t = gw_trace_create(0);
    enum { N = 3000 };
    uint32_t gpu[N], host[N], count[N];
    for (int64_t i = 0; i < N; i++) {
        gpu[i] = gw_trace_lane_gpu(t, i % 8, i * 1000003);
        host[i] = gw_trace_lane_host(t, i % 8, i * 1000003);
        count[i] = gw_trace_lane_counter(t, i % 8, i * 1000003);
    }
    for (int64_t i = N; i-- > 0;) { /* found again after all the growing, each its own */
        assert_int_equal(gw_trace_lane_gpu(t, i % 8, i * 1000003), gpu[i]);
        assert_int_equal(gw_trace_lane_host(t, i % 8, i * 1000003), host[i]);
        assert_int_equal(gw_trace_lane_counter(t, i % 8, i * 1000003), count[i]);
    }
    assert_int_equal(t->lanes.len, 3 * N);
    gw_trace_destroy(t);
}

static void test_memory_cap(void **state)
{
    (void)state;
    struct gw_trace *t = gw_trace_create(100 * (sizeof(struct gw_event) + 8));
    uint32_t lane = gw_trace_lane_gpu(t, 0, 7);
    struct gw_event e = {.kind = GW_KIND_KERNEL, .end = 1, .lane = lane, .up = 3, .link = 4};
    size_t kept = 0;
    while (kept < 1000 && gw_trace_add(t, &e) == GW_OK)
        kept++;
    assert_true(kept >= 100 && kept <= 101);
    assert_int_equal(gw_trace_add(t, &e), GW_ENOMEM);
    assert_int_equal(t->loss[GW_LOSS_MEMORY_CAP].count, 2);
    assert_int_equal(gw_trace_event(t, 0)->up, GW_NONE); /* not taken from the caller */
    assert_int_equal(gw_trace_event(t, 0)->link, GW_NONE);
    assert_int_equal(gw_trace_finish(t), GW_OK); /* what was kept is usable */
    assert_int_equal(gw_trace_device(t, 0)->op_count, kept);
    gw_trace_destroy(t);
}

static void test_finish_twice(void **state)
{
    (void)state;
    struct text_trace tt = read_text("kernel 0:7 0 +10 a\nkernel 0:7 5 +10 b\n");
    assert_int_equal(lost(&tt, GW_LOSS_OVERLAP_STREAM), 1);
    assert_int_equal(gw_trace_finish(tt.t), GW_OK);
    assert_int_equal(lost(&tt, GW_LOSS_OVERLAP_STREAM), 1); /* counted once */
    text_trace_free(&tt);
}

static void test_losses_keep_the_first_place(void **state)
{
    (void)state;
    struct gw_trace *t = gw_trace_create(0);
    assert_int_equal(t->loss[GW_LOSS_BAD_TIME].first_byte, -1);
    gw_trace_lose(t, GW_LOSS_BAD_TIME, 2, 700);
    gw_trace_lose(t, GW_LOSS_BAD_TIME, 3, 20);
    assert_int_equal(t->loss[GW_LOSS_BAD_TIME].count, 5);
    assert_int_equal(t->loss[GW_LOSS_BAD_TIME].first_byte, 700);
    gw_trace_destroy(t);
}

static void test_words(void **state)
{
    (void)state;
    assert_string_equal(gw_kind_name(GW_KIND_KERNEL), "kernel");
    assert_string_equal(gw_kind_name(GW_KIND_STEP), "step");
    assert_string_equal(gw_kind_name(GW_KIND_COUNT), "unknown");
    assert_string_equal(gw_loss_id(GW_LOSS_TRUNCATED), "truncated");
    assert_string_equal(gw_loss_id(GW_LOSS_COUNT), "unknown");
    for (unsigned i = 0; i < GW_LOSS_COUNT; i++) {
        assert_true(strlen(gw_loss_text(i)) > 20); /* each row has its sentence */
        for (unsigned k = 0; k < i; k++)
            assert_string_not_equal(gw_loss_id(i), gw_loss_id(k));
    }
    assert_int_equal(gw_loss_spoils(GW_LOSS_TRUNCATED), 1);
    assert_int_equal(gw_loss_spoils(GW_LOSS_EMPTY_STEPS), 0);
    uint32_t sub = gw_copy_sub(GW_MEM_PAGEABLE, GW_MEM_DEVICE);
    assert_int_equal(gw_copy_src(sub), GW_MEM_PAGEABLE);
    assert_int_equal(gw_copy_dst(sub), GW_MEM_DEVICE);
    assert_true(gw_mem_is_host(GW_MEM_PINNED) && gw_mem_is_host(GW_MEM_HOST) && !gw_mem_is_host(GW_MEM_MANAGED));
    /* the table's columns and the inline functions say the same */
#define GW_KIND(sym, name, gpu, host, text) assert_int_equal(gw_kind_is_gpu(GW_KIND_##sym), gpu);
#include "model/kinds.def"
#undef GW_KIND
}

/* The text format of the cases itself. */
static void test_text_format(void **state)
{
    (void)state;
    struct text_trace tt = read_text("# a comment\n"
                                     "repeat 2 every 1.5us {\n"
                                     "  repeat 3 every 100 {\n"
                                     "    launch 1:1 10 +5 > 0:7 20 +0.03us blocks=6 threads=64 k{o}.{i+4} x\n"
                                     "  }\n"
                                     "  api 1:1 1ms +1ns c3 cudaFree\n"
                                     "  copy 0:8 1ms +2 c3 bytes=77 pageable>device\n"
                                     "}\n"
                                     "expect  this and that\n");
    assert_int_equal(gw_trace_count(tt.t), 2 * (3 * 2 + 2));
    assert_int_equal(at(&tt, 5)->start, 220); /* third kernel: 20 + 2 * 100 */
    assert_int_equal(at(&tt, 5)->end, 250);
    assert_int_equal(at(&tt, 5)->arg0, 6);
    assert_int_equal(at(&tt, 5)->sub, 64);
    assert_string_equal(gw_trace_text(tt.t, at(&tt, 5)->name), "k0.6 x");
    assert_string_equal(gw_trace_text(tt.t, at(&tt, 13)->name), "k1.6 x");
    assert_int_equal(at(&tt, 8 + 7)->start, 1000000 + 1500);
    assert_int_equal(at(&tt, 15)->link, 14); /* c3 of the second repetition, not of the first */
    assert_int_equal(at(&tt, 7)->link, 6);
    assert_int_equal(at(&tt, 7)->sub, gw_copy_sub(GW_MEM_PAGEABLE, GW_MEM_DEVICE));
    assert_int_equal(tt.expects, 1);
    assert_string_equal(tt.expect[0].text, "this and that");
    assert_int_equal(tt.expect[0].line, 9);
    text_trace_free(&tt);
    static const char *const bad[] = {"kernal 0:7 0 +1 k",      "kernel 0 0 +1 k",
                                      "kernel 0:7 0 1 k",       "kernel 0:7 0 +1",
                                      "kernel 0:7 0 +-1 k",     "repeat 2 every 1ms {\nkernel 0:7 0 +1 k",
                                      "launch 1:1 0 +1 kernel", "dev 0 color=red",
                                      "lose marbles",           "kernel 0:7 5minutes +1 k"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct text_trace b;
        if (text_trace_parse(bad[i], &b) == 0 || strncmp(b.error, "line 1: ", 8))
            fail_msg("\"%s\" gave \"%s\"", bad[i], b.error);
        text_trace_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_order_and_ties),
        cmocka_unit_test(test_gpu_order_and_ties),
        cmocka_unit_test(test_sort_of_runs),
        cmocka_unit_test(test_nesting),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_links_out_of_order),
        cmocka_unit_test(test_losses_of_whole_traces),
        cmocka_unit_test(test_devices_and_lanes),
        cmocka_unit_test(test_many_lanes),
        cmocka_unit_test(test_memory_cap),
        cmocka_unit_test(test_finish_twice),
        cmocka_unit_test(test_losses_keep_the_first_place),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_text_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
