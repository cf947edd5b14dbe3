/* The report as JSON, schema gpuwhy.report/1: docs/json.md is its contract. Keys may be added, never renamed. */
#include <string.h>

#include "base/gw_i18n.h"
#include "report/json_activity.h"
#include "report/json_finding.h"
#include "report/renderer.h"

static void source(struct gw_json *j, const struct gw_report *r)
{
    gw_json_object(j, "source");
    gw_json_array(j, "files");
    for (size_t i = 0; i < r->source_count; i++) {
        const struct gw_report_source *s = &r->sources[i];
        gw_json_object(j, NULL);
        gw_json_string(j, "path", s->path);
        gw_json_string(j, "format", s->format);
        gw_json_known(j, "bytes", s->bytes);
        gw_json_known(j, "events", s->events);
        gw_json_end(j);
    }
    gw_json_end(j);
    gw_json_known(j, "ranks", r->ranks);
    gw_json_known(j, "world_size", r->world_size);
    gw_json_text(j, "framework", r->framework);
    gw_json_text(j, "profiler", r->profiler);
    gw_json_end(j);
}

static void partition(struct gw_json *j, const char *key, const struct gw_partition *p)
{
    gw_json_object(j, key);
    gw_json_int(j, "start_ns", p->start);
    gw_json_int(j, "end_ns", p->end);
    gw_json_int(j, "wall_ns", p->wall);
    gw_json_int(j, "compute_ns", p->compute);
    gw_json_int(j, "comm_exposed_ns", p->comm_exposed);
    gw_json_int(j, "copy_exposed_ns", p->copy_exposed);
    gw_json_int(j, "idle_ns", p->idle);
    gw_json_int(j, "comm_hidden_ns", p->comm_hidden);
    gw_json_int(j, "copy_hidden_ns", p->copy_hidden);
    gw_json_uint(j, "ops", p->ops);
    gw_json_end(j);
}

static void causes(struct gw_json *j, const char *key, const struct gw_cause_total *list, size_t n)
{
    gw_json_array(j, key);
    for (size_t i = 0; i < n; i++) {
        gw_json_object(j, NULL);
        gw_json_string(j, "cause", gw_cause_id(list[i].cause));
        gw_json_int(j, "ns", list[i].ns);
        gw_json_uint(j, "gaps", list[i].gaps);
        gw_json_end(j);
    }
    gw_json_end(j);
}

static void devices(struct gw_json *j, const struct gw_report *r)
{
    gw_json_array(j, "devices");
    for (size_t i = 0; i < r->device_count; i++) {
        const struct gw_report_device *d = &r->devices[i];
        gw_json_object(j, NULL);
        gw_json_int(j, "id", d->id);
        gw_json_text(j, "name", d->name);
        gw_json_bool(j, "main", i == r->main_device);
        gw_json_known(j, "rank", d->rank);
        partition(j, "whole", &d->whole);
        partition(j, "steady", &d->steady);
        causes(j, "idle_by_cause", d->idle_by_cause, d->cause_count);
        causes(j, "whole_idle_by_cause", d->whole_by_cause, d->whole_cause_count);
        gw_json_end(j);
    }
    gw_json_end(j);
}

static void steps(struct gw_json *j, const struct gw_report *r)
{
    const struct gw_report_steps *s = &r->steps;
    gw_json_object(j, "steps");
    gw_json_known(j, "count", s->count);
    gw_json_known(j, "steady_count", s->steady_count);
    gw_json_known(j, "median_ns", s->median_ns);
    gw_json_known(j, "mean_ns", s->mean_ns);
    gw_json_known(j, "p95_ns", s->p95_ns);
    gw_json_known(j, "min_ns", s->min_ns);
    gw_json_string(j, "found_by", s->found_by ? s->found_by : "none");
    gw_json_text(j, "marker", s->marker);
    gw_json_double(j, "tail_share", s->tail_share);
    gw_json_array(j, "times_ns");
    gw_json_inline(j);
    for (size_t i = 0; i < r->step_time_count; i++)
        gw_json_int(j, NULL, r->step_times[i]);
    gw_json_end(j);
    gw_json_end(j);
}

static void windows(struct gw_json *j, const struct gw_report *r)
{
    gw_json_array(j, "windows");
    for (size_t i = 0; i < r->window_count; i++) {
        const struct gw_report_window *w = &r->windows[i];
        gw_json_row(j, NULL);
        gw_json_int(j, "start_ns", w->start_ns);
        gw_json_int(j, "wall_ns", w->wall_ns);
        gw_json_int(j, "idle_ns", w->idle_ns);
        gw_json_int(j, "steps", w->steps);
        gw_json_known(j, "median_step_ns", w->median_step_ns);
        gw_json_bool(j, "same_kernels", w->same_kernels);
        gw_json_bool(j, "reported", w->reported);
        gw_json_end(j);
    }
    gw_json_end(j);
}

