#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/check_findings.h"
#include "collect/capture/capture.h"
#include "collect/live/live.h"

enum { MAX_DATA = 16, KEY_PYTHON = 0x2000, KEY_DATA, KEY_LOAD, KEY_MEASURE, KEY_COLLECT, KEY_ROOT, KEY_FAIL_IF };

struct args {
    struct gw_cli_options cli;
    struct gw_live_options live;
    const char *data[MAX_DATA];
    const char *collect;
    enum gw_check_status fail_if; /* GW_CHECK_UNKNOWN = no gate */
    char **captures;
    int count;
};

static const struct argp_option options[] = {
    {NULL, 0, NULL, 0, N_("What to look at:"), 1},
    {"data", KEY_DATA, N_("PATH"), 0,
     N_("where the job's data is: its file system and disk (may be given several times)"), 1},
    {"python", KEY_PYTHON, N_("PATH"), 0,
     N_("the Python, or the folder of the environment, that the job uses (default: the active one)"), 1},
    {"root", KEY_ROOT, N_("DIR"), 0, N_("read /proc and /sys below DIR: a host that is mounted into a container"), 1},
    {"load", KEY_LOAD, NULL, 0,
     N_("copy to and from every GPU for 1.5 s while looking, because idle PCIe links run slow to save power"), 1},
    {"measure", KEY_MEASURE, NULL, 0, N_("measure copies, launches, memory and, with --data, disks: less than 20 s"),
     1},
    {"collect", KEY_COLLECT, N_("FILE"), 0, N_("write all facts to FILE, for `gpuwhy check FILE` on another machine"),
     1},
    {"fail-if", KEY_FAIL_IF, N_("STATUS"), 0, N_("exit with 1 when a result is 'bad', or at least 'look'"), 1},
    {NULL, 0, NULL, 0, NULL, 0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT: gw_cli_child_output(state, &a->cli); return 0;
    case KEY_DATA:
        if (a->live.data_count == MAX_DATA)
            gw_cli_usage(state, _("--data may be given %d times"), MAX_DATA);
        a->data[a->live.data_count++] = arg;
        return 0;
    case KEY_PYTHON: a->live.python = arg; return 0;
    case KEY_ROOT: a->live.root = arg; return 0;
    case KEY_LOAD: a->live.load = 1; return 0;
    case KEY_MEASURE: a->live.measure = 1; return 0;
    case KEY_COLLECT: a->collect = arg; return 0;
    case KEY_FAIL_IF:
        if (strcmp(arg, "bad") == 0)
            a->fail_if = GW_CHECK_BAD;
        else if (strcmp(arg, "look") == 0)
            a->fail_if = GW_CHECK_LOOK;
        else
            gw_cli_usage(state, _("--fail-if=%s is neither 'bad' nor 'look'"), arg);
        return 0;
    case ARGP_KEY_ARG:
        if (!*arg)
            gw_cli_usage(state, _("an empty file name"));
        return ARGP_ERR_UNKNOWN; /* all of them come in ARGP_KEY_ARGS */
    case ARGP_KEY_ARGS:
        a->captures = state->argv + state->next;
        a->count = state->argc - state->next;
        return 0;
    case ARGP_KEY_END:
        if (a->count &&
            (a->live.load || a->live.measure || a->live.python || a->live.root || a->live.data_count || a->collect))
            gw_cli_usage(state, _("--data, --python, --root, --load, --measure and --collect look at this machine; they "
                                "do not go with a CAPTURE"));
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void list_formats(FILE *f)
{
    fprintf(f, "%s\n", _("Captures, recognised by content, several in one file as well:"));
    for (size_t i = 0; gw_capture_formats[i].name; i++)
        fprintf(f, "  %s\n", gw_capture_formats[i].name);
}

static char *help_filter(int key, const char *text, void *input)
{
    (void)input;
    return gw_cli_help_with(key, text, list_formats);
}

static const struct argp_child children[] = {{&gw_argp_output, 0, NULL, 0}, {NULL, 0, NULL, 0}};

const struct argp gw_argp_check = {
    options,
    parse,
    N_("[CAPTURE...]"),
    N_("Looks at this machine, without root, and says what is good, bad or worth a look: driver and CUDA versions, "
       "clocks, limits "
       "and links of the GPUs, CPUs, memory, disks, settings. Nothing is changed. With a CAPTURE (a file or a folder) "
       "it looks at "
       "saved output of nvidia-smi and the like instead.\v"
       "Examples:\n"
       "  gpuwhy check --load --data /data/imagenet\n"
       "  gpuwhy check --collect node7.gz     and elsewhere: gpuwhy check node7.gz\n"
       "  nvidia-smi -q > node7.txt; gpuwhy check node7.txt"),
    children,
    help_filter,
    NULL};

static int fill(struct gw_env *env, struct args *a)
{
    if (!a->count) {
        int rc = gw_live_collect(env, &a->live);
        if (rc < 0)
            gw_cli_error("%s", gw_code_name(rc));
        return rc < 0 ? gw_cli_exit_status(rc) : GW_EXIT_OK;
    }
    for (int i = 0; i < a->count; i++) {
        struct gw_error err = {0};
        if (gw_capture_read(env, a->captures[i], &err) < 0)
            return gw_cli_fail(&err);
    }
    return GW_EXIT_OK;
}

struct output {
    const struct gw_env *env;
    const struct gw_check_list *l;
    struct gw_arena *arena;
};

static void write_json(FILE *out, void *user)
{
    const struct output *o = user;
    gw_check_json(o->env, o->l, o->arena, out);
}

static void write_html(FILE *out, void *user)
{
    const struct output *o = user;
    gw_check_html(o->env, o->l, o->arena, out);
}

static int write_all(struct args *a, const struct gw_env *env, const struct gw_check_list *l, struct gw_arena *arena)
{
    struct gw_render_options r;
    struct output o = {env, l, arena};
    int status = GW_EXIT_OK, s;
    if (a->collect) {
        struct gw_error err = {0};
        if (gw_env_save(env, a->collect, &err) < 0) {
            gw_cli_fail(&err);
            status = GW_EXIT_INTERNAL;
        } else if (!a->cli.quiet) {
            fprintf(stderr, _("gpuwhy: wrote %s; zcat shows what is in it\n"), a->collect);
        }
    }
    if (!gw_cli_no_text(&a->cli)) {
        gw_cli_render_options(&a->cli, &r);
        gw_check_print(env, l, stdout, &r);
        s = gw_cli_flush(stdout, _("standard output"));
        status = status ? status : s;
    }
    if (a->cli.json) {
        s = gw_cli_write(a->cli.json, write_json, &o);
        status = status ? status : s;
    }
    if (a->cli.html) {
        s = gw_cli_write(a->cli.html, write_html, &o);
        status = status ? status : s;
    }
    return status;
}

int gw_cmd_check(int argc, char **argv)
{
    struct args a;
    memset(&a, 0, sizeof a);
    a.live.data = a.data;
    gw_cli_parse(&gw_argp_check, argc, argv, &a);
    if (gw_cli_spares_inputs(a.captures, (size_t)a.count, &a.cli) != GW_EXIT_OK)
        return GW_EXIT_USAGE;
    struct gw_env *env = gw_env_create();
    struct gw_arena *arena = gw_arena_create(0);
    int status = GW_EXIT_INTERNAL;
    if (!env || !arena) {
        gw_cli_error("%s", gw_code_name(GW_ENOMEM));
        goto out;
    }
    if ((status = fill(env, &a)) != GW_EXIT_OK)
        goto out;
    const struct gw_check_list *l = gw_checks_run(env, arena);
    if (!l) {
        gw_cli_error("%s", gw_code_name(GW_ENOMEM));
        status = GW_EXIT_INTERNAL;
        goto out;
    }
    struct sigaction ignore, before;
    memset(&ignore, 0, sizeof ignore);
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, &before); /* a closed pipe is seen by gw_cli_flush() */
    status = write_all(&a, env, l, arena);
    sigaction(SIGPIPE, &before, NULL);
    if (status == GW_EXIT_OK && a.fail_if != GW_CHECK_UNKNOWN &&
        (l->by_status[GW_CHECK_BAD] || (a.fail_if == GW_CHECK_LOOK && l->by_status[GW_CHECK_LOOK])))
        status = GW_EXIT_GATE;
out:
    gw_arena_destroy(arena);
    gw_env_destroy(env);
    return status;
}
