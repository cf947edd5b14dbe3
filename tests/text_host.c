/* text_host.c - see text_host.h */
#include "text_host.h"

#include "record/record.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text_trace.h"

enum { MAX = 256, MAX_STEPS = 4000 };

struct text_host {
    struct gw_host_facts f;
    struct gw_host_process process[MAX];
    struct gw_host_gpu gpu[16];
    struct gw_host_loader loader[16];
    struct gw_host_steps steps[4];
    struct gw_host_step step[4][MAX_STEPS];
    struct gw_activity_builder activity[4];
    int has_activity[4];
    char refused[4][64]; /* why; "" = it was not */
};

static int whole_word(const char **p, const char *w)
{
    size_t n = strlen(w);
    if (strncmp(*p, w, n) != 0 || (*p)[n] > ' ')
        return 0;
    *p += n;
    *p += strspn(*p, " \t");
    return 1;
}

/* key=value: the value in `out`; moves on. 0 when the next word is another. */
static int pair(const char **p, const char *key, char *out, size_t cap)
{
    size_t n = strlen(key);
    if (strncmp(*p, key, n) != 0 || (*p)[n] != '=')
        return 0;
    const char *v = *p + n + 1;
    size_t len = strcspn(v, " \t");
    snprintf(out, cap, "%.*s", (int)len, v);
    *p = v + len;
    *p += strspn(*p, " \t");
    return 1;
}

static int number(const char **p, double *v)
{
    char *end;
    *v = strtod(*p, &end);
    if (end == *p)
        return -1;
    *p = end + strspn(end, " \t");
    return 0;
}

static int fail(char *why, size_t cap, const char *what, const char *near)
{
    snprintf(why, cap, "host: %s at \"%.60s\"", what, near);
    return -1;
}

static void span(struct text_host *h, int64_t from, int64_t to)
{
    h->f.from = from < h->f.from ? from : h->f.from;
    h->f.to = to > h->f.to ? to : h->f.to;
}

static int cpus(struct text_host *h, const char *p)
{
    char v[64];
    double n;
    if (number(&p, &n) < 0)
        return -1;
    h->f.cpus_online = (int)n;
    while (*p)
        if (pair(&p, "quota", v, sizeof v))
            h->f.cpu_limit = atof(v);
        else
            return -1;
    return 0;
}

static int memory(struct text_host *h, const char *p)
{
    char v[64];
    if (number(&p, &h->f.memory_bytes) < 0)
        return -1;
    while (*p)
        if (pair(&p, "limit", v, sizeof v))
            h->f.memory_limit_bytes = atof(v);
        else
            return -1;
    return 0;
}

static int gpu(struct text_host *h, const char *p)
{
    char v[64];
    double id;
    if (number(&p, &id) < 0 || h->f.gpu_count == 16)
        return -1;
    struct gw_host_gpu *g = &h->gpu[h->f.gpu_count++];
    *g = gw_host_gpu_unknown((int64_t)id);
    while (*p) {
        if (pair(&p, "memory", v, sizeof v))
            g->memory_bytes = atof(v);
        else if (pair(&p, "sm_max", v, sizeof v))
            g->sm_clock_max_mhz = atof(v);
        else if (pair(&p, "power_limit", v, sizeof v))
            g->power_limit_w = atof(v);
        else if (pair(&p, "power_default", v, sizeof v))
            g->power_default_w = atof(v);
        else
            return -1;
    }
    return 0;
}

static int time_of(const char *v, int64_t base, int64_t *out)
{
    const char *s = v;
    if (text_trace_time(&s, out) < 0)
        return -1;
    *out += base;
    return 0;
}

