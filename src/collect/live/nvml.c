#include "collect/live/nvml.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/gw_i18n.h"

/* Codes of nvmlReturn_t that mean something to a user. */
static const char *reason_of(int code)
{
    switch (code) {
    case 4: return N_("no permission: are /dev/nvidia* readable and writable for you?");
    case 9: return N_("the kernel module is not loaded");
    case 12: return N_("a library of the driver is missing");
    case 15: return N_("a GPU has fallen off the bus");
    case 17: return N_("the operating system or the cgroup keeps the GPUs away");
    case 18: return N_("driver and library versions do not match");
    default: return NULL;
    }
}

static void *open_library(const struct gw_live *l)
{
    /* The third is where Windows puts it under WSL. */
    static const char *const names[] = {"libnvidia-ml.so.1", "libnvidia-ml.so", "/usr/lib/wsl/lib/libnvidia-ml.so.1"};
    if (l->o->nvml)
        return dlopen(l->o->nvml, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (lib)
            return lib;
    }
    return NULL;
}

static void load(struct gw_live_nvml *n)
{
    void *f; /* an object pointer that holds a function: POSIX promises that this works */
#define X(member, args, newest, older)         \
    f = gw_live_nvml_symbol(n, newest, older); \
    memcpy(&n->member, &f, sizeof f);
    GW_NVML_FUNCTIONS(X)
#undef X
    gw_live_nvml_numbers_load(n);
}

static void problem(struct gw_live *l, const char *text)
{
    gw_env_set_str(l->env, GW_HSTR_NVML_PROBLEM, text, strlen(text));
}

static void devices(struct gw_live_nvml *n)
{
    for (unsigned i = 0; i < n->count && i < GW_ENV_MAX_GPUS; i++) {
        struct nvml_pci pci;
        char text[128];
        int have_bus = 0;
        if (n->handle(i, &n->dev[i]) != NVML_SUCCESS) {
            n->dev[i] = NULL;
            continue;
        }
        memset(&pci, 0, sizeof pci);
        if (n->pci && n->pci(n->dev[i], &pci) == NVML_SUCCESS) {
            pci.bus_id[sizeof pci.bus_id - 1] = '\0';
            have_bus = 1;
        }
        struct gw_gpu *g = gw_env_gpu(n->l->env, i, have_bus ? pci.bus_id : NULL);
        if (!g) {
            n->dev[i] = NULL;
            continue;
        }
        n->position[i] = gw_env_gpu_position(n->l->env, g);
        if (n->name && n->name(n->dev[i], text, sizeof text) == NVML_SUCCESS)
            g->name = gw_env_dup(n->l->env, text, strnlen(text, sizeof text));
        if (n->uuid && n->uuid(n->dev[i], text, sizeof text) == NVML_SUCCESS)
            g->uuid = gw_env_dup(n->l->env, text, strnlen(text, sizeof text));
    }
}

struct gw_live_nvml *gw_live_nvml_open(struct gw_live *l)
{
    struct gw_live_nvml *n = calloc(1, sizeof *n);
    char text[80];
    int v = 0, rc;
    if (!n)
        return NULL;
    n->l = l;
    if (!(n->lib = open_library(l))) {
        problem(l, N_("libnvidia-ml.so.1 is not here"));
        free(n);
        return NULL;
    }
    load(n);
    if (!n->init || !n->count_devices || !n->handle) {
        problem(l, N_("libnvidia-ml.so.1 is too old"));
        goto fail;
    }
    if ((rc = n->init()) != NVML_SUCCESS) {
        const char *why = reason_of(rc);
        snprintf(text, sizeof text, "NVML error %d", rc);
        problem(l, why ? why : text);
        goto fail;
    }
    if (n->driver_version && n->driver_version(text, sizeof text) == NVML_SUCCESS)
        gw_env_set_str(l->env, GW_HSTR_DRIVER, text, strnlen(text, sizeof text));
    if (n->cuda_version && n->cuda_version(&v) == NVML_SUCCESS && v > 0)
        gw_env_set(l->env, GW_HOST_CUDA_DRIVER, v);
    return n;
fail:
    dlclose(n->lib);
    free(n);
    return NULL;
}

