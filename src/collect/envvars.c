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

int gw_envvar_is_our_library(const char *value)
{
    static const char name[] = "libgpuwhy_inject.so";
    size_t n = strlen(value), k = sizeof name - 1;
    return n >= k && strcmp(value + n - k, name) == 0;
}

void gw_envvars_scan(const char *buf, size_t len, gw_envvar_fn *each, void *user)
{
    for (const char *p = buf; p < buf + len; p += strlen(p) + 1) {
        char name[64]; /* longer than any name of the list */
        const char *eq = strchr(p, '=');
        if (!eq || (size_t)(eq - p) >= sizeof name)
            continue;
        memcpy(name, p, (size_t)(eq - p));
        name[eq - p] = '\0';
        const struct gw_envvar_info *info = gw_envvar_find(name);
        if (info && !(strcmp(name, "CUDA_INJECTION64_PATH") == 0 && gw_envvar_is_our_library(eq + 1)))
            each(user, info, eq + 1);
    }
}
