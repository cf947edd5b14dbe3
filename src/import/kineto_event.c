#include "import/kineto_event.h"

#include <stdlib.h>
#include <string.h>

#include "import/kineto_fields.h"

struct kineto_parser {
    int number, fresh;
    struct kineto_tables k;
};

struct kineto_parser *kineto_parser_create(int number)
{
    struct kineto_parser *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->number = number;
    p->fresh = 1;
    if (kineto_tables_init(&p->k) < 0) {
        kineto_parser_destroy(p);
        return NULL;
    }
    return p;
}

void kineto_parser_destroy(struct kineto_parser *p)
{
    if (!p)
        return;
    kineto_tables_free(&p->k);
    free(p);
}

static void lose(struct kineto_batch *b, enum gw_loss loss, const char *where)
{
    if (b->loss[loss].count++ == 0)
        b->loss[loss].first_byte = b->text_off + (where - b->block->base);
}

/* ---- fields to events ---- */

/* Start and end in ns. 0, or -1 with the loss counted. */
static int event_times(struct kineto_batch *b, const struct kineto_fields *f, struct gw_event *e)
{
    int has_dur = f->ph == 'X';
    if (!(f->has & KINETO_HAS_TS) || (has_dur && !(f->has & KINETO_HAS_DUR)) || f->ts_rc == GW_DEC_NAN ||
        (has_dur && f->dur_rc == GW_DEC_NAN)) {
        lose(b, GW_LOSS_BAD_EVENT, f->start);
        return -1;
    }
    int64_t dur = has_dur ? f->dur : 0;
    if (f->ts_rc == GW_DEC_RANGE || (has_dur && f->dur_rc == GW_DEC_RANGE) ||
        (dur > 0 && f->ts > GW_TIME_LIMIT - dur)) {
        lose(b, GW_LOSS_BAD_TIME, f->start);
        return -1;
    }
    if (dur < 0) {
        lose(b, GW_LOSS_NEGATIVE_DURATION, f->start);
        dur = 0;
    }
    e->start = f->ts;
    e->end = f->ts + dur;
    return 0;
}

static int on_gpu_row(unsigned kind) { return gw_kind_is_gpu(kind) || kind == GW_KIND_GPU_SYNC; }

static int event_lane(struct kineto_tables *k, struct kineto_batch *b, const struct kineto_fields *f,
                      struct gw_event *e)
{
    int64_t x = f->pid, y = f->tid;
    unsigned need = KINETO_HAS_PID | KINETO_HAS_TID;
    if (on_gpu_row(e->kind)) {
        if (f->a.has & KINETO_ARG_DEVICE) {
            x = f->a.device;
            need &= ~(unsigned)KINETO_HAS_PID;
        }
        if (f->a.has & KINETO_ARG_STREAM) {
            y = f->a.stream;
            need &= ~(unsigned)KINETO_HAS_TID;
        }
    }
    if ((f->has & need) != need) {
        lose(b, GW_LOSS_BAD_EVENT, f->start);
        return -1;
    }
    e->lane = kineto_lane_number(k, b, on_gpu_row(e->kind) ? GW_LANE_GPU : GW_LANE_HOST, x, y);
    return e->lane ? 0 : -1;
}

static void set_arg0(struct gw_event *e, uint64_t v)
{
    e->arg0 = v;
    e->flags |= GW_EV_HAS_ARG0;
}

static void kernel_details(const struct kineto_fields *f, struct gw_event *e)
{
    if (f->a.has & KINETO_ARG_GRID)
        set_arg0(e, f->a.grid);
    if (f->a.has & KINETO_ARG_BLOCK && f->a.block <= UINT32_MAX) {
        e->sub = (uint32_t)f->a.block;
        e->flags |= GW_EV_HAS_SUB;
    }
    if (f->a.has & KINETO_ARG_NODE && f->a.node != 0)
        e->flags |= GW_EV_IN_GRAPH;
    unsigned size = f->a.has & KINETO_ARG_NELEMS ? kineto_dtype_bytes(f->a.dtype.s, f->a.dtype.n) : 0;
    uint64_t bytes;
    if (size && !__builtin_mul_overflow(f->a.nelems, (uint64_t)size, &bytes)) {
        e->arg1 = bytes;
        e->flags |= GW_EV_HAS_ARG1;
    }
}

