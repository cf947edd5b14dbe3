/* CPUs: number, topology, frequency, NUMA nodes, load; the cgroup's quota and memory limit (v1 and v2). */
#include <ctype.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/live/live.h"

enum { MAX_CPUS = 8192 };

static void set_text(struct gw_live *l, enum gw_host_string s, const char *path)
{
    char text[256];
    if (gw_live_read(l, text, sizeof text, "%s", path) > 0)
        gw_env_set_str(l->env, s, text, strlen(text));
}

static void models(struct gw_live *l)
{
    char text[16384]; /* the first processors are enough */
    const char *p, *end;
    if (gw_live_read(l, text, sizeof text, "/proc/cpuinfo") <= 0)
        return;
    if ((p = gw_live_line(text, "model name")) || (p = gw_live_line(text, "Processor"))) {
        end = strchr(p, '\n');
        gw_env_set_str(l->env, GW_HSTR_CPU_MODEL, p, end ? (size_t)(end - p) : strlen(p));
    }
    if ((p = gw_live_line(text, "flags"))) {
        end = strchr(p, '\n');
        const char *hit = strstr(p, " hypervisor");
        gw_env_set(l->env, GW_HOST_VIRTUAL, hit && (!end || hit < end));
    }
}

/* Cores and sockets: CPUs that are the first of their siblings. */
static void topology(struct gw_live *l, const char *online)
{
    unsigned char mask[MAX_CPUS / 8] = {0}, packages[128] = {0};
    int64_t cores = 0, sockets = 0, v;
    int known = 0;
    if (gw_cpulist_count(online, mask, MAX_CPUS) <= 0)
        return;
    for (int c = 0; c < MAX_CPUS; c++) {
        char text[256];
        if (!(mask[c / 8] >> (c % 8) & 1))
            continue;
        if (gw_live_read(l, text, sizeof text, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", c) <= 0)
            continue;
        known = 1;
        cores += strtol(text, NULL, 10) == c;
        if (gw_live_number(l, &v, "/sys/devices/system/cpu/cpu%d/topology/physical_package_id", c) == 0 && v >= 0 &&
            v < 1024 && !(packages[v / 8] >> (v % 8) & 1)) {
            packages[v / 8] = (unsigned char)(packages[v / 8] | 1u << (v % 8));
            sockets++;
        }
    }
    if (known) {
        gw_env_set(l->env, GW_HOST_CORES, cores);
        gw_env_set(l->env, GW_HOST_SOCKETS, sockets);
    }
}

static void frequency(struct gw_live *l)
{
    int64_t v, max = 0, limit = 0;
    for (int policy = 0; policy < 64; policy++) { /* the policies of one machine are alike; look at the first ones */
        int64_t a, b;
        if (gw_live_number(l, &a, "/sys/devices/system/cpu/cpufreq/policy%d/cpuinfo_max_freq", policy) == 0 &&
            gw_live_number(l, &b, "/sys/devices/system/cpu/cpufreq/policy%d/scaling_max_freq", policy) == 0 &&
            a > max) {
            max = a;
            limit = b;
        }
    }
    if (max > 0) {
        gw_env_set(l->env, GW_HOST_FREQ_MAX, max);
        gw_env_set(l->env, GW_HOST_FREQ_LIMIT, limit);
    }
    set_text(l, GW_HSTR_GOVERNOR, "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor");
    set_text(l, GW_HSTR_FREQ_DRIVER, "/sys/devices/system/cpu/cpufreq/policy0/scaling_driver");
    set_text(l, GW_HSTR_EPP, "/sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference");
    if (gw_live_number(l, &v, "/sys/devices/system/cpu/intel_pstate/no_turbo") == 0)
        gw_env_set(l->env, GW_HOST_TURBO_OFF, v == 1);
    else if (gw_live_number(l, &v, "/sys/devices/system/cpu/cpufreq/boost") == 0)
        gw_env_set(l->env, GW_HOST_TURBO_OFF, v == 0);
}

static void nodes(struct gw_live *l)
{
    char path[4096], text[1024];
    struct dirent **names = NULL;
    int n = scandir(gw_live_path(l, path, sizeof path, "/sys/devices/system/node"), &names, NULL, alphasort), count = 0;
    for (int i = 0; i < n; i++) {
        if (strncmp(names[i]->d_name, "node", 4) == 0 && isdigit((unsigned char)names[i]->d_name[4])) {
            long id = strtol(names[i]->d_name + 4, NULL, 10);
            count++;
            struct gw_env_node *rec = gw_env_add(l->env, GW_REC_NODE);
            if (rec) {
                rec->node = id;
                if (gw_live_read(l, text, sizeof text, "/sys/devices/system/node/node%ld/cpulist", id) >= 0)
                    rec->cpus = gw_env_dup(l->env, text, strlen(text));
                if (gw_live_read(l, text, sizeof text, "/sys/devices/system/node/node%ld/distance", id) > 0)
                    rec->distances = gw_env_dup(l->env, text, strlen(text));
                if (gw_live_read(l, text, sizeof text, "/sys/devices/system/node/node%ld/meminfo", id) > 0) {
                    const char *at = strstr(text, "MemTotal:");
                    if (at)
                        rec->bytes = strtoll(at + 9, NULL, 10) * 1024;
                }
            }
        }
        free(names[i]);
    }
    free(names);
    int64_t v;
    if (count)
        gw_env_set(l->env, GW_HOST_NUMA_NODES, count);
    if (gw_live_number(l, &v, "/proc/sys/kernel/numa_balancing") == 0)
        gw_env_set(l->env, GW_HOST_NUMA_BALANCING, v != 0);
}

void gw_live_cpu(struct gw_live *l)
{
    char text[8192];
    models(l);
    if (gw_live_read(l, text, sizeof text, "/sys/devices/system/cpu/online") > 0 &&
        gw_cpulist_count(text, NULL, 0) > 0) {
        gw_env_set_str(l->env, GW_HSTR_CPUS_ONLINE, text, strlen(text));
        gw_env_set(l->env, GW_HOST_CPUS, gw_cpulist_count(text, NULL, 0));
        topology(l, text);
    }
    if (gw_live_read(l, text, sizeof text, "/proc/%s/status", l->self) > 0) {
        const char *p = gw_live_line(text, "Cpus_allowed_list");
        char list[4096];
        if (p && snprintf(list, sizeof list, "%.*s", (int)strcspn(p, "\n"), p) < (int)sizeof list &&
            gw_cpulist_count(list, NULL, 0) > 0) {
            gw_env_set_str(l->env, GW_HSTR_CPUS_ALLOWED, list, strlen(list));
            gw_env_set(l->env, GW_HOST_ALLOWED, gw_cpulist_count(list, NULL, 0));
        }
    }
    if (gw_live_read(l, text, sizeof text, "/proc/loadavg") > 0)
        gw_env_set(l->env, GW_HOST_LOAD_X100, (int64_t)(strtod(text, NULL) * 100 + 0.5));
    frequency(l);
    nodes(l);
    set_text(l, GW_HSTR_CLOCKSOURCE, "/sys/devices/system/clocksource/clocksource0/current_clocksource");
}

/* --- cgroups ---------------------------------------------------------------------------------------------------------
 */

/* The group of a v1 controller ("cpu"), or of v2 (""), from /proc/self/cgroup. 1 when it is there. */
static int group_of(const char *text, const char *controller, char *out, size_t cap)
{
    for (const char *p = text; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
        const char *a = strchr(p, ':'), *b = a ? strchr(a + 1, ':') : NULL, *end = b ? b + strcspn(b, "\n") : NULL;
        if (!b)
            continue;
        size_t n = (size_t)(b - a) - 1, len = strlen(controller);
        int hit = n == 0 && len == 0;
        for (const char *c = a + 1; len && c < b; c += strcspn(c, ",:"), c += *c == ',')
            if (strncmp(c, controller, len) == 0 && (c[len] == ',' || c[len] == ':')) {
                hit = 1;
                break;
            }
        if (hit) {
            snprintf(out, cap, "%.*s", (int)(end - b - 1), b + 1);
            return 1;
        }
    }
    return 0;
}

/* Shortens "/a/b" to "/a" to "". 0 when there is nothing left to cut. */
static int parent(char *group)
{
    char *slash = strrchr(group, '/');
    if (!slash || !*group)
        return 0;
    *slash = '\0';
    return 1;
}

static void least_limit(struct gw_env *env, enum gw_host_metric m, int64_t v)
{
    int64_t old = gw_env_get(env, m);
    if (v > 0 && (old == GW_ENV_NONE || old < 0 || v < old))
        gw_env_set(env, m, v);
}

/* The quota and memory limit that hold are the smallest on the way to the root. */
static void limits_v2(struct gw_live *l, char *group)
{
    char text[128];
    gw_env_set(l->env, GW_HOST_QUOTA_MCPU, -1);
    gw_env_set(l->env, GW_HOST_CG_MEM_LIMIT, -1);
    do {
        long long quota, period;
        if (gw_live_read(l, text, sizeof text, "/sys/fs/cgroup%s/cpu.max", group) > 0 &&
            sscanf(text, "%lld %lld", &quota, &period) == 2 && period > 0)
            least_limit(l->env, GW_HOST_QUOTA_MCPU, quota * 1000 / period);
        int64_t v, used;
        if (gw_live_number(l, &v, "/sys/fs/cgroup%s/memory.max", group) == 0 && v > 0) {
            int64_t old = gw_env_get(l->env, GW_HOST_CG_MEM_LIMIT);
            least_limit(l->env, GW_HOST_CG_MEM_LIMIT, v);
            if (gw_env_get(l->env, GW_HOST_CG_MEM_LIMIT) != old &&
                gw_live_number(l, &used, "/sys/fs/cgroup%s/memory.current", group) == 0) {
                char stat[8192];
                gw_env_set(l->env, GW_HOST_CG_MEM_USED, used);
                if (gw_live_read(l, stat, sizeof stat, "/sys/fs/cgroup%s/memory.stat", group) > 0) {
                    int64_t file = gw_live_number_after(stat, "inactive_file ");
                    if (file != GW_ENV_NONE)
                        gw_env_set(l->env, GW_HOST_CG_MEM_CACHE, file);
                }
            }
        }
        char events[512];
        if (!gw_env_has(l->env, GW_HOST_CG_OOM) &&
            gw_live_read(l, events, sizeof events, "/sys/fs/cgroup%s/memory.events", group) > 0) {
            int64_t kills = gw_live_number_after(events, "oom_kill ");
            if (kills != GW_ENV_NONE)
                gw_env_set(l->env, GW_HOST_CG_OOM, kills);
        }
    } while (parent(group));
}

static void limits_v1(struct gw_live *l, char *cpu, char *memory)
{
    int64_t quota, period, v;
    gw_env_set(l->env, GW_HOST_QUOTA_MCPU, -1);
    do {
        if (gw_live_number(l, &quota, "/sys/fs/cgroup/cpu%s/cpu.cfs_quota_us", cpu) == 0 && quota > 0 &&
            gw_live_number(l, &period, "/sys/fs/cgroup/cpu%s/cpu.cfs_period_us", cpu) == 0 && period > 0)
            least_limit(l->env, GW_HOST_QUOTA_MCPU, quota * 1000 / period);
    } while (parent(cpu));
    do {
        /* "no limit" is a number near 2^63 in v1 */
        if (gw_live_number(l, &v, "/sys/fs/cgroup/memory%s/memory.limit_in_bytes", memory) == 0 && v > 0 &&
            v < (int64_t)1 << 60) {
            least_limit(l->env, GW_HOST_CG_MEM_LIMIT, v);
            if (gw_live_number(l, &v, "/sys/fs/cgroup/memory%s/memory.usage_in_bytes", memory) == 0 &&
                !gw_env_has(l->env, GW_HOST_CG_MEM_USED))
                gw_env_set(l->env, GW_HOST_CG_MEM_USED, v);
        }
    } while (parent(memory));
}

void gw_live_cgroup(struct gw_live *l)
{
    char text[8192], group[2048], memory[2048];
    if (gw_live_read(l, text, sizeof text, "/proc/%s/cgroup", l->self) <= 0)
        return;
    if (gw_live_exists(l, "/sys/fs/cgroup/cgroup.controllers") && group_of(text, "", group, sizeof group)) {
        /* In a container the path is often the host's, and the mount shows the group itself: then it is the root here.
         */
        if (!gw_live_exists(l, "/sys/fs/cgroup%s", group))
            group[0] = '\0';
        limits_v2(l, group);
    } else if (group_of(text, "cpu", group, sizeof group)) {
        if (!group_of(text, "memory", memory, sizeof memory) || !gw_live_exists(l, "/sys/fs/cgroup/memory%s", memory))
            memory[0] = '\0';
        if (!gw_live_exists(l, "/sys/fs/cgroup/cpu%s", group))
            group[0] = '\0';
        limits_v1(l, group, memory);
    }
}
