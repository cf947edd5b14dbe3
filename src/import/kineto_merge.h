/*
 * kineto_merge.h - parsed batches, in the order of the file, into one trace.
 *
 * Local numbers become the trace's, begin/end pairs become slices, metadata rows become names of lanes. Runs on the
 * thread that owns the trace, and on no other.
 *
 *     kineto_merge_init(&m, trace);
 *     for each batch in order: kineto_merge_add(&m, batch);
 *     kineto_merge_finish(&m);
 */
#ifndef KINETO_MERGE_H
#define KINETO_MERGE_H

#include "import/kineto_batch.h"
#include "import/kineto_pool.h"

struct kineto_merge {
    struct gw_trace *t;
    uint64_t seen;                            /* events in the text */
    int torch;                                /* a category of torch.profiler was seen */
    int gpu_ops, gpu_fraction;                /* see struct kineto_batch */
    int full;                                 /* the trace takes no more events */
    struct gw_loss_count loss[GW_LOSS_COUNT]; /* put into the trace by kineto_merge_finish() */

    /* private */
    uint32_t last_name; /* of those whose memory is counted */
    size_t name_bytes;
    struct gw_array names[KINETO_THREADS_MAX],
        lanes[KINETO_THREADS_MAX]; /* uint32_t: local number - 1 -> the trace's */
    struct gw_array text;          /* char: one decoded name */
    struct gw_intern *rows;        /* (pid, tid) -> row number, from 1 */
    struct gw_array tops;          /* uint32_t by row: the innermost open slice + 1 */
    struct gw_array open;          /* struct open_slice */
    uint32_t free_slices;          /* list of unused entries in `open`, + 1 */
    struct gw_array labels;        /* struct label: names for lanes */
};

int kineto_merge_init(struct kineto_merge *m, struct gw_trace *t);
void kineto_merge_free(struct kineto_merge *m);
/* 0 or GW_ENOMEM. At the trace's cap `full` is set, and the rest of the batch is left out. */
int kineto_merge_add(struct kineto_merge *m, const struct kineto_batch *b);
/* Counts `n` losses. They may come in any order: the smallest `byte` that is not negative is where the first one is. */
void kineto_merge_lose(struct kineto_merge *m, enum gw_loss loss, uint64_t n, int64_t byte);
/* Once, after the last batch: names of lanes, slices left open, kernels that ran in graphs. 0 or GW_ENOMEM. */
int kineto_merge_finish(struct kineto_merge *m);

#endif
