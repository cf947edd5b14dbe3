/* CPUs: how fast, how many are allowed, by affinity and by quota, and on which side of the machine. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collect/checks/check_run.h"

#define CPUS_PER_GPU 4     /* a loader with fewer than four workers seldom keeps a training GPU busy */
#define THROTTLED_NOW 0.05 /* share of periods: one stall in twenty */
#define THROTTLED_EVER 0.10
#define LOAD_PER_CPU 1.5 /* runnable threads per allowed CPU; the threshold of cpu-oversubscribed */
#define PSI_CPU_PCT 30

static int64_t gpus_or_one(const struct gw_check_run *r) { return r->env->gpus.len ? (int64_t)r->env->gpus.len : 1; }

void gw_check_on_cpu(struct gw_check_run *r)
{
    const struct gw_env *env = r->env;
    const char *model = gw_known(gw_env_str(env, GW_HSTR_CPU_MODEL), _("CPU")),
               *gov = gw_env_str(env, GW_HSTR_GOVERNOR);
    const char *driver = gw_known(gw_env_str(env, GW_HSTR_FREQ_DRIVER), ""), *epp = gw_env_str(env, GW_HSTR_EPP);
    int64_t max = gw_env_get(env, GW_HOST_FREQ_MAX), limit = gw_env_get(env, GW_HOST_FREQ_LIMIT);
    if (!gov && max == GW_ENV_NONE && !gw_env_str(env, GW_HSTR_CPU_MODEL))
        return;
    /* "powersave" of intel_pstate and amd-pstate-epp in active mode is not slow: the hardware picks, by the preference.
     */
    int hardware = strcmp(driver, "intel_pstate") == 0 || strcmp(driver, "amd-pstate-epp") == 0 ||
                   strcmp(driver, "amd_pstate_epp") == 0;
    if (gov && strcmp(gov, "powersave") == 0 && !hardware)
        gw_check_say(r, GW_CHECK_LOOK, _("governor powersave (%s): the lowest frequency, always"), driver);
    else if (gov && (strcmp(gov, "ondemand") == 0 || strcmp(gov, "conservative") == 0))
        gw_check_say(r, GW_CHECK_LOOK, _("governor %s: slow to speed up for short bursts of work"), gov);
    else if (hardware && epp && (strcmp(epp, "power") == 0 || strcmp(epp, "balance_power") == 0))
        gw_check_say(r, GW_CHECK_LOOK, _("energy preference \"%s\""), epp);
    else if (max > 0 && limit > 0 && (double)limit < 0.9 * (double)max)
        gw_check_say(r, GW_CHECK_LOOK, _("held at %.1f of %.1f GHz"), (double)limit * 1e-6, (double)max * 1e-6);
    else if (gw_env_get(env, GW_HOST_TURBO_OFF) == 1)
        gw_check_say(r, GW_CHECK_LOOK, _("turbo is off"));
    else if (gov)
        gw_check_say(r, GW_CHECK_GOOD, _("%s, governor %s"), model, gov);
    else
        gw_check_say(r, GW_CHECK_UNKNOWN, _("%s; the frequency is set outside this system"), model);
    if (r->now->status == GW_CHECK_LOOK) {
        gw_check_expect(r, "governor performance or schedutil, full frequency");
        gw_check_fix(r, "sudo cpupower frequency-set -g performance", "cpupower frequency-info", _("more power"));
    }
}

