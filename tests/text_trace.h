/*
 * text_trace.h - a timeline written by hand, as a few lines of text: for tests of the engine and of every diagnosis.
 *
 *     # what this case proves
 *     dev 0 name="NVIDIA H200" sm=132 cc=9.0
 *     fact profiler=torch.profiler with_stack=1 world_size=2 rank=0
 *     repeat 8 every 10ms {
 *       annot 1:1 0 +9ms ProfilerStep#{i}
 *       launch 1:1 100us +5us > 0:7 110us +2ms blocks=64 threads=128 gemm
 *       memcpy 1:1 200us +2ms > 0:7 2110us +50us bytes=4 device>pinned
 *       api 1:1 3ms +10us c1 cudaLaunchKernel
 *       kernel 0:7 3010us +1ms c1 blocks=64 some kernel name
 *     }
 *     lose truncated 1
 *     expect verdict host-sync
 *
 * One line, one event:  KIND WHERE START +LENGTH [c<correlation>] [key=value ...] NAME
 *   kernel copy set graph gsync   WHERE = device:stream
 *   api op annot py overhead os step   WHERE = process:thread
 *   launch, memcpy                a call and the kernel or copy it gives, with a correlation of their own
 * Times are ns, or carry ns, us, ms or s; "1.5ms" is exact; a minus sign is allowed. Keys: blocks, threads, bytes,
 * kernels, msg (bytes of a collective), shapes; copies: device>pinned, pageable>device, ... (words of `enum gw_mem`).
 * `repeat N every TIME {` ... `}` repeats the lines with times shifted, correlation ids kept apart, and {i} replaced by
 * the number of the repetition ({i+3}: three more; {o}: that of the repetition around it). A `#` at the start of a line
 * is a comment. `counters LAUNCHES +DURATION dram=88 sm=20 ... NAME` is a row of hardware counters. `shift TIME` adds to all times after it. `expect` lines are kept as they are, for run_cases.c. `host`
 * lines say what was seen beside the GPU's work: text_host.h.
 */
#ifndef TEXT_TRACE_H
#define TEXT_TRACE_H

#include "model/trace.h"

struct text_expect {
    size_t line;
    char *text; /* after the word "expect" */
};

struct text_trace {
    struct gw_trace *t; /* finished */
    struct text_expect *expect;
    size_t expects;
    char error[320]; /* "line N: what"; empty when fine */
};

/* 0, or -1 with `error` set. `out` must be freed either way. */
int text_trace_parse(const char *text, struct text_trace *out);
int text_trace_read(const char *path, struct text_trace *out);
void text_trace_free(struct text_trace *out);

/* Reads a time at *p in ns and moves *p past it. 0, or -1 when there is none. */
int text_trace_time(const char **p, int64_t *ns);

#endif
