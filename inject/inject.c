/*
 * inject.c - the life of the recording inside a job: start, windows, pause, end. See inject.h for the promises.
 *
 * Windows: recording costs the job a few percent while it is on, so it is on for short stretches only (measured: enabling
 * costs 0.06 ms, disabling 0.04 ms). The kinds are enabled API-first and disabled kernels-first, so that a kernel that
 * was recorded has its launch call recorded too.
 *
 * Another profiler (torch.profiler) may take CUPTI's one pair of callbacks over without a word. A window is closed by
 * disabling kinds only while CUPTI has shown, in this window, that it still talks to us: disabling them under another
 * profiler's feet would ruin its recording.
 */
#include "inject.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull
#define SEC 1000000000ull
#define ORPHAN_NS (30 * SEC) /* no sign of life of the recorder for this long: it is gone */
#define TAKEN_NS (10 * SEC)  /* an open window without a word from CUPTI: somebody else has the records */
#define EXIT_WAIT_NS (2 * SEC)
#define POOL_LOW 4u

static struct {
    struct gw_cupti api;
    struct gw_writer out;
    struct gw_control control;
    char dir[PATH_MAX];
    pid_t owner;
    dev_t dev; /* the record file: checked before each write, in case the job closed our descriptor */
    ino_t ino;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the wishes below */
    pthread_cond_t wake, done;
    int want_exit, want_pause, is_paused, has_ended, has_thread;
    /* Our thread's own: */
    int is_open, is_quiet; /* is_quiet: off for good */
    uint64_t now, opened_ns, close_at, next_open, last_flush, last_clock, last_status, orphan_since;
    uint64_t closing_since; /* the window is due to close; 0 = not yet */
    uint64_t said_at_open, said_last, said_ns; /* CUPTI's words to us: buffers requested plus completed */
    uint32_t open_now_seen;
    uint64_t started_ns;
    int devices_known, device_tries;
} G;

static _Atomic uint32_t state_now = GW_RS_STARTING;
static atomic_flag started = ATOMIC_FLAG_INIT;

int gpuwhy_inject_state(void) { return (int)atomic_load(&state_now); }

static void set_state(enum gw_rec_state s) {
    atomic_store(&state_now, (uint32_t)s);
    G.out.status.state = (uint32_t)s;
}

static uint64_t words(void) { return gw_pool_requested() + gw_pool_completed(); }

/* --- the control file ---------------------------------------------------------------------------------------------- */

static int read_control(struct gw_control *c) {
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/" GW_REC_CONTROL, G.dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -1;
    struct gw_control got;
    ssize_t n = pread(fd, &got, sizeof got, 0);
    close(fd);
    if (n != (ssize_t)sizeof got || memcmp(got.magic, GW_REC_MAGIC, 8) != 0 || got.version != GW_REC_VERSION)
        return -1;
    *c = got;
    return 0;
}

static int recorder_gone(void) {
    uint64_t beat = G.control.heartbeat_ns, boot = gw_clock_ns(CLOCK_BOOTTIME);
    if (!beat || boot < beat + ORPHAN_NS) {
        G.orphan_since = 0;
        return 0;
    }
    if (!G.orphan_since) /* after a suspend both wake at once: look again before believing it */
        G.orphan_since = G.now;
    return G.now - G.orphan_since > 5 * SEC;
}

/* --- writing --------------------------------------------------------------------------------------------------------- */

/* The job may close descriptors that it does not know (closerange in a daemon): never write into a reused one. */
static int spool_is_ours(void) {
    struct stat st;
    return fstat(G.out.fd, &st) == 0 && st.st_dev == G.dev && st.st_ino == G.ino;
}

static void drain(void) {
    uint8_t *data;
    size_t valid;
    int i;
    if (!spool_is_ours()) {
        G.out.fd = -1; /* not ours to close */
        G.out.bad = EBADF;
    }
    while ((i = gw_pool_take(&data, &valid)) >= 0) {
        gw_drain_buffer(data, valid);
        gw_pool_give(i);
    }
    gw_drain_flush();
}

static void write_status(void) {
    struct gw_rec_status *s = &G.out.status;
    s->overflow = gw_pool_overflow();
    s->own_cpu_ns = gw_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (G.out.fd >= 0 && spool_is_ours())
        gw_writer_status(&G.out);
    G.last_status = G.now;
}

