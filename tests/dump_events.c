/*
 * dump_events - reads a trace with the importers and prints what they made of it, one JSON object a line, for tests
 * that compare it with another reader.
 *
 *     dump_events [--block N] [--head N] [--threads N] [--max-memory N] [--lines 0|1|2] [--phases 1] FILE
 *
 * First line: facts and losses. Then, with --lines 1 (the default), one line an event: kind, start, end, row, corr,
 * arg0, arg1, sub, flags, name; ids and arguments are absent where the trace has none. --lines 2 adds what finishing
 * made of it: the enclosing event and the linked one. --phases 1 prints seconds of reading and finishing to stderr.
 * --block N reads in blocks of N bytes and skips the choice of the importer.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "import/gw_stream.h"
#include "import/importer.h"
#include "import/kineto.h"

static void put_string(const char *s, size_t n)
{
    putchar('"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20 || c >= 0x7f) /* bytes, one by one: the reader knows (Latin-1 as carrier) */
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void put_name(const struct gw_trace *t, const char *key, uint32_t name)
{
    printf(",\"%s\":", key);
    put_string(gw_trace_text(t, name), gw_intern_len(t->names, name));
}

static void put_header(const struct gw_trace *t)
{
    const struct gw_facts *f = &t->facts;
    printf("{\"events\":%zu,\"rank\":%" PRId64 ",\"world_size\":%" PRId64
           ",\"amd\":%d,\"cuda_driver\":%d,\"base_ns\":%" PRId64,
           gw_trace_count(t), f->rank, f->world_size, f->amd, f->cuda_driver, f->base_ns);
    printf(",\"framework\":\"%s\",\"losses\":{", f->framework ? f->framework : "");
    const char *sep = "";
    for (int i = 0; i < GW_LOSS_COUNT; i++)
        if (t->loss[i].count) {
            printf("%s\"%s\":[%" PRIu64 ",%" PRId64 "]", sep, gw_loss_id((unsigned)i), t->loss[i].count,
                   t->loss[i].first_byte);
            sep = ",";
        }
    printf("},\"devices\":[");
    for (size_t i = 0; i < t->devices.len; i++) {
        const struct gw_device *d = (const struct gw_device *)t->devices.data + i;
        printf("%s{\"id\":%" PRId64 ",\"memory\":%" PRId64 ",\"sms\":%d", i ? "," : "", d->id, d->memory_bytes,
               d->sm_count);
        put_name(t, "name", d->name);
        printf("}");
    }
    const struct gw_source *s = t->sources.data;
    printf("],\"seen\":%" PRId64 ",\"bytes\":%" PRId64 ",\"text_bytes\":%" PRId64 "}\n",
           t->sources.len ? s->events : -1, t->sources.len ? s->bytes : -1, t->sources.len ? s->text_bytes : -1);
}

static void put_event(const struct gw_trace *t, uint32_t i, int finished)
{
    const struct gw_event *e = gw_trace_event(t, i);
    const struct gw_lane *l = gw_trace_lane(t, e->lane);
    printf("{\"kind\":\"%s\",\"start\":%" PRId64 ",\"end\":%" PRId64, gw_kind_name(e->kind), e->start, e->end);
    if (l->type == GW_LANE_GPU)
        printf(",\"device\":%" PRId64 ",\"stream\":%" PRId64, l->device, l->stream);
    else if (l->type == GW_LANE_HOST)
        printf(",\"pid\":%" PRId64 ",\"tid\":%" PRId64, l->pid, l->tid);
    else
        printf(",\"device\":%" PRId64 ",\"pid\":%" PRId64, l->device, l->pid);
    if (e->flags & GW_EV_HAS_CORR)
        printf(",\"corr\":%" PRIu64, e->corr);
    if (e->flags & GW_EV_HAS_SUB)
        printf(",\"sub\":%" PRIu32, e->sub);
    if (e->flags & GW_EV_HAS_ARG0 && e->kind == GW_KIND_OP)
        put_name(t, "dims", (uint32_t)e->arg0);
    else if (e->flags & GW_EV_HAS_ARG0)
        printf(",\"arg0\":%" PRIu64, e->arg0);
    if (e->flags & GW_EV_HAS_ARG1 && e->kind == GW_KIND_OP)
        put_name(t, "types", (uint32_t)e->arg1);
    else if (e->flags & GW_EV_HAS_ARG1)
        printf(",\"arg1\":%" PRIu64, e->arg1);
    if (e->flags & GW_EV_IN_GRAPH)
        printf(",\"graph\":1");
    if (l->name)
        put_name(t, "lane", l->name);
    put_name(t, "name", e->name);
    if (finished)
        printf(",\"up\":%" PRId64 ",\"link\":%" PRId64, e->up == GW_NONE ? -1 : (int64_t)e->up,
               e->link == GW_NONE ? -1 : (int64_t)e->link);
    printf("}\n");
}

static double seconds(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static int phases;

static int read_in_blocks(struct gw_trace *t, const char *path, size_t block, size_t head,
                          const struct gw_import_options *o, struct gw_error *err)
{
    double start = seconds();
    struct gw_stream_options so = {.block_bytes = block, .headroom = head, .threaded = kineto_threads(o) > 1};
    struct gw_stream *s = gw_stream_open(path, &so, err);
    if (!s)
        return err->code;
    int rc = kineto_read(t, s, path, o, err);
    gw_stream_close(s);
    double read = seconds();
    if (rc == GW_OK)
        rc = gw_trace_finish(t);
    if (phases)
        fprintf(stderr, "read %.3f finish %.3f\n", read - start, seconds() - read);
    return rc;
}

int main(int argc, char **argv)
{
    struct gw_import_options o = {.threads = 0};
    size_t block = 0, head = 0, max = 0;
    int lines = 1, i = 1;
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        unsigned long v = strtoul(argv[i + 1], NULL, 10);
        if (!strcmp(argv[i], "--block"))
            block = v;
        else if (!strcmp(argv[i], "--head"))
            head = v;
        else if (!strcmp(argv[i], "--threads"))
            o.threads = (int)v;
        else if (!strcmp(argv[i], "--max-memory"))
            max = v;
        else if (!strcmp(argv[i], "--phases"))
            phases = (int)v;
        else if (!strcmp(argv[i], "--lines"))
            lines = (int)v;
    }
    if (i + 1 != argc) {
        fprintf(stderr, "usage: dump_events [--block N] [--head N] [--threads N] [--max-memory N] [--lines N] FILE\n");
        return 2;
    }
    struct gw_error err = {0};
    char text[1024];
    struct gw_trace *t = gw_trace_create(max);
    if (!t)
        return 4;
    int rc = block || phases ? read_in_blocks(t, argv[i], block, head, &o, &err) : gw_import_file(t, argv[i], &o, &err);
    if (rc < 0) {
        fprintf(stderr, "%s\n", gw_error_text(&err, text, sizeof text));
        gw_trace_destroy(t);
        return 3;
    }
    put_header(t);
    for (uint32_t k = 0; lines && k < gw_trace_count(t); k++)
        put_event(t, k, lines == 2);
    gw_trace_destroy(t);
    return 0;
}
