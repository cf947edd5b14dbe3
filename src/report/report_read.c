#include "report/report_read.h"

#include <math.h>
#include <string.h>

#include "base/gw_i18n.h"

#ifdef GW_HAVE_JANSSON
#include <jansson.h>
#endif

int gw_report_sniff(const unsigned char *head, size_t len)
{
    static const char key[] = "\"schema\"", value[] = "\"gpuwhy.report/";
    size_t i = 0;
    if (len >= 3 && !memcmp(head, "\xef\xbb\xbf", 3)) /* a byte-order mark that an editor added */
        i = 3;
    while (i < len && strchr(" \t\r\n{", head[i]) && head[i])
        i++;
    if (len - i < sizeof key - 1 || memcmp(head + i, key, sizeof key - 1))
        return 0;
    for (i += sizeof key - 1; i < len && strchr(" \t\r\n:", head[i]) && head[i]; i++)
        ;
    return len - i >= sizeof value - 1 && !memcmp(head + i, value, sizeof value - 1);
}

#ifndef GW_HAVE_JANSSON

int gw_report_read(const char *text, size_t len, const char *path, struct gw_arena *arena, struct gw_report **out,
                   struct gw_error *err)
{
    (void)text, (void)len, (void)arena;
    *out = NULL;
    return gw_error_set(err, GW_ENOTSUP, path, -1, _("give the recording itself, or build with jansson"),
                        _("this gpuwhy was built without the library that reads JSON reports"));
}

#else

#define RANGE (INT64_MAX / 4) /* sums of a few numbers stay in range; 73 years in ns */

struct gw_rd {
    struct gw_arena *arena;
    const char *path;
    struct gw_error *err;
    int rc; /* the first error; later reads do nothing harmful */
};

static void bad(struct gw_rd *rd, const char *key, const char *want)
{
    if (rd->rc == GW_OK)
        rd->rc = gw_error_set(rd->err, GW_EFORMAT, rd->path, -1, _("write the report again with gpuwhy read --json"),
                              _("not a report as gpuwhy writes it: \"%s\" is not %s"), key, want);
}

static void *make(struct gw_rd *rd, size_t n, size_t size)
{
    void *p = gw_arena_calloc(rd->arena, n, size);
    if (!p && rd->rc == GW_OK)
        rd->rc = gw_error_set(rd->err, GW_ENOMEM, rd->path, -1, "", _("out of memory"));
    return p;
}

static const char *word(struct gw_rd *rd, const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v))
        return "";
    if (!json_is_string(v)) {
        bad(rd, key, _("a text"));
        return "";
    }
    const char *s = gw_arena_strdup(rd->arena, json_string_value(v));
    if (!s)
        make(rd, SIZE_MAX, 1); /* sets the error */
    return s ? s : "";
}

/* An integer; -1 for null or a missing key. */
static int64_t whole(struct gw_rd *rd, const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v))
        return -1;
    int64_t n = json_is_integer(v) ? (int64_t)json_integer_value(v) : INT64_MAX;
    if (n > RANGE || n < -RANGE) {
        bad(rd, key, _("a whole number in range"));
        return -1;
    }
    return n;
}

/* A length or a count: not below zero, 0 for null or a missing key. */
static int64_t amount(struct gw_rd *rd, const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    int64_t n = v && !json_is_null(v) ? whole(rd, o, key) : 0;
    if (n < 0)
        bad(rd, key, _("a length"));
    return n < 0 ? 0 : n;
}

static double real(struct gw_rd *rd, const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v))
        return NAN;
    if (!json_is_number(v)) {
        bad(rd, key, _("a number"));
        return NAN;
    }
    return json_number_value(v);
}

/* A time in ns, or a count, a step; NAN for null or a missing key. */
static double a_step(struct gw_rd *rd, const json_t *o, const char *key)
{
    double v = real(rd, o, key);
    if (v < 0 || v > (double)RANGE)
        bad(rd, key, _("a length"));
    return v;
}

