/*
 * record_host.c - the recorder's own file into the trace: samples of threads, counters, processes.
 *
 * Read once, in the order of the file. Processes are followed over the whole recording; samples and counters become
 * events only around the time for which there is GPU work, so that a recording of a day does not fill the memory.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/record_internal.h"

#define SEC 1000000000ll
#define KEEP_AROUND (300 * SEC) /* of samples before and after the GPU work in the trace: phases of the job are weighed over it */
#define KEEP_ALONE (600 * SEC) /* without GPU work: the last ten minutes */
#define LONGEST (1500000000ll) /* a thread is sampled every second at least; a longer hole is not known */
enum { MAX_NAMES = 1 << 20, MAX_PROCESSES = 65536, MAX_LANES = 1 << 20 };

/* Counters of a process that are kept for its whole life. */
enum slot { SLOT_NONE, SLOT_RSS, SLOT_SHARED, SLOT_RCHAR, SLOT_READ, SLOT_WRITE, SLOT_CPU };
static const struct {
    const char *name;
    enum slot slot;
} slots[] = {{"process.rss_bytes", SLOT_RSS},   {"process.shared_bytes", SLOT_SHARED}, {"process.rchar", SLOT_RCHAR},
             {"process.read_bytes", SLOT_READ}, {"process.write_bytes", SLOT_WRITE},   {"process.cpu_s", SLOT_CPU}};

struct text {
    uint32_t name;
    uint8_t slot;
}; /* of a string of the record: its id in the trace */

struct sample { /* the last one of a thread, waiting for its end */
    struct gw_rec_thread t;
    uint8_t is_set;
};

struct process { /* beside gw_host_process */
    struct gw_host_process p;
    uint32_t flags;
    uint32_t comm;
    double rchar0, read0, write0; /* at the first sight */
};

struct host_file {
    struct gw_record_import *im;
    struct gw_reader r;
    int64_t from, to;        /* CLOCK_REALTIME: what is kept */
    struct gw_array text;    /* struct text, by string id */
    struct gw_array pending; /* struct sample, by lane */
    struct gw_array process; /* struct process */
    int64_t last;            /* the latest stamp */
};

static const char *text_of(const struct host_file *f, uint32_t id)
{
    return id < f->text.len ? gw_trace_text(f->im->t, ((const struct text *)f->text.data)[id].name) : "";
}
static uint32_t name_of(const struct host_file *f, uint32_t id)
{
    return id < f->text.len ? ((const struct text *)f->text.data)[id].name : 0;
}

static int is_kept(const struct host_file *f, int64_t real) { return real >= f->from && real <= f->to; }

static void learn_name(struct host_file *f, const struct gw_chunk *c)
{
    struct gw_rec_name_head h;
    if (c->bytes <= sizeof h)
        return;
    memcpy(&h, c->data, sizeof h);
    if (h.space != GW_NS_STRING || h.id >= MAX_NAMES)
        return;
    while (f->text.len <= h.id && gw_array_push(&f->text))
        ;
    if (f->text.len <= h.id)
        return;
    struct text *t = (struct text *)f->text.data + h.id;
    size_t len = c->bytes - sizeof h;
    t->name = gw_trace_name(f->im->t, (const char *)c->data + sizeof h, len);
    const char *at = gw_trace_text(f->im->t, t->name), *frame;
    size_t frame_len;
    for (int stack = strstr(at, ".py(") != NULL; stack && gw_stack_next(&at, &frame, &frame_len);)
        (void)gw_trace_name(f->im->t, frame, frame_len); /* the engine looks its frames up one by one */
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        if (strlen(slots[i].name) == len && memcmp(slots[i].name, c->data + sizeof h, len) == 0)
            t->slot = (uint8_t)slots[i].slot;
}

/* --- threads
 * ---------------------------------------------------------------------------------------------------------- */

static int emit(struct host_file *f, uint32_t lane, const struct gw_rec_thread *a, const struct gw_rec_thread *b)
{
    int64_t start = (int64_t)a->realtime_ns - f->im->base_ns, end = start;
    if (!is_kept(f, (int64_t)a->realtime_ns))
        return 0;
    struct gw_event e = {.kind = GW_KIND_SAMPLE,
                         .lane = lane,
                         .flags = GW_EV_HAS_SUB,
                         .sub = gw_record_state(a, f->im->machine_arm, text_of(f, a->wchan))};
    if (b && b->realtime_ns > a->realtime_ns && (int64_t)(b->realtime_ns - a->realtime_ns) <= LONGEST) {
        end = (int64_t)b->realtime_ns - f->im->base_ns;
        if (a->cpu_ns != UINT64_MAX && b->cpu_ns != UINT64_MAX && b->cpu_ns >= a->cpu_ns && b->wait_ns >= a->wait_ns) {
            e.corr = gw_sample_pack(b->cpu_ns - a->cpu_ns, b->wait_ns - a->wait_ns);
            e.flags |= GW_EV_HAS_CORR;
        }
    }
    e.start = start;
    e.end = end;
    if (a->syscall >= 0) {
        e.arg0 = (uint64_t)a->syscall;
        e.flags |= GW_EV_HAS_ARG0;
    }
    e.arg0 |= gw_sample_pack_call(a->call);
    if (name_of(f, a->stack)) {
        e.arg1 = name_of(f, a->stack);
        e.flags |= GW_EV_HAS_ARG1;
    }
    return gw_trace_add(f->im->t, &e);
}

