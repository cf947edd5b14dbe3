/*
 * run_pm.h - the GPUs' activity over the whole run, as a part of one recording: which GPUs the job uses, where the libraries are,
 * and what to say when it cannot be had. The sampling itself is in a process of its own (collect/pm/pm.h).
 *
 *     gw_run_pm_begin(&s->pm, dirfd);           before NVML is opened here
 *     gw_run_pm_tick(&s->pm, &view);            once a second
 *     gw_run_pm_end(&s->pm, &view);
 */
#ifndef GW_RUN_PM_H
#define GW_RUN_PM_H

#include "cli/run_status.h"
#include "collect/pm/pm.h"
#include "collect/proc/proc_nvml.h"
#include "collect/proc/proc_tree.h"

struct gw_run_pm {
    struct gw_pm *pm;    /* NULL: switched off, or out of memory */
    unsigned looks;      /* seconds since CUDA was seen in the job */
    unsigned said;       /* enum gw_pm_state that the user was told of */
    int gives_up;        /* 1: the job's GPUs cannot be told */
};

/* What it looks at, borrowed for one call. */
struct gw_run_pm_view {
    int dir, proc;       /* the record's folder, /proc */
    struct gw_sink *sink;
    const struct gw_tree *tree; /* may be NULL */
    struct gw_nvml_live *nvml;  /* may be NULL */
    struct gw_status *status;   /* the live line, taken away before anything is said */
    int quiet;
};

void gw_run_pm_begin(struct gw_run_pm *p, int dir);
void gw_run_pm_tick(struct gw_run_pm *p, const struct gw_run_pm_view *v);
/* Ends it and writes what it cost. Idempotent. */
void gw_run_pm_end(struct gw_run_pm *p, const struct gw_run_pm_view *v);

#endif
