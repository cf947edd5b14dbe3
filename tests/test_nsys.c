/* What the Nsight Systems importer makes of exports of several versions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nsys_build.h"

/* A few rows of everything, as 2025 and 2026 write it. */
static void full_export(void **state)
{
    (void)state;
    struct nb b;
    nb_open(&b, "full.sqlite");
    nb_sql(&b, NB_META NB_STRINGS NB_KERNEL_2025 NB_MEMCPY_2025 NB_RUNTIME NB_NVTX);
    nb_sql(
        &b,
        "INSERT INTO StringIds VALUES (1,'cudaLaunchKernel_v7000'),(2,'void gemm<float, (int)4>(T1)'),(3,'gemm'),"
        "(4,'cudaMemcpyAsync_ptsz_v3020'),(5,'futex'),(6,'python3'),(7,'cuMemAlloc_v2');"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES "
        "(2000,3000,0,1,0,7,10," NB_PID ",2,3,NULL,1,1,32,10,2,3,128,2,1,NULL),"
        "(4000,4500,0,1,0,7,12," NB_PID ",2,3,NULL,1,1,32,1,1,1,32,1,1,77);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES "
        "(3100,3500,0,1,0,13,11," NB_PID ",4096,1,NULL,0,2,NULL),(3600,3700,0,1,0,13,13," NB_PID ",64,2,NULL,2,1,NULL);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET "
        "(start,end,deviceId,contextId,streamId,correlationId,globalPid,value,bytes,memKind);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (5000,5100,0,1,7,14," NB_PID ",0,256,2);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE "
        "(start,end,deviceId,contextId,streamId,correlationId,globalPid,graphId,graphExecId);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (6000,9000,0,1,7,15," NB_PID ",4,5);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1000,1100,0," NB_TID ",10,1,0,NULL),"
        "(1200,1300,0," NB_TID ",11,4,0,NULL),(1400,1450,1," NB_TID ",16,7,0,NULL);"
        "CREATE TABLE OSRT_API (start,end,eventClass,globalTid,nameId,returnValue,nestingLevel,callchainId);"
        "INSERT INTO OSRT_API VALUES (100,900,27," NB_TID ",5,0,0,0);"
        "CREATE TABLE ThreadNames (nameId,priority,globalTid); INSERT INTO ThreadNames VALUES (6,0," NB_TID
        "),(6,0,99);"
        "CREATE TABLE TARGET_INFO_GPU "
        "(vmId,id,name,totalMemory,smCount,computeMajor,computeMinor,maxWarpsPerSm,threadsPerWarp);"
        "INSERT INTO TARGET_INFO_GPU VALUES (1,0,'NVIDIA H200',150000000000,132,9,0,64,32),(1,1,'other',1,1,1,1,1,1);"
        "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs, utcTime, localTime);"
        "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1763851018220901611,'','');");
    struct gw_trace *t = nb_read(&b);
    assert_non_null(t);
    assert_string_equal(t->facts.profiler, "Nsight Systems 2025.5.1");
    assert_int_equal(t->facts.base_ns, 1763851018220901611);
    const struct gw_event *k = nb_event(t, GW_KIND_KERNEL, 0), *k1 = nb_event(t, GW_KIND_KERNEL, 1);
    assert_string_equal(nb_name(t, k), "void gemm<float, (int)4>(T1)");
    assert_int_equal(k->start, 2000);
    assert_int_equal(k->end, 3000);
    assert_int_equal(k->arg0, 60);
    assert_int_equal(k->sub, 256);
    assert_int_equal(k->flags, GW_EV_HAS_CORR | GW_EV_HAS_ARG0 | GW_EV_HAS_SUB);
    assert_int_equal(k1->flags & GW_EV_IN_GRAPH, GW_EV_IN_GRAPH);
    const struct gw_event *call = gw_trace_event(t, k->link);
    assert_string_equal(nb_name(t, call), "cudaLaunchKernel");
    assert_ptr_equal(gw_trace_event(t, call->link), k);
    assert_string_equal(nb_name(t, nb_event(t, GW_KIND_API, 1)), "cudaMemcpyAsync");
    assert_string_equal(nb_name(t, nb_event(t, GW_KIND_API, 2)), "cuMemAlloc_v2");
    const struct gw_event *c = nb_event(t, GW_KIND_COPY, 0);
    assert_string_equal(nb_name(t, c), "Memcpy HtoD (Pageable -> Device)");
    assert_int_equal(c->sub, gw_copy_sub(GW_MEM_PAGEABLE, GW_MEM_DEVICE));
    assert_int_equal(c->arg0, 4096);
    assert_int_equal(nb_event(t, GW_KIND_COPY, 1)->sub, gw_copy_sub(GW_MEM_DEVICE, GW_MEM_PINNED));
    assert_int_equal(nb_event(t, GW_KIND_SET, 0)->arg0, 256);
    assert_string_equal(nb_name(t, nb_event(t, GW_KIND_GRAPH, 0)), "CUDA graph 4");
    assert_int_equal(t->loss[GW_LOSS_GRAPH_BLOCKS].count, 1);
    assert_string_equal(nb_name(t, nb_event(t, GW_KIND_OSRT, 0)), "futex");
    const struct gw_lane *thread = gw_trace_lane(t, nb_event(t, GW_KIND_OSRT, 0)->lane);
    assert_int_equal(thread->pid, 144);
    assert_int_equal(thread->tid, 144);
    assert_string_equal(gw_trace_text(t, thread->name), "python3");
    assert_int_equal(t->devices.len, 1);
    const struct gw_device *d = t->devices.data;
    assert_string_equal(gw_trace_text(t, d->name), "NVIDIA H200");
    assert_int_equal(d->memory_bytes, 150000000000);
    assert_int_equal(d->sm_count, 132);
    assert_int_equal(d->cc_major, 9);
    assert_int_equal(d->max_threads_per_sm, 2048);
    assert_int_equal(d->op_count, 6);
    const struct gw_source *s = t->sources.data;
    assert_string_equal(s->format, "nsys");
    assert_int_equal(t->loss[GW_LOSS_UNKNOWN_RECORD].count, 0);
    gw_trace_destroy(t);
    nb_close(&b);
}

