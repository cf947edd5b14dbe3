/* sweep_main.c - the loop of a sweep: ask, run, tell, show; then the record at the knee, and the report. */
#include "cli/sweep_main.h"

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/gw_arena.h"
#include "cli/load.h"
#include "cli/run_find.h"
#include "cli/sweep_state.h"
#include "report/clean.h"
#include "report/fmt.h"
#include "report/html/html.h"

#define SEC 1000000000ll
#define RECORD_NEEDS (45 * SEC) /* of the budget, for the record at the knee */

struct state {
    struct gw_sweep_options *o;
    struct gw_sweep_ask ask;
    struct gw_sweep_result result;
    int64_t begun;          /* CLOCK_MONOTONIC at the start of this call */
    int64_t began_realtime; /* of the sweep, also of the earlier calls that it resumes */
    size_t run;             /* runs of this call */
    int drawn;              /* the progress line is on the terminal */
};

static int64_t clock_of(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * SEC + ts.tv_nsec;
}

/* --- a wish to stop between two runs: in a run its signals are read there --- */

static const int stops[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
enum { STOPS = sizeof stops / sizeof *stops };
static volatile sig_atomic_t stopped_by;

static void note(int signo) { stopped_by = signo; }

static void watch_signals(struct sigaction before[STOPS])
{
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = note;
    sa.sa_flags = SA_RESTART;
    for (int i = 0; i < STOPS; i++)
        if (sigaction(stops[i], NULL, before + i) == 0 && before[i].sa_handler != SIG_IGN) /* as after nohup or `&` */
            (void)sigaction(stops[i], &sa, NULL);
}

static void forget_signals(const struct sigaction before[STOPS])
{
    for (int i = 0; i < STOPS; i++)
        (void)sigaction(stops[i], before + i, NULL);
}

/* 1 when the user wants to stop, now or in the last run. */
static int is_stopped(struct state *st)
{
    if (stopped_by && !st->o->job.stopped_by)
        st->o->job.stopped_by = stopped_by;
    return st->o->job.stopped_by != 0;
}

/* --- progress --- */

static int shows_progress(const struct state *st)
{
    return !st->o->cli.quiet && isatty(STDERR_FILENO) && !gw_cli_dumb_terminal();
}

static void clear(struct state *st)
{
    if (st->drawn)
        fputs("\r\033[K", stderr);
    st->drawn = 0;
}

/* Time for the runs that are left, from the mean of those that were made. */
static void time_left(const struct state *st, char *buf, size_t cap)
{
    struct gw_sweep_verdict v;
    gw_sweep_judge(&st->o->sweep, &v);
    *buf = 0;
    double left = (double)st->ask.left * v.mean_s,
           budget = (double)(st->o->budget_ns - (clock_of(CLOCK_MONOTONIC) - st->begun)) * 1e-9;
    if (st->o->budget_ns && (isnan(left) || budget < left))
        left = budget > 0 ? budget : 0;
    if (left < 0.5)
        return;
    if (left < 120)
        snprintf(buf, cap, _("; about %.0f s left"), left);
    else if (!isnan(left))
        snprintf(buf, cap, _("; about %.0f min left"), ceil(left / 60));
}

static void progress(void *user, double seconds, double rate, double error)
{
    struct state *st = user;
    char setting[128], value[64] = "", left[64], line[512];
    if (!shows_progress(st))
        return;
    gw_sweep_setting(&st->o->sweep, st->ask.point, setting, sizeof setting);
    time_left(st, left, sizeof left);
    if (!isnan(rate) && isfinite(error)) {
        char text[64];
        snprintf(value, sizeof value, "%s \xc2\xb1%.0f\xc2\xa0%%, ",
                 gw_sweep_rate_text(&st->result, rate, text, sizeof text), 100 * error);
    }
    snprintf(line, sizeof line, _("gpuwhy: %s: %s%.0f s; run %zu of about %zu%s"), setting, value, seconds, st->run + 1,
             st->run + st->ask.left, left);
    gw_cli_plain_blanks(line);
    char clean[600];
    gw_clean_copy(clean,
                  (size_t)gw_cli_columns(STDERR_FILENO) < sizeof clean ? (size_t)gw_cli_columns(STDERR_FILENO)
                                                                       : sizeof clean,
                  line, gw_cli_unicode());
    fprintf(stderr, "\r%s\033[K", clean);
    fflush(stderr);
    st->drawn = 1;
}

/* One line for a run that ended. */
static void say_run(struct state *st, const struct gw_sweep_run *run)
{
    char setting[128], text[64], left[64];
    clear(st);
    if (st->o->cli.quiet)
        return;
    gw_sweep_setting(&st->o->sweep, run->point, setting, sizeof setting);
    struct gw_sweep_ask next;
    struct gw_sweep probe = st->o->sweep; /* gw_sweep_next() may mark points: it will do so anyway */
    st->ask.left = gw_sweep_next(&probe, &next) ? next.left : 0;
    time_left(st, left, sizeof left);
    if (run->outcome == GW_SWEEP_OK)
        gw_cli_error(_("%s: %s, known to %.1f %%, in %.0f s%s"), setting,
                     gw_sweep_rate_text(&st->result, run->rate, text, sizeof text), 100 * run->error, run->took_s,
                     left);
    else
        gw_cli_error("%s: %s: %s", setting, _(gw_sweep_outcome_text(run->outcome)), run->why);
}

/* --- the loop --- */

/* What is counted, once the first run showed where steps come from. */
static void name_unit(struct state *st)
{
    static const enum gw_sweep_found_by found[] = {GW_SWEEP_FOUND_NOT, GW_SWEEP_FOUND_GPU, GW_SWEEP_FOUND_LOADER,
                                                   GW_SWEEP_FOUND_OUTPUT};
    st->result.found_by = found[st->o->job.source];
    st->result.unit = st->o->unit;
    if (st->o->unit == GW_SWEEP_STEPS && st->o->job.source == GW_SWEEP_BY_LOADER)
        st->result.unit = st->o->is_parts && st->o->job.alone_batch > 0 ? GW_SWEEP_SAMPLES : GW_SWEEP_BATCHES;
}

static int within_budget(const struct state *st)
{
    if (!st->o->budget_ns)
        return 1;
    struct gw_sweep_verdict v;
    gw_sweep_judge(&st->o->sweep, &v);
    double left = (double)(st->o->budget_ns - (clock_of(CLOCK_MONOTONIC) - st->begun)) * 1e-9;
    return st->run == 0 || left >= v.mean_s * 0.8; /* what is begun should be finished */
}

/* A run must not go beyond the budget. */
static void limit_run(struct state *st, int64_t limit)
{
    int64_t left = st->o->budget_ns - (clock_of(CLOCK_MONOTONIC) - st->begun);
    st->o->job.limit_ns = st->o->budget_ns && left < limit ? left > SEC ? left : SEC : limit;
}

/* Which part of the job runs at a point of --loader-only. */
static void choose_part(struct state *st)
{
    static const char *const part[] = {"loader", "model", NULL};
    if (st->o->is_parts)
        st->o->job.alone = part[st->ask.point < 2 ? st->ask.point : 2];
}

static int remember(struct state *st, const struct gw_sweep_run *run)
{
    struct gw_error err;
    memset(&err, 0, sizeof err);
    if (gw_sweep_add(&st->o->sweep, run) < 0)
        return gw_cli_no_memory(st->o->command);
    if (st->o->resume && gw_sweep_state_add(st->o->resume, st->o->plan, &st->o->sweep, st->began_realtime,
                                            (int)st->o->job.source, run, &err) < 0) {
        clear(st);
        (void)gw_cli_fail(&err);
        st->o->resume = NULL; /* what was measured is worth more than the file */
    }
    return GW_EXIT_OK;
}

/* An exit status; result.stop says how it ended. */
static int loop(struct state *st)
{
    struct gw_sweep_options *o = st->o;
    int64_t limit = o->job.limit_ns;
    while (gw_sweep_next(&o->sweep, &st->ask)) {
        struct gw_sweep_run run;
        if (is_stopped(st)) {
            st->result.stop = GW_SWEEP_INTERRUPTED;
            break;
        }
        if (!within_budget(st)) {
            st->result.stop = GW_SWEEP_BUDGET_SPENT;
            break;
        }
        limit_run(st, limit);
        choose_part(st);
        int rc = gw_sweep_point_run(&o->job, &o->sweep, &st->ask, &run);
        name_unit(st);
        if (rc == GW_EINTR) {
            st->result.stop = GW_SWEEP_INTERRUPTED;
            break;
        }
        if (rc != GW_OK) {
            clear(st);
            return gw_cli_exit_status(rc);
        }
        st->run++;
        int status = remember(st, &run);
        if (status != GW_EXIT_OK)
            return status;
        say_run(st, &run);
    }
    if (is_stopped(st))
        st->result.stop = GW_SWEEP_INTERRUPTED;
    clear(st);
    o->job.limit_ns = limit;
    return GW_EXIT_OK;
}

/* --- what comes next at the knee --- */

static const char *keep(struct gw_arena *a, const char *s) { return s ? gw_arena_strdup(a, s) : NULL; }

/* Records the job at the knee and takes the verdict of the diagnosis. Without GPU work there is nothing to say. */
static void next_limit(struct state *st, struct gw_arena *arena)
{
    struct gw_sweep_options *o = st->o;
    const struct gw_sweep_verdict *v = &st->result.verdict;
    char folder[PATH_MAX];
    int64_t left = o->budget_ns - (clock_of(CLOCK_MONOTONIC) - st->begun);
    if (o->no_diagnosis || o->is_parts || !o->job.saw_kernels || v->knee == GW_SWEEP_NONE ||
        st->result.stop != GW_SWEEP_DONE || (o->budget_ns && left < RECORD_NEEDS) ||
        gw_sweep_temporary(folder, sizeof folder) != 0)
        return;
    if (!o->cli.quiet)
        gw_cli_error("%s", _("recording the job at the knee, to see what limits it there"));
    if (gw_sweep_point_record(&o->job, &o->sweep, v->knee, folder) == GW_OK) {
        struct gw_cli_options quiet = o->cli;
        struct gw_loaded l;
        char *paths[] = {folder};
        quiet.quiet = 1;
        if (gw_load(&l, paths, 1, &quiet) == GW_EXIT_OK && l.report) {
            st->result.next.finding = keep(arena, l.report->verdict.finding);
            st->result.next.layer = keep(arena, l.report->verdict.layer);
            st->result.next.sentence = keep(arena, l.report->verdict.sentence);
        }
        gw_load_free(&l);
    }
    gw_sweep_remove(folder);
}

/* --- start and report --- */

static void write_text(FILE *out, void *user)
{
    struct state *st = user;
    struct gw_render_options r;
    gw_cli_render_options(&st->o->cli, &r);
    (void)gw_render_sweep_terminal(&st->result, out, &r);
}

static void write_html(FILE *out, void *user)
{
    struct state *st = user;
    (void)gw_render_html_sweep(&st->result, out);
}

static void write_json(FILE *out, void *user)
{
    struct state *st = user;
    (void)gw_render_sweep_json(&st->result, out);
}

static int emit(struct state *st)
{
    const struct gw_cli_options *c = &st->o->cli;
    int status = GW_EXIT_OK;
    if (!gw_cli_no_text(c))
        status = gw_cli_write(NULL, write_text, st);
    if (c->json) {
        int s = gw_cli_write(c->json, write_json, st);
        status = s ? s : status;
    }
    if (c->html) {
        int s = gw_cli_write(c->html, write_html, st);
        status = s ? s : status;
    }
    return status;
}

static void fill_result(struct state *st)
{
    struct gw_sweep_options *o = st->o;
    struct gw_sweep_result *r = &st->result;
    cpu_set_t set;
    r->sweep = &o->sweep;
    r->command = o->command;
    r->seconds = (double)(clock_of(CLOCK_MONOTONIC) - st->begun) * 1e-9;
    r->cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
    for (size_t k = 0; k < o->sweep.knobs; k++)
        r->by_hook[k] = o->job.loader_setting[k] >= 0;
    r->loaders_changed = o->job.loaders_changed;
    r->is_parts = o->is_parts;
    r->alone_dataset = o->job.alone_what;
    r->alone_batch = o->job.alone_batch;
    gw_sweep_judge(&o->sweep, &r->verdict);
}

/* What to do when nothing could be measured; said after the report. */
static void advise(const struct state *st)
{
    const struct gw_sweep_options *o = st->o;
    if (st->result.verdict.kind != GW_SWEEP_NOTHING || !o->sweep.runs || st->result.stop == GW_SWEEP_INTERRUPTED)
        return;
    if (st->result.stop == GW_SWEEP_BUDGET_SPENT && o->sweep.run[o->sweep.runs - 1].outcome == GW_SWEEP_NO_STEPS)
        gw_cli_error("%s", _("--budget ended before a step was seen; one run takes the start of the job and some seconds of "
                             "steps: give it more"));
    else if (o->sweep.run[o->sweep.runs - 1].outcome == GW_SWEEP_NO_STEPS && o->job.source == GW_SWEEP_BY_OUTPUT)
        gw_cli_error(
            "%s", _("no rate could be read; look at what the job prints, and give --metric a pattern that matches it"));
    else if (o->sweep.run[o->sweep.runs - 1].outcome == GW_SWEEP_NO_STEPS)
        gw_cli_error(
            "%s",
            _("no steps were seen; name a line that the job prints each step: --metric='step [0-9]+', or its rate: "
              "--metric='([0-9.]+) it/s'; a slow start needs a longer --point-limit"));
    else
        gw_cli_error("%s", _("the job failed at every setting that was tried; run it once by hand with one of them"));
}

/* Can GPU work be recorded at all? Said once, and not at each run. */
static void look_for_library(struct gw_sweep_options *o)
{
    char path[4096];
    const char *other = getenv("CUDA_INJECTION64_PATH");
    if (o->job.no_gpu || o->job.source != GW_SWEEP_BY_AUTO)
        return;
    if (other && *other)
        gw_cli_error(_("%s is already set in CUDA_INJECTION64_PATH (another profiler?); GPU work is not recorded"), other);
    else if (gw_run_find_library(path, sizeof path) != 0)
        gw_cli_error(_("libgpuwhy_inject.so is not beside gpuwhy; GPU work is not recorded"));
    else
        return;
    o->job.no_gpu = o->no_diagnosis = 1;
}

static int begin(struct state *st)
{
    struct gw_sweep_options *o = st->o;
    struct gw_error err;
    int source = -1;
    memset(&err, 0, sizeof err);
    if (gw_sweep_begin(&o->sweep) < 0)
        return gw_cli_no_memory(o->command);
    st->begun = clock_of(CLOCK_MONOTONIC);
    st->began_realtime = clock_of(CLOCK_REALTIME);
    if (o->resume && gw_sweep_state_load(o->resume, o->plan, &o->sweep, &st->began_realtime, &source, &err) < 0)
        return gw_cli_fail(&err);
    if (o->resume && gw_sweep_state_try(o->resume, &err) < 0)
        return gw_cli_fail(&err); /* now, and not after the first run */
    st->result.resumed = o->sweep.runs;
    if (o->job.source == GW_SWEEP_BY_AUTO && source >= GW_SWEEP_BY_AUTO && source <= GW_SWEEP_BY_OUTPUT)
        o->job.source = (enum gw_sweep_source)source;
    o->job.began_ns = st->begun - (clock_of(CLOCK_REALTIME) - st->began_realtime);
    look_for_library(o);
    o->job.progress = progress;
    o->job.user = st;
    o->job.wish = &stopped_by;
    st->result.unit = o->unit;
    st->result.sweep = &o->sweep;
    name_unit(st);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); /* whatever leaves its parent comes to us */
    return GW_EXIT_OK;
}

int gw_sweep_main(struct gw_sweep_options *o)
{
    struct state st;
    struct sigaction before[STOPS];
    memset(&st, 0, sizeof st);
    st.o = o;
    watch_signals(before);
    struct gw_arena *arena = gw_arena_create(0);
    int status = arena ? gw_cli_can_write(&o->cli) : gw_cli_no_memory(o->command);
    if (status == GW_EXIT_OK)
        status = begin(&st);
    if (status == GW_EXIT_OK)
        status = loop(&st);
    if (status == GW_EXIT_OK) {
        fill_result(&st);
        next_limit(&st, arena);
        status = emit(&st);
        advise(&st);
        if (status == GW_EXIT_OK && st.result.verdict.kind == GW_SWEEP_NOTHING && st.result.stop != GW_SWEEP_INTERRUPTED)
            status = GW_EXIT_INPUT;
    }
    gw_sweep_free(&o->sweep);
    gw_arena_destroy(arena);
    forget_signals(before);
    if (st.result.stop == GW_SWEEP_INTERRUPTED && status == GW_EXIT_OK)
        raise(o->job.stopped_by); /* end as the user asked, now that the report is out */
    return status;
}
