/* sweep_tree.c - the processes of a job that is measured: their memory, their end; and what its record says of the GPU.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/sweep_point.h"
#include "collect/proc/proc_read.h"
#include "collect/proc/proc_tree.h"
#include "record/record_read.h"

#define MS 1000000ll
enum { GRACE_MS = 3000, KILL_MS = 5000, LOOK_MS = 20, DEPTH = 32, PROCESSES = 4096, GPUS = 64 };

/* --- end --- */

struct found {
    int proc, depth;
    int pid[PROCESSES];
    size_t n;
};

static void each_child(void *user, int child)
{
    struct found *f = user;
    if (f->n == PROCESSES || f->depth == DEPTH)
        return;
    f->pid[f->n++] = child;
    f->depth++;
    (void)gw_proc_each_child(f->proc, child, each_child, f);
    f->depth--;
}

static size_t below_us(struct found *f, int proc)
{
    f->proc = proc;
    f->depth = 0;
    f->n = 0;
    (void)gw_proc_each_child(proc, (int)getpid(), each_child, f);
    return f->n;
}

void gw_sweep_tree_reap(struct gw_child *c)
{
    int status;
    for (pid_t p; (p = waitpid(-1, &status, WNOHANG)) > 0;)
        if (p == c->pid) {
            c->status = status;
            c->ended = 1;
        }
}

static void send_to_all(const struct found *f, int signo)
{
    for (size_t i = 0; i < f->n; i++)
        kill(f->pid[i], signo);
}

void gw_sweep_tree_signal(int proc, int signo)
{
    struct found *f = malloc(sizeof *f);
    if (f && below_us(f, proc))
        send_to_all(f, signo);
    free(f);
}

/* Signals what is there, again and again for what comes late, until nothing is left. 1 when so. */
static int drive_out(struct gw_child *c, struct found *f, int proc, int signo, int ms)
{
    struct timespec nap = {0, LOOK_MS * MS};
    size_t before = 0;
    for (int waited = 0; waited < ms; waited += LOOK_MS) {
        gw_sweep_tree_reap(c);
        if (!below_us(f, proc))
            return 1;
        if (f->n != before || signo == SIGKILL) { /* a TERM once; but to newcomers too */
            send_to_all(f, signo);
            send_to_all(f, SIGCONT); /* a stopped process cannot take it */
        }
        before = f->n;
        nanosleep(&nap, NULL);
    }
    return 0;
}

void gw_sweep_tree_end(struct gw_child *c, int proc)
{
    struct found *f = malloc(sizeof *f);
    if (!f) {
        kill(-c->pid, SIGKILL);
        gw_sweep_tree_reap(c);
        return;
    }
    if (!drive_out(c, f, proc, SIGTERM, GRACE_MS))
        (void)drive_out(c, f, proc, SIGKILL, KILL_MS);
    gw_sweep_tree_reap(c);
    free(f);
}

/* --- memory of the host --- */

/* Sum of the "NAME: N kB" lines of a file, in bytes; NAN when there is none. */
static double kilobytes(const char *text, const char *name)
{
    double sum = NAN;
    for (const char *p = text; (p = strstr(p, name)) != NULL; p += strlen(name)) {
        if ((p != text && p[-1] != '\n') || p[strlen(name)] != ':')
            continue;
        double v = strtod(p + strlen(name) + 1, NULL) * 1024;
        sum = isnan(sum) ? v : sum + v;
    }
    return sum;
}

/* Memory that a process shares with nobody. */
static double own_bytes(int proc, int pid)
{
    char path[64], text[4096];
    struct gw_proc_status st;
    snprintf(path, sizeof path, "%d/smaps_rollup", pid);
    if (gw_proc_text(proc, path, text, sizeof text) > 0)
        return kilobytes(text, "Private_Clean") + kilobytes(text, "Private_Dirty");
    if (gw_proc_status(proc, pid, pid, &st) == 0 && st.rss_bytes >= 0)
        return (double)(st.rss_bytes - (st.shared_bytes > 0 ? st.shared_bytes : 0));
    return NAN;
}

static double small_number(const char *path)
{
    char text[64];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    return isdigit((unsigned char)*text) ? strtod(text, NULL) : NAN;
}

/* A forked copy of its parent, or a worker that was spawned. The tree's flag is from its first look, when the parent
 * may have been a wrapper that became the job afterwards: so the command lines are compared now. */
static int is_worker(const struct gw_session *s, const struct gw_tree_process *p)
{
    char own[512], parent[512];
    if ((p->flags & GW_PF_FORKED) || strstr(p->cmdline, "spawn_main") || strstr(p->cmdline, "pt_data_worker"))
        return 1;
    return p->ppid != getpid() && gw_proc_cmdline(s->proc, p->pid, own, sizeof own) > 0 &&
           gw_proc_cmdline(s->proc, p->ppid, parent, sizeof parent) > 0 && strcmp(own, parent) == 0;
}

void gw_sweep_tree_memory(struct gw_session *s, struct gw_sweep_memory *m)
{
    char text[4096];
    const struct gw_tree_process *p;
    double sum = 0;
    size_t n = 0, known = 0;
    if (s->tree)
        gw_tree_discover(s->tree); /* the run may have been shorter than the time between two looks */
    for (size_t i = 0; s->tree && (p = gw_tree_process(s->tree, i)); i++) {
        if (!p->alive || !is_worker(s, p))
            continue;
        double own = own_bytes(s->proc, p->pid);
        n++;
        if (!isnan(own)) {
            sum += own;
            known++;
        }
    }
    m->workers = (double)n;
    m->worker_bytes = known ? sum / (double)known : NAN;
    m->host_free = gw_proc_text(s->proc, "meminfo", text, sizeof text) > 0 ? kilobytes(text, "MemAvailable") : NAN;
    double limit = small_number("/sys/fs/cgroup/memory.max"), used = small_number("/sys/fs/cgroup/memory.current");
    if (limit - used < m->host_free)
        m->host_free = limit - used;
}

