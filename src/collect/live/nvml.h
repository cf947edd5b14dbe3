/*
 * nvml.h - the part of NVML that is used, declared here because the driver brings no header and builds must not need
 * one. Private to nvml*.c. Numbers and layouts: nvml.h of CUDA 13.0; they are part of NVML's stable binary interface.
 *
 * Functions are looked up by name, newest first; a missing one costs its facts and nothing else. No function that
 * changes a device is ever looked up.
 */
#ifndef GW_NVML_H
#define GW_NVML_H

#include <stdint.h>

#include "collect/live/live.h"

typedef void *gw_live_nvml_dev; /* opaque handle */

enum { NVML_SUCCESS = 0 };
enum { NVML_MAX_LINKS = 36 }; /* 18 before Blackwell */
enum { NVML_TEMPERATURE_SLOWDOWN = 1, NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2, NVML_CLOCK_GRAPHICS = 0 };

struct nvml_memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};
struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_bar1 {
    unsigned long long total, free, used;
};
struct nvml_utilization {
    unsigned gpu, memory;
};
struct nvml_pci {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};
struct nvml_process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gi, ci;
};
struct nvml_field {
    unsigned id, scope;
    long long timestamp, latency;
    unsigned type; /* 0 double 1 u32 2 unsigned long 3 u64 4 s64 5 s32 6 u16 */
    int result;
    union {
        double d;
        unsigned u32;
        unsigned long ul;
        unsigned long long u64;
        long long s64;
        int s32;
        unsigned short u16;
    } value;
};
struct nvml_margin {
    unsigned version;
    int margin;
};
struct nvml_fabric {
    unsigned char uuid[16];
    int status;
    unsigned clique;
    unsigned char state;
};
_Static_assert(sizeof(struct nvml_memory_v2) == 40, "nvmlMemory_v2_t");
_Static_assert(sizeof(struct nvml_pci) == 68, "nvmlPciInfo_t");
_Static_assert(sizeof(struct nvml_process) == 24, "nvmlProcessInfo_v2_t");
_Static_assert(sizeof(struct nvml_field) == 40, "nvmlFieldValue_t");
_Static_assert(sizeof(struct nvml_fabric) == 28, "nvmlGpuFabricInfo_t");
#define NVML_MEMORY_V2 (sizeof(struct nvml_memory_v2) | 2u << 24)
#define NVML_MARGIN_V1 (sizeof(struct nvml_margin) | 1u << 24)

