/* What becomes of each sort of event, of each quirk that JSON allows, and of the facts beside the events. */
#include "import_text.h"

static void test_kernel(void **state)
{
    (void)state;
    struct reading r = read_events(
        "{" KERNEL
        ", \"ts\": 10.5, \"dur\": 2.001, \"args\": {\"queued\": 0, \"device\": 3, \"context\": 1, \"stream\": 20,"
        " \"correlation\": 9453, \"registers per thread\": 80, \"blocks per SM\": 0.59, \"grid\": [2, 4, 64], "
        "\"block\": [8, 32, 1],"
        " \"graph node id\": 0}}");
    assert_int_equal(r.rc, 0);
    const struct gw_event *e = ev(&r, 0);
    assert_int_equal(e->kind, GW_KIND_KERNEL);
    assert_int_equal(e->start, 10500);
    assert_int_equal(e->end, 12501);
    assert_int_equal(lane_of(&r, 0)->type, GW_LANE_GPU);
    assert_int_equal(lane_of(&r, 0)->device, 3); /* args, not pid */
    assert_int_equal(lane_of(&r, 0)->stream, 20);
    assert_int_equal(e->corr, 9453);
    assert_int_equal(e->sub, 256);
    assert_int_equal(e->arg0, 512);
    assert_int_equal(e->flags, GW_EV_HAS_CORR | GW_EV_HAS_SUB | GW_EV_HAS_ARG0);
    assert_string_equal(name_of(&r, 0), "k");
    assert_int_equal(lost_any(&r), 0);
    reading_free(&r);
}

static void test_row_of_kernel_without_args(void **state)
{
    (void)state;
    struct reading r =
        read_events("{" KERNEL ", \"ts\": 1, \"dur\": 2}, {\"ph\": \"X\", \"cat\": \"Kernel\", \"name\": \"k\","
                    " \"pid\": \"1\", \"tid\": \"stream 9\", \"ts\": 1, \"dur\": 2}");
    assert_int_equal(lane_of(&r, 0)->device, 0);
    assert_int_equal(lane_of(&r, 0)->stream, 7);
    assert_int_equal(lane_of(&r, 1)->device, 1);
    assert_int_equal(lane_of(&r, 1)->stream, 9);
    assert_int_equal(ev(&r, 0)->flags, 0); /* nothing is made up */
    reading_free(&r);
}

static void test_collective(void **state)
{
    (void)state;
    struct reading r = read_events(
        "{" KERNEL
        ", \"ts\": 1, \"dur\": 2, \"args\": {\"Collective name\": \"_allgather_base\", \"In msg nelems\": 25136,"
        " \"Out msg nelems\": 201088, \"Group size\": 8, \"dtype\": \"BFloat16\"}},"
        "{" KERNEL ", \"ts\": 1, \"dur\": 2, \"args\": {\"In msg nelems\": \"8\", \"dtype\": \"Mystery\"}}");
    assert_int_equal(ev(&r, 0)->arg1, 201088 * 2); /* the larger side, in bytes */
    assert_true(ev(&r, 0)->flags & GW_EV_HAS_ARG1);
    assert_false(ev(&r, 1)->flags & GW_EV_HAS_ARG1); /* size unknown: no number */
    reading_free(&r);
}

static void test_copies_and_sets(void **state)
{
    (void)state;
    struct reading r = read_events(
        "{\"ph\": \"X\", \"cat\": \"gpu_memcpy\", \"name\": \"Memcpy DtoH (Device -> Pageable)\", \"pid\": 0, \"tid\": "
        "7, \"ts\": 1,"
        " \"dur\": 2, \"args\": {\"device\": 0, \"stream\": 7, \"bytes\": 33554432, \"memory bandwidth (GB/s)\": "
        "1.48}},"
        "{\"ph\": \"X\", \"cat\": \"Memcpy\", \"name\": \"x\", \"pid\": 0, \"tid\": 7, \"ts\": 1, \"dur\": 2,"
        " \"args\": {\"kind\": \"HtoD\", \"bytes\": \"256\", \"stream\": \"3\"}},"
        "{\"ph\": \"X\", \"cat\": \"gpu_memset\", \"name\": \"Memset (Device)\", \"pid\": 0, \"tid\": 7, \"ts\": 1, "
        "\"dur\": 2,"
        " \"args\": {\"bytes\": 4}}");
    assert_int_equal(ev(&r, 0)->kind, GW_KIND_COPY);
    assert_int_equal(ev(&r, 0)->sub, gw_copy_sub(GW_MEM_DEVICE, GW_MEM_PAGEABLE));
    assert_int_equal(ev(&r, 0)->arg0, 33554432);
    assert_int_equal(ev(&r, 1)->sub, gw_copy_sub(GW_MEM_HOST, GW_MEM_DEVICE));
    assert_int_equal(ev(&r, 1)->arg0, 256); /* a number in a string */
    assert_int_equal(lane_of(&r, 1)->stream, 3);
    assert_int_equal(ev(&r, 2)->kind, GW_KIND_SET);
    assert_int_equal(ev(&r, 2)->arg0, 4);
    reading_free(&r);
}

