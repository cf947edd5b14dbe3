/* sweep_words.c - what a sweep found, in sentences. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/gw_i18n.h"
#include "report/fmt.h"
#include "report/sweep_report.h"

#define TOO_NOISY 0.15 /* three times the tolerance of the knee: calling such a curve flat would say too much */

static const struct {
    const char *id, *text;
} units[GW_SWEEP_UNITS] = {{"steps", N_("steps/s")}, {"samples", N_("samples/s")}, {"batches", N_("batches/s")},
                           {"lines", N_("lines/s")}, {"matches", N_("matches/s")}, {"values", N_("(as printed)")}};

const char *gw_sweep_unit_id(unsigned u) { return u < GW_SWEEP_UNITS ? units[u].id : ""; }
const char *gw_sweep_unit_text(unsigned u) { return u < GW_SWEEP_UNITS ? units[u].text : ""; }

const char *gw_sweep_setting(const struct gw_sweep *s, size_t point, char *buf, size_t cap)
{
    size_t n = 0;
    *buf = 0;
    for (size_t k = 0; k < s->knobs && n < cap; k++)
        n += (size_t)snprintf(buf + n, cap - n, "%s%s=%s", k ? " " : "", s->knob[k].name,
                              s->knob[k].value[gw_sweep_at(s, point, k)]);
    return buf;
}

const char *gw_sweep_rate_text(const struct gw_sweep_result *r, double rate, char *buf, size_t cap)
{
    int decimals = rate >= 999.5 ? 0 : rate >= 99.95 ? 0 : rate >= 9.995 ? 1 : rate >= 0.9995 ? 2 : 3;
    if (isnan(rate))
        snprintf(buf, cap, "%s", _("n/a"));
    else if (rate >= 9999.5)
        snprintf(buf, cap, "%s\xc2\xa0%s", gw_fmt_count((int64_t)(rate + 0.5)).s, _(gw_sweep_unit_text(r->unit)));
    else
        snprintf(buf, cap, "%.*f\xc2\xa0%s", decimals, rate, _(gw_sweep_unit_text(r->unit)));
    return buf;
}

/* --- the answer --- */

static double rate_at(const struct gw_sweep_result *r, size_t point)
{
    return point == GW_SWEEP_NONE ? NAN : r->sweep->point[point].rate;
}

/* Supply and demand: three points whose knob says what ran. */
static const char *parts(const struct gw_sweep_result *r, char *buf, size_t cap)
{
    double supply = r->sweep->point[0].rate, demand = r->sweep->point[1].rate, whole = r->sweep->point[2].rate;
    char a[64], b[64], c[64];
    gw_sweep_rate_text(r, supply, a, sizeof a);
    gw_sweep_rate_text(r, demand, b, sizeof b);
    gw_sweep_rate_text(r, whole, c, sizeof c);
    double noise = 3 * hypot(r->sweep->point[0].error, r->sweep->point[1].error) / 2;
    noise = noise > GW_SWEEP_TOLERANCE ? noise : GW_SWEEP_TOLERANCE;
    if (isnan(supply) || isnan(demand))
        snprintf(buf, cap,
                 _("Supply and demand cannot be compared: the loader alone gives %s, the model alone takes %s."), a, b);
    else if (supply < demand * (1 - noise))
        snprintf(buf, cap,
                 _("The loader is the limit: alone it supplies %s, while the model alone could take %s. Together they "
                   "reach %s. A loader "
                   "%.2g times as fast would be enough."),
                 a, b, c, demand / supply);
    else if (supply > demand * (1 + noise))
        snprintf(buf, cap,
                 _("The loader is fast enough: alone it supplies %s, while the model alone takes %s. Together they "
                   "reach %s. More workers "
                   "would bring nothing."),
                 a, b, c);
    else
        snprintf(buf, cap,
                 _("Loader and model are evenly matched: alone the loader supplies %s and the model takes %s. Together "
                   "they reach %s."),
                 a, b, c);
    return buf;
}

