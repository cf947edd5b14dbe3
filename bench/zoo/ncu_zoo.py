#!/usr/bin/env python3
"""Traces cases of zoo.py, profiles some of their kernels with Nsight Compute, and compares what gpuwhy says with and without.

usage: ncu_zoo.py GPUWHY OUT_DIR [--launches N] [--skip N] [--budget S] [CASE...]

Needs `ncu` and the right to read the GPU's counters. For each case OUT_DIR gets the trace, ncu's CSV (a small real file for
the tests), and the report. One line a case: verdict by the trace, verdict with counters, share of the kernel time that
has counters, how kernels were matched, what limits them. Stops when the budget is spent.
"""
import argparse
import collections
import json
import os
import shutil
import subprocess
import sys
import time

ZOO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "zoo.py")
CASES = ["elementwise_chain", "fp32_matmul", "fp32_mlp", "fp32_conv", "embedding", "batch_small", "healthy_conv", "healthy_gpt"]
# What is read (docs/formats.md); a section file more would cost passes and say nothing.
METRICS = ",".join([
    "gpu__time_duration.sum", "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active", "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__maximum_warps_per_active_cycle_pct", "launch__waves_per_multiprocessor", "launch__grid_size", "launch__block_size",
    "launch__registers_per_thread"])


def call(cmd, log, **kw):
    with open(log, "ab") as f:
        f.write(("$ " + " ".join(cmd) + "\n").encode())
        return subprocess.run(cmd, stdin=subprocess.DEVNULL, stderr=f, **kw)


def report(gpuwhy, *files):
    p = subprocess.run([gpuwhy, "read", "--quiet", "--json", "-", *files], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        return json.loads(p.stdout)
    except ValueError:
        return {"verdict": {"finding": p.stderr.decode(errors="replace")[-200:]}, "kernel_counters": None}


def one(case, args):
    stem = os.path.join(args.out, case)
    trace, counters, log = stem + ".json.gz", stem + ".ncu.csv", stem + ".log"
    with open(os.devnull, "wb") as null:
        call([sys.executable, ZOO, case, "base", "--seconds", "0.5", "--trace", trace], log, stdout=null, timeout=240)
    with open(counters, "wb") as f:
        call(["ncu", "--csv", "--page", "raw", "--metrics", METRICS, "--launch-skip", str(args.skip), "--launch-count",
              str(args.launches), "--target-processes", "all", sys.executable, ZOO, case, "base", "--steps", "3", "--warmup", "2"],
             log, stdout=f, timeout=400)
    a, b = report(args.gpuwhy, trace), report(args.gpuwhy, trace, counters)
    with open(stem + ".report.json", "w", encoding="utf-8") as f:
        json.dump(b, f, indent=1)
    c = b.get("kernel_counters") or {"covered": None, "kernels": []}
    count = lambda key: dict(collections.Counter(k[key] for k in c["kernels"]))
    print(f"{case:20} {a['verdict']['finding']:24} {b['verdict']['finding']:24} covered {c['covered']} match {count('match')} "
          f"limit {count('limit')}", flush=True)


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1][len("usage: "):])
    p.add_argument("gpuwhy")
    p.add_argument("out")
    p.add_argument("cases", nargs="*")
    p.add_argument("--launches", type=int, default=300)
    p.add_argument("--skip", type=int, default=600, help="launches of the start that are not profiled")
    p.add_argument("--budget", type=float, default=500)
    args = p.parse_args()
    if not shutil.which("ncu"):
        sys.exit("ncu is not there: install Nsight Compute, or put it on the PATH")
    os.makedirs(args.out, exist_ok=True)
    end = time.monotonic() + args.budget
    for case in args.cases or CASES:
        if time.monotonic() > end:
            print(f"{case}: no time left")
            continue
        try:
            one(case, args)
        except subprocess.TimeoutExpired as e:
            print(f"{case}: {e}", flush=True)


main()
