/*
 * record_cuda.c - one file of the injected library into the trace.
 *
 * Two passes: the first learns windows, clocks, names and which launches the runtime made; the second adds the events of
 * the chosen window.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/record_internal.h"

enum { MAX_WINDOWS = 65536, MAX_CLOCKS = 65536, CBIDS = 4096, MAX_NAMES = 1 << 20, MAX_DEVICES = 64 };
#define SAME_CLOCK_NS 1000000 /* CUPTI's clock within 1 ms of CLOCK_REALTIME is that clock */
#define STEP_NS 1000000       /* REALTIME moving 1 ms against MONOTONIC within a second is a step, not a slew (500 ppm) */
#define LENGTH_SHARE 0.5      /* windows of at least this share of the longest are as good as it */
#define SOME_WORK 0.1        /* windows with less than this share of the most GPU work are no picture of the job */
#define GRACE_NS 1000000000   /* that queued work may take to start */
#define WORK_SHARE 0.5        /* and those with at least this share of the most GPU work: the job was under way */
#define BITMAP_BYTES (64u << 20)

struct span { int64_t start, end; uint64_t ops; int is_complete, is_usual; }; /* CLOCK_REALTIME, ns */

struct cuda_file {
    struct gw_record_import *im;
    struct gw_reader r;
    uint32_t index; /* of the process: upper half of correlation ids */
    struct gw_array windows; /* struct span */
    struct gw_array clocks;  /* struct gw_rec_clock */
    struct gw_array names;   /* uint32_t: interned, by kernel name id */
    uint32_t api[2][CBIDS];
    int64_t device[MAX_DEVICES]; /* CUDA ordinal -> id in the trace, -1 not seen */
    uint8_t *runtime;        /* bit per correlation id: launched by a runtime call; NULL = too many */
    uint32_t corr_min, corr_max;
    int64_t from, to;        /* the chosen window; everything when from > to */
    int64_t until;           /* work that starts before this is the window's: it may have been queued in it */
    int64_t offset;          /* CUPTI's clock + offset = CLOCK_REALTIME */
    uint64_t outside;        /* records of other windows */
    struct gw_record_calls calls;
};

static int64_t real_ns(const struct cuda_file *f, uint64_t cupti) { return (int64_t)(cupti + (uint64_t)f->offset); }

/* --- pass 1 ---------------------------------------------------------------------------------------------------------- */

static void learn_window(struct cuda_file *f, const struct gw_chunk *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        struct gw_rec_window w;
        gw_chunk_get(c, i, &w, sizeof w);
        if (!gw_record_is_sane(f->im, w.realtime_ns))
            continue;
        struct span *last = f->windows.len ? (struct span *)f->windows.data + f->windows.len - 1 : NULL;
        if (w.what == GW_WIN_OPEN) {
            struct span *s = gw_array_push(&f->windows);
            if (s)
                *s = (struct span){.start = (int64_t)w.realtime_ns, .end = INT64_MAX};
        } else if (last && last->end == INT64_MAX) {
            last->end = (int64_t)w.realtime_ns;
        }
    }
}

static void learn_name(struct cuda_file *f, const struct gw_chunk *c)
{
    struct gw_rec_name_head h;
    char text[4097], readable[8192];
    if (c->bytes < sizeof h)
        return;
    memcpy(&h, c->data, sizeof h);
    size_t len = c->bytes - sizeof h < sizeof text - 1 ? c->bytes - sizeof h : sizeof text - 1;
    memcpy(text, c->data + sizeof h, len);
    text[len] = 0;
    if (h.space == GW_NS_KERNEL && h.id < MAX_NAMES) {
        const char *name = gw_record_demangle(text, readable, sizeof readable);
        while (f->names.len <= h.id && gw_array_push(&f->names))
            ;
        if (f->names.len > h.id)
            ((uint32_t *)f->names.data)[h.id] = gw_trace_name(f->im->t, name, strlen(name));
    } else if ((h.space == GW_NS_RUNTIME || h.space == GW_NS_DRIVER) && h.id < CBIDS) {
        if (!text[0])
            snprintf(text, sizeof text, "%s call %u", h.space == GW_NS_RUNTIME ? "runtime" : "driver", h.id);
        len = gw_record_api_name(text);
        f->api[h.space == GW_NS_DRIVER][h.id] = gw_trace_name(f->im->t, text, len);
    }
}

