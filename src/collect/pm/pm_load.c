/* pm_load.c - see pm_load.h. CUDA's declarations are those of cuda.h. */
#include "collect/pm/pm_load.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/gw_cupti_paths.h"

enum { CC_MAJOR = 75, CC_MINOR = 76 }; /* CUdevice_attribute */

unsigned gw_pm_state_of(int result)
{
    switch (result) {
    case GW_PM_HARDWARE_BUSY: return GW_PS_BUSY;
    case GW_PM_NO_PRIVILEGES:
    case GW_PM_VIRTUAL_PRIVILEGES: return GW_PS_NO_PRIVILEGE;
    case GW_PM_NOT_SUPPORTED: return GW_PS_NOT_SUPPORTED;
    case GW_PM_MIG: return GW_PS_MIG;
    case GW_PM_VIRTUALIZED:
    case GW_PM_CONFIDENTIAL:
    case GW_PM_CMP:
    case GW_PM_SLI:
    case GW_PM_WSL: return GW_PS_PLATFORM;
    default: return GW_PS_FAILED;
    }
}

static unsigned open_cuda(struct gw_pm_libs *l, const struct gw_pm_hints *h)
{
    unsetenv("CUDA_VISIBLE_DEVICES"); /* ordinals here are our own: GPUs are told apart by their UUIDs */
    unsetenv("CUDA_INJECTION64_PATH");
    l->cuda = dlopen(h->cuda[0] ? h->cuda : "libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!l->cuda)
        return GW_PS_NO_CUDA;
    int (*init)(unsigned) = (int (*)(unsigned))(uintptr_t)dlsym(l->cuda, "cuInit");
    int (*version)(int *) = (int (*)(int *))(uintptr_t)dlsym(l->cuda, "cuDriverGetVersion");
    int (*count)(int *) = (int (*)(int *))(uintptr_t)dlsym(l->cuda, "cuDeviceGetCount");
    l->get = (int (*)(int *, int))(uintptr_t)dlsym(l->cuda, "cuDeviceGet");
    l->uuid = (int (*)(void *, int))(uintptr_t)dlsym(l->cuda, "cuDeviceGetUuid");
    l->attribute = (int (*)(int *, int, int))(uintptr_t)dlsym(l->cuda, "cuDeviceGetAttribute");
    if (!init || !version || !count || !l->get || !l->uuid || !l->attribute)
        return GW_PS_NO_CUDA;
    l->call = "cuInit";
    if ((l->result = init(0)) != 0)
        return GW_PS_NO_CUDA;
    l->call = "cuDeviceGetCount";
    if ((l->result = version(&l->driver_version)) != 0 || (l->result = count(&l->gpus)) != 0)
        return GW_PS_NO_CUDA;
    l->call = NULL;
    return GW_PS_STARTING;
}

/* CUPTI looks for its two back ends by name only: they lie beside it, where the loader need not look. */
static void open_beside(const char *path)
{
    static const char *const names[] = {"libnvperf_host.so", "libnvperf_target.so"};
    const char *slash = strrchr(path, '/');
    char file[1200];
    for (size_t i = 0; slash && i < sizeof names / sizeof *names; i++) {
        snprintf(file, sizeof file, "%.*s%s", (int)(slash + 1 - path), path, names[i]);
        (void)dlopen(file, RTLD_NOW | RTLD_GLOBAL);
    }
}

static int try_open(struct gw_pm_libs *l, const char *path)
{
    void *h = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!h)
        return 0;
    l->cupti.handle = h;
    Dl_info info;
    void *sym = dlsym(h, "cuptiGetVersion");
    snprintf(l->path, sizeof l->path, "%.*s", (int)sizeof l->path - 1, sym && dladdr(sym, &info) && info.dli_fname ? info.dli_fname : path);
    open_beside(l->path);
    return 1;
}

static int open_near(struct gw_pm_libs *l, const char *file, int major)
{
    char path[1200];
    for (size_t i = 0; gw_cupti_near(path, sizeof path, file, major, i); i++)
        if (try_open(l, path))
            return 1;
    return 0;
}

static int open_toolkit(struct gw_pm_libs *l, int major)
{
    char path[1200];
    for (size_t i = 0; gw_cupti_toolkit(path, sizeof path, major, i); i++)
        if (try_open(l, path))
            return 1;
    return 0;
}

/* A copy whose back ends were left out (some packages split them off) can sample nothing. */
static int has_back_ends(const char *path)
{
    const char *slash = strrchr(path, '/');
    char file[1200];
    snprintf(file, sizeof file, "%.*slibnvperf_host.so", slash ? (int)(slash + 1 - path) : 0, path);
    return access(file, R_OK) == 0;
}

static int find_cupti(struct gw_pm_libs *l, const struct gw_pm_hints *h)
{
    if (h->cupti[0])
        return try_open(l, h->cupti); /* named: this one or none */
    int is_cupti = strstr(h->near, "/libcupti.so") != NULL;
    if (is_cupti && has_back_ends(h->near) && try_open(l, h->near))
        return 1;
    for (int major = l->driver_version / 1000; major >= 12; major--) {
        char soname[32];
        snprintf(soname, sizeof soname, "libcupti.so.%d", major);
        if ((h->near[0] && !is_cupti && open_near(l, h->near, major)) || try_open(l, soname) || open_toolkit(l, major))
            return 1;
    }
    return is_cupti && try_open(l, h->near);
}

unsigned gw_pm_load(struct gw_pm_libs *l, const struct gw_pm_hints *h)
{
    memset(l, 0, sizeof *l);
    unsigned state = open_cuda(l, h);
    if (state != GW_PS_STARTING)
        return state;
    if (!find_cupti(l, h))
        return GW_PS_NO_CUPTI;
    struct gw_pm_cupti *c = &l->cupti;
    c->fn_cuptiGetVersion = (int (*)(uint32_t *))(uintptr_t)dlsym(c->handle, "cuptiGetVersion");
    if (c->fn_cuptiGetVersion)
        (void)c->fn_cuptiGetVersion(&l->cupti_version);
#define GW_FN(name, arg)                                                                                               \
    if (!(c->fn_##name = (int (*)(struct arg *))(uintptr_t)dlsym(c->handle, #name))) {                                 \
        l->call = #name;                                                                                               \
        return GW_PS_OLD_CUPTI;                                                                                        \
    }
    GW_PM_FUNCTIONS(GW_FN)
#undef GW_FN
    GW_PM_INIT(gw_pm_plain, p, priv);
    l->call = "cuptiProfilerInitialize";
    if ((l->result = c->fn_cuptiProfilerInitialize(&p)) != 0)
        return gw_pm_state_of(l->result);
    l->call = NULL;
    return GW_PS_STARTING;
}

int gw_pm_ordinal(const struct gw_pm_libs *l, const uint8_t uuid[16])
{
    for (int i = 0; i < l->gpus; i++) {
        uint8_t own[16];
        int dev;
        if (l->get(&dev, i) == 0 && l->uuid(own, dev) == 0 && memcmp(own, uuid, sizeof own) == 0)
            return i;
    }
    return -1;
}

int gw_pm_capability(const struct gw_pm_libs *l, int ordinal)
{
    int dev, major = 0, minor = 0;
    if (l->get(&dev, ordinal) != 0 || l->attribute(&major, CC_MAJOR, dev) != 0 || l->attribute(&minor, CC_MINOR, dev) != 0)
        return 0;
    return 10 * major + minor;
}
