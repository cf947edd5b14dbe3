/* record.c - the folder that `gpuwhy run` wrote, into a trace. See record_importer.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "import/record_importer.h"
#include "import/record_internal.h"

int gw_record_is_folder(const char *path)
{
    char file[PATH_MAX];
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return 0;
    return snprintf(file, sizeof file, "%s/" GW_REC_META, path) < (int)sizeof file && access(file, F_OK) == 0;
}

static int sniff(const char *path, const unsigned char *head, size_t len)
{
    (void)path;
    return len >= 8 && memcmp(head, GW_REC_MAGIC, 8) == 0 ? 100 : 0;
}

void gw_record_progress(struct gw_record_import *im, uint64_t offset)
{
    if (im->o && im->o->progress && !im->stopped && im->o->progress(im->o->user, im->bytes_done + (int64_t)offset, im->bytes_total)) {
        im->stopped = 1;
        gw_trace_lose(im->t, GW_LOSS_TRUNCATED, 1, -1);
    }
}

/* --- facts of the recorder -------------------------------------------------------------------------------------------- */

static void facts(struct gw_record_import *im, const struct gw_chunk *c)
{
    char text[4096];
    const char *p = (const char *)c->data, *end = p + c->bytes;
    while (p < end) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((nl ? nl : end) - p);
        if (n < sizeof text) {
            memcpy(text, p, n);
            text[n] = 0;
            gw_record_facts_line(im, text);
        }
        p += n + 1;
    }
}

/* The first look at the recorder's own file: facts and the start of time, which the other files need. */
static int read_facts(struct gw_record_import *im, const char *path, struct gw_error *err)
{
    struct gw_reader r;
    struct gw_chunk c;
    int rc = gw_reader_open(&r, path, err);
    if (rc < 0)
        return rc;
    im->base_ns = r.head.realtime_ns < INT64_MAX / 2 ? (int64_t)r.head.realtime_ns : 0;
    while (gw_reader_next(&r, &c))
        if (c.type == GW_RT_FACT)
            facts(im, &c);
    if (r.damaged || r.missing)
        gw_trace_lose(im->t, GW_LOSS_DAMAGED, r.damaged + r.missing, r.first_damage);
    if (r.torn)
        gw_trace_lose(im->t, GW_LOSS_TRUNCATED, 1, r.first_damage);
    gw_reader_close(&r);
    return 0;
}

/* --- the folder --------------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* The CUDA files in order of name (pid, then time of start). Their number; the caller frees. */
static size_t list(const char *folder, char **names, int64_t *bytes)
{
    DIR *d = opendir(folder);
    size_t n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[PATH_MAX + 300];
        struct stat st;
        size_t len = strlen(e->d_name);
        if (strncmp(e->d_name, "cuda-", 5) != 0 || len < 9 || strcmp(e->d_name + len - 4, ".gwr") != 0 || n == GW_RECORD_MAX_FILES)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (stat(path, &st) == 0)
            *bytes += st.st_size;
        if ((names[n] = strdup(path)))
            n++;
    }
    if (d)
        closedir(d);
    qsort(names, n, sizeof *names, by_name);
    return n;
}

static void folder_of(const char *path, char *out, size_t cap)
{
    struct stat st;
    snprintf(out, cap, "%s", path);
    if (stat(path, &st) != 0 || S_ISDIR(st.st_mode))
        return;
    char *slash = strrchr(out, '/');
    if (slash)
        *slash = 0;
    else
        snprintf(out, cap, ".");
}

int gw_record_folder(const char *path, char *out, size_t cap)
{
    size_t n = strlen(path);
    if (gw_record_is_folder(path)) {
        snprintf(out, cap, "%s", path);
        return n < cap;
    }
    folder_of(path, out, cap);
    return n < cap && n > 4 && strcmp(path + n - 4, ".gwr") == 0 && gw_record_is_folder(out);
}

static int read_folder(struct gw_record_import *im, struct gw_error *err)
{
    char path[PATH_MAX + 32];
    char **names = calloc(GW_RECORD_MAX_FILES, sizeof *names);
    int rc = GW_ENOMEM;
    if (!names)
        return gw_error_set(err, GW_ENOMEM, im->folder, -1, "", "out of memory");
    size_t n = list(im->folder, names, &im->bytes_total);
    snprintf(path, sizeof path, "%s/" GW_REC_META, im->folder);
    rc = read_facts(im, path, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct gw_error one;
        memset(&one, 0, sizeof one);
        if (!im->stopped && gw_record_read_cuda(im, names[i], &one) < 0)
            gw_trace_lose(im->t, GW_LOSS_DAMAGED, 1, 0); /* one process's file is lost, the others count */
    }
    snprintf(path, sizeof path, "%s/" GW_REC_META, im->folder);
    if (rc == 0)
        rc = gw_record_read_host(im, path, err);
    snprintf(path, sizeof path, "%s/" GW_REC_PM, im->folder);
    if (rc == 0 && !im->stopped)
        gw_record_read_pm(im, path);
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
    return rc;
}

size_t gw_record_windows(const char *path, struct gw_record_window *out, size_t cap)
{
    struct gw_record_import im = {.folder = path};
    struct gw_record_window *one = calloc(cap, sizeof *one);
    char **names = calloc(GW_RECORD_MAX_FILES, sizeof *names);
    size_t found = 0;
    uint64_t most = 0;
    im.t = gw_trace_create(0); /* names are learnt into it */
    size_t n = names && one && im.t && gw_record_is_folder(path) ? list(path, names, &im.bytes_total) : 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t work = 0;
        size_t k = gw_record_cuda_windows(&im, names[i], one, cap, &work);
        if (k && work > most) {
            memcpy(out, one, k * sizeof *out);
            found = k;
            most = work;
        }
        free(names[i]);
    }
    gw_trace_destroy(im.t);
    free(names);
    free(one);
    return found;
}

static int read_record(struct gw_trace *t, const char *path, const struct gw_import_options *o, struct gw_error *err)
{
    struct gw_record_import im;
    char folder[PATH_MAX];
    memset(&im, 0, sizeof im);
    im.t = t;
    im.o = o;
    folder_of(path, folder, sizeof folder);
    im.folder = folder;
    im.gpu_from = INT64_MAX;
    im.gpu_to = INT64_MIN;
    int rc = gw_record_facts_begin(&im);
    if (rc == 0)
        rc = read_folder(&im, err);
    gw_record_facts_free(&im);
    if (rc < 0)
        return rc;
    struct gw_source *s = gw_trace_source(t, path, "record");
    if (s) {
        s->bytes = im.bytes_done;
        s->text_bytes = im.bytes_done;
        s->events = (int64_t)gw_trace_count(t);
    }
    t->facts.profiler = "gpuwhy run";
    t->facts.base_ns = im.base_ns;
    t->facts.clock_error_ns = im.clock_error_ns;
    return 0;
}

const struct gw_importer gw_importer_record = {
    .name = "record", .title = N_("folder written by gpuwhy run"), .sniff = sniff, .read = read_record};
