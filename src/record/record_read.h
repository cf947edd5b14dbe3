/*
 * record_read.h - reads the chunks of one record file, whole ones only, in order.
 *
 * The file is read with pread() up to the size it had when it was opened, so it may still be growing. A torn or
 * damaged chunk is skipped: reading goes on at the next valid chunk header, and the loss is counted. Memory is one
 * buffer of a little over the largest chunk. Data handed out is valid until the next call.
 *
 *     struct gw_reader r;
 *     if (gw_reader_open(&r, path, &err) == 0) {
 *         struct gw_chunk c;
 *         while (gw_reader_next(&r, &c))
 *             use(c.type, c.data, c.count, c.stride);
 *         gw_reader_close(&r);
 *     }
 */
#ifndef GW_RECORD_READ_H
#define GW_RECORD_READ_H

#include <stddef.h>

#include "base/gw_error.h"
#include "record/record.h"

struct gw_chunk {
    unsigned type;
    const unsigned char *data;
    uint32_t bytes;
    uint32_t stride;
    uint32_t count; /* bytes / stride */
    uint64_t offset;/* in the file */
};

struct gw_reader {
    struct gw_rec_file head; /* newer fields zero when the file is older */
    int fd;
    unsigned char *buf;    /* bytes [buf_at, buf_at + buf_len) of the file */
    uint64_t buf_at, buf_len;
    uint64_t size, at;
    uint64_t next_seq;
    uint64_t damaged;      /* stretches that were skipped */
    uint64_t missing;      /* chunks whose number never came */
    int64_t first_damage;  /* offset of the first, -1 none */
    int torn;              /* 1: the file ends inside a chunk */
    int ended;             /* 1: the END chunk was seen */
};

/* 0, GW_EIO, GW_ENOMEM, or GW_EFORMAT when it is not a record file of a version we read. */
int gw_reader_open(struct gw_reader *r, const char *path, struct gw_error *err);
/* 1 and `c` filled, or 0 at the end. */
int gw_reader_next(struct gw_reader *r, struct gw_chunk *c);
void gw_reader_close(struct gw_reader *r);

/* Copies record `i` of a chunk into `out` of `size` bytes; fields that an older writer did not have are zero. */
void gw_chunk_get(const struct gw_chunk *c, uint32_t i, void *out, size_t size);

const char *gw_rec_state_id(unsigned state);
const char *gw_rec_state_text(unsigned state); /* untranslated */
int gw_rec_state_loses(unsigned state);
const char *gw_pm_state_id(unsigned state);
const char *gw_pm_state_text(unsigned state);  /* untranslated */
const char *gw_pm_metric_id(unsigned metric);

#endif
