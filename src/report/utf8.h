/*
 * utf8.h - UTF-8 in and out, one code point at a time, safe on any bytes.
 *
 * Input is NUL-terminated and may be anything: bytes that are not UTF-8 (RFC 3629: no overlong forms, no surrogates,
 * nothing past U+10FFFF) read as U+FFFD, one for each maximal run that could have begun a character, as the Unicode
 * standard recommends (section 3.9). Pure; any thread.
 *
 *     for (const char *p = s; (cp = gw_utf8_next(&p)) != 0;) ...
 */
#ifndef GW_UTF8_H
#define GW_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define GW_UTF8_BAD 0xFFFDu

/* The code point at *s, and *s moved past it; 0 at the end of the text (then *s does not move). */
uint32_t gw_utf8_next(const char **s);
/* Writes `cp` and a NUL; returns the bytes before the NUL (1 to 4). An impossible `cp` is written as U+FFFD. */
size_t gw_utf8_put(char out[5], uint32_t cp);
/* Columns of a terminal that `cp` fills: 0 for marks, 2 for East Asian wide characters, -1 when it cannot be shown.
 * wcwidth(3) where LC_CTYPE is UTF-8; without any UTF-8 locale on the machine, by blocks of Unicode. */
int gw_utf8_width(uint32_t cp);

#endif
