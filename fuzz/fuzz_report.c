/*
 * fuzz_report - the reader of JSON reports on any bytes, and everything that a report goes through after it.
 *
 * What is accepted must come back unchanged when it is written and read again, must be fit for every renderer, and for
 * a comparison with itself, which finds no change. Built with clang it is a libFuzzer target; the tests build it with
 * replay.c and run the corpus through it.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/diff_report.h"
#include "report/export.h"
#include "report/report_read.h"
#include "promise.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct gw_report *read_report(const char *text, size_t n, struct gw_arena *arena, struct gw_error *err)
{
    struct gw_report *r = NULL;
    memset(err, 0, sizeof *err);
    int rc = gw_report_read(text, n, "fuzz.json", arena, &r, err);
    require((rc == GW_OK) == (r != NULL), "a report or an error");
    require(rc == GW_OK || (err->code == rc && err->what[0]), "an error says what is wrong");
    return r;
}

static char *write_report(const struct gw_report *r, size_t *n)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, n);
    require(f && gw_render_json(r, f) == 0 && fclose(f) == 0, "a report can be written");
    return text;
}

static void render(const struct gw_report *r, struct gw_arena *arena)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    struct gw_render_options o = {.width = 80, .all = 1};
    struct gw_diff *d = gw_diff_make(r, r, NULL, arena);
    struct gw_gate gate;
    char why[200];
    double value;
    require(f && d, "memory");
    require(d->change == GW_DIFF_SAME || d->change == GW_DIFF_UNKNOWN, "a report does not differ from itself");
    require(gw_gate_parse("idle>+0.1%", &gate, why, sizeof why) == 0 && gw_gate_crossed(d, &gate, 1, &value) != 1,
            "nor does it cross a gate");
    const struct gw_diff_view v = {.d = d, .a = "a", .b = "b"};
    require(gw_render_terminal(r, f, &o) == 0 && gw_render_diff_terminal(&v, f, &o) == 0 &&
                gw_render_diff_json(&v, f) == 0 && gw_export_findings(r, f) == 0,
            "every renderer takes it");
    fclose(f);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gw_arena *arena = gw_arena_create((size_t)1 << 30);
    struct gw_error err;
    (void)gw_report_sniff(data, size);
    struct gw_report *r = read_report((const char *)data, size, arena, &err);
    if (r) {
        size_t n1, n2;
        char *first = write_report(r, &n1);
        struct gw_report *again = read_report(first, n1, arena, &err);
        require(again != NULL, "what is written can be read");
        char *second = write_report(again, &n2);
        require(n1 == n2 && !memcmp(first, second, n1), "reading and writing again changes nothing");
        require(gw_report_sniff((const uint8_t *)first, n1), "a report is known by its first bytes");
        render(r, arena);
        free(first);
        free(second);
    }
    gw_arena_destroy(arena);
    return 0;
}
