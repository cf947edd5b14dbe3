/*
 * run_cases FILE|FOLDER... - runs text cases (text_trace.h): events in, expectations on the report out.
 *
 * One line for each case: "ok NAME" or "FAIL NAME:LINE: expected ..., got ...", the latter with the report beside it.
 * Given a folder, it also checks that every diagnosis of findings.def is covered three times: it fires, it stays silent
 * although the data is there, and it says that the data is missing. Exit 0 when all of that holds.
 */
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine_check.h"
#include "text_trace.h"

struct check {
    const struct gw_analysis *an;
    const struct gw_report *r;
    char got[512]; /* what came, for the message */
};

/* ---- small helpers ---- */

static const struct gw_finding *find(const struct check *c, const char *id)
{
    for (size_t i = 0; i < c->r->finding_count; i++)
        if (!strcmp(c->r->findings[i].id, id))
            return c->r->findings + i;
    return NULL;
}

static const struct gw_not_evaluated *missing(const struct check *c, const char *id)
{
    for (size_t i = 0; i < c->r->not_evaluated_count; i++)
        if (!strcmp(c->r->not_evaluated[i].id, id))
            return c->r->not_evaluated + i;
    return NULL;
}

static int says(struct check *c, const char *text)
{
    snprintf(c->got, sizeof c->got, "%s", text);
    return 0;
}

/* The state of one finding in words; `ok` is returned. */
static int state(struct check *c, const char *id, int ok)
{
    says(c, find(c, id) ? "it is found" : missing(c, id) ? "it is not evaluated" : "it is silent");
    return ok;
}

/* Splits "ID rest": the ID goes to `id`; returns the rest. */
static const char *split(const char *arg, char *id, size_t cap)
{
    size_t n = strcspn(arg, " \t");
    snprintf(id, cap, "%.*s", (int)n, arg);
    return arg + n + strspn(arg + n, " \t");
}

/* "T" or "T..T", in ns */
static int time_in(struct check *c, const char *arg, int64_t v)
{
    int64_t a, b;
    snprintf(c->got, sizeof c->got, "%" PRId64 " ns", v);
    if (text_trace_time(&arg, &a) < 0)
        return says(c, "(the case has no time here)");
    b = a;
    if (!strncmp(arg, "..", 2)) {
        arg += 2;
        if (text_trace_time(&arg, &b) < 0)
            return says(c, "(the case has no second time here)");
    }
    return v >= a && v <= b;
}

/* "x" or "x..y" */
static int number_in(struct check *c, const char *arg, double v)
{
    char *end;
    snprintf(c->got, sizeof c->got, "%.6g", v);
    /* strtod would take the first dot of "1..2" */
    char first[64];
    const char *dots = strstr(arg, "..");
    snprintf(first, sizeof first, "%.*s", dots ? (int)(dots - arg) : 63, arg);
    double a = strtod(first, &end), b = dots ? strtod(dots + 2, NULL) : a;
    if (end == first)
        return says(c, "(the case has no number here)");
    return dots ? v >= a && v <= b : fabs(v - a) <= 1e-9 * fabs(a);
}

static int has(struct check *c, const char *text, const char *part)
{
    says(c, text);
    return strstr(text, part) != NULL;
}

/* ---- findings ---- */

static int on_verdict(struct check *c, const char *a) { return says(c, c->r->verdict.finding), !strcmp(c->got, a); }
static int on_layer(struct check *c, const char *a) { return says(c, c->r->verdict.layer), !strcmp(c->got, a); }
static int on_sentence(struct check *c, const char *a) { return has(c, c->r->verdict.sentence, a); }
static int on_finding(struct check *c, const char *a) { return state(c, a, find(c, a) != NULL); }
static int on_no(struct check *c, const char *a) { return state(c, a, !find(c, a)); }
static int on_silent(struct check *c, const char *a) { return state(c, a, !find(c, a) && !missing(c, a)); }
static int on_missing(struct check *c, const char *a) { return state(c, a, missing(c, a) != NULL); }

static int on_needs(struct check *c, const char *a)
{
    char id[64];
    a = split(a, id, sizeof id);
    return missing(c, id) ? has(c, missing(c, id)->needs, a) : state(c, id, 0);
}

static int on_gain(struct check *c, const char *a)
{
    char id[64];
    a = split(a, id, sizeof id);
    return find(c, id) ? number_in(c, a, find(c, id)->gain.likely) : state(c, id, 0);
}

static int on_gain_low(struct check *c, const char *a)
{
    char id[64];
    a = split(a, id, sizeof id);
    return find(c, id) ? number_in(c, a, find(c, id)->gain.low) : state(c, id, 0);
}

