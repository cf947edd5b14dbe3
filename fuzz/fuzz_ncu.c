/* Any bytes as output of Nsight Compute: rows of metrics that are numbers, or an error with words. */
#include <stdint.h>
#include <stdlib.h>

#include "import/gw_stream.h"
#include "import/ncu.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gw_stream_options so = {.block_bytes = size ? 1 + data[0] : 64}; /* lines cross blocks anywhere */
    struct gw_error err = {0};
    struct gw_trace *t = gw_trace_create(0);
    struct gw_stream *s = gw_stream_memory(data, size, &so, NULL);
    if (!t)
        abort();
    if (s) {
        gw_importer_ncu.sniff("x", data, size);
        int rc = gw_importer_ncu.read_stream(t, s, "x", NULL, &err);
        if (rc < 0 && (rc != err.code || !err.what[0]))
            abort();
        const struct gw_km_index *x = gw_km_index(t, t->arena);
        for (size_t i = 0; i < gw_kernel_metrics_count(t); i++) {
            const struct gw_kernel_metrics *m = gw_kernel_metrics_at(t, i);
            struct gw_kernel_metrics found;
            char plain[256]; /* as another profiler might spell it: found, or not, in one of the other ways */
            if (!x || !m->name || !m->launches || gw_km_find(x, gw_trace_text(t, m->name), &found) != GW_KM_EXACT)
                abort();
            gw_kernel_instance_name(gw_trace_text(t, m->name), plain, sizeof plain);
            gw_km_find(x, plain, &found);
            for (int k = 0; k < GW_KM_COUNT; k++)
                if (!(m->weight[k] >= 0) || isinf(m->value[k]))
                    abort();
        }
    }
    gw_stream_close(s);
    gw_trace_destroy(t);
    return 0;
}
