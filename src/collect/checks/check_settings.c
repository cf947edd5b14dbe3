/* Environment variables, threads, containers and WSL. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "collect/checks/check_run.h"
#include "collect/envvars.h"

/* The environment was looked at: an empty list then means "nothing set". */
static int environment_known(const struct gw_env *env) { return env->live || gw_env_has(env, GW_HOST_SAMPLE_MS); }

static int says_no(const char *v)
{
    static const char *const no[] = {"0", "false", "off", "no", "n", "f"};
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        if (strcasecmp(v, no[i]) == 0)
            return 1;
    return 0;
}

static int applies(const struct gw_envvar_info *info, const char *v)
{
    switch (info->rule) {
    case GW_VAR_TRUE: return *v && !says_no(v);
    case GW_VAR_FALSE: return says_no(v);
    case GW_VAR_SET: return *v != '\0';
    case GW_VAR_DEVS:
        return *v == '\0' || strcmp(v, "-1") == 0 || strcasecmp(v, "NoDevFiles") == 0 || strcasecmp(v, "none") == 0;
    case GW_VAR_LEVEL: return strcasecmp(v, "TRACE") == 0 || strcasecmp(v, "INFO") == 0;
    case GW_VAR_DETAIL: return strcasecmp(v, "DETAIL") == 0;
    case GW_VAR_NUM:
    case GW_VAR_SHOW: break;
    }
    return 0;
}

void gw_check_on_variables(struct gw_check_run *r)
{
    enum gw_check_status worst = GW_CHECK_GOOD;
    const char *text = "", *shown = "", *finding = NULL;
    size_t n = gw_env_count(r->env, GW_REC_VAR), set = 0;
    if (!n && !environment_known(r->env))
        return;
    for (size_t i = 0; i < n; i++) {
        const struct gw_env_var *v = gw_env_at(r->env, GW_REC_VAR, i);
        const struct gw_envvar_info *info = v->name ? gw_envvar_find(v->name) : NULL;
        const char *value = gw_known(v->value, "");
        if (!info)
            continue;
        if (applies(info, value)) {
            int bad = strcmp(info->finding, "debug-mode") == 0 || info->rule == GW_VAR_DEVS;
            enum gw_check_status s = bad ? GW_CHECK_BAD : GW_CHECK_LOOK;
            text = gw_check_text(r, "%s%s%s=%.40s: %s", text, *text ? "; " : "", info->name, value, _(info->text));
            gw_check_evidence(r, NAN, "1", "environment", "%s=%.40s", info->name, value);
            if (*info->finding && (!finding || s > worst))
                finding = info->finding;
            worst = s > worst ? s : worst;
        } else if (set++ < 6) {
            shown = gw_check_text(r, "%s%s%s=%.24s", shown, *shown ? ", " : "", info->name, value);
        }
    }
    gw_check_finding(r, finding ? finding : "");
    if (worst == GW_CHECK_GOOD) {
        gw_check_say(r, GW_CHECK_GOOD, *shown ? _("nothing that slows down (%s)") : _("nothing that slows down is set"),
                     shown);
        return;
    }
    gw_check_say(r, worst, "%s", text);
    gw_check_expect(r, "unset for a timed run");
    gw_check_fix(r, _("unset them, also in job scripts, Dockerfiles and ~/.bashrc"),
                 "env | grep -e CUDA -e NCCL -e TORCH -e PYTHON", "");
}

void gw_check_on_threads(struct gw_check_run *r)
{
    const char *omp = gw_env_var_value(r->env, "OMP_NUM_THREADS");
    int64_t allowed = gw_env_get(r->env, GW_HOST_ALLOWED), quota = gw_env_get(r->env, GW_HOST_QUOTA_MCPU);
    if (allowed == GW_ENV_NONE || !environment_known(r->env))
        return;
    double cpus = quota > 0 && (double)quota / 1000 < (double)allowed ? (double)quota / 1000 : (double)allowed;
    long n = omp ? strtol(omp, NULL, 10) : 0;
    const char *local = gw_env_var_value(r->env, "LOCAL_WORLD_SIZE");
    long ranks = local ? strtol(local, NULL, 10) : 1;
    if (omp && n > 0 && (double)n * (double)(ranks > 0 ? ranks : 1) > 1.5 * cpus)
        gw_check_say(r, GW_CHECK_LOOK, _("OMP_NUM_THREADS=%ld%s on %.3g CPUs"), n,
                     ranks > 1 ? gw_check_text(r, _(" in each of %ld ranks"), ranks) : "", cpus);
    else if (!omp && quota > 0 && (double)quota / 1000 < 0.5 * (double)allowed)
        gw_check_say(r, GW_CHECK_LOOK,
                     _("OMP_NUM_THREADS is unset: libraries start %lld threads on a quota of %.3g CPUs"),
                     (long long)allowed, (double)quota / 1000);
    else if (omp)
        gw_check_say(r, GW_CHECK_GOOD, _("OMP_NUM_THREADS=%.20s on %.3g CPUs"), omp, cpus);
    else
        gw_check_say(r, GW_CHECK_GOOD, _("OMP_NUM_THREADS is unset: one thread for each of %.3g CPUs"), cpus);
    if (r->now->status == GW_CHECK_LOOK) {
        gw_check_expect(r, "threads x ranks at most the CPUs");
        gw_check_fix(r,
                     _("export OMP_NUM_THREADS=N with N = CPUs / ranks; loader workers are set to one thread by "
                       "PyTorch, OpenCV needs "
                       "cv2.setNumThreads(0)"),
                     "OMP_DISPLAY_ENV=true python -c 'import torch'", "");
    }
}

void gw_check_on_container(struct gw_check_run *r)
{
    const char *kind = gw_env_str(r->env, GW_HSTR_CONTAINER);
    if (gw_env_get(r->env, GW_HOST_WSL) == 1) {
        gw_check_say(r, GW_CHECK_LOOK, _("Windows Subsystem for Linux"));
        gw_check_expect(r, "data inside the Linux file system");
        gw_check_fix(r,
                     _("keep data and code under / and not under /mnt/c; NVML tells less here, pinned memory is "
                       "limited, and CUPTI needs the "
                       "developer setting of the Windows driver"),
                     "df -T .", "");
    } else if (kind) {
        gw_check_say(r, GW_CHECK_GOOD, _("%s%s"), kind,
                     gw_env_get(r->env, GW_HOST_PID_NAMESPACE) == 1 ? _("; processes of others cannot be seen") : "");
    } else if (r->env->live) {
        gw_check_say(r, GW_CHECK_GOOD, _("none%s"),
                     gw_env_get(r->env, GW_HOST_VIRTUAL) == 1 ? _(" (a virtual machine)") : "");
    }
}
