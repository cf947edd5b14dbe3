/* sweep_marks.c - steps by what the job prints. See sweep_marks.h */
#include "cli/sweep_marks.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- series --- */

void gw_sweep_series_add(struct gw_sweep_series *s, int64_t at, double value, int has_value)
{
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 1024;
        int64_t *at_more = cap <= GW_SWEEP_SERIES ? realloc(s->at, cap * sizeof *at_more) : NULL;
        if (at_more)
            s->at = at_more;
        double *more = at_more && has_value ? realloc(s->value, cap * sizeof *more) : NULL;
        if (more)
            s->value = more;
        if (!at_more || (has_value && !more)) {
            s->is_full = 1;
            return;
        }
        s->cap = cap;
    }
    if (s->n && at < s->at[s->n - 1])
        at = s->at[s->n - 1];
    if (has_value)
        s->value[s->n] = value;
    s->at[s->n++] = at;
}

void gw_sweep_series_free(struct gw_sweep_series *s)
{
    free(s->at);
    free(s->value);
    memset(s, 0, sizeof *s);
}

void gw_sweep_series_rate(const struct gw_sweep_series *s, struct gw_sweep_rate *out)
{
    if (s->value)
        gw_sweep_rate_of_values(s->value, s->at, s->n, out);
    else
        gw_sweep_rate_of_marks(s->at, s->n, out);
}

/* --- output --- */

int gw_sweep_pattern_compile(struct gw_sweep_pattern *p, const char *text, char *why, size_t cap)
{
    memset(p, 0, sizeof *p);
    int rc = regcomp(&p->regex, text, REG_EXTENDED | REG_NEWLINE);
    if (rc != 0) {
        regerror(rc, &p->regex, why, cap);
        return -1;
    }
    p->is_used = 1;
    p->has_number = p->regex.re_nsub > 0;
    return 0;
}

void gw_sweep_output_init(struct gw_sweep_output *o, const struct gw_sweep_pattern *p)
{
    memset(o, 0, sizeof *o);
    o->pattern = p;
}

void gw_sweep_output_free(struct gw_sweep_output *o) { gw_sweep_series_free(&o->series); }

/* Appends a line to the last words; the oldest go. */
static void remember(char *tail, const char *line)
{
    size_t have = strlen(tail), more = strlen(line) + 1;
    if (have + more >= GW_SWEEP_TAIL) {
        size_t drop = have + more + 1 - GW_SWEEP_TAIL;
        const char *after = drop < have ? strchr(tail + drop, '\n') : NULL;
        have = after ? strlen(after + 1) : 0;
        if (after)
            memmove(tail, after + 1, have + 1);
        tail[have] = 0;
    }
    memcpy(tail + have, line, more - 1);
    memcpy(tail + have + more - 1, "\n", 2);
}

/* The number at the start of a text, whatever separates its thousands and its decimals: "1234.5", "1,234.5", "1.234,5",
 * "12,75". One comma before exactly three digits separates thousands ("1,234"), but not behind a lone 0. NAN: none. */
static double number_in(const char *text, size_t len)
{
    char plain[64];
    size_t n = 0, commas = 0, dots = 0, last = 0, digits = 0;
    for (size_t i = 0; i < len && (isdigit((unsigned char)text[i]) || text[i] == ',' || text[i] == '.'); i++) {
        commas += text[i] == ',';
        dots += text[i] == '.';
        last = isdigit((unsigned char)text[i]) ? last : i;
        digits = i + 1;
    }
    if (!commas && dots < 2) {
        snprintf(plain, sizeof plain, "%.*s", (int)(len < sizeof plain ? len : sizeof plain - 1), text);
    } else {
        char mark = text[last];
        int is_thousands = (mark == ',' ? commas : dots) > 1 ||
                           (mark == ',' && !dots && digits - last == 4 && last <= 3 && text[0] != '0');
        for (size_t i = 0; i < digits && n + 1 < sizeof plain; i++)
            if (isdigit((unsigned char)text[i]))
                plain[n++] = text[i];
            else if (i == last && !is_thousands)
                plain[n++] = '.';
        plain[n] = 0;
    }
    char *end;
    double v = strtod(plain, &end);
    return end != plain && isfinite(v) && v >= 0 ? v : NAN;
}

static void one_match(struct gw_sweep_output *o, const char *line, const regmatch_t *m, int64_t now)
{
    if (!o->pattern->has_number) {
        gw_sweep_series_add(&o->series, now, NAN, 0);
    } else if (m[1].rm_so >= 0) {
        double v = number_in(line + m[1].rm_so, (size_t)(m[1].rm_eo - m[1].rm_so));
        if (!isnan(v))
            gw_sweep_series_add(&o->series, now, v, 1);
    }
}

/* Takes the matches in what is there of a line. One at the very end of a line that still grows may become a longer one: it
 * waits. */
