/* The replay against times worked out by hand: unchanged, waits dropped, host and operations scaled, streams that
 * depend. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/replay.h"
#include "text_trace.h"

#define US INT64_C(1000)

struct world {
    struct text_trace tt;
    struct gw_arena *arena;
    struct gw_analysis *an;
    struct gw_replay *r;
};

static struct world read_world(const char *text)
{
    struct world w = {.arena = gw_arena_create(0)};
    if (text_trace_parse(text, &w.tt) < 0)
        fail_msg("%s", w.tt.error);
    w.an = gw_analyse(w.tt.t, w.arena);
    assert_non_null(w.an);
    w.r = w.an->dev[w.an->main].replay;
    return w;
}

static void free_world(struct world *w)
{
    text_trace_free(&w->tt);
    gw_arena_destroy(w->arena);
}

static int64_t unchanged(const struct world *w)
{
    assert_non_null(w->r);
    struct gw_whatif none = GW_WHATIF_NONE;
    return gw_replay_run(w->r, &none);
}

/* Duration of every operation of this name times `factor`. */
static int64_t with_scaled(const struct world *w, const char *name, float factor)
{
    struct gw_whatif x = GW_WHATIF_NONE;
    float *s = gw_arena_calloc(w->arena, gw_replay_ops(w->r), sizeof *s);
    assert_non_null(s);
    int hits = 0;
    for (size_t i = 0; i < gw_replay_ops(w->r); i++) {
        s[i] = 1.0f;
        if (!strcmp(gw_ev_name(w->an, gw_replay_op_event(w->r, i)), name)) {
            s[i] = factor;
            hits++;
        }
    }
    assert_true(hits > 0);
    x.op_scale = s;
    return gw_replay_run(w->r, &x);
}

/* Kernels of 100 us, a synchronize after each that returns 2 us after its kernel, 88 us of dispatch before the next. */
static const char synced[] = "launch 1:1 0 +5us > 0:7 10us +100us a\n"
                             "api 1:1 20us +92us cudaStreamSynchronize\n"
                             "launch 1:1 200us +5us > 0:7 210us +100us a\n"
                             "api 1:1 220us +92us cudaStreamSynchronize\n"
                             "launch 1:1 400us +5us > 0:7 410us +100us a\n";

static void test_unchanged(void **state)
{
    (void)state;
    struct world w = read_world(synced);
    assert_int_equal(unchanged(&w), 500 * US);
    assert_true(gw_replay_error(w.r) == 0.0);
    assert_int_equal(gw_replay_ops(w.r), 3);
    free_world(&w);
}

/* Without the waits: calls at 0, 5 + 15 + 2 + 88 = 110, 220 us; each kernel 10 us after its call; the last ends at 330.
 */
static void test_sync_dropped(void **state)
{
    (void)state;
    struct world w = read_world(synced);
    struct gw_whatif x = GW_WHATIF_NONE;
    x.drop_wait = 1u << GW_CAUSE_HOST_SYNC;
    assert_int_equal(gw_replay_run(w.r, &x), 320 * US);
    x.drop_wait = 1u << GW_CAUSE_BLOCKING_COPY; /* another kind of wait: nothing changes */
    assert_int_equal(gw_replay_run(w.r, &x), 500 * US);
    free_world(&w);
}

/* Dispatch at half: the wait still ends at 112, then 44 us: calls at 0, 156, 312 us, last end 322 + 100. */
static void test_host_scaled(void **state)
{
    (void)state;
    struct world w = read_world(synced);
    struct gw_whatif x = GW_WHATIF_NONE;
    x.host_scale = 0.5;
    assert_int_equal(gw_replay_run(w.r, &x), 412 * US);
    free_world(&w);
}

/* Kernels at half: 60 us end instead of 110; calls at 0, 62 + 88 = 150, 300; last kernel 310-360. */
static void test_kernels_scaled(void **state)
{
    (void)state;
    struct world w = read_world(synced);
    assert_int_equal(with_scaled(&w, "a", 0.5f), 350 * US);
    assert_int_equal(with_scaled(&w, "a", 1.0f), 500 * US);
    free_world(&w);
}

/* Back to back on a stream: a copy of 100 us at half lets all that follows start 50 us earlier. */
static void test_copy_scaled(void **state)
{
    (void)state;
    struct world w = read_world("memcpy 1:1 0 +5us > 0:7 10us +100us bytes=1000000 pinned>device copy\n"
                                "launch 1:1 10us +5us > 0:7 110us +100us a\n"
                                "launch 1:1 20us +5us > 0:7 210us +50us b\n");
    assert_int_equal(unchanged(&w), 250 * US);
    assert_int_equal(with_scaled(&w, "copy", 0.5f), 200 * US);
    assert_int_equal(with_scaled(&w, "copy", 0.0f), 160 * US); /* a then waits for its launch: 20 us */
    assert_int_equal(with_scaled(&w, "b", 0.0f), 200 * US);
    free_world(&w);
}

