/* Opening an export read-only, without leaving anything beside it; small maps; strings. */
#include "import/nsys.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/gw_i18n.h"

struct nsys_slot {
    uint64_t key;
    uint32_t val, full;
};

static size_t map_at(const struct nsys_map *m, uint64_t key)
{
    size_t i = (size_t)((key * 0x9e3779b97f4a7c15u) >> 20) & m->mask; /* 2^64 / golden ratio: Fibonacci hashing */
    while (m->slots[i].full && m->slots[i].key != key)
        i = (i + 1) & m->mask;
    return i;
}

int nsys_map_put(struct nsys_map *m, uint64_t key, uint32_t val)
{
    if (!m->slots || m->used * 4 >= m->mask * 3) {
        struct nsys_map big = {.mask = m->slots ? m->mask * 2 + 1 : 63};
        big.slots = calloc(big.mask + 1, sizeof *big.slots);
        if (!big.slots)
            return GW_ENOMEM;
        for (size_t i = 0; m->slots && i <= m->mask; i++)
            if (m->slots[i].full)
                big.slots[map_at(&big, m->slots[i].key)] = m->slots[i];
        big.used = m->used;
        free(m->slots);
        *m = big;
    }
    struct nsys_slot *s = m->slots + map_at(m, key);
    m->used += !s->full;
    *s = (struct nsys_slot){.key = key, .val = val, .full = 1};
    return GW_OK;
}

uint32_t nsys_map_get(const struct nsys_map *m, uint64_t key, uint32_t otherwise)
{
    if (!m->slots)
        return otherwise;
    const struct nsys_slot *s = m->slots + map_at(m, key);
    return s->full ? s->val : otherwise;
}

void nsys_map_free(struct nsys_map *m)
{
    free(m->slots);
    *m = (struct nsys_map){0};
}

/* A path as an SQLite URI: everything but the plainest characters is escaped, so '?' and '#' in names are harmless. */
static char *make_uri(const char *path, const char *query)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-";
    char *uri = malloc(strlen(path) * 3 + strlen(query) + 16);
    if (!uri)
        return NULL;
    char *p = uri + sprintf(uri, path[0] == '/' ? "file://" : "file:");
    for (; *path; path++) {
        if (strchr(plain, *path))
            *p++ = *path;
        else
            p += sprintf(p, "%%%02X", (unsigned char)*path);
    }
    strcpy(p, query);
    return uri;
}

static int64_t size_beside(const char *path, const char *suffix)
{
    char name[4096];
    struct stat st;
    int n = snprintf(name, sizeof name, "%s%s", path, suffix);
    return n > 0 && (size_t)n < sizeof name && !stat(name, &st) ? (int64_t)st.st_size : 0;
}

static sqlite3 *open_db(const char *uri, const char *vfs, struct nsys_walker *w)
{
    sqlite3 *db = NULL;
    int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;
    if (sqlite3_open_v2(uri, &db, flags, vfs) != SQLITE_OK || nsys_walker(db, w) < 0) {
        sqlite3_close(db);
        return NULL;
    }
    /* The file is foreign: no code in its schema may run. A schema "writable" (on a read-only connection) makes SQLite
     * accept files that are shorter than their header says, so that a cut-off export can be salvaged. */
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
#ifdef SQLITE_DBCONFIG_ENABLE_VIEW
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
#endif
#ifdef SQLITE_DBCONFIG_TRUSTED_SCHEMA
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
#endif
#ifdef SQLITE_DBCONFIG_WRITABLE_SCHEMA
    sqlite3_db_config(db, SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1, NULL);
#endif
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 64 << 20); /* no single value may take more memory than this */
    sqlite3_exec(db, "PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY;", NULL, NULL, NULL);
    if (vfs) /* the log's index lives in our memory and not in a -shm file */
        sqlite3_exec(db, "PRAGMA locking_mode=EXCLUSIVE;", NULL, NULL, NULL);
    return db;
}

sqlite3 *nsys_open_again(const struct nsys *x, struct nsys_walker *w) { return open_db(x->uri, x->vfs, w); }

sqlite3_stmt *nsys_prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *st = NULL;
    return sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK ? st : NULL;
}

int64_t nsys_number(struct nsys *x, const char *sql, int64_t otherwise)
{
    sqlite3_stmt *st = nsys_prepare(x->db, sql);
    if (st && sqlite3_step(st) == SQLITE_ROW && sqlite3_column_type(st, 0) != SQLITE_NULL)
        otherwise = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return otherwise;
}

/* Ordinary tables only: a view or a virtual table under a known name could run for ever. */
static int list_tables(struct nsys *x)
{
    sqlite3_stmt *st = nsys_prepare(x->db, "SELECT name FROM sqlite_master WHERE type='table' AND rootpage>0");
    int rc = st ? SQLITE_ROW : sqlite3_errcode(x->db);
    while (st && (rc = sqlite3_step(st)) == SQLITE_ROW && x->table_count < 4096) {
        const char *name = (const char *)sqlite3_column_text(st, 0);
        if (!name || strlen(name) >= sizeof x->tables[0])
            continue;
        if ((x->table_count & 63) == 0) {
            void *grown = realloc(x->tables, (x->table_count + 64) * sizeof x->tables[0]);
            if (!grown)
                break;
            x->tables = grown;
        }
        strcpy(x->tables[x->table_count++], name);
    }
    sqlite3_finalize(st);
    if (rc == SQLITE_DONE || rc == SQLITE_ROW)
        return GW_OK;
    if (x->table_count) { /* the list of tables is damaged further on */
        gw_trace_lose(x->t, GW_LOSS_DAMAGED, 1, -1);
        return GW_OK;
    }
    int io = (rc & 0xff) == SQLITE_IOERR || (rc & 0xff) == SQLITE_CANTOPEN;
    return gw_error_set(x->err, io ? GW_EIO : GW_EFORMAT, x->path, -1, _("copy the file again, or export it again"),
                        io ? _("cannot be read (%s)") : _("the database is damaged at its root (%s)"),
                        sqlite3_errmsg(x->db));
}

