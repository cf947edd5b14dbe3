/* Hardware counters by kernel, joined with the kernel time of the job: see kernel_counters.h. */
#include "layers/kernel_counters.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int is_percentage(enum gw_km k) { return !strcmp(gw_km_unit(k), "%"); }

double gw_counter_share(const struct gw_kernel_metrics *m, enum gw_km k)
{
    double v = gw_kernel_metric(m, k);
    return is_percentage(k) ? v / 100 : v;
}

/* ---- what holds a kernel back ---- */

/* The busiest arithmetic unit, and the busiest part of the memory system; NAN when none was measured. */
static double compute_of(const struct gw_kernel_metrics *m)
{
    double pipes = fmax(gw_counter_share(m, GW_KM_TENSOR), gw_counter_share(m, GW_KM_FP32));
    return fmax(gw_counter_share(m, GW_KM_SM), pipes); /* fmax() passes over NAN */
}

static double memory_of(const struct gw_kernel_metrics *m)
{
    return fmax(gw_counter_share(m, GW_KM_DRAM), gw_counter_share(m, GW_KM_MEMORY));
}

/* Waves of blocks a launch; from the grid where Nsight Compute did not say, as an upper bound of one block on each SM.
 */
static double waves_of(const struct gw_kernel_metrics *m, const struct gw_device *dev)
{
    double waves = gw_counter_share(m, GW_KM_WAVES), blocks = gw_counter_share(m, GW_KM_BLOCKS);
    if (!isnan(waves) || isnan(blocks) || !dev || dev->sm_count <= 0 || blocks >= dev->sm_count)
        return waves;
    return blocks / dev->sm_count;
}

static enum gw_counter_limit limit_of(const struct gw_kernel_metrics *m, const struct gw_device *dev)
{
    double dram = gw_counter_share(m, GW_KM_DRAM), compute = compute_of(m), memory = memory_of(m);
    if (dram >= GW_LIM_COUNTER_DRAM && !(compute > dram - GW_LIM_COUNTER_LEAD))
        return GW_LIMITED_BANDWIDTH;
    if (compute >= GW_LIM_COUNTER_LOW)
        return GW_LIMITED_COMPUTE;
    if (memory >= GW_LIM_COUNTER_LOW)
        return GW_LIMITED_MEMORY;
    if (isnan(compute) || isnan(memory))
        return GW_LIMITED_UNKNOWN;
    if (waves_of(m, dev) < 1)
        return GW_LIMITED_GRID;
    return gw_counter_share(m, GW_KM_OCCUPANCY) < GW_LIM_COUNTER_OCCUPANCY ? GW_LIMITED_OCCUPANCY : GW_LIMITED_LATENCY;
}

static const char *limit_id(enum gw_counter_limit l)
{
    static const char *const ids[] = {"unknown", "bandwidth", "compute", "memory", "grid", "occupancy", "latency"};
    return ids[l];
}

/* Matrix work that the tensor pipe has no part in. Where the fp32 pipe was not measured, the name has to say fp32: a
 * double precision product leaves both idle. */
static int tensor_idle(const struct gw_diag *d, uint32_t name, const struct gw_kernel_metrics *m)
{
    unsigned k = d->an->names[name].kclass;
    int fp32_name = k == GW_K_GEMM_FP32 || k == GW_K_CONV_FP32;
    double fp32 = gw_counter_share(m, GW_KM_FP32);
    if (!(gw_counter_share(m, GW_KM_TENSOR) < GW_LIM_TENSOR_USED) || !(fp32_name || k == GW_K_GEMM || k == GW_K_CONV))
        return 0;
    return isnan(fp32) ? fp32_name && gw_counter_share(m, GW_KM_SM) >= GW_LIM_COUNTER_LOW : fp32 >= GW_LIM_FP32_USED;
}

int gw_counter_is_bound(const struct gw_counter_row *row) { return row->limit == GW_LIMITED_BANDWIDTH; }
int gw_counter_is_idle(const struct gw_counter_row *row) { return row->tensor_idle; }
int gw_counter_is_partial(const struct gw_counter_row *row)
{
    return row->limit == GW_LIMITED_GRID || row->limit == GW_LIMITED_OCCUPANCY;
}

double gw_counter_filled(const struct gw_counter_row *row, int step)
{
    double used = fmax(compute_of(&row->m), memory_of(&row->m)), waves = gw_counter_share(&row->m, GW_KM_WAVES);
    /* a launch that fills the GPU w of one time can do 1/w times the work in the time, and no more */
    double least = waves < 1 ? waves : 0;
    double low = fmin(fmax(used / GW_LIM_COUNTER_LOW, least), 1),
           well = fmin(fmax(used / GW_LIM_COUNTER_WELL, least), 1);
    return fmax(step == 0 ? 1 : step == 1 ? (1 + low) / 2 : well, 0.02);
}

double gw_counter_roof(const struct gw_counter_row *row, double half)
{
    double dram = gw_counter_share(&row->m, GW_KM_DRAM);
    return isnan(dram) ? INFINITY : fmax(GW_LIM_COUNTER_ROOF / fmax(dram * half, 1e-3), 1);
}

