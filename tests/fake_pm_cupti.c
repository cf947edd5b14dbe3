/*
 * fake_pm_cupti.c - the PM sampling part of a libcupti.so.13. Each GPU is busy and idle in turn by the wall clock. Every call's
 * struct size and place in the order is checked; what is wrong is written to FAKE_PM_ERRORS and ends the process.
 *
 *   FAKE_PM_WAVE=40:60      40 ms busy at 90 % SM, 60 ms idle (default)
 *   FAKE_PM_REFUSE=CALL:26  that call returns 26, always; CALL:26:3 from its third time on
 *   FAKE_PM_CRASH=CALL:3    the third such call is a segmentation fault; FAKE_PM_HANG=CALL:3 never returns
 *   FAKE_PM_FIT=2           so many metrics fit into one pass (default 9)
 *   FAKE_PM_OVERFLOW=200    the hardware buffer holds so many samples (default 2000); more become one long, wrong sample
 *   FAKE_PM_CLOCK=SECONDS   stamps are of another clock, this far behind CLOCK_REALTIME
 *   FAKE_PM_SLOW=US         a decoded sample costs so much CPU
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "collect/pm/pm_abi.h"

#define FN(name, arg) int name(struct arg *p);
GW_PM_FUNCTIONS(FN)
#undef FN
int cuptiGetVersion(uint32_t *v) __attribute__((weak)); /* the other fake has one too */

enum { GPUS = 8, IMAGE_HEAD = 64, SAMPLE_BYTES = 64, MAGIC = 0x1a4e };

static int initialized;
static struct host { int is_open, has_metrics; size_t count; } hosts[64];
static struct object {
    int is_open, is_configured, is_started;
    uint64_t interval, next; /* next: start of the sample that comes next */
} objects[GPUS];
struct image { uint32_t magic, max, count, pad; uint64_t start[2]; };
struct sample { uint64_t start, end; };

static void wrong(const char *call, const char *what)
{
    const char *path = getenv("FAKE_PM_ERRORS");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (f) {
        fprintf(f, "%s: %s\n", call, what);
        fclose(f);
    }
    abort();
}

#define CHECK(cond, what)                                                                                              \
    do {                                                                                                               \
        if (!(cond))                                                                                                   \
            wrong(__func__, what);                                                                                     \
    } while (0)

/* FAKE_PM_REFUSE and the like: does `call` meet it now? The number behind the name, or 0. */
static int meets(const char *variable, const char *call, unsigned *times)
{
    const char *e = getenv(variable);
    size_t n = strlen(call);
    if (!e || strncmp(e, call, n) != 0 || e[n] != ':')
        return 0;
    char *end;
    long v = strtol(e + n + 1, &end, 10), from = *end == ':' ? strtol(end + 1, NULL, 10) : 1;
    ++*times;
    if (strcmp(variable, "FAKE_PM_REFUSE") == 0)
        return *times >= (unsigned)from ? (int)v : 0;
    return *times == (unsigned)v;
}

static uint64_t real_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#define ENTER(size_wanted)                                                                                             \
    static unsigned refused, crashed, hung;                                                                            \
    int result = meets("FAKE_PM_REFUSE", __func__, &refused);                                                          \
    if (meets("FAKE_PM_CRASH", __func__, &crashed))                                                                    \
        *(volatile int *)8 = 0;                                                                                        \
    while (meets("FAKE_PM_HANG", __func__, &hung))                                                                     \
        for (;;)                                                                                                       \
            pause();                                                                                                   \
    CHECK(p && p->size == (size_wanted), "struct size");                                                               \
    CHECK(!p->priv, "pPriv is not NULL");                                                                              \
    if (result)                                                                                                        \
        return result

static struct object *object_of(void *o)
{
    struct object *b = o;
    return b >= objects && b < objects + GPUS && b->is_open ? b : NULL;
}
static struct host *host_of(void *o)
{
    struct host *h = o;
    return h >= hosts && h < hosts + 64 && h->is_open ? h : NULL;
}

int cuptiGetVersion(uint32_t *v)
{
    *v = 130001;
    return 0;
}

int cuptiProfilerInitialize(struct gw_pm_plain *p)
{
    ENTER(16);
    CHECK(!initialized, "twice");
    initialized = 1;
    return 0;
}

int cuptiDeviceGetChipName(struct gw_pm_chip *p)
{
    ENTER(32);
    CHECK(initialized && p->device < GPUS, "order");
    p->name = "GH100";
    return 0;
}

int cuptiPmSamplingGetCounterAvailability(struct gw_pm_availability *p)
{
    ENTER(40);
    CHECK(initialized && p->device < GPUS, "order");
    if (!p->image)
        p->bytes = 100;
    else
        memset(p->image, 0x5a, 100);
    return 0;
}