static const json_t *list(struct gw_rd *rd, const json_t *o, const char *key, size_t *n)
{
    const json_t *v = json_object_get(o, key);
    *n = 0;
    if (!v || json_is_null(v))
        return NULL;
    if (!json_is_array(v)) {
        bad(rd, key, _("a list"));
        return NULL;
    }
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!json_is_object(json_array_get(v, i))) {
            bad(rd, key, _("a list of objects"));
            return NULL;
        }
    *n = json_array_size(v);
    return v;
}

static const json_t *part(struct gw_rd *rd, const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (v && !json_is_object(v) && !json_is_null(v))
        bad(rd, key, _("an object"));
    return v && json_is_object(v) ? v : NULL;
}

/* ---- the parts of a report, in the order of json.c ---- */

static void source(struct gw_rd *rd, const json_t *root, struct gw_report *r)
{
    const json_t *s = part(rd, root, "source");
    size_t n;
    const json_t *files = list(rd, s, "files", &n);
    struct gw_report_source *out = make(rd, n, sizeof *out);
    for (size_t i = 0; out && i < n; i++) {
        const json_t *f = json_array_get(files, i);
        out[i] = (struct gw_report_source){.path = word(rd, f, "path"),
                                           .format = word(rd, f, "format"),
                                           .bytes = whole(rd, f, "bytes"),
                                           .events = whole(rd, f, "events")};
    }
    r->sources = out;
    r->source_count = n;
    r->ranks = whole(rd, s, "ranks");
    r->world_size = whole(rd, s, "world_size");
    r->framework = word(rd, s, "framework");
    r->profiler = word(rd, s, "profiler");
}

static struct gw_partition partition(struct gw_rd *rd, const json_t *d, const char *key)
{
    const json_t *p = part(rd, d, key);
    return (struct gw_partition){.start = whole(rd, p, "start_ns"),
                                 .end = whole(rd, p, "end_ns"),
                                 .wall = amount(rd, p, "wall_ns"),
                                 .compute = amount(rd, p, "compute_ns"),
                                 .comm_exposed = amount(rd, p, "comm_exposed_ns"),
                                 .copy_exposed = amount(rd, p, "copy_exposed_ns"),
                                 .idle = amount(rd, p, "idle_ns"),
                                 .comm_hidden = amount(rd, p, "comm_hidden_ns"),
                                 .copy_hidden = amount(rd, p, "copy_hidden_ns"),
                                 .ops = (uint64_t)amount(rd, p, "ops")};
}

static enum gw_cause cause_of(const char *id)
{
    for (unsigned c = 0; c < GW_CAUSE_COUNT; c++)
        if (!strcmp(gw_cause_id(c), id))
            return (enum gw_cause)c;
    return GW_CAUSE_UNEXPLAINED; /* of a later version */
}

static const struct gw_cause_total *causes(struct gw_rd *rd, const json_t *d, const char *key, size_t *count)
{
    size_t n;
    const json_t *v = list(rd, d, key, &n);
    struct gw_cause_total *out = make(rd, n, sizeof *out);
    for (size_t i = 0; out && i < n; i++) {
        const json_t *c = json_array_get(v, i);
        out[i] = (struct gw_cause_total){.cause = cause_of(word(rd, c, "cause")),
                                         .ns = amount(rd, c, "ns"),
                                         .gaps = (uint64_t)amount(rd, c, "gaps")};
    }
    *count = out ? n : 0;
    return out;
}

static void devices(struct gw_rd *rd, const json_t *root, struct gw_report *r)
{
    size_t n;
    const json_t *v = list(rd, root, "devices", &n);
    struct gw_report_device *out = make(rd, n, sizeof *out);
    for (size_t i = 0; out && i < n; i++) {
        const json_t *d = json_array_get(v, i);
        if (json_is_true(json_object_get(d, "main")))
            r->main_device = i;
        out[i] = (struct gw_report_device){.id = whole(rd, d, "id"),
                                           .name = word(rd, d, "name"),
                                           .rank = whole(rd, d, "rank"),
                                           .whole = partition(rd, d, "whole"),
                                           .steady = partition(rd, d, "steady")};
        out[i].idle_by_cause = causes(rd, d, "idle_by_cause", &out[i].cause_count);
        out[i].whole_by_cause = causes(rd, d, "whole_idle_by_cause", &out[i].whole_cause_count);
    }
    r->devices = out;
    r->device_count = out ? n : 0;
}

