/*
 * import_text.h - for tests of the reader: text in, trace out, and short ways to look at it.
 */
#ifndef IMPORT_TEXT_H
#define IMPORT_TEXT_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "import/gw_stream.h"
#include "import/importer.h"
#include "import/kineto.h"

struct reading {
    struct gw_trace *t;
    struct gw_error err;
    int rc;
};

static inline struct reading read_bytes(const void *data, size_t len, size_t block, int threads)
{
    struct reading r = {.t = gw_trace_create(0)};
    struct gw_stream_options so = {
        .block_bytes = block, .headroom = block && block < 64 ? block : 0, .threaded = threads > 1};
    struct gw_import_options o = {.threads = threads};
    assert_non_null(r.t);
    struct gw_stream *s = gw_stream_memory(data, len, &so, &r.err);
    assert_non_null(s);
    r.rc = kineto_read(r.t, s, "test.json", &o, &r.err);
    gw_stream_close(s);
    return r;
}

static inline struct reading read_text(const char *text) { return read_bytes(text, strlen(text), 16384, 1); }

/* Wraps events into a whole trace. */
static inline struct reading read_events(const char *events)
{
    static char buf[1 << 16];
    snprintf(buf, sizeof buf, "{\"schemaVersion\": 1, \"traceEvents\": [%s]}", events);
    return read_text(buf);
}

static inline void reading_free(struct reading *r) { gw_trace_destroy(r->t); }

static inline const struct gw_event *ev(const struct reading *r, uint32_t i)
{
    assert_true(i < gw_trace_count(r->t));
    return gw_trace_event(r->t, i);
}

static inline const char *name_of(const struct reading *r, uint32_t i) { return gw_trace_text(r->t, ev(r, i)->name); }
static inline const struct gw_lane *lane_of(const struct reading *r, uint32_t i)
{
    return gw_trace_lane(r->t, ev(r, i)->lane);
}
static inline uint64_t lost(const struct reading *r, enum gw_loss l) { return r->t->loss[l].count; }

/* All losses of reading, so that a test can say "and nothing else". */
static inline uint64_t lost_any(const struct reading *r)
{
    uint64_t n = 0;
    for (int i = 0; i < GW_LOSS_COUNT; i++)
        n += i == GW_LOSS_US_RESOLUTION ? 0 : r->t->loss[i].count;
    return n;
}

#define KERNEL "\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"pid\": 0, \"tid\": 7"
#define OP "\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"op\", \"pid\": 10, \"tid\": 11, \"ts\": 1, \"dur\": 2"

#endif
