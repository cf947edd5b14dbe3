#include "cli/cli.h"

#include <string.h>

#include "layers/layers.h"
#include "report/text.h"

struct args {
    struct gw_cli_options cli;
    const char *id;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    if (key != ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    if (a->id)
        gw_cli_usage(state, _("one FINDING at a time"));
    a->id = arg;
    return 0;
}

const struct argp gw_argp_explain = {
    NULL,
    parse,
    N_("[FINDING]"),
    N_("Lists the findings that a report can hold, or says what one of them means and what can show it.\v"
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
               {'L', N_("a live recording: threads, disks, limits, as the job runs")},
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

static void label(struct gw_text *t, const char *text)
{
    gw_text_line(t);
    t->indent = 2;
    gw_text_style(t, GW_STYLE_DIM);
    gw_text_words(t, text);
    gw_text_style(t, GW_STYLE_PLAIN);
    gw_text_tab(t, 12);
    t->indent = 12;
}

static const struct layer *layer_find(const char *id)
{
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        if (strcmp(layers[i].id, id) == 0)
            return &layers[i];
    return NULL;
}

static void show(struct gw_text *t, const struct gw_finding_info *f)
{
    const struct layer *l = layer_find(f->layer);
    gw_text_style(t, GW_STYLE_BOLD);
    gw_text_words(t, f->id);
    gw_text_style(t, GW_STYLE_PLAIN);
    if (f->title && *f->title)
        gw_text_printf(t, ": %s", _(f->title));
    label(t, _("layer"));
    gw_text_words(t, l ? _(l->name) : f->layer);
    if (l)
        gw_text_printf(t, ": %s", _(l->covers));
    if (f->phrase && *f->phrase) {
        label(t, _("verdict"));
        gw_text_words(t, _(f->phrase));
    }
    label(t, _("shown by"));
    size_t shown = 0;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (f->signals && strchr(f->signals, signals[i].letter))
            gw_text_printf(t, "%s%s", shown++ ? "; " : "", _(signals[i].text));
    if (!shown)
        gw_text_words(t, _("nothing that this version can read"));
    if (f->needs && *f->needs) {
        label(t, _("needs"));
        gw_text_words(t, _(f->needs));
    }
    gw_text_line(t);
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
        gw_text_printf(t, ": %s", _(layers[l].covers));
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
    if (f)
        show(&t, f);
    else
        list(&t);
    return gw_cli_flush(stdout, _("standard output"));
}
