#include "report/terminal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/gw_i18n.h"
#include "report/fmt.h"

#define BAR_MAX 42 /* columns of a bar at 100 %: with label and percentage a line stays below 64 */
#define LABEL_COLS 10
#define PERCENT_COLS 9 /* " 100.0 %" and a blank */
#define CAUSES_SHOWN 6 /* the rest is summed up as "other", unless all is asked for */
#define DEVICES_SHOWN 16
#define VISIBLE 0.0005 /* shares that would read as "0.0 %" are left out of lists */

/* A bar of `share` of `cols` columns in eighths of a column. What is there at all shows at least the thinnest mark. */
static void bar(struct gw_text *t, double share, int cols)
{
    static const char *const eighth[] = {"",
                                         "\xe2\x96\x8f",
                                         "\xe2\x96\x8e",
                                         "\xe2\x96\x8d",
                                         "\xe2\x96\x8c",
                                         "\xe2\x96\x8b",
                                         "\xe2\x96\x8a",
                                         "\xe2\x96\x89"};
    char buf[BAR_MAX * 3 + 4] = "";
    size_t len = 0;
    if (share > 1)
        share = 1;
    int parts = t->unicode ? 8 : 1;
    int n = share > 0 ? (int)(share * cols * parts + 0.5) : 0;
    if (share > 0 && n == 0)
        n = 1;
    for (int i = 0; i < n / parts; i++) {
        const char *full = t->unicode ? "\xe2\x96\x88" : "#";
        memcpy(buf + len, full, strlen(full));
        len += strlen(full);
    }
    if (n % parts)
        memcpy(buf + len, eighth[n % parts], 3);
    gw_text_words(t, buf);
}

static double share_of(int64_t part, int64_t wall) { return wall > 0 ? (double)part / (double)wall : 0.0; }

static void row(struct gw_text *t, const char *label, int64_t ns, int64_t wall, enum gw_style style)
{
    int cols = t->width - LABEL_COLS - PERCENT_COLS;
    if (cols > BAR_MAX)
        cols = BAR_MAX;
    struct gw_fmt percent = gw_fmt_percent(share_of(ns, wall));
    t->indent = 0;
    gw_text_words(t, label);
    gw_text_tab(t, LABEL_COLS);
    gw_text_style(t, style);
    bar(t, share_of(ns, wall), cols);
    gw_text_style(t, GW_STYLE_PLAIN);
    int width = (int)strlen(percent.s) - 1; /* its no-break space has two bytes and one column */
    gw_text_tab(t, LABEL_COLS + cols + PERCENT_COLS - width);
    gw_text_words(t, percent.s);
    gw_text_line(t);
}

/* "host-sync 38.1 · launch-bound 4.9 · unexplained 0.5", in per cent of the wall, under the idle bar. */
static void causes(struct gw_terminal *m, const struct gw_cause_total *list, size_t n, int64_t wall)
{
    struct gw_text *t = &m->t;
    int64_t other = 0;
    size_t shown = 0;
    t->indent = LABEL_COLS;
    for (size_t i = 0; i < n; i++) {
        if (list[i].ns <= 0)
            continue;
        double share = share_of(list[i].ns, wall);
        int small = share < VISIBLE || shown >= CAUSES_SHOWN;
        if (small && !m->o->all && list[i].cause != GW_CAUSE_UNEXPLAINED) {
            other += list[i].ns;
            continue;
        }
        if (shown++)
            gw_text_words(t, " \xc2\xb7 ");
        gw_text_printf(t, "%s\xc2\xa0%s", gw_cause_id(list[i].cause), gw_fmt_percent(share).s);
    }
    if (share_of(other, wall) >= VISIBLE)
        gw_text_printf(t, _("%sother\xc2\xa0%s"), shown ? " \xc2\xb7 " : "", gw_fmt_percent(share_of(other, wall)).s);
    gw_text_line(t);
}

static void hidden(struct gw_text *t, const struct gw_partition *p)
{
    int comm = share_of(p->comm_hidden, p->wall) >= VISIBLE, copies = share_of(p->copy_hidden, p->wall) >= VISIBLE;
    if (!comm && !copies)
        return;
    t->indent = LABEL_COLS;
    gw_text_style(t, GW_STYLE_DIM);
    gw_text_words(t, _("hidden behind compute: "));
    if (comm)
        gw_text_printf(t, _("communication\xc2\xa0%s"), gw_fmt_percent(share_of(p->comm_hidden, p->wall)).s);
    if (copies)
        gw_text_printf(t, _("%scopies\xc2\xa0%s"), comm ? " \xc2\xb7 " : "",
                       gw_fmt_percent(share_of(p->copy_hidden, p->wall)).s);
    gw_text_style(t, GW_STYLE_PLAIN);
    gw_text_line(t);
}

/* Says which part of the recording the bars are about, when that is not all of it. */
static void window(struct gw_terminal *m, const struct gw_report_device *d, int is_whole)
{
    struct gw_text *t = &m->t;
    t->indent = 0;
    if (!is_whole && d->steady.wall == d->whole.wall)
        return;
    gw_text_style(t, GW_STYLE_DIM);
    if (is_whole)
        gw_text_printf(t, _("of the whole recording, %s: no steady part was found"), gw_fmt_time(d->whole.wall).s);
    else
        gw_text_printf(t, _("of the steady %s; the whole %s, start-up included, is %s idle"),
                       gw_fmt_time(d->steady.wall).s, gw_fmt_time(d->whole.wall).s,
                       gw_fmt_percent(share_of(d->whole.idle, d->whole.wall)).s);
    gw_text_style(t, GW_STYLE_PLAIN);
    gw_text_line(t);
}

