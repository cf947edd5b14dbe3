/* record_facts.c - the recorder's facts into gw_host_facts and gw_facts. See record_internal.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/record_internal.h"

#include "base/gw_i18n.h"

enum { MAX_GPUS = 64, MAX_MOUNTS = 64, MAX_CPUS = 4096 };

int gw_record_facts_begin(struct gw_record_import *im)
{
    struct gw_host_facts *h = gw_arena_alloc(im->t->arena, sizeof *h);
    if (!h)
        return GW_ENOMEM;
    *h = gw_host_facts_unknown();
    im->host = h;
    im->job_pid = -1;
    gw_array_init(&im->host_gpus, sizeof(struct gw_host_gpu), MAX_GPUS);
    gw_array_init(&im->host_mounts, sizeof(struct gw_host_mount), MAX_MOUNTS);
    gw_array_init(&im->host_cpus, sizeof(struct gw_record_cpus), MAX_CPUS);
    return 0;
}

void gw_record_facts_free(struct gw_record_import *im)
{
    gw_array_free(&im->host_gpus);
    gw_array_free(&im->host_mounts);
    gw_array_free(&im->host_cpus);
}

/* "0-3,8" -> 5; -1 when it is no list. */
static int count_cpus(const char *list)
{
    int n = 0;
    for (const char *p = list; *p;) {
        char *end;
        long a = strtol(p, &end, 10), b = a;
        if (end == p || a < 0)
            return -1;
        if (*end == '-') {
            p = end + 1;
            b = strtol(p, &end, 10);
            if (end == p || b < a || b > 1 << 20)
                return -1;
        }
        n += (int)(b - a + 1);
        p = end + (*end == ',');
        if (*end && *end != ',')
            return n;
    }
    return n ? n : -1;
}

static struct gw_host_gpu *gpu_at(struct gw_record_import *im, int64_t index)
{
    struct gw_host_gpu *g = im->host_gpus.data;
    for (size_t i = 0; i < im->host_gpus.len; i++)
        if (g[i].device == index)
            return g + i;
    g = gw_array_push(&im->host_gpus);
    if (g)
        *g = gw_host_gpu_unknown(index);
    return g;
}

static void gpu_fact(struct gw_record_import *im, const char *rest)
{
    char *end, key[32];
    long index = strtol(rest, &end, 10);
    if (end == rest || *end != '.' || index < 0)
        return;
    const char *eq = strchr(++end, '=');
    struct gw_host_gpu *g = eq && eq - end < (long)sizeof key ? gpu_at(im, index) : NULL;
    if (!g)
        return;
    snprintf(key, sizeof key, "%.*s", (int)(eq - end), end);
    const struct {
        const char *key;
        double *to;
    } numbers[] = {{"memory_bytes", &g->memory_bytes},
                   {"sm_clock_max_mhz", &g->sm_clock_max_mhz},
                   {"memory_clock_max_mhz", &g->memory_clock_max_mhz},
                   {"power_limit_w", &g->power_limit_w},
                   {"power_default_w", &g->power_default_w}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(numbers[i].key, key) == 0)
            *numbers[i].to = atof(eq + 1);
    if (strcmp(key, "name") == 0)
        g->name = gw_arena_strdup(im->t->arena, eq + 1);
    else if (strcmp(key, "uuid") == 0 && im->n_gpus < sizeof im->gpus / sizeof *im->gpus) {
        snprintf(im->gpus[im->n_gpus].uuid, sizeof im->gpus[0].uuid, "%s", eq + 1);
        im->gpus[im->n_gpus++].index = index;
    }
}

/* "nfs4 /data=/data/x.bin" */
static void mount_fact(struct gw_record_import *im, const char *rest)
{
    const char *space = strchr(rest, ' '), *eq = space ? strchr(space, '=') : NULL;
    struct gw_host_mount *m = eq ? gw_array_push(&im->host_mounts) : NULL;
    if (!m)
        return;
    struct gw_arena *a = im->t->arena;
    *m = (struct gw_host_mount){.type = gw_arena_strndup(a, rest, (size_t)(space - rest)),
                                .point = gw_arena_strndup(a, space + 1, (size_t)(eq - space - 1)),
                                .file = gw_arena_strdup(a, eq + 1)};
    if (!m->type || !m->point || !m->file)
        im->host_mounts.len--;
    else
        m->remote = gw_record_is_remote(m->type);
}

