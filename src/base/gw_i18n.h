/*
 * gw_i18n.h - message catalogue hooks. _() translates now; N_() marks a constant for later translation.
 * Built without gettext, both are the text itself.
 */
#ifndef GW_I18N_H
#define GW_I18N_H

#ifdef GW_HAVE_GETTEXT
#include <libintl.h>
#define _(s) gettext(s)
#define gw_ngettext(a, b, n) ngettext(a, b, n)
#else
#define _(s) (s)
#define gw_ngettext(a, b, n) ((n) == 1 ? (a) : (b))
#endif
#define N_(s) s

#endif
