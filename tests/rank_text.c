#include "rank_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reading {
    struct gw_arena *arena;
    struct gw_rank_summary *s;
    struct gw_array coll, parts, work;
};

static void wrong(const char *line)
{
    fprintf(stderr, "rank_text: cannot read \"%s\"\n", line);
    exit(3);
}

static unsigned did_of(const char *id)
{
    for (unsigned d = 0; d < GW_DID_COUNT; d++)
        if (!strcmp(gw_did_id(d), id))
            return d;
    return GW_DID_COUNT;
}

static unsigned kind_of(const char *name)
{
    for (unsigned k = 1; k < GW_COLL_COUNT; k++)
        if (!strcmp(gw_coll_name(k), name))
            return k;
    return GW_COLL_OTHER;
}

static void collective(struct reading *r, char *line)
{
    char whole[256], kind[40], *save, *word;
    long long step, start, end, bytes = -1;
    int used = 0;
    snprintf(whole, sizeof whole, "%s", line);
    if (sscanf(line, "%lld %39[A-Za-z]%n", &step, kind, &used) != 2)
        wrong(whole);
    line += used;
    if (*line == '/')
        bytes = strtoll(line + 1, &line, 10);
    if (sscanf(line, "%lld %lld%n", &start, &end, &used) != 2)
        wrong(whole);
    struct gw_rank_coll *c = gw_array_push(&r->coll);
    *c = (struct gw_rank_coll){.start = start,
                               .end = end,
                               .bytes = bytes,
                               .exposed = end - start,
                               .step = step,
                               .first_part = (uint32_t)r->parts.len,
                               .kind = (uint16_t)kind_of(kind)};
    if (c->kind == GW_COLL_OTHER)
        wrong(whole);
    for (word = strtok_r(line + used, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *eq = strchr(word, '=');
        long long v = eq ? strtoll(eq + 1, NULL, 10) : 0;
        if (eq)
            *eq = 0;
        if (!strcmp(word, "cold"))
            c->cold = 1;
        else if (eq && !strcmp(word, "exposed"))
            c->exposed = v;
        else if (eq && !strcmp(word, "kernels"))
            c->kernels = (uint32_t)v;
        else if (eq && did_of(word) < GW_DID_COUNT) {
            struct gw_rank_part *p = gw_array_push(&r->parts);
            *p = (struct gw_rank_part){.ns = v, .did = did_of(word)};
            r->s->did[p->did] += v;
            c->parts++;
        } else
            wrong(whole);
    }
}

static void work(struct reading *r, char *line)
{
    char *save, *name = strtok_r(line, " ", &save), *ns;
    for (; name && (ns = strtok_r(NULL, " ", &save)); name = strtok_r(NULL, " ", &save)) {
        struct gw_report_kernel *k = gw_array_push(&r->work);
        *k = (struct gw_report_kernel){.name = gw_arena_strdup(r->arena, name),
                                       .kclass = !strcmp(name, "comm") ? gw_kclass_name(GW_K_COMM) : "matmul",
                                       .count = 1,
                                       .ns = strtod(ns, NULL)};
    }
}

static void *keep(struct reading *r, struct gw_array *a)
{
    void *p = gw_arena_calloc(r->arena, a->len, a->size);
    if (a->len)
        memcpy(p, a->data, a->len * a->size);
    gw_array_free(a);
    return p;
}

struct gw_rank_summary *rank_text(struct gw_arena *arena, const char *text)
{
    static const char *const no_names[] = {""};
    struct reading r = {.arena = arena, .s = gw_arena_alloc(arena, sizeof *r.s)};
    char *copy = gw_arena_strdup(arena, text), *save, *line;
    long long a, b;
    gw_array_init(&r.coll, sizeof(struct gw_rank_coll), 0);
    gw_array_init(&r.parts, sizeof(struct gw_rank_part), 0);
    gw_array_init(&r.work, sizeof(struct gw_report_kernel), 0);
    *r.s = (struct gw_rank_summary){.path = "rank.json",
                                    .rank = -1,
                                    .world_size = -1,
                                    .gpu = "",
                                    .host = "",
                                    .names = no_names,
                                    .median_step_ns = -1,
                                    .numbered = 1};
    for (line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        line += strspn(line, " ");
        if (sscanf(line, "rank %lld of %lld", &a, &b) == 2) {
            r.s->rank = a;
            r.s->world_size = b ? b : -1;
            r.s->device = a;
            r.s->path = gw_arena_printf(arena, "rank%lld.json", a);
        } else if (sscanf(line, "window %lld steps %lld", &a, &b) == 2) {
            r.s->window = (struct gw_partition){.end = a, .wall = a};
            r.s->steps = b;
            r.s->median_step_ns = b ? a / b : -1;
            r.s->numbered = !strstr(line, "unnumbered");
        } else if (!strncmp(line, "gpu ", 4)) {
            r.s->gpu = gw_arena_strdup(arena, line + 4);
        } else if (!strncmp(line, "work ", 5)) {
            work(&r, line + 5);
        } else if (*line) {
            collective(&r, line);
        }
    }
    r.s->ncoll = r.coll.len;
    r.s->coll = keep(&r, &r.coll);
    r.s->parts = keep(&r, &r.parts);
    r.s->kernel_count = r.work.len;
    r.s->kernels = keep(&r, &r.work);
    return r.s;
}
