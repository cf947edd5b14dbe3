/*
 * Walking one table: from SQLite rows to the table's row function, past damage, on several threads when it pays.
 *
 * Three quarters of the time goes into SQLite's own decoding. So a big table is cut into chunks of row numbers;
 * workers, each with a connection of its own, decode chunks into plain rows; the calling thread understands them, in
 * the order of the file. The result is the same for any number of threads.
 */
#include "import/nsys.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK 8192       /* row numbers a chunk: 1.4 MB of decoded rows */
#define TEXT_MAX 4096    /* longest text taken from a row; only ranges have their text in the row */
#define FIRST_JUMP 64    /* row numbers skipped first after a damaged place: about a page of the smallest rows */
#define DAMAGE_MAX 65536 /* damaged places in one table after which the rest is given up */

static struct nsys_cols columns_of(const struct nsys_table *tab)
{
    struct nsys_cols c = {0};
    for (const char *p = tab->columns; *p && c.n < NSYS_COLS; c.n++) {
        c.text |= (uint32_t)(*p == '*') << c.n;
        c.real |= (uint32_t)(*p == '#') << c.n;
        p += strcspn(p, " ");
        p += strspn(p, " ");
    }
    return c;
}

/* "SELECT 1 FROM t WHERE gw_row(rowid, columns) AND rowid in range": gw_row takes the row and says no to it, so that a
 * whole table is one sqlite3_step(). Handing rows out one by one costs half as much again. */
static int table_sql(struct nsys *x, const struct nsys_table *tab, const char *range, char *sql, size_t cap)
{
    int n = snprintf(sql, cap, "SELECT 1 FROM \"%s\" WHERE gw_row(rowid", tab->name);
    const char *p = tab->columns;
    if (!nsys_has(x, tab->name))
        return 0;
    for (int i = 0; *p; i++) {
        char col[48];
        int there = 0;
        p += *p == '*' || *p == '#';
        while (!there && *p && *p != ' ') {
            size_t len = strcspn(p, " |");
            snprintf(col, sizeof col, "%.*s", (int)len, p);
            there = nsys_has_column(x, tab->name, col);
            p += len + (p[len] == '|');
        }
        p += strcspn(p, " ");
        p += strspn(p, " ");
        if (!there && i < tab->need)
            return 0;
        n += snprintf(sql + n, cap - (size_t)n, there ? ",\"%s\"" : ",NULL", col);
    }
    snprintf(sql + n, cap - (size_t)n, ") AND %s", range);
    return 1;
}

/* A number is asked for first and its type only when it is 0: NULL reads as 0, and so does a text, and both are rare.
 */
static void fetch(sqlite3_value **v, const struct nsys_cols *cols, struct nsys_row *r)
{
    r->null = r->text_of = 0;
    for (int i = 0; i < cols->n; i++) {
        int is_text = (int)(cols->text >> i & 1);
        if (cols->real >> i & 1) {
            double d = sqlite3_value_double(v[i]);
            memcpy(&r->v[i], &d, sizeof d);
        } else {
            r->v[i] = is_text ? 0 : sqlite3_value_int64(v[i]);
        }
        if (r->v[i])
            continue;
        int type = sqlite3_value_type(v[i]);
        if (type == SQLITE_NULL) {
            r->null |= 1u << i;
        } else if (type == SQLITE_TEXT && (is_text || !r->text_of)) {
            r->text = (const char *)sqlite3_value_text(v[i]);
            r->text_len = r->text ? (size_t)sqlite3_value_bytes(v[i]) : 0;
            r->text_len = r->text_len < TEXT_MAX ? r->text_len : TEXT_MAX;
            r->text_of = (uint32_t)i + 1;
        } else if (is_text) {
            r->null |= 1u << i;
        }
    }
}

