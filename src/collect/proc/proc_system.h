/*
 * proc_system.h - what the host, the job's cgroup and the disks say, as counters and facts.
 *
 * Counters that count up since boot are written as they are; the reader takes differences. What a kernel does not have is
 * not written. gw_system_facts() once at the start, gw_system_sample() about twice a second. One thread.
 *
 *     struct gw_system *s = gw_system_create(proc_fd, sys_fd, job_pid, &sink);
 *     gw_system_facts(s);
 *     gw_system_sample(s);
 *     gw_system_destroy(s);
 */
#ifndef GW_PROC_SYSTEM_H
#define GW_PROC_SYSTEM_H

#include "collect/proc/proc_sink.h"

/* GW_SYS(SYM, "name", "what it is") - one row a counter; the unit is part of the name. */
#define GW_SYSTEM_COUNTERS(GW_SYS)                                                                                     \
    GW_SYS(CPU_USER, "host.cpu_user_s", "CPU seconds in user code, all CPUs, since boot")                              \
    GW_SYS(CPU_SYSTEM, "host.cpu_system_s", "CPU seconds in the kernel")                                               \
    GW_SYS(CPU_IDLE, "host.cpu_idle_s", "idle CPU seconds")                                                            \
    GW_SYS(CPU_IOWAIT, "host.cpu_iowait_s", "idle CPU seconds with I/O outstanding")                                   \
    GW_SYS(CPU_STEAL, "host.cpu_steal_s", "CPU seconds that the hypervisor took")                                      \
    GW_SYS(RUNNING, "host.runnable", "runnable tasks now")                                                             \
    GW_SYS(BLOCKED, "host.blocked", "tasks in uninterruptible sleep now")                                              \
    GW_SYS(MEM_AVAILABLE, "host.memory_available_bytes", "memory available without swapping")                          \
    GW_SYS(MEM_CACHED, "host.page_cache_bytes", "page cache")                                                          \
    GW_SYS(MEM_DIRTY, "host.dirty_bytes", "page cache waiting to be written")                                          \
    GW_SYS(SWAP_IN, "host.swap_in_pages", "pages swapped in since boot")                                               \
    GW_SYS(SWAP_OUT, "host.swap_out_pages", "pages swapped out since boot")                                            \
    GW_SYS(PSI_CPU, "psi.cpu_some_us", "time in which a task waited for a CPU, since boot")                            \
    GW_SYS(PSI_IO, "psi.io_some_us", "time in which a task waited for I/O")                                            \
    GW_SYS(PSI_IO_FULL, "psi.io_full_us", "time in which all tasks waited for I/O")                                    \
    GW_SYS(PSI_MEM, "psi.memory_some_us", "time in which a task waited for memory")                                    \
    GW_SYS(CG_USAGE, "cgroup.cpu_usage_us", "CPU time of the cgroup")                                                  \
    GW_SYS(CG_PERIODS, "cgroup.periods", "periods in which the CPU quota was enforced")                                \
    GW_SYS(CG_THROTTLED, "cgroup.throttled_periods", "periods in which it ran out")                                    \
    GW_SYS(CG_THROTTLED_US, "cgroup.throttled_us", "time that the group was stopped by it")                            \
    GW_SYS(CG_MEM, "cgroup.memory_bytes", "memory of the cgroup, page cache included")                                 \
    GW_SYS(CG_PSI_CPU, "cgroup.psi_cpu_some_us", "time in which a task of the cgroup waited for a CPU")                \
    GW_SYS(CG_PSI_IO, "cgroup.psi_io_some_us", "time in which a task of the cgroup waited for I/O")                    \
    GW_SYS(CG_OOM, "cgroup.oom_kills", "processes of the cgroup that were killed for memory")                          \
    GW_SYS(DISK_READS, "disk.reads", "reads completed (item: the disk)")                                               \
    GW_SYS(DISK_READ_BYTES, "disk.read_bytes", "bytes read")                                                           \
    GW_SYS(DISK_READ_MS, "disk.read_ms", "time that reads took, summed")                                               \
    GW_SYS(DISK_WRITE_BYTES, "disk.write_bytes", "bytes written")                                                      \
    GW_SYS(DISK_BUSY_MS, "disk.busy_ms", "time with I/O in flight")                                                    \
    GW_SYS(SHM_FREE, "host.shm_free_bytes", "free in /dev/shm")

struct gw_system;
struct gw_system *gw_system_create(int proc_root, int sys_root, int pid, struct gw_sink *sink); /* NULL: out of memory */
void gw_system_destroy(struct gw_system *s);
void gw_system_facts(struct gw_system *s);
void gw_system_sample(struct gw_system *s);

#endif
