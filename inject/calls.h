/*
 * calls.h - counts the job's own calls of the CUDA runtime, all the time, without CUPTI.
 *
 * Why: CUPTI costs a job that is bound by its launches some 30 % from its first use on, also after all kinds were switched
 * off, and it cannot be taken out again (docs/overhead.md). So before CUPTI is touched somebody must know how often
 * kernels are launched and whether the host has time to spare. And the recorder wants to know which call a thread is
 * in when it reads the thread's Python stack.
 *
 * How: the table of addresses through which a library calls others (its GOT) has one entry for each runtime function. For
 * libraries that call libcudart or libcuda through such entries, the entry is pointed at a small wrapper here, and only when
 * it holds the address of the real function already. A wrapper notes the time, calls the real function with the same
 * arguments and adds up: two readings of the CPU's clock, no lock, no system call, no allocation but the thread's first.
 * Entries are never set back: the wrapper stays valid as long as the process lives (this library is never unloaded).
 *
 * What it cannot see: launches of libraries that carry the runtime inside themselves (cuBLAS, cuDNN, NCCL, TensorFlow, JAX).
 */
#ifndef GW_CALLS_H
#define GW_CALLS_H

#include <stdatomic.h>
#include <stdint.h>

#include "record/record.h"

/* A wait of the host longer than this is time that it could spend otherwise: 20 us is some three times what a call on an empty
 * queue takes (measured: 4 to 6.5 us a launch). */
#define GW_CALLS_SLACK_NS 20000u

/* Since the last look, of all threads that launched something: they take turns (the loop, and autograd's thread for backward). */
struct gw_calls_look {
    uint64_t ns;        /* length of the look; 0 = the clock is not known yet */
    uint64_t calls;     /* of all sorts and threads */
    uint64_t launches;  /* kernels and graphs */
    uint64_t launch_ns; /* what they would take if none had to wait: the mean of those that took less than GW_CALLS_SLACK_NS, for all */
    uint64_t slack_ns;  /* the host could have done something else: beyond GW_CALLS_SLACK_NS in a launch or a wait, or none
                         * of these threads ran */
};

/* Finds libraries that were loaded since the last call and wraps their entries. Returns launch entries wrapped so far.
 * On our thread only. */
unsigned gw_calls_patch(void);
unsigned gw_calls_entries(void); /* launch entries wrapped so far */
/* What happened since the last call; also fills `out` with one record a thread that called something, at most `max`. */
unsigned gw_calls_look(struct gw_calls_look *look, struct gw_rec_calls *out, unsigned max);
void gw_calls_disable(void); /* forked child: the wrappers only pass on */
const void *gw_calls_table(unsigned *slots); /* for the recorder, which reads it from outside */

#endif
