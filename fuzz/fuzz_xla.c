/* Any bytes as a trace of JAX or TensorFlow: events with sane times and rows, or an error with words. */
#include <stdint.h>
#include <stdlib.h>

#include "import/gw_stream.h"
#include "import/xla.h"
#include "promise_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gw_stream_options so = {.block_bytes = size ? 1 + data[size - 1] : 64}; /* events cross blocks anywhere */
    struct gw_error err = {0};
    struct gw_trace *t = gw_trace_create((size_t)16 << 20);
    struct gw_stream *s = gw_stream_memory(data, size, &so, NULL);
    if (!t)
        abort();
    if (s) {
        gw_importer_xla.sniff("x", data, size);
        int rc = gw_importer_xla.read_stream(t, s, "x", NULL, &err);
        require_read(t, rc, &err);
    }
    gw_stream_close(s);
    gw_trace_destroy(t);
    return 0;
}
