/* cmd_run.c - `gpuwhy run [OPTION...] [--] COMMAND [ARG...]`: starts the job, records it, says what its GPU waited for. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/run_session.h"
#include "cli/times.h"

#define SEC 1000000000ll
enum { EXIT_RUN_FAILED = 125, EXIT_CANNOT_START = 126, EXIT_NOT_FOUND = 127 }; /* as env(1) and timeout(1) */

enum { KEY_FOR = 0x2000, KEY_FULL, KEY_WINDOWS, KEY_NO_CUDA, KEY_NO_HOOK, KEY_NO_STACKS, KEY_NO_PM, KEY_STATUS, KEY_MAX_SIZE, KEY_NO_REPORT,
       KEY_KINDS, KEY_GPU_RECORDS, KEY_AFTER_STEPS };

struct args {
    struct gw_cli_options cli;
    struct gw_run_options run;
    char **command;
    int no_report;
};

static const struct argp_option options[] = {
    {NULL, 0, NULL, 0, N_("Recording:"), 1},
    {"output", 'o', N_("DIR"), 0, N_("folder for the record (default: gpuwhy-DATE-TIME in the working directory)"), 1},
    {"for", KEY_FOR, N_("TIME"), 0, N_("end the recording after TIME, such as 30s or 5m, report, and let the job go on"), 1},
    {"after-steps", KEY_AFTER_STEPS, N_("N"), 0,
     N_("record no GPU work before N batches were taken from a torch DataLoader, evaluation included; a job without one is recorded "
        "after a minute of CUDA"), 1},
    {"full", KEY_FULL, NULL, 0, N_("record all GPU work from the start, not in windows; costs the job a few percent"), 1},
    {"windows", KEY_WINDOWS, N_("FIRST,LEN,NEXT,PERIOD"), 0,
     N_("record GPU work at fixed times: the first window FIRST after CUDA starts and LEN long, then NEXT long every PERIOD "
        "(default: windows of 2 to 5 seconds that follow the work)"), 1},
    {"max-size", KEY_MAX_SIZE, N_("SIZE"), 0, N_("largest record file of each process (default: 2G)"), 1},
    {"gpu-records", KEY_GPU_RECORDS, N_("WHEN"), 0,
     N_("auto (default): record GPU work unless that would slow the job by more than 1.5 %, as it does when the job is bound by its launches; "
        "always; never"), 1},
    {"no-gpu-records", KEY_NO_CUDA, NULL, 0, N_("do not load anything into the job: NVML and /proc only"), 1},
    {"no-hook", KEY_NO_HOOK, NULL, 0, N_("do not read DataLoader and torch settings inside Python"), 1},
    {"no-stacks", KEY_NO_STACKS, NULL, 0, N_("do not read Python stacks"), 1},
    {"no-pm", KEY_NO_PM, NULL, 0, N_("do not sample the GPUs' hardware counters over the whole run"), 1},
    {"kinds", KEY_KINDS, N_("LIST"), 0,
     N_("GPU record kinds: any of kernels,copies,runtime,driver,sync,overhead (default: all of them)"), 1},
    {"status", KEY_STATUS, NULL, 0,
     N_("show a live line on the terminal: steps, GPU utilization and what the SMs really do, and a guess at the cause"), 1},
    {"no-report", KEY_NO_REPORT, NULL, 0, N_("record only; diagnose later with gpuwhy read DIR"), 1},
    {NULL, 0, NULL, 0, NULL, 0}};

static int parse_windows(const char *s, struct gw_run_options *o)
{
    int64_t v[4];
    for (int i = 0; i < 4; i++) {
        v[i] = gw_cli_time(s, &s);
        if (v[i] < 0 || *s != (i < 3 ? ',' : 0))
            return -1;
        s++;
    }
    if (v[1] <= 0 || v[2] <= 0 || v[3] < v[2])
        return -1;
    o->fixed = 1;
    o->first_ns = v[0], o->first_len_ns = v[1], o->window_ns = v[2], o->period_ns = v[3];
    return 0;
}

static int parse_kinds(const char *s, uint32_t *out)
{
    static const struct { const char *name; uint32_t bit; } kinds[] = {
        {"kernels", GW_CK_KERNELS}, {"copies", GW_CK_COPIES}, {"runtime", GW_CK_RUNTIME}, {"driver", GW_CK_DRIVER},
        {"sync", GW_CK_SYNC}, {"overhead", GW_CK_OVERHEAD}};
    *out = 0;
    while (*s) {
        size_t len = strcspn(s, ","), i;
        for (i = 0; i < sizeof kinds / sizeof *kinds; i++)
            if (strlen(kinds[i].name) == len && strncmp(kinds[i].name, s, len) == 0)
                break;
        if (i == sizeof kinds / sizeof *kinds)
            return -1;
        *out |= kinds[i].bit;
        s += len + (s[len] == ',');
    }
    return *out & GW_CK_KERNELS ? 0 : -1; /* without kernels there is nothing to explain */
}

