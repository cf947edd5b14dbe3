/* The page of a comparison: the answer, two steps beside each other, what changed, remarks, gates. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/gw_i18n.h"
#include "report/diff_words.h"
#include "report/html/html.h"
#include "report/html/html_page.h"
#include "report/html/html_words.h"

#define KERNELS_SHOWN 30

static const char *part_class(const char *id) { return strcmp(id, "comm") == 0 ? "comm" : id; }

static const char *part_name(const char *id)
{
    static const struct {
        const char *id, *name;
    } names[] = {
        {"compute", N_("compute")}, {"comm", N_("communication")}, {"copies", N_("copies")}, {"idle", N_("idle")}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].id, id) == 0)
            return _(names[i].name);
    return id;
}

static unsigned cause_of(const char *id)
{
    for (unsigned c = 0; c < GW_CAUSE_COUNT; c++)
        if (strcmp(gw_cause_id(c), id) == 0)
            return c;
    return GW_CAUSE_UNEXPLAINED;
}

/* ---- the two sides ---- */

static void side(struct gw_html *h, const char *letter, const char *name, const struct gw_diff_side *s)
{
    gw_html_raw(h, "<div class=\"side\"><h2>");
    gw_html_textf(h, "%s ", letter);
    gw_html_tag(h, "span", "name", name);
    gw_html_raw(h, "</h2>\n<ul class=\"facts\">");
    if (s->dev && *s->dev->name)
        gw_html_tag(h, "li", NULL, s->dev->name);
    if (s->ranks > 1)
        gw_html_tagf(h, "li", NULL, _("%s GPUs"), gw_fmt_count(s->ranks).s);
    if (s->rep->framework && *s->rep->framework)
        gw_html_tag(h, "li", NULL, s->rep->framework);
    if (s->steps > 0)
        gw_html_tagf(h, "li", NULL, _("%s steady steps"), gw_fmt_count((int64_t)s->steps).s);
    else
        gw_html_tag(h, "li", NULL, _("no steps found"));
    if (isfinite(s->scatter))
        gw_html_tagf(h, "li", NULL, _("scatter %s"), gw_fmt_percent(s->scatter).s);
    gw_html_tagf(h, "li", NULL, _("verdict: %s"), s->rep->verdict.finding ? s->rep->verdict.finding : "none");
    gw_html_raw(h, "</ul></div>\n");
}

/* A bar of the parts of a step; both bars of a page have one scale. */
static void bar(struct gw_html *h, const struct gw_diff *d, int b, double longest)
{
    gw_html_textf(h, "%s", b ? "B" : "A");
    gw_html_raw(h, "<div class=\"bar\" role=\"img\" aria-label=\"");
    for (size_t i = 0; i < d->part_count; i++) {
        double v = b ? d->parts[i].b : d->parts[i].a;
        if (v > 0)
            gw_html_textf(h, "%s %s. ", part_name(d->parts[i].id), gw_diff_time(v).s);
    }
    gw_html_raw(h, "\">");
    for (size_t i = 0; i < d->part_count; i++) {
        double v = b ? d->parts[i].b : d->parts[i].a;
        if (v > 0) {
            gw_html_raw(h, "<span class=\"p-");
            gw_html_word(h, part_class(d->parts[i].id));
            fprintf(h->out, "\" style=\"width:%s%%\"></span>", gw_html_width(v / longest).s);
        }
    }
    gw_html_raw(h, "</div>\n");
}

static void shares(struct gw_html *h, const struct gw_diff *d)
{
    const struct gw_diff_side *sides[] = {&d->a, &d->b};
    for (int i = 0; i < 2; i++) {
        if (!sides[i]->dev || sides[i]->dev->steady.wall <= 0)
            continue;
        const struct gw_partition *p = &sides[i]->dev->steady;
        const int64_t ns[] = {p->compute, p->comm_exposed, p->copy_exposed, p->idle};
        static const char *const ids[] = {"compute", "comm", "copies", "idle"};
        gw_html_textf(h, "%s", i ? "B" : "A");
        gw_html_raw(h, "<div class=\"bar\" role=\"img\" aria-label=\"");
        for (int k = 0; k < 4; k++)
            gw_html_textf(h, "%s %s. ", part_name(ids[k]), gw_fmt_percent(gw_html_share(ns[k], p->wall)).s);
        gw_html_raw(h, "\">");
        for (int k = 0; k < 4; k++)
            if (ns[k] > 0)
                fprintf(h->out, "<span class=\"p-%s\" style=\"width:%s%%\"></span>", ids[k],
                        gw_html_width(gw_html_share(ns[k], p->wall)).s);
        gw_html_raw(h, "</div>\n");
    }
}

