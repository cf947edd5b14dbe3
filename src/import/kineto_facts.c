#include "import/kineto_facts.h"

#include <limits.h>
#include <string.h>

#include "import/kineto_args.h"
#include "import/kineto_event.h"

void kineto_facts_init(struct kineto_facts *f, struct gw_trace *t)
{
    f->t = t;
    f->torch = 0;
    gw_array_init(&f->devices, sizeof(struct gw_device), 1024);
}

void kineto_facts_free(struct kineto_facts *f) { gw_array_free(&f->devices); }

/* ---- values ---- */

static int64_t as_int(struct kineto_text v, int64_t missing)
{
    struct gw_json_cur c = {v.s, v.s + v.n};
    struct kineto_text t;
    int64_t x;
    return kineto_scalar(&c, &t) == 0 && gw_decimal_id(t.s, t.n, &x) ? x : missing;
}

static int as_int32(struct kineto_text v, int missing)
{
    int64_t x = as_int(v, missing);
    return x >= INT_MIN && x <= INT_MAX ? (int)x : missing;
}

static int as_flag(struct kineto_text v) { return (v.n == 4 && !memcmp(v.s, "true", 4)) || as_int(v, 0) != 0; }

/* Decoded text of a string, in the trace's arena; NULL when it is none or empty. */
static const char *as_text(struct gw_trace *t, struct kineto_text v)
{
    struct gw_json_cur c = {v.s, v.s + v.n};
    struct kineto_text s;
    if (v.n == 0 || *v.s != '"' || kineto_scalar(&c, &s) < 0 || s.n == 0)
        return NULL;
    char *copy = gw_arena_alloc(t->arena, s.n + 1);
    if (copy)
        copy[gw_json_unescape(copy, s.s, s.n)] = '\0';
    return copy;
}

static int key_is(const char *k, size_t n, const char *word) { return n == strlen(word) && !memcmp(k, word, n); }

/* Steps through the members of the object at `c`. 1 a member, 0 the end. */
static int member(struct gw_json_cur *c, struct kineto_text *key, struct kineto_text *v)
{
    if (gw_json_next_key(c, &key->s, &key->n) != 1)
        return 0;
    v->s = c->p;
    if (gw_json_skip_value(c) < 0)
        return 0;
    v->n = (size_t)(c->p - v->s);
    return 1;
}

static void device_member(struct kineto_facts *f, struct gw_device *d, struct kineto_text k, struct kineto_text v)
{
    if (key_is(k.s, k.n, "id")) {
        d->id = as_int(v, d->id);
    } else if (key_is(k.s, k.n, "name")) {
        const char *name = as_text(f->t, v);
        d->name = name ? gw_trace_name(f->t, name, strlen(name)) : 0;
    } else if (key_is(k.s, k.n, "totalGlobalMem")) {
        d->memory_bytes = as_int(v, -1);
    } else if (key_is(k.s, k.n, "numSms") || key_is(k.s, k.n, "multiProcessorCount")) {
        d->sm_count = as_int32(v, -1);
    } else if (key_is(k.s, k.n, "computeMajor")) {
        d->cc_major = as_int32(v, -1);
    } else if (key_is(k.s, k.n, "computeMinor")) {
        d->cc_minor = as_int32(v, -1);
    } else if (key_is(k.s, k.n, "maxThreadsPerMultiprocessor") || key_is(k.s, k.n, "maxThreadsPerMultiProcessor")) {
        d->max_threads_per_sm = as_int32(v, -1);
    }
}

static void device_list(struct kineto_facts *f, struct kineto_text v)
{
    struct gw_json_cur c = {v.s + 1, v.s + v.n};
    f->devices.len = 0;
    for (;;) {
        c.p = gw_json_gap(c.p, c.end);
        if (c.p == c.end || *c.p == ']')
            return;
        if (*c.p != '{') {
            const char *before = c.p;
            if (gw_json_skip_value(&c) < 0 || c.p == before)
                return;
            continue;
        }
        struct gw_device *d = gw_array_push(&f->devices);
        if (!d)
            return;
        *d = (struct gw_device){.id = (int64_t)f->devices.len - 1,
                                .memory_bytes = -1,
                                .sm_count = -1,
                                .cc_major = -1,
                                .cc_minor = -1,
                                .max_threads_per_sm = -1};
        struct kineto_text key, val;
        c.p++;
        while (member(&c, &key, &val))
            device_member(f, d, key, val);
    }
}