static void note_mount(struct host_file *f, const struct gw_rec_thread *t)
{
    const char *path = text_of(f, t->path), *space = strchr(path, ' ');
    struct gw_host_mount *m = f->im->host_mounts.data;
    for (size_t i = 0; space && i < f->im->host_mounts.len; i++)
        if (strlen(m[i].type) == (size_t)(space - path) && strncmp(m[i].type, path, (size_t)(space - path)) == 0 &&
            strcmp(m[i].point, space + 1) == 0)
            m[i].samples++;
}

static int add_thread(struct host_file *f, const struct gw_rec_thread *t)
{
    struct gw_trace *tr = f->im->t;
    if ((int64_t)t->realtime_ns < f->from - LONGEST || (int64_t)t->realtime_ns > f->to + LONGEST)
        return 0;
    uint32_t lane = gw_trace_lane_host(tr, t->pid, t->tid);
    if (lane == GW_NONE || lane >= MAX_LANES)
        return 0;
    struct gw_lane *l = (struct gw_lane *)tr->lanes.data + lane;
    if (!l->name)
        l->name = name_of(f, t->comm);
    while (f->pending.len <= lane && gw_array_push(&f->pending))
        ;
    if (f->pending.len <= lane)
        return GW_ENOMEM;
    if (t->path)
        note_mount(f, t);
    struct sample *s = (struct sample *)f->pending.data + lane;
    int rc = s->is_set ? emit(f, lane, &s->t, t) : 0;
    s->t = *t;
    s->is_set = 1;
    return rc;
}

/* --- processes
 * -------------------------------------------------------------------------------------------------------- */

static struct process *process_at(struct host_file *f, int64_t pid)
{
    struct process *p = f->process.data;
    for (size_t i = f->process.len; i-- > 0;)
        if (p[i].p.pid == pid)
            return p + i;
    return NULL;
}

static int allowed_of(const struct gw_record_import *im, int64_t pid)
{
    const struct gw_record_cpus *c = im->host_cpus.data;
    for (size_t i = im->host_cpus.len; i-- > 0;)
        if (c[i].pid == pid)
            return c[i].cpus;
    return -1;
}

static void add_process(struct host_file *f, const struct gw_rec_process *r)
{
    struct process *p = process_at(f, r->pid);
    int64_t at = (int64_t)r->realtime_ns - f->im->base_ns;
    if (r->what == GW_PW_APPEARED || !p) {
        p = gw_array_push(&f->process);
        if (!p)
            return;
        *p = (struct process){.rchar0 = NAN, .read0 = NAN, .write0 = NAN};
        p->p = gw_host_process_unknown(r->pid);
        p->p.ppid = r->ppid;
        p->p.start = at;
        p->p.cpus_allowed = allowed_of(f->im, r->pid);
    }
    if (r->what == GW_PW_ENDED) {
        p->p.end = at;
        return;
    }
    p->flags = r->flags;
    p->comm = r->comm;
    p->p.name = text_of(f, r->name);
    p->p.uses_cuda |= (r->flags & (GW_PF_CUDA | GW_PF_INJECTED)) != 0;
}

static void since(double *first, double *value, double v)
{
    if (isnan(*first))
        *first = v;
    *value = v - *first;
}

static void process_counter(struct host_file *f, const struct gw_rec_counter *c, enum slot slot)
{
    struct process *p = process_at(f, c->pid);
    if (!p)
        return;
    switch (slot) {
    case SLOT_RSS:
        p->p.rss_first = isnan(p->p.rss_first) ? c->value : p->p.rss_first;
        p->p.rss_last = c->value;
        p->p.rss_max = isnan(p->p.rss_max) || c->value > p->p.rss_max ? c->value : p->p.rss_max;
        break;
    case SLOT_SHARED: p->p.shared_last = c->value; break;
    case SLOT_RCHAR: since(&p->rchar0, &p->p.rchar, c->value); break;
    case SLOT_READ: since(&p->read0, &p->p.read_bytes, c->value); break;
    case SLOT_WRITE: since(&p->write0, &p->p.write_bytes, c->value); break;
    case SLOT_CPU: p->p.cpu_s = c->value; break;
    case SLOT_NONE: break;
    }
}