static void on_row(sqlite3_context *ctx, int n, sqlite3_value **v)
{
    struct nsys_walker *w = sqlite3_user_data(ctx);
    int64_t id = sqlite3_value_int64(v[0]);
    if (n != w->cols.n + 1 || id <= w->after || w->max_rows-- <= 0) {
        sqlite3_result_error_code(ctx,
                                  SQLITE_CORRUPT); /* a tree with a loop in it, or more rows than the file can hold */
        return;
    }
    w->after = id;
    w->jump = FIRST_JUMP;
    fetch(v + 1, &w->cols, &w->row);
    w->rc = w->sink(w->to, &w->row);
    if (w->rc < 0)
        sqlite3_result_error_code(ctx, SQLITE_ABORT);
}

int nsys_walker(sqlite3 *db, struct nsys_walker *w)
{
#ifndef SQLITE_DIRECTONLY
#define SQLITE_DIRECTONLY 0
#endif
    return sqlite3_create_function(db, "gw_row", -1, SQLITE_UTF8 | SQLITE_DIRECTONLY, w, on_row, NULL, NULL) ==
                   SQLITE_OK
               ? GW_OK
               : GW_ENOMEM;
}

/* Walks (after, upto]. Damaged pages are stepped over by asking for later and later row numbers, until the tree answers
 * again. 0, or what the sink said. */
static int walk(sqlite3_stmt *st, struct nsys_walker *w, int64_t after, int64_t upto, int64_t max_rows)
{
    w->after = after;
    w->jump = FIRST_JUMP;
    w->max_rows = max_rows;
    w->rc = GW_OK;
    w->damaged = 0;
    sqlite3_bind_int64(st, 2, upto);
    for (;;) {
        sqlite3_bind_int64(st, 1, w->after);
        int step = sqlite3_step(st);
        sqlite3_reset(st);
        if (step == SQLITE_DONE || w->rc < 0)
            break;
        w->damaged += w->jump == FIRST_JUMP; /* one place, however many tries it takes to get past it */
        if (step == SQLITE_NOMEM || w->max_rows <= 0 || w->damaged > DAMAGE_MAX ||
            (uint64_t)upto - (uint64_t)w->after <= (uint64_t)w->jump)
            break;
        w->after += w->jump;
        w->jump = w->jump < INT64_MAX / 4 ? w->jump * 2 : w->jump;
    }
    return w->rc;
}

/* A run of row numbers (after, upto], and what was read of it. */
struct chunk {
    int64_t after, upto;
    struct nsys_row *rows;
    size_t n;
    char *text;
    size_t text_len, text_cap;
    uint64_t damaged;
    int done;
};

/* ------------------------------------------------------------------ one thread */

struct direct {
    struct nsys *x;
    const struct nsys_table *tab;
};

static int progress(struct nsys *x)
{
    if (!x->opt || !x->opt->progress)
        return GW_OK;
    double part = x->rows_total ? (double)x->rows / (double)x->rows_total : 0;
    int64_t done = (int64_t)((part < 1 ? part : 1) * (double)x->file_bytes);
    return x->opt->progress(x->opt->user, done, x->file_bytes) ? GW_EINTR : GW_OK;
}

static int take(void *to, struct nsys_row *r)
{
    struct direct *d = to;
    int rc = d->tab->row(d->x, r);
    if ((++d->x->rows & 8191) == 0 && rc == GW_OK)
        rc = progress(d->x);
    return rc;
}

/* ------------------------------------------------------------------ several threads */

struct pool {
    struct nsys *x;
    const struct nsys_table *tab;
    const char *sql;
    pthread_mutex_t lock;
    pthread_cond_t filled, wanted;
    struct chunk *ring;
    size_t slots;
    int64_t first, last;            /* row numbers of the table */
    uint64_t next, consumed, total; /* chunks */
    uint64_t damaged;
    int stop;
};

