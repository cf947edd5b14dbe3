#include "report/terminal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/gw_i18n.h"
#include "layers/layers.h"
#include "report/clean.h"
#include "report/elide.h"
#include "report/fmt.h"

#define FINDINGS_FULL 3 /* in full, unless all is asked for; the rest gets a line */
#define PLACES_SHOWN 3
#define FIXES_SHOWN 2

/* "lost 38 % · gain 1.4–1.5×"; nothing for a remark that is no bottleneck. */
static void cost_and_gain(struct gw_text *t, const struct gw_finding *f)
{
    int nothing = isfinite(f->gain.high) && f->gain.high < 1.005; /* would read "1.00" */
    if (nothing && strcmp(f->layer, "outside") == 0)
        return;
    if (isfinite(f->share_of_wall))
        gw_text_printf(t, _(" \xc2\xb7 lost\xc2\xa0%s"), gw_fmt_percent_short(f->share_of_wall).s);
    if (nothing)
        gw_text_words(t, _(" \xc2\xb7 nothing to gain"));
    else if (isfinite(f->gain.low) && isfinite(f->gain.high))
        gw_text_printf(t, _(" \xc2\xb7 gain\xc2\xa0%s"), gw_fmt_factor_range(f->gain.low, f->gain.high).s);
    else if (isfinite(f->gain.likely))
        gw_text_printf(t, _(" \xc2\xb7 gain\xc2\xa0%s"), gw_fmt_factor(f->gain.likely).s);
    else
        gw_text_words(t, _(" \xc2\xb7 gain cannot be told"));
}

static void heading(struct gw_terminal *m, const struct gw_finding *f)
{
    struct gw_text *t = &m->t;
    const char *layer = gw_layer_name(f->layer);
    t->indent = 0;
    if (f->rank > 0)
        gw_text_printf(t, "%d ", f->rank);
    gw_text_style(t, GW_STYLE_BOLD);
    gw_text_words(t, f->id);
    gw_text_style(t, GW_STYLE_PLAIN);
    t->indent = 2;
    if (layer && *layer)
        gw_text_printf(t, " \xc2\xb7 %s", _(layer));
    cost_and_gain(t, f);
    gw_text_printf(t, _(" \xc2\xb7 confidence\xc2\xa0%s"), _(gw_confidence_id(f->confidence)));
    gw_text_line(t);
}

static int has_text(const struct gw_evidence *e) { return e->text && *e->text; }

/* Clauses in one paragraph: "72 reads a step; the queue is empty after 70 of them". */
static void clauses(struct gw_terminal *m, const char *label, const struct gw_evidence *list, size_t n)
{
    size_t left = 0;
    for (size_t i = 0; i < n; i++)
        left += has_text(&list[i]) != 0;
    gw_terminal_label(m, label);
    if (!left)
        gw_text_words(&m->t, _("none"));
    for (size_t i = 0; i < n; i++) {
        if (!has_text(&list[i]))
            continue;
        left--;
        const char *source = m->o->all && list[i].source ? list[i].source : "";
        gw_text_printf(&m->t, " %s%s%s%s%s", list[i].text, *source ? " [" : "", *source ? _(source) : "", *source ? "]" : "",
                       left ? _(";") : "");
    }
    gw_text_line(&m->t);
}

/* One line a place: "train.py:57 aten::item under aten::norm (48×, 67 %)". */
static void place(struct gw_terminal *m, const struct gw_where *w)
{
    struct gw_text *t = &m->t;
    char suffix[128] = "", file[300] = "", name[1024];
    int counted = w->count >= 0, shared = isfinite(w->share);
    if (counted || shared)
        snprintf(suffix, sizeof suffix, " (%s%s%s%s)", counted ? gw_fmt_count(w->count).s : "",
                 counted ? "\xc3\x97" : "", counted && shared ? ", " : "",
                 shared ? gw_fmt_percent_short(w->share).s : "");
    if (w->file && *w->file) {
        char line[24] = "";
        if (w->line > 0)
            snprintf(line, sizeof line, ":%" PRId64, w->line);
        gw_elide(name, sizeof name, w->file, t->width - t->indent - (int)strlen(line), t->unicode);
        snprintf(file, sizeof file, "%.270s%s", name, line);
    }
    int room = t->width - t->indent - gw_clean_width(suffix, t->unicode);
    if (*file) {
        int used = gw_clean_width(file, t->unicode) + 1;
        if (room - used >= 24) /* a name needs some room to say anything; else it gets its own line */
            room -= used;
        gw_text_words(t, file);
        gw_text_words(t, " ");
    }
    if (w->text && *w->text)
        gw_text_words(t, gw_elide(name, sizeof name, w->text, room, t->unicode));
    gw_text_words(t, suffix);
    gw_text_line(t);
}

static void places(struct gw_terminal *m, const struct gw_finding *f)
{
    for (size_t i = 0; i < f->where_count; i++) {
        if (i >= PLACES_SHOWN && !m->o->all) {
            gw_terminal_label(m, "");
            gw_text_printf(&m->t, _("and %s more; --all shows them"), gw_fmt_count((int64_t)(f->where_count - i)).s);
            gw_text_line(&m->t);
            return;
        }
        gw_terminal_label(m, i == 0 ? _("where") : "");
        place(m, &f->where[i]);
    }
}

static void advice(struct gw_terminal *m, const char *label, const char *text)
{
    if (!text || !*text)
        return;
    gw_terminal_label(m, label);
    gw_text_lines(&m->t, text);
    gw_text_line(&m->t);
}

static void full(struct gw_terminal *m, const struct gw_finding *f)
{
    struct gw_text *t = &m->t;
    heading(m, f);
    clauses(m, _("seen"), f->evidence, f->evidence_count);
    clauses(m, _("against"), f->against, f->against_count);
    places(m, f);
    if (f->now_step_ns >= 0 && f->then_low_ns >= 0 && f->then_high_ns >= 0) {
        gw_terminal_label(m, _("step"));
        gw_text_printf(t, _("%s now, %s without it"), gw_fmt_time(f->now_step_ns).s,
                       gw_fmt_time_range(f->then_low_ns, f->then_high_ns).s);
        gw_text_line(t);
    }
    for (size_t i = 0; i < f->fix_count && (i < FIXES_SHOWN || m->o->all); i++) {
        advice(m, i == 0 ? _("do") : _("or"), f->fix[i].doit);
        advice(m, _("check"), f->fix[i].check);
        advice(m, _("cost"), f->fix[i].cost);
    }
}

void gw_terminal_findings(struct gw_terminal *m)
{
    const struct gw_report *r = m->rep;
    for (size_t i = 0; i < r->finding_count; i++) {
        int brief = i >= FINDINGS_FULL && !m->o->all;
        if (!brief || i == FINDINGS_FULL)
            gw_text_blank(&m->t);
        if (brief)
            heading(m, &r->findings[i]);
        else
            full(m, &r->findings[i]);
    }
}
