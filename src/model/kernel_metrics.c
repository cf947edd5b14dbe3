#include "model/kernel_metrics.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "model/trace.h"

static const struct {
    const char *id, *unit;
} words[] = {
#define GW_KM(sym, id, unit, text) {id, unit},
#include "model/kernel_metrics.def"
#undef GW_KM
};

const char *gw_km_id(unsigned k) { return k < GW_KM_COUNT ? words[k].id : "unknown"; }
const char *gw_km_unit(unsigned k) { return k < GW_KM_COUNT ? words[k].unit : ""; }

size_t gw_kernel_metrics_count(const struct gw_trace *t) { return t->kernel_metrics.len; }
const struct gw_kernel_metrics *gw_kernel_metrics_at(const struct gw_trace *t, size_t i)
{
    return (const struct gw_kernel_metrics *)t->kernel_metrics.data + i;
}

static void mix(struct gw_kernel_metrics *row, enum gw_km k, double value, double weight)
{
    double sum = row->weight[k] + weight;
    if (sum > 0)
        row->value[k] += (value - row->value[k]) * (weight / sum);
    row->weight[k] = sum;
}

/* The row of a name, made when it is new. NULL: no memory, or the cap (then *full). */
static struct gw_kernel_metrics *row_of(struct gw_trace *t, uint32_t name, int *full)
{
    *full = 0;
    if (!t->kernel_metrics.size) {
        gw_array_init(&t->kernel_metrics, sizeof(struct gw_kernel_metrics), GW_KERNEL_METRICS_MAX);
        gw_array_init(&t->kernel_rows, sizeof(uint32_t), 0);
    }
    while (t->kernel_rows.len <= name)
        if (!gw_array_push(&t->kernel_rows))
            return NULL;
    uint32_t *at = (uint32_t *)t->kernel_rows.data + name;
    if (!*at) {
        struct gw_kernel_metrics *row = gw_array_push(&t->kernel_metrics);
        if (!row) {
            *full = t->kernel_metrics.len >= GW_KERNEL_METRICS_MAX;
            return NULL;
        }
        row->name = name;
        row->duration_ns = -1;
        *at = (uint32_t)t->kernel_metrics.len;
    }
    return (struct gw_kernel_metrics *)t->kernel_metrics.data + (*at - 1);
}

/* Adds up; stops at 142 years. */
static void longer(struct gw_kernel_metrics *row, double ns)
{
    double sum = (row->duration_ns < 0 ? 0 : (double)row->duration_ns) + ns;
    row->duration_ns = sum < 4.5e18 ? (int64_t)(sum + 0.5) : (int64_t)4500000000000000000;
}

int gw_kernel_metrics_add(struct gw_trace *t, uint32_t name, const struct gw_kernel_sample *s)
{
    int full;
    if (!name)
        return GW_EUSAGE;
    struct gw_kernel_metrics *row = row_of(t, name, &full);
    if (!row) {
        if (full)
            gw_trace_lose(t, GW_LOSS_MEMORY_CAP, s->launches, -1);
        return full ? GW_OK : GW_ENOMEM;
    }
    int timed = s->duration_ns > 0 && s->duration_ns < 1e15; /* 11 days: not a kernel */
    double weight = (timed ? s->duration_ns : 1) * (double)s->launches;
    row->launches += s->launches;
    if (timed)
        longer(row, weight);
    for (int k = 0; k < GW_KM_COUNT; k++)
        if (isfinite(s->value[k]))
            mix(row, (enum gw_km)k, s->value[k], weight);
    return GW_OK;
}

static void merge(struct gw_kernel_metrics *into, const struct gw_kernel_metrics *m)
{
    into->launches += m->launches;
    if (m->duration_ns >= 0)
        longer(into, (double)m->duration_ns);
    for (int k = 0; k < GW_KM_COUNT; k++)
        if (m->weight[k] > 0)
            mix(into, (enum gw_km)k, m->value[k], m->weight[k]);
}