/* --- facts that stay -------------------------------------------------------------------------------------------------
 */

static void memory(struct gw_live_nvml *n, unsigned i, struct gw_gpu *g)
{
    struct nvml_memory_v2 v2 = {.version = NVML_MEMORY_V2};
    struct nvml_memory v1;
    struct nvml_bar1 bar1;
    if (n->memory_v2 && n->memory_v2(n->dev[i], &v2) == NVML_SUCCESS) {
        gw_gpu_set(g, GW_GPU_MEM_TOTAL, (int64_t)v2.total);
        gw_gpu_set(g, GW_GPU_MEM_USED, (int64_t)v2.used);
    } else if (n->memory && n->memory(n->dev[i], &v1) == NVML_SUCCESS) {
        gw_gpu_set(g, GW_GPU_MEM_TOTAL, (int64_t)v1.total);
        gw_gpu_set(g, GW_GPU_MEM_USED, (int64_t)v1.used);
    }
    if (n->bar1 && n->bar1(n->dev[i], &bar1) == NVML_SUCCESS) {
        gw_gpu_set(g, GW_GPU_BAR1_TOTAL, (int64_t)bar1.total);
        gw_gpu_set(g, GW_GPU_BAR1_USED, (int64_t)bar1.used);
    }
}

static void errors(struct gw_live_nvml *n, unsigned i, struct gw_gpu *g)
{
    unsigned cor, unc, pending, failed;
    unsigned long long count;
    int now, next;
    if (n->ecc_mode && n->ecc_mode(n->dev[i], &now, &next) == NVML_SUCCESS) {
        gw_gpu_set(g, GW_GPU_ECC, now != 0);
        gw_gpu_set(g, GW_GPU_ECC_PENDING, next != 0);
    }
    if (n->ecc_total && n->ecc_total(n->dev[i], 1 /* uncorrected */, 0 /* volatile */, &count) == NVML_SUCCESS)
        gw_gpu_set(g, GW_GPU_ECC_UNC_DRAM, (int64_t)count);
    if (n->ecc_total && n->ecc_total(n->dev[i], 0 /* corrected */, 0, &count) == NVML_SUCCESS)
        gw_gpu_set(g, GW_GPU_ECC_COR, (int64_t)count);
    if (n->remapped && n->remapped(n->dev[i], &cor, &unc, &pending, &failed) == NVML_SUCCESS) {
        gw_gpu_set(g, GW_GPU_REMAP_COR, cor);
        gw_gpu_set(g, GW_GPU_REMAP_UNC, unc);
        gw_gpu_set(g, GW_GPU_REMAP_PENDING, pending != 0);
        gw_gpu_set(g, GW_GPU_REMAP_FAILURE, failed != 0);
    }
    if (n->retired_pending && n->retired_pending(n->dev[i], &now) == NVML_SUCCESS)
        gw_gpu_set(g, GW_GPU_RETIRED_PENDING, now != 0);
}

static void mig(struct gw_live_nvml *n, unsigned i, struct gw_gpu *g)
{
    unsigned now, next, max = 0, id;
    if (!n->mig_mode || n->mig_mode(n->dev[i], &now, &next) != NVML_SUCCESS)
        return;
    gw_gpu_set(g, GW_GPU_MIG, now != 0);
    gw_gpu_set(g, GW_GPU_MIG_PENDING, next != 0);
    if (!now || !n->mig_handle || !n->mig_max || n->mig_max(n->dev[i], &max) != NVML_SUCCESS)
        return;
    for (unsigned k = 0; k < max && k < 64; k++) {
        gw_live_nvml_dev m;
        struct nvml_memory mem;
        if (n->mig_handle(n->dev[i], k, &m) != NVML_SUCCESS)
            continue;
        struct gw_env_mig *rec = gw_env_add(n->l->env, GW_REC_MIG);
        if (!rec)
            return;
        rec->gpu = i;
        if (n->gi_id && n->gi_id(m, &id) == NVML_SUCCESS)
            rec->gi = id;
        if (n->memory && n->memory(m, &mem) == NVML_SUCCESS)
            rec->bytes = (int64_t)mem.total;
    }
}

