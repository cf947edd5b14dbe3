/*
 * The checks as a pure function: facts in, result out. Each row is a machine of a few words (the format of
 * `gpuwhy check --collect`) and what one check must say about it: when it must speak, when it must not, and when it
 * cannot know.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/capture/capture.h"
#include "collect/checks/checks.h"

#define G "gpu index=0 "
#define S "sample position=0 source=0 t=0 "
#define LIVE "host sample_ms=600\n"

struct row {
    const char *facts, *check;
    enum gw_check_status status;
    const char *value;   /* part of the value; "" = any */
    const char *finding; /* NULL = not looked at */
};

static const struct row rows[] = {
    /* driver */
    {"text driver_version=580.1\nhost cuda_driver=13000\n", "driver", GW_CHECK_GOOD, "580.1, runs CUDA up to 13.0",
     NULL},
    {"text driver_version=580.1\ntext kernel_module_version=575.2\n", "driver", GW_CHECK_BAD, "kernel module of 575.2",
     "version-mismatch"},
    {"host pci_gpus=2\ntext nvml_problem=libnvidia-ml.so.1%20is%20not%20here\n", "driver", GW_CHECK_BAD,
     "a GPU is there", "version-mismatch"},
    {"text nvml_problem=x\nhost pci_gpus=0\n", "driver", GW_CHECK_UNKNOWN, "no NVIDIA GPU in sight", NULL},
    {"", "driver", GW_CHECK_UNKNOWN, "", NULL},
    /* framework: newer major, newer minor, older, CPU-only, AMD, unknown */
    {G "\nhost cuda_driver=12040\nsoftware name=torch version=2.9\nsoftware name=torch-cuda version=13.0\n",
     "framework", GW_CHECK_BAD, "needs CUDA 13.0, the driver ends at 12.4", "version-mismatch"},
    {G "\nhost cuda_driver=12020\nsoftware name=torch version=2.5\nsoftware name=torch-cuda version=12.6\n",
     "framework", GW_CHECK_GOOD, "cannot compile its PTX", NULL},
    {G "\nhost cuda_driver=13000\nsoftware name=torch version=2.5\nsoftware name=torch-cuda version=12.6\n",
     "framework", GW_CHECK_GOOD, "up to 13.0", NULL},
    {G "\nsoftware name=torch version=2.5+cpu\nsoftware name=torch-cuda version=none\n", "framework", GW_CHECK_BAD,
     "without CUDA", "version-mismatch"},
    {"software name=torch version=2.5+cpu\nsoftware name=torch-cuda version=none\n", "framework", GW_CHECK_GOOD,
     "without CUDA", NULL},
    {G "\nsoftware name=torch version=2.5\nsoftware name=torch-hip version=6.0\n", "framework", GW_CHECK_BAD, "AMD",
     NULL},
    {G "\nhost cuda_driver=13000\n", "framework", GW_CHECK_UNKNOWN, "", NULL},
    /* code for the architecture */
    {G "compute_major=9 compute_minor=0\nsoftware name=torch-cuda version=11.7\n", "architecture", GW_CHECK_BAD,
     "9.0 needs CUDA 11.8", "version-mismatch"},
    {G "compute_major=7 compute_minor=0\nsoftware name=torch-cuda version=13.0\n", "architecture", GW_CHECK_BAD,
     "no longer makes code", "version-mismatch"},
    {G "compute_major=7 compute_minor=5\nsoftware name=torch-cuda version=13.0\n", "architecture", GW_CHECK_UNKNOWN,
     "not in a text file", NULL},
    {G "compute_major=9 compute_minor=0\nsoftware name=torch-cuda version=13.0\nsoftware name=torch-archs "
       "version=7.5%208.0%209.0%2012.0+PTX\n",
     "architecture", GW_CHECK_GOOD, "code for compute capability 9.0", NULL},
    {G "compute_major=8 compute_minor=9\nsoftware name=torch-archs version=7.5%208.0\n", "architecture", GW_CHECK_GOOD,
     "8.9", NULL},
    {G "compute_major=8 compute_minor=0\nsoftware name=torch-archs version=7.5%208.6\n", "architecture", GW_CHECK_BAD,
     "no code", NULL},
    {G "compute_major=12 compute_minor=0\nsoftware name=torch-archs version=8.0%209.0+PTX\n", "architecture",
     GW_CHECK_LOOK, "only PTX", NULL},
    {G "compute_major=12 compute_minor=0\nsoftware name=torch-archs version=8.0%20ptx9.0\n", "architecture",
     GW_CHECK_LOOK, "only PTX", NULL},
    {G "compute_major=12 compute_minor=0\nsoftware name=torch-archs version=8.0%20...\n", "architecture",
     GW_CHECK_UNKNOWN, "not read to the end", NULL},
    {G "arch=Hopper\nsoftware name=torch-cuda version=11.0\n", "architecture", GW_CHECK_BAD, "9.x needs CUDA 11.8",
     NULL},
    /* heat and brake */
    {G "sm_clock_max_mhz=1980\n" S "clock_reasons=64 clock_reasons_known=511 sm_clock_mhz=1200 utilization=99\n",
     "heat", GW_CHECK_BAD, "HW thermal slowdown; 1200 of 1980 MHz", "thermal-throttle"},
    {G "\n" S "clock_reasons=72 clock_reasons_known=511\n", "power-brake", GW_CHECK_GOOD, "no", NULL},
    {G "\n" S "clock_reasons=72 clock_reasons_known=511\n", "heat", GW_CHECK_BAD, "HW thermal slowdown, HW slowdown",
     NULL},
    {G "\n" S "clock_reasons=136 clock_reasons_known=511\n", "power-brake", GW_CHECK_BAD, "HW power brake, HW slowdown",
     "power-capped"},
    {G "\n" S "clock_reasons=8 clock_reasons_known=511\n", "power-brake", GW_CHECK_BAD, "HW slowdown", "power-capped"},
    {G "\n" S "clock_reasons=1 clock_reasons_known=511\n", "heat", GW_CHECK_GOOD, "no", NULL},
    {G "\n" S "clock_reasons=0 clock_reasons_known=7\n", "heat", GW_CHECK_UNKNOWN, "not every reason", NULL},
    {G "\n" S "utilization=99\n", "heat", GW_CHECK_UNKNOWN, "", NULL},
    {G "\n" S "us_hw_thermal=60000000\n", "throttled-before", GW_CHECK_LOOK, "HW thermal 60 s", "thermal-throttle"},
    {G "\n" S "us_power_cap=999999999999 us_hw_thermal=0\n", "throttled-before", GW_CHECK_GOOD, "",
     NULL}, /* the power limit is no fault */
    {G "\n" S "temperature_c=86 slowdown_margin_c=3\n", "temperature", GW_CHECK_LOOK, "3 C below", "thermal-throttle"},
    {G "slowdown_c=95\n" S "temperature_c=60\n", "temperature", GW_CHECK_GOOD, "35 C below", NULL},
    {G "\n" S "temperature_c=60\n", "temperature", GW_CHECK_UNKNOWN, "60 C", NULL},
    /* power and clocks: idle with the cap bit set, as an RTX 3090 does, is no finding */
    {G "power_limit_mw=350000 power_default_mw=350000 sm_clock_max_mhz=2100\n" S
       "clock_reasons=4 clock_reasons_known=511 power_mw=35000 sm_clock_mhz=210 utilization=0\n",
     "power-limit", GW_CHECK_GOOD, "350 W, the default", NULL},
    {G "power_limit_mw=500000 power_default_mw=700000\n" S "utilization=99 power_mw=499000\n", "power-limit",
     GW_CHECK_BAD, "the load reaches it", "power-capped"},
    {G "power_limit_mw=500000 power_default_mw=700000\n" S "utilization=0 power_mw=70000\n", "power-limit",
     GW_CHECK_LOOK, "500 W, the default is 700 W", "power-capped"},
    {G "power_limit_mw=700000 power_default_mw=700000 sm_clock_max_mhz=1980\n" S
       "clock_reasons=4 clock_reasons_known=511 utilization=99 power_mw=690000 sm_clock_mhz=1500\n",
     "power-limit", GW_CHECK_GOOD, "as it may", NULL},
    {G "power_limit_mw=700000 power_default_mw=700000 sm_clock_max_mhz=1980\n" S
       "clock_reasons=4 clock_reasons_known=511 utilization=99 power_mw=690000 sm_clock_mhz=900\n",
     "power-limit", GW_CHECK_LOOK, "falls to 900 of 1980", "power-capped"},
    {G "power_limit_mw=700000\n", "power-limit", GW_CHECK_UNKNOWN, "default is not told", NULL},
    {G "sm_clock_max_mhz=1980\n" S "clock_reasons=2 clock_reasons_known=511 utilization=99 sm_clock_mhz=1200\n",
     "clocks", GW_CHECK_BAD, "held by the clock setting", "clocks-locked"},
    {G "app_clock_mhz=1200 app_clock_default_mhz=1980\n", "clocks", GW_CHECK_LOOK, "1200 MHz, the default is 1980",
     "clocks-locked"},
    {G "sm_clock_max_mhz=1980\n" S "utilization=99 sm_clock_mhz=1900\n", "clocks", GW_CHECK_GOOD, "1900 of 1980", NULL},
    {G "sm_clock_max_mhz=1980\n" S "utilization=3 sm_clock_mhz=345\n", "clocks", GW_CHECK_UNKNOWN, "",
     NULL}, /* an idle clock is no fault */
    /* others */
    {G "\nprocess gpu=0 pid=7 compute=1 name=a\nprocess gpu=0 pid=8 compute=1 name=b bytes=1048576\n", "gpu-shared",
     GW_CHECK_LOOK, "2 compute processes: a 7, b 8 1.0 MiB", "gpu-shared"},
    {G "\nprocess gpu=0 pid=7 compute=1 name=a\nprocess gpu=0 pid=9 compute=0 name=Xorg\n", "gpu-shared", GW_CHECK_GOOD,
     "one compute process", NULL},
    {G "\n", "gpu-shared", GW_CHECK_UNKNOWN, "", NULL},
    {G "persistence_mode=0 display_active=0\n", "persistence", GW_CHECK_LOOK, "off", "persistence-off"},
    {G "persistence_mode=0 display_active=1\n", "persistence", GW_CHECK_GOOD, "display", NULL},
    {G "persistence_mode=1\n", "persistence", GW_CHECK_GOOD, "on", NULL},
    {G "\n", "persistence", GW_CHECK_UNKNOWN, "", NULL},
    {G "mig_mode=1\nmig gpu=0 gi=1 bytes=10737418240\n", "mig", GW_CHECK_LOOK, "on, 1 instances", "mig"},
    {G "mig_mode=0 mig_pending=1\n", "mig", GW_CHECK_LOOK, "waits for a reset", "mig"},
    {G "mig_mode=0\n", "mig", GW_CHECK_GOOD, "off", NULL},
    {G "ecc_mode=1 ecc_uncorrected=2\n", "ecc", GW_CHECK_BAD, "2 uncorrected", "ecc"},
    {G "ecc_mode=1 ecc_uncorrected=0 remap_failure=1\n", "ecc", GW_CHECK_BAD, "replace", "ecc"},
    {G "ecc_mode=1 ecc_uncorrected=0 ecc_corrected=40\n", "ecc", GW_CHECK_GOOD, "none uncorrected", NULL},
    {G "\n", "ecc", GW_CHECK_UNKNOWN, "", NULL},
    {G "compute_mode=3\n", "compute-mode", GW_CHECK_LOOK, "exclusive", NULL},
    {G "compute_mode=2\n", "compute-mode", GW_CHECK_BAD, "prohibited", NULL},
    {G "compute_mode=0\n", "compute-mode", GW_CHECK_GOOD, "default", NULL},
    {G "bar1_bytes=268435456 bar1_used_bytes=268000000\n", "bar1", GW_CHECK_LOOK, "100 %", NULL},
    {G "recovery_action=1\n", "health", GW_CHECK_BAD, "reset", NULL},
    {G "fabric_state=2\n", "health", GW_CHECK_BAD, "fabric is not ready", NULL},
    {"host profiling_admin_only=1\n", "profiling", GW_CHECK_LOOK, "administrators", NULL},
    {"host profiling_admin_only=0\n", "profiling", GW_CHECK_GOOD, "every user", NULL},
    {G "name=A\ngpu index=1 name=B\n", "gpus", GW_CHECK_LOOK, "1 x A, 1 x B", NULL},
    /* PCIe: judged only under load */
    {G "pcie_gen_max=5 pcie_width_max=16\n" S "pcie_gen=1 pcie_width=16 utilization=0\n", "pcie", GW_CHECK_UNKNOWN,
     "an idle link saves power", NULL},
    {G "pcie_gen_max=5 pcie_width_max=16\n" S "pcie_gen=3 pcie_width=16 utilization=90\n", "pcie", GW_CHECK_BAD,
     "gen 3 x16 under load; both ends can do gen 5 x16", "pcie-degraded"},
    {G "pcie_gen_max=5 pcie_width_max=16\n" S "pcie_gen=5 pcie_width=8 utilization=0 pcie_rx_kbps=9000000\n", "pcie",
     GW_CHECK_BAD, "gen 5 x8 under load", "pcie-degraded"},
    {G "pcie_gen_max=4 pcie_width_max=16\nhost copy_load=1\n" S "pcie_gen=4 pcie_width=4\n", "pcie", GW_CHECK_BAD,
     "x4 under load", "pcie-degraded"},
    {G "pcie_gen_max=4 pcie_gen_device_max=5 pcie_width_max=16\n" S "pcie_gen=4 pcie_width=16\n", "pcie", GW_CHECK_GOOD,
     "all that this slot has; the card can do gen 5", NULL},
    {G "pcie_gen_max=4 pcie_width_max=16 pcie_width_host_max=8\n" S "pcie_gen=4 pcie_width=8\n", "pcie", GW_CHECK_LOOK,
     "x8: all the slot has", "pcie-degraded"},
    {G "\n" S "pcie_gen=4 pcie_width=8 utilization=90\n", "pcie", GW_CHECK_UNKNOWN, "", NULL},
    {G "\nsample position=0 source=0 t=0 pcie_replays=100\nsample position=0 source=0 t=60000000000 pcie_replays=160\n",
     "pcie-errors", GW_CHECK_BAD, "60 in 60 s", "pcie-degraded"},
    {G "\nsample position=0 source=0 t=0 pcie_replays=100\nsample position=0 source=0 t=60000000000 pcie_replays=105\n",
     "pcie-errors", GW_CHECK_LOOK, "5 in 60 s", NULL},
    {G "\nsample position=0 source=0 t=0 pcie_replays=100\nsample position=0 source=0 t=60000000000 pcie_replays=100\n",
     "pcie-errors", GW_CHECK_GOOD, "none in 60 s", NULL},
    {G "\n" S "pcie_replays=100\n", "pcie-errors", GW_CHECK_UNKNOWN, "100 since the last reset", NULL},
    /* two captures whose clocks cannot be compared */
    {G "\nsample position=0 source=0 t=5 pcie_replays=0\nsample position=0 source=1 t=60000000000 pcie_replays=900\n",
     "pcie-errors", GW_CHECK_UNKNOWN, "900", NULL},
    {G "nvlinks=18 nvlinks_active=17\n", "nvlink", GW_CHECK_BAD, "17 of 18", "poor-topology"},
    {G "nvlinks=18 nvlinks_active=18\n", "nvlink", GW_CHECK_GOOD, "18 of 18", NULL},
    {G "\n", "nvlink", GW_CHECK_UNKNOWN, "", NULL},
    {G "\ngpu index=1\npair gpu=0 peer_gpu=1 link=7 p2p=0\n", "topology", GW_CHECK_LOOK, "1 pair: 1 SYS",
     "poor-topology"},
    {G "\ngpu index=1\npair gpu=0 peer_gpu=1 link=2 nvlinks=4\n", "topology", GW_CHECK_GOOD, "1 NVLink", NULL},
    {G "\ngpu index=1\ngpu index=2\npair gpu=0 peer_gpu=1 link=2\npair gpu=0 peer_gpu=2 link=7\npair gpu=1 peer_gpu=2 "
       "link=7\n",
     "topology", GW_CHECK_LOOK, "3 pairs: 1 NVLink, 2 SYS", "poor-topology"},
    {G "\ngpu index=1\n", "topology", GW_CHECK_UNKNOWN, "", NULL},
    {G "\ngpu index=1\ntext iommu=DMA-FQ\npair gpu=0 peer_gpu=1 p2p=0\n", "peer-to-peer", GW_CHECK_LOOK,
     "IOMMU translates", "poor-topology"},
    {G "\ngpu index=1\ntext iommu=identity\npair gpu=0 peer_gpu=1 p2p=0\n", "peer-to-peer", GW_CHECK_GOOD, "every pair",
     NULL},
    {G "\nnic name=mlx5_0 kind=infiniband up=0\n", "nic", GW_CHECK_LOOK, "1 of 1 InfiniBand ports are down",
     "poor-topology"},
    {G "\npair gpu=0 peer_nic=mlx5_0 link=3\n", "nic", GW_CHECK_GOOD, "near (PIX)", NULL},
    /* CPU */
    {"text cpu_model=X\ntext governor=powersave\ntext frequency_driver=acpi-cpufreq\n", "cpu", GW_CHECK_LOOK,
     "lowest frequency", "cpu-starved"},
    {"text cpu_model=X\ntext governor=powersave\ntext frequency_driver=intel_pstate\n", "cpu", GW_CHECK_GOOD,
     "X, governor powersave", NULL},
    {"text governor=performance\nhost cpu_max_khz=3800000 cpu_limit_khz=1500000\n", "cpu", GW_CHECK_LOOK,
     "1.5 of 3.8 GHz", NULL},
    {"text cpu_model=X\n", "cpu", GW_CHECK_UNKNOWN, "outside this system", NULL},
    {G "\nhost cpus=64 cpus_allowed_count=1\n", "cpu-affinity", GW_CHECK_BAD, "1 of 64", "cpu-starved"},
    {G "\nhost cpus=64 cpus_allowed_count=2\n", "cpu-affinity", GW_CHECK_LOOK, "2 of 64 for 1 GPU", "cpu-starved"},
    {G "\nhost cpus=64 cpus_allowed_count=64\n", "cpu-affinity", GW_CHECK_GOOD, "64 of 64", NULL},
    {"host cpus=64\n", "cpu-affinity", GW_CHECK_UNKNOWN, "not in the capture", NULL},
    {G "\nhost quota_mcpu=4000 cpus_allowed_count=64 cgroup_periods_now=6 cgroup_throttled_now=5\n", "cpu-quota",
     GW_CHECK_BAD, "4 CPUs; throttled in 83 %", "cpu-starved"},
    {"host quota_mcpu=32000 cpus_allowed_count=32 cgroup_periods=4567 cgroup_throttled=3115\n", "cpu-quota",
     GW_CHECK_LOOK, "68 % of the periods so far", "cpu-starved"},
    {"host quota_mcpu=8000 cpus_allowed_count=64\n", "cpu-quota", GW_CHECK_LOOK, "programs see 64", "cpu-starved"},
    {"host quota_mcpu=-1\n", "cpu-quota", GW_CHECK_GOOD, "none", NULL},
    {"host quota_mcpu=32000 cpus_allowed_count=32 cgroup_periods=1000 cgroup_throttled=3\n", "cpu-quota", GW_CHECK_GOOD,
     "32 CPUs", NULL},
    {"", "cpu-quota", GW_CHECK_UNKNOWN, "", NULL},
    {"host load_x100=20000 cpus=64\n", "cpu-load", GW_CHECK_LOOK, "200.0 on 64", NULL},
    {"host load_x100=3000 cpus=64 psi_cpu_x100=5000\n", "cpu-load", GW_CHECK_LOOK, "50 % of the time", NULL},
    {"host load_x100=3000 cpus=64 psi_cpu_x100=0\n", "cpu-load", GW_CHECK_GOOD, "30.0 on 64", NULL},
    {G "cpus=0-31 numa_node=0\ntext cpus_allowed=32-63\nhost numa_nodes=2\n", "numa", GW_CHECK_BAD,
     "none of the allowed CPUs (32-63)", "numa-remote"},
    {G "cpus=0-31 numa_node=0\ntext cpus_allowed=0-63\nhost numa_nodes=2\n", "numa", GW_CHECK_LOOK, "32 of 64",
     "numa-remote"},
    {G "cpus=0-31 numa_node=0\ntext cpus_allowed=0-15\nhost numa_nodes=2\n", "numa", GW_CHECK_GOOD, "all allowed CPUs",
     NULL},
    {G "\ntext cpus_allowed=0-15\nhost numa_nodes=1\n", "numa", GW_CHECK_GOOD, "one NUMA node", NULL},
    {G "\ntext cpus_allowed=0-15\nhost numa_nodes=2\n", "numa", GW_CHECK_UNKNOWN, "", NULL},
    {"text clocksource=hpet\n", "clocksource", GW_CHECK_LOOK, "hpet", NULL},
    {"text clocksource=kvm-clock\n", "clocksource", GW_CHECK_GOOD, "kvm-clock", NULL},
    {"host on_battery=1 battery_percent=40\n", "power-source", GW_CHECK_BAD, "on battery (40 %)", "power-capped"},
    {"host on_battery=0\ntext platform_profile=low-power\n", "power-source", GW_CHECK_LOOK, "low-power",
     "power-capped"},
    {"host on_battery=0\ntext platform_profile=performance\n", "power-source", GW_CHECK_GOOD,
     "mains, profile performance", NULL},
    /* memory */
    {"host memory_bytes=1000000000000 memory_available_bytes=50000000000\n", "memory", GW_CHECK_LOOK,
     "47 GiB of 931 GiB", "worker-memory-risk"},
    {"host memory_bytes=1000000000000 memory_available_bytes=900000000000 cgroup_memory_limit_bytes=10000000000 "
     "cgroup_memory_used_bytes=9900000000 cgroup_page_cache_bytes=0\n",
     "memory", GW_CHECK_LOOK, "(cgroup limit)", NULL},
    {"host memory_bytes=1000000000000 memory_available_bytes=900000000000 cgroup_memory_limit_bytes=10000000000 "
     "cgroup_memory_used_bytes=9900000000 cgroup_page_cache_bytes=9000000000\n",
     "memory", GW_CHECK_GOOD, "(cgroup limit)", NULL},
    {"host swap_bytes=8000000000 swap_used_bytes=100 swap_in_pages=5000\n", "swap", GW_CHECK_BAD, "swapping now", NULL},
    {"host swap_bytes=8000000000 swap_used_bytes=4000000000 swap_in_pages=0\n", "swap", GW_CHECK_LOOK, "in use", NULL},
    {"host swap_bytes=0 swap_used_bytes=0\n", "swap", GW_CHECK_GOOD, "none configured", NULL},
    {"host memory_bytes=100000000000 memory_available_bytes=5000000000\nloader_worker pid=1 "
     "pss=8000000000\nloader_worker pid=2 pss=8000000000\n",
     "loader-workers", GW_CHECK_LOOK, "2 hold 15 GiB", "worker-memory-risk"},
    {"host memory_bytes=100000000000 memory_available_bytes=50000000000\nloader_worker pid=1 rss=8000000000\n",
     "loader-workers", GW_CHECK_GOOD, "1 hold", NULL},
    {"host memory_bytes=100000000000 memory_available_bytes=50000000000\n", "loader-workers", GW_CHECK_UNKNOWN, "",
     NULL},
    {"host shm_bytes=67108864 shm_free_bytes=67108864\n", "shm", GW_CHECK_BAD, "64 MiB", "shm-small"},
    {"host shm_bytes=17179869184 shm_free_bytes=100\n", "shm", GW_CHECK_LOOK, "16 GiB", "shm-small"},
    {"host shm_bytes=17179869184 shm_free_bytes=17179869184\n", "shm", GW_CHECK_GOOD, "16 GiB", NULL},
    {"host memlock_bytes=65536\nnic name=mlx5_0 kind=infiniband up=1\n", "memlock", GW_CHECK_BAD, "64 KiB", "memlock"},
    {"host memlock_bytes=65536\n", "memlock", GW_CHECK_GOOD, "no RDMA", NULL},
    {"host memlock_bytes=-1\nnic name=mlx5_0 kind=infiniband up=1\n", "memlock", GW_CHECK_GOOD, "unlimited", NULL},
    {"host open_files=256\n", "open-files", GW_CHECK_LOOK, "256", NULL},
    /* storage */
    {"filesystem path=/d type=nfs4\n", "data", GW_CHECK_LOOK, "/d: nfs4 (network)", "slow-storage"},
    {"filesystem path=/d type=fuse.sshfs\n", "data", GW_CHECK_LOOK, "FUSE", "slow-storage"},
    {"filesystem path=/d type=9p\n", "data", GW_CHECK_BAD, "9p", "slow-storage"},
    {"filesystem path=/d type=ext4 rotational=1\n", "data", GW_CHECK_LOOK, "rotating", "slow-storage"},
    {"filesystem path=/d type=ext4 rotational=0 bytes_total=1000 bytes_free=500\n", "data", GW_CHECK_GOOD,
     "ext4 (local)", NULL},
    {"filesystem path=/d type=ext4 rotational=0 bytes_total=1000 bytes_free=5\n", "data", GW_CHECK_LOOK, "almost full",
     NULL},
    {"", "data", GW_CHECK_UNKNOWN, "", NULL},
    {"disk name=sda rotational=0 busy=0.99 await_ms=45 iops=300\n", "disk", GW_CHECK_LOOK, "sda 99 % busy, 45 ms",
     "slow-storage"},
    {"disk name=sda rotational=0 busy=0.10 await_ms=45 iops=2\n", "disk", GW_CHECK_GOOD, "busiest: sda",
     NULL}, /* two I/Os prove nothing */
    {"disk name=sda rotational=0 busy=0.10 await_ms=0.2 iops=900\nhost psi_io_x100=4000\n", "disk", GW_CHECK_LOOK,
     "wait for I/O 40 %", NULL},
    /* settings */
    {LIVE "variable name=CUDA_LAUNCH_BLOCKING value=1\n", "variables", GW_CHECK_BAD, "every launch waits",
     "debug-mode"},
    {LIVE "variable name=CUDA_LAUNCH_BLOCKING value=0\n", "variables", GW_CHECK_GOOD, "nothing that slows down", NULL},
    {LIVE "variable name=NCCL_P2P_DISABLE value=1\n", "variables", GW_CHECK_LOOK, "NCCL_P2P_DISABLE=1",
     "poor-topology"},
    {LIVE "variable name=CUDA_VISIBLE_DEVICES value=\n", "variables", GW_CHECK_BAD, "no GPU is visible", NULL},
    {LIVE "variable name=CUDA_VISIBLE_DEVICES value=0,1\n", "variables", GW_CHECK_GOOD, "CUDA_VISIBLE_DEVICES=0,1",
     NULL},
    {LIVE "variable name=NVIDIA_TF32_OVERRIDE value=0\n", "variables", GW_CHECK_LOOK, "TF32 is switched off", NULL},
    {LIVE "variable name=TORCH_DISTRIBUTED_DEBUG value=DETAIL\n", "variables", GW_CHECK_BAD, "DETAIL", "debug-mode"},
    {LIVE "variable name=TORCH_DISTRIBUTED_DEBUG value=INFO\n", "variables", GW_CHECK_GOOD, "", NULL},
    {LIVE "variable name=AWS_SECRET_ACCESS_KEY value=abc\n", "variables", GW_CHECK_GOOD,
     "nothing that slows down is set", NULL}, /* not on the list */
    {"", "variables", GW_CHECK_UNKNOWN, "", NULL},
    {LIVE "host cpus_allowed_count=8\nvariable name=OMP_NUM_THREADS value=16\n", "threads", GW_CHECK_LOOK,
     "OMP_NUM_THREADS=16 on 8", "cpu-oversubscribed"},
    {LIVE "host cpus_allowed_count=8\nvariable name=OMP_NUM_THREADS value=4\nvariable name=LOCAL_WORLD_SIZE value=8\n",
     "threads", GW_CHECK_LOOK, "each of 8 ranks", "cpu-oversubscribed"},
    {LIVE "host cpus_allowed_count=64 quota_mcpu=4000\n", "threads", GW_CHECK_LOOK, "start 64 threads on a quota of 4",
     "cpu-oversubscribed"},
    {LIVE "host cpus_allowed_count=8\nvariable name=OMP_NUM_THREADS value=8\n", "threads", GW_CHECK_GOOD, "8 on 8",
     NULL},
    {"host wsl=1\n", "container", GW_CHECK_LOOK, "Windows", NULL},
    /* measured */
    {G "pcie_gen_max=5 pcie_width_max=16\nmeasurement id=h2d-pinned gpu=0 value=55000000000.0 unit=bytes/s how=x\n",
     "copy-speed", GW_CHECK_GOOD, "55 GB/s pinned; the link's payload is 63 GB/s", NULL},
    {G "pcie_gen_max=5 pcie_width_max=16\nmeasurement id=h2d-pinned gpu=0 value=13000000000.0 unit=bytes/s how=x\n",
     "copy-speed", GW_CHECK_BAD, "13 GB/s pinned", "pcie-degraded"},
    {G "\nmeasurement id=h2d-pinned gpu=0 value=13000000000.0 unit=bytes/s how=x\n", "copy-speed", GW_CHECK_UNKNOWN,
     "13 GB/s", NULL},
    {G "\nmeasurement id=launch gpu=0 value=0.000002 unit=s how=x\n", "launch-latency", GW_CHECK_GOOD, "2.00 us", NULL},
    {G "\nmeasurement id=launch gpu=0 value=0.000025 unit=s how=x\n", "launch-latency", GW_CHECK_LOOK, "25.00 us",
     NULL},
    {"measurement id=disk-read value=50000000.0 unit=bytes/s how=buffered\n", "data-speed", GW_CHECK_LOOK, "50 MB/s",
     "slow-storage"},
    {"measurement id=disk-read value=3000000000.0 unit=bytes/s how=direct\n", "data-speed", GW_CHECK_GOOD, "3000 MB/s",
     NULL},
    {"", "copy-speed", GW_CHECK_UNKNOWN, "", NULL},
};

