#include "engine_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static int partition(const struct gw_partition *p, const char *which, char *why, size_t cap)
{
    int64_t sum = p->compute + p->comm_exposed + p->copy_exposed + p->idle;
    if (sum == p->wall && p->wall == p->end - p->start && p->wall >= 0 && p->compute >= 0 && p->comm_exposed >= 0 &&
        p->copy_exposed >= 0 && p->idle >= 0 && p->comm_hidden >= 0 && p->copy_hidden >= 0 &&
        p->comm_hidden <= p->compute && p->copy_hidden <= p->compute + p->comm_exposed)
        return 0;
    snprintf(why, cap,
             "%s: compute %" PRId64 " + comm %" PRId64 " + copy %" PRId64 " + idle %" PRId64 " = %" PRId64
             " against a wall of %" PRId64 " (hidden: comm %" PRId64 ", copy %" PRId64 ")",
             which, p->compute, p->comm_exposed, p->copy_exposed, p->idle, sum, p->wall, p->comm_hidden,
             p->copy_hidden);
    return -1;
}

static int causes(const struct gw_cause_total *c, size_t n, int64_t idle, const char *which, char *why, size_t cap)
{
    int64_t sum = 0, last = INT64_MAX;
    unsigned seen = 0;
    for (size_t i = 0; i < n; i++) {
        if (c[i].ns <= 0 || c[i].ns > last || !c[i].gaps || c[i].cause >= GW_CAUSE_COUNT ||
            (seen & (1u << c[i].cause))) {
            snprintf(why, cap,
                     "%s: row %zu of the causes (%s, %" PRId64 " ns, %" PRIu64 " gaps) is empty, twice or out of order",
                     which, i, gw_cause_id(c[i].cause), c[i].ns, c[i].gaps);
            return -1;
        }
        seen |= 1u << c[i].cause;
        last = c[i].ns;
        sum += c[i].ns;
    }
    if (sum == idle)
        return 0;
    snprintf(why, cap, "%s: causes add up to %" PRId64 " ns, idle is %" PRId64, which, sum, idle);
    return -1;
}

/* Gaps do not overlap, their pieces fill them, runs follow each other. */
static int gaps(const struct gw_dev *d, char *why, size_t cap)
{
    int64_t idle = 0, last = INT64_MIN;
    size_t piece = 0;
    for (size_t i = 0; i < d->ngaps; i++) {
        const struct gw_gap *g = d->gaps + i;
        int64_t sum = 0;
        for (uint32_t k = 0; k < g->pieces; k++) {
            const struct gw_piece *p = d->pieces + g->first_piece + k;
            if (p->ns <= 0 || p->gap != i || p->cause >= GW_CAUSE_COUNT) {
                snprintf(why, cap, "piece %u of gap %zu: %" PRId64 " ns of gap %u, cause %u", k, i, p->ns, p->gap,
                         p->cause);
                return -1;
            }
            sum += p->ns;
        }
        if (g->start < last || g->end <= g->start || sum != g->end - g->start || g->first_piece != piece) {
            snprintf(why, cap, "gap %zu [%" PRId64 ", %" PRId64 "): pieces add up to %" PRId64, i, g->start, g->end,
                     sum);
            return -1;
        }
        piece += g->pieces;
        last = g->end;
        idle += sum;
    }
    if (idle != d->whole.idle || piece != d->npieces) {
        snprintf(why, cap, "gaps add up to %" PRId64 " ns, idle is %" PRId64, idle, d->whole.idle);
        return -1;
    }
    for (size_t i = 0; i < d->nruns; i++)
        if (d->runs[i].end <= d->runs[i].start || (i && d->runs[i].start != d->runs[i - 1].end) ||
            d->runs[i].label > GW_HOST_QUEUE_FULL) {
            snprintf(why, cap, "host run %zu [%" PRId64 ", %" PRId64 ") label %u leaves a hole", i, d->runs[i].start,
                     d->runs[i].end, d->runs[i].label);
            return -1;
        }
    return 0;
}

static int in01(double v) { return isnan(v) || (v >= 0 && v <= 1); }

