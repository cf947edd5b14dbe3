/* policy.c - see policy.h */
#include "policy.h"

#include <string.h>

void gw_policy_start(struct gw_policy *p, uint64_t now)
{
    memset(p, 0, sizeof *p);
    p->start = now;
    p->next_open = now + GW_POLICY_PROBE_LATER;
}

void gw_policy_open(struct gw_policy *p, uint64_t now)
{
    p->opened = p->moved = now;
    p->kernels = 0;
    p->is_full = 0;
}

enum gw_policy_look gw_policy_look(struct gw_policy *p, uint64_t now, uint64_t kernels)
{
    uint64_t age = now - p->opened;
    if (kernels != p->kernels) {
        p->kernels = kernels;
        p->moved = now;
    }
    if (kernels >= GW_POLICY_FLOW)
        p->is_full = 1;
    /* A job that was seen at work is given the whole length: its steps may be longer than a probe. */
    if (!p->is_full && !p->good && !p->lulls)
        return age >= (p->probes < 5 ? GW_POLICY_PROBE : GW_POLICY_PROBE_LATER) ? GW_PL_PROBE_ENDED : GW_PL_STAY;
    if (age >= GW_POLICY_LONGEST || (age >= GW_POLICY_LENGTH && kernels >= GW_POLICY_ENOUGH) ||
        (age >= GW_POLICY_SHORTEST && kernels >= GW_POLICY_MANY))
        return GW_PL_ENOUGH;
    if (!p->good && p->lulls < GW_POLICY_LULLS && now - p->moved > GW_POLICY_LULL)
        return GW_PL_LULL;
    return GW_PL_STAY;
}

/* The soonest moment at which all windows so far cost the job no more than its share. */
static uint64_t affordable(const struct gw_policy *p) { return p->start + p->cost * GW_POLICY_SHARE; }

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

int gw_policy_close(struct gw_policy *p, uint64_t now, uint64_t kernels, uint64_t calls)
{
    p->cost += kernels * GW_POLICY_KERNEL_COST + calls * GW_POLICY_CALL_COST;
    int is_lull = (p->is_full || p->lulls) && now - p->moved > GW_POLICY_LULL && !p->good && p->lulls < GW_POLICY_LULLS;
    int counts = p->is_full && kernels >= GW_POLICY_COUNTS && !is_lull;
    p->lulls += (uint32_t)is_lull;
    if (counts) {
        p->good++;
        if (p->good == 1) /* the budget may wait a little here: a short job must have one window after its warm-up */
            p->next_open = later(p->opened + GW_POLICY_SECOND, now + GW_POLICY_SEC);
        else
            p->next_open = later(p->opened + GW_POLICY_PERIOD, affordable(p));
        return 1;
    }
    p->probes++;
    uint64_t every = now - p->start > 60 * GW_POLICY_SEC && !p->is_full ? GW_POLICY_PROBE_RARELY : GW_POLICY_PROBE_EVERY;
    /* Uneven, so that probes do not march in step with the job and miss it each time. */
    p->next_open = later(p->opened + every, now + GW_POLICY_PROBE_LATER) + p->probes * 137 % 500 * GW_POLICY_MS;
    if (p->good) /* no work for a whole window: evaluation, a checkpoint, the end */
        p->next_open = later(now + GW_POLICY_SECOND, affordable(p));
    return 0;
}

/* --- the gate --------------------------------------------------------------------------------------------------------- */

void gw_gate_start(struct gw_gate *g, uint64_t now)
{
    memset(g, 0, sizeof *g);
    g->start = now;
}

/* What all launches together would cost, less the time in which the host has nothing to do: it comes out of that first. */
static uint32_t cost_ppm(const struct gw_gate_sum *s)
{
    if (!s->ns || s->cost <= s->slack)
        return 0;
    double share = (double)(s->cost - s->slack) / (double)s->ns;
    return share < 1 ? (uint32_t)(share * 1e6) : 1000000u;
}

static void add(struct gw_gate *g, const struct gw_gate_counts *c)
{
    uint64_t least = c->launches * GW_GATE_LAUNCH, slow = c->launch_ns * GW_GATE_TIMES / 10;
    struct gw_gate_sum one = {c->ns, slow > least ? slow : least, c->slack_ns};
    g->all.ns += one.ns;
    g->all.cost += one.cost;
    g->all.slack += one.slack;
    g->last[g->at++ % GW_GATE_LAST] = cost_ppm(&one);
    g->flowing++;
}

enum gw_gate_answer gw_gate_look(struct gw_gate *g, uint64_t now, const struct gw_gate_counts *c)
{
    uint64_t age = now - g->start;
    if (!c->entries)
        return age >= GW_GATE_BLIND ? GW_GATE_OPEN : GW_GATE_WAIT;
    if (c->launches >= GW_GATE_FLOW && c->ns) {
        add(g, c);
    } else if (c->calls >= GW_GATE_FLOW) {
        g->others++;
    }
    if (!g->flowing)
        return g->others >= GW_GATE_OTHERS || age >= GW_GATE_PATIENCE ? GW_GATE_OPEN : GW_GATE_WAIT;
    if (g->flowing < GW_GATE_LOOKS)
        return GW_GATE_WAIT;
    g->cost_ppm = cost_ppm(&g->all);
    for (unsigned i = 0; i < GW_GATE_LAST; i++)
        g->cost_ppm = g->last[i] > g->cost_ppm ? g->last[i] : g->cost_ppm;
    return g->cost_ppm <= GW_GATE_LIMIT ? GW_GATE_OPEN : GW_GATE_HOLD;
}
