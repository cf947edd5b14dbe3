/* What the GPUs do now: clock reasons, temperature, power limit, clocks, utilization over time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collect/checks/check_run.h"
#include "model/sawtooth.h"

#define CAP_TOLERANCE 0.98  /* a power limit within 2 % of the default is the default, rounded */
#define CLOCK_LOW_SHARE 0.9 /* of the highest SM clock: below that under load something holds it back */
#define CLOCK_CAPPED_SHARE \
    0.6 /* at the default power limit, a full load below this is unusual even for dense matmuls */
#define POWER_AT_LIMIT 0.9
#define MARGIN_C 5            /* degrees to the slow-down temperature */
#define THROTTLED_US 10000000 /* ten seconds of slow-down since the driver was loaded are worth a line */
#define UTIL_LOW_PCT 50

#define HEAT (GW_REASON_HW_THERMAL | GW_REASON_SW_THERMAL)
#define BRAKE (GW_REASON_HW_BRAKE | GW_REASON_HW_SLOWDOWN)

static const struct {
    int64_t bit;
    const char *text;
} bad_reasons[] = {
    {GW_REASON_HW_THERMAL, N_("HW thermal slowdown")},
    {GW_REASON_SW_THERMAL, N_("SW thermal slowdown")},
    {GW_REASON_HW_BRAKE, N_("HW power brake")},
    {GW_REASON_HW_SLOWDOWN, N_("HW slowdown")},
};

static const char *fix_thermal =
    N_("improve the cooling: fans, dust, air flow, room temperature, neighbours that blow into it");
static const char *verify_reasons = N_("nvidia-smi -q -d PERFORMANCE");

/* "HW thermal slowdown in 3 of 12 samples, 1410 of 1980 MHz" for those of `wanted` that were seen; "" for none. */
static const char *seen_reasons(struct gw_check_run *r, size_t i, int64_t wanted)
{
    const struct gw_gpu_state *st = &r->states[i];
    int64_t sm = st->last[GW_GPU_SM_CLOCK], max = gw_gpu_get(gw_env_gpu_at(r->env, i), GW_GPU_SM_MAX);
    const char *text = "";
    for (size_t k = 0; k < sizeof bad_reasons / sizeof bad_reasons[0]; k++) {
        if (!(st->reasons_any & wanted & bad_reasons[k].bit))
            continue;
        int64_t n = st->reason_count[__builtin_ctzll((unsigned long long)bad_reasons[k].bit)];
        text = gw_check_text(r, "%s%s%s", text, *text ? ", " : "", _(bad_reasons[k].text));
        if (st->reason_samples > 1)
            text = gw_check_text(r, _("%s in %lld of %lld samples"), text, (long long)n, (long long)st->reason_samples);
    }
    if (*text && sm != GW_ENV_NONE && max != GW_ENV_NONE)
        text = gw_check_text(r, _("%s; %lld of %lld MHz"), text, (long long)sm, (long long)max);
    return text;
}

/* The bits of `wanted` over all GPUs. HW slowdown goes with the cause that is seen beside it. */
static int64_t judge_reasons(struct gw_check_run *r, int64_t wanted)
{
    struct gw_check_group g = {.r = r};
    int64_t seen = 0;
    for (size_t i = 0; i < r->env->gpus.len; i++) {
        const struct gw_gpu_state *st = &r->states[i];
        int64_t mine = wanted;
        if (!st->reason_samples)
            continue;
        if (wanted == HEAT && (st->reasons_any & HEAT))
            mine |= GW_REASON_HW_SLOWDOWN;
        if (wanted == BRAKE && (st->reasons_any & HEAT) && !(st->reasons_any & GW_REASON_HW_BRAKE))
            mine = GW_REASON_HW_BRAKE;
        const char *text = seen_reasons(r, i, mine);
        seen |= st->reasons_any & mine;
        if (*text)
            gw_group_add(&g, i, GW_CHECK_BAD, "%s", text);
        else if ((st->reasons_known & wanted) != wanted)
            gw_group_add(&g, i, GW_CHECK_UNKNOWN, _("not every reason is told"));
        else
            gw_group_add(&g, i, GW_CHECK_GOOD, _("no%s"), st->loaded ? "" : _(", but hardly loaded"));
    }
    if (gw_group_say(&g) == GW_CHECK_BAD)
        for (size_t i = 0; i < r->env->gpus.len && i < 8; i++)
            if (r->states[i].sm_loaded > 0)
                gw_check_evidence(r, r->states[i].sm_loaded, "MHz", gw_check_source(r),
                                  "GPU %lld: SM clock %.0f MHz under load", (long long)gw_env_gpu_at(r->env, i)->index,
                                  r->states[i].sm_loaded);
    return seen;
}

