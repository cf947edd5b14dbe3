/* sweep_line.c - one knob varied, the other held: its best point, its knee, its end. */
#include <math.h>

#include "sweep/sweep.h"

struct gw_sweep_line gw_sweep_line_of(const struct gw_sweep *s, size_t knob, size_t held)
{
    return (struct gw_sweep_line){.s = s, .knob = knob, .n = s->knob[knob].n, .held = held};
}

size_t gw_sweep_line_point(const struct gw_sweep_line *l, size_t i)
{
    size_t at[GW_SWEEP_KNOBS] = {0, 0};
    at[l->knob] = i;
    at[1 - l->knob] = l->held;
    return gw_sweep_point_of(l->s, at);
}

const struct gw_sweep_point *gw_sweep_on(const struct gw_sweep_line *l, size_t i)
{
    return l->s->point + gw_sweep_line_point(l, i);
}

size_t gw_sweep_line_best(const struct gw_sweep_line *l)
{
    size_t best = GW_SWEEP_NONE;
    for (size_t i = 0; i < l->n; i++)
        if (gw_sweep_on(l, i)->state == GW_SWEEP_MEASURED &&
            (best == GW_SWEEP_NONE || gw_sweep_on(l, i)->rate > gw_sweep_on(l, best)->rate))
            best = i;
    return best;
}

double gw_sweep_line_tolerance(const struct gw_sweep_line *l, size_t best, size_t i)
{
    double noise = hypot(gw_sweep_on(l, best)->error, gw_sweep_on(l, i)->error);
    return noise > GW_SWEEP_TOLERANCE ? noise : GW_SWEEP_TOLERANCE;
}

size_t gw_sweep_line_knee(const struct gw_sweep_line *l)
{
    size_t best = gw_sweep_line_best(l);
    for (size_t i = 0; best != GW_SWEEP_NONE && i < best; i++) {
        const struct gw_sweep_point *p = gw_sweep_on(l, i);
        if (p->state == GW_SWEEP_MEASURED &&
            p->rate >= (1 - gw_sweep_line_tolerance(l, best, i)) * gw_sweep_on(l, best)->rate)
            return i;
    }
    return best;
}

size_t gw_sweep_line_bound(const struct gw_sweep_line *l)
{
    size_t bound = l->n, measured = 0;
    for (size_t i = l->n; i-- > 0;) {
        const struct gw_sweep_point *p = gw_sweep_on(l, i);
        measured += p->state == GW_SWEEP_MEASURED;
        if (measured)
            break;
        if (p->state == GW_SWEEP_FAILED || p->state == GW_SWEEP_SKIPPED)
            bound = i;
    }
    if (bound == l->n || measured)
        return bound;
    /* Nothing works at all so far: only memory says that more of it will not work either. */
    return gw_sweep_on(l, bound)->state == GW_SWEEP_SKIPPED ||
                   gw_sweep_on(l, bound)->last.outcome == GW_SWEEP_OUT_OF_MEMORY
               ? bound
               : l->n;
}
