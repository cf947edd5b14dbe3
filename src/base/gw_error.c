#include "base/gw_error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/gw_i18n.h"

int gw_error_set(struct gw_error *err, int code, const char *file, int64_t byte, const char *advice,
                 const char *fmt, ...)
{
    if (!err || err->code)
        return code;
    err->code = code;
    err->byte = byte;
    snprintf(err->file, sizeof err->file, "%s", file ? file : "");
    snprintf(err->advice, sizeof err->advice, "%s", advice && *advice ? _(advice) : "");
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->what, sizeof err->what, _(fmt), ap);
    va_end(ap);
    return code;
}

const char *gw_error_text(const struct gw_error *err, char *buf, size_t cap)
{
    char place[64] = "";
    if (err->line > 0)
        snprintf(place, sizeof place, _("line %lld: "), (long long)err->line);
    else if (err->byte >= 0 && err->file[0])
        snprintf(place, sizeof place, _("byte %lld: "), (long long)err->byte);
    snprintf(buf, cap, "%s%s%s%s%s%s", err->file, err->file[0] ? _(": ") : "", place,
             err->what[0] ? err->what : gw_code_name(err->code), err->advice[0] ? _("; ") : "", err->advice);
    for (char *p = buf; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
    return buf;
}

const char *gw_code_name(int code)
{
    static const char *const names[] = {
        N_("ok"), N_("out of memory"), N_("input or output failed"), N_("not a format that can be read"),
        N_("the input ends early"), N_("wrong usage"), N_("internal error"), N_("no data to diagnose"),
        N_("not built in"), N_("interrupted")};
    int i = -code;
    return i >= 0 && i < (int)(sizeof names / sizeof *names) ? _(names[i]) : _("unknown error");
}