static void write_clock(void) {
    uint64_t cupti = 0, before = gw_clock_ns(CLOCK_REALTIME), after = before;
    if (G.api.fn_cuptiGetTimestamp && G.api.fn_cuptiGetTimestamp(&cupti) == 0)
        after = gw_clock_ns(CLOCK_REALTIME);
    if (cupti && after - before < SEC)
        cupti -= (after - before) / 2; /* as it was at `before`, the moment that the chunk names */
    (void)gw_writer_clock(&G.out, cupti);
    G.last_clock = G.now;
}

static void write_window(uint32_t what, enum gw_win_reason reason) {
    struct gw_rec_window w = {.realtime_ns = gw_clock_ns(CLOCK_REALTIME), .what = what, .number = G.out.status.windows,
                              .reason = (uint32_t)reason, .requested = (uint32_t)(words() - G.said_at_open)};
    (void)gw_writer_append(&G.out, GW_RT_WINDOW, sizeof w, &w, sizeof w);
}

/* --- windows ----------------------------------------------------------------------------------------------------------- */

static const struct { uint32_t bit; int kind; } kinds[] = {
    /* in the order of enabling */
    {GW_CK_OVERHEAD, GW_AK_OVERHEAD}, {GW_CK_SYNC, GW_AK_SYNCHRONIZATION}, {GW_CK_RUNTIME, GW_AK_RUNTIME},
    {GW_CK_DRIVER, GW_AK_DRIVER}, {GW_CK_COPIES, GW_AK_MEMSET}, {GW_CK_COPIES, GW_AK_MEMCPY2}, {GW_CK_COPIES, GW_AK_MEMCPY},
    {GW_CK_KERNELS, GW_AK_CONCURRENT_KERNEL}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void quiet(enum gw_rec_state why) {
    G.is_quiet = 1;
    set_state(why);
}

static void disable_kinds(void) {
    for (int i = KINDS - 1; i >= 0; i--)
        if (G.control.kinds & kinds[i].bit)
            (void)G.api.fn_cuptiActivityDisable(kinds[i].kind);
}

static void open_window(void) {
    G.said_at_open = words();
    G.said_last = G.said_at_open;
    G.said_ns = G.opened_ns = G.now;
    G.closing_since = 0;
    G.out.status.windows++;
    write_clock();
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
            quiet(GW_RS_REFUSED);
            return;
        }
    }
    uint64_t length = G.out.status.windows == 1 ? G.control.first_len_ns : G.control.window_ns;
    G.close_at = G.control.window_ns ? G.now + length : UINT64_MAX;
    G.is_open = 1;
    set_state(GW_RS_OPEN);
    write_status();
}

static void count_dropped(void) {
    size_t n = 0;
    if (G.api.fn_cuptiActivityGetNumDroppedRecords && G.api.fn_cuptiActivityGetNumDroppedRecords(NULL, 0, &n) == 0)
        G.out.status.dropped += n;
}

static void flush(uint32_t flag) {
    (void)G.api.fn_cuptiActivityFlushAll(flag);
    G.last_flush = gw_clock_ns(CLOCK_MONOTONIC);
    drain();
}

/* Did CUPTI talk to us since the window opened? Then the callbacks were ours for a while at least. */
static int still_ours(void) { return words() != G.said_at_open; }

/*
 * May the kinds be switched off now? While the callbacks are ours and the job works, CUPTI holds a buffer of ours; a
 * flush brings it back. No buffer out there: either the job is idle, then waiting costs nothing, or another profiler
 * has the callbacks. A buffer that does not come back is most likely waiting for queued work: after 0.2 s believe that.
 */
static int may_disable(void) {
    if (!still_ours())
        return 0;
    if (!G.closing_since)
        G.closing_since = G.now;
    else if (G.now - G.last_flush < 80 * MS)
        return 0;
    unsigned lent = gw_pool_lent();
    uint64_t before = gw_pool_completed();
    flush(0);
    return gw_pool_completed() != before || (lent && G.now - G.closing_since > 200 * MS);
}

/*
 * The next window. A young job is looked at more often, each time after it got twice as old, because nobody knows when its
 * warm-up ends; then once a period; the period grows with the length of the job (x2 after each 8 windows, at most x8).
 */
