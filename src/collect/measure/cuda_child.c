/* The child process that talks to CUDA, and its parent's side. One line per message over two pipes. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "collect/measure/measure.h"

struct gw_cuda_child {
    pid_t pid;
    int to, from;
    char line[1024];
    size_t have;
    char why[256]; /* why CUDA cannot be used; "" */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- child
 * ------------------------------------------------------------------------------------------------------------ */

static void send_text(int fd, const char *text)
{
    size_t n = strlen(text), done = 0;
    while (done < n) {
        ssize_t w = write(fd, text + done, n - done);
        if (w <= 0)
            _exit(1); /* the parent is gone */
        done += (size_t)w;
    }
}

static void say_result(void *user, const char *bus, const char *id, double value, const char *unit, const char *how)
{
    char text[512];
    snprintf(text, sizeof text, "result\t%s\t%s\t%.9g\t%s\t%s\n", bus, id, value, unit, how);
    send_text(*(int *)user, text);
}

/* 'l' = copy until the next command, 'u' = stop that, 'm' = measure, end of input = end. */
static void serve(int in, int out, const char *library)
{
    char why[256] = "", text[320], command;
    struct gw_cuda *c = NULL;
    int loading = 0;
    for (;;) {
        struct pollfd p = {.fd = in, .events = POLLIN};
        if (poll(&p, 1, loading ? 0 : -1) > 0) {
            if (read(in, &command, 1) != 1)
                return;
            if (!c && !why[0] && command != 'u' && !(c = gw_cuda_open(library, why, sizeof why)) && !why[0])
                snprintf(why, sizeof why, "out of memory");
            if (!c && command != 'u') {
                snprintf(text, sizeof text, "why\t%.200s\n", why);
                send_text(out, text);
                continue;
            }
            loading = command == 'l';
            if (loading) {
                int rc = gw_cuda_copy_round(c);
                send_text(out, rc == 0 ? "loading\n" : "why\tthe copies failed\n");
                loading = rc == 0;
            }
            for (int i = 0; command == 'm' && i < gw_cuda_count(c); i++)
                gw_cuda_measure(c, i, say_result, &out);
            if (command == 'm')
                send_text(out, "done\n");
        }
        if (loading && gw_cuda_copy_round(c) < 0)
            loading = 0;
    }
}

/* --- parent
 * ----------------------------------------------------------------------------------------------------------- */

struct gw_cuda_child *gw_cuda_child_start(const char *library)
{
    struct gw_cuda_child *c = calloc(1, sizeof *c);
    int to[2], from[2];
    if (!c)
        return NULL;
    if (pipe2(to, O_CLOEXEC) < 0) {
        free(c);
        return NULL;
    }
    if (pipe2(from, O_CLOEXEC) < 0) {
        close(to[0]), close(to[1]);
        free(c);
        return NULL;
    }
    pid_t parent = getpid();
    c->pid = fork();
    if (c->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* never outlives the report */
        if (getppid() != parent)
            _exit(1);
        signal(SIGPIPE, SIG_DFL);
        close(to[1]), close(from[0]);
        serve(to[0], from[1], library);
        _exit(0);
    }
    close(to[0]), close(from[1]);
    if (c->pid < 0) {
        close(to[1]), close(from[0]);
        free(c);
        return NULL;
    }
    c->to = to[1];
    c->from = from[0];
    return c;
}

static int command(struct gw_cuda_child *c, char what)
{
    /* A child that died must not kill us by SIGPIPE. */
    void (*old)(int) = signal(SIGPIPE, SIG_IGN);
    ssize_t n = write(c->to, &what, 1);
    signal(SIGPIPE, old);
    return n == 1 ? 0 : -1;
}

/* The next line, without its end. 1, or 0 at the deadline or the end. */
static int next_line(struct gw_cuda_child *c, double until, char *out, size_t cap)
{
    for (;;) {
        char *nl = memchr(c->line, '\n', c->have);
        if (nl) {
            size_t n = (size_t)(nl - c->line);
            snprintf(out, cap, "%.*s", (int)n, c->line);
            c->have -= n + 1;
            memmove(c->line, nl + 1, c->have);
            return 1;
        }
        double left = until - now();
        struct pollfd p = {.fd = c->from, .events = POLLIN};
        if (left <= 0 || c->have == sizeof c->line || poll(&p, 1, (int)(left * 1000) + 1) <= 0)
            return 0;
        ssize_t got = read(c->from, c->line + c->have, sizeof c->line - c->have);
        if (got <= 0) {
            if (!c->why[0])
                snprintf(c->why, sizeof c->why, "the process that used CUDA ended");
            return 0;
        }
        c->have += (size_t)got;
    }
}

int gw_cuda_child_load(struct gw_cuda_child *c)
{
    char line[1024];
    if (!c || command(c, 'l') < 0)
        return -1;
    while (next_line(c, now() + 5, line, sizeof line)) {
        if (strcmp(line, "loading") == 0)
            return 0;
        if (strncmp(line, "why\t", 4) == 0) {
            snprintf(c->why, sizeof c->why, "%.250s", line + 4);
            return -1;
        }
    }
    if (!c->why[0])
        snprintf(c->why, sizeof c->why, "CUDA did not start within five seconds");
    return -1;
}

void gw_cuda_child_unload(struct gw_cuda_child *c)
{
    if (c)
        command(c, 'u');
}

static void take_result(struct gw_env *env, char *line)
{
    char *part[6] = {NULL};
    int n = 0;
    for (char *p = line; p && n < 6; n++) {
        part[n] = p;
        p = strchr(p, '\t');
        if (p)
            *p++ = '\0';
    }
    if (n < 6)
        return;
    struct gw_gpu *g = *part[1] ? gw_env_gpu(env, GW_ENV_NONE, part[1]) : NULL;
    if (g && g->index == GW_ENV_NONE)
        g->index = (int64_t)gw_env_gpu_position(env, g); /* NVML was not there: CUDA's order */
    if (strcmp(part[2], "problem") == 0)
        gw_env_note(env, "--measure", "GPU %lld: %s", g ? (long long)g->index : -1LL, part[5]);
    else if (g)
        gw_measure_add(env, part[2], g->index, strtod(part[3], NULL), part[4], part[5]);
}

void gw_cuda_child_measure(struct gw_cuda_child *c, struct gw_env *env, double seconds)
{
    char line[1024];
    double until = now() + seconds;
    if (!c || command(c, 'm') < 0)
        return;
    while (next_line(c, until, line, sizeof line)) {
        if (strcmp(line, "done") == 0)
            return;
        if (strncmp(line, "why\t", 4) == 0) {
            snprintf(c->why, sizeof c->why, "%.250s", line + 4);
            return;
        }
        if (strncmp(line, "result\t", 7) == 0)
            take_result(env, line);
    }
    if (!c->why[0])
        gw_env_note(env, "--measure", "stopped after %.0f s; what was measured by then is shown", seconds);
}

void gw_cuda_child_stop(struct gw_cuda_child *c, struct gw_env *env)
{
    if (!c)
        return;
    if (c->why[0])
        gw_env_set_str(env, GW_HSTR_CUDA_PROBLEM, c->why, strlen(c->why));
    close(c->to);
    close(c->from);
    /* It ends by itself when its input ends. A driver that hangs gets a second. */
    for (int i = 0; i < 100; i++) {
        if (waitpid(c->pid, NULL, WNOHANG) != 0)
            goto gone;
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
    kill(c->pid, SIGKILL);
    waitpid(c->pid, NULL, 0);
gone:
    free(c);
}
