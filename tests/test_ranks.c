/* Ranks compared: who waits for whom, by hand-made summaries; what a summary keeps of a timeline; the report over
 * ranks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/rank_report.h"
#include "rank_text.h"
#include "text_trace.h"

#define MOST 8

static struct gw_arena *arena;
static const struct gw_rank_summary *list[MOST];

static int begin(void **state)
{
    (void)state;
    arena = gw_arena_create(0);
    return !arena;
}

static int end(void **state)
{
    (void)state;
    gw_arena_destroy(arena);
    return 0;
}

static const struct gw_ranks *compare(size_t n, const char *const *text)
{
    for (size_t i = 0; i < n; i++)
        list[i] = rank_text(arena, text[i]);
    const struct gw_ranks *x = gw_ranks_compare(list, n, arena);
    assert_non_null(x);
    return x;
}
#define COMPARE(...) compare(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), (const char *[]){__VA_ARGS__})

/* Three ranks, two steps. Rank 2 comes 300 after the others and nothing hides their waiting; the transfer is 100.
 * Clocks differ by a million. */
static const char *const late_one[] = {
    "rank 0 of 3\nwindow 2000 steps 2\n"
    "5 AllReduce/64 100 500 computing=100\n6 AllReduce/64 1100 1500 computing=600\n7 AllReduce/64 2100 2500 "
    "computing=600",
    "rank 1 of 3\nwindow 2000 steps 2\n"
    "5 AllReduce/64 1000100 1000500 computing=100\n6 AllReduce/64 1001100 1001500 computing=600\n7 AllReduce/64 "
    "1002100 1002500 computing=600",
    "rank 2 of 3\nwindow 2000 steps 2\n"
    "5 AllReduce/64 400 500 data-wait=300 computing=100\n6 AllReduce/64 1400 1500 data-wait=300 computing=600\n7 "
    "AllReduce/64 2400 2500 data-wait=300 computing=600"};

static void test_late(void **state)
{
    (void)state;
    const struct gw_ranks *x = compare(3, late_one);
    assert_int_equal(x->fit, GW_RANKS_FIT);
    assert_int_equal(x->matched, 9);
    assert_int_equal(x->unmatched, 0);
    assert_int_equal(x->row[0].wait, 900);
    assert_int_equal(x->row[0].wait_exposed, 900);
    assert_int_equal(x->row[2].wait, 0);
    assert_int_equal(x->row[1].transfer, 300);
    assert_int_equal(x->row[2].last, 3);
    assert_int_equal(x->late_count, 1);
    assert_int_equal(x->late[0], 2);
    assert_int_equal(x->systematic, 1);
    assert_int_equal(x->saved, 900);
    assert_int_equal(x->balanced, 600); /* the mean of 300, 300 and 0, three times */
    assert_int_equal(x->unlate, 900);
    assert_int_equal(x->late_steps, 3);
    assert_int_equal(x->seen_steps, 3);
    assert_true(x->late_share == 1.0);
    assert_int_equal(x->reasons, 1);
    assert_int_equal(x->reason[0].did, GW_CAUSE_DATA_WAIT);
    assert_int_equal(x->reason[0].own, 900);
    assert_int_equal(x->reason[0].others, 0);
}

/* The same with the waiting hidden behind compute: it costs nothing, and nobody is late. */
static void test_hidden(void **state)
{
    (void)state;
    const struct gw_ranks *x = COMPARE("rank 0 of 2\nwindow 2000 steps 2\n5 AllReduce/64 100 500 exposed=0\n6 "
                                       "AllReduce/64 1100 1500 exposed=0\n7 AllReduce/64 2100 2500 exposed=0",
                                       "rank 1 of 2\nwindow 2000 steps 2\n5 AllReduce/64 400 500 exposed=0\n6 "
                                       "AllReduce/64 1400 1500 exposed=0\n7 AllReduce/64 2400 2500 exposed=0");
    assert_int_equal(x->row[0].wait, 900);
    assert_int_equal(x->row[0].wait_exposed, 0);
    assert_int_equal(x->late_count, 0);
    assert_int_equal(x->saved, 0);
}

