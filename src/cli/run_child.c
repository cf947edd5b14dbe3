/* run_child.c - see run_child.h */
#include "cli/run_child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH, SIGCHLD,
                              SIGTTOU, SIGPIPE, SIGALRM, SIGPWR, SIGIO, SIGXFSZ};

void gw_child_signals(sigset_t *set)
{
    sigemptyset(set);
    for (size_t i = 0; i < sizeof watched / sizeof *watched; i++)
        sigaddset(set, watched[i]);
    for (int signo = SIGRTMIN; signo <= SIGRTMAX; signo++) /* for the job: nothing here uses them */
        sigaddset(set, signo);
}

/* The terminal, when we are in its foreground; else -1. */
static int foreground_terminal(void)
{
    int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (fd >= 0 && tcgetpgrp(fd) == getpgrp())
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static void go_apart(const int streams[3])
{
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < 3; i++)
        dup2(streams[i], i);
}

static _Noreturn void run_job(const struct gw_child *c, char *const argv[], char *const env[], const int *streams, int report)
{
    if (streams)
        go_apart(streams);
    else if (c->own_group)
        setpgid(0, 0);
    for (int i = 0; env[i]; i++)
        if (putenv(env[i]) != 0)
            break;
    sigprocmask(SIG_SETMASK, &c->before, NULL);
    execvp(argv[0], argv);
    int why = errno;
    ssize_t n = write(report, &why, sizeof why);
    (void)n;
    _exit(why == ENOENT ? 127 : 126);
}

static int start(struct gw_child *c, char *const argv[], char *const env[], const int *streams)
{
    int pipe_fd[2];
    sigset_t set;
    memset(c, 0, sizeof *c);
    c->pid = -1;
    c->tty = streams ? -1 : foreground_terminal();
    c->own_group = c->tty >= 0;
    if (pipe2(pipe_fd, O_CLOEXEC) != 0)
        return -1;
    gw_child_signals(&set);
    sigprocmask(SIG_BLOCK, &set, &c->before);
    fflush(NULL);
    c->pid = fork();
    if (c->pid == 0)
        run_job(c, argv, env, streams, pipe_fd[1]);
    int why = errno;
    close(pipe_fd[1]);
    if (c->pid < 0) {
        close(pipe_fd[0]);
        errno = why;
        return -1;
    }
    if (c->own_group)
        setpgid(c->pid, c->pid); /* whoever is first: it must be done before the first signal */
    ssize_t n;
    while ((n = read(pipe_fd[0], &why, sizeof why)) < 0 && errno == EINTR)
        ;
    close(pipe_fd[0]);
    if (n == (ssize_t)sizeof why) {
        c->exec_errno = why;
        waitpid(c->pid, &c->status, 0);
        c->ended = 1;
        return -1;
    }
    if (streams)
        c->own_group = 1; /* by setsid(), which had to come first */
    return 0;
}

int gw_child_start(struct gw_child *c, char *const argv[], char *const env[]) { return start(c, argv, env, NULL); }

int gw_child_start_apart(struct gw_child *c, char *const argv[], char *const env[], const int streams[3])
{
    return start(c, argv, env, streams);
}

static void give_terminal(struct gw_child *c, pid_t group)
{
    if (c->tty >= 0)
        tcsetpgrp(c->tty, group); /* SIGTTOU is blocked: works from the background too */
}

void gw_child_release_terminal(struct gw_child *c)
{
    if (c->has_terminal)
        give_terminal(c, getpgrp());
    c->has_terminal = 0;
}

static void pass_on(const struct gw_child *c, int signo, int to_group)
{
    if (!c->ended)
        kill(to_group && c->own_group ? -c->pid : c->pid, signo);
}

static void stop_ourselves(struct gw_child *c)
{
    gw_child_release_terminal(c);
    kill(getpid(), SIGSTOP); /* until the shell lets us go on */
}

static void job_stopped(struct gw_child *c, int signo)
{
    if (signo == SIGTTIN || signo == SIGTTOU) {
        if (c->own_group && c->tty >= 0 && tcgetpgrp(c->tty) == getpgrp()) {
            give_terminal(c, c->pid);
            c->has_terminal = 1;
            kill(-c->pid, SIGCONT);
        }
    } else if (signo == SIGTSTP && c->has_terminal) {
        stop_ourselves(c);
    }
}

static void reap(struct gw_child *c)
{
    int status;
    for (pid_t p; (p = waitpid(c->pid, &status, WNOHANG | WUNTRACED)) > 0 || (p < 0 && errno == EINTR);) {
        if (p < 0)
            continue;
        if (WIFSTOPPED(status)) {
            job_stopped(c, WSTOPSIG(status));
        } else {
            c->status = status;
            c->ended = 1;
            return;
        }
    }
}

static void go_on(struct gw_child *c)
{
    if (!c->own_group)
        return; /* the shell's SIGCONT went to the whole group */
    kill(-c->pid, SIGCONT);
}

int gw_child_handle(struct gw_child *c, int signo, int sent_by_kernel, int passes_interrupt)
{
    switch (signo) {
    case SIGCHLD:
        reap(c);
        return 0;
    case SIGINT:
        if (sent_by_kernel && c->own_group && !passes_interrupt)
            return 1;
        /* A terminal's interrupt went to the job too when it shares our group. */
        if (!sent_by_kernel || c->own_group)
            pass_on(c, signo, sent_by_kernel);
        return 0;
    case SIGQUIT:
        if (!sent_by_kernel || c->own_group)
            pass_on(c, signo, sent_by_kernel);
        return 0;
    case SIGTSTP:
        pass_on(c, SIGTSTP, 1);
        stop_ourselves(c);
        return 0;
    case SIGCONT:
        go_on(c);
        return 0;
    case SIGWINCH:
        if (c->own_group)
            pass_on(c, signo, 1);
        return 0;
    case SIGHUP: /* a terminal that goes away tells all of its foreground */
        pass_on(c, signo, sent_by_kernel);
        return 0;
    case SIGPIPE:
    case SIGTTOU:
    case SIGXFSZ:
        return 0; /* ours: blocked so that they cannot end or stop us */
    default: /* TERM, USR1, USR2; ALRM too, whose timer may have been set before we were started */
        pass_on(c, signo, 0);
        return 0;
    }
}

int gw_child_exit_status(const struct gw_child *c)
{
    return WIFEXITED(c->status) ? WEXITSTATUS(c->status) : 128 + WTERMSIG(c->status);
}

_Noreturn void gw_child_exit_like(const struct gw_child *c)
{
    if (WIFSIGNALED(c->status)) {
        const struct rlimit none = {0, 0};
        sigset_t one;
        int signo = WTERMSIG(c->status);
        setrlimit(RLIMIT_CORE, &none);
        signal(signo, SIG_DFL);
        sigemptyset(&one);
        sigaddset(&one, signo);
        sigprocmask(SIG_UNBLOCK, &one, NULL);
        raise(signo);
    }
    _exit(gw_child_exit_status(c));
}