/* One line a row: these are tables. */
static void kernels(struct gw_json *j, const char *key, const char *name, const struct gw_report_kernel *list, size_t n)
{
    gw_json_array(j, key);
    for (size_t i = 0; i < n; i++) {
        gw_json_row(j, NULL);
        gw_json_string(j, name, list[i].name);
        if (strcmp(name, "class") != 0)
            gw_json_string(j, "class", list[i].kclass);
        gw_json_double(j, "count_per_step", list[i].count);
        gw_json_double(j, "ns_per_step", list[i].ns);
        gw_json_end(j);
    }
    gw_json_end(j);
}

/* Ids of metrics with "_" as in all keys. */
static void metrics(struct gw_json *j, const double value[GW_KM_COUNT])
{
    for (unsigned k = 0; k < GW_KM_COUNT; k++) {
        char key[32];
        snprintf(key, sizeof key, "%s", gw_km_id(k));
        for (char *c = strchr(key, '-'); c; c = strchr(c, '-'))
            *c = '_';
        gw_json_double(j, key, value[k]);
    }
}

static void counters(struct gw_json *j, const struct gw_report_counters *c)
{
    if (!c) {
        gw_json_null(j, "kernel_counters");
        return;
    }
    gw_json_object(j, "kernel_counters");
    gw_json_string(j, "weights", c->alone ? "profiler" : "timeline");
    gw_json_int(j, "names", c->names);
    gw_json_int(j, "launches", c->launches);
    gw_json_double(j, "covered", c->covered);
    gw_json_row(j, "mean");
    metrics(j, c->mean);
    gw_json_end(j);
    gw_json_array(j, "kernels");
    for (size_t i = 0; i < c->count; i++) {
        const struct gw_report_counter *k = &c->rows[i];
        gw_json_row(j, NULL);
        gw_json_text(j, "name", k->name);
        gw_json_text(j, "class", k->kclass);
        gw_json_text(j, "match", k->match);
        gw_json_text(j, "limit", k->limit);
        gw_json_double(j, "share", k->share);
        metrics(j, k->value);
        gw_json_end(j);
    }
    gw_json_end(j);
    gw_json_end(j);
}

static void ranks(struct gw_json *j, const struct gw_report *r)
{
    gw_json_array(j, "per_rank");
    for (size_t i = 0; i < r->rank_count; i++) {
        const struct gw_report_rank *k = &r->per_rank[i];
        gw_json_object(j, NULL);
        gw_json_known(j, "rank", k->rank);
        gw_json_int(j, "device", k->device);
        gw_json_text(j, "name", k->name);
        gw_json_text(j, "path", k->path);
        gw_json_known(j, "steps", k->steps);
        gw_json_known(j, "median_step_ns", k->median_step_ns);
        gw_json_int(j, "wall_ns", k->wall);
        gw_json_int(j, "compute_ns", k->compute);
        gw_json_int(j, "comm_exposed_ns", k->comm_exposed);
        gw_json_int(j, "copy_exposed_ns", k->copy_exposed);
        gw_json_int(j, "idle_ns", k->idle);
        gw_json_known(j, "wait_ns", k->wait);
        gw_json_known(j, "wait_exposed_ns", k->wait_exposed);
        gw_json_known(j, "transfer_ns", k->transfer);
        gw_json_known(j, "arrived_last", k->last);
        gw_json_known(j, "late_ns", k->late);
        gw_json_text(j, "idle_cause", k->cause);
        gw_json_end(j);
    }
    gw_json_end(j);
    gw_json_array(j, "collectives");
    for (size_t i = 0; i < r->collective_count; i++) {
        const struct gw_report_collective *c = &r->collectives[i];
        gw_json_object(j, NULL);
        gw_json_text(j, "kind", c->kind);
        gw_json_known(j, "bytes", c->bytes);
        gw_json_known(j, "ranks", c->ranks);
        gw_json_double(j, "count_per_step", c->count);
        gw_json_double(j, "transfer_ns_per_step", c->transfer_ns);
        gw_json_double(j, "wait_ns_per_step", c->wait_ns);
        gw_json_double(j, "bus_bandwidth", c->bus_bandwidth);
        gw_json_end(j);
    }
    gw_json_end(j);
}

void gw_json_evidence(struct gw_json *j, const char *key, const struct gw_evidence *list, size_t n)
{
    gw_json_array(j, key);
    for (size_t i = 0; i < n; i++) {
        gw_json_object(j, NULL);
        gw_json_string(j, "text", list[i].text);
        gw_json_double(j, "value", list[i].value);
        gw_json_string(j, "unit", list[i].unit);
        gw_json_string(j, "source", list[i].source);
        gw_json_end(j);
    }
    gw_json_end(j);
}

static void places(struct gw_json *j, const struct gw_finding *f)
{
    gw_json_array(j, "where");
    for (size_t i = 0; i < f->where_count; i++) {
        const struct gw_where *w = &f->where[i];
        gw_json_object(j, NULL);
        gw_json_string(j, "file", w->file && *w->file ? w->file : NULL);
        gw_json_known(j, "line", w->line > 0 ? w->line : -1);
        gw_json_text(j, "text", w->text);
        gw_json_double(j, "share", w->share);
        gw_json_known(j, "count", w->count);
        gw_json_end(j);
    }
    gw_json_end(j);
}

