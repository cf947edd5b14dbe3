/* nvidia-smi dmon (one line a GPU and second) and pmon (one line a process and second). */
#include <string.h>

#include "collect/capture/capture.h"

enum { MAX_COLUMNS = 48 };

/* dmon's words for metrics. `scale` turns its unit into the metric's. */
static const struct {
    const char *name;
    int metric;
    int64_t scale;
} dmon_columns[] = {
    {"pwr", GW_GPU_POWER, 1000},     {"gtemp", GW_GPU_TEMP, 1},       {"temp", GW_GPU_TEMP, 1},
    {"mtemp", GW_GPU_TEMP_MEM, 1},   {"sm", GW_GPU_UTIL, 1},          {"mem", GW_GPU_UTIL_MEM, 1},
    {"mclk", GW_GPU_MEM_CLOCK, 1},   {"pclk", GW_GPU_SM_CLOCK, 1},    {"fb", GW_GPU_MEM_USED, 1 << 20},
    {"rxpci", GW_GPU_PCIE_RX, 1000}, {"txpci", GW_GPU_PCIE_TX, 1000}, {"pci", GW_GPU_PCIE_REPLAY, 1},
};

struct monitor {
    struct gw_env *env;
    int n;
    int column[MAX_COLUMNS]; /* metric, or one of the codes below */
    int64_t scale[MAX_COLUMNS];
    int64_t source, facts;
    int64_t rows[GW_ENV_MAX_GPUS]; /* lines seen of each GPU index */
    int timed;
    struct gw_smi_block block;
};
enum {
    C_SKIP = -1,
    C_GPU = -2,
    C_DATE = -3,
    C_TIME = -4,
    C_PVIOL = -5,
    C_TVIOL = -6,
    C_PID = -7,
    C_TYPE = -8,
    C_COMMAND = -9
};

static int code_of(struct gw_slice w, int64_t *scale)
{
    static const struct {
        const char *name;
        int code;
    } codes[] = {{"gpu", C_GPU},     {"Date", C_DATE}, {"Time", C_TIME}, {"pviol", C_PVIOL},
                 {"tviol", C_TVIOL}, {"pid", C_PID},   {"type", C_TYPE}, {"command", C_COMMAND}};
    *scale = 1;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (gw_slice_is(w, codes[i].name))
            return codes[i].code;
    for (size_t i = 0; i < sizeof dmon_columns / sizeof dmon_columns[0]; i++)
        if (gw_slice_is(w, dmon_columns[i].name)) {
            *scale = dmon_columns[i].scale;
            return dmon_columns[i].metric;
        }
    return C_SKIP;
}

/* Reads "# gpu pwr ..." or "#Date Time gpu pwr ...". 1 when it is such a header. */
static int header(struct gw_slice line, struct monitor *m, int *is_pmon)
{
    struct gw_slice w, rest = line;
    int known = 0, has_gpu = 0;
    m->n = 0;
    *is_pmon = 0;
    if (!gw_slice_starts(line, "#"))
        return 0;
    rest.p++, rest.n--;
    while (m->n < MAX_COLUMNS && gw_slice_word(&rest, &w)) {
        int c = code_of(w, &m->scale[m->n]);
        m->column[m->n++] = c;
        has_gpu |= c == C_GPU;
        known += c >= 0;
        *is_pmon |= c == C_PID;
    }
    m->timed = m->n > 1 && m->column[0] == C_DATE && m->column[1] == C_TIME;
    return has_gpu && (known > 0 || *is_pmon);
}

static int begins(struct gw_slice rest, int pmon)
{
    struct gw_slice line;
    struct monitor m;
    int is_pmon;
    return gw_slice_line(&rest, &line) && header(line, &m, &is_pmon) && is_pmon == pmon;
}
int gw_smi_dmon_begins(struct gw_slice rest) { return begins(rest, 0); }
int gw_smi_pmon_begins(struct gw_slice rest) { return begins(rest, 1); }

/* "20261201" and "06:43:04" */
static int64_t stamp(struct gw_slice date, struct gw_slice time)
{
    char text[32];
    if (date.n != 8 || time.n != 8)
        return GW_ENV_NONE;
    memcpy(text, date.p, 4), text[4] = '/';
    memcpy(text + 5, date.p + 4, 2), text[7] = '/';
    memcpy(text + 8, date.p + 6, 2), text[10] = ' ';
    memcpy(text + 11, time.p, 8);
    return gw_slice_time((struct gw_slice){text, 19});
}

static int words(struct gw_slice line, struct gw_slice w[MAX_COLUMNS])
{
    int n = 0;
    while (n < MAX_COLUMNS && gw_slice_word(&line, &w[n]))
        n++;
    return n;
}

