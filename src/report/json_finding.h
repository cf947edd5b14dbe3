/*
 * json_finding.h - the parts of the report's JSON that other documents share: a finding looks the same everywhere.
 *
 *     gw_json_array(&j, "findings");
 *     gw_json_finding(&j, f);
 *     gw_json_end(&j);
 */
#ifndef GW_JSON_FINDING_H
#define GW_JSON_FINDING_H

#include "engine/report_model.h"
#include "report/json_writer.h"

void gw_json_finding(struct gw_json *j, const struct gw_finding *f); /* one object */
void gw_json_evidence(struct gw_json *j, const char *key, const struct gw_evidence *list, size_t n); /* "key": [...] */
void gw_json_fixes(struct gw_json *j, const struct gw_fix *list, size_t n);                          /* "fix": [...] */
void gw_json_not_evaluated(struct gw_json *j, const struct gw_not_evaluated *list, size_t n);        /* "not_evaluated": [...] */

#endif