/* ---- tables ---- */

static void head(struct gw_html *h, const char *first)
{
    const char *const names[] = {_("A"), _("B"), _("change")};
    gw_html_raw(h, "<thead><tr><th scope=\"col\">");
    gw_html_text(h, first);
    gw_html_raw(h, "</th>");
    for (int i = 0; i < 3; i++) {
        gw_html_raw(h, "<th scope=\"col\" class=\"num\">");
        gw_html_text(h, names[i]);
        gw_html_raw(h, "</th>");
    }
    gw_html_raw(h, "</tr></thead>\n<tbody>\n");
}

static void numbers(struct gw_html *h, double a, double b, int real)
{
    gw_html_tag(h, "td", "num", gw_diff_time(a).s);
    gw_html_tag(h, "td", "num", gw_diff_time(b).s);
    fprintf(h->out, "<td class=\"num %s\">", !real ? "dim" : b > a ? "worse" : "better");
    gw_html_text(h, gw_diff_change(b - a).s);
    gw_html_raw(h, real ? " *</td></tr>\n" : "</td></tr>\n");
}

static void steps_table(struct gw_html *h, const struct gw_diff *d)
{
    gw_html_raw(h, "<div class=\"scroll\"><table class=\"diff\">\n");
    head(h, _("a step"));
    gw_html_raw(h, "<tr><th scope=\"row\">");
    gw_html_text(h, _("typical (median)"));
    gw_html_raw(h, "</th>");
    numbers(h, d->a.median, d->b.median, d->change == GW_DIFF_FASTER || d->change == GW_DIFF_SLOWER);
    gw_html_raw(h, "<tr><th scope=\"row\">");
    gw_html_text(h, _("mean"));
    gw_html_raw(h, "</th>");
    numbers(h, d->a.mean, d->b.mean, 0);
    for (size_t i = 0; i < d->part_count; i++) {
        const struct gw_diff_row *r = d->parts + i;
        if (!(r->a > 0 || r->b > 0))
            continue;
        gw_html_raw(h, "<tr><th scope=\"row\" class=\"in\"><span class=\"sw p-");
        gw_html_word(h, part_class(r->id));
        gw_html_raw(h, "\"></span>");
        gw_html_text(h, part_name(r->id));
        gw_html_raw(h, "</th>");
        numbers(h, r->a, r->b, r->real);
    }
    for (size_t i = 0; i < d->cause_count; i++) {
        const struct gw_diff_row *r = d->causes + i;
        unsigned c = cause_of(r->id);
        fprintf(h->out, "<tr><th scope=\"row\" class=\"in2\"><span class=\"sw f-%s\"></span>",
                gw_html_family_id(gw_html_family(c)));
        gw_html_text(h, _(gw_cause_text(c)));
        gw_html_raw(h, " ");
        gw_html_tag(h, "code", NULL, r->id);
        gw_html_raw(h, "</th>");
        numbers(h, r->a, r->b, r->real);
    }
    gw_html_raw(h, "</tbody></table></div>\n");
}

static void work_table(struct gw_html *h, const struct gw_diff_row *list, size_t n, const char *title, const char *cls)
{
    gw_html_raw(
        h, "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-labelledby=\"work-h\"><table class=\"diff\">\n");
    head(h, title);
    for (size_t i = 0; i < n; i++) {
        gw_html_raw(h, "<tr><th scope=\"row\">");
        gw_html_tag(h, "span", cls, cls ? list[i].id : _(list[i].id)); /* classes are words, kernels are names */
        if (isfinite(list[i].na) && isfinite(list[i].nb)) {
            gw_html_raw(h, " <span class=\"dim num\">");
            if (fabs(list[i].nb - list[i].na) > 0.05)
                gw_html_textf(h, "%.4g \xe2\x86\x92 %.4g\xc3\x97", list[i].na, list[i].nb);
            else
                gw_html_textf(h, "%.4g\xc3\x97", list[i].na);
            gw_html_raw(h, "</span>");
        }
        gw_html_raw(h, "</th>");
        numbers(h, list[i].a, list[i].b, list[i].real);
    }
    gw_html_raw(h, "</tbody></table></div>\n");
}