static int dmon_row(struct monitor *m, struct gw_slice line)
{
    struct gw_slice w[MAX_COLUMNS];
    int64_t index = -1, v, reasons = 0, known = 0, t = GW_ENV_NONE;
    if (words(line, w) != m->n)
        return 0;
    for (int i = 0; i < m->n; i++)
        if (m->column[i] == C_GPU && (gw_slice_number(w[i], &index) < 0 || index < 0 || index >= GW_ENV_MAX_GPUS))
            return 0;
    if (index < 0)
        return 0;
    struct gw_gpu *g = gw_env_gpu(m->env, index, NULL);
    if (!g)
        return 1;
    gw_smi_begin(&m->block, g);
    for (int i = 0; i < m->n; i++) {
        if (gw_slice_number(w[i], &v) < 0)
            continue; /* "-" is "not supported" */
        if (m->column[i] >= 0 && v >= 0 && v < INT64_MAX / (1 << 20)) {
            gw_gpu_set(g, (enum gw_gpu_metric)m->column[i], v * m->scale[i]);
            m->facts++;
        } else if (m->column[i] == C_PVIOL) { /* percent of the time spent at the power limit */
            known |= GW_REASON_SW_POWER;
            reasons |= v > 0 ? GW_REASON_SW_POWER : 0;
        } else if (m->column[i] == C_TVIOL) { /* 1 = a thermal limit was reached */
            known |= GW_REASON_SW_THERMAL;
            reasons |= v > 0 ? GW_REASON_SW_THERMAL : 0;
        }
    }
    if (known) {
        gw_gpu_set(g, GW_GPU_REASONS, reasons);
        gw_gpu_set(g, GW_GPU_REASONS_KNOWN, known);
    }
    if (m->timed)
        t = stamp(w[0], w[1]);
    if (t == GW_ENV_NONE) /* one line a second unless -d was given; docs/check.md says so */
        t = m->rows[index] * 1000000000;
    m->rows[index]++;
    gw_env_sample(m->env, g, t, m->source);
    return 1;
}

static int pmon_row(struct monitor *m, struct gw_slice line)
{
    struct gw_slice w[MAX_COLUMNS];
    int64_t index = -1, pid = -1;
    int n = words(line, w), compute = 1;
    const char *name = NULL;
    if (n < 2)
        return 0;
    for (int i = 0; i < m->n && i < n; i++) {
        if (m->column[i] == C_GPU && gw_slice_number(w[i], &index) < 0)
            return 0;
        if (m->column[i] == C_PID && gw_slice_number(w[i], &pid) < 0)
            pid = -1; /* "-": nothing runs there */
        if (m->column[i] == C_TYPE)
            compute = memchr(w[i].p, 'C', w[i].n) != NULL;
        if (m->column[i] == C_COMMAND)
            name = gw_env_dup(m->env, w[i].p, w[i].n);
    }
    if (index < 0 || index >= GW_ENV_MAX_GPUS)
        return 0;
    struct gw_gpu *g = gw_env_gpu(m->env, index, NULL);
    struct gw_env_proc *p = g && pid >= 0 ? gw_smi_process(m->env, g, pid) : NULL;
    if (p) {
        p->compute = compute;
        if (name && !p->name)
            p->name = name;
        m->facts++;
    }
    return 1;
}

static int64_t monitor_read(struct gw_env *env, struct gw_slice rest, size_t *used, int pmon)
{
    struct monitor m = {.env = env, .source = env->next_source++};
    struct gw_slice all = rest, line;
    int is_pmon;
    gw_slice_line(&rest, &line);
    header(line, &m, &is_pmon);
    for (;;) {
        struct gw_slice before = rest;
        if (!gw_slice_line(&rest, &line))
            break;
        struct gw_slice body = gw_slice_trim(line);
        if (!body.n)
            continue;
        if (gw_slice_starts(body, "#")) { /* the header repeats, with its line of units */
            struct monitor again;
            if (header(body, &again, &is_pmon)
                    ? is_pmon == pmon && again.n == m.n && !memcmp(again.column, m.column, (size_t)m.n * sizeof(int))
                    : gw_slice_has(body, "Idx"))
                continue;
            rest = before;
            break;
        }
        if (!(pmon ? pmon_row(&m, body) : dmon_row(&m, body))) {
            rest = before;
            break;
        }
    }
    *used = all.n - rest.n;
    return m.facts;
}

int64_t gw_smi_dmon_read(struct gw_env *env, struct gw_slice rest, size_t *used)
{
    return monitor_read(env, rest, used, 0);
}
int64_t gw_smi_pmon_read(struct gw_env *env, struct gw_slice rest, size_t *used)
{
    return monitor_read(env, rest, used, 1);
}
