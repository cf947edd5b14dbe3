/* proc_tree.c - see proc_tree.h */
#include "collect/proc/proc_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "collect/proc/proc_mounts.h"
#include "collect/proc/py_find.h"

/* A thread joins the sampled ones when it used this share of a CPU since the last discovery. */
#define FOCUS_SHARE 0.03
#define KEEP_NS 1000000000ull /* an unchanged thread is written again after this long */

struct gw_tree {
    int proc, root_pid;
    struct gw_sink *sink;
    struct gw_mounts *mounts;
    struct gw_tree_process p[GW_TREE_PROCESSES];
    struct gw_tree_thread t[GW_TREE_THREADS];
    size_t np, nt;
    uint64_t last_discover;
    uint32_t parent; /* while scanning */
    struct { uint32_t rss, swap, shared, rchar, wchar, rbytes, wbytes, minflt, majflt, vol, invol, threads, cpu, blkio; } name;
    int stacks;           /* read Python stacks */
    uint64_t last_sample; /* CLOCK_MONOTONIC */
    uint64_t pace;        /* between two samples, as the caller makes them */
    int no_python;        /* reasons given */
    int no_syscall, no_io; /* permission is missing; said once */
    int overflow;
};

struct gw_tree *gw_tree_create(int proc_root, int root_pid, struct gw_sink *sink)
{
    struct gw_tree *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->proc = proc_root;
    t->root_pid = root_pid;
    t->sink = sink;
    t->mounts = gw_mounts_create(proc_root, sink);
    const struct { uint32_t *to; const char *name; } names[] = {
        {&t->name.rss, "process.rss_bytes"}, {&t->name.swap, "process.swap_bytes"}, {&t->name.shared, "process.shared_bytes"},
        {&t->name.rchar, "process.rchar"}, {&t->name.wchar, "process.wchar"}, {&t->name.rbytes, "process.read_bytes"},
        {&t->name.wbytes, "process.write_bytes"}, {&t->name.minflt, "process.minor_faults"},
        {&t->name.majflt, "process.major_faults"}, {&t->name.vol, "process.voluntary_switches"},
        {&t->name.invol, "process.involuntary_switches"}, {&t->name.threads, "process.threads"},
        {&t->name.cpu, "process.cpu_s"}, {&t->name.blkio, "process.block_io_s"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        *names[i].to = gw_sink_string(sink, names[i].name);
    return t;
}

void gw_tree_destroy(struct gw_tree *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->np; i++)
        gw_py_close(t->p[i].python);
    gw_mounts_destroy(t->mounts);
    free(t);
}

void gw_tree_set_stacks(struct gw_tree *t, int on) { t->stacks = on; }

const struct gw_tree_process *gw_tree_process(const struct gw_tree *t, size_t i) { return i < t->np ? &t->p[i] : NULL; }

static struct gw_tree_process *find(struct gw_tree *t, int pid)
{
    for (size_t i = t->np; i-- > 0;)
        if (t->p[i].pid == pid && t->p[i].alive)
            return &t->p[i];
    return NULL;
}

void gw_tree_set_injected(struct gw_tree *t, int pid)
{
    struct gw_tree_process *p = find(t, pid);
    if (p)
        p->flags |= GW_PF_INJECTED | GW_PF_CUDA;
}

/* --- processes -------------------------------------------------------------------------------------------------- */

static void say_process(struct gw_tree *t, const struct gw_tree_process *p, enum gw_proc_what what)
{
    struct gw_rec_process r = {.start_ticks = p->start_ticks, .what = (uint32_t)what, .pid = (uint32_t)p->pid,
                               .ppid = (uint32_t)p->ppid, .name = gw_sink_string(t->sink, p->cmdline), .comm = p->comm,
                               .flags = p->flags};
    gw_sink_process(t->sink, &r);
}

static uint32_t exe_flags(int proc, int pid)
{
    char path[40], exe[512];
    snprintf(path, sizeof path, "%d/exe", pid);
    ssize_t n = readlinkat(proc, path, exe, sizeof exe - 1);
    if (n <= 0)
        return 0;
    exe[n] = 0;
    const char *base = strrchr(exe, '/');
    return strncmp(base ? base + 1 : exe, "python", 6) == 0 ? GW_PF_PYTHON : 0;
}

/* A free row: a new one, or that of a process that ended. NULL when the table is full of living ones. */
static struct gw_tree_process *new_row(struct gw_tree *t)
{
    if (t->np < GW_TREE_PROCESSES)
        return &t->p[t->np++];
    for (size_t i = 1; i < t->np; i++)
        if (!t->p[i].alive)
            return &t->p[i];
    if (!t->overflow++)
        gw_sink_factf(t->sink, "limit.processes", "%d", GW_TREE_PROCESSES);
    return NULL;
}

static void add_process(struct gw_tree *t, int pid)
{
    struct gw_proc_stat st;
    if (find(t, pid) || gw_proc_stat(t->proc, pid, pid, &st) < 0 || st.state == 'Z')
        return;
    struct gw_tree_process *p = new_row(t);
    if (!p)
        return;
    gw_py_close(p->python); /* of the process that had the row before */
    memset(p, 0, sizeof *p);
    p->pid = pid;
    p->ppid = st.ppid;
    p->alive = 1;
    p->start_ticks = st.start_ticks;
    p->seen_ns = gw_clock_ns(CLOCK_MONOTONIC);
    p->comm = gw_sink_string(t->sink, st.comm);
    p->flags = exe_flags(t->proc, pid) | (pid == t->root_pid ? GW_PF_CHILD : 0);
    if (gw_proc_cmdline(t->proc, pid, p->cmdline, sizeof p->cmdline) < 0)
        p->cmdline[0] = 0;
    const struct gw_tree_process *up = find(t, st.ppid);
    if (up && p->cmdline[0] && strcmp(up->cmdline, p->cmdline) == 0)
        p->flags |= GW_PF_FORKED;
    struct gw_proc_status s;
    if (gw_proc_status(t->proc, pid, pid, &s) == 0 && s.cpus_allowed[0]) {
        char key[64];
        snprintf(key, sizeof key, "cpus_allowed.%d", pid);
        gw_sink_fact(t->sink, key, s.cpus_allowed);
    }
    say_process(t, p, GW_PW_APPEARED);
}

static void on_child(void *user, int child)
{
    add_process(user, child);
}

/* The driver's library among the mappings? Costs the kernel a walk, so it is done a few times only. */
static void look_for_cuda(struct gw_tree *t, struct gw_tree_process *p, uint64_t now)
{
    static const uint64_t at[] = {3, 10, 30, 90}; /* seconds after the first sight */
    if ((p->flags & GW_PF_CUDA) || p->maps_looks >= sizeof at / sizeof *at ||
        now < p->seen_ns + at[p->maps_looks] * 1000000000u)
        return;
    p->maps_looks++;
    if (gw_proc_maps_has(t->proc, p->pid, "libcuda.so")) {
        p->flags |= GW_PF_CUDA;
        say_process(t, p, GW_PW_RENAMED);
    }
}

static void process_counters(struct gw_tree *t, struct gw_tree_process *p, const struct gw_proc_stat *st)
{
    struct gw_proc_io io;
    struct gw_proc_status s;
    struct gw_sink *k = t->sink;
    static long hz;
    if (!hz)
        hz = sysconf(_SC_CLK_TCK);
    gw_sink_counter(k, t->name.minflt, -1, p->pid, 0, (double)st->minflt);
    gw_sink_counter(k, t->name.majflt, -1, p->pid, 0, (double)st->majflt);
    gw_sink_counter(k, t->name.threads, -1, p->pid, 0, (double)st->threads);
    gw_sink_counter(k, t->name.cpu, -1, p->pid, 0, (double)(st->utime + st->stime) / (double)hz);
    if (st->blkio_ticks != UINT64_MAX)
        gw_sink_counter(k, t->name.blkio, -1, p->pid, 0, (double)st->blkio_ticks / (double)hz);
    int rc = gw_proc_io(t->proc, p->pid, &io);
    if (rc == 0) {
        gw_sink_counter(k, t->name.rchar, -1, p->pid, 0, (double)io.rchar);
        gw_sink_counter(k, t->name.wchar, -1, p->pid, 0, (double)io.wchar);
        gw_sink_counter(k, t->name.rbytes, -1, p->pid, 0, (double)io.read_bytes);
        gw_sink_counter(k, t->name.wbytes, -1, p->pid, 0, (double)io.write_bytes);
    } else if (rc == -EACCES && !t->no_io++) {
        gw_sink_fact(k, "permission.io", "no: /proc/PID/io is not readable");
    }
    if (gw_proc_status(t->proc, p->pid, p->pid, &s) == 0) {
        if (s.rss_bytes >= 0)
            gw_sink_counter(k, t->name.rss, -1, p->pid, 0, (double)s.rss_bytes);
        if (s.swap_bytes >= 0)
            gw_sink_counter(k, t->name.swap, -1, p->pid, 0, (double)s.swap_bytes);
        if (s.shared_bytes >= 0)
            gw_sink_counter(k, t->name.shared, -1, p->pid, 0, (double)s.shared_bytes);
        if (s.voluntary >= 0)
            gw_sink_counter(k, t->name.vol, -1, p->pid, 0, (double)s.voluntary);
        if (s.involuntary >= 0)
            gw_sink_counter(k, t->name.invol, -1, p->pid, 0, (double)s.involuntary);
    }
}

/* --- threads ---------------------------------------------------------------------------------------------------- */

static struct gw_tree_thread *new_thread_row(struct gw_tree *t)
{
    if (t->nt < GW_TREE_THREADS)
        return &t->t[t->nt++];
    for (size_t i = 0; i < t->nt; i++)
        if (!t->t[i].alive)
            return &t->t[i];
    if (!t->overflow++)
        gw_sink_factf(t->sink, "limit.threads", "%d", GW_TREE_THREADS);
    return NULL;
}

static void on_thread(void *user, int tid)
{
    struct gw_tree *t = user;
    struct gw_tree_process *p = &t->p[t->parent];
    for (size_t i = 0; i < t->nt; i++)
        if (t->t[i].tid == tid && t->t[i].pid == p->pid && t->t[i].alive) {
            t->t[i].alive = 2; /* seen in this round */
            return;
        }
    struct gw_proc_stat st;
    if (gw_proc_stat(t->proc, p->pid, tid, &st) < 0)
        return;
    struct gw_tree_thread *r = new_thread_row(t);
    if (!r)
        return;
    *r = (struct gw_tree_thread){.pid = p->pid, .tid = tid, .process = t->parent, .alive = 2, .focus = tid == p->pid,
                                 .comm = gw_sink_string(t->sink, st.comm), .state = '?', .syscall = -2};
    if (strncmp(st.comm, "pt_data", 7) == 0) /* the data loader's pin thread and workers */
        r->focus = 1;
}

/* --- calls of CUDA ------------------------------------------------------------------------------------------------------ */

void gw_tree_set_calls(struct gw_tree *t, int pid, uint64_t table, uint32_t slots)
{
    for (size_t i = 0; i < t->np; i++)
        if (t->p[i].pid == pid && t->p[i].alive) {
            t->p[i].calls_table = table;
            t->p[i].calls_slots = slots;
        }
}

/* The call of CUDA that a thread is in: enum gw_call. A number that makes no sense is none. */
static uint32_t call_of(const struct gw_tree_process *p, struct gw_tree_thread *r)
{
    struct gw_call_slot s;
    if (!p->calls_table)
        return GW_CALL_NONE;
    while (!r->call_slot && r->call_slots_seen < p->calls_slots) {
        uint32_t i = r->call_slots_seen++;
        if (gw_py_memory(r->pid, p->calls_table + i * sizeof s, &s, sizeof s.tid) > 0 && s.tid == (uint32_t)r->tid)
            r->call_slot = i + 1;
    }
    if (!r->call_slot ||
        gw_py_memory(r->pid, p->calls_table + (r->call_slot - 1) * sizeof s, &s, offsetof(struct gw_call_slot, slack_ticks)) < 0)
        return GW_CALL_NONE;
    return s.tid == (uint32_t)r->tid && s.now < GW_CALL_COUNT ? s.now : GW_CALL_NONE;
}

static void sample_thread(struct gw_tree *t, struct gw_tree_thread *r, uint64_t now, int force);

/* Which threads deserve attention until the next discovery; and a sample of each, so that CPU time adds up. */
static void refocus(struct gw_tree *t, struct gw_tree_thread *r, uint64_t now, double seconds)
{
    uint64_t cpu, wait;
    if (gw_proc_schedstat(t->proc, r->pid, r->tid, &cpu, &wait) < 0) {
        r->alive = 0;
        return;
    }
    int is_named = r->focus && r->cpu_at_refresh == 0;
    int is_busy = seconds > 0 && r->cpu_at_refresh && (double)(cpu - r->cpu_at_refresh) > FOCUS_SHARE * seconds * 1e9;
    char comm[64];
    snprintf(comm, sizeof comm, "%.15s", gw_intern_text(t->sink->names, r->comm));
    r->focus = r->tid == r->pid || is_named || is_busy || strncmp(comm, "pt_data", 7) == 0;
    r->cpu_at_refresh = cpu ? cpu : 1;
    sample_thread(t, r, now, 1);
}

/* --- Python stacks ------------------------------------------------------------------------------------------------ */

#define STACK_NS 50000000ull        /* 20 stacks a second of a thread, at most */
#define WORKER_STACK_NS 250000000ull/* 4 of a worker's: there may be many */
enum { FUNCTIONS = 4096, WORKER_FUNCTIONS = 512, OPEN_TRIES = 8, MISSES = 40, MAX_STRINGS = 40000, FUTEX_X86 = 202, FUTEX_ARM = 98 };

static int is_worker(const struct gw_tree_process *p)
{
    return (p->flags & GW_PF_FORKED) || strstr(p->cmdline, "spawn_main") != NULL;
}

static void close_python(struct gw_tree_process *p)
{
    gw_py_close(p->python);
    p->python = NULL;
    p->py_tries = p->py_misses = 0;
    p->py_next = 0;
    p->lock_from = p->lock_to = 0;
}

static void open_python(struct gw_tree *t, struct gw_tree_process *p, uint64_t now)
{
    char why[128];
    int again = 0;
    if (!t->stacks || p->python || !(p->flags & GW_PF_PYTHON) || p->py_tries >= OPEN_TRIES || now < p->py_next)
        return;
    const struct gw_tree_process *up = p->flags & GW_PF_FORKED ? find(t, p->ppid) : NULL;
    p->py_tries++;
    /* the first second of a process may pass before its interpreter stands */
    p->py_next = now + (p->py_tries < 4 ? 0 : 1000000000ull << p->py_tries);
    if (up && up->python)
        p->python = gw_py_like(up->python, p->pid, WORKER_FUNCTIONS);
    else
        p->python = gw_py_open(t->proc, p->pid, is_worker(p) ? WORKER_FUNCTIONS : FUNCTIONS, &again, why, sizeof why);
    if (!p->python && !up && (!again || p->py_tries == OPEN_TRIES)) {
        p->py_tries = OPEN_TRIES;
        if (!t->no_python++)
            gw_sink_factf(t->sink, "permission.stacks", "no: process %d: %s", p->pid, why);
    }
}

/* The stack of a thread that was just looked at. It cannot have changed while the thread did not run. */
static uint32_t stack_of(struct gw_tree *t, struct gw_tree_thread *r, uint64_t now, uint64_t cpu_ns, uint32_t call)
{
    struct gw_tree_process *p = &t->p[r->process];
    uint64_t least = is_worker(p) ? WORKER_STACK_NS : STACK_NS;
    char text[4000];
    if (!p->python || (is_worker(p) && r->tid != r->pid))
        return 0;
    if (r->stack_ns && cpu_ns == r->stack_cpu)
        return r->stack;
    least = least < 2 * t->pace ? 2 * t->pace : least;
    /* Seldom seen, and worth a line each time: a thread inside a call of CUDA that is no launch. */
    int is_rare = call != GW_CALL_NONE && call != GW_CALL_LAUNCH && call != GW_CALL_GRAPH;
    if (!is_rare && r->stack_ns && now - r->stack_ns < least - least / 4) /* ticks are not exact */
        return 0;
    long n = gw_py_stack(p->python, r->tid, text, sizeof text);
    r->stack_ns = now;
    r->stack_cpu = cpu_ns;
    r->stack = n > 0 && gw_intern_count(t->sink->names) < MAX_STRINGS ? gw_sink_string(t->sink, text) : 0;
    if (r->tid == r->pid) {
        p->py_misses = n > 0 ? 0 : p->py_misses + 1;
        if (p->py_misses > MISSES) /* another program by exec(), most likely */
            close_python(p);
    }
    return r->stack;
}

static void find_locks(struct gw_tree *t)
{
    for (size_t i = 0; i < t->np; i++) {
        struct gw_tree_process *p = &t->p[i];
        if (p->alive && p->python && !is_worker(p) &&
            gw_py_lock(p->python, &p->lock_from, &p->lock_to, &p->lock_holder) < 0)
            p->lock_from = p->lock_to = 0;
    }
}

static void note_lock(const struct gw_tree_process *p, struct gw_rec_thread *out)
{
    if (!p->lock_from)
        return;
    out->gil = (uint32_t)p->lock_holder;
    if ((out->syscall == FUTEX_X86 || out->syscall == FUTEX_ARM) && out->syscall_arg >= p->lock_from && out->syscall_arg < p->lock_to)
        out->flags |= GW_TF_WANTS_GIL;
}

void gw_tree_discover(struct gw_tree *t)
{
    uint64_t now = gw_clock_ns(CLOCK_MONOTONIC);
    double seconds = t->last_discover ? (double)(now - t->last_discover) * 1e-9 : 0;
    t->last_discover = now;
    if (t->np == 0)
        add_process(t, t->root_pid);
    for (size_t i = 0; i < t->np; i++) { /* grows while we walk: grandchildren are found in the same round */
        struct gw_tree_process *p = &t->p[i];
        struct gw_proc_stat st;
        if (!p->alive)
            continue;
        if (gw_proc_stat(t->proc, p->pid, p->pid, &st) < 0 || st.start_ticks != p->start_ticks || st.state == 'Z') {
            p->alive = 0;
            close_python(p);
            say_process(t, p, GW_PW_ENDED);
            continue;
        }
        uint32_t comm = gw_sink_string(t->sink, st.comm);
        char cmdline[sizeof p->cmdline];
        if (comm != p->comm && gw_proc_cmdline(t->proc, p->pid, cmdline, sizeof cmdline) >= 0) { /* exec, or renamed itself */
            p->comm = comm;
            p->flags = (p->flags & ~(uint32_t)GW_PF_PYTHON) | exe_flags(t->proc, p->pid);
            if (strcmp(cmdline, p->cmdline) != 0)
                p->flags &= ~(uint32_t)GW_PF_FORKED;
            if (strcmp(cmdline, p->cmdline) != 0)
                close_python(p);
            memcpy(p->cmdline, cmdline, sizeof cmdline);
            say_process(t, p, GW_PW_RENAMED);
        }
        look_for_cuda(t, p, now);
        open_python(t, p, now);
        process_counters(t, p, &st);
        (void)gw_proc_each_child(t->proc, p->pid, on_child, t);
        t->parent = (uint32_t)i;
        (void)gw_proc_each_thread(t->proc, p->pid, on_thread, t);
    }
    for (size_t i = 0; i < t->nt; i++) {
        struct gw_tree_thread *r = &t->t[i];
        if (!r->alive)
            continue;
        if (r->alive == 2)
            r->alive = 1;
        else
            r->alive = 0; /* not seen any more */
        if (r->alive)
            refocus(t, r, now, seconds);
    }
}

static int is_file_read(int nr)
{
    switch (nr) {
    case 0: case 17: case 19: case 295: case 327: /* read, pread64, readv, preadv, preadv2 (x86-64) */
        return 1;
    default:
        return 0;
    }
}

static void sleeping(struct gw_tree *t, struct gw_tree_thread *r, struct gw_rec_thread *out)
{
    int nr;
    uint64_t arg;
    char wchan[64];
    int rc = t->no_syscall ? -EACCES : gw_proc_syscall(t->proc, r->pid, r->tid, &nr, &arg);
    if (rc == 0) {
        out->syscall = nr;
        out->syscall_arg = arg;
        if (is_file_read(nr) && arg < 65536)
            out->path = gw_mounts_of_fd(t->mounts, r->pid, (int)arg);
    } else if ((rc == -EACCES || rc == -EPERM) && !t->no_syscall++) {
        gw_sink_fact(t->sink, "permission.syscall", "no: /proc/PID/task/TID/syscall is not readable");
    }
    if (gw_proc_wchan(t->proc, r->pid, r->tid, wchan, sizeof wchan) == 0 && wchan[0])
        out->wchan = gw_sink_string(t->sink, wchan);
}

static void sample_thread(struct gw_tree *t, struct gw_tree_thread *r, uint64_t now, int force)
{
    struct gw_rec_thread out;
    struct gw_proc_stat st;
    memset(&out, 0, sizeof out);
    out.pid = (uint32_t)r->pid;
    out.tid = (uint32_t)r->tid;
    out.syscall = -1;
    out.flags = r->tid == r->pid ? GW_TF_MAIN : 0;
    if (gw_proc_schedstat(t->proc, r->pid, r->tid, &out.cpu_ns, &out.wait_ns) == -ENOENT ||
        gw_proc_stat(t->proc, r->pid, r->tid, &st) < 0) {
        r->alive = 0;
        return;
    }
    out.state = st.state;
    out.cpu = (int16_t)st.processor;
    out.comm = r->comm;
    if (st.state != 'R')
        sleeping(t, r, &out);
    out.call = call_of(&t->p[r->process], r); /* before the stack, which takes longer */
    if (t->stacks) {
        out.stack = stack_of(t, r, now, out.cpu_ns, out.call);
        note_lock(&t->p[r->process], &out);
    }
    int is_same = out.state == r->state && out.cpu_ns == r->cpu_ns && out.syscall == r->syscall && out.wchan == r->wchan &&
                  out.wait_ns == r->wait_ns;
    r->state = out.state;
    r->cpu_ns = out.cpu_ns;
    r->wait_ns = out.wait_ns;
    r->syscall = out.syscall;
    r->wchan = out.wchan;
    if (is_same && !force && now - r->written_ns < KEEP_NS)
        return;
    r->written_ns = now;
    gw_sink_thread(t->sink, &out);
}

void gw_tree_sample(struct gw_tree *t)
{
    uint64_t now = gw_clock_ns(CLOCK_MONOTONIC);
    t->pace = t->last_sample ? now - t->last_sample : 0;
    t->last_sample = now;
    if (t->stacks)
        find_locks(t);
    for (size_t i = 0; i < t->nt; i++)
        if (t->t[i].alive && t->t[i].focus)
            sample_thread(t, &t->t[i], now, 0);
}