static void device(struct gw_terminal *m, const struct gw_report_device *d)
{
    struct gw_text *t = &m->t;
    int is_whole;
    const struct gw_partition *p = gw_terminal_window(d, &is_whole);
    if (p->wall <= 0) {
        gw_text_words(t, _("no GPU work was recorded"));
        gw_text_line(t);
        return;
    }
    row(t, _("compute"), p->compute, p->wall, GW_STYLE_COMPUTE);
    if (p->comm_exposed > 0)
        row(t, _("comm"), p->comm_exposed, p->wall, GW_STYLE_COMM);
    if (p->copy_exposed > 0)
        row(t, _("copies"), p->copy_exposed, p->wall, GW_STYLE_COPY);
    row(t, _("idle"), p->idle, p->wall, GW_STYLE_IDLE);
    if (is_whole)
        causes(m, d->whole_by_cause, d->whole_cause_count, p->wall);
    else
        causes(m, d->idle_by_cause, d->cause_count, p->wall);
    hidden(t, p);
    window(m, d, is_whole);
}

/* The largest cause of idle time that has a name, else "unexplained"; "" when the device was never idle. */
static const char *top_cause(const struct gw_report_device *d, int is_whole)
{
    const struct gw_cause_total *list = is_whole ? d->whole_by_cause : d->idle_by_cause;
    size_t n = is_whole ? d->whole_cause_count : d->cause_count, best = n;
    for (size_t i = 0; i < n; i++)
        if (list[i].ns > 0 && (best == n || list[i].ns > list[best].ns))
            best = i;
    return best < n ? gw_cause_id(list[best].cause) : "";
}

static void table_row(struct gw_terminal *m, size_t i)
{
    const struct gw_report_device *d = &m->rep->devices[i];
    struct gw_text *t = &m->t;
    int is_whole;
    const struct gw_partition *p = gw_terminal_window(d, &is_whole);
    char id[24];
    snprintf(id, sizeof id, "%" PRId64, d->id);
    gw_text_right(t, id, 6);
    gw_text_right(t, gw_fmt_percent(share_of(p->compute, p->wall)).s, 17);
    gw_text_right(t, gw_fmt_percent(share_of(p->comm_exposed, p->wall)).s, 26);
    gw_text_right(t, gw_fmt_percent(share_of(p->copy_exposed, p->wall)).s, 35);
    gw_text_right(t, gw_fmt_percent(share_of(p->idle, p->wall)).s, 44);
    gw_text_tab(t, 47);
    gw_text_words(t, p->wall > 0 ? top_cause(d, is_whole) : _("no GPU work was recorded"));
    gw_text_line(t);
}

static void table(struct gw_terminal *m)
{
    struct gw_text *t = &m->t;
    size_t n = m->rep->device_count;
    t->indent = 0;
    gw_text_style(t, GW_STYLE_DIM);
    gw_text_right(t, _("GPU"), 6);
    gw_text_right(t, _("compute"), 17);
    gw_text_right(t, _("comm"), 26);
    gw_text_right(t, _("copies"), 35);
    gw_text_right(t, _("idle"), 44);
    gw_text_tab(t, 47);
    gw_text_words(t, _("mostly"));
    gw_text_style(t, GW_STYLE_PLAIN);
    gw_text_line(t);
    for (size_t i = 0; i < n; i++) {
        if (i >= DEVICES_SHOWN && !m->o->all) {
            gw_text_printf(t, _("and %s more; --all shows them"), gw_fmt_count((int64_t)(n - i)).s);
            gw_text_line(t);
            break;
        }
        table_row(m, i);
    }
}

static void title(struct gw_terminal *m, size_t i)
{
    struct gw_text *t = &m->t;
    const struct gw_report_device *d = &m->rep->devices[i];
    t->indent = 0;
    gw_text_blank(t);
    if (m->rep->rank_count > 1 && d->rank >= 0)
        gw_text_printf(t, _("rank\xc2\xa0%" PRId64 ", GPU\xc2\xa0%" PRId64), d->rank, d->id);
    else
        gw_text_printf(t, _("GPU\xc2\xa0%" PRId64), d->id);
    if (d->name && *d->name) {
        gw_text_words(t, " ");
        gw_text_words(t, d->name);
    }
    if (i == m->rep->main_device)
        gw_text_words(t, _(" \xc2\xb7 the one that the verdict is about"));
    gw_text_line(t);
}

void gw_terminal_devices(struct gw_terminal *m)
{
    const struct gw_report *r = m->rep;
    size_t main_device = r->main_device < r->device_count ? r->main_device : 0;
    if (r->rank_count > 1 && r->device_count > 0) {
        title(m, main_device);
        device(m, &r->devices[main_device]);
        gw_terminal_ranks(m);
    } else if (r->device_count == 1) {
        device(m, &r->devices[0]);
    } else if (r->device_count == 2) {
        for (size_t i = 0; i < 2; i++) {
            title(m, i);
            device(m, &r->devices[i]);
        }
    } else if (r->device_count > 2) {
        title(m, main_device);
        device(m, &r->devices[main_device]);
        gw_text_blank(&m->t);
        table(m);
    }
}
