/*
 * kineto_event.h - the text of one trace event to one event of the model.
 *
 * A parser has its own tables and shares nothing: one per thread. It never fails: what it cannot use is counted in the
 * batch as a loss.
 *
 *     struct kineto_parser *p = kineto_parser_create(0);
 *     kineto_parse(p, batch);      (all cuts of the batch -> batch->events)
 */
#ifndef KINETO_EVENT_H
#define KINETO_EVENT_H

#include "import/kineto_batch.h"

struct kineto_parser;

/* `number` is put into kineto_batch.parser. NULL when out of memory. */
struct kineto_parser *kineto_parser_create(int number);
void kineto_parser_destroy(struct kineto_parser *p);
void kineto_parse(struct kineto_parser *p, struct kineto_batch *b);

/* The ends of a copy from the name of its record ("Memcpy HtoD (Pageable -> Device)", "CopyDeviceToHost", ...);
 * gw_copy_sub(UNKNOWN, UNKNOWN) when it does not tell. */
uint32_t kineto_copy_sub(const char *name, size_t n);
/* Bytes of one element of a torch dtype as collectives name it ("Float", "BFloat16", ...); 0 when unknown. */
unsigned kineto_dtype_bytes(const char *s, size_t n);
/* The number of a row whose id is text that is no number ("stream 7" is 7): FNV-1a over it, bit 62 set, bit 63 clear,
 * so that it stays the same over files and keeps clear of real ids. */
int64_t kineto_text_id(const char *s, size_t n);

#endif
