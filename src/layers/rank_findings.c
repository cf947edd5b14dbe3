/* communication, seen from several ranks: waiting for a late one, transfer that nothing hides, links far below their
 * rate. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "layers/rank_findings.h"

const char *gw_rank_who(struct gw_rank_diag *g, size_t r)
{
    const struct gw_rank_summary *s = g->list[r];
    return s->rank >= 0 ? gw_arena_printf(g->d.arena, _("rank %" PRId64), s->rank)
                        : gw_arena_printf(g->d.arena, _("GPU %" PRId64), s->device);
}

static int cmp_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median over the ranks of a number of each. */
static double over_ranks(struct gw_rank_diag *g, double (*get)(const struct gw_rank_diag *g, size_t r))
{
    double *v = gw_arena_calloc(g->d.arena, g->n, sizeof *v);
    if (!v)
        return 0;
    for (size_t r = 0; r < g->n; r++)
        v[r] = get(g, r);
    qsort(v, g->n, sizeof *v, cmp_double);
    return (v[(g->n - 1) / 2] + v[g->n / 2]) / 2;
}

static double exposed_of(const struct gw_rank_diag *g, size_t r) { return (double)g->list[r]->window.comm_exposed; }
static double waited_of(const struct gw_rank_diag *g, size_t r) { return (double)g->x->row[r].wait_exposed; }
static double moved_of(const struct gw_rank_diag *g, size_t r) { return (double)g->x->row[r].transfer_exposed; }

static double mean_wait(const struct gw_rank_diag *g)
{
    double sum = 0;
    for (size_t r = 0; r < g->n; r++)
        sum += waited_of(g, r);
    return sum / (double)g->n;
}

static const char *per_step(struct gw_rank_diag *g, double ns)
{
    const char *t = gw_diag_time_text(&g->d, gw_diag_per_step(&g->d, ns));
    return g->x->steps ? gw_arena_printf(g->d.arena, _("%s a step"), t) : t;
}

static double speedup(const struct gw_rank_diag *g, double saved)
{
    double wall = (double)g->d.wall;
    return wall > 0 && saved > 0 ? wall / fmax(wall - saved, 0.05 * wall) : 1;
}

static void set_gain(struct gw_rank_diag *g, struct gw_draft *f, double low, double likely, double high)
{
    gw_diag_gain_set(f, speedup(g, low), speedup(g, likely), speedup(g, high));
    if (!g->x->steps)
        return;
    double step = (double)g->d.wall / g->d.steps;
    f->f.now_step_ns = (int64_t)step;
    f->f.then_low_ns = (int64_t)(step / f->f.gain.high);
    f->f.then_high_ns = (int64_t)(step / f->f.gain.low);
}

/* ---- straggler ---- */

/* What to do about a rank that spends longer on `did`. */
static const char *remedy(unsigned did, int more_work)
{
    switch (did) {
    case GW_DID_COMPUTE:
        return more_work ? _("give each rank the same work: bucket or pack samples by length, split tables and layers "
                             "by their measured cost")
                         : _("compare that GPU with the others: clocks, power limit, temperature, other processes on "
                             "it (`gpuwhy check` on its machine); move the job off it if it stays slow");
    case GW_DID_COPY:
    case GW_CAUSE_BLOCKING_COPY:
        return _("compare how that rank's batches get to the GPU: pinned memory, NUMA node, PCIe link (`gpuwhy check` "
                 "on its machine)");
    case GW_CAUSE_DATA_WAIT:
    case GW_CAUSE_MAIN_LOADING:
    case GW_CAUSE_RESPAWN:
        return _("see that its loader gets the same data, storage, CPUs and workers as the others'; `gpuwhy run` on "
                 "that rank tells storage from preprocessing");
    case GW_CAUSE_USER_CODE:
    case GW_CAUSE_LOCK:
    case GW_CAUSE_OFF_CPU:
        return _("take the extra work off its main thread (logging, metrics, preparing data on one rank only), or do "
                 "it in another process; see that it has as many CPUs as the others");
    case GW_CAUSE_CHECKPOINT:
    case GW_CAUSE_EVALUATION:
        return _("write checkpoints and run evaluation on all ranks at once or in the background, not on one while the "
                 "others wait");
    case GW_CAUSE_LAUNCH:
    case GW_CAUSE_SLOW_OP:
        return _("its host issues work more slowly than the others': compare its CPUs (affinity, frequency, other "
                 "load) and its batch; `torch.compile(mode=\"reduce-overhead\")` takes the host out of the way");
    case GW_CAUSE_HOST_SYNC:
        return _("drop reads of GPU values (`.item()`, printing, asserts) that only this rank does");
    case GW_CAUSE_ALLOCATOR:
    case GW_CAUSE_HOST_ALLOC:
    case GW_CAUSE_COMPILE:
    case GW_CAUSE_MODULE_LOAD:
        return _("see why it allocates, compiles or loads more than the others: other shapes or less free memory on "
                 "that rank");
    default: return _("look at that rank's own recording: `gpuwhy read` on its file");
    }
}