static void event_details(struct kineto_tables *k, struct kineto_batch *b, const struct kineto_fields *f,
                          struct gw_event *e)
{
    switch (e->kind) {
    case GW_KIND_KERNEL: kernel_details(f, e); break;
    case GW_KIND_COPY:
        e->sub = kineto_copy_sub(f->name.s, f->name.n);
        if (!e->sub && f->a.copy_kind.n)
            e->sub = kineto_copy_sub(f->a.copy_kind.s, f->a.copy_kind.n);
        e->flags |= e->sub ? GW_EV_HAS_SUB : 0;
        if (f->a.has & KINETO_ARG_BYTES)
            set_arg0(e, f->a.bytes);
        break;
    case GW_KIND_SET:
    case GW_KIND_API:
        if (f->a.has & KINETO_ARG_BYTES)
            set_arg0(e, f->a.bytes);
        break;
    case GW_KIND_GPU_SYNC:
        if (f->a.has & KINETO_ARG_WAIT)
            set_arg0(e, (uint64_t)f->a.wait_stream);
        break;
    case GW_KIND_OP:
        if (f->a.dims.n)
            set_arg0(e, kineto_name_number(k, b, f->a.dims, 0));
        if (f->a.types.n) {
            e->arg1 = kineto_name_number(k, b, f->a.types, 0);
            e->flags |= GW_EV_HAS_ARG1;
        }
        break;
    default: break;
    }
    /* CUPTI and roctracer count from 1; 0 stands where a record has none. */
    if (f->a.has & KINETO_ARG_CORR && f->a.corr != 0 && (on_gpu_row(e->kind) || e->kind == GW_KIND_API)) {
        e->corr = (uint64_t)f->a.corr;
        e->flags |= GW_EV_HAS_CORR;
    }
}

static void put(struct kineto_batch *b, const struct gw_event *e)
{
    struct gw_event *slot = gw_array_push(&b->events);
    if (slot)
        *slot = *e;
    else
        b->no_memory = 1;
}

/* Slices: X, and the ends of B/E pairs. */
static void put_slice(struct kineto_tables *k, struct kineto_batch *b, const struct kineto_fields *f)
{
    struct gw_event e = {.kind = (uint16_t)f->kind};
    if (f->kind == KINETO_UNKNOWN && f->ph != 'E') {
        unsigned row = KINETO_ARG_DEVICE | KINETO_ARG_STREAM;
        if ((f->a.has & row) != row) {
            lose(b, GW_LOSS_UNKNOWN_RECORD, f->start);
            return;
        }
        e.kind = GW_KIND_KERNEL; /* a device and a stream: work on a GPU, whatever it is called */
    }
    if (event_times(b, f, &e) < 0)
        return;
    if (f->ph != 'X') {
        if (!(f->has & KINETO_HAS_PID) || !(f->has & KINETO_HAS_TID)) {
            lose(b, GW_LOSS_BAD_EVENT, f->start);
            return;
        }
        e.up = kineto_lane_number(k, b, KINETO_ROW, f->pid, f->tid);
        e.flags |= f->ph == 'B' ? KINETO_BEGIN : KINETO_END;
        if (f->ph == 'E') {
            put(b, &e);
            return;
        }
    }
    if (f->name.n == 0) {
        lose(b, GW_LOSS_BAD_EVENT, f->start);
        return;
    }
    if (event_lane(k, b, f, &e) < 0)
        return;
    e.name = kineto_name_number(k, b, f->name, 1);
    event_details(k, b, f, &e);
    if (gw_kind_is_gpu(e.kind)) {
        b->gpu_ops = 1;
        b->gpu_fraction |= e.start % 1000 != 0 || e.end % 1000 != 0;
    }
    put(b, &e);
}

static void put_meta(struct kineto_tables *k, struct kineto_batch *b, const struct kineto_fields *f)
{
    static const char *const names[] = {"", "process_name", "thread_name"};
    struct gw_event e = {.kind = KINETO_META, .start = f->pid, .end = f->tid};
    for (uint32_t i = 1; i < sizeof names / sizeof *names; i++)
        if (f->name.n == strlen(names[i]) && !memcmp(f->name.s, names[i], f->name.n))
            e.sub = i;
    if (!e.sub || !(f->has & KINETO_HAS_PID))
        return;
    e.name = kineto_name_number(k, b, f->a.name, 1);
    if (e.name)
        put(b, &e);
}

