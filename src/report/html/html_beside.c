#include "report/html/html_beside.h"

#include <inttypes.h>
#include <math.h>

#include "base/gw_i18n.h"
#include "report/fmt.h"

struct column {
    const char *name;
    int words; /* 1 = text, else a number */
};

static void open_table(struct gw_html *h, const char *section, const struct column *c, size_t n)
{
    fprintf(h->out, "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-labelledby=\"%s-h\"><table><thead><tr>",
            section);
    for (size_t i = 0; i < n; i++) {
        gw_html_raw(h, c[i].words ? "<th scope=\"col\">" : "<th scope=\"col\" class=\"num\">");
        gw_html_text(h, c[i].name);
        gw_html_raw(h, "</th>");
    }
    gw_html_raw(h, "</tr></thead>\n<tbody>\n");
}

/* ---- the whole run ---- */

static void activity_row(struct gw_html *h, const struct gw_report_activity *a)
{
    gw_html_raw(h, "<tr>");
    gw_html_tagf(h, "td", NULL, _("GPU %" PRId64), a->device);
    if (a->measured_ns <= 0) {
        gw_html_raw(h, "<td colspan=\"7\">");
        gw_html_text(h, a->why && *a->why ? _(a->why) : _("nothing was sampled"));
        gw_html_raw(h, "</td></tr>\n");
        return;
    }
    gw_html_tag(h, "td", "num", gw_fmt_time(a->measured_ns).s);
    gw_html_tag(h, "td", "num", gw_fmt_percent(a->idle).s);
    gw_html_tag(h, "td", "num", gw_fmt_percent(a->window_idle).s);
    gw_html_tag(h, "td", "num", gw_fmt_percent(a->sm).s);
    gw_html_tag(h, "td", "num", gw_fmt_percent(a->dram).s);
    gw_html_tag(h, "td", "num", gw_fmt_percent(a->tensor).s);
    gw_html_raw(h, "<td>");
    gw_html_text(h, a->represents > 0    ? _("the window stands for the run")
                    : a->represents == 0 ? _("the window does not stand for the run")
                                         : "");
    if (a->why && *a->why) {
        gw_html_raw(h, " ");
        gw_html_text(h, _(a->why));
    }
    gw_html_raw(h, "</td></tr>\n");
}

static void pauses(struct gw_html *h, const struct gw_report_activity *a)
{
    if (!a->pauses)
        return;
    gw_html_raw(h, "<p class=\"note\">");
    gw_html_textf(h,
                  gw_ngettext("%s pause outside of the window, %s in all: ",
                              "%s pauses outside of the window, %s in all: ", (unsigned long)a->pauses),
                  gw_fmt_count(a->pauses).s, gw_fmt_time(a->pause_ns).s);
    gw_html_textf(h, _("the longest %s, %s after the start"), gw_fmt_time(a->longest_ns).s,
                  gw_fmt_time(a->longest_at).s);
    gw_html_raw(h, "</p>\n");
}

static void windows(struct gw_html *h, const struct gw_report *r)
{
    const struct column c[] = {{_("starts at"), 0}, {_("length"), 0}, {_("idle"), 0},
                               {_("steps"), 0},     {_("a step"), 0}, {"", 1}};
    if (!r->window_count)
        return;
    gw_html_tag(h, "h3", NULL, _("Windows of the record"));
    open_table(h, "run", c, sizeof c / sizeof *c);
    for (size_t i = 0; i < r->window_count; i++) {
        const struct gw_report_window *w = r->windows + i;
        gw_html_raw(h, "<tr>");
        gw_html_tag(h, "td", "num", gw_fmt_time(w->start_ns).s);
        gw_html_tag(h, "td", "num", gw_fmt_time(w->wall_ns).s);
        gw_html_tag(h, "td", "num", gw_fmt_percent(gw_html_share(w->idle_ns, w->wall_ns)).s);
        gw_html_tag(h, "td", "num", gw_fmt_count(w->steps).s);
        gw_html_tag(h, "td", "num", gw_fmt_time(w->median_step_ns).s);
        gw_html_tag(h, "td", NULL,
                    w->reported       ? _("the one of this report")
                    : w->same_kernels ? ""
                                      : _("another phase of the job"));
        gw_html_raw(h, "</tr>\n");
    }
    gw_html_raw(h, "</tbody></table></div>\n");
}

void gw_html_run(struct gw_html *h, const struct gw_report *r)
{
    const struct column c[] = {
        {_("GPU"), 1},         {_("measured for"), 0}, {_("no work"), 0},      {_("in the window"), 0},
        {_("SMs at work"), 0}, {_("memory"), 0},       {_("tensor cores"), 0}, {"", 1}};
    if (!r->activity_count && !r->window_count)
        return;
    gw_html_section(h, "run", _("The whole run"));
    if (r->activity_count) {
        gw_html_tag(h, "p", "note", _("By the GPUs' hardware counters, between the recorded windows too."));
        open_table(h, "run", c, sizeof c / sizeof *c);
        for (size_t i = 0; i < r->activity_count; i++)
            activity_row(h, r->activity + i);
        gw_html_raw(h, "</tbody></table></div>\n");
        for (size_t i = 0; i < r->activity_count; i++)
            pauses(h, r->activity + i);
    }
    windows(h, r);
    gw_html_section_end(h);
}

/* ---- counters of kernels ---- */

void gw_html_counters(struct gw_html *h, const struct gw_report *r)
{
    static const struct {
        enum gw_km km;
        const char *name;
    } shown[] = {{GW_KM_SM, N_("SM")},     {GW_KM_DRAM, N_("DRAM")},           {GW_KM_TENSOR, N_("tensor")},
                 {GW_KM_FP32, N_("fp32")}, {GW_KM_OCCUPANCY, N_("occupancy")}, {GW_KM_WAVES, N_("waves")}};
    enum { SHOWN = sizeof shown / sizeof *shown };
    const struct gw_report_counters *k = r->counters;
    struct column c[SHOWN + 3] = {{_("kernel"), 1}, {_("held back by"), 1}, {_("share"), 0}};
    if (!k || !k->count)
        return;
    for (int i = 0; i < SHOWN; i++)
        c[i + 3] = (struct column){_(shown[i].name), 0};
    gw_html_section(h, "counters", _("Hardware counters of kernels"));
    open_table(h, "counters", c, SHOWN + 3);
    for (size_t i = 0; i < k->count; i++) {
        const struct gw_report_counter *row = k->rows + i;
        gw_html_raw(h, "<tr>");
        gw_html_tag(h, "td", "name", row->name);
        gw_html_tag(h, "td", NULL, row->limit);
        gw_html_tag(h, "td", "num", gw_fmt_percent(row->share).s);
        for (int m = 0; m < SHOWN; m++) {
            double v = row->value[shown[m].km];
            if (shown[m].km == GW_KM_WAVES && isfinite(v))
                gw_html_tagf(h, "td", "num", "%.2f", v);
            else
                gw_html_tag(h, "td", "num", gw_fmt_percent_short(v).s);
        }
        gw_html_raw(h, "</tr>\n");
    }
    gw_html_raw(h, "</tbody></table></div>\n");
    if (isfinite(k->covered))
        gw_html_tagf(h, "p", "note", _("%s of the kernel time has counters."), gw_fmt_percent(k->covered).s);
    gw_html_section_end(h);
}