static uint64_t next_start(void) {
    uint32_t doublings = G.out.status.windows / 8;
    uint64_t wait = G.control.period_ns << (doublings < 3 ? doublings : 3), age = G.opened_ns - G.started_ns;
    uint64_t young = age > 2 * G.control.window_ns ? age : 2 * G.control.window_ns;
    return G.opened_ns + (young < wait ? young : wait);
}

/* cuInit() calls us from its middle: the devices answer when it has come to its end. */
static void find_devices(void) {
    if (G.devices_known || G.device_tries > 3000)
        return;
    G.device_tries++;
    G.devices_known = gw_device_write(&G.out) > 0;
}

static void close_window(enum gw_win_reason reason) {
    disable_kinds();
    G.is_open = 0;
    G.out.status.window_ns += gw_clock_ns(CLOCK_MONOTONIC) - G.opened_ns;
    write_window(GW_WIN_CLOSE, reason);
    flush(0);
    count_dropped();
    write_clock();
    G.next_open = next_start();
    if (G.next_open < G.now + SEC)
        G.next_open = G.now + SEC;
    set_state(GW_RS_WAITING);
    write_status();
}

static void in_window(void) {
    drain();
    uint64_t said = words();
    if (said != G.said_last) {
        G.said_last = said;
        G.said_ns = G.now;
        if (atomic_load(&state_now) == GW_RS_TAKEN)
            set_state(GW_RS_OPEN);
    } else if (G.now - G.said_ns > TAKEN_NS && G.out.status.records && atomic_load(&state_now) == GW_RS_OPEN) {
        set_state(GW_RS_TAKEN);
        write_window(GW_WIN_CLOSE, GW_WR_TAKEN);
        write_status();
    }
    if (!G.control.window_ns && G.now - G.last_flush > SEC)
        flush(0);
    if (gw_pool_free() < POOL_LOW && still_ours())
        close_window(GW_WR_POOL);
    else if ((G.now >= G.close_at || G.control.stop) && may_disable())
        close_window(G.control.stop ? GW_WR_STOP : GW_WR_TIME);
}

static void between_windows(void) {
    if (gw_pool_lent() && G.now - G.last_flush > SEC / 2)
        flush(0); /* work that was queued when the window closed has ended by now */
    drain();
    if (G.control.stop) {
        if (!gw_pool_lent() || G.now - G.opened_ns > 20 * SEC)
            quiet(GW_RS_STOPPED);
        return;
    }
    int asked = G.control.open_now != G.open_now_seen;
    G.open_now_seen = G.control.open_now;
    if ((asked || G.now >= G.next_open) && gw_pool_free() >= GW_POOL_BUFFERS / 2)
        open_window();
}

static void check_spool(void) {
    if (!G.out.bad || G.is_quiet)
        return;
    if (G.is_open && still_ours())
        close_window(GW_WR_ERROR);
    else if (G.is_open)
        return;
    quiet(G.out.bad == EFBIG ? GW_RS_SIZE_LIMIT : G.out.bad == EBADF ? GW_RS_FAILED : GW_RS_DISK_FULL);
    write_status();
}

static void step(void) {
    G.now = gw_clock_ns(CLOCK_MONOTONIC);
    struct gw_control c;
    if (read_control(&c) == 0) {
        c.kinds = G.control.kinds; /* fixed at the start: what was enabled must be what is disabled */
        G.control = c;
    }
    if (recorder_gone() && !G.is_quiet) {
        G.control.stop = 1;
        if (!G.is_open) {
            quiet(GW_RS_ORPHANED);
            write_status();
        }
    }
    if (!G.out.bad && spool_is_ours())
        find_devices();
    if (G.is_open)
        in_window();
    else if (!G.is_quiet)
        between_windows();
    else
        drain();
    check_spool();
    if (G.now - G.last_status > 2 * SEC)
        write_status();
    if (G.is_open && G.now - G.last_clock > SEC)
        write_clock();
}

/* --- pause and end ------------------------------------------------------------------------------------------------------ */

static void settle(void) {
    flush(0);
    flush(GW_CUPTI_FLUSH_FORCED);
    count_dropped();
}

