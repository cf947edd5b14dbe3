#include "engine/diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/gw_i18n.h"

#define PACED_FULL 0.05    /* idle share caused by the host from which the host sets the pace altogether */
#define SLOW_FACTOR 2      /* a step this many times the median is a slow one (report_model.h: tail_share) */
#define SLOW_WORTH 0.1     /* slow steps move the mean against the median by this much more in one than in the other */
#define MEDIAN_COST 1.2533 /* standard error of a median, of that of a mean: sqrt(pi / 2) */
#define MAD_SIGMA 1.4826   /* standard deviation of a normal distribution, of its median absolute deviation */
#define SMALL_NS 2000.0    /* a change of less than this a step is none, nor one of less than ... */
#define SMALL_SHARE 0.001  /* ... of the step */
#define SAME_COUNT 0.01    /* share by which the number of kernels may differ and be the same work */
#define GONE 1.10          /* a finding with less gain than this is as good as gone */

const char *gw_diff_change_id(enum gw_diff_change c)
{
    static const char *const ids[] = {"unknown", "same", "faster", "slower"};
    return ids[c];
}

const char *gw_diff_outcome_id(enum gw_diff_outcome o)
{
    static const char *const ids[] = {"none", "within", "less", "more", "not-done"};
    return ids[o];
}

static int cmp_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, cmp_double);
    return n ? (v[(n - 1) / 2] + v[n / 2]) / 2 : NAN;
}

/* Student's t for a two-sided interval of 95 % with `dof` degrees of freedom. A table, linear between its rows. */
static double student(double dof)
{
    static const struct {
        double dof, t;
    } rows[] = {{1, 12.706}, {2, 4.303},  {3, 3.182},  {4, 2.776},  {5, 2.571},  {6, 2.447},   {8, 2.306},
                {10, 2.228}, {15, 2.131}, {20, 2.086}, {30, 2.042}, {60, 2.000}, {120, 1.980}, {1e9, 1.960}};
    size_t i = 0;
    if (!(dof > 1))
        return rows[0].t;
    while (i + 2 < sizeof rows / sizeof *rows && rows[i + 1].dof < dof)
        i++;
    double f = (dof - rows[i].dof) / (rows[i + 1].dof - rows[i].dof);
    return rows[i].t + fmin(f, 1) * (rows[i + 1].t - rows[i].t);
}

/* ---- a side ---- */

static int of_host(unsigned cause)
{
    return cause != GW_CAUSE_KERNEL_GAP && cause != GW_CAUSE_GPU_DEPENDENCY && cause != GW_CAUSE_IN_GRAPH &&
           cause != GW_CAUSE_DRAIN && cause != GW_CAUSE_UNEXPLAINED;
}

static int look(struct gw_diff_side *s, const struct gw_report *r, struct gw_arena *arena)
{
    double idle = 0, *v = gw_arena_calloc(arena, r->step_time_count, sizeof *v);
    if (!v)
        return GW_ENOMEM;
    *s = (struct gw_diff_side){.rep = r, .mean = NAN, .median = NAN, .scatter = NAN};
    s->ranks = r->world_size > 1 ? r->world_size : r->ranks > 1 ? r->ranks : 1;
    if (r->device_count)
        s->dev = r->devices + (r->main_device < r->device_count ? r->main_device : 0);
    if (!s->dev || s->dev->steady.wall <= 0)
        return GW_OK;
    for (size_t i = 0; i < s->dev->cause_count; i++)
        idle += of_host(s->dev->idle_by_cause[i].cause) ? (double)s->dev->idle_by_cause[i].ns : 0;
    s->paced = fmin(1, idle / (double)s->dev->steady.wall / PACED_FULL);
    if (r->steps.steady_count <= 0)
        return GW_OK;
    s->steps = (double)r->steps.steady_count;
    s->mean = (double)s->dev->steady.wall / s->steps;
    size_t n = r->step_time_count;
    for (size_t i = 0; i < n; i++)
        v[i] = (double)r->step_times[i];
    s->median = n ? median(v, n) : r->steps.median_ns > 0 ? (double)r->steps.median_ns : s->mean;
    for (size_t i = 0; i < n; i++)
        s->slow += v[i] > SLOW_FACTOR * s->median;
    for (size_t i = 0; i < n; i++)
        v[i] = fabs(v[i] - s->median);
    s->scatter = n >= 2 && s->median > 0 ? MAD_SIGMA * median(v, n) / s->median : NAN;
    return GW_OK;
}

