/*
 * activity_report.h - what a GPU's activity over the whole run says: how much of it was idle, whether the window that the report
 * is about stands for the run, pauses outside of it, and a period when there is one.
 *
 *     gw_activity_report(an, arena, &rows, &n);
 */
#ifndef GW_ACTIVITY_REPORT_H
#define GW_ACTIVITY_REPORT_H

#include "engine/analysis.h"

/* Rows in `arena`, one a GPU that has an activity or a reason why not. 0 or GW_ENOMEM. */
int gw_activity_report(const struct gw_analysis *an, struct gw_arena *arena, const struct gw_report_activity **rows, size_t *n);

#endif