/* Early 2021: no process in rows of GPU work, no ENUM tables, GPUs in a table of another name and columns. */
static void export_of_2021(void **state)
{
    (void)state;
    struct nb b;
    nb_open(&b, "old.sqlite");
    nb_sql(&b, NB_STRINGS NB_KERNEL_2021 NB_RUNTIME
           "CREATE TABLE EXPORT_META_DATA (name TEXT, value TEXT); INSERT INTO EXPORT_META_DATA VALUES "
           "('PRODUCT_VERSION','2021.1.3.14');"
           "INSERT INTO StringIds VALUES (1,'cudaLaunchKernel_v7000'),(2,'k(int)'),(3,'k');"
           "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (200,300,0,1,7,5,2,3,0,0,16,2,1,1,64,1,1,0,0);"
           "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT,end INT,deviceId INT,contextId INT,streamId "
           "INT,correlationId INT,"
           " bytes INT,copyKind INT,srcKind INT,dstKind INT);"
           "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (400,500,0,1,7,6,100,1,0,2),(600,700,0,1,7,7,100,2,2,1),"
           "(710,720,0,1,7,8,100,8,2,4),(730,740,0,1,7,9,100,11,4,4);"
           "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (100,150,0," NB_TID ",5,1,0,0);"
           "CREATE TABLE TARGET_INFO_CUDA_GPU (deviceId INT, name TEXT, numMultiprocessors INT, numThreadsPerWarp INT,"
           " maxWarpsPerMultiprocessor INT, computeCapabilityMajor INT, computeCapabilityMinor INT);"
           "INSERT INTO TARGET_INFO_CUDA_GPU VALUES (0,'Tesla V100',80,32,64,7,0);");
    struct gw_trace *t = nb_read(&b);
    assert_non_null(t);
    assert_string_equal(t->facts.profiler, "Nsight Systems 2021.1.3");
    const struct gw_event *k = nb_event(t, GW_KIND_KERNEL, 0);
    assert_int_not_equal(k->link, GW_NONE);
    assert_int_equal(nb_event(t, GW_KIND_COPY, 0)->sub, gw_copy_sub(GW_MEM_PAGEABLE, GW_MEM_DEVICE));
    assert_int_equal(nb_event(t, GW_KIND_COPY, 1)->sub, gw_copy_sub(GW_MEM_DEVICE, GW_MEM_PINNED));
    assert_int_equal(nb_event(t, GW_KIND_COPY, 2)->sub,
                     gw_copy_sub(GW_MEM_DEVICE, GW_MEM_DEVICE)); /* 4 meant "unknown" */
    assert_int_equal(nb_event(t, GW_KIND_COPY, 3)->sub, gw_copy_sub(GW_MEM_MANAGED, GW_MEM_MANAGED));
    const struct gw_device *d = t->devices.data;
    assert_string_equal(gw_trace_text(t, d->name), "Tesla V100");
    assert_int_equal(d->sm_count, 80);
    assert_int_equal(d->max_threads_per_sm, 2048);
    assert_int_equal(d->memory_bytes, -1);
    gw_trace_destroy(t);
    nb_close(&b);
}

