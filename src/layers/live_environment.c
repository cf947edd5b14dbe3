/* live_environment.c - the machine under this load: clocks, heat, power, CPUs, other jobs. */
#include <math.h>
#include <string.h>

#include "layers/live.h"

/* nvmlClocksEventReason* of nvml.h */
enum {
    R_APP_CLOCKS = 0x2,
    R_SW_POWER = 0x4,
    R_HW_SLOWDOWN = 0x8,
    R_SW_THERMAL = 0x20,
    R_HW_THERMAL = 0x40,
    R_HW_BRAKE = 0x80,
    R_DISPLAY = 0x100
};
#define LOAD_PERCENT 50 /* of utilization: clocks of an idle GPU say nothing */

struct clocks { /* over the samples under load */
    size_t n;
    double thermal, power, app; /* shares of samples with such a reason */
    double sm, sm_max;          /* mean SM clock, and the highest possible; MHz */
    double watt, limit, normal; /* mean power, the limit in force, the default limit */
    double hottest;
};

static int under_load(const struct gw_diag *d, const struct gw_live *l, struct clocks *c)
{
    struct gw_live_gpu *s;
    *c = (struct clocks){.sm_max = NAN, .limit = NAN, .normal = NAN, .hottest = NAN};
    if (!l || l->device < 0)
        return 0;
    const struct gw_host_gpu *g = gw_host_gpu(l->h, l->device);
    size_t n = gw_live_gpu_samples(l, d->an, d->arena, &s), clocked = 0, reasons = 0, powered = 0;
    for (size_t i = 0; i < n; i++) {
        if (!(s[i].util >= LOAD_PERCENT))
            continue;
        c->n++;
        if (!isnan(s[i].sm_clock)) {
            c->sm += s[i].sm_clock;
            clocked++;
        }
        if (!isnan(s[i].power)) {
            c->watt += s[i].power;
            powered++;
        }
        c->hottest = fmax(c->hottest, s[i].temperature);
        if (isnan(s[i].reasons))
            continue;
        unsigned r = (unsigned)s[i].reasons;
        reasons++;
        c->thermal += (r & (R_SW_THERMAL | R_HW_THERMAL)) != 0 || ((r & R_HW_SLOWDOWN) && !(r & R_HW_BRAKE));
        c->power += (r & (R_SW_POWER | R_HW_BRAKE)) != 0;
        c->app += (r & (R_APP_CLOCKS | R_DISPLAY)) != 0;
    }
    c->sm = clocked ? c->sm / (double)clocked : NAN;
    c->watt = powered ? c->watt / (double)powered : NAN;
    if (reasons) {
        c->thermal /= (double)reasons;
        c->power /= (double)reasons;
        c->app /= (double)reasons;
    }
    if (g) {
        c->sm_max = g->sm_clock_max_mhz;
        c->limit = g->power_limit_w;
        c->normal = g->power_default_w;
    }
    return c->n >= 4 && clocked && reasons && c->sm_max > 0;
}

/* Kernels get faster with the clock at most; what the GPU waits for does not. */
static void clock_gain(struct gw_diag *d, struct gw_draft *f, const struct clocks *c)
{
    double faster = c->sm_max / c->sm, t = 1 / (1 - d->busy + d->busy / faster);
    gw_diag_gain_set(f, 1 + (t - 1) * 0.3, 1 + (t - 1) * 0.7, t);
}

static void seen_clocks(struct gw_diag *d, struct gw_draft *f, const struct clocks *c)
{
    gw_diag_seen(d, f, c->sm, "1", "NVML", _("under load the SM clock is %.0f MHz on average, of %.0f MHz"), c->sm,
                 c->sm_max);
}

/* What to say when clocks cannot be judged although NVML answered. */
static int not_under_load(struct gw_diag *d, const struct gw_live *l, enum gw_finding_id id, const struct clocks *c)
{
    if (l && l->device >= 0 && c->n < 4 && !isnan(l->gpu_busy))
        d->needs[id] = _("a GPU under load: it was hardly ever half busy while recording, and the clocks of an idle "
                         "GPU say nothing");
    return GW_NO_DATA;
}

