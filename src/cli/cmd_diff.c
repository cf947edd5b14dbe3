#include "cli/cli.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/load.h"
#include "report/diff_report.h"
#include "report/html/html.h"

#define GATES_MAX 64

enum { KEY_FAIL_IF = 0x2000, KEY_NOISE, KEY_STRICT };

struct args {
    struct gw_cli_options cli;
    char **files;
    int count;
    struct gw_gate_result gates[GATES_MAX];
    size_t gate_count;
    double noise; /* NAN: not given */
    int strict;
};

static const struct argp_option options[] = {
    {NULL, 0, NULL, 0, N_("Comparing:"), 3},
    {"fail-if", KEY_FAIL_IF, N_("GATE"), 0,
     N_("end with status 1 when GATE is crossed: METRIC>LIMIT or METRIC<LIMIT. METRIC is step (the median), mean, "
        "compute, comm, "
        "copies, idle, kernel:NAME or cause:ID; LIMIT with a sign is a change from A to B (+5%, -2ms), without one the "
        "value of "
        "B (20ms; 30% of its step). May be given several times"),
     3},
    {"noise", KEY_NOISE, N_("PERCENT"), 0,
     N_("what recordings of one job differ by on this machine (default: 1 where the GPU sets the pace, 10 where the "
        "host does)"),
     3},
    {"strict", KEY_STRICT, NULL, 0, N_("gates count changes within the noise too"), 3},
    {NULL, 0, NULL, 0, NULL, 0}};

