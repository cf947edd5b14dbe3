/*
 * fake_pm_cuda.c - the part of libcuda.so.1 that PM sampling uses. FAKE_GPUS=1 devices; FAKE_CC=90; no call may come before cuInit,
 * and with FAKE_CUDA_FAILS cuInit fails. CUDA_VISIBLE_DEVICES must be gone: UUIDs tell GPUs apart.
 */
#include <stdlib.h>
#include <string.h>

int cuInit(unsigned flags);
int cuDriverGetVersion(int *v);
int cuDeviceGetCount(int *n);
int cuDeviceGet(int *dev, int ordinal);
int cuDeviceGetUuid(void *uuid, int dev);
int cuDeviceGetAttribute(int *v, int attribute, int dev);

static int is_ready;

static int number(const char *name, int otherwise)
{
    const char *e = getenv(name);
    return e && *e ? atoi(e) : otherwise;
}

int cuInit(unsigned flags)
{
    if (flags || getenv("CUDA_VISIBLE_DEVICES") || getenv("CUDA_INJECTION64_PATH"))
        abort();
    if (getenv("FAKE_CUDA_FAILS"))
        return 999;
    is_ready = 1;
    return 0;
}

int cuDriverGetVersion(int *v)
{
    *v = 13000;
    return 0;
}

int cuDeviceGetCount(int *n)
{
    *n = number("FAKE_GPUS", 1);
    return is_ready ? 0 : 3; /* CUDA_ERROR_NOT_INITIALIZED */
}

int cuDeviceGet(int *dev, int ordinal)
{
    *dev = ordinal + 100; /* a device is not its ordinal */
    return is_ready && ordinal >= 0 && ordinal < number("FAKE_GPUS", 1) ? 0 : 101;
}

/* As the fake driver and NVML of the other tests say it, in the opposite order: 0x40 + index. */
int cuDeviceGetUuid(void *uuid, int dev)
{
    memset(uuid, 0x40 + (number("FAKE_GPUS", 1) - 1 - (dev - 100)), 16);
    return 0;
}

int cuDeviceGetAttribute(int *v, int attribute, int dev)
{
    int cc = number("FAKE_CC", 90);
    *v = attribute == 75 ? cc / 10 : attribute == 76 ? cc % 10 : -1;
    return dev >= 100 && *v >= 0 ? 0 : 1;
}