/* The ENUM table has the last word on what a memory kind's number means. */
static void enum_tables(void **state)
{
    (void)state;
    struct nb b;
    nb_open(&b, "enum.sqlite");
    nb_sql(&b, NB_STRINGS NB_MEMCPY_2025 NB_NVTX
           "CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER PRIMARY KEY, name TEXT, label TEXT);"
           "INSERT INTO ENUM_CUDA_MEM_KIND VALUES "
           "(0,'X_UNKNOWN',''),(1,'X_PAGEABLE',''),(2,'X_PINNED',''),(3,'X_DEVICE',''),"
           "(6,'X_DEVICE_STATIC',''),(7,'X_MANAGED_STATIC','');"
           "CREATE TABLE ENUM_NSYS_EVENT_TYPE (id INTEGER PRIMARY KEY, name TEXT, label TEXT);"
           "INSERT INTO ENUM_NSYS_EVENT_TYPE VALUES (1059,'NvtxPushPopRange','');"
           "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1,2,0,1,0,7,1," NB_PID ",1,1,NULL,1,3,NULL),"
           "(3,4,0,1,0,7,2," NB_PID ",1,1,NULL,0,3,NULL);"
           "INSERT INTO NVTX_EVENTS VALUES (1,5,1059,NULL,NULL,NULL,'phase'," NB_TID ",NULL,NULL,0),"
           "(1,5,59,NULL,NULL,NULL,'not a range here'," NB_TID ",NULL,NULL,0);");
    struct gw_trace *t = nb_read(&b);
    assert_non_null(t);
    assert_int_equal(nb_event(t, GW_KIND_COPY, 0)->sub, gw_copy_sub(GW_MEM_PAGEABLE, GW_MEM_DEVICE));
    assert_int_equal(nb_event(t, GW_KIND_COPY, 1)->sub,
                     gw_copy_sub(GW_MEM_HOST, GW_MEM_DEVICE)); /* a host end, of unknown sort */
    assert_int_equal(nb_count(t, GW_KIND_ANNOT), 1);
    gw_trace_destroy(t);
    nb_close(&b);
}

/* API rows without a table of kernels are "no GPU data", not an idle GPU. */
static void no_gpu_work(void **state)
{
    (void)state;
    struct nb b;
    nb_open(&b, "nogpu.sqlite");
    nb_sql(&b, NB_META NB_STRINGS NB_RUNTIME
           "INSERT INTO StringIds VALUES (1,'cudaMalloc_v3020'),(2,'cudaGraphLaunch_v10000');"
           "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (100,150,0," NB_TID ",5,1,0,0),(200,250,0," NB_TID
           ",6,2,0,0);"
           "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION "
           "(start,end,deviceId,contextId,streamId,correlationId,globalPid,syncType,eventId);"
           "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (1,2,0,1,7,3," NB_PID ",3,4294967295);");
    struct gw_trace *t = nb_read(&b);
    assert_non_null(t);
    assert_int_equal(t->loss[GW_LOSS_NO_GPU].count, 1);
    assert_int_equal(t->loss[GW_LOSS_GRAPH_HIDDEN].count, 1);
    assert_int_equal(t->devices.len, 0);
    assert_int_equal(nb_count(t, GW_KIND_API), 2);
    gw_trace_destroy(t);
    nb_close(&b);
}

