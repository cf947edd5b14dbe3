#include "report/csv.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/utf8.h"

struct gw_csv gw_csv_begin(FILE *out) { return (struct gw_csv){.out = out}; }

static void lead(struct gw_csv *c)
{
    if (c->cells++)
        fputc(',', c->out);
}

void gw_csv_text(struct gw_csv *c, const char *s)
{
    uint32_t cp;
    lead(c);
    if (!s || !*s)
        return;
    int formula = strchr("=+-@\t\r\n", *s) != NULL;
    int quote = formula || strpbrk(s, ",\"\r\n") || *s == ' ' || s[strlen(s) - 1] == ' ';
    if (quote)
        fputc('"', c->out);
    if (formula)
        fputc('\'', c->out);
    while ((cp = gw_utf8_next(&s)) != 0) {
        char bytes[5];
        if (cp == '"')
            fputc('"', c->out);
        else if ((cp < 0x20 && cp != '\n' && cp != '\r') || (cp >= 0x7f && cp <= 0x9f))
            cp = ' ';
        gw_utf8_put(bytes, cp);
        fputs(bytes, c->out);
    }
    if (quote)
        fputc('"', c->out);
}

void gw_csv_int(struct gw_csv *c, int64_t v)
{
    lead(c);
    fprintf(c->out, "%" PRId64, v);
}

void gw_csv_known(struct gw_csv *c, int64_t v)
{
    lead(c);
    if (v >= 0)
        fprintf(c->out, "%" PRId64, v);
}

void gw_csv_double(struct gw_csv *c, double v)
{
    char buf[40];
    lead(c);
    if (!isfinite(v))
        return;
    for (int digits = 6; digits <= 17; digits++) { /* the fewest that read back the same */
        snprintf(buf, sizeof buf, "%.*g", digits, v);
        if (strtod(buf, NULL) == v)
            break;
    }
    fputs(buf, c->out);
}

void gw_csv_row(struct gw_csv *c)
{
    fputs("\r\n", c->out);
    c->cells = 0;
}

void gw_csv_header(struct gw_csv *c, const char *names)
{
    fputs(names, c->out);
    gw_csv_row(c);
}
