/* proc_sink.c - see proc_sink.h */
#include "collect/proc/proc_sink.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int gw_sink_open(struct gw_sink *s, int dirfd)
{
    memset(s, 0, sizeof *s);
    s->w.fd = -1;
    s->names = gw_intern_create();
    if (!s->names)
        return GW_ENOMEM;
    int rc = gw_writer_open(&s->w, dirfd, GW_REC_META, GW_ROLE_HOST, (uint32_t)getpid(), 0);
    gw_sink_tick(s);
    return rc;
}

void gw_sink_close(struct gw_sink *s)
{
    gw_sink_flush(s);
    s->w.status.state = GW_RS_ENDED;
    s->w.status.spool_lost = s->lost;
    gw_writer_close(&s->w);
    gw_intern_destroy(s->names);
    s->names = NULL;
}

void gw_sink_tick(struct gw_sink *s)
{
    s->now = gw_clock_ns(CLOCK_REALTIME);
}

static void put(struct gw_sink *s, uint16_t type, size_t stride, const void *data, uint32_t *n)
{
    if (*n && gw_writer_append(&s->w, type, (uint16_t)stride, data, (uint32_t)(stride * *n)) < 0)
        s->lost += *n;
    else
        s->w.status.records += *n;
    *n = 0;
}

void gw_sink_flush(struct gw_sink *s)
{
    put(s, GW_RT_THREAD, sizeof *s->threads, s->threads, &s->n_threads);
    put(s, GW_RT_COUNTER, sizeof *s->counters, s->counters, &s->n_counters);
}

uint32_t gw_sink_string(struct gw_sink *s, const char *text)
{
    size_t len = strnlen(text, 4000);
    uint32_t before = gw_intern_count(s->names), id = gw_intern_add(s->names, text, len);
    if (id > before) {
        struct gw_rec_name_head h = {.space = GW_NS_STRING, .id = id};
        if (gw_writer_append2(&s->w, GW_RT_NAME, 1, &h, sizeof h, text, (uint32_t)len) < 0)
            s->lost++;
    }
    return id;
}

void gw_sink_thread(struct gw_sink *s, const struct gw_rec_thread *t)
{
    if (s->n_threads == sizeof s->threads / sizeof *s->threads)
        gw_sink_flush(s);
    s->threads[s->n_threads] = *t;
    s->threads[s->n_threads++].realtime_ns = s->now;
}

void gw_sink_counter(struct gw_sink *s, uint32_t name, int device, int pid, uint32_t item, double value)
{
    if (isnan(value) || !name)
        return;
    if (s->n_counters == sizeof s->counters / sizeof *s->counters)
        gw_sink_flush(s);
    s->counters[s->n_counters++] = (struct gw_rec_counter){
        .realtime_ns = s->now, .value = value, .name = name, .device = device, .pid = (uint32_t)pid, .item = item};
}

void gw_sink_process(struct gw_sink *s, const struct gw_rec_process *p)
{
    struct gw_rec_process r = *p;
    r.realtime_ns = s->now;
    if (gw_writer_append(&s->w, GW_RT_PROCESS, sizeof r, &r, sizeof r) < 0)
        s->lost++;
}

void gw_sink_fact(struct gw_sink *s, const char *key, const char *value)
{
    char line[1200];
    int n = snprintf(line, sizeof line - 1, "%.150s=%.1000s", key, value);
    for (int i = 0; i < n; i++)
        if ((unsigned char)line[i] < ' ')
            line[i] = ' ';
    line[n++] = '\n';
    if (gw_writer_append(&s->w, GW_RT_FACT, 1, line, (uint32_t)n) < 0)
        s->lost++;
}

void gw_sink_factf(struct gw_sink *s, const char *key, const char *fmt, ...)
{
    char value[1001];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(value, sizeof value, fmt, ap);
    va_end(ap);
    gw_sink_fact(s, key, value);
}
