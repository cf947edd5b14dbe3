/*
 * kineto_root.h - everything of a trace file around its list of events.
 *
 * The root is small beside the events but may hold anything, in any order, so a byte-by-byte machine walks it: it takes
 * text in pieces of any size, hands out the values (up to a size), and stops where the list of events begins.
 *
 * One thread.
 *
 *     struct kineto_root r;
 *     kineto_root_init(&r, facts, user);
 *     n = kineto_root_feed(&r, text, len, offset); (r.at == KINETO_AT_EVENTS: the list begins at text + n)
 *     kineto_root_events_end(&r);              (the list has ended: feed what follows)
 */
#ifndef KINETO_ROOT_H
#define KINETO_ROOT_H

#include <stddef.h>
#include <stdint.h>

#include "base/gw_arena.h"

enum kineto_at {
    KINETO_AT_START,  /* nothing but white space so far */
    KINETO_AT_OBJECT, /* inside the root object */
    KINETO_AT_EVENTS, /* the list of events comes next */
    KINETO_AT_END,    /* the root has ended */
    KINETO_AT_LOST,   /* damage: only a list of events is looked for */
    KINETO_AT_NO_JSON /* the text begins with neither { nor [ */
};

struct kineto_root {
    enum kineto_at at;
    int bare;           /* the root is the list itself */
    int lists;          /* how many lists of events began */
    int events_no_list; /* "traceEvents" holds something else */
    int nodes;          /* a key "nodes": an execution trace */
    int second;         /* another document follows the root: 1 JSON, 2 something else */
    uint64_t damaged;
    int64_t damaged_at;

    /* private */
    void (*value)(void *user, const char *key, const char *text, size_t n);
    void *user;
    int state, escaped, in_string, word;
    uint64_t depth;
    char key[64];
    size_t key_len, matched;
    struct gw_array text; /* char: the value being kept */
    int keep;
};

/* `value` is called with the key and the text of each complete value of up to 1 MiB. */
void kineto_root_init(struct kineto_root *r, void (*value)(void *, const char *, const char *, size_t), void *user);
void kineto_root_free(struct kineto_root *r);
/* Returns the bytes taken: all, unless the list of events begins behind them (its bracket is taken). */
size_t kineto_root_feed(struct kineto_root *r, const char *text, size_t len, int64_t text_off);
void kineto_root_events_end(struct kineto_root *r);

#endif