/* Hidden on the last rank, exposed on the others: their transfer would be hidden too, had they not waited. */
static void test_pushed_out(void **state)
{
    (void)state;
    const struct gw_ranks *x = COMPARE(
        "rank 0 of 2\nwindow 3000 steps 3\n1 AllReduce/64 100 500\n2 AllReduce/64 1100 1500\n3 AllReduce/64 2100 2500",
        "rank 1 of 2\nwindow 3000 steps 3\n1 AllReduce/64 400 500 exposed=0\n2 AllReduce/64 1400 1500 exposed=0\n3 "
        "AllReduce/64 2400 2500 exposed=0");
    assert_int_equal(x->row[0].wait, 900);
    assert_int_equal(x->row[0].wait_exposed, 1200);
    assert_int_equal(x->saved, 1200);
}

static void test_in_turn(void **state)
{
    (void)state;
    const struct gw_ranks *x = COMPARE("rank 0 of 2\nwindow 4000 steps 4\n1 AllReduce/64 100 500\n2 AllReduce/64 1400 "
                                       "1500\n3 AllReduce/64 2100 2500\n4 AllReduce/64 3400 3500",
                                       "rank 1 of 2\nwindow 4000 steps 4\n1 AllReduce/64 400 500\n2 AllReduce/64 1100 "
                                       "1500\n3 AllReduce/64 2400 2500\n4 AllReduce/64 3100 3500");
    assert_int_equal(x->systematic, 0);
    assert_int_equal(x->balanced, 600); /* half of 300, four times */
    assert_int_equal(x->row[0].last, 2);
    assert_int_equal(x->row[1].last, 2);
}

static void test_incident(void **state)
{
    (void)state;
    const struct gw_ranks *x = COMPARE("rank 0 of 2\nwindow 4000 steps 4\n1 AllReduce/64 400 500\n2 AllReduce/64 1000 "
                                       "1500\n3 AllReduce/64 2400 2500\n4 AllReduce/64 3400 3500",
                                       "rank 1 of 2\nwindow 4000 steps 4\n1 AllReduce/64 400 500\n2 AllReduce/64 1400 "
                                       "1500\n3 AllReduce/64 2400 2500\n4 AllReduce/64 3400 3500");
    assert_int_equal(x->late[0], 1);
    assert_int_equal(x->late_steps, 1);
    assert_int_equal(x->seen_steps, 4);
    assert_true(x->worst_step == 1.0);
}

/* Before the first collective of a recording nothing is known. It must not count; the window is shorter by the waiting.
 */
static void test_cold(void **state)
{
    (void)state;
    const struct gw_ranks *x = COMPARE("rank 0 of 2\nwindow 3000 steps 0 unnumbered\n-1 AllReduce/64 100 500 cold\n-1 "
                                       "AllReduce/64 1400 1500\n-1 AllReduce/64 2400 2500",
                                       "rank 1 of 2\nwindow 3000 steps 0 unnumbered\n-1 AllReduce/64 400 500 cold\n-1 "
                                       "AllReduce/64 1400 1500\n-1 AllReduce/64 2400 2500");
    assert_int_equal(x->fit, GW_RANKS_FIT);
    assert_int_equal(x->matched, 4);
    assert_int_equal(x->unmatched, 2);
    assert_int_equal(x->row[0].cold, 300);
    assert_int_equal(x->row[0].wait, 0);
    assert_int_equal(x->wall, 2850); /* of 2700 and 3000 */
    assert_int_equal(x->saved, 0);
}

/* Rank 1 recorded one step less at the start: numbers keep the match, and sums are for the whole window. */
static void test_numbers(void **state)
{
    (void)state;
    const struct gw_ranks *x = COMPARE("rank 0 of 2\nwindow 4000 steps 4\n1 AllReduce/64 100 500\n2 AllReduce/64 1100 "
                                       "1500\n3 AllReduce/64 2100 2500\n4 AllReduce/64 3100 3500",
                                       "rank 1 of 2\nwindow 3000 steps 3\n2 AllReduce/64 1400 1500\n3 AllReduce/64 "
                                       "2400 2500\n4 AllReduce/64 3400 3500");
    assert_int_equal(x->numbered, 1);
    assert_int_equal(x->matched, 6);
    assert_int_equal(x->unmatched, 1);
    assert_int_equal(x->row[0].wait, 1200); /* 300 in each of 3 steps, over 4 */
    assert_int_equal(x->row[1].wait, 0);
}

