/* cmd_sweep.c - `gpuwhy sweep --vary NAME=VALUES [--] COMMAND...`: measures a job at several settings and finds the
 * knee. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/run_find.h"
#include "cli/sweep_main.h"
#include "cli/times.h"

#define SEC 1000000000ll
/* A start with the import of a framework takes 5 to 20 s; half a minute of steps gives 2 % for all but the slowest
 * jobs. */
#define POINT_LIMIT (60 * SEC)
#define LEAST_TIME (3 * SEC)

enum {
    KEY_VARY = 0x2000,
    KEY_ENV,
    KEY_METRIC,
    KEY_LOADER,
    KEY_LOADER_ONLY,
    KEY_REPEATS,
    KEY_PRECISION,
    KEY_LEAST,
    KEY_POINT_LIMIT,
    KEY_BUDGET,
    KEY_EXHAUSTIVE,
    KEY_RESUME,
    KEY_NO_DIAGNOSIS,
    KEY_NO_GPU
};

static const struct argp_option options[] = {
    {NULL, 0, NULL, 0, N_("What is varied:"), 1},
    {"vary", KEY_VARY, N_("NAME=VALUES"), 0,
     N_("a setting and its values: workers=0,2,4,8 or batch=32..1024x2 or lr=1..9+2; {NAME} in COMMAND or --env "
        "becomes the value; may be given twice"),
     1},
    {"env", KEY_ENV, N_("NAME=VALUE"), 0,
     N_("a variable of the job's environment; {NAME} of a varied setting becomes its value"), 1},
    {"loader", KEY_LOADER, N_("LIST"), 0,
     N_("put settings into the PyTorch DataLoaders of an unmodified script: one or two of "
        "workers,prefetch,pin,persistent; values from --vary, or usual ones"),
     1},
    {"loader-only", KEY_LOADER_ONLY, NULL, 0,
     N_("vary nothing: time the loader alone, the model alone, and the whole job"), 1},
    {NULL, 0, NULL, 0, N_("What is measured:"), 2},
    {"metric", KEY_METRIC, N_("METRIC"), 0,
     N_("steps (found by the GPU's own rhythm), samples (steps times the batch that is varied), batches (that the "
        "DataLoader gives), lines (of output), auto, or a regular "
        "expression for the job's output: its first group is a rate, without a group each match is a step (default: "
        "auto)"),
     2},
    {"precision", KEY_PRECISION, N_("PERCENT"), 0, N_("a run ends when its rate is known this well (default: 2)"), 2},
    {"least", KEY_LEAST, N_("TIME"), 0, N_("least time that a run is measured after its warm-up (default: 3s)"), 2},
    {"point-limit", KEY_POINT_LIMIT, N_("TIME"), 0, N_("longest time of a run, its start included (default: 60s)"), 2},
    {"repeats", KEY_REPEATS, N_("N"), 0, N_("runs of the points that decide (default: 2)"), 2},
    {"exhaustive", KEY_EXHAUSTIVE, NULL, 0, N_("run every point, that often"), 2},
    {"budget", KEY_BUDGET, N_("TIME"), 0, N_("time for all of it, such as 5m; what is known then is reported"), 2},
    {"resume", KEY_RESUME, N_("FILE"), 0, N_("keep each run in FILE, and go on from it"), 2},
    {"no-diagnosis", KEY_NO_DIAGNOSIS, NULL, 0, N_("do not record the job at the knee to see what limits it there"), 2},
    {"no-gpu-records", KEY_NO_GPU, NULL, 0, N_("load nothing into the job: no steps by the GPU's rhythm"), 2},
    {NULL, 0, NULL, 0, NULL, 0}};

struct args {
    struct gw_sweep_options o;
    const char *vary[GW_SWEEP_KNOBS], *loader;
    size_t varied;
};

/* --- settings --- */

static const struct {
    const char *name, *values;
} loader_settings[GW_SWEEP_LOADER_COUNT] = {{"workers", NULL}, /* up to the CPUs */
                                            {"prefetch", "prefetch=1,2,4,8"},
                                            {"pin", "pin=0,1"},
                                            {"persistent", "persistent=0,1"}};

/* 0 and doubled numbers up to the CPUs that the job may use. */
static void usual_workers(char *buf, size_t cap)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int n = snprintf(buf, cap, "workers=0,1,2,4");
    for (long w = 8; w <= cpus && w <= 64; w *= 2)
        n += snprintf(buf + n, cap - (size_t)n, ",%ld", w);
}

static int find_knob(const struct gw_sweep *s, const char *name)
{
    for (size_t k = 0; k < s->knobs; k++)
        if (strcmp(s->knob[k].name, name) == 0)
            return (int)k;
    return -1;
}

