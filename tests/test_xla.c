/* What the importer makes of traces of JAX and TensorFlow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "import/gw_stream.h"
#include "import/xla.h"

static struct gw_error error;

static struct gw_trace *read_cap(const char *text, size_t block, size_t cap)
{
    struct gw_trace *t = gw_trace_create(cap);
    struct gw_stream_options so = {.block_bytes = block};
    error = (struct gw_error){0};
    struct gw_stream *s = gw_stream_memory(text, strlen(text), &so, NULL);
    assert_non_null(t);
    assert_non_null(s);
    int rc = gw_importer_xla.read_stream(t, s, "t.trace.json", NULL, &error);
    gw_stream_close(s);
    if (rc < 0) {
        assert_int_equal(rc, error.code);
        gw_trace_destroy(t);
        return NULL;
    }
    assert_int_equal(gw_trace_finish(t), 0);
    return t;
}
static struct gw_trace *read_text(const char *text) { return read_cap(text, 50, 0); /* events cross blocks */ }

static const struct gw_event *find(const struct gw_trace *t, const char *name)
{
    for (uint32_t i = 0; i < gw_trace_count(t); i++)
        if (!strcmp(gw_trace_text(t, gw_trace_event(t, i)->name), name))
            return gw_trace_event(t, i);
    return NULL;
}

