/*
 * gw_codec.h - decompressors behind one struct; used by gw_stream.c only.
 *
 * A codec pulls compressed bytes through gw_source_fill() and writes text. It never allocates after create, never reads
 * past its source, and says what it cannot do: GW_CODEC_END at a clean end, GW_CODEC_BAD with `what` set when the
 * stream is damaged or cut (what was produced before is good).
 */
#ifndef GW_CODEC_H
#define GW_CODEC_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the file: a descriptor or memory, with a buffer that a codec consumes from. */
struct gw_source {
    int fd; /* -1 = memory */
    const unsigned char *mem;
    size_t mem_len, mem_pos;
    unsigned char *buf;
    size_t cap;
    const unsigned char *next; /* unread bytes */
    size_t avail;
    int64_t consumed; /* bytes of the file handed out so far, those in `next` included */
    int eof, os_errno;
    int may_block; /* a pipe or terminal: look at `stop` while waiting */
    atomic_int stop;
};

/* Reads more when nothing is left. Returns bytes available, 0 at the end or on an error (os_errno set). */
size_t gw_source_fill(struct gw_source *src);
/* Reads until at least `want` bytes are there (at most `cap`). Returns how many there are: fewer at the end. */
size_t gw_source_need(struct gw_source *src, size_t want);
/* Reads up to `cap` bytes straight into `dst` (after draining `next`). */
size_t gw_source_read(struct gw_source *src, void *dst, size_t cap);

enum gw_codec_result { GW_CODEC_MORE, GW_CODEC_END, GW_CODEC_BAD };

struct gw_codec {
    const char *name;
    int (*magic)(const unsigned char *head, size_t len);
    void *(*create)(void); /* NULL: out of memory */
    void (*destroy)(void *state);
    /* Fills [dst, dst + cap) as far as the source goes; *got is set in every case. */
    enum gw_codec_result (*fill)(void *state, struct gw_source *src, char *dst, size_t cap, size_t *got,
                                 const char **what);
};

extern const struct gw_codec gw_codec_plain, gw_codec_gzip;
#ifdef GW_HAVE_ZSTD
extern const struct gw_codec gw_codec_zstd;
#endif
int gw_codec_is_zstd(const unsigned char *head, size_t len);

#endif