static int add_counter(struct host_file *f, const struct gw_rec_counter *c)
{
    struct gw_trace *t = f->im->t;
    if (c->name < f->text.len && ((struct text *)f->text.data)[c->name].slot)
        process_counter(f, c, (enum slot)((struct text *)f->text.data)[c->name].slot);
    if (!is_kept(f, (int64_t)c->realtime_ns) || !name_of(f, c->name))
        return 0;
    int64_t at = (int64_t)c->realtime_ns - f->im->base_ns;
    struct gw_event e = {.kind = GW_KIND_COUNTER,
                         .start = at,
                         .end = at,
                         .arg0 = gw_counter_bits(c->value),
                         .flags = GW_EV_HAS_ARG0,
                         .name = name_of(f, c->name),
                         .lane = gw_trace_lane_counter(t, c->device, c->pid ? (int64_t)c->pid : -1)};
    if (c->item) {
        char text[400];
        int n = snprintf(text, sizeof text, "%.150s %.200s", text_of(f, c->name), text_of(f, c->item));
        e.name = gw_trace_name(t, text, (size_t)n);
    }
    return gw_trace_add(t, &e);
}

/* --- the file
 * --------------------------------------------------------------------------------------------------------- */

static int sane(struct host_file *f, uint64_t real)
{
    if (gw_record_is_sane(f->im, real))
        return 1;
    gw_trace_lose(f->im->t, GW_LOSS_BAD_TIME, 1, -1);
    return 0;
}

static void add_chunk(struct host_file *f, const struct gw_chunk *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->type == GW_RT_THREAD) {
            struct gw_rec_thread t;
            gw_chunk_get(c, i, &t, sizeof t);
            if (!sane(f, t.realtime_ns))
                continue;
            (void)add_thread(f, &t); /* at the cap the loss is counted by the trace */
            f->last = (int64_t)t.realtime_ns > f->last ? (int64_t)t.realtime_ns : f->last;
        } else if (c->type == GW_RT_COUNTER) {
            struct gw_rec_counter k;
            gw_chunk_get(c, i, &k, sizeof k);
            if (sane(f, k.realtime_ns))
                (void)add_counter(f, &k);
        } else {
            struct gw_rec_process p;
            gw_chunk_get(c, i, &p, sizeof p);
            if (sane(f, p.realtime_ns))
                add_process(f, &p);
        }
    }
}

/* Stretch of time of the samples: the last clock is near the end. */
static void find_period(struct host_file *f)
{
    struct gw_record_import *im = f->im;
    if (im->gpu_from <= im->gpu_to) {
        f->from = im->gpu_from - KEEP_AROUND;
        f->to = im->gpu_to + KEEP_AROUND;
        return;
    }
    struct gw_chunk c;
    int64_t last = im->base_ns;
    while (gw_reader_next(&f->r, &c))
        for (uint32_t i = 0; c.type == GW_RT_CLOCK && i < c.count; i++) {
            struct gw_rec_clock k;
            gw_chunk_get(&c, i, &k, sizeof k);
            if (gw_record_is_sane(im, k.realtime_ns))
                last = (int64_t)k.realtime_ns > last ? (int64_t)k.realtime_ns : last;
        }
    f->from = last - KEEP_ALONE > im->base_ns ? last - KEEP_ALONE : im->base_ns;
    f->to = last + SEC;
}

/* Which process the job is about: the one whose GPU work was recorded, else one that has the driver, else the busiest.
 */
static void find_trainers(struct host_file *f)
{
    struct gw_record_import *im = f->im;
    struct process *p = f->process.data, *best = NULL;
    uint64_t most = 0;
    for (uint32_t k = 0; k < im->processes; k++) {
        struct process *q = process_at(f, im->cuda_pids[k]);
        if (!q)
            continue;
        q->p.uses_cuda = 1;
        if (im->cuda_ops[k]) {
            q->p.role = GW_HR_TRAINER;
            best = !best || im->cuda_ops[k] > most ? q : best;
            most = im->cuda_ops[k] > most ? im->cuda_ops[k] : most;
        }
    }
    for (int pass = 0; pass < 3 && !best; pass++)
        for (size_t i = 0; i < f->process.len; i++) {
            /* a forked worker inherits the driver's mappings; a shell or launcher has none */
            int fits = pass == 0   ? p[i].p.uses_cuda && !(p[i].flags & GW_PF_FORKED)
                       : pass == 1 ? (p[i].flags & GW_PF_PYTHON) && !(p[i].flags & GW_PF_FORKED) && p[i].p.cpu_s > 0
                                   : p[i].p.pid == im->job_pid;
            if (fits && (!best || p[i].p.cpu_s > best->p.cpu_s))
                best = p + i;
        }
    if (best) {
        best->p.role = GW_HR_TRAINER;
        im->host->trainer = best->p.pid;
    }
}

