/* pm_runs.c - see pm_runs.h */
#include "collect/pm/pm_runs.h"

#include <math.h>
#include <string.h>

enum sort { IDLE, PARTLY, BUSY };

void gw_pm_runs_init(struct gw_pm_runs *r, int32_t device, uint64_t least_ns)
{
    memset(r, 0, sizeof *r);
    r->device = device;
    r->least_ns = least_ns;
}

void gw_pm_runs_flush(struct gw_pm_runs *r, gw_pm_run_fn put, void *user)
{
    if (!r->samples)
        return;
    struct gw_rec_activity a;
    memset(&a, 0, sizeof a);
    a.start = r->start;
    a.end = r->end;
    a.device = r->device;
    a.samples = r->samples;
    for (int k = 0; k < GW_PM_SHARES; k++) {
        double v = k < GW_PM_METRIC_COUNT && r->weight[k] > 0 ? r->sum[k] / r->weight[k] : NAN;
        a.share[k] = isnan(v) ? (uint16_t)GW_PM_NO_SHARE : (uint16_t)lround((v < 0 ? 0 : v > 100 ? 100 : v) * 100);
    }
    put(user, &a);
    r->samples = 0;
    memset(r->sum, 0, sizeof r->sum);
    memset(r->weight, 0, sizeof r->weight);
}

static int goes_on(const struct gw_pm_runs *r, const struct gw_pm_sample *s, int sort)
{
    uint64_t length = r->end - r->start, own = s->end - s->start;
    if (!r->samples || s->start > r->end + own / 8 || length + own > GW_PM_LONGEST)
        return 0; /* a hole, or long enough */
    if (length < r->least_ns)
        return 1;
    if (sort != r->sort)
        return 0;
    return sort != PARTLY || fabs(s->share[GW_PM_GR] - r->sum[GW_PM_GR] / r->weight[GW_PM_GR]) <= GW_PM_ALIKE;
}

void gw_pm_runs_add(struct gw_pm_runs *r, const struct gw_pm_sample *in, gw_pm_run_fn put, void *user)
{
    struct gw_pm_sample s = *in;
    if (s.start < r->last)
        s.start = r->last;
    if (s.end <= s.start || isnan(s.share[GW_PM_GR]))
        return;
    double gr = s.share[GW_PM_GR], ns = (double)(s.end - s.start);
    int sort = gr < GW_PM_IDLE ? IDLE : gr > GW_PM_BUSY ? BUSY : PARTLY;
    if (!goes_on(r, &s, sort)) {
        gw_pm_runs_flush(r, put, user);
        r->start = s.start;
        r->sort = sort;
    } else if (sort != r->sort) {
        r->sort = PARTLY;
    }
    for (int k = 0; k < GW_PM_METRIC_COUNT; k++)
        if (!isnan(s.share[k])) {
            r->sum[k] += s.share[k] * ns;
            r->weight[k] += ns;
        }
    r->end = r->last = s.end;
    r->samples++;
}
