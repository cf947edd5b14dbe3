/* The results of the checks as JSON, schema gpuwhy.check/1 (docs/check.md). */
#include <math.h>
#include <string.h>

#include "cli/check_findings.h"
#include "report/json_finding.h"

static void int_or_null(struct gw_json *j, const char *key, int64_t v)
{
    if (v == GW_ENV_NONE)
        gw_json_null(j, key);
    else
        gw_json_int(j, key, v);
}

static void evidence(struct gw_json *j, const struct gw_check *c)
{
    struct gw_evidence list[GW_CHECK_MAX_EVIDENCE];
    size_t n = 0;
    for (; n < c->evidence_count && n < GW_CHECK_MAX_EVIDENCE; n++)
        list[n] = (struct gw_evidence){c->evidence[n].text, c->evidence[n].value, c->evidence[n].unit, c->evidence[n].source};
    gw_json_evidence(j, "evidence", list, n);
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
        evidence(j, c);
        struct gw_fix fix = {c->fix, c->verify, c->cost};
        gw_json_fixes(j, &fix, *c->fix ? 1 : 0);
        gw_json_end(j);
    }
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
            gw_json_finding(j, &f[i]);
    gw_json_end(j);
    (void)gw_check_not_evaluated(l, arena, &n, &missing);
    gw_json_not_evaluated(j, n, missing);
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
    struct gw_json j = gw_json_document(out, "gpuwhy.check/1");
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
