/* cpu_preprocess: the CPU cannot prepare batches fast enough. */
#include <math.h>
#include <string.h>

#include "layers/finding.h"

/* What surrounds a stretch of host code: the operators before and after it on the launching thread. */
static const char *between(struct gw_diag *d, int64_t start, int64_t end)
{
    if (d->dev->main_lane == GW_NONE)
        return _("host code");
    const struct gw_lane *lane = gw_trace_lane(d->an->t, d->dev->main_lane);
    size_t lo = gw_lane_at(d->an, lane, end);
    const char *after = NULL, *before = NULL;
    for (size_t i = lo; i < lane->count && i < lo + 64 && !after; i++) {
        const struct gw_event *e = gw_ev(d->an, lane->order[i]);
        if (e->kind == GW_KIND_OP || (e->kind == GW_KIND_ANNOT && !(d->an->names[e->name].ctx & GW_CTX_STEP)))
            after = gw_trace_text(d->an->t, e->name);
    }
    for (size_t i = lo, tries = 0; i-- > 0 && tries < 256 && !before; tries++) {
        const struct gw_event *e = gw_ev(d->an, lane->order[i]);
        if (e->end > start + 1000)
            continue;
        for (uint32_t u = lane->order[i]; u != GW_NONE; u = gw_ev(d->an, u)->up)
            if ((gw_ev(d->an, u)->kind == GW_KIND_OP || gw_ev(d->an, u)->kind == GW_KIND_ANNOT) &&
                gw_ev(d->an, u)->end <= start + 1000)
                before = gw_ev_name(d->an, u);
    }
    if (after && before)
        return gw_arena_printf(d->arena, _("host code after %s and before %s"), before, after);
    return after ? gw_arena_printf(d->arena, _("host code before %s"), after) : _("host code");
}

struct gw_user_code {
    int64_t ns, count, longest;
    uint32_t longest_run;
    int64_t prep; /* of it: in ranges whose name says that they prepare input */
};

static struct gw_user_code user_code(const struct gw_diag *d)
{
    struct gw_user_code u = {.longest_run = GW_NONE};
    for (size_t i = 0; i < d->dev->nruns; i++) {
        const struct gw_run *r = d->dev->runs + i;
        if (r->label != GW_CAUSE_USER_CODE || r->start < d->an->w0 || r->start >= d->an->w1)
            continue;
        int64_t ns = r->end - r->start;
        u.ns += ns;
        u.count++;
        if (r->leaf != GW_NONE && (d->an->ctx[r->leaf] & GW_CTX_PREP))
            u.prep += ns;
        if (ns > u.longest) {
            u.longest = ns;
            u.longest_run = (uint32_t)i;
        }
    }
    return u;
}

/* CPython hands its lock over every sys.getswitchinterval() = 5 ms when another thread wants it; on a kernel with a 4 ms
 * tick the waits come out as 4 ms. A launching thread that stalls for just that long, at ever other places, waits for the
 * lock. */
#define GW_SWITCH_MIN_NS 3500000
#define GW_SWITCH_MAX_NS 6000000

