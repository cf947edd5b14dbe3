/* live_places.c - lines of code from sampled stacks. See live.h. */
#include <stdlib.h>

#include "layers/live.h"

enum { MAX_LINES = 512 };

struct line {
    uint32_t frame;
    double ns;
    int64_t count;
};

struct tally {
    struct gw_diag *d;
    struct line line[MAX_LINES];
    size_t n;
    double all;
};

static void add(struct tally *t, const struct gw_event *e, double ns)
{
    const struct gw_stack_info *s = gw_samples_stack(t->d->an, e);
    if (!s)
        return;
    uint32_t frame = s->user ? s->user : s->inner;
    size_t i = 0;
    while (i < t->n && t->line[i].frame != frame)
        i++;
    if (i == MAX_LINES)
        return;
    if (i == t->n)
        t->line[t->n++] = (struct line){frame, 0, 0};
    t->line[i].ns += ns;
    t->line[i].count++;
    t->all += ns;
}

static int by_ns(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    return (x->frame > y->frame) - (x->frame < y->frame);
}

static void write_lines(struct tally *t, struct gw_draft *f, size_t most)
{
    qsort(t->line, t->n, sizeof *t->line, by_ns);
    for (size_t i = 0; i < t->n && i < most && t->line[i].ns >= 0.03 * t->all; i++) {
        const char *file = "", *func = "", *name = gw_trace_text(t->d->an->t, t->line[i].frame);
        int64_t at = 0;
        if (gw_names_pyframe(name, t->d->arena, &file, &at, &func))
            gw_diag_where(f, file, at, func, t->line[i].ns / t->all, t->line[i].count);
    }
}

