#include "check_fixture.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void fail(const char *what, const char *path)
{
    fprintf(stderr, "fixture: %s %s: %s\n", what, path, strerror(errno));
    exit(2);
}

static const char *temporary(void)
{
    const char *t = getenv("TMPDIR");
    return t && *t ? t : "/tmp";
}

static void make_parents(const char *path, size_t keep)
{
    char copy[4096];
    snprintf(copy, sizeof copy, "%s", path);
    for (char *p = copy + keep; (p = strchr(p + 1, '/'));) {
        *p = '\0';
        if (mkdir(copy, 0755) < 0 && errno != EEXIST)
            fail("mkdir", copy);
        *p = '/';
    }
}

void fixture_unpack(const char *manifest, char *dir, size_t cap)
{
    char line[8192], path[4096], a[2048], b[2048];
    FILE *in = fopen(manifest, "r"), *out = NULL;
    if (!in)
        fail("open", manifest);
    snprintf(dir, cap, "%s/gpuwhy-fixture-XXXXXX", temporary());
    if (!mkdtemp(dir))
        fail("mkdtemp", dir);
    while (fgets(line, sizeof line, in)) {
        if (sscanf(line, "=== %2047s", a) == 1 || sscanf(line, "+++ %2047s", a) == 1) {
            if (out)
                fclose(out);
            out = NULL;
            snprintf(path, sizeof path, "%s%s%s", dir, a, line[0] == '+' ? "/" : "");
            make_parents(path, strlen(dir));
            if (line[0] == '=' && !(out = fopen(path, "w")))
                fail("create", path);
        } else if (sscanf(line, "--> %2047s %2047s", a, b) == 2) {
            snprintf(path, sizeof path, "%s%s", dir, a);
            make_parents(path, strlen(dir));
            if (symlink(b, path) < 0)
                fail("link", path);
        } else if (out) {
            fputs(line, out);
        }
    }
    if (out)
        fclose(out);
    fclose(in);
}

void fixture_file(const char *text, size_t len, char *path, size_t cap)
{
    snprintf(path, cap, "%s/gpuwhy-fixture-XXXXXX", temporary());
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, text, len) != (ssize_t)len)
        fail("write", path);
    close(fd);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
    (void)st, (void)type, (void)f;
    return remove(path);
}

void fixture_remove(const char *path)
{
    if (strstr(path, "gpuwhy-fixture-"))
        nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

char *fixture_read(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    size_t cap = 1 << 20, n = 0, got;
    char *data = malloc(cap);
    while (data && (got = fread(data + n, 1, cap - n - 1, f)) > 0) {
        n += got;
        if (n + 1 == cap) {
            char *more = realloc(data, cap *= 2);
            if (!more)
                free(data);
            data = more;
        }
    }
    fclose(f);
    if (data)
        data[n] = '\0';
    *len = n;
    return data;
}
