/* proc_system.c - see proc_system.h */
#include "collect/proc/proc_system.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "collect/proc/proc_read.h"

enum counter {
#define GW_SYS(sym, name, text) C_##sym,
    GW_SYSTEM_COUNTERS(GW_SYS)
#undef GW_SYS
    C_COUNT
};

enum { LEVELS = 16 };

struct gw_system {
    int proc, sys, pid;
    struct gw_sink *sink;
    uint32_t name[C_COUNT];
    double hz;
    char cpu_group[1024], mem_group[1024]; /* folders below the sys root; "" none */
    int v2;
};

struct gw_system *gw_system_create(int proc_root, int sys_root, int pid, struct gw_sink *sink)
{
    static const char *const names[] = {
#define GW_SYS(sym, name, text) name,
        GW_SYSTEM_COUNTERS(GW_SYS)
#undef GW_SYS
    };
    struct gw_system *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->proc = proc_root;
    s->sys = sys_root;
    s->pid = pid;
    s->sink = sink;
    s->hz = (double)sysconf(_SC_CLK_TCK);
    for (int i = 0; i < C_COUNT; i++)
        s->name[i] = gw_sink_string(sink, names[i]);
    return s;
}

void gw_system_destroy(struct gw_system *s) { free(s); }

static void put(struct gw_system *s, enum counter c, uint32_t item, double v)
{
    gw_sink_counter(s->sink, s->name[c], -1, 0, item, v);
}