static void take_matches(struct gw_sweep_output *o, int stream, int is_whole, int64_t now)
{
    struct gw_sweep_line_text *l = &o->line[stream];
    const struct gw_sweep_pattern *p = o->pattern;
    regmatch_t m[2];
    if (!p->is_used || p->is_lines)
        return;
    while (l->seen <= l->len &&
           regexec(&p->regex, l->text + l->seen, 2, m, l->seen || l->is_long ? REG_NOTBOL : 0) == 0) {
        if (!is_whole && l->seen + (size_t)m[0].rm_eo >= l->len)
            return;
        one_match(o, l->text + l->seen, m, now);
        l->seen += m[0].rm_eo > 0 ? (size_t)m[0].rm_eo : 1;
        if (m[0].rm_eo == m[0].rm_so) /* nothing in it: one a line is enough */
            l->seen = l->len + 1;
    }
}

static void end_line(struct gw_sweep_output *o, int stream, int64_t now)
{
    struct gw_sweep_line_text *l = &o->line[stream];
    if (l->len)
        remember(stream ? o->tail : o->other, l->text);
    if (o->pattern->is_lines && stream == 0)
        gw_sweep_series_add(&o->series, now, NAN, 0);
    take_matches(o, stream, 1, now);
    l->len = l->seen = 0;
    l->text[0] = 0;
    l->is_long = 0;
}

/* Makes room in a line without an end: what was looked at goes, at least half of it. */
static void shorten(struct gw_sweep_output *o, int stream, int64_t now)
{
    struct gw_sweep_line_text *l = &o->line[stream];
    take_matches(o, stream, 0, now);
    size_t drop = l->seen > GW_SWEEP_LINE / 2 ? l->seen : GW_SWEEP_LINE / 2;
    drop = drop < l->len ? drop : l->len;
    l->len -= drop;
    l->seen = l->seen > drop ? l->seen - drop : 0;
    memmove(l->text, l->text + drop, l->len + 1);
    l->is_long = 1;
}

void gw_sweep_output_feed(struct gw_sweep_output *o, int stream, const char *data, size_t n, int64_t now)
{
    struct gw_sweep_line_text *l = &o->line[stream];
    for (size_t i = 0; i < n; i++) {
        char c = data[i];
        if (c == '\n' || c == '\r') { /* progress bars go back to the start of their line */
            if (l->len || (c == '\n' && !l->is_long))
                end_line(o, stream, now);
            l->is_long = 0;
            continue;
        }
        if (l->len + 1 == GW_SWEEP_LINE)
            shorten(o, stream, now);
        l->text[l->len++] = c ? c : ' ';
        l->text[l->len] = 0;
    }
    take_matches(o, stream, 0, now);
}

/* --- why a job failed --- */

static int has_word(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (; *text; text++)
        if (strncasecmp(text, word, n) == 0)
            return 1;
    return 0;
}

static int speaks_of_memory(const char *line)
{
    /* CUDA, cuDNN, cuBLAS and NCCL; PyTorch, JAX, TensorFlow; Python, C++ and the C library. */
    static const char *const words[] = {"out of memory",
                                        "outofmemory",
                                        "out_of_memory",
                                        "resource_exhausted",
                                        "resourceexhausted",
                                        "alloc_failed",
                                        "memoryerror",
                                        "bad_alloc",
                                        "cannot allocate memory",
                                        "can't allocate memory",
                                        "unable to allocate",
                                        "not enough memory",
                                        "no space left on device (28)",
                                        "oom-kill"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (has_word(line, words[i]))
            return 1;
    return 0;
}

/* A line that says what went wrong: "SomeError: ...", and not one of a stack. */
static int is_telling(const char *line)
{
    return *line && !isspace((unsigned char)*line) && strncmp(line, "Traceback", 9) != 0 &&
           (strstr(line, "Error") || strstr(line, "Exception") || strstr(line, "error:") || strstr(line, "Killed"));
}

static void copy_line(char *buf, size_t cap, const char *line, size_t len)
{
    while (len && isspace((unsigned char)*line))
        line++, len--;
    snprintf(buf, cap, "%.*s", (int)(len < cap ? len : cap - 1), line);
}

int gw_sweep_output_why(const struct gw_sweep_output *o, char *buf, size_t cap, int *is_memory)
{
    const char *text = *o->tail ? o->tail : o->other, *end;
    int rank = 0; /* of the line that is kept: 1 any, 2 names an error, 3 speaks of memory */
    *buf = 0;
    *is_memory = 0;
    for (; *text; text = end + 1) {
        char line[GW_SWEEP_LINE];
        end = strchr(text, '\n');
        if (!end)
            break;
        snprintf(line, sizeof line, "%.*s", (int)(end - text), text);
        int r = speaks_of_memory(line) ? 3 : is_telling(line) ? 2 : 1;
        *is_memory |= r == 3;
        if (r > rank ||
            (r == rank && r < 3)) { /* the last one, but the first that speaks of memory: others only pass it on */
            rank = r;
            copy_line(buf, cap, text, (size_t)(end - text));
        }
    }
    return rank > 1;
}