static void steps(struct gw_rd *rd, const json_t *root, struct gw_report *r)
{
    const json_t *s = part(rd, root, "steps"), *times = json_object_get(s, "times_ns");
    r->steps = (struct gw_report_steps){.count = whole(rd, s, "count"),
                                        .steady_count = whole(rd, s, "steady_count"),
                                        .median_ns = whole(rd, s, "median_ns"),
                                        .mean_ns = whole(rd, s, "mean_ns"),
                                        .p95_ns = whole(rd, s, "p95_ns"),
                                        .min_ns = whole(rd, s, "min_ns"),
                                        .found_by = word(rd, s, "found_by"),
                                        .marker = word(rd, s, "marker"),
                                        .tail_share = real(rd, s, "tail_share")};
    size_t n = json_is_array(times) ? json_array_size(times) : 0;
    int64_t *out = make(rd, n, sizeof *out);
    for (size_t i = 0; out && i < n; i++) {
        const json_t *t = json_array_get(times, i);
        if (!json_is_integer(t) || json_integer_value(t) < 0 || json_integer_value(t) > RANGE)
            bad(rd, "times_ns", _("a list of lengths"));
        out[i] = json_is_integer(t) ? (int64_t)json_integer_value(t) : 0;
    }
    r->step_times = out;
    r->step_time_count = out ? n : 0;
}

static const struct gw_evidence *evidence(struct gw_rd *rd, const json_t *f, const char *key, size_t *count)
{
    size_t n;
    const json_t *v = list(rd, f, key, &n);
    struct gw_evidence *out = make(rd, n, sizeof *out);
    for (size_t i = 0; out && i < n; i++) {
        const json_t *e = json_array_get(v, i);
        out[i] = (struct gw_evidence){.text = word(rd, e, "text"),
                                      .value = real(rd, e, "value"),
                                      .unit = word(rd, e, "unit"),
                                      .source = word(rd, e, "source")};
    }
    *count = out ? n : 0;
    return out;
}

static const struct gw_where *places(struct gw_rd *rd, const json_t *f, size_t *count)
{
    size_t n;
    const json_t *v = list(rd, f, "where", &n);
    struct gw_where *out = make(rd, n, sizeof *out);
    for (size_t i = 0; out && i < n; i++) {
        const json_t *w = json_array_get(v, i);
        int64_t line = whole(rd, w, "line");
        out[i] = (struct gw_where){.file = word(rd, w, "file"),
                                   .line = line > 0 ? line : 0,
                                   .text = word(rd, w, "text"),
                                   .share = real(rd, w, "share"),
                                   .count = whole(rd, w, "count")};
    }
    *count = out ? n : 0;
    return out;
}

static const struct gw_fix *fixes(struct gw_rd *rd, const json_t *f, size_t *count)
{
    size_t n;
    const json_t *v = list(rd, f, "fix", &n);
    struct gw_fix *out = make(rd, n, sizeof *out);
    for (size_t i = 0; out && i < n; i++) {
        const json_t *x = json_array_get(v, i);
        out[i] = (struct gw_fix){.doit = word(rd, x, "do"), .check = word(rd, x, "check"), .cost = word(rd, x, "cost")};
    }
    *count = out ? n : 0;
    return out;
}

static enum gw_confidence confidence_of(const char *id)
{
    return !strcmp(id, "high") ? GW_CONF_HIGH : !strcmp(id, "medium") ? GW_CONF_MEDIUM : GW_CONF_LOW;
}

