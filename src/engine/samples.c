/* samples.c - see samples.h */
#include "engine/samples.h"

#include <stdlib.h>
#include <string.h>

/* --- stacks
 * --------------------------------------------------------------------------------------------------------------- */

static int has(const char *s, size_t n, const char *word) { return memmem(s, n, word, strlen(word)) != NULL; }

/* Frames of the machinery between a worker's loop and its queues. */
static int is_plumbing(const char *s, size_t n)
{
    return has(s, n, "multiprocessing/") || has(s, n, "queue.py(") || has(s, n, "selectors.py(") ||
           has(s, n, "threading.py(") || has(s, n, "socket.py(");
}

/* Code of PyTorch that runs operators. */
static int is_operator(const char *s, size_t n)
{
    return has(s, n, "torch/nn/") || has(s, n, "torch/autograd/") || has(s, n, "torch/_tensor.py(") || has(s, n, "torch/functional.py(");
}

static void read_stack(const struct gw_analysis *an, const char *text, struct gw_stack_info *out)
{
    const char *at = text, *f;
    size_t n;
    int plumbing = 0, other = 0; /* frames further in than the one at hand */
    int loads = 0;
    int users = 1;               /* all of those are the user's */
    while (gw_stack_next(&at, &f, &n)) {
        int user = 0;
        uint32_t id = gw_intern_find(an->t->names, f, n);
        if (!id) /* "..." */
            continue;
        out->ctx |= gw_names_frame(gw_trace_text(an->t, id), &user);
        if (users && is_operator(f, n))
            out->flags |= GW_STACK_OPERATOR;
        users = users && user;
        if (!out->inner)
            out->inner = id;
        if (user && !out->user)
            out->user = id;
        int loader = has(f, n, "torch/utils/data/dataloader.py(");
        if (loader && (has(f, n, "_shutdown_workers") || has(f, n, "__del__") || (has(f, n, "__init__") && plumbing)))
            out->flags |= GW_STACK_RESPAWN;
        if (has(f, n, "torch/utils/data/_utils/worker.py(") ||
            (has(f, n, "multiprocessing/pool.py(") && has(f, n, "worker"))) {
            out->flags |= GW_STACK_WORKER;
            if (!other)
                out->flags |= GW_STACK_IDLE_WORKER;
        }
        loads |= has(f, n, "torch/serialization.py(") && (has(f, n, "): load") || has(f, n, "): _load") || has(f, n, "): _legacy_load"));
        if (is_plumbing(f, n))
            plumbing = 1;
        else
            other = 1;
    }
    if (loads) /* shards of data in torch's own format, read in the loop */
        out->ctx = (out->ctx | GW_CTX_LOADING) & ~(uint32_t)GW_CTX_CHECKPOINT;
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
    unsigned char *lanes = gw_arena_calloc(an->arena, an->t->lanes.len + 1, 1);
    if (!s || !lanes)
        return GW_ENOMEM;
    for (size_t i = 0; i < an->t->events.len; i++)
        if (ev[i].kind == GW_KIND_SAMPLE && (ev[i].flags & GW_EV_HAS_ARG1) && ev[i].arg1 && ev[i].arg1 <= n &&
            !s[ev[i].arg1].inner) {
            read_stack(an, gw_trace_text(an->t, (uint32_t)ev[i].arg1), s + ev[i].arg1);
            an->ranges++; /* stacks say what host code is about, as ranges do */
        }
    an->stacks = s;
    for (size_t i = 0; i < an->t->events.len; i++)
        if (ev[i].kind == GW_KIND_SAMPLE && ev[i].lane < an->t->lanes.len && gw_samples_stack(an, ev + i))
            lanes[ev[i].lane] = 1;
    an->stacked = lanes;
    return GW_OK;
}

const struct gw_stack_info *gw_samples_stack(const struct gw_analysis *an, const struct gw_event *e)
{
    if (!an->stacks || !(e->flags & GW_EV_HAS_ARG1) || e->arg1 > gw_intern_count(an->t->names) ||
        !an->stacks[e->arg1].inner)
        return NULL;
    return an->stacks + e->arg1;
}

/* --- one sample
 * ------------------------------------------------------------------------------------------------------------- */

static int has_workers(const struct gw_analysis *an)
{
    const struct gw_host_facts *h = an->t->host;
    for (size_t i = 0; i < h->process_count; i++)
        if (h->process[i].role == GW_HR_WORKER)
            return 1;
    return 0;
}

int gw_samples_tells(const struct gw_analysis *an, const struct gw_event *e)
{
    return !an->stacked[e->lane] || e->sub == GW_TS_GIL || gw_samples_stack(an, e) != NULL;
}

