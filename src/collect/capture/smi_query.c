/* nvidia-smi -q: indented sections of "Key : Value" lines, one block per GPU. */
#include <stdio.h>
#include <string.h>

#include "collect/capture/capture.h"

enum { MAX_DEPTH = 8, MAX_NAME = 48 };

struct query {
    struct gw_env *env;
    struct gw_smi_block block; /* block.gpu NULL = before the first GPU */
    struct {
        size_t indent, len;
        char name[MAX_NAME];
    } stack[MAX_DEPTH];
    int depth;
    int64_t gpus, time, source, facts;
    int saw_end; /* the block of this GPU came to its Processes line */
    struct gw_env_proc *proc;
    struct gw_env_mig mig; /* mig.gpu GW_ENV_NONE = none open */
};

int gw_smi_query_begins(struct gw_slice rest)
{
    struct gw_slice line;
    return gw_slice_line(&rest, &line) && gw_slice_has(line, "NVSMI LOG");
}

static size_t indent_of(struct gw_slice line)
{
    size_t n = 0;
    while (n < line.n && (line.p[n] == ' ' || line.p[n] == '\t'))
        n++;
    return n;
}

/* Sections and key as one path: "PCI/GPU Link Info/Link Width/Max". */
static size_t path_of(const struct query *q, struct gw_slice key, char *out, size_t cap)
{
    size_t n = 0;
    for (int d = 0; d < q->depth; d++)
        n += (size_t)snprintf(out + n, cap - n, "%.*s/", (int)q->stack[d].len, q->stack[d].name);
    if (key.n > MAX_NAME)
        key.n = MAX_NAME;
    memcpy(out + n, key.p, key.n);
    return n + key.n;
}

static void finish_mig(struct query *q)
{
    if (q->mig.gpu != GW_ENV_NONE)
        gw_smi_mig(q->env, &q->mig);
    q->mig = (struct gw_env_mig){GW_ENV_NONE, GW_ENV_NONE, GW_ENV_NONE, GW_ENV_NONE};
}

static void finish_gpu(struct query *q)
{
    finish_mig(q);
    if (!q->block.gpu)
        return;
    if (!q->saw_end)
        gw_env_note(q->env, "nvidia-smi -q", "the block of GPU %lld ends early; what comes after it is missing",
                    (long long)q->block.gpu->index);
    gw_env_sample(q->env, q->block.gpu, q->time, q->source);
    q->facts += q->block.facts;
    q->block.gpu = NULL;
    q->proc = NULL;
}

static void begin_gpu(struct query *q, struct gw_slice line)
{
    char bus[64];
    finish_gpu(q);
    snprintf(bus, sizeof bus, "%.*s", (int)(line.n - 4 < 40 ? line.n - 4 : 40), line.p + 4);
    struct gw_gpu *g = gw_env_gpu(q->env, q->gpus, bus);
    q->gpus++;
    q->depth = 0;
    q->saw_end = 0;
    if (g)
        gw_smi_begin(&q->block, g);
}

static int in_section(const struct query *q, const char *name)
{
    return q->depth && strlen(name) == q->stack[0].len && memcmp(q->stack[0].name, name, q->stack[0].len) == 0;
}

static void process_line(struct query *q, struct gw_slice key, struct gw_slice value)
{
    int64_t v;
    if (gw_slice_is(key, "Process ID") && gw_slice_number(value, &v) == 0) {
        q->proc = gw_smi_process(q->env, q->block.gpu, v);
    } else if (!q->proc) {
        return;
    } else if (gw_slice_is(key, "Type")) {
        q->proc->compute = gw_slice_has(value, "C");
    } else if (gw_slice_is(key, "Name")) {
        q->proc->name = gw_env_dup(q->env, value.p, value.n);
    } else if (gw_slice_is(key, "Used GPU Memory") && gw_unit_parse(GW_UNIT_BYTES, value.p, value.n, &v) == 0) {
        q->proc->bytes = v;
    }
}

static void mig_line(struct query *q, const char *path, size_t len, struct gw_slice value)
{
    struct gw_slice p = {path, len};
    int64_t v;
    if (gw_slice_is(p, "MIG Device/GPU Instance ID") && gw_slice_number(value, &v) == 0)
        q->mig.gi = v;
    else if (gw_slice_has(p, "/Multiprocessor count") && gw_slice_number(value, &v) == 0)
        q->mig.sm_count = v;
    else if ((gw_slice_is(p, "MIG Device/Shared FB Memory Usage/Total") ||
              gw_slice_is(p, "MIG Device/FB Memory Usage/Total")) &&
             gw_unit_parse(GW_UNIT_BYTES, value.p, value.n, &v) == 0)
        q->mig.bytes = v;
}

