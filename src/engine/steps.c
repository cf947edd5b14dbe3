/*
 * Steps: from the profiler's own marks, else from the data loader, the optimizer or a range of the user that comes back,
 * else from the repetition of the kernel sequence. A step's boundary on the GPU is the start of its first operation, so
 * that consecutive steps tile the time without holes.
 */
#include "engine/steps.h"

#include <stdlib.h>
#include <string.h>

#include "engine/analysis.h"

#define GW_STEPS_MIN 3          /* fewer marks than this are no rhythm */
#define GW_STEPS_MATCH 0.85     /* share of the kernel sequence that must repeat */
#define GW_STEPS_CANDIDATES 32

struct gw_vote {
    uint32_t count;
    uint32_t last;
    uint32_t period;
    uint32_t same;
};

size_t gw_steps_period(const uint32_t *seq, size_t n, double *share)
{
    *share = 0;
    if (n < 2 * GW_STEPS_MIN)
        return 0;
    uint32_t max = 0;
    for (size_t i = 0; i < n; i++)
        if (seq[i] > max)
            max = seq[i];
    struct gw_vote *vote = calloc((size_t)max + 1, sizeof *vote);
    if (!vote)
        return 0;
    for (size_t i = 0; i < n; i++) { /* Boyer-Moore majority over the distances of each name */
        struct gw_vote *v = vote + seq[i];
        if (v->count++) {
            uint32_t d = (uint32_t)(i - v->last);
            if (!v->same) {
                v->period = d;
                v->same = 1;
            } else if (v->period == d) {
                v->same++;
            } else {
                v->same--;
            }
        }
        v->last = (uint32_t)i;
    }
    size_t cand[GW_STEPS_CANDIDATES], nc = 0;
    for (size_t i = 0; i <= max; i++) {
        size_t p = vote[i].period;
        if (vote[i].count < GW_STEPS_MIN || !vote[i].same || p * 2 >= n)
            continue;
        size_t k = 0;
        while (k < nc && cand[k] != p)
            k++;
        if (k == nc && nc < GW_STEPS_CANDIDATES)
            cand[nc++] = p;
    }
    free(vote);
    size_t best = 0;
    for (size_t k = 0; k < nc; k++) {
        size_t p = cand[k], hit = 0;
        if (n / p < GW_STEPS_MIN)
            continue;
        for (size_t i = 0; i + p < n; i++)
            hit += seq[i] == seq[i + p];
        double s = (double)hit / (double)(n - p);
        /* a clearly better match wins; among equals the shorter period */
        if (s >= GW_STEPS_MATCH && (s > *share + 0.02 || (s > *share - 0.02 && (!best || p < best)))) {
            best = p;
            *share = s > *share ? s : *share;
        }
    }
    return best;
}

struct gw_mark {
    int64_t at;     /* host ns at which the step begins */
    int64_t number; /* of a numbered mark, -1 none: a schedule that repeats leaves holes in the numbers and in time */
};