/* One row: member, prototype behind (dev, ...), names newest first. */
#define GW_NVML_FUNCTIONS(X)                                                                                           \
    X(init, (void), "nvmlInit_v2", "nvmlInit")                                                                         \
    X(shutdown, (void), "nvmlShutdown", NULL)                                                                          \
    X(driver_version, (char *, unsigned), "nvmlSystemGetDriverVersion", NULL)                                          \
    X(cuda_version, (int *), "nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion")                    \
    X(count_devices, (unsigned *), "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount")                                      \
    X(handle, (unsigned, gw_live_nvml_dev *), "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex")           \
    X(name, (gw_live_nvml_dev, char *, unsigned), "nvmlDeviceGetName", NULL)                                           \
    X(uuid, (gw_live_nvml_dev, char *, unsigned), "nvmlDeviceGetUUID", NULL)                                           \
    X(pci, (gw_live_nvml_dev, struct nvml_pci *), "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2")                \
    X(capability, (gw_live_nvml_dev, int *, int *), "nvmlDeviceGetCudaComputeCapability", NULL)                        \
    X(memory_v2, (gw_live_nvml_dev, struct nvml_memory_v2 *), "nvmlDeviceGetMemoryInfo_v2", NULL)                      \
    X(memory, (gw_live_nvml_dev, struct nvml_memory *), "nvmlDeviceGetMemoryInfo", NULL)                               \
    X(bar1, (gw_live_nvml_dev, struct nvml_bar1 *), "nvmlDeviceGetBAR1MemoryInfo", NULL)                               \
    X(utilization, (gw_live_nvml_dev, struct nvml_utilization *), "nvmlDeviceGetUtilizationRates", NULL)               \
    X(mig_mode, (gw_live_nvml_dev, unsigned *, unsigned *), "nvmlDeviceGetMigMode", NULL)                              \
    X(mig_max, (gw_live_nvml_dev, unsigned *), "nvmlDeviceGetMaxMigDeviceCount", NULL)                                 \
    X(mig_handle, (gw_live_nvml_dev, unsigned, gw_live_nvml_dev *), "nvmlDeviceGetMigDeviceHandleByIndex", NULL)       \
    X(gi_id, (gw_live_nvml_dev, unsigned *), "nvmlDeviceGetGpuInstanceId", NULL)                                       \
    X(ecc_mode, (gw_live_nvml_dev, int *, int *), "nvmlDeviceGetEccMode", NULL)                                        \
    X(ecc_total, (gw_live_nvml_dev, int, int, unsigned long long *), "nvmlDeviceGetTotalEccErrors", NULL)              \
    X(remapped, (gw_live_nvml_dev, unsigned *, unsigned *, unsigned *, unsigned *), "nvmlDeviceGetRemappedRows", NULL) \
    X(retired_pending, (gw_live_nvml_dev, int *), "nvmlDeviceGetRetiredPagesPendingStatus", NULL)                      \
    X(fields, (gw_live_nvml_dev, int, struct nvml_field *), "nvmlDeviceGetFieldValues", NULL)                          \
    X(reasons, (gw_live_nvml_dev, unsigned long long *), "nvmlDeviceGetCurrentClocksEventReasons",                     \
      "nvmlDeviceGetCurrentClocksThrottleReasons")                                                                     \
    X(compute_processes, (gw_live_nvml_dev, unsigned *, struct nvml_process *),                                        \
      "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2")                            \
    X(graphics_processes, (gw_live_nvml_dev, unsigned *, struct nvml_process *),                                       \
      "nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2")                          \
    X(margin, (gw_live_nvml_dev, struct nvml_margin *), "nvmlDeviceGetMarginTemperature", NULL)                        \
    X(fabric, (gw_live_nvml_dev, struct nvml_fabric *), "nvmlDeviceGetGpuFabricInfo", NULL)                            \
    X(ancestor, (gw_live_nvml_dev, gw_live_nvml_dev, int *), "nvmlDeviceGetTopologyCommonAncestor", NULL)              \
    X(p2p, (gw_live_nvml_dev, gw_live_nvml_dev, int, int *), "nvmlDeviceGetP2PStatus", NULL)                           \
    X(link_state, (gw_live_nvml_dev, unsigned, int *), "nvmlDeviceGetNvLinkState", NULL)                               \
    X(link_remote, (gw_live_nvml_dev, unsigned, struct nvml_pci *), "nvmlDeviceGetNvLinkRemotePciInfo_v2", NULL)       \
    X(link_type, (gw_live_nvml_dev, unsigned, int *), "nvmlDeviceGetNvLinkRemoteDeviceType", NULL)

struct gw_live_nvml {
    struct gw_live *l;
    void *lib;
    unsigned count;
    gw_live_nvml_dev dev[GW_ENV_MAX_GPUS];
    size_t position[GW_ENV_MAX_GPUS]; /* of each device in env->gpus */
    void *number[40];                 /* functions of the table of plain numbers, in its order */
#define X(member, args, newest, older) int(*member) args;
    GW_NVML_FUNCTIONS(X)
#undef X
};

void gw_live_nvml_numbers_load(struct gw_live_nvml *n);
/* Every plain number of one GPU: the ones that change, or the ones that stay. */
void gw_live_nvml_numbers_read(struct gw_live_nvml *n, unsigned i, struct gw_gpu *g, int dynamic);
void *gw_live_nvml_symbol(struct gw_live_nvml *n, const char *newest, const char *older);

#endif