/* The same GPU has one id in the trace: NVML's index when the UUID says so, else the ordinal that the process sees. */
static int64_t device_id(struct gw_record_import *im, const struct gw_rec_device *d)
{
    const uint8_t *u = d->uuid;
    char text[48];
    snprintf(text, sizeof text, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2], u[3],
             u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
    for (size_t i = 0; i < im->n_gpus; i++)
        if (strcmp(im->gpus[i].uuid, text) == 0)
            return im->gpus[i].index;
    return d->ordinal;
}

static void learn_device(struct cuda_file *f, const struct gw_chunk *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        struct gw_rec_device d;
        gw_chunk_get(c, i, &d, sizeof d);
        if (d.ordinal >= MAX_DEVICES)
            continue;
        d.name[sizeof d.name - 1] = 0;
        f->device[d.ordinal] = device_id(f->im, &d);
        struct gw_device *g = gw_trace_device(f->im->t, f->device[d.ordinal]);
        if (!g)
            return;
        g->name = gw_trace_name(f->im->t, d.name, strlen(d.name));
        g->memory_bytes = d.memory_bytes;
        g->sm_count = d.sm_count;
        g->cc_major = d.cc_major;
        g->cc_minor = d.cc_minor;
        g->max_threads_per_sm = d.max_threads_per_sm;
        if (d.driver_version > 0)
            f->im->t->facts.cuda_driver = d.driver_version;
    }
}

static void learn_corr_range(struct cuda_file *f, const struct gw_chunk *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        struct gw_rec_api a;
        gw_chunk_get(c, i, &a, sizeof a);
        if (a.domain != GW_NS_RUNTIME)
            continue;
        f->corr_min = a.corr < f->corr_min ? a.corr : f->corr_min;
        f->corr_max = a.corr > f->corr_max ? a.corr : f->corr_max;
    }
}

/* Work of each window. Records follow their window's opening in the file, so its clock is known by then. */
static void learn_work(struct cuda_file *f, const struct gw_chunk *c)
{
    const struct gw_rec_clock *k = f->clocks.data;
    const struct gw_rec_clock *last = f->clocks.len ? k + f->clocks.len - 1 : NULL;
    int64_t offset = last && last->cupti_ns ? (int64_t)(last->realtime_ns - last->cupti_ns) : 0;
    struct span *w = f->windows.data;
    for (uint32_t i = 0; i < c->count && f->windows.len; i++) {
        struct gw_rec_kernel r;
        gw_chunk_get(c, i, &r, sizeof r);
        int64_t at = (int64_t)(r.start + (uint64_t)(llabs(offset) < SAME_CLOCK_NS ? 0 : offset));
        size_t n = f->windows.len;
        while (n > 1 && w[n - 1].start > at)
            n--;
        w[n - 1].ops++;
    }
}

static void learn(struct cuda_file *f)
{
    struct gw_chunk c;
    while (gw_reader_next(&f->r, &c)) {
        switch (c.type) {
        case GW_RT_WINDOW: learn_window(f, &c); break;
        case GW_RT_NAME: learn_name(f, &c); break;
        case GW_RT_DEVICE: learn_device(f, &c); break;
        case GW_RT_API: learn_corr_range(f, &c); break;
        case GW_RT_KERNEL: learn_work(f, &c); break;
        case GW_RT_CALLS: gw_record_calls_learn(&f->calls, &c); break;
        case GW_RT_CLOCK:
            for (uint32_t i = 0; i < c.count; i++) {
                struct gw_rec_clock k;
                gw_chunk_get(&c, i, &k, sizeof k);
                if (!gw_record_is_sane(f->im, k.realtime_ns) || k.monotonic_ns > INT64_MAX / 4 || k.cupti_ns > INT64_MAX / 4)
                    continue;
                struct gw_rec_clock *to = gw_array_push(&f->clocks);
                if (to)
                    *to = k;
            }
            break;
        default: break;
        }
    }
}

/* Windows that are about as long as the longest and hold some work are complete; those that hold about as much work as the
 * fullest are usual: the job is neither loading its model nor evaluating in them. Marks them. */
