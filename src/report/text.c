#include "report/text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "report/clean.h"
#include "report/utf8.h"

#define GW_TEXT_WIDTH 80     /* when the caller knows no better */
#define GW_TEXT_WIDTH_MIN 40 /* the bars and labels need that much */

struct gw_text gw_text_begin(FILE *out, const struct gw_render_options *o)
{
    struct gw_text t = {.out = out, .width = o->width ? o->width : GW_TEXT_WIDTH, .fresh = 1};
    if (t.width < GW_TEXT_WIDTH_MIN)
        t.width = GW_TEXT_WIDTH_MIN;
    t.unicode = o->unicode;
    t.colour = o->colour;
    return t;
}

static void pad(struct gw_text *t, int n)
{
    for (; n > 0; n--, t->col++)
        fputc(' ', t->out);
}

static void newline(struct gw_text *t)
{
    fputc('\n', t->out);
    t->col = 0;
    t->space = 0;
    t->fresh = 1;
    t->last = 0;
}

/* Words after a number that belong to it. */
static const char *const units[] = {"%",   "ns",  "\xc2\xb5s", "us", "ms", "s",  "min", "B",   "KiB",     "MiB",
                                    "GiB", "TiB", "kB",        "MB", "GB", "TB", "W",   "MHz", "\xc3\x97"};

static int unit_follows(const char *s)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t n = strlen(units[i]);
        if (strncmp(s, units[i], n) == 0 && !isalnum((unsigned char)s[n]) && (unsigned char)s[n] < 0x80)
            return 1;
    }
    return 0;
}

/* 1 when the quotation that starts at `s` (after the back-quote) ends before `room` columns. */
static int quote_fits(const struct gw_text *t, const char *s, int room)
{
    struct gw_clean c = gw_clean_begin(s, t->unicode);
    int width = 2; /* the two quotes */
    while (width < room && gw_clean_next(&c)) {
        if (c.text[0] == '`')
            return 1;
        width += c.width;
    }
    return 0;
}

/* A word: [from, to) of the input, `width` columns, with glued blanks inside. `next` is where the next one starts. */
struct word {
    const char *from, *to;
    int width;
};

/* East Asian text breaks between any two characters, but for these (the common part of the rules of GB/T 15834 and
 * JIS X 4051): no line begins with one of the first set, none ends with one of the second. */
static int glued(uint32_t before, uint32_t after)
{
    static const uint32_t closing[] = {0x3001, 0x3002, 0x3009, 0x300b, 0x300d, 0x300f, 0x3011, 0x3015, 0xff01, 0xff05, 0xff09,
                                       0xff0c, 0xff0e, 0xff1a, 0xff1b, 0xff1f, 0xff5e, 0x2019, 0x201d, 0x2026, ')', ',',
                                       '.',    ';',    ':',    '!',    '?',    ']',    '%'};
    static const uint32_t opening[] = {0x3008, 0x300a, 0x300c, 0x300e, 0x3010, 0x3014, 0xff08, 0x2018, 0x201c, '(', '['};
    for (size_t i = 0; i < sizeof closing / sizeof *closing; i++)
        if (after == closing[i])
            return 1;
    for (size_t i = 0; i < sizeof opening / sizeof *opening; i++)
        if (before == opening[i])
            return 1;
    return 0;
}

/* 1 when a line may break between the two characters although no blank is there. */
static int breaks_between(uint32_t before, uint32_t after)
{
    if (!before || (before < 0x1100 && after < 0x1100)) /* nothing below is wide */
        return 0;
    return (gw_utf8_width(before) == 2 || gw_utf8_width(after) == 2) && !glued(before, after);
}

static struct word next_word(const struct gw_text *t, const char *s)
{
    struct word w = {.from = s, .to = s};
    struct gw_clean c = gw_clean_begin(s, t->unicode);
    int quoted = 0, digit = 0;
    const char *at = s;
    uint32_t before = 0;
    while (gw_clean_next(&c)) {
        const char *text = c.text;
        uint32_t cp = gw_utf8_next(&text);
        if (c.text[0] == ' ' && !quoted && !(digit && unit_follows(c.next)))
            break;
        if (!quoted && breaks_between(before, cp))
            break;
        before = c.width ? cp : before;
        if (c.text[0] == '`')
            quoted = !quoted && quote_fits(t, c.next, t->width - t->indent);
        digit = isdigit((unsigned char)c.text[0]);
        w.width += c.width;
        at = c.next;
    }
    w.to = at;
    return w;
}

