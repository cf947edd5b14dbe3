/* Memory, swap, /dev/shm, limits, and what the data loader's workers take. */
#include <math.h>

#include "collect/checks/check_run.h"

#define GIB ((int64_t)1 << 30)
#define LOW_SHARE 0.10              /* of the memory still available */
#define SHM_BAD ((int64_t)64 << 20) /* Docker's default */
#define SHM_SMALL (1 * GIB)
#define SHM_FULL 0.10   /* free share */
#define SWAP_LOOK 0.25  /* of the swap in use */
#define OPEN_FILES 1024 /* the usual soft limit; a loader with the file-descriptor strategy opens one a tensor */

/* What can still be had, under the machine's and the cgroup's limit. */
static int64_t available(const struct gw_env *env, int64_t *limit)
{
    int64_t free = gw_env_get(env, GW_HOST_MEM_AVAILABLE), max = gw_env_get(env, GW_HOST_CG_MEM_LIMIT),
            used = gw_env_get(env, GW_HOST_CG_MEM_USED);
    int64_t cache = gw_env_get(env, GW_HOST_CG_MEM_CACHE);
    *limit = gw_env_get(env, GW_HOST_MEM_TOTAL);
    if (max > 0 && used >= 0 && (*limit == GW_ENV_NONE || max < *limit)) {
        int64_t room = max - used + (cache > 0 ? cache : 0);
        *limit = max;
        free = free == GW_ENV_NONE || room < free ? room : free;
    }
    return free;
}

void gw_check_on_memory(struct gw_check_run *r)
{
    int64_t limit, room = available(r->env, &limit), oom = gw_env_get(r->env, GW_HOST_CG_OOM),
                   psi = gw_env_get(r->env, GW_HOST_PSI_MEM_X100);
    if (room == GW_ENV_NONE || limit == GW_ENV_NONE || limit <= 0)
        return;
    int by_cgroup = gw_env_get(r->env, GW_HOST_CG_MEM_LIMIT) == limit;
    const char *text = gw_check_text(r, _("%s of %s free%s"), gw_check_bytes(r, room < 0 ? 0 : room),
                                     gw_check_bytes(r, limit), by_cgroup ? _(" (cgroup limit)") : "");
    gw_check_evidence(r, (double)room, "bytes",
                      by_cgroup      ? "cgroup memory.max"
                      : r->env->live ? "/proc/meminfo"
                                     : "free",
                      "%s", text);
    if (oom > 0)
        gw_check_say(r, GW_CHECK_LOOK, _("%s; %lld processes were killed for memory here"), text, (long long)oom);
    else if ((double)room < LOW_SHARE * (double)limit)
        gw_check_say(r, GW_CHECK_LOOK, "%s", text);
    else if (psi > 1000)
        gw_check_say(r, GW_CHECK_LOOK, _("%s; tasks wait for memory %.0f %% of the time"), text, (double)psi / 100);
    else
        gw_check_say(r, GW_CHECK_GOOD, "%s", text);
    if (r->now->status == GW_CHECK_LOOK) {
        gw_check_expect(r, "at least %.0f %% free", 100 * LOW_SHARE);
        gw_check_fix(r,
                     _("fewer workers, smaller prefetch_factor, data sets in arrays or memory maps instead of Python "
                       "lists; raise the container's "
                       "memory limit"),
                     "free -h; cat /sys/fs/cgroup/memory.events", "");
    }
}

void gw_check_on_swap(struct gw_check_run *r)
{
    int64_t total = gw_env_get(r->env, GW_HOST_SWAP_TOTAL), used = gw_env_get(r->env, GW_HOST_SWAP_USED),
            pages = gw_env_get(r->env, GW_HOST_SWAP_IN_PAGES);
    if (total == GW_ENV_NONE || used == GW_ENV_NONE)
        return;
    if (total == 0)
        gw_check_say(r, GW_CHECK_GOOD, _("none configured"));
    else if (pages > 100)
        gw_check_say(r, GW_CHECK_BAD, _("swapping now: %lld pages in the sample, %s in use"), (long long)pages,
                     gw_check_bytes(r, used));
    else if ((double)used > SWAP_LOOK * (double)total && used > GIB)
        gw_check_say(r, GW_CHECK_LOOK, _("%s of %s in use"), gw_check_bytes(r, used), gw_check_bytes(r, total));
    else
        gw_check_say(r, GW_CHECK_GOOD, _("%s of %s in use"), gw_check_bytes(r, used), gw_check_bytes(r, total));
    if (r->now->status >= GW_CHECK_LOOK) {
        gw_check_expect(r, "no traffic, less than a quarter in use");
        gw_check_fix(r,
                     _("memory ran short: fewer workers, smaller batches in memory; sudo swapoff -a && sudo swapon -a "
                       "brings pages back"),
                     "vmstat 1", "");
    }
}

