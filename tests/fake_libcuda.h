/* fake_libcuda.h - a libcuda.so.1 with a pretend GPU: what jobs of the tests may call. */
#ifndef FAKE_LIBCUDA_H
#define FAKE_LIBCUDA_H
#include <stddef.h>
#include <stdint.h>
int cuInit(unsigned flags);
int cuDriverGetVersion(int *v);
int cuDeviceGetCount(int *n);
int cuDeviceGet(int *dev, int ordinal);
int cuDeviceGetAttribute(int *v, int attribute, int dev);
int cuDeviceGetName(char *name, int len, int dev);
int cuDeviceTotalMem_v2(size_t *bytes, int dev);
int cuDeviceGetUuid(void *uuid, int dev);
/* A runtime call with its nested driver call and the GPU work; returns its correlation id. Streams are 0..15. */
uint32_t fake_launch(const char *kernel, uint64_t ns, int stream);
uint32_t fake_copy_h2d(uint64_t bytes, uint64_t ns, int stream, int pinned);
uint32_t fake_memset(uint64_t bytes, uint64_t ns, int stream);
void fake_noise(int calls);     /* cudaGetLastError and the like */
void fake_stream_sync(int stream); /* sleeps until the stream is empty */
uint64_t fake_launched(void);   /* kernels launched by this process so far */
#endif
