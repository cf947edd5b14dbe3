/* The plain table of nvidia-smi. */
#include <string.h>

#include "collect/capture/capture.h"

struct table {
    struct gw_env *env;
    struct gw_smi_block block;
    struct gw_gpu *gpu; /* the GPU whose lines these are */
    int row;            /* 1 = its first line was read, 2 = its second */
    int part;           /* 0 = GPUs, 1 = MIG devices, 2 = processes */
    int64_t time, source, facts;
};

int gw_smi_table_begins(struct gw_slice rest)
{
    struct gw_slice line;
    return gw_slice_line(&rest, &line) && gw_slice_starts(line, "|") && gw_slice_has(line, " NVIDIA-SMI ") &&
           gw_slice_has(line, "Driver Version:");
}

static struct gw_slice after(struct gw_slice line, const char *label)
{
    const char *at = gw_slice_find(line, label);
    struct gw_slice rest = {0, 0}, word = {0, 0};
    if (at) {
        rest.p = at + strlen(label);
        rest.n = line.n - (size_t)(rest.p - line.p);
        gw_slice_word(&rest, &word);
    }
    return word;
}

static void end_gpu(struct table *t)
{
    if (!t->gpu)
        return;
    gw_env_sample(t->env, t->gpu, t->time, t->source);
    t->facts += t->block.facts;
    t->gpu = NULL;
    t->row = 0;
}

/* "0  NVIDIA H200   On" | "00000000:83:00.0 Off" | "0" */
static int first_row(struct table *t, struct gw_slice cell[3])
{
    struct gw_slice rest = cell[0], index, word, name = {0, 0}, last = {0, 0}, bus, disp;
    int64_t i, on;
    char id[32];
    if (!gw_slice_word(&rest, &index) || gw_slice_number(index, &i) < 0 || i < 0 || i >= GW_ENV_MAX_GPUS)
        return 0;
    struct gw_slice cells = cell[1];
    if (!gw_slice_word(&cells, &bus) || bus.n >= sizeof id)
        return 0;
    memcpy(id, bus.p, bus.n);
    id[bus.n] = '\0';
    char normal[GW_BUS_ID_CAP];
    if (gw_bus_id_normal(id, bus.n, normal) < 0)
        return 0;
    end_gpu(t);
    t->gpu = gw_env_gpu(t->env, i, id);
    if (!t->gpu)
        return 1;
    gw_smi_begin(&t->block, t->gpu);
    rest = gw_slice_trim(rest);
    name = rest;
    while (gw_slice_word(&rest, &word))
        last = word; /* the persistence mode stands behind the name */
    if (last.p && gw_unit_parse(GW_UNIT_BOOL, last.p, last.n, &on) == 0) {
        gw_gpu_set(t->gpu, GW_GPU_PERSISTENCE, on);
        name.n = (size_t)(last.p - name.p);
    }
    name = gw_slice_trim(name);
    /* The table cuts long names with dots: a better one may already be there. */
    if (!t->gpu->name || !gw_slice_has(name, "..."))
        t->gpu->name = gw_env_dup(t->env, name.p, name.n);
    if (gw_slice_word(&cells, &disp) && gw_unit_parse(GW_UNIT_BOOL, disp.p, disp.n, &on) == 0)
        gw_gpu_set(t->gpu, GW_GPU_DISPLAY_ACTIVE, on);
    if (gw_slice_number(gw_slice_trim(cell[2]), &on) == 0) {
        gw_gpu_set(t->gpu, GW_GPU_ECC_UNC_DRAM, on);
        gw_gpu_set(t->gpu, GW_GPU_ECC, 1);
    }
    t->row = 1;
    t->facts += 2;
    return 1;
}

static void value(struct table *t, enum gw_gpu_metric m, struct gw_slice text)
{
    int64_t v;
    text = gw_slice_trim(text);
    if (gw_unit_parse(gw_gpu_metric_info(m)->unit, text.p, text.n, &v) == 0) {
        gw_gpu_set(t->gpu, m, v);
        t->block.facts++;
    }
}

/* "N/A   52C    P0   628W /  700W" | "32362MiB / 143771MiB" | "100%      Default" */
static void second_row(struct table *t, struct gw_slice cell[3])
{
    struct gw_slice word, rest = cell[0], part;
    while (gw_slice_word(&rest, &word)) {
        if (word.n > 1 && word.p[word.n - 1] == 'C')
            value(t, GW_GPU_TEMP, word);
        else if (word.n > 1 && word.p[0] == 'P')
            value(t, GW_GPU_PSTATE, word);
        else if (word.n > 1 && word.p[word.n - 1] == 'W')
            value(t, gw_gpu_has(t->gpu, GW_GPU_POWER) ? GW_GPU_POWER_LIMIT : GW_GPU_POWER, word);
    }
    rest = cell[1];
    if (gw_slice_split(&rest, '/', &part) && rest.p) {
        value(t, GW_GPU_MEM_USED, part);
        value(t, GW_GPU_MEM_TOTAL, rest);
    }
    rest = cell[2];
    if (gw_slice_word(&rest, &word) && word.p[word.n - 1] == '%')
        value(t, GW_GPU_UTIL, word);
    value(t, GW_GPU_COMPUTE_MODE, rest);
    t->row = 2;
}

