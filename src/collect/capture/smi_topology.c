/* nvidia-smi topo -m and topo -p2p r (matrices), nvidia-smi -L and nvlink -s (lists). */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "collect/capture/capture.h"

enum { MAX_DEVICES = 96 }; /* GPUs and NICs of one matrix */

struct device {
    int64_t gpu;
    char nic[24];
}; /* gpu GW_ENV_NONE = a NIC */

struct topo {
    struct gw_env *env;
    struct device col[MAX_DEVICES];
    int n;
    int cpus, numa; /* 1 = the column is there, behind the devices */
    int64_t facts;
};

static int device_of(struct gw_slice w, struct device *d)
{
    int64_t n;
    if (gw_slice_starts(w, "GPU") && gw_slice_number((struct gw_slice){w.p + 3, w.n - 3}, &n) == 0) {
        d->gpu = n;
        d->nic[0] = '\0';
        return n >= 0 && n < GW_ENV_MAX_GPUS;
    }
    if (gw_slice_starts(w, "NIC") || gw_slice_starts(w, "mlx") || gw_slice_starts(w, "bnxt") ||
        gw_slice_starts(w, "efa") || gw_slice_starts(w, "rdma") || gw_slice_starts(w, "ib")) {
        d->gpu = GW_ENV_NONE;
        snprintf(d->nic, sizeof d->nic, "%.*s", (int)w.n, w.p);
        return 1;
    }
    return 0;
}

static int header(struct topo *t, struct gw_slice line)
{
    struct gw_slice w, rest = line;
    t->n = t->cpus = t->numa = 0;
    while (gw_slice_word(&rest, &w)) {
        struct device d;
        if (t->n < MAX_DEVICES && !t->cpus && device_of(w, &d)) {
            t->col[t->n++] = d;
        } else if (gw_slice_is(w, "CPU")) {
            t->cpus = 1;
        } else if (gw_slice_is(w, "NUMA")) {
            t->numa = 1;
        } else if (!gw_slice_is(w, "Affinity") && !gw_slice_is(w, "GPU") && !gw_slice_is(w, "ID")) {
            return 0;
        }
    }
    return t->n > 0 && t->col[0].gpu == 0;
}

static int link_cell(struct gw_slice w, int64_t *kind, int64_t *nvlinks)
{
    static const struct {
        const char *name;
        enum gw_link_kind kind;
    } links[] = {{"X", GW_LINK_SELF},    {"PIX", GW_LINK_PIX}, {"PXB", GW_LINK_PXB}, {"PHB", GW_LINK_PHB},
                 {"NODE", GW_LINK_NODE}, {"SYS", GW_LINK_SYS}, {"SOC", GW_LINK_SYS}, {"PSB", GW_LINK_PIX}};
    *nvlinks = GW_ENV_NONE;
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++)
        if (gw_slice_is(w, links[i].name)) {
            *kind = links[i].kind;
            return 1;
        }
    if (gw_slice_starts(w, "NV") && gw_slice_number((struct gw_slice){w.p + 2, w.n - 2}, nvlinks) == 0) {
        *kind = GW_LINK_NVLINK;
        return 1;
    }
    return 0;
}

