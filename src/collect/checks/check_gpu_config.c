/* How the GPUs are set up and whether they are well: presence, health, sharing, persistence, MIG, ECC, modes. */
#include <math.h>
#include <string.h>

#include "collect/checks/check_run.h"

#define BAR1_FULL 0.95
#define SHARED_BYTES ((int64_t)64 << 20) /* memory that is used with no process in sight: more than the driver's own \
                                          */

void gw_check_on_gpus(struct gw_check_run *r)
{
    const struct gw_env *env = r->env;
    size_t n = env->gpus.len;
    int64_t on_bus = gw_env_get(env, GW_HOST_PCI_GPUS), attached = gw_env_get(env, GW_HOST_GPUS_ATTACHED);
    const char *text = "", *first = NULL;
    int kinds = 0;
    for (size_t i = 0; i < n; i++) {
        const char *name = gw_known(gw_env_gpu_at(env, i)->name, "GPU");
        if (first && strcmp(first, name) == 0)
            continue;
        first = name;
        size_t count = 0;
        for (size_t k = 0; k < n; k++)
            count += strcmp(gw_known(gw_env_gpu_at(env, k)->name, "GPU"), name) == 0;
        if (kinds++ < 4)
            text = gw_check_text(r, "%s%s%zu x %s", text, *text ? ", " : "", count, name);
    }
    if (!n) {
        if (on_bus > 0)
            gw_check_say(r, GW_CHECK_BAD, _("%lld on the bus, none that can be used"), (long long)on_bus);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const struct gw_gpu *g = gw_env_gpu_at(env, i);
        int64_t mem = gw_gpu_get(g, GW_GPU_MEM_TOTAL);
        if (mem != GW_ENV_NONE && i < 8)
            gw_check_evidence(r, (double)mem, "bytes", gw_check_source(r), "GPU %lld: %s, %s", (long long)g->index,
                              gw_known(g->name, "GPU"), gw_check_bytes(r, mem));
    }
    if (env->live && on_bus > (int64_t)n && !gw_env_str(env, GW_HSTR_CONTAINER)) {
        gw_check_say(r, GW_CHECK_BAD, _("%s; the PCI bus has %lld"), text, (long long)on_bus);
        gw_check_fix(r,
                     _("a GPU is missing from the driver: look for Xid and \"fallen off the bus\" in dmesg, then reset "
                       "or reboot"),
                     "nvidia-smi -L; sudo dmesg | grep -i -e NVRM -e Xid", "");
    } else if (!env->live && attached > (int64_t)n) {
        gw_check_say(r, GW_CHECK_LOOK, _("%s; the capture speaks of %lld"), text, (long long)attached);
    } else if (kinds > 1) {
        gw_check_say(r, GW_CHECK_LOOK, _("%s"), text);
        gw_check_expect(r, "one kind");
        gw_check_fix(
            r, _("a job that spans both kinds runs at the pace of the slower: CUDA_VISIBLE_DEVICES picks one kind"),
            "nvidia-smi -L", "");
    } else {
        gw_check_say(r, GW_CHECK_GOOD, "%s", text);
    }
}

void gw_check_on_health(struct gw_check_run *r)
{
    struct gw_check_group g = {.r = r};
    for (size_t i = 0; i < r->env->gpus.len; i++) {
        const struct gw_gpu *gpu = gw_env_gpu_at(r->env, i);
        int64_t action = gw_gpu_get(gpu, GW_GPU_RECOVERY), fabric = gw_gpu_get(gpu, GW_GPU_FABRIC);
        if (action > 0)
            gw_group_add(&g, i, GW_CHECK_BAD, _("the driver asks for a reset or a reboot"));
        else if (fabric == 1 || fabric == 2)
            gw_group_add(&g, i, GW_CHECK_BAD, _("the NVLink fabric is not ready: CUDA will not start"));
        else if (action == 0 || fabric == 3)
            gw_group_add(&g, i, GW_CHECK_GOOD, _("no recovery asked for%s"), fabric == 3 ? _(", fabric ready") : "");
    }
    if (gw_group_say(&g) == GW_CHECK_BAD)
        gw_check_fix(r,
                     _("reset the GPU (sudo nvidia-smi --gpu-reset -i N) or reboot; for the fabric: systemctl status "
                       "nvidia-fabricmanager"),
                     "nvidia-smi -q | grep -A3 -e 'Recovery Action' -e Fabric", _("jobs on the GPU end"));
}

