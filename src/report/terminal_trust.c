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

static const char *or_empty(const char *s) { return s ? s : ""; }

/* What can supply missing data, by a word in the text that asks for it; the first row that fits is taken. */
static const struct {
    const char *word, *supply;
} supplies[] = {{"gpuwhy run", N_("gpuwhy run")},   {"gpuwhy check", N_("gpuwhy check")},
                {"ncu", N_("an ncu CSV")},          {"ranks", N_("the traces of all ranks")},
                {"gpuwhy diff", N_("gpuwhy diff")}, {"", N_("another recording")}};
#define SUPPLIES (sizeof supplies / sizeof *supplies)

static size_t supply_of(const struct gw_not_evaluated *n)
{
    size_t i = 0;
    while (i < SUPPLIES - 1 && !strstr(or_empty(n->needs), supplies[i].word))
        i++;
    return i;
}

/* "with gpuwhy run: id, id, id" */
static void by_supply(struct gw_terminal *m, size_t supply)
{
    struct gw_text *t = &m->t;
    const struct gw_not_evaluated *list = m->rep->not_evaluated;
    size_t left = 0;
    for (size_t i = 0; i < m->rep->not_evaluated_count; i++)
        left += supply_of(&list[i]) == supply;
    if (!left)
        return;
    t->indent = 2;
    gw_text_style(t, GW_STYLE_DIM);
    gw_text_printf(t, _("with %s:"), _(supplies[supply].supply));
    gw_text_style(t, GW_STYLE_PLAIN);
    t->indent = 4;
    for (size_t i = 0; i < m->rep->not_evaluated_count; i++)
        if (supply_of(&list[i]) == supply) /* the comma belongs to the word: no line begins with one */
            gw_text_printf(t, " %s%s", list[i].id, --left ? "," : "");
    gw_text_line(t);
}

/* "id: needs the worker processes: gpuwhy run" */
static void each(struct gw_terminal *m)
{
    struct gw_text *t = &m->t;
    for (size_t i = 0; i < m->rep->not_evaluated_count; i++) {
        const struct gw_not_evaluated *n = &m->rep->not_evaluated[i];
        t->indent = 2;
        gw_text_words(t, n->id);
        t->indent = 4;
        gw_text_style(t, GW_STYLE_DIM);
        if (*or_empty(n->needs))
            gw_text_printf(t, _(" \xc2\xb7 needs %s"), _(n->needs));
        gw_text_style(t, GW_STYLE_PLAIN);
        gw_text_line(t);
    }
}

void gw_terminal_not_evaluated(struct gw_terminal *m)
{
    if (m->rep->not_evaluated_count == 0)
        return;
    section(m, _("Not evaluated"));
    gw_text_words(&m->t, m->o->all ? _(": this recording cannot show it")
                                   : _(": this recording cannot show it (--all says what each one needs)"));
    gw_text_line(&m->t);
    if (m->o->all)
        each(m);
    else
        for (size_t s = 0; s < SUPPLIES; s++)
            by_supply(m, s);
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
        gw_text_printf(t, _(": %s"), _(l->text));
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
