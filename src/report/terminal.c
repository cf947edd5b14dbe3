#include "report/terminal.h"

#include <inttypes.h>
#include <string.h>

#include "base/gw_i18n.h"
#include "report/fmt.h"

const struct gw_partition *gw_terminal_window(const struct gw_report_device *d, int *is_whole)
{
    int whole = d->steady.wall <= 0;
    if (is_whole)
        *is_whole = whole;
    return whole ? &d->whole : &d->steady;
}

void gw_terminal_label(struct gw_terminal *m, const char *label)
{
    struct gw_text *t = &m->t;
    gw_text_line(t);
    t->indent = 2;
    gw_text_style(t, GW_STYLE_DIM);
    gw_text_words(t, label);
    gw_text_style(t, GW_STYLE_PLAIN);
    gw_text_tab(t, GW_TERMINAL_HANG);
    t->indent = GW_TERMINAL_HANG;
}

static void sentence(struct gw_terminal *m)
{
    struct gw_text *t = &m->t;
    const char *s = m->rep->verdict.sentence;
    t->indent = 0;
    gw_text_style(t, GW_STYLE_BOLD);
    gw_text_lines(t, s && *s ? s : _("No verdict could be reached."));
    gw_text_style(t, GW_STYLE_PLAIN);
    gw_text_line(t);
}

/* " · " between the parts of a line. */
static void dot(struct gw_text *t)
{
    if (t->col > 0)
        gw_text_words(t, " \xc2\xb7 ");
}

static void steps(struct gw_terminal *m)
{
    struct gw_text *t = &m->t;
    const struct gw_report_steps *st = &m->rep->steps;
    dot(t);
    if (st->count <= 0) {
        gw_text_words(t, _("no steps found"));
        return;
    }
    gw_text_printf(t,
                   gw_ngettext("%s"
                               "\xc2\xa0"
                               "step",
                               "%s"
                               "\xc2\xa0"
                               "steps",
                               (unsigned long)st->count),
                   gw_fmt_count(st->count).s);
    if (st->steady_count >= 0 && st->steady_count != st->count)
        gw_text_printf(t, _(" (%s steady)"), gw_fmt_count(st->steady_count).s);
    if (st->median_ns < 0)
        return;
    dot(t);
    gw_text_printf(t, m->rep->device_count > 0 && m->rep->profiler && *m->rep->profiler ? _("%s a step under the profiler") : _("%s a step"),
                   gw_fmt_time(st->median_ns).s);
    if (st->p95_ns >= 0)
        gw_text_printf(t, _(" (p95 %s)"), gw_fmt_time(st->p95_ns).s);
    if (m->rep->device_count > 0 || st->mean_ns <= 0) /* with GPU records, what a step holds is said instead */
        return;
    dot(t);
    gw_text_printf(t, _("%.3g steps a second, long ones included"), 1e9 / (double)st->mean_ns);
}

static void header(struct gw_terminal *m)
{
    struct gw_text *t = &m->t;
    const struct gw_report *r = m->rep;
    t->indent = 0;
    if (r->device_count == 0) {
        gw_text_words(t, _("no GPU data"));
    } else {
        size_t i = r->main_device < r->device_count ? r->main_device : 0;
        const char *name = r->devices[i].name;
        int named = name && *name;
        if (r->device_count > 1)
            gw_text_printf(t, named ? "%s\xc2\xa0\xc3\x97\xc2\xa0" : _("%s\xc2\xa0GPUs"),
                           gw_fmt_count((int64_t)r->device_count).s);
        if (named)
            gw_text_words(t, name);
        else if (r->device_count == 1)
            gw_text_printf(t, _("GPU %" PRId64), r->devices[i].id);
    }
    if (r->framework && *r->framework) {
        dot(t);
        gw_text_words(t, r->framework);
    }
    if (r->ranks > 1) {
        dot(t);
        gw_text_printf(t, _("%s ranks"), gw_fmt_count(r->ranks).s);
    }
    if (r->device_count > 0 || r->steps.count > 0)
        steps(m);
    gw_text_line(t);
}

int gw_render_terminal(const struct gw_report *rep, FILE *out, const struct gw_render_options *o)
{
    struct gw_terminal m = {.t = gw_text_begin(out, o), .rep = rep, .o = o};
    sentence(&m);
    gw_text_blank(&m.t);
    header(&m);
    gw_terminal_devices(&m);
    gw_terminal_activity(&m);
    gw_terminal_findings(&m);
    gw_terminal_work(&m);
    gw_terminal_not_evaluated(&m);
    gw_terminal_trust(&m);
    gw_text_line(&m.t);
    return fflush(out) == 0 && !ferror(out) ? 0 : GW_EIO;
}
