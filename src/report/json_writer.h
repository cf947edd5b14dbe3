/*
 * json_writer.h - writes JSON (RFC 8259) to a stream: structure, commas, indentation, escapes.
 *
 * Output is always valid UTF-8 and always parses: bytes that are no UTF-8 become U+FFFD, control characters (C0, DEL
 * and C1) and the two line separators that JavaScript dislikes are written as \uXXXX, NAN and infinities as null.
 * int64 values are written exactly; doubles with the fewest digits that read back the same.
 * Calls that do not nest are a defect of the caller and are caught by assert(). One struct belongs to one thread;
 * write errors are kept by stdio.
 *
 *     struct gw_json j = gw_json_begin(out);
 *     gw_json_object(&j, NULL);
 *     gw_json_int(&j, "ns", 5);
 *     gw_json_array(&j, "names"), gw_json_string(&j, NULL, "a"), gw_json_end(&j);
 *     gw_json_end(&j);
 */
#ifndef GW_JSON_WRITER_H
#define GW_JSON_WRITER_H

#include <stdint.h>
#include <stdio.h>

#define GW_JSON_DEPTH 16

struct gw_json {
    FILE *out;
    int depth;
    char close[GW_JSON_DEPTH]; /* '}' or ']' of each open level */
    int members[GW_JSON_DEPTH];
    int line; /* levels deeper than this stand on one line; 0 = none */
};

struct gw_json gw_json_begin(FILE *out);
/* Begins a document of ours: the outermost object, with "schema" and "tool" in it. */
struct gw_json gw_json_document(FILE *out, const char *schema);
/* Closes the outermost object and flushes: 0, or GW_EIO when something could not be written. */
int gw_json_finish(struct gw_json *j);
/* In an object each value has a `key`; in an array, and at the top, the key is NULL. */
void gw_json_object(struct gw_json *j, const char *key);
void gw_json_array(struct gw_json *j, const char *key);
/* Puts the rest of the innermost object or array, and all inside it, on one line. Call right after opening it. */
void gw_json_inline(struct gw_json *j);
void gw_json_row(struct gw_json *j, const char *key); /* an object on one line: a row of a table */
void gw_json_end(struct gw_json *j); /* closes the innermost; after the outermost a newline follows */
void gw_json_string(struct gw_json *j, const char *key, const char *s); /* NULL is null */
void gw_json_text(struct gw_json *j, const char *key, const char *s);   /* NULL is "" */
void gw_json_int(struct gw_json *j, const char *key, int64_t v);
void gw_json_uint(struct gw_json *j, const char *key, uint64_t v);
void gw_json_known(struct gw_json *j, const char *key, int64_t v); /* null when below zero: "not known" */
void gw_json_double(struct gw_json *j, const char *key, double v);
void gw_json_thousandths(struct gw_json *j, const char *key, int64_t v); /* v / 1000, exactly: 1234500 is 1234.5 */
void gw_json_bool(struct gw_json *j, const char *key, int v);
void gw_json_flag(struct gw_json *j, const char *key, int v); /* null when below zero: "cannot be told" */
void gw_json_null(struct gw_json *j, const char *key);

#endif