/* ---- joining ---- */

static int by_ns(const void *a, const void *b)
{
    const struct gw_counter_row *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    return (x->name > y->name) - (x->name < y->name);
}

/* Kernel time by name: of the steady window, or, without a timeline, under the profiler. */
static size_t collect(const struct gw_diag *d, struct gw_counter_row *row, uint32_t *of, int alone)
{
    size_t n = 0;
    if (alone) {
        int timed = 0;
        for (size_t i = 0; i < gw_kernel_metrics_count(d->an->t); i++)
            timed |= gw_kernel_metrics_at(d->an->t, i)->duration_ns > 0;
        for (size_t i = 0; i < gw_kernel_metrics_count(d->an->t); i++) {
            const struct gw_kernel_metrics *m = gw_kernel_metrics_at(d->an->t, i);
            int64_t ns = timed ? (m->duration_ns > 0 ? m->duration_ns : 0)
                               : (int64_t)(m->launches < 1u << 30 ? m->launches : 1u << 30);
            row[n++] =
                (struct gw_counter_row){.name = m->name, .how = GW_KM_EXACT, .ns = ns, .count = m->launches, .m = *m};
        }
        return n;
    }
    for (size_t i = 0; i < d->dev->nops; i++) {
        const struct gw_event *e = gw_ev(d->an, d->dev->ops[i]);
        if (e->kind != GW_KIND_KERNEL || !gw_diag_in(d, e))
            continue;
        if (!of[e->name]) {
            row[n] = (struct gw_counter_row){.name = e->name};
            of[e->name] = (uint32_t)++n;
        }
        row[of[e->name] - 1].ns += e->end - e->start;
        row[of[e->name] - 1].count++;
    }
    return n;
}

/* Keeps the rows that have counters. */
static size_t match(const struct gw_diag *d, struct gw_counters *c, struct gw_counter_row *row, size_t n,
                    const struct gw_km_index *x)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        struct gw_counter_row r = row[i];
        if (x)
            r.how = gw_km_find(x, gw_trace_text(d->an->t, r.name), &r.m);
        if (r.how == GW_KM_NO_MATCH)
            continue;
        r.limit = limit_of(&r.m, d->dev ? d->dev->info : NULL);
        r.tensor_idle = tensor_idle(d, r.name, &r.m);
        c->ns += r.ns;
        c->judged_ns += r.limit == GW_LIMITED_UNKNOWN ? 0 : r.ns;
        c->loose_ns += r.how == GW_KM_BASE || r.how == GW_KM_FUNCTION ? r.ns : 0;
        row[kept++] = r;
    }
    return kept;
}

int gw_counters_join(struct gw_diag *d)
{
    size_t names = gw_intern_count(d->an->t->names), rows = gw_kernel_metrics_count(d->an->t);
    if (!rows)
        return GW_OK;
    struct gw_counters *c = gw_arena_alloc(d->arena, sizeof *c);
    uint32_t *of = gw_arena_calloc(d->arena, names + 1, sizeof *of);
    int alone = !d->dev;
    struct gw_km_index *x = alone ? NULL : gw_km_index(d->an->t, d->arena);
    struct gw_counter_row *row = gw_arena_calloc(d->arena, alone ? rows : names + 1, sizeof *row);
    if (!c || !of || !row || (!alone && !x))
        return GW_ENOMEM;
    c->alone = alone;
    size_t n = match(d, c, row, collect(d, row, of, alone), x);
    if (n)
        qsort(row, n, sizeof *row, by_ns);
    memset(of, 0, (names + 1) * sizeof *of);
    for (size_t i = 0; i < n; i++)
        of[row[i].name] = (uint32_t)i + 1;
    c->row = row;
    c->count = n;
    c->of = of;
    d->counters = c;
    return GW_OK;
}

/* ---- asking ---- */

const struct gw_counter_row *gw_counter_row(const struct gw_diag *d, uint32_t name)
{
    return d->counters && d->counters->of[name] ? d->counters->row + (d->counters->of[name] - 1) : NULL;
}

double gw_counter_mean(const struct gw_diag *d, enum gw_km k, int (*pick)(const struct gw_counter_row *))
{
    double sum = 0, weight = 0;
    for (size_t i = 0; d->counters && i < d->counters->count; i++) {
        const struct gw_counter_row *r = d->counters->row + i;
        double v = gw_counter_share(&r->m, k);
        if (isnan(v) || (pick && !pick(r)))
            continue;
        sum += v * (double)r->ns;
        weight += (double)r->ns;
    }
    return weight > 0 ? sum / weight : NAN;
}

int64_t gw_counter_time(const struct gw_diag *d, int (*pick)(const struct gw_counter_row *))
{
    int64_t ns = 0;
    for (size_t i = 0; d->counters && i < d->counters->count; i++)
        ns += pick(d->counters->row + i) ? d->counters->row[i].ns : 0;
    return ns;
}

