#include "layers/finding_page.h"

#include <string.h>

#include "layers/finding.h"

static const struct gw_finding_page pages[GW_F_COUNT] = {
#define GW_PAGE(sym, means, measured, limits, alike, fix, code, cost, leave, check) \
    [GW_F_##sym] = {means, measured, limits, alike, fix, code, cost, leave, check},
#include "layers/pages/communication.def"
#include "layers/pages/cpu_preprocess.def"
#include "layers/pages/data_supply.def"
#include "layers/pages/environment.def"
#include "layers/pages/kernel_efficiency.def"
#include "layers/pages/memory_batch.def"
#include "layers/pages/outside.def"
#undef GW_PAGE
};

/* The verdict that is no finding. */
static const struct gw_finding_page none = {
    N_("Nothing that the recording can show is worth the work of changing it: the GPU is busy and its kernels are "
       "efficient as "
       "far as can be seen, or what is lost is spread over causes that are too small."),
    N_("The likely gain of every finding stays below this factor:"),
    "WORTH BUSY",
    N_("A recording that cannot show the cause: see what was not evaluated, and what would supply it. A busy GPU is "
       "not a "
       "useful one: kernels may be slow, and a spinning collective counts as communication and not as compute."),
    N_("Nothing. To go faster, do less work for the same result, use lower precision, or more GPUs."),
    "gpuwhy run -- python train.py",
    N_("None."),
    N_("It is the answer to hope for."),
    N_("`gpuwhy read --all` shows what was looked at and what was not.")};

static const struct gw_finding_limit limits[] = {
#define GW_LIMIT(sym, value, why) {#sym, value, why},
#include "layers/findings.def"
};

const struct gw_finding_page *gw_finding_page(const char *id)
{
    if (strcmp(id, "none") == 0)
        return &none;
    for (size_t i = 0; i < GW_F_COUNT; i++) {
        const struct gw_finding_info *f = gw_finding_info(i);
        if (f && strcmp(f->id, id) == 0)
            return pages[i].means ? &pages[i] : NULL;
    }
    return NULL;
}

const struct gw_finding_limit *gw_finding_limit_next(const char **names)
{
    const char *s = *names + strspn(*names, " ");
    size_t n = strcspn(s, " ");
    *names = s + n;
    for (size_t i = 0; n && i < sizeof limits / sizeof *limits; i++)
        if (strlen(limits[i].name) == n && strncmp(limits[i].name, s, n) == 0)
            return &limits[i];
    return NULL;
}
