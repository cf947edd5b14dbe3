/*
 * html_words.h - words and colours that the pages share: families of causes, the language, the labels of the script.
 *
 * Twenty-odd causes are too many colours to tell apart, so causes have families; a family has one colour and one
 * hatching in page.css and in the script. The words always stand beside them.
 */
#ifndef GW_HTML_WORDS_H
#define GW_HTML_WORDS_H

#include <stdio.h>

enum gw_family {
    GW_FAMILY_OTHER, /* outside the code: not running, the profiler, start and end of the recording */
    GW_FAMILY_DATA,
    GW_FAMILY_SYNC,
    GW_FAMILY_LAUNCH,
    GW_FAMILY_MEMORY,
    GW_FAMILY_COMPILE,
    GW_FAMILY_PEER,
    GW_FAMILY_PHASE,
    GW_FAMILY_UNKNOWN,
    GW_FAMILY_COUNT
};

enum gw_family gw_html_family(unsigned cause);     /* of an enum gw_cause; LAUNCH for GW_HOST_QUEUE_FULL */
const char *gw_html_family_id(enum gw_family f);   /* a class name: "data" */
const char *gw_html_family_text(enum gw_family f); /* untranslated */
const char *gw_html_source(const char *source);    /* of evidence, translated */

struct gw_html_lang {
    char s[24];
};
struct gw_html_lang gw_html_language(void); /* as HTML names it (BCP 47): "en", "zh-CN" */
void gw_html_labels(FILE *data);            /* the script's words as a JSON object */

#endif
