/* GPUs and adapters on the PCI bus: link, NUMA node, near CPUs, and how far adapters are from GPUs. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/live/live.h"

enum { MAX_NICS = 32 };

struct place {
    char bus[GW_BUS_ID_CAP];
    char real[1024];
    int64_t node;
};

/* "16.0 GT/s PCIe" as a generation: the transfer rates of the PCIe base specifications. */
static int64_t generation(const char *speed)
{
    static const struct {
        const char *rate;
        int64_t gen;
    } rates[] = {{"2.5", 1}, {"5.0", 2},  {"5 ", 2},  {"8.0", 3},  {"8 ", 3}, {"16.0", 4},
                 {"16 ", 4}, {"32.0", 5}, {"32 ", 5}, {"64.0", 6}, {"64 ", 6}};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
        if (strncmp(speed, rates[i].rate, strlen(rates[i].rate)) == 0)
            return rates[i].gen;
    return GW_ENV_NONE;
}

static void set_gen(struct gw_live *l, struct gw_gpu *g, enum gw_gpu_metric m, const char *dir, const char *file)
{
    char text[64];
    if (gw_gpu_has(g, m) || gw_live_read(l, text, sizeof text, "/sys/bus/pci/devices/%s/%s", dir, file) <= 0)
        return;
    int64_t gen = generation(text);
    if (gen != GW_ENV_NONE)
        gw_gpu_set(g, m, gen);
}

static void set_width(struct gw_live *l, struct gw_gpu *g, enum gw_gpu_metric m, const char *dir, const char *file)
{
    int64_t v;
    if (!gw_gpu_has(g, m) && gw_live_number(l, &v, "/sys/bus/pci/devices/%s/%s", dir, file) == 0 && v >= 1 && v <= 32)
        gw_gpu_set(g, m, v);
}

static void place_of(struct gw_live *l, const char *sys, struct place *p)
{
    char path[4096], real[4096];
    p->node = GW_ENV_NONE;
    p->real[0] = '\0';
    gw_live_path(l, path, sizeof path, "%s", sys);
    if (realpath(path, real)) {
        const char *at = strstr(real, "/pci");
        snprintf(p->real, sizeof p->real, "%.1000s", at ? at : real);
    }
    if (gw_live_number(l, &p->node, "%s/numa_node", sys) < 0)
        p->node = GW_ENV_NONE;
}

static void gpu_facts(struct gw_live *l, struct gw_gpu *g, struct place *p)
{
    char text[4096], sys[256], upstream[320];
    snprintf(sys, sizeof sys, "/sys/bus/pci/devices/%s", p->bus);
    place_of(l, sys, p);
    if (p->node >= 0 && !gw_gpu_has(g, GW_GPU_NUMA_NODE))
        gw_gpu_set(g, GW_GPU_NUMA_NODE, p->node);
    if (!g->cpus && gw_live_read(l, text, sizeof text, "%s/local_cpulist", sys) > 0 &&
        gw_cpulist_count(text, NULL, 0) > 0)
        g->cpus = gw_env_dup(l->env, text, strlen(text));
    /* The bridge above the GPU is the other end of its link. In a virtual machine there is often none. */
    snprintf(upstream, sizeof upstream, "%s/..", p->bus);
    set_gen(l, g, GW_GPU_PCIE_GEN_DEVICE, p->bus, "max_link_speed");
    set_gen(l, g, GW_GPU_PCIE_GEN_HOST, upstream, "max_link_speed");
    set_gen(l, g, GW_GPU_PCIE_GEN, p->bus, "current_link_speed");
    set_width(l, g, GW_GPU_PCIE_WIDTH_MAX, p->bus, "max_link_width");
    set_width(l, g, GW_GPU_PCIE_WIDTH_HOST, upstream, "max_link_width");
    set_width(l, g, GW_GPU_PCIE_WIDTH, p->bus, "current_link_width");
    if (!gw_env_str(l->env, GW_HSTR_IOMMU)) {
        int64_t group;
        char link[4096], real[4096];
        if (realpath(gw_live_path(l, link, sizeof link, "%s/iommu_group", sys), real)) {
            group = strtoll(strrchr(real, '/') + 1, NULL, 10);
            if (gw_live_read(l, text, sizeof text, "/sys/kernel/iommu_groups/%lld/type", (long long)group) > 0)
                gw_env_set_str(l->env, GW_HSTR_IOMMU, text, strlen(text));
        }
    }
}

static int parts_below(const char *path)
{
    int n = 0;
    for (; *path; path++)
        n += *path == '/';
    return n;
}

