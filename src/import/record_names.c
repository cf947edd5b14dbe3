/* record_names.c - see record_internal.h */
#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/record_internal.h"

typedef char *(*demangle_fn)(const char *name, char *buf, size_t *len, int *status);

/* The C++ runtime has the one demangler that is always right; a C program asks for it by name and does without it. */
static demangle_fn demangler(void)
{
    static demangle_fn fn;
    static int tried;
    if (!tried) {
        void *h = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
        tried = 1;
        fn = h ? (demangle_fn)(uintptr_t)dlsym(h, "__cxa_demangle") : NULL;
    }
    return fn;
}

const char *gw_record_demangle(const char *name, char *out, size_t cap)
{
    demangle_fn fn = strncmp(name, "_Z", 2) == 0 ? demangler() : NULL;
    int status = -1;
    char *text = fn ? fn(name, NULL, NULL, &status) : NULL;
    if (!text || status != 0) {
        free(text);
        return name;
    }
    snprintf(out, cap, "%s", text);
    free(text);
    return out;
}

size_t gw_record_api_name(char *name)
{
    size_t len = strlen(name), digits = len;
    while (digits > 0 && isdigit((unsigned char)name[digits - 1]))
        digits--;
    /* "_v" and four or five digits is CUPTI's version; "_v2" belongs to the driver's own name. */
    if (digits >= 2 && name[digits - 1] == 'v' && name[digits - 2] == '_' && len - digits >= 4)
        len = digits - 2;
    name[len] = 0;
    static const char *const endings[] = {"_ptsz", "_ptds"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t n = strlen(endings[i]);
        if (len > n && strcmp(name + len - n, endings[i]) == 0) {
            len -= n;
            name[len] = 0;
        }
    }
    return len;
}

const char *gw_record_copy_name(unsigned kind, unsigned src, unsigned dst, char *out, size_t cap)
{
    static const char *const kinds[] = {"Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
    static const char *const memory[] = {"Unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "Device", "Managed"};
    snprintf(out, cap, "Memcpy %s (%s -> %s)", kind < 11 ? kinds[kind] : "Unknown", src < 8 ? memory[src] : "Unknown",
             dst < 8 ? memory[dst] : "Unknown");
    return out;
}

const char *gw_record_sync_name(unsigned type)
{
    static const char *const names[] = {"Unknown Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
    return type < sizeof names / sizeof *names ? names[type] : names[0];
}

const char *gw_record_overhead_name(unsigned kind)
{
    static const char *const names[] = {"Unknown", "Buffer Flush", "Instrumentation", "Resource", "Runtime Triggered Module Loading",
                                        "Lazy Function Loading", "Command Buffer Full", "Activity Buffer Request", "UVM Activity Init"};
    unsigned high = kind >> 16;
    if (kind == 1)
        return "Driver Compiler";
    return (kind & 0xffff) == 0 && high < sizeof names / sizeof *names ? names[high] : names[0];
}