/* Two ranks, each numbering its one GPU 0 and its calls from 1; the export says which GPU each has. */
static void ranks_with_device_zero(void **state)
{
    (void)state;
    const char *rows = "INSERT INTO StringIds VALUES (1,'cudaLaunchKernel_v7000'),(2,'a'),(3,'b');"
                       "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES "
                       "(200,300,0,1,0,7,5,(1<<48)|(10<<24),2,2,0,0,0,0,1,1,1,1,1,1,NULL),"
                       "(250,350,0,1,0,7,5,(1<<48)|(11<<24),3,3,0,0,0,0,1,1,1,1,1,1,NULL);"
                       "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (100,110,0,(1<<48)|(10<<24)|10,5,1,0,0),"
                       "(120,130,0,(1<<48)|(11<<24)|11,5,1,0,0);";
    struct nb b;
    nb_open(&b, "ranks.sqlite");
    nb_sql(&b, NB_STRINGS NB_KERNEL_2025 NB_RUNTIME);
    nb_sql(&b, rows);
    nb_sql(&b, "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId,cudaId,pid,uuid,numMultiprocessors);"
               "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (2,0,10,'',66),(5,0,11,'',66);"
               "CREATE TABLE TARGET_INFO_GPU (id,name,smCount); INSERT INTO TARGET_INFO_GPU VALUES "
               "(2,'two',132),(5,'five',132);");
    struct gw_trace *t = nb_read(&b);
    assert_non_null(t);
    const struct gw_device *d = t->devices.data;
    assert_int_equal(t->devices.len, 2);
    assert_int_equal(d[0].id, 2);
    assert_string_equal(gw_trace_text(t, d[1].name), "five");
    assert_int_equal(d[1].sm_count, 66); /* what the process may use */
    const struct gw_event *k0 = nb_event(t, GW_KIND_KERNEL, 0), *k1 = nb_event(t, GW_KIND_KERNEL, 1);
    assert_int_equal(gw_trace_event(t, k0->link)->start, 100);
    assert_int_equal(gw_trace_event(t, k1->link)->start, 120);
    gw_trace_destroy(t);
    nb_close(&b);

    /* Without that table both are on device 0, on streams of their own, and each still finds its own launch. */
    nb_open(&b, "shared.sqlite");
    nb_sql(&b, NB_STRINGS NB_KERNEL_2025 NB_RUNTIME);
    nb_sql(&b, rows);
    t = nb_read(&b);
    assert_non_null(t);
    assert_int_equal(t->devices.len, 1);
    assert_int_equal(t->loss[GW_LOSS_OVERLAP_STREAM].count, 0);
    k1 = nb_event(t, GW_KIND_KERNEL, 1);
    assert_int_equal(gw_trace_event(t, k1->link)->start, 120);
    gw_trace_destroy(t);
    nb_close(&b);
}

/* A driver call inside a runtime call of the same id is the same call: whichever row comes first. */
static void nested_driver_calls(void **state)
{
    (void)state;
    struct nb b;
    nb_open(&b, "nested.sqlite");
    nb_sql(&b, NB_STRINGS NB_KERNEL_2025 NB_RUNTIME
           "INSERT INTO StringIds VALUES (1,'cudaLaunchKernel_v7000'),(2,'cuLaunchKernel'),(3,'k');"
           "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (500,600,0,1,0,7,5," NB_PID ",3,3,0,0,0,0,1,1,1,1,1,1,NULL),"
           "(700,800,0,1,0,7,6," NB_PID ",3,3,0,0,0,0,1,1,1,1,1,1,NULL);"
           "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (100,200,0," NB_TID ",5,1,0,0),(110,190,1," NB_TID
           ",5,2,0,0),"
           "(310,390,1," NB_TID ",6,2,0,0),(300,400,0," NB_TID ",6,1,0,0),(410,420,1," NB_TID ",7,2,0,0);");
    struct gw_trace *t = nb_read(&b);
    assert_non_null(t);
    assert_int_equal(nb_count(t, GW_KIND_API), 3); /* two launches, and the driver call that stands alone */
    assert_string_equal(nb_name(t, gw_trace_event(t, nb_event(t, GW_KIND_KERNEL, 0)->link)), "cudaLaunchKernel");
    assert_string_equal(nb_name(t, gw_trace_event(t, nb_event(t, GW_KIND_KERNEL, 1)->link)), "cudaLaunchKernel");
    gw_trace_destroy(t);
    nb_close(&b);

    nb_open(&b, "driver.sqlite"); /* the same with driver calls in a table of their own */
    nb_sql(&b, NB_STRINGS NB_RUNTIME
           "CREATE TABLE CUPTI_ACTIVITY_KIND_DRIVER (start,end,globalTid,correlationId,nameId);"
           "INSERT INTO StringIds VALUES (1,'cudaLaunchKernel_v7000'),(2,'cuLaunchKernel');"
           "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (100,200,0," NB_TID ",5,1,0,0);"
           "INSERT INTO CUPTI_ACTIVITY_KIND_DRIVER VALUES (110,190," NB_TID ",5,2),(210,220," NB_TID ",6,2);");
    t = nb_read(&b);
    assert_non_null(t);
    assert_int_equal(nb_count(t, GW_KIND_API), 2);
    gw_trace_destroy(t);
    nb_close(&b);
}

