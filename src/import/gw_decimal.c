#include "import/gw_decimal.h"

#include <string.h>
#include <strings.h>

static int is_digit(char c) { return c >= '0' && c <= '9'; }

static const uint64_t pow10_u64[] = {1, 10, 100, 1000};

const char *gw_decimal_us_fast(const char *p, const char *end, int64_t *ns)
{
    int neg = p < end && *p == '-';
    const char *first = p += neg;
    uint64_t v = 0;
    while (p < end && is_digit(*p))
        v = v * 10 + (uint64_t)(*p++ - '0');
    if (p == first || p - first > 16) /* 10^16 us in ns fit 64 bits unsigned; longer ones take the careful way */
        return NULL;
    int frac = 0;
    if (p < end && *p == '.') {
        p++;
        while (p < end && is_digit(*p) && frac < 3) {
            v = v * 10 + (uint64_t)(*p++ - '0');
            frac++;
        }
        if (frac == 0 || (p < end && is_digit(*p)))
            return NULL;
    }
    if (p < end && (*p == 'e' || *p == 'E'))
        return NULL;
    v *= pow10_u64[3 - frac];
    if (v > (uint64_t)GW_TIME_LIMIT)
        return NULL;
    *ns = neg ? -(int64_t)v : (int64_t)v;
    return p;
}

static int is_special(const char *s, size_t n)
{
    static const char *const words[] = {"nan", "inf", "infinity"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (n == strlen(words[i]) && !strncasecmp(s, words[i], n))
            return 1;
    return 0;
}

/* Reads "e+12" at *p. Large exponents saturate: they are out of range (or zero) whatever the digits. */
static int read_exponent(const char **p, const char *end, int64_t *exp)
{
    const char *q = *p + 1;
    int neg = 0;
    if (q < end && (*q == '+' || *q == '-'))
        neg = *q++ == '-';
    if (q == end || !is_digit(*q))
        return 0;
    int64_t e = 0;
    for (; q < end && is_digit(*q); q++)
        if (e < 1000000)
            e = e * 10 + (*q - '0');
    *exp = neg ? -e : e;
    *p = q;
    return 1;
}

/* 19 digits always fit 64 bits; what follows only matters for rounding. */
enum { MAX_DIGITS = 19 };

struct digits {
    uint64_t head; /* the digits before the rounding point */
    int next;      /* the first digit after it, or 0 */
    int sticky;    /* a non-zero digit further on */
};

/* Splits the digits of [int_s, int_e) [frac_s, frac_e) `keep` digits after the first one of the text. */
static int take_digits(const char *int_s, const char *int_e, const char *frac_s, const char *frac_e, int64_t keep,
                       struct digits *d)
{
    int64_t i = 0;
    int used = 0;
    *d = (struct digits){0, 0, 0};
    for (int part = 0; part < 2; part++) {
        const char *s = part ? frac_s : int_s, *e = part ? frac_e : int_e;
        for (; s < e; s++, i++) {
            int v = *s - '0';
            if (i < keep) {
                if (used || v)
                    used++;
                if (used > MAX_DIGITS)
                    return 0;
                d->head = d->head * 10 + (uint64_t)v;
            } else if (i == keep) {
                d->next = v;
            } else {
                d->sticky |= v;
            }
        }
    }
    for (; i < keep; i++) { /* the text ends before the rounding point: zeros */
        if (d->head == 0)
            return 1;
        if (++used > MAX_DIGITS)
            return 0;
        d->head *= 10;
    }
    return 1;
}

enum gw_dec gw_decimal_scaled(const char *s, size_t n, int shift, int64_t *out)
{
    const char *p = s, *end = s + n;
    int neg = 0;
    if (p < end && (*p == '-' || *p == '+'))
        neg = *p++ == '-';
    if (is_special(p, (size_t)(end - p)))
        return GW_DEC_RANGE;
    const char *int_s = p;
    while (p < end && is_digit(*p))
        p++;
    const char *int_e = p, *frac_s = p, *frac_e = p;
    if (p < end && *p == '.') {
        frac_s = ++p;
        while (p < end && is_digit(*p))
            p++;
        frac_e = p;
    }
    if (int_s == int_e && frac_s == frac_e)
        return GW_DEC_NAN;
    int64_t exp = 0;
    if (p < end && (*p == 'e' || *p == 'E') && !read_exponent(&p, end, &exp))
        return GW_DEC_NAN;
    if (p != end)
        return GW_DEC_NAN;
    int64_t keep = (int_e - int_s) + exp + shift;
    struct digits d = {0, 0, 0};
    if (keep >= 0) {
        if (!take_digits(int_s, int_e, frac_s, frac_e, keep, &d))
            return GW_DEC_RANGE;
    } /* keep < 0: below a tenth of the unit, which rounds to zero */
    if (d.next > 5 || (d.next == 5 && (d.sticky || (d.head & 1))))
        d.head++;
    if (d.head > (uint64_t)GW_TIME_LIMIT)
        return GW_DEC_RANGE;
    *out = neg ? -(int64_t)d.head : (int64_t)d.head;
    return GW_DEC_OK;
}

static int id_hex(const char *p, const char *end, uint64_t *v)
{
    if (p == end || end - p > 16)
        return 0;
    for (*v = 0; p < end; p++) {
        int c = *p | 0x20;
        int d = is_digit(*p) ? *p - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (d < 0)
            return 0;
        *v = *v << 4 | (uint64_t)d;
    }
    return 1;
}

int gw_decimal_id(const char *s, size_t n, int64_t *out)
{
    const char *p = s, *end = s + n;
    uint64_t v = 0;
    if (n > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X')) {
        if (!id_hex(p + 2, end, &v))
            return 0;
        *out = (int64_t)v;
        return 1;
    }
    int neg = p < end && *p == '-';
    p += neg;
    const char *first = p;
    for (; p < end && is_digit(*p); p++) {
        uint64_t d = (uint64_t)(*p - '0');
        if (v > (UINT64_MAX - d) / 10)
            return 0;
        v = v * 10 + d;
    }
    if (p == first)
        return 0;
    if (p < end && *p == '.')
        for (p++; p < end && *p == '0'; p++)
            ;
    if (p != end || (neg && v > (uint64_t)INT64_MAX))
        return 0;
    *out = neg ? -(int64_t)v : (int64_t)v;
    return 1;
}