static void gpu_value(struct query *q, struct gw_slice key, struct gw_slice value)
{
    struct gw_gpu *g = q->block.gpu;
    char path[MAX_DEPTH * (MAX_NAME + 1) + MAX_NAME + 1];
    size_t len = path_of(q, key, path, sizeof path);
    if (q->depth == 0 && gw_slice_is(key, "Product Name"))
        g->name = gw_env_dup(q->env, value.p, value.n);
    else if (q->depth == 0 && gw_slice_is(key, "Product Architecture"))
        g->arch = gw_env_dup(q->env, value.p, value.n);
    else if (q->depth == 0 && gw_slice_is(key, "GPU UUID"))
        g->uuid = gw_env_dup(q->env, value.p, value.n);
    else if (gw_slice_is(key, "Virtualization Mode"))
        g->virt = gw_env_dup(q->env, value.p, value.n);
    else if (gw_slice_is(key, "Processes"))
        q->saw_end = 1; /* "Processes : None" */
    else if (in_section(q, "Clocks Event Reasons") || in_section(q, "Clocks Throttle Reasons"))
        gw_smi_reason(&q->block, GW_SMI_Q, key, value);
    else if (in_section(q, "Processes"))
        process_line(q, key, value);
    else if (in_section(q, "MIG Device"))
        mig_line(q, path, len, value);
    else
        gw_smi_value(&q->block, GW_SMI_Q, path, len, value);
}

static void section(struct query *q, size_t indent, struct gw_slice name)
{
    if (q->depth == MAX_DEPTH)
        return;
    if (gw_slice_is(name, "Processes"))
        q->saw_end = 1;
    if (q->depth == 0 && gw_slice_is(name, "MIG Device")) {
        finish_mig(q);
        q->mig.gpu = q->block.gpu->index;
    }
    q->stack[q->depth].indent = indent;
    q->stack[q->depth].len = name.n < MAX_NAME ? name.n : MAX_NAME;
    memcpy(q->stack[q->depth].name, name.p, q->stack[q->depth].len);
    q->depth++;
}

static void top_value(struct query *q, struct gw_slice key, struct gw_slice value)
{
    int64_t v;
    if (gw_slice_is(key, "Driver Version"))
        gw_smi_driver(q->env, value);
    else if (gw_slice_is(key, "CUDA Version"))
        gw_smi_cuda(q->env, value);
    else if (gw_slice_is(key, "Attached GPUs") && gw_slice_number(value, &v) == 0)
        gw_env_set(q->env, GW_HOST_GPUS_ATTACHED, v);
    else if (gw_slice_is(key, "Timestamp")) {
        q->time = gw_slice_time(value);
        gw_env_set_str(q->env, GW_HSTR_CAPTURED, value.p, value.n);
    } else {
        return;
    }
    q->facts++;
}

/* One line of the log. 0 when it no longer belongs to it. */
static int log_line(struct query *q, struct gw_slice line)
{
    struct gw_slice key, value, body = gw_slice_trim(line);
    size_t indent = indent_of(line);
    char bus[GW_BUS_ID_CAP];
    if (!body.n)
        return 1;
    int pair = gw_slice_pair(body, &key, &value);
    if (indent == 0) {
        if (gw_slice_starts(body, "GPU ") && gw_bus_id_normal(body.p + 4, body.n - 4, bus) == 0) {
            begin_gpu(q, body);
            return 1;
        }
        /* "Key : Value" with padding before the colon; anything else at the margin ends the log */
        if (!pair || q->block.gpu || !gw_slice_has(body, " : "))
            return 0;
        top_value(q, key, value);
        return 1;
    }
    if (!q->block.gpu)
        return 1;
    while (q->depth && q->stack[q->depth - 1].indent >= indent)
        q->depth--;
    if (pair)
        gpu_value(q, key, value);
    else
        section(q, indent, body);
    return 1;
}

int64_t gw_smi_query_read(struct gw_env *env, struct gw_slice rest, size_t *used)
{
    struct query q = {.env = env, .time = GW_ENV_NONE, .source = env->next_source++};
    struct gw_slice all = rest, line;
    q.mig.gpu = GW_ENV_NONE;
    gw_slice_line(&rest, &line); /* the title */
    for (;;) {
        struct gw_slice before = rest;
        if (!gw_slice_line(&rest, &line))
            break;
        if (!log_line(&q, line)) {
            rest = before;
            break;
        }
    }
    finish_gpu(&q);
    int64_t attached = gw_env_get(env, GW_HOST_GPUS_ATTACHED);
    if (attached != GW_ENV_NONE && q.gpus < attached)
        gw_env_note(env, "nvidia-smi -q", "the capture speaks of %lld GPUs but holds %lld: it is not complete",
                    (long long)attached, (long long)q.gpus);
    *used = all.n - rest.n;
    return q.facts;
}
