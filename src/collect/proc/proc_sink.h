/*
 * proc_sink.h - where the samplers put what they see: the recorder's own file, with strings written once.
 *
 * One thread. Thread samples and counters are gathered and written together by gw_sink_flush(), which the recorder
 * calls after each tick, so that a kill -9 loses one tick at most. When the file cannot be written (disk full) the
 * sink counts what it lost and goes on accepting.
 *
 *     struct gw_sink s;
 *     gw_sink_open(&s, dirfd);
 *     gw_sink_counter(&s, gw_sink_string(&s, "nvml.power_w"), 0, 0, 0, 312.5);
 *     gw_sink_flush(&s);
 *     gw_sink_close(&s);
 */
#ifndef GW_PROC_SINK_H
#define GW_PROC_SINK_H

#include "base/gw_error.h"
#include "base/gw_intern.h"
#include "record/record_write.h"

struct gw_sink {
    struct gw_writer w;
    struct gw_intern *names;
    uint64_t now;      /* CLOCK_REALTIME, ns: the stamp of what is put in; set by gw_sink_tick() */
    uint64_t lost;     /* samples that could not be written */
    struct gw_rec_thread threads[256];
    struct gw_rec_counter counters[512];
    uint32_t n_threads, n_counters;
};

int gw_sink_open(struct gw_sink *s, int dirfd); /* 0 or -errno */
void gw_sink_close(struct gw_sink *s);
void gw_sink_tick(struct gw_sink *s);           /* takes the time for what follows */
void gw_sink_flush(struct gw_sink *s);

/* Id of a string; 0 for "" and when out of memory. Long strings are cut at 4000 bytes. */
uint32_t gw_sink_string(struct gw_sink *s, const char *text);
void gw_sink_thread(struct gw_sink *s, const struct gw_rec_thread *t); /* realtime_ns is filled in */
/* `device` -1, `pid` 0 and `item` 0 = not of a device, a process or an item. NAN is not written: a missing value is absent. */
void gw_sink_counter(struct gw_sink *s, uint32_t name, int device, int pid, uint32_t item, double value);
void gw_sink_process(struct gw_sink *s, const struct gw_rec_process *p); /* realtime_ns is filled in */
/* "key=value"; control characters become blanks, the value is cut at 1000 bytes. */
void gw_sink_fact(struct gw_sink *s, const char *key, const char *value);
void gw_sink_factf(struct gw_sink *s, const char *key, const char *fmt, ...) GW_PRINTF(3, 4);

#endif