static void test_host_kinds(void **state)
{
    (void)state;
    static const struct {
        const char *cat;
        unsigned kind;
    } cats[] = {{"cpu_op", GW_KIND_OP},
                {"Operator", GW_KIND_OP},
                {"cuda_runtime", GW_KIND_API},
                {"Runtime", GW_KIND_API},
                {"cuda_driver", GW_KIND_API},
                {"hip_runtime", GW_KIND_API},
                {"xpu_runtime", GW_KIND_API},
                {"user_annotation", GW_KIND_ANNOT},
                {"python_function", GW_KIND_PYFUNC},
                {"overhead", GW_KIND_OVERHEAD},
                {"CPU_OP", GW_KIND_OP}};
    for (size_t i = 0; i < sizeof cats / sizeof *cats; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "{\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"train.py(57): step\", \"pid\": 10, \"tid\":"
                 " 11, \"ts\": 1, \"dur\": 2, \"args\": {\"correlation\": \"12\", \"bytes\": 5}}",
                 cats[i].cat);
        struct reading r = read_events(text);
        assert_int_equal(r.rc, 0);
        assert_int_equal(ev(&r, 0)->kind, cats[i].kind);
        assert_string_equal(name_of(&r, 0), "train.py(57): step"); /* verbatim */
        assert_int_equal(lane_of(&r, 0)->type, GW_LANE_HOST);
        assert_int_equal(lane_of(&r, 0)->pid, 10);
        assert_int_equal(lane_of(&r, 0)->tid, 11);
        assert_int_equal(ev(&r, 0)->corr, cats[i].kind == GW_KIND_API ? 12 : 0);
        assert_int_equal(ev(&r, 0)->arg0, cats[i].kind == GW_KIND_API ? 5 : 0);
        assert_int_equal(lost_any(&r), 0);
        reading_free(&r);
    }
}

static void test_op_shapes(void **state)
{
    (void)state;
    struct reading r = read_events("{" OP ", \"args\": {\"External id\": 5,\"Input Dims\": [[8, 3], []],  \"Input "
                                   "type\" : [\"float\", \"\"] , \"Ev Idx\": 2}},"
                                   "{\"args\": {\"Input dims\": [[1]]}, " OP "}, {" OP "}");
    assert_string_equal(gw_trace_text(r.t, (uint32_t)ev(&r, 0)->arg0), "[[8, 3], []]");
    assert_string_equal(gw_trace_text(r.t, (uint32_t)ev(&r, 0)->arg1), "[\"float\", \"\"]");
    assert_string_equal(gw_trace_text(r.t, (uint32_t)ev(&r, 1)->arg0), "[[1]]"); /* args before cat, key of 1.8 */
    assert_int_equal(ev(&r, 1)->flags, GW_EV_HAS_ARG0);
    assert_int_equal(ev(&r, 2)->flags, 0);
    reading_free(&r);
}

static void test_gpu_sync(void **state)
{
    (void)state;
    struct reading r = read_events("{\"ph\": \"X\", \"cat\": \"cuda_sync\", \"name\": \"Stream Wait Event\", \"pid\": "
                                   "0, \"tid\": 20, \"ts\": 1, \"dur\": 3,"
                                   " \"args\": {\"wait_on_stream\": 7, \"wait_on_cuda_event_id\": 1, \"stream\": 20, "
                                   "\"correlation\": 5170, \"device\": 0}}");
    assert_int_equal(ev(&r, 0)->kind, GW_KIND_GPU_SYNC);
    assert_int_equal(ev(&r, 0)->arg0, 7);
    assert_int_equal(ev(&r, 0)->corr, 5170);
    assert_int_equal(lane_of(&r, 0)->type, GW_LANE_GPU);
    reading_free(&r);
}

