#include "collect/live/live.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collect/measure/measure.h"

enum { SAMPLE_MS = 600, LOAD_MS = 1500, STEP_MS = 100 };
#define MEASURE_SECONDS 12.0 /* for all GPUs; with memory (0.3 s) and disks (3 s each) the whole stays under 20 s */

/* The collectors that look once. The system comes before NVML, whose processes may be of another PID namespace, and
 * the PCI bus after it, because it adds to NVML's GPUs. */
static void (*const collectors[])(struct gw_live *) = {
    gw_live_cpu, gw_live_cgroup, gw_live_memory, gw_live_processes, gw_live_storage, gw_live_environ, gw_live_python};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void sleep_until(int64_t t)
{
    struct timespec at = {.tv_sec = (time_t)(t / 1000000000), .tv_nsec = (long)(t % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == 4 /* EINTR */)
        ;
}

/* GPUs every 100 ms, counters at both ends; the time in between is used to look at everything that stands still. */
static void sample(struct gw_live *l, struct gw_live_nvml *nvml, int ms)
{
    int64_t start = now_ns(), end = start + (int64_t)ms * 1000000, source = l->env->next_source++;
    struct gw_live_counters *before = gw_live_counters_take(l);
    size_t next = 0;
    for (int64_t t = start;; t += (int64_t)STEP_MS * 1000000) {
        gw_live_nvml_sample(nvml, now_ns(), source);
        while (next < sizeof collectors / sizeof collectors[0] && now_ns() < t + (int64_t)STEP_MS * 1000000 / 2)
            collectors[next++](l);
        if (t >= end)
            break;
        sleep_until(t + (int64_t)STEP_MS * 1000000);
    }
    while (next < sizeof collectors / sizeof collectors[0])
        collectors[next++](l);
    int64_t took = now_ns() - start;
    gw_live_counters_finish(l, before, (double)took * 1e-9);
    gw_env_set(l->env, GW_HOST_SAMPLE_MS, took / 1000000);
}

int gw_live_collect(struct gw_env *env, const struct gw_live_options *o)
{
    char root[1024];
    struct gw_live l = {.env = env, .o = o, .root = root, .self = "self"};
    if (o->pid > 0)
        snprintf(l.self, sizeof l.self, "%lld", (long long)o->pid);
    struct gw_cuda_child *child = o->load || o->measure ? gw_cuda_child_start(o->cuda) : NULL;
    env->live = 1;
    snprintf(root, sizeof root, "%s", o->root ? o->root : "");
    for (size_t n = strlen(root); n && root[n - 1] == '/'; n--)
        root[n - 1] = '\0';
    gw_live_system(&l);
    struct gw_live_nvml *nvml = gw_live_nvml_open(&l);
    gw_live_nvml_facts(nvml); /* before the load, so that our own copies are nobody's job */
    if (o->load) {
        if (gw_cuda_child_load(child) == 0)
            gw_env_set(env, GW_HOST_LOADED, 1);
        else
            gw_env_note(env, "--load", "no copy load: the links were sampled as they are");
    }
    sample(&l, nvml, o->sample_ms > 0 ? o->sample_ms : o->load ? LOAD_MS : SAMPLE_MS);
    gw_live_pci(&l);
    gw_live_nvml_close(nvml);
    if (o->load)
        gw_cuda_child_unload(child);
    if (o->measure) {
        gw_cuda_child_measure(child, env, MEASURE_SECONDS);
        gw_measure_memory(env);
        for (size_t i = 0; i < o->data_count && i < 2; i++)
            gw_measure_disk(env, o->data[i]);
    }
    gw_cuda_child_stop(child, env);
    return env->no_memory && gw_env_count(env, GW_REC_NOTE) == 0 ? GW_ENOMEM : 0;
}
