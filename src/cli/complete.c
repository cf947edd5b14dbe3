/* Completion for shells, from the command table and the option tables of argp: `gpuwhy help --completion bash`. */
#include <string.h>

#include "cli/cli.h"
#include "cli/usage.h"
#include "layers/layers.h"

/* What may follow an option or a command, by the name that its help gives the argument. */
enum values { NOTHING, FILES, FOLDERS, COMMANDS, FINDINGS, OURS, WORDS };

static const struct {
    const char *arg;
    enum values values;
    const char *words;
} arguments[] = {{"FILE", FILES, NULL},
                 {"PATH", FILES, NULL},
                 {"DIR", FOLDERS, NULL},
                 {"LANGUAGE", WORDS, "en zh_CN"},
                 {"STATUS", WORDS, "bad look"},
                 {"WHEN", WORDS, "auto always never"},
                 {"METRIC", WORDS, "steps samples batches lines auto"}};

static enum values values_of(const struct argp_option *o, const char **words)
{
    *words = "";
    for (size_t i = 0; o->arg && i < sizeof arguments / sizeof *arguments; i++)
        if (strcmp(o->arg, arguments[i].arg) == 0) {
            *words = arguments[i].words ? arguments[i].words : "";
            return arguments[i].values;
        }
    return NOTHING;
}

/* What a command's own arguments are. */
static enum values operands_of(const struct gw_command *c)
{
    const char *doc = c->argp->args_doc ? c->argp->args_doc : "";
    if (strcmp(c->name, "explain") == 0)
        return FINDINGS;
    if (strcmp(c->name, "help") == 0)
        return OURS;
    if (strstr(doc, "-- ") || strstr(doc, "[--]"))
        return COMMANDS;
    return *doc ? FILES : NOTHING;
}

struct out {
    FILE *f;
    const char *command;
    enum values wanted;
};

static void each_option(const struct gw_command *c, gw_usage_row *row, struct out *o)
{
    const struct argp common = {.options = gw_usage_common};
    gw_usage_rows(c->argp, row, o);
    gw_usage_rows(&common, row, o);
}

static void findings(FILE *f, const char *before, const char *after)
{
    const struct gw_finding_info *info;
    for (size_t i = 0; (info = gw_finding_info(i)) != NULL; i++)
        fprintf(f, "%s%s%s", before, info->id, after);
    fprintf(f, "%snone%s", before, after);
}

/* --- bash --- */

static void bash_name(const struct argp_option *o, void *user)
{
    struct out *out = user;
    if (o->name)
        fprintf(out->f, " --%s%s", o->name, o->arg && !(o->flags & OPTION_ARG_OPTIONAL) ? "=" : "");
    if (o->key > ' ' && o->key < 0x7f && o->key != '?')
        fprintf(out->f, " -%c", o->key);
}

/* "read:--json", a pattern for `case` */
static void bash_pattern(const struct argp_option *o, void *user)
{
    struct out *out = user;
    const char *words;
    if (!o->arg || values_of(o, &words) != out->wanted || out->wanted == WORDS)
        return;
    if (o->name)
        fprintf(out->f, "|%s:--%s", out->command, o->name);
    if (o->key > ' ' && o->key < 0x7f)
        fprintf(out->f, "|%s:-%c", out->command, o->key);
}

static void bash_words(const struct argp_option *o, void *user)
{
    struct out *out = user;
    const char *words;
    if (o->name && values_of(o, &words) == WORDS)
        fprintf(out->f, "    %s:--%s) COMPREPLY=($(compgen -W '%s' -- \"$cur\")); return ;;\n", out->command, o->name,
                words);
}

static void bash_values(FILE *f, enum values wanted, const char *action)
{
    fprintf(f, "    -:-");
    for (const struct gw_command *c = gw_commands; c->name; c++) {
        struct out o = {f, c->name, wanted};
        each_option(c, bash_pattern, &o);
    }
    fprintf(f, ") %s return ;;\n", action);
}

static void bash_command(FILE *f, const struct gw_command *c)
{
    static const char *const operands[] = {
        [NOTHING] = ":",
        [FILES] = "compopt -o default",
        [FOLDERS] = "compopt -o default",
        [COMMANDS] = "COMPREPLY=($(compgen -c -- \"$cur\")); compopt -o default",
        [FINDINGS] = "COMPREPLY=($(compgen -W \"$findings\" -- \"$cur\"))",
        [OURS] = "COMPREPLY=($(compgen -W \"$commands\" -- \"$cur\"))",
        [WORDS] = ":",
    };
    struct out o = {f, c->name, NOTHING};
    fprintf(f, "    %s)\n        options='", c->name);
    each_option(c, bash_name, &o);
    fprintf(f, "'\n        [[ $cur == -* ]] || { %s; return; } ;;\n", operands[operands_of(c)]);
}

