/* run_status.c - see run_status.h */
#include "cli/run_status.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "collect/pm/pm.h"
#include "collect/proc/proc_nvml.h"
#include "collect/proc/proc_tree.h"
#include "report/clean.h"

#define FADE 0.9           /* of the older samples, each second: half of them are gone after seven */
#define SETTLED_NS 10000000000.0 /* a step rate is the mean of about this long, of less at first */
#define GUESS_SAMPLES 10.0 /* fewer say nothing yet */
#define GPU_FULL 85        /* percent of SM activity (of utilization, where that is all) from which the GPU is the limit */

enum kind { K_LOADER, K_GPU, K_PYTHON, K_LOCK, K_STORAGE, K_LAUNCH, K_OTHER };
static const char *const kinds[GW_STATUS_KINDS] = {
    N_("waits for the data loader"), N_("waits for the GPU"), N_("busy in its own code"), N_("waits for Python's lock"),
    N_("waits for storage"),         N_("launches kernels"),  N_("waits for something else")};

/* --- steps ------------------------------------------------------------------------------------------------------------ */

uint64_t gw_status_steps(int dirfd)
{
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    uint64_t most = 0;
    struct stat st;
    if (!d && fd >= 0)
        close(fd);
    for (struct dirent *e; d && (e = readdir(d));)
        if (strncmp(e->d_name, "marks-", 6) == 0 && fstatat(dirfd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode) && (uint64_t)st.st_size / 8 > most)
            most = (uint64_t)st.st_size / 8;
    if (d)
        closedir(d);
    return most;
}

/* Weighs by time, so that a slow job's rate is as steady as a fast one's. */
static void take_steps(struct gw_status *st, uint64_t steps, uint64_t now)
{
    if (steps == st->steps)
        return;
    if (!st->steps) {
        st->first_at = now;
    } else if (now > st->steps_at) {
        double span = (double)(now - st->steps_at), rate = (double)(steps - st->steps) / span * 1e9;
        double weight = span / fmin((double)(now - st->first_at), SETTLED_NS);
        st->rate = isnan(st->rate) ? rate : st->rate + (rate - st->rate) * fmin(weight, 1);
    }
    st->steps = steps;
    st->steps_at = now;
}

/* --- the guess ----------------------------------------------------------------------------------------------------------- */

static int is_launcher(const struct gw_tree *tree, uint32_t pid)
{
    const struct gw_tree_process *p;
    for (size_t i = 0; (p = gw_tree_process(tree, i)); i++)
        if ((uint32_t)p->pid == pid)
            return p->alive && (p->flags & (GW_PF_CUDA | GW_PF_INJECTED)) && !(p->flags & GW_PF_FORKED);
    return 0;
}

static enum kind kind_of(const struct gw_rec_thread *t, const struct gw_sink *sink)
{
    const char *stack = gw_intern_text(sink->names, t->stack);
    switch (t->call) {
    case GW_CALL_WAIT:
    case GW_CALL_COPY: return K_GPU;
    case GW_CALL_LAUNCH:
    case GW_CALL_GRAPH: return K_LAUNCH;
    default: break;
    }
    if (t->flags & GW_TF_WANTS_GIL)
        return K_LOCK;
    if (strstr(stack, "utils/data/dataloader.py") && t->state != 'R')
        return K_LOADER;
    if (t->state == 'R')
        return K_PYTHON;
    return t->state == 'D' || t->path ? K_STORAGE : K_OTHER;
}

void gw_status_samples(struct gw_status *st, const struct gw_sink *sink, const struct gw_tree *tree)
{
    if (st->fd < 0)
        return;
    for (uint32_t i = 0; i < sink->n_threads; i++)
        if ((sink->threads[i].flags & GW_TF_MAIN) && is_launcher(tree, sink->threads[i].pid))
            st->kind = (int)kind_of(&sink->threads[i], sink);
    if (st->kind >= 0) /* a thread that goes on with the same is not written again */
        st->seen[st->kind]++;
}

