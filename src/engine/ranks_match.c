#include "engine/ranks_match.h"

#include <stdlib.h>
#include <string.h>

/* Ends of one collective on the ranks of one group: 3 to 7 us apart on eight V100 under torch.profiler; other groups
 * differ by what the ranks differ, which is longer wherever waiting matters. */
#define TOGETHER_NS 50000
#define TOGETHER_SHARE 0.05 /* of the transfer: long rings end less evenly */
#define SAMPLE 512          /* pairs looked at to judge a match */
#define SHIFT_MAX 64        /* beyond the difference in length */
#define PAIRED 0.6          /* share of the shorter list that must find a partner */

struct gw_side { /* one rank's collectives of one class, in order */
    const struct gw_rank_summary *s;
    const uint32_t *idx;
    size_t n;
};

struct gw_pair {
    uint32_t a, b; /* positions in two sides */
};

struct gw_matching {
    struct gw_matches *m;
    const struct gw_rank_summary *const *list;
    uint32_t **cls_of;     /* [rank][collective] -> class */
    uint32_t *idx;         /* [rank]: the collectives of the class at hand, one after the other */
    struct gw_side *side;  /* [rank] */
    int64_t *offset;       /* clock of a rank minus that of rank 0 */
    unsigned char *known;  /* is it? */
    struct gw_array pairs; /* struct gw_pair */
    int64_t *scratch;      /* SAMPLE */
};

static const struct gw_rank_coll *at(const struct gw_side *s, size_t i) { return s->s->coll + s->idx[i]; }

static int cmp_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* ---- classes ---- */

static int class_of(struct gw_matches *m, const struct gw_rank_coll *c, uint32_t *hint, uint32_t *out)
{
    int64_t bytes = gw_coll_sized(c->kind) ? c->bytes : -1;
    struct gw_ranks_class *k = m->classes.data;
    if (*hint < m->classes.len && k[*hint].kind == c->kind && k[*hint].bytes == bytes) {
        *out = *hint;
        return GW_OK;
    }
    for (size_t i = 0; i < m->classes.len; i++)
        if (k[i].kind == c->kind && k[i].bytes == bytes) {
            *out = *hint = (uint32_t)i;
            return GW_OK;
        }
    k = gw_array_push(&m->classes);
    if (!k)
        return GW_ENOMEM;
    *k = (struct gw_ranks_class){.kind = c->kind, .bytes = bytes};
    *out = *hint = (uint32_t)(m->classes.len - 1);
    return GW_OK;
}

static int classify(struct gw_matching *g)
{
    for (size_t r = 0; r < g->m->n; r++) {
        uint32_t hint = 0;
        g->cls_of[r] = calloc(g->list[r]->ncoll + 1, sizeof **g->cls_of);
        if (!g->cls_of[r])
            return GW_ENOMEM;
        for (size_t i = 0; i < g->list[r]->ncoll; i++)
            if (class_of(g->m, g->list[r]->coll + i, &hint, g->cls_of[r] + i) < 0)
                return GW_ENOMEM;
    }
    return GW_OK;
}

/* The sides of class `cls`, and how many collectives they hold together. */
static size_t sides_of(struct gw_matching *g, uint32_t cls)
{
    uint32_t *p = g->idx;
    for (size_t r = 0; r < g->m->n; r++) {
        g->side[r] = (struct gw_side){.s = g->list[r], .idx = p};
        for (size_t i = 0; i < g->list[r]->ncoll; i++)
            if (g->cls_of[r][i] == cls) {
                *p++ = (uint32_t)i;
                g->side[r].n++;
            }
    }
    return (size_t)(p - g->idx);
}

/* ---- two ranks ---- */

static int add_pair(struct gw_matching *g, size_t a, size_t b)
{
    struct gw_pair *p = gw_array_push(&g->pairs);
    if (!p)
        return GW_ENOMEM;
    *p = (struct gw_pair){(uint32_t)a, (uint32_t)b};
    return GW_OK;
}