static void test_dropped_without_a_word(void **state)
{
    (void)state;
    struct reading r = read_events(
        "{\"ph\": \"X\", \"cat\": \"gpu_user_annotation\", \"name\": \"a\", \"pid\": 0, \"tid\": 7, \"ts\": 1, "
        "\"dur\": 2},"
        "{\"ph\": \"s\", \"id\": 1, \"pid\": 10, \"tid\": 11, \"ts\": 1, \"cat\": \"ac2g\", \"name\": \"ac2g\"},"
        "{\"ph\": \"f\", \"id\": 1, \"pid\": 0, \"tid\": 7, \"ts\": 1, \"cat\": \"async\", \"name\": \"launch\", "
        "\"bp\": \"e\"},"
        "{\"ph\": \"X\", \"cat\": \"Trace\", \"ts\": 1, \"dur\": 9, \"pid\": \"Spans\", \"tid\": \"PyTorch Profiler\", "
        "\"name\": \"P\"},"
        "{\"name\": \"Iteration Start\", \"ph\": \"i\", \"s\": \"g\", \"pid\": \"Traces\", \"tid\": \"T\", \"ts\": 1},"
        "{\"name\": \"Record Window End\", \"ph\": \"i\", \"s\": \"g\", \"pid\": \"\", \"tid\": \"\", \"ts\": 1},"
        "{\"name\": \"process_sort_index\", \"ph\": \"M\", \"ts\": 1, \"pid\": 1, \"tid\": 0, \"args\": "
        "{\"sort_index\": 5}},"
        "{}, {" OP "}, {}");
    assert_int_equal(gw_trace_count(r.t), 1);
    assert_int_equal(lost_any(&r), 0);
    reading_free(&r);
}

static void test_unknown_records(void **state)
{
    (void)state;
    struct reading r = read_events(
        "{\"ph\": \"X\", \"cat\": \"news\", \"name\": \"a\", \"pid\": 1, \"tid\": 7, \"ts\": 1, \"dur\": 2},"
        "{\"ph\": \"X\", \"name\": \"b\", \"pid\": 1, \"tid\": 7, \"ts\": 1, \"dur\": 2, \"args\": {\"stream\": 1}},"
        "{\"ph\": \"X\", \"name\": \"c\", \"pid\": 1, \"tid\": 7, \"ts\": 1, \"dur\": 2, \"args\": {\"stream\": 4, "
        "\"device\": 2}},"
        "{\"ph\": \"?\", \"cat\": \"cpu_op\", \"name\": \"d\", \"pid\": 1, \"tid\": 7, \"ts\": 1, \"dur\": 2}");
    assert_int_equal(gw_trace_count(r.t), 1); /* a device and a stream: a kernel, whatever it is called */
    assert_int_equal(ev(&r, 0)->kind, GW_KIND_KERNEL);
    assert_int_equal(lane_of(&r, 0)->device, 2);
    assert_int_equal(lost(&r, GW_LOSS_UNKNOWN_RECORD), 3);
    reading_free(&r);
}

static void test_begin_end(void **state)
{
    (void)state;
    struct reading r = read_events(
        "{\"ph\": \"B\", \"cat\": \"cpu_op\", \"name\": \"outer\", \"pid\": 1, \"tid\": 2, \"ts\": 1},"
        "{\"ph\": \"B\", \"cat\": \"cpu_op\", \"name\": \"inner\", \"pid\": 1, \"tid\": 2, \"ts\": 2},"
        "{\"ph\": \"B\", \"cat\": \"cpu_op\", \"name\": \"other\", \"pid\": 1, \"tid\": 3, \"ts\": 2},"
        "{\"ph\": \"E\", \"pid\": 1, \"tid\": 2, \"ts\": 3}, {\"ph\": \"E\", \"pid\": 1, \"tid\": 2, \"ts\": 5.5},"
        "{\"ph\": \"E\", \"pid\": 1, \"tid\": 2, \"ts\": 6}"); /* one end too many, and "other" never ends */
    assert_int_equal(gw_trace_count(r.t), 2);
    assert_string_equal(name_of(&r, 0), "inner");
    assert_int_equal(ev(&r, 0)->end, 3000);
    assert_string_equal(name_of(&r, 1), "outer");
    assert_int_equal(ev(&r, 1)->start, 1000);
    assert_int_equal(ev(&r, 1)->end, 5500);
    assert_int_equal(lost(&r, GW_LOSS_BAD_EVENT), 2);
    reading_free(&r);
}

