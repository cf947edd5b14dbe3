/* samples.c - see samples.h */
#include "engine/samples.h"

#include <stdlib.h>
#include <string.h>

/* --- stacks --------------------------------------------------------------------------------------------------------------- */

static int has(const char *s, size_t n, const char *word)
{
    return memmem(s, n, word, strlen(word)) != NULL;
}

/* Frames of the machinery between a worker's loop and its queues. */
static int is_plumbing(const char *s, size_t n)
{
    return has(s, n, "multiprocessing/") || has(s, n, "queue.py(") || has(s, n, "selectors.py(") || has(s, n, "threading.py(") ||
           has(s, n, "socket.py(");
}

static void read_stack(const struct gw_analysis *an, const char *text, struct gw_stack_info *out)
{
    const char *at = text, *f;
    size_t n;
    int plumbing = 0, other = 0; /* frames further in than the one at hand */
    while (gw_stack_next(&at, &f, &n)) {
        int user = 0;
        uint32_t id = gw_intern_find(an->t->names, f, n);
        if (!id) /* "..." */
            continue;
        out->ctx |= gw_names_frame(gw_trace_text(an->t, id), &user);
        if (!out->inner)
            out->inner = id;
        if (user && !out->user)
            out->user = id;
        int loader = has(f, n, "torch/utils/data/dataloader.py(");
        if (loader && (has(f, n, "_shutdown_workers") || has(f, n, "__del__") || (has(f, n, "__init__") && plumbing)))
            out->flags |= GW_STACK_RESPAWN;
        if (has(f, n, "torch/utils/data/_utils/worker.py(") || (has(f, n, "multiprocessing/pool.py(") && has(f, n, "worker"))) {
            out->flags |= GW_STACK_WORKER;
            if (!other)
                out->flags |= GW_STACK_IDLE_WORKER;
        }
        if (is_plumbing(f, n))
            plumbing = 1;
        else
            other = 1;
    }
    if (out->ctx & GW_CTX_LOADING)
        out->ctx &= ~(uint32_t)GW_CTX_LOADER;
}

int gw_samples_stacks(struct gw_analysis *an)
{
    const struct gw_event *ev = an->t->events.data;
    size_t n = gw_intern_count(an->t->names);
    an->stacks = NULL;
    if (!an->t->host)
        return GW_OK;
    struct gw_stack_info *s = gw_arena_calloc(an->arena, n + 1, sizeof *s);
    if (!s)
        return GW_ENOMEM;
    for (size_t i = 0; i < an->t->events.len; i++)
        if (ev[i].kind == GW_KIND_SAMPLE && (ev[i].flags & GW_EV_HAS_ARG1) && ev[i].arg1 && ev[i].arg1 <= n && !s[ev[i].arg1].inner) {
            read_stack(an, gw_trace_text(an->t, (uint32_t)ev[i].arg1), s + ev[i].arg1);
            an->ranges++; /* stacks say what host code is about, as ranges do */
        }
    an->stacks = s;
    return GW_OK;
}

const struct gw_stack_info *gw_samples_stack(const struct gw_analysis *an, const struct gw_event *e)
{
    if (!an->stacks || !(e->flags & GW_EV_HAS_ARG1) || e->arg1 > gw_intern_count(an->t->names) || !an->stacks[e->arg1].inner)
        return NULL;
    return an->stacks + e->arg1;
}

/* --- one sample ------------------------------------------------------------------------------------------------------------- */

static int has_workers(const struct gw_analysis *an)
{
    const struct gw_host_facts *h = an->t->host;
    for (size_t i = 0; i < h->process_count; i++)
        if (h->process[i].role == GW_HR_WORKER)
            return 1;
    return 0;
}