static void judge_windows(struct cuda_file *f)
{
    struct span *w = f->windows.data;
    int64_t longest = 0;
    uint64_t most = 0;
    for (size_t i = 0; i < f->windows.len; i++) {
        if (w[i].end == INT64_MAX) { /* never closed: the process ended inside; it reaches to the last clock */
            const struct gw_rec_clock *k = f->clocks.data;
            w[i].end = f->clocks.len ? (int64_t)k[f->clocks.len - 1].realtime_ns : w[i].start;
        }
        longest = w[i].end - w[i].start > longest ? w[i].end - w[i].start : longest;
    }
    for (size_t i = 0; i < f->windows.len; i++)
        if ((double)(w[i].end - w[i].start) >= LENGTH_SHARE * (double)longest)
            most = w[i].ops > most ? w[i].ops : most;
    for (size_t i = 0; i < f->windows.len; i++)
        if ((double)(w[i].end - w[i].start) >= LENGTH_SHARE * (double)longest) {
            w[i].is_complete = w[i].ops && (double)w[i].ops >= SOME_WORK * (double)most;
            w[i].is_usual = (double)w[i].ops >= WORK_SHARE * (double)most;
        }
}

static int64_t distance(const struct span *w, int64_t at)
{
    return at < w->start ? w->start - at : at > w->end ? at - w->end : 0;
}

/* The window at the time that was asked for, or the nearest; else the last usual one, when the job is warm. */
static void choose_window(struct cuda_file *f)
{
    const struct span *w = f->windows.data, *best = NULL;
    int64_t at = f->im->o ? f->im->o->window_at : 0;
    f->from = 0;
    f->to = -1;
    judge_windows(f);
    for (size_t i = 0; i < f->windows.len; i++)
        if (at ? !best || distance(w + i, at) < distance(best, at) : w[i].is_usual)
            best = w + i;
    if (best) {
        const struct span *end = w + f->windows.len;
        f->from = best->start;
        f->to = best->end;
        f->until = best->end < INT64_MAX - GRACE_NS ? best->end + GRACE_NS : INT64_MAX;
        if (best + 1 < end && best[1].start < f->until) /* what follows is another window's, with a hole before it */
            f->until = best[1].start;
    }
    if (f->windows.len > 1)
        gw_trace_lose(f->im->t, GW_LOSS_WINDOW_ONLY, f->windows.len - 1, -1);
    else if (f->windows.len == 1)
        f->from = 0, f->to = -1; /* one window: all there is */
}

/* The time for which this process's GPU work is in the trace. */
static void note_span(struct cuda_file *f)
{
    const struct span *w = f->windows.data;
    struct gw_record_import *im = f->im;
    if (!f->windows.len)
        return;
    int64_t from = f->from > f->to ? w[0].start : f->from, to = f->from > f->to ? w[f->windows.len - 1].end : f->to;
    im->gpu_from = from < im->gpu_from ? from : im->gpu_from;
    im->gpu_to = to > im->gpu_to ? to : im->gpu_to;
}

static void check_clocks(struct cuda_file *f)
{
    const struct gw_rec_clock *k = f->clocks.data;
    int64_t worst = 0, n = 0;
    long double sum = 0; /* two clocks can be 50 years apart, and 64 bits of mantissa keep the mean exact to a ns */
    for (size_t i = 0; i < f->clocks.len; i++) {
        if (i && llabs((int64_t)(k[i].realtime_ns - k[i].monotonic_ns) - (int64_t)(k[i - 1].realtime_ns - k[i - 1].monotonic_ns)) > STEP_NS)
            gw_trace_lose(f->im->t, GW_LOSS_CLOCK_STEP, 1, -1);
        if (!k[i].cupti_ns)
            continue;
        int64_t d = (int64_t)(k[i].realtime_ns - k[i].cupti_ns);
        worst = llabs(d) > worst ? llabs(d) : worst;
        sum += (long double)d;
        n++;
    }
    f->offset = 0;
    if (worst >= SAME_CLOCK_NS && n) {
        f->offset = (int64_t)(sum / (long double)n);
        worst = SAME_CLOCK_NS;
    }
    if (worst > f->im->clock_error_ns)
        f->im->clock_error_ns = worst;
}

/* --- pass 2 ---------------------------------------------------------------------------------------------------------- */

