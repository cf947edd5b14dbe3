/* NVML's functions that return one number, as a table: metric, kind of call, names newest first. */
#include <dlfcn.h>

#include "collect/live/nvml.h"

enum kind {
    U32,    /* f(dev, unsigned *) */
    U32_OF, /* f(dev, int what, unsigned *) */
};

static const struct {
    enum gw_gpu_metric metric;
    enum kind kind;
    int what;
    int64_t scale;
    const char *newest, *older;
} numbers[] = {
    {GW_GPU_POWER, U32, 0, 1, "nvmlDeviceGetPowerUsage", NULL},
    {GW_GPU_TEMP, U32_OF, 0, 1, "nvmlDeviceGetTemperature", NULL},
    {GW_GPU_SM_CLOCK, U32_OF, NVML_CLOCK_SM, 1, "nvmlDeviceGetClockInfo", NULL},
    {GW_GPU_MEM_CLOCK, U32_OF, NVML_CLOCK_MEM, 1, "nvmlDeviceGetClockInfo", NULL},
    {GW_GPU_PSTATE, U32, 0, 1, "nvmlDeviceGetPerformanceState", NULL},
    {GW_GPU_PCIE_GEN, U32, 0, 1, "nvmlDeviceGetCurrPcieLinkGeneration", NULL},
    {GW_GPU_PCIE_WIDTH, U32, 0, 1, "nvmlDeviceGetCurrPcieLinkWidth", NULL},
    {GW_GPU_PCIE_REPLAY, U32, 0, 1, "nvmlDeviceGetPcieReplayCounter", NULL},
    {GW_GPU_POWER_LIMIT, U32, 0, 1, "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit"},
    {GW_GPU_POWER_DEFAULT, U32, 0, 1, "nvmlDeviceGetPowerManagementDefaultLimit", NULL},
    {GW_GPU_SM_MAX, U32_OF, NVML_CLOCK_SM, 1, "nvmlDeviceGetMaxClockInfo", NULL},
    {GW_GPU_MEM_MAX, U32_OF, NVML_CLOCK_MEM, 1, "nvmlDeviceGetMaxClockInfo", NULL},
    {GW_GPU_APP_SM, U32_OF, NVML_CLOCK_GRAPHICS, 1, "nvmlDeviceGetApplicationsClock", NULL},
    {GW_GPU_APP_SM_DEFAULT, U32_OF, NVML_CLOCK_GRAPHICS, 1, "nvmlDeviceGetDefaultApplicationsClock", NULL},
    {GW_GPU_PCIE_GEN_MAX, U32, 0, 1, "nvmlDeviceGetMaxPcieLinkGeneration", NULL},
    {GW_GPU_PCIE_GEN_DEVICE, U32, 0, 1, "nvmlDeviceGetGpuMaxPcieLinkGeneration", NULL},
    {GW_GPU_PCIE_WIDTH_MAX, U32, 0, 1, "nvmlDeviceGetMaxPcieLinkWidth", NULL},
    {GW_GPU_TEMP_SLOWDOWN, U32_OF, NVML_TEMPERATURE_SLOWDOWN, 1, "nvmlDeviceGetTemperatureThreshold", NULL},
    {GW_GPU_PERSISTENCE, U32, 0, 1, "nvmlDeviceGetPersistenceMode", NULL},
    {GW_GPU_DISPLAY_ACTIVE, U32, 0, 1, "nvmlDeviceGetDisplayActive", NULL},
    {GW_GPU_COMPUTE_MODE, U32, 0, 1, "nvmlDeviceGetComputeMode", NULL},
};
enum { COUNT = sizeof numbers / sizeof numbers[0] };
_Static_assert(COUNT <= sizeof((struct gw_live_nvml *)0)->number / sizeof(void *), "room for every function");

void *gw_live_nvml_symbol(struct gw_live_nvml *n, const char *newest, const char *older)
{
    void *f = dlsym(n->lib, newest);
    return f || !older ? f : dlsym(n->lib, older);
}

void gw_live_nvml_numbers_load(struct gw_live_nvml *n)
{
    for (int i = 0; i < COUNT; i++)
        n->number[i] = gw_live_nvml_symbol(n, numbers[i].newest, numbers[i].older);
}

/* dlsym() gives an object pointer; POSIX promises that it holds a function. */
union call {
    void *object;
    int (*u32)(gw_live_nvml_dev, unsigned *);
    int (*u32_of)(gw_live_nvml_dev, int, unsigned *);
};

void gw_live_nvml_numbers_read(struct gw_live_nvml *n, unsigned i, struct gw_gpu *g, int dynamic)
{
    for (int k = 0; k < COUNT; k++) {
        unsigned v = 0;
        union call f = {.object = n->number[k]};
        if (!f.object || (numbers[k].metric < GW_GPU_DYNAMIC) != dynamic)
            continue;
        int rc = numbers[k].kind == U32 ? f.u32(n->dev[i], &v) : f.u32_of(n->dev[i], numbers[k].what, &v);
        if (rc == NVML_SUCCESS && v != 0xffffffffu) /* NVML_VALUE_NOT_AVAILABLE */
            gw_gpu_set(g, numbers[k].metric, (int64_t)v * numbers[k].scale);
    }
}