static int keep(void *to, struct nsys_row *r)
{
    struct chunk *c = to;
    if (c->n == CHUNK)
        return GW_EINTERNAL; /* cannot be: row numbers are unique in a chunk */
    if (r->text_of) {
        if (c->text_len + r->text_len > c->text_cap) {
            size_t cap = (c->text_len + r->text_len) * 2 + 4096;
            char *grown = realloc(c->text, cap);
            if (!grown)
                return GW_ENOMEM;
            c->text = grown;
            c->text_cap = cap;
        }
        memcpy(c->text + c->text_len, r->text, r->text_len);
        c->text_len += r->text_len;
    }
    c->rows[c->n++] = *r;
    return GW_OK;
}

static void fill(sqlite3_stmt *st, struct nsys_walker *w, struct chunk *c)
{
    c->n = c->text_len = 0;
    w->to = c;
    c->damaged = !st || walk(st, w, c->after, c->upto, CHUNK + 1) < 0;
    c->damaged += st ? w->damaged : 0;
    const char *text = c->text; /* the buffer may have moved while it grew */
    for (size_t i = 0; i < c->n; i++)
        if (c->rows[i].text_of) {
            c->rows[i].text = text;
            text += c->rows[i].text_len;
        }
}

static void *worker(void *arg)
{
    struct pool *p = arg;
    struct nsys_walker w = {.cols = columns_of(p->tab), .sink = keep};
    sqlite3 *db = nsys_open_again(p->x, &w);
    sqlite3_stmt *st = db ? nsys_prepare(db, p->sql) : NULL;
    pthread_mutex_lock(&p->lock);
    while (!p->stop && p->next < p->total) {
        if (p->next >= p->consumed + p->slots) {
            pthread_cond_wait(&p->wanted, &p->lock);
            continue;
        }
        uint64_t k = p->next++;
        struct chunk *c = p->ring + k % p->slots;
        c->after = p->first - 1 + (int64_t)(k * CHUNK);
        c->upto = c->after + CHUNK < p->last ? c->after + CHUNK : p->last;
        pthread_mutex_unlock(&p->lock);
        fill(st, &w, c);
        pthread_mutex_lock(&p->lock);
        c->done = 1;
        pthread_cond_signal(&p->filled);
    }
    pthread_mutex_unlock(&p->lock);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return NULL;
}

static int consume(struct pool *p)
{
    struct direct d = {.x = p->x, .tab = p->tab};
    int rc = GW_OK;
    for (uint64_t k = 0; k < p->total && rc == GW_OK; k++) {
        struct chunk *c = p->ring + k % p->slots;
        pthread_mutex_lock(&p->lock);
        while (!c->done)
            pthread_cond_wait(&p->filled, &p->lock);
        pthread_mutex_unlock(&p->lock);
        for (size_t i = 0; i < c->n && rc == GW_OK; i++)
            rc = take(&d, c->rows + i);
        p->damaged += c->damaged;
        pthread_mutex_lock(&p->lock);
        c->done = 0;
        p->consumed = k + 1;
        pthread_cond_broadcast(&p->wanted);
        pthread_mutex_unlock(&p->lock);
    }
    pthread_mutex_lock(&p->lock);
    p->stop = 1;
    pthread_cond_broadcast(&p->wanted);
    pthread_mutex_unlock(&p->lock);
    return rc;
}

/* 1 when it ran (`*rc` is the outcome), 0 when there is no memory or no thread to be had: nothing was read then. */
static int scan_threads(struct pool *p, int threads, int *rc)
{
    pthread_t id[8];
    int started = 0, ran = 0;
    p->slots = (size_t)threads * 2;
    p->ring = calloc(p->slots, sizeof *p->ring);
    if (!p->ring)
        return 0;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->filled, NULL);
    pthread_cond_init(&p->wanted, NULL);
    for (size_t i = 0; i < p->slots; i++)
        if (!(p->ring[i].rows = malloc(CHUNK * sizeof *p->ring[i].rows)))
            goto out;
    while (started < threads && !pthread_create(&id[started], NULL, worker, p))
        started++;
    if (started) {
        *rc = consume(p);
        ran = 1;
    }
    for (int i = 0; i < started; i++)
        pthread_join(id[i], NULL);
