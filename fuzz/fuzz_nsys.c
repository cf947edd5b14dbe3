/* Any bytes as an SQLite database from Nsight Systems: a trace or an error with words, and nothing else. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "import/nsys_importer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = memfd_create("fuzz", 0);
    struct gw_trace *t = gw_trace_create((size_t)16 << 20);
    if (fd < 0 || !t || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct gw_import_options o = {.threads = 1};
    struct gw_error err = {0};
    int rc = gw_importer_nsys.read(t, path, &o, &err);
    if (rc < 0 ? rc != err.code || !err.what[0] : gw_trace_finish(t) < 0)
        abort();
    for (size_t i = 0; rc == 0 && i < gw_trace_count(t); i++) {
        const struct gw_event *e = gw_trace_event(t, (uint32_t)i);
        if (e->end < e->start || e->lane >= t->lanes.len || e->name > gw_intern_count(t->names))
            abort();
    }
    gw_trace_destroy(t);
    close(fd);
    return 0;
}
