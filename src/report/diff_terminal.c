#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/gw_i18n.h"
#include "report/diff_report.h"
#include "report/elide.h"
#include "report/fmt.h"
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

static struct gw_fmt time_of(double ns) { return gw_fmt_time(ns < 9e18 ? (int64_t)(ns + 0.5) : -1); } /* NAN: n/a */

/* "+4.70 ms", "−4.70 ms"; "0" for less than a ns */
static struct gw_fmt change_of(double ns)
{
    struct gw_fmt f, g = time_of(fabs(ns));
    if (!isfinite(ns) || fabs(ns) < 0.5)
        snprintf(f.s, sizeof f.s, "%s", isfinite(ns) ? "0" : _("n/a"));
    else
        snprintf(f.s, sizeof f.s, "%s%.40s", ns > 0 ? "+" : "\xe2\x88\x92", g.s);
    return f;
}

static const char *factor(double x, char buf[24])
{
    snprintf(buf, 24, x < 1.2 ? "%.2f\xc3\x97" : x < 10 ? "%.1f\xc3\x97" : "%.0f\xc3\x97", x);
    return buf;
}

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

static void noise(struct view *w)
{
    const struct gw_diff *d = w->d;
    char low[24], high[24];
    double a = 1 / d->high, b = 1 / d->low;
    if (d->change == GW_DIFF_SLOWER) {
        a = d->low;
        b = d->high;
    }
    gw_text_printf(&w->t, _(" (%s to %s at 95\xc2\xa0%%)"), factor(a, low), factor(b, high));
}

