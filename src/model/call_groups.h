/*
 * call_groups.h - groups of CUDA calls that the library in a job counts (inject/calls.h), and that samples of its threads name. The
 * numbers are in records. No code: the library inside the job includes it too.
 */
#ifndef GW_CALL_GROUPS_H
#define GW_CALL_GROUPS_H

enum gw_call {
    GW_CALL_NONE = 0, /* in none of them */
#define GW_CALL(sym, id) GW_CALL_##sym,
#include "model/calls.def"
#undef GW_CALL
    GW_CALL_COUNT
};

#endif
