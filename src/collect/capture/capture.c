#include "collect/capture/capture.h"
#include "base/gw_i18n.h"
#include "collect/capture/record_env.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { MAX_FILES = 1000 };
#define MAX_BYTES ((size_t)64 << 20) /* of one file; a day of one-second logs of eight GPUs is about 60 MB */

#define READER(name, title)                         \
    {                                               \
        title, gw_##name##_begins, gw_##name##_read \
    }
const struct gw_capture_format gw_capture_formats[] = {
    READER(saved_env, "gpuwhy check --collect"),
    READER(smi_query, "nvidia-smi -q"),
    READER(smi_xml, "nvidia-smi -q -x"),
    READER(smi_table, "nvidia-smi"),
    READER(smi_dmon, "nvidia-smi dmon"),
    READER(smi_pmon, "nvidia-smi pmon"),
    READER(smi_topo, "nvidia-smi topo"),
    READER(smi_list, "nvidia-smi -L"),
    READER(smi_csv, "nvidia-smi csv"),
    READER(os_lscpu, "lscpu"),
    READER(os_free, "free"),
    READER(os_iostat, "iostat -x"),
    READER(os_versions, "versions"),
    {NULL, NULL, NULL},
};

static void add_source(struct gw_env *env, const char *name, const char *format, int64_t facts)
{
    for (size_t i = 0; i < gw_env_count(env, GW_REC_SOURCE); i++) {
        struct gw_env_source *s = gw_env_at(env, GW_REC_SOURCE, i);
        if (s->path && s->format && strcmp(s->path, name) == 0 && strcmp(s->format, format) == 0) {
            s->facts += facts;
            return;
        }
    }
    const char *path = gw_env_dup(env, name, strlen(name));
    struct gw_env_source *s = gw_env_add(env, GW_REC_SOURCE);
    if (s) {
        s->path = path;
        s->format = format;
        s->facts = facts;
    }
}

static int64_t parse_text(struct gw_env *env, const char *name, struct gw_slice rest)
{
    int64_t total = 0;
    struct gw_slice line;
    while (rest.n) {
        const struct gw_capture_format *f = gw_capture_formats;
        while (f->name && !f->begins(rest))
            f++;
        if (!f->name) {
            gw_slice_line(&rest, &line);
            continue;
        }
        size_t used = 0;
        int64_t facts = f->read(env, rest, &used);
        if (facts > 0) {
            add_source(env, name, f->name, facts);
            total += facts;
        }
        struct gw_slice skipped = rest;
        if (used == 0 || used > rest.n) { /* a reader that takes nothing must not hold the others up */
            gw_slice_line(&rest, &line);
            used = skipped.n - rest.n;
        }
        rest = (struct gw_slice){skipped.p + used, skipped.n - used};
    }
    return total;
}

int64_t gw_capture_parse(struct gw_env *env, const char *name, const char *data, size_t len, struct gw_error *err)
{
    size_t n;
    char *text = gw_slice_decode(data, len, &n);
    if (!text)
        return gw_error_set(err, GW_ENOMEM, name, -1, "", "out of memory");
    int64_t facts = parse_text(env, name, (struct gw_slice){text, n});
    free(text);
    if (facts == 0)
        return gw_error_set(
            err, GW_EFORMAT, name, -1,
            "give the output of nvidia-smi (plain, -q, -q -x, topo -m, --query-gpu, dmon), lscpu, free, iostat -x "
            "or gpuwhy check --collect",
            "nothing in it is a capture that gpuwhy knows");
    return facts;
}

/* The whole file, unpacked when it is gzip. Caller frees. */
static char *slurp(const char *path, size_t *len, struct gw_error *err)
{
    gzFile f = gzopen(path, "rb");
    if (!f) {
        gw_error_set(err, GW_EIO, path, -1, "check the path and its permissions", "cannot open: %s", gw_i18n_errno(errno));
        return NULL;
    }
    size_t cap = 1 << 16, n = 0;
    char *data = malloc(cap);
    for (;;) {
        if (data && n == cap) {
            char *more = cap < MAX_BYTES ? realloc(data, cap * 2) : NULL;
            if (!more && cap < MAX_BYTES)
                free(data);
            else if (!more)
                break; /* the cap: what is read so far is used, with a note by the caller */
            data = more;
            cap *= 2;
        }
        if (!data) {
            gw_error_set(err, GW_ENOMEM, path, -1, "", "out of memory");
            break;
        }
        int got = gzread(f, data + n, (unsigned)(cap - n));
        if (got <= 0)
            break; /* a damaged end of a gzip file costs what is behind it */
        n += (size_t)got;
    }
    gzclose_r(f);
    *len = n;
    return data;
}

