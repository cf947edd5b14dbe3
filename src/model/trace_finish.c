/* Sorting, nesting and linking: from "events in the order of the file" to "a timeline one can walk". */
#include <stdlib.h>
#include <string.h>

#include "model/trace.h"

struct gw_finish {
    struct gw_trace *t;
    struct gw_event *ev;
    uint32_t *order;   /* by lane */
    uint32_t *scratch; /* as long as `order` */
};

/* Host events nest: at one start the longer one is outside. */
static int before(const struct gw_event *ev, uint32_t a, uint32_t b)
{
    const struct gw_event *x = ev + a, *y = ev + b;
    if (x->start != y->start)
        return x->start < y->start;
    if (x->end != y->end && gw_kind_is_host(x->kind))
        return x->end > y->end;
    return a < b;
}

/* Bottom-up merge sort over natural runs: traces are nearly sorted, so this is mostly one pass of comparisons. */
static void sort_order(const struct gw_event *ev, uint32_t *a, uint32_t *tmp, size_t n)
{
    if (n < 2)
        return;
    for (;;) {
        size_t runs = 0, i = 0;
        while (i < n) {
            size_t mid = i + 1;
            while (mid < n && !before(ev, a[mid], a[mid - 1]))
                mid++;
            if (mid == n) {
                if (i == 0)
                    return; /* one run: sorted */
                memcpy(tmp + i, a + i, (n - i) * sizeof *a);
                runs++;
                break;
            }
            size_t end = mid + 1;
            while (end < n && !before(ev, a[end], a[end - 1]))
                end++;
            size_t l = i, r = mid, o = i;
            while (l < mid && r < end)
                tmp[o++] = before(ev, a[r], a[l]) ? a[r++] : a[l++];
            memcpy(tmp + o, a + l, (mid - l) * sizeof *a);
            o += mid - l;
            memcpy(tmp + o, a + r, (end - r) * sizeof *a);
            i = end;
            runs++;
        }
        memcpy(a, tmp, n * sizeof *a);
        if (runs <= 1)
            return;
    }
}

/* Counting sort of event numbers by lane; then each lane by time. */
static int order_lanes(struct gw_finish *f)
{
    struct gw_trace *t = f->t;
    size_t n = t->events.len, lanes = t->lanes.len;
    size_t *at = calloc(lanes + 1, sizeof *at);
    if (!at)
        return GW_ENOMEM;
    for (size_t i = 0; i < n; i++)
        if (f->ev[i].lane < lanes)
            at[f->ev[i].lane + 1]++;
    for (size_t l = 0; l < lanes; l++)
        at[l + 1] += at[l];
    for (size_t i = 0; i < n; i++)
        if (f->ev[i].lane < lanes)
            f->order[at[f->ev[i].lane]++] = (uint32_t)i;
    size_t from = 0;
    struct gw_lane *lane = t->lanes.data;
    for (size_t l = 0; l < lanes; l++) {
        lane[l].order = f->order + from;
        lane[l].count = at[l] - from;
        sort_order(f->ev, f->order + from, f->scratch, lane[l].count);
        from = at[l];
    }
    free(at);
    return GW_OK;
}

/* Parent of each host event. Children that stick out of their parent (clock jitter of a few ns, or async ranges) hang
 * on the innermost event that contains their start. */
static void nest_lane(struct gw_finish *f, const struct gw_lane *lane, struct gw_array *stack)
{
    stack->len = 0;
    for (size_t i = 0; i < lane->count; i++) {
        struct gw_event *e = f->ev + lane->order[i];
        if (!gw_kind_is_host(e->kind))
            continue;
        uint32_t *top = stack->data;
        while (stack->len && f->ev[top[stack->len - 1]].end <= e->start)
            stack->len--;
        e->up = stack->len ? top[stack->len - 1] : GW_NONE;
        if (e->end > e->start && gw_array_reserve(stack, 1) == GW_OK)
            ((uint32_t *)stack->data)[stack->len++] = lane->order[i];
    }
}

static int by_corr(const void *a, const void *b, void *arg)
{
    const struct gw_event *ev = arg, *x = ev + *(const uint32_t *)a, *y = ev + *(const uint32_t *)b;
    if (x->corr != y->corr)
        return x->corr < y->corr ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return 0;
}

static uint32_t find_call(const struct gw_event *ev, const uint32_t *calls, size_t n, uint64_t corr)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (ev[calls[mid]].corr < corr)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && ev[calls[lo]].corr == corr ? calls[lo] : GW_NONE;
}

