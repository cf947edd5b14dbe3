#include "import/kineto_pool.h"

#include <pthread.h>
#include <stdlib.h>

#include "import/kineto_event.h"

struct worker {
    struct kineto_pool *pool;
    struct kineto_parser *parser;
    pthread_t thread;
};

struct kineto_pool {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    /* Under `lock`: */
    struct kineto_batch *head, *tail;
    int waiting, stop;

    int threads;                               /* running */
    struct worker workers[KINETO_THREADS_MAX]; /* [0] is the calling thread */
};

/* The next waiting batch, or NULL. Under the lock. */
static struct kineto_batch *take(struct kineto_pool *p)
{
    struct kineto_batch *b = p->head;
    if (!b)
        return NULL;
    p->head = b->next;
    if (!p->head)
        p->tail = NULL;
    p->waiting--;
    return b;
}

static void finish(struct kineto_pool *p, struct kineto_batch *b)
{
    pthread_mutex_lock(&p->lock);
    b->done = 1;
    pthread_cond_broadcast(&p->done);
    pthread_mutex_unlock(&p->lock);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct kineto_pool *p = w->pool;
    for (;;) {
        pthread_mutex_lock(&p->lock);
        struct kineto_batch *b;
        while (!(b = take(p)) && !p->stop)
            pthread_cond_wait(&p->work, &p->lock);
        pthread_mutex_unlock(&p->lock);
        if (!b)
            return NULL;
        kineto_parse(w->parser, b);
        finish(p, b);
    }
}

struct kineto_pool *kineto_pool_create(int threads)
{
    struct kineto_pool *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->done, NULL);
    p->workers[0].parser = kineto_parser_create(0);
    if (!p->workers[0].parser) {
        kineto_pool_destroy(p);
        return NULL;
    }
    for (int i = 1; i <= threads && i < KINETO_THREADS_MAX; i++) {
        struct worker *w = &p->workers[i];
        w->pool = p;
        w->parser = kineto_parser_create(i);
        if (!w->parser)
            break;
        if (pthread_create(&w->thread, NULL, worker_main, w) != 0) {
            kineto_parser_destroy(w->parser);
            break;
        }
        p->threads = i;
    }
    return p;
}

void kineto_pool_destroy(struct kineto_pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = 1;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (int i = 1; i <= p->threads; i++) {
        pthread_join(p->workers[i].thread, NULL);
        kineto_parser_destroy(p->workers[i].parser);
    }
    kineto_parser_destroy(p->workers[0].parser);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

void kineto_pool_submit(struct kineto_pool *p, struct kineto_batch *b)
{
    pthread_mutex_lock(&p->lock);
    b->next = NULL;
    if (p->tail)
        p->tail->next = b;
    else
        p->head = b;
    p->tail = b;
    p->waiting++;
    pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
}

int kineto_pool_waiting(struct kineto_pool *p)
{
    pthread_mutex_lock(&p->lock);
    int n = p->waiting;
    pthread_mutex_unlock(&p->lock);
    return n;
}

int kineto_pool_help(struct kineto_pool *p)
{
    pthread_mutex_lock(&p->lock);
    struct kineto_batch *b = take(p);
    pthread_mutex_unlock(&p->lock);
    if (!b)
        return 0;
    kineto_parse(p->workers[0].parser, b);
    finish(p, b);
    return 1;
}

int kineto_pool_done(struct kineto_pool *p, const struct kineto_batch *b)
{
    pthread_mutex_lock(&p->lock);
    int done = b->done;
    pthread_mutex_unlock(&p->lock);
    return done;
}

void kineto_pool_wait(struct kineto_pool *p, const struct kineto_batch *b)
{
    pthread_mutex_lock(&p->lock);
    while (!b->done)
        pthread_cond_wait(&p->done, &p->lock);
    pthread_mutex_unlock(&p->lock);
}
