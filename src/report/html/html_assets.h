/*
 * html_assets.h - what is built into the program for its pages; made by cmake/GwEmbed.cmake from web/.
 *
 * Each is NUL-terminated text. The plot library is "" when it could not be fetched at build time; pages then have the
 * static plot alone.
 */
#ifndef GW_HTML_ASSETS_H
#define GW_HTML_ASSETS_H

extern const char gw_html_style[];       /* web/page.css, and that of the plot library */
extern const char gw_html_script[];      /* web/timeline.js and friends */
extern const char gw_html_script_hash[]; /* of the script, as a CSP source: sha256-... */
extern const char gw_html_plot[];        /* uPlot (MIT), with its licence */
extern const char gw_html_plot_hash[];

#endif
