#include "cli/cli.h"

#include <string.h>

#include "layers/finding_page.h"
#include "layers/layers.h"
#include "report/clean.h"
#include "report/text.h"

struct args {
    struct gw_cli_options cli;
    const char *id;
    int markdown;
};

enum { KEY_MARKDOWN = 0x1000 };

static const struct argp_option options[] = {
    {"markdown", KEY_MARKDOWN, NULL, OPTION_HIDDEN, NULL, 0}, /* for docs/findings/ */
    {NULL, 0, NULL, 0, NULL, 0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    if (key == KEY_MARKDOWN) {
        a->markdown = 1;
        return 0;
    }
    if (key != ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    if (a->id)
        gw_cli_usage(state, _("one FINDING at a time"));
    a->id = arg;
    return 0;
}

const struct argp gw_argp_explain = {options,
                                     parse,
                                     N_("[FINDING]"),
                                     N_("Lists the findings that a report can hold, or explains one of them: what it "
                                        "means, how it is measured, what else "
                                        "looks like it, how to repair it and what that costs, and how to check.\v"
                                        "Examples:\n"
                                        "  gpuwhy explain\n"
                                        "  gpuwhy explain host-sync"),
                                     NULL,
                                     NULL,
                                     NULL};

static const struct layer {
    const char *id, *name, *covers;
} layers[] = {
#define GW_LAYER(sym, id, name, covers) {id, name, covers},
#include "layers/layers.def"
#undef GW_LAYER
};

static const struct {
    char letter;
    const char *text;
} signals[] = {{'K', N_("a recording of torch.profiler or Nsight Systems")},
               {'L', N_("gpuwhy run: the GPU's work, calls, threads, disks and limits, as the job runs")},
               {'C', N_("hardware counters")},
               {'R', N_("recordings of several ranks")},
               {'E', N_("the machine itself: driver, links, limits")}};

static const char *finding_id(size_t i)
{
    const struct gw_finding_info *f = gw_finding_info(i);
    return f ? f->id : NULL;
}

static struct gw_text begin(const struct gw_cli_options *o)
{
    struct gw_render_options r;
    gw_cli_render_options(o, &r);
    return gw_text_begin(stdout, &r);
}

static const struct layer *layer_find(const char *id)
{
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        if (strcmp(layers[i].id, id) == 0)
            return &layers[i];
    return NULL;
}

/* A page's parts, each with its heading, in the order in which they are shown. */
enum part { MEANS, MEASURED, ALIKE, FIX, COST, LEAVE, CHECK, PARTS };

static const char *const headings[PARTS] = {
    [MEANS] = N_("What it means"),   [MEASURED] = N_("How it is measured"), [ALIKE] = N_("What else looks like it"),
    [FIX] = N_("What to do"),        [COST] = N_("What it costs"),          [LEAVE] = N_("When to leave it"),
    [CHECK] = N_("How to check it"),
};

static const char *part_text(const struct gw_finding_page *p, enum part part)
{
    const char *const texts[PARTS] = {p->means, p->measured, p->alike, p->fix, p->cost, p->leave, p->check};
    return _(texts[part]);
}

/* Shares as percentages; counts, factors and bytes as they are. */
static void limit_text(char out[32], double v)
{
    if (v < 1)
        snprintf(out, 32, "%.3g%s%%", v * 100, GW_NBSP);
    else
        snprintf(out, 32, v < 1e5 ? "%.4g" : "%.0f", v);
}

static void heading(struct gw_text *t, const char *text)
{
    gw_text_blank(t);
    t->indent = 0;
    gw_text_style(t, GW_STYLE_BOLD);
    gw_text_words(t, text);
    gw_text_style(t, GW_STYLE_PLAIN);
    gw_text_line(t);
}

static void paragraph(struct gw_text *t, int indent, const char *text)
{
    t->indent = indent;
    gw_text_words(t, text);
    gw_text_line(t);
}

static void show_signals(struct gw_text *t, const struct gw_finding_info *f)
{
    size_t shown = 0;
    t->indent = 2;
    gw_text_words(t, _("Shown by: "));
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (f->signals && strchr(f->signals, signals[i].letter))
            gw_text_printf(t, "%s%s", shown++ ? _("; ") : "", _(signals[i].text));
    if (!shown)
        gw_text_words(t, _("nothing that this version can read"));
    gw_text_line(t);
    if (f->needs && *f->needs) {
        gw_text_printf(t, _("Needs: %s"), _(f->needs));
        gw_text_line(t);
    }
}

static void show_limits(struct gw_text *t, const char *names)
{
    const struct gw_finding_limit *l;
    while ((l = gw_finding_limit_next(&names)) != NULL) {
        char number[32];
        limit_text(number, l->value);
        t->indent = 4;
        gw_text_words(t, number);
        gw_text_tab(t, 13);
        t->indent = 13;
        gw_text_words(t, _(l->why));
        gw_text_line(t);
    }
}

/* Code stands as it is, so that it can be copied; too long a line is the terminal's to wrap. */
static void show_code(struct gw_text *t, const char *code)
{
    gw_text_blank(t);
    while (*code) {
        size_t n = strcspn(code, "\n");
        fprintf(t->out, "%s%.*s\n", n ? "      " : "", (int)n, code);
        code += n + (code[n] == '\n');
    }
}

static void show(struct gw_text *t, const struct gw_finding_info *f, const struct gw_finding_page *p)
{
    const struct layer *l = layer_find(f->layer);
    gw_text_style(t, GW_STYLE_BOLD);
    gw_text_words(t, f->id);
    gw_text_style(t, GW_STYLE_PLAIN);
    gw_text_printf(t, ": %s", _(f->title));
    gw_text_line(t);
    t->indent = 2;
    if (l)
        gw_text_printf(t, _("Layer: %s (%s)"), _(l->name), _(l->covers));
    gw_text_line(t);
    for (enum part i = 0; p && i < PARTS; i++) {
        heading(t, _(headings[i]));
        paragraph(t, 2, part_text(p, i));
        if (i == MEASURED) {
            show_limits(t, p->limits);
            show_signals(t, f);
        } else if (i == FIX) {
            show_code(t, _(p->code));
        }
    }
    if (!p)
        show_signals(t, f);
}

/* --- The same as Markdown, for docs/findings/. --- */

static void markdown(FILE *out, const struct gw_finding_info *f, const struct gw_finding_page *p)
{
    const struct layer *l = layer_find(f->layer);
    size_t shown = 0;
    fprintf(out, "<!-- %s -->\n# `%s`: %s\n\n", _("Made by `make docs` from the tables of the program; do not edit."),
            f->id, _(f->title));
    fprintf(out, _("Layer: %s (%s)"), l ? _(l->name) : "", l ? _(l->covers) : "");
    fprintf(out, "  \n%s", _("Shown by: "));
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (strchr(f->signals, signals[i].letter))
            fprintf(out, "%s%s", shown++ ? _("; ") : "", _(signals[i].text));
    if (f->needs && *f->needs) {
        fputs("  \n", out);
        fprintf(out, _("Needs: %s"), _(f->needs));
    }
    fputs("\n", out);
    for (enum part i = 0; i < PARTS; i++) {
        fprintf(out, "\n## %s\n\n%s\n", _(headings[i]), part_text(p, i));
        const struct gw_finding_limit *limit;
        const char *names = i == MEASURED ? p->limits : "";
        while ((limit = gw_finding_limit_next(&names)) != NULL) {
            char number[32];
            limit_text(number, limit->value);
            gw_cli_plain_blanks(number);
            fprintf(out, "%s* %s (`%s`): %s\n", names == p->limits + strlen(limit->name) ? "\n" : "", number,
                    limit->name, _(limit->why));
        }
        if (i == FIX)
            fprintf(out, "\n```\n%s\n```\n", _(p->code));
    }
}

static void markdown_list(FILE *out)
{
    fprintf(out, "<!-- %s -->\n# %s\n\n%s\n", _("Made by `make docs` from the tables of the program; do not edit."),
            _("Findings"),
            _("Each page says what the finding means, how it is measured, what else looks like it, what to do and what "
              "that "
              "costs, when to leave it and how to check. `gpuwhy explain ID` shows the same."));
    for (size_t l = 0; l < sizeof layers / sizeof *layers; l++) {
        const struct gw_finding_info *f;
        fprintf(out, "\n## %s\n\n", _(layers[l].name));
        fprintf(out, _("In short: %s.\n\n"), _(layers[l].covers));
        for (size_t i = 0; (f = gw_finding_info(i)) != NULL; i++)
            if (strcmp(f->layer, layers[l].id) == 0)
                fprintf(out, "* [%s](%s.md): %s\n", f->id, f->id, _(f->title));
        if (strcmp(layers[l].id, "outside") == 0)
            fprintf(out, "* [none](none.md): %s\n", _("this job is fine"));
    }
}

static void list(struct gw_text *t)
{
    for (size_t l = 0; l < sizeof layers / sizeof *layers; l++) {
        if (l)
            gw_text_blank(t);
        t->indent = 0;
        gw_text_style(t, GW_STYLE_BOLD);
        gw_text_words(t, _(layers[l].name));
        gw_text_style(t, GW_STYLE_PLAIN);
        gw_text_printf(t, _(": %s"), _(layers[l].covers));
        const struct gw_finding_info *f;
        for (size_t i = 0; (f = gw_finding_info(i)) != NULL; i++) {
            if (strcmp(f->layer, layers[l].id) != 0)
                continue;
            gw_text_line(t);
            t->indent = 2;
            gw_text_words(t, f->id);
            gw_text_tab(t, 26);
            t->indent = 26;
            gw_text_words(t, f->title ? _(f->title) : "");
        }
        gw_text_line(t);
    }
}

/* The verdict that is no finding. */
static const struct gw_finding_info none = {.id = "none",
                                            .layer = "outside",
                                            .title = N_("this job is fine"),
                                            .phrase =
                                                N_("nothing that the recording can show is worth 3 % of the time"),
                                            .signals = "KLC"};

int gw_cmd_explain(int argc, char **argv)
{
    struct args a;
    memset(&a, 0, sizeof a);
    gw_cli_parse(&gw_argp_explain, argc, argv, &a);
    const struct gw_finding_info *f = a.id ? gw_finding_info_find(a.id) : NULL;
    if (a.id && strcmp(a.id, none.id) == 0)
        f = &none;
    if (a.id && !f) {
        const char *near = gw_cli_nearest(a.id, finding_id);
        if (near)
            gw_cli_error(_("no finding is called '%s'; did you mean '%s'?"), a.id, near);
        else
            gw_cli_error(_("no finding is called '%s'; see: gpuwhy explain"), a.id);
        return GW_EXIT_USAGE;
    }
    struct gw_text t = begin(&a.cli);
    if (a.markdown && f)
        markdown(stdout, f, gw_finding_page(f->id));
    else if (a.markdown)
        markdown_list(stdout);
    else if (f)
        show(&t, f, gw_finding_page(f->id));
    else
        list(&t);
    return gw_cli_flush(stdout, _("standard output"));
}