/* PyTorch's threads for the backward pass, by their name: they run operators and no Python. */
static int is_autograd(const struct gw_analysis *an, uint32_t lane)
{
    const struct gw_lane *l = gw_trace_lane(an->t, lane);
    return l->name && strncmp(gw_trace_text(an->t, l->name), "pt_autograd_", strlen("pt_autograd_")) == 0;
}

unsigned gw_samples_cause(const struct gw_analysis *an, const struct gw_event *e)
{
    static const struct {
        uint32_t ctx;
        unsigned cause;
    } rows[] = {{GW_CTX_LOADING, GW_CAUSE_MAIN_LOADING},  {GW_CTX_LOADER, GW_CAUSE_DATA_WAIT},
                {GW_CTX_CHECKPOINT, GW_CAUSE_CHECKPOINT}, {GW_CTX_COMPILE, GW_CAUSE_COMPILE},
                {GW_CTX_HOST_COMM, GW_CAUSE_HOST_COMM},   {GW_CTX_EVAL, GW_CAUSE_EVALUATION},
                {GW_CTX_SIM, GW_CAUSE_SIMULATOR}};
    const struct gw_stack_info *s = gw_samples_stack(an, e);
    if (s && (s->flags & GW_STACK_RESPAWN))
        return GW_CAUSE_RESPAWN;
    for (size_t i = 0; s && i < sizeof rows / sizeof *rows; i++)
        if (s->ctx & rows[i].ctx)
            return rows[i].cause;
    int is_awake = e->sub == GW_TS_RUNNING;
    if (s ? (s->flags & GW_STACK_OPERATOR) && (is_awake || e->sub == GW_TS_FUTEX) /* asleep: in backward(), for autograd's thread */
          : is_awake && is_autograd(an, e->lane))
        return GW_CAUSE_SLOW_OP;
    switch (e->sub) {
    case GW_TS_GIL: return GW_CAUSE_LOCK;
    case GW_TS_POLL:
    case GW_TS_FUTEX:
    case GW_TS_PIPE: /* asleep with nothing else known, and there are workers: it waits for them */
        return !s && has_workers(an) ? GW_CAUSE_DATA_WAIT : GW_CAUSE_USER_CODE;
    case GW_TS_DISK:
    case GW_TS_FILE: return !s && !has_workers(an) ? GW_CAUSE_MAIN_LOADING : GW_CAUSE_USER_CODE;
    default: return GW_CAUSE_USER_CODE;
    }
}

double gw_samples_off_cpu(const struct gw_event *e)
{
    double cpu = (double)gw_sample_cpu_ns(e), wait = (double)gw_sample_wait_ns(e);
    return e->sub == GW_TS_RUNNING && (e->flags & GW_EV_HAS_CORR) && wait > 0.1 * (cpu + wait) ? wait / (cpu + wait)
                                                                                               : 0;
}

void gw_samples_each(const struct gw_analysis *an, uint32_t lane, int64_t from, int64_t to,
                     void (*fn)(void *, uint32_t), void *user)
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

/* --- groups of runs
 * ----------------------------------------------------------------------------------------------------------- */

#define OWN_SHARE 0.5 /* samples that cover this much of a run speak for it; below, the runs like it do */
#define ENOUGH 3      /* samples that a group needs to say how its time is shared */

/* One sample inside one run, the time that it stands for, and the share of that in which it only waited for a CPU. */
struct vote {
    uint32_t run, sample, cause;
    int64_t ns;
    double off;
};

struct member {
    uint64_t key;
    uint32_t run;
};

struct group { /* runs between the same two GPU operations: the same code */
    const struct member *member;
    size_t count;
    size_t votes, turn;
    double share[GW_CAUSE_COUNT]; /* of its sampled time */
    double at[GW_CAUSE_COUNT];    /* where in a run it comes on average, 0..1: the order of the causes */
};

struct label {
    struct gw_analysis *an;
    struct gw_dev *dev;
    uint32_t *calls; /* launching calls by start */
    size_t ncalls;
    uint32_t *group_of;      /* by run; GW_NONE = not looked at */
    struct gw_array votes;   /* struct vote, by run */
    struct gw_array members; /* struct member: by operations */
    struct gw_array like;    /* struct member: by length */
    struct gw_array groups;  /* struct group */
    struct group pool[64];   /* of runs about as long as each other: for those whose own group was sampled too little */
    struct gw_array out;     /* struct gw_run: the new runs */
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
    const struct gw_event *e = gw_ev(l->an, event);
    if (!gw_samples_tells(l->an, e))
        return;
    int64_t end = e->end < l->dev->runs[l->run].end ? e->end : l->dev->runs[l->run].end;
    struct vote *v = gw_array_push(&l->votes);
    if (v)
        *v = (struct vote){l->run, event, gw_samples_cause(l->an, e), end > e->start ? end - e->start : 1,
                           gw_samples_off_cpu(e)};
    else
        l->oom = 1;
}

