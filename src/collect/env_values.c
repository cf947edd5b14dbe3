/* Values as the tools write them: numbers with units, switches, PCI addresses, CPU lists. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "collect/env.h"

static void trim(const char **s, size_t *n)
{
    while (*n && isspace((unsigned char)(*s)[0]))
        (*s)++, (*n)--;
    while (*n && isspace((unsigned char)(*s)[*n - 1]))
        (*n)--;
}

static int is(const char *s, size_t n, const char *word) { return strlen(word) == n && strncasecmp(s, word, n) == 0; }

struct word {
    const char *text;
    int64_t value;
};

static int lookup(const struct word *w, const char *s, size_t n, int64_t *out)
{
    for (; w->text; w++)
        if (is(s, n, w->text)) {
            *out = w->value;
            return 0;
        }
    return -1;
}

static const struct word switches[] = {{"Enabled", 1}, {"Active", 1},   {"Yes", 1},        {"On", 1}, {"True", 1},
                                       {"1", 1},       {"Disabled", 0}, {"Not Active", 0}, {"No", 0}, {"Off", 0},
                                       {"False", 0},   {"0", 0},        {NULL, 0}};
static const struct word compute_modes[] = {
    {"Default", 0},   {"Exclusive_Thread", 1}, {"Prohibited", 2}, {"Exclusive_Process", 3},
    {"E. Thread", 1}, {"E. Process", 3},       {NULL, 0}};
static const struct word fabric_states[] = {{"Not Started", 1}, {"In Progress", 2}, {"Completed", 3}, {NULL, 0}};
static const struct word actions[] = {{"None", 0},   {"GPU Reset", 1}, {"Reset", 1},           {"Node Reboot", 1},
                                      {"Reboot", 1}, {"Drain P2P", 1}, {"Drain and Reset", 1}, {NULL, 0}};

/* Decimal text times `scale` (a power of ten), digits past the scale dropped. Returns characters used, 0 = no number.
 */
static size_t decimal(const char *s, size_t n, int64_t scale, int64_t *out)
{
    size_t i = 0, digits = 0;
    int neg = 0;
    int64_t v = 0;
    if (i < n && (s[i] == '-' || s[i] == '+'))
        neg = s[i++] == '-';
    for (; i < n && isdigit((unsigned char)s[i]); i++, digits++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, s[i] - '0', &v))
            return 0;
    if (__builtin_mul_overflow(v, scale, &v))
        return 0;
    if (i < n && s[i] == '.') {
        int64_t weight = scale;
        for (i++; i < n && isdigit((unsigned char)s[i]); i++, digits++) {
            weight /= 10;
            if (__builtin_add_overflow(v, (s[i] - '0') * weight, &v))
                return 0;
        }
    }
    if (!digits)
        return 0;
    *out = neg ? -v : v;
    return i;
}

static int hexadecimal(const char *s, size_t n, int64_t *out)
{
    if (n < 3 || n > 18 || s[0] != '0' || (s[1] != 'x' && s[1] != 'X'))
        return -1;
    uint64_t v = 0;
    for (size_t i = 2; i < n; i++) {
        if (!isxdigit((unsigned char)s[i]))
            return -1;
        unsigned c = (unsigned char)s[i];
        v = v << 4 | (isdigit((int)c) ? c - '0' : (c | 32u) - 'a' + 10);
    }
    if (v > INT64_MAX)
        return -1;
    *out = (int64_t)v;
    return 0;
}

static int64_t byte_factor(const char *s, size_t n)
{
    static const struct word units[] = {{"", 1 << 20},   {"MiB", 1 << 20}, {"MB", 1 << 20}, {"KiB", 1 << 10},
                                        {"KB", 1 << 10}, {"GiB", 1 << 30}, {"GB", 1 << 30}, {"B", 1},
                                        {"bytes", 1},    {NULL, 0}};
    int64_t f = -1;
    return lookup(units, s, n, &f) == 0 ? f : -1;
}

