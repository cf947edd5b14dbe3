/*
 * record_hook.c - what the settings hook (python/gpuwhy_hook/) wrote: hook-PID.jsonl, one flat object a line. Later
 * lines add to or replace earlier ones. A line that is no such object is left out: it is the last one of a killed
 * process.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/gw_json_scan.h"
#include "import/record_internal.h"

#define FARTHEST_US ((int64_t)(GW_RECORD_FAR / 1000))
enum { MAX_HOOK_BYTES = 4 << 20, MAX_LOADERS = 1024, MAX_MEMBERS = 48, MAX_OPTIMIZERS = 16, MAX_STEPS = 1 << 20 };

struct member {
    const char *key;
    size_t key_len;
    const char *value;
    size_t len;
};

struct line {
    struct gw_trace *t;
    struct member m[MAX_MEMBERS];
    size_t n;
};

struct noted { /* one step, as it stands in a line */
    int64_t pid, optimizer;
    struct gw_host_step step;
};

struct hook {
    struct gw_record_import *im;
    int64_t pid;
    int64_t told;           /* steps that the process noted so far */
    struct gw_array steps;  /* struct noted */
    struct gw_array loaders; /* struct gw_host_loader */
    struct gw_array ids;     /* int64_t, number of each loader in its process */
};

/* 1 when the line is a whole object. */
static int split(struct line *l, const char *s, const char *end)
{
    l->n = 0;
    s = gw_json_ws(s, end);
    if (s == end || *s != '{')
        return 0;
    struct gw_json_cur c = {s + 1, end};
    const char *key;
    size_t len;
    int rc;
    while ((rc = gw_json_next_key(&c, &key, &len)) == 1) {
        const char *v = c.p;
        if (gw_json_skip_value(&c) < 0)
            return 0;
        if (l->n < MAX_MEMBERS)
            l->m[l->n++] = (struct member){key, len, v, (size_t)(c.p - v)};
    }
    return rc == 0;
}

static const struct member *find(const struct line *l, const char *key)
{
    for (size_t i = 0; i < l->n; i++)
        if (strlen(key) == l->m[i].key_len && memcmp(key, l->m[i].key, l->m[i].key_len) == 0)
            return l->m + i;
    return NULL;
}

/* Numbers, true and false; `old` when it is not there. */
static int64_t number(const struct line *l, const char *key, int64_t old)
{
    const struct member *m = find(l, key);
    char text[32], *end;
    if (!m || m->len >= sizeof text)
        return old;
    memcpy(text, m->value, m->len);
    text[m->len] = 0;
    if (strcmp(text, "true") == 0)
        return 1;
    if (strcmp(text, "false") == 0)
        return 0;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    return end == text || errno ? old : (int64_t)v;
}

static void set_int(const struct line *l, const char *key, int *to)
{
    int64_t v = number(l, key, *to);
    if (v >= INT_MIN && v <= INT_MAX)
        *to = (int)v;
}

static void set_text(const struct line *l, const char *key, const char **to)
{
    const struct member *m = find(l, key);
    if (!m || m->len < 2 || *m->value != '"')
        return;
    char *copy = gw_arena_alloc(l->t->arena, m->len);
    if (!copy)
        return;
    copy[gw_json_unescape(copy, m->value + 1, m->len - 2)] = 0;
    *to = copy;
}

static struct gw_host_loader *loader_at(struct hook *h, int64_t id)
{
    struct gw_host_loader *l = h->loaders.data;
    const int64_t *ids = h->ids.data;
    for (size_t i = 0; i < h->loaders.len; i++)
        if (l[i].pid == h->pid && ids[i] == id)
            return l + i;
    int64_t *slot = gw_array_push(&h->ids);
    l = slot ? gw_array_push(&h->loaders) : NULL;
    if (!l)
        return NULL;
    *slot = id;
    *l = gw_host_loader_unknown(h->pid);
    return l;
}

