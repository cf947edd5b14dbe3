/* The sentences of a comparison: diff_words.h. */
#include "report/diff_words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/gw_i18n.h"

struct gw_fmt gw_diff_time(double ns) { return gw_fmt_time(ns < 9e18 ? (int64_t)(ns + 0.5) : -1); } /* NAN: n/a */

/* "+4.70 ms", "−4.70 ms"; "0" for less than a ns */
struct gw_fmt gw_diff_change(double ns)
{
    struct gw_fmt f, g = gw_diff_time(fabs(ns));
    if (!isfinite(ns) || fabs(ns) < 0.5)
        snprintf(f.s, sizeof f.s, "%s", isfinite(ns) ? "0" : _("n/a"));
    else
        snprintf(f.s, sizeof f.s, "%s%.40s", ns > 0 ? "+" : "\xe2\x88\x92", g.s);
    return f;
}

static void put(FILE *out, const char *s) { fputs(s, out); }

static const char *factor(double x, char buf[24])
{
    snprintf(buf, 24, x < 1.2 ? "%.2f\xc3\x97" : x < 10 ? "%.1f\xc3\x97" : "%.0f\xc3\x97", x);
    return buf;
}

static void noise(FILE *out, const struct gw_diff *d)
{
    char low[24], high[24];
    double a = 1 / d->high, b = 1 / d->low;
    if (d->change == GW_DIFF_SLOWER) {
        a = d->low;
        b = d->high;
    }
    fprintf(out, _(" (%s to %s at 95\xc2\xa0%%)"), factor(a, low), factor(b, high));
}

static void answer(FILE *out, const struct gw_diff *d)
{
    char f[24];
    if (d->why_not) {
        fprintf(out, _("Step times cannot be compared: %s."), _(d->why_not));
    } else if (d->change == GW_DIFF_UNKNOWN) {
        fprintf(out,
                _("It cannot be told whether the step changed: a step takes %s in A and %s in B, but with so "
                  "few steps nothing is known about the noise."),
                gw_diff_time(d->a.median).s, gw_diff_time(d->b.median).s);
    } else if (d->change == GW_DIFF_SAME) {
        fprintf(out,
                _("No real change of the typical step: it takes %s in A and %s in B (%+.1f\xc2\xa0%%); two "
                  "recordings like these differ by up to %.0f\xc2\xa0%% without any cause."),
                gw_diff_time(d->a.median).s, gw_diff_time(d->b.median).s, 100 * (d->ratio - 1),
                100 * (d->high / d->ratio - 1));
    } else if (d->change == GW_DIFF_FASTER) {
        fprintf(out, _("B is %s as fast as A: a step takes %s instead of %s"), factor(1 / d->ratio, f),
                gw_diff_time(d->b.median).s, gw_diff_time(d->a.median).s);
        noise(out, d);
        put(out, _("."));
    } else {
        fprintf(out, _("B is slower than A: a step takes %s instead of %s, %s as long"), gw_diff_time(d->b.median).s,
                gw_diff_time(d->a.median).s, factor(d->ratio, f));
        noise(out, d);
        put(out, _("."));
    }
    if (d->slow_changed)
        fprintf(out, _(" Slow steps changed: all counted, a step takes %s in A and %s in B."),
                gw_diff_time(d->a.mean).s, gw_diff_time(d->b.mean).s);
}

/* ---- what else is to be said ---- */

static void promise(FILE *out, const struct gw_diff *d)
{
    const struct gw_finding *f = d->promise.finding;
    char a[24];
    if (!f)
        return;
    fprintf(out, _("A's verdict promised %s from removing %s"), gw_fmt_factor_range(f->gain.low, f->gain.high).s,
            f->id);
    if (d->promise.outcome == GW_DIFF_NOT_DONE) {
        put(out, _(": B shows it just as much, so that was not done, or did not help"));
        return;
    }
    fprintf(out, _("; B is %s as fast"), factor(d->promise.actual, a));
    put(out, d->promise.outcome == GW_DIFF_WITHIN ? _(", as promised")
             : d->promise.outcome == GW_DIFF_LESS ? _(", which is less")
                                                  : _(", which is more"));
    if (d->promise.outcome == GW_DIFF_MORE && d->a.rep->profiler_slowdown > 1.1)
        put(out, _("; the promise is for runs without the profiler, which slows the host here and makes the "
                   "difference larger"));
    if (d->promise.still >= 1.1)
        fprintf(out, _("; B still shows it, worth %s more"), factor(d->promise.still, a));
}