void gw_check_on_affinity(struct gw_check_run *r)
{
    int64_t allowed = gw_env_get(r->env, GW_HOST_ALLOWED), cpus = gw_env_get(r->env, GW_HOST_CPUS),
            gpus = gpus_or_one(r);
    const char *list = gw_known(gw_env_str(r->env, GW_HSTR_CPUS_ALLOWED), "");
    if (allowed == GW_ENV_NONE && cpus != GW_ENV_NONE && !r->env->live) {
        gw_check_say(r, GW_CHECK_UNKNOWN, _("%lld CPUs; what the job may use is not in the capture"), (long long)cpus);
        return;
    }
    if (allowed == GW_ENV_NONE)
        return;
    gw_check_evidence(r, (double)allowed, "count", "/proc/self/status", "%lld CPUs allowed, %lld online",
                      (long long)allowed, (long long)cpus);
    int pinned = cpus != GW_ENV_NONE && allowed < cpus;
    if (allowed == 1 && (pinned || r->env->gpus.len))
        gw_check_say(r, GW_CHECK_BAD,
                     pinned ? _("1 of %lld: main thread and loader share one CPU")
                            : _("1: main thread and loader share one CPU"),
                     (long long)cpus);
    else if (r->env->gpus.len && allowed < CPUS_PER_GPU * gpus)
        gw_check_say(r, GW_CHECK_LOOK, _("%lld of %lld for %lld GPU%s"), (long long)allowed, (long long)cpus,
                     (long long)gpus, gpus > 1 ? "s" : "");
    else if (pinned && allowed * 4 <= cpus)
        gw_check_say(r, GW_CHECK_LOOK, _("%lld of %lld (%s)"), (long long)allowed, (long long)cpus, list);
    else
        gw_check_say(r, GW_CHECK_GOOD, _("%lld of %lld"), (long long)allowed, (long long)cpus);
    if (r->now->status >= GW_CHECK_LOOK) {
        gw_check_expect(r, "at least %d for each GPU", CPUS_PER_GPU);
        gw_check_fix(r,
                     _("ask the scheduler for more (sbatch --cpus-per-task=N, docker --cpuset-cpus); after an MPI "
                       "launcher that binds to one "
                       "core: mpirun --bind-to none, srun --cpu-bind=none"),
                     "taskset -cp $$", "");
    }
}

void gw_check_on_quota(struct gw_check_run *r)
{
    const struct gw_env *env = r->env;
    int64_t quota = gw_env_get(env, GW_HOST_QUOTA_MCPU), allowed = gw_env_get(env, GW_HOST_ALLOWED),
            gpus = gpus_or_one(r);
    int64_t periods = gw_env_get(env, GW_HOST_CG_PERIODS), throttled = gw_env_get(env, GW_HOST_CG_THROTTLED);
    int64_t now_p = gw_env_get(env, GW_HOST_CG_D_PERIODS), now_t = gw_env_get(env, GW_HOST_CG_D_THROTTLED);
    if (quota == GW_ENV_NONE)
        return;
    if (quota < 0) {
        gw_check_say(r, GW_CHECK_GOOD, _("none"));
        return;
    }
    double cpus = (double)quota / 1000, now = now_p > 0 ? (double)now_t / (double)now_p : 0,
           ever = periods > 0 ? (double)throttled / (double)periods : 0;
    gw_check_evidence(r, cpus, "1", "cgroup cpu.max", "quota %.2f CPUs", cpus);
    if (periods > 0)
        gw_check_evidence(r, ever, "share", "cgroup cpu.stat", "throttled in %lld of %lld periods so far",
                          (long long)throttled, (long long)periods);
    if (now > THROTTLED_NOW && now_t > 1)
        gw_check_say(r, GW_CHECK_BAD, _("%.3g CPUs; throttled in %.0f %% of the periods now"), cpus, 100 * now);
    else if (ever > THROTTLED_EVER && throttled > 20)
        gw_check_say(r, GW_CHECK_LOOK, _("%.3g CPUs; throttled in %.0f %% of the periods so far"), cpus, 100 * ever);
    else if (cpus < CPUS_PER_GPU * (double)gpus && env->gpus.len)
        gw_check_say(r, GW_CHECK_LOOK, _("%.3g CPUs for %lld GPU%s"), cpus, (long long)gpus, gpus > 1 ? "s" : "");
    else if (allowed > 0 && cpus < 0.5 * (double)allowed)
        gw_check_say(r, GW_CHECK_LOOK, _("%.3g CPUs, but programs see %lld and start too many threads"), cpus,
                     (long long)allowed);
    else
        gw_check_say(r, GW_CHECK_GOOD, _("%.3g CPUs, throttled in %.1f %% of the periods"), cpus, 100 * ever);
    if (r->now->status >= GW_CHECK_LOOK) {
        gw_check_expect(r, "no quota, or at least %d CPUs for each GPU, throttled in less than %.0f %% of the periods",
                        CPUS_PER_GPU, 100 * THROTTLED_NOW);
        gw_check_fix(r,
                     _("raise the limit (docker --cpus, Kubernetes limits.cpu), not the number of workers; until then "
                       "count threads by the "
                       "quota: num_workers and OMP_NUM_THREADS, because os.cpu_count() does not know it"),
                     "cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu.stat", "");
    }
}

