/* device.c - facts about the devices that the process sees. Plain queries that make no context. */
#include <dlfcn.h>

#include "inject.h"

typedef int (*fn_int)(int *);
typedef int (*fn_get)(int *, int);
typedef int (*fn_attr)(int *, int, int);
typedef int (*fn_name)(char *, int, int);
typedef int (*fn_mem)(size_t *, int);
typedef int (*fn_uuid)(void *, int);

/* CUdevice_attribute values (cuda.h). */
enum { A_CLOCK = 13, A_SMS = 16, A_BUS_ID = 33, A_SLOT = 34, A_MEM_CLOCK = 36, A_BUS_BITS = 37, A_L2 = 38,
       A_THREADS_PER_SM = 39, A_DOMAIN = 50, A_CC_MAJOR = 75, A_CC_MINOR = 76 };

static void *sym(void *h, const char *name) { return dlsym(h, name); }

int gw_device_write(struct gw_writer *out)
{
    void *h = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!h)
        return 0;
    fn_int get_count = (fn_int)(uintptr_t)sym(h, "cuDeviceGetCount"), version = (fn_int)(uintptr_t)sym(h, "cuDriverGetVersion");
    fn_get get = (fn_get)(uintptr_t)sym(h, "cuDeviceGet");
    fn_attr attr = (fn_attr)(uintptr_t)sym(h, "cuDeviceGetAttribute");
    fn_name name = (fn_name)(uintptr_t)sym(h, "cuDeviceGetName");
    fn_mem mem = (fn_mem)(uintptr_t)sym(h, "cuDeviceTotalMem_v2");
    fn_uuid uuid = (fn_uuid)(uintptr_t)sym(h, "cuDeviceGetUuid");
    int n = 0, v = -1;
    if (!get_count || !get || !attr || get_count(&n) != 0)
        n = 0;
    if (version && version(&v) != 0)
        v = -1;
    for (int i = 0; i < n && i < 64; i++) {
        struct gw_rec_device d;
        memset(&d, 0, sizeof d);
        int dev = 0;
        if (get(&dev, i) != 0)
            continue;
        d.ordinal = (uint32_t)i;
        d.driver_version = v;
        d.runtime_major = -1;
        const struct { int id; int32_t *to; } want[] = {
            {A_SMS, &d.sm_count}, {A_CC_MAJOR, &d.cc_major}, {A_CC_MINOR, &d.cc_minor}, {A_THREADS_PER_SM, &d.max_threads_per_sm},
            {A_CLOCK, &d.clock_khz}, {A_MEM_CLOCK, &d.mem_clock_khz}, {A_BUS_BITS, &d.bus_bits}, {A_L2, &d.l2_bytes},
            {A_DOMAIN, &d.pci_domain}, {A_BUS_ID, &d.pci_bus}, {A_SLOT, &d.pci_device}};
        for (size_t k = 0; k < sizeof want / sizeof *want; k++)
            if (attr(want[k].to, want[k].id, dev) != 0)
                *want[k].to = -1;
        size_t bytes = 0;
        d.memory_bytes = mem && mem(&bytes, dev) == 0 ? (int64_t)bytes : -1;
        if (!name || name(d.name, (int)sizeof d.name - 1, dev) != 0)
            d.name[0] = 0;
        if (!uuid || uuid(d.uuid, dev) != 0)
            memset(d.uuid, 0, sizeof d.uuid);
        (void)gw_writer_append(out, GW_RT_DEVICE, sizeof d, &d, sizeof d);
    }
    dlclose(h);
    return n;
}