void gw_check_on_throttle(struct gw_check_run *r)
{
    judge_reasons(r, HEAT);
    if (r->now->status != GW_CHECK_BAD)
        return;
    gw_check_expect(r, "no slow-down");
    gw_check_fix(r, _(fix_thermal), _(verify_reasons), "");
}

void gw_check_on_brake(struct gw_check_run *r)
{
    int64_t seen = judge_reasons(r, BRAKE);
    if (r->now->status != GW_CHECK_BAD)
        return;
    gw_check_expect(r, "no slow-down");
    gw_check_fix(
        r,
        (seen & GW_REASON_HW_BRAKE)
            ? _("the board's power brake is pulled: check power supplies, cables and the chassis' power cap (BMC)")
            : _("a hardware slow-down without a cause is power or heat: check power cables, supplies and the BMC's "
                "log"),
        _(verify_reasons), "");
}

void gw_check_on_throttled(struct gw_check_run *r)
{
    static const struct {
        enum gw_gpu_metric m;
        const char *text;
    } counters[] = {{GW_GPU_US_HW_THERMAL, N_("HW thermal")},
                    {GW_GPU_US_SW_THERMAL, N_("SW thermal")},
                    {GW_GPU_US_HW_BRAKE, N_("power brake")}};
    struct gw_check_group g = {.r = r};
    for (size_t i = 0; i < r->env->gpus.len; i++) {
        const char *text = "";
        int known = 0;
        for (size_t k = 0; k < 3; k++) {
            int64_t us = r->states[i].last[counters[k].m];
            known |= us != GW_ENV_NONE;
            if (us != GW_ENV_NONE && us >= THROTTLED_US)
                text =
                    gw_check_text(r, "%s%s%s %.0f s", text, *text ? ", " : "", _(counters[k].text), (double)us * 1e-6);
        }
        if (*text)
            gw_group_add(&g, i, GW_CHECK_LOOK, _("%s since the driver was loaded"), text);
        else if (known)
            gw_group_add(&g, i, GW_CHECK_GOOD, _("none to speak of since the driver was loaded"));
    }
    if (gw_group_say(&g) == GW_CHECK_LOOK) {
        gw_check_expect(r, "less than %d s", THROTTLED_US / 1000000);
        gw_check_fix(r,
                     _("it was slowed down at some time; see whether it still is: gpuwhy check beside the running job"),
                     _(verify_reasons), "");
    }
}

/* The distance of the hottest reading to the slow-down; GW_ENV_NONE. */
static int64_t margin_of(const struct gw_env *env, size_t i, const struct gw_gpu_state *st)
{
    int64_t slow = gw_gpu_get(gw_env_gpu_at(env, i), GW_GPU_TEMP_SLOWDOWN);
    if (st->margin_min != GW_ENV_NONE || slow == GW_ENV_NONE || st->temp_max == GW_ENV_NONE)
        return st->margin_min;
    return slow - st->temp_max;
}

