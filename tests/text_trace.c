#include "text_trace.h"

#include "model/kernel_metrics.h"
#include "text_host.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 4

struct tt_kind {
    const char *word;
    unsigned kind;
};

static const struct tt_kind kinds[] = {
    {"kernel", GW_KIND_KERNEL},  {"copy", GW_KIND_COPY},         {"set", GW_KIND_SET}, {"graph", GW_KIND_GRAPH},
    {"gsync", GW_KIND_GPU_SYNC}, {"api", GW_KIND_API},           {"op", GW_KIND_OP},   {"annot", GW_KIND_ANNOT},
    {"py", GW_KIND_PYFUNC},      {"overhead", GW_KIND_OVERHEAD}, {"os", GW_KIND_OSRT}, {"step", GW_KIND_STEP},
};

static const struct tt_mem {
    const char *word;
    enum gw_mem mem;
} mems[] = {{"unknown", GW_MEM_UNKNOWN}, {"pageable", GW_MEM_PAGEABLE}, {"pinned", GW_MEM_PINNED},
            {"device", GW_MEM_DEVICE},   {"array", GW_MEM_ARRAY},       {"managed", GW_MEM_MANAGED},
            {"host", GW_MEM_HOST}};

struct tt_reader {
    struct text_trace *out;
    char **line;
    size_t lines, at; /* at: the line being read */
    int64_t base;     /* ns added to every time */
    uint64_t block;   /* number of the repetition being read: keeps correlation ids apart */
    uint64_t blocks;
    uint64_t launches;
    unsigned index[DEPTH_MAX];
    int depth;
    struct text_host *host;
};

static int fail(struct tt_reader *r, const char *what, const char *near)
{
    snprintf(r->out->error, sizeof r->out->error, "line %zu: %s at \"%.60s\"", r->at + 1, what, near);
    return -1;
}

static const char *skip(const char *p)
{
    while (*p == ' ' || *p == '\t')
        p++;
    return p;
}

/* Is `word` the whole next word? Moves past it. */
static int word(const char **p, const char *w)
{
    const char *s = skip(*p);
    size_t n = strlen(w);
    if (strncmp(s, w, n) || (s[n] && !isspace((unsigned char)s[n])))
        return 0;
    *p = skip(s + n);
    return 1;
}

static int whole(const char **p, int64_t *v)
{
    char *end;
    *v = strtoll(*p, &end, 10);
    if (end == *p)
        return -1;
    *p = end;
    return 0;
}

int text_trace_time(const char **p, int64_t *ns)
{
    const char *s = skip(*p);
    int minus = *s == '-';
    s += minus;
    if (!isdigit((unsigned char)*s))
        return -1;
    int64_t v = 0, part = 0, parts = 1, unit = 1;
    for (; isdigit((unsigned char)*s); s++)
        v = v * 10 + (*s - '0');
    if (s[0] == '.' && isdigit((unsigned char)s[1]))
        for (s++; isdigit((unsigned char)*s); s++, parts *= 10)
            part = part * 10 + (*s - '0');
    static const struct {
        const char *word;
        int64_t ns;
    } units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strncmp(s, units[i].word, strlen(units[i].word))) {
            unit = units[i].ns;
            s += strlen(units[i].word);
            break;
        }
    if (isalnum((unsigned char)*s))
        return -1;
    *ns = v * unit + part * unit / parts;
    if (minus)
        *ns = -*ns;
    *p = s;
    return 0;
}

/* Interns the first `len` bytes of a name, with {i}, {i+N} and {o} replaced and trailing blanks cut. */
static uint32_t intern(struct tt_reader *r, const char *s, size_t len)
{
    char buf[1024];
    size_t n = 0;
    for (const char *end = s + len; s < end && n < sizeof buf - 16;) {
        int inner = !strncmp(s, "{i", 2) && strchr("+}", s[2]), outer = !strncmp(s, "{o}", 3);
        if (inner || outer) {
            int level = r->depth - (inner ? 1 : 2);
            unsigned more = s[2] == '+' ? (unsigned)strtoul(s + 3, NULL, 10) : 0;
            n += (size_t)snprintf(buf + n, sizeof buf - n, "%u", more + (level >= 0 ? r->index[level] : 0));
            s += strcspn(s, "}");
            s += *s == '}';
        } else {
            buf[n++] = *s++;
        }
    }
    while (n && isspace((unsigned char)buf[n - 1]))
        n--;
    return gw_trace_name(r->out->t, buf, n);
}

static int mem_of(const char *s, size_t n, enum gw_mem *mem)
{
    for (size_t i = 0; i < sizeof mems / sizeof *mems; i++)
        if (strlen(mems[i].word) == n && !strncmp(mems[i].word, s, n)) {
            *mem = mems[i].mem;
            return 1;
        }
    return 0;
}

