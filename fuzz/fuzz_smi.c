/*
 * fuzz_smi.c - one reader of saved captures under libFuzzer. Built once for each reader, with its name in
 * GW_FUZZ_READER ("smi_query"); without it, for the whole way from bytes of any encoding to results.
 */
#include <stdint.h>
#include <stdlib.h>

#include "collect/capture/capture.h"
#include "collect/checks/checks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define JOIN3(a, b, c) a##b##c
#define READER(name) JOIN3(gw_, name, _read)
#define BEGINS(name) JOIN3(gw_, name, _begins)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gw_env *env = gw_env_create();
    struct gw_arena *arena = gw_arena_create(0);
    if (!env || !arena)
        abort();
#ifdef GW_FUZZ_READER
    size_t len, used = 0;
    char *text = gw_slice_decode((const char *)data, size, &len);
    struct gw_slice all = {text, len};
    (void)BEGINS(GW_FUZZ_READER)(all);
    if (READER(GW_FUZZ_READER)(env, all, &used) < 0 || used > len)
        abort();
    free(text);
#else
    struct gw_error err = {0};
    (void)gw_capture_parse(env, "fuzz", (const char *)data, size, &err);
#endif
    if (!gw_checks_run(env, arena))
        abort();
    gw_arena_destroy(arena);
    gw_env_destroy(env);
    return 0;
}
