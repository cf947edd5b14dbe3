/*
 * ncu.h - the importer of Nsight Compute output, for importers.c; and its inside, shared by ncu*.c.
 *
 * Reads what `ncu --csv` prints (pages raw and details, --print-summary too) and the plain text of the details page,
 * from a pipe or a file, also compressed, UTF-8 or UTF-16, with the decimal comma of some locales. The result is not
 * events but gw_trace.kernel_metrics: one row a kernel name (model/kernel_metrics.h).
 *
 *   ncu.c        sniff, read, numbers, launches      ncu_names.def  which metric means what
 *   ncu_lines.c  lines of any encoding               ncu_csv.c, ncu_text.c  the two shapes
 */
#ifndef GW_NCU_H
#define GW_NCU_H

#include "import/importer.h"
#include "model/kernel_metrics.h"

extern const struct gw_importer gw_importer_ncu;

/* A piece of text; not NUL-terminated. */
struct ncu_str {
    const char *s;
    size_t len;
};
static inline struct ncu_str ncu_str(const char *s, size_t len) { return (struct ncu_str){s, len}; }
int ncu_is(struct ncu_str a, const char *b);
struct ncu_str ncu_trim(struct ncu_str a);

#define NCU_COLUMNS 16384 /* a raw page with every metric of a GPU has 3000 */
#define NCU_NAME_MAX 8192

struct ncu_csv {
    int shape;                                                         /* enum in ncu_csv.c */
    int kernel, id, process, grid, block, name, unit, value, launches; /* columns, -1 = not there */
    int columns;
    struct ncu_str *field; /* of the current row */
    char *units;           /* wide shape: unit of each column, 16 bytes each */
    signed char *what;     /* wide shape: enum gw_km of each column, or NCU_DURATION, or -1 */
    int units_due;
};

struct ncu_text {
    size_t name_at, unit_at, value_at; /* columns of the table, from the line of dashes */
    int in_table, rulers;
};

#define NCU_DURATION GW_KM_COUNT

struct ncu {
    struct gw_trace *t;
    const char *path;
    struct gw_error *err;
    struct ncu_csv csv;
    struct ncu_text text;
    struct gw_kernel_sample sample; /* the launch that is being put together */
    char name[NCU_NAME_MAX], key[NCU_NAME_MAX + 64];
    size_t name_len, key_len;
    int open;           /* a launch has begun */
    int voting;         /* first look at the head of the file: only learns how numbers are written */
    int commas, points; /* votes for each as the decimal sign */
    int denied;         /* ncu said that it may not read the counters */
    uint64_t launches, metrics, rows;
};

/* ncu.c */
void ncu_begin(struct ncu *x, struct ncu_str name,
               struct ncu_str key); /* ends the launch before, unless `key` is the same */
int ncu_end(struct ncu *x);
int ncu_what(struct ncu_str metric); /* enum gw_km, NCU_DURATION, or -1 for a metric that is not used */
void ncu_metric(struct ncu *x, int what, struct ncu_str metric, struct ncu_str unit, struct ncu_str value);
void ncu_shape(struct ncu *x, enum gw_km k, struct ncu_str dims); /* "(256, 1, 1)": the product */
int ncu_number(struct ncu_str s, int decimal_comma, double *out); /* 1, or 0 for "n/a" and the like */

/* ncu_csv.c, ncu_text.c: one line. 1 when it was theirs, 0 when not, negative on failure. */
int ncu_csv_line(struct ncu *x, char *line, size_t len);
int ncu_text_line(struct ncu *x, const char *line, size_t len);
void ncu_csv_free(struct ncu *x);

/* ncu_lines.c */
struct gw_stream;
struct ncu_lines {
    char *buf;
    size_t len, cap, at;
    unsigned char half[4]; /* an unfinished UTF-16 unit at the end of a block */
    size_t half_len;
    int encoding; /* 0 not known yet, 8, or 16 little, -16 big */
    int overlong; /* the line that is being read is too long and is skipped */
};
/* Adds bytes of the file; they are converted to UTF-8. 0 or GW_ENOMEM. */
int ncu_lines_feed(struct ncu_lines *l, const char *data, size_t n);
/* The next whole line, without its end, writable and followed by a NUL; NULL when there is none yet. `last`: what is
 * left counts as a line. Valid until the next feed. */
char *ncu_lines_next(struct ncu_lines *l, int last, size_t *len);
void ncu_lines_free(struct ncu_lines *l);

#endif
