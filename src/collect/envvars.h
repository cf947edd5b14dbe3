/*
 * envvars.h - the one allow-list of environment variables (envvars.def), with what each may mean.
 *
 *     for (size_t i = 0; (v = gw_envvar_info(i)) != NULL; i++) ...
 *     gw_envvars_scan(environ_bytes, len, each, user);     what /proc/PID/environ holds
 */
#ifndef GW_ENVVARS_H
#define GW_ENVVARS_H

#include <stddef.h>

enum gw_envvar_rule {
    GW_VAR_SHOW,
    GW_VAR_TRUE,
    GW_VAR_FALSE,
    GW_VAR_SET,
    GW_VAR_DEVS,
    GW_VAR_NUM,
    GW_VAR_LEVEL,
    GW_VAR_DETAIL
};
struct gw_envvar_info {
    const char *name;
    enum gw_envvar_rule rule;
    const char *finding, *text; /* untranslated */
};
const struct gw_envvar_info *gw_envvar_info(size_t i); /* NULL past the end */
const struct gw_envvar_info *gw_envvar_find(const char *name);

/* Calls `each` for the variables of the list in "NAME=VALUE\0NAME=VALUE\0..."; the others are not looked at. A value that
 * is cut off by the end of the bytes is passed as far as it goes: buf[len] must be 0. What names our own injected library
 * is the recorder's doing and not the user's: left out. */
typedef void gw_envvar_fn(void *user, const struct gw_envvar_info *info, const char *value);
void gw_envvars_scan(const char *buf, size_t len, gw_envvar_fn *each, void *user);
/* 1 when `value` of CUDA_INJECTION64_PATH is the library that `gpuwhy run` puts into jobs. */
int gw_envvar_is_our_library(const char *value);

#endif
