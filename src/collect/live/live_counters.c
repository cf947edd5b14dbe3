/* Counters that only say something as a difference: throttling, swapping, disks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/live/live.h"

enum { MAX_DISKS = 64 };

struct disk {
    char name[32];
    int64_t reads, sectors_read, read_ms, writes, sectors_written, write_ms, busy_ms;
};

struct gw_live_counters {
    int64_t periods, throttled, throttled_us, swapped;
    struct disk disk[MAX_DISKS];
    size_t disks;
};

static int64_t add(int64_t a, int64_t b) { return a == GW_ENV_NONE ? b : b == GW_ENV_NONE ? a : a + b; }

static void throttling(struct gw_live *l, struct gw_live_counters *c)
{
    char text[8192], group[2048] = "";
    const char *p;
    c->periods = c->throttled = c->throttled_us = GW_ENV_NONE;
    if (gw_live_read(l, text, sizeof text, "/proc/%s/cgroup", l->self) > 0) {
        for (p = text; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
            if (strncmp(p, "0::", 3) == 0)
                snprintf(group, sizeof group, "%.*s", (int)strcspn(p + 3, "\n"), p + 3);
    }
    if (gw_live_read(l, text, sizeof text, "/sys/fs/cgroup%s/cpu.stat", group) <= 0 &&
        gw_live_read(l, text, sizeof text, "/sys/fs/cgroup/cpu.stat") <= 0 &&
        gw_live_read(l, text, sizeof text, "/sys/fs/cgroup/cpu/cpu.stat") <= 0)
        return;
    c->periods = gw_live_number_after(text, "nr_periods ");
    c->throttled = gw_live_number_after(text, "nr_throttled ");
    c->throttled_us = gw_live_number_after(text, "throttled_usec ");
    if (c->throttled_us == GW_ENV_NONE && (p = gw_live_line(text, "throttled_time "))) /* v1: ns */
        c->throttled_us = strtoll(p, NULL, 10) / 1000;
}

/* Whole disks only: a partition has a folder of its own below its disk, not in /sys/block. */
static void disks(struct gw_live *l, struct gw_live_counters *c)
{
    char text[32768];
    if (gw_live_read(l, text, sizeof text, "/proc/diskstats") <= 0)
        return;
    for (char *p = text; p && *p && c->disks < MAX_DISKS; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
        struct disk d = {.reads = 0};
        long long r, sr, rt, w, sw, wt, busy;
        if (sscanf(p, "%*u %*u %31s %lld %*d %lld %lld %lld %*d %lld %lld %*d %lld", d.name, &r, &sr, &rt, &w, &sw, &wt,
                   &busy) != 8)
            continue;
        if (strncmp(d.name, "loop", 4) == 0 || strncmp(d.name, "ram", 3) == 0 ||
            !gw_live_exists(l, "/sys/block/%s", d.name))
            continue;
        d.reads = r, d.sectors_read = sr, d.read_ms = rt, d.writes = w, d.sectors_written = sw, d.write_ms = wt,
        d.busy_ms = busy;
        c->disk[c->disks++] = d;
    }
}

static void pressure(struct gw_live *l, enum gw_host_metric m, const char *what)
{
    char text[512];
    if (gw_live_read(l, text, sizeof text, "/proc/pressure/%s", what) <= 0)
        return;
    const char *p = strstr(text, "avg10=");
    if (p)
        gw_env_set(l->env, m, (int64_t)(strtod(p + 6, NULL) * 100 + 0.5));
}

struct gw_live_counters *gw_live_counters_take(struct gw_live *l)
{
    struct gw_live_counters *c = calloc(1, sizeof *c);
    char text[16384];
    if (!c)
        return NULL;
    throttling(l, c);
    disks(l, c);
    c->swapped = GW_ENV_NONE;
    if (gw_live_read(l, text, sizeof text, "/proc/vmstat") > 0)
        c->swapped = add(gw_live_number_after(text, "pswpin "), gw_live_number_after(text, "pswpout "));
    return c;
}

static void add_disk(struct gw_live *l, const struct disk *a, const struct disk *b, double seconds)
{
    int64_t ios = b->reads - a->reads + b->writes - a->writes, ms = b->read_ms - a->read_ms + b->write_ms - a->write_ms,
            v;
    struct gw_env_disk *d = gw_env_add(l->env, GW_REC_DISK);
    if (!d)
        return;
    d->name = gw_env_dup(l->env, b->name, strlen(b->name));
    if (gw_live_number(l, &v, "/sys/block/%s/queue/rotational", b->name) == 0)
        d->rotational = v != 0;
    d->sample_s = seconds;
    d->busy = (double)(b->busy_ms - a->busy_ms) / (seconds * 1000);
    d->busy = d->busy < 0 ? NAN : d->busy > 1 ? 1 : d->busy; /* counted in jiffies: may read a little over */
    d->iops = (double)ios / seconds;
    d->await_ms = ios > 0 ? (double)ms / (double)ios : NAN;
    d->read_mbps = (double)(b->sectors_read - a->sectors_read) * 512e-6 / seconds;
    d->write_mbps = (double)(b->sectors_written - a->sectors_written) * 512e-6 / seconds;
}

void gw_live_counters_finish(struct gw_live *l, struct gw_live_counters *before, double seconds)
{
    struct gw_live_counters *now = before ? gw_live_counters_take(l) : NULL;
    if (now) {
        if (now->periods != GW_ENV_NONE && now->throttled != GW_ENV_NONE) {
            gw_env_set(l->env, GW_HOST_CG_PERIODS, now->periods);
            gw_env_set(l->env, GW_HOST_CG_THROTTLED, now->throttled);
            gw_env_set(l->env, GW_HOST_CG_D_PERIODS, now->periods - before->periods);
            gw_env_set(l->env, GW_HOST_CG_D_THROTTLED, now->throttled - before->throttled);
        }
        if (now->throttled_us != GW_ENV_NONE)
            gw_env_set(l->env, GW_HOST_CG_THROTTLED_US, now->throttled_us);
        if (now->swapped != GW_ENV_NONE && before->swapped != GW_ENV_NONE)
            gw_env_set(l->env, GW_HOST_SWAP_IN_PAGES, now->swapped - before->swapped);
        for (size_t i = 0; i < now->disks; i++)
            for (size_t k = 0; k < before->disks; k++)
                if (strcmp(now->disk[i].name, before->disk[k].name) == 0)
                    add_disk(l, &before->disk[k], &now->disk[i], seconds);
    }
    pressure(l, GW_HOST_PSI_CPU_X100, "cpu");
    pressure(l, GW_HOST_PSI_IO_X100, "io");
    pressure(l, GW_HOST_PSI_MEM_X100, "memory");
    free(now);
    free(before);
}
