#include "import/kineto_merge.h"

#include <stdlib.h>
#include <string.h>

#include "import/gw_json_scan.h"

/* Slices open at one time, and rows named in metadata. Real traces have some hundred of either. */
enum { OPEN_MAX = 1 << 20, LABELS_MAX = 1 << 20 };

/* Bytes that the table of names takes for one beside its text: two slots of its index, address and length. */
enum { NAME_COST = 40 };

struct open_slice {
    struct gw_event e;
    uint32_t below; /* the slice around it, or the next unused entry; + 1 */
};

struct label {
    int64_t pid, tid;
    uint32_t what; /* enum kineto_meta */
    uint32_t name;
};

int kineto_merge_init(struct kineto_merge *m, struct gw_trace *t)
{
    memset(m, 0, sizeof *m);
    m->t = t;
    for (int i = 0; i < KINETO_THREADS_MAX; i++) {
        gw_array_init(&m->names[i], sizeof(uint32_t), 0);
        gw_array_init(&m->lanes[i], sizeof(uint32_t), 0);
    }
    gw_array_init(&m->text, 1, 0);
    gw_array_init(&m->tops, sizeof(uint32_t), 0);
    gw_array_init(&m->open, sizeof(struct open_slice), OPEN_MAX);
    gw_array_init(&m->labels, sizeof(struct label), LABELS_MAX);
    m->rows = gw_intern_create();
    return m->rows ? GW_OK : GW_ENOMEM;
}

void kineto_merge_free(struct kineto_merge *m)
{
    for (int i = 0; i < KINETO_THREADS_MAX; i++) {
        gw_array_free(&m->names[i]);
        gw_array_free(&m->lanes[i]);
    }
    gw_array_free(&m->text);
    gw_array_free(&m->tops);
    gw_array_free(&m->open);
    gw_array_free(&m->labels);
    gw_intern_destroy(m->rows);
}

void kineto_merge_lose(struct kineto_merge *m, enum gw_loss loss, uint64_t n, int64_t byte)
{
    struct gw_loss_count *l = &m->loss[loss];
    if (byte >= 0 && (l->count == 0 || l->first_byte < 0 || byte < l->first_byte))
        l->first_byte = byte;
    else if (l->count == 0)
        l->first_byte = -1;
    l->count += n;
}

/* ---- local numbers ---- */

/* Names count against the trace's cap too: a trace of ever new ones must not take memory without bound. */
static void count_name(struct kineto_merge *m, const struct kineto_name *n, uint32_t id)
{
    if (id <= m->last_name)
        return;
    m->last_name = id;
    m->name_bytes += n->n + NAME_COST;
    size_t room = m->t->max_bytes;
    if (room && !m->full && m->t->events.len * (sizeof(struct gw_event) + 8) + m->name_bytes > room) {
        m->full = 1;
        kineto_merge_lose(m, GW_LOSS_MEMORY_CAP, 1, -1);
    }
}

static uint32_t new_name(struct kineto_merge *m, const struct kineto_batch *b, const struct kineto_name *n)
{
    const char *s = n->s ? n->s : (const char *)b->scratch.data + n->at;
    if (!n->decode)
        return gw_trace_name(m->t, s, n->n);
    m->text.len = 0;
    if (gw_array_reserve(&m->text, n->n) < 0)
        return 0;
    return gw_trace_name(m->t, m->text.data, gw_json_unescape(m->text.data, s, n->n));
}

static uint32_t row_number(struct kineto_merge *m, int64_t pid, int64_t tid)
{
    int64_t key[2] = {pid, tid};
    uint32_t row = gw_intern_add(m->rows, (const char *)key, sizeof key);
    while (row && m->tops.len <= row)
        if (!gw_array_push(&m->tops))
            return 0;
    return row;
}

static uint32_t trace_lane(struct kineto_merge *m, const struct kineto_lane *l)
{
    switch (l->type) {
    case GW_LANE_GPU: return gw_trace_lane_gpu(m->t, l->a, l->b);
    case GW_LANE_HOST: return gw_trace_lane_host(m->t, l->a, l->b);
    case GW_LANE_COUNTER: return gw_trace_lane_counter(m->t, l->a, l->b);
    default: return row_number(m, l->a, l->b);
    }
}