/* The number after `key` at the start of a line. 1 found, 0 not. */
static int value_of(const char *text, const char *key, double *out)
{
    size_t len = strlen(key);
    for (const char *p = text; p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
        if (strncmp(p, key, len) == 0) {
            char *end;
            *out = strtod(p + len, &end);
            return end != p + len;
        }
    return 0;
}

static void put_key(struct gw_system *s, enum counter c, const char *text, const char *key, double scale)
{
    double v;
    if (value_of(text, key, &v))
        put(s, c, 0, v * scale);
}

/* --- cgroup ----------------------------------------------------------------------------------------------------- */

static int exists(int root, const char *path)
{
    return faccessat(root, path, R_OK, 0) == 0;
}

/* In a container the path of /proc/PID/cgroup may name a folder that only the host sees: then the mounted root is ours. */
static void set_group(struct gw_system *s, char *to, size_t cap, const char *controller, const char *path, const char *probe)
{
    char file[1200];
    snprintf(to, cap, "fs/cgroup%s%s", controller, strcmp(path, "/") ? path : "");
    snprintf(file, sizeof file, "%.1000s/%s", to, probe);
    if (exists(s->sys, file))
        return;
    snprintf(to, cap, "fs/cgroup%s", controller);
    snprintf(file, sizeof file, "%.1000s/%s", to, probe);
    if (!exists(s->sys, file))
        to[0] = 0;
}

static void find_groups(struct gw_system *s)
{
    char path[40], buf[8192];
    snprintf(path, sizeof path, "%d/cgroup", s->pid);
    if (gw_proc_text(s->proc, path, buf, sizeof buf) < 0)
        return;
    s->v2 = exists(s->sys, "fs/cgroup/cgroup.controllers");
    for (char *line = strtok(buf, "\n"); line; line = strtok(NULL, "\n")) {
        char *names = strchr(line, ':'), *at = names ? strchr(names + 1, ':') : NULL;
        if (!at)
            continue;
        *at++ = 0;
        names++;
        if (s->v2 && !*names) {
            set_group(s, s->cpu_group, sizeof s->cpu_group, "", at, "cpu.stat");
            set_group(s, s->mem_group, sizeof s->mem_group, "", at, "cgroup.procs");
        } else if (!s->v2 && (strcmp(names, "cpu") == 0 || strncmp(names, "cpu,", 4) == 0 || strstr(names, ",cpu"))) {
            set_group(s, s->cpu_group, sizeof s->cpu_group, "/cpu", at, "cpu.stat");
        } else if (!s->v2 && strcmp(names, "memory") == 0) {
            set_group(s, s->mem_group, sizeof s->mem_group, "/memory", at, "memory.usage_in_bytes");
        }
    }
}

static long group_text(struct gw_system *s, const char *group, const char *file, char *buf, size_t cap)
{
    char path[1200];
    if (!group[0])
        return -1;
    snprintf(path, sizeof path, "%.1000s/%s", group, file);
    return gw_proc_text(s->sys, path, buf, cap);
}

/* Walks from the group to the root: the tightest limit holds. */
static void limits(struct gw_system *s)
{
    char group[1024], buf[256];
    double cpus = -1, bytes = -1;
    snprintf(group, sizeof group, "%s", s->cpu_group);
    for (int i = 0; i < LEVELS && group[0] && strlen(group) >= strlen("fs/cgroup"); i++) {
        double quota = -1, period = 100000;
        if (s->v2 && group_text(s, group, "cpu.max", buf, sizeof buf) > 0) {
            if (sscanf(buf, "%lf %lf", &quota, &period) != 2)
                quota = -1; /* "max" */
        } else if (!s->v2 && group_text(s, group, "cpu.cfs_quota_us", buf, sizeof buf) > 0) {
            quota = atof(buf);
            if (group_text(s, group, "cpu.cfs_period_us", buf, sizeof buf) > 0)
                period = atof(buf);
        }
        if (quota > 0 && period > 0 && (cpus < 0 || quota / period < cpus))
            cpus = quota / period;
        char *slash = strrchr(group, '/');
        if (!slash)
            break;
        *slash = 0;
    }
    snprintf(group, sizeof group, "%s", s->mem_group);
    for (int i = 0; i < LEVELS && group[0] && strlen(group) >= strlen("fs/cgroup"); i++) {
        const char *file = s->v2 ? "memory.max" : "memory.limit_in_bytes";
        double v;
        if (group_text(s, group, file, buf, sizeof buf) > 0 && sscanf(buf, "%lf", &v) == 1 && v < 9e18 && (bytes < 0 || v < bytes))
            bytes = v;
        char *slash = strrchr(group, '/');
        if (!slash)
            break;
        *slash = 0;
    }
    if (cpus > 0)
        gw_sink_factf(s->sink, "cgroup.cpu_limit", "%.3f", cpus);
    if (bytes > 0)
        gw_sink_factf(s->sink, "cgroup.memory_limit_bytes", "%.0f", bytes);
}

static void sample_group(struct gw_system *s)
{
    char buf[4096];
    double v;
    if (group_text(s, s->cpu_group, "cpu.stat", buf, sizeof buf) > 0) {
        put_key(s, C_CG_USAGE, buf, "usage_usec ", 1);
        put_key(s, C_CG_PERIODS, buf, "nr_periods ", 1);
        put_key(s, C_CG_THROTTLED, buf, "nr_throttled ", 1);
        put_key(s, C_CG_THROTTLED_US, buf, s->v2 ? "throttled_usec " : "throttled_time ", s->v2 ? 1 : 1e-3);
    }
    if (group_text(s, s->mem_group, s->v2 ? "memory.current" : "memory.usage_in_bytes", buf, sizeof buf) > 0 &&
        sscanf(buf, "%lf", &v) == 1)
        put(s, C_CG_MEM, 0, v);
    if (s->v2 && group_text(s, s->mem_group, "memory.events", buf, sizeof buf) > 0)
        put_key(s, C_CG_OOM, buf, "oom_kill ", 1);
    const struct { const char *file; enum counter c; } psi[] = {{"cpu.pressure", C_CG_PSI_CPU}, {"io.pressure", C_CG_PSI_IO}};
    for (size_t i = 0; s->v2 && i < sizeof psi / sizeof *psi; i++) {
        const char *total;
        if (group_text(s, s->cpu_group, psi[i].file, buf, sizeof buf) > 0 && (total = strstr(buf, "total=")))
            put(s, psi[i].c, 0, strtod(total + 6, NULL));
    }
}

/* --- host ------------------------------------------------------------------------------------------------------- */

void gw_system_facts(struct gw_system *s)
{
    char buf[16384];
    find_groups(s);
    limits(s);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    gw_sink_factf(s->sink, "host.cpus", "%ld", online);
    struct utsname un;
    if (uname(&un) == 0)
        gw_sink_fact(s->sink, "host.machine", un.machine);
    gw_sink_factf(s->sink, "host.page_bytes", "%ld", sysconf(_SC_PAGESIZE));
    if (gw_proc_text(s->proc, "meminfo", buf, sizeof buf) > 0) {
        double v;
        if (value_of(buf, "MemTotal:", &v))
            gw_sink_factf(s->sink, "host.memory_bytes", "%.0f", v * 1024);
        if (value_of(buf, "SwapTotal:", &v))
            gw_sink_factf(s->sink, "host.swap_bytes", "%.0f", v * 1024);
    }
    const struct { const char *file, *key; } lines[] = {
        {"sys/kernel/osrelease", "host.kernel"}, {"sys/kernel/hostname", "host.name"},
        {"driver/nvidia/version", "host.nvidia_module"}, {"sys/kernel/yama/ptrace_scope", "host.ptrace_scope"}};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (gw_proc_text(s->proc, lines[i].file, buf, 400) > 0) {
            buf[strcspn(buf, "\n")] = 0;
            gw_sink_fact(s->sink, lines[i].key, buf);
        }
    struct statvfs vfs;
    if (statvfs("/dev/shm", &vfs) == 0)
        gw_sink_factf(s->sink, "host.shm_bytes", "%.0f", (double)vfs.f_blocks * (double)vfs.f_frsize);
}

static void sample_stat(struct gw_system *s)
{
    char buf[65536];
    double u, n, k, idle, wait, irq, soft, steal;
    if (gw_proc_text(s->proc, "stat", buf, sizeof buf) < 0)
        return;
    if (sscanf(buf, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &u, &n, &k, &idle, &wait, &irq, &soft, &steal) == 8) {
        put(s, C_CPU_USER, 0, (u + n) / s->hz);
        put(s, C_CPU_SYSTEM, 0, (k + irq + soft) / s->hz);
        put(s, C_CPU_IDLE, 0, idle / s->hz);
        put(s, C_CPU_IOWAIT, 0, wait / s->hz);
        put(s, C_CPU_STEAL, 0, steal / s->hz);
    }
    put_key(s, C_RUNNING, buf, "procs_running ", 1);
    put_key(s, C_BLOCKED, buf, "procs_blocked ", 1);
}

static void sample_memory(struct gw_system *s)
{
    char buf[16384];
    if (gw_proc_text(s->proc, "meminfo", buf, sizeof buf) > 0) {
        put_key(s, C_MEM_AVAILABLE, buf, "MemAvailable:", 1024);
        put_key(s, C_MEM_CACHED, buf, "Cached:", 1024);
        put_key(s, C_MEM_DIRTY, buf, "Dirty:", 1024);
    }
    if (gw_proc_text(s->proc, "vmstat", buf, sizeof buf) > 0) {
        put_key(s, C_SWAP_IN, buf, "pswpin ", 1);
        put_key(s, C_SWAP_OUT, buf, "pswpout ", 1);
    }
    struct statvfs vfs;
    if (statvfs("/dev/shm", &vfs) == 0)
        put(s, C_SHM_FREE, 0, (double)vfs.f_bavail * (double)vfs.f_frsize);
}

static void sample_pressure(struct gw_system *s)
{
    static const struct { const char *file; enum counter some; int full; enum counter full_c; } files[] = {
        {"pressure/cpu", C_PSI_CPU, 0, C_PSI_CPU}, {"pressure/io", C_PSI_IO, 1, C_PSI_IO_FULL},
        {"pressure/memory", C_PSI_MEM, 0, C_PSI_MEM}};
    char buf[512];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (gw_proc_text(s->proc, files[i].file, buf, sizeof buf) < 0)
            continue;
        const char *some = strstr(buf, "total="), *full = strstr(buf, "full");
        if (some)
            put(s, files[i].some, 0, strtod(some + 6, NULL));
        full = full ? strstr(full, "total=") : NULL;
        if (full && files[i].full)
            put(s, files[i].full_c, 0, strtod(full + 6, NULL));
    }
}

