#include "cli/usage.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "report/text.h"

#define HELP_COLUMN 29 /* where argp puts the explanations */
#define HELP_WIDTH 79
#define NAMES_MAX 96

enum { KEY_LANG = 0x7f00, KEY_USAGE };

const struct argp_option gw_usage_common[] = {
    {"lang", KEY_LANG, N_("LANGUAGE"), 0, N_("language of the texts: en or zh_CN (default: the locale's)"), -1},
    {"help", '?', NULL, 0, N_("show this text"), -1},
    {"usage", KEY_USAGE, NULL, 0, N_("show the options in short"), -1},
    {"version", 'V', NULL, 0, N_("show the version"), -1},
    {NULL, 0, NULL, 0, NULL, 0}};
static const struct argp common = {gw_usage_common, NULL, NULL, NULL, NULL, NULL, NULL};

static int is_option(const struct argp_option *o) { return o->name || o->key; }

static const char *short_name(const struct argp_option *o, char out[3])
{
    snprintf(out, 3, "-%c", o->key > ' ' && o->key < 0x7f ? (char)o->key : ' ');
    return out[1] == ' ' ? NULL : out;
}

static void walk(const struct argp *argp, int hidden, gw_usage_row *row, void *user)
{
    for (const struct argp_option *o = argp->options; o && (is_option(o) || o->doc); o++)
        if (hidden || !(o->flags & OPTION_HIDDEN))
            row(o, user);
    for (const struct argp_child *c = argp->children; c && c->argp; c++)
        walk(c->argp, hidden, row, user);
}

void gw_usage_rows(const struct argp *argp, gw_usage_row *row, void *user) { walk(argp, 0, row, user); }

/* --- Looking through a command line. --- */

struct search {
    const char *word; /* a long name, without what follows '='; or one letter */
    size_t len;
    int is_short;
    const struct argp_option *exact, *prefix;
    int prefixes;
};

static void match(const struct argp_option *o, void *user)
{
    struct search *s = user;
    if (s->is_short) {
        if (is_option(o) && o->key == s->word[0])
            s->exact = o;
    } else if (o->name && strncmp(o->name, s->word, s->len) == 0) {
        if (!o->name[s->len])
            s->exact = o;
        else if (!s->prefix || s->prefix->key != o->key)
            s->prefix = o, s->prefixes++;
    }
}

static const struct argp_option *find(const struct argp *argp, struct search *s)
{
    walk(argp, 1, match, s);
    walk(&common, 1, match, s);
    return s->exact ? s->exact : s->prefixes == 1 ? s->prefix : NULL;
}

static struct {
    char names[NAMES_MAX][32];
    size_t n;
} known; /* for gw_cli_nearest(), whose callback has no argument */

static void remember(const struct argp_option *o, void *user)
{
    (void)user;
    if (o->name && known.n < NAMES_MAX)
        snprintf(known.names[known.n++], sizeof known.names[0], "--%s", o->name);
}

static const char *known_name(size_t i) { return i < known.n ? known.names[i] : NULL; }

struct scan {
    const struct argp *argp;
    const char *lang;
    const struct argp_option *show; /* --help, --usage or --version, the first of them */
    char wrong[256];                /* what is wrong with the first wrong option; "" = nothing */
    int kept;                       /* words of argv that argp gets */
};

static void wrong(struct scan *s, const char *fmt, ...) GW_PRINTF(2, 3);
static void wrong(struct scan *s, const char *fmt, ...)
{
    va_list ap;
    if (s->wrong[0] || s->show)
        return;
    va_start(ap, fmt);
    vsnprintf(s->wrong, sizeof s->wrong, fmt, ap);
    va_end(ap);
}

static void unknown(struct scan *s, const char *word, const struct search *how)
{
    if (how->prefixes > 1) {
        wrong(s, _("option '%s' is short for several options"), word);
        return;
    }
    known.n = 0;
    walk(s->argp, 0, remember, NULL);
    walk(&common, 0, remember, NULL);
    const char *near = gw_cli_nearest(word, known_name);
    if (near)
        wrong(s, _("unknown option '%s'; did you mean '%s'?"), word, near);
    else
        wrong(s, _("unknown option '%s'"), word);
}