static void work(struct gw_html *h, const struct gw_diff *d)
{
    if (!d->class_count && !d->kernel_count)
        return;
    gw_html_section(h, "work", _("What the GPU worked on"));
    if (d->class_count)
        work_table(h, d->classes, d->class_count, _("class"), NULL);
    if (d->kernel_count) {
        size_t n = d->kernel_count < KERNELS_SHOWN ? d->kernel_count : KERNELS_SHOWN;
        gw_html_raw(h, "<details class=\"more\"><summary>");
        gw_html_text(h, _("By kernel"));
        gw_html_raw(h, "</summary>\n");
        work_table(h, d->kernels, n, _("kernel or copy"), "name");
        if (n < d->kernel_count)
            gw_html_tagf(h, "p", "note", _("%s more are in the JSON report."),
                         gw_fmt_count((int64_t)(d->kernel_count - n)).s);
        gw_html_raw(h, "</details>\n");
    }
    gw_html_section_end(h);
}

static void item(void *user, const char *text)
{
    struct gw_html *h = user;
    gw_html_raw(h, "<li>");
    gw_html_rich(h, text);
    gw_html_raw(h, "</li>\n");
}

static void gates(struct gw_html *h, const struct gw_diff_view *v)
{
    if (!v->gate_count)
        return;
    gw_html_section(h, "gates", _("Gates"));
    gw_html_raw(h, "<ul class=\"gates\">\n");
    for (size_t i = 0; i < v->gate_count; i++) {
        char *s = gw_diff_gate_text(v->gates + i);
        gw_html_tag(h, "li", v->gates[i].crossed ? "bad" : "good", s);
        free(s);
    }
    gw_html_raw(h, "</ul>\n");
    gw_html_section_end(h);
}

static void header(struct gw_html *h, const struct gw_diff_view *v)
{
    char *s = gw_diff_answer(v->d);
    gw_html_raw(h, "<header>\n<p class=\"brand\"><b>gpuwhy</b> ");
    gw_html_text(h, _("comparison of two recordings"));
    gw_html_raw(h, "</p>\n<h1>");
    gw_html_text(h, s);
    gw_html_raw(h, "</h1>\n</header>\n<main>\n<div class=\"two\">\n");
    side(h, "A", v->a, &v->d->a);
    side(h, "B", v->b, &v->d->b);
    gw_html_raw(h, "</div>\n");
    free(s);
}

int gw_render_html_diff(const struct gw_diff_view *v, FILE *out)
{
    const struct gw_diff *d = v->d;
    char title[300];
    snprintf(title, sizeof title, "gpuwhy: %.130s \xe2\x86\x92 %.130s", v->a, v->b);
    struct gw_html h = gw_html_begin(out, title);
    header(&h, v);
    gw_html_section(&h, "time", d->why_not ? _("Where the recorded time goes") : _("Where the time of a step goes"));
    if (d->why_not) {
        shares(&h, d);
    } else {
        double longest = fmax(fmax(d->a.mean, d->b.mean), 1);
        bar(&h, d, 0, longest);
        bar(&h, d, 1, longest);
        steps_table(&h, d);
        gw_html_tag(&h, "p", "note",
                    _("* more than noise. Parts are means over the steps and add up to the mean step."));
    }
    gw_html_section_end(&h);
    work(&h, d);
    gw_html_section(&h, "remarks", _("Remarks"));
    gw_html_raw(&h, "<ul class=\"trust\">\n");
    gw_diff_remarks(d, item, &h);
    gw_html_raw(&h, "</ul>\n");
    gw_html_section_end(&h);
    gates(&h, v);
    gw_html_raw(&h, "</main>\n");
    FILE *data = gw_html_data(&h, "gw-diff");
    if (data) {
        (void)gw_render_diff_json(v, data);
        gw_html_data_end(&h, data);
    }
    return gw_html_end(&h);
}
