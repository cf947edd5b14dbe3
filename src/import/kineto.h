/*
 * kineto.h - reading a torch.profiler (Kineto) trace: JSON in the trace event format, of any size.
 *
 * The text is cut into events by one thread while others parse them (kineto_batch.h); memory is a ring of blocks and
 * the events themselves. The result does not depend on the number of threads or the size of the blocks.
 *
 *     rc = kineto_read(trace, stream, "t.json", &options, &err);     (does not call gw_trace_finish)
 */
#ifndef KINETO_H
#define KINETO_H

#include "import/gw_stream.h"
#include "import/importer.h"

extern const struct gw_importer gw_importer_kineto;

int kineto_read(struct gw_trace *t, struct gw_stream *s, const char *path, const struct gw_import_options *o,
                struct gw_error *err);
/* Threads to parse with, for gw_import_options.threads: the calling one counted. */
int kineto_threads(const struct gw_import_options *o);

#endif
