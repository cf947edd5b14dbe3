/*
 * rank_findings.h - the findings that need several ranks; private to rank_report.c and rank_findings.c.
 */
#ifndef GW_RANK_FINDINGS_H
#define GW_RANK_FINDINGS_H

#include "layers/finding.h"
#include "layers/rank_report.h"

struct gw_rank_diag {
    struct gw_diag d; /* without analysis and device: wall, steps and drafts only */
    const struct gw_ranks *x;
    const struct gw_rank_summary *const *list;
    size_t n;
    const char *head[GW_F_COUNT]; /* first sentence of the verdict, should that finding be it; NULL: the usual one */
};

const char *gw_rank_who(struct gw_rank_diag *g, size_t r); /* "rank 3", "GPU 3" */

/* Each adds its finding or not; GW_NO_DATA where the recordings do not tell. */
int gw_find_straggler(struct gw_rank_diag *g);
int gw_find_exposed_over_ranks(struct gw_rank_diag *g);
int gw_find_slow_link(struct gw_rank_diag *g);

#endif
