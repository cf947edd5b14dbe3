/* Static pictures as SVG: the timeline in columns, and the times of steps. They are what a page shows without its
 * script, and what it prints. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/gw_i18n.h"
#include "report/fmt.h"
#include "report/html/html_steps.h"
#include "report/html/html_timeline.h"
#include "report/html/html_words.h"

enum { COLUMNS = 400, WIDTH = 1000, ROW = 44, TOP = 22 };

struct columns {
    double part[3][COLUMNS]; /* compute, communication, copies: ns */
    double idle[GW_FAMILY_COUNT][COLUMNS];
    double idle_all[COLUMNS];
    double ns; /* of a column */
};

/* Spreads what a span stands for evenly over the columns it covers. */
static void spread(double *row, const struct columns *c, const struct gw_tl_span *s)
{
    double length = (double)(s->end - s->start), density = length > 0 ? (double)s->busy / length : 0;
    int first = (int)((double)s->start / c->ns), last = (int)((double)s->end / c->ns);
    for (int i = first < 0 ? 0 : first; i <= last && i < COLUMNS; i++) {
        double from = i * c->ns, to = from + c->ns;
        from = from > (double)s->start ? from : (double)s->start;
        to = to < (double)s->end ? to : (double)s->end;
        if (to > from)
            row[i] += (to - from) * density;
    }
}

static void collect(struct columns *c, const struct gw_timeline *tl)
{
    for (size_t l = 0; l < tl->lane_count; l++) {
        const struct gw_tl_lane *lane = tl->lanes + l;
        if (lane->device != tl->lanes[0].device)
            continue;
        for (size_t i = 0; i < lane->count; i++) {
            const struct gw_tl_span *s = lane->spans + i;
            if (l == 0)
                spread(c->idle[gw_html_family(s->kind)], c, s);
            else if (lane->type == GW_TL_STREAM || lane->type == GW_TL_OTHER_STREAMS)
                spread(c->part[s->kind == GW_TL_COMM                           ? 1
                               : s->kind == GW_TL_COPY || s->kind == GW_TL_SET ? 2
                                                                               : 0],
                       c, s);
        }
    }
    for (int i = 0; i < COLUMNS; i++) {
        for (int f = 0; f < GW_FAMILY_COUNT; f++)
            c->idle_all[i] += c->idle[f][i];
        double room = c->ns - c->idle_all[i]; /* overlapping streams: compute first, as the accounts have it */
        for (int k = 0; k < 3; k++) {
            c->part[k][i] = fmin(c->part[k][i], fmax(room, 0));
            room -= c->part[k][i];
        }
    }
}

/* One path for all columns of a sort, on top of what `base` holds; which then holds it too. */
static void stack(struct gw_html *h, const struct columns *c, const double *row, double *base, double bottom,
                  double height, const char *cls)
{
    const double wide = (double)WIDTH / COLUMNS;
    int any = 0;
    for (int i = 0; i < COLUMNS; i++) {
        double tall = height * row[i] / c->ns;
        if (tall < 0.2)
            continue;
        if (!any++)
            fprintf(h->out, "<path class=\"%s\" d=\"", cls);
        fprintf(h->out, "M%g %.1fv-%.1fh%gv%.1fz", i * wide, bottom - base[i], tall, wide, tall);
        base[i] += tall;
    }
    if (any)
        gw_html_raw(h, "\"/>\n");
}

static void axis(struct gw_html *h, int64_t length, double y)
{
    for (int i = 0; i <= 4; i++) {
        fprintf(h->out, "<text class=\"ax\" x=\"%d\" y=\"%.0f\" text-anchor=\"%s\">", WIDTH * i / 4, y,
                i == 0   ? "start"
                : i == 4 ? "end"
                         : "middle");
        gw_html_text(h, gw_fmt_time(length / 4 * i).s);
        gw_html_raw(h, "</text>\n");
    }
}

