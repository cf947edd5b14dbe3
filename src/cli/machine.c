/* machine.c - see machine.h */
#include "cli/machine.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/gw_i18n.h"
#include "cli/check_findings.h"
#include "collect/capture/capture.h"
#include "collect/capture/record_env.h"
#include "engine/report_copy.h"
#include "import/record_importer.h"
#include "layers/layers.h"

#define LINK_EFFICIENCY 0.85 /* of a link's payload that pinned copies reach: H200 and A100 hosts, 53 of 63 and 25 of 31.5 GB/s */
#define WORTH 1.03           /* as in layers/findings.def */

/* Checks of a moment: at the job's start, or at another time altogether. What they look at is watched over the whole run. */
static const char *const momentary[] = {"disk", "cpu-load", "memory", "swap", "loader-workers", "utilization", "gpu-shared"};

/* --- the facts ------------------------------------------------------------------------------------------------------ */

static int read_sources(struct gw_env *env, const struct gw_trace *t, const struct gw_cli_options *o, int *status)
{
    struct gw_error err = {0};
    int known = 0;
    if (o->machine) {
        if (gw_capture_read(env, o->machine, &err) == 0)
            return 1;
        *status = gw_cli_fail(&err);
        return 0;
    }
    const struct gw_source *s = t->sources.data;
    for (size_t i = 0; i < t->sources.len && !known; i++) {
        char folder[PATH_MAX];
        if (strcmp(s[i].format, "record") == 0 && gw_record_folder(s[i].path, folder, sizeof folder))
            known = gw_env_read_record(env, folder, &err) == 0; /* damage there costs these findings only */
    }
    return known;
}

/* Numbers of devices in a record are those of NVML: others than the job's do not matter. Elsewhere CUDA may have counted. */
static void keep_used(struct gw_env *env, const struct gw_trace *t)
{
    const struct gw_device *d = t->devices.data;
    uint64_t keep = 0;
    for (size_t i = 0; env->recorded && i < t->devices.len; i++)
        for (size_t k = 0; k < env->gpus.len; k++)
            if (d[i].op_count && gw_env_gpu_at(env, k)->index == d[i].id)
                keep |= 1ull << k;
    if (keep)
        gw_env_keep_gpus(env, keep);
}

struct gw_env *gw_machine_read(const struct gw_trace *t, const struct gw_cli_options *o, int *status)
{
    *status = GW_EXIT_OK;
    struct gw_env *env = gw_env_create();
    if (env && read_sources(env, t, o, status)) {
        keep_used(env, t);
        return env;
    }
    gw_env_destroy(env);
    return NULL;
}

/* The GPU that the trace speaks of: by its number, else the first. -1 when there is none. */
static int64_t gpu_of(const struct gw_env *env, int64_t device)
{
    for (size_t i = 0; i < env->gpus.len; i++)
        if (gw_env_gpu_at(env, i)->index == device)
            return (int64_t)i;
    return env->gpus.len ? 0 : -1;
}

void gw_machine_ceilings(struct gw_trace *t, const struct gw_env *env)
{
    const struct gw_device *d = t->devices.data;
    int64_t i = gpu_of(env, t->devices.len ? d->id : 0);
    if (i < 0)
        return;
    const struct gw_gpu *g = gw_env_gpu_at(env, (size_t)i);
    const struct gw_env_measure *m = gw_check_measured(env, "h2d-pinned", g->index);
    struct gw_check_link link = gw_check_link_of(env, (size_t)i);
    if (m) {
        t->facts.link_rate = m->value;
        t->facts.link_name = _("measured from pinned memory");
    } else if (!isnan(link.possible)) {
        t->facts.link_rate = link.possible * LINK_EFFICIENCY;
        t->facts.link_name =
            gw_arena_printf(t->arena, "PCIe %lld x%lld", (long long)gw_gpu_get(g, GW_GPU_PCIE_GEN_MAX),
                            (long long)gw_gpu_get(g, GW_GPU_PCIE_WIDTH_MAX));
    }
}

/* --- which results count --------------------------------------------------------------------------------------------- */

static int communicates(const struct gw_analysis *an)
{
    for (size_t i = 0; i < an->ndev; i++)
        if (an->dev[i].steady.comm_exposed || an->dev[i].steady.comm_hidden)
            return 1;
    return an->ndev > 1 || an->t->facts.world_size > 1;
}

