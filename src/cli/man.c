/* The manual page, in the man(7) macros, from the command table and the option tables of argp. */
#include <string.h>

#include "cli/cli.h"

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

/* The part of an argp doc before '\v' as a paragraph, the part after it line by line. */
static void doc(FILE *out, const struct argp *argp)
{
    char head[2048];
    if (!argp->doc)
        return;
    size_t n = strcspn(argp->doc, "\v");
    snprintf(head, sizeof head, "%.*s", (int)n, argp->doc);
    text(out, head);
    fputc('\n', out);
    option_rows(out, argp);
    if (argp->doc[n]) {
        fputs(".PP\n.nf\n", out);
        text(out, argp->doc + n + 1);
        fputs("\n.fi\n", out);
    }
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

static void command(FILE *out, const struct gw_command *c)
{
    fputs(".SS gpuwhy ", out);
    text(out, c->name);
    fputs(" [OPTION...] ", out);
    if (c->argp->args_doc)
        text(out, c->argp->args_doc);
    fputc('\n', out);
    doc(out, c->argp);
}

void gw_man_write(FILE *out)
{
    fprintf(out,
            ".\\\" Made by `make docs` from the tables of the program; do not edit.\n"
            ".TH GPUWHY 1 \"\" \"gpuwhy %s\" \"User Commands\"\n",
            GW_VERSION);
    fputs(".SH NAME\ngpuwhy \\- say why a GPU is under\\-used, and what to change\n"
          ".SH SYNOPSIS\n\\fBgpuwhy\\fR \\fICOMMAND\\fR [\\fIOPTION...\\fR]\n"
          ".SH DESCRIPTION\n"
          "Says what the GPU of a training or inference job is waiting for, which layer is to blame, what the fix is\n"
          "worth and how to check it. The report goes to standard output; progress and warnings go to standard error.\n"
          "Every command takes \\fB\\-\\-help\\fR, \\fB\\-\\-usage\\fR and \\fB\\-\\-version\\fR.\n",
          out);
    fputs(".SH COMMANDS\n", out);
    for (const struct gw_command *c = gw_commands; c->name; c++)
        command(out, c);
    rows(out, "EXAMPLES", gw_help_examples);
    rows(out, "EXIT STATUS", gw_help_exits);
    fputs(
        ".PP\nAfter an interruption by the user the report on what was read is printed, and the program ends by that\n"
        "signal.\n",
        out);
    rows(out, "ENVIRONMENT", gw_help_environment);
}