static void add_knob(struct argp_state *state, struct gw_sweep_options *o, const char *spec)
{
    char why[128];
    if (o->sweep.knobs == GW_SWEEP_KNOBS)
        gw_cli_usage(state, _("at most two settings can be varied at a time"));
    if (gw_sweep_knob_parse(&o->sweep.knob[o->sweep.knobs], spec, why, sizeof why) != 0)
        gw_cli_usage(state, "--vary=%s: %s", spec, why);
    if (find_knob(&o->sweep, o->sweep.knob[o->sweep.knobs].name) >= 0)
        gw_cli_usage(state, _("--vary=%s: this setting is varied already"), spec);
    o->job.loader_setting[o->sweep.knobs++] = -1;
}

static void check_loader_values(struct argp_state *state, const struct gw_sweep_knob *k, int setting)
{
    for (size_t i = 0; i < k->n; i++) {
        double v = k->number[i];
        if (!k->is_number || v < 0 || v != floor(v) || (setting >= GW_SWEEP_PIN && v > 1) ||
            (setting == GW_SWEEP_PREFETCH && v < 1))
            gw_cli_usage(state,
                         setting >= GW_SWEEP_PIN ? _("%s=%s: this setting of a DataLoader is 0 or 1")
                                                 : _("%s=%s: this setting of a DataLoader is a whole number"),
                         k->name, k->value[i]);
    }
}

static void apply_loader(struct argp_state *state, struct args *a)
{
    char usual[200], hook[4096];
    for (const char *p = a->loader; p && *p;) {
        size_t n = strcspn(p, ",");
        int i = 0;
        while (i < GW_SWEEP_LOADER_COUNT &&
               (strlen(loader_settings[i].name) != n || strncmp(p, loader_settings[i].name, n) != 0))
            i++;
        if (i == GW_SWEEP_LOADER_COUNT)
            gw_cli_usage(state, _("--loader=%s: name one or two of workers,prefetch,pin,persistent"), a->loader);
        int k = find_knob(&a->o.sweep, loader_settings[i].name);
        if (k < 0) {
            usual_workers(usual, sizeof usual);
            add_knob(state, &a->o, loader_settings[i].values ? loader_settings[i].values : usual);
            k = (int)a->o.sweep.knobs - 1;
        }
        check_loader_values(state, &a->o.sweep.knob[k], i);
        a->o.job.loader_setting[k] = i;
        p += n + (p[n] == ',');
    }
    if ((a->loader || a->o.is_parts) && gw_run_find_hook(hook, sizeof hook) != 0)
        gw_cli_usage(
            state,
            _("the settings hook is not beside gpuwhy (python/gpuwhy_hook); install it, or use {NAME} in the command"));
}

/* Every knob must go somewhere. */
static void check_places(struct argp_state *state, const struct gw_sweep_options *o)
{
    for (size_t k = 0; k < o->sweep.knobs; k++) {
        const char *name = o->sweep.knob[k].name;
        int has = o->job.loader_setting[k] >= 0 || o->is_parts;
        for (size_t i = 0; o->job.command[i] && !has; i++)
            has = gw_sweep_has_place(o->job.command[i], name);
        for (size_t i = 0; i < o->job.envs && !has; i++)
            has = gw_sweep_has_place(o->job.env[i], name);
        if (!has)
            gw_cli_usage(
                state,
                _("no {%s} in the command: write it where the value goes, as in --%s {%s}, or use --env or --loader"),
                name, name, name);
    }
}

/* --- the metric --- */

static void set_metric(struct argp_state *state, struct gw_sweep_options *o)
{
    static const struct {
        const char *name;
        enum gw_sweep_source source;
        enum gw_sweep_unit unit;
    } known[] = {{"auto", GW_SWEEP_BY_AUTO, GW_SWEEP_STEPS},
                 {"steps", GW_SWEEP_BY_AUTO, GW_SWEEP_STEPS},
                 {"samples", GW_SWEEP_BY_AUTO, GW_SWEEP_SAMPLES},
                 {"batches", GW_SWEEP_BY_LOADER, GW_SWEEP_BATCHES},
                 {"lines", GW_SWEEP_BY_OUTPUT, GW_SWEEP_LINES}};
    char why[200];
    size_t i = 0, batch = GW_SWEEP_KNOBS;
    while (i < sizeof known / sizeof *known && strcmp(known[i].name, o->metric) != 0)
        i++;
    if (i < sizeof known / sizeof *known) {
        o->job.source = known[i].source;
        o->unit = known[i].unit;
        o->job.pattern.is_lines = o->job.pattern.is_used = o->unit == GW_SWEEP_LINES;
    } else {
        if (!*o->metric || gw_sweep_pattern_compile(&o->job.pattern, o->metric, why, sizeof why) != 0)
            gw_cli_usage(
                state, _("--metric=%s is neither steps, samples, batches, lines or auto nor a regular expression: %s"),
                o->metric, *o->metric ? why : _("it is empty"));
        o->job.source = GW_SWEEP_BY_OUTPUT;
        o->unit = o->job.pattern.has_number ? GW_SWEEP_VALUES_READ : GW_SWEEP_MATCHES;
    }
    for (size_t k = 0; k < o->sweep.knobs; k++)
        if (o->sweep.knob[k].is_batch)
            batch = k;
    if (o->unit == GW_SWEEP_SAMPLES && batch == GW_SWEEP_KNOBS)
        gw_cli_usage(state, _("--metric=samples needs a varied setting that is named batch; else give a regular "
                              "expression for the rate that the job prints"));
    if (batch < GW_SWEEP_KNOBS && !o->job.pattern.has_number) { /* steps of different sizes cannot be compared */
        o->job.is_samples = 1;
        o->job.batch_knob = batch;
        o->unit = GW_SWEEP_SAMPLES;
    }
    if (o->is_parts && o->job.source == GW_SWEEP_BY_OUTPUT)
        gw_cli_usage(state, _("--loader-only counts the batches of the DataLoader; leave --metric out"));
    if (o->is_parts)
        o->job.source = GW_SWEEP_BY_LOADER;
}

