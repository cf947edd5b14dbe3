#include "report/html/html_ranks.h"

#include <inttypes.h>
#include <math.h>

#include "base/gw_i18n.h"
#include "report/fmt.h"

#define COLLECTIVES_SHOWN 20
#define RANKS_SHOWN 512 /* rows: more are a file and no page */

static void head(struct gw_html *h, const char *const *names, size_t n, size_t words)
{
    gw_html_raw(h, "<thead><tr>");
    for (size_t i = 0; i < n; i++) {
        gw_html_raw(h, i < words ? "<th scope=\"col\">" : "<th scope=\"col\" class=\"num\">");
        gw_html_text(h, names[i]);
        gw_html_raw(h, "</th>");
    }
    gw_html_raw(h, "</tr></thead>\n<tbody>\n");
}

static void part(struct gw_html *h, const char *cls, double share)
{
    if (share > 0)
        fprintf(h->out, "<span class=\"p-%s\" style=\"width:%s%%\"></span>", cls, gw_html_width(share).s);
}

static void percent(struct gw_html *h, double share) { gw_html_tag(h, "td", "num", gw_fmt_percent(share).s); }

static void row(struct gw_html *h, const struct gw_report_rank *k)
{
    double wait = gw_html_share(k->wait_exposed, k->wall);
    int64_t exchange = k->wait_exposed >= 0 ? k->comm_exposed - k->wait_exposed : k->comm_exposed;
    gw_html_raw(h, "<tr><th scope=\"row\" class=\"num\" title=\"");
    gw_html_text(h, k->path);
    gw_html_raw(h, "\">");
    gw_html_textf(h, "%" PRId64, k->rank >= 0 ? k->rank : k->device);
    gw_html_raw(h, "</th><td class=\"bar-cell\"><div class=\"bar thin\" aria-hidden=\"true\">");
    part(h, "compute", gw_html_share(k->compute, k->wall));
    part(h, "wait", wait);
    part(h, "comm", gw_html_share(exchange, k->wall));
    part(h, "copies", gw_html_share(k->copy_exposed, k->wall));
    part(h, "idle", gw_html_share(k->idle, k->wall));
    gw_html_raw(h, "</div></td>");
    percent(h, gw_html_share(k->compute, k->wall));
    percent(h, wait);
    percent(h, gw_html_share(exchange, k->wall));
    percent(h, gw_html_share(k->copy_exposed, k->wall));
    percent(h, gw_html_share(k->idle, k->wall));
    gw_html_tag(h, "td", "num", gw_fmt_time(k->median_step_ns).s);
    gw_html_tag(h, "td", "num", gw_fmt_count(k->last).s);
    gw_html_tag(h, "td", NULL, k->cause && *k->cause ? k->cause : "\xe2\x80\x93");
    gw_html_raw(h, "</tr>\n");
}

static void collectives(struct gw_html *h, const struct gw_report *r)
{
    const char *const names[] = {_("collective"), _("message"), _("times"), _("waiting"), _("exchange"), _("bus")};
    size_t n = r->collective_count < COLLECTIVES_SHOWN ? r->collective_count : COLLECTIVES_SHOWN;
    if (!n)
        return;
    gw_html_tag(h, "h3", NULL, r->steps.steady_count > 0 ? _("Collectives, a step") : _("Collectives"));
    gw_html_raw(h, "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-labelledby=\"ranks-h\"><table>\n");
    head(h, names, sizeof names / sizeof *names, 1);
    for (size_t i = 0; i < n; i++) {
        const struct gw_report_collective *c = r->collectives + i;
        gw_html_raw(h, "<tr>");
        gw_html_tag(h, "td", NULL, c->kind);
        gw_html_tag(h, "td", "num", gw_fmt_bytes(c->bytes).s);
        gw_html_raw(h, "<td class=\"num\">");
        if (isfinite(c->count))
            gw_html_textf(h, "%.3g", c->count);
        else
            gw_html_text(h, _("n/a"));
        gw_html_raw(h, "</td>");
        gw_html_tag(h, "td", "num", gw_fmt_time(isfinite(c->wait_ns) ? (int64_t)c->wait_ns : -1).s);
        gw_html_tag(h, "td", "num", gw_fmt_time(isfinite(c->transfer_ns) ? (int64_t)c->transfer_ns : -1).s);
        gw_html_tag(h, "td", "num", gw_fmt_rate(c->bus_bandwidth).s);
        gw_html_raw(h, "</tr>\n");
    }
    gw_html_raw(h, "</tbody></table></div>\n");
    if (n < r->collective_count)
        gw_html_tagf(h, "p", "note", _("%s more are in the JSON report."),
                     gw_fmt_count((int64_t)(r->collective_count - n)).s);
}

void gw_html_ranks(struct gw_html *h, const struct gw_report *r)
{
    const char *const names[] = {r->rank_count && r->per_rank[0].rank >= 0 ? _("rank") : _("GPU"),
                                 _("time"),
                                 _("compute"),
                                 _("waiting"),
                                 _("exchange"),
                                 _("copies"),
                                 _("idle"),
                                 _("step"),
                                 _("came last"),
                                 _("idle for")};
    if (r->rank_count < 2)
        return;
    gw_html_section(h, "ranks", r->per_rank[0].rank >= 0 ? _("Ranks") : _("GPUs"));
    gw_html_tag(
        h, "p", "note",
        _("Waiting is the time inside collectives until the last rank arrives; exchange is what the transfer itself "
          "takes. Both where no compute hides them."));
    gw_html_raw(
        h, "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-labelledby=\"ranks-h\"><table class=\"ranks\">\n");
    head(h, names, sizeof names / sizeof *names, 0);
    for (size_t i = 0; i < r->rank_count && i < RANKS_SHOWN; i++)
        row(h, r->per_rank + i);
    gw_html_raw(h, "</tbody></table></div>\n");
    if (r->rank_count > RANKS_SHOWN)
        gw_html_tagf(h, "p", "note", _("%s more are in the JSON report."),
                     gw_fmt_count((int64_t)(r->rank_count - RANKS_SHOWN)).s);
    collectives(h, r);
    gw_html_section_end(h);
}