void gw_check_on_load(struct gw_check_run *r)
{
    int64_t load = gw_env_get(r->env, GW_HOST_LOAD_X100), cpus = gw_env_get(r->env, GW_HOST_CPUS),
            psi = gw_env_get(r->env, GW_HOST_PSI_CPU_X100);
    if (load == GW_ENV_NONE || cpus == GW_ENV_NONE || cpus <= 0)
        return;
    double per_cpu = (double)load / 100 / (double)cpus;
    gw_check_evidence(r, (double)load / 100, "1", "/proc/loadavg", "load %.2f on %lld CPUs", (double)load / 100,
                      (long long)cpus);
    if (psi != GW_ENV_NONE)
        gw_check_evidence(r, (double)psi / 10000, "share", "/proc/pressure/cpu",
                          "tasks waited for a CPU in %.0f %% of ten seconds", (double)psi / 100);
    if (per_cpu > LOAD_PER_CPU || psi > PSI_CPU_PCT * 100) {
        gw_check_say(r, GW_CHECK_LOOK, _("%.1f on %lld CPUs%s"), (double)load / 100, (long long)cpus,
                     psi > 0 ? gw_check_text(r, _("; tasks wait for a CPU %.0f %% of the time"), (double)psi / 100)
                             : "");
        gw_check_expect(r, "at most %.1f a CPU", LOAD_PER_CPU);
        gw_check_fix(r,
                     _("more runnable threads than CPUs: fewer workers, OMP_NUM_THREADS=1 in workers, or another job "
                       "on this machine (top)"),
                     "uptime; top", "");
    } else {
        gw_check_say(r, GW_CHECK_GOOD, _("%.1f on %lld CPUs"), (double)load / 100, (long long)cpus);
    }
}

/* --- NUMA ------------------------------------------------------------------------------------------------------------
 */

enum { MASK_BITS = 8192 };
struct mask {
    unsigned char bits[MASK_BITS / 8];
};

static int64_t common(const struct mask *a, const struct mask *b)
{
    int64_t n = 0;
    for (size_t i = 0; i < sizeof a->bits; i++)
        n += __builtin_popcount(a->bits[i] & b->bits[i]);
    return n;
}

static const char *node_cpus(const struct gw_env *env, int64_t node)
{
    for (size_t i = 0; i < gw_env_count(env, GW_REC_NODE); i++) {
        const struct gw_env_node *n = gw_env_at(env, GW_REC_NODE, i);
        if (n->node == node)
            return n->cpus;
    }
    return NULL;
}

