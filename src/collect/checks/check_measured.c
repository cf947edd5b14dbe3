/* What --measure found, against what the link or the machine should give. */
#include <math.h>
#include <string.h>

#include "collect/checks/check_run.h"

#define COPY_BAD_SHARE 0.5  /* a pinned copy of a sound link reaches 75 to 90 % of the lanes' payload */
#define LAUNCH_SLOW_US 10.0 /* of launching alone, asynchronously */
#define LOCAL_READ_MBPS 200 /* a SATA flash disk reads 500 MB/s */

const struct gw_env_measure *gw_check_measured(const struct gw_env *env, const char *id, int64_t gpu)
{
    for (size_t i = 0; i < gw_env_count(env, GW_REC_MEASURE); i++) {
        const struct gw_env_measure *m = gw_env_at(env, GW_REC_MEASURE, i);
        if (m->id && strcmp(m->id, id) == 0 && (m->gpu == gpu || gpu == GW_ENV_NONE) && m->value > 0)
            return m;
    }
    return NULL;
}

void gw_check_on_m_copy(struct gw_check_run *r)
{
    struct gw_check_group g = {.r = r};
    for (size_t i = 0; i < r->env->gpus.len; i++) {
        int64_t index = gw_env_gpu_at(r->env, i)->index;
        const struct gw_env_measure *pinned = gw_check_measured(r->env, "h2d-pinned", index),
                                    *pageable = gw_check_measured(r->env, "h2d-pageable", index);
        const struct gw_env_measure *back = gw_check_measured(r->env, "d2h-pinned", index);
        double best = gw_check_link_of(r->env, i).possible * 1e-9;
        if (!pinned)
            continue;
        const char *text = gw_check_text(r, _("%.3g GB/s pinned%s%s"), pinned->value * 1e-9,
                                         pageable ? gw_check_text(r, _(", %.3g pageable"), pageable->value * 1e-9) : "",
                                         back ? gw_check_text(r, _(", %.3g back"), back->value * 1e-9) : "");
        gw_check_evidence(r, pinned->value, "bytes/s", gw_known(pinned->how, "measured"), "GPU %lld: %s",
                          (long long)index, text);
        if (isnan(best))
            gw_group_add(&g, i, GW_CHECK_UNKNOWN, _("%s; what the link can do is not told"), text);
        else if (pinned->value * 1e-9 < COPY_BAD_SHARE * best)
            gw_group_add(&g, i, GW_CHECK_BAD, _("%s; the link's payload is %.3g GB/s"), text, best);
        else
            gw_group_add(&g, i, GW_CHECK_GOOD, _("%s; the link's payload is %.3g GB/s"), text, best);
    }
    if (gw_group_say(&g) == GW_CHECK_BAD) {
        gw_check_expect(r, "at least half of the link's payload");
        gw_check_fix(r,
                     _("see pcie and numa above: a slower slot, a link that trained low, memory on the far node, an "
                       "IOMMU that translates"),
                     "gpuwhy check --measure", "");
    }
}

void gw_check_on_m_launch(struct gw_check_run *r)
{
    struct gw_check_group g = {.r = r};
    for (size_t i = 0; i < r->env->gpus.len; i++) {
        int64_t index = gw_env_gpu_at(r->env, i)->index;
        const struct gw_env_measure *launch = gw_check_measured(r->env, "launch", index),
                                    *trip = gw_check_measured(r->env, "launch-wait", index);
        if (!launch)
            continue;
        double us = launch->value * 1e6;
        gw_check_evidence(r, launch->value * 1e9, "ns", gw_known(launch->how, "measured"), "GPU %lld: %.2f us a launch",
                          (long long)index, us);
        gw_group_add(&g, i, us > LAUNCH_SLOW_US ? GW_CHECK_LOOK : GW_CHECK_GOOD, _("%.2f us%s"), us,
                     trip ? gw_check_text(r, _(", %.1f us until it is done and known"), trip->value * 1e6) : "");
    }
    if (gw_group_say(&g) == GW_CHECK_LOOK) {
        gw_check_expect(r, "less than %.0f us", LAUNCH_SLOW_US);
        gw_check_fix(r,
                     _("CPU frequency, a tracing library (CUDA_INJECTION64_PATH), CUDA_LAUNCH_BLOCKING, "
                       "virtualisation; CUDA graphs and "
                       "torch.compile need fewer launches"),
                     "gpuwhy check --measure", "");
    }
}

void gw_check_on_m_memory(struct gw_check_run *r)
{
    const struct gw_env_measure *host = gw_check_measured(r->env, "host-copy", GW_ENV_NONE);
    const char *text = "";
    if (host) {
        text = gw_check_text(r, _("one core copies %.3g GB/s"), host->value * 1e-9);
        gw_check_evidence(r, host->value, "bytes/s", gw_known(host->how, "measured"), "%s", text);
    }
    for (size_t i = 0; i < r->env->gpus.len && i < 8; i++) {
        const struct gw_gpu *gpu = gw_env_gpu_at(r->env, i);
        const struct gw_env_measure *device = gw_check_measured(r->env, "device-copy", gpu->index);
        if (!device)
            continue;
        text = gw_check_text(r, _("%s%sGPU %lld moves %.4g GB/s"), text, *text ? "; " : "", (long long)gpu->index,
                             device->value * 1e-9);
        gw_check_evidence(r, device->value, "bytes/s", gw_known(device->how, "measured"), "GPU %lld moves %.4g GB/s",
                          (long long)gpu->index, device->value * 1e-9);
    }
    if (*text) /* ceilings to compare with; no figure is wrong by itself */
        gw_check_say(r, GW_CHECK_GOOD, "%s", text);
}

void gw_check_on_m_disk(struct gw_check_run *r)
{
    const struct gw_env_measure *read = gw_check_measured(r->env, "disk-read", GW_ENV_NONE),
                                *small = gw_check_measured(r->env, "disk-latency", GW_ENV_NONE);
    if (!read)
        return;
    double mbps = read->value * 1e-6;
    gw_check_evidence(r, read->value, "bytes/s", gw_known(read->how, "measured"), "%.0f MB/s", mbps);
    gw_check_say(r, mbps < LOCAL_READ_MBPS ? GW_CHECK_LOOK : GW_CHECK_GOOD, _("%.0f MB/s in one stream%s (%s)"), mbps,
                 small ? gw_check_text(r, _(", %.3g ms a 4 KiB read"), small->value * 1e3) : "",
                 gw_known(read->how, ""));
    if (r->now->status == GW_CHECK_LOOK) {
        gw_check_expect(r, "more than %d MB/s; what the job needs is samples a second x bytes a sample",
                        LOCAL_READ_MBPS);
        gw_check_fix(r, _("more workers hide latency; a local copy and larger shards remove it"),
                     "gpuwhy check --measure --data PATH", "");
    }
}
