/*
 * machine.h - what is known about the machine of a recording, and what it adds to the report: the results of the same
 * checks as `gpuwhy check`, as findings among the others.
 *
 * The facts come from the record itself, or from the file of --machine (gpuwhy check --collect, or captures).
 *
 *     struct gw_env *env = gw_machine_read(t, &options, &status);     NULL: nothing is known (status tells a failure)
 *     gw_machine_ceilings(t, env);                                     before the diagnosis
 *     rep = gw_machine_report(rep, an, env, arena);                    after it
 *     gw_env_destroy(env);
 */
#ifndef GW_CLI_MACHINE_H
#define GW_CLI_MACHINE_H

#include "cli/cli.h"
#include "collect/env.h"
#include "engine/analysis.h"

/* Says on stderr what cannot be read. NULL when nothing is known about the machine. */
struct gw_env *gw_machine_read(const struct gw_trace *t, const struct gw_cli_options *o, int *status);
/* Tells the trace what the machine's link can do, measured if it was. */
void gw_machine_ceilings(struct gw_trace *t, const struct gw_env *env);
/* A copy of the report with the findings of the checks in it. What the diagnosis judged by the job itself stays as it is; what
 * it could not judge is judged by the checks, and leaves the list of what was not evaluated. NULL when out of memory. */
struct gw_report *gw_machine_report(struct gw_report *r, const struct gw_analysis *an, const struct gw_env *env,
                                    struct gw_arena *arena);

#endif
