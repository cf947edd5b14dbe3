/*
 * check_run.h - what the check functions share; private to check_*.c.
 *
 * A check function looks at r->env and calls gw_check_say() once with its status and value, then gw_check_fix() and
 * friends. Saying nothing leaves the result "not evaluated".
 *
 *     void gw_check_on_shm(struct gw_check_run *r) { ... gw_check_say(r, GW_CHECK_BAD, "%d MiB", 64); }
 */
#ifndef GW_CHECK_RUN_H
#define GW_CHECK_RUN_H

#include "base/gw_i18n.h"
#include "collect/checks/checks.h"

struct gw_gpu_state;

struct gw_check_run {
    const struct gw_env *env;
    struct gw_arena *arena;
    struct gw_check *now;               /* the result being made */
    const struct gw_gpu_state *states;  /* one per GPU */
    struct gw_check_evidence *evidence; /* of `now`; room for GW_CHECK_MAX_EVIDENCE */
};

void gw_check_say(struct gw_check_run *r, enum gw_check_status status, const char *fmt, ...) GW_PRINTF(3, 4);
void gw_check_expect(struct gw_check_run *r, const char *fmt, ...) GW_PRINTF(2, 3);
/* What to do, how to see that it helped, what it may cost ("" = nothing worth a word). Constant text. */
void gw_check_fix(struct gw_check_run *r, const char *doit, const char *verify, const char *cost);
void gw_check_finding(struct gw_check_run *r, const char *id);
void gw_check_evidence(struct gw_check_run *r, double value, const char *unit, const char *source, const char *fmt, ...)
    GW_PRINTF(5, 6);
const char *gw_check_text(struct gw_check_run *r, const char *fmt, ...) GW_PRINTF(2, 3);
static inline const char *gw_known(const char *s, const char *otherwise) { return s ? s : otherwise; }

/* What the samples of one GPU say together. Counts are 0 and values GW_ENV_NONE when nothing is known. */
struct gw_gpu_state {
    int64_t samples;
    int64_t last[GW_GPU_DYNAMIC];     /* the latest reading of each metric that changes */
    int64_t loaded;                   /* samples in which the GPU was at work */
    int64_t link_loaded;              /* samples in which its PCIe link was in use, or the GPU at work */
    int64_t gen_loaded, width_loaded; /* highest seen then */
    int64_t gen_now, width_now;       /* of the last sample that has them */
    int64_t reasons_any, reasons_loaded, reasons_known; /* masks: seen at all, seen under load, known */
    int64_t reason_count[9];                            /* samples with each bit, by bit number */
    int64_t reason_samples;                             /* samples that know their reasons */
    double sm_loaded;                                   /* mean SM clock under load, MHz; NAN */
    double power_loaded;                                /* mean power under load, mW; NAN */
    int64_t pstate_loaded;                              /* deepest under load */
    int64_t temp_max, margin_min;
    int64_t replay_first, replay_last,
        replay_ns; /* first and last reading and the time between, when they have stamps */
};
struct gw_gpu_state gw_gpu_state_of(const struct gw_env *env, size_t gpu);

/* GPUs that share a text: "GPU 0-3: ...; GPU 5: ...". Worst status first. */
struct gw_check_group {
    struct gw_check_run *r;
    size_t n;
    struct {
        enum gw_check_status status;
        const char *text;
        uint64_t gpus;
    } item[GW_ENV_MAX_GPUS];
};
void gw_group_add(struct gw_check_group *g, size_t gpu, enum gw_check_status status, const char *fmt, ...)
    GW_PRINTF(4, 5);
/* Says the worst status with its GPUs. Returns that status. */
enum gw_check_status gw_group_say(struct gw_check_group *g);

/* Numbers as text, in the arena: "143 GiB", "1980 MHz". */
const char *gw_check_bytes(struct gw_check_run *r, int64_t bytes);
const char *gw_check_watts(struct gw_check_run *r, int64_t mw);
/* "13.0" from 13000. */
const char *gw_check_cuda(struct gw_check_run *r, int64_t version);
/* 12040 from "12.4" or "12.4.1"; -1 when it is no version. */
int64_t gw_check_version(const char *text);
const char *gw_check_source(const struct gw_check_run *r); /* "NVML" or "capture" */

#define GW_CHECK(sym, id, group, title, finding, needs) void gw_check_on_##sym(struct gw_check_run *r);
#include "collect/checks/checks.def"
#undef GW_CHECK

#endif
