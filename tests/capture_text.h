/*
 * capture_text.h - what the tests of saved tool output share: text in, facts and results out. Each ends the test when
 * it does not hold.
 */
#ifndef CAPTURE_TEXT_H
#define CAPTURE_TEXT_H

#include "collect/capture/capture.h"
#include "collect/checks/checks.h"

/* Facts from the text of one or several captures; the caller destroys them. */
struct gw_env *capture_parse_bytes(const char *text, size_t len);
struct gw_env *capture_parse(const char *text);
int64_t capture_metric(const struct gw_env *env, size_t gpu, enum gw_gpu_metric m);
/* The check has this status, and its value holds `value`. */
void capture_check_is(const struct gw_env *env, const char *id, enum gw_check_status status, const char *value);
int capture_note_has(const struct gw_env *env, const char *text); /* 1 when some note holds it */

extern const char capture_query[]; /* a short `nvidia-smi -q` of one GPU */

#endif