static struct gw_env *machine(const char *facts)
{
    struct gw_env *env = gw_env_create();
    struct gw_error err = {0};
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    fprintf(f, "#gpuwhy-check 1\n%send\n", facts);
    fclose(f);
    if (gw_capture_parse(env, "case", text, len, &err) < 0 && err.code != GW_EFORMAT)
        fail_msg("%s", err.what);
    assert_int_equal(gw_env_count(env, GW_REC_NOTE), 0); /* a key that is spelled wrong would be noted */
    free(text);
    return env;
}

static void every_row(void **state)
{
    (void)state;
    int bad = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct gw_env *env = machine(rows[i].facts);
        struct gw_arena *arena = gw_arena_create(0);
        const struct gw_check_list *l = gw_checks_run(env, arena);
        const struct gw_check *c = gw_check_find(l, rows[i].check);
        assert_non_null(c);
        if (c->status != rows[i].status || !strstr(c->value, rows[i].value) ||
            (rows[i].finding && strcmp(rows[i].finding, c->finding) != 0)) {
            print_error("row %zu, %s: %s '%s' (%s), wanted %s '%s' (%s)\n  %s\n", i, rows[i].check,
                        gw_check_status_id(c->status), c->value, c->finding, gw_check_status_id(rows[i].status),
                        rows[i].value, rows[i].finding ? rows[i].finding : "any", rows[i].facts);
            bad++;
        }
        gw_arena_destroy(arena);
        gw_env_destroy(env);
    }
    assert_int_equal(bad, 0);
}

