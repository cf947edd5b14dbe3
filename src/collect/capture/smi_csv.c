/* nvidia-smi --query-gpu=... --format=csv, once or as a log, and --query-compute-apps. */
#include <ctype.h>
#include <string.h>

#include "collect/capture/capture.h"

enum { MAX_COLUMNS = 256 };
enum column {
    COL_OTHER,
    COL_TIME,
    COL_INDEX,
    COL_BUS,
    COL_UUID,
    COL_NAME,
    COL_DRIVER,
    COL_CC,
    COL_PID,
    COL_PROCESS,
    COL_USED,
    COL_REASON,
    COL_METRIC
};

struct csv {
    struct gw_env *env;
    int n;
    struct {
        enum column kind;
        int metric, alt;
        struct gw_slice name;
    } col[MAX_COLUMNS];
    struct gw_slice header;
    int metrics, has_gpu, has_pid, is_apps;
    int64_t source, facts, rows, bad;
    struct gw_smi_block block;
};

static const struct {
    const char *name;
    enum column kind;
} plain[] = {
    {"timestamp", COL_TIME},
    {"index", COL_INDEX},
    {"pci.bus_id", COL_BUS},
    {"gpu_bus_id", COL_BUS},
    {"uuid", COL_UUID},
    {"gpu_uuid", COL_UUID},
    {"name", COL_NAME},
    {"gpu_name", COL_NAME},
    {"driver_version", COL_DRIVER},
    {"pid", COL_PID},
    {"process_name", COL_PROCESS},
    {"used_gpu_memory", COL_USED},
    {"used_memory", COL_USED},
    {"compute_cap", COL_CC},
};

/* "memory.used [MiB]" -> "memory.used"; the unit of the cells is that of the table unless a cell names its own. */
static struct gw_slice column_name(struct gw_slice cell)
{
    cell = gw_slice_trim(cell);
    if (cell.n > 1 && cell.p[0] == '"' && cell.p[cell.n - 1] == '"')
        cell = (struct gw_slice){cell.p + 1, cell.n - 2};
    const char *at = cell.n ? memchr(cell.p, '[', cell.n) : NULL;
    if (at)
        cell.n = (size_t)(at - cell.p);
    return gw_slice_trim(cell);
}

static int is_name(struct gw_slice t)
{
    for (size_t i = 0; i < t.n; i++)
        if (!isalnum((unsigned char)t.p[i]) && t.p[i] != '.' && t.p[i] != '_')
            return 0;
    return t.n > 0 && isalpha((unsigned char)t.p[0]);
}

static void classify(struct csv *c, int i, struct gw_slice name)
{
    c->col[i].kind = COL_OTHER;
    c->col[i].name = name;
    for (size_t k = 0; k < sizeof plain / sizeof plain[0]; k++)
        if (gw_slice_is(name, plain[k].name))
            c->col[i].kind = plain[k].kind;
    c->has_pid |= c->col[i].kind == COL_PID;
    c->is_apps |= c->col[i].kind == COL_PROCESS || c->col[i].kind == COL_USED;
    c->has_gpu |= c->col[i].kind == COL_INDEX || c->col[i].kind == COL_BUS || c->col[i].kind == COL_UUID;
    if (c->col[i].kind != COL_OTHER)
        return;
    c->col[i].metric = gw_smi_metric(GW_SMI_CSV, name.p, name.n, &c->col[i].alt);
    if (c->col[i].metric >= 0) {
        c->col[i].kind = COL_METRIC;
        c->metrics++;
    } else if (gw_slice_starts(name, "clocks_event_reasons.") || gw_slice_starts(name, "clocks_throttle_reasons.")) {
        const char *dot = memchr(name.p, '.', name.n);
        c->col[i].kind = COL_REASON;
        c->col[i].name = (struct gw_slice){dot + 1, name.n - (size_t)(dot + 1 - name.p)};
        c->metrics++;
    }
}

