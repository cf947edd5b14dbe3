#include "layers/rank_report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "layers/rank_findings.h"

struct gw_all { /* a report over ranks being made */
    struct gw_rank_diag g;
    const struct gw_report *const *rep;
    struct gw_report *r;
    size_t main;   /* the rank that the report speaks of; one that has a report */
    int answer[3]; /* straggler, comm-exposed, comm-slow-link */
};

static const char *file_name(const char *path)
{
    const char *s = strrchr(path, '/');
    return s && s[1] ? s + 1 : path;
}

const char *gw_ranks_misfit(const struct gw_ranks *x, const struct gw_rank_summary *const *list, struct gw_arena *arena)
{
    const struct gw_rank_summary *a = list[x->a], *b = list[x->b < x->n ? x->b : 0];
    const char *na = file_name(a->path), *nb = file_name(b->path);
    switch (x->fit) {
    case GW_RANKS_FIT: return "";
    case GW_RANKS_ONE: return _("one recording alone has nothing to be compared with");
    case GW_RANKS_WORLD:
        return a->world_size == b->world_size
                   ? gw_arena_printf(arena, _("%s and %s say that their job has one rank"), na, nb)
                   : gw_arena_printf(arena, _("%s is of a job of %" PRId64 " ranks, %s of a job of %" PRId64), na,
                                     a->world_size, nb, b->world_size);
    case GW_RANKS_DUPLICATE: return gw_arena_printf(arena, _("%s and %s are both rank %" PRId64), na, nb, a->rank);
    case GW_RANKS_UNKNOWN: return gw_arena_printf(arena, _("%s names no rank and runs no collectives"), na);
    case GW_RANKS_OTHER: return gw_arena_printf(arena, _("%s and %s run different kernels"), na, nb);
    case GW_RANKS_NO_COMM: return gw_arena_printf(arena, _("%s runs no collectives on the GPU"), na);
    case GW_RANKS_NO_MATCH:
        return _(
            "their collectives do not end together: other runs of the job, or ranks that do not talk to each other");
    }
    return "";
}

/* ---- findings of single ranks ---- */

static const struct gw_finding *find(const struct gw_report *r, const char *id)
{
    for (size_t i = 0; r && i < r->finding_count; i++)
        if (!strcmp(r->findings[i].id, id))
            return r->findings + i;
    return NULL;
}

static double level(const struct gw_gain *g, int i) { return i == 0 ? g->low : i == 1 ? g->likely : g->high; }

/* What finding `id` is worth to the job when all ranks that have it are mended: a rank keeps the pace by what it does
 * not wait, and the slowest one sets it. */
static double worth(const struct gw_all *a, const char *id, int lv)
{
    double now = 0, then = 0, wall = (double)a->g.d.wall;
    for (size_t r = 0; r < a->g.n; r++) {
        const struct gw_ranks_row *row = a->g.x->row + r;
        double own = (double)(a->g.list[r]->window.wall - row->wait_exposed - row->cold);
        const struct gw_finding *f = find(a->rep[r], id);
        double gain = f ? level(&f->gain, lv) : 1;
        double less = gain > 1 ? (double)a->g.list[r]->window.wall * (1 - 1 / gain) : 0;
        now = fmax(now, own);
        then = fmax(then, fmax(own - less, 0));
    }
    double saved = fmin(now - then, 0.98 * wall);
    return wall > 0 && saved > 0 ? wall / (wall - saved) : 1;
}

static enum gw_finding_id number_of(const char *id)
{
    for (size_t i = 0; i < GW_F_COUNT; i++)
        if (!strcmp(gw_finding_info(i)->id, id))
            return (enum gw_finding_id)i;
    return GW_F_COUNT;
}

static void push_all(struct gw_array *arr, const void *data, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        void *p = gw_array_push(arr);
        if (p)
            memcpy(p, (const char *)data + i * arr->size, arr->size);
    }
}

/* Finding `id` as rank `best` has it, with its worth to the job. */
static void take(struct gw_all *a, const char *id, size_t best, size_t count)
{
    const struct gw_finding *f = find(a->rep[best], id);
    struct gw_rank_diag *g = &a->g;
    struct gw_draft *d = gw_diag_add(&g->d, number_of(id), f->lost_ns);
    double job[3];
    d->f = *f;
    for (int i = 0; i < 3; i++)
        job[i] = fmin(level(&f->gain, i), worth(a, id, i));
    gw_diag_gain_set(d, job[0], job[1], job[2]);
    if (d->f.now_step_ns > 0) {
        d->f.then_low_ns = (int64_t)((double)d->f.now_step_ns / d->f.gain.high);
        d->f.then_high_ns = (int64_t)((double)d->f.now_step_ns / d->f.gain.low);
    }
    push_all(&d->evidence, f->evidence, f->evidence_count);
    push_all(&d->against, f->against, f->against_count);
    push_all(&d->where, f->where, f->where_count);
    push_all(&d->fix, f->fix, f->fix_count);
    gw_diag_seen(&g->d, d, (double)count, "count", "reports", _("%zu of %zu ranks show it; these figures are of %s"),
                 count, g->n, gw_rank_who(g, best));
    if (d->f.gain.likely < 1 + 0.8 * (f->gain.likely - 1))
        gw_diag_against(
            &g->d, d, f->gain.likely, "1", "reports",
            _("for %s alone it would be %.2f times; the job gains less, since ranks that wait for others gain nothing"),
            gw_rank_who(g, best), f->gain.likely);
}

