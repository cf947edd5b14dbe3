/*
 * record_dump.c - prints one record file for the tests: a line of totals as "key=value" words, and with -v every name,
 * window, fact, process and device.
 *
 *     record_dump [-v] FILE
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "record/record_read.h"

static uint64_t count[32];

static void names(const struct gw_chunk *c) {
    struct gw_rec_name_head h;
    if (c->bytes < sizeof h)
        return;
    memcpy(&h, c->data, sizeof h);
    printf("name space=%u id=%u %.*s\n", h.space, h.id, (int)(c->bytes - sizeof h), (const char *)c->data + sizeof h);
}

static void windows(const struct gw_chunk *c) {
    for (uint32_t i = 0; i < c->count; i++) {
        struct gw_rec_window w;
        gw_chunk_get(c, i, &w, sizeof w);
        printf("window what=%u number=%u reason=%u requested=%u t=%" PRIu64 "\n", w.what, w.number, w.reason, w.requested,
               w.realtime_ns);
    }
}

static void others(const struct gw_chunk *c) {
    if (c->type == GW_RT_FACT)
        printf("%.*s", (int)c->bytes, (const char *)c->data);
    for (uint32_t i = 0; c->type == GW_RT_DEVICE && i < c->count; i++) {
        struct gw_rec_device d;
        gw_chunk_get(c, i, &d, sizeof d);
        printf("device ordinal=%u name=%s sms=%d cc=%d.%d memory=%" PRId64 "\n", d.ordinal, d.name, d.sm_count, d.cc_major,
               d.cc_minor, d.memory_bytes);
    }
    for (uint32_t i = 0; c->type == GW_RT_PROCESS && i < c->count; i++) {
        struct gw_rec_process p;
        gw_chunk_get(c, i, &p, sizeof p);
        printf("process what=%u pid=%u ppid=%u flags=%u name=%u comm=%u\n", p.what, p.pid, p.ppid, p.flags, p.name, p.comm);
    }
    for (uint32_t i = 0; c->type == GW_RT_COUNTER && i < c->count; i++) {
        struct gw_rec_counter n;
        gw_chunk_get(c, i, &n, sizeof n);
        printf("counter name=%u device=%d pid=%u item=%u value=%g\n", n.name, n.device, n.pid, n.item, n.value);
    }
    for (uint32_t i = 0; c->type == GW_RT_ACTIVITY && i < c->count; i++) {
        struct gw_rec_activity a;
        gw_chunk_get(c, i, &a, sizeof a);
        printf("activity device=%d start=%" PRIu64 " ns=%" PRIu64 " samples=%u", a.device, a.start, a.end - a.start, a.samples);
        for (unsigned k = 0; k < GW_PM_METRIC_COUNT; k++)
            printf(" %s=%.2f", gw_pm_metric_id(k), a.share[k] == GW_PM_NO_SHARE ? -1 : a.share[k] / 100.0);
        printf("\n");
    }
    for (uint32_t i = 0; c->type == GW_RT_PM && i < c->count; i++) {
        struct gw_rec_pm p;
        gw_chunk_get(c, i, &p, sizeof p);
        printf("pm device=%d state=%s result=%d cupti=%u interval_us=%.0f metrics=%#x samples=%" PRIu64 " overflows=%" PRIu64
               " cpu_s=%.3f rss_mib=%.0f call=%.48s\n",
               p.device, gw_pm_state_id(p.state), p.result, p.cupti_version, p.interval_ns / 1e3, p.metrics, p.samples, p.overflows,
               (double)p.cpu_ns * 1e-9, (double)p.rss_bytes / 1048576, p.call);
    }
    for (uint32_t i = 0; c->type == GW_RT_THREAD && i < c->count; i++) {
        struct gw_rec_thread t;
        gw_chunk_get(c, i, &t, sizeof t);
        printf("thread pid=%u tid=%u state=%c syscall=%d wchan=%u comm=%u stack=%u cpu=%" PRIu64 " wait=%" PRIu64 " call=%u\n", t.pid,
               t.tid, t.state, t.syscall, t.wchan, t.comm, t.stack, t.cpu_ns, t.wait_ns, t.call);
    }
}

int main(int argc, char **argv) {
    int verbose = argc > 2 && strcmp(argv[1], "-v") == 0;
    struct gw_reader r;
    struct gw_error err = {0};
    char line[800];
    if (argc < 2)
        return 2;
    if (gw_reader_open(&r, argv[argc - 1], &err) < 0) {
        printf("error %s\n", gw_error_text(&err, line, sizeof line));
        return 1;
    }
    struct gw_chunk c;
    uint64_t launches = 0, kernel_ns = 0, called[GW_CALL_COUNT] = {0}, slack = 0, fresh = 0;
    while (gw_reader_next(&r, &c)) {
        count[c.type < 32 ? c.type : 0] += c.count;
        if (c.type == GW_RT_NAME && verbose)
            names(&c);
        if (c.type == GW_RT_WINDOW && verbose)
            windows(&c);
        if (verbose)
            others(&c);
        for (uint32_t i = 0; c.type == GW_RT_API && i < c.count; i++) {
            struct gw_rec_api a;
            gw_chunk_get(&c, i, &a, sizeof a);
            launches += a.domain == GW_NS_RUNTIME && a.cbid == 211;
        }
        for (uint32_t i = 0; c.type == GW_RT_KERNEL && i < c.count; i++) {
            struct gw_rec_kernel k;
            gw_chunk_get(&c, i, &k, sizeof k);
            kernel_ns += k.end - k.start;
        }
        for (uint32_t i = 0; c.type == GW_RT_CALLS && i < c.count; i++) {
            struct gw_rec_calls a;
            gw_chunk_get(&c, i, &a, sizeof a);
            slack += a.slack_ns;
            fresh += a.fresh;
            for (unsigned k = 1; k < GW_CALL_COUNT; k++)
                called[k] += a.count[k];
        }
    }
    const struct gw_rec_status *s = &r.head.status;
    printf("total role=%u pid=%u state=%s result=%d cupti=%u windows=%u records=%" PRIu64 " filtered=%" PRIu64 " dropped=%" PRIu64
           " overflow=%" PRIu64 " unfinished=%" PRIu64 " unknown=%" PRIu64 " spool_lost=%" PRIu64 " window_ns=%" PRIu64
           " kernels=%" PRIu64 " kernel_ns=%" PRIu64 " copies=%" PRIu64 " sets=%" PRIu64 " api=%" PRIu64 " launches=%" PRIu64 " syncs=%" PRIu64
           " devices=%" PRIu64 " threads=%" PRIu64 " counters=%" PRIu64 " processes=%" PRIu64 " activities=%" PRIu64 " damaged=%" PRIu64
           " missing=%" PRIu64 " torn=%d ended=%d called_launch=%" PRIu64 " called_wait=%" PRIu64 " called_graph=%" PRIu64 " called_copy=%" PRIu64 " called_read=%" PRIu64 " slack_ns=%" PRIu64
           " called_fresh=%" PRIu64 " cost_ppm=%u\n",
           r.head.role, r.head.pid, gw_rec_state_id(s->state), s->cupti_result, s->cupti_version, s->windows, s->records, s->filtered,
           s->dropped, s->overflow, s->unfinished, s->unknown, s->spool_lost, s->window_ns, count[GW_RT_KERNEL], kernel_ns,
           count[GW_RT_COPY], count[GW_RT_SET], count[GW_RT_API], launches, count[GW_RT_SYNC], count[GW_RT_DEVICE],
           count[GW_RT_THREAD], count[GW_RT_COUNTER], count[GW_RT_PROCESS], count[GW_RT_ACTIVITY], r.damaged, r.missing, r.torn, r.ended,
           called[GW_CALL_LAUNCH], called[GW_CALL_WAIT], called[GW_CALL_GRAPH], called[GW_CALL_COPY], called[GW_CALL_READ], slack, fresh, s->launch_cost_ppm);
    gw_reader_close(&r);
    return 0;
}
