/* Rows of host threads: API calls, NVTX ranges, operating-system calls, library calls, the profiler's own time. */
#include "import/nsys.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define RECENT 4 /* calls of a thread that are remembered: a runtime call holds one or two driver calls of its id */
#define OPEN_MAX 65536

/* The last calls of a thread, to find the driver call inside a runtime call: both carry the same correlation id. */
struct nsys_recent {
    struct {
        uint64_t corr;
        int64_t start, end;
        size_t event; /* index of the event, SIZE_MAX when it was not kept */
    } call[RECENT];
    unsigned next;
};

enum { START, END, TID, NAME, CORR };

static uint32_t host_lane(struct nsys *x, const struct nsys_row *r, int col)
{
    if (nsys_null(r, col))
        return gw_trace_lane_host(x->t, -1, -1);
    return gw_trace_lane_host(x->t, nsys_pid(r->v[col]), nsys_tid(r->v[col]));
}

static int add_host(struct nsys *x, const struct nsys_row *r, struct gw_event *e)
{
    if (nsys_null(r, START) || nsys_null(r, END)) {
        gw_trace_lose(x->t, GW_LOSS_BAD_EVENT, 1, -1);
        return GW_OK;
    }
    return nsys_add(x, e);
}

/* ------------------------------------------------------------------ API calls */

#define GRAPH_LAUNCH (UINT32_C(1) << 31) /* set beside a name id in api_names */

/* "cudaLaunchKernel_v7000" -> "cudaLaunchKernel", "cuLaunchKernel_ptsz" -> "cuLaunchKernel": the version of a runtime
 * function's ABI and the variant for per-thread default streams say nothing here, and other profilers leave them out.
 * "_v2" and "_v3" of driver functions are part of the name. */
static size_t api_length(const char *s, size_t len)
{
    size_t digits = len;
    while (digits && isdigit((unsigned char)s[digits - 1]))
        digits--;
    if (len - digits >= 4 && digits > 2 && s[digits - 1] == 'v' && s[digits - 2] == '_')
        len = digits - 2;
    if (len > 5 && (!memcmp(s + len - 5, "_ptsz", 5) || !memcmp(s + len - 5, "_ptds", 5)))
        len -= 5;
    return len;
}

static uint32_t api_name(struct nsys *x, const struct nsys_row *r)
{
    uint32_t id = nsys_null(r, NAME) ? UINT32_MAX : nsys_map_get(&x->api_names, (uint64_t)r->v[NAME], UINT32_MAX);
    if (id != UINT32_MAX)
        return id;
    uint32_t full = nsys_name(x, r, NAME);
    const char *s = full ? gw_trace_text(x->t, full) : "(call without a name)";
    size_t len = api_length(s, strlen(s));
    id = gw_trace_name(x->t, s, len);
    if (!strncmp(s, "cudaGraphLaunch", 15) || !strncmp(s, "cuGraphLaunch", 13))
        id |= GRAPH_LAUNCH;
    if (!nsys_null(r, NAME) && !r->text_of)
        nsys_map_put(&x->api_names, (uint64_t)r->v[NAME], id);
    return id;
}

static struct nsys_recent *recent_of(struct nsys *x, int64_t tid)
{
    uint32_t i = nsys_map_get(&x->recent_of, (uint64_t)tid, UINT32_MAX);
    if (i != UINT32_MAX)
        return (struct nsys_recent *)x->recent.data + i;
    if (!x->recent.size)
        gw_array_init(&x->recent, sizeof(struct nsys_recent), 1u << 20);
    struct nsys_recent *rec = gw_array_push(&x->recent);
    if (rec && nsys_map_put(&x->recent_of, (uint64_t)tid, (uint32_t)(x->recent.len - 1)) < 0)
        return NULL;
    return rec;
}

/* 1 when the call lies inside one of the same id. An inner call that came first is taken back. */
static int nested_call(struct nsys *x, struct nsys_recent *rec, const struct gw_event *e)
{
    for (unsigned i = 0; i < RECENT; i++) {
        if (rec->call[i].corr != e->corr || rec->call[i].event == SIZE_MAX)
            continue;
        if (rec->call[i].start <= e->start && e->end <= rec->call[i].end)
            return 1;
        if (e->start <= rec->call[i].start && rec->call[i].end <= e->end) {
            struct gw_event *inner = (struct gw_event *)x->t->events.data + rec->call[i].event;
            inner->kind = GW_KIND_NONE;
            inner->flags = GW_EV_DROPPED;
            rec->call[i].event = SIZE_MAX;
        }
    }
    return 0;
}