/* 1 when the line is a header with something in it that we know. */
static int header(struct csv *c, struct gw_slice line)
{
    struct gw_slice rest = line, cell;
    c->header = line;
    c->n = 0;
    while (gw_slice_split(&rest, ',', &cell)) {
        struct gw_slice name = column_name(cell);
        if (!is_name(name) || c->n == MAX_COLUMNS)
            return 0;
        classify(c, c->n++, name);
    }
    if (c->has_pid)
        return c->n >= 2;
    return c->metrics > 0;
}

/* One column alone is only a table when a value stands below it: its name may as well be a word in a help text. */
static int value_below(const struct csv *c, struct gw_slice rest)
{
    struct gw_slice line;
    int64_t v;
    return c->n > 1 ||
           (c->col[0].kind == COL_METRIC && gw_slice_line(&rest, &line) &&
            gw_unit_parse(gw_gpu_metric_info((enum gw_gpu_metric)c->col[0].metric)->unit, line.p, line.n, &v) == 0);
}

int gw_smi_csv_begins(struct gw_slice rest)
{
    struct csv c = {.n = 0};
    struct gw_slice line;
    return gw_slice_line(&rest, &line) && line.n && (isalpha((unsigned char)line.p[0]) || line.p[0] == '"') &&
           header(&c, line) && value_below(&c, rest);
}

static struct gw_gpu *gpu_of_row(struct csv *c, struct gw_slice *cells)
{
    char bus[GW_BUS_ID_CAP];
    int64_t index = GW_ENV_NONE;
    int with_bus = 0;
    struct gw_slice uuid = {0, 0};
    for (int i = 0; i < c->n; i++) {
        if (c->col[i].kind == COL_INDEX)
            (void)gw_slice_number(cells[i], &index);
        else if (c->col[i].kind == COL_BUS)
            with_bus = gw_bus_id_normal(cells[i].p, cells[i].n, bus) == 0;
        else if (c->col[i].kind == COL_UUID)
            uuid = cells[i];
    }
    if (index != GW_ENV_NONE && (index < 0 || index >= GW_ENV_MAX_GPUS))
        return NULL;
    if (index == GW_ENV_NONE && !with_bus && uuid.n) {
        for (size_t i = 0; i < c->env->gpus.len; i++) {
            struct gw_gpu *g = gw_env_gpu_at(c->env, i);
            if (g->uuid && gw_slice_is(uuid, g->uuid))
                return g;
        }
        index = (int64_t)c->env->gpus.len;
    }
    if (index == GW_ENV_NONE && with_bus) {
        struct gw_gpu *g = gw_env_gpu(c->env, GW_ENV_NONE, bus);
        if (g && g->index == GW_ENV_NONE)
            g->index = (int64_t)gw_env_gpu_position(c->env, g);
        return g;
    }
    struct gw_gpu *g = gw_env_gpu(c->env, index == GW_ENV_NONE ? 0 : index, with_bus ? bus : NULL);
    if (g && uuid.n && !g->uuid)
        g->uuid = gw_env_dup(c->env, uuid.p, uuid.n);
    return g;
}

static void app_row(struct csv *c, struct gw_slice *cells)
{
    int64_t pid = GW_ENV_NONE, bytes = GW_ENV_NONE;
    const char *name = NULL;
    struct gw_gpu *g = gpu_of_row(c, cells);
    for (int i = 0; i < c->n; i++) {
        if (c->col[i].kind == COL_PID)
            (void)gw_slice_number(cells[i], &pid);
        else if (c->col[i].kind == COL_USED)
            (void)gw_unit_parse(GW_UNIT_BYTES, cells[i].p, cells[i].n, &bytes);
        else if (c->col[i].kind == COL_PROCESS)
            name = gw_env_dup(c->env, cells[i].p, cells[i].n);
    }
    struct gw_env_proc *p = g && pid != GW_ENV_NONE ? gw_smi_process(c->env, g, pid) : NULL;
    if (!p)
        return;
    p->compute = 1;
    if (bytes != GW_ENV_NONE)
        p->bytes = bytes;
    if (name)
        p->name = name;
    c->facts++;
}

