/*
 * inject.h - the parts of libgpuwhy_inject.so, the library that the CUDA driver loads into the job.
 *
 * Promises to the job: no exit, no abort, no output, no signal handler, no signal delivered to our thread, no lock on a
 * CUPTI callback, no allocation after start (one fixed pool; see pool.c for the one exception). Whatever fails
 * switches recording off for good and leaves the reason in the status block of the record file.
 *
 * Threads: CUPTI's callbacks (any thread of the job) touch only the pool, lock-free. Our one thread opens and closes
 * windows, turns full buffers into chunks and writes them. gpuwhy_inject_pause() and exit() hand their wish to that
 * thread and wait for it, bounded.
 */
#ifndef GW_INJECT_H
#define GW_INJECT_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "cupti_abi.h"
#include "record/record_write.h"

#define GW_ENV_RECORD "GPUWHY_RECORD" /* absolute path of the record folder: the switch of everything here */
#define GW_ENV_CUPTI "GPUWHY_CUPTI"   /* path of the libcupti to use */

/* --- pool.c: buffers that CUPTI fills ------------------------------------------------------------------------- */
/* 1 MiB: Kineto and others use 4 MiB; smaller ones come back sooner. 32 of them hold about 150,000 kernel records
 * (216 bytes each in CUPTI 13): more than a second of the fastest launch loop measured, while the writer needs ms. */
enum { GW_POOL_BUFFERS = 32, GW_POOL_BUFFER_BYTES = 1 << 20 };

int gw_pool_init(int null_is_safe); /* null_is_safe: CUPTI takes NULL for "no buffer" (12.9 and later). 0 or -errno */
void gw_pool_request(uint8_t **buffer, size_t *size, size_t *max_records);
void gw_pool_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);
/* Oldest completed buffer: its index, or -1. */
int gw_pool_take(uint8_t **data, size_t *valid);
void gw_pool_give(int index); /* zeroes what was used and makes it free again */
unsigned gw_pool_lent(void);  /* buffers in CUPTI's hands */
unsigned gw_pool_free(void);
uint64_t gw_pool_requested(void), gw_pool_completed(void), gw_pool_overflow(void);
void gw_pool_disable(void);   /* forked child: every callback becomes inert */

/* --- load.c: finding CUPTI ---------------------------------------------------------------------------------------- */
/* Fills `api` from the copy that the job uses. 0, or the state that says why not. */
enum gw_rec_state gw_cupti_load(struct gw_cupti *api);

/* --- drain.c: CUPTI records to chunks ----------------------------------------------------------------------------- */
int gw_drain_init(const struct gw_cupti *api, struct gw_writer *out); /* 0 or -errno */
void gw_drain_buffer(uint8_t *data, size_t valid);
void gw_drain_flush(void); /* writes what is staged */
uint64_t gw_drain_kernels(void), gw_drain_calls(void); /* records seen so far, also those left out */

/* --- device.c ------------------------------------------------------------------------------------------------------ */
/* One DEVICE chunk for each device that the process sees, by plain driver queries (after cuInit). */
int gw_device_write(struct gw_writer *out); /* their number; 0 while cuInit() is still on its way */

/* --- inject.c ------------------------------------------------------------------------------------------------------ */
#define GW_EXPORT __attribute__((visibility("default")))
GW_EXPORT int InitializeInjection(void);         /* called by the driver inside cuInit; always 1 */
GW_EXPORT void gpuwhy_inject_pause(int pause);   /* 1: close the window, unhook, wait until done; 0: may record again */
GW_EXPORT int gpuwhy_inject_state(void);         /* enum gw_rec_state, for tests and the settings hook */

#endif
