/* py_stack.c - see py_stack.h */
#include "collect/proc/py_stack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/gw_i18n.h"
#include "collect/proc/py_find.h"
#include "collect/proc/py_layout.h"

enum {
    THREADS = 1024, /* thread states walked */
    INTERPRETERS = 8,
    TRIES = 3,
    WALK = 1500, /* frames walked: above Python's own limit of 1000 */
    SHOWN_INNER = 30,
    SHOWN_OUTER = 14,
    TEXT = 300,      /* bytes of a file or function name */
    TABLE = 1 << 18, /* bytes of a line table */
    TS_BYTES = 256,
    FRAME_BYTES = 128,
    CODE_BYTES = 256 /* read at once; the members used lie inside */
};
/* glibc on x86-64 keeps the thread's id here in its struct pthread (measured on 2.36; unchanged since 2.4). */
#define PTHREAD_TID 720

struct code { /* what a code object said; checked against its pointers at each use */
    uint64_t addr, file_at, name_at, lines_at;
    int first;
    char *file, *name;
    unsigned char *lines;
    size_t lines_len;
};

struct frame {
    uint64_t code;
    int at;
    uint64_t at_addr;
};

struct gw_py {
    int pid;
    uint64_t runtime;
    struct gw_py_layout l;
    struct code *code; /* by hash of the address */
    unsigned codes;    /* a power of two */
    struct {
        int tid;
        uint64_t state;
    } thread[THREADS];
    size_t threads;
    int shift; /* of `kind` in the state of a string */
};

/* --- reading
 * ------------------------------------------------------------------------------------------------------------- */

static int is_pointer(uint64_t p) { return p >= 4096 && p < (1ull << 56) && p % 8 == 0; }

static long get(const struct gw_py *p, uint64_t addr, void *buf, size_t n)
{
    return is_pointer(addr & ~7ull) ? gw_py_memory(p->pid, addr, buf, n) : -EFAULT;
}

static uint64_t word_at(const unsigned char *b, size_t off)
{
    uint64_t v;
    memcpy(&v, b + off, sizeof v);
    return v;
}
static int int_at(const unsigned char *b, size_t off)
{
    int v;
    memcpy(&v, b + off, sizeof v);
    return v;
}

static uint64_t pointer(const struct gw_py *p, uint64_t addr)
{
    uint64_t v = 0;
    return get(p, addr, &v, sizeof v) > 0 && is_pointer(v) ? v : 0;
}

