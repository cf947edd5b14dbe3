/* pm.c - the recorder's side. See pm.h. */
#include "collect/pm/pm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "collect/pm/pm_shared.h"
#include "record/record_write.h"

#define MS 1000000ull
#define SEC 1000000000ull
/* Opening the driver on a loaded machine of eight GPUs takes seconds; this long without a sign of life is a hang. */
#define SILENT (30 * SEC)
#define FRESH (3 * SEC) /* older means are not shown */

struct gw_pm {
    struct gw_pm_shared *shared;
    pid_t pid;     /* 0: not running */
    int was_started;
    int died;      /* 1: it ended without being told to */
    int status;    /* of waitpid() */
    uint64_t started_ns;
};

struct gw_pm *gw_pm_create(void)
{
    struct gw_pm *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->shared = mmap(NULL, sizeof *p->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p->shared == MAP_FAILED) {
        free(p);
        return NULL;
    }
    return p;
}

void gw_pm_hint(struct gw_pm *p, const struct gw_pm_hints *h)
{
    if (!p->shared->wanted)
        p->shared->hints = *h;
}

unsigned gw_pm_wanted(const struct gw_pm *p) { return p ? p->shared->wanted : 0; }

void gw_pm_add(struct gw_pm *p, int32_t device, const uint8_t uuid[16])
{
    uint32_t n = p->shared->wanted;
    for (uint32_t i = 0; i < n; i++)
        if (memcmp(p->shared->gpu[i].uuid, uuid, 16) == 0)
            return;
    if (n == GW_PM_GPUS)
        return;
    p->shared->gpu[n].device = device;
    memcpy(p->shared->gpu[n].uuid, uuid, 16);
    p->shared->wanted = n + 1;
}

/* --- the child, until it serves ---------------------------------------------------------------------------------------- */

/* The recorder's files, pipes and terminal are none of ours: held open here they would outlive it in the eyes of others. */
static int keep_only(int folder)
{
    int null = open("/dev/null", O_RDWR);
    int dir = fcntl(folder, F_DUPFD, 10);
    if (null < 0 || dir < 0)
        return -1;
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    DIR *d = opendir("/proc/self/fd");
    for (struct dirent *e; d && (e = readdir(d));) {
        int fd = atoi(e->d_name);
        if (fd > 2 && fd != dir && fd != dirfd(d))
            close(fd);
    }
    if (d)
        closedir(d);
    fcntl(dir, F_SETFD, FD_CLOEXEC);
    return dir;
}

static _Noreturn void be_helper(struct gw_pm_shared *s, int folder, pid_t parent)
{
    const struct rlimit none = {0, 0};
    sigset_t set;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    prctl(PR_SET_NAME, "gpuwhy-pm");
    setrlimit(RLIMIT_CORE, &none);
    setpgid(0, 0); /* Ctrl-C and the terminal's stop signals are not for us */
    (void)!nice(5);
    sigfillset(&set);
    const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) {
        signal(fatal[i], SIG_DFL);
        sigdelset(&set, fatal[i]);
    }
    sigprocmask(SIG_SETMASK, &set, NULL);
    int dir = keep_only(folder);
    _exit(dir < 0 ? 1 : gw_pm_serve(s, dir));
}

int gw_pm_start(struct gw_pm *p, int folder)
{
    if (p->was_started)
        return -EALREADY;
    p->shared->heartbeat_ns = p->started_ns = gw_clock_ns(CLOCK_MONOTONIC);
    p->shared->state = GW_PS_STARTING;
    pid_t parent = getpid();
    p->pid = fork();
    if (p->pid == 0)
        be_helper(p->shared, folder, parent);
    if (p->pid < 0) {
        p->pid = 0;
        return -errno;
    }
    p->was_started = 1;
    return 0;
}

/* --- while it runs ------------------------------------------------------------------------------------------------------- */

/* 1 when it is gone. */
static int reap(struct gw_pm *p)
{
    if (!p->pid)
        return 1;
    pid_t got = waitpid(p->pid, &p->status, WNOHANG);
    if (got != p->pid && !(got < 0 && errno == ECHILD))
        return 0;
    p->pid = 0;
    return 1;
}

