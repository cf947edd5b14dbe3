/* Damaged, cut, foreign and locked files: a clear word, or what could be saved with its loss named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "nsys_build.h"

static const char rows[] = NB_STRINGS NB_KERNEL_2025
    "INSERT INTO StringIds VALUES (1,'k');"
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<40000) INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL"
    " SELECT i*1000+500,i*1000+900,0,1,0,7,i," NB_PID ",1,1,0,0,0,0,1,1,1,128,1,1,NULL FROM n;";

static long file_size(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return (long)st.st_size;
}

static void overwrite(const char *path, long at, const void *data, size_t n)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    assert_int_equal(fwrite(data, 1, n, f), n);
    fclose(f);
}

/* Pages of garbage in the middle: everything before and behind them is kept. */
static void garbage_in_the_middle(void **state)
{
    (void)state;
    struct nb b;
    char junk[4096 * 3];
    memset(junk, 0xa5, sizeof junk);
    nb_open(&b, "junk.sqlite");
    nb_sql(&b, rows);
    sqlite3_close(b.db);
    b.db = NULL;
    overwrite(b.path, file_size(b.path) / 2 / 4096 * 4096, junk, sizeof junk);
    for (b.threads = 1; b.threads <= 4; b.threads += 3) {
        struct gw_trace *t = nb_read(&b);
        assert_non_null(t);
        size_t n = nb_count(t, GW_KIND_KERNEL);
        assert_in_range(n, 39000, 39999);
        assert_int_equal(nb_event(t, GW_KIND_KERNEL, 0)->start, 1500);
        assert_int_equal(nb_event(t, GW_KIND_KERNEL, n - 1)->start, 40000500); /* the last row */
        assert_in_range(t->loss[GW_LOSS_DAMAGED].count, 1, 10);
        gw_trace_destroy(t);
    }
    nb_close(&b);
}

static void cut_file(void **state)
{
    (void)state;
    struct nb b;
    nb_open(&b, "cut.sqlite");
    nb_sql(&b, rows);
    for (int i = 0; i < 2; i++) /* big enough for a tree of three levels */
        nb_sql(&b, "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL;");
    sqlite3_close(b.db);
    b.db = NULL;
    assert_int_equal(truncate(b.path, file_size(b.path) * 6 / 10), 0);
    struct gw_trace *t = nb_read(&b);
    assert_non_null(t);
    assert_in_range(nb_count(t, GW_KIND_KERNEL), 70000, 100000);
    assert_in_range(t->loss[GW_LOSS_DAMAGED].count, 1, 4);
    gw_trace_destroy(t);
    assert_int_equal(truncate(b.path, 1000), 0); /* less than a page */
    assert_null(nb_read(&b));
    assert_int_equal(b.err.code, GW_EFORMAT);
    nb_close(&b);
}

/* Every single byte of the first pages, one at a time: never a crash, never a hang. */
static void flipped_bytes(void **state)
{
    (void)state;
    struct nb b;
    nb_open(&b, "flip.sqlite");
    nb_sql(&b,
           "PRAGMA page_size=512;" NB_META NB_STRINGS NB_KERNEL_2025 NB_RUNTIME "INSERT INTO StringIds VALUES (1,'k');"
           "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1,2,0,1,0,7,1," NB_PID ",1,1,0,0,0,0,1,1,1,1,1,1,NULL);"
           "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (0,1,0," NB_TID ",1,1,0,0);");
    sqlite3_close(b.db);
    b.db = NULL;
    long size = file_size(b.path);
    assert_in_range(size, 4096, 1 << 20);
    unsigned char *whole = malloc((size_t)size);
    FILE *f = fopen(b.path, "rb");
    assert_non_null(whole);
    assert_non_null(f);
    assert_int_equal(fread(whole, 1, (size_t)size, f), (size_t)size);
    fclose(f);
    int read = 0, refused = 0;
    for (long at = 16; at < size; at += whole[at] || at % 64 == 0 ? 1 : 7) {
        unsigned char c = (unsigned char)(whole[at] ^ 0xff);
        overwrite(b.path, at, &c, 1);
        struct gw_trace *t = nb_read(&b);
        if (t)
            read++;
        else if (b.err.what[0])
            refused++;
        else
            fail_msg("byte %ld: neither a trace nor a word", at);
        gw_trace_destroy(t);
        overwrite(b.path, at, whole + at, 1);
    }
    assert_true(read > 100 && refused > 10);
    free(whole);
    nb_close(&b);
}

