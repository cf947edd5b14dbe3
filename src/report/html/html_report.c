/* The page of a recording: verdict, where the time goes, findings, timeline, steps, ranks, work, trust. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/gw_i18n.h"
#include "report/fmt.h"
#include "report/html/html.h"
#include "report/html/html_beside.h"
#include "report/html/html_findings.h"
#include "report/html/html_ranks.h"
#include "report/html/html_steps.h"
#include "report/html/html_timeline.h"
#include "report/html/html_words.h"
#include "report/renderer.h"

static const char *base_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash && slash[1] ? slash + 1 : path ? path : "";
}

static const struct gw_report_device *main_device(const struct gw_report *r)
{
    return r->device_count ? r->devices + (r->main_device < r->device_count ? r->main_device : 0) : NULL;
}

/* ---- header ---- */

static void fact(struct gw_html *h, const char *text)
{
    if (text && *text)
        gw_html_tag(h, "li", NULL, text);
}

static void facts(struct gw_html *h, const struct gw_report *r)
{
    const struct gw_report_device *d = main_device(r);
    const struct gw_report_steps *s = &r->steps;
    gw_html_raw(h, "<ul class=\"facts\">");
    if (!d)
        fact(h, _("no GPU data"));
    else if (r->device_count > 1 && d->name && *d->name)
        gw_html_tagf(h, "li", NULL, "%s\xc2\xa0\xc3\x97 %s", gw_fmt_count((int64_t)r->device_count).s, d->name);
    else if (d->name && *d->name)
        fact(h, d->name);
    else
        gw_html_tagf(h, "li", NULL, _("GPU %" PRId64), d->id);
    fact(h, r->framework);
    if (r->ranks > 1)
        gw_html_tagf(h, "li", NULL, _("%s ranks"), gw_fmt_count(r->ranks).s);
    if (d && s->count > 0) {
        gw_html_tagf(h, "li", NULL, gw_ngettext("%s step", "%s steps", (unsigned long)s->count),
                     gw_fmt_count(s->count).s);
        if (s->median_ns >= 0)
            gw_html_tagf(h, "li", NULL,
                         r->profiler && *r->profiler ? _("%s a step under the profiler") : _("%s a step"),
                         gw_fmt_time(s->median_ns).s);
    } else if (d) {
        fact(h, _("no steps found"));
    }
    gw_html_raw(h, "</ul>\n");
}

static void contents(struct gw_html *h, const struct gw_report *r, const struct gw_timeline *tl)
{
    const struct {
        const char *id, *name;
        int there;
    } parts[] = {{"time", _("Time"), r->device_count > 0},
                 {"findings", _("Findings"), 1},
                 {"timeline", _("Timeline"), tl && tl->lane_count},
                 {"steps", _("Steps"), r->step_time_count > 1},
                 {"places", _("Places"), tl && tl->place_count},
                 {"ranks", _("Ranks"), r->rank_count > 1},
                 {"work", _("Work"), r->kernel_count > 0},
                 {"counters", _("Counters"), r->counters && r->counters->count},
                 {"run", _("Whole run"), r->activity_count || r->window_count},
                 {"trust", _("Trust"), 1},
                 {"not-evaluated", _("Not evaluated"), r->not_evaluated_count > 0}};
    gw_html_raw(h, "<nav aria-label=\"");
    gw_html_text(h, _("Contents"));
    gw_html_raw(h, "\"><ul>");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].there) {
            fprintf(h->out, "<li><a href=\"#%s\">", parts[i].id);
            gw_html_text(h, parts[i].name);
            gw_html_raw(h, "</a></li>");
        }
    gw_html_raw(h, "</ul></nav>\n");
}

static void header(struct gw_html *h, const struct gw_report *r, const struct gw_timeline *tl)
{
    const char *s = r->verdict.sentence;
    gw_html_raw(h, "<a class=\"skip\" href=\"#findings\">");
    gw_html_text(h, _("Skip to the findings"));
    gw_html_raw(h, "</a>\n<header>\n<p class=\"brand\"><b>gpuwhy</b> <span class=\"name\">");
    for (size_t i = 0; i < r->source_count && i < 2; i++) {
        gw_html_raw(h, i ? ", " : "");
        gw_html_text(h, base_name(r->sources[i].path));
    }
    if (r->source_count > 2)
        gw_html_textf(h, _(" and %s more"), gw_fmt_count((int64_t)r->source_count - 2).s);
    gw_html_raw(h, "</span></p>\n<h1>");
    gw_html_text(h, s && *s ? s : _("No verdict could be reached."));
    gw_html_raw(h, "</h1>\n");
    facts(h, r);
    contents(h, r, tl);
    gw_html_raw(h, "</header>\n<main>\n");
}

