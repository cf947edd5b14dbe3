/*
 * load.h - recordings of any sort as reports: a file, a folder that `gpuwhy run` wrote, a JSON report, or the ranks of
 * a job in a folder or in several files. Ranks are read one after the other; of each only the report and a summary
 * stay.
 *
 *     struct gw_loaded l;
 *     int status = gw_load(&l, paths, n, &options);
 *     if (l.report) ... else for (i < l.count) l.each[i]
 *     gw_load_free(&l);
 */
#ifndef GW_LOAD_H
#define GW_LOAD_H

#include "cli/cli.h"

struct gw_loaded {
    struct gw_arena *arena;   /* all of this lives in it */
    struct gw_report *report; /* the one report: of the one recording, or over all ranks. NULL: see below */
    struct gw_report **each;  /* the reports of the recordings, when there were several */
    const char **paths;       /* of them */
    size_t count;
    const char *misfit; /* why there is no report over several recordings, as a clause; "" when there is no question */
    int strangers;      /* 1 = nothing suggests that they belong together */
    int interrupted;    /* the user stopped it: what is here covers what was read */
};

/* Says on stderr what cannot be read. Returns the exit status of the worst failure; something may be loaded all the
 * same. */
int gw_load(struct gw_loaded *l, char *const *paths, size_t n, const struct gw_cli_options *o);
void gw_load_free(struct gw_loaded *l);

int gw_load_is_saved(const char *path); /* 1 when the file is a JSON report */
/* A JSON report. 1 when the file is one: then `*out` is it, or NULL when it was refused (said on stderr, with
 * `*status`). */
int gw_load_saved(const char *path, struct gw_arena *arena, struct gw_report **out, int *status);

/* 1 for a folder of recordings (and not one that is a record itself). */
int gw_load_is_folder(const char *path);

#endif
