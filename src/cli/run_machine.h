/*
 * run_machine.h - collects the facts of `gpuwhy check` about the machine while the job starts, in a process of its own.
 *
 * It looks once, at the lowest CPU and disk priority, and is ended when it takes longer than GW_MACHINE_MS (a hung network file
 * system, a driver that does not answer): the record then goes without. It never touches the job, and dies with us. What it
 * writes is GW_REC_MACHINE in the record's folder (collect/capture/record_env.h).
 *
 *     struct gw_machine m;
 *     gw_machine_start(&m, dirfd, job_pid, argv);     before NVML is opened here: a fork does not copy what that holds
 *     why = gw_machine_poll(&m);                      now and then
 *     why = gw_machine_finish(&m, 1000);              at the end
 */
#ifndef GW_RUN_MACHINE_H
#define GW_RUN_MACHINE_H

#include <stdint.h>
#include <sys/types.h>

enum { GW_MACHINE_MS = 10000 }; /* 0.7 s is usual; a driver that is loaded for it takes some seconds */

struct gw_machine {
    pid_t pid; /* of the collector; 0 = none, or done */
    uint64_t deadline_ns; /* CLOCK_MONOTONIC */
};

/* `dirfd`: the record's folder; `job` and `argv`: the job, whose limits, variables and Python are looked at. */
void gw_machine_start(struct gw_machine *m, int dirfd, pid_t job, char *const argv[]);
/* Notices its end, and ends it when it is late. NULL, or once why there are no facts. */
const char *gw_machine_poll(struct gw_machine *m);
/* Waits up to `ms` for its end. The same answer. */
const char *gw_machine_finish(struct gw_machine *m, int ms);

#endif