void gw_html_timeline_picture(struct gw_html *h, const struct gw_timeline *tl)
{
    static const char *const parts[] = {"p-compute", "p-comm", "p-copies"};
    struct columns *c = calloc(1, sizeof *c);
    double base[COLUMNS] = {0}, x;
    char cls[32];
    if (!c)
        return; /* out of memory: the picture is left out rather than the page */
    c->ns = (double)tl->length / COLUMNS;
    collect(c, tl);
    fprintf(h->out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH, TOP + 2 * ROW + 44);
    gw_html_text(h, _("The GPU's work and its idle time by cause over the recording"));
    gw_html_raw(h, "\">\n");
    if (tl->steady_end > tl->steady_start) {
        x = (double)WIDTH * (double)tl->steady_start / (double)tl->length;
        fprintf(h->out, "<rect class=\"steady\" x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"%d\"/>\n", x,
                (double)WIDTH * (double)(tl->steady_end - tl->steady_start) / (double)tl->length, TOP + 2 * ROW + 16);
        fprintf(h->out, "<text class=\"ax\" x=\"%.1f\" y=\"14\">", x + 4);
        gw_html_text(h, _("steady part"));
        gw_html_raw(h, "</text>\n");
    }
    for (int k = 0; k < 3; k++)
        stack(h, c, c->part[k], base, TOP + ROW, ROW, parts[k]);
    for (int i = 0; i < COLUMNS; i++)
        base[i] = 0;
    for (int f = 0; f < GW_FAMILY_COUNT; f++) {
        snprintf(cls, sizeof cls, "f-%s", gw_html_family_id((enum gw_family)f));
        stack(h, c, c->idle[f], base, TOP + 2 * ROW + 8, ROW, cls);
    }
    axis(h, tl->length, TOP + 2 * ROW + 32);
    gw_html_raw(h, "</svg>\n<figcaption>");
    gw_html_text(h, _("Above the GPU's work, below its idle time by cause, each as a share of the time in a column."));
    gw_html_raw(h, "</figcaption>\n");
    free(c);
}

/* ---- times of steps ---- */

void gw_html_steps_picture(struct gw_html *h, const int64_t *ns, size_t n, int64_t median)
{
    int64_t top = 1;
    const double tall = 160, left = 70, wide = WIDTH - left;
    for (size_t i = 0; i < n; i++)
        top = ns[i] > top ? ns[i] : top;
    fprintf(h->out, "<svg viewBox=\"0 0 %d 200\" role=\"img\" aria-label=\"", WIDTH);
    gw_html_text(h, _("Time of each steady step"));
    gw_html_raw(h, "\">\n");
    for (int i = 0; i <= 2; i++) {
        double y = 10 + tall - tall * i / 2;
        fprintf(h->out,
                "<path class=\"grid\" d=\"M%g %.1fH%d\"/><text class=\"ax\" x=\"%g\" y=\"%.1f\" text-anchor=\"end\">",
                left, y, WIDTH, left - 8, y + 4);
        gw_html_text(h, gw_fmt_time(top / 2 * i).s);
        gw_html_raw(h, "</text>\n");
    }
    if (median > 0) {
        double y = 10 + tall - tall * (double)median / (double)top;
        fprintf(h->out, "<path class=\"median\" d=\"M%g %.1fH%d\"/>\n", left, y, WIDTH);
    }
    gw_html_raw(h, "<path class=\"steps\" d=\"");
    double each = wide / (double)(n ? n : 1), bar = each > 3 ? each * 0.7 : each;
    for (size_t i = 0; i < n; i++) {
        double v = tall * (double)ns[i] / (double)top;
        fprintf(h->out, "M%.1f %.1fh%.2fV170h-%.2fz", left + each * (double)i + (each - bar) / 2, 10 + tall - v, bar,
                bar);
    }
    gw_html_raw(h, "\"/>\n</svg>\n");
}
