#include "collect/checks/check_run.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct gw_check_info infos[] = {
#define GW_CHECK(sym, id, group, title, finding, needs) {id, group, title, finding, needs},
#include "collect/checks/checks.def"
#undef GW_CHECK
};

static void (*const functions[])(struct gw_check_run *) = {
#define GW_CHECK(sym, id, group, title, finding, needs) gw_check_on_##sym,
#include "collect/checks/checks.def"
#undef GW_CHECK
};

const struct gw_check_info *gw_check_info(size_t i) { return i < GW_CHECK_COUNT ? &infos[i] : NULL; }

const char *gw_check_status_id(unsigned s)
{
    static const char *const ids[] = {"not_evaluated", "good", "look", "bad"};
    return s < GW_CHECK_STATUS_COUNT ? ids[s] : "";
}

const char *gw_check_status_name(unsigned s)
{
    static const char *const names[] = {N_("not evaluated"), N_("good"), N_("worth a look"), N_("bad")};
    return s < GW_CHECK_STATUS_COUNT ? names[s] : "";
}

/* --- saying -------------------------------------------------------------------------------------------------- */

void gw_check_say(struct gw_check_run *r, enum gw_check_status status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    r->now->value = gw_arena_vprintf(r->arena, fmt, ap);
    va_end(ap);
    r->now->status = status;
}

void gw_check_expect(struct gw_check_run *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    r->now->expect = gw_arena_vprintf(r->arena, _(fmt), ap);
    va_end(ap);
}

void gw_check_fix(struct gw_check_run *r, const char *doit, const char *verify, const char *cost)
{
    r->now->fix = doit;
    r->now->verify = verify;
    r->now->cost = cost;
}

void gw_check_finding(struct gw_check_run *r, const char *id) { r->now->finding = id; }

void gw_check_evidence(struct gw_check_run *r, double value, const char *unit, const char *source, const char *fmt, ...)
{
    va_list ap;
    if (r->now->evidence_count == GW_CHECK_MAX_EVIDENCE)
        return;
    if (!r->now->evidence) {
        r->evidence = gw_arena_calloc(r->arena, GW_CHECK_MAX_EVIDENCE, sizeof *r->evidence);
        r->now->evidence = r->evidence;
        if (!r->evidence)
            return;
    }
    struct gw_check_evidence *e = &r->evidence[r->now->evidence_count++];
    va_start(ap, fmt);
    e->text = gw_arena_vprintf(r->arena, _(fmt), ap);
    va_end(ap);
    e->value = value;
    e->unit = unit;
    e->source = source;
}

const char *gw_check_text(struct gw_check_run *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *s = gw_arena_vprintf(r->arena, fmt, ap);
    va_end(ap);
    return s;
}

/* --- groups of GPUs -------------------------------------------------------------------------------------------- */

void gw_group_add(struct gw_check_group *g, size_t gpu, enum gw_check_status status, const char *fmt, ...)
{
    va_list ap;
    if (gpu >= GW_ENV_MAX_GPUS)
        return;
    va_start(ap, fmt);
    const char *text = gw_arena_vprintf(g->r->arena, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < g->n; i++)
        if (g->item[i].status == status && strcmp(g->item[i].text, text) == 0) {
            g->item[i].gpus |= 1ull << gpu;
            return;
        }
    if (g->n == GW_ENV_MAX_GPUS)
        return;
    g->item[g->n].status = status;
    g->item[g->n].text = text;
    g->item[g->n++].gpus = 1ull << gpu;
}

/* "0-3,5": by the index that nvidia-smi shows. */
static const char *gpu_list(struct gw_check_run *r, uint64_t gpus)
{
    char text[512] = "";
    size_t n = 0, count = r->env->gpus.len;
    for (size_t i = 0; i < count && n + 24 < sizeof text; i++) {
        if (!(gpus >> i & 1))
            continue;
        size_t end = i;
        while (end + 1 < count && (gpus >> (end + 1) & 1))
            end++;
        long long a = (long long)gw_env_gpu_at(r->env, i)->index, b = (long long)gw_env_gpu_at(r->env, end)->index;
        n += (size_t)snprintf(text + n, sizeof text - n, end > i ? "%s%lld-%lld" : "%s%lld", n ? "," : "", a, b);
        i = end;
    }
    return gw_check_text(r, "%s", text);
}