static int learn(struct kineto_merge *m, const struct kineto_batch *b)
{
    struct gw_array *names = &m->names[b->parser], *lanes = &m->lanes[b->parser];
    if (b->fresh)
        names->len = lanes->len = 0;
    const struct kineto_name *n = b->names.data;
    for (size_t i = 0; i < b->names.len; i++) {
        uint32_t *slot = gw_array_push(names);
        if (!slot)
            return GW_ENOMEM;
        *slot = new_name(m, b, n + i);
        count_name(m, n + i, *slot);
    }
    const struct kineto_lane *l = b->lanes.data;
    for (size_t i = 0; i < b->lanes.len; i++) {
        uint32_t *slot = gw_array_push(lanes);
        if (!slot)
            return GW_ENOMEM;
        *slot = trace_lane(m, l + i);
        if (*slot == GW_NONE) /* more rows than a trace can hold: their events are left out below */
            kineto_merge_lose(m, GW_LOSS_MEMORY_CAP, 1, -1);
    }
    return GW_OK;
}

static uint32_t look_up(const struct gw_array *map, uint64_t local)
{
    return local && local <= map->len ? ((const uint32_t *)map->data)[local - 1] : 0;
}

/* ---- begin and end ---- */

static void begin_slice(struct kineto_merge *m, const struct gw_event *e, uint32_t row)
{
    struct open_slice *o;
    uint32_t at = m->free_slices;
    if (at) {
        o = (struct open_slice *)m->open.data + (at - 1);
        m->free_slices = o->below;
    } else {
        o = gw_array_push(&m->open);
        at = (uint32_t)m->open.len;
    }
    if (!o || !row) {
        kineto_merge_lose(m, GW_LOSS_BAD_EVENT, 1, -1);
        return;
    }
    uint32_t *top = (uint32_t *)m->tops.data + row;
    o->e = *e;
    o->below = *top;
    *top = at;
}

/* Puts the innermost open slice of the row into *e, ended. 0 when there is none. */
static int end_slice(struct kineto_merge *m, struct gw_event *e, uint32_t row)
{
    uint32_t *top = row ? (uint32_t *)m->tops.data + row : NULL;
    if (!top || !*top) {
        kineto_merge_lose(m, GW_LOSS_BAD_EVENT, 1, -1);
        return 0;
    }
    struct open_slice *o = (struct open_slice *)m->open.data + (*top - 1);
    int64_t end = e->start;
    uint32_t at = *top;
    *e = o->e;
    *top = o->below;
    o->below = m->free_slices;
    m->free_slices = at;
    if (end < e->start) {
        kineto_merge_lose(m, GW_LOSS_NEGATIVE_DURATION, 1, -1);
        end = e->start;
    }
    e->end = end;
    return 1;
}

/* ---- batches ---- */

static void add_label(struct kineto_merge *m, const struct gw_event *e)
{
    struct label *l = gw_array_push(&m->labels);
    if (l)
        *l = (struct label){e->start, e->end, e->sub, e->name};
}

/* One event with the trace's numbers. */
static void add_event(struct kineto_merge *m, struct gw_event *e, uint32_t row)
{
    if (e->kind == KINETO_META) {
        add_label(m, e);
        return;
    }
    unsigned half = e->flags & (KINETO_BEGIN | KINETO_END);
    e->flags &= (uint16_t) ~(KINETO_BEGIN | KINETO_END);
    if (half & KINETO_BEGIN) {
        begin_slice(m, e, row);
        return;
    }
    if (half && !end_slice(m, e, row))
        return;
    if (e->lane != GW_NONE && gw_trace_add(m->t, e) < 0)
        m->full = 1;
}

int kineto_merge_add(struct kineto_merge *m, const struct kineto_batch *b)
{
    if (b->no_memory || learn(m, b) < 0)
        return GW_ENOMEM;
    const struct gw_array *names = &m->names[b->parser], *lanes = &m->lanes[b->parser];
    const struct gw_event *src = b->events.data;
    for (size_t i = 0; i < b->events.len && !m->full; i++) {
        struct gw_event e = src[i];
        e.name = look_up(names, e.name);
        if (e.kind == GW_KIND_OP) {
            e.arg0 = e.flags & GW_EV_HAS_ARG0 ? look_up(names, e.arg0) : 0;
            e.arg1 = e.flags & GW_EV_HAS_ARG1 ? look_up(names, e.arg1) : 0;
        }
        e.lane = look_up(lanes, e.lane);
        add_event(m, &e, look_up(lanes, e.up));
    }
    for (int i = 0; i < GW_LOSS_COUNT; i++)
        if (b->loss[i].count)
            kineto_merge_lose(m, (enum gw_loss)i, b->loss[i].count, b->loss[i].first_byte);
    m->seen += b->seen;
    m->torch |= b->torch;
    m->gpu_ops |= b->gpu_ops;
    m->gpu_fraction |= b->gpu_fraction;
    return GW_OK;
}

/* ---- finish ---- */

