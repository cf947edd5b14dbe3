/*
 * py_layout.h - where CPython keeps what a stack reader needs: offsets for each version, 64-bit Linux.
 *
 * 3.8 to 3.12 from one table, compiled from each version's own headers; from 3.13 on from the table of offsets that the
 * interpreter carries itself (_Py_DebugOffsets at the start of _PyRuntime). Free-threaded builds are read through that.
 */
#ifndef GW_PY_LAYOUT_H
#define GW_PY_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

enum gw_py_lines { GW_PY_LNOTAB, GW_PY_LINES_310, GW_PY_LINES_311 };
enum {
    GW_PY_NONE = UINT16_MAX,
    GW_PY_DEBUG_OFFSETS = 768
}; /* bytes of _Py_DebugOffsets to read: 584 in 3.13, 760 in 3.14 */

struct gw_py_layout {
    unsigned version;     /* 0x030c = 3.12 */
    uint16_t interp_head; /* in _PyRuntime */
    uint16_t interp_next;
    uint16_t threads; /* in the interpreter: newest thread state */
    uint16_t gil;     /* the lock itself in _PyRuntime (gil_is_pointer 0), or a pointer to it in the interpreter (1) */
    uint8_t gil_is_pointer;
    uint16_t ts_next, ts_pthread, ts_tid;   /* ts_tid GW_PY_NONE before 3.11 */
    uint16_t ts_frame;                      /* frame, or pointer to the cframe */
    uint16_t cframe_frame;                  /* GW_PY_NONE: ts_frame is the frame */
    uint16_t f_back, f_code, f_at, f_owner; /* f_owner GW_PY_NONE before 3.11 */
    uint8_t at_is_index; /* f_at is an int: the index of the instruction, times at_scale in bytes; else an address */
    uint8_t at_scale;
    uint16_t co_file, co_name, co_qualname, co_first, co_lines,
        co_code;                                            /* co_qualname, co_code GW_PY_NONE before 3.11 */
    uint8_t lines;                                          /* enum gw_py_lines */
    uint16_t str_length, str_state, str_ascii, str_compact; /* text of ASCII strings and of others */
    uint16_t bytes_size, bytes_text;
    uint16_t gil_holder, gil_locked, gil_bytes;
};

/* The layout of `version` (0x0308 to 0x030c). NULL when it is none of those. */
const struct gw_py_layout *gw_py_layout_find(unsigned version);
/* From the first GW_PY_DEBUG_OFFSETS bytes of _PyRuntime, 3.13 and later. 0, or -1 when it is not such a table. */
int gw_py_layout_read(const unsigned char *table, struct gw_py_layout *out);

/* Line of the instruction at byte `at` of a code object. `first` when the table does not say. */
int gw_py_line(unsigned lines, const unsigned char *table, size_t len, int first, int at);

#endif