int gw_unit_parse(enum gw_unit unit, const char *text, size_t len, int64_t *out)
{
    trim(&text, &len);
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') /* "[N/A]", "[Not Supported]" */
        return -1;
    int64_t v = 0, factor;
    size_t used;
    switch (unit) {
    case GW_UNIT_BOOL: return lookup(switches, text, len, out);
    case GW_UNIT_CMODE: return lookup(compute_modes, text, len, out);
    case GW_UNIT_FABRIC: return lookup(fabric_states, text, len, out);
    case GW_UNIT_ACTION: return lookup(actions, text, len, out);
    case GW_UNIT_MASK: return hexadecimal(text, len, out);
    case GW_UNIT_PSTATE:
        if (len < 2 || text[0] != 'P')
            return -1;
        used = decimal(text + 1, len - 1, 1, &v);
        if (used != len - 1 || v < 0 || v > 15) /* NVML knows P0 to P15 */
            return -1;
        *out = v;
        return 0;
    default: break;
    }
    used = decimal(text, len, unit == GW_UNIT_MW || unit == GW_UNIT_BYTES ? 1000 : 1, &v);
    if (!used)
        return -1;
    const char *rest = text + used;
    size_t left = len - used;
    trim(&rest, &left);
    if (unit == GW_UNIT_BYTES) {
        factor = byte_factor(rest, left);
        if (factor < 0 || __builtin_mul_overflow(v, factor, &v))
            return -1;
        v /= 1000;
    } else if (unit == GW_UNIT_KBPS && is(rest, left, "MB/s")) {
        if (__builtin_mul_overflow(v, 1000, &v))
            return -1;
    } else if (left > 8 || memchr(rest, ':', left)) {
        return -1; /* a unit is a short word; anything longer is a sentence that happens to begin with a digit */
    }
    *out = v;
    return 0;
}

int gw_bus_id_normal(const char *text, size_t len, char out[GW_BUS_ID_CAP])
{
    trim(&text, &len);
    /* [domain:]bus:device.function, hexadecimal; the domain has four or eight digits */
    unsigned long part[4] = {0, 0, 0, 0};
    char seps[3] = {0, 0, 0};
    int n = 0;
    size_t digits = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned c = (unsigned char)text[i];
        if (isxdigit((int)c)) {
            if (++digits > 8)
                return -1;
            part[n] = part[n] << 4 | (isdigit((int)c) ? c - '0' : (c | 32u) - 'a' + 10);
        } else if ((c == ':' || c == '.') && digits && n < 3) {
            seps[n++] = (char)c;
            digits = 0;
        } else {
            return -1;
        }
    }
    if (!digits)
        return -1;
    if (n == 2 && seps[0] == ':' && seps[1] == '.') {
        part[3] = part[2], part[2] = part[1], part[1] = part[0], part[0] = 0;
    } else if (n != 3 || seps[0] != ':' || seps[1] != ':' || seps[2] != '.') {
        return -1;
    }
    if (part[0] > 0xffffffff || part[1] > 0xff || part[2] > 0x1f || part[3] > 7)
        return -1;
    static const char hex[] = "0123456789abcdef";
    size_t at = 0;
    for (int shift = part[0] > 0xffff ? 28 : 12; shift >= 0; shift -= 4)
        out[at++] = hex[(part[0] >> shift) & 15];
    out[at++] = ':';
    out[at++] = hex[part[1] >> 4], out[at++] = hex[part[1] & 15];
    out[at++] = ':';
    out[at++] = hex[part[2] >> 4], out[at++] = hex[part[2] & 15];
    out[at++] = '.';
    out[at++] = hex[part[3]];
    out[at] = '\0';
    return 0;
}

int64_t gw_cpulist_count(const char *text, unsigned char *mask, size_t bits)
{
    int64_t n = 0;
    const char *p = text;
    while (isspace((unsigned char)*p))
        p++;
    if (!*p)
        return 0;
    for (;;) {
        long a = 0, b;
        if (!isdigit((unsigned char)*p))
            return -1;
        for (; isdigit((unsigned char)*p) && a < 1000000; p++)
            a = a * 10 + (*p - '0');
        b = a;
        if (*p == '-') {
            p++;
            if (!isdigit((unsigned char)*p))
                return -1;
            for (b = 0; isdigit((unsigned char)*p) && b < 1000000; p++)
                b = b * 10 + (*p - '0');
        }
        if (b < a || b > 65535) /* the kernel allows 8192 */
            return -1;
        for (long c = a; c <= b; c++) {
            n++;
            if (mask && (size_t)c < bits)
                mask[c / 8] = (unsigned char)(mask[c / 8] | 1u << (c % 8));
        }
        if (*p == ',') {
            p++;
            continue;
        }
        while (isspace((unsigned char)*p))
            p++;
        return *p ? -1 : n;
    }
}