/* --- options --- */

static int64_t a_time(struct argp_state *state, const char *option, const char *arg)
{
    int64_t ns = gw_cli_whole_time(arg);
    if (ns <= 0)
        gw_cli_usage(state, _("--%s=%s is no time; write it like 30s or 5m"), option, arg);
    return ns;
}

/* FNV-1a, over the 0 at the end too. */
static uint64_t hashed(uint64_t h, const char *text)
{
    do
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    while (*text++);
    return h;
}

/* The words are for people: long ones are cut. The number tells two plans apart. */
static void write_plan(struct gw_sweep_options *o)
{
    uint64_t h = 0xcbf29ce484222325u;
    h = hashed(h, o->metric);
    for (size_t i = 0; o->job.command[i]; i++)
        h = hashed(h, o->job.command[i]);
    for (size_t i = 0; i < o->job.envs; i++)
        h = hashed(h, o->job.env[i]);
    size_t n = 0, m = 0;
    for (size_t i = 0; o->job.command[i]; i++)
        m += (size_t)snprintf(o->command + m, m < sizeof o->command ? sizeof o->command - m : 0, "%s%s", i ? " " : "",
                              o->job.command[i]);
    n = (size_t)snprintf(o->plan, sizeof o->plan, "metric=%.200s parts=%d hash=%016" PRIx64 " loader=%d,%d knobs=%s,%s env=", o->metric,
                         o->is_parts, h, o->job.loader_setting[0], o->job.loader_setting[1], o->sweep.knob[0].name,
                         o->sweep.knobs > 1 ? o->sweep.knob[1].name : "");
    for (size_t i = 0; i < o->job.envs && n < sizeof o->plan; i++)
        n += (size_t)snprintf(o->plan + n, sizeof o->plan - n, "%s;", o->job.env[i]);
    if (n < sizeof o->plan)
        snprintf(o->plan + n, sizeof o->plan - n, " command=%s", o->command);
    for (char *p = o->plan; *p; p++)
        if ((unsigned char)*p < ' ')
            *p = ' ';
}

static void complete(struct argp_state *state, struct args *a)
{
    struct gw_sweep_options *o = &a->o;
    o->job.loader_setting[0] = o->job.loader_setting[1] = -1;
    for (size_t i = 0; i < a->varied; i++)
        add_knob(state, o, a->vary[i]);
    if (o->is_parts && (a->varied || a->loader))
        gw_cli_usage(state,
                     _("--loader-only varies nothing: leave --vary and --loader out, or sweep without --loader-only"));
    if (o->is_parts && o->resume)
        gw_cli_usage(state, _("--loader-only is done in a minute or two: leave --resume out"));
    if (o->is_parts)
        add_knob(state, o, "part=loader,model,whole");
    o->job.counts_samples = o->is_parts;
    apply_loader(state, a);
    if (!o->sweep.knobs)
        gw_cli_usage(state,
                     _("nothing to vary: give --vary, such as --vary workers=0,2,4,8, or --loader or --loader-only"));
    size_t points = o->sweep.knob[0].n * (o->sweep.knobs > 1 ? o->sweep.knob[1].n : 1);
    if (points < 2 || points > 1024)
        gw_cli_usage(state, _("%zu points: give a list of 2 to 1024"), points);
    check_places(state, o);
    set_metric(state, o);
    if (o->job.least_ns >= o->job.limit_ns)
        gw_cli_usage(state, _("--least must be shorter than --point-limit"));
    o->job.env = o->envs;
    write_plan(o);
}

