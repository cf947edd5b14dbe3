/* record_read.c - see record_read.h */
#include "record/record_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/gw_i18n.h"

static const struct {
    const char *id, *text;
    int loses;
} states[] = {
#define GW_REC_STATE(sym, id, loses, text) {id, text, loses},
#include "record/states.def"
#undef GW_REC_STATE
};

const char *gw_rec_state_id(unsigned state) { return state < GW_RS_COUNT ? states[state].id : "unknown"; }
const char *gw_rec_state_text(unsigned state) { return state < GW_RS_COUNT ? states[state].text : "unknown state"; }
int gw_rec_state_loses(unsigned state) { return state < GW_RS_COUNT ? states[state].loses : 1; }

static const struct {
    const char *id, *text;
} pm_states[] = {
#define GW_PM_STATE(sym, id, text) {id, text},
#include "record/pm_states.def"
#undef GW_PM_STATE
};
static const char *const pm_metrics[] = {
#define GW_PM_METRIC(sym, id, counter, text) id,
#include "record/pm_metrics.def"
#undef GW_PM_METRIC
};

const char *gw_pm_state_id(unsigned state) { return state < GW_PS_COUNT ? pm_states[state].id : "unknown"; }
const char *gw_pm_state_text(unsigned state) { return state < GW_PS_COUNT ? pm_states[state].text : "unknown state"; }
const char *gw_pm_metric_id(unsigned metric) { return metric < GW_PM_METRIC_COUNT ? pm_metrics[metric] : "unknown"; }

#define BUF_BYTES (GW_REC_MAX_PAYLOAD + (1u << 20))

/* The `need` bytes at `at`, or NULL when the file (as it was opened) or a read ends before. need <= BUF_BYTES. */
static const unsigned char *bytes_at(struct gw_reader *r, uint64_t at, uint64_t need) {
    if (at > r->size || r->size - at < need)
        return NULL;
    if (at >= r->buf_at && at + need <= r->buf_at + r->buf_len)
        return r->buf + (at - r->buf_at);
    r->buf_at = at;
    r->buf_len = 0;
    uint64_t want = r->size - at < BUF_BYTES ? r->size - at : BUF_BYTES;
    while (r->buf_len < want) {
        ssize_t n = pread(r->fd, r->buf + r->buf_len, want - r->buf_len, (off_t)(at + r->buf_len));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break; /* the file shrank or the disk fails: what is there is used */
        r->buf_len += (uint64_t)n;
    }
    return r->buf_len >= need ? r->buf : NULL;
}

static int check_head(struct gw_reader *r, const char *path, struct gw_error *err) {
    /* The status block may be shorter or longer in other versions: take what both know. */
    uint64_t fixed = offsetof(struct gw_rec_file, status);
    const unsigned char *p = bytes_at(r, 0, fixed);
    if (!p || memcmp(p, GW_REC_MAGIC, 8) != 0)
        return gw_error_set(err, GW_EFORMAT, path, 0, "give the folder that `gpuwhy run` wrote", "not a gpuwhy record file");
    memcpy(&r->head, p, fixed);
    uint32_t head = r->head.header_bytes;
    if (r->head.version == 0 || r->head.version > GW_REC_VERSION)
        return gw_error_set(err, GW_EFORMAT, path, 8, "use a newer gpuwhy", "record version %u, this program reads up to %u",
                            r->head.version, GW_REC_VERSION);
    if (head < fixed || head > 65536 || head % 8 != 0 || !(p = bytes_at(r, 0, head)))
        return gw_error_set(err, GW_EFORMAT, path, 12, "the file is damaged", "header of %u bytes in a file of %llu", head,
                            (unsigned long long)r->size);
    uint64_t n = head - fixed < sizeof r->head.status ? head - fixed : sizeof r->head.status;
    memcpy(&r->head.status, p + fixed, n);
    r->at = head;
    return 0;
}

