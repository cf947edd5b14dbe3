#include "import/gw_json_scan.h"

enum { ST_ = GW_JSON_STOP, WS_ = GW_JSON_STOP | GW_JSON_WS };
const unsigned char gw_json_class[256] = {
    /* control bytes end a word, and only these four are white space */
    ST_, ST_,         ST_,         ST_,         ST_,         ST_,         ST_,         ST_,
    ST_, WS_,         WS_,         ST_,         ST_,         WS_,         ST_,         ST_,
    ST_, ST_,         ST_,         ST_,         ST_,         ST_,         ST_,         ST_,
    ST_, ST_,         ST_,         ST_,         ST_,         ST_,         ST_,         ST_,
    WS_, ['"'] = ST_, ['{'] = ST_, ['}'] = ST_, ['['] = ST_, [']'] = ST_, [':'] = ST_, [','] = ST_ | GW_JSON_COMMA,
};

static int follows_string(char c) { return c == ',' || c == '}' || c == ']' || c == ':'; }

/* Behind at most GW_JSON_LOOK bytes of white space; NULL when there are more. */
static const char *look_past_ws(const char *p, const char *end)
{
    const char *limit = end - p > GW_JSON_LOOK ? p + GW_JSON_LOOK : end;
    p = gw_json_ws(p, limit);
    return p == limit && limit < end ? NULL : p;
}

int gw_json_quote_closes(const char *q, const char *end, int complete)
{
    const char *r = look_past_ws(q + 1, end);
    if (!r || (r < end && !follows_string(*r)))
        return 0;
    if (r == end)
        return complete ? 0 : -1;
    const char *u = q + 1, *limit = end - u > GW_JSON_LOOK ? u + GW_JSON_LOOK : end;
    while (u < limit && *u != '"')
        u += *u == '\\' ? 2 : 1;
    if (u >= limit)
        return limit < end ? 0 : complete ? 1 : -1;
    r = look_past_ws(u + 1, end);
    if (!r)
        return 0;
    if (r == end)
        return complete ? 0 : -1;
    return !follows_string(*r);
}

const char *gw_json_string_end_slow(const char *p, const char *end)
{
    while (p < end && *p == '\\') {
        if (end - p < 2)
            return NULL;
        if (p[1] == '"' && gw_json_quote_closes(p + 1, end, 1) == 1)
            return p + 1;
        p = gw_json_special(p + 2, end);
    }
    return p < end ? p : NULL;
}

int gw_json_skip_value(struct gw_json_cur *c)
{
    const char *p = c->p, *end = c->end;
    if (p == end)
        return -1;
    if (*p == '"') {
        const char *close = gw_json_string_end(p + 1, end);
        if (!close)
            return -1;
        c->p = close + 1;
        return 0;
    }
    if (*p != '{' && *p != '[') {
        size_t n = gw_json_word(p, end);
        c->p = p + n;
        return n > 0 || (*p == ',' || *p == '}' || *p == ']') ? 0 : -1;
    }
    size_t depth = 0;
    do {
        switch (*p) {
        case '{':
        case '[': depth++; break;
        case '}':
        case ']': depth--; break;
        case '"':
            p = gw_json_string_end(p + 1, end);
            if (!p)
                return -1;
            break;
        default: break;
        }
        p++;
    } while (depth && p < end);
    c->p = p;
    return depth ? -1 : 0;
}

/* ---- grammar ---- */

enum { CHECK_DEPTH = 1024 };

struct check {
    uint64_t is_object[CHECK_DEPTH / 64];
    int depth;
};

static int in_object(const struct check *k)
{
    int i = k->depth - 1;
    return k->depth > 0 && (k->is_object[i / 64] >> (i % 64) & 1);
}

static int push(struct check *k, int object)
{
    if (k->depth == CHECK_DEPTH)
        return 0;
    uint64_t bit = (uint64_t)1 << (k->depth % 64);
    if (object)
        k->is_object[k->depth / 64] |= bit;
    else
        k->is_object[k->depth / 64] &= ~bit;
    k->depth++;
    return 1;
}

/* Where the walk is. */
struct walk {
    const char *p, *stop, *end;
    int complete;
};

/* From the opening quote to behind the closing one. 0 when that is not before `stop`, or cannot be told. */
static int pass_string(struct walk *w)
{
    const char *p = w->p + 1;
    while ((p = gw_json_special(p, w->stop)) < w->stop && *p == '\\') {
        int closes = w->end - p < 2 ? -1 : p[1] == '"' ? gw_json_quote_closes(p + 1, w->end, w->complete) : 0;
        if (closes < 0)
            return 0;
        if (closes) {
            w->p = p + 2;
            return 1;
        }
        p += 2;
        if (p >= w->stop)
            return 0;
    }
    w->p = p + 1;
    return p < w->stop;
}

/* Reads `"key" :`. */
static enum gw_json_check pass_key(struct walk *w)
{
    if (!pass_string(w))
        return GW_JSON_MORE;
    w->p = gw_json_ws(w->p, w->stop);
    if (w->p >= w->stop)
        return GW_JSON_MORE;
    if (*w->p != ':')
        return GW_JSON_WRONG;
    w->p++;
    return GW_JSON_COMPLETE;
}