/* Two places in the tree of bridges, in the words of nvidia-smi topo -m. */
static enum gw_link_kind distance(const struct place *a, const struct place *b)
{
    size_t common = 0, bridges = 0, last = 0;
    if (!a->real[0] || !b->real[0])
        return GW_LINK_NONE;
    while (a->real[common] && a->real[common] == b->real[common]) {
        if (a->real[common] == '/')
            last = common;
        common++;
    }
    /* "/pci0000:40/0000:40:01.1/0000:41:00.0/...": the parts in common, less the root complex itself, are bridges */
    for (size_t i = 1; i <= last; i++)
        bridges += a->real[i] == '/';
    if (last == 0)
        return a->node >= 0 && a->node == b->node ? GW_LINK_NODE
               : a->node >= 0 && b->node >= 0     ? GW_LINK_SYS
                                                  : GW_LINK_NONE;
    if (bridges <= 1)
        return GW_LINK_PHB;
    /* One switch: both hang off a downstream port of the last bridge in common. More below it: several switches. */
    return parts_below(a->real + last) <= 2 && parts_below(b->real + last) <= 2 ? GW_LINK_PIX : GW_LINK_PXB;
}

static void pairs(struct gw_live *l, const struct place *gpus, const struct place *nics, const char (*names)[64],
                  size_t nic_count)
{
    for (size_t i = 0; i < l->env->gpus.len; i++)
        for (size_t k = 0; k < nic_count; k++) {
            enum gw_link_kind kind = distance(&gpus[i], &nics[k]);
            struct gw_env_pair *p = kind != GW_LINK_NONE ? gw_env_add(l->env, GW_REC_PAIR) : NULL;
            if (p) {
                p->gpu = gw_env_gpu_at(l->env, i)->index;
                p->peer_nic = gw_env_dup(l->env, names[k], strlen(names[k]));
                p->link = kind;
            }
        }
}

static size_t adapters(struct gw_live *l, struct place *nics, char (*names)[64])
{
    char path[4096], text[128], sys[160];
    struct dirent **list = NULL;
    int n = scandir(gw_live_path(l, path, sizeof path, "/sys/class/infiniband"), &list, NULL, alphasort);
    size_t count = 0;
    for (int i = 0; i < n; i++) {
        if (list[i]->d_name[0] != '.' && count < MAX_NICS && strlen(list[i]->d_name) < 64) {
            struct gw_env_nic *nic = gw_env_add(l->env, GW_REC_NIC);
            snprintf(names[count], 64, "%.63s", list[i]->d_name);
            snprintf(sys, sizeof sys, "/sys/class/infiniband/%s/device", names[count]);
            place_of(l, sys, &nics[count]);
            if (nic) {
                nic->name = gw_env_dup(l->env, names[count], strlen(names[count]));
                nic->kind = "infiniband";
                nic->numa_node = nics[count].node;
                if (gw_live_read(l, text, sizeof text, "/sys/class/infiniband/%s/ports/1/state", names[count]) > 0)
                    nic->up = strstr(text, "ACTIVE") != NULL;
                if (gw_live_read(l, text, sizeof text, "/sys/class/infiniband/%s/ports/1/rate", names[count]) > 0)
                    nic->mbps = (int64_t)(strtod(text, NULL) * 1000); /* "400 Gb/sec (4X NDR)" */
            }
            count++;
        }
        free(list[i]);
    }
    free(list);
    return count;
}

/* Counts NVIDIA display controllers and 3D accelerators: what the driver should know. */
static void scan_bus(struct gw_live *l)
{
    char path[4096], vendor[16], class[16];
    struct dirent **list = NULL;
    int n = scandir(gw_live_path(l, path, sizeof path, "/sys/bus/pci/devices"), &list, NULL, alphasort);
    int64_t count = 0;
    for (int i = 0; i < n; i++) {
        const char *bus = list[i]->d_name;
        if (bus[0] != '.' && gw_live_read(l, vendor, sizeof vendor, "/sys/bus/pci/devices/%s/vendor", bus) > 0 &&
            strcmp(vendor, "0x10de") == 0 &&
            gw_live_read(l, class, sizeof class, "/sys/bus/pci/devices/%s/class", bus) > 0 &&
            strncmp(class, "0x03", 4) == 0)
            count++;
        free(list[i]);
    }
    free(list);
    if (n > 0)
        gw_env_set(l->env, GW_HOST_PCI_GPUS, count);
}

void gw_live_pci(struct gw_live *l)
{
    struct place *gpus = calloc(l->env->gpus.len + MAX_NICS, sizeof *gpus);
    char names[MAX_NICS][64], path[4096];
    struct dirent **list = NULL;
    scan_bus(l);
    if (!gpus)
        return;
    for (size_t i = 0; i < l->env->gpus.len; i++) {
        struct gw_gpu *g = gw_env_gpu_at(l->env, i);
        if (!g->bus_id)
            continue;
        snprintf(gpus[i].bus, sizeof gpus[i].bus, "%s", g->bus_id);
        gpu_facts(l, g, &gpus[i]);
    }
    struct place *nics = gpus + l->env->gpus.len;
    size_t n = adapters(l, nics, names);
    pairs(l, gpus, nics, (const char(*)[64])names, n);
    free(gpus);
    int groups = scandir(gw_live_path(l, path, sizeof path, "/sys/kernel/iommu_groups"), &list, NULL, NULL);
    for (int i = 0; i < groups; i++)
        free(list[i]);
    free(list);
    if (groups >= 0)
        gw_env_set(l->env, GW_HOST_IOMMU_GROUPS, groups > 2 ? groups - 2 : 0); /* less "." and ".." */
}