/* GPU work counts by its launch where that is known, so that a kernel that outlives the window stays; times are enough
 * here because the kinds were off between windows. Some grace for work that was queued. */
static int is_inside(struct cuda_file *f, int64_t real)
{
    if (f->from > f->to || (real >= f->from && real < f->until))
        return 1;
    f->outside++;
    return 0;
}

static uint64_t corr_of(const struct cuda_file *f, uint32_t corr) { return (uint64_t)f->index << 32 | corr; }

static uint32_t gpu_lane(struct cuda_file *f, uint32_t device, uint32_t stream)
{
    int64_t id = device < MAX_DEVICES && f->device[device] >= 0 ? f->device[device] : (int64_t)device;
    return gw_trace_lane_gpu(f->im->t, id, (int64_t)((uint64_t)f->index << 32 | stream));
}

static int add(struct cuda_file *f, struct gw_event *e, uint64_t start, uint64_t end)
{
    if (end < start) {
        gw_trace_lose(f->im->t, GW_LOSS_NEGATIVE_DURATION, 1, -1);
        end = start;
    }
    int64_t real = real_ns(f, start);
    if (!gw_record_is_sane(f->im, (uint64_t)real) || end - start > GW_RECORD_FAR) {
        gw_trace_lose(f->im->t, GW_LOSS_BAD_TIME, 1, -1);
        return 0;
    }
    if (!is_inside(f, real))
        return 0;
    e->start = real - f->im->base_ns;
    e->end = e->start + (int64_t)(end - start);
    return gw_trace_add(f->im->t, e);
}

static int add_kernel(struct cuda_file *f, const struct gw_chunk *c, uint32_t i)
{
    struct gw_rec_kernel k;
    gw_chunk_get(c, i, &k, sizeof k);
    struct gw_event e = {.corr = corr_of(f, k.corr), .kind = GW_KIND_KERNEL, .lane = gpu_lane(f, k.device, k.stream),
                         .flags = GW_EV_HAS_CORR | GW_EV_HAS_ARG0 | GW_EV_HAS_SUB};
    e.name = k.name < f->names.len ? ((uint32_t *)f->names.data)[k.name] : 0;
    e.sub = k.block[0] * k.block[1] * k.block[2];
    e.arg0 = (uint64_t)k.grid[0] * k.grid[1] * k.grid[2];
    if (k.graph)
        e.flags |= GW_EV_IN_GRAPH;
    return add(f, &e, k.start, k.end);
}

static enum gw_mem memory_kind(unsigned cupti)
{
    static const enum gw_mem kinds[] = {GW_MEM_UNKNOWN, GW_MEM_PAGEABLE, GW_MEM_PINNED, GW_MEM_DEVICE, GW_MEM_ARRAY, GW_MEM_MANAGED,
                                        GW_MEM_DEVICE, GW_MEM_MANAGED};
    return cupti < sizeof kinds / sizeof *kinds ? kinds[cupti] : GW_MEM_UNKNOWN;
}

static int add_copy(struct cuda_file *f, const struct gw_chunk *c, uint32_t i)
{
    struct gw_rec_copy m;
    char name[64];
    gw_chunk_get(c, i, &m, sizeof m);
    struct gw_event e = {.corr = corr_of(f, m.corr), .kind = GW_KIND_COPY, .lane = gpu_lane(f, m.device, m.stream), .arg0 = m.bytes,
                         .sub = gw_copy_sub(memory_kind(m.src), memory_kind(m.dst)),
                         .flags = GW_EV_HAS_CORR | GW_EV_HAS_ARG0 | GW_EV_HAS_SUB};
    gw_record_copy_name(m.kind, m.src, m.dst, name, sizeof name);
    e.name = gw_trace_name(f->im->t, name, strlen(name));
    if (m.graph)
        e.flags |= GW_EV_IN_GRAPH;
    return add(f, &e, m.start, m.end);
}

static int add_set(struct cuda_file *f, const struct gw_chunk *c, uint32_t i)
{
    struct gw_rec_set s;
    gw_chunk_get(c, i, &s, sizeof s);
    struct gw_event e = {.corr = corr_of(f, s.corr), .kind = GW_KIND_SET, .lane = gpu_lane(f, s.device, s.stream), .arg0 = s.bytes,
                         .name = gw_trace_name(f->im->t, "Memset (Device)", 15), .flags = GW_EV_HAS_CORR | GW_EV_HAS_ARG0};
    if (s.graph)
        e.flags |= GW_EV_IN_GRAPH;
    return add(f, &e, s.start, s.end);
}