/* ---- where the time goes ---- */

struct share {
    const char *cls, *label;
    int64_t ns;
};

static void bar(struct gw_html *h, const struct share *part, size_t n, int64_t wall)
{
    gw_html_raw(h, "<div class=\"bar\" role=\"img\" aria-label=\"");
    for (size_t i = 0; i < n; i++)
        if (part[i].ns > 0)
            gw_html_textf(h, "%s %s. ", part[i].label, gw_fmt_percent(gw_html_share(part[i].ns, wall)).s);
    gw_html_raw(h, "\">");
    for (size_t i = 0; i < n; i++)
        if (part[i].ns > 0)
            fprintf(h->out, "<span class=\"p-%s\" style=\"width:%s%%\"></span>", part[i].cls,
                    gw_html_width(gw_html_share(part[i].ns, wall)).s);
    gw_html_raw(h, "</div>\n");
}

static void part_row(struct gw_html *h, const struct share *p, int64_t wall, double steps)
{
    fprintf(h->out, "<tr><th scope=\"row\"><span class=\"sw p-%s\"></span>", p->cls);
    gw_html_text(h, p->label);
    gw_html_raw(h, "</th>");
    gw_html_tag(h, "td", "num", gw_fmt_percent(gw_html_share(p->ns, wall)).s);
    gw_html_tag(h, "td", "num", gw_fmt_time(p->ns).s);
    if (steps > 0)
        gw_html_tag(h, "td", "num", gw_fmt_time((int64_t)((double)p->ns / steps + 0.5)).s);
    gw_html_raw(h, "</tr>\n");
}

static void parts_table(struct gw_html *h, const struct share *part, size_t n, const struct gw_partition *p,
                        double steps)
{
    gw_html_raw(h, "<table class=\"parts\"><thead><tr><td></td><th scope=\"col\" class=\"num\">");
    gw_html_text(h, _("share"));
    gw_html_raw(h, "</th><th scope=\"col\" class=\"num\">");
    gw_html_text(h, _("time"));
    if (steps > 0) {
        gw_html_raw(h, "</th><th scope=\"col\" class=\"num\">");
        gw_html_text(h, _("a step"));
    }
    gw_html_raw(h, "</th></tr></thead>\n<tbody>");
    for (size_t i = 0; i < n; i++)
        if (part[i].ns > 0 || i == 0 || i == n - 1)
            part_row(h, part + i, p->wall, steps);
    gw_html_raw(h, "</tbody></table>\n");
}

static void causes(struct gw_html *h, const struct gw_cause_total *list, size_t n, int64_t idle, int64_t wall)
{
    int any = 0;
    for (size_t i = 0; i < n; i++)
        any |= list[i].ns > 0;
    if (!any)
        return;
    gw_html_raw(h, "<div class=\"scroll\"><table class=\"causes\"><caption>");
    gw_html_text(h, _("Idle, by cause"));
    gw_html_raw(h, "</caption><thead class=\"sr\"><tr><th scope=\"col\">");
    gw_html_text(h, _("cause"));
    gw_html_raw(h, "</th><th scope=\"col\">");
    gw_html_text(h, _("share of the time"));
    gw_html_raw(h, "</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < n; i++) {
        if (list[i].ns <= 0)
            continue;
        const char *family = gw_html_family_id(gw_html_family(list[i].cause));
        gw_html_raw(h, "<tr><th scope=\"row\">");
        gw_html_text(h, _(gw_cause_text(list[i].cause)));
        gw_html_raw(h, " ");
        gw_html_tag(h, "code", NULL, gw_cause_id(list[i].cause));
        fprintf(h->out,
                "<span class=\"meter\" aria-hidden=\"true\"><span class=\"f-%s\" style=\"width:%s%%\"></span></span>",
                family, gw_html_width(gw_html_share(list[i].ns, idle)).s);
        gw_html_raw(h, "</th>");
        gw_html_tag(h, "td", "num", gw_fmt_percent(gw_html_share(list[i].ns, wall)).s);
        gw_html_raw(h, "</tr>\n");
    }
    gw_html_raw(h, "</tbody></table></div>\n");
}

