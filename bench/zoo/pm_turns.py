#!/usr/bin/env python3
"""What sampling the hardware counters costs a job, and what a recording with it looks like.

usage: pm_turns.py turns PROBE OUT_DIR CASE [--rounds N] [--slice S] [--budget S] [--interval US]
       pm_turns.py record GPUWHY DUMP OUT_DIR CASE [--seconds S] [--no-pm]

turns: one job, nothing inside it; slices of its work without and with PROBE (build/pm_probe) sampling the GPU, in turn, and the
ratio of the step times in each round. record: `gpuwhy run` on a case; step time, CPU time and memory of the recorder and of the
sampling process, and what the record says.
"""
import argparse
import glob
import json
import os
import re
import select
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def median(values):
    values = sorted(values)
    return f"{statistics.median(values):.3f} [{values[0]:.3f}..{values[-1]:.3f}]" if values else "none"


# --- turns ---------------------------------------------------------------------------------------------------------------


class Job:
    def __init__(self, case, log):
        self.p = subprocess.Popen([sys.executable, os.path.join(HERE, "turns.py"), "--worker", case], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=log, universal_newlines=True, bufsize=1)

    def line(self, timeout):
        if select.select([self.p.stdout], [], [], timeout)[0]:
            return self.p.stdout.readline()
        return ""

    def work(self, seconds):
        self.p.stdin.write(f"{seconds}\n")
        self.p.stdin.flush()
        got = self.line(4 * seconds + 10)
        return json.loads(got) if got else None

    def end(self):
        try:
            self.p.stdin.close()
            self.p.wait(timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            self.p.kill()


class Probe:
    """Samples from when it is entered until it is left."""

    def __init__(self, path, seconds, interval):
        self.cmd = [path, "-t", str(seconds), "-m", "2", "-i", str(interval)]

    def __enter__(self):
        self.p = subprocess.Popen(self.cmd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
        self.head = self.p.stdout.readline() + self.p.stdout.readline()
        return self

    def __exit__(self, *_):
        self.tail = self.p.communicate(timeout=60)[0]

    def is_running(self):
        return ": running" in self.head


def turns(a):
    began, ratios, lines = time.time(), [], []
    with open(os.path.join(a.out, f"pm-turns-{a.case}.err"), "w", encoding="utf-8") as log:
        job = Job(a.case, log)
        if job.line(60).strip() != "ready":
            print(f"{a.case}: the job did not start", flush=True)
            return 1
        for n in range(a.rounds):
            if time.time() - began > a.budget:
                break
            first = n % 2
            off = job.work(a.slice) if first == 0 else None
            with Probe(a.probe, 2 * a.slice + 2, a.interval) as probe:
                on = job.work(a.slice)
            if first:
                off = job.work(a.slice)
            lines.append(probe.head + probe.tail)
            if not off or not on or not probe.is_running():
                print(f"{a.case}: no result: {probe.head}", flush=True)
                break
            ratios.append((on["ms"] / off["ms"], on["cpu_ms"] / off["cpu_ms"]))
            print(f"{a.case} round {n}: off {off['ms']:.3f} ms, on {on['ms']:.3f} ms, x{ratios[-1][0]:.3f}", flush=True)
        job.end()
    with open(os.path.join(a.out, f"pm-turns-{a.case}.probe.txt"), "w", encoding="utf-8") as f:
        f.write("\n".join(lines))
    rate = re.search(r"interval.*", lines[-1]) if lines else None
    print(f"turns {a.case}: sampling every {a.interval} us, {len(ratios)} rounds: step x{median([r[0] for r in ratios])}, "
          f"CPU of the job x{median([r[1] for r in ratios])}\n    {rate.group(0) if rate else ''}", flush=True)
    return 0


# --- record --------------------------------------------------------------------------------------------------------------


def status_of(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
            text = f.read()
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            fields = f.read().rsplit(")", 1)[1].split()
    except OSError:
        return None
    hwm = re.search(r"VmHWM:\s+(\d+)", text)
    ticks = os.sysconf("SC_CLK_TCK")
    return {"comm": re.search(r"Name:\s+(.*)", text).group(1), "rss": int(hwm.group(1)) / 1024 if hwm else 0,
            "cpu": (int(fields[11]) + int(fields[12])) / ticks}


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return f.read().split()
    except OSError:
        return []


def record(a):
    name = f"{a.case}-{'off' if a.no_pm else 'on'}"
    rec = os.path.join(a.out, f"pm-{name}.rec")
    shutil.rmtree(rec, ignore_errors=True)
    cmd = [a.gpuwhy, "run", "-o", rec] + (["--no-pm"] if a.no_pm else []) + ["--", sys.executable, os.path.join(HERE, "zoo.py"), a.case,
                                                                             "base", "--seconds", str(a.seconds)]
    began, seen = time.time(), {}
    with open(os.path.join(a.out, f"pm-{name}.report"), "w", encoding="utf-8") as report:
        p = subprocess.Popen(cmd, stdout=subprocess.PIPE, stderr=report, universal_newlines=True)
        while p.poll() is None and time.time() - began < 100:
            for pid in [p.pid] + children_of(p.pid):
                one = status_of(pid)
                if one and (pid == p.pid or one["comm"] == "gpuwhy-pm"):
                    seen["sampler" if one["comm"] == "gpuwhy-pm" else "recorder"] = one
            time.sleep(0.2)
        out = p.communicate(timeout=60)[0].strip().splitlines()
    print(f"record {name}: status {p.returncode} after {time.time() - began:.1f} s: {out[-1] if out else 'no output'}")
    for what, one in seen.items():
        print(f"    {what}: CPU {one['cpu']:.2f} s, at most {one['rss']:.0f} MiB")
    for path in glob.glob(os.path.join(rec, "pm.gwr")):
        text = subprocess.run([a.dump, "-v", path], stdout=subprocess.PIPE, universal_newlines=True, check=False).stdout
        runs = re.findall(r"^activity device=(-?\d+) start=(\d+) ns=(\d+) samples=(\d+) engine=(\S+) sm=(\S+) dram=(\S+) tensor=(\S+)", text, re.M)
        ns = sum(int(r[2]) for r in runs)
        for line in re.findall(r"^pm .*", text, re.M):
            print("    " + line)
        if ns:
            span = max(int(r[1]) + int(r[2]) for r in runs) - min(int(r[1]) for r in runs)
            mean = [sum(int(r[2]) * float(r[k]) for r in runs) / ns for k in (4, 5, 6, 7)]
            print(f"    {len(runs)} stretches from {sum(int(r[3]) for r in runs)} samples cover {ns / 1e9:.2f} of {span / 1e9:.2f} s; "
                  f"engine {mean[0]:.1f} %, SM {mean[1]:.1f} %, DRAM {mean[2]:.1f} %, tensor {mean[3]:.1f} %; "
                  f"{os.path.getsize(path) / 1024:.0f} KiB")
    sys.stdout.flush()
    return 0


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1][len("usage: "):])
    sub = p.add_subparsers(dest="what", required=True)
    t = sub.add_parser("turns")
    t.add_argument("probe")
    t.add_argument("out")
    t.add_argument("case")
    t.add_argument("--rounds", type=int, default=6)
    t.add_argument("--slice", type=float, default=1.5)
    t.add_argument("--budget", type=float, default=60)
    t.add_argument("--interval", type=int, default=1000)
    r = sub.add_parser("record")
    r.add_argument("gpuwhy")
    r.add_argument("dump")
    r.add_argument("out")
    r.add_argument("case")
    r.add_argument("--seconds", type=float, default=7)
    r.add_argument("--no-pm", action="store_true")
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    return turns(a) if a.what == "turns" else record(a)


if __name__ == "__main__":
    sys.exit(main())
