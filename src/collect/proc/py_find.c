/* py_find.c - see py_find.h */
#include "collect/proc/py_find.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MAX_SECTIONS = 512, MAX_TABLE = 64 << 20 };

long gw_py_memory(int pid, uint64_t addr, void *buf, size_t n)
{
    struct iovec mine = {buf, n}, theirs = {(void *)(uintptr_t)addr, n};
    ssize_t got = process_vm_readv(pid, &mine, 1, &theirs, 1, 0);
    if (got < 0)
        return -errno;
    return (size_t)got == n ? (long)n : -EFAULT;
}

/* --- the interpreter's file among the mappings
 * ------------------------------------------------------------------------------ */

struct image {
    char path[PATH_MAX];
    uint64_t start;   /* of the mapping of the file's beginning */
    unsigned version; /* from its name, 0 unknown */
};

/* "python3.11", "libpython3.11.so.1.0", "libpython3.13t.so": the version; 0 = another name. "python", "python3": 1. */
static unsigned version_in(const char *base)
{
    const char *p = strncmp(base, "libpython", 9) == 0 ? base + 9 : strncmp(base, "python", 6) == 0 ? base + 6 : NULL;
    unsigned minor = 0;
    if (!p)
        return 0;
    if (*p == 0 || strcmp(p, "3") == 0)
        return 1;
    if (p[0] != '3' || p[1] != '.' || !isdigit((unsigned char)p[2]))
        return 0;
    for (p += 2; isdigit((unsigned char)*p) && minor < 100; p++)
        minor = minor * 10 + (unsigned)(*p - '0');
    return 0x0300u | minor;
}

/* A shared libpython holds the runtime, else the program itself does. */
static int find_image(int proc_root, int pid, struct image *best)
{
    char name[40], line[PATH_MAX + 200];
    snprintf(name, sizeof name, "%d/maps", pid);
    int fd = openat(proc_root, name, O_RDONLY | O_CLOEXEC), is_lib = 0;
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    if (!f) {
        int why = errno;
        if (fd >= 0)
            close(fd);
        return -why;
    }
    best->path[0] = 0;
    while (fgets(line, sizeof line, f)) {
        unsigned long long start, offset;
        int at = 0;
        if (sscanf(line, "%llx-%*x %*s %llx %*s %*s %n", &start, &offset, &at) != 2 || !at || line[at] != '/' ||
            offset != 0)
            continue;
        line[strcspn(line, "\n")] = 0;
        const char *base = strrchr(line + at, '/') + 1;
        unsigned v = version_in(base);
        int lib = strncmp(base, "lib", 3) == 0;
        if (!v || (best->path[0] && !(lib && !is_lib)))
            continue;
        snprintf(best->path, sizeof best->path, "%s", line + at);
        best->start = start;
        best->version = v == 1 ? 0 : v;
        is_lib = lib;
    }
    fclose(f);
    return best->path[0] ? 0 : -ENOENT;
}

