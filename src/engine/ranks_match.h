/*
 * ranks_match.h - which collectives of several ranks are the same one; private to ranks*.c. See ranks.h for how.
 *
 * A match is a row of `n` numbers: the collective's index on each rank, GW_NONE where the rank does not take part.
 */
#ifndef GW_RANKS_MATCH_H
#define GW_RANKS_MATCH_H

#include "engine/ranks.h"

struct gw_matches {
    size_t n;                /* ranks */
    struct gw_array rows;    /* n x uint32_t each */
    struct gw_array cls;     /* uint32_t: class of each row */
    struct gw_array classes; /* struct gw_ranks_class: kind, bytes, ranks */
    int64_t spread;          /* largest typical difference of ends that was accepted */
    int numbered;
};

/* 0 or GW_ENOMEM. Free with gw_matches_free() in either case. */
int gw_matches_find(struct gw_matches *m, const struct gw_rank_summary *const *list, size_t n);
void gw_matches_free(struct gw_matches *m);

#endif