static void do_pause(void) {
    G.now = gw_clock_ns(CLOCK_MONOTONIC);
    if (G.is_open)
        close_window(GW_WR_PAUSE);
    if (!G.is_quiet) {
        settle();
        if (G.api.fn_cuptiSetThreadIdType)
            (void)G.api.fn_cuptiSetThreadIdType(GW_CUPTI_THREAD_DEFAULT);
        set_state(GW_RS_PAUSED);
        write_status();
    }
}

static int hook_up(void) {
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

static void do_resume(void) {
    G.now = gw_clock_ns(CLOCK_MONOTONIC);
    if (G.is_quiet)
        return;
    int rc = hook_up();
    if (rc) {
        G.out.status.cupti_result = rc;
        quiet(GW_RS_REFUSED);
        return;
    }
    set_state(GW_RS_WAITING);
    G.next_open = G.now + (G.control.window_ns ? SEC : 0);
}

static void do_end(void) {
    G.now = gw_clock_ns(CLOCK_MONOTONIC);
    int taken = atomic_load(&state_now) == GW_RS_TAKEN;
    if (G.is_open && still_ours() && !taken)
        close_window(GW_WR_EXIT);
    if (!G.is_quiet && !G.is_paused && !taken)
        settle();
    drain();
    if (G.out.fd >= 0 && spool_is_ours())
        find_devices();
    write_clock();
    if (!G.is_quiet && !taken)
        set_state(GW_RS_ENDED);
    write_status();
    if (G.out.fd >= 0 && spool_is_ours())
        gw_writer_close(&G.out);
}

static void wait_on(pthread_cond_t *cond, uint64_t ns) {
    struct timespec ts;
    uint64_t until = gw_clock_ns(CLOCK_MONOTONIC) + ns;
    ts.tv_sec = (time_t)(until / SEC);
    ts.tv_nsec = (long)(until % SEC);
    pthread_cond_timedwait(cond, &G.lock, &ts);
}

static void *run(void *unused) {
    (void)unused;
    prctl(PR_SET_NAME, "gpuwhy-rec");
    pthread_mutex_lock(&G.lock);
    while (!G.want_exit) {
        if (G.want_pause != G.is_paused) {
            int pause = G.want_pause;
            pthread_mutex_unlock(&G.lock);
            if (pause)
                do_pause();
            else
                do_resume();
            pthread_mutex_lock(&G.lock);
            G.is_paused = pause;
            pthread_cond_broadcast(&G.done);
            continue;
        }
        /* 20 ms in a window: the fastest launch loop measured fills a buffer in about 30 ms. */
        wait_on(&G.wake, G.is_open ? 20 * MS : 100 * MS);
        if (G.want_exit || G.want_pause != G.is_paused || G.is_paused)
            continue;
        pthread_mutex_unlock(&G.lock);
        step();
        pthread_mutex_lock(&G.lock);
    }
    pthread_mutex_unlock(&G.lock);
    do_end();
    pthread_mutex_lock(&G.lock);
    G.has_ended = 1;
    pthread_cond_broadcast(&G.done);
    pthread_mutex_unlock(&G.lock);
    return NULL;
}

void gpuwhy_inject_pause(int pause) {
    if (!G.has_thread || getpid() != G.owner)
        return;
    pthread_mutex_lock(&G.lock);
    G.want_pause = pause != 0;
    pthread_cond_broadcast(&G.wake);
    uint64_t until = gw_clock_ns(CLOCK_MONOTONIC) + EXIT_WAIT_NS;
    while (G.is_paused != G.want_pause && !G.want_exit && gw_clock_ns(CLOCK_MONOTONIC) < until)
        wait_on(&G.done, 100 * MS);
    pthread_mutex_unlock(&G.lock);
}

/* exit() of the job, before CUPTI and the driver take themselves apart. Waits for our thread, but never for long. */
static void at_exit(void) {
    if (!G.has_thread || getpid() != G.owner)
        return;
    pthread_mutex_lock(&G.lock);
    G.want_exit = 1;
    pthread_cond_broadcast(&G.wake);
    uint64_t until = gw_clock_ns(CLOCK_MONOTONIC) + EXIT_WAIT_NS;
    while (!G.has_ended && gw_clock_ns(CLOCK_MONOTONIC) < until)
        wait_on(&G.done, 100 * MS);
    pthread_mutex_unlock(&G.lock);
    gw_pool_disable();
}

static void in_child(void) { /* after fork(): no thread of ours here, and the file belongs to the parent */
    G.has_thread = 0;
    gw_pool_disable();
}

/* --- start -------------------------------------------------------------------------------------------------------------- */

static uint64_t own_start_ticks(void) { /* field 22 of /proc/self/stat; the command name may hold anything */
    char buf[1024];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, buf, sizeof buf - 1);
    close(fd);
    if (n <= 0)
        return 0;
    buf[n] = 0;
    char *p = strrchr(buf, ')');
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p + 1, NULL, 10) : 0;
}