static int on_gain_high(struct check *c, const char *a)
{
    char id[64];
    a = split(a, id, sizeof id);
    return find(c, id) ? number_in(c, a, find(c, id)->gain.high) : state(c, id, 0);
}

static int on_rank(struct check *c, const char *a)
{
    char id[64];
    a = split(a, id, sizeof id);
    return find(c, id) ? number_in(c, a, find(c, id)->rank) : state(c, id, 0);
}

static int on_lost(struct check *c, const char *a)
{
    char id[64];
    a = split(a, id, sizeof id);
    return find(c, id) ? time_in(c, a, find(c, id)->lost_ns) : state(c, id, 0);
}

static int on_confidence(struct check *c, const char *a)
{
    char id[64];
    a = split(a, id, sizeof id);
    return find(c, id) ? (says(c, gw_confidence_id(find(c, id)->confidence)), !strcmp(c->got, a)) : state(c, id, 0);
}

static int on_where(struct check *c, const char *a)
{
    char id[64], text[512];
    a = split(a, id, sizeof id);
    const struct gw_finding *f = find(c, id);
    if (!f)
        return state(c, id, 0);
    says(c, "no place");
    for (size_t i = 0; i < f->where_count; i++) {
        snprintf(text, sizeof text, "%s:%" PRId64 " %s", f->where[i].file, f->where[i].line, f->where[i].text);
        if (has(c, text, a))
            return 1;
    }
    return 0;
}

static int any_text(struct check *c, const struct gw_evidence *e, size_t n, const char *a)
{
    says(c, "nothing");
    for (size_t i = 0; i < n; i++)
        if (has(c, e[i].text, a))
            return 1;
    return 0;
}

static int on_evidence(struct check *c, const char *a)
{
    char id[64];
    a = split(a, id, sizeof id);
    const struct gw_finding *f = find(c, id);
    return f ? any_text(c, f->evidence, f->evidence_count, a) : state(c, id, 0);
}

static int on_against(struct check *c, const char *a)
{
    char id[64];
    a = split(a, id, sizeof id);
    const struct gw_finding *f = find(c, id);
    return f ? any_text(c, f->against, f->against_count, a) : state(c, id, 0);
}

static int on_fix(struct check *c, const char *a)
{
    char id[64];
    a = split(a, id, sizeof id);
    const struct gw_finding *f = find(c, id);
    if (!f)
        return state(c, id, 0);
    for (size_t i = 0; i < f->fix_count; i++)
        if (has(c, f->fix[i].doit, a))
            return 1;
    return 0;
}

/* ---- timeline ---- */

static int64_t cause_of(const struct gw_cause_total *t, size_t n, const char *id)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(gw_cause_id(t[i].cause), id))
            return t[i].ns;
    return 0;
}

static int known_cause(struct check *c, const char *id)
{
    for (unsigned i = 0; i < GW_CAUSE_COUNT; i++)
        if (!strcmp(gw_cause_id(i), id))
            return 1;
    return says(c, "(no such cause)");
}

static int cause_in(struct check *c, const char *a, int whole, size_t dev)
{
    char id[64];
    a = split(a, id, sizeof id);
    if (!known_cause(c, id))
        return 0;
    if (dev >= c->r->device_count)
        return says(c, "no device");
    const struct gw_report_device *d = c->r->devices + dev;
    return time_in(c, a,
                   whole ? cause_of(d->whole_by_cause, d->whole_cause_count, id)
                         : cause_of(d->idle_by_cause, d->cause_count, id));
}

static int on_cause(struct check *c, const char *a) { return cause_in(c, a, 0, c->r->main_device); }
static int on_whole_cause(struct check *c, const char *a) { return cause_in(c, a, 1, c->r->main_device); }

static int part(struct check *c, const char *a, const struct gw_partition *p)
{
    char key[32];
    a = split(a, key, sizeof key);
    const struct {
        const char *key;
        int64_t v;
    } rows[] = {
        {"wall", p->wall}, {"compute", p->compute},         {"comm", p->comm_exposed},       {"copy", p->copy_exposed},
        {"idle", p->idle}, {"comm-hidden", p->comm_hidden}, {"copy-hidden", p->copy_hidden}, {"ops", (int64_t)p->ops}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].key, key))
            return time_in(c, a, rows[i].v);
    return says(c, "(no such part)");
}

