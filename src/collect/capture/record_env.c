/* record_env.c - see record_env.h */
#include "collect/capture/record_env.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/gw_i18n.h"
#include "collect/capture/capture.h"
#include "record/record_read.h"
#include "record/record_write.h"

enum { MAX_STRINGS = 1 << 16, CHUNK = 1 << 20 };
#define KEEP_SAMPLES 20000      /* then every second one, and so on: a day at 4 Hz is 345,600 a GPU */
#define TEXT_MAX ((size_t)32 << 20) /* bytes of the facts; a machine with eight GPUs has 50 kB */
#define ALL_REASONS 0x1ff       /* the bits of reasons.def: NVML answered for all of them */

int gw_env_is_record(const char *path)
{
    char file[PATH_MAX];
    return snprintf(file, sizeof file, "%s/" GW_REC_META, path) < (int)sizeof file && access(file, F_OK) == 0;
}

/* --- writing ----------------------------------------------------------------------------------------------------- */

int gw_env_write_record(const struct gw_env *env, int dirfd, uint32_t pid)
{
    char *text = NULL;
    size_t len = 0;
    struct gw_writer w;
    FILE *m = open_memstream(&text, &len);
    if (m)
        gw_env_write(env, m);
    if (!m || fclose(m) != 0) {
        free(text);
        return -ENOMEM;
    }
    int rc = gw_writer_open(&w, dirfd, GW_REC_MACHINE, GW_ROLE_MACHINE, pid, 0);
    for (size_t at = 0; rc == 0 && at < len;) { /* whole lines, so that a torn chunk costs no half facts */
        size_t n = len - at;
        if (n > CHUNK) {
            n = CHUNK;
            while (n && text[at + n - 1] != '\n')
                n--;
            n = n ? n : CHUNK;
        }
        rc = gw_writer_append(&w, GW_RT_MACHINE, 1, text + at, (uint32_t)n);
        at += n;
    }
    w.status.state = GW_RS_ENDED;
    gw_writer_close(&w);
    free(text);
    return rc;
}

/* --- reading: the facts of the start ------------------------------------------------------------------------------ */

/* 1 = read, 0 = not there or nothing in it, or a negative code. */
static int read_facts(struct gw_env *env, const char *folder, struct gw_error *err)
{
    char path[PATH_MAX];
    struct gw_reader r;
    struct gw_chunk c;
    struct gw_array text;
    if (snprintf(path, sizeof path, "%s/" GW_REC_MACHINE, folder) >= (int)sizeof path || access(path, F_OK) != 0)
        return 0;
    int rc = gw_reader_open(&r, path, err);
    if (rc < 0)
        return rc;
    gw_array_init(&text, 1, TEXT_MAX);
    while (gw_reader_next(&r, &c)) {
        if (c.type != GW_RT_MACHINE || !c.bytes || gw_array_reserve(&text, c.bytes) < 0)
            continue;
        memcpy((char *)text.data + text.len, c.data, c.bytes);
        text.len += c.bytes;
    }
    if (r.damaged || r.missing || r.torn)
        gw_env_note(env, path, "parts of the file are damaged; what they said is missing");
    gw_reader_close(&r);
    rc = 0;
    if (text.len) {
        int64_t facts = gw_capture_parse(env, path, text.data, text.len, err);
        rc = facts < 0 ? (int)facts : facts > 0;
    }
    gw_array_free(&text);
    return rc;
}

/* --- reading: the recorder's samples ------------------------------------------------------------------------------- */

