/* run_machine.c - see run_machine.h */
#include "cli/run_machine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/gw_i18n.h"
#include "collect/capture/record_env.h"
#include "collect/live/live.h"
#include "record/record_write.h"

enum { SAMPLE_MS = 300, POLL_MS = 20 };
enum { STATUS_NO_MEMORY = 1, STATUS_NOT_WRITTEN = 2 };
#define IOPRIO_IDLE (3 << 13) /* IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0) of linux/ioprio.h */

static int is_python(const char *program)
{
    const char *base = strrchr(program, '/');
    return strncmp(base ? base + 1 : program, "python", 6) == 0;
}

/* The interpreter that the job runs: its program, or the one in the first line of its script (torchrun, accelerate). NULL when
 * that cannot be told (a shell script): then the active environment is looked at. */
static const char *python_of(char *const argv[], char *buf, size_t cap)
{
    char line[PATH_MAX + 64] = "";
    if (!gw_live_find_program(argv[0], buf, cap))
        return NULL;
    if (is_python(buf))
        return buf;
    FILE *f = fopen(buf, "re");
    if (f && !fgets(line, sizeof line, f))
        line[0] = '\0';
    if (f)
        fclose(f);
    if (strncmp(line, "#!", 2) != 0)
        return NULL;
    char *save = NULL, *word = strtok_r(line + 2, " \t\n", &save);
    if (word && strcmp(word, "/usr/bin/env") == 0)
        word = strtok_r(NULL, " \t\n", &save);
    return word && is_python(word) && gw_live_find_program(word, buf, cap) ? buf : NULL;
}

static _Noreturn void collect(int dirfd, pid_t job, char *const argv[], pid_t parent)
{
    char python[PATH_MAX];
    struct gw_live_options o = {.nvml = getenv("GPUWHY_NVML"), .pid = job, .sample_ms = SAMPLE_MS};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    setpriority(PRIO_PROCESS, 0, 19);
    (void)syscall(SYS_ioprio_set, 1 /* IOPRIO_WHO_PROCESS */, 0, IOPRIO_IDLE);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC); /* nothing of ours may appear in the job's streams */
    for (int fd = 0; null >= 0 && fd <= 2; fd++)
        dup2(null, fd);
    o.python = python_of(argv, python, sizeof python);
    struct gw_env *env = gw_env_create();
    if (!env || gw_live_collect(env, &o) < 0)
        _exit(STATUS_NO_MEMORY);
    _exit(gw_env_write_record(env, dirfd, (uint32_t)job) < 0 ? STATUS_NOT_WRITTEN : 0);
}

void gw_machine_start(struct gw_machine *m, int dirfd, pid_t job, char *const argv[])
{
    pid_t parent = getpid();
    fflush(NULL);
    m->deadline_ns = gw_clock_ns(CLOCK_MONOTONIC) + GW_MACHINE_MS * 1000000ull;
    m->pid = fork();
    if (m->pid == 0)
        collect(dirfd, job, argv, parent);
    if (m->pid < 0)
        m->pid = 0; /* no room for another process: the record goes without */
}

/* A process that hangs in the kernel does not die of a kill: it is left behind then, and never waited for. */
const char *gw_machine_poll(struct gw_machine *m)
{
    int status;
    if (!m->pid)
        return NULL;
    int late = gw_clock_ns(CLOCK_MONOTONIC) > m->deadline_ns;
    pid_t p = waitpid(m->pid, &status, WNOHANG);
    if (!late && (p == 0 || (p < 0 && errno == EINTR)))
        return NULL;
    if (p == 0)
        kill(m->pid, SIGKILL);
    m->pid = 0;
    if (p == 0)
        return N_("looking at the machine took too long");
    if (p < 0 || WIFSIGNALED(status))
        return N_("the collector was ended");
    return WEXITSTATUS(status) == 0                    ? NULL
           : WEXITSTATUS(status) == STATUS_NOT_WRITTEN ? N_("the facts could not be written")
                                                       : N_("out of memory");
}

const char *gw_machine_finish(struct gw_machine *m, int ms)
{
    const char *why = gw_machine_poll(m);
    for (int waited = 0; m->pid && waited < ms; waited += POLL_MS) {
        struct timespec ts = {0, POLL_MS * 1000000l};
        nanosleep(&ts, NULL);
        why = gw_machine_poll(m);
    }
    if (m->pid) {
        m->deadline_ns = 0;
        why = gw_machine_poll(m);
    }
    return why;
}
