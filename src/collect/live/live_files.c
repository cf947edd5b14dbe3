/* Small files of /proc and /sys under the root. */
#include <ctype.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/live/live.h"

GW_PRINTF(4, 0)
static const char *path_of(const struct gw_live *l, char *buf, size_t cap, const char *fmt, va_list ap)
{
    int n = snprintf(buf, cap, "%s", l->root);
    if (n >= 0 && (size_t)n < cap)
        vsnprintf(buf + n, cap - (size_t)n, fmt, ap);
    return buf;
}

const char *gw_live_path(const struct gw_live *l, char *buf, size_t cap, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    path_of(l, buf, cap, fmt, ap);
    va_end(ap);
    return buf;
}

static long read_all(const char *path, char *buf, size_t cap)
{
    size_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    buf[0] = '\0';
    if (fd < 0)
        return -1;
    while (n + 1 < cap) {
        ssize_t got = read(fd, buf + n, cap - 1 - n);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    close(fd);
    for (size_t i = 0; i < n; i++)
        if (buf[i] == '\0')
            buf[i] = ' ';
    while (n && (buf[n - 1] == '\n' || buf[n - 1] == ' '))
        n--;
    buf[n] = '\0';
    return (long)n;
}

long gw_live_read(const struct gw_live *l, char *buf, size_t cap, const char *fmt, ...)
{
    char path[4096];
    va_list ap;
    va_start(ap, fmt);
    path_of(l, path, sizeof path, fmt, ap);
    va_end(ap);
    return read_all(path, buf, cap);
}

int gw_live_number(const struct gw_live *l, int64_t *out, const char *fmt, ...)
{
    char path[4096], text[64], *end;
    va_list ap;
    va_start(ap, fmt);
    path_of(l, path, sizeof path, fmt, ap);
    va_end(ap);
    if (read_all(path, text, sizeof text) <= 0)
        return -1;
    long long v = strtoll(text, &end, 10);
    if (end == text)
        return -1;
    *out = v;
    return 0;
}

int gw_live_exists(const struct gw_live *l, const char *fmt, ...)
{
    char path[4096];
    va_list ap;
    va_start(ap, fmt);
    path_of(l, path, sizeof path, fmt, ap);
    va_end(ap);
    return access(path, F_OK) == 0;
}

int gw_live_is_ours(const struct gw_live *l, int64_t pid)
{
    char text[512];
    if (l->o->pid <= 0)
        return pid == getpid();
    for (int depth = 0; depth < 64 && pid > 1; depth++) { /* a process tree of 64 generations is none */
        if (pid == l->o->pid)
            return 1;
        if (gw_live_read(l, text, sizeof text, "/proc/%lld/stat", (long long)pid) <= 0)
            return 0;
        const char *p = strrchr(text, ')'); /* "pid (name) S ppid ..." */
        if (!p || strlen(p) < 5)
            return 0;
        pid = strtoll(p + 4, NULL, 10);
    }
    return 0;
}

const char *gw_live_line(const char *text, const char *key)
{
    size_t n = strlen(key);
    for (const char *p = text; p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
        if (strncmp(p, key, n) == 0) {
            p += n;
            while (*p == ' ' || *p == '\t' || *p == ':')
                p++;
            return p;
        }
    return NULL;
}

int64_t gw_live_number_after(const char *text, const char *key)
{
    const char *p = gw_live_line(text, key);
    char *end;
    if (!p || !(isdigit((unsigned char)*p) || *p == '-'))
        return GW_ENV_NONE;
    long long v = strtoll(p, &end, 10);
    return end == p ? GW_ENV_NONE : v;
}
