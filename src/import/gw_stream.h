/*
 * gw_stream.h - a file (or memory) as decompressed bytes, in blocks.
 *
 * Plain, gzip (several members too) and zstd are told apart by their first bytes, never by the name. A thread reads and
 * decompresses ahead into a small ring of blocks while the caller parses; with `threaded` = 0 the caller does both.
 * Memory is the ring: `blocks` x (`headroom` + `block_bytes`), whatever the size of the file. Pipes work.
 *
 * Each block has `headroom` unused bytes before its data, so that the caller can put the tail of the block before it
 * there and see an event that crosses the border in one piece; and GW_STREAM_SLACK readable bytes behind its data.
 *
 * One caller thread. A block belongs to the caller from gw_stream_next() to gw_stream_release(), which may happen in
 * any order; other threads may read it in between.
 *
 *     struct gw_stream *s = gw_stream_open(path, &opts, &err);
 *     for (struct gw_stream_block *b; (b = gw_stream_next(s, 1)) != NULL; gw_stream_release(s, b))
 *         use(b->data, b->len);
 *     if (gw_stream_status(s)->code < 0) ...
 */
#ifndef GW_STREAM_H
#define GW_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "base/gw_error.h"

struct gw_stream;

enum { GW_STREAM_SLACK = 64 }; /* one step of the widest scanner */

struct gw_stream_options {
    size_t block_bytes; /* 0 = 512 KiB: much smaller ones cost more in hand-overs between threads (measured) */
    size_t headroom;    /* 0 = 16 KiB */
    int blocks;         /* 0 = 8 */
    int threaded;       /* 1 = read ahead in a thread */
};

struct gw_stream_block {
    char *base; /* the allocation */
    size_t cap; /* bytes that may be used from `base` on (slack not counted) */
    char *data; /* base + headroom */
    size_t len;
    int64_t text_off;      /* offset of data[0] in the decompressed text */
    int64_t file_pos;      /* bytes of the file that went into everything up to the end of this block */
    int last;              /* nothing follows */
    struct gw_stream_block *next; /* private */
};

struct gw_stream_status {
    int code;         /* 0; GW_EIO: reading failed; GW_EFORMAT: the compressed stream is damaged or cut */
    int64_t text_off; /* where in the decompressed text */
    const char *what; /* one clause, constant */
    int os_errno;     /* for GW_EIO */
};

/* NULL with `err` filled: GW_EIO (cannot open), GW_EFORMAT (a directory), GW_ENOTSUP (codec not built in), GW_ENOMEM.
 */
struct gw_stream *gw_stream_open(const char *path, const struct gw_stream_options *o, struct gw_error *err);
/* The same over memory, which must outlive the stream. */
struct gw_stream *gw_stream_memory(const void *data, size_t len, const struct gw_stream_options *o,
                                   struct gw_error *err);
void gw_stream_close(struct gw_stream *s); /* NULL is fine; all blocks die */

/* Looks at the start of the text, without taking it: all that the first block holds. Call before gw_stream_next(). */
size_t gw_stream_peek(struct gw_stream *s, const unsigned char **head);

/* The next block. NULL at the end, or when `wait` is 0 and none is ready yet (then gw_stream_ended() is 0). The last
 * block may be empty; an empty text gives one empty block. */
struct gw_stream_block *gw_stream_next(struct gw_stream *s, int wait);
int gw_stream_ended(const struct gw_stream *s);
void gw_stream_release(struct gw_stream *s, struct gw_stream_block *b);

/* Makes room for `extra` bytes behind the data (the block may move; its contents keep their offsets from base). */
int gw_block_grow_tail(struct gw_stream_block *b, size_t extra);
/* Makes room for `bytes` before the data. */
int gw_block_grow_head(struct gw_stream_block *b, size_t bytes);

/* Valid once gw_stream_ended(). */
const struct gw_stream_status *gw_stream_status(const struct gw_stream *s);
int64_t gw_stream_file_bytes(const struct gw_stream *s); /* size on disk, -1 when unknown (a pipe) */

#endif