static void test_counters(void **state)
{
    (void)state;
    struct reading r = read_events("{\"ph\": \"C\", \"name\": \"GPU power\", \"pid\": 3, \"ts\": 5, \"args\": {\"W\": "
                                   "120.5, \"note\": \"x\", \"mW\": 7}},"
                                   "{\"ph\": \"X\", \"cat\": \"cuda_profiler_range\", \"name\": \"k\", \"pid\": 0, "
                                   "\"tid\": 0, \"ts\": 1, \"dur\": 2,"
                                   " \"args\": {\"smsp__inst_executed.sum\": 4866048}}");
    double d;
    assert_int_equal(gw_trace_count(r.t), 3);
    assert_string_equal(name_of(&r, 0), "GPU power: W");
    memcpy(&d, &ev(&r, 0)->arg0, sizeof d);
    assert_true(d > 120.4 && d < 120.6);
    assert_string_equal(name_of(&r, 1), "GPU power: mW");
    assert_string_equal(name_of(&r, 2), "smsp__inst_executed.sum");
    assert_int_equal(ev(&r, 2)->end, 3000);
    assert_int_equal(lane_of(&r, 2)->type, GW_LANE_COUNTER);
    assert_int_equal(lane_of(&r, 2)->device, 0);
    reading_free(&r);
}

static void test_graphs(void **state)
{
    (void)state;
    struct reading r = read_events(
        "{" KERNEL ", \"ts\": 1, \"dur\": 2, \"args\": {\"graph id\": 1, \"graph node id\": 17, \"correlation\": 1}},"
        "{" KERNEL ", \"ts\": 1, \"dur\": 2, \"args\": {\"correlation\": 5}},"
        "{" KERNEL ", \"ts\": 1, \"dur\": 2, \"args\": {\"correlation\": 6}},"
        "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"hipGraphLaunch\", \"pid\": 1, \"tid\": 1, \"ts\": 1, "
        "\"dur\": 2,"
        " \"args\": {\"correlation\": 5}}");
    assert_true(ev(&r, 0)->flags & GW_EV_IN_GRAPH);
    assert_true(ev(&r, 1)->flags & GW_EV_IN_GRAPH); /* launched by a graph launch */
    assert_false(ev(&r, 2)->flags & GW_EV_IN_GRAPH);
    reading_free(&r);
}

static void test_ids_of_any_size(void **state)
{
    (void)state;
    struct reading r = read_events("{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"a\", \"pid\": "
                                   "18446744073709551615, \"tid\": 9223372036854775808, \"ts\": 1,"
                                   " \"dur\": 2, \"args\": {\"Comms Id\": 10159970886766084423}},"
                                   "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"b\", \"pid\": \"worker\", "
                                   "\"tid\": \"0x7f00\", \"ts\": 1, \"dur\": 2,"
                                   " \"args\": {\"correlation\": 10159970886766084423}}, {" KERNEL
                                   ", \"ts\": 1, \"dur\": 2, \"args\": {\"correlation\": 0}}");
    assert_int_equal(lane_of(&r, 0)->pid, -1);
    assert_true(lane_of(&r, 0)->tid == INT64_MIN);
    assert_int_equal(lane_of(&r, 1)->tid, 0x7f00);
    assert_true(ev(&r, 1)->corr == 10159970886766084423u);
    assert_int_equal(ev(&r, 2)->flags, 0); /* correlation 0 is none */
    reading_free(&r);
}

static void test_times_that_cannot_be(void **state)
{
    (void)state;
    struct reading r =
        read_events("{" KERNEL ", \"ts\": NaN, \"dur\": 2}, {" KERNEL ", \"ts\": 1, \"dur\": Infinity}, {" KERNEL
                    ", \"ts\": 1e30, \"dur\": 2},"
                    "{" KERNEL ", \"ts\": 4611686018427387, \"dur\": 5}," /* the end is out of range */
                    "{" KERNEL ", \"ts\": 5, \"dur\": -3},"
                    "{" KERNEL ", \"dur\": 2}, {" KERNEL ", \"ts\": 1}, {" KERNEL
                    ", \"ts\": null, \"dur\": 1}, {" KERNEL ", \"ts\": \"x\", \"dur\": 1},"
                    "{" KERNEL ", \"ts\": \"12.5\", \"dur\": \"1\"}, {" KERNEL ", \"ts\": -3.25, \"dur\": 1}");
    assert_int_equal(lost(&r, GW_LOSS_BAD_TIME), 4);
    assert_int_equal(lost(&r, GW_LOSS_NEGATIVE_DURATION), 1);
    assert_int_equal(lost(&r, GW_LOSS_BAD_EVENT), 4);
    assert_int_equal(gw_trace_count(r.t), 3);
    assert_int_equal(ev(&r, 0)->end, ev(&r, 0)->start);
    assert_int_equal(ev(&r, 1)->start, 12500);
    assert_int_equal(ev(&r, 2)->start, -3250);
    reading_free(&r);
}

