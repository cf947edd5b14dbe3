/* fake_libcudart.h - the functions of the fake CUDA runtime, as jobs of the tests call them. */
#ifndef FAKE_LIBCUDART_H
#define FAKE_LIBCUDART_H
#include <stddef.h>
struct dim3 { unsigned x, y, z; };
int cudaLaunchKernel(const void *f, struct dim3 g, struct dim3 b, void **args, size_t shared, void *stream);
int __cudaLaunchKernel(void *f, struct dim3 g, struct dim3 b, void **args, size_t shared, void *stream);
int cudaMemcpyAsync(void *dst, const void *src, size_t n, int kind, void *stream);
int cudaStreamSynchronize(void *stream);
int cudaGraphLaunch(void *graph, void *stream);
#endif
