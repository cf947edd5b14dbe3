/* sweep_plan.c - knobs and their values: what `--vary` says. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/gw_i18n.h"
#include "sweep/sweep.h"

static int fail(char *why, size_t cap, const char *text)
{
    snprintf(why, cap, "%s", text);
    return -1;
}

static int is_batch_name(const char *name)
{
    static const char *const names[] = {"batch", "batch_size", "batch-size", "batchsize", "bs"};
    size_t len = strlen(name);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);
        if (strcmp(name, names[i]) == 0 || (i < 3 && len > n && strcmp(name + len - n, names[i]) == 0))
            return 1;
    }
    return 0;
}

static int add_text(struct gw_sweep_knob *k, const char *text, size_t len, char *why, size_t cap)
{
    if (!len)
        return fail(why, cap, _("a value is empty"));
    if (len >= GW_SWEEP_VALUE)
        return fail(why, cap, _("a value is longer than 23 characters"));
    if (k->n == GW_SWEEP_VALUES)
        return fail(why, cap, _("more than 128 values"));
    memcpy(k->value[k->n], text, len);
    k->value[k->n][len] = 0;
    for (size_t i = 0; i < k->n; i++)
        if (strcmp(k->value[i], k->value[k->n]) == 0)
            return fail(why, cap, _("a value stands there twice"));
    char *end;
    k->number[k->n] = strtod(k->value[k->n], &end);
    if (*end || !isfinite(k->number[k->n]))
        k->number[k->n] = NAN;
    k->n++;
    return 0;
}

static int add_number(struct gw_sweep_knob *k, double v, char *why, size_t cap)
{
    char text[GW_SWEEP_VALUE];
    int n = v == floor(v) && fabs(v) < 1e15 ? snprintf(text, sizeof text, "%.0f", v)
                                            : snprintf(text, sizeof text, "%.10g", v);
    return add_text(k, text, (size_t)n, why, cap);
}

/* "32..1024x2", "1..9+2", "0..8". 1 when it was one, 0 when it is no range, -1 with `why`. */
static int add_range(struct gw_sweep_knob *k, const char *text, size_t len, char *why, size_t cap)
{
    char buf[96], *end;
    const char *dots = memmem(text, len, "..", 2);
    if (!dots || len >= sizeof buf)
        return 0;
    memcpy(buf, text, len);
    buf[len] = 0;
    buf[dots - text] = 0;
    double a = strtod(buf, &end);
    if (end == buf || *end)
        return 0;
    const char *second = buf + (dots - text) + 2;
    double b = strtod(second, &end), step = 1;
    char how = *end ? *end : '+';
    if (end == second)
        return 0;
    if (*end) {
        const char *third = end + 1;
        step = strtod(third, &end);
        if ((how != 'x' && how != '*' && how != '+') || end == third || *end)
            return fail(why, cap, _("a range is written 0..8, 0..16+2 or 32..1024x2"));
    }
    if (!(a <= b) || !isfinite(a) || !isfinite(b))
        return fail(why, cap, _("a range goes from the smaller to the larger number"));
    int grows = how == '+' ? step > 0 : step > 1 && a > 0;
    if (!grows)
        return fail(why, cap, _("this step never reaches the end of the range"));
    for (double v = a; v <= b * (1 + 1e-9) + (b < 0 ? 1e-9 : 0);) {
        if (add_number(k, v, why, cap) != 0)
            return -1;
        v = how == '+' ? a + step * round((v - a) / step + 1) : v * step;
    }
    return 1;
}

/* Insertion sort: lists are short. */
static void sort(struct gw_sweep_knob *k)
{
    for (size_t i = 1; i < k->n; i++)
        for (size_t j = i; j > 0 && k->number[j - 1] > k->number[j]; j--) {
            char text[GW_SWEEP_VALUE];
            double number = k->number[j];
            memcpy(text, k->value[j], sizeof text);
            memcpy(k->value[j], k->value[j - 1], sizeof text);
            memcpy(k->value[j - 1], text, sizeof text);
            k->number[j] = k->number[j - 1];
            k->number[j - 1] = number;
        }
}

int gw_sweep_knob_parse(struct gw_sweep_knob *k, const char *spec, char *why, size_t cap)
{
    memset(k, 0, sizeof *k);
    const char *eq = strchr(spec, '=');
    size_t len = eq ? (size_t)(eq - spec) : 0;
    if (!eq || !len)
        return fail(why, cap, _("write it like workers=0,2,4,8 or batch=32..1024x2"));
    if (len >= sizeof k->name)
        return fail(why, cap, _("the name is longer than 31 characters"));
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)spec[i]) && spec[i] != '_' && spec[i] != '-')
            return fail(why, cap, _("a name is made of letters, digits, _ and -"));
    memcpy(k->name, spec, len);
    for (const char *p = eq + 1;; p++) {
        size_t n = strcspn(p, ",");
        int is = add_range(k, p, n, why, cap);
        if (is < 0 || (is == 0 && add_text(k, p, n, why, cap) != 0))
            return -1;
        p += n;
        if (!*p)
            break;
    }
    k->is_number = 1;
    for (size_t i = 0; i < k->n; i++)
        k->is_number &= !isnan(k->number[i]);
    k->is_batch = is_batch_name(k->name) && k->is_number;
    if (k->is_batch)
        for (size_t i = 0; i < k->n; i++)
            if (k->number[i] <= 0)
                return fail(why, cap, _("a batch is at least 1"));
    if (k->is_number)
        sort(k);
    return 0;
}
