/*
 * sweep_state.h - the file of `--resume`: which runs were made, one line each, appended as they end, so that whatever
 * ends the program costs one run at most. Text; a last line that is not whole is taken away.
 *
 *     gw_sweep_state_try(path, &err)                              0: it can be written
 *     gw_sweep_state_load(path, plan, &sweep, &began_ns, &err)    0: also when there is no such file yet
 *     gw_sweep_state_add(path, plan, &sweep, began_ns, &run)
 */
#ifndef GW_SWEEP_STATE_H
#define GW_SWEEP_STATE_H

#include "base/gw_error.h"
#include "sweep/sweep.h"

/* `plan`: one line that must be the same: command, names of the knobs, metric. `source`: how steps were found, -1
 * unknown. Runs at settings that are not in the lists any more are left out. 0 or a negative code with `err` filled. */
int gw_sweep_state_load(const char *path, const char *plan, struct gw_sweep *s, int64_t *began_realtime_ns, int *source,
                        struct gw_error *err);
/* Can it be written? Makes it, empty, when it is not there. 0 or a negative code with `err` filled. */
int gw_sweep_state_try(const char *path, struct gw_error *err);
/* Appends a run; makes the file with its head when it is not there. 0 or a negative code with `err` filled. */
int gw_sweep_state_add(const char *path, const char *plan, const struct gw_sweep *s, int64_t began_realtime_ns,
                       int source, const struct gw_sweep_run *run, struct gw_error *err);

#endif