/* --- the GPU, out of the record --- */

struct gpu {
    double first, most, total, busy;
    size_t looks, busy_looks;
};

struct gpus {
    struct gpu gpu[GPUS];
    uint32_t used, busy; /* string ids of the two counters */
};

static void counter(struct gpus *g, const struct gw_rec_counter *c)
{
    if (c->device < 0 || c->device >= GPUS || !c->name)
        return;
    struct gpu *u = g->gpu + c->device;
    if (c->name == g->used) {
        if (!u->looks++)
            u->first = u->most = c->value;
        u->most = fmax(u->most, c->value);
    } else if (c->name == g->busy) {
        u->busy += c->value / 100;
        u->busy_looks++;
    }
}

/* "gpu.0.memory_bytes=151234..." lines. */
static void facts(struct gpus *g, const char *text, size_t len)
{
    static const char key[] = ".memory_bytes=";
    char line[256];
    for (const char *p = text, *end; p < text + len; p = end + 1) {
        end = memchr(p, '\n', (size_t)(text + len - p));
        if (!end)
            return;
        snprintf(line, sizeof line, "%.*s", (int)(end - p), p);
        char *rest, *v = strstr(line, key);
        unsigned long i = strncmp(line, "gpu.", 4) == 0 ? strtoul(line + 4, &rest, 10) : GPUS;
        if (v && i < GPUS && rest == v)
            g->gpu[i].total = strtod(v + sizeof key - 1, NULL);
    }
}

static void chunk(struct gpus *g, const struct gw_chunk *c)
{
    struct gw_rec_name_head h;
    if (c->type == GW_RT_NAME && c->bytes > sizeof h) {
        memcpy(&h, c->data, sizeof h);
        size_t len = c->bytes - sizeof h;
        const char *name = (const char *)c->data + sizeof h;
        if (len == 22 && memcmp(name, "nvml.memory_used_bytes", 22) == 0)
            g->used = h.id;
        else if (len == 24 && memcmp(name, "nvml.utilization_percent", 24) == 0)
            g->busy = h.id;
    } else if (c->type == GW_RT_FACT) {
        facts(g, (const char *)c->data, c->bytes);
    }
    for (uint32_t i = 0; c->type == GW_RT_COUNTER && i < c->count; i++) {
        struct gw_rec_counter v;
        gw_chunk_get(c, i, &v, sizeof v);
        counter(g, &v);
    }
}

void gw_sweep_record_gpu(const char *folder, struct gw_sweep_run *out)
{
    char path[4096 + 32];
    struct gw_reader r;
    struct gw_chunk c;
    struct gpus g;
    memset(&g, 0, sizeof g);
    out->gpu_bytes = out->gpu_total = out->gpu_busy = NAN;
    snprintf(path, sizeof path, "%s/%s", folder, GW_REC_META);
    if (gw_reader_open(&r, path, NULL) < 0)
        return;
    while (gw_reader_next(&r, &c))
        chunk(&g, &c);
    gw_reader_close(&r);
    const struct gpu *best = NULL;
    for (size_t i = 0; i < GPUS; i++)
        if (g.gpu[i].looks && (!best || g.gpu[i].most - g.gpu[i].first > best->most - best->first))
            best = g.gpu + i;
    if (!best)
        return;
    out->gpu_bytes = best->most;
    out->gpu_total = best->total > 0 ? best->total : NAN;
    out->gpu_busy = best->busy_looks ? best->busy / (double)best->busy_looks : NAN;
}

/* --- the hook's notes --- */

/* The text of a key in a line that Python's json.dumps() wrote; "" when it is not there. */
static void text_of(const char *line, const char *key, char *out, size_t cap)
{
    const char *p = strstr(line, key);
    size_t n = 0;
    for (p = p ? p + strlen(key) : ""; *p && *p != '"' && n + 1 < cap; p++)
        out[n++] = *p == '\\' ? '/' : *p;
    out[n] = 0;
}

static void hook_line(struct gw_sweep_hook *h, const char *line)
{
    static const char batch[] = "\"batch_size\": ";
    if (!strstr(line, "\"what\": \"sweep\""))
        return;
    h->applied += strstr(line, "\"applied\": true") != NULL;
    if (strstr(line, "\"applied\": false"))
        text_of(line, "\"error\": \"", h->error, sizeof h->error);
    if (strstr(line, "\"alone\": ")) {
        const char *p = strstr(line, batch);
        text_of(line, "\"dataset\": \"", h->dataset, sizeof h->dataset);
        h->batch = p && isdigit((unsigned char)p[sizeof batch - 1]) ? strtod(p + sizeof batch - 1, NULL) : NAN;
    }
}

void gw_sweep_hook_read(const char *folder, struct gw_sweep_hook *h)
{
    DIR *d = opendir(folder);
    memset(h, 0, sizeof *h);
    h->batch = NAN;
    for (struct dirent *e; d && (e = readdir(d));) {
        char line[2048];
        int fd =
            strncmp(e->d_name, "hook-", 5) == 0 ? openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
        FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
        while (f && fgets(line, sizeof line, f))
            hook_line(h, line);
        if (f)
            fclose(f);
        else if (fd >= 0)
            close(fd);
    }
    if (d)
        closedir(d);
}

void gw_sweep_remove(const char *folder)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            (void)unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    (void)rmdir(folder);
}
