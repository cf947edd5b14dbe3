/* html_steps.h - the times of steps as a static picture (html_picture.c). */
#ifndef GW_HTML_STEPS_H
#define GW_HTML_STEPS_H

#include "report/html/html_page.h"

/* Bars for `n` times in ns, with a line at the median (-1 unknown). */
void gw_html_steps_picture(struct gw_html *h, const int64_t *ns, size_t n, int64_t median);

#endif