/* ---- is it more than noise? ---- */

static double run_noise(const struct gw_diff_side *s, const struct gw_diff_options *o)
{
    return isfinite(o->run_noise) ? o->run_noise : GW_DIFF_RUN_GPU + s->paced * (GW_DIFF_RUN_HOST - GW_DIFF_RUN_GPU);
}

static void decide(struct gw_diff *d, const struct gw_diff_options *o)
{
    const struct gw_diff_side *a = &d->a, *b = &d->b;
    d->ratio = b->median / a->median;
    d->mean_ratio = b->mean / a->mean;
    double na = (double)a->rep->step_time_count, nb = (double)b->rep->step_time_count;
    if (!isfinite(a->scatter) || !isfinite(b->scatter)) {
        d->change = GW_DIFF_UNKNOWN; /* one step, or none: nothing is known about the scatter */
        return;
    }
    double va = pow(MEDIAN_COST * a->scatter, 2), vb = pow(MEDIAN_COST * b->scatter, 2), v = va + vb;
    double dof = v > 0 ? v * v / (va * va / (na - 1) + vb * vb / (nb - 1)) : 1e9; /* Welch and Satterthwaite */
    double t = student(dof), run = 1.96 * hypot(run_noise(a, o), run_noise(b, o));
    double half = hypot(t * sqrt(v), run); /* of the logarithm of the ratio */
    d->slow_changed = (a->slow || b->slow) && fabs(log(d->mean_ratio / d->ratio)) > SLOW_WORTH;
    d->low = d->ratio * exp(-half);
    d->high = d->ratio * exp(half);
    d->change = d->high < 1 ? GW_DIFF_FASTER : d->low > 1 ? GW_DIFF_SLOWER : GW_DIFF_SAME;
}

/* Half of the interval of a change of the step, in ns of a step between the two: the same whichever comes first. */
static double step_noise(const struct gw_diff *d)
{
    return isfinite(d->low) ? sqrt(d->a.median * d->b.median) * log(d->ratio / d->low) : INFINITY;
}

/* The same of time on the GPU, which repeats better. */
static double gpu_noise(double a, double b, const struct gw_diff_options *o)
{
    double run = isfinite(o->run_noise) ? fmin(o->run_noise, GW_DIFF_RUN_GPU) : GW_DIFF_RUN_GPU;
    return 1.96 * hypot(a * run, b * run);
}

static int is_real(const struct gw_diff *d, double a, double b, double noise)
{
    return fabs(b - a) > fmax(noise, fmax(SMALL_NS, SMALL_SHARE * fmax(d->a.mean, d->b.mean)));
}

/* ---- tables ---- */

static int by_change(const void *a, const void *b)
{
    const struct gw_diff_row *x = a, *y = b;
    double dx = fabs(x->b - x->a), dy = fabs(y->b - y->a);
    if (dx != dy)
        return dx > dy ? -1 : 1;
    return strcmp(x->id, y->id);
}

static void parts(struct gw_diff *d, const struct gw_diff_options *o, struct gw_arena *arena)
{
    const struct gw_partition *p = &d->a.dev->steady, *q = &d->b.dev->steady;
    struct gw_diff_row *r = gw_arena_calloc(arena, 4, sizeof *r);
    const char *const ids[] = {"compute", "comm", "copies", "idle"};
    const int64_t a[] = {p->compute, p->comm_exposed, p->copy_exposed, p->idle},
                  b[] = {q->compute, q->comm_exposed, q->copy_exposed, q->idle};
    for (size_t i = 0; r && i < 4; i++) {
        r[i] = (struct gw_diff_row){
            .id = ids[i], .a = (double)a[i] / d->a.steps, .b = (double)b[i] / d->b.steps, .na = NAN, .nb = NAN};
        double noise =
            i == 0 || i == 2 ? gpu_noise(r[i].a, r[i].b, o) : step_noise(d); /* collectives wait for other hosts */
        r[i].real = is_real(d, r[i].a, r[i].b, noise);
    }
    d->parts = r;
    d->part_count = r ? 4 : 0;
}

