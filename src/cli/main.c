/* gpuwhy: finds the command and hands over. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

const char *argp_program_version = "gpuwhy " GW_VERSION;

/* A file opened while 0, 1 or 2 is closed would take that number, and messages would be written into it. */
static void hold_standard_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0)
            _exit(GW_EXIT_INTERNAL);
}

static const char *command_name(size_t i) { return gw_commands[i].name; }

static int unknown_command(const char *word)
{
    const char *near = gw_cli_nearest(word, command_name);
    if (word[0] == '-')
        gw_cli_error(_("unknown option '%s'; see: gpuwhy --help"), word);
    else if (near)
        gw_cli_error(_("unknown command '%s'; did you mean '%s'?"), word, near);
    else if (access(word, R_OK) == 0)
        gw_cli_error(_("unknown command '%s'; to diagnose that file: gpuwhy read FILE"), word);
    else
        gw_cli_error(_("unknown command '%s'; see: gpuwhy --help"), word);
    return GW_EXIT_USAGE;
}

static int run_command(const struct gw_command *c, int argc, char **argv)
{
    char name[64];
    snprintf(name, sizeof name, "gpuwhy %s", c->name);
    argv[0] = name; /* what argp calls the program in its messages */
    return c->run(argc, argv);
}

/* `gpuwhy --lang zh_CN COMMAND`: --lang may stand before the command as well as after it. */
static void take_language(int *argc, char **argv)
{
    while (*argc > 1 && strncmp(argv[1], "--lang", 6) == 0 && (!argv[1][6] || argv[1][6] == '=')) {
        int joined = argv[1][6] == '=', words = joined ? 1 : 2;
        if (*argc <= words)
            break;
        gw_cli_language(joined ? argv[1] + 7 : argv[2]);
        *argc -= words;
        memmove(argv + 1, argv + 1 + words, (size_t)*argc * sizeof *argv); /* with the NULL at the end */
    }
}

int main(int argc, char **argv)
{
    hold_standard_streams();
    argp_err_exit_status = GW_EXIT_USAGE;
    (void)gw_i18n_begin(NULL);
    take_language(&argc, argv);
    if (argc < 2) {
        gw_help_write(stderr);
        return GW_EXIT_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-?") == 0 || strcmp(word, "-h") == 0) {
        gw_help_write(stdout);
        return gw_cli_flush(stdout, _("standard output"));
    }
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        puts(argp_program_version);
        return gw_cli_flush(stdout, _("standard output"));
    }
    const struct gw_command *c = gw_command_find(word);
    if (!c)
        return unknown_command(word);
    return run_command(c, argc - 1, argv + 1);
}
