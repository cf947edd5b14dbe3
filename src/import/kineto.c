#include "import/kineto.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#include "base/gw_i18n.h"
#include "import/gw_json_scan.h"
#include "import/gw_json_split.h"
#include "import/kineto_facts.h"
#include "import/kineto_merge.h"
#include "import/kineto_pool.h"
#include "import/kineto_root.h"

enum { THREADS_MAX = 4, PROGRESS_NS = 100 * 1000 * 1000 };
/* Batches in flight at one time. More than a ring of blocks can hold never occur. */
enum { BATCHES_MAX = 64 };

struct reader {
    struct gw_trace *t;
    struct gw_stream *s;
    const char *path;
    const struct gw_import_options *o;
    struct gw_error *err;

    struct kineto_root root;
    struct kineto_facts facts;
    struct kineto_merge merge;
    struct kineto_pool *pool;
    struct gw_split split;
    int in_events;

    struct kineto_batch batches[BATCHES_MAX];
    struct kineto_batch *idle[BATCHES_MAX];
    int idle_count;
    struct kineto_batch *flying[BATCHES_MAX]; /* a ring, in the order of the file */
    int first, flying_count;

    struct gw_array carry;        /* char: the tail of the last block */
    struct kineto_batch *growing; /* or the last block itself, when one event fills it */
    size_t growing_from;          /* where in it the open event begins, from block->base */

    int64_t text_bytes, file_pos, last_progress;
    int stop; /* the user, or the trace is full */
    int rc;
};

int kineto_threads(const struct gw_import_options *o)
{
    if (o->threads > 0)
        return o->threads < KINETO_THREADS_MAX ? o->threads : KINETO_THREADS_MAX - 1;
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : n;
}

/* ---- batches ---- */

static void batch_idle(struct reader *r, struct kineto_batch *b)
{
    gw_stream_release(r->s, b->block);
    kineto_batch_clear(b);
    r->idle[r->idle_count++] = b;
}

static void merge_oldest(struct reader *r)
{
    struct kineto_batch *b = r->flying[r->first];
    while (!kineto_pool_done(r->pool, b))
        if (!kineto_pool_help(r->pool))
            kineto_pool_wait(r->pool, b);
    r->first = (r->first + 1) % BATCHES_MAX;
    r->flying_count--;
    if (!r->stop && r->rc == GW_OK) {
        r->rc = kineto_merge_add(&r->merge, b);
        r->stop |= r->merge.full;
    }
    batch_idle(r, b);
}

static void submit(struct reader *r, struct kineto_batch *b)
{
    if (b->cuts.len == 0) {
        batch_idle(r, b);
        return;
    }
    r->flying[(r->first + r->flying_count++) % BATCHES_MAX] = b;
    kineto_pool_submit(r->pool, b);
}

static struct kineto_batch *batch_get(struct reader *r, struct gw_stream_block *block)
{
    while (r->idle_count == 0)
        merge_oldest(r);
    struct kineto_batch *b = r->idle[--r->idle_count];
    b->block = block;
    return b;
}

/* ---- text ---- */

static int no_memory(struct reader *r)
{
    r->rc = GW_ENOMEM;
    return r->rc;
}

/* Puts a new block behind what is left of the one before. The window is [*from, end of data), from block->base. */
static struct kineto_batch *open_window(struct reader *r, struct gw_stream_block *nb, size_t *from)
{
    if (r->growing) {
        struct kineto_batch *b = r->growing;
        struct gw_stream_block *g = b->block;
        r->growing = NULL;
        *from = r->growing_from;
        if (gw_block_grow_tail(g, nb->len) < 0) {
            no_memory(r);
        } else {
            memcpy(g->data + g->len, nb->data, nb->len);
            g->len += nb->len;
            g->last = nb->last;
            memset(g->data + g->len, 0, GW_STREAM_SLACK);
        }
        gw_stream_release(r->s, nb);
        return b;
    }
    size_t n = r->carry.len;
    if (gw_block_grow_head(nb, n) < 0) {
        no_memory(r);
        n = 0;
    }
    if (n)
        memcpy(nb->data - n, r->carry.data, n);
    r->carry.len = 0;
    *from = (size_t)(nb->data - nb->base) - n;
    return batch_get(r, nb);
}