/* Rows in a write-ahead log beside the file are read, and nothing is written or left there. */
static void log_beside(void **state)
{
    (void)state;
    struct nb b;
    nb_open(&b, "w.sqlite");
    nb_sql(&b,
           "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;" NB_STRINGS NB_KERNEL_2025
           "INSERT INTO StringIds VALUES (1,'k');"
           "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1,2,0,1,0,7,1," NB_PID ",1,1,0,0,0,0,1,1,1,1,1,1,NULL);");
    assert_int_equal(chdir(b.dir), 0); /* as a crash leaves it: the file and its log, and no index of the log */
    assert_int_equal(system("cp w.sqlite copy.sqlite && cp w.sqlite-wal copy.sqlite-wal"), 0);
    sqlite3_close(b.db);
    b.db = NULL;
    snprintf(b.path, sizeof b.path, "copy.sqlite");
    int files = nb_files(&b);
    long size = file_size("copy.sqlite"), log = file_size("copy.sqlite-wal");
    assert_true(log > 4096);
    struct gw_trace *t = nb_read(&b);
    assert_non_null(t);
    assert_int_equal(nb_count(t, GW_KIND_KERNEL), 1);
    assert_int_equal(nb_files(&b), files);
    assert_int_equal(file_size("copy.sqlite"), size);
    assert_int_equal(file_size("copy.sqlite-wal"), log);
    gw_trace_destroy(t);
    assert_int_equal(chdir("/"), 0);
    nb_close(&b);
}

/* A writer holds the file locked, and a rollback journal lies beside it: an export that is still going on. */
static void unfinished_export(void **state)
{
    (void)state;
    struct nb b;
    sqlite3 *writer;
    nb_open(&b, "busy.sqlite");
    nb_sql(&b, rows);
    assert_int_equal(sqlite3_open(b.path, &writer), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(writer, "PRAGMA cache_size=1; BEGIN EXCLUSIVE; UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET streamId=8;",
                     NULL, NULL, NULL),
        SQLITE_OK);
    struct gw_trace *t = nb_read(&b);
    assert_non_null(t);
    assert_int_equal(nb_count(t, GW_KIND_KERNEL), 40000);
    assert_int_equal(t->loss[GW_LOSS_TRUNCATED].count, 1);
    gw_trace_destroy(t);
    sqlite3_close(writer);
    nb_close(&b);
}

/* A view under the name of a table never ends; it is not a table, so it is not read. */
static void code_in_the_schema(void **state)
{
    (void)state;
    struct nb b;
    nb_open(&b, "view.sqlite");
    nb_sql(&b, NB_STRINGS NB_RUNTIME
           "INSERT INTO StringIds VALUES (1,'cudaMalloc');"
           "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (100,150,0," NB_TID ",5,1,0,0);"
           "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n)"
           " SELECT i AS start, i+1 AS end, 0 AS deviceId FROM n;");
    struct gw_trace *t = nb_read(&b);
    assert_non_null(t);
    assert_int_equal(nb_count(t, GW_KIND_KERNEL), 0);
    assert_int_equal(t->loss[GW_LOSS_NO_GPU].count, 1);
    gw_trace_destroy(t);
    nb_close(&b);
}

/* A later version may rename columns: what is still known is read, and the rest is counted. */
static void unknown_schema(void **state)
{
    (void)state;
    struct nb b;
    nb_open(&b, "new.sqlite");
    nb_sql(&b, NB_STRINGS NB_RUNTIME "INSERT INTO StringIds VALUES (1,'cudaMalloc');"
                                     "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (100,150,0," NB_TID ",5,1,0,0);"
                                     "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (begin, duration, device); INSERT INTO "
                                     "CUPTI_ACTIVITY_KIND_KERNEL VALUES (1,2,0);");
    struct gw_trace *t = nb_read(&b);
    assert_non_null(t);
    assert_int_equal(t->loss[GW_LOSS_UNKNOWN_RECORD].count, 1);
    assert_int_equal(nb_count(t, GW_KIND_API), 1);
    gw_trace_destroy(t);
    nb_close(&b);
}

