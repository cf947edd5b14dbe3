/*
 * checks.h - what is good, bad, worth a look or not told about a machine. A pure function of struct gw_env.
 *
 * Every row of checks.def gives exactly one result, in the order of the table. A result without the data for it is
 * GW_CHECK_UNKNOWN and says what would supply it; nothing is called good without data. Texts are in the arena that is
 * handed in, are not escaped, and may hold bytes of a capture.
 *
 *     struct gw_check_list *l = gw_checks_run(env, arena);
 *     for (size_t i = 0; i < l->count; i++) printf("%s: %s\n", l->items[i].info->id, l->items[i].value);
 */
#ifndef GW_CHECKS_H
#define GW_CHECKS_H

#include "collect/env.h"

enum gw_check_status { GW_CHECK_UNKNOWN, GW_CHECK_GOOD, GW_CHECK_LOOK, GW_CHECK_BAD, GW_CHECK_STATUS_COUNT };
const char *gw_check_status_id(unsigned s);   /* "not_evaluated" "good" "look" "bad" */
const char *gw_check_status_name(unsigned s); /* "not evaluated" "good" "worth a look" "bad"; untranslated */

enum gw_check_id {
#define GW_CHECK(sym, id, group, title, finding, needs) GW_CHECK_ON_##sym,
#include "collect/checks/checks.def"
#undef GW_CHECK
    GW_CHECK_COUNT
};

struct gw_check_info {
    const char *id, *group, *title;
    const char *finding; /* id in the catalogue of findings that a bad result stands for; "" = none */
    const char *needs;   /* what would supply missing data */
};
const struct gw_check_info *gw_check_info(size_t i); /* NULL past the end */

enum { GW_CHECK_MAX_EVIDENCE = 12 }; /* of one result */
struct gw_check_evidence {
    const char *text;   /* one clause with the number in it */
    double value;       /* NAN when it is not a number */
    const char *unit;   /* "ns", "1", "bytes", "bytes/s", "share", "count", "MHz", "W", "C" */
    const char *source; /* "NVML", "/proc/meminfo", "nvidia-smi -q", ... */
};

struct gw_check {
    const struct gw_check_info *info;
    enum gw_check_status status;
    const char *finding; /* info->finding, or the one that fits this result better */
    const char *value;   /* what was found */
    const char *expect;  /* what a good value is; "" */
    const char *fix;     /* what to do, one or more lines; "" */
    const char *verify;  /* how to see that it helped; "" */
    const char *cost;    /* what the fix may cost; "" */
    const struct gw_check_evidence *evidence;
    size_t evidence_count;
};

struct gw_check_list {
    struct gw_check *items;
    size_t count;
    size_t by_status[GW_CHECK_STATUS_COUNT];
};

/* NULL when out of memory. `env` is only read. */
struct gw_check_list *gw_checks_run(const struct gw_env *env, struct gw_arena *arena);
const struct gw_check *gw_check_find(const struct gw_check_list *l, const char *id);

/* The payload of a GPU's PCIe link, bytes/s: what both ends can do, and what was seen under load. NAN unknown. */
struct gw_check_link {
    double possible, loaded;
};
struct gw_check_link gw_check_link_of(const struct gw_env *env, size_t gpu);
/* A ceiling that `gpuwhy check --measure` found: "h2d-pinned", "device-copy", ... of GPU number `gpu` (as nvidia-smi counts),
 * GW_ENV_NONE = of any. NULL when it was not measured. */
const struct gw_env_measure *gw_check_measured(const struct gw_env *env, const char *id, int64_t gpu);

#endif