static int more_work(const struct gw_ranks *x) { return x->own_kernels * 50 > x->other_kernels * 51; /* by over 2 % */ }

static void reasons(struct gw_rank_diag *g, struct gw_draft *f, const char *who)
{
    const struct gw_ranks *x = g->x;
    for (size_t i = 0; i < x->reasons; i++) {
        const struct gw_ranks_reason *q = x->reason + i;
        const char *top = q->top && *q->top ? gw_arena_printf(g->d.arena, _(" (most of it at once: %s)"), q->top) : "";
        gw_diag_seen(&g->d, f, gw_diag_per_step(&g->d, (double)(q->own - q->others)), "ns", "timelines",
                     _("before those, %s has %s of %s%s, the others %s"), who, per_step(g, (double)q->own),
                     gw_did_id(q->did), top, per_step(g, (double)q->others));
        if (q->did != GW_DID_COMPUTE || !q->others || !x->other_kernels)
            continue;
        if (more_work(x))
            gw_diag_seen(&g->d, f, (double)x->own_kernels / (double)x->other_kernels, "1", "kernels",
                         _("it runs %.2f times as many kernels there: it has more work"),
                         (double)x->own_kernels / (double)x->other_kernels);
        else
            gw_diag_seen(&g->d, f, (double)q->own / (double)q->others, "1", "kernels",
                         _("it runs no more kernels than the others, but they take %.2f times as long"),
                         (double)q->own / (double)q->others);
    }
}

static void doubts(struct gw_rank_diag *g, struct gw_draft *f)
{
    const struct gw_ranks *x = g->x;
    int64_t world = g->list[0]->world_size;
    if (!x->systematic)
        gw_diag_against(&g->d, f, x->late_share, "share", "timelines",
                        _("no rank is late all the time: they are late in turn"));
    if (x->seen_steps > 1 && x->worst_step > 0.5)
        gw_diag_against(&g->d, f, x->worst_step, "share", "timelines",
                        _("%.0f %% of the lateness falls into one step of %" PRId64 ": it may be a single incident"),
                        100 * x->worst_step, x->seen_steps);
    if (x->seen_steps <= 1)
        gw_diag_against(&g->d, f, NAN, "1", "steps", _("the recordings compare one step only: record at least 10"));
    if (world > (int64_t)g->n)
        gw_diag_against(
            &g->d, f, (double)world - (double)g->n, "count", "files",
            _("%" PRId64 " of the job's %" PRId64 " ranks are not here, and one of those may be later still"),
            world - (int64_t)g->n, world);
}

