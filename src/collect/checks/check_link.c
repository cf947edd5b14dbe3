/* The ways between GPUs, host and network: PCIe, NVLink, peer access, adapters. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "collect/checks/check_run.h"

/* "8 replays per minute is the maximum recommended": dcgm/dcgm_hardware_limits.h of NVIDIA DCGM. */
#define REPLAYS_PER_MINUTE 8

static int64_t least(int64_t a, int64_t b)
{
    if (a == GW_ENV_NONE || b == GW_ENV_NONE)
        return a == GW_ENV_NONE ? b : a;
    return a < b ? a : b;
}

/* What both ends can do: the driver's maximum already is that, the parts are known by newer drivers and by sysfs. */
static int64_t possible_gen(const struct gw_gpu *g)
{
    return least(gw_gpu_get(g, GW_GPU_PCIE_GEN_MAX),
                 least(gw_gpu_get(g, GW_GPU_PCIE_GEN_DEVICE), gw_gpu_get(g, GW_GPU_PCIE_GEN_HOST)));
}

static int64_t possible_width(const struct gw_gpu *g)
{
    return least(gw_gpu_get(g, GW_GPU_PCIE_WIDTH_MAX), gw_gpu_get(g, GW_GPU_PCIE_WIDTH_HOST));
}

static double payload(int64_t gen, int64_t width)
{
    /* GB/s of a lane, by generation: line rate less the line coding (PCI-SIG base specifications) */
    static const double lane[] = {0, 0.25, 0.5, 0.985, 1.969, 3.938, 7.563};
    return gen < 1 || gen > 6 || width < 1 || width > 32 ? NAN : lane[gen] * (double)width * 1e9;
}

struct gw_check_link gw_check_link_of(const struct gw_env *env, size_t gpu)
{
    const struct gw_gpu *g = gw_env_gpu_at(env, gpu);
    struct gw_gpu_state st = gw_gpu_state_of(env, gpu);
    return (struct gw_check_link){payload(possible_gen(g), possible_width(g)),
                                  st.link_loaded ? payload(st.gen_loaded, st.width_loaded) : NAN};
}

static const char *link_text(struct gw_check_run *r, int64_t gen, int64_t width)
{
    if (gen == GW_ENV_NONE)
        return gw_check_text(r, "x%lld", (long long)width);
    return width == GW_ENV_NONE ? gw_check_text(r, _("gen %lld"), (long long)gen)
                                : gw_check_text(r, _("gen %lld x%lld"), (long long)gen, (long long)width);
}

static void pcie_gpu(struct gw_check_run *r, struct gw_check_group *g, size_t i)
{
    const struct gw_gpu *gpu = gw_env_gpu_at(r->env, i);
    const struct gw_gpu_state *st = &r->states[i];
    int64_t device = gw_gpu_get(gpu, GW_GPU_PCIE_GEN_DEVICE), card = gw_gpu_get(gpu, GW_GPU_PCIE_WIDTH_MAX);
    int64_t gen = possible_gen(gpu), width = possible_width(gpu);
    int64_t gen_now = st->link_loaded ? st->gen_loaded : st->gen_now,
            width_now = st->link_loaded ? st->width_loaded : st->width_now;
    if ((gen_now == GW_ENV_NONE || gen == GW_ENV_NONE) && (width_now == GW_ENV_NONE || width == GW_ENV_NONE))
        return;
    int gen_low = gen != GW_ENV_NONE && gen_now != GW_ENV_NONE && gen_now < gen;
    int width_low = width != GW_ENV_NONE && width_now != GW_ENV_NONE && width_now < width;
    const char *now = link_text(r, gen_now, width_now), *max = link_text(r, gen, width);
    if (!gen_low && !width_low) {
        int narrow = card != GW_ENV_NONE && width != GW_ENV_NONE && width < card;
        int slow_slot = device != GW_ENV_NONE && gen != GW_ENV_NONE && gen < device;
        if (narrow)
            gw_group_add(g, i, GW_CHECK_LOOK, _("%s: all the slot has; the card can do x%lld"), now, (long long)card);
        else
            gw_group_add(g, i, GW_CHECK_GOOD,
                         slow_slot ? _("%s, all that this slot has; the card can do gen %lld")
                                   : _("%s, all that both ends can do"),
                         now, (long long)device);
    } else if (st->link_loaded) {
        gw_group_add(g, i, GW_CHECK_BAD, _("%s under load; both ends can do %s"), now, max);
        gw_check_evidence(r, (double)(gen_low ? gen_now : width_now), "1", gw_check_source(r),
                          "GPU %lld: %s under load, %s possible", (long long)gpu->index, now, max);
    } else {
        gw_group_add(g, i, GW_CHECK_UNKNOWN, _("%s now, %s possible; an idle link saves power this way"), now, max);
    }
}

