/* Driver, framework, toolkit and libraries: do their CUDA versions fit each other and the GPU? */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "collect/checks/check_run.h"

void gw_check_on_driver(struct gw_check_run *r)
{
    const struct gw_env *env = r->env;
    const char *driver = gw_env_str(env, GW_HSTR_DRIVER), *module = gw_env_str(env, GW_HSTR_KMOD),
               *problem = gw_env_str(env, GW_HSTR_NVML_PROBLEM);
    int64_t cuda = gw_env_get(env, GW_HOST_CUDA_DRIVER), on_bus = gw_env_get(env, GW_HOST_PCI_GPUS);
    if (problem && (on_bus > 0 || module)) {
        gw_check_say(r, GW_CHECK_BAD, _("a GPU is there, but the driver cannot be asked: %s"), _(problem));
        gw_check_fix(
            r,
            gw_env_str(env, GW_HSTR_CONTAINER)
                ? _("start the container with the GPUs: docker run --gpus all, or the NVIDIA runtime of your cluster")
                : _("install the driver for this kernel, or load it: sudo modprobe nvidia; dmesg | grep NVRM says what "
                    "is wrong"),
            "nvidia-smi", "");
        return;
    }
    if (driver && module && strcmp(driver, module) != 0) {
        gw_check_say(r, GW_CHECK_BAD, _("libraries are of %s, the loaded kernel module of %s"), driver, module);
        gw_check_fix(r,
                     _("the driver was updated under a running system: reboot, or unload and load the nvidia modules"),
                     "nvidia-smi", "");
        return;
    }
    if (!driver) {
        if (problem)
            gw_check_say(r, GW_CHECK_UNKNOWN, _("no NVIDIA GPU in sight (%s)"), _(problem));
        return;
    }
    if (cuda > 0)
        gw_check_say(r, GW_CHECK_GOOD, _("%s, runs CUDA up to %s"), driver, gw_check_cuda(r, cuda));
    else
        gw_check_say(r, GW_CHECK_GOOD, "%s", driver);
}

static int no_cuda(const char *v)
{
    return v && (strcasecmp(v, "none") == 0 || strcasecmp(v, "cpu") == 0 || strcasecmp(v, "N/A") == 0);
}

void gw_check_on_framework(struct gw_check_run *r)
{
    const struct gw_env_lib *torch = gw_env_lib(r->env, "torch"), *cuda = gw_env_lib(r->env, "torch-cuda"),
                            *hip = gw_env_lib(r->env, "torch-hip");
    int64_t driver = gw_env_get(r->env, GW_HOST_CUDA_DRIVER);
    if (!torch || !torch->version)
        return;
    if (hip && r->env->gpus.len) {
        gw_check_say(r, GW_CHECK_BAD, _("PyTorch %s is built for AMD GPUs"), torch->version);
    } else if (!cuda || no_cuda(cuda->version)) {
        int known = cuda != NULL || strstr(torch->version, "+cpu") != NULL;
        if (!known)
            gw_check_say(r, GW_CHECK_UNKNOWN, _("PyTorch %s, its CUDA version is not told"), torch->version);
        else
            gw_check_say(r, r->env->gpus.len ? GW_CHECK_BAD : GW_CHECK_GOOD, _("PyTorch %s is built without CUDA%s"),
                         torch->version, r->env->gpus.len ? _(": the GPU is not used") : "");
    } else {
        int64_t built = gw_check_version(cuda->version);
        if (driver == GW_ENV_NONE || built < 0) {
            gw_check_say(r, GW_CHECK_UNKNOWN, _("PyTorch %s, built with CUDA %s; the driver's version is not known"),
                         torch->version, cuda->version);
        } else if (built / 1000 > driver / 1000) {
            gw_check_say(r, GW_CHECK_BAD, _("PyTorch %s needs CUDA %s, the driver ends at %s"), torch->version,
                         cuda->version, gw_check_cuda(r, driver));
        } else if (built > driver) {
            gw_check_say(r, GW_CHECK_GOOD,
                         _("PyTorch %s, built with CUDA %s; the driver's %s runs it, but cannot compile its PTX"),
                         torch->version, cuda->version, gw_check_cuda(r, driver));
        } else {
            gw_check_say(r, GW_CHECK_GOOD, _("PyTorch %s, built with CUDA %s; the driver runs up to %s"),
                         torch->version, cuda->version, gw_check_cuda(r, driver));
        }
    }
    if (r->now->status == GW_CHECK_BAD) {
        gw_check_expect(r, "a CUDA build that the driver can run");
        gw_check_fix(
            r,
            _("newer driver, or a matching build: pip install torch --index-url https://download.pytorch.org/whl/cuXYZ "
              "(nvidia-smi's CUDA version is only the highest that the driver can run)"),
            "python -c 'import torch; print(torch.version.cuda, torch.cuda.is_available())'", "");
    }
}

