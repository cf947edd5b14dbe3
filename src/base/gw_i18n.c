#include "base/gw_i18n.h"

#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/gw_error.h"

#ifndef GW_LOCALEDIR
#define GW_LOCALEDIR "/usr/local/share/locale"
#endif

/* Languages other than English, with the names that mean them. */
static const struct {
    const char *name, *also[6];
} languages[] = {{"zh_CN", {"zh", "zh_SG", "zh_Hans", "zh_Hans_CN", "chinese"}}};

/* A catalogue in the MO format of GNU gettext (manual, section "The Format of GNU MO Files"): two tables of lengths
 * and offsets, the first sorted by text. */
static struct {
    const char *language; /* NULL = English */
    char *bytes;
    uint32_t count, originals, translations; /* the two are offsets of the tables */
    int one_form;                            /* the language has no plural */
    int force_utf8;                          /* asked for, where no locale says so */
} catalogue;

#define MO_MAGIC 0x950412deu
#define MO_MAX (16l << 20) /* bytes; ours has a tenth of a megabyte */

#ifdef GW_HAVE_GETTEXT

static uint32_t word_at(const char *bytes, uint32_t offset)
{
    uint32_t v;
    memcpy(&v, bytes + offset, sizeof v);
    return v;
}

static const char *entry(uint32_t table, uint32_t i)
{
    return catalogue.bytes + word_at(catalogue.bytes, table + 8 * i + 4);
}

/* Each text lies in the file and ends in a NUL there. */
static int table_is_sound(const char *bytes, uint32_t size, uint32_t table, uint32_t count)
{
    if (table > size || count > (size - table) / 8)
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t len = word_at(bytes, table + 8 * i), at = word_at(bytes, table + 8 * i + 4);
        if (at >= size || len >= size - at || bytes[at + len] != 0)
            return 0;
    }
    return 1;
}

static char *read_all(const char *path, uint32_t *size)
{
    FILE *f = fopen(path, "rbe");
    long n = 0;
    char *bytes = NULL;
    if (!f)
        return NULL;
    if (fseek(f, 0, SEEK_END) == 0 && (n = ftell(f)) >= 28 && n <= MO_MAX && fseek(f, 0, SEEK_SET) == 0 &&
        (bytes = malloc((size_t)n)) != NULL && fread(bytes, 1, (size_t)n, f) != (size_t)n) {
        free(bytes);
        bytes = NULL;
    }
    fclose(f);
    *size = (uint32_t)n;
    return bytes;
}

static int load(const char *path, const char *language)
{
    uint32_t size = 0;
    char *bytes = read_all(path, &size);
    if (!bytes)
        return GW_ENODATA;
    uint32_t count = word_at(bytes, 8), originals = word_at(bytes, 12), translations = word_at(bytes, 16);
    if (word_at(bytes, 0) != MO_MAGIC || word_at(bytes, 4) >> 16 != 0 ||
        !table_is_sound(bytes, size, originals, count) || !table_is_sound(bytes, size, translations, count)) {
        free(bytes);
        return GW_ENODATA;
    }
    catalogue.bytes = bytes;
    catalogue.count = count;
    catalogue.originals = originals;
    catalogue.translations = translations;
    catalogue.language = language;
    catalogue.one_form = strstr(gw_i18n_text(""), "nplurals=1") != NULL; /* the entry "" is the header */
    return 0;
}

/* DIR/LANGUAGE/LC_MESSAGES/gpuwhy.mo, where DIR is beside the program in a build folder, or PREFIX/share/locale as
 * seen from PREFIX/bin/gpuwhy wherever that was moved to, or where it was to be installed. */
static int find(const char *language)
{
    char self[PATH_MAX], path[PATH_MAX + 128];
    static const char *const beside[] = {"locale", "../share/locale"};
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0) {
        self[n] = 0;
        char *slash = strrchr(self, '/');
        if (slash)
            *slash = 0;
        for (size_t i = 0; slash && i < sizeof beside / sizeof *beside; i++) {
            snprintf(path, sizeof path, "%s/%s/%s/LC_MESSAGES/gpuwhy.mo", self, beside[i], language);
            if (load(path, language) == 0)
                return 0;
        }
    }
    snprintf(path, sizeof path, "%s/%s/LC_MESSAGES/gpuwhy.mo", GW_LOCALEDIR, language);
    return load(path, language);
}