unsigned gw_samples_cause(const struct gw_analysis *an, const struct gw_event *e)
{
    static const struct { uint32_t ctx; unsigned cause; } rows[] = {
        {GW_CTX_LOADING, GW_CAUSE_MAIN_LOADING}, {GW_CTX_LOADER, GW_CAUSE_DATA_WAIT}, {GW_CTX_CHECKPOINT, GW_CAUSE_CHECKPOINT},
        {GW_CTX_COMPILE, GW_CAUSE_COMPILE},      {GW_CTX_HOST_COMM, GW_CAUSE_HOST_COMM}, {GW_CTX_EVAL, GW_CAUSE_EVALUATION},
        {GW_CTX_SIM, GW_CAUSE_SIMULATOR}};
    const struct gw_stack_info *s = gw_samples_stack(an, e);
    int64_t cpu = gw_sample_cpu_ns(e), wait = gw_sample_wait_ns(e);
    if (s && (s->flags & GW_STACK_RESPAWN))
        return GW_CAUSE_RESPAWN;
    for (size_t i = 0; s && i < sizeof rows / sizeof *rows; i++)
        if (s->ctx & rows[i].ctx)
            return rows[i].cause;
    switch (e->sub) {
    case GW_TS_GIL: return GW_CAUSE_LOCK;
    case GW_TS_RUNNING: return (e->flags & GW_EV_HAS_CORR) && wait > cpu ? GW_CAUSE_OFF_CPU : GW_CAUSE_USER_CODE;
    case GW_TS_POLL:
    case GW_TS_FUTEX:
    case GW_TS_PIPE: /* asleep with nothing else known, and there are workers: it waits for them */
        return !s && has_workers(an) ? GW_CAUSE_DATA_WAIT : GW_CAUSE_USER_CODE;
    case GW_TS_DISK:
    case GW_TS_FILE: return !s && !has_workers(an) ? GW_CAUSE_MAIN_LOADING : GW_CAUSE_USER_CODE;
    default: return GW_CAUSE_USER_CODE;
    }
}

void gw_samples_each(const struct gw_analysis *an, uint32_t lane, int64_t from, int64_t to, void (*fn)(void *, uint32_t), void *user)
{
    const struct gw_lane *l = gw_trace_lane(an->t, lane);
    size_t lo = 0, hi = l->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (gw_ev(an, l->order[mid])->start < from)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < l->count && gw_ev(an, l->order[lo])->start < to; lo++)
        if (gw_ev(an, l->order[lo])->kind == GW_KIND_SAMPLE)
            fn(user, l->order[lo]);
}

/* --- groups of runs ----------------------------------------------------------------------------------------------------------- */

struct vote { uint32_t run, sample, cause; }; /* one sample inside one run */


struct member { uint64_t key; uint32_t run; };

struct label {
    struct gw_analysis *an;
    struct gw_dev *dev;
    uint32_t *calls; /* launching calls by start */
    size_t ncalls;
    struct gw_array votes;   /* struct vote, by run */
    struct gw_array members; /* struct member */
    uint32_t run;            /* being looked at */
    int oom;
};

static int by_start(const void *a, const void *b, void *arg)
{
    const struct gw_event *ev = arg, *x = ev + *(const uint32_t *)a, *y = ev + *(const uint32_t *)b;
    return (x->start > y->start) - (x->start < y->start);
}

static int collect_calls(struct label *l)
{
    l->calls = malloc((l->dev->nops + 1) * sizeof *l->calls);
    if (!l->calls)
        return GW_ENOMEM;
    for (size_t i = 0; i < l->dev->nops; i++) {
        uint32_t c = gw_ev(l->an, l->dev->ops[i])->link;
        if (c != GW_NONE && gw_trace_lane(l->an->t, gw_ev(l->an, c)->lane)->pid == l->dev->pid)
            l->calls[l->ncalls++] = c;
    }
    qsort_r(l->calls, l->ncalls, sizeof *l->calls, by_start, l->an->t->events.data);
    return GW_OK;
}