static void finding(struct gw_rd *rd, const json_t *o, struct gw_finding *f)
{
    const json_t *gain = part(rd, o, "gain"), *step = part(rd, o, "step");
    int64_t rank = whole(rd, o, "rank");
    *f = (struct gw_finding){.id = word(rd, o, "id"),
                             .layer = word(rd, o, "layer"),
                             .rank = rank > 0 && rank < 10000 ? (int)rank : 0,
                             .phrase = word(rd, o, "phrase"),
                             .lost_ns = whole(rd, o, "lost_ns"),
                             .share_of_wall = real(rd, o, "share_of_wall"),
                             .share_of_idle = real(rd, o, "share_of_idle"),
                             .confidence = confidence_of(word(rd, o, "confidence")),
                             .gain = {real(rd, gain, "low"), real(rd, gain, "likely"), real(rd, gain, "high")},
                             .now_step_ns = whole(rd, step, "now_ns"),
                             .then_low_ns = whole(rd, step, "then_low_ns"),
                             .then_high_ns = whole(rd, step, "then_high_ns")};
    f->evidence = evidence(rd, o, "evidence", &f->evidence_count);
    f->against = evidence(rd, o, "against", &f->against_count);
    f->where = places(rd, o, &f->where_count);
    f->fix = fixes(rd, o, &f->fix_count);
}

static void findings(struct gw_rd *rd, const json_t *root, struct gw_report *r)
{
    size_t n;
    const json_t *v = list(rd, root, "findings", &n);
    struct gw_finding *out = make(rd, n, sizeof *out);
    for (size_t i = 0; out && i < n; i++)
        finding(rd, json_array_get(v, i), out + i);
    r->findings = out;
    r->finding_count = out ? n : 0;
    v = list(rd, root, "not_evaluated", &n);
    struct gw_not_evaluated *missing = make(rd, n, sizeof *missing);
    for (size_t i = 0; missing && i < n; i++)
        missing[i] = (struct gw_not_evaluated){.id = word(rd, json_array_get(v, i), "id"),
                                               .needs = word(rd, json_array_get(v, i), "needs")};
    r->not_evaluated = missing;
    r->not_evaluated_count = missing ? n : 0;
}

static const struct gw_report_kernel *kernels(struct gw_rd *rd, const json_t *root, const char *key, const char *name,
                                              size_t *count)
{
    size_t n;
    const json_t *v = list(rd, root, key, &n);
    struct gw_report_kernel *out = make(rd, n, sizeof *out);
    for (size_t i = 0; out && i < n; i++) {
        const json_t *k = json_array_get(v, i);
        out[i] = (struct gw_report_kernel){.name = word(rd, k, name),
                                           .kclass = word(rd, k, "class"),
                                           .count = a_step(rd, k, "count_per_step"),
                                           .ns = a_step(rd, k, "ns_per_step")};
        if (isnan(out[i].count) || isnan(out[i].ns))
            bad(rd, key, _("a list of counts and times"));
    }
    *count = out ? n : 0;
    return out;
}

static void metrics(struct gw_rd *rd, const json_t *o, double value[GW_KM_COUNT])
{
    for (unsigned k = 0; k < GW_KM_COUNT; k++) {
        char key[32];
        snprintf(key, sizeof key, "%s", gw_km_id(k));
        for (char *c = strchr(key, '-'); c; c = strchr(c, '-'))
            *c = '_';
        value[k] = real(rd, o, key);
    }
}

/* Not in reports of earlier versions, null where there were none. */
static void counters(struct gw_rd *rd, const json_t *root, struct gw_report *r)
{
    const json_t *o = part(rd, root, "kernel_counters");
    size_t n;
    if (!o)
        return;
    struct gw_report_counters *out = make(rd, 1, sizeof *out);
    const json_t *v = list(rd, o, "kernels", &n);
    struct gw_report_counter *row = make(rd, n, sizeof *row);
    if (!out || !row)
        return;
    *out = (struct gw_report_counters){.names = amount(rd, o, "names"),
                                       .launches = amount(rd, o, "launches"),
                                       .alone = !strcmp(word(rd, o, "weights"), "profiler"),
                                       .covered = real(rd, o, "covered"),
                                       .rows = row,
                                       .count = n};
    metrics(rd, part(rd, o, "mean"), out->mean);
    for (size_t i = 0; i < n; i++) {
        const json_t *k = json_array_get(v, i);
        row[i] = (struct gw_report_counter){.name = word(rd, k, "name"),
                                            .kclass = word(rd, k, "class"),
                                            .match = word(rd, k, "match"),
                                            .limit = word(rd, k, "limit"),
                                            .share = real(rd, k, "share")};
        metrics(rd, k, row[i].value);
    }
    r->counters = out;
}

