/*
 * pm_load.h - finds and opens libcuda and a libcupti with PM sampling, and knows the GPUs that CUDA sees.
 *
 * Only for the process that samples (pm_helper.c) and for tests: opening the driver costs some hundred ms and tens of MB,
 * and a crash inside it must hurt nobody. No context is made. One thread. Nothing is closed again: CUPTI and the driver keep
 * threads and exit handlers, and the process that loaded them ends soon.
 *
 *     struct gw_pm_libs l;
 *     unsigned state = gw_pm_load(&l, &hints);     GW_PS_STARTING: all is there
 *     int ordinal = gw_pm_ordinal(&l, uuid);
 */
#ifndef GW_PM_LOAD_H
#define GW_PM_LOAD_H

#include "collect/pm/pm_abi.h"
#include "record/record.h"

struct gw_pm_hints { /* "" = unknown */
    char cuda[256];   /* libcuda to use instead of libcuda.so.1 */
    char cupti[1024]; /* the one libcupti to use */
    char near[1024];  /* the copy that the job has mapped, or a libcudart of the job: CUPTI lies beside it */
};

struct gw_pm_libs {
    void *cuda;
    struct gw_pm_cupti cupti;
    uint32_t cupti_version;
    int driver_version; /* 13000 = 13.0 */
    int gpus;
    int (*get)(int *, int);
    int (*uuid)(void *, int);
    int (*attribute)(int *, int, int);
    int result;         /* result code of the call that failed, 0 none */
    const char *call;   /* that call, NULL none */
    char path[1024];    /* of the libcupti that was opened */
};

/* GW_PS_STARTING, or why not (GW_PS_NO_CUDA, _NO_CUPTI, _OLD_CUPTI, or what the result code means). Takes
 * CUDA_VISIBLE_DEVICES and CUDA_INJECTION64_PATH out of this process's environment, so that all GPUs are seen. */
unsigned gw_pm_load(struct gw_pm_libs *l, const struct gw_pm_hints *h);
/* CUDA ordinal of the GPU, -1 when CUDA does not see it. */
int gw_pm_ordinal(const struct gw_pm_libs *l, const uint8_t uuid[16]);
/* Compute capability as 10 * major + minor; 0 unknown. */
int gw_pm_capability(const struct gw_pm_libs *l, int ordinal);
/* What a result code of CUPTI means: one of GW_PS_*. */
unsigned gw_pm_state_of(int result);

#endif