/* Step by step, in order; a step with a different number on the two ranks is left out. */
static int pair_by_step(struct gw_matching *g, const struct gw_side *a, const struct gw_side *b)
{
    size_t i = 0, k = 0;
    while (i < a->n && k < b->n) {
        int64_t sa = at(a, i)->step, sb = at(b, k)->step;
        if (sa != sb) {
            *(sa < sb ? &i : &k) += 1;
            continue;
        }
        size_t ea = i, eb = k;
        while (ea < a->n && at(a, ea)->step == sa)
            ea++;
        while (eb < b->n && at(b, eb)->step == sa)
            eb++;
        for (; ea - i == eb - k && i < ea; i++, k++)
            if (add_pair(g, i, k) < 0)
                return GW_ENOMEM;
        i = ea;
        k = eb;
    }
    return GW_OK;
}

/* How far the ends of paired collectives differ once a constant is taken out, ns: three in four differ by no more. Also
 * the constant, and the mean of the shorter durations. INT64_MAX without pairs. */
static int64_t spread_of(struct gw_matching *g, const struct gw_side *a, const struct gw_side *b,
                         const struct gw_pair *p, size_t n, int64_t *offset, int64_t *transfer)
{
    int64_t *v = g->scratch, sum = 0;
    size_t every = (n + SAMPLE - 1) / SAMPLE, k = 0;
    if (!n)
        return INT64_MAX;
    for (size_t i = 0; i < n; i += every) {
        const struct gw_rank_coll *x = at(a, p[i].a), *y = at(b, p[i].b);
        int64_t dx = x->end - x->start, dy = y->end - y->start;
        v[k++] = y->end - x->end;
        sum += (dx < dy ? dx : dy) / (int64_t)((n + every - 1) / every);
    }
    qsort(v, k, sizeof *v, cmp_i64);
    *offset = v[k / 2];
    *transfer = sum;
    for (size_t i = 0; i < k; i++)
        v[i] = v[i] > *offset ? v[i] - *offset : *offset - v[i];
    qsort(v, k, sizeof *v, cmp_i64);
    return v[k * 3 / 4];
}

static int64_t tolerance(int64_t transfer)
{
    int64_t t = (int64_t)((double)transfer * TOGETHER_SHARE);
    return t > TOGETHER_NS ? t : TOGETHER_NS;
}

/* Pairs by order, b shifted by `d` against a. */
static int pair_shifted(struct gw_matching *g, const struct gw_side *a, const struct gw_side *b, int64_t d, size_t most)
{
    g->pairs.len = 0;
    size_t from = d < 0 ? (size_t)-d : 0;
    for (size_t i = from; i < a->n && (size_t)((int64_t)i + d) < b->n && g->pairs.len < most; i++)
        if (add_pair(g, i, (size_t)((int64_t)i + d)) < 0)
            return GW_ENOMEM;
    return GW_OK;
}

/* Without step numbers: the shift at which the ends fit best; none when the lists are alike and fit as they are. */
static int pair_by_order(struct gw_matching *g, const struct gw_side *a, const struct gw_side *b)
{
    int64_t diff = (int64_t)b->n - (int64_t)a->n, off, transfer, best = 0;
    int64_t low = (diff < 0 ? diff : 0) - SHIFT_MAX, high = (diff > 0 ? diff : 0) + SHIFT_MAX, least;
    size_t need = (a->n < b->n ? a->n : b->n) / 2;
    if (pair_shifted(g, a, b, 0, SAMPLE) < 0)
        return GW_ENOMEM;
    least = spread_of(g, a, b, g->pairs.data, g->pairs.len, &off, &transfer);
    if (!(diff == 0 && least <= tolerance(transfer)))
        for (int64_t d = low; d <= high; d++) {
            if (pair_shifted(g, a, b, d, SAMPLE) < 0)
                return GW_ENOMEM;
            if (g->pairs.len < 3 || g->pairs.len < (need < SAMPLE ? need : SAMPLE))
                continue;
            int64_t s = spread_of(g, a, b, g->pairs.data, g->pairs.len, &off, &transfer);
            if (s < least) {
                least = s;
                best = d;
            }
        }
    return pair_shifted(g, a, b, best, SIZE_MAX);
}

