/*
 * elide.h - long names made short, so that what tells them apart stays.
 *
 * C++ kernel names carry return type, template arguments and parameters; those go first, in that order of worth:
 * "void " in front, the parameter list, then the template arguments from the inside out. When that is not enough
 * the middle is cut out: the two ends of a name say most.
 *
 *     char buf[256];
 *     gw_elide(buf, sizeof buf, kernel_name, 60, unicode);
 */
#ifndef GW_ELIDE_H
#define GW_ELIDE_H

#include <stddef.h>

/* Cleans `s` (clean.h) and shortens it to `width` columns. `out` is always NUL-terminated. Returns `out`. */
char *gw_elide(char *out, size_t cap, const char *s, int width, int unicode);

#endif