static int call_row(struct nsys *x, const struct nsys_row *r)
{
    struct gw_event e = {.start = r->v[START], .end = r->v[END], .kind = GW_KIND_API};
    uint32_t name = api_name(x, r), process = nsys_process(x, r, TID);
    x->call_rows++;
    x->graph_calls += (name & GRAPH_LAUNCH) != 0;
    e.name = name & ~GRAPH_LAUNCH;
    e.lane = host_lane(x, r, TID);
    if (nsys_null(r, CORR) || !r->v[CORR])
        return add_host(x, r, &e);
    e.corr = nsys_corr(process, r->v[CORR]);
    e.flags |= GW_EV_HAS_CORR;
    if (x->driver_table && nsys_map_put(&x->called, e.corr, 1) < 0)
        return GW_ENOMEM;
    struct nsys_recent *rec = recent_of(x, nsys_null(r, TID) ? -1 : r->v[TID]);
    if (!rec)
        return GW_ENOMEM;
    if (nested_call(x, rec, &e))
        return GW_OK;
    size_t at = x->t->events.len;
    int rc = add_host(x, r, &e);
    unsigned slot = rec->next++ % RECENT;
    rec->call[slot].corr = e.corr;
    rec->call[slot].start = e.start;
    rec->call[slot].end = e.end;
    rec->call[slot].event = x->t->events.len > at ? at : SIZE_MAX;
    return rc;
}

/* A table of driver calls alone (not in any export by NVIDIA so far; some converters write it). */
static int driver_row(struct nsys *x, const struct nsys_row *r)
{
    uint64_t corr = nsys_corr(nsys_process(x, r, TID), r->v[CORR]);
    if (r->v[CORR] && nsys_map_get(&x->called, corr, 0))
        return GW_OK;
    return call_row(x, r);
}

/* ------------------------------------------------------------------ ranges */

/* NVTX domains of libraries: their ranges are calls into the library and never name a phase or a step of the job. */
static int is_library(const char *domain)
{
    static const char *const libraries[] = {"nccl",    "cublas", "cublaslt", "cudnn", "cusparse", "cusolver",
                                            "cufft",   "curand", "cutensor", "cccl",  "cub",      "thrust",
                                            "libcudf", "librmm", "tensorrt", "ucx",   "ucp",      "mpi",
                                            "nvshmem", "nvtiff", "nvjpeg"};
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        if (!strcasecmp(domain, libraries[i]))
            return 1;
    return 0;
}

/* torch.autograd.profiler.emit_nvtx names a range "aten::mm, seq = 12, op_id = 34, sizes = [[2, 3], [3, 4]]". Cuts the
 * name at the first of these, so that equal operators have equal names. 1 when there was such a tail. */
static int cut_tail(const char *s, size_t *len, const char **sizes, size_t *sizes_len)
{
    static const char *const marks[] = {", seq = ", ", op_id = ", ", sizes = "};
    const char *end = s + *len, *at = NULL;
    for (const char *p = s; (p = memchr(p, ',', (size_t)(end - p))) != NULL; p++) {
        size_t left = (size_t)(end - p);
        for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
            size_t n = strlen(marks[i]);
            if (left < n || memcmp(p, marks[i], n) != 0)
                continue;
            at = at ? at : p;
            if (i == 2) {
                const char *stop = memmem(p + n, left - n, ", input_op_ids", 14);
                *sizes = p + n;
                *sizes_len = (size_t)((stop ? stop : end) - *sizes);
            }
        }
        if (*sizes)
            break;
    }
    if (!at || at == s)
        return 0;
    *len = (size_t)(at - s);
    return 1;
}

/* An operator of the framework, and not a range that the user named through record_function. */
static int is_operator(const char *s, size_t len)
{
    static const char *const spaces[] = {"aten::", "autograd::", "c10d::", "prims::", "torch::", "nccl:"};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (len > strlen(spaces[i]) && !memcmp(s, spaces[i], strlen(spaces[i])))
            return 1;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)s[i]) && !strchr("_:.", s[i]))
            return 0;
    return 1;
}

enum { R_TYPE = 2, R_TEXT, R_TEXT_ID, R_TID, R_DOMAIN };

static void domain_row(struct nsys *x, const struct nsys_row *r, uint64_t key)
{
    uint32_t name = nsys_name(x, r, R_TEXT);
    if (!name)
        name = nsys_name(x, r, R_TEXT_ID);
    nsys_map_put(&x->domains, key, (uint32_t)is_library(gw_trace_text(x->t, name)));
}

static void name_range(struct nsys *x, const struct nsys_row *r, struct gw_event *e)
{
    const char *s = r->text, *sizes = NULL;
    size_t len = r->text_len, sizes_len = 0;
    if (r->text_of != R_TEXT + 1) {
        e->name = nsys_name(x, r, R_TEXT_ID);
        s = gw_trace_text(x->t, e->name);
        len = strlen(s);
    }
    if (cut_tail(s, &len, &sizes, &sizes_len)) {
        if (is_operator(s, len))
            e->kind = GW_KIND_OP;
        if (e->kind == GW_KIND_OP && sizes_len) {
            e->arg0 = nsys_intern(x, sizes, sizes_len);
            e->flags |= GW_EV_HAS_ARG0;
        }
        e->name = nsys_intern(x, s, len);
    } else if (r->text_of == R_TEXT + 1) {
        e->name = nsys_intern(x, s, len);
    }
    if (!e->name)
        e->name = gw_trace_name(x->t, "(range without a name)", 22);
}

