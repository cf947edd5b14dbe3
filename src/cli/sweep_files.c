/*
 * sweep_files.c - steps by the record's files while they grow: batches that the loader handed out, kernels that the GPU
 * ran.
 *
 * The GPU's rhythm: the sequence of kernel names of the stream with most kernels repeats itself once a step
 * (engine/steps.h). Of the names in a period one that comes once (or else the rarest) is chosen, and its kernels are
 * the marks: exact, also when a step is longer than others or has a kernel more.
 */
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/sweep_marks.h"
#include "engine/steps.h"
#include "record/record_read.h"

enum {
    PROCESSES = 64,
    STREAMS = 16,
    KERNELS = 4000000,
    LOOKED_AT = 200000,
    LEAST_KERNELS = 12,
    CANDIDATES = 400,
    TRIED = 4000,
    LONGEST_TRIED = 1000
};
#define TRIED_MATCH \
    0.95 /* share of the kernels that must repeat; more than engine/steps.c asks, because more is tried */

struct kernel {
    uint64_t start;
    uint32_t name, stream; /* stream: index below */
};

struct cuda_file {
    struct gw_reader reader;
    struct kernel *k;
    size_t n, cap;
    struct {
        uint32_t device, stream;
        size_t n;
    } stream[STREAMS];
    size_t streams;
    int is_full;
};

struct marks_file {
    int fd;
    struct gw_sweep_series series;
};

struct gw_sweep_files {
    char folder[4096];
    int want_gpu;
    struct {
        char name[64];
        int is_cuda;
        struct cuda_file cuda;
        struct marks_file marks;
    } file[PROCESSES];
    size_t files;
    struct gw_sweep_series gpu; /* steps of the main process */
    uint32_t anchor;            /* name id of the kernel that marks them; 0 none yet */
    size_t times;               /* every so many of them are one step */
    size_t anchor_file, judged; /* kernels when the rhythm was last looked for */
    double period;
    size_t marked; /* kernels that `gpu` was made of */
};

struct gw_sweep_files *gw_sweep_files_open(const char *folder, int want_gpu)
{
    struct gw_sweep_files *f = calloc(1, sizeof *f);
    if (f) {
        snprintf(f->folder, sizeof f->folder, "%s", folder);
        f->want_gpu = want_gpu;
    }
    return f;
}

void gw_sweep_files_close(struct gw_sweep_files *f)
{
    for (size_t i = 0; f && i < f->files; i++) {
        if (f->file[i].is_cuda) {
            gw_reader_close(&f->file[i].cuda.reader);
            free(f->file[i].cuda.k);
        } else {
            close(f->file[i].marks.fd);
            gw_sweep_series_free(&f->file[i].marks.series);
        }
    }
    if (f)
        gw_sweep_series_free(&f->gpu);
    free(f);
}

/* --- reading --- */

static void take_kernel(struct cuda_file *c, const struct gw_rec_kernel *k)
{
    size_t s = 0;
    while (s < c->streams && (c->stream[s].device != k->device || c->stream[s].stream != k->stream))
        s++;
    if (s == STREAMS)
        return; /* the main stream came long before */
    if (s == c->streams) {
        c->stream[s].device = k->device;
        c->stream[s].stream = k->stream;
        c->streams++;
    }
    if (c->n == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 4096;
        struct kernel *more = cap <= KERNELS ? realloc(c->k, cap * sizeof *more) : NULL;
        if (!more) {
            c->is_full = 1;
            return;
        }
        c->k = more;
        c->cap = cap;
    }
    c->stream[s].n++;
    c->k[c->n++] = (struct kernel){.start = k->start, .name = k->name, .stream = (uint32_t)s};
}

static void read_cuda(struct cuda_file *c)
{
    struct stat st;
    struct gw_chunk chunk;
    struct gw_reader *r = &c->reader;
    if (fstat(r->fd, &st) != 0)
        return;
    r->size = (uint64_t)st.st_size;
    (void)!pread(r->fd, &r->head, sizeof r->head, 0); /* the status block changes in place */
    for (;;) {
        uint64_t at = r->at;
        if (!gw_reader_next(r, &chunk)) {
            if (r->torn) { /* the writer is in the middle of it */
                r->torn = 0;
                r->first_damage = -1;
                r->at = at;
            }
            return;
        }
        for (uint32_t i = 0; chunk.type == GW_RT_KERNEL && i < chunk.count; i++) {
            struct gw_rec_kernel k;
            gw_chunk_get(&chunk, i, &k, sizeof k);
            if (k.start)
                take_kernel(c, &k);
        }
    }
}