void gw_pm_poll(struct gw_pm *p)
{
    if (!p || !p->pid)
        return;
    if (reap(p)) {
        p->died = p->status != 0;
        return;
    }
    uint64_t now = gw_clock_ns(CLOCK_MONOTONIC), seen = p->shared->heartbeat_ns;
    if (now > seen + SILENT) {
        kill(p->pid, SIGKILL); /* it is reaped at the next look; one that the kernel cannot end stays alone */
        p->died = 1;
    }
}

int gw_pm_latest(const struct gw_pm *p, struct gw_pm_latest *out)
{
    memset(out, 0, sizeof *out);
    if (!p || !p->pid)
        return 0;
    uint64_t now = gw_clock_ns(CLOCK_MONOTONIC);
    uint32_t n = p->shared->wanted;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = p->shared->gpu[i].at_ns;
        if (p->shared->gpu[i].state != GW_PS_RUNNING || !at || now > at + FRESH)
            continue;
        out->gpus++;
        out->engine += p->shared->gpu[i].engine / 100.0;
        out->sm += p->shared->gpu[i].sm / 100.0;
    }
    if (out->gpus) {
        out->engine /= out->gpus;
        out->sm /= out->gpus;
    }
    return out->gpus > 0;
}

unsigned gw_pm_state(const struct gw_pm *p)
{
    if (!p || !p->was_started || !p->shared->wanted)
        return GW_PS_OFF;
    if (p->died)
        return GW_PS_DIED;
    unsigned state = p->shared->state, n = p->shared->wanted, why = GW_PS_STARTING;
    if (state != GW_PS_RUNNING)
        return state;
    for (unsigned i = 0; i < n; i++) {
        unsigned one = p->shared->gpu[i].state;
        if (one == GW_PS_RUNNING)
            return one;
        why = one == GW_PS_OFF || one == GW_PS_STARTING ? why : one;
    }
    return why;
}

uint64_t gw_pm_cpu_ns(const struct gw_pm *p) { return p ? p->shared->cpu_ns : 0; }
int gw_pm_pid(const struct gw_pm *p) { return p ? (int)p->pid : 0; }

static int wait_gone(struct gw_pm *p, uint64_t ns)
{
    const struct timespec ts = {0, 5 * (long)MS};
    for (uint64_t until = gw_clock_ns(CLOCK_MONOTONIC) + ns; !reap(p);) {
        if (gw_clock_ns(CLOCK_MONOTONIC) >= until)
            return 0;
        nanosleep(&ts, NULL);
    }
    return 1;
}

void gw_pm_ask_to_stop(struct gw_pm *p)
{
    if (p)
        p->shared->stop = 1;
}

void gw_pm_stop(struct gw_pm *p)
{
    gw_pm_ask_to_stop(p);
    if (!p || !p->pid)
        return;
    if (wait_gone(p, 1200 * MS)) {
        p->died |= p->status != 0;
        return;
    }
    p->died |= p->shared->state != GW_PS_ENDED; /* else its file is whole, and only the driver takes its time */
    kill(p->pid, SIGKILL);
    (void)wait_gone(p, 300 * MS);
}

void gw_pm_destroy(struct gw_pm *p)
{
    if (!p)
        return;
    gw_pm_stop(p);
    munmap(p->shared, sizeof *p->shared);
    free(p);
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int gw_pm_parse_uuid(const char *text, uint8_t uuid[16])
{
    const char *p = strncmp(text, "GPU-", 4) == 0 || strncmp(text, "MIG-", 4) == 0 ? text + 4 : text;
    int n = 0;
    while (*p && n < 16) {
        if (*p == '-') {
            p++;
            continue;
        }
        int a = digit(p[0]), b = a < 0 ? -1 : digit(p[1]);
        if (b < 0)
            return -1;
        uuid[n++] = (uint8_t)(a << 4 | b);
        p += 2;
    }
    return n == 16 && !*p ? 0 : -1;
}
