/*
 * pm_device.h - PM sampling on one GPU: hardware counters read at a fixed interval, whoever uses the GPU.
 *
 * The hardware writes raw samples into a buffer of its own; gw_pm_device_read() decodes what is there. Memory is bounded: one
 * hardware buffer and one image of some samples, both taken at open. Only one process of the machine can sample a GPU.
 * One thread for all devices of a process.
 *
 *     struct gw_pm_device d;
 *     if (gw_pm_device_open(&d, &libs, ordinal, 200000) == GW_PS_RUNNING)
 *         while (gw_pm_device_read(&d, take, user) >= 0) sleep_a_little();
 *     gw_pm_device_close(&d, take, user);          what is still in the buffer goes to take() first; NULL: it is dropped
 */
#ifndef GW_PM_DEVICE_H
#define GW_PM_DEVICE_H

#include "collect/pm/pm_load.h"

/* Raw samples wait here, in memory of the host: on an H200 16 MiB held some 290 samples of four metrics (54 KiB each), and we come
 * by every 100 samples. A decoded sample takes 0.6, 7.6, 12, 31 KiB with one, two, three, four metrics there. */
#define GW_PM_BUFFER_BYTES (16u << 20)
#define GW_PM_IMAGE_SAMPLES 128u /* decoded at once */
enum { GW_PM_LEARN = 15 };       /* lengths from which the true interval is learned after a start */

struct gw_pm_sample {
    uint64_t start, end; /* CLOCK_REALTIME, ns */
    double share[GW_PM_METRIC_COUNT]; /* percent; NAN not measured */
};
typedef void (*gw_pm_sample_fn)(void *user, const struct gw_pm_sample *s);

struct gw_pm_device {
    const struct gw_pm_libs *libs;
    int ordinal;
    void *host, *object;    /* CUPTI's */
    uint8_t *config, *image;
    size_t config_bytes, image_bytes;
    size_t buffer_bytes;    /* of the hardware buffer; set before open to override the default */
    unsigned metrics;       /* how many of enum gw_pm_metric are counted, from the first on */
    unsigned want;          /* at most so many; 0 = all */
    uint64_t interval_ns;
    int by_clock;           /* 1: the interval is in clock cycles (GA100), about right only */
    int is_started;
    int is_fresh;           /* the next sample spans the start: it is dropped */
    uint64_t typical_ns;    /* length of a sample as it comes; 0 = not learned yet, the interval is believed */
    uint64_t seen[GW_PM_LEARN];
    unsigned n_seen;
    int64_t offset_ns;      /* added to CUPTI's stamps */
    int has_offset;
    uint64_t samples;
    uint64_t overflows;     /* samples that span what the hardware could not keep: their counts are not of their time */
    int result;             /* of the last call that failed */
    const char *call;       /* that call, NULL none */
};

/* GW_PS_RUNNING, or why not; then nothing is left to close. Clear `d` before; `want` and `buffer_bytes` may be set. */
unsigned gw_pm_device_open(struct gw_pm_device *d, const struct gw_pm_libs *libs, int ordinal, uint64_t interval_ns);
/* From the beginning, with another interval or number of metrics (0 = as many as fit): a hole of some 0.3 s. CUPTI 13.0 takes
 * another interval on a sampler that is enabled, without an error, and goes on with the old one. Hands over what is left before.
 * As gw_pm_device_open(). */
unsigned gw_pm_device_reopen(struct gw_pm_device *d, unsigned metrics, uint64_t interval_ns, gw_pm_sample_fn fn, void *user);
/* Hands over all samples that are ready, oldest first. Their number, or -1 with result and call set. */
long gw_pm_device_read(struct gw_pm_device *d, gw_pm_sample_fn fn, void *user);
/* Stops, hands over the rest (`fn` may be NULL), gives all back. Idempotent. */
void gw_pm_device_close(struct gw_pm_device *d, gw_pm_sample_fn fn, void *user);

#endif