static void window(struct gw_html *h, const struct gw_report_device *d, int is_whole)
{
    const struct gw_partition *p = is_whole ? &d->whole : &d->steady;
    gw_html_raw(h, "<p class=\"note\">");
    if (is_whole)
        gw_html_textf(h, _("Of the whole recording, %s: no steady part was found."), gw_fmt_time(d->whole.wall).s);
    else if (d->steady.wall != d->whole.wall)
        gw_html_textf(h, _("Of the steady %s; the whole %s, start-up included, is %s idle."),
                      gw_fmt_time(d->steady.wall).s, gw_fmt_time(d->whole.wall).s,
                      gw_fmt_percent(gw_html_share(d->whole.idle, d->whole.wall)).s);
    else
        gw_html_textf(h, _("Of %s."), gw_fmt_time(p->wall).s);
    if (p->comm_hidden > 0 && gw_html_share(p->comm_hidden, p->wall) >= 0.0005)
        gw_html_textf(h, _(" Communication hidden behind compute: %s."),
                      gw_fmt_percent(gw_html_share(p->comm_hidden, p->wall)).s);
    if (p->copy_hidden > 0 && gw_html_share(p->copy_hidden, p->wall) >= 0.0005)
        gw_html_textf(h, _(" Copies hidden behind compute: %s."),
                      gw_fmt_percent(gw_html_share(p->copy_hidden, p->wall)).s);
    gw_html_raw(h, "</p>\n");
}

static void device(struct gw_html *h, const struct gw_report *r, const struct gw_report_device *d)
{
    int is_whole = d->steady.wall <= 0, is_main = d == main_device(r);
    const struct gw_partition *p = is_whole ? &d->whole : &d->steady;
    const struct share part[] = {{"compute", _("compute"), p->compute},
                                 {"comm", _("communication"), p->comm_exposed},
                                 {"copies", _("copies"), p->copy_exposed},
                                 {"idle", _("idle"), p->idle}};
    if (r->device_count > 1) {
        gw_html_raw(h, "<h3>");
        if (r->rank_count > 1 && d->rank >= 0)
            gw_html_textf(h, _("Rank %" PRId64 ", GPU %" PRId64), d->rank, d->id);
        else
            gw_html_textf(h, _("GPU %" PRId64), d->id);
        if (is_main) {
            gw_html_raw(h, " <span class=\"dim\">");
            gw_html_text(h, _("the one that the verdict is about"));
            gw_html_raw(h, "</span>");
        }
        gw_html_raw(h, "</h3>\n");
    }
    if (p->wall <= 0) {
        gw_html_tag(h, "p", "note", _("No GPU work was recorded."));
        return;
    }
    bar(h, part, 4, p->wall);
    gw_html_raw(h, "<div class=\"two\"><div>");
    parts_table(h, part, 4, p, is_main && !is_whole && r->steps.steady_count > 0 ? (double)r->steps.steady_count : 0);
    window(h, d, is_whole);
    gw_html_raw(h, "</div><div>");
    if (is_whole)
        causes(h, d->whole_by_cause, d->whole_cause_count, p->idle, p->wall);
    else
        causes(h, d->idle_by_cause, d->cause_count, p->idle, p->wall);
    gw_html_raw(h, "</div></div>\n");
}

#define DEVICES_SHOWN 8 /* with all their causes; the ranks' table has every one */

static void time_section(struct gw_html *h, const struct gw_report *r)
{
    const struct gw_report_device *first = main_device(r);
    size_t shown = 1;
    if (!first)
        return;
    gw_html_section(h, "time", _("Where the time goes"));
    device(h, r, first);
    if (r->device_count > 1 && r->rank_count < 2) {
        for (size_t i = 0; i < r->device_count && shown < DEVICES_SHOWN; i++)
            if (r->devices + i != first) {
                device(h, r, r->devices + i);
                shown++;
            }
        if (shown < r->device_count)
            gw_html_tagf(h, "p", "note", _("%s more GPUs are in the JSON report."),
                         gw_fmt_count((int64_t)(r->device_count - shown)).s);
    }
    gw_html_section_end(h);
}

/* ---- steps and work ---- */