static void bash(FILE *f)
{
    fputs("# bash completion for gpuwhy, made by `gpuwhy help --completion bash` from the tables of the program.\n"
          "_gpuwhy() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command='' start='' options='' i\n"
          "    local commands='",
          f);
    for (const struct gw_command *c = gw_commands; c->name; c++)
        fprintf(f, "%s%s", c == gw_commands ? "" : " ", c->name);
    fputs("' findings='", f);
    findings(f, "", " ");
    fputs("'\n    COMPREPLY=()\n"
          "    # '=' is a word of its own for readline: --json = FILE\n"
          "    if [[ $cur == '=' ]]; then cur=''; elif [[ $prev == '=' ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
          "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
          "        case ${COMP_WORDS[i]} in\n"
          "        --lang) if [[ ${COMP_WORDS[i+1]} == '=' ]]; then ((i += 2)); else ((i++)); fi ;;\n"
          "        --) [[ $command ]] && start=$((i + 1)); break ;;\n"
          "        -*|=) ;;\n"
          "        *) [[ $command ]] || command=${COMP_WORDS[i]} ;;\n"
          "        esac\n"
          "    done\n"
          "    if [[ $start ]]; then # what is started completes as it would alone\n"
          "        if declare -F _command_offset >/dev/null; then _command_offset \"$start\"\n"
          "        elif ((COMP_CWORD == start)); then COMPREPLY=($(compgen -c -- \"$cur\")); compopt -o default\n"
          "        else compopt -o default; fi\n"
          "        return\n"
          "    fi\n"
          "    if [[ -z $command ]]; then\n"
          "        case $prev in --lang) COMPREPLY=($(compgen -W 'en zh_CN' -- \"$cur\")); return ;; esac\n"
          "        COMPREPLY=($(compgen -W \"$commands --help --version --lang=\" -- \"$cur\"))\n"
          "        [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n"
          "        return\n"
          "    fi\n"
          "    case $command:$prev in\n",
          f);
    bash_values(f, FILES, "compopt -o default;");
    bash_values(f, FOLDERS, "compopt -o dirnames;");
    for (const struct gw_command *c = gw_commands; c->name; c++) {
        struct out o = {f, c->name, WORDS};
        each_option(c, bash_words, &o);
    }
    fputs("    esac\n    case $command in\n", f);
    for (const struct gw_command *c = gw_commands; c->name; c++)
        bash_command(f, c);
    fputs("    *) return ;;\n    esac\n"
          "    COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
          "    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n"
          "}\n"
          "complete -F _gpuwhy gpuwhy\n",
          f);
}

/* --- zsh --- */

/* Inside '...' of zsh, in a specification of _arguments: quotes, brackets and colons mean something there. */
static void zsh_text(FILE *f, const char *s)
{
    for (; *s; s++) {
        if (*s == '\'')
            fputs("'\\''", f);
        else if (strchr("[]:\\", *s))
            fprintf(f, "\\%c", *s);
        else
            fputc(*s, f);
    }
}

/* A header row has no name. */
static void zsh_option(const struct argp_option *o, void *user)
{
    struct out *out = user;
    const char *words;
    enum values v = values_of(o, &words);
    if (!o->name)
        return;
    fprintf(out->f, "            '--%s%s[", o->name, !o->arg ? "" : o->flags & OPTION_ARG_OPTIONAL ? "=-" : "=");
    zsh_text(out->f, o->doc ? o->doc : "");
    fputc(']', out->f);
    if (o->arg) {
        fprintf(out->f, ":");
        zsh_text(out->f, o->arg);
        fprintf(out->f, ":%s", v == FILES ? "_files" : v == FOLDERS ? "_files -/" : "");
        if (v == WORDS)
            fprintf(out->f, "(%s)", words);
    }
    fputs("' \\\n", out->f);
}