static void on_loader(struct hook *h, const struct line *l)
{
    struct gw_host_loader *x = loader_at(h, number(l, "id", -1));
    if (!x)
        return;
    const struct gw_host_setting *k;
    for (size_t i = 0; (k = gw_host_loader_setting(i)); i++)
        set_int(l, k->key, gw_host_setting_of(x, k));
    set_text(l, "sampler", &x->sampler);
    set_text(l, "dataset", &x->dataset);
    x->length = number(l, "length", x->length);
    x->epochs = number(l, "epochs", x->epochs);
    x->set_epoch_calls = number(l, "set_epoch", x->set_epoch_calls);
}

static void on_torch(struct hook *h, const struct line *l)
{
    struct gw_host_facts *f = h->im->host;
    struct gw_facts *t = &h->im->t->facts;
    if (f->trainer >= 0 && h->pid != f->trainer && f->torch_version) /* the trainer's word counts */
        return;
    set_text(l, "version", &f->torch_version);
    set_text(l, "cuda", &f->cuda_version);
    set_text(l, "matmul_precision", &f->matmul_precision);
    set_int(l, "cudnn_benchmark", &f->cudnn_benchmark);
    set_int(l, "cudnn_tf32", &f->cudnn_tf32);
    set_int(l, "matmul_tf32", &f->matmul_tf32);
    set_int(l, "threads", &f->torch_threads);
    set_int(l, "anomaly", &f->anomaly);
    set_int(l, "launch_blocking", &f->launch_blocking);
    if (f->torch_version) {
        t->framework = "PyTorch";
        t->framework_version = f->torch_version;
    }
    int64_t world = number(l, "world_size", -1), rank = number(l, "rank", -1);
    t->world_size = world > 0 ? world : t->world_size;
    if (rank >= 0 && t->rank < 0)
        t->rank = rank;
}

/* Next number of a list of numbers; 0 at its end. */
static int next_number(const char **at, const char *end, int64_t *v)
{
    const char *p = *at;
    while (p < end && (*p == '[' || *p == ',' || *p == ' '))
        p++;
    int minus = p < end && *p == '-';
    p += minus;
    int64_t n = 0;
    const char *digits = p;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        n = n < INT64_MAX / 100 ? 10 * n + (*p - '0') : n;
    *at = p;
    *v = minus ? -n : n;
    return p > digits;
}

struct numbers {
    const char *at, *end;
};

static struct numbers numbers_of(const struct line *l, const char *key)
{
    const struct member *m = find(l, key);
    return m ? (struct numbers){m->value, m->value + m->len} : (struct numbers){NULL, NULL};
}

static int push_step(struct hook *h, int64_t at, int64_t optimizer, int64_t steps, uint32_t *seen)
{
    if (optimizer < 0 || optimizer >= MAX_OPTIMIZERS || steps < 1 || !gw_record_is_sane(h->im, (uint64_t)at))
        return 0;
    struct noted *n = gw_array_push(&h->steps);
    if (n)
        *n = (struct noted){h->pid, optimizer, {at - h->im->base_ns, steps}};
    *seen |= 1u << optimizer;
    return n != NULL;
}

/* {"n": all so far, "at": ns of the first, "us": [to the next, ...], "of": [optimizer, ...], "steps": [since its last, ...]} */
static void on_steps(struct hook *h, const struct line *l)
{
    struct numbers us = numbers_of(l, "us"), of = numbers_of(l, "of"), steps = numbers_of(l, "steps");
    int64_t at = number(l, "at", -1), n = number(l, "n", -1), sum = 0, more = 0;
    size_t first = h->steps.len;
    uint32_t seen = 0;
    if (at < 0 || n < 0 || n > INT64_MAX / 2)
        return;
    do {
        int64_t optimizer = 0, since = 1;
        if ((of.at && !next_number(&of.at, of.end, &optimizer)) || (steps.at && !next_number(&steps.at, steps.end, &since)))
            break;
        if (more > FARTHEST_US || more < -FARTHEST_US)
            break;
        at += 1000 * more;
        if (!push_step(h, at, optimizer, since, &seen))
            break;
        sum += since < INT32_MAX ? since : 0;
    } while (us.at && next_number(&us.at, us.end, &more));
    /* Lines were lost before this one: how many steps lie before its first rows is not known. */
    struct noted *row = h->steps.data;
    for (size_t i = first; n != h->told + sum && i < h->steps.len; i++)
        if (seen & 1u << row[i].optimizer) {
            row[i].step.steps = 0;
            seen &= ~(1u << row[i].optimizer);
        }
    h->told = n;
}