static void take_all(struct gw_all *a)
{
    for (size_t i = 0; i < GW_F_COUNT; i++) {
        const char *id = gw_finding_info(i)->id;
        size_t best = a->g.n, count = 0;
        if (i == GW_F_COMM_EXPOSED || i == GW_F_STRAGGLER || i == GW_F_SLOW_LINK)
            continue;
        for (size_t r = 0; r < a->g.n; r++) {
            const struct gw_finding *f = find(a->rep[r], id);
            count += f != NULL;
            if (f && (best == a->g.n || f->gain.likely > find(a->rep[best], id)->gain.likely))
                best = r;
        }
        if (best < a->g.n)
            take(a, id, best, count);
    }
}

/* ---- what the report holds besides ---- */

static void sources(struct gw_all *a)
{
    size_t ns = 0, nd = 0, k = 0, q = 0;
    for (size_t i = 0; i < a->g.n; i++) {
        ns += a->rep[i] ? a->rep[i]->source_count : 0;
        nd += a->rep[i] ? a->rep[i]->device_count : 0;
    }
    struct gw_report_source *s = gw_arena_calloc(a->g.d.arena, ns, sizeof *s);
    struct gw_report_device *d = gw_arena_calloc(a->g.d.arena, nd, sizeof *d);
    if (!s || !d) {
        a->g.d.oom = 1;
        return;
    }
    for (size_t i = 0; i < a->g.n; i++) {
        const struct gw_report *r = a->rep[i];
        for (size_t j = 0; r && j < r->source_count; j++)
            s[k++] = r->sources[j];
        for (size_t j = 0; r && j < r->device_count; j++) {
            if (i == a->main && j == r->main_device)
                a->r->main_device = q;
            d[q] = r->devices[j];
            if (a->g.list[i]->rank >= 0)
                d[q].rank = a->g.list[i]->rank;
            q++;
        }
    }
    a->r->sources = s;
    a->r->source_count = k;
    a->r->devices = d;
    a->r->device_count = q;
}

/* What no rank's recording can show, less what the comparison showed. */
static void not_evaluated(struct gw_all *a)
{
    struct gw_not_evaluated *out = gw_arena_calloc(a->g.d.arena, GW_F_COUNT, sizeof *out);
    size_t n = 0;
    for (size_t i = 0; out && i < GW_F_COUNT; i++) {
        const char *id = gw_finding_info(i)->id, *needs = NULL;
        size_t missing = 0, reports = 0;
        for (size_t r = 0; r < a->g.n; r++)
            for (size_t k = 0; a->rep[r] && k < a->rep[r]->not_evaluated_count; k++)
                if (!strcmp(a->rep[r]->not_evaluated[k].id, id)) {
                    missing++;
                    needs = a->rep[r]->not_evaluated[k].needs;
                }
        for (size_t r = 0; r < a->g.n; r++)
            reports += a->rep[r] != NULL;
        if (i == GW_F_STRAGGLER || i == GW_F_COMM_EXPOSED)
            continue;
        if (i == GW_F_SLOW_LINK) {
            missing = a->answer[2] == GW_NO_DATA ? reports : 0;
            needs = a->g.d.needs[i] ? a->g.d.needs[i] : needs;
        }
        if (missing == reports && needs)
            out[n++] = (struct gw_not_evaluated){.id = id, .needs = needs};
    }
    a->r->not_evaluated = out;
    a->r->not_evaluated_count = out ? n : 0;
    a->g.d.oom |= !out;
}

static void losses(struct gw_all *a)
{
    struct gw_report_loss *out = gw_arena_calloc(a->g.d.arena, GW_LOSS_COUNT, sizeof *out);
    size_t n = 0;
    a->r->trust.complete = 1;
    a->g.d.oom |= !out;
    for (size_t r = 0; out && r < a->g.n; r++) {
        const struct gw_report *rep = a->rep[r];
        if (!rep)
            continue;
        a->r->trust.complete &= rep->trust.complete;
        for (size_t i = 0; i < rep->trust.loss_count; i++) {
            size_t k = 0;
            while (k < n && strcmp(out[k].id, rep->trust.losses[i].id))
                k++;
            if (k == n && n < GW_LOSS_COUNT) {
                out[n] = rep->trust.losses[i];
                out[n++].first_byte = -1; /* of which file? */
            } else if (k < n) {
                out[k].count += rep->trust.losses[i].count;
            }
        }
    }
    a->r->trust.losses = out;
    a->r->trust.loss_count = out ? n : 0;
}

