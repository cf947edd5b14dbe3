#!/usr/bin/env python3
"""What recording costs: the same job with and without `gpuwhy run`, in turns.

usage: overhead.py GPUWHY OUT_DIR [--seconds S] [--pairs N] [--budget S] [CASE...]

Each round runs every mode once, in an order that rotates, so that slow drifts of the machine hit all modes alike. Prints
the median step time and main-thread CPU time of each mode, and the median of the per-round ratios to "plain".
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MODES = {
    "plain": None,
    "nvml+proc": ["--no-gpu-records", "--no-hook", "--no-report"],
    "windows": ["--no-report"],
    "full": ["--full", "--no-report"],
    "full,no-driver": ["--full", "--no-report", "--kinds", "kernels,copies,runtime,sync,overhead"],
    "full,kernels": ["--full", "--no-report", "--kinds", "kernels"],
}


def once(a, case, mode, n):
    cmd = [sys.executable, os.path.join(HERE, "zoo.py"), case, "fix" if case in a.fix else "base", "--seconds", str(a.seconds)]
    if MODES[mode] is not None:
        rec = os.path.join(a.out, f"{case}-{mode.replace(',', '-').replace('+', '-')}-{n}.rec")
        shutil.rmtree(rec, ignore_errors=True)
        cmd = [a.gpuwhy, "run", "-o", rec] + MODES[mode] + ["--"] + cmd
    p = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=180)
    with open(os.path.join(a.out, "overhead.log"), "a", encoding="utf-8") as f:
        f.write(f"$ {' '.join(cmd)}\n[status {p.returncode}]\n{p.stdout}{p.stderr}\n")
    if MODES[mode] is not None and os.path.isdir(rec):
        size = sum(os.path.getsize(os.path.join(rec, x)) for x in os.listdir(rec))
        if n or size > 30 << 20:
            shutil.rmtree(rec)
    else:
        size = 0
    for line in p.stdout.splitlines():
        if line.startswith("{"):
            return dict(json.loads(line), bytes=size)
    raise RuntimeError(f"{case} {mode}: {p.stderr[-400:]}")


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1])
    p.add_argument("gpuwhy")
    p.add_argument("out")
    p.add_argument("cases", nargs="*")
    p.add_argument("--seconds", type=float, default=6)
    p.add_argument("--pairs", type=int, default=5)
    p.add_argument("--budget", type=float, default=420)
    p.add_argument("--modes", default=",".join(["plain", "windows", "full"]).replace(",", ";"))
    p.add_argument("--fix", default="launch_bound_fix", help="cases to run in their fixed variant")
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    modes, began = a.modes.split(";"), time.time()
    for case in a.cases or ["launch_bound", "healthy_gpt"]:
        got = {m: [] for m in modes}
        for n in range(a.pairs):
            if time.time() - began > a.budget:
                print("budget spent", flush=True)
                break
            for m in modes[n % len(modes):] + modes[:n % len(modes)]:
                try:
                    r = once(a, case, m, n)
                except (RuntimeError, subprocess.TimeoutExpired) as e:
                    print(f"{case} {m}: failed: {e}", flush=True)
                    continue
                got[m].append((n, r))
                with open(os.path.join(a.out, "overhead.jsonl"), "a", encoding="utf-8") as f:
                    f.write(json.dumps(dict(r, mode=m, round=n)) + "\n")
        plain = {n: r for n, r in got["plain"]}
        for m in modes:
            rs = got[m]
            if not rs:
                continue
            ratio = [r["mean_ms"] / plain[n]["mean_ms"] for n, r in rs if n in plain]
            cpu = [r["cpu_ms"] / plain[n]["cpu_ms"] for n, r in rs if n in plain and plain[n]["cpu_ms"]]
            print(f"{case:14} {m:16} step {statistics.median(r['mean_ms'] for _, r in rs):9.3f} ms  x{statistics.median(ratio):.3f} "
                  f"[{min(ratio):.3f}..{max(ratio):.3f}]  main-thread CPU x{statistics.median(cpu):.3f}  n={len(rs)} "
                  f"record {statistics.median(r['bytes'] for _, r in rs) / 1e6:.1f} MB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