static struct gw_record_blocking *blocking_of(struct gw_record_import *im, int64_t pid)
{
    size_t i = 0;
    while (i < im->n_blocking && im->blocking[i].pid != pid)
        i++;
    if (i == sizeof im->blocking / sizeof *im->blocking)
        return NULL;
    if (i == im->n_blocking)
        im->blocking[im->n_blocking++] = (struct gw_record_blocking){pid, 0};
    return im->blocking + i;
}

int gw_record_facts_blocking(const struct gw_record_import *im, int64_t pid)
{
    for (size_t i = 0; i < im->n_blocking; i++)
        if (im->blocking[i].pid == pid)
            return im->blocking[i].on;
    return -1;
}

/* "env_of=PID": what follows replaces what was known of that process. "env.PID.NAME=value". */
static void environment_fact(struct gw_record_import *im, const char *key, const char *value)
{
    int of = strcmp(key, "env_of") == 0;
    struct gw_record_blocking *b = of || strstr(key, ".CUDA_LAUNCH_BLOCKING") ? blocking_of(im, strtoll(of ? value : key + 4, NULL, 10)) : NULL;
    if (b)
        b->on = !of && *value && strcmp(value, "0") != 0;
    if (of)
        return;
    if (strstr(key, ".OMP_NUM_THREADS") && atoi(value) > 0)
        im->host->omp_threads = atoi(value);
    else if (strstr(key, ".WORLD_SIZE") && atoi(value) > 0 && im->t->facts.world_size <= 0)
        im->t->facts.world_size = atoi(value);
}

void gw_record_facts_line(struct gw_record_import *im, const char *line)
{
    struct gw_facts *f = &im->t->facts;
    struct gw_host_facts *h = im->host;
    const char *eq = strchr(line, '=');
    char key[160];
    if (!eq || eq - line >= (long)sizeof key)
        return;
    snprintf(key, sizeof key, "%.*s", (int)(eq - line), line);
    const char *v = eq + 1;
    const struct {
        const char *key;
        double *to;
    } numbers[] = {{"cgroup.cpu_limit", &h->cpu_limit},
                   {"cgroup.memory_limit_bytes", &h->memory_limit_bytes},
                   {"host.memory_bytes", &h->memory_bytes},
                   {"recorder.cpu_s", &h->recorder_cpu_s},
                   {"pm.cpu_s", &h->sampler_cpu_s}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(numbers[i].key, key) == 0)
            *numbers[i].to = atof(v);
    if (strncmp(line, "gpu.", 4) == 0)
        gpu_fact(im, line + 4);
    else if (strncmp(line, "mount.", 6) == 0)
        mount_fact(im, line + 6);
    else if (strncmp(line, "cpus_allowed.", 13) == 0) {
        struct gw_record_cpus *c = gw_array_push(&im->host_cpus);
        if (c)
            *c = (struct gw_record_cpus){strtoll(line + 13, NULL, 10), count_cpus(v)};
    } else if (strcmp(key, "host.name") == 0)
        f->host = gw_arena_strdup(im->t->arena, v);
    else if (strcmp(key, "host.kernel") == 0)
        h->kernel = gw_arena_strdup(im->t->arena, v);
    else if (strcmp(key, "host.machine") == 0)
        im->machine_arm = strcmp(v, "aarch64") == 0;
    else if (strcmp(key, "host.cpus") == 0)
        h->cpus_online = atoi(v);
    else if (strcmp(key, "nvml.cuda_driver") == 0)
        f->cuda_driver = atoi(v);
    else if (strcmp(key, "job.pid") == 0)
        im->job_pid = strtoll(v, NULL, 10);
    else if (strcmp(key, "recorded_s") == 0)
        h->recorded_ns = (int64_t)(atof(v) * 1e9);
    else if (strncmp(key, "env.", 4) == 0 || strcmp(key, "env_of") == 0)
        environment_fact(im, key, v);
    else if (strcmp(key, "pm.state") == 0)
        gw_record_pm_fact(im, v);
    else if (strcmp(key, "injection.ignored") == 0)
        h->gpu_records = gw_arena_printf(im->t->arena, _("the CUDA driver did not load our library: %s"), v);
    else if (strcmp(key, "injection.refused") == 0)
        h->gpu_records = gw_arena_printf(im->t->arena, _("another tool, or nothing, is loaded into the job: %s"), v);
}
