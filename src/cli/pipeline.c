/* From a file to a report: import, analyse, diagnose, render. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#ifdef GW_CMD_CHECK
#include "cli/machine.h"
#endif
#include "cli/progress.h"
#include "cli/windows.h"
#include "engine/analysis.h"
#include "import/importer.h"
#include "layers/rank_report.h"
#include "report/renderer.h"

#define WIDTH_MAX 100 /* longer lines are hard to read; --width overrides */

int gw_cli_unicode(void) { return gw_i18n_utf8(); }

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
    gw_cli_error(_("%s: cannot be written: %s"), name, why ? gw_i18n_errno(why) : _("an earlier write failed"));
    return GW_EXIT_INTERNAL;
}

static int write_file(const char *path, gw_cli_writer *write, void *user)
{
    FILE *f = fopen(path, "we");
    if (!f) {
        gw_cli_error(_("%s: cannot be written: %s"), path, gw_i18n_errno(errno));
        return GW_EXIT_INTERNAL;
    }
    errno = 0;
    write(f, user); /* whether that went well is asked below, with the reason */
    int status = gw_cli_flush(f, path);
    if (fclose(f) != 0 && status == GW_EXIT_OK) {
        gw_cli_error(_("%s: cannot be written: %s"), path, gw_i18n_errno(errno));
        status = GW_EXIT_INTERNAL;
    }
    return status;
}

int gw_cli_write(const char *path, gw_cli_writer *write, void *user)
{
    int status;
    struct sigaction ignore, before;
    memset(&ignore, 0, sizeof ignore);
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, &before); /* a closed pipe is seen by gw_cli_flush() */
    if (path && strcmp(path, "-") != 0) {
        status = write_file(path, write, user);
    } else {
        errno = 0;
        write(stdout, user);
        status = gw_cli_flush(stdout, _("standard output"));
    }
    sigaction(SIGPIPE, &before, NULL);
    return status;
}

struct emission {
    const struct gw_report *rep;
    struct gw_render_options render;
};

static void write_text(FILE *out, void *user)
{
    const struct emission *e = user;
    (void)gw_render_terminal(e->rep, out, &e->render);
}

static void write_json(FILE *out, void *user)
{
    const struct emission *e = user;
    (void)gw_render_json(e->rep, out);
}

int gw_cli_emit(const struct gw_report *rep, const struct gw_cli_options *o)
{
    struct emission e = {.rep = rep};
    int status = GW_EXIT_OK;
    if (!gw_cli_no_text(o)) {
        gw_cli_render_options(o, &e.render);
        status = gw_cli_write(NULL, write_text, &e);
    }
    if (o->json) {
        int s = gw_cli_write(o->json, write_json, &e);
        status = s ? s : status;
    }
    return status;
}

int gw_cli_same_file(const char *a, const char *b)
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

struct gw_trace *gw_cli_trace(const struct gw_cli_options *o)
{
    return gw_trace_create(o->max_memory ? o->max_memory : default_memory());
}

/* What the machine's link can do goes with the trace. An exit status. */
static int read_machine(struct gw_trace *t, const struct gw_cli_options *o, struct gw_beside *b)
{
    int status = GW_EXIT_OK;
#ifdef GW_CMD_CHECK
    b->machine = gw_machine_read(t, o, &status);
    if (b->machine)
        gw_machine_ceilings(t, b->machine);
#else
    (void)t, (void)o, (void)b;
#endif
    return status;
}

/* Which window of a record to read; 0 when there is no choice. */
static int64_t choose_window(const char *path, const struct gw_cli_options *o, struct gw_beside *b)
{
    b->windows = calloc(1, sizeof *b->windows);
    if (!b->windows)
        return 0;
    gw_windows_look(b->windows, path, o);
    return b->windows->at;
}

int gw_cli_import(struct gw_trace *t, const char *path, const struct gw_cli_options *o, struct gw_beside *b)
{
    struct gw_error err;
    struct gw_progress p;
    memset(&err, 0, sizeof err);
    memset(b, 0, sizeof *b);
    int64_t window_at = choose_window(path, o, b);
    gw_progress_begin(&p, path, !o->quiet);
    struct gw_import_options io = {
        .progress = gw_progress_step, .user = &p, .threads = o->threads, .window_at = window_at};
    int rc = gw_import_file(t, path, &io, &err);
    b->interrupted = gw_progress_end(&p);
    if (rc >= 0)
        return read_machine(t, o, b);
    if (!err.code)
        gw_error_set(&err, rc, path, -1, "", "%s", _(gw_code_name(rc)));
    return gw_cli_fail(&err);
}

void gw_beside_free(struct gw_beside *b)
{
#ifdef GW_CMD_CHECK
    gw_env_destroy(b->machine);
#endif
    free(b->windows);
    memset(b, 0, sizeof *b);
}

int gw_cli_no_memory(const char *path)
{
    gw_cli_error(_("%s: out of memory; give a lower --max-memory, or record fewer steps"), path);
    return GW_EXIT_INTERNAL;
}

struct gw_report *gw_cli_report(const struct gw_analysis *an, const struct gw_beside *b, struct gw_arena *arena)
{
    struct gw_report *rep = an ? gw_diagnose(an, arena) : NULL;
    if (rep && an->ndev > 1)
        rep = gw_diagnose_devices(an, rep, arena);
    if (rep && b->windows && gw_windows_report(b->windows, rep, arena) < 0)
        return NULL;
#ifdef GW_CMD_CHECK
    if (rep && b->machine)
        rep = gw_machine_report(rep, an, b->machine, arena);
#endif
    return rep;
}

static int diagnose(struct gw_trace *t, const char *path, const struct gw_cli_options *o, const struct gw_beside *b)
{
    struct gw_analysis *an = gw_analyse(t, t->arena);
    struct gw_report *rep = gw_cli_report(an, b, t->arena);
    if (!rep)
        return gw_cli_no_memory(path);
    int status = gw_cli_emit(rep, o), s = gw_cli_html(rep, an, o);
    return s > status ? s : status;
}

int gw_cli_diagnose(const char *path, const struct gw_cli_options *o)
{
    struct gw_beside b = {0};
    char *input = (char *)path;
    if (gw_cli_spares_inputs(&input, 1, o) != GW_EXIT_OK)
        return GW_EXIT_USAGE;
    struct gw_trace *t = gw_cli_trace(o);
    if (!t)
        return gw_cli_no_memory(path);
    int status = gw_cli_import(t, path, o, &b);
    if (status == GW_EXIT_OK) {
        if (b.interrupted && !o->quiet)
            gw_cli_error(_("interrupted; the report covers what was read"));
        status = diagnose(t, path, o, &b);
    }
    gw_trace_destroy(t);
    int interrupted = b.interrupted;
    gw_beside_free(&b);
    if (interrupted) /* end as the user asked, now that the report is out: a shell loop stops too */
        raise(SIGINT);
    return status;
}
