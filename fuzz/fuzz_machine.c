/*
 * fuzz_machine - the machine's facts in a record, on any bytes, with the checks behind them.
 *
 * Bit 0 of the first byte says which file the rest becomes: the collector's or the recorder's; bit 7 whether it is taken as it is
 * or as a list of chunks (type, stride, two bytes of length, payload), which get good checksums. The bits between choose the GPUs
 * that are kept. Built with clang it is a libFuzzer target; the tests run the corpus through it.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/capture/capture.h"
#include "collect/capture/record_env.h"
#include "collect/checks/checks.h"
#include "promise_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const files[] = {GW_REC_MACHINE, GW_REC_META};

static void check(struct gw_env *env)
{
    struct gw_arena *arena = gw_arena_create((size_t)256 << 20);
    const struct gw_check_list *l = arena ? gw_checks_run(env, arena) : NULL;
    size_t sum = 0;
    for (unsigned s = 0; l && s < GW_CHECK_STATUS_COUNT; s++)
        sum += l->by_status[s];
    require(!l || sum == GW_CHECK_COUNT, "every check has a result");
    for (size_t i = 0; i < env->gpus.len; i++) {
        struct gw_check_link link = gw_check_link_of(env, i);
        require(!(link.possible < 0) && !(link.loaded < 0), "rates are not negative");
    }
    gw_arena_destroy(arena);
}

/* What was read can be written, and is read again. */
static void again(const struct gw_env *env)
{
    char *text = NULL;
    size_t len = 0;
    FILE *m = open_memstream(&text, &len);
    struct gw_env *copy = gw_env_create();
    if (m)
        gw_env_write(env, m);
    if (m && fclose(m) == 0 && copy && gw_capture_parse(copy, "again", text, len, NULL) > 0)
        require(copy->gpus.len == env->gpus.len, "as many GPUs as before");
    gw_env_destroy(copy);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char folder[] = "/tmp/fuzz-machine-XXXXXX";
    if (size < 1 || size > 1 << 20)
        return 0;
    require(mkdtemp(folder) != NULL, "a folder can be made");
    int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), one = data[0] & 1;
    for (int i = 0; i < 2; i++) {
        if (i == one && data[0] & 0x80)
            write_raw(dir, files[i], data + 1, size - 1);
        else
            write_chunks(dir, files[i], GW_ROLE_HOST, 0, data + 1, i == one ? size - 1 : 0);
    }
    struct gw_env *env = gw_env_create();
    struct gw_error err;
    memset(&err, 0, sizeof err);
    int rc = env ? gw_env_read_record(env, folder, &err) : 0;
    require(rc >= 0 || rc == GW_ENODATA || err.code != 0, "an error has its line");
    if (env && rc == 0) {
        check(env);
        again(env);
        gw_env_keep_gpus(env, data[0] >> 1 & 0x3f);
        check(env);
    }
    gw_env_destroy(env);
    for (int i = 0; i < 2; i++)
        (void)unlinkat(dir, files[i], 0);
    close(dir);
    rmdir(folder);
    return 0;
}