static void guess(struct gw_status *st, int busy, char *out, size_t cap)
{
    double all = 0;
    int best = 0;
    for (int k = 0; k < GW_STATUS_KINDS; k++) {
        all += st->seen[k];
        best = st->seen[k] > st->seen[best] ? k : best;
    }
    out[0] = '\0';
    if (busy >= GPU_FULL)
        snprintf(out, cap, "%s", _("the GPU is the limit"));
    else if (all >= GUESS_SAMPLES)
        snprintf(out, cap, _("main thread %s %.0f %%"), _(kinds[best]), 100 * st->seen[best] / all);
    for (int k = 0; k < GW_STATUS_KINDS; k++)
        st->seen[k] *= FADE;
}

/* --- the line ------------------------------------------------------------------------------------------------------------ */

void gw_status_open(struct gw_status *st, int is_wanted, int fd)
{
    memset(st, 0, sizeof *st);
    st->kind = -1;
    st->rate = NAN;
    st->fd = is_wanted && isatty(fd) && !gw_cli_dumb_terminal() ? fd : -1;
}

static void part(char *out, size_t cap, const char *text)
{
    size_t n = strlen(out);
    if (*text && n < cap)
        snprintf(out + n, cap - n, "%s%s", n ? "  " : "", text);
}

static void percent(char *out, size_t cap, const char *label, int value)
{
    char text[64];
    if (value < 0)
        return;
    snprintf(text, sizeof text, "%s %d %%", label, value);
    part(out, cap, text);
}

void gw_status_text(struct gw_status *st, const struct gw_status_view *v, uint64_t now, char *out, size_t cap)
{
    char text[256];
    unsigned long long sec = (now - v->started_ns) / 1000000000u;
    int util = gw_nvml_utilization(v->nvml), sm = gw_nvml_sm_activity(v->nvml);
    struct gw_pm_latest counted;
    if (gw_pm_latest(v->pm, &counted))
        sm = (int)lround(counted.sm);
    take_steps(st, v->steps, now);
    snprintf(out, cap, "gpuwhy %llu:%02llu", sec / 60, sec % 60);
    if (st->steps) {
        if (isnan(st->rate))
            snprintf(text, sizeof text, _("%llu steps"), (unsigned long long)st->steps);
        else
            snprintf(text, sizeof text, _("%llu steps, %.3g/s"), (unsigned long long)st->steps, st->rate);
        part(out, cap, text);
    }
    percent(out, cap, _("GPU-Util"), util);
    percent(out, cap, _("SM active"), sm);
    guess(st, sm >= 0 ? sm : util, text, sizeof text);
    part(out, cap, text);
    if (v->is_window_open)
        part(out, cap, _("[recording]"));
}

static void put(const struct gw_status *st, const char *text)
{
    ssize_t n = write(st->fd, text, strlen(text)); /* one write: nothing of it is seen half done */
    (void)n;
}

void gw_status_draw(struct gw_status *st, const struct gw_status_view *v, uint64_t now)
{
    char text[512], line[640], cut[512];
    if (st->fd < 0)
        return;
    gw_status_text(st, v, now, text, sizeof text);
    gw_clean_copy(cut, sizeof cut, text, gw_cli_unicode());
    for (int room = gw_cli_columns(st->fd) - 1; gw_clean_width(cut, gw_cli_unicode()) > room && *cut;) { /* no second row */
        size_t n = strlen(cut) - 1;
        while (n && ((unsigned char)cut[n] & 0xc0) == 0x80) /* a whole character */
            n--;
        cut[n] = '\0';
    }
    if (st->is_drawn && strcmp(cut, st->text) == 0)
        return;
    snprintf(st->text, sizeof st->text, "%s", cut);
    snprintf(line, sizeof line, "\r%s\033[K", cut); /* over the old one, then its rest: nothing blinks */
    put(st, line);
    st->is_drawn = 1;
}

void gw_status_clear(struct gw_status *st)
{
    if (st->fd >= 0 && st->is_drawn)
        put(st, "\r\033[K");
    st->is_drawn = 0;
}