void gw_check_on_temperature(struct gw_check_run *r)
{
    struct gw_check_group g = {.r = r};
    int64_t hottest = GW_ENV_NONE, least = GW_ENV_NONE, unknown = 0, loaded = 0;
    for (size_t i = 0; i < r->env->gpus.len; i++) {
        const struct gw_gpu_state *st = &r->states[i];
        int64_t margin = margin_of(r->env, i, st);
        if (st->temp_max == GW_ENV_NONE)
            continue;
        hottest = st->temp_max > hottest ? st->temp_max : hottest;
        loaded += st->loaded;
        unknown += margin == GW_ENV_NONE;
        if (margin != GW_ENV_NONE && (least == GW_ENV_NONE || margin < least))
            least = margin;
        if (margin != GW_ENV_NONE && margin <= MARGIN_C)
            gw_group_add(&g, i, GW_CHECK_LOOK, _("%lld C, %lld C below the limit"), (long long)st->temp_max,
                         (long long)margin);
    }
    if (hottest == GW_ENV_NONE)
        return;
    if (gw_group_say(&g) == GW_CHECK_LOOK) {
        gw_check_expect(r, "more than %d C below the slow-down temperature", MARGIN_C);
        gw_check_fix(r, _(fix_thermal), "nvidia-smi -q -d TEMPERATURE", "");
    } else if (unknown) {
        gw_check_say(r, GW_CHECK_UNKNOWN, _("at most %lld C; the limit is not told"), (long long)hottest);
    } else {
        gw_check_say(r, GW_CHECK_GOOD, _("at most %lld C, %lld C below the limit%s"), (long long)hottest,
                     (long long)least, loaded ? "" : _(" (hardly loaded)"));
    }
}

void gw_check_on_power(struct gw_check_run *r)
{
    struct gw_check_group g = {.r = r};
    for (size_t i = 0; i < r->env->gpus.len; i++) {
        const struct gw_gpu *gpu = gw_env_gpu_at(r->env, i);
        const struct gw_gpu_state *st = &r->states[i];
        int64_t limit = gw_gpu_get(gpu, GW_GPU_POWER_LIMIT), normal = gw_gpu_get(gpu, GW_GPU_POWER_DEFAULT);
        int64_t max = gw_gpu_get(gpu, GW_GPU_SM_MAX);
        if (limit == GW_ENV_NONE || limit <= 0)
            continue;
        int at_limit = st->power_loaded >= POWER_AT_LIMIT * (double)limit || (st->reasons_loaded & GW_REASON_SW_POWER);
        if (normal != GW_ENV_NONE && (double)limit < CAP_TOLERANCE * (double)normal)
            gw_group_add(&g, i, at_limit ? GW_CHECK_BAD : GW_CHECK_LOOK, _("%s, the default is %s%s"),
                         gw_check_watts(r, limit), gw_check_watts(r, normal),
                         at_limit ? _("; the load reaches it") : "");
        else if (at_limit && (st->reasons_loaded & GW_REASON_SW_POWER) && max > 0 &&
                 st->sm_loaded < CLOCK_CAPPED_SHARE * (double)max)
            gw_group_add(&g, i, GW_CHECK_LOOK, _("%s, reached; the SM clock falls to %.0f of %lld MHz"),
                         gw_check_watts(r, limit), st->sm_loaded, (long long)max);
        else if (normal == GW_ENV_NONE)
            gw_group_add(&g, i, GW_CHECK_UNKNOWN, _("%s, the default is not told"), gw_check_watts(r, limit));
        else
            gw_group_add(&g, i, GW_CHECK_GOOD, _("%s, the default%s"), gw_check_watts(r, limit),
                         at_limit ? _("; a full load reaches it, as it may") : "");
        if (st->power_loaded > 0)
            gw_check_evidence(r, st->power_loaded / 1000, "W", gw_check_source(r),
                              "GPU %lld: %.0f W under load, limit %.0f W", (long long)gpu->index,
                              st->power_loaded / 1000, (double)limit / 1000);
    }
    if (gw_group_say(&g) >= GW_CHECK_LOOK) {
        gw_check_expect(r, "the board's default");
        gw_check_fix(r,
                     _("sudo nvidia-smi -pl DEFAULT (watts; see nvidia-smi -q -d POWER); on a laptop choose the "
                       "performance profile"),
                     "nvidia-smi -q -d POWER,PERFORMANCE", _("more heat and power; the limit may be there on purpose"));
    }
}

