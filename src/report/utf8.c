#include "report/utf8.h"

#include <stdlib.h>
#include <wchar.h>

/* Length of a character by its first byte, with the bounds of its second byte (RFC 3629, section 4); 0 = no start. */
static int lead(unsigned char c, unsigned char *lo, unsigned char *hi)
{
    *lo = 0x80;
    *hi = 0xbf;
    if (c >= 0xc2 && c <= 0xdf)
        return 2;
    if (c >= 0xe0 && c <= 0xef) {
        if (c == 0xe0)
            *lo = 0xa0; /* else overlong */
        if (c == 0xed)
            *hi = 0x9f; /* else a surrogate */
        return 3;
    }
    if (c >= 0xf0 && c <= 0xf4) {
        if (c == 0xf0)
            *lo = 0x90; /* else overlong */
        if (c == 0xf4)
            *hi = 0x8f; /* else past U+10FFFF */
        return 4;
    }
    return 0;
}

uint32_t gw_utf8_next(const char **s)
{
    const unsigned char *p = (const unsigned char *)*s;
    unsigned char lo, hi;
    if (*p < 0x80) {
        if (*p)
            ++*s;
        return *p;
    }
    int len = lead(*p, &lo, &hi);
    uint32_t cp = len == 2 ? *p & 0x1fu : len == 3 ? *p & 0x0fu : *p & 0x07u;
    int i = 1;
    for (; i < len; i++, lo = 0x80, hi = 0xbf) {
        if (p[i] < lo || p[i] > hi) /* also stops at the NUL */
            break;
        cp = (cp << 6) | (p[i] & 0x3fu);
    }
    *s += i;
    return len && i == len ? cp : GW_UTF8_BAD;
}

size_t gw_utf8_put(char out[5], uint32_t cp)
{
    if (cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff))
        cp = GW_UTF8_BAD;
    size_t n = 0;
    if (cp < 0x80) {
        out[n++] = (char)cp;
    } else if (cp < 0x800) {
        out[n++] = (char)(0xc0 | (cp >> 6));
        out[n++] = (char)(0x80 | (cp & 0x3f));
    } else if (cp < 0x10000) {
        out[n++] = (char)(0xe0 | (cp >> 12));
        out[n++] = (char)(0x80 | ((cp >> 6) & 0x3f));
        out[n++] = (char)(0x80 | (cp & 0x3f));
    } else {
        out[n++] = (char)(0xf0 | (cp >> 18));
        out[n++] = (char)(0x80 | ((cp >> 12) & 0x3f));
        out[n++] = (char)(0x80 | ((cp >> 6) & 0x3f));
        out[n++] = (char)(0x80 | (cp & 0x3f));
    }
    out[n] = 0;
    return n;
}

/* Blocks whose characters are all wide (Unicode 15, EastAsianWidth.txt, W and F), in order. */
static const struct {
    uint32_t first, last;
} wide[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},  {0xa960, 0xa97c}, {0xac00, 0xd7a3},
            {0xf900, 0xfaff},   {0xfe30, 0xfe6b},   {0xff01, 0xff60},  {0xffe0, 0xffe6}, {0x1f300, 0x1f64f},
            {0x1f900, 0x1f9ff}, {0x20000, 0x2fffd}, {0x30000, 0x3fffd}};

int gw_utf8_width(uint32_t cp)
{
    int w = wcwidth((wchar_t)cp);
    if (w >= 0 || MB_CUR_MAX > 1) /* a locale of many bytes knows its characters */
        return w;
    if (cp < 0xa0)
        return -1;
    if (cp >= 0x300 && cp <= 0x36f) /* combining diacritical marks */
        return 0;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (cp >= wide[i].first && cp <= wide[i].last)
            return 2;
    return 1;
}
