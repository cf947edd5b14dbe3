/* The importer of JAX and TensorFlow traces: finds the list of events and hands them on one by one. See xla.h. */
#include "import/xla.h"

#include <stdlib.h>
#include <string.h>

#include "base/gw_i18n.h"
#include "import/gw_json_scan.h"
#include "import/gw_json_split.h"
#include "import/gw_stream.h"

/* The text that is being looked at: what is left of the last block, and the next one. */
struct window {
    char *s;
    size_t len, cap;
    int64_t off; /* of s[0] in the text */
};

static int feed(struct window *w, const char *data, size_t n)
{
    if (w->len + n + GW_STREAM_SLACK > w->cap) {
        size_t cap = (w->len + n) * 2 + GW_STREAM_SLACK;
        char *grown = realloc(w->s, cap);
        if (!grown)
            return GW_ENOMEM;
        w->s = grown;
        w->cap = cap;
    }
    memcpy(w->s + w->len, data, n);
    w->len += n;
    memset(w->s + w->len, 0, GW_STREAM_SLACK);
    return GW_OK;
}

static void drop(struct window *w, size_t n)
{
    memmove(w->s, w->s + n, w->len - n);
    w->len -= n;
    w->off += (int64_t)n;
}

/* Drops everything up to the bracket of "traceEvents": [. 1 when it was there; else the end is kept, for the next look.
 */
static int find_list(struct window *w)
{
    static const char word[] = "\"traceEvents\"";
    const char *end = w->s + w->len, *p = memmem(w->s, w->len, word, sizeof word - 1);
    if (p) {
        const char *q = gw_json_ws(p + sizeof word - 1, end);
        if (q < end && *q == ':')
            q = gw_json_ws(q + 1, end);
        if (q < end && *q == '[') {
            drop(w, (size_t)(q + 1 - w->s));
            return 1;
        }
    }
    size_t keep = p ? (size_t)(end - p) : sizeof word;
    if (w->len > keep)
        drop(w, w->len - keep);
    return 0;
}

struct reader {
    struct xla x;
    struct window w;
    struct gw_split split;
    int in_list, ended;
};

/* Hands on all whole events of the window. */
static int cut(struct reader *r, int eof)
{
    size_t start, n;
    if (!r->in_list) {
        r->in_list = find_list(&r->w);
        if (!r->in_list)
            return GW_OK;
        gw_split_init(&r->split, r->w.off);
    }
    enum gw_split_result got;
    while (!r->ended && (got = gw_split_next(&r->split, r->w.s, r->w.len, eof, &start, &n)) != GW_SPLIT_MORE) {
        if (got == GW_SPLIT_END) {
            r->ended = 1;
            break;
        }
        int rc = xla_event(&r->x, r->w.s + start, n, r->w.off + (int64_t)start);
        if (rc < 0)
            return rc;
    }
    size_t keep = r->ended ? r->w.len : r->split.keep;
    drop(&r->w, keep);
    if (!r->ended)
        gw_split_drop(&r->split, keep);
    return GW_OK;
}

static void count_losses(struct reader *r, const struct gw_stream_status *st, int stopped, int full)
{
    struct gw_trace *t = r->x.t;
    if (r->split.damaged)
        gw_trace_lose(t, GW_LOSS_DAMAGED, r->split.damaged, r->split.damaged_at);
    if (r->split.oversize)
        gw_trace_lose(t, GW_LOSS_BAD_EVENT, r->split.oversize, r->split.oversize_at);
    if (st && st->code < 0)
        gw_trace_lose(t, GW_LOSS_DECOMPRESS, 1, st->text_off);
    else if ((!r->ended || stopped) && !full)
        gw_trace_lose(t, GW_LOSS_TRUNCATED, 1, r->w.off);
    if (r->x.events >= XLA_VIEWER_MOST)
        gw_trace_lose(t, GW_LOSS_DROPPED_RECORDS, 1, -1);
    if (r->x.graphs)
        gw_trace_lose(t, GW_LOSS_GRAPH_BLOCKS, r->x.graphs, -1);
}

static int xla_read(struct gw_trace *t, struct gw_stream *s, const char *path, const struct gw_import_options *o,
                    struct gw_error *err)
{
    struct reader *r = calloc(1, sizeof *r);
    int64_t bytes = gw_stream_file_bytes(s), text = 0;
    int rc = r ? xla_init(&r->x, t) : GW_ENOMEM, stopped = 0;
    for (struct gw_stream_block *b; rc == GW_OK && !stopped && (b = gw_stream_next(s, 1)) != NULL;) {
        rc = feed(&r->w, b->data, b->len);
        text += (int64_t)b->len;
        stopped = o && o->progress && o->progress(o->user, b->file_pos, bytes);
        gw_stream_release(s, b);
        if (rc == GW_OK)
            rc = cut(r, 0);
    }
    if (rc == GW_OK && !stopped)
        rc = cut(r, 1);
    int full = r && rc == GW_ENOMEM && gw_trace_count(t) > 0; /* the cap: what was read stays, and the loss is counted */
    if (rc < 0 && !full) {
        gw_error_set(err, rc, path, -1, _("read it on a larger machine"), _("out of memory"));
    } else if (!r->x.events) {
        rc = gw_error_set(err, GW_ENODATA, path, -1, _("record again: jax.profiler.trace(DIR)"),
                          _("a trace of JAX or TensorFlow without events"));
    } else {
        rc = GW_OK;
        count_losses(r, gw_stream_ended(s) ? gw_stream_status(s) : NULL, stopped, full);
        t->facts.profiler = "XLA profiler";
        if (r->x.jax)
            t->facts.framework = "JAX";
        struct gw_source *src = gw_trace_source(t, path, "xla");
        if (src) {
            src->bytes = bytes;
            src->text_bytes = text;
            src->events = (int64_t)r->x.events;
        }
    }
    if (r) {
        xla_free(&r->x);
        free(r->w.s);
    }
    free(r);
    return rc;
}

static int has(const unsigned char *head, size_t len, const char *what)
{
    return memmem(head, len, what, strlen(what)) != NULL;
}

/* The rows' names come first, so they are in the first block. */
static int xla_sniff(const char *path, const unsigned char *head, size_t len)
{
    (void)path;
    if (!has(head, len, "\"traceEvents\"") || !has(head, len, "\"process_name\"") || has(head, len, "\"cat\""))
        return 0;
    return has(head, len, "\"/device:GPU:") || has(head, len, "\"/host:CPU\"") ? 97 : 0;
}

const struct gw_importer gw_importer_xla = {.name = "xla",
                                            .title = N_("JAX or TensorFlow profile: *.trace.json.gz"),
                                            .sniff = xla_sniff,
                                            .read_stream = xla_read};
