/* What the words in names and args of trace events mean. */
#include <string.h>
#include <strings.h>

#include "import/gw_decimal.h"
#include "import/kineto_event.h"

static int contains(const char *s, size_t n, const char *word) { return memmem(s, n, word, strlen(word)) != NULL; }

static enum gw_mem memory_word(const char *s, size_t n)
{
    /* libkineto's memoryKindString(), and "Host" of its ROCm side. Longer words of one start come first. */
    static const struct {
        const char *word;
        enum gw_mem mem;
    } words[] = {{"Pageable", GW_MEM_PAGEABLE}, {"Pinned", GW_MEM_PINNED},   {"Device", GW_MEM_DEVICE},
                 {"Array", GW_MEM_ARRAY},       {"Managed", GW_MEM_MANAGED}, {"Host", GW_MEM_HOST}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (n >= strlen(words[i].word) && !strncasecmp(s, words[i].word, strlen(words[i].word)))
            return words[i].mem;
    return GW_MEM_UNKNOWN;
}

uint32_t kineto_copy_sub(const char *name, size_t n)
{
    static const struct {
        const char *word;
        enum gw_mem src, dst;
    } ways[] = {{"HtoD", GW_MEM_HOST, GW_MEM_DEVICE},
                {"DtoH", GW_MEM_DEVICE, GW_MEM_HOST},
                {"DtoD", GW_MEM_DEVICE, GW_MEM_DEVICE},
                {"HtoH", GW_MEM_HOST, GW_MEM_HOST},
                {"PtoP", GW_MEM_DEVICE, GW_MEM_DEVICE},
                {"HtoA", GW_MEM_HOST, GW_MEM_ARRAY},
                {"AtoH", GW_MEM_ARRAY, GW_MEM_HOST},
                {"AtoA", GW_MEM_ARRAY, GW_MEM_ARRAY},
                {"AtoD", GW_MEM_ARRAY, GW_MEM_DEVICE},
                {"DtoA", GW_MEM_DEVICE, GW_MEM_ARRAY},
                {"HostToDevice", GW_MEM_HOST, GW_MEM_DEVICE},
                {"DeviceToHost", GW_MEM_DEVICE, GW_MEM_HOST},
                {"DeviceToDevice", GW_MEM_DEVICE, GW_MEM_DEVICE},
                {"HostToHost", GW_MEM_HOST, GW_MEM_HOST}};
    enum gw_mem src = GW_MEM_UNKNOWN, dst = GW_MEM_UNKNOWN;
    const char *open = memchr(name, '(', n), *end = name + n;
    const char *arrow = open ? memmem(open, (size_t)(end - open), "->", 2) : NULL;
    if (arrow) {
        src = memory_word(open + 1, (size_t)(arrow - open - 1));
        for (arrow += 2; arrow < end && *arrow == ' ';)
            arrow++;
        dst = memory_word(arrow, (size_t)(end - arrow));
    }
    for (size_t i = 0; i < sizeof ways / sizeof *ways && (!src || !dst); i++)
        if (contains(name, n, ways[i].word)) {
            src = src ? src : ways[i].src;
            dst = dst ? dst : ways[i].dst;
        }
    return gw_copy_sub(src, dst);
}

unsigned kineto_dtype_bytes(const char *s, size_t n)
{
    /* c10::ScalarType names, as toString() writes them. */
    static const struct {
        const char *name;
        unsigned bytes;
    } types[] = {{"Float", 4},
                 {"Half", 2},
                 {"BFloat16", 2},
                 {"Double", 8},
                 {"Int", 4},
                 {"Long", 8},
                 {"Short", 2},
                 {"Byte", 1},
                 {"Char", 1},
                 {"Bool", 1},
                 {"ComplexHalf", 4},
                 {"ComplexFloat", 8},
                 {"ComplexDouble", 16},
                 {"Float8_e4m3fn", 1},
                 {"Float8_e5m2", 1},
                 {"Float8_e4m3fnuz", 1},
                 {"Float8_e5m2fnuz", 1},
                 {"Float8_e8m0fnu", 1},
                 {"UInt16", 2},
                 {"UInt32", 4},
                 {"UInt64", 8}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strlen(types[i].name) == n && !strncasecmp(s, types[i].name, n))
            return types[i].bytes;
    return 0;
}

int64_t kineto_text_id(const char *s, size_t n)
{
    int64_t v;
    if (gw_decimal_id(s, n, &v))
        return v;
    if (n > 7 && !strncasecmp(s, "stream ", 7) && gw_decimal_id(s + 7, n - 7, &v))
        return v;
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a, 64 bits: offset basis and prime */
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 0x100000001b3u;
    return (int64_t)((h >> 2) | (uint64_t)1 << 62);
}
