#include "cli/load.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/load_counters.h"
#include "engine/analysis.h"
#include "engine/report_copy.h"
#include "layers/rank_report.h"
#include "record/record.h"

#define FILES_MAX 4096 /* in a folder: more ranks than that are no job of one machine room */

struct load { /* loading at work */
    struct gw_loaded *l;
    const struct gw_cli_options *o;
    struct gw_array files;     /* char *, in the arena */
    struct gw_array summaries; /* const struct gw_rank_summary *: one for each report that has one, else NULL */
    struct gw_array reports;   /* struct gw_report * */
    struct gw_array paths;     /* const char * */
    struct gw_trace *counters; /* of Nsight Compute, given beside the recordings; NULL = none */
    int named;                 /* 1 = some report names their files */
    int saved;                 /* JSON reports among them */
    int status;
};

static void worse(struct load *w, int status) { w->status = status > w->status ? status : w->status; }

static int push(struct gw_array *a, const void *p)
{
    const void **slot = gw_array_push(a);
    if (!slot)
        return GW_ENOMEM;
    *slot = p;
    return GW_OK;
}

/* ---- what is in a folder ---- */

static int is_record(const char *path)
{
    char file[PATH_MAX];
    return snprintf(file, sizeof file, "%s/" GW_REC_META, path) < (int)sizeof file && access(file, F_OK) == 0;
}

static int is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int gw_load_is_folder(const char *path) { return is_folder(path) && !is_record(path); }

static int ends_in(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);
    return n > k && !strcmp(s + n - k, tail);
}

/* Names that recordings have; others in the folder are left alone. */
static int looks_like_recording(const struct dirent *d)
{
    return d->d_name[0] != '.' &&
           (strstr(d->d_name, ".json") || ends_in(d->d_name, ".sqlite") || ends_in(d->d_name, ".gz") ||
            ends_in(d->d_name, ".zst") || ends_in(d->d_name, ".csv") || d->d_type == DT_DIR || d->d_type == DT_UNKNOWN);
}

static int list_folder(struct load *w, const char *folder)
{
    struct dirent **names = NULL;
    int n = scandir(folder, &names, looks_like_recording, versionsort), rc = GW_OK;
    size_t before = w->files.len;
    if (n < 0) {
        gw_cli_error(_("%s: %s"), folder, gw_i18n_errno(errno));
        worse(w, GW_EXIT_INPUT);
        return GW_OK;
    }
    for (int i = 0; i < n; i++) {
        const char *path =
            gw_arena_printf(w->l->arena, "%s%s%s", folder, ends_in(folder, "/") ? "" : "/", names[i]->d_name);
        int other = is_folder(path) ? !is_record(path) : ends_in(path, ".csv") && !gw_load_is_counters(path);
        if (rc == GW_OK && *path && w->files.len < FILES_MAX && !other)
            rc = push(&w->files, path);
        free(names[i]);
    }
    free(names);
    if (w->files.len == before && rc == GW_OK) {
        gw_cli_error(_("%s: no recordings in this folder (*.json, *.json.gz, *.sqlite, Nsight Compute's *.csv, records of gpuwhy run)"),
                     folder);
        worse(w, GW_EXIT_INPUT);
    }
    return rc;
}

/* ---- one recording ---- */

/* 1 when the file was a JSON report, read or refused. */
static int load_saved(struct load *w, const char *path)
{
    struct gw_report *r;
    int status, is = gw_load_saved(path, w->l->arena, &r, &status);
    worse(w, status);
    if (!r)
        return is;
    w->saved++;
    if (w->counters) {
        gw_cli_error(_("%s: counters of Nsight Compute go with a recording and not with a report: give the recording that it was made from"), path);
        worse(w, GW_EXIT_USAGE);
    }
    if (push(&w->reports, r) < 0 || push(&w->summaries, NULL) < 0 || push(&w->paths, path) < 0)
        worse(w, gw_cli_no_memory(path));
    return is;
}

static int keep(struct load *w, const struct gw_analysis *an, const char *path, const struct gw_beside *b)
{
    struct gw_report *r = gw_cli_report(an, b, an->arena);
    struct gw_rank_summary *s = NULL;
    if (!r)
        return GW_ENOMEM;
    r = gw_report_copy(r, w->l->arena);
    if (an->ndev) {
        s = gw_rank_summarise(an, an->dev + an->main, path, w->l->arena);
        if (!s)
            return GW_ENOMEM;
    }
    return r && push(&w->reports, r) == 0 && push(&w->summaries, s) == 0 && push(&w->paths, path) == 0 ? GW_OK
                                                                                                       : GW_ENOMEM;
}

static void load_one(struct load *w, const char *path)
{
    if (load_saved(w, path))
        return;
    const char *from = strcmp(path, "-") == 0 ? "/dev/stdin" : path;
    struct gw_trace *t = gw_cli_trace(w->o);
    if (!t) {
        worse(w, gw_cli_no_memory(path));
        return;
    }
    struct gw_beside b;
    int status = gw_cli_import(t, from, w->o, &b);
    w->l->interrupted = b.interrupted;
    if (status == GW_EXIT_OK && w->counters) {
        status = gw_load_join_counters(t, w->counters, !w->named) < 0 ? gw_cli_no_memory(path) : GW_EXIT_OK;
        w->named = 1;
    }
    if (status == GW_EXIT_OK) {
        const struct gw_analysis *an = gw_analyse(t, t->arena);
        if (!an || keep(w, an, path, &b) < 0)
            status = gw_cli_no_memory(path);
    }
    worse(w, status);
    gw_beside_free(&b);
    gw_trace_destroy(t);
}

