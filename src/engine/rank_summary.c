#include "engine/rank_summary.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "engine/kernel_table.h"

#define MATCH_UP 8 /* ranges around a launch that may say which collective it is */

enum { ONE, RING1, RING2 };

static const struct {
    const char *name, *words;
    int sized, factor;
} colls[] = {
#define GW_COLL(sym, name, words, sized, factor) {name, words, sized, factor},
#include "engine/collectives.def"
#undef GW_COLL
};

const char *gw_coll_name(unsigned kind) { return colls[kind < GW_COLL_COUNT ? kind : 0].name; }
int gw_coll_sized(unsigned kind) { return kind < GW_COLL_COUNT && colls[kind].sized; }

double gw_coll_bus_factor(unsigned kind, int64_t ranks)
{
    int f = colls[kind < GW_COLL_COUNT ? kind : 0].factor;
    double n = ranks > 1 ? (double)ranks : 1;
    return f == RING2 ? 2 * (n - 1) / n : f == RING1 ? (n - 1) / n : 1;
}

const char *gw_did_id(unsigned did)
{
    return did == GW_DID_COMPUTE ? "computing" : did == GW_DID_COPY ? "copying" : gw_cause_id(did);
}

const char *gw_did_text(unsigned did)
{
    return did == GW_DID_COMPUTE ? N_("its GPU computes for longer")
           : did == GW_DID_COPY  ? N_("copies take longer, with nothing else running")
                                 : gw_cause_text(did);
}

/* Does `s` contain one of "a|b|c"? */
static int has_word(const char *s, const char *words)
{
    for (const char *w = words; *w;) {
        size_t n = strcspn(w, "|");
        char word[32];
        if (n && n < sizeof word) {
            memcpy(word, w, n);
            word[n] = 0;
            if (strstr(s, word))
                return 1;
        }
        w += n + (w[n] == '|');
    }
    return 0;
}

static unsigned kind_of_text(const char *text)
{
    char s[160];
    size_t n = 0;
    for (; text[n] && n < sizeof s - 1; n++)
        s[n] = (char)tolower((unsigned char)text[n]);
    s[n] = 0;
    for (unsigned k = 1; k < GW_COLL_COUNT; k++)
        if (has_word(s, colls[k].words))
            return k;
    return GW_COLL_OTHER;
}

/* ---- the file's rank ---- */

int64_t gw_rank_of_name(const char *path)
{
    static const char *const words[] = {"rank", "worker", "_r", "-r", ".r", "gpu", "-tp-", "device"};
    const char *base = strrchr(path, '/');
    char s[256];
    size_t len = 0;
    for (base = base ? base + 1 : path; base[len] && len < sizeof s - 1; len++)
        s[len] = (char)tolower((unsigned char)base[len]);
    s[len] = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (const char *p = s; (p = strstr(p, words[i])) != NULL; p++) {
            const char *d = p + strlen(words[i]);
            d += *d == '-' || *d == '_' || *d == '=' || *d == '.';
            char *end;
            if (!isdigit((unsigned char)*d))
                continue;
            long long v = strtoll(d, &end, 10);
            if (end - d <= 7 && !isalpha((unsigned char)*end))
                return v;
        }
    return -1;
}

/* ---- steps ---- */

struct gw_mark {
    int64_t at, number;
};

struct gw_sum { /* a summary being made */
    const struct gw_analysis *an;
    const struct gw_dev *dev;
    struct gw_arena *arena;
    struct gw_rank_summary *s;
    struct gw_array coll, parts; /* gw_rank_coll, gw_rank_part */
    struct gw_array spans;       /* compute without holes: pairs of int64_t */
    struct gw_intern *names;
    int64_t *number;          /* of each step, or NULL */
    uint32_t *name_id;        /* name of the trace -> name kept */
    int64_t *name_ns;         /* scratch: ns of each trace name in the interval */
    size_t kernel_at, gap_at; /* cursors */
};

