/*
 * kineto_args.h - values of trace events: times, ids, and the "args" object; private to the kineto_*.c files.
 *
 * All of it works on text in one piece (gw_json_scan.h) and keeps pointers into it. No allocation, any thread.
 */
#ifndef KINETO_ARGS_H
#define KINETO_ARGS_H

#include "import/gw_decimal.h"
#include "import/gw_json_scan.h"

struct kineto_text {
    const char *s;
    size_t n;
};

/* The scalar at the cursor: the inside of a string, or the bare word (null and other values give n = 0). 0, or -1 no
 * JSON. */
int kineto_scalar(struct gw_json_cur *c, struct kineto_text *t);
/* A time in microseconds, as a number or a string with one, in ns. 0, or -1 no JSON; *rc says what the text was. */
int kineto_time(struct gw_json_cur *c, int64_t *ns, enum gw_dec *rc);
/* An id: a number or text (kineto_text_id). *has is 0 for null, lists and the like. 0, or -1 no JSON. */
int kineto_id(struct gw_json_cur *c, int64_t *id, int *has);

enum {
    KINETO_ARG_DEVICE = 1u << 0,
    KINETO_ARG_STREAM = 1u << 1,
    KINETO_ARG_CORR = 1u << 2,
    KINETO_ARG_BYTES = 1u << 3,
    KINETO_ARG_GRID = 1u << 4,
    KINETO_ARG_BLOCK = 1u << 5,
    KINETO_ARG_NODE = 1u << 6,
    KINETO_ARG_WAIT = 1u << 7,
    KINETO_ARG_NELEMS = 1u << 8
};

/* Numbers are set where `has` says so; a text is not there when its n is 0. */
struct kineto_args {
    unsigned has;
    int64_t device, stream, wait_stream, corr, node;
    uint64_t bytes;
    uint64_t grid, block; /* products */
    uint64_t nelems;      /* the larger of the two sides of a collective */
    struct kineto_text dtype, copy_kind, dims, types, name;
};

/* What to look for, so that the rest is passed over quickly. */
enum kineto_args_for { KINETO_ARGS_GPU, KINETO_ARGS_API, KINETO_ARGS_OP, KINETO_ARGS_META, KINETO_ARGS_NONE };

/* Nothing is there. Cheaper than zeroing all of it for each event. */
static inline void kineto_args_clear(struct kineto_args *a)
{
    a->has = 0;
    a->dtype.n = a->copy_kind.n = a->dims.n = a->types.n = a->name.n = 0;
}

/* The cursor stands at the value of "args"; anything but an object counts as no args. 0, or -1 no JSON. */
int kineto_args_read(struct gw_json_cur *c, enum kineto_args_for what, struct kineto_args *a);

#endif
