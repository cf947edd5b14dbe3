#include "import/gw_codec.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef GW_HAVE_ISAL
#include <isa-l/igzip_lib.h>
#else
#include <zlib.h>
#endif
#ifdef GW_HAVE_ZSTD
#include <zstd.h>
#endif

/* ---- source ---- */

enum { STOP_LATENCY_MS = 100 }; /* how long a closed stream may still wait for a silent pipe */

/* Waits for a pipe in slices. 0 when asked to stop. */
static int wait_readable(struct gw_source *src)
{
    struct pollfd pfd = {.fd = src->fd, .events = POLLIN};
    while (src->may_block) {
        if (atomic_load_explicit(&src->stop, memory_order_relaxed))
            return 0;
        if (poll(&pfd, 1, STOP_LATENCY_MS) != 0)
            break; /* readable, hung up, or an error that read() will name */
    }
    return 1;
}

static size_t read_some(struct gw_source *src, void *dst, size_t cap)
{
    if (src->eof || cap == 0)
        return 0;
    if (src->fd < 0) {
        size_t n = src->mem_len - src->mem_pos;
        if (n > cap)
            n = cap;
        if (n)
            memcpy(dst, src->mem + src->mem_pos, n);
        src->mem_pos += n;
        src->consumed += (int64_t)n;
        src->eof = n == 0;
        return n;
    }
    ssize_t n = 0;
    do
        n = !wait_readable(src) ? 0 : read(src->fd, dst, cap);
    while (n < 0 && errno == EINTR);
    if (n <= 0) {
        src->eof = 1;
        src->os_errno = n < 0 ? errno : 0;
        return 0;
    }
    src->consumed += n;
    return (size_t)n;
}

size_t gw_source_fill(struct gw_source *src)
{
    if (src->avail == 0) {
        src->next = src->buf;
        src->avail = read_some(src, src->buf, src->cap);
    }
    return src->avail;
}

size_t gw_source_need(struct gw_source *src, size_t want)
{
    if (src->avail && src->next != src->buf)
        memmove(src->buf, src->next, src->avail);
    src->next = src->buf;
    while (src->avail < want && src->avail < src->cap) {
        size_t n = read_some(src, src->buf + src->avail, src->cap - src->avail);
        if (n == 0)
            break;
        src->avail += n;
    }
    return src->avail;
}

size_t gw_source_read(struct gw_source *src, void *dst, size_t cap)
{
    if (src->avail == 0)
        return read_some(src, dst, cap);
    size_t n = src->avail < cap ? src->avail : cap;
    memcpy(dst, src->next, n);
    src->next += n;
    src->avail -= n;
    return n;
}

/* ---- plain ---- */

static int plain_magic(const unsigned char *head, size_t len)
{
    (void)head;
    (void)len;
    return 1;
}

static void *plain_create(void)
{
    static char nothing;
    return &nothing;
}

static void plain_destroy(void *state) { (void)state; }

static enum gw_codec_result plain_fill(void *state, struct gw_source *src, char *dst, size_t cap, size_t *got,
                                       const char **what)
{
    (void)state;
    (void)what;
    size_t n = 0;
    while (n < cap) {
        size_t k = gw_source_read(src, dst + n, cap - n);
        if (k == 0)
            break;
        n += k;
    }
    *got = n;
    return n < cap ? GW_CODEC_END : GW_CODEC_MORE;
}

const struct gw_codec gw_codec_plain = {"plain", plain_magic, plain_create, plain_destroy, plain_fill};

/* ---- gzip ---- */

static int gzip_magic(const unsigned char *head, size_t len)
{
    return len >= 2 && head[0] == 0x1f && head[1] == 0x8b; /* RFC 1952, 2.3.1 */
}

struct gzip_state {
#ifdef GW_HAVE_ISAL
    struct inflate_state z;
#else
    z_stream z;
#endif
    int members; /* complete ones */
    int inside;  /* in the middle of one */
};

static const char gzip_cut[] = "the gzip stream ends early";
static const char gzip_damaged[] = "the gzip stream is damaged";
static const char gzip_garbage[] = "bytes that are not gzip follow the gzip stream";

#ifdef GW_HAVE_ISAL
static int inflate_init(struct gzip_state *g)
{
    isal_inflate_init(&g->z);
    g->z.crc_flag = ISAL_GZIP;
    return 0;
}

static void inflate_next_member(struct gzip_state *g)
{
    isal_inflate_reset(&g->z);
    g->z.crc_flag = ISAL_GZIP;
}

static void inflate_done(struct gzip_state *g) { (void)g; }

/* One step: 1 the member ends, 0 go on, -1 damaged. */
static int inflate_step(struct gzip_state *g, struct gw_source *src, char *dst, size_t cap, size_t *got)
{
    g->z.next_in = (uint8_t *)(uintptr_t)src->next; /* not written to */
    g->z.avail_in = (uint32_t)src->avail;
    g->z.next_out = (uint8_t *)dst;
    g->z.avail_out = (uint32_t)cap;
    int rc = isal_inflate(&g->z);
    src->next = g->z.next_in;
    src->avail = g->z.avail_in;
    *got = cap - g->z.avail_out;
    if (rc != ISAL_DECOMP_OK && rc != ISAL_END_INPUT)
        return -1;
    return g->z.block_state == ISAL_BLOCK_FINISH;
}
#else
static int inflate_init(struct gzip_state *g)
{
    return inflateInit2(&g->z, 15 + 16) == Z_OK ? 0 : -1; /* 15: largest window; +16: gzip wrapper */
}

