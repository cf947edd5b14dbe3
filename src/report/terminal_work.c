#include "report/terminal.h"

#include <math.h>

#include "base/gw_i18n.h"
#include "report/elide.h"
#include "report/fmt.h"

#define KERNELS_SHOWN 12
#define TIME_COL 10 /* right edges of the columns */
#define COUNT_COL 20
#define NAME_COL 22

static void row(struct gw_text *t, const struct gw_report_kernel *k, const char *what)
{
    char name[512], count[32];
    t->indent = NAME_COL;
    gw_text_right(t, gw_fmt_time(isfinite(k->ns) ? (int64_t)(k->ns + 0.5) : -1).s, TIME_COL);
    snprintf(count, sizeof count, k->count < 9.95 ? "%.1f\xc3\x97" : "%.0f\xc3\x97", k->count);
    gw_text_right(t, isfinite(k->count) ? count : _("n/a"), COUNT_COL);
    gw_text_tab(t, NAME_COL);
    gw_text_words(t, gw_elide(name, sizeof name, what ? what : "", t->width - NAME_COL, t->unicode));
    gw_text_line(t);
}

static void title(struct gw_terminal *m, const char *text)
{
    struct gw_text *t = &m->t;
    gw_text_blank(t);
    t->indent = 0;
    gw_text_style(t, GW_STYLE_BOLD);
    gw_text_words(t, text);
    gw_text_style(t, GW_STYLE_PLAIN);
    gw_text_words(t, m->rep->steps.count > 0 ? _(", a step") : _(", in all"));
    gw_text_line(t);
}

/* What the main device worked on; only when all is asked for, since it explains busy time and not idle time. */
void gw_terminal_work(struct gw_terminal *m)
{
    const struct gw_report *r = m->rep;
    if (!m->o->all || r->kernel_count == 0)
        return;
    title(m, _("GPU work by class"));
    for (size_t i = 0; i < r->kernel_class_count; i++)
        row(&m->t, &r->kernel_classes[i], r->kernel_classes[i].name ? _(r->kernel_classes[i].name) : NULL);
    title(m, _("GPU work by name"));
    for (size_t i = 0; i < r->kernel_count && i < KERNELS_SHOWN; i++)
        row(&m->t, &r->kernels[i], r->kernels[i].name);
    if (r->kernel_count > KERNELS_SHOWN) {
        m->t.indent = 2;
        gw_text_printf(&m->t, _("and %s more; --json has them"),
                       gw_fmt_count((int64_t)(r->kernel_count - KERNELS_SHOWN)).s);
        gw_text_line(&m->t);
    }
}
