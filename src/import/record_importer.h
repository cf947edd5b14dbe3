/*
 * record_importer.h - the importer of gpuwhy's own records (src/record/record.h), for the table in importers.c.
 *
 * A record is a folder, so gw_import_file() asks gw_record_is_folder() before it opens anything; a single *.gwr file of a
 * record is recognised by its first bytes. Time zero of the trace is the start of the recording.
 *
 * GPU work was recorded in windows: idle time between two windows was not idle, it was not looked at. The trace holds one
 * window of each process, the one that gw_import_options.window_at names or the last of the complete ones (long, and full of
 * work), and counts WINDOW_ONLY for the rest. Whoever wants to know how windows differ reads them one after the other.
 */
#ifndef GW_RECORD_IMPORTER_H
#define GW_RECORD_IMPORTER_H

#include "import/importer.h"

extern const struct gw_importer gw_importer_record;

/* 1 when `path` is a folder with a record in it. */
int gw_record_is_folder(const char *path);

/* The folder of a record, given it or one of its *.gwr files, which stands for all of it. 1 found, 0 when it is none. */
int gw_record_folder(const char *path, char *out, size_t cap);

struct gw_record_window {
    int64_t from, to; /* CLOCK_REALTIME, ns */
};
/* The complete windows of the process that did most GPU work, in order of time; at most `cap`. Their number; 0 also when the
 * record cannot be read. */
size_t gw_record_windows(const char *path, struct gw_record_window *out, size_t cap);

#endif
