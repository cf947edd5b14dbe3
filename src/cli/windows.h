/*
 * windows.h - a record that looked at the GPU in several windows: which one the report is about, and how the others differ.
 *
 * What lies between two windows was not recorded, so it is never counted, neither as idle nor as busy. Each window is therefore
 * analysed by itself. Those that run the same kernels as most (another phase of the job, such as evaluation, does not) say how
 * much the job varies; the one whose share of idle time is the median is the one that is reported (of two such, the later).
 *
 *     struct gw_windows w;
 *     gw_windows_look(&w, path, &options);            w.at goes into gw_import_options.window_at
 *     gw_windows_report(&w, rep, arena);               numbers and notes into the report
 */
#ifndef GW_CLI_WINDOWS_H
#define GW_CLI_WINDOWS_H

#include "cli/cli.h"

enum { GW_WINDOWS_MAX = 6 }; /* that are analysed; of more, some from all over the recording */

struct gw_windows {
    int64_t at; /* CLOCK_REALTIME ns inside the window to report; 0 = there is no choice */
    size_t n;
    struct gw_report_window list[GW_WINDOWS_MAX];
};

/* Reads the windows of the record at `path`, for a few seconds at most; n = 0 for anything else and for less than two. */
void gw_windows_look(struct gw_windows *w, const char *path, const struct gw_cli_options *o);
/* 0 or GW_ENOMEM. */
int gw_windows_report(const struct gw_windows *w, struct gw_report *r, struct gw_arena *arena);

#endif
