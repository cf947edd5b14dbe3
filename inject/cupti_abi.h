/*
 * cupti_abi.h - the few CUPTI and CUDA driver declarations that recording needs, so that no CUDA toolkit is needed to
 * build. Values and offsets are those of CUPTI 11.8 to 13.x on 64-bit Linux; where real headers exist, the test
 * cupti_abi compares every one of them.
 *
 * Records grew at their end from version to version and keep their prefix: we read fields by offset and never by
 * sizeof, and cuptiActivityGetNextRecord() knows the stride of the version that runs.
 */
#ifndef GW_CUPTI_ABI_H
#define GW_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef void (*gw_cupti_request_fn)(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void (*gw_cupti_complete_fn)(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);

/* FN(name, needed, (arguments)) - one row a function; each returns CUptiResult. needed = 1: without it no recording. */
#define GW_CUPTI_FUNCTIONS(FN)                                                                                        \
    FN(cuptiGetVersion, 1, (uint32_t * version))                                                                      \
    FN(cuptiActivityRegisterCallbacks, 1, (gw_cupti_request_fn request, gw_cupti_complete_fn complete))               \
    FN(cuptiActivityEnable, 1, (int kind))                                                                            \
    FN(cuptiActivityDisable, 1, (int kind))                                                                           \
    FN(cuptiActivityFlushAll, 1, (uint32_t flag))                                                                     \
    FN(cuptiActivityGetNextRecord, 1, (uint8_t * buffer, size_t valid, void **record))                                \
    FN(cuptiActivityGetNumDroppedRecords, 0, (void *context, uint32_t stream, size_t *dropped))                       \
    FN(cuptiActivitySetAttribute, 0, (int attribute, size_t *value_size, void *value))                                \
    FN(cuptiSetThreadIdType, 0, (int type))                                                                           \
    FN(cuptiGetTimestamp, 0, (uint64_t * timestamp))                                                                  \
    FN(cuptiGetCallbackName, 0, (int domain, uint32_t cbid, const char **name))                                       \
    FN(cuptiActivityEnableAllSyncRecords, 0, (uint8_t enable))                                                        \
    FN(cuptiActivityEnableAndDump, 0, (int kind))

/* Members are named fn_...: a member with the function's own name would collide when a test includes the real headers. */
struct gw_cupti {
#define GW_FN(name, needed, args) int(*fn_##name) args;
    GW_CUPTI_FUNCTIONS(GW_FN)
#undef GW_FN
    void *handle;
};

/* GW_ABI_CONST(ours, theirs, value): constants, checked against real headers by the test. */
#define GW_ABI_CONSTANTS(C)                                                                                           \
    C(GW_AK_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY, 1)                                                                    \
    C(GW_AK_MEMSET, CUPTI_ACTIVITY_KIND_MEMSET, 2)                                                                    \
    C(GW_AK_DRIVER, CUPTI_ACTIVITY_KIND_DRIVER, 4)                                                                    \
    C(GW_AK_RUNTIME, CUPTI_ACTIVITY_KIND_RUNTIME, 5)                                                                  \
    C(GW_AK_DEVICE, CUPTI_ACTIVITY_KIND_DEVICE, 8)                                                                    \
    C(GW_AK_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 10)                                             \
    C(GW_AK_OVERHEAD, CUPTI_ACTIVITY_KIND_OVERHEAD, 17)                                                               \
    C(GW_AK_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMCPY2, 22)                                                                 \
    C(GW_AK_SYNCHRONIZATION, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, 38)                                                 \
    C(GW_CUPTI_THREAD_DEFAULT, CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT, 0)                                              \
    C(GW_CUPTI_THREAD_SYSTEM, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM, 1)                                                \
    C(GW_CUPTI_FLUSH_FORCED, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED, 1)                                                     \
    C(GW_CUPTI_ATTR_ZEROED, CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, 5)                                        \
    C(GW_CUPTI_ATTR_PER_THREAD, CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, 9)                                    \
    C(GW_CUPTI_DOMAIN_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API, 1)                                                          \
    C(GW_CUPTI_DOMAIN_RUNTIME, CUPTI_CB_DOMAIN_RUNTIME_API, 2)                                                        \
    C(GW_CUPTI_OBJECT_THREAD, CUPTI_ACTIVITY_OBJECT_THREAD, 2)                                                        \
    C(GW_CUPTI_MAX_LIMIT, CUPTI_ERROR_MAX_LIMIT_REACHED, 12)

enum {
#define GW_C(ours, theirs, value) ours = value,
    GW_ABI_CONSTANTS(GW_C)
#undef GW_C
};