static void test_no_name_or_row(void **state)
{
    (void)state;
    struct reading r = read_events(
        "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"pid\": 1, \"tid\": 1, \"ts\": 1, \"dur\": 1},"
        "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"\", \"pid\": 1, \"tid\": 1, \"ts\": 1, \"dur\": 1},"
        "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"a\", \"tid\": 1, \"ts\": 1, \"dur\": 1},"
        "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"a\", \"pid\": null, \"tid\": 1, \"ts\": 1, \"dur\": 1},"
        "{\"cat\": \"cpu_op\", \"name\": \"a\", \"pid\": 1, \"tid\": 1, \"ts\": 1, \"dur\": 1}, {" OP "}");
    assert_int_equal(lost(&r, GW_LOSS_BAD_EVENT), 5);
    assert_int_equal(gw_trace_count(r.t), 1);
    reading_free(&r);
}

static void test_us_resolution(void **state)
{
    (void)state;
    struct reading r =
        read_events("{" KERNEL ", \"ts\": 1, \"dur\": 2}, {" KERNEL ", \"ts\": 5.000, \"dur\": 2.0}, {" OP "}");
    assert_int_equal(lost(&r, GW_LOSS_US_RESOLUTION), 1);
    assert_int_equal(r.t->facts.clock_error_ns, 1000);
    reading_free(&r);
    r = read_events("{" KERNEL ", \"ts\": 1, \"dur\": 2}, {" KERNEL ", \"ts\": 5, \"dur\": 2.5}");
    assert_int_equal(lost(&r, GW_LOSS_US_RESOLUTION), 0);
    assert_int_equal(r.t->facts.clock_error_ns, 0);
    reading_free(&r);
    r = read_events("{" OP "}"); /* no GPU operation: nothing to say */
    assert_int_equal(lost(&r, GW_LOSS_US_RESOLUTION), 0);
    reading_free(&r);
}

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *json, *want;
    } names[] = {
        {"plain", "plain"},
        {"a \\\"b\\\" c", "a \"b\" c"},
        {"tab\\tnl\\nslash\\/back\\\\", "tab\tnl\nslash/back\\"},
        {"\\u0041\\u00e9\\u65e5", "A\xc3\xa9\xe6\x97\xa5"},
        {"\\ud83d\\ude00", "\xf0\x9f\x98\x80"},
        {"\\ud83d x", "\xef\xbf\xbd x"}, /* half a pair */
        {"\\u12G4", "\\u12G4"},          /* no escape after all */
        {"C:\\path\\q", "C:\\path\\q"},  /* \p and \q escape nothing: kept */
        {"bad \xff\xfe utf8", "bad \xff\xfe utf8"},
        {"raw\nnewline\x01", "raw\nnewline\x01"},
        {"{lambda(int)#1}::operator()[", "{lambda(int)#1}::operator()["},
        {"x\\\\", "x\\"},
        {"a \\\", \\\"b\\\": 1", "a \", \"b\": 1"}, /* looks like members, is text */
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[512];
        snprintf(
            text, sizeof text,
            "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"%s\", \"pid\": 1, \"tid\": 2, \"ts\": 1, \"dur\": 2},"
            " {" OP "}",
            names[i].json);
        struct reading r = read_events(text);
        assert_int_equal(gw_trace_count(r.t), 2);
        assert_string_equal(name_of(&r, 0), names[i].want);
        assert_int_equal(lost_any(&r), 0);
        reading_free(&r);
    }
}

