/* Memory, limits, /dev/shm, and the data loader's workers that run now. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

#include "collect/live/live.h"

static void set_kb(struct gw_env *env, enum gw_host_metric m, int64_t kb)
{
    if (kb != GW_ENV_NONE && kb >= 0 && kb < INT64_MAX / 1024)
        gw_env_set(env, m, kb * 1024);
}

/* "Max locked memory   8388608   8388608   bytes": the soft limit. -1 = unlimited. */
static int64_t soft_limit(const char *text, const char *name)
{
    const char *p = gw_live_line(text, name);
    if (!p)
        return GW_ENV_NONE;
    if (strncmp(p, "unlimited", 9) == 0)
        return -1;
    return isdigit((unsigned char)*p) ? strtoll(p, NULL, 10) : GW_ENV_NONE;
}

/* Size of the tmpfs at /dev/shm as its mount options tell, for a root that is not ours. */
static int64_t shm_by_mountinfo(struct gw_live *l)
{
    char text[65536];
    if (gw_live_read(l, text, sizeof text, "/proc/self/mountinfo") <= 0)
        return GW_ENV_NONE;
    for (char *p = text, *next; p && *p; p = next) {
        next = strchr(p, '\n');
        if (next)
            *next++ = '\0';
        char *at = strstr(p, " /dev/shm "), *size = at ? strstr(at, "size=") : NULL, *end;
        if (!size)
            continue;
        long long v = strtoll(size + 5, &end, 10);
        return *end == 'k' ? v * 1024 : *end == 'm' ? v << 20 : *end == 'g' ? v << 30 : v;
    }
    return GW_ENV_NONE;
}

static void shm(struct gw_live *l)
{
    struct statvfs st;
    if (*l->root) {
        int64_t size = shm_by_mountinfo(l);
        if (size != GW_ENV_NONE)
            gw_env_set(l->env, GW_HOST_SHM_TOTAL, size);
    } else if (statvfs("/dev/shm", &st) == 0 && st.f_blocks) {
        gw_env_set(l->env, GW_HOST_SHM_TOTAL, (int64_t)(st.f_blocks * st.f_frsize));
        gw_env_set(l->env, GW_HOST_SHM_FREE, (int64_t)(st.f_bavail * st.f_frsize));
    }
}

void gw_live_memory(struct gw_live *l)
{
    char text[8192];
    if (gw_live_read(l, text, sizeof text, "/proc/meminfo") > 0) {
        set_kb(l->env, GW_HOST_MEM_TOTAL, gw_live_number_after(text, "MemTotal:"));
        set_kb(l->env, GW_HOST_MEM_AVAILABLE, gw_live_number_after(text, "MemAvailable:"));
        int64_t total = gw_live_number_after(text, "SwapTotal:"), free = gw_live_number_after(text, "SwapFree:");
        if (total >= 0 && free >= 0 && free <= total) {
            set_kb(l->env, GW_HOST_SWAP_TOTAL, total);
            set_kb(l->env, GW_HOST_SWAP_USED, total - free);
        }
    }
    if (gw_live_read(l, text, sizeof text, "/proc/%s/limits", l->self) > 0) {
        int64_t v = soft_limit(text, "Max locked memory");
        if (v != GW_ENV_NONE)
            gw_env_set(l->env, GW_HOST_MEMLOCK, v);
        if ((v = soft_limit(text, "Max open files")) != GW_ENV_NONE)
            gw_env_set(l->env, GW_HOST_NOFILE, v);
    }
    shm(l);
}

/* --- loader workers --------------------------------------------------------------------------------------------------
 */

/* Names that PyTorch gives its loader's worker processes (2.3 and later); older ones look like the trainer. */
static int is_worker(const char *comm)
{
    return strncmp(comm, "pt_data_worker", 14) == 0 || strncmp(comm, "pt_multiprocess", 15) == 0;
}

static double seconds_since(const struct timespec *t0)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)(t.tv_sec - t0->tv_sec) + (double)(t.tv_nsec - t0->tv_nsec) * 1e-9;
}

static void add_worker(struct gw_live *l, const char *pid, const char *comm)
{
    char text[4096];
    struct gw_env_worker *w = gw_env_add(l->env, GW_REC_WORKER);
    if (!w)
        return;
    w->pid = strtoll(pid, NULL, 10);
    w->name = gw_env_dup(l->env, comm, strlen(comm));
    if (gw_live_read(l, text, sizeof text, "/proc/%s/status", pid) > 0) {
        int64_t rss = gw_live_number_after(text, "VmRSS:"), parent = gw_live_number_after(text, "PPid:");
        if (rss >= 0)
            w->rss = rss * 1024;
        w->parent = parent;
    }
    /* Pages that workers share count once in all: the proportional share is what they cost. */
    if (gw_live_read(l, text, sizeof text, "/proc/%s/smaps_rollup", pid) > 0) {
        int64_t pss = gw_live_number_after(text, "Pss:");
        if (pss >= 0)
            w->pss = pss * 1024;
    }
}

void gw_live_processes(struct gw_live *l)
{
    char path[4096], comm[64];
    struct timespec t0;
    struct dirent *e;
    DIR *d = opendir(gw_live_path(l, path, sizeof path, "/proc"));
    clock_gettime(CLOCK_MONOTONIC, &t0);
    while (d && (e = readdir(d))) {
        if (!isdigit((unsigned char)e->d_name[0]) ||
            gw_live_read(l, comm, sizeof comm, "/proc/%s/comm", e->d_name) <= 0)
            continue;
        if (is_worker(comm))
            add_worker(l, e->d_name, comm);
        if (seconds_since(&t0) > 0.4) { /* tens of thousands of processes: the rest would cost the user's time */
            gw_env_note(l->env, "/proc", "not every process was looked at");
            break;
        }
    }
    if (d)
        closedir(d);
}
