#include "engine/report_copy.h"

#include <string.h>

struct gw_copy {
    struct gw_arena *arena;
    int oom;
};

static const char *text(struct gw_copy *c, const char *s)
{
    if (!s)
        return NULL;
    const char *p = gw_arena_strdup(c->arena, s);
    c->oom |= !p;
    return p ? p : "";
}

static void *list(struct gw_copy *c, const void *data, size_t n, size_t size)
{
    void *p = gw_arena_calloc(c->arena, n, size);
    if (p && n && data)
        memcpy(p, data, n * size);
    c->oom |= !p;
    return p;
}

/* A copied list, or an empty one when memory is gone: loops over it are then empty. */
#define LIST(c, field, count) list((c), (field), (c)->oom ? ((count) = 0) : (count), sizeof *(field))

static void devices(struct gw_copy *c, struct gw_report *r)
{
    struct gw_report_device *d = LIST(c, r->devices, r->device_count);
    for (size_t i = 0; d && i < r->device_count; i++) {
        d[i].name = text(c, d[i].name);
        d[i].idle_by_cause = LIST(c, d[i].idle_by_cause, d[i].cause_count);
        d[i].whole_by_cause = LIST(c, d[i].whole_by_cause, d[i].whole_cause_count);
    }
    r->devices = d;
}

static const struct gw_evidence *evidence(struct gw_copy *c, const struct gw_evidence *from, size_t *n)
{
    struct gw_evidence *e = LIST(c, from, *n);
    for (size_t i = 0; e && i < *n; i++) {
        e[i].text = text(c, e[i].text);
        e[i].unit = text(c, e[i].unit);
        e[i].source = text(c, e[i].source);
    }
    return e;
}

static void findings(struct gw_copy *c, struct gw_report *r)
{
    struct gw_finding *f = LIST(c, r->findings, r->finding_count);
    for (size_t i = 0; f && i < r->finding_count; i++) {
        f[i].id = text(c, f[i].id);
        f[i].layer = text(c, f[i].layer);
        f[i].phrase = text(c, f[i].phrase);
        f[i].evidence = evidence(c, f[i].evidence, &f[i].evidence_count);
        f[i].against = evidence(c, f[i].against, &f[i].against_count);
        struct gw_where *w = LIST(c, f[i].where, f[i].where_count);
        for (size_t k = 0; w && k < f[i].where_count; k++) {
            w[k].file = text(c, w[k].file);
            w[k].text = text(c, w[k].text);
        }
        f[i].where = w;
        struct gw_fix *x = LIST(c, f[i].fix, f[i].fix_count);
        for (size_t k = 0; x && k < f[i].fix_count; k++) {
            x[k].doit = text(c, x[k].doit);
            x[k].check = text(c, x[k].check);
            x[k].cost = text(c, x[k].cost);
        }
        f[i].fix = x;
    }
    r->findings = f;
}

static const struct gw_report_kernel *kernels(struct gw_copy *c, const struct gw_report_kernel *from, size_t *n)
{
    struct gw_report_kernel *k = LIST(c, from, *n);
    for (size_t i = 0; k && i < *n; i++) {
        k[i].name = text(c, k[i].name);
        k[i].kclass = text(c, k[i].kclass);
    }
    return k;
}

static const struct gw_report_counters *counters(struct gw_copy *c, const struct gw_report_counters *from)
{
    struct gw_report_counters *k = from ? list(c, from, 1, sizeof *k) : NULL;
    if (!k)
        return NULL;
    struct gw_report_counter *row = LIST(c, k->rows, k->count);
    for (size_t i = 0; row && i < k->count; i++) {
        row[i].name = text(c, row[i].name);
        row[i].kclass = text(c, row[i].kclass);
        row[i].limit = text(c, row[i].limit);
        row[i].match = text(c, row[i].match);
    }
    k->rows = row;
    return k;
}

static void ranks(struct gw_copy *c, struct gw_report *r)
{
    struct gw_report_rank *k = LIST(c, r->per_rank, r->rank_count);
    for (size_t i = 0; k && i < r->rank_count; i++) {
        k[i].path = text(c, k[i].path);
        k[i].name = text(c, k[i].name);
        k[i].cause = text(c, k[i].cause);
    }
    r->per_rank = k;
    struct gw_report_collective *q = LIST(c, r->collectives, r->collective_count);
    for (size_t i = 0; q && i < r->collective_count; i++)
        q[i].kind = text(c, q[i].kind);
    r->collectives = q;
}

static void trust(struct gw_copy *c, struct gw_report *r)
{
    struct gw_report_loss *l = LIST(c, r->trust.losses, r->trust.loss_count);
    for (size_t i = 0; l && i < r->trust.loss_count; i++) {
        l[i].id = text(c, l[i].id);
        l[i].text = text(c, l[i].text);
    }
    r->trust.losses = l;
    const char **notes = LIST(c, r->trust.notes, r->trust.note_count);
    for (size_t i = 0; notes && i < r->trust.note_count; i++)
        notes[i] = text(c, notes[i]);
    r->trust.notes = notes;
}

struct gw_report *gw_report_copy(const struct gw_report *from, struct gw_arena *arena)
{
    struct gw_copy c = {.arena = arena};
    struct gw_report *r = gw_arena_alloc(arena, sizeof *r);
    if (!r)
        return NULL;
    *r = *from;
    r->arena = arena;
    struct gw_report_source *s = LIST(&c, r->sources, r->source_count);
    for (size_t i = 0; s && i < r->source_count; i++) {
        s[i].path = text(&c, s[i].path);
        s[i].format = text(&c, s[i].format);
    }
    r->sources = s;
    r->framework = text(&c, r->framework);
    r->profiler = text(&c, r->profiler);
    r->steps.found_by = text(&c, r->steps.found_by);
    r->steps.marker = text(&c, r->steps.marker);
    r->step_times = LIST(&c, r->step_times, r->step_time_count);
    r->windows = LIST(&c, r->windows, r->window_count);
    r->verdict.finding = text(&c, r->verdict.finding);
    r->verdict.layer = text(&c, r->verdict.layer);
    r->verdict.sentence = text(&c, r->verdict.sentence);
    struct gw_not_evaluated *n = LIST(&c, r->not_evaluated, r->not_evaluated_count);
    for (size_t i = 0; n && i < r->not_evaluated_count; i++) {
        n[i].id = text(&c, n[i].id);
        n[i].needs = text(&c, n[i].needs);
    }
    r->not_evaluated = n;
    devices(&c, r);
    findings(&c, r);
    r->kernels = kernels(&c, r->kernels, &r->kernel_count);
    r->kernel_classes = kernels(&c, r->kernel_classes, &r->kernel_class_count);
    r->counters = counters(&c, r->counters);
    struct gw_report_activity *a = LIST(&c, r->activity, r->activity_count);
    for (size_t i = 0; a && i < r->activity_count; i++) {
        a[i].state = text(&c, a[i].state);
        a[i].why = text(&c, a[i].why);
        a[i].shape = text(&c, a[i].shape);
    }
    r->activity = a;
    ranks(&c, r);
    trust(&c, r);
    return c.oom ? NULL : r;
}