void gw_json_fixes(struct gw_json *j, const struct gw_fix *list, size_t n)
{
    gw_json_array(j, "fix");
    for (size_t i = 0; i < n; i++) {
        gw_json_object(j, NULL);
        gw_json_text(j, "do", list[i].doit);
        gw_json_text(j, "check", list[i].check);
        gw_json_text(j, "cost", list[i].cost);
        gw_json_end(j);
    }
    gw_json_end(j);
}

void gw_json_finding(struct gw_json *j, const struct gw_finding *f)
{
    gw_json_object(j, NULL);
    gw_json_string(j, "id", f->id);
    gw_json_string(j, "layer", f->layer);
    gw_json_int(j, "rank", f->rank);
    gw_json_text(j, "phrase", f->phrase);
    gw_json_known(j, "lost_ns", f->lost_ns);
    gw_json_double(j, "share_of_wall", f->share_of_wall);
    gw_json_double(j, "share_of_idle", f->share_of_idle);
    gw_json_string(j, "confidence", gw_confidence_id(f->confidence));
    gw_json_object(j, "gain");
    gw_json_double(j, "low", f->gain.low);
    gw_json_double(j, "likely", f->gain.likely);
    gw_json_double(j, "high", f->gain.high);
    gw_json_end(j);
    gw_json_object(j, "step");
    gw_json_known(j, "now_ns", f->now_step_ns);
    gw_json_known(j, "then_low_ns", f->then_low_ns);
    gw_json_known(j, "then_high_ns", f->then_high_ns);
    gw_json_end(j);
    gw_json_evidence(j, "evidence", f->evidence, f->evidence_count);
    gw_json_evidence(j, "against", f->against, f->against_count);
    places(j, f);
    gw_json_fixes(j, f->fix, f->fix_count);
    gw_json_end(j);
}

static void findings(struct gw_json *j, const struct gw_report *r)
{
    gw_json_array(j, "findings");
    for (size_t i = 0; i < r->finding_count; i++)
        gw_json_finding(j, &r->findings[i]);
    gw_json_end(j);
}

void gw_json_not_evaluated(struct gw_json *j, const struct gw_not_evaluated *list, size_t n)
{
    gw_json_array(j, "not_evaluated");
    for (size_t i = 0; i < n; i++) {
        gw_json_object(j, NULL);
        gw_json_string(j, "id", list[i].id);
        gw_json_text(j, "needs", list[i].needs);
        gw_json_end(j);
    }
    gw_json_end(j);
}

static void trust(struct gw_json *j, const struct gw_report *r)
{
    gw_json_object(j, "trust");
    gw_json_bool(j, "complete", r->trust.complete);
    gw_json_array(j, "losses");
    for (size_t i = 0; i < r->trust.loss_count; i++) {
        const struct gw_report_loss *l = &r->trust.losses[i];
        gw_json_object(j, NULL);
        gw_json_string(j, "id", l->id);
        gw_json_uint(j, "count", l->count);
        gw_json_known(j, "first_byte", l->first_byte);
        gw_json_string(j, "text", l->text && *l->text ? _(l->text) : "");
        gw_json_end(j);
    }
    gw_json_end(j);
    gw_json_double(j, "own_overhead", r->trust.own_overhead);
    gw_json_double(j, "replay_error", r->replay_error);
    gw_json_double(j, "profiler_slowdown", r->profiler_slowdown);
    gw_json_array(j, "notes");
    for (size_t i = 0; i < r->trust.note_count; i++)
        gw_json_text(j, NULL, r->trust.notes[i]);
    gw_json_end(j);
    gw_json_end(j);
}

int gw_render_json(const struct gw_report *rep, FILE *out)
{
    struct gw_json j = gw_json_document(out, "gpuwhy.report/1");
    source(&j, rep);
    devices(&j, rep);
    steps(&j, rep);
    windows(&j, rep);
    gw_json_object(&j, "verdict");
    gw_json_string(&j, "finding", rep->verdict.finding ? rep->verdict.finding : "none");
    gw_json_string(&j, "layer", rep->verdict.layer ? rep->verdict.layer : "outside");
    gw_json_text(&j, "sentence", rep->verdict.sentence);
    gw_json_end(&j);
    findings(&j, rep);
    gw_json_not_evaluated(&j, rep->not_evaluated, rep->not_evaluated_count);
    kernels(&j, "kernels", "name", rep->kernels, rep->kernel_count);
    kernels(&j, "kernel_classes", "class", rep->kernel_classes, rep->kernel_class_count);
    counters(&j, rep->counters);
    ranks(&j, rep);
    gw_json_activity(&j, rep);
    trust(&j, rep);
    return gw_json_finish(&j);
}