/* First call at or after `at`; ncalls when there is none. */
static size_t next_call(const struct label *l, int64_t at)
{
    size_t lo = 0, hi = l->ncalls;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (gw_ev(l->an, l->calls[mid])->start < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static uint32_t op_name(const struct label *l, uint32_t call)
{
    uint32_t op = gw_ev(l->an, call)->link;
    return op == GW_NONE ? 0 : gw_ev(l->an, op)->name;
}

static void on_sample(void *user, uint32_t event)
{
    struct label *l = user;
    struct vote *v = gw_array_push(&l->votes);
    if (v)
        *v = (struct vote){l->run, event, gw_samples_cause(l->an, gw_ev(l->an, event))};
    else
        l->oom = 1;
}

static void look_at(struct label *l, uint32_t run)
{
    const struct gw_run *r = l->dev->runs + run;
    size_t k = next_call(l, r->end);
    uint32_t next = k < l->ncalls ? l->calls[k] : l->calls[l->ncalls - 1];
    struct member *m = gw_array_push(&l->members);
    if (!m) {
        l->oom = 1;
        return;
    }
    *m = (struct member){(uint64_t)(k ? op_name(l, l->calls[k - 1]) : 0) << 32 | (k < l->ncalls ? op_name(l, next) : 0), run};
    l->run = run;
    gw_samples_each(l->an, gw_ev(l->an, next)->lane, r->start, r->end, on_sample, l);
}

static int by_key(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->run > y->run) - (x->run < y->run);
}

static unsigned winner(const uint32_t votes[GW_CAUSE_COUNT], uint32_t *all)
{
    unsigned best = GW_CAUSE_USER_CODE;
    *all = 0;
    for (unsigned c = 0; c < GW_CAUSE_COUNT; c++) {
        *all += votes[c];
        if (votes[c] > votes[best])
            best = c;
    }
    return best;
}

/* The votes of one run: [*first, result). */
static size_t votes_of(const struct label *l, uint32_t run, size_t *first)
{
    const struct vote *v = l->votes.data;
    size_t lo = 0, hi = l->votes.len;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (v[mid].run < run)
            lo = mid + 1;
        else
            hi = mid;
    }
    *first = lo;
    while (lo < l->votes.len && v[lo].run == run)
        lo++;
    return lo;
}

/* A sample of the group with this cause, a different one each time: so many lines of code share the time as they should. */
static uint32_t pick(const struct label *l, const struct member *m, size_t n, unsigned cause, size_t *turn)
{
    const struct vote *v = l->votes.data;
    for (size_t tries = 0; tries < n; tries++) {
        size_t first, end = votes_of(l, m[(*turn)++ % n].run, &first);
        for (size_t k = first; k < end; k++)
            if (v[k].cause == cause)
                return v[k].sample;
    }
    return GW_NONE;
}

static void settle(struct label *l, const struct member *m, size_t n)
{
    struct gw_run *runs = (struct gw_run *)(uintptr_t)l->dev->runs;
    const struct vote *v = l->votes.data;
    uint32_t sum[GW_CAUSE_COUNT] = {0}, all, own_all;
    for (size_t i = 0; i < n; i++) {
        size_t first, end = votes_of(l, m[i].run, &first);
        for (size_t k = first; k < end; k++)
            sum[v[k].cause]++;
    }
    unsigned common = winner(sum, &all);
    size_t turn = 0;
    for (size_t i = 0; i < n && all; i++) {
        uint32_t own[GW_CAUSE_COUNT] = {0};
        size_t first, end = votes_of(l, m[i].run, &first);
        for (size_t k = first; k < end; k++)
            own[v[k].cause]++;
        unsigned cause = winner(own, &own_all);
        if (!own_all)
            cause = common; /* what its like did */
        uint32_t leaf = GW_NONE;
        for (size_t k = first; k < end && leaf == GW_NONE; k++)
            leaf = v[k].cause == cause ? v[k].sample : GW_NONE;
        if (leaf == GW_NONE)
            leaf = pick(l, m, n, cause, &turn);
        runs[m[i].run].label = cause;
        if (runs[m[i].run].leaf == GW_NONE)
            runs[m[i].run].leaf = leaf;
    }
}

int gw_samples_label(struct gw_analysis *an, struct gw_dev *dev)
{
    struct label l = {.an = an, .dev = dev};
    int rc = GW_ENOMEM;
    if (!an->stacks)
        return GW_OK;
    gw_array_init(&l.votes, sizeof(struct vote), 0);
    gw_array_init(&l.members, sizeof(struct member), 0);
    if (collect_calls(&l) < 0)
        goto out;
    for (uint32_t i = 0; i < dev->nruns && l.ncalls; i++)
        if (dev->runs[i].label == GW_CAUSE_USER_CODE)
            look_at(&l, i);
    if (l.oom)
        goto out;
    struct member *m = l.members.data;
    if (l.members.len)
        qsort(m, l.members.len, sizeof *m, by_key);
    for (size_t i = 0, k; i < l.members.len; i = k) {
        for (k = i + 1; k < l.members.len && m[k].key == m[i].key; k++)
            ;
        settle(&l, m + i, k - i);
    }
    rc = GW_OK;
out:
    free(l.calls);
    gw_array_free(&l.votes);
    gw_array_free(&l.members);
    return rc;
}