/* One of the optional words before the name; 0 when the name begins. */
static int option(struct tt_reader *r, const char *s, size_t n, struct gw_event *e)
{
    static const char *const keys[] = {"blocks=", "threads=", "bytes=", "kernels=", "msg="};
    const char *gt = memchr(s, '>', n);
    enum gw_mem a, b;
    if (s[0] == 'c' && n > 1 && strspn(s + 1, "0123456789") + 1 >= n) {
        e->corr = r->block << 24 | strtoull(s + 1, NULL, 10);
        e->flags |= GW_EV_HAS_CORR;
        return 1;
    }
    if (gt && mem_of(s, (size_t)(gt - s), &a) && mem_of(gt + 1, n - (size_t)(gt - s) - 1, &b)) {
        e->sub = gw_copy_sub(a, b);
        e->flags |= GW_EV_HAS_SUB;
        return 1;
    }
    if (!strncmp(s, "shapes=", 7)) {
        e->arg0 = intern(r, s + 7, n - 7);
        e->flags |= GW_EV_HAS_ARG0;
        return 1;
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        size_t k = strlen(keys[i]);
        if (n <= k || strncmp(s, keys[i], k))
            continue;
        uint64_t v = strtoull(s + k, NULL, 10);
        if (i == 1) {
            e->sub = (uint32_t)v;
            e->flags |= GW_EV_HAS_SUB;
        } else if (i == 4) {
            e->arg1 = v;
            e->flags |= GW_EV_HAS_ARG1;
        } else {
            e->arg0 = v;
            e->flags |= GW_EV_HAS_ARG0;
        }
        return 1;
    }
    return 0;
}

/* WHERE START +LENGTH */
static int head(struct tt_reader *r, const char **p, struct gw_event *e, unsigned kind)
{
    int64_t a, b, start, length;
    const char *s = skip(*p);
    if (whole(&s, &a) < 0 || *s++ != ':' || whole(&s, &b) < 0)
        return fail(r, "expected device:stream or process:thread", *p);
    if (text_trace_time(&s, &start) < 0)
        return fail(r, "expected a time", s);
    s = skip(s);
    if (*s++ != '+' || text_trace_time(&s, &length) < 0 || length < 0)
        return fail(r, "expected +LENGTH", s - 1);
    int gpu = gw_kind_is_gpu(kind) || kind == GW_KIND_GPU_SYNC;
    *e = (struct gw_event){.kind = (uint16_t)kind, .start = r->base + start, .end = r->base + start + length};
    e->lane = gpu ? gw_trace_lane_gpu(r->out->t, a, b) : gw_trace_lane_host(r->out->t, a, b);
    *p = skip(s);
    return e->lane == GW_NONE ? fail(r, "out of memory", "") : 0;
}

static void options(struct tt_reader *r, const char **p, struct gw_event *e)
{
    for (;;) {
        size_t n = strcspn(*p, " \t");
        if (!n || !option(r, *p, n, e))
            return;
        *p = skip(*p + n);
    }
}

static int event(struct tt_reader *r, const char *p, unsigned kind)
{
    struct gw_event e;
    if (head(r, &p, &e, kind) < 0)
        return -1;
    options(r, &p, &e);
    e.name = intern(r, p, strlen(p));
    if (!e.name && kind != GW_KIND_COPY && kind != GW_KIND_SET)
        return fail(r, "expected a name", p);
    return gw_trace_add(r->out->t, &e) < 0 ? fail(r, "out of memory", "") : 0;
}

/* A call and what it gives the GPU: launch HOST T +D > DEV T +D [options] NAME */
static int launch(struct tt_reader *r, const char *p, unsigned kind)
{
    struct gw_event call, op;
    if (head(r, &p, &call, GW_KIND_API) < 0)
        return -1;
    if (*p++ != '>')
        return fail(r, "expected > DEVICE:STREAM", p - 1);
    if (head(r, &p, &op, kind) < 0)
        return -1;
    call.corr = op.corr = (uint64_t)1 << 60 | r->launches++;
    call.flags = op.flags = GW_EV_HAS_CORR;
    options(r, &p, &op);
    const char *name = *p ? p : kind == GW_KIND_COPY ? "Memcpy" : "kernel";
    const char *by = kind == GW_KIND_COPY ? "cudaMemcpyAsync" : "cudaLaunchKernel";
    op.name = intern(r, name, strlen(name));
    call.name = intern(r, by, strlen(by));
    return gw_trace_add(r->out->t, &call) < 0 || gw_trace_add(r->out->t, &op) < 0 ? fail(r, "out of memory", "") : 0;
}