/* Full-width signs hold a blank of their own. */
static int full_stop_like(uint32_t c)
{
    return c == 0x3001 || c == 0x3002 || c == 0xff0c || c == 0xff1a || c == 0xff1b || c == 0xff01 || c == 0xff1f || c == 0xff09;
}

static int full_width_opening(uint32_t c) { return c == 0xff08 || full_stop_like(c); }

static void put_word(struct gw_text *t, struct word w)
{
    const char *from = w.from;
    if (full_stop_like(t->last) || full_width_opening(gw_utf8_next(&from)))
        t->space = 0; /* the blank is part of the sign */
    if (t->col + t->space + w.width > t->width && !t->fresh)
        newline(t);
    if (t->col == 0)
        pad(t, t->indent);
    else
        pad(t, t->space);
    t->space = 0;
    t->fresh = 0;
    struct gw_clean c = gw_clean_begin(w.from, t->unicode);
    while (c.next < w.to && gw_clean_next(&c)) {
        if (t->col + c.width > t->width && t->col > t->indent) { /* a word longer than a line */
            newline(t);
            t->fresh = 0;
            pad(t, t->indent);
        }
        fputs(strcmp(c.text, GW_NBSP) == 0 ? " " : c.text, t->out);
        t->col += c.width;
        const char *text = c.text;
        t->last = gw_utf8_next(&text);
    }
}

void gw_text_words(struct gw_text *t, const char *s)
{
    if (!s)
        return;
    for (;;) {
        struct gw_clean c = gw_clean_begin(s, t->unicode);
        if (!gw_clean_next(&c))
            return; /* nothing more that can be shown */
        if (c.text[0] == ' ') {
            t->space = !t->fresh;
            s = c.next;
        } else {
            struct word w = next_word(t, s);
            put_word(t, w);
            s = w.to;
        }
    }
}

void gw_text_printf(struct gw_text *t, const char *fmt, ...)
{
    char *s = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&s, fmt, ap);
    va_end(ap);
    if (n < 0)
        return; /* out of memory: the text is left out rather than the report */
    gw_text_words(t, s);
    free(s);
}

void gw_text_lines(struct gw_text *t, const char *s)
{
    while (s && *s) {
        size_t n = strcspn(s, "\n"), blanks = strspn(s, " ");
        if (t->fresh && blanks > 0 && blanks < 20) /* code is indented */
            gw_text_tab(t, (t->col > 0 ? t->col : t->indent) + (int)blanks);
        gw_text_printf(t, "%.*s", (int)n, s);
        s += n;
        if (*s) {
            s++;
            newline(t);
        }
    }
}

void gw_text_tab(struct gw_text *t, int col)
{
    pad(t, t->col < col ? col - t->col : 1);
    t->space = 0;
    t->last = 0;
    t->fresh = 1;
}

void gw_text_right(struct gw_text *t, const char *s, int edge)
{
    gw_text_tab(t, edge - gw_clean_width(s, t->unicode));
    gw_text_words(t, s);
}

void gw_text_line(struct gw_text *t)
{
    if (t->col > 0)
        newline(t);
}

void gw_text_blank(struct gw_text *t)
{
    gw_text_line(t);
    newline(t);
}

void gw_text_style(struct gw_text *t, enum gw_style style)
{
    /* SGR codes of ECMA-48; only the eight basic colours, which follow the user's palette. */
    static const char *const codes[] = {"0", "1", "2", "32", "35", "33", "31", "33"};
    if (!t->colour)
        return;
    if (t->space && t->col > 0) { /* the blank before coloured text is not coloured */
        pad(t, t->space);
        t->space = 0;
    }
    fprintf(t->out, "\033[%sm", codes[style]);
}