out:
    for (size_t i = 0; i < p->slots; i++) {
        free(p->ring[i].rows);
        free(p->ring[i].text);
    }
    free(p->ring);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->filled);
    pthread_cond_destroy(&p->wanted);
    return ran;
}

static int thread_count(const struct nsys *x)
{
    int n = x->opt ? x->opt->threads : 0;
    if (n <= 0) {
        long cpus = sysconf(_SC_NPROCESSORS_ONLN);
        n = cpus > 4 ? 4 : cpus < 1 ? 1 : (int)cpus;
    }
    return n > 8 ? 8 : n;
}

/* First and last row number; last < first when the table is empty, or too damaged to say. */
void nsys_extent(struct nsys *x, const char *table, int64_t *first, int64_t *last)
{
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT min(rowid) FROM \"%s\"", table);
    *first = nsys_number(x, sql, 0);
    snprintf(sql, sizeof sql, "SELECT max(rowid) FROM \"%s\"", table);
    *last = nsys_number(x, sql, *first > INT64_MIN ? *first - 1 : *first);
}

int nsys_scan(struct nsys *x, const struct nsys_table *tab)
{
    struct pool p = {.x = x, .tab = tab};
    char sql[1024];
    if (!nsys_has(x, tab->name))
        return GW_OK;
    nsys_extent(x, tab->name, &p.first, &p.last);
    /* A row takes at least 4 bytes of file; more row numbers than that are gaps, and better walked in one go. */
    int64_t most = x->file_bytes / 4 + 16, rows = p.first > -most && p.last < most ? p.last - p.first + 1 : INT64_MAX;
    int threads = thread_count(x), rc = GW_OK, ran = 0, known;
    if (threads > 1 && rows >= 4 * CHUNK && rows <= most &&
        table_sql(x, tab, "rowid>?1 AND rowid<=?2", sql, sizeof sql)) {
        p.sql = sql;
        p.total = ((uint64_t)rows + CHUNK - 1) / CHUNK;
        ran = scan_threads(&p, threads, &rc);
    }
    if (!ran) {
        struct direct d = {.x = x, .tab = tab};
        known = table_sql(x, tab, "rowid>?1", sql, sizeof sql);
        sqlite3_stmt *st = known ? nsys_prepare(x->db, sql) : NULL;
        x->walker = (struct nsys_walker){.cols = columns_of(tab), .sink = take, .to = &d};
        if (!known) /* the table is there, and is not what we know by that name */
            gw_trace_lose(x->t, GW_LOSS_UNKNOWN_RECORD, 1, -1);
        else if (st)
            rc = walk(st, &x->walker, p.first - (p.first > INT64_MIN), INT64_MAX, most);
        p.damaged = x->walker.damaged + (known && !st);
        sqlite3_finalize(st);
    }
    if (p.damaged)
        gw_trace_lose(x->t, GW_LOSS_DAMAGED, p.damaged, -1);
    return rc;
}

/* ------------------------------------------------------------------ events */

int nsys_add(struct nsys *x, struct gw_event *e)
{
    const int64_t far = INT64_C(1) << 62; /* sums and differences of two times must not overflow */
    if (e->start <= -far || e->start >= far || e->end <= -far || e->end >= far) {
        gw_trace_lose(x->t, GW_LOSS_BAD_TIME, 1, -1);
        return GW_OK;
    }
    if (e->end < e->start) {
        gw_trace_lose(x->t, GW_LOSS_NEGATIVE_DURATION, 1, -1);
        e->end = e->start;
    }
    if (x->from != NSYS_ALL && (e->start < x->from || e->start >= x->to)) {
        x->left_out++;
        return GW_OK;
    }
    if (e->lane == GW_NONE)
        return GW_ENOMEM;
    if (e->end > x->last_end)
        x->last_end = e->end;
    return gw_trace_add(x->t, e);
}
