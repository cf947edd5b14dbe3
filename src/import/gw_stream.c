#include "import/gw_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/gw_i18n.h"
#include "import/gw_codec.h"

/* Blocks that exist from the start; the others come when they are needed, and are done without when memory is short. */
enum { BLOCKS_AT_ONCE = 2 };
enum { SOURCE_BUF = 256 * 1024, DEFAULT_BLOCK = 512 * 1024, DEFAULT_HEAD = 16 * 1024, DEFAULT_BLOCKS = 8 };

struct gw_stream {
    struct gw_source src;
    const struct gw_codec *codec;
    void *codec_state;
    size_t block_bytes, headroom;
    int64_t text_off; /* text produced so far; the reading side's */
    int64_t file_bytes;

    pthread_t thread;
    int threaded, started;
    pthread_mutex_t lock;
    pthread_cond_t freed, filled;
    /* Under `lock` when threaded: */
    struct gw_stream_block *free_list, *ready_head, *ready_tail;
    int stop, produced_last;

    struct gw_stream_block *all; /* array of `blocks` */
    int blocks;
    int ended;                      /* the caller has taken the last block */
    struct gw_stream_status status; /* written before the last block is handed over */
};

/* ---- blocks ---- */

static int block_init(struct gw_stream_block *b, size_t headroom, size_t bytes)
{
    b->base = malloc(headroom + bytes + GW_STREAM_SLACK);
    if (!b->base)
        return GW_ENOMEM;
    b->cap = headroom + bytes;
    b->data = b->base + headroom;
    b->len = 0;
    return GW_OK;
}

static size_t room_for(size_t have, size_t need)
{
    size_t cap = have + have / 2;
    return cap > need ? cap : need;
}

int gw_block_grow_tail(struct gw_stream_block *b, size_t extra)
{
    size_t head = (size_t)(b->data - b->base), need = head + b->len + extra;
    if (need <= b->cap)
        return GW_OK;
    size_t cap = room_for(b->cap, need);
    char *base = realloc(b->base, cap + GW_STREAM_SLACK);
    if (!base)
        return GW_ENOMEM;
    b->base = base;
    b->data = base + head;
    b->cap = cap;
    return GW_OK;
}

int gw_block_grow_head(struct gw_stream_block *b, size_t bytes)
{
    size_t head = (size_t)(b->data - b->base);
    if (bytes <= head)
        return GW_OK;
    char *base = malloc(bytes + b->len + GW_STREAM_SLACK);
    if (!base)
        return GW_ENOMEM;
    memcpy(base + bytes, b->data, b->len);
    free(b->base);
    b->base = base;
    b->data = base + bytes;
    b->cap = bytes + b->len;
    return GW_OK;
}

/* An empty block with memory, from the head of the list of free ones; NULL when there is none. Under the lock. */
static struct gw_stream_block *take_free(struct gw_stream *s)
{
    for (;;) {
        struct gw_stream_block *b = s->free_list;
        if (!b)
            return NULL;
        s->free_list = b->next;
        b->next = NULL;
        if (b->base || block_init(b, s->headroom, s->block_bytes) == GW_OK)
            return b;
    }
}

/* A block that had to grow goes back to its size, so that one huge event does not stay in memory eight times. Without
 * memory for that it stays as it is. */
static void block_reset(const struct gw_stream *s, struct gw_stream_block *b)
{
    struct gw_stream_block small = {0};
    if (b->cap != s->headroom + s->block_bytes && block_init(&small, s->headroom, s->block_bytes) == GW_OK) {
        free(b->base);
        *b = small;
    }
    b->data = b->base + s->headroom; /* a grown block is larger than this, never smaller */
    b->len = 0;
    b->last = 0;
    b->next = NULL;
}

/* ---- reading ---- */

