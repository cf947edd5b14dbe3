/*
 * importer.h - what a file format has to offer: a name, a sniff and a read. importers.c is the table.
 *
 * An importer fills a trace and never analyses. It salvages: whatever was readable stays, the rest is counted as a
 * loss, and it returns 0. It returns a negative code, with `err` filled (file, byte, what to do), only when nothing
 * can be used. Memory is bounded by the trace's cap, never by the size of the file.
 *
 *     struct gw_import_options o = {0};
 *     int rc = gw_import_file(trace, "t.json.gz", &o, &err);
 */
#ifndef GW_IMPORTER_H
#define GW_IMPORTER_H

#include "base/gw_error.h"
#include "model/trace.h"

struct gw_import_options {
    /* Called now and then from the thread that called gw_import_file, with bytes of the file consumed so far and its
     * size (-1 unknown). Returning non-zero asks to stop: what was read is kept and the loss TRUNCATED counted. NULL =
     * none. */
    int (*progress)(void *user, int64_t done, int64_t total);
    void *user;
    int64_t window_at; /* records of gpuwhy run: read the window at this time (CLOCK_REALTIME, ns); 0 = the importer's choice */
    int threads; /* 0 = as many as the machine allows (at most 4), 1 = all on the calling thread */
};

struct gw_stream;

struct gw_importer {
    const char *name;  /* short id, becomes gw_source.format */
    const char *title; /* for --help */
    /* How sure the format is this one: 0 = no, 100 = certain. `head` are the first bytes after decompression. */
    int (*sniff)(const char *path, const unsigned char *head, size_t len);
    /* One of the two. `read` opens the path itself (data bases). `read_stream` gets the stream that was opened to
     * sniff, nothing taken from it yet, so that pipes can be read; the stream stays the caller's. */
    int (*read)(struct gw_trace *t, const char *path, const struct gw_import_options *o, struct gw_error *err);
    int (*read_stream)(struct gw_trace *t, struct gw_stream *s, const char *path, const struct gw_import_options *o,
                       struct gw_error *err);
    int timeless; /* 1 = counters by kernel (gw_trace.kernel_metrics) and no events: they join a recording of the job */
};

extern const struct gw_importer *const gw_importers[]; /* NULL-terminated, in order of preference */

/* The importer that would read the file; NULL when none would, or it cannot be opened. Not for pipes: it reads the head. */
const struct gw_importer *gw_import_sniff(const char *path);

/* Opens, sniffs, reads with the best importer and finishes the trace. 0 or a negative code with `err` filled:
 * GW_EIO (cannot open), GW_EFORMAT (no importer knows it), GW_ENODATA, GW_ENOMEM, GW_ENOTSUP (library not built in). */
int gw_import_file(struct gw_trace *t, const char *path, const struct gw_import_options *o, struct gw_error *err);

#endif