int cuptiProfilerHostInitialize(struct gw_pm_host_init *p)
{
    ENTER(48);
    CHECK(p->type == 1 && p->chip && strcmp(p->chip, "GH100") == 0, "type or chip");
    CHECK(p->availability && p->availability[99] == 0x5a, "availability image");
    for (int i = 0; i < 64; i++)
        if (!hosts[i].is_open) {
            hosts[i] = (struct host){.is_open = 1};
            p->host = &hosts[i];
            return 0;
        }
    CHECK(0, "host objects leak");
    return 1;
}

int cuptiProfilerHostDeinitialize(struct gw_pm_object *p)
{
    ENTER(24);
    CHECK(host_of(p->object), "no host object");
    host_of(p->object)->is_open = 0;
    return 0;
}

int cuptiProfilerHostConfigAddMetrics(struct gw_pm_metrics *p)
{
    ENTER(40);
    struct host *h = host_of(p->host);
    CHECK(h && !h->has_metrics, "order, or metrics in more than one call");
    for (size_t i = 0; i < p->count; i++)
        CHECK(p->names[i] && strstr(p->names[i], ".pct_of_peak_sustained_elapsed"), "metric");
    h->has_metrics = 1;
    h->count = p->count;
    return 0;
}

int cuptiProfilerHostGetConfigImageSize(struct gw_pm_image_size *p)
{
    ENTER(32);
    CHECK(host_of(p->host) && host_of(p->host)->has_metrics, "order");
    p->bytes = 200;
    return 0;
}

int cuptiProfilerHostGetConfigImage(struct gw_pm_image *p)
{
    ENTER(40);
    CHECK(host_of(p->host) && p->bytes == 200 && p->image, "order or size");
    memset(p->image, (int)host_of(p->host)->count, 200);
    return 0;
}

int cuptiProfilerHostGetNumOfPasses(struct gw_pm_passes *p)
{
    ENTER(40);
    CHECK(p->bytes == 200 && p->image, "config image");
    const char *fit = getenv("FAKE_PM_FIT");
    p->passes = p->image[0] > (fit ? atoi(fit) : 9) ? 2 : 1;
    return 0;
}

int cuptiPmSamplingEnable(struct gw_pm_enable *p)
{
    ENTER(32);
    CHECK(initialized && p->device < GPUS, "order");
    struct object *o = &objects[p->device];
    CHECK(!o->is_open, "enabled twice");
    *o = (struct object){.is_open = 1};
    p->object = o;
    return 0;
}

int cuptiPmSamplingDisable(struct gw_pm_object *p)
{
    ENTER(24);
    struct object *o = object_of(p->object);
    CHECK(o && !o->is_started, "order: stop first");
    o->is_open = 0;
    return 0;
}

int cuptiPmSamplingSetConfig(struct gw_pm_config *p)
{
    ENTER(64);
    struct object *o = object_of(p->object);
    CHECK(o && !o->is_started, "order: while sampling");
    CHECK(p->bytes == 200 && p->image && p->image[0] >= 1, "config image");
    CHECK(p->buffer_bytes >= 1 << 20 && p->buffer_bytes <= 64 << 20, "hardware buffer");
    CHECK(p->trigger == 1 || p->trigger == 0, "trigger");
    CHECK(p->append == 1 && p->interval >= 10000, "interval");
    if (!o->is_configured)
        o->interval = p->interval; /* the real one takes a second interval without an error, and goes on with the first */
    o->is_configured = 1;
    return 0;
}

int cuptiPmSamplingStart(struct gw_pm_object *p)
{
    ENTER(24);
    struct object *o = object_of(p->object);
    CHECK(o && o->is_configured && !o->is_started, "order");
    o->is_started = 1;
    o->next = real_ns() - 5000000; /* the first sample spans the set-up */
    return 0;
}

int cuptiPmSamplingStop(struct gw_pm_object *p)
{
    ENTER(24);
    struct object *o = object_of(p->object);
    CHECK(o && o->is_started, "order");
    o->is_started = 0;
    return 0;
}

int cuptiPmSamplingGetCounterDataSize(struct gw_pm_data_size *p)
{
    ENTER(56);
    CHECK(object_of(p->object) && p->names && p->count >= 1 && p->max_samples >= 1, "order");
    p->bytes = IMAGE_HEAD + (size_t)p->max_samples * SAMPLE_BYTES;
    return 0;
}