/* The window is used up: its bytes from `keep` (from block->base) on are needed with the next block. */
static void close_window(struct reader *r, struct kineto_batch *b, size_t keep)
{
    struct gw_stream_block *g = b->block;
    size_t head = (size_t)(g->data - g->base), n = head + g->len - keep;
    if (b->cuts.len == 0 && n > head &&
        n > g->len / 2) { /* one event fills the block: copying it on would be quadratic */
        r->growing = b;
        r->growing_from = keep;
        return;
    }
    r->carry.len = 0;
    if (gw_array_reserve(&r->carry, n) < 0)
        no_memory(r);
    else if (n)
        memcpy(r->carry.data, g->base + keep, n);
    r->carry.len = r->rc == GW_OK ? n : 0;
    submit(r, b);
}

static void add_cut(struct reader *r, struct kineto_batch *b, size_t start, size_t n)
{
    struct kineto_cut *c = gw_array_push(&b->cuts);
    if (c)
        *c = (struct kineto_cut){(uint32_t)start, (uint32_t)n};
    else
        no_memory(r);
}

/* Cuts events from `at` on. Returns where the list ends, or 0 when the window is used up (then it is closed). */
static size_t cut_events(struct reader *r, struct kineto_batch *b, size_t at)
{
    struct gw_stream_block *g = b->block;
    size_t end = (size_t)(g->data - g->base) + g->len, start, n;
    for (;;) {
        switch (gw_split_next(&r->split, g->base + at, end - at, g->last, &start, &n)) {
        case GW_SPLIT_EVENT:
            add_cut(r, b, at + start, n);
            if (r->rc < 0)
                return end;
            break;
        case GW_SPLIT_END: return at + r->split.pos;
        default: {
            size_t keep = r->split.keep;
            gw_split_drop(&r->split, keep);
            close_window(r, b, at + keep);
            return 0;
        }
        }
    }
}

static void losses_of_split(struct reader *r)
{
    const struct gw_split *s = &r->split;
    if (s->damaged)
        kineto_merge_lose(&r->merge, GW_LOSS_DAMAGED, s->damaged, s->damaged_at);
    if (s->oversize)
        kineto_merge_lose(&r->merge, GW_LOSS_BAD_EVENT, s->oversize, s->oversize_at);
}

static void take_block(struct reader *r, struct gw_stream_block *nb)
{
    size_t at;
    r->text_bytes = nb->text_off + (int64_t)nb->len;
    r->file_pos = nb->file_pos;
    struct kineto_batch *b = open_window(r, nb, &at);
    struct gw_stream_block *g = b->block;
    b->text_off = g->text_off - (g->data - g->base);
    size_t end = (size_t)(g->data - g->base) + g->len;
    while (r->rc == GW_OK) {
        if (r->in_events) {
            at = cut_events(r, b, at);
            if (at == 0)
                return;
            losses_of_split(r);
            r->in_events = 0;
            kineto_root_events_end(&r->root);
        }
        at += kineto_root_feed(&r->root, g->base + at, end - at, b->text_off + (int64_t)at);
        if (r->root.at != KINETO_AT_EVENTS)
            break;
        gw_split_init(&r->split, b->text_off + (int64_t)at);
        r->in_events = 1;
    }
    submit(r, b);
}

