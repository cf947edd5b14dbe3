#include "import/kineto_event.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "import/kineto_args.h"

/* Tables of a parser are thrown away and started anew at these sizes, so that a trace of ever new names cannot make the
 * parsers hold what the trace's own tables hold already. */
enum { NAMES_MAX = 1 << 18, NAME_BYTES_MAX = 32 << 20, LANES_MAX = 1 << 14 };
/* Longer names are cut: 64 KiB is beyond any mangled kernel name, and bounds what one event can cost. */
enum { NAME_MAX_BYTES = 64 << 10 };

struct cat_slot {
    const char *name;
    size_t n;
    unsigned kind;
};

struct lane_slot {
    struct kineto_lane lane;
    uint32_t number; /* 0 = free */
};

struct kineto_parser {
    int number, fresh;
    struct gw_intern *names; /* raw text -> local number */
    size_t name_bytes;
    struct lane_slot *lanes;
    size_t lane_mask;
    uint32_t lane_count;
    struct lane_slot last[2]; /* of GPU lanes, of others: events come in runs */
    struct cat_slot cats[256];
};

/* ---- tables ---- */

static size_t cat_hash(const char *s, size_t n)
{
    return (n * 31 + (size_t)(s[0] | 0x20) * 7 + (size_t)(s[n - 1] | 0x20) * 13 + (size_t)(s[n / 2] | 0x20)) & 255;
}

static void cats_fill(struct kineto_parser *p)
{
    static const struct cat_slot rows[] = {
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
        while (p->cats[h].name)
            h = (h + 1) & 255;
        p->cats[h] = rows[i];
    }
}

static unsigned cat_kind(const struct kineto_parser *p, const char *s, size_t n)
{
    if (n)
        for (size_t h = cat_hash(s, n); p->cats[h].name; h = (h + 1) & 255)
            if (p->cats[h].n == n && (!memcmp(p->cats[h].name, s, n) || !strncasecmp(p->cats[h].name, s, n)))
                return p->cats[h].kind;
    return KINETO_UNKNOWN;
}

static int tables_reset(struct kineto_parser *p)
{
    gw_intern_destroy(p->names);
    p->names = gw_intern_create();
    if (!p->names)
        return GW_ENOMEM;
    p->name_bytes = 0;
    if (p->lane_count)
        memset(p->lanes, 0, (p->lane_mask + 1) * sizeof *p->lanes);
    memset(p->last, 0, sizeof p->last);
    p->lane_count = 0;
    p->fresh = 1;
    return GW_OK;
}

struct kineto_parser *kineto_parser_create(int number)
{
    struct kineto_parser *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->number = number;
    p->lane_mask = 4 * LANES_MAX - 1;
    p->lanes = calloc(p->lane_mask + 1, sizeof *p->lanes); /* pages that are not used are not there */
    if (!p->lanes || tables_reset(p) < 0) {
        kineto_parser_destroy(p);
        return NULL;
    }
    cats_fill(p);
    return p;
}

void kineto_parser_destroy(struct kineto_parser *p)
{
    if (!p)
        return;
    gw_intern_destroy(p->names);
    free(p->lanes);
    free(p);
}

static void lose(struct kineto_batch *b, enum gw_loss loss, const char *where)
{
    if (b->loss[loss].count++ == 0)
        b->loss[loss].first_byte = b->text_off + (where - b->block->base);
}

static uint32_t name_number(struct kineto_parser *p, struct kineto_batch *b, struct kineto_text t, int decode)
{
    if (t.n == 0)
        return 0;
    if (t.n > NAME_MAX_BYTES)
        t.n = NAME_MAX_BYTES;
    uint32_t before = gw_intern_count(p->names), id = gw_intern_add(p->names, t.s, t.n);
    if (id > before) {
        struct kineto_name *n = gw_array_push(&b->names);
        if (!n) {
            b->no_memory = 1;
            return 0;
        }
        *n = (struct kineto_name){t.s, 0, (uint32_t)t.n, decode && memchr(t.s, '\\', t.n)};
        p->name_bytes += t.n;
    } else if (id == 0) {
        b->no_memory = 1;
    }
    return id;
}

