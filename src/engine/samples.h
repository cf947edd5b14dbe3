/*
 * samples.h - what sampled threads tell: stacks classified once, and code of the host that no API call explains given
 * its cause.
 *
 * A recording without operator ranges (gpuwhy run) shows host code between GPU calls as "code of its own". Samples of
 * the launching thread that fall into it say what it was: waiting for the loader, loading, saving, waiting for a lock.
 * A sample comes every 25 ms or so, a step may be shorter: stretches between the same two GPU operations are the same
 * code, so they vote together. Pure; needs gw_trace.host.
 */
#ifndef GW_SAMPLES_H
#define GW_SAMPLES_H

#include "engine/analysis.h"
#include "model/host_facts.h"

enum {
    GW_STACK_RESPAWN = 1u << 0,     /* makes or ends loader workers */
    GW_STACK_IDLE_WORKER = 1u << 1, /* a worker between two tasks */
    GW_STACK_WORKER = 1u << 2,      /* inside a loader worker's loop */
    /* In an operator of the framework, or in code that a module's forward() runs: what the host does there is issuing work or preparing
     * its operators, not data. */
    GW_STACK_OPERATOR = 1u << 3
};

struct gw_stack_info { /* by name id; zero where the name is no stack */
    uint32_t ctx;      /* GW_CTX_* of all its frames */
    uint32_t user;     /* innermost frame of the user's own code, name id; 0 none */
    uint32_t inner;    /* innermost frame */
    uint32_t flags;    /* GW_STACK_* */
};

/* Classifies the stacks of all samples: an->stacks. 0 or GW_ENOMEM. */
int gw_samples_stacks(struct gw_analysis *an);
/* Gives runs of unexplained host code of a device their cause. After gw_host_line(). 0 or GW_ENOMEM. */
int gw_samples_label(struct gw_analysis *an, struct gw_dev *dev);

/* What a sample of a launching thread says it does: an enum gw_cause, USER_CODE when nothing special. */
unsigned gw_samples_cause(const struct gw_analysis *an, const struct gw_event *sample);
/* Share of a sample's time in which its thread was ready but had to wait for a CPU; 0 when that is little or not known.
 */
double gw_samples_off_cpu(const struct gw_event *sample);
/* 1 when a sample says something about what its thread does. Of threads whose stacks are read now and then, only those
 * with one. */
int gw_samples_tells(const struct gw_analysis *an, const struct gw_event *sample);
/* Classification of the sample's stack; NULL when it has none. */
const struct gw_stack_info *gw_samples_stack(const struct gw_analysis *an, const struct gw_event *sample);
/* Calls `fn` for the samples of a lane that start in [from, to), in order. */
void gw_samples_each(const struct gw_analysis *an, uint32_t lane, int64_t from, int64_t to,
                     void (*fn)(void *user, uint32_t event), void *user);

#endif