/* The translation of `msgid` with the forms of its plural one after the other; NULL = there is none. */
static const char *look_up(const char *msgid)
{
    uint32_t low = 0, high = catalogue.count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int c = strcmp(msgid, entry(catalogue.originals, middle));
        if (c == 0) {
            const char *text = entry(catalogue.translations, middle);
            return *text ? text : NULL;
        }
        if (c < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const char *gw_i18n_text(const char *msgid)
{
    const char *text = catalogue.bytes && msgid ? look_up(msgid) : NULL;
    return text ? text : msgid;
}

const char *gw_i18n_plural(const char *one, const char *many, unsigned long n)
{
    const char *text = catalogue.bytes ? look_up(one) : NULL;
    if (!text)
        return n == 1 ? one : many;
    return catalogue.one_form || n == 1 ? text : text + strlen(text) + 1;
}

#else
static int find(const char *language)
{
    (void)language;
    return GW_ENODATA;
}
#endif

/* "zh-CN.UTF-8@x" -> "zh_CN". */
static void bare_name(char *out, size_t cap, const char *name)
{
    size_t n = strcspn(name, ".@:");
    snprintf(out, cap, "%.*s", (int)(n < cap ? n : cap - 1), name);
    for (char *p = out; *p; p++)
        if (*p == '-')
            *p = '_';
}

/* 1 = English, 2 = one of `languages`, in *which; 0 = unknown. */
static int language_of(const char *name, size_t *which)
{
    static const char *const english[] = {"C", "POSIX", "en", "english"};
    char bare[32];
    bare_name(bare, sizeof bare, name);
    for (size_t i = 0; i < sizeof english / sizeof *english; i++)
        if (strcasecmp(bare, english[i]) == 0)
            return 1;
    if (strncasecmp(bare, "en_", 3) == 0)
        return 1;
    for (size_t i = 0; i < sizeof languages / sizeof *languages; i++) {
        int same = strcasecmp(bare, languages[i].name) == 0;
        for (size_t k = 0; !same && languages[i].also[k]; k++)
            same = strcasecmp(bare, languages[i].also[k]) == 0;
        if (same) {
            *which = i;
            return 2;
        }
    }
    return 0;
}

static const char *variable(const char *a, const char *b, const char *c)
{
    const char *names[] = {a, b, c};
    for (size_t i = 0; i < 3; i++) {
        const char *v = getenv(names[i]);
        if (v && *v)
            return v;
    }
    return "";
}

static int codeset_is_utf8(void) { return strcmp(nl_langinfo(CODESET), "UTF-8") == 0; }

static int names_utf8(const char *locale)
{
    const char *dot = strchr(locale, '.');
    return dot && (strncasecmp(dot, ".UTF-8", 6) == 0 || strncasecmp(dot, ".utf8", 5) == 0);
}

/* C.UTF-8 is part of glibc since 2.35 and of Debian's since long before. */
static void use_utf8(void)
{
    if (!codeset_is_utf8() && !setlocale(LC_CTYPE, "C.UTF-8"))
        (void)setlocale(LC_CTYPE, "en_US.UTF-8");
    catalogue.force_utf8 = !codeset_is_utf8();
}

/* As gettext: LC_ALL, LC_MESSAGES and LANG choose; LANGUAGE may refine that, except in the C locale. Nobody asked for a
 * language on this command line, so nobody is told when there is no catalogue. */
static void from_environment(void)
{
    const char *locale = variable("LC_ALL", "LC_MESSAGES", "LANG"), *list = getenv("LANGUAGE");
    size_t which = 0;
    if (!gw_i18n_utf8() || !*locale || strcmp(locale, "POSIX") == 0 || strcmp(locale, "C") == 0 ||
        strncmp(locale, "C.", 2) == 0)
        return;
    for (; list && *list; list += strcspn(list, ":"), list += *list == ':') {
        int kind = language_of(list, &which);
        if (kind == 1 || (kind == 2 && find(languages[which].name) == 0))
            return;
    }
    if (language_of(locale, &which) == 2)
        (void)find(languages[which].name);
}

int gw_i18n_begin(const char *lang)
{
    size_t which = 0;
    free(catalogue.bytes);
    memset(&catalogue, 0, sizeof catalogue);
    /* Not LC_NUMERIC: a report reads the same everywhere, and JSON has no decimal comma. Not LC_MESSAGES: what the
     * system's own libraries say is looked up in our catalogue, so that one report has one language. */
    if (!setlocale(LC_CTYPE, "") && names_utf8(variable("LC_ALL", "LC_CTYPE", "LANG")))
        use_utf8();
    if (!lang || !*lang) {
        from_environment();
        return 0;
    }
    switch (language_of(lang, &which)) {
    case 1: return 0;
    case 2: use_utf8(); return find(languages[which].name);
    default: return GW_EUSAGE;
    }
}

const char *gw_i18n_language(void) { return catalogue.language ? catalogue.language : "en"; }

int gw_i18n_utf8(void) { return catalogue.force_utf8 || codeset_is_utf8(); }

const char *gw_i18n_errno(int errnum) { return _(strerror(errnum)); } /* the texts to translate: po/system.h */
