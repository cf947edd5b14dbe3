#include "report/terminal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/gw_i18n.h"
#include "report/fmt.h"

static void section(struct gw_terminal *m, const char *name)
{
    gw_text_blank(&m->t);
    m->t.indent = 0;
    gw_text_style(&m->t, GW_STYLE_BOLD);
    gw_text_words(&m->t, name);
    gw_text_style(&m->t, GW_STYLE_PLAIN);
}

static int same(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : "") == 0; }

/* One paragraph for each thing that would supply data: "id, id, id · needs hardware counters". */
void gw_terminal_not_evaluated(struct gw_terminal *m)
{
    struct gw_text *t = &m->t;
    const struct gw_not_evaluated *list = m->rep->not_evaluated;
    size_t n = m->rep->not_evaluated_count;
    if (n == 0)
        return;
    section(m, _("Not evaluated"));
    gw_text_words(t, _(": this recording cannot show it"));
    gw_text_line(t);
    for (size_t i = 0; i < n; i++) {
        size_t j = 0;
        while (j < i && !same(list[j].needs, list[i].needs))
            j++;
        if (j < i)
            continue; /* listed with an earlier one */
        t->indent = 2;
        for (j = i; j < n; j++) {
            if (!same(list[j].needs, list[i].needs))
                continue;
            if (j > i)
                gw_text_words(t, ", ");
            gw_text_words(t, list[j].id);
            t->indent = 4;
        }
        gw_text_style(t, GW_STYLE_DIM);
        if (list[i].needs && *list[i].needs)
            gw_text_printf(t, _(" \xc2\xb7 needs %s"), _(list[i].needs));
        else
            gw_text_words(t, _(" \xc2\xb7 nothing known can show it"));
        gw_text_style(t, GW_STYLE_PLAIN);
        gw_text_line(t);
    }
}

static void item(struct gw_terminal *m)
{
    gw_text_line(&m->t);
    m->t.indent = 2;
    gw_text_words(&m->t, "-");
    m->t.indent = 4;
    gw_text_tab(&m->t, 4);
}

static void loss(struct gw_terminal *m, const struct gw_report_loss *l)
{
    struct gw_text *t = &m->t;
    item(m);
    gw_text_style(t, GW_STYLE_WARN);
    gw_text_words(t, l->id);
    gw_text_style(t, GW_STYLE_PLAIN);
    int64_t count = l->count > INT64_MAX ? INT64_MAX : (int64_t)l->count;
    if (l->count > 0 && l->first_byte >= 0)
        gw_text_printf(t, _(" (%s\xc3\x97, first at byte %" PRId64 ")"), gw_fmt_count(count).s, l->first_byte);
    else if (l->count > 0)
        gw_text_printf(t, _(" (%s\xc3\x97)"), gw_fmt_count(count).s);
    if (l->text && *l->text)
        gw_text_printf(t, ": %s", _(l->text));
}

void gw_terminal_trust(struct gw_terminal *m)
{
    struct gw_text *t = &m->t;
    const struct gw_report *r = m->rep;
    section(m, _("Trust"));
    gw_text_words(t, r->trust.complete ? _(": nothing that this report rests on is known to be missing")
                                       : _(": this report is not complete"));
    for (size_t i = 0; i < r->trust.loss_count; i++)
        loss(m, &r->trust.losses[i]);
    if (isfinite(r->replay_error)) {
        item(m);
        gw_text_printf(t, _("replaying the recording unchanged comes within %s of the recorded step time"),
                       gw_fmt_percent(r->replay_error).s);
    }
    if (isfinite(r->profiler_slowdown)) {
        item(m);
        gw_text_printf(t, _("the profiler slowed the host by a factor of about %s; a normal run is faster"),
                       gw_fmt_factor(r->profiler_slowdown).s);
    }
    if (isfinite(r->trust.own_overhead)) {
        item(m);
        gw_text_printf(t, _("recording cost %s of the job's time"), gw_fmt_percent(r->trust.own_overhead).s);
    }
    for (size_t i = 0; i < r->trust.note_count; i++) {
        if (!r->trust.notes[i] || !*r->trust.notes[i])
            continue;
        item(m);
        gw_text_words(t, r->trust.notes[i]);
    }
    gw_text_line(t);
}
