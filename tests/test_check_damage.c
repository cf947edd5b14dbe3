/*
 * Every reader on damaged input: each of the captures cut at many lengths, with bytes changed, with lines doubled and
 * shuffled, and each reader on what is not its own. Nothing may crash, hang or read past the end (run it with the
 * sanitizers); what is read must survive the checks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check_fixture.h"
#include "collect/capture/capture.h"
#include "collect/checks/checks.h"

static const char *traces;

struct seed {
    char *data;
    size_t len;
};
enum { MAX_SEEDS = 64 };
static struct seed seeds[MAX_SEEDS];
static size_t seed_count;
static uint64_t random_state = 88172645463325252ull;

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void add_folder(const char *dir, size_t most)
{
    struct dirent **names = NULL;
    int n = scandir(dir, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char path[2048];
        struct seed s = {NULL, 0};
        snprintf(path, sizeof path, "%s/%s", dir, names[i]->d_name);
        if (names[i]->d_name[0] != '.' && seed_count < MAX_SEEDS && (s.data = fixture_read(path, &s.len))) {
            if (s.len > most) /* the interesting parts of the long ones begin early; all of it would take minutes */
                s.len = most;
            seeds[seed_count++] = s;
        }
        free(names[i]);
    }
    free(names);
}

/* Parses, then judges: facts that nobody checked must not harm the checks either. The copy has no byte to spare. */
static void feed(const char *data, size_t len)
{
    char *exact = malloc(len ? len : 1);
    struct gw_env *env = gw_env_create();
    struct gw_arena *arena = gw_arena_create(0);
    struct gw_error err = {0};
    memcpy(exact, data, len);
    (void)gw_capture_parse(env, "damaged", exact, len, &err);
    assert_non_null(gw_checks_run(env, arena));
    gw_arena_destroy(arena);
    gw_env_destroy(env);
    free(exact);
}

static void cut_anywhere(void **state)
{
    (void)state;
    for (size_t s = 0; s < seed_count; s++)
        for (int i = 0; i < 40; i++)
            feed(seeds[s].data, seeds[s].len ? (size_t)(next_random() % seeds[s].len) : 0);
}

static void bytes_changed(void **state)
{
    (void)state;
    static const char nasty[] = {'\0', '\n', '\t',   ':',    ',', '|', '#', '%', '=',
                                 '-',  '9',  '\xff', '\x1b', '[', ' ', '<', '&', '.'};
    for (size_t s = 0; s < seed_count; s++)
        for (int i = 0; i < 40; i++) {
            char *copy = malloc(seeds[s].len + 1);
            memcpy(copy, seeds[s].data, seeds[s].len);
            for (int k = 0; k < 30 && seeds[s].len; k++)
                copy[next_random() % seeds[s].len] = nasty[next_random() % sizeof nasty];
            feed(copy, seeds[s].len);
            free(copy);
        }
}

static void lines_shuffled(void **state)
{
    (void)state;
    for (size_t s = 0; s < seed_count; s++)
        for (int i = 0; i < 10; i++) {
            size_t cap = 2 * seeds[s].len + 1, n = 0;
            char *out = malloc(cap);
            for (int k = 0; k < 400 && seeds[s].len > 1; k++) { /* lines from anywhere in the file */
                size_t at = next_random() % seeds[s].len;
                const char *line = seeds[s].data + at, *end = memchr(line, '\n', seeds[s].len - at);
                size_t len = end ? (size_t)(end - line) + 1 : seeds[s].len - at;
                if (n + len > cap)
                    break;
                memcpy(out + n, line, len);
                n += len;
            }
            feed(out, n);
            free(out);
        }
}

