/* sweep_command.c - the command and the environment of a job at one point. See sweep_point.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/sweep_point.h"

enum { ENV_MAX = 64 };

/* Length of "{name}" at `p`, which is in `text`; 0 when it is none. "${name}" is a variable of the shell. */
static size_t is_place(const char *text, const char *p, const char *name)
{
    size_t n = strlen(name);
    return *p == '{' && (p == text || p[-1] != '$') && strncmp(p + 1, name, n) == 0 && p[1 + n] == '}' ? n + 2 : 0;
}

int gw_sweep_has_place(const char *text, const char *name)
{
    for (const char *p = text; *p; p++)
        if (is_place(text, p, name))
            return 1;
    return 0;
}

char *gw_sweep_fill(const char *text, const struct gw_sweep *s, size_t point)
{
    char *out = malloc(strlen(text) * GW_SWEEP_VALUE + 1); /* a place has at least three characters */
    size_t n = 0, skip;
    if (!out)
        return NULL;
    for (const char *p = text; *p; p += skip ? skip : 1) {
        size_t k = 0;
        for (skip = 0; k < s->knobs && !(skip = is_place(text, p, s->knob[k].name)); k++)
            ;
        if (skip) {
            const char *v = s->knob[k].value[gw_sweep_at(s, point, k)];
            memcpy(out + n, v, strlen(v));
            n += strlen(v);
        } else {
            out[n++] = *p;
        }
    }
    out[n] = 0;
    return out;
}

void gw_sweep_free_list(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        free(list[i]);
    free(list);
}

char **gw_sweep_argv(const struct gw_sweep_job *job, const struct gw_sweep *s, size_t point)
{
    size_t n = 0;
    while (job->command[n])
        n++;
    char **out = calloc(n + 1, sizeof *out);
    for (size_t i = 0; out && i < n; i++)
        if (!(out[i] = gw_sweep_fill(job->command[i], s, point))) {
            gw_sweep_free_list(out);
            return NULL;
        }
    return out;
}

static void add_env(char **env, const char *name, const char *value)
{
    size_t n = 0;
    char *text;
    while (env[n])
        n++;
    if (n < ENV_MAX && asprintf(&text, "%s=%s", name, value) > 0)
        env[n] = text;
}

/* The value that the user gives a variable with --env, as it stands there; NULL none. */
static const char *given(const struct gw_sweep_job *job, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = job->envs; i-- > 0;)
        if (strncmp(job->env[i], name, n) == 0 && job->env[i][n] == '=')
            return job->env[i] + n + 1;
    return NULL;
}

/* What the recorder sets. Where the user sets the same, the user's value holds: a path of Python's behind that of the hook. */
static void add_recorders(char **env, const struct gw_sweep_job *job, const char *name, const char *value)
{
    if (!given(job, name))
        add_env(env, name, value);
}

/* "PYTHONPATH=src" behind the hook's folder. */
static void add_users(char **env, const char *hook, const char *name, const char *value)
{
    char *text = NULL;
    if (hook && strcmp(name, "PYTHONPATH") == 0 &&
        asprintf(&text, "%.*s%s%s", (int)strcspn(hook, ":"), hook, *value ? ":" : "", value) > 0)
        add_env(env, name, text);
    else
        add_env(env, name, value);
    free(text);
}

char **gw_sweep_environment(const struct gw_sweep_job *job, const struct gw_session *rec, const struct gw_sweep *s,
                            size_t point)
{
    static const char *const setting[] = {"GPUWHY_LOADER_WORKERS", "GPUWHY_LOADER_PREFETCH", "GPUWHY_LOADER_PIN",
                                          "GPUWHY_LOADER_PERSISTENT"};
    const char *hook = NULL;
    char **env = calloc(ENV_MAX + 1, sizeof *env);
    if (!env)
        return NULL;
    for (size_t i = 0; rec->env[i]; i++) {
        char *eq = strchr(rec->env[i], '=');
        *eq = 0;
        if (strcmp(rec->env[i], "PYTHONPATH") == 0)
            hook = eq + 1;
        add_recorders(env, job, rec->env[i], eq + 1);
        *eq = '=';
    }
    add_recorders(env, job, "PYTHONUNBUFFERED", "1"); /* a step is seen when it happens */
    for (size_t i = 0; i < job->envs; i++) {
        char *text = gw_sweep_fill(job->env[i], s, point), *eq = text ? strchr(text, '=') : NULL;
        if (eq) {
            *eq = 0;
            add_users(env, hook, text, eq + 1);
        }
        free(text);
    }
    if (job->source == GW_SWEEP_BY_AUTO || job->source == GW_SWEEP_BY_LOADER)
        add_env(env, "GPUWHY_LOADER_MARKS", "1");
    for (size_t k = 0; k < s->knobs; k++)
        if (job->loader_setting[k] >= 0)
            add_env(env, setting[job->loader_setting[k]], s->knob[k].value[gw_sweep_at(s, point, k)]);
    if (job->alone)
        add_env(env, "GPUWHY_LOADER_ALONE", job->alone);
    return env;
}
