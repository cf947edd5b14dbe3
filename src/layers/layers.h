/*
 * layers.h - findings of the six layers over an analysis, ranked, with the verdict.
 *
 *     struct gw_report *rep = gw_diagnose(an, arena);
 */
#ifndef GW_LAYERS_H
#define GW_LAYERS_H

#include "engine/engine.h"

/* Builds the whole report. NULL when out of memory. Everything lives in `arena`. */
struct gw_report *gw_diagnose(const struct gw_analysis *an, struct gw_arena *arena);

/* The catalogue, for `explain`, docs and tests: row `i`, or NULL past the end. */
struct gw_finding_info {
    const char *id, *layer, *phrase, *needs; /* untranslated */
    const char *signals;                     /* letters of K L C R E: what can supply it */
    const char *title;                       /* one line */
};
const struct gw_finding_info *gw_finding_info(size_t i);
const struct gw_finding_info *gw_finding_info_find(const char *id);

const char *gw_layer_name(const char *layer_id); /* untranslated human name of a layer id */

#endif
