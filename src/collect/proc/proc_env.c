/* proc_env.c - see proc_env.h */
#include "collect/proc/proc_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/proc/proc_read.h"

enum { ENVIRON_BYTES = 256 * 1024 };

static const char *const exact[] = {
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "OMP_WAIT_POLICY", "KMP_BLOCKTIME",
    "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_MODULE_LOADING", "CUDA_CACHE_DISABLE", "CUDA_CACHE_PATH", "CUDA_MPS_PIPE_DIRECTORY", "CUDA_INJECTION64_PATH",
    "NVTX_INJECTION64_PATH", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING", "RANK",
    "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "TORCH_COMPILE_DEBUG", "TORCHDYNAMO_DISABLE", "TORCH_SHOW_CPP_STACKTRACES",
    "NVIDIA_TF32_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG", "PYTHONMALLOC", "PYTHONDEVMODE", "PYTHONFAULTHANDLER", "MALLOC_ARENA_MAX",
    "TOKENIZERS_PARALLELISM", "SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE", "SLURM_JOB_ID"};
static const char *const prefixes[] = {"NCCL_", "TORCH_NCCL_", "GLOO_"};

static int is_wanted(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        if (strlen(exact[i]) == len && memcmp(exact[i], name, len) == 0)
            return 1;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (len > strlen(prefixes[i]) && memcmp(prefixes[i], name, strlen(prefixes[i])) == 0)
            return 1;
    return 0;
}

static char *read_environ(int proc_root, int pid, long *len)
{
    char path[40], *buf = malloc(ENVIRON_BYTES);
    snprintf(path, sizeof path, "%d/environ", pid);
    *len = buf ? gw_proc_text(proc_root, path, buf, ENVIRON_BYTES) : -12;
    if (*len < 0) {
        free(buf);
        return NULL;
    }
    return buf;
}

int gw_proc_env_facts(int proc_root, int pid, struct gw_sink *sink)
{
    long len;
    char *buf = read_environ(proc_root, pid, &len);
    if (!buf)
        return (int)len;
    for (const char *p = buf; p < buf + len; p += strlen(p) + 1) {
        const char *eq = strchr(p, '=');
        if (!eq || !is_wanted(p, (size_t)(eq - p)))
            continue;
        char key[160];
        snprintf(key, sizeof key, "env.%d.%.*s", pid, (int)(eq - p < 100 ? eq - p : 100), p);
        gw_sink_fact(sink, key, eq + 1);
    }
    free(buf);
    return 0;
}

int gw_proc_env_value(int proc_root, int pid, const char *name, char *out, size_t cap)
{
    long len;
    size_t n = strlen(name);
    char *buf = read_environ(proc_root, pid, &len);
    int found = 0;
    for (const char *p = buf; p && p < buf + len && !found; p += strlen(p) + 1)
        if (strncmp(p, name, n) == 0 && p[n] == '=') {
            snprintf(out, cap, "%s", p + n + 1);
            found = 1;
        }
    free(buf);
    return found;
}
