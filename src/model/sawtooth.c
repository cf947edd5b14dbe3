#include "model/sawtooth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MIN_SAMPLES = 16,
    MAX_GRID = 16384, /* longer logs are averaged down; the autocorrelation costs grid x grid / 3 */
    MIN_CYCLES = 3    /* two swings may be chance */
};
#define MIN_DEPTH 30.0       /* percentage points; less is the noise of a utilization counter */
#define MIN_STRENGTH 0.5     /* autocorrelation of a square wave with a third of its power in noise is 0.67 */
#define MAX_EDGE_SPREAD 0.25 /* median deviation of the distances between rising edges, as a share of the period */
#define AGREEMENT 0.2        /* the two methods may differ by this share */
#define MIN_PERIOD_SAMPLES 4.0

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

struct grid {
    double *v;
    size_t n;
    double step_s;
    double low, high; /* means of its lower and its upper part */
};

/* The median distance of the stamps; 0 when they do not rise. */
static double interval(const int64_t *t, size_t n, double *scratch)
{
    size_t k = 0;
    for (size_t i = 1; i < n; i++)
        if (t[i] > t[i - 1])
            scratch[k++] = (double)(t[i] - t[i - 1]) * 1e-9;
    return k ? median(scratch, k) : 0;
}

/* Holds each value until the next; cells are averages over their time. */
static void resample(const int64_t *t, const double *v, size_t n, double span, struct grid *g)
{
    size_t at = 0;
    for (size_t i = 0; i < g->n; i++) {
        double a = (double)i * g->step_s, b = a + g->step_s, sum = 0, time = 0;
        while (at + 1 < n && (double)(t[at + 1] - t[0]) * 1e-9 <= a)
            at++;
        for (size_t k = at; k < n; k++) {
            double from = (double)(t[k] - t[0]) * 1e-9,
                   to = k + 1 < n ? (double)(t[k + 1] - t[0]) * 1e-9 : span + g->step_s;
            if (from >= b)
                break;
            double w = (to < b ? to : b) - (from > a ? from : a);
            if (w > 0) {
                sum += v[k] * w;
                time += w;
            }
        }
        g->v[i] = time > 0 ? sum / time : (i ? g->v[i - 1] : v[0]);
    }
}

/* Splits at the middle between the means of the two halves until they stand still (isodata; two classes). */
static double split(const double *v, size_t n, double *low, double *high)
{
    double min = v[0], max = v[0], at;
    for (size_t i = 1; i < n; i++) {
        min = v[i] < min ? v[i] : min;
        max = v[i] > max ? v[i] : max;
    }
    at = (min + max) / 2;
    for (int round = 0; round < 50; round++) {
        double a = 0, b = 0;
        size_t na = 0, nb = 0;
        for (size_t i = 0; i < n; i++)
            if (v[i] < at)
                a += v[i], na++;
            else
                b += v[i], nb++;
        *low = na ? a / (double)na : min;
        *high = nb ? b / (double)nb : max;
        double next = (*low + *high) / 2;
        if (fabs(next - at) < 1e-9)
            break;
        at = next;
    }
    return at;
}

struct edges {
    double *at; /* in grid steps */
    size_t n;
    size_t high_cells;
};

/* Rising edges with a dead band of 30 % of the depth, each placed between cells where the level crosses the middle. */
static void find_edges(const struct grid *g, struct edges *e)
{
    double mid = (g->low + g->high) / 2, band = (g->high - g->low) * 0.15;
    int up = g->v[0] > mid;
    e->n = e->high_cells = 0;
    for (size_t i = 0; i < g->n; i++) {
        if (!up && g->v[i] > mid + band) {
            double a = i ? g->v[i - 1] : g->v[i], b = g->v[i];
            e->at[e->n++] = (double)i - (b > a && a < mid ? (b - mid) / (b - a) : 0);
            up = 1;
        } else if (up && g->v[i] < mid - band) {
            up = 0;
        }
        e->high_cells += (size_t)up;
    }
}

/* The first strong peak of the autocorrelation. Returns its lag in steps (with a parabola through it), 0 = none. */
static double autocorrelation_peak(const struct grid *g, double mean, double *strength)
{
    size_t max_lag = g->n / MIN_CYCLES + 1;
    double var = 0, *r = calloc(max_lag + 2, sizeof *r), best = 0;
    size_t at = 0;
    *strength = 0;
    if (!r)
        return 0;
    for (size_t i = 0; i < g->n; i++)
        var += (g->v[i] - mean) * (g->v[i] - mean);
    var /= (double)g->n;
    for (size_t k = 0; k <= max_lag + 1 && k < g->n; k++) {
        double sum = 0;
        for (size_t i = 0; i + k < g->n; i++)
            sum += (g->v[i] - mean) * (g->v[i + k] - mean);
        r[k] = var > 0 ? sum / (double)(g->n - k) / var : 0;
    }
    size_t k = 1;
    while (k <= max_lag && r[k] > 0) /* past the peak at lag 0 */
        k++;
    for (; k + 1 <= max_lag; k++)
        if (r[k] > best) {
            best = r[k];
            at = k;
        }
    /* The highest peak may be a multiple of the period: take the first that is nearly as high. */
    for (k = 2; at && k < at; k++)
        if (r[k] >= r[k - 1] && r[k] >= r[k + 1] && r[k] > 0.85 * best && r[k] > MIN_STRENGTH) {
            at = k;
            break;
        }
    double lag = (double)at;
    if (at > 1) {
        double a = r[at - 1], b = r[at], c = r[at + 1], d = a - 2 * b + c;
        if (d < 0)
            lag += 0.5 * (a - c) / d;
    }
    *strength = at ? r[at] : 0;
    free(r);
    return lag;
}

