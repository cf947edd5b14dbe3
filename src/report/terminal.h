/*
 * terminal.h - the sections of the terminal report; private to terminal*.c.
 *
 * Each section writes whole lines and leaves the text at the start of a line. None writes an empty line at its end.
 */
#ifndef GW_TERMINAL_H
#define GW_TERMINAL_H

#include "report/text.h"

struct gw_terminal {
    struct gw_text t;
    const struct gw_report *rep;
    const struct gw_render_options *o;
};

void gw_terminal_devices(struct gw_terminal *m);       /* terminal_bars.c: where the time of each device went */
void gw_terminal_activity(struct gw_terminal *m);      /* terminal_activity.c: the GPUs over the whole run */
void gw_terminal_ranks(struct gw_terminal *m);         /* terminal_ranks.c: the ranks of a job beside each other */
void gw_terminal_findings(struct gw_terminal *m);      /* terminal_findings.c */
void gw_terminal_work(struct gw_terminal *m);          /* terminal_work.c: kernels, with --all */
void gw_terminal_not_evaluated(struct gw_terminal *m); /* terminal_trust.c */
void gw_terminal_trust(struct gw_terminal *m);

/* The window that the report speaks of: steady when there is one, else whole. `*is_whole` may be NULL. */
const struct gw_partition *gw_terminal_window(const struct gw_report_device *d, int *is_whole);

/* "  label    " in dim letters; the text after it hangs at GW_TERMINAL_HANG. */
#define GW_TERMINAL_HANG 11
void gw_terminal_label(struct gw_terminal *m, const char *label);

#endif