/* As the process sees it; by our own name when we may not look through its root. */
static int open_image(int proc_root, int pid, const char *path)
{
    char name[PATH_MAX + 40];
    snprintf(name, sizeof name, "%d/root%s", pid, path);
    int fd = openat(proc_root, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return fd >= 0 ? fd : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

/* --- ELF
 * --------------------------------------------------------------------------------------------------------------------
 */

static void *read_at(int fd, uint64_t at, uint64_t n)
{
    if (n == 0 || n > MAX_TABLE)
        return NULL;
    char *buf = malloc(n + 1);
    for (uint64_t done = 0; buf && done < n;) {
        ssize_t got = pread(fd, buf + done, n - done, (off_t)(at + done));
        if (got <= 0) {
            free(buf);
            return NULL;
        }
        done += (uint64_t)got;
    }
    if (buf)
        buf[n] = 0;
    return buf;
}

struct found {
    uint64_t runtime, version;
}; /* virtual addresses in the file, 0 not found */

static void scan_symbols(int fd, const Elf64_Shdr *table, const Elf64_Shdr *strings, struct found *out)
{
    Elf64_Sym *sym = read_at(fd, table->sh_offset, table->sh_size);
    char *text = read_at(fd, strings->sh_offset, strings->sh_size);
    size_t n = sym && text ? table->sh_size / sizeof *sym : 0;
    for (size_t i = 0; i < n; i++) {
        if (sym[i].st_name >= strings->sh_size || !sym[i].st_value)
            continue;
        const char *name = text + sym[i].st_name;
        if (strcmp(name, "_PyRuntime") == 0)
            out->runtime = sym[i].st_value;
        else if (strcmp(name, "Py_Version") == 0)
            out->version = sym[i].st_value;
    }
    free(sym);
    free(text);
}

/* First loadable address of the file: what its start in memory corresponds to. 0 or -ENOEXEC. */
static int load_address(int fd, const Elf64_Ehdr *h, uint64_t *out)
{
    Elf64_Phdr *p = h->e_phentsize == sizeof *p ? read_at(fd, h->e_phoff, (uint64_t)h->e_phnum * sizeof *p) : NULL;
    int rc = -ENOEXEC;
    for (unsigned i = 0; p && i < h->e_phnum && rc < 0; i++)
        if (p[i].p_type == PT_LOAD) {
            *out = p[i].p_vaddr & ~(uint64_t)0xfff;
            rc = 0;
        }
    free(p);
    return rc;
}

static int scan_file(int fd, struct found *out, uint64_t *first)
{
    Elf64_Ehdr h;
    memset(out, 0, sizeof *out);
    if (pread(fd, &h, sizeof h, 0) != (ssize_t)sizeof h || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 ||
        h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_shnum > MAX_SECTIONS ||
        h.e_shentsize != sizeof(Elf64_Shdr) || load_address(fd, &h, first) < 0)
        return -ENOEXEC;
    Elf64_Shdr *s = read_at(fd, h.e_shoff, (uint64_t)h.e_shnum * sizeof *s);
    if (!s)
        return -ENOEXEC;
    for (unsigned pass = 0; pass < 2 && !out->runtime; pass++)
        for (unsigned i = 0; i < h.e_shnum; i++)
            if (s[i].sh_type == (pass ? SHT_SYMTAB : SHT_DYNSYM) && s[i].sh_link < h.e_shnum)
                scan_symbols(fd, s + i, s + s[i].sh_link, out);
    /* A stripped file still has the section that was made for readers like us (3.11 and later). */
    char *names = !out->runtime && h.e_shstrndx < h.e_shnum
                      ? read_at(fd, s[h.e_shstrndx].sh_offset, s[h.e_shstrndx].sh_size)
                      : NULL;
    for (unsigned i = 0; names && i < h.e_shnum; i++)
        if (s[i].sh_name < s[h.e_shstrndx].sh_size && strcmp(names + s[i].sh_name, ".PyRuntime") == 0)
            out->runtime = s[i].sh_addr;
    free(names);
    free(s);
    return out->runtime ? 0 : -ENOEXEC;
}

int gw_py_find(int proc_root, int pid, struct gw_py_place *out)
{
    struct image im;
    struct found f;
    uint64_t first;
    int rc = find_image(proc_root, pid, &im);
    if (rc < 0)
        return rc;
    int fd = open_image(proc_root, pid, im.path);
    if (fd < 0)
        return -errno;
    rc = scan_file(fd, &f, &first);
    close(fd);
    if (rc < 0)
        return rc;
    uint64_t bias = im.start - first;
    out->runtime = f.runtime + bias;
    out->version = im.version;
    uint64_t word; /* Py_Version is an unsigned long: 0x030c01f0 */
    if (f.version && gw_py_memory(pid, f.version + bias, &word, sizeof word) > 0 && word >> 24 == 3)
        out->version = (unsigned)(word >> 16);
    return 0;
}