static int cmp_mark(const void *a, const void *b)
{
    const struct gw_mark *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* The profiler's number of each step that was found, from the marks that begin them. */
static int number_steps(struct gw_sum *m)
{
    const struct gw_steps *st = &m->an->steps;
    const struct gw_trace *t = m->an->t;
    if (!st->host || !st->count || strcmp(st->found_by, "annotation") != 0)
        return GW_OK;
    struct gw_array marks;
    gw_array_init(&marks, sizeof(struct gw_mark), 0);
    int rc = GW_ENOMEM;
    for (size_t i = 0; i < t->events.len; i++) {
        const struct gw_event *e = gw_trace_event(t, (uint32_t)i);
        if (!gw_kind_is_host(e->kind) || !m->an->names[e->name].step)
            continue;
        struct gw_mark *k = gw_array_push(&marks);
        if (!k)
            goto out;
        const char *digits = strrchr(gw_trace_text(t, e->name), '#');
        *k = (struct gw_mark){e->start, digits ? strtoll(digits + 1, NULL, 10) : -1};
    }
    rc = GW_OK;
    if (!marks.len)
        goto out;
    qsort(marks.data, marks.len, sizeof(struct gw_mark), cmp_mark);
    m->number = calloc(st->count, sizeof *m->number);
    if (!m->number) {
        rc = GW_ENOMEM;
        goto out;
    }
    m->s->numbered = 1;
    for (size_t i = 0; i < st->count; i++) {
        struct gw_mark key = {st->host[i], 0};
        const struct gw_mark *k = bsearch(&key, marks.data, marks.len, sizeof key, cmp_mark);
        m->number[i] = k ? k->number : -1;
        m->s->numbered &= k && k->number >= 0;
    }
out:
    gw_array_free(&marks);
    return rc;
}

/* Index of the step that issued a collective; -1 before the first. By the launching call where it is known: program
 * order is the same on all ranks, the GPU's is not. */
static int64_t step_of(const struct gw_analysis *an, const struct gw_event *e)
{
    const struct gw_steps *st = &an->steps;
    int by_host = st->host && e->link != GW_NONE;
    const int64_t *at = by_host ? st->host : st->bound;
    int64_t when = by_host ? gw_ev(an, e->link)->start : e->start;
    size_t lo = 0, hi = st->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (at[mid] <= when)
            lo = mid + 1;
        else
            hi = mid;
    }
    return (int64_t)lo - 1;
}

/* ---- what ran ---- */

static int is_comm(const struct gw_analysis *an, const struct gw_event *e)
{
    return e->kind == GW_KIND_KERNEL && an->names[e->name].kclass == GW_K_COMM;
}

static int is_compute(const struct gw_analysis *an, const struct gw_event *e)
{
    return (e->kind == GW_KIND_KERNEL || e->kind == GW_KIND_GRAPH) && !is_comm(an, e);
}

static int find_spans(struct gw_sum *m)
{
    int64_t *last = NULL;
    for (size_t i = 0; i < m->dev->nops; i++) {
        const struct gw_event *e = gw_ev(m->an, m->dev->ops[i]);
        if (!is_compute(m->an, e) || e->end == e->start)
            continue;
        if (last && e->start <= last[1]) {
            last[1] = e->end > last[1] ? e->end : last[1];
            continue;
        }
        last = gw_array_push(&m->spans);
        if (!last)
            return GW_ENOMEM;
        last[0] = e->start;
        last[1] = e->end;
    }
    return GW_OK;
}

/* ns of compute in [a, b). */
static int64_t compute_in(const struct gw_sum *m, int64_t a, int64_t b)
{
    const int64_t(*s)[2] = m->spans.data;
    size_t lo = 0, hi = m->spans.len;
    int64_t ns = 0;
    while (lo < hi) { /* first span that ends after a */
        size_t mid = lo + (hi - lo) / 2;
        if (s[mid][1] <= a)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < m->spans.len && s[lo][0] < b; lo++)
        ns += (s[lo][1] < b ? s[lo][1] : b) - (s[lo][0] > a ? s[lo][0] : a);
    return ns;
}