/* One code point as UTF-8. */
static size_t put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 63));
        out[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (char)(0xf0 | (c >> 18 & 7));
    out[1] = (char)(0x80 | (c >> 12 & 63));
    out[2] = (char)(0x80 | (c >> 6 & 63));
    out[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* A Python string as UTF-8, newly allocated, its end when it is long. NULL when it is none. */
static char *text_of(const struct gw_py *p, uint64_t addr)
{
    unsigned char head[64], raw[TEXT * 4];
    if (get(p, addr, head, sizeof head) < 0)
        return NULL;
    uint64_t len = word_at(head, p->l.str_length);
    unsigned state = (unsigned)int_at(head, p->l.str_state) >> p->shift;
    unsigned kind = state & 7, is_compact = state >> 3 & 1, is_ascii = state >> 4 & 1;
    if ((kind != 1 && kind != 2 && kind != 4) || !is_compact || len > 1 << 16 || (is_ascii && kind != 1))
        return NULL;
    uint64_t skip = len > TEXT ? len - TEXT : 0;
    len -= skip;
    uint64_t at = addr + (is_ascii ? p->l.str_ascii : p->l.str_compact) + skip * kind;
    if (len && gw_py_memory(p->pid, at, raw, len * kind) < 0)
        return NULL;
    char *out = malloc(len * 4 + 1);
    size_t n = 0;
    for (uint64_t i = 0; out && i < len; i++) {
        uint16_t c2;
        uint32_t c = raw[i];
        if (kind == 2) {
            memcpy(&c2, raw + 2 * i, 2);
            c = c2;
        } else if (kind == 4) {
            memcpy(&c, raw + 4 * i, 4);
        }
        n += put_utf8(out + n, c < ' ' ? ' ' : c);
    }
    if (out)
        out[n] = 0;
    return out;
}

/* --- code objects
 * ---------------------------------------------------------------------------------------------------------- */

static void forget(struct code *c)
{
    free(c->file);
    free(c->name);
    free(c->lines);
    memset(c, 0, sizeof *c);
}

static void learn(const struct gw_py *p, struct code *c)
{
    uint64_t len = 0;
    c->file = text_of(p, c->file_at);
    c->name = text_of(p, c->name_at);
    if (get(p, c->lines_at + p->l.bytes_size, &len, sizeof len) < 0 || len > TABLE)
        return;
    c->lines = malloc(len + 1);
    if (c->lines && len && gw_py_memory(p->pid, c->lines_at + p->l.bytes_text, c->lines, len) < 0)
        len = 0;
    c->lines_len = c->lines ? len : 0;
}

/* `head`: the bytes of the code object. NULL when they are no code object. */
static struct code *code_of(struct gw_py *p, uint64_t addr, const unsigned char *head)
{
    uint64_t file = word_at(head, p->l.co_file), lines = word_at(head, p->l.co_lines);
    uint64_t name = word_at(head, p->l.co_qualname == GW_PY_NONE ? p->l.co_name : p->l.co_qualname);
    int first = int_at(head, p->l.co_first);
    if (!is_pointer(file) || !is_pointer(name) || !is_pointer(lines) || first < 0 || first > 10000000)
        return NULL;
    struct code *c = &p->code[(addr >> 4) * 0x9e3779b97f4a7c15ull >> 40 & (p->codes - 1)];
    if (c->addr == addr && c->file_at == file && c->name_at == name && c->lines_at == lines && c->first == first)
        return c->file && c->name ? c : NULL;
    forget(c);
    *c = (struct code){.addr = addr, .file_at = file, .name_at = name, .lines_at = lines, .first = first};
    learn(p, c);
    if (!c->file || !c->name) {
        forget(c); /* torn, or no code object: look again next time */
        return NULL;
    }
    return c;
}

/* --- threads
 * ----------------------------------------------------------------------------------------------------------------- */

/* The kernel's id of the thread whose state starts with `ts`, 0 unknown. */
static int tid_of(const struct gw_py *p, const unsigned char *ts)
{
    int tid = 0;
    if (p->l.ts_tid != GW_PY_NONE)
        return (int)word_at(ts, p->l.ts_tid);
#if defined(__x86_64__)
    if (get(p, word_at(ts, p->l.ts_pthread) + PTHREAD_TID, &tid, sizeof tid) < 0)
        tid = 0;
#endif
    return tid;
}

static void walk_threads(struct gw_py *p)
{
    unsigned char ts[TS_BYTES];
    uint64_t interp = pointer(p, p->runtime + p->l.interp_head);
    p->threads = 0;
    for (int i = 0; interp && i < INTERPRETERS; i++) {
        uint64_t state = pointer(p, interp + p->l.threads);
        while (state && p->threads < THREADS && get(p, state, ts, sizeof ts) > 0) {
            p->thread[p->threads].tid = tid_of(p, ts);
            p->thread[p->threads++].state = state;
            state = word_at(ts, p->l.ts_next);
            if (!is_pointer(state))
                break;
        }
        interp = pointer(p, interp + p->l.interp_next);
    }
}

/* Reads the state of `tid` into `ts`. 1, 0 = it has none, -errno. */
static int state_of(struct gw_py *p, int tid, unsigned char ts[TS_BYTES])
{
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < p->threads; i++) {
            if (p->thread[i].tid != tid)
                continue;
            long rc = get(p, p->thread[i].state, ts, TS_BYTES);
            if (rc == -ESRCH || rc == -EPERM)
                return (int)rc;
            if (rc > 0 && tid_of(p, ts) == tid)
                return 1;
        }
        if (pass == 0)
            walk_threads(p);
    }
    return 0;
}

/* --- frames
 * ------------------------------------------------------------------------------------------------------------------ */

/* The frames of a thread, innermost first, in `out`. Their number; 0 when the chain is broken. */
static size_t walk_frames(struct gw_py *p, const unsigned char *ts, struct frame out[WALK])
{
    unsigned char b[FRAME_BYTES];
    uint64_t at = word_at(ts, p->l.ts_frame);
    size_t n = 0;
    if (p->l.cframe_frame != GW_PY_NONE)
        at = is_pointer(at) ? pointer(p, at + p->l.cframe_frame) : 0;
    for (int i = 0; at; i++) {
        if (i == WALK || !is_pointer(at) || get(p, at, b, sizeof b) < 0)
            return 0;
        at = word_at(b, p->l.f_back);
        /* Frames that the interpreter makes for itself where C code calls Python. */
        if (p->l.f_owner != GW_PY_NONE && b[p->l.f_owner] >= 3)
            continue;
        struct frame *f = &out[n];
        f->code = word_at(b, p->l.f_code) & ~7ull; /* 3.14 tags the low bits */
        f->at_addr = p->l.at_is_index ? 0 : word_at(b, p->l.f_at);
        f->at = p->l.at_is_index ? int_at(b, p->l.f_at) * p->l.at_scale : 0;
        if (is_pointer(f->code))
            n++;
    }
    return n;
}