static void knee_sentence(const struct gw_sweep_result *r, char *buf, size_t cap)
{
    const struct gw_sweep_verdict *v = &r->verdict;
    char knee[128], best[128], a[64], b[64], from[128], to[128];
    size_t n = 0;
    gw_sweep_setting(r->sweep, v->knee, knee, sizeof knee);
    gw_sweep_setting(r->sweep, v->best, best, sizeof best);
    gw_sweep_rate_text(r, rate_at(r, v->knee), a, sizeof a);
    gw_sweep_rate_text(r, rate_at(r, v->best), b, sizeof b);
    if (v->knee == v->best)
        n = (size_t)snprintf(buf, cap, _("Take %s: %s, the best that was measured."), knee, a);
    else if (rate_at(r, v->knee) >= (1 - GW_SWEEP_TOLERANCE) * rate_at(r, v->best))
        n = (size_t)snprintf(buf, cap, _("Take %s: %s. More brings nothing: the best, %s, gives %s (%+.1f %%)."), knee,
                             a, best, b, 100 * (rate_at(r, v->best) / rate_at(r, v->knee) - 1));
    else
        n = (size_t)snprintf(buf, cap,
                             _("Take %s: %s. The best, %s, gives %s (%+.1f %%), which cannot be told from the noise."),
                             knee, a, best, b, 100 * (rate_at(r, v->best) / rate_at(r, v->knee) - 1));
    if (v->from != v->to && n < cap)
        snprintf(buf + n, cap - n, _(" The knee lies between %s and %s: these cannot be told apart."),
                 gw_sweep_setting(r->sweep, v->from, from, sizeof from),
                 gw_sweep_setting(r->sweep, v->to, to, sizeof to));
}

const char *gw_sweep_answer(const struct gw_sweep_result *r, char *buf, size_t cap)
{
    const struct gw_sweep_verdict *v = &r->verdict;
    char knee[128] = "", a[64];
    *buf = 0;
    if (r->is_parts)
        return parts(r, buf, cap);
    if (v->knee != GW_SWEEP_NONE)
        gw_sweep_setting(r->sweep, v->knee, knee, sizeof knee);
    gw_sweep_rate_text(r, rate_at(r, v->knee), a, sizeof a);
    switch (v->kind) {
    case GW_SWEEP_NOTHING: snprintf(buf, cap, "%s", _("Nothing could be measured.")); break;
    case GW_SWEEP_ONE:
        snprintf(buf, cap, _("Only %s could be measured (%s): there is nothing to compare it with."), knee, a);
        break;
    case GW_SWEEP_FLAT:
        if (v->tolerance > TOO_NOISY) {
            snprintf(buf, cap,
                     _("Too noisy to tell: the settings differ by less than the noise of %.0f %%. Give --repeats and "
                       "--point-limit more, or a quieter machine."),
                     100 * v->tolerance);
            break;
        }
        snprintf(buf, cap,
                 _("The curve is flat: this setting makes no difference of more than %.0f %%. %s is enough (%s); "
                   "something else is the limit."),
                 100 * v->tolerance, knee, a);
        break;
    case GW_SWEEP_RISING:
        snprintf(buf, cap,
                 _("Take %s: %s. It is the largest value of the list and the rate is still growing: try larger ones."),
                 knee, a);
        break;
    case GW_SWEEP_OPEN:
        snprintf(buf, cap,
                 _("Take %s: %s. It is the largest that was measured and the rate is still growing: larger ones were not tried, give more time."), knee, a);
        break;
    case GW_SWEEP_BOUNDED:
        snprintf(buf, cap, _("Take %s: %s. It is the largest that works, and the rate was still growing."), knee, a);
        break;
    default: knee_sentence(r, buf, cap); break;
    }
    return buf;
}

const char *gw_sweep_why_not(const struct gw_sweep_result *r, size_t point, char *buf, size_t cap)
{
    const struct gw_sweep_point *p = r->sweep->point + point;
    *buf = 0;
    if (p->state == GW_SWEEP_FAILED && *p->last.why)
        snprintf(buf, cap, "%s: %s", _(gw_sweep_outcome_text(p->last.outcome)), p->last.why);
    else if (p->state == GW_SWEEP_FAILED)
        snprintf(buf, cap, "%s", _(gw_sweep_outcome_text(p->last.outcome)));
    else if (p->state == GW_SWEEP_SKIPPED && p->skip == GW_SWEEP_SKIP_BOUND)
        snprintf(buf, cap, "%s", _("not tried: a smaller one fails already"));
    else if (p->state == GW_SWEEP_SKIPPED && p->skip == GW_SWEEP_SKIP_GPU_MEMORY)
        snprintf(buf, cap, _("not tried: it would need about %s of GPU memory"),
                 gw_fmt_bytes((int64_t)p->expected_bytes).s);
    else if (p->state == GW_SWEEP_SKIPPED)
        snprintf(buf, cap, _("not tried: its workers would need about %s more than are free"),
                 gw_fmt_bytes((int64_t)p->expected_bytes).s);
    return buf;
}