/* The steps of each optimizer by itself. */
static void give_steps(struct hook *h)
{
    const struct noted *row = h->steps.data;
    struct gw_arena *arena = h->im->t->arena;
    size_t n = h->steps.len, series = 0;
    struct gw_host_steps *out = gw_arena_calloc(arena, GW_RECORD_MAX_STEPS, sizeof *out);
    struct gw_host_step *step = gw_arena_calloc(arena, n, sizeof *step);
    for (size_t i = 0; out && step && i < n;) { /* rows of a process stand together */
        size_t end = i;
        while (end < n && row[end].pid == row[i].pid)
            end++;
        for (int o = 0; o < MAX_OPTIMIZERS && series < GW_RECORD_MAX_STEPS; o++) {
            struct gw_host_steps *s = out + series;
            *s = (struct gw_host_steps){row[i].pid, o, step, 0};
            for (size_t k = i; k < end; k++)
                if (row[k].optimizer == o)
                    step[s->count++] = row[k].step;
            step += s->count;
            series += s->count > 0;
        }
        i = end;
    }
    h->im->host->steps = series ? out : NULL;
    h->im->host->steps_count = series;
}

static void take_line(struct hook *h, const char *s, const char *end)
{
    struct line l = {.t = h->im->t};
    const char *what = NULL;
    if (!split(&l, s, end))
        return;
    set_text(&l, "what", &what);
    if (!what)
        return;
    h->im->host->hook = 1;
    if (strcmp(what, "loader") == 0)
        on_loader(h, &l);
    else if (strcmp(what, "torch") == 0)
        on_torch(h, &l);
    else if (strcmp(what, "steps") == 0)
        on_steps(h, &l);
}

static void read_file(struct hook *h, const char *path)
{
    FILE *f = fopen(path, "re");
    char *buf = f ? malloc(MAX_HOOK_BYTES) : NULL;
    size_t n = buf ? fread(buf, 1, MAX_HOOK_BYTES, f) : 0;
    for (const char *p = buf, *end = buf + n; p && p < end;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        take_line(h, p, nl ? nl : end);
        p = nl ? nl + 1 : end;
    }
    free(buf);
    if (f)
        fclose(f);
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }
static int is_hook(const struct dirent *d)
{
    return strncmp(d->d_name, "hook-", 5) == 0 && strstr(d->d_name, ".jsonl");
}

void gw_record_read_hooks(struct gw_record_import *im)
{
    struct hook h = {.im = im};
    struct dirent **list = NULL;
    gw_array_init(&h.loaders, sizeof(struct gw_host_loader), MAX_LOADERS);
    gw_array_init(&h.ids, sizeof(int64_t), MAX_LOADERS);
    gw_array_init(&h.steps, sizeof(struct noted), MAX_STEPS);
    int n = scandir(im->folder, &list, is_hook, by_name);
    for (int i = 0; i < n; i++) {
        char path[PATH_MAX + 300];
        h.pid = strtoll(list[i]->d_name + 5, NULL, 10);
        h.told = 0;
        snprintf(path, sizeof path, "%s/%s", im->folder, list[i]->d_name);
        if (i < GW_RECORD_MAX_FILES)
            read_file(&h, path);
        free(list[i]);
    }
    if (n >= 0)
        free(list);
    struct gw_host_loader *out = gw_arena_calloc(im->t->arena, h.loaders.len, sizeof *out);
    if (out && h.loaders.len)
        memcpy(out, h.loaders.data, h.loaders.len * sizeof *out);
    im->host->loader = out;
    im->host->loader_count = out ? h.loaders.len : 0;
    if (h.steps.len)
        give_steps(&h);
    gw_array_free(&h.steps);
    gw_array_free(&h.loaders);
    gw_array_free(&h.ids);
}
