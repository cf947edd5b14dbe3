/* host_facts.c - see host_facts.h */
#include "model/host_facts.h"

#include <math.h>
#include <string.h>

static const char *const states[] = {
#define GW_THREAD_STATE(sym, id, text) id,
#include "model/thread_states.def"
#undef GW_THREAD_STATE
};

static const char *const roles[] = {
#define GW_HOST_ROLE(sym, id, text) id,
#include "model/host_roles.def"
#undef GW_HOST_ROLE
};

const char *gw_thread_state_id(unsigned s) { return s < GW_TS_COUNT ? states[s] : states[0]; }
const char *gw_host_role_id(unsigned r) { return r < GW_HR_COUNT ? roles[r] : roles[0]; }

struct gw_host_facts gw_host_facts_unknown(void)
{
    return (struct gw_host_facts){.recorded_ns = -1,
                                  .recorder_cpu_s = NAN,
                                  .inject_cpu_s = NAN,
                                  .sampler_cpu_s = NAN,
                                  .cpus_online = -1,
                                  .cpu_limit = NAN,
                                  .memory_bytes = NAN,
                                  .memory_limit_bytes = NAN,
                                  .trainer = -1,
                                  .cudnn_benchmark = -1,
                                  .cudnn_tf32 = -1,
                                  .matmul_tf32 = -1,
                                  .torch_threads = -1,
                                  .anomaly = -1,
                                  .launch_blocking = -1,
                                  .omp_threads = -1};
}

struct gw_host_process gw_host_process_unknown(int64_t pid)
{
    return (struct gw_host_process){.pid = pid,
                                    .ppid = -1,
                                    .end = INT64_MAX,
                                    .name = "",
                                    .cpus_allowed = -1,
                                    .cpu_s = NAN,
                                    .rss_first = NAN,
                                    .rss_last = NAN,
                                    .rss_max = NAN,
                                    .shared_last = NAN,
                                    .rchar = NAN,
                                    .read_bytes = NAN,
                                    .write_bytes = NAN};
}

struct gw_host_gpu gw_host_gpu_unknown(int64_t device)
{
    return (struct gw_host_gpu){.device = device,
                                .memory_bytes = NAN,
                                .sm_clock_max_mhz = NAN,
                                .memory_clock_max_mhz = NAN,
                                .power_limit_w = NAN,
                                .power_default_w = NAN};
}

/* Keys as python/gpuwhy_hook/sitecustomize.py writes them. */
static const struct gw_host_setting loader_settings[] = {
    {"num_workers", offsetof(struct gw_host_loader, num_workers)},
    {"pin_memory", offsetof(struct gw_host_loader, pin_memory)},
    {"persistent_workers", offsetof(struct gw_host_loader, persistent_workers)},
    {"prefetch_factor", offsetof(struct gw_host_loader, prefetch_factor)},
    {"batch_size", offsetof(struct gw_host_loader, batch_size)},
    {"drop_last", offsetof(struct gw_host_loader, drop_last)},
    {"iterable", offsetof(struct gw_host_loader, is_iterable)},
    {"distributed", offsetof(struct gw_host_loader, is_distributed)}};

const struct gw_host_setting *gw_host_loader_setting(size_t i)
{
    return i < sizeof loader_settings / sizeof *loader_settings ? loader_settings + i : NULL;
}

struct gw_host_loader gw_host_loader_unknown(int64_t pid)
{
    struct gw_host_loader l = {.pid = pid, .length = -1};
    for (size_t i = 0; i < sizeof loader_settings / sizeof *loader_settings; i++)
        *gw_host_setting_of(&l, loader_settings + i) = -1;
    return l;
}

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
