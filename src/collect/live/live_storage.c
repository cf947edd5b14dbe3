/* The file systems under the --data paths. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "collect/live/live.h"

struct mount {
    char point[1024], type[64], source[512];
    unsigned major, minor;
    size_t len;
};

/* Octal escapes of mountinfo ("\040" is a blank) undone, in place. */
static void unescape(char *s)
{
    char *to = s;
    for (; *s; s++) {
        if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' && s[3] <= '7') {
            *to++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + s[3] - '0');
            s += 3;
        } else {
            *to++ = *s;
        }
    }
    *to = '\0';
}

/* The mount with the longest point that leads to `path`; of two at one point the later is on top. */
static int find_mount(char *table, const char *path, struct mount *best)
{
    int found = 0;
    for (char *p = table; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
        struct mount m = {.len = 0};
        const char *dash = strstr(p, " - ");
        const char *end = strchr(p, '\n');
        if (!dash || (end && dash > end) || sscanf(p, "%*d %*d %u:%u %*s %1023s", &m.major, &m.minor, m.point) != 3 ||
            sscanf(dash + 3, "%63s %511s", m.type, m.source) < 1)
            continue;
        unescape(m.point);
        unescape(m.source);
        m.len = strcmp(m.point, "/") == 0 ? 0 : strlen(m.point);
        if (strncmp(path, m.point, m.len) != 0 || (path[m.len] != '/' && path[m.len] != '\0') ||
            (found && m.len < best->len))
            continue;
        *best = m;
        found = 1;
    }
    return found;
}

static void disk_of(struct gw_live *l, const struct mount *m, struct gw_env_fs *f)
{
    char path[4096], real[4096];
    int64_t v;
    gw_live_path(l, path, sizeof path, "/sys/dev/block/%u:%u", m->major, m->minor);
    if (!realpath(path, real))
        return;
    const char *name = strrchr(real, '/');
    f->disk = gw_env_dup(l->env, name + 1, strlen(name + 1));
    if (gw_live_number(l, &v, "/sys/dev/block/%u:%u/queue/rotational", m->major, m->minor) == 0 ||
        gw_live_number(l, &v, "/sys/dev/block/%u:%u/../queue/rotational", m->major, m->minor) == 0)
        f->rotational = v != 0;
}

void gw_live_storage(struct gw_live *l)
{
    static const size_t cap = 1 << 20; /* a Kubernetes node has thousands of mounts */
    char *table = l->o->data_count ? malloc(cap) : NULL;
    if (!table)
        return;
    long n = gw_live_read(l, table, cap, "/proc/self/mountinfo");
    for (size_t i = 0; i < l->o->data_count; i++) {
        char real[4096];
        struct mount m = {.len = 0};
        struct statvfs st;
        const char *path = l->o->data[i];
        if (!*l->root && realpath(path, real)) {
            /* found below by its true place */
        } else if (*l->root && path[0] == '/') {
            snprintf(real, sizeof real, "%s", path);
        } else {
            gw_env_note(l->env, path, "not found, so nothing is known about its file system");
            continue;
        }
        if (n <= 0 || !find_mount(table, real, &m))
            continue;
        struct gw_env_fs *f = gw_env_add(l->env, GW_REC_FS);
        if (!f)
            break;
        f->path = gw_env_dup(l->env, path, strlen(path));
        f->mount = gw_env_dup(l->env, m.point, strlen(m.point));
        f->type = gw_env_dup(l->env, m.type, strlen(m.type));
        /* "//user:password@host/share": what stands before the @ is nobody's business */
        const char *at = strrchr(m.source, '@');
        f->source = gw_env_dup(l->env, at ? at + 1 : m.source, strlen(at ? at + 1 : m.source));
        disk_of(l, &m, f);
        if (!*l->root && statvfs(real, &st) == 0 && st.f_blocks) {
            f->bytes_total = (int64_t)(st.f_blocks * st.f_frsize);
            f->bytes_free = (int64_t)(st.f_bavail * st.f_frsize);
        }
    }
    free(table);
}