/* The code objects of up to 64 frames with one call. The number of those that could be read. */
static size_t read_codes(const struct gw_py *p, const struct frame *f, size_t n, unsigned char codes[][CODE_BYTES])
{
    struct iovec mine, theirs[SHOWN_INNER + SHOWN_OUTER];
    for (size_t i = 0; i < n; i++)
        theirs[i] = (struct iovec){(void *)(uintptr_t)f[i].code, CODE_BYTES};
    mine = (struct iovec){codes, n * CODE_BYTES};
    ssize_t got = process_vm_readv(p->pid, &mine, 1, theirs, n, 0);
    return got < 0 ? 0 : (size_t)got / CODE_BYTES;
}

static size_t put_frame(struct gw_py *p, const struct frame *f, const unsigned char *head, char *out, size_t cap)
{
    struct code *c = code_of(p, f->code, head);
    if (!c)
        return 0;
    int64_t at = p->l.at_is_index ? f->at : (int64_t)(f->at_addr - (f->code + p->l.co_code));
    int line = at < 0 || at > 1 << 24 ? c->first : gw_py_line(p->l.lines, c->lines, c->lines_len, c->first, (int)at);
    int n = snprintf(out, cap, "%s(%d): %s\n", c->file, line, c->name);
    return n < 0 || (size_t)n >= cap ? 0 : (size_t)n;
}

/* The frames' texts, `at[i]` to `at[i + 1]` of `all`, in `out`; "..." for frames left out after the first `cut` (0 none). Where they do not
 * fit, more of the middle goes: innermost is what runs, outermost is the user's program. Its length. */
static long join_frames(const char *all, const size_t *at, size_t n, size_t cut, char *out, size_t cap)
{
    const char dots[] = "...\n";
    size_t room = cap > sizeof dots ? cap - sizeof dots : 0, inner = cut ? cut : n, outer = inner; /* frames [inner, outer) go */
    if (at[n] > room) {
        for (outer = n; outer > inner / 2 && at[n] - at[outer - 1] <= room / 3; outer--)
            ;
        while (inner && (inner > outer || at[inner] + at[n] - at[outer] > room))
            inner--;
    }
    size_t len = at[inner];
    memcpy(out, all, len);
    if ((cut || outer > inner) && outer < n) {
        memcpy(out + len, dots, sizeof dots - 1);
        len += sizeof dots - 1;
    }
    memcpy(out + len, all + at[outer], at[n] - at[outer]);
    len += at[n] - at[outer];
    if (len)
        len--; /* the last line break */
    out[len] = 0;
    return (long)len;
}

long gw_py_stack(struct gw_py *p, int tid, char *out, size_t cap)
{
    unsigned char ts[TS_BYTES], codes[SHOWN_INNER + SHOWN_OUTER][CODE_BYTES];
    char all[(SHOWN_INNER + SHOWN_OUTER) * (2 * TEXT + 32)];
    size_t at[SHOWN_INNER + SHOWN_OUTER + 1] = {0}, n = 0, cut = 0;
    struct frame f[WALK];
    out[0] = 0;
    for (int tries = 0; tries < TRIES && !n; tries++) { /* the thread runs on meanwhile: a torn chain is read again */
        int rc = state_of(p, tid, ts);
        if (rc <= 0)
            return rc;
        n = walk_frames(p, ts, f);
    }
    if (n > SHOWN_INNER + SHOWN_OUTER) {
        cut = SHOWN_INNER;
        memmove(f + SHOWN_INNER, f + n - SHOWN_OUTER, SHOWN_OUTER * sizeof *f);
        n = SHOWN_INNER + SHOWN_OUTER;
    }
    n = n ? read_codes(p, f, n, codes) : 0;
    for (size_t i = 0; i < n; i++)
        at[i + 1] = at[i] + put_frame(p, f + i, codes[i], all + at[i], sizeof all - at[i]);
    return join_frames(all, at, n, cut < n ? cut : 0, out, cap);
}

/* --- the lock
 * ------------------------------------------------------------------------------------------------------------------ */

