/*
 * kineto_facts.h - what a trace says about the machine and the job, apart from its events.
 *
 * Values beside the list of events go in as raw JSON text; at the end they become the trace's facts and devices. Names
 * of users and jobs are never kept.
 *
 * One thread.
 */
#ifndef KINETO_FACTS_H
#define KINETO_FACTS_H

#include "model/trace.h"

struct kineto_facts {
    struct gw_trace *t;
    struct gw_array devices; /* struct gw_device, with name = interned text */
    int torch;               /* a key that torch.profiler writes was seen */
};

void kineto_facts_init(struct kineto_facts *f, struct gw_trace *t);
void kineto_facts_free(struct kineto_facts *f);
/* The value of `key` in the root object: for kineto_root_init(). `user` is the struct kineto_facts. */
void kineto_facts_value(void *user, const char *key, const char *text, size_t n);
/* Gives each device that did something its properties. 0 or GW_ENOMEM. */
int kineto_facts_finish(struct kineto_facts *f);

#endif
