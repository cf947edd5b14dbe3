/* The results of the checks as JSON, schema gpuwhy.check/1 (docs/check.md). */
#include <math.h>
#include <string.h>

#include "cli/check_findings.h"
#include "report/json_writer.h"

#define TOOL "gpuwhy " GW_VERSION

static void int_or_null(struct gw_json *j, const char *key, int64_t v)
{
    if (v == GW_ENV_NONE)
        gw_json_null(j, key);
    else
        gw_json_int(j, key, v);
}

static void checks(struct gw_json *j, const struct gw_check_list *l)
{
    gw_json_object(j, "summary");
    for (unsigned s = 0; s < GW_CHECK_STATUS_COUNT; s++)
        gw_json_uint(j, gw_check_status_id(s), l->by_status[s]);
    gw_json_end(j);
    gw_json_array(j, "checks");
    for (size_t i = 0; i < l->count; i++) {
        const struct gw_check *c = &l->items[i];
        gw_json_object(j, NULL);
        gw_json_string(j, "id", c->info->id);
        gw_json_string(j, "group", c->info->group);
        gw_json_string(j, "title", _(c->info->title));
        gw_json_string(j, "status", gw_check_status_id(c->status));
        gw_json_string(j, "value", *c->value ? c->value : NULL);
        gw_json_string(j, "expected", *c->expect ? c->expect : NULL);
        gw_json_string(j, "finding", c->status >= GW_CHECK_LOOK && *c->finding ? c->finding : NULL);
        gw_json_string(j, "needs", c->status == GW_CHECK_UNKNOWN ? _(c->info->needs) : NULL);
        gw_json_array(j, "evidence");
        for (size_t k = 0; k < c->evidence_count; k++) {
            gw_json_object(j, NULL);
            gw_json_string(j, "text", c->evidence[k].text);
            gw_json_double(j, "value", c->evidence[k].value);
            gw_json_string(j, "unit", c->evidence[k].unit);
            gw_json_string(j, "source", c->evidence[k].source);
            gw_json_end(j);
        }
        gw_json_end(j);
        gw_json_array(j, "fix");
        if (*c->fix) {
            gw_json_object(j, NULL);
            gw_json_string(j, "do", c->fix);
            gw_json_string(j, "check", c->verify);
            gw_json_string(j, "cost", c->cost);
            gw_json_end(j);
        }
        gw_json_end(j);
        gw_json_end(j);
    }
    gw_json_end(j);
}

static void finding(struct gw_json *j, const struct gw_finding *f)
{
    gw_json_object(j, NULL);
    gw_json_string(j, "id", f->id);
    gw_json_string(j, "layer", f->layer);
    gw_json_int(j, "rank", f->rank);
    gw_json_string(j, "phrase", f->phrase);
    gw_json_known(j, "lost_ns", f->lost_ns);
    gw_json_double(j, "share_of_wall", f->share_of_wall);
    gw_json_double(j, "share_of_idle", f->share_of_idle);
    gw_json_string(j, "confidence", gw_confidence_id(f->confidence));
    gw_json_object(j, "gain");
    gw_json_double(j, "low", f->gain.low);
    gw_json_double(j, "likely", f->gain.likely);
    gw_json_double(j, "high", f->gain.high);
    gw_json_end(j);
    gw_json_array(j, "evidence");
    for (size_t k = 0; k < f->evidence_count; k++) {
        gw_json_object(j, NULL);
        gw_json_string(j, "text", f->evidence[k].text);
        gw_json_double(j, "value", f->evidence[k].value);
        gw_json_string(j, "unit", f->evidence[k].unit);
        gw_json_string(j, "source", f->evidence[k].source);
        gw_json_end(j);
    }
    gw_json_end(j);
    gw_json_array(j, "against");
    gw_json_end(j);
    gw_json_array(j, "where");
    gw_json_end(j);
    gw_json_array(j, "fix");
    for (size_t k = 0; k < f->fix_count; k++) {
        gw_json_object(j, NULL);
        gw_json_string(j, "do", f->fix[k].doit);
        gw_json_string(j, "check", f->fix[k].check);
        gw_json_string(j, "cost", f->fix[k].cost);
        gw_json_end(j);
    }
    gw_json_end(j);
    gw_json_end(j);
}