static uint64_t count_open(const struct kineto_merge *m)
{
    uint64_t n = 0;
    const uint32_t *top = m->tops.data;
    const struct open_slice *o = m->open.data;
    for (size_t r = 1; r < m->tops.len; r++)
        for (uint32_t at = top[r]; at; at = o[at - 1].below)
            n++;
    return n;
}

/* Thread names first; a process name where a thread has none. Rows without events get no lane. */
static int name_lanes(struct kineto_merge *m)
{
    struct gw_intern *ids = gw_intern_create();
    struct gw_array by_id; /* uint32_t: name, by id of the row's key */
    gw_array_init(&by_id, sizeof(uint32_t), 0);
    const struct label *l = m->labels.data;
    int rc = GW_ENOMEM;
    if (!ids)
        goto out;
    for (size_t i = 0; i < m->labels.len; i++) {
        int thread = l[i].what == KINETO_META_THREAD;
        int64_t key[3] = {thread, l[i].pid, thread ? l[i].tid : 0};
        uint32_t id = gw_intern_add(ids, (const char *)key, sizeof key);
        while (by_id.len <= id)
            if (!gw_array_push(&by_id))
                goto out;
        ((uint32_t *)by_id.data)[id] = l[i].name;
    }
    for (size_t i = 0; i < m->t->lanes.len; i++) {
        struct gw_lane *lane = (struct gw_lane *)m->t->lanes.data + i;
        int gpu = lane->type == GW_LANE_GPU;
        int64_t pid = gpu ? lane->device : lane->pid;
        int64_t thread[3] = {1, pid, gpu ? lane->stream : lane->tid}, process[3] = {0, pid, 0};
        uint32_t id = gw_intern_find(ids, (const char *)thread, sizeof thread);
        if (!id && !gpu)
            id = gw_intern_find(ids, (const char *)process, sizeof process);
        if (id && lane->type != GW_LANE_COUNTER)
            lane->name = ((const uint32_t *)by_id.data)[id];
    }
    rc = GW_OK;
out:
    gw_intern_destroy(ids);
    gw_array_free(&by_id);
    return rc;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* cudaGraphLaunch, cuGraphLaunch, hipGraphLaunch and their _ptsz and _v2 kin. */
static int is_graph_launch(const struct gw_trace *t, uint32_t name)
{
    return memmem(gw_trace_text(t, name), gw_intern_len(t->names, name), "GraphLaunch", 11) != NULL;
}

/* Work that shares the correlation id of a graph launch ran inside the graph: ROCm traces say it in no other way. */
static int mark_graphs(struct kineto_merge *m)
{
    struct gw_trace *t = m->t;
    struct gw_event *ev = t->events.data;
    struct gw_array corrs; /* uint64_t */
    gw_array_init(&corrs, sizeof(uint64_t), 0);
    uint32_t launches[16];
    size_t n = 0;
    for (uint32_t id = 1; id <= gw_intern_count(t->names) && n < sizeof launches / sizeof *launches; id++)
        if (gw_intern_len(t->names, id) < 64 && is_graph_launch(t, id))
            launches[n++] = id;
    for (size_t i = 0; n && i < t->events.len; i++) {
        if (ev[i].kind != GW_KIND_API || !(ev[i].flags & GW_EV_HAS_CORR))
            continue;
        for (size_t k = 0; k < n; k++)
            if (ev[i].name == launches[k]) {
                uint64_t *slot = gw_array_push(&corrs);
                if (!slot) {
                    gw_array_free(&corrs);
                    return GW_ENOMEM;
                }
                *slot = ev[i].corr;
            }
    }
    if (corrs.len)
        qsort(corrs.data, corrs.len, sizeof(uint64_t), by_value);
    for (size_t i = 0; corrs.len && i < t->events.len; i++)
        if (gw_kind_is_gpu(ev[i].kind) && ev[i].flags & GW_EV_HAS_CORR &&
            bsearch(&ev[i].corr, corrs.data, corrs.len, sizeof(uint64_t), by_value))
            ev[i].flags |= GW_EV_IN_GRAPH;
    gw_array_free(&corrs);
    return GW_OK;
}

int kineto_merge_finish(struct kineto_merge *m)
{
    uint64_t open = count_open(m);
    if (open)
        kineto_merge_lose(m, GW_LOSS_BAD_EVENT, open, -1);
    for (int i = 0; i < GW_LOSS_COUNT; i++)
        if (m->loss[i].count)
            gw_trace_lose(m->t, (enum gw_loss)i, m->loss[i].count, m->loss[i].first_byte);
    if (name_lanes(m) < 0)
        return GW_ENOMEM;
    return mark_graphs(m);
}
