#include "collect/env.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/gw_i18n.h"

enum {
    MAX_RECORDS = 4096,  /* of one kind; a machine with eight GPUs and 500 processes needs 600 */
    MAX_SAMPLES = 500000 /* about 100 MB; a day at 4 Hz is 345,600 */
};
#define MAX_ARENA ((size_t)256 << 20)

static const struct gw_metric_info gpu_metrics[] = {
#define GW_GPU(sym, id, unit, q, xml, csv) {id, GW_UNIT_##unit, q, xml, csv},
#include "collect/gpu_metrics.def"
#undef GW_GPU
};

static const struct gw_metric_info host_metrics[] = {
#define GW_HOST(sym, id, unit, text) {id, GW_UNIT_##unit, "", "", ""},
#include "collect/host_metrics.def"
#undef GW_HOST
};

static const char *const host_strings[] = {
#define GW_HOST_STR(sym, id, text) id,
#include "collect/host_strings.def"
#undef GW_HOST_STR
};

/* All fields of all kinds in one array; a kind's fields follow each other. BACK_x makes the first field of a kind
 * share its number with FIRST_x. */
enum {
#define GW_REC(sym, id, type) FIRST_##sym, BACK_##sym = FIRST_##sym - 1,
#define GW_FIELD(sym, type, ftype, field) FIELD_##sym##_##field,
#include "collect/env_records.def"
#undef GW_REC
#undef GW_FIELD
    FIELD_TOTAL
};

static const struct gw_field rec_fields[] = {
#define GW_REC(sym, id, type)
#define GW_FIELD(sym, type, ftype, field) {#field, GW_FT_##ftype, offsetof(struct type, field)},
#include "collect/env_records.def"
#undef GW_REC
#undef GW_FIELD
};
_Static_assert(sizeof rec_fields / sizeof rec_fields[0] == FIELD_TOTAL, "field numbers match the table");

static const struct {
    const char *id;
    size_t size;
    int first;
} rec_kinds[] = {
#define GW_REC(sym, id, type) {id, sizeof(struct type), FIRST_##sym},
#define GW_FIELD(sym, type, ftype, field)
#include "collect/env_records.def"
#undef GW_REC
#undef GW_FIELD
};

static struct gw_rec_info rec_info_of(enum gw_rec kind)
{
    int end = kind + 1 < GW_REC_COUNT ? rec_kinds[kind + 1].first : FIELD_TOTAL;
    return (struct gw_rec_info){rec_kinds[kind].id, rec_kinds[kind].size, rec_fields + rec_kinds[kind].first,
                                (size_t)(end - rec_kinds[kind].first)};
}

struct gw_rec_info gw_rec_info(enum gw_rec kind) { return rec_info_of(kind); }
const struct gw_metric_info *gw_gpu_metric_info(enum gw_gpu_metric m) { return &gpu_metrics[m]; }
const struct gw_metric_info *gw_host_metric_info(enum gw_host_metric m) { return &host_metrics[m]; }
const char *gw_host_string_id(enum gw_host_string s) { return host_strings[s]; }

struct gw_env *gw_env_create(void)
{
    struct gw_env *env = calloc(1, sizeof *env);
    if (!env)
        return NULL;
    env->arena = gw_arena_create(MAX_ARENA);
    if (!env->arena) {
        free(env);
        return NULL;
    }
    gw_array_init(&env->gpus, sizeof(struct gw_gpu), GW_ENV_MAX_GPUS);
    gw_array_init(&env->samples, sizeof(struct gw_sample), MAX_SAMPLES);
    for (int k = 0; k < GW_REC_COUNT; k++)
        gw_array_init(&env->rec[k], rec_kinds[k].size, MAX_RECORDS);
    return env;
}

void gw_env_destroy(struct gw_env *env)
{
    if (!env)
        return;
    gw_array_free(&env->gpus);
    gw_array_free(&env->samples);
    for (int k = 0; k < GW_REC_COUNT; k++)
        gw_array_free(&env->rec[k]);
    gw_arena_destroy(env->arena);
    free(env);
}

struct gw_gpu *gw_env_gpu_at(const struct gw_env *env, size_t i)
{
    return i < env->gpus.len ? (struct gw_gpu *)env->gpus.data + i : NULL;
}

static void keep_records(struct gw_env *env, enum gw_rec kind, int (*is_kept)(const struct gw_env *, const void *))
{
    struct gw_array *a = &env->rec[kind];
    char *p = a->data;
    size_t n = 0;
    for (size_t i = 0; i < a->len; i++)
        if (is_kept(env, p + i * a->size))
            memmove(p + n++ * a->size, p + i * a->size, a->size);
    a->len = n;
}

