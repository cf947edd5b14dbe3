#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/gw_i18n.h"
#include "report/diff_words.h"
#include "report/elide.h"
#include "report/text.h"

#define NUMBER_COLS 12
#define NAME_COLS 30
#define KERNELS_SHOWN 8
#define CAUSES_SHOWN 6
#define WORTH 0.005 /* of the longer step: rows that change by less are left out, unless all is asked for */

struct view {
    struct gw_text t;
    const struct gw_diff_view *v;
    const struct gw_diff *d;
    const struct gw_render_options *o;
};

static void heading(struct view *w, const char *text)
{
    gw_text_blank(&w->t);
    w->t.indent = 0;
    gw_text_style(&w->t, GW_STYLE_BOLD);
    gw_text_words(&w->t, text);
    gw_text_style(&w->t, GW_STYLE_PLAIN);
}

static void item(struct view *w)
{
    gw_text_line(&w->t);
    w->t.indent = 2;
    gw_text_words(&w->t, "-");
    w->t.indent = 4;
    gw_text_tab(&w->t, 4);
}

/* ---- the answer ---- */

static void answer(struct view *w)
{
    char *s = gw_diff_answer(w->d);
    w->t.indent = 0;
    gw_text_style(&w->t, GW_STYLE_BOLD);
    gw_text_words(&w->t, s);
    gw_text_style(&w->t, GW_STYLE_PLAIN);
    gw_text_line(&w->t);
    free(s);
}

static void side(struct view *w, const char *letter, const char *name, const struct gw_diff_side *s)
{
    struct gw_text *t = &w->t;
    char path[512];
    t->indent = 0;
    gw_text_words(t, letter);
    t->indent = 3;
    gw_text_tab(t, 3);
    gw_text_words(t, gw_elide(path, sizeof path, name, t->width - 6, t->unicode));
    gw_text_line(t);
    gw_text_tab(t, 3);
    if (s->dev && *s->dev->name)
        gw_text_printf(t, "%s \xc2\xb7 ", s->dev->name);
    if (s->ranks > 1)
        gw_text_printf(t, _("%s GPUs \xc2\xb7 "), gw_fmt_count(s->ranks).s);
    if (s->rep->framework && *s->rep->framework)
        gw_text_printf(t, "%s \xc2\xb7 ", s->rep->framework);
    if (s->steps > 0)
        gw_text_printf(t, _("%s steady steps"), gw_fmt_count((int64_t)s->steps).s);
    else
        gw_text_words(t, _("no steps found"));
    if (isfinite(s->scatter))
        gw_text_printf(t, _(", scatter %s"), gw_fmt_percent(s->scatter).s);
    gw_text_printf(t, _(" \xc2\xb7 verdict: %s"), s->rep->verdict.finding ? s->rep->verdict.finding : "none");
    gw_text_line(t);
}

/* ---- tables ---- */

static void head(struct view *w, const char *title)
{
    struct gw_text *t = &w->t;
    heading(w, title);
    gw_text_style(t, GW_STYLE_DIM);
    gw_text_right(t, "A", NAME_COLS + NUMBER_COLS);
    gw_text_right(t, "B", NAME_COLS + 2 * NUMBER_COLS);
    gw_text_right(t, _("change"), NAME_COLS + 3 * NUMBER_COLS);
    gw_text_style(t, GW_STYLE_PLAIN);
    gw_text_line(t);
}

static void numbers(struct view *w, double a, double b, int real)
{
    struct gw_text *t = &w->t;
    gw_text_right(t, gw_diff_time(a).s, NAME_COLS + NUMBER_COLS);
    gw_text_right(t, gw_diff_time(b).s, NAME_COLS + 2 * NUMBER_COLS);
    if (real)
        gw_text_style(t, b > a ? GW_STYLE_IDLE : GW_STYLE_COMPUTE);
    gw_text_right(t, gw_diff_change(b - a).s, NAME_COLS + 3 * NUMBER_COLS);
    if (real) {
        gw_text_style(t, GW_STYLE_PLAIN);
        gw_text_words(t, " *");
    }
    gw_text_line(t);
}

static void row(struct view *w, const struct gw_diff_row *r, int indent)
{
    char name[256];
    w->t.indent = indent;
    gw_text_tab(&w->t, indent);
    gw_text_words(&w->t, gw_elide(name, sizeof name, _(r->id), NAME_COLS - indent, w->t.unicode));
    numbers(w, r->a, r->b, r->real);
}

static int worth(const struct view *w, const struct gw_diff_row *r)
{
    return w->o->all || fabs(r->b - r->a) >= WORTH * fmax(w->d->a.mean, w->d->b.mean);
}

static void where(struct view *w)
{
    const struct gw_diff *d = w->d;
    size_t shown = 0;
    head(w, _("Where the time of a step goes"));
    gw_text_tab(&w->t, 2);
    gw_text_words(&w->t, _("typical step (median)"));
    numbers(w, d->a.median, d->b.median, d->change == GW_DIFF_FASTER || d->change == GW_DIFF_SLOWER);
    gw_text_tab(&w->t, 2);
    gw_text_words(&w->t, _("mean step"));
    numbers(w, d->a.mean, d->b.mean, 0);
    for (size_t i = 0; i < d->part_count; i++)
        if (d->parts[i].a > 0 || d->parts[i].b > 0)
            row(w, d->parts + i, 4);
    for (size_t i = 0; i < d->cause_count; i++)
        if (worth(w, d->causes + i) && (w->o->all || shown < CAUSES_SHOWN)) {
            row(w, d->causes + i, 6);
            shown++;
        }
}

