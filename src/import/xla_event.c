/* One event of a trace of JAX or TensorFlow. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "import/gw_decimal.h"
#include "import/gw_json_scan.h"
#include "import/xla.h"

#define NAME_MOST 16384 /* bytes of a name that are kept */

struct text {
    const char *s; /* raw: without quotes, escapes as they are */
    size_t n;
};

struct fields {
    struct text ph, pid, tid, ts, dur, name;
    struct text arg_name, correlation, kernel, memcpy_, memset_;
};

static int is(struct text a, const char *b) { return a.n == strlen(b) && !memcmp(a.s, b, a.n); }
static int begins(struct text a, const char *b) { return a.n >= strlen(b) && !memcmp(a.s, b, strlen(b)); }

int xla_init(struct xla *x, struct gw_trace *t)
{
    *x = (struct xla){.t = t};
    gw_array_init(&x->processes, sizeof(struct xla_process), 4096); /* looked up one after the other */
    gw_array_init(&x->rows, sizeof(struct xla_row), 4096);
    return GW_OK;
}

void xla_free(struct xla *x)
{
    gw_array_free(&x->processes);
    gw_array_free(&x->rows);
}

/* ------------------------------------------------------------------ rows */

/* The process of a pid; made when it is new. NULL at the limit. */
static struct xla_process *process(struct xla *x, int64_t pid)
{
    struct xla_process *p = x->processes.data;
    if (x->last_process < x->processes.len && p[x->last_process].pid == pid)
        return p + x->last_process;
    for (size_t i = 0; i < x->processes.len; i++)
        if (p[i].pid == pid)
            return p + (x->last_process = i);
    p = gw_array_push(&x->processes);
    if (p)
        *p = (struct xla_process){.pid = pid, .device = -2};
    return p;
}

static struct xla_row *row(struct xla *x, int64_t pid, int64_t tid)
{
    struct xla_row *r = x->rows.data;
    if (x->last_row < x->rows.len && r[x->last_row].pid == pid && r[x->last_row].tid == tid)
        return r + x->last_row;
    for (size_t i = 0; i < x->rows.len; i++)
        if (r[i].pid == pid && r[i].tid == tid)
            return r + (x->last_row = i);
    r = gw_array_push(&x->rows);
    if (r)
        *r = (struct xla_row){.pid = pid, .tid = tid, .stream = -1, .lane = GW_NONE};
    return r;
}

static int64_t digits(struct text t, size_t from)
{
    int64_t v = -1;
    for (; from < t.n && isdigit((unsigned char)t.s[from]) && v < 1000000000; from++)
        v = (v < 0 ? 0 : v * 10) + (t.s[from] - '0');
    return v;
}

static int metadata(struct xla *x, const struct fields *f, int64_t pid, int64_t tid)
{
    struct xla_process *p = process(x, pid);
    if (!p)
        return GW_ENOMEM;
    if (is(f->name, "process_name")) {
        const char *gpu = memmem(f->arg_name.s, f->arg_name.n, "/device:GPU:", 12);
        p->device = gpu ? digits((struct text){gpu, (size_t)(f->arg_name.s + f->arg_name.n - gpu)}, 12)
                    : memmem(f->arg_name.s, f->arg_name.n, "/host:", 6) ? -1
                                                                        : -2;
        return GW_OK;
    }
    if (!is(f->name, "thread_name"))
        return GW_OK;
    struct xla_row *r = row(x, pid, tid);
    if (!r)
        return GW_ENOMEM;
    if (p->device >= 0) {
        r->stream = begins(f->arg_name, "Stream #") ? digits(f->arg_name, 8) : -1;
    } else if (p->device == -1) {
        r->lane = gw_trace_lane_host(x->t, pid, tid);
        if (r->lane != GW_NONE)
            ((struct gw_lane *)x->t->lanes.data)[r->lane].name = gw_trace_name(x->t, f->arg_name.s, f->arg_name.n);
    }
    return GW_OK;
}

