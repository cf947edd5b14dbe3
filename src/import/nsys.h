/*
 * nsys.h - the inside of the Nsight Systems importer: shared by the nsys*.c files, by nobody else.
 *
 *   nsys_db.c      opens the database so that nothing is written beside it; maps; strings
 *   nsys_scan.c    walks a table, on several threads when it is big, and past damaged pages
 *   nsys_plan.c    what to keep when not everything fits in memory
 *   nsys_info.c    what the export says about itself: versions, GPUs, processes, enumerations, names
 *   nsys_gpu.c     rows of GPU work
 *   nsys_host.c    rows of host threads
 *   nsys_metrics.c rows of counters
 *   nsys.c         the importer: sniff, read, and the order of the tables
 *
 * Facts about the format come from the schema that NVIDIA documents ("SQLite Schema Reference", 2021.1 to 2026.4 =
 * schema 3.28) and from exports of many versions. Tables exist only when they have rows; columns come and go; names are
 * ids into StringIds. Times are integer ns since the start of the capture.
 *
 * Never read: TARGET_INFO_SYSTEM_ENV, META_DATA_CAPTURE, ProcessStreams, ANALYSIS_FILE. They hold the environment,
 * the command line and the output of the recorded job, and nothing that explains idle time.
 */
#ifndef GW_NSYS_H
#define GW_NSYS_H

#include <sqlite3.h>
#include <stdint.h>

#include "import/importer.h"

/* 64-bit key to 32-bit value; open addressing. Zeroed memory is an empty map. */
struct nsys_map {
    struct nsys_slot *slots;
    size_t mask, used;
};
int nsys_map_put(struct nsys_map *m, uint64_t key, uint32_t val); /* replaces; 0 or GW_ENOMEM */
uint32_t nsys_map_get(const struct nsys_map *m, uint64_t key, uint32_t otherwise);
void nsys_map_free(struct nsys_map *m);

#define NSYS_COLS 16 /* most columns that a table is asked for */

/* One row, taken out of SQLite: plain data, so that it can be read on one thread and understood on another. */
struct nsys_row {
    int64_t v[NSYS_COLS];
    uint32_t null;    /* bit i: column i is NULL, or this export has no such column */
    uint32_t text_of; /* 1 + the column that held text where a number was expected or text was asked for; 0 none */
    const char *text; /* not NUL-terminated */
    size_t text_len;
};
static inline int nsys_null(const struct nsys_row *r, int col) { return (int)(r->null >> col & 1); }

struct nsys_cols {
    int n;
    uint32_t text, real; /* bit i: column i is asked for as text, as a real number (its bits go into v) */
};

/* What the rows of a walk over a table go to; one for each connection. Filled by nsys_scan.c. */
struct nsys_walker {
    struct nsys_cols cols;
    int (*sink)(void *to, struct nsys_row *r); /* negative = stop */
    void *to;
    int64_t after, max_rows, jump; /* the last row number; rows that may still come; how far to skip damage */
    uint64_t damaged;
    int rc;
    struct nsys_row row;
};

struct nsys;
struct nsys_table {
    const char *name;
    const char *columns; /* separated by blanks; the first is the time at which a row starts; '*' = text, '#' = real,
                            a|b = a, or else b */
    int need;            /* the first `need` columns must exist */
    int (*row)(struct nsys *x, const struct nsys_row *r); /* negative = stop reading altogether */
};

#define NSYS_MEM_KINDS 16
#define NSYS_NAME_BYTES ((size_t)128 << 20) /* of different names; then new ones share one */
#define NSYS_ALL INT64_MIN

struct nsys {
    struct gw_trace *t;
    const char *path;
    const struct gw_import_options *opt;
    struct gw_error *err;
    int64_t file_bytes;

    sqlite3 *db;
    struct nsys_walker walker;
    char *uri; /* how to open the file once more, for a second thread */
    const char *vfs;
    sqlite3_stmt *string; /* StringIds by id, or NULL */
    char (*tables)[64];   /* names of the ordinary tables of the file */
    size_t table_count;

