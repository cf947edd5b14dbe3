/*
 * py_stack.h - the Python stack of a thread of another process, read while it runs.
 *
 * Memory is copied with process_vm_readv(); the process is never stopped, traced or changed, so a stack may be torn:
 * every pointer and length is checked, a chain that does not end is given up, and what looks wrong gives no stack.
 * CPython 3.8 to 3.14 (3.14 by its table of offsets, untried). Needs the same user, and to be an ancestor where Yama
 * restricts ptrace. One thread; 15 to 25 us a stack of some ten frames of functions seen before. Memory: the names and
 * line tables of the functions remembered.
 *
 *     char why[128], text[4096];
 *     int again;
 *     struct gw_py *p = gw_py_open(proc_fd, pid, 4096, &again, why, sizeof why);
 *     if (p && gw_py_stack(p, tid, text, sizeof text) > 0)
 *         puts(text);          train.py(57): main.<locals>.step
 *     gw_py_close(p);
 */
#ifndef GW_PY_STACK_H
#define GW_PY_STACK_H

#include <stddef.h>
#include <stdint.h>

struct gw_py;

/* NULL when there is no runtime that can be read (yet): `why` says it, *again 1 = worth another try later. `functions`:
 * how many are remembered, a power of two. */
struct gw_py *gw_py_open(int proc_root, int pid, unsigned functions, int *again, char *why, size_t cap);
/* For a child that was forked from `parent` and runs the same program: no file is read. NULL when out of memory. */
struct gw_py *gw_py_like(const struct gw_py *parent, int pid, unsigned functions);
void gw_py_close(struct gw_py *p);
unsigned gw_py_version(const struct gw_py *p); /* 0x030c */

/* One line a frame, innermost first: "path/file.py(57): qualified.name". Of deep stacks the middle is left out ("...").
 * Its length; 0 = the thread runs no Python code, or nothing consistent could be read; -ESRCH when the process is gone.
 */
long gw_py_stack(struct gw_py *p, int tid, char *out, size_t cap);

/* The interpreter lock: the addresses that belong to it (a thread that sleeps in futex() on one of them waits for it)
 * and the tid of who holds it, 0 nobody or unknown. 0, or -1 when it cannot be found (free-threaded builds). */
int gw_py_lock(struct gw_py *p, uint64_t *from, uint64_t *to, int *holder);

#endif
