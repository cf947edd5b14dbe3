#include "import/kineto_fields.h"

#include <string.h>

int kineto_ph_dropped(char ph)
{
    switch (ph) {
    case 's':
    case 't':
    case 'f':
    case 'i':
    case 'I':
    case 'R':
    case 'n':
    case 'b':
    case 'e':
    case 'N':
    case 'O':
    case 'D':
    case 'P':
    case 'v':
    case 'V':
    case 'c':
    case 'p':
    case '(':
    case ')':
    case ',': return 1;
    default: return 0;
    }
}

static enum kineto_args_for args_for(const struct kineto_fields *f)
{
    if (f->ph == 'M')
        return KINETO_ARGS_META;
    switch (f->kind) {
    case GW_KIND_KERNEL:
    case GW_KIND_COPY:
    case GW_KIND_SET:
    case GW_KIND_GPU_SYNC:
    case KINETO_UNKNOWN:
    case KINETO_RANGE: return KINETO_ARGS_GPU;
    case GW_KIND_API: return KINETO_ARGS_API;
    case GW_KIND_OP: return KINETO_ARGS_OP;
    default: return KINETO_ARGS_NONE;
    }
}

/* Is there a key "ph" in [p, end)? */
static int has_ph(const char *p, const char *end)
{
    static const char ph[] = {'"', 'p', 'h', '"'};
#if defined(__SSE2__)
    /* A quote and a p together are rare enough to look closer each time. */
    const char *stop = end - p >= 17 ? end - 17 : NULL; /* the last step; it overlaps the one before */
    for (const char *q = p; stop; q += 16) {
        q = q > stop ? stop : q;
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)q);
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(q + 1));
        unsigned m = (unsigned)_mm_movemask_epi8(
            _mm_and_si128(_mm_cmpeq_epi8(a, _mm_set1_epi8('"')), _mm_cmpeq_epi8(b, _mm_set1_epi8('p'))));
        for (; m; m &= m - 1)
            if (end - q - __builtin_ctz(m) >= 4 && !memcmp(q + __builtin_ctz(m), ph, sizeof ph))
                return 1;
        if (q == stop)
            return 0;
    }
#endif
    return memmem(p, (size_t)(end - p), ph, sizeof ph) != NULL;
}

/* Nothing more is needed from the rest of the event. It is passed over unread when it is the rest of this one only: two
 * events that damage glued together have a second "ph". */
static int may_stop(const struct kineto_fields *f, const struct gw_json_cur *c)
{
    enum { ALL = KINETO_HAS_TS | KINETO_HAS_DUR | KINETO_HAS_PID | KINETO_HAS_TID | KINETO_HAS_NAME };
    int wanted = f->ph == 'X' && f->kind != KINETO_DROP;
    if (!(f->has & KINETO_HAS_PH) || (wanted && (f->has & ALL) != ALL) ||
        (!wanted && f->ph != 'X' && !kineto_ph_dropped(f->ph)))
        return 0;
    return !has_ph(c->p, c->end);
}

static int read_ph(struct gw_json_cur *c, struct kineto_fields *f)
{
    struct kineto_text t;
    if (kineto_scalar(c, &t) < 0)
        return -1;
    f->ph = t.n == 1 ? t.s[0] : '?';
    f->has |= KINETO_HAS_PH;
    return kineto_ph_dropped(f->ph) && may_stop(f, c);
}

static int read_cat(struct gw_json_cur *c, struct kineto_fields *f, const struct kineto_tables *k)
{
    struct kineto_text t;
    if (kineto_scalar(c, &t) < 0)
        return -1;
    f->kind = kineto_cat_kind(k, t.s, t.n);
    f->has |= KINETO_HAS_CAT;
    return f->kind == KINETO_DROP && f->ph == 'X' && may_stop(f, c);
}

static int read_args(struct gw_json_cur *c, struct kineto_fields *f)
{
    f->args = c->p;
    f->args_done = 0;
    if (!(f->has & KINETO_HAS_CAT) || !(f->has & KINETO_HAS_PH) || f->ph == 'C' || f->kind == KINETO_RANGE)
        return gw_json_skip_value(c); /* read later */
    enum kineto_args_for what = args_for(f);
    if (what == KINETO_ARGS_NONE && may_stop(f, c))
        return 1;
    f->args_done = 1;
    return kineto_args_read(c, what, &f->a);
}

static int read_id_field(struct gw_json_cur *c, int64_t *v, struct kineto_fields *f, unsigned bit)
{
    int has = 0;
    if (kineto_id(c, v, &has) < 0)
        return -1;
    f->has = has ? f->has | bit : f->has & ~bit;
    return 0;
}

/* One member of the event. 0 go on, 1 enough is known, -1 no JSON. */
static int read_member(struct gw_json_cur *c, struct kineto_fields *f, const struct kineto_tables *t, const char *key,
                       size_t n)
{
    switch (n) {
    case 2:
        if (!memcmp(key, "ph", 2))
            return read_ph(c, f);
        if (!memcmp(key, "ts", 2)) {
            f->has |= KINETO_HAS_TS;
            return kineto_time(c, &f->ts, &f->ts_rc);
        }
        break;
    case 3:
        if (!memcmp(key, "cat", 3))
            return read_cat(c, f, t);
        if (!memcmp(key, "dur", 3)) {
            f->has |= KINETO_HAS_DUR;
            return kineto_time(c, &f->dur, &f->dur_rc);
        }
        if (!memcmp(key, "pid", 3))
            return read_id_field(c, &f->pid, f, KINETO_HAS_PID);
        if (!memcmp(key, "tid", 3))
            return read_id_field(c, &f->tid, f, KINETO_HAS_TID);
        break;
    case 4:
        if (!memcmp(key, "name", 4)) {
            f->has |= KINETO_HAS_NAME;
            return kineto_scalar(c, &f->name);
        }
        if (!memcmp(key, "args", 4))
            return read_args(c, f);
        break;
    default: break;
    }
    f->has |= KINETO_HAS_OTHER;
    return gw_json_skip_value(c);
}

int kineto_fields_read(const struct kineto_tables *k, const char *text, const char *end, struct kineto_fields *f,
                       const char **at)
{
    struct gw_json_cur c = {text + 1, end};
    const char *key = NULL;
    size_t n = 0;
    int r;
    f->start = text;
    f->has = 0;
    f->ph = '\0';
    f->kind = KINETO_UNKNOWN;
    f->name = (struct kineto_text){NULL, 0};
    f->pid = f->tid = 0;
    f->args = NULL;
    f->args_done = 0;
    kineto_args_clear(&f->a);
    while ((r = gw_json_next_key(&c, &key, &n)) == 1) {
        int done = read_member(&c, f, k, key, n);
        if (done > 0)
            return 0;
        if (done < 0) {
            r = -1;
            break;
        }
    }
    *at = c.p;
    if (r == 0 && c.p == end && f->args && !f->args_done && f->ph != 'C' && f->kind != KINETO_RANGE) {
        struct gw_json_cur late = {f->args, end};
        kineto_args_read(&late, args_for(f), &f->a); /* walked over before, so it is well-formed */
    }
    return r == 0 && c.p == end ? 0 : -1;
}
