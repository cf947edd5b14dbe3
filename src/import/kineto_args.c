#include "import/kineto_args.h"

#include <string.h>

#include "import/kineto_event.h"

int kineto_scalar(struct gw_json_cur *c, struct kineto_text *t)
{
    const char *p = c->p;
    *t = (struct kineto_text){p, 0};
    if (p < c->end && *p == '"') {
        const char *close = gw_json_string_end(p + 1, c->end);
        if (!close)
            return -1;
        *t = (struct kineto_text){p + 1, (size_t)(close - p - 1)};
        c->p = close + 1;
        return 0;
    }
    if (gw_json_skip_value(c) < 0)
        return -1;
    size_t n = (size_t)(c->p - p);
    if (n && *p != '{' && *p != '[' && !(n == 4 && !memcmp(p, "null", 4)))
        t->n = n;
    return 0;
}

static int ends_value(const char *p, const char *end)
{
    return p < end && (*p == ',' || *p == '}' || *p == ']' || gw_json_is_ws(*p));
}

int kineto_time(struct gw_json_cur *c, int64_t *ns, enum gw_dec *rc)
{
    const char *p = gw_decimal_us_fast(c->p, c->end, ns);
    if (p && ends_value(p, c->end)) {
        c->p = p;
        *rc = GW_DEC_OK;
        return 0;
    }
    struct kineto_text t;
    if (kineto_scalar(c, &t) < 0)
        return -1;
    *rc = gw_decimal_scaled(t.s, t.n, 3, ns);
    return 0;
}

int kineto_id(struct gw_json_cur *c, int64_t *id, int *has)
{
    const char *p = c->p, *end = c->end;
    int64_t v = 0;
    while (p < end && *p >= '0' && *p <= '9' && p - c->p < 18)
        v = v * 10 + (*p++ - '0');
    if (p > c->p && ends_value(p, end)) {
        c->p = p;
        *id = v;
        *has = 1;
        return 0;
    }
    struct kineto_text t;
    int is_string = c->p < end && *c->p == '"';
    if (kineto_scalar(c, &t) < 0)
        return -1;
    *has = is_string || t.n > 0;
    if (*has)
        *id = kineto_text_id(t.s, t.n);
    return 0;
}

/* A count: digits, possibly in a string. */
static int read_count(struct gw_json_cur *c, uint64_t *v, int *has)
{
    struct kineto_text t;
    int64_t id;
    if (kineto_scalar(c, &t) < 0)
        return -1;
    *has = gw_decimal_id(t.s, t.n, &id) && id >= 0;
    if (*has)
        *v = (uint64_t)id;
    return 0;
}

/* The product of a list of counts, "[8, 32, 1]". Nothing when one is missing, zero, or the product too large. */
static int read_product(struct gw_json_cur *c, uint64_t *v, int *has)
{
    const char *p = c->p;
    *has = 0;
    if (gw_json_skip_value(c) < 0)
        return -1;
    const char *end = c->p;
    if (p == end || *p != '[')
        return 0;
    uint64_t product = 1;
    int n = 0;
    for (p++; p < end && *p != ']'; n++) {
        while (p < end && (gw_json_is_ws(*p) || *p == ','))
            p++;
        int64_t f;
        size_t k = gw_json_word(p, end);
        if (k == 0)
            break;
        if (!gw_decimal_id(p, k, &f) || f <= 0 || __builtin_mul_overflow(product, (uint64_t)f, &product))
            return 0;
        p += k;
    }
    *v = product;
    *has = n > 0 && p < end && *p == ']';
    return 0;
}

/* The raw text of a value: shapes and types are kept as the trace writes them. */
static int read_raw(struct gw_json_cur *c, struct kineto_text *t)
{
    const char *p = c->p;
    if (gw_json_skip_value(c) < 0)
        return -1;
    *t = (struct kineto_text){p, (size_t)(c->p - p)};
    return 0;
}

static int is(const char *key, size_t n, const char *word) { return n == strlen(word) && !memcmp(key, word, n); }

static int set_id(struct gw_json_cur *c, struct kineto_args *a, int64_t *field, unsigned bit)
{
    int has = 0;
    if (kineto_id(c, field, &has) < 0)
        return -1;
    a->has = has ? a->has | bit : a->has & ~bit;
    return 0;
}