static void steps(struct gw_html *h, const struct gw_report *r)
{
    const struct gw_report_steps *s = &r->steps;
    if (r->step_time_count < 2)
        return;
    gw_html_section(h, "steps", _("Step times"));
    gw_html_raw(h, "<div id=\"plot\" hidden></div>\n<figure id=\"plot-static\">\n");
    gw_html_steps_picture(h, r->step_times, r->step_time_count, s->median_ns);
    gw_html_raw(h, "</figure>\n<dl class=\"figures\">");
    const struct {
        const char *label;
        int64_t ns;
    } f[] = {
        {_("fastest"), s->min_ns}, {_("median"), s->median_ns}, {_("mean"), s->mean_ns}, {_("95 % below"), s->p95_ns}};
    for (size_t i = 0; i < sizeof f / sizeof *f; i++) {
        gw_html_raw(h, "<div>");
        gw_html_tag(h, "dt", NULL, f[i].label);
        gw_html_tag(h, "dd", NULL, gw_fmt_time(f[i].ns).s);
        gw_html_raw(h, "</div>");
    }
    gw_html_raw(h, "</dl>\n<p class=\"note\">");
    gw_html_textf(h, _("%s steps were found, %s of them steady; those are shown."), gw_fmt_count(s->count).s,
                  gw_fmt_count(s->steady_count).s);
    if (s->marker && *s->marker)
        gw_html_textf(h, _(" They are marked by %s."), s->marker);
    gw_html_raw(h, "</p>\n");
    gw_html_section_end(h);
}

static void kernel_rows(struct gw_html *h, const struct gw_report_kernel *list, size_t n, double all, int classes)
{
    for (size_t i = 0; i < n; i++) {
        double share = all > 0 ? list[i].ns / all : NAN;
        gw_html_raw(h, "<tr>");
        gw_html_tag(h, "td", classes ? NULL : "name", classes && list[i].name ? _(list[i].name) : list[i].name);
        if (!classes)
            gw_html_tag(h, "td", "dim", list[i].kclass && *list[i].kclass ? _(list[i].kclass) : "");
        gw_html_tagf(h, "td", "num", "%.4g", list[i].count);
        gw_html_tag(h, "td", "num", gw_fmt_time((int64_t)(list[i].ns + 0.5)).s);
        fprintf(h->out, "<td class=\"num share\" style=\"--w:%s%%\">", gw_html_width(share).s);
        gw_html_text(h, gw_fmt_percent(share).s);
        gw_html_raw(h, "</td></tr>\n");
    }
}

static void kernel_table(struct gw_html *h, const struct gw_report_kernel *list, size_t n, double all, int classes,
                         int steps)
{
    const char *const names[] = {classes ? _("class") : _("kernel or copy"), _("class"),
                                 steps ? _("times a step") : _("times"), steps ? _("time a step") : _("time"),
                                 _("share of the work")};
    gw_html_raw(h, "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-labelledby=\"work-h\"><table><thead><tr>");
    for (int i = 0; i < 5; i++) {
        if (i == 1 && classes)
            continue;
        gw_html_raw(h, i < 2 ? "<th scope=\"col\">" : "<th scope=\"col\" class=\"num\">");
        gw_html_text(h, names[i]);
        gw_html_raw(h, "</th>");
    }
    gw_html_raw(h, "</tr></thead>\n<tbody>\n");
    kernel_rows(h, list, n, all, classes);
    gw_html_raw(h, "</tbody></table></div>\n");
}

static void work(struct gw_html *h, const struct gw_report *r)
{
    double all = 0;
    int steps_known = r->steps.steady_count > 0;
    for (size_t i = 0; i < r->kernel_class_count; i++)
        all += r->kernel_classes[i].ns;
    if (!r->kernel_count)
        return;
    gw_html_section(h, "work", _("What the GPU worked on"));
    kernel_table(h, r->kernel_classes, r->kernel_class_count, all, 1, steps_known);
    gw_html_raw(h, "<details class=\"more\"><summary>");
    gw_html_text(h, _("By kernel"));
    gw_html_raw(h, "</summary>\n");
    kernel_table(h, r->kernels, r->kernel_count, all, 0, steps_known);
    gw_html_raw(h, "</details>\n");
    gw_html_section_end(h);
}

/* ---- trust ---- */

