/* The common options, and how every command parses and complains. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/usage.h"
#include "report/clean.h"

enum { KEY_MAX_MEMORY = 0x1000, KEY_THREADS, KEY_JSON, KEY_HTML, KEY_NO_COLOR, KEY_ALL, KEY_WIDTH };

static const struct argp_option input_options[] = {
    {NULL, 0, NULL, 0, N_("Reading:"), 1},
    {"max-memory", KEY_MAX_MEMORY, N_("SIZE"), 0,
     N_("memory that events may take, such as 800M or 4G (default: half of the machine's); what does not fit is "
        "counted as lost"),
     1},
    {"threads", KEY_THREADS, N_("N"), 0, N_("threads for reading (default: as many as help, at most 4)"), 1},
    {NULL, 0, NULL, 0, NULL, 0}};

static const struct argp_option output_options[] = {
    {NULL, 0, NULL, 0, N_("Output:"), 2},
    {"json", KEY_JSON, N_("FILE"), 0,
     N_("write the report as JSON too; '-' writes it to standard output instead of the text"), 2},
    {"html", KEY_HTML, N_("FILE"), 0,
     N_("write the report as one HTML page that needs no network too; '-' writes it to standard output instead of the text"), 2},
    {"all", KEY_ALL, NULL, 0, N_("show every finding, place and fix in full"), 2},
    {"width", KEY_WIDTH, N_("N"), 0, N_("columns of the text (default: the terminal's, at most 100; else 80)"), 2},
    {"no-color", KEY_NO_COLOR, NULL, 0, N_("no colours, as with the variable NO_COLOR"), 2},
    {"quiet", 'q', NULL, 0, N_("no progress and no warnings; with --json or --html no text either"), 2},
    {NULL, 0, NULL, 0, NULL, 0}};

/* "800M" -> bytes, in powers of 1024. 0 for what is no size, or too large. */
static size_t parse_size(const char *s)
{
    char *end;
    if (!isdigit((unsigned char)*s))
        return 0;
    errno = 0;
    unsigned long long n = strtoull(s, &end, 10);
    int shift = 0;
    switch (toupper((unsigned char)*end)) {
    case 'K': shift = 10, end++; break;
    case 'M': shift = 20, end++; break;
    case 'G': shift = 30, end++; break;
    case 'T': shift = 40, end++; break;
    default: break;
    }
    if (shift && toupper((unsigned char)*end) == 'I')
        end++;
    if (toupper((unsigned char)*end) == 'B')
        end++;
    if (errno || *end || n > (SIZE_MAX >> shift))
        return 0;
    return (size_t)n << shift;
}

/* A whole number in [low, high], or -1. */
static int parse_number(const char *s, int low, int high)
{
    char *end;
    errno = 0;
    long n = strtol(s, &end, 10);
    return errno || end == s || *end || n < low || n > high ? -1 : (int)n;
}

