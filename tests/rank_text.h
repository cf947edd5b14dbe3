/*
 * rank_text.h - summaries of ranks written by hand: for tests of the comparison, without any recording.
 *
 *     rank 3 of 8                                 (of 0: unknown)
 *     window 40000 steps 2                        ns; "unnumbered" when the steps carry no numbers
 *     work gemm 30000 comm 5000                   kernel names and ns, for "do they run the same job?"
 *     1 AllReduce/1000 100 400 exposed=250 computing=80 data-wait=20 kernels=7 cold
 *
 * A collective: step, kind, bytes ("/" and a number), start, end; exposed: all of it unless said; then what the rank
 * did before it, by gw_did_id().
 */
#ifndef RANK_TEXT_H
#define RANK_TEXT_H

#include "engine/ranks.h"

/* In `arena`. Ends the program with a message when the text is wrong: a defect of the test. */
struct gw_rank_summary *rank_text(struct gw_arena *arena, const char *text);

#endif
