/*
 * html_page.h - one self-contained page: head, style, scripts, and a writer that escapes. Shared by the HTML renderers.
 *
 * The page needs nothing but itself: style and scripts are in it (html_assets.h), and its content security policy lets
 * no browser fetch anything or run a script other than ours, known by its hash. So a name from a trace that got past
 * the escapes would still be inert. Markup is written as literals; everything else goes through gw_html_text() and
 * friends, or into a data block that gw_html_data() escapes.
 *
 * Write errors are kept by stdio; gw_html_end() asks. One struct belongs to one thread.
 *
 *     struct gw_html h = gw_html_begin(out, "verdict - trace.json");
 *     gw_html_raw(&h, "<p>"), gw_html_text(&h, name), gw_html_raw(&h, "</p>");
 *     return gw_html_end(&h);
 */
#ifndef GW_HTML_PAGE_H
#define GW_HTML_PAGE_H

#include <stdint.h>
#include <stdio.h>

#include "base/gw_error.h"

struct gw_html {
    FILE *out;
};

/* Head and the start of the body, up to and with <main>'s parent. `title` is plain text. */
struct gw_html gw_html_begin(FILE *out, const char *title);
/* Footer, labels and scripts. 0, or GW_EIO when the stream failed. */
int gw_html_end(struct gw_html *h);

void gw_html_raw(struct gw_html *h, const char *markup); /* our own, as it is */
/* Plain text, escaped for elements and quoted attributes: broken UTF-8, control and direction characters become U+FFFD.
 * NULL is "". */
void gw_html_text(struct gw_html *h, const char *s);
void gw_html_textf(struct gw_html *h, const char *fmt, ...) GW_PRINTF(2, 3); /* formats, then escapes */
/* <tag class="cls">text</tag>; no class when `cls` is NULL. */
void gw_html_tag(struct gw_html *h, const char *tag, const char *cls, const char *text);
void gw_html_tagf(struct gw_html *h, const char *tag, const char *cls, const char *fmt, ...) GW_PRINTF(4, 5);
/* Advice: `back-quoted` pieces become code, lines that are indented a block of it; the others are paragraphs. */
void gw_html_advice(struct gw_html *h, const char *s);
/* The same for one line inside a paragraph. */
void gw_html_rich(struct gw_html *h, const char *s);

/* <section> with its heading; an id that is unique in the page. */
void gw_html_section(struct gw_html *h, const char *id, const char *title);
void gw_html_section_end(struct gw_html *h);

/* A block of data for the script (and for whoever wants to take it out of the page): what is written to the stream
 * must be JSON; `<`, `>` and `&`, which JSON has inside strings only, are written as \uXXXX. NULL when out of memory.
 * Close with gw_html_data_end(), then go on writing to `h`. */
FILE *gw_html_data(struct gw_html *h, const char *id);
void gw_html_data_end(struct gw_html *h, FILE *data);

/* A share as the width of a bar, "55.13" for 0.5513, within 0..100. */
struct gw_html_width {
    char s[16];
};
struct gw_html_width gw_html_width(double share);
double gw_html_share(int64_t part, int64_t whole); /* NAN when either is not known */

/* A word in an attribute, such as a class name: only [a-z0-9-] gets through. */
void gw_html_word(struct gw_html *h, const char *id);

#endif
