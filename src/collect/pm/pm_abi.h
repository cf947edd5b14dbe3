/*
 * pm_abi.h - the CUPTI declarations that PM sampling needs, so that no CUDA toolkit is needed to build.
 *
 * Layouts are those of cupti_pmsampling.h, cupti_profiler_host.h, cupti_profiler_target.h and cupti_target.h of CUDA 12.6
 * to 13.x on 64-bit Linux (the second of them is C++ only). Each struct begins with its own size, which tells CUPTI up to
 * which field the caller knows it: GW_PM_INIT() sets it to the end of the last field, not to sizeof. Where the real headers
 * exist the test pm_abi compares every size and offset.
 */
#ifndef GW_PM_ABI_H
#define GW_PM_ABI_H

#include <stddef.h>
#include <stdint.h>

#define GW_PM_SIZE(type, last) (offsetof(struct type, last) + sizeof(((struct type *)0)->last))
/* Declares and clears `var` and sets its size. */
#define GW_PM_INIT(type, var, last) struct type var = {.size = GW_PM_SIZE(type, last)}

struct gw_pm_plain { size_t size; void *priv; };                                            /* Profiler_Initialize, _DeInitialize */
struct gw_pm_object { size_t size; void *priv; void *object; };                             /* Start, Stop, Disable, Host_Deinitialize */
struct gw_pm_enable { size_t size; void *priv; size_t device; void *object; };              /* device: CUDA ordinal */
struct gw_pm_chip { size_t size; void *priv; size_t device; const char *name; };
struct gw_pm_availability { size_t size; void *priv; size_t device; size_t bytes; uint8_t *image; };
struct gw_pm_host_init { size_t size; void *priv; int type; const char *chip; const uint8_t *availability; void *host; };
struct gw_pm_metrics { size_t size; void *priv; void *host; const char **names; size_t count; };
struct gw_pm_image_size { size_t size; void *priv; void *host; size_t bytes; };
struct gw_pm_image { size_t size; void *priv; void *host; size_t bytes; uint8_t *image; };
struct gw_pm_passes { size_t size; void *priv; size_t bytes; uint8_t *image; size_t passes; };
struct gw_pm_config {
    size_t size;
    void *priv, *object;
    size_t bytes;
    const uint8_t *image;
    size_t buffer_bytes;
    uint64_t interval; /* ns with GW_PM_TRIGGER_TIME, cycles of the system clock with GW_PM_TRIGGER_CLOCK */
    int trigger, append;
};
struct gw_pm_data_size { size_t size; void *priv, *object; const char **names; size_t count; uint32_t max_samples; size_t bytes; };
struct gw_pm_data_init { size_t size; void *priv, *object; size_t bytes; uint8_t *image; };
struct gw_pm_decode { size_t size; void *priv, *object; uint8_t *image; size_t bytes; int reason; uint8_t overflow; };
struct gw_pm_data_info { size_t size; void *priv; const uint8_t *image; size_t bytes, total, populated, completed; };
struct gw_pm_sample_info {
    size_t size;
    void *priv, *object;
    const uint8_t *image;
    size_t bytes, index;
    uint64_t start, end; /* ns */
};
struct gw_pm_evaluate {
    size_t size;
    void *priv, *host;
    const uint8_t *image;
    size_t bytes, index;
    const char **names;
    size_t count;
    double *values;
};

