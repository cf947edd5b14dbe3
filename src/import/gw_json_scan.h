/*
 * gw_json_scan.h - walking over JSON text that lies in memory in one piece: keys, values, strings, a grammar check.
 *
 * No document is built and nothing recurses. Text is bytes: invalid UTF-8 passes through. The walk forgives what real
 * traces hold: raw control bytes in strings, backslashes that escape nothing, missing and trailing commas, NaN and
 * other bare words as values. Nothing is read at or past `end`.
 *
 * A backslash before a quote is the one place where forgiving needs a rule. In valid JSON the quote is part of the
 * string, and the next unescaped quote closes it and is followed by one of , } ] : or the end. Where that is not so,
 * but one of those follows the quote at hand, the text cannot be valid JSON as read so far: then the backslash was
 * meant as one (a Windows path that ends in a separator) and the quote closes the string. Valid JSON is never read
 * differently.
 *
 *     struct gw_json_cur c = {text + 1, end};                  (behind the opening brace)
 *     const char *key; size_t n;
 *     while (gw_json_next_key(&c, &key, &n) == 1)
 *         gw_json_skip_value(&c);
 */
#ifndef GW_JSON_SCAN_H
#define GW_JSON_SCAN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { GW_JSON_LOOK = 128 }; /* how far the rule above looks for the next quote, bytes */

struct gw_json_cur {
    const char *p, *end;
};

/* What a byte is outside strings: bit 0 white space, bit 1 the end of a bare word, bit 2 a comma. */
enum { GW_JSON_WS = 1, GW_JSON_STOP = 2, GW_JSON_COMMA = 4 };
extern const unsigned char gw_json_class[256];

static inline int gw_json_is(char c, int what) { return gw_json_class[(unsigned char)c] & what; }
static inline int gw_json_is_ws(char c) { return gw_json_is(c, GW_JSON_WS); }

static inline const char *gw_json_ws(const char *p, const char *end)
{
    while (p < end && gw_json_is_ws(*p))
        p++;
    return p;
}

/* Past white space and commas. Writers indent by some spaces after a line break: those go in one step. */
static inline const char *gw_json_gap(const char *p, const char *end)
{
#if defined(__SSE2__)
    if (end - p >= 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i blank = _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8(' ')), _mm_cmpeq_epi8(v, _mm_set1_epi8('\n')));
        blank = _mm_or_si128(blank, _mm_cmpeq_epi8(v, _mm_set1_epi8(',')));
        p += __builtin_ctz(~(unsigned)_mm_movemask_epi8(blank));
    }
#endif
    while (p < end && gw_json_is(*p, GW_JSON_WS | GW_JSON_COMMA))
        p++;
    return p;
}

/* `q` is a quote behind an odd number of backslashes, inside a string. 1: it closes the string, 0: it is part of it,
 * -1: cannot be told before more text is there (never when `complete`). */
int gw_json_quote_closes(const char *q, const char *end, int complete);

/* The next quote or backslash at or after `p`, or `end`. */
static inline const char *gw_json_special(const char *p, const char *end)
{
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"'), back = _mm_set1_epi8('\\');
    while (end - p >= 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        unsigned m = (unsigned)_mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, back)));
        if (m)
            return p + __builtin_ctz(m);
        p += 16;
    }
#endif
    while (p < end && *p != '"' && *p != '\\')
        p++;
    return p;
}

/* From a backslash at `p` inside a string to the closing quote; NULL when there is none. */
const char *gw_json_string_end_slow(const char *p, const char *end);

/* `p` is behind the opening quote; returns the closing quote, NULL when there is none before `end`. */
static inline const char *gw_json_string_end(const char *p, const char *end)
{
    p = gw_json_special(p, end);
    if (p == end)
        return NULL;
    return *p == '"' ? p : gw_json_string_end_slow(p, end);
}

/* The next key of an object: the cursor stands behind the opening brace or behind a value, and is left at the value.
 * 1: a key, as raw text between its quotes; 0: the object has ended, the cursor is behind its brace; -1: no JSON. */
static inline int gw_json_next_key(struct gw_json_cur *c, const char **key, size_t *n)
{
    const char *end = c->end, *p = gw_json_gap(c->p, end);
    c->p = p;
    if (p == end)
        return -1;
    if (*p == '}') {
        c->p = p + 1;
        return 0;
    }
    if (*p != '"')
        return -1;
    const char *close = gw_json_string_end(p + 1, end);
    if (!close)
        return -1;
    *key = p + 1;
    *n = (size_t)(close - p - 1);
    p = gw_json_ws(close + 1, end);
    c->p = p;
    if (p == end || *p != ':')
        return -1;
    c->p = gw_json_ws(p + 1, end);
    return 1;
}

/* Bytes of the bare word at `p`: a number, true, null, NaN, ... */
static inline size_t gw_json_word(const char *p, const char *end)
{
    const char *s = p;
    while (p < end && !gw_json_is(*p, GW_JSON_STOP))
        p++;
    return (size_t)(p - s);
}

/* Moves over the value at the cursor. 0, or -1: no JSON (the cursor is where the walk stopped). A missing value (", }")
 * is moved over too. Brackets are counted, not matched by kind. */
int gw_json_skip_value(struct gw_json_cur *c);

enum gw_json_check { GW_JSON_COMPLETE, GW_JSON_MORE, GW_JSON_WRONG };

/* Walks the grammar of the value at `p` as far as `stop`; text up to `end` may be looked at, and more follows it unless
 * `complete`. COMPLETE: *at is behind the value; MORE: no fault up to there (or it nests too deep to tell); WRONG: *at
 * is the first byte that cannot be. An event that starts inside a list of an event is wrong: that is a lost bracket. */
enum gw_json_check gw_json_check(const char *p, const char *stop, const char *end, int complete, const char **at);

/* Does the brace at `p` open a trace event? 1, 0, or -1: cannot be told before more text is there. */
int gw_json_event_start(const char *p, const char *end, int complete);

/* Decodes escapes. `dst` holds at least `n` bytes; returns the bytes written. What is no escape stays as it is; a lone
 * surrogate becomes U+FFFD. */
size_t gw_json_unescape(char *dst, const char *src, size_t n);

#endif
