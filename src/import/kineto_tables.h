/*
 * kineto_tables.h - what one parser has seen: names and rows by local number (kineto_batch.h), and the categories.
 *
 * Each parser has its own; no locks, no sharing. Tables that grow too large are emptied between batches, so that a
 * trace of ever new names cannot make the parsers hold what the trace's own tables hold already.
 */
#ifndef KINETO_TABLES_H
#define KINETO_TABLES_H

#include "import/kineto_args.h"
#include "import/kineto_batch.h"

/* Longer names are cut: 64 KiB is beyond any mangled kernel name, and bounds what one event can cost. */
enum { KINETO_NAME_MAX = 64 << 10 };

struct kineto_cat_slot {
    const char *name;
    size_t n;
    unsigned kind;
};

struct kineto_lane_slot {
    struct kineto_lane lane;
    uint32_t number; /* 0 = free */
};

struct kineto_tables {
    struct gw_intern *names; /* raw text -> local number */
    size_t name_bytes;
    struct kineto_lane_slot *lanes;
    size_t lane_mask;
    uint32_t lane_count;
    struct kineto_lane_slot last[2]; /* of GPU lanes, of others: events come in runs */
    struct kineto_cat_slot cats[256];
};

int kineto_tables_init(struct kineto_tables *k); /* 0 or GW_ENOMEM */
void kineto_tables_free(struct kineto_tables *k);
int kineto_tables_full(const struct kineto_tables *k);
int kineto_tables_empty(struct kineto_tables *k); /* 0 or GW_ENOMEM */

/* Local numbers, from 1; what is new goes into the batch. 0 for no text, and without memory (then b->no_memory is set).
 */
uint32_t kineto_name_number(struct kineto_tables *k, struct kineto_batch *b, struct kineto_text t, int decode);
/* The number of the name "name: key", which is nowhere in the file as such. */
uint32_t kineto_series_number(struct kineto_tables *k, struct kineto_batch *b, struct kineto_text name,
                              struct kineto_text key);
uint32_t kineto_lane_number(struct kineto_tables *k, struct kineto_batch *b, int type, int64_t x, int64_t y);
/* A kind of the model, or KINETO_DROP, KINETO_RANGE, KINETO_UNKNOWN. */
unsigned kineto_cat_kind(const struct kineto_tables *k, const char *s, size_t n);

#endif
