#include "import/gw_json_split.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "import/gw_json_scan.h"

enum { BETWEEN, INSIDE, DISCARD, RESYNC };
enum { STOP_DONE, STOP_USED_UP, STOP_NEED_MORE, STOP_ODD };

/* Torch events are a few hundred bytes, with shapes and stacks some thousand. */
enum { FIRST_CHECK = 64 * 1024 };
/* Context kept before the place where a search goes on: the byte before a brace tells a value from an element. */
enum { RESYNC_CONTEXT = 16 };
/* Damage may send the splitter back. In all it may look at this many times the text, so that hostile input stays
 * linear. */
enum { RESCAN_FACTOR = 8, RESCAN_FREE = 1 << 20 };

/* ---- scanning inside an element ---- */

/* May this byte stand before a quote that opens a string? */
static int opens_after(char c) { return gw_json_is_ws(c) || c == ',' || c == ':' || c == '[' || c == '{'; }

/* Byte by byte up to `until`; `end` bounds what may be looked at. */
static const char *scan_bytes(struct gw_split *s, const char *p, const char *until, const char *end)
{
    s->stop = STOP_USED_UP;
    for (; p < until; p++) {
        char c = *p;
        if (s->in_string) {
            if (c == '"') {
                s->in_string = 0;
            } else if (c == '\\') {
                int closes = 0;
                if (end - p < 2)
                    closes = -1;
                else if (p[1] == '"')
                    closes = gw_json_quote_closes(p + 1, end, s->complete);
                if (closes < 0) {
                    s->stop = STOP_NEED_MORE;
                    return p;
                }
                s->in_string = !closes;
                p++;
            }
        } else if (c == '"') {
            if (!s->trusted && !opens_after(p[-1])) {
                s->stop = STOP_ODD;
                return p;
            }
            s->in_string = 1;
        } else if (c == '{') {
            s->depth++;
        } else if (c == '}' && --s->depth == 0) {
            s->stop = STOP_DONE;
            return p + 1;
        }
    }
    return p;
}

static const char *scan_scalar(struct gw_split *s, const char *p, const char *end)
{
    return scan_bytes(s, p, end, end);
}

#if defined(__x86_64__)
/* Bit i of each mask speaks of byte i of a 64-byte step. */
struct masks {
    uint64_t quote, back, open, close;
    uint64_t before; /* opens_after() */
};

#define INLINE static inline __attribute__((always_inline))

/* The body of both vector versions; `load` and `prefix` are constants, so that it is compiled once for each. */
INLINE const char *scan_wide(struct gw_split *s, const char *p, const char *end,
                             void (*load)(const char *, struct masks *), uint64_t (*prefix)(uint64_t))
{
    while (p < end) {
        struct masks m;
        size_t n = (size_t)(end - p) < 64 ? (size_t)(end - p) : 64;
        load(p, &m);
        uint64_t valid = n < 64 ? ((uint64_t)1 << n) - 1 : ~(uint64_t)0;
        m.quote &= valid;
        /* Set from an opening quote up to, but without, its closing one. */
        uint64_t str = prefix(m.quote) ^ (uint64_t)-s->in_string;
        uint64_t odd = s->trusted ? 0 : m.quote & str & ~(m.before << 1 | (uint64_t)opens_after(p[-1]));
        if ((m.back & valid) | odd) {
            p = scan_bytes(s, p, p + n, end);
            if (s->stop != STOP_USED_UP)
                return p;
            continue;
        }
        uint64_t open = m.open & ~str & valid, close = m.close & ~str & valid;
        int closes = __builtin_popcountll(close);
        if (closes >= s->depth) {
            for (uint64_t both = open | close; both; both &= both - 1) {
                uint64_t bit = both & -both;
                s->depth += bit & open ? 1 : -1;
                if (s->depth == 0) {
                    s->in_string = 0;
                    s->stop = STOP_DONE;
                    return p + __builtin_ctzll(both) + 1;
                }
            }
        } else {
            s->depth += __builtin_popcountll(open) - closes;
        }
        s->in_string ^= __builtin_popcountll(m.quote) & 1;
        p += n;
    }
    s->stop = STOP_USED_UP;
    return p;
}