int gw_live_thermal(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    struct clocks c;
    if (!under_load(d, l, &c))
        return not_under_load(d, l, GW_F_THERMAL, &c);
    double hw = gw_live_rate(l, d->an, "nvml.hw_thermal_ns", l->device, -1),
           sw = gw_live_rate(l, d->an, "nvml.sw_thermal_ns", l->device, -1);
    double counted = fmax(isnan(hw) ? 0 : hw, isnan(sw) ? 0 : sw) * 1e-9;
    if (fmax(c.thermal, counted) < GW_LIM_THROTTLE_TIME || c.sm > GW_LIM_CLOCK_LOW * c.sm_max)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_THERMAL, -1);
    clock_gain(d, f, &c);
    f->f.confidence = GW_CONF_HIGH;
    gw_diag_seen(d, f, fmax(c.thermal, counted), "share", "NVML",
                 _("slowed down for heat %.0f %% of the time under load, at up to %.0f degrees C"),
                 100 * fmax(c.thermal, counted), c.hottest);
    seen_clocks(d, f, &c);
    gw_diag_fix(f,
                _("cooling: fans, air flow, dust, neighbours; a lower power limit often costs less than throttling: "
                  "`nvidia-smi -pl WATTS`"),
                _("gpuwhy check, and the SM clock under load"), "");
    return GW_FIRED;
}

int gw_live_power(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    struct clocks c;
    if (!under_load(d, l, &c))
        return not_under_load(d, l, GW_F_POWER, &c);
    /* being at the power limit is normal under full load; it matters when the clock falls far for it */
    if (c.power < GW_LIM_POWER_TIME || c.sm > GW_LIM_CLOCK_LOW * c.sm_max ||
        !(c.watt > 0.85 * c.limit || c.limit < 0.95 * c.normal))
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_POWER, -1);
    clock_gain(d, f, &c);
    int lowered = c.limit < 0.95 * c.normal;
    f->f.confidence = lowered ? GW_CONF_HIGH : GW_CONF_LOW;
    gw_diag_seen(d, f, c.power, "share", "NVML",
                 _("held down by power %.0f %% of the time under load: %.0f W of a limit of %.0f W"), 100 * c.power,
                 c.watt, c.limit);
    seen_clocks(d, f, &c);
    if (lowered) {
        gw_diag_seen(d, f, c.normal, "1", "NVML", _("the limit is below the default of %.0f W"), c.normal);
        gw_diag_fix(f,
                    gw_arena_printf(d->arena,
                                    _("raise the limit: `nvidia-smi -pl %.0f` (needs root; ask why it was lowered)"),
                                    c.normal),
                    _("the SM clock under load"), _("more power and heat"));
    } else {
        gw_diag_against(
            d, f, c.limit, "1", "NVML",
            _("the limit is the GPU's own: a full load reaches it, and only less work for the same result helps"));
        gw_diag_fix(f, _("lower precision does the same work with less power"), _("gpuwhy diff before after"), "");
        gw_diag_gain_set(f, 1, 1, f->f.gain.high); /* nobody can raise it */
    }
    return GW_FIRED;
}

int gw_live_clocks(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    struct clocks c;
    if (!under_load(d, l, &c))
        return not_under_load(d, l, GW_F_CLOCKS, &c);
    if (c.app < 0.5 || c.sm > GW_LIM_CLOCK_LOW * c.sm_max)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_CLOCKS, -1);
    clock_gain(d, f, &c);
    f->f.confidence = GW_CONF_HIGH;
    gw_diag_seen(d, f, c.app, "share", "NVML",
                 _("the driver gives \"clocks are set\" as the reason %.0f %% of the time under load"), 100 * c.app);
    seen_clocks(d, f, &c);
    gw_diag_fix(f,
                _("`nvidia-smi -rac` (application clocks) and `nvidia-smi -rgc` (locked clocks); both need root, "
                  "unless an administrator allows them"),
                _("the SM clock under load"), _("more power and heat"));
    return GW_FIRED;
}

