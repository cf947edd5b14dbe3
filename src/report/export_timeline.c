/* The timeline in the trace event format: one process for each GPU and for each process of the host. Its times are
 * microseconds; three decimals keep the nanoseconds. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/gw_i18n.h"
#include "report/export.h"
#include "report/json_writer.h"

/* Threads of a GPU's process that are not streams; streams come after them. */
enum { TID_WHY = 1, TID_STEPS, TID_HOST_DOES, TID_STREAMS };

struct out {
    const struct gw_analysis *an;
    struct gw_json j;
    int64_t zero;
    const struct gw_export_options *o;
    int64_t *lane_pid, *lane_tid; /* of each lane */
};

int64_t gw_export_zero(const struct gw_analysis *an)
{
    int64_t zero = INT64_MAX;
    for (size_t i = 0; i < gw_trace_count(an->t); i++) {
        const struct gw_event *e = gw_ev(an, (uint32_t)i);
        if (e->start < zero && !(e->flags & GW_EV_DROPPED) && (gw_kind_is_gpu(e->kind) || gw_kind_is_host(e->kind)))
            zero = e->start;
    }
    return zero == INT64_MAX ? 0 : zero;
}

static void begin(struct out *w, const char *ph, const char *name, int64_t pid, int64_t tid)
{
    gw_json_row(&w->j, NULL);
    gw_json_string(&w->j, "ph", ph);
    gw_json_string(&w->j, "name", name && *name ? name : "(no name)");
    gw_json_int(&w->j, "pid", pid);
    gw_json_int(&w->j, "tid", tid);
}

static void span(struct out *w, const char *name, const char *cat, int64_t pid, int64_t tid, int64_t start, int64_t end)
{
    begin(w, "X", name, pid, tid);
    gw_json_string(&w->j, "cat", cat);
    gw_json_thousandths(&w->j, "ts", start - w->zero);
    gw_json_thousandths(&w->j, "dur", end - start);
}

static void meta(struct out *w, const char *what, int64_t pid, int64_t tid, const char *name)
{
    begin(w, "M", what, pid, tid);
    gw_json_object(&w->j, "args");
    gw_json_string(&w->j, "name", name);
    gw_json_end(&w->j);
    gw_json_end(&w->j);
}

static void order_meta(struct out *w, const char *what, int64_t pid, int64_t tid, int64_t index)
{
    begin(w, "M", what, pid, tid);
    gw_json_object(&w->j, "args");
    gw_json_int(&w->j, "sort_index", index);
    gw_json_end(&w->j);
    gw_json_end(&w->j);
}

const char *gw_export_name(const struct gw_analysis *an, uint32_t event)
{
    return event == GW_NONE ? NULL : gw_ev_name(an, event);
}

const char *gw_export_range(const struct gw_analysis *an, uint32_t event)
{
    const char *name = NULL;
    for (uint32_t u = event == GW_NONE ? GW_NONE : gw_ev(an, event)->up; u != GW_NONE; u = gw_ev(an, u)->up)
        if (!(gw_ev_info(an, u)->ctx & GW_CTX_STEP))
            name = gw_ev_name(an, u);
    return name;
}

/* ---- one GPU ---- */

static void why_idle(struct out *w, const struct gw_dev *d, int64_t pid)
{
    for (size_t g = 0; g < d->ngaps; g++) {
        int64_t at = d->gaps[g].start;
        for (uint32_t k = 0; k < d->gaps[g].pieces; k++) {
            const struct gw_piece *p = d->pieces + d->gaps[g].first_piece + k;
            span(w, gw_cause_id(p->cause), "idle", pid, TID_WHY, at, at + p->ns);
            gw_json_object(&w->j, "args");
            gw_json_string(&w->j, "why", _(gw_cause_text(p->cause)));
            gw_json_string(&w->j, "culprit", gw_export_name(w->an, p->culprit));
            gw_json_string(&w->j, "under", gw_export_range(w->an, p->culprit));
            gw_json_string(&w->j, "ended_by", gw_export_name(w->an, d->gaps[g].next_op));
            gw_json_string(&w->j, "issued_by", gw_export_name(w->an, d->gaps[g].call));
            gw_json_int(&w->j, "gap_ns", d->gaps[g].end - d->gaps[g].start);
            gw_json_end(&w->j);
            gw_json_end(&w->j);
            at += p->ns;
        }
    }
}

