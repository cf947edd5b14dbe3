/* The manual pages, in the man(7) macros, from the command table and the option tables of argp. */
#include <string.h>

#include "cli/cli.h"
#include "cli/usage.h"

/* Text for troff: hyphens stay hyphens that can be copied, backslashes and leading dots are no commands. */
static void text(FILE *out, const char *s)
{
    int start = 1;
    for (; *s; s++) {
        if (start && (*s == '.' || *s == '\''))
            fputs("\\&", out);
        start = *s == '\n';
        if (*s == '\\')
            fputs("\\e", out);
        else if (*s == '-')
            fputs("\\-", out);
        else
            fputc(*s, out);
    }
}

static void option_row(FILE *out, const struct argp_option *o)
{
    int has_short = o->key > ' ' && o->key < 0x7f;
    fputs(".TP\n\\fB", out);
    if (has_short)
        fprintf(out, "\\-%c", o->key);
    if (has_short && o->name)
        fputs("\\fR, \\fB", out);
    if (o->name) {
        fputs("\\-\\-", out);
        text(out, o->name);
    }
    fputs("\\fR", out);
    if (o->arg) {
        fprintf(out, "%s=\\fI", o->flags & OPTION_ARG_OPTIONAL ? "[" : "");
        text(out, o->arg);
        fprintf(out, "\\fR%s", o->flags & OPTION_ARG_OPTIONAL ? "]" : "");
    }
    fputc('\n', out);
    if (o->doc)
        text(out, o->doc);
    fputc('\n', out);
}

static void option_rows(FILE *out, const struct argp *argp)
{
    for (const struct argp_option *o = argp->options; o && (o->name || o->key || o->doc); o++)
        if ((o->name || o->key) && !(o->flags & OPTION_HIDDEN))
            option_row(out, o);
    for (const struct argp_child *c = argp->children; c && c->argp; c++)
        option_rows(out, c->argp);
}

static void rows(FILE *out, const char *section, const struct gw_help_row *r)
{
    fprintf(out, ".SH %s\n", section);
    for (; r->name; r++) {
        fputs(".TP\n\\fB", out);
        text(out, r->name);
        fputs("\\fR\n", out);
        text(out, r->text);
        fputc('\n', out);
    }
}

static void title(FILE *out, const char *name, const char *what)
{
    fputs(".\\\" Made by `make docs` from the tables of the program; do not edit.\n.TH ", out);
    for (const char *s = name; *s; s++)
        fputc(*s >= 'a' && *s <= 'z' ? *s - 'a' + 'A' : *s, out);
    fprintf(out, " 1 \"\" \"gpuwhy %s\" \"User Commands\"\n.SH NAME\n%s \\- ", GW_VERSION, name);
    text(out, what);
    fputc('\n', out);
}

static void command_page(FILE *out, const struct gw_command *c)
{
    const struct argp common = {.options = gw_usage_common};
    char name[64], head[2048];
    snprintf(name, sizeof name, "gpuwhy-%s", c->name);
    title(out, name, c->help);
    fprintf(out, ".SH SYNOPSIS\n\\fBgpuwhy %s\\fR [\\fIOPTION...\\fR] ", c->name);
    text(out, c->argp->args_doc ? c->argp->args_doc : "");
    fputs("\n.SH DESCRIPTION\n", out);
    size_t n = strcspn(c->argp->doc, "\v");
    snprintf(head, sizeof head, "%.*s", (int)n, c->argp->doc);
    text(out, head);
    fputs("\n.SH OPTIONS\n", out);
    option_rows(out, c->argp);
    option_rows(out, &common);
    if (c->argp->doc[n]) { /* "...:\n  example" as in --help */
        fputs(".SH EXAMPLES\n.nf\n", out);
        const char *rest = c->argp->doc + n + 1;
        text(out, strncmp(rest, "Examples:\n", 10) == 0 ? rest + 10 : rest);
        fputs("\n.fi\n", out);
    }
    rows(out, "EXIT STATUS", gw_help_exits);
    fputs(".SH SEE ALSO\n.BR gpuwhy (1)\n", out);
}

static void program_page(FILE *out)
{
    title(out, "gpuwhy", "say why a GPU is under-used, and what to change");
    fputs(
        ".SH SYNOPSIS\n\\fBgpuwhy\\fR \\fICOMMAND\\fR [\\fIOPTION...\\fR]\n"
        ".SH DESCRIPTION\n"
        "Says what the GPU of a training or inference job is waiting for, which layer is to blame, what the fix is\n"
        "worth and how to check it. The report goes to standard output; progress and warnings go to standard error.\n"
        "Every command takes \\fB\\-\\-lang\\fR, \\fB\\-\\-help\\fR, \\fB\\-\\-usage\\fR and \\fB\\-\\-version\\fR.\n",
        out);
    fputs(".SH COMMANDS\n", out);
    for (const struct gw_command *c = gw_commands; c->name; c++) {
        fprintf(out, ".TP\n.BR gpuwhy\\-%s (1)\n", c->name);
        text(out, c->help);
        fputc('\n', out);
    }
    rows(out, "EXAMPLES", gw_help_examples);
    rows(out, "EXIT STATUS", gw_help_exits);
    fputs(
        ".PP\nAfter an interruption by the user the report on what was read is printed, and the program ends by that\n"
        "signal.\n",
        out);
    rows(out, "ENVIRONMENT", gw_help_environment);
}

void gw_man_write(FILE *out, const struct gw_command *c)
{
    if (c)
        command_page(out, c);
    else
        program_page(out);
}
