/*
 * renderer.h - const report in, bytes out. One renderer a file; none knows another.
 *
 * A renderer writes to a stdio stream and returns 0, or GW_EIO when the stream failed. It escapes all text.
 */
#ifndef GW_RENDERER_H
#define GW_RENDERER_H

#include <stdio.h>

#include "engine/report_model.h"

struct gw_render_options {
    int colour;  /* 1 = ANSI colours; the caller checks for a terminal and NO_COLOR */
    int width;   /* columns; 0 = 80 */
    int all;     /* 1 = also what is usually cut (all places, all of "not evaluated") */
    int unicode; /* 1 = block characters and UTF-8 punctuation may be used; needs a UTF-8 LC_CTYPE, for wcwidth() */
};

int gw_render_terminal(const struct gw_report *rep, FILE *out, const struct gw_render_options *o);
int gw_render_json(const struct gw_report *rep, FILE *out); /* schema gpuwhy.report/1, docs/json.md */

#endif