/* Reads the beginning of a value, all of it when it is no list or object. */
static enum gw_json_check pass_value(struct walk *w, struct check *k)
{
    char c = *w->p;
    if (c == '{' || c == '[') {
        if (c == '{' && k->depth && !in_object(k)) {
            int nested = gw_json_event_start(w->p, w->end, w->complete);
            if (nested)
                return nested > 0 ? GW_JSON_WRONG : GW_JSON_MORE;
        }
        w->p++;
        return push(k, c == '{') ? GW_JSON_COMPLETE : GW_JSON_MORE;
    }
    if (c == '"')
        return pass_string(w) ? GW_JSON_COMPLETE : GW_JSON_MORE;
    size_t n = gw_json_word(w->p, w->stop);
    w->p += n;
    return n ? GW_JSON_COMPLETE : GW_JSON_WRONG;
}

enum gw_json_check gw_json_check(const char *p, const char *stop, const char *end, int complete, const char **at)
{
    struct check k = {.depth = 0};
    struct walk w = {p, stop, end, complete};
    int want_value = 1;
    for (;;) {
        while (w.p < stop && (gw_json_is_ws(*w.p) || (*w.p == ',' && k.depth)))
            w.p++;
        *at = w.p;
        if (w.p >= stop)
            return GW_JSON_MORE;
        enum gw_json_check r = GW_JSON_COMPLETE;
        char c = *w.p;
        if (c == '}' || c == ']') {
            if (k.depth == 0 || in_object(&k) != (c == '}'))
                return GW_JSON_WRONG;
            k.depth--;
            w.p++;
        } else if (in_object(&k) && !want_value) {
            r = c == '"' ? pass_key(&w) : GW_JSON_WRONG;
            want_value = 1;
        } else {
            r = pass_value(&w, &k);
            want_value = 0;
        }
        *at = w.p;
        if (r != GW_JSON_COMPLETE)
            return r;
        if (want_value && c == '"')
            continue; /* behind a key */
        want_value = !in_object(&k);
        if (k.depth == 0)
            return GW_JSON_COMPLETE;
        /* In a list anything may follow anything once a missing comma is forgiven: it is only where there is a gap. */
        if (want_value && c != '[' && w.p < stop && !gw_json_is(*w.p, GW_JSON_WS | GW_JSON_COMMA) && *w.p != ']')
            return GW_JSON_WRONG;
    }
}

int gw_json_event_start(const char *p, const char *end, int complete)
{
    /* What the writers of traces put first: ph in torch.profiler events, name in its metadata rows. */
    static const char *const keys[] = {"ph", "name", "cat", "pid", "tid", "ts", "dur"};
    if (p == end)
        return complete ? 0 : -1;
    if (*p != '{')
        return 0;
    p = look_past_ws(p + 1, end);
    if (!p || (p < end && *p != '"'))
        return 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        size_t n = strlen(keys[i]);
        if (end - p < (ptrdiff_t)n + 2) {
            if (!complete && (end - p < 2 || !strncmp(p + 1, keys[i], (size_t)(end - p) - 1)))
                return -1;
            continue;
        }
        if (memcmp(p + 1, keys[i], n) || p[n + 1] != '"')
            continue;
        p = look_past_ws(p + n + 2, end);
        if (!p || (p < end && *p != ':'))
            return 0;
        return p < end ? 1 : complete ? 0 : -1;
    }
    return 0;
}

/* ---- escapes ---- */

static int hex4(const char *s, const char *end, uint32_t *v)
{
    if (end - s < 4)
        return 0;
    *v = 0;
    for (int i = 0; i < 4; i++) {
        int c = s[i] | 0x20;
        int d = s[i] >= '0' && s[i] <= '9' ? s[i] - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (d < 0)
            return 0;
        *v = *v << 4 | (uint32_t)d;
    }
    return 1;
}

static size_t put_utf8(char *d, uint32_t c)
{
    if (c < 0x80) {
        d[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        d[0] = (char)(0xc0 | c >> 6);
        d[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        d[0] = (char)(0xe0 | c >> 12);
        d[1] = (char)(0x80 | (c >> 6 & 0x3f));
        d[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    d[0] = (char)(0xf0 | c >> 18);
    d[1] = (char)(0x80 | (c >> 12 & 0x3f));
    d[2] = (char)(0x80 | (c >> 6 & 0x3f));
    d[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* `s` is behind "\u". Returns bytes of the source taken after it, 0 when it is no escape. */
static size_t unescape_u(const char *s, const char *end, char *dst, size_t *out)
{
    uint32_t c, low;
    if (!hex4(s, end, &c))
        return 0;
    if (c >= 0xd800 && c < 0xdc00 && end - s >= 10 && s[4] == '\\' && s[5] == 'u' && hex4(s + 6, end, &low) &&
        low >= 0xdc00 && low < 0xe000) {
        *out += put_utf8(dst + *out, 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00));
        return 10;
    }
    *out += put_utf8(dst + *out, c >= 0xd800 && c < 0xe000 ? 0xfffd : c);
    return 4;
}

size_t gw_json_unescape(char *dst, const char *src, size_t n)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *end = src + n;
    size_t out = 0;
    while (src < end) {
        if (*src != '\\' || src + 1 == end) {
            dst[out++] = *src++;
            continue;
        }
        const char *hit = src[1] ? strchr(from, src[1]) : NULL;
        size_t taken = 0;
        if (hit) {
            dst[out++] = to[hit - from];
            src += 2;
        } else if (src[1] == 'u' && (taken = unescape_u(src + 2, end, dst, &out)) > 0) {
            src += 2 + taken;
        } else {
            dst[out++] = *src++;
            dst[out++] = *src++;
        }
    }
    return out;
}