int gw_kernel_metrics_copy(struct gw_trace *to, const struct gw_trace *from)
{
    for (size_t i = 0; i < gw_kernel_metrics_count(from); i++) {
        const struct gw_kernel_metrics *m = gw_kernel_metrics_at(from, i);
        int full;
        uint32_t name = gw_trace_name(to, gw_trace_text(from, m->name), gw_intern_len(from->names, m->name));
        struct gw_kernel_metrics *row = name ? row_of(to, name, &full) : NULL;
        if (!row)
            return GW_ENOMEM;
        merge(row, m);
    }
    return GW_OK;
}

/* What may stand in a name before the parameters and looks like a bracket. */
static size_t skipped(const char *s)
{
    static const char *const anonymous[] = {"(anonymous namespace)::", "<unnamed>::"};
    for (size_t i = 0; i < 2; i++)
        if (!strncmp(s, anonymous[i], strlen(anonymous[i])))
            return strlen(anonymous[i]);
    return 0;
}

size_t gw_kernel_base_name(const char *name, char *buf, size_t cap)
{
    size_t n = 0;
    int depth = 0;
    if (!cap)
        return 0;
    for (const char *p = name; *p; p++) {
        size_t skip = skipped(p);
        if (skip) {
            p += skip - 1;
        } else if (*p == '<') {
            depth++;
        } else if (*p == '>') {
            depth -= depth > 0;
        } else if (depth == 0 && *p == '(') {
            break;
        } else if (depth == 0 && *p == ' ') {
            n = 0; /* that was the return type */
        } else if (depth == 0 && n + 1 < cap) {
            buf[n++] = *p;
        }
    }
    buf[n] = 0;
    return n;
}

/* "(int)", "(unsigned long)" before a number: ncu writes template arguments with their type. The length, 0 = none. */
static size_t cast_before_number(const char *s)
{
    size_t n = 1;
    if (s[0] != '(')
        return 0;
    while (s[n] == ' ' || s[n] == '_' || s[n] == ':' || isalnum((unsigned char)s[n]))
        n++;
    return s[n] == ')' && (isdigit((unsigned char)s[n + 1]) || s[n + 1] == '-') ? n + 1 : 0;
}

/* "true", "false" as a whole word: the digit that stands for it, else 0. */
static char truth(const char *s, size_t *len)
{
    *len = !strncmp(s, "true", 4) ? 4 : !strncmp(s, "false", 5) ? 5 : 0;
    if (!*len || isalnum((unsigned char)s[*len]) || s[*len] == '_' || s[*len] == ':')
        return 0;
    return *len == 4 ? '1' : '0';
}

size_t gw_kernel_instance_name(const char *name, char *buf, size_t cap)
{
    size_t n = 0, len;
    int depth = 0, number = 0; /* number: inside digits that began after no letter */
    if (!cap)
        return 0;
    for (const char *p = name; *p; p++) {
        size_t skip = skipped(p);
        char last = n ? buf[n - 1] : 0, bit;
        int word_before = isalnum((unsigned char)last) || last == '_' || last == ':';
        if (!skip && depth)
            skip = !strncmp(p, "(instance ", 10) ? 10 : cast_before_number(p); /* "[lambda(int) (instance 1)]" */
        if (skip) {
            p += skip - 1;
            continue;
        }
        if (depth == 0 && *p == '(')
            break;
        if (depth == 0 && *p == ' ') {
            n = 0; /* that was the return type */
            continue;
        }
        depth += *p == '<';
        depth -= *p == '>' && depth > 0;
        if (*p == ' ' || *p == '#' || (number && strchr("uUlL", *p)) || (*p == ')' && number && depth))
            continue;
        if (depth && !word_before && (bit = truth(p, &len)) != 0) {
            if (n + 1 < cap)
                buf[n++] = bit;
            p += len - 1;
            number = 0;
            continue;
        }
        number = isdigit((unsigned char)*p) && (number || !word_before);
        if (n + 1 < cap)
            buf[n++] = *p == '{' ? '[' : *p == '}' ? ']' : *p; /* "{lambda(int)#1}" */
    }
    buf[n] = 0;
    return n;
}

/* ---- the index: groups of rows with one key, for each way of comparing names ---- */

