/*
 * sweep_report.h - what a sweep found, for people and for programs. docs/sweep.md is the contract of the JSON.
 *
 *     struct gw_sweep_result r = {.sweep = &s, .unit = GW_SWEEP_STEPS, ...};
 *     gw_sweep_judge(&s, &r.verdict);
 *     gw_render_sweep_terminal(&r, stdout, &options);
 *
 * The result borrows everything. What is not known is NAN, NULL or "".
 */
#ifndef GW_SWEEP_REPORT_H
#define GW_SWEEP_REPORT_H

#include "report/renderer.h"
#include "sweep/sweep.h"

enum gw_sweep_unit {
    GW_SWEEP_STEPS,
    GW_SWEEP_SAMPLES,
    GW_SWEEP_BATCHES,
    GW_SWEEP_LINES,
    GW_SWEEP_MATCHES,
    GW_SWEEP_VALUES_READ,
    GW_SWEEP_UNITS
};
const char *gw_sweep_unit_id(unsigned u);   /* "steps", "samples", ... */
const char *gw_sweep_unit_text(unsigned u); /* "steps/s", ...; untranslated */

enum gw_sweep_found_by { GW_SWEEP_FOUND_NOT, GW_SWEEP_FOUND_GPU, GW_SWEEP_FOUND_LOADER, GW_SWEEP_FOUND_OUTPUT };

enum gw_sweep_stop { GW_SWEEP_DONE, GW_SWEEP_BUDGET_SPENT, GW_SWEEP_INTERRUPTED };

struct gw_sweep_result {
    const struct gw_sweep *sweep;
    struct gw_sweep_verdict verdict;
    const char *command; /* as the user gave it */
    enum gw_sweep_unit unit;
    enum gw_sweep_found_by found_by;
    enum gw_sweep_stop stop;
    double seconds;              /* wall time of this call */
    size_t resumed;              /* runs that came from the file of --resume */
    int cpus;                    /* that the job may use; 0 unknown */
    int by_hook[GW_SWEEP_KNOBS]; /* 1: the knob was set in the job's DataLoaders from outside */
    int loaders_changed;         /* loaders that took the settings, in the last run */
    int is_parts;                /* --loader-only: the points are the loader alone, the model alone, the whole job */
    const char *alone_dataset;   /* of the loader that ran alone; "" unknown */
    double alone_batch;
    struct { /* of a record of the job at the knee; NULL: there is none */
        const char *finding, *layer, *sentence;
    } next;
};

/* 0, or GW_EIO when the stream failed. */
int gw_render_sweep_terminal(const struct gw_sweep_result *r, FILE *out, const struct gw_render_options *o);
int gw_render_sweep_json(const struct gw_sweep_result *r, FILE *out); /* schema gpuwhy.sweep/1 */

/* --- sweep_words.c: sentences that every renderer needs. Texts are translated; `buf` is returned. --- */

/* The setting of a point: "workers=4", "workers=4 prefetch=2". */
const char *gw_sweep_setting(const struct gw_sweep *s, size_t point, char *buf, size_t cap);
/* "41.2 steps/s". */
const char *gw_sweep_rate_text(const struct gw_sweep_result *r, double rate, char *buf, size_t cap);
/* The answer, one to three sentences. */
const char *gw_sweep_answer(const struct gw_sweep_result *r, char *buf, size_t cap);
/* Why a point has no rate: "out of memory: CUDA out of memory. Tried to ..."; "" when it has one or was not reached. */
const char *gw_sweep_why_not(const struct gw_sweep_result *r, size_t point, char *buf, size_t cap);
/* Remark number `i` about memory, scaling, drift, noise, what was set from outside, ...; NULL past the last. */
const char *gw_sweep_remark(const struct gw_sweep_result *r, size_t i, char *buf, size_t cap);

#endif