int gw_py_lock(struct gw_py *p, uint64_t *from, uint64_t *to, int *holder)
{
    unsigned char b[64], ts[TS_BYTES];
    *holder = 0;
    if (p->l.gil == GW_PY_NONE)
        return -1;
    uint64_t at = p->runtime + p->l.gil;
    if (p->l.gil_is_pointer) {
        uint64_t interp = pointer(p, p->runtime + p->l.interp_head);
        at = interp ? pointer(p, interp + p->l.gil) : 0;
    }
    if (!at || get(p, at, b, sizeof b) < 0)
        return -1;
    *from = at;
    *to = at + p->l.gil_bytes;
    uint64_t last = word_at(b, p->l.gil_holder);
    if (int_at(b, p->l.gil_locked) == 1 && is_pointer(last) && get(p, last, ts, sizeof ts) > 0)
        *holder = tid_of(p, ts);
    return 0;
}

/* --- open
 * --------------------------------------------------------------------------------------------------------------------
 */

/* Newer versions keep more in front of the kind of a string: see which reading of the interpreter's first string makes
 * sense. */
static void find_shift(struct gw_py *p)
{
    static const int shifts[] = {2, 8, 16};
    unsigned char ts[TS_BYTES], head[CODE_BYTES];
    struct frame f[WALK];
    p->shift = 2;
    for (size_t t = 0; t < p->threads; t++) {
        if (get(p, p->thread[t].state, ts, sizeof ts) < 0 || !walk_frames(p, ts, f) ||
            get(p, f[0].code, head, sizeof head) < 0)
            continue;
        for (size_t i = 0; i < sizeof shifts / sizeof *shifts; i++) {
            p->shift = shifts[i];
            char *text = text_of(p, word_at(head, p->l.co_file));
            int good = text && *text;
            free(text);
            if (good)
                return;
        }
        p->shift = 2;
    }
}

static int layout(struct gw_py *p, const struct gw_py_place *place, char *why, size_t cap)
{
    unsigned char table[GW_PY_DEBUG_OFFSETS];
    long rc = gw_py_memory(p->pid, place->runtime, table, sizeof table);
    if (rc < 0) {
        snprintf(why, cap, _("its memory cannot be read: %s"), gw_i18n_errno((int)-rc));
        return -1;
    }
    if (gw_py_layout_read(table, &p->l) == 0)
        return 0;
    const struct gw_py_layout *l = gw_py_layout_find(place->version);
    if (!l) {
        snprintf(why, cap, _("Python %u.%u is not known"), place->version >> 8, place->version & 0xff);
        return -1;
    }
    p->l = *l;
    return 0;
}

static struct gw_py *create(int pid, unsigned functions)
{
    struct gw_py *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->pid = pid;
    p->codes = functions;
    p->code = calloc(functions, sizeof *p->code);
    if (p->code)
        return p;
    free(p);
    return NULL;
}

struct gw_py *gw_py_like(const struct gw_py *parent, int pid, unsigned functions)
{
    struct gw_py *p = create(pid, functions);
    if (p) {
        p->runtime = parent->runtime;
        p->l = parent->l;
        p->shift = parent->shift;
    }
    return p;
}

struct gw_py *gw_py_open(int proc_root, int pid, unsigned functions, int *again, char *why, size_t cap)
{
    struct gw_py_place place;
    struct gw_py *p = NULL;
    int rc = gw_py_find(proc_root, pid, &place);
    *again = rc == -ENOENT || rc == -ENOEXEC; /* a shared libpython is mapped some time after the program itself */
    if (rc < 0) {
        snprintf(why, cap, "%s",
                 rc == -ENOENT    ? _("no Python runtime is mapped")
                 : rc == -ENOEXEC ? _("the interpreter's file has no symbols")
                                  : gw_i18n_errno(-rc));
        return NULL;
    }
    p = create(pid, functions);
    if (!p) {
        snprintf(why, cap, "%s", _("out of memory"));
        return NULL;
    }
    p->runtime = place.runtime;
    if (layout(p, &place, why, cap) < 0)
        goto fail;
    walk_threads(p);
    if (!p->threads) { /* the interpreter is only starting */
        snprintf(why, cap, "%s", _("it has no threads yet"));
        *again = 1;
        goto fail;
    }
    find_shift(p);
    return p;
fail:
    gw_py_close(p);
    return NULL;
}

void gw_py_close(struct gw_py *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->codes; i++)
        forget(&p->code[i]);
    free(p->code);
    free(p);
}

unsigned gw_py_version(const struct gw_py *p) { return p->l.version; }
