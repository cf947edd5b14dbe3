/*
 * gw_arena.h - memory that dies together, and arrays that grow without copying.
 *
 * An arena hands out zeroed, 16-byte aligned memory that lives until gw_arena_destroy(). A trace, its strings, its
 * gaps, findings and report share one arena. It has a hard cap: past it allocations return NULL and the caller
 * reports GW_ENOMEM. One arena belongs to one thread at a time.
 *
 *     struct gw_arena *a = gw_arena_create(0);
 *     char *s = gw_arena_printf(a, "%d steps", n);
 *     gw_arena_destroy(a);
 */
#ifndef GW_ARENA_H
#define GW_ARENA_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/gw_error.h"

struct gw_arena;

/* `cap` in bytes, 0 = no cap. NULL when out of memory. */
struct gw_arena *gw_arena_create(size_t cap);
void gw_arena_destroy(struct gw_arena *arena); /* NULL is fine */
void *gw_arena_alloc(struct gw_arena *arena, size_t bytes);           /* zeroed; NULL at the cap */
void *gw_arena_calloc(struct gw_arena *arena, size_t n, size_t size); /* overflow-checked */
char *gw_arena_strndup(struct gw_arena *arena, const char *s, size_t n);
char *gw_arena_strdup(struct gw_arena *arena, const char *s);
/* Formats into the arena. Returns "" (never NULL) when out of memory, so that texts can be used unchecked. */
const char *gw_arena_printf(struct gw_arena *arena, const char *fmt, ...) GW_PRINTF(2, 3);
const char *gw_arena_vprintf(struct gw_arena *arena, const char *fmt, va_list ap) GW_PRINTF(2, 0);
size_t gw_arena_bytes(const struct gw_arena *arena); /* bytes reserved so far */

/*
 * A growable array in its own pages. Growing moves page tables (mremap), not bytes, and pages never touched are
 * never resident, so the peak is the content and not twice the content. Elements are addressed by index; pointers
 * into it are valid until the next grow.
 */
struct gw_array {
    void *data;
    size_t len;  /* elements in use */
    size_t cap;  /* elements mapped */
    size_t size; /* bytes an element */
    size_t max;  /* hard cap in elements, 0 = none */
    size_t mapped; /* bytes mapped */
};

void gw_array_init(struct gw_array *arr, size_t elem_size, size_t max_elems);
void gw_array_free(struct gw_array *arr);
/* Makes room for `extra` more elements. 0 or GW_ENOMEM (memory or the cap). */
int gw_array_reserve(struct gw_array *arr, size_t extra);
/* Appends one element, zeroed; returns it or NULL at the cap. */
void *gw_array_push(struct gw_array *arr);

#endif
