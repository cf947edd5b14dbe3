/* The results of the checks as a page: what is bad first, each with expectation and fix. */
#include <string.h>

#include "cli/check_findings.h"
#include "report/fmt.h"
#include "report/html/html_findings.h"
#include "report/html/html_page.h"

static const unsigned order[] = {GW_CHECK_BAD, GW_CHECK_LOOK, GW_CHECK_GOOD};

static void summary(struct gw_html *h, const struct gw_check_list *l)
{
    if (l->by_status[GW_CHECK_BAD])
        gw_html_textf(h,
                      gw_ngettext("%s check of this machine is bad.", "%s checks of this machine are bad.",
                                  l->by_status[GW_CHECK_BAD]),
                      gw_fmt_count((int64_t)l->by_status[GW_CHECK_BAD]).s);
    else if (l->by_status[GW_CHECK_LOOK])
        gw_html_textf(h,
                      gw_ngettext("Nothing is bad; %s check is worth a look.",
                                  "Nothing is bad; %s checks are worth a look.", l->by_status[GW_CHECK_LOOK]),
                      gw_fmt_count((int64_t)l->by_status[GW_CHECK_LOOK]).s);
    else if (l->by_status[GW_CHECK_GOOD])
        gw_html_text(h, _("Everything that could be checked is good."));
    else
        gw_html_text(h, _("Nothing could be checked."));
}

static void header(struct gw_html *h, const struct gw_env *env, const struct gw_check_list *l)
{
    const char *cpu = gw_env_str(env, GW_HSTR_CPU_MODEL), *driver = gw_env_str(env, GW_HSTR_DRIVER);
    gw_html_raw(h, "<header>\n<p class=\"brand\"><b>gpuwhy</b> ");
    gw_html_text(h, env->live       ? _("this machine")
                    : env->recorded ? _("a machine, from a record")
                                    : _("a machine, from captures"));
    gw_html_raw(h, "</p>\n<h1>");
    summary(h, l);
    gw_html_raw(h, "</h1>\n<ul class=\"facts\">");
    if (env->gpus.len)
        gw_html_tagf(h, "li", NULL, "%zu\xc2\xa0\xc3\x97 %s", env->gpus.len,
                     gw_env_gpu_at(env, 0)->name ? gw_env_gpu_at(env, 0)->name : _("unknown GPU"));
    else
        gw_html_tag(h, "li", NULL, _("no GPU"));
    if (driver)
        gw_html_tagf(h, "li", NULL, _("driver %s"), driver);
    if (cpu)
        gw_html_tag(h, "li", NULL, cpu);
    for (unsigned i = 0; i < 3; i++)
        gw_html_tagf(h, "li", NULL, "%zu %s", l->by_status[order[i]], _(gw_check_status_name(order[i])));
    gw_html_tagf(h, "li", NULL, "%zu %s", l->by_status[GW_CHECK_UNKNOWN], _(gw_check_status_name(GW_CHECK_UNKNOWN)));
    gw_html_raw(h, "</ul>\n</header>\n<main>\n");
}

static void field(struct gw_html *h, const char *label, const char *text)
{
    if (!*text)
        return;
    gw_html_raw(h, "<div class=\"do\">");
    gw_html_tag(h, "h4", NULL, label);
    gw_html_advice(h, text);
    gw_html_raw(h, "</div>\n");
}

static void check(struct gw_html *h, const struct gw_check *c)
{
    gw_html_raw(h, "<article>\n<h3>");
    gw_html_text(h, _(c->info->title));
    gw_html_raw(h, " <span class=\"dim\">");
    gw_html_text(h, *c->value ? c->value : _("not known"));
    gw_html_raw(h, "</span></h3>\n");
    if (*c->expect) {
        gw_html_raw(h, "<p class=\"dim\">");
        gw_html_textf(h, _("should be: %s"), _(c->expect));
        gw_html_raw(h, "</p>\n");
    }
    if (c->evidence_count) {
        gw_html_raw(h, "<ul class=\"seen\">\n");
        for (size_t i = 0; i < c->evidence_count; i++)
            gw_html_tag(h, "li", NULL, c->evidence[i].text);
        gw_html_raw(h, "</ul>\n");
    }
    if (*c->fix) {
        gw_html_raw(h, "<div class=\"fix\">\n");
        field(h, _("Do"), c->fix);
        field(h, _("Check"), c->verify);
        field(h, _("Cost"), c->cost);
        gw_html_raw(h, "</div>\n");
    }
    gw_html_raw(h, "</article>\n");
}