static void loss(struct gw_html *h, const struct gw_report_loss *l)
{
    int64_t count = l->count > INT64_MAX ? INT64_MAX : (int64_t)l->count;
    gw_html_raw(h, "<li>");
    gw_html_tag(h, "code", NULL, l->id);
    if (l->count > 0 && l->first_byte >= 0)
        gw_html_textf(h, _(" (%s\xc3\x97, first at byte %" PRId64 ")"), gw_fmt_count(count).s, l->first_byte);
    else if (l->count > 0)
        gw_html_textf(h, _(" (%s\xc3\x97)"), gw_fmt_count(count).s);
    if (l->text && *l->text) {
        gw_html_raw(h, " ");
        gw_html_rich(h, _(l->text));
    }
    gw_html_raw(h, "</li>\n");
}

static void files(struct gw_html *h, const struct gw_report *r)
{
    gw_html_raw(h, "<details class=\"more\"><summary>");
    gw_html_text(h, _("What was read"));
    gw_html_raw(h, "</summary>\n<ul>\n");
    for (size_t i = 0; i < r->source_count; i++) {
        const struct gw_report_source *s = r->sources + i;
        gw_html_raw(h, "<li><span class=\"name\">");
        gw_html_text(h, s->path);
        gw_html_raw(h, "</span> ");
        gw_html_textf(h, _("%s, %s, %s events"), s->format ? s->format : "", gw_fmt_bytes(s->bytes).s,
                      gw_fmt_count(s->events).s);
        gw_html_raw(h, "</li>\n");
    }
    gw_html_raw(h, "</ul></details>\n");
}

static void trust(struct gw_html *h, const struct gw_report *r)
{
    gw_html_section(h, "trust", _("Trust"));
    gw_html_tag(h, "p", r->trust.complete ? "good" : "bad",
                r->trust.complete ? _("Nothing that this report rests on is known to be missing.")
                                  : _("This report is not complete."));
    gw_html_raw(h, "<ul class=\"trust\">\n");
    for (size_t i = 0; i < r->trust.loss_count; i++)
        loss(h, r->trust.losses + i);
    if (isfinite(r->replay_error))
        gw_html_tagf(h, "li", NULL, _("Replaying the recording unchanged comes within %s of the recorded step time."),
                     gw_fmt_percent(r->replay_error).s);
    if (isfinite(r->profiler_slowdown))
        gw_html_tagf(h, "li", NULL, _("The profiler slowed the host by a factor of about %s; a normal run is faster."),
                     gw_fmt_factor(r->profiler_slowdown).s);
    if (isfinite(r->trust.own_overhead))
        gw_html_tagf(h, "li", NULL, _("Recording cost %s of the job's time."), gw_fmt_percent(r->trust.own_overhead).s);
    for (size_t i = 0; i < r->trust.note_count; i++)
        if (r->trust.notes[i] && *r->trust.notes[i]) {
            gw_html_raw(h, "<li>");
            gw_html_rich(h, r->trust.notes[i]);
            gw_html_raw(h, "</li>\n");
        }
    gw_html_raw(h, "</ul>\n");
    files(h, r);
    gw_html_section_end(h);
}

int gw_render_html(const struct gw_report *r, const struct gw_timeline *tl, FILE *out)
{
    char title[300];
    snprintf(title, sizeof title, "gpuwhy: %.80s \xe2\x80\x93 %.180s", r->verdict.finding ? r->verdict.finding : "none",
             r->source_count ? base_name(r->sources[0].path) : "");
    struct gw_html h = gw_html_begin(out, title);
    header(&h, r, tl);
    time_section(&h, r);
    gw_html_section(&h, "findings", _("Findings"));
    gw_html_findings(&h, r->findings, r->finding_count, 1);
    gw_html_section_end(&h);
    gw_html_timeline(&h, tl);
    steps(&h, r);
    gw_html_places(&h, tl);
    gw_html_ranks(&h, r);
    work(&h, r);
    gw_html_counters(&h, r);
    gw_html_run(&h, r);
    trust(&h, r);
    gw_html_not_evaluated(&h, r->not_evaluated, r->not_evaluated_count);
    gw_html_raw(&h, "</main>\n");
    FILE *data = gw_html_data(&h, "gw-report");
    if (data) {
        (void)gw_render_json(r, data);
        gw_html_data_end(&h, data);
    }
    gw_html_timeline_data(&h, tl);
    return gw_html_end(&h);
}