static void progress(struct reader *r, int force)
{
    struct timespec ts;
    if (!r->o->progress)
        return;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    int64_t now = (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
    if (!force && now - r->last_progress < PROGRESS_NS)
        return;
    r->last_progress = now;
    if (r->o->progress(r->o->user, r->file_pos, gw_stream_file_bytes(r->s)) != 0 && !r->stop && !force) {
        r->stop = 1;
        kineto_merge_lose(&r->merge, GW_LOSS_TRUNCATED, 1, r->text_bytes);
    }
}

static void read_all(struct reader *r)
{
    while (!r->stop && r->rc == GW_OK) {
        while (r->flying_count && kineto_pool_done(r->pool, r->flying[r->first]))
            merge_oldest(r);
        if (r->stop || r->rc < 0)
            break;
        progress(r, 0);
        /* Enough is cut for the others: parse some here. */
        if (kineto_pool_waiting(r->pool) >= 2 && kineto_pool_help(r->pool))
            continue;
        struct gw_stream_block *b = gw_stream_next(r->s, r->flying_count == 0);
        if (b)
            take_block(r, b);
        else if (gw_stream_ended(r->s))
            break;
        else if (r->flying_count)
            merge_oldest(r);
        else
            no_memory(r); /* a ring without blocks; cannot be */
    }
    while (r->flying_count)
        merge_oldest(r);
}

/* ---- the end ---- */

static void losses_of_stream(struct reader *r)
{
    const struct gw_stream_status *st = gw_stream_status(r->s);
    if (!gw_stream_ended(r->s))
        return;
    if (st->code == GW_EIO)
        kineto_merge_lose(&r->merge, GW_LOSS_TRUNCATED, 1, st->text_off);
    else if (st->code < 0)
        kineto_merge_lose(&r->merge, GW_LOSS_DECOMPRESS, 1, st->text_off);
}

static void losses_of_root(struct reader *r)
{
    const struct kineto_root *root = &r->root;
    if (r->in_events)
        losses_of_split(r);
    if (root->damaged)
        kineto_merge_lose(&r->merge, GW_LOSS_DAMAGED, root->damaged, root->damaged_at);
    /* A bare list may end without its bracket: the format allows it, for writers that were killed. */
    int open_list = r->in_events && !(root->bare && gw_split_between(&r->split));
    if (open_list || root->at == KINETO_AT_OBJECT)
        kineto_merge_lose(&r->merge, GW_LOSS_TRUNCATED, 1, r->text_bytes);
    if (root->second == 1 || root->lists > 1)
        kineto_merge_lose(&r->merge, GW_LOSS_SEVERAL_WRITERS, 1, -1);
    else if (root->second == 2 && root->at == KINETO_AT_END)
        kineto_merge_lose(&r->merge, GW_LOSS_DAMAGED, 1, r->text_bytes);
}

/* No trace, or nothing in it: says so in one line. */
static int judge(struct reader *r)
{
    const struct kineto_root *root = &r->root;
    static const char how[] = N_("give a trace that torch.profiler wrote: prof.export_chrome_trace(\"trace.json\")");
    if (r->stop && gw_trace_count(r->t) == 0)
        return gw_error_set(r->err, GW_EINTR, r->path, r->text_bytes, "", _("stopped before the first event was read"));
    if (root->at == KINETO_AT_START && gw_stream_status(r->s)->code < 0)
        return gw_error_set(r->err, GW_EFORMAT, r->path, 0, _("copy the file again"), "%s",
                            _(gw_stream_status(r->s)->what));
    if (root->at == KINETO_AT_START)
        return gw_error_set(r->err, GW_EFORMAT, r->path, 0, _("the profiler may not have finished writing it"),
                            _("the file is empty"));
    if (root->at == KINETO_AT_NO_JSON)
        return gw_error_set(r->err, GW_EFORMAT, r->path, 0, _(how), _("is not JSON"));
    if (!root->lists && root->nodes)
        return gw_error_set(r->err, GW_EFORMAT, r->path, 0, _(how),
                            _("is an execution trace (a graph of operators without GPU times), not a profiler trace"));
    if (!root->lists)
        return gw_error_set(r->err, GW_EFORMAT, r->path, r->text_bytes, _(how),
                            root->events_no_list ? _("is JSON, but its \"traceEvents\" is not a list")
                                                 : _("is JSON, but has no \"traceEvents\""));
    int torch = r->merge.torch || r->facts.torch;
    if (r->merge.seen == 0 && root->bare)
        return gw_error_set(r->err, GW_EFORMAT, r->path, 0, _(how), _("is a JSON list, but not of trace events"));
    if (!torch && !r->merge.gpu_ops)
        return gw_error_set(r->err, GW_EFORMAT, r->path, 0, _(how),
                            _("is a Chrome trace, but not one of torch.profiler: no GPU rows, no known categories"));
    if (gw_trace_count(r->t) == 0)
        return gw_error_set(r->err, GW_ENODATA, r->path, r->text_bytes,
                            _("record at least one step inside `with torch.profiler.profile()`"),
                            _("the trace holds no events"));
    return GW_OK;
}

static int finish(struct reader *r)
{
    struct gw_facts *facts = &r->t->facts;
    if (!r->stop) {
        losses_of_stream(r);
        losses_of_root(r);
    }
    if (r->merge.gpu_ops && !r->merge.gpu_fraction) {
        kineto_merge_lose(&r->merge, GW_LOSS_US_RESOLUTION, 1, -1);
        if (facts->clock_error_ns < 1000)
            facts->clock_error_ns = 1000;
    }
    if (r->rc == GW_OK)
        r->rc = kineto_merge_finish(&r->merge);
    if (r->rc == GW_OK)
        r->rc = kineto_facts_finish(&r->facts);
    if (r->rc < 0)
        return gw_error_set(r->err, r->rc, r->path, r->text_bytes,
                            _("record fewer steps, or read it on a larger machine"), _("out of memory"));
    struct gw_source *src = gw_trace_source(r->t, r->path, "kineto");
    if (src) {
        src->bytes = gw_stream_file_bytes(r->s);
        src->text_bytes = r->text_bytes;
        src->events = (int64_t)r->merge.seen;
    }
    if (r->merge.torch || r->facts.torch) {
        facts->framework = "PyTorch";
        facts->profiler = "torch.profiler";
    }
    return judge(r);
}

int kineto_read(struct gw_trace *t, struct gw_stream *s, const char *path, const struct gw_import_options *o,
                struct gw_error *err)
{
    struct reader r = {.t = t, .s = s, .path = path, .o = o, .err = err, .rc = GW_ENOMEM};
    int threads = kineto_threads(o);
    kineto_root_init(&r.root, kineto_facts_value, &r.facts);
    kineto_facts_init(&r.facts, t);
    gw_array_init(&r.carry, 1, 0);
    for (int i = 0; i < BATCHES_MAX; i++) {
        kineto_batch_init(&r.batches[i]);
        r.idle[r.idle_count++] = &r.batches[i];
    }
    r.pool = kineto_pool_create(threads - 1);
    if (kineto_merge_init(&r.merge, t) == GW_OK && r.pool) {
        r.rc = GW_OK;
        read_all(&r);
        progress(&r, 1);
    }
    int rc = finish(&r);
    kineto_pool_destroy(r.pool);
    for (int i = 0; i < BATCHES_MAX; i++)
        kineto_batch_free(&r.batches[i]);
    gw_array_free(&r.carry);
    kineto_merge_free(&r.merge);
    kineto_facts_free(&r.facts);
    kineto_root_free(&r.root);
    return rc;
}

static int kineto_sniff(const char *path, const unsigned char *head, size_t len)
{
    (void)path;
    const char *s = (const char *)head, *end = s + len;
    if (len >= 3 && !memcmp(s, "\xef\xbb\xbf", 3))
        s += 3;
    s = gw_json_ws(s, end);
    if (s == end)
        return len ? 1 : 0;
    if (*s != '{' && *s != '[')
        return 0;
    static const char *const words[] = {"\"traceEvents\"", "\"ph\"", "\"schemaVersion\""};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (memmem(s, (size_t)(end - s), words[i], strlen(words[i])))
            return 90;
    return 10; /* JSON: the reader says what is wrong with it */
}

const struct gw_importer gw_importer_kineto = {
    .name = "kineto",
    .title = N_("torch.profiler (Kineto) trace: .json, .json.gz, .json.zst"),
    .sniff = kineto_sniff,
    .read_stream = kineto_read,
};