static void one_thread_counters(void)
{
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0); /* its counters are one lock for all threads */
}

/* A write-ahead log that was left beside the file is read with it. SQLite would make a -shm file for that, or refuse on
 * a read-only medium; in exclusive mode without locks it does neither. Without a log the file is opened "immutable". */
int nsys_open(struct nsys *x)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, one_thread_counters);
    int log = size_beside(x->path, "-wal") > 0;
    x->vfs = log ? "unix-none" : NULL;
    x->uri = make_uri(x->path, log ? "?mode=ro" : "?mode=ro&immutable=1");
    if (!x->uri)
        return gw_error_set(x->err, GW_ENOMEM, x->path, -1, NULL, _("out of memory"));
    if (size_beside(x->path, "-journal") > 512) /* a whole header sector: the export was interrupted */
        gw_trace_lose(x->t, GW_LOSS_TRUNCATED, 1, -1);
    x->db = open_db(x->uri, x->vfs, &x->walker);
    if (!x->db)
        return gw_error_set(x->err, GW_EIO, x->path, -1, _("check the path and its permissions"),
                            _("cannot be opened as an SQLite database"));
    int rc = list_tables(x);
    if (rc < 0)
        return rc;
    if (nsys_has(x, "StringIds"))
        x->string = nsys_prepare(x->db, "SELECT value FROM StringIds WHERE id=?1");
    return GW_OK;
}

void nsys_close(struct nsys *x)
{
    sqlite3_finalize(x->string);
    sqlite3_close(x->db);
    free(x->uri);
    free(x->tables);
    struct nsys_map *maps[] = {&x->names, &x->api_names, &x->pids,      &x->gpu_of,    &x->stream_dev, &x->process_dev,
                               &x->owner, &x->domains,   &x->series_of, &x->recent_of, &x->thread_of,  &x->called};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        nsys_map_free(maps[i]);
    struct gw_array *arrays[] = {&x->recent, &x->open, &x->records, &x->series};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        gw_array_free(arrays[i]);
}

int nsys_has(const struct nsys *x, const char *table)
{
    for (size_t i = 0; i < x->table_count; i++)
        if (!strcmp(x->tables[i], table))
            return 1;
    return 0;
}

int nsys_has_column(struct nsys *x, const char *table, const char *column)
{
    if (!nsys_has(x, table))
        return 0;
    sqlite3_stmt *st = nsys_prepare(x->db, "SELECT 1 FROM pragma_table_info(?1) WHERE name=?2 COLLATE NOCASE");
    int found = 0;
    if (st) {
        sqlite3_bind_text(st, 1, table, -1, SQLITE_STATIC);
        sqlite3_bind_text(st, 2, column, -1, SQLITE_STATIC);
        found = sqlite3_step(st) == SQLITE_ROW;
    }
    sqlite3_finalize(st);
    return found;
}

/* Names live outside the events' memory cap, so they have one of their own: a range whose text holds a counter has a
 * name of its own each time. */
uint32_t nsys_intern(struct nsys *x, const char *s, size_t len)
{
    uint32_t before = gw_intern_count(x->t->names), name;
    if (x->name_bytes > NSYS_NAME_BYTES && (name = gw_intern_find(x->t->names, s, len)) == 0) {
        s = "(one of too many different names)";
        len = strlen(s);
    }
    name = gw_trace_name(x->t, s, len);
    if (gw_intern_count(x->t->names) != before)
        x->name_bytes += len + 32; /* and the tables' share */
    return name;
}

uint32_t nsys_string(struct nsys *x, int64_t id)
{
    uint32_t name = nsys_map_get(&x->names, (uint64_t)id, UINT32_MAX);
    if (name != UINT32_MAX)
        return name;
    name = 0;
    if (x->string) {
        sqlite3_bind_int64(x->string, 1, id);
        if (sqlite3_step(x->string) == SQLITE_ROW) {
            const char *s = (const char *)sqlite3_column_text(x->string, 0);
            int len = sqlite3_column_bytes(x->string, 0);
            /* 64 KiB: no kernel name that was seen reaches a quarter of it; what is longer is a file's content */
            if (s && len > 0)
                name = nsys_intern(x, s, len < 65536 ? (size_t)len : 65536);
        }
        sqlite3_reset(x->string);
    }
    nsys_map_put(&x->names, (uint64_t)id, name);
    return name;
}

uint32_t nsys_name(struct nsys *x, const struct nsys_row *r, int col)
{
    if (r->text_of == (uint32_t)col + 1)
        return nsys_intern(x, r->text, r->text_len);
    return nsys_null(r, col) ? 0 : nsys_string(x, r->v[col]);
}