static int finding(const struct gw_finding *f, size_t i, char *why, size_t cap)
{
    int unknown = isnan(f->gain.low) && isnan(f->gain.likely) && isnan(f->gain.high);
    int ordered =
        f->gain.low >= 1 && f->gain.low <= f->gain.likely && f->gain.likely <= f->gain.high && isfinite(f->gain.high);
    if (!unknown && !ordered) {
        snprintf(why, cap, "%s: gain %g, %g, %g", f->id, f->gain.low, f->gain.likely, f->gain.high);
        return -1;
    }
    if (!in01(f->share_of_wall) || !in01(f->share_of_idle)) {
        snprintf(why, cap, "%s: share of wall %g, of idle %g", f->id, f->share_of_wall, f->share_of_idle);
        return -1;
    }
    if (!gw_finding_info_find(f->id) || f->rank != (int)i + 1 || !f->evidence_count || !f->fix_count) {
        snprintf(why, cap, "%s: rank %d in row %zu, %zu pieces of evidence, %zu fixes", f->id, f->rank, i,
                 f->evidence_count, f->fix_count);
        return -1;
    }
    for (size_t k = 0; k < f->where_count; k++)
        if (!in01(f->where[k].share)) {
            snprintf(why, cap, "%s: where %zu has share %g", f->id, k, f->where[k].share);
            return -1;
        }
    if (f->now_step_ns >= 0 && (f->then_low_ns > f->then_high_ns || f->then_high_ns > f->now_step_ns)) {
        snprintf(why, cap, "%s: step %" PRId64 " -> %" PRId64 "..%" PRId64, f->id, f->now_step_ns, f->then_low_ns,
                 f->then_high_ns);
        return -1;
    }
    return 0;
}

static int report(const struct gw_analysis *an, const struct gw_report *r, char *why, size_t cap)
{
    if (r->device_count != an->ndev || !r->verdict.finding || !r->verdict.layer || !r->verdict.sentence ||
        !r->verdict.sentence[0]) {
        snprintf(why, cap, "no verdict, or %zu devices of %zu", r->device_count, an->ndev);
        return -1;
    }
    for (size_t i = 0; i < r->finding_count; i++)
        if (finding(r->findings + i, i, why, cap) < 0)
            return -1;
    for (size_t i = 0; i < r->not_evaluated_count; i++) {
        for (size_t k = 0; k < r->finding_count; k++)
            if (!strcmp(r->findings[k].id, r->not_evaluated[i].id)) {
                snprintf(why, cap, "%s: found and not evaluated", r->findings[k].id);
                return -1;
            }
        if (!strcmp(r->verdict.finding, r->not_evaluated[i].id)) {
            snprintf(why, cap, "%s: the verdict, and not evaluated", r->verdict.finding);
            return -1;
        }
        if (!r->not_evaluated[i].needs || !r->not_evaluated[i].needs[0]) {
            snprintf(why, cap, "%s: not evaluated, and not a word on what it needs", r->not_evaluated[i].id);
            return -1;
        }
    }
    int none = !strcmp(r->verdict.finding, "none");
    if (!none && !gw_finding_info_find(r->verdict.finding)) {
        snprintf(why, cap, "verdict \"%s\" is not in the catalogue", r->verdict.finding);
        return -1;
    }
    if (!in01(r->steps.tail_share) || !(isnan(r->replay_error) || r->replay_error >= 0)) {
        snprintf(why, cap, "tail share %g, replay error %g", r->steps.tail_share, r->replay_error);
        return -1;
    }
    return 0;
}

int engine_check(const struct gw_analysis *an, const struct gw_report *r, char *why, size_t cap)
{
    for (size_t i = 0; i < an->ndev; i++) {
        const struct gw_dev *d = an->dev + i;
        if (partition(&d->whole, "whole", why, cap) < 0 || partition(&d->steady, "steady", why, cap) < 0 ||
            causes(d->whole_causes, d->nwhole, d->whole.idle, "whole", why, cap) < 0 ||
            causes(d->steady_causes, d->nsteady, d->steady.idle, "steady", why, cap) < 0 || gaps(d, why, cap) < 0)
            return -1;
    }
    return r ? report(an, r, why, cap) : 0;
}