/* The first CUDA release whose compiler makes code for a major architecture, and the first that no longer does
 * (release notes of the CUDA toolkit). Code for an older minor runs on a newer one of the same major. */
static const struct {
    int major;
    int64_t first, gone;
} code_for[] = {{5, 6000, 13000}, {6, 8000, 13000}, {7, 9000, 0},   {8, 11000, 0},
                {9, 11080, 0},    {10, 12080, 0},   {11, 13000, 0}, {12, 12080, 0}};

static int64_t major_of(const struct gw_gpu *g)
{
    static const struct {
        const char *arch;
        int major;
    } by_arch[] = {{"Maxwell", 5},      {"Pascal", 6}, {"Volta", 7},  {"Turing", 7},    {"Ampere", 8},
                   {"Ada Lovelace", 8}, {"Ada", 8},    {"Hopper", 9}, {"Blackwell", 10}};
    int64_t major = gw_gpu_get(g, GW_GPU_CC_MAJOR);
    for (size_t i = 0; major == GW_ENV_NONE && g->arch && i < sizeof by_arch / sizeof by_arch[0]; i++)
        if (strcmp(g->arch, by_arch[i].arch) == 0)
            major = by_arch[i].major;
    return major;
}

/* Is there code for `major.minor` in "8.0 9.0+PTX ptx12.0 ..."? 3 = SASS (of the same major, not of a later minor),
 * 2 = PTX alone, 1 = no, but the list is not complete, 0 = no. */
static int in_list(const char *list, int64_t major, int64_t minor)
{
    int best = 0;
    while (*list) {
        char *end;
        int ptx_only = strncmp(list, "ptx", 3) == 0;
        const char *number = list + (ptx_only ? 3 : 0);
        if (strncmp(list, "...", 3) == 0)
            return best ? best : 1;
        long a = strtol(number, &end, 10), b = *end == '.' ? strtol(end + 1, &end, 10) : 0;
        if (end == number)
            break;
        int ptx = ptx_only || strncmp(end, "+PTX", 4) == 0;
        if (!ptx_only && a == major && (minor == GW_ENV_NONE || b <= minor))
            best = 3;
        else if (ptx && best < 2 && (a < major || (a == major && (minor == GW_ENV_NONE || b <= minor))))
            best = 2;
        list = end + strcspn(end, " ");
        list += strspn(list, " ");
    }
    return best;
}

void gw_check_on_arch(struct gw_check_run *r)
{
    const struct gw_env_lib *cuda = gw_env_lib(r->env, "torch-cuda"), *list = gw_env_lib(r->env, "torch-archs");
    struct gw_check_group g = {.r = r};
    int64_t built = cuda ? gw_check_version(cuda->version) : -1;
    if (built < 0 && !list)
        return;
    for (size_t i = 0; i < r->env->gpus.len; i++) {
        const struct gw_gpu *gpu = gw_env_gpu_at(r->env, i);
        int64_t major = major_of(gpu), minor = gw_gpu_get(gpu, GW_GPU_CC_MINOR);
        const char *cc = minor == GW_ENV_NONE ? gw_check_text(r, "%lld.x", (long long)major)
                                              : gw_check_text(r, "%lld.%lld", (long long)major, (long long)minor);
        int volta =
            major == 7 && ((minor != GW_ENV_NONE && minor < 5) || (gpu->arch && strcmp(gpu->arch, "Volta") == 0));
        if (major == GW_ENV_NONE)
            continue;
        if (list && list->version) {
            int how = in_list(list->version, major, minor);
            static const struct {
                enum gw_check_status s;
                const char *text;
            } say[] = {{GW_CHECK_BAD, N_("no code for")},
                       {GW_CHECK_UNKNOWN, N_("not read to the end; so far no code for")},
                       {GW_CHECK_LOOK, N_("only PTX, compiled at the first start, for")},
                       {GW_CHECK_GOOD, N_("code for")}};
            gw_group_add(&g, i, say[how].s, _("libtorch holds %s compute capability %s (it has %s)"), _(say[how].text),
                         cc, list->version);
            continue;
        }
        for (size_t k = 0; k < sizeof code_for / sizeof code_for[0]; k++) {
            if (code_for[k].major != major)
                continue;
            if (built < code_for[k].first)
                gw_group_add(&g, i, GW_CHECK_BAD, _("compute capability %s needs CUDA %s, PyTorch was built with %s"),
                             cc, gw_check_cuda(r, code_for[k].first), gw_check_cuda(r, built));
            else if (built >= (volta ? 13000 : code_for[k].gone ? code_for[k].gone : INT64_MAX))
                gw_group_add(&g, i, GW_CHECK_BAD, _("CUDA %s no longer makes code for compute capability %s"),
                             gw_check_cuda(r, built), cc);
            else
                gw_group_add(&g, i, GW_CHECK_UNKNOWN,
                             _("CUDA %s can make code for %s; whether this build holds it is not in a text file"),
                             gw_check_cuda(r, built), cc);
        }
    }
    if (gw_group_say(&g) >= GW_CHECK_LOOK) {
        gw_check_expect(r, "code (SASS) for the GPU's compute capability");
        gw_check_fix(r,
                     _("install a build for this GPU; PTX is compiled at the first start and kept in "
                       "~/.nv/ComputeCache (CUDA_CACHE_MAXSIZE)"),
                     "python -c 'import torch; print(torch.cuda.get_arch_list(), torch.cuda.get_device_capability())'",
                     "");
    }
}

