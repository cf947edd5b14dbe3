#include "model/kernel_metrics.h"

#include <string.h>

#include "model/trace.h"

static const struct {
    const char *id, *unit;
} words[] = {
#define GW_KM(sym, id, unit, text) {id, unit},
#include "model/kernel_metrics.def"
#undef GW_KM
};

const char *gw_km_id(unsigned k) { return k < GW_KM_COUNT ? words[k].id : "unknown"; }
const char *gw_km_unit(unsigned k) { return k < GW_KM_COUNT ? words[k].unit : ""; }

size_t gw_kernel_metrics_count(const struct gw_trace *t) { return t->kernel_metrics.len; }
const struct gw_kernel_metrics *gw_kernel_metrics_at(const struct gw_trace *t, size_t i)
{
    return (const struct gw_kernel_metrics *)t->kernel_metrics.data + i;
}

static void mix(struct gw_kernel_metrics *row, enum gw_km k, double value, double weight)
{
    double sum = row->weight[k] + weight;
    if (sum > 0)
        row->value[k] += (value - row->value[k]) * (weight / sum);
    row->weight[k] = sum;
}

int gw_kernel_metrics_add(struct gw_trace *t, uint32_t name, const struct gw_kernel_sample *s)
{
    if (!name)
        return GW_EUSAGE;
    struct gw_kernel_metrics *rows = t->kernel_metrics.data, *row = NULL;
    for (size_t i = 0; i < t->kernel_metrics.len && !row; i++)
        if (rows[i].name == name)
            row = rows + i;
    if (!row) {
        if (!t->kernel_metrics.size) /* a million names: more than any program has kernels */
            gw_array_init(&t->kernel_metrics, sizeof *row, 1u << 20);
        row = gw_array_push(&t->kernel_metrics);
        if (!row)
            return GW_ENOMEM;
        row->name = name;
        row->duration_ns = -1;
    }
    int timed = s->duration_ns > 0 && s->duration_ns < 1e15; /* 11 days: not a kernel */
    double weight = (timed ? s->duration_ns : 1) * (double)s->launches;
    row->launches += s->launches;
    if (timed)
        row->duration_ns = (row->duration_ns < 0 ? 0 : row->duration_ns) + (int64_t)(weight + 0.5);
    for (int k = 0; k < GW_KM_COUNT; k++)
        if (isfinite(s->value[k]))
            mix(row, (enum gw_km)k, s->value[k], weight);
    return GW_OK;
}

void gw_kernel_metrics_free(struct gw_trace *t) { gw_array_free(&t->kernel_metrics); }

/* What may stand in a name before the parameters and looks like a bracket. */
static size_t skipped(const char *s)
{
    static const char *const anonymous[] = {"(anonymous namespace)::", "<unnamed>::"};
    for (size_t i = 0; i < 2; i++)
        if (!strncmp(s, anonymous[i], strlen(anonymous[i])))
            return strlen(anonymous[i]);
    return 0;
}

size_t gw_kernel_base_name(const char *name, char *buf, size_t cap)
{
    size_t n = 0;
    int depth = 0;
    if (!cap)
        return 0;
    for (const char *p = name; *p; p++) {
        size_t skip = skipped(p);
        if (skip) {
            p += skip - 1;
        } else if (*p == '<') {
            depth++;
        } else if (*p == '>') {
            depth -= depth > 0;
        } else if (depth == 0 && *p == '(') {
            break;
        } else if (depth == 0 && *p == ' ') {
            n = 0; /* that was the return type */
        } else if (depth == 0 && n + 1 < cap) {
            buf[n++] = *p;
        }
    }
    buf[n] = 0;
    return n;
}

int gw_kernel_metrics_match(const struct gw_trace *t, const char *name, struct gw_kernel_metrics *out)
{
    char base[512], other[512];
    const struct gw_kernel_metrics *rows = t->kernel_metrics.data;
    size_t n = t->kernel_metrics.len;
    uint32_t id = n ? gw_intern_find(t->names, name, strlen(name)) : 0;
    for (size_t i = 0; id && i < n; i++)
        if (rows[i].name == id) {
            *out = rows[i];
            return 1;
        }
    int found = 0;
    if (!n || !gw_kernel_base_name(name, base, sizeof base))
        return 0;
    for (size_t i = 0; i < n; i++) {
        gw_kernel_base_name(gw_trace_text(t, rows[i].name), other, sizeof other);
        if (strcmp(base, other) != 0)
            continue;
        if (!found++) {
            *out = rows[i];
            continue;
        }
        out->launches += rows[i].launches;
        if (rows[i].duration_ns >= 0)
            out->duration_ns = (out->duration_ns < 0 ? 0 : out->duration_ns) + rows[i].duration_ns;
        for (int k = 0; k < GW_KM_COUNT; k++)
            if (rows[i].weight[k] > 0)
                mix(out, (enum gw_km)k, rows[i].value[k], rows[i].weight[k]);
    }
    return found > 0;
}