/* Counters of the recorder and what they are to the checks; collect/proc/proc_nvml.h has the names. */
static const struct {
    const char *name;
    enum gw_gpu_metric metric;
    double scale;
} counters[] = {
    {"nvml.utilization_percent", GW_GPU_UTIL, 1},       {"nvml.memory_utilization_percent", GW_GPU_UTIL_MEM, 1},
    {"nvml.memory_used_bytes", GW_GPU_MEM_USED, 1},     {"nvml.sm_clock_mhz", GW_GPU_SM_CLOCK, 1},
    {"nvml.memory_clock_mhz", GW_GPU_MEM_CLOCK, 1},     {"nvml.power_w", GW_GPU_POWER, 1000},
    {"nvml.clock_reasons", GW_GPU_REASONS, 1},          {"nvml.temperature_c", GW_GPU_TEMP, 1},
    {"nvml.pcie_gen", GW_GPU_PCIE_GEN, 1},              {"nvml.pcie_width", GW_GPU_PCIE_WIDTH, 1},
    {"nvml.sw_thermal_ns", GW_GPU_US_SW_THERMAL, 1e-3}, {"nvml.hw_thermal_ns", GW_GPU_US_HW_THERMAL, 1e-3},
    {"nvml.power_brake_ns", GW_GPU_US_HW_BRAKE, 1e-3},
};
enum { COUNTERS = sizeof counters / sizeof *counters };

/* Facts that the recorder wrote by itself, "gpu.N.KEY=VALUE", for records without GW_REC_MACHINE. */
static const struct {
    const char *key;
    enum gw_gpu_metric metric;
    double scale;
} facts[] = {{"memory_bytes", GW_GPU_MEM_TOTAL, 1},         {"sm_clock_max_mhz", GW_GPU_SM_MAX, 1},
             {"memory_clock_max_mhz", GW_GPU_MEM_MAX, 1},   {"power_limit_w", GW_GPU_POWER_LIMIT, 1000},
             {"power_default_w", GW_GPU_POWER_DEFAULT, 1000}, {"pcie_gen_max", GW_GPU_PCIE_GEN_MAX, 1},
             {"pcie_width_max", GW_GPU_PCIE_WIDTH_MAX, 1},  {"mig", GW_GPU_MIG, 1}};

struct pending { /* the sample of a GPU that is being put together */
    uint64_t at; /* CLOCK_REALTIME; 0 none */
    struct gw_gpu g;
};

struct samples {
    struct gw_env *env;
    struct gw_array meaning; /* uint8_t by string id: 1 + row of `counters`, 0 = something else */
    struct pending of[GW_ENV_MAX_GPUS];
    uint64_t seen, kept, every;
    int64_t source;
    int found;
};

static void finish_sample(struct samples *s, int64_t device)
{
    struct pending *p = &s->of[device];
    if (!p->at)
        return;
    if (s->seen++ % s->every == 0) {
        struct gw_gpu *g = gw_env_gpu(s->env, device, NULL);
        if (g) {
            struct gw_gpu kept = *g;
            memcpy(g->v, p->g.v, sizeof g->v);
            memcpy(g->has, p->g.has, sizeof g->has);
            gw_env_sample(s->env, g, (int64_t)p->at, s->source);
            *g = kept;
            s->found = 1;
        }
        if (++s->kept % KEEP_SAMPLES == 0)
            s->every *= 2;
    }
    memset(p, 0, sizeof *p);
}

static void take_counter(struct samples *s, const struct gw_rec_counter *c)
{
    const uint8_t *meaning = s->meaning.data;
    int row = c->name < s->meaning.len ? meaning[c->name] : 0;
    if (!row || c->device < 0 || c->device >= GW_ENV_MAX_GPUS || !(fabs(c->value) < 9e15))
        return;
    struct pending *p = &s->of[c->device];
    if (p->at != c->realtime_ns)
        finish_sample(s, c->device);
    p->at = c->realtime_ns;
    gw_gpu_set(&p->g, counters[row - 1].metric, (int64_t)llround(c->value * counters[row - 1].scale));
    if (counters[row - 1].metric == GW_GPU_REASONS)
        gw_gpu_set(&p->g, GW_GPU_REASONS_KNOWN, ALL_REASONS);
}

static void take_name(struct samples *s, const struct gw_chunk *c)
{
    struct gw_rec_name_head h;
    if (c->bytes < sizeof h)
        return;
    memcpy(&h, c->data, sizeof h);
    const char *text = (const char *)c->data + sizeof h;
    size_t n = c->bytes - sizeof h;
    if (h.space != GW_NS_STRING || h.id >= MAX_STRINGS)
        return;
    for (size_t i = 0; i < COUNTERS; i++) {
        if (strlen(counters[i].name) != n || memcmp(counters[i].name, text, n) != 0)
            continue;
        while (s->meaning.len <= h.id)
            if (!gw_array_push(&s->meaning))
                return;
        ((uint8_t *)s->meaning.data)[h.id] = (uint8_t)(i + 1);
    }
}

