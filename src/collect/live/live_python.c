/*
 * The Python environment that a job uses, read without running it: version files and names of installed packages.
 * Also the CUDA toolkit of the system.
 */
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/live/live.h"

enum { MAX_SITES = 8 };
struct sites {
    char path[MAX_SITES][PATH_MAX];
    int n;
};

static int folder_exists(const char *path)
{
    DIR *d = opendir(path);
    if (d)
        closedir(d);
    return d != NULL;
}

static void add_site(struct sites *s, const char *path)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->path[i], path) == 0)
            return;
    if (s->n < MAX_SITES && folder_exists(path))
        snprintf(s->path[s->n++], PATH_MAX, "%s", path);
}

/* Every <prefix>/lib/python3.*\/{site,dist}-packages. */
static void add_prefix(struct sites *s, const char *prefix)
{
    static const char *const libs[] = {"lib", "lib64", "local/lib"};
    static const char *const kinds[] = {"site-packages", "dist-packages"};
    char path[PATH_MAX];
    for (size_t k = 0; k < sizeof libs / sizeof libs[0]; k++) {
        struct dirent **names = NULL;
        snprintf(path, sizeof path, "%s/%s", prefix, libs[k]);
        int n = scandir(path, &names, NULL, versionsort);
        for (int i = n - 1; i >= 0; i--) { /* the newest first */
            if (strncmp(names[i]->d_name, "python3", 7) == 0)
                for (size_t j = 0; j < 2; j++)
                    if (snprintf(path, sizeof path, "%s/%s/%s/%s", prefix, libs[k], names[i]->d_name, kinds[j]) <
                        (int)sizeof path)
                        add_site(s, path);
            free(names[i]);
        }
        free(names);
    }
}

int gw_live_find_program(const char *name, char *out, size_t cap)
{
    const char *path = getenv("PATH");
    if (strchr(name, '/'))
        return snprintf(out, cap, "%s", name) < (int)cap && access(out, X_OK) == 0;
    while (path && *path) {
        size_t n = strcspn(path, ":");
        if (n && snprintf(out, cap, "%.*s/%s", (int)n, path, name) < (int)cap && access(out, X_OK) == 0)
            return 1;
        path += n + (path[n] == ':');
    }
    return 0;
}

/* Cuts the last two parts off: /opt/env/bin/python -> /opt/env. */
static int prefix_of(char *path)
{
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(path, '/');
        if (!slash || slash == path)
            return 0;
        *slash = '\0';
    }
    return 1;
}

/* A virtual environment is where the link stands; any other interpreter where it points. */
static void add_interpreter(struct sites *s, char *program)
{
    char prefix[PATH_MAX], real[PATH_MAX], cfg[PATH_MAX + 16];
    snprintf(prefix, sizeof prefix, "%s", program);
    if (prefix_of(prefix)) {
        snprintf(cfg, sizeof cfg, "%s/pyvenv.cfg", prefix);
        add_prefix(s, prefix);
        if (access(cfg, R_OK) == 0)
            return; /* system packages are not part of it, as a rule */
    }
    if (realpath(program, real) && prefix_of(real))
        add_prefix(s, real);
    if (s->n == 0 || strcmp(prefix, "/usr") == 0) {
        add_prefix(s, "/usr/local");
        add_site(s, "/usr/lib/python3/dist-packages");
    }
    const char *home = getenv("HOME");
    if (home && snprintf(cfg, sizeof cfg, "%s/.local", home) < (int)sizeof cfg)
        add_prefix(s, cfg);
}

static void find_sites(struct gw_live *l, struct sites *s)
{
    static const char *const vars[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};
    char program[PATH_MAX], real[PATH_MAX];
    const char *given = l->o->python;
    s->n = 0;
    if (given && folder_exists(given)) {
        add_prefix(s, given);
        add_site(s, given); /* a site-packages folder itself */
    } else if (given) {
        if (gw_live_find_program(given, program, sizeof program))
            add_interpreter(s, program);
        else
            gw_env_note(l->env, given, "no such Python; give an interpreter or the folder of an environment");
    } else {
        for (size_t i = 0; i < 2 && !s->n; i++)
            if (getenv(vars[i]))
                add_prefix(s, getenv(vars[i]));
        if (!s->n &&
            (gw_live_find_program("python3", program, sizeof program) || gw_live_find_program("python", program, sizeof program)))
            add_interpreter(s, program);
    }
    if (s->n) {
        const char *shown = realpath(s->path[0], real) ? real : s->path[0];
        gw_env_set_str(l->env, GW_HSTR_PYTHON, shown, strlen(shown));
    }
}

