/* sweep_json.c - a sweep as JSON: gpuwhy.sweep/1, docs/sweep.md. */
#include <math.h>

#include "report/json_writer.h"
#include "report/sweep_report.h"

static void setting(struct gw_json *j, const char *key, const struct gw_sweep *s, size_t point)
{
    if (point == GW_SWEEP_NONE) {
        gw_json_null(j, key);
        return;
    }
    gw_json_row(j, key);
    for (size_t k = 0; k < s->knobs; k++) {
        size_t at = gw_sweep_at(s, point, k);
        if (s->knob[k].is_number)
            gw_json_double(j, s->knob[k].name, s->knob[k].number[at]);
        else
            gw_json_string(j, s->knob[k].name, s->knob[k].value[at]);
    }
    gw_json_end(j);
}

static void run(struct gw_json *j, const struct gw_sweep_run *r)
{
    gw_json_row(j, NULL);
    gw_json_string(j, "outcome", gw_sweep_outcome_id(r->outcome));
    gw_json_double(j, "rate", r->rate);
    gw_json_double(j, "error", r->error);
    gw_json_double(j, "at_s", r->at_s);
    gw_json_double(j, "took_s", r->took_s);
    gw_json_double(j, "warmup_s", r->warmup_s);
    gw_json_double(j, "steady_s", r->steady_s);
    gw_json_double(j, "steps", r->steps);
    gw_json_bool(j, "settled", r->is_settled);
    gw_json_end(j);
}

static void point(struct gw_json *j, const struct gw_sweep_result *r, size_t p)
{
    static const char *const states[] = {"untried", "measured", "failed", "skipped"};
    const struct gw_sweep_point *pt = r->sweep->point + p;
    char text[512];
    gw_json_object(j, NULL);
    setting(j, "setting", r->sweep, p);
    gw_json_string(j, "state", states[pt->state]);
    gw_json_double(j, "rate", pt->rate);
    gw_json_double(j, "error", pt->error);
    gw_json_string(j, "outcome", pt->runs ? gw_sweep_outcome_id(pt->last.outcome) : NULL);
    gw_json_string(j, "why", *gw_sweep_why_not(r, p, text, sizeof text) ? text : NULL);
    gw_json_double(j, "expected_bytes", pt->expected_bytes);
    int is = pt->runs > 0;
    gw_json_double(j, "gpu_memory_bytes", is ? pt->last.gpu_bytes : NAN);
    gw_json_double(j, "gpu_memory_total_bytes", is ? pt->last.gpu_total : NAN);
    gw_json_double(j, "gpu_busy", is ? pt->last.gpu_busy : NAN);
    gw_json_double(j, "workers", is ? pt->last.workers : NAN);
    gw_json_double(j, "worker_bytes", is ? pt->last.worker_bytes : NAN);
    gw_json_double(j, "host_free_bytes", is ? pt->last.host_free : NAN);
    gw_json_double(j, "kernels_per_step", is ? pt->last.kernels : NAN);
    gw_json_array(j, "runs");
    for (size_t i = 0; i < r->sweep->runs; i++)
        if (r->sweep->run[i].point == p)
            run(j, r->sweep->run + i);
    gw_json_end(j);
    gw_json_end(j);
}

static void verdict(struct gw_json *j, const struct gw_sweep_result *r)
{
    const struct gw_sweep_verdict *v = &r->verdict;
    char text[1024];
    gw_json_object(j, "verdict");
    gw_json_string(j, "kind", r->is_parts ? "parts" : gw_sweep_kind_id(v->kind));
    gw_json_string(j, "sentence", gw_sweep_answer(r, text, sizeof text));
    if (!r->is_parts) {
        setting(j, "knee", r->sweep, v->knee);
        setting(j, "best", r->sweep, v->best);
        setting(j, "knee_from", r->sweep, v->from);
        setting(j, "knee_to", r->sweep, v->to);
        setting(j, "linear_up_to", r->sweep, v->linear);
        setting(j, "below_80_percent_of_memory", r->sweep, v->below_low);
        setting(j, "below_90_percent_of_memory", r->sweep, v->below_high);
    }
    gw_json_double(j, "tolerance", v->tolerance);
    gw_json_double(j, "drift", r->sweep->drift);
    gw_json_double(j, "noise", r->sweep->noise);
    gw_json_end(j);
}

static void knobs(struct gw_json *j, const struct gw_sweep_result *r)
{
    gw_json_array(j, "knobs");
    for (size_t k = 0; k < r->sweep->knobs; k++) {
        const struct gw_sweep_knob *knob = r->sweep->knob + k;
        gw_json_row(j, NULL);
        gw_json_string(j, "name", knob->name);
        gw_json_bool(j, "is_batch", knob->is_batch);
        gw_json_bool(j, "by_hook", r->by_hook[k]);
        gw_json_array(j, "values");
        for (size_t i = 0; i < knob->n; i++) {
            if (knob->is_number)
                gw_json_double(j, NULL, knob->number[i]);
            else
                gw_json_string(j, NULL, knob->value[i]);
        }
        gw_json_end(j);
        gw_json_end(j);
    }
    gw_json_end(j);
}

int gw_render_sweep_json(const struct gw_sweep_result *r, FILE *out)
{
    static const char *const stops[] = {"done", "budget", "interrupted"};
    static const char *const found[] = {NULL, "gpu-rhythm", "loader-batches", "output"};
    struct gw_json j = gw_json_document(out, "gpuwhy.sweep/1");
    char text[1024];
    gw_json_string(&j, "command", r->command);
    gw_json_string(&j, "unit", gw_sweep_unit_id(r->unit));
    gw_json_string(&j, "found_by", found[r->found_by]);
    gw_json_string(&j, "ended", stops[r->stop]);
    gw_json_double(&j, "seconds", r->seconds);
    gw_json_double(&j, "spent_s", r->verdict.spent_s);
    gw_json_int(&j, "runs", (int64_t)r->sweep->runs);
    gw_json_int(&j, "resumed_runs", (int64_t)r->resumed);
    gw_json_known(&j, "cpus", r->cpus > 0 ? r->cpus : -1);
    knobs(&j, r);
    verdict(&j, r);
    if (r->is_parts) {
        gw_json_object(&j, "parts");
        gw_json_double(&j, "supply", r->sweep->point[0].rate);
        gw_json_double(&j, "demand", r->sweep->point[1].rate);
        gw_json_double(&j, "together", r->sweep->point[2].rate);
        gw_json_string(&j, "dataset", *r->alone_dataset ? r->alone_dataset : NULL);
        gw_json_double(&j, "batch_size", r->alone_batch);
        gw_json_end(&j);
    }
    gw_json_array(&j, "points");
    for (size_t p = 0; p < r->sweep->points; p++)
        point(&j, r, p);
    gw_json_end(&j);
    gw_json_array(&j, "remarks");
    for (size_t i = 0; gw_sweep_remark(r, i, text, sizeof text); i++)
        gw_json_string(&j, NULL, text);
    gw_json_end(&j);
    if (r->next.sentence) {
        gw_json_object(&j, "next");
        gw_json_string(&j, "finding", r->next.finding);
        gw_json_string(&j, "layer", r->next.layer);
        gw_json_string(&j, "sentence", r->next.sentence);
        gw_json_end(&j);
    } else {
        gw_json_null(&j, "next");
    }
    return gw_json_finish(&j);
}