static void read_marks(struct marks_file *m)
{
    int64_t at[512];
    for (ssize_t n; (n = read(m->fd, at, sizeof at)) > 0;) {
        for (size_t i = 0; i < (size_t)n / sizeof *at; i++)
            gw_sweep_series_add(&m->series, at[i], NAN, 0);
        if (n % (ssize_t)sizeof *at) /* half of a mark: wait for the rest */
            (void)lseek(m->fd, -(n % (ssize_t)sizeof *at), SEEK_CUR);
        if ((size_t)n < sizeof at)
            return;
    }
}

static void open_file(struct gw_sweep_files *f, const char *name)
{
    char path[4096 + 80];
    int is_cuda = strncmp(name, "cuda-", 5) == 0;
    if (f->files == PROCESSES || strlen(name) >= sizeof f->file[0].name ||
        (!is_cuda && strncmp(name, "marks-", 6) != 0) || (is_cuda && !f->want_gpu))
        return;
    for (size_t i = 0; i < f->files; i++)
        if (strcmp(f->file[i].name, name) == 0)
            return;
    snprintf(path, sizeof path, "%s/%s", f->folder, name);
    if (is_cuda && gw_reader_open(&f->file[f->files].cuda.reader, path, NULL) < 0)
        return; /* its header is not whole yet */
    if (!is_cuda && (f->file[f->files].marks.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)) < 0)
        return;
    snprintf(f->file[f->files].name, sizeof f->file[0].name, "%s", name);
    f->file[f->files++].is_cuda = is_cuda;
}

void gw_sweep_files_look(struct gw_sweep_files *f)
{
    DIR *d = opendir(f->folder);
    for (struct dirent *e; d && (e = readdir(d));)
        open_file(f, e->d_name);
    if (d)
        closedir(d);
    for (size_t i = 0; i < f->files; i++) {
        if (f->file[i].is_cuda)
            read_cuda(&f->file[i].cuda);
        else
            read_marks(&f->file[i].marks);
    }
}

const struct gw_sweep_series *gw_sweep_files_loader(const struct gw_sweep_files *f)
{
    const struct gw_sweep_series *best = NULL;
    for (size_t i = 0; i < f->files; i++)
        if (!f->file[i].is_cuda && (!best || f->file[i].marks.series.n > best->n))
            best = &f->file[i].marks.series;
    return best && best->n ? best : NULL;
}

uint64_t gw_sweep_files_kernels(const struct gw_sweep_files *f)
{
    uint64_t n = 0;
    for (size_t i = 0; i < f->files; i++)
        n += f->file[i].is_cuda ? f->file[i].cuda.n : 0;
    return n;
}

int gw_sweep_files_gpu_ended(const struct gw_sweep_files *f)
{
    for (size_t i = 0; i < f->files; i++)
        if (f->file[i].is_cuda && (f->file[i].cuda.is_full || f->file[i].cuda.reader.ended ||
                                   gw_rec_state_loses(f->file[i].cuda.reader.head.status.state)))
            return 1;
    return 0;
}

/* --- rhythm --- */

