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
 *     gw_pm_device_close(&d);
 */
#ifndef GW_PM_DEVICE_H
#define GW_PM_DEVICE_H

#include "collect/pm/pm_load.h"

/* Raw samples wait here, in memory of the host. A sample of an H100-class GPU takes some KiB to some tens of KiB (CUPTI's own
 * image needs about 18 KiB a sample), and we come by every 200 samples: room for several times that. */
#define GW_PM_BUFFER_BYTES (16u << 20)
#define GW_PM_IMAGE_SAMPLES 256u /* decoded at once; about 18 KiB each */

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
    int64_t offset_ns;      /* added to CUPTI's stamps */
    int has_offset;
    uint64_t samples, overflows;
    int result;             /* of the last call that failed */
    const char *call;       /* that call, NULL none */
};

/* GW_PS_RUNNING, or why not; then nothing is left to close. Clear `d` before; `want` and `buffer_bytes` may be set. */
unsigned gw_pm_device_open(struct gw_pm_device *d, const struct gw_pm_libs *libs, int ordinal, uint64_t interval_ns);
/* Another interval: a short hole in the samples. 0, or -1 with result and call set. */
int gw_pm_device_pace(struct gw_pm_device *d, uint64_t interval_ns);
/* Hands over all samples that are ready, oldest first. Their number, or -1 with result and call set. */
long gw_pm_device_read(struct gw_pm_device *d, gw_pm_sample_fn fn, void *user);
/* Stops, hands over the rest (`fn` may be NULL), gives all back. Idempotent. */
void gw_pm_device_close(struct gw_pm_device *d, gw_pm_sample_fn fn, void *user);

#endif