static void every_reader_on_every_text(void **state)
{
    (void)state;
    for (const struct gw_capture_format *f = gw_capture_formats; f->name; f++) {
        struct gw_env *env = gw_env_create();
        char *nothing = malloc(1);
        size_t used = 1;
        assert_int_equal(f->begins((struct gw_slice){nothing, 0}), 0);
        (void)f->read(env, (struct gw_slice){nothing, 0}, &used);
        assert_int_equal(used, 0);
        free(nothing);
        gw_env_destroy(env);
    }
    for (size_t s = 0; s < seed_count; s++) {
        size_t len;
        char *text = gw_slice_decode(seeds[s].data, seeds[s].len < 6000 ? seeds[s].len : 6000, &len);
        for (const struct gw_capture_format *f = gw_capture_formats; f->name; f++) {
            struct gw_env *env = gw_env_create();
            size_t used = 0;
            (void)f->begins((struct gw_slice){text, len});
            (void)f->read(env, (struct gw_slice){text, len}, &used); /* without asking whether it begins there */
            assert_true(used <= len);
            gw_env_destroy(env);
        }
        free(text);
    }
}

/* Inputs that make a careless reader slow or hungry. */
static void large_and_hostile(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "GPU 00000000:19:00.0\n",
        "==============NVSMI LOG==============\nGPU 00000000:19:00.0\n    Processes\n        Process ID : 1\n",
        "<nvidia_smi_log><gpu id='0:1:0.0'>",
        "timestamp, index, utilization.gpu [%]\n",
        "# gpu pwr sm\n    0 1 2\n",
        "\tGPU0\tGPU1\nGPU0\tX\tSYS\n",
        "GPU 0: A (UUID: B)\n Link 0: 1 GB/s\n",
        "Device r/s w/s %util\nsda 1 2 3\n",
        "#gpuwhy-check 1\ngpu index=0 bus_id=0000:01:00.0\n",
        "variable name=A value=B\n"};
    clock_t start = clock();
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        size_t one = strlen(lines[i]), n = (size_t)1 << 20;
        char *text = malloc(n);
        for (size_t at = 0; at < n; at += one)
            memcpy(text + at, lines[i], one < n - at ? one : n - at);
        feed(text, n);
        memset(text, lines[i][0], n); /* one endless line */
        feed(text, n);
        free(text);
    }
    char *deep = malloc(400000); /* elements that never close */
    memcpy(deep, "<nvidia_smi_log>", 16);
    for (size_t i = 16; i + 3 < 400000; i += 3)
        memcpy(deep + i, "<a>", 3);
    feed(deep, 399999);
    free(deep);
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 60);
}

static void records_are_bounded(void **state)
{
    (void)state;
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    fprintf(f, "#gpuwhy-check 1\n");
    for (int i = 0; i < 20000; i++)
        fprintf(f, "gpu index=%d\nprocess gpu=%d pid=%d\n", i, i, i);
    fclose(f);
    struct gw_env *env = gw_env_create();
    struct gw_error err = {0};
    assert_true(gw_capture_parse(env, "t", text, len, &err) > 0);
    assert_int_equal(env->gpus.len, GW_ENV_MAX_GPUS);
    assert_true(gw_env_count(env, GW_REC_PROC) < 20000);
    assert_true(env->no_memory); /* and it says so */
    struct gw_arena *arena = gw_arena_create(0);
    assert_non_null(gw_checks_run(env, arena));
    gw_arena_destroy(arena);
    gw_env_destroy(env);
    free(text);
}

int main(int argc, char **argv)
{
    char dir[1024];
    traces = getenv("GPUWHY_TRACES") ? getenv("GPUWHY_TRACES") : argc > 1 ? argv[1] : "/nowhere";
    add_folder("fixtures/check/captures", 40000);
    snprintf(dir, sizeof dir, "%s/smi", traces);
    add_folder(dir, 40000);
    if (!seed_count)
        return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_anywhere),      cmocka_unit_test(bytes_changed),
        cmocka_unit_test(lines_shuffled),    cmocka_unit_test(every_reader_on_every_text),
        cmocka_unit_test(large_and_hostile), cmocka_unit_test(records_are_bounded),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < seed_count; i++)
        free(seeds[i].data);
    return rc;
}
