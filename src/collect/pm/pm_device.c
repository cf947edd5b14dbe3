/* pm_device.c - see pm_device.h */
#include "collect/pm/pm_device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "record/record_write.h"

static const char *counter_names[] = {
#define GW_PM_METRIC(sym, id, counter, text) counter,
#include "record/pm_metrics.def"
#undef GW_PM_METRIC
};
_Static_assert((int)GW_PM_METRIC_COUNT <= (int)GW_PM_SHARES, "the record has room for GW_PM_SHARES");

/* A clock that is this far from ours is another clock, not a delay. */
#define OTHER_CLOCK (5ll * 1000000000)
/* GA100 has no trigger by time: its system clock runs at about this rate, and the stamps say how long a sample was. */
#define CLOCK_GHZ 1.4
#define ROUNDS_MAX 64 /* of decoding in one read: the hardware must not keep us here for ever */

#define CALL(d, name, arg) ((d)->call = #name, (d)->result = (d)->libs->cupti.fn_##name(arg))

static void free_host(struct gw_pm_device *d)
{
    if (d->host) {
        GW_PM_INIT(gw_pm_object, p, object);
        p.object = d->host;
        (void)d->libs->cupti.fn_cuptiProfilerHostDeinitialize(&p);
    }
    d->host = NULL;
    free(d->config);
    d->config = NULL;
    d->config_bytes = 0;
}

static int make_config(struct gw_pm_device *d)
{
    GW_PM_INIT(gw_pm_image_size, s, bytes);
    s.host = d->host;
    if (CALL(d, cuptiProfilerHostGetConfigImageSize, &s) != 0)
        return -1;
    d->config = calloc(1, s.bytes ? s.bytes : 1);
    d->config_bytes = s.bytes;
    GW_PM_INIT(gw_pm_image, i, image);
    i.host = d->host;
    i.bytes = s.bytes;
    i.image = d->config;
    return d->config && CALL(d, cuptiProfilerHostGetConfigImage, &i) == 0 ? 0 : -1;
}

/* Sets the first `n` metrics up. 1: they fit into one pass; 0: they do not, or are not known here; -1: a call failed. */
static int try_metrics(struct gw_pm_device *d, const char *chip, const uint8_t *availability, unsigned n)
{
    GW_PM_INIT(gw_pm_host_init, h, host);
    h.type = GW_PM_TYPE_SAMPLING;
    h.chip = chip;
    h.availability = availability;
    if (CALL(d, cuptiProfilerHostInitialize, &h) != 0)
        return -1;
    d->host = h.host;
    GW_PM_INIT(gw_pm_metrics, m, count); /* all in one call: one by one makes one pass each */
    m.host = d->host;
    m.names = counter_names;
    m.count = n;
    if (CALL(d, cuptiProfilerHostConfigAddMetrics, &m) != 0)
        return 0;
    if (make_config(d) != 0)
        return -1;
    GW_PM_INIT(gw_pm_passes, p, passes);
    p.bytes = d->config_bytes;
    p.image = d->config;
    if (CALL(d, cuptiProfilerHostGetNumOfPasses, &p) != 0)
        return -1;
    d->metrics = n;
    return p.passes == 1;
}

static unsigned choose_metrics(struct gw_pm_device *d)
{
    GW_PM_INIT(gw_pm_chip, chip, name);
    chip.device = (size_t)d->ordinal;
    if (CALL(d, cuptiDeviceGetChipName, &chip) != 0)
        return gw_pm_state_of(d->result);
    GW_PM_INIT(gw_pm_availability, a, image);
    a.device = (size_t)d->ordinal;
    if (CALL(d, cuptiPmSamplingGetCounterAvailability, &a) != 0)
        return gw_pm_state_of(d->result);
    a.image = calloc(1, a.bytes ? a.bytes : 1);
    unsigned state = GW_PS_FAILED;
    if (!a.image)
        return state;
    if (CALL(d, cuptiPmSamplingGetCounterAvailability, &a) != 0) {
        state = gw_pm_state_of(d->result);
        goto out;
    }
    unsigned n = d->want && d->want < GW_PM_METRIC_COUNT ? d->want : GW_PM_METRIC_COUNT;
    int fits = 0;
    for (; n > 0; n--) {
        fits = try_metrics(d, chip.name, a.image, n);
        if (fits != 0)
            break;
        free_host(d);
    }
    state = fits > 0 ? GW_PS_STARTING : fits < 0 ? gw_pm_state_of(d->result) : GW_PS_PASSES;
out:
    free(a.image);
    return state;
}