static uint32_t lane_number(struct kineto_parser *p, struct kineto_batch *b, int type, int64_t x, int64_t y)
{
    struct lane_slot *last = &p->last[type != GW_LANE_GPU];
    if (last->number && last->lane.type == type && last->lane.a == x && last->lane.b == y)
        return last->number;
    int64_t key[3] = {type, x, y};
    size_t h = (size_t)gw_hash_bytes(key, sizeof key) & p->lane_mask;
    for (; p->lanes[h].number; h = (h + 1) & p->lane_mask) {
        const struct kineto_lane *l = &p->lanes[h].lane;
        if (l->type == type && l->a == x && l->b == y) {
            *last = p->lanes[h];
            return last->number;
        }
    }
    struct kineto_lane *l = p->lane_count < p->lane_mask / 4 * 3 ? gw_array_push(&b->lanes) : NULL;
    if (!l) {
        b->no_memory = 1;
        return 0;
    }
    *l = (struct kineto_lane){type, x, y};
    p->lanes[h] = (struct lane_slot){*l, ++p->lane_count};
    *last = p->lanes[h];
    return last->number;
}

/* ---- one event ---- */

enum { HAS_TS = 1, HAS_DUR = 2, HAS_PID = 4, HAS_TID = 8, HAS_NAME = 16, HAS_CAT = 32, HAS_PH = 64, HAS_OTHER = 128 };

struct fields {
    const char *start;
    unsigned has;
    char ph;
    unsigned kind; /* of the category */
    struct kineto_text name;
    int64_t ts, dur, pid, tid;
    enum gw_dec ts_rc, dur_rc;
    const char *args; /* where the value of "args" starts; read once the kind is known */
    int args_done;
    struct kineto_args a;
};

/* Phases of the trace event format that are neither slices, counters nor metadata: flows, instants, async, objects. */
static int ph_dropped(char ph)
{
    switch (ph) {
    case 's': case 't': case 'f': case 'i': case 'I': case 'R': case 'n': case 'b': case 'e': case 'N': case 'O':
    case 'D': case 'P': case 'v': case 'V': case 'c': case 'p': case '(': case ')': case ',':
        return 1;
    default:
        return 0;
    }
}

static enum kineto_args_for args_for(const struct fields *f)
{
    if (f->ph == 'M')
        return KINETO_ARGS_META;
    switch (f->kind) {
    case GW_KIND_KERNEL: case GW_KIND_COPY: case GW_KIND_SET: case GW_KIND_GPU_SYNC: case KINETO_UNKNOWN:
    case KINETO_RANGE:
        return KINETO_ARGS_GPU;
    case GW_KIND_API:
        return KINETO_ARGS_API;
    case GW_KIND_OP:
        return KINETO_ARGS_OP;
    default:
        return KINETO_ARGS_NONE;
    }
}

/* Is there a key "ph" in [p, end)? */
static int has_ph(const char *p, const char *end)
{
#if defined(__SSE2__)
    /* The quote and the p together are rare enough to look closer each time. */
    for (; end - p > 16; p += 16) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(p + 1));
        unsigned m = (unsigned)_mm_movemask_epi8(
            _mm_and_si128(_mm_cmpeq_epi8(a, _mm_set1_epi8('"')), _mm_cmpeq_epi8(b, _mm_set1_epi8('p'))));
        for (; m; m &= m - 1)
            if (end - p - __builtin_ctz(m) >= 4 && !memcmp(p + __builtin_ctz(m), "\"ph\"", 4))
                return 1;
    }
#endif
    return memmem(p, (size_t)(end - p), "\"ph\"", 4) != NULL;
}

/* Nothing more is needed from the rest of the event. It is passed over unread when it is the rest of this one only: two
 * events that damage glued together have a second "ph". */
static int may_stop(const struct fields *f, const struct gw_json_cur *c)
{
    enum { ALL = HAS_TS | HAS_DUR | HAS_PID | HAS_TID | HAS_NAME };
    int wanted = f->ph == 'X' && f->kind != KINETO_DROP;
    if (!(f->has & HAS_PH) || (wanted && (f->has & ALL) != ALL) || (!wanted && f->ph != 'X' && !ph_dropped(f->ph)))
        return 0;
    return !has_ph(c->p, c->end);
}