void gw_check_on_clocks(struct gw_check_run *r)
{
    struct gw_check_group g = {.r = r};
    for (size_t i = 0; i < r->env->gpus.len; i++) {
        const struct gw_gpu *gpu = gw_env_gpu_at(r->env, i);
        const struct gw_gpu_state *st = &r->states[i];
        int64_t max = gw_gpu_get(gpu, GW_GPU_SM_MAX), app = gw_gpu_get(gpu, GW_GPU_APP_SM),
                normal = gw_gpu_get(gpu, GW_GPU_APP_SM_DEFAULT);
        int by_hand = app != GW_ENV_NONE && normal != GW_ENV_NONE && app < normal;
        int slow = max > 0 && st->sm_loaded < CLOCK_LOW_SHARE * (double)max;
        if (slow && (st->reasons_loaded & GW_REASON_APP_CLOCKS))
            gw_group_add(&g, i, GW_CHECK_BAD, _("%.0f of %lld MHz under load, held by the clock setting"),
                         st->sm_loaded, (long long)max);
        else if (by_hand)
            gw_group_add(&g, i, GW_CHECK_LOOK, _("application clock %lld MHz, the default is %lld"), (long long)app,
                         (long long)normal);
        else if (st->pstate_loaded != GW_ENV_NONE && st->pstate_loaded >= 5 && st->loaded > 2)
            gw_group_add(&g, i, GW_CHECK_LOOK, _("performance state P%lld under load"), (long long)st->pstate_loaded);
        else if (slow && st->reason_samples && !(st->reasons_loaded & ~(int64_t)GW_REASON_IDLE) &&
                 (st->reasons_known & 0xff) == 0xff && st->loaded > 2)
            gw_group_add(&g, i, GW_CHECK_LOOK, _("%.0f of %lld MHz under load, no reason is told: locked clocks?"),
                         st->sm_loaded, (long long)max);
        else if (st->sm_loaded > 0 && max > 0)
            gw_group_add(&g, i, GW_CHECK_GOOD, _("%.0f of %lld MHz under load"), st->sm_loaded, (long long)max);
        else if (app != GW_ENV_NONE && normal != GW_ENV_NONE)
            gw_group_add(&g, i, GW_CHECK_GOOD, _("application clock at its default, %lld MHz; no load to judge by"),
                         (long long)normal);
    }
    if (gw_group_say(&g) >= GW_CHECK_LOOK) {
        gw_check_expect(r, "at least %.0f %% of the highest SM clock under load", 100 * CLOCK_LOW_SHARE);
        gw_check_fix(r, "sudo nvidia-smi -rgc; sudo nvidia-smi -rac", "nvidia-smi -q -d CLOCK,PERFORMANCE",
                     _("clocks may be locked on purpose, for steady measurements"));
    }
}

/* --- utilization over time ---------------------------------------------------------------------------------------- */

struct series {
    int64_t *t;
    double *v;
    size_t n;
    int stamped;
};

/* The source with the most samples of this GPU that tell the utilization: a log, among snapshots. */
static int64_t longest_source(const struct gw_env *env, size_t gpu, size_t *best)
{
    int64_t source = GW_ENV_NONE, run = GW_ENV_NONE;
    size_t n = 0;
    *best = 0;
    for (size_t i = 0; i < gw_env_sample_count(env); i++) { /* the samples of a source follow each other */
        const struct gw_sample *x = gw_env_sample_at(env, i);
        if (x->gpu != gpu || gw_sample_get(x, GW_GPU_UTIL) == GW_ENV_NONE)
            continue;
        n = x->source == run ? n + 1 : 1;
        run = x->source;
        if (n > *best) {
            *best = n;
            source = run;
        }
    }
    return source;
}