static int set_config(struct gw_pm_device *d)
{
    GW_PM_INIT(gw_pm_config, c, append);
    c.object = d->object;
    c.bytes = d->config_bytes;
    c.image = d->config;
    c.buffer_bytes = d->buffer_bytes;
    c.trigger = d->by_clock ? GW_PM_TRIGGER_CLOCK : GW_PM_TRIGGER_TIME;
    c.interval = d->by_clock ? (uint64_t)((double)d->interval_ns * CLOCK_GHZ) : d->interval_ns;
    c.append = GW_PM_KEEP_LATEST;
    return CALL(d, cuptiPmSamplingSetConfig, &c);
}

static int clear_image(struct gw_pm_device *d)
{
    GW_PM_INIT(gw_pm_data_init, i, image);
    i.object = d->object;
    i.bytes = d->image_bytes;
    i.image = d->image;
    return CALL(d, cuptiPmSamplingCounterDataImageInitialize, &i);
}

static int make_image(struct gw_pm_device *d)
{
    GW_PM_INIT(gw_pm_data_size, s, bytes);
    s.object = d->object;
    s.names = counter_names;
    s.count = d->metrics;
    s.max_samples = GW_PM_IMAGE_SAMPLES;
    if (CALL(d, cuptiPmSamplingGetCounterDataSize, &s) != 0)
        return -1;
    free(d->image);
    d->image = calloc(1, s.bytes ? s.bytes : 1);
    d->image_bytes = s.bytes;
    return d->image ? clear_image(d) : -1;
}

static int start(struct gw_pm_device *d)
{
    GW_PM_INIT(gw_pm_object, p, object);
    p.object = d->object;
    if (CALL(d, cuptiPmSamplingStart, &p) != 0)
        return -1;
    d->is_started = 1;
    d->is_fresh = 1;
    d->typical_ns = 0;
    d->n_seen = 0;
    return 0;
}

static void stop(struct gw_pm_device *d)
{
    GW_PM_INIT(gw_pm_object, p, object);
    p.object = d->object;
    if (d->is_started)
        (void)d->libs->cupti.fn_cuptiPmSamplingStop(&p);
    d->is_started = 0;
}

static int enable(struct gw_pm_device *d)
{
    GW_PM_INIT(gw_pm_enable, e, object);
    e.device = (size_t)d->ordinal;
    if (CALL(d, cuptiPmSamplingEnable, &e) != 0)
        return -1;
    d->object = e.object;
    return set_config(d) == 0 && make_image(d) == 0 ? 0 : -1;
}

static void disable(struct gw_pm_device *d)
{
    if (d->object) {
        GW_PM_INIT(gw_pm_object, p, object);
        p.object = d->object;
        (void)d->libs->cupti.fn_cuptiPmSamplingDisable(&p);
    }
    d->object = NULL;
}

unsigned gw_pm_device_open(struct gw_pm_device *d, const struct gw_pm_libs *libs, int ordinal, uint64_t interval_ns)
{
    int capability = gw_pm_capability(libs, ordinal);
    d->libs = libs;
    d->ordinal = ordinal;
    d->interval_ns = interval_ns;
    d->by_clock = capability == 80; /* cupti_pmsampling.h: no trigger by time on GA100 */
    if (!d->buffer_bytes)
        d->buffer_bytes = GW_PM_BUFFER_BYTES;
    if (capability < 80) {
        d->call = NULL;
        return GW_PS_NOT_SUPPORTED;
    }
    unsigned state = choose_metrics(d);
    if (state == GW_PS_STARTING)
        state = enable(d) == 0 && start(d) == 0 ? GW_PS_RUNNING : gw_pm_state_of(d->result);
    if (state == GW_PS_RUNNING)
        return state;
    int result = d->result;
    const char *call = d->call;
    gw_pm_device_close(d, NULL, NULL);
    d->result = result;
    d->call = call;
    return state;
}