static void answer(struct view *w)
{
    struct gw_text *t = &w->t;
    const struct gw_diff *d = w->d;
    char f[24];
    t->indent = 0;
    gw_text_style(t, GW_STYLE_BOLD);
    if (d->why_not) {
        gw_text_printf(t, _("Step times cannot be compared: %s."), _(d->why_not));
    } else if (d->change == GW_DIFF_UNKNOWN) {
        gw_text_printf(t,
                       _("It cannot be told whether the step changed: a step takes %s in A and %s in B, but with so "
                         "few steps nothing is known about the noise."),
                       time_of(d->a.median).s, time_of(d->b.median).s);
    } else if (d->change == GW_DIFF_SAME) {
        gw_text_printf(t,
                       _("No real change of the typical step: it takes %s in A and %s in B (%+.1f\xc2\xa0%%); two "
                         "recordings like these differ by up to %.0f\xc2\xa0%% without any cause."),
                       time_of(d->a.median).s, time_of(d->b.median).s, 100 * (d->ratio - 1),
                       100 * (d->high / d->ratio - 1));
    } else if (d->change == GW_DIFF_FASTER) {
        gw_text_printf(t, _("B is %s as fast as A: a step takes %s instead of %s"), factor(1 / d->ratio, f),
                       time_of(d->b.median).s, time_of(d->a.median).s);
        noise(w);
        gw_text_words(t, ".");
    } else {
        gw_text_printf(t, _("B is slower than A: a step takes %s instead of %s, %s as long"), time_of(d->b.median).s,
                       time_of(d->a.median).s, factor(d->ratio, f));
        noise(w);
        gw_text_words(t, ".");
    }
    if (d->slow_changed)
        gw_text_printf(t, _(" Slow steps changed: all counted, a step takes %s in A and %s in B."),
                       time_of(d->a.mean).s, time_of(d->b.mean).s);
    gw_text_style(t, GW_STYLE_PLAIN);
    gw_text_line(t);
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

static void cell(struct gw_text *t, const char *s, int right)
{
    int width = 0;
    for (const char *p = s; *p; p++)
        width += ((unsigned char)*p & 0xc0) != 0x80;
    gw_text_tab(t, right - width);
    gw_text_words(t, s);
}

static void head(struct view *w, const char *title)
{
    struct gw_text *t = &w->t;
    heading(w, title);
    gw_text_style(t, GW_STYLE_DIM);
    cell(t, "A", NAME_COLS + NUMBER_COLS);
    cell(t, "B", NAME_COLS + 2 * NUMBER_COLS);
    cell(t, _("change"), NAME_COLS + 3 * NUMBER_COLS);
    gw_text_style(t, GW_STYLE_PLAIN);
    gw_text_line(t);
}

static void numbers(struct view *w, double a, double b, int real)
{
    struct gw_text *t = &w->t;
    cell(t, time_of(a).s, NAME_COLS + NUMBER_COLS);
    cell(t, time_of(b).s, NAME_COLS + 2 * NUMBER_COLS);
    if (real)
        gw_text_style(t, b > a ? GW_STYLE_IDLE : GW_STYLE_COMPUTE);
    cell(t, change_of(b - a).s, NAME_COLS + 3 * NUMBER_COLS);
    if (real)
        gw_text_style(t, GW_STYLE_PLAIN);
    if (real)
        gw_text_words(t, " *");
    gw_text_line(t);
}

static void row(struct view *w, const struct gw_diff_row *r, int indent)
{
    char name[256];
    w->t.indent = indent;
    gw_text_tab(&w->t, indent);
    gw_text_words(&w->t, gw_elide(name, sizeof name, r->id, NAME_COLS - indent, w->t.unicode));
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
    const char *const names[] = {"compute", "comm", "copies", "idle"};
    const int64_t a[] = {p->compute, p->comm_exposed, p->copy_exposed, p->idle},
                  b[] = {q->compute, q->comm_exposed, q->copy_exposed, q->idle};
    heading(w, _("Where the recorded time goes"));
    gw_text_style(t, GW_STYLE_DIM);
    cell(t, "A", NAME_COLS + NUMBER_COLS);
    cell(t, "B", NAME_COLS + 2 * NUMBER_COLS);
    gw_text_style(t, GW_STYLE_PLAIN);
    gw_text_line(t);
    for (int i = 0; i < 4; i++) {
        gw_text_tab(t, 2);
        gw_text_words(t, names[i]);
        cell(t, gw_fmt_percent(share_of(a[i], &d->a)).s, NAME_COLS + NUMBER_COLS);
        cell(t, gw_fmt_percent(share_of(b[i], &d->b)).s, NAME_COLS + 2 * NUMBER_COLS);
        gw_text_line(t);
    }
}

/* ---- what else is to be said ---- */

static void promise(struct view *w)
{
    struct gw_text *t = &w->t;
    const struct gw_diff *d = w->d;
    const struct gw_finding *f = d->promise.finding;
    char a[24];
    if (!f)
        return;
    item(w);
    gw_text_printf(t, _("A's verdict promised %s from removing %s"), gw_fmt_factor_range(f->gain.low, f->gain.high).s,
                   f->id);
    if (d->promise.outcome == GW_DIFF_NOT_DONE) {
        gw_text_words(t, _(": B shows it just as much, so that was not done, or did not help"));
        return;
    }
    gw_text_printf(t, _("; B is %s as fast"), factor(d->promise.actual, a));
    gw_text_words(t, d->promise.outcome == GW_DIFF_WITHIN ? _(", as promised")
                     : d->promise.outcome == GW_DIFF_LESS ? _(", which is less")
                                                          : _(", which is more"));
    if (d->promise.outcome == GW_DIFF_MORE && d->a.rep->profiler_slowdown > 1.1)
        gw_text_words(t, _("; the promise is for runs without the profiler, which slows the host here and makes the "
                           "difference larger"));
    if (d->promise.still >= 1.1)
        gw_text_printf(t, _("; B still shows it, worth %s more"), factor(d->promise.still, a));
}

static void scaling(struct view *w)
{
    struct gw_text *t = &w->t;
    const struct gw_diff *d = w->d;
    if (!d->scaling.few)
        return;
    double each = d->scaling.work, ratio = (double)d->scaling.few / (double)d->scaling.many;
    int weak = each > 0.8 && each<1.25, strong = each> 0.7 * ratio && each < 1.4 * ratio;
    item(w);
    gw_text_printf(t, _("scaling from %s to %s GPUs: efficiency %s"), gw_fmt_count(d->scaling.few).s,
                   gw_fmt_count(d->scaling.many).s, gw_fmt_percent_short(d->scaling.efficiency).s);
    if (weak)
        gw_text_words(t, _(" (each GPU computes as much as before: the batch grew with the GPUs)"));
    else if (strong)
        gw_text_words(t, _(" (each GPU computes less, as one batch is split)"));
    else
        gw_text_printf(
            t,
            _(" (the share of a step in which a GPU computes, against before; it computes %.2f times as much a step)"),
            each);
    if (d->scaling.efficiency < 0.9 && *d->scaling.grew)
        gw_text_printf(t, _("; multi-gpu-scaling: most of the loss is %s, %s more a step"), d->scaling.grew,
                       time_of(d->scaling.grew_ns).s);
}

static void slow_steps(struct view *w)
{
    const struct gw_diff *d = w->d;
    if (d->a.slow == 0 && d->b.slow == 0)
        return;
    item(w);
    gw_text_printf(
        &w->t,
        _("slow steps (over twice the median): %s of %s in A, %s of %s in B; whether so many always come is not known"),
        gw_fmt_count(d->a.slow).s, gw_fmt_count((int64_t)d->a.steps).s, gw_fmt_count(d->b.slow).s,
        gw_fmt_count((int64_t)d->b.steps).s);
}

static void remarks(struct view *w)
{
    const struct gw_diff *d = w->d;
    int host = d->a.paced > 0.5 || d->b.paced > 0.5;
    gw_text_blank(&w->t);
    slow_steps(w);
    promise(w);
    scaling(w);
    if (d->other_gpu) {
        item(w);
        gw_text_printf(&w->t, _("the GPUs differ: %s in A, %s in B"), d->a.dev->name, d->b.dev->name);
    }
    if (!d->why_not && d->same_work) {
        item(w);
        gw_text_words(&w->t, _("the GPU does the same work in both: the same kernels as often, and as long"));
        if (host && fabs(log(d->ratio)) > 0.02)
            gw_text_words(&w->t, _("; what differs is how long it waits between"));
    }
    if (host && d->change == GW_DIFF_SAME) {
        item(w);
        gw_text_words(&w->t, _("the host sets the pace here, and that differs from run to run by some 10 % on shared "
                               "machines: record the same job twice and give the difference as --noise"));
    }
    for (int i = 0; i < 2; i++) {
        if ((i ? &d->b : &d->a)->rep->trust.complete)
            continue;
        item(w);
        gw_text_printf(&w->t, _("%s is not complete: `gpuwhy read` says what is missing"), i ? "B" : "A");
    }
    gw_text_line(&w->t);
}

static void gates(struct view *w)
{
    struct gw_text *t = &w->t;
    if (!w->v->gate_count)
        return;
    heading(w, _("Gates"));
    for (size_t i = 0; i < w->v->gate_count; i++) {
        const struct gw_gate_result *g = w->v->gates + i;
        char value[64];
        if (!isfinite(g->value))
            snprintf(value, sizeof value, "%s", isnan(g->value) ? _("cannot be told") : _("from nothing"));
        else if (g->gate.percent)
            snprintf(value, sizeof value, g->gate.relative ? "%+.1f\xc2\xa0%%" : "%.1f\xc2\xa0%%", g->value);
        else
            snprintf(value, sizeof value, "%s", g->gate.relative ? change_of(g->value).s : time_of(g->value).s);
        item(w);
        gw_text_style(t, g->crossed ? GW_STYLE_WARN : GW_STYLE_PLAIN);
        gw_text_printf(t, "%s: %s, %s", g->text, value,
                       g->crossed > 0   ? _("crossed")
                       : g->crossed < 0 ? _("counts as crossed")
                                        : _("not crossed"));
        gw_text_style(t, GW_STYLE_PLAIN);
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
