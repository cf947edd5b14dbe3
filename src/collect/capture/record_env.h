/*
 * record_env.h - the machine's facts inside a record of `gpuwhy run`.
 *
 * The recorder collects them once, right after the job's start, into a file of their own (GW_REC_MACHINE). What changes under
 * load is not collected again: the recorder's own NVML samples become the samples of the checks, so that links and clocks
 * are judged while the job is the load.
 *
 *     gw_env_write_record(env, dirfd, pid);              the recorder
 *     gw_env_read_record(env, "rec", &err);              read, check
 */
#ifndef GW_RECORD_ENV_H
#define GW_RECORD_ENV_H

#include "collect/env.h"

/* Makes GW_REC_MACHINE in the folder. `pid`: the job. 0, or -errno. */
int gw_env_write_record(const struct gw_env *env, int dirfd, uint32_t pid);
/* Adds what the record in `folder` holds to `env`. 0; GW_ENODATA when it holds nothing about the machine (an old record, or
 * one whose collector did not finish and that saw no GPU); GW_EIO, GW_EFORMAT, GW_ENOMEM with `err` filled. */
int gw_env_read_record(struct gw_env *env, const char *folder, struct gw_error *err);
/* 1 when `path` is the folder of a record. */
int gw_env_is_record(const char *path);

#endif
