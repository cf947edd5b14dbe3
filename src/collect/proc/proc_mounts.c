/* proc_mounts.c - see proc_mounts.h */
#include "collect/proc/proc_mounts.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "collect/proc/proc_read.h"

enum { KNOWN = 64 };

struct gw_mounts {
    int proc;
    struct gw_sink *sink;
    struct { dev_t dev; uint32_t id; } known[KNOWN];
    size_t n;
};

struct gw_mounts *gw_mounts_create(int proc_root, struct gw_sink *sink)
{
    struct gw_mounts *m = calloc(1, sizeof *m);
    if (m) {
        m->proc = proc_root;
        m->sink = sink;
    }
    return m;
}

void gw_mounts_destroy(struct gw_mounts *m) { free(m); }

/* "36 35 98:0 /root /mnt rw,noatime master:1 - ext3 /dev/root rw" -> "ext3 /mnt" for a device. The last such line wins. */
static int find_mount(int proc, int pid, dev_t dev, char *out, size_t cap)
{
    char path[40], want[32];
    snprintf(path, sizeof path, "%d/mountinfo", pid);
    snprintf(want, sizeof want, "%u:%u", major(dev), minor(dev));
    int fd = openat(proc, path, O_RDONLY | O_CLOEXEC), found = 0;
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    if (!f) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    char line[4096];
    while (fgets(line, sizeof line, f)) {
        char number[32], point[1024], type[64];
        const char *dash = strstr(line, " - ");
        if (sscanf(line, "%*d %*d %31s %*s %1023s", number, point) != 2 || !dash || strcmp(number, want) != 0 ||
            sscanf(dash + 3, "%63s", type) != 1)
            continue;
        snprintf(out, cap, "%s %s", type, point);
        found = 1;
    }
    fclose(f);
    return found;
}

uint32_t gw_mounts_of_fd(struct gw_mounts *m, int pid, int fd)
{
    char path[64], text[1200], file[512], key[700];
    struct stat st;
    if (!m)
        return 0;
    snprintf(path, sizeof path, "%d/fd/%d", pid, fd);
    if (fstatat(m->proc, path, &st, 0) != 0 || !S_ISREG(st.st_mode))
        return 0;
    for (size_t i = 0; i < m->n; i++)
        if (m->known[i].dev == st.st_dev)
            return m->known[i].id;
    if (m->n == KNOWN)
        return 0;
    uint32_t id = 0;
    if (find_mount(m->proc, pid, st.st_dev, text, sizeof text)) {
        id = gw_sink_string(m->sink, text);
        ssize_t n = readlinkat(m->proc, path, file, sizeof file - 1);
        if (n > 0) {
            file[n] = 0;
            snprintf(key, sizeof key, "mount.%.600s", text);
            gw_sink_fact(m->sink, key, file);
        }
    }
    m->known[m->n].dev = st.st_dev;
    m->known[m->n++].id = id;
    return id;
}