unsigned gw_pm_device_reopen(struct gw_pm_device *d, unsigned metrics, uint64_t interval_ns, gw_pm_sample_fn fn, void *user)
{
    gw_pm_device_close(d, fn, user);
    d->want = metrics;
    return gw_pm_device_open(d, d->libs, d->ordinal, interval_ns);
}

static int by_length(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* A sample that is longer or shorter than the others: the buffer was full before it, and its counts belong to a part of its time
 * only (seen on an H200: 4 % busy where it was 48 %). */
static int is_odd(struct gw_pm_device *d, uint64_t ns)
{
    if (d->n_seen < GW_PM_LEARN) {
        d->seen[d->n_seen++] = ns;
        if (d->n_seen == GW_PM_LEARN) {
            uint64_t sorted[GW_PM_LEARN];
            memcpy(sorted, d->seen, sizeof sorted);
            qsort(sorted, GW_PM_LEARN, sizeof *sorted, by_length);
            d->typical_ns = sorted[GW_PM_LEARN / 2];
        }
    }
    uint64_t usual = d->typical_ns ? d->typical_ns : d->interval_ns, room = d->by_clock ? usual : usual / 4; /* clocks vary */
    return ns > usual + room || ns < usual - (d->by_clock ? usual / 2 : room);
}

static int hand_over(struct gw_pm_device *d, size_t index, gw_pm_sample_fn fn, void *user)
{
    struct gw_pm_sample s;
    GW_PM_INIT(gw_pm_sample_info, i, end);
    i.object = d->object;
    i.image = d->image;
    i.bytes = d->image_bytes;
    i.index = index;
    if (CALL(d, cuptiPmSamplingCounterDataGetSampleInfo, &i) != 0)
        return -1;
    GW_PM_INIT(gw_pm_evaluate, e, values);
    e.host = d->host;
    e.image = d->image;
    e.bytes = d->image_bytes;
    e.index = index;
    e.names = counter_names;
    e.count = d->metrics;
    e.values = s.share;
    for (size_t k = 0; k < GW_PM_METRIC_COUNT; k++)
        s.share[k] = NAN;
    if (CALL(d, cuptiProfilerHostEvaluateToGpuValues, &e) != 0)
        return -1;
    if (d->is_fresh) {
        d->is_fresh = 0;
        return 0;
    }
    if (!d->has_offset) {
        int64_t away = (int64_t)gw_clock_ns(CLOCK_REALTIME) - (int64_t)i.end;
        d->offset_ns = away > OTHER_CLOCK || away < -OTHER_CLOCK ? away : 0;
        d->has_offset = 1;
    }
    s.start = (uint64_t)((int64_t)i.start + d->offset_ns);
    s.end = (uint64_t)((int64_t)i.end + d->offset_ns);
    d->samples++;
    if (i.end <= i.start || is_odd(d, i.end - i.start))
        d->overflows++;
    else if (fn)
        fn(user, &s);
    return 0;
}

long gw_pm_device_read(struct gw_pm_device *d, gw_pm_sample_fn fn, void *user)
{
    long got = 0;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        GW_PM_INIT(gw_pm_decode, p, overflow);
        p.object = d->object;
        p.image = d->image;
        p.bytes = d->image_bytes;
        if (CALL(d, cuptiPmSamplingDecodeData, &p) != 0)
            return -1;
        d->overflows += p.overflow != 0; /* with KEEP_LATEST it is never set (seen on an H200): see is_odd() */
        GW_PM_INIT(gw_pm_data_info, n, completed);
        n.image = d->image;
        n.bytes = d->image_bytes;
        if (CALL(d, cuptiPmSamplingGetCounterDataInfo, &n) != 0)
            return -1;
        for (size_t k = 0; k < n.completed && k < GW_PM_IMAGE_SAMPLES; k++, got++)
            if (hand_over(d, k, fn, user) != 0)
                return -1;
        if (n.populated && clear_image(d) != 0)
            return -1;
        if (p.reason != GW_PM_STOP_FULL)
            break;
    }
    d->call = NULL;
    d->result = 0;
    return got;
}

void gw_pm_device_close(struct gw_pm_device *d, gw_pm_sample_fn fn, void *user)
{
    if (d->object && d->is_started) {
        stop(d);
        if (fn)
            (void)gw_pm_device_read(d, fn, user);
    }
    disable(d);
    free_host(d);
    free(d->image);
    d->image = NULL;
    d->image_bytes = 0;
}
