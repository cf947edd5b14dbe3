#define _GNU_SOURCE 1 /* fopencookie, vasprintf */
#include "report/html/html_page.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/gw_i18n.h"
#include "report/html/html_assets.h"
#include "report/html/html_words.h"
#include "report/utf8.h"

/* ---- text ---- */

void gw_html_raw(struct gw_html *h, const char *markup) { fputs(markup, h->out); }

/* Characters that hide, reorder or break what is around them: C0 and C1 controls, marks of direction (Unicode's
 * Bidi_Control), line separators, and the byte order mark. */
static int hides(uint32_t cp)
{
    return (cp < 0x20 && cp != '\n' && cp != '\t') || (cp >= 0x7f && cp <= 0x9f) || cp == 0x61c || cp == 0x200e ||
           cp == 0x200f || (cp >= 0x2028 && cp <= 0x202e) || (cp >= 0x2066 && cp <= 0x2069) || cp == 0xfeff;
}

static void put(struct gw_html *h, uint32_t cp)
{
    char bytes[5];
    switch (cp) {
    case '<': fputs("&lt;", h->out); return;
    case '>': fputs("&gt;", h->out); return;
    case '&': fputs("&amp;", h->out); return;
    case '"': fputs("&quot;", h->out); return;
    case '\'': fputs("&#39;", h->out); return;
    default: gw_utf8_put(bytes, hides(cp) ? GW_UTF8_BAD : cp); fputs(bytes, h->out);
    }
}

static void text(struct gw_html *h, const char *s, const char *end)
{
    uint32_t cp;
    while (s < end && (cp = gw_utf8_next(&s)) != 0)
        put(h, cp);
}

void gw_html_text(struct gw_html *h, const char *s)
{
    if (s)
        text(h, s, s + strlen(s));
}

static void vtext(struct gw_html *h, const char *fmt, va_list ap) GW_PRINTF(2, 0);
static void vtext(struct gw_html *h, const char *fmt, va_list ap)
{
    char *s = NULL;
    if (vasprintf(&s, fmt, ap) < 0)
        return; /* out of memory: the text is left out rather than the page */
    gw_html_text(h, s);
    free(s);
}

void gw_html_textf(struct gw_html *h, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vtext(h, fmt, ap);
    va_end(ap);
}

static void open_tag(struct gw_html *h, const char *tag, const char *cls)
{
    fprintf(h->out, cls ? "<%s class=\"%s\">" : "<%s>", tag, cls);
}

void gw_html_tag(struct gw_html *h, const char *tag, const char *cls, const char *s)
{
    open_tag(h, tag, cls);
    gw_html_text(h, s);
    fprintf(h->out, "</%s>", tag);
}

void gw_html_tagf(struct gw_html *h, const char *tag, const char *cls, const char *fmt, ...)
{
    va_list ap;
    open_tag(h, tag, cls);
    va_start(ap, fmt);
    vtext(h, fmt, ap);
    va_end(ap);
    fprintf(h->out, "</%s>", tag);
}

void gw_html_word(struct gw_html *h, const char *id)
{
    for (; id && *id; id++)
        fputc(islower((unsigned char)*id) || isdigit((unsigned char)*id) ? *id : '-', h->out);
}

/* One line with `code` in it. */
static void rich(struct gw_html *h, const char *s, const char *end)
{
    while (s < end) {
        const char *open = memchr(s, '`', (size_t)(end - s));
        const char *close = open ? memchr(open + 1, '`', (size_t)(end - open - 1)) : NULL;
        if (!close)
            break;
        text(h, s, open);
        gw_html_raw(h, "<code>");
        text(h, open + 1, close);
        gw_html_raw(h, "</code>");
        s = close + 1;
    }
    text(h, s, end);
}

void gw_html_rich(struct gw_html *h, const char *s)
{
    if (s)
        rich(h, s, s + strlen(s));
}

/* A command alone is code although nothing quotes it. */
static int is_command(const char *s)
{
    return (strncmp(s, "gpuwhy ", 7) == 0 || strncmp(s, "nvidia-smi ", 11) == 0) && !strpbrk(s, ",;:\n`");
}

void gw_html_advice(struct gw_html *h, const char *s)
{
    int code = 0;
    if (!s || !*s)
        return;
    if (is_command(s)) {
        gw_html_raw(h, "<pre><code>");
        gw_html_text(h, s);
        gw_html_raw(h, "</code></pre>\n");
        return;
    }
    while (*s) {
        size_t n = strcspn(s, "\n"), blanks = strspn(s, " ");
        int is_code = blanks >= 2 && blanks < n;
        if (is_code != code)
            gw_html_raw(h, code ? "</code></pre>" : "<pre><code>");
        if (is_code) {
            text(h, s + (blanks >= 4 ? 4 : blanks), s + n);
            gw_html_raw(h, "\n");
        } else if (blanks < n) {
            gw_html_raw(h, "<p>");
            rich(h, s + blanks, s + n);
            gw_html_raw(h, "</p>\n");
        }
        code = is_code;
        s += n + (s[n] == '\n');
    }
    if (code)
        gw_html_raw(h, "</code></pre>");
}