void gw_check_on_numa(struct gw_check_run *r)
{
    const struct gw_env *env = r->env;
    const char *allowed = gw_env_str(env, GW_HSTR_CPUS_ALLOWED);
    struct gw_check_group g = {.r = r};
    int64_t nodes = gw_env_get(env, GW_HOST_NUMA_NODES);
    int spread = 0;
    for (size_t i = 0; i < env->gpus.len; i++) {
        const struct gw_gpu *gpu = gw_env_gpu_at(env, i);
        int64_t node = gw_gpu_get(gpu, GW_GPU_NUMA_NODE);
        const char *near = node >= 0 ? node_cpus(env, node) : NULL;
        struct mask a = {{0}}, b = {{0}};
        if (!near)
            near = gpu->cpus;
        if (nodes == 1) {
            gw_group_add(&g, i, GW_CHECK_GOOD, _("one NUMA node: every CPU is near"));
            continue;
        }
        if (!near || !allowed || gw_cpulist_count(near, a.bits, MASK_BITS) <= 0)
            continue;
        int64_t have = gw_cpulist_count(allowed, b.bits, MASK_BITS), both = common(&a, &b);
        if (have <= 0)
            continue;
        if (both == 0)
            gw_group_add(&g, i, GW_CHECK_BAD, _("none of the allowed CPUs (%s) is on its node (%s)"), allowed, near);
        else if (both < have) {
            gw_group_add(&g, i, env->gpus.len > 1 ? GW_CHECK_GOOD : GW_CHECK_LOOK,
                         _("%lld of %lld allowed CPUs are on its node (%s)"), (long long)both, (long long)have, near);
            spread = 1;
        } else {
            gw_group_add(&g, i, GW_CHECK_GOOD, _("all allowed CPUs are on its node (%s)"), near);
        }
    }
    enum gw_check_status s = gw_group_say(&g);
    if (s >= GW_CHECK_LOOK || (s == GW_CHECK_GOOD && spread)) {
        gw_check_expect(r, "threads and memory on the GPU's own node");
        gw_check_fix(r,
                     _("bind each rank to the node of its GPU: numactl --cpunodebind=NODE --membind=NODE python "
                       "train.py, or torchrun's "
                       "--numa-binding=node; nvidia-smi topo -m names the node"),
                     "numastat -p PID; nvidia-smi topo -m", "");
    }
}

void gw_check_on_clocksource(struct gw_check_run *r)
{
    const char *c = gw_env_str(r->env, GW_HSTR_CLOCKSOURCE);
    static const char *const fast[] = {"tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page",
                                       "xen", "timebase"};
    if (!c)
        return;
    for (size_t i = 0; i < sizeof fast / sizeof fast[0]; i++)
        if (strcmp(c, fast[i]) == 0) {
            gw_check_say(r, GW_CHECK_GOOD, "%s", c);
            return;
        }
    gw_check_say(r, GW_CHECK_LOOK, _("%s: reading the time is a slow call, and every launch reads it"), c);
    gw_check_expect(r, "tsc");
    gw_check_fix(r,
                 _("dmesg | grep -i tsc says why tsc was given up; tsc=reliable on the kernel command line when the "
                   "hardware is sound"),
                 "cat /sys/devices/system/clocksource/clocksource0/current_clocksource",
                 _("wrong time if the hardware is not"));
}

void gw_check_on_laptop(struct gw_check_run *r)
{
    int64_t battery = gw_env_get(r->env, GW_HOST_ON_BATTERY), pct = gw_env_get(r->env, GW_HOST_BATTERY_PCT);
    const char *profile = gw_env_str(r->env, GW_HSTR_PLATFORM_PROFILE);
    if (battery == GW_ENV_NONE && !profile)
        return;
    if (battery == 1)
        gw_check_say(r, GW_CHECK_BAD, _("on battery%s: GPU and CPU are held low"),
                     pct >= 0 ? gw_check_text(r, " (%lld %%)", (long long)pct) : "");
    else if (profile &&
             (strcmp(profile, "low-power") == 0 || strcmp(profile, "quiet") == 0 || strcmp(profile, "cool") == 0))
        gw_check_say(r, GW_CHECK_LOOK, _("the firmware's profile is \"%s\""), profile);
    else
        gw_check_say(r, GW_CHECK_GOOD, _("mains%s%s"), profile ? _(", profile ") : "", gw_known(profile, ""));
    if (r->now->status >= GW_CHECK_LOOK) {
        gw_check_expect(r, "mains, profile balanced or performance");
        gw_check_fix(r, _("plug it in; powerprofilesctl set performance"), "cat /sys/firmware/acpi/platform_profile",
                     _("noise and heat"));
    }
}