/* Takes the option `o` with its argument, when it has one, from argv[i]. Returns how many words it took. */
static int take(struct scan *s, const struct argp_option *o, const char *value, int argc, char **argv, int i)
{
    int words = 1;
    if (o->arg && !(o->flags & OPTION_ARG_OPTIONAL) && !value) {
        if (i + 1 < argc)
            value = argv[i + 1], words = 2;
        else
            wrong(s, _("option '%s' needs an argument"), argv[i]);
    }
    if (o->key == KEY_LANG) {
        s->lang = value;
        return words;
    }
    if ((o->key == '?' || o->key == 'V' || o->key == KEY_USAGE) && !s->show && !s->wrong[0])
        s->show = o;
    for (int k = 0; k < words; k++)
        argv[s->kept++] = argv[i + k];
    return words;
}

static int long_option(struct scan *s, int argc, char **argv, int i)
{
    const char *word = argv[i] + 2, *equals = strchr(word, '=');
    struct search how = {.word = word, .len = equals ? (size_t)(equals - word) : strlen(word)};
    const struct argp_option *o = find(s->argp, &how);
    char name[64];
    snprintf(name, sizeof name, "--%.*s", (int)(how.len < 48 ? how.len : 48), word);
    if (!o)
        unknown(s, name, &how);
    else if (equals && !o->arg)
        wrong(s, _("option '%s' takes no argument"), name);
    else
        return take(s, o, equals ? equals + 1 : NULL, argc, argv, i);
    return 1;
}

static int short_options(struct scan *s, int argc, char **argv, int i)
{
    for (const char *p = argv[i] + 1; *p; p++) {
        struct search how = {.word = p, .len = 1, .is_short = 1};
        const struct argp_option *o = find(s->argp, &how);
        char name[3] = {'-', *p, 0};
        if (!o)
            unknown(s, name, &how);
        else if (o->arg || o->key == '?' || o->key == 'V')
            return take(s, o, p[1] ? p + 1 : NULL, argc, argv, i);
    }
    argv[s->kept++] = argv[i];
    return 1;
}

static void look_through(struct scan *s, int argc, char **argv, int in_order)
{
    int i = 1;
    s->kept = 1;
    while (i < argc && strcmp(argv[i], "--") != 0) {
        if (argv[i][0] == '-' && argv[i][1] == '-') {
            i += long_option(s, argc, argv, i);
        } else if (argv[i][0] == '-' && argv[i][1]) {
            i += short_options(s, argc, argv, i);
        } else if (in_order) {
            break;
        } else {
            argv[s->kept++] = argv[i++];
        }
    }
    while (i < argc)
        argv[s->kept++] = argv[i++];
    argv[s->kept] = NULL;
}

static void usage(FILE *out, const struct argp *argp, const char *name);

void gw_usage_scan(const struct argp *argp, int *argc, char **argv, int in_order)
{
    struct scan s;
    memset(&s, 0, sizeof s);
    s.argp = argp;
    look_through(&s, *argc, argv, in_order);
    *argc = s.kept;
    if (s.lang)
        gw_cli_language(s.lang);
    if (s.wrong[0])
        gw_cli_misuse(argv[0], "%s", s.wrong);
    if (!s.show)
        return;
    if (s.show->key == '?')
        gw_usage_help(stdout, argp, argv[0]);
    else if (s.show->key == 'V')
        puts(argp_program_version);
    else
        usage(stdout, argp, argv[0]);
    exit(gw_cli_flush(stdout, _("standard output")));
}

/* --- Help. --- */

struct help {
    struct gw_text t;
    int group, any; /* any: a header of this group stands already */
};

