/* Gates on a comparison, for scripts and CI. Grammar and meaning: diff.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/diff.h"

#include "base/gw_i18n.h"

static int has_prefix(const char *s, const char *head) { return !strncmp(s, head, strlen(head)); }

static int known_metric(const char *m)
{
    static const char *const names[] = {"step", "mean", "compute", "comm", "copies", "idle"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(m, names[i]))
            return 1;
    if (has_prefix(m, "kernel:"))
        return m[7] != 0;
    for (unsigned c = 0; has_prefix(m, "cause:") && c < GW_CAUSE_COUNT; c++)
        if (!strcmp(m + 6, gw_cause_id(c)))
            return 1;
    return 0;
}

static int unit_of(const char *s, struct gw_gate *g)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    if (!strcmp(s, "%")) {
        g->percent = 1;
        return 1;
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(s, units[i].unit)) {
            g->limit *= units[i].ns;
            return 1;
        }
    return 0;
}

int gw_gate_parse(const char *text, struct gw_gate *g, char *why, size_t cap)
{
    /* the last comparison sign: kernel names may hold others */
    const char *op = NULL;
    for (const char *p = text; *p; p++)
        if (*p == '>' || *p == '<')
            op = p;
    memset(g, 0, sizeof *g);
    if (!op || op == text || (size_t)(op - text) >= sizeof g->metric) {
        snprintf(why, cap, _("write it like step>+5%% or idle>30%%"));
        return GW_EUSAGE;
    }
    memcpy(g->metric, text, (size_t)(op - text));
    if (!known_metric(g->metric)) {
        snprintf(why, cap, _("'%s' is none of step, mean, compute, comm, copies, idle, kernel:NAME, cause:ID"), g->metric);
        return GW_EUSAGE;
    }
    g->below = *op == '<';
    g->relative = op[1] == '+' || op[1] == '-';
    char *end;
    g->limit = strtod(op + 1, &end);
    if (end == op + 1 || !isfinite(g->limit) || !strchr("+-.0123456789", op[1]) || !unit_of(end, g)) {
        snprintf(why, cap, _("'%s' is no number with %%, us, ms or s"), op + 1);
        return GW_EUSAGE;
    }
    return GW_OK;
}

static const struct gw_diff_row *row_of(const struct gw_diff_row *list, size_t n, const char *id)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(list[i].id, id))
            return list + i;
    return NULL;
}

/* The metric on both sides, ns a step, and whether its change is more than noise. 0 when it cannot be told. */
static int values(const struct gw_diff *d, const char *m, double *a, double *b, int *real)
{
    if (d->why_not)
        return 0;
    *a = *b = 0;
    *real = 0;
    if (!strcmp(m, "step") || !strcmp(m, "mean")) {
        *a = !strcmp(m, "step") ? d->a.median : d->a.mean;
        *b = !strcmp(m, "step") ? d->b.median : d->b.mean;
        double ratio = *b / *a; /* the interval is that of the medians; means carry the slow steps on top */
        *real = isfinite(d->low) && fabs(log(ratio)) > log(d->ratio / d->low);
        return isfinite(*a) && isfinite(*b);
    }
    if (has_prefix(m, "kernel:")) {
        for (size_t i = 0; i < d->kernel_count; i++)
            if (strstr(d->kernels[i].id, m + 7)) {
                *a += d->kernels[i].a;
                *b += d->kernels[i].b;
                *real |= d->kernels[i].real;
            }
        return 1;
    }
    const struct gw_diff_row *r =
        has_prefix(m, "cause:") ? row_of(d->causes, d->cause_count, m + 6) : row_of(d->parts, d->part_count, m);
    if (r) { /* a cause without a row cost nothing on either side */
        *a = r->a;
        *b = r->b;
        *real = r->real;
    }
    return 1;
}

int gw_gate_crossed(const struct gw_diff *d, const struct gw_gate *g, int strict, double *value)
{
    double a, b;
    int real;
    *value = NAN;
    if (!values(d, g->metric, &a, &b, &real))
        return -1;
    if (!g->relative)
        *value = g->percent ? 100 * b / d->b.mean : b;
    else if (!g->percent)
        *value = b - a;
    else
        *value = a > 0 ? 100 * (b / a - 1) : b > 0 ? INFINITY : 0;
    int over = g->below ? *value < g->limit : *value > g->limit;
    /* a wished-for improvement that is missing crosses whatever the noise; a change for the worse must be more than
     * that */
    int wish = g->relative && ((g->limit < 0 && !g->below) || (g->limit > 0 && g->below));
    return over && (!g->relative || wish || strict || real);
}
