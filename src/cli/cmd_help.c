#include "cli/cli.h"

#include <string.h>

#include "report/text.h"

const struct gw_help_row gw_help_examples[] = {
    {"gpuwhy read trace.json.gz", N_("diagnose a recording of torch.profiler")},
    {"gpuwhy read --json report.json trace.json.gz", N_("and keep the report for scripts")},
    {"gpuwhy diff before.json.gz after.json.gz", N_("what a change did to a step, and whether it is more than noise")},
    {"gpuwhy explain host-sync", N_("what a finding means, and what can show it")},
    {NULL, NULL}};

const struct gw_help_row gw_help_exits[] = {
    {"0", N_("done, whatever the verdict")},
    {"1", N_("a gate that the user set was crossed")},
    {"2", N_("wrong usage")},
    {"3", N_("input that cannot be used")},
    {"4", N_("the program failed, ran out of memory, or could not write its output")},
    {NULL, NULL}};

const struct gw_help_row gw_help_environment[] = {
    {"NO_COLOR", N_("when set and not empty, no colours are used")},
    {"TERM", N_("when unset, empty or \"dumb\", neither colours nor progress are shown")},
    {"LC_ALL, LC_CTYPE, LANG", N_("without a UTF-8 locale, bars and signs are drawn in ASCII")},
    {"LANGUAGE, LC_ALL, LC_MESSAGES, LANG",
     N_("the language of the texts, unless --lang names one: English, or Chinese for zh_CN")},
    {NULL, NULL}};

struct args {
    const char *command, *shell;
    int man;
};

enum { KEY_MAN = 0x1000, KEY_COMPLETION };

static const struct argp_option options[] = {
    {"completion", KEY_COMPLETION, N_("SHELL"), 0, N_("write the completion for bash, zsh or fish"), 0},
    {"man", KEY_MAN, NULL, OPTION_HIDDEN, NULL, 0}, /* for docs/man/ */
    {NULL, 0, NULL, 0, NULL, 0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    switch (key) {
    case KEY_MAN: a->man = 1; return 0;
    case KEY_COMPLETION: a->shell = arg; return 0;
    case ARGP_KEY_ARG:
        if (a->command)
            gw_cli_usage(state, _("one COMMAND at a time"));
        a->command = arg;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

const struct argp gw_argp_help = {
    options,
    parse,
    N_("[COMMAND]"),
    N_("Shows the help of a command, or of the program.\v"
       "Examples:\n"
       "  gpuwhy help read\n"
       "  gpuwhy help --completion bash > ~/.local/share/bash-completion/completions/gpuwhy"),
    NULL,
    NULL,
    NULL};

static void rows(struct gw_text *t, const struct gw_help_row *r, int column)
{
    for (; r->name; r++) {
        t->indent = 2;
        gw_text_words(t, r->name);
        if (t->col + 2 > column)
            gw_text_line(t);
        gw_text_tab(t, column);
        t->indent = column;
        gw_text_words(t, _(r->text));
        gw_text_line(t);
    }
}

static void title(struct gw_text *t, const char *text)
{
    gw_text_blank(t);
    t->indent = 0;
    gw_text_words(t, text);
    gw_text_line(t);
}

void gw_help_write(FILE *out)
{
    struct gw_render_options o = {.unicode = gw_cli_unicode()};
    struct gw_text t = gw_text_begin(out, &o);
    gw_text_words(&t, _("Usage: gpuwhy COMMAND [OPTION...]"));
    gw_text_blank(&t);
    gw_text_words(&t,
                  _("Says what the GPU of a training or inference job is waiting for, which layer is to blame, what "
                    "the fix is worth and how to check it."));
    gw_text_line(&t);
    title(&t, _("Commands:"));
    for (const struct gw_command *c = gw_commands; c->name; c++)
        rows(&t, (const struct gw_help_row[]){{c->name, c->help}, {NULL, NULL}}, 14);
    title(&t, _("Examples:"));
    rows(&t, gw_help_examples, 34);
    title(&t, _("Options:"));
    rows(&t, (const struct gw_help_row[]){{"--help", N_("this text; after a COMMAND, its options")}, {NULL, NULL}}, 14);
    rows(&t, (const struct gw_help_row[]){{"--version", N_("the version")}, {NULL, NULL}}, 14);
    rows(
        &t,
        (const struct gw_help_row[]){{"--lang", N_("the language: en or zh_CN (default: the locale's)")}, {NULL, NULL}},
        14);
    title(&t, _("Exit status:"));
    rows(&t, gw_help_exits, 6);
}

int gw_cmd_help(int argc, char **argv)
{
    struct args a;
    memset(&a, 0, sizeof a);
    gw_cli_parse(&gw_argp_help, argc, argv, &a);
    const struct gw_command *c = a.command ? gw_command_find(a.command) : NULL;
    if (a.command && !c) {
        gw_cli_error(_("unknown command '%s'; see: gpuwhy --help"), a.command);
        return GW_EXIT_USAGE;
    }
    if (a.shell && gw_complete_write(stdout, a.shell) < 0)
        gw_cli_misuse(argv[0], _("--completion=%s is neither bash, zsh nor fish"), a.shell);
    if (a.man)
        gw_man_write(stdout, c);
    if (a.man || a.shell)
        return gw_cli_flush(stdout, _("standard output"));
    if (!a.command) {
        gw_help_write(stdout);
        return gw_cli_flush(stdout, _("standard output"));
    }
    char name[64], option[] = "--help", *args[] = {name, option, NULL};
    snprintf(name, sizeof name, "gpuwhy %s", c->name);
    return c->run(2, args);
}
