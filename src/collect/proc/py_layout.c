/* py_layout.c - see py_layout.h */
#include "collect/proc/py_layout.h"

#include <string.h>

#define NONE GW_PY_NONE

static const struct gw_py_layout layouts[] = {
    {.version = 0x0308,
     .interp_head = 32,
     .interp_next = 0,
     .threads = 8,
     .gil = 1152,
     .ts_next = 8,
     .ts_pthread = 176,
     .ts_tid = NONE,
     .ts_frame = 24,
     .cframe_frame = NONE,
     .f_back = 24,
     .f_code = 32,
     .f_at = 104,
     .f_owner = NONE,
     .at_is_index = 1,
     .at_scale = 1,
     .co_file = 104,
     .co_name = 112,
     .co_qualname = NONE,
     .co_first = 40,
     .co_lines = 120,
     .co_code = NONE,
     .lines = GW_PY_LNOTAB,
     .str_length = 16,
     .str_state = 32,
     .str_ascii = 48,
     .str_compact = 72,
     .bytes_size = 16,
     .bytes_text = 32,
     .gil_holder = 8,
     .gil_locked = 16,
     .gil_bytes = 208},
    {.version = 0x0309,
     .interp_head = 32,
     .interp_next = 0,
     .threads = 8,
     .gil = 352,
     .ts_next = 8,
     .ts_pthread = 176,
     .ts_tid = NONE,
     .ts_frame = 24,
     .cframe_frame = NONE,
     .f_back = 24,
     .f_code = 32,
     .f_at = 104,
     .f_owner = NONE,
     .at_is_index = 1,
     .at_scale = 1,
     .co_file = 104,
     .co_name = 112,
     .co_qualname = NONE,
     .co_first = 40,
     .co_lines = 120,
     .co_code = NONE,
     .lines = GW_PY_LNOTAB,
     .str_length = 16,
     .str_state = 32,
     .str_ascii = 48,
     .str_compact = 72,
     .bytes_size = 16,
     .bytes_text = 32,
     .gil_holder = 8,
     .gil_locked = 16,
     .gil_bytes = 208},
    {.version = 0x030a,
     .interp_head = 32,
     .interp_next = 0,
     .threads = 8,
     .gil = 352,
     .ts_next = 8,
     .ts_pthread = 176,
     .ts_tid = NONE,
     .ts_frame = 24,
     .cframe_frame = NONE,
     .f_back = 24,
     .f_code = 32,
     .f_at = 96,
     .f_owner = NONE,
     .at_is_index = 1,
     .at_scale = 2,
     .co_file = 104,
     .co_name = 112,
     .co_qualname = NONE,
     .co_first = 40,
     .co_lines = 120,
     .co_code = NONE,
     .lines = GW_PY_LINES_310,
     .str_length = 16,
     .str_state = 32,
     .str_ascii = 48,
     .str_compact = 72,
     .bytes_size = 16,
     .bytes_text = 32,
     .gil_holder = 8,
     .gil_locked = 16,
     .gil_bytes = 208},
    {.version = 0x030b,
     .interp_head = 40,
     .interp_next = 0,
     .threads = 16,
     .gil = 360,
     .ts_next = 8,
     .ts_pthread = 152,
     .ts_tid = 160,
     .ts_frame = 56,
     .cframe_frame = 8,
     .f_back = 48,
     .f_code = 32,
     .f_at = 56,
     .f_owner = 69,
     .co_file = 112,
     .co_name = 120,
     .co_qualname = 128,
     .co_first = 72,
     .co_lines = 136,
     .co_code = 184,
     .lines = GW_PY_LINES_311,
     .str_length = 16,
     .str_state = 32,
     .str_ascii = 48,
     .str_compact = 72,
     .bytes_size = 16,
     .bytes_text = 32,
     .gil_holder = 8,
     .gil_locked = 16,
     .gil_bytes = 208},
    {.version = 0x030c,
     .interp_head = 40,
     .interp_next = 0,
     .threads = 72,
     .gil = 384,
     .gil_is_pointer = 1,
     .ts_next = 8,
     .ts_pthread = 136,
     .ts_tid = 144,
     .ts_frame = 56,
     .cframe_frame = 0,
     .f_back = 8,
     .f_code = 0,
     .f_at = 56,
     .f_owner = 70,
     .co_file = 112,
     .co_name = 120,
     .co_qualname = 128,
     .co_first = 68,
     .co_lines = 136,
     .co_code = 192,
     .lines = GW_PY_LINES_311,
     .str_length = 16,
     .str_state = 32,
     .str_ascii = 40,
     .str_compact = 56,
     .bytes_size = 16,
     .bytes_text = 32,
     .gil_holder = 8,
     .gil_locked = 16,
     .gil_bytes = 208},
};

const struct gw_py_layout *gw_py_layout_find(unsigned version)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].version == version)
            return layouts + i;
    return NULL;
}

