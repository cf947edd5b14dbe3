/*
 * text_host.h - the `host` lines of a text case (text_trace.h): what gpuwhy run sees beside the GPU's work.
 *
 *     host cpus 16 quota=4                                   CPUs of the machine; the cgroup's limit
 *     host memory 64e9 limit=32e9                            bytes
 *     host gpu 0 memory=141e9 sm_max=1980 power_limit=700 power_default=700
 *     host process 10 parent=1 role=worker allowed=16 rss=1e9,2e9 shared=1e8 start=0s end=5s     end: it ended
 *     host thread 10:11 pt_autograd_0                        its name
 *     host sample 10:10 5ms +20ms running cpu=20ms wait=0 call=wait stack=data.py(5): decode|torch/utils/data/_utils/fetch.py(9): f
 *     host activity 0 5ms +1s engine=90 sm=80 dram=20 tensor=10     percent; or: host activity 0 refused=busy
 *     host counter 0 -1 5ms 97 nvml.utilization_percent      device, process, time, value, name
 *     host loader 1 num_workers=2 distributed=1 epochs=3 set_epoch=0 sampler=DistributedSampler
 *     host settings anomaly=1 launch_blocking=0 cudnn_benchmark=1   what the hook and the environment told
 *     host step 1 20ms optimizer=0 steps=1                   an optimizer.step() of process 1 ended
 *
 * Times move with `repeat` as those of events do. Any `host` line makes gw_trace.host; the period that it speaks of is
 * that of the samples and counters. Facts that no line gives are unknown.
 */
#ifndef TEXT_HOST_H
#define TEXT_HOST_H

#include "model/host_facts.h"

struct text_host; /* state between lines; NULL at first */

/* One line, without the word "host". `base`: ns added to times. 0, or -1 with `why` set. */
int text_host_line(struct gw_trace *t, struct text_host **h, int64_t base, const char *line, char *why, size_t cap);
/* Before gw_trace_finish(): gives the facts to the trace; frees the state. */
void text_host_finish(struct gw_trace *t, struct text_host *h);

#endif