/* ------------------------------------------------------------------ fields */

/* The value at the cursor: a string without its quotes, or a bare word. Moves past it. */
static int value(struct gw_json_cur *c, struct text *out)
{
    const char *s = c->p;
    if (gw_json_skip_value(c) < 0)
        return -1;
    *out = (struct text){s, (size_t)(c->p - s)};
    if (out->n >= 2 && *s == '"')
        *out = (struct text){s + 1, out->n - 2};
    return 0;
}

static int read_args(struct fields *f, struct text args)
{
    struct gw_json_cur c = {args.s + 1, args.s + args.n};
    struct text key, v;
    while (gw_json_next_key(&c, &key.s, &key.n) == 1) {
        if (value(&c, &v) < 0)
            return -1;
        if (is(key, "name"))
            f->arg_name = v;
        else if (is(key, "correlation_id"))
            f->correlation = v;
        else if (is(key, "kernel_details"))
            f->kernel = v;
        else if (is(key, "memcpy_details"))
            f->memcpy_ = v;
        else if (is(key, "Memset_details") || is(key, "memset_details"))
            f->memset_ = v;
    }
    return 0;
}

static int read_fields(struct fields *f, const char *text, size_t len)
{
    struct gw_json_cur c = {text + 1, text + len};
    struct text key, v;
    const struct text none = {"", 0};
    *f = (struct fields){none, none, none, none, none, none, none, none, none, none, none};
    while (gw_json_next_key(&c, &key.s, &key.n) == 1) {
        if (value(&c, &v) < 0)
            return -1;
        if (is(key, "args") && v.n && *v.s == '{') {
            if (read_args(f, v) < 0)
                return -1;
            continue;
        }
        struct text *to = is(key, "ph")     ? &f->ph
                          : is(key, "pid")  ? &f->pid
                          : is(key, "tid")  ? &f->tid
                          : is(key, "ts")   ? &f->ts
                          : is(key, "dur")  ? &f->dur
                          : is(key, "name") ? &f->name
                                            : NULL;
        if (to)
            *to = v;
    }
    return 0;
}

/* "size:4096" among "kind_src:pinned kind_dst:device size:4096 dest:0 async:1": what is behind the colon. */
static struct text detail(struct text details, const char *key)
{
    size_t n = strlen(key);
    for (size_t i = 0; i + n < details.n; i++)
        if ((i == 0 || details.s[i - 1] == ' ') && !memcmp(details.s + i, key, n) && details.s[i + n] == ':') {
            size_t from = i + n + 1, to = from;
            while (to < details.n && details.s[to] != ' ')
                to++;
            return (struct text){details.s + from, to - from};
        }
    return (struct text){"", 0};
}

static uint32_t name_of(struct xla *x, struct text raw)
{
    char plain[NAME_MOST];
    size_t n = raw.n < sizeof plain ? raw.n : sizeof plain;
    if (memchr(raw.s, '\\', n))
        return gw_trace_name(x->t, plain, gw_json_unescape(plain, raw.s, n));
    return gw_trace_name(x->t, raw.s, n);
}

/* ------------------------------------------------------------------ GPU work */

/* "128,1,1" -> 128 */
static int product(struct text t, uint64_t *out)
{
    uint64_t n = 1;
    int any = 0;
    for (size_t i = 0; i < t.n;) {
        int64_t v = digits(t, i);
        if (v < 0 || __builtin_mul_overflow(n, (uint64_t)v, &n))
            return 0;
        any = 1;
        while (i < t.n && t.s[i] != ',')
            i++;
        i++;
    }
    *out = n;
    return any;
}

