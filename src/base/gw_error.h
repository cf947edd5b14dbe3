/*
 * gw_error.h - one error type for every reader of foreign input, and the table of result codes.
 *
 * Functions return 0 or a negative `enum gw_code`. Readers of foreign input also fill a caller-owned
 * `struct gw_error`: what went wrong, in which file, at which byte or line, and what to do about it.
 * The first error wins: later calls on a filled error are ignored. Not shared between threads.
 *
 *     struct gw_error err = {0};
 *     if (gw_import_file(trace, path, &opts, &err) < 0)
 *         fprintf(stderr, "gpuwhy: %s\n", gw_error_text(&err, buf, sizeof buf));
 */
#ifndef GW_ERROR_H
#define GW_ERROR_H

#include <stddef.h>
#include <stdint.h>

enum gw_code {
    GW_OK = 0,
    GW_ENOMEM = -1,   /* out of memory, or the memory cap was reached */
    GW_EIO = -2,      /* the operating system refused a read, write or open */
    GW_EFORMAT = -3,  /* the input is not in a format we read */
    GW_ETRUNC = -4,   /* the input ends early; what came before was kept */
    GW_EUSAGE = -5,   /* the caller asked for something that makes no sense */
    GW_EINTERNAL = -6,/* a promise of this program does not hold: a defect */
    GW_ENODATA = -7,  /* readable, but nothing in it that can be diagnosed */
    GW_ENOTSUP = -8,  /* built without the library that this needs */
    GW_EINTR = -9     /* the user interrupted */
};

#if defined(__GNUC__)
#define GW_PRINTF(a, b) __attribute__((format(printf, a, b)))
#else
#define GW_PRINTF(a, b)
#endif

struct gw_error {
    int code;          /* 0 or an enum gw_code */
    int64_t byte;      /* offset in the (decompressed) input, -1 when unknown */
    int64_t line;      /* line in a text input, 0 when unknown */
    char file[256];    /* path as the user gave it, may be cut */
    char what[256];    /* one clause: what is wrong */
    char advice[256];  /* one clause: what to do; may be empty */
};

/* Fills `err` unless it already holds an error. `err` may be NULL. Returns `code`, for `return gw_error_set(...)`.
 * `fmt` and `advice` are translated here, and found for translation by the name of this function: no _() around them. */
int gw_error_set(struct gw_error *err, int code, const char *file, int64_t byte, const char *advice,
                 const char *fmt, ...) GW_PRINTF(6, 7);

/* One line without newline: "FILE: byte N: WHAT; ADVICE". Control characters are replaced. Returns `buf`. */
const char *gw_error_text(const struct gw_error *err, char *buf, size_t cap);

/* The name of a code ("out of memory", ...) in the user's language. Never NULL. */
const char *gw_code_name(int code);

#endif
