#include "cli/cli.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/load.h"
#include "report/export.h"

enum { KEY_GAPS = 0x2100, KEY_FINDINGS, KEY_HOST };

struct args {
    struct gw_cli_options cli;
    const char *timeline, *gaps, *findings; /* NULL: not asked for */
    struct gw_export_options o;
    char *file;
};

static const struct argp_option options[] = {
    {NULL, 0, NULL, 0, N_("What to write; '-' is standard output:"), 3},
    {"output", 'o', N_("FILE"), 0,
     N_("the timeline, for ui.perfetto.dev or chrome://tracing; what is written when nothing else is asked for"), 3},
    {"gaps", KEY_GAPS, N_("FILE"), 0, N_("every piece of idle time with its cause, as CSV"), 3},
    {"findings", KEY_FINDINGS, N_("FILE"), 0, N_("the findings, as CSV; takes folders of ranks and JSON reports too"),
     3},
    {"host", KEY_HOST, NULL, 0,
     N_("in the timeline, every recorded range and call of the host, with arrows to what it launched"), 3},
    {"quiet", 'q', NULL, 0, N_("no progress and no warnings"), 3},
    {NULL, 0, NULL, 0, NULL, 0}};

static int wants_stdout(const char *path) { return path && strcmp(path, "-") == 0; }

static void finish(struct args *a, struct argp_state *state)
{
    if (!a->file)
        gw_cli_usage(state, _("no FILE given"));
    if (!a->timeline && !a->gaps && !a->findings) {
        if (isatty(STDOUT_FILENO))
            gw_cli_usage(state, _("the timeline would fill the terminal; give -o FILE"));
        a->timeline = "-";
    }
    if (wants_stdout(a->timeline) + wants_stdout(a->gaps) + wants_stdout(a->findings) > 1)
        gw_cli_usage(state, _("only one of them fits into standard output"));
}

static const char *file_name(const char *arg, const char *option, struct argp_state *state)
{
    if (!*arg)
        gw_cli_usage(state, _("%s needs a file name, or '-'"), option);
    return arg;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &a->cli; return 0;
    case 'o': a->timeline = file_name(arg, "--output", state); return 0;
    case KEY_GAPS: a->gaps = file_name(arg, "--gaps", state); return 0;
    case KEY_FINDINGS: a->findings = file_name(arg, "--findings", state); return 0;
    case KEY_HOST: a->o.host = 1; return 0;
    case 'q': a->cli.quiet = 1; return 0;
    case ARGP_KEY_ARG:
        if (a->file)
            gw_cli_usage(state, _("one FILE at a time"));
        if (!*arg)
            gw_cli_usage(state, _("an empty file name"));
        a->file = arg;
        return 0;
    case ARGP_KEY_END: finish(a, state); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&gw_argp_input, 0, NULL, 0}, {NULL, 0, NULL, 0}};

const struct argp gw_argp_export = {options,
                                    parse,
                                    N_("FILE"),
                                    N_("Writes what the analysis of a recording knows, for other programs: the "
                                       "timeline with the cause of every idle span, "
                                       "idle time piece by piece, the findings.\v"
                                       "Examples:\n"
                                       "  gpuwhy export trace.json.gz -o timeline.json\n"
                                       "  gpuwhy export trace.json.gz --gaps gaps.csv --findings findings.csv\n"
                                       "  gpuwhy export trace.json.gz --gaps - | head"),
                                    children,
                                    NULL,
                                    NULL};

struct job {
    const struct gw_analysis *an;
    const struct gw_report *rep;
    const struct gw_export_options *o;
    int rc; /* GW_ENOMEM; trouble with the stream is seen by gw_cli_write() */
};

static void write_timeline(FILE *out, void *user)
{
    struct job *j = user;
    j->rc = gw_export_timeline(j->an, out, j->o);
}

static void write_gaps(FILE *out, void *user)
{
    struct job *j = user;
    (void)gw_export_gaps(j->an, out);
}

static void write_findings(FILE *out, void *user)
{
    struct job *j = user;
    (void)gw_export_findings(j->rep, out);
}

static int write_all(const struct args *a, struct job *j)
{
    int status = GW_EXIT_OK, s;
    if (a->timeline) {
        status = gw_cli_write(a->timeline, write_timeline, j);
        if (j->rc == GW_ENOMEM)
            status = gw_cli_no_memory(a->file);
    }
    if (a->gaps && status == GW_EXIT_OK)
        status = gw_cli_write(a->gaps, write_gaps, j);
    if (a->findings) {
        s = gw_cli_write(a->findings, write_findings, j);
        status = s > status ? s : status;
    }
    return status;
}

/* The findings alone need no timeline: everything that has a report will do. */
static int findings_only(const struct args *a, int *interrupted)
{
    struct gw_loaded l;
    char *path = a->file;
    int status = gw_load(&l, &path, 1, &a->cli);
    struct job j = {.rep = l.report};
    *interrupted = l.interrupted;
    if (l.report)
        status = write_all(a, &j);
    else if (l.count) {
        gw_cli_error(_("%s: the recordings in it are not the ranks of one job: %s"), path, l.misfit);
        status = GW_EXIT_INPUT;
    }
    gw_load_free(&l);
    return status;
}

static int one_recording(const struct args *a, int *interrupted)
{
    struct gw_trace *t = gw_cli_trace(&a->cli);
    if (!t)
        return gw_cli_no_memory(a->file);
    struct gw_beside b;
    int status = gw_cli_import(t, strcmp(a->file, "-") == 0 ? "/dev/stdin" : a->file, &a->cli, &b);
    *interrupted = b.interrupted;
    if (status == GW_EXIT_OK) {
        struct gw_analysis *an = gw_analyse(t, t->arena);
        struct job j = {.an = an, .o = &a->o};
        j.rep = a->findings ? gw_cli_report(an, &b, t->arena) : NULL;
        status = !an || (a->findings && !j.rep) ? gw_cli_no_memory(a->file) : write_all(a, &j);
    }
    gw_beside_free(&b);
    gw_trace_destroy(t);
    return status;
}

int gw_cmd_export(int argc, char **argv)
{
    struct args a;
    int status, interrupted = 0;
    memset(&a, 0, sizeof a);
    gw_cli_parse(&gw_argp_export, argc, argv, &a);
    const char *const outputs[] = {a.timeline, a.gaps, a.findings};
    for (size_t i = 0; i < 3; i++)
        if (outputs[i] && gw_cli_same_file(outputs[i], a.file)) {
            gw_cli_error(_("%s would be overwritten; give another name"), a.file);
            return GW_EXIT_USAGE;
        }
    if (!a.timeline && !a.gaps) {
        status = findings_only(&a, &interrupted);
    } else if (gw_load_is_folder(a.file) || gw_load_is_saved(a.file)) {
        gw_cli_error(
            _("%s: a timeline needs one recording; folders and JSON reports have none (--findings takes them)"),
            a.file);
        status = GW_EXIT_INPUT;
    } else {
        status = one_recording(&a, &interrupted);
    }
    if (interrupted)
        raise(SIGINT);
    return status;
}