/* "0   N/A  N/A   1696   C   python   176MiB", or without the two instance columns before driver 450 */
static void process_row(struct table *t, struct gw_slice line)
{
    struct gw_slice w[16], last = {0, 0};
    int64_t gpu, pid, v;
    int n = 0, at = 1;
    while (n < 16 && gw_slice_word(&line, &w[n]))
        n++;
    if (n < 4 || gw_slice_number(w[0], &gpu) < 0)
        return;
    if (n >= 6 && !(w[2].n <= 3 && (w[2].p[0] == 'C' || w[2].p[0] == 'G' || w[2].p[0] == 'M')))
        at = 3;
    if (gw_slice_number(w[at], &pid) < 0)
        return;
    struct gw_gpu *g = NULL;
    for (size_t i = 0; i < t->env->gpus.len; i++)
        if (gw_env_gpu_at(t->env, i)->index == gpu)
            g = gw_env_gpu_at(t->env, i);
    struct gw_env_proc *p = g ? gw_smi_process(t->env, g, pid) : NULL;
    if (!p)
        return;
    p->compute = memchr(w[at + 1].p, 'C', w[at + 1].n) != NULL;
    if (at + 2 < n)
        p->name = gw_env_dup(t->env, w[at + 2].p, w[at + 2].n);
    last = w[n - 1];
    if (gw_slice_has(last, "iB") && gw_unit_parse(GW_UNIT_BYTES, last.p, last.n, &v) == 0)
        p->bytes = v;
    t->facts++;
}

/* "0    2   0   0" | "11091MiB / 40448MiB" | "60      0" | ... */
static void mig_row(struct table *t, struct gw_slice cell[3])
{
    struct gw_slice rest = cell[0], a, b, part;
    int64_t gpu, gi, v;
    if (!gw_slice_word(&rest, &a) || !gw_slice_word(&rest, &b) || gw_slice_number(a, &gpu) < 0 ||
        gw_slice_number(b, &gi) < 0)
        return;
    struct gw_env_mig m = {gpu, gi, GW_ENV_NONE, GW_ENV_NONE};
    rest = cell[1];
    if (gw_slice_split(&rest, '/', &part) && rest.p) {
        rest = gw_slice_trim(rest);
        if (gw_unit_parse(GW_UNIT_BYTES, rest.p, rest.n, &v) == 0)
            m.bytes = v;
    }
    rest = cell[2];
    if (gw_slice_word(&rest, &a) && gw_slice_number(a, &v) == 0)
        m.sm_count = v;
    gw_smi_mig(t->env, &m);
    t->facts++;
}

static void table_line(struct table *t, struct gw_slice line)
{
    if (gw_slice_has(line, "Processes:")) {
        end_gpu(t);
        t->part = 2;
        return;
    }
    if (gw_slice_has(line, "MIG devices:")) {
        end_gpu(t);
        t->part = 1;
        return;
    }
    struct gw_slice inner = {line.p + 1, line.n - 1}, cell[3] = {{0, 0}, {0, 0}, {0, 0}};
    if (inner.n && inner.p[inner.n - 1] == '|')
        inner.n--;
    if (t->part == 2) {
        process_row(t, inner);
        return;
    }
    int n = 0;
    struct gw_slice rest = inner;
    while (n < 3 && gw_slice_split(&rest, '|', &cell[n]))
        n++;
    if (n < 3)
        return;
    if (t->part == 1) {
        mig_row(t, cell);
    } else if (first_row(t, cell)) {
        return;
    } else if (t->gpu && t->row == 1) {
        second_row(t, cell);
    } else if (t->gpu && t->row == 2) {
        value(t, GW_GPU_MIG, cell[2]);
    }
}

int64_t gw_smi_table_read(struct gw_env *env, struct gw_slice rest, size_t *used)
{
    struct table t = {.env = env, .time = GW_ENV_NONE, .source = env->next_source++};
    struct gw_slice all = rest, line;
    int blank = 0;
    gw_slice_line(&rest, &line);
    gw_smi_driver(env, after(line, "Driver Version:"));
    gw_smi_cuda(env, after(line, "CUDA Version:"));
    t.facts = 1;
    for (;;) {
        struct gw_slice before = rest;
        if (!gw_slice_line(&rest, &line))
            break;
        struct gw_slice body = gw_slice_trim(line);
        if (!body.n) { /* blank lines stand between the parts; two parts of text mean the end */
            blank = 1;
            continue;
        }
        int frame = body.p[0] == '+' || body.p[0] == '|';
        if (!frame || (blank && gw_smi_table_begins(before))) {
            rest = before;
            break;
        }
        if (body.p[0] == '|' && !(body.n > 1 && (body.p[1] == '=' || body.p[1] == '-'))) {
            if (gw_slice_has(body, " NVIDIA-SMI ")) { /* the next table, right behind this one */
                rest = before;
                break;
            }
            table_line(&t, body);
        }
    }
    end_gpu(&t);
    *used = all.n - rest.n;
    return t.facts;
}
