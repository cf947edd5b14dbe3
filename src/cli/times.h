/*
 * times.h - times as people write them in options: "500ms", "30s", "5m", "1h", "90" (seconds).
 */
#ifndef GW_TIMES_H
#define GW_TIMES_H

#include <stdint.h>

/* ns, and where the time ends; -1 for what is no time. */
int64_t gw_cli_time(const char *s, const char **end);
/* The same for a text that is nothing else. */
int64_t gw_cli_whole_time(const char *s);

#endif
