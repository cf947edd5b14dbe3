#include "base/gw_intern.h"

#include <stdlib.h>
#include <string.h>

#include "base/gw_arena.h"

/* Open addressing, linear probing, at most 3/4 full. A slot keeps 32 bits of the hash beside the id, so that most
 * misses are settled without touching the text. */
struct gw_intern_slot {
    uint32_t id, hash;
};

struct gw_intern_str {
    const char *s;
    size_t len;
};

struct gw_intern {
    struct gw_arena *arena;
    struct gw_intern_slot *slots;
    size_t mask;
    struct gw_array strs; /* struct gw_intern_str, [0] = "" */
};

static uint64_t mix(uint64_t h)
{
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u; /* odd constant with good avalanche (Widynski/Mulvey's rrmxmx search) */
    h ^= h >> 32;
    return h;
}

uint64_t gw_hash_bytes(const void *p, size_t n)
{
    const unsigned char *b = p;
    uint64_t h = 0x9e3779b97f4a7c15u ^ (n * 0xff51afd7ed558ccdu), w;
    while (n >= 8) {
        memcpy(&w, b, 8);
        h = (h ^ w) * 0x9fb21c651e98df25u;
        h ^= h >> 29;
        b += 8;
        n -= 8;
    }
    w = 0;
    if (n) {
        memcpy(&w, b, n);
        h = (h ^ w) * 0x9fb21c651e98df25u;
    }
    return mix(h);
}

struct gw_intern *gw_intern_create(void)
{
    struct gw_intern *in = calloc(1, sizeof *in);
    if (!in)
        return NULL;
    in->arena = gw_arena_create(0);
    in->mask = 1023;
    in->slots = calloc(in->mask + 1, sizeof *in->slots);
    gw_array_init(&in->strs, sizeof(struct gw_intern_str), UINT32_MAX - 1);
    struct gw_intern_str *zero = gw_array_push(&in->strs);
    if (!in->arena || !in->slots || !zero) {
        gw_intern_destroy(in);
        return NULL;
    }
    zero->s = "";
    return in;
}

void gw_intern_destroy(struct gw_intern *in)
{
    if (!in)
        return;
    gw_arena_destroy(in->arena);
    gw_array_free(&in->strs);
    free(in->slots);
    free(in);
}

static const struct gw_intern_str *str_at(const struct gw_intern *in, uint32_t id)
{
    return (const struct gw_intern_str *)in->strs.data + (id < in->strs.len ? id : 0);
}

static size_t probe(const struct gw_intern *in, const char *s, size_t len, uint32_t hash)
{
    size_t i = hash & in->mask;
    while (in->slots[i].id) {
        if (in->slots[i].hash == hash) {
            const struct gw_intern_str *k = str_at(in, in->slots[i].id);
            if (k->len == len && !memcmp(k->s, s, len))
                break;
        }
        i = (i + 1) & in->mask;
    }
    return i;
}

static int grow(struct gw_intern *in)
{
    size_t mask = in->mask * 2 + 1;
    struct gw_intern_slot *slots = calloc(mask + 1, sizeof *slots);
    if (!slots)
        return GW_ENOMEM;
    for (size_t i = 0; i <= in->mask; i++) {
        if (!in->slots[i].id)
            continue;
        size_t j = in->slots[i].hash & mask;
        while (slots[j].id)
            j = (j + 1) & mask;
        slots[j] = in->slots[i];
    }
    free(in->slots);
    in->slots = slots;
    in->mask = mask;
    return GW_OK;
}

uint32_t gw_intern_add(struct gw_intern *in, const char *s, size_t len)
{
    if (!len)
        return 0;
    uint32_t hash = (uint32_t)gw_hash_bytes(s, len);
    size_t i = probe(in, s, len, hash);
    if (in->slots[i].id)
        return in->slots[i].id;
    if (in->strs.len * 4 >= in->mask * 3) {
        if (grow(in) < 0)
            return 0;
        i = probe(in, s, len, hash);
    }
    char *copy = gw_arena_strndup(in->arena, s, len);
    struct gw_intern_str *k = copy ? gw_array_push(&in->strs) : NULL;
    if (!k)
        return 0;
    k->s = copy;
    k->len = len;
    in->slots[i] = (struct gw_intern_slot){.id = (uint32_t)(in->strs.len - 1), .hash = hash};
    return in->slots[i].id;
}

uint32_t gw_intern_find(const struct gw_intern *in, const char *s, size_t len)
{
    return len ? in->slots[probe(in, s, len, (uint32_t)gw_hash_bytes(s, len))].id : 0;
}

const char *gw_intern_text(const struct gw_intern *in, uint32_t id) { return str_at(in, id)->s; }
size_t gw_intern_len(const struct gw_intern *in, uint32_t id) { return str_at(in, id)->len; }
uint32_t gw_intern_count(const struct gw_intern *in) { return (uint32_t)(in->strs.len - 1); }
