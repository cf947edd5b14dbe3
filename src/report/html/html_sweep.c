/* The page of a sweep: the answer, every point with its rate, why a point has none, remarks, the next limit. */
#include <math.h>
#include <string.h>

#include "base/gw_i18n.h"
#include "report/fmt.h"
#include "report/html/html.h"
#include "report/html/html_page.h"

struct view {
    struct gw_html h;
    const struct gw_sweep_result *r;
    int gpu, worker; /* columns of memory */
    double top;      /* the highest rate with its error */
};

static void header(struct view *v)
{
    const struct gw_sweep_verdict *d = &v->r->verdict;
    size_t points = v->r->sweep->points;
    char text[1024];
    gw_html_raw(&v->h, "<header>\n<p class=\"brand\"><b>gpuwhy</b> <span class=\"name\">");
    gw_html_text(&v->h, v->r->command);
    gw_html_raw(&v->h, "</span></p>\n<h1>");
    gw_html_text(&v->h, gw_sweep_answer(v->r, text, sizeof text));
    gw_html_raw(&v->h, "</h1>\n<ul class=\"facts\">");
    gw_html_tagf(&v->h, "li", NULL, _("%zu runs at %zu of %zu points in %s"), v->r->sweep->runs,
                 points - d->untried - d->skipped, points, gw_fmt_time((int64_t)(d->spent_s * 1e9)).s);
    if (isfinite(v->r->sweep->noise))
        gw_html_tagf(&v->h, "li", NULL, _("noise from run to run %s"), gw_fmt_percent(v->r->sweep->noise).s);
    gw_html_raw(&v->h, "</ul>\n</header>\n<main>\n");
}

static void columns(struct view *v)
{
    const struct gw_sweep *s = v->r->sweep;
    for (size_t i = 0; i < s->points; i++) {
        const struct gw_sweep_point *p = s->point + i;
        if (p->state != GW_SWEEP_MEASURED)
            continue;
        v->top = fmax(v->top, p->rate * (1 + (isfinite(p->error) ? p->error : 0)));
        v->gpu |= isfinite(p->last.gpu_bytes);
        v->worker |= isfinite(p->last.worker_bytes) && !v->r->is_parts;
    }
}

static void head(struct view *v)
{
    const struct {
        const char *name, *cls;
        int there;
    } cols[] = {{_("setting"), "", 1},
                {_("rate"), "", 1},
                {"", "num", 1},
                {_("\xc2\xb1"), "num", 1},
                {_("GPU memory"), "num", v->gpu},
                {_("a worker"), "num", v->worker}};
    gw_html_raw(&v->h, "<thead><tr>");
    for (size_t i = 0; i < sizeof cols / sizeof *cols; i++)
        if (cols[i].there) {
            fprintf(v->h.out, *cols[i].name ? "<th scope=\"col\" class=\"%s\">" : "<td class=\"%s\">", cols[i].cls);
            gw_html_text(&v->h, cols[i].name);
            gw_html_raw(&v->h, *cols[i].name ? "</th>" : "</td>");
        }
    gw_html_raw(&v->h, "</tr></thead>\n<tbody>\n");
}

static void measured(struct view *v, size_t point)
{
    const struct gw_sweep_point *p = v->r->sweep->point + point;
    int knee = point == v->r->verdict.knee && !v->r->is_parts;
    char text[64];
    fprintf(v->h.out,
            "<td class=\"bar-cell\"><span class=\"meter tall\" aria-hidden=\"true\"><span class=\"p-%s\" "
            "style=\"width:%s%%\"></span></span>",
            knee ? "copies" : "compute", gw_html_width(v->top > 0 ? p->rate / v->top : 0).s);
    gw_html_raw(&v->h, "</td><td class=\"num\">");
    gw_html_text(&v->h, gw_sweep_rate_text(v->r, p->rate, text, sizeof text));
    gw_html_raw(&v->h, "</td>");
    gw_html_tag(&v->h, "td", "num", gw_fmt_percent(p->error).s);
    if (v->gpu)
        gw_html_tag(&v->h, "td", "num", gw_fmt_bytes(isfinite(p->last.gpu_bytes) ? (int64_t)p->last.gpu_bytes : -1).s);
    if (v->worker)
        gw_html_tag(&v->h, "td", "num",
                    gw_fmt_bytes(isfinite(p->last.worker_bytes) ? (int64_t)p->last.worker_bytes : -1).s);
}

static void points(struct view *v)
{
    const struct gw_sweep *s = v->r->sweep;
    char text[512];
    gw_html_section(&v->h, "points", _("What was measured"));
    gw_html_raw(
        &v->h,
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-labelledby=\"points-h\"><table class=\"sweep\">\n");
    head(v);
    for (size_t i = 0; i < s->points; i++) {
        if (s->point[i].state == GW_SWEEP_UNTRIED)
            continue;
        gw_html_raw(&v->h, "<tr><th scope=\"row\" class=\"name\">");
        gw_html_text(&v->h, gw_sweep_setting(s, i, text, sizeof text));
        if (i == v->r->verdict.knee && !v->r->is_parts) {
            gw_html_raw(&v->h, " ");
            gw_html_tag(&v->h, "b", NULL, _("knee"));
        }
        gw_html_raw(&v->h, "</th>");
        if (s->point[i].state == GW_SWEEP_MEASURED) {
            measured(v, i);
        } else {
            fprintf(v->h.out, "<td colspan=\"%d\" class=\"%s\">", 3 + v->gpu + v->worker,
                    s->point[i].state == GW_SWEEP_FAILED ? "bad" : "dim");
            gw_html_text(&v->h, gw_sweep_why_not(v->r, i, text, sizeof text));
            gw_html_raw(&v->h, "</td>");
        }
        gw_html_raw(&v->h, "</tr>\n");
    }
    gw_html_raw(&v->h, "</tbody></table></div>\n");
    gw_html_section_end(&v->h);
}

static void remarks(struct view *v)
{
    char text[1024], knee[128];
    gw_html_section(&v->h, "remarks", _("Remarks"));
    gw_html_raw(&v->h, "<ul class=\"trust\">\n");
    for (size_t i = 0; gw_sweep_remark(v->r, i, text, sizeof text); i++) {
        gw_html_raw(&v->h, "<li>");
        gw_html_rich(&v->h, text);
        gw_html_raw(&v->h, "</li>\n");
    }
    gw_html_raw(&v->h, "</ul>\n");
    if (v->r->next.sentence) {
        gw_html_raw(&v->h, "<p>");
        gw_html_textf(&v->h, _("At %s the next limit is: %s"),
                      gw_sweep_setting(v->r->sweep, v->r->verdict.knee, knee, sizeof knee), v->r->next.sentence);
        gw_html_raw(&v->h, "</p>\n");
    }
    gw_html_section_end(&v->h);
}

int gw_render_html_sweep(const struct gw_sweep_result *r, FILE *out)
{
    struct view v = {.h = gw_html_begin(out, _("gpuwhy: sweep")), .r = r};
    header(&v);
    columns(&v);
    points(&v);
    remarks(&v);
    gw_html_raw(&v.h, "</main>\n");
    FILE *data = gw_html_data(&v.h, "gw-sweep");
    if (data) {
        (void)gw_render_sweep_json(r, data);
        gw_html_data_end(&v.h, data);
    }
    return gw_html_end(&v.h);
}