static void ranges(void **state)
{
    (void)state;
    struct nb b;
    nb_open(&b, "nvtx.sqlite");
    nb_sql(&b, NB_STRINGS NB_NVTX
           "INSERT INTO StringIds VALUES (1,'registered'),(2,'aten::add, op_id = 5');"
           "INSERT INTO NVTX_EVENTS (start,end,eventType,text,globalTid,textId,domainId) VALUES "
           "(0,NULL,75,'CUBLAS'," NB_TID ",NULL,3),"
           "(100,200,59,'aten::mm, seq = 12, op_id = 34, sizes = [[2, 3], [3, 4]], input_op_ids = [(1,0)]'," NB_TID
           ",NULL,0),"
           "(110,120,59,NULL," NB_TID ",2,0),"
           "(130,140,59,'FSDP::pre_forward (layer.1), op_id = 7'," NB_TID ",NULL,0),"
           "(150,160,59,NULL," NB_TID ",1,0),"
           "(170,180,60,'epoch 3, warm'," NB_TID ",NULL,0),"
           "(190,195,59,'cublasSgemm'," NB_TID ",NULL,3),"
           "(10,NULL,59,'open'," NB_TID ",NULL,0),"
           "(50,NULL,34,'a mark'," NB_TID ",NULL,0),"
           "(300,310,59,'ncclAllReduce'," NB_TID ",NULL,9);");
    struct gw_trace *t = nb_read(&b);
    assert_non_null(t);
    const struct gw_event *mm = nb_event(t, GW_KIND_OP, 0);
    assert_string_equal(nb_name(t, mm), "aten::mm");
    assert_int_equal(mm->flags & GW_EV_HAS_ARG0, GW_EV_HAS_ARG0);
    assert_string_equal(gw_trace_text(t, (uint32_t)mm->arg0), "[[2, 3], [3, 4]]");
    assert_string_equal(nb_name(t, nb_event(t, GW_KIND_OP, 1)), "aten::add");
    assert_string_equal(nb_name(t, nb_event(t, GW_KIND_OP, 2)), "cublasSgemm");
    assert_string_equal(nb_name(t, nb_event(t, GW_KIND_OP, 3)), "ncclAllReduce");
    assert_string_equal(nb_name(t, nb_event(t, GW_KIND_ANNOT, 0)), "FSDP::pre_forward (layer.1)");
    assert_string_equal(nb_name(t, nb_event(t, GW_KIND_ANNOT, 1)), "registered");
    assert_string_equal(nb_name(t, nb_event(t, GW_KIND_ANNOT, 2)), "epoch 3, warm");
    const struct gw_event *open = nb_event(t, GW_KIND_ANNOT, 3);
    assert_string_equal(nb_name(t, open), "open");
    assert_int_equal(open->end, 310); /* to the end of the recording */
    assert_int_equal(nb_count(t, GW_KIND_ANNOT), 4);
    gw_trace_destroy(t);
    nb_close(&b);
}

/* The kind of a wait follows from which ids apply, since syncType was renumbered; the awaited stream from the record.
 */
static void waits(void **state)
{
    (void)state;
    struct nb b;
    nb_open(&b, "sync.sqlite");
    nb_sql(&b, NB_STRINGS NB_KERNEL_2025
           "INSERT INTO StringIds VALUES (3,'k');"
           "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (500,600,1,2,0,7,5," NB_PID ",3,3,0,0,0,0,1,1,1,1,1,1,NULL);"
           "CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT "
           "(deviceId,contextId,streamId,correlationId,globalPid,eventId,eventSyncId);"
           "INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES (0,2,13,20," NB_PID ",1,0),(0,2,14,30," NB_PID
           ",1,0),(0,2,15,40," NB_PID ",1,0);"
           "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION "
           "(start,end,deviceId,contextId,streamId,correlationId,globalPid,syncType,eventId,eventSyncId);"
           "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES "
           "(10,20,0,2,7,35," NB_PID ",1,1,0),(30,40,0,2,7,50," NB_PID ",2,4294967295,0),"
           "(50,60,0,2,4294967295,51," NB_PID ",0,4294967295,0),(70,80,0,2,4294967295,52," NB_PID ",1,1,0);");
    struct gw_trace *t = nb_read(&b);
    assert_non_null(t);
    const struct gw_event *w = nb_event(t, GW_KIND_GPU_SYNC, 0);
    assert_string_equal(nb_name(t, w), "Stream Wait Event");
    assert_int_equal(w->arg0, 14);                          /* recorded there last before the wait */
    assert_int_equal(gw_trace_lane(t, w->lane)->device, 1); /* the row says 0: the stream's work says 1 */
    assert_int_equal(gw_trace_lane(t, w->lane)->stream, 7);
    assert_string_equal(nb_name(t, nb_event(t, GW_KIND_GPU_SYNC, 1)), "Stream Sync");
    assert_int_equal(nb_event(t, GW_KIND_GPU_SYNC, 1)->arg0, 7);
    assert_string_equal(nb_name(t, nb_event(t, GW_KIND_GPU_SYNC, 2)), "Context Sync");
    assert_string_equal(nb_name(t, nb_event(t, GW_KIND_GPU_SYNC, 3)), "Event Sync");
    assert_int_equal(t->devices.len, 1);
    assert_int_equal(((const struct gw_device *)t->devices.data)->op_count, 1); /* waits are not work */
    gw_trace_destroy(t);
    nb_close(&b);
}