static void steps(struct out *w, int64_t pid)
{
    const struct gw_steps *s = &w->an->steps;
    for (size_t i = 0; i < s->count; i++) {
        char name[48];
        snprintf(name, sizeof name, "step %zu", i);
        span(w, name, "step", pid, TID_STEPS, s->bound[i], s->bound[i + 1]);
        gw_json_object(&w->j, "args");
        gw_json_bool(&w->j, "steady", i >= s->steady_first && i < s->steady_last);
        gw_json_end(&w->j);
        gw_json_end(&w->j);
    }
}

static void host_does(struct out *w, const struct gw_dev *d, int64_t pid)
{
    for (size_t i = 0; i < d->nruns; i++) {
        const struct gw_run *r = d->runs + i;
        span(w, r->label == GW_HOST_QUEUE_FULL ? "queue-full" : gw_cause_id(r->label), "host", pid, TID_HOST_DOES,
             r->start, r->end);
        gw_json_object(&w->j, "args");
        gw_json_string(&w->j, "doing",
                       r->label == GW_HOST_QUEUE_FULL ? _("held in a launch: the GPU's queue is full")
                                                      : _(gw_cause_text(r->label)));
        gw_json_string(&w->j, "in", gw_export_name(w->an, r->leaf));
        gw_json_end(&w->j);
        gw_json_end(&w->j);
    }
}

static void operations(struct out *w, const struct gw_dev *d)
{
    for (size_t i = 0; i < d->nops; i++) {
        const struct gw_event *e = gw_ev(w->an, d->ops[i]);
        span(w, gw_ev_name(w->an, d->ops[i]), gw_kind_name(e->kind), w->lane_pid[e->lane], w->lane_tid[e->lane],
             e->start, e->end);
        gw_json_object(&w->j, "args");
        if (e->kind == GW_KIND_KERNEL)
            gw_json_string(&w->j, "class", gw_kclass_name(w->an->names[e->name].kclass));
        if ((e->kind == GW_KIND_COPY || e->kind == GW_KIND_SET) && (e->flags & GW_EV_HAS_ARG0))
            gw_json_uint(&w->j, "bytes", e->arg0);
        if (e->link != GW_NONE)
            gw_json_string(&w->j, "issued_by", gw_ev_name(w->an, e->link));
        gw_json_end(&w->j);
        gw_json_end(&w->j);
    }
}

static int cmp_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* How many operations were issued and had not begun: 0 means that the GPU has nothing to go on with. */
static int queue(struct out *w, const struct gw_dev *d, int64_t pid)
{
    size_t n = 0, i = 0, k = 0;
    int64_t *issued = calloc(d->nops + 1, sizeof *issued), *begun = calloc(d->nops + 1, sizeof *begun), last = -1;
    if (!issued || !begun) {
        free(issued);
        free(begun);
        return GW_ENOMEM;
    }
    for (size_t q = 0; q < d->nops; q++) {
        const struct gw_event *e = gw_ev(w->an, d->ops[q]);
        if (e->link == GW_NONE || gw_ev(w->an, e->link)->start > e->start)
            continue;
        issued[n] = gw_ev(w->an, e->link)->start;
        begun[n++] = e->start;
    }
    if (n) {
        qsort(issued, n, sizeof *issued, cmp_i64);
        qsort(begun, n, sizeof *begun, cmp_i64);
    }
    while (k < n) {
        int64_t at = i < n && issued[i] < begun[k] ? issued[i] : begun[k];
        for (; i < n && issued[i] == at; i++)
            ;
        for (; k < n && begun[k] == at; k++)
            ;
        if ((int64_t)(i - k) == last)
            continue;
        last = (int64_t)(i - k);
        begin(w, "C", "issued, not begun", pid, 0);
        gw_json_thousandths(&w->j, "ts", at - w->zero);
        gw_json_object(&w->j, "args");
        gw_json_int(&w->j, "operations", last);
        gw_json_end(&w->j);
        gw_json_end(&w->j);
    }
    free(issued);
    free(begun);
    return GW_OK;
}

