/* json_activity.h - `activity` of the report's JSON: the GPUs over the whole run. */
#ifndef GW_JSON_ACTIVITY_H
#define GW_JSON_ACTIVITY_H

#include "engine/report_model.h"
#include "report/json_writer.h"

void gw_json_activity(struct gw_json *j, const struct gw_report *r); /* "activity": [...] */

#endif
