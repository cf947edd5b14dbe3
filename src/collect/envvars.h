/*
 * envvars.h - the one allow-list of environment variables (envvars.def), with what each may mean.
 *
 *     for (size_t i = 0; (v = gw_envvar_info(i)) != NULL; i++) ...
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

#endif
