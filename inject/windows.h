/*
 * windows.h - what inject.c and windows.c share: the state of the recording inside the job, and the calls to CUPTI.
 *
 * All of it belongs to our one thread (before that thread starts: to the caller of InitializeInjection). Only windows.c
 * calls CUPTI, and CUPTI is not even loaded before the first window opens.
 */
#ifndef GW_INJECT_WINDOWS_H
#define GW_INJECT_WINDOWS_H

#include <limits.h>

#include "calls.h"
#include "inject.h"
#include "policy.h"

#define MS 1000000ull
#define SEC 1000000000ull

struct gw_inject {
    struct gw_cupti api;
    struct gw_writer out;
    struct gw_control control;
    struct gw_policy policy; /* used with control.adaptive */
    struct gw_gate gate;     /* before the first window, with control.look_first */
    uint64_t last_look;      /* at the job's own calls */
    enum gw_gate_answer gate_says;
    char dir[PATH_MAX];
    pid_t owner;
    dev_t dev; /* the record file: checked before each write, in case the job closed our descriptor */
    ino_t ino;
    int is_attached;  /* CUPTI is loaded and has our callbacks */
    int is_open;      /* a window is */
    int is_quiet;     /* off for good */
    int hands_off;    /* another profiler has CUPTI: no call to it any more, whatever happens */
    int can_ask;      /* CUPTI answered our question once, when the answer was known: see ask() in windows.c */
    int is_asked_for; /* the open window was asked for by the recorder: it has a fixed length */
    uint64_t now, opened_ns, close_at, next_open, last_flush, last_clock, last_status, orphan_since, started_ns;
    uint64_t closing_since; /* the window is due to close; 0 = not yet */
    uint64_t said_at_open, said_last, said_ns; /* CUPTI's words to us: buffers requested plus completed */
    uint64_t kernels_at_open, calls_at_open, last_ask;
    uint32_t open_now_seen;
    int devices_known, device_tries;
};
extern struct gw_inject gw_inject;

/* --- inject.c -------------------------------------------------------------------------------------------------------- */
void gw_inject_state(enum gw_rec_state s);
void gw_inject_quiet(enum gw_rec_state why); /* off for good */
void gw_inject_status(void);
void gw_inject_drain(void); /* full buffers to the file */
void gw_inject_clock(void);
void gw_inject_first_at_exit(void); /* after CUPTI was loaded and used: our end comes before its own */

/* --- windows.c --------------------------------------------------------------------------------------------------------- */
/* Loads CUPTI and registers the callbacks. 0, or it is quiet with the reason. In the middle of cuInit() nothing may be asked. */
int gw_windows_attach(int is_in_cuinit);
void gw_windows_open(void);
void gw_windows_close(enum gw_win_reason reason);
void gw_windows_step(void); /* one look at the open window, or between two */
int gw_windows_ours(void);  /* CUPTI talked to us since the window opened */
void gw_windows_settle(void); /* all that CUPTI has, as the end is near */
void gw_windows_unhook(void); /* for the job's own profiler */
int gw_windows_rehook(void);  /* 0 or CUPTI's result */

#endif