/* A Windows path that ends in a separator: the quote behind it really closes. */
static void test_backslash_before_the_closing_quote(void **state)
{
    (void)state;
    struct reading r = read_events(
        "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"C:\\dir\\\", \"pid\": 1, \"tid\": 2, \"ts\": 1, \"dur\": 2},"
        "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"a\", \"pid\": 1, \"tid\": 2, \"ts\": 1, \"dur\": 2,"
        " \"args\": {\"cwd\": \"D:\\\"}},"
        "{" OP ", \"args\": {\"paths\": [\"C:\\\", \"D:\\\"]}}");
    assert_int_equal(gw_trace_count(r.t), 3);
    assert_string_equal(name_of(&r, 0), "C:\\dir\\");
    assert_int_equal(lost_any(&r), 0);
    reading_free(&r);
}

static void test_forgiven_syntax(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"traceEvents\": [{" OP "},]}", /* trailing commas */
        "{\"traceEvents\": [{" OP ",},],}",
        "{\"traceEvents\": [{" OP "} {" OP "}]}", /* missing commas */
        "{\"traceEvents\": [{" OP " \"args\": {\"a\": 1 \"b\": 2}}] \"x\": 1}",
        "\xef\xbb\xbf{\"traceEvents\": [{" OP "}]}", /* byte order mark */
        "[{" OP "}]",                                /* the list alone */
        "[{" OP "},",                                /* ... which may lack its end */
        "[{" OP "}",
        "{\"traceEvents\":[{" OP ",\"args\":{\"a\":,\"b\":}}]}", /* missing values */
        "{\"traceEvents\":[{" OP ",\"args\":[1,2]}, {" OP ",\"args\":null}]}",
        "{\"traceEvents\":[{" OP ",\"args\":{\"a\":NaN,\"b\":-Infinity,\"c\":None,\"d\":ncclFloat32}}]}",
        "{\"a\": {\"traceEvents\": [1]}, \"b\": \"\\\"traceEvents\\\": [\", \"traceEvents\": [{" OP "}], \"c\": 0}",
        "\n\t {\"traceEvents\":\n[\n\n]\n, \"traceEvents\": [{" OP "}]}\n \n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct reading r = read_text(texts[i]);
        if (r.rc != 0 || gw_trace_count(r.t) < 1 || lost_any(&r) != (i + 1 == sizeof texts / sizeof *texts))
            fail_msg("%s: rc %d, %zu events, %d losses", texts[i], r.rc, gw_trace_count(r.t), (int)lost_any(&r));
        assert_string_equal(name_of(&r, 0), "op");
        reading_free(&r);
    }
}

static void test_duplicate_keys(void **state)
{
    (void)state;
    struct reading r = read_events("{" OP ", \"name\": \"last\", \"ts\": 7, \"dur\": 1}");
    assert_string_equal(name_of(&r, 0), "last");
    assert_int_equal(ev(&r, 0)->start, 7000);
    assert_int_equal(ev(&r, 0)->end, 8000);
    reading_free(&r);
}

static void test_deep_nesting(void **state)
{
    (void)state;
    enum { DEEP = 200000 };
    char *text = malloc(2 * DEEP + 1024);
    assert_non_null(text);
    size_t n = (size_t)sprintf(text, "{\"traceEvents\": [{" OP ", \"args\": {\"x\": ");
    memset(text + n, '[', DEEP);
    memset(text + n + DEEP, ']', DEEP);
    sprintf(text + n + 2 * DEEP, "}}, {" OP "}]}");
    struct reading r = read_text(text);
    assert_int_equal(gw_trace_count(r.t), 2);
    assert_int_equal(lost_any(&r), 0);
    reading_free(&r);
    free(text);
}