/* key=value or key="value": returns the value in the trace's arena and moves on, or NULL. */
static char *value(struct tt_reader *r, const char **p, const char *key)
{
    size_t n = strlen(key);
    const char *s = skip(*p);
    if (strncmp(s, key, n) || s[n] != '=')
        return NULL;
    s += n + 1;
    const char *end = *s == '"' ? strchr(s + 1, '"') : s + strcspn(s, " \t");
    if (!end)
        return NULL;
    char *v = *s == '"' ? gw_arena_strndup(r->out->t->arena, s + 1, (size_t)(end - s - 1))
                        : gw_arena_strndup(r->out->t->arena, s, (size_t)(end - s));
    *p = skip(*end == '"' ? end + 1 : end);
    return v;
}

static int device(struct tt_reader *r, const char *p)
{
    int64_t id;
    if (whole(&p, &id) < 0)
        return fail(r, "expected a device number", p);
    struct gw_device *d = gw_trace_device(r->out->t, id);
    if (!d)
        return fail(r, "out of memory", "");
    for (p = skip(p); *p;) {
        char *v;
        if ((v = value(r, &p, "name")))
            d->name = gw_trace_name(r->out->t, v, strlen(v));
        else if ((v = value(r, &p, "sm")))
            d->sm_count = atoi(v);
        else if ((v = value(r, &p, "memory")))
            d->memory_bytes = atoll(v);
        else if ((v = value(r, &p, "cc"))) {
            d->cc_major = atoi(v);
            d->cc_minor = strchr(v, '.') ? atoi(strchr(v, '.') + 1) : 0;
        } else
            return fail(r, "unknown device fact", p);
    }
    return 0;
}

static int fact(struct tt_reader *r, const char *p)
{
    struct gw_facts *f = &r->out->t->facts;
    while (*p) {
        char *v;
        if ((v = value(r, &p, "profiler")))
            f->profiler = v;
        else if ((v = value(r, &p, "framework")))
            f->framework = v;
        else if ((v = value(r, &p, "backend")))
            f->dist_backend = v;
        else if ((v = value(r, &p, "with_stack")))
            f->with_stack = atoi(v);
        else if ((v = value(r, &p, "record_shapes")))
            f->record_shapes = atoi(v);
        else if ((v = value(r, &p, "amd")))
            f->amd = atoi(v);
        else if ((v = value(r, &p, "world_size")))
            f->world_size = atoi(v);
        else if ((v = value(r, &p, "rank")))
            f->rank = atoi(v);
        else
            return fail(r, "unknown fact", p);
    }
    return 0;
}

static int lose(struct tt_reader *r, const char *p)
{
    for (unsigned i = 0; i < GW_LOSS_COUNT; i++)
        if (word(&p, gw_loss_id(i))) {
            gw_trace_lose(r->out->t, (enum gw_loss)i, *p ? strtoull(p, NULL, 10) : 1, -1);
            return 0;
        }
    return fail(r, "unknown loss", p);
}

/* counters LAUNCHES +DURATION [metric=value ...] NAME: a row of Nsight Compute; metrics by the ids of kernel_metrics.def */
static int counters(struct tt_reader *r, const char *p)
{
    struct gw_kernel_sample s = {.launches = 0, .duration_ns = NAN};
    int64_t launches, ns;
    if (whole(&p, &launches) < 0 || launches < 1 || *(p = skip(p)) != '+' || (p++, text_trace_time(&p, &ns) < 0))
        return fail(r, "expected: counters LAUNCHES +DURATION", p);
    s.launches = (uint64_t)launches;
    s.duration_ns = (double)ns;
    for (int k = 0; k < GW_KM_COUNT; k++)
        s.value[k] = NAN;
    p = skip(p);
    for (int k = 0; k < GW_KM_COUNT; k++) {
        size_t n = strlen(gw_km_id((unsigned)k));
        if (strncmp(p, gw_km_id((unsigned)k), n) || p[n] != '=')
            continue;
        s.value[k] = atof(p + n + 1);
        p = skip(p + strcspn(p, " \t"));
        k = -1; /* any order */
    }
    uint32_t name = intern(r, p, strlen(p));
    return name && gw_kernel_metrics_add(r->out->t, name, &s) == 0 ? 0 : fail(r, "expected a kernel's name", p);
}

static int shift(struct tt_reader *r, const char *p)
{
    int64_t ns;
    if (text_trace_time(&p, &ns) < 0)
        return fail(r, "expected a time", p);
    r->base += ns;
    return 0;
}