/* b on stream 8 starts 2 us after a on stream 7 ends; c on stream 7 starts 1 us after b. Scaling a moves all three. */
static void test_two_streams(void **state)
{
    (void)state;
    struct world w = read_world("launch 1:1 0 +5us > 0:7 10us +100us a\n"
                                "launch 1:1 10us +5us > 0:8 112us +100us b\n"
                                "launch 1:1 20us +5us > 0:7 213us +37us c\n");
    assert_int_equal(unchanged(&w), 240 * US);
    assert_int_equal(with_scaled(&w, "a", 0.5f), 190 * US);
    assert_int_equal(with_scaled(&w, "b", 0.0f), 140 * US);
    free_world(&w);
}

/* The two streams do not depend: b overlaps a. Scaling a to nothing leaves b as it is. */
static void test_two_streams_alone(void **state)
{
    (void)state;
    struct world w = read_world("launch 1:1 0 +5us > 0:7 10us +50us a\n"
                                "launch 1:1 10us +5us > 0:8 20us +200us b\n"
                                "launch 1:1 20us +5us > 0:7 60us +50us a\n");
    assert_int_equal(unchanged(&w), 210 * US);
    assert_int_equal(with_scaled(&w, "a", 0.0f), 210 * US);
    assert_int_equal(with_scaled(&w, "b", 0.1f), 100 * US); /* now the second a is the last to end: 110 - 10 */
    free_world(&w);
}

/* 3 ms in the loader: gone, the call comes at 30 us and its kernel follows the one before it (100 us). */
static void test_label_removed(void **state)
{
    (void)state;
    struct world w = read_world("launch 1:1 0 +5us > 0:7 10us +90us a\n"
                                "op 1:1 20us +3ms enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__\n"
                                "launch 1:1 3030us +5us > 0:7 3040us +50us b\n"
                                "launch 1:1 3040us +5us > 0:7 3090us +50us c\n");
    assert_int_equal(unchanged(&w), 3130 * US);
    struct gw_whatif x = GW_WHATIF_NONE;
    x.remove = 1u << GW_CAUSE_DATA_WAIT;
    assert_int_equal(gw_replay_run(w.r, &x), 190 * US);
    x.remove = 1u << GW_CAUSE_MAIN_LOADING; /* another label */
    assert_int_equal(gw_replay_run(w.r, &x), 3130 * US);
    x.remove = 0;
    x.host_scale =
        0.5; /* a faster host gets its batch no earlier (3020 us); only the 10 us of dispatch after it shrink */
    assert_int_equal(gw_replay_run(w.r, &x), 3125 * US);
    x.host_scale = 1;
    x.label_scale[GW_CAUSE_DATA_WAIT] = 0.5; /* the call comes at 1530 us, 1.5 ms earlier */
    assert_int_equal(gw_replay_run(w.r, &x), 1630 * US);
    free_world(&w);
}

/* A short stay in the loader is the price of taking a batch that is there: it moves with the host. */
static void test_batch_that_is_there(void **state)
{
    (void)state;
    struct world w = read_world("launch 1:1 0 +5us > 0:7 10us +90us a\n"
                                "op 1:1 20us +300us enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__\n"
                                "launch 1:1 330us +5us > 0:7 340us +50us b\n"
                                "launch 1:1 340us +5us > 0:7 390us +50us c\n");
    struct gw_whatif x = GW_WHATIF_NONE;
    x.host_scale = 0.5; /* 2.5 + 7.5 + 300 + 5 = 315 us until the call of b */
    assert_int_equal(gw_replay_run(w.r, &x), 415 * US);
    free_world(&w);
}

/* Calls inside one context, and the dispatch before them, take a tenth of their time; the others stay. */
static void test_context_scaled(void **state)
{
    (void)state;
    struct world w = read_world("launch 1:1 0 +5us > 0:7 10us +10us a\n"
                                "annot 1:1 100us +210us Optimizer.step#SGD.step\n"
                                "launch 1:1 200us +5us > 0:7 210us +10us b\n"
                                "launch 1:1 300us +5us > 0:7 310us +10us c\n"
                                "launch 1:1 400us +5us > 0:7 410us +10us d\n");
    assert_int_equal(unchanged(&w), 410 * US);
    struct gw_whatif x = GW_WHATIF_NONE;
    x.ctx = GW_CTX_OPTIMIZER;
    x.ctx_host_scale = 0.1;
    /* b: 5 + 19.5 = 24.5, c: 24.5 + 0.5 + 9.5 = 34.5, d: 34.5 + 0.5 + 95 = 130 us; its kernel ends 20 us later */
    assert_int_equal(gw_replay_run(w.r, &x), 140 * US);
    free_world(&w);
}

/* A copy call that returns with its copy (blocking): a faster copy lets the host go on earlier; not waiting at all too.
 */
