/* lscpu, free, iostat -x, and single lines that name versions. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "collect/capture/capture.h"

/* --- lscpu --------------------------------------------------------------------------------------------------- */

int gw_os_lscpu_begins(struct gw_slice rest)
{
    struct gw_slice line;
    if (!gw_slice_line(&rest, &line) || !gw_slice_starts(line, "Architecture:"))
        return 0;
    struct gw_slice head = {line.p, line.n + (rest.n < 1024 ? rest.n : 1024)};
    return gw_slice_has(head, "\nCPU(s):");
}

static void node_cpus(struct gw_env *env, int64_t node, struct gw_slice list)
{
    for (size_t i = 0; i < gw_env_count(env, GW_REC_NODE); i++) {
        struct gw_env_node *n = gw_env_at(env, GW_REC_NODE, i);
        if (n->node == node)
            return;
    }
    const char *cpus = gw_env_dup(env, list.p, list.n);
    struct gw_env_node *n = gw_cpulist_count(cpus, NULL, 0) >= 0 ? gw_env_add(env, GW_REC_NODE) : NULL;
    if (n) {
        n->node = node;
        n->cpus = cpus;
    }
}

struct lscpu {
    int64_t cores_per_socket, sockets;
};

static int lscpu_value(struct gw_env *env, struct lscpu *c, struct gw_slice key, struct gw_slice value)
{
    int64_t v;
    double mhz;
    int number = gw_slice_number(value, &v) == 0;
    if (gw_slice_is(key, "CPU(s)") && number)
        gw_env_set(env, GW_HOST_CPUS, v);
    else if (gw_slice_is(key, "On-line CPU(s) list"))
        gw_env_set_str(env, GW_HSTR_CPUS_ONLINE, value.p, value.n);
    else if (gw_slice_is(key, "Model name") || gw_slice_is(key, "BIOS Model name")) {
        if (!gw_env_str(env, GW_HSTR_CPU_MODEL))
            gw_env_set_str(env, GW_HSTR_CPU_MODEL, value.p, value.n);
    } else if (gw_slice_is(key, "Socket(s)") && number)
        gw_env_set(env, GW_HOST_SOCKETS, c->sockets = v);
    else if (gw_slice_is(key, "Core(s) per socket") && number)
        c->cores_per_socket = v;
    else if (gw_slice_is(key, "NUMA node(s)") && number)
        gw_env_set(env, GW_HOST_NUMA_NODES, v);
    else if (gw_slice_is(key, "CPU max MHz") && gw_slice_decimal(value, &mhz) == 0 && mhz < 1e6)
        gw_env_set(env, GW_HOST_FREQ_MAX, (int64_t)(mhz * 1000));
    else if (gw_slice_is(key, "Hypervisor vendor"))
        gw_env_set(env, GW_HOST_VIRTUAL, 1);
    else if (gw_slice_starts(key, "NUMA node") && gw_slice_has(key, "CPU(s)")) {
        struct gw_slice digits = {key.p + 9, key.n - 9}, w;
        if (gw_slice_word(&digits, &w) && gw_slice_number(w, &v) == 0)
            node_cpus(env, v, value);
    } else {
        return 0;
    }
    return 1;
}

int64_t gw_os_lscpu_read(struct gw_env *env, struct gw_slice rest, size_t *used)
{
    struct lscpu c = {-1, -1};
    struct gw_slice all = rest, line, key, value;
    int64_t facts = 0;
    for (;;) {
        struct gw_slice before = rest;
        if (!gw_slice_line(&rest, &line))
            break;
        if (!gw_slice_pair(line, &key, &value)) {
            rest = before;
            break;
        }
        facts += lscpu_value(env, &c, key, value);
    }
    if (c.sockets > 0 && c.cores_per_socket > 0 && c.sockets < 1024 && c.cores_per_socket < 65536)
        gw_env_set(env, GW_HOST_CORES, c.sockets * c.cores_per_socket);
    *used = all.n - rest.n;
    return facts;
}

/* --- free ---------------------------------------------------------------------------------------------------- */

int gw_os_free_begins(struct gw_slice rest)
{
    struct gw_slice line, next;
    return gw_slice_line(&rest, &line) && gw_slice_has(line, "total") && gw_slice_has(line, "used") &&
           gw_slice_has(line, "free") && gw_slice_line(&rest, &next) && gw_slice_starts(next, "Mem:");
}

/* "62Gi", "8.0G", "65843504". A plain number's unit is not in the text: `plain` is what to multiply it with. */
static int64_t free_bytes(struct gw_slice w, int64_t plain)
{
    static const struct {
        char c;
        double factor;
    } units[] = {{'B', 1}, {'K', 1024}, {'M', 1048576}, {'G', 1073741824}, {'T', 1099511627776.0}};
    double v, f = (double)plain;
    size_t n = w.n;
    while (n && isalpha((unsigned char)w.p[n - 1]))
        n--;
    if (gw_slice_decimal((struct gw_slice){w.p, n}, &v) < 0)
        return GW_ENV_NONE;
    for (size_t i = 0; n < w.n && i < sizeof units / sizeof units[0]; i++)
        if (toupper((unsigned char)w.p[n]) == units[i].c)
            f = units[i].factor;
    v *= f;
    return v >= 0 && v < 1e18 ? (int64_t)v : GW_ENV_NONE;
}

