/*
 * proc_nvml.h - what NVML says about the GPUs while the job runs: utilization, memory, clocks and why they are low, power,
 * PCIe bytes, other processes, and on Hopper and later the GPM metrics (SM, tensor, DRAM activity).
 *
 * NVML is opened at run time; each call that is missing or refused costs its own counters and nothing else. No
 * privileges are needed. One thread. gw_nvml_sample() takes 2 us a device without GPM and 0.2 to 0.3 ms with it (measured on an
 * H200).
 *
 *     struct gw_nvml_live *n = gw_nvml_open(&sink, NULL);      NULL: no NVML; a fact says why
 *     gw_nvml_sample(n);
 *     gw_nvml_processes(n);
 *     gw_nvml_close(n);
 */
#ifndef GW_PROC_NVML_H
#define GW_PROC_NVML_H

#include "collect/proc/proc_sink.h"

/* GW_NV(SYM, "name", "what it is") - one row a counter of the plain calls. */
#define GW_NVML_COUNTERS(GW_NV)                                                                                        \
    GW_NV(UTIL, "nvml.utilization_percent", "share of the last sample period with any kernel running")                 \
    GW_NV(UTIL_MEM, "nvml.memory_utilization_percent", "share of it with device memory being read or written")         \
    GW_NV(MEM_USED, "nvml.memory_used_bytes", "device memory in use")                                                  \
    GW_NV(SM_CLOCK, "nvml.sm_clock_mhz", "SM clock")                                                                   \
    GW_NV(MEM_CLOCK, "nvml.memory_clock_mhz", "memory clock")                                                          \
    GW_NV(POWER, "nvml.power_w", "power; the average of a second on most GPUs")                                        \
    GW_NV(REASONS, "nvml.clock_reasons", "NVML's bits: why clocks are below the maximum")                              \
    GW_NV(TEMP, "nvml.temperature_c", "temperature")                                                                   \
    GW_NV(PCIE_GEN, "nvml.pcie_gen", "PCIe generation now")                                                            \
    GW_NV(PCIE_WIDTH, "nvml.pcie_width", "PCIe lanes now")                                                             \
    GW_NV(ENERGY, "nvml.energy_j", "energy since the driver was loaded")                                               \
    GW_NV(POWER_NOW, "nvml.power_now_w", "power at this instant")                                                      \
    GW_NV(PCIE_TX, "nvml.pcie_tx_bytes", "bytes sent over PCIe, counting up")                                          \
    GW_NV(PCIE_RX, "nvml.pcie_rx_bytes", "bytes received over PCIe, counting up")                                      \
    GW_NV(SW_THERMAL, "nvml.sw_thermal_ns", "time slowed down by software for heat, counting up")                      \
    GW_NV(HW_THERMAL, "nvml.hw_thermal_ns", "time slowed down by hardware for heat, counting up")                      \
    GW_NV(HW_BRAKE, "nvml.power_brake_ns", "time slowed down by the power brake, counting up")                         \
    GW_NV(PROC_BYTES, "nvml.process_bytes", "device memory of a process, pid as the driver sees it; -1 unknown")

/* GW_GPM(id, "name") - GPM metrics, percent of the peak unless the name has a unit. */
#define GW_GPM_COUNTERS(GW_GPM)                                                                                        \
    GW_GPM(1, "gpm.graphics_percent")                                                                                  \
    GW_GPM(2, "gpm.sm_percent")                                                                                        \
    GW_GPM(3, "gpm.occupancy_percent")                                                                                 \
    GW_GPM(5, "gpm.tensor_percent")                                                                                    \
    GW_GPM(10, "gpm.dram_percent")                                                                                     \
    GW_GPM(12, "gpm.fp32_percent")                                                                                     \
    GW_GPM(13, "gpm.fp16_percent")                                                                                     \
    GW_GPM(20, "gpm.pcie_tx_mib_s")                                                                                    \
    GW_GPM(21, "gpm.pcie_rx_mib_s")

struct gw_nvml_live;
/* `library` NULL = libnvidia-ml.so.1. */
struct gw_nvml_live *gw_nvml_open(struct gw_sink *sink, const char *library);
void gw_nvml_close(struct gw_nvml_live *n);
void gw_nvml_sample(struct gw_nvml_live *n);
/* Processes with memory on each device; their number on all devices. */
int gw_nvml_processes(struct gw_nvml_live *n);
unsigned gw_nvml_devices(const struct gw_nvml_live *n);
/* UUID of device `i` as text. 0, or -1 unknown. */
int gw_nvml_uuid(const struct gw_nvml_live *n, unsigned i, char *out, size_t cap);
/* Processes that compute on device `i`, by the numbers that the driver knows. How many were put into `pids`. */
size_t gw_nvml_pids(const struct gw_nvml_live *n, unsigned i, uint32_t *pids, size_t cap);
/* Utilization of device `i` at the last sample, percent; -1 unknown. */
int gw_nvml_device_utilization(const struct gw_nvml_live *n, unsigned i);
/* A process of our own that is not to be listed among those on a GPU. */
void gw_nvml_ignore(struct gw_nvml_live *n, int pid);
/* Mean utilization of all devices at the last sample, percent; -1 unknown. For the status line. */
int gw_nvml_utilization(const struct gw_nvml_live *n);
/* The same of SM activity, where the GPU has GPM (Hopper and later). */
int gw_nvml_sm_activity(const struct gw_nvml_live *n);

#endif
