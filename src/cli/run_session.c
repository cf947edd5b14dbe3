/* run_session.c - see run_session.h */
#include "cli/run_session.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/run_find.h"
#include "collect/proc/proc_env.h"
#include "collect/proc/proc_nvml.h"
#include "collect/proc/proc_system.h"
#include "collect/proc/proc_tree.h"
#include "record/record_read.h"

#define MS 1000000ull
#define SEC 1000000000ull

/* Thread samples: 20 a second at first and in windows; then fewer, so that a long job makes no huge record. Each look takes a
 * few locks of the kernel on the thread that is looked at, so no more than a diagnosis needs. */
#define TICK_FAST (50 * MS)
#define TICK_SLOW (100 * MS)
#define TICK_REST (500 * MS)
#define TICK_MAX (1 * SEC)
#define SYSTEM_EVERY (500 * MS)
#define NVML_EVERY (250 * MS)
#define DISCOVER_EVERY (1 * SEC)
/* What each part may cost, of one CPU: above it the part gets slower, below a third of it faster again. Apart, because NVML and
 * the host's files alone took 25 ms of CPU a second on one H200 host, and the threads' share must not go with them. */
#define SAMPLE_COST 0.02
#define SYSTEM_COST 0.007
#define NVML_COST 0.01
/* Looking for new processes and threads, which takes a look at each: 500 processes cost 70 ms a time on one host. */
#define DISCOVER_COST 0.01
#define DISCOVER_MAX (8 * SEC)
enum { MACHINE_WAIT_MS = 1000 }; /* at the end of a job that was shorter than the look at its machine */
#define NEVER_NS (365 * 24 * 3600 * SEC)
#define PATIENCE (60 * SEC) /* with CUDA in use and no step counted: then --after-steps has nothing to count */
enum { WARN_IGNORED = 1, WARN_STATE = 2, WARN_BUSY = 4, WARN_WRITE = 8 };
#define FILE_LEAST 65536u /* ulimit -f below this leaves no room for a record */

static uint64_t now_ns(void) { return gw_clock_ns(CLOCK_MONOTONIC); }

/* --- the control file -------------------------------------------------------------------------------------------- */

