/*
 * rank_summary.h - what is kept of one rank's recording when the recording itself is gone: its collectives in order,
 * what it did before each of them, and its totals. Small (about 100 bytes a collective), so that the ranks of a job can
 * be read one after the other and then compared (ranks.h).
 *
 * Times are ns on the rank's own clock; nothing here assumes that two ranks' clocks agree. Everything, names included,
 * is copied into the given arena. Pure.
 *
 *     struct gw_rank_summary *s = gw_rank_summarise(an, an->dev + an->main, path, keep);
 *     gw_trace_destroy(t);                                     // s stays
 */
#ifndef GW_RANK_SUMMARY_H
#define GW_RANK_SUMMARY_H

#include "engine/analysis.h"

enum gw_coll {
#define GW_COLL(sym, name, words, sized, factor) GW_COLL_##sym,
#include "engine/collectives.def"
#undef GW_COLL
    GW_COLL_COUNT
};
const char *gw_coll_name(unsigned kind);
int gw_coll_sized(unsigned kind);
double gw_coll_bus_factor(unsigned kind, int64_t ranks);

/* What a rank does between collectives: a cause of idle time (enum gw_cause), or one of these. */
enum { GW_DID_COMPUTE = GW_CAUSE_COUNT, GW_DID_COPY, GW_DID_COUNT };
const char *gw_did_id(unsigned did);   /* "computing", "copying", or the id of a cause */
const char *gw_did_text(unsigned did); /* untranslated: "waiting for the data loader" */

struct gw_rank_part {
    int64_t ns;
    uint32_t did;
    uint32_t top; /* index into names: the kernel, or the host event blamed, with most of it; 0 = none */
};

struct gw_rank_coll {
    int64_t start, end;
    int64_t bytes;   /* -1 unknown */
    int64_t exposed; /* ns of it during which no compute ran */
    int64_t step;    /* number of the step that issued it; -1 unknown */
    /* from the start of the collective before it to its own start: all but communication that nothing hid */
    uint32_t first_part, parts;
    uint32_t kernels; /* compute kernels that started there */
    uint16_t kind;    /* enum gw_coll */
    uint16_t cold;    /* 1 = nothing before it was recorded */
};

#define GW_RANK_COLLS_MAX 200000 /* kept; the rest is counted: 20 MB a rank at most */

struct gw_rank_summary {
    const char *path;   /* as the user gave it */
    int64_t rank;       /* -1 unknown */
    int64_t world_size; /* -1 unknown */
    int64_t device;
    const char *gpu;            /* "" unknown */
    const char *host;           /* "" unknown */
    struct gw_partition window; /* steady */
    int64_t steps;              /* in it; 0 none found */
    int64_t median_step_ns;     /* -1 unknown */
    int numbered;               /* 1 = steps carry the profiler's numbers, which agree between ranks */
    int64_t did[GW_DID_COUNT];  /* in the window */
    const struct gw_rank_coll *coll;
    size_t ncoll;
    size_t dropped; /* collectives beyond the cap */
    const struct gw_rank_part *parts;
    const char *const *names;               /* names[0] is "" */
    const struct gw_report_kernel *kernels; /* as in the report */
    size_t kernel_count;
};

/* NULL when out of memory. `path` is copied. */
struct gw_rank_summary *gw_rank_summarise(const struct gw_analysis *an, const struct gw_dev *dev, const char *path,
                                          struct gw_arena *arena);

/* The rank in a file name: "rank-3.x.json", "rank3", "worker0.pt.trace.json", "trace_r12.json": 3, 3, 0, 12. -1 none.
 */
int64_t gw_rank_of_name(const char *path);

#endif