/* "  -q, --quiet", "      --json=FILE" */
static void option_name(char *out, size_t cap, const struct argp_option *o)
{
    char key[3];
    const char *s = short_name(o, key);
    int optional = o->flags & OPTION_ARG_OPTIONAL;
    snprintf(out, cap, "%s%s%s%s%s%s%s", s ? s : "    ", s && o->name ? ", " : "", o->name ? "--" : "",
             o->name ? o->name : "",
             !o->arg    ? ""
             : optional ? "[="
                        : "=",
             o->arg ? _(o->arg) : "", o->arg && optional ? "]" : "");
}

static void help_row(const struct argp_option *o, void *user)
{
    struct help *h = user;
    char name[128];
    if (o->group != h->group || (!is_option(o) && h->any))
        return;
    if (!h->any++)
        gw_text_blank(&h->t);
    h->t.indent = is_option(o) ? 2 : 1;
    if (!is_option(o)) {
        gw_text_words(&h->t, _(o->doc));
        gw_text_line(&h->t);
        return;
    }
    option_name(name, sizeof name, o);
    gw_text_tab(&h->t, o->key > ' ' && o->key < 0x7f ? 2 : 6);
    gw_text_words(&h->t, name + strspn(name, " "));
    if (h->t.col + 2 > HELP_COLUMN)
        gw_text_line(&h->t);
    gw_text_tab(&h->t, HELP_COLUMN);
    h->t.indent = HELP_COLUMN;
    if (o->doc)
        gw_text_words(&h->t, _(o->doc));
    gw_text_line(&h->t);
}

/* A header row may stand after options of its group in another table: headers come first. */
static void header_row(const struct argp_option *o, void *user)
{
    if (!is_option(o))
        help_row(o, user);
}

static void option_only(const struct argp_option *o, void *user)
{
    if (is_option(o))
        help_row(o, user);
}

static void highest_group(const struct argp_option *o, void *user)
{
    int *high = user;
    *high = o->group > *high ? o->group : *high;
}

static void epilogue(FILE *out, const struct argp *argp, const char *text)
{
    char *all = argp->help_filter ? argp->help_filter(ARGP_KEY_HELP_POST_DOC, text, NULL) : NULL;
    fprintf(out, "\n%s\n", all ? all : text);
    if (all && all != text)
        free(all);
}

void gw_usage_help(FILE *out, const struct argp *argp, const char *name)
{
    struct gw_render_options o = {.unicode = gw_cli_unicode(), .width = HELP_WIDTH};
    struct help h = {.t = gw_text_begin(out, &o)};
    const char *doc = argp->doc ? _(argp->doc) : "";
    size_t head = strcspn(doc, "\v");
    gw_text_printf(&h.t, _("Usage: %s [OPTION...] %s"), name, argp->args_doc ? _(argp->args_doc) : "");
    gw_text_line(&h.t);
    gw_text_printf(&h.t, "%.*s", (int)head, doc);
    gw_text_line(&h.t);
    int high = 0;
    gw_usage_rows(argp, highest_group, &high);
    for (h.group = 0; h.group <= high; h.group++) {
        h.any = 0;
        gw_usage_rows(argp, header_row, &h);
        gw_usage_rows(argp, option_only, &h);
    }
    h.group = -1;
    h.any = 0;
    gw_usage_rows(&common, help_row, &h);
    if (doc[head])
        epilogue(out, argp, doc + head + 1);
}

static void usage_row(const struct argp_option *o, void *user)
{
    struct help *h = user;
    char name[128];
    if (!is_option(o))
        return;
    option_name(name, sizeof name, o);
    gw_text_printf(&h->t, " [%s]", name + strspn(name, " "));
}

static void usage(FILE *out, const struct argp *argp, const char *name)
{
    struct gw_render_options o = {.unicode = gw_cli_unicode(), .width = HELP_WIDTH};
    struct help h = {.t = gw_text_begin(out, &o)};
    gw_text_printf(&h.t, _("Usage: %s"), name);
    h.t.indent = 12;
    gw_usage_rows(argp, usage_row, &h);
    gw_usage_rows(&common, usage_row, &h);
    if (argp->args_doc)
        gw_text_printf(&h.t, " %s", _(argp->args_doc));
    gw_text_line(&h.t);
}
