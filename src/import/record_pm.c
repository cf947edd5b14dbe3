/* record_pm.c - the GPUs' activity over the whole run, from the sampling process's file into gw_host_facts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "import/record_internal.h"

enum { MAX_GPUS = 64, LONG = 2 };
_Static_assert((int)GW_ACT_COUNT == (int)GW_PM_METRIC_COUNT && (int)GW_ACT_ENGINE == (int)GW_PM_GR && (int)GW_ACT_SM == (int)GW_PM_SM &&
                   (int)GW_ACT_DRAM == (int)GW_PM_DRAM && (int)GW_ACT_TENSOR == (int)GW_PM_TENSOR,
               "the order of pm_metrics.def");

struct gpu {
    struct gw_activity_builder b;
    struct gw_rec_pm last;
    int has_state, is_open;
    uint64_t samples;
};

struct pm_file {
    struct gw_record_import *im;
    struct gpu gpu[MAX_GPUS];
    size_t n;
    uint64_t odd; /* stretches that cannot be */
};

static struct gpu *gpu_at(struct pm_file *f, int32_t device)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->gpu[i].b.device == device)
            return &f->gpu[i];
    if (f->n == MAX_GPUS || device < 0)
        return NULL;
    struct gpu *g = &f->gpu[f->n++];
    gw_activity_begin(&g->b, device);
    g->is_open = 1;
    return g;
}

static void add_run(struct pm_file *f, const struct gw_rec_activity *a)
{
    struct gpu *g = gpu_at(f, a->device);
    int64_t base = f->im->base_ns;
    int is_odd = !g || a->end <= a->start || !gw_record_is_sane(f->im, a->start) || !gw_record_is_sane(f->im, a->end);
    float share[GW_ACT_COUNT];
    for (int k = 0; k < GW_ACT_COUNT; k++) {
        share[k] = a->share[k] == GW_PM_NO_SHARE ? NAN : (float)a->share[k] / 10000.0f;
        is_odd |= share[k] > 1; /* false for NAN */
    }
    if (is_odd) {
        f->odd++;
        return;
    }
    g->samples += a->samples;
    /* Samples that are longer than their interval span what the hardware lost, with the counts of a part of it. */
    if (g->last.interval_ns && a->end - a->start > (uint64_t)a->samples * g->last.interval_ns * LONG)
        return;
    if (gw_activity_add(&g->b, (int64_t)a->start - base, (int64_t)a->end - base, share) < 0)
        gw_trace_lose(f->im->t, GW_LOSS_MEMORY_CAP, 1, -1);
}

static void add_chunk(struct pm_file *f, const struct gw_chunk *c)
{
    for (uint32_t i = 0; c->type == GW_RT_ACTIVITY && i < c->count; i++) {
        struct gw_rec_activity a;
        gw_chunk_get(c, i, &a, sizeof a);
        add_run(f, &a);
    }
    for (uint32_t i = 0; c->type == GW_RT_PM && i < c->count; i++) {
        struct gw_rec_pm p;
        gw_chunk_get(c, i, &p, sizeof p);
        struct gpu *g = gpu_at(f, p.device);
        if (g) {
            g->last = p;
            g->has_state = 1;
        } else if (p.device == -1 && p.state != GW_PS_STARTING && p.state != GW_PS_RUNNING && p.state != GW_PS_ENDED) {
            f->im->host->activity_missing = gw_pm_state_text(p.state);
        }
    }
}

static void finish(struct pm_file *f)
{
    struct gw_host_facts *h = f->im->host;
    struct gw_activity *out = gw_arena_calloc(f->im->t->arena, f->n, sizeof *out);
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++) {
        struct gpu *g = &f->gpu[i];
        const struct gw_rec_pm *p = &g->last;
        struct gw_activity one = {.interval_ns = g->has_state && p->interval_ns ? (int64_t)p->interval_ns : -1,
                                  .samples = g->samples,
                                  .overflows = p->overflows,
                                  .state = gw_pm_state_id(g->has_state ? p->state : GW_PS_RUNNING)};
        if (g->has_state && p->state != GW_PS_RUNNING && p->state != GW_PS_ENDED && p->state != GW_PS_STARTING)
            one.why = gw_pm_state_text(p->state);
        if (gw_activity_finish(&g->b, f->im->t->arena, &one) == 0 && out)
            out[n++] = one;
    }
    h->activity = out;
    h->activity_count = n;
    for (size_t i = 0; i < n; i++)
        if (out[i].count)
            h->activity_missing = NULL; /* whatever else went wrong, there is one */
    for (size_t i = 0; i < n && !h->activity_missing; i++)
        if (!out[i].count && out[i].why && n == 1)
            h->activity_missing = out[i].why;
}

void gw_record_read_pm(struct gw_record_import *im, const char *path)
{
    struct gw_reader r;
    struct gw_chunk c;
    if (access(path, F_OK) != 0)
        return;
    struct pm_file *f = calloc(1, sizeof *f);
    if (!f || gw_reader_open(&r, path, NULL) < 0) {
        gw_trace_lose(im->t, f ? GW_LOSS_DAMAGED : GW_LOSS_MEMORY_CAP, 1, 0);
        free(f);
        return;
    }
    f->im = im;
    while (gw_reader_next(&r, &c)) {
        add_chunk(f, &c);
        gw_record_progress(im, c.offset);
    }
    if (r.damaged || r.missing || f->odd)
        gw_trace_lose(im->t, GW_LOSS_DAMAGED, r.damaged + r.missing + f->odd, r.first_damage);
    im->bytes_done += (int64_t)r.size;
    gw_reader_close(&r);
    finish(f);
    free(f);
}

void gw_record_pm_fact(struct gw_record_import *im, const char *id)
{
    for (unsigned s = 0; s < GW_PS_COUNT; s++)
        if (strcmp(gw_pm_state_id(s), id) == 0)
            im->host->activity_missing = s == GW_PS_RUNNING || s == GW_PS_ENDED || s == GW_PS_STARTING ? NULL : gw_pm_state_text(s);
}
