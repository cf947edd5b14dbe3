/* A comparison as JSON, schema gpuwhy.diff/1: docs/diff.md is its contract. Keys may be added, never renamed. */
#include <math.h>
#include <string.h>

#include "base/gw_i18n.h"
#include "report/diff_report.h"
#include "report/json_writer.h"

static void side(struct gw_json *j, const char *key, const char *name, const struct gw_diff_side *s)
{
    gw_json_object(j, key);
    gw_json_text(j, "path", name);
    gw_json_text(j, "gpu", s->dev ? s->dev->name : NULL);
    gw_json_int(j, "gpus", s->ranks);
    gw_json_text(j, "framework", s->rep->framework);
    gw_json_text(j, "profiler", s->rep->profiler);
    gw_json_known(j, "steps", s->steps > 0 ? (int64_t)s->steps : -1);
    gw_json_double(j, "median_ns", s->median);
    gw_json_double(j, "mean_ns", s->mean);
    gw_json_double(j, "scatter", s->scatter);
    gw_json_int(j, "slow_steps", s->slow);
    gw_json_double(j, "host_paced", s->paced);
    gw_json_text(j, "finding", s->rep->verdict.finding);
    gw_json_bool(j, "complete", s->rep->trust.complete);
    gw_json_end(j);
}

static void rows(struct gw_json *j, const char *key, const char *name, const struct gw_diff_row *list, size_t n)
{
    gw_json_array(j, key);
    for (size_t i = 0; i < n; i++) {
        const struct gw_diff_row *r = list + i;
        gw_json_row(j, NULL);
        gw_json_string(j, name, r->id);
        if (r->kclass && strcmp(name, "class") != 0)
            gw_json_string(j, "class", r->kclass);
        gw_json_double(j, "a_ns", r->a);
        gw_json_double(j, "b_ns", r->b);
        gw_json_double(j, "change_ns", r->b - r->a);
        if (isfinite(r->na) || isfinite(r->nb)) {
            gw_json_double(j, "a_count", r->na);
            gw_json_double(j, "b_count", r->nb);
        }
        gw_json_bool(j, "real", r->real);
        gw_json_end(j);
    }
    gw_json_end(j);
}

static void promise(struct gw_json *j, const struct gw_diff *d)
{
    const struct gw_finding *f = d->promise.finding;
    if (!f) {
        gw_json_null(j, "promise");
        return;
    }
    gw_json_object(j, "promise");
    gw_json_string(j, "finding", f->id);
    gw_json_double(j, "low", f->gain.low);
    gw_json_double(j, "likely", f->gain.likely);
    gw_json_double(j, "high", f->gain.high);
    gw_json_double(j, "actual", d->promise.actual);
    gw_json_string(j, "outcome", gw_diff_outcome_id(d->promise.outcome));
    gw_json_double(j, "still_to_gain", d->promise.still);
    gw_json_end(j);
}

static void scaling(struct gw_json *j, const struct gw_diff *d)
{
    if (!d->scaling.few) {
        gw_json_null(j, "scaling");
        return;
    }
    gw_json_object(j, "scaling");
    gw_json_int(j, "few", d->scaling.few);
    gw_json_int(j, "many", d->scaling.many);
    gw_json_string(j, "many_is", d->scaling.more_is_b ? "b" : "a");
    gw_json_double(j, "compute_a_rank", d->scaling.work);
    gw_json_double(j, "efficiency", d->scaling.efficiency);
    gw_json_string(j, "grew", d->scaling.grew);
    gw_json_double(j, "grew_ns", d->scaling.grew_ns);
    gw_json_end(j);
}

static void gates(struct gw_json *j, const struct gw_diff_view *v)
{
    gw_json_array(j, "gates");
    for (size_t i = 0; i < v->gate_count; i++) {
        const struct gw_gate_result *g = v->gates + i;
        gw_json_object(j, NULL);
        gw_json_string(j, "gate", g->text);
        gw_json_double(j, "value", g->value);
        gw_json_string(j, "unit", g->gate.percent ? "%" : "ns");
        gw_json_flag(j, "crossed", g->crossed);
        gw_json_end(j);
    }
    gw_json_end(j);
}

int gw_render_diff_json(const struct gw_diff_view *v, FILE *out)
{
    const struct gw_diff *d = v->d;
    struct gw_json j = gw_json_document(out, "gpuwhy.diff/1");
    side(&j, "a", v->a, &d->a);
    side(&j, "b", v->b, &d->b);
    gw_json_string(&j, "change", gw_diff_change_id(d->change));
    gw_json_string(&j, "why_not", d->why_not ? _(d->why_not) : NULL);
    gw_json_object(&j, "step");
    gw_json_double(&j, "ratio", d->ratio);
    gw_json_double(&j, "ratio_low", d->low);
    gw_json_double(&j, "ratio_high", d->high);
    gw_json_double(&j, "mean_ratio", d->mean_ratio);
    gw_json_end(&j);
    gw_json_bool(&j, "slow_steps_changed", d->slow_changed);
    gw_json_bool(&j, "same_work", d->same_work);
    gw_json_bool(&j, "same_gpu", !d->other_gpu);
    rows(&j, "parts", "part", d->parts, d->part_count);
    rows(&j, "causes", "cause", d->causes, d->cause_count);
    rows(&j, "kernel_classes", "class", d->classes, d->class_count);
    rows(&j, "kernels", "name", d->kernels, d->kernel_count);
    promise(&j, d);
    scaling(&j, d);
    gates(&j, v);
    return gw_json_finish(&j);
}
