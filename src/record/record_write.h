/*
 * record_write.h - appends chunks to one file of a record. libc only, no allocation, no stdio, no exit.
 *
 * One thread at a time. After the first failed write the writer is `bad`: it cut the torn chunk off and every further
 * append fails at once, so that a full disk is met once and never again.
 *
 *     struct gw_writer w;
 *     gw_writer_open(&w, dirfd, "record.gwr", GW_ROLE_HOST, getpid(), 0);
 *     gw_writer_append(&w, GW_RT_COUNTER, sizeof c, &c, sizeof c);
 *     gw_writer_close(&w);
 */
#ifndef GW_RECORD_WRITE_H
#define GW_RECORD_WRITE_H

#include "record/record.h"

struct gw_writer {
    int fd;             /* -1 closed */
    int bad;            /* errno of the first failure, 0 none */
    uint64_t seq;
    uint64_t offset;    /* end of the last whole chunk, bytes */
    uint64_t max_bytes; /* 0 = no limit; reaching it sets bad = EFBIG */
    struct gw_rec_status status; /* fill and call gw_writer_status() */
};

/* Makes `name` in the folder (O_EXCL) and writes the header. 0 or -errno. */
int gw_writer_open(struct gw_writer *w, int dirfd, const char *name, uint32_t role, uint32_t pid, uint64_t start_ticks);
/* One chunk of `bytes` payload (a multiple of `stride`). 0 or -errno. */
int gw_writer_append(struct gw_writer *w, uint16_t type, uint16_t stride, const void *data, uint32_t bytes);
/* One chunk whose payload is in two parts (a head of a multiple of 8 bytes, and a text). */
int gw_writer_append2(struct gw_writer *w, uint16_t type, uint16_t stride, const void *a, uint32_t na, const void *b,
                      uint32_t nb);
/* Appends the present clocks; `cupti_ns` is 0 outside of a CUDA process. */
int gw_writer_clock(struct gw_writer *w, uint64_t cupti_ns);
/* Rewrites the status block in place. */
void gw_writer_status(struct gw_writer *w);
/* END chunk, status, close. */
void gw_writer_close(struct gw_writer *w);

uint64_t gw_clock_ns(int clock_id); /* clock_gettime() in ns, 0 on failure */

#endif