static enum gw_mem mem_of(struct text t, enum gw_mem otherwise)
{
    static const struct {
        const char *word;
        enum gw_mem mem;
    } words[] = {{"pageable", GW_MEM_PAGEABLE},     {"pinned", GW_MEM_PINNED},   {"device", GW_MEM_DEVICE},
                 {"device_static", GW_MEM_DEVICE},  {"managed", GW_MEM_MANAGED}, {"array", GW_MEM_ARRAY},
                 {"managed_static", GW_MEM_MANAGED}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (t.n == strlen(words[i].word) && !strncasecmp(t.s, words[i].word, t.n))
            return words[i].mem;
    return otherwise;
}

static void copy(struct gw_event *e, const struct fields *f)
{
    const char *way = f->name.n >= 9 ? f->name.s + 6 : "   "; /* MemcpyH2D */
    enum gw_mem src = way[0] == 'H' ? GW_MEM_HOST : GW_MEM_DEVICE, dst = way[2] == 'H' ? GW_MEM_HOST : GW_MEM_DEVICE;
    e->kind = GW_KIND_COPY;
    e->sub = gw_copy_sub(mem_of(detail(f->memcpy_, "kind_src"), src), mem_of(detail(f->memcpy_, "kind_dst"), dst));
    e->flags |= GW_EV_HAS_SUB;
    int64_t bytes;
    struct text size = detail(f->memcpy_, "size");
    if (size.n && gw_decimal_id(size.s, size.n, &bytes) && bytes >= 0) {
        e->arg0 = (uint64_t)bytes;
        e->flags |= GW_EV_HAS_ARG0;
    }
}

static void gpu_kind(struct xla *x, struct gw_event *e, const struct fields *f)
{
    uint64_t n;
    e->kind = GW_KIND_KERNEL;
    if (begins(f->name, "Memcpy") && !f->kernel.n) {
        copy(e, f);
    } else if (begins(f->name, "Memset") && !f->kernel.n) {
        e->kind = GW_KIND_SET;
    } else if (begins(f->name, "CudaGraph")) { /* a graph that was traced as one launch */
        e->kind = GW_KIND_GRAPH;
        x->graphs++;
    } else {
        if (product(detail(f->kernel, "grid"), &n)) {
            e->arg0 = n;
            e->flags |= GW_EV_HAS_ARG0;
        }
        if (product(detail(f->kernel, "block"), &n) && n <= UINT32_MAX) {
            e->sub = (uint32_t)n;
            e->flags |= GW_EV_HAS_SUB;
        }
    }
}

/* ------------------------------------------------------------------ the host */

/* "$profiler.py:91 start_trace" of the Python tracer, as "profiler.py(91): start_trace". */
static uint32_t frame_name(struct xla *x, struct text raw)
{
    char text[1024];
    const char *colon = memchr(raw.s, ':', raw.n);
    size_t line = colon ? (size_t)(colon - raw.s) + 1 : 0, end = line;
    while (line && end < raw.n && isdigit((unsigned char)raw.s[end]))
        end++;
    if (!line || end == line || end >= raw.n || raw.s[end] != ' ' || raw.n > sizeof text - 8)
        return name_of(x, (struct text){raw.s + 1, raw.n - 1});
    size_t n = 0;
    memcpy(text, raw.s + 1, line - 2);
    n = line - 2;
    text[n++] = '(';
    memcpy(text + n, raw.s + line, end - line);
    n += end - line;
    memcpy(text + n, "): ", 3);
    n += 3;
    memcpy(text + n, raw.s + end + 1, raw.n - end - 1);
    return name_of(x, (struct text){text, n + raw.n - end - 1});
}

static void host_kind(struct xla *x, struct gw_event *e, const struct fields *f)
{
    struct text n = f->name;
    x->jax |= begins(n, "PjitFunction") || begins(n, "PjRt");
    if (n.n > 1 && *n.s == '$') {
        e->kind = GW_KIND_PYFUNC;
        e->name = frame_name(x, n);
        return;
    }
    int call = begins(n, "cuda") || (n.n > 2 && begins(n, "cu") && isupper((unsigned char)n.s[2]));
    /* A call has an id; operators and ranges of the user cannot be told apart by anything but their looks. */
    e->kind = call && (e->flags & GW_EV_HAS_CORR) ? GW_KIND_API
              : memmem(n.s, n.n, "::", 2) || begins(n, "Pjit") || begins(n, "PjRt") || begins(n, "Xla") || call
                  ? GW_KIND_OP
                  : GW_KIND_ANNOT;
    if (e->kind != GW_KIND_API)
        e->flags &= (uint16_t)~GW_EV_HAS_CORR;
}

/* ------------------------------------------------------------------ one event */

static int times(struct xla *x, const struct fields *f, struct gw_event *e, int64_t at)
{
    int64_t dur = 0;
    enum gw_dec a = gw_decimal_scaled(f->ts.s, f->ts.n, 3, &e->start), b = GW_DEC_OK;
    if (f->dur.n)
        b = gw_decimal_scaled(f->dur.s, f->dur.n, 3, &dur);
    if (a == GW_DEC_NAN || b == GW_DEC_NAN) {
        gw_trace_lose(x->t, GW_LOSS_BAD_EVENT, 1, at);
        return -1;
    }
    if (a || b || dur > GW_TIME_LIMIT || __builtin_add_overflow(e->start, dur > 0 ? dur : 0, &e->end)) {
        gw_trace_lose(x->t, GW_LOSS_BAD_TIME, 1, at);
        return -1;
    }
    if (dur < 0)
        gw_trace_lose(x->t, GW_LOSS_NEGATIVE_DURATION, 1, at);
    return 0;
}

int xla_event(struct xla *x, const char *text, size_t len, int64_t at)
{
    struct fields f;
    int64_t pid = 0, tid = 0, corr;
    if (read_fields(&f, text, len) < 0) {
        gw_trace_lose(x->t, GW_LOSS_BAD_EVENT, 1, at);
        return GW_OK;
    }
    if (!f.ph.n) /* the empty event at the end of the list */
        return GW_OK;
    x->events++;
    if ((f.pid.n && !gw_decimal_id(f.pid.s, f.pid.n, &pid)) || (f.tid.n && !gw_decimal_id(f.tid.s, f.tid.n, &tid))) {
        gw_trace_lose(x->t, GW_LOSS_BAD_EVENT, 1, at);
        return GW_OK;
    }
    if (is(f.ph, "M"))
        return metadata(x, &f, pid, tid);
    if (!is(f.ph, "X") || !f.name.n)
        return GW_OK;
    const struct xla_process *p = process(x, pid);
    struct xla_row *r = row(x, pid, tid);
    struct gw_event e = {0};
    if (!p || !r)
        return GW_ENOMEM;
    if (p->device == -2 || (p->device >= 0 && r->stream < 0) || times(x, &f, &e, at) < 0)
        return GW_OK;
    if (f.correlation.n && gw_decimal_id(f.correlation.s, f.correlation.n, &corr) && corr > 0) {
        e.corr = (uint64_t)corr;
        e.flags |= GW_EV_HAS_CORR;
    }
    if (p->device >= 0)
        gpu_kind(x, &e, &f);
    else
        host_kind(x, &e, &f);
    if (!e.name)
        e.name = name_of(x, f.name);
    enum gw_lane_type type = p->device >= 0 ? GW_LANE_GPU : GW_LANE_HOST;
    if (r->lane != GW_NONE && gw_trace_lane(x->t, r->lane)->type != type) /* a damaged file names a process anew */
        r->lane = GW_NONE;
    if (r->lane == GW_NONE)
        r->lane = p->device >= 0 ? gw_trace_lane_gpu(x->t, p->device, r->stream) : gw_trace_lane_host(x->t, pid, tid);
    if (r->lane == GW_NONE)
        return GW_ENOMEM;
    e.lane = r->lane;
    return gw_trace_add(x->t, &e);
}