static uint32_t keep_name(struct gw_sum *m, uint32_t name, int kernel)
{
    if (!m->name_id[name]) {
        const char *s = gw_trace_text(m->an->t, name);
        if (kernel)
            s = gw_names_short_kernel(s, m->arena);
        m->name_id[name] = gw_intern_add(m->names, s, strlen(s));
    }
    return m->name_id[name];
}

/* A host event for people: the user's own line around it, else itself. */
static uint32_t culprit_name(struct gw_sum *m, uint32_t event)
{
    if (event == GW_NONE)
        return 0;
    for (uint32_t u = event; u != GW_NONE; u = gw_ev(m->an, u)->up)
        if (gw_ev(m->an, u)->kind == GW_KIND_PYFUNC && gw_ev_info(m->an, u)->user_frame)
            return keep_name(m, gw_ev(m->an, u)->name, 0);
    return keep_name(m, gw_ev(m->an, event)->name, 0);
}

/* Kernels that start in [from, to): how many, and the name with most time. */
static uint32_t top_kernel(struct gw_sum *m, int64_t from, int64_t to, uint32_t *count)
{
    size_t first = m->kernel_at;
    uint32_t best = 0;
    while (first < m->dev->nops && gw_ev(m->an, m->dev->ops[first])->start < from)
        first++;
    size_t i = first;
    for (; i < m->dev->nops && gw_ev(m->an, m->dev->ops[i])->start < to; i++) {
        const struct gw_event *e = gw_ev(m->an, m->dev->ops[i]);
        if (!is_compute(m->an, e))
            continue;
        ++*count;
        m->name_ns[e->name] += e->end - e->start;
        if (!best || m->name_ns[e->name] > m->name_ns[best])
            best = e->name;
    }
    for (size_t k = first; k < i; k++)
        m->name_ns[gw_ev(m->an, m->dev->ops[k])->name] = 0;
    m->kernel_at = i;
    return best ? keep_name(m, best, 1) : 0;
}

struct gw_did_sum {
    int64_t ns, most;
    uint32_t culprit;
};

/* Idle time of [from, to) by cause, with the culprit of the longest piece; intervals come in order of time. */
static int64_t idle_in(struct gw_sum *m, int64_t from, int64_t to, struct gw_did_sum sum[GW_CAUSE_COUNT])
{
    const struct gw_dev *d = m->dev;
    int64_t all = 0;
    while (m->gap_at < d->ngaps && d->gaps[m->gap_at].end <= from)
        m->gap_at++;
    for (size_t g = m->gap_at; g < d->ngaps && d->gaps[g].start < to; g++) {
        int64_t at = d->gaps[g].start;
        for (uint32_t k = 0; k < d->gaps[g].pieces; k++) {
            const struct gw_piece *p = d->pieces + d->gaps[g].first_piece + k;
            int64_t a = at > from ? at : from, e = at + p->ns < to ? at + p->ns : to;
            at += p->ns;
            if (e <= a)
                continue;
            struct gw_did_sum *s = sum + p->cause;
            s->ns += e - a;
            all += e - a;
            if (e - a > s->most) {
                s->most = e - a;
                s->culprit = p->culprit;
            }
        }
    }
    return all;
}

static int add_part(struct gw_sum *m, struct gw_rank_coll *c, unsigned did, int64_t ns, uint32_t top)
{
    if (ns <= 0)
        return GW_OK;
    struct gw_rank_part *p = gw_array_push(&m->parts);
    if (!p)
        return GW_ENOMEM;
    *p = (struct gw_rank_part){.ns = ns, .did = did, .top = top};
    c->parts++;
    return GW_OK;
}

/* What the device did in [from, to), the time from one collective's start to the next one's. `covered`: ns in it in
 * which a collective ran and nothing else did. */