/* GW_ABI_FIELD(ours, struct, field, offset, bytes): where we read a field, checked against real headers by the test. */
#define GW_ABI_FIELDS(F)                                                                                              \
    F(K_REGISTERS, CUpti_ActivityKernel9, registersPerThread, 6, 2)                                                   \
    F(K_START, CUpti_ActivityKernel9, start, 16, 8)                                                                   \
    F(K_END, CUpti_ActivityKernel9, end, 24, 8)                                                                       \
    F(K_DEVICE, CUpti_ActivityKernel9, deviceId, 40, 4)                                                               \
    F(K_CONTEXT, CUpti_ActivityKernel9, contextId, 44, 4)                                                             \
    F(K_STREAM, CUpti_ActivityKernel9, streamId, 48, 4)                                                               \
    F(K_GRID, CUpti_ActivityKernel9, gridX, 52, 4)                                                                    \
    F(K_BLOCK, CUpti_ActivityKernel9, blockX, 64, 4)                                                                  \
    F(K_SHARED_STATIC, CUpti_ActivityKernel9, staticSharedMemory, 76, 4)                                              \
    F(K_SHARED_DYNAMIC, CUpti_ActivityKernel9, dynamicSharedMemory, 80, 4)                                            \
    F(K_CORR, CUpti_ActivityKernel9, correlationId, 92, 4)                                                            \
    F(K_GRID_ID, CUpti_ActivityKernel9, gridId, 96, 8)                                                                \
    F(K_NAME, CUpti_ActivityKernel9, name, 104, 8)                                                                    \
    F(K_GRAPH_NODE, CUpti_ActivityKernel9, graphNodeId, 144, 8)                                                       \
    F(K_GRAPH, CUpti_ActivityKernel9, graphId, 156, 4)                                                                \
    F(M_COPY_KIND, CUpti_ActivityMemcpy5, copyKind, 4, 1)                                                             \
    F(M_SRC, CUpti_ActivityMemcpy5, srcKind, 5, 1)                                                                    \
    F(M_DST, CUpti_ActivityMemcpy5, dstKind, 6, 1)                                                                    \
    F(M_FLAGS, CUpti_ActivityMemcpy5, flags, 7, 1)                                                                    \
    F(M_BYTES, CUpti_ActivityMemcpy5, bytes, 8, 8)                                                                    \
    F(M_START, CUpti_ActivityMemcpy5, start, 16, 8)                                                                   \
    F(M_END, CUpti_ActivityMemcpy5, end, 24, 8)                                                                       \
    F(M_DEVICE, CUpti_ActivityMemcpy5, deviceId, 32, 4)                                                               \
    F(M_CONTEXT, CUpti_ActivityMemcpy5, contextId, 36, 4)                                                             \
    F(M_STREAM, CUpti_ActivityMemcpy5, streamId, 40, 4)                                                               \
    F(M_CORR, CUpti_ActivityMemcpy5, correlationId, 44, 4)                                                            \
    F(M_GRAPH, CUpti_ActivityMemcpy5, graphId, 72, 4)                                                                 \
    F(P_DST_DEVICE, CUpti_ActivityMemcpyPtoP4, dstDeviceId, 52, 4)                                                    \
    F(P_CORR, CUpti_ActivityMemcpyPtoP4, correlationId, 60, 4)                                                        \
    F(P_GRAPH, CUpti_ActivityMemcpyPtoP4, graphId, 80, 4)                                                             \
    F(S_BYTES, CUpti_ActivityMemset4, bytes, 8, 8)                                                                    \
    F(S_START, CUpti_ActivityMemset4, start, 16, 8)                                                                   \
    F(S_END, CUpti_ActivityMemset4, end, 24, 8)                                                                       \
    F(S_DEVICE, CUpti_ActivityMemset4, deviceId, 32, 4)                                                               \
    F(S_CONTEXT, CUpti_ActivityMemset4, contextId, 36, 4)                                                             \
    F(S_STREAM, CUpti_ActivityMemset4, streamId, 40, 4)                                                               \
    F(S_CORR, CUpti_ActivityMemset4, correlationId, 44, 4)                                                            \
    F(S_GRAPH, CUpti_ActivityMemset4, graphId, 72, 4)                                                                 \
    F(A_CBID, CUpti_ActivityAPI, cbid, 4, 4)                                                                          \
    F(A_START, CUpti_ActivityAPI, start, 8, 8)                                                                        \
    F(A_END, CUpti_ActivityAPI, end, 16, 8)                                                                           \
    F(A_THREAD, CUpti_ActivityAPI, threadId, 28, 4)                                                                   \
    F(A_CORR, CUpti_ActivityAPI, correlationId, 32, 4)                                                                \
    F(A_RETURN, CUpti_ActivityAPI, returnValue, 36, 4)                                                                \
    F(Y_TYPE, CUpti_ActivitySynchronization, type, 4, 4)                                                              \
    F(Y_START, CUpti_ActivitySynchronization, start, 8, 8)                                                            \
    F(Y_END, CUpti_ActivitySynchronization, end, 16, 8)                                                               \
    F(Y_CORR, CUpti_ActivitySynchronization, correlationId, 24, 4)                                                    \
    F(Y_CONTEXT, CUpti_ActivitySynchronization, contextId, 28, 4)                                                     \
    F(Y_STREAM, CUpti_ActivitySynchronization, streamId, 32, 4)                                                       \
    F(Y_EVENT, CUpti_ActivitySynchronization, cudaEventId, 36, 4)                                                     \
    F(O_KIND, CUpti_ActivityOverhead2, overheadKind, 4, 4)                                                            \
    F(O_OBJECT, CUpti_ActivityOverhead2, objectKind, 8, 4)                                                            \
    F(O_OBJECT_ID, CUpti_ActivityOverhead2, objectId, 12, 4)                                                          \
    F(O_START, CUpti_ActivityOverhead2, start, 24, 8)                                                                 \
    F(O_END, CUpti_ActivityOverhead2, end, 32, 8)

enum {
#define GW_F(ours, type, field, offset, bytes) GW_OFF_##ours = offset,
    GW_ABI_FIELDS(GW_F)
#undef GW_F
};

static inline uint32_t gw_u32(const unsigned char *rec, size_t off)
{
    uint32_t v;
    memcpy(&v, rec + off, sizeof v);
    return v;
}
static inline uint64_t gw_u64(const unsigned char *rec, size_t off)
{
    uint64_t v;
    memcpy(&v, rec + off, sizeof v);
    return v;
}
static inline uint16_t gw_u16(const unsigned char *rec, size_t off)
{
    uint16_t v;
    memcpy(&v, rec + off, sizeof v);
    return v;
}

#endif
