/*
 * gw_intern.h - strings to small numbers and back.
 *
 * Equal byte strings get equal ids; ids count up from 1, in order of first sight; id 0 is "no name" and reads as "".
 * Strings may hold any bytes (they come from traces) and are kept NUL-terminated. Text lives as long as the table.
 * One writer; readers only after the last write.
 */
#ifndef GW_INTERN_H
#define GW_INTERN_H

#include <stddef.h>
#include <stdint.h>

struct gw_intern;

struct gw_intern *gw_intern_create(void);
void gw_intern_destroy(struct gw_intern *in);
/* 0 on out of memory (and for the empty string). */
uint32_t gw_intern_add(struct gw_intern *in, const char *s, size_t len);
uint32_t gw_intern_find(const struct gw_intern *in, const char *s, size_t len); /* 0 when absent */
const char *gw_intern_text(const struct gw_intern *in, uint32_t id);          /* "" for 0 or an unknown id */
size_t gw_intern_len(const struct gw_intern *in, uint32_t id);
uint32_t gw_intern_count(const struct gw_intern *in); /* highest id in use */
/* The hash used by the table (64-bit, not cryptographic); exposed for callers that key their own tables. */
uint64_t gw_hash_bytes(const void *p, size_t n);

#endif