static void inflate_next_member(struct gzip_state *g) { inflateReset(&g->z); }
static void inflate_done(struct gzip_state *g) { inflateEnd(&g->z); }

static int inflate_step(struct gzip_state *g, struct gw_source *src, char *dst, size_t cap, size_t *got)
{
    g->z.next_in = (Bytef *)(uintptr_t)src->next; /* not written to */
    g->z.avail_in = (uInt)src->avail;
    g->z.next_out = (Bytef *)dst;
    g->z.avail_out = (uInt)cap;
    int rc = inflate(&g->z, Z_NO_FLUSH);
    src->next = g->z.next_in;
    src->avail = g->z.avail_in;
    *got = cap - g->z.avail_out;
    if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
        return -1;
    return rc == Z_STREAM_END;
}
#endif

static void *gzip_create(void)
{
    struct gzip_state *g = calloc(1, sizeof *g);
    if (g && inflate_init(g) < 0) {
        free(g);
        return NULL;
    }
    return g;
}

static void gzip_destroy(void *state)
{
    inflate_done(state);
    free(state);
}

/* Between members: 1 another one starts, 0 the file ends (zeros pad tapes and some copies), -1 something else follows.
 */
static int gzip_between(struct gzip_state *g, struct gw_source *src)
{
    if (g->members)
        while (gw_source_fill(src) && *src->next == 0) {
            src->next++;
            src->avail--;
        }
    if (gw_source_fill(src) == 0)
        return 0;
    if (*src->next != 0x1f)
        return -1;
    if (g->members)
        inflate_next_member(g);
    g->inside = 1;
    return 1;
}

static enum gw_codec_result gzip_fill(void *state, struct gw_source *src, char *dst, size_t cap, size_t *got,
                                      const char **what)
{
    struct gzip_state *g = state;
    *got = 0;
    while (*got < cap) {
        if (!g->inside) {
            int more = gzip_between(g, src);
            if (more <= 0) {
                *what = gzip_garbage;
                return more < 0 ? GW_CODEC_BAD : GW_CODEC_END;
            }
        }
        size_t in = gw_source_fill(src), n = 0;
        int rc = inflate_step(g, src, dst + *got, cap - *got, &n);
        *got += n;
        if (rc < 0) {
            *what = gzip_damaged;
            return GW_CODEC_BAD;
        }
        if (rc == 1) {
            g->members++;
            g->inside = 0;
        } else if (n == 0 && (in == 0 || src->avail == in)) { /* no progress is possible */
            *what = in ? gzip_damaged : gzip_cut;
            return GW_CODEC_BAD;
        }
    }
    return GW_CODEC_MORE;
}

const struct gw_codec gw_codec_gzip = {"gzip", gzip_magic, gzip_create, gzip_destroy, gzip_fill};

/* ---- zstd ---- */

int gw_codec_is_zstd(const unsigned char *head, size_t len)
{
    if (len < 4)
        return 0;
    uint32_t m = (uint32_t)head[0] | (uint32_t)head[1] << 8 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 24;
    return m == 0xFD2FB528u || (m & 0xFFFFFFF0u) == 0x184D2A50u; /* RFC 8878, 3.1.1 and 3.1.2 (skippable frames) */
}

#ifdef GW_HAVE_ZSTD
struct zstd_state {
    ZSTD_DStream *z;
    size_t hint; /* 0 = between frames */
};

static void *zstd_create(void)
{
    struct zstd_state *s = calloc(1, sizeof *s);
    if (s && !(s->z = ZSTD_createDStream())) {
        free(s);
        return NULL;
    }
    return s;
}

static void zstd_destroy(void *state)
{
    struct zstd_state *s = state;
    ZSTD_freeDStream(s->z);
    free(s);
}

static enum gw_codec_result zstd_fill(void *state, struct gw_source *src, char *dst, size_t cap, size_t *got,
                                      const char **what)
{
    struct zstd_state *s = state;
    ZSTD_outBuffer out = {dst, cap, 0};
    while (out.pos < out.size) {
        size_t avail = gw_source_fill(src);
        if (avail == 0 && s->hint == 0)
            break;
        ZSTD_inBuffer in = {src->next, avail, 0};
        size_t before = out.pos, rc = ZSTD_decompressStream(s->z, &out, &in);
        src->next += in.pos;
        src->avail -= in.pos;
        *got = out.pos;
        if (ZSTD_isError(rc)) {
            *what = "the zstd stream is damaged";
            return GW_CODEC_BAD;
        }
        s->hint = rc;
        if (avail == 0 && out.pos == before) {
            *what = "the zstd stream ends early";
            return GW_CODEC_BAD;
        }
    }
    *got = out.pos;
    return out.pos < out.size ? GW_CODEC_END : GW_CODEC_MORE;
}

const struct gw_codec gw_codec_zstd = {"zstd", gw_codec_is_zstd, zstd_create, zstd_destroy, zstd_fill};
#endif