static int set_count(struct gw_json_cur *c, struct kineto_args *a, uint64_t *field, unsigned bit)
{
    int has;
    if (read_count(c, field, &has) < 0)
        return -1;
    a->has = has ? a->has | bit : a->has & ~bit;
    return 0;
}

static int set_product(struct gw_json_cur *c, struct kineto_args *a, uint64_t *field, unsigned bit)
{
    int has;
    if (read_product(c, field, &has) < 0)
        return -1;
    a->has = has ? a->has | bit : a->has & ~bit;
    return 0;
}

static int set_nelems(struct gw_json_cur *c, struct kineto_args *a)
{
    uint64_t v = 0;
    int has;
    if (read_count(c, &v, &has) < 0)
        return -1;
    if (has) {
        if (!(a->has & KINETO_ARG_NELEMS) || v > a->nelems)
            a->nelems = v;
        a->has |= KINETO_ARG_NELEMS;
    }
    return 0;
}

/* Each reads the value of one key, or passes over it. Keys are told apart by their length first. */
static int gpu_arg(struct gw_json_cur *c, struct kineto_args *a, const char *k, size_t n)
{
    switch (n) {
    case 4:
        if (is(k, n, "grid"))
            return set_product(c, a, &a->grid, KINETO_ARG_GRID);
        if (is(k, n, "kind"))
            return kineto_scalar(c, &a->copy_kind);
        break;
    case 5:
        if (is(k, n, "block"))
            return set_product(c, a, &a->block, KINETO_ARG_BLOCK);
        if (is(k, n, "bytes"))
            return set_count(c, a, &a->bytes, KINETO_ARG_BYTES);
        if (is(k, n, "dtype"))
            return kineto_scalar(c, &a->dtype);
        break;
    case 6:
        if (is(k, n, "device"))
            return set_id(c, a, &a->device, KINETO_ARG_DEVICE);
        if (is(k, n, "stream"))
            return set_id(c, a, &a->stream, KINETO_ARG_STREAM);
        break;
    case 11:
        if (is(k, n, "correlation"))
            return set_id(c, a, &a->corr, KINETO_ARG_CORR);
        break;
    case 13:
        if (is(k, n, "graph node id"))
            return set_id(c, a, &a->node, KINETO_ARG_NODE);
        if (is(k, n, "In msg nelems"))
            return set_nelems(c, a);
        break;
    case 14:
        if (is(k, n, "Out msg nelems"))
            return set_nelems(c, a);
        if (is(k, n, "wait_on_stream"))
            return set_id(c, a, &a->wait_stream, KINETO_ARG_WAIT);
        break;
    default: break;
    }
    return gw_json_skip_value(c);
}

static int api_arg(struct gw_json_cur *c, struct kineto_args *a, const char *k, size_t n)
{
    if (is(k, n, "correlation"))
        return set_id(c, a, &a->corr, KINETO_ARG_CORR);
    if (is(k, n, "bytes") || is(k, n, "size"))
        return set_count(c, a, &a->bytes, KINETO_ARG_BYTES);
    return gw_json_skip_value(c);
}

static int op_arg(struct gw_json_cur *c, struct kineto_args *a, const char *k, size_t n)
{
    if (n == 10 && !memcmp(k, "Input ", 6)) {
        if (is(k, n, "Input Dims") || is(k, n, "Input dims")) /* "dims" until 1.9 */
            return read_raw(c, &a->dims);
        if (is(k, n, "Input type"))
            return read_raw(c, &a->types);
    }
    return gw_json_skip_value(c);
}

static int meta_arg(struct gw_json_cur *c, struct kineto_args *a, const char *k, size_t n)
{
    if (is(k, n, "name"))
        return kineto_scalar(c, &a->name);
    return gw_json_skip_value(c);
}

int kineto_args_read(struct gw_json_cur *c, enum kineto_args_for what, struct kineto_args *a)
{
    kineto_args_clear(a);
    if (c->p == c->end || *c->p != '{' || what == KINETO_ARGS_NONE)
        return gw_json_skip_value(c);
    c->p++;
    const char *key;
    size_t n;
    int r;
    while ((r = gw_json_next_key(c, &key, &n)) == 1) {
        int bad = what == KINETO_ARGS_GPU   ? gpu_arg(c, a, key, n)
                  : what == KINETO_ARGS_API ? api_arg(c, a, key, n)
                  : what == KINETO_ARGS_OP  ? op_arg(c, a, key, n)
                                            : meta_arg(c, a, key, n);
        if (bad < 0)
            return -1;
    }
    return r;
}