static void scaling(FILE *out, const struct gw_diff *d)
{
    if (!d->scaling.few)
        return;
    double each = d->scaling.work, ratio = (double)d->scaling.few / (double)d->scaling.many;
    int weak = each > 0.8 && each<1.25, strong = each> 0.7 * ratio && each < 1.4 * ratio;
    fprintf(out, _("scaling from %s to %s GPUs: efficiency %s"), gw_fmt_count(d->scaling.few).s,
            gw_fmt_count(d->scaling.many).s, gw_fmt_percent_short(d->scaling.efficiency).s);
    if (weak)
        put(out, _(" (each GPU computes as much as before: the batch grew with the GPUs)"));
    else if (strong)
        put(out, _(" (each GPU computes less, as one batch is split)"));
    else
        fprintf(
            out,
            _(" (the share of a step in which a GPU computes, against before; it computes %.2f times as much a step)"),
            each);
    if (d->scaling.efficiency < 0.9 && *d->scaling.grew)
        fprintf(out, _("; multi-gpu-scaling: most of the loss is %s, %s more a step"), d->scaling.grew,
                gw_diff_time(d->scaling.grew_ns).s);
}

static void slow_steps(FILE *out, const struct gw_diff *d)
{
    if (d->a.slow == 0 && d->b.slow == 0)
        return;
    fprintf(
        out,
        _("slow steps (over twice the median): %s of %s in A, %s of %s in B; whether so many always come is not known"),
        gw_fmt_count(d->a.slow).s, gw_fmt_count((int64_t)d->a.steps).s, gw_fmt_count(d->b.slow).s,
        gw_fmt_count((int64_t)d->b.steps).s);
}

/* ---- which of them ---- */

static void other_gpu(FILE *out, const struct gw_diff *d)
{
    if (d->other_gpu)
        fprintf(out, _("the GPUs differ: %s in A, %s in B"), d->a.dev->name, d->b.dev->name);
}

static int host_paced(const struct gw_diff *d) { return d->a.paced > 0.5 || d->b.paced > 0.5; }

static void same_work(FILE *out, const struct gw_diff *d)
{
    if (d->why_not || !d->same_work)
        return;
    put(out, _("the GPU does the same work in both: the same kernels as often, and as long"));
    if (host_paced(d) && fabs(log(d->ratio)) > 0.02)
        put(out, _("; what differs is how long it waits between"));
}

static void run_noise(FILE *out, const struct gw_diff *d)
{
    if (host_paced(d) && d->change == GW_DIFF_SAME)
        put(out, _("the host sets the pace here, and that differs from run to run by some 10 % on shared "
                   "machines: record the same job twice and give the difference as --noise"));
}

static void incomplete_a(FILE *out, const struct gw_diff *d)
{
    if (!d->a.rep->trust.complete)
        fprintf(out, _("%s is not complete: `gpuwhy read` says what is missing"), "A");
}

static void incomplete_b(FILE *out, const struct gw_diff *d)
{
    if (!d->b.rep->trust.complete)
        fprintf(out, _("%s is not complete: `gpuwhy read` says what is missing"), "B");
}

/* What `write` writes, "" when that is nothing; NULL when out of memory. */
static char *text_of(void (*write)(FILE *, const struct gw_diff *), const struct gw_diff *d)
{
    char *s = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&s, &n);
    if (!f)
        return NULL;
    write(f, d);
    if (fclose(f) != 0) {
        free(s);
        return NULL;
    }
    return s;
}

char *gw_diff_answer(const struct gw_diff *d) { return text_of(answer, d); }

void gw_diff_remarks(const struct gw_diff *d, gw_diff_remark *say, void *user)
{
    static void (*const list[])(FILE *, const struct gw_diff *) = {slow_steps, promise,   scaling,      other_gpu,
                                                                   same_work,  run_noise, incomplete_a, incomplete_b};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        char *s = text_of(list[i], d);
        if (s && *s)
            say(user, s);
        free(s);
    }
}

char *gw_diff_gate_text(const struct gw_gate_result *g)
{
    char value[64], *s = NULL;
    if (!isfinite(g->value))
        snprintf(value, sizeof value, "%s", isnan(g->value) ? _("cannot be told") : _("from nothing"));
    else if (g->gate.percent)
        snprintf(value, sizeof value, g->gate.relative ? "%+.1f\xc2\xa0%%" : "%.1f\xc2\xa0%%", g->value);
    else
        snprintf(value, sizeof value, "%s", g->gate.relative ? gw_diff_change(g->value).s : gw_diff_time(g->value).s);
    if (asprintf(&s, "%s: %s, %s", g->text, value,
                 g->crossed > 0   ? _("crossed")
                 : g->crossed < 0 ? _("counts as crossed")
                                  : _("not crossed")) < 0)
        return NULL;
    return s;
}
