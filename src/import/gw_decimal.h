/*
 * gw_decimal.h - decimal text to integers, exactly. Traces write microseconds with decimals ("5249236442031.655");
 * a double cannot hold those to the nanosecond, so they never become one.
 *
 * Pure functions, no allocation, any thread.
 *
 *     int64_t ns;
 *     if (gw_decimal_scaled("12.3455", 7, 3, &ns) == GW_DEC_OK)   (ns == 12346: half to even)
 */
#ifndef GW_DECIMAL_H
#define GW_DECIMAL_H

#include <stddef.h>
#include <stdint.h>

enum gw_dec {
    GW_DEC_OK = 0,
    GW_DEC_NAN = 1,  /* the text is no number */
    GW_DEC_RANGE = 2 /* NaN, an infinity, or beyond GW_TIME_LIMIT */
};

/* No time may be larger than this, either way: the difference of any two times then fits an int64. 2^62 ns is 146
 * years, and traces count from 1970 at most. */
#define GW_TIME_LIMIT ((int64_t)1 << 62)

/*
 * The number in all of [s, s + n), times 10^shift, rounded half to even. Takes an optional sign, digits, a fraction and
 * an exponent; NaN and infinities in any spelling of Python, C or JavaScript give GW_DEC_RANGE. `shift` in 0..9.
 */
enum gw_dec gw_decimal_scaled(const char *s, size_t n, int shift, int64_t *out);

/*
 * The same for the text that most traces hold, at the cost of its digits: reads microseconds at `p`, writes ns, returns
 * the first byte after the number. `end` bounds the reading. NULL when the text needs gw_decimal_scaled().
 */
const char *gw_decimal_us_fast(const char *p, const char *end, int64_t *ns);

/* An id: digits, a sign, or 0x and hex digits; up to 2^64 - 1, which keeps its bits as a negative int64_t. "7.0" counts
 * as
 * 7. 0 when the text is something else. */
int gw_decimal_id(const char *s, size_t n, int64_t *out);

#endif
