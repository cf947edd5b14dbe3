/*
 * report_copy.h - a report in an arena of its own, so that the recording it came from can be freed.
 *
 *     struct gw_report *keep = gw_report_copy(rep, arena);
 *     gw_trace_destroy(t);
 */
#ifndef GW_REPORT_COPY_H
#define GW_REPORT_COPY_H

#include "engine/report_model.h"

/* Copies everything, strings included. NULL when out of memory. */
struct gw_report *gw_report_copy(const struct gw_report *r, struct gw_arena *arena);

#endif
