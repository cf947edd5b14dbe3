/*
 * cli.h - what the commands share: the command table, the common options, and the way from a file to a report.
 *
 * A command is one row in commands.def and one file cmd_<sym>.c with two symbols:
 *
 *     const struct argp gw_argp_read = { options, parse_one, N_("FILE..."), doc, children, ... };
 *     int gw_cmd_read(int argc, char **argv);      argv[0] is "gpuwhy read"; the value is the exit status
 *
 * A command that ends in a report includes gw_argp_input and gw_argp_output as argp children, so that the options
 * and their help exist once:
 *
 *     static const struct argp_child children[] = {{&gw_argp_input, 0, NULL, 0}, {&gw_argp_output, 0, NULL, 0}, {0}};
 *     ... case ARGP_KEY_INIT: gw_cli_children(state, &args->cli); return 0;
 *     ... return gw_cli_diagnose(path, &args->cli);
 *
 * Only this folder may print to stderr or end the program. Everything runs on the main thread.
 */
#ifndef GW_CLI_H
#define GW_CLI_H

#include <argp.h>
#include <stddef.h>
#include <stdio.h>

#include "base/gw_error.h"
#include "engine/report_model.h"

#include "base/gw_i18n.h" /* after the model, whose headers define N_ for themselves and take it away again */

/* Exit statuses: docs/exit-codes.md. */
enum {
    GW_EXIT_OK = 0,      /* done, whatever the verdict */
    GW_EXIT_GATE = 1,    /* a gate that the user set was crossed */
    GW_EXIT_USAGE = 2,   /* wrong usage */
    GW_EXIT_INPUT = 3,   /* input that cannot be used */
    GW_EXIT_INTERNAL = 4 /* the program failed: a defect, out of memory, or output that cannot be written */
};

struct gw_command {
    const char *name;
    const char *help; /* untranslated */
    int (*run)(int argc, char **argv);
    const struct argp *argp;
};
extern const struct gw_command gw_commands[]; /* ends with a row whose name is NULL */
const struct gw_command *gw_command_find(const char *name);
/* The known word nearest to `word`, or NULL when none is near enough to be a slip of the finger.
 * `words(i)` gives word i, NULL past the end. */
const char *gw_cli_nearest(const char *word, const char *(*words)(size_t i));

#define GW_COMMAND(sym, name, help)          \
    int gw_cmd_##sym(int argc, char **argv); \
    extern const struct argp gw_argp_##sym;
#include "cli/commands.def"
#undef GW_COMMAND

/* The common options. Zero-initialised means: all defaults. */
struct gw_cli_options {
    size_t max_memory; /* bytes for events; 0 = half of the machine's memory */
    int threads;       /* 0 = as many as useful */
    const char *json;  /* path, "-" for stdout, NULL = none */
    const char *machine; /* facts about the recording's machine: file of check --collect, captures; NULL = the record's own */
    const char *html;  /* the same */
    int quiet;         /* no progress, no warnings; with json no terminal report */
    int no_color;
    int all;
    int width; /* 0 = the terminal's, or 80 */
};
extern const struct argp gw_argp_input;  /* --max-memory, --threads */
extern const struct argp gw_argp_output; /* --json, --html, --quiet, --no-color, --all, --width */
/* For ARGP_KEY_INIT: hands `o` to both children, in the order {gw_argp_input, gw_argp_output}. */
void gw_cli_children(struct argp_state *state, struct gw_cli_options *o);
/* For ARGP_KEY_INIT of a command that has gw_argp_output as its only child. */
void gw_cli_child_output(struct argp_state *state, struct gw_cli_options *o);

/* Parses as every command does: usage errors end the program with argp_err_exit_status, --help with 0. Every command
 * has --lang, --help, --usage and --version (usage.h). `flags`: 0, or ARGP_IN_ORDER for commands that start a program. */
void gw_cli_parse(const struct argp *argp, int argc, char **argv, void *input);
void gw_cli_parse_as(const struct argp *argp, int argc, char **argv, unsigned flags, void *input);
/* For an argp parser: says what is wrong, points to --help, ends the program. In place of argp_error(), whose texts
 * cannot be translated everywhere. */
void gw_cli_usage(const struct argp_state *state, const char *fmt, ...) GW_PRINTF(2, 3) __attribute__((noreturn));
/* For an argp help filter: the text behind the options with what `list` writes below it. Other texts come back as they are. */
char *gw_cli_help_with(int key, const char *text, void (*list)(FILE *out));
void gw_cli_misuse(const char *name, const char *fmt, ...) GW_PRINTF(2, 3) __attribute__((noreturn));
/* Chooses the language that the user named. A name that is none ends the program; a catalogue that is not there does
 * not, but is said. */