static int read_file(struct gw_env *env, const char *path, struct gw_error *err)
{
    size_t len = 0;
    char *data = slurp(path, &len, err);
    if (!data)
        return err ? err->code : GW_EIO;
    if (len >= MAX_BYTES)
        gw_env_note(env, path, "only the first %zu MB were read", MAX_BYTES >> 20);
    int64_t facts = gw_capture_parse(env, path, data, len, err);
    free(data);
    return facts < 0 ? (int)facts : 0;
}

/* "NVIDIA GeForce RTX 2080 ..." and "NVIDIA GeForce RTX 2080 SUPER" are one name: the table cuts. */
static int same_name(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b);
    size_t ca = na > 3 && strcmp(a + na - 3, "...") == 0 ? na - 3 : na,
           cb = nb > 3 && strcmp(b + nb - 3, "...") == 0 ? nb - 3 : nb;
    if (ca == na && cb == nb)
        return strcmp(a, b) == 0;
    return strncmp(a, b, ca < cb ? ca : cb) == 0;
}

/* NULL when both may be of one machine, else what differs. */
static const char *other_machine(const struct gw_env *a, const struct gw_env *b)
{
    const char *da = gw_env_str(a, GW_HSTR_DRIVER), *db = gw_env_str(b, GW_HSTR_DRIVER);
    if (da && db && strcmp(da, db) != 0)
        return N_("another driver");
    for (size_t i = 0; i < a->gpus.len; i++)
        for (size_t k = 0; k < b->gpus.len; k++) {
            const struct gw_gpu *x = gw_env_gpu_at(a, i), *y = gw_env_gpu_at(b, k);
            if (x->index != y->index)
                continue;
            if (x->bus_id && y->bus_id && strcmp(x->bus_id, y->bus_id) != 0)
                return N_("GPUs at other bus addresses");
            if (x->name && y->name && !same_name(x->name, y->name))
                return N_("other GPUs");
        }
    return NULL;
}

/* A file beside those that were read before: first by itself, so that another machine's facts are not mixed in. */
static int read_beside(struct gw_env *env, const char *file, struct gw_error *err)
{
    const char *differs = NULL;
    if (gw_env_count(env, GW_REC_SOURCE)) {
        struct gw_env *probe = gw_env_create();
        if (!probe)
            return gw_error_set(err, GW_ENOMEM, file, -1, "", "out of memory");
        int rc = read_file(probe, file, err);
        differs = rc == 0 ? other_machine(env, probe) : NULL;
        gw_env_destroy(probe);
        if (rc < 0)
            return rc;
    }
    if (!differs)
        return read_file(env, file, err);
    gw_env_note(env, file,
                "left out: it shows %s than the files before it, so it is of another machine or another "
                "time; check it by itself",
                _(differs));
    return 0;
}

static int read_folder(struct gw_env *env, const char *path, struct gw_error *err)
{
    struct dirent **names = NULL;
    int n = scandir(path, &names, NULL, alphasort), used = 0;
    if (n < 0)
        return gw_error_set(err, GW_EIO, path, -1, "check the path and its permissions", "cannot list: %s",
                            gw_i18n_errno(errno));
    if (n > MAX_FILES)
        gw_env_note(env, path, "only the first %d files were read", MAX_FILES);
    for (int i = 0; i < n && i < MAX_FILES; i++) {
        char file[4096];
        struct stat st;
        struct gw_error one = {0};
        if (names[i]->d_name[0] == '.' ||
            snprintf(file, sizeof file, "%s/%s", path, names[i]->d_name) >= (int)sizeof file || stat(file, &st) < 0 ||
            !S_ISREG(st.st_mode))
            continue;
        if (read_beside(env, file, &one) < 0)
            gw_env_note(env, file, "left out: %s", one.what);
        else
            used++;
    }
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
    return used ? 0
                : gw_error_set(err, GW_EFORMAT, path, -1, "put captures of nvidia-smi and the like into the folder",
                               "no file in this folder is a capture that gpuwhy knows");
}

int gw_capture_read(struct gw_env *env, const char *path, struct gw_error *err)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return gw_error_set(err, GW_EIO, path, -1, "check the path", "cannot open: %s", gw_i18n_errno(errno));
    if (S_ISDIR(st.st_mode) && gw_env_is_record(path)) {
        int rc = gw_env_read_record(env, path, err);
        return rc != GW_ENODATA ? rc
                                : gw_error_set(err, rc, path, -1, "record it again with this version of gpuwhy run",
                                               "the record holds no facts about the machine");
    }
    if (S_ISDIR(st.st_mode))
        return read_folder(env, path, err);
    if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
        return gw_error_set(err, GW_EUSAGE, path, -1, "give a file or a folder", "neither a file nor a folder");
    return read_beside(env, path, err);
}