/* --- CPUs
 * ------------------------------------------------------------------------------------------------------------------------
 */

/* How much faster a loader gets whose threads get `more` times the CPU: what its workers sleep stays. */
static double supply_with(const struct gw_live *l, double more)
{
    const struct gw_live_threads *w = l->role + GW_LIVE_WORKER;
    return w->blocked > 0 ? (w->busy + w->blocked) / (w->blocked + w->busy / more) : more;
}

static void seen_starved(struct gw_diag *d, struct gw_draft *f, const struct gw_live *l, double wait, int out, int crowded)
{
    if (!isnan(l->quota))
        gw_diag_seen(d, f, l->quota, "1", "cgroup", _("the cgroup allows %.3g CPUs of the machine's %.0f"), l->quota,
                     l->online);
    if (l->cpus < l->online && isnan(l->quota))
        gw_diag_seen(d, f, l->cpus, "1", "affinity", _("the job may run on %.3g of the machine's %.0f CPUs"), l->cpus,
                     l->online);
    if (out)
        gw_diag_seen(d, f, l->throttled, "share", "cgroup",
                     _("its quota ran out in %.0f %% of the periods: all its threads stood still until the next one"),
                     100 * l->throttled);
    gw_diag_seen(d, f, wait, "1", "scheduler", _("its threads used %.3g CPUs and waited for another %.3g"), l->used,
                 wait);
    if (crowded)
        gw_diag_seen(d, f, l->others, "1", "/proc/stat",
                     _("processes outside this job use %.3g of the machine's %.0f CPUs"), l->others, l->online);
}

/* `want`: CPUs that the job would use if it had them. */
static void fix_starved(struct gw_diag *d, struct gw_draft *f, const struct gw_live *l, double want, int out, int crowded)
{
    if (crowded && !out)
        gw_diag_fix(f,
                    _("run it where CPUs are free, or reserve some: `--exclusive` or `--cpus-per-task` (Slurm), a "
                      "cpuset, `nice` for the others"),
                    _("gpuwhy check: load"), "");
    else if (out || !isnan(l->quota))
        gw_diag_fix(f,
                    gw_arena_printf(d->arena,
                                    _("raise the limit, not the workers: at least %.0f CPUs (Kubernetes: limits.cpu; "
                                      "Docker: --cpus; Slurm: --cpus-per-task)"),
                                    ceil(want)),
                    _("gpuwhy check: throttled periods"), "");
    else
        gw_diag_fix(f,
                    gw_arena_printf(d->arena,
                                    _("let the job use at least %.0f CPUs: Slurm `--cpus-per-task=%.0f`, taskset, or "
                                      "`os.sched_setaffinity(0, range(os.cpu_count()))` where a library narrowed it"),
                                    ceil(want), ceil(want)),
                    _("gpuwhy check: CPUs allowed"), "");
}

