/*
 * The facts as text: gzip over it is the file of `gpuwhy check --collect`, and a record holds it too. Plain lines,
 * "kind key=value key=value ...", values with blanks and control characters as %XX. Keys are the ids of the metric
 * tables and of env_records.def, so a file stays readable when later versions know more.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/gw_i18n.h"

#include "collect/capture/capture.h"

#define TITLE "#gpuwhy-check 1"

/* --- writing ------------------------------------------------------------------------------------------------- */

static void put_text(FILE *f, const char *key, const char *s)
{
    char word[1024];
    size_t n = 0;
    if (!s)
        return;
    for (; *s && n + 4 < sizeof word; s++) {
        unsigned char c = (unsigned char)*s;
        if (c <= 0x20 || c == '%' || c == 0x7f)
            n += (size_t)snprintf(word + n, 4, "%%%02x", c);
        else
            word[n++] = (char)c;
    }
    fprintf(f, " %s=%.*s", key, (int)n, word);
}

static void put_int(FILE *f, const char *key, int64_t v)
{
    if (v != GW_ENV_NONE)
        fprintf(f, " %s=%lld", key, (long long)v);
}

static void put_record(FILE *f, enum gw_rec kind, const char *rec)
{
    struct gw_rec_info info = gw_rec_info(kind);
    fprintf(f, "%s", info.id);
    for (size_t i = 0; i < info.count; i++) {
        const void *at = rec + info.fields[i].offset;
        if (info.fields[i].type == GW_FT_STR)
            put_text(f, info.fields[i].name, *(const char *const *)at);
        else if (info.fields[i].type == GW_FT_I64)
            put_int(f, info.fields[i].name, *(const int64_t *)at);
        else if (!isnan(*(const double *)at) && fabs(*(const double *)at) < 1e15)
            fprintf(f, " %s=%.9f", info.fields[i].name, *(const double *)at);
    }
    fprintf(f, "\n");
}

static void put_gpus(FILE *f, const struct gw_env *env)
{
    for (size_t i = 0; i < env->gpus.len; i++) {
        const struct gw_gpu *g = gw_env_gpu_at(env, i);
        fprintf(f, "gpu");
        put_int(f, "index", g->index);
        put_text(f, "bus_id", g->bus_id);
        put_text(f, "name", g->name);
        put_text(f, "uuid", g->uuid);
        put_text(f, "arch", g->arch);
        put_text(f, "cpus", g->cpus);
        put_text(f, "virt", g->virt);
        for (int m = 0; m < GW_GPU_COUNT; m++)
            put_int(f, gw_gpu_metric_info((enum gw_gpu_metric)m)->id, gw_gpu_get(g, (enum gw_gpu_metric)m));
        fprintf(f, "\n");
    }
    for (size_t i = 0; i < gw_env_sample_count(env); i++) {
        const struct gw_sample *s = gw_env_sample_at(env, i);
        fprintf(f, "sample position=%u", s->gpu);
        put_int(f, "t", s->t);
        put_int(f, "source", s->source);
        for (int m = 0; m < GW_GPU_DYNAMIC; m++)
            put_int(f, gw_gpu_metric_info((enum gw_gpu_metric)m)->id, gw_sample_get(s, (enum gw_gpu_metric)m));
        fprintf(f, "\n");
    }
}

void gw_env_write(const struct gw_env *env, FILE *f)
{
    fprintf(f,
             TITLE "\n# Facts about one machine, for `gpuwhy check THIS-FILE` anywhere. Environment variables: only\n"
                   "# those of gpuwhy's own list. Read it with zcat before you pass it on.\n");
    for (int s = 0; s < GW_HSTR_COUNT; s++)
        if (env->str[s]) {
            fprintf(f, "text");
            put_text(f, gw_host_string_id((enum gw_host_string)s), env->str[s]);
            fprintf(f, "\n");
        }
    for (int m = 0; m < GW_HOST_COUNT; m++)
        if (gw_env_has(env, (enum gw_host_metric)m)) {
            fprintf(f, "host");
            put_int(f, gw_host_metric_info((enum gw_host_metric)m)->id, env->host[m]);
            fprintf(f, "\n");
        }
    put_gpus(f, env);
    for (int k = 0; k < GW_REC_COUNT; k++)
        for (size_t i = 0; k != GW_REC_SOURCE && i < gw_env_count(env, (enum gw_rec)k); i++)
            put_record(f, (enum gw_rec)k, gw_env_at(env, (enum gw_rec)k, i));
    fprintf(f, "end\n");
}

