/* Text helpers of the readers, and the way from odd encodings to plain lines. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "collect/capture/capture.h"

int gw_slice_line(struct gw_slice *rest, struct gw_slice *line)
{
    const char *nl = rest->n ? memchr(rest->p, '\n', rest->n) : NULL;
    line->p = rest->p;
    line->n = nl ? (size_t)(nl - rest->p) : rest->n;
    if (!rest->n)
        return 0;
    size_t used = line->n + (nl ? 1 : 0);
    rest->p += used;
    rest->n -= used;
    return 1;
}

int gw_slice_word(struct gw_slice *rest, struct gw_slice *word)
{
    while (rest->n && isspace((unsigned char)*rest->p))
        rest->p++, rest->n--;
    word->p = rest->p;
    while (rest->n && !isspace((unsigned char)*rest->p))
        rest->p++, rest->n--;
    word->n = (size_t)(rest->p - word->p);
    return word->n > 0;
}

int gw_slice_split(struct gw_slice *rest, char sep, struct gw_slice *part)
{
    if (!rest->p)
        return 0;
    const char *at = rest->n ? memchr(rest->p, sep, rest->n) : NULL;
    part->p = rest->p;
    part->n = at ? (size_t)(at - rest->p) : rest->n;
    if (at) {
        rest->n -= part->n + 1;
        rest->p = at + 1;
    } else {
        rest->n = 0;
        rest->p = NULL; /* the last part was taken; an empty part after a separator still counts */
    }
    return 1;
}

struct gw_slice gw_slice_trim(struct gw_slice t)
{
    while (t.n && isspace((unsigned char)t.p[0]))
        t.p++, t.n--;
    while (t.n && isspace((unsigned char)t.p[t.n - 1]))
        t.n--;
    return t;
}

int gw_slice_is(struct gw_slice t, const char *s) { return strlen(s) == t.n && memcmp(t.p, s, t.n) == 0; }
int gw_slice_starts(struct gw_slice t, const char *s) { return strlen(s) <= t.n && memcmp(t.p, s, strlen(s)) == 0; }
const char *gw_slice_find(struct gw_slice t, const char *s) { return t.n ? memmem(t.p, t.n, s, strlen(s)) : NULL; }
int gw_slice_has(struct gw_slice t, const char *s) { return gw_slice_find(t, s) != NULL; }

int gw_slice_number(struct gw_slice t, int64_t *out)
{
    t = gw_slice_trim(t);
    size_t i = 0;
    int64_t v = 0;
    int neg = t.n > 1 && t.p[0] == '-';
    for (i = neg ? 1 : 0; i < t.n; i++)
        if (!isdigit((unsigned char)t.p[i]) || __builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, t.p[i] - '0', &v))
            return -1;
    if (i == 0)
        return -1;
    *out = neg ? -v : v;
    return 0;
}

int gw_slice_decimal(struct gw_slice t, double *out)
{
    t = gw_slice_trim(t);
    double v = 0, weight = 1;
    size_t digits = 0;
    int point = 0;
    for (size_t i = 0; i < t.n; i++) {
        char c = t.p[i];
        if ((c == '.' || c == ',') && !point) { /* iostat writes a comma in some locales */
            point = 1;
        } else if (isdigit((unsigned char)c) && digits < 30) {
            digits++;
            if (point)
                v += (c - '0') * (weight /= 10);
            else
                v = v * 10 + (c - '0');
        } else {
            return -1;
        }
    }
    if (!digits)
        return -1;
    *out = v;
    return 0;
}

int gw_slice_pair(struct gw_slice line, struct gw_slice *key, struct gw_slice *value)
{
    const char *colon = gw_slice_find(line, " : ");
    if (colon)
        colon++;
    else
        colon = line.n ? memchr(line.p, ':', line.n) : NULL;
    if (!colon)
        return 0;
    *key = gw_slice_trim((struct gw_slice){line.p, (size_t)(colon - line.p)});
    *value = gw_slice_trim((struct gw_slice){colon + 1, line.n - (size_t)(colon + 1 - line.p)});
    return key->n > 0;
}

int64_t gw_slice_cuda_version(struct gw_slice t)
{
    struct gw_slice part;
    int64_t major, minor = 0;
    if (!gw_slice_split(&t, '.', &part) || gw_slice_number(part, &major) < 0)
        return -1;
    if (t.p && (!gw_slice_split(&t, '.', &part) || gw_slice_number(part, &minor) < 0))
        return -1;
    return major >= 1 && major < 1000 && minor >= 0 && minor < 100 ? major * 1000 + minor * 10 : -1;
}