static void late_places(struct gw_rank_diag *g, struct gw_draft *f)
{
    double all = 0;
    for (size_t r = 0; r < g->n; r++)
        all += (double)g->x->row[r].late;
    for (size_t k = 0; k < g->x->late_count && k < 8; k++) {
        size_t r = g->x->late[k];
        const char *cause =
            g->x->reasons && k == 0 ? gw_arena_printf(g->d.arena, ": %s", gw_did_id(g->x->reason[0].did)) : "";
        gw_diag_where(f, "", 0, gw_arena_printf(g->d.arena, "%s%s", gw_rank_who(g, r), cause),
                      all > 0 ? (double)g->x->row[r].late / all : NAN, g->x->row[r].last);
    }
}

/* "rank 3", "ranks 3, 5 and 7" */
static const char *late_names(struct gw_rank_diag *g)
{
    const size_t *late = g->x->late, n = g->x->late_count, most = n > 4 ? 3 : n;
    struct gw_arena *arena = g->d.arena;
    if (n == 1)
        return gw_rank_who(g, late[0]);
    const char *s = g->list[late[0]]->rank >= 0 ? _("ranks") : _("GPUs");
    for (size_t k = 0; k < most; k++) {
        const struct gw_rank_summary *r = g->list[late[k]];
        const char *join = k == 0 ? " " : k + 1 == n ? _(" and ") : ", ";
        s = gw_arena_printf(arena, "%s%s%" PRId64, s, join, r->rank >= 0 ? r->rank : r->device);
    }
    return most < n ? gw_arena_printf(arena, _("%s and %zu more"), s, n - most) : s;
}

int gw_find_straggler(struct gw_rank_diag *g)
{
    const struct gw_ranks *x = g->x;
    double wait = over_ranks(g, waited_of), mean = mean_wait(g), moved = over_ranks(g, moved_of),
           wall = (double)g->d.wall;
    if (!x->late_count || mean < GW_LIM_SHARE * wall)
        return GW_SILENT;
    struct gw_draft *f =
        gw_diag_add(&g->d, GW_F_STRAGGLER, (int64_t)(x->systematic ? fmax(wait, (double)x->saved) : mean));
    const char *who = late_names(g), *first = gw_rank_who(g, x->late[0]);
    int once = x->seen_steps <= 1 || x->worst_step > 0.5;
    double saved = (double)x->saved, most = fmax(saved, fmax((double)x->balanced, (double)x->unlate));
    if (x->systematic) {
        set_gain(g, f, (once ? 0.1 : 0.7) * saved, saved, 1.05 * most);
        f->f.phrase =
            gw_arena_printf(g->d.arena,
                            gw_ngettext("%s comes late to the collectives, and the others wait",
                                        "%s come late to the collectives, and the others wait", x->late_count),
                            who);
    } else {
        set_gain(g, f, 0.1 * most, 0.4 * most, most);
        f->f.phrase = _("the ranks come to the collectives at different times, and wait for each other");
    }
    f->f.confidence = !x->systematic || once                    ? GW_CONF_LOW
                      : x->late_steps * 10 >= x->seen_steps * 7 ? GW_CONF_HIGH
                                                                : GW_CONF_MEDIUM;
    gw_diag_seen(&g->d, f, mean / wall, "share", "timelines",
                 _("the ranks wait inside collectives for %.0f %% of the time (%s each, with nothing else running); "
                   "the transfers that nothing hides take %.0f %%"),
                 100 * mean / wall, per_step(g, mean), 100 * moved / wall);
    const struct gw_ranks_row *row = x->row + x->late[0];
    gw_diag_seen(&g->d, f, (double)row->last, "count", "timelines",
                 _("%s is the last at %" PRId64 " of %" PRId64 " collectives; %.0f %% of all lateness is that of %s"),
                 first, row->last, row->seen, 100 * x->late_share, who);
    if (x->seen_steps > 1)
        gw_diag_seen(&g->d, f, (double)x->late_steps, "count", "steps", _("in %" PRId64 " of %" PRId64 " steps"),
                     x->late_steps, x->seen_steps);
    reasons(g, f, first);
    gw_diag_seen(&g->d, f, (double)x->spread, "ns", "timelines",
                 _("the collectives that were compared end within %s of each other on all ranks, as they must"),
                 gw_diag_time_text(&g->d, (double)x->spread));
    doubts(g, f);
    late_places(g, f);
    gw_diag_fix(f,
                x->systematic && x->reasons ? remedy(x->reason[0].did, more_work(x))
                                            : _("give each rank the same work at the same time: batches of equal cost, "
                                                "the same CPUs and storage, logging and saving off the critical path; "
                                                "synchronise less often (gradient accumulation under `no_sync()`)"),
                _("record all ranks again; gpuwhy diff BEFORE AFTER"), "");
    const char *does = x->systematic && x->reasons
                           ? gw_arena_printf(g->d.arena, _(" What sets %s apart: %s (%s)."), first,
                                             _(gw_did_text(x->reason[0].did)), gw_did_id(x->reason[0].did))
                           : "";
    g->head[GW_F_STRAGGLER] = gw_arena_printf(
        g->d.arena, _("Your GPUs wait for each other %.0f %% of the time. Main cause: %s (straggler).%s"),
        100 * mean / wall, f->f.phrase, does);
    return GW_FIRED;
}

