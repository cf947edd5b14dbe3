/*
 * kineto_pool.h - threads that parse batches, with the calling thread as one of them.
 *
 * The calling thread submits batches in the order of the file and takes them back in that order; in between it may
 * help, so that no core waits. With no threads at all everything happens in kineto_pool_help().
 *
 *     kineto_pool_submit(pool, batch);
 *     while (!kineto_pool_done(pool, batch))
 *         if (!kineto_pool_help(pool))
 *             kineto_pool_wait(pool, batch);
 */
#ifndef KINETO_POOL_H
#define KINETO_POOL_H

#include "import/kineto_batch.h"

enum { KINETO_THREADS_MAX = 8 };

struct kineto_pool;

/* Threads that cannot be started are done without. NULL when out of memory. */
struct kineto_pool *kineto_pool_create(int threads);
void kineto_pool_destroy(struct kineto_pool *p);      /* nothing may be in flight */

void kineto_pool_submit(struct kineto_pool *p, struct kineto_batch *b);
int kineto_pool_waiting(struct kineto_pool *p); /* batches that nobody has begun */
int kineto_pool_help(struct kineto_pool *p);    /* parses one waiting batch here; 0 when there was none */
int kineto_pool_done(struct kineto_pool *p, const struct kineto_batch *b);
void kineto_pool_wait(struct kineto_pool *p, const struct kineto_batch *b); /* until it is done */

#endif
