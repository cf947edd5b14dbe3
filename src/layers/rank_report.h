/*
 * rank_report.h - one report over the ranks of a job: what only a comparison shows (who is late, how fast the links
 * are), and the findings of the single ranks for what they are worth to the whole job.
 *
 * A rank that does not wait decides the pace. So a fix on a rank that waits for others anyway is worth nothing to the
 * job, and a gain is counted only as far as it makes the slowest rank faster.
 *
 *     struct gw_report *all = gw_diagnose_ranks(x, summaries, reports, n, arena);
 */
#ifndef GW_RANK_REPORT_H
#define GW_RANK_REPORT_H

#include "engine/ranks.h"
#include "layers/layers.h"

/* `x` says that they fit. reports[i] is the report on rank i; one may be NULL when the ranks are devices of one
 * recording, whose report covers them all; the strings of all must outlive the result. NULL when out of memory. */
struct gw_report *gw_diagnose_ranks(const struct gw_ranks *x, const struct gw_rank_summary *const *list,
                                    const struct gw_report *const *reports, size_t n, struct gw_arena *arena);

/* The same for several devices of one recording: `rep` as it is when they do not work together. NULL: out of memory. */
struct gw_report *gw_diagnose_devices(const struct gw_analysis *an, struct gw_report *rep, struct gw_arena *arena);

/* Why ranks do not fit, as a clause: "rank3.json and rank4.json are both rank 3". In `arena`. */
const char *gw_ranks_misfit(const struct gw_ranks *x, const struct gw_rank_summary *const *list,
                            struct gw_arena *arena);

#endif