/* ---- transfer ---- */

/* What is left when waiting is taken out. Collectives that could not be matched are split as the others are. */
int gw_find_exposed_over_ranks(struct gw_rank_diag *g)
{
    double wall = (double)g->d.wall, exposed = over_ranks(g, exposed_of), wait = over_ranks(g, waited_of),
           moved = over_ranks(g, moved_of);
    double rest = wait + moved > 0 ? exposed * moved / (wait + moved) : exposed;
    if (rest < GW_LIM_COMM_LINE * wall)
        return GW_SILENT;
    struct gw_draft *f = gw_diag_add(&g->d, GW_F_COMM_EXPOSED, (int64_t)rest);
    set_gain(g, f, 0.25 * rest, 0.6 * rest, rest);
    f->f.confidence = rest >= GW_LIM_COMM * wall ? GW_CONF_MEDIUM : GW_CONF_LOW;
    gw_diag_seen(&g->d, f, rest / wall, "share", "timelines",
                 _("transfers that no compute hides take %.0f %% of the time (%s); waiting for late ranks, %.0f %%, is "
                   "not counted here"),
                 100 * rest / wall, per_step(g, rest), 100 * wait / wall);
    if (moved < 0.8 * rest)
        gw_diag_against(&g->d, f, 1 - moved / rest, "share", "timelines",
                        _("%.0f %% of that is in collectives that could not be matched over the ranks, and is split as "
                          "the others are"),
                        100 * (1 - moved / rest));
    int64_t world = g->list[0]->world_size;
    if (world > (int64_t)g->n)
        gw_diag_against(&g->d, f, (double)world - (double)g->n, "count", "files",
                        _("%" PRId64 " of the job's %" PRId64 " ranks are not here: part of it may be waiting for one of those"),
                        world - (int64_t)g->n, world);
    for (size_t i = 0; i < g->x->ncls && i < 4; i++) {
        const struct gw_ranks_class *k = g->x->cls + i;
        const char *size =
            k->bytes >= 0 ? gw_arena_printf(g->d.arena, _(" of %s"), gw_diag_bytes_text(&g->d, (double)k->bytes)) : "";
        gw_diag_where(f, "", 0, gw_arena_printf(g->d.arena, "%s%s", gw_coll_name(k->kind), size), NAN, k->count);
    }
    gw_diag_fix(
        f,
        _("overlap more: larger DDP buckets (`bucket_cap_mb=100`, `gradient_as_bucket_view=True`), FSDP prefetch; send "
          "less: gradient accumulation under `no_sync()`, bf16 gradients, sharding inside one machine"),
        _("record all ranks again; gpuwhy diff BEFORE AFTER"), _("accumulation changes the effective batch"));
    g->head[GW_F_COMM_EXPOSED] = gw_arena_printf(
        g->d.arena, _("Your GPUs do nothing but exchange data %.0f %% of the time. Main cause: %s (comm-exposed)."),
        100 * rest / wall, f->f.phrase);
    return GW_FIRED;
}

