/*
 * What to keep of an export whose events do not fit under the trace's memory cap.
 *
 * Cutting off at the cap would keep all kernels and no calls, since tables follow one another. So the cut is made in
 * time, the same for every table: from samples of each table (row numbers are nearly in the order of time) it is told
 * how many events start when, and a window is chosen that fits. The start of a recording is start-up, so the window
 * begins up to a fifth into it. Short calls into the operating system go first: they explain nothing.
 */
#include "import/nsys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES 2048         /* a table */
#define OSRT_SHORT 100000    /* ns: OS calls under 0.1 ms cannot explain a pause that matters */
#define METRICS_MOST 1000000 /* counter events that are kept at most: 64 MB */
#define SKIP_MOST 0.2

struct sample {
    int64_t start;
    double rows; /* that it stands for */
    int os_short;
};

struct plan {
    struct nsys *x;
    struct sample *s;
    size_t n, cap;
    double events; /* expected */
};

static int is_os(const struct nsys_table *tab) { return !strcmp(tab->name, "OSRT_API"); }

static uint64_t count(struct nsys *x, const struct nsys_table *tab, int64_t *first)
{
    int64_t last;
    if (!nsys_has(x, tab->name))
        return 0;
    nsys_extent(x, tab->name, first, &last);
    uint64_t n = last < *first ? 0 : (uint64_t)last - (uint64_t)*first + 1, most = (uint64_t)x->file_bytes / 4;
    return n < most ? n : most;
}

static void sample_table(struct plan *p, const struct nsys_table *tab)
{
    char sql[160];
    int64_t first = 0;
    uint64_t rows = count(p->x, tab, &first);
    if (!rows || strncmp(tab->columns, "start end", 9) != 0)
        return;
    uint64_t n = rows < SAMPLES ? rows : SAMPLES;
    snprintf(sql, sizeof sql, "SELECT start, \"end\" FROM \"%s\" WHERE rowid>=?1 LIMIT 1", tab->name);
    sqlite3_stmt *st = nsys_prepare(p->x->db, sql);
    for (uint64_t i = 0; st && i < n && p->n < p->cap; i++) {
        sqlite3_bind_int64(st, 1, first + (int64_t)(rows * i / n));
        if (sqlite3_step(st) == SQLITE_ROW) {
            int64_t start = sqlite3_column_int64(st, 0), end = sqlite3_column_int64(st, 1);
            p->s[p->n++] = (struct sample){start, (double)rows / (double)n, is_os(tab) && end - OSRT_SHORT < start};
        }
        sqlite3_reset(st);
    }
    sqlite3_finalize(st);
}

static int by_start(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* The window: skip the start, then as much as fits. */
static void choose(struct plan *p, double room)
{
    double total = 0, upto = 0;
    for (size_t i = 0; i < p->n; i++)
        total += p->s[i].os_short ? 0 : p->s[i].rows;
    p->x->osrt_min = OSRT_SHORT;
    if (total <= room)
        return;
    double spare = 1 - room / total, skip = (spare < SKIP_MOST ? spare : SKIP_MOST) * total;
    qsort(p->s, p->n, sizeof *p->s, by_start);
    p->x->to = INT64_MAX;
    for (size_t i = 0; i < p->n; i++) {
        if (p->x->from == NSYS_ALL && upto >= skip)
            p->x->from = p->s[i].start;
        if (upto >= skip + room) {
            p->x->to = p->s[i].start;
            break;
        }
        upto += p->s[i].os_short ? 0 : p->s[i].rows;
    }
}

void nsys_plan(struct nsys *x)
{
    const struct nsys_table *const lists[] = {nsys_gpu_tables, nsys_host_tables};
    struct plan p = {.x = x, .cap = 40 * SAMPLES};
    int64_t first;
    uint64_t metrics = 0;
    for (size_t l = 0; l < 2; l++)
        for (const struct nsys_table *tab = lists[l]; tab->name; tab++)
            x->rows_total += count(x, tab, &first);
    for (const struct nsys_table *tab = nsys_metric_tables; tab->name; tab++)
        metrics += count(x, tab, &first);
    double room = x->t->events.max ? (double)(x->t->events.max - x->t->events.len) : 1e18;
    double most = room / 8 < METRICS_MOST ? room / 8 : METRICS_MOST;
    double stride = (double)metrics / (most > 1 ? most : 1);
    x->metric_stride = stride > 1 ? (int64_t)stride + 1 : 1;
    room -= (double)(metrics / (uint64_t)x->metric_stride);
    p.events = (double)x->rows_total;
    x->rows_total += metrics;
    if (p.events <= room)
        return;
    p.s = malloc(p.cap * sizeof *p.s);
    if (!p.s)
        return;
    for (size_t l = 0; l < 2; l++)
        for (const struct nsys_table *tab = lists[l]; tab->name; tab++)
            sample_table(&p, tab);
    choose(&p, room * 0.97); /* samples are a guess */
    free(p.s);
}
