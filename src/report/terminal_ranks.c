#include "report/terminal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/gw_i18n.h"
#include "report/fmt.h"

#define RANKS_SHOWN 32
#define COLLECTIVES_SHOWN 6

static double share_of(int64_t part, int64_t wall) { return part >= 0 && wall > 0 ? (double)part / (double)wall : NAN; }

static const char *percent(double share, struct gw_fmt *f)
{
    *f = gw_fmt_percent(share);
    return isfinite(share) ? f->s : _("n/a");
}

static void rank_row(struct gw_terminal *m, const struct gw_report_rank *k)
{
    struct gw_text *t = &m->t;
    struct gw_fmt f;
    char id[24];
    snprintf(id, sizeof id, "%" PRId64, k->rank >= 0 ? k->rank : k->device);
    gw_text_right(t, id, 4);
    gw_text_right(t, percent(share_of(k->compute, k->wall), &f), 14);
    gw_text_right(t, percent(share_of(k->wait_exposed, k->wall), &f), 23);
    gw_text_right(
        t, percent(share_of(k->wait_exposed >= 0 ? k->comm_exposed - k->wait_exposed : k->comm_exposed, k->wall), &f),
        34);
    gw_text_right(t, percent(share_of(k->copy_exposed, k->wall), &f), 43);
    gw_text_right(t, percent(share_of(k->idle, k->wall), &f), 52);
    gw_text_right(t, gw_fmt_count(k->last).s, 59);
    gw_text_tab(t, 62);
    gw_text_words(t, k->cause ? k->cause : "");
    gw_text_line(t);
}

static void rank_head(struct gw_terminal *m)
{
    struct gw_text *t = &m->t;
    gw_text_style(t, GW_STYLE_DIM);
    gw_text_right(t, m->rep->per_rank[0].rank >= 0 ? _("rank") : _("GPU"), 4);
    gw_text_right(t, _("compute"), 14);
    gw_text_right(t, _("waiting"), 23);
    gw_text_right(t, _("exchange"), 34);
    gw_text_right(t, _("copies"), 43);
    gw_text_right(t, _("idle"), 52);
    gw_text_right(t, _("last"), 59);
    gw_text_tab(t, 62);
    gw_text_words(t, _("idle for"));
    gw_text_style(t, GW_STYLE_PLAIN);
    gw_text_line(t);
}

static void collective_row(struct gw_terminal *m, const struct gw_report_collective *c)
{
    struct gw_text *t = &m->t;
    char count[32], name[96];
    snprintf(count, sizeof count, c->count < 9.95 ? "%.3g\xc3\x97" : "%.0f\xc3\x97", c->count);
    snprintf(name, sizeof name, "%.40s%s%s", c->kind ? c->kind : "", c->bytes >= 0 ? " of " : "",
             c->bytes >= 0 ? gw_fmt_bytes(c->bytes).s : "");
    t->indent = 2;
    gw_text_tab(t, 2);
    gw_text_words(t, name);
    gw_text_right(t, isfinite(c->count) ? count : _("n/a"), 36);
    gw_text_right(t, isfinite(c->wait_ns) ? gw_fmt_time((int64_t)c->wait_ns).s : _("n/a"), 47);
    gw_text_right(t, isfinite(c->transfer_ns) ? gw_fmt_time((int64_t)c->transfer_ns).s : _("n/a"), 58);
    gw_text_right(t, isfinite(c->bus_bandwidth) ? gw_fmt_rate(c->bus_bandwidth).s : _("n/a"), 70);
    gw_text_line(t);
}

static void collectives(struct gw_terminal *m)
{
    struct gw_text *t = &m->t;
    size_t n = m->rep->collective_count, most = m->o->all ? n : COLLECTIVES_SHOWN;
    if (!n)
        return;
    gw_text_blank(t);
    t->indent = 0;
    gw_text_style(t, GW_STYLE_DIM);
    gw_text_words(t, m->rep->steps.steady_count > 0 ? _("collectives, a step") : _("collectives"));
    gw_text_right(t, _("waiting"), 47);
    gw_text_right(t, _("exchange"), 58);
    gw_text_right(t, _("bus"), 70);
    gw_text_style(t, GW_STYLE_PLAIN);
    gw_text_line(t);
    for (size_t i = 0; i < n && i < most; i++)
        collective_row(m, &m->rep->collectives[i]);
    if (most < n) {
        gw_text_tab(t, 2);
        gw_text_printf(t, _("and %s more; --all shows them"), gw_fmt_count((int64_t)(n - most)).s);
        gw_text_line(t);
    }
}

void gw_terminal_ranks(struct gw_terminal *m)
{
    struct gw_text *t = &m->t;
    size_t n = m->rep->rank_count, most = m->o->all ? n : RANKS_SHOWN;
    gw_text_blank(t);
    t->indent = 0;
    rank_head(m);
    for (size_t i = 0; i < n && i < most; i++)
        rank_row(m, &m->rep->per_rank[i]);
    if (most < n) {
        gw_text_printf(t, _("and %s more; --all shows them"), gw_fmt_count((int64_t)(n - most)).s);
        gw_text_line(t);
    }
    collectives(m);
}
