/* Runs files, and all files of folders, through a fuzz target: the corpus as a plain test. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0)
        return -1;
    long size = ftell(f);
    uint8_t *data = size >= 0 ? malloc((size_t)size + 1) : NULL;
    rewind(f);
    int ok = data && fread(data, 1, (size_t)size, f) == (size_t)size;
    fclose(f);
    if (ok) {
        /* In memory of exactly its size, so that a sanitizer sees each byte read too far. */
        uint8_t *exact = size ? realloc(data, (size_t)size) : data;
        data = exact ? exact : data;
        LLVMFuzzerTestOneInput(data, (size_t)size);
    }
    free(data);
    return ok ? 0 : -1;
}

static int run(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return -1;
    if (!S_ISDIR(st.st_mode))
        return run_file(path) < 0 ? -1 : 1;
    DIR *d = opendir(path);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        char sub[4096];
        if (e->d_name[0] == '.')
            continue;
        snprintf(sub, sizeof sub, "%s/%s", path, e->d_name);
        int k = run(sub);
        if (k < 0)
            return -1;
        n += k;
    }
    if (d)
        closedir(d);
    return n;
}

int main(int argc, char **argv)
{
    int n = 0;
    for (int i = 1; i < argc; i++) {
        int k = run(argv[i]);
        if (k < 0) {
            fprintf(stderr, "replay: cannot read %s\n", argv[i]);
            return 1;
        }
        n += k;
    }
    printf("%d inputs\n", n);
    return n ? 0 : 1;
}
