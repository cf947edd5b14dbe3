/* Cut, damaged and foreign files: what can be saved is kept, its loss is named, and the rest is refused in one line. */
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "import/foreign.h"
#include "import_text.h"

#define EVENT(name, ts)                                                                                                \
    "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"" name "\", \"pid\": 10, \"tid\": 11, \"ts\": " ts ", \"dur\": " \
    "2}"
#define WITH_ARGS(name, ts)                                                                                   \
    "{\n \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"" name "\", \"pid\": 10, \"tid\": 11,\n \"ts\": " ts \
    ", \"dur\": 2,\n"                                                                                         \
    " \"args\": {\n \"External id\": 5,\"Record function id\": 0, \"Ev Idx\": 3\n }\n }"

static const char whole[] = "{\"schemaVersion\": 1,\n\"traceEvents\": [\n" WITH_ARGS("a", "1") ",\n" WITH_ARGS(
    "b", "2") ",\n" WITH_ARGS("c", "3") ",\n" WITH_ARGS("d", "4") "\n],\n\"traceName\": \"x\"}";

static void test_whole(void **state)
{
    (void)state;
    struct reading r = read_text(whole);
    assert_int_equal(gw_trace_count(r.t), 4);
    assert_int_equal(lost_any(&r), 0);
    reading_free(&r);
}

/* Cut anywhere inside the list: every event that was complete is there, and the loss says where the file ends. */
static void test_cut_anywhere(void **state)
{
    (void)state;
    size_t first = (size_t)(strstr(whole, "[\n{") - whole) + 3;
    size_t last = (size_t)(strstr(whole, "\n],\n") - whole);
    int counts[5] = {0};
    for (size_t n = first; n < strlen(whole); n++) {
        struct reading r = read_bytes(whole, n, 4096, 1);
        assert_int_equal(lost(&r, GW_LOSS_TRUNCATED), 1);
        assert_int_equal(r.t->loss[GW_LOSS_TRUNCATED].first_byte, n);
        assert_int_equal(lost(&r, GW_LOSS_DAMAGED), 0);
        size_t kept = gw_trace_count(r.t), complete = 0;
        for (const char *p = whole; (p = strstr(p, "}\n }")) != NULL && (size_t)(p + 4 - whole) <= n; p++)
            complete++;
        assert_int_equal(kept, complete);
        assert_int_equal(r.rc, kept ? 0 : GW_ENODATA);
        counts[kept]++;
        reading_free(&r);
    }
    assert_true(counts[0] && counts[1] && counts[2] && counts[3] && last > first);
    assert_true(counts[4] >= (int)(strlen(whole) - last)); /* beyond the last event only the facts are cut */
}

/* Any run of bytes lost in the middle: the events outside the hole and its surroundings are kept. */
static void test_hole_anywhere(void **state)
{
    (void)state;
    enum { LEN = 24 };
    char text[sizeof whole];
    size_t first = (size_t)(strstr(whole, "[\n{") - whole) + 3, last = (size_t)(strstr(whole, "\n],\n") - whole);
    for (size_t at = first; at + LEN < last; at++) {
        memcpy(text, whole, at);
        memcpy(text + at, whole + at + LEN, sizeof whole - at - LEN);
        struct reading r = read_text(text);
        assert_int_equal(r.rc, 0);
        /* A hole touches at most two events. */
        if (gw_trace_count(r.t) < 2)
            fail_msg("hole at %zu: %zu events\n%s", at, gw_trace_count(r.t), text);
        uint64_t told = lost(&r, GW_LOSS_DAMAGED) + lost(&r, GW_LOSS_TRUNCATED) + lost(&r, GW_LOSS_BAD_EVENT) +
                        lost(&r, GW_LOSS_UNKNOWN_RECORD) + lost(&r, GW_LOSS_BAD_TIME);
        if (gw_trace_count(r.t) < 3 && told == 0)
            fail_msg("hole at %zu: %zu events and no loss\n%s", at, gw_trace_count(r.t), text);
        reading_free(&r);
    }
}