static void findings(struct gw_json *j, const struct gw_check_list *l, struct gw_arena *arena)
{
    struct gw_finding *f;
    struct gw_not_evaluated *n;
    size_t count = 0, missing = 0;
    gw_json_array(j, "findings");
    if (gw_check_findings(l, arena, &f, &count) == 0)
        for (size_t i = 0; i < count; i++)
            finding(j, &f[i]);
    gw_json_end(j);
    gw_json_array(j, "not_evaluated");
    if (gw_check_not_evaluated(l, arena, &n, &missing) == 0)
        for (size_t i = 0; i < missing; i++) {
            gw_json_object(j, NULL);
            gw_json_string(j, "id", n[i].id);
            gw_json_string(j, "needs", n[i].needs);
            gw_json_end(j);
        }
    gw_json_end(j);
}

/* --- facts: everything that is known, straight from the tables -------------------------------------------------------
 */

static void records(struct gw_json *j, const struct gw_env *env, enum gw_rec kind)
{
    struct gw_rec_info info = gw_rec_info(kind);
    gw_json_array(j, info.id);
    for (size_t i = 0; i < gw_env_count(env, kind); i++) {
        const char *rec = gw_env_at(env, kind, i);
        gw_json_object(j, NULL);
        for (size_t k = 0; k < info.count; k++) {
            const void *at = rec + info.fields[k].offset;
            if (info.fields[k].type == GW_FT_STR)
                gw_json_string(j, info.fields[k].name, *(const char *const *)at);
            else if (info.fields[k].type == GW_FT_F64)
                gw_json_double(j, info.fields[k].name, *(const double *)at);
            else
                int_or_null(j, info.fields[k].name, *(const int64_t *)at);
        }
        gw_json_end(j);
    }
    gw_json_end(j);
}

static void gpus(struct gw_json *j, const struct gw_env *env)
{
    gw_json_array(j, "gpus");
    for (size_t i = 0; i < env->gpus.len; i++) {
        const struct gw_gpu *g = gw_env_gpu_at(env, i);
        gw_json_object(j, NULL);
        int_or_null(j, "index", g->index);
        gw_json_string(j, "bus_id", g->bus_id);
        gw_json_string(j, "name", g->name);
        gw_json_string(j, "uuid", g->uuid);
        gw_json_string(j, "architecture", g->arch);
        gw_json_string(j, "cpus", g->cpus);
        gw_json_string(j, "virtualization", g->virt);
        for (int m = 0; m < GW_GPU_COUNT; m++)
            int_or_null(j, gw_gpu_metric_info((enum gw_gpu_metric)m)->id, gw_gpu_get(g, (enum gw_gpu_metric)m));
        gw_json_end(j);
    }
    gw_json_end(j);
}

static void facts(struct gw_json *j, const struct gw_env *env)
{
    gw_json_object(j, "facts");
    gw_json_object(j, "host");
    for (int s = 0; s < GW_HSTR_COUNT; s++)
        gw_json_string(j, gw_host_string_id((enum gw_host_string)s), gw_env_str(env, (enum gw_host_string)s));
    for (int m = 0; m < GW_HOST_COUNT; m++)
        int_or_null(j, gw_host_metric_info((enum gw_host_metric)m)->id, gw_env_get(env, (enum gw_host_metric)m));
    gw_json_end(j);
    gpus(j, env);
    gw_json_uint(j, "samples", gw_env_sample_count(env));
    for (int k = 0; k < GW_REC_COUNT; k++)
        if (k != GW_REC_NOTE && k != GW_REC_SOURCE)
            records(j, env, (enum gw_rec)k);
    gw_json_end(j);
}

void gw_check_json(const struct gw_env *env, const struct gw_check_list *l, struct gw_arena *arena, FILE *out)
{
    struct gw_json j = gw_json_begin(out);
    gw_json_object(&j, NULL);
    gw_json_string(&j, "schema", "gpuwhy.check/1");
    gw_json_string(&j, "tool", TOOL);
    gw_json_object(&j, "source");
    gw_json_bool(&j, "live", env->live);
    records(&j, env, GW_REC_SOURCE);
    gw_json_end(&j);
    checks(&j, l);
    findings(&j, l, arena);
    records(&j, env, GW_REC_NOTE);
    gw_json_bool(&j, "complete", !env->no_memory);
    facts(&j, env);
    gw_json_end(&j);
}