/* Averages over a seventh of a period, so that chatter at an edge counts as one edge. `scratch` holds the original. */
static void smooth(struct grid *g, double period, double *scratch)
{
    size_t half = (size_t)(period / 14);
    memcpy(scratch, g->v, g->n * sizeof *g->v);
    for (size_t i = 0; half && i < g->n; i++) {
        size_t a = i > half ? i - half : 0, b = i + half + 1 < g->n ? i + half + 1 : g->n;
        double sum = 0;
        for (size_t k = a; k < b; k++)
            sum += scratch[k];
        g->v[i] = sum / (double)(b - a);
    }
}

/* Median distance of the rising edges and its median deviation, in steps. */
static void edge_period(const struct edges *e, double *scratch, double *period, double *spread)
{
    size_t k = e->n - 1;
    for (size_t i = 0; i < k; i++)
        scratch[i] = e->at[i + 1] - e->at[i];
    *period = median(scratch, k);
    for (size_t i = 0; i < k; i++)
        scratch[i] = fabs(e->at[i + 1] - e->at[i] - *period);
    *spread = median(scratch, k);
}

static void classify(struct grid *g, struct edges *e, double *scratch, struct gw_sawtooth *s)
{
    find_edges(g, e);
    s->duty = (double)e->high_cells / (double)g->n;
    s->cycles = (int64_t)e->n;
    s->shape = GW_WAVE_BURSTS;
    if (e->n < MIN_CYCLES + 1)
        return;
    double strength, by_edges, spread, by_peak = autocorrelation_peak(g, s->mean, &strength);
    if (strength >= MIN_STRENGTH) {
        smooth(g, by_peak, scratch);
        find_edges(g, e);
    }
    s->cycles = (int64_t)e->n;
    if (e->n < MIN_CYCLES + 1)
        return;
    edge_period(e, scratch, &by_edges, &spread);
    if (by_edges < MIN_PERIOD_SAMPLES) {
        s->shape = GW_WAVE_TOO_FAST;
        return;
    }
    if (by_peak < MIN_PERIOD_SAMPLES || strength < MIN_STRENGTH || spread > MAX_EDGE_SPREAD * by_edges ||
        fabs(by_peak - by_edges) > AGREEMENT * by_peak)
        return;
    s->shape = GW_WAVE_PERIODIC;
    /* The mean over all swings is more exact than one lag, when no edge was missed. */
    double mean = (e->at[e->n - 1] - e->at[0]) / (double)(e->n - 1);
    s->period_s = (fabs(mean - by_peak) < 0.05 * by_peak ? mean : by_peak) * g->step_s;
    s->period_error_s = (spread > 0.5 ? spread : 0.5) * g->step_s;
    s->strength = strength < 1 ? strength : 1;
}

struct gw_sawtooth gw_sawtooth_find(const int64_t *t, const double *v, size_t n)
{
    struct gw_sawtooth s = {.shape = GW_WAVE_TOO_SHORT,
                            .mean = NAN,
                            .high = NAN,
                            .low = NAN,
                            .depth = NAN,
                            .duty = NAN,
                            .period_s = NAN,
                            .period_error_s = NAN,
                            .strength = NAN,
                            .interval_s = NAN,
                            .span_s = NAN};
    if (n < MIN_SAMPLES)
        return s;
    size_t room = n > MAX_GRID ? n : MAX_GRID;
    double *scratch = malloc(room * sizeof *scratch);
    struct grid g = {.v = malloc(MAX_GRID * sizeof(double))};
    struct edges e = {.at = malloc(MAX_GRID * sizeof(double))};
    if (!scratch || !g.v || !e.at)
        goto out;
    s.interval_s = interval(t, n, scratch);
    s.span_s = (double)(t[n - 1] - t[0]) * 1e-9;
    if (s.interval_s <= 0 || s.span_s <= 0)
        goto out;
    double cells = s.span_s / s.interval_s + 1.5;
    g.n = cells < MAX_GRID ? (size_t)cells : MAX_GRID;
    g.step_s = g.n < MAX_GRID ? s.interval_s : s.span_s / (MAX_GRID - 1);
    if (g.n < MIN_SAMPLES)
        goto out;
    resample(t, v, n, s.span_s, &g);
    s.mean = 0;
    for (size_t i = 0; i < g.n; i++)
        s.mean += g.v[i] / (double)g.n;
    split(g.v, g.n, &g.low, &g.high);
    split(v, n, &s.low, &s.high); /* of the samples themselves: a long log's grid is averaged */
    s.depth = s.high - s.low;
    s.shape = GW_WAVE_STEADY;
    if (s.depth < MIN_DEPTH)
        s.high = s.low = s.mean, s.depth = 0;
    else
        classify(&g, &e, scratch, &s);
out:
    free(scratch);
    free(g.v);
    free(e.at);
    return s;
}
