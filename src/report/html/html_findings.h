/* html_findings.h - findings, and what was not evaluated, for every page that has them. */
#ifndef GW_HTML_FINDINGS_H
#define GW_HTML_FINDINGS_H

#include "engine/report_model.h"
#include "report/html/html_page.h"

/* One article each. `wall_known` 0: times and gains are not known (a machine's report) and are left out. */
void gw_html_findings(struct gw_html *h, const struct gw_finding *list, size_t n, int wall_known);
/* A fold with one row each; nothing when there are none. */
void gw_html_not_evaluated(struct gw_html *h, const struct gw_not_evaluated *list, size_t n);

#endif