/* A runtime call and the driver call inside it carry one correlation id: the outer one (earlier start) is the link. */
static void link_calls(struct gw_finish *f)
{
    struct gw_trace *t = f->t;
    size_t n = t->events.len, calls = 0;
    uint32_t *list = f->scratch;
    int sorted = 1;
    for (size_t i = 0; i < n; i++) {
        const struct gw_event *e = f->ev + i;
        if (e->kind != GW_KIND_API || !(e->flags & GW_EV_HAS_CORR))
            continue;
        if (calls && (f->ev[list[calls - 1]].corr > e->corr ||
                      (f->ev[list[calls - 1]].corr == e->corr && f->ev[list[calls - 1]].start > e->start)))
            sorted = 0;
        list[calls++] = (uint32_t)i;
    }
    if (!sorted)
        qsort_r(list, calls, sizeof *list, by_corr, f->ev);
    for (size_t i = 0; i < n; i++) {
        struct gw_event *e = f->ev + i;
        if (!gw_kind_is_gpu(e->kind))
            continue;
        uint32_t call = e->flags & GW_EV_HAS_CORR && calls ? find_call(f->ev, list, calls, e->corr) : GW_NONE;
        if (call == GW_NONE) {
            gw_trace_lose(t, GW_LOSS_NO_CORRELATION, 1, -1);
            continue;
        }
        e->link = call;
        struct gw_event *c = f->ev + call;
        if (c->link == GW_NONE || f->ev[c->link].start > e->start)
            c->link = (uint32_t)i;
        if (e->start < c->start)
            gw_trace_lose(t, GW_LOSS_GPU_BEFORE_LAUNCH, 1, -1);
    }
    if (!calls) /* one loss says it: nothing was recorded on the host side */
        t->loss[GW_LOSS_NO_CORRELATION] = (struct gw_loss_count){.count = 0, .first_byte = -1};
    if (!calls && n)
        gw_trace_lose(t, GW_LOSS_NO_LAUNCHES, 1, -1);
}

/* All GPU operations of a device, merged from its streams. */
static int order_devices(struct gw_finish *f, uint32_t *out)
{
    struct gw_trace *t = f->t;
    const struct gw_lane *lane = t->lanes.data;
    for (size_t l = 0; l < t->lanes.len; l++)
        if (lane[l].type == GW_LANE_GPU && lane[l].count && !gw_trace_device(t, lane[l].device))
            return GW_ENOMEM;
    struct gw_device *dev = t->devices.data;
    uint64_t overlaps = 0;
    for (size_t d = 0; d < t->devices.len; d++) {
        size_t n = 0;
        for (size_t l = 0; l < t->lanes.len; l++) {
            if (lane[l].type != GW_LANE_GPU || lane[l].device != dev[d].id)
                continue;
            int64_t end = INT64_MIN;
            for (size_t i = 0; i < lane[l].count; i++) {
                const struct gw_event *e = f->ev + lane[l].order[i];
                if (!gw_kind_is_gpu(e->kind))
                    continue;
                overlaps += e->start < end;
                if (e->end > end)
                    end = e->end;
                out[n++] = lane[l].order[i];
            }
        }
        sort_order(f->ev, out, f->scratch, n);
        dev[d].ops = out;
        dev[d].op_count = n;
        out += n;
    }
    if (overlaps)
        gw_trace_lose(t, GW_LOSS_OVERLAP_STREAM, overlaps, -1);
    return GW_OK;
}

int gw_trace_finish(struct gw_trace *t)
{
    if (t->finished)
        return GW_OK;
    int rc = GW_ENOMEM;
    size_t n = t->events.len, gpu = 0;
    struct gw_finish f = {.t = t, .ev = t->events.data};
    struct gw_array stack;
    struct gw_array scratch;
    gw_array_init(&stack, sizeof(uint32_t), 0);
    gw_array_init(&scratch, sizeof(uint32_t), 0);
    for (size_t i = 0; i < n; i++)
        gpu += (size_t)gw_kind_is_gpu(f.ev[i].kind);
    if (gw_array_reserve(&t->index, n + gpu + 1) < 0 || gw_array_reserve(&scratch, n + 1) < 0)
        goto out;
    f.order = t->index.data;
    f.scratch = scratch.data;
    t->index.len = n + gpu;
    rc = order_lanes(&f);
    if (rc < 0)
        goto out;
    const struct gw_lane *lane = t->lanes.data;
    for (size_t l = 0; l < t->lanes.len; l++)
        if (lane[l].type == GW_LANE_HOST)
            nest_lane(&f, lane + l, &stack);
    link_calls(&f);
    rc = order_devices(&f, f.order + n);
    if (rc < 0)
        goto out;
    if (!gpu)
        gw_trace_lose(t, GW_LOSS_NO_GPU, 1, -1);
    t->finished = 1;
out:
    gw_array_free(&stack);
    gw_array_free(&scratch);
    return rc;
}
