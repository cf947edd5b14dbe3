/* The timeline's section, and its data as JSON: columns, times as differences, so that thousands of spans stay small.
 */
#include "report/html/html_timeline.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/gw_i18n.h"
#include "report/fmt.h"
#include "report/html/html_words.h"
#include "report/json_writer.h"

#define STEPS_DRAWN 2000 /* boundaries in the page; of more, every k-th */

/* ---- data ---- */

static void lane_title(struct gw_json *j, const struct gw_timeline *tl, const struct gw_tl_lane *l, int main_lane)
{
    char s[160];
    (void)tl;
    switch (l->type) {
    case GW_TL_IDLE:
        if (main_lane)
            snprintf(s, sizeof s, "%s", _("why idle"));
        else
            snprintf(s, sizeof s, _("GPU %" PRId64 ": why idle"), l->device);
        break;
    case GW_TL_STREAM:
        if (*l->name)
            snprintf(s, sizeof s, "%.150s", l->name);
        else
            snprintf(s, sizeof s, _("stream %" PRId64), l->stream);
        break;
    case GW_TL_OTHER_STREAMS:
        if (l->stream < 0)
            snprintf(s, sizeof s, _("GPU %" PRId64 ": work"), l->device);
        else
            snprintf(s, sizeof s, _("%" PRId64 " more streams"), l->stream);
        break;
    case GW_TL_HOST: snprintf(s, sizeof s, "%s", _("launching thread")); break;
    case GW_TL_RANGE:
    default: snprintf(s, sizeof s, "%s", l->stream ? "" : _("its operators")); break;
    }
    gw_json_string(j, "title", s);
}

static void differences(struct gw_json *j, const char *key, const struct gw_tl_lane *l)
{
    int64_t last = 0;
    gw_json_array(j, key);
    gw_json_inline(j);
    for (size_t i = 0; i < l->count; i++) {
        gw_json_int(j, NULL, l->spans[i].start - last);
        last = l->spans[i].start;
    }
    gw_json_end(j);
}

static void index_or_none(struct gw_json *j, uint32_t v) { gw_json_int(j, NULL, v == GW_NONE ? -1 : (int64_t)v); }

static void details(struct gw_json *j, const struct gw_timeline *tl, const struct gw_tl_lane *l)
{
    gw_json_array(j, "details"); /* [span, culprit, under, next, call, culprit's start and length, call's start], times
                                    from the span's start */
    for (size_t i = 0; i < l->count; i++) {
        const struct gw_tl_span *s = l->spans + i;
        if (s->detail == GW_NONE)
            continue;
        const struct gw_tl_detail *d = tl->details + s->detail;
        gw_json_array(j, NULL);
        gw_json_inline(j);
        gw_json_uint(j, NULL, i);
        index_or_none(j, d->culprit);
        index_or_none(j, d->under);
        index_or_none(j, d->next);
        index_or_none(j, d->call);
        gw_json_int(j, NULL, d->culprit == GW_NONE ? 0 : d->culprit_start - s->start);
        gw_json_int(j, NULL, d->culprit == GW_NONE ? 0 : d->culprit_end - d->culprit_start);
        gw_json_int(j, NULL, d->call == GW_NONE ? 0 : d->call_start - s->start);
        gw_json_end(j);
    }
    gw_json_end(j);
}

static void lane(struct gw_json *j, const struct gw_timeline *tl, const struct gw_tl_lane *l, int main_lane)
{
    static const char *const types[] = {"idle", "stream", "stream", "host", "range"};
    gw_json_object(j, NULL);
    gw_json_string(j, "type", types[l->type]);
    lane_title(j, tl, l, main_lane);
    gw_json_bool(j, "main", main_lane || l->type == GW_TL_STREAM || (l->type == GW_TL_OTHER_STREAMS && l->stream >= 0));
    gw_json_int(j, "resolution", l->resolution);
    gw_json_uint(j, "all", l->all);
    differences(j, "at", l);
    gw_json_array(j, "ns");
    gw_json_inline(j);
    for (size_t i = 0; i < l->count; i++)
        gw_json_int(j, NULL, l->spans[i].end - l->spans[i].start);
    gw_json_end(j);
    if (l->type != GW_TL_RANGE) {
        gw_json_array(j, "kind");
        gw_json_inline(j);
        for (size_t i = 0; i < l->count; i++)
            gw_json_uint(j, NULL, l->spans[i].kind);
        gw_json_end(j);
    }
    if (l->type != GW_TL_IDLE) {
        gw_json_array(j, "name");
        gw_json_inline(j);
        for (size_t i = 0; i < l->count; i++)
            index_or_none(j, l->spans[i].name);
        gw_json_end(j);
    }
    gw_json_array(j, "merged"); /* [span, how many, ns at work, ...] flat */
    gw_json_inline(j);
    for (size_t i = 0; i < l->count; i++)
        if (l->spans[i].count > 1) {
            gw_json_uint(j, NULL, i);
            gw_json_uint(j, NULL, l->spans[i].count);
            gw_json_int(j, NULL, l->spans[i].busy);
        }
    gw_json_end(j);
    if (main_lane)
        details(j, tl, l);
    gw_json_end(j);
}