static int process(struct text_host *h, int64_t base, const char *p)
{
    char v[64];
    double pid;
    if (number(&p, &pid) < 0 || h->f.process_count == MAX)
        return -1;
    struct gw_host_process *x = &h->process[h->f.process_count++];
    *x = gw_host_process_unknown((int64_t)pid);
    while (*p) {
        if (pair(&p, "parent", v, sizeof v))
            x->ppid = atoll(v);
        else if (pair(&p, "allowed", v, sizeof v))
            x->cpus_allowed = atoi(v);
        else if (pair(&p, "shared", v, sizeof v))
            x->shared_last = atof(v);
        else if (pair(&p, "rss", v, sizeof v)) {
            x->rss_first = atof(v);
            x->rss_last = strchr(v, ',') ? atof(strchr(v, ',') + 1) : x->rss_first;
        } else if (pair(&p, "start", v, sizeof v)) {
            if (time_of(v, base, &x->start) < 0)
                return -1;
        } else if (pair(&p, "end", v, sizeof v)) {
            if (time_of(v, base, &x->end) < 0)
                return -1;
        } else if (pair(&p, "role", v, sizeof v)) {
            unsigned r = 0;
            while (r < GW_HR_COUNT && strcmp(gw_host_role_id(r), v) != 0)
                r++;
            if (r == GW_HR_COUNT)
                return -1;
            x->role = r;
            x->uses_cuda = r == GW_HR_TRAINER;
            if (r == GW_HR_TRAINER && h->f.trainer < 0)
                h->f.trainer = x->pid;
        } else {
            return -1;
        }
    }
    return 0;
}

/* "a.py(1): f|b.py(2): g": the rest of the line. */
static uint32_t stack(struct gw_trace *t, const char *s)
{
    char text[2000];
    snprintf(text, sizeof text, "%s", s);
    for (char *c = text; *c; c++)
        if (*c == '|')
            *c = '\n';
    size_t n = strlen(text);
    while (n && text[n - 1] <= ' ')
        text[--n] = 0;
    const char *at = text, *f;
    for (size_t len; gw_stack_next(&at, &f, &len);)
        (void)gw_trace_name(t, f, len);
    return gw_trace_name(t, text, n);
}

static const char *const calls[] = {
    "none",
#define GW_CALL(sym, id) id,
#include "model/calls.def"
#undef GW_CALL
};

static int sample(struct gw_trace *t, struct text_host *h, int64_t base, const char *p)
{
    int64_t pid, tid, start, length, cpu = 0, wait = 0;
    int n = 0;
    char v[64];
    if (sscanf(p, "%" SCNd64 ":%" SCNd64 " %n", &pid, &tid, &n) != 2 || !n)
        return -1;
    p += n;
    if (text_trace_time(&p, &start) < 0)
        return -1;
    p += strspn(p, " \t");
    if (*p++ != '+' || text_trace_time(&p, &length) < 0)
        return -1;
    p += strspn(p, " \t");
    unsigned state = 0;
    while (state < GW_TS_COUNT && !whole_word(&p, gw_thread_state_id(state)))
        state++;
    if (state == GW_TS_COUNT)
        return -1;
    struct gw_event e = {.kind = GW_KIND_SAMPLE,
                         .lane = gw_trace_lane_host(t, pid, tid),
                         .start = base + start,
                         .end = base + start + length,
                         .sub = state,
                         .flags = GW_EV_HAS_SUB | GW_EV_HAS_CORR};
    while (*p) {
        if (pair(&p, "cpu", v, sizeof v)) {
            if (time_of(v, 0, &cpu) < 0)
                return -1;
        } else if (pair(&p, "wait", v, sizeof v)) {
            if (time_of(v, 0, &wait) < 0)
                return -1;
        } else if (pair(&p, "call", v, sizeof v)) {
            unsigned call = 1;
            while (call < GW_CALL_COUNT && strcmp(calls[call], v) != 0)
                call++;
            if (call == GW_CALL_COUNT)
                return -1;
            e.arg0 |= gw_sample_pack_call(call);
        } else if (strncmp(p, "stack=", 6) == 0) {
            e.arg1 = stack(t, p + 6);
            e.flags |= GW_EV_HAS_ARG1;
            break;
        } else {
            return -1;
        }
    }
    e.corr = gw_sample_pack((uint64_t)cpu, (uint64_t)wait);
    span(h, e.start, e.end);
    return gw_trace_add(t, &e);
}

static int counter(struct gw_trace *t, struct text_host *h, int64_t base, const char *p)
{
    double device, pid, value;
    int64_t at;
    if (number(&p, &device) < 0 || number(&p, &pid) < 0 || text_trace_time(&p, &at) < 0)
        return -1;
    p += strspn(p, " \t");
    if (number(&p, &value) < 0 || !*p)
        return -1;
    size_t n = strlen(p);
    while (n && p[n - 1] <= ' ')
        n--;
    struct gw_event e = {.kind = GW_KIND_COUNTER,
                         .start = base + at,
                         .end = base + at,
                         .arg0 = gw_counter_bits(value),
                         .flags = GW_EV_HAS_ARG0,
                         .name = gw_trace_name(t, p, n),
                         .lane = gw_trace_lane_counter(t, (int64_t)device, (int64_t)pid)};
    span(h, e.start, e.end);
    return gw_trace_add(t, &e);
}