    struct nsys_map names;                   /* string id -> name id */
    struct nsys_map api_names;               /* string id -> name id of a call, without its ABI version */
    struct nsys_map pids;                    /* process key -> small number in order of first sight; the first is 0 */
    struct nsys_map gpu_of;                  /* (pid, CUDA device) -> GPU of the machine */
    struct nsys_map stream_dev, process_dev; /* (process number, stream), process number -> device of its work */
    struct nsys_map owner;                   /* (device, stream) -> number of the process that used it first */
    struct nsys_map domains;                 /* (process, NVTX domain) -> 1 when it belongs to a library */
    struct nsys_map series_of;               /* (type, metric) -> index into `series` */
    struct nsys_map thread_of;               /* process and thread -> lane */
    uint32_t pid_count;
    int pid_known;     /* every table of GPU work names its process */
    int remap;         /* processes number their devices each from 0: use the machine's numbers */
    uint64_t last_key; /* of the last GPU row's lane: work comes in runs */
    uint32_t last_lane;
    unsigned char mem_kind[NSYS_MEM_KINDS]; /* the export's number -> enum gw_mem */
    uint32_t copy_name[16][8][8];           /* name ids, by copy kind and enum gw_mem of both ends */
    uint32_t set_name[8], unnamed;
    int64_t nvtx_push_pop, nvtx_start_end, nvtxt_push_pop, nvtxt_start_end, nvtx_domain; /* NVTX_EVENTS.eventType */

    size_t name_bytes;
    int records_sorted;
    struct gw_array recent;    /* struct nsys_recent: the last calls of each thread, to drop nested driver calls */
    struct gw_array open;      /* struct gw_event: ranges that were never closed */
    struct gw_array records;   /* struct nsys_record: event records, to tell which stream a wait waits for */
    struct gw_array series;    /* struct nsys_series: GPU metrics */
    int64_t metric_stride;     /* so many consecutive samples of a metric become their mean */
    int64_t last_end;          /* latest end of any event */
    uint64_t rows, rows_total; /* rows seen, rows expected: progress */
    uint64_t gpu_rows, call_rows, range_rows, other_rows, graph_rows, graph_nodes, graph_calls;
    struct nsys_map recent_of; /* global thread id -> index into `recent` */
    struct nsys_map called;    /* calls of the runtime by correlation id; only when driver calls have their own table */
    int driver_table;

    int64_t from, to;  /* keep only events that start in [from, to); from == NSYS_ALL: everything */
    int64_t osrt_min;  /* shortest OS call that is kept, ns */
    uint64_t left_out; /* events that were not kept for lack of memory */
};

/* nsys_db.c */
int nsys_open(struct nsys *x);                                         /* 0, or a negative code with x->err filled */
sqlite3 *nsys_open_again(const struct nsys *x, struct nsys_walker *w); /* a second connection, or NULL */
void nsys_close(struct nsys *x);
int nsys_has(const struct nsys *x, const char *table);
int nsys_has_column(struct nsys *x, const char *table, const char *column);
sqlite3_stmt *nsys_prepare(sqlite3 *db, const char *sql); /* NULL when it cannot be; the caller finalizes */
int64_t nsys_number(struct nsys *x, const char *sql, int64_t otherwise);
uint32_t nsys_intern(struct nsys *x, const char *s, size_t len);
uint32_t nsys_string(struct nsys *x, int64_t id); /* name id of a string id; 0 when it is not in the file */
/* Name id of a column that holds a string id, or the text itself (hand-made exports). 0 when missing. */
uint32_t nsys_name(struct nsys *x, const struct nsys_row *r, int col);

/* nsys_scan.c */
int nsys_walker(sqlite3 *db, struct nsys_walker *w); /* once for each connection: rows of its tables go to `w` */
/* Walks a table in the order of the file. 0 (also when the table is not there), or GW_EINTR / GW_ENOMEM: stop. */
int nsys_scan(struct nsys *x, const struct nsys_table *tab);
/* The table's row numbers; last < first when there are none. */
void nsys_extent(struct nsys *x, const char *table, int64_t *first, int64_t *last);
/* Adds an event whose times the row gave. 0, or GW_ENOMEM. Drops and counts what makes no sense. */
int nsys_add(struct nsys *x, struct gw_event *e);

/* nsys_plan.c: sets from, to, osrt_min, metric_stride and rows_total */
void nsys_plan(struct nsys *x);

/* nsys_info.c */
void nsys_info_before(struct nsys *x);
void nsys_info_after(struct nsys *x);
uint32_t nsys_process(struct nsys *x, const struct nsys_row *r, int col); /* number of the process of a global id */
int64_t nsys_device(const struct nsys *x, int64_t pid, int64_t device);
static inline int64_t nsys_pid(int64_t global) { return (global >> 24) & 0xffffff; }
static inline int64_t nsys_tid(int64_t global) { return global & 0xffffff; }
static inline uint64_t nsys_corr(uint32_t process, int64_t corr)
{
    return (uint64_t)process << 40 | ((uint64_t)corr & 0xffffffffffu);
}

/* Tables by the file that reads them, each list ended by a row without a name. */
extern const struct nsys_table nsys_gpu_tables[], nsys_host_tables[], nsys_metric_tables[];
int nsys_gpu_finish(struct nsys *x);
int nsys_host_finish(struct nsys *x);
int nsys_metrics_finish(struct nsys *x);

#endif