static void ranks(struct gw_rd *rd, const json_t *root, struct gw_report *r)
{
    size_t n;
    const json_t *v = list(rd, root, "per_rank", &n);
    struct gw_report_rank *out = make(rd, n, sizeof *out);
    for (size_t i = 0; out && i < n; i++) {
        const json_t *k = json_array_get(v, i);
        out[i] = (struct gw_report_rank){.rank = whole(rd, k, "rank"),
                                         .device = whole(rd, k, "device"),
                                         .name = word(rd, k, "name"),
                                         .path = word(rd, k, "path"),
                                         .steps = whole(rd, k, "steps"),
                                         .median_step_ns = whole(rd, k, "median_step_ns"),
                                         .wall = amount(rd, k, "wall_ns"),
                                         .compute = amount(rd, k, "compute_ns"),
                                         .comm_exposed = amount(rd, k, "comm_exposed_ns"),
                                         .copy_exposed = amount(rd, k, "copy_exposed_ns"),
                                         .idle = amount(rd, k, "idle_ns"),
                                         .wait = whole(rd, k, "wait_ns"),
                                         .wait_exposed = whole(rd, k, "wait_exposed_ns"),
                                         .transfer = whole(rd, k, "transfer_ns"),
                                         .last = whole(rd, k, "arrived_last"),
                                         .late = whole(rd, k, "late_ns"),
                                         .cause = word(rd, k, "idle_cause")};
    }
    r->per_rank = out;
    r->rank_count = out ? n : 0;
    v = list(rd, root, "collectives", &n);
    struct gw_report_collective *c = make(rd, n, sizeof *c);
    for (size_t i = 0; c && i < n; i++) {
        const json_t *k = json_array_get(v, i);
        c[i] = (struct gw_report_collective){.kind = word(rd, k, "kind"),
                                             .bytes = whole(rd, k, "bytes"),
                                             .ranks = whole(rd, k, "ranks"),
                                             .count = a_step(rd, k, "count_per_step"),
                                             .transfer_ns = a_step(rd, k, "transfer_ns_per_step"),
                                             .wait_ns = a_step(rd, k, "wait_ns_per_step"),
                                             .bus_bandwidth = real(rd, k, "bus_bandwidth")};
    }
    r->collectives = c;
    r->collective_count = c ? n : 0;
}

static void activity(struct gw_rd *rd, const json_t *root, struct gw_report *r)
{
    size_t n;
    const json_t *v = list(rd, root, "activity", &n);
    struct gw_report_activity *out = make(rd, n, sizeof *out);
    for (size_t i = 0; out && i < n; i++) {
        const json_t *k = json_array_get(v, i), *p = part(rd, k, "pauses"), *w = part(rd, k, "swing");
        const json_t *stands = json_object_get(k, "represents");
        out[i] = (struct gw_report_activity){.device = whole(rd, k, "device"),
                                             .state = word(rd, k, "state"),
                                             .why = word(rd, k, "why"),
                                             .span_ns = amount(rd, k, "span_ns"),
                                             .measured_ns = amount(rd, k, "measured_ns"),
                                             .before_ns = amount(rd, k, "before_ns"),
                                             .after_ns = amount(rd, k, "after_ns"),
                                             .idle = real(rd, k, "idle"),
                                             .window_idle = real(rd, k, "window_idle"),
                                             .represents = json_is_boolean(stands) ? json_is_true(stands) : -1,
                                             .sm = real(rd, k, "sm"),
                                             .dram = real(rd, k, "dram"),
                                             .tensor = real(rd, k, "tensor"),
                                             .pauses = amount(rd, p, "count"),
                                             .pause_ns = amount(rd, p, "ns"),
                                             .longest_ns = amount(rd, p, "longest_ns"),
                                             .longest_at = amount(rd, p, "longest_at_ns"),
                                             .shape = word(rd, w, "shape"),
                                             .period_ns = whole(rd, w, "period_ns"),
                                             .depth = real(rd, w, "depth"),
                                             .duty = real(rd, w, "duty"),
                                             .interval_ns = whole(rd, k, "interval_ns"),
                                             .samples = amount(rd, k, "samples"),
                                             .overflows = amount(rd, k, "overflows")};
    }
    r->activity = out;
    r->activity_count = out ? n : 0;
}

