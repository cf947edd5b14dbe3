/* What the samples of a GPU say together: what it did under load, and whether there was any. */
#include <math.h>

#include "collect/checks/check_run.h"

#define LOADED_PCT 20          /* utilization from which a GPU counts as at work */
#define LOADED_POWER_SHARE 0.4 /* of the limit, where utilization is not told (MIG) */
#define LINK_KBPS 500000       /* 0.5 GB/s: a generation-1 x16 link can do eight times that */

/* 1 = at work, 0 = not, -1 = cannot be told. */
static int at_work(const struct gw_env *env, const struct gw_sample *s)
{
    int64_t util = gw_sample_get(s, GW_GPU_UTIL), power = gw_sample_get(s, GW_GPU_POWER);
    int64_t limit = gw_gpu_get(gw_env_gpu_at(env, s->gpu), GW_GPU_POWER_LIMIT);
    if (util != GW_ENV_NONE)
        return util >= LOADED_PCT;
    if (power != GW_ENV_NONE && limit > 0)
        return (double)power >= LOADED_POWER_SHARE * (double)limit;
    return -1;
}

static int link_in_use(const struct gw_env *env, const struct gw_sample *s)
{
    int64_t rx = gw_sample_get(s, GW_GPU_PCIE_RX), tx = gw_sample_get(s, GW_GPU_PCIE_TX);
    if (gw_env_get(env, GW_HOST_LOADED) == 1)
        return 1;
    return (rx != GW_ENV_NONE && rx >= LINK_KBPS) || (tx != GW_ENV_NONE && tx >= LINK_KBPS);
}

static void raise_to(int64_t *max, int64_t v)
{
    if (v != GW_ENV_NONE && (*max == GW_ENV_NONE || v > *max))
        *max = v;
}

static void take_reasons(struct gw_gpu_state *st, const struct gw_sample *s, int loaded)
{
    int64_t known = gw_sample_get(s, GW_GPU_REASONS_KNOWN), mask = gw_sample_get(s, GW_GPU_REASONS);
    if (known == GW_ENV_NONE || mask == GW_ENV_NONE)
        return;
    st->reason_samples++;
    st->reasons_known |= known;
    st->reasons_any |= mask;
    if (loaded)
        st->reasons_loaded |= mask;
    for (int bit = 0; bit < 9; bit++)
        st->reason_count[bit] += mask >> bit & 1;
}

static void take_link(struct gw_gpu_state *st, const struct gw_sample *s, int in_use)
{
    int64_t gen = gw_sample_get(s, GW_GPU_PCIE_GEN), width = gw_sample_get(s, GW_GPU_PCIE_WIDTH);
    if (gen != GW_ENV_NONE)
        st->gen_now = gen;
    if (width != GW_ENV_NONE)
        st->width_now = width;
    if (!in_use || (gen == GW_ENV_NONE && width == GW_ENV_NONE))
        return;
    st->link_loaded++;
    raise_to(&st->gen_loaded, gen);
    raise_to(&st->width_loaded, width);
}

/* Stamps of one capture, or of two that both tell the date. */
static int comparable(const struct gw_sample *a, const struct gw_sample *b)
{
    const int64_t year_2000 = 946684800LL * 1000000000;
    if (a->t == GW_ENV_NONE || b->t == GW_ENV_NONE)
        return 0;
    return a->source == b->source || (a->t > year_2000 && b->t > year_2000);
}

struct gw_gpu_state gw_gpu_state_of(const struct gw_env *env, size_t gpu)
{
    struct gw_gpu_state st = {.gen_loaded = GW_ENV_NONE,
                              .width_loaded = GW_ENV_NONE,
                              .gen_now = GW_ENV_NONE,
                              .width_now = GW_ENV_NONE,
                              .sm_loaded = NAN,
                              .power_loaded = NAN,
                              .pstate_loaded = GW_ENV_NONE,
                              .temp_max = GW_ENV_NONE,
                              .margin_min = GW_ENV_NONE,
                              .replay_first = GW_ENV_NONE,
                              .replay_last = GW_ENV_NONE,
                              .replay_ns = GW_ENV_NONE};
    double sm = 0, power = 0;
    int64_t sm_n = 0, power_n = 0;
    const struct gw_sample *replay = NULL;
    for (int m = 0; m < GW_GPU_DYNAMIC; m++)
        st.last[m] = GW_ENV_NONE;
    for (size_t i = 0; i < gw_env_sample_count(env); i++) {
        const struct gw_sample *s = gw_env_sample_at(env, i);
        if (s->gpu != gpu)
            continue;
        int work = at_work(env, s) == 1;
        int64_t v;
        for (int m = 0; m < GW_GPU_DYNAMIC; m++)
            if (s->has >> m & 1)
                st.last[m] = s->v[m];
        st.samples++;
        st.loaded += work;
        take_reasons(&st, s, work);
        take_link(&st, s, work || link_in_use(env, s));
        raise_to(&st.temp_max, gw_sample_get(s, GW_GPU_TEMP));
        v = gw_sample_get(s, GW_GPU_TLIMIT);
        if (v != GW_ENV_NONE && (st.margin_min == GW_ENV_NONE || v < st.margin_min))
            st.margin_min = v;
        if ((v = gw_sample_get(s, GW_GPU_PCIE_REPLAY)) != GW_ENV_NONE) {
            if (!replay) {
                st.replay_first = v;
                replay = s;
            }
            st.replay_last = v;
            if (comparable(replay, s) && s->t > replay->t)
                st.replay_ns = s->t - replay->t;
        }
        if (!work)
            continue;
        if ((v = gw_sample_get(s, GW_GPU_SM_CLOCK)) != GW_ENV_NONE)
            sm += (double)v, sm_n++;
        if ((v = gw_sample_get(s, GW_GPU_POWER)) != GW_ENV_NONE)
            power += (double)v, power_n++;
        raise_to(&st.pstate_loaded, gw_sample_get(s, GW_GPU_PSTATE));
    }
    if (sm_n)
        st.sm_loaded = sm / (double)sm_n;
    if (power_n)
        st.power_loaded = power / (double)power_n;
    return st;
}
