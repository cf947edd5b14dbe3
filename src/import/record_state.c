/* record_state.c - what the numbers of /proc mean: thread states, roles of processes, file systems. See
 * record_internal.h. */
#include <string.h>

#include "import/record_internal.h"

/* GW_CALL(x86-64, arm64, state): system calls that a thread may sleep in; -1 = not there. Numbers from the kernel's
 * syscall tables (arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h). */
static const struct {
    int x86, arm;
    uint8_t state;
} calls[] = {
    {0, 63, GW_TS_PIPE},     /* read: FILE when the descriptor is a file, see below */
    {17, 67, GW_TS_FILE},    /* pread64 */
    {19, 65, GW_TS_PIPE},    /* readv */
    {295, 69, GW_TS_FILE},   /* preadv */
    {327, 286, GW_TS_FILE},  /* preadv2 */
    {1, 64, GW_TS_PIPE},     /* write */
    {18, 68, GW_TS_FILE},    /* pwrite64 */
    {20, 66, GW_TS_PIPE},    /* writev */
    {2, -1, GW_TS_FILE},     /* open */
    {257, 56, GW_TS_FILE},   /* openat */
    {3, 57, GW_TS_FILE},     /* close */
    {4, -1, GW_TS_FILE},     /* stat */
    {5, 80, GW_TS_FILE},     /* fstat */
    {6, -1, GW_TS_FILE},     /* lstat */
    {262, 79, GW_TS_FILE},   /* newfstatat */
    {332, 291, GW_TS_FILE},  /* statx */
    {217, 61, GW_TS_FILE},   /* getdents64 */
    {74, 82, GW_TS_FILE},    /* fsync */
    {75, 83, GW_TS_FILE},    /* fdatasync */
    {40, 71, GW_TS_FILE},    /* sendfile */
    {221, 223, GW_TS_FILE},  /* fadvise64 */
    {28, 233, GW_TS_FILE},   /* madvise */
    {45, 207, GW_TS_PIPE},   /* recvfrom */
    {47, 212, GW_TS_PIPE},   /* recvmsg */
    {44, 206, GW_TS_PIPE},   /* sendto */
    {46, 211, GW_TS_PIPE},   /* sendmsg */
    {42, 203, GW_TS_PIPE},   /* connect */
    {43, 202, GW_TS_PIPE},   /* accept */
    {288, 242, GW_TS_PIPE},  /* accept4 */
    {7, -1, GW_TS_POLL},     /* poll */
    {271, 73, GW_TS_POLL},   /* ppoll */
    {23, -1, GW_TS_POLL},    /* select */
    {270, 72, GW_TS_POLL},   /* pselect6 */
    {232, -1, GW_TS_POLL},   /* epoll_wait */
    {281, 22, GW_TS_POLL},   /* epoll_pwait */
    {202, 98, GW_TS_FUTEX},  /* futex */
    {449, 449, GW_TS_FUTEX}, /* futex_waitv */
    {35, 101, GW_TS_NAP},    /* nanosleep */
    {230, 115, GW_TS_NAP},   /* clock_nanosleep */
    {61, 260, GW_TS_CHILD},  /* wait4 */
    {247, 95, GW_TS_CHILD},  /* waitid */
};

unsigned gw_record_state(const struct gw_rec_thread *t, int arm, const char *wchan)
{
    switch (t->state) {
    case 'R': return GW_TS_RUNNING;
    case 'D': return GW_TS_DISK;
    case 'T':
    case 't': return GW_TS_STOPPED;
    case 'S':
    case 'I': break;
    default: return GW_TS_UNKNOWN;
    }
    if (t->flags & GW_TF_WANTS_GIL)
        return GW_TS_GIL;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (t->syscall >= 0 && t->syscall == (arm ? calls[i].arm : calls[i].x86)) {
            if (calls[i].state == GW_TS_PIPE && t->path) /* the sampler names a path for regular files only */
                return GW_TS_FILE;
            return calls[i].state;
        }
    /* Where the call is hidden from us, the kernel function may not be. */
    static const struct {
        const char *word;
        uint8_t state;
    } words[] = {{"futex", GW_TS_FUTEX},
                 {"poll", GW_TS_POLL},
                 {"epoll", GW_TS_POLL},
                 {"select", GW_TS_POLL},
                 {"nanosleep", GW_TS_NAP},
                 {"pipe_read", GW_TS_PIPE},
                 {"pipe_write", GW_TS_PIPE},
                 {"skb", GW_TS_PIPE},
                 {"sock", GW_TS_PIPE},
                 {"do_wait", GW_TS_CHILD},
                 {"folio_wait", GW_TS_FILE},
                 {"io_schedule", GW_TS_FILE},
                 {"nfs", GW_TS_FILE},
                 {"fuse", GW_TS_FILE},
                 {"request_wait", GW_TS_FILE},
                 {"p9_", GW_TS_FILE},
                 {"cl_sync_io_wait", GW_TS_FILE},
                 {"ceph", GW_TS_FILE}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(wchan, words[i].word))
            return words[i].state;
    return t->syscall == -1 && !*wchan ? GW_TS_RUNNING : GW_TS_OTHER; /* it woke up between two of our looks */
}

unsigned gw_record_role(uint32_t flags, const char *comm, const char *command, unsigned parent_role)
{
    static const char *const helpers[] = {"multiprocessing.resource_tracker", "multiprocessing.forkserver",
                                          "resource_tracker", "semaphore_tracker"};
    static const char *const compilers[] = {"compile_worker", "ptxas",     "nvcc",  "cicc", "cc1",
                                            "nvlink",         "fatbinary", "cudafe"};
    static const char *const compiler_names[] = {"gcc", "g++", "c++",      "clang", "clang++",
                                                 "as",  "ld",  "collect2", "ninja"};
    for (size_t i = 0; i < sizeof compilers / sizeof *compilers; i++)
        if (strstr(command, compilers[i]) || strncmp(comm, compilers[i], strlen(compilers[i])) == 0)
            return GW_HR_COMPILER;
    for (size_t i = 0; i < sizeof compiler_names / sizeof *compiler_names; i++)
        if (strcmp(comm, compiler_names[i]) == 0)
            return GW_HR_COMPILER;
    int is_named = strncmp(comm, "pt_data_worker", 14) == 0 || strncmp(comm, "pt_multiprocess", 15) == 0;
    int is_child = parent_role == GW_HR_TRAINER || parent_role == GW_HR_HELPER;
    if (is_named || (is_child && (flags & GW_PF_FORKED)) || (is_child && strstr(command, "spawn_main")))
        return GW_HR_WORKER;
    for (size_t i = 0; i < sizeof helpers / sizeof *helpers; i++)
        if (strstr(command, helpers[i]))
            return GW_HR_HELPER;
    return GW_HR_OTHER;
}

int gw_record_is_remote(const char *type)
{
    static const char *const types[] = {"nfs",   "nfs4",      "lustre", "cifs",  "smb3",     "smbfs",  "9p",
                                        "ceph",  "glusterfs", "beegfs", "gpfs",  "afs",      "ocfs2",  "gfs2",
                                        "drvfs", "virtiofs",  "wekafs", "pvfs2", "orangefs", "vboxsf", "davfs"};
    if (strncmp(type, "fuse", 4) == 0)
        return 1;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i]) == 0)
            return 1;
    return 0;
}
