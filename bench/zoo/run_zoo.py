#!/usr/bin/env python3
"""Runs cases of zoo.py: base and fix without recording, base again under `gpuwhy run`, and compares.

usage: run_zoo.py GPUWHY OUT_DIR [--seconds S] [--budget S] [CASE...]

Prints one line a case as it goes: verdict, right or wrong, predicted gain, measured gain, overhead of recording. Writes
OUT_DIR/zoo.jsonl, and for each case its report and record (CUDA files above 20 MB are removed). Stops when the
budget is spent. Exit 0 always: judging is for the reader.
"""
import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ZOO = os.path.join(HERE, "zoo.py")


def run(cmd, timeout, log):
    try:
        p = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return None, "timeout"
    with open(log, "a", encoding="utf-8") as f:
        f.write(f"$ {' '.join(cmd)}\n[status {p.returncode}]\n{p.stdout}\n{p.stderr}\n")
    for line in reversed(p.stdout.splitlines()):
        if line.startswith("{"):
            return json.loads(line), p.stderr
    return None, p.stderr


def verdict_of(path, stderr):
    """From the JSON report where gpuwhy can write one, else from its text."""
    try:
        with open(path, encoding="utf-8") as f:
            rep = json.load(f)
        best = rep["findings"][0] if rep["findings"] else {}
        return rep["verdict"]["finding"], best.get("gain"), rep["verdict"]["sentence"]
    except (OSError, ValueError, KeyError, IndexError):
        m = re.search(r"^1 ([a-z0-9-]+) .*?gain ([\d.]+)(?:–([\d.]+))?", stderr, re.M)
        head = " ".join(x for x in stderr.strip().splitlines() if not x.startswith("gpuwhy:"))[:200]
        if not m:
            return ("none" if "fine" in head else "?"), None, head
        return m.group(1), {"low": float(m.group(2)), "high": float(m.group(3) or m.group(2))}, head


def one(case, row, a):
    log = os.path.join(a.out, case + ".log")
    py = [sys.executable, ZOO, case]
    sec = ["--seconds", str(a.seconds)]
    base, why = run(py + ["base"] + sec, 180, log)
    if not base:
        return {"case": case, "error": why[-300:]}
    fix, _ = run(py + ["fix"] + sec, 180, log)
    rec, js = os.path.join(a.out, case + ".rec"), os.path.join(a.out, case + ".json")
    shutil.rmtree(rec, ignore_errors=True)
    options = [a.gpuwhy, "run", "-o", rec, "--no-report"] + a.options.split()
    recorded, err = run(options + ["--"] + py + ["base"] + sec, 240, log)
    shown = subprocess.run([a.gpuwhy, "read", rec], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    err += shown.stdout
    subprocess.run([a.gpuwhy, "read", "--quiet", "--json", js, rec], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(os.path.join(a.out, case + ".report.txt"), "w", encoding="utf-8") as f:
        f.write(err)
    found, gain, sentence = verdict_of(js, err)
    for big in glob.glob(os.path.join(rec, "cuda-*.gwr")):
        if os.path.getsize(big) > 20 << 20:
            os.remove(big)
    right = found == row["expected"] or found in row["also"]
    return {"case": case, "expected": row["expected"], "verdict": found, "right": right, "predicted": gain, "sentence": sentence,
            "base_ms": base["step_ms"], "fix_ms": fix["step_ms"] if fix else None,
            "measured_gain": round(base["step_ms"] / fix["step_ms"], 3) if fix else None,
            "overhead": round(recorded["step_ms"] / base["step_ms"] - 1, 4) if recorded else None}


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1])
    p.add_argument("gpuwhy")
    p.add_argument("out")
    p.add_argument("cases", nargs="*")
    p.add_argument("--seconds", type=float, default=8)
    p.add_argument("--budget", type=float, default=420)
    p.add_argument("--options", default="--windows 2s,2s,2s,4s")
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    began = time.time()
    listed = subprocess.run([sys.executable, ZOO, "list"], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
    rows = {}
    for line in listed.splitlines():
        name, expected, also, _ = line.split("\t")
        rows[name] = {"expected": expected, "also": also.split(",")}
    print(f"{'case':16} {'expected':22} {'verdict':22} {'ok':3} {'predicted':>12} {'measured':>9} {'overhead':>9}", flush=True)
    for case in a.cases or rows:
        if time.time() - began > a.budget:
            print("budget spent; the rest was not run", flush=True)
            break
        r = one(case, rows[case], a)
        with open(os.path.join(a.out, "zoo.jsonl"), "a", encoding="utf-8") as f:
            f.write(json.dumps(r) + "\n")
        if "error" in r:
            print(f"{case:16} failed: {r['error'][-200:]!r}", flush=True)
            continue
        g = r["predicted"] or {}
        low, high = g.get("low"), g.get("high")
        pred = f"{low:.2f}-{high:.2f}" if isinstance(low, (int, float)) and isinstance(high, (int, float)) else "-"
        print(f"{case:16} {r['expected']:22} {r['verdict']:22} {'yes' if r['right'] else 'NO':3} {pred:>12} "
              f"{r['measured_gain'] or float('nan'):9.2f} {(r['overhead'] if r['overhead'] is not None else float('nan')) * 100:8.1f}%", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