/* on device N: whole KEY T, steady KEY T, cause ID T; without "device N" the main device is meant */
static int on_device(struct check *c, const char *a)
{
    char word[64];
    a = split(a, word, sizeof word);
    size_t i = 0;
    while (i < c->r->device_count && c->r->devices[i].id != atoi(word))
        i++;
    if (i == c->r->device_count)
        return says(c, "no such device");
    a = split(a, word, sizeof word);
    if (!strcmp(word, "cause"))
        return cause_in(c, a, 0, i);
    return part(c, a, !strcmp(word, "whole") ? &c->r->devices[i].whole : &c->r->devices[i].steady);
}

static int on_whole(struct check *c, const char *a)
{
    return c->r->device_count ? part(c, a, &c->r->devices[c->r->main_device].whole) : says(c, "no device");
}

static int on_steady(struct check *c, const char *a)
{
    return c->r->device_count ? part(c, a, &c->r->devices[c->r->main_device].steady) : says(c, "no device");
}

static int on_main(struct check *c, const char *a)
{
    return c->r->device_count ? number_in(c, a, (double)c->r->devices[c->r->main_device].id) : says(c, "no device");
}

/* ---- steps, phases, trust ---- */

static int on_steps(struct check *c, const char *a) { return number_in(c, a, (double)c->r->steps.count); }
static int on_steady_steps(struct check *c, const char *a) { return number_in(c, a, (double)c->r->steps.steady_count); }
static int on_median(struct check *c, const char *a) { return time_in(c, a, c->r->steps.median_ns); }
static int on_p95(struct check *c, const char *a) { return time_in(c, a, c->r->steps.p95_ns); }
static int on_found_by(struct check *c, const char *a) { return says(c, c->r->steps.found_by), !strcmp(c->got, a); }
static int on_marker(struct check *c, const char *a) { return has(c, c->r->steps.marker, a); }
static int on_warmup(struct check *c, const char *a) { return number_in(c, a, (double)c->an->steps.warmup); }
static int on_replay_error(struct check *c, const char *a) { return number_in(c, a, c->r->replay_error); }
static int on_complete(struct check *c, const char *a)
{
    return says(c, c->r->trust.complete ? "yes" : "no"), !strcmp(c->got, a);
}

static int on_phase(struct check *c, const char *a)
{
    char id[64];
    a = split(a, id, sizeof id);
    size_t n = 0;
    for (size_t i = 0; i < c->an->nphases; i++)
        n += !strcmp(gw_cause_id(c->an->phases[i].cause), id);
    return known_cause(c, id) ? number_in(c, a, (double)n) : 0;
}

static const struct gw_report_loss *loss(const struct check *c, const char *id)
{
    for (size_t i = 0; i < c->r->trust.loss_count; i++)
        if (!strcmp(c->r->trust.losses[i].id, id))
            return c->r->trust.losses + i;
    return NULL;
}

static int on_loss(struct check *c, const char *a)
{
    char id[64];
    a = split(a, id, sizeof id);
    if (!loss(c, id))
        return says(c, "it is not lost");
    return *a ? number_in(c, a, (double)loss(c, id)->count) : 1;
}

static int on_no_loss(struct check *c, const char *a) { return says(c, "it is lost"), !loss(c, a); }

static int on_note(struct check *c, const char *a)
{
    says(c, "no note");
    for (size_t i = 0; i < c->r->trust.note_count; i++)
        if (has(c, c->r->trust.notes[i], a))
            return 1;
    return 0;
}

