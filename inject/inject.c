/*
 * inject.c - the life of the recording inside a job: start, steps, pause, end. See inject.h for the promises, windows.c for
 * what is done with CUPTI, policy.c for when.
 */
#include "windows.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define ORPHAN_NS (30 * SEC) /* no sign of life of the recorder for this long: it is gone */
#define EXIT_WAIT_NS (2 * SEC)

#define G gw_inject
struct gw_inject gw_inject;

static struct { /* between the job's threads and ours */
    pthread_t thread;
    pthread_mutex_t lock; /* guards the wishes below */
    pthread_cond_t wake, done;
    int want_exit, want_pause, is_paused, has_ended, has_thread;
} W;

static _Atomic uint32_t state_now = GW_RS_STARTING;
static atomic_flag started = ATOMIC_FLAG_INIT;

int gpuwhy_inject_state(void) { return (int)atomic_load(&state_now); }

void gw_inject_state(enum gw_rec_state s)
{
    atomic_store(&state_now, (uint32_t)s);
    G.out.status.state = (uint32_t)s;
}

void gw_inject_quiet(enum gw_rec_state why)
{
    G.is_quiet = 1;
    gw_inject_state(why);
}

/* --- the control file ---------------------------------------------------------------------------------------------- */

static int read_control(struct gw_control *c)
{
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

static int recorder_gone(void)
{
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
static int spool_is_ours(void)
{
    struct stat st;
    return fstat(G.out.fd, &st) == 0 && st.st_dev == G.dev && st.st_ino == G.ino;
}

void gw_inject_drain(void)
{
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

void gw_inject_status(void)
{
    struct gw_rec_status *s = &G.out.status;
    s->overflow = gw_pool_overflow();
    s->own_cpu_ns = gw_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (G.out.fd >= 0 && spool_is_ours())
        gw_writer_status(&G.out);
    G.last_status = G.now;
}

void gw_inject_clock(void)
{
    uint64_t cupti = 0, before = gw_clock_ns(CLOCK_REALTIME), after = before;
    if (G.is_attached && !G.hands_off && G.api.fn_cuptiGetTimestamp && G.api.fn_cuptiGetTimestamp(&cupti) == 0)
        after = gw_clock_ns(CLOCK_REALTIME);
    if (cupti && after - before < SEC)
        cupti -= (after - before) / 2; /* as it was at `before`, the moment that the chunk names */
    (void)gw_writer_clock(&G.out, cupti);
    G.last_clock = G.now;
}

/* --- the job's own calls ------------------------------------------------------------------------------------------------ */

static void look_at_calls(void)
{
    if (G.now - G.last_look < GW_GATE_LOOK)
        return;
    G.last_look = G.now;
    static struct gw_rec_calls rows[64];
    struct gw_calls_look look;
    unsigned slots, entries = gw_calls_patch();
    unsigned n = gw_calls_look(&look, rows, sizeof rows / sizeof *rows);
    if (n && !G.is_quiet)
        (void)gw_writer_append(&G.out, GW_RT_CALLS, sizeof *rows, rows, (uint32_t)(n * sizeof *rows));
    G.out.status.calls_table = (uint64_t)(uintptr_t)gw_calls_table(&slots);
    G.out.status.calls_slots = slots;
    if (!G.control.look_first || G.is_attached)
        return;
    G.gate_says = gw_gate_look(&G.gate, G.now, &(struct gw_gate_counts){look.ns, look.launches, look.launch_ns, look.slack_ns, look.calls, entries});
    G.out.status.launch_cost_ppm = G.gate.cost_ppm;
    enum gw_rec_state want = G.gate_says == GW_GATE_HOLD ? GW_RS_HELD : GW_RS_WAITING;
    if (!G.is_quiet && !G.is_open && gpuwhy_inject_state() != (int)want) {
        gw_inject_state(want);
        gw_inject_status();
    }
}

/* --- steps ------------------------------------------------------------------------------------------------------------ */

/* cuInit() calls us from its middle: the devices answer when it has come to its end. */
static void find_devices(void)
{
    if (G.devices_known || G.device_tries > 3000)
        return;
    G.device_tries++;
    G.devices_known = gw_device_write(&G.out) > 0;
}

static void check_spool(void)
{
    if (!G.out.bad || G.is_quiet)
        return;
    if (G.is_open && gw_windows_ours())
        gw_windows_close(GW_WR_ERROR);
    else if (G.is_open)
        return;
    gw_inject_quiet(G.out.bad == EFBIG ? GW_RS_SIZE_LIMIT : G.out.bad == EBADF ? GW_RS_FAILED : GW_RS_DISK_FULL);
    gw_inject_status();
}

static void step(void)
{
    G.now = gw_clock_ns(CLOCK_MONOTONIC);
    struct gw_control c;
    if (read_control(&c) == 0) {
        c.window_ns = G.control.window_ns;
        c.adaptive = G.control.adaptive;
        c.look_first = G.control.look_first;
        c.kinds = G.control.kinds; /* fixed at the start: what was enabled must be what is disabled */
        G.control = c;
    }
    if (recorder_gone() && !G.is_quiet) {
        G.control.stop = 1;
        if (!G.is_open) {
            gw_inject_quiet(GW_RS_ORPHANED);
            gw_inject_status();
        }
    }
    if (!G.out.bad && spool_is_ours())
        find_devices();
    look_at_calls();
    gw_windows_step();
    check_spool();
    if (G.now - G.last_status > 2 * SEC)
        gw_inject_status();
    if (G.is_open && G.now - G.last_clock > SEC)
        gw_inject_clock();
}

/* --- pause and end ------------------------------------------------------------------------------------------------------ */

static void do_pause(void)
{
    G.now = gw_clock_ns(CLOCK_MONOTONIC);
    if (G.is_open)
        gw_windows_close(GW_WR_PAUSE);
    if (!G.is_quiet) {
        gw_windows_settle();
        gw_windows_unhook();
        gw_inject_state(GW_RS_PAUSED);
        gw_inject_status();
    }
}

static void do_resume(void)
{
    G.now = gw_clock_ns(CLOCK_MONOTONIC);
    if (G.is_quiet)
        return;
    int rc = gw_windows_rehook();
    if (rc) {
        G.out.status.cupti_result = rc;
        gw_inject_quiet(GW_RS_REFUSED);
        return;
    }
    gw_inject_state(GW_RS_WAITING);
    G.next_open = G.now + (G.control.window_ns ? SEC : 0);
}

static void do_end(void)
{
    G.now = gw_clock_ns(CLOCK_MONOTONIC);
    int taken = atomic_load(&state_now) == GW_RS_TAKEN;
    if (G.is_open && gw_windows_ours() && !taken)
        gw_windows_close(GW_WR_EXIT);
    if (!G.is_quiet && !W.is_paused && !taken)
        gw_windows_settle();
    if (G.is_attached && !G.hands_off)
        gw_inject_drain();
    if (G.out.fd >= 0 && spool_is_ours())
        find_devices();
    gw_inject_clock();
    if (!G.is_quiet && !taken && atomic_load(&state_now) != GW_RS_HELD)
        gw_inject_state(GW_RS_ENDED);
    gw_inject_status();
    if (G.out.fd >= 0 && spool_is_ours())
        gw_writer_close(&G.out);
}

static void wait_on(pthread_cond_t *cond, uint64_t ns)
{
    struct timespec ts;
    uint64_t until = gw_clock_ns(CLOCK_MONOTONIC) + ns;
    ts.tv_sec = (time_t)(until / SEC);
    ts.tv_nsec = (long)(until % SEC);
    pthread_cond_timedwait(cond, &W.lock, &ts);
}

static void *run(void *unused)
{
    (void)unused;
    prctl(PR_SET_NAME, "gpuwhy-rec");
    pthread_mutex_lock(&W.lock);
    while (!W.want_exit) {
        if (W.want_pause != W.is_paused) {
            int pause = W.want_pause;
            pthread_mutex_unlock(&W.lock);
            if (pause)
                do_pause();
            else
                do_resume();
            pthread_mutex_lock(&W.lock);
            W.is_paused = pause;
            pthread_cond_broadcast(&W.done);
            continue;
        }
        /* 20 ms in a window: the fastest launch loop measured fills a buffer in about 30 ms. */
        wait_on(&W.wake, G.is_open ? 20 * MS : 100 * MS);
        if (W.want_exit || W.want_pause != W.is_paused || W.is_paused)
            continue;
        pthread_mutex_unlock(&W.lock);
        step();
        pthread_mutex_lock(&W.lock);
    }
    pthread_mutex_unlock(&W.lock);
    do_end();
    pthread_mutex_lock(&W.lock);
    W.has_ended = 1;
    pthread_cond_broadcast(&W.done);
    pthread_mutex_unlock(&W.lock);
    return NULL;
}

void gpuwhy_inject_pause(int pause)
{
    if (!W.has_thread || getpid() != G.owner)
        return;
    pthread_mutex_lock(&W.lock);
    W.want_pause = pause != 0;
    pthread_cond_broadcast(&W.wake);
    uint64_t until = gw_clock_ns(CLOCK_MONOTONIC) + EXIT_WAIT_NS;
    while (W.is_paused != W.want_pause && !W.want_exit && gw_clock_ns(CLOCK_MONOTONIC) < until)
        wait_on(&W.done, 100 * MS);
    pthread_mutex_unlock(&W.lock);
}

/* exit() of the job, before CUPTI and the driver take themselves apart. Waits for our thread, but never for long. */
static void at_exit(void)
{
    static atomic_flag done = ATOMIC_FLAG_INIT; /* registered more than once */
    if (!W.has_thread || getpid() != G.owner || atomic_flag_test_and_set(&done))
        return;
    pthread_mutex_lock(&W.lock);
    W.want_exit = 1;
    pthread_cond_broadcast(&W.wake);
    uint64_t until = gw_clock_ns(CLOCK_MONOTONIC) + EXIT_WAIT_NS;
    while (!W.has_ended && gw_clock_ns(CLOCK_MONOTONIC) < until)
        wait_on(&W.done, 100 * MS);
    pthread_mutex_unlock(&W.lock);
    gw_pool_disable();
}

static void in_child(void) { /* after fork(): no thread of ours here, and the file belongs to the parent */
    W.has_thread = 0;
    gw_pool_disable();
    gw_calls_disable();
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

static int open_spool(void)
{
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

static void start_thread(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_condattr_t mono;
    pthread_condattr_init(&mono);
    pthread_condattr_setclock(&mono, CLOCK_MONOTONIC);
    pthread_mutex_init(&W.lock, NULL);
    pthread_cond_init(&W.wake, &mono);
    pthread_cond_init(&W.done, &mono);
    pthread_condattr_destroy(&mono);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the job's signals are not for our thread */
    W.has_thread = pthread_create(&W.thread, NULL, run, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (W.has_thread)
        pthread_detach(W.thread);
}

static void fail(enum gw_rec_state why) { /* leave the reason behind and stay inert */
    gw_inject_state(why);
    gw_writer_status(&G.out);
    if (G.out.fd >= 0)
        close(G.out.fd);
    G.out.fd = -1;
}

/*
 * Handlers of exit() run in the opposite order of their registration, and CUPTI registers its own when it is loaded and when
 * it is first used: ours must come later each time, so that it runs before CUPTI is taken apart. It works once only.
 */
void gw_inject_first_at_exit(void) { atexit(at_exit); }

static void start(const char *dir)
{
    snprintf(G.dir, sizeof G.dir, "%s", dir);
    G.owner = getpid();
    G.out.fd = -1;
    if (read_control(&G.control) < 0 || G.control.stop || open_spool() < 0)
        return;
    G.now = G.started_ns = G.opened_ns = gw_clock_ns(CLOCK_MONOTONIC);
    gw_policy_start(&G.policy, G.now);
    gw_gate_start(&G.gate, G.now);
    G.gate_says = GW_GATE_WAIT;
    G.next_open = G.control.adaptive ? G.policy.next_open : G.now + G.control.first_ns;
    G.open_now_seen = G.control.open_now;
    gw_inject_state(GW_RS_WAITING);
    if (!G.control.window_ns) { /* --full: from the first call on */
        G.control.adaptive = 0;
        if (gw_windows_attach(1) == 0)
            gw_windows_open();
    }
    gw_inject_status();
    if (G.is_quiet && !G.is_attached) {
        fail((enum gw_rec_state)gpuwhy_inject_state());
        return;
    }
    start_thread();
    if (!W.has_thread) {
        if (G.is_open)
            gw_windows_close(GW_WR_ERROR);
        gw_pool_disable();
        fail(GW_RS_FAILED);
        return;
    }
    gw_inject_first_at_exit();
    pthread_atfork(NULL, NULL, in_child);
}

/* The job's thread makes our file; where the job may write no file (ulimit -f), that sends it SIGXFSZ, which would end it. Our own thread has
 * all signals blocked. */
static void start_safely(const char *dir)
{
    sigset_t size, before, pending;
    sigemptyset(&size);
    sigaddset(&size, SIGXFSZ);
    int was_pending = sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &size, &before);
    start(dir);
    const struct timespec at_once = {0};
    while (!was_pending && sigtimedwait(&size, NULL, &at_once) == SIGXFSZ)
        ;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int InitializeInjection(void)
{
    const char *dir = getenv(GW_ENV_RECORD);
    if (dir && dir[0] == '/' && strlen(dir) < sizeof G.dir && !atomic_flag_test_and_set(&started)) {
        int saved = errno;
        start_safely(dir);
        errno = saved;
    }
    return 1;
}