static double value_of(const struct gw_event *e)
{
    double v;
    memcpy(&v, &e->arg0, sizeof v);
    return v;
}

static void counters(void **state)
{
    (void)state;
    struct nb b;
    nb_open(&b, "metrics.sqlite");
    nb_sql(&b, NB_STRINGS
           "CREATE TABLE TARGET_INFO_GPU_METRICS (typeId,sourceId,typeName,metricId,metricName);"
           "INSERT INTO TARGET_INFO_GPU_METRICS VALUES (72057594037927937,1,'',1,'SMs Active [Throughput %]'),"
           "(72057594037927937,1,'',2,'Tensor Active [Throughput %]');"
           "CREATE TABLE GPU_METRICS (rawTimestamp,timestamp,typeId,metricId,value);"
           "INSERT INTO GPU_METRICS VALUES (0,1000,72057594037927937,1,37),(0,1000,72057594037927937,2,0),"
           "(0,1100,72057594037927937,1,0.5),(0,1100,72057594037927937,99,5);"
           "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS "
           "(start,globalPid,deviceId,contextId,bytes,memKind,memoryOperationType);"
           "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES "
           "(1,1,0,1,1000,2,0),(2,1,0,1,50,1,0),(3,1,0,1,500,2,0),(4,1,0,1,1000,2,1);");
    struct gw_trace *t = nb_read(&b);
    assert_non_null(t);
    const struct gw_event *c = nb_event(t, GW_KIND_COUNTER, 0);
    assert_string_equal(nb_name(t, c), "SMs Active [Throughput %]");
    assert_true(value_of(c) == 37.0);
    assert_int_equal(c->start, 1000);
    assert_int_equal(gw_trace_lane(t, c->lane)->device, 1);
    assert_true(value_of(nb_event(t, GW_KIND_COUNTER, 1)) == 0.0);
    assert_true(value_of(nb_event(t, GW_KIND_COUNTER, 2)) == 0.5);
    assert_true(value_of(nb_event(t, GW_KIND_COUNTER, 4)) == 1500.0); /* pinned memory is not the device's */
    assert_true(value_of(nb_event(t, GW_KIND_COUNTER, 5)) == 500.0);
    assert_int_equal(nb_count(t, GW_KIND_COUNTER), 6);
    gw_trace_destroy(t);
    nb_close(&b);
}

/* The recorder's environment and the job's output are in the file and must not get into the trace. */
static void secrets_are_not_read(void **state)
{
    (void)state;
    struct nb b;
    nb_open(&b, "env.sqlite");
    nb_sql(&b, NB_META NB_STRINGS NB_RUNTIME
           "INSERT INTO StringIds VALUES (1,'cudaMalloc'),(2,'hunter2 in the output');"
           "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (100,150,0," NB_TID ",5,1,0,0);"
           "CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid,devStateName,name,nameEnum,value);"
           "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (1,'x','TOKEN',1,'hunter2');"
           "CREATE TABLE META_DATA_CAPTURE (name,value); INSERT INTO META_DATA_CAPTURE VALUES ('ENV','TOKEN=hunter2');"
           "CREATE TABLE ProcessStreams (globalPid,filenameId,contentId); INSERT INTO ProcessStreams VALUES (1,2,2);"
           "CREATE TABLE ANALYSIS_FILE (id,filename,contentId,globalPid); INSERT INTO ANALYSIS_FILE VALUES "
           "(1,'hunter2',2,1);");
    struct gw_trace *t = nb_read(&b);
    assert_non_null(t);
    for (uint32_t i = 0; i <= gw_intern_count(t->names); i++)
        assert_null(strstr(gw_trace_text(t, i), "hunter2"));
    gw_trace_destroy(t);
    nb_close(&b);
}

