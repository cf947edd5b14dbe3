#include "cli/cli.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/load.h"
#include "import/importer.h"
#include "report/clean.h"

struct args {
    struct gw_cli_options cli;
    char **files;
    int count;
};

enum { KEY_MACHINE = 0x2000 };

static const struct argp_option read_options[] = {
    {"machine", KEY_MACHINE, N_("FILE"), 0,
     N_("facts about the machine that recorded: a file of `gpuwhy check --collect`, or saved output of nvidia-smi (default: those "
        "in the record of gpuwhy run)"),
     1},
    {NULL, 0, NULL, 0, NULL, 0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT: gw_cli_children(state, &a->cli); return 0;
    case KEY_MACHINE: a->cli.machine = arg; return 0;
    case ARGP_KEY_ARG:
        if (!*arg)
            gw_cli_usage(state, _("an empty file name"));
        return ARGP_ERR_UNKNOWN; /* all of them come in ARGP_KEY_ARGS */
    case ARGP_KEY_ARGS:
        a->files = state->argv + state->next;
        a->count = state->argc - state->next;
        return 0;
    case ARGP_KEY_NO_ARGS: gw_cli_usage(state, _("no FILE given")); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void list_formats(FILE *f)
{
    fprintf(f, "%s\n", _("Formats, recognised by content:"));
    for (size_t i = 0; gw_importers[i]; i++)
        fprintf(f, "  %-10s %s\n", gw_importers[i]->name, _(gw_importers[i]->title));
}

static char *help_filter(int key, const char *text, void *input)
{
    (void)input;
    return gw_cli_help_with(key, text, list_formats);
}

static const struct argp_child children[] = {
    {&gw_argp_input, 0, NULL, 0}, {&gw_argp_output, 0, NULL, 0}, {NULL, 0, NULL, 0}};

const struct argp gw_argp_read = {
    read_options,
    parse,
    N_("FILE... | FOLDER"),
    N_("Reads recordings of a job and says what its GPU was waiting for, what is to blame, what the fix is worth and "
       "how to check it. Files may be compressed; '-' is standard input. Recordings of the ranks of one job, in a "
       "folder or as several files, are compared and give one report; files that do not belong together are diagnosed "
       "one after the other. Output of Nsight Compute (ncu) beside a recording joins it: hardware counters of its kernels.\v"
       "Examples:\n"
       "  gpuwhy read trace.json.gz\n"
       "  gpuwhy read traces/              all ranks of a job\n"
       "  gpuwhy read trace.json.gz ncu.csv    with counters of the same job's kernels\n"
       "  gpuwhy read --json report.json trace.json.gz\n"
       "  gpuwhy read --machine node7.gz trace.json.gz     with what check --collect says about node7\n"
       "  gpuwhy read --html report.html trace.json.gz\n"
       "  gpuwhy read --json - --quiet trace.json.gz | jq .verdict"),
    children,
    help_filter,
    NULL};

/* Reports one after the other, each under the name of its recording. */
static int emit_each(const struct gw_loaded *l, const struct gw_cli_options *o)
{
    int status = GW_EXIT_OK;
    for (size_t i = 0; i < l->count; i++) {
        char name[512];
        gw_clean_copy(name, sizeof name, l->paths[i], gw_cli_unicode());
        printf("%s== %s\n\n", i ? "\n" : "", name);
        int s = gw_cli_emit(l->each[i], o);
        status = s > status ? s : status;
    }
    return status;
}

/* Several recordings: one report when they are ranks of one job. */
static int read_many(const struct args *a)
{
    struct gw_loaded l;
    int folder = 0, status = GW_EXIT_OK, s;
    for (int i = 0; i < a->count; i++)
        folder |= gw_load_is_folder(a->files[i]);
    if (gw_cli_spares_inputs(a->files, (size_t)a->count, &a->cli) != GW_EXIT_OK)
        return GW_EXIT_USAGE;
    status = gw_load(&l, a->files, (size_t)a->count, &a->cli);
    if (folder && l.count) /* what else lies in a folder is no failure */
        status = status == GW_EXIT_INPUT ? GW_EXIT_OK : status;
    if (l.interrupted && !a->cli.quiet && l.count)
        gw_cli_error(_("interrupted; the report covers what was read"));
    if (l.report) {
        s = gw_cli_emit(l.report, &a->cli);
        status = s > status ? s : status;
        s = gw_cli_html_loaded(&l, &a->cli);
        status = s > status ? s : status;
    } else if (l.count && (a->cli.json || a->cli.html)) {
        gw_cli_error(_("not the ranks of one job: %s; --%s takes one FILE at a time"), l.misfit, a->cli.json ? "json" : "html");
        status = folder ? GW_EXIT_INPUT : GW_EXIT_USAGE;
    } else if (l.count) {
        if (!a->cli.quiet && (folder || !l.strangers))
            gw_cli_error(_("not put together as ranks of one job: %s"), l.misfit);
        s = emit_each(&l, &a->cli);
        status = s > status ? s : status;
    }
    int interrupted = l.interrupted;
    gw_load_free(&l);
    if (interrupted) /* end as the user asked: a shell loop stops too */
        raise(SIGINT);
    return status;
}

int gw_cmd_read(int argc, char **argv)
{
    struct args a;
    memset(&a, 0, sizeof a);
    gw_cli_parse(&gw_argp_read, argc, argv, &a);
    if (a.count > 1 || gw_load_is_folder(a.files[0]) || gw_load_is_saved(a.files[0]))
        return read_many(&a);
    return gw_cli_diagnose(strcmp(a.files[0], "-") == 0 ? "/dev/stdin" : a.files[0], &a.cli);
}
