/* Memory and disk, without a GPU. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/gw_i18n.h"

#include "collect/measure/measure.h"

#define MEMORY_BYTES ((size_t)128 << 20) /* far past any last-level cache of a core */
#define READ_BYTES ((size_t)256 << 20)
#define CHUNK ((size_t)1 << 20)
#define READ_SECONDS 3.0
enum { SMALL_READS = 200, SMALL = 4096, MAX_FILES = 400, MAX_DEPTH = 4 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void gw_measure_add(struct gw_env *env, const char *id, int64_t gpu, double value, const char *unit, const char *how)
{
    const char *i = gw_env_dup(env, id, strlen(id)), *u = gw_env_dup(env, unit, strlen(unit)),
               *h = gw_env_dup(env, how, strlen(how));
    struct gw_env_measure *m = gw_env_add(env, GW_REC_MEASURE);
    if (!m)
        return;
    m->id = i;
    m->unit = u;
    m->how = h;
    m->gpu = gpu;
    m->value = value;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void gw_measure_memory(struct gw_env *env)
{
    enum { ROUNDS = 9 };
    double s[ROUNDS];
    char *a = mmap(NULL, 2 * MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (a == MAP_FAILED) {
        gw_env_note(env, "--measure", "memory: %s", gw_i18n_errno(errno));
        return;
    }
    memset(a, 1, 2 * MEMORY_BYTES);
    for (int r = -1; r < ROUNDS; r++) {
        double t0 = now();
        memcpy(a + MEMORY_BYTES, a, MEMORY_BYTES);
        __asm__ volatile("" ::"r"(a) : "memory"); /* the copy is wanted although nobody reads it */
        if (r >= 0)
            s[r] = now() - t0;
    }
    munmap(a, 2 * MEMORY_BYTES);
    qsort(s, ROUNDS, sizeof *s, by_value);
    gw_measure_add(env, "host-copy", GW_ENV_NONE, 2 * (double)MEMORY_BYTES / s[ROUNDS / 2], "bytes/s",
                   "memcpy of 128 MiB with one thread, median of 9, read and written bytes");
}

/* --- disk
 * ------------------------------------------------------------------------------------------------------------- */

struct reader {
    char *buf;  /* CHUNK bytes, aligned for O_DIRECT */
    int direct; /* 1 while no file refused O_DIRECT */
    int files;
    size_t bytes;
    double seconds, until;
    double small[SMALL_READS];
    int small_count;
    unsigned long long random;
};

/* Offsets for small reads: xorshift; which offsets does not matter, that they are spread does. */
static unsigned long long next_random(struct reader *r)
{
    r->random ^= r->random << 13;
    r->random ^= r->random >> 7;
    r->random ^= r->random << 17;
    return r->random;
}

static void small_reads(struct reader *r, int fd, size_t size)
{
    for (int i = 0; i < 50 && r->small_count < SMALL_READS && now() < r->until; i++) {
        off_t at = (off_t)(next_random(r) % (size / SMALL) * SMALL);
        double t0 = now();
        if (pread(fd, r->buf, SMALL, at) != SMALL)
            return;
        r->small[r->small_count++] = now() - t0;
    }
}

static void read_one(struct reader *r, const char *path, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (fd < 0 && errno == EINVAL) { /* tmpfs, overlay on some kernels, FUSE */
        r->direct = 0;
        fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    if (fd < 0)
        return;
    double t0 = now();
    for (;;) {
        ssize_t n = read(fd, r->buf, CHUNK);
        if (n <= 0)
            break;
        r->bytes += (size_t)n;
        if (r->bytes >= READ_BYTES || now() > r->until)
            break;
    }
    r->seconds += now() - t0;
    r->files++;
    if (r->direct && size >= 64 * SMALL)
        small_reads(r, fd, size);
    close(fd);
}

static void walk(struct reader *r, const char *path, int depth)
{
    struct stat st;
    if (r->bytes >= READ_BYTES || r->files >= MAX_FILES || now() > r->until || lstat(path, &st) < 0)
        return;
    if (S_ISREG(st.st_mode) && st.st_size > 0) {
        read_one(r, path, (size_t)st.st_size);
    } else if (S_ISDIR(st.st_mode) && depth < MAX_DEPTH) {
        char child[4096];
        struct dirent *e;
        DIR *d = opendir(path);
        while (d && r->bytes < READ_BYTES && now() < r->until && (e = readdir(d)))
            if (e->d_name[0] != '.' && snprintf(child, sizeof child, "%s/%s", path, e->d_name) < (int)sizeof child)
                walk(r, child, depth + 1);
        if (d)
            closedir(d);
    }
}

void gw_measure_disk(struct gw_env *env, const char *path)
{
    struct reader *r = calloc(1, sizeof *r);
    char how[160], real[4096];
    if (!r)
        return;
    r->buf = aligned_alloc(4096, CHUNK);
    r->direct = 1;
    r->random = 88172645463325252ull;
    r->until = now() + READ_SECONDS;
    if (r->buf && realpath(path, real))
        walk(r, real, 0);
    if (r->bytes && r->seconds > 0) {
        snprintf(how, sizeof how, "%.0f MiB of %d files, %s", (double)r->bytes / (1 << 20), r->files,
                 r->direct ? "past the page cache" : "buffered: the page cache may have helped");
        gw_measure_add(env, "disk-read", GW_ENV_NONE, (double)r->bytes / r->seconds, "bytes/s", how);
    } else {
        gw_env_note(env, path, "no file in it could be read, so its speed is not known");
    }
    if (r->small_count >= 20) {
        qsort(r->small, (size_t)r->small_count, sizeof *r->small, by_value);
        snprintf(how, sizeof how, "median of %d random reads of 4 KiB past the page cache", r->small_count);
        gw_measure_add(env, "disk-latency", GW_ENV_NONE, r->small[r->small_count / 2], "s", how);
    }
    free(r->buf);
    free(r);
}
