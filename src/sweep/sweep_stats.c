/* sweep_stats.c - see sweep_stats.h */
#include "sweep/sweep_stats.h"

#include <math.h>
#include <string.h>

enum {
    GROUPS = 128,     /* the series is looked at in at most so many pieces */
    BATCHES = 32,     /* batches at most: Schmeiser (1982) finds no gain beyond 30 */
    BATCHES_LEAST = 8 /* merging stops here */
};
#define CHANGE_Z 4.5        /* of a normal variable: one chance in 150,000, because many cuts are tried */
#define CHANGE_SHARE 0.05   /* a smaller difference than that at which the knee is drawn does no harm */
#define LIKE_NEIGHBOURS 0.2 /* lag-1 correlation above which batches are merged */

double gw_sweep_t95(size_t degrees)
{
    /* Student's t, two-sided 95 %. */
    static const double t[] = {12.706, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                               2.201,  2.179,  2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086};
    if (degrees < sizeof t / sizeof *t)
        return t[degrees];
    return 1.960 + 2.5 / (double)degrees; /* within 0.003 of the table from 20 on */
}

static double mean_of(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

static double deviation(const double *x, size_t n, double mean)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return n > 1 ? sqrt(sum / (double)(n - 1)) : 0;
}

/* Correlation of neighbours. */
static double likeness(const double *x, size_t n, double mean)
{
    double with = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        all += (x[i] - mean) * (x[i] - mean);
        if (i)
            with += (x[i] - mean) * (x[i - 1] - mean);
    }
    return all > 0 ? with / all : 0;
}

/* By how much the mean of a series that resembles itself is less certain than one of independent elements. */
static double stretch(double r) { return r > 0 ? sqrt((1 + fmin(r, 0.9)) / (1 - fmin(r, 0.9))) : 1; }

/* --- change of level -------------------------------------------------------------------------------------------------
 */

/* The best cut of x[0..n) that leaves at least `rest` elements behind it. 0: none is worth making. */
static size_t best_cut(const double *x, size_t n, size_t rest)
{
    double total = mean_of(x, n) * (double)n, before = 0, most = 0;
    size_t best = 0;
    for (size_t k = 1; k + rest <= n; k++) {
        before += x[k - 1];
        double a = before / (double)k, b = (total - before) / (double)(n - k);
        double gain = (double)k * (double)(n - k) / (double)n * (a - b) * (a - b); /* by how much the squares shrink */
        if (gain > most) {
            most = gain;
            best = k;
        }
    }
    if (!best)
        return 0;
    double a = mean_of(x, best), b = mean_of(x + best, n - best), spread = deviation(x + best, n - best, b);
    double floor = fabs(b) * 1e-3; /* no series is steadier than our clock */
    spread = spread > floor ? spread : floor;
    double chance =
        spread * sqrt(1.0 / (double)best + 1.0 / (double)(n - best)) * stretch(likeness(x + best, n - best, b));
    return fabs(a - b) > CHANGE_Z * chance && fabs(a - b) > CHANGE_SHARE * fabs(b) ? best : 0;
}

size_t gw_sweep_change(const double *x, size_t n)
{
    size_t rest = n / 4 > GW_SWEEP_LEAST ? n / 4 : GW_SWEEP_LEAST, from = 0;
    for (size_t cut; n - from > rest && (cut = best_cut(x + from, n - from, rest)) > 0;)
        from += cut;
    return from;
}

/* --- confidence --- */

/* Half of the 95 % interval of the mean of x[0..n), which are means of stretches that follow each other. */
static double half_interval(double *x, size_t n)
{
    double mean = mean_of(x, n), r = likeness(x, n, mean);
    while (r > LIKE_NEIGHBOURS && n / 2 >= BATCHES_LEAST) {
        for (size_t i = 0; i + 1 < n; i += 2)
            x[i / 2] = (x[i] + x[i + 1]) / 2;
        n /= 2;
        mean = mean_of(x, n);
        r = likeness(x, n, mean);
    }
    return gw_sweep_t95(n - 1) * deviation(x, n, mean) / sqrt((double)n) *
           stretch(r); /* what merging could not take away */
}

/* --- a series --- */

/* Mean of elements [from, to) of the series: of values, or of the intervals between marks. */
static double piece(const double *value, const int64_t *at, size_t from, size_t to)
{
    if (value)
        return mean_of(value + from, to - from);
    return (double)(at[to] - at[from]) / (double)(to - from);
}

static void nothing(struct gw_sweep_rate *out, size_t n)
{
    memset(out, 0, sizeof *out);
    out->rate = NAN;
    out->error = INFINITY;
    out->count = n;
}

/* The mean of n elements without warm-up, and how well it is known, into out->rate (as a mean) and out->error. */
static void series(const double *value, const int64_t *at, size_t n, struct gw_sweep_rate *out)
{
    double x[GROUPS];
    nothing(out, n);
    if (n < GW_SWEEP_LEAST)
        return;
    size_t groups = n < GROUPS ? n : GROUPS;
    for (size_t g = 0; g < groups; g++)
        x[g] = piece(value, at, g * n / groups, (g + 1) * n / groups);
    size_t cut = gw_sweep_change(x, groups);
    out->is_settled = cut * 2 <= groups;
    out->warmup = cut * n / groups;
    size_t left = n - out->warmup, batches = left < BATCHES ? left : BATCHES;
    for (size_t b = 0; b < batches; b++)
        x[b] = piece(value, at, out->warmup + b * left / batches, out->warmup + (b + 1) * left / batches);
    out->rate = piece(value, at, out->warmup, n);
    out->error = out->rate > 0 ? half_interval(x, batches) / out->rate : INFINITY;
}

void gw_sweep_rate_of_marks(const int64_t *at, size_t n, struct gw_sweep_rate *out)
{
    size_t intervals = n ? n - 1 : 0;
    series(NULL, at, intervals, out);
    if (isnan(out->rate))
        return;
    for (size_t i = out->warmup; i < intervals; i++)
        out->longest_s = fmax(out->longest_s, (double)(at[i + 1] - at[i]) * 1e-9);
    out->warmup_s = (double)(at[out->warmup] - at[0]) * 1e-9;
    out->steady_s = (double)(at[intervals] - at[out->warmup]) * 1e-9;
    if (out->rate > 0)
        out->rate = 1e9 / out->rate; /* ns a step -> steps a second; the relative error stays */
    else
        nothing(out, intervals); /* all at one instant: no rate can be told */
}

void gw_sweep_rate_of_values(const double *value, const int64_t *at, size_t n, struct gw_sweep_rate *out)
{
    series(value, at, n, out);
    if (isnan(out->rate) || !n)
        return;
    for (size_t i = out->warmup + 1; i < n; i++)
        out->longest_s = fmax(out->longest_s, (double)(at[i] - at[i - 1]) * 1e-9);
    out->warmup_s = (double)(at[out->warmup] - at[0]) * 1e-9;
    out->steady_s = (double)(at[n - 1] - at[out->warmup]) * 1e-9;
}
