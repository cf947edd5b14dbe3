/*
 * run_status.h - what a running job can be told about while it runs: steps so far, and the one line of --status.
 *
 * Steps are batches that torch's DataLoader gave out, as the settings hook marks them (marks-PID in the record, 8 bytes each);
 * a job without such a loader has none, and nothing is shown for them. The guess is one: it comes from samples of the main
 * threads that launch, without the engine; the report decides.
 *
 *     gw_status_open(&st, wanted, terminal);
 *     gw_status_samples(&st, sink, tree);      after each gw_tree_sample(), before the sink is flushed
 *     gw_status_draw(&st, &view, now);         about once a second
 *     gw_status_clear(&st);                    before anything else is printed, and at the end
 */
#ifndef GW_RUN_STATUS_H
#define GW_RUN_STATUS_H

#include <stddef.h>
#include <stdint.h>

struct gw_sink;
struct gw_tree;
struct gw_nvml_live;
struct gw_pm;

enum { GW_STATUS_KINDS = 7 }; /* what a launching thread is seen at; the table is in run_status.c */

struct gw_status {
    int fd;                /* of the terminal; -1 = no line */
    int is_drawn;
    char text[512];        /* as it was drawn last */
    int kind;              /* of the launching thread's last sample */
    double seen[GW_STATUS_KINDS]; /* samples of the last ten seconds or so, older ones fading */
    uint64_t steps, steps_at, first_at; /* at the last look that saw a change, and when the first was seen (CLOCK_MONOTONIC) */
    double rate;           /* steps a second; NAN none yet */
};

struct gw_status_view {
    uint64_t started_ns;   /* CLOCK_MONOTONIC */
    uint64_t steps;        /* gw_status_steps() */
    uint64_t records;
    int is_window_open;
    const struct gw_nvml_live *nvml;
    const struct gw_pm *pm; /* hardware counters: better than NVML where there are any; may be NULL */
};

/* Batches of the process that took most, from the marks in the record's folder. 0 = none. */
uint64_t gw_status_steps(int dirfd);

/* `fd`: where the line goes when it is wanted; it appears only when that is a terminal that can erase a line. */
void gw_status_open(struct gw_status *st, int is_wanted, int fd);
void gw_status_samples(struct gw_status *st, const struct gw_sink *sink, const struct gw_tree *tree);
/* The line, without control characters: for tests, and for drawing. */
void gw_status_text(struct gw_status *st, const struct gw_status_view *v, uint64_t now, char *out, size_t cap);
void gw_status_draw(struct gw_status *st, const struct gw_status_view *v, uint64_t now);
void gw_status_clear(struct gw_status *st);

#endif