static uint64_t parse_size(const char *s)
{
    char *end;
    unsigned long long v = isdigit((unsigned char)*s) ? strtoull(s, &end, 10) : 0;
    int shift = 0;
    if (!v)
        return 0;
    switch (toupper((unsigned char)*end)) {
    case 'K': shift = 10; end++; break;
    case 'M': shift = 20; end++; break;
    case 'G': shift = 30; end++; break;
    default: break;
    }
    return *end || v > (UINT64_MAX >> shift) ? 0 : (uint64_t)v << shift;
}

/* A whole number above 0; 0 for anything else. */
static uint64_t parse_count(const char *s)
{
    char *end = NULL;
    errno = 0;
    unsigned long long v = isdigit((unsigned char)*s) ? strtoull(s, &end, 10) : 0;
    return !v || *end || errno ? 0 : v;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        gw_cli_child_output(state, &a->cli);
        return 0;
    case 'o':
        if (!*arg)
            gw_cli_usage(state, _("--output needs a folder"));
        a->run.folder = arg;
        return 0;
    case KEY_FOR:
        a->run.for_ns = gw_cli_whole_time(arg);
        if (a->run.for_ns <= 0)
            gw_cli_usage(state, _("--for=%s is no time; write it like 30s or 5m"), arg);
        return 0;
    case KEY_WINDOWS:
        if (parse_windows(arg, &a->run) != 0)
            gw_cli_usage(state, _("--windows=%s: write four times like 3s,2s,2s,20s, the last not below the third"), arg);
        return 0;
    case KEY_KINDS:
        if (parse_kinds(arg, &a->run.kinds) != 0)
            gw_cli_usage(state, _("--kinds=%s: name some of kernels,copies,runtime,driver,sync,overhead, with kernels"), arg);
        return 0;
    case KEY_MAX_SIZE:
        a->run.max_bytes = parse_size(arg);
        if (!a->run.max_bytes)
            gw_cli_usage(state, _("--max-size=%s is no size; write it like 800M or 4G"), arg);
        return 0;
    case KEY_FULL: a->run.full = 1; return 0;
    case KEY_AFTER_STEPS:
        a->run.after_steps = parse_count(arg);
        if (!a->run.after_steps)
            gw_cli_usage(state, _("--after-steps=%s is no number of steps"), arg);
        return 0;
    case KEY_GPU_RECORDS:
        a->run.always = strcmp(arg, "always") == 0;
        a->run.no_cuda = strcmp(arg, "never") == 0;
        if (!a->run.always && !a->run.no_cuda && strcmp(arg, "auto") != 0)
            gw_cli_usage(state, _("--gpu-records=%s: write auto, always or never"), arg);
        return 0;
    case KEY_NO_CUDA: a->run.no_cuda = 1; return 0;
    case KEY_NO_HOOK: a->run.no_hook = 1; return 0;
    case KEY_NO_STACKS: a->run.no_stacks = 1; return 0;
    case KEY_NO_PM: a->run.no_pm = 1; return 0;
    case KEY_STATUS: a->run.status = 1; return 0;
    case KEY_NO_REPORT: a->no_report = 1; return 0;
    case ARGP_KEY_ARG:
        return ARGP_ERR_UNKNOWN; /* the command comes in ARGP_KEY_ARGS */
    case ARGP_KEY_ARGS:
        a->command = state->argv + state->next;
        return 0;
    case ARGP_KEY_END:
        if (a->run.after_steps && (a->run.full || a->run.no_cuda || a->run.no_hook))
            gw_cli_usage(state, _("--after-steps counts with the settings hook and decides when windows begin: it does not go with "
                                  "--full, --no-gpu-records, --gpu-records=never or --no-hook"));
        return 0;
    case ARGP_KEY_NO_ARGS:
        gw_cli_usage(state, _("no COMMAND given"));
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&gw_argp_output, 0, NULL, 0}, {NULL, 0, NULL, 0}};

const struct argp gw_argp_run = {
    options, parse, N_("[--] COMMAND [ARG...]"),
    N_("Starts COMMAND, records what its GPUs, processes and the machine do, and says what the GPUs were waiting for. The "
       "job's output, exit status and signals are its own; the report goes to standard error.\v"
       "Ctrl-C ends the recording and reports; the job goes on until the next Ctrl-C.\n\n"
       "Examples:\n"
       "  gpuwhy run -- python train.py\n"
       "  gpuwhy run --for 60s -o rec -- torchrun --nproc-per-node 4 train.py\n"
       "  gpuwhy read rec"),
    children, NULL, NULL};

/* Diagnoses in a process of its own: whatever happens to it, the job's exit status is passed on. */
static pid_t start_report(const struct gw_session *s, const struct args *a)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    if ((a->cli.json && strcmp(a->cli.json, "-") == 0) || (a->cli.html && strcmp(a->cli.html, "-") == 0))
        ; /* the user wants it on standard output */
    else
        dup2(STDERR_FILENO, STDOUT_FILENO);
    int status = gw_cli_diagnose(s->folder, &a->cli);
    fflush(NULL);
    _exit(status);
}

