/* html_timeline.h - the timeline's part of a page: its section with the static picture, and its data for the script. */
#ifndef GW_HTML_TIMELINE_H
#define GW_HTML_TIMELINE_H

#include "report/html/html_page.h"
#include "report/html/timeline.h"

void gw_html_timeline(struct gw_html *h, const struct gw_timeline *tl); /* nothing when there are no lanes */
void gw_html_timeline_data(struct gw_html *h, const struct gw_timeline *tl);
void gw_html_timeline_picture(struct gw_html *h, const struct gw_timeline *tl); /* html_picture.c: the static SVG */
void gw_html_places(struct gw_html *h, const struct gw_timeline *tl);           /* idle time by line */

#endif