static void causes(struct gw_diff *d, struct gw_arena *arena)
{
    struct gw_diff_row *r = gw_arena_calloc(arena, GW_CAUSE_COUNT, sizeof *r);
    double ns[2][GW_CAUSE_COUNT] = {{0}};
    for (size_t i = 0; i < d->a.dev->cause_count; i++)
        ns[0][d->a.dev->idle_by_cause[i].cause] += (double)d->a.dev->idle_by_cause[i].ns / d->a.steps;
    for (size_t i = 0; i < d->b.dev->cause_count; i++)
        ns[1][d->b.dev->idle_by_cause[i].cause] += (double)d->b.dev->idle_by_cause[i].ns / d->b.steps;
    for (unsigned c = 0; r && c < GW_CAUSE_COUNT; c++)
        if (ns[0][c] > 0 || ns[1][c] > 0)
            r[d->cause_count++] = (struct gw_diff_row){.id = gw_cause_id(c),
                                                       .a = ns[0][c],
                                                       .b = ns[1][c],
                                                       .na = NAN,
                                                       .nb = NAN,
                                                       .real = is_real(d, ns[0][c], ns[1][c], step_noise(d))};
    if (d->cause_count)
        qsort(r, d->cause_count, sizeof *r, by_change);
    d->causes = r;
}

static const struct gw_report_kernel *same_name(const struct gw_report_kernel *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(list[i].name, name))
            return list + i;
    return NULL;
}

struct gw_work { /* one list of kernels or classes of one side */
    const struct gw_report_kernel *list;
    size_t n;
    int cut; /* 1 = shorter ones were left out, each no longer than the last one here */
};

static struct gw_diff_row work_row(const struct gw_diff *d, const struct gw_report_kernel *a,
                                   const struct gw_report_kernel *b, const struct gw_diff_options *o)
{
    const struct gw_report_kernel *k = a ? a : b;
    struct gw_diff_row r = {.id = k->name,
                            .kclass = k->kclass,
                            .a = a ? a->ns : 0,
                            .b = b ? b->ns : 0,
                            .na = a ? a->count : 0,
                            .nb = b ? b->count : 0};
    r.real = is_real(d, r.a, r.b, gpu_noise(r.a, r.b, o));
    return r;
}

/* All rows of both sides. One that the other side may only have cut off is left out. */
static struct gw_diff_row *work(const struct gw_diff *d, struct gw_work a, struct gw_work b,
                                const struct gw_diff_options *o, struct gw_arena *arena, size_t *count)
{
    struct gw_diff_row *r = gw_arena_calloc(arena, a.n + b.n, sizeof *r);
    size_t n = 0;
    for (size_t i = 0; r && i < a.n; i++) {
        const struct gw_report_kernel *k = same_name(b.list, b.n, a.list[i].name);
        if (k || !b.cut || a.list[i].ns > 2 * b.list[b.n - 1].ns)
            r[n++] = work_row(d, a.list + i, k, o);
    }
    for (size_t i = 0; r && i < b.n; i++)
        if (!same_name(a.list, a.n, b.list[i].name) && (!a.cut || b.list[i].ns > 2 * a.list[a.n - 1].ns))
            r[n++] = work_row(d, NULL, b.list + i, o);
    if (n)
        qsort(r, n, sizeof *r, by_change);
    *count = n;
    return r;
}

static void all_work(struct gw_diff *d, const struct gw_diff_options *o, struct gw_arena *arena)
{
    const struct gw_report *a = d->a.rep, *b = d->b.rep;
    d->kernels = work(d, (struct gw_work){a->kernels, a->kernel_count, a->kernel_count >= GW_REPORT_KERNELS},
                      (struct gw_work){b->kernels, b->kernel_count, b->kernel_count >= GW_REPORT_KERNELS}, o, arena,
                      &d->kernel_count);
    d->classes = work(d, (struct gw_work){a->kernel_classes, a->kernel_class_count, 0},
                      (struct gw_work){b->kernel_classes, b->kernel_class_count, 0}, o, arena, &d->class_count);
    d->same_work = d->class_count > 0;
    for (size_t i = 0; i < d->class_count; i++) {
        const struct gw_diff_row *r = d->classes + i;
        d->same_work &=
            fabs(r->nb - r->na) <= SAME_COUNT * fmax(r->na, r->nb) && (!r->real || !strcmp(r->id, "communication"));
    }
}

