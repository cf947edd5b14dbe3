/*
 * proc_tree.h - the processes and threads of the job, and what each is doing.
 *
 * gw_tree_discover() (about once a second) finds processes that descend from the root process, threads, and reads the
 * slow facts: memory, I/O, faults, switches, allowed CPUs. gw_tree_sample() (many times a second) looks at the threads that
 * matter: main threads, threads that recently used a CPU, and the data loader's. A process that lost its parent stays in
 * the tree. Everything goes to the sink. One thread; memory is bounded by the tables below.
 *
 *     struct gw_tree *t = gw_tree_create(proc_fd, root_pid, &sink);
 *     gw_tree_discover(t);  ...  gw_tree_sample(t);  ...
 *     gw_tree_destroy(t);
 */
#ifndef GW_PROC_TREE_H
#define GW_PROC_TREE_H

#include "collect/proc/proc_read.h"
#include "collect/proc/proc_sink.h"
#include "collect/proc/py_stack.h"

enum { GW_TREE_PROCESSES = 512, GW_TREE_THREADS = 4096 };

struct gw_tree_process {
    int pid, ppid, alive;
    uint64_t start_ticks;
    uint32_t flags;      /* GW_PF_* */
    uint32_t comm;       /* string id */
    uint64_t seen_ns;    /* CLOCK_MONOTONIC of the first sight */
    unsigned maps_looks; /* how often its mappings were read */
    char cmdline[256];
    struct gw_py *python;   /* reader of its stacks, NULL none */
    unsigned py_tries, py_misses; /* openings tried; main-thread stacks that failed in a row */
    uint64_t py_next;       /* CLOCK_MONOTONIC of the next try */
    uint64_t lock_from, lock_to; /* addresses of the interpreter lock; 0 unknown */
    int lock_holder;        /* tid, 0 nobody */
    uint64_t calls_table;   /* address of the calls that our library counts there (inject/calls.h); 0 none */
    uint32_t calls_slots;
};

struct gw_tree_thread {
    int pid, tid;
    uint32_t process; /* index */
    uint32_t comm;
    int focus, alive;
    uint64_t cpu_ns, wait_ns; /* at the last sample */
    uint64_t cpu_at_refresh;
    uint64_t written_ns;      /* CLOCK_MONOTONIC of the last sample written */
    char state;
    int syscall;
    uint32_t wchan, stack;
    uint64_t stack_ns, stack_cpu; /* when `stack` was read (CLOCK_MONOTONIC), and the thread's CPU time then */
    uint32_t call_slot, call_slots_seen; /* 1 + its slot among the counted calls, 0 none; slots looked through */
};

struct gw_tree;
struct gw_tree *gw_tree_create(int proc_root, int root_pid, struct gw_sink *sink); /* NULL when out of memory */
void gw_tree_destroy(struct gw_tree *t);
/* Python stacks of main threads and of busy threads beside them; at most 20 a second for each, fewer for workers. Off at first. */
void gw_tree_set_stacks(struct gw_tree *t, int on);
void gw_tree_discover(struct gw_tree *t);
void gw_tree_sample(struct gw_tree *t);
/* Process `i` in order of first sight, or NULL past the end. */
const struct gw_tree_process *gw_tree_process(const struct gw_tree *t, size_t i);
/* Tells the tree that a process has our library inside (its record file exists). */
void gw_tree_set_injected(struct gw_tree *t, int pid);
/* And where that library counts the calls of CUDA: thread samples then say which call the thread is in. */
void gw_tree_set_calls(struct gw_tree *t, int pid, uint64_t table, uint32_t slots);

#endif
