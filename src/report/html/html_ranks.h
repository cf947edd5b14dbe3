/* html_ranks.h - the ranks of a job beside each other, and their collectives. */
#ifndef GW_HTML_RANKS_H
#define GW_HTML_RANKS_H

#include "engine/report_model.h"
#include "report/html/html_page.h"

void gw_html_ranks(struct gw_html *h, const struct gw_report *r); /* nothing unless several ranks were compared */

#endif