/* --- others on the GPU ------------------------------------------------------------------------------------------- */

static void count_processes(struct gw_check_run *r, const struct gw_gpu *gpu, int *compute, int *hidden,
                            const char **who)
{
    *compute = *hidden = 0;
    *who = "";
    for (size_t k = 0; k < gw_env_count(r->env, GW_REC_PROC); k++) {
        const struct gw_env_proc *p = gw_env_at(r->env, GW_REC_PROC, k);
        if (p->gpu != gpu->index || p->compute != 1 || p->ours == 1)
            continue;
        (*compute)++;
        *hidden += p->resolved == 0;
        const char *base = strrchr(gw_known(p->name, "?"), '/');
        base = base ? base + 1 : gw_known(p->name, "?");
        if (*compute <= 3)
            *who = gw_check_text(r, "%s%s%.40s %lld%s%s", *who, **who ? ", " : "", base, (long long)p->pid,
                                 p->bytes > 0 ? " " : "", p->bytes > 0 ? gw_check_bytes(r, p->bytes) : "");
    }
    if (*compute > 3)
        *who = gw_check_text(r, "%s, ...", *who);
}

static int mig_on(const struct gw_gpu *gpu) { return gw_gpu_get(gpu, GW_GPU_MIG) == 1; }

void gw_check_on_shared(struct gw_check_run *r)
{
    struct gw_check_group g = {.r = r};
    for (size_t i = 0; i < r->env->gpus.len; i++) {
        const struct gw_gpu *gpu = gw_env_gpu_at(r->env, i);
        int64_t used = r->states[i].last[GW_GPU_MEM_USED];
        int compute, hidden;
        const char *who;
        count_processes(r, gpu, &compute, &hidden, &who);
        if (compute > 1)
            gw_group_add(&g, i, GW_CHECK_LOOK, _("%d compute processes: %s"), compute, who);
        else if (compute == 1)
            /* One process may be the very job that is asked about. */
            gw_group_add(&g, i, GW_CHECK_GOOD, _("one compute process: %s"), who);
        else if (used == GW_ENV_NONE)
            continue;
        else if (r->env->live && used > (mig_on(gpu) ? 16 : 1) * SHARED_BYTES &&
                 gw_env_get(r->env, GW_HOST_PID_NAMESPACE) == 1)
            gw_group_add(&g, i, GW_CHECK_LOOK, _("%s in use by processes that cannot be seen from this container"),
                         gw_check_bytes(r, used));
        else if (r->states[i].loaded && r->env->live)
            gw_group_add(&g, i, GW_CHECK_LOOK, _("busy, but no process can be seen"));
        else if (gw_env_count(r->env, GW_REC_PROC) || r->env->live || used < SHARED_BYTES)
            gw_group_add(&g, i, GW_CHECK_GOOD, _("no compute process, %s in use"), gw_check_bytes(r, used));
        if (compute > 0)
            gw_check_evidence(r, compute, "count", gw_check_source(r), "GPU %lld: %d compute processes",
                              (long long)gpu->index, compute);
    }
    if (gw_group_say(&g) == GW_CHECK_LOOK) {
        gw_check_expect(r, "one compute process on a GPU");
        gw_check_fix(r,
                     _("processes on one GPU take turns (time slices): move one away with CUDA_VISIBLE_DEVICES, or "
                       "share with MPS or MIG.\n"
                       "All ranks on GPU 0? Set the device of each rank: torch.cuda.set_device(local_rank)"),
                     "nvidia-smi pmon -c 5", "");
    }
}