/* Fills one block. Runs on the reading thread, or on the caller's when there is none. */
static void produce(struct gw_stream *s, struct gw_stream_block *b)
{
    size_t got = 0;
    const char *what = NULL;
    enum gw_codec_result r = s->codec->fill(s->codec_state, &s->src, b->data, s->block_bytes, &got, &what);
    b->len = got;
    memset(b->data + got, 0, GW_STREAM_SLACK);
    b->text_off = s->text_off;
    s->text_off += (int64_t)got;
    b->file_pos = s->src.consumed - (int64_t)s->src.avail;
    b->last = r != GW_CODEC_MORE;
    if (s->src.os_errno)
        s->status = (struct gw_stream_status){GW_EIO, s->text_off, "reading failed", s->src.os_errno};
    else if (r == GW_CODEC_BAD)
        s->status = (struct gw_stream_status){GW_EFORMAT, s->text_off, what, 0};
}

static void *reader_main(void *arg)
{
    struct gw_stream *s = arg;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        struct gw_stream_block *b = NULL;
        while (!s->stop && !(b = take_free(s)))
            pthread_cond_wait(&s->freed, &s->lock);
        pthread_mutex_unlock(&s->lock);
        if (!b)
            return NULL;
        produce(s, b);

        pthread_mutex_lock(&s->lock);
        int last = b->last;
        if (s->ready_tail)
            s->ready_tail->next = b;
        else
            s->ready_head = b;
        s->ready_tail = b;
        s->produced_last = last;
        pthread_cond_signal(&s->filled);
        pthread_mutex_unlock(&s->lock);
        if (last)
            return NULL;
    }
}

/* Makes sure that a block is at the head of the ready list, if there is still one to come. */
static struct gw_stream_block *ready_block(struct gw_stream *s, int wait)
{
    if (s->ended)
        return NULL;
    if (!s->threaded) {
        struct gw_stream_block *b = s->ready_head || s->produced_last ? NULL : take_free(s);
        if (b) {
            produce(s, b);
            s->produced_last = b->last;
            s->ready_head = s->ready_tail = b;
        }
        return s->ready_head;
    }
    pthread_mutex_lock(&s->lock);
    while (!s->ready_head && wait && s->started)
        pthread_cond_wait(&s->filled, &s->lock);
    struct gw_stream_block *b = s->ready_head;
    pthread_mutex_unlock(&s->lock);
    return b;
}

struct gw_stream_block *gw_stream_next(struct gw_stream *s, int wait)
{
    struct gw_stream_block *b = ready_block(s, wait);
    if (!b)
        return NULL;
    pthread_mutex_lock(&s->lock);
    s->ready_head = b->next;
    if (!s->ready_head)
        s->ready_tail = NULL;
    pthread_mutex_unlock(&s->lock);
    b->next = NULL;
    s->ended = b->last;
    return b;
}

size_t gw_stream_peek(struct gw_stream *s, const unsigned char **head)
{
    struct gw_stream_block *b = ready_block(s, 1);
    *head = b ? (const unsigned char *)b->data : (const unsigned char *)"";
    return b ? b->len : 0;
}

int gw_stream_ended(const struct gw_stream *s) { return s->ended; }

void gw_stream_release(struct gw_stream *s, struct gw_stream_block *b)
{
    if (!b)
        return;
    block_reset(s, b);
    pthread_mutex_lock(&s->lock);
    b->next = s->free_list;
    s->free_list = b;
    pthread_cond_signal(&s->freed);
    pthread_mutex_unlock(&s->lock);
}

const struct gw_stream_status *gw_stream_status(const struct gw_stream *s) { return &s->status; }
int64_t gw_stream_file_bytes(const struct gw_stream *s) { return s->file_bytes; }

/* ---- opening ---- */

static int pick_codec(struct gw_stream *s, const char *path, struct gw_error *err)
{
    static const struct gw_codec *const codecs[] = {&gw_codec_gzip,
#ifdef GW_HAVE_ZSTD
                                                    &gw_codec_zstd,
#endif
                                                    &gw_codec_plain};
    size_t n = gw_source_need(&s->src, 4);
    if (s->src.os_errno)
        return gw_error_set(err, GW_EIO, path, 0, "", _("cannot read: %s"), gw_i18n_errno(s->src.os_errno));
#ifndef GW_HAVE_ZSTD
    if (gw_codec_is_zstd(s->src.buf, n))
        return gw_error_set(err, GW_ENOTSUP, path, 0, _("decompress it first: zstd -d FILE"),
                            _("compressed with zstd, and this gpuwhy was built without zstd"));
#endif
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
        if (codecs[i]->magic(s->src.buf, n)) {
            s->codec = codecs[i];
            break;
        }
    s->codec_state = s->codec->create();
    return s->codec_state ? GW_OK : gw_error_set(err, GW_ENOMEM, path, 0, "", _("out of memory"));
}

