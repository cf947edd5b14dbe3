/*
 * diff_words.h - the sentences of a comparison, which every renderer of it needs. Translated plain text; it may hold
 * bytes from a trace, so the renderer escapes it.
 *
 *     char *s = gw_diff_answer(d);
 *     gw_text_words(&t, s), free(s);
 */
#ifndef GW_DIFF_WORDS_H
#define GW_DIFF_WORDS_H

#include "report/diff_report.h"
#include "report/fmt.h"

/* The answer, one to three sentences. The caller frees it; NULL when out of memory. */
char *gw_diff_answer(const struct gw_diff *d);
/* What else is to be said, one clause a call: slow steps, the promise, scaling, GPUs that differ, what is incomplete.
 */
typedef void gw_diff_remark(void *user, const char *text);
void gw_diff_remarks(const struct gw_diff *d, gw_diff_remark *say, void *user);
/* "step>+5%: +4.7 %, not crossed" */
char *gw_diff_gate_text(const struct gw_gate_result *g);

/* A double in ns as a time, "n/a" for NAN; with a sign for changes, "0" for less than a ns. */
struct gw_fmt gw_diff_time(double ns);
struct gw_fmt gw_diff_change(double ns);

#endif