/* "0 5ms +1s engine=90 sm=80 dram=20 tensor=10", or "0 refused=busy" */
static int activity(struct text_host *h, int64_t base, const char *p)
{
    static const char *const keys[GW_ACT_COUNT] = {"engine", "sm", "dram", "tensor"};
    float share[GW_ACT_COUNT] = {NAN, NAN, NAN, NAN};
    int64_t start, length;
    double device;
    char v[64];
    if (number(&p, &device) < 0 || device < 0 || device >= 4)
        return -1;
    int i = (int)device;
    if (!h->has_activity[i])
        gw_activity_begin(&h->activity[i], i);
    h->has_activity[i] = 1;
    if (pair(&p, "refused", v, sizeof v)) {
        snprintf(h->refused[i], sizeof h->refused[i], "%s", v);
        return 0;
    }
    if (text_trace_time(&p, &start) < 0)
        return -1;
    p += strspn(p, " \t");
    if (*p++ != '+' || text_trace_time(&p, &length) < 0)
        return -1;
    p += strspn(p, " \t");
    while (*p) {
        int k = 0;
        while (k < GW_ACT_COUNT && !pair(&p, keys[k], v, sizeof v))
            k++;
        if (k == GW_ACT_COUNT)
            return -1;
        share[k] = (float)(atof(v) / 100);
    }
    span(h, base + start, base + start + length);
    return gw_activity_add(&h->activity[i], base + start, base + start + length, share);
}

static int loader(struct gw_trace *t, struct text_host *h, const char *p)
{
    char v[64];
    double pid;
    if (number(&p, &pid) < 0 || h->f.loader_count == 16)
        return -1;
    struct gw_host_loader *l = &h->loader[h->f.loader_count++];
    *l = gw_host_loader_unknown((int64_t)pid);
    h->f.hook = 1;
    while (*p) {
        size_t i = 0;
        const struct gw_host_setting *k;
        while ((k = gw_host_loader_setting(i)) && !pair(&p, k->key, v, sizeof v))
            i++;
        if (k)
            *gw_host_setting_of(l, k) = atoi(v);
        else if (pair(&p, "epochs", v, sizeof v))
            l->epochs = atoll(v);
        else if (pair(&p, "length", v, sizeof v))
            l->length = atoll(v);
        else if (pair(&p, "set_epoch", v, sizeof v))
            l->set_epoch_calls = atoll(v);
        else if (pair(&p, "sampler", v, sizeof v))
            l->sampler = gw_arena_strdup(t->arena, v);
        else
            return -1;
    }
    return 0;
}

/* "anomaly=1 launch_blocking=1" */
static int settings(struct text_host *h, const char *p)
{
    char v[64];
    h->f.hook = 1;
    while (*p)
        if (pair(&p, "anomaly", v, sizeof v))
            h->f.anomaly = atoi(v);
        else if (pair(&p, "launch_blocking", v, sizeof v))
            h->f.launch_blocking = atoi(v);
        else if (pair(&p, "cudnn_benchmark", v, sizeof v))
            h->f.cudnn_benchmark = atoi(v);
        else
            return -1;
    return 0;
}

static int thread(struct gw_trace *t, const char *p)
{
    int64_t pid, tid;
    char name[64];
    if (sscanf(p, "%" SCNd64 ":%" SCNd64 " %63s", &pid, &tid, name) != 3)
        return -1;
    uint32_t lane = gw_trace_lane_host(t, pid, tid);
    ((struct gw_lane *)t->lanes.data)[lane].name = gw_trace_name(t, name, strlen(name));
    return 0;
}

