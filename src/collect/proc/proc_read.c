/* proc_read.c - see proc_read.h */
#include "collect/proc/proc_read.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

long gw_proc_text(int root, const char *path, char *buf, size_t cap)
{
    int fd = openat(root, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    size_t len = 0;
    long rc = 0;
    while (len < cap - 1) {
        ssize_t n = read(fd, buf + len, cap - 1 - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = -errno;
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    close(fd);
    buf[len] = 0;
    return rc < 0 ? rc : (long)len;
}

static long thread_text(int root, int pid, int tid, const char *file, char *buf, size_t cap)
{
    char path[80];
    snprintf(path, sizeof path, "%d/task/%d/%s", pid, tid, file);
    return gw_proc_text(root, path, buf, cap);
}

static long process_text(int root, int pid, const char *file, char *buf, size_t cap)
{
    char path[80];
    snprintf(path, sizeof path, "%d/%s", pid, file);
    return gw_proc_text(root, path, buf, cap);
}

int gw_proc_parse_stat(const char *text, struct gw_proc_stat *out)
{
    memset(out, 0, sizeof *out);
    const char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (!open || !close || close < open || close[1] != ' ')
        return -EINVAL;
    size_t n = (size_t)(close - open - 1);
    if (n >= sizeof out->comm)
        n = sizeof out->comm - 1;
    memcpy(out->comm, open + 1, n);
    const char *p = close + 2;
    out->state = *p;
    uint64_t v[42] = {0}; /* v[i] is field i + 4: ppid is v[0] */
    int64_t first = 0;
    int fields = 0;
    for (p = p[0] ? p + 1 : p; *p && fields < 42; fields++) {
        char *end;
        int64_t x = (int64_t)strtoll(p, &end, 10);
        if (end == p)
            break;
        if (fields == 0)
            first = x;
        v[fields] = (uint64_t)x;
        p = end;
    }
    if (fields < 36)
        return -EINVAL;
    out->ppid = (int)first;
    out->minflt = v[6];
    out->majflt = v[8];
    out->utime = v[10];
    out->stime = v[11];
    out->threads = (int64_t)v[16];
    out->start_ticks = v[18];
    out->processor = (int)v[35];
    out->blkio_ticks = fields > 38 ? v[38] : UINT64_MAX;
    return 0;
}

int gw_proc_stat(int root, int pid, int tid, struct gw_proc_stat *out)
{
    char buf[2048];
    long n = tid == pid ? process_text(root, pid, "stat", buf, sizeof buf) : thread_text(root, pid, tid, "stat", buf, sizeof buf);
    return n < 0 ? (int)n : gw_proc_parse_stat(buf, out);
}

int gw_proc_schedstat(int root, int pid, int tid, uint64_t *cpu_ns, uint64_t *wait_ns)
{
    char buf[128], *end;
    *cpu_ns = *wait_ns = UINT64_MAX;
    long n = thread_text(root, pid, tid, "schedstat", buf, sizeof buf);
    if (n < 0)
        return (int)n;
    uint64_t cpu = strtoull(buf, &end, 10);
    if (end == buf)
        return -EINVAL;
    const char *second = end;
    uint64_t wait = strtoull(second, &end, 10);
    if (end == second)
        return -EINVAL;
    *cpu_ns = cpu;
    *wait_ns = wait;
    return 0;
}

int gw_proc_syscall(int root, int pid, int tid, int *nr, uint64_t *arg0)
{
    char buf[256];
    *nr = -1;
    *arg0 = 0;
    long n = thread_text(root, pid, tid, "syscall", buf, sizeof buf);
    if (n < 0)
        return (int)n;
    if (strncmp(buf, "running", 7) == 0)
        return 0;
    char *end;
    long v = strtol(buf, &end, 10);
    if (end == buf)
        return -EINVAL;
    *nr = (int)v;
    if (v >= 0)
        *arg0 = strtoull(end, NULL, 16);
    return 0;
}

int gw_proc_wchan(int root, int pid, int tid, char *buf, size_t cap)
{
    long n = thread_text(root, pid, tid, "wchan", buf, cap);
    if (n < 0)
        buf[0] = 0;
    else if (buf[0] == '0' && buf[1] == 0)
        buf[0] = 0;
    return n < 0 ? (int)n : 0;
}

/* The number after "key" at the start of a line, or -1. */
static int64_t line_value(const char *text, const char *key)
{
    size_t len = strlen(key);
    for (const char *p = text; p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
        if (strncmp(p, key, len) == 0)
            return (int64_t)strtoll(p + len, NULL, 10);
    return -1;
}

int gw_proc_io(int root, int pid, struct gw_proc_io *out)
{
    char buf[512];
    long n = process_text(root, pid, "io", buf, sizeof buf);
    memset(out, 0xff, sizeof *out);
    if (n < 0)
        return (int)n;
    out->rchar = (uint64_t)line_value(buf, "rchar:");
    out->wchar = (uint64_t)line_value(buf, "wchar:");
    out->read_bytes = (uint64_t)line_value(buf, "read_bytes:");
    out->write_bytes = (uint64_t)line_value(buf, "write_bytes:");
    return 0;
}

static int64_t kilobytes(const char *text, const char *key)
{
    int64_t v = line_value(text, key);
    return v < 0 ? -1 : v * 1024;
}

int gw_proc_status(int root, int pid, int tid, struct gw_proc_status *out)
{
    char buf[8192];
    memset(out, 0, sizeof *out);
    long n = tid == pid ? process_text(root, pid, "status", buf, sizeof buf) : thread_text(root, pid, tid, "status", buf, sizeof buf);
    if (n < 0)
        return (int)n;
    out->voluntary = line_value(buf, "voluntary_ctxt_switches:");
    out->involuntary = line_value(buf, "nonvoluntary_ctxt_switches:");
    out->rss_bytes = kilobytes(buf, "VmRSS:");
    out->swap_bytes = kilobytes(buf, "VmSwap:");
    int64_t file = kilobytes(buf, "RssFile:"), shm = kilobytes(buf, "RssShmem:");
    out->shared_bytes = file < 0 ? -1 : file + (shm < 0 ? 0 : shm);
    const char *p = strstr(buf, "\nCpus_allowed_list:");
    if (p) {
        p += strlen("\nCpus_allowed_list:");
        p += strspn(p, " \t");
        size_t len = strcspn(p, "\n");
        if (len >= sizeof out->cpus_allowed)
            len = sizeof out->cpus_allowed - 1;
        memcpy(out->cpus_allowed, p, len);
    }
    return 0;
}

long gw_proc_cmdline(int root, int pid, char *buf, size_t cap)
{
    long n = process_text(root, pid, "cmdline", buf, cap);
    for (long i = 0; i < n; i++)
        if (buf[i] == 0 || (unsigned char)buf[i] < ' ')
            buf[i] = ' ';
    while (n > 0 && buf[n - 1] == ' ')
        buf[--n] = 0;
    return n;
}

int gw_proc_each_thread(int root, int pid, void (*fn)(void *user, int tid), void *user)
{
    char path[40];
    snprintf(path, sizeof path, "%d/task", pid);
    int fd = openat(root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    DIR *d = fdopendir(fd);
    if (!d) {
        close(fd);
        return -ENOMEM;
    }
    for (struct dirent *e; (e = readdir(d));) {
        int tid = atoi(e->d_name);
        if (tid > 0)
            fn(user, tid);
    }
    closedir(d);
    return 0;
}

struct children {
    int root, pid;
    void (*fn)(void *user, int child);
    void *user;
    int unknown; /* the kernel has no children files */
};

static void children_of_thread(void *user, int tid)
{
    struct children *c = user;
    char buf[8192];
    long n = thread_text(c->root, c->pid, tid, "children", buf, sizeof buf);
    if (n == -ENOENT && tid == c->pid)
        c->unknown = 1;
    const char *p = n > 0 ? buf : "";
    for (char *end; *p; p = end) {
        long v = strtol(p, &end, 10);
        if (end == p)
            break;
        c->fn(c->user, (int)v);
    }
}

/* Without CONFIG_PROC_CHILDREN: every process says who its parent is. */
static int scan_for_children(struct children *c)
{
    int fd = openat(c->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        if (fd >= 0)
            close(fd);
        return -ENOENT;
    }
    for (struct dirent *e; (e = readdir(d));) {
        struct gw_proc_stat st;
        int pid = atoi(e->d_name);
        if (pid > 0 && gw_proc_stat(c->root, pid, pid, &st) == 0 && st.ppid == c->pid)
            c->fn(c->user, pid);
    }
    closedir(d);
    return 0;
}

int gw_proc_each_child(int root, int pid, void (*fn)(void *user, int child), void *user)
{
    struct children c = {root, pid, fn, user, 0};
    int rc = gw_proc_each_thread(root, pid, children_of_thread, &c);
    return rc == 0 && c.unknown ? scan_for_children(&c) : rc;
}

int gw_proc_maps_has(int root, int pid, const char *word)
{
    char path[40], buf[65536 + 1];
    size_t keep = 0;
    snprintf(path, sizeof path, "%d/maps", pid);
    int fd = openat(root, path, O_RDONLY | O_CLOEXEC), found = 0;
    if (fd < 0)
        return 0;
    for (ssize_t n; !found && (n = read(fd, buf + keep, sizeof buf - 1 - keep)) > 0;) {
        size_t len = keep + (size_t)n;
        buf[len] = 0;
        found = strstr(buf, word) != NULL;
        keep = len < 64 ? len : 64; /* a word may straddle two reads */
        memmove(buf, buf + len - keep, keep);
    }
    close(fd);
    return found;
}

size_t gw_proc_maps_path(int root, int pid, const char *word, char *out, size_t cap)
{
    char path[40], line[4400];
    snprintf(path, sizeof path, "%d/maps", pid);
    int fd = openat(root, path, O_RDONLY | O_CLOEXEC);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    size_t len = 0;
    if (!f && fd >= 0)
        close(fd);
    while (f && !len && fgets(line, sizeof line, f)) {
        const char *at = strchr(line, '/'); /* the path is the last field */
        if (!at || !strstr(at, word))
            continue;
        size_t n = strcspn(at, "\n");
        if (n < cap) {
            memcpy(out, at, n);
            out[n] = 0;
            len = n;
        }
    }
    if (f)
        fclose(f);
    return len;
}

int gw_proc_holds_file(int root, int pid, const char *word)
{
    char path[40], link[512];
    snprintf(path, sizeof path, "%d/fd", pid);
    int fd = openat(root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), found = 0;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d && fd >= 0)
        close(fd);
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        ssize_t n = readlinkat(dirfd(d), e->d_name, link, sizeof link - 1);
        link[n > 0 ? n : 0] = 0;
        found = strstr(link, word) != NULL;
    }
    if (d)
        closedir(d);
    return found;
}