static void values(struct gw_json *j, const char *key, const float *v, size_t n)
{
    char buf[32];
    gw_json_array(j, key);
    gw_json_inline(j);
    for (size_t i = 0; i < n; i++) {
        snprintf(buf, sizeof buf, "%.4g", (double)v[i]); /* more digits than a curve shows */
        gw_json_double(j, NULL, isfinite(v[i]) ? strtod(buf, NULL) : NAN);
    }
    gw_json_end(j);
}

static void series(struct gw_json *j, const struct gw_timeline *tl)
{
    gw_json_array(j, "series");
    for (size_t i = 0; i < tl->series_count; i++) {
        const struct gw_tl_series *s = tl->series + i;
        gw_json_object(j, NULL);
        gw_json_string(j, "title", s->queue ? _("issued, not begun") : s->name);
        gw_json_int(j, "start", s->start);
        gw_json_int(j, "bucket", s->bucket);
        values(j, "low", s->low, s->count);
        values(j, "high", s->high, s->count);
        gw_json_end(j);
    }
    gw_json_end(j);
}

static void causes(struct gw_json *j)
{
    gw_json_array(j, "causes"); /* by number; the last is the host held back by a full queue */
    for (unsigned c = 0; c <= GW_CAUSE_COUNT; c++) {
        gw_json_row(j, NULL);
        gw_json_string(j, "id", c < GW_CAUSE_COUNT ? gw_cause_id(c) : "queue-full");
        gw_json_string(j, "text",
                       c < GW_CAUSE_COUNT ? _(gw_cause_text(c)) : _("held in a launch: the GPU's queue is full"));
        gw_json_string(j, "family", gw_html_family_id(gw_html_family(c)));
        gw_json_end(j);
    }
    gw_json_end(j);
}

static void steps(struct gw_json *j, const struct gw_timeline *tl)
{
    size_t every = tl->step_count / STEPS_DRAWN + 1;
    gw_json_array(j, "steps");
    gw_json_inline(j);
    for (size_t i = 0; tl->step_count && i <= tl->step_count; i += every)
        gw_json_int(j, NULL, tl->steps[i]);
    gw_json_end(j);
    gw_json_uint(j, "steps_every", every);
    gw_json_array(j, "focus");
    for (int i = 0; i < 2; i++) {
        if (!tl->focus[i][1])
            continue;
        gw_json_array(j, NULL);
        gw_json_inline(j);
        gw_json_int(j, NULL, tl->focus[i][0]);
        gw_json_int(j, NULL, tl->focus[i][1]);
        gw_json_end(j);
    }
    gw_json_end(j);
}

void gw_html_timeline_data(struct gw_html *h, const struct gw_timeline *tl)
{
    FILE *data = tl && tl->lane_count ? gw_html_data(h, "gw-timeline") : NULL;
    if (!data)
        return;
    struct gw_json j = gw_json_begin(data);
    gw_json_object(&j, NULL);
    gw_json_int(&j, "zero_ns", tl->zero);
    gw_json_int(&j, "length", tl->length);
    gw_json_int(&j, "steady_start", tl->steady_start);
    gw_json_int(&j, "steady_end", tl->steady_end);
    steps(&j, tl);
    gw_json_array(&j, "names");
    gw_json_inline(&j);
    for (size_t i = 0; i < tl->name_count; i++)
        gw_json_string(&j, NULL, tl->names[i]);
    gw_json_end(&j);
    causes(&j);
    gw_json_array(&j, "lanes");
    for (size_t i = 0; i < tl->lane_count; i++)
        lane(&j, tl, tl->lanes + i, i == 0);
    gw_json_end(&j);
    series(&j, tl);
    gw_json_end(&j);
    gw_html_data_end(h, data);
}

/* ---- the section ---- */