static int describe(struct gw_sum *m, struct gw_rank_coll *c, int64_t from, int64_t to, int64_t covered)
{
    struct gw_did_sum sum[GW_CAUSE_COUNT];
    memset(sum, 0, sizeof sum);
    c->first_part = (uint32_t)m->parts.len;
    int64_t compute = compute_in(m, from, to), idle = idle_in(m, from, to, sum);
    uint32_t top = top_kernel(m, from, to, &c->kernels);
    int rc = add_part(m, c, GW_DID_COMPUTE, compute, top);
    if (rc == GW_OK)
        rc = add_part(m, c, GW_DID_COPY, to - from - compute - idle - covered, 0);
    for (unsigned k = 0; rc == GW_OK && k < GW_CAUSE_COUNT; k++)
        rc = add_part(m, c, k, sum[k].ns, sum[k].ns ? culprit_name(m, sum[k].culprit) : 0);
    return rc;
}

/* ---- collectives ---- */

static unsigned kind_of(const struct gw_analysis *an, const struct gw_event *e)
{
    unsigned kind = kind_of_text(gw_trace_text(an->t, e->name));
    if ((kind != GW_COLL_SEND_RECV && kind != GW_COLL_OTHER) || e->link == GW_NONE)
        return kind;
    uint32_t u = gw_ev(an, e->link)->up;
    for (int i = 0; i < MATCH_UP && u != GW_NONE; i++, u = gw_ev(an, u)->up)
        if (an->names[gw_ev(an, u)->name].ctx & GW_CTX_COMM) {
            unsigned k = kind_of_text(gw_ev_name(an, u));
            if (k != GW_COLL_OTHER)
                return k;
        }
    return kind;
}

static int wanted(const struct gw_sum *m, const struct gw_event *e, int64_t *step)
{
    const struct gw_steps *st = &m->an->steps;
    *step = -1;
    if (st->count < 2 || st->steady_last <= st->steady_first)
        return e->start >= m->an->w0 && e->start < m->an->w1;
    int64_t k = step_of(m->an, e);
    if (k < (int64_t)st->steady_first || k >= (int64_t)st->steady_last)
        return 0;
    *step = m->number && m->s->numbered ? m->number[k] : k;
    return 1;
}

/* Communication that nothing hides in [a, b). A collective started at `a`, and `until` is the latest end of all that
 * started by then: they run without a hole from `a` to `until`. */
static int64_t covered_in(const struct gw_sum *m, int64_t a, int64_t b, int64_t until)
{
    int64_t e = until < b ? until : b;
    return e > a ? e - a - compute_in(m, a, e) : 0;
}

static int add_collective(struct gw_sum *m, const struct gw_event *e, int64_t step, int64_t from, int64_t covered,
                          int cold)
{
    struct gw_rank_coll *c = gw_array_push(&m->coll);
    if (!c)
        return GW_ENOMEM;
    int sized = (e->flags & GW_EV_HAS_ARG1) && e->arg1 <= INT64_MAX;
    *c = (struct gw_rank_coll){.start = e->start,
                               .end = e->end,
                               .step = step,
                               .kind = (uint16_t)kind_of(m->an, e),
                               .bytes = sized ? (int64_t)e->arg1 : -1,
                               .exposed = e->end - e->start - compute_in(m, e->start, e->end),
                               .cold = (uint16_t)cold};
    return describe(m, c, from, e->start, covered);
}

static int find_collectives(struct gw_sum *m)
{
    int64_t before = m->dev->whole.start, until = INT64_MIN; /* start of the last collective; latest end so far */
    int cold = 1;
    for (size_t i = 0; i < m->dev->nops; i++) {
        const struct gw_event *e = gw_ev(m->an, m->dev->ops[i]);
        int64_t step;
        if (!is_comm(m->an, e))
            continue;
        if (wanted(m, e, &step) && e->end > e->start) {
            if (m->coll.len >= GW_RANK_COLLS_MAX)
                m->s->dropped++;
            else if (add_collective(m, e, step, before, covered_in(m, before, e->start, until), cold) < 0)
                return GW_ENOMEM;
        }
        cold = 0;
        before = e->start;
        until = e->end > until ? e->end : until;
    }
    return GW_OK;
}

/* ---- the summary ---- */

static void *keep_array(struct gw_arena *arena, const struct gw_array *arr)
{
    void *p = gw_arena_calloc(arena, arr->len, arr->size);
    if (p && arr->len)
        memcpy(p, arr->data, arr->len * arr->size);
    return p;
}