/* 1 when the process has a device of the driver open. 0 also when we may not look. */
static int holds_gpu(struct gw_live *l, unsigned pid)
{
    char dir[4096], path[4200], target[64];
    struct dirent *e;
    int hit = 0, left = 1000;
    DIR *d = opendir(gw_live_path(l, dir, sizeof dir, "/proc/%u/fd", pid));
    while (d && !hit && left-- > 0 && (e = readdir(d))) {
        snprintf(path, sizeof path, "%.3900s/%.200s", dir, e->d_name);
        ssize_t n = readlink(path, target, sizeof target - 1);
        if (n > 0) {
            target[n] = '\0';
            hit = strncmp(target, "/dev/nvidia", 11) == 0;
        }
    }
    if (d)
        closedir(d);
    return hit;
}

static void add_process(struct gw_live_nvml *n, unsigned i, const struct nvml_process *p, int compute)
{
    char comm[64];
    struct gw_env_proc *rec = gw_env_add(n->l->env, GW_REC_PROC);
    if (!rec)
        return;
    rec->gpu = i;
    rec->pid = p->pid;
    rec->compute = compute;
    rec->ours = gw_live_is_ours(n->l, p->pid);
    if (p->bytes < 1ull << 62) /* all ones where it is not told */
        rec->bytes = (int64_t)p->bytes;
    rec->resolved = gw_live_read(n->l, comm, sizeof comm, "/proc/%u/comm", p->pid) > 0;
    /* In a PID namespace the driver may speak of the host's numbers: another process may bear the same one here. */
    if (gw_env_get(n->l->env, GW_HOST_PID_NAMESPACE) == 1 && !holds_gpu(n->l, p->pid))
        rec->resolved = 0;
    if (rec->resolved)
        rec->name = gw_env_dup(n->l->env, comm, strlen(comm));
}

static void processes(struct gw_live_nvml *n, unsigned i)
{
    enum { MAX = 256 };
    int (*const list[2])(gw_live_nvml_dev, unsigned *, struct nvml_process *) = {n->graphics_processes,
                                                                                 n->compute_processes};
    struct nvml_process *p = calloc(MAX, sizeof *p);
    for (int compute = 0; p && compute < 2; compute++) {
        unsigned count = MAX;
        if (!list[compute] || list[compute](n->dev[i], &count, p) != NVML_SUCCESS)
            continue;
        for (unsigned k = 0; k < count && k < MAX; k++)
            add_process(n, i, &p[k], compute);
    }
    free(p);
}

static int same_bus(const struct gw_env *env, size_t position, const char *bus)
{
    char id[GW_BUS_ID_CAP];
    const struct gw_gpu *g = gw_env_gpu_at(env, position);
    return g->bus_id && gw_bus_id_normal(bus, strnlen(bus, 32), id) == 0 && strcmp(g->bus_id, id) == 0;
}

/* Active links of device i, and how many of them end at device k, or at a switch that all share. */
static int links_between(struct gw_live_nvml *n, unsigned i, unsigned k)
{
    int direct = 0, by_switch = 0, state, type;
    struct nvml_pci remote;
    for (unsigned link = 0; link < NVML_MAX_LINKS; link++) {
        if (n->link_state(n->dev[i], link, &state) != NVML_SUCCESS || !state)
            continue;
        memset(&remote, 0, sizeof remote);
        if (n->link_remote && n->link_remote(n->dev[i], link, &remote) == NVML_SUCCESS &&
            same_bus(n->l->env, n->position[k], remote.bus_id))
            direct++;
        else if (n->link_type && n->link_type(n->dev[i], link, &type) == NVML_SUCCESS && type == 2) /* a switch */
            by_switch++;
    }
    return direct ? direct : by_switch;
}