double gw_counter_coverage(const struct gw_diag *d)
{
    int64_t all = d->counters && d->counters->alone ? d->counters->ns : d->kernel_ns;
    return d->counters && all > 0 ? (double)d->counters->judged_ns / (double)all : 0;
}

/* "gemm, DRAM 12 %, SM 91 %, ...": what was measured of a kernel. */
static const char *row_text(struct gw_diag *d, const struct gw_counter_row *r)
{
    const char *s = gw_names_short_kernel(gw_trace_text(d->an->t, r->name), d->arena);
    double v;
    if (!isnan(v = gw_kernel_metric(&r->m, GW_KM_DRAM)))
        s = gw_arena_printf(d->arena, _("%s, DRAM %.0f %%"), s, v);
    if (!isnan(v = gw_kernel_metric(&r->m, GW_KM_SM)))
        s = gw_arena_printf(d->arena, _("%s, SM %.0f %%"), s, v);
    if (!isnan(v = gw_kernel_metric(&r->m, GW_KM_TENSOR)))
        s = gw_arena_printf(d->arena, _("%s, tensor pipe %.0f %%"), s, v);
    if (!isnan(v = gw_kernel_metric(&r->m, GW_KM_OCCUPANCY)))
        s = gw_arena_printf(d->arena, _("%s, occupancy %.0f %%"), s, v);
    if (!isnan(v = gw_kernel_metric(&r->m, GW_KM_WAVES)))
        s = gw_arena_printf(d->arena, _("%s, %.2g waves"), s, v);
    return s;
}

void gw_counter_places(struct gw_diag *d, struct gw_draft *f, int (*pick)(const struct gw_counter_row *), size_t most)
{
    int64_t all = gw_counter_time(d, pick);
    for (size_t i = 0; i < d->counters->count && most; i++) {
        const struct gw_counter_row *r = d->counters->row + i;
        if (!pick(r))
            continue;
        gw_diag_where(f, "", 0, row_text(d, r), all > 0 ? (double)r->ns / (double)all : NAN, (int64_t)r->count);
        most--;
    }
}

void gw_counter_basis(struct gw_diag *d, struct gw_draft *f)
{
    double covered = gw_counter_coverage(d);
    if (d->counters->alone) {
        gw_diag_against(d, f, NAN, "1", "Nsight Compute",
                        _("weighted with durations under the profiler, which says nothing about the time between "
                          "kernels: give a trace of the same job too"));
        return;
    }
    if (covered < 0.95)
        gw_diag_against(d, f, covered, "share", "Nsight Compute",
                        _("counters are there for %.0f %% of the kernel time"), 100 * covered);
    if (d->counters->ns > 0 && (double)d->counters->loose_ns > 0.3 * (double)d->counters->ns)
        gw_diag_against(
            d, f, (double)d->counters->loose_ns / (double)d->counters->ns, "share", "Nsight Compute",
            _("for %.0f %% of that time kernels could be matched by name only without their template arguments"),
            100 * (double)d->counters->loose_ns / (double)d->counters->ns);
}

/* ---- in the report ---- */

static const char *match_id(enum gw_km_match how)
{
    static const char *const ids[] = {"none", "exact", "instance", "base", "function"};
    return ids[how];
}

void gw_counters_report(struct gw_diag *d, struct gw_report *r)
{
    const struct gw_counters *c = d->counters;
    struct gw_report_counters *out = c ? gw_arena_alloc(d->arena, sizeof *out) : NULL;
    size_t n = c && c->count > GW_REPORT_KERNELS ? GW_REPORT_KERNELS : c ? c->count : 0;
    struct gw_report_counter *rows = out ? gw_arena_calloc(d->arena, n, sizeof *rows) : NULL;
    if (!c)
        return;
    if (!out || !rows) {
        d->oom = 1;
        return;
    }
    out->names = (int64_t)gw_kernel_metrics_count(d->an->t);
    for (size_t i = 0; i < (size_t)out->names; i++)
        out->launches += (int64_t)gw_kernel_metrics_at(d->an->t, i)->launches;
    out->alone = c->alone;
    out->covered = c->alone || d->kernel_ns <= 0 ? NAN : (double)c->ns / (double)d->kernel_ns;
    for (unsigned k = 0; k < GW_KM_COUNT; k++)
        out->mean[k] = gw_counter_mean(d, (enum gw_km)k, NULL);
    for (size_t i = 0; i < n; i++) {
        const struct gw_counter_row *w = c->row + i;
        rows[i] = (struct gw_report_counter){.name = gw_names_short_kernel(gw_trace_text(d->an->t, w->name), d->arena),
                                             .kclass = gw_kclass_name(d->an->names[w->name].kclass),
                                             .limit = limit_id(w->limit),
                                             .match = match_id(w->how),
                                             .share = c->ns > 0 ? (double)w->ns / (double)c->ns : NAN};
        for (unsigned k = 0; k < GW_KM_COUNT; k++)
            rows[i].value[k] = gw_counter_share(&w->m, (enum gw_km)k);
    }
    out->rows = rows;
    out->count = n;
    r->counters = out;
}
