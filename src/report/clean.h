/*
 * clean.h - text from a trace, made safe for a terminal.
 *
 * Names in a trace are foreign: they may hold escape sequences that recolour or retitle a terminal, direction marks
 * that reorder a line, bytes that are no UTF-8, line breaks. The cleaner hands out what is left one character at a
 * time, with its width in columns. Control, format and direction characters and broken bytes become U+FFFD ('?'
 * without Unicode); white space becomes one blank each; at most two marks are stacked on a letter.
 *
 * Widths come from gw_utf8_width(), that is from LC_CTYPE where that is UTF-8. Pure apart from that; any thread.
 *
 *     struct gw_clean c = gw_clean_begin(name, unicode);
 *     while (gw_clean_next(&c))
 *         fputs(c.text, out), column += c.width;
 */
#ifndef GW_CLEAN_H
#define GW_CLEAN_H

#include <stddef.h>
#include <stdint.h>

#define GW_NBSP "\xc2\xa0" /* a blank at which no line breaks; handed out as it is */

struct gw_clean {
    const char *next;
    int unicode;
    int marks;    /* marks on the letter so far; -1 before the first letter */
    int width;    /* columns of `text`: 0 to 3 */
    char text[8]; /* the character, NUL-terminated */
};

struct gw_clean gw_clean_begin(const char *s, int unicode); /* NULL reads as "" */
int gw_clean_next(struct gw_clean *c);                      /* 0 at the end */

/* Cleans as much of `s` as fits into `out` (always NUL-terminated, never cut inside a character). Returns its width. */
int gw_clean_copy(char *out, size_t cap, const char *s, int unicode);
int gw_clean_width(const char *s, int unicode);

#endif
