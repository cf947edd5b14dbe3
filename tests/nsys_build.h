/*
 * nsys_build.h - small Nsight Systems exports for tests, made with the SQLite library in a folder of their own.
 *
 *     struct nb b;
 *     nb_open(&b, "t.sqlite");
 *     nb_sql(&b, NB_KERNEL_2021 "INSERT INTO ...");
 *     struct gw_trace *t = nb_read(&b, 0);      closes the file, imports and finishes; NULL with b.err filled
 *     gw_trace_destroy(t);
 *     nb_close(&b);                             removes the folder
 */
#ifndef GW_NSYS_BUILD_H
#define GW_NSYS_BUILD_H

#include <sqlite3.h>

#include "import/nsys_importer.h"

struct nb {
    char dir[64];
    char path[128];
    sqlite3 *db;
    struct gw_error err;
    size_t cap; /* memory for events, bytes; 0 none */
    int threads;
    int (*progress)(void *user, int64_t done, int64_t total);
    void *user;
};

void nb_open(struct nb *b, const char *name);
void nb_sql(struct nb *b, const char *sql);       /* fails the test when SQLite refuses it */
int nb_import(struct nb *b, struct gw_trace **t); /* closes the file and imports it: the importer's code */
struct gw_trace *nb_read(struct nb *b);           /* the same, and finishes; NULL when it failed */
void nb_close(struct nb *b);
int nb_files(const struct nb *b); /* entries in the folder */

/* The i-th event of a kind, or NULL. */
const struct gw_event *nb_event(const struct gw_trace *t, unsigned kind, size_t i);
size_t nb_count(const struct gw_trace *t, unsigned kind);
const char *nb_name(const struct gw_trace *t, const struct gw_event *e);

/* Tables as single versions write them. Process 144 is 281477392629760 = (1 << 48 | 144 << 24), its main thread + 144.
 */
#define NB_PID "281477392629760"
#define NB_TID "281477392629904"
#define NB_STRINGS "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);"
#define NB_KERNEL_2021                                                                                                 \
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT NOT NULL, end INT NOT NULL, deviceId INT NOT NULL, contextId " \
    "INT NOT NULL,"                                                                                                    \
    " streamId INT NOT NULL, correlationId INT, demangledName INT NOT NULL, shortName INT NOT NULL, launchType INT, "  \
    "cacheConfig INT,"                                                                                                 \
    " registersPerThread INT NOT NULL, gridX INT NOT NULL, gridY INT NOT NULL, gridZ INT NOT NULL, blockX INT NOT "    \
    "NULL,"                                                                                                            \
    " blockY INT NOT NULL, blockZ INT NOT NULL, staticSharedMemory INT NOT NULL, dynamicSharedMemory INT NOT NULL);"
#define NB_KERNEL_2025                                                                                             \
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT " \
    "NULL,"                                                                                                        \
    " contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, "      \
    "globalPid INTEGER,"                                                                                           \
    " demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER, "       \
    "cacheConfig INTEGER,"                                                                                         \
    " registersPerThread INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, "   \
    "blockZ INTEGER,"                                                                                              \
    " graphNodeId INTEGER);"
#define NB_MEMCPY_2025                                                                                               \
    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT "   \
    "NULL,"                                                                                                          \
    " contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, "        \
    "globalPid INTEGER,"                                                                                             \
    " bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER," \
    " graphNodeId INTEGER);"
#define NB_RUNTIME                                                                                                    \
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT " \
    "NULL,"                                                                                                           \
    " globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId "  \
    "INTEGER);"
#define NB_NVTX                                                                                                    \
    "CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, " \
    "category INTEGER,"                                                                                            \
    " color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);"
#define NB_META                                                                                                  \
    "CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);"                                            \
    "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', '2025.5.1.121'), ('EXPORT_SCHEMA_VERSION', " \
    "'3.23.3');"

#endif