/* Without numbers the ends tell: steps of unequal length fit in one place only. */
static void test_shift(void **state)
{
    (void)state;
    const struct gw_ranks *x = COMPARE(
        "rank 0 of 2\nwindow 900000000 steps 5 unnumbered\n0 AllReduce 0 1000\n1 AllReduce 110000000 110001000\n"
        "2 AllReduce 320000000 320001000\n3 AllReduce 440000000 440001000\n4 AllReduce 700000000 700001000",
        "rank 1 of 2\nwindow 900000000 steps 4 unnumbered\n0 AllReduce 10000000 10001000\n"
        "1 AllReduce 220000000 220001000\n2 AllReduce 340000000 340001000\n3 AllReduce 600000000 600001000");
    assert_int_equal(x->fit, GW_RANKS_FIT);
    assert_int_equal(x->matched, 8);
    assert_int_equal(x->row[0].wait + x->row[1].wait, 0);
    assert_true(x->spread < 50000);
}

/* Ends that do not go together: two runs of the same job. */
static void test_two_runs(void **state)
{
    (void)state;
    const struct gw_ranks *x = COMPARE(
        "rank 0 of 0\nwindow 900000000 steps 4 unnumbered\n0 AllReduce 0 1000\n1 AllReduce 110000000 110001000\n"
        "2 AllReduce 320000000 320001000\n3 AllReduce 440000000 440001000",
        "rank 1 of 0\nwindow 900000000 steps 4 unnumbered\n0 AllReduce 0 1000\n1 AllReduce 210000000 210001000\n"
        "2 AllReduce 320000000 320001000\n3 AllReduce 560000000 560001000");
    assert_int_equal(x->fit, GW_RANKS_NO_MATCH);
    assert_string_equal(
        gw_ranks_misfit(x, list, arena),
        "their collectives do not end together: other runs of the job, or ranks that do not talk to each other");
}

/* Pairs gather among themselves, all four reduce: each group is matched for itself. */
static void test_groups(void **state)
{
    (void)state;
    const struct gw_ranks *x =
        COMPARE("rank 0 of 4\nwindow 40000000 steps 3\n"
                "1 AllGather 100 1000\n1 AllReduce 5000 6000\n2 AllGather 10000100 10001000\n2 AllReduce 10005000 "
                "10006000\n3 AllGather 20000100 20001000\n3 AllReduce 20005000 20006000",
                "rank 1 of 4\nwindow 40000000 steps 3\n"
                "1 AllGather 900 1000\n1 AllReduce 5000 6000\n2 AllGather 10000900 10001000\n2 AllReduce 10005000 "
                "10006000\n3 AllGather 20000900 20001000\n3 AllReduce 20005000 20006000",
                "rank 2 of 4\nwindow 40000000 steps 3\n"
                "1 AllGather 100 300000\n1 AllReduce 5000 6000\n2 AllGather 10000100 10900000\n2 AllReduce 10005000 "
                "10006000\n3 AllGather 20000100 20100000\n3 AllReduce 20005000 20006000",
                "rank 3 of 4\nwindow 40000000 steps 3\n"
                "1 AllGather 100 300000\n1 AllReduce 5000 6000\n2 AllGather 10000100 10900000\n2 AllReduce 10005000 "
                "10006000\n3 AllGather 20000100 20100000\n3 AllReduce 20005000 20006000");
    assert_int_equal(x->fit, GW_RANKS_FIT);
    assert_int_equal(x->matched, 24);
    for (size_t i = 0; i < x->ncls; i++)
        assert_int_equal(x->cls[i].ranks, x->cls[i].kind == GW_COLL_ALL_GATHER ? 2 : 4);
    assert_int_equal(x->row[0].wait, 3 * 800);
    assert_int_equal(x->row[2].wait, 0);
}

/* nccl-tests: an all-reduce of n ranks moves 2(n-1)/n of the message over each link, the others (n-1)/n or all of it.
 */
