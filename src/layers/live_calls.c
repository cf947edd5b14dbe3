/*
 * live_calls.c - a job whose GPU work was not recorded because it is bound by its launches: what the job's own calls of CUDA, counted
 * inside it, say. See live.h.
 */
#include <math.h>

#include "layers/live.h"

/* A host that waits less than this share of the time for the GPU is what the GPU waits for. */
#define HARDLY_WAITS 0.20
/* Launches a second from which issuing them fills a good part of a thread: PyTorch needs 7 us (fast host) to 36 us (slow one) for a
 * kernel with all that is around it (measured on two H200 hosts). */
#define MANY_LAUNCHES 10000.0
/* Where the host is what everything waits for, time that it spends in waits and reads is what they cost: without them it goes on at
 * once. It may find the queue fuller then, and save more or less of it. */
#define WAITS_LOW 0.5
#define WAITS_HIGH 1.3

/* Waits a second: fewer are a step's end, not a habit. */
#define MANY_WAITS 200.0
/* Above this the host is not what is waited for. */
#define MOSTLY_WAITS 0.5

struct rates { double launches, waits, wait, read, slack; }; /* a second; shares of time */

static int rates_of(const struct gw_diag *d, const struct gw_live *l, struct rates *r)
{
    r->launches = gw_live_rate(l, d->an, "cuda.launches", -1, l->pid);
    r->waits = gw_live_rate(l, d->an, "cuda.waits", -1, l->pid);
    r->wait = gw_live_rate(l, d->an, "cuda.wait_s", -1, l->pid);
    r->read = gw_live_rate(l, d->an, "cuda.read_s", -1, l->pid);
    r->read = isnan(r->read) ? 0 : r->read;
    r->slack = gw_live_rate(l, d->an, "cuda.slack_s", -1, l->pid);
    return !isnan(r->launches) && !isnan(r->waits) && !isnan(r->slack);
}

static void gain_up_to(struct gw_draft *f, double low, double high)
{
    gw_diag_gain_set(f, 1 / (1 - low), 1 / (1 - (low + high) / 2), 1 / (1 - high));
}

int gw_live_calls_sync(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    struct rates r;
    if (!l || !rates_of(d, l, &r))
        return GW_NO_DATA;
    double idle = 1 - d->busy, share = fmin(r.wait + r.read, idle);
    if (share < GW_LIM_DATA_WAIT || r.waits < MANY_WAITS || r.slack > MOSTLY_WAITS)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_HOST_SYNC, (int64_t)(share * (double)d->wall));
    gw_diag_gain_set(f, 1 / (1 - WAITS_LOW * share), 1 / (1 - share), 1 / (1 - fmin(WAITS_HIGH * share, idle)));
    f->f.confidence = GW_CONF_MEDIUM;
    gw_diag_seen(d, f, r.waits, "1/s", "counted calls", _("the job waits for the GPU %.0f times a second, %.0f µs each, copies included"), r.waits,
                 1e6 * (r.wait + r.read) / r.waits);
    gw_diag_against(d, f, NAN, "1", "", _("GPU work was not recorded: whether the queue was empty each time is not known"));
    gw_live_where_in_call(d, f, GW_CALL_WAIT, 3);
    gw_diag_fix(f, _("keep values on the GPU and read them every 50 steps; no `.item()`, `.cpu()`, `print(tensor)` or `if tensor:` in the loop"),
                _("gpuwhy diff before after"), _("logs lag by some steps"));
    return GW_FIRED;
}

int gw_live_calls_launch(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    struct rates r;
    if (!l || !rates_of(d, l, &r))
        return GW_NO_DATA;
    /* What the thread does beside launching and waiting is the framework's and the user's code between two launches. */
    double idle = 1 - d->busy, cpu = l->role[GW_LIVE_LAUNCHER].time > 0 ? l->role[GW_LIVE_LAUNCHER].state[GW_TS_RUNNING] : NAN;
    if (idle < GW_LIM_DATA_WAIT || r.slack > HARDLY_WAITS || r.launches < MANY_LAUNCHES || cpu < 0.35) /* the loop sleeps while autograd launches */
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_LAUNCH_BOUND, (int64_t)(idle * (double)d->wall));
    gain_up_to(f, idle * 0.3, idle);
    f->f.confidence = GW_CONF_MEDIUM;
    gw_diag_seen(d, f, r.launches, "1/s", "counted calls",
                 _("the job launches %.0f kernels a second, one every %.1f µs, and waits for the GPU in %.1f %% of the time: the GPU waits "
                   "for it"),
                 r.launches, 1e6 / r.launches, 100 * r.slack);
    gw_diag_against(d, f, NAN, "1", "", _("kernels were not recorded, because that would slow such a job for good; launches of libraries that carry the CUDA "
                                          "runtime inside themselves were not counted"));
    gw_live_where(d, f, GW_LIVE_LAUNCHER, ~0u, 0, 3);
    gw_diag_fix(f, _("`model = torch.compile(model, mode=\"reduce-overhead\")` (CUDA graphs), or a larger batch; `fused=True` or `foreach=True` in the optimizer"),
                _("gpuwhy diff before after"), _("first steps compile for minutes; shapes must be stable"));
    return GW_FIRED;
}
