/* The results of the checks on a terminal: what is bad first, each with expectation and fix. */
#include <string.h>

#include "cli/check_findings.h"
#include "report/text.h"

enum { VALUE_COLUMN = 22 };

static void summary(struct gw_text *t, const struct gw_check_list *l)
{
    static const unsigned order[] = {GW_CHECK_BAD, GW_CHECK_LOOK, GW_CHECK_GOOD, GW_CHECK_UNKNOWN};
    for (size_t i = 0; i < 4; i++) {
        if (order[i] == GW_CHECK_BAD && l->by_status[GW_CHECK_BAD])
            gw_text_style(t, GW_STYLE_WARN);
        gw_text_printf(t, "%s%zu %s", i ? ", " : "", l->by_status[order[i]], _(gw_check_status_name(order[i])));
        gw_text_style(t, GW_STYLE_PLAIN);
    }
    gw_text_blank(t);
}

static void machine(struct gw_text *t, const struct gw_env *env)
{
    const char *cpu = gw_env_str(env, GW_HSTR_CPU_MODEL);
    gw_text_style(t, GW_STYLE_BOLD);
    gw_text_words(t, env->live ? _("This machine") : env->recorded ? _("From a record") : _("From captures"));
    gw_text_style(t, GW_STYLE_PLAIN);
    gw_text_words(t, _(": "));
    if (env->gpus.len)
        gw_text_printf(t, _("%zu GPU%s (%s)"), env->gpus.len, env->gpus.len > 1 ? "s" : "",
                       gw_env_gpu_at(env, 0)->name ? gw_env_gpu_at(env, 0)->name : _("unknown"));
    else
        gw_text_words(t, _("no GPU"));
    if (gw_env_str(env, GW_HSTR_DRIVER))
        gw_text_printf(t, _(", driver %s"), gw_env_str(env, GW_HSTR_DRIVER));
    if (cpu)
        gw_text_printf(t, ", %s", cpu);
    gw_text_blank(t);
}

static void field(struct gw_text *t, const char *label, const char *text)
{
    gw_text_line(t);
    gw_text_tab(t, VALUE_COLUMN);
    t->indent = VALUE_COLUMN + 2;
    gw_text_style(t, GW_STYLE_DIM);
    gw_text_words(t, label);
    gw_text_style(t, GW_STYLE_PLAIN);
    gw_text_lines(t, text);
}

static void check(struct gw_text *t, const struct gw_check *c)
{
    gw_text_line(t);
    gw_text_words(t, "  ");
    t->indent = VALUE_COLUMN;
    gw_text_tab(t, 2);
    gw_text_words(t, _(c->info->title));
    gw_text_tab(t, VALUE_COLUMN);
    gw_text_words(t, *c->value ? c->value : _("not known"));
    if (c->status >= GW_CHECK_LOOK) {
        if (*c->expect)
            field(t, _("should be: "), _(c->expect));
        if (*c->fix)
            field(t, _("fix: "), c->fix);
        if (*c->verify)
            field(t, _("check: "), c->verify);
        if (*c->cost)
            field(t, _("cost: "), c->cost);
    }
    if (c->status == GW_CHECK_UNKNOWN)
        field(t, _("needs: "), _(c->info->needs));
    t->indent = 0;
    gw_text_line(t);
}

static void heading(struct gw_text *t, unsigned status)
{
    gw_text_style(t, status == GW_CHECK_BAD ? GW_STYLE_WARN : GW_STYLE_BOLD);
    gw_text_words(t, _(gw_check_status_name(status)));
    gw_text_style(t, GW_STYLE_PLAIN);
    gw_text_line(t);
}

/* Those with something to say one by one; the others as one paragraph, unless all is asked for. */
static void unknown(struct gw_text *t, const struct gw_check_list *l, int all)
{
    int rest = 0;
    heading(t, GW_CHECK_UNKNOWN);
    for (size_t i = 0; i < l->count; i++)
        if (l->items[i].status == GW_CHECK_UNKNOWN && (all || *l->items[i].value))
            check(t, &l->items[i]);
    if (all)
        return;
    t->indent = 2;
    for (size_t i = 0; i < l->count; i++)
        rest += l->items[i].status == GW_CHECK_UNKNOWN && !*l->items[i].value;
    if (rest)
        gw_text_tab(t, 2);
    for (size_t i = 0; i < l->count; i++)
        if (l->items[i].status == GW_CHECK_UNKNOWN && !*l->items[i].value)
            gw_text_printf(t, "%s%s ", _(l->items[i].info->title), --rest ? "," : _("  (--all says what each needs)"));
    t->indent = 0;
    gw_text_line(t);
}

static void notes(struct gw_text *t, const struct gw_env *env)
{
    for (size_t i = 0; i < gw_env_count(env, GW_REC_NOTE); i++) {
        const struct gw_env_note *n = gw_env_at(env, GW_REC_NOTE, i);
        if (i == 0) {
            gw_text_blank(t);
            gw_text_style(t, GW_STYLE_BOLD);
            gw_text_words(t, _("notes"));
            gw_text_style(t, GW_STYLE_PLAIN);
            gw_text_line(t);
        }
        t->indent = 4;
        gw_text_tab(t, 2);
        gw_text_printf(t, "%s: %s", n->where ? n->where : "", n->text ? n->text : "");
        gw_text_line(t);
    }
    if (env->no_memory) {
        gw_text_tab(t, 2);
        gw_text_words(t, _("some facts were left out: more than memory or the limits allow"));
        gw_text_line(t);
    }
    t->indent = 0;
}

void gw_check_print(const struct gw_env *env, const struct gw_check_list *l, FILE *out,
                    const struct gw_render_options *o)
{
    static const unsigned order[] = {GW_CHECK_BAD, GW_CHECK_LOOK, GW_CHECK_GOOD};
    struct gw_text t = gw_text_begin(out, o);
    machine(&t, env);
    summary(&t, l);
    for (size_t k = 0; k < sizeof order / sizeof order[0]; k++) {
        if (!l->by_status[order[k]])
            continue;
        heading(&t, order[k]);
        for (size_t i = 0; i < l->count; i++)
            if (l->items[i].status == order[k])
                check(&t, &l->items[i]);
        gw_text_blank(&t);
    }
    if (l->by_status[GW_CHECK_UNKNOWN])
        unknown(&t, l, o->all);
    notes(&t, env);
}
