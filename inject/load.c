/*
 * load.c - finds the CUPTI that fits the job. One process can use one copy only, so the search goes from the copy that
 * is already there to ever weaker guesses; the major version must be that of the job's CUDA runtime, not the driver's.
 */
#include <dlfcn.h>
#include <link.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/gw_cupti_paths.h"
#include "inject.h"

struct seen { /* what the job has mapped */
    char cupti[PATH_MAX];
    char cudart[PATH_MAX];
    int major; /* of libcudart or of a CUDA library that carries one; 0 unknown */
};

static int major_of(const char *path, const char *stem)
{
    const char *p = strstr(path, stem);
    return p ? atoi(p + strlen(stem)) : 0;
}

static int look(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct seen *s = data;
    const char *path = info->dlpi_name;
    if (!path || !*path)
        return 0;
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    if (!s->cupti[0] && strncmp(name, "libcupti.so", 11) == 0)
        snprintf(s->cupti, sizeof s->cupti, "%s", path);
    if (!s->cudart[0] && strncmp(name, "libcudart", 9) == 0) {
        snprintf(s->cudart, sizeof s->cudart, "%s", path);
        if (!s->major)
            s->major = major_of(name, ".so."); /* "libcudart.so.12", "libcudart-1a2b.so.11.0" */
    }
    return 0;
}

static void *try_open(const char *path, int flags) { return dlopen(path, RTLD_NOW | RTLD_LOCAL | flags); }

static void *near_cudart(const char *cudart, int major)
{
    char path[PATH_MAX + 64];
    void *h = NULL;
    for (size_t i = 0; !h && gw_cupti_near(path, sizeof path, cudart, major, i); i++)
        h = try_open(path, 0);
    return h;
}

static void *from_toolkit(int major)
{
    char path[PATH_MAX];
    void *h = NULL;
    for (size_t i = 0; !h && gw_cupti_toolkit(path, sizeof path, major, i); i++)
        h = try_open(path, 0);
    return h;
}

static int driver_major(void)
{
    void *h = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!h)
        return 0;
    int (*get)(int *) = (int (*)(int *))(uintptr_t)dlsym(h, "cuDriverGetVersion");
    int v = 0;
    if (!get || get(&v) != 0)
        v = 0;
    dlclose(h);
    return v / 1000;
}

static void *find(void)
{
    struct seen s;
    memset(&s, 0, sizeof s);
    const char *env = getenv(GW_ENV_CUPTI);
    if (env && *env)
        return try_open(env, 0); /* named: this one or none */
    dl_iterate_phdr(look, &s);
    if (s.cupti[0]) {
        void *h = try_open(s.cupti, RTLD_NOLOAD);
        return h ? h : try_open(s.cupti, 0);
    }
    int driver = driver_major();
    for (int major = s.major ? s.major : driver; major >= 11; major--) {
        char soname[32];
        snprintf(soname, sizeof soname, "libcupti.so.%d", major);
        void *h = s.cudart[0] ? near_cudart(s.cudart, major) : NULL;
        if (!h)
            h = try_open(soname, 0);
        if (!h)
            h = from_toolkit(major);
        if (h || s.major)
            return h; /* a runtime of a known major takes that one only */
    }
    return NULL;
}

enum gw_rec_state gw_cupti_load(struct gw_cupti *api)
{
    memset(api, 0, sizeof *api);
    api->handle = find();
    if (!api->handle)
        return GW_RS_NO_CUPTI;
    int missing = 0;
#define GW_LOAD(name, needed, args)                                                                                   \
    api->fn_##name = (int(*) args)(uintptr_t)dlsym(api->handle, #name);                                               \
    missing += (needed) && !api->fn_##name;
    GW_CUPTI_FUNCTIONS(GW_LOAD)
#undef GW_LOAD
    if (missing)
        return GW_RS_OLD_CUPTI;
    uint32_t v = 0;
    if (api->fn_cuptiGetVersion(&v) != 0 || v < 18) /* 18 = CUDA 11.8 */
        return GW_RS_OLD_CUPTI;
    return GW_RS_STARTING;
}