/* free prints KiB unless told otherwise, and does not say so. A GPU machine has 4 GiB to 4 TiB, so the size tells. */
static int64_t plain_unit(struct gw_slice total)
{
    int64_t v;
    if (gw_slice_number(total, &v) < 0)
        return 1024;
    return v >= 4000000000 ? 1 : v >= 4000000 ? 1024 : v >= 4096 ? 1 << 20 : 1 << 30;
}

int64_t gw_os_free_read(struct gw_env *env, struct gw_slice rest, size_t *used)
{
    struct gw_slice all = rest, line, head, w, col[8];
    int n = 0, available = -1;
    int64_t facts = 0, unit = 0;
    gw_slice_line(&rest, &head);
    for (struct gw_slice h = head; n < 8 && gw_slice_word(&h, &w); n++)
        if (gw_slice_is(w, "available"))
            available = n + 1; /* the rows begin with a label */
    for (int row = 0; row < 3; row++) {
        struct gw_slice before = rest, cells;
        if (!gw_slice_line(&rest, &line))
            break;
        cells = line;
        for (n = 0; n < 8 && gw_slice_word(&cells, &col[n]); n++)
            ;
        if (n < 3 || !(gw_slice_is(col[0], "Mem:") || gw_slice_is(col[0], "Swap:") || gw_slice_is(col[0], "-/+"))) {
            rest = before;
            break;
        }
        if (!unit)
            unit = plain_unit(col[1]);
        int64_t total = free_bytes(col[1], unit), in_use = free_bytes(col[2], unit);
        if (gw_slice_is(col[0], "Mem:") && total != GW_ENV_NONE) {
            int64_t avail = available > 0 && available < n ? free_bytes(col[available], unit) : GW_ENV_NONE;
            gw_env_set(env, GW_HOST_MEM_TOTAL, total);
            if (avail != GW_ENV_NONE)
                gw_env_set(env, GW_HOST_MEM_AVAILABLE, avail);
            facts += 2;
        } else if (gw_slice_is(col[0], "Swap:") && total != GW_ENV_NONE && in_use != GW_ENV_NONE) {
            gw_env_set(env, GW_HOST_SWAP_TOTAL, total);
            gw_env_set(env, GW_HOST_SWAP_USED, in_use);
            facts += 2;
        }
    }
    *used = all.n - rest.n;
    return facts;
}

/* --- iostat -x ----------------------------------------------------------------------------------------------- */

enum { IO_COLUMNS = 32 };
enum io_column { IO_OTHER, IO_RS, IO_WS, IO_RMB, IO_WMB, IO_RAWAIT, IO_WAWAIT, IO_AWAIT, IO_UTIL };
struct iostat {
    int n;
    enum io_column col[IO_COLUMNS];
    double scale[IO_COLUMNS];
};

static int iostat_header(struct iostat *h, struct gw_slice line)
{
    static const struct {
        const char *name;
        enum io_column col;
        double scale;
    } words[] = {{"r/s", IO_RS, 1},           {"w/s", IO_WS, 1},           {"rkB/s", IO_RMB, 1.024e-3},
                 {"wkB/s", IO_WMB, 1.024e-3}, {"rMB/s", IO_RMB, 1.048576}, {"wMB/s", IO_WMB, 1.048576},
                 {"rsec/s", IO_RMB, 512e-6},  {"wsec/s", IO_WMB, 512e-6},  {"r_await", IO_RAWAIT, 1},
                 {"w_await", IO_WAWAIT, 1},   {"await", IO_AWAIT, 1},      {"%util", IO_UTIL, 0.01}};
    struct gw_slice w;
    int util = 0;
    h->n = 0;
    if (!gw_slice_word(&line, &w) || !(gw_slice_is(w, "Device") || gw_slice_is(w, "Device:")))
        return 0;
    while (h->n < IO_COLUMNS && gw_slice_word(&line, &w)) {
        h->col[h->n] = IO_OTHER;
        h->scale[h->n] = 1;
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
            if (gw_slice_is(w, words[i].name)) {
                h->col[h->n] = words[i].col;
                h->scale[h->n] = words[i].scale;
                util |= words[i].col == IO_UTIL;
            }
        h->n++;
    }
    return util;
}

int gw_os_iostat_begins(struct gw_slice rest)
{
    struct iostat h;
    struct gw_slice line;
    return gw_slice_line(&rest, &line) && iostat_header(&h, line);
}