/* activity DEVICE KEY VALUE: the GPU over the whole run */
static int on_activity(struct check *c, const char *a)
{
    char word[64];
    a = split(a, word, sizeof word);
    const struct gw_report_activity *r = NULL;
    for (size_t i = 0; i < c->r->activity_count; i++)
        if (c->r->activity[i].device == atoi(word))
            r = &c->r->activity[i];
    if (!r)
        return says(c, "no activity of such a device");
    a = split(a, word, sizeof word);
    const struct {
        const char *key;
        int64_t v;
    } times[] = {{"span", r->span_ns},     {"measured", r->measured_ns}, {"before", r->before_ns}, {"after", r->after_ns},
                 {"pause", r->pause_ns},   {"longest", r->longest_ns},   {"longest-at", r->longest_at}, {"period", r->period_ns}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (!strcmp(times[i].key, word))
            return time_in(c, a, times[i].v);
    const struct {
        const char *key;
        double v;
    } numbers[] = {{"idle", r->idle},     {"window-idle", r->window_idle}, {"represents", r->represents}, {"sm", r->sm},
                   {"dram", r->dram},     {"tensor", r->tensor},           {"pauses", (double)r->pauses}, {"duty", r->duty}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(numbers[i].key, word))
            return number_in(c, a, numbers[i].v);
    if (!strcmp(word, "shape"))
        return says(c, r->shape), !strcmp(r->shape, a);
    return !strcmp(word, "why") ? has(c, r->why, a) : says(c, "(no such key)");
}

static const struct {
    const char *word;
    int (*fn)(struct check *, const char *);
} words[] = {
    {"verdict", on_verdict},
    {"layer", on_layer},
    {"sentence", on_sentence},
    {"finding", on_finding},
    {"no", on_no},
    {"silent", on_silent},
    {"not-evaluated", on_missing},
    {"needs", on_needs},
    {"gain", on_gain},
    {"gain-low", on_gain_low},
    {"gain-high", on_gain_high},
    {"rank", on_rank},
    {"lost", on_lost},
    {"confidence", on_confidence},
    {"where", on_where},
    {"evidence", on_evidence},
    {"against", on_against},
    {"fix", on_fix},
    {"cause", on_cause},
    {"whole-cause", on_whole_cause},
    {"device", on_device},
    {"whole", on_whole},
    {"steady", on_steady},
    {"main", on_main},
    {"steps", on_steps},
    {"steady-steps", on_steady_steps},
    {"step-median", on_median},
    {"step-p95", on_p95},
    {"found-by", on_found_by},
    {"marker", on_marker},
    {"warmup", on_warmup},
    {"phase", on_phase},
    {"loss", on_loss},
    {"no-loss", on_no_loss},
    {"note", on_note},
    {"activity", on_activity},
    {"complete", on_complete},
    {"replay-error", on_replay_error},
};

/* ---- the catalogue's coverage ---- */

enum { FIRES = 1, SILENT = 2, MISSING = 4, ALL = 7 };

static const struct {
    const char *id, *eval;
} catalogue[] = {
#define GW_FINDING(sym, id, layer, signals, eval, title, phrase, needs) {id, #eval},
#include "layers/findings.def"
};
static int covered[sizeof catalogue / sizeof *catalogue];

/* What a diagnosis cannot answer, and why. */
static const struct {
    const char *id;
    int answer;
} never[] = {
    {"too-little-data", MISSING},       /* is itself the answer to missing data */
};

static void note_cover(const char *word, const char *id)
{
    int bit = !strcmp(word, "finding") || !strcmp(word, "verdict") ? FIRES
              : !strcmp(word, "silent")                            ? SILENT
              : !strcmp(word, "not-evaluated")                     ? MISSING
                                                                   : 0;
    for (size_t i = 0; i < sizeof catalogue / sizeof *catalogue; i++)
        if (!strcmp(catalogue[i].id, id))
            covered[i] |= bit;
}

static int check_cover(void)
{
    int bad = 0;
    for (size_t i = 0; i < sizeof catalogue / sizeof *catalogue; i++) {
        for (size_t k = 0; k < sizeof never / sizeof *never; k++)
            covered[i] |= strcmp(never[k].id, catalogue[i].id) ? 0 : never[k].answer;
        if (!strcmp(catalogue[i].eval, "NULL") || covered[i] == ALL)
            continue;
        printf("FAIL coverage: no case in which %s %s%s%s\n", catalogue[i].id, covered[i] & FIRES ? "" : "fires; ",
               covered[i] & SILENT ? "" : "stays silent; ", covered[i] & MISSING ? "" : "is not evaluated");
        bad++;
    }
    return bad;
}

/* ---- running ---- */

static void print_causes(const char *what, const struct gw_partition *p, const struct gw_cause_total *t, size_t n)
{
    printf("    %s: wall %" PRId64 " compute %" PRId64 " comm %" PRId64 " copy %" PRId64 " idle %" PRId64
           " hidden %" PRId64 "/%" PRId64 "\n",
           what, p->wall, p->compute, p->comm_exposed, p->copy_exposed, p->idle, p->comm_hidden, p->copy_hidden);
    for (size_t i = 0; i < n; i++)
        printf("      %12" PRId64 " ns in %4" PRIu64 " gaps  %s\n", t[i].ns, t[i].gaps, gw_cause_id(t[i].cause));
}

static void print_report(const struct check *c)
{
    const struct gw_report *r = c->r;
    printf("    verdict %s: %s\n", r->verdict.finding, r->verdict.sentence);
    printf("    steps %" PRId64 " (%" PRId64 " steady) by %s, median %" PRId64 " ns, replay error %.3f\n",
           r->steps.count, r->steps.steady_count, r->steps.found_by, r->steps.median_ns, r->replay_error);
    for (size_t i = 0; i < r->device_count; i++) {
        printf("    device %" PRId64 "\n", r->devices[i].id);
        print_causes("whole", &r->devices[i].whole, r->devices[i].whole_by_cause, r->devices[i].whole_cause_count);
        print_causes("steady", &r->devices[i].steady, r->devices[i].idle_by_cause, r->devices[i].cause_count);
    }
    for (size_t i = 0; i < r->finding_count; i++) {
        const struct gw_finding *f = r->findings + i;
        printf("    finding %s: lost %" PRId64 " ns (%.3f of wall), gain %.3f %.3f %.3f, %s\n", f->id, f->lost_ns,
               f->share_of_wall, f->gain.low, f->gain.likely, f->gain.high, gw_confidence_id(f->confidence));
        for (size_t k = 0; k < f->evidence_count; k++)
            printf("      because %s\n", f->evidence[k].text);
        for (size_t k = 0; k < f->against_count; k++)
            printf("      against %s\n", f->against[k].text);
        for (size_t k = 0; k < f->where_count; k++)
            printf("      at %s:%" PRId64 " %s (%.3f)\n", f->where[k].file, f->where[k].line, f->where[k].text,
                   f->where[k].share);
    }
    printf("    not evaluated:");
    for (size_t i = 0; i < r->not_evaluated_count; i++)
        printf(" %s", r->not_evaluated[i].id);
    printf("\n    lost:");
    for (size_t i = 0; i < r->trust.loss_count; i++)
        printf(" %s=%" PRIu64, r->trust.losses[i].id, r->trust.losses[i].count);
    printf("\n");
}

static int try_expect(struct check *c, const char *name, const struct text_expect *e)
{
    char word[32];
    const char *arg = split(e->text, word, sizeof word);
    note_cover(word, arg);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i].word, word))
            continue;
        c->got[0] = 0;
        if (words[i].fn(c, arg))
            return 0;
        printf("FAIL %s:%zu: expected %s, got %s\n", name, e->line, e->text, c->got);
        return 1;
    }
    printf("FAIL %s:%zu: unknown expectation %s\n", name, e->line, e->text);
    return 1;
}

