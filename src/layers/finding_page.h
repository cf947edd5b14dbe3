/*
 * finding_page.h - one page for each finding: what it means, how it is measured, what else looks like it, the fix, what
 * that costs, when to leave it, how to check. `gpuwhy explain ID` shows them and docs/findings/ is made of them.
 *
 * The texts are rows of pages/<layer>.def:
 *
 *     GW_PAGE(SYM, means, measured, "LIMIT LIMIT", alike, fix, "code", cost, leave, check)
 *
 * SYM as in findings.def. The limits are names of GW_LIMIT rows there; their numbers are shown from that table and
 * never typed again, so `measured` ends in a colon where limits follow. Texts are English, marked for translation; code
 * is marked only where it has comments. Constant data, any thread.
 */
#ifndef GW_FINDING_PAGE_H
#define GW_FINDING_PAGE_H

struct gw_finding_page {
    const char *means, *measured;
    const char *limits; /* names, parted by blanks; may be empty */
    const char *alike, *fix, *code, *cost, *leave, *check;
};

/* The page of a finding, NULL when there is none of that id. "none" has one, too. */
const struct gw_finding_page *gw_finding_page(const char *id);

struct gw_finding_limit {
    const char *name; /* "SHARE" */
    double value;
    const char *why; /* what it is and where it comes from, untranslated */
};

/* The limit whose name begins at `*names`, which moves behind it; NULL at the end, or for a name that is none. */
const struct gw_finding_limit *gw_finding_limit_next(const char **names);

#endif