int gw_live_cpu_starved(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    if (!l || l->role[GW_LIVE_LAUNCHER].time <= 0 || isnan(l->cpus) || isnan(l->online) || isnan(l->used))
        return GW_NO_DATA;
    double wait = 0,
           ready = 0; /* CPUs waited for; threads seen running or ready, as CPUs: a stopped group waits uncounted */
    for (int r = 0; r < GW_LIVE_ROLES; r++) {
        wait += l->role[r].wait;
        ready += l->role[r].state[GW_TS_RUNNING] * l->role[r].time / (double)(l->to - l->from);
    }
    double ratio = wait / l->used, cost = gw_live_cpu_cost(d, l);
    int out = l->throttled >= GW_LIM_THROTTLED,
        few = l->cpus <= 0.75 * l->online && ratio >= 0.25 && l->used >= 0.75 * l->cpus;
    double idle = gw_live_rate(l, d->an, "host.cpu_idle_s", -1, -1);
    /* the CPUs are there, but others sit on them */
    int crowded = !few && ratio >= GW_LIM_RUN_QUEUE && l->used < 0.75 * l->cpus && l->others > 0.25 * l->online &&
                  idle < GW_LIM_SPARE_CPUS * l->online;
    if ((!out && !few && !crowded) || cost < GW_LIM_COPY)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_CPU_STARVED,
                                     d->dev ? d->dev->cause_ns[GW_CAUSE_DATA_WAIT] + d->dev->cause_ns[GW_CAUSE_OFF_CPU]
                                            : (int64_t)(cost * (double)d->wall));
    double want = fmin(fmax(l->used + wait, out ? ready : 0), l->online), more = fmax(want / fmax(l->used, 0.1), 1);
    gw_live_supply(d, f, supply_with(l, 1 + (more - 1) * 0.5), supply_with(l, more), supply_with(l, fmax(more, l->online / l->cpus)));
    f->f.confidence = GW_CONF_HIGH;
    seen_starved(d, f, l, wait, out, crowded);
    fix_starved(d, f, l, want, out, crowded);
    if (l->starved >= GW_LIM_DATA_WAIT)
        gw_live_refines_loader(d);
    return GW_FIRED;
}

/* --- others on the GPU
 * ------------------------------------------------------------------------------------------------------------ */

/* Processes that NVML lists on the GPU beside the job's. In a container NVML's numbers are the host's: when it lists
 * none of ours, as many as we have are taken for ours. -1 unknown. */
static int others_on_gpu(const struct gw_diag *d, const struct gw_live *l)
{
    const struct gw_lane *lane = d->an->t->lanes.data;
    uint32_t id = gw_intern_find(d->an->t->names, "nvml.process_bytes", strlen("nvml.process_bytes"));
    int listed = 0, ours = 0, cuda = 0;
    for (size_t i = 0; id && i < d->an->t->lanes.len; i++) {
        if (lane[i].type != GW_LANE_COUNTER || lane[i].device != l->device || lane[i].pid < 0)
            continue;
        int has = 0;
        for (size_t k = 0; k < lane[i].count && !has; k++)
            has = gw_ev(d->an, lane[i].order[k])->name == id;
        listed += has;
        ours += has && gw_host_process(l->h, lane[i].pid) != NULL;
    }
    for (size_t i = 0; i < l->h->process_count; i++)
        cuda += l->h->process[i].uses_cuda && l->h->process[i].role == GW_HR_TRAINER;
    if (!listed)
        return -1;
    return ours ? listed - ours : listed > cuda ? listed - cuda : 0;
}

int gw_live_gpu_shared(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    int n = l && d->dev ? others_on_gpu(d, l) : -1;
    double util = l && d->dev ? gw_live_mean(l, d->an, "nvml.utilization_percent", l->device, -1) / 100 : NAN;
    if (l && d->dev && l->busy_is_counted) /* NVML calls a whole period busy for one kernel */
        util = l->gpu_busy;
    if (n < 0 || isnan(util))
        return GW_NO_DATA;
    double theirs = util - d->busy; /* the driver sees all work, our records only this job's */
    if (!n || theirs < GW_LIM_OTHERS)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(d, GW_F_SHARED, -1);
    gw_diag_gain_set(f, 1, 1 + theirs * 0.5, 1 / (1 - fmin(theirs, 0.9)));
    f->f.confidence = GW_CONF_MEDIUM;
    gw_diag_seen(d, f, n, "count", "NVML", _("%d other processes hold memory on this GPU"), n);
    gw_diag_seen(d, f, theirs, "share", "NVML",
                 _("the driver sees the GPU busy %.0f %% of the time, this job's own work fills %.0f %%"), 100 * util,
                 100 * d->busy);
    gw_diag_fix(f, _("move one of the jobs, or share on purpose: MIG slices, or MPS so that both run at once"),
                _("gpuwhy check: processes on the GPU"), "");
    return GW_FIRED;
}