static void odd_rows(void **state)
{
    (void)state;
    struct nb b;
    nb_open(&b, "odd #1?.sqlite"); /* a name that would mean something in a URI */
    nb_sql(&b,
           "CREATE TABLE StringIds (id INTEGER, value TEXT);" /* ids that are not row numbers */
           "INSERT INTO StringIds VALUES (9000000000,'far');"
           "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, demangledName TEXT);"
           "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100,200,0,'text instead of an id'),(300,250,0,9000000000),"
           "(400,500,0,77),(NULL,600,0,1),(9223372036854775807,1,0,1),(700,0,0,1);");
    struct gw_trace *t = nb_read(&b);
    assert_non_null(t);
    assert_int_equal(nb_count(t, GW_KIND_KERNEL), 3);
    assert_string_equal(nb_name(t, nb_event(t, GW_KIND_KERNEL, 0)), "text instead of an id");
    assert_string_equal(nb_name(t, nb_event(t, GW_KIND_KERNEL, 1)), "far");
    assert_int_equal(nb_event(t, GW_KIND_KERNEL, 1)->end, 300);
    assert_string_equal(nb_name(t, nb_event(t, GW_KIND_KERNEL, 2)), "(kernel without a name)");
    assert_int_equal(nb_event(t, GW_KIND_KERNEL, 0)->flags, 0); /* no launch, no grid: not said, and not zero */
    assert_int_equal(t->loss[GW_LOSS_NEGATIVE_DURATION].count, 1);
    assert_int_equal(t->loss[GW_LOSS_BAD_EVENT].count, 2);
    assert_int_equal(t->loss[GW_LOSS_BAD_TIME].count, 1);
    gw_trace_destroy(t);
    nb_close(&b);
}

static void warnings_of_nsys(void **state)
{
    (void)state;
    struct nb b;
    nb_open(&b, "diag.sqlite");
    nb_sql(&b, NB_STRINGS NB_KERNEL_2025
           "INSERT INTO StringIds VALUES (3,'k');"
           "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (500,600,0,2,0,7,5," NB_PID ",3,3,0,0,0,0,1,1,1,1,1,1,NULL);"
           "CREATE TABLE DIAGNOSTIC_EVENT (timestamp,timestampType,source,severity,text,globalPid);"
           "INSERT INTO DIAGNOSTIC_EVENT VALUES (1,1,1,2,'Not all CUDA events might have been collected.'," NB_PID "),"
           "(1,1,1,2,'Not all CUDA events might have been collected.',123456789012),"
           "(1,1,1,2,'Not all NVTX events might have been collected.'," NB_PID ");");
    struct gw_trace *t = nb_read(&b);
    assert_non_null(t);
    assert_int_equal(t->loss[GW_LOSS_DROPPED_RECORDS].count, 1); /* the other process used no GPU */
    gw_trace_destroy(t);
    nb_close(&b);
}

static const char many_rows[] = NB_STRINGS NB_KERNEL_2025 NB_RUNTIME NB_NVTX
    "INSERT INTO StringIds VALUES (1,'cudaLaunchKernel_v7000'),(2,'read');"
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<60) INSERT INTO StringIds SELECT "
    "i+10,'kernel '||i FROM n;"
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<70000) INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL"
    " SELECT i*1000+500,i*1000+900,0,1,0,7+i%3,i," NB_PID ",11+i%60,1,0,0,0,0,i,1,1,128,1,1,NULL FROM n;"
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<70000) INSERT INTO "
    "CUPTI_ACTIVITY_KIND_RUNTIME"
    " SELECT i*1000,i*1000+300,0," NB_TID "+i%5,i,1,0,0 FROM n;"
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<70000) INSERT INTO NVTX_EVENTS "
    "(start,end,eventType,text,globalTid,domainId)"
    " SELECT i*1000-100,i*1000+400,59,'aten::op'||(i%7)||', op_id = '||i," NB_TID "+i%5,0 FROM n;"
    "CREATE TABLE OSRT_API (start,end,eventClass,globalTid,nameId,returnValue,nestingLevel,callchainId);"
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<70000) INSERT INTO OSRT_API"
    " SELECT i*1000,i*1000+(CASE WHEN i%100=0 THEN 200000 ELSE 900 END),27," NB_TID "+9,2,0,0,0 FROM n;";