/* What was merged, in words: "idle spans shorter than 12 µs are merged". */
static void merged(struct gw_html *h, const struct gw_timeline *tl)
{
    uint64_t all = 0, shown = 0;
    int64_t resolution = 0;
    for (size_t i = 0; i < tl->lane_count; i++) {
        all += tl->lanes[i].all;
        shown += tl->lanes[i].count;
        resolution = tl->lanes[i].resolution > resolution ? tl->lanes[i].resolution : resolution;
    }
    gw_html_raw(h, "<p class=\"note\">");
    if (resolution) {
        gw_html_textf(
            h,
            _("%s spans are drawn as %s: outside the typical and the slowest step, neighbours shorter than %s are "
              "merged, and say so."),
            gw_fmt_count((int64_t)all).s, gw_fmt_count((int64_t)shown).s, gw_fmt_time(resolution).s);
    } else {
        gw_html_textf(h, _("Every one of %s spans is drawn by itself."), gw_fmt_count((int64_t)all).s);
    }
    if (tl->series_left) {
        gw_html_raw(h, " ");
        gw_html_text(h, _("Further counters of the recording are not drawn."));
    }
    if (tl->names_left) {
        gw_html_raw(h, " ");
        gw_html_text(h, _("Some names did not fit and are shown as dots."));
    }
    gw_html_raw(h, "</p>\n");
}

static void gap_row(struct gw_html *h, const struct gw_timeline *tl, uint32_t index)
{
    const struct gw_tl_span *s = tl->lanes[0].spans + index;
    const struct gw_tl_detail *d = s->detail == GW_NONE ? NULL : tl->details + s->detail;
    enum gw_family f = gw_html_family(s->kind);
    fprintf(h->out, "<tr data-gap=\"%" PRIu32 "\"><td class=\"num\">", index);
    gw_html_text(h, gw_fmt_time(s->end - s->start).s);
    gw_html_raw(h, "</td><td class=\"num\">");
    gw_html_text(h, gw_fmt_time(s->start).s);
    fprintf(h->out, "</td><td><span class=\"sw f-%s\"></span>", gw_html_family_id(f));
    gw_html_text(h, _(gw_cause_text(s->kind)));
    gw_html_raw(h, "</td><td class=\"name\">");
    gw_html_text(h, d && d->culprit != GW_NONE ? tl->names[d->culprit] : _("code that makes no GPU call"));
    if (d && d->under != GW_NONE) {
        gw_html_raw(h, " <span class=\"dim\">");
        gw_html_textf(h, _("in %s"), tl->names[d->under]);
        gw_html_raw(h, "</span>");
    }
    gw_html_raw(h, "</td><td class=\"name\">");
    gw_html_text(h, d && d->next != GW_NONE ? tl->names[d->next] : _("not known"));
    gw_html_raw(h, "</td></tr>\n");
}

