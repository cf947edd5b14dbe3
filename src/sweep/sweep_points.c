/* sweep_points.c - runs into points: drift of the machine taken out, noise from run to run added. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/gw_i18n.h"
#include "sweep/sweep.h"

#define DRIFT_LEAST \
    0.03 /* a change of the machine over the sweep worth taking out: well below the tolerance of the knee */
#define DRIFT_FIT 0.70 /* share of the differences between runs of one point that a steady drift must explain */
#define DRIFT_SIGMA 3.0
#define OWN_LEAST 0.003 /* no run is known better than this: clocks, turbo, caches */

static const struct {
    const char *id, *text;
} outcomes[GW_SWEEP_OUTCOMES] = {
    {"ok", N_("measured")}, {"out-of-memory", N_("out of memory")}, {"crashed", N_("failed")},
    {"hung", N_("hung")},   {"no-steps", N_("no step was seen")},
};

const char *gw_sweep_outcome_id(unsigned o) { return o < GW_SWEEP_OUTCOMES ? outcomes[o].id : ""; }
const char *gw_sweep_outcome_text(unsigned o) { return o < GW_SWEEP_OUTCOMES ? outcomes[o].text : ""; }

int gw_sweep_begin(struct gw_sweep *s)
{
    s->points = 1;
    for (size_t k = 0; k < s->knobs; k++)
        s->points *= s->knob[k].n;
    s->runs = 0;
    s->drift = s->noise = NAN;
    s->drift_slope = s->drift_mid = 0;
    s->point = calloc(s->points, sizeof *s->point);
    s->run = calloc(GW_SWEEP_RUNS, sizeof *s->run);
    for (size_t i = 0; s->point && i < s->points; i++)
        s->point[i].rate = s->point[i].error = s->point[i].expected_bytes = NAN;
    return s->point && s->run ? GW_OK : GW_ENOMEM;
}

void gw_sweep_free(struct gw_sweep *s)
{
    free(s->point);
    free(s->run);
    s->point = NULL;
    s->run = NULL;
}

size_t gw_sweep_at(const struct gw_sweep *s, size_t point, size_t knob)
{
    size_t inner = s->knobs > 1 ? s->knob[1].n : 1;
    return knob == 0 ? point / inner : point % inner;
}

size_t gw_sweep_point_of(const struct gw_sweep *s, const size_t at[GW_SWEEP_KNOBS])
{
    return s->knobs > 1 ? at[0] * s->knob[1].n + at[1] : at[0];
}

/* --- drift --- */

static double own_sigma(const struct gw_sweep_run *r)
{
    double sigma = isfinite(r->error) ? r->error / 1.96 : 0.5;
    return sigma > OWN_LEAST ? sigma : OWN_LEAST;
}

static int counts(const struct gw_sweep_run *r) { return r->outcome == GW_SWEEP_OK && r->rate > 0; }

struct sums {
    double n, t, y; /* of a point's runs: number, mean time, mean log rate */
};

static struct sums mean_of(const struct gw_sweep *s, size_t point)
{
    struct sums m = {0};
    for (size_t i = 0; i < s->runs; i++)
        if (s->run[i].point == point && counts(&s->run[i])) {
            m.n++;
            m.t += s->run[i].at_s;
            m.y += log(s->run[i].rate);
        }
    if (m.n > 0) {
        m.t /= m.n;
        m.y /= m.n;
    }
    return m;
}

/* Runs of one point at different times tell how the machine changed: a straight line through log(rate). */
static void find_drift(struct gw_sweep *s)
{
    double tt = 0, ty = 0, yy = 0, own = 0, runs = 0, first = INFINITY, last = -INFINITY, freedom = 0;
    size_t repeated = 0;
    s->drift = s->noise = NAN;
    s->drift_slope = 0;
    for (size_t p = 0; p < s->points; p++) {
        struct sums m = mean_of(s, p);
        repeated += m.n > 1;
        freedom += m.n > 1 ? m.n - 1 : 0;
        for (size_t i = 0; i < s->runs; i++) {
            const struct gw_sweep_run *r = s->run + i;
            if (r->point != p || !counts(r))
                continue;
            first = fmin(first, r->at_s);
            last = fmax(last, r->at_s);
            if (m.n < 2)
                continue;
            double t = r->at_s - m.t, y = log(r->rate) - m.y;
            tt += t * t, ty += t * y, yy += y * y;
            own += own_sigma(r) * own_sigma(r);
            runs++;
        }
    }
    if (!repeated || tt <= 0)
        return;
    double slope = ty / tt, explained = yy > 0 ? slope * ty / yy : 0, span = last - first;
    own /= runs;
    s->drift = 0;
    s->drift_mid = (first + last) / 2;
    if (repeated > 1 && fabs(slope) * span > DRIFT_LEAST && fabs(slope) > DRIFT_SIGMA * sqrt(own / tt) &&
        explained > DRIFT_FIT) {
        s->drift = expm1(slope * span);
        s->drift_slope = slope;
        yy -= slope * ty;
        freedom -= 1;
    }
    double between = freedom > 0 ? yy / freedom - own : 0;
    s->noise = between > 0 ? sqrt(between) : 0;
}

/* --- points --- */

static void gather(struct gw_sweep *s, size_t p)
{
    struct gw_sweep_point *pt = s->point + p;
    double sum = 0, own = 0, n = 0;
    for (size_t i = 0; i < s->runs; i++) {
        const struct gw_sweep_run *r = s->run + i;
        if (r->point != p || !counts(r))
            continue;
        sum += log(r->rate) - s->drift_slope * (r->at_s - s->drift_mid);
        own += own_sigma(r) * own_sigma(r);
        n++;
    }
    if (n <= 0)
        return;
    double noise = isnan(s->noise) ? 0 : s->noise;
    pt->rate = exp(sum / n);
    pt->error = 1.96 * sqrt((own / n + noise * noise) / n);
}

int gw_sweep_add(struct gw_sweep *s, const struct gw_sweep_run *run)
{
    if (s->runs == GW_SWEEP_RUNS)
        return GW_ENOMEM;
    struct gw_sweep_point *pt = s->point + run->point;
    s->run[s->runs++] = *run;
    pt->runs++;
    /* One good run says that the setting works: a later failure is the machine's. */
    if (counts(run) || pt->state != GW_SWEEP_MEASURED) {
        pt->state = counts(run) ? GW_SWEEP_MEASURED : GW_SWEEP_FAILED;
        pt->last = *run;
    }
    find_drift(s);
    for (size_t p = 0; p < s->points; p++)
        gather(s, p);
    return GW_OK;
}