static void count_links(struct gw_live_nvml *n, unsigned i, struct gw_gpu *g)
{
    int64_t links = 0, active = 0;
    int state;
    if (!n->link_state)
        return;
    for (unsigned link = 0; link < NVML_MAX_LINKS; link++)
        if (n->link_state(n->dev[i], link, &state) == NVML_SUCCESS) {
            links++;
            active += state != 0;
        }
    if (links) {
        gw_gpu_set(g, GW_GPU_NVLINK_COUNT, links);
        gw_gpu_set(g, GW_GPU_NVLINK_ACTIVE, active);
    }
}

static void pair(struct gw_live_nvml *n, unsigned i, unsigned k)
{
    static const struct {
        int level;
        enum gw_link_kind kind;
    } levels[] = {{0, GW_LINK_PIX},  {10, GW_LINK_PIX},  {20, GW_LINK_PXB},
                  {30, GW_LINK_PHB}, {40, GW_LINK_NODE}, {50, GW_LINK_SYS}};
    int level, there, back, links;
    struct gw_env_pair *p = gw_env_add(n->l->env, GW_REC_PAIR);
    if (!p)
        return;
    p->gpu = i;
    p->peer_gpu = k;
    if (n->ancestor && n->ancestor(n->dev[i], n->dev[k], &level) == NVML_SUCCESS)
        for (size_t j = 0; j < sizeof levels / sizeof levels[0]; j++)
            if (levels[j].level == level)
                p->link = levels[j].kind;
    if (n->link_state && (links = links_between(n, i, k)) > 0) {
        p->link = GW_LINK_NVLINK;
        p->nvlinks = links;
    }
    if (n->p2p && n->p2p(n->dev[i], n->dev[k], 0 /* read */, &there) == NVML_SUCCESS &&
        n->p2p(n->dev[k], n->dev[i], 0, &back) == NVML_SUCCESS)
        p->p2p = there > back ? there : back;
}

void gw_live_nvml_facts(struct gw_live_nvml *n)
{
    unsigned count = 0;
    if (!n || n->count_devices(&count) != NVML_SUCCESS)
        return;
    if (count > GW_ENV_MAX_GPUS) {
        gw_env_note(n->l->env, "NVML", "%u GPUs are more than gpuwhy handles; the first %d were looked at", count,
                    GW_ENV_MAX_GPUS);
        count = GW_ENV_MAX_GPUS;
    }
    n->count = count;
    devices(n);
    for (unsigned i = 0; i < n->count; i++) {
        struct gw_gpu *g = n->dev[i] ? gw_env_gpu_at(n->l->env, n->position[i]) : NULL;
        struct nvml_fabric fabric;
        int major, minor;
        if (!g)
            continue;
        gw_live_nvml_numbers_read(n, i, g, 0);
        memory(n, i, g);
        errors(n, i, g);
        mig(n, i, g);
        processes(n, i);
        count_links(n, i, g);
        if (n->capability && n->capability(n->dev[i], &major, &minor) == NVML_SUCCESS) {
            gw_gpu_set(g, GW_GPU_CC_MAJOR, major);
            gw_gpu_set(g, GW_GPU_CC_MINOR, minor);
        }
        if (n->fabric && n->fabric(n->dev[i], &fabric) == NVML_SUCCESS && fabric.state > 0 && fabric.state <= 3)
            gw_gpu_set(g, GW_GPU_FABRIC, fabric.state);
    }
    for (unsigned i = 0; i < n->count; i++)
        for (unsigned k = i + 1; k < n->count; k++)
            if (n->dev[i] && n->dev[k])
                pair(n, i, k);
}