static int read_ph(struct gw_json_cur *c, struct fields *f)
{
    struct kineto_text t;
    if (kineto_scalar(c, &t) < 0)
        return -1;
    f->ph = t.n == 1 ? t.s[0] : '?';
    f->has |= HAS_PH;
    return ph_dropped(f->ph) && may_stop(f, c);
}

static int read_cat(struct gw_json_cur *c, struct fields *f, const struct kineto_parser *p)
{
    struct kineto_text t;
    if (kineto_scalar(c, &t) < 0)
        return -1;
    f->kind = cat_kind(p, t.s, t.n);
    f->has |= HAS_CAT;
    return f->kind == KINETO_DROP && f->ph == 'X' && may_stop(f, c);
}

static int read_args(struct gw_json_cur *c, struct fields *f)
{
    f->args = c->p;
    f->args_done = 0;
    if (!(f->has & HAS_CAT) || !(f->has & HAS_PH) || f->ph == 'C' || f->kind == KINETO_RANGE)
        return gw_json_skip_value(c); /* read later */
    enum kineto_args_for what = args_for(f);
    if (what == KINETO_ARGS_NONE && may_stop(f, c))
        return 1;
    f->args_done = 1;
    return kineto_args_read(c, what, &f->a);
}

static int read_id_field(struct gw_json_cur *c, int64_t *v, struct fields *f, unsigned bit)
{
    int has = 0;
    if (kineto_id(c, v, &has) < 0)
        return -1;
    f->has = has ? f->has | bit : f->has & ~bit;
    return 0;
}

/* One member of the event. 0 go on, 1 enough is known, -1 no JSON. */
static int read_member(struct gw_json_cur *c, struct fields *f, const struct kineto_parser *p, const char *k, size_t n)
{
    switch (n) {
    case 2:
        if (!memcmp(k, "ph", 2))
            return read_ph(c, f);
        if (!memcmp(k, "ts", 2)) {
            f->has |= HAS_TS;
            return kineto_time(c, &f->ts, &f->ts_rc);
        }
        break;
    case 3:
        if (!memcmp(k, "cat", 3))
            return read_cat(c, f, p);
        if (!memcmp(k, "dur", 3)) {
            f->has |= HAS_DUR;
            return kineto_time(c, &f->dur, &f->dur_rc);
        }
        if (!memcmp(k, "pid", 3))
            return read_id_field(c, &f->pid, f, HAS_PID);
        if (!memcmp(k, "tid", 3))
            return read_id_field(c, &f->tid, f, HAS_TID);
        break;
    case 4:
        if (!memcmp(k, "name", 4)) {
            f->has |= HAS_NAME;
            return kineto_scalar(c, &f->name);
        }
        if (!memcmp(k, "args", 4))
            return read_args(c, f);
        break;
    default:
        break;
    }
    f->has |= HAS_OTHER;
    return gw_json_skip_value(c);
}

/* Reads the fields of [text, end). 0, or -1: no JSON (*at is where). */
static int read_fields(const struct kineto_parser *p, const char *text, const char *end, struct fields *f,
                       const char **at)
{
    struct gw_json_cur c = {text + 1, end};
    const char *key = NULL;
    size_t n = 0;
    int r;
    *f = (struct fields){.start = text, .kind = KINETO_UNKNOWN};
    while ((r = gw_json_next_key(&c, &key, &n)) == 1) {
        int done = read_member(&c, f, p, key, n);
        if (done > 0)
            return 0;
        if (done < 0) {
            r = -1;
            break;
        }
    }
    *at = c.p;
    if (r == 0 && c.p == end && f->args && !f->args_done && f->ph != 'C' && f->kind != KINETO_RANGE) {
        struct gw_json_cur late = {f->args, end};
        kineto_args_read(&late, args_for(f), &f->a); /* walked over before, so it is well-formed */
    }
    return r == 0 && c.p == end ? 0 : -1;
}

/* ---- fields to events ---- */