static void test_bandwidth(void **state)
{
    (void)state;
    assert_true(fabs(gw_coll_bus_factor(GW_COLL_ALL_REDUCE, 8) - 1.75) < 1e-12);
    assert_true(fabs(gw_coll_bus_factor(GW_COLL_ALL_GATHER, 8) - 0.875) < 1e-12);
    assert_true(fabs(gw_coll_bus_factor(GW_COLL_REDUCE_SCATTER, 2) - 0.5) < 1e-12);
    assert_true(fabs(gw_coll_bus_factor(GW_COLL_ALL_TO_ALL, 4) - 0.75) < 1e-12);
    assert_true(gw_coll_bus_factor(GW_COLL_BROADCAST, 8) == 1 && gw_coll_bus_factor(GW_COLL_REDUCE, 8) == 1 &&
                gw_coll_bus_factor(GW_COLL_SEND_RECV, 8) == 1);
    const struct gw_ranks *x = COMPARE("rank 0 of 2\nwindow 9000000 steps 3\n1 AllReduce/1000000 0 10000\n2 "
                                       "AllReduce/1000000 100000 110000\n3 AllReduce/1000000 200000 210000",
                                       "rank 1 of 2\nwindow 9000000 steps 3\n1 AllReduce/1000000 0 10000\n2 "
                                       "AllReduce/1000000 100000 110000\n3 AllReduce/1000000 200000 210000");
    assert_true(fabs(x->cls[0].bus_bandwidth - 1e11) < 1); /* 1 MB in 10 us, factor 1 for two ranks */
}

static void test_misfits(void **state)
{
    (void)state;
    const char *a = "rank 0 of 2\nwindow 1000 steps 2\nwork gemm 500 comm 100\n1 AllReduce 0 10\n2 AllReduce 100 110";
    const struct gw_ranks *x = COMPARE(a);
    assert_int_equal(x->fit, GW_RANKS_ONE);
    x = COMPARE(a, "rank 1 of 4\nwindow 1000 steps 2\n1 AllReduce 0 10");
    assert_int_equal(x->fit, GW_RANKS_WORLD);
    assert_string_equal(gw_ranks_misfit(x, list, arena), "rank0.json is of a job of 2 ranks, rank1.json of a job of 4");
    x = COMPARE(a, "rank 0 of 2\nwindow 1000 steps 2\n1 AllReduce 0 10");
    assert_int_equal(x->fit, GW_RANKS_DUPLICATE);
    assert_string_equal(gw_ranks_misfit(x, list, arena), "rank0.json and rank0.json are both rank 0");
    x = COMPARE(a, "rank 1 of 2\nwindow 1000 steps 2\nwork conv 500 comm 100\n1 AllReduce 0 10");
    assert_int_equal(x->fit, GW_RANKS_OTHER);
    x = COMPARE(a, "rank 1 of 2\nwindow 1000 steps 2\nwork gemm 500");
    assert_int_equal(x->fit, GW_RANKS_NO_COMM);
    assert_int_equal(x->a, 1);
}