static void longest(struct gw_html *h, const struct gw_timeline *tl)
{
    if (!tl->gap_count)
        return;
    gw_html_raw(h, "<details class=\"more\"><summary>");
    gw_html_text(h, _("The longest idle spans, as a table"));
    gw_html_raw(
        h,
        "</summary>\n<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-labelledby=\"gaps-c\"><table id=\"gaps\">"
        "<caption id=\"gaps-c\" class=\"sr\">");
    gw_html_text(h, _("The longest idle spans"));
    gw_html_raw(h, "</caption>\n<thead><tr>");
    const char *const num[] = {_("length"), _("at")}, *const words[] = {_("cause"), _("the host is in"), _("ended by")};
    for (int i = 0; i < 2; i++) {
        gw_html_raw(h, "<th scope=\"col\" class=\"num\">");
        gw_html_text(h, num[i]);
        gw_html_raw(h, "</th>");
    }
    for (int i = 0; i < 3; i++) {
        gw_html_raw(h, "<th scope=\"col\">");
        gw_html_text(h, words[i]);
        gw_html_raw(h, "</th>");
    }
    gw_html_raw(h, "</tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < tl->gap_count; i++)
        gap_row(h, tl, tl->gaps[i]);
    gw_html_raw(h, "</tbody></table></div></details>\n");
}

static void legend(struct gw_html *h, const struct gw_timeline *tl)
{
    static const char *const classes[] = {"compute", "comm", "copies"};
    const char *const words[] = {_("compute"), _("communication"), _("copies and sets")};
    int used[GW_FAMILY_COUNT] = {0}, work[3] = {1, 0, 0};
    for (size_t l = 1; l < tl->lane_count; l++)
        for (size_t i = 0;
             (tl->lanes[l].type == GW_TL_STREAM || tl->lanes[l].type == GW_TL_OTHER_STREAMS) && i < tl->lanes[l].count;
             i++) {
            uint32_t k = tl->lanes[l].spans[i].kind;
            work[k == GW_TL_COMM ? 1 : k == GW_TL_COPY || k == GW_TL_SET ? 2 : 0] = 1;
        }
    for (size_t i = 0; i < tl->lanes[0].count; i++)
        used[gw_html_family(tl->lanes[0].spans[i].kind)] = 1;
    gw_html_raw(h, "<ul class=\"legend\">");
    for (int i = 0; i < 3; i++) {
        if (!work[i])
            continue;
        fprintf(h->out, "<li><span class=\"sw p-%s\"></span>", classes[i]);
        gw_html_text(h, words[i]);
        gw_html_raw(h, "</li>");
    }
    for (int i = 0; i < GW_FAMILY_COUNT; i++) {
        if (!used[i])
            continue;
        fprintf(h->out, "<li><span class=\"sw f-%s\"></span>", gw_html_family_id((enum gw_family)i));
        gw_html_textf(h, _("idle: %s"), _(gw_html_family_text((enum gw_family)i)));
        gw_html_raw(h, "</li>");
    }
    gw_html_raw(h, "</ul>\n");
}

void gw_html_timeline(struct gw_html *h, const struct gw_timeline *tl)
{
    if (!tl || !tl->lane_count)
        return;
    gw_html_section(h, "timeline", _("Timeline"));
    gw_html_raw(h, "<div id=\"tl\" hidden></div>\n<figure id=\"tl-static\">\n");
    gw_html_timeline_picture(h, tl);
    gw_html_raw(h, "</figure>\n");
    legend(h, tl);
    merged(h, tl);
    longest(h, tl);
    gw_html_section_end(h);
}

/* ---- idle time by line ---- */

void gw_html_places(struct gw_html *h, const struct gw_timeline *tl)
{
    size_t files = 0;
    int64_t listed = 0;
    if (!tl || !tl->place_count)
        return;
    for (size_t i = 0; i < tl->place_count; i++)
        files += tl->places[i].file && *tl->places[i].file;
    gw_html_section(h, "places", files ? _("Idle time by line of code") : _("Idle time by operator and call"));
    if (!files)
        gw_html_tag(h, "p", "note",
                    _("The recording has no Python stacks, so places are operators and calls. torch.profiler records "
                      "stacks when with_stack is True."));
    gw_html_raw(h,
                "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-labelledby=\"places-h\"><table>\n<thead><tr>"
                "<th scope=\"col\">");
    gw_html_text(h, _("place"));
    gw_html_raw(h, "</th><th scope=\"col\">");
    gw_html_text(h, _("cause"));
    gw_html_raw(h, "</th><th scope=\"col\" class=\"num\">");
    gw_html_text(h, _("idle"));
    gw_html_raw(h, "</th><th scope=\"col\" class=\"num\">");
    gw_html_text(h, _("of all idle"));
    gw_html_raw(h, "</th></tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < tl->place_count; i++) {
        const struct gw_tl_place *p = tl->places + i;
        double share = gw_html_share(p->ns, tl->place_idle);
        gw_html_raw(h, "<tr><td class=\"name\">");
        if (p->file && *p->file) {
            gw_html_raw(h, "<b>");
            gw_html_text(h, p->file);
            if (p->line > 0)
                gw_html_textf(h, ":%" PRId64, p->line);
            gw_html_raw(h, "</b> ");
        }
        gw_html_text(h, p->text);
        fprintf(h->out, "</td><td><span class=\"sw f-%s\"></span>", gw_html_family_id(gw_html_family(p->cause)));
        gw_html_text(h, gw_cause_id(p->cause));
        gw_html_raw(h, "</td><td class=\"num\">");
        gw_html_text(h, gw_fmt_time(p->ns).s);
        fprintf(h->out, "</td><td class=\"num share\" style=\"--w:%s%%\">", gw_html_width(share).s);
        gw_html_text(h, gw_fmt_percent(share).s);
        gw_html_raw(h, "</td></tr>\n");
        listed += p->ns;
    }
    gw_html_raw(h, "</tbody></table></div>\n");
    if (tl->place_idle > listed)
        gw_html_tagf(h, "p", "note", _("Further places together: %s."), gw_fmt_time(tl->place_idle - listed).s);
    gw_html_section_end(h);
}
