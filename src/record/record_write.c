/* record_write.c - see record_write.h */
#include "record/record_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

uint64_t gw_clock_ns(int clock_id) {
    struct timespec ts;
    if (clock_gettime((clockid_t)clock_id, &ts) != 0)
        return 0;
    return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

int gw_writer_open(struct gw_writer *w, int dirfd, const char *name, uint32_t role, uint32_t pid, uint64_t start_ticks) {
    memset(w, 0, sizeof *w);
    w->fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (w->fd < 0) {
        w->bad = errno;
        return -w->bad;
    }
    struct gw_rec_file h;
    memset(&h, 0, sizeof h);
    memcpy(h.magic, GW_REC_MAGIC, sizeof h.magic);
    h.version = GW_REC_VERSION;
    h.header_bytes = sizeof h;
    h.role = role;
    h.pid = pid;
    h.start_ticks = start_ticks;
    h.realtime_ns = gw_clock_ns(CLOCK_REALTIME);
    h.monotonic_ns = gw_clock_ns(CLOCK_MONOTONIC);
    ssize_t n = pwrite(w->fd, &h, sizeof h, 0);
    if (n != (ssize_t)sizeof h) {
        w->bad = n < 0 ? errno : ENOSPC;
        return -w->bad;
    }
    w->offset = sizeof h;
    return 0;
}

/* Writes all of `iov` at `offset`. 0 or an errno. */
static int write_all(int fd, struct iovec *iov, int n, uint64_t offset) {
    while (n > 0) {
        ssize_t got = pwritev(fd, iov, n, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? errno : ENOSPC;
        offset += (uint64_t)got;
        size_t left = (size_t)got;
        while (n > 0 && left >= iov->iov_len) {
            left -= iov->iov_len;
            iov++;
            n--;
        }
        if (n > 0) {
            iov->iov_base = (char *)iov->iov_base + left;
            iov->iov_len -= left;
        }
    }
    return 0;
}

int gw_writer_append2(struct gw_writer *w, uint16_t type, uint16_t stride, const void *a, uint32_t na, const void *b,
                      uint32_t nb) {
    if (w->bad)
        return -w->bad;
    if (w->fd < 0)
        return -EBADF;
    uint32_t bytes = na + nb;
    if (bytes > GW_REC_MAX_PAYLOAD || (nb > 0 && na % 8 != 0))
        return -EINVAL;
    uint64_t total = sizeof(struct gw_rec_chunk) + ((bytes + 7u) & ~7u);
    if (w->max_bytes && w->offset + total > w->max_bytes) {
        w->bad = EFBIG;
        return -EFBIG;
    }
    static const char zero[8];
    struct gw_rec_chunk c = {.magic = GW_REC_CHUNK_MAGIC, .type = type, .stride = stride, .bytes = bytes, .seq = w->seq};
    uint64_t h = gw_rec_hash(GW_REC_SUM_SEED, a, na);
    c.sum = gw_rec_fold(gw_rec_hash(h, b, nb));
    struct iovec iov[4] = {{&c, sizeof c}, {(void *)(uintptr_t)a, na}, {(void *)(uintptr_t)b, nb},
                           {(void *)(uintptr_t)zero, ((bytes + 7u) & ~7u) - bytes}};
    int err = write_all(w->fd, iov, 4, w->offset);
    if (err) {
        w->bad = err;
        if (ftruncate(w->fd, (off_t)w->offset) != 0)
            w->bad = err; /* the reader skips the torn chunk by its checksum */
        return -err;
    }
    w->offset += total;
    w->seq++;
    w->status.bytes = w->offset;
    return 0;
}

int gw_writer_append(struct gw_writer *w, uint16_t type, uint16_t stride, const void *data, uint32_t bytes) {
    return gw_writer_append2(w, type, stride, data, bytes, NULL, 0);
}

int gw_writer_clock(struct gw_writer *w, uint64_t cupti_ns) {
    struct gw_rec_clock c = {.realtime_ns = gw_clock_ns(CLOCK_REALTIME), .monotonic_ns = gw_clock_ns(CLOCK_MONOTONIC),
                             .boottime_ns = gw_clock_ns(CLOCK_BOOTTIME), .cupti_ns = cupti_ns};
    return gw_writer_append(w, GW_RT_CLOCK, sizeof c, &c, sizeof c);
}

void gw_writer_status(struct gw_writer *w) {
    if (w->fd < 0)
        return;
    ssize_t n = pwrite(w->fd, &w->status, sizeof w->status, offsetof(struct gw_rec_file, status));
    (void)n; /* a status that cannot be written is seen as an old one */
}

void gw_writer_close(struct gw_writer *w) {
    if (w->fd < 0)
        return;
    (void)gw_writer_append(w, GW_RT_END, 1, NULL, 0);
    gw_writer_status(w);
    close(w->fd);
    w->fd = -1;
}