/* --- remarks --- */

typedef int remark(const struct gw_sweep_result *r, char *buf, size_t cap); /* 1 when there is one */

static const struct gw_sweep_knob *batch_knob(const struct gw_sweep *s)
{
    for (size_t k = 0; k < s->knobs; k++)
        if (s->knob[k].is_batch)
            return s->knob + k;
    return NULL;
}

static int scaling(const struct gw_sweep_result *r, char *buf, size_t cap)
{
    char a[128];
    if (!batch_knob(r->sweep) || r->unit != GW_SWEEP_SAMPLES || r->verdict.measured < 2)
        return 0;
    if (r->verdict.linear == GW_SWEEP_NONE)
        snprintf(buf, cap, "%s",
                 _("throughput does not grow in proportion to the batch anywhere in the list: the GPU was full "
                   "already, or something else is the limit"));
    else
        snprintf(buf, cap, _("throughput grows in proportion to the batch up to %s"),
                 gw_sweep_setting(r->sweep, r->verdict.linear, a, sizeof a));
    return 1;
}

static int gpu_memory(const struct gw_sweep_result *r, char *buf, size_t cap)
{
    const struct gw_sweep_verdict *v = &r->verdict;
    if (v->knee == GW_SWEEP_NONE || !batch_knob(r->sweep))
        return 0;
    const struct gw_sweep_run *k = &r->sweep->point[v->knee].last;
    if (isnan(k->gpu_bytes) || isnan(k->gpu_total))
        return 0;
    char a[128];
    size_t n = (size_t)snprintf(buf, cap, _("%s of %s of GPU memory are in use there, %s are free"),
                                gw_fmt_bytes((int64_t)k->gpu_bytes).s, gw_fmt_bytes((int64_t)k->gpu_total).s,
                                gw_fmt_bytes((int64_t)(k->gpu_total - k->gpu_bytes)).s);
    if (k->gpu_bytes > GW_SWEEP_MEMORY_HIGH * k->gpu_total && v->below_high != GW_SWEEP_NONE && n < cap)
        snprintf(buf + n, cap - n, _("; that is more than 90 %%, and longer inputs may fail: %s stays below the mark"),
                 gw_sweep_setting(r->sweep, v->below_high, a, sizeof a));
    return 1;
}

static int host_memory(const struct gw_sweep_result *r, char *buf, size_t cap)
{
    if (r->verdict.knee == GW_SWEEP_NONE || r->is_parts)
        return 0;
    const struct gw_sweep_run *k = &r->sweep->point[r->verdict.knee].last;
    if (isnan(k->worker_bytes) || isnan(k->host_free) || !(k->workers > 0))
        return 0;
    double all = k->workers * k->worker_bytes;
    if (all > k->host_free)
        snprintf(buf, cap,
                 _("%.0f worker processes hold %s each, and only %s of the host's memory are free: a data set that "
                   "grows in them will exhaust it"),
                 k->workers, gw_fmt_bytes((int64_t)k->worker_bytes).s, gw_fmt_bytes((int64_t)k->host_free).s);
    else
        snprintf(buf, cap,
                 gw_ngettext("%.0f worker process holds %s; %s of the host's memory are free",
                             "%.0f worker processes hold %s each; %s of the host's memory are free", (unsigned long)k->workers),
                 k->workers, gw_fmt_bytes((int64_t)k->worker_bytes).s, gw_fmt_bytes((int64_t)k->host_free).s);
    return 1;
}

static int drift(const struct gw_sweep_result *r, char *buf, size_t cap)
{
    if (!(r->sweep->drift > 0 || r->sweep->drift < 0))
        return 0;
    snprintf(buf, cap,
             _("the machine changed by %+.0f %% during the sweep, as runs of the same setting show; the rates are "
               "corrected for it"),
             100 * r->sweep->drift);
    return 1;
}