static int by_start(const void *a, const void *b)
{
    const struct kernel *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* The kernels of the busiest stream, at most the last LOOKED_AT of them, in order of time. NULL: too few, or no memory.
 */
static struct kernel *main_stream(const struct cuda_file *c, size_t most, size_t *n)
{
    size_t s = 0;
    for (size_t i = 1; i < c->streams; i++)
        if (c->stream[i].n > c->stream[s].n)
            s = i;
    *n = 0;
    struct kernel *out = c->streams && c->stream[s].n >= LEAST_KERNELS ? malloc(c->stream[s].n * sizeof *out) : NULL;
    if (!out)
        return NULL;
    for (size_t i = 0; i < c->n; i++)
        if (c->k[i].stream == s)
            out[(*n)++] = c->k[i];
    qsort(out, *n, sizeof *out, by_start);
    if (*n > most) {
        memmove(out, out + (*n - most), most * sizeof *out);
        *n = most;
    }
    return out;
}

/* How often `name` comes in a period of `p` kernels, and how many of its kernels follow the one so many before them by
 * exactly p. `at` has room for n positions. */
static size_t regular(const struct kernel *k, size_t n, size_t p, uint32_t name, size_t *at, size_t *times)
{
    size_t seen = 0, hits = 0;
    *times = 0;
    for (size_t j = n - p; j < n; j++)
        *times += k[j].name == name;
    for (size_t j = 0; j < n; j++) {
        if (k[j].name != name)
            continue;
        at[seen] = j;
        hits += seen >= *times && j - at[seen - *times] == p;
        seen++;
    }
    return hits * 4 >= seen * 3 ? hits : 0;
}

/* The name that comes fewest times in a period of `p` kernels, once at best, and comes regularly; 0 none. */
static uint32_t marker(const struct kernel *k, size_t n, size_t p, size_t *times)
{
    size_t *at = malloc(n * sizeof *at), best_hits = 0;
    uint32_t best = 0;
    *times = SIZE_MAX;
    for (size_t i = 0; at && i < p && i < CANDIDATES; i++) { /* each costs one pass */
        size_t c, hits = regular(k, n, p, k[n - 1 - i].name, at, &c);
        if (hits && (c < *times || (c == *times && hits > best_hits))) {
            best = k[n - 1 - i].name;
            best_hits = hits;
            *times = c;
        }
    }
    free(at);
    return best;
}

/* gw_steps_period() tries the distances at which single names come back. Where every name comes several times a step it
 * finds none: then all short periods are tried, on the last kernels only. */
static size_t period_by_trial(const uint32_t *seq, size_t n)
{
    if (n > TRIED) {
        seq += n - TRIED;
        n = TRIED;
    }
    for (size_t p = 1; p <= LONGEST_TRIED && p * 3 <= n; p++) {
        size_t hits = 0;
        for (size_t i = 0; i + p < n; i++)
            hits += seq[i] == seq[i + p];
        if ((double)hits >= TRIED_MATCH * (double)(n - p))
            return p;
    }
    return 0;
}

static void find_rhythm(struct gw_sweep_files *f, const struct cuda_file *c)
{
    size_t n;
    double share;
    struct kernel *k = main_stream(c, LOOKED_AT, &n);
    uint32_t *seq = k ? malloc(n * sizeof *seq) : NULL;
    f->anchor = 0;
    if (seq) {
        size_t from = n / 2; /* the second half: the first has the warm-up in it */
        for (size_t i = from; i < n; i++)
            seq[i - from] = k[i].name;
        size_t p = gw_steps_period(seq, n - from, &share);
        if (!p)
            p = period_by_trial(seq, n - from);
        if (p) {
            size_t few = 40 * p < n - from ? 40 * p : n - from;
            f->anchor = marker(k + (n - few), few, p, &f->times);
            f->period = (double)p;
        }
    }
    free(seq);
    free(k);
}

void gw_sweep_files_forget(struct gw_sweep_files *f) { f->judged = 0; }

const struct gw_sweep_series *gw_sweep_files_gpu(struct gw_sweep_files *f, double *kernels)
{
    size_t best = PROCESSES;
    for (size_t i = 0; i < f->files; i++)
        if (f->file[i].is_cuda && f->file[i].cuda.n && (best == PROCESSES || f->file[i].cuda.n > f->file[best].cuda.n))
            best = i;
    if (best == PROCESSES)
        return NULL;
    const struct cuda_file *c = &f->file[best].cuda;
    if (best != f->anchor_file ||
        c->n > f->judged + f->judged / 2 + LEAST_KERNELS) { /* again when there is half as much more */
        find_rhythm(f, c);
        f->anchor_file = best;
        f->judged = c->n;
        f->marked = 0;
    }
    *kernels = f->period;
    if (f->marked == c->n) /* nothing new */
        return f->gpu.n ? &f->gpu : NULL;
    f->marked = c->n;
    f->gpu.n = 0;
    size_t n;
    struct kernel *k = f->anchor ? main_stream(c, SIZE_MAX, &n) : NULL;
    for (size_t i = 0, seen = 0; k && i < n; i++)
        if (k[i].name == f->anchor && seen++ % f->times == 0)
            gw_sweep_series_add(&f->gpu, (int64_t)k[i].start, NAN, 0);
    free(k);
    return f->gpu.n ? &f->gpu : NULL;
}
