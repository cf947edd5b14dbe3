#include "collect/envvars.h"

#include <string.h>

#include "base/gw_i18n.h"

static const struct gw_envvar_info vars[] = {
#define GW_ENVVAR(name, rule, finding, text) {name, GW_VAR_##rule, finding, text},
#include "collect/envvars.def"
#undef GW_ENVVAR
};

const struct gw_envvar_info *gw_envvar_info(size_t i) { return i < sizeof vars / sizeof vars[0] ? &vars[i] : NULL; }

const struct gw_envvar_info *gw_envvar_find(const char *name)
{
    for (size_t i = 0; i < sizeof vars / sizeof vars[0]; i++)
        if (strcmp(vars[i].name, name) == 0)
            return &vars[i];
    return NULL;
}
