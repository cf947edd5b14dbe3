/* times.c - see times.h */
#include "cli/times.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t gw_cli_time(const char *s, const char **end)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};
    char *after;
    if (!isdigit((unsigned char)*s))
        return -1;
    double v = strtod(s, &after), scale = 1e9;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strncmp(after, units[i].unit, strlen(units[i].unit)) == 0) {
            scale = units[i].ns;
            after += strlen(units[i].unit);
            break;
        }
    *end = after;
    return !isfinite(v) || v * scale > 1e18 ? -1 : (int64_t)(v * scale);
}

int64_t gw_cli_whole_time(const char *s)
{
    const char *end = s;
    int64_t v = gw_cli_time(s, &end);
    return *end ? -1 : v;
}
