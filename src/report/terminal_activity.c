/* terminal_activity.c - the GPUs over the whole run, by hardware counters. */
#include "report/terminal.h"

#include <inttypes.h>
#include <math.h>

#include "base/gw_i18n.h"
#include "report/fmt.h"

enum { NAME_END = 2 };

static void item(struct gw_text *t)
{
    gw_text_line(t);
    t->indent = 4;
    gw_text_tab(t, 4);
}

static void shares(struct gw_text *t, const struct gw_report_activity *a)
{
    if (isnan(a->sm))
        return;
    item(t);
    if (isfinite(a->dram) && isfinite(a->tensor))
        gw_text_printf(t, _("SMs at work %s, memory %s, tensor cores %s of the time"), gw_fmt_percent_short(a->sm).s,
                       gw_fmt_percent_short(a->dram).s, gw_fmt_percent_short(a->tensor).s);
    else
        gw_text_printf(t, _("SMs at work %s of the time"), gw_fmt_percent_short(a->sm).s);
}

static void pauses(struct gw_text *t, const struct gw_report_activity *a)
{
    if (!a->pauses)
        return;
    item(t);
    gw_text_printf(t, gw_ngettext("%s pause outside of the window, %s in all: ", "%s pauses outside of the window, %s in all: ", (unsigned long)a->pauses),
                   gw_fmt_count(a->pauses).s, gw_fmt_time(a->pause_ns).s);
    gw_text_printf(t, _("the longest %s, %s after the start"), gw_fmt_time(a->longest_ns).s, gw_fmt_time(a->longest_at).s);
}

static void one(struct gw_terminal *m, const struct gw_report_activity *a)
{
    struct gw_text *t = &m->t;
    t->indent = NAME_END;
    gw_text_printf(t, _("  GPU %" PRId64 ": "), a->device);
    t->indent = 4;
    if (a->measured_ns <= 0) {
        gw_text_words(t, a->why && *a->why ? _(a->why) : _("nothing was sampled"));
        gw_text_line(t);
        return;
    }
    if (a->before_ns + a->after_ns >= a->span_ns) {
        gw_text_printf(t, _("no work at all in %s"), gw_fmt_time(a->span_ns).s);
        gw_text_line(t);
        return;
    }
    gw_text_printf(t, _("no work for %s of %s"), gw_fmt_percent_short(a->idle).s, gw_fmt_time(a->span_ns - a->before_ns - a->after_ns).s);
    if (a->before_ns >= 1000000000)
        gw_text_printf(t, _(" (after %s of start-up)"), gw_fmt_time(a->before_ns).s);
    if (a->represents >= 0)
        gw_text_printf(t, a->represents ? _("; in the window of this report %s: it stands for the run")
                                        : _("; in the window of this report %s: it does not stand for the run"),
                       gw_fmt_percent_short(a->window_idle).s);
    if (a->measured_ns < a->span_ns / 10 * 9) {
        item(t);
        gw_text_printf(t, _("measured for %s of that time only"), gw_fmt_percent_short((double)a->measured_ns / (double)a->span_ns).s);
    }
    shares(t, a);
    pauses(t, a);
    if (a->period_ns > 0 && m->rep->device_count == 0) {
        item(t);
        gw_text_printf(t, _("work comes and goes every %s: busy for %s of it"), gw_fmt_time(a->period_ns).s, gw_fmt_percent_short(a->duty).s);
    }
    if (a->why && *a->why) {
        item(t);
        gw_text_printf(t, _("sampling ended early: %s"), _(a->why));
    }
    gw_text_line(t);
}

void gw_terminal_activity(struct gw_terminal *m)
{
    const struct gw_report *r = m->rep;
    if (!r->activity_count)
        return;
    gw_text_blank(&m->t);
    m->t.indent = 0;
    gw_text_style(&m->t, GW_STYLE_BOLD);
    gw_text_words(&m->t, _("Whole run"));
    gw_text_style(&m->t, GW_STYLE_PLAIN);
    gw_text_words(&m->t, _(", by the GPUs' hardware counters"));
    gw_text_line(&m->t);
    for (size_t i = 0; i < r->activity_count; i++)
        one(m, &r->activity[i]);
}
