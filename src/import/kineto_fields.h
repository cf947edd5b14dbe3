/*
 * kineto_fields.h - the text of one event to its fields, before anything is made of them.
 *
 * Pure but for the categories it looks up. Pointers in the result point into the text.
 */
#ifndef KINETO_FIELDS_H
#define KINETO_FIELDS_H

#include "import/kineto_args.h"
#include "import/kineto_tables.h"

enum {
    KINETO_HAS_TS = 1,
    KINETO_HAS_DUR = 2,
    KINETO_HAS_PID = 4,
    KINETO_HAS_TID = 8,
    KINETO_HAS_NAME = 16,
    KINETO_HAS_CAT = 32,
    KINETO_HAS_PH = 64,
    KINETO_HAS_OTHER = 128
};

struct kineto_fields {
    const char *start; /* of the event's text */
    unsigned has;
    char ph;
    unsigned kind; /* of the category */
    struct kineto_text name;
    int64_t ts, dur, pid, tid;
    enum gw_dec ts_rc, dur_rc;
    const char *args; /* where the value of "args" starts; read once the kind is known */
    int args_done;
    struct kineto_args a;
};

/* Phases of the trace event format that are neither slices, counters nor metadata: flows, instants, async, objects. */
int kineto_ph_dropped(char ph);
/* Reads the fields of [text, end), an object with its braces. 0, or -1: no JSON (*at is where). Of events that nothing
 * is made of, and of args that nothing is taken from, the rest is not looked at. */
int kineto_fields_read(const struct kineto_tables *k, const char *text, const char *end, struct kineto_fields *f,
                       const char **at);

#endif
