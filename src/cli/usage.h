/*
 * usage.h - the options of a command as the user meets them: --help, --usage, --lang, and what is said of a slip.
 *
 * argp parses, but its own texts can be neither translated without a generated locale nor wrapped where a line has no
 * blanks. So the tables that argp reads are read here first: the command line is looked through, the language chosen,
 * help written or a mistake named; argp then gets a line that it understands. Main thread only.
 */
#ifndef GW_USAGE_H
#define GW_USAGE_H

#include <argp.h>
#include <stdio.h>

/* What every command takes beside its own options. */
extern const struct argp_option gw_usage_common[];

/* Calls `row` for each row of the option tables of `argp` and its children that is shown, headers too. */
typedef void gw_usage_row(const struct argp_option *o, void *user);
void gw_usage_rows(const struct argp *argp, gw_usage_row *row, void *user);

/* Looks through `argv` before argp does. Chooses the language when --lang is there, and takes it out of `argv` and
 * `*argc`. Ends the program after --help, --usage and --version (0), and after an option that is not known, lacks its
 * argument or has one too many (argp_err_exit_status). `in_order`: options end at the first other word, for commands
 * that start a program. */
void gw_usage_scan(const struct argp *argp, int *argc, char **argv, int in_order);

/* `gpuwhy read --help`. `name` is "gpuwhy read". */
void gw_usage_help(FILE *out, const struct argp *argp, const char *name);

#endif