void gw_check_on_toolkit(struct gw_check_run *r)
{
    const struct gw_env_lib *kit = gw_env_lib(r->env, "toolkit"), *cuda = gw_env_lib(r->env, "torch-cuda");
    int64_t v = kit ? gw_check_version(kit->version) : -1, built = cuda ? gw_check_version(cuda->version) : -1;
    int64_t driver = gw_env_get(r->env, GW_HOST_CUDA_DRIVER);
    if (v < 0)
        return;
    if (driver > 0 && v / 1000 > driver / 1000) {
        gw_check_say(r, GW_CHECK_LOOK, _("%s, newer than the driver can run (%s)"), kit->version,
                     gw_check_cuda(r, driver));
        gw_check_fix(
            r, _("programs built with it will not start here: newer driver, or toolkit of the driver's major version"),
            "nvcc --version; nvidia-smi", "");
    } else if (built > 0 && v / 1000 != built / 1000) {
        gw_check_say(r, GW_CHECK_LOOK, _("%s, PyTorch was built with %s"), kit->version, cuda->version);
        gw_check_fix(r,
                     _("extensions compiled here (flash-attention, apex, DeepSpeed) will not load: use a toolkit of "
                       "PyTorch's major version (CUDA_HOME)"),
                     "python -m torch.utils.collect_env", "");
    } else {
        gw_check_say(r, GW_CHECK_GOOD, "%s (%s)", kit->version, gw_known(kit->where, "?"));
    }
    if (r->now->status == GW_CHECK_LOOK)
        gw_check_expect(r, "the major version of PyTorch's CUDA, at most the driver's");
}

/* The CUDA major in a wheel's name: 12 from "nvidia_cudnn_cu12-9.1.0.70"; -1. */
static long wheel_cuda(const char *where)
{
    const char *at = where ? strstr(where, "cu1") : NULL;
    return at ? strtol(at + 2, NULL, 10) : -1;
}

void gw_check_on_libraries(struct gw_check_run *r)
{
    static const char *const names[] = {"cudnn", "nccl", "triton"};
    const struct gw_env_lib *cuda = gw_env_lib(r->env, "torch-cuda");
    int64_t built = cuda ? gw_check_version(cuda->version) : -1;
    const char *text = "", *odd = "";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct gw_env_lib *l = gw_env_lib(r->env, names[i]);
        if (!l)
            continue;
        long major = wheel_cuda(l->where);
        text = gw_check_text(r, "%s%s%s %s", text, *text ? ", " : "", names[i], gw_known(l->version, "?"));
        if (major > 0 && built > 0 && major != built / 1000)
            odd = gw_check_text(r, "%s%s%s is for CUDA %ld", odd, *odd ? ", " : "", names[i], major);
    }
    if (!*text)
        return;
    if (*odd) {
        gw_check_say(r, GW_CHECK_LOOK, _("%s; %s, PyTorch for %s"), text, odd, cuda->version);
        gw_check_expect(r, "wheels of PyTorch's CUDA");
        gw_check_fix(r,
                     _("two frameworks pulled in different wheels: install into a fresh environment, one CUDA for all"),
                     "pip list | grep nvidia", "");
    } else {
        gw_check_say(r, GW_CHECK_GOOD, "%s", text);
    }
}