static void drop_momentary(struct gw_check_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        for (size_t k = 0; k < sizeof momentary / sizeof *momentary; k++)
            if (strcmp(l->items[i].info->id, momentary[k]) == 0)
                l->items[i].status = GW_CHECK_UNKNOWN;
}

/* 1 when a check that stands for the finding had its data. */
static int was_judged(const struct gw_check_list *l, const char *id)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->items[i].status != GW_CHECK_UNKNOWN && strcmp(l->items[i].info->finding, id) == 0)
            return 1;
    return 0;
}

static int is_open(const struct gw_report *r, const char *id)
{
    for (size_t i = 0; i < r->not_evaluated_count; i++)
        if (strcmp(r->not_evaluated[i].id, id) == 0)
            return 1;
    return 0;
}

static int has_fired(const struct gw_report *r, const char *id)
{
    for (size_t i = 0; i < r->finding_count; i++)
        if (strcmp(r->findings[i].id, id) == 0)
            return 1;
    return 0;
}

/* The diagnosis saw the job; the checks saw the machine. Where the diagnosis could tell, it is right. */
static int counts(const struct gw_report *r, const struct gw_analysis *an, const struct gw_finding *f)
{
    if (has_fired(r, f->id) || (strcmp(f->id, "poor-topology") == 0 && !communicates(an)))
        return 0;
    return is_open(r, f->id) || strcmp(f->id, "debug-mode") == 0 || !gw_finding_info_find(f->id);
}

/* --- gains that can be defended --------------------------------------------------------------------------------------- */

/* Exposed copies would take the time that a whole link needs: at most, because small copies and pageable ones have other
 * limits; in the middle, as a guess; at least nothing. */
static void pcie_gain(struct gw_finding *f, const struct gw_report *r, const struct gw_env *env, struct gw_arena *arena)
{
    const struct gw_report_device *d = r->main_device < r->device_count ? r->devices + r->main_device : NULL;
    int64_t i = d ? gpu_of(env, d->id) : -1;
    if (i < 0 || d->steady.wall <= 0)
        return;
    struct gw_check_link link = gw_check_link_of(env, (size_t)i);
    double copies = (double)d->steady.copy_exposed / (double)d->steady.wall, saved = 1 - link.loaded / link.possible;
    if (isnan(saved) || saved <= 0)
        return;
    struct gw_evidence *e = gw_arena_calloc(arena, f->evidence_count + 1, sizeof *e);
    if (!e)
        return;
    memcpy(e, f->evidence, f->evidence_count * sizeof *e);
    e[f->evidence_count++] = (struct gw_evidence){
        gw_arena_printf(arena, _("copies that nothing hides take %.1f %% of the time"), 100 * copies), copies, "share",
        "timeline"};
    f->evidence = e;
    double high = 1 / (1 - copies * saved);
    f->gain = (struct gw_gain){1, (1 + high) / 2, high};
    f->share_of_wall = copies * saved;
    f->lost_ns = (int64_t)(copies * saved * (double)d->steady.wall);
}

/* --- into the report --------------------------------------------------------------------------------------------------- */

/* Findings with a gain that is worth it stay first; then what is bad; then small gains; then what is worth a look. */
static int place_of(const struct gw_finding *f, int is_machine)
{
    if (f->gain.likely >= WORTH)
        return 0;
    return is_machine ? f->confidence == GW_CONF_HIGH ? 1 : 3 : 2;
}

static int add_findings(struct gw_report *r, const struct gw_finding *add, size_t n, struct gw_arena *arena)
{
    struct gw_finding *out = gw_arena_calloc(arena, r->finding_count + n, sizeof *out);
    size_t k = 0;
    if (!out)
        return GW_ENOMEM;
    for (int place = 0; place < 4; place++) {
        for (size_t i = 0; i < r->finding_count; i++)
            if (place_of(&r->findings[i], 0) == place)
                out[k++] = r->findings[i];
        for (size_t i = 0; i < n; i++)
            if (place_of(&add[i], 1) == place)
                out[k++] = add[i];
    }
    for (size_t i = 0; i < k; i++)
        out[i].rank = (int)i + 1;
    r->findings = out;
    r->finding_count = k;
    return GW_OK;
}

/* What the checks could judge is no open question any more. Findings that only a job under load shows stay open when the checks
 * say "good": they looked at a moment. */
