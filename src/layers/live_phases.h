/*
 * live_phases.h - activities that come now and then: a checkpoint every N steps, an evaluation, loader workers made
 * anew at each epoch, a recompilation. A window of GPU records may hold none of them, or nothing else; the training
 * thread's stacks, its counted launches and the GPU's hardware counters are there for the whole run. So such a phase is
 * weighed over the job's working time, from its first launches to its last: what comes before is start-up, what comes
 * after is the end, and neither is a phase.
 *
 *     struct gw_live_phases p;
 *     if (gw_live_phases_weigh(d, &p))
 *         printf("%.0f %%\n", 100 * p.of[GW_CAUSE_CHECKPOINT].share);
 */
#ifndef GW_LIVE_PHASES_H
#define GW_LIVE_PHASES_H

#include "layers/live.h"

struct gw_live_phase { /* one sort of activity; all zero when it was not seen */
    double share;      /* of the working time, 0..1 */
    double low, high;  /* the same, as far as so few samples can tell (95 %) */
    double late;       /* its share of the second half: what goes on is no warm-up */
    size_t samples;    /* stacks that show it */
    size_t times;      /* stretches of it; between two of them something else was seen */
    size_t guessed; /* samples that no name gives away: host code at a user's line while the GPU has no work for long */
    int64_t longest;     /* ns, of one stretch */
    double idle;         /* share of its time in which the GPU had no work; NAN not known */
    int is_idle_counted; /* 1 = by hardware counters, 0 = by launches */
    double window;       /* its share of the window's samples; NAN with too few of them */
};

struct gw_live_stretch {
    int64_t start, end; /* ns */
};

struct gw_live_phases {
    int64_t from, to; /* ns: the working time, as far as samples are kept */
    uint32_t lane;    /* the training thread */
    size_t samples;   /* with a stack, in the working time */
    size_t window_samples;
    double idle; /* share of the working time in which the GPU had no work, by hardware counters; NAN not known */
    double window_idle; /* the same in the window, by hardware counters or else by GPU records; NAN without a window */
    struct gw_live_phase of[GW_CAUSE_COUNT];
    const struct gw_live_stretch *stretch; /* long ones in which the GPU had no work */
    size_t stretches;
};

/* 1; 0 when launches or the GPU's work over the run are not known, so that start-up cannot be told from work. Without
 * stacks all phases are zero. */
int gw_live_phases_weigh(struct gw_diag *d, struct gw_live_phases *p);
/* What a sample with a stack shows, an enum gw_cause. *guessed = 1: only by the GPU's idling for long meanwhile. */
unsigned gw_live_phases_cause(const struct gw_diag *d, const struct gw_live_phases *p, const struct gw_event *sample,
                              int *guessed);
/* The lines of code of the samples that show it, at most `most`. */
void gw_live_phases_where(struct gw_diag *d, const struct gw_live_phases *p, struct gw_draft *f, unsigned cause,
                          size_t most);
/* After all diagnoses of a window: phases that the whole run shows and the window does not, or not as much, become
 * findings or get their weight; the gains of all others become those of the whole run; d->stands. */
void gw_live_phases(struct gw_diag *d);

/* What to do about it, untranslated; NULL = `id` is no such finding. */
const char *gw_live_phase_fix(enum gw_finding_id id);

#endif