static void good(struct gw_html *h, const struct gw_check_list *l)
{
    gw_html_raw(h, "<dl class=\"needs cap\">\n");
    for (size_t i = 0; i < l->count; i++) {
        if (l->items[i].status != GW_CHECK_GOOD)
            continue;
        gw_html_raw(h, "<div>");
        gw_html_tag(h, "dt", NULL, _(l->items[i].info->title));
        gw_html_tag(h, "dd", NULL, l->items[i].value);
        gw_html_raw(h, "</div>\n");
    }
    gw_html_raw(h, "</dl>\n");
}

static void unknown(struct gw_html *h, const struct gw_check_list *l)
{
    if (!l->by_status[GW_CHECK_UNKNOWN])
        return;
    gw_html_section(h, "not-evaluated", _("Not evaluated"));
    gw_html_tag(h, "p", NULL, _("The data at hand cannot show these. They may be fine or not."));
    gw_html_raw(h, "<dl class=\"needs cap\">\n");
    for (size_t i = 0; i < l->count; i++) {
        const struct gw_check *c = l->items + i;
        if (c->status != GW_CHECK_UNKNOWN)
            continue;
        gw_html_raw(h, "<div><dt>");
        gw_html_text(h, _(c->info->title));
        if (*c->value) {
            gw_html_raw(h, " ");
            gw_html_tag(h, "span", "dim", c->value);
        }
        gw_html_raw(h, "</dt>");
        gw_html_tagf(h, "dd", NULL, _("needs %s"), _(c->info->needs));
        gw_html_raw(h, "</div>\n");
    }
    gw_html_raw(h, "</dl>\n");
    gw_html_section_end(h);
}

static void notes(struct gw_html *h, const struct gw_env *env)
{
    size_t n = gw_env_count(env, GW_REC_NOTE);
    if (!n && !env->no_memory)
        return;
    gw_html_section(h, "trust", _("Trust"));
    gw_html_raw(h, "<ul class=\"trust\">\n");
    for (size_t i = 0; i < n; i++) {
        const struct gw_env_note *note = gw_env_at(env, GW_REC_NOTE, i);
        gw_html_tagf(h, "li", NULL, "%s: %s", note->where ? note->where : "", note->text ? note->text : "");
    }
    if (env->no_memory)
        gw_html_tag(h, "li", NULL, _("Some facts were left out: more than memory or the limits allow."));
    gw_html_raw(h, "</ul>\n");
    gw_html_section_end(h);
}

void gw_check_html(const struct gw_env *env, const struct gw_check_list *l, struct gw_arena *arena, FILE *out)
{
    static const char *const ids[] = {"bad", "look", "good"};
    const char *const titles[] = {_("Bad"), _("Worth a look"), _("Good")};
    struct gw_html h = gw_html_begin(out, _("gpuwhy: checks of a machine"));
    header(&h, env, l);
    for (size_t k = 0; k < 3; k++) {
        if (!l->by_status[order[k]])
            continue;
        gw_html_section(&h, ids[k], titles[k]);
        for (size_t i = 0; order[k] != GW_CHECK_GOOD && i < l->count; i++)
            if (l->items[i].status == order[k])
                check(&h, l->items + i);
        if (order[k] == GW_CHECK_GOOD)
            good(&h, l);
        gw_html_section_end(&h);
    }
    unknown(&h, l);
    notes(&h, env);
    gw_html_raw(&h, "</main>\n");
    FILE *data = gw_html_data(&h, "gw-check");
    if (data) {
        gw_check_json(env, l, arena, data);
        gw_html_data_end(&h, data);
    }
    (void)gw_html_end(&h); /* trouble is kept by the stream */
}