static void notes(struct gw_all *a)
{
    const struct gw_report *main = a->rep[a->main];
    const struct gw_ranks *x = a->g.x;
    size_t n = 0, dropped = 0;
    const char **out = gw_arena_calloc(a->g.d.arena, main->trust.note_count + 4, sizeof *out);
    a->g.d.oom |= !out;
    if (!out)
        return;
    for (size_t i = 0; i < main->trust.note_count; i++)
        out[n++] = main->trust.notes[i];
    for (size_t r = 0; r < a->g.n; r++)
        dropped += a->g.list[r]->dropped;
    if (x->unmatched)
        out[n++] = gw_arena_printf(
            a->g.d.arena,
            _("%" PRId64 " of %" PRId64 " collectives could not be matched over the ranks, or have nothing recorded "
                                        "before them; waiting is told from transfer in the others only"),
            x->unmatched, x->unmatched + x->matched);
    if (dropped)
        out[n++] = gw_arena_printf(a->g.d.arena, _("%zu collectives beyond the first %d of a rank were not compared"),
                                   dropped, GW_RANK_COLLS_MAX);
    if (!x->numbered)
        out[n++] =
            _("collectives were matched by their order and their ends, since the recordings do not number their steps");
    int64_t world = a->g.list[0]->world_size;
    if (world > (int64_t)a->g.n)
        out[n++] = gw_arena_printf(a->g.d.arena, _("%zu of the job's %" PRId64 " ranks were read"), a->g.n, world);
    a->r->trust.notes = out;
    a->r->trust.note_count = n;
}

static const char *top_cause(const struct gw_rank_summary *s)
{
    unsigned best = 0;
    for (unsigned c = 1; c < GW_CAUSE_COUNT; c++)
        if (s->did[c] > s->did[best])
            best = c;
    return s->did[best] > 0 ? gw_cause_id(best) : "";
}

static void tables(struct gw_all *a)
{
    const struct gw_ranks *x = a->g.x;
    struct gw_report_rank *row = gw_arena_calloc(a->g.d.arena, a->g.n, sizeof *row);
    struct gw_report_collective *c = gw_arena_calloc(a->g.d.arena, x->ncls, sizeof *c);
    a->g.d.oom |= !row || !c;
    for (size_t i = 0; row && i < a->g.n; i++) {
        const struct gw_rank_summary *s = a->g.list[i];
        const struct gw_partition *w = &s->window;
        const struct gw_ranks_row *q = x->row + i;
        row[i] = (struct gw_report_rank){.rank = s->rank,
                                         .device = s->device,
                                         .path = s->path,
                                         .name = s->gpu,
                                         .steps = s->steps,
                                         .median_step_ns = s->median_step_ns,
                                         .wall = w->wall,
                                         .compute = w->compute,
                                         .comm_exposed = w->comm_exposed,
                                         .copy_exposed = w->copy_exposed,
                                         .idle = w->idle,
                                         .wait = q->wait + q->cold,
                                         .wait_exposed = q->wait_exposed + q->cold,
                                         .transfer = q->transfer,
                                         .last = q->last,
                                         .late = q->late,
                                         .cause = top_cause(s)};
    }
    for (size_t i = 0; c && i < x->ncls; i++) {
        const struct gw_ranks_class *k = x->cls + i;
        double steps = x->steps ? (double)x->steps : 1;
        c[i] = (struct gw_report_collective){.kind = gw_coll_name(k->kind),
                                             .bytes = k->bytes,
                                             .ranks = k->ranks,
                                             .count = (double)k->count / steps,
                                             .transfer_ns = (double)k->transfer / steps,
                                             .wait_ns = (double)k->wait / steps,
                                             .bus_bandwidth = k->bus_bandwidth};
    }
    a->r->per_rank = row;
    a->r->rank_count = row ? a->g.n : 0;
    a->r->collectives = c;
    a->r->collective_count = c ? x->ncls : 0;
}

/* ---- the verdict ---- */

/* A late rank comes before the cause found on it, unless mending the cause on all ranks is worth a good deal more. */
static void straggler_first(struct gw_all *a)
{
    struct gw_diag *d = &a->g.d;
    for (size_t i = 1; i < d->drafts; i++) {
        struct gw_draft *f = d->draft[i];
        if (f->id != GW_F_STRAGGLER || !a->g.x->systematic)
            continue;
        for (; i > 0 && (f->f.gain.likely - 1) * 1.2 >= d->draft[i - 1]->f.gain.likely - 1; i--)
            d->draft[i] = d->draft[i - 1];
        d->draft[i] = f;
        return;
    }
}

