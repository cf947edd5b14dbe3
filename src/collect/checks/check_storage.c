/* Where the data lies and how busy the disks are. */
#include <math.h>
#include <string.h>

#include "collect/checks/check_run.h"

#define BUSY 0.9
#define AWAIT_FLASH_MS 20 /* a flash disk answers in well under 1 ms when it is not overloaded */
#define AWAIT_ROTATING_MS 50
#define FULL_SHARE 0.03
#define PSI_IO_PCT 20

/* File systems by what they mean for many small reads. A row's name is matched up to a dot ("fuse.sshfs"). */
static const struct {
    const char *type;
    const char *what;
    enum gw_check_status status;
} kinds[] = {{"nfs", N_("network"), GW_CHECK_LOOK},
             {"nfs4", N_("network"), GW_CHECK_LOOK},
             {"cifs", N_("network"), GW_CHECK_LOOK},
             {"smb3", N_("network"), GW_CHECK_LOOK},
             {"lustre", N_("parallel network"), GW_CHECK_LOOK},
             {"beegfs", N_("parallel network"), GW_CHECK_LOOK},
             {"gpfs", N_("parallel network"), GW_CHECK_LOOK},
             {"wekafs", N_("parallel network"), GW_CHECK_LOOK},
             {"ceph", N_("network"), GW_CHECK_LOOK},
             {"glusterfs", N_("network"), GW_CHECK_LOOK},
             {"afs", N_("network"), GW_CHECK_LOOK},
             {"9p", N_("passed through from a host"), GW_CHECK_BAD},
             {"drvfs", N_("a Windows drive"), GW_CHECK_BAD},
             {"virtiofs", N_("passed through from a host"), GW_CHECK_LOOK},
             {"fuse", N_("user space (FUSE)"), GW_CHECK_LOOK},
             {"fuseblk", N_("user space (FUSE)"), GW_CHECK_LOOK},
             {"overlay", N_("a container's layers"), GW_CHECK_LOOK},
             {"squashfs", N_("compressed"), GW_CHECK_LOOK},
             {"tmpfs", N_("memory"), GW_CHECK_GOOD},
             {"ramfs", N_("memory"), GW_CHECK_GOOD}};

static int same_type(const char *type, const char *name)
{
    size_t n = strlen(name);
    return strncmp(type, name, n) == 0 && (type[n] == '\0' || type[n] == '.');
}

void gw_check_on_data(struct gw_check_run *r)
{
    enum gw_check_status worst = GW_CHECK_UNKNOWN;
    const char *text = "";
    for (size_t i = 0; i < gw_env_count(r->env, GW_REC_FS); i++) {
        const struct gw_env_fs *f = gw_env_at(r->env, GW_REC_FS, i);
        const char *what = _("local"), *more = "";
        enum gw_check_status s = GW_CHECK_GOOD;
        if (!f->type || !f->path)
            continue;
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
            if (same_type(f->type, kinds[k].type)) {
                what = _(kinds[k].what);
                s = kinds[k].status;
            }
        /* 7,200 turns a minute: half a turn is 4.2 ms, and the arm takes as long again. */
        if (s == GW_CHECK_GOOD && f->rotational == 1) {
            s = GW_CHECK_LOOK;
            more = _(", a rotating disk: about 100 random reads a second");
        } else if (s == GW_CHECK_GOOD && f->bytes_total > 0 && f->bytes_free >= 0 &&
                   (double)f->bytes_free < FULL_SHARE * (double)f->bytes_total) {
            s = GW_CHECK_LOOK;
            more = _(", almost full");
        }
        text = gw_check_text(r, "%s%s%.60s: %s (%s%s)", text, *text ? "; " : "", f->path, f->type, what, more);
        gw_check_evidence(r, NAN, "1", "mountinfo", "%.100s is on %s, mounted at %.100s", f->path, f->type,
                          gw_known(f->mount, "?"));
        worst = s > worst ? s : worst;
    }
    if (!*text)
        return;
    gw_check_say(r, worst, "%s", text);
    if (worst >= GW_CHECK_LOOK) {
        gw_check_expect(r, "a local flash disk, or memory");
        gw_check_fix(r,
                     _("copy the data to a local disk before the run, pack small files into larger shards (tar, Arrow, "
                       "WebDataset), more workers "
                       "for latency; not from a container's image layers: mount a volume"),
                     "gpuwhy check --measure --data PATH", "");
    }
}

/* A device of a --data path, or any when there is no such path. */
static int asked_for(const struct gw_env *env, const char *disk)
{
    int any = 0;
    for (size_t i = 0; i < gw_env_count(env, GW_REC_FS); i++) {
        const struct gw_env_fs *f = gw_env_at(env, GW_REC_FS, i);
        if (!f->disk)
            continue;
        any = 1;
        if (strncmp(f->disk, disk, strlen(disk)) == 0)
            return 1;
    }
    return !any;
}

void gw_check_on_disk(struct gw_check_run *r)
{
    enum gw_check_status worst = GW_CHECK_UNKNOWN;
    const struct gw_env_disk *busiest = NULL;
    const char *text = "";
    int64_t psi = gw_env_get(r->env, GW_HOST_PSI_IO_X100);
    for (size_t i = 0; i < gw_env_count(r->env, GW_REC_DISK); i++) {
        const struct gw_env_disk *d = gw_env_at(r->env, GW_REC_DISK, i);
        if (!d->name || isnan(d->busy) || !asked_for(r->env, d->name))
            continue;
        double slow = d->rotational == 1 ? AWAIT_ROTATING_MS : AWAIT_FLASH_MS;
        int late = d->await_ms > slow && d->iops > 10;
        enum gw_check_status s = late || d->busy > BUSY ? GW_CHECK_LOOK : GW_CHECK_GOOD;
        worst = s > worst ? s : worst;
        if (!busiest || d->busy > busiest->busy)
            busiest = d;
        if (s == GW_CHECK_LOOK) {
            text = gw_check_text(r, "%s%s%.32s %.0f %% busy%s", text, *text ? "; " : "", d->name, 100 * d->busy,
                                 isnan(d->await_ms) ? "" : gw_check_text(r, ", %.3g ms an I/O", d->await_ms));
            gw_check_evidence(r, d->busy, "share", r->env->live ? "/proc/diskstats" : "iostat",
                              "%.32s busy %.0f %%, %.0f I/O a second", d->name, 100 * d->busy, d->iops);
        }
    }
    if (!busiest)
        return;
    if (worst == GW_CHECK_GOOD && psi > PSI_IO_PCT * 100) {
        worst = GW_CHECK_LOOK;
        text = gw_check_text(r, _("tasks wait for I/O %.0f %% of the time"), (double)psi / 100);
    }
    if (worst == GW_CHECK_GOOD)
        text = gw_check_text(r, _("busiest: %.32s, %.0f %% of the sample"), busiest->name, 100 * busiest->busy);
    gw_check_say(r, worst, "%s", text);
    if (worst == GW_CHECK_LOOK) {
        gw_check_expect(r, "less than %.0f %% busy, an I/O in less than %d ms (flash)", 100 * BUSY, AWAIT_FLASH_MS);
        gw_check_fix(r,
                     _("see who reads (iotop); larger sequential reads, more memory for the page cache, a faster disk "
                       "for the data"),
                     "iostat -x 1", "");
    }
}