enum gw_check_status gw_group_say(struct gw_check_group *g)
{
    enum gw_check_status worst = GW_CHECK_UNKNOWN;
    uint64_t all = 0;
    for (size_t i = 0; i < g->n; i++) {
        worst = g->item[i].status > worst ? g->item[i].status : worst;
        all |= g->item[i].gpus;
    }
    const char *text = "";
    int shown = 0;
    for (size_t i = 0; i < g->n; i++) {
        if (g->item[i].status != worst)
            continue;
        if (++shown > 4) {
            text = gw_check_text(g->r, "%s; ...", text);
            break;
        }
        if (g->item[i].gpus == all && g->r->env->gpus.len == (size_t)__builtin_popcountll(all)) {
            text = g->r->env->gpus.len > 1
                       ? gw_check_text(g->r, _("all %zu GPUs: %s"), g->r->env->gpus.len, g->item[i].text)
                       : g->item[i].text;
            break;
        }
        text = gw_check_text(g->r, "%s%sGPU %s: %s", text, *text ? _("; ") : "", gpu_list(g->r, g->item[i].gpus),
                             g->item[i].text);
    }
    if (g->n)
        gw_check_say(g->r, worst, "%s", text);
    return worst;
}

/* --- numbers ---------------------------------------------------------------------------------------------------- */

const char *gw_check_bytes(struct gw_check_run *r, int64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)bytes;
    size_t u = 0;
    if (bytes < 0)
        return _("unknown");
    while (v >= 1024 && u + 1 < sizeof units / sizeof units[0])
        v /= 1024, u++;
    return gw_check_text(r, v < 10 && u ? "%.1f %s" : "%.0f %s", v, units[u]);
}

const char *gw_check_watts(struct gw_check_run *r, int64_t mw) { return gw_check_text(r, "%.0f W", (double)mw / 1000); }

const char *gw_check_cuda(struct gw_check_run *r, int64_t version)
{
    return gw_check_text(r, "%lld.%lld", (long long)(version / 1000), (long long)(version % 1000 / 10));
}

int64_t gw_check_version(const char *text)
{
    char *end;
    if (!text || !isdigit((unsigned char)*text))
        return -1;
    long major = strtol(text, &end, 10), minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;
    return major > 0 && major < 1000 && minor >= 0 && minor < 100 ? major * 1000 + minor * 10 : -1;
}

const char *gw_check_source(const struct gw_check_run *r) { return r->env->live || r->env->recorded ? "NVML" : "capture"; }

/* --- running ---------------------------------------------------------------------------------------------------- */

struct gw_check_list *gw_checks_run(const struct gw_env *env, struct gw_arena *arena)
{
    struct gw_check_list *l = gw_arena_alloc(arena, sizeof *l);
    struct gw_check *items = gw_arena_calloc(arena, GW_CHECK_COUNT, sizeof *items);
    struct gw_gpu_state *states = gw_arena_calloc(arena, env->gpus.len + 1, sizeof *states);
    if (!l || !items || !states)
        return NULL;
    for (size_t g = 0; g < env->gpus.len; g++)
        states[g] = gw_gpu_state_of(env, g);
    l->items = items;
    l->count = GW_CHECK_COUNT;
    for (size_t i = 0; i < GW_CHECK_COUNT; i++) {
        struct gw_check_run r = {.env = env, .arena = arena, .now = &items[i], .states = states};
        items[i].info = &infos[i];
        items[i].finding = infos[i].finding;
        items[i].value = items[i].expect = items[i].fix = items[i].verify = items[i].cost = "";
        functions[i](&r);
        l->by_status[items[i].status]++;
    }
    return l;
}

const struct gw_check *gw_check_find(const struct gw_check_list *l, const char *id)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->items[i].info->id, id) == 0)
            return &l->items[i];
    return NULL;
}
