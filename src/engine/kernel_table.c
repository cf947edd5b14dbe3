#include "engine/kernel_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/gw_i18n.h"

enum { CLASS_COPY = GW_K_CLASS_COUNT, CLASS_SET, CLASSES };

static const char *class_name(unsigned c)
{
    return c == CLASS_COPY ? N_("memory copy") : c == CLASS_SET ? N_("memory set") : gw_kclass_name(c);
}

struct gw_tally {
    uint64_t count;
    int64_t ns;
    uint32_t name; /* in the table of short names */
    unsigned kclass;
};

static int by_ns(const void *a, const void *b)
{
    const struct gw_tally *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    return (x->name > y->name) - (x->name < y->name);
}

static unsigned class_of(const struct gw_analysis *an, const struct gw_event *e)
{
    return e->kind == GW_KIND_COPY ? CLASS_COPY : e->kind == GW_KIND_SET ? CLASS_SET : an->names[e->name].kclass;
}

/* Sums by short name into `rows`, whose index is the number of the short name. */
static int tally(const struct gw_analysis *an, const struct gw_dev *dev, struct gw_intern *names, struct gw_array *rows,
                 struct gw_tally classes[CLASSES])
{
    uint32_t *known = calloc((size_t)gw_intern_count(an->t->names) + 1, sizeof *known); /* name -> short name */
    struct gw_arena *scratch = gw_arena_create(0);
    int rc = GW_ENOMEM;
    if (!known || !scratch)
        goto out;
    for (size_t i = 0; i < dev->nops; i++) {
        const struct gw_event *e = gw_ev(an, dev->ops[i]);
        if (e->start < an->w0 || e->start >= an->w1)
            continue;
        uint32_t *id = known + e->name;
        if (!*id) {
            const char *s = gw_trace_text(an->t, e->name);
            if (e->kind == GW_KIND_KERNEL)
                s = gw_names_short_kernel(s, scratch);
            s = *s ? s : N_("(no name)");
            *id = gw_intern_add(names, s, strlen(s));
            if (!*id)
                goto out;
        }
        while (rows->len <= *id)
            if (!gw_array_push(rows))
                goto out;
        struct gw_tally *t = (struct gw_tally *)rows->data + *id, *c = classes + class_of(an, e);
        t->name = *id;
        t->kclass = class_of(an, e);
        t->count++, c->count++;
        t->ns += e->end - e->start, c->ns += e->end - e->start;
    }
    rc = GW_OK;
out:
    free(known);
    gw_arena_destroy(scratch);
    return rc;
}

/* The `most` largest of `t`, per step. */
static const struct gw_report_kernel *keep(struct gw_tally *t, size_t n, size_t most, const struct gw_intern *names,
                                           double steps, struct gw_arena *arena, size_t *count)
{
    if (n)
        qsort(t, n, sizeof *t, by_ns);
    *count = 0;
    while (*count < n && *count < most && t[*count].count)
        ++*count;
    struct gw_report_kernel *out = gw_arena_calloc(arena, *count, sizeof *out);
    for (size_t i = 0; out && i < *count; i++) {
        const char *kclass = class_name(t[i].kclass);
        const char *name = names ? gw_arena_strdup(arena, gw_intern_text(names, t[i].name)) : kclass;
        if (!name)
            return NULL;
        out[i] = (struct gw_report_kernel){
            .name = name, .kclass = kclass, .count = (double)t[i].count / steps, .ns = (double)t[i].ns / steps};
    }
    return out;
}

int gw_kernel_table(const struct gw_analysis *an, const struct gw_dev *dev, struct gw_arena *arena,
                    struct gw_kernel_table *out)
{
    struct gw_tally classes[CLASSES];
    struct gw_array rows;
    struct gw_intern *names = gw_intern_create();
    size_t steps = an->steps.count >= 2 ? an->steps.steady_last - an->steps.steady_first : 0;
    int rc = GW_ENOMEM;
    memset(out, 0, sizeof *out);
    memset(classes, 0, sizeof classes);
    gw_array_init(&rows, sizeof(struct gw_tally), UINT32_MAX - 1);
    if (!names || tally(an, dev, names, &rows, classes) < 0)
        goto out;
    for (unsigned c = 0; c < CLASSES; c++) {
        classes[c].kclass = c;
        classes[c].name = c;
    }
    struct gw_tally *t = rows.data;
    size_t n = 0;
    for (size_t i = 0; i < rows.len; i++)
        if (t[i].count)
            t[n++] = t[i];
    out->rows = keep(t, n, GW_REPORT_KERNELS, names, steps ? (double)steps : 1, arena, &out->count);
    n = 0;
    for (unsigned c = 0; c < CLASSES; c++)
        if (classes[c].count)
            classes[n++] = classes[c];
    out->classes = keep(classes, n, CLASSES, NULL, steps ? (double)steps : 1, arena, &out->class_count);
    rc = out->rows && out->classes ? GW_OK : GW_ENOMEM;
out:
    gw_array_free(&rows);
    gw_intern_destroy(names);
    return rc;
}