static int range_row(struct nsys *x, const struct nsys_row *r)
{
    int64_t type = nsys_null(r, R_TYPE) ? x->nvtx_push_pop : r->v[R_TYPE];
    uint64_t domain = ((uint64_t)r->v[R_TID] >> 24) << 32 ^ (uint32_t)r->v[R_DOMAIN];
    if (type == x->nvtx_domain)
        domain_row(x, r, domain);
    if (type != x->nvtx_push_pop && type != x->nvtx_start_end && type != x->nvtxt_push_pop &&
        type != x->nvtxt_start_end)
        return GW_OK; /* marks, categories, names of threads */
    struct gw_event e = {.start = r->v[START], .end = r->v[END], .kind = GW_KIND_ANNOT};
    x->range_rows++;
    name_range(x, r, &e);
    const char *name = gw_trace_text(x->t, e.name);
    if (nsys_map_get(&x->domains, domain, 0) || (!strncmp(name, "nccl", 4) && isupper((unsigned char)name[4])))
        e.kind = GW_KIND_OP;
    e.lane = host_lane(x, r, R_TID);
    int never_closed = nsys_null(r, END) || (e.end < e.start && e.end <= 0);
    if (!never_closed || nsys_null(r, START))
        return add_host(x, r, &e);
    if (!x->open.size)
        gw_array_init(&x->open, sizeof e, OPEN_MAX);
    struct gw_event *keep = gw_array_push(&x->open);
    if (keep)
        *keep = e;
    else
        gw_trace_lose(x->t, GW_LOSS_BAD_EVENT, 1, -1);
    return GW_OK;
}

/* ------------------------------------------------------------------ the rest */

static int plain_row(struct nsys *x, const struct nsys_row *r, unsigned kind)
{
    struct gw_event e = {.start = r->v[START], .end = r->v[END], .kind = (uint16_t)kind};
    e.name = nsys_name(x, r, NAME);
    e.lane = host_lane(x, r, TID);
    x->other_rows++;
    return add_host(x, r, &e);
}

static int os_row(struct nsys *x, const struct nsys_row *r)
{
    if (r->v[END] - r->v[START] < x->osrt_min) {
        x->left_out++;
        return GW_OK;
    }
    return plain_row(x, r, GW_KIND_OSRT);
}
static int overhead_row(struct nsys *x, const struct nsys_row *r) { return plain_row(x, r, GW_KIND_OVERHEAD); }
static int library_row(struct nsys *x, const struct nsys_row *r) { return plain_row(x, r, GW_KIND_OP); }

const struct nsys_table nsys_host_tables[] = {
    {"CUPTI_ACTIVITY_KIND_RUNTIME", "start end globalTid nameId correlationId", 2, call_row},
    {"CUPTI_ACTIVITY_KIND_DRIVER", "start end globalTid nameId correlationId", 2, driver_row},
    {"NVTX_EVENTS", "start end eventType *text textId globalTid domainId", 2, range_row},
    {"PROFILER_OVERHEAD", "start end globalTid nameId", 2, overhead_row},
    {"CUPTI_ACTIVITY_KIND_OVERHEAD", "start end globalTid nameId", 2, overhead_row},
    {"CUPTI_ACTIVITY_KIND_JIT", "start end globalTid nameId", 2, overhead_row},
    {"CUDNN_EVENTS", "start end globalTid nameId", 2, library_row},
    {"CUBLAS_EVENTS", "start end globalTid nameId", 2, library_row},
    {"CUDA_HOST_CALLBACK", "start end globalTid nameId", 2, library_row},
    {"MPI_P2P_EVENTS", "start end globalTid textId", 2, library_row},
    {"MPI_COLLECTIVES_EVENTS", "start end globalTid textId", 2, library_row},
    {"MPI_START_WAIT_EVENTS", "start end globalTid textId", 2, library_row},
    {"MPI_OTHER_EVENTS", "start end globalTid textId", 2, library_row},
    {"OSRT_API", "start end globalTid nameId", 2, os_row},
    {0},
};

/* Ranges that were open when the recording ended reach to its end. */
int nsys_host_finish(struct nsys *x)
{
    const struct gw_event *open = x->open.data;
    int64_t end = x->last_end;
    for (size_t i = 0; i < x->open.len; i++) {
        struct gw_event e = open[i];
        e.end = end > e.start ? end : e.start;
        int rc = nsys_add(x, &e);
        if (rc < 0)
            return rc;
    }
    if (x->graph_calls && !x->graph_rows && !x->graph_nodes)
        gw_trace_lose(x->t, GW_LOSS_GRAPH_HIDDEN, x->graph_calls, -1);
    return GW_OK;
}