static void test_facts(void **state)
{
    (void)state;
    struct reading r =
        read_text("{\"schemaVersion\": 1, \"deviceProperties\": [\n {\"id\": 0, \"name\": \"NVIDIA H200\", "
                  "\"totalGlobalMem\": 150109880320,"
                  " \"computeMajor\": 9, \"computeMinor\": 0, \"maxThreadsPerMultiprocessor\": 2048, \"numSms\": 132},"
                  " {\"id\": 1, \"name\": \"other\", \"numSms\": 5}], \"cuda_driver_version\": 13000, "
                  "\"cuda_runtime_version\": 12080,"
                  " \"cupti_version\": 130001, \"with_stack\": 1, \"record_shapes\": 1, \"profile_memory\": 0, "
                  "\"username\": \"somebody\","
                  " \"traceEvents\": [{" KERNEL ", \"ts\": 1, \"dur\": 2}],"
                  " \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 3, \"world_size\": 8, \"pg_config\": "
                  "[{\"ranks\": [0, 1]}]},"
                  " \"host_name\": \"node\\u0031\", \"baseTimeNanoseconds\": 1790857026000000000, \"traceName\": "
                  "\"/tmp/x.json\"}");
    const struct gw_facts *f = &r.t->facts;
    assert_int_equal(r.rc, 0);
    assert_string_equal(f->framework, "PyTorch");
    assert_int_equal(f->cuda_driver, 13000);
    assert_int_equal(f->cuda_runtime, 12080);
    assert_int_equal(f->cupti, 130001);
    assert_int_equal(f->amd, 0);
    assert_int_equal(f->rank, 3);
    assert_int_equal(f->world_size, 8);
    assert_string_equal(f->dist_backend, "nccl");
    assert_string_equal(f->host, "node1");
    assert_int_equal(f->with_stack, 1);
    assert_int_equal(f->record_shapes, 1);
    assert_int_equal(f->profile_memory, 0);
    assert_int_equal(f->base_ns, 1790857026000000000);
    assert_int_equal(ev(&r, 0)->start, 1000); /* the base is not added */
    assert_int_equal(r.t->devices.len, 1);    /* a device that did nothing is no idle device */
    const struct gw_device *d = r.t->devices.data;
    assert_string_equal(gw_trace_text(r.t, d->name), "NVIDIA H200");
    assert_int_equal(d->memory_bytes, 150109880320);
    assert_int_equal(d->sm_count, 132);
    assert_int_equal(d->cc_major, 9);
    assert_int_equal(d->cc_minor, 0);
    assert_int_equal(d->max_threads_per_sm, 2048);
    for (uint32_t i = 1; i <= gw_intern_count(r.t->names); i++)
        assert_string_not_equal(gw_trace_text(r.t, i), "somebody");
    const struct gw_source *s = r.t->sources.data;
    assert_int_equal(s->events, 1);
    assert_string_equal(s->format, "kineto");
    reading_free(&r);
}

static void test_amd(void **state)
{
    (void)state;
    struct reading r =
        read_text("{\"roctracer_version\": 4.1, \"deviceProperties\": [{\"id\": 0, \"name\": \"\", \"numSms\": 304}], "
                  "\"traceEvents\": [{" KERNEL ", \"ts\": 1, \"dur\": 2, \"args\": {\"device\": 9, \"stream\": 3}}]}");
    assert_int_equal(r.t->facts.amd, 1);
    const struct gw_device *d = r.t->devices.data;
    assert_int_equal(d->id, 9); /* processors are numbered otherwise than devices; the only properties there are fit */
    assert_int_equal(d->sm_count, 304);
    assert_int_equal(d->name, 0);
    reading_free(&r);
}

static void test_lane_names(void **state)
{
    (void)state;
    struct reading r = read_events(
        "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 10, \"tid\": 0, \"args\": {\"name\": \"python3\"}},"
        "{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 10, \"tid\": 11, \"args\": {\"name\": \"thread 11 "
        "(python3)\"}},"
        "{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 99, \"tid\": 1, \"args\": {\"name\": \"nobody\"}},"
        "{" OP
        "}, {\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"x\", \"pid\": 10, \"tid\": 12, \"ts\": 1, \"dur\": 1},"
        "{" KERNEL ", \"ts\": 1, \"dur\": 2},"
        "{\"args\": {\"name\": \"thread 11 (pt_autograd_0)\"}, \"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 10, "
        "\"tid\": 11},"
        "{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 0, \"tid\": \"stream 7\", \"args\": {\"name\": \"stream 7 "
        "\"}}");
    assert_string_equal(gw_trace_text(r.t, lane_of(&r, 0)->name),
                        "thread 11 (pt_autograd_0)"); /* the last word counts */
    assert_string_equal(gw_trace_text(r.t, lane_of(&r, 1)->name), "python3");
    assert_string_equal(gw_trace_text(r.t, lane_of(&r, 2)->name), "stream 7 ");
    assert_int_equal(r.t->lanes.len, 3); /* a row without events gets no lane */
    reading_free(&r);
}

static void test_several_writers(void **state)
{
    (void)state;
    struct reading r = read_text("{\"traceEvents\": [{" OP "}]}{\"traceEvents\": [{" OP "}]}");
    assert_int_equal(lost(&r, GW_LOSS_SEVERAL_WRITERS), 1);
    assert_int_equal(gw_trace_count(r.t), 1);
    reading_free(&r);
}

