/*
 * diff_report.h - a comparison of two reports, for people and for programs. docs/diff.md is the contract of the JSON.
 *
 *     struct gw_diff_view v = {.d = d, .a = "before.json", .b = "after.json"};
 *     gw_render_diff_terminal(&v, stdout, &options);
 */
#ifndef GW_DIFF_REPORT_H
#define GW_DIFF_REPORT_H

#include "engine/diff.h"
#include "report/renderer.h"

struct gw_gate_result {
    const char *text; /* as the user wrote it */
    struct gw_gate gate;
    double value; /* NAN: it cannot be told */
    int crossed;  /* 1, 0, -1: cannot be told */
};

struct gw_diff_view {
    const struct gw_diff *d;
    const char *a, *b; /* what the user calls the two */
    const struct gw_gate_result *gates;
    size_t gate_count;
};

/* 0, or GW_EIO when the stream failed. */
int gw_render_diff_terminal(const struct gw_diff_view *v, FILE *out, const struct gw_render_options *o);
int gw_render_diff_json(const struct gw_diff_view *v, FILE *out); /* schema gpuwhy.diff/1 */

#endif
