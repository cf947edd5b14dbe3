#include "report/json_writer.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/gw_error.h"
#include "report/utf8.h"

struct gw_json gw_json_begin(FILE *out)
{
    struct gw_json j = {.out = out};
    return j;
}

struct gw_json gw_json_document(FILE *out, const char *schema)
{
    struct gw_json j = gw_json_begin(out);
    gw_json_object(&j, NULL);
    gw_json_string(&j, "schema", schema);
    gw_json_string(&j, "tool", "gpuwhy " GW_VERSION);
    return j;
}

int gw_json_finish(struct gw_json *j)
{
    gw_json_end(j);
    assert(j->depth == 0);
    return fflush(j->out) == 0 && !ferror(j->out) ? GW_OK : GW_EIO;
}

/* Bytes at the start of `s` that are written as they are: ASCII that needs no escape. */
static size_t plain(const char *s)
{
    size_t n = 0;
    while ((unsigned char)s[n] >= 0x20 && (unsigned char)s[n] < 0x7f && s[n] != '"' && s[n] != '\\')
        n++;
    return n;
}

static void quote(FILE *out, const char *s)
{
    uint32_t cp;
    fputc('"', out);
    for (;;) {
        size_t n = plain(s);
        fwrite(s, 1, n, out);
        s += n;
        if ((cp = gw_utf8_next(&s)) == 0)
            break;
        if (cp == '"' || cp == '\\')
            fprintf(out, "\\%c", (int)cp);
        else if (cp == '\n')
            fputs("\\n", out);
        else if (cp == '\t')
            fputs("\\t", out);
        else if (cp < 0x20 || (cp >= 0x7f && cp <= 0x9f) || cp == 0x2028 || cp == 0x2029)
            fprintf(out, "\\u%04" PRIx32, cp);
        else {
            char bytes[5];
            gw_utf8_put(bytes, cp);
            fputs(bytes, out);
        }
    }
    fputc('"', out);
}

static void indent(const struct gw_json *j)
{
    if (j->line && j->depth >= j->line)
        return;
    fputc('\n', j->out);
    for (int i = 0; i < j->depth; i++)
        fputs("  ", j->out);
}

/* What comes before a value: comma, line, key. */
static void lead(struct gw_json *j, const char *key)
{
    if (j->depth == 0) {
        assert(!key);
        return;
    }
    int top = j->depth - 1;
    assert((j->close[top] == '}') == (key != NULL));
    if (j->members[top]++)
        fputs(j->line && j->depth >= j->line ? ", " : ",", j->out);
    indent(j);
    if (key) {
        quote(j->out, key);
        fputs(": ", j->out);
    }
}

static void open_level(struct gw_json *j, const char *key, char first, char last)
{
    lead(j, key);
    assert(j->depth < GW_JSON_DEPTH);
    fputc(first, j->out);
    j->close[j->depth] = last;
    j->members[j->depth] = 0;
    j->depth++;
}

void gw_json_object(struct gw_json *j, const char *key) { open_level(j, key, '{', '}'); }

void gw_json_array(struct gw_json *j, const char *key) { open_level(j, key, '[', ']'); }

void gw_json_inline(struct gw_json *j)
{
    assert(j->depth > 0);
    if (!j->line)
        j->line = j->depth;
}

void gw_json_row(struct gw_json *j, const char *key)
{
    gw_json_object(j, key);
    gw_json_inline(j);
}

void gw_json_end(struct gw_json *j)
{
    assert(j->depth > 0);
    int one_line = j->line && j->depth >= j->line;
    j->depth--;
    if (j->members[j->depth] && !one_line)
        indent(j);
    if (j->depth < j->line)
        j->line = 0;
    fputc(j->close[j->depth], j->out);
    if (j->depth == 0)
        fputc('\n', j->out);
}

void gw_json_null(struct gw_json *j, const char *key)
{
    lead(j, key);
    fputs("null", j->out);
}

void gw_json_string(struct gw_json *j, const char *key, const char *s)
{
    if (!s) {
        gw_json_null(j, key);
        return;
    }
    lead(j, key);
    quote(j->out, s);
}

void gw_json_text(struct gw_json *j, const char *key, const char *s) { gw_json_string(j, key, s ? s : ""); }

void gw_json_int(struct gw_json *j, const char *key, int64_t v)
{
    lead(j, key);
    fprintf(j->out, "%" PRId64, v);
}

void gw_json_uint(struct gw_json *j, const char *key, uint64_t v)
{
    lead(j, key);
    fprintf(j->out, "%" PRIu64, v);
}

void gw_json_known(struct gw_json *j, const char *key, int64_t v)
{
    if (v < 0)
        gw_json_null(j, key);
    else
        gw_json_int(j, key, v);
}

void gw_json_double(struct gw_json *j, const char *key, double v)
{
    if (!isfinite(v)) {
        gw_json_null(j, key);
        return;
    }
    /* 17 digits always read back the same (IEEE 754 binary64); often fewer do. */
    char buf[40];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(buf, sizeof buf, "%.*g", digits, v);
        if (strtod(buf, NULL) == v)
            break;
    }
    for (char *p = buf; *p; p++) /* a locale's decimal comma */
        if (*p == ',')
            *p = '.';
    lead(j, key);
    fputs(buf, j->out);
}

void gw_json_thousandths(struct gw_json *j, const char *key, int64_t v)
{
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    lead(j, key);
    fprintf(j->out, "%s%" PRIu64, v < 0 ? "-" : "", u / 1000);
    if (u % 1000)
        fprintf(j->out, u % 10 ? ".%03u" : u % 100 ? ".%02u" : ".%u", (unsigned)(u % 1000 / (u % 10 ? 1 : u % 100 ? 10 : 100)));
}

void gw_json_bool(struct gw_json *j, const char *key, int v)
{
    lead(j, key);
    fputs(v ? "true" : "false", j->out);
}

void gw_json_flag(struct gw_json *j, const char *key, int v)
{
    if (v < 0)
        gw_json_null(j, key);
    else
        gw_json_bool(j, key, v);
}