static int gpu(struct out *w, size_t i)
{
    const struct gw_dev *d = w->an->dev + i;
    int64_t pid = (int64_t)i + 1;
    char name[300];
    snprintf(name, sizeof name, "GPU %" PRId64 " %.200s", d->info->id, gw_trace_text(w->an->t, d->info->name));
    meta(w, "process_name", pid, 0, name);
    order_meta(w, "process_sort_index", pid, 0, pid);
    meta(w, "thread_name", pid, TID_WHY, _("why idle"));
    if (i == w->an->main && w->an->steps.count)
        meta(w, "thread_name", pid, TID_STEPS, _("steps"));
    meta(w, "thread_name", pid, TID_HOST_DOES, _("what the launching host does"));
    for (size_t l = 0; l < w->an->t->lanes.len; l++) {
        const struct gw_lane *lane = gw_trace_lane(w->an->t, (uint32_t)l);
        if (lane->type != GW_LANE_GPU || w->lane_pid[l] != pid || !lane->count)
            continue;
        snprintf(name, sizeof name, "stream %" PRId64, lane->stream);
        meta(w, "thread_name", pid, w->lane_tid[l], lane->name ? gw_trace_text(w->an->t, lane->name) : name);
    }
    for (int64_t tid = TID_WHY; tid < TID_STREAMS; tid++)
        order_meta(w, "thread_sort_index", pid, tid, tid);
    why_idle(w, d, pid);
    if (i == w->an->main)
        steps(w, pid);
    host_does(w, d, pid);
    operations(w, d);
    return queue(w, d, pid);
}

/* ---- host and counters ---- */

static int shown(const struct out *w, const struct gw_event *e)
{
    if (e->flags & GW_EV_DROPPED)
        return 0;
    return e->kind == GW_KIND_ANNOT || (w->o->host && gw_kind_is_host(e->kind));
}

static void arrow(struct out *w, const char *ph, uint32_t id, int64_t pid, int64_t tid, int64_t at)
{
    begin(w, ph, "launch", pid, tid);
    gw_json_string(&w->j, "cat", "launch");
    gw_json_uint(&w->j, "id", id);
    if (*ph == 'f')
        gw_json_string(&w->j, "bp", "e");
    gw_json_thousandths(&w->j, "ts", at - w->zero);
    gw_json_end(&w->j);
}

static void host_lane(struct out *w, uint32_t l)
{
    const struct gw_lane *lane = gw_trace_lane(w->an->t, l);
    char name[300];
    int any = 0;
    for (size_t i = 0; i < lane->count; i++) {
        const struct gw_event *e = gw_ev(w->an, lane->order[i]);
        if (!shown(w, e))
            continue;
        if (!any++) {
            snprintf(name, sizeof name, _("host process %" PRId64), lane->pid);
            meta(w, "process_name", w->lane_pid[l], 0, name);
            order_meta(w, "process_sort_index", w->lane_pid[l], 0, w->lane_pid[l]);
            snprintf(name, sizeof name, _("thread %" PRId64), lane->tid);
            meta(w, "thread_name", w->lane_pid[l], w->lane_tid[l],
                 lane->name ? gw_trace_text(w->an->t, lane->name) : name);
        }
        span(w, gw_ev_name(w->an, lane->order[i]), gw_kind_name(e->kind), w->lane_pid[l], w->lane_tid[l], e->start,
             e->end);
        gw_json_end(&w->j);
        if (e->kind != GW_KIND_API || e->link == GW_NONE)
            continue;
        const struct gw_event *op = gw_ev(w->an, e->link);
        arrow(w, "s", lane->order[i], w->lane_pid[l], w->lane_tid[l], e->start);
        arrow(w, "f", lane->order[i], w->lane_pid[op->lane], w->lane_tid[op->lane], op->start);
    }
}

