/*
 * sweep_main.h - from the options of `gpuwhy sweep` to its result. cmd_sweep.c fills the options, sweep_main.c runs.
 */
#ifndef GW_SWEEP_MAIN_H
#define GW_SWEEP_MAIN_H

#include "cli/cli.h"
#include "cli/sweep_point.h"
#include "report/sweep_report.h"

enum { GW_SWEEP_ENVS = 32 };

struct gw_sweep_options {
    struct gw_cli_options cli;
    struct gw_sweep sweep; /* knobs and what the user may choose about the search */
    struct gw_sweep_job job;
    const char *envs[GW_SWEEP_ENVS];
    const char *metric; /* as given; "auto" */
    const char *resume; /* file, NULL none */
    int64_t budget_ns;  /* 0 = none */
    int is_parts;       /* --loader-only */
    int no_diagnosis;
    enum gw_sweep_unit unit; /* steps may still become batches or samples */
    char plan[3000];         /* what a file of --resume must agree with */
    char command[1000];
};

/* Runs the sweep and prints the result. An exit status. */
int gw_sweep_main(struct gw_sweep_options *o);

#endif