int gw_env_save(const struct gw_env *env, const char *path, struct gw_error *err)
{
    char *text = NULL;
    size_t len = 0;
    FILE *m = open_memstream(&text, &len);
    if (m)
        gw_env_write(env, m);
    if (!m || fclose(m) != 0) {
        free(text);
        return gw_error_set(err, GW_ENOMEM, path, -1, "", "out of memory");
    }
    gzFile f = gzopen(path, "wb");
    int rc = 0;
    if (!f)
        rc = gw_error_set(err, GW_EIO, path, -1, "check the path and its permissions", "cannot write: %s",
                          gw_i18n_errno(errno));
    size_t done = 0;
    while (f && done < len) { /* zlib takes an unsigned at a time */
        int n = gzwrite(f, text + done, len - done < 1 << 20 ? (unsigned)(len - done) : 1u << 20);
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    if (f && (gzclose_w(f) != Z_OK || done < len))
        rc = gw_error_set(err, GW_EIO, path, -1, "check the space that is left", "cannot write the whole file");
    free(text);
    return rc;
}

/* --- reading ------------------------------------------------------------------------------------------------- */

struct saved {
    struct gw_env *env;
    int64_t facts, unknown, source_base, source_max;
    int complete;
};

int gw_saved_env_begins(struct gw_slice rest)
{
    struct gw_slice line;
    return gw_slice_line(&rest, &line) && gw_slice_starts(line, "#gpuwhy-check ");
}

/* The next "key=value" of the line; the value with %XX undone in `buf`. */
static int next_pair(struct gw_slice *rest, struct gw_slice *key, struct gw_slice *value, char *buf, size_t cap)
{
    struct gw_slice word;
    if (!gw_slice_word(rest, &word))
        return 0;
    const char *eq = memchr(word.p, '=', word.n);
    *key = (struct gw_slice){word.p, eq ? (size_t)(eq - word.p) : word.n};
    size_t n = 0;
    for (const char *p = eq ? eq + 1 : word.p + word.n; p < word.p + word.n && n < cap; p++) {
        if (*p == '%' && word.p + word.n - p >= 3 && isxdigit((unsigned char)p[1]) && isxdigit((unsigned char)p[2])) {
            unsigned a = (unsigned char)p[1], b = (unsigned char)p[2];
            a = isdigit((int)a) ? a - '0' : (a | 32u) - 'a' + 10;
            b = isdigit((int)b) ? b - '0' : (b | 32u) - 'a' + 10;
            buf[n++] = (char)(a << 4 | b);
            p += 2;
        } else {
            buf[n++] = *p;
        }
    }
    *value = (struct gw_slice){buf, n};
    return 1;
}

static void read_host(struct saved *s, struct gw_slice rest)
{
    struct gw_slice key, value;
    char buf[1024];
    int64_t v;
    while (next_pair(&rest, &key, &value, buf, sizeof buf)) {
        int m = 0;
        while (m < GW_HOST_COUNT && !gw_slice_is(key, gw_host_metric_info((enum gw_host_metric)m)->id))
            m++;
        if (m < GW_HOST_COUNT && gw_slice_number(value, &v) == 0) {
            gw_env_set(s->env, (enum gw_host_metric)m, v);
            s->facts++;
        } else {
            s->unknown++;
        }
    }
}

static void read_text(struct saved *s, struct gw_slice rest)
{
    struct gw_slice key, value;
    char buf[1024];
    while (next_pair(&rest, &key, &value, buf, sizeof buf)) {
        int m = 0;
        while (m < GW_HSTR_COUNT && !gw_slice_is(key, gw_host_string_id((enum gw_host_string)m)))
            m++;
        if (m < GW_HSTR_COUNT) {
            gw_env_set_str(s->env, (enum gw_host_string)m, value.p, value.n);
            s->facts++;
        } else {
            s->unknown++;
        }
    }
}

static int gpu_metric(struct gw_slice key)
{
    int m = 0;
    while (m < GW_GPU_COUNT && !gw_slice_is(key, gw_gpu_metric_info((enum gw_gpu_metric)m)->id))
        m++;
    return m < GW_GPU_COUNT ? m : -1;
}

static void read_gpu(struct saved *s, struct gw_slice rest)
{
    struct gw_slice key, value;
    char buf[1024], bus[32] = "";
    int64_t index = GW_ENV_NONE, v;
    for (struct gw_slice r = rest; next_pair(&r, &key, &value, buf, sizeof buf);) {
        if (gw_slice_is(key, "index"))
            (void)gw_slice_number(value, &index);
        else if (gw_slice_is(key, "bus_id") && value.n < sizeof bus)
            snprintf(bus, sizeof bus, "%.*s", (int)value.n, value.p);
    }
    struct gw_gpu *g = gw_env_gpu(s->env, index, bus[0] ? bus : NULL);
    if (!g)
        return;
    while (next_pair(&rest, &key, &value, buf, sizeof buf)) {
        const char **text = gw_slice_is(key, "name")   ? &g->name
                            : gw_slice_is(key, "uuid") ? &g->uuid
                            : gw_slice_is(key, "arch") ? &g->arch
                            : gw_slice_is(key, "cpus") ? &g->cpus
                            : gw_slice_is(key, "virt") ? &g->virt
                                                       : NULL;
        int m = gpu_metric(key);
        if (text)
            *text = gw_env_dup(s->env, value.p, value.n);
        else if (m >= 0 && gw_slice_number(value, &v) == 0)
            gw_gpu_set(g, (enum gw_gpu_metric)m, v);
        else if (!gw_slice_is(key, "index") && !gw_slice_is(key, "bus_id"))
            s->unknown++;
        s->facts++;
    }
}

static void read_sample(struct saved *s, struct gw_slice rest)
{
    struct gw_slice key, value;
    char buf[64];
    struct gw_gpu g = {.index = 0};
    int64_t position = -1, t = GW_ENV_NONE, source = 0, v;
    while (next_pair(&rest, &key, &value, buf, sizeof buf)) {
        int m = gpu_metric(key);
        if (gw_slice_number(value, &v) < 0)
            continue;
        if (gw_slice_is(key, "position"))
            position = v;
        else if (gw_slice_is(key, "t"))
            t = v;
        else if (gw_slice_is(key, "source"))
            source = v;
        else if (m >= 0 && m < GW_GPU_DYNAMIC)
            gw_gpu_set(&g, (enum gw_gpu_metric)m, v);
    }
    if (position < 0 || (size_t)position >= s->env->gpus.len || source < 0 || source > 1000000)
        return;
    struct gw_gpu *real = gw_env_gpu_at(s->env, (size_t)position), kept = *real;
    memcpy(real->v, g.v, sizeof g.v);
    memcpy(real->has, g.has, sizeof g.has);
    gw_env_sample(s->env, real, t, s->source_base + source);
    *real = kept;
    s->source_max = source > s->source_max ? source : s->source_max;
    s->facts++;
}

static int read_record(struct saved *s, struct gw_slice kind, struct gw_slice rest)
{
    struct gw_slice key, value;
    char buf[1024];
    int k = 0;
    while (k < GW_REC_COUNT && !gw_slice_is(kind, gw_rec_info((enum gw_rec)k).id))
        k++;
    if (k == GW_REC_COUNT)
        return 0;
    struct gw_rec_info info = gw_rec_info((enum gw_rec)k);
    char *rec = gw_env_add(s->env, (enum gw_rec)k);
    while (rec && next_pair(&rest, &key, &value, buf, sizeof buf)) {
        size_t i = 0;
        while (i < info.count && !gw_slice_is(key, info.fields[i].name))
            i++;
        if (i == info.count) {
            s->unknown++;
            continue;
        }
        void *at = rec + info.fields[i].offset;
        if (info.fields[i].type == GW_FT_STR)
            *(const char **)at = gw_env_dup(s->env, value.p, value.n);
        else if (info.fields[i].type == GW_FT_I64)
            (void)gw_slice_number(value, (int64_t *)at);
        else
            (void)gw_slice_decimal(value, (double *)at);
        s->facts++;
    }
    return 1;
}

int64_t gw_saved_env_read(struct gw_env *env, struct gw_slice rest, size_t *used)
{
    struct saved s = {.env = env, .source_base = env->next_source};
    struct gw_slice all = rest, line, kind;
    while (!s.complete && gw_slice_line(&rest, &line)) {
        struct gw_slice r = line;
        if (gw_slice_starts(line, "#") || !gw_slice_word(&r, &kind))
            continue;
        if (gw_slice_is(kind, "end"))
            s.complete = 1;
        else if (gw_slice_is(kind, "host"))
            read_host(&s, r);
        else if (gw_slice_is(kind, "text"))
            read_text(&s, r);
        else if (gw_slice_is(kind, "gpu"))
            read_gpu(&s, r);
        else if (gw_slice_is(kind, "sample"))
            read_sample(&s, r);
        else if (!read_record(&s, kind, r))
            s.unknown++;
    }
    env->next_source = s.source_base + s.source_max + 1;
    if (!s.complete)
        gw_env_note(env, "check --collect", "the file ends early; what comes after it is missing");
    if (s.unknown)
        gw_env_note(env, "check --collect", "%lld facts are of a later version of gpuwhy and were left out",
                    (long long)s.unknown);
    *used = all.n - rest.n;
    return s.facts;
}
