/* live_counters.c - counters of the recording, by name. See live.h. */
#include <math.h>
#include <string.h>

#include "layers/live.h"

static const struct gw_lane *counter_lane(const struct gw_analysis *an, int64_t device, int64_t pid)
{
    const struct gw_lane *lane = an->t->lanes.data;
    for (size_t i = 0; i < an->t->lanes.len; i++)
        if (lane[i].type == GW_LANE_COUNTER && lane[i].device == device && lane[i].pid == pid)
            return lane + i;
    return NULL;
}

struct sum {
    double total, max, first, last;
    int64_t t0, t1;
    size_t n;
};

static struct sum sum_of(const struct gw_live *l, const struct gw_analysis *an, const char *name, int64_t device,
                         int64_t pid)
{
    struct sum s = {.max = -INFINITY};
    const struct gw_lane *lane = counter_lane(an, device, pid);
    uint32_t id = gw_intern_find(an->t->names, name, strlen(name));
    for (size_t i = 0; lane && id && i < lane->count; i++) {
        const struct gw_event *e = gw_ev(an, lane->order[i]);
        if (e->kind != GW_KIND_COUNTER || e->name != id || e->start < l->from || e->start >= l->to)
            continue;
        double v = gw_counter_value(e);
        if (!s.n++) {
            s.first = v;
            s.t0 = e->start;
        }
        s.last = v;
        s.t1 = e->start;
        s.total += v;
        s.max = v > s.max ? v : s.max;
    }
    return s;
}

double gw_live_mean(const struct gw_live *l, const struct gw_analysis *an, const char *name, int64_t device,
                    int64_t pid)
{
    struct sum s = sum_of(l, an, name, device, pid);
    return s.n ? s.total / (double)s.n : NAN;
}

double gw_live_max(const struct gw_live *l, const struct gw_analysis *an, const char *name, int64_t device, int64_t pid)
{
    struct sum s = sum_of(l, an, name, device, pid);
    return s.n ? s.max : NAN;
}

double gw_live_last(const struct gw_live *l, const struct gw_analysis *an, const char *name, int64_t device,
                    int64_t pid)
{
    struct sum s = sum_of(l, an, name, device, pid);
    return s.n ? s.last : NAN;
}

double gw_live_rate(const struct gw_live *l, const struct gw_analysis *an, const char *name, int64_t device,
                    int64_t pid)
{
    struct sum s = sum_of(l, an, name, device, pid);
    return s.n > 1 && s.t1 > s.t0 && s.last >= s.first ? (s.last - s.first) / ((double)(s.t1 - s.t0) * 1e-9) : NAN;
}

double gw_live_calls_rate(const struct gw_diag *d, const struct gw_live *l, const char *name)
{
    double v = gw_live_rate(l, d->an, name, -1, l->pid);
    return isnan(v) ? 0 : v;
}

int64_t gw_live_reached(const struct gw_analysis *an, const char *name, int64_t device, int64_t pid, double value)
{
    const struct gw_lane *lane = counter_lane(an, device, pid);
    uint32_t id = gw_intern_find(an->t->names, name, strlen(name));
    for (size_t i = 0; lane && id && i < lane->count; i++) {
        const struct gw_event *e = gw_ev(an, lane->order[i]);
        if (e->kind == GW_KIND_COUNTER && e->name == id && gw_counter_value(e) >= value)
            return e->start;
    }
    return INT64_MAX;
}

size_t gw_live_gpu_samples(const struct gw_live *l, const struct gw_analysis *an, struct gw_arena *arena,
                           struct gw_live_gpu **out)
{
    static const char *const names[] = {"nvml.utilization_percent", "nvml.sm_clock_mhz",
                                        "nvml.memory_clock_mhz",    "nvml.power_w",
                                        "nvml.temperature_c",       "nvml.clock_reasons"};
    const struct gw_lane *lane = counter_lane(an, l->device, -1);
    uint32_t id[6];
    size_t n = 0;
    for (size_t k = 0; k < 6; k++)
        id[k] = gw_intern_find(an->t->names, names[k], strlen(names[k]));
    *out = lane ? gw_arena_calloc(arena, lane->count, sizeof **out) : NULL;
    for (size_t i = 0; *out && i < lane->count; i++) {
        const struct gw_event *e = gw_ev(an, lane->order[i]);
        for (size_t k = 0; k < 6; k++) {
            if (e->kind != GW_KIND_COUNTER || !id[k] || e->name != id[k])
                continue;
            if (!n || (*out)[n - 1].at != e->start) /* what was read in one look has one stamp */
                (*out)[n++] = (struct gw_live_gpu){e->start, NAN, NAN, NAN, NAN, NAN, NAN};
            struct gw_live_gpu *g = *out + n - 1;
            double *to[] = {&g->util, &g->sm_clock, &g->mem_clock, &g->power, &g->temperature, &g->reasons};
            *to[k] = gw_counter_value(e);
        }
    }
    return n;
}
