/*
 * policy.h - when to record: windows that follow the work. Pure arithmetic on times and counts; no clock, no CUPTI.
 *
 * Nobody knows when a job starts to work: CUDA starts early, the model much later. So windows begin as short probes. A
 * probe that sees no kernels ends and is repeated; one that sees kernels goes on as a full window. A full window ends
 * when it holds enough of them, or at its longest length. It counts only when kernels were flowing in it. After that the
 * distance between windows is set by what they cost the job, from its counts.
 *
 *     gw_policy_start(&p, now);
 *     if (now >= p.next_open) { gw_policy_open(&p, now); ... }
 *     why = gw_policy_look(&p, now, kernels);     while it is open; kernels of this window so far
 *     if (why != GW_PL_STAY) gw_policy_close(&p, now, kernels, calls);
 *
 * Times are ns of one monotonic clock. One thread.
 */
#ifndef GW_POLICY_H
#define GW_POLICY_H

#include <stdint.h>

#define GW_POLICY_MS 1000000ull
#define GW_POLICY_SEC 1000000000ull

/* A window lasts at least LENGTH and at most LONGEST. Between the two it ends with ENOUGH kernels: a transformer's step has
 * 200 to 2000 of them, so that is ten steps or more. MANY ends it earlier: a launch loop that floods the record. */
#define GW_POLICY_LENGTH (2 * GW_POLICY_SEC)
#define GW_POLICY_LONGEST (5 * GW_POLICY_SEC)
#define GW_POLICY_ENOUGH 20000u
#define GW_POLICY_SHORTEST GW_POLICY_SEC
#define GW_POLICY_MANY 150000u
/* Probes: the first ones are short, then they cover half of the time. One without kernels costs the job next to nothing. */
#define GW_POLICY_PROBE (150 * GW_POLICY_MS)
#define GW_POLICY_PROBE_LATER (500 * GW_POLICY_MS)
#define GW_POLICY_PROBE_EVERY GW_POLICY_SEC
#define GW_POLICY_PROBE_RARELY (3 * GW_POLICY_SEC) /* after a minute without work */
#define GW_POLICY_FLOW 20u      /* kernels that make a probe a window */
#define GW_POLICY_COUNTS 100u   /* and those that make a window count */
#define GW_POLICY_LULL (2500 * GW_POLICY_MS) /* this long without a kernel: it was only the model being made */
#define GW_POLICY_LULLS 3u      /* windows that may end so; after that the job's steps are just slow */
/* The second window comes this long after the first: the first holds the warm-up. Later ones: once a period at most. */
#define GW_POLICY_SECOND (8 * GW_POLICY_SEC)
#define GW_POLICY_PERIOD (20 * GW_POLICY_SEC)
/* What a record costs the job: kernels +0.4 to 0.65 us a launch (measured, H200, CUPTI 13.0.1); an API call 0.26 us, from
 * one unpaired comparison of full recording with windows (5.9 us a launch with 20 calls each). See docs/overhead.md. */
#define GW_POLICY_KERNEL_COST 600u
#define GW_POLICY_CALL_COST 260u
#define GW_POLICY_SHARE 100u /* one part in so many of the job's time may go to recording */

/*
 * Before the first window: may CUPTI be used in this job at all? Once it was, it costs the job something with each launch for as long as
 * it lives, windows or not, unless the host has time to spare.
 *
 *     gw_gate_start(&g, now);
 *     answer = gw_gate_look(&g, now, &counts);    a few times a second
 *
 * What an attached CUPTI costs a launch that is counted: at least LAUNCH ns, and more on a slow host: TIMES tenths of what the launch call
 * takes. Measured on two hosts, jobs of 680 kernels a step: 2.6 us at some 1.5 us a launch call, 10 us at 3.8 us (docs/overhead.md).
 * LIMIT: of the job's time, ppm. It is for jobs that launch in between other work; on a GPU-bound job the host's slack pays for it.
 * Enough looks: four with FLOW launches, and no single one of the last three may be above the limit: the first steps load
 * libraries and seem to wait.
 */
#define GW_GATE_LAUNCH 2600u
#define GW_GATE_TIMES 26u
#define GW_GATE_LIMIT 30000u
#define GW_GATE_LOOK (500 * GW_POLICY_MS)
#define GW_GATE_LOOKS 4u
#define GW_GATE_LAST 3u
#define GW_GATE_FLOW 10u
/* Nothing to count (the runtime is inside the job's libraries): go on without knowing, as late as a probe would see work. */
#define GW_GATE_BLIND (3 * GW_POLICY_SEC)
/* The job calls CUDA, but launches nothing that is counted, in so many looks: somebody else launches for it. */
#define GW_GATE_OTHERS 10u
/* No call at all for this long. */
#define GW_GATE_PATIENCE (60 * GW_POLICY_SEC)

enum gw_gate_answer { GW_GATE_WAIT, GW_GATE_OPEN, GW_GATE_HOLD };

struct gw_gate {
    uint32_t cost_ppm; /* expected, of the time in which kernels were launched; the largest of the last looks and of all together */
    /* private: */
    uint64_t start;
    uint32_t flowing, others;
    struct gw_gate_sum { uint64_t ns, cost, slack; } all;
    uint32_t last[GW_GATE_LAST]; /* ppm */
    uint32_t at;
};

void gw_gate_start(struct gw_gate *g, uint64_t now);
struct gw_gate_counts {
    uint64_t ns;        /* length of the look */
    uint64_t launches, launch_ns, slack_ns; /* as in gw_calls_look */
    uint64_t calls;     /* of all sorts and threads */
    unsigned entries;   /* launch entries that are counted */
};
enum gw_gate_answer gw_gate_look(struct gw_gate *g, uint64_t now, const struct gw_gate_counts *c);

enum gw_policy_look { GW_PL_STAY, GW_PL_PROBE_ENDED, GW_PL_LULL, GW_PL_ENOUGH };

struct gw_policy {
    uint64_t next_open;
    /* private: */
    uint64_t start, opened, moved, cost;
    uint64_t kernels;          /* of the open window, as last seen */
    uint32_t probes, lulls, good;
    int is_full;               /* the open window is no probe any more */
};

void gw_policy_start(struct gw_policy *p, uint64_t now);
void gw_policy_open(struct gw_policy *p, uint64_t now);
enum gw_policy_look gw_policy_look(struct gw_policy *p, uint64_t now, uint64_t kernels);
/* calls: API records that CUPTI made, those that were left out included. Sets next_open. 1 when the window counts. */
int gw_policy_close(struct gw_policy *p, uint64_t now, uint64_t kernels, uint64_t calls);

#endif