static void check_refusal(const char *name, const char *sql, int code, const char *what, const char *advice)
{
    struct nb b;
    nb_open(&b, name);
    nb_sql(&b, sql);
    assert_null(nb_read(&b));
    assert_int_equal(b.err.code, code);
    assert_non_null(strstr(b.err.what, what));
    assert_non_null(strstr(b.err.advice, advice));
    assert_string_equal(b.err.file, b.path);
    nb_close(&b);
}

static void foreign_databases(void **state)
{
    (void)state;
    check_refusal("f.sqlite", "CREATE TABLE places (url)", GW_EFORMAT, "not one of Nsight Systems", "nsys export");
    check_refusal("n.sqlite", "CREATE TABLE StringTable (x); CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (x)",
                  GW_EFORMAT, "nvprof", "nsys profile");
    check_refusal("r.db", "CREATE TABLE rocpd_string (x)", GW_EFORMAT, "ROCm", "torch.profiler");
    check_refusal("e.sqlite", NB_META NB_STRINGS, GW_ENODATA, "no GPU work", "nsys profile -t cuda,nvtx,osrt");
    check_refusal("z.sqlite", "PRAGMA user_version=1", GW_EFORMAT, "not one of Nsight Systems", "nsys export");
}

static void check_file(const char *name, const void *data, size_t n, const char *what, const char *advice)
{
    struct nb b;
    nb_open(&b, name);
    sqlite3_close(b.db);
    b.db = NULL;
    FILE *f = fopen(b.path, "wb");
    assert_non_null(f);
    fwrite(data, 1, n, f);
    fclose(f);
    assert_null(nb_read(&b));
    assert_int_equal(b.err.code, GW_EFORMAT);
    assert_non_null(strstr(b.err.what, what));
    if (!strstr(b.err.advice, advice))
        fail_msg("advice: %s", b.err.advice);
    nb_close(&b);
}

static void other_files(void **state)
{
    (void)state;
    check_file("job.nsys-rep", "binary", 6, "own binary format", "nsys export --type sqlite --output /");
    check_file("job.nsys-rep", "binary", 6, "own binary format", "/job.sqlite /");
    check_file("job.qdrep", "binary", 6, "own binary format", "/job.qdrep");
    check_file("job.qdstrm", "binary", 6, "own binary format", "QdstrmImporter -i ");
    check_file("e.sqlite", "", 0, "empty", "export");
    check_file("t.sqlite", "hello", 5, "not an SQLite database", "nsys export");
    check_file("t.sqlite", "\x1f\x8b\x08\x00", 4, "compressed", "gzip -dk ");
    check_file("t.sqlite", "\x28\xb5\x2f\xfd", 4, "compressed", "zstd -dk ");
    struct nb b;
    nb_open(&b, "gone.sqlite");
    snprintf(b.path, sizeof b.path, "/nonexistent/x.sqlite");
    assert_null(nb_read(&b));
    assert_int_equal(b.err.code, GW_EIO);
    nb_close(&b);
}

static void sniffing(void **state)
{
    (void)state;
    const unsigned char db[] = "SQLite format 3\0....", json[] = "{\"traceEvents\":[]}";
    assert_int_equal(gw_importer_nsys.sniff("any.name", db, sizeof db), 90);
    assert_int_equal(gw_importer_nsys.sniff("a.NSYS-REP", (const unsigned char *)"xx", 2), 80);
    assert_int_equal(gw_importer_nsys.sniff("a.json", json, sizeof json), 0);
    assert_int_equal(gw_importer_nsys.sniff("a.json", (const unsigned char *)"", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(garbage_in_the_middle), cmocka_unit_test(cut_file),
        cmocka_unit_test(flipped_bytes),         cmocka_unit_test(log_beside),
        cmocka_unit_test(unfinished_export),     cmocka_unit_test(code_in_the_schema),
        cmocka_unit_test(unknown_schema),        cmocka_unit_test(foreign_databases),
        cmocka_unit_test(other_files),           cmocka_unit_test(sniffing),
    };
    return cmocka_run_group_tests_name("nsys_damage", tests, NULL, NULL);
}