void gw_check_on_pcie(struct gw_check_run *r)
{
    struct gw_check_group g = {.r = r};
    for (size_t i = 0; i < r->env->gpus.len; i++)
        pcie_gpu(r, &g, i);
    enum gw_check_status s = gw_group_say(&g);
    if (s == GW_CHECK_UNKNOWN || !g.n)
        return;
    gw_check_expect(r, "what both ends can do, under load");
    if (s >= GW_CHECK_LOOK)
        gw_check_fix(r,
                     _("another slot (see the board's manual: lanes are shared), reseat the card and its riser, slot "
                       "speed Auto in the "
                       "BIOS, no ASPM powersave policy"),
                     "gpuwhy check --load", "");
}

/* Totals without a second reading: 0 is good, anything else says nothing about now. */
static void replay_totals(struct gw_check_run *r)
{
    int64_t low = INT64_MAX, high = 0;
    for (size_t i = 0; i < r->env->gpus.len; i++) {
        int64_t v = r->states[i].replay_last;
        if (v == GW_ENV_NONE)
            continue;
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    if (low == INT64_MAX)
        return;
    if (high == 0)
        gw_check_say(r, GW_CHECK_GOOD, _("none since the last reset"));
    else if (low == high)
        gw_check_say(r, GW_CHECK_UNKNOWN, _("%lld since the last reset; whether they still come is not told"),
                     (long long)high);
    else
        gw_check_say(r, GW_CHECK_UNKNOWN, _("%lld to %lld since the last reset; whether they still come is not told"),
                     (long long)low, (long long)high);
}

void gw_check_on_replay(struct gw_check_run *r)
{
    struct gw_check_group g = {.r = r};
    for (size_t i = 0; i < r->env->gpus.len; i++) {
        const struct gw_gpu_state *st = &r->states[i];
        int64_t grown = st->replay_last - st->replay_first;
        if (st->replay_last == GW_ENV_NONE || st->replay_ns == GW_ENV_NONE || grown < 0)
            continue;
        double seconds = (double)st->replay_ns * 1e-9, per_minute = (double)grown / seconds * 60;
        /* A reading over half a second that catches one replay would be 120 a minute: ask for more than one. */
        if (grown <= 1) {
            gw_group_add(&g, i, GW_CHECK_GOOD, grown ? _("one in %.3g s") : _("none in %.3g s"), seconds);
            continue;
        }
        gw_group_add(&g, i,
                     per_minute > REPLAYS_PER_MINUTE && grown > REPLAYS_PER_MINUTE ? GW_CHECK_BAD : GW_CHECK_LOOK,
                     _("%lld in %.3g s"), (long long)grown, seconds);
        gw_check_evidence(r, (double)grown, "count", gw_check_source(r), "GPU %lld: %lld replays in %.3g s",
                          (long long)gw_env_gpu_at(r->env, i)->index, (long long)grown, seconds);
    }
    if (!g.n)
        replay_totals(r);
    if (gw_group_say(&g) >= GW_CHECK_LOOK) {
        gw_check_expect(r, "at most %d a minute", REPLAYS_PER_MINUTE);
        gw_check_fix(r,
                     _("packets are sent again: reseat the card or riser, try another slot or cable, or set the slot "
                       "one generation lower"),
                     "nvidia-smi -q | grep Replays", "");
    }
}

void gw_check_on_nvlink(struct gw_check_run *r)
{
    struct gw_check_group g = {.r = r};
    int any = 0;
    for (size_t i = 0; i < r->env->gpus.len; i++)
        any |= gw_gpu_get(gw_env_gpu_at(r->env, i), GW_GPU_NVLINK_ACTIVE) > 0;
    for (size_t i = 0; i < r->env->gpus.len; i++) {
        int64_t links = gw_gpu_get(gw_env_gpu_at(r->env, i), GW_GPU_NVLINK_COUNT),
                up = gw_gpu_get(gw_env_gpu_at(r->env, i), GW_GPU_NVLINK_ACTIVE);
        if (links == GW_ENV_NONE || links == 0 || up == GW_ENV_NONE)
            continue;
        if (up == links)
            gw_group_add(&g, i, GW_CHECK_GOOD, _("%lld of %lld links up"), (long long)up, (long long)links);
        else if (up == 0 && !any)
            /* No link is up anywhere: a single GPU handed to a virtual machine, or no bridge. Nothing is broken. */
            gw_group_add(&g, i, r->env->gpus.len > 1 ? GW_CHECK_LOOK : GW_CHECK_GOOD,
                         _("has %lld links, none is connected"), (long long)links);
        else
            gw_group_add(&g, i, GW_CHECK_BAD, _("%lld of %lld links up"), (long long)up, (long long)links);
    }
    if (gw_group_say(&g) >= GW_CHECK_LOOK)
        gw_check_fix(r,
                     _("check the bridge or the fabric manager (systemctl status nvidia-fabricmanager); reset the GPU"),
                     "nvidia-smi nvlink -s", "");
}

/* --- paths between GPUs --------------------------------------------------------------------------------------------
 */

static size_t count_links(const struct gw_env *env, size_t by_kind[GW_LINK_SYS + 1], const struct gw_env_pair **worst)
{
    size_t pairs = 0;
    *worst = NULL;
    for (size_t i = 0; i < gw_env_count(env, GW_REC_PAIR); i++) {
        const struct gw_env_pair *p = gw_env_at(env, GW_REC_PAIR, i);
        if (p->peer_gpu == GW_ENV_NONE || p->link <= GW_LINK_SELF || p->link > GW_LINK_SYS)
            continue;
        pairs++;
        by_kind[p->link]++;
        if (!*worst || p->link > (*worst)->link)
            *worst = p;
    }
    return pairs;
}

void gw_check_on_topology(struct gw_check_run *r)
{
    size_t by_kind[GW_LINK_SYS + 1] = {0};
    const struct gw_env_pair *worst;
    size_t pairs = count_links(r->env, by_kind, &worst);
    const char *text = "";
    if (r->env->gpus.len == 1) {
        gw_check_say(r, GW_CHECK_UNKNOWN, _("one GPU: no path between GPUs"));
        return;
    }
    if (!pairs)
        return;
    for (int k = GW_LINK_NVLINK; k <= GW_LINK_SYS; k++)
        if (by_kind[k])
            text = gw_check_text(r, "%s%s%zu %s", text, *text ? ", " : "", by_kind[k],
                                 k == GW_LINK_NVLINK ? "NVLink" : gw_link_name(k));
    text = gw_check_text(r, pairs == 1 ? _("1 pair: %s") : _("%2$zu pairs: %1$s"), text, pairs);
    int mixed = by_kind[GW_LINK_NVLINK] && by_kind[GW_LINK_NVLINK] < pairs;
    if (by_kind[GW_LINK_NVLINK] == pairs || worst->link <= GW_LINK_PXB) {
        gw_check_say(r, GW_CHECK_GOOD, "%s", text);
        return;
    }
    gw_check_say(r, GW_CHECK_LOOK, "%s", text);
    gw_check_expect(r, "NVLink, or one PCIe switch (PIX, PXB)");
    gw_check_evidence(r, (double)(pairs - by_kind[GW_LINK_NVLINK]), "count", gw_check_source(r),
                      "GPU %lld and GPU %lld are joined by %s", (long long)worst->gpu, (long long)worst->peer_gpu,
                      gw_link_name(worst->link));
    gw_check_fix(
        r,
        mixed
            ? _("put ranks that talk most on GPUs that share NVLink: CUDA_VISIBLE_DEVICES in that order (nvidia-smi "
                "topo -m)")
            : _("traffic crosses the CPU: keep a small job on GPUs of one socket, prefer larger and fewer collectives "
                "(gradient accumulation, larger buckets), or a machine with NVLink"),
        "nvidia-smi topo -m; NCCL_DEBUG=INFO", "");
}

void gw_check_on_p2p(struct gw_check_run *r)
{
    static const char *const words[] = {N_("ok"),
                                        N_("not by this chipset"),
                                        N_("not by this GPU"),
                                        N_("not across these bridges"),
                                        N_("switched off in the driver"),
                                        N_("not supported"),
                                        N_("not known")};
    size_t ok = 0, bad = 0;
    int64_t why = 0;
    const char *iommu = gw_env_str(r->env, GW_HSTR_IOMMU);
    int translated = iommu && strncmp(iommu, "DMA", 3) == 0;
    for (size_t i = 0; i < gw_env_count(r->env, GW_REC_PAIR); i++) {
        const struct gw_env_pair *p = gw_env_at(r->env, GW_REC_PAIR, i);
        if (p->peer_gpu == GW_ENV_NONE || p->p2p == GW_ENV_NONE)
            continue;
        ok += p->p2p == 0;
        bad += p->p2p != 0;
        why = p->p2p > why && p->p2p <= 6 ? p->p2p : why;
    }
    if (r->env->gpus.len == 1) {
        gw_check_say(r, GW_CHECK_UNKNOWN, _("one GPU: no peer"));
        return;
    }
    if (!ok && !bad)
        return;
    if (bad)
        gw_check_say(r, GW_CHECK_LOOK, _("%zu of %zu pairs without: %s"), bad, ok + bad, _(words[why]));
    else if (translated)
        gw_check_say(r, GW_CHECK_LOOK,
                     _("every pair, but the IOMMU translates (%s): copies may detour through the root complex"), iommu);
    else
        gw_check_say(r, GW_CHECK_GOOD, _("every pair"));
    if (!bad && !translated)
        return;
    gw_check_expect(r, "every pair, IOMMU off or identity");
    gw_check_fix(
        r,
        bad ? _("without peer access NCCL goes through host memory (SHM): the GPU model, the slots, or ACS decide it")
            : _("boot with iommu=pt (or off), and switch ACS off on the switches between the GPUs; ACS bits need root "
                "to read: "
                "sudo lspci -vvv | grep ACSCtl"),
        "nvidia-smi topo -p2p r; all_reduce_perf of nccl-tests",
        _("less isolation between devices and virtual machines"));
}

/* --- adapters --------------------------------------------------------------------------------------------------------
 */

static int64_t nearest_nic(const struct gw_env *env, const struct gw_gpu *g, const char **name)
{
    int64_t best = GW_ENV_NONE;
    for (size_t i = 0; i < gw_env_count(env, GW_REC_PAIR); i++) {
        const struct gw_env_pair *p = gw_env_at(env, GW_REC_PAIR, i);
        if (p->gpu == g->index && p->peer_nic && p->link > GW_LINK_SELF && (best == GW_ENV_NONE || p->link < best)) {
            best = p->link;
            *name = p->peer_nic;
        }
    }
    return best;
}

void gw_check_on_nic(struct gw_check_run *r)
{
    struct gw_check_group g = {.r = r};
    size_t down = 0, ib = 0;
    const char *which = "";
    for (size_t i = 0; i < gw_env_count(r->env, GW_REC_NIC); i++) {
        const struct gw_env_nic *n = gw_env_at(r->env, GW_REC_NIC, i);
        if (!n->kind || strcmp(n->kind, "infiniband") != 0)
            continue;
        ib++;
        if (n->up == 0) {
            down++;
            which = gw_known(n->name, "?");
        }
    }
    for (size_t i = 0; i < r->env->gpus.len; i++) {
        const char *name = "?";
        int64_t link = nearest_nic(r->env, gw_env_gpu_at(r->env, i), &name);
        if (link == GW_ENV_NONE)
            continue;
        gw_group_add(&g, i, link >= GW_LINK_NODE ? GW_CHECK_LOOK : GW_CHECK_GOOD,
                     link >= GW_LINK_NODE ? _("the nearest adapter is far (%s)") : _("an adapter is near (%s)"),
                     gw_link_name(link));
    }
    enum gw_check_status s = gw_group_say(&g);
    if (down) {
        gw_check_say(r, GW_CHECK_LOOK, _("%zu of %zu InfiniBand ports are down (%s)%s%s"), down, ib, which,
                     *r->now->value ? "; " : "", r->now->value);
        s = GW_CHECK_LOOK;
    } else if (ib && gw_env_get(r->env, GW_HOST_PEERMEM) == 0 && s != GW_CHECK_LOOK && g.n) {
        gw_check_say(r, GW_CHECK_LOOK, _("%s; nvidia_peermem is not loaded, so GPUDirect RDMA needs DMA-BUF"),
                     r->now->value);
        s = GW_CHECK_LOOK;
    }
    if (s == GW_CHECK_LOOK)
        gw_check_fix(r,
                     _("only for jobs over several machines: sudo modprobe nvidia_peermem; bring the ports up; "
                       "NCCL_IB_HCA picks adapters"),
                     _("NCCL_DEBUG=INFO must show NET/IB and GDRDMA, not NET/Socket"), "");
}
