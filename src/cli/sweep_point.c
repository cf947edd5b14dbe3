/* sweep_point.c - see sweep_point.h */
#include "cli/sweep_point.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "collect/proc/proc_read.h"

#define MS 1000000ll
#define SEC 1000000000ll
#define LOOK_EVERY (250 * MS)
#define GPU_FIRST (3 * SEC)  /* batches are seen this long: the GPU's rhythm had its chance */
#define GPU_WORKS (12 * SEC) /* and this long when kernels are there: slow steps need some time to make a rhythm */
#define SILENCE (10 * SEC)   /* without a step for this long ... */
#define SILENT_STEPS 20      /* ... and for so many times the longest one: it hangs */
#define SILENCE_AT_LIMIT (1 * SEC)
#define GPU_LATENCY (4 * SEC) /* records of kernels come in buffers, a second or two late */
#define SAME_RHYTHM 0.03      /* found again, it must give the same rate */
#define RECORD_LONGEST (40 * SEC)
enum { LEAST_STEPS = 8, GPU_RECORDS = 200, READS = 100 };

static int64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * SEC + ts.tv_nsec;
}

/* --- one run --- */

enum end { GOES_ON, KNOWN, TIME_IS_UP, HANGS, ENDED, STOPPED, DISTURBED };

struct live {
    struct gw_sweep_job *job;
    const struct gw_sweep *s;
    const struct gw_sweep_ask *ask;
    struct gw_session rec;
    struct gw_child child;
    struct gw_sweep_output output;
    struct gw_sweep_files *files;
    struct gw_sweep_rate rate; /* of the source that was chosen; in steps */
    enum gw_sweep_source source;
    double kernels, factor; /* kernels a step; samples a step */
    int pipe[2], signals;   /* read ends; -1 closed */
    int64_t started, moved, look, loader_since;
    size_t moved_n;
    uint64_t oom_kills; /* of the kernel, as the run began */
    int was_stopped;    /* 1: Ctrl-Z, or a stop from elsewhere */
    char folder[PATH_MAX];
};

/* Processes that the kernel ended because memory ran out, since the machine started; 0 unknown. */
static uint64_t oom_kills(void)
{
    char text[16384];
    const char *p = gw_proc_text(AT_FDCWD, "/proc/vmstat", text, sizeof text) > 0 ? strstr(text, "\noom_kill ") : NULL;
    return p ? strtoull(p + 10, NULL, 10) : 0;
}

static void take_output(struct live *v, int stream)
{
    char buf[8192];
    for (int i = 0; i < READS && v->pipe[stream] >= 0; i++) { /* a job that prints without end must not keep us here */
        ssize_t n = read(v->pipe[stream], buf, sizeof buf);
        if (n > 0) {
            gw_sweep_output_feed(&v->output, stream, buf, (size_t)n, now_ns());
        } else {
            if (n == 0) {
                close(v->pipe[stream]);
                v->pipe[stream] = -1;
            }
            return; /* nothing more for now */
        }
    }
}

