/*
 * run_child.h - starts the job as our child and keeps out of its way.
 *
 * The job inherits everything: standard streams, working directory, limits, signal dispositions and mask. Who gets which
 * signal:
 *
 * - On a terminal, when we are its foreground group, the job gets a process group of its own and we stay in the
 *   foreground. So Ctrl-C reaches us alone: the first ends the recording, the next is passed on to the job. A job
 *   that reads from the terminal (or changes its settings) is stopped by the kernel for that; we see it, hand it the
 *   terminal and let it go on, and from then on Ctrl-C is its own, as without us.
 * - Ctrl-Z stops the job and us, fg and bg let both go on; Ctrl-\ and a change of window size are passed on.
 * - Without a terminal the job stays in our process group, so that a scheduler that kills the group kills both.
 * - TERM, HUP, USR1, USR2, ALRM, IO, PWR, the real-time signals, and an INT that another process sent, are passed on to
 *   the job itself; the HUP of a terminal that goes away to its whole group.
 *
 * When we die, the job goes on. Only the main thread may call these.
 */
#ifndef GW_RUN_CHILD_H
#define GW_RUN_CHILD_H

#include <signal.h>
#include <sys/types.h>

struct gw_child {
    pid_t pid;
    int own_group;    /* 1: it leads a process group */
    int tty;          /* descriptor of the terminal, -1 none */
    int has_terminal; /* 1: we handed it the terminal */
    int ended;
    int status;       /* of waitpid(), once ended */
    int exec_errno;   /* why it could not be started, 0 = it could */
    sigset_t before;  /* our mask before the start, the job's from then on */
};

/* Blocks the signals that gw_child_handle() deals with. `env`: NAME=VALUE strings to add, NULL-terminated.
 * 0, or -1 with exec_errno set (or errno when we could not even fork). */
int gw_child_start(struct gw_child *c, char *const argv[], char *const env[]);
/* The same for a job that is run to be measured, not for its own sake: in a session of its own, away from our terminal,
 * with `streams` as its standard input, output and error, and killed when we die. */
int gw_child_start_apart(struct gw_child *c, char *const argv[], char *const env[], const int streams[3]);
/* The signals to watch, for signalfd(). */
void gw_child_signals(sigset_t *set);
/* Deals with one signal. 1 when the user asked to end the recording (Ctrl-C on our terminal), else 0. `passes_interrupt`:
 * 1 when the recording has ended already, so that Ctrl-C is meant for the job. */
int gw_child_handle(struct gw_child *c, int signo, int sent_by_kernel, int passes_interrupt);
/* Takes the terminal back, if it was given away. */
void gw_child_release_terminal(struct gw_child *c);
/* Ends our process as the job ended: its exit status, or the same signal (without a second core file). */
_Noreturn void gw_child_exit_like(const struct gw_child *c);
/* The exit status that stands for it in a shell. */
int gw_child_exit_status(const struct gw_child *c);

#endif