/* Word numbers in _Py_DebugOffsets, after the cookie (word 0); 3.14 added members. Columns: 3.13, 3.14. */
enum word {
    W_VERSION,
    W_INTERP_HEAD,
    W_INTERP_NEXT,
    W_THREADS,
    W_GIL,
    W_TS_NEXT,
    W_TS_FRAME,
    W_TS_PTHREAD,
    W_TS_TID,
    W_F_BACK,
    W_F_CODE,
    W_F_AT,
    W_F_OWNER,
    W_CO_FILE,
    W_CO_NAME,
    W_CO_QUALNAME,
    W_CO_LINES,
    W_CO_FIRST,
    W_CO_CODE,
    W_BYTES_SIZE,
    W_BYTES_TEXT,
    W_STR_STATE,
    W_STR_LENGTH,
    W_STR_ASCII,
    WORDS
};
static const uint8_t words[2][WORDS] = {
    {1, 5, 8, 9, 14, 21, 23, 24, 25, 29, 30, 31, 33, 35, 36, 37, 38, 39, 43, 65, 66, 68, 69, 70},
    {1, 5, 8, 9, 15, 24, 26, 27, 28, 32, 33, 34, 36, 40, 41, 42, 43, 44, 48, 75, 76, 78, 79, 80}};

int gw_py_layout_read(const unsigned char *table, struct gw_py_layout *out)
{
    uint64_t w[GW_PY_DEBUG_OFFSETS / 8];
    memcpy(w, table, sizeof w);
    unsigned version = (unsigned)(w[1] >> 16) & 0xffff;
    if (memcmp(table, "xdebugpy", 8) != 0 || version < 0x030d || version > 0x030e)
        return -1;
    const uint8_t *col = words[version >= 0x030e];
    uint16_t v[WORDS];
    for (int i = 1; i < WORDS; i++) {
        if (w[col[i]] >= 60000) /* no member is that far inside its struct, except in the interpreter: still less */
            return -1;
        v[i] = (uint16_t)w[col[i]];
    }
    *out = (struct gw_py_layout){.version = version,
                                 .interp_head = v[W_INTERP_HEAD],
                                 .interp_next = v[W_INTERP_NEXT],
                                 .threads = v[W_THREADS],
                                 .gil = v[W_GIL],
                                 .gil_is_pointer = 1,
                                 .ts_next = v[W_TS_NEXT],
                                 .ts_pthread = v[W_TS_PTHREAD],
                                 .ts_tid = v[W_TS_TID],
                                 .ts_frame = v[W_TS_FRAME],
                                 .cframe_frame = NONE,
                                 .f_back = v[W_F_BACK],
                                 .f_code = v[W_F_CODE],
                                 .f_at = v[W_F_AT],
                                 .f_owner = v[W_F_OWNER],
                                 .co_file = v[W_CO_FILE],
                                 .co_name = v[W_CO_NAME],
                                 .co_qualname = v[W_CO_QUALNAME],
                                 .co_first = v[W_CO_FIRST],
                                 .co_lines = v[W_CO_LINES],
                                 .co_code = v[W_CO_CODE],
                                 .lines = GW_PY_LINES_311,
                                 .str_length = v[W_STR_LENGTH],
                                 .str_state = v[W_STR_STATE],
                                 .str_ascii = v[W_STR_ASCII],
                                 .str_compact = (uint16_t)(v[W_STR_ASCII] + 16),
                                 .bytes_size = v[W_BYTES_SIZE],
                                 .bytes_text = v[W_BYTES_TEXT],
                                 .gil_holder = 8,
                                 .gil_locked = 16,
                                 .gil_bytes = 208};
    if (w[2]) /* free-threaded: the lock has one more member in front; it is off as a rule */
        out->gil = NONE;
    return 0;
}

/* --- line tables
 * --------------------------------------------------------------------------------------------------------- */

static int lnotab(const unsigned char *t, size_t len, int first, int at)
{
    int line = first, addr = 0;
    for (size_t i = 0; i + 1 < len; i += 2) {
        addr += t[i];
        if (addr > at)
            break;
        line += (signed char)t[i + 1];
    }
    return line;
}

static int lines_310(const unsigned char *t, size_t len, int first, int at)
{
    int line = first, end = 0;
    for (size_t i = 0; i + 1 < len; i += 2) {
        int delta = (signed char)t[i + 1];
        end += t[i];
        if (delta != -128) /* no line: artificial code */
            line += delta;
        if (at < end)
            return line;
    }
    return line;
}

static unsigned varint(const unsigned char *t, size_t len, size_t *i)
{
    unsigned v = 0;
    for (int shift = 0; *i < len && shift < 30; shift += 6) {
        unsigned b = t[(*i)++];
        v |= (b & 63u) << shift;
        if (!(b & 64u))
            break;
    }
    return v;
}

static int svarint(const unsigned char *t, size_t len, size_t *i)
{
    unsigned v = varint(t, len, i);
    return v & 1 ? -(int)(v >> 1) : (int)(v >> 1);
}

static int lines_311(const unsigned char *t, size_t len, int first, int at)
{
    int line = first, addr = 0;
    for (size_t i = 0; i < len;) {
        unsigned b = t[i++], code = (b >> 3) & 15;
        addr += (int)((b & 7) + 1) * 2;
        if (code == 14) {
            line += svarint(t, len, &i);
            (void)varint(t, len, &i);
            (void)varint(t, len, &i);
            (void)varint(t, len, &i);
        } else if (code == 13) {
            line += svarint(t, len, &i);
        } else if (code >= 10 && code <= 12) {
            line += (int)code - 10;
            i += 2;
        } else if (code < 10) {
            i += 1;
        }
        if (at < addr)
            return line;
    }
    return line;
}

int gw_py_line(unsigned lines, const unsigned char *table, size_t len, int first, int at)
{
    switch (lines) {
    case GW_PY_LNOTAB: return lnotab(table, len, first, at);
    case GW_PY_LINES_310: return lines_310(table, len, first, at);
    default: return lines_311(table, len, first, at);
    }
}
