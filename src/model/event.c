#include "model/event.h"

#include <stddef.h>

const char *gw_kind_name(unsigned kind)
{
    static const char *const names[] = {
#define GW_KIND(sym, name, gpu, host, text) name,
#include "model/kinds.def"
#undef GW_KIND
    };
    return kind < GW_KIND_COUNT ? names[kind] : "unknown";
}

static const struct {
    const char *id, *text;
    int spoils;
} losses[] = {
#define GW_LOSS(sym, id, spoils, text) {id, text, spoils},
#include "model/losses.def"
#undef GW_LOSS
};

const char *gw_loss_id(unsigned loss) { return loss < GW_LOSS_COUNT ? losses[loss].id : "unknown"; }
const char *gw_loss_text(unsigned loss) { return loss < GW_LOSS_COUNT ? losses[loss].text : ""; }
int gw_loss_spoils(unsigned loss) { return loss < GW_LOSS_COUNT ? losses[loss].spoils : 0; }