/* FN(name, struct that it takes) - one row a function; each returns CUptiResult, and all are needed. */
#define GW_PM_FUNCTIONS(FN)                                                                                            \
    FN(cuptiProfilerInitialize, gw_pm_plain)                                                                           \
    FN(cuptiDeviceGetChipName, gw_pm_chip)                                                                             \
    FN(cuptiPmSamplingGetCounterAvailability, gw_pm_availability)                                                      \
    FN(cuptiProfilerHostInitialize, gw_pm_host_init)                                                                   \
    FN(cuptiProfilerHostDeinitialize, gw_pm_object)                                                                    \
    FN(cuptiProfilerHostConfigAddMetrics, gw_pm_metrics)                                                               \
    FN(cuptiProfilerHostGetConfigImageSize, gw_pm_image_size)                                                          \
    FN(cuptiProfilerHostGetConfigImage, gw_pm_image)                                                                   \
    FN(cuptiProfilerHostGetNumOfPasses, gw_pm_passes)                                                                  \
    FN(cuptiProfilerHostEvaluateToGpuValues, gw_pm_evaluate)                                                           \
    FN(cuptiPmSamplingEnable, gw_pm_enable)                                                                            \
    FN(cuptiPmSamplingDisable, gw_pm_object)                                                                           \
    FN(cuptiPmSamplingSetConfig, gw_pm_config)                                                                         \
    FN(cuptiPmSamplingStart, gw_pm_object)                                                                             \
    FN(cuptiPmSamplingStop, gw_pm_object)                                                                              \
    FN(cuptiPmSamplingDecodeData, gw_pm_decode)                                                                        \
    FN(cuptiPmSamplingGetCounterDataSize, gw_pm_data_size)                                                             \
    FN(cuptiPmSamplingCounterDataImageInitialize, gw_pm_data_init)                                                     \
    FN(cuptiPmSamplingGetCounterDataInfo, gw_pm_data_info)                                                             \
    FN(cuptiPmSamplingCounterDataGetSampleInfo, gw_pm_sample_info)

/* Members are named fn_...: a member with the function's own name would collide when a test includes the real headers. */
struct gw_pm_cupti {
#define GW_FN(name, arg) int (*fn_##name)(struct arg *);
    GW_PM_FUNCTIONS(GW_FN)
#undef GW_FN
    int (*fn_cuptiGetVersion)(uint32_t *);
    void *handle;
};

/* GW_PM_CONST(ours, theirs, value) */
#define GW_PM_CONSTANTS(C)                                                                                             \
    C(GW_PM_TYPE_SAMPLING, CUPTI_PROFILER_TYPE_PM_SAMPLING, 1)                                                         \
    C(GW_PM_TRIGGER_CLOCK, CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_SYSCLK_INTERVAL, 0)                                      \
    C(GW_PM_TRIGGER_TIME, CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL, 1)                                         \
    C(GW_PM_KEEP_LATEST, CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_LATEST, 1)                                 \
    C(GW_PM_STOP_OTHER, CUPTI_PM_SAMPLING_DECODE_STOP_REASON_OTHER, 0)                                                 \
    C(GW_PM_STOP_FULL, CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL, 1)                                      \
    C(GW_PM_STOP_END, CUPTI_PM_SAMPLING_DECODE_STOP_REASON_END_OF_RECORDS, 2)                                          \
    C(GW_PM_OUT_OF_MEMORY, CUPTI_ERROR_OUT_OF_MEMORY, 8)                                                               \
    C(GW_PM_HARDWARE_BUSY, CUPTI_ERROR_HARDWARE_BUSY, 26)                                                              \
    C(GW_PM_NOT_SUPPORTED, CUPTI_ERROR_NOT_SUPPORTED, 27)                                                              \
    C(GW_PM_VIRTUALIZED, CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED, 33)                                             \
    C(GW_PM_NO_PRIVILEGES, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, 35)                                                    \
    C(GW_PM_VIRTUAL_PRIVILEGES, CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES, 40)                            \
    C(GW_PM_CONFIDENTIAL, CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED, 41)                                        \
    C(GW_PM_CMP, CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED, 42)                                                             \
    C(GW_PM_MIG, CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED, 43)                                                             \
    C(GW_PM_SLI, CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED, 44)                                                             \
    C(GW_PM_WSL, CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED, 45)
enum {
#define GW_C(ours, theirs, value) ours = value,
    GW_PM_CONSTANTS(GW_C)
#undef GW_C
};

#endif