static int idle_at(const struct gw_dev *v, int64_t at)
{
    size_t lo = 0, hi = v ? v->ngaps : 0;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (v->gaps[mid].end <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return v && lo < v->ngaps && v->gaps[lo].start <= at;
}

static int has_role(const struct gw_live *l, const struct gw_lane *lane, uint32_t index, enum gw_live_role role)
{
    const struct gw_host_process *p = gw_host_process(l->h, lane->pid);
    switch (role) {
    case GW_LIVE_LAUNCHER: return index == l->launcher;
    case GW_LIVE_TRAINER: return lane->pid == l->pid && index != l->launcher;
    case GW_LIVE_WORKER: return p && p->role == GW_HR_WORKER && lane->tid == lane->pid;
    default: return 0;
    }
}

void gw_live_where(struct gw_diag *d, struct gw_draft *f, enum gw_live_role role, uint32_t states, int gaps,
                   size_t most)
{
    const struct gw_live *l = gw_live_of(d);
    struct tally *t = gw_arena_alloc(d->arena, sizeof *t);
    const struct gw_lane *lane = d->an->t->lanes.data;
    if (!l || !t)
        return;
    *t = (struct tally){.d = d};
    for (uint32_t i = 0; i < d->an->t->lanes.len; i++) {
        if (lane[i].type != GW_LANE_HOST || !has_role(l, lane + i, i, role))
            continue;
        for (size_t k = 0; k < lane[i].count; k++) {
            const struct gw_event *e = gw_ev(d->an, lane[i].order[k]);
            const struct gw_stack_info *s = e->kind == GW_KIND_SAMPLE ? gw_samples_stack(d->an, e) : NULL;
            if (!s || (s->flags & GW_STACK_IDLE_WORKER) || e->start < l->from || e->start >= l->to ||
                !(states >> e->sub & 1) || (gaps && !idle_at(d->dev, e->start)))
                continue;
            add(t, e, (double)(e->end - e->start));
        }
    }
    write_lines(t, f, most);
}

size_t gw_live_where_in_call(struct gw_diag *d, struct gw_draft *f, unsigned call, size_t most)
{
    const struct gw_live *l = gw_live_of(d);
    struct tally *t = gw_arena_alloc(d->arena, sizeof *t);
    size_t n = 0;
    if (!l || !t || l->launcher == GW_NONE)
        return 0;
    *t = (struct tally){.d = d};
    const struct gw_lane *lane = gw_trace_lane(d->an->t, l->launcher);
    for (size_t k = 0; k < lane->count; k++) {
        const struct gw_event *e = gw_ev(d->an, lane->order[k]);
        if (e->kind != GW_KIND_SAMPLE || e->start < l->from || e->start >= l->to || gw_sample_call(e) != call)
            continue;
        add(t, e, 1); /* what it did at that instant; until the next sample it may have done much else */
        n++;
    }
    if (n >= 3) /* two samples are no tally */
        write_lines(t, f, most);
    return n;
}

/* --- findings whose calls carry no stack
 * ------------------------------------------------------------------------------------- */

static const struct {
    enum gw_finding_id id;
    uint32_t labels;
    unsigned call; /* enum gw_call that the finding is about, 0 none */
} rows[] = {
    {GW_F_HOST_SYNC, 1u << GW_CAUSE_HOST_SYNC, GW_CALL_WAIT},
    {GW_F_BLOCKING_COPY, 1u << GW_CAUSE_BLOCKING_COPY, GW_CALL_COPY},
    {GW_F_PAGEABLE_COPY, 1u << GW_CAUSE_BLOCKING_COPY, GW_CALL_COPY},
    {GW_F_ALLOCATOR, 1u << GW_CAUSE_ALLOCATOR, GW_CALL_ALLOC},
    {GW_F_HOST_ALLOCATION, 1u << GW_CAUSE_HOST_ALLOC, GW_CALL_ALLOC},
    {GW_F_RECOMPILE, 1u << GW_CAUSE_COMPILE | 1u << GW_CAUSE_MODULE_LOAD, 0},
    {GW_F_LAUNCH_BOUND, 1u << GW_CAUSE_LAUNCH, 0},
    {GW_F_CHECKPOINT, 1u << GW_CAUSE_CHECKPOINT, 0},
    {GW_F_EVALUATION, 1u << GW_CAUSE_EVALUATION, 0},
    {GW_F_SIMULATOR, 1u << GW_CAUSE_SIMULATOR | 1u << GW_CAUSE_USER_CODE, 0},
    {GW_F_MAIN_PREPROCESS, 1u << GW_CAUSE_USER_CODE, 0},
};

struct in_run {
    struct tally *t;
};

static void on_sample(void *user, uint32_t event)
{
    struct in_run *r = user;
    const struct gw_event *e = gw_ev(r->t->d->an, event);
    add(r->t, e, 1);
}

static int has_file(const struct gw_draft *f)
{
    const struct gw_where *w = f->where.data;
    for (size_t i = 0; i < f->where.len; i++)
        if (w[i].file && w[i].file[0])
            return 1;
    return 0;
}

/* Puts what `write` adds before the calls that are there already. */
static void lines_first(struct gw_draft *f, struct gw_array *calls)
{
    for (size_t i = 0; i < calls->len; i++) {
        struct gw_where *w = gw_array_push(&f->where);
        if (w)
            *w = ((struct gw_where *)calls->data)[i];
    }
    gw_array_free(calls);
}

/* Where the library inside the job said that a thread was in a call of CUDA, the stack of that moment names the line exactly. */
static int name_lines_in_call(struct gw_diag *d, struct gw_draft *f, unsigned call)
{
    struct gw_array calls = f->where;
    gw_array_init(&f->where, sizeof(struct gw_where), 64);
    (void)gw_live_where_in_call(d, f, call, 3);
    int found = f->where.len > 0;
    lines_first(f, &calls);
    return found;
}

static void name_lines(struct gw_diag *d, struct gw_draft *f, uint32_t labels, const struct gw_live *l)
{
    struct tally *t = gw_arena_alloc(d->arena, sizeof *t);
    if (!t)
        return;
    *t = (struct tally){.d = d};
    struct in_run r = {t};
    for (size_t i = 0; i < d->dev->nruns; i++) {
        const struct gw_run *run = d->dev->runs + i;
        if (run->label < GW_CAUSE_COUNT && (labels >> run->label & 1) && run->start >= d->an->w0 &&
            run->start < d->an->w1)
            gw_samples_each(d->an, l->launcher, run->start, run->end, on_sample, &r);
    }
    if (t->all < 3) /* two samples are no tally */
        return;
    struct gw_array calls = f->where; /* lines first, then the calls that are there already */
    gw_array_init(&f->where, sizeof(struct gw_where), 64);
    write_lines(t, f, 3);
    lines_first(f, &calls);
}

void gw_live_places(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    if (!l || !d->dev || l->launcher == GW_NONE)
        return;
    for (size_t i = 0; i < d->drafts; i++)
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
            if (d->draft[i]->id == rows[k].id && !has_file(d->draft[i]) &&
                !(rows[k].call && name_lines_in_call(d, d->draft[i], rows[k].call)))
                name_lines(d, d->draft[i], rows[k].labels, l);
}
