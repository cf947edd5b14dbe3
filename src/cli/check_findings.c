#include "cli/check_findings.h"

#include <math.h>
#include <string.h>

#include "layers/layers.h"

static int counts(const struct gw_check *c, const char *id)
{
    return (c->status == GW_CHECK_BAD || c->status == GW_CHECK_LOOK) && strcmp(c->finding, id) == 0;
}

static void fill(const struct gw_check_list *l, struct gw_finding *f, struct gw_arena *arena)
{
    const struct gw_finding_info *info = gw_finding_info_find(f->id);
    size_t evidence = 0, fixes = 0;
    for (size_t i = 0; i < l->count; i++)
        if (counts(&l->items[i], f->id)) {
            evidence += 1 + l->items[i].evidence_count;
            fixes += *l->items[i].fix != '\0';
        }
    struct gw_evidence *e = gw_arena_calloc(arena, evidence + 1, sizeof *e);
    struct gw_fix *x = gw_arena_calloc(arena, fixes + 1, sizeof *x);
    f->layer = info ? info->layer : "environment";
    f->phrase = info ? info->phrase : ""; /* a finding that the catalogue does not have takes its check's title below */
    f->lost_ns = f->now_step_ns = f->then_low_ns = f->then_high_ns = -1;
    f->share_of_wall = f->share_of_idle = f->gain.low = f->gain.likely = f->gain.high = NAN;
    f->evidence = e;
    f->fix = x;
    for (size_t i = 0; e && x && i < l->count; i++) {
        const struct gw_check *c = &l->items[i];
        if (!counts(c, f->id))
            continue;
        if (!*f->phrase)
            f->phrase = c->info->title;
        f->confidence = c->status == GW_CHECK_BAD        ? GW_CONF_HIGH
                        : f->confidence > GW_CONF_MEDIUM ? f->confidence
                                                         : GW_CONF_MEDIUM;
        e[f->evidence_count++] =
            (struct gw_evidence){gw_arena_printf(arena, "%s: %s", _(c->info->title), c->value), NAN, "1", c->info->id};
        for (size_t k = 0; k < c->evidence_count; k++)
            if (!isnan(c->evidence[k].value) || !strstr(c->value, c->evidence[k].text)) /* not the same words twice */
                e[f->evidence_count++] = (struct gw_evidence){c->evidence[k].text, c->evidence[k].value,
                                                              c->evidence[k].unit, c->evidence[k].source};
        if (*c->fix)
            x[f->fix_count++] = (struct gw_fix){c->fix, c->verify, c->cost};
    }
}

int gw_check_findings(const struct gw_check_list *l, struct gw_arena *arena, struct gw_finding **out, size_t *count)
{
    struct gw_finding *f = gw_arena_calloc(arena, l->count + 1, sizeof *f);
    *count = 0;
    *out = f;
    if (!f)
        return GW_ENOMEM;
    for (int status = GW_CHECK_BAD; status >= GW_CHECK_LOOK; status--)
        for (size_t i = 0; i < l->count; i++) {
            const struct gw_check *c = &l->items[i];
            size_t k = 0;
            if ((int)c->status != status || !*c->finding)
                continue;
            while (k < *count && strcmp(f[k].id, c->finding) != 0)
                k++;
            if (k < *count)
                continue;
            f[k].id = c->finding;
            f[k].rank = (int)k + 1;
            fill(l, &f[k], arena);
            (*count)++;
        }
    return 0;
}

int gw_check_not_evaluated(const struct gw_check_list *l, struct gw_arena *arena, struct gw_not_evaluated **out,
                           size_t *count)
{
    struct gw_not_evaluated *n = gw_arena_calloc(arena, l->count + 1, sizeof *n);
    *count = 0;
    *out = n;
    if (!n)
        return GW_ENOMEM;
    for (size_t i = 0; i < l->count; i++)
        if (l->items[i].status == GW_CHECK_UNKNOWN)
            n[(*count)++] = (struct gw_not_evaluated){l->items[i].info->id, _(l->items[i].info->needs)};
    return 0;
}
