/*
 * timeline.h - a recording made small enough to be drawn: a few thousand spans a lane, whatever its size.
 *
 * Nothing is left out in silence. A lane that has more spans than fit is shown at a resolution: what is shorter is
 * merged with its neighbours into one span that says how many it stands for and how long they ran; what is longer stays
 * by itself. Two steps, a typical one and the slowest, are kept in full where they fit, so that there is something to
 * zoom into. Times are ns from the first operation of any GPU.
 *
 * Pure; everything is in the given arena but the texts of places, which belong to the recording.
 *
 *     struct gw_timeline *tl = gw_timeline_make(an, arena);       NULL when out of memory
 *     for (size_t i = 0; i < tl->lane_count; i++) draw(&tl->lanes[i]);
 */
#ifndef GW_TIMELINE_DRAW_H
#define GW_TIMELINE_DRAW_H

#include "engine/analysis.h"

enum gw_tl_type { GW_TL_IDLE, GW_TL_STREAM, GW_TL_OTHER_STREAMS, GW_TL_HOST, GW_TL_RANGE };

enum gw_tl_class { GW_TL_COMPUTE, GW_TL_COMM, GW_TL_COPY, GW_TL_SET, GW_TL_GRAPH }; /* `kind` of a span on a stream */

struct gw_tl_span {
    int64_t start, end;
    int64_t busy;    /* ns covered by what it stands for; end - start when nothing was merged */
    uint32_t name;   /* index into names; of the largest share when merged */
    uint32_t kind;   /* enum gw_tl_class, or enum gw_cause (GW_HOST_QUEUE_FULL too) */
    uint32_t count;  /* 1 = by itself */
    uint32_t detail; /* index into details, GW_NONE none */
};

/* What an idle span waited for. Names are indices, GW_NONE unknown; times -1 unknown. */
struct gw_tl_detail {
    uint32_t culprit, under, next, call;
    int64_t culprit_start, culprit_end, call_start;
};

struct gw_tl_lane {
    enum gw_tl_type type;
    int64_t device, stream; /* -1 where it has none; stream: number of streams for OTHER_STREAMS, depth for RANGE */
    const char *name;       /* of the stream or thread, "" none */
    const struct gw_tl_span *spans;
    size_t count;
    uint64_t all;       /* spans that they stand for */
    int64_t resolution; /* ns; 0 = nothing is merged */
};

/* A value over time, in equal buckets; NAN where there was nothing. */
struct gw_tl_series {
    const char *name;
    int queue;             /* 1 = operations issued and not begun */
    int64_t start, bucket; /* ns */
    const float *low, *high;
    size_t count;
};

/* Idle time of the steady window by line of code, operator or call. */
struct gw_tl_place {
    enum gw_cause cause;
    const char *file; /* "" when no stack was recorded */
    int64_t line;
    const char *text;
    int64_t ns, count;
};

#define GW_TL_PLACES 15 /* most time first */
#define GW_TL_GAPS 20   /* longest idle spans of the steady window, for the list */

struct gw_timeline {
    int64_t zero;   /* on the recording's clock */
    int64_t length; /* ns */
    int64_t steady_start, steady_end;
    const int64_t *steps; /* boundaries, step_count + 1 */
    size_t step_count;
    int64_t focus[2][2];  /* windows kept in full: start, end; end 0 none */
    const char *const *names;
    size_t name_count;
    uint64_t names_left; /* names that did not fit: their spans have the last one, "..." */
    const struct gw_tl_lane *lanes;
    size_t lane_count;
    const struct gw_tl_detail *details;
    const struct gw_tl_series *series;
    size_t series_count;
    size_t series_left; /* counters that were not taken */
    const struct gw_tl_place *places;
    size_t place_count;
    int64_t place_idle;   /* idle ns of the window that the places are about */
    const uint32_t *gaps; /* indices of spans in lanes[0] */
    size_t gap_count;
    int64_t events;     /* of the recording that can be drawn */
    size_t main_device; /* index of the device that lanes[0] is of */
};

struct gw_timeline *gw_timeline_make(const struct gw_analysis *an, struct gw_arena *arena);

/* ---- for timeline_*.c ---- */

struct gw_tl_build {
    const struct gw_analysis *an;
    struct gw_arena *arena;
    struct gw_timeline *tl;
    uint32_t *name_of;     /* by name id of the trace: 1 + index into names */
    struct gw_array names; /* const char * */
    size_t name_bytes;
    unsigned char *depth; /* by event, of ranges of the launching thread */
    struct gw_array lanes, details;
    int oom;
};
uint32_t gw_tl_name(struct gw_tl_build *b, uint32_t trace_name, int kernel);
int gw_tl_series_make(struct gw_tl_build *b); /* timeline_series.c */
int gw_tl_places_make(struct gw_tl_build *b); /* timeline_places.c */

#endif
