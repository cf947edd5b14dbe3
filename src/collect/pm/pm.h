/*
 * pm.h - the GPUs' activity over the whole run: PM sampling in a process of its own.
 *
 * CUPTI's PM sampling reads hardware counters of a whole GPU at a fixed interval. It needs nothing inside the job and no
 * context on the GPU. It does need libcuda and libcupti, so it runs in a small process that the recorder forks and that
 * writes its own file of the record: whatever happens in those libraries, hurts neither the recorder nor the job. That process
 * ends with the recorder (also after kill -9), ignores the terminal, has none of the recorder's descriptors but the folder,
 * and has a bound on its CPU and memory. It is started once the job uses CUDA, never for a job that does not.
 *
 * One thread. Nothing here waits for the sampling process, except gw_pm_stop() for 1.5 s at most.
 *
 *     struct gw_pm *p = gw_pm_create();
 *     gw_pm_start(p, dirfd);
 *     gw_pm_hint(p, &hints);
 *     gw_pm_add(p, 0, uuid);                   a GPU of the job; more may follow at any time
 *     gw_pm_poll(p);                           once a second
 *     gw_pm_latest(p, &l);
 *     gw_pm_stop(p);  gw_pm_destroy(p);
 */
#ifndef GW_PM_H
#define GW_PM_H

#include "collect/pm/pm_load.h"

struct gw_pm;

struct gw_pm_latest { /* means of the last whole second, over the GPUs that are sampled */
    int gpus;         /* 0: nothing to say */
    double engine, sm;/* percent: the compute engine had work; SMs had a warp */
};

/* NULL when out of memory. */
struct gw_pm *gw_pm_create(void);
void gw_pm_destroy(struct gw_pm *p); /* stops first */
/* Asks for one more GPU, by NVML index and UUID; a GPU that was asked for already is left alone. */
void gw_pm_add(struct gw_pm *p, int32_t device, const uint8_t uuid[16]);
unsigned gw_pm_wanted(const struct gw_pm *p); /* how many were asked for */
/* Where the libraries are; before the first gw_pm_add(). */
void gw_pm_hint(struct gw_pm *p, const struct gw_pm_hints *h);
/* Forks the sampling process, which writes GW_REC_PM into the folder. 0 or -errno. Once. */
int gw_pm_start(struct gw_pm *p, int folder);
/* Sees whether the sampling process lives and says something now and then; ends one that hangs. */
void gw_pm_poll(struct gw_pm *p);
/* 1 and `out` filled; 0 when nothing is sampled. */
int gw_pm_latest(const struct gw_pm *p, struct gw_pm_latest *out);
/* enum gw_pm_state over all GPUs: RUNNING when one is sampled; else the last reason why not. */
unsigned gw_pm_state(const struct gw_pm *p);
/* CPU time of the sampling process, ns; its pid, 0 none. */
uint64_t gw_pm_cpu_ns(const struct gw_pm *p);
int gw_pm_pid(const struct gw_pm *p);
/* Ends the sampling: asks for it, and waits 1.5 s at most. Asked earlier, there is less to wait for. */
void gw_pm_ask_to_stop(struct gw_pm *p);
void gw_pm_stop(struct gw_pm *p);

/* "GPU-01234567-89ab-..." (or "MIG-...") to 16 bytes. 0, or -1 when it is no UUID. */
int gw_pm_parse_uuid(const char *text, uint8_t uuid[16]);

#endif
