/* promise_record.h - a fuzz input as the file of a record. */
#ifndef GW_FUZZ_PROMISE_RECORD_H
#define GW_FUZZ_PROMISE_RECORD_H

#include <stddef.h>

#include "promise.h"
#include "record/record_write.h"

/* `data` as chunks (type, stride, two bytes of length, payload) with good sums: no mutation finds those by itself. `made`: the time that the
 * file's header gives, ns after 1970; 0 = now. */
static inline void write_chunks(int dir, const char *name, uint32_t role, uint64_t made, const uint8_t *data, size_t size)
{
    struct gw_writer w;
    require(gw_writer_open(&w, dir, name, role, 7, 0) == 0, "a file can be made");
    require(!made || pwrite(w.fd, &made, sizeof made, offsetof(struct gw_rec_file, realtime_ns)) == sizeof made, "the header");
    while (size > 4) {
        size_t n = (size_t)data[2] | (size_t)data[3] << 8;
        n = n > size - 4 ? size - 4 : n;
        (void)gw_writer_append(&w, data[0], data[1] ? data[1] : 1, data + 4, (uint32_t)n);
        data += 4 + n;
        size -= 4 + n;
    }
    gw_writer_close(&w);
}

#endif
