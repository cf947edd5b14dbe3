/* proc_env.c - see proc_env.h */
#include "collect/proc/proc_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/envvars.h"
#include "collect/proc/proc_read.h"

enum { ENVIRON_BYTES = 256 * 1024 };

static char *read_environ(int proc_root, int pid, long *len)
{
    char path[40], *buf = malloc(ENVIRON_BYTES);
    snprintf(path, sizeof path, "%d/environ", pid);
    *len = buf ? gw_proc_text(proc_root, path, buf, ENVIRON_BYTES) : -12;
    if (*len < 0) {
        free(buf);
        return NULL;
    }
    return buf;
}

struct facts {
    struct gw_sink *sink;
    int pid;
};

static void put_fact(void *user, const struct gw_envvar_info *info, const char *value)
{
    const struct facts *f = user;
    char key[160];
    snprintf(key, sizeof key, "env.%d.%s", f->pid, info->name);
    gw_sink_fact(f->sink, key, value);
}

int gw_proc_env_facts(int proc_root, int pid, struct gw_sink *sink)
{
    long len;
    char *buf = read_environ(proc_root, pid, &len);
    if (!buf)
        return (int)len;
    struct facts f = {sink, pid};
    gw_sink_factf(sink, "env_of", "%d", pid);
    gw_envvars_scan(buf, (size_t)len, put_fact, &f);
    free(buf);
    return 0;
}

int gw_proc_env_value(int proc_root, int pid, const char *name, char *out, size_t cap)
{
    long len;
    size_t n = strlen(name);
    char *buf = read_environ(proc_root, pid, &len);
    int found = 0;
    for (const char *p = buf; p && p < buf + len && !found; p += strlen(p) + 1)
        if (strncmp(p, name, n) == 0 && p[n] == '=') {
            snprintf(out, cap, "%s", p + n + 1);
            found = 1;
        }
    free(buf);
    return found;
}