/* "1 20ms optimizer=1 steps=5": of process 1, at 20 ms */
static int step(struct text_host *h, int64_t base, const char *p)
{
    char v[64];
    double pid;
    int64_t at, steps = 1;
    int optimizer = 0;
    if (number(&p, &pid) < 0 || text_trace_time(&p, &at) < 0)
        return -1;
    p += strspn(p, " \t");
    while (*p)
        if (pair(&p, "optimizer", v, sizeof v))
            optimizer = atoi(v);
        else if (pair(&p, "steps", v, sizeof v))
            steps = atoll(v);
        else
            return -1;
    struct gw_host_steps *s = h->steps;
    while (s < h->steps + 4 && s->count && (s->pid != (int64_t)pid || s->optimizer != optimizer))
        s++;
    if (s == h->steps + 4 || s->count == MAX_STEPS)
        return -1;
    s->pid = (int64_t)pid;
    s->optimizer = optimizer;
    h->step[s - h->steps][s->count++] = (struct gw_host_step){base + at, steps};
    h->f.hook = 1;
    return 0;
}

int text_host_line(struct gw_trace *t, struct text_host **hp, int64_t base, const char *line, char *why, size_t cap)
{
    struct text_host *h = *hp;
    if (!h) {
        h = *hp = calloc(1, sizeof *h);
        if (!h)
            return fail(why, cap, "out of memory", "");
        h->f = gw_host_facts_unknown();
        h->f.from = INT64_MAX;
        h->f.to = INT64_MIN;
    }
    const char *p = line + strspn(line, " \t");
    int rc = -1;
    if (whole_word(&p, "cpus"))
        rc = cpus(h, p);
    else if (whole_word(&p, "memory"))
        rc = memory(h, p);
    else if (whole_word(&p, "gpu"))
        rc = gpu(h, p);
    else if (whole_word(&p, "process"))
        rc = process(h, base, p);
    else if (whole_word(&p, "sample"))
        rc = sample(t, h, base, p);
    else if (whole_word(&p, "counter"))
        rc = counter(t, h, base, p);
    else if (whole_word(&p, "activity"))
        rc = activity(h, base, p);
    else if (whole_word(&p, "loader"))
        rc = loader(t, h, p);
    else if (whole_word(&p, "settings"))
        rc = settings(h, p);
    else if (whole_word(&p, "step"))
        rc = step(h, base, p);
    else if (whole_word(&p, "thread"))
        rc = thread(t, p);
    return rc < 0 ? fail(why, cap, "cannot be read", line) : 0;
}

static void give_activity(struct gw_trace *t, struct text_host *h, struct gw_host_facts *f)
{
    struct gw_activity *a = gw_arena_calloc(t->arena, 4, sizeof *a);
    for (int i = 0; i < 4; i++) {
        if (!h->has_activity[i] || !a)
            continue;
        struct gw_activity *one = &a[f->activity_count++];
        one->interval_ns = 1000000;
        one->state = h->refused[i][0] ? "refused" : "ended";
        one->why = h->refused[i][0] ? gw_arena_strdup(t->arena, h->refused[i]) : NULL;
        (void)gw_activity_finish(&h->activity[i], t->arena, one);
        f->activity_missing = one->count ? NULL : one->why;
    }
    f->activity = a;
}

static void give_steps(struct gw_trace *t, struct text_host *h, struct gw_host_facts *f)
{
    struct gw_host_steps *s = gw_arena_calloc(t->arena, 4, sizeof *s);
    for (int i = 0; s && i < 4 && h->steps[i].count; i++) {
        size_t bytes = h->steps[i].count * sizeof *h->step[i];
        struct gw_host_step *row = gw_arena_alloc(t->arena, bytes);
        if (!row)
            break;
        memcpy(row, h->step[i], bytes);
        s[i] = h->steps[i];
        s[i].row = row;
        f->steps_count++;
    }
    f->steps = s;
}

void text_host_finish(struct gw_trace *t, struct text_host *h)
{
    if (!h)
        return;
    struct gw_host_facts *f = gw_arena_alloc(t->arena, sizeof *f);
    struct gw_host_process *p = gw_arena_calloc(t->arena, MAX, sizeof *p);
    struct gw_host_gpu *g = gw_arena_calloc(t->arena, 16, sizeof *g);
    struct gw_host_loader *l = gw_arena_calloc(t->arena, 16, sizeof *l);
    if (f && p && g && l) {
        memcpy(p, h->process, sizeof h->process);
        memcpy(g, h->gpu, sizeof h->gpu);
        memcpy(l, h->loader, sizeof h->loader);
        *f = h->f;
        f->process = p;
        f->gpu = g;
        f->loader = l;
        give_activity(t, h, f);
        give_steps(t, h, f);
        if (f->from > f->to)
            f->from = f->to = 0;
        t->host = f;
    }
    free(h);
}