static int p2p_cell(struct gw_slice w, int64_t *status)
{ /* the words of topo -p2p as NVML's numbers */
    static const struct {
        const char *name;
        int64_t status;
    } words[] = {{"OK", 0}, {"CNS", 1}, {"GNS", 2}, {"TNS", 3}, {"DR", 4}, {"NS", 5}, {"U", 6}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (gw_slice_is(w, words[i].name)) {
            *status = words[i].status;
            return 1;
        }
    return 0;
}

int gw_smi_topo_begins(struct gw_slice rest)
{
    struct topo t = {.n = 0};
    struct gw_slice line, w;
    if (!gw_slice_line(&rest, &line) || !header(&t, line))
        return 0;
    /* A matrix, and not a line that lists GPUs: the next line begins with a device of its own. */
    struct device d;
    return gw_slice_line(&rest, &line) && gw_slice_word(&line, &w) && device_of(w, &d) && gw_slice_word(&line, &w);
}

static void cell(struct topo *t, const struct device *row, const struct device *col, struct gw_slice w)
{
    int64_t kind = GW_LINK_NONE, nvlinks, p2p = 0;
    int is_link = link_cell(w, &kind, &nvlinks), is_p2p = !is_link && p2p_cell(w, &p2p);
    if ((!is_link && !is_p2p) || kind == GW_LINK_SELF || (row->gpu == GW_ENV_NONE && col->gpu == GW_ENV_NONE))
        return;
    const struct device *a = row, *b = col;
    if (a->gpu == GW_ENV_NONE || (b->gpu != GW_ENV_NONE && b->gpu < a->gpu))
        a = col, b = row; /* each pair once: the lower GPU first, a NIC always second */
    if (a->gpu == b->gpu)
        return;
    struct gw_env_pair *p = gw_env_find_pair(t->env, a->gpu, b->gpu, b->gpu == GW_ENV_NONE ? b->nic : NULL);
    if (!p)
        return;
    if (is_link) {
        p->link = kind;
        p->nvlinks = nvlinks;
    } else if (p->p2p == GW_ENV_NONE || p2p > p->p2p) {
        p->p2p = p2p; /* the worse of the two directions */
    }
    t->facts++;
}

static void affinity(struct topo *t, int64_t gpu, struct gw_slice rest)
{
    struct gw_slice w;
    int64_t node;
    char list[512];
    struct gw_gpu *g = gw_env_gpu(t->env, gpu, NULL);
    if (!g || !t->cpus || !gw_slice_word(&rest, &w) || w.n >= sizeof list)
        return;
    memcpy(list, w.p, w.n);
    list[w.n] = '\0';
    if (gw_cpulist_count(list, NULL, 0) > 0)
        g->cpus = gw_env_dup(t->env, list, w.n);
    if (t->numa && gw_slice_word(&rest, &w) && gw_slice_number(w, &node) == 0)
        gw_gpu_set(g, GW_GPU_NUMA_NODE, node);
}

static int row(struct topo *t, struct gw_slice line)
{
    struct gw_slice w, rest = line;
    struct device d;
    if (!gw_slice_word(&rest, &w) || !device_of(w, &d))
        return 0;
    if (d.gpu != GW_ENV_NONE)
        gw_env_gpu(t->env, d.gpu, NULL);
    for (int i = 0; i < t->n && gw_slice_word(&rest, &w); i++)
        cell(t, &d, &t->col[i], w);
    if (d.gpu != GW_ENV_NONE)
        affinity(t, d.gpu, rest);
    return 1;
}

int64_t gw_smi_topo_read(struct gw_env *env, struct gw_slice rest, size_t *used)
{
    struct topo t = {.env = env};
    struct gw_slice all = rest, line;
    gw_slice_line(&rest, &line);
    header(&t, line);
    for (;;) {
        struct gw_slice before = rest;
        if (!gw_slice_line(&rest, &line))
            break;
        if (!row(&t, line)) {
            rest = before;
            break;
        }
    }
    *used = all.n - rest.n;
    return t.facts + 1;
}

/* "GPU 0: NVIDIA H200 (UUID: GPU-...)" */
static int list_line(struct gw_slice line, int64_t *index, struct gw_slice *name, struct gw_slice *uuid)
{
    const char *colon = line.n ? memchr(line.p, ':', line.n) : NULL, *at = gw_slice_find(line, "(UUID: ");
    if (!gw_slice_starts(line, "GPU ") || !colon || !at || at <= colon ||
        gw_slice_number((struct gw_slice){line.p + 4, (size_t)(colon - line.p) - 4}, index) < 0 || *index < 0 ||
        *index >= GW_ENV_MAX_GPUS)
        return 0;
    *name = gw_slice_trim((struct gw_slice){colon + 1, (size_t)(at - colon) - 1});
    at += strlen("(UUID: ");
    const char *end = memchr(at, ')', line.n - (size_t)(at - line.p));
    *uuid = (struct gw_slice){at, end ? (size_t)(end - at) : 0};
    return 1;
}

int gw_smi_list_begins(struct gw_slice rest)
{
    struct gw_slice line, name, uuid;
    int64_t i;
    return gw_slice_line(&rest, &line) && list_line(line, &i, &name, &uuid);
}

int64_t gw_smi_list_read(struct gw_env *env, struct gw_slice rest, size_t *used)
{
    struct gw_slice all = rest, line, name, uuid;
    struct gw_gpu *g = NULL;
    int64_t index, facts = 0, links = 0, active = 0;
    for (;;) {
        struct gw_slice before = rest;
        if (!gw_slice_line(&rest, &line))
            break;
        struct gw_slice body = gw_slice_trim(line);
        if (list_line(body, &index, &name, &uuid)) {
            g = gw_env_gpu(env, index, NULL);
            links = active = 0;
            if (g) {
                g->name = gw_env_dup(env, name.p, name.n);
                g->uuid = gw_env_dup(env, uuid.p, uuid.n);
                facts++;
            }
        } else if (g && gw_slice_starts(body, "Link ") && gw_slice_has(body, ":")) {
            links++;
            active += gw_slice_has(body, "GB/s");
            gw_gpu_set(g, GW_GPU_NVLINK_COUNT, links);
            gw_gpu_set(g, GW_GPU_NVLINK_ACTIVE, active);
            facts++;
        } else if (gw_slice_starts(body, "MIG ") && gw_slice_has(body, "(UUID:")) {
            facts++;
        } else if (body.n && !gw_slice_starts(body, "NVML:") && !gw_slice_has(body, "Nvlink")) {
            rest = before;
            break;
        }
    }
    *used = all.n - rest.n;
    return facts;
}
