/*
 * proc_mounts.h - which mount a descriptor of the job is on: "nfs4 /data". Answers are kept by device number, so that a
 * question costs one stat() and now and then one look at mountinfo. One thread.
 */
#ifndef GW_PROC_MOUNTS_H
#define GW_PROC_MOUNTS_H

#include "collect/proc/proc_sink.h"

struct gw_mounts;
struct gw_mounts *gw_mounts_create(int proc_root, struct gw_sink *sink); /* NULL when out of memory: then no answers */
void gw_mounts_destroy(struct gw_mounts *m);
/* String id of "TYPE MOUNTPOINT" of a regular file, 0 for sockets, pipes and what cannot be known. The first file seen on
 * each mount is kept as a fact "mount.TYPE MOUNTPOINT=FILE". */
uint32_t gw_mounts_of_fd(struct gw_mounts *m, int pid, int fd);

#endif
