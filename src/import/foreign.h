/*
 * foreign.h - files that are no traces, by name: so that an error can say what the file is and what to do.
 */
#ifndef GW_FOREIGN_H
#define GW_FOREIGN_H

#include <stddef.h>

struct gw_foreign {
    const char *what;   /* "is a PNG image" */
    const char *advice; /* what to do instead; may be "" */
};

/* What the text beginning with `head` is, by its first bytes or its name. Never NULL; untranslated. Pure. */
const struct gw_foreign *gw_foreign_find(const char *path, const unsigned char *head, size_t len);

#endif
