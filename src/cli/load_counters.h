/*
 * load_counters.h - hardware counters by kernel that are given beside the recordings of the job: `gpuwhy read
 * trace.json ncu.csv`. They are read into a trace of their own and copied to each recording, whose kernel times weight
 * them.
 */
#ifndef GW_LOAD_COUNTERS_H
#define GW_LOAD_COUNTERS_H

#include "cli/cli.h"

/* 1 when the file holds counters by kernel and no timeline. Files that cannot be opened, and pipes, are not. */
int gw_load_is_counters(const char *path);
/* Adds a file to `*t`, which is made when it is NULL. An exit status; says what went wrong. */
int gw_load_counters(struct gw_trace **t, const char *path, const struct gw_cli_options *o, int *interrupted);
/* Copies the counters to a recording that was read; `sources`: names the files there too. 0 or GW_ENOMEM. */
int gw_load_join_counters(struct gw_trace *to, const struct gw_trace *from, int sources);
/* 0 when counters were given to all of these reports and match no kernel of any. */
int gw_load_counters_used(const struct gw_report *const *reports, size_t n);

#endif
