#include "report/html/html_findings.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/gw_i18n.h"
#include "layers/layers.h"
#include "report/fmt.h"
#include "report/html/html_words.h"

#define OPEN 3 /* findings that are open from the start; the others are one click away */

static void figure(struct gw_html *h, const char *label, const char *value)
{
    gw_html_raw(h, "<div>");
    gw_html_tag(h, "dt", NULL, label);
    gw_html_tag(h, "dd", NULL, value);
    gw_html_raw(h, "</div>");
}

/* What it costs and what removing it brings, as figures in a row. */
static void figures(struct gw_html *h, const struct gw_finding *f)
{
    int nothing = isfinite(f->gain.high) && f->gain.high < 1.005; /* would read "1.00" */
    char step[160];
    gw_html_raw(h, "<dl class=\"figures\">");
    if (!(nothing && strcmp(f->layer, "outside") == 0)) {
        if (isfinite(f->share_of_wall))
            figure(h, _("time lost"), gw_fmt_percent_short(f->share_of_wall).s);
        if (nothing)
            figure(h, _("gain"), _("nothing"));
        else if (isfinite(f->gain.low) && isfinite(f->gain.high))
            figure(h, _("gain"), gw_fmt_factor_range(f->gain.low, f->gain.high).s);
        else if (isfinite(f->gain.likely))
            figure(h, _("gain"), gw_fmt_factor(f->gain.likely).s);
        else
            figure(h, _("gain"), _("cannot be told"));
    }
    if (f->now_step_ns >= 0 && f->then_low_ns >= 0 && f->then_high_ns >= 0) {
        snprintf(step, sizeof step, "%s \xe2\x86\x92 %s", gw_fmt_time(f->now_step_ns).s,
                 gw_fmt_time_range(f->then_low_ns, f->then_high_ns).s);
        figure(h, _("a step without it"), step);
    }
    figure(h, _("confidence"), _(gw_confidence_id(f->confidence)));
    gw_html_raw(h, "</dl>\n");
}

static void clauses(struct gw_html *h, const char *title, const char *cls, const struct gw_evidence *list, size_t n)
{
    size_t texts = 0;
    for (size_t i = 0; i < n; i++)
        texts += list[i].text && *list[i].text;
    if (!texts)
        return;
    gw_html_tag(h, "h4", NULL, title);
    fprintf(h->out, "<ul class=\"%s\">\n", cls);
    for (size_t i = 0; i < n; i++) {
        if (!list[i].text || !*list[i].text)
            continue;
        gw_html_raw(h, "<li>");
        gw_html_rich(h, list[i].text);
        if (list[i].source && *list[i].source) {
            gw_html_raw(h, " ");
            gw_html_tag(h, "span", "source", gw_html_source(list[i].source));
        }
        gw_html_raw(h, "</li>\n");
    }
    gw_html_raw(h, "</ul>\n");
}

static void places(struct gw_html *h, const struct gw_finding *f)
{
    if (!f->where_count)
        return;
    gw_html_tag(h, "h4", NULL, _("Where"));
    gw_html_raw(h, "<ul class=\"where\">\n");
    for (size_t i = 0; i < f->where_count; i++) {
        const struct gw_where *w = f->where + i;
        gw_html_raw(h, "<li>");
        if (w->file && *w->file) {
            gw_html_raw(h, "<b>");
            gw_html_text(h, w->file);
            if (w->line > 0)
                gw_html_textf(h, ":%" PRId64, w->line);
            gw_html_raw(h, "</b> ");
        }
        gw_html_tag(h, "span", "name", w->text);
        gw_html_raw(h, "<span class=\"dim num\">");
        if (w->count >= 0)
            gw_html_textf(h, " %s\xc3\x97", gw_fmt_count(w->count).s);
        if (isfinite(w->share))
            gw_html_textf(h, " %s", gw_fmt_percent_short(w->share).s);
        gw_html_raw(h, "</span></li>\n");
    }
    gw_html_raw(h, "</ul>\n");
}