/* The word in quotes behind `name = ` or `name: Optional[str] = ` at a line's beginning; None gives "none". */
static int assigned(const char *text, const char *name, char *out, size_t cap)
{
    size_t n = strlen(name);
    for (const char *p = text; p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
        if (strncmp(p, name, n) != 0 || (p[n] != ' ' && p[n] != ':' && p[n] != '='))
            continue;
        const char *eq = p + strcspn(p, "=\n");
        if (*eq != '=')
            continue;
        eq += 1 + strspn(eq + 1, " ");
        if (*eq == '\'' || *eq == '"')
            return snprintf(out, cap, "%.*s", (int)strcspn(eq + 1, "'\"\n"), eq + 1) < (int)cap && *out;
        if (strncmp(eq, "None", 4) == 0)
            return snprintf(out, cap, "none") < (int)cap;
        return 0;
    }
    return 0;
}

static long slurp(const char *path, char *buf, size_t cap)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return -1;
    size_t n = fread(buf, 1, cap - 1, f);
    fclose(f);
    buf[n] = '\0';
    for (size_t i = 0; i < n; i++)
        if (!buf[i])
            buf[i] = ' ';
    return (long)n;
}

static void torch_files(struct gw_live *l, const char *site)
{
    char path[PATH_MAX + 64], text[4096], value[128];
    snprintf(path, sizeof path, "%s/torch/version.py", site);
    if (gw_env_lib(l->env, "torch") || slurp(path, text, sizeof text) <= 0)
        return;
    if (assigned(text, "__version__", value, sizeof value))
        gw_env_add_lib(l->env, "torch", value, path);
    if (assigned(text, "cuda", value, sizeof value))
        gw_env_add_lib(l->env, "torch-cuda", value, path);
    if (assigned(text, "hip", value, sizeof value) && strcmp(value, "none") != 0)
        gw_env_add_lib(l->env, "torch-hip", value, path);
    snprintf(path, sizeof path, "%s/torch/lib/libtorch_cuda.so", site);
    if (gw_fatbin_archs(path, value, sizeof value) == 0)
        gw_env_add_lib(l->env, "torch-archs", value, path);
}

/* Packages that matter, by the beginning of the name of their .dist-info folder (PEP 503 names, '_' for '-'). */
static const struct {
    const char *begin, *lib;
} packages[] = {{"torch-", "torch"},
                {"nvidia_cudnn_cu", "cudnn"},
                {"nvidia_nccl_cu", "nccl"},
                {"nvidia_cublas_cu", "cublas"},
                {"nvidia_cublas-", "cublas"},
                {"nvidia_cuda_runtime_cu", "cuda-runtime"},
                {"nvidia_cuda_runtime-", "cuda-runtime"},
                {"nvidia_cuda_cupti_cu", "cupti"},
                {"nvidia_cuda_cupti-", "cupti"},
                {"triton-", "triton"},
                {"jaxlib-", "jaxlib"},
                {"tensorflow-", "tensorflow"},
                {"flash_attn-", "flash-attn"},
                {"xformers-", "xformers"}};

static void package(struct gw_live *l, const char *name)
{
    char version[64];
    const char *end = strstr(name, ".dist-info");
    for (size_t i = 0; end && i < sizeof packages / sizeof packages[0]; i++) {
        size_t n = strlen(packages[i].begin);
        if (strncmp(name, packages[i].begin, n) != 0)
            continue;
        const char *dash = memchr(name, '-', (size_t)(end - name));
        if (dash && snprintf(version, sizeof version, "%.*s", (int)(end - dash - 1), dash + 1) < (int)sizeof version)
            gw_env_add_lib(l->env, packages[i].lib, version, name);
        return;
    }
}

