/*
 * progress.h - a progress line on stderr while a file is read, and Ctrl-C that stops the reading in good order.
 *
 * The line appears after half a second, only on a terminal, and is erased at the end. The first Ctrl-C asks the
 * reader to stop, so that what was read is reported; the second one ends the program as usual.
 * One progress at a time, on the main thread.
 *
 *     struct gw_progress p;
 *     gw_progress_begin(&p, path, show);
 *     struct gw_import_options o = {.progress = gw_progress_step, .user = &p};
 *     ...
 *     if (gw_progress_end(&p)) ... the user interrupted
 */
#ifndef GW_PROGRESS_H
#define GW_PROGRESS_H

#include <signal.h>
#include <stdint.h>

struct gw_progress {
    const char *path;
    int show; /* 0 = only watch for Ctrl-C */
    int drawn;
    int64_t begin_ns, last_ns;
    struct sigaction before;
    int caught; /* our handler is in place */
};

void gw_progress_begin(struct gw_progress *p, const char *path, int show);
/* The callback for gw_import_options: 1 once the user has interrupted. */
int gw_progress_step(void *p, int64_t done, int64_t total);
/* Erases the line, restores the handling of Ctrl-C. 1 when the user interrupted. */
int gw_progress_end(struct gw_progress *p);

#endif
