#!/usr/bin/env python3
"""Runs cases of zoo.py under `gpuwhy run`: base and fix without recording, base again recorded, and compares.

usage: live_zoo.py GPUWHY OUT_DIR [CASE...] [--seconds S] [--timed S] [--budget S] [--options "..."] [--record-only]
                   [--known CASE,...]

Prints one line a case as it goes: verdict, right or wrong, predicted gain, measured gain and whether it is inside of what was
predicted, how much longer a step took when recorded (one run each: turns.py is for the cost of recording), the first line of code
that is named. Writes OUT_DIR/zoo.jsonl, and for each case its report and record (CUDA files above 20 MB are removed). A case is
recorded for --seconds, its base and fix are timed for --timed each. With --record-only nothing is run without recording, so there is
no measured gain; so it is for the cases of --known. Stops when the budget is spent. Exit 0 always: judging is for the reader.
"""
import argparse
import concurrent.futures
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


def judge(gpuwhy, rec, stem):
    """Verdict, its gain, its first place and the sentence, from the record; the report is kept beside it."""
    path = stem + ".report.json"
    subprocess.run([gpuwhy, "read", "--quiet", "--json", path, rec], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with open(path, encoding="utf-8") as f:
            report = json.load(f)
        said = report["verdict"]["finding"]
        first = next((x for x in report["findings"] if x["id"] == said), None)
        places = [f"{os.path.basename(w['file'])}:{w['line']}" for w in first["where"] if w.get("file")] if first else []
        return said, first and first["gain"], places[0] if places else "", report["verdict"]["sentence"]
    except (OSError, ValueError, KeyError) as e:
        return "no report", None, "", f"{type(e).__name__}: {e}"


class Timing:
    """base and fix of a case without recording, in turn in one process. It is started ahead of time, loads PyTorch while something
    else is recorded, and touches the GPU only when it is told to go on."""

    def __init__(self, case, a):
        self.case, self.out = case, os.path.join(a.out, case.name)
        self.log = open(self.out + ".log", "w", encoding="utf-8")
        cmd = [sys.executable, ZOO, case.name, "all", "--wait", "--seconds", str(a.timed)]
        self.p = subprocess.Popen(cmd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, universal_newlines=True)

    def result(self):
        """{"base": ..., "fix": ...}, as far as they worked."""
        try:
            out = self.p.communicate("go\n", timeout=120)[0]
        except subprocess.TimeoutExpired:
            self.p.kill()
            out = self.p.communicate()[0]
        self.log.write(out)
        self.log.close()
        timed = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        return {t["variant"]: t for t in timed if "mean_ms" in t}


class Recording:
    """The base variant under `gpuwhy run`. The report is made when it is asked for: it needs no GPU."""

    def __init__(self, case, gpuwhy, out, seconds, options, timed):
        self.case, self.gpuwhy, self.timed, self.stem = case, gpuwhy, timed, os.path.join(out, case.name)
        self.rec = self.stem + ".rec"
        shutil.rmtree(self.rec, ignore_errors=True)
        cmd = [gpuwhy, "run", "-o", self.rec, "--no-report"] + options.split()
        self.job, self.err = run(cmd + ["--", sys.executable, ZOO, case.name, "base", "--seconds", str(seconds)], 120 + 4 * seconds,
                                 self.stem + ".log")

    def result(self):
        case, base, fix = self.case, self.timed.get("base"), self.timed.get("fix")
        said, gain, place, sentence = judge(self.gpuwhy, self.rec, self.stem)
        for big in glob.glob(os.path.join(self.rec, "cuda-*.gwr")):
            if os.path.getsize(big) > LARGEST:
                os.remove(big)
        right = case.live + case.right
        worked = self.job and "mean_ms" in self.job
        why = self.job and (self.job.get("skip") or self.job.get("error"))
        return {"case": case.name, "expected": right[0], "verdict": said, "right": said in right, "place": place, "sentence": sentence,
                "predicted": [round(gain[k], 3) for k in ("low", "likely", "high")] if gain else None,
                "base_ms": base and base["mean_ms"], "fix_ms": fix and fix["mean_ms"],
                "measured_gain": round(fix["samples_per_s"] / base["samples_per_s"], 3) if fix and base else None if case.twin else 1.0,
                "recorded_ms": self.job["mean_ms"] if worked else None,
                "note": "" if worked else f"the recorded job failed: {why or self.err.strip()[-200:]!r}"}


def line(r):
    predicted = "/".join(f"{x:.2f}" for x in r["predicted"]) if r["predicted"] else "-"
    gain = r["measured_gain"]
    inside = "" if not r["predicted"] or gain is None else "in" if r["predicted"][0] <= gain <= r["predicted"][2] else "out"
    slower = f"{(r['recorded_ms'] / r['base_ms'] - 1) * 100:+.0f}%" if r["recorded_ms"] and r["base_ms"] else "-"
    return (f"{r['case']:20} {r['expected']:22} {r['verdict']:22} {'yes' if r['right'] else 'NO':3} {predicted:>16} "
            f"{f'{gain:.2f}' if gain is not None else '-':>7} {inside:3} {slower:>6} {r['place']}{r['note']}")


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1][len("usage: "):])
    p.add_argument("gpuwhy")
    p.add_argument("out")
    p.add_argument("cases", nargs="*")
    p.add_argument("--seconds", type=float, default=6)
    p.add_argument("--timed", type=float, default=1.5)
    p.add_argument("--budget", type=float, default=420)
    p.add_argument("--options", default=OPTIONS)
    p.add_argument("--record-only", action="store_true")
    p.add_argument("--known", default="", metavar="CASE,...", help="cases whose gain is known: recorded only")
    a = p.parse_args()
    import zoo  # noqa: F401  (registers the cases)
    unknown = [c for c in a.cases if c not in CASES]
    if unknown:
        p.error(f"no such case: {', '.join(unknown)}")
    os.makedirs(a.out, exist_ok=True)
    began, todo = time.time(), [CASES[c] for c in a.cases or CASES]
    print(f"{'case':20} {'expected':22} {'verdict':22} {'ok':3} {'predicted':>16} {'measured':>7}     {'slower':>6} line", flush=True)

    def is_timed(case):  # a case without a twin has nothing to compare
        return case.twin and not a.record_only and case.name not in a.known.split(",")

    def tell(recording):
        r = recording.result()
        with open(os.path.join(a.out, "zoo.jsonl"), "a", encoding="utf-8") as f:
            f.write(json.dumps(r) + "\n")
        print(line(r), flush=True)

    with concurrent.futures.ThreadPoolExecutor(1) as reports:
        ahead, told = None, []
        for k, case in enumerate(todo):
            if time.time() - began > a.budget:
                print(f"budget spent; not run: {' '.join(c.name for c in todo[k:])}", flush=True)
                break
            timed = (ahead or Timing(case, a)).result() if is_timed(case) else {}
            ahead = Timing(todo[k + 1], a) if k + 1 < len(todo) and is_timed(todo[k + 1]) else None
            told.append(reports.submit(tell, Recording(case, a.gpuwhy, a.out, a.seconds, a.options, timed)))
        if ahead:
            ahead.p.kill()
        for t in told:
            t.result()
    return 0


if __name__ == "__main__":
    sys.exit(main())
