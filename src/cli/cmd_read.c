#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

#include "import/importer.h"
#include "report/clean.h"

struct args {
    struct gw_cli_options cli;
    char **files;
    int count;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT: gw_cli_children(state, &a->cli); return 0;
    case ARGP_KEY_ARG:
        if (!*arg)
            argp_error(state, _("an empty file name"));
        return ARGP_ERR_UNKNOWN; /* all of them come in ARGP_KEY_ARGS */
    case ARGP_KEY_ARGS:
        a->files = state->argv + state->next;
        a->count = state->argc - state->next;
        return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, _("no FILE given")); return 0;
    case ARGP_KEY_END:
        if (a->count > 1 && a->cli.json)
            argp_error(state, _("--json takes one FILE at a time"));
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* Adds the list of formats to the help: one line an importer. */
static char *help_filter(int key, const char *text, void *input)
{
    (void)input;
    char *out = NULL;
    size_t size = 0;
    if (key != ARGP_KEY_HELP_POST_DOC || !text)
        return (char *)text;
    FILE *f = open_memstream(&out, &size);
    if (!f)
        return (char *)text;
    fprintf(f, "%s\n\n%s\n", text, _("Formats, recognised by content:"));
    for (size_t i = 0; gw_importers[i]; i++)
        fprintf(f, "  %-10s %s\n", gw_importers[i]->name, _(gw_importers[i]->title));
    if (fclose(f) != 0) {
        free(out);
        return (char *)text;
    }
    return out;
}

static const struct argp_child children[] = {
    {&gw_argp_input, 0, NULL, 0}, {&gw_argp_output, 0, NULL, 0}, {NULL, 0, NULL, 0}};

const struct argp gw_argp_read = {
    NULL,
    parse,
    N_("FILE..."),
    N_("Reads recordings of a job and says what its GPU was waiting for, what is to blame, what the fix is worth and "
       "how to check it. Files may be compressed; '-' is standard input. Several files are diagnosed one after the "
       "other.\v"
       "Examples:\n"
       "  gpuwhy read trace.json.gz\n"
       "  gpuwhy read --json report.json trace.json.gz\n"
       "  gpuwhy read --json - --quiet trace.json.gz | jq .verdict"),
    children,
    help_filter,
    NULL};

int gw_cmd_read(int argc, char **argv)
{
    struct args a;
    memset(&a, 0, sizeof a);
    gw_cli_parse(&gw_argp_read, argc, argv, &a);
    int status = GW_EXIT_OK;
    for (int i = 0; i < a.count; i++) {
        if (a.count > 1) {
            char name[512];
            gw_clean_copy(name, sizeof name, a.files[i], gw_cli_unicode());
            printf("%s== %s\n\n", i ? "\n" : "", name);
        }
        const char *path = strcmp(a.files[i], "-") == 0 ? "/dev/stdin" : a.files[i];
        int s = gw_cli_diagnose(path, &a.cli);
        status = s > status ? s : status;
    }
    return status;
}
