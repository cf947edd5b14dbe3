#include "report/clean.h"

#include <string.h>

#include "report/utf8.h"

/* What our own texts use beyond ASCII, for terminals without UTF-8. */
static const struct {
    uint32_t cp;
    const char *ascii;
} plain[] = {
    {0x00b0, "deg"}, {0x00b1, "+-"},  {0x00b5, "u"},  {0x00b7, "|"}, {0x00d7, "x"}, {0x00f7, "/"},  {0x03bc, "u"},
    {0x2010, "-"},   {0x2011, "-"},   {0x2013, "-"},  {0x2014, "-"}, {0x2018, "'"}, {0x2019, "'"},  {0x201c, "\""},
    {0x201d, "\""},  {0x2026, "..."}, {0x2192, "->"}, {0x2212, "-"}, {0x2248, "~"}, {0x2264, "<="}, {0x2265, ">="},
};

/* Characters that wcwidth() may let pass but that change how the text around them is shown: soft hyphen, direction
 * marks and overrides, invisible operators, line and paragraph separators, byte-order mark, annotations, tags
 * (Unicode 15, general category Cf, Zl and Zp). */
static int reorders(uint32_t cp)
{
    return cp == 0xad || cp == 0x61c || cp == 0x180e || (cp >= 0x200b && cp <= 0x200f) ||
           (cp >= 0x2028 && cp <= 0x202e) || (cp >= 0x2060 && cp <= 0x206f) || cp == 0xfeff ||
           (cp >= 0xfff9 && cp <= 0xfffb) || (cp >= 0xe0000 && cp <= 0xe0fff);
}

static int is_blank(uint32_t cp)
{
    return cp == ' ' || (cp >= '\t' && cp <= '\r') || (cp >= 0x2000 && cp <= 0x2006) ||
           (cp >= 0x2008 && cp <= 0x200a) || cp == 0x205f || cp == 0x3000;
}

static void give(struct gw_clean *c, const char *text, int width)
{
    size_t n = strlen(text);
    memcpy(c->text, text, n + 1);
    c->width = width;
    if (width > 0)
        c->marks = 0;
}

static void give_replacement(struct gw_clean *c) { give(c, c->unicode ? "\xef\xbf\xbd" : "?", 1); }

static void give_ascii(struct gw_clean *c, uint32_t cp)
{
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        if (plain[i].cp == cp) {
            give(c, plain[i].ascii, (int)strlen(plain[i].ascii));
            return;
        }
    }
    give_replacement(c);
}

struct gw_clean gw_clean_begin(const char *s, int unicode)
{
    struct gw_clean c = {.next = s ? s : "", .unicode = unicode, .marks = -1};
    return c;
}

int gw_clean_next(struct gw_clean *c)
{
    uint32_t cp;
    while ((cp = gw_utf8_next(&c->next)) != 0) {
        if (cp > ' ' && cp < 0x7f) {
            give(c, (char[2]){(char)cp, 0}, 1);
        } else if (is_blank(cp)) {
            give(c, " ", 1);
        } else if (cp == 0xa0 || cp == 0x2007 || cp == 0x202f) {
            give(c, GW_NBSP, 1);
        } else if (cp < 0xa0 || cp == GW_UTF8_BAD || reorders(cp)) {
            give_replacement(c);
        } else if (!c->unicode) {
            give_ascii(c, cp);
        } else {
            char bytes[5];
            int w = gw_utf8_width(cp);
            if (w == 0 && (c->marks < 0 || c->marks >= 2))
                continue; /* a mark with no letter under it, or a pile of them */
            gw_utf8_put(bytes, cp);
            if (w < 0)
                give_replacement(c);
            else
                give(c, bytes, w);
            c->marks += w == 0;
        }
        return 1;
    }
    c->text[0] = 0;
    c->width = 0;
    return 0;
}

int gw_clean_copy(char *out, size_t cap, const char *s, int unicode)
{
    struct gw_clean c = gw_clean_begin(s, unicode);
    size_t len = 0;
    int width = 0;
    while (gw_clean_next(&c)) {
        size_t n = strlen(c.text);
        if (n >= cap - len)
            break;
        memcpy(out + len, c.text, n);
        len += n;
        width += c.width;
    }
    out[len] = 0;
    return width;
}

int gw_clean_width(const char *s, int unicode)
{
    struct gw_clean c = gw_clean_begin(s, unicode);
    int width = 0;
    while (gw_clean_next(&c) && width < 1000000)
        width += c.width;
    return width;
}