/* A runtime call and the driver call inside it have one correlation id: the outer one tells the story. */
static int is_nested(const struct cuda_file *f, const struct gw_rec_api *a)
{
    if (a->domain != GW_NS_DRIVER || !f->runtime || a->corr < f->corr_min || a->corr > f->corr_max)
        return 0;
    uint32_t at = a->corr - f->corr_min;
    return f->runtime[at / 8] >> (at % 8) & 1;
}

static int add_api(struct cuda_file *f, const struct gw_chunk *c, uint32_t i)
{
    struct gw_rec_api a;
    gw_chunk_get(c, i, &a, sizeof a);
    if (is_nested(f, &a))
        return 0;
    int driver = a.domain == GW_NS_DRIVER;
    struct gw_event e = {.corr = corr_of(f, a.corr), .kind = GW_KIND_API, .flags = GW_EV_HAS_CORR,
                         .lane = gw_trace_lane_host(f->im->t, f->r.head.pid, a.tid)};
    e.name = a.cbid < CBIDS ? f->api[driver][a.cbid] : 0;
    return add(f, &e, a.start, a.end);
}

static int add_sync(struct cuda_file *f, const struct gw_chunk *c, uint32_t i)
{
    struct gw_rec_sync s;
    gw_chunk_get(c, i, &s, sizeof s);
    const char *name = gw_record_sync_name(s.type);
    /* The record names no device: of a process with several, the first is as good a row as any for what is not work. */
    struct gw_event e = {.corr = corr_of(f, s.corr), .kind = GW_KIND_GPU_SYNC, .lane = gpu_lane(f, 0, s.stream),
                         .name = gw_trace_name(f->im->t, name, strlen(name)), .arg0 = s.stream,
                         .flags = GW_EV_HAS_CORR | GW_EV_HAS_ARG0};
    return add(f, &e, s.start, s.end);
}

static int add_overhead(struct cuda_file *f, const struct gw_chunk *c, uint32_t i)
{
    struct gw_rec_overhead o;
    gw_chunk_get(c, i, &o, sizeof o);
    const char *name = gw_record_overhead_name(o.kind);
    if (!o.start || !o.tid)
        return 0;
    struct gw_event e = {.kind = GW_KIND_OVERHEAD, .lane = gw_trace_lane_host(f->im->t, f->r.head.pid, o.tid),
                         .name = gw_trace_name(f->im->t, name, strlen(name))};
    return add(f, &e, o.start, o.end);
}

static int add_chunk(struct cuda_file *f, const struct gw_chunk *c)
{
    int (*fn)(struct cuda_file *, const struct gw_chunk *, uint32_t) = NULL;
    switch (c->type) {
    case GW_RT_KERNEL: fn = add_kernel; break;
    case GW_RT_COPY: fn = add_copy; break;
    case GW_RT_SET: fn = add_set; break;
    case GW_RT_API: fn = add_api; break;
    case GW_RT_SYNC: fn = add_sync; break;
    case GW_RT_OVERHEAD: fn = add_overhead; break;
    case GW_RT_CALLS: return gw_record_calls_add(&f->calls, f->im, f->r.head.pid, c);
    default: return 0;
    }
    for (uint32_t i = 0; i < c->count; i++)
        if (fn(f, c, i) < 0)
            return GW_ENOMEM;
    return 0;
}

static void mark_runtime(struct cuda_file *f, const char *path)
{
    struct gw_chunk c;
    if (f->corr_max < f->corr_min || (f->corr_max - f->corr_min) / 8 >= BITMAP_BYTES)
        return;
    f->runtime = calloc(1, (f->corr_max - f->corr_min) / 8 + 1);
    gw_reader_close(&f->r);
    if (!f->runtime || gw_reader_open(&f->r, path, NULL) < 0)
        return;
    while (gw_reader_next(&f->r, &c))
        for (uint32_t i = 0; c.type == GW_RT_API && i < c.count; i++) {
            struct gw_rec_api a;
            gw_chunk_get(&c, i, &a, sizeof a);
            uint32_t at = a.corr - f->corr_min;
            if (a.domain == GW_NS_RUNTIME && a.corr >= f->corr_min && a.corr <= f->corr_max)
                f->runtime[at / 8] = (uint8_t)(f->runtime[at / 8] | 1u << (at % 8));
        }
}

