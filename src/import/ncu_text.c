/*
 * The text that ncu prints by default:
 *
 *   void gemm(float *) (1024, 1, 1)x(128, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
 *     Section: GPU Speed Of Light Throughput
 *     ----------------------- ----------- ------------
 *     Metric Name             Metric Unit Metric Value
 *     ----------------------- ----------- ------------
 *     Duration                         us        63.58
 *     ----------------------- ----------- ------------
 *
 * The dashes say where the columns are: the unit may be missing, and names hold single blanks.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "import/ncu.h"

static const char *last_of(const char *s, size_t len, const char *what)
{
    size_t n = strlen(what);
    for (size_t i = len; i >= n; i--)
        if (!memcmp(s + i - n, what, n))
            return s + i - n;
    return NULL;
}

/* "name(args) (1, 2, 3)x(4, 5, 6)" -> the dimensions off the end; returns the length of the name. */
static size_t take_dims(struct ncu_str head, struct ncu_str *grid, struct ncu_str *block)
{
    const char *x = last_of(head.s, head.len, ")x(");
    if (!x || head.s[head.len - 1] != ')')
        return head.len;
    const char *open = x;
    while (open > head.s && *open != '(')
        open--;
    *grid = ncu_str(open, (size_t)(x + 1 - open));
    *block = ncu_str(x + 2, (size_t)(head.s + head.len - (x + 2)));
    return (size_t)(open - head.s);
}

/* "name(args), 2020-Sep-10 11:22:33": the time that versions before 2021.2 print. */
static size_t without_time(const char *s, size_t len)
{
    const char *comma = last_of(s, len, ", ");
    if (!comma || len - (size_t)(comma - s) < 13)
        return len;
    const char *p = comma + 2;
    int year = 1;
    for (int i = 0; i < 4; i++)
        year &= p[i] >= '0' && p[i] <= '9';
    return year && p[4] == '-' ? (size_t)(comma - s) : len;
}

/* ", Context 1, Stream 7": words before numbers, so that ncu's advice about streams is not taken for it. */
static int is_place(const char *s, const char *end)
{
    static const char *const words[] = {", Context ", ", Stream "};
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(end - s) <= n || memcmp(s, words[i], n) != 0 || !isdigit((unsigned char)s[n]))
            return 0;
        for (s += n; s < end && isdigit((unsigned char)*s); s++)
            ;
    }
    return 1;
}

static int kernel_line(struct ncu *x, struct ncu_str line)
{
    const char *context = last_of(line.s, line.len, ", Context ");
    if (!context || !is_place(context, line.s + line.len))
        return 0;
    struct ncu_str head = ncu_str(line.s, (size_t)(context - line.s)), grid = {0}, block = {0};
    size_t n = take_dims(head, &grid, &block);
    n = without_time(head.s, n);
    char key[32]; /* every such line is a launch of its own */
    size_t key_len = (size_t)snprintf(key, sizeof key, "text %llu", (unsigned long long)x->rows++);
    ncu_begin(x, ncu_trim(ncu_str(head.s, n)), ncu_str(key, key_len));
    if (grid.len)
        ncu_shape(x, GW_KM_BLOCKS, grid);
    if (block.len)
        ncu_shape(x, GW_KM_THREADS, block);
    x->text.in_table = 0;
    return 1;
}

/* A line of three groups of dashes. */
static int ruler(struct ncu_text *t, const char *s, size_t len)
{
    size_t at[3], groups = 0, i = 0;
    while (i < len) {
        if (s[i] == '-') {
            if (groups == 3)
                return 0;
            at[groups++] = i;
            while (i < len && s[i] == '-')
                i++;
        } else if (s[i] == ' ' || s[i] == '\t') {
            i++;
        } else {
            return 0;
        }
    }
    if (groups != 3)
        return 0;
    /* first, between head and rows, last: rows come after the second */
    if (t->in_table && t->rulers == 2) {
        t->in_table = 0;
    } else {
        t->rulers = t->in_table ? 2 : 1;
        t->in_table = 1;
    }
    t->name_at = at[0];
    t->unit_at = at[1];
    t->value_at = at[2];
    return 1;
}

int ncu_text_line(struct ncu *x, const char *line, size_t len)
{
    struct ncu_text *t = &x->text;
    struct ncu_str s = ncu_trim(ncu_str(line, len));
    if (!s.len)
        return 0;
    if (kernel_line(x, s))
        return 1;
    if (s.len > 5 && ruler(t, line, len))
        return 1;
    if (t->in_table && t->rulers == 2 && len > t->value_at) {
        struct ncu_str name = ncu_trim(ncu_str(line, t->unit_at));
        struct ncu_str unit = ncu_trim(ncu_str(line + t->unit_at, t->value_at - t->unit_at));
        struct ncu_str value = ncu_trim(ncu_str(line + t->value_at, len - t->value_at));
        ncu_metric(x, ncu_what(name), name, unit, value);
        return 1;
    }
    return t->in_table && t->rulers == 1; /* "Metric Name  Metric Unit  Metric Value" */
}
