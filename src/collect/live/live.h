/*
 * live.h - the running machine into a gw_env: NVML, /proc, /sys, the Python environment.
 *
 * Everything is read unprivileged; what cannot be read stays unknown. Nothing is ever changed. `root` stands in front
 * of every /proc, /sys, /etc and /usr path, so that a container's tool can look at a host that is mounted somewhere,
 * and so that tests can bring their own machine.
 *
 *     struct gw_live_options o = {.root = ""};
 *     gw_live_collect(env, &o);
 *
 * A collector is one row of the table in live.c and one function.
 */
#ifndef GW_LIVE_H
#define GW_LIVE_H

#include "collect/env.h"

struct gw_live_options {
    const char *root;        /* "" or NULL = this machine */
    const char *nvml;        /* the library; NULL = libnvidia-ml.so.1 of the loader's path */
    const char *cuda;        /* NULL = libcuda.so.1 of the loader's path */
    const char *python;      /* interpreter or environment folder; NULL = the one in use */
    const char *const *data; /* paths whose file system matters */
    size_t data_count;
    int64_t pid;   /* whose limits, CPUs, cgroup and environment count; 0 = ours. Its descendants on a GPU are no strangers */
    int load;      /* keep the links busy with copies while sampling */
    int measure;   /* measure the machine's ceilings */
    int sample_ms; /* 0 = 600, or 1500 with `load` */
};

/* Fills `env`. 0, or GW_ENOMEM. */
int gw_live_collect(struct gw_env *env, const struct gw_live_options *o);

/* The path of a program as execvp() finds it. 1 found, 0 not. */
int gw_live_find_program(const char *name, char *out, size_t cap);

/* --- for the collectors ---------------------------------------------------------------------------------------- */

struct gw_live {
    struct gw_env *env;
    const struct gw_live_options *o;
    const char *root; /* "" or a path without a slash at its end */
    char self[24];    /* "self", or the number of options.pid: the folder below /proc */
};

/* A small file as a string without its trailing newline. Bytes read, or -1. `buf` is always terminated. */
long gw_live_read(const struct gw_live *l, char *buf, size_t cap, const char *fmt, ...) GW_PRINTF(4, 5);
/* A file with one number in it. 0 or -1. */
int gw_live_number(const struct gw_live *l, int64_t *out, const char *fmt, ...) GW_PRINTF(3, 4);
int gw_live_exists(const struct gw_live *l, const char *fmt, ...) GW_PRINTF(2, 3);
/* 1 when `pid` is the process that the options name, or came from it (by its parents, as far as they live). */
int gw_live_is_ours(const struct gw_live *l, int64_t pid);
/* The path below the root, for opendir() and realpath(). Returns `buf`. */
const char *gw_live_path(const struct gw_live *l, char *buf, size_t cap, const char *fmt, ...) GW_PRINTF(4, 5);
/* The value behind "key" at a line's beginning in `text`, after blanks and colon; NULL when it is not there. */
const char *gw_live_line(const char *text, const char *key);
int64_t gw_live_number_after(const char *text, const char *key); /* GW_ENV_NONE when it is not there */

void gw_live_cpu(struct gw_live *l);
void gw_live_cgroup(struct gw_live *l);
void gw_live_memory(struct gw_live *l);
void gw_live_processes(struct gw_live *l);
void gw_live_storage(struct gw_live *l);
void gw_live_pci(struct gw_live *l);
void gw_live_system(struct gw_live *l);
void gw_live_environ(struct gw_live *l);
void gw_live_python(struct gw_live *l);
/* The CUDA code that a library holds, "8.0 9.0+PTX ptx12.0", " ..." when time ran out before its end, from the headers
 * of its fat binaries. 0 or -1. */
int gw_fatbin_archs(const char *path, char *out, size_t cap);

/* Counters of /proc that only say something as a difference: take them at the start and at the end of the sample. */
struct gw_live_counters;
struct gw_live_counters *gw_live_counters_take(struct gw_live *l); /* NULL when out of memory */
void gw_live_counters_finish(struct gw_live *l, struct gw_live_counters *before, double seconds); /* frees it */

/* NVML. Open may fail with a reason in env; the others then do nothing. */
struct gw_live_nvml;
struct gw_live_nvml *gw_live_nvml_open(struct gw_live *l);
void gw_live_nvml_facts(struct gw_live_nvml *n);
void gw_live_nvml_sample(struct gw_live_nvml *n, int64_t t_ns, int64_t source);
void gw_live_nvml_close(struct gw_live_nvml *n);

#endif