static int cmp_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int fill_steps(struct gw_sum *m)
{
    const struct gw_steps *st = &m->an->steps;
    size_t n = st->count >= 2 ? st->steady_last - st->steady_first : 0;
    m->s->median_step_ns = -1;
    if (!n)
        return GW_OK;
    int64_t *v = calloc(n, sizeof *v);
    if (!v)
        return GW_ENOMEM;
    for (size_t i = 0; i < n; i++)
        v[i] = st->bound[st->steady_first + i + 1] - st->bound[st->steady_first + i];
    qsort(v, n, sizeof *v, cmp_i64);
    m->s->steps = (int64_t)n;
    m->s->median_step_ns = v[n / 2];
    free(v);
    return GW_OK;
}

static int fill_facts(struct gw_sum *m, const char *path)
{
    struct gw_rank_summary *s = m->s;
    const struct gw_facts *f = &m->an->t->facts;
    struct gw_kernel_table k;
    s->path = gw_arena_strdup(m->arena, path);
    s->gpu = gw_arena_strdup(m->arena, gw_trace_text(m->an->t, m->dev->info->name));
    s->host = gw_arena_strdup(m->arena, f->host ? f->host : "");
    if (!s->path || !s->gpu || !s->host || gw_kernel_table(m->an, m->dev, m->arena, &k) < 0)
        return GW_ENOMEM;
    s->kernels = k.rows;
    s->kernel_count = k.count;
    s->rank = f->rank >= 0 ? f->rank : gw_rank_of_name(path);
    s->world_size = f->world_size;
    s->device = m->dev->info->id;
    s->window = m->dev->steady;
    memcpy(s->did, m->dev->cause_ns, sizeof m->dev->cause_ns);
    s->did[GW_DID_COMPUTE] = m->dev->steady.compute;
    s->did[GW_DID_COPY] = m->dev->steady.copy_exposed;
    return fill_steps(m);
}

static int keep_names(struct gw_sum *m)
{
    uint32_t n = gw_intern_count(m->names);
    const char **out = gw_arena_calloc(m->arena, (size_t)n + 1, sizeof *out);
    for (uint32_t i = 0; out && i <= n; i++)
        if (!(out[i] = gw_arena_strdup(m->arena, gw_intern_text(m->names, i))))
            return GW_ENOMEM;
    m->s->names = out;
    return out ? GW_OK : GW_ENOMEM;
}

struct gw_rank_summary *gw_rank_summarise(const struct gw_analysis *an, const struct gw_dev *dev, const char *path,
                                          struct gw_arena *arena)
{
    uint32_t n = gw_intern_count(an->t->names);
    struct gw_sum m = {.an = an, .dev = dev, .arena = arena, .names = gw_intern_create()};
    struct gw_rank_summary *done = NULL;
    gw_array_init(&m.coll, sizeof(struct gw_rank_coll), 0);
    gw_array_init(&m.parts, sizeof(struct gw_rank_part), UINT32_MAX - 1);
    gw_array_init(&m.spans, 2 * sizeof(int64_t), 0);
    m.s = gw_arena_alloc(arena, sizeof *m.s);
    m.name_id = calloc((size_t)n + 1, sizeof *m.name_id);
    m.name_ns = calloc((size_t)n + 1, sizeof *m.name_ns);
    if (!m.s || !m.names || !m.name_id || !m.name_ns || fill_facts(&m, path) < 0 || number_steps(&m) < 0 ||
        find_spans(&m) < 0 || find_collectives(&m) < 0 || keep_names(&m) < 0)
        goto out;
    m.s->coll = keep_array(arena, &m.coll);
    m.s->ncoll = m.coll.len;
    m.s->parts = keep_array(arena, &m.parts);
    if (m.s->coll && m.s->parts)
        done = m.s;
out:
    gw_array_free(&m.coll);
    gw_array_free(&m.parts);
    gw_array_free(&m.spans);
    gw_intern_destroy(m.names);
    free(m.number);
    free(m.name_id);
    free(m.name_ns);
    return done;
}