void gw_cli_language(const char *lang);

/* Reads, analyses, diagnoses and prints one recording. Says on stderr what went wrong. Returns an exit status. */
int gw_cli_diagnose(const char *path, const struct gw_cli_options *o);
/* Prints a report where the options say. Returns an exit status. */
int gw_cli_emit(const struct gw_report *rep, const struct gw_cli_options *o);
/* Writes the report as a page where --html says, with the timeline of `an` (NULL: without one). An exit status. */
struct gw_analysis;
int gw_cli_html(const struct gw_report *rep, const struct gw_analysis *an, const struct gw_cli_options *o);
/* The same for a report whose recordings are gone: that of its main rank is read again for the timeline. */
struct gw_loaded;
int gw_cli_html_loaded(const struct gw_loaded *l, const struct gw_cli_options *o);
/* 1 when the text is not wanted: something else goes to standard output, or --quiet with a file. */
int gw_cli_no_text(const struct gw_cli_options *o);
/* Usage error, said on stderr, when --json or --html would overwrite one of the inputs; else 0. */
int gw_cli_spares_inputs(char *const *inputs, size_t n, const struct gw_cli_options *o);
/* Before a long run: can --json and --html be written in the end? An exit status; says what stands in the way. */
int gw_cli_can_write(const struct gw_cli_options *o);
/* Lets `write` print to `path`, or to standard output when it is NULL or "-". An exit status; says what went wrong. */
typedef void gw_cli_writer(FILE *out, void *user);
int gw_cli_write(const char *path, gw_cli_writer *write, void *user);
/* 1 when the two paths are the same existing file, so that writing one would destroy the other. */
int gw_cli_same_file(const char *a, const char *b);

/* The steps of gw_cli_diagnose(), for commands that do something else with them. */
struct gw_trace *gw_cli_trace(const struct gw_cli_options *o); /* empty, with the memory that the options allow */
struct gw_windows;
struct gw_env;
/* What comes with a recording and is no event. Filled by gw_cli_import(); free it whatever that returned. */
struct gw_beside {
    int interrupted;            /* the user stopped the reading */
    struct gw_env *machine;     /* facts about the machine (machine.h), NULL none */
    struct gw_windows *windows; /* how the windows of a record differ (windows.h), NULL = no choice */
};
void gw_beside_free(struct gw_beside *b);
/* Imports into `t`. An exit status. */
int gw_cli_import(struct gw_trace *t, const char *path, const struct gw_cli_options *o, struct gw_beside *b);
/* The report on all devices of a recording and on its machine. NULL when out of memory (also for a NULL analysis). */
struct gw_report *gw_cli_report(const struct gw_analysis *an, const struct gw_beside *b, struct gw_arena *arena);
int gw_cli_no_memory(const char *path); /* says so; an exit status */

/* Flushes, and says on stderr when that failed. A reader that went away (`| head`) is no failure. An exit status. */
int gw_cli_flush(FILE *out, const char *name);

/* What the terminal can show. */
int gw_cli_unicode(void);       /* 1 when text may be written in UTF-8 */
int gw_cli_dumb_terminal(void); /* 1 when TERM is unset, empty or "dumb" */
int gw_cli_columns(int fd);     /* 80 when `fd` is no terminal */
struct gw_render_options;
void gw_cli_render_options(const struct gw_cli_options *o, struct gw_render_options *r);

/* One line on stderr: "gpuwhy: ...". Control characters are replaced. */
void gw_cli_error(const char *fmt, ...) GW_PRINTF(1, 2);
/* The same for a filled error. Returns the exit status that fits its code. */
int gw_cli_fail(const struct gw_error *err);
void gw_cli_plain_blanks(char *s); /* no-break blanks become blanks */
int gw_cli_exit_status(int code);  /* enum gw_code -> exit status */

/* `gpuwhy --help`, the manual pages and completion for shells; all generated from the tables. */
void gw_help_write(FILE *out);
void gw_man_write(FILE *out, const struct gw_command *c);  /* of the program when `c` is NULL */
int gw_complete_write(FILE *out, const char *shell);       /* "bash", "zsh" or "fish"; else GW_EUSAGE */

/* Rows that help and manual share. `name` NULL ends a table. */
struct gw_help_row {
    const char *name, *text; /* `text` is untranslated */
};
extern const struct gw_help_row gw_help_examples[];
extern const struct gw_help_row gw_help_exits[];
extern const struct gw_help_row gw_help_environment[];

#endif