static uint64_t length_key(const struct gw_run *r)
{
    return 63 - (uint64_t)__builtin_clzll((uint64_t)(r->end - r->start) | 1);
}

static void look_at(struct label *l, uint32_t run)
{
    const struct gw_run *r = l->dev->runs + run;
    size_t k = next_call(l, r->end);
    uint32_t next = k < l->ncalls ? l->calls[k] : l->calls[l->ncalls - 1];
    struct member *m = gw_array_push(&l->members), *like = gw_array_push(&l->like);
    if (!m || !like) {
        l->oom = 1;
        return;
    }
    *like = (struct member){length_key(r), run};
    *m = (struct member){(uint64_t)(k ? op_name(l, l->calls[k - 1]) : 0) << 32 | (k < l->ncalls ? op_name(l, next) : 0),
                         run};
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

static void count_votes(const struct label *l, struct group *g, const struct member *m, size_t count)
{
    const struct vote *v = l->votes.data;
    double all = 0;
    *g = (struct group){.member = m, .count = count};
    for (size_t i = 0; i < count; i++) {
        size_t from, to = votes_of(l, m[i].run, &from);
        const struct gw_run *r = l->dev->runs + m[i].run;
        for (size_t k = from; k < to; k++) {
            double ns = (double)v[k].ns,
                   at = (double)(gw_ev(l->an, v[k].sample)->start - r->start) / (double)(r->end - r->start);
            g->share[v[k].cause] += ns * (1 - v[k].off);
            g->at[v[k].cause] += ns * (1 - v[k].off) * at;
            g->share[GW_CAUSE_OFF_CPU] += ns * v[k].off;
            g->at[GW_CAUSE_OFF_CPU] += ns * v[k].off * at;
            all += ns;
            g->votes++;
        }
    }
    for (unsigned c = 0; c < GW_CAUSE_COUNT && all > 0; c++) {
        g->at[c] = g->share[c] > 0 ? g->at[c] / g->share[c] : 0;
        g->share[c] /= all;
    }
}

/* Groups by key, one after the other. `to_pool`: the key is the number of a pool. */
static void make_groups(struct label *l, struct gw_array *members, int to_pool)
{
    struct member *m = members->data;
    if (members->len)
        qsort(m, members->len, sizeof *m, by_key);
    for (size_t i = 0, k; i < members->len; i = k) {
        for (k = i + 1; k < members->len && m[k].key == m[i].key; k++)
            ;
        struct group *g = to_pool ? &l->pool[m[i].key] : gw_array_push(&l->groups);
        if (!g) {
            l->oom = 1;
            return;
        }
        count_votes(l, g, m + i, k - i);
        for (size_t x = i; x < k && !to_pool; x++)
            l->group_of[m[x].run] = (uint32_t)l->groups.len - 1;
    }
}

/* A sample of the group with this cause, a different one each time: so many lines of code share the time as they
 * should. */
static uint32_t pick(const struct label *l, struct group *g, unsigned cause)
{
    const struct vote *v = l->votes.data;
    for (size_t tries = 0; tries < g->count; tries++) {
        size_t from, to = votes_of(l, g->member[g->turn++ % g->count].run, &from);
        for (size_t k = from; k < to; k++)
            if (v[k].cause == cause || (cause == GW_CAUSE_OFF_CPU && v[k].off > 0))
                return v[k].sample;
    }
    return GW_NONE;
}

static void push(struct label *l, const struct gw_run *r, int64_t start, int64_t end, unsigned cause, uint32_t leaf)
{
    if (end <= start)
        return;
    struct gw_run *x = gw_array_push(&l->out);
    if (x)
        *x = (struct gw_run){.start = start, .end = end, .label = cause, .leaf = r->leaf == GW_NONE ? leaf : r->leaf};
    else
        l->oom = 1;
}

/* By its own samples: each holds until the next. */
static void split_by_own(struct label *l, const struct gw_run *r, size_t from, size_t to)
{
    const struct vote *v = l->votes.data;
    int64_t at = r->start;
    double off = 0, all = 0;
    for (size_t k = from; k < to; k++) {
        off += v[k].off * (double)v[k].ns;
        all += (double)v[k].ns;
        if (k + 1 < to && v[k + 1].cause == v[k].cause)
            continue;
        int64_t end = k + 1 < to ? gw_ev(l->an, v[k + 1].sample)->start : r->end;
        int64_t runs = at + (int64_t)((double)(end - at) * (1 - off / all));
        push(l, r, at, runs, v[k].cause, v[k].sample);
        push(l, r, runs, end, GW_CAUSE_OFF_CPU, v[k].sample);
        at = end;
        off = all = 0;
    }
}

/* By what its like did: the causes in the order and with the shares of the group. */
static void split_by_group(struct label *l, const struct gw_run *r, struct group *g)
{
    unsigned done = 0; /* bits of causes */
    int64_t at = r->start;
    for (;;) {
        unsigned best = GW_CAUSE_COUNT;
        for (unsigned c = 0; c < GW_CAUSE_COUNT; c++)
            if (g->share[c] > 0 && !(done >> c & 1) && (best == GW_CAUSE_COUNT || g->at[c] < g->at[best]))
                best = c;
        if (best == GW_CAUSE_COUNT)
            break;
        done |= 1u << best;
        int64_t end = at + (int64_t)(g->share[best] * (double)(r->end - r->start));
        push(l, r, at, end, best, pick(l, g, best));
        at = end < r->end ? end : r->end;
    }
    if (at < r->end && l->out.len) /* rounding */
        ((struct gw_run *)l->out.data)[l->out.len - 1].end = r->end;
}

static void rewrite(struct label *l, uint32_t run)
{
    const struct gw_run *r = l->dev->runs + run;
    struct group *g = l->group_of[run] == GW_NONE ? NULL : (struct group *)l->groups.data + l->group_of[run];
    const struct vote *v = l->votes.data;
    size_t from = 0, to = g ? votes_of(l, run, &from) : 0;
    int64_t covered = 0;
    for (size_t k = from; k < to; k++)
        covered += v[k].ns;
    struct group *like = g ? &l->pool[length_key(r)] : NULL;
    if (g && to > from && ((double)covered >= OWN_SHARE * (double)(r->end - r->start) || g->votes < ENOUGH))
        split_by_own(l, r, from, to);
    else if (g && g->votes >= ENOUGH)
        split_by_group(l, r, g);
    else if (like && like->votes >= ENOUGH)
        split_by_group(l, r, like);
    else
        push(l, r, r->start, r->end, r->label, r->leaf);
}

static int keep_runs(struct label *l)
{
    struct gw_run *runs = gw_arena_calloc(l->an->arena, l->out.len, sizeof *runs);
    if (!runs)
        return GW_ENOMEM;
    if (l->out.len)
        memcpy(runs, l->out.data, l->out.len * sizeof *runs);
    l->dev->runs = runs;
    l->dev->nruns = l->out.len;
    return GW_OK;
}

static int relabel(struct label *l)
{
    struct gw_dev *dev = l->dev;
    l->group_of = malloc((dev->nruns + 1) * sizeof *l->group_of);
    if (!l->group_of || collect_calls(l) < 0)
        return GW_ENOMEM;
    for (uint32_t i = 0; i < dev->nruns; i++) {
        l->group_of[i] = GW_NONE;
        if (dev->runs[i].label == GW_CAUSE_USER_CODE && l->ncalls)
            look_at(l, i);
    }
    make_groups(l, &l->members, 0);
    make_groups(l, &l->like, 1);
    for (uint32_t i = 0; i < dev->nruns && !l->oom; i++)
        rewrite(l, i);
    return l->oom ? GW_ENOMEM : keep_runs(l);
}

int gw_samples_label(struct gw_analysis *an, struct gw_dev *dev)
{
    if (!an->stacks)
        return GW_OK;
    struct label *p = calloc(1, sizeof *p); /* the pools are large */
    if (!p)
        return GW_ENOMEM;
    p->an = an;
    p->dev = dev;
    gw_array_init(&p->votes, sizeof(struct vote), 0);
    gw_array_init(&p->members, sizeof(struct member), 0);
    gw_array_init(&p->like, sizeof(struct member), 0);
    gw_array_init(&p->groups, sizeof(struct group), 0);
    gw_array_init(&p->out, sizeof(struct gw_run), 0);
    int rc = relabel(p);
    free(p->calls);
    free(p->group_of);
    gw_array_free(&p->votes);
    gw_array_free(&p->members);
    gw_array_free(&p->like);
    gw_array_free(&p->groups);
    gw_array_free(&p->out);
    free(p);
    return rc;
}