static void counters(struct out *w)
{
    for (size_t i = 0; i < gw_trace_count(w->an->t); i++) {
        const struct gw_event *e = gw_ev(w->an, (uint32_t)i);
        double v;
        if (e->kind != GW_KIND_COUNTER || !(e->flags & GW_EV_HAS_ARG0) || (e->flags & GW_EV_DROPPED))
            continue;
        memcpy(&v, &e->arg0, sizeof v);
        begin(w, "C", gw_ev_name(w->an, (uint32_t)i), w->lane_pid[e->lane], 0);
        gw_json_thousandths(&w->j, "ts", e->start - w->zero);
        gw_json_object(&w->j, "args");
        gw_json_double(&w->j, "value", v);
        gw_json_end(&w->j);
        gw_json_end(&w->j);
    }
}

/* Numbers for processes and threads: GPUs from 1, then the host's processes in order of sight. The true ids are in the
 * names; as numbers they could collide. */
static int number_lanes(struct out *w)
{
    size_t n = w->an->t->lanes.len;
    int64_t next = (int64_t)w->an->ndev + 1;
    w->lane_pid = calloc(n + 1, sizeof *w->lane_pid);
    w->lane_tid = calloc(n + 1, sizeof *w->lane_tid);
    if (!w->lane_pid || !w->lane_tid)
        return GW_ENOMEM;
    for (size_t l = 0; l < n; l++) {
        const struct gw_lane *a = gw_trace_lane(w->an->t, (uint32_t)l);
        w->lane_tid[l] = TID_STREAMS + (int64_t)l;
        if (a->type != GW_LANE_HOST)
            for (size_t i = 0; i < w->an->ndev; i++)
                if (w->an->dev[i].info->id == a->device)
                    w->lane_pid[l] = (int64_t)i + 1;
        for (size_t k = 0; k < l && !w->lane_pid[l]; k++) {
            const struct gw_lane *b = gw_trace_lane(w->an->t, (uint32_t)k);
            if (a->type == b->type && a->pid == b->pid && a->device == b->device)
                w->lane_pid[l] = w->lane_pid[k];
        }
        if (!w->lane_pid[l])
            w->lane_pid[l] = next++;
    }
    return GW_OK;
}

static void other_data(struct out *w)
{
    const struct gw_trace *t = w->an->t;
    const struct gw_source *s = t->sources.data;
    gw_json_object(&w->j, "otherData");
    gw_json_string(&w->j, "tool", "gpuwhy " GW_VERSION);
    gw_json_string(&w->j, "source", t->sources.len ? s->path : "");
    gw_json_int(&w->j, "zero_ns", w->zero); /* on the recording's clock */
    gw_json_end(&w->j);
}

int gw_export_timeline(const struct gw_analysis *an, FILE *out, const struct gw_export_options *o)
{
    struct out w = {.an = an, .j = gw_json_begin(out), .zero = gw_export_zero(an), .o = o};
    int rc = number_lanes(&w);
    if (rc < 0)
        goto out;
    gw_json_object(&w.j, NULL);
    gw_json_string(&w.j, "displayTimeUnit", "ns");
    other_data(&w);
    gw_json_array(&w.j, "traceEvents");
    for (size_t i = 0; i < an->ndev && rc == GW_OK; i++)
        rc = gpu(&w, i);
    for (uint32_t l = 0; l < an->t->lanes.len; l++)
        if (gw_trace_lane(an->t, l)->type == GW_LANE_HOST)
            host_lane(&w, l);
    counters(&w);
    gw_json_end(&w.j);
    gw_json_end(&w.j);
    if (rc == GW_OK)
        rc = fflush(out) == 0 && !ferror(out) ? GW_OK : GW_EIO;
out:
    free(w.lane_pid);
    free(w.lane_tid);
    return rc;
}
