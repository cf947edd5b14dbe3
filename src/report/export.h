/*
 * export.h - what the analysis knows, for other programs: the timeline for Perfetto or chrome://tracing, idle time
 * piece by piece and findings for spreadsheets. docs/export.md is the contract. Written as it goes; nothing is kept in
 * memory.
 *
 * All times count from the same zero, gw_export_zero(): the first event of the recording.
 *
 *     gw_export_timeline(an, out, &options);      0, or GW_EIO when the stream failed
 */
#ifndef GW_EXPORT_H
#define GW_EXPORT_H

#include <stdio.h>

#include "engine/analysis.h"

struct gw_export_options {
    int host; /* 1 = every recorded range and call of the host, with arrows from calls to what they launched */
};

int64_t gw_export_zero(const struct gw_analysis *an);
const char *gw_export_name(const struct gw_analysis *an, uint32_t event); /* of an event; NULL for GW_NONE */
/* The outermost range around an event that says more than a step's number; NULL none. */
const char *gw_export_range(const struct gw_analysis *an, uint32_t event);

int gw_export_timeline(const struct gw_analysis *an, FILE *out, const struct gw_export_options *o);
int gw_export_gaps(const struct gw_analysis *an, FILE *out);
int gw_export_findings(const struct gw_report *rep, FILE *out);

#endif
