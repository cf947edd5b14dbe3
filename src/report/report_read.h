/*
 * report_read.h - a JSON report (gpuwhy.report/1, docs/json.md) back into a report; what json.c writes, this reads.
 *
 * Input is foreign: missing keys read as "not known", keys that are not known are ignored, and values of a wrong type,
 * negative lengths or absurd sizes are refused. Needs jansson; built without it, the answer is GW_ENOTSUP. Pure.
 *
 *     if (gw_report_sniff(head, n) && gw_report_read(text, len, "r.json", arena, &rep, &err) == 0)
 *         gw_render_terminal(rep, stdout, &options);
 */
#ifndef GW_REPORT_READ_H
#define GW_REPORT_READ_H

#include "base/gw_error.h"
#include "engine/report_model.h"

#define GW_REPORT_READ_MAX (64u << 20) /* bytes of JSON: a report of a thousand ranks has a few MB */

/* 1 when text that begins like this is such a report. */
int gw_report_sniff(const unsigned char *head, size_t len);
/* 0, or GW_EFORMAT, GW_ENOMEM, GW_ENOTSUP with `err` filled. Everything lives in `arena`. `path` is for messages. */
int gw_report_read(const char *text, size_t len, const char *path, struct gw_arena *arena, struct gw_report **out,
                   struct gw_error *err);

#endif