/* ---- the promise of A's verdict ---- */

static const struct gw_finding *finding_of(const struct gw_report *r, const char *id)
{
    for (size_t i = 0; i < r->finding_count; i++)
        if (!strcmp(r->findings[i].id, id))
            return r->findings + i;
    return NULL;
}

static void promise(struct gw_diff *d)
{
    const struct gw_finding *f = finding_of(d->a.rep, d->a.rep->verdict.finding);
    d->promise.still = 1;
    if (!f || !(f->gain.likely > 1) || !isfinite(d->mean_ratio))
        return;
    const struct gw_finding *still = finding_of(d->b.rep, f->id);
    double actual = 1 / d->mean_ratio;
    d->promise.finding = f;
    d->promise.actual = actual;
    d->promise.still = still && still->gain.likely > 1 ? still->gain.likely : 1;
    /* as much to gain in B as in A, and no faster: nobody removed it */
    int kept = d->promise.still >= GONE && d->promise.still > 1 + 0.7 * (f->gain.likely - 1);
    d->promise.outcome = kept && d->change != GW_DIFF_FASTER ? GW_DIFF_NOT_DONE
                         : actual < f->gain.low              ? GW_DIFF_LESS
                         : actual > f->gain.high             ? GW_DIFF_MORE
                                                             : GW_DIFF_WITHIN;
}

/* ---- one GPU against several ---- */

static void grew(struct gw_diff *d, const struct gw_diff_row *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double more = (list[i].b - list[i].a) * (d->scaling.more_is_b ? 1 : -1);
        if (more > d->scaling.grew_ns) {
            d->scaling.grew_ns = more;
            d->scaling.grew = list[i].id;
        }
    }
}

static void scale(struct gw_diff *d)
{
    d->scaling.grew = "";
    if (d->a.ranks == d->b.ranks || d->why_not)
        return;
    const struct gw_diff_side *few = d->a.ranks < d->b.ranks ? &d->a : &d->b, *many = few == &d->a ? &d->b : &d->a;
    double cf = (double)few->dev->steady.compute / few->steps, cm = (double)many->dev->steady.compute / many->steps;
    if (!(cf > 0) || !(cm > 0))
        return;
    d->scaling.few = few->ranks;
    d->scaling.many = many->ranks;
    d->scaling.more_is_b = many == &d->b;
    d->scaling.work = cm / cf;
    d->scaling.efficiency = (cm / many->mean) / (cf / few->mean);
    grew(d, d->parts + 1, d->part_count > 2 ? 2 : 0); /* comm and copies; idle by its causes */
    grew(d, d->causes, d->cause_count);
}

struct gw_diff *gw_diff_make(const struct gw_report *a, const struct gw_report *b, const struct gw_diff_options *o,
                             struct gw_arena *arena)
{
    const struct gw_diff_options usual = {.run_noise = NAN};
    struct gw_diff *d = gw_arena_alloc(arena, sizeof *d);
    if (!d || look(&d->a, a, arena) < 0 || look(&d->b, b, arena) < 0)
        return NULL;
    o = o ? o : &usual;
    d->ratio = d->low = d->high = d->mean_ratio = NAN;
    if (!d->a.dev || !d->b.dev)
        d->why_not = d->a.dev ? N_("B holds no GPU work") : N_("A holds no GPU work");
    else if (d->a.steps <= 0 || d->b.steps <= 0)
        d->why_not = d->a.steps > 0   ? N_("no steps were found in B")
                     : d->b.steps > 0 ? N_("no steps were found in A")
                                      : N_("no steps were found in either");
    d->other_gpu = d->a.dev && d->b.dev && *d->a.dev->name && *d->b.dev->name && strcmp(d->a.dev->name, d->b.dev->name);
    d->promise.still = 1;
    if (d->why_not) {
        scale(d);
        return d;
    }
    decide(d, o);
    parts(d, o, arena);
    causes(d, arena);
    all_work(d, o, arena);
    promise(d);
    scale(d);
    return d->parts && d->causes && d->kernels && d->classes ? d : NULL;
}