static void distributed(struct kineto_facts *f, struct kineto_text v)
{
    struct gw_json_cur c = {v.s + 1, v.s + v.n};
    struct kineto_text key, val;
    struct gw_facts *facts = &f->t->facts;
    while (member(&c, &key, &val)) {
        if (key_is(key.s, key.n, "rank"))
            facts->rank = as_int(val, -1);
        else if (key_is(key.s, key.n, "world_size"))
            facts->world_size = as_int(val, -1);
        else if (key_is(key.s, key.n, "backend"))
            facts->dist_backend = as_text(f->t, val);
    }
}

static void scalar_value(struct kineto_facts *f, const char *key, struct kineto_text v)
{
    struct gw_facts *facts = &f->t->facts;
    const struct {
        const char *key;
        int *field;
    } ints[] = {{"cuda_driver_version", &facts->cuda_driver},
                {"cuda_runtime_version", &facts->cuda_runtime},
                {"cupti_version", &facts->cupti}};
    const struct {
        const char *key;
        int *field;
    } flags[] = {{"with_stack", &facts->with_stack},
                 {"record_shapes", &facts->record_shapes},
                 {"profile_memory", &facts->profile_memory}};
    static const char *const amd[] = {"roctracer_version", "rocprofiler_version", "hip_runtime_version",
                                      "hip_driver_version", "rocm_version"};
    static const char *const versions[] = {"pytorch_version", "torch_version", "PyTorch version"};
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
        if (!strcmp(key, ints[i].key))
            *ints[i].field = as_int32(v, 0);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (!strcmp(key, flags[i].key))
            *flags[i].field = as_flag(v);
    for (size_t i = 0; i < sizeof amd / sizeof *amd; i++)
        facts->amd |= !strcmp(key, amd[i]);
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        if (!strcmp(key, versions[i]))
            facts->framework_version = as_text(f->t, v);
    if (!strcmp(key, "baseTimeNanoseconds"))
        facts->base_ns = as_int(v, 0);
    else if (!strcmp(key, "host_name"))
        facts->host = as_text(f->t, v);
}

void kineto_facts_value(void *user, const char *key, const char *text, size_t n)
{
    struct kineto_facts *f = user;
    struct kineto_text v = {text, n};
    f->torch |= !strcmp(key, "schemaVersion") || !strcmp(key, "traceName") || !strcmp(key, "deviceProperties");
    if (!strcmp(key, "deviceProperties") && n && *text == '[')
        device_list(f, v);
    else if (!strcmp(key, "distributedInfo") && n && *text == '{')
        distributed(f, v);
    else
        scalar_value(f, key, v);
}

/* ---- finish ---- */

static int same_model(const struct gw_device *a, const struct gw_device *b)
{
    return a->name == b->name && a->memory_bytes == b->memory_bytes && a->sm_count == b->sm_count;
}

/* The properties of device `id`. ROCm numbers processors, CPUs among them, so that ids need not be in the list: then any
 * entry will do when all are of one model. */
static const struct gw_device *properties(const struct kineto_facts *f, int64_t id)
{
    const struct gw_device *d = f->devices.data;
    int alike = f->devices.len > 0;
    for (size_t i = 0; i < f->devices.len; i++) {
        if (d[i].id == id)
            return d + i;
        alike &= same_model(d, d + i);
    }
    return alike ? d : NULL;
}

int kineto_facts_finish(struct kineto_facts *f)
{
    struct gw_trace *t = f->t;
    static const char *const amd_names[] = {"AMD", "Radeon", "Instinct"};
    static const char *const hip_calls[] = {"hipLaunchKernel", "hipExtModuleLaunchKernel", "hipModuleLaunchKernel",
                                            "hipMemcpyWithStream"};
    for (size_t i = 0; i < t->lanes.len; i++) {
        const struct gw_lane *l = gw_trace_lane(t, (uint32_t)i);
        if (l->type != GW_LANE_GPU)
            continue;
        struct gw_device *d = gw_trace_device(t, l->device);
        const struct gw_device *p = properties(f, l->device);
        if (!d)
            return GW_ENOMEM;
        if (p) {
            *d = *p;
            d->id = l->device;
        }
    }
    const struct gw_device *d = f->devices.data;
    for (size_t i = 0; i < f->devices.len; i++)
        for (size_t k = 0; k < sizeof amd_names / sizeof *amd_names; k++)
            t->facts.amd |= strstr(gw_trace_text(t, d[i].name), amd_names[k]) != NULL;
    for (size_t k = 0; k < sizeof hip_calls / sizeof *hip_calls; k++)
        t->facts.amd |= gw_intern_find(t->names, hip_calls[k], strlen(hip_calls[k])) != 0;
    return GW_OK;
}
