#include "engine/report_model.h"

static const struct {
    const char *id, *text;
} causes[] = {
#define GW_CAUSE(sym, id, text) {id, text},
#include "base/gw_i18n.h"
#include "engine/causes.def"
#undef GW_CAUSE
};

const char *gw_cause_id(unsigned cause) { return cause < GW_CAUSE_COUNT ? causes[cause].id : "unknown"; }
const char *gw_cause_text(unsigned cause) { return cause < GW_CAUSE_COUNT ? causes[cause].text : "unknown"; }

const char *gw_confidence_id(unsigned c)
{
    static const char *const ids[] = {N_("low"), N_("medium"), N_("high")};
    return c <= GW_CONF_HIGH ? ids[c] : "low";
}
