/*
 * Which GPU architectures a library holds code for, from the headers of its fat binaries: 16 bytes per fat binary
 * (magic 0xBA55ED50, header size, content size), then one header per image (kind 1 = PTX, 2 = SASS; sizes; at byte 28
 * the architecture, 90 = 9.0). NVIDIA does not document the format; it has been the same from CUDA 9 to 13, and
 * anything that does not look like it ends the reading with "not known".
 */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "collect/live/live.h"

enum {
    MAX_SECTIONS = 4096,
    MAX_ARCH = 256 /* in tenths: 25.5 */
};
#define MAX_SECONDS 0.4 /* libtorch_cuda has some thousand headers; on a cold network disk each is a read */
#define MAGIC 0xBA55ED50u

static int get(int fd, uint64_t at, void *buf, size_t n)
{
    return at < INT64_MAX && pread(fd, buf, n, (off_t)at) == (ssize_t)n;
}

static uint64_t u64(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static uint32_t u32(const unsigned char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* The section ".nv_fatbin" of a 64-bit ELF file of this machine's byte order. */
static int find_section(int fd, uint64_t size, uint64_t *start, uint64_t *length)
{
    Elf64_Ehdr eh;
    Elf64_Shdr sh, names;
    char name[16];
    if (!get(fd, 0, &eh, sizeof eh) || memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 || eh.e_ident[EI_CLASS] != ELFCLASS64 ||
        eh.e_shentsize != sizeof sh || eh.e_shnum > MAX_SECTIONS || eh.e_shstrndx >= eh.e_shnum ||
        !get(fd, eh.e_shoff + (uint64_t)eh.e_shstrndx * sizeof sh, &names, sizeof names))
        return 0;
    for (unsigned i = 0; i < eh.e_shnum; i++) {
        if (!get(fd, eh.e_shoff + (uint64_t)i * sizeof sh, &sh, sizeof sh) ||
            !get(fd, names.sh_offset + sh.sh_name, name, 11))
            continue;
        if (memcmp(name, ".nv_fatbin", 11) == 0 && sh.sh_offset < size && sh.sh_size <= size - sh.sh_offset) {
            *start = sh.sh_offset;
            *length = sh.sh_size;
            return 1;
        }
    }
    return 0;
}

struct found {
    unsigned char kinds[MAX_ARCH];
    int images;
}; /* bit 0 = SASS, bit 1 = PTX */

/* The images of one fat binary. 0 when it does not look like one. */
static int images(int fd, uint64_t at, uint64_t end, struct found *f)
{
    unsigned char h[32];
    while (end - at >= sizeof h) {
        if (!get(fd, at, h, sizeof h))
            return 0;
        unsigned kind = (unsigned)h[0] | (unsigned)h[1] << 8;
        uint64_t header = u32(h + 4), payload = u64(h + 8);
        uint32_t arch = u32(h + 28);
        if (header < 32 || header > 4096 || payload > end - at || header > end - at - payload)
            return kind == 0; /* padding */
        if ((kind == 1 || kind == 2) && arch >= 20 && arch < MAX_ARCH) {
            f->kinds[arch] |= kind == 2 ? 1 : 2;
            f->images++;
        }
        at += header + payload;
    }
    return 1;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* "8.0 9.0+PTX ptx12.0 ...": SASS, SASS and PTX, PTX alone; dots when the time was up before the end. */
static void write_list(const struct found *f, int all, char *out, size_t cap)
{
    size_t used = 0;
    for (unsigned a = 0; a < MAX_ARCH && used + 20 < cap; a++)
        if (f->kinds[a])
            used += (size_t)snprintf(out + used, cap - used, "%s%s%u.%u%s", used ? " " : "",
                                     f->kinds[a] == 2 ? "ptx" : "", a / 10, a % 10, f->kinds[a] == 3 ? "+PTX" : "");
    if (!all)
        snprintf(out + used, cap - used, " ...");
}

int gw_fatbin_archs(const char *path, char *out, size_t cap)
{
    struct found f = {.images = 0};
    struct stat st;
    uint64_t start, length;
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = -1;
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0 || st.st_size <= 0 || !find_section(fd, (uint64_t)st.st_size, &start, &length))
        goto out;
    uint64_t at = start, end = start + length;
    double until = now() + MAX_SECONDS;
    int all = 1;
    while (end - at >= 16) {
        unsigned char h[16];
        if (!get(fd, at, h, sizeof h))
            goto out;
        if (u32(h) == 0) { /* alignment between fat binaries */
            at += 8;
            continue;
        }
        uint64_t header = (uint64_t)h[6] | (uint64_t)h[7] << 8, content = u64(h + 8);
        if (u32(h) != MAGIC || header < 16 || header > end - at || content > end - at - header ||
            !images(fd, at + header, at + header + content, &f))
            goto out;
        at += header + content;
        at = (at - start + 7) / 8 * 8 + start;
        if (at > end)
            break;
        if (now() > until) {
            all = 0;
            break;
        }
    }
    write_list(&f, all, out, cap);
    rc = f.images ? 0 : -1;
out:
    close(fd);
    return rc;
}