static error_t parse_input(int key, char *arg, struct argp_state *state)
{
    struct gw_cli_options *o = state->input;
    switch (key) {
    case KEY_MAX_MEMORY:
        o->max_memory = parse_size(arg);
        if (!o->max_memory)
            gw_cli_usage(state, _("--max-memory=%s is no size; write it like 800M or 4G"), arg);
        return 0;
    case KEY_THREADS:
        o->threads = parse_number(arg, 1, 1024);
        if (o->threads < 0)
            gw_cli_usage(state, _("--threads=%s is no number from 1 to 1024"), arg);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static int is_stdout(const char *path) { return path && strcmp(path, "-") == 0; }

static void check_outputs(const struct gw_cli_options *o, struct argp_state *state)
{
    if (is_stdout(o->json) && is_stdout(o->html))
        argp_error(state, _("only one of --json and --html fits into standard output"));
    if (o->json && o->html && !is_stdout(o->json) && strcmp(o->json, o->html) == 0)
        argp_error(state, _("--json and --html name the same file"));
    if (is_stdout(o->html) && isatty(STDOUT_FILENO))
        argp_error(state, _("the page would fill the terminal; give --html a file name"));
}

int gw_cli_no_text(const struct gw_cli_options *o)
{
    return is_stdout(o->json) || is_stdout(o->html) || (o->quiet && (o->json || o->html));
}

static error_t parse_output(int key, char *arg, struct argp_state *state)
{
    struct gw_cli_options *o = state->input;
    switch (key) {
    case KEY_JSON:
        if (!*arg)
            gw_cli_usage(state, _("--json needs a file name, or '-'"));
        o->json = arg;
        return 0;
    case KEY_HTML:
        if (!*arg)
            argp_error(state, _("--html needs a file name, or '-'"));
        o->html = arg;
        return 0;
    case KEY_ALL: o->all = 1; return 0;
    case KEY_NO_COLOR: o->no_color = 1; return 0;
    case 'q': o->quiet = 1; return 0;
    case KEY_WIDTH:
        o->width = parse_number(arg, 40, 1000);
        if (o->width < 0)
            gw_cli_usage(state, _("--width=%s is no number from 40 to 1000"), arg);
        return 0;
    case ARGP_KEY_END: check_outputs(o, state); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

const struct argp gw_argp_input = {input_options, parse_input, NULL, NULL, NULL, NULL, NULL};
const struct argp gw_argp_output = {output_options, parse_output, NULL, NULL, NULL, NULL, NULL};

void gw_cli_children(struct argp_state *state, struct gw_cli_options *o)
{
    state->child_inputs[0] = o;
    state->child_inputs[1] = o;
}

void gw_cli_child_output(struct argp_state *state, struct gw_cli_options *o) { state->child_inputs[0] = o; }

void gw_cli_language(const char *lang)
{
    int rc = gw_i18n_begin(lang);
    if (rc == GW_EUSAGE) {
        gw_cli_error(_("--lang=%s is no language that is known here; there are: en, zh_CN"), lang);
        exit(argp_err_exit_status);
    }
    if (rc != 0)
        gw_cli_error(_("--lang=%s: its texts are not installed with this program, so they are English; build with gettext "
                       "(msgfmt) and run `make install`"),
                     lang);
}

static void __attribute__((noreturn)) GW_PRINTF(2, 0) misuse(const char *name, const char *fmt, va_list ap)
{
    char text[1024], clean[1200];
    vsnprintf(text, sizeof text, fmt, ap);
    gw_clean_copy(clean, sizeof clean, text, gw_cli_unicode());
    gw_cli_plain_blanks(clean);
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", name, clean);
    fprintf(stderr, _("Try: %s --help\n"), name);
    exit(argp_err_exit_status);
}

void gw_cli_misuse(const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    misuse(name, fmt, ap);
}

char *gw_cli_help_with(int key, const char *text, void (*list)(FILE *out))
{
    char *out = NULL;
    size_t size = 0;
    FILE *f = key == ARGP_KEY_HELP_POST_DOC && text ? open_memstream(&out, &size) : NULL;
    if (!f)
        return (char *)text;
    fprintf(f, "%s\n\n", text);
    list(f);
    if (fclose(f) != 0) {
        free(out);
        return (char *)text;
    }
    return out;
}

void gw_cli_usage(const struct argp_state *state, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    misuse(state->name, fmt, ap);
}

void gw_cli_parse(const struct argp *argp, int argc, char **argv, void *input)
{
    gw_cli_parse_as(argp, argc, argv, 0, input);
}

void gw_cli_parse_as(const struct argp *argp, int argc, char **argv, unsigned flags, void *input)
{
    int end = argc;
    gw_usage_scan(argp, &argc, argv, (flags & ARGP_IN_ORDER) != 0);
    error_t rc = argp_parse(argp, argc, argv, flags | ARGP_NO_HELP, &end, input);
    if (!rc && end < argc)
        gw_cli_misuse(argv[0], _("'%s' is one word too many"), argv[end]);
    if (rc) {
        gw_cli_error("%s", gw_i18n_errno(rc));
        exit(rc == ENOMEM ? GW_EXIT_INTERNAL : GW_EXIT_USAGE);
    }
}

void gw_cli_plain_blanks(char *s)
{
    while ((s = strstr(s, GW_NBSP)) != NULL) {
        *s = ' ';
        memmove(s + 1, s + 2, strlen(s + 2) + 1);
    }
}

void gw_cli_error(const char *fmt, ...)
{
    char text[1024], clean[1200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    gw_clean_copy(clean, sizeof clean, text, gw_cli_unicode());
    gw_cli_plain_blanks(clean);
    fflush(stdout);
    fprintf(stderr, "gpuwhy: %s\n", clean);
}

int gw_cli_exit_status(int code)
{
    switch (code) {
    case GW_OK: return GW_EXIT_OK;
    case GW_EUSAGE: return GW_EXIT_USAGE;
    case GW_EIO:
    case GW_EFORMAT:
    case GW_ETRUNC:
    case GW_ENODATA:
    case GW_ENOTSUP: return GW_EXIT_INPUT;
    default: return GW_EXIT_INTERNAL;
    }
}

int gw_cli_fail(const struct gw_error *err)
{
    char buf[900];
    gw_cli_error("%s", gw_error_text(err, buf, sizeof buf));
    return gw_cli_exit_status(err->code ? err->code : GW_EINTERNAL);
}
