/*
 * windows.c - opening, watching and closing windows: all our calls to CUPTI. See windows.h.
 *
 * Recording costs the job a few percent while it is on, so it is on for short stretches only (measured: enabling costs
 * 0.06 ms, disabling 0.04 ms). The kinds are enabled API-first and disabled kernels-first, so that a kernel that was
 * recorded has its launch call recorded too.
 *
 * Another profiler (torch.profiler) may take CUPTI's one pair of callbacks over without a word. Disabling kinds under its
 * feet would ruin its recording, and records that we enable would fill its buffers. So before kinds are touched CUPTI
 * must have shown that it still talks to us; and once it does not, no call is made to it any more in this process.
 */
#include "windows.h"

#include <stdlib.h>

#define TAKEN_NS (10 * SEC)  /* an open window without a word from CUPTI: somebody else has the records */
#define STALL_NS (2 * SEC)   /* without a word for this long: ask */
#define LOOK_NS (500 * MS)   /* a flush takes our thread about 9 ms (measured) */
#define POOL_LOW 4u

#define G gw_inject

static uint64_t words(void) { return gw_pool_requested() + gw_pool_completed(); }

static const struct { uint32_t bit; int kind; } kinds[] = {
    /* in the order of enabling */
    {GW_CK_OVERHEAD, GW_AK_OVERHEAD}, {GW_CK_SYNC, GW_AK_SYNCHRONIZATION}, {GW_CK_RUNTIME, GW_AK_RUNTIME},
    {GW_CK_DRIVER, GW_AK_DRIVER}, {GW_CK_COPIES, GW_AK_MEMSET}, {GW_CK_COPIES, GW_AK_MEMCPY2}, {GW_CK_COPIES, GW_AK_MEMCPY},
    {GW_CK_KERNELS, GW_AK_CONCURRENT_KERNEL}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void write_window(uint32_t what, enum gw_win_reason reason)
{
    struct gw_rec_window w = {.realtime_ns = gw_clock_ns(CLOCK_REALTIME), .what = what, .number = G.out.status.windows,
                              .reason = (uint32_t)reason, .requested = (uint32_t)(words() - G.said_at_open)};
    (void)gw_writer_append(&G.out, GW_RT_WINDOW, sizeof w, &w, sizeof w);
}

static void flush(uint32_t flag)
{
    if (G.hands_off)
        return;
    (void)G.api.fn_cuptiActivityFlushAll(flag);
    G.last_flush = gw_clock_ns(CLOCK_MONOTONIC);
    gw_inject_drain();
}

static void count_dropped(void)
{
    size_t n = 0;
    if (!G.hands_off && G.api.fn_cuptiActivityGetNumDroppedRecords && G.api.fn_cuptiActivityGetNumDroppedRecords(NULL, 0, &n) == 0)
        G.out.status.dropped += n;
}

/* --- whose callbacks are they? ------------------------------------------------------------------------------------------ */

/*
 * Has CUPTI still our callbacks? It is made to write a few records that nobody else asks for (one for each device) and must
 * turn to somebody for a buffer. 1 ours, 0 not, -1 cannot be told: a buffer of ours that is out may take the records.
 */
static int ask(void)
{
    uint64_t before = words();
    unsigned lent = gw_pool_lent();
    G.last_ask = G.now;
    if (!G.api.fn_cuptiActivityEnableAndDump || G.api.fn_cuptiActivityEnableAndDump(GW_AK_DEVICE) != 0)
        return -1;
    (void)G.api.fn_cuptiActivityDisable(GW_AK_DEVICE);
    flush(0);
    return words() != before ? 1 : lent ? -1 : 0;
}

static void let_go(void)
{
    write_window(GW_WIN_CLOSE, GW_WR_TAKEN);
    G.out.status.window_ns += G.is_open ? G.now - G.opened_ns : 0;
    G.is_open = 0;
    G.hands_off = 1;
    gw_inject_quiet(GW_RS_TAKEN);
    gw_inject_status();
}

int gw_windows_ours(void) { return words() != G.said_at_open; }

/* --- hooks ---------------------------------------------------------------------------------------------------------------- */

static int hook_up(void)
{
    uint8_t one = 1, zero = 0;
    size_t size = 1;
    if (G.api.fn_cuptiSetThreadIdType)
        (void)G.api.fn_cuptiSetThreadIdType(GW_CUPTI_THREAD_SYSTEM);
    if (G.api.fn_cuptiActivitySetAttribute) { /* older versions do not know them: no harm */
        (void)G.api.fn_cuptiActivitySetAttribute(GW_CUPTI_ATTR_PER_THREAD, &size, &zero);
        size = 1;
        (void)G.api.fn_cuptiActivitySetAttribute(GW_CUPTI_ATTR_ZEROED, &size, &one);
    }
    int rc = G.api.fn_cuptiActivityRegisterCallbacks(gw_pool_request, gw_pool_complete);
    if (rc == 0 && G.api.fn_cuptiActivityEnableAllSyncRecords)
        (void)G.api.fn_cuptiActivityEnableAllSyncRecords(0);
    return rc;
}

int gw_windows_attach(int is_in_cuinit)
{
    if (G.is_attached)
        return 0;
    enum gw_rec_state s = gw_cupti_load(&G.api);
    if (G.api.fn_cuptiGetVersion)
        (void)G.api.fn_cuptiGetVersion(&G.out.status.cupti_version);
    /* NULL for "no buffer" is safe from 12.9 (version 27) on. */
    if (s == GW_RS_STARTING && (gw_pool_init(G.out.status.cupti_version >= 27) < 0 || gw_drain_init(&G.api, &G.out) < 0))
        s = GW_RS_FAILED;
    if (s == GW_RS_STARTING) {
        int rc = hook_up();
        if (rc) {
            G.out.status.cupti_result = rc;
            s = GW_RS_REFUSED;
        }
    }
    if (s != GW_RS_STARTING) {
        gw_inject_quiet(s);
        gw_inject_status();
        return -1;
    }
    G.is_attached = 1;
    if (!is_in_cuinit)
        gw_inject_first_at_exit();
    gw_inject_state(GW_RS_WAITING);
    /* Nothing is enabled and the callbacks were ours a moment ago: an answer now means that the question works here. */
    if (!is_in_cuinit)
        G.can_ask = ask() == 1;
    return 0;
}

void gw_windows_unhook(void)
{
    if (G.is_attached && !G.hands_off && G.api.fn_cuptiSetThreadIdType)
        (void)G.api.fn_cuptiSetThreadIdType(GW_CUPTI_THREAD_DEFAULT);
}

int gw_windows_rehook(void) { return G.is_attached && !G.hands_off ? hook_up() : 0; }

void gw_windows_settle(void)
{
    if (!G.is_attached || G.hands_off)
        return;
    flush(0);
    flush(GW_CUPTI_FLUSH_FORCED);
    count_dropped();
}

/* --- open and close --------------------------------------------------------------------------------------------------------- */

static void disable_kinds(void)
{
    for (int i = KINDS - 1; i >= 0; i--)
        if (G.control.kinds & kinds[i].bit)
            (void)G.api.fn_cuptiActivityDisable(kinds[i].kind);
}

void gw_windows_open(void)
{
    if (gw_windows_attach(0) != 0)
        return;
    if (G.can_ask && ask() == 0) {
        let_go();
        return;
    }
    G.now = gw_clock_ns(CLOCK_MONOTONIC); /* loading CUPTI takes its time */
    G.said_at_open = words();
    G.said_last = G.said_at_open;
    G.said_ns = G.opened_ns = G.now;
    G.kernels_at_open = gw_drain_kernels();
    G.calls_at_open = gw_drain_calls();
    G.closing_since = 0;
    G.out.status.windows++;
    gw_inject_clock();
    write_window(GW_WIN_OPEN, GW_WR_TIME);
    for (int i = 0; i < KINDS; i++) {
        if (!(G.control.kinds & kinds[i].bit))
            continue;
        int rc = G.api.fn_cuptiActivityEnable(kinds[i].kind);
        if (rc && !G.out.status.cupti_result)
            G.out.status.cupti_result = rc;
        if (rc && kinds[i].kind == GW_AK_CONCURRENT_KERNEL) {
            G.out.status.cupti_result = rc;
            disable_kinds();
            gw_inject_quiet(GW_RS_REFUSED);
            return;
        }
    }
    uint64_t length = G.out.status.windows == 1 ? G.control.first_len_ns : G.control.window_ns;
    G.close_at = G.control.window_ns ? G.now + length : UINT64_MAX;
    if (G.control.adaptive)
        gw_policy_open(&G.policy, G.now);
    if (G.out.status.windows == 1)
        gw_inject_first_at_exit();
    G.is_open = 1;
    gw_inject_state(GW_RS_OPEN);
    gw_inject_status();
}

/*
 * With fixed times (--windows): the next window. A young job is looked at more often, each time after it got twice as old,
 * because nobody knows when its warm-up ends; then once a period; the period grows with the length of the job (x2 after
 * each 8 windows, at most x8).
 */
static uint64_t next_start(void)
{
    uint32_t doublings = G.out.status.windows / 8;
    uint64_t wait = G.control.period_ns << (doublings < 3 ? doublings : 3), age = G.opened_ns - G.started_ns;
    uint64_t young = age > 2 * G.control.window_ns ? age : 2 * G.control.window_ns;
    return G.opened_ns + (young < wait ? young : wait);
}

void gw_windows_close(enum gw_win_reason reason)
{
    disable_kinds();
    G.is_open = 0;
    G.out.status.window_ns += gw_clock_ns(CLOCK_MONOTONIC) - G.opened_ns;
    write_window(GW_WIN_CLOSE, reason);
    flush(0);
    count_dropped();
    gw_inject_clock();
    if (G.control.adaptive) {
        (void)gw_policy_close(&G.policy, G.now, gw_drain_kernels() - G.kernels_at_open, gw_drain_calls() - G.calls_at_open);
        G.next_open = G.policy.next_open;
    } else {
        G.next_open = next_start();
        if (G.next_open < G.now + SEC)
            G.next_open = G.now + SEC;
    }
    G.is_asked_for = 0;
    gw_inject_state(GW_RS_WAITING);
    gw_inject_status();
}

/*
 * May the kinds be switched off now? Only when CUPTI just talked to us. A flush makes it: a buffer of ours that is out
 * comes back. One that does not come back is waiting for queued work, or went to another profiler: the second has kept
 * CUPTI silent for a while. With no buffer out the job is idle, or the callbacks are not ours: ask. 1 yes, 0 not yet; it
 * may let go.
 */
static int may_disable(void)
{
    if (!G.closing_since)
        G.closing_since = G.now;
    else if (G.now - G.last_flush < 80 * MS)
        return 0;
    unsigned lent = gw_pool_lent();
    uint64_t before = words();
    if (!lent && G.can_ask) {
        int answer = ask();
        if (answer == 0)
            let_go();
        return answer == 1;
    }
    if (!gw_windows_ours() && !lent)
        return 0;
    flush(0);
    if (words() != before)
        return 1;
    uint64_t patience = G.control.adaptive ? SEC : 200 * MS; /* what is in it decides whether a probe ends */
    return lent && gw_windows_ours() && G.now - G.said_ns < patience + 500 * MS && G.now - G.closing_since > patience;
}

/* --- one look ----------------------------------------------------------------------------------------------------------------- */

/* CUPTI is silent: the job is idle, its queue is long, or another profiler has the callbacks. */
static void watch_silence(void)
{
    uint64_t said = words(), silent;
    if (said != G.said_last) {
        G.said_last = said;
        G.said_ns = G.now;
        gw_inject_state(GW_RS_OPEN);
        return;
    }
    silent = G.now - G.said_ns;
    if (silent > STALL_NS && G.can_ask && !gw_pool_lent() && G.now - G.last_ask > STALL_NS) {
        if (ask() == 0)
            let_go();
        return;
    }
    if (silent <= TAKEN_NS || (!G.out.status.records && !gw_pool_lent()) || gpuwhy_inject_state() == GW_RS_TAKEN)
        return;
    if (G.can_ask && gw_pool_lent()) {
        let_go();
        return;
    }
    gw_inject_state(GW_RS_TAKEN); /* a word from CUPTI takes it back; none is asked for meanwhile */
    write_window(GW_WIN_CLOSE, GW_WR_TAKEN);
    gw_inject_status();
}

static int is_due(void)
{
    if (G.control.stop)
        return 1;
    if (!G.control.adaptive || G.is_asked_for)
        return G.now >= G.close_at;
    return gw_policy_look(&G.policy, G.now, gw_drain_kernels() - G.kernels_at_open) != GW_PL_STAY;
}

static void in_window(void)
{
    gw_inject_drain();
    watch_silence();
    if (!G.is_open || gpuwhy_inject_state() == GW_RS_TAKEN)
        return;
    /* The counts that decide about the end come with the buffers; a probe is decided by its first one. */
    uint64_t every = G.control.adaptive ? (G.now - G.opened_ns < LOOK_NS ? 100 * MS : LOOK_NS) : SEC;
    if ((G.control.adaptive || !G.control.window_ns) && G.now - G.last_flush > every && gw_pool_lent())
        flush(0);
    if (gw_pool_free() < POOL_LOW && gw_windows_ours())
        gw_windows_close(GW_WR_POOL);
    else if ((G.closing_since || is_due()) && may_disable()) {
        G.now = gw_clock_ns(CLOCK_MONOTONIC);
        if (is_due()) /* still, with what the flush brought */
            gw_windows_close(G.control.stop ? GW_WR_STOP : GW_WR_TIME);
        else
            G.closing_since = 0;
    }
}

static void between_windows(void)
{
    if (G.is_attached) {
        if (gw_pool_lent() && G.now - G.last_flush > SEC / 2 && G.now - G.opened_ns < 60 * SEC)
            flush(0); /* work that was queued when the window closed has ended by now */
        gw_inject_drain();
    }
    if (G.control.stop) {
        if (!gw_pool_lent() || G.now - G.opened_ns > 20 * SEC)
            gw_inject_quiet(GW_RS_STOPPED);
        return;
    }
    int asked = G.control.open_now != G.open_now_seen;
    G.open_now_seen = G.control.open_now;
    if (G.control.look_first && !G.is_attached && !asked && G.gate_says != GW_GATE_OPEN)
        return;
    if ((asked || G.now >= G.next_open) && (!G.is_attached || gw_pool_free() >= GW_POOL_BUFFERS / 2)) {
        gw_windows_open();
        G.is_asked_for = asked && G.is_open;
        if (G.is_asked_for && G.control.adaptive)
            G.close_at = G.now + GW_POLICY_LENGTH;
    }
}

void gw_windows_step(void)
{
    if (G.is_quiet) {
        if (G.is_attached && !G.hands_off)
            gw_inject_drain();
    } else if (G.is_open) {
        in_window();
    } else {
        between_windows();
    }
}
