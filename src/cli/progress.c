#include "cli/progress.h"

#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "report/clean.h"
#include "report/elide.h"
#include "report/fmt.h"

#define FIRST_NS INT64_C(500000000) /* shorter than that, a line would only flicker */
#define NEXT_NS INT64_C(100000000)

static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig)
{
    (void)sig;
    interrupted = 1;
}

static int64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void gw_progress_begin(struct gw_progress *p, const char *path, int show)
{
    memset(p, 0, sizeof *p);
    p->path = path;
    p->show = show && isatty(STDERR_FILENO) && !gw_cli_dumb_terminal();
    p->begin_ns = now_ns();
    interrupted = 0;
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = on_interrupt;
    sa.sa_flags = SA_RESTART | (int)SA_RESETHAND; /* the second Ctrl-C is not ours */
    sigemptyset(&sa.sa_mask);
    if (sigaction(SIGINT, NULL, &p->before) == 0 && p->before.sa_handler != SIG_IGN) /* as after nohup or `&` */
        p->caught = sigaction(SIGINT, &sa, NULL) == 0;
}

static void draw(struct gw_progress *p, int64_t done, int64_t total, int64_t now)
{
    double seconds = (double)(now - p->begin_ns) / 1e9;
    double rate = (double)done / seconds;
    int unicode = gw_cli_unicode(), width = gw_cli_columns(STDERR_FILENO);
    const char *slash = strrchr(p->path, '/');
    char name[256], tail[192], line[640];
    if (total > 0 && done <= total) {
        char left[64] = "";
        double wait = rate > 0 ? (double)(total - done) / rate : 0;
        if (wait > 0 && wait < 120)
            snprintf(left, sizeof left, _(", %d s left"), (int)ceil(wait));
        else if (wait > 0 && wait < 1e6)
            snprintf(left, sizeof left, _(", %d min left"), (int)ceil(wait / 60));
        snprintf(tail, sizeof tail, " %3d %%, %s%s", (int)((double)done / (double)total * 100.0), gw_fmt_rate(rate).s,
                 left);
    } else {
        snprintf(tail, sizeof tail, " %s, %s", gw_fmt_bytes(done).s, gw_fmt_rate(rate).s);
    }
    gw_elide(name, sizeof name, slash && slash[1] ? slash + 1 : p->path, width - 60 > 20 ? width - 60 : 20, unicode);
    snprintf(line, sizeof line, _("reading %s%s"), name, tail);
    gw_elide(line, sizeof line, line, width - 1, unicode);
    gw_cli_plain_blanks(line);
    fprintf(stderr, "\r%s\033[K", line); /* EL of ECMA-48: erase to the end of the line */
    fflush(stderr);
    p->drawn = 1;
}

int gw_progress_step(void *user, int64_t done, int64_t total)
{
    struct gw_progress *p = user;
    if (p->show) {
        int64_t now = now_ns();
        if (now - p->begin_ns >= FIRST_NS && now - p->last_ns >= NEXT_NS) {
            p->last_ns = now;
            draw(p, done, total, now);
        }
    }
    return interrupted != 0;
}

int gw_progress_end(struct gw_progress *p)
{
    if (p->drawn) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    if (p->caught)
        sigaction(SIGINT, &p->before, NULL);
    return interrupted != 0;
}
