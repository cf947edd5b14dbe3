/* Any bytes as an SQLite database from Nsight Systems: a trace or an error with words, and nothing else. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "import/nsys_importer.h"
#include "promise_trace.h"

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
    require_read(t, rc, &err);
    gw_trace_destroy(t);
    close(fd);
    return 0;
}