static int has_index(const struct gw_env *env, int64_t index)
{
    for (size_t i = 0; i < env->gpus.len; i++)
        if (gw_env_gpu_at(env, i)->index == index)
            return 1;
    return 0;
}

static int kept_pair(const struct gw_env *env, const void *p)
{
    const struct gw_env_pair *pair = p;
    return has_index(env, pair->gpu) && (pair->peer_gpu == GW_ENV_NONE || has_index(env, pair->peer_gpu));
}
static int kept_proc(const struct gw_env *env, const void *p) { return has_index(env, ((const struct gw_env_proc *)p)->gpu); }
static int kept_mig(const struct gw_env *env, const void *p) { return has_index(env, ((const struct gw_env_mig *)p)->gpu); }

void gw_env_keep_gpus(struct gw_env *env, uint64_t positions)
{
    uint32_t now[GW_ENV_MAX_GPUS], n = 0;
    struct gw_gpu *g = env->gpus.data;
    struct gw_sample *s = env->samples.data;
    size_t kept = 0;
    for (uint32_t i = 0; i < env->gpus.len; i++)
        if (positions >> i & 1) {
            now[i] = n;
            g[n++] = g[i];
        }
    for (size_t i = 0; i < env->samples.len; i++)
        if (positions >> s[i].gpu & 1) {
            s[kept] = s[i];
            s[kept].gpu = now[s[kept].gpu];
            kept++;
        }
    env->gpus.len = n;
    env->samples.len = kept;
    keep_records(env, GW_REC_PAIR, kept_pair);
    keep_records(env, GW_REC_PROC, kept_proc);
    keep_records(env, GW_REC_MIG, kept_mig);
}

size_t gw_env_gpu_position(const struct gw_env *env, const struct gw_gpu *g)
{
    return (size_t)(g - (const struct gw_gpu *)env->gpus.data);
}

struct gw_gpu *gw_env_gpu(struct gw_env *env, int64_t index, const char *bus_id)
{
    char bus[GW_BUS_ID_CAP];
    int with_bus = bus_id && gw_bus_id_normal(bus_id, strlen(bus_id), bus) == 0;
    struct gw_gpu *by_index = NULL;
    for (size_t i = 0; i < env->gpus.len; i++) {
        struct gw_gpu *g = gw_env_gpu_at(env, i);
        if (with_bus && g->bus_id && strcmp(g->bus_id, bus) == 0) {
            if (g->index == GW_ENV_NONE)
                g->index = index;
            return g;
        }
        if (index != GW_ENV_NONE && g->index == index && !(with_bus && g->bus_id))
            by_index = g;
    }
    struct gw_gpu *g = by_index;
    if (!g) {
        g = gw_array_push(&env->gpus);
        if (!g) {
            env->no_memory = 1;
            return NULL;
        }
        g->index = index;
    }
    if (with_bus)
        g->bus_id = gw_env_dup(env, bus, strlen(bus));
    return g;
}

void gw_gpu_set(struct gw_gpu *g, enum gw_gpu_metric m, int64_t value)
{
    g->v[m] = value;
    g->has[m / 64] |= 1ull << (m % 64);
}

int gw_gpu_has(const struct gw_gpu *g, enum gw_gpu_metric m) { return (g->has[m / 64] >> (m % 64)) & 1; }
int64_t gw_gpu_get(const struct gw_gpu *g, enum gw_gpu_metric m) { return gw_gpu_has(g, m) ? g->v[m] : GW_ENV_NONE; }

void gw_env_set(struct gw_env *env, enum gw_host_metric m, int64_t value)
{
    env->host[m] = value;
    env->host_has[m / 64] |= 1ull << (m % 64);
}

int gw_env_has(const struct gw_env *env, enum gw_host_metric m) { return (env->host_has[m / 64] >> (m % 64)) & 1; }

int64_t gw_env_get(const struct gw_env *env, enum gw_host_metric m)
{
    return gw_env_has(env, m) ? env->host[m] : GW_ENV_NONE;
}

const char *gw_env_dup(struct gw_env *env, const char *text, size_t len)
{
    while (len && isspace((unsigned char)text[0]))
        text++, len--;
    while (len && (isspace((unsigned char)text[len - 1]) || text[len - 1] == '\0'))
        len--;
    char *copy = gw_arena_strndup(env->arena, text, len);
    if (!copy) {
        env->no_memory = 1;
        return "";
    }
    for (char *p = copy; *p; p++)
        if ((unsigned char)*p < 0x20 || (unsigned char)*p == 0x7f)
            *p = ' ';
    return copy;
}