/* Days since 1970-01-01 of a date of the Gregorian calendar. */
static int64_t days(int64_t y, int64_t m, int64_t d)
{
    y -= m <= 2;
    int64_t era = y / 400, yoe = y - era * 400, doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

static int clock_ns(struct gw_slice t, int64_t *out)
{
    struct gw_slice h, m;
    int64_t hour, minute, second, frac = 0;
    if (!gw_slice_split(&t, ':', &h) || !t.p || !gw_slice_split(&t, ':', &m) || !t.p)
        return -1;
    struct gw_slice s, f = t;
    if (!gw_slice_split(&f, '.', &s) || gw_slice_number(h, &hour) < 0 || gw_slice_number(m, &minute) < 0 ||
        gw_slice_number(s, &second) < 0 || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 ||
        second > 60)
        return -1;
    int64_t weight = 100000000;
    for (size_t i = 0; f.p && i < f.n && isdigit((unsigned char)f.p[i]) && weight; i++, weight /= 10)
        frac += (f.p[i] - '0') * weight;
    *out = ((hour * 60 + minute) * 60 + second) * 1000000000 + frac;
    return 0;
}

int64_t gw_slice_time(struct gw_slice t)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct gw_slice a, b, c, clock;
    int64_t y, m, d, ns;
    t = gw_slice_trim(t);
    if (t.n > 10 && (t.p[4] == '/' || t.p[4] == '-')) {
        char sep = t.p[4];
        struct gw_slice date = {t.p, 10};
        clock = (struct gw_slice){t.p + 11, t.n - 11};
        if (!gw_slice_split(&date, sep, &a) || !gw_slice_split(&date, sep, &b) || !gw_slice_split(&date, sep, &c) ||
            gw_slice_number(a, &y) < 0 || gw_slice_number(b, &m) < 0 || gw_slice_number(c, &d) < 0)
            return GW_ENV_NONE;
    } else {
        struct gw_slice day, year;
        if (!gw_slice_word(&t, &a) || !gw_slice_word(&t, &b) || !gw_slice_word(&t, &day) ||
            !gw_slice_word(&t, &clock) || !gw_slice_word(&t, &year) || b.n != 3 || gw_slice_number(day, &d) < 0 ||
            gw_slice_number(year, &y) < 0)
            return GW_ENV_NONE;
        for (m = 1; m <= 12 && memcmp(months + 3 * (m - 1), b.p, 3) != 0; m++)
            ;
    }
    if (y < 1970 || y > 2200 || m < 1 || m > 12 || d < 1 || d > 31 || clock_ns(gw_slice_trim(clock), &ns) < 0)
        return GW_ENV_NONE;
    return days(y, m, d) * 86400 * 1000000000 + ns;
}

/* --- decoding ------------------------------------------------------------------------------------------------ */

static size_t put_utf8(char *out, unsigned long c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* UTF-16 without a mark: ASCII text has a zero in every second byte. Returns 0 = no, 1 = little, 2 = big endian. */
static int utf16(const unsigned char *d, size_t n)
{
    if (n >= 2 && d[0] == 0xff && d[1] == 0xfe)
        return 1;
    if (n >= 2 && d[0] == 0xfe && d[1] == 0xff)
        return 2;
    size_t look = n < 256 ? n & ~(size_t)1 : 256, even = 0, odd = 0;
    for (size_t i = 0; i + 1 < look; i += 2) {
        even += d[i] == 0;
        odd += d[i + 1] == 0;
    }
    if (look >= 16 && odd > look / 2 * 9 / 10 && even == 0)
        return 1;
    return look >= 16 && even > look / 2 * 9 / 10 && odd == 0 ? 2 : 0;
}

static size_t from_utf16(const unsigned char *d, size_t n, int big, char *out)
{
    size_t at = 0;
    for (size_t i = 0; i + 1 < n; i += 2) {
        unsigned long c = big ? (unsigned long)d[i] << 8 | d[i + 1] : (unsigned long)d[i + 1] << 8 | d[i];
        if (c >= 0xd800 && c < 0xdc00 && i + 3 < n) {
            unsigned long low = big ? (unsigned long)d[i + 2] << 8 | d[i + 3] : (unsigned long)d[i + 3] << 8 | d[i + 2];
            if (low >= 0xdc00 && low < 0xe000) {
                c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
                i += 2;
            }
        }
        if (c != 0xfeff)
            at += put_utf8(out + at, c);
    }
    return at;
}

/* The length of the escape sequence at s[0] == ESC. */
static size_t escape(const char *s, size_t n)
{
    size_t i = 2;
    if (n < 2)
        return n;
    if (s[1] == '[') { /* CSI: parameters, then one byte from @ to ~ */
        while (i < n && ((unsigned char)s[i] < 0x40 || (unsigned char)s[i] > 0x7e) && s[i] != '\n')
            i++;
        return i < n && s[i] != '\n' ? i + 1 : i;
    }
    if (s[1] == ']') { /* OSC: up to BEL or ESC \ */
        while (i < n && s[i] != '\a' && s[i] != 033 && s[i] != '\n')
            i++;
        return i < n && s[i] == '\a' ? i + 1 : i;
    }
    return 2;
}

char *gw_slice_decode(const char *data, size_t len, size_t *out_len)
{
    const unsigned char *d = (const unsigned char *)data;
    char *text = malloc(len / 2 * 3 + 4); /* the worst case: two bytes of UTF-16 become three */
    if (!text)
        return NULL;
    size_t n, at = 0;
    int wide = utf16(d, len);
    if (wide) {
        n = from_utf16(d, len, wide == 2, text);
    } else {
        memcpy(text, data, len);
        n = len;
    }
    for (size_t i = 0; i < n;) {
        char c = text[i];
        if (c == 033) {
            i += escape(text + i, n - i);
        } else if (n - i >= 3 && memcmp(text + i, "\xef\xbb\xbf", 3) == 0) {
            i += 3;
        } else if (c == '\r') {
            if (i + 1 >= n || text[i + 1] != '\n')
                text[at++] = '\n';
            i++;
        } else {
            text[at++] = c == '\0' || c == '\a' || c == '\b' ? ' ' : c;
            i++;
        }
    }
    text[at] = '\0';
    *out_len = at;
    return text;
}