static void zsh(FILE *f)
{
    fputs("#compdef gpuwhy\n"
          "# zsh completion for gpuwhy, made by `gpuwhy help --completion zsh` from the tables of the program.\n"
          "_gpuwhy() {\n    local curcontext=\"$curcontext\" state line\n    local -a commands findings\n    "
          "commands=(\n",
          f);
    for (const struct gw_command *c = gw_commands; c->name; c++) {
        fprintf(f, "        '%s:", c->name);
        zsh_text(f, c->help);
        fputs("'\n", f);
    }
    fputs("    )\n    findings=(", f);
    findings(f, "", " ");
    fputs(")\n"
          "    _arguments -C '--help[show the help]' '--version[show the version]' '--lang=[language]:LANGUAGE:(en "
          "zh_CN)' \\\n"
          "        '1:command:->command' '*::argument:->argument'\n"
          "    case $state in\n"
          "    command) _describe -t commands 'gpuwhy command' commands ;;\n"
          "    argument)\n        case $line[1] in\n",
          f);
    for (const struct gw_command *c = gw_commands; c->name; c++) {
        static const char *const operands[] = {[NOTHING] = "",
                                               [FILES] = "'*:file:_files'",
                                               [FOLDERS] = "'*:file:_files'",
                                               [COMMANDS] = "'*::command:_normal'",
                                               [FINDINGS] = "\"1:finding:($findings)\"",
                                               [OURS] = "'1:command:->command'",
                                               [WORDS] = ""};
        struct out o = {f, c->name, NOTHING};
        fprintf(f, "        %s) _arguments \\\n", c->name);
        each_option(c, zsh_option, &o);
        if (operands_of(c) == OURS)
            fputs("            \"1:command:(${commands%%:*})\" ;;\n", f);
        else
            fprintf(f, "            %s ;;\n", operands[operands_of(c)]);
    }
    fputs("        esac ;;\n    esac\n}\n_gpuwhy \"$@\"\n", f);
}

/* --- fish --- */

static void fish_text(FILE *f, const char *s)
{
    fputc('\'', f);
    for (; *s; s++) {
        if (*s == '\'' || *s == '\\')
            fputc('\\', f);
        fputc(*s, f);
    }
    fputc('\'', f);
}

static void fish_option(const struct argp_option *o, void *user)
{
    struct out *out = user;
    const char *words;
    enum values v = values_of(o, &words);
    fprintf(out->f, "complete -c gpuwhy -n '__fish_seen_subcommand_from %s'", out->command);
    if (o->key > ' ' && o->key < 0x7f && o->key != '?')
        fprintf(out->f, " -s %c", o->key);
    if (o->name)
        fprintf(out->f, " -l %s", o->name);
    if (o->arg && v != NOTHING && v != WORDS)
        fputs(" -r -F", out->f);
    else if (o->arg)
        fprintf(out->f, " -x%s%s%s", v == WORDS ? " -a '" : "", v == WORDS ? words : "", v == WORDS ? "'" : "");
    fputs(" -d ", out->f);
    fish_text(out->f, o->doc ? o->doc : "");
    fputc('\n', out->f);
}

static void fish_row(const struct argp_option *o, void *user)
{
    if (o->name || o->key)
        fish_option(o, user);
}

static void fish(FILE *f)
{
    fputs("# fish completion for gpuwhy, made by `gpuwhy help --completion fish` from the tables of the program.\n"
          "complete -c gpuwhy -n __fish_use_subcommand -f\n",
          f);
    for (const struct gw_command *c = gw_commands; c->name; c++) {
        struct out o = {f, c->name, NOTHING};
        fprintf(f, "complete -c gpuwhy -n __fish_use_subcommand -a %s -d ", c->name);
        fish_text(f, c->help);
        fputc('\n', f);
        each_option(c, fish_row, &o);
        enum values v = operands_of(c);
        if (v == FINDINGS) {
            fprintf(f, "complete -c gpuwhy -n '__fish_seen_subcommand_from %s' -f -a '", c->name);
            findings(f, "", " ");
            fputs("'\n", f);
        } else if (v == OURS) {
            fprintf(f, "complete -c gpuwhy -n '__fish_seen_subcommand_from %s' -f -a '", c->name);
            for (const struct gw_command *k = gw_commands; k->name; k++)
                fprintf(f, "%s ", k->name);
            fputs("'\n", f);
        } else if (v == COMMANDS) {
            fprintf(f, "complete -c gpuwhy -n '__fish_seen_subcommand_from %s' -a '(__fish_complete_subcommand)'\n",
                    c->name);
        }
    }
}

int gw_complete_write(FILE *out, const char *shell)
{
    static const struct {
        const char *name;
        void (*write)(FILE *);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(shell, shells[i].name) == 0) {
            shells[i].write(out);
            return 0;
        }
    return GW_EUSAGE;
}