static int host(struct tt_reader *r, const char *p)
{
    char why[200];
    return text_host_line(r->out->t, &r->host, r->base, p, why, sizeof why) < 0 ? fail(r, why, "") : 0;
}

static int expect(struct tt_reader *r, const char *p)
{
    struct text_trace *o = r->out;
    struct text_expect *grown = realloc(o->expect, (o->expects + 1) * sizeof *grown);
    if (!grown)
        return fail(r, "out of memory", "");
    o->expect = grown;
    o->expect[o->expects++] = (struct text_expect){.line = r->at + 1, .text = strdup(p)};
    return 0;
}

static int lines(struct tt_reader *r, size_t from, size_t to);

static int repeat(struct tt_reader *r, const char *p, size_t *next, size_t to)
{
    int64_t n, every;
    if (whole(&p, &n) < 0 || n < 1 || n > 100000 || !word(&p, "every") || text_trace_time(&p, &every) < 0 ||
        *skip(p) != '{')
        return fail(r, "expected: repeat N every TIME {", p);
    if (r->depth == DEPTH_MAX)
        return fail(r, "repeated too deep", "");
    size_t from = r->at + 1, end = from, open = 1;
    for (; end < to; end++) {
        const char *s = skip(r->line[end]);
        if (!strncmp(s, "repeat ", 7))
            open++;
        if (*s == '}' && --open == 0)
            break;
    }
    if (end >= to)
        return fail(r, "no } for this repeat", "");
    int64_t base = r->base;
    uint64_t block = r->block;
    int rc = 0;
    r->depth++;
    for (int64_t i = 0; i < n && rc == 0; i++) {
        r->base = base + i * every;
        r->block = ++r->blocks;
        r->index[r->depth - 1] = (unsigned)i;
        rc = lines(r, from, end);
    }
    r->depth--;
    r->base = base;
    r->block = block;
    *next = end + 1;
    return rc;
}

static int lines(struct tt_reader *r, size_t from, size_t to)
{
    for (size_t i = from, next; i < to; i = next) {
        r->at = i;
        next = i + 1;
        const char *p = skip(r->line[i]);
        int rc = 1;
        if (!*p || *p == '#')
            continue;
        if (word(&p, "repeat"))
            rc = repeat(r, p, &next, to);
        else if (word(&p, "expect"))
            rc = expect(r, p);
        else if (word(&p, "launch"))
            rc = launch(r, p, GW_KIND_KERNEL);
        else if (word(&p, "memcpy"))
            rc = launch(r, p, GW_KIND_COPY);
        else if (word(&p, "dev"))
            rc = device(r, p);
        else if (word(&p, "fact"))
            rc = fact(r, p);
        else if (word(&p, "lose"))
            rc = lose(r, p);
        else if (word(&p, "counters"))
            rc = counters(r, p);
        else if (word(&p, "shift"))
            rc = shift(r, p);
        else if (word(&p, "host"))
            rc = host(r, p);
        for (size_t k = 0; rc == 1 && k < sizeof kinds / sizeof *kinds; k++)
            if (word(&p, kinds[k].word))
                rc = event(r, p, kinds[k].kind);
        if (rc == 1)
            rc = fail(r, "unknown word", p);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int text_trace_parse(const char *text, struct text_trace *out)
{
    *out = (struct text_trace){.t = gw_trace_create(0)};
    struct tt_reader r = {.out = out};
    char *copy = strdup(text);
    int rc = -1;
    if (!copy || !out->t)
        goto out;
    for (char *p = copy; p; r.lines++) {
        char **grown = realloc(r.line, (r.lines + 1) * sizeof *grown);
        if (!grown)
            goto out;
        r.line = grown;
        r.line[r.lines] = p;
        p = strchr(p, '\n');
        if (p)
            *p++ = 0;
    }
    rc = lines(&r, 0, r.lines);
    text_host_finish(out->t, r.host);
    if (rc == 0 && gw_trace_finish(out->t) < 0)
        rc = fail(&r, "gw_trace_finish failed", "");
out:
    free(r.line);
    free(copy);
    return rc;
}

int text_trace_read(const char *path, struct text_trace *out)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = fopen(path, "r");
    *out = (struct text_trace){.t = NULL};
    int rc = -1;
    if (f && getdelim(&text, &len, 0, f) > 0)
        rc = text_trace_parse(text, out);
    else
        snprintf(out->error, sizeof out->error, "cannot read %.200s", path);
    if (f)
        fclose(f);
    free(text);
    return rc;
}

void text_trace_free(struct text_trace *out)
{
    for (size_t i = 0; i < out->expects; i++)
        free(out->expect[i].text);
    free(out->expect);
    gw_trace_destroy(out->t);
    *out = (struct text_trace){.t = NULL};
}
