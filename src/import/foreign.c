#include "import/foreign.h"

#include <string.h>
#include <strings.h>

#include "base/gw_i18n.h"

#define TRACE N_("give a trace that torch.profiler wrote: prof.export_chrome_trace(\"trace.json\")")

struct magic {
    size_t at; /* offset; SOMEWHERE: anywhere in the first 64 bytes */
    const char *bytes;
    size_t n;
    struct gw_foreign is;
};

enum { SOMEWHERE = 4096 };

#define M(s) s, sizeof s - 1

/* First bytes as the formats' own documents (or file(1)'s data base) give them. */
static const struct magic magics[] = {
    {0,
     M("SQLite format 3\0"),
     {N_("is an SQLite data base"), N_("this gpuwhy reads those of Nsight Systems when it was built with SQLite")}},
    {0,
     M("\x7f"
       "ELF"),
     {N_("is a program or library"), TRACE}},
    {0, M("\x89PNG"), {N_("is a PNG image"), TRACE}},
    {0, M("\xff\xd8\xff"), {N_("is a JPEG image"), TRACE}},
    {0, M("%PDF"), {N_("is a PDF document"), TRACE}},
    {0,
     M("PK\x03\x04"),
     {N_("is a zip archive (torch.save writes those too)"), N_("unpack it, and give the trace inside")}},
    {257, M("ustar"), {N_("is a tar archive"), N_("unpack it: tar -xf FILE, and give the trace inside")}},
    {0,
     M("\xfd"
       "7zXZ"),
     {N_("is compressed with xz"), N_("decompress it first: xz -d FILE")}},
    {0, M("BZh"), {N_("is compressed with bzip2"), N_("decompress it first: bzip2 -d FILE")}},
    {0, M("\x04\x22\x4d\x18"), {N_("is compressed with lz4"), N_("decompress it first: lz4 -d FILE")}},
    {0, M("7z\xbc\xaf"), {N_("is a 7-zip archive"), N_("unpack it, and give the trace inside")}},
    {0, M("\x1f\x8b"), {N_("is compressed twice"), N_("decompress it once: gzip -d FILE")}},
    {0, M("\x28\xb5\x2f\xfd"), {N_("is compressed twice"), N_("decompress it once: zstd -d FILE")}},
    {0, M("\x89HDF"), {N_("is an HDF5 file"), TRACE}},
    {0, M("\x93NUMPY"), {N_("is a NumPy array"), TRACE}},
    {0, M("PAR1"), {N_("is a Parquet file"), TRACE}},
    {0, M("NVR\0"), {N_("is a Nsight Compute report"), N_("export it: ncu --import FILE --csv --page raw")}},
    {0, M("\xff\xfe"), {N_("is UTF-16 text"), N_("convert it first: iconv -f UTF-16 -t UTF-8 FILE")}},
    {0, M("\xfe\xff"), {N_("is UTF-16 text"), N_("convert it first: iconv -f UTF-16 -t UTF-8 FILE")}},
    {0, M("\x80\x02"), {N_("is a Python pickle (a memory snapshot or a checkpoint, perhaps)"), TRACE}},
    {0, M("\x80\x03"), {N_("is a Python pickle (a memory snapshot or a checkpoint, perhaps)"), TRACE}},
    {0, M("\x80\x04"), {N_("is a Python pickle (a memory snapshot or a checkpoint, perhaps)"), TRACE}},
    {0, M("\x80\x05"), {N_("is a Python pickle (a memory snapshot or a checkpoint, perhaps)"), TRACE}},
    {0,
     M("version https://git-lfs"),
     {N_("is a Git LFS pointer, not the file itself"), N_("fetch the file: git lfs pull")}},
    {0,
     M("<!doctype html"),
     {N_("is an HTML page (a login or error page that was saved, perhaps)"), N_("download the trace itself")}},
    {0,
     M("<html"),
     {N_("is an HTML page (a login or error page that was saved, perhaps)"), N_("download the trace itself")}},
    {0, M("<?xml"), {N_("is XML"), TRACE}},
    {SOMEWHERE,
     M("brain.Event:"),
     {N_("is a TensorBoard event file"), N_("the trace lies beside it, in plugins/profile or as *.pt.trace.json")}},
};

static const struct {
    const char *suffix;
    struct gw_foreign is;
} suffixes[] = {
    {".nsys-rep", {N_("is a Nsight Systems report"), N_("export it: nsys export --type sqlite FILE")}},
    {".qdrep", {N_("is a Nsight Systems report"), N_("export it: nsys export --type sqlite FILE")}},
    {".ncu-rep", {N_("is a Nsight Compute report"), N_("export it: ncu --import FILE --csv --page raw")}},
    {".pftrace", {N_("is a Perfetto trace in binary form"), N_("give the .json that torch.profiler wrote beside it")}},
    {".perfetto-trace",
     {N_("is a Perfetto trace in binary form"), N_("give the .json that torch.profiler wrote beside it")}},
    {".xplane.pb", {N_("is an XLA profile"), TRACE}},
};

static int matches(const struct magic *m, const unsigned char *head, size_t len)
{
    if (m->at == SOMEWHERE)
        return memmem(head, len < 64 ? len : 64, m->bytes, m->n) != NULL;
    if (len < m->at + m->n)
        return 0;
    if (m->bytes[0] == '<') /* markup: no case, and white space may come first */
        return !strncasecmp((const char *)head + m->at, m->bytes, m->n);
    return !memcmp(head + m->at, m->bytes, m->n);
}

static int ends_in(const char *s, const char *suffix)
{
    size_t n = strlen(s), k = strlen(suffix);
    return n >= k && !strcasecmp(s + n - k, suffix);
}

const struct gw_foreign *gw_foreign_find(const char *path, const unsigned char *head, size_t len)
{
    static const struct gw_foreign empty = {N_("the file is empty"),
                                            N_("the profiler may not have finished writing it")};
    static const struct gw_foreign zeros = {N_("the file holds zeros only: its data never reached the disk"),
                                            N_("copy it again, or record again")};
    static const struct gw_foreign unknown = {N_("is in no format that can be read"), TRACE};
    size_t i = 0, z = 0;
    if (len == 0)
        return &empty;
    for (i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (ends_in(path, suffixes[i].suffix))
            return &suffixes[i].is;
    size_t ws = 0;
    while (ws < len && strchr(" \t\r\n", head[ws]) && head[ws])
        ws++;
    for (i = 0; i < sizeof magics / sizeof *magics; i++) {
        size_t skip = magics[i].bytes[0] == '<' ? ws : 0;
        if (matches(&magics[i], head + skip, len - skip))
            return &magics[i].is;
    }
    while (z < len && head[z] == 0)
        z++;
    return z == len ? &zeros : &unknown;
}
