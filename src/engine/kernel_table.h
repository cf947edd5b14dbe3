/*
 * kernel_table.h - what a device worked on in the steady window, by short name and by class. Pure.
 *
 * Names are shortened (names.h: no template arguments, no namespaces) so that tables of two recordings, of two versions
 * or machines, can be compared. Operations count where they start; overlapping ones count in full.
 *
 *     struct gw_kernel_table k;
 *     if (gw_kernel_table(an, an->dev + an->main, arena, &k) == 0)
 *         print(k.rows[0].name, k.rows[0].ns);        // a step
 */
#ifndef GW_KERNEL_TABLE_H
#define GW_KERNEL_TABLE_H

#include "engine/analysis.h"

struct gw_kernel_table {
    const struct gw_report_kernel *rows; /* by name, most time first, at most GW_REPORT_KERNELS */
    size_t count;
    const struct gw_report_kernel *classes; /* all of it by class, most time first */
    size_t class_count;
};

/* Per step of the steady window; of all of it when no steps were found. 0 or GW_ENOMEM. Lives in `arena`; names are
 * copied. */
int gw_kernel_table(const struct gw_analysis *an, const struct gw_dev *dev, struct gw_arena *arena,
                    struct gw_kernel_table *out);

#endif
