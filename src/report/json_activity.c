/* json_activity.c - see json_activity.h */
#include "report/json_activity.h"

void gw_json_activity(struct gw_json *j, const struct gw_report *r)
{
    gw_json_array(j, "activity");
    for (size_t i = 0; i < r->activity_count; i++) {
        const struct gw_report_activity *a = &r->activity[i];
        gw_json_object(j, NULL);
        gw_json_int(j, "device", a->device);
        gw_json_text(j, "state", a->state);
        gw_json_text(j, "why", a->why);
        gw_json_int(j, "span_ns", a->span_ns);
        gw_json_int(j, "measured_ns", a->measured_ns);
        gw_json_int(j, "before_ns", a->before_ns);
        gw_json_int(j, "after_ns", a->after_ns);
        gw_json_double(j, "idle", a->idle);
        gw_json_double(j, "window_idle", a->window_idle);
        gw_json_flag(j, "represents", a->represents);
        gw_json_double(j, "sm", a->sm);
        gw_json_double(j, "dram", a->dram);
        gw_json_double(j, "tensor", a->tensor);
        gw_json_object(j, "pauses");
        gw_json_int(j, "count", a->pauses);
        gw_json_int(j, "ns", a->pause_ns);
        gw_json_int(j, "longest_ns", a->longest_ns);
        gw_json_int(j, "longest_at_ns", a->longest_at);
        gw_json_end(j);
        gw_json_object(j, "swing");
        gw_json_text(j, "shape", a->shape);
        gw_json_known(j, "period_ns", a->period_ns);
        gw_json_double(j, "depth", a->depth);
        gw_json_double(j, "duty", a->duty);
        gw_json_end(j);
        gw_json_known(j, "interval_ns", a->interval_ns);
        gw_json_int(j, "samples", a->samples);
        gw_json_int(j, "overflows", a->overflows);
        gw_json_end(j);
    }
    gw_json_end(j);
}
