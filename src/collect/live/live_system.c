/* Kernel, container, WSL, driver modules, battery, environment variables. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "collect/envvars.h"
#include "collect/live/live.h"

static void release(struct gw_live *l)
{
    char text[4096];
    if (gw_live_read(l, text, sizeof text, "/proc/sys/kernel/osrelease") > 0) {
        gw_env_set_str(l->env, GW_HSTR_KERNEL, text, strlen(text));
        gw_env_set(l->env, GW_HOST_WSL, strcasestr(text, "microsoft") != NULL);
    }
    if (gw_live_read(l, text, sizeof text, "/etc/os-release") > 0) {
        const char *p = gw_live_line(text, "PRETTY_NAME=");
        if (p && *p == '"')
            gw_env_set_str(l->env, GW_HSTR_OS, p + 1, strcspn(p + 1, "\"\n"));
    }
}

/* The first PID namespace of a kernel always has this inode (PROC_PID_INIT_INO, include/linux/proc_ns.h). */
#define FIRST_PID_NAMESPACE "pid:[4026531836]"

static void pid_namespace(struct gw_live *l)
{
    char path[4096], target[64];
    ssize_t n = readlink(gw_live_path(l, path, sizeof path, "/proc/self/ns/pid"), target, sizeof target - 1);
    if (n <= 0)
        return;
    target[n] = '\0';
    gw_env_set(l->env, GW_HOST_PID_NAMESPACE, strcmp(target, FIRST_PID_NAMESPACE) != 0);
}

static void container(struct gw_live *l)
{
    char text[8192];
    const char *kind = NULL;
    if (gw_live_exists(l, "/var/run/secrets/kubernetes.io"))
        kind = "Kubernetes";
    else if (gw_live_exists(l, "/.dockerenv"))
        kind = "Docker";
    else if (gw_live_exists(l, "/run/.containerenv"))
        kind = "Podman";
    else if (gw_live_exists(l, "/singularity") || gw_live_exists(l, "/.singularity.d"))
        kind = "Apptainer";
    else if (gw_live_read(l, text, sizeof text, "/proc/1/cgroup") > 0)
        kind = strstr(text, "kubepods") ? "Kubernetes"
               : strstr(text, "docker") ? "Docker"
               : strstr(text, "lxc")    ? "LXC"
                                        : NULL;
    if (kind)
        gw_env_set_str(l->env, GW_HSTR_CONTAINER, kind, strlen(kind));
}

/* "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (...)" */
static void modules(struct gw_live *l)
{
    char text[32768];
    if (gw_live_read(l, text, sizeof text, "/proc/driver/nvidia/version") > 0) {
        for (const char *p = strstr(text, "Module"); p && *p && *p != '\n';
             p += strcspn(p, " \n"), p += strspn(p, " ")) {
            size_t digits = strspn(p, "0123456789.");
            if (digits >= 6 && p[3] == '.' && (p[digits] == ' ' || p[digits] == '\n')) {
                gw_env_set_str(l->env, GW_HSTR_KMOD, p, digits);
                break;
            }
        }
    }
    if (gw_live_read(l, text, sizeof text, "/proc/driver/nvidia/params") > 0) {
        int64_t v = gw_live_number_after(text, "RmProfilingAdminOnly");
        if (v == GW_ENV_NONE)
            v = gw_live_number_after(text, "RestrictProfilingToAdminUsers");
        if (v != GW_ENV_NONE)
            gw_env_set(l->env, GW_HOST_PROFILING_ADMIN, v != 0);
    }
    if (gw_live_exists(l, "/proc/modules"))
        gw_env_set(l->env, GW_HOST_PEERMEM, gw_live_exists(l, "/sys/module/nvidia_peermem"));
}

static void battery(struct gw_live *l)
{
    char path[4096], type[32], text[64];
    struct dirent *e;
    int64_t v, mains = -1, pct = -1;
    int discharging = 0, has_battery = 0;
    DIR *d = opendir(gw_live_path(l, path, sizeof path, "/sys/class/power_supply"));
    while (d && (e = readdir(d))) {
        if (e->d_name[0] == '.' ||
            gw_live_read(l, type, sizeof type, "/sys/class/power_supply/%s/type", e->d_name) <= 0)
            continue;
        if (strcmp(type, "Mains") == 0 && gw_live_number(l, &v, "/sys/class/power_supply/%s/online", e->d_name) == 0)
            mains = mains == 1 ? 1 : v;
        /* scope "Device" is a mouse or a headset */
        if (strcmp(type, "Battery") == 0 &&
            !(gw_live_read(l, text, sizeof text, "/sys/class/power_supply/%s/scope", e->d_name) > 0 &&
              strcmp(text, "Device") == 0)) {
            has_battery = 1;
            if (gw_live_read(l, text, sizeof text, "/sys/class/power_supply/%s/status", e->d_name) > 0)
                discharging |= strcmp(text, "Discharging") == 0;
            if (gw_live_number(l, &v, "/sys/class/power_supply/%s/capacity", e->d_name) == 0)
                pct = v;
        }
    }
    if (d)
        closedir(d);
    if (has_battery) {
        gw_env_set(l->env, GW_HOST_ON_BATTERY, discharging && mains != 1);
        if (pct >= 0)
            gw_env_set(l->env, GW_HOST_BATTERY_PCT, pct);
    }
    if (gw_live_number(l, &v, "/sys/class/dmi/id/chassis_type") == 0) /* SMBIOS: 8 to 10, 14, 31, 32 are portable */
        gw_env_set(l->env, GW_HOST_LAPTOP, (v >= 8 && v <= 10) || v == 14 || v == 31 || v == 32);
    if (gw_live_read(l, text, sizeof text, "/sys/firmware/acpi/platform_profile") > 0)
        gw_env_set_str(l->env, GW_HSTR_PLATFORM_PROFILE, text, strlen(text));
}

void gw_live_system(struct gw_live *l)
{
    release(l);
    container(l);
    pid_namespace(l);
    modules(l);
    battery(l);
}

static void add_variable(void *user, const struct gw_envvar_info *info, const char *value)
{
    struct gw_env *env = user;
    struct gw_env_var *v = gw_env_add(env, GW_REC_VAR);
    if (v) {
        v->name = info->name;
        v->value = gw_env_dup(env, value, strnlen(value, 200));
    }
}

/* The environment that another process was started with. */
static void environ_of(struct gw_live *l)
{
    enum { BYTES = 256 * 1024 };
    char path[4096], *buf = malloc(BYTES);
    FILE *f = buf ? fopen(gw_live_path(l, path, sizeof path, "/proc/%s/environ", l->self), "re") : NULL;
    if (f) {
        size_t n = fread(buf, 1, BYTES - 1, f);
        buf[n] = '\0';
        gw_envvars_scan(buf, n, add_variable, l->env);
        fclose(f);
    } else {
        gw_env_note(l->env, "environment", "the job's variables could not be read");
    }
    free(buf);
}

/* Only the names of envvars.def, and no more than 200 bytes of a value. */
void gw_live_environ(struct gw_live *l)
{
    const struct gw_envvar_info *info;
    if (l->o->pid > 0) {
        environ_of(l);
        return;
    }
    for (size_t i = 0; (info = gw_envvar_info(i)); i++) {
        const char *value = getenv(info->name);
        if (value)
            add_variable(l->env, info, value);
    }
}