INLINE uint64_t prefix_shift(uint64_t x)
{
    for (int i = 1; i < 64; i *= 2)
        x ^= x << i;
    return x;
}

INLINE void load_sse2(const char *p, struct masks *m)
{
    *m = (struct masks){0, 0, 0, 0, 0};
    for (int i = 0; i < 64; i += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(p + i));
#define EQ(x, c) _mm_cmpeq_epi8(x, _mm_set1_epi8(c))
#define BITS(x) ((uint64_t)(unsigned)_mm_movemask_epi8(x) << i)
        m->quote |= BITS(EQ(v, '"'));
        m->back |= BITS(EQ(v, '\\'));
        m->open |= BITS(EQ(v, '{'));
        m->close |= BITS(EQ(v, '}'));
        __m128i ws = _mm_or_si128(_mm_or_si128(EQ(v, ' '), EQ(v, '\n')), _mm_or_si128(EQ(v, '\r'), EQ(v, '\t')));
        __m128i br = _mm_or_si128(_mm_or_si128(EQ(v, '{'), EQ(v, '[')), _mm_or_si128(EQ(v, ','), EQ(v, ':')));
        m->before |= BITS(_mm_or_si128(ws, br));
#undef EQ
#undef BITS
    }
}

static const char *scan_sse2(struct gw_split *s, const char *p, const char *end)
{
    return scan_wide(s, p, end, load_sse2, prefix_shift);
}

#define AVX2 __attribute__((target("avx2,pclmul,popcnt,bmi")))

AVX2 INLINE uint64_t prefix_clmul(uint64_t x)
{
    return (uint64_t)_mm_cvtsi128_si64(_mm_clmulepi64_si128(_mm_set_epi64x(0, (long long)x), _mm_set1_epi8(-1), 0));
}

/* Membership by two table look-ups, one per half of the byte: a byte is in the set when its two entries share a bit.
 * Bit 0: \t \n \r, bit 1: space and comma, bit 2: colon, bit 3: [, bit 4: {. */
AVX2 INLINE __m256i is_before(__m256i v)
{
    const __m256i low = _mm256_setr_epi8(2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 5, 24, 2, 1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1,
                                         5, 24, 2, 1, 0, 0);
    const __m256i high = _mm256_setr_epi8(1, 0, 2, 4, 0, 8, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 4, 0, 8, 0, 16, 0,
                                          0, 0, 0, 0, 0, 0, 0);
    __m256i hi = _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(15));
    __m256i both = _mm256_and_si256(_mm256_shuffle_epi8(low, v), _mm256_shuffle_epi8(high, hi));
    return _mm256_cmpgt_epi8(both, _mm256_setzero_si256());
}

AVX2 INLINE void load_avx2(const char *p, struct masks *m)
{
    __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)p);
    __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(p + 32));
#define BITS(x, y) ((uint64_t)(uint32_t)_mm256_movemask_epi8(x) | (uint64_t)(uint32_t)_mm256_movemask_epi8(y) << 32)
#define EQ(c) BITS(_mm256_cmpeq_epi8(a, _mm256_set1_epi8(c)), _mm256_cmpeq_epi8(b, _mm256_set1_epi8(c)))
    m->quote = EQ('"');
    m->back = EQ('\\');
    m->open = EQ('{');
    m->close = EQ('}');
    m->before = BITS(is_before(a), is_before(b));
#undef EQ
#undef BITS
}

AVX2 static const char *scan_avx2(struct gw_split *s, const char *p, const char *end)
{
    return scan_wide(s, p, end, load_avx2, prefix_clmul);
}
#endif

int gw_split_force(struct gw_split *s, const char *isa)
{
    if (!strcmp(isa, "scalar"))
        s->scan = scan_scalar;
#if defined(__x86_64__)
    else if (!strcmp(isa, "sse2"))
        s->scan = scan_sse2;
    else if (!strcmp(isa, "avx2") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("pclmul"))
        s->scan = scan_avx2;
#endif
    else
        return -1;
    return 0;
}

void gw_split_init(struct gw_split *s, int64_t base)
{
    *s = (struct gw_split){.base = base,
                           .damaged_at = -1,
                           .oversize_at = -1,
                           .state = BETWEEN,
                           .cap = GW_SPLIT_EVENT_CAP,
                           .scan = scan_scalar};
    if (gw_split_force(s, "avx2") < 0)
        gw_split_force(s, "sse2");
}

