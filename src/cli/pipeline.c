/* From a file to a report: import, analyse, diagnose, render. */
#include <errno.h>
#include <langinfo.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/progress.h"
#include "engine/engine.h"
#include "import/importer.h"
#include "layers/layers.h"
#include "report/renderer.h"

#define WIDTH_MAX 100 /* longer lines are hard to read; --width overrides */

int gw_cli_unicode(void) { return strcmp(nl_langinfo(CODESET), "UTF-8") == 0; }

int gw_cli_dumb_terminal(void)
{
    const char *term = getenv("TERM");
    return !term || !*term || strcmp(term, "dumb") == 0;
}

int gw_cli_columns(int fd)
{
    struct winsize ws;
    return ioctl(fd, TIOCGWINSZ, &ws) == 0 && ws.ws_col > 0 ? ws.ws_col : 80;
}

void gw_cli_render_options(const struct gw_cli_options *o, struct gw_render_options *r)
{
    const char *no_color = getenv("NO_COLOR"); /* https://no-color.org: set and not empty */
    int terminal = isatty(STDOUT_FILENO);
    memset(r, 0, sizeof *r);
    r->unicode = gw_cli_unicode();
    r->colour = terminal && !o->no_color && !(no_color && *no_color) && !gw_cli_dumb_terminal();
    r->all = o->all;
    r->width = o->width ? o->width : terminal ? gw_cli_columns(STDOUT_FILENO) : 80;
    if (!o->width && r->width > WIDTH_MAX)
        r->width = WIDTH_MAX;
}

int gw_cli_flush(FILE *out, const char *name)
{
    int why = errno; /* of an earlier write, if that was the one that failed */
    errno = 0;
    if (fflush(out) == 0 && !ferror(out))
        return GW_EXIT_OK;
    why = errno ? errno : why;
    struct pollfd p = {.fd = fileno(out), .events = POLLOUT};
    if (why == EPIPE || (poll(&p, 1, 0) == 1 && (p.revents & POLLERR)))
        return GW_EXIT_OK; /* the reader went away, as `head` does: it has what it wanted */
    gw_cli_error(_("%s: cannot be written: %s"), name, why ? strerror(why) : _("an earlier write failed"));
    return GW_EXIT_INTERNAL;
}

static int emit_json_file(const struct gw_report *rep, const char *path)
{
    FILE *f = fopen(path, "we");
    if (!f) {
        gw_cli_error(_("%s: cannot be written: %s"), path, strerror(errno));
        return GW_EXIT_INTERNAL;
    }
    errno = 0;
    (void)gw_render_json(rep, f); /* whether that went well is asked below, with the reason */
    int status = gw_cli_flush(f, path);
    if (fclose(f) != 0 && status == GW_EXIT_OK) {
        gw_cli_error(_("%s: cannot be written: %s"), path, strerror(errno));
        status = GW_EXIT_INTERNAL;
    }
    return status;
}

int gw_cli_emit(const struct gw_report *rep, const struct gw_cli_options *o)
{
    int to_stdout = o->json && strcmp(o->json, "-") == 0;
    int status = GW_EXIT_OK;
    struct sigaction ignore, before;
    memset(&ignore, 0, sizeof ignore);
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, &before); /* a closed pipe is seen by gw_cli_flush() */
    if (!o->json || (!to_stdout && !o->quiet)) {
        struct gw_render_options r;
        gw_cli_render_options(o, &r);
        errno = 0;
        (void)gw_render_terminal(rep, stdout, &r);
        status = gw_cli_flush(stdout, _("standard output"));
    }
    if (to_stdout) {
        errno = 0;
        (void)gw_render_json(rep, stdout);
        status = gw_cli_flush(stdout, _("standard output"));
    } else if (o->json) {
        int s = emit_json_file(rep, o->json);
        status = s ? s : status;
    }
    sigaction(SIGPIPE, &before, NULL);
    return status;
}

/* 1 when the two paths are the same existing file, so that writing one would destroy the other. */
static int same_file(const char *a, const char *b)
{
    struct stat sa, sb;
    return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino &&
           S_ISREG(sa.st_mode);
}

/* Half of the machine's memory, so that a huge file cannot push everything else out. */
static size_t default_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || size <= 0)
        return (size_t)1 << 30;
    return (size_t)pages / 2 * (size_t)size;
}

/* Imports into `t`. An exit status; `*interrupted` says whether the user stopped it. */
static int import(struct gw_trace *t, const char *path, const struct gw_cli_options *o, int *interrupted)
{
    struct gw_error err;
    struct gw_progress p;
    memset(&err, 0, sizeof err);
    gw_progress_begin(&p, path, !o->quiet);
    struct gw_import_options io = {.progress = gw_progress_step, .user = &p, .threads = o->threads};
    int rc = gw_import_file(t, path, &io, &err);
    *interrupted = gw_progress_end(&p);
    if (rc >= 0)
        return GW_EXIT_OK;
    if (!err.code)
        gw_error_set(&err, rc, path, -1, "", "%s", _(gw_code_name(rc)));
    return gw_cli_fail(&err);
}

static int out_of_memory(const char *path)
{
    gw_cli_error(_("%s: out of memory; give a lower --max-memory, or record fewer steps"), path);
    return GW_EXIT_INTERNAL;
}

static int diagnose(struct gw_trace *t, const char *path, const struct gw_cli_options *o)
{
    struct gw_analysis *an = gw_analyse(t, t->arena);
    struct gw_report *rep = an ? gw_diagnose(an, t->arena) : NULL;
    return rep ? gw_cli_emit(rep, o) : out_of_memory(path);
}

int gw_cli_diagnose(const char *path, const struct gw_cli_options *o)
{
    int interrupted = 0;
    if (o->json && strcmp(o->json, "-") != 0 && same_file(path, o->json)) {
        gw_cli_error(_("--json=%s would overwrite the recording; give another name"), o->json);
        return GW_EXIT_USAGE;
    }
    struct gw_trace *t = gw_trace_create(o->max_memory ? o->max_memory : default_memory());
    if (!t)
        return out_of_memory(path);
    int status = import(t, path, o, &interrupted);
    if (status == GW_EXIT_OK) {
        if (interrupted && !o->quiet)
            gw_cli_error(_("interrupted; the report covers what was read"));
        status = diagnose(t, path, o);
    }
    gw_trace_destroy(t);
    if (interrupted) /* end as the user asked, now that the report is out: a shell loop stops too */
        raise(SIGINT);
    return status;
}
