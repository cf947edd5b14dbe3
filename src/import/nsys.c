/* The importer of Nsight Systems exports (`nsys export --type sqlite`). See nsys.h for the parts. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/gw_i18n.h"
#include "import/nsys_importer.h"

#ifdef GW_HAVE_SQLITE
#include "import/nsys.h"
#endif

static const char sqlite_magic[16] = "SQLite format 3";

static int ends_with(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && !strcasecmp(s + n - m, suffix);
}

/* The report files that nsys writes by default. Their format is not documented; nsys itself turns them into SQLite. */
static int is_report(const char *path)
{
    return ends_with(path, ".nsys-rep") || ends_with(path, ".qdrep") || ends_with(path, ".qdstrm");
}

static int nsys_sniff(const char *path, const unsigned char *head, size_t len)
{
    if (len >= sizeof sqlite_magic && !memcmp(head, sqlite_magic, sizeof sqlite_magic))
        return 90;
    if (is_report(path))
        return 80;
    return ends_with(path, ".sqlite") && (len < 1 || (head[0] != '{' && head[0] != '[')) ? 30 : 0;
}

/* Says what the file is when it is not an SQLite database. */
static int refuse(const char *path, const unsigned char *head, size_t len, struct gw_error *err)
{
    char advice[sizeof err->advice];
    if (is_report(path)) {
        const char *base = strrchr(path, '/');
        int stem = (int)(strrchr(path, '.') - path);
        if (base && strlen(path) > 90) /* keep the line whole: leave the folder to the reader */
            stem = (int)(strrchr(base, '.') - base) - 1, path = base + 1;
        if (ends_with(path, ".qdstrm"))
            snprintf(advice, sizeof advice, _("turn it into a report first: QdstrmImporter -i %s"), path);
        else
            snprintf(advice, sizeof advice, _("run: nsys export --type sqlite --output %.*s.sqlite %s"), stem, path, path);
        return gw_error_set(err, GW_EFORMAT, path, -1, advice, _("an Nsight Systems report in its own binary format"));
    }
    if (len == 0)
        return gw_error_set(err, GW_EFORMAT, path, -1, _("export the report again"), _("the file is empty"));
    if (len > 3 && ((head[0] == 0x1f && head[1] == 0x8b) || !memcmp(head, "\x28\xb5\x2f\xfd", 4))) {
        snprintf(advice, sizeof advice, _("unpack it first: %s -dk %s"), head[0] == 0x1f ? "gzip" : "zstd", path);
        return gw_error_set(err, GW_EFORMAT, path, -1, advice,
                            _("a compressed SQLite database cannot be read in place"));
    }
    return gw_error_set(err, GW_EFORMAT, path, 0,
                        _("export the report again: nsys export --type sqlite REPORT.nsys-rep"),
                        _("not an SQLite database"));
}

#ifdef GW_HAVE_SQLITE

static int has_prefix(const struct nsys *x, const char *prefix)
{
    for (size_t i = 0; i < x->table_count; i++)
        if (!strncmp(x->tables[i], prefix, strlen(prefix)))
            return 1;
    return 0;
}

/* An SQLite file that is not from nsys. */
static int check_tables(struct nsys *x)
{
    if (nsys_has(x, "StringTable") && has_prefix(x, "CUPTI_ACTIVITY_KIND_"))
        return gw_error_set(x->err, GW_EFORMAT, x->path, -1,
                            _("record with nsys: nsys profile -t cuda,nvtx,osrt COMMAND"),
                            _("a database of nvprof, which ended in 2021"));
    if (has_prefix(x, "rocpd_"))
        return gw_error_set(x->err, GW_EFORMAT, x->path, -1, _("record with torch.profiler, or export a Chrome trace"),
                            _("a database of ROCm's profiler"));
    if (!has_prefix(x, "CUPTI_ACTIVITY_KIND_") && !nsys_has(x, "StringIds") && !nsys_has(x, "META_DATA_EXPORT") &&
        !nsys_has(x, "EXPORT_META_DATA"))
        return gw_error_set(x->err, GW_EFORMAT, x->path, -1,
                            _("give a file made by: nsys export --type sqlite REPORT.nsys-rep"),
                            _("an SQLite database, but not one of Nsight Systems"));
    return GW_OK;
}