static void judge(struct gw_all *a)
{
    struct gw_report *r = a->r;
    struct gw_diag *d = &a->g.d;
    const struct gw_finding *f = r->finding_count ? r->findings : NULL;
    const struct gw_report *main = a->rep[a->main];
    if (!strcmp(main->verdict.finding, "too-little-data") || !strcmp(main->verdict.finding, "warm-up-only")) {
        r->verdict = main->verdict;
        return;
    }
    if (!f || f->gain.likely < GW_LIM_WORTH) {
        r->verdict.finding = "none";
        r->verdict.layer = "outside";
        r->verdict.sentence =
            gw_arena_printf(d->arena,
                            _("This job is fine over its %zu ranks: its GPUs are busy %.0f %% of the time, and nothing "
                              "that these recordings can show is worth 3 %% or more to all of it."),
                            a->g.n, 100 * d->busy);
        return;
    }
    gw_diag_blame(d, r, f, a->g.head[number_of(f->id)]);
}

/* The rank the report speaks of: the late one, else the one that waits least; it must have a report. */
static size_t choose_main(const struct gw_all *a)
{
    const struct gw_ranks *x = a->g.x;
    size_t best = a->g.n;
    if (x->systematic && a->rep[x->late[0]])
        return x->late[0];
    for (size_t r = 0; r < a->g.n; r++)
        if (a->rep[r] && (best == a->g.n || x->row[r].wait_exposed < x->row[best].wait_exposed))
            best = r;
    return best;
}

struct gw_report *gw_diagnose_ranks(const struct gw_ranks *x, const struct gw_rank_summary *const *list,
                                    const struct gw_report *const *reports, size_t n, struct gw_arena *arena)
{
    struct gw_all *a = gw_arena_alloc(arena, sizeof *a);
    struct gw_report *r = gw_arena_alloc(arena, sizeof *r);
    if (!a || !r)
        return NULL;
    *a = (struct gw_all){.g = {.x = x, .list = list, .n = n}, .rep = reports, .r = r};
    a->main = choose_main(a);
    if (a->main == n)
        return NULL;
    struct gw_diag *d = &a->g.d;
    const struct gw_partition *w = &list[a->main]->window;
    d->arena = arena;
    d->wall = x->wall;
    d->steps = x->steps ? (double)x->steps : 1;
    d->busy = w->wall > 0 ? 1 - (double)w->idle / (double)w->wall : 0;
    d->scale_likely = d->scale_low = 1;
    *r = *reports[a->main];
    r->arena = arena;
    r->ranks = (int64_t)n;
    a->answer[0] = gw_find_straggler(&a->g);
    a->answer[1] = gw_find_exposed_over_ranks(&a->g);
    a->answer[2] = gw_find_slow_link(&a->g);
    take_all(a);
    sources(a);
    for (size_t i = 0; i < d->drafts; i++)
        d->answer[d->draft[i]->id] = GW_FIRED;
    gw_diag_order(d);
    straggler_first(a);
    gw_diag_keep(d, r);
    not_evaluated(a);
    losses(a);
    notes(a);
    tables(a);
    judge(a);
    return d->oom ? NULL : r;
}

struct gw_report *gw_diagnose_devices(const struct gw_analysis *an, struct gw_report *rep, struct gw_arena *arena)
{
    size_t n = 0;
    const struct gw_rank_summary **list = gw_arena_calloc(arena, an->ndev + 1, sizeof *list);
    const struct gw_report **reports = gw_arena_calloc(arena, an->ndev + 1, sizeof *reports);
    const char *path = rep->source_count ? rep->sources[0].path : "";
    if (!list || !reports)
        return NULL;
    for (size_t i = 0; i < an->ndev; i++) {
        struct gw_rank_summary *s = gw_rank_summarise(an, an->dev + i, path, arena);
        if (!s)
            return NULL;
        if (!s->ncoll)
            continue; /* a device that takes no part */
        s->rank = -1;
        s->world_size = -1;
        reports[n] = i == an->main ? rep : NULL;
        list[n++] = s;
    }
    int has_main = 0;
    for (size_t i = 0; i < n; i++)
        has_main |= reports[i] != NULL;
    if (n < 2 || !has_main)
        return rep;
    struct gw_ranks *x = gw_ranks_compare(list, n, arena);
    if (!x)
        return NULL;
    return x->fit == GW_RANKS_FIT ? gw_diagnose_ranks(x, list, reports, n, arena) : rep;
}
