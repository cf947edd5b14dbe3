/*
 * py_find.h - finds the Python runtime of another process: the address of _PyRuntime and the version.
 *
 * Reads /proc/PID/maps and the symbol table of the interpreter's file. Nothing of the process is stopped or changed.
 */
#ifndef GW_PY_FIND_H
#define GW_PY_FIND_H

#include <stddef.h>
#include <stdint.h>

struct gw_py_place {
    uint64_t runtime; /* address of _PyRuntime in the process */
    unsigned version; /* 0x030c = 3.12; 0 unknown: the file does not say */
};

/* 0; -ENOENT when no interpreter of CPython 3 is mapped (yet); -EACCES, -EPERM when we may not look; -ENOEXEC when
 * there is one but its symbols are gone. */
int gw_py_find(int proc_root, int pid, struct gw_py_place *out);
/* Reads memory of another process. Bytes read or -errno; never less than `n` without an error. */
long gw_py_memory(int pid, uint64_t addr, void *buf, size_t n);

#endif