#define HEAD                                                                                                        \
    "{\"displayTimeUnit\":\"ns\",\"metadata\":{\"highres-ticks\":true},\n\"traceEvents\":[\n"                       \
    "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"/device:GPU:3\"}},\n"                   \
    "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":1}},\n"                       \
    "{\"ph\":\"M\",\"pid\":1,\"tid\":13,\"name\":\"thread_name\",\"args\":{\"name\":\"Stream "                      \
    "#13(MemcpyD2H,Compute)\"}},\n"                                                                                 \
    "{\"ph\":\"M\",\"pid\":1,\"tid\":14,\"name\":\"thread_name\",\"args\":{\"name\":\"Stream #14(MemcpyH2D)\"}},\n" \
    "{\"ph\":\"M\",\"pid\":1,\"tid\":2,\"name\":\"thread_name\",\"args\":{\"name\":\"XLA Ops\"}},\n"                \
    "{\"ph\":\"M\",\"pid\":701,\"name\":\"process_name\",\"args\":{\"name\":\"/host:CPU\"}},\n"                     \
    "{\"ph\":\"M\",\"pid\":701,\"tid\":55,\"name\":\"thread_name\",\"args\":{\"name\":\"python\"}},\n"              \
    "{\"ph\":\"M\",\"pid\":9,\"name\":\"process_name\",\"args\":{\"name\":\"Task Environment\"}},\n"

#define KERNEL                                                                                                        \
    "{\"ph\":\"X\",\"pid\":1,\"tid\":13,\"ts\":100.0015,\"dur\":2.5,\"name\":\"loop_fusion\",\"args\":{\"context_"    \
    "id\":\"$$1\","                                                                                                   \
    "\"correlation_id\":\"7\",\"hlo_op\":\"fusion.1\",\"kernel_details\":\"regs:24 static_shared:0 dynamic_shared:0 " \
    "grid:12,2,1 block:128,1,1 occ_pct:100\"}},\n"

static const char whole[] = HEAD KERNEL
    "{\"ph\":\"X\",\"pid\":1,\"tid\":2,\"ts\":100,\"dur\":2.6,\"name\":\"fusion.1\"},\n"
    "{\"ph\":\"X\",\"pid\":1,\"tid\":14,\"ts\":103,\"dur\":1,\"name\":\"MemcpyH2D\",\"args\":{\"correlation_id\":\"8\","
    "\"memcpy_details\":\"kind_src:pageable kind_dst:device size:4096 dest:0 async:1\"}},\n"
    "{\"ph\":\"X\",\"pid\":1,\"tid\":13,\"ts\":104,\"dur\":1,\"name\":\"MemcpyD2H\",\"args\":{\"memcpy_details\":"
    "\"kind_src:Device kind_dst:Host size:8 dest:0 async:1\"}},\n"
    "{\"ph\":\"X\",\"pid\":1,\"tid\":13,\"ts\":106,\"dur\":0.5,\"name\":\"Memset\"},\n"
    "{\"ph\":\"X\",\"pid\":701,\"tid\":55,\"ts\":90,\"dur\":3,\"name\":\"cuLaunchKernel\",\"args\":{\"correlation_id\":"
    "\"7\"}},\n"
    "{\"ph\":\"X\",\"pid\":701,\"tid\":55,\"ts\":80,\"dur\":40,\"name\":\"PjitFunction(step)\"},\n"
    "{\"ph\":\"X\",\"pid\":701,\"tid\":55,\"ts\":70,\"dur\":60,\"name\":\"train\",\"args\":{\"step_num\":\"4\"}},\n"
    "{\"ph\":\"X\",\"pid\":701,\"tid\":55,\"ts\":60,\"dur\":80,\"name\":\"$train.py:91 main \\\"x\\\"\"},\n"
    "{\"ph\":\"X\",\"pid\":9,\"tid\":1,\"ts\":1,\"dur\":1,\"name\":\"not ours\"},\n"
    "{}]}\n";

static void check_whole(struct gw_trace *t)
{
    assert_non_null(t);
    assert_int_equal(t->devices.len, 1);
    const struct gw_device *d = t->devices.data;
    assert_int_equal(d->id, 3);
    assert_int_equal(d->op_count, 4); /* the row "XLA Ops" is the same time once more */
    const struct gw_event *k = find(t, "loop_fusion");
    assert_int_equal(k->kind, GW_KIND_KERNEL);
    assert_int_equal(k->start, 100002); /* half to even */
    assert_int_equal(k->end - k->start, 2500);
    assert_int_equal(k->arg0, 24);
    assert_int_equal(k->sub, 128);
    assert_int_equal(gw_trace_lane(t, k->lane)->stream, 13);
    const struct gw_event *call = gw_trace_event(t, k->link);
    assert_int_equal(call->kind, GW_KIND_API);
    assert_string_equal(gw_trace_text(t, call->name), "cuLaunchKernel");
    const struct gw_event *h2d = find(t, "MemcpyH2D"), *d2h = find(t, "MemcpyD2H");
    assert_int_equal(h2d->kind, GW_KIND_COPY);
    assert_int_equal(h2d->arg0, 4096);
    assert_int_equal(h2d->sub, gw_copy_sub(GW_MEM_PAGEABLE, GW_MEM_DEVICE));
    assert_int_equal(d2h->sub, gw_copy_sub(GW_MEM_DEVICE, GW_MEM_HOST));
    assert_int_equal(find(t, "Memset")->kind, GW_KIND_SET);
    assert_int_equal(find(t, "PjitFunction(step)")->kind, GW_KIND_OP);
    assert_int_equal(find(t, "train")->kind, GW_KIND_ANNOT);
    assert_int_equal(find(t, "train.py(91): main \"x\"")->kind, GW_KIND_PYFUNC);
    assert_null(find(t, "not ours"));
    assert_string_equal(t->facts.framework, "JAX");
    assert_string_equal(gw_trace_text(t, gw_trace_lane(t, call->lane)->name), "python");
    for (int i = 0; i < GW_LOSS_COUNT; i++)
        if (i != GW_LOSS_NO_CORRELATION)
            assert_int_equal(t->loss[i].count, 0);
    gw_trace_destroy(t);
}

static void a_trace(void **state)
{
    (void)state;
    check_whole(read_text(whole));
    check_whole(read_cap(whole, 0, 0));
    check_whole(read_cap(whole, 1, 0));
}

static void cut_and_damaged(void **state)
{
    (void)state;
    struct gw_trace *t = read_text(HEAD KERNEL "{\"ph\":\"X\",\"pid\":1,\"ti");
    assert_non_null(t);
    assert_int_equal(gw_trace_count(t), 1);
    assert_int_equal(t->loss[GW_LOSS_TRUNCATED].count, 1);
    gw_trace_destroy(t);
    t = read_text(HEAD "{\"ph\":\"X\",\"pid\":1,\"tid\":13,\"ts\":\"x\",\"dur\":2,\"name\":\"a\"},"
                       "{\"ph\":\"X\",\"pid\":1,\"tid\":13,\"ts\":1e300,\"dur\":2,\"name\":\"b\"},"
                       "{\"ph\":\"X\",\"pid\":1,\"tid\":13,\"ts\":5,\"dur\":-2,\"name\":\"c\"},"
                       "{\"ph\":\"X\",\"pid\":{},\"tid\":13,\"ts\":5,\"dur\":2,\"name\":\"d\"}," KERNEL "{}]}");
    assert_non_null(t);
    assert_int_equal(gw_trace_count(t), 2);
    assert_int_equal(find(t, "c")->end, 5000);
    assert_int_equal(t->loss[GW_LOSS_BAD_EVENT].count, 2);
    assert_int_equal(t->loss[GW_LOSS_BAD_TIME].count, 1);
    assert_int_equal(t->loss[GW_LOSS_NEGATIVE_DURATION].count, 1);
    gw_trace_destroy(t);
    t = read_cap(whole, 0, 3 * (sizeof(struct gw_event) + 8)); /* a cap of four events */
    assert_non_null(t);
    assert_int_equal(gw_trace_count(t), 4);
    assert_int_equal(t->loss[GW_LOSS_MEMORY_CAP].count, 1);
    assert_int_equal(t->loss[GW_LOSS_TRUNCATED].count, 0);
    gw_trace_destroy(t);
}

static void nothing(void **state)
{
    (void)state;
    assert_null(read_text("{\"traceEvents\":[]}"));
    assert_int_equal(error.code, GW_ENODATA);
    assert_null(read_text("{\"traceEvents\":5}"));
    assert_null(read_text(""));
    struct gw_trace *t = read_text(HEAD "{}]}");
    assert_non_null(t);
    assert_int_equal(t->loss[GW_LOSS_NO_GPU].count, 1);
    gw_trace_destroy(t);
}

static void sniffing(void **state)
{
    (void)state;
    assert_int_equal(gw_importer_xla.sniff("x", (const unsigned char *)whole, sizeof whole), 97);
    const char kineto[] = "{\"traceEvents\":[{\"ph\":\"M\",\"name\":\"process_name\",\"args\":{\"name\":\"python\"}},{"
                          "\"cat\":\"kernel\"}]}";
    assert_int_equal(gw_importer_xla.sniff("x", (const unsigned char *)kineto, sizeof kineto), 0);
    assert_int_equal(gw_importer_xla.sniff("x", (const unsigned char *)"", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_trace), cmocka_unit_test(cut_and_damaged),
                                       cmocka_unit_test(nothing), cmocka_unit_test(sniffing)};
    return cmocka_run_group_tests_name("xla", tests, NULL, NULL);
}
