/*
 * capture.h - saved output of the usual tools, read into a gw_env: for machines that one cannot log in to.
 *
 * A file may hold several captures, one after the other, with anything between them; each is recognised by its
 * content. Text may be UTF-8 or UTF-16, with ANSI colours, with CR LF. gzip is read as it is. Memory is bounded
 * (64 MB a file). What cannot be used is named in a note, the rest is kept.
 *
 *     int rc = gw_capture_read(env, "node7/", &err);
 *
 * A new format is one row of `formats` in capture.c and two functions: does it begin here, and read it.
 */
#ifndef GW_CAPTURE_H
#define GW_CAPTURE_H

#include <stdio.h>

#include "collect/env.h"

/* A piece of text, not NUL-terminated. */
struct gw_slice {
    const char *p;
    size_t n;
};

/* Reads a file, or the files of one folder. A file of another machine than those read before is left out, with a note.
 * 0, or a negative code with `err` filled when nothing could be used. */
int gw_capture_read(struct gw_env *env, const char *path, struct gw_error *err);
/* The same for bytes in memory; `name` is only shown. Returns the number of facts found, or a negative code. */
int64_t gw_capture_parse(struct gw_env *env, const char *name, const char *data, size_t len, struct gw_error *err);

struct gw_capture_format {
    const char *name; /* "nvidia-smi -q" */
    /* 1 when a capture of this format begins at the first line of `rest`. */
    int (*begins)(struct gw_slice rest);
    /* Reads it from the start of `rest`. Returns the number of facts; `*used` is how many bytes belonged to it. */
    int64_t (*read)(struct gw_env *env, struct gw_slice rest, size_t *used);
};
extern const struct gw_capture_format gw_capture_formats[]; /* ends with a row whose name is NULL */

/* --- for the readers --------------------------------------------------------------------------------------- */

/* Takes the next line (without its end) off `rest`. 0 at the end, with an empty line. */
int gw_slice_line(struct gw_slice *rest, struct gw_slice *line);
/* Takes the next blank-separated word off `rest`. 0 at the end. */
int gw_slice_word(struct gw_slice *rest, struct gw_slice *word);
/* Takes the text up to `sep` (or the end) off `rest`, and the separator. 0 at the end. */
int gw_slice_split(struct gw_slice *rest, char sep, struct gw_slice *part);
struct gw_slice gw_slice_trim(struct gw_slice t);
int gw_slice_is(struct gw_slice t, const char *s);
int gw_slice_starts(struct gw_slice t, const char *s);
int gw_slice_has(struct gw_slice t, const char *s);          /* anywhere */
const char *gw_slice_find(struct gw_slice t, const char *s); /* or NULL */
int gw_slice_number(struct gw_slice t, int64_t *out);        /* all of it is a number; 0 or -1 */
int gw_slice_decimal(struct gw_slice t, double *out);        /* the same, with a point */
/* "Key : value" or "Key: value": 1 when the line has a colon. */
int gw_slice_pair(struct gw_slice line, struct gw_slice *key, struct gw_slice *value);
/* "12.4" or "12.4.131" as 12040; -1 when it is none. */
int64_t gw_slice_cuda_version(struct gw_slice t);
/* "Wed Jul 31 11:22:39 2024" and "2026/12/01 06:43:04.549" as ns since 1970 without a time zone; GW_ENV_NONE. */
int64_t gw_slice_time(struct gw_slice t);
/* UTF-16 and UTF-8 marks, ANSI sequences, NUL and CR removed. Caller frees. NULL when out of memory. */
char *gw_slice_decode(const char *data, size_t len, size_t *out_len);

/* One GPU's block of a capture: which alternative of a metric's names has set it so far. */
struct gw_smi_block {
    struct gw_gpu *gpu;
    unsigned char best[GW_GPU_COUNT]; /* alternative + 1; 0 = not set in this block */
    int64_t facts;
};
/* Begins a block: forgets what changes from moment to moment. */
void gw_smi_begin(struct gw_smi_block *b, struct gw_gpu *g);
enum gw_smi_names { GW_SMI_Q, GW_SMI_XML, GW_SMI_CSV };
/* The metric of a name, or -1; `alt` is its place among the names. Then its value. */
int gw_smi_metric(enum gw_smi_names names, const char *name, size_t len, int *alt);
void gw_smi_set(struct gw_smi_block *b, int metric, int alt, struct gw_slice value);
/* Gives one named value to the block, both in one. 1 when the name is one of a metric's. */
int gw_smi_value(struct gw_smi_block *b, enum gw_smi_names names, const char *name, size_t name_len,
                 struct gw_slice value);
/* A clock event reason by its word in -q ("HW Slowdown") or in XML and CSV ("hw_slowdown"). 1 when it is known. */
int gw_smi_reason(struct gw_smi_block *b, enum gw_smi_names names, struct gw_slice word, struct gw_slice value);
/* Driver and CUDA version, with a note when two captures disagree: they are of different machines, or times. */
void gw_smi_driver(struct gw_env *env, struct gw_slice version);
void gw_smi_cuda(struct gw_env *env, struct gw_slice version);
/* Finds or adds the process, so that captures that repeat themselves do not count twice. */
struct gw_env_proc *gw_smi_process(struct gw_env *env, const struct gw_gpu *g, int64_t pid);
/* The same for a MIG instance, by GPU and instance id. */
void gw_smi_mig(struct gw_env *env, const struct gw_env_mig *mig);
struct gw_env_pair *gw_env_find_pair(struct gw_env *env, int64_t gpu, int64_t peer_gpu, const char *peer_nic);

/* Everything that is known as text lines, which gw_capture_parse() reads. Write errors are kept by stdio. */
void gw_env_write(const struct gw_env *env, FILE *f);
/* Writes them to one gzip file, which gw_capture_read() reads. 0 or GW_EIO with `err` filled. */
int gw_env_save(const struct gw_env *env, const char *path, struct gw_error *err);

#define GW_CAPTURE_READER(name)                   \
    int gw_##name##_begins(struct gw_slice rest); \
    int64_t gw_##name##_read(struct gw_env *env, struct gw_slice rest, size_t *used)
GW_CAPTURE_READER(smi_query); /* nvidia-smi -q */
GW_CAPTURE_READER(smi_xml);   /* nvidia-smi -q -x */
GW_CAPTURE_READER(smi_table); /* nvidia-smi */
GW_CAPTURE_READER(smi_csv);   /* nvidia-smi --query-gpu=... --format=csv, and --query-compute-apps */
GW_CAPTURE_READER(smi_dmon);  /* nvidia-smi dmon */
GW_CAPTURE_READER(smi_pmon);  /* nvidia-smi pmon */
GW_CAPTURE_READER(smi_topo);  /* nvidia-smi topo -m, topo -p2p r */
GW_CAPTURE_READER(smi_list);  /* nvidia-smi -L, nvlink -s */
GW_CAPTURE_READER(os_lscpu);
GW_CAPTURE_READER(os_free);
GW_CAPTURE_READER(os_iostat);   /* iostat -x */
GW_CAPTURE_READER(os_versions); /* nvcc --version, nvidia-smi --version, python -m torch.utils.collect_env */
GW_CAPTURE_READER(saved_env);   /* gpuwhy check --collect */

#endif
