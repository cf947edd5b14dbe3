/*
 * check_findings.h - results of the machine's checks as findings, in the form of every other report.
 *
 *     struct gw_finding *f; size_t n;
 *     gw_check_findings(checks, arena, &f, &n);
 */
#ifndef GW_CHECK_FINDINGS_H
#define GW_CHECK_FINDINGS_H

#include <stdio.h>

#include "cli/cli.h"
#include "collect/checks/checks.h"
#include "report/renderer.h"

/* Bad results and those worth a look, as findings: one per id, worst first; the results are their evidence. What they
 * cost in time cannot be told from the machine alone, so times and gains stay unknown. 0 or GW_ENOMEM. */
int gw_check_findings(const struct gw_check_list *l, struct gw_arena *arena, struct gw_finding **out, size_t *count);
/* The findings that could not be judged, with what would supply the data. 0 or GW_ENOMEM. */
int gw_check_not_evaluated(const struct gw_check_list *l, struct gw_arena *arena, struct gw_not_evaluated **out,
                           size_t *count);

/* The renderers of `gpuwhy check`. All escape; write errors are kept by stdio. */
void gw_check_print(const struct gw_env *env, const struct gw_check_list *l, FILE *out,
                    const struct gw_render_options *o);
void gw_check_json(const struct gw_env *env, const struct gw_check_list *l, struct gw_arena *arena, FILE *out);
void gw_check_html(const struct gw_env *env, const struct gw_check_list *l, struct gw_arena *arena, FILE *out);

#endif