static void advice(struct gw_html *h, const char *label, const char *cls, const char *text)
{
    if (!text || !*text)
        return;
    fprintf(h->out, "<div class=\"%s\">", cls);
    gw_html_tag(h, "h4", NULL, label);
    gw_html_advice(h, text);
    gw_html_raw(h, "</div>\n");
}

static void fixes(struct gw_html *h, const struct gw_finding *f)
{
    for (size_t i = 0; i < f->fix_count; i++) {
        gw_html_raw(h, "<div class=\"fix\">\n");
        advice(h, i == 0 ? _("Do") : _("Or"), "do", f->fix[i].doit);
        advice(h, _("Check"), "check", f->fix[i].check);
        advice(h, _("Cost"), "cost", f->fix[i].cost);
        gw_html_raw(h, "</div>\n");
    }
}

static void finding(struct gw_html *h, const struct gw_finding *f, size_t number, int wall_known)
{
    const struct gw_finding_info *info = gw_finding_info_find(f->id);
    const char *layer = gw_layer_name(f->layer), *title = info && info->title ? _(info->title) : f->phrase;
    fprintf(h->out, "<article id=\"finding-%zu\">\n<details%s><summary>", number + 1, number < OPEN ? " open" : "");
    if (f->rank > 0)
        gw_html_tagf(h, "span", "rank", "%d", f->rank);
    gw_html_raw(h, "<h3>");
    gw_html_text(h, title && *title ? title : f->id);
    gw_html_raw(h, "</h3><span class=\"id\">");
    gw_html_tag(h, "code", NULL, f->id);
    if (layer && *layer) {
        gw_html_raw(h, " ");
        gw_html_text(h, _(layer));
    }
    gw_html_raw(h, "</span></summary>\n<div class=\"body\">\n");
    if (wall_known)
        figures(h, f);
    clauses(h, _("Seen"), "seen", f->evidence, f->evidence_count);
    clauses(h, _("Speaks against it"), "against", f->against, f->against_count);
    places(h, f);
    fixes(h, f);
    gw_html_raw(h, "</div>\n</details>\n</article>\n");
}

void gw_html_findings(struct gw_html *h, const struct gw_finding *list, size_t n, int wall_known)
{
    if (!n)
        gw_html_tag(h, "p", NULL, _("Nothing was found that is worth a change."));
    for (size_t i = 0; i < n; i++)
        finding(h, list + i, i, wall_known);
}

void gw_html_not_evaluated(struct gw_html *h, const struct gw_not_evaluated *list, size_t n)
{
    if (!n)
        return;
    gw_html_section(h, "not-evaluated", _("Not evaluated"));
    gw_html_raw(h, "<p>");
    gw_html_text(h, _("The data at hand cannot show these. They may be fine or not."));
    gw_html_raw(h, "</p>\n<details class=\"more\"><summary>");
    gw_html_textf(
        h, gw_ngettext("%s finding, and what it would need", "%s findings, and what they would need", (unsigned long)n),
        gw_fmt_count((int64_t)n).s);
    gw_html_raw(h, "</summary>\n<dl class=\"needs\">\n");
    for (size_t i = 0; i < n; i++) {
        const struct gw_finding_info *info = gw_finding_info_find(list[i].id);
        gw_html_raw(h, "<div><dt>");
        gw_html_tag(h, "code", NULL, list[i].id);
        if (info && info->title) {
            gw_html_raw(h, " ");
            gw_html_text(h, _(info->title));
        }
        gw_html_raw(h, "</dt><dd>");
        gw_html_text(h, list[i].needs && *list[i].needs ? _(list[i].needs) : _("another recording"));
        gw_html_raw(h, "</dd></div>\n");
    }
    gw_html_raw(h, "</dl></details>\n");
    gw_html_section_end(h);
}
