/*
 * csv.h - rows of comma-separated values (RFC 4180): CR LF at line ends, quotes where they are needed.
 *
 * Text is foreign, and spreadsheets run cells that begin with = + - @ or a control character as formulas: such a text
 * gets an apostrophe in front, which spreadsheets take as "this is text". Bytes that are no UTF-8 become U+FFFD,
 * control characters but line breaks become blanks. Numbers are written as they are; what is not known is an empty
 * cell.
 *
 *     struct gw_csv c = gw_csv_begin(out);
 *     gw_csv_text(&c, "=1+1"), gw_csv_int(&c, -5), gw_csv_row(&c);      "'=1+1",-5
 */
#ifndef GW_CSV_H
#define GW_CSV_H

#include <stdint.h>
#include <stdio.h>

struct gw_csv {
    FILE *out;
    int cells; /* in this row */
};

struct gw_csv gw_csv_begin(FILE *out);
void gw_csv_text(struct gw_csv *c, const char *s); /* NULL is empty */
void gw_csv_int(struct gw_csv *c, int64_t v);
void gw_csv_known(struct gw_csv *c, int64_t v);          /* empty when below zero */
void gw_csv_double(struct gw_csv *c, double v);          /* empty when not finite */
void gw_csv_row(struct gw_csv *c);                       /* ends the row */
void gw_csv_header(struct gw_csv *c, const char *names); /* "a,b,c" */

#endif