static void work(struct view *w)
{
    const struct gw_diff *d = w->d;
    size_t shown = 0, left = 0;
    for (size_t i = 0; i < d->kernel_count; i++) {
        const struct gw_diff_row *r = d->kernels + i;
        if (!worth(w, r) || (!w->o->all && shown >= KERNELS_SHOWN)) {
            left += r->real != 0;
            continue;
        }
        if (!shown++)
            head(w, _("Kernels and copies that changed most"));
        char name[256], count[48];
        snprintf(count, sizeof count, "%.4g\xc3\x97", r->na);
        if (fabs(r->nb - r->na) > 0.05)
            snprintf(count, sizeof count, "%.4g \xe2\x86\x92 %.4g\xc3\x97", r->na, r->nb);
        w->t.indent = 2;
        gw_text_tab(&w->t, 2);
        gw_text_words(&w->t, gw_elide(name, sizeof name, r->id, w->t.width - 4, w->t.unicode));
        gw_text_line(&w->t);
        gw_text_tab(&w->t, 4);
        gw_text_words(&w->t, count);
        numbers(w, r->a, r->b, r->real);
    }
    if (shown && left && !w->o->all) {
        gw_text_tab(&w->t, 2);
        gw_text_printf(&w->t, _("and %s more that changed by more than noise; --all shows them"),
                       gw_fmt_count((int64_t)left).s);
        gw_text_line(&w->t);
    }
}

static double share_of(int64_t part, const struct gw_diff_side *s)
{
    return (double)part / (double)s->dev->steady.wall;
}

/* Without steps there is no time a step, but a picture of the whole. */
static void shares(struct view *w)
{
    const struct gw_diff *d = w->d;
    struct gw_text *t = &w->t;
    if (!d->a.dev || !d->b.dev || d->a.dev->steady.wall <= 0 || d->b.dev->steady.wall <= 0)
        return;
    const struct gw_partition *p = &d->a.dev->steady, *q = &d->b.dev->steady;
    const char *const names[] = {_("compute"), _("comm"), _("copies"), _("idle")};
    const int64_t a[] = {p->compute, p->comm_exposed, p->copy_exposed, p->idle},
                  b[] = {q->compute, q->comm_exposed, q->copy_exposed, q->idle};
    heading(w, _("Where the recorded time goes"));
    gw_text_style(t, GW_STYLE_DIM);
    gw_text_right(t, "A", NAME_COLS + NUMBER_COLS);
    gw_text_right(t, "B", NAME_COLS + 2 * NUMBER_COLS);
    gw_text_style(t, GW_STYLE_PLAIN);
    gw_text_line(t);
    for (int i = 0; i < 4; i++) {
        gw_text_tab(t, 2);
        gw_text_words(t, names[i]);
        gw_text_right(t, gw_fmt_percent(share_of(a[i], &d->a)).s, NAME_COLS + NUMBER_COLS);
        gw_text_right(t, gw_fmt_percent(share_of(b[i], &d->b)).s, NAME_COLS + 2 * NUMBER_COLS);
        gw_text_line(t);
    }
}

/* ---- what else is to be said ---- */

static void remark(void *user, const char *text)
{
    struct view *w = user;
    item(w);
    gw_text_words(&w->t, text);
}

static void remarks(struct view *w)
{
    gw_text_blank(&w->t);
    gw_diff_remarks(w->d, remark, w);
    gw_text_line(&w->t);
}

static void gates(struct view *w)
{
    struct gw_text *t = &w->t;
    if (!w->v->gate_count)
        return;
    heading(w, _("Gates"));
    for (size_t i = 0; i < w->v->gate_count; i++) {
        char *s = gw_diff_gate_text(w->v->gates + i);
        item(w);
        gw_text_style(t, w->v->gates[i].crossed ? GW_STYLE_WARN : GW_STYLE_PLAIN);
        gw_text_words(t, s);
        gw_text_style(t, GW_STYLE_PLAIN);
        free(s);
    }
    gw_text_line(t);
}

int gw_render_diff_terminal(const struct gw_diff_view *v, FILE *out, const struct gw_render_options *o)
{
    struct view w = {.t = gw_text_begin(out, o), .v = v, .d = v->d, .o = o};
    answer(&w);
    gw_text_blank(&w.t);
    side(&w, "A", v->a, &v->d->a);
    side(&w, "B", v->b, &v->d->b);
    if (!v->d->why_not) {
        where(&w);
        work(&w);
        gw_text_blank(&w.t);
        w.t.indent = 0;
        gw_text_style(&w.t, GW_STYLE_DIM);
        gw_text_words(&w.t, _("* more than noise. Parts are means over the steps and add up to the mean step."));
        gw_text_style(&w.t, GW_STYLE_PLAIN);
        gw_text_line(&w.t);
    } else {
        shares(&w);
    }
    remarks(&w);
    gates(&w);
    gw_text_line(&w.t);
    return fflush(out) == 0 && !ferror(out) ? 0 : GW_EIO;
}