static int take_series(const struct gw_env *env, size_t gpu, struct series *s)
{
    size_t total = gw_env_sample_count(env), best;
    int64_t source = longest_source(env, gpu, &best);
    s->n = 0;
    s->stamped = 1;
    if (best < 16)
        return 0;
    s->t = malloc(best * sizeof *s->t);
    s->v = malloc(best * sizeof *s->v);
    for (size_t i = 0; s->t && s->v && i < total && s->n < best; i++) {
        const struct gw_sample *x = gw_env_sample_at(env, i);
        int64_t util = gw_sample_get(x, GW_GPU_UTIL);
        if (x->gpu != gpu || x->source != source || util == GW_ENV_NONE)
            continue;
        s->stamped &= x->t != GW_ENV_NONE;
        s->t[s->n] = x->t;
        s->v[s->n++] = (double)util;
    }
    for (size_t i = 0; !s->stamped && i < s->n; i++)
        s->t[i] = (int64_t)i * 1000000000; /* without stamps a "second" is a sample */
    return s->n > 0;
}

static void say_wave(struct gw_check_run *r, struct gw_check_group *g, size_t gpu, const struct gw_sawtooth *w,
                     int stamped)
{
    const char *unit = stamped ? "s" : _("samples");
    if (w->shape == GW_WAVE_PERIODIC) {
        gw_group_add(g, gpu, GW_CHECK_LOOK,
                     _("swings %.0f-%.0f %% every %.3g %s, high %.0f %% of the time (%lld swings)"), w->low, w->high,
                     w->period_s, unit, 100 * w->duty, (long long)w->cycles);
        if (stamped) {
            gw_check_evidence(r, w->period_s * 1e9, "ns", "utilization log", "period %.3g s, +-%.2g s", w->period_s,
                              w->period_error_s);
            gw_check_evidence(r, w->strength, "1", "utilization log", "autocorrelation %.2f at the period",
                              w->strength);
        }
        gw_check_evidence(r, w->depth / 100, "share", "utilization log", "depth %.0f percentage points", w->depth);
        gw_check_evidence(r, w->duty, "share", "utilization log", "high for %.0f %% of the time", 100 * w->duty);
        return;
    }
    gw_check_evidence(r, w->mean / 100, "share", "utilization log", "mean utilization %.0f %%", w->mean);
    if (w->shape == GW_WAVE_BURSTS || w->shape == GW_WAVE_TOO_FAST)
        gw_group_add(g, gpu, GW_CHECK_LOOK,
                     w->shape == GW_WAVE_BURSTS
                         ? _("bursts at no fixed period: %.0f %% high, %.0f %% low, mean %.0f %%")
                         : _("jumps from sample to sample (%.0f %% high, %.0f %% low, mean %.0f %%): sample faster"),
                     w->high, w->low, w->mean);
    else if (w->mean < UTIL_LOW_PCT)
        gw_group_add(g, gpu, GW_CHECK_LOOK, _("steady at %.0f %%"), w->mean);
    else
        gw_group_add(g, gpu, GW_CHECK_GOOD, _("steady at %.0f %%"), w->mean);
}

void gw_check_on_utilization(struct gw_check_run *r)
{
    struct gw_check_group g = {.r = r};
    int periodic = 0;
    if (r->env->live)
        return; /* half a second of samples shows nothing of a job */
    for (size_t i = 0; i < r->env->gpus.len; i++) {
        struct series s = {NULL, NULL, 0, 0};
        if (take_series(r->env, i, &s)) {
            struct gw_sawtooth w = gw_sawtooth_find(s.t, s.v, s.n);
            if (w.shape != GW_WAVE_TOO_SHORT) {
                say_wave(r, &g, i, &w, s.stamped);
                periodic |= w.shape == GW_WAVE_PERIODIC;
            }
        }
        free(s.t);
        free(s.v);
    }
    if (gw_group_say(&g) != GW_CHECK_LOOK)
        return;
    gw_check_expect(r, "steady and high; utilization only says that some kernel ran");
    gw_check_fix(
        r,
        periodic ? _("something stops the GPU at this period: find what the job does that often (loading, evaluation, "
                     "checkpoint, logging) with a recording: gpuwhy run -- CMD, or gpuwhy read TRACE")
                 : _("find what the GPU waits for with a recording: gpuwhy run -- CMD, or gpuwhy read TRACE"),
        _("the same log again"), "");
}
