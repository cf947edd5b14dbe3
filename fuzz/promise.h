/* promise.h - what the fuzz targets share: a promise that is broken ends the run, and an input becomes a file. */
#ifndef GW_FUZZ_PROMISE_H
#define GW_FUZZ_PROMISE_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void require(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "broken promise: %s\n", what);
        abort();
    }
}

/* `data` becomes the file `name` in the folder `dir`. */
static inline void write_raw(int dir, const char *name, const uint8_t *data, size_t size)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    require(fd >= 0 && write(fd, data, size) == (ssize_t)size, "a file can be written");
    close(fd);
}

#endif
