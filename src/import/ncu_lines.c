/* Lines out of blocks of bytes, in UTF-8 whatever the file is in: PowerShell writes what ncu prints as UTF-16. */
#include <stdlib.h>
#include <string.h>

#include "import/ncu.h"

#define LINE_MAX_BYTES ((size_t)8 << 20) /* a header with every metric of a GPU is 200 KB */

static int reserve(struct ncu_lines *l, size_t extra)
{
    if (l->at) { /* lines that were taken make room first */
        memmove(l->buf, l->buf + l->at, l->len - l->at);
        l->len -= l->at;
        l->at = 0;
    }
    if (l->len + extra + 1 <= l->cap)
        return GW_OK;
    size_t cap = (l->len + extra + 1) * 2;
    char *grown = realloc(l->buf, cap);
    if (!grown)
        return GW_ENOMEM;
    l->buf = grown;
    l->cap = cap;
    return GW_OK;
}

/* By the byte order mark; without one, a NUL in the first character gives UTF-16 away (ncu's output is ASCII there). */
static size_t detect(struct ncu_lines *l, const unsigned char *p, size_t n)
{
    if (n >= 2 && p[0] == 0xff && p[1] == 0xfe)
        return l->encoding = 16, 2;
    if (n >= 2 && p[0] == 0xfe && p[1] == 0xff)
        return l->encoding = -16, 2;
    if (n >= 2 && p[0] && !p[1])
        return l->encoding = 16, 0;
    if (n >= 2 && !p[0] && p[1])
        return l->encoding = -16, 0;
    l->encoding = 8;
    return n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3) ? 3 : 0;
}

/* One code point at most; a lone surrogate becomes '?'. */
static void put_utf8(struct ncu_lines *l, uint32_t c)
{
    char *p = l->buf + l->len;
    if (c < 0x80) {
        *p = (char)c;
        l->len += 1;
    } else if (c < 0x800) {
        p[0] = (char)(0xc0 | c >> 6);
        p[1] = (char)(0x80 | (c & 0x3f));
        l->len += 2;
    } else if (c >= 0xd800 && c < 0xe000) {
        *p = '?';
        l->len += 1;
    } else {
        p[0] = (char)(0xe0 | c >> 12);
        p[1] = (char)(0x80 | (c >> 6 & 0x3f));
        p[2] = (char)(0x80 | (c & 0x3f));
        l->len += 3;
    }
}

int ncu_lines_feed(struct ncu_lines *l, const char *data, size_t n)
{
    const unsigned char *p = (const unsigned char *)data;
    if (!l->encoding && n) {
        size_t skip = detect(l, p, n);
        p += skip;
        n -= skip;
    }
    if (reserve(l, n * 2) < 0) /* two bytes of UTF-16 are at most three of UTF-8 */
        return GW_ENOMEM;
    if (l->encoding == 8) {
        memcpy(l->buf + l->len, p, n);
        l->len += n;
        return GW_OK;
    }
    for (size_t i = 0; i < n; i++) {
        l->half[l->half_len++] = p[i];
        if (l->half_len < 2)
            continue;
        unsigned a = l->half[0], b = l->half[1];
        l->half_len = 0;
        put_utf8(l, l->encoding == 16 ? b << 8 | a : a << 8 | b);
    }
    return GW_OK;
}

char *ncu_lines_next(struct ncu_lines *l, int last, size_t *len)
{
    while (l->at < l->len) {
        char *line = l->buf + l->at, *end = memchr(line, '\n', l->len - l->at);
        size_t n = end ? (size_t)(end - line) : l->len - l->at;
        if (!end && !last) {
            if (n > LINE_MAX_BYTES) { /* no line of ncu: forget it, and what still comes of it */
                l->at = l->len;
                l->overlong = 1;
            }
            return NULL;
        }
        l->at += n + (end != NULL);
        if (l->overlong) {
            l->overlong = 0;
            continue;
        }
        if (n && line[n - 1] == '\r')
            n--;
        for (char *nul = line; (nul = memchr(nul, 0, (size_t)(line + n - nul))) != NULL;)
            *nul = '?'; /* names are kept as C strings */
        line[n] = 0;
        *len = n;
        return line;
    }
    return NULL;
}

void ncu_lines_free(struct ncu_lines *l)
{
    free(l->buf);
    *l = (struct ncu_lines){0};
}
