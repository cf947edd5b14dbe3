/*
 * engine.h - const trace in, analysis out; no I/O, no clock, no globals.
 *
 *     struct gw_analysis *an = gw_analyse(trace, arena);
 *     struct gw_report *rep = gw_diagnose(an, arena);       (layers/layers.h)
 */
#ifndef GW_ENGINE_H
#define GW_ENGINE_H

#include "engine/report_model.h"

struct gw_analysis; /* engine/analysis.h, for layers */

/* Timeline, steps, blame and replay of every device. NULL when out of memory. Borrows `t` and `arena`. */
struct gw_analysis *gw_analyse(const struct gw_trace *t, struct gw_arena *arena);

#endif
