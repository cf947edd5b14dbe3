/*
 * ncu --csv. Three shapes, told apart by the header, which may come again when several runs went into one file:
 *   long     a row a metric: "ID",..,"Kernel Name",..,"Section Name","Metric Name","Metric Unit","Metric Value"
 *   summary  the same with "Invocations" and "Average" (--print-summary)
 *   wide     a row a launch, a column a metric, a row of units under the header (--page raw)
 */
#include <stdlib.h>
#include <string.h>

#include "import/ncu.h"

enum { NONE, LONG, SUMMARY, WIDE };

/* Splits a row in place, taking quotes off. The number of fields, 0 when the line is no CSV. */
static int split(struct ncu_csv *c, char *line, size_t len)
{
    char *p = line, *end = line + len;
    int n = 0;
    while (p <= end && n < NCU_COLUMNS) {
        char *out = p, *from = p;
        if (p < end && *p == '"') {
            for (p++; p < end; p++) {
                if (*p == '"' && p + 1 < end && p[1] == '"')
                    p++;
                else if (*p == '"')
                    break;
                *out++ = *p;
            }
            p += p < end;
            while (p < end && *p != ',')
                p++;
        } else {
            while (p < end && *p != ',')
                p++;
            out = p;
        }
        c->field[n++] = ncu_str(from, (size_t)(out - from));
        if (p >= end)
            break;
        p++;
    }
    return n;
}

static int find(const struct ncu_csv *c, const char *name)
{
    for (int i = 0; i < c->columns; i++)
        if (ncu_is(ncu_trim(c->field[i]), name))
            return i;
    return -1;
}

static int wide_columns(struct ncu_csv *c)
{
    int known = 0;
    for (int i = 0; i < c->columns; i++) {
        struct ncu_str name = ncu_trim(c->field[i]);
        /* The columns Block Size and Grid Size are dimensions here, not metrics. */
        int what = i == c->grid || i == c->block ? -1 : ncu_what(name);
        c->what[i] = (signed char)what;
        known += what >= 0 || memmem(name.s, name.len, "__", 2) != NULL;
        c->units[i * 16] = 0;
    }
    return known;
}

/* 1 when the row is a header. */
static int header(struct ncu_csv *c, int n)
{
    c->columns = n;
    int kernel = find(c, "Kernel Name");
    if (kernel < 0)
        return 0;
    c->kernel = kernel;
    c->id = find(c, "ID");
    c->process = find(c, "Process ID");
    c->grid = find(c, "Grid Size");
    c->block = find(c, "Block Size");
    c->name = find(c, "Metric Name");
    c->unit = find(c, "Metric Unit");
    c->value = find(c, "Metric Value");
    c->launches = find(c, "Invocations");
    c->shape = NONE;
    if (c->name >= 0 && c->value >= 0) {
        c->shape = LONG;
    } else if (c->name >= 0 && (c->value = find(c, "Average")) >= 0) {
        c->shape = SUMMARY;
    } else if (c->name < 0 && wide_columns(c)) {
        c->shape = WIDE;
        c->units_due = 1;
    }
    return c->shape != NONE;
}

static struct ncu_str cell(const struct ncu_csv *c, int i)
{
    return i >= 0 && i < c->columns ? ncu_trim(c->field[i]) : ncu_str("", 0);
}

/* What tells one launch from the next: id and process; a summary has neither, but one shape a block of rows. */
static struct ncu_str launch_key(const struct ncu_csv *c, char *buf, size_t cap)
{
    const int with_id[] = {c->id, c->process}, without[] = {c->kernel, c->grid, c->block};
    const int *cols = c->id >= 0 ? with_id : without;
    size_t n = 0, count = c->id >= 0 ? 2 : 3;
    for (size_t i = 0; i < count; i++) {
        struct ncu_str s = cell(c, cols[i]);
        size_t take = s.len < cap - n - 1 ? s.len : cap - n - 1;
        memcpy(buf + n, s.s, take);
        n += take;
        if (n + 1 < cap)
            buf[n++] = '|';
    }
    return ncu_str(buf, n);
}

static void begin(struct ncu *x)
{
    struct ncu_csv *c = &x->csv;
    char key[NCU_NAME_MAX + 64];
    ncu_begin(x, cell(c, c->kernel), launch_key(c, key, sizeof key));
    if (c->grid >= 0)
        ncu_shape(x, GW_KM_BLOCKS, cell(c, c->grid));
    if (c->block >= 0)
        ncu_shape(x, GW_KM_THREADS, cell(c, c->block));
    double n;
    if (c->launches >= 0 && ncu_number(cell(c, c->launches), 0, &n) && n >= 1 && n < 1e12)
        x->sample.launches = (uint64_t)n;
}

static void wide_row(struct ncu *x)
{
    struct ncu_csv *c = &x->csv;
    if (c->units_due && !cell(c, c->kernel).len) {
        for (int i = 0; i < c->columns; i++) {
            struct ncu_str u = cell(c, i);
            size_t n = u.len < 15 ? u.len : 15;
            memcpy(c->units + i * 16, u.s, n);
            c->units[i * 16 + (int)n] = 0;
        }
        c->units_due = 0;
        return;
    }
    c->units_due = 0;
    if (!cell(c, c->kernel).len)
        return;
    begin(x);
    for (int i = 0; i < c->columns; i++)
        if (c->what[i] >= 0)
            ncu_metric(x, c->what[i], ncu_str("", 0), ncu_str(c->units + i * 16, strlen(c->units + i * 16)),
                       cell(c, i));
    ncu_end(x);
}

int ncu_csv_line(struct ncu *x, char *line, size_t len)
{
    struct ncu_csv *c = &x->csv;
    if (!c->field) {
        c->field = calloc(NCU_COLUMNS, sizeof *c->field);
        c->what = calloc(NCU_COLUMNS, sizeof *c->what);
        c->units = calloc(NCU_COLUMNS, 16);
        if (!c->field || !c->what || !c->units)
            return GW_ENOMEM;
    }
    if (!memchr(line, ',', len))
        return 0;
    int maybe = c->shape != NONE || memmem(line, len, "Kernel Name", 11);
    if (!maybe)
        return 0;
    int columns = c->columns, n = split(c, line, len);
    if (memmem(line, len, "Kernel Name", 11) && header(c, n))
        return ncu_end(x) < 0 ? GW_ENOMEM : 1;
    c->columns = columns;
    if (c->shape == NONE || n < c->columns || n > c->columns + 1)
        return 0; /* the job's own output, or a row that was cut */
    x->rows++;
    if (c->shape == WIDE) {
        wide_row(x);
        return 1;
    }
    struct ncu_str metric = cell(c, c->name);
    if (!metric.len || !cell(c, c->kernel).len)
        return 1; /* a rule's advice */
    begin(x);
    ncu_metric(x, ncu_what(metric), metric, cell(c, c->unit), cell(c, c->value));
    return 1;
}

void ncu_csv_free(struct ncu *x)
{
    free(x->csv.field);
    free(x->csv.what);
    free(x->csv.units);
    x->csv = (struct ncu_csv){0};
}