/* ---- counters of Nsight Compute ---- */

/* Takes their files off the list and reads them; alone they are a recording of their own sort. */
static void take_counters(struct load *w)
{
    const char **files = w->files.data, *first = NULL;
    size_t kept = 0;
    for (size_t i = 0; w->files.len > 1 && i < w->files.len && !w->l->interrupted; i++) {
        if (!gw_load_is_counters(files[i])) {
            files[kept++] = files[i];
            continue;
        }
        worse(w, gw_load_counters(&w->counters, files[i], w->o, &w->l->interrupted));
        first = first ? first : files[i];
    }
    if (w->files.len < 2)
        return;
    w->files.len = kept;
    if (kept || !w->counters)
        return;
    const struct gw_beside none = {0};
    const struct gw_analysis *an = gw_analyse(w->counters, w->counters->arena);
    if (!an || keep(w, an, first, &none) < 0)
        worse(w, gw_cli_no_memory(first));
}

static void unused_counters(struct load *w)
{
    const struct gw_source *s = w->counters ? w->counters->sources.data : NULL;
    if (!s || gw_load_counters_used(w->reports.data, w->reports.len))
        return;
    gw_cli_error(_("%s: none of its kernels runs in the recording: profile the same job with ncu, without --kernel-name-base mangled; the report goes without these counters"), s->path);
    worse(w, GW_EXIT_INPUT);
}

/* ---- together ---- */

static int join(struct load *w)
{
    struct gw_loaded *l = w->l;
    const struct gw_rank_summary *const *s = w->summaries.data;
    size_t n = w->reports.len;
    l->misfit = "";
    if (w->saved) {
        l->misfit = _("JSON reports are not recordings: they cannot be put together");
        return GW_OK;
    }
    for (size_t i = 0; i < n; i++)
        if (!s[i]) {
            l->misfit = gw_arena_printf(l->arena, _("%s holds no GPU work"), l->paths[i]);
            return GW_OK;
        }
    struct gw_ranks *x = gw_ranks_compare(s, n, l->arena);
    if (!x)
        return GW_ENOMEM;
    if (x->fit != GW_RANKS_FIT) {
        l->misfit = gw_ranks_misfit(x, s, l->arena);
        l->strangers = 1;
        for (size_t i = 0; i < n; i++)
            l->strangers &= s[i]->world_size < 2 && !s[i]->ncoll;
        return GW_OK;
    }
    l->report = gw_diagnose_ranks(x, s, (const struct gw_report *const *)l->each, n, l->arena);
    return l->report ? GW_OK : GW_ENOMEM;
}

int gw_load(struct gw_loaded *l, char *const *paths, size_t n, const struct gw_cli_options *o)
{
    struct load w = {.l = l, .o = o};
    memset(l, 0, sizeof *l);
    l->misfit = "";
    l->arena = gw_arena_create(0);
    if (!l->arena)
        return gw_cli_no_memory(paths[0]);
    gw_array_init(&w.files, sizeof(char *), 0);
    gw_array_init(&w.summaries, sizeof(void *), 0);
    gw_array_init(&w.reports, sizeof(void *), 0);
    gw_array_init(&w.paths, sizeof(void *), 0);
    int rc = GW_OK;
    for (size_t i = 0; i < n && rc == GW_OK; i++)
        rc = gw_load_is_folder(paths[i]) ? list_folder(&w, paths[i]) : push(&w.files, paths[i]);
    if (rc == GW_OK)
        take_counters(&w);
    const char *const *files = w.files.data;
    for (size_t i = 0; i < w.files.len && rc == GW_OK && !l->interrupted; i++)
        load_one(&w, files[i]);
    unused_counters(&w);
    l->count = w.reports.len;
    l->each = gw_arena_calloc(l->arena, l->count, sizeof *l->each);
    l->paths = gw_arena_calloc(l->arena, l->count, sizeof *l->paths);
    if (rc == GW_OK && l->each && l->paths && l->count) {
        memcpy(l->each, w.reports.data, l->count * sizeof *l->each);
        memcpy(l->paths, w.paths.data, l->count * sizeof *l->paths);
        if (l->count == 1)
            l->report = l->each[0];
        else
            rc = join(&w);
    } else if (!l->each || !l->paths) {
        rc = GW_ENOMEM;
    }
    if (rc < 0)
        worse(&w, gw_cli_no_memory(paths[0]));
    gw_array_free(&w.files);
    gw_array_free(&w.summaries);
    gw_array_free(&w.reports);
    gw_array_free(&w.paths);
    gw_trace_destroy(w.counters);
    return w.status;
}

void gw_load_free(struct gw_loaded *l)
{
    gw_arena_destroy(l->arena);
    l->arena = NULL;
}
