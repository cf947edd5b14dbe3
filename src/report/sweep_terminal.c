/* sweep_terminal.c - a sweep on a terminal: the answer, a table that is a plot too, remarks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/gw_i18n.h"
#include "report/fmt.h"
#include "report/sweep_report.h"
#include "report/text.h"
#include "report/utf8.h"

enum { BAR_COLS = 20, RATE_COLS = 18, ERROR_COLS = 9, MEMORY_COLS = 11, KNEE_COLS = 7 };

struct view {
    const struct gw_sweep_result *r;
    struct gw_text t;
    int setting_cols;
    int has_gpu, has_host; /* columns of memory */
    double top;            /* the highest rate */
};

static void bar(struct view *v, double share, int is_knee)
{
    char buf[BAR_COLS * 3 + 1] = "";
    int n = (int)(share * BAR_COLS + 0.5);
    for (int i = 0; i < n && i < BAR_COLS; i++)
        strcat(buf, v->t.unicode ? "\xe2\x96\x88" : "#");
    gw_text_style(&v->t, is_knee ? GW_STYLE_COMPUTE : GW_STYLE_COPY);
    gw_text_words(&v->t, n > 0 ? buf : v->t.unicode ? "\xe2\x96\x8f" : ".");
    gw_text_style(&v->t, GW_STYLE_PLAIN);
}

static void measured(struct view *v, size_t point)
{
    const struct gw_sweep_point *p = v->r->sweep->point + point;
    char text[64];
    int col = v->setting_cols, knee = point == v->r->verdict.knee && !v->r->is_parts;
    gw_text_tab(&v->t, col);
    bar(v, v->top > 0 ? p->rate / v->top : 0, knee);
    gw_text_tab(&v->t, col += BAR_COLS + 1);
    gw_text_words(&v->t, gw_sweep_rate_text(v->r, p->rate, text, sizeof text));
    gw_text_tab(&v->t, col += RATE_COLS);
    gw_text_printf(&v->t, "%s%.1f\xc2\xa0%%", v->t.unicode ? "\xc2\xb1" : "+-", 100 * p->error);
    col += ERROR_COLS;
    if (v->has_gpu) {
        gw_text_tab(&v->t, col);
        gw_text_words(&v->t, gw_fmt_bytes(isnan(p->last.gpu_bytes) ? -1 : (int64_t)p->last.gpu_bytes).s);
        col += MEMORY_COLS;
    }
    if (v->has_host) {
        gw_text_tab(&v->t, col);
        gw_text_words(&v->t, gw_fmt_bytes(isnan(p->last.worker_bytes) ? -1 : (int64_t)p->last.worker_bytes).s);
        col += MEMORY_COLS;
    }
    if (knee) {
        gw_text_tab(&v->t, col);
        gw_text_style(&v->t, GW_STYLE_BOLD);
        gw_text_words(&v->t, _("< knee"));
        gw_text_style(&v->t, GW_STYLE_PLAIN);
    }
}

static void row(struct view *v, size_t point)
{
    const struct gw_sweep_point *p = v->r->sweep->point + point;
    char text[512];
    if (p->state == GW_SWEEP_UNTRIED)
        return;
    v->t.indent = 0;
    gw_text_words(&v->t, gw_sweep_setting(v->r->sweep, point, text, sizeof text));
    v->t.indent = v->setting_cols;
    if (p->state == GW_SWEEP_MEASURED) {
        measured(v, point);
    } else {
        gw_text_tab(&v->t, v->setting_cols);
        gw_text_style(&v->t, p->state == GW_SWEEP_FAILED ? GW_STYLE_WARN : GW_STYLE_DIM);
        gw_text_words(&v->t, gw_sweep_why_not(v->r, point, text, sizeof text));
        gw_text_style(&v->t, GW_STYLE_PLAIN);
    }
    gw_text_line(&v->t);
}