static void add_gate(struct args *a, const char *text, struct argp_state *state)
{
    char why[200];
    if (a->gate_count == GATES_MAX)
        gw_cli_usage(state, _("more than %d gates"), GATES_MAX);
    struct gw_gate_result *g = a->gates + a->gate_count++;
    g->text = text;
    if (gw_gate_parse(text, &g->gate, why, sizeof why) < 0)
        gw_cli_usage(state, _("--fail-if '%s': %s"), text, why);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    char *end;
    switch (key) {
    case ARGP_KEY_INIT: gw_cli_children(state, &a->cli); return 0;
    case KEY_FAIL_IF: add_gate(a, arg, state); return 0;
    case KEY_STRICT: a->strict = 1; return 0;
    case KEY_NOISE:
        a->noise = strtod(arg, &end) / 100;
        if (end == arg || (*end && strcmp(end, "%") != 0) || !(a->noise >= 0 && a->noise <= 1))
            gw_cli_usage(state, _("--noise=%s is no percentage from 0 to 100"), arg);
        return 0;
    case ARGP_KEY_ARG: return ARGP_ERR_UNKNOWN; /* all of them come in ARGP_KEY_ARGS */
    case ARGP_KEY_ARGS:
        a->files = state->argv + state->next;
        a->count = state->argc - state->next;
        return 0;
    case ARGP_KEY_END:
        if (a->count != 2)
            gw_cli_usage(state, _("two recordings are needed: gpuwhy diff BEFORE AFTER"));
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {
    {&gw_argp_input, 0, NULL, 0}, {&gw_argp_output, 0, NULL, 0}, {NULL, 0, NULL, 0}};

const struct argp gw_argp_diff = {options,
                                  parse,
                                  N_("A B"),
                                  N_("Compares two recordings, JSON reports, or folders with the ranks of a job: what "
                                     "changed in a step and where, whether "
                                     "it is more than noise, and whether A's verdict kept its promise.\v"
                                     "Examples:\n"
                                     "  gpuwhy diff before.json.gz after.json.gz\n"
                                     "  gpuwhy diff one_gpu.json.gz traces_of_8_ranks/\n"
                                     "  gpuwhy diff --fail-if 'step>+5%' --quiet main.json pull_request.json.gz"),
                                  children,
                                  NULL,
                                  NULL};

/* The report of one side. An exit status. */
static int load(struct gw_loaded *l, char *path, const struct gw_cli_options *o)
{
    int status = gw_load(l, &path, 1, o);
    if (l->report && (status == GW_EXIT_OK || gw_load_is_folder(path)))
        return GW_EXIT_OK;
    if (!l->report && l->count) {
        gw_cli_error(_("%s: the recordings in it are not the ranks of one job: %s"), path, l->misfit);
        return GW_EXIT_INPUT;
    }
    return status ? status : GW_EXIT_INPUT;
}

struct output {
    struct gw_diff_view view;
    struct gw_render_options render;
};

static void write_text(FILE *out, void *user)
{
    struct output *o = user;
    (void)gw_render_diff_terminal(&o->view, out, &o->render);
}

static void write_json(FILE *out, void *user)
{
    struct output *o = user;
    (void)gw_render_diff_json(&o->view, out);
}

static void write_html(FILE *out, void *user)
{
    struct output *o = user;
    (void)gw_render_html_diff(&o->view, out);
}

/* With --quiet the exit status is the answer: nothing is printed but what a file was asked for. */
static int emit(const struct args *a, struct output *o)
{
    int status = GW_EXIT_OK, s;
    if (!gw_cli_no_text(&a->cli) && !a->cli.quiet) {
        gw_cli_render_options(&a->cli, &o->render);
        status = gw_cli_write(NULL, write_text, o);
    }
    if (a->cli.json) {
        s = gw_cli_write(a->cli.json, write_json, o);
        status = s > status ? s : status;
    }
    if (a->cli.html) {
        s = gw_cli_write(a->cli.html, write_html, o);
        status = s > status ? s : status;
    }
    return status;
}

/* A gate that cannot be told counts as crossed: a check that checks nothing must not pass. */
static int check_gates(struct args *a, const struct gw_diff *d)
{
    int crossed = 0;
    for (size_t i = 0; i < a->gate_count; i++) {
        struct gw_gate_result *g = a->gates + i;
        g->crossed = gw_gate_crossed(d, &g->gate, a->strict, &g->value);
        if (g->crossed < 0)
            gw_cli_error(_("--fail-if '%s' cannot be told: %s"), g->text,
                         d->why_not ? _(d->why_not) : _("a value is missing"));
        else if (g->crossed && a->cli.quiet)
            gw_cli_error(_("crossed: %s (%.4g%s)"), g->text, g->gate.percent ? g->value : g->value / 1e6,
                         g->gate.percent ? " %" : " ms");
        crossed |= g->crossed != 0;
    }
    return crossed;
}

int gw_cmd_diff(int argc, char **argv)
{
    struct args a;
    struct gw_loaded l[2];
    struct output o;
    memset(&a, 0, sizeof a);
    memset(l, 0, sizeof l);
    memset(&o, 0, sizeof o);
    a.noise = NAN;
    gw_cli_parse(&gw_argp_diff, argc, argv, &a);
    int status = gw_cli_spares_inputs(a.files, 2, &a.cli), interrupted = 0;
    for (int i = 0; i < 2 && status == GW_EXIT_OK && !interrupted; i++) {
        status = load(l + i, a.files[i], &a.cli);
        interrupted = l[i].interrupted;
    }
    if (status == GW_EXIT_OK && !interrupted) { /* half a recording is no basis for a comparison */
        const struct gw_diff_options opt = {.run_noise = a.noise};
        struct gw_diff *d = gw_diff_make(l[0].report, l[1].report, &opt, l[0].arena);
        if (d) {
            int crossed = check_gates(&a, d);
            o.view = (struct gw_diff_view){
                .d = d, .a = a.files[0], .b = a.files[1], .gates = a.gates, .gate_count = a.gate_count};
            status = emit(&a, &o);
            if (status == GW_EXIT_OK && crossed)
                status = GW_EXIT_GATE;
        } else {
            status = gw_cli_no_memory(a.files[0]);
        }
    }
    gw_load_free(l);
    gw_load_free(l + 1);
    if (interrupted)
        raise(SIGINT);
    return status;
}
