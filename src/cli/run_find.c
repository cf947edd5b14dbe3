/* run_find.c - see run_find.h */
#include "cli/run_find.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "DIR/rel" as a real path when it exists. */
static int try_path(const char *dir, const char *rel, char *out, size_t cap)
{
    char path[PATH_MAX * 2], real[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, rel);
    if (!realpath(path, real) || access(real, R_OK) != 0 || strlen(real) >= cap)
        return -1;
    strcpy(out, real);
    return 0;
}

static int own_folder(char *out, size_t cap)
{
    ssize_t n = readlink("/proc/self/exe", out, cap - 1);
    if (n <= 0)
        return -1;
    out[n] = 0;
    char *slash = strrchr(out, '/');
    if (!slash)
        return -1;
    *slash = 0;
    return 0;
}

static int find(const char *const rel[], size_t n, char *out, size_t cap)
{
    char dir[PATH_MAX];
    const char *env = getenv("GPUWHY_LIB");
    const char *base = strrchr(rel[0], '/');
    if (env && *env) /* named: there or nowhere */
        return try_path(env, base ? base + 1 : rel[0], out, cap);
    if (own_folder(dir, sizeof dir) != 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (try_path(dir, rel[i], out, cap) == 0)
            return 0;
    return -1;
}

int gw_run_find_library(char *out, size_t cap)
{
    static const char *const rel[] = {"libgpuwhy_inject.so",
#ifdef GW_LIBDIR
                                      "../" GW_LIBDIR "/gpuwhy/libgpuwhy_inject.so",
#endif
                                      "../lib/gpuwhy/libgpuwhy_inject.so", "../lib64/gpuwhy/libgpuwhy_inject.so"};
    return find(rel, sizeof rel / sizeof *rel, out, cap);
}

int gw_run_find_hook(char *out, size_t cap)
{
    static const char *const rel[] = {"python/gpuwhy_hook/sitecustomize.py", "../python/gpuwhy_hook/sitecustomize.py",
                                      "../share/gpuwhy/gpuwhy_hook/sitecustomize.py"};
    if (find(rel, sizeof rel / sizeof *rel, out, cap) != 0)
        return -1;
    char *slash = strrchr(out, '/');
    if (!slash)
        return -1;
    *slash = 0;
    return 0;
}