/* ---- slow link ---- */

/* GPUs whose links to each other are known by their name: NVLink bytes/s in one direction, half of what the data sheets
 * give for both. First match wins; rows without a rate are there to keep later ones from matching. */
static const struct {
    const char *name;
    double rate;
} links[] = {{"PCIe", 0},          {"PCIE", 0},          {"P100-SXM2", 80e9},  {"V100-SXM2", 150e9},
             {"V100-SXM3", 150e9}, {"A800-SXM4", 200e9}, {"A100-SXM4", 300e9}, {"H800", 200e9},
             {"H20", 450e9},       {"H100", 450e9},      {"B200", 900e9},      {"B100", 900e9}};

static double link_rate(const char *gpu)
{
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        if (strstr(gpu, links[i].name))
            return links[i].rate;
    return 0;
}

int gw_find_slow_link(struct gw_rank_diag *g)
{
    const struct gw_ranks *x = g->x;
    double rate = link_rate(g->list[0]->gpu), time = 0, sum = 0, moved = over_ranks(g, moved_of);
    int64_t world = g->list[0]->world_size > (int64_t)g->n ? g->list[0]->world_size : (int64_t)g->n, bytes = 0;
    for (size_t i = 0; i < x->ncls; i++) {
        const struct gw_ranks_class *k = x->cls + i;
        if ((double)k->bytes < GW_LIM_LINK_BYTES || isnan(k->bus_bandwidth))
            continue;
        time += (double)k->transfer;
        sum += (double)k->transfer * k->bus_bandwidth;
        bytes = k->bytes > bytes ? k->bytes : bytes;
    }
    int missing = world > (int64_t)g->n;
    if (time <= 0 || rate <= 0 || world > 8) {
        g->d.needs[GW_F_SLOW_LINK] =
            missing     ? _("the traces of all ranks: what looks slow may wait for one that is not here")
            : time <= 0 ? _("messages of 8 MB or more whose size the recordings give")
            : rate <= 0 ? _("the rate of the links between these GPUs: gpuwhy check")
                        : _("the rate of the network between the machines: gpuwhy check");
        return GW_NO_DATA;
    }
    double bus = sum / time, reach = 0.8 * rate; /* 0.8: about what nccl-tests reach on NVLink */
    if (bus > GW_LIM_LINK_BUS * rate || time < GW_LIM_COPY * (double)g->d.wall)
        return GW_SILENT;
    double lost = fmin(time, moved) * (1 - bus / reach);
    struct gw_draft *f = gw_diag_add(&g->d, GW_F_SLOW_LINK, (int64_t)lost);
    set_gain(g, f, 0.3 * lost, 0.7 * lost, lost);
    gw_diag_seen(&g->d, f, bus, "bytes/s", "timelines",
                 _("messages of up to %s move at %.3g GB/s on the bus; NVLink on %s does %.3g GB/s in one direction"),
                 gw_diag_bytes_text(&g->d, (double)bytes), bus / 1e9, g->list[0]->gpu, rate / 1e9);
    gw_diag_against(&g->d, f, NAN, "1", "",
                    _("that these GPUs are joined by NVLink is taken from their name: gpuwhy check shows the links"));
    gw_diag_fix(
        f,
        _("see what NCCL uses: `NCCL_DEBUG=INFO`, and look for P2P/IPC (good), SHM or NET/Socket (slow) in its lines; "
          "then `gpuwhy check` for the topology. Containers need one PID and IPC name space or P2P is off"),
        _("nccl-tests: all_reduce_perf -b 8M -e 1G -f 2 -g 8"), "");
    g->head[GW_F_SLOW_LINK] = gw_arena_printf(
        g->d.arena, _("Your GPUs exchange data far below the rate of their links: %.3g of %.3g GB/s (comm-slow-link)."),
        bus / 1e9, rate / 1e9);
    return GW_FIRED;
}
