/*
 * fuzz_record - the reader of records on any bytes, with the engine and the diagnoses behind it.
 *
 * The first byte says which file of the record the rest becomes: the recorder's, a CUDA process's, or the sampled hardware
 * counters; and whether it is taken as it is or as a list of chunks (type, stride, length, payload), which get good checksums:
 * no mutation finds those by itself. The other files are small and sound. Built with clang it is a libFuzzer target; the tests
 * build it with replay.c and run the corpus through it.
 */
#include <fcntl.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/analysis.h"
#include "import/importer.h"
#include "layers/layers.h"
#include "model/host_facts.h"
#include "promise_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const files[] = {GW_REC_META, "cuda-7-1.gwr", GW_REC_PM};
enum { FILES = 3 };
#define MADE 1796130000000000000ull /* not today: the stamps of the corpus lie around it */

static void check_activity(const struct gw_host_facts *h)
{
    for (size_t i = 0; h && i < h->activity_count; i++) {
        const struct gw_activity *a = h->activity + i;
        for (size_t k = 0; k < a->count; k++) {
            require(a->run[k].start < a->run[k].end, "no empty stretches");
            require(!k || a->run[k].start >= a->run[k - 1].end, "stretches are in order");
            for (int m = 0; m < GW_ACT_COUNT; m++)
                require(isnan(a->run[k].share[m]) || (a->run[k].share[m] >= 0 && a->run[k].share[m] <= 1.0001f), "shares");
        }
    }
}

static void check_report(const struct gw_trace *t)
{
    struct gw_arena *arena = gw_arena_create((size_t)1 << 30);
    struct gw_analysis *an = arena ? gw_analyse(t, arena) : NULL;
    struct gw_report *r = an ? gw_diagnose(an, arena) : NULL;
    for (size_t i = 0; r && i < r->activity_count; i++) {
        const struct gw_report_activity *a = &r->activity[i];
        require(isnan(a->idle) || (a->idle > -0.001 && a->idle < 1.001), "idle is a share");
        require(a->measured_ns >= 0 && a->before_ns >= 0 && a->after_ns >= 0 && a->pause_ns >= 0, "times are not negative");
    }
    gw_arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char folder[] = "/tmp/fuzz-record-XXXXXX", path[100];
    if (size < 1 || size > 1 << 20)
        return 0;
    require(mkdtemp(folder) != NULL, "a folder can be made");
    int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), one = data[0] % FILES;
    for (int i = 0; i < FILES; i++) {
        if (i == one && data[0] & 0x80)
            write_raw(dir, files[i], data + 1, size - 1);
        else
            write_chunks(dir, files[i], i == 0 ? GW_ROLE_HOST : i == 1 ? GW_ROLE_CUDA : GW_ROLE_PM, MADE, data + 1, i == one ? size - 1 : 0);
    }
    struct gw_trace *t = gw_trace_create((size_t)256 << 20);
    struct gw_import_options o = {.threads = 1};
    struct gw_error err;
    memset(&err, 0, sizeof err);
    snprintf(path, sizeof path, "%s/%s", folder, files[0]);
    int rc = t ? gw_import_file(t, path, &o, &err) : 0;
    require((rc < 0) == (err.code != 0), "an error has its line");
    if (t && rc >= 0 && gw_trace_finish(t) == 0) {
        check_activity(t->host);
        check_report(t);
    }
    gw_trace_destroy(t);
    for (int i = 0; i < FILES; i++)
        (void)unlinkat(dir, files[i], 0);
    close(dir);
    rmdir(folder);
    return 0;
}
