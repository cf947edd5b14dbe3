#include "engine/timeline.h"

enum { COMPUTE, COMM, COPY, CLASSES };

static int class_of(const struct gw_event *e, const struct gw_name_info *names)
{
    if (e->kind == GW_KIND_COPY || e->kind == GW_KIND_SET)
        return COPY;
    return e->kind == GW_KIND_KERNEL && names[e->name].kclass == GW_K_COMM ? COMM : COMPUTE;
}

int gw_timeline_span(const struct gw_trace *t, const uint32_t *ops, size_t n, int64_t *w0, int64_t *w1)
{
    if (!n)
        return 0;
    *w0 = gw_trace_event(t, ops[0])->start;
    *w1 = *w0;
    for (size_t i = 0; i < n; i++)
        if (gw_trace_event(t, ops[i])->end > *w1)
            *w1 = gw_trace_event(t, ops[i])->end;
    return 1;
}

/* Accounts [from, to), in which nothing starts: only the ends of what runs can change the state. */
static int64_t advance(struct gw_partition *p, const int64_t until[CLASSES], int64_t from, int64_t to)
{
    int64_t idle_from = to; /* times may be negative: no number but the end can say "none" */
    while (from < to) {
        int64_t next = to;
        int on[CLASSES];
        for (int c = 0; c < CLASSES; c++) {
            on[c] = until[c] > from;
            if (on[c] && until[c] < next)
                next = until[c];
        }
        int64_t ns = next - from;
        if (on[COMPUTE]) {
            p->compute += ns;
            p->comm_hidden += on[COMM] ? ns : 0;
            p->copy_hidden += on[COPY] ? ns : 0;
        } else if (on[COMM]) {
            p->comm_exposed += ns;
            p->copy_hidden += on[COPY] ? ns : 0;
        } else if (on[COPY]) {
            p->copy_exposed += ns;
        } else {
            p->idle += ns;
            idle_from = from;
        }
        from = next;
    }
    return idle_from; /* start of the idle tail, or `to`: once idle, nothing but a start ends it */
}

struct gw_partition gw_timeline_partition(const struct gw_trace *t, const struct gw_name_info *names,
                                          const uint32_t *ops, size_t n, int64_t w0, int64_t w1, gw_idle_fn *idle,
                                          void *user)
{
    struct gw_partition p = {.start = w0, .end = w1, .wall = w1 - w0};
    int64_t until[CLASSES] = {w0, w0, w0}, now = w0;
    for (size_t i = 0; i <= n && now < w1; i++) {
        const struct gw_event *e = i < n ? gw_trace_event(t, ops[i]) : NULL;
        int64_t at = e && e->start < w1 ? e->start : w1;
        if (at > now) {
            int64_t gap = advance(&p, until, now, at);
            if (gap < at && idle)
                idle(user, gap, at, e && e->start < w1 ? i : n);
            now = at;
        }
        if (!e || e->start >= w1)
            break;
        p.ops += e->start >= w0;
        int c = class_of(e, names);
        if (e->end > until[c])
            until[c] = e->end;
    }
    return p;
}