/* Garbage in place of bytes: zeros (a hole on disk), other bytes, quotes, braces. */
static void test_garbage_anywhere(void **state)
{
    (void)state;
    static const char fill[] = {'\0', '\xff', '"', '{', '}', '[', ']', '\\', 'x'};
    char text[sizeof whole];
    size_t first = (size_t)(strstr(whole, "[\n{") - whole) + 3, last = (size_t)(strstr(whole, "\n],\n") - whole);
    for (size_t k = 0; k < sizeof fill; k++)
        for (size_t at = first; at + 40 < last; at += 7) {
            memcpy(text, whole, sizeof whole);
            memset(text + at, fill[k], 40);
            struct reading r = read_bytes(text, sizeof whole - 1, 4096, 1);
            assert_int_equal(r.rc, 0);
            if (gw_trace_count(r.t) < 2)
                fail_msg("0x%02x at %zu: %zu events\n", (unsigned char)fill[k], at, gw_trace_count(r.t));
            reading_free(&r);
        }
}

static void test_damage_is_counted(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t events;
        uint64_t damaged;
    } cases[] = {
        {EVENT("a", "1") ", @@@ " EVENT("b", "2") ", 12, " EVENT("c", "3"), 3, 2},
        {EVENT("a", "1") "}, " EVENT("b", "2"), 2, 1},
        {"{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"lost" EVENT("b", "2") ", " EVENT("c", "3"), 2, 1},
        {"{\"ph\": \"X\", \"args\": {\"x\": 1, " EVENT("b", "2") ", " EVENT("c", "3"), 2, 1},
        {"{\"ph\": \"X\", name}, " EVENT("b", "2"), 1, 1},
        {"{\"ph\"; \"X\"}, " EVENT("b", "2"), 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reading r = read_events(cases[i].text);
        if (gw_trace_count(r.t) != cases[i].events || lost(&r, GW_LOSS_DAMAGED) != cases[i].damaged)
            fail_msg("%s: %zu events, %d damaged", cases[i].text, gw_trace_count(r.t), (int)lost(&r, GW_LOSS_DAMAGED));
        assert_true(r.t->loss[GW_LOSS_DAMAGED].first_byte > 30);
        reading_free(&r);
    }
}

static void test_damaged_root(void **state)
{
    (void)state;
    struct reading r = read_text("{\"a\": 1, @ \"b\"; 5, \"traceEvents\": [" EVENT("a", "1") "], \"c\": 3}");
    assert_int_equal(gw_trace_count(r.t), 1);
    assert_int_equal(lost(&r, GW_LOSS_DAMAGED), 1);
    assert_int_equal(lost(&r, GW_LOSS_TRUNCATED), 0);
    reading_free(&r);
    r = read_text("{\"traceEvents\": [" EVENT("a", "1") "], @@@ \"c\": 3}"); /* behind the events */
    assert_int_equal(gw_trace_count(r.t), 1);
    assert_int_equal(lost(&r, GW_LOSS_DAMAGED), 1);
    reading_free(&r);
    r = read_text("{\"traceEvents\": [" EVENT("a", "1") "]} and more");
    assert_int_equal(lost(&r, GW_LOSS_DAMAGED), 1);
    reading_free(&r);
}

/* The end of the list is found again, so that the facts behind it are not lost. */
static void test_facts_behind_damage(void **state)
{
    (void)state;
    struct reading r = read_text("{\"traceEvents\": [" EVENT(
        "a", "1") ", {\"ph\": \"X\", \"name\": \"b\n],\n"
                  " \"deviceProperties\": [], \"cuda_driver_version\": 13000, \"traceName\": \"x\"}");
    assert_int_equal(gw_trace_count(r.t), 1);
    assert_int_equal(lost(&r, GW_LOSS_DAMAGED), 1);
    assert_int_equal(r.t->facts.cuda_driver, 13000);
    reading_free(&r);
}

static void test_huge_event_is_skipped(void **state)
{
    (void)state;
    const size_t big = (size_t)65 << 20;
    char *text = malloc(big + 4096);
    assert_non_null(text);
    size_t n = (size_t)sprintf(text, "{\"traceEvents\": [" EVENT("a", "1") ", {" OP ", \"args\": {\"x\": \"");
    memset(text + n, 'x', big);
    n += big;
    n += (size_t)sprintf(text + n, "\"}}, " EVENT("b", "2") "], \"traceName\": \"x\"}");
    struct reading r = read_bytes(text, n, 0, 1);
    assert_int_equal(gw_trace_count(r.t), 2);
    assert_int_equal(lost(&r, GW_LOSS_BAD_EVENT), 1);
    assert_int_equal(lost_any(&r), 1);
    reading_free(&r);
    free(text);
}

/* Seconds of processor time to read `n` bytes: a head, then `unit` again and again. */
static double time_hostile(char *text, size_t n, const char *unit, int in_name)
{
    struct timespec a, b;
    size_t at =
        (size_t)sprintf(text, in_name ? "{\"traceEvents\": [{\"ph\": \"X\", \"name\": \"" : "{\"traceEvents\": [");
    while (at < n)
        at += (size_t)sprintf(text + at, "%s", unit);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    struct reading r = read_bytes(text, at, 0, 1);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    reading_free(&r);
    return (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
}

/* What makes naive recovery start again and again: it may cost more than a sound trace, but not thousands of times. */
static void test_hostile_text_is_linear(void **state)
{
    (void)state;
    static const char *const units[] = {"{\"ph\":1 ",
                                        "{\"ph\":",
                                        "[{\"ph\":[",
                                        "{\"ph\":\"X\",\"name\":\"",
                                        "\\\"",
                                        "\\\",",
                                        "]",
                                        "],\"",
                                        "{ ",
                                        "{\"ph\":\"X\",\"args\":{",
                                        "\"",
                                        "{\"ph\":\"X\",x",
                                        "{\"ph\":{\"ph\":\"B\"",
                                        "}{"};
    enum { LEN = 2 << 20 };
    char *text = malloc(LEN + 256);
    assert_non_null(text);
    double sound = time_hostile(text, LEN, EVENT("a", "1") ", ", 0);
    for (size_t k = 0; k < sizeof units / sizeof *units; k++)
        for (int in_name = 0; in_name < 2; in_name++) {
            double t = time_hostile(text, LEN, units[k], in_name);
            if (t > 80 * sound + 0.1)
                fail_msg("%s repeated: %.3f s, a sound trace of that size %.3f s", units[k], t, sound);
        }
    free(text);
}

static void expect_refusal(struct reading *r, int code, const char *words)
{
    char line[1024];
    gw_error_text(&r->err, line, sizeof line);
    if (r->rc != code || !strstr(line, words))
        fail_msg("wanted %d and \"%s\", got %d: %s", code, words, r->rc, line);
    assert_null(strchr(line, '\n'));
    assert_true(r->err.advice[0] != '\0');
    reading_free(r);
}

static void test_refusals_of_json(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int code;
        const char *words;
    } cases[] = {
        {"", GW_EFORMAT, "empty"},
        {" \n", GW_EFORMAT, "empty"},
        {"{\"a\": 1}", GW_EFORMAT, "no \"traceEvents\""},
        {"{\"traceEvents\": 5, \"schemaVersion\": 1}", GW_EFORMAT, "not a list"},
        {"{\"schema\": \"1.0.1\", \"pid\": 5, \"nodes\": [{\"name\": \"a\", \"id\": 2}]}", GW_EFORMAT,
         "execution trace"},
        {"[1, 2, 3]", GW_EFORMAT, "not of trace events"},
        {"[]", GW_EFORMAT, "not of trace events"},
        {"{\"schemaVersion\": 1, \"traceEvents\": []}", GW_ENODATA, "no events"},
        {"{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"toplevel\", \"name\": \"Run\", \"pid\": 1, \"tid\": 2, \"ts\": "
         "1, \"dur\": 2},"
         " {\"ph\": \"X\", \"cat\": \"blink\", \"name\": \"x\", \"pid\": 1, \"tid\": 2, \"ts\": 1, \"dur\": 2}]}",
         GW_EFORMAT, "Chrome trace"},
        {"hello", GW_EFORMAT, "not JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reading r = read_text(cases[i].text);
        expect_refusal(&r, cases[i].code, cases[i].words);
    }
}

/* ---- through the door: gw_import_file() on files that are something else ---- */

static struct reading import_bytes(const char *name, const void *data, size_t len)
{
    char dir[] = "/tmp/gw_import.XXXXXX", path[128];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    if (len)
        assert_int_equal(fwrite(data, 1, len, f), len);
    fclose(f);
    struct reading r = {.t = gw_trace_create(0)};
    r.rc = gw_import_file(r.t, path, NULL, &r.err);
    assert_true(r.rc == GW_OK || strstr(r.err.file, name));
    unlink(path);
    rmdir(dir);
    return r;
}

static void test_foreign_files(void **state)
{
    (void)state;
    static char tar[1024];
    memcpy(tar, "trace.json", 10);
    memcpy(tar + 257, "ustar", 5);
    static const char tf[] = "\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22\x09\0\0\xc0\xb8\x5d\xe1\xd9\x41\x1a\x0d"
                             "brain.Event:2";
    static const char zeros[64];
    static const struct {
        const char *name, *data;
        size_t len;
        const char *words;
    } files[] = {
        {"empty.json", "", 0, "empty"},
        {"page.json", "\n<!DOCTYPE html><html><body>404</body></html>", 45, "HTML"},
        {"page2.json", "<HTML>", 6, "HTML"},
        {"a.out",
         "\x7f"
         "ELF\x02\x01\x01",
         7, "program"},
        {"t.png", "\x89PNG\r\n\x1a\n", 8, "PNG"},
        {"t.tar", tar, sizeof tar, "tar"},
        {"t.pt", "PK\x03\x04....", 8, "zip"},
        {"snapshot.pickle", "\x80\x04\x95....", 7, "pickle"},
        {"report.nsys-rep", "\x01\x02\x03\x04", 4, "nsys export"},
        {"report.ncu-rep", "NVR\0....", 8, "Nsight Compute"},
        {"events.out.tfevents.1", tf, sizeof tf - 1, "TensorBoard"},
        {"t.json.xz",
         "\xfd"
         "7zXZ\0",
         6, "xz -d"},
        {"t.json.bz2", "BZh91AY", 7, "bzip2"},
        {"zeros.json", zeros, sizeof zeros, "zeros"},
        {"utf16.json", "\xff\xfe{\0", 4, "UTF-16"},
        {"lfs.json", "version https://git-lfs.github.com/spec/v1\noid", 46, "git lfs pull"},
        {"text.json", "Traceback (most recent call last):\n", 35, "no format"},
        {"t.pftrace", "\x0a\x0b", 2, "Perfetto"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct reading r = import_bytes(files[i].name, files[i].data, files[i].len);
        expect_refusal(&r, GW_EFORMAT, files[i].words);
    }
}

static void test_folder_and_missing(void **state)
{
    (void)state;
    struct reading r = {.t = gw_trace_create(0)};
    r.rc = gw_import_file(r.t, "/tmp", NULL, &r.err);
    expect_refusal(&r, GW_EFORMAT, "directory");
    r = (struct reading){.t = gw_trace_create(0)};
    r.rc = gw_import_file(r.t, "/nonexistent/t.json", NULL, &r.err);
    expect_refusal(&r, GW_EIO, "cannot open");
}

static void test_no_gpu_is_a_loss(void **state)
{
    (void)state;
    static const char text[] =
        "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"A100\"}], \"traceEvents\": [" EVENT(
            "a", "1") "]}";
    struct reading r = import_bytes("cpu.json", text, sizeof text - 1);
    assert_int_equal(r.rc, GW_OK);
    assert_true(r.t->finished);
    assert_int_equal(lost(&r, GW_LOSS_NO_GPU), 1);
    assert_int_equal(r.t->devices.len, 0);
    reading_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_hole_anywhere),
        cmocka_unit_test(test_garbage_anywhere),
        cmocka_unit_test(test_damage_is_counted),
        cmocka_unit_test(test_damaged_root),
        cmocka_unit_test(test_facts_behind_damage),
        cmocka_unit_test(test_huge_event_is_skipped),
        cmocka_unit_test(test_hostile_text_is_linear),
        cmocka_unit_test(test_refusals_of_json),
        cmocka_unit_test(test_foreign_files),
        cmocka_unit_test(test_folder_and_missing),
        cmocka_unit_test(test_no_gpu_is_a_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
