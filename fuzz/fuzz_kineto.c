/*
 * fuzz_kineto - the trace reader on any bytes.
 *
 * Each input is read whole, and again in blocks so small that every construct crosses a border; all readings must agree
 * to the last bit, and what they made must keep the promises of the model. Built with clang it is a libFuzzer target;
 * the tests build it with replay.c and run the corpus through it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/gw_stream.h"
#include "import/importer.h"
#include "import/kineto.h"
#include "promise_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t mix(uint64_t h, uint64_t v)
{
    h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
    return h * 0xff51afd7ed558ccdu;
}

/* A number that differs when anything that was read differs. */
static uint64_t digest(const struct gw_trace *t, int rc)
{
    uint64_t h = mix(1, (uint64_t)rc);
    for (uint32_t i = 0; i < gw_trace_count(t); i++) {
        const struct gw_event *e = gw_trace_event(t, i);
        require_event(t, e);
        h = mix(h, gw_hash_bytes(e, sizeof *e));
    }
    for (uint32_t i = 1; i <= gw_intern_count(t->names); i++)
        h = mix(h, gw_hash_bytes(gw_trace_text(t, i), gw_intern_len(t->names, i)));
    for (size_t i = 0; i < t->lanes.len; i++) {
        const struct gw_lane *l = gw_trace_lane(t, (uint32_t)i);
        h = mix(mix(mix(h, (uint64_t)l->device), (uint64_t)l->stream), mix((uint64_t)l->pid, (uint64_t)l->tid));
        h = mix(h, l->name);
    }
    for (int i = 0; i < GW_LOSS_COUNT; i++)
        h = mix(mix(h, t->loss[i].count), (uint64_t)t->loss[i].first_byte);
    return mix(mix(h, (uint64_t)t->facts.rank), (uint64_t)t->facts.base_ns);
}

static uint64_t read_once(const uint8_t *data, size_t size, size_t block, int threads)
{
    struct gw_error err = {0};
    struct gw_stream_options so = {.block_bytes = block, .headroom = block < 32 ? 5 : 256, .threaded = threads > 1};
    struct gw_import_options o = {.threads = threads};
    struct gw_trace *t = gw_trace_create(0);
    struct gw_stream *s = t ? gw_stream_memory(data, size, &so, &err) : NULL;
    uint64_t h = 0;
    if (s) {
        int rc = kineto_read(t, s, "fuzz", &o, &err);
        require((rc < 0) == (err.code != 0), "an error has its line");
        h = digest(t, rc);
        require(gw_trace_finish(t) == 0, "any trace can be finished");
    }
    gw_stream_close(s);
    gw_trace_destroy(t);
    return h;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t whole = read_once(data, size, size + 1, 1);
    require(read_once(data, size, 1 + size % 13, 1) == whole, "tiny blocks read the same");
    require(read_once(data, size, 64, 1) == whole, "small blocks read the same");
    if (size % 16 == 7)
        require(read_once(data, size, 100, 2) == whole, "threads read the same");
    return 0;
}
