/*
 * run_find.h - where the parts of `gpuwhy run` are: beside the program in a build folder, below lib/gpuwhy and
 * share/gpuwhy when installed, or where GPUWHY_LIB says. Absolute paths. 0 or -1.
 */
#ifndef GW_RUN_FIND_H
#define GW_RUN_FIND_H

#include <stddef.h>

int gw_run_find_library(char *out, size_t cap); /* libgpuwhy_inject.so */
int gw_run_find_hook(char *out, size_t cap);    /* the folder of sitecustomize.py */

#endif
