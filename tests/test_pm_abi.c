/* test_pm_abi.c - the declarations of pm_abi.h against CUPTI's own headers. Built only where those are. */
#include <stdio.h>

#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h> /* its #include <string> finds an empty file of the build: it declares plain C */
#include <cupti_profiler_target.h>
#include <cupti_target.h>

#include "collect/pm/pm_abi.h"

static int wrong;

#define SAME(what, ours, theirs)                                                                                       \
    do {                                                                                                               \
        if ((unsigned long long)(ours) != (unsigned long long)(theirs)) {                                              \
            printf("%s: %llu, the header says %llu\n", what, (unsigned long long)(ours), (unsigned long long)(theirs)); \
            wrong++;                                                                                                   \
        }                                                                                                              \
    } while (0)
#define SIZE(ours, last, theirs) SAME(#theirs, GW_PM_SIZE(ours, last), theirs##_STRUCT_SIZE)
#define FIELD(ours, a, theirs, b) SAME(#theirs "." #b, offsetof(struct ours, a), offsetof(theirs, b))

static void sizes(void)
{
    SIZE(gw_pm_plain, priv, CUpti_Profiler_Initialize_Params);
    SIZE(gw_pm_object, object, CUpti_PmSampling_Start_Params);
    SIZE(gw_pm_object, object, CUpti_PmSampling_Stop_Params);
    SIZE(gw_pm_object, object, CUpti_PmSampling_Disable_Params);
    SIZE(gw_pm_object, object, CUpti_Profiler_Host_Deinitialize_Params);
    SIZE(gw_pm_enable, object, CUpti_PmSampling_Enable_Params);
    SIZE(gw_pm_chip, name, CUpti_Device_GetChipName_Params);
    SIZE(gw_pm_availability, image, CUpti_PmSampling_GetCounterAvailability_Params);
    SIZE(gw_pm_host_init, host, CUpti_Profiler_Host_Initialize_Params);
    SIZE(gw_pm_metrics, count, CUpti_Profiler_Host_ConfigAddMetrics_Params);
    SIZE(gw_pm_image_size, bytes, CUpti_Profiler_Host_GetConfigImageSize_Params);
    SIZE(gw_pm_image, image, CUpti_Profiler_Host_GetConfigImage_Params);
    SIZE(gw_pm_passes, passes, CUpti_Profiler_Host_GetNumOfPasses_Params);
    SIZE(gw_pm_config, append, CUpti_PmSampling_SetConfig_Params);
    SIZE(gw_pm_data_size, bytes, CUpti_PmSampling_GetCounterDataSize_Params);
    SIZE(gw_pm_data_init, image, CUpti_PmSampling_CounterDataImage_Initialize_Params);
    SIZE(gw_pm_decode, overflow, CUpti_PmSampling_DecodeData_Params);
    SIZE(gw_pm_data_info, completed, CUpti_PmSampling_GetCounterDataInfo_Params);
    SIZE(gw_pm_sample_info, end, CUpti_PmSampling_CounterData_GetSampleInfo_Params);
    SIZE(gw_pm_evaluate, values, CUpti_Profiler_Host_EvaluateToGpuValues_Params);
}