/* Pairs the two sides. 1 = they belong together, 0 = not, or GW_ENOMEM. */
static int pair_up(struct gw_matching *g, size_t ra, size_t rb)
{
    const struct gw_side *a = g->side + ra, *b = g->side + rb;
    int64_t off = 0, transfer = 0;
    g->pairs.len = 0;
    if ((g->m->numbered ? pair_by_step(g, a, b) : pair_by_order(g, a, b)) < 0)
        return GW_ENOMEM;
    size_t n = g->pairs.len, less = a->n < b->n ? a->n : b->n;
    if (!n || (double)n < PAIRED * (double)less)
        return 0;
    int64_t spread = spread_of(g, a, b, g->pairs.data, n, &off, &transfer);
    if (g->known[ra] && g->known[rb]) { /* the clocks are known: another group may be off by a constant too */
        int64_t wrong = off - (g->offset[rb] - g->offset[ra]);
        wrong = wrong < 0 ? -wrong : wrong;
        spread = wrong > tolerance(transfer) ? wrong : spread;
    }
    if (spread > tolerance(transfer))
        return 0;
    if (n > 2 && g->known[ra] && !g->known[rb]) {
        g->offset[rb] = g->offset[ra] + off;
        g->known[rb] = 1;
    }
    g->m->spread = n > 1 && spread > g->m->spread ? spread : g->m->spread;
    return 1;
}

/* ---- groups ---- */

struct gw_group {
    uint32_t *partner; /* [rank][position on the reference] */
    unsigned char *in; /* [rank] */
    size_t members;
};

/* Rows for the collectives that all members of the group have. */
static int add_rows(struct gw_matching *g, uint32_t cls, size_t ref, const struct gw_group *q)
{
    size_t n = g->m->n, count = g->side[ref].n;
    for (size_t i = 0; i < count; i++) {
        int whole = 1;
        for (size_t r = 0; r < n && whole; r++)
            whole = !q->in[r] || q->partner[r * count + i] != GW_NONE;
        if (!whole)
            continue;
        uint32_t *row = gw_array_push(&g->m->rows), *c = gw_array_push(&g->m->cls);
        if (!row || !c)
            return GW_ENOMEM;
        *c = cls;
        for (size_t r = 0; r < n; r++)
            row[r] = q->in[r] ? g->side[r].idx[q->partner[r * count + i]] : GW_NONE;
    }
    return GW_OK;
}

/* The ranks that end together with `ref` and are in no group yet. */
static int find_group(struct gw_matching *g, size_t ref, unsigned char *taken, struct gw_group *q)
{
    size_t n = g->m->n, count = g->side[ref].n;
    memset(q->in, 0, n);
    for (size_t i = 0; i < n * count; i++)
        q->partner[i] = GW_NONE;
    for (size_t i = 0; i < count; i++)
        q->partner[ref * count + i] = (uint32_t)i;
    q->in[ref] = taken[ref] = 1;
    q->members = 1;
    for (size_t r = ref + 1; r < n; r++) {
        if (taken[r] || !g->side[r].n)
            continue;
        int together = pair_up(g, ref, r);
        if (together < 0)
            return GW_ENOMEM;
        if (!together)
            continue;
        const struct gw_pair *p = g->pairs.data;
        for (size_t i = 0; i < g->pairs.len; i++)
            q->partner[r * count + p[i].a] = p[i].b;
        q->in[r] = taken[r] = 1;
        q->members++;
    }
    return GW_OK;
}

static int match_class(struct gw_matching *g, uint32_t cls)
{
    size_t n = g->m->n;
    struct gw_ranks_class *k = (struct gw_ranks_class *)g->m->classes.data + cls;
    unsigned char *taken = calloc(n, 2);
    int rc = taken ? GW_OK : GW_ENOMEM;
    sides_of(g, cls);
    for (size_t ref = 0; rc == GW_OK && ref < n; ref++) {
        if (taken[ref] || !g->side[ref].n)
            continue;
        struct gw_group q = {.in = taken + n, .partner = calloc(n * g->side[ref].n, sizeof *q.partner)};
        rc = q.partner ? find_group(g, ref, taken, &q) : GW_ENOMEM;
        if (rc == GW_OK && q.members > 1)
            rc = add_rows(g, cls, ref, &q);
        if (q.members > 1 && (int64_t)q.members > k->ranks)
            k->ranks = (int64_t)q.members;
        free(q.partner);
    }
    free(taken);
    return rc;
}

