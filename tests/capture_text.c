#include "capture_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

struct gw_env *capture_parse_bytes(const char *text, size_t len)
{
    struct gw_env *env = gw_env_create();
    struct gw_error err = {0};
    if (gw_capture_parse(env, "test", text, len, &err) < 0)
        fail_msg("%s", err.what);
    return env;
}
struct gw_env *capture_parse(const char *text) { return capture_parse_bytes(text, strlen(text)); }

int64_t capture_metric(const struct gw_env *env, size_t i, enum gw_gpu_metric m)
{
    const struct gw_gpu *g = gw_env_gpu_at(env, i);
    assert_non_null(g);
    return gw_gpu_get(g, m);
}

void capture_check_is(const struct gw_env *env, const char *id, enum gw_check_status status, const char *value)
{
    struct gw_arena *arena = gw_arena_create(0);
    const struct gw_check *c = gw_check_find(gw_checks_run(env, arena), id);
    if (c->status != status || !strstr(c->value, value))
        fail_msg("%s is %s: '%s', not %s: '%s'", id, gw_check_status_id(c->status), c->value,
                 gw_check_status_id(status), value);
    gw_arena_destroy(arena);
}

int capture_note_has(const struct gw_env *env, const char *text)
{
    for (size_t i = 0; i < gw_env_count(env, GW_REC_NOTE); i++)
        if (strstr(((const struct gw_env_note *)gw_env_at(env, GW_REC_NOTE, i))->text, text))
            return 1;
    return 0;
}

const char capture_query[] = "==============NVSMI LOG==============\n"
                             "\n"
                             "Timestamp                                 : Wed Jul 31 11:22:39 2024\n"
                             "Driver Version                            : 535.161.08\n"
                             "CUDA Version                              : 12.2\n"
                             "\n"
                             "Attached GPUs                             : 2\n"
                             "GPU 00000000:19:00.0\n"
                             "    Product Name                          : NVIDIA H100 80GB HBM3\n"
                             "    Product Architecture                  : Hopper\n"
                             "    Persistence Mode                      : Enabled\n"
                             "    MIG Mode\n"
                             "        Current                           : Disabled\n"
                             "        Pending                           : Disabled\n"
                             "    PCI\n"
                             "        Bus Id                            : 00000000:19:00.0\n"
                             "        GPU Link Info\n"
                             "            PCIe Generation\n"
                             "                Max                       : 5\n"
                             "                Current                   : 4\n"
                             "                Host Max                  : N/A\n"
                             "            Link Width\n"
                             "                Max                       : 16x\n"
                             "                Current                   : 8x\n"
                             "        Replays Since Reset               : 67\n"
                             "        Tx Throughput                     : 632 KB/s\n"
                             "    Performance State                     : P0\n"
                             "    Clocks Throttle Reasons\n" /* as before driver 535 */
                             "        Idle                              : Not Active\n"
                             "        HW Slowdown                       : Active\n"
                             "            HW Thermal Slowdown           : Not Active\n"
                             "            HW Power Brake Slowdown       : Active\n"
                             "        SW Thermal Slowdown               : Not Active\n"
                             "    FB Memory Usage\n"
                             "        Total                             : 81559 MiB\n"
                             "        Used                              : 10 MiB\n"
                             "    Compute Mode                          : Exclusive_Process\n"
                             "    Utilization\n"
                             "        Gpu                               : 97 %\n"
                             "        Memory                            : N/A\n"
                             "    GPU Power Readings\n"
                             "        Power Draw                        : 412.25 W\n"
                             "        Current Power Limit               : 500.00 W\n"
                             "        Default Power Limit               : 700.00 W\n"
                             "    Module Power Readings\n"
                             "        Power Draw                        : 999.00 W\n"
                             "    Clocks\n"
                             "        SM                                : 86 MHz\n"
                             "    Max Clocks\n"
                             "        SM                                : 1980 MHz\n"
                             "    Processes\n"
                             "        GPU instance ID                   : N/A\n"
                             "        Process ID                        : 4242\n"
                             "            Type                          : C\n"
                             "            Name                          : /usr/bin/python3: a job\n"
                             "            Used GPU Memory               : 1024 MiB\n"
                             "GPU 00000000:3B:00.0\n"
                             "    Product Name                          : NVIDIA H100 80GB HBM3\n"
                             "    Processes                             : None\n";
