/* windows.c - see windows.h */
#include "cli/windows.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/progress.h"
#include "engine/analysis.h"
#include "engine/kernel_table.h"
#include "import/record_importer.h"
#include "record/record_write.h"
#include "report/fmt.h"

#define SEC 1000000000ull
#define LOOK_NS (6 * SEC)  /* then no further window is begun: the report of a job should not take long */
#define SAME_KERNELS 0.7   /* of the kernel time is in the same kernels; two epochs of one job: 0.97 and more, training and
                              evaluation of one model: 0.2 to 0.5 */
#define NOISE 0.10         /* steps that differ more between windows get a word */
enum { MAX_SEEN = 4096 };

struct look { /* one window while they are compared */
    struct gw_report_window w;
    int64_t at;
    struct gw_kernel_table kernels;
};

static double idle_share(const struct gw_report_window *w)
{
    return w->wall_ns > 0 ? (double)w->idle_ns / (double)w->wall_ns : 0;
}

/* Kernel time that two windows spend in kernels of the same names, as a share. */
static double overlap(const struct gw_kernel_table *a, const struct gw_kernel_table *b)
{
    double all_a = 0, all_b = 0, both = 0;
    for (size_t i = 0; i < a->count; i++)
        all_a += a->rows[i].ns;
    for (size_t i = 0; i < b->count; i++)
        all_b += b->rows[i].ns;
    if (all_a <= 0 || all_b <= 0)
        return 0;
    for (size_t i = 0; i < a->count; i++)
        for (size_t k = 0; k < b->count; k++)
            if (strcmp(a->rows[i].name, b->rows[k].name) == 0)
                both += fmin(a->rows[i].ns / all_a, b->rows[k].ns / all_b);
    return both;
}

/* 1 when the window could be analysed. */
static int analyse(struct look *l, const char *path, const struct gw_cli_options *o, struct gw_arena *arena, struct gw_progress *p)
{
    struct gw_import_options io = {.progress = gw_progress_step, .user = p, .threads = o->threads, .window_at = l->at};
    struct gw_trace *t = gw_cli_trace(o);
    const struct gw_analysis *an = t && gw_import_file(t, path, &io, NULL) == 0 ? gw_analyse(t, t->arena) : NULL;
    int ok = an && an->ndev && gw_kernel_table(an, an->dev + an->main, arena, &l->kernels) == 0;
    if (ok) {
        const struct gw_dev *d = an->dev + an->main;
        l->w.start_ns = l->at - t->facts.base_ns;
        l->w.wall_ns = d->steady.wall;
        l->w.idle_ns = d->steady.idle;
        l->w.steps = an->steps.count ? (int64_t)(an->steps.steady_last - an->steps.steady_first) : 0;
        l->w.median_step_ns = an->median_step;
    }
    gw_trace_destroy(t);
    return ok;
}

/* Those with the kernels of the window that is most like all others. */
static void mark_same(struct look *l, size_t n)
{
    size_t centre = 0;
    double best = -1;
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t k = 0; k < n; k++)
            sum += overlap(&l[i].kernels, &l[k].kernels);
        if (sum >= best) { /* of equals the later: the job is warm by then */
            best = sum;
            centre = i;
        }
    }
    for (size_t i = 0; i < n; i++)
        l[i].w.same_kernels = i == centre || overlap(&l[centre].kernels, &l[i].kernels) >= SAME_KERNELS;
}

static int by_idle(const void *a, const void *b)
{
    const struct look *x = *(struct look *const *)a, *y = *(struct look *const *)b;
    double p = idle_share(&x->w), q = idle_share(&y->w);
    return p != q ? (p > q ? 1 : -1) : (x->at > y->at) - (x->at < y->at);
}

/* Of the two in the middle of an even number the later one: with two windows, the first may hold the warm-up. */
static struct look *median(struct look *l, size_t n)
{
    struct look *same[GW_WINDOWS_MAX];
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        if (l[i].w.same_kernels)
            same[k++] = l + i;
    qsort(same, k, sizeof *same, by_idle);
    struct look *upper = same[k / 2], *lower = same[(k - 1) / 2];
    return lower->at > upper->at ? lower : upper;
}