int gw_reader_open(struct gw_reader *r, const char *path, struct gw_error *err) {
    memset(r, 0, sizeof *r);
    r->first_damage = -1;
    int rc = GW_EIO;
    r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (r->fd < 0)
        return gw_error_set(err, GW_EIO, path, -1, "", "cannot open: %s", gw_i18n_errno(errno));
    struct stat st;
    if (fstat(r->fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        rc = gw_error_set(err, GW_EFORMAT, path, -1, "", "not a regular file");
        goto out;
    }
    r->size = (uint64_t)st.st_size;
    r->buf = malloc(BUF_BYTES);
    if (!r->buf) {
        rc = gw_error_set(err, GW_ENOMEM, path, -1, "", "out of memory");
        goto out;
    }
    rc = check_head(r, path, err);
out:
    if (rc < 0)
        gw_reader_close(r);
    return rc;
}

/* 1: a whole valid chunk at `at`. 0: no. -1: a believable header whose payload passes the end of the file. */
static int chunk_at(struct gw_reader *r, uint64_t at, struct gw_rec_chunk *h) {
    const unsigned char *p = bytes_at(r, at, sizeof *h);
    if (!p)
        return -1;
    memcpy(h, p, sizeof *h);
    if (h->magic != GW_REC_CHUNK_MAGIC || h->bytes > GW_REC_MAX_PAYLOAD || h->stride == 0)
        return 0;
    p = bytes_at(r, at + sizeof *h, h->bytes);
    if (!p)
        return -1;
    return gw_rec_fold(gw_rec_hash(GW_REC_SUM_SEED, p, h->bytes)) == h->sum;
}

/* Moves to the next valid chunk at or after `at`. 1 found, 0 none. */
static int resync(struct gw_reader *r, struct gw_rec_chunk *h) {
    uint64_t bad = r->at;
    int torn = chunk_at(r, r->at, h) < 0;
    /* A hostile file can hold a false header at every 8th byte: bound the bytes that may be hashed in vain. */
    uint64_t budget = 16 * r->size + (64u << 20);
    for (uint64_t at = r->at + 8; at + sizeof *h <= r->size && budget > 0; at += 8) {
        int is = chunk_at(r, at, h);
        if (is == 0 && h->magic == GW_REC_CHUNK_MAGIC)
            budget = h->bytes < budget ? budget - h->bytes : 0;
        if (is == 1) {
            r->at = at;
            r->damaged++;
            if (r->first_damage < 0)
                r->first_damage = (int64_t)bad;
            return 1;
        }
    }
    if (torn) {
        r->torn = 1;
    } else {
        r->damaged++;
    }
    if (r->first_damage < 0)
        r->first_damage = (int64_t)bad;
    r->at = r->size;
    return 0;
}

int gw_reader_next(struct gw_reader *r, struct gw_chunk *c) {
    struct gw_rec_chunk h;
    if (r->at >= r->size)
        return 0;
    if (chunk_at(r, r->at, &h) != 1 && !resync(r, &h))
        return 0;
    c->type = h.type;
    c->stride = h.stride;
    c->bytes = h.bytes;
    c->count = h.bytes / h.stride;
    c->data = bytes_at(r, r->at + sizeof h, h.bytes);
    if (!c->data)
        c->bytes = c->count = 0;
    c->offset = r->at;
    if (h.seq > r->next_seq)
        r->missing += h.seq - r->next_seq;
    r->next_seq = h.seq + 1;
    uint64_t step = sizeof h + ((h.bytes + 7u) & ~(uint64_t)7);
    r->at = r->size - r->at < step ? r->size : r->at + step;
    if (h.type == GW_RT_END)
        r->ended = 1;
    return 1;
}

void gw_reader_close(struct gw_reader *r) {
    free(r->buf);
    r->buf = NULL;
    if (r->fd >= 0)
        close(r->fd);
    r->fd = -1;
}

void gw_chunk_get(const struct gw_chunk *c, uint32_t i, void *out, size_t size) {
    size_t n = c->stride < size ? c->stride : size;
    memset(out, 0, size);
    if (i < c->count)
        memcpy(out, c->data + (size_t)i * c->stride, n);
}