static void trust(struct gw_rd *rd, const json_t *root, struct gw_report *r)
{
    const json_t *t = part(rd, root, "trust"), *notes = json_object_get(t, "notes");
    size_t n;
    const json_t *v = list(rd, t, "losses", &n);
    struct gw_report_loss *out = make(rd, n, sizeof *out);
    for (size_t i = 0; out && i < n; i++) {
        const json_t *l = json_array_get(v, i);
        out[i] = (struct gw_report_loss){.id = word(rd, l, "id"),
                                         .count = (uint64_t)amount(rd, l, "count"),
                                         .first_byte = whole(rd, l, "first_byte"),
                                         .text = word(rd, l, "text")};
    }
    r->trust.complete = json_is_true(json_object_get(t, "complete"));
    r->trust.losses = out;
    r->trust.loss_count = out ? n : 0;
    r->trust.own_overhead = real(rd, t, "own_overhead");
    r->replay_error = real(rd, t, "replay_error");
    r->profiler_slowdown = real(rd, t, "profiler_slowdown");
    n = json_is_array(notes) ? json_array_size(notes) : 0;
    const char **text = make(rd, n, sizeof *text);
    for (size_t i = 0; text && i < n; i++) {
        const char *s = json_string_value(json_array_get(notes, i));
        text[i] = s ? gw_arena_strdup(rd->arena, s) : "";
    }
    r->trust.notes = text;
    r->trust.note_count = text ? n : 0;
}

static void verdict(struct gw_rd *rd, const json_t *root, struct gw_report *r)
{
    const json_t *v = part(rd, root, "verdict");
    if (!v || !json_is_string(json_object_get(v, "finding")))
        bad(rd, "verdict", _("a verdict"));
    r->verdict.finding = word(rd, v, "finding");
    r->verdict.layer = word(rd, v, "layer");
    r->verdict.sentence = word(rd, v, "sentence");
}

int gw_report_read(const char *text, size_t len, const char *path, struct gw_arena *arena, struct gw_report **out,
                   struct gw_error *err)
{
    struct gw_rd rd = {.arena = arena, .path = path, .err = err};
    json_error_t why;
    *out = NULL;
    if (len > GW_REPORT_READ_MAX)
        return gw_error_set(err, GW_EFORMAT, path, -1, "", _("too large for a report"));
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return gw_error_set(err, GW_EFORMAT, path, why.position, _("write the report again with gpuwhy read --json"),
                            _("no valid JSON: %s"), why.text);
    struct gw_report *r = make(&rd, 1, sizeof *r);
    const char *schema = json_string_value(json_object_get(root, "schema"));
    if (!schema || strcmp(schema, "gpuwhy.report/1"))
        bad(&rd, "schema", _("gpuwhy.report/1"));
    if (r && rd.rc == GW_OK) {
        r->arena = arena;
        source(&rd, root, r);
        devices(&rd, root, r);
        steps(&rd, root, r);
        verdict(&rd, root, r);
        findings(&rd, root, r);
        r->kernels = kernels(&rd, root, "kernels", "name", &r->kernel_count);
        r->kernel_classes = kernels(&rd, root, "kernel_classes", "class", &r->kernel_class_count);
        counters(&rd, root, r);
        ranks(&rd, root, r);
        activity(&rd, root, r);
        trust(&rd, root, r);
    }
    json_decref(root);
    *out = rd.rc == GW_OK ? r : NULL;
    return rd.rc;
}

#endif