static int is_regular(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

static struct gw_stream *stream_create(int fd, const void *mem, size_t len, const struct gw_stream_options *o,
                                       const char *path, struct gw_error *err)
{
    int rc = GW_ENOMEM;
    struct gw_stream *s = calloc(1, sizeof *s);
    if (!s) {
        if (fd >= 0)
            close(fd);
        goto out;
    }
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->freed, NULL);
    pthread_cond_init(&s->filled, NULL);
    s->src.fd = fd;
    s->src.mem = mem;
    s->src.mem_len = len;
    s->src.cap = SOURCE_BUF;
    s->src.may_block = fd >= 0 && !is_regular(fd);
    s->block_bytes = o->block_bytes ? o->block_bytes : DEFAULT_BLOCK;
    s->headroom = o->headroom ? o->headroom : DEFAULT_HEAD;
    s->blocks = o->blocks > 1 ? o->blocks : o->blocks == 1 ? 2 : DEFAULT_BLOCKS;
    s->src.buf = malloc(s->src.cap);
    s->all = calloc((size_t)s->blocks, sizeof *s->all);
    if (!s->src.buf || !s->all)
        goto out;
    for (int i = s->blocks - 1; i >= 0; i--) {
        if (i < BLOCKS_AT_ONCE && block_init(&s->all[i], s->headroom, s->block_bytes) < 0)
            goto out;
        s->all[i].next = s->free_list;
        s->free_list = &s->all[i];
    }
    rc = pick_codec(s, path, err);
    if (rc < 0)
        goto out;
    /* Without a thread (refused by a limit, say) the caller reads for itself. */
    s->threaded = o->threaded && pthread_create(&s->thread, NULL, reader_main, s) == 0;
    s->started = s->threaded;
    return s;
out:
    gw_error_set(err, rc, path, -1, "", _("out of memory"));
    gw_stream_close(s);
    return NULL;
}

struct gw_stream *gw_stream_open(const char *path, const struct gw_stream_options *o, struct gw_error *err)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0) {
        gw_error_set(err, GW_EIO, path, -1, _("check the path and its permissions"), _("cannot open: %s"),
                     gw_i18n_errno(errno));
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    if (S_ISDIR(st.st_mode)) {
        gw_error_set(err, GW_EFORMAT, path, -1, _("name the trace file inside it"), _("is a directory"));
        close(fd);
        return NULL;
    }
    if (S_ISREG(st.st_mode))
        posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    struct gw_stream *s = stream_create(fd, NULL, 0, o, path, err);
    if (s)
        s->file_bytes = S_ISREG(st.st_mode) ? (int64_t)st.st_size : -1;
    return s;
}

struct gw_stream *gw_stream_memory(const void *data, size_t len, const struct gw_stream_options *o,
                                   struct gw_error *err)
{
    struct gw_stream *s = stream_create(-1, data, len, o, "(memory)", err);
    if (s)
        s->file_bytes = (int64_t)len;
    return s;
}

void gw_stream_close(struct gw_stream *s)
{
    if (!s)
        return;
    if (s->started) {
        pthread_mutex_lock(&s->lock);
        s->stop = 1;
        atomic_store_explicit(&s->src.stop, 1, memory_order_relaxed);
        pthread_cond_signal(&s->freed);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
    }
    if (s->codec_state)
        s->codec->destroy(s->codec_state);
    for (int i = 0; s->all && i < s->blocks; i++)
        free(s->all[i].base);
    free(s->all);
    free(s->src.buf);
    if (s->src.fd >= 0)
        close(s->src.fd);
    pthread_cond_destroy(&s->filled);
    pthread_cond_destroy(&s->freed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
