/*
 * ranks.h - several ranks of one job compared by their collectives: who waits for whom, and what the late one did
 * before.
 *
 * A collective ends on all its ranks together, so for the same collective the rank with the shortest duration arrived
 * last: its duration is the transfer, and what the others took longer is waiting. Nothing needs the ranks' clocks to
 * agree. Collectives are matched by their kind and size, the number of the step that issued them, and their order in
 * it; without step numbers by their order alone, shifted so that their ends fit best. Whether the match is right can be
 * seen: the ends of matched collectives differ by one constant (the offset of the two clocks). Ranks for which that
 * does not hold are of another process group, and are not compared.
 *
 * Pure: summaries in, comparison out. Times in ns; sums are over the steady window.
 *
 *     struct gw_ranks *x = gw_ranks_compare(list, n, arena);
 *     if (x && x->fit == GW_RANKS_FIT && x->late_count) name(x->late[0]);
 */
#ifndef GW_RANKS_H
#define GW_RANKS_H

#include "engine/rank_summary.h"

enum gw_ranks_fit {
    GW_RANKS_FIT,
    GW_RANKS_ONE,       /* fewer than two */
    GW_RANKS_WORLD,     /* `a` and `b` give different sizes of the job */
    GW_RANKS_DUPLICATE, /* `a` and `b` are the same rank */
    GW_RANKS_UNKNOWN,   /* neither the file nor its name says which rank `a` is, and it runs no collectives */
    GW_RANKS_OTHER,     /* `a` and `b` run different kernels */
    GW_RANKS_NO_COMM,   /* no collectives at all on `a` */
    GW_RANKS_NO_MATCH   /* collectives, but none that can be matched */
};

struct gw_ranks_row {
    int64_t wait; /* for later ranks, in matched collectives */
    int64_t
        wait_exposed; /* what no compute hides because of that: waiting, and transfers that the last rank could hide */
    int64_t transfer; /* once all were there */
    int64_t transfer_exposed; /* what else is exposed */
    int64_t cold;             /* waiting at collectives before which nothing was recorded: says nothing about the job */
    int64_t late;             /* how much later than the median rank it came, where that cost the others time */
    int64_t last;             /* matched collectives at which it came last */
    int64_t seen;             /* matched collectives that it took part in */
};

struct gw_ranks_class {
    unsigned kind;          /* enum gw_coll */
    int64_t bytes;          /* -1 unknown or varying */
    int64_t ranks;          /* of the process group, as far as they were compared */
    int64_t count;          /* matched collectives, each counted once for each group */
    int64_t transfer, wait; /* sums; the wait is the mean over the ranks */
    double bus_bandwidth;   /* bytes/s, from the median transfer; NAN unknown */
    int64_t transfer_median;
};

struct gw_ranks_reason { /* what the late rank does more of before its collectives */
    unsigned did;        /* GW_DID_* or a cause */
    int64_t own, others; /* over the matched collectives that were looked at; others: median of the other ranks */
    const char *top;     /* kernel, operator or line of the late rank; "" none */
};
#define GW_RANKS_REASONS 3

struct gw_ranks {
    size_t n;
    enum gw_ranks_fit fit;
    size_t a, b;                      /* what does not fit */
    const struct gw_ranks_row *row;   /* n */
    const struct gw_ranks_class *cls; /* most time first */
    size_t ncls;
    int64_t matched, unmatched; /* collectives of rank 0 .. n-1, summed; unmatched: or nothing recorded before them */
    int64_t spread;             /* typical difference of the ends of matched collectives, clock offset taken out */
    int64_t wall;               /* steady window less `cold`, median of the ranks */
    int64_t steps;              /* in it, median of the ranks; 0 none */
    int numbered;               /* 1 = matched by the profiler's step numbers */
    /* lateness */
    const size_t *late; /* ranks that come late, latest first */
    size_t late_count;
    double late_share;              /* of all lateness, that of these ranks */
    int systematic;                 /* 1 = it is always these */
    int64_t late_steps, seen_steps; /* steps in which one of them is last where it counts; steps compared (sums are
                                     * extrapolated from these to the window); 0 unknown */
    double worst_step;              /* share of their lateness that falls into one step */
    int64_t saved;                  /* wall saved if they came with the latest of the others */
    int64_t balanced;               /* wall saved if all ranks always came together, at their mean */
    int64_t unlate;                 /* wall saved if the last one always came with the median of the others */
    int64_t before;                 /* matched collectives that the reasons rest on */
    struct gw_ranks_reason reason[GW_RANKS_REASONS];
    size_t reasons;
    int64_t own_kernels;   /* compute kernels before those collectives, of late[0] */
    int64_t other_kernels; /* and the others' median */
};

/* NULL when out of memory. Borrows the summaries. `n` >= 1. */
struct gw_ranks *gw_ranks_compare(const struct gw_rank_summary *const *list, size_t n, struct gw_arena *arena);

#endif
