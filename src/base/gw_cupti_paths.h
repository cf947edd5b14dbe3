/*
 * gw_cupti_paths.h - where libcupti.so.<major> may lie: beside the CUDA runtime of a job (pip wheels, conda, toolkits), or in
 * a toolkit. The injected library and PM sampling both look for it there; what is found first is theirs to judge.
 *
 * libc only: the injected library is built from it too. No state; any thread.
 *
 *     char path[PATH_MAX];
 *     for (size_t i = 0; gw_cupti_near(path, sizeof path, libcudart, 12, i); i++)
 *         if ((h = dlopen(path, RTLD_NOW)))
 *             break;
 */
#ifndef GW_CUPTI_PATHS_H
#define GW_CUPTI_PATHS_H

#include <stddef.h>

/* Writes place `i` as seen from `file`, the path of a library of the job: 1, or 0 after the last. Too long a path is cut,
 * and names nothing. */
int gw_cupti_near(char *out, size_t size, const char *file, int major, size_t i);
/* The same for the toolkits of $CUDA_HOME, $CUDA_PATH and /usr/local/cuda. */
int gw_cupti_toolkit(char *out, size_t size, int major, size_t i);

#endif
