/* host_facts.c - see host_facts.h */
#include "model/host_facts.h"

#include <string.h>

static const struct {
    const char *id, *text;
} states[] = {
#define GW_THREAD_STATE(sym, id, text) {id, text},
#include "model/thread_states.def"
#undef GW_THREAD_STATE
};

static const char *const roles[] = {
#define GW_HOST_ROLE(sym, id, text) id,
#include "model/host_roles.def"
#undef GW_HOST_ROLE
};

const char *gw_thread_state_id(unsigned s) { return s < GW_TS_COUNT ? states[s].id : states[0].id; }
const char *gw_thread_state_text(unsigned s) { return s < GW_TS_COUNT ? states[s].text : states[0].text; }
const char *gw_host_role_id(unsigned r) { return r < GW_HR_COUNT ? roles[r] : roles[0]; }

const struct gw_host_process *gw_host_process(const struct gw_host_facts *h, int64_t pid)
{
    for (size_t i = h->process_count; i-- > 0;) /* a number may come back: the younger process counts */
        if (h->process[i].pid == pid)
            return h->process + i;
    return NULL;
}

const struct gw_host_gpu *gw_host_gpu(const struct gw_host_facts *h, int64_t device)
{
    for (size_t i = 0; i < h->gpu_count; i++)
        if (h->gpu[i].device == device)
            return h->gpu + i;
    return NULL;
}

int gw_stack_next(const char **at, const char **frame, size_t *len)
{
    if (!**at)
        return 0;
    *frame = *at;
    *len = strcspn(*at, "\n");
    *at += *len;
    *at += **at == '\n';
    return 1;
}