/* Counters: one event for each number in the args. */
static void put_counters(struct kineto_tables *k, struct kineto_batch *b, const struct kineto_fields *f,
                         const char *end)
{
    enum { SERIES_MAX = 256 }; /* of one event; ncu's largest set has some hundred metrics */
    struct gw_event e = {.kind = GW_KIND_COUNTER, .flags = GW_EV_HAS_ARG0};
    struct gw_json_cur c = {f->args, end};
    if (event_times(b, f, &e) < 0 || !f->args || c.p == end || *c.p != '{')
        return;
    c.p++;
    e.lane = f->kind == KINETO_RANGE ? kineto_lane_number(k, b, GW_LANE_COUNTER, f->pid, -1)
                                     : kineto_lane_number(k, b, GW_LANE_COUNTER, -1, f->pid);
    struct kineto_text key, v;
    for (int i = 0; e.lane && i < SERIES_MAX && gw_json_next_key(&c, &key.s, &key.n) == 1; i++) {
        char num[64], *stop;
        if (kineto_scalar(&c, &v) < 0)
            return;
        if (v.n == 0 || v.n >= sizeof num)
            continue;
        memcpy(num, v.s, v.n);
        num[v.n] = '\0';
        double d = strtod(num, &stop);
        if (*stop || d - d != 0 || strspn(num, "0123456789+-.eE") != v.n) /* no number, or not a finite one */
            continue;
        memcpy(&e.arg0, &d, sizeof d);
        e.name = f->kind == KINETO_RANGE ? kineto_name_number(k, b, key, 1) : kineto_series_number(k, b, f->name, key);
        if (e.name)
            put(b, &e);
    }
}

static void put_event(struct kineto_tables *k, struct kineto_batch *b, const struct kineto_fields *f, const char *end)
{
    if (f->has == 0 && !f->args)
        return; /* "{}": what some writers close the list with */
    b->torch |= f->kind != KINETO_UNKNOWN;
    if (!(f->has & KINETO_HAS_PH)) {
        lose(b, GW_LOSS_BAD_EVENT, f->start);
    } else if (f->ph == 'M') {
        put_meta(k, b, f);
    } else if (f->ph == 'C' || (f->ph == 'X' && f->kind == KINETO_RANGE)) {
        put_counters(k, b, f, end);
    } else if (kineto_ph_dropped(f->ph) || f->kind == KINETO_DROP) {
        return;
    } else if (f->ph == 'X' || (f->ph == 'B' && f->kind != KINETO_RANGE) || f->ph == 'E') {
        put_slice(k, b, f);
    } else {
        lose(b, GW_LOSS_UNKNOWN_RECORD, f->start);
    }
}

/* ---- batches ---- */

/* The text of an event did not parse: events that begin inside it may still do. */
static void salvage(struct kineto_tables *k, struct kineto_batch *b, const char *text, const char *end)
{
    enum { TRIES = 64 }; /* starts without an end; bounds the work on hostile text */
    int tries = 0;
    for (const char *s = text; s < end && tries < TRIES; s++) {
        s = memchr(s, '{', (size_t)(end - s));
        if (!s)
            return;
        const char *before = s;
        while (before > text && gw_json_is_ws(before[-1]))
            before--;
        if ((before > text && before[-1] == ':') || gw_json_event_start(s, end, 1) != 1)
            continue;
        struct gw_json_cur c = {s, end};
        struct kineto_fields f;
        const char *at;
        if (gw_json_skip_value(&c) < 0 || kineto_fields_read(k, s, c.p, &f, &at) < 0) {
            tries++;
            continue;
        }
        put_event(k, b, &f, c.p);
        b->seen++;
        s = c.p - 1;
    }
}

void kineto_parse(struct kineto_parser *p, struct kineto_batch *b)
{
    struct kineto_tables *k = &p->k;
    if (kineto_tables_full(k)) {
        b->no_memory |= kineto_tables_empty(k) < 0;
        p->fresh = 1;
    }
    b->parser = p->number;
    b->fresh = p->fresh;
    p->fresh = 0;
    if (!k->names)
        return;
    const struct kineto_cut *cut = b->cuts.data;
    for (size_t i = 0; i < b->cuts.len; i++) {
        const char *text = b->block->base + cut[i].start, *end = text + cut[i].len, *at = text;
        struct kineto_fields f;
        b->seen++;
        if (kineto_fields_read(k, text, end, &f, &at) == 0) {
            put_event(k, b, &f, end);
        } else {
            lose(b, GW_LOSS_DAMAGED, at);
            salvage(k, b, text + 1, end);
        }
    }
}
