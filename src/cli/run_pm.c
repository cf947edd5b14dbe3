/* run_pm.c - see run_pm.h */
#include "cli/run_pm.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "record/record_read.h"

enum { MAX_GPUS = 64, PIDS = 64 };
/* Seconds after CUDA was first seen in the job: until then its GPUs are looked for every second, later every fifth (ranks may
 * start late); from WEAK on weaker signs are taken. */
enum { LOOK_OFTEN = 30, LOOK_EVERY = 5, WEAK = 3, GIVE_UP = 60 };

void gw_run_pm_begin(struct gw_run_pm *p, int dir)
{
    memset(p, 0, sizeof *p);
    p->pm = gw_pm_create();
    if (p->pm && gw_pm_start(p->pm, dir) < 0) {
        gw_pm_destroy(p->pm);
        p->pm = NULL;
    }
}

/* --- which GPUs ------------------------------------------------------------------------------------------------------------ */

static const struct gw_tree_process *cuda_process(const struct gw_tree *t)
{
    const struct gw_tree_process *p;
    for (size_t i = 0; t && (p = gw_tree_process(t, i)); i++)
        if (p->alive && (p->flags & GW_PF_CUDA) && !(p->flags & GW_PF_FORKED))
            return p;
    return NULL;
}

static int is_ours(const struct gw_tree *t, uint32_t pid)
{
    const struct gw_tree_process *p;
    for (size_t i = 0; (p = gw_tree_process(t, i)); i++)
        if ((uint32_t)p->pid == pid)
            return 1;
    return 0;
}

static void add(struct gw_run_pm *p, const struct gw_run_pm_view *v, unsigned i)
{
    char text[100];
    uint8_t uuid[16];
    if (gw_nvml_uuid(v->nvml, i, text, sizeof text) == 0 && gw_pm_parse_uuid(text, uuid) == 0)
        gw_pm_add(p->pm, (int32_t)i, uuid);
}

/* GPUs on which the driver lists a process of the job. */
static void add_listed(struct gw_run_pm *p, const struct gw_run_pm_view *v)
{
    for (unsigned i = 0; i < gw_nvml_devices(v->nvml); i++) {
        uint32_t pids[PIDS];
        size_t n = gw_nvml_pids(v->nvml, i, pids, PIDS);
        for (size_t k = 0; k < n; k++)
            if (is_ours(v->tree, pids[k])) {
                add(p, v, i);
                break;
            }
    }
}

struct seen {
    size_t n;
    uint8_t uuid[MAX_GPUS][16];
};

static void see_file(struct seen *s, const char *path)
{
    struct gw_reader r;
    struct gw_chunk c;
    if (gw_reader_open(&r, path, NULL) < 0)
        return;
    for (int first = 64; first > 0 && gw_reader_next(&r, &c); first--) /* they stand at the start of the file */
        for (uint32_t i = 0; c.type == GW_RT_DEVICE && i < c.count && s->n < MAX_GPUS; i++) {
            struct gw_rec_device d;
            gw_chunk_get(&c, i, &d, sizeof d);
            memcpy(s->uuid[s->n++], d.uuid, 16);
        }
    gw_reader_close(&r);
}

/* GPUs that CUDA shows to the job, as our library inside it says. */
static void see_visible(struct seen *s, int dir)
{
    s->n = 0;
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d && fd >= 0)
        close(fd);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[64 + 256];
        if (strncmp(e->d_name, "cuda-", 5) != 0)
            continue;
        snprintf(path, sizeof path, "/proc/self/fd/%d/%s", dir, e->d_name);
        see_file(s, path);
    }
    if (d)
        closedir(d);
}

static int is_visible(const struct seen *s, const char *text)
{
    uint8_t uuid[16];
    if (!s->n)
        return 1; /* not known: all may be */
    if (gw_pm_parse_uuid(text, uuid) != 0)
        return 0;
    for (size_t i = 0; i < s->n; i++)
        if (memcmp(s->uuid[i], uuid, 16) == 0)
            return 1;
    return 0;
}

/* In a container the driver's process numbers are the host's. Of the GPUs that the job can see: the only one, or those that are
 * in use. */