/* conda: pytorch-2.1.0-py3.10_cuda12.1_cudnn8.9.2_0.json */
static void conda_package(struct gw_live *l, const char *name)
{
    char version[64];
    const char *at;
    if (strncmp(name, "pytorch-2", 9) != 0 && strncmp(name, "pytorch-1", 9) != 0)
        return;
    if (snprintf(version, sizeof version, "%.*s", (int)strcspn(name + 8, "-"), name + 8) < (int)sizeof version)
        gw_env_add_lib(l->env, "torch", version, name);
    if ((at = strstr(name, "cuda")) &&
        snprintf(version, sizeof version, "%.*s", (int)strspn(at + 4, "0123456789."), at + 4) < (int)sizeof version)
        gw_env_add_lib(l->env, "torch-cuda", version, name);
}

static void scan_folder(struct gw_live *l, const char *path, void (*each)(struct gw_live *, const char *))
{
    struct dirent *e;
    DIR *d = opendir(path);
    while (d && (e = readdir(d)))
        each(l, e->d_name);
    if (d)
        closedir(d);
}

/* "#define CUDA_VERSION 13000" of include/cuda.h, where a toolkit came without its version file (wheels, conda). */
static int header_version(const char *dir, char *out, size_t cap)
{
    char path[PATH_MAX + 32], line[256];
    long v = 0;
    snprintf(path, sizeof path, "%s/include/cuda.h", dir);
    FILE *f = fopen(path, "re");
    for (int n = 0; f && n < 2000 && !v && fgets(line, sizeof line, f); n++)
        if (strncmp(line, "#define CUDA_VERSION ", 21) == 0)
            v = strtol(line + 21, NULL, 10);
    if (f)
        fclose(f);
    return v >= 1000 && v < 1000000 && snprintf(out, cap, "%ld.%ld", v / 1000, v % 1000 / 10) < (int)cap;
}

/* "cuda" : { "name" : "CUDA SDK", "version" : "12.4.1" } of version.json; CUDA Version 10.2.89 of version.txt */
static int toolkit_version(const char *dir, char *out, size_t cap)
{
    char path[PATH_MAX + 32], text[8192];
    const char *at;
    snprintf(path, sizeof path, "%s/version.json", dir);
    if (slurp(path, text, sizeof text) > 0 && (at = strstr(text, "\"cuda\"")) && (at = strstr(at, "\"version\""))) {
        at += strlen("\"version\"");
        at += strspn(at, " :\t\n");
        if (*at == '"')
            return snprintf(out, cap, "%.*s", (int)strspn(at + 1, "0123456789."), at + 1) < (int)cap && *out;
    }
    snprintf(path, sizeof path, "%s/version.txt", dir);
    if (slurp(path, text, sizeof text) > 0 && (at = strstr(text, "CUDA Version ")))
        return snprintf(out, cap, "%.*s", (int)strspn(at + 13, "0123456789."), at + 13) < (int)cap && *out;
    return header_version(dir, out, cap);
}

static void toolkit(struct gw_live *l)
{
    static const char *const vars[] = {"CUDA_HOME", "CUDA_PATH"};
    char dir[PATH_MAX], version[64], real[PATH_MAX];
    for (size_t i = 0; i < 2; i++) {
        const char *v = getenv(vars[i]);
        if (v && !*l->root && toolkit_version(v, version, sizeof version)) {
            gw_env_add_lib(l->env, "toolkit", version, v);
            return;
        }
    }
    if (!*l->root && gw_live_find_program("nvcc", dir, sizeof dir) && realpath(dir, real) && prefix_of(real) &&
        toolkit_version(real, version, sizeof version)) {
        gw_env_add_lib(l->env, "toolkit", version, real);
        return;
    }
    gw_live_path(l, dir, sizeof dir, "/usr/local/cuda");
    if (toolkit_version(dir, version, sizeof version))
        gw_env_add_lib(l->env, "toolkit", version, dir);
}

void gw_live_python(struct gw_live *l)
{
    struct sites *s = malloc(sizeof *s);
    if (!s)
        return;
    toolkit(l);
    find_sites(l, s);
    for (int i = 0; i < s->n; i++)
        torch_files(l, s->path[i]);
    for (int i = 0; i < s->n; i++)
        scan_folder(l, s->path[i], package);
    const char *conda = l->o->python ? l->o->python : getenv("CONDA_PREFIX");
    char path[PATH_MAX + 16];
    if (conda && snprintf(path, sizeof path, "%s/conda-meta", conda) < (int)sizeof path)
        scan_folder(l, path, conda_package);
    free(s);
}
