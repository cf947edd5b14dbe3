/*
 * kineto_batch.h - a block of trace text with the events in it: cut by one thread, parsed by any, merged in order.
 *
 * Events come out of a batch with *local* numbers for names and lanes: each parser numbers what it sees from 1 on in
 * its own tables, and a batch lists the ones that are new in it. The merging thread turns local numbers into the
 * trace's. So parsers share nothing, and the trace is the same for any number of threads.
 *
 * A batch belongs to one thread at a time. Text pointers in it live as long as its block.
 */
#ifndef KINETO_BATCH_H
#define KINETO_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "import/gw_stream.h"
#include "model/trace.h"

/* Beyond the kinds of the model: what only the merging thread can finish. */
enum kineto_kind {
    KINETO_DROP = GW_KIND_COUNT,
    KINETO_RANGE,
    KINETO_UNKNOWN,
    KINETO_META /* sub = enum kineto_meta; start = pid, end = tid, name = the text */
};
enum kineto_meta { KINETO_META_NONE, KINETO_META_PROCESS, KINETO_META_THREAD };

/* In gw_event.flags on the way to the merge: one end of a B/E pair, whose row is the local lane in `up`. */
enum { KINETO_BEGIN = 1u << 14, KINETO_END = 1u << 15 };
/* A local lane type beside enum gw_lane_type: a (pid, tid) row of the file, for pairing. */
enum { KINETO_ROW = 9 };

struct kineto_cut {
    uint32_t start, len; /* from block->base */
};

struct kineto_name {
    const char *s; /* in the block; NULL: in the batch's scratch, from `at` on */
    size_t at;
    uint32_t n;
    uint32_t decode; /* 1: JSON string text, escapes to be decoded; 0: to be taken as it is */
};

struct kineto_lane {
    int type; /* enum gw_lane_type or KINETO_ROW */
    int64_t a, b;
};

struct kineto_batch {
    struct gw_stream_block *block;
    int64_t text_off;        /* offset in the text of block->base[0] */
    struct gw_array cuts;    /* struct kineto_cut */
    struct gw_array events;  /* struct gw_event, local numbers */
    struct gw_array names;   /* struct kineto_name: local numbers first_name, first_name + 1, ... */
    struct gw_array lanes;   /* struct kineto_lane: local numbers first_lane, ... */
    struct gw_array scratch; /* char: text of names that are not in the file as such */
    int parser;              /* who parsed it */
    int fresh;     /* the parser's tables were emptied before this batch: all earlier local numbers are void */
    uint64_t seen; /* events in the text, kept or not */
    struct gw_loss_count loss[GW_LOSS_COUNT];
    int torch;                 /* a category of torch.profiler was seen */
    int gpu_ops, gpu_fraction; /* GPU operations were seen; one of them is not in whole microseconds */
    int no_memory;

    /* The queue's, under its lock: */
    struct kineto_batch *next;
    int done;
};

void kineto_batch_init(struct kineto_batch *b);
void kineto_batch_free(struct kineto_batch *b);
void kineto_batch_clear(struct kineto_batch *b); /* keeps the memory */

#endif