void gw_env_set_str(struct gw_env *env, enum gw_host_string s, const char *text, size_t len)
{
    const char *copy = gw_env_dup(env, text, len);
    if (*copy)
        env->str[s] = copy;
}

const char *gw_env_str(const struct gw_env *env, enum gw_host_string s) { return env->str[s]; }

void *gw_env_add(struct gw_env *env, enum gw_rec kind)
{
    char *rec = gw_array_push(&env->rec[kind]);
    if (!rec) {
        env->no_memory = 1;
        return NULL;
    }
    struct gw_rec_info info = rec_info_of(kind);
    for (size_t i = 0; i < info.count; i++) {
        char *at = rec + info.fields[i].offset;
        switch (info.fields[i].type) {
        case GW_FT_I64: *(int64_t *)(void *)at = GW_ENV_NONE; break;
        case GW_FT_F64: *(double *)(void *)at = NAN; break;
        case GW_FT_STR: *(const char **)(void *)at = NULL; break;
        }
    }
    return rec;
}

size_t gw_env_count(const struct gw_env *env, enum gw_rec kind) { return env->rec[kind].len; }

void *gw_env_at(const struct gw_env *env, enum gw_rec kind, size_t i)
{
    return (char *)env->rec[kind].data + i * rec_kinds[kind].size;
}

void gw_env_note(struct gw_env *env, const char *where, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, _(fmt), ap);
    va_end(ap);
    /* Said once is enough: captures repeat themselves. */
    for (size_t i = 0; i < gw_env_count(env, GW_REC_NOTE); i++) {
        const struct gw_env_note *old = gw_env_at(env, GW_REC_NOTE, i);
        if (old->text && old->where && strcmp(old->text, text) == 0 && strcmp(old->where, where) == 0)
            return;
    }
    const char *w = gw_env_dup(env, where, strlen(where)), *t = gw_env_dup(env, text, strlen(text));
    struct gw_env_note *n = gw_env_add(env, GW_REC_NOTE);
    if (n) {
        n->where = w;
        n->text = t;
    }
}

void gw_env_sample(struct gw_env *env, const struct gw_gpu *g, int64_t t, int64_t source)
{
    uint32_t gpu = (uint32_t)gw_env_gpu_position(env, g);
    struct gw_sample *s = gw_array_push(&env->samples);
    if (!s) {
        env->no_memory = 1;
        return;
    }
    s->t = t;
    s->source = source;
    s->gpu = gpu;
    for (int m = 0; m < GW_GPU_DYNAMIC; m++)
        if (gw_gpu_has(g, (enum gw_gpu_metric)m)) {
            s->has |= 1u << m;
            s->v[m] = g->v[m];
        }
}

size_t gw_env_sample_count(const struct gw_env *env) { return env->samples.len; }

const struct gw_sample *gw_env_sample_at(const struct gw_env *env, size_t i)
{
    return (const struct gw_sample *)env->samples.data + i;
}

int64_t gw_sample_get(const struct gw_sample *s, enum gw_gpu_metric m)
{
    return m < GW_GPU_DYNAMIC && ((s->has >> m) & 1) ? s->v[m] : GW_ENV_NONE;
}

const struct gw_env_lib *gw_env_lib(const struct gw_env *env, const char *name)
{
    for (size_t i = 0; i < gw_env_count(env, GW_REC_LIB); i++) {
        const struct gw_env_lib *l = gw_env_at(env, GW_REC_LIB, i);
        if (l->name && strcmp(l->name, name) == 0)
            return l;
    }
    return NULL;
}

void gw_env_add_lib(struct gw_env *env, const char *name, const char *version, const char *where)
{
    if (!*version || gw_env_lib(env, name))
        return;
    struct gw_env_lib *l = gw_env_add(env, GW_REC_LIB);
    if (l) {
        l->name = gw_env_dup(env, name, strlen(name));
        l->version = gw_env_dup(env, version, strlen(version));
        l->where = gw_env_dup(env, where, strlen(where));
    }
}

const char *gw_env_var_value(const struct gw_env *env, const char *name)
{
    for (size_t i = 0; i < gw_env_count(env, GW_REC_VAR); i++) {
        const struct gw_env_var *v = gw_env_at(env, GW_REC_VAR, i);
        if (v->name && strcmp(v->name, name) == 0)
            return v->value;
    }
    return NULL;
}

const char *gw_link_name(int64_t kind)
{
    static const char *const names[] = {"?", "X", "NV", "PIX", "PXB", "PHB", "NODE", "SYS"};
    return kind > 0 && kind < (int64_t)(sizeof names / sizeof names[0]) ? names[kind] : "?";
}
