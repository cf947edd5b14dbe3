#include "model/trace.h"

#include <stdlib.h>
#include <string.h>

/* Lanes are found through a small hash of (type, a, b); the last hit is tried first, since events come in runs. */
struct gw_trace_priv {
    uint32_t *slots; /* lane index + 1 */
    size_t mask, used;
    uint32_t last;
};

struct gw_trace *gw_trace_create(size_t max_bytes)
{
    struct gw_trace *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->max_bytes = max_bytes;
    size_t max_events = UINT32_MAX - 2; /* events are addressed by 32 bits */
    if (max_bytes && max_bytes / (sizeof(struct gw_event) + 8) < max_events)
        max_events = max_bytes / (sizeof(struct gw_event) + 8) + 1;
    gw_array_init(&t->events, sizeof(struct gw_event), max_events);
    gw_array_init(&t->lanes, sizeof(struct gw_lane), 1u << 20);
    gw_array_init(&t->devices, sizeof(struct gw_device), 4096);
    gw_array_init(&t->sources, sizeof(struct gw_source), 65536);
    gw_array_init(&t->index, sizeof(uint32_t), 0);
    t->arena = gw_arena_create(0);
    t->names = gw_intern_create();
    struct gw_trace_priv *p = calloc(1, sizeof *p);
    t->priv = p;
    if (p) {
        p->mask = 255;
        p->slots = calloc(p->mask + 1, sizeof *p->slots);
        p->last = GW_NONE;
    }
    if (!t->arena || !t->names || !p || !p->slots) {
        gw_trace_destroy(t);
        return NULL;
    }
    t->facts.rank = t->facts.world_size = -1;
    for (int i = 0; i < GW_LOSS_COUNT; i++)
        t->loss[i].first_byte = -1;
    return t;
}

void gw_trace_destroy(struct gw_trace *t)
{
    if (!t)
        return;
    struct gw_trace_priv *p = t->priv;
    if (p)
        free(p->slots);
    free(p);
    gw_array_free(&t->events);
    gw_array_free(&t->lanes);
    gw_array_free(&t->devices);
    gw_array_free(&t->sources);
    gw_array_free(&t->index);
    gw_array_free(&t->kernel_metrics);
    gw_array_free(&t->kernel_rows);
    gw_intern_destroy(t->names);
    gw_arena_destroy(t->arena);
    free(t);
}

uint32_t gw_trace_name(struct gw_trace *t, const char *s, size_t len) { return gw_intern_add(t->names, s, len); }
const char *gw_trace_text(const struct gw_trace *t, uint32_t name) { return gw_intern_text(t->names, name); }

static struct gw_lane *lane_at(struct gw_trace *t, uint32_t i) { return (struct gw_lane *)t->lanes.data + i; }

static int lane_is(const struct gw_lane *l, enum gw_lane_type type, int64_t a, int64_t b)
{
    if (l->type != type)
        return 0;
    return type == GW_LANE_HOST ? l->pid == a && l->tid == b
           : type == GW_LANE_GPU ? l->device == a && l->stream == b
                                 : l->device == a && l->pid == b;
}

static size_t lane_slot(const struct gw_trace_priv *p, enum gw_lane_type type, int64_t a, int64_t b)
{
    int64_t key[3] = {(int64_t)type, a, b};
    return (size_t)gw_hash_bytes(key, sizeof key) & p->mask;
}

static int lanes_rehash(struct gw_trace *t, struct gw_trace_priv *p)
{
    size_t mask = p->mask * 2 + 1;
    uint32_t *slots = calloc(mask + 1, sizeof *slots);
    if (!slots)
        return GW_ENOMEM;
    free(p->slots);
    p->slots = slots;
    p->mask = mask;
    for (uint32_t i = 0; i < t->lanes.len; i++) {
        const struct gw_lane *l = lane_at(t, i);
        size_t s = l->type == GW_LANE_HOST ? lane_slot(p, l->type, l->pid, l->tid)
                   : l->type == GW_LANE_GPU ? lane_slot(p, l->type, l->device, l->stream)
                                            : lane_slot(p, l->type, l->device, l->pid);
        while (slots[s])
            s = (s + 1) & mask;
        slots[s] = i + 1;
    }
    return GW_OK;
}

static uint32_t lane_get(struct gw_trace *t, enum gw_lane_type type, int64_t a, int64_t b)
{
    struct gw_trace_priv *p = t->priv;
    if (p->last != GW_NONE && lane_is(lane_at(t, p->last), type, a, b))
        return p->last;
    size_t s = lane_slot(p, type, a, b);
    for (; p->slots[s]; s = (s + 1) & p->mask)
        if (lane_is(lane_at(t, p->slots[s] - 1), type, a, b))
            return p->last = p->slots[s] - 1;
    struct gw_lane *l = gw_array_push(&t->lanes);
    if (!l)
        return GW_NONE;
    l->type = type;
    l->device = type == GW_LANE_HOST ? -1 : a;
    l->stream = type == GW_LANE_GPU ? b : -1;
    l->pid = type == GW_LANE_HOST ? a : type == GW_LANE_COUNTER ? b : -1;
    l->tid = type == GW_LANE_HOST ? b : -1;
    uint32_t i = (uint32_t)t->lanes.len - 1;
    p->slots[s] = i + 1;
    if (++p->used * 2 > p->mask && lanes_rehash(t, p) < 0)
        return GW_NONE;
    return p->last = i;
}

uint32_t gw_trace_lane_gpu(struct gw_trace *t, int64_t device, int64_t stream)
{
    return lane_get(t, GW_LANE_GPU, device, stream);
}
uint32_t gw_trace_lane_host(struct gw_trace *t, int64_t pid, int64_t tid) { return lane_get(t, GW_LANE_HOST, pid, tid); }
uint32_t gw_trace_lane_counter(struct gw_trace *t, int64_t device, int64_t pid)
{
    return lane_get(t, GW_LANE_COUNTER, device, pid);
}

struct gw_device *gw_trace_device(struct gw_trace *t, int64_t id)
{
    struct gw_device *d = t->devices.data;
    for (size_t i = 0; i < t->devices.len; i++)
        if (d[i].id == id)
            return d + i;
    d = gw_array_push(&t->devices);
    if (d)
        *d = (struct gw_device){.id = id, .memory_bytes = -1, .sm_count = -1, .cc_major = -1, .cc_minor = -1,
                                .max_threads_per_sm = -1};
    return d;
}

int gw_trace_add(struct gw_trace *t, const struct gw_event *e)
{
    struct gw_event *slot = gw_array_push(&t->events);
    if (!slot) {
        gw_trace_lose(t, GW_LOSS_MEMORY_CAP, 1, -1);
        return GW_ENOMEM;
    }
    *slot = *e;
    slot->up = slot->link = GW_NONE;
    return GW_OK;
}

void gw_trace_lose(struct gw_trace *t, enum gw_loss loss, uint64_t n, int64_t byte)
{
    if (t->loss[loss].count == 0)
        t->loss[loss].first_byte = byte;
    t->loss[loss].count += n;
}

struct gw_source *gw_trace_source(struct gw_trace *t, const char *path, const char *format)
{
    struct gw_source *s = gw_array_push(&t->sources);
    if (s)
        *s = (struct gw_source){.path = gw_arena_strdup(t->arena, path), .format = format, .bytes = -1,
                                .text_bytes = -1, .events = -1};
    return s;
}