void gw_check_on_persistence(struct gw_check_run *r)
{
    struct gw_check_group g = {.r = r};
    for (size_t i = 0; i < r->env->gpus.len; i++) {
        const struct gw_gpu *gpu = gw_env_gpu_at(r->env, i);
        int64_t on = gw_gpu_get(gpu, GW_GPU_PERSISTENCE), display = gw_gpu_get(gpu, GW_GPU_DISPLAY_ACTIVE);
        int graphics = 0; /* a display server keeps the driver loaded as persistence mode does */
        for (size_t k = 0; k < gw_env_count(r->env, GW_REC_PROC); k++) {
            const struct gw_env_proc *p = gw_env_at(r->env, GW_REC_PROC, k);
            graphics |= p->gpu == gpu->index && p->compute == 0;
        }
        if (on == 1)
            gw_group_add(&g, i, GW_CHECK_GOOD, _("on"));
        else if (on == 0 && (display == 1 || graphics))
            gw_group_add(&g, i, GW_CHECK_GOOD, _("off, but a display keeps the driver loaded"));
        else if (on == 0 && gw_env_get(r->env, GW_HOST_WSL) == 1)
            gw_group_add(&g, i, GW_CHECK_GOOD, _("off; Windows keeps the driver loaded"));
        else if (on == 0)
            gw_group_add(&g, i, GW_CHECK_LOOK, _("off"));
    }
    if (gw_group_say(&g) == GW_CHECK_LOOK) {
        gw_check_expect(r, "on");
        gw_check_fix(r, "sudo systemctl enable --now nvidia-persistenced   # or: sudo nvidia-smi -pm 1",
                     _("the first CUDA call of a process gets faster; steady speed does not change"), "");
    }
}

void gw_check_on_mig(struct gw_check_run *r)
{
    struct gw_check_group g = {.r = r};
    for (size_t i = 0; i < r->env->gpus.len; i++) {
        const struct gw_gpu *gpu = gw_env_gpu_at(r->env, i);
        int64_t on = gw_gpu_get(gpu, GW_GPU_MIG), pending = gw_gpu_get(gpu, GW_GPU_MIG_PENDING), largest = GW_ENV_NONE;
        size_t count = 0;
        for (size_t k = 0; k < gw_env_count(r->env, GW_REC_MIG); k++) {
            const struct gw_env_mig *m = gw_env_at(r->env, GW_REC_MIG, k);
            if (m->gpu != gpu->index)
                continue;
            count++;
            largest = m->bytes > largest ? m->bytes : largest;
        }
        if (on == GW_ENV_NONE)
            continue;
        if (pending != GW_ENV_NONE && pending != on)
            gw_group_add(&g, i, GW_CHECK_LOOK, _("a change waits for a reset of the GPU"));
        else if (on == 0)
            gw_group_add(&g, i, GW_CHECK_GOOD, _("off"));
        else if (count)
            gw_group_add(&g, i, GW_CHECK_LOOK, _("on, %zu instances; one job gets one of them, at most %s"), count,
                         gw_check_bytes(r, largest));
        else
            gw_group_add(&g, i, GW_CHECK_LOOK, _("on; no instance can be seen, so a job may find no GPU"));
    }
    if (gw_group_say(&g) == GW_CHECK_LOOK) {
        gw_check_expect(r, "off, unless the GPU is shared on purpose");
        gw_check_fix(r,
                     _("a job that needs the whole GPU needs MIG off: sudo nvidia-smi -mig 0. GPU-Util is not "
                       "available under MIG; use "
                       "the SM and tensor activity of gpuwhy run"),
                     "nvidia-smi -L", _("ends every job on that GPU"));
    }
}

