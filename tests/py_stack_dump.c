/*
 * py_stack_dump PID TID [N] - reads the Python stack of a thread N times (1), prints what came last and how often there
 * was one. "none: WHY" and status 1 when the process cannot be read.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collect/proc/py_stack.h"

int main(int argc, char **argv)
{
    char why[128] = "", text[4096] = "", last[4096] = "";
    int again = 0, holder = 0, proc = open("/proc", O_RDONLY | O_DIRECTORY);
    uint64_t from = 0, to = 0;
    if (argc < 3)
        return 2;
    int pid = atoi(argv[1]), tid = atoi(argv[2]), n = argc > 3 ? atoi(argv[3]) : 1, good = 0, lines = 0;
    struct gw_py *p = gw_py_open(proc, pid, 512, &again, why, sizeof why);
    if (!p) {
        printf("none: %s\n", why);
        return 1;
    }
    struct timespec a, b;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    for (int i = 0; i < n; i++) {
        long len = gw_py_stack(p, tid, text, sizeof text);
        if (len <= 0)
            continue;
        good++;
        lines += strstr(text, ".py(") != NULL;
        memcpy(last, text, sizeof last);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    double us = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / n / 1e3;
    int lock = gw_py_lock(p, &from, &to, &holder);
    printf("version=%x good=%d lines=%d lock=%d holder=%d us=%.1f\n%s\n", gw_py_version(p), good, lines, lock, holder,
           us, last);
    gw_py_close(p);
    return 0;
}
