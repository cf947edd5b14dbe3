/*
 * live_calls.c - a job whose GPU work was not recorded because it is bound by its launches: what the job's own calls of CUDA, counted
 * inside it, say. See live.h.
 */
#include <math.h>

#include "layers/live.h"

/* A thread that waits less than this share of its time in calls of CUDA cannot be the one that is waited for. */
#define HARDLY_WAITS 0.10
/* Launches a second from which issuing them fills a good part of a thread: PyTorch needs 7 us (fast host) to 36 us (slow one) for a
 * kernel with all that is around it (measured on two H200 hosts). */
#define MANY_LAUNCHES 10000.0
/* A wait on an empty queue leaves the GPU idle from its last kernel's end to the next one's start: 10 to 40 us (measured: 38 us a
 * wait in a loop of .item() calls, of which the launch of the next kernel is about 10). */
#define WAIT_COSTS_LOW 10e-6
#define WAIT_COSTS_HIGH 40e-6

struct rates { double launches, launch, waits, wait, slack; }; /* a second; shares of the thread's time */

static int rates_of(const struct gw_diag *d, const struct gw_live *l, struct rates *r)
{
    r->launches = gw_live_rate(l, d->an, "cuda.launches", -1, l->pid);
    r->launch = gw_live_rate(l, d->an, "cuda.launch_s", -1, l->pid);
    r->waits = gw_live_rate(l, d->an, "cuda.waits", -1, l->pid);
    r->wait = gw_live_rate(l, d->an, "cuda.wait_s", -1, l->pid);
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
    double idle = 1 - d->busy, low = fmin(r.waits * WAIT_COSTS_LOW, idle), high = fmin(r.waits * WAIT_COSTS_HIGH, idle);
    if (high < GW_LIM_DATA_WAIT || low < GW_LIM_DATA_WAIT / 4)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_HOST_SYNC, (int64_t)(high * (double)d->wall));
    gain_up_to(f, low, high);
    f->f.confidence = GW_CONF_MEDIUM;
    gw_diag_seen(d, f, r.waits, "1/s", "counted calls", _("the training thread waits for the GPU %.0f times a second, %.0f µs each"), r.waits,
                 1e6 * r.wait / r.waits);
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
    if (idle < GW_LIM_DATA_WAIT || r.slack > HARDLY_WAITS || r.launches < MANY_LAUNCHES || cpu < 0.5)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_LAUNCH_BOUND, (int64_t)(idle * (double)d->wall));
    gain_up_to(f, idle * 0.3, idle);
    f->f.confidence = GW_CONF_MEDIUM;
    gw_diag_seen(d, f, r.launches, "1/s", "counted calls",
                 _("the training thread launches %.0f kernels a second, one every %.1f µs, and waits for the GPU in %.1f %% of its time: the GPU "
                   "waits for it"),
                 r.launches, 1e6 / r.launches, 100 * r.slack);
    gw_diag_against(d, f, NAN, "1", "", _("kernels were not recorded, because that would slow such a job for good; launches of libraries that carry the CUDA "
                                          "runtime inside themselves were not counted"));
    gw_live_where(d, f, GW_LIVE_LAUNCHER, ~0u, 0, 3);
    gw_diag_fix(f, _("`model = torch.compile(model, mode=\"reduce-overhead\")` (CUDA graphs), or a larger batch; `fused=True` or `foreach=True` in the optimizer"),
                _("gpuwhy diff before after"), _("first steps compile for minutes; shapes must be stable"));
    return GW_FIRED;
}