int gw_split_between(const struct gw_split *s) { return s->state == BETWEEN; }

void gw_split_drop(struct gw_split *s, size_t n)
{
    s->base += (int64_t)n;
    s->pos -= n;
    s->event -= n; /* may wrap where no element is open, and is not used then */
    s->resync_from = s->resync_from > n ? s->resync_from - n : 0;
}

/* ---- damage ---- */

/* Text cannot be JSON at `at`: leaves the open element and looks for the next one from `from` on. */
static void give_up(struct gw_split *s, size_t from, size_t at)
{
    if (s->damaged++ == 0)
        s->damaged_at = s->base + (int64_t)at;
    size_t far = at > s->pos ? at : s->pos;
    s->spent += far - from;
    if (s->spent > (uint64_t)(s->base + (int64_t)far) * RESCAN_FACTOR + RESCAN_FREE)
        from = s->pos > from ? s->pos : from;
    s->resync_from = s->pos = from;
    s->state = RESYNC;
}

/* 1 when the open element turns out to be damaged before `stop`. */
static int check_event(struct gw_split *s, const char *w, size_t stop, size_t len)
{
    const char *at;
    if (gw_json_check(w + s->event, w + stop, w + len, s->eof, &at) != GW_JSON_WRONG)
        return 0;
    give_up(s, s->event + 1, (size_t)(at - w));
    return 1;
}

/* Does the bracket at `p` end the array? It does when what follows is the end of the file, or a key that stands beside
 * "traceEvents" in traces. 1, 0, or -1: cannot be told before more text is there. */
static int array_end(const char *p, const char *end, int eof)
{
    static const char *const keys[] = {"traceName",
                                       "displayTimeUnit",
                                       "baseTimeNanoseconds",
                                       "deviceProperties",
                                       "distributedInfo",
                                       "schemaVersion",
                                       "INFO",
                                       "WARNING",
                                       "ERROR",
                                       "STAGE"};
    const char *limit = end - p > GW_JSON_LOOK ? p + GW_JSON_LOOK : end;
    int cut = limit == end && !eof ? -1 : 0; /* the answer when the text at hand does not tell */
    p = gw_json_ws(p + 1, limit);
    if (p == limit)
        return limit == end && eof ? 1 : cut;
    if (*p == '}') {
        p = gw_json_ws(p + 1, limit);
        return p < limit ? 0 : limit == end && eof ? 1 : cut;
    }
    if (*p != ',')
        return 0;
    p = gw_json_ws(p + 1, limit);
    if (p == limit)
        return cut;
    if (*p != '"')
        return 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        size_t n = strlen(keys[i]);
        if ((size_t)(limit - p) < n + 2) {
            if (cut < 0 && !strncmp(p + 1, keys[i], (size_t)(limit - p) - 1))
                return -1;
        } else if (!memcmp(p + 1, keys[i], n) && p[n + 1] == '"') {
            return 1;
        }
    }
    return 0;
}

/* The last byte before `p` that is no white space, or 0 when that is further away than RESYNC_CONTEXT or not there. */
static char byte_before(const char *w, const char *p)
{
    for (int i = 0; i < RESYNC_CONTEXT && p > w; i++)
        if (!gw_json_is_ws(*--p))
            return *p;
    return '\0';
}

/* Moves `pos` to the next place where splitting can go on. 1 found, 0 the window is used up. */
static int resync(struct gw_split *s, const char *w, size_t len)
{
    const char *p = w + s->pos, *end = w + len;
    for (; p < end; p++) {
        int r = 0;
        if (*p == '{' && byte_before(w, p) != ':')
            r = gw_json_event_start(p, end, s->eof);
        else if (*p == ']')
            r = array_end(p, end, s->eof);
        if (r == 0)
            continue;
        s->pos = (size_t)(p - w);
        if (r < 0)
            break;
        s->state = BETWEEN;
        return 1;
    }
    s->pos = (size_t)(p - w);
    s->keep = s->pos > s->resync_from + RESYNC_CONTEXT ? s->pos - RESYNC_CONTEXT : s->resync_from;
    return 0;
}