static void compute_cap(struct gw_gpu *g, struct gw_slice cell)
{
    int64_t v = gw_slice_cuda_version(cell); /* "9.0" as 9000 */
    if (v > 0) {
        gw_gpu_set(g, GW_GPU_CC_MAJOR, v / 1000);
        gw_gpu_set(g, GW_GPU_CC_MINOR, v % 1000 / 10);
    }
}

static void gpu_row(struct csv *c, struct gw_slice *cells)
{
    int64_t t = GW_ENV_NONE;
    struct gw_gpu *g = gpu_of_row(c, cells);
    if (!g)
        return;
    gw_smi_begin(&c->block, g);
    for (int i = 0; i < c->n; i++) {
        switch (c->col[i].kind) {
        case COL_TIME: t = gw_slice_time(cells[i]); break;
        case COL_NAME:
            if (!g->name || !gw_slice_is(cells[i], g->name))
                g->name = gw_env_dup(c->env, cells[i].p, cells[i].n);
            break;
        case COL_DRIVER: gw_smi_driver(c->env, cells[i]); break;
        case COL_CC: compute_cap(g, cells[i]); break;
        case COL_METRIC: gw_smi_set(&c->block, c->col[i].metric, c->col[i].alt, cells[i]); break;
        case COL_REASON: gw_smi_reason(&c->block, GW_SMI_CSV, c->col[i].name, cells[i]); break;
        default: break;
        }
    }
    c->facts += c->block.facts;
    gw_env_sample(c->env, g, t, c->source);
}

/* 1 when the line belongs to the table, torn or not. */
static int row(struct csv *c, struct gw_slice line)
{
    struct gw_slice cells[MAX_COLUMNS], rest = line, cell;
    int n = 0;
    if (line.n == c->header.n && memcmp(line.p, c->header.p, line.n) == 0)
        return 1; /* a header that repeats */
    while (gw_slice_split(&rest, ',', &cell)) {
        if (n == c->n) {
            n++;
            break;
        }
        cell = gw_slice_trim(cell);
        if (cell.n > 1 && cell.p[0] == '"' && cell.p[cell.n - 1] == '"')
            cell = (struct gw_slice){cell.p + 1, cell.n - 2};
        cells[n++] = cell;
    }
    if (n != c->n) {
        if (n < 2 || line.p[0] == '#')
            return 0;
        c->bad++;
        return 1;
    }
    if (c->n == 1 && !isdigit((unsigned char)(cells[0].n ? cells[0].p[0] : 'x')) && !gw_slice_starts(cells[0], "["))
        return 0;
    c->rows++;
    if (c->is_apps)
        app_row(c, cells);
    else if (!c->has_pid) /* accounting of processes that have ended is no state of the GPU */
        gpu_row(c, cells);
    return 1;
}

int64_t gw_smi_csv_read(struct gw_env *env, struct gw_slice rest, size_t *used)
{
    struct csv c = {.env = env, .source = env->next_source++};
    struct gw_slice all = rest, line;
    gw_slice_line(&rest, &line);
    header(&c, line);
    for (;;) {
        struct gw_slice before = rest;
        if (!gw_slice_line(&rest, &line))
            break;
        if (!gw_slice_trim(line).n)
            continue;
        /* Another header, of another query, begins another table. */
        int other = line.n && isalpha((unsigned char)line.p[0]) &&
                    (line.n != c.header.n || memcmp(line.p, c.header.p, line.n) != 0) && gw_smi_csv_begins(before);
        if (other || !row(&c, line)) {
            rest = before;
            break;
        }
    }
    if (c.bad)
        gw_env_note(env, "nvidia-smi csv", "%lld line(s) with another number of columns than the header left out",
                    (long long)c.bad);
    if (c.rows > 1 && !c.has_gpu && !c.has_pid)
        gw_env_note(env, "nvidia-smi csv",
                    "no column names the GPU; all rows were taken as one GPU's (add index to the query)");
    *used = all.n - rest.n;
    return c.facts;
}