static int noise(const struct gw_sweep_result *r, char *buf, size_t cap)
{
    if (isnan(r->sweep->noise) || r->sweep->noise < 0.01)
        return 0;
    snprintf(buf, cap, _("runs of the same setting differ by %.1f %% (standard deviation); the ranges include that"),
             100 * r->sweep->noise);
    return 1;
}

static int unsettled(const struct gw_sweep_result *r, char *buf, size_t cap)
{
    size_t n = 0, loose = 0;
    for (size_t p = 0; p < r->sweep->points; p++) {
        n += r->sweep->point[p].state == GW_SWEEP_MEASURED && !r->sweep->point[p].last.is_settled;
        loose += r->sweep->point[p].state == GW_SWEEP_MEASURED && r->sweep->point[p].error > 0.10 &&
                 !gw_sweep_is_far(r->sweep->point[p].rate, r->sweep->point[p].error, rate_at(r, r->verdict.best));
    }
    if (!n && !loose)
        return 0;
    snprintf(buf, cap,
             gw_ngettext("%zu point was still changing or is known to 10 %% at best when its time was up; give "
                         "--point-limit more",
                         "%zu points were still changing or are known to 10 %% at best when their time was up; give "
                         "--point-limit more",
                         n > loose ? n : loose),
             n > loose ? n : loose);
    return 1;
}

/* Kernels a step should be the same along a line: if not, the rhythm may have been taken for another. */
static int rhythm(const struct gw_sweep_result *r, char *buf, size_t cap)
{
    double least = NAN, most = NAN;
    for (size_t p = 0; p < r->sweep->points; p++) {
        double k = r->sweep->point[p].last.kernels;
        if (r->sweep->point[p].state != GW_SWEEP_MEASURED || isnan(k))
            continue;
        least = k < least || isnan(least) ? k : least;
        most = k > most || isnan(most) ? k : most;
    }
    if (!(most > 1.5 * least))
        return 0;
    snprintf(buf, cap,
             _("steps were found by the GPU's rhythm, and have %.0f kernels at one point and %.0f at another: these "
               "may not be the same "
               "steps; confirm with --metric=REGEX on a line that the job prints each step"),
             least, most);
    return 1;
}

static int hook(const struct gw_sweep_result *r, char *buf, size_t cap)
{
    int any = 0;
    for (size_t k = 0; k < r->sweep->knobs; k++)
        any |= r->by_hook[k];
    if (!any)
        return 0;
    snprintf(buf, cap,
             _("the settings were put into the job's DataLoaders from outside (%d of them in the last run); the script "
               "itself still has its own"),
             r->loaders_changed);
    return 1;
}

static int alone(const struct gw_sweep_result *r, char *buf, size_t cap)
{
    if (!r->is_parts)
        return 0;
    snprintf(buf, cap,
             _("loader alone: the first DataLoader that the script iterates (data set: %s) is emptied over and over, "
               "and no step is made; model alone: "
               "each DataLoader gives its first batch again and again, copies to the GPU included"),
             *r->alone_dataset ? r->alone_dataset : _("n/a"));
    return 1;
}

static int resumed(const struct gw_sweep_result *r, char *buf, size_t cap)
{
    if (!r->resumed)
        return 0;
    snprintf(buf, cap, gw_ngettext("%zu run comes from the file of an earlier sweep",
                                     "%zu runs come from the file of an earlier sweep", r->resumed),
             r->resumed);
    return 1;
}

static int unfinished(const struct gw_sweep_result *r, char *buf, size_t cap)
{
    if (r->stop == GW_SWEEP_DONE)
        return 0;
    snprintf(buf, cap, "%s",
             r->stop == GW_SWEEP_BUDGET_SPENT ? _("the time of --budget was used up before all was known")
                                              : _("interrupted before all was known"));
    return 1;
}

const char *gw_sweep_remark(const struct gw_sweep_result *r, size_t i, char *buf, size_t cap)
{
    static remark *const all[] = {unfinished, scaling, gpu_memory, host_memory, alone,  hook,
                                  drift,      noise,   rhythm,     unsettled,   resumed};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (all[k](r, buf, cap) && i-- == 0)
            return buf;
    return NULL;
}