static void fields(void)
{
    FIELD(gw_pm_object, object, CUpti_PmSampling_Start_Params, pPmSamplingObject);
    FIELD(gw_pm_object, object, CUpti_Profiler_Host_Deinitialize_Params, pHostObject);
    FIELD(gw_pm_enable, device, CUpti_PmSampling_Enable_Params, deviceIndex);
    FIELD(gw_pm_chip, device, CUpti_Device_GetChipName_Params, deviceIndex);
    FIELD(gw_pm_availability, device, CUpti_PmSampling_GetCounterAvailability_Params, deviceIndex);
    FIELD(gw_pm_availability, bytes, CUpti_PmSampling_GetCounterAvailability_Params, counterAvailabilityImageSize);
    FIELD(gw_pm_host_init, type, CUpti_Profiler_Host_Initialize_Params, profilerType);
    FIELD(gw_pm_host_init, chip, CUpti_Profiler_Host_Initialize_Params, pChipName);
    FIELD(gw_pm_host_init, availability, CUpti_Profiler_Host_Initialize_Params, pCounterAvailabilityImage);
    FIELD(gw_pm_metrics, host, CUpti_Profiler_Host_ConfigAddMetrics_Params, pHostObject);
    FIELD(gw_pm_metrics, names, CUpti_Profiler_Host_ConfigAddMetrics_Params, ppMetricNames);
    FIELD(gw_pm_image, bytes, CUpti_Profiler_Host_GetConfigImage_Params, configImageSize);
    FIELD(gw_pm_passes, image, CUpti_Profiler_Host_GetNumOfPasses_Params, pConfigImage);
    FIELD(gw_pm_config, bytes, CUpti_PmSampling_SetConfig_Params, configSize);
    FIELD(gw_pm_config, image, CUpti_PmSampling_SetConfig_Params, pConfig);
    FIELD(gw_pm_config, buffer_bytes, CUpti_PmSampling_SetConfig_Params, hardwareBufferSize);
    FIELD(gw_pm_config, interval, CUpti_PmSampling_SetConfig_Params, samplingInterval);
    FIELD(gw_pm_config, trigger, CUpti_PmSampling_SetConfig_Params, triggerMode);
    FIELD(gw_pm_data_size, names, CUpti_PmSampling_GetCounterDataSize_Params, pMetricNames);
    FIELD(gw_pm_data_size, count, CUpti_PmSampling_GetCounterDataSize_Params, numMetrics);
    FIELD(gw_pm_data_size, max_samples, CUpti_PmSampling_GetCounterDataSize_Params, maxSamples);
    FIELD(gw_pm_data_init, bytes, CUpti_PmSampling_CounterDataImage_Initialize_Params, counterDataSize);
    FIELD(gw_pm_decode, image, CUpti_PmSampling_DecodeData_Params, pCounterDataImage);
    FIELD(gw_pm_decode, bytes, CUpti_PmSampling_DecodeData_Params, counterDataImageSize);
    FIELD(gw_pm_decode, reason, CUpti_PmSampling_DecodeData_Params, decodeStopReason);
    FIELD(gw_pm_data_info, total, CUpti_PmSampling_GetCounterDataInfo_Params, numTotalSamples);
    FIELD(gw_pm_data_info, populated, CUpti_PmSampling_GetCounterDataInfo_Params, numPopulatedSamples);
    FIELD(gw_pm_sample_info, image, CUpti_PmSampling_CounterData_GetSampleInfo_Params, pCounterDataImage);
    FIELD(gw_pm_sample_info, index, CUpti_PmSampling_CounterData_GetSampleInfo_Params, sampleIndex);
    FIELD(gw_pm_sample_info, start, CUpti_PmSampling_CounterData_GetSampleInfo_Params, startTimestamp);
    FIELD(gw_pm_evaluate, image, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pCounterDataImage);
    FIELD(gw_pm_evaluate, bytes, CUpti_Profiler_Host_EvaluateToGpuValues_Params, counterDataImageSize);
    FIELD(gw_pm_evaluate, index, CUpti_Profiler_Host_EvaluateToGpuValues_Params, rangeIndex);
    FIELD(gw_pm_evaluate, names, CUpti_Profiler_Host_EvaluateToGpuValues_Params, ppMetricNames);
    FIELD(gw_pm_evaluate, count, CUpti_Profiler_Host_EvaluateToGpuValues_Params, numMetrics);
}

int main(void)
{
    sizes();
    fields();
#define C(ours, theirs, value) SAME(#theirs, value, theirs);
    GW_PM_CONSTANTS(C)
#undef C
    printf(wrong ? "%d differences\n" : "pm_abi.h agrees with the headers\n", wrong);
    return wrong != 0;
}