static void count_losses(struct cuda_file *f)
{
    const struct gw_rec_status *s = &f->r.head.status;
    struct gw_trace *t = f->im->t;
    uint64_t dropped = s->dropped + s->spool_lost;
    if (dropped)
        gw_trace_lose(t, GW_LOSS_DROPPED_RECORDS, dropped, -1);
    if (s->unknown)
        gw_trace_lose(t, GW_LOSS_UNKNOWN_RECORD, s->unknown, -1);
    if (f->r.damaged || f->r.missing)
        gw_trace_lose(t, GW_LOSS_DAMAGED, f->r.damaged + f->r.missing, f->r.first_damage);
    if (!f->r.ended && f->r.torn)
        gw_trace_lose(t, GW_LOSS_TRUNCATED, 1, f->r.first_damage);
    f->im->inject_cpu_s += (double)s->own_cpu_ns * 1e-9;
    f->im->cuda_pids[f->index] = f->r.head.pid;
    f->im->cuda_ops[f->index] = s->records;
    if (gw_rec_state_loses(s->state)) {
        if (s->state != GW_RS_HELD) /* on purpose: the report says so in its first sentence */
            gw_trace_lose(t, GW_LOSS_RECORDING_STOPPED, 1, -1);
        f->im->gpu_records = f->im->gpu_records ? f->im->gpu_records : gw_rec_state_text(s->state);
    }
    if (s->cupti_version)
        t->facts.cupti = (int)s->cupti_version;
}

static struct cuda_file *begin(struct gw_record_import *im)
{
    struct cuda_file *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->im = im;
    f->r.fd = -1;
    f->corr_min = UINT32_MAX;
    for (size_t i = 0; i < MAX_DEVICES; i++)
        f->device[i] = -1;
    gw_array_init(&f->windows, sizeof(struct span), MAX_WINDOWS);
    gw_array_init(&f->clocks, sizeof(struct gw_rec_clock), MAX_CLOCKS);
    gw_array_init(&f->names, sizeof(uint32_t), MAX_NAMES);
    return f;
}

static void end(struct cuda_file *f)
{
    gw_reader_close(&f->r);
    gw_array_free(&f->windows);
    gw_array_free(&f->clocks);
    gw_array_free(&f->names);
    free(f->runtime);
    free(f);
}

size_t gw_record_cuda_windows(struct gw_record_import *im, const char *path, struct gw_record_window *out, size_t cap, uint64_t *work)
{
    struct cuda_file *f = begin(im);
    size_t n = 0;
    if (!f)
        return 0;
    *work = 0;
    if (gw_reader_open(&f->r, path, NULL) == 0) {
        learn(f);
        judge_windows(f);
    }
    const struct span *w = f->windows.data;
    for (size_t i = 0; i < f->windows.len; i++) {
        *work += w[i].ops;
        if (w[i].is_complete && n < cap)
            out[n++] = (struct gw_record_window){w[i].start, w[i].end};
    }
    end(f);
    return n;
}

int gw_record_read_cuda(struct gw_record_import *im, const char *path, struct gw_error *err)
{
    struct cuda_file *f = begin(im);
    if (!f)
        return gw_error_set(err, GW_ENOMEM, path, -1, "", "out of memory");
    f->index = im->processes++;
    int rc = gw_reader_open(&f->r, path, err);
    if (rc < 0)
        goto out;
    learn(f);
    check_clocks(f);
    choose_window(f);
    note_span(f);
    count_losses(f);
    mark_runtime(f, path);
    gw_reader_close(&f->r);
    rc = gw_reader_open(&f->r, path, err);
    struct gw_chunk c;
    while (rc == 0 && !im->stopped && gw_reader_next(&f->r, &c)) {
        rc = add_chunk(f, &c);
        gw_record_progress(im, c.offset);
    }
    if (rc == GW_ENOMEM)
        rc = 0; /* the cap: counted by the trace, what fits is kept */
    im->bytes_done += (int64_t)f->r.size;
out:
    end(f);
    return rc;
}
