/*
 * gw_i18n.h - the message catalogue. _() translates now; N_() marks a constant for later translation.
 *
 * The catalogues are GNU gettext's (po/, compiled by msgfmt), but they are read here and not by libintl: libintl
 * translates nothing unless the locale itself has been generated on the machine, and in the C and C.UTF-8 locales
 * never, which is what containers have. So `--lang zh_CN` and LANG=zh_CN.UTF-8 work everywhere.
 *
 * gw_i18n_begin() is called once, at the start of main() and before any thread; after it everything is constant and
 * any thread may translate. Without it, or without a catalogue, each text is itself. A text is looked up by its
 * English; the result lives as long as the program. Built with GW_WITH_GETTEXT=OFF, all of this is left out.
 *
 *     if (gw_i18n_begin(lang) == GW_ENODATA) ... no such catalogue: English
 *     printf(_("%d steps"), n);
 */
#ifndef GW_I18N_H
#define GW_I18N_H

#define N_(s) s

#ifdef GW_HAVE_GETTEXT
/* format_arg: the compiler checks the arguments of a translated format against the English one. */
const char *gw_i18n_text(const char *msgid) __attribute__((format_arg(1)));
const char *gw_i18n_plural(const char *one, const char *many, unsigned long n)
    __attribute__((format_arg(1), format_arg(2)));
#define _(s) gw_i18n_text(s)
#define gw_ngettext(a, b, n) gw_i18n_plural(a, b, (unsigned long)(n))
#else
#define _(s) (s)
#define gw_ngettext(a, b, n) ((n) == 1 ? (a) : (b))
#endif

/* Chooses the language: `lang` as given to --lang ("zh_CN", "zh", "en", "zh_CN.UTF-8"), or, when it is NULL, that of
 * LANGUAGE, LC_ALL, LC_MESSAGES and LANG as gettext reads them; a language of the environment is taken only when its
 * text can be shown, that is where characters are UTF-8. Sets LC_CTYPE too, to a UTF-8 locale where the environment
 * or `lang` asks for one and the machine has not generated it.
 * 0; GW_EUSAGE: no language of that name is known; GW_ENODATA: it is known, but its catalogue is not installed. */
int gw_i18n_begin(const char *lang);
const char *gw_i18n_language(void); /* "en", "zh_CN" */
int gw_i18n_utf8(void);             /* 1 when text may be written in UTF-8 */
/* Why a system call failed: strerror(3), translated. */
const char *gw_i18n_errno(int errnum);

#endif
