#include "report/fmt.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/gw_i18n.h"

#define NBSP "\xc2\xa0"
#define DASH "\xe2\x80\x93"
#define TIMES "\xc3\x97"
#define MICRO "\xc2\xb5"

static struct gw_fmt not_known(void)
{
    struct gw_fmt f;
    snprintf(f.s, sizeof f.s, "%s", _("n/a"));
    return f;
}

/* Decimals that leave three significant digits: 8.82, 13.6, 136. */
static int decimals3(double v) { return v < 9.995 ? 2 : v < 99.95 ? 1 : 0; }

struct unit {
    double size;
    const char *name;
};

/* The largest unit of which `v` is at least one, after rounding to three digits (so 999.6 µs reads 1.00 ms). */
static const struct unit *unit_for(const struct unit *units, double v)
{
    const struct unit *u = units;
    while (u[1].name && v >= u[1].size * (u[1].size / u->size >= 999.0 ? 0.9995 : 1.0))
        u++;
    return u;
}

/* Seconds stay seconds up to 120, because "95 s" reads better than "1.6 min". */
static const struct unit time_units[] = {{1, "ns"},     {1e3, MICRO "s"}, {1e6, "ms"}, {1e9, "s"},
                                         {60e9, "min"}, {3600e9, "h"},    {0, NULL}};
static const struct unit byte_units[] = {
    {1, "B"}, {1024.0, "KiB"}, {1048576.0, "MiB"}, {1073741824.0, "GiB"}, {1099511627776.0, "TiB"}, {0, NULL}};
static const struct unit rate_units[] = {{1, "B/s"},    {1e3, "kB/s"},  {1e6, "MB/s"},
                                         {1e9, "GB/s"}, {1e12, "TB/s"}, {0, NULL}};

static const struct unit *time_unit(double ns)
{
    const struct unit *u = unit_for(time_units, ns);
    return u->size == 60e9 && ns < 120e9 ? u - 1 : u;
}

struct gw_fmt gw_fmt_time(int64_t ns)
{
    if (ns < 0)
        return not_known();
    struct gw_fmt f;
    const struct unit *u = time_unit((double)ns);
    double v = (double)ns / u->size;
    snprintf(f.s, sizeof f.s, "%.*f" NBSP "%s", u == time_units ? 0 : decimals3(v), v, u->name);
    return f;
}

struct gw_fmt gw_fmt_time_range(int64_t low, int64_t high)
{
    if (low < 0 || high < 0)
        return not_known();
    if (low > high) {
        int64_t t = low;
        low = high;
        high = t;
    }
    struct gw_fmt f;
    char a[16], b[16];
    const struct unit *u = time_unit((double)high);
    int digits = u == time_units || (double)high / u->size >= 99.95 ? 0 : 1;
    snprintf(a, sizeof a, "%.*f", digits, (double)low / u->size);
    snprintf(b, sizeof b, "%.*f", digits, (double)high / u->size);
    if (strcmp(a, b) == 0)
        snprintf(f.s, sizeof f.s, "%s" NBSP "%s", a, u->name);
    else
        snprintf(f.s, sizeof f.s, "%s" DASH "%s" NBSP "%s", a, b, u->name);
    return f;
}

struct gw_fmt gw_fmt_bytes(int64_t bytes)
{
    if (bytes < 0)
        return not_known();
    struct gw_fmt f;
    const struct unit *u = unit_for(byte_units, (double)bytes);
    double v = (double)bytes / u->size;
    snprintf(f.s, sizeof f.s, "%.*f" NBSP "%s", u == byte_units ? 0 : decimals3(v), v, u->name);
    return f;
}

struct gw_fmt gw_fmt_rate(double bytes_per_second)
{
    if (!(bytes_per_second >= 0) || isinf(bytes_per_second))
        return not_known();
    struct gw_fmt f;
    const struct unit *u = unit_for(rate_units, bytes_per_second);
    double v = bytes_per_second / u->size;
    snprintf(f.s, sizeof f.s, "%.*f" NBSP "%s", u == rate_units ? 0 : decimals3(v), v, u->name);
    return f;
}

struct gw_fmt gw_fmt_count(int64_t n)
{
    if (n < 0)
        return not_known();
    struct gw_fmt f;
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%" PRId64, n);
    size_t o = 0;
    for (int i = 0; i < len; i++) {
        if (i && len > 4 && (len - i) % 3 == 0) { /* four digits need no grouping */
            memcpy(f.s + o, NBSP, 2);
            o += 2;
        }
        f.s[o++] = digits[i];
    }
    f.s[o] = 0;
    return f;
}

struct gw_fmt gw_fmt_percent(double share)
{
    if (!isfinite(share))
        return not_known();
    struct gw_fmt f;
    if (share > 0 && share < 0.0005)
        snprintf(f.s, sizeof f.s, "<0.1" NBSP "%%");
    else
        snprintf(f.s, sizeof f.s, "%.1f" NBSP "%%", share * 100.0);
    return f;
}

struct gw_fmt gw_fmt_percent_short(double share)
{
    if (!isfinite(share))
        return not_known();
    struct gw_fmt f;
    if (share > 0 && share < 0.005)
        snprintf(f.s, sizeof f.s, "<1" NBSP "%%");
    else
        snprintf(f.s, sizeof f.s, "%.0f" NBSP "%%", share * 100.0);
    return f;
}

static int factor_decimals(double f) { return f < 1.195 ? 2 : f < 9.95 ? 1 : 0; }

struct gw_fmt gw_fmt_factor(double factor) { return gw_fmt_factor_range(factor, factor); }

struct gw_fmt gw_fmt_factor_range(double low, double high)
{
    if (!isfinite(low) || !isfinite(high) || low < 0)
        return not_known();
    struct gw_fmt f;
    char a[20], b[20];
    int digits = factor_decimals(low);
    snprintf(a, sizeof a, "%.*f", digits, low < 1e9 ? low : 1e9);
    snprintf(b, sizeof b, "%.*f", high < 2 ? digits : factor_decimals(high), high < 1e9 ? high : 1e9);
    if (strcmp(a, b) == 0 || high <= low)
        snprintf(f.s, sizeof f.s, "%s" TIMES, a);
    else
        snprintf(f.s, sizeof f.s, "%s" DASH "%s" TIMES, a, b);
    return f;
}