static int read_tables(struct nsys *x)
{
    const struct nsys_table *const lists[] = {nsys_gpu_tables, nsys_host_tables, nsys_metric_tables};
    int (*const finish[])(struct nsys *) = {nsys_gpu_finish, nsys_host_finish, nsys_metrics_finish};
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
        for (const struct nsys_table *tab = lists[l]; tab->name; tab++) {
            int rc = nsys_scan(x, tab);
            if (rc < 0)
                return rc;
        }
        int rc = finish[l](x);
        if (rc < 0)
            return rc;
    }
    return GW_OK;
}

static int read_open(struct nsys *x)
{
    int rc = check_tables(x);
    if (rc < 0)
        return rc;
    x->from = NSYS_ALL;
    x->last_lane = GW_NONE;
    x->driver_table = nsys_has(x, "CUPTI_ACTIVITY_KIND_DRIVER");
    nsys_info_before(x);
    nsys_plan(x);
    rc = read_tables(x);
    if (rc == GW_EINTR) /* the user has seen enough: what was read stays */
        gw_trace_lose(x->t, GW_LOSS_TRUNCATED, 1, -1);
    if (x->left_out)
        gw_trace_lose(x->t, GW_LOSS_MEMORY_CAP, x->left_out, -1);
    if (!x->gpu_rows && !x->call_rows && !x->range_rows && !x->other_rows) {
        int damaged = x->t->loss[GW_LOSS_DAMAGED].count > 0;
        return gw_error_set(x->err, damaged ? GW_EFORMAT : GW_ENODATA, x->path, -1,
                            damaged ? _("export the report again, or try: sqlite3 FILE .recover | sqlite3 NEW.sqlite")
                                    : _("record with: nsys profile -t cuda,nvtx,osrt COMMAND"),
                            "%s",
                            damaged ? _("too damaged to read") : _("no GPU work, API calls or ranges in this export"));
    }
    nsys_info_after(x);
    return GW_OK;
}

static int read_sqlite(struct gw_trace *t, const char *path, int64_t bytes, const struct gw_import_options *o,
                       struct gw_error *err)
{
    struct nsys x = {.t = t, .path = path, .opt = o, .err = err, .file_bytes = bytes};
    int rc = nsys_open(&x);
    if (rc == GW_OK)
        rc = read_open(&x);
    if (rc == GW_OK) {
        struct gw_source *s = gw_trace_source(t, path, "nsys");
        if (s) {
            s->bytes = s->text_bytes = bytes;
            s->events = (int64_t)x.rows;
        }
        if (o && o->progress)
            o->progress(o->user, bytes, bytes);
    }
    nsys_close(&x);
    return rc;
}

#else

static int read_sqlite(struct gw_trace *t, const char *path, int64_t bytes, const struct gw_import_options *o,
                       struct gw_error *err)
{
    (void)t, (void)bytes, (void)o;
    return gw_error_set(err, GW_ENOTSUP, path, -1, _("build gpuwhy with the SQLite development files (libsqlite3-dev)"),
                        _("this gpuwhy was built without SQLite and cannot read Nsight Systems exports"));
}

#endif

static int nsys_read(struct gw_trace *t, const char *path, const struct gw_import_options *o, struct gw_error *err)
{
    unsigned char head[100]; /* the header of an SQLite file */
    struct stat st;
    if (!strcmp(path, "-") || (!stat(path, &st) && !S_ISREG(st.st_mode)))
        return gw_error_set(err, GW_EFORMAT, path, -1, _("give the path of the file itself"),
                            _("an SQLite database cannot be read from a pipe"));
    FILE *f = fopen(path, "rb");
    if (!f)
        return gw_error_set(err, GW_EIO, path, -1, _("check the path and its permissions"), _("cannot be opened"));
    size_t len = fread(head, 1, sizeof head, f);
    int failed = ferror(f) || fstat(fileno(f), &st) != 0;
    fclose(f);
    if (failed)
        return gw_error_set(err, GW_EIO, path, -1, _("check the path and the disk"), _("cannot be read"));
    if (len < sizeof sqlite_magic || memcmp(head, sqlite_magic, sizeof sqlite_magic) != 0)
        return refuse(path, head, len, err);
    return read_sqlite(t, path, (int64_t)st.st_size, o, err);
}

const struct gw_importer gw_importer_nsys = {
    .name = "nsys", .title = N_("Nsight Systems export (.sqlite)"), .sniff = nsys_sniff, .read = nsys_read};