struct gw_order {
    uint32_t cls;
    int64_t spread; /* of its ends, rank 0 against the others; the largest */
    size_t count;
};

static int cmp_order(const void *a, const void *b)
{
    const struct gw_order *x = a, *y = b;
    if (x->spread != y->spread)
        return x->spread < y->spread ? -1 : 1;
    return x->count != y->count ? (x->count > y->count ? -1 : 1) : (x->cls > y->cls) - (x->cls < y->cls);
}

/* How well a class fits as a collective of all ranks. */
static int rate(struct gw_matching *g, struct gw_order *o)
{
    o->count = sides_of(g, o->cls);
    for (size_t r = 1; r < g->m->n; r++) {
        int64_t off, transfer, s = INT64_MAX;
        g->pairs.len = 0;
        if ((g->m->numbered ? pair_by_step(g, g->side, g->side + r) : pair_by_order(g, g->side, g->side + r)) < 0)
            return GW_ENOMEM;
        if (g->pairs.len > 2)
            s = spread_of(g, g->side, g->side + r, g->pairs.data, g->pairs.len, &off, &transfer);
        o->spread = s > o->spread ? s : o->spread;
    }
    return GW_OK;
}

/* The class whose ends fit best goes first: it settles the offsets of the clocks, by which the others are judged. */
static int match_all(struct gw_matching *g)
{
    size_t n = g->m->classes.len;
    struct gw_order *o = calloc(n + 1, sizeof *o);
    int rc = o ? GW_OK : GW_ENOMEM;
    for (size_t i = 0; rc == GW_OK && i < n; i++) {
        o[i].cls = (uint32_t)i;
        rc = rate(g, o + i);
    }
    if (rc == GW_OK && n)
        qsort(o, n, sizeof *o, cmp_order);
    for (size_t i = 0; rc == GW_OK && i < n; i++)
        rc = match_class(g, o[i].cls);
    free(o);
    return rc;
}

int gw_matches_find(struct gw_matches *m, const struct gw_rank_summary *const *list, size_t n)
{
    struct gw_matching g = {.m = m, .list = list};
    size_t all = 0;
    int rc = GW_ENOMEM;
    *m = (struct gw_matches){.n = n, .numbered = 1};
    gw_array_init(&m->rows, n * sizeof(uint32_t), 0);
    gw_array_init(&m->cls, sizeof(uint32_t), 0);
    gw_array_init(&m->classes, sizeof(struct gw_ranks_class), 65536);
    gw_array_init(&g.pairs, sizeof(struct gw_pair), 0);
    for (size_t r = 0; r < n; r++) {
        all += list[r]->ncoll;
        m->numbered &= list[r]->numbered;
    }
    g.cls_of = calloc(n, sizeof *g.cls_of);
    g.idx = calloc(all + 1, sizeof *g.idx);
    g.side = calloc(n, sizeof *g.side);
    g.offset = calloc(n, sizeof *g.offset);
    g.known = calloc(n, 1);
    g.scratch = calloc(SAMPLE + 1, sizeof *g.scratch);
    if (!g.cls_of || !g.idx || !g.side || !g.offset || !g.known || !g.scratch)
        goto out;
    g.known[0] = 1;
    if (classify(&g) < 0 || match_all(&g) < 0)
        goto out;
    rc = GW_OK;
out:
    for (size_t r = 0; g.cls_of && r < n; r++)
        free(g.cls_of[r]);
    free(g.cls_of);
    free(g.idx);
    free(g.side);
    free(g.offset);
    free(g.known);
    free(g.scratch);
    gw_array_free(&g.pairs);
    return rc;
}

void gw_matches_free(struct gw_matches *m)
{
    gw_array_free(&m->rows);
    gw_array_free(&m->cls);
    gw_array_free(&m->classes);
}