static int close_questions(struct gw_report *r, const struct gw_analysis *an, const struct gw_check_list *l,
                           struct gw_arena *arena)
{
    struct gw_not_evaluated *out = gw_arena_calloc(arena, r->not_evaluated_count + 1, sizeof *out);
    size_t k = 0;
    if (!out)
        return GW_ENOMEM;
    for (size_t i = 0; i < r->not_evaluated_count; i++) {
        const char *id = r->not_evaluated[i].id;
        const struct gw_finding_info *info = gw_finding_info_find(id);
        int by_machine = info && strchr(info->signals, 'E') && was_judged(l, id);
        int is_moot = strcmp(id, "poor-topology") == 0 && !communicates(an) && an->ndev;
        if (!has_fired(r, id) && !by_machine && !is_moot)
            out[k++] = r->not_evaluated[i];
    }
    r->not_evaluated = out;
    r->not_evaluated_count = k;
    return GW_OK;
}

/* A fine job on a machine that is not. */
static void add_to_verdict(struct gw_report *r, const struct gw_finding *add, size_t n, struct gw_arena *arena)
{
    const char *list = "";
    if (r->finding_count && r->findings[0].gain.likely >= WORTH)
        return;
    for (size_t i = 0; i < n; i++)
        if (add[i].confidence == GW_CONF_HIGH)
            list = gw_arena_printf(arena, "%s%s%s", list, *list ? ", " : "", add[i].id);
    if (*list)
        r->verdict.sentence = gw_arena_printf(arena, _("%s The machine has something to repair, whose cost cannot be told from here: %s."),
                                              r->verdict.sentence, list);
}

/* --- what could not be seen --------------------------------------------------------------------------------------------- */

static const struct {
    const char *key, *lost, *remedy;
} permissions[] = {
#define GW_PERMISSION(key, lost, remedy) {"permission." key, lost, remedy},
#include "collect/permissions.def"
#undef GW_PERMISSION
};

/* One note for each permission or library that the recorder lacked: what that costs, why, and what to do. */
static int add_permissions(struct gw_report *r, const struct gw_env *env, struct gw_arena *arena)
{
    enum { ROWS = sizeof permissions / sizeof *permissions };
    const char **notes = gw_arena_calloc(arena, r->trust.note_count + ROWS, sizeof *notes);
    if (!notes)
        return GW_ENOMEM;
    size_t n = r->trust.note_count;
    if (n)
        memcpy(notes, r->trust.notes, n * sizeof *notes);
    for (size_t k = 0; k < ROWS; k++)
        for (size_t i = 0; i < gw_env_count(env, GW_REC_NOTE); i++) {
            const struct gw_env_note *note = gw_env_at(env, GW_REC_NOTE, i);
            if (!note->where || strcmp(note->where, permissions[k].key) != 0)
                continue;
            const char *why = strncmp(note->text, "no: ", 4) == 0 ? note->text + 4 : note->text;
            notes[n++] = gw_arena_printf(arena, _("%s: %s. To have it: %s"), _(permissions[k].lost), why, _(permissions[k].remedy));
            break;
        }
    r->trust.notes = notes;
    r->trust.note_count = n;
    return GW_OK;
}

static int merge(struct gw_report *r, const struct gw_analysis *an, const struct gw_env *env, struct gw_arena *arena)
{
    struct gw_check_list *l = gw_checks_run(env, arena);
    struct gw_finding *f;
    size_t n = 0, kept = 0;
    if (!l)
        return GW_ENOMEM;
    drop_momentary(l);
    if (gw_check_findings(l, arena, &f, &n) < 0)
        return GW_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (!counts(r, an, &f[i]))
            continue;
        if (strcmp(f[i].id, "pcie-degraded") == 0)
            pcie_gain(&f[i], r, env, arena);
        f[kept++] = f[i];
    }
    add_to_verdict(r, f, kept, arena);
    if (add_findings(r, f, kept, arena) < 0)
        return GW_ENOMEM;
    if (add_permissions(r, env, arena) < 0)
        return GW_ENOMEM;
    return close_questions(r, an, l, arena);
}

struct gw_report *gw_machine_report(struct gw_report *r, const struct gw_analysis *an, const struct gw_env *env,
                                    struct gw_arena *arena)
{
    if (merge(r, an, env, arena) < 0)
        return NULL;
    return gw_report_copy(r, arena); /* texts may be the env's */
}
