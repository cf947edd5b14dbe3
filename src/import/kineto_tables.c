#include "import/kineto_tables.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NAMES_MAX = 1 << 18, NAME_BYTES_MAX = 32 << 20, LANES_MAX = 1 << 14 };

static size_t cat_hash(const char *s, size_t n)
{
    return (n * 31 + (size_t)(s[0] | 0x20) * 7 + (size_t)(s[n - 1] | 0x20) * 13 + (size_t)(s[n / 2] | 0x20)) & 255;
}

static void cats_fill(struct kineto_tables *k)
{
    static const struct kineto_cat_slot rows[] = {
#define DROP_ KINETO_DROP
#define RANGE_ KINETO_RANGE
#define KERNEL_ GW_KIND_KERNEL
#define COPY_ GW_KIND_COPY
#define SET_ GW_KIND_SET
#define OP_ GW_KIND_OP
#define API_ GW_KIND_API
#define ANNOT_ GW_KIND_ANNOT
#define PYFUNC_ GW_KIND_PYFUNC
#define OVERHEAD_ GW_KIND_OVERHEAD
#define GPU_SYNC_ GW_KIND_GPU_SYNC
#define KINETO_CAT(name, kind) {name, sizeof name - 1, kind##_},
#include "import/kineto_cats.def"
#undef KINETO_CAT
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t h = cat_hash(rows[i].name, rows[i].n);
        while (k->cats[h].name)
            h = (h + 1) & 255;
        k->cats[h] = rows[i];
    }
}

unsigned kineto_cat_kind(const struct kineto_tables *k, const char *s, size_t n)
{
    if (n)
        for (size_t h = cat_hash(s, n); k->cats[h].name; h = (h + 1) & 255)
            if (k->cats[h].n == n && (!memcmp(k->cats[h].name, s, n) || !strncasecmp(k->cats[h].name, s, n)))
                return k->cats[h].kind;
    return KINETO_UNKNOWN;
}

int kineto_tables_empty(struct kineto_tables *k)
{
    gw_intern_destroy(k->names);
    k->names = gw_intern_create();
    if (!k->names)
        return GW_ENOMEM;
    k->name_bytes = 0;
    if (k->lane_count)
        memset(k->lanes, 0, (k->lane_mask + 1) * sizeof *k->lanes);
    memset(k->last, 0, sizeof k->last);
    k->lane_count = 0;
    return GW_OK;
}

int kineto_tables_full(const struct kineto_tables *k)
{
    return gw_intern_count(k->names) > NAMES_MAX || k->name_bytes > NAME_BYTES_MAX || k->lane_count > LANES_MAX;
}

int kineto_tables_init(struct kineto_tables *k)
{
    memset(k, 0, sizeof *k);
    k->lane_mask = 255;
    k->lanes = calloc(k->lane_mask + 1, sizeof *k->lanes);
    cats_fill(k);
    return k->lanes ? kineto_tables_empty(k) : GW_ENOMEM;
}

void kineto_tables_free(struct kineto_tables *k)
{
    gw_intern_destroy(k->names);
    free(k->lanes);
}

uint32_t kineto_name_number(struct kineto_tables *k, struct kineto_batch *b, struct kineto_text t, int decode)
{
    if (t.n == 0)
        return 0;
    if (t.n > KINETO_NAME_MAX)
        t.n = KINETO_NAME_MAX;
    uint32_t before = gw_intern_count(k->names), id = gw_intern_add(k->names, t.s, t.n);
    if (id > before) {
        struct kineto_name *n = gw_array_push(&b->names);
        if (!n) {
            b->no_memory = 1;
            return 0;
        }
        *n = (struct kineto_name){t.s, 0, (uint32_t)t.n, decode && memchr(t.s, '\\', t.n)};
        k->name_bytes += t.n;
    } else if (id == 0) {
        b->no_memory = 1;
    }
    return id;
}

static size_t lane_slot(const struct kineto_tables *k, const struct kineto_lane *l)
{
    int64_t key[3] = {l->type, l->a, l->b};
    size_t h = (size_t)gw_hash_bytes(key, sizeof key) & k->lane_mask;
    while (k->lanes[h].number &&
           (k->lanes[h].lane.type != l->type || k->lanes[h].lane.a != l->a || k->lanes[h].lane.b != l->b))
        h = (h + 1) & k->lane_mask;
    return h;
}

/* Keeps the table at most half full. */
static int lanes_grow(struct kineto_tables *k)
{
    struct kineto_lane_slot *old = k->lanes, *fresh;
    size_t n = k->lane_mask + 1;
    if ((size_t)k->lane_count * 2 < n)
        return GW_OK;
    fresh = calloc(2 * n, sizeof *fresh);
    if (!fresh)
        return GW_ENOMEM;
    k->lanes = fresh;
    k->lane_mask = 2 * n - 1;
    for (size_t i = 0; i < n; i++)
        if (old[i].number)
            fresh[lane_slot(k, &old[i].lane)] = old[i];
    free(old);
    return GW_OK;
}

uint32_t kineto_lane_number(struct kineto_tables *k, struct kineto_batch *b, int type, int64_t x, int64_t y)
{
    struct kineto_lane_slot *last = &k->last[type != GW_LANE_GPU];
    if (last->number && last->lane.type == type && last->lane.a == x && last->lane.b == y)
        return last->number;
    struct kineto_lane lane = {type, x, y};
    size_t h = lane_slot(k, &lane);
    if (!k->lanes[h].number) {
        struct kineto_lane *slot = lanes_grow(k) == GW_OK ? gw_array_push(&b->lanes) : NULL;
        if (!slot) {
            b->no_memory = 1;
            return 0;
        }
        *slot = lane;
        h = lane_slot(k, &lane);
        k->lanes[h] = (struct kineto_lane_slot){lane, ++k->lane_count};
    }
    *last = k->lanes[h];
    return last->number;
}

uint32_t kineto_series_number(struct kineto_tables *k, struct kineto_batch *b, struct kineto_text name,
                              struct kineto_text key)
{
    size_t n = name.n + 2 + key.n, at = b->scratch.len, before = b->names.len;
    if (n > KINETO_NAME_MAX)
        return 0;
    if (gw_array_reserve(&b->scratch, n) < 0) {
        b->no_memory = 1;
        return 0;
    }
    char *s = (char *)b->scratch.data + at;
    if (name.n) /* without a name there is no text to copy from either */
        memcpy(s, name.s, name.n);
    memcpy(s + name.n, ": ", 2);
    memcpy(s + name.n + 2, key.s, key.n);
    uint32_t id = kineto_name_number(k, b, (struct kineto_text){s, n}, 1);
    if (b->names.len > before) { /* new: its text stays, and moves with the scratch memory */
        struct kineto_name *last = (struct kineto_name *)b->names.data + before;
        last->s = NULL;
        last->at = at;
        b->scratch.len += n;
    }
    return id;
}