enum { BY_INSTANCE, BY_BASE, BY_FUNCTION, WAYS };
#define NAME_CAP 4096

struct gw_km_group {
    uint64_t key; /* hash of the name as this way spells it, 0 = none */
    struct gw_kernel_metrics m;
};

struct gw_km_index {
    const struct gw_trace *t;
    struct gw_km_group *group[WAYS];
    size_t count[WAYS];
};

static uint64_t key_of(const char *s, size_t n)
{
    uint64_t h = n ? gw_hash_bytes(s, n) : 0;
    return n && !h ? 1 : h;
}

/* What a row is found by; 0 = not by this way. */
static uint64_t row_key(const char *name, int way)
{
    char buf[NAME_CAP];
    if (way == BY_FUNCTION) /* only rows that give nothing but the bare name */
        return strpbrk(name, "<(: ") ? 0 : key_of(name, strlen(name));
    return key_of(buf, way == BY_BASE ? gw_kernel_base_name(name, buf, sizeof buf)
                                      : gw_kernel_instance_name(name, buf, sizeof buf));
}

/* What a kernel of the timeline is looked up by. */
static uint64_t name_key(const char *name, int way)
{
    char buf[NAME_CAP];
    if (way != BY_FUNCTION)
        return row_key(name, way);
    size_t n = gw_kernel_base_name(name, buf, sizeof buf), from = n;
    while (from && buf[from - 1] != ':')
        from--;
    return key_of(buf + from, n - from);
}

static int by_key(const void *a, const void *b)
{
    const struct gw_km_group *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->m.name > y->m.name) - (x->m.name < y->m.name); /* sums in one order, whatever qsort does */
}

struct gw_km_index *gw_km_index(const struct gw_trace *t, struct gw_arena *arena)
{
    struct gw_km_index *x = gw_arena_alloc(arena, sizeof *x);
    size_t rows = gw_kernel_metrics_count(t);
    if (!x)
        return NULL;
    x->t = t;
    for (int way = 0; way < WAYS; way++) {
        struct gw_km_group *g = gw_arena_calloc(arena, rows, sizeof *g);
        size_t n = 0, kept = 0;
        if (!g)
            return NULL;
        for (size_t i = 0; i < rows; i++) {
            const struct gw_kernel_metrics *m = gw_kernel_metrics_at(t, i);
            uint64_t key = row_key(gw_trace_text(t, m->name), way);
            if (key)
                g[n++] = (struct gw_km_group){key, *m};
        }
        if (n)
            qsort(g, n, sizeof *g, by_key);
        for (size_t i = 0; i < n; i++)
            if (kept && g[kept - 1].key == g[i].key)
                merge(&g[kept - 1].m, &g[i].m);
            else
                g[kept++] = g[i];
        x->group[way] = g;
        x->count[way] = kept;
    }
    return x;
}

static const struct gw_km_group *group_of(const struct gw_km_index *x, int way, uint64_t key)
{
    size_t lo = 0, hi = x->count[way];
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (x->group[way][mid].key < key)
            lo = mid + 1;
        else
            hi = mid;
    }
    return key && lo < x->count[way] && x->group[way][lo].key == key ? x->group[way] + lo : NULL;
}

enum gw_km_match gw_km_find(const struct gw_km_index *x, const char *name, struct gw_kernel_metrics *out)
{
    static const enum gw_km_match how[WAYS] = {GW_KM_INSTANCE, GW_KM_BASE, GW_KM_FUNCTION};
    uint32_t id = gw_intern_find(x->t->names, name, strlen(name));
    uint32_t row = id && id < x->t->kernel_rows.len ? ((const uint32_t *)x->t->kernel_rows.data)[id] : 0;
    if (row) {
        *out = *gw_kernel_metrics_at(x->t, row - 1);
        return GW_KM_EXACT;
    }
    for (int way = 0; way < WAYS; way++) {
        const struct gw_km_group *g = group_of(x, way, name_key(name, way));
        if (g) {
            *out = g->m;
            return how[way];
        }
    }
    return GW_KM_NO_MATCH;
}