static void test_memory_cap(void **state)
{
    (void)state;
    static char buf[1 << 16];
    size_t n = (size_t)sprintf(buf, "{\"traceEvents\": [");
    for (int i = 0; i < 500; i++)
        n += (size_t)sprintf(buf + n, "{" OP "},");
    sprintf(buf + n, "]}");
    struct gw_trace *t = gw_trace_create(100 * (sizeof(struct gw_event) + 8));
    struct gw_error err = {0};
    struct gw_import_options o = {.threads = 1};
    struct gw_stream_options so = {.threaded = 0};
    struct gw_stream *s = gw_stream_memory(buf, strlen(buf), &so, &err);
    assert_int_equal(kineto_read(t, s, "x", &o, &err), 0);
    assert_true(gw_trace_count(t) >= 100 && gw_trace_count(t) < 110);
    assert_true(t->loss[GW_LOSS_MEMORY_CAP].count > 0);
    gw_stream_close(s);
    gw_trace_destroy(t);
}

/* Ever new names fill the same memory. */
static void test_memory_cap_of_names(void **state)
{
    (void)state;
    static char buf[1 << 20];
    size_t n = (size_t)sprintf(buf, "{\"traceEvents\": [");
    for (int i = 0; i < 500; i++)
        n += (size_t)sprintf(buf + n, "{" OP ", \"name\": \"%0900d\"},", i);
    sprintf(buf + n, "]}");
    struct gw_trace *t = gw_trace_create(100000);
    struct gw_error err = {0};
    struct gw_import_options o = {.threads = 1};
    struct gw_stream_options so = {.block_bytes = 10000};
    struct gw_stream *s = gw_stream_memory(buf, strlen(buf), &so, &err);
    assert_int_equal(kineto_read(t, s, "x", &o, &err), 0);
    assert_true(gw_trace_count(t) >= 80 && gw_trace_count(t) < 110); /* about 1 KB each */
    assert_int_equal(t->loss[GW_LOSS_MEMORY_CAP].count, 1);
    gw_stream_close(s);
    gw_trace_destroy(t);
}

static int stop_at_once(void *user, int64_t done, int64_t total)
{
    int *calls = user;
    assert_true(done >= 0 && total > 0);
    (*calls)++;
    return 1;
}

static void test_progress_may_stop(void **state)
{
    (void)state;
    const char text[] = "{\"traceEvents\": [{" OP "}, {" OP "}]}";
    int calls = 0;
    struct gw_trace *t = gw_trace_create(0);
    struct gw_error err = {0};
    struct gw_import_options o = {.threads = 1, .progress = stop_at_once, .user = &calls};
    struct gw_stream_options so = {.block_bytes = 16};
    struct gw_stream *s = gw_stream_memory(text, sizeof text - 1, &so, &err);
    assert_int_equal(kineto_read(t, s, "x", &o, &err), GW_EINTR); /* before the first event: nothing to keep */
    assert_true(calls >= 1);
    assert_int_equal(t->loss[GW_LOSS_TRUNCATED].count, 1);
    gw_stream_close(s);
    gw_trace_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernel),
        cmocka_unit_test(test_row_of_kernel_without_args),
        cmocka_unit_test(test_collective),
        cmocka_unit_test(test_copies_and_sets),
        cmocka_unit_test(test_host_kinds),
        cmocka_unit_test(test_op_shapes),
        cmocka_unit_test(test_gpu_sync),
        cmocka_unit_test(test_dropped_without_a_word),
        cmocka_unit_test(test_unknown_records),
        cmocka_unit_test(test_begin_end),
        cmocka_unit_test(test_counters),
        cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_ids_of_any_size),
        cmocka_unit_test(test_times_that_cannot_be),
        cmocka_unit_test(test_no_name_or_row),
        cmocka_unit_test(test_us_resolution),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_backslash_before_the_closing_quote),
        cmocka_unit_test(test_forgiven_syntax),
        cmocka_unit_test(test_duplicate_keys),
        cmocka_unit_test(test_deep_nesting),
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_amd),
        cmocka_unit_test(test_lane_names),
        cmocka_unit_test(test_several_writers),
        cmocka_unit_test(test_memory_cap),
        cmocka_unit_test(test_memory_cap_of_names),
        cmocka_unit_test(test_progress_may_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
