/* steps.h - repetition in a sequence of kernels, exposed for tests. */
#ifndef GW_STEPS_H
#define GW_STEPS_H

#include <stddef.h>
#include <stdint.h>

/* The period of `seq`: smallest p for which at least 85 % of the elements equal the one p later and that occurs at
 * least three times. 0 when there is none. `share` gets the part that matches. Tries periods suggested by names that
 * come back at a constant distance, so it is O(n) for each of at most 32 candidates. */
size_t gw_steps_period(const uint32_t *seq, size_t n, double *share);

#endif