/* Each check must be seen to speak up, and to stay silent for want of data, in some row. */
static void every_check_has_its_cases(void **state)
{
    (void)state;
    for (size_t i = 0; gw_check_info(i); i++) {
        const char *id = gw_check_info(i)->id;
        int seen = 0;
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
            seen += strcmp(rows[k].check, id) == 0;
        /* These four are tested with real files and captures: test_check_live.c, test_check_smi.c. */
        if (!seen && strcmp(id, "toolkit") && strcmp(id, "libraries") && strcmp(id, "utilization") &&
            strcmp(id, "memory-speed"))
            fail_msg("no row for %s", id);
    }
}

static void nothing_known_means_nothing_good(void **state)
{
    (void)state;
    struct gw_env *env = gw_env_create();
    struct gw_arena *arena = gw_arena_create(0);
    const struct gw_check_list *l = gw_checks_run(env, arena);
    assert_int_equal(l->by_status[GW_CHECK_UNKNOWN], l->count);
    gw_env_gpu(env, 0, NULL); /* a GPU of which only the existence is known */
    l = gw_checks_run(env, arena);
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->items[i].info->id, "gpus") != 0 && l->items[i].status != GW_CHECK_UNKNOWN)
            fail_msg("%s: %s", l->items[i].info->id, l->items[i].value);
    gw_arena_destroy(arena);
    gw_env_destroy(env);
}

static void ids_are_unique(void **state)
{
    (void)state;
    for (size_t i = 0; gw_check_info(i); i++) {
        assert_true(*gw_check_info(i)->needs != '\0');
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(gw_check_info(i)->id, gw_check_info(k)->id);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row),
        cmocka_unit_test(every_check_has_its_cases),
        cmocka_unit_test(nothing_known_means_nothing_good),
        cmocka_unit_test(ids_are_unique),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
