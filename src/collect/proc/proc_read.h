/*
 * proc_read.h - reads what the kernel says about one process or thread, in one call a file, without allocation.
 *
 * Every function takes the root of the tree ("/proc", or a folder of a test) as an open directory, returns 0, or a
 * negative errno: -ENOENT and -ESRCH when the process is gone, -EACCES when we may not look. A value that the kernel
 * does not give is -1 or UINT64_MAX, never 0. Thread-safe: no state.
 *
 *     struct gw_proc_stat st;
 *     if (gw_proc_stat(proc_fd, pid, pid, &st) == 0) ...
 */
#ifndef GW_PROC_READ_H
#define GW_PROC_READ_H

#include <stddef.h>
#include <stdint.h>

struct gw_proc_stat {
    char state;           /* R S D Z T ... */
    char comm[64];
    int ppid, processor;  /* processor: CPU it ran on last */
    int64_t threads;
    uint64_t utime, stime;/* clock ticks */
    uint64_t minflt, majflt;
    uint64_t start_ticks; /* after boot */
    uint64_t blkio_ticks; /* waited for block I/O, where the kernel counts it */
};

/* Reads a small file below the root into `buf` (NUL-terminated). Bytes read or -errno. */
long gw_proc_text(int root, const char *path, char *buf, size_t cap);

/* tid == pid means the process's main thread (and for io, faults and rss the whole process). */
int gw_proc_stat(int root, int pid, int tid, struct gw_proc_stat *out);
int gw_proc_parse_stat(const char *text, struct gw_proc_stat *out); /* 0 or -EINVAL */
/* Time on a CPU and time waiting for one, ns since the thread started. */
int gw_proc_schedstat(int root, int pid, int tid, uint64_t *cpu_ns, uint64_t *wait_ns);
/* System call number, -1 while running or unknown; first argument. */
int gw_proc_syscall(int root, int pid, int tid, int *nr, uint64_t *arg0);
/* Kernel function that it sleeps in; "" when not sleeping. */
int gw_proc_wchan(int root, int pid, int tid, char *buf, size_t cap);

struct gw_proc_io { uint64_t rchar, wchar, read_bytes, write_bytes; };
int gw_proc_io(int root, int pid, struct gw_proc_io *out);

struct gw_proc_status {
    int64_t voluntary, involuntary; /* context switches; -1 unknown */
    int64_t rss_bytes, swap_bytes, shared_bytes;
    char cpus_allowed[256];         /* list, "0-3,8" */
};
int gw_proc_status(int root, int pid, int tid, struct gw_proc_status *out);

/* Command line with blanks between arguments, cut to `cap`. Length or -errno. */
long gw_proc_cmdline(int root, int pid, char *buf, size_t cap);

/* Calls `fn` for each thread id of `pid`; for each child of all its threads. 0 or -errno. */
int gw_proc_each_thread(int root, int pid, void (*fn)(void *user, int tid), void *user);
int gw_proc_each_child(int root, int pid, void (*fn)(void *user, int child), void *user);

/* 1 when a line of the process's mappings, or one of its open descriptors, has `word` in it; 0 when not, or when we may not look. */
int gw_proc_maps_has(int root, int pid, const char *word);
/* The path of the first mapped file with `word` in it. Length, 0 when there is none or we may not look. */
size_t gw_proc_maps_path(int root, int pid, const char *word, char *out, size_t cap);
int gw_proc_holds_file(int root, int pid, const char *word);


#endif