static void test_rank_of_name(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        int64_t rank;
    } rows[] = {{"a/rank-3.Mar_25.pt.trace.json.gz", 3},
                {"rank12.json", 12},
                {"worker0.pt.trace.json", 0},
                {"/x/run_r7/trace_r12.json", 12},
                {"rank_5_of_8.json", 5},
                {"B300_1782.6-TP-2-DECODE.trace.json.gz", 2},
                {"gpu1.json", 1},
                {"GPU=4.json", 4},
                {"trace.json", -1},
                {"frank.json", -1},
                {"h100_2gpu_1s.sqlite", -1},
                {"rank99999999999999999999.json", -1},
                {"", -1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (gw_rank_of_name(rows[i].path) != rows[i].rank)
            fail_msg("%s: %lld", rows[i].path, (long long)gw_rank_of_name(rows[i].path));
}

/* ---- a summary of a timeline ---- */

/* A step: compute 0..300 us, idle 300..500 us while the host waits for its loader, compute 500..700, reduction
 * 600..1000 of which 600..700 is hidden. */
#define STEPS(rank, late)                                                                           \
    "fact world_size=2 rank=" #rank                                                                 \
    "\ndev 0 name=\"NVIDIA H200\"\nrepeat 8 every 2ms {\nannot 1:1 0 +1900us ProfilerStep#{i+40}\n" \
    "launch 1:1 0 +5us > 0:7 10us +290us gemm\n"                                                    \
    "annot 1:1 50us +430us enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__\n"         \
    "launch 1:1 485us +5us > 0:7 500us +200us blocks=64 gemm\n"                                     \
    "launch 1:1 495us +5us > 0:20 " late " msg=64 ncclDevKernel_AllReduce_Sum_f32_RING_LL\n"        \
    "api 1:1 505us +500us cudaStreamSynchronize\n}\n"

static struct gw_analysis *analyse(const char *text, struct text_trace *tt)
{
    if (text_trace_parse(text, tt) < 0)
        fail_msg("%s", tt->error);
    struct gw_analysis *an = gw_analyse(tt->t, tt->t->arena);
    assert_non_null(an);
    return an;
}

static int64_t part_ns(const struct gw_rank_summary *s, const struct gw_rank_coll *c, unsigned did)
{
    int64_t ns = 0;
    for (uint32_t i = 0; i < c->parts; i++)
        ns += s->parts[c->first_part + i].did == did ? s->parts[c->first_part + i].ns : 0;
    return ns;
}

static void test_summary(void **state)
{
    (void)state;
    struct text_trace tt;
    struct gw_analysis *an = analyse(STEPS(1, "600us +400us"), &tt);
    struct gw_rank_summary *s = gw_rank_summarise(an, an->dev + an->main, "x/rank7.json", arena);
    assert_non_null(s);
    text_trace_free(&tt);         /* the summary must not need it any more */
    assert_int_equal(s->rank, 1); /* the file's own word before its name */
    assert_int_equal(s->world_size, 2);
    assert_string_equal(s->gpu, "NVIDIA H200");
    assert_int_equal(s->numbered, 1);
    assert_int_equal(s->ncoll, s->steps);
    assert_true(s->ncoll >= 3);
    for (size_t i = 0; i < s->ncoll; i++) {
        const struct gw_rank_coll *c = s->coll + i;
        int64_t sum = 0;
        assert_int_equal(c->kind, GW_COLL_ALL_REDUCE);
        assert_int_equal(c->bytes, 64);
        assert_int_equal(c->end - c->start, 400000);
        assert_int_equal(c->exposed, 300000);
        assert_int_equal(c->cold, 0);
        assert_int_equal(c->kernels, 2);
        if (i)
            assert_int_equal(c->step, s->coll[i - 1].step + 1);
        for (uint32_t k = 0; k < c->parts; k++)
            sum += s->parts[c->first_part + k].ns;
        assert_int_equal(sum, 2000000 - 300000); /* start to start, less what only the reduction before ran */
        assert_int_equal(part_ns(s, c, GW_DID_COMPUTE), 490000);
        assert_true(part_ns(s, c, GW_CAUSE_DATA_WAIT) > 150000);
    }
    assert_true(s->coll[0].step >= 40);
}

/* ---- the report over ranks ---- */

static struct gw_report *diagnose(const char *const *text, size_t n, struct text_trace *tt)
{
    static const struct gw_report *rep[MOST];
    for (size_t i = 0; i < n; i++) {
        struct gw_analysis *an = analyse(text[i], tt + i);
        rep[i] = gw_diagnose(an, tt[i].t->arena);
        list[i] = gw_rank_summarise(an, an->dev + an->main, "t.json", arena);
        assert_non_null(rep[i]);
        assert_non_null(list[i]);
    }
    const struct gw_ranks *x = gw_ranks_compare(list, n, arena);
    assert_non_null(x);
    assert_int_equal(x->fit, GW_RANKS_FIT);
    struct gw_report *r = gw_diagnose_ranks(x, list, rep, n, arena);
    assert_non_null(r);
    return r;
}

static const struct gw_finding *finding(const struct gw_report *r, const char *id)
{
    for (size_t i = 0; i < r->finding_count; i++)
        if (!strcmp(r->findings[i].id, id))
            return r->findings + i;
    return NULL;
}

static int asks_for(const struct gw_report *r, const char *id)
{
    for (size_t i = 0; i < r->not_evaluated_count; i++)
        if (!strcmp(r->not_evaluated[i].id, id))
            return 1;
    return 0;
}

/* Rank 1 joins at 1000 us; rank 0 waits from 600 on. Both end at 1100. */
static void test_straggler_fires(void **state)
{
    (void)state;
    struct text_trace tt[2];
    const char *const text[] = {STEPS(0, "600us +500us"), STEPS(1, "1000us +100us")};
    struct gw_report *r = diagnose(text, 2, tt);
    const struct gw_finding *f = finding(r, "straggler");
    assert_non_null(f);
    assert_string_equal(f->layer, "communication");
    assert_string_equal(f->where[0].text, "rank 1: gpu-dependency"); /* issued in time, and not begun */
    assert_true(f->gain.low <= f->gain.likely && f->gain.likely <= f->gain.high && f->gain.low >= 1);
    /* of 2000 us rank 0 waits 400 - 100 hidden = 300 us: 2000 / 1700 */
    assert_true(fabs(f->gain.likely - 2000.0 / 1700) < 0.01);
    assert_int_equal(r->rank_count, 2);
    assert_int_equal(r->per_rank[1].last, 6);
    assert_int_equal(r->ranks, 2);
    assert_int_equal(r->device_count, 2);
    assert_int_equal(r->devices[1].rank, 1);
    assert_false(asks_for(r, "straggler"));
    assert_true(asks_for(r, "comm-slow-link")); /* 64 bytes say nothing about a link */
    for (size_t i = 0; i < 2; i++)
        text_trace_free(tt + i);
}

static void test_straggler_silent(void **state)
{
    (void)state;
    struct text_trace tt[2];
    const char *const text[] = {STEPS(0, "600us +100us"), STEPS(1, "600us +100us")};
    struct gw_report *r = diagnose(text, 2, tt);
    assert_null(finding(r, "straggler"));
    assert_null(finding(r, "comm-exposed"));
    assert_false(asks_for(r, "straggler"));
    for (size_t i = 0; i < 2; i++)
        text_trace_free(tt + i);
}

/* One rank alone: the data for it is missing. */
static void test_straggler_no_data(void **state)
{
    (void)state;
    struct text_trace tt;
    struct gw_analysis *an = analyse(STEPS(0, "600us +500us"), &tt);
    struct gw_report *r = gw_diagnose(an, tt.t->arena);
    assert_non_null(r);
    assert_true(asks_for(r, "straggler"));
    assert_true(asks_for(r, "comm-slow-link"));
    text_trace_free(&tt);
}

#define BIG(rank, late)                                                                             \
    "fact world_size=2 rank=" #rank                                                                 \
    "\ndev 0 name=\"NVIDIA H200\"\nrepeat 12 every 20ms {\nannot 1:1 0 +19ms ProfilerStep#{i}\n"    \
    "launch 1:1 0 +5us > 0:7 10us +5ms gemm\n"                                                      \
    "launch 1:1 495us +5us > 0:20 " late " msg=100000000 ncclDevKernel_AllReduce_Sum_f32_RING_LL\n" \
    "api 1:1 505us +18ms cudaStreamSynchronize\n}\n"

/* 100 MB in 10 ms between two GPUs: 10 GB/s where NVLink does 450. In 300 us: 333 GB/s, as it should be. */
static void test_slow_link(void **state)
{
    (void)state;
    struct text_trace tt[2];
    const char *const slow[] = {BIG(0, "6ms +10ms"), BIG(1, "6ms +10ms")};
    struct gw_report *r = diagnose(slow, 2, tt);
    const struct gw_finding *f = finding(r, "comm-slow-link");
    assert_non_null(f);
    assert_true(fabs(f->evidence[0].value - 1e10) < 1e7);
    assert_true(fabs(r->collectives[0].bus_bandwidth - 1e10) < 1e7);
    for (size_t i = 0; i < 2; i++)
        text_trace_free(tt + i);
    const char *const fast[] = {BIG(0, "6ms +300us"), BIG(1, "6ms +300us")};
    r = diagnose(fast, 2, tt);
    assert_null(finding(r, "comm-slow-link"));
    assert_false(asks_for(r, "comm-slow-link"));
    for (size_t i = 0; i < 2; i++)
        text_trace_free(tt + i);
}

/* Exposed transfer, nobody late: that is comm-exposed, with what waiting is taken out. */
static void test_exposed(void **state)
{
    (void)state;
    struct text_trace tt[2];
    const char *const text[] = {STEPS(0, "600us +500us"), STEPS(1, "600us +500us")};
    struct gw_report *r = diagnose(text, 2, tt);
    const struct gw_finding *f = finding(r, "comm-exposed");
    assert_non_null(f);
    assert_null(finding(r, "straggler"));
    assert_int_equal(f->lost_ns / 6, 400000); /* of 6 steps: 500 us less 100 hidden */
    for (size_t i = 0; i < 2; i++)
        text_trace_free(tt + i);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {T(test_late),
                                       T(test_hidden),
                                       T(test_pushed_out),
                                       T(test_in_turn),
                                       T(test_incident),
                                       T(test_cold),
                                       T(test_numbers),
                                       T(test_shift),
                                       T(test_two_runs),
                                       T(test_groups),
                                       T(test_bandwidth),
                                       T(test_misfits),
                                       T(test_rank_of_name),
                                       T(test_summary),
                                       T(test_straggler_fires),
                                       T(test_straggler_silent),
                                       T(test_straggler_no_data),
                                       T(test_slow_link),
                                       T(test_exposed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