static int cmp_mark(const void *a, const void *b)
{
    const struct gw_mark *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* Host times at which steps begin, by the first rule that gives enough of them. */
struct gw_found {
    struct gw_array at; /* struct gw_mark */
    int64_t last_end;
    int ends; /* 1 = the marks end steps (the optimizer's do), 0 = they begin them */
    const char *by, *marker;
};

static int add_mark(struct gw_found *f, int64_t at, const char *name)
{
    struct gw_mark *p = gw_array_push(&f->at);
    const char *hash = strrchr(name, '#');
    if (!p)
        return GW_ENOMEM;
    *p = (struct gw_mark){.at = at, .number = hash && hash[1] >= '0' && hash[1] <= '9' ? strtoll(hash + 1, NULL, 10) : -1};
    return GW_OK;
}

enum gw_rule { RULE_STEP, RULE_LOADER, RULE_OPTIMIZER };

static int rule_hit(const struct gw_analysis *an, const struct gw_event *e, enum gw_rule rule)
{
    const struct gw_name_info *in = an->names + e->name;
    if (e->kind == GW_KIND_STEP)
        return rule == RULE_STEP;
    if (e->kind != GW_KIND_ANNOT && e->kind != GW_KIND_OP)
        return 0;
    const char *s = gw_trace_text(an->t, e->name);
    switch (rule) {
    case RULE_STEP: return in->step;
    case RULE_LOADER: return (in->ctx & (GW_CTX_LOADER | GW_CTX_LOADING)) && !strncmp(s, "enumerate(", 10);
    case RULE_OPTIMIZER: return !strncmp(s, "Optimizer.step#", 15);
    }
    return 0;
}

static int by_rule(const struct gw_analysis *an, int64_t pid, struct gw_found *f, enum gw_rule rule)
{
    static const char *const by[] = {"annotation", "data-loader", "optimizer"};
    f->at.len = 0;
    f->by = by[rule];
    f->ends = rule == RULE_OPTIMIZER;
    const struct gw_lane *lane = an->t->lanes.data;
    const struct gw_lane *best = NULL;
    size_t most = 0;
    for (size_t l = 0; l < an->t->lanes.len; l++) {
        if (lane[l].type != GW_LANE_HOST || (pid >= 0 && lane[l].pid != pid))
            continue;
        size_t n = 0;
        for (size_t i = 0; i < lane[l].count; i++)
            n += (size_t)rule_hit(an, gw_ev(an, lane[l].order[i]), rule);
        if (n > most) {
            most = n;
            best = lane + l;
        }
    }
    for (size_t i = 0; best && i < best->count; i++) {
        const struct gw_event *e = gw_ev(an, best->order[i]);
        if (!rule_hit(an, e, rule))
            continue;
        /* the optimizer ends a step, everything else begins one */
        if (add_mark(f, f->ends ? e->end : e->start, gw_trace_text(an->t, e->name)) < 0)
            return GW_ENOMEM;
        f->last_end = e->end;
        f->marker = gw_trace_text(an->t, e->name);
    }
    return GW_OK;
}

/* A range of the user's own that comes back at least three times and covers most of the recording. */
static int by_user_range(const struct gw_analysis *an, const struct gw_dev *dev, struct gw_found *f)
{
    f->at.len = 0;
    f->ends = 0;
    uint32_t names = gw_intern_count(an->t->names);
    struct gw_tally {
        int64_t ns;
        uint32_t n;
    } *tally = calloc((size_t)names + 1, sizeof *tally);
    if (!tally)
        return GW_ENOMEM;
    const struct gw_lane *lane = dev->main_lane == GW_NONE ? NULL : gw_trace_lane(an->t, dev->main_lane);
    for (size_t i = 0; lane && i < lane->count; i++) {
        const struct gw_event *e = gw_ev(an, lane->order[i]);
        if (e->kind != GW_KIND_ANNOT)
            continue;
        tally[e->name].n++;
        tally[e->name].ns += e->end - e->start;
    }
    uint32_t best = 0;
    for (uint32_t i = 1; i <= names; i++)
        if (tally[i].n >= GW_STEPS_MIN && (double)tally[i].ns > 0.6 * (double)dev->whole.wall &&
            (!best || tally[i].ns > tally[best].ns))
            best = i;
    free(tally);
    int rc = GW_OK;
    for (size_t i = 0; best && i < lane->count && rc == GW_OK; i++) {
        const struct gw_event *e = gw_ev(an, lane->order[i]);
        if (e->kind != GW_KIND_ANNOT || e->name != best)
            continue;
        rc = add_mark(f, e->start, "");
        f->last_end = e->end;
    }
    f->by = "annotation";
    f->marker = gw_trace_text(an->t, best);
    return rc;
}

/* End of the last operation launched before `before`. */
static int64_t last_end(const struct gw_analysis *an, const struct gw_dev *dev, int64_t before)
{
    int64_t end = dev->whole.start;
    for (size_t i = 0; i < dev->nops; i++) {
        const struct gw_event *e = gw_ev(an, dev->ops[i]);
        if ((before == INT64_MAX || (e->link != GW_NONE && gw_ev(an, e->link)->start < before)) && e->end > end)
            end = e->end;
    }
    return end;
}

/* The stream with most kernel time. */
static uint32_t main_stream(const struct gw_analysis *an, const struct gw_dev *dev)
{
    const struct gw_lane *lane = an->t->lanes.data;
    uint32_t best = GW_NONE;
    int64_t most = -1;
    for (uint32_t l = 0; l < an->t->lanes.len; l++) {
        if (lane[l].type != GW_LANE_GPU || lane[l].device != dev->info->id)
            continue;
        int64_t ns = 0;
        for (size_t i = 0; i < lane[l].count; i++) {
            const struct gw_event *e = gw_ev(an, lane[l].order[i]);
            ns += e->kind == GW_KIND_KERNEL || e->kind == GW_KIND_GRAPH ? e->end - e->start : 0;
        }
        if (ns > most) {
            most = ns;
            best = l;
        }
    }
    return best;
}

/* Start of the first operation that was launched at or after each mark and before the next, INT64_MAX none: on the main stream
 * (a batch prefetched on a stream of its own begins no step), or, where there is none, on any. `other`: n of room. */
static void first_work(const struct gw_analysis *an, const struct gw_dev *dev, const struct gw_mark *at, size_t n, int64_t *first, int64_t *other)
{
    uint32_t main = main_stream(an, dev);
    for (size_t i = 0; i < n; i++)
        first[i] = other[i] = INT64_MAX;
    for (size_t i = 0; i < dev->nops; i++) {
        const struct gw_event *e = gw_ev(an, dev->ops[i]);
        int64_t when = e->link == GW_NONE ? INT64_MIN : gw_ev(an, e->link)->start;
        if (when < at[0].at)
            continue;
        size_t lo = 0, hi = n;
        while (hi - lo > 1) {
            size_t mid = lo + (hi - lo) / 2;
            if (at[mid].at <= when)
                lo = mid;
            else
                hi = mid;
        }
        int64_t *slot = (e->lane == main ? first : other) + lo;
        *slot = e->start < *slot ? e->start : *slot;
    }
    for (size_t i = 0; i < n; i++)
        first[i] = first[i] == INT64_MAX ? other[i] : first[i];
}

/* The longest stretch of steps with GPU work: [*from, *from + *len). Returns the number of empty ones (recorded on the host only). */
static size_t longest_run(const struct gw_mark *at, const int64_t *first, size_t n, int ends, size_t *from, size_t *len)
{
    size_t run = 0, empty = 0;
    *from = *len = 0;
    for (size_t i = 0; i < n; i++) {
        int hole = i && at[i].number >= 0 && at[i - 1].number >= 0 && at[i].number != at[i - 1].number + 1;
        if (first[i] == INT64_MAX || hole || (i && run && first[i] < first[i - 1])) {
            empty += first[i] == INT64_MAX && !(ends && i + 1 == n); /* after the last end the recording stops */
            run = first[i] == INT64_MAX ? 0 : 1;
        } else {
            run++;
        }
        if (run > *len) {
            *len = run;
            *from = i + 1 - run;
        }
    }
    return empty;
}

/* GPU-side boundaries of host-side marks: the start of the first operation launched at or after each mark. */
static int bounds_from_marks(struct gw_analysis *an, struct gw_dev *dev, struct gw_found *f)
{
    struct gw_steps *s = &an->steps;
    size_t n = f->at.len, from, len;
    struct gw_mark *at = f->at.data;
    qsort(at, n, sizeof *at, cmp_mark);
    int64_t *first = gw_arena_calloc(an->arena, n, sizeof *first);
    int64_t *other = gw_arena_calloc(an->arena, n, sizeof *other);
    int64_t *bound = gw_arena_calloc(an->arena, n + 1, sizeof *bound);
    int64_t *host = gw_arena_calloc(an->arena, n + 1, sizeof *host);
    if (!first || !other || !bound || !host)
        return GW_ENOMEM;
    first_work(an, dev, at, n, first, other);
    s->empty = longest_run(at, first, n, f->ends, &from, &len);
    if (!len)
        return GW_OK;
    for (size_t i = 0; i < len; i++) {
        bound[i] = first[from + i];
        host[i] = at[from + i].at;
    }
    int whole_next = from + len < n && first[from + len] != INT64_MAX && first[from + len] >= first[from + len - 1] &&
                     (at[from + len].number < 0 || at[from + len].number == at[from + len - 1].number + 1);
    bound[len] = whole_next ? first[from + len] : last_end(an, dev, from + len < n ? at[from + len].at : INT64_MAX);
    s->count = len;
    s->bound = bound;
    s->host = host;
    s->found_by = f->by;
    s->marker = f->marker ? f->marker : "";
    return GW_OK;
}

static int cmp_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static size_t count_before(const int64_t *v, size_t n, int64_t at)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (v[mid] < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* A rhythm inside one range of the user's (the layers of one decode step), or several times inside each of a few marked
 * steps, is no rhythm of steps. 1, 0 or GW_ENOMEM. */
static int inside_ranges(const struct gw_analysis *an, const struct gw_dev *dev, const uint32_t *op, size_t n, size_t p,
                         size_t phase)
{
    if (dev->main_lane == GW_NONE)
        return 0;
    int64_t *at = malloc((n / p + 2) * sizeof *at); /* when each period was launched */
    if (!at)
        return GW_ENOMEM;
    size_t calls = 0, periods = (n - phase) / p, marks = 0, in_marks = 0;
    for (size_t i = phase; i < n; i += p)
        if (gw_ev(an, op[i])->link != GW_NONE)
            at[calls++] = gw_ev(an, gw_ev(an, op[i])->link)->start;
    qsort(at, calls, sizeof *at, cmp_i64);
    int inside = 0;
    const struct gw_lane *lane = gw_trace_lane(an->t, dev->main_lane);
    for (size_t k = 0; k < lane->count && !inside; k++) {
        const struct gw_event *a = gw_ev(an, lane->order[k]);
        if (a->kind != GW_KIND_ANNOT || a->end <= a->start)
            continue;
        size_t in = count_before(at, calls, a->end) - count_before(at, calls, a->start);
        inside = in * 10 > periods * 6;
        if (an->names[a->name].step && in) {
            marks++;
            in_marks += in;
        }
    }
    free(at);
    return inside || (in_marks * 10 > periods * 6 && in_marks >= 2 * marks);
}

/* No marks: the kernel sequence itself. The boundary is put where the GPU pauses longest in each period. */
static int by_sequence(struct gw_analysis *an, struct gw_dev *dev)
{
    size_t n = 0;
    uint32_t *seq = malloc((dev->nops + 1) * sizeof *seq);
    uint32_t *op = malloc((dev->nops + 1) * sizeof *op);
    int rc = GW_ENOMEM;
    int64_t *pause = NULL;
    if (!seq || !op)
        goto out;
    for (size_t i = 0; i < dev->nops; i++) {
        const struct gw_event *e = gw_ev(an, dev->ops[i]);
        if (e->kind != GW_KIND_KERNEL && e->kind != GW_KIND_GRAPH)
            continue;
        seq[n] = e->name;
        op[n++] = dev->ops[i];
    }
    rc = GW_OK;
    double share;
    size_t p = gw_steps_period(seq, n, &share);
    if (!p)
        goto out;
    rc = GW_ENOMEM;
    pause = calloc(p, sizeof *pause);
    if (!pause)
        goto out;
    for (size_t i = 1; i < n; i++) {
        int64_t d = gw_ev(an, op[i])->start - gw_ev(an, op[i - 1])->end;
        pause[i % p] += d > 0 ? d : 0;
    }
    size_t phase = 0;
    for (size_t i = 1; i < p; i++)
        if (pause[i] > pause[phase])
            phase = i;
    size_t count = 0;
    int inside = inside_ranges(an, dev, op, n, p, phase);
    if (inside) {
        rc = inside < 0 ? inside : GW_OK;
        goto out;
    }
    int64_t *bound = gw_arena_calloc(an->arena, n / p + 2, sizeof *bound);
    if (!bound)
        goto out;
    for (size_t i = phase; i < n; i += p)
        bound[count++] = gw_ev(an, op[i])->start;
    an->steps.count = count > 1 ? count - 1 : 0; /* complete periods only */
    an->steps.bound = bound;
    an->steps.found_by = "kernel-sequence";
    an->steps.marker = gw_trace_text(an->t, seq[phase]);
    rc = GW_OK;
out:
    free(seq);
    free(op);
    free(pause);
    return rc;
}

/* Did the host compile, capture or load modules while the GPU was in step i? Then it is warm-up when it leads and is slow.
 * In the GPU's time: what stretches step i there is the work before the first kernel of step i + 1. */
static int step_compiles(const struct gw_analysis *an, const struct gw_dev *dev, size_t i)
{
    if (!an->steps.host || dev->main_lane == GW_NONE)
        return 0;
    int64_t a = an->steps.bound[i], b = an->steps.bound[i + 1], ns = 0;
    const struct gw_lane *lane = gw_trace_lane(an->t, dev->main_lane);
    for (size_t k = 0; k < lane->count; k++) {
        const struct gw_event *e = gw_ev(an, lane->order[k]);
        if (e->end <= a || e->start >= b)
            continue;
        enum gw_api api = e->kind == GW_KIND_API ? (enum gw_api)an->names[e->name].api : GW_API_OTHER;
        if ((an->names[e->name].ctx & GW_CTX_COMPILE) || api == GW_API_MODULE || api == GW_API_GRAPH_BUILD)
            ns += (e->end < b ? e->end : b) - (e->start > a ? e->start : a);
    }
    return ns > (b - a) / 10;
}

static void choose_steady(struct gw_analysis *an, const struct gw_dev *dev)
{
    struct gw_steps *s = &an->steps;
    size_t n = s->count, first = 0, last = n;
    if (n >= 4) {
        /* The first recorded step begins with an empty queue; the last one has no successor to end it. Steps found in
         * the kernel sequence are complete periods already. */
        first = 1;
        last = s->host ? n - 1 : n;
    } else if (n == 3) {
        first = 1;
    }
    int64_t rest = 0;
    size_t k = 0;
    for (size_t i = n / 2; i < n; i++, k++)
        rest += s->bound[i + 1] - s->bound[i];
    while (first + 1 < last && first < n / 2 && (double)(s->bound[first + 1] - s->bound[first]) * (double)k * 2 > (double)rest * 3 &&
           step_compiles(an, dev, first)) {
        first++;
        s->warmup++;
    }
    s->steady_first = first;
    s->steady_last = last;
    if (n >= 2 && last > first) {
        an->w0 = s->bound[first];
        an->w1 = s->bound[last];
    } else {
        an->w0 = dev->whole.start;
        an->w1 = dev->whole.end;
    }
}

int gw_steps_find(struct gw_analysis *an)
{
    struct gw_dev *dev = an->dev + an->main;
    struct gw_found f = {.marker = ""};
    gw_array_init(&f.at, sizeof(struct gw_mark), 0);
    an->steps = (struct gw_steps){.found_by = "none", .marker = ""};
    int rc = GW_OK;
    for (int rule = RULE_STEP; rule <= RULE_OPTIMIZER && rc == GW_OK; rule++) {
        rc = by_rule(an, dev->pid, &f, (enum gw_rule)rule);
        if (rc == GW_OK && f.at.len >= GW_STEPS_MIN)
            rc = bounds_from_marks(an, dev, &f);
        if (an->steps.count >= GW_STEPS_MIN)
            break;
    }
    if (rc == GW_OK && an->steps.count < GW_STEPS_MIN) {
        size_t empty = an->steps.empty;
        rc = by_user_range(an, dev, &f);
        if (rc == GW_OK && f.at.len >= GW_STEPS_MIN)
            rc = bounds_from_marks(an, dev, &f);
        if (rc == GW_OK && an->steps.count < GW_STEPS_MIN) {
            an->steps = (struct gw_steps){.found_by = "none", .marker = "", .empty = empty};
            rc = by_sequence(an, dev);
        }
    }
    gw_array_free(&f.at);
    if (rc == GW_OK)
        choose_steady(an, dev);
    return rc;
}