/* 0 ok, 1 failed */
static int run_case(const char *path, int verbose)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    struct text_trace tt;
    char why[256];
    int bad = 0;
    struct gw_arena *arena = gw_arena_create(0);
    if (!arena || text_trace_read(path, &tt) < 0) {
        printf("FAIL %s: %s\n", name, arena ? tt.error : "out of memory");
        if (arena)
            text_trace_free(&tt);
        gw_arena_destroy(arena);
        return 1;
    }
    struct check c = {.an = gw_analyse(tt.t, arena)};
    c.r = c.an ? gw_diagnose(c.an, arena) : NULL;
    if (!c.r) {
        printf("FAIL %s: no report\n", name);
        bad = 1;
    } else {
        if (!tt.expects)
            bad = 1, printf("FAIL %s: it expects nothing\n", name);
        if (engine_check(c.an, c.r, why, sizeof why) < 0)
            bad = 1, printf("FAIL %s: %s\n", name, why);
        for (size_t i = 0; i < tt.expects; i++)
            bad |= try_expect(&c, name, tt.expect + i);
        if (bad || verbose)
            print_report(&c);
    }
    if (!bad)
        printf("ok %s\n", name);
    text_trace_free(&tt);
    gw_arena_destroy(arena);
    return bad;
}

static int is_case(const struct dirent *d)
{
    size_t n = strlen(d->d_name);
    return n > 4 && !strcmp(d->d_name + n - 4, ".txt");
}

int main(int argc, char **argv)
{
    int bad = 0, ran = 0, folders = 0, verbose = 0;
    for (int i = 1; i < argc; i++) {
        struct stat st;
        if (!strcmp(argv[i], "-v")) {
            verbose = 1;
        } else if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode)) {
            struct dirent **list;
            int n = scandir(argv[i], &list, is_case, alphasort);
            folders++;
            for (int k = 0; k < n; k++) {
                char path[4096];
                snprintf(path, sizeof path, "%s/%s", argv[i], list[k]->d_name);
                bad += run_case(path, verbose);
                ran++;
                free(list[k]);
            }
            if (n >= 0)
                free(list);
        } else {
            bad += run_case(argv[i], verbose);
            ran++;
        }
    }
    if (folders)
        bad += check_cover();
    printf("%d cases, %d failures\n", ran, bad);
    return bad || !ran;
}
