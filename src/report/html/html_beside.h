/* html_beside.h - what stands beside a timeline: the whole run by hardware counters, windows of a record, counters of
 * kernels. Each writes its section, or nothing when the report has none of it. */
#ifndef GW_HTML_BESIDE_H
#define GW_HTML_BESIDE_H

#include "engine/report_model.h"
#include "report/html/html_page.h"

void gw_html_run(struct gw_html *h, const struct gw_report *r);      /* activity and windows: section "run" */
void gw_html_counters(struct gw_html *h, const struct gw_report *r); /* section "counters" */

#endif