int cuptiPmSamplingCounterDataImageInitialize(struct gw_pm_data_init *p)
{
    ENTER(40);
    CHECK(object_of(p->object) && p->image && p->bytes > IMAGE_HEAD, "order");
    struct image i = {MAGIC, (uint32_t)((p->bytes - IMAGE_HEAD) / SAMPLE_BYTES), 0, 0, {0, 0}};
    memcpy(p->image, &i, sizeof i);
    return 0;
}

int cuptiPmSamplingDecodeData(struct gw_pm_decode *p)
{
    ENTER(45);
    struct object *o = object_of(p->object);
    struct image i;
    CHECK(o && o->is_configured && p->image, "order");
    memcpy(&i, p->image, sizeof i);
    CHECK(i.magic == MAGIC && i.count == 0 && p->bytes == IMAGE_HEAD + (size_t)i.max * SAMPLE_BYTES, "image not initialized");
    uint64_t now = real_ns(), hold = getenv("FAKE_PM_OVERFLOW") ? (uint64_t)atoll(getenv("FAKE_PM_OVERFLOW")) : 2000;
    p->overflow = 0; /* as the real one in this mode: what was lost shows as one long sample with the counts of its end */
    p->reason = 2;
    if (now > o->next && (now - o->next) / o->interval > hold) {
        uint64_t from = o->next;
        o->next = now - hold * o->interval;
        struct sample s = {from, o->next};
        memcpy(p->image + IMAGE_HEAD + (size_t)i.count++ * SAMPLE_BYTES, &s, sizeof s);
    }
    while (o->next + o->interval <= now) {
        if (i.count == i.max) {
            p->reason = 1;
            break;
        }
        struct sample s = {o->next, o->next + o->interval};
        memcpy(p->image + IMAGE_HEAD + (size_t)i.count++ * SAMPLE_BYTES, &s, sizeof s);
        o->next += o->interval;
    }
    memcpy(p->image, &i, sizeof i);
    return 0;
}

int cuptiPmSamplingGetCounterDataInfo(struct gw_pm_data_info *p)
{
    ENTER(56);
    struct image i;
    memcpy(&i, p->image, sizeof i);
    CHECK(i.magic == MAGIC, "image");
    p->total = i.max;
    p->populated = p->completed = i.count;
    return 0;
}

static uint64_t clock_behind(void)
{
    const char *e = getenv("FAKE_PM_CLOCK");
    return e ? (uint64_t)atoll(e) * 1000000000u : 0;
}

int cuptiPmSamplingCounterDataGetSampleInfo(struct gw_pm_sample_info *p)
{
    ENTER(64);
    struct image i;
    struct sample s;
    memcpy(&i, p->image, sizeof i);
    CHECK(object_of(p->object) && i.magic == MAGIC && p->index < i.count, "sample index");
    memcpy(&s, p->image + IMAGE_HEAD + p->index * SAMPLE_BYTES, sizeof s);
    p->start = s.start - clock_behind();
    p->end = s.end - clock_behind();
    return 0;
}

/* Part of [start, end) in which the wave is busy. */
static double busy_share(uint64_t start, uint64_t end)
{
    long busy_ms = 40, idle_ms = 60;
    const char *e = getenv("FAKE_PM_WAVE");
    if (e && sscanf(e, "%ld:%ld", &busy_ms, &idle_ms) != 2)
        abort();
    uint64_t busy = (uint64_t)busy_ms * 1000000u, period = busy + (uint64_t)idle_ms * 1000000u, sum = 0;
    for (uint64_t t = start; t < end;) {
        uint64_t at = t % period, left = at < busy ? busy - at : period - at, step = end - t < left ? end - t : left;
        sum += at < busy ? step : 0;
        t += step;
    }
    return (double)sum / (double)(end - start);
}

int cuptiProfilerHostEvaluateToGpuValues(struct gw_pm_evaluate *p)
{
    ENTER(72);
    struct host *h = host_of(p->host);
    struct image i;
    struct sample s;
    memcpy(&i, p->image, sizeof i);
    CHECK(h && p->count == h->count && p->values, "metrics differ from the configured ones");
    CHECK(i.magic == MAGIC && p->index < i.count, "sample index");
    memcpy(&s, p->image + IMAGE_HEAD + p->index * SAMPLE_BYTES, sizeof s);
    double share = s.end - s.start < 30000000 ? busy_share(s.start, s.end) : 0.01;
    static const double scale[] = {100, 90, 25, 40};
    for (size_t k = 0; k < p->count; k++)
        p->values[k] = share * scale[k];
    if (getenv("FAKE_PM_SLOW"))
        for (clock_t until = clock() + atoi(getenv("FAKE_PM_SLOW")); clock() < until;)
            ;
    return 0;
}