/* ---- the machine ---- */

/* 1: an element is open at pos - 1; 0: not. *rc is the result when there is one. */
static int find_element(struct gw_split *s, const char *w, size_t len, enum gw_split_result *rc)
{
    const char *p = w + s->pos, *end = w + len;
    while (p < end && (gw_json_is_ws(*p) || *p == ','))
        p++;
    s->pos = (size_t)(p - w);
    *rc = GW_SPLIT_EVENT; /* none yet */
    if (p == end) {
        s->keep = s->pos;
        *rc = GW_SPLIT_MORE;
    } else if (*p == '{') {
        s->event = s->pos++;
        s->next_check = FIRST_CHECK;
        s->depth = 1;
        s->in_string = s->trusted = 0;
        s->state = INSIDE;
        return 1;
    } else if (*p == ']') {
        s->pos++;
        *rc = GW_SPLIT_END;
    } else {
        give_up(s, s->pos, s->pos);
    }
    return 0;
}

/* How far the open element may be scanned before it is checked again: at the same lengths for any size of the window.
 */
static size_t scan_limit(const struct gw_split *s, size_t len)
{
    return s->state == INSIDE && len - s->event > s->next_check ? s->event + s->next_check : len;
}

/* The scan came to `limit` inside an element. 1: splitting goes on, 0: more text is needed. */
static int out_of_text(struct gw_split *s, const char *w, size_t limit, size_t len)
{
    if (s->state == DISCARD) {
        s->keep = s->pos - 1; /* what stands before a quote is looked at */
        return 0;
    }
    size_t n = limit - s->event;
    if (n >= s->next_check || s->eof) {
        if (check_event(s, w, limit, len))
            return 1;
        if (n < s->next_check) { /* the end of the text */
            s->keep = s->event;
            return 0;
        }
        s->next_check = 2 * n;
        if (n < s->cap)
            return 1;
        if (s->oversize++ == 0)
            s->oversize_at = s->base + (int64_t)s->event;
        s->state = DISCARD;
        return 1;
    }
    s->keep = s->event;
    return 0;
}

/* An element has ended at `pos`. When the text ends right behind it, without the list's bracket, a lost brace may have
 * made it swallow the rest: then its grammar is checked. 1: it is one; 0: it is not, and splitting goes on inside; -1:
 * what follows is needed to tell (the closing brace will be seen again). */
static int confirm(struct gw_split *s, const char *w, size_t len)
{
    const char *p = w + s->pos, *end = w + len, *limit = end - p > GW_JSON_LOOK ? p + GW_JSON_LOOK : end;
    if (gw_json_ws(p, limit) < end)
        return 1;
    if (s->eof)
        return !check_event(s, w, s->pos, len);
    s->pos--;
    s->depth = 1;
    s->keep = s->event;
    s->state = INSIDE;
    return -1;
}

enum gw_split_result gw_split_next(struct gw_split *s, const char *w, size_t len, int eof, size_t *start, size_t *n)
{
    enum gw_split_result rc;
    s->eof = eof;
    for (;;) {
        if (s->state == RESYNC && !resync(s, w, len))
            return GW_SPLIT_MORE;
        if (s->state == BETWEEN && !find_element(s, w, len, &rc)) {
            if (rc != GW_SPLIT_EVENT)
                return rc;
            continue;
        }
        int discarded = s->state == DISCARD;
        size_t limit = scan_limit(s, len);
        s->complete = eof && limit == len;
        s->pos = (size_t)(s->scan(s, w + s->pos, w + limit) - w);
        if (s->stop == STOP_DONE) {
            s->state = BETWEEN;
            int ok = discarded ? 0 : confirm(s, w, len);
            if (ok < 0)
                return GW_SPLIT_MORE;
            if (ok == 0)
                continue;
            *start = s->event;
            *n = s->pos - s->event;
            return GW_SPLIT_EVENT;
        }
        if (s->stop == STOP_ODD) {
            s->trusted = 1;
            if (!discarded)
                check_event(s, w, s->pos, len);
        } else if (!out_of_text(s, w, limit, len)) {
            return GW_SPLIT_MORE;
        }
    }
}
