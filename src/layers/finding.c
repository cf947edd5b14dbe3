#include "layers/finding.h"

#include "engine/samples.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- drafts ---- */

static const struct gw_finding_info catalogue[] = {
#define GW_LAYER_ID_DATA_SUPPLY "data_supply"
#define GW_LAYER_ID_CPU_PREPROCESS "cpu_preprocess"
#define GW_LAYER_ID_MEMORY_BATCH "memory_batch"
#define GW_LAYER_ID_COMMUNICATION "communication"
#define GW_LAYER_ID_KERNEL_EFFICIENCY "kernel_efficiency"
#define GW_LAYER_ID_ENVIRONMENT "environment"
#define GW_LAYER_ID_OUTSIDE "outside"
#define GW_FINDING(sym, id, layer, signals, eval, title, phrase, needs) \
    {id, GW_LAYER_ID_##layer, phrase, needs, signals, title},
#include "layers/findings.def"
};

const struct gw_finding_info *gw_finding_info(size_t i)
{
    return i < sizeof catalogue / sizeof *catalogue ? catalogue + i : NULL;
}

const struct gw_finding_info *gw_finding_info_find(const char *id)
{
    for (size_t i = 0; i < sizeof catalogue / sizeof *catalogue; i++)
        if (!strcmp(catalogue[i].id, id))
            return catalogue + i;
    return NULL;
}

struct gw_draft *gw_diag_add(struct gw_diag *d, enum gw_finding_id id, int64_t lost_ns)
{
    struct gw_draft *f = d->drafts < GW_F_COUNT ? gw_arena_alloc(d->arena, sizeof *f) : NULL;
    if (!f) {
        d->oom = 1; /* the report then fails as a whole */
        f = &d->spare;
    } else {
        d->draft[d->drafts++] = f;
    }
    f->id = id;
    f->f = (struct gw_finding){.id = catalogue[id].id, .layer = catalogue[id].layer, .phrase = _(catalogue[id].phrase),
                               .lost_ns = lost_ns, .confidence = GW_CONF_MEDIUM, .now_step_ns = -1, .then_low_ns = -1,
                               .then_high_ns = -1, .share_of_idle = NAN, .share_of_wall = 0,
                               .gain = {1, 1, 1}};
    if (lost_ns >= 0 && d->wall > 0) {
        f->f.share_of_wall = (double)lost_ns / (double)d->wall;
        if (d->dev && d->dev->steady.idle > 0 && lost_ns <= d->dev->steady.idle)
            f->f.share_of_idle = (double)lost_ns / (double)d->dev->steady.idle;
    }
    gw_array_init(&f->evidence, sizeof(struct gw_evidence), 64);
    gw_array_init(&f->against, sizeof(struct gw_evidence), 64);
    gw_array_init(&f->where, sizeof(struct gw_where), 64);
    gw_array_init(&f->fix, sizeof(struct gw_fix), 16);
    return f;
}

static void note(struct gw_diag *d, struct gw_array *list, double value, const char *unit, const char *source,
                 const char *fmt, va_list ap) GW_PRINTF(6, 0);
static void note(struct gw_diag *d, struct gw_array *list, double value, const char *unit, const char *source,
                 const char *fmt, va_list ap)
{
    struct gw_evidence *e = gw_array_push(list);
    if (e)
        *e = (struct gw_evidence){.text = gw_arena_vprintf(d->arena, fmt, ap), .value = value, .unit = unit,
                                  .source = source};
}

void gw_diag_seen(struct gw_diag *d, struct gw_draft *f, double value, const char *unit, const char *source,
                  const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    note(d, &f->evidence, value, unit, source, fmt, ap);
    va_end(ap);
}

void gw_diag_against(struct gw_diag *d, struct gw_draft *f, double value, const char *unit, const char *source,
                     const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    note(d, &f->against, value, unit, source, fmt, ap);
    va_end(ap);
}

void gw_diag_where(struct gw_draft *f, const char *file, int64_t line, const char *text, double share, int64_t count)
{
    struct gw_where *w = gw_array_push(&f->where);
    if (w)
        *w = (struct gw_where){.file = file, .line = line, .text = text, .share = share, .count = count};
}

void gw_diag_fix(struct gw_draft *f, const char *doit, const char *check, const char *cost)
{
    struct gw_fix *x = gw_array_push(&f->fix);
    if (x)
        *x = (struct gw_fix){.doit = doit, .check = check, .cost = cost};
}

/* ---- gains ---- */

double gw_diag_time(const struct gw_diag *d, const struct gw_whatif *w, double s)
{
    if (!d->dev || !d->dev->replay)
        return (double)d->wall;
    struct gw_whatif x = *w;
    x.host_scale *= s;
    x.remove |= 1u << GW_CAUSE_PROFILER; /* not there in a normal run */
    int64_t ns = gw_replay_run(d->dev->replay, &x);
    return ns > 0 ? (double)ns : (double)d->wall;
}

void gw_diag_gain_set(struct gw_draft *f, double low, double likely, double high)
{
    if (!(low >= 1))
        low = 1;
    /* a step that would shrink to a thousandth says that the recording's clocks jumped, not that a fix is that good */
    low = fmin(low, 1000);
    high = fmin(high, 1000);
    if (!(high >= low))
        high = low;
    likely = likely < low ? low : likely > high ? high : likely;
    f->f.gain = (struct gw_gain){low, likely, high};
}

float *gw_diag_scales(struct gw_diag *d, int which)
{
    size_t n = d->dev && d->dev->replay ? gw_replay_ops(d->dev->replay) : 0;
    if (n && !d->scales[which])
        d->scales[which] = gw_arena_calloc(d->arena, n, sizeof *d->scales[which]);
    for (size_t i = 0; d->scales[which] && i < n; i++)
        d->scales[which][i] = 1.0f;
    return d->scales[which];
}

void gw_diag_gain_cap(struct gw_draft *f, double most)
{
    most = fmax(most, 1);
    struct gw_gain *g = &f->f.gain;
    if (g->high > most && f->f.now_step_ns > 0)
        f->f.then_low_ns = (int64_t)((double)f->f.now_step_ns / most);
    if (g->low > most && f->f.now_step_ns > 0)
        f->f.then_high_ns = f->f.then_low_ns;
    g->high = fmin(g->high, most);
    g->likely = fmin(g->likely, most);
    g->low = fmin(g->low, most);
}

static double min3(double a, double b, double c) { return fmin(a, fmin(b, c)); }
static double max3(double a, double b, double c) { return fmax(a, fmax(b, c)); }

void gw_diag_gain(struct gw_diag *d, struct gw_draft *f, const struct gw_whatif *low, const struct gw_whatif *likely,
                  const struct gw_whatif *high)
{
    if (!d->dev || !d->dev->replay) {
        double left = (double)(d->wall - (f->f.lost_ns > 0 ? f->f.lost_ns : 0));
        double all = left > 0 ? (double)d->wall / left : 1;
        gw_diag_gain_set(f, 1 + (all - 1) * 0.5, 1 + (all - 1) * 0.9, all);
        return;
    }
    const struct gw_whatif none = GW_WHATIF_NONE;
    double s[3] = {1, d->scale_likely, d->scale_low}, g[3][3];
    const struct gw_whatif *w[3] = {low, likely, high};
    for (int i = 0; i < 3; i++) {
        double base = gw_diag_time(d, &none, s[i]);
        for (int k = 0; k < 3; k++)
            g[i][k] = base / gw_diag_time(d, w[k], s[i]);
    }
    double err = fmin(gw_replay_error(d->dev->replay), 0.5);
    /* even a perfect replay says nothing about clocks, caches and noise: paired runs on one machine repeat to 5 % */
    if (err < 0.05)
        err = 0.05;
    double lo = min3(g[0][0], g[1][0], g[2][0]), hi = max3(g[0][2], g[1][2], g[2][2]);
    gw_diag_gain_set(f, 1 + (lo - 1) * (1 - err) - err * 0.2, g[1][1], hi * (1 + err));
    if (!d->an->steps.count)
        return;
    double step = gw_diag_time(d, &none, d->scale_likely) / d->steps;
    double fit = (double)d->wall / gw_diag_time(d, &none, 1);
    f->f.now_step_ns = (int64_t)(step * fit);
    f->f.then_low_ns = (int64_t)(step * fit / f->f.gain.high);
    f->f.then_high_ns = (int64_t)(step * fit / f->f.gain.low);
}

double gw_diag_share(const struct gw_diag *d, enum gw_cause cause)
{
    return d->dev && d->wall > 0 ? (double)d->dev->cause_ns[cause] / (double)d->wall : 0;
}

double gw_diag_per_step(const struct gw_diag *d, double total) { return total / d->steps; }

/* ---- texts ---- */

const char *gw_diag_time_text(struct gw_diag *d, double ns)
{
    static const struct {
        double div;
        const char *unit;
    } u[] = {{1, "ns"}, {1e3, "us"}, {1e6, "ms"}, {1e9, "s"}};
    int i = ns < 1e3 ? 0 : ns < 1e6 ? 1 : ns < 1e9 ? 2 : 3;
    double v = ns / u[i].div;
    const char *unit = i == 1 ? "µs" : u[i].unit;
    return v < 10 && i ? gw_arena_printf(d->arena, "%.1f %s", v, unit) : gw_arena_printf(d->arena, "%.0f %s", v, unit);
}

const char *gw_diag_bytes_text(struct gw_diag *d, double b)
{
    return b < 1e3   ? gw_arena_printf(d->arena, "%.0f B", b)
           : b < 1e6 ? gw_arena_printf(d->arena, "%.0f kB", b / 1e3)
           : b < 1e9 ? gw_arena_printf(d->arena, "%.0f MB", b / 1e6)
                     : gw_arena_printf(d->arena, "%.1f GB", b / 1e9);
}

/* ---- places ---- */

struct gw_place {
    uint32_t frame, inner, outer; /* names: Python frame, nearest operator or call, outermost range */
    int64_t ns, count;
};

#define GW_PLACES_MAX 4096

struct gw_places {
    struct gw_diag *d;
    struct gw_array list; /* struct gw_place */
    uint16_t slots[2 * GW_PLACES_MAX]; /* index + 1 in the list, by hash */
    int64_t ns, count;
    int file;
};

struct gw_places *gw_places_new(struct gw_diag *d)
{
    struct gw_places *p = gw_arena_alloc(d->arena, sizeof *p);
    if (p) {
        p->d = d;
        gw_array_init(&p->list, sizeof(struct gw_place), GW_PLACES_MAX);
    }
    return p;
}

void gw_places_add(struct gw_places *p, uint32_t host_event, int64_t weight_ns)
{
    if (!p)
        return;
    const struct gw_analysis *an = p->d->an;
    struct gw_place k = {0};
    for (uint32_t u = host_event; u != GW_NONE; u = gw_ev(an, u)->up) {
        const struct gw_event *e = gw_ev(an, u);
        const struct gw_name_info *in = an->names + e->name;
        if (e->kind == GW_KIND_SAMPLE) {
            const struct gw_stack_info *st = gw_samples_stack(an, e);
            k.frame = st ? st->user : 0;
            k.inner = st ? st->inner : 0;
            break;
        }
        if (e->kind == GW_KIND_PYFUNC) {
            if (in->user_frame && !k.frame)
                k.frame = e->name;
            else if (!k.inner)
                k.inner = e->name;
        } else if (!(in->ctx & GW_CTX_STEP)) {
            const char *s = gw_trace_text(an->t, e->name);
            if (e->kind == GW_KIND_OP && (!strcmp(s, "aten::_local_scalar_dense") || !strcmp(s, "aten::_to_copy")))
                continue;
            if (!k.inner || (gw_ev(an, host_event)->kind == GW_KIND_API && k.inner == gw_ev(an, host_event)->name))
                k.inner = e->name;
            else
                k.outer = e->name;
        }
    }
    p->ns += weight_ns;
    p->count++;
    p->file |= k.frame != 0;
    struct gw_place *l = p->list.data;
    const uint32_t key[3] = {k.frame, k.inner, k.outer};
    size_t s = (size_t)gw_hash_bytes(key, sizeof key) % (2 * GW_PLACES_MAX);
    for (; p->slots[s]; s = (s + 1) % (2 * GW_PLACES_MAX)) {
        struct gw_place *at = l + p->slots[s] - 1;
        if (at->frame == k.frame && at->inner == k.inner && at->outer == k.outer) {
            at->ns += weight_ns;
            at->count++;
            return;
        }
    }
    l = gw_array_push(&p->list);
    if (l) {
        *l = k;
        l->ns = weight_ns;
        l->count = 1;
        p->slots[s] = (uint16_t)p->list.len;
    }
}

static int by_ns(const void *a, const void *b)
{
    const struct gw_place *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    return (x->count < y->count) - (x->count > y->count);
}

void gw_places_drop(struct gw_places *p)
{
    if (p)
        gw_array_free(&p->list);
}

int gw_places_has_file(const struct gw_places *p) { return p && p->file; }

void gw_places_done(struct gw_places *p, struct gw_draft *f, size_t most)
{
    if (!p)
        return;
    const struct gw_trace *t = p->d->an->t;
    struct gw_place *l = p->list.data;
    if (p->list.len)
        qsort(l, p->list.len, sizeof *l, by_ns);
    for (size_t i = 0; i < p->list.len && i < most; i++) {
        const char *file = "", *func = NULL;
        int64_t line = 0;
        if (l[i].frame)
            gw_names_pyframe(gw_trace_text(t, l[i].frame), p->d->arena, &file, &line, &func);
        const char *in = l[i].inner ? gw_trace_text(t, l[i].inner) : func ? func : _("host code");
        const char *text = l[i].outer ? gw_arena_printf(p->d->arena, _("%s under %s"), in, gw_trace_text(t, l[i].outer)) : in;
        gw_diag_where(f, file, line, text, p->ns > 0 ? (double)l[i].ns / (double)p->ns
                                                     : (double)l[i].count / (double)(p->count ? p->count : 1),
                      l[i].count);
    }
    gw_array_free(&p->list);
}