void gw_check_on_ecc(struct gw_check_run *r)
{
    struct gw_check_group g = {.r = r};
    for (size_t i = 0; i < r->env->gpus.len; i++) {
        const struct gw_gpu *gpu = gw_env_gpu_at(r->env, i);
        static const enum gw_gpu_metric unc[] = {GW_GPU_ECC_UNC_DRAM, GW_GPU_ECC_UNC_SRAM, GW_GPU_ECC_UNC_PARITY};
        int64_t errors = 0, mode = gw_gpu_get(gpu, GW_GPU_ECC), pending = gw_gpu_get(gpu, GW_GPU_ECC_PENDING);
        int known = 0;
        for (size_t k = 0; k < 3; k++)
            if (gw_gpu_has(gpu, unc[k])) {
                known = 1;
                errors += gw_gpu_get(gpu, unc[k]);
            }
        int64_t remapped = gw_gpu_get(gpu, GW_GPU_REMAP_UNC);
        if (gw_gpu_get(gpu, GW_GPU_REMAP_FAILURE) == 1)
            gw_group_add(&g, i, GW_CHECK_BAD, _("a row of memory could not be remapped: replace the GPU"));
        else if (gw_gpu_get(gpu, GW_GPU_REMAP_PENDING) == 1 || gw_gpu_get(gpu, GW_GPU_RETIRED_PENDING) == 1)
            gw_group_add(&g, i, GW_CHECK_BAD, _("damaged memory waits for a reset to be mapped out"));
        else if (errors > 0)
            gw_group_add(&g, i, GW_CHECK_BAD, _("%lld uncorrected errors since the last reset"), (long long)errors);
        else if (pending != GW_ENV_NONE && mode != GW_ENV_NONE && pending != mode)
            gw_group_add(&g, i, GW_CHECK_LOOK, _("a change of the ECC mode waits for a reset"));
        else if (mode == 1 && known)
            gw_group_add(&g, i, GW_CHECK_GOOD, _("none uncorrected%s"),
                         remapped > 0 ? gw_check_text(r, _(", %lld rows remapped before"), (long long)remapped) : "");
        else if (mode == 0)
            gw_group_add(&g, i, GW_CHECK_GOOD, _("ECC is off"));
    }
    if (gw_group_say(&g) >= GW_CHECK_LOOK)
        gw_check_fix(
            r, _("sudo nvidia-smi --gpu-reset -i N (or reboot) applies it; errors that come back mean a failing board"),
            "nvidia-smi -q -d ECC,ROW_REMAPPER", _("jobs on the GPU end"));
}

void gw_check_on_compute_mode(struct gw_check_run *r)
{
    struct gw_check_group g = {.r = r};
    for (size_t i = 0; i < r->env->gpus.len; i++) {
        int64_t mode = gw_gpu_get(gw_env_gpu_at(r->env, i), GW_GPU_COMPUTE_MODE);
        if (mode == 0)
            gw_group_add(&g, i, GW_CHECK_GOOD, _("default"));
        else if (mode == 2)
            gw_group_add(&g, i, GW_CHECK_BAD, _("prohibited: no job can use it"));
        else if (mode == 1 || mode == 3)
            gw_group_add(&g, i, GW_CHECK_LOOK, _("exclusive: a second process on it fails"));
    }
    if (gw_group_say(&g) >= GW_CHECK_LOOK) {
        gw_check_expect(r, "default");
        gw_check_fix(r, "sudo nvidia-smi -c 0", "nvidia-smi -q -d COMPUTE",
                     _("exclusive mode may be there on purpose (MPS)"));
    }
}

void gw_check_on_bar1(struct gw_check_run *r)
{
    struct gw_check_group g = {.r = r};
    for (size_t i = 0; i < r->env->gpus.len; i++) {
        const struct gw_gpu *gpu = gw_env_gpu_at(r->env, i);
        int64_t total = gw_gpu_get(gpu, GW_GPU_BAR1_TOTAL), used = gw_gpu_get(gpu, GW_GPU_BAR1_USED);
        if (total == GW_ENV_NONE || used == GW_ENV_NONE || total <= 0)
            continue;
        gw_group_add(&g, i, (double)used > BAR1_FULL * (double)total ? GW_CHECK_LOOK : GW_CHECK_GOOD,
                     _("%s, %.0f %% in use"), gw_check_bytes(r, total), 100.0 * (double)used / (double)total);
    }
    if (gw_group_say(&g) == GW_CHECK_LOOK)
        gw_check_fix(r,
                     _("peer and GPUDirect mappings fail when the window is full: fewer buffers, or a resizable BAR in "
                       "the BIOS"),
                     "nvidia-smi -q -d MEMORY", "");
}

void gw_check_on_profiling(struct gw_check_run *r)
{
    int64_t admin = gw_env_get(r->env, GW_HOST_PROFILING_ADMIN);
    if (admin == 0)
        gw_check_say(r, GW_CHECK_GOOD, _("open to every user"));
    if (admin != 1)
        return;
    gw_check_say(r, GW_CHECK_LOOK, _("for administrators only: ncu and PM sampling need root or CAP_SYS_ADMIN"));
    gw_check_fix(r,
                 _("echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee "
                   "/etc/modprobe.d/nvidia-prof.conf, then reboot. "
                   "Tracing (gpuwhy run) needs no permission"),
                 "grep RmProfilingAdminOnly /proc/driver/nvidia/params",
                 _("every user of the machine may read the counters"));
}