static void heads(struct view *v)
{
    int col = v->setting_cols + BAR_COLS + 1 + RATE_COLS + ERROR_COLS;
    if (!v->has_gpu && !v->has_host)
        return;
    v->t.indent = 0;
    gw_text_style(&v->t, GW_STYLE_DIM);
    if (v->has_gpu) {
        gw_text_tab(&v->t, col);
        gw_text_words(&v->t, _("GPU memory"));
        col += MEMORY_COLS;
    }
    if (v->has_host) {
        gw_text_tab(&v->t, col);
        gw_text_words(&v->t, _("a worker"));
    }
    gw_text_style(&v->t, GW_STYLE_PLAIN);
    gw_text_line(&v->t);
}

static void table(struct view *v)
{
    const struct gw_sweep *s = v->r->sweep;
    char text[256];
    for (size_t p = 0; p < s->points; p++) {
        const struct gw_sweep_point *pt = s->point + p;
        if (pt->state == GW_SWEEP_UNTRIED)
            continue;
        int n = (int)strlen(gw_sweep_setting(s, p, text, sizeof text)) + 2;
        v->setting_cols = n > v->setting_cols ? n : v->setting_cols;
        if (pt->state != GW_SWEEP_MEASURED)
            continue;
        v->top = pt->rate > v->top ? pt->rate : v->top;
        v->has_gpu |= !isnan(pt->last.gpu_bytes);
        v->has_host |= !isnan(pt->last.worker_bytes);
    }
    int room = v->t.width - v->setting_cols - BAR_COLS - 1 - RATE_COLS - ERROR_COLS - KNEE_COLS;
    v->has_gpu = v->has_gpu && room >= MEMORY_COLS;
    v->has_host = v->has_host && !v->r->is_parts && room >= MEMORY_COLS * (1 + v->has_gpu);
    heads(v);
    for (size_t p = 0; p < s->points; p++)
        row(v, p);
}

static void cost(struct view *v)
{
    const struct gw_sweep_verdict *d = &v->r->verdict;
    size_t points = v->r->sweep->points;
    v->t.indent = 0;
    gw_text_style(&v->t, GW_STYLE_DIM);
    gw_text_printf(&v->t, _("%zu runs at %zu of %zu points in %s"), v->r->sweep->runs, points - d->untried - d->skipped,
                   points, gw_fmt_time((int64_t)(d->spent_s * 1e9)).s);
    gw_text_style(&v->t, GW_STYLE_PLAIN);
    gw_text_line(&v->t);
}

static void how(struct view *v)
{
    static const char *const found[] = {"", N_("steps found by the GPU's own rhythm"),
                                        N_("steps counted by batches that the DataLoader gave"),
                                        N_("steps read from the job's output")};
    if (v->r->found_by == GW_SWEEP_FOUND_NOT)
        return;
    v->t.indent = 0;
    gw_text_style(&v->t, GW_STYLE_DIM);
    gw_text_words(&v->t, _(found[v->r->found_by]));
    gw_text_style(&v->t, GW_STYLE_PLAIN);
    gw_text_line(&v->t);
}

int gw_render_sweep_terminal(const struct gw_sweep_result *r, FILE *out, const struct gw_render_options *o)
{
    struct view v = {.r = r, .t = gw_text_begin(out, o)};
    char text[1024];
    gw_text_line(&v.t);
    fputc('\n', out);
    gw_text_style(&v.t, GW_STYLE_BOLD);
    gw_text_words(&v.t, gw_sweep_answer(r, text, sizeof text));
    gw_text_style(&v.t, GW_STYLE_PLAIN);
    gw_text_blank(&v.t);
    table(&v);
    fputc('\n', out);
    how(&v);
    cost(&v);
    for (size_t i = 0; gw_sweep_remark(r, i, text, sizeof text); i++) {
        v.t.indent = 0;
        gw_text_words(&v.t, "- ");
        v.t.indent = 2;
        gw_text_words(&v.t, text);
        gw_text_line(&v.t);
    }
    if (r->next.sentence) {
        char knee[128];
        fputc('\n', out);
        v.t.indent = 0;
        gw_text_printf(&v.t, _("At %s the next limit is: %s"),
                       gw_sweep_setting(r->sweep, r->verdict.knee, knee, sizeof knee), r->next.sentence);
        gw_text_line(&v.t);
    }
    return ferror(out) ? GW_EIO : GW_OK;
}
