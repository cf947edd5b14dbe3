/* live_places.c - lines of code from sampled stacks. See live.h. */
#include <stdlib.h>
#include <string.h>

#include "layers/live.h"

enum { MAX_LINES = 512, TALLY = 3, /* samples: two are no tally */ EXACT = 2 /* but enough where each names the line for certain */ };

struct line {
    uint32_t frame;
    int is_user;
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
        t->line[t->n++] = (struct line){frame, s->user != 0, 0, 0};
    t->line[i].ns += ns;
    t->line[i].count++;
    t->all += ns;
}

/* The user's own lines first: of a library's the user can change none. */
static int by_ns(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    if (x->is_user != y->is_user)
        return x->is_user ? -1 : 1;
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

/* The thread whose stacks say what is launched: the launching one, or the process's main thread where that one runs no Python
 * (autograd's, which works while the main thread stands in backward()). */
uint32_t gw_live_stack_lane(const struct gw_diag *d, const struct gw_live *l)
{
    const struct gw_lane *lane = d->an->t->lanes.data;
    if (l->launcher == GW_NONE || !d->an->stacked || d->an->stacked[l->launcher])
        return l->launcher;
    for (uint32_t i = 0; i < d->an->t->lanes.len; i++)
        if (lane[i].type == GW_LANE_HOST && lane[i].pid == l->pid && lane[i].tid == l->pid && d->an->stacked[i])
            return i;
    return l->launcher;
}

size_t gw_live_stacks_with(struct gw_diag *d, const char *word, size_t *all, struct gw_draft *f, size_t most)
{
    const struct gw_live *l = gw_live_of(d);
    struct tally *t = gw_arena_alloc(d->arena, sizeof *t);
    uint32_t at = l ? gw_live_stack_lane(d, l) : GW_NONE;
    *all = 0;
    if (!t || at == GW_NONE)
        return 0;
    const struct gw_lane *lane = gw_trace_lane(d->an->t, at);
    size_t found = 0;
    *t = (struct tally){.d = d};
    for (size_t i = 0; i < lane->count; i++) {
        const struct gw_event *e = gw_ev(d->an, lane->order[i]);
        if (e->kind != GW_KIND_SAMPLE || e->start < l->from || e->start >= l->to || !gw_samples_stack(d->an, e))
            continue;
        ++*all;
        if (!strstr(gw_trace_text(d->an->t, (uint32_t)e->arg1), word))
            continue;
        found++;
        add(t, e, 1);
    }
    if (f && t->all > 0)
        write_lines(t, f, most);
    return found;
}

/* What a sample has to be to count. */
struct fits {
    uint32_t calls;  /* inside one of these, 1 << enum gw_call; 0 = whatever the call */
    uint32_t causes; /* its stack says one of these, 1 << enum gw_cause; 0 = whatever it says */
    int is_own;      /* 1: it runs, and the innermost frame is the user's own */
};

static int does_fit(const struct gw_diag *d, const struct gw_event *e, const struct fits *x)
{
    const struct gw_stack_info *s = e->kind == GW_KIND_SAMPLE ? gw_samples_stack(d->an, e) : NULL;
    return s && (!x->calls || (x->calls >> (gw_sample_call(e) & 31) & 1)) &&
           (!x->causes || (x->causes >> gw_samples_cause(d->an, e) & 1)) && (!x->is_own || (e->sub == GW_TS_RUNNING && s->user == s->inner));
}

/* Lines of the samples in [from, to) that fit, when there are `least` of them. Their number. */
static size_t where_fits(struct gw_diag *d, struct gw_draft *f, const struct fits *x, int64_t from, int64_t to, size_t least, size_t most)
{
    const struct gw_live *l = gw_live_of(d);
    struct tally *t = gw_arena_alloc(d->arena, sizeof *t);
    uint32_t index = l && t ? gw_live_stack_lane(d, l) : GW_NONE;
    size_t n = 0;
    if (index == GW_NONE)
        return 0;
    *t = (struct tally){.d = d};
    const struct gw_lane *lane = gw_trace_lane(d->an->t, index);
    for (size_t k = 0; k < lane->count; k++) {
        const struct gw_event *e = gw_ev(d->an, lane->order[k]);
        if (e->start < from || e->start >= to || !does_fit(d, e, x))
            continue;
        add(t, e, 1); /* what it did at that instant; until the next sample it may have done much else */
        n++;
    }
    if (n >= least)
        write_lines(t, f, most);
    return n;
}

void gw_live_where_spans(struct gw_diag *d, struct gw_draft *f, const struct gw_live_span *span, size_t count, unsigned causes, size_t most)
{
    const struct gw_live *l = gw_live_of(d);
    struct tally *t = gw_arena_alloc(d->arena, sizeof *t);
    uint32_t index = l && t ? gw_live_stack_lane(d, l) : GW_NONE;
    if (index == GW_NONE)
        return;
    *t = (struct tally){.d = d};
    const struct fits x = {.causes = causes};
    const struct gw_lane *lane = gw_trace_lane(d->an->t, index);
    for (size_t k = 0, i = 0; k < lane->count && i < count;) {
        const struct gw_event *e = gw_ev(d->an, lane->order[k]);
        if (e->start >= span[i].end) {
            i++;
            continue;
        }
        if (e->start >= span[i].start && does_fit(d, e, &x))
            add(t, e, 1);
        k++;
    }
    write_lines(t, f, most);
}

size_t gw_live_where_in_call(struct gw_diag *d, struct gw_draft *f, unsigned calls, size_t most)
{
    const struct gw_live *l = gw_live_of(d);
    return l ? where_fits(d, f, &(struct fits){.calls = calls}, l->from, l->to, calls & 1u << GW_CALL_NONE ? TALLY : EXACT, most) : 0;
}

/* --- findings whose calls carry no stack
 * ------------------------------------------------------------------------------------- */

#define CALL(c) (1u << GW_CALL_##c)
#define CAUSE(c) (1u << GW_CAUSE_##c)
static const struct row {
    enum gw_finding_id id;
    uint32_t labels; /* causes of the idle time that the finding is about */
    uint32_t calls;  /* calls of CUDA that it is about, 0 none */
    int workers;     /* 1: lines of the loader's workers first */
} rows[] = {
    {GW_F_HOST_SYNC, CAUSE(HOST_SYNC), CALL(WAIT) | CALL(READ), 0},
    {GW_F_BLOCKING_COPY, CAUSE(BLOCKING_COPY), CALL(COPY) | CALL(WAIT) | CALL(READ), 0}, /* from pinned memory: the wait is a call of its own */
    {GW_F_PAGEABLE_COPY, CAUSE(BLOCKING_COPY), CALL(COPY) | CALL(READ), 0},
    {GW_F_ALLOCATOR, CAUSE(ALLOCATOR), CALL(ALLOC), 0},
    {GW_F_HOST_ALLOCATION, CAUSE(HOST_ALLOC), CALL(HOST_ALLOC), 0},
    {GW_F_RECOMPILE, CAUSE(COMPILE) | CAUSE(MODULE_LOAD), 0, 0},
    {GW_F_LAUNCH_BOUND, CAUSE(LAUNCH), 0, 0},
    {GW_F_CHECKPOINT, CAUSE(CHECKPOINT), 0, 0},
    {GW_F_EVALUATION, CAUSE(EVALUATION), 0, 0},
    {GW_F_SIMULATOR, CAUSE(SIMULATOR) | CAUSE(USER_CODE), 0, 0},
    {GW_F_MAIN_PREPROCESS, CAUSE(USER_CODE), 0, 0},
    {GW_F_SLOW_OP, CAUSE(SLOW_OP), 0, 0},
    {GW_F_SHAPE_CHURN, CAUSE(SLOW_OP), 0, 0},
    {GW_F_AUTOTUNE, CAUSE(SLOW_OP), 0, 0},
    {GW_F_MAIN_LOADING, CAUSE(MAIN_LOADING), 0, 0},
    {GW_F_WORKER_RESPAWN, CAUSE(RESPAWN), 0, 0},
    {GW_F_LOADER_STARVED, CAUSE(DATA_WAIT), 0, 1},
    {GW_F_TOO_FEW_WORKERS, CAUSE(DATA_WAIT), 0, 1},
    {GW_F_WORKERS_CPU, CAUSE(DATA_WAIT), 0, 1},
    {GW_F_SLOW_STORAGE, CAUSE(DATA_WAIT), 0, 1},
};

struct in_run {
    struct tally *t;
    uint32_t labels;
};

static void on_sample(void *user, uint32_t event)
{
    struct in_run *r = user;
    const struct gw_event *e = gw_ev(r->t->d->an, event);
    unsigned cause = gw_samples_cause(r->t->d->an, e); /* one that says something else came a little early or late */
    if (cause == GW_CAUSE_USER_CODE || (r->labels >> cause & 1))
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

static void in_labelled_runs(struct gw_diag *d, struct gw_draft *f, uint32_t labels, const struct gw_live *l)
{
    struct tally *t = gw_arena_alloc(d->arena, sizeof *t);
    if (!t || !d->dev || l->launcher == GW_NONE)
        return;
    *t = (struct tally){.d = d};
    struct in_run r = {t, labels};
    uint32_t lane = gw_live_stack_lane(d, l);
    for (size_t i = 0; i < d->dev->nruns; i++) {
        const struct gw_run *run = d->dev->runs + i;
        if (run->label < GW_CAUSE_COUNT && (labels >> run->label & 1) && run->start >= d->an->w0 &&
            run->start < d->an->w1)
            gw_samples_each(d->an, lane, run->start, run->end, on_sample, &r);
    }
    if (t->all >= TALLY)
        write_lines(t, f, 3);
}

/* Samples that fit by themselves, wherever they lie in [from, to): beside a short window there are more of them. */
static void in_fitting_samples(struct gw_diag *d, struct gw_draft *f, const struct row *r, int64_t from, int64_t to)
{
    struct fits x = {.calls = r->calls};
    if (r->calls && where_fits(d, f, &x, from, to, EXACT, 3) >= EXACT)
        return;
    x = (struct fits){.causes = r->labels & ~(CAUSE(USER_CODE) | CAUSE(LAUNCH))};
    if (x.causes && where_fits(d, f, &x, from, to, TALLY, 3) >= TALLY)
        return;
    if (r->id == GW_F_LAUNCH_BOUND) /* whatever it does that nothing else explains: it issues */
        x = (struct fits){.calls = CALL(LAUNCH) | CALL(GRAPH) | 1u << GW_CALL_NONE, .causes = CAUSE(USER_CODE) | CAUSE(SLOW_OP)};
    else if (r->id == GW_F_MAIN_PREPROCESS || r->id == GW_F_SIMULATOR)
        x = (struct fits){.calls = 1u << GW_CALL_NONE, .causes = CAUSE(USER_CODE), .is_own = 1};
    else
        return;
    (void)where_fits(d, f, &x, from, to, TALLY, 3);
}

static void name_lines(struct gw_diag *d, struct gw_draft *f, const struct row *r, const struct gw_live *l)
{
    struct gw_array calls = f->where; /* lines first, then the calls that are there already */
    int64_t from = l->from, to = l->to, begin = from, end = to;
    int is_known = gw_live_calls_period(d->an, l->pid, &begin, &end); /* neither the start of the job nor its end */
    gw_array_init(&f->where, sizeof(struct gw_where), 64);
    if (r->workers)
        gw_live_where(d, f, GW_LIVE_WORKER, ~0u, 0, 3);
    /* Where the library inside the job said that a thread was in a call of CUDA, the stack of that moment names the line exactly. */
    if (!has_file(f) && r->calls)
        (void)where_fits(d, f, &(struct fits){.calls = r->calls}, from, to, EXACT, 3);
    if (!has_file(f))
        in_labelled_runs(d, f, r->labels, l);
    if (!has_file(f))
        in_fitting_samples(d, f, r, from > begin ? from : begin, to < end ? to : end);
    if (!has_file(f) && is_known)
        in_fitting_samples(d, f, r, begin, end);
    lines_first(f, &calls);
}

void gw_live_places(struct gw_diag *d)
{
    const struct gw_live *l = gw_live_of(d);
    if (!l)
        return;
    for (size_t i = 0; i < d->drafts; i++)
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
            if (d->draft[i]->id == rows[k].id && !has_file(d->draft[i]))
                name_lines(d, d->draft[i], rows + k, l);
}
