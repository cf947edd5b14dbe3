#include "import/kineto_batch.h"

#include <string.h>

void kineto_batch_init(struct kineto_batch *b)
{
    memset(b, 0, sizeof *b);
    gw_array_init(&b->cuts, sizeof(struct kineto_cut), 0);
    gw_array_init(&b->events, sizeof(struct gw_event), 0);
    gw_array_init(&b->names, sizeof(struct kineto_name), 0);
    gw_array_init(&b->lanes, sizeof(struct kineto_lane), 0);
    gw_array_init(&b->scratch, 1, 0);
}

void kineto_batch_free(struct kineto_batch *b)
{
    gw_array_free(&b->cuts);
    gw_array_free(&b->events);
    gw_array_free(&b->names);
    gw_array_free(&b->lanes);
    gw_array_free(&b->scratch);
}

void kineto_batch_clear(struct kineto_batch *b)
{
    b->block = NULL;
    b->cuts.len = b->events.len = b->names.len = b->lanes.len = b->scratch.len = 0;
    b->seen = 0;
    b->torch = b->gpu_ops = b->gpu_fraction = b->no_memory = b->fresh = b->done = 0;
    b->next = NULL;
    memset(b->loss, 0, sizeof b->loss);
}
