/*
 * engine_check.h - what must hold for every report, whatever the trace: sums are exact, gains and shares in range.
 */
#ifndef ENGINE_CHECK_H
#define ENGINE_CHECK_H

#include <stddef.h>

#include "engine/analysis.h"
#include "layers/layers.h"

/* Writes the first broken promise to `why` and returns -1, or returns 0. `r` may be NULL: then only the analysis. */
int engine_check(const struct gw_analysis *an, const struct gw_report *r, char *why, size_t cap);

#endif