static int is_ignored(int signo)
{
    struct sigaction now;
    return sigaction(signo, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

/* Ctrl-Z: the job is in another session, so it is stopped by hand. What is measured around that counts for nothing. */
static void stop_with_the_job(struct live *v)
{
    gw_sweep_tree_signal(v->rec.proc, SIGSTOP);
    kill(getpid(), SIGSTOP); /* until the shell lets us go on */
    gw_sweep_tree_signal(v->rec.proc, SIGCONT);
    v->was_stopped = 1;
}

/* The signal by which the user wants to stop; 0 none. */
static int take_signals(struct live *v)
{
    struct signalfd_siginfo si;
    int stop = v->job->wish ? *v->job->wish : 0; /* it came before they were read here */
    while (read(v->signals, &si, sizeof si) == (ssize_t)sizeof si) {
        switch (si.ssi_signo) {
        case SIGCHLD: gw_sweep_tree_reap(&v->child); break;
        case SIGINT:
        case SIGTERM:
        case SIGHUP:
        case SIGQUIT:
        case SIGALRM: /* of a timer that was set before we were started */
            if (!is_ignored((int)si.ssi_signo)) /* as after nohup or `&` */
                stop = (int)si.ssi_signo;
            break;
        case SIGTSTP: stop_with_the_job(v); break;
        case SIGCONT: v->was_stopped = 1; break;
        default: break;
        }
    }
    return stop;
}

/* The series that steps are read from, and which it is. */
static const struct gw_sweep_series *choose(struct live *v, int64_t now)
{
    enum gw_sweep_source want = v->job->source;
    v->source = want;
    if (want == GW_SWEEP_BY_OUTPUT)
        return &v->output.series;
    const struct gw_sweep_series *gpu = want != GW_SWEEP_BY_LOADER ? gw_sweep_files_gpu(v->files, &v->kernels) : NULL;
    const struct gw_sweep_series *loader = want != GW_SWEEP_BY_GPU ? gw_sweep_files_loader(v->files) : NULL;
    if (want == GW_SWEEP_BY_GPU)
        return gpu;
    if (want == GW_SWEEP_BY_LOADER)
        return loader;
    if (loader && !v->loader_since)
        v->loader_since = now;
    v->source = GW_SWEEP_BY_GPU;
    if (gpu && gpu->n > LEAST_STEPS)
        return gpu;
    int64_t patience = gw_sweep_files_kernels(v->files) ? GPU_WORKS : GPU_FIRST;
    if (!loader || (now - v->loader_since < patience && now - v->started < v->job->limit_ns && !v->child.ended))
        return NULL; /* wait for the GPU to show a rhythm */
    v->source = GW_SWEEP_BY_LOADER;
    return loader;
}

/* The rhythm was found when fewer kernels were there, perhaps those that made the model: is it the same over all of
 * them? */
static int is_confirmed(struct live *v)
{
    struct gw_sweep_rate again;
    if (v->source != GW_SWEEP_BY_GPU)
        return 1;
    gw_sweep_files_forget(v->files);
    const struct gw_sweep_series *series = gw_sweep_files_gpu(v->files, &v->kernels);
    if (!series)
        return 0;
    gw_sweep_series_rate(series, &again);
    return fabs(again.rate / v->rate.rate - 1) < SAME_RHYTHM;
}

static enum end look(struct live *v, int64_t now)
{
    static const struct gw_sweep_series empty;
    gw_sweep_files_look(v->files);
    v->job->saw_kernels |= gw_sweep_files_kernels(v->files) >= GPU_RECORDS;
    const struct gw_sweep_series *series = choose(v, now);
    if (!series)
        series = &empty;
    gw_sweep_series_rate(series, &v->rate);
    if (series->n != v->moved_n) {
        v->moved_n = series->n;
        v->moved = now;
    }
    double rate = v->rate.rate * v->factor;
    if (v->job->progress)
        v->job->progress(v->job->user, (double)(now - v->started) * 1e-9, rate, v->rate.error);
    if (v->child.ended)
        return ENDED;
    if (v->rate.is_settled && v->rate.steady_s * 1e9 >= (double)v->job->least_ns &&
        v->rate.count - v->rate.warmup >= LEAST_STEPS && gw_sweep_enough(v->s, v->ask, rate, v->rate.error) &&
        is_confirmed(v))
        return KNOWN;
    int64_t silent = now - v->moved - (v->source == GW_SWEEP_BY_GPU ? GPU_LATENCY : 0);
    double longest = v->rate.longest_s > 0 ? v->rate.longest_s * 1e9 : 0;
    if (v->moved_n && !series->is_full && silent > SILENCE && (double)silent > SILENT_STEPS * longest &&
        !(v->source == GW_SWEEP_BY_GPU && gw_sweep_files_gpu_ended(v->files)))
        return HANGS;
    if (now - v->started < v->job->limit_ns)
        return GOES_ON;
    return v->moved_n && !series->is_full && silent > SILENCE_AT_LIMIT && (double)silent > SILENT_STEPS / 2 * longest
               ? HANGS
               : TIME_IS_UP;
}

static void wait_for(struct live *v, int64_t until)
{
    int64_t left = until - now_ns();
    struct timespec ts = {left > 0 ? left / SEC : 0, left > 0 ? left % SEC : 0};
    struct pollfd p[3] = {{.fd = v->signals, .events = POLLIN},
                          {.fd = v->pipe[0], .events = POLLIN},
                          {.fd = v->pipe[1], .events = POLLIN}};
    (void)ppoll(p, 3, &ts, NULL);
}

static enum end follow(struct live *v)
{
    v->look = v->started + LOOK_EVERY;
    for (;;) {
        gw_session_tick(&v->rec);
        int64_t next = (int64_t)gw_session_next(&v->rec);
        wait_for(v, next < v->look ? next : v->look);
        int stop = take_signals(v);
        take_output(v, 0);
        take_output(v, 1);
        if (stop) {
            v->job->stopped_by = stop;
            return STOPPED;
        }
        if (v->was_stopped)
            return DISTURBED;
        int64_t now = now_ns();
        if (now < v->look && !v->child.ended)
            continue;
        v->look = now + LOOK_EVERY;
        enum end e = look(v, now);
        if (e != GOES_ON)
            return e;
    }
}

/* --- what became of it --- */

static void failed(enum gw_sweep_outcome o, struct gw_sweep_run *out)
{
    out->outcome = o;
    out->rate = NAN;
    out->error = INFINITY;
}

/* The job ended by itself, and not well. */
static void ended_badly(struct live *v, struct gw_sweep_run *out)
{
    char words[GW_SWEEP_WHY];
    int memory = 0, status = v->child.status, signo = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    int is_telling = gw_sweep_output_why(&v->output, words, sizeof words, &memory);
    if (signo == 0 && WEXITSTATUS(status) > 128) /* as a shell says it */
        signo = WEXITSTATUS(status) - 128;
    int is_oom = oom_kills() > v->oom_kills;
    failed(memory || is_oom ? GW_SWEEP_OUT_OF_MEMORY : GW_SWEEP_CRASHED, out);
    if (is_oom && !memory)
        snprintf(out->why, sizeof out->why, "%s", _("the kernel ended a process because the host's memory ran out"));
    else if (signo == SIGKILL && !memory)
        snprintf(out->why, sizeof out->why, "%s", _("killed by signal 9, as the kernel does when memory runs out"));
    else if (*words && (is_telling || !WIFSIGNALED(status)))
        snprintf(out->why, sizeof out->why, "%s", words);
    else if (WIFSIGNALED(status))
        snprintf(out->why, sizeof out->why, _("killed by signal %d"), signo);
    else
        snprintf(out->why, sizeof out->why, _("ended with status %d"), WEXITSTATUS(status));
}

static void no_steps(struct live *v, enum end e, struct gw_sweep_run *out)
{
    failed(GW_SWEEP_NO_STEPS, out);
    double s = (double)(now_ns() - v->started) * 1e-9;
    if (v->job->source == GW_SWEEP_BY_OUTPUT && v->moved_n)
        snprintf(out->why, sizeof out->why, _("only %zu matches in the output in %.0f s; a rate needs at least 5"),
                 v->moved_n, s);
    else if (v->job->source == GW_SWEEP_BY_OUTPUT)
        snprintf(out->why, sizeof out->why, _("nothing in the output matched in %.0f s"), s);
    else if (v->moved_n)
        snprintf(out->why, sizeof out->why, _("only %zu steps in %.0f s; a rate needs at least 5"), v->moved_n, s);
    else if (gw_sweep_files_kernels(v->files))
        snprintf(out->why, sizeof out->why, _("%llu kernels ran in %.0f s, without a rhythm in them"),
                 (unsigned long long)gw_sweep_files_kernels(v->files), s);
    else if (e == ENDED)
        snprintf(out->why, sizeof out->why,
                 _("it ended after %.1f s; neither GPU work nor batches of a DataLoader were seen"), s);
    else
        snprintf(out->why, sizeof out->why, _("neither GPU work nor batches of a DataLoader were seen in %.0f s"), s);
}

static void conclude(struct live *v, enum end e, struct gw_sweep_run *out)
{
    out->rate = v->rate.rate * v->factor;
    out->error = v->rate.error;
    out->warmup_s = v->rate.warmup_s;
    out->steady_s = v->rate.steady_s;
    out->steps = (double)(v->rate.count - v->rate.warmup);
    out->is_settled = v->rate.is_settled;
    out->kernels = v->source == GW_SWEEP_BY_GPU && v->kernels > 0 ? v->kernels : NAN;
    if (e == ENDED && v->child.status != 0) {
        ended_badly(v, out);
    } else if (e == HANGS) {
        failed(GW_SWEEP_HUNG, out);
        snprintf(out->why, sizeof out->why, _("%zu steps, then none for %.0f s"), v->moved_n,
                 (double)(now_ns() - v->moved) * 1e-9);
    } else if (isnan(v->rate.rate) || !isfinite(v->rate.error) || !(out->rate > 0)) {
        no_steps(v, e, out);
    } else if (v->job->source == GW_SWEEP_BY_AUTO) {
        v->job->source = v->source;
    }
}

/* Settings that the hook was to change: did it? */
static void check_settings(struct live *v, struct gw_sweep_run *out)
{
    struct gw_sweep_hook h;
    int wanted = 0;
    for (size_t k = 0; k < v->s->knobs; k++)
        wanted |= v->job->loader_setting[k] >= 0;
    if (!wanted && !v->job->counts_samples)
        return;
    gw_sweep_hook_read(v->folder, &h);
    v->job->loaders_changed = h.applied;
    if (v->job->alone && *h.dataset) {
        snprintf(v->job->alone_what, sizeof v->job->alone_what, "%s", h.dataset);
        v->job->alone_batch = h.batch;
    }
    if (v->job->counts_samples && v->job->alone_batch > 0)
        out->rate *= v->job->alone_batch;
    if (!wanted || h.applied || out->outcome == GW_SWEEP_OUT_OF_MEMORY || out->outcome == GW_SWEEP_CRASHED)
        return; /* the job's own reason says more */
    failed(GW_SWEEP_CRASHED, out);
    if (*h.error)
        snprintf(out->why, sizeof out->why, _("the DataLoader refused the setting: %s"), h.error);
    else
        snprintf(out->why, sizeof out->why, "%s",
                 _("no DataLoader was made; the job must use PyTorch, in a Python that reads PYTHONPATH"));
}

/* --- start and end --- */

static int pipes(int read_end[2], int streams[3])
{
    int p[2];
    streams[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < 2; i++) {
        if (streams[0] < 0 || pipe2(p, O_CLOEXEC) != 0)
            return -1;
        read_end[i] = p[0];
        streams[i + 1] = p[1];
        (void)fcntl(p[0], F_SETFL, O_NONBLOCK);
    }
    return 0;
}

static void close_all(int *fd, int n)
{
    for (int i = 0; i < n; i++) {
        if (fd[i] >= 0)
            close(fd[i]);
        fd[i] = -1;
    }
}

static int cannot_start(const struct gw_child *c, const char *name)
{
    int why = c->exec_errno ? c->exec_errno : errno;
    gw_cli_error(_("%s: cannot be started: %s; write the command as you would type it, behind --"), name,
                 strerror(why));
    return GW_EUSAGE;
}

/* Starts the job under a session. 0, or a negative code, said. The caller closes the session in any case. */
static int start(struct live *v, size_t point, const char *folder, const struct gw_run_options *o)
{
    struct gw_error err;
    int streams[3] = {-1, -1, -1}, rc = GW_ENOMEM;
    memset(&err, 0, sizeof err);
    v->pipe[0] = v->pipe[1] = v->signals = -1;
    struct gw_run_options with = *o;
    with.folder = folder;
    if (gw_session_open(&v->rec, &with, &err) < 0) {
        (void)gw_cli_fail(&err);
        return err.code ? err.code : GW_EIO;
    }
    char **argv = gw_sweep_argv(v->job, v->s, point), **env = gw_sweep_environment(v->job, &v->rec, v->s, point);
    if (!argv || !env)
        goto out;
    rc = GW_EIO;
    if (pipes(v->pipe, streams) != 0) {
        gw_cli_error(_("cannot make a pipe for the job: %s; raise the limit on open files (ulimit -n)"),
                     strerror(errno));
        goto out;
    }
    v->started = now_ns();
    v->oom_kills = oom_kills();
    if (gw_child_start_apart(&v->child, argv, env, streams) != 0) {
        rc = cannot_start(&v->child, argv[0]);
        sigprocmask(SIG_SETMASK, &v->child.before, NULL);
        goto out;
    }
    sigset_t set;
    gw_child_signals(&set);
    v->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    gw_session_begin(&v->rec, &v->child, argv);
    rc = GW_OK;
out:
    close_all(streams, 3);
    gw_sweep_free_list(argv);
    gw_sweep_free_list(env);
    if (rc == GW_ENOMEM)
        (void)gw_cli_no_memory(v->job->command[0]);
    return rc;
}

/* Ends what still runs, and gives the signals back. 1 when the user asked to stop meanwhile. */
static int finish(struct live *v)
{
    int stop = 0;
    if (v->child.pid > 0 && v->signals >= 0) {
        gw_session_stop(&v->rec, &v->child);
        gw_sweep_tree_end(&v->child, v->rec.proc);
        stop = take_signals(v);
        v->job->stopped_by = stop ? stop : v->job->stopped_by;
        take_output(v, 0);
        take_output(v, 1);
        sigprocmask(SIG_SETMASK, &v->child.before, NULL);
    }
    close_all(v->pipe, 2);
    close_all(&v->signals, 1);
    gw_session_close(&v->rec);
    return stop;
}

static struct gw_run_options recorder(const struct gw_sweep_job *job)
{
    struct gw_run_options o;
    memset(&o, 0, sizeof o);
    o.full = 1; /* kernels alone, from the start: 0.4 to 0.65 us a launch (docs/overhead.md), the same at each point */
    o.kinds = GW_CK_KERNELS;
    o.max_bytes = 2ull << 30;
    o.no_cuda = job->no_gpu || job->source == GW_SWEEP_BY_OUTPUT || job->source == GW_SWEEP_BY_LOADER;
    o.no_stacks = o.no_machine = o.no_pm = o.quiet = 1;
    return o;
}

int gw_sweep_temporary(char *folder, size_t cap)
{
    const char *base = getenv("TMPDIR");
    errno = ENAMETOOLONG;
    if ((size_t)snprintf(folder, cap, "%s/gpuwhy-sweep-XXXXXX", base && *base ? base : "/tmp") < cap && mkdtemp(folder))
        return 0;
    gw_cli_error(_("%s: cannot make a folder: %s; set TMPDIR to one that can be written"),
                 base && *base ? base : "/tmp", strerror(errno));
    return -1;
}

/* The same, and 1 when the run was disturbed and has to be made again. */
static int run_once(struct gw_sweep_job *job, const struct gw_sweep *s, const struct gw_sweep_ask *ask,
                    struct gw_sweep_run *out)
{
    struct live *v = calloc(1, sizeof *v);
    struct gw_sweep_memory m = {NAN, NAN, NAN};
    struct gw_run_options o = recorder(job);
    memset(out, 0, sizeof *out);
    out->point = ask->point;
    if (!v)
        return gw_cli_no_memory(job->command[0]), GW_ENOMEM;
    v->job = job, v->s = s, v->ask = ask;
    v->factor = job->is_samples ? s->knob[job->batch_knob].number[gw_sweep_at(s, ask->point, job->batch_knob)] : 1;
    v->rate.rate = NAN;
    gw_sweep_output_init(&v->output, &job->pattern);
    int rc = gw_sweep_temporary(v->folder, sizeof v->folder) == 0 ? start(v, ask->point, v->folder, &o) : GW_EIO;
    enum end e = STOPPED;
    if (rc == GW_OK && (v->files = gw_sweep_files_open(v->folder, !o.no_cuda)) != NULL) {
        e = follow(v);
        out->at_s = (double)(now_ns() - job->began_ns) * 1e-9 - v->rate.steady_s / 2;
        if (!v->child.ended)
            gw_sweep_tree_memory(&v->rec, &m);
        if (finish(v))
            e = STOPPED;
        conclude(v, e, out);
        gw_sweep_record_gpu(v->folder, out);
        check_settings(v, out);
        out->workers = m.workers, out->worker_bytes = m.worker_bytes, out->host_free = m.host_free;
        out->took_s = (double)(now_ns() - v->started) * 1e-9;
        rc = e == STOPPED ? GW_EINTR : e == DISTURBED ? 1 : GW_OK;
    } else if (v->rec.sink) {
        finish(v);
    }
    gw_sweep_files_close(v->files);
    gw_sweep_output_free(&v->output);
    if (*v->folder)
        gw_sweep_remove(v->folder);
    free(v);
    return rc;
}

int gw_sweep_point_run(struct gw_sweep_job *job, const struct gw_sweep *s, const struct gw_sweep_ask *ask,
                       struct gw_sweep_run *out)
{
    for (;;) {
        int rc = run_once(job, s, ask, out);
        if (rc <= 0)
            return rc;
    }
}

int gw_sweep_point_record(struct gw_sweep_job *job, const struct gw_sweep *s, size_t point, const char *folder)
{
    struct live *v = calloc(1, sizeof *v);
    struct gw_run_options o;
    memset(&o, 0, sizeof o);
    o.max_bytes = 2ull << 30;
    o.kinds = GW_CK_ALL;
    o.quiet = o.always = o.no_machine = o.no_pm = 1; /* our loop takes the end of any child: no helpers */
    o.first_ns = 3 * SEC, o.first_len_ns = o.window_ns = 2 * SEC, o.period_ns = 20 * SEC; /* as gpuwhy run has them */
    if (!v)
        return GW_ENOMEM;
    v->job = job, v->s = s;
    gw_sweep_output_init(&v->output, &job->pattern);
    int rc = start(v, point, folder, &o), stop = 0, was_open = 0, windows = 0;
    while (rc == GW_OK && !stop && !v->child.ended && now_ns() - v->started < RECORD_LONGEST) {
        gw_session_tick(&v->rec);
        wait_for(v, (int64_t)gw_session_next(&v->rec));
        stop = take_signals(v);
        take_output(v, 0);
        take_output(v, 1);
        int is_open = v->rec.records > GPU_RECORDS && v->rec.open_windows;
        windows += was_open && !is_open;
        was_open = is_open;
        if (windows > 1 || (windows && now_ns() - v->started > RECORD_LONGEST / 2))
            break; /* the second window has no warm-up in it */
    }
    uint64_t records = v->rec.records;
    if (v->rec.sink)
        stop |= finish(v);
    gw_sweep_output_free(&v->output);
    free(v);
    return rc != GW_OK ? rc : stop ? GW_EINTR : records > GPU_RECORDS ? GW_OK : GW_ENODATA;
}
