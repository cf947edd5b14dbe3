#!/usr/bin/env python3
"""Runs cases of zoo.py under `gpuwhy run`: base and fix without recording, base again recorded, and compares.

usage: live_zoo.py GPUWHY OUT_DIR [--seconds S] [--budget S] [--options "..."] [--record-only] [CASE...]

Prints one line a case as it goes: verdict, right or wrong, predicted gain, measured gain, overhead of recording. Writes
OUT_DIR/zoo.jsonl, and for each case its report and record (CUDA files above 20 MB are removed). With --record-only
nothing is run without recording, so there is no measured gain and no overhead: three times as many verdicts in the same
time. Stops when the budget is spent. Exit 0 always: judging is for the reader.
"""
import argparse
import glob
import json
import os
import shutil
import subprocess
import sys
import time

from parts import CASES

ZOO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "zoo.py")
OPTIONS = ""  # the defaults of `gpuwhy run`
LARGEST = 20 << 20  # bytes of one CUDA record that is kept


def run(cmd, timeout, log):
    """The last line of JSON that cmd prints, and its standard error."""
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


def read_report(gpuwhy, rec, stem):
    """Verdict, its gain, and the sentence, from the record; the text report is kept beside it."""
    shown = subprocess.run([gpuwhy, "read", rec], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    with open(stem + ".report.txt", "w", encoding="utf-8") as f:
        f.write(shown.stdout)
    subprocess.run([gpuwhy, "read", "--quiet", "--json", stem + ".report.json", rec], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with open(stem + ".report.json", encoding="utf-8") as f:
            report = json.load(f)
        said = report["verdict"]["finding"]
        gain = next((x["gain"] for x in report["findings"] if x["id"] == said), None)
        return said, gain, report["verdict"]["sentence"]
    except (OSError, ValueError, KeyError) as e:
        return "no report", None, f"{type(e).__name__}: {e}"


def record(case, gpuwhy, out, seconds, options):
    """The base variant under `gpuwhy run`."""
    stem = os.path.join(out, case.name)
    rec = stem + ".rec"
    shutil.rmtree(rec, ignore_errors=True)
    cmd = [gpuwhy, "run", "-o", rec, "--no-report"] + options + ["--", sys.executable, ZOO, case.name, "base", "--seconds", str(seconds)]
    timed, err = run(cmd, 120 + 4 * seconds, stem + ".log")
    said, gain, sentence = read_report(gpuwhy, rec, stem)
    for big in glob.glob(os.path.join(rec, "cuda-*.gwr")):
        if os.path.getsize(big) > LARGEST:
            os.remove(big)
    predicted = f"{gain['low']:.2f}/{gain['likely']:.2f}/{gain['high']:.2f}" if gain else ""
    note = "" if timed and "mean_ms" in timed else f"the recorded job failed: {err.strip()[-200:]!r}"
    return {"mean_ms": (timed or {}).get("mean_ms"), "verdict": said, "right": said in case.live + case.right,
            "predicted": predicted, "sentence": sentence, "note": note}


def one(case, a):
    log = os.path.join(a.out, case.name + ".log")
    times = {}
    for variant in () if a.record_only else ("base", "fix") if case.twin else ("base",):
        timed, err = run([sys.executable, ZOO, case.name, variant, "--seconds", str(a.seconds)], 180, log)
        if not timed or "mean_ms" not in timed:
            return {"case": case.name, "error": f"{variant}: {timed or err[-300:]}"}
        times[variant] = timed
    r = record(case, a.gpuwhy, a.out, a.seconds, a.options.split())
    base, fix = times.get("base"), times.get("fix")
    r.update({"case": case.name, "expected": (case.live + case.right)[0], "base_ms": base and base["mean_ms"],
              "fix_ms": fix and fix["mean_ms"],
              "measured_gain": round(fix["samples_per_s"] / base["samples_per_s"], 3) if fix and base else None if case.twin else 1.0,
              "overhead": round(r["mean_ms"] / base["mean_ms"] - 1, 4) if base and r["mean_ms"] else None})
    return r


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1][len("usage: "):])
    p.add_argument("gpuwhy")
    p.add_argument("out")
    p.add_argument("cases", nargs="*")
    p.add_argument("--seconds", type=float, default=8)
    p.add_argument("--budget", type=float, default=420)
    p.add_argument("--options", default=OPTIONS)
    p.add_argument("--record-only", action="store_true")
    a = p.parse_args()
    import zoo  # noqa: F401  (registers the cases)
    unknown = [c for c in a.cases if c not in CASES]
    if unknown:
        p.error(f"no such case: {', '.join(unknown)}")
    os.makedirs(a.out, exist_ok=True)
    began = time.time()
    print(f"{'case':20} {'expected':22} {'verdict':22} {'ok':3} {'predicted':>15} {'measured':>9} {'overhead':>9}", flush=True)
    for name in a.cases or CASES:
        if time.time() - began > a.budget:
            print("budget spent; the rest was not run", flush=True)
            break
        r = one(CASES[name], a)
        with open(os.path.join(a.out, "zoo.jsonl"), "a", encoding="utf-8") as f:
            f.write(json.dumps(r) + "\n")
        if "error" in r:
            print(f"{name:20} failed: {r['error'][-200:]!r}", flush=True)
            continue
        overhead = f"{r['overhead'] * 100:.1f}%" if r["overhead"] is not None else "-"
        measured = f"{r['measured_gain']:.2f}" if r["measured_gain"] is not None else "-"
        print(f"{name:20} {r['expected']:22} {r['verdict']:22} {'yes' if r['right'] else 'NO':3} {r['predicted'] or '-':>15} "
              f"{measured:>9} {overhead:>9}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
