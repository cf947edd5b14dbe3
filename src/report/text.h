/*
 * text.h - flowing text in a terminal: words, columns, hanging indents, colours.
 *
 * All text goes through clean.h, so callers may hand over names from a trace as they are. Words flow: a line breaks
 * between words before `width` columns are full, and goes on at column `indent`; East Asian text breaks between
 * characters, too. A number and its unit, and a
 * `back-quoted` piece that fits on one line, are kept together. No line ends in blanks.
 * One struct belongs to one thread; write errors are kept by stdio, the caller asks ferror() at the end.
 *
 *     struct gw_text t = gw_text_begin(out, options);
 *     gw_text_style(&t, GW_STYLE_BOLD), gw_text_words(&t, sentence), gw_text_style(&t, GW_STYLE_PLAIN);
 *     gw_text_line(&t);
 */
#ifndef GW_TEXT_H
#define GW_TEXT_H

#include <stdio.h>

#include "base/gw_error.h"
#include "report/renderer.h"

enum gw_style {
    GW_STYLE_PLAIN,
    GW_STYLE_BOLD,
    GW_STYLE_DIM,
    GW_STYLE_COMPUTE,
    GW_STYLE_COMM,
    GW_STYLE_COPY,
    GW_STYLE_IDLE,
    GW_STYLE_WARN
};

struct gw_text {
    FILE *out;
    int width, unicode, colour;
    int indent; /* column at which a broken line goes on */
    int col;    /* columns written on this line */
    int space;  /* blanks due before the next word; dropped at a line's end */
    unsigned last; /* the last character written on this line; 0 = none */
    int fresh;  /* 1 = no word since the line or the column began, so blanks are dropped and nothing is broken */
};

struct gw_text gw_text_begin(FILE *out, const struct gw_render_options *o);
/* Flows the words of `s` after what is there. Blanks at its two ends count: "a" then "b" gives "ab". */
void gw_text_words(struct gw_text *t, const char *s);
void gw_text_printf(struct gw_text *t, const char *fmt, ...) GW_PRINTF(2, 3);
/* The same as words, but starts a new line (at `indent`) at each '\n' of `s`. For our own advice, which has lines. */
void gw_text_lines(struct gw_text *t, const char *s);
void gw_text_tab(struct gw_text *t, int col); /* blanks up to `col`, at least one when already past it */
/* `s`, one piece, so that its last column is the one before `edge`; at least one blank stands before it. */
void gw_text_right(struct gw_text *t, const char *s, int edge);
void gw_text_line(struct gw_text *t);         /* ends the line, unless it is empty */
void gw_text_blank(struct gw_text *t);        /* ends the line and leaves an empty one */
void gw_text_style(struct gw_text *t, enum gw_style style);

#endif