/* --- facts that change -----------------------------------------------------------------------------------------------
 */

/* Fields, by the numbers of nvml.h; the counters are in ns there. */
static const struct {
    unsigned id;
    enum gw_gpu_metric metric;
    int64_t divide;
} fields[] = {{82, GW_GPU_TEMP_MEM, 1},
              {74, GW_GPU_US_SW_POWER, 1000},
              {269, GW_GPU_US_SW_THERMAL, 1000},
              {270, GW_GPU_US_HW_THERMAL, 1000},
              {271, GW_GPU_US_HW_BRAKE, 1000}};
enum { FIELDS = sizeof fields / sizeof fields[0] };

static int64_t field_value(const struct nvml_field *f)
{
    switch (f->type) {
    case 1: return f->value.u32;
    case 2: return (int64_t)f->value.ul;
    case 3: return f->value.u64 < INT64_MAX ? (int64_t)f->value.u64 : GW_ENV_NONE;
    case 4: return f->value.s64;
    case 5: return f->value.s32;
    case 6: return f->value.u16;
    default: return GW_ENV_NONE;
    }
}

static void read_fields(struct gw_live_nvml *n, unsigned i, struct gw_gpu *g)
{
    struct nvml_field f[FIELDS];
    memset(f, 0, sizeof f);
    for (int k = 0; k < FIELDS; k++)
        f[k].id = fields[k].id;
    if (!n->fields || n->fields(n->dev[i], FIELDS, f) != NVML_SUCCESS)
        return;
    for (int k = 0; k < FIELDS; k++) {
        int64_t v = f[k].result == NVML_SUCCESS ? field_value(&f[k]) : GW_ENV_NONE;
        if (v != GW_ENV_NONE && v >= 0)
            gw_gpu_set(g, fields[k].metric, v / fields[k].divide);
    }
}

void gw_live_nvml_sample(struct gw_live_nvml *n, int64_t t_ns, int64_t source)
{
    for (unsigned i = 0; n && i < n->count; i++) {
        struct gw_gpu *g = n->dev[i] ? gw_env_gpu_at(n->l->env, n->position[i]) : NULL;
        struct nvml_utilization util;
        struct nvml_margin margin = {.version = NVML_MARGIN_V1};
        unsigned long long mask;
        if (!g)
            continue;
        int64_t used = gw_gpu_get(g, GW_GPU_MEM_USED);
        for (int m = 0; m < GW_GPU_DYNAMIC; m++)
            g->has[m / 64] &= ~(1ull << (m % 64));
        if (used != GW_ENV_NONE)
            gw_gpu_set(g, GW_GPU_MEM_USED, used);
        gw_live_nvml_numbers_read(n, i, g, 1);
        read_fields(n, i, g);
        if (n->utilization && n->utilization(n->dev[i], &util) == NVML_SUCCESS && util.gpu <= 100) {
            gw_gpu_set(g, GW_GPU_UTIL, util.gpu);
            gw_gpu_set(g, GW_GPU_UTIL_MEM, util.memory);
        }
        if (n->margin && n->margin(n->dev[i], &margin) == NVML_SUCCESS)
            gw_gpu_set(g, GW_GPU_TLIMIT, margin.margin);
        if (n->reasons && n->reasons(n->dev[i], &mask) == NVML_SUCCESS) {
            gw_gpu_set(g, GW_GPU_REASONS, (int64_t)(mask & 0x1ff));
            /* A board without a power brake does not support that bit: it cannot be set, so it is known. */
            gw_gpu_set(g, GW_GPU_REASONS_KNOWN, 0x1ff);
        }
        gw_env_sample(n->l->env, g, t_ns, source);
    }
}

void gw_live_nvml_close(struct gw_live_nvml *n)
{
    if (!n)
        return;
    if (n->shutdown)
        n->shutdown();
    dlclose(n->lib);
    free(n);
}
