/*
 * fmt.h - numbers as people read them, the same in every renderer.
 *
 * Two to three significant digits, a unit that fits, and "n/a" for what is not known (NAN, or below zero). Number and
 * unit are joined by a no-break space (U+00A0), ranges by an en dash. The result is a value: use `.s` at once.
 * Pure; any thread. The decimal sign is that of LC_NUMERIC, which the program leaves at "C".
 *
 *     printf("%s\n", gw_fmt_time(13600000).s);     "13.6 ms"
 */
#ifndef GW_FMT_H
#define GW_FMT_H

#include <stdint.h>

struct gw_fmt {
    char s[48];
};

struct gw_fmt gw_fmt_time(int64_t ns); /* "950 ns" "71.0 µs" "13.6 ms" "2.50 s" "17 min" "3.2 h" */
struct gw_fmt gw_fmt_time_range(int64_t low, int64_t high); /* "8.8–9.8 ms"; one number when both read the same */
struct gw_fmt gw_fmt_bytes(int64_t bytes);                  /* "512 B" "1.50 KiB" "40.2 MiB" */
struct gw_fmt gw_fmt_rate(double bytes_per_second);         /* "85.1 MB/s" */
struct gw_fmt gw_fmt_count(int64_t n);                      /* "7" "12 345" */
struct gw_fmt gw_fmt_percent(double share);                 /* 0.556 -> "55.6 %"; "<0.1 %" for less that is not zero */
struct gw_fmt gw_fmt_percent_short(double share);           /* 0.381 -> "38 %" */
struct gw_fmt gw_fmt_factor(double factor);                 /* "1.4×"; two decimals below 1.2, none from 10 up */
struct gw_fmt gw_fmt_factor_range(double low, double high); /* "1.4–1.5×" */

#endif
