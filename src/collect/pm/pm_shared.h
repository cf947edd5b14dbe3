/*
 * pm_shared.h - what the recorder and its sampling process share in memory. Plain words, each written by one side: the
 * recorder writes `wanted`, `hints` and `stop`, the sampling process the rest. Nobody waits on it.
 */
#ifndef GW_PM_SHARED_H
#define GW_PM_SHARED_H

#include <stdatomic.h>

#include "collect/pm/pm_load.h"

enum { GW_PM_GPUS = 32 };

struct gw_pm_shared {
    _Atomic uint32_t stop;
    _Atomic uint32_t wanted; /* gpu[0..wanted) are asked for; an entry and the hints are written before it is counted */
    struct gw_pm_hints hints;
    _Atomic uint64_t heartbeat_ns; /* CLOCK_MONOTONIC */
    _Atomic uint32_t state;  /* enum gw_pm_state of the process: STARTING, RUNNING (its loop), ENDED, or why not */
    _Atomic uint64_t cpu_ns, rss_bytes;
    struct {
        int32_t device;
        uint8_t uuid[16];
        _Atomic uint32_t state;      /* enum gw_pm_state */
        _Atomic uint32_t engine, sm; /* hundredths of a percent, mean of the last second */
        _Atomic uint64_t at_ns;      /* CLOCK_MONOTONIC of that, 0 never */
    } gpu[GW_PM_GPUS];
};

/* The sampling process: sleeps until a GPU is wanted, then samples until it is to end. Status for _exit(). */
int gw_pm_serve(struct gw_pm_shared *s, int folder);

#endif
