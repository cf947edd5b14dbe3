/*
 * html.h - a report as one HTML page that stands alone: docs/html.md.
 *
 * Text, bars, findings and tables are in the page as they are, so that it reads without its script and prints; the
 * script makes the timeline one to move in. The page holds the JSON report too, under the id "gw-report".
 *
 *     struct gw_timeline *tl = gw_timeline_make(an, arena);       NULL: a report without a recording has none
 *     gw_render_html(rep, tl, out);                               0, or GW_EIO when the stream failed
 */
#ifndef GW_HTML_H
#define GW_HTML_H

#include <stdio.h>

#include "engine/report_model.h"
#include "report/diff_report.h"
#include "report/sweep_report.h"

struct gw_timeline;

int gw_render_html(const struct gw_report *rep, const struct gw_timeline *tl, FILE *out);
int gw_render_html_diff(const struct gw_diff_view *v, FILE *out);
int gw_render_html_sweep(const struct gw_sweep_result *r, FILE *out);

#endif
