/* gw_cupti_paths.c - see gw_cupti_paths.h */
#include "base/gw_cupti_paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

int gw_cupti_near(char *out, size_t size, const char *file, int major, size_t i)
{
    static const char *const rel[] = {"", "../../cuda_cupti/lib/", "../extras/CUPTI/lib64/", "../../extras/CUPTI/lib64/", "../lib/"};
    const char *slash = strrchr(file, '/');
    if (!slash || i >= COUNT(rel))
        return 0;
    snprintf(out, size, "%.*s%slibcupti.so.%d", (int)(slash + 1 - file), file, rel[i], major);
    return 1;
}

int gw_cupti_toolkit(char *out, size_t size, int major, size_t i)
{
    static const char *const env[] = {"CUDA_HOME", "CUDA_PATH"};
    static const char *const rel[] = {"extras/CUPTI/lib64", "lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "lib"};
    const char *roots[COUNT(env) + 1];
    size_t n = 0;
    for (size_t e = 0; e < COUNT(env); e++) {
        roots[n] = getenv(env[e]);
        n += roots[n] && *roots[n];
    }
    roots[n++] = "/usr/local/cuda";
    if (i >= n * COUNT(rel))
        return 0;
    snprintf(out, size, "%s/%s/libcupti.so.%d", roots[i / COUNT(rel)], rel[i % COUNT(rel)], major);
    return 1;
}