static void test_blocking_copy(void **state)
{
    (void)state;
    struct world w = read_world("memcpy 1:1 0 +120us > 0:7 10us +100us bytes=1000000 pinned>device copy\n"
                                "launch 1:1 130us +5us > 0:7 140us +50us a\n"
                                "launch 1:1 140us +5us > 0:7 190us +50us b\n");
    assert_int_equal(unchanged(&w), 230 * US);
    assert_int_equal(with_scaled(&w, "copy", 0.5f), 180 * US); /* returns at 70, calls at 80 and 90 */
    struct gw_whatif x = GW_WHATIF_NONE;
    x.drop_wait = 1u << GW_CAUSE_BLOCKING_COPY;
    assert_int_equal(gw_replay_run(w.r, &x), 200 * US); /* the kernels then follow the copy: 110-160-210 */
    free_world(&w);
}

/* A launch call held by a full queue until a kernel ended: it is computed, not replayed. */
static void test_queue_full(void **state)
{
    (void)state;
    struct world w = read_world("launch 1:1 0 +5us > 0:7 10us +200us a\n"
                                "launch 1:1 10us +5us > 0:7 212us +200us b\n"
                                "launch 1:1 20us +195us > 0:7 414us +100us c\n" /* returns at 215, 5 us after a */
                                "launch 1:1 225us +5us > 0:7 516us +100us d\n");
    assert_int_equal(unchanged(&w), 606 * US);
    assert_int_equal(with_scaled(&w, "a", 0.5f), 506 * US);
    free_world(&w);
}

/* A kernel that started long after its call, on a stream that had been done before the call: it moves with the call. */
static void test_slow_start(void **state)
{
    (void)state;
    struct world w = read_world("launch 1:1 0 +5us > 0:7 10us +90us a\n"
                                "op 1:1 100us +800us enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__\n"
                                "launch 1:1 910us +5us > 0:7 1910us +50us b\n"
                                "launch 1:1 920us +5us > 0:7 1960us +50us c\n");
    assert_int_equal(unchanged(&w), 2000 * US);
    struct gw_whatif x = GW_WHATIF_NONE;
    x.remove = 1u << GW_CAUSE_DATA_WAIT;
    assert_int_equal(gw_replay_run(w.r, &x), 1200 * US);
    free_world(&w);
}

/* Calls of a second thread that overlap the first keep their distance. */
static void test_second_thread(void **state)
{
    (void)state;
    struct world w = read_world("launch 1:1 0 +50us > 0:7 60us +100us a\n"
                                "launch 1:2 20us +10us > 0:8 40us +100us b\n"
                                "launch 1:1 60us +5us > 0:7 160us +100us c\n");
    assert_int_equal(unchanged(&w), 220 * US);
    free_world(&w);
}

static void test_too_few_links(void **state)
{
    (void)state;
    struct world w = read_world("launch 1:1 0 +5us > 0:7 10us +90us a\n"
                                "kernel 0:7 100us +50us b\n"
                                "kernel 0:7 200us +50us b\n");
    assert_null(w.r); /* one of three operations can be tied to a call: nothing is predicted */
    free_world(&w);
}

/* Where zero lies on the clock must not matter: recordings count from 1970, from boot or from their start. */
static void test_shifted(void **state)
{
    (void)state;
    static const char *const shift[] = {"0", "-10s", "1700000000s"};
    for (size_t i = 0; i < sizeof shift / sizeof *shift; i++) {
        char text[2048];
        snprintf(text, sizeof text, "shift %s\n%s", shift[i], synced);
        struct world w = read_world(text);
        assert_int_equal(unchanged(&w), 500 * US);
        struct gw_whatif x = GW_WHATIF_NONE;
        x.drop_wait = 1u << GW_CAUSE_HOST_SYNC;
        assert_int_equal(gw_replay_run(w.r, &x), 320 * US);
        /* Dispatch (316 us of the window) against kernels (300 us): 16 of the 200 us would be lost without a wait too.
         * Each gap is split down to whole ns, in favour of the wait. */
        const int64_t *ns = w.an->dev[0].cause_ns;
        assert_int_equal(ns[GW_CAUSE_LAUNCH], 2 * 7999);
        assert_int_equal(ns[GW_CAUSE_HOST_SYNC], 200 * US - 2 * 7999);
        free_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unchanged),           cmocka_unit_test(test_sync_dropped),
        cmocka_unit_test(test_host_scaled),         cmocka_unit_test(test_kernels_scaled),
        cmocka_unit_test(test_copy_scaled),         cmocka_unit_test(test_two_streams),
        cmocka_unit_test(test_two_streams_alone),   cmocka_unit_test(test_label_removed),
        cmocka_unit_test(test_batch_that_is_there), cmocka_unit_test(test_context_scaled),
        cmocka_unit_test(test_blocking_copy),       cmocka_unit_test(test_queue_full),
        cmocka_unit_test(test_slow_start),          cmocka_unit_test(test_second_thread),
        cmocka_unit_test(test_too_few_links),       cmocka_unit_test(test_shifted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
