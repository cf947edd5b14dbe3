#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report/csv.h"
#include "report/export.h"

/* Index of the step that holds `at`; -1 none. `*from` moves forward with `at`. */
static int64_t step_at(const struct gw_steps *s, int64_t at, size_t *from)
{
    while (*from < s->count && s->bound[*from + 1] <= at)
        ++*from;
    return *from < s->count && s->bound[*from] <= at ? (int64_t)*from : -1;
}

int gw_export_gaps(const struct gw_analysis *an, FILE *out)
{
    struct gw_csv c = gw_csv_begin(out);
    int64_t zero = gw_export_zero(an);
    gw_csv_header(&c, "device,gap,start_ns,end_ns,ns,cause,culprit,culprit_under,ended_by,issued_by,step,steady");
    for (size_t i = 0; i < an->ndev; i++) {
        const struct gw_dev *d = an->dev + i;
        size_t step = 0;
        for (size_t g = 0; g < d->ngaps; g++) {
            int64_t at = d->gaps[g].start;
            for (uint32_t k = 0; k < d->gaps[g].pieces; k++) {
                const struct gw_piece *p = d->pieces + d->gaps[g].first_piece + k;
                gw_csv_int(&c, d->info->id);
                gw_csv_int(&c, (int64_t)g);
                gw_csv_int(&c, at - zero);
                gw_csv_int(&c, at + p->ns - zero);
                gw_csv_int(&c, p->ns);
                gw_csv_text(&c, gw_cause_id(p->cause));
                gw_csv_text(&c, gw_export_name(an, p->culprit));
                gw_csv_text(&c, gw_export_range(an, p->culprit));
                gw_csv_text(&c, gw_export_name(an, d->gaps[g].next_op));
                gw_csv_text(&c, gw_export_name(an, d->gaps[g].call));
                gw_csv_known(&c, step_at(&an->steps, at, &step));
                gw_csv_int(&c, at >= an->w0 && at < an->w1);
                gw_csv_row(&c);
                at += p->ns;
            }
        }
    }
    return fflush(out) == 0 && !ferror(out) ? GW_OK : GW_EIO;
}

/* ---- findings ---- */

struct joined {
    char *s;
    size_t len;
    FILE *f;
};

static void join_begin(struct joined *j)
{
    *j = (struct joined){0};
    j->f = open_memstream(&j->s, &j->len); /* NULL when out of memory: the cell stays empty */
}

static void join_add(struct joined *j, const char *s)
{
    if (j->f && s && *s)
        fprintf(j->f, "%s%s", ftell(j->f) > 0 ? "; " : "", s);
}

static void join_end(struct joined *j, struct gw_csv *c)
{
    if (j->f)
        fclose(j->f);
    gw_csv_text(c, j->s);
    free(j->s);
}

static void lists(struct gw_csv *c, const struct gw_finding *f)
{
    struct joined j;
    join_begin(&j);
    for (size_t i = 0; i < f->evidence_count; i++)
        join_add(&j, f->evidence[i].text);
    join_end(&j, c);
    join_begin(&j);
    for (size_t i = 0; i < f->against_count; i++)
        join_add(&j, f->against[i].text);
    join_end(&j, c);
    join_begin(&j);
    for (size_t i = 0; i < f->where_count; i++) {
        const struct gw_where *w = f->where + i;
        char place[1024];
        int n = w->file && *w->file ? snprintf(place, sizeof place, "%.400s:%" PRId64 " ", w->file, w->line) : 0;
        snprintf(place + n, sizeof place - (size_t)n, "%.500s", w->text ? w->text : "");
        join_add(&j, place);
    }
    join_end(&j, c);
    join_begin(&j);
    for (size_t i = 0; i < f->fix_count; i++)
        join_add(&j, f->fix[i].doit);
    join_end(&j, c);
}

int gw_export_findings(const struct gw_report *rep, FILE *out)
{
    struct gw_csv c = gw_csv_begin(out);
    gw_csv_header(&c,
                  "rank,finding,layer,confidence,gain_low,gain_likely,gain_high,lost_ns,share_of_wall,share_of_idle,"
                  "step_now_ns,step_then_low_ns,step_then_high_ns,phrase,evidence,against,where,fix");
    for (size_t i = 0; i < rep->finding_count; i++) {
        const struct gw_finding *f = rep->findings + i;
        gw_csv_int(&c, f->rank);
        gw_csv_text(&c, f->id);
        gw_csv_text(&c, f->layer);
        gw_csv_text(&c, gw_confidence_id(f->confidence));
        gw_csv_double(&c, f->gain.low);
        gw_csv_double(&c, f->gain.likely);
        gw_csv_double(&c, f->gain.high);
        gw_csv_known(&c, f->lost_ns);
        gw_csv_double(&c, f->share_of_wall);
        gw_csv_double(&c, f->share_of_idle);
        gw_csv_known(&c, f->now_step_ns);
        gw_csv_known(&c, f->then_low_ns);
        gw_csv_known(&c, f->then_high_ns);
        gw_csv_text(&c, f->phrase);
        lists(&c, f);
        gw_csv_row(&c);
    }
    return fflush(out) == 0 && !ferror(out) ? GW_OK : GW_EIO;
}
