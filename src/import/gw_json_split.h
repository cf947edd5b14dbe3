/*
 * gw_json_split.h - cutting a JSON array of objects into its elements, fast, without parsing them.
 *
 * The splitter sees the text through a window that only ever grows at its end or loses bytes at its start. It looks at
 * 64 bytes a step (AVX2 or SSE2 where the machine has it), counts braces outside strings, and reports where each
 * element begins and ends. What parses the elements can then work on text in one piece, on another core.
 *
 * Damage: text that cannot be JSON is noticed by a quote in an impossible place, by an element that grows suspiciously
 * long, or by junk between elements; then the grammar is checked from the start of the element, and splitting goes on
 * at the next brace that opens a trace event. All work is linear in the text, for hostile input too.
 *
 * One thread.
 *
 *     struct gw_split s;
 *     gw_split_init(&s, 0);
 *     while ((rc = gw_split_next(&s, window, len, eof, &start, &n)) == GW_SPLIT_EVENT) ...
 *     (GW_SPLIT_MORE: keep the window from s.keep on, then gw_split_drop(&s, s.keep))
 */
#ifndef GW_JSON_SPLIT_H
#define GW_JSON_SPLIT_H

#include <stddef.h>
#include <stdint.h>

enum gw_split_result {
    GW_SPLIT_EVENT, /* [*start, *start + *n) of the window is an element, braces included */
    GW_SPLIT_MORE,  /* the window is used up; bytes from `keep` on are needed again */
    GW_SPLIT_END    /* the array has ended; `pos` is behind its bracket */
};

enum { GW_SPLIT_EVENT_CAP = 64 << 20 }; /* bytes; a longer element is skipped: no event is that long */

struct gw_split;
typedef const char *(*gw_split_scan)(struct gw_split *s, const char *p, const char *end);

struct gw_split {
    size_t pos;  /* next byte to look at, in the window */
    size_t keep; /* after GW_SPLIT_MORE */
    /* Counts of what went wrong, and where first, in bytes from the start of the text. */
    uint64_t damaged, oversize;
    int64_t damaged_at, oversize_at;

    /* private */
    int64_t base;       /* offset of the window in the text */
    size_t event;       /* start of the open element */
    size_t next_check;  /* length at which the open element is checked */
    size_t resync_from; /* the brace that is being left behind */
    int64_t depth;
    int state, in_string, trusted, eof, complete, stop;
    uint64_t spent; /* bytes looked at again because of damage */
    uint64_t cap;
    gw_split_scan scan;
};

/* `base`: offset in the text of the first byte behind the opening bracket, which is where the window starts. */
void gw_split_init(struct gw_split *s, int64_t base);
enum gw_split_result gw_split_next(struct gw_split *s, const char *window, size_t len, int eof, size_t *start,
                                   size_t *n);
/* The caller dropped `n` bytes from the start of the window. */
void gw_split_drop(struct gw_split *s, size_t n);
/* Nothing is open: the text could end here without loss (but for the closing bracket). */
int gw_split_between(const struct gw_split *s);

/* For tests and measurements: "avx2", "sse2" or "scalar" instead of the best that the machine has. 0, or -1 unknown. */
int gw_split_force(struct gw_split *s, const char *isa);

#endif
