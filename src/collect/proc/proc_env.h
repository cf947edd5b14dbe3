/*
 * proc_env.h - the environment variables of a process that decide how fast it runs, as facts "env.PID.NAME=value", behind
 * the fact "env_of=PID".
 * Only names of collect/envvars.def are ever looked at: an environment holds secrets.
 */
#ifndef GW_PROC_ENV_H
#define GW_PROC_ENV_H

#include "collect/proc/proc_sink.h"

/* 0 or -errno. The environment is the one that the process was started with. */
int gw_proc_env_facts(int proc_root, int pid, struct gw_sink *sink);
/* The value of one variable in the start environment of `pid`. 1 found, 0 not. */
int gw_proc_env_value(int proc_root, int pid, const char *name, char *out, size_t cap);

#endif