static int write_control(struct gw_session *s)
{
    s->control.heartbeat_ns = gw_clock_ns(CLOCK_BOOTTIME);
    const struct gw_control now = s->control;
    int fd = openat(s->dir, GW_REC_CONTROL, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return -errno;
    ssize_t n = pwrite(fd, &now, sizeof now, 0);
    int rc = n == (ssize_t)sizeof now ? 0 : n < 0 ? -errno : -ENOSPC;
    close(fd);
    return rc;
}

static void fill_control(struct gw_session *s)
{
    struct gw_control *c = &s->control;
    memcpy(c->magic, GW_REC_MAGIC, sizeof c->magic);
    c->version = GW_REC_VERSION;
    c->first_ns = (uint64_t)s->o.first_ns;
    c->first_len_ns = (uint64_t)s->o.first_len_ns;
    c->window_ns = s->o.full ? 0 : (uint64_t)s->o.window_ns;
    c->period_ns = (uint64_t)s->o.period_ns;
    c->max_bytes = s->o.max_bytes;
    c->kinds = s->o.kinds;
    c->recorder_pid = (uint32_t)getpid();
    c->adaptive = !s->o.full && !s->o.fixed && !s->o.after_steps;
    if (s->o.after_steps) { /* windows of a fixed length that wait for a word of ours (open_now) */
        c->first_ns = NEVER_NS;
        s->is_held = 1;
    }
    c->look_first = c->adaptive && !s->o.always;
}

/* --- open -------------------------------------------------------------------------------------------------------- */

static int make_folder(struct gw_session *s, struct gw_error *err)
{
    char name[PATH_MAX];
    if (s->o.folder) {
        snprintf(name, sizeof name, "%s", s->o.folder);
    } else {
        time_t t = time(NULL);
        struct tm tm;
        localtime_r(&t, &tm);
        strftime(name, sizeof name, "gpuwhy-%Y%m%d-%H%M%S", &tm);
        size_t len = strlen(name);
        for (int i = 2; access(name, F_OK) == 0 && i < 100; i++) /* two starts in one second */
            snprintf(name + len, sizeof name - len, "-%d", i);
    }
    s->made_folder = mkdir(name, 0755) == 0;
    if (!s->made_folder && (errno != EEXIST || !s->o.folder))
        return gw_error_set(err, GW_EIO, name, -1, "choose another folder with -o", "cannot be made: %s", gw_i18n_errno(errno));
    if (!realpath(name, s->folder))
        return gw_error_set(err, GW_EIO, name, -1, "choose another folder with -o", "%s", gw_i18n_errno(errno));
    s->dir = open(s->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->dir < 0)
        return gw_error_set(err, GW_EIO, name, -1, "choose another folder with -o", "%s", gw_i18n_errno(errno));
    if (faccessat(s->dir, GW_REC_META, F_OK, 0) == 0)
        return gw_error_set(err, GW_EUSAGE, name, -1, "choose a new folder with -o", "holds a record already");
    return 0;
}

/* NAME=a, or NAME=a:b when there is a b. */
static void add_env(struct gw_session *s, const char *name, const char *a, const char *b)
{
    size_t n = 0;
    char *text;
    while (s->env[n])
        n++;
    int has_b = b && *b;
    if (n + 1 < sizeof s->env / sizeof *s->env && asprintf(&text, "%s=%s%s%s", name, a, has_b ? ":" : "", has_b ? b : "") > 0)
        s->env[n] = text;
}

static void set_environment(struct gw_session *s)
{
    char path[PATH_MAX];
    const char *other = getenv("CUDA_INJECTION64_PATH");
    if (!s->o.no_cuda && other && *other) {
        gw_cli_error(_("%s is already set in CUDA_INJECTION64_PATH (another profiler?); GPU work is not recorded"), other);
        gw_sink_fact(s->sink, "injection.refused", other);
    } else if (!s->o.no_cuda) {
        if (gw_run_find_library(path, sizeof path) == 0) {
            add_env(s, "CUDA_INJECTION64_PATH", path, NULL);
            add_env(s, "GPUWHY_RECORD", s->folder, NULL);
        } else {
            gw_cli_error(_("libgpuwhy_inject.so is not beside gpuwhy; GPU work is not recorded"));
            gw_sink_fact(s->sink, "injection.refused", "library not found");
        }
    }
    if (s->o.no_hook)
        return;
    if (gw_run_find_hook(path, sizeof path) != 0) {
        gw_cli_error(_("the settings hook (python/gpuwhy_hook) is not beside gpuwhy; DataLoader settings and step times are not recorded"));
        gw_sink_fact(s->sink, "hook.missing", "not found");
    } else {
        add_env(s, "PYTHONPATH", path, getenv("PYTHONPATH"));
        add_env(s, "GPUWHY_HOOK", s->folder, NULL);
        if (s->o.after_steps || s->status.fd >= 0)
            add_env(s, "GPUWHY_LOADER_MARKS", "1", NULL);
    }
}

/* RLIMIT_FSIZE, which the job inherits: a write beyond it would end the writer by SIGXFSZ. */
static uint64_t file_limit(void)
{
    struct rlimit l;
    return getrlimit(RLIMIT_FSIZE, &l) == 0 && l.rlim_cur != RLIM_INFINITY ? l.rlim_cur : UINT64_MAX;
}

static int cannot_write(const struct gw_session *s, int why, struct gw_error *err)
{
    if (why == EMFILE || why == ENFILE)
        return gw_error_set(err, GW_EIO, s->folder, -1, "raise the limit on open files (ulimit -n)", "cannot write: %s",
                            gw_i18n_errno(why));
    return gw_error_set(err, GW_EIO, s->folder, -1, "choose another folder with -o", "cannot write: %s", gw_i18n_errno(why));
}

int gw_session_open(struct gw_session *s, const struct gw_run_options *o, struct gw_error *err)
{
    memset(s, 0, sizeof *s);
    s->o = *o;
    s->dir = s->proc = s->sys = -1;
    s->tick_ns = TICK_FAST;
    gw_status_open(&s->status, o->status, STDERR_FILENO);
    s->due.system_ns = SYSTEM_EVERY;
    s->due.nvml_ns = NVML_EVERY;
    s->due.discover_ns = DISCOVER_EVERY;
    if (file_limit() < FILE_LEAST)
        return gw_error_set(err, GW_EIO, o->folder ? o->folder : ".", -1, "raise the limit on the size of files (ulimit -f)",
                            "cannot write: %s", gw_i18n_errno(EFBIG));
    int rc = make_folder(s, err);
    if (rc < 0)
        return rc;
    s->sink = calloc(1, sizeof *s->sink);
    if (!s->sink)
        return gw_error_set(err, GW_ENOMEM, s->folder, -1, "", "out of memory");
    fill_control(s);
    if (s->control.max_bytes > file_limit())
        s->control.max_bytes = file_limit();
    rc = gw_sink_open(s->sink, s->dir);
    if (rc < 0)
        return cannot_write(s, -rc, err);
    rc = write_control(s);
    if (rc < 0)
        return cannot_write(s, -rc, err);
    s->proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    s->sys = open("/sys", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    set_environment(s);
    return 0;
}

void gw_session_begin(struct gw_session *s, const struct gw_child *c, char *const argv[])
{
    char line[1000] = "", cwd[PATH_MAX];
    for (int i = 0; argv[i] && strlen(line) < 900; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), "%s%s", i ? " " : "", argv[i]);
    struct gw_sink *k = s->sink;
    gw_sink_fact(k, "tool", "gpuwhy " GW_VERSION);
    gw_sink_fact(k, "command", line);
    if (getcwd(cwd, sizeof cwd))
        gw_sink_fact(k, "directory", cwd);
    gw_sink_factf(k, "job.pid", "%d", (int)c->pid);
    gw_sink_fact(k, "mode", s->o.full ? "full" : s->o.fixed ? "fixed windows" : "windows");
    s->started_ns = now_ns();
    s->is_recording = 1;
    s->tree = gw_tree_create(s->proc, (int)c->pid, k);
    if (s->tree)
        gw_tree_set_stacks(s->tree, !s->o.no_stacks);
    s->system = gw_system_create(s->proc, s->sys, (int)c->pid, k);
    if (s->system)
        gw_system_facts(s->system);
    if (!s->o.no_machine)
        gw_machine_start(&s->machine, s->dir, c->pid, argv); /* before NVML is open here */
    if (!s->o.no_pm)
        gw_run_pm_begin(&s->pm, s->dir); /* the same */
    s->nvml = gw_nvml_open(k, getenv("GPUWHY_NVML"));
    (void)gw_writer_clock(&k->w, 0);
    (void)gw_proc_env_facts(s->proc, (int)c->pid, k);
    gw_sink_flush(k);
}

static void machine_failed(struct gw_session *s, const char *why)
{
    if (why)
        gw_sink_fact(s->sink, "machine.missing", why);
}

/* --- what the libraries in the job say ------------------------------------------------------------------------------ */

static void warn_state(struct gw_session *s, const struct gw_rec_file *h)
{
    unsigned state = h->status.state;
    if (!gw_rec_state_loses(state) || (s->warned & WARN_STATE) || s->o.quiet)
        return;
    s->warned |= WARN_STATE;
    gw_status_clear(&s->status);
    if (h->status.cupti_result)
        gw_cli_error(_("process %u: %s (CUPTI result %d)"), h->pid, _(gw_rec_state_text(state)), h->status.cupti_result);
    else
        gw_cli_error("process %u: %s", h->pid, _(gw_rec_state_text(state)));
}

/* Our own file cannot be written any more: what comes is lost. */
static void warn_write(struct gw_session *s)
{
    if (!s->sink->w.bad || (s->warned & WARN_WRITE) || s->o.quiet)
        return;
    s->warned |= WARN_WRITE;
    gw_status_clear(&s->status);
    gw_cli_error("%s", _(gw_rec_state_text(GW_RS_DISK_FULL)));
}

/* The job's first process may set variables for the ones that it starts, or for the program that it becomes. */
static void note_environment(struct gw_session *s, int pid, const char *file)
{
    const char *dash = strrchr(file, '-');
    uint64_t stamp = dash ? strtoull(dash + 1, NULL, 16) : 0;
    size_t n = sizeof s->env_read / sizeof *s->env_read, i = 0;
    while (i < n && s->env_read[i] && s->env_read[i] != stamp)
        i++;
    if (i == n || s->env_read[i] || !stamp)
        return;
    s->env_read[i] = stamp;
    (void)gw_proc_env_facts(s->proc, pid, s->sink);
}

/* Reads the heads of the files that the libraries write. */
static void look_at_files(struct gw_session *s)
{
    int fd = openat(s->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        if (fd >= 0)
            close(fd);
        return;
    }
    s->records = s->gpu_bytes = 0;
    s->recording_processes = s->open_windows = 0;
    for (struct dirent *e; (e = readdir(d));) {
        struct gw_rec_file h;
        if (strncmp(e->d_name, "cuda-", 5) != 0)
            continue;
        int f = openat(s->dir, e->d_name, O_RDONLY | O_CLOEXEC);
        if (f < 0)
            continue;
        if (pread(f, &h, sizeof h, 0) == (ssize_t)sizeof h && memcmp(h.magic, GW_REC_MAGIC, 8) == 0) {
            s->records += h.status.records;
            s->gpu_bytes += h.status.bytes;
            s->open_windows += h.status.state == GW_RS_OPEN;
            s->recording_processes += h.status.state == GW_RS_OPEN || h.status.state == GW_RS_WAITING || h.status.state == GW_RS_PAUSED ||
                                      h.status.state == GW_RS_HELD;
            if (s->tree)
                gw_tree_set_injected(s->tree, (int)h.pid), gw_tree_set_calls(s->tree, (int)h.pid, h.status.calls_table, h.status.calls_slots);
            warn_state(s, &h);
            note_environment(s, (int)h.pid, e->d_name);
            s->saw_injected = 1;
            s->injected_ns = s->injected_ns ? s->injected_ns : now_ns();
        }
        close(f);
    }
    closedir(d);
}

/* A process uses CUDA and our library is not in it: the driver ignores a path that it cannot load without a word. */
static void check_ignored(struct gw_session *s)
{
    if (s->saw_injected || s->o.no_cuda || (s->warned & WARN_IGNORED))
        return;
    const struct gw_tree_process *p;
    for (size_t i = 0; (p = gw_tree_process(s->tree, i)); i++) {
        char value[512];
        if (!p->alive || !(p->flags & GW_PF_CUDA) || (p->flags & GW_PF_FORKED))
            continue;
        look_at_files(s); /* it may have started between the two looks */
        if (s->saw_injected)
            return;
        /* The driver's library is mapped long before CUDA is used (import torch): wait for the device that only a started
         * CUDA holds open, and see it twice, because the library comes in the middle of that start. */
        if (!gw_proc_holds_file(s->proc, p->pid, "/dev/nvidia-uvm") || gw_proc_maps_has(s->proc, p->pid, "libgpuwhy_inject") ||
            ++s->ignored_looks < 2)
            continue;
        s->warned |= WARN_IGNORED;
        gw_status_clear(&s->status);
        if (!gw_proc_env_value(s->proc, p->pid, "CUDA_INJECTION64_PATH", value, sizeof value))
            snprintf(value, sizeof value, "(not set in its environment)");
        gw_sink_factf(s->sink, "injection.ignored", "pid %d: %s", p->pid, value);
        if (!s->o.quiet)
            gw_cli_error(_("process %d uses CUDA, but its GPU work is not recorded: CUDA_INJECTION64_PATH is %s"), p->pid, value);
        return;
    }
}

/* --- the loop --------------------------------------------------------------------------------------------------------- */

/* --after-steps: lets the windows begin when enough batches were taken, or when there is nothing to count. */
static void look_at_steps(struct gw_session *s, uint64_t now)
{
    if (!s->is_held && s->status.fd < 0)
        return;
    s->steps = gw_status_steps(s->dir);
    int is_blind = !s->steps && s->injected_ns && now - s->injected_ns > PATIENCE;
    if (!s->is_held || (s->steps < s->o.after_steps && !is_blind))
        return;
    s->is_held = 0;
    s->control.open_now++;
    (void)write_control(s);
    if (is_blind) {
        gw_sink_fact(s->sink, "after_steps", "nothing to count");
        gw_status_clear(&s->status);
        gw_cli_error(_("--after-steps: this job takes no batches from a torch DataLoader, so its steps cannot be counted; GPU work "
                       "is recorded from now on"));
    } else {
        gw_sink_factf(s->sink, "after_steps", "%llu batches", (unsigned long long)s->steps);
    }
}

/* The job ended before its steps were done. */
static void still_held(struct gw_session *s)
{
    if (!s->is_held)
        return;
    s->steps = gw_status_steps(s->dir);
    gw_sink_factf(s->sink, "after_steps", "not reached: %llu batches", (unsigned long long)s->steps);
    gw_cli_error(_("--after-steps=%llu: the job took %llu batches from its DataLoader, so no GPU work was recorded; give a smaller "
                   "number"),
                 (unsigned long long)s->o.after_steps, (unsigned long long)s->steps);
}

static uint64_t own_cpu(void) { return gw_clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

static uint64_t pace(uint64_t every, uint64_t spent, uint64_t elapsed, double limit, uint64_t least, uint64_t most)
{
    double share = elapsed ? (double)spent / (double)elapsed : 0;
    if (share > limit)
        every *= 2;
    else if (share < limit / 3)
        every /= 2;
    return every < least ? least : every > most ? most : every;
}

/* Keeps our own cost below its limits by sampling less often. */
static void watch_own_cost(struct gw_session *s, struct gw_session_due *d, uint64_t now)
{
    gw_sink_counter(s->sink, gw_sink_string(s->sink, "recorder.cpu_s"), -1, 0, 0, (double)own_cpu() * 1e-9);
    uint64_t age = now - s->started_ns, elapsed = d->at ? now - d->at : 0;
    uint64_t least = s->open_windows || age < 60 * SEC ? TICK_FAST : age < 600 * SEC ? TICK_SLOW : TICK_REST;
    s->tick_ns = pace(s->tick_ns, d->sample_cpu, elapsed, SAMPLE_COST, least, TICK_MAX);
    d->system_ns = pace(d->system_ns, d->system_cpu, elapsed, SYSTEM_COST, SYSTEM_EVERY, 4 * SEC);
    d->nvml_ns = pace(d->nvml_ns, d->nvml_cpu, elapsed, NVML_COST, NVML_EVERY, 2 * SEC);
    d->sample_cpu = d->system_cpu = d->nvml_cpu = 0;
    d->at = now;
}

void gw_session_tick(struct gw_session *s)
{
    struct gw_session_due *d = &s->due;
    uint64_t now = now_ns();
    gw_sink_tick(s->sink);
    if (now >= d->discover && s->tree) {
        uint64_t cpu = own_cpu();
        gw_tree_discover(s->tree);
        uint64_t wanted = (uint64_t)((double)(own_cpu() - cpu) / DISCOVER_COST);
        d->discover_ns = wanted < DISCOVER_EVERY ? DISCOVER_EVERY : wanted > DISCOVER_MAX ? DISCOVER_MAX : wanted;
        d->discover = now + d->discover_ns;
    }
    if (now >= d->sample && s->tree) {
        uint64_t cpu = own_cpu();
        gw_tree_sample(s->tree);
        gw_status_samples(&s->status, s->sink, s->tree);
        d->sample_cpu += own_cpu() - cpu;
        d->sample = now + s->tick_ns;
    }
    if (now >= d->system && s->system) {
        uint64_t cpu = own_cpu();
        gw_system_sample(s->system);
        look_at_files(s);
        look_at_steps(s, now);
        d->system_cpu += own_cpu() - cpu;
        d->system = now + d->system_ns;
    }
    if (now >= d->nvml && s->nvml) {
        uint64_t cpu = own_cpu();
        gw_nvml_sample(s->nvml);
        d->nvml_cpu += own_cpu() - cpu;
        d->nvml = now + d->nvml_ns;
    }
    if (now >= d->second) {
        (void)write_control(s); /* the heartbeat */
        (void)gw_writer_clock(&s->sink->w, 0);
        machine_failed(s, gw_machine_poll(&s->machine));
        warn_write(s);
        check_ignored(s);
        gw_run_pm_tick(&s->pm, &(struct gw_run_pm_view){s->dir, s->proc, s->sink, s->tree, s->nvml, &s->status, s->o.quiet});
        gw_status_draw(&s->status, &(struct gw_status_view){s->started_ns, s->steps, s->records, s->open_windows > 0, s->nvml, s->pm.pm}, now);
        watch_own_cost(s, d, now);
        d->second = now + SEC;
    }
    if (now >= d->five) {
        (void)gw_nvml_processes(s->nvml);
        gw_writer_status(&s->sink->w);
        d->five = now + 5 * SEC;
    }
    gw_sink_flush(s->sink);
}

uint64_t gw_session_next(const struct gw_session *s)
{
    const struct gw_session_due *d = &s->due;
    uint64_t t = d->sample;
    const uint64_t all[] = {s->system ? d->system : UINT64_MAX, s->nvml ? d->nvml : UINT64_MAX, d->discover, d->second};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        t = all[i] < t ? all[i] : t;
    return t;
}

/* Reads what is pending on the signal descriptor. 1 when the user ended the recording. */
static int take_signals(struct gw_session *s, struct gw_child *c, int fd)
{
    struct signalfd_siginfo si;
    int ends = 0;
    while (read(fd, &si, sizeof si) == (ssize_t)sizeof si)
        ends |= gw_child_handle(c, (int)si.ssi_signo, si.ssi_code > 0, !s->is_recording);
    return ends;
}

static int signal_descriptor(void)
{
    sigset_t set;
    gw_child_signals(&set);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void wait_until(int fd, uint64_t until)
{
    uint64_t now = now_ns(), left = until > now ? until - now : 0;
    struct timespec ts = {(time_t)(left / SEC), (long)(left % SEC)};
    struct pollfd p = {.fd = fd, .events = POLLIN};
    (void)ppoll(&p, 1, &ts, NULL);
}

enum gw_loop_end gw_session_loop(struct gw_session *s, struct gw_child *c)
{
    int fd = signal_descriptor();
    uint64_t end = s->o.for_ns ? s->started_ns + (uint64_t)s->o.for_ns : UINT64_MAX;
    enum gw_loop_end why = GW_LOOP_JOB_ENDED;
    while (!c->ended) {
        gw_session_tick(s);
        uint64_t next = gw_session_next(s);
        wait_until(fd, next < end ? next : end);
        if (take_signals(s, c, fd) || now_ns() >= end) {
            why = GW_LOOP_RECORDING_ENDED;
            break;
        }
    }
    if (c->ended)
        why = GW_LOOP_JOB_ENDED;
    gw_status_clear(&s->status);
    if (fd >= 0)
        close(fd);
    return why;
}

void gw_session_wait(struct gw_session *s, struct gw_child *c)
{
    int fd = signal_descriptor();
    while (!c->ended) {
        wait_until(fd, now_ns() + SEC);
        (void)take_signals(s, c, fd);
    }
    if (fd >= 0)
        close(fd);
}

static int asks_for_an_end(int signo)
{
    return signo == SIGINT || signo == SIGTERM || signo == SIGHUP || signo == SIGQUIT;
}

int gw_session_wait_for(struct gw_session *s, struct gw_child *c, pid_t pid)
{
    int fd = signal_descriptor(), status = 0;
    for (pid_t p; (p = waitpid(pid, &status, WNOHANG)) == 0 || (p < 0 && errno == EINTR);) {
        struct signalfd_siginfo si;
        wait_until(fd, now_ns() + SEC);
        while (read(fd, &si, sizeof si) == (ssize_t)sizeof si) {
            if (c->ended && asks_for_an_end((int)si.ssi_signo))
                kill(pid, SIGKILL);
            else
                (void)gw_child_handle(c, (int)si.ssi_signo, si.ssi_code > 0, !s->is_recording);
        }
    }
    if (fd >= 0)
        close(fd);
    return status;
}

/* --- end --------------------------------------------------------------------------------------------------------------- */

void gw_session_stop(struct gw_session *s, const struct gw_child *c)
{
    if (!s->is_recording)
        return;
    s->is_recording = 0;
    s->ended_ns = now_ns();
    s->control.stop = 1;
    (void)write_control(s);
    gw_pm_ask_to_stop(s->pm.pm);
    /* A window closes within a few ticks of the library; queued GPU work may need longer. */
    for (uint64_t until = now_ns() + 1500 * MS; !c->ended && now_ns() < until;) {
        look_at_files(s);
        if (!s->recording_processes)
            break;
        struct timespec ts = {0, 50 * (long)MS};
        nanosleep(&ts, NULL);
    }
    look_at_files(s);
    still_held(s);
    machine_failed(s, gw_machine_finish(&s->machine, MACHINE_WAIT_MS));
    struct gw_sink *k = s->sink;
    gw_sink_tick(k);
    gw_run_pm_end(&s->pm, &(struct gw_run_pm_view){s->dir, s->proc, s->sink, s->tree, s->nvml, &s->status, s->o.quiet});
    gw_sink_factf(k, "recorded_s", "%.3f", (double)(s->ended_ns - s->started_ns) * 1e-9);
    gw_sink_factf(k, "recorder.cpu_s", "%.3f", (double)gw_clock_ns(CLOCK_PROCESS_CPUTIME_ID) * 1e-9);
    gw_sink_factf(k, "recorder.lost_samples", "%llu", (unsigned long long)k->lost);
    if (c->ended)
        gw_sink_factf(k, "job.status", "%d", gw_child_exit_status(c));
    (void)gw_writer_clock(&k->w, 0);
    warn_write(s);
    gw_sink_close(k);
}

void gw_session_discard(struct gw_session *s)
{
    static const char *const ours[] = {GW_REC_META, GW_REC_CONTROL};
    for (size_t i = 0; s->sink && s->sink->w.fd >= 0 && i < sizeof ours / sizeof *ours; i++)
        (void)unlinkat(s->dir, ours[i], 0);
    if (s->made_folder)
        (void)rmdir(s->folder); /* only when nobody else put something there */
    gw_session_close(s);
}

void gw_session_close(struct gw_session *s)
{
    gw_pm_destroy(s->pm.pm);
    s->pm.pm = NULL;
    gw_nvml_close(s->nvml);
    gw_tree_destroy(s->tree);
    gw_system_destroy(s->system);
    if (s->sink && s->sink->names)
        gw_sink_close(s->sink);
    free(s->sink);
    for (size_t i = 0; s->env[i]; i++)
        free(s->env[i]);
    const int fds[] = {s->dir, s->proc, s->sys};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    memset(s->env, 0, sizeof s->env);
    s->nvml = NULL;
    s->tree = NULL;
    s->system = NULL;
    s->sink = NULL;
    s->dir = s->proc = s->sys = -1;
}