/* Start and end in ns. 0, or -1 with the loss counted. */
static int event_times(struct kineto_batch *b, const struct fields *f, struct gw_event *e)
{
    int has_dur = f->ph == 'X';
    if (!(f->has & HAS_TS) || (has_dur && !(f->has & HAS_DUR)) || f->ts_rc == GW_DEC_NAN ||
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

static int event_lane(struct kineto_parser *p, struct kineto_batch *b, const struct fields *f, struct gw_event *e)
{
    int64_t x = f->pid, y = f->tid;
    unsigned need = HAS_PID | HAS_TID;
    if (on_gpu_row(e->kind)) {
        if (f->a.has & KINETO_ARG_DEVICE) {
            x = f->a.device;
            need &= ~(unsigned)HAS_PID;
        }
        if (f->a.has & KINETO_ARG_STREAM) {
            y = f->a.stream;
            need &= ~(unsigned)HAS_TID;
        }
    }
    if ((f->has & need) != need) {
        lose(b, GW_LOSS_BAD_EVENT, f->start);
        return -1;
    }
    e->lane = lane_number(p, b, on_gpu_row(e->kind) ? GW_LANE_GPU : GW_LANE_HOST, x, y);
    return e->lane ? 0 : -1;
}

static void set_arg0(struct gw_event *e, uint64_t v)
{
    e->arg0 = v;
    e->flags |= GW_EV_HAS_ARG0;
}

static void kernel_details(const struct fields *f, struct gw_event *e)
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

static void event_details(struct kineto_parser *p, struct kineto_batch *b, const struct fields *f, struct gw_event *e)
{
    switch (e->kind) {
    case GW_KIND_KERNEL:
        kernel_details(f, e);
        break;
    case GW_KIND_COPY:
        e->sub = kineto_copy_sub(f->name.s, f->name.n);
        if (!e->sub && f->a.copy_kind.n)
            e->sub = kineto_copy_sub(f->a.copy_kind.s, f->a.copy_kind.n);
        e->flags |= e->sub ? GW_EV_HAS_SUB : 0;
        if (f->a.has & KINETO_ARG_BYTES)
            set_arg0(e, f->a.bytes);
        break;
    case GW_KIND_SET: case GW_KIND_API:
        if (f->a.has & KINETO_ARG_BYTES)
            set_arg0(e, f->a.bytes);
        break;
    case GW_KIND_GPU_SYNC:
        if (f->a.has & KINETO_ARG_WAIT)
            set_arg0(e, (uint64_t)f->a.wait_stream);
        break;
    case GW_KIND_OP:
        if (f->a.dims.n)
            set_arg0(e, name_number(p, b, f->a.dims, 0));
        if (f->a.types.n) {
            e->arg1 = name_number(p, b, f->a.types, 0);
            e->flags |= GW_EV_HAS_ARG1;
        }
        break;
    default:
        break;
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
static void put_slice(struct kineto_parser *p, struct kineto_batch *b, const struct fields *f)
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
        if (!(f->has & HAS_PID) || !(f->has & HAS_TID)) {
            lose(b, GW_LOSS_BAD_EVENT, f->start);
            return;
        }
        e.up = lane_number(p, b, KINETO_ROW, f->pid, f->tid);
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
    if (event_lane(p, b, f, &e) < 0)
        return;
    e.name = name_number(p, b, f->name, 1);
    event_details(p, b, f, &e);
    if (gw_kind_is_gpu(e.kind)) {
        b->gpu_ops = 1;
        b->gpu_fraction |= e.start % 1000 != 0 || e.end % 1000 != 0;
    }
    put(b, &e);
}

static void put_meta(struct kineto_parser *p, struct kineto_batch *b, const struct fields *f)
{
    static const char *const names[] = {"", "process_name", "thread_name"};
    struct gw_event e = {.kind = KINETO_META, .start = f->pid, .end = f->tid};
    for (uint32_t i = 1; i < sizeof names / sizeof *names; i++)
        if (f->name.n == strlen(names[i]) && !memcmp(f->name.s, names[i], f->name.n))
            e.sub = i;
    if (!e.sub || !(f->has & HAS_PID))
        return;
    e.name = name_number(p, b, f->a.name, 1);
    if (e.name)
        put(b, &e);
}

/* The number of the name "name: key", which is nowhere in the file as such. */
static uint32_t series_number(struct kineto_parser *p, struct kineto_batch *b, struct kineto_text name,
                              struct kineto_text key)
{
    size_t n = name.n + 2 + key.n, at = b->scratch.len, before = b->names.len;
    if (n > NAME_MAX_BYTES)
        return 0;
    if (gw_array_reserve(&b->scratch, n) < 0) {
        b->no_memory = 1;
        return 0;
    }
    char *s = (char *)b->scratch.data + at;
    memcpy(s, name.s, name.n);
    memcpy(s + name.n, ": ", 2);
    memcpy(s + name.n + 2, key.s, key.n);
    uint32_t id = name_number(p, b, (struct kineto_text){s, n}, 1);
    if (b->names.len > before) { /* new: its text stays, and moves with the scratch memory */
        struct kineto_name *last = (struct kineto_name *)b->names.data + before;
        last->s = NULL;
        last->at = at;
        b->scratch.len += n;
    }
    return id;
}

/* Counters: one event for each number in the args. */
static void put_counters(struct kineto_parser *p, struct kineto_batch *b, const struct fields *f, const char *end)
{
    enum { SERIES_MAX = 256 }; /* of one event; ncu's largest set has some hundred metrics */
    struct gw_event e = {.kind = GW_KIND_COUNTER, .flags = GW_EV_HAS_ARG0};
    struct gw_json_cur c = {f->args, end};
    if (event_times(b, f, &e) < 0 || !f->args || c.p == end || *c.p != '{')
        return;
    c.p++;
    e.lane = f->kind == KINETO_RANGE ? lane_number(p, b, GW_LANE_COUNTER, f->pid, -1)
                                     : lane_number(p, b, GW_LANE_COUNTER, -1, f->pid);
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
        e.name = f->kind == KINETO_RANGE ? name_number(p, b, key, 1) : series_number(p, b, f->name, key);
        if (e.name)
            put(b, &e);
    }
}

static void put_event(struct kineto_parser *p, struct kineto_batch *b, const struct fields *f, const char *end)
{
    if (f->has == 0 && !f->args)
        return; /* "{}": what some writers close the list with */
    b->torch |= f->kind != KINETO_UNKNOWN;
    if (!(f->has & HAS_PH)) {
        lose(b, GW_LOSS_BAD_EVENT, f->start);
    } else if (f->ph == 'M') {
        put_meta(p, b, f);
    } else if (f->ph == 'C' || (f->ph == 'X' && f->kind == KINETO_RANGE)) {
        put_counters(p, b, f, end);
    } else if (ph_dropped(f->ph) || f->kind == KINETO_DROP) {
        return;
    } else if (f->ph == 'X' || (f->ph == 'B' && f->kind != KINETO_RANGE) || f->ph == 'E') {
        put_slice(p, b, f);
    } else {
        lose(b, GW_LOSS_UNKNOWN_RECORD, f->start);
    }
}

/* ---- batches ---- */

/* The text of an event did not parse: events that begin inside it may still do. */
static void salvage(struct kineto_parser *p, struct kineto_batch *b, const char *text, const char *end)
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
        struct fields f;
        const char *at;
        if (gw_json_skip_value(&c) < 0 || read_fields(p, s, c.p, &f, &at) < 0) {
            tries++;
            continue;
        }
        put_event(p, b, &f, c.p);
        b->seen++;
        s = c.p - 1;
    }
}

void kineto_parse(struct kineto_parser *p, struct kineto_batch *b)
{
    if (gw_intern_count(p->names) > NAMES_MAX || p->name_bytes > NAME_BYTES_MAX || p->lane_count > LANES_MAX)
        b->no_memory |= tables_reset(p) < 0;
    b->parser = p->number;
    b->fresh = p->fresh;
    p->fresh = 0;
    if (!p->names)
        return;
    const struct kineto_cut *cut = b->cuts.data;
    for (size_t i = 0; i < b->cuts.len; i++) {
        const char *text = b->block->base + cut[i].start, *end = text + cut[i].len, *at = text;
        struct fields f;
        b->seen++;
        if (read_fields(p, text, end, &f, &at) == 0) {
            put_event(p, b, &f, end);
        } else {
            lose(b, GW_LOSS_DAMAGED, at);
            salvage(p, b, text + 1, end);
        }
    }
}