/* Whole disks only: partitions would count everything twice. */
static int is_disk(struct gw_system *s, const char *name)
{
    char path[160];
    if (strncmp(name, "loop", 4) == 0 || strncmp(name, "ram", 3) == 0 || strncmp(name, "zram", 4) == 0)
        return 0;
    snprintf(path, sizeof path, "block/%.100s", name);
    return exists(s->sys, path);
}

static void sample_disks(struct gw_system *s)
{
    char buf[32768];
    if (gw_proc_text(s->proc, "diskstats", buf, sizeof buf) < 0)
        return;
    char *save = NULL;
    int n = 0;
    for (char *line = strtok_r(buf, "\n", &save); line && n < 32; line = strtok_r(NULL, "\n", &save)) {
        char name[64];
        double reads, rsect, rms, writes, wsect, wms, flight, busy;
        if (sscanf(line, "%*d %*d %63s %lf %*f %lf %lf %lf %*f %lf %lf %lf %lf", name, &reads, &rsect, &rms, &writes, &wsect, &wms,
                   &flight, &busy) != 9 || !is_disk(s, name))
            continue;
        uint32_t item = gw_sink_string(s->sink, name);
        put(s, C_DISK_READS, item, reads);
        put(s, C_DISK_READ_BYTES, item, rsect * 512); /* diskstats counts sectors of 512 bytes, whatever the disk has */
        put(s, C_DISK_READ_MS, item, rms);
        put(s, C_DISK_WRITE_BYTES, item, wsect * 512);
        put(s, C_DISK_BUSY_MS, item, busy);
        n++;
    }
}

void gw_system_sample(struct gw_system *s)
{
    sample_stat(s);
    sample_memory(s);
    sample_pressure(s);
    sample_group(s);
    sample_disks(s);
}
