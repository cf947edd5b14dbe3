#include "nsys_build.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

void nb_open(struct nb *b, const char *name)
{
    *b = (struct nb){.threads = 1};
    snprintf(b->dir, sizeof b->dir, "%s/gw-nsys-XXXXXX",
             getenv("TMPDIR") && strlen(getenv("TMPDIR")) < 40 ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(b->dir));
    snprintf(b->path, sizeof b->path, "%s/%s", b->dir, name);
    assert_int_equal(sqlite3_open(b->path, &b->db), SQLITE_OK);
    nb_sql(b, "PRAGMA synchronous=OFF; PRAGMA page_size=4096;");
}

void nb_sql(struct nb *b, const char *sql)
{
    char *message = NULL;
    if (sqlite3_exec(b->db, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s in: %.200s", message, sql);
}

int nb_import(struct nb *b, struct gw_trace **t)
{
    struct gw_import_options o = {.threads = b->threads, .progress = b->progress, .user = b->user};
    sqlite3_close(b->db);
    b->db = NULL;
    b->err = (struct gw_error){0};
    *t = gw_trace_create(b->cap);
    assert_non_null(*t);
    return gw_importer_nsys.read(*t, b->path, &o, &b->err);
}

struct gw_trace *nb_read(struct nb *b)
{
    struct gw_trace *t;
    if (nb_import(b, &t) < 0) {
        gw_trace_destroy(t);
        return NULL;
    }
    assert_int_equal(gw_trace_finish(t), 0);
    return t;
}

static int each_file(const struct nb *b, int remove_them)
{
    int n = 0;
    DIR *d = opendir(b->dir);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        char path[512];
        if (e->d_name[0] == '.')
            continue;
        n++;
        snprintf(path, sizeof path, "%s/%s", b->dir, e->d_name);
        if (remove_them)
            unlink(path);
    }
    if (d)
        closedir(d);
    return n;
}

int nb_files(const struct nb *b) { return each_file(b, 0); }

void nb_close(struct nb *b)
{
    sqlite3_close(b->db);
    each_file(b, 1);
    rmdir(b->dir);
}

const struct gw_event *nb_event(const struct gw_trace *t, unsigned kind, size_t i)
{
    for (size_t k = 0; k < gw_trace_count(t); k++)
        if (gw_trace_event(t, (uint32_t)k)->kind == kind && i-- == 0)
            return gw_trace_event(t, (uint32_t)k);
    return NULL;
}

size_t nb_count(const struct gw_trace *t, unsigned kind)
{
    size_t n = 0;
    for (size_t k = 0; k < gw_trace_count(t); k++)
        n += gw_trace_event(t, (uint32_t)k)->kind == kind;
    return n;
}

const char *nb_name(const struct gw_trace *t, const struct gw_event *e) { return gw_trace_text(t, e->name); }