static void set_env(struct argp_state *state, struct gw_sweep_options *o, const char *arg)
{
    const char *eq = strchr(arg, '=');
    if (!eq || eq == arg)
        gw_cli_usage(state, _("--env=%s: write it as NAME=VALUE"), arg);
    if (o->job.envs == GW_SWEEP_ENVS)
        gw_cli_usage(state, _("--env may be given %d times"), GW_SWEEP_ENVS);
    o->envs[o->job.envs++] = arg;
    o->job.env = o->envs;
}

static double a_number(struct argp_state *state, const char *option, const char *arg, double low, double high)
{
    char *end;
    double v = strtod(arg, &end);
    if (end == arg || (*end && strcmp(end, "%") != 0) || !(v >= low && v <= high))
        gw_cli_usage(state, _("--%s=%s is no number from %g to %g"), option, arg, low, high);
    return v;
}

static error_t parse_command(int key, struct argp_state *state, struct args *a)
{
    switch (key) {
    case ARGP_KEY_ARG: return ARGP_ERR_UNKNOWN; /* the command comes in ARGP_KEY_ARGS */
    case ARGP_KEY_ARGS: a->o.job.command = state->argv + state->next; return 0;
    case ARGP_KEY_NO_ARGS: gw_cli_usage(state, _("no COMMAND given")); return 0;
    case ARGP_KEY_END:
        if (a->o.job.command)
            complete(state, a);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    struct gw_sweep_options *o = &a->o;
    switch (key) {
    case ARGP_KEY_INIT: gw_cli_child_output(state, &o->cli); return 0;
    case KEY_VARY:
        if (a->varied == GW_SWEEP_KNOBS)
            gw_cli_usage(state, _("at most two settings can be varied at a time"));
        a->vary[a->varied++] = arg;
        return 0;
    case KEY_ENV: set_env(state, o, arg); return 0;
    case KEY_METRIC: o->metric = arg; return 0;
    case KEY_LOADER: a->loader = arg; return 0;
    case KEY_LOADER_ONLY: o->is_parts = 1; return 0;
    case KEY_REPEATS: o->sweep.repeats = (int)a_number(state, "repeats", arg, 1, 20); return 0;
    case KEY_PRECISION: o->sweep.precision = a_number(state, "precision", arg, 0.1, 50) / 100; return 0;
    case KEY_LEAST: o->job.least_ns = a_time(state, "least", arg); return 0;
    case KEY_POINT_LIMIT: o->job.limit_ns = a_time(state, "point-limit", arg); return 0;
    case KEY_BUDGET: o->budget_ns = a_time(state, "budget", arg); return 0;
    case KEY_EXHAUSTIVE: o->sweep.exhaustive = 1; return 0;
    case KEY_RESUME:
        if (!*arg)
            gw_cli_usage(state, _("--resume needs a file"));
        o->resume = arg;
        return 0;
    case KEY_NO_DIAGNOSIS: o->no_diagnosis = 1; return 0;
    case KEY_NO_GPU: o->job.no_gpu = 1; return 0;
    default: return parse_command(key, state, a);
    }
}

static const struct argp_child children[] = {{&gw_argp_output, 0, NULL, 0}, {NULL, 0, NULL, 0}};

const struct argp gw_argp_sweep = {
    options,
    parse,
    N_("[--] COMMAND [ARG...]"),
    N_("Runs COMMAND at several values of a setting, measures its rate at each, and finds the knee: the smallest value "
       "beyond which more "
       "brings nothing. Not every value is tried; a run ends when its rate is known, and one that fails is a result.\v"
       "Examples:\n"
       "  gpuwhy sweep --vary workers=0,2,4,8,16 -- python train.py --workers {workers}\n"
       "  gpuwhy sweep --vary batch=32..1024x2 -- python train.py --batch {batch}\n"
       "  gpuwhy sweep --loader workers -- python train.py\n"
       "  gpuwhy sweep --loader-only -- python train.py\n"
       "  gpuwhy sweep --vary t=1..8 --env OMP_NUM_THREADS={t} --metric '([0-9.]+) it/s' -- ./job"),
    children,
    NULL,
    NULL};

int gw_cmd_sweep(int argc, char **argv)
{
    struct args *a = calloc(1, sizeof *a);
    if (!a)
        return gw_cli_no_memory("sweep");
    a->o.metric = "auto";
    a->o.sweep.repeats = 2;
    a->o.sweep.precision = 0.02;
    a->o.job.limit_ns = POINT_LIMIT;
    a->o.job.least_ns = LEAST_TIME;
    a->o.job.alone_batch = NAN;
    gw_cli_parse_as(&gw_argp_sweep, argc, argv, ARGP_IN_ORDER, a);
    int status = gw_sweep_main(&a->o);
    if (a->o.job.pattern.is_used && !a->o.job.pattern.is_lines)
        regfree(&a->o.job.pattern.regex);
    free(a);
    return status;
}
