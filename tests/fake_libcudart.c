/*
 * fake_libcudart.c - a libcudart.so.13 over the fake libcuda: the runtime's functions that PyTorch calls through its table of
 * addresses, with their real signatures. Each checks what it is given, so that a wrapper that passes on something else is found.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "fake_libcudart.h"
#include "fake_libcuda.h"


static void check(int ok, const char *what) {
    if (ok)
        return;
    fprintf(stderr, "fake cudart: %s\n", what);
    abort();
}

/* A launch that finds the queue full keeps its thread running until there is room. */
static void wait_for_room(uint64_t ns) {
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    do
        clock_gettime(CLOCK_MONOTONIC, &b);
    while ((uint64_t)(b.tv_sec - a.tv_sec) * 1000000000u + (uint64_t)b.tv_nsec - (uint64_t)a.tv_nsec < ns);
}

/* args: a magic number, the ns of the kernel, the ns until there is room. The grid's y may be any above 101. */
int cudaLaunchKernel(const void *f, struct dim3 g, struct dim3 b, void **args, size_t shared, void *stream) {
    check(g.x == 101 && g.y > 101 && g.z == 103 && b.x == 201 && b.y == 202 && b.z == 203, "grid or block changed on the way");
    check(shared == 48 * 1024 && args && args[0] == (void *)0x5eed, "arguments changed on the way");
    if (args[2])
        wait_for_room((uint64_t)(uintptr_t)args[2]);
    fake_launch(f, (uint64_t)(uintptr_t)args[1], (int)(intptr_t)stream);
    return 0;
}

/* What <<<>>> calls since CUDA 13. */
int __cudaLaunchKernel(void *f, struct dim3 g, struct dim3 b, void **args, size_t shared, void *stream) {
    return cudaLaunchKernel(f, g, b, args, shared, stream);
}

int cudaMemcpyAsync(void *dst, const void *src, size_t n, int kind, void *stream) {
    check(dst && src && (kind == 1 || kind == 2), "copy changed on the way");
    fake_copy_h2d(n, 1000, (int)(intptr_t)stream, 1);
    return 0;
}

int cudaStreamSynchronize(void *stream) {
    fake_stream_sync((int)(intptr_t)stream);
    return 17; /* a value that must come back */
}

int cudaGraphLaunch(void *graph, void *stream) {
    check(graph == (void *)0x9af && !stream, "graph launch changed on the way");
    return 0;
}
