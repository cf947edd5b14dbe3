/* test_run_abi.c - compares cupti_abi.h with the CUPTI headers of this machine: every constant, offset and size. */
#include <cupti.h>
#include <stdio.h>

#include "cupti_abi.h"

/* Function pointers must be assignable: the compiler checks the number and width of the arguments by call. */
static int bad;

static void same(const char *what, long ours, long theirs) {
    if (ours != theirs) {
        printf("%s: ours %ld, header %ld\n", what, ours, theirs);
        bad++;
    }
}

int main(void) {
#define C(ours, theirs, value) same(#theirs, ours, (long)theirs);
    GW_ABI_CONSTANTS(C)
#undef C
#define F(ours, type, field, offset, bytes)                                                                           \
    same("offset of " #type "." #field, GW_OFF_##ours, (long)offsetof(type, field));                                  \
    same("size of " #type "." #field, bytes, (long)sizeof(((type *)0)->field) < (bytes) ? (long)sizeof(((type *)0)->field) : (bytes));
    GW_ABI_FIELDS(F)
#undef F
    /* The prefix must still hold in the newest structs of this header. */
#if CUPTI_API_VERSION >= 130000
    same("kernel record", (long)offsetof(CUpti_ActivityKernel10, graphId), GW_OFF_K_GRAPH);
    same("kernel record", (long)offsetof(CUpti_ActivityKernel10, name), GW_OFF_K_NAME);
    same("copy record", (long)offsetof(CUpti_ActivityMemcpy6, graphId), GW_OFF_M_GRAPH);
    same("sync record", (long)offsetof(CUpti_ActivitySynchronization2, cudaEventId), GW_OFF_Y_EVENT);
    same("overhead record", (long)offsetof(CUpti_ActivityOverhead3, end), GW_OFF_O_END);
#endif
    same("thread of an overhead", GW_OFF_O_OBJECT_ID + 4, (long)offsetof(CUpti_ActivityOverhead2, objectId.pt.threadId));
    same("result type", (long)sizeof(CUptiResult), (long)sizeof(int));
    same("kind type", (long)sizeof(CUpti_ActivityKind), (long)sizeof(int));
    printf("CUPTI_API_VERSION %d: %d differences\n", (int)CUPTI_API_VERSION, bad);
    return bad != 0;
}