int gw_find_gil_stalls(struct gw_diag *d)
{
    int64_t stalls = 0, like = 0, lost = 0;
    uint32_t seen[16];
    size_t places = 0;
    if (!d->dev->nruns)
        return GW_NO_DATA;
    struct gw_places *p = gw_places_new(d);
    for (size_t i = 0; i < d->dev->nruns; i++) {
        const struct gw_run *r = d->dev->runs + i;
        int64_t ns = r->end - r->start;
        if ((r->label != GW_CAUSE_USER_CODE && r->label != GW_CAUSE_SLOW_OP) || ns < 1000000 || r->start < d->an->w0 ||
            r->start >= d->an->w1)
            continue;
        stalls++;
        if (ns < GW_SWITCH_MIN_NS || ns > GW_SWITCH_MAX_NS)
            continue;
        like++;
        lost += ns;
        uint32_t name = r->leaf == GW_NONE ? 0 : gw_ev(d->an, r->leaf)->name;
        size_t k = 0;
        while (k < places && seen[k] != name)
            k++;
        if (k == places && places < 16)
            seen[places++] = name;
        if (r->leaf != GW_NONE)
            gw_places_add(p, r->leaf, ns);
    }
    if ((double)like < GW_LIM_GIL_STALLS || like * 10 < stalls * 7 || places < 4 || (double)lost < GW_LIM_COPY * (double)d->wall) {
        gw_places_drop(p);
        return d->an->t->facts.with_stack == 1 ? GW_SILENT : GW_NO_DATA;
    }
    struct gw_draft *f = gw_diag_add(d, GW_F_GIL, lost);
    struct gw_whatif low = GW_WHATIF_NONE, gone = GW_WHATIF_NONE;
    low.label_scale[GW_CAUSE_USER_CODE] = low.label_scale[GW_CAUSE_SLOW_OP] = 0.5;
    gone.remove = 1u << GW_CAUSE_USER_CODE | 1u << GW_CAUSE_SLOW_OP;
    gw_diag_gain(d, f, &low, &gone, &gone);
    f->f.confidence = GW_CONF_MEDIUM;
    gw_diag_seen(d, f, (double)like / d->steps, "count", "timeline", _("%.3g times a step the launching thread stops for %s, Python's switch interval, at ever other places"),
                 (double)like / d->steps, gw_diag_time_text(d, (double)lost / (double)like));
    gw_diag_against(d, f, NAN, "1", "", _("which thread holds the lock does not show in a trace: gpuwhy run does"));
    gw_places_done(p, f, 3);
    gw_diag_fix(f, _("move the other thread's Python work (logging, metrics, decoding) into a process: `multiprocessing.Process`, or code that releases the lock"),
                _("gpuwhy diff before.json after.json"), _("data has to be sent to the process"));
    return GW_FIRED;
}

int gw_find_main_preprocess(struct gw_diag *d)
{
    int64_t lost = d->dev->cause_ns[GW_CAUSE_USER_CODE];
    if (!d->dev->nruns)
        return GW_NO_DATA;
    if (gw_diag_share(d, GW_CAUSE_USER_CODE) < GW_LIM_COPY || d->answer[GW_F_SIMULATOR] == GW_FIRED || d->answer[GW_F_GIL] == GW_FIRED)
        return GW_SILENT;
    struct gw_user_code u = user_code(d);
    struct gw_draft *f = gw_diag_add(d, GW_F_MAIN_PREPROCESS, lost);
    struct gw_whatif low = GW_WHATIF_NONE, gone = GW_WHATIF_NONE;
    low.label_scale[GW_CAUSE_USER_CODE] = 0.15; /* handing a prepared batch over is not free */
    gone.remove = 1u << GW_CAUSE_USER_CODE;
    gw_diag_gain(d, f, &low, &gone, &gone);
    int named = u.prep * 2 > u.ns;
    gw_diag_seen(d, f, gw_diag_per_step(d, (double)lost), "ns", "timeline",
                 _("%s a step the main thread runs code that is no GPU call, and the GPU idles; %.3g such stretches a step, up to %s"),
                 gw_diag_time_text(d, gw_diag_per_step(d, (double)lost)), (double)u.count / d->steps,
                 gw_diag_time_text(d, (double)u.longest));
    struct gw_places *p = gw_places_new(d);
    for (size_t i = 0; i < d->dev->nruns; i++) {
        const struct gw_run *r = d->dev->runs + i;
        if (r->label == GW_CAUSE_USER_CODE && r->start >= d->an->w0 && r->start < d->an->w1 && r->leaf != GW_NONE)
            gw_places_add(p, r->leaf, r->end - r->start);
    }
    int has_file = gw_places_has_file(p);
    f->f.confidence = has_file || named ? GW_CONF_HIGH : GW_CONF_MEDIUM;
    if (!has_file && u.longest_run != GW_NONE)
        gw_diag_where(f, "", 0, between(d, d->dev->runs[u.longest_run].start, d->dev->runs[u.longest_run].end),
                      u.ns ? (double)u.longest * (double)(u.count ? u.count : 1) / (double)u.ns > 1 ? 1 : 0.5 : 0, u.count);
    if (has_file || d->an->t->facts.with_stack == 1)
        gw_places_done(p, f, 3);
    else
        gw_places_drop(p);
    if (!has_file)
        gw_diag_against(d, f, NAN, "1", "", _("no Python stacks in this trace: that it prepares data is a guess (with_stack=True, or gpuwhy run, names the line)"));
    gw_diag_fix(f, _("move this work into the data set or collate_fn, so that loader workers do it ahead: `DataLoader(ds, num_workers=8, collate_fn=tokenize)`; or do it once, before training"),
                _("gpuwhy diff before.json after.json"), _("CPUs and memory for the workers"));
    return GW_FIRED;
}