/* ---- structure ---- */

void gw_html_section(struct gw_html *h, const char *id, const char *title)
{
    fprintf(h->out, "\n<section id=\"%s\" aria-labelledby=\"%s-h\">\n", id, id);
    fprintf(h->out, "<h2 id=\"%s-h\">", id);
    gw_html_text(h, title);
    gw_html_raw(h, "</h2>\n");
}

void gw_html_section_end(struct gw_html *h) { gw_html_raw(h, "</section>\n"); }

struct gw_html_width gw_html_width(double share)
{
    struct gw_html_width w;
    double p = share > 0 ? share * 100 : 0;
    snprintf(w.s, sizeof w.s, "%.2f", p > 100 ? 100.0 : p);
    return w;
}

double gw_html_share(int64_t part, int64_t whole)
{
    return part >= 0 && whole > 0 ? (double)part / (double)whole : NAN;
}

/* ---- data ---- */

/* Blanks between values are left out, and what could end the block is escaped. */
struct data_filter {
    FILE *out;
    int quoted, escaped; /* inside a string; after a backslash */
};

static void filter(struct data_filter *f, char c)
{
    if (f->quoted) {
        f->quoted = f->escaped || c != '"';
        f->escaped = !f->escaped && c == '\\';
    } else if (c == ' ' || c == '\n') {
        return;
    } else {
        f->quoted = c == '"';
    }
    if (c == '<' || c == '>' || c == '&')
        fprintf(f->out, "\\u%04x", (unsigned char)c);
    else
        putc(c, f->out);
}

static ssize_t write_data(void *cookie, const char *buf, size_t n)
{
    struct data_filter *f = cookie;
    for (size_t i = 0; i < n; i++)
        filter(f, buf[i]);
    return ferror(f->out) ? 0 : (ssize_t)n;
}

static int close_data(void *cookie)
{
    free(cookie);
    return 0;
}

FILE *gw_html_data(struct gw_html *h, const char *id)
{
    cookie_io_functions_t io = {.write = write_data, .close = close_data};
    struct data_filter *f = calloc(1, sizeof *f);
    FILE *data = f ? fopencookie(f, "w", io) : NULL;
    if (!data) {
        free(f);
        return NULL;
    }
    f->out = h->out;
    fprintf(h->out, "\n<script type=\"application/json\" id=\"%s\">", id);
    return data;
}

void gw_html_data_end(struct gw_html *h, FILE *data)
{
    (void)fclose(data); /* trouble is kept by the stream below */
    gw_html_raw(h, "</script>\n");
}

/* ---- the page ---- */

struct gw_html gw_html_begin(FILE *out, const char *title)
{
    struct gw_html h = {.out = out};
    gw_html_raw(&h, "<!DOCTYPE html>\n<html lang=\"");
    gw_html_text(&h, gw_html_language().s);
    gw_html_raw(&h, "\">\n<head>\n<meta charset=\"utf-8\">\n");
    fprintf(out,
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
            "script-src '%s'%s%s%s; base-uri 'none'; form-action 'none'\">\n",
            gw_html_script_hash, *gw_html_plot ? " '" : "", *gw_html_plot ? gw_html_plot_hash : "",
            *gw_html_plot ? "'" : "");
    gw_html_raw(&h, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                    "<meta name=\"color-scheme\" content=\"light dark\">\n"
                    "<meta name=\"referrer\" content=\"no-referrer\">\n"
                    "<meta name=\"generator\" content=\"gpuwhy " GW_VERSION "\">\n<title>");
    gw_html_text(&h, title);
    gw_html_raw(&h, "</title>\n<style>\n");
    gw_html_raw(&h, gw_html_style);
    gw_html_raw(&h, "</style>\n</head>\n<body>\n");
    return h;
}

int gw_html_end(struct gw_html *h)
{
    gw_html_raw(h, "<footer>\n<p>");
    gw_html_textf(h, _("Written by gpuwhy %s. This page is complete: it loads nothing and sends nothing."), GW_VERSION);
    gw_html_raw(h, "</p>\n</footer>\n");
    FILE *data = gw_html_data(h, "gw-labels");
    if (data) {
        gw_html_labels(data);
        gw_html_data_end(h, data);
    }
    if (*gw_html_plot) {
        gw_html_raw(h, "<script>");
        gw_html_raw(h, gw_html_plot);
        gw_html_raw(h, "</script>\n");
    }
    gw_html_raw(h, "<script>");
    gw_html_raw(h, gw_html_script);
    gw_html_raw(h, "</script>\n</body>\n</html>\n");
    return fflush(h->out) == 0 && !ferror(h->out) ? GW_OK : GW_EIO;
}