static int finish_processes(struct host_file *f)
{
    struct process *p = f->process.data;
    struct gw_host_process *out = gw_arena_calloc(f->im->t->arena, f->process.len, sizeof *out);
    if (!out)
        return GW_ENOMEM;
    find_trainers(f);
    for (size_t i = 0; i < f->process.len; i++) {
        if (p[i].p.role != GW_HR_TRAINER) {
            const struct process *up = process_at(f, p[i].p.ppid);
            p[i].p.role = gw_record_role(p[i].flags, text_of(f, p[i].comm), p[i].p.name ? p[i].p.name : "",
                                         up ? up->p.role : GW_HR_OTHER);
        }
        out[i] = p[i].p;
    }
    f->im->host->process = out;
    f->im->host->process_count = f->process.len;
    return 0;
}

static const void *keep(struct gw_arena *a, const struct gw_array *v, size_t *count)
{
    void *out = gw_arena_calloc(a, v->len, v->size);
    *count = out ? v->len : 0;
    if (*count)
        memcpy(out, v->data, v->len * v->size);
    return out;
}

/* What NVML says of a device that the process's own record does not describe. */
static void name_devices(struct host_file *f)
{
    struct gw_trace *t = f->im->t;
    const struct gw_host_gpu *g = f->im->host_gpus.data;
    struct gw_device *d = t->devices.data;
    for (size_t i = 0; i < f->im->host_gpus.len; i++)
        for (size_t k = 0; k < t->devices.len; k++) {
            if (d[k].id != g[i].device)
                continue;
            if (!d[k].name && g[i].name)
                d[k].name = gw_trace_name(t, g[i].name, strlen(g[i].name));
            if (d[k].memory_bytes < 0 && g[i].memory_bytes > 0)
                d[k].memory_bytes = (int64_t)g[i].memory_bytes;
        }
}

static int finish(struct host_file *f)
{
    struct gw_record_import *im = f->im;
    struct gw_host_facts *h = im->host;
    struct gw_trace *t = im->t;
    for (uint32_t lane = 0; lane < f->pending.len; lane++) {
        const struct sample *s = (const struct sample *)f->pending.data + lane;
        if (s->is_set)
            (void)emit(f, lane, &s->t, NULL);
    }
    if (finish_processes(f) < 0)
        return GW_ENOMEM;
    h->from = f->from - im->base_ns;
    h->to = (f->to < f->last ? f->to : f->last) - im->base_ns;
    h->inject_cpu_s = im->processes ? im->inject_cpu_s : NAN;
    uint64_t recorded = 0;
    for (uint32_t k = 0; k < im->processes; k++)
        recorded += im->cuda_ops[k];
    if (recorded)
        h->gpu_records = NULL;
    else if (im->gpu_records)
        h->gpu_records = im->gpu_records;
    name_devices(f);
    h->gpu = keep(t->arena, &im->host_gpus, &h->gpu_count);
    h->mount = keep(t->arena, &im->host_mounts, &h->mount_count);
    h->launch_blocking = gw_record_facts_blocking(im, h->trainer); /* the hook may know better */
    gw_record_read_hooks(im);
    t->host = h;
    return 0;
}

int gw_record_read_host(struct gw_record_import *im, const char *path, struct gw_error *err)
{
    struct host_file *f = calloc(1, sizeof *f);
    if (!f)
        return gw_error_set(err, GW_ENOMEM, path, -1, "", "out of memory");
    f->im = im;
    gw_array_init(&f->text, sizeof(struct text), MAX_NAMES);
    gw_array_init(&f->pending, sizeof(struct sample), MAX_LANES);
    gw_array_init(&f->process, sizeof(struct process), MAX_PROCESSES);
    int rc = gw_reader_open(&f->r, path, err);
    if (rc < 0)
        goto out;
    find_period(f);
    gw_reader_close(&f->r);
    rc = gw_reader_open(&f->r, path, err);
    struct gw_chunk c;
    while (rc == 0 && !im->stopped && gw_reader_next(&f->r, &c)) {
        if (c.type == GW_RT_NAME)
            learn_name(f, &c);
        else if (c.type == GW_RT_THREAD || c.type == GW_RT_COUNTER || c.type == GW_RT_PROCESS)
            add_chunk(f, &c);
        gw_record_progress(im, c.offset);
    }
    im->bytes_done += (int64_t)f->r.size;
    if (rc == 0 && finish(f) < 0)
        rc = gw_error_set(err, GW_ENOMEM, path, -1, "", "out of memory");
out:
    gw_reader_close(&f->r);
    gw_array_free(&f->text);
    gw_array_free(&f->pending);
    gw_array_free(&f->process);
    free(f);
    return rc;
}
