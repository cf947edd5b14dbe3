#!/usr/bin/env python3
"""A job that profiles some of its own steps with torch.profiler, while somebody else may be recording it too.

usage: profiled.py TRACE.json [STEPS]

Prints one line of JSON: the kernels that torch.profiler saw in 10 steps, and later in STEPS (default 200).
"""
import json
import sys
import time

import torch

import zoo


def count(steps, n, path=None):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]) as p:
        for _ in range(n):
            next(steps)
        torch.cuda.synchronize()
    if path:
        p.export_chrome_trace(path)
    return sum(e.count for e in p.key_averages() if e.device_type == torch.autograd.DeviceType.CUDA)


def main():
    steps = zoo.CASES["launch_bound"].fn(False)
    out = {}
    end = time.time() + 2
    while time.time() < end:
        next(steps)
    out["profiled_1"] = count(steps, 10)
    end = time.time() + 5
    while time.time() < end:
        next(steps)
    out["profiled_2"] = count(steps, int(sys.argv[2]) if len(sys.argv) > 2 else 200, sys.argv[1] if len(sys.argv) > 1 else None)
    end = time.time() + 4
    while time.time() < end:
        next(steps)
    torch.cuda.synchronize()
    print(json.dumps(out), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, __file__.rsplit("/", 1)[0])
    main()