/* One thread and four give the same trace, byte for byte. */
static void threads_agree(void **state)
{
    (void)state;
    struct nb b;
    struct gw_trace *t[2];
    nb_open(&b, "many.sqlite");
    nb_sql(&b, many_rows);
    b.threads = 1;
    t[0] = nb_read(&b);
    b.threads = 4;
    t[1] = nb_read(&b);
    assert_non_null(t[0]);
    assert_non_null(t[1]);
    assert_int_equal(gw_trace_count(t[0]), 280000);
    assert_int_equal(gw_trace_count(t[0]), gw_trace_count(t[1]));
    assert_memory_equal(t[0]->events.data, t[1]->events.data, gw_trace_count(t[0]) * sizeof(struct gw_event));
    assert_int_equal(gw_intern_count(t[0]->names), gw_intern_count(t[1]->names));
    for (uint32_t i = 0; i < 100; i++)
        assert_string_equal(gw_trace_text(t[0], i), gw_trace_text(t[1], i));
    assert_int_equal(t[1]->loss[GW_LOSS_NO_CORRELATION].count, 0);
    gw_trace_destroy(t[0]);
    gw_trace_destroy(t[1]);
    nb_close(&b);
}

/* Under a memory cap short OS calls go first; then every table is cut to one and the same stretch of time. */
static void memory_cap(void **state)
{
    (void)state;
    struct nb b;
    nb_open(&b, "cap.sqlite");
    nb_sql(&b, many_rows);
    b.cap = 220000 * (sizeof(struct gw_event) + 8);
    struct gw_trace *t = nb_read(&b);
    assert_non_null(t);
    assert_int_equal(nb_count(t, GW_KIND_KERNEL), 70000);
    assert_int_equal(nb_count(t, GW_KIND_OSRT), 700);
    assert_int_equal(t->loss[GW_LOSS_MEMORY_CAP].count, 69300);
    gw_trace_destroy(t);

    b.cap = 100000 * (sizeof(struct gw_event) + 8);
    t = nb_read(&b);
    assert_non_null(t);
    size_t kernels = nb_count(t, GW_KIND_KERNEL), calls = nb_count(t, GW_KIND_API), n = gw_trace_count(t);
    assert_in_range(n, 80000, 100001);
    assert_int_equal(t->loss[GW_LOSS_MEMORY_CAP].count, 280000 - n);
    assert_true(kernels > 30000 && kernels - calls + 1 <= 2); /* the same stretch of time */
    assert_true(t->loss[GW_LOSS_NO_CORRELATION].count <= 1);
    const struct gw_event *first = nb_event(t, GW_KIND_KERNEL, 0);
    assert_in_range(first->start, 13000000, 15000000); /* a fifth into the recording */
    gw_trace_destroy(t);
    nb_close(&b);
}

static int stop_after(void *user, int64_t done, int64_t total)
{
    int *calls = user;
    assert_true(done >= 0 && done <= total);
    return --*calls < 0;
}

static void progress_and_stop(void **state)
{
    (void)state;
    struct nb b;
    int calls = 1000;
    nb_open(&b, "progress.sqlite");
    nb_sql(&b, many_rows);
    b.progress = stop_after;
    b.user = &calls;
    struct gw_trace *t = nb_read(&b);
    assert_non_null(t);
    assert_in_range(1000 - calls, 10, 1000);
    assert_int_equal(t->loss[GW_LOSS_TRUNCATED].count, 0);
    gw_trace_destroy(t);
    for (b.threads = 1; b.threads <= 4; b.threads += 3) {
        calls = 3;
        t = nb_read(&b);
        assert_non_null(t);
        assert_int_equal(t->loss[GW_LOSS_TRUNCATED].count, 1);
        assert_in_range(gw_trace_count(t), 8192, 70000);
        gw_trace_destroy(t);
    }
    nb_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_export),
        cmocka_unit_test(export_of_2021),
        cmocka_unit_test(enum_tables),
        cmocka_unit_test(no_gpu_work),
        cmocka_unit_test(ranks_with_device_zero),
        cmocka_unit_test(nested_driver_calls),
        cmocka_unit_test(ranges),
        cmocka_unit_test(waits),
        cmocka_unit_test(counters),
        cmocka_unit_test(secrets_are_not_read),
        cmocka_unit_test(odd_rows),
        cmocka_unit_test(warnings_of_nsys),
        cmocka_unit_test(threads_agree),
        cmocka_unit_test(memory_cap),
        cmocka_unit_test(progress_and_stop),
    };
    return cmocka_run_group_tests_name("nsys", tests, NULL, NULL);
}
