#include "base/gw_arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_THREAD__)
#define GW_NO_MREMAP
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GW_NO_MREMAP
#endif
#endif

#define GW_ARENA_BLOCK ((size_t)64 * 1024)
#define GW_ARENA_ALIGN ((size_t)16)

struct gw_arena_block {
    struct gw_arena_block *next;
    size_t used, size;
    _Alignas(16) unsigned char data[];
};

struct gw_arena {
    struct gw_arena_block *head;
    size_t cap, reserved;
};

struct gw_arena *gw_arena_create(size_t cap)
{
    struct gw_arena *a = calloc(1, sizeof *a);
    if (a)
        a->cap = cap;
    return a;
}

void gw_arena_destroy(struct gw_arena *arena)
{
    if (!arena)
        return;
    for (struct gw_arena_block *b = arena->head, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(arena);
}

void *gw_arena_alloc(struct gw_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX - 2 * GW_ARENA_BLOCK)
        return NULL;
    size_t want = (bytes + GW_ARENA_ALIGN - 1) & ~(GW_ARENA_ALIGN - 1);
    struct gw_arena_block *b = arena->head;
    if (!b || b->size - b->used < want) {
        size_t size = want > GW_ARENA_BLOCK / 4 ? want : GW_ARENA_BLOCK;
        if (arena->cap && (size > arena->cap || arena->reserved > arena->cap - size))
            return NULL;
        struct gw_arena_block *fresh = calloc(1, sizeof *fresh + size);
        if (!fresh)
            return NULL;
        fresh->size = size;
        arena->reserved += size;
        if (b && size == want && b->size - b->used > 256) { /* a big one: keep filling the block in front */
            fresh->next = b->next;
            b->next = fresh;
        } else {
            fresh->next = b;
            arena->head = fresh;
        }
        b = fresh;
    }
    void *p = b->data + b->used;
    b->used += want;
    return p;
}

void *gw_arena_calloc(struct gw_arena *arena, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes))
        return NULL;
    return gw_arena_alloc(arena, bytes ? bytes : 1);
}

char *gw_arena_strndup(struct gw_arena *arena, const char *s, size_t n)
{
    char *p = n < SIZE_MAX ? gw_arena_alloc(arena, n + 1) : NULL;
    if (p && n)
        memcpy(p, s, n);
    return p;
}

char *gw_arena_strdup(struct gw_arena *arena, const char *s) { return gw_arena_strndup(arena, s, strlen(s)); }

const char *gw_arena_vprintf(struct gw_arena *arena, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    char *p = n < 0 ? NULL : gw_arena_alloc(arena, (size_t)n + 1);
    if (p)
        vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p ? p : "";
}

const char *gw_arena_printf(struct gw_arena *arena, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *p = gw_arena_vprintf(arena, fmt, ap);
    va_end(ap);
    return p;
}

size_t gw_arena_bytes(const struct gw_arena *arena) { return arena->reserved; }

void gw_array_init(struct gw_array *arr, size_t elem_size, size_t max_elems)
{
    *arr = (struct gw_array){.size = elem_size, .max = max_elems};
}

void gw_array_free(struct gw_array *arr)
{
    if (arr->data)
        munmap(arr->data, arr->mapped);
    arr->data = NULL;
    arr->len = arr->cap = arr->mapped = 0;
}

/* More pages for a mapping (or a new one), which may move. MAP_FAILED without memory. */
static void *grow_map(void *data, size_t have, size_t want)
{
#ifdef GW_NO_MREMAP
    /* ThreadSanitizer does not see mremap: it takes reused addresses for races. */
    void *p = mmap(NULL, want, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != MAP_FAILED && data) {
        memcpy(p, data, have);
        munmap(data, have);
    }
    return p;
#else
    return data ? mremap(data, have, want, MREMAP_MAYMOVE)
                : mmap(NULL, want, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
#endif
}

int gw_array_reserve(struct gw_array *arr, size_t extra)
{
    size_t need;
    if (__builtin_add_overflow(arr->len, extra, &need) || (arr->max && need > arr->max))
        return GW_ENOMEM;
    if (need <= arr->cap)
        return GW_OK;
    size_t bytes = arr->mapped, want;
    if (__builtin_mul_overflow(need, arr->size, &want))
        return GW_ENOMEM;
    size_t grown = bytes + bytes / 2 + 4096; /* untouched pages are not resident, so growing fast costs no memory */
    if (want < grown)
        want = grown;
    if (want > SIZE_MAX - 4096)
        return GW_ENOMEM;
    want = (want + 4095) & ~(size_t)4095;
    void *p = grow_map(arr->data, bytes, want);
    if (p == MAP_FAILED)
        return GW_ENOMEM;
    arr->data = p;
    arr->cap = want / arr->size;
    arr->mapped = want;
    return GW_OK;
}

void *gw_array_push(struct gw_array *arr)
{
    if (arr->len == arr->cap && gw_array_reserve(arr, 1) < 0)
        return NULL;
    if (arr->max && arr->len >= arr->max)
        return NULL;
    return memset((unsigned char *)arr->data + arr->len++ * arr->size, 0, arr->size);
}