/* A path as it is typed in a shell. Borrowed until the next call. */
static const char *shell_word(const char *path)
{
    static char buf[4 * PATH_MAX + 3];
    size_t n = 0;
    int is_plain = 1;
    for (const char *p = path; *p; p++)
        is_plain &= isalnum((unsigned char)*p) || strchr("/._-+,:@%=", *p) != NULL || (unsigned char)*p >= 0x80;
    if (is_plain)
        return path;
    buf[n++] = '\'';
    for (const char *p = path; *p && n + 6 < sizeof buf; p++) {
        if (*p == '\'') {
            memcpy(buf + n, "'\\''", 4);
            n += 4;
        } else {
            buf[n++] = *p;
        }
    }
    buf[n++] = '\'';
    buf[n] = 0;
    return buf;
}

static void finish_report(pid_t pid, struct gw_session *s, struct gw_child *c, const struct args *a)
{
    const char *folder = shell_word(s->folder);
    if (pid < 0) {
        gw_cli_error(_("cannot diagnose now: %s; try later: gpuwhy read %s"), gw_i18n_errno(errno), folder);
        return;
    }
    int status = gw_session_wait_for(s, c, pid);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        gw_cli_error(_("the diagnosis was ended; the record is complete: gpuwhy read %s"), folder);
    else if (WIFSIGNALED(status) || WEXITSTATUS(status) == GW_EXIT_INTERNAL)
        gw_cli_error(_("the diagnosis failed; the record is complete: gpuwhy read %s"), folder);
    else if (!a->cli.quiet)
        gw_cli_error(_("the record is in %s; diagnose it again with: gpuwhy read %s"), s->folder, folder);
}

static int cannot_start(struct gw_session *s, const struct gw_child *c, const char *name)
{
    int why = c->exec_errno ? c->exec_errno : errno;
    if (why == EMFILE || why == ENFILE)
        gw_cli_error(_("%s: cannot be started: %s; raise the limit on open files (ulimit -n)"), name, gw_i18n_errno(why));
    else if (why == EAGAIN)
        gw_cli_error(_("%s: cannot be started: %s; raise the limit on processes (ulimit -u)"), name, gw_i18n_errno(why));
    else
        gw_cli_error(_("%s: cannot be started: %s; write the command as you would type it, behind --"), name, gw_i18n_errno(why));
    gw_session_discard(s);
    return !c->exec_errno ? EXIT_RUN_FAILED : why == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_START;
}

static int record(struct args *a)
{
    struct gw_session s;
    struct gw_child c;
    struct gw_error err;
    memset(&err, 0, sizeof err);
    if (gw_session_open(&s, &a->run, &err) < 0) {
        (void)gw_cli_fail(&err);
        gw_session_discard(&s);
        return EXIT_RUN_FAILED;
    }
    if (gw_child_start(&c, a->command, s.env) != 0)
        return cannot_start(&s, &c, a->command[0]);
    gw_session_begin(&s, &c, a->command);
    enum gw_loop_end end = gw_session_loop(&s, &c);
    gw_session_stop(&s, &c);
    if (c.ended)
        gw_child_release_terminal(&c); /* Ctrl-C is ours again */
    pid_t report = a->no_report ? 0 : start_report(&s, a);
    if (end == GW_LOOP_RECORDING_ENDED && !c.ended) {
        if (!a->cli.quiet)
            gw_cli_error(_("the recording has ended; the job goes on (process %d)%s"), (int)c.pid,
                         c.own_group ? _("; Ctrl-C is now passed on to it") : "");
        if (!a->no_report)
            finish_report(report, &s, &c, a);
        gw_session_wait(&s, &c);
    } else if (!a->no_report) {
        finish_report(report, &s, &c, a);
    }
    gw_child_release_terminal(&c);
    gw_session_close(&s);
    gw_child_exit_like(&c);
}

int gw_cmd_run(int argc, char **argv)
{
    struct args a;
    memset(&a, 0, sizeof a);
    a.run.first_ns = 3 * SEC;
    a.run.first_len_ns = 2 * SEC;
    a.run.window_ns = 2 * SEC;
    a.run.period_ns = 20 * SEC;
    a.run.max_bytes = 2ull << 30;
    a.run.kinds = GW_CK_ALL;
    argp_err_exit_status = EXIT_RUN_FAILED; /* our own failures must not look like the job's */
    gw_cli_parse_as(&gw_argp_run, argc, argv, ARGP_IN_ORDER, &a);
    a.run.quiet = a.cli.quiet;
    if (!a.no_report && gw_cli_can_write(&a.cli) != GW_EXIT_OK)
        return EXIT_RUN_FAILED;
    return record(&a);
}