static void gpu_fact(struct samples *s, struct gw_slice rest)
{
    struct gw_slice index, key;
    int64_t i;
    double v;
    if (!gw_slice_split(&rest, '.', &index) || gw_slice_number(index, &i) < 0 || i < 0 || i >= GW_ENV_MAX_GPUS ||
        !gw_slice_split(&rest, '=', &key))
        return;
    struct gw_gpu *g = gw_env_gpu(s->env, i, NULL);
    if (!g)
        return;
    s->found = 1;
    if (gw_slice_is(key, "name") && !g->name)
        g->name = gw_env_dup(s->env, rest.p, rest.n);
    else if (gw_slice_is(key, "uuid") && !g->uuid)
        g->uuid = gw_env_dup(s->env, rest.p, rest.n);
    for (size_t k = 0; k < sizeof facts / sizeof *facts; k++)
        if (gw_slice_is(key, facts[k].key) && !gw_gpu_has(g, facts[k].metric) && gw_slice_decimal(rest, &v) == 0 &&
            fabs(v) < 9e15)
            gw_gpu_set(g, facts[k].metric, (int64_t)llround(v * facts[k].scale));
}

static void take_facts(struct samples *s, const struct gw_chunk *c)
{
    struct gw_slice rest = {(const char *)c->data, c->bytes}, line, key;
    while (gw_slice_line(&rest, &line)) {
        if (gw_slice_starts(line, "gpu.")) {
            gpu_fact(s, (struct gw_slice){line.p + 4, line.n - 4});
        } else if (gw_slice_starts(line, "permission.") && gw_slice_split(&line, '=', &key) && line.n) {
            size_t no = gw_slice_starts(line, "no: ") ? 4 : 0; /* of "no: why"; the words: po/system.h */
            const char *why = gw_env_dup(s->env, line.p + no, line.n - no);
            gw_env_note(s->env, gw_env_dup(s->env, key.p, key.n), "%s", why ? _(why) : "");
            s->found = 1;
        } else if (gw_slice_starts(line, "nvml.driver=") && !gw_env_str(s->env, GW_HSTR_DRIVER)) {
            gw_slice_split(&line, '=', &key);
            gw_env_set_str(s->env, GW_HSTR_DRIVER, line.p, line.n);
            s->found = 1;
        }
    }
}

/* 1 = something was found, 0 = nothing, or a negative code. */
static int read_samples(struct gw_env *env, const char *folder, struct gw_error *err)
{
    char path[PATH_MAX];
    struct gw_reader r;
    struct gw_chunk c;
    struct samples *s = calloc(1, sizeof *s);
    if (!s)
        return gw_error_set(err, GW_ENOMEM, folder, -1, "", "out of memory");
    s->env = env;
    s->every = 1;
    s->source = env->next_source++;
    gw_array_init(&s->meaning, 1, MAX_STRINGS);
    snprintf(path, sizeof path, "%s/" GW_REC_META, folder);
    int rc = gw_reader_open(&r, path, err);
    if (rc == 0) {
        while (gw_reader_next(&r, &c)) {
            if (c.type == GW_RT_NAME)
                take_name(s, &c);
            else if (c.type == GW_RT_FACT)
                take_facts(s, &c);
            for (uint32_t i = 0; c.type == GW_RT_COUNTER && i < c.count; i++) {
                struct gw_rec_counter v;
                gw_chunk_get(&c, i, &v, sizeof v);
                take_counter(s, &v);
            }
        }
        gw_reader_close(&r);
        for (int64_t i = 0; i < GW_ENV_MAX_GPUS; i++)
            finish_sample(s, i);
        rc = s->found;
    }
    gw_array_free(&s->meaning);
    free(s);
    return rc;
}

int gw_env_read_record(struct gw_env *env, const char *folder, struct gw_error *err)
{
    env->recorded = 1;
    int had = read_facts(env, folder, err);
    if (had < 0)
        return had;
    int more = read_samples(env, folder, err);
    return more < 0 ? more : had || more ? 0 : GW_ENODATA;
}