static int iostat_row(struct gw_env *env, const struct iostat *h, struct gw_slice line)
{
    struct gw_slice name, w;
    double v[IO_UTIL + 1], x;
    for (int i = 0; i <= IO_UTIL; i++)
        v[i] = NAN;
    if (!gw_slice_word(&line, &name) || name.n > 64)
        return 0;
    for (int i = 0; i < h->n; i++) {
        if (!gw_slice_word(&line, &w) || gw_slice_decimal(w, &x) < 0)
            return 0;
        v[h->col[i]] = x * h->scale[i];
    }
    struct gw_env_disk *d = NULL;
    for (size_t i = 0; i < gw_env_count(env, GW_REC_DISK) && !d; i++) {
        struct gw_env_disk *old = gw_env_at(env, GW_REC_DISK, i);
        if (old->name && gw_slice_is(name, old->name))
            d = old;
    }
    /* The first report counts since boot; a later one of the same device replaces it. */
    const char *copy = d ? d->name : gw_env_dup(env, name.p, name.n);
    if (!d && !(d = gw_env_add(env, GW_REC_DISK)))
        return 1;
    double reads = v[IO_RS], writes = v[IO_WS];
    d->name = copy;
    d->busy = v[IO_UTIL];
    d->read_mbps = v[IO_RMB];
    d->write_mbps = v[IO_WMB];
    d->iops = reads + writes;
    d->await_ms = v[IO_AWAIT];
    if (isnan(d->await_ms) && reads + writes > 0)
        d->await_ms = (reads * v[IO_RAWAIT] + writes * v[IO_WAWAIT]) / (reads + writes);
    return 1;
}

int64_t gw_os_iostat_read(struct gw_env *env, struct gw_slice rest, size_t *used)
{
    struct iostat h;
    struct gw_slice all = rest, line;
    int64_t facts = 0;
    gw_slice_line(&rest, &line);
    iostat_header(&h, line);
    for (;;) {
        struct gw_slice before = rest;
        if (!gw_slice_line(&rest, &line))
            break;
        if (!iostat_row(env, &h, line)) {
            rest = before;
            break;
        }
        facts++;
    }
    *used = all.n - rest.n;
    return facts;
}

/* --- single lines that name a version -------------------------------------------------------------------------- */

enum { V_DRIVER, V_CUDA, V_LIB };
static const struct {
    const char *begin;
    int what;
    const char *lib;
} version_lines[] = {
    {"Cuda compilation tools, release ", V_LIB, "toolkit"}, /* nvcc --version */
    {"DRIVER version", V_DRIVER, NULL},                     /* nvidia-smi --version */
    {"CUDA Version", V_CUDA, NULL},
    {"Nvidia driver version", V_DRIVER, NULL}, /* python -m torch.utils.collect_env */
    {"PyTorch version", V_LIB, "torch"},
    {"CUDA used to build PyTorch", V_LIB, "torch-cuda"},
    {"CUDA runtime version", V_LIB, "toolkit"},
    {"[pip3] nvidia-cudnn-cu", V_LIB, "cudnn"},
    {"[pip3] nvidia-nccl-cu", V_LIB, "nccl"},
    {"[pip3] triton==", V_LIB, "triton"},
};

static int version_line(struct gw_slice line, size_t *which, struct gw_slice *value)
{
    for (size_t i = 0; i < sizeof version_lines / sizeof version_lines[0]; i++) {
        if (!gw_slice_starts(line, version_lines[i].begin))
            continue;
        size_t len = strlen(version_lines[i].begin);
        struct gw_slice key, rest = {line.p + len, line.n - len};
        const char *eq = gw_slice_find(line, "==");
        if (eq)
            *value = (struct gw_slice){eq + 2, line.n - (size_t)(eq + 2 - line.p)};
        else if (rest.n && isdigit((unsigned char)rest.p[0]))
            gw_slice_split(&rest, ',', value);
        else if (!gw_slice_pair(line, &key, value))
            return 0;
        *value = gw_slice_trim(*value);
        *which = i;
        return value->n > 0 && value->n < 64 && isdigit((unsigned char)value->p[0]);
    }
    return 0;
}

int gw_os_versions_begins(struct gw_slice rest)
{
    struct gw_slice line, value;
    size_t which;
    return gw_slice_line(&rest, &line) && version_line(line, &which, &value);
}

int64_t gw_os_versions_read(struct gw_env *env, struct gw_slice rest, size_t *used)
{
    struct gw_slice all = rest, line, value;
    size_t which;
    char text[64];
    gw_slice_line(&rest, &line);
    *used = all.n - rest.n;
    if (!version_line(line, &which, &value))
        return 0;
    snprintf(text, sizeof text, "%.*s", (int)value.n, value.p);
    if (version_lines[which].what == V_DRIVER)
        gw_smi_driver(env, value);
    else if (version_lines[which].what == V_CUDA)
        gw_smi_cuda(env, value);
    else
        gw_env_add_lib(env, version_lines[which].lib, text, "capture");
    return 1;
}