static void add_probable(struct gw_run_pm *p, const struct gw_run_pm_view *v)
{
    struct seen s;
    char text[100];
    unsigned may[MAX_GPUS], n = 0;
    see_visible(&s, v->dir);
    for (unsigned i = 0; i < gw_nvml_devices(v->nvml) && n < MAX_GPUS; i++)
        if (gw_nvml_uuid(v->nvml, i, text, sizeof text) == 0 && is_visible(&s, text))
            may[n++] = i;
    for (unsigned k = 0; k < n; k++) {
        uint32_t pid;
        if (n == 1 || gw_nvml_pids(v->nvml, may[k], &pid, 1) || gw_nvml_device_utilization(v->nvml, may[k]) > 0)
            add(p, v, may[k]);
    }
    if (!gw_nvml_devices(v->nvml) && s.n == 1) /* without NVML */
        gw_pm_add(p->pm, 0, s.uuid[0]);
}

static void hint(struct gw_run_pm *p, const struct gw_run_pm_view *v, int pid)
{
    struct gw_pm_hints h;
    const char *cupti = getenv("GPUWHY_CUPTI"), *cuda = getenv("GPUWHY_LIBCUDA");
    memset(&h, 0, sizeof h);
    if (cupti)
        snprintf(h.cupti, sizeof h.cupti, "%s", cupti);
    if (cuda)
        snprintf(h.cuda, sizeof h.cuda, "%s", cuda);
    if (!gw_proc_maps_path(v->proc, pid, "/libcupti.so", h.near, sizeof h.near))
        (void)gw_proc_maps_path(v->proc, pid, "/libcudart", h.near, sizeof h.near);
    gw_pm_hint(p->pm, &h);
}

static void find_gpus(struct gw_run_pm *p, const struct gw_run_pm_view *v)
{
    const struct gw_tree_process *c = cuda_process(v->tree);
    if (!c)
        return;
    p->looks++;
    if (p->looks > LOOK_OFTEN && p->looks % LOOK_EVERY != 0)
        return;
    unsigned before = gw_pm_wanted(p->pm);
    if (!before)
        hint(p, v, c->pid);
    add_listed(p, v);
    /* The driver's library is mapped long before it is used: a device held open says that CUDA has started. */
    if (!gw_pm_wanted(p->pm) && p->looks >= WEAK && gw_proc_holds_file(v->proc, c->pid, "/dev/nvidia-uvm"))
        add_probable(p, v);
    unsigned now = gw_pm_wanted(p->pm);
    if (now && !before)
        gw_sink_factf(v->sink, "pm.pid", "%d", gw_pm_pid(p->pm));
    if (!now && p->looks >= GIVE_UP && gw_proc_holds_file(v->proc, c->pid, "/dev/nvidia-uvm"))
        p->gives_up = 1;
}

/* --- what is said ------------------------------------------------------------------------------------------------------------ */

static unsigned state_of(const struct gw_run_pm *p) { return p->gives_up ? GW_PS_UNKNOWN_GPU : gw_pm_state(p->pm); }

static int is_good(unsigned state) { return state == GW_PS_OFF || state == GW_PS_STARTING || state == GW_PS_RUNNING || state == GW_PS_ENDED; }

static void say(struct gw_run_pm *p, const struct gw_run_pm_view *v)
{
    unsigned state = state_of(p);
    if (is_good(state) || state == p->said)
        return;
    p->said = state;
    gw_sink_fact(v->sink, "pm.state", gw_pm_state_id(state));
    if (v->quiet)
        return;
    gw_status_clear(v->status);
    gw_cli_error(_("no hardware counters over the whole run: %s. NVML is used instead"), _(gw_pm_state_text(state)));
}

void gw_run_pm_tick(struct gw_run_pm *p, const struct gw_run_pm_view *v)
{
    if (!p->pm)
        return;
    gw_pm_poll(p->pm);
    gw_nvml_ignore(v->nvml, gw_pm_pid(p->pm)); /* it is nobody else's work on the GPU */
    if (!p->gives_up)
        find_gpus(p, v);
    say(p, v);
}

void gw_run_pm_end(struct gw_run_pm *p, const struct gw_run_pm_view *v)
{
    if (!p->pm)
        return;
    gw_pm_stop(p->pm);
    say(p, v);
    if (gw_pm_wanted(p->pm) && is_good(state_of(p)))
        gw_sink_fact(v->sink, "pm.state", gw_pm_state_id(state_of(p)));
    if (gw_pm_wanted(p->pm))
        gw_sink_factf(v->sink, "pm.cpu_s", "%.3f", (double)gw_pm_cpu_ns(p->pm) * 1e-9);
    gw_pm_destroy(p->pm);
    p->pm = NULL;
}
