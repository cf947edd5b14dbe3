/*
 * sweep_marks.h - when steps happened, from what the job prints, from its data loaders, or from the GPU's rhythm.
 *
 * A series is a list of times, or of values with times when the job prints a rate itself. Memory is capped; a full
 * series takes no more and says so. Readers hand in what they have; nothing here waits. One thread.
 *
 *     struct gw_sweep_output out;                       lines of standard output and error
 *     gw_sweep_output_init(&out, &pattern);
 *     gw_sweep_output_feed(&out, stream, bytes, n, now);     -> out.series, out.tail
 *
 *     struct gw_sweep_files f;                          marks-PID and cuda-PID.gwr in a record's folder
 *     gw_sweep_files_init(&f, folder);
 *     gw_sweep_files_look(&f);                          -> gw_sweep_files_loader(&f, &series), gw_sweep_files_gpu(&f,
 * &series)
 */
#ifndef GW_SWEEP_MARKS_H
#define GW_SWEEP_MARKS_H

#include <regex.h>

#include "sweep/sweep_stats.h"

enum { GW_SWEEP_SERIES = 2000000, GW_SWEEP_TAIL = 4000, GW_SWEEP_LINE = 2000 };

struct gw_sweep_series {
    int64_t *at;   /* ns; ascending */
    double *value; /* NULL unless values are read */
    size_t n, cap;
    int is_full;
};
void gw_sweep_series_add(struct gw_sweep_series *s, int64_t at, double value, int has_value);
void gw_sweep_series_free(struct gw_sweep_series *s);
void gw_sweep_series_rate(const struct gw_sweep_series *s, struct gw_sweep_rate *out);

/* What to look for in the output. */
struct gw_sweep_pattern {
    int is_used;    /* 0: nothing; the output is read for its last words only */
    int is_lines;   /* every line is a step */
    int has_number; /* the first group is a rate */
    regex_t regex;
};
/* 0, or -1 with `why`. An extended regular expression (POSIX). */
int gw_sweep_pattern_compile(struct gw_sweep_pattern *p, const char *text, char *why, size_t cap);

struct gw_sweep_output {
    const struct gw_sweep_pattern *pattern;
    struct gw_sweep_series series;
    struct gw_sweep_line_text {
        char text[GW_SWEEP_LINE];
        size_t len, seen; /* up to `seen` matches were taken already, while the line was growing */
        int is_long;      /* its start was dropped */
    } line[2];            /* standard output, standard error */
    char tail[GW_SWEEP_TAIL];  /* the last words on standard error; of standard output when that is empty */
    char other[GW_SWEEP_TAIL]; /* those on standard output */
};
void gw_sweep_output_init(struct gw_sweep_output *o, const struct gw_sweep_pattern *p);
void gw_sweep_output_feed(struct gw_sweep_output *o, int stream, const char *data, size_t n, int64_t now);
void gw_sweep_output_free(struct gw_sweep_output *o);
/* Why the job failed, in one line, out of its last words. `*is_memory`: it ran out of memory, of the GPU or the host.
 * 1 when the line names an error, 0 when it is only the last. */
int gw_sweep_output_why(const struct gw_sweep_output *o, char *buf, size_t cap, int *is_memory);

struct gw_sweep_files;
/* NULL: out of memory. */
struct gw_sweep_files *gw_sweep_files_open(const char *folder, int want_gpu);
void gw_sweep_files_close(struct gw_sweep_files *f);
/* Reads what is new. */
void gw_sweep_files_look(struct gw_sweep_files *f);
/* The batches of the process that took most; NULL none. Borrowed until the next look. */
const struct gw_sweep_series *gw_sweep_files_loader(const struct gw_sweep_files *f);
/* The steps of the process that launches most kernels, by the repetition of its kernels; NULL none found. `*kernels`:
 * of a step. */
const struct gw_sweep_series *gw_sweep_files_gpu(struct gw_sweep_files *f, double *kernels);
/* Makes the next call look for the rhythm anew. */
void gw_sweep_files_forget(struct gw_sweep_files *f);
/* Kernels seen so far in all processes, and whether recording them has ended early (another profiler, size). */
uint64_t gw_sweep_files_kernels(const struct gw_sweep_files *f);
int gw_sweep_files_gpu_ended(const struct gw_sweep_files *f);

#endif