static int open_spool(void) {
    char name[64];
    int dir = open(G.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return -errno;
    snprintf(name, sizeof name, "cuda-%d-%llx.gwr", (int)G.owner, (unsigned long long)gw_clock_ns(CLOCK_REALTIME));
    int rc = gw_writer_open(&G.out, dir, name, GW_ROLE_CUDA, (uint32_t)G.owner, own_start_ticks());
    close(dir);
    if (rc < 0)
        return rc;
    int high = fcntl(G.out.fd, F_DUPFD_CLOEXEC, 700); /* out of the way of the job's own numbers */
    if (high >= 0) {
        close(G.out.fd);
        G.out.fd = high;
    }
    struct stat st;
    if (fstat(G.out.fd, &st) != 0)
        return -errno;
    G.dev = st.st_dev;
    G.ino = st.st_ino;
    G.out.max_bytes = G.control.max_bytes;
    return 0;
}

static void start_thread(void) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_condattr_t mono;
    pthread_condattr_init(&mono);
    pthread_condattr_setclock(&mono, CLOCK_MONOTONIC);
    pthread_mutex_init(&G.lock, NULL);
    pthread_cond_init(&G.wake, &mono);
    pthread_cond_init(&G.done, &mono);
    pthread_condattr_destroy(&mono);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the job's signals are not for our thread */
    G.has_thread = pthread_create(&G.thread, NULL, run, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (G.has_thread)
        pthread_detach(G.thread);
}

static void fail(enum gw_rec_state why) { /* leave the reason behind and stay inert */
    set_state(why);
    gw_writer_status(&G.out);
    if (G.out.fd >= 0)
        close(G.out.fd);
    G.out.fd = -1;
}

static void start(const char *dir) {
    snprintf(G.dir, sizeof G.dir, "%s", dir);
    G.owner = getpid();
    G.out.fd = -1;
    if (read_control(&G.control) < 0 || G.control.stop || open_spool() < 0)
        return;
    enum gw_rec_state s = gw_cupti_load(&G.api);
    if (G.api.fn_cuptiGetVersion)
        (void)G.api.fn_cuptiGetVersion(&G.out.status.cupti_version);
    if (s != GW_RS_STARTING) {
        fail(s);
        return;
    }
    /* NULL for "no buffer" is safe from 12.9 (version 27) on. */
    if (gw_pool_init(G.out.status.cupti_version >= 27) < 0 || gw_drain_init(&G.api, &G.out) < 0) {
        fail(GW_RS_FAILED);
        return;
    }
    int rc = hook_up();
    if (rc) {
        G.out.status.cupti_result = rc;
        fail(GW_RS_REFUSED);
        return;
    }
    G.now = gw_clock_ns(CLOCK_MONOTONIC);
    G.started_ns = G.now;
    G.next_open = G.now + G.control.first_ns;
    G.open_now_seen = G.control.open_now;
    G.opened_ns = G.now;
    set_state(GW_RS_WAITING);
    if (!G.control.window_ns)
        open_window(); /* --full: from the first call on */
    write_status();
    start_thread();
    if (!G.has_thread) {
        if (G.is_open)
            disable_kinds();
        gw_pool_disable();
        fail(GW_RS_FAILED);
        return;
    }
    atexit(at_exit);
    pthread_atfork(NULL, NULL, in_child);
}

int InitializeInjection(void) {
    const char *dir = getenv(GW_ENV_RECORD);
    if (dir && dir[0] == '/' && strlen(dir) < sizeof G.dir && !atomic_flag_test_and_set(&started)) {
        int saved = errno;
        start(dir);
        errno = saved;
    }
    return 1;
}
