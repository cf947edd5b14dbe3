#include "report/elide.h"

#include <string.h>

#include "report/clean.h"

/* Names longer than this are cut before any thought: the longest kernel names seen in traces have some 4000 bytes. */
#define GW_NAME_MAX 8192
#define LEVELS_MAX 16 /* deeper nesting than any kernel name has; bounds the work on made-up ones */

/* Cuts the parameter list: the last '(' group that is not inside another bracket and ends the text. */
static void drop_parameters(char *s)
{
    size_t len = strlen(s);
    if (!len || s[len - 1] != ')')
        return;
    int depth = 0;
    for (size_t i = len; i-- > 0;) {
        depth += s[i] == ')';
        depth -= s[i] == '(';
        if (depth == 0) {
            if (i > 0 && s[i - 1] != ' ' && s[i - 1] != ':') /* "(anonymous namespace)" is part of a name */
                s[i] = 0;
            return;
        }
    }
}

/* Deepest level of <>. "->", "operator<", "<<<" and unbalanced text count as no template: 0. */
static int template_depth(const char *s)
{
    int depth = 0, deepest = 0;
    for (const char *p = s; *p; p++) {
        if (*p == '<')
            depth++;
        else if (*p == '>')
            depth--;
        if (depth < 0 || strncmp(p, "->", 2) == 0 || strncmp(p, "operator<", 9) == 0)
            return 0;
        if (depth > deepest)
            deepest = depth;
    }
    return depth == 0 ? deepest : 0;
}

/* Replaces what stands between '<' and '>' at `level` (1 = outermost) by `dots`. */
static void fold_templates(char *s, int level, const char *dots)
{
    size_t n = strlen(dots), o = 0;
    int depth = 0;
    for (size_t i = 0; s[i]; i++) {
        if (s[i] == '<' && ++depth == level) {
            size_t end = i;
            for (int d = 0; s[end]; end++) {
                d += s[end] == '<';
                d -= s[end] == '>';
                if (d == 0)
                    break;
            }
            s[o++] = '<';
            if (end - i - 1 >= n) { /* only when that makes it shorter */
                memcpy(s + o, dots, n);
                o += n;
                i = end - 1;
            }
            continue;
        }
        depth -= s[i] == '>';
        s[o++] = s[i];
    }
    s[o] = 0;
}

/* Keeps `width` columns: the front, dots, the end. The end gets a third more, for it names the variant. */
static void cut_middle(char *out, size_t cap, const char *s, int total, int width, int unicode)
{
    const char *dots = unicode ? "\xe2\x80\xa6" : "...";
    int room = width - (unicode ? 1 : 3);
    if (room < 2) {
        dots = "";
        room = width > 0 ? width : 0;
    }
    int front = *dots ? room * 3 / 7 : room, back = room - front, at = 0;
    size_t len = 0, n;
    struct gw_clean c = gw_clean_begin(s, unicode);
    int dotted = 0;
    while (gw_clean_next(&c)) {
        int from = at;
        at += c.width;
        const char *piece = c.text;
        if (at > front && from < total - back) {
            if (dotted)
                continue;
            dotted = 1;
            piece = dots;
        }
        n = strlen(piece);
        if (n >= cap - len)
            break;
        memcpy(out + len, piece, n);
        len += n;
    }
    out[len] = 0;
}

char *gw_elide(char *out, size_t cap, const char *s, int width, int unicode)
{
    char buf[GW_NAME_MAX];
    const char *dots = unicode ? "\xe2\x80\xa6" : "..";
    int w = gw_clean_copy(buf, sizeof buf, s, unicode);
    char *name = buf;
    if (w > width && strncmp(name, "void ", 5) == 0)
        name += 5, w -= 5;
    if (w > width)
        drop_parameters(name), w = gw_clean_width(name, unicode);
    int level = w > width ? template_depth(name) : 0;
    if (level > LEVELS_MAX)
        level = LEVELS_MAX;
    for (; level > 0 && w > width; level--) {
        char folded[GW_NAME_MAX];
        memcpy(folded, name, strlen(name) + 1);
        fold_templates(folded, level, dots);
        int fw = gw_clean_width(folded, unicode);
        if (fw < width / 2) /* the arguments were the name: "Kernel2<what it really is>" */
            break;
        memcpy(name, folded, strlen(folded) + 1);
        w = fw;
    }
    if (w > width)
        cut_middle(out, cap, name, w, width, unicode);
    else
        gw_clean_copy(out, cap, name, unicode);
    return out;
}