void gw_check_on_workers(struct gw_check_run *r)
{
    size_t n = gw_env_count(r->env, GW_REC_WORKER);
    int64_t limit, room = available(r->env, &limit), sum = 0, largest = 0;
    if (!n)
        return;
    for (size_t i = 0; i < n; i++) {
        const struct gw_env_worker *w = gw_env_at(r->env, GW_REC_WORKER, i);
        int64_t b = w->pss != GW_ENV_NONE ? w->pss : w->rss;
        if (b <= 0)
            continue;
        sum += b;
        largest = b > largest ? b : largest;
    }
    if (room == GW_ENV_NONE || sum == 0)
        return;
    gw_check_evidence(r, (double)n, "count", "/proc", "%zu loader workers", n);
    gw_check_evidence(r, (double)sum, "bytes", "/proc/PID/smaps_rollup", "the workers hold %s", gw_check_bytes(r, sum));
    gw_check_evidence(r, (double)room, "bytes", "/proc/meminfo", "%s still free", gw_check_bytes(r, room));
    /* Workers that grow by a quarter, which Python objects shared by fork do as they are read, must still fit. */
    int risk = room < largest || room < sum / 4;
    gw_check_say(r, risk ? GW_CHECK_LOOK : GW_CHECK_GOOD, _("%zu hold %s, %s free"), n, gw_check_bytes(r, sum),
                 gw_check_bytes(r, room));
    if (risk) {
        gw_check_expect(r, "room for a quarter more, and for one more worker");
        gw_check_fix(r,
                     _("fewer workers, or a data set that does not hold Python objects (they are copied page by page "
                       "as workers read them): "
                       "numpy arrays, Arrow, a memory map"),
                     "grep -h Pss: /proc/*/smaps_rollup", "");
    }
}

void gw_check_on_shm(struct gw_check_run *r)
{
    int64_t total = gw_env_get(r->env, GW_HOST_SHM_TOTAL), free = gw_env_get(r->env, GW_HOST_SHM_FREE);
    if (total == GW_ENV_NONE)
        return;
    const char *text = free == GW_ENV_NONE
                           ? gw_check_bytes(r, total)
                           : gw_check_text(r, _("%s, %s free"), gw_check_bytes(r, total), gw_check_bytes(r, free));
    gw_check_evidence(r, (double)total, "bytes", "statvfs /dev/shm", "/dev/shm is %s", gw_check_bytes(r, total));
    if (total <= SHM_BAD)
        gw_check_say(r, GW_CHECK_BAD, _("%s: loader workers and NCCL pass data through it"), text);
    else if (total < SHM_SMALL || (free != GW_ENV_NONE && (double)free < SHM_FULL * (double)total))
        gw_check_say(r, GW_CHECK_LOOK, "%s", text);
    else
        gw_check_say(r, GW_CHECK_GOOD, "%s", text);
    if (r->now->status >= GW_CHECK_LOOK) {
        gw_check_expect(r, "1 GiB or more, not full");
        gw_check_fix(r,
                     _("docker run --shm-size=16g (or --ipc=host); Kubernetes: an emptyDir of medium Memory on "
                       "/dev/shm; left-over files: ls -lh /dev/shm"),
                     "df -h /dev/shm", "");
    }
}

void gw_check_on_memlock(struct gw_check_run *r)
{
    int64_t limit = gw_env_get(r->env, GW_HOST_MEMLOCK);
    int rdma = 0;
    for (size_t i = 0; i < gw_env_count(r->env, GW_REC_NIC); i++) {
        const struct gw_env_nic *n = gw_env_at(r->env, GW_REC_NIC, i);
        rdma |= n->kind && n->kind[0] == 'i';
    }
    if (limit == GW_ENV_NONE)
        return;
    const char *text = limit < 0 ? _("unlimited") : gw_check_bytes(r, limit);
    if (limit >= 0 && limit < GIB && rdma) {
        gw_check_say(r, GW_CHECK_BAD, _("%s, and there are InfiniBand adapters: RDMA buffers must be locked"), text);
        gw_check_expect(r, "unlimited");
        gw_check_fix(
            r, _("ulimit -l unlimited; docker run --ulimit memlock=-1; SLURM: LimitMEMLOCK=infinity in slurmd.service"),
            "ulimit -l", "");
    } else {
        gw_check_say(r, GW_CHECK_GOOD, _("%s%s"), text,
                     limit >= 0 ? _("; CUDA's pinned memory is not counted, and there is no RDMA adapter") : "");
    }
}

void gw_check_on_open_files(struct gw_check_run *r)
{
    int64_t n = gw_env_get(r->env, GW_HOST_NOFILE);
    if (n == GW_ENV_NONE)
        return;
    if (n >= 0 && n < OPEN_FILES) {
        gw_check_say(r, GW_CHECK_LOOK, "%lld", (long long)n);
        gw_check_expect(r, "%d or more", OPEN_FILES);
        gw_check_fix(r, "ulimit -n 65536", "ulimit -n", "");
    } else if (n < 0) {
        gw_check_say(r, GW_CHECK_GOOD, _("unlimited"));
    } else {
        gw_check_say(r, GW_CHECK_GOOD, "%lld", (long long)n);
    }
}