void gw_windows_look(struct gw_windows *w, const char *path, const struct gw_cli_options *o)
{
    struct gw_record_window *all = calloc(MAX_SEEN, sizeof *all);
    struct look *l = calloc(GW_WINDOWS_MAX, sizeof *l);
    struct gw_arena *arena = gw_arena_create(0);
    char folder[PATH_MAX];
    struct gw_progress p;
    memset(w, 0, sizeof *w);
    size_t seen = all && l && arena && gw_record_folder(path, folder, sizeof folder) ? gw_record_windows(folder, all, MAX_SEEN) : 0;
    size_t n = 0;
    if (seen >= 2) {
        size_t want = seen < GW_WINDOWS_MAX ? seen : GW_WINDOWS_MAX;
        uint64_t end = gw_clock_ns(CLOCK_MONOTONIC) + LOOK_NS;
        gw_progress_begin(&p, path, !o->quiet);
        for (size_t i = 0; i < want && gw_clock_ns(CLOCK_MONOTONIC) < end; i++) {
            size_t k = want > 1 ? i * (seen - 1) / (want - 1) : 0; /* the first and the last among them */
            l[n].at = all[k].from + (all[k].to - all[k].from) / 2;
            n += (size_t)analyse(&l[n], path, o, arena, &p);
        }
        if (gw_progress_end(&p)) /* the user has no time for this */
            n = 0;
    }
    if (n >= 2) {
        mark_same(l, n);
        struct look *m = median(l, n);
        m->w.reported = 1;
        w->at = m->at;
        for (size_t i = 0; i < n; i++)
            w->list[w->n++] = l[i].w;
    }
    gw_arena_destroy(arena);
    free(l);
    free(all);
}

/* --- into the report --------------------------------------------------------------------------------------------------- */

struct spread {
    size_t same, other;
    double wall, idle, idle_low, idle_high; /* sums; shares */
    int64_t step_low, step_high;            /* -1 unknown */
    int64_t reported_at;
};

static struct spread spread_of(const struct gw_windows *w)
{
    struct spread s = {.idle_low = 1, .step_low = -1, .step_high = -1};
    for (size_t i = 0; i < w->n; i++) {
        const struct gw_report_window *x = &w->list[i];
        if (x->reported)
            s.reported_at = x->start_ns;
        if (!x->same_kernels) {
            s.other++;
            continue;
        }
        s.same++;
        s.wall += (double)x->wall_ns;
        s.idle += (double)x->idle_ns;
        s.idle_low = fmin(s.idle_low, idle_share(x));
        s.idle_high = fmax(s.idle_high, idle_share(x));
        if (x->median_step_ns > 0) {
            s.step_low = s.step_low < 0 || x->median_step_ns < s.step_low ? x->median_step_ns : s.step_low;
            s.step_high = x->median_step_ns > s.step_high ? x->median_step_ns : s.step_high;
        }
    }
    return s;
}

static size_t write_notes(const struct spread *s, const char **out, struct gw_arena *arena)
{
    size_t n = 0;
    if (s->same > 1)
        out[n++] = gw_arena_printf(
            arena, _("%zu windows of the recording were compared: the GPU idles %.0f to %.0f %% in them, %.0f %% over all; the report is about the median one, at %s"),
            s->same, 100 * s->idle_low, 100 * s->idle_high, 100 * s->idle / fmax(s->wall, 1),
            gw_fmt_time(s->reported_at).s);
    if (s->same > 1 && s->step_low > 0 && (double)s->step_high > (1 + NOISE) * (double)s->step_low)
        out[n++] = gw_arena_printf(
            arena, _("a step takes %s in one window and %s in another: gains below %.0f %% are within what the job varies by itself"),
            gw_fmt_time(s->step_low).s, gw_fmt_time(s->step_high).s,
            100 * ((double)s->step_high / (double)s->step_low - 1));
    if (s->other)
        out[n++] = gw_arena_printf(
            arena, _("%zu more windows show other kernels, another phase of the job: they do not count"), s->other);
    return n;
}

int gw_windows_report(const struct gw_windows *w, struct gw_report *r, struct gw_arena *arena)
{
    enum { NOTES = 3 };
    if (!w->n)
        return GW_OK;
    struct spread s = spread_of(w);
    struct gw_report_window *list = gw_arena_calloc(arena, w->n, sizeof *list);
    const char **notes = gw_arena_calloc(arena, r->trust.note_count + NOTES, sizeof *notes);
    if (!list || !notes)
        return GW_ENOMEM;
    memcpy(list, w->list, w->n * sizeof *list);
    r->windows = list;
    r->window_count = w->n;
    if (r->trust.note_count)
        memcpy(notes, r->trust.notes, r->trust.note_count * sizeof *notes);
    r->trust.note_count += write_notes(&s, notes + r->trust.note_count, arena);
    r->trust.notes = notes;
    return GW_OK;
}
