#!/usr/bin/env python3
"""What each part of recording costs a job: the same job in several modes, all alive at once, working in turns.

usage: turns.py GPUWHY OUT_DIR CASE [--modes A,B,...] [--rounds N] [--slice S] [--budget S]
       turns.py --worker CASE [--profile cpu,gpu|gpu]

All modes start together and warm up; then one after the other works for a slice of time while the others wait for their
turn, round after round. So a slow drift of the machine hits all modes alike, and a start is paid once. The recorders of
the waiting modes are stopped meanwhile (SIGSTOP): what they do must not fall on others.

A line a round goes to standard output; the table is written to OUT_DIR/turns-CASE.txt after each round and printed last.
Ratios are medians over rounds of each slice to the "plain" slice of its round. CPU is user + system time of the whole job
process, all its threads, ours inside it included.
"""
import argparse
import contextlib
import json
import os
import select
import shutil
import signal
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MODES = {
    "plain": None,                                                                  # nothing
    "host": ["--no-gpu-records"],                                                   # NVML, /proc and Python stacks
    "host,no-stacks": ["--no-gpu-records", "--no-stacks"],                          # NVML and /proc
    "loaded": ["--windows", "1h,1s,1s,1h"],                                         # library inside, CUPTI never loaded
    "attached": ["--windows", "0s,50ms,50ms,1h"],                                   # CUPTI used once, then off
    "windows": [],                                                                  # the default
    "always": ["--gpu-records=always"],                                             # windows, whatever they cost
    "full": ["--full"],                                                             # all GPU work
    "full,kernels": ["--full", "--kinds", "kernels"],
    "full,no-driver": ["--full", "--kinds", "kernels,copies,runtime,sync,overhead"],
}
PROFILERS = {"profiler": "cpu,gpu", "profiler,gpu": "gpu"}                          # torch.profiler around each slice, nothing of ours
START_S = 60


# --- the job ---------------------------------------------------------------------------------------------------------


def profiler(torch, what):
    """torch.profiler as its documentation shows it, without stacks or shapes; or nothing."""
    if not what:
        return contextlib.nullcontext()
    kinds = {"cpu": torch.profiler.ProfilerActivity.CPU, "gpu": torch.profiler.ProfilerActivity.CUDA}
    return torch.profiler.profile(activities=[kinds[k] for k in what.split(",")])


def worker(name, profile):
    sys.path.insert(0, HERE)
    import zoo
    from parts import CASES, torch
    assert zoo
    torch.manual_seed(0)
    job = CASES[name].fn(False)
    steps, end = 0, time.perf_counter() + 2.5
    while steps < 10 or time.perf_counter() < end:
        next(job)
        steps += 1
    torch.cuda.synchronize()
    print("ready", flush=True)
    for line in sys.stdin:
        seconds = float(line)
        with profiler(torch, profile):  # its own start and end are not in the times
            for _ in range(3):  # caches and clocks
                next(job)
            torch.cuda.synchronize()
            n, cpu, main, start = 0, time.process_time(), time.thread_time(), time.perf_counter()
            while time.perf_counter() - start < seconds or n < 5:
                next(job)
                n += 1
            torch.cuda.synchronize()
            wall, cpu, main = time.perf_counter() - start, time.process_time() - cpu, time.thread_time() - main
        steps += n + 3
        print(json.dumps({"steps": n, "ms": wall / n * 1e3, "cpu_ms": cpu / n * 1e3, "main_ms": main / n * 1e3, "total_steps": steps}), flush=True)


# --- the turns ---------------------------------------------------------------------------------------------------------


class Mode:
    def __init__(self, a, name):
        self.name, self.slices = name, []
        cmd = [sys.executable, os.path.abspath(__file__), "--worker", a.case, "--profile", PROFILERS.get(name, "")]
        self.rec = os.path.join(a.out, f"{a.case}-{name.replace(',', '-')}.rec")
        if MODES.get(name) is not None:
            shutil.rmtree(self.rec, ignore_errors=True)
            # One process of a machine can sample a GPU's counters, and it would go on in the others' turns: pm_turns.py is for that.
            cmd = [a.gpuwhy, "run", "-o", self.rec, "--no-report", "--no-pm"] + MODES[name] + ["--"] + cmd
        self.log = open(os.path.join(a.out, f"turns-{a.case}-{name.replace(',', '-')}.err"), "w", encoding="utf-8")
        self.p = subprocess.Popen(cmd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, universal_newlines=True,
                                  bufsize=1)

    def line(self, timeout):
        """The next line of the job, or None."""
        if select.select([self.p.stdout], [], [], max(0, timeout))[0]:
            return self.p.stdout.readline() or None
        return None

    def let(self, on):
        """The recorder works or rests; the job itself is not touched."""
        if MODES.get(self.name) is not None and self.p.poll() is None:
            self.p.send_signal(signal.SIGCONT if on else signal.SIGSTOP)

    def work(self, seconds, timeout):
        self.let(True)
        time.sleep(0.05)
        try:
            self.p.stdin.write(f"{seconds}\n")
            self.p.stdin.flush()
        except OSError:
            return None
        got = self.line(timeout)
        self.let(False)
        return json.loads(got) if got else None

    def end(self):
        self.let(True)
        try:
            self.p.stdin.close()
            self.p.wait(timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            self.p.kill()
        self.log.close()


def table(modes, case, rounds):
    """Text lines: medians of each mode and of its per-round ratios to plain."""
    plain = {n: s for m in modes if m.name == "plain" for n, s in m.slices}
    out = [f"{case}: {rounds} rounds, medians; x = ratio to plain of the same round [least..most]"]
    for m in modes:
        both = [(s, plain[n]) for n, s in m.slices if n in plain]
        if not both:
            out.append(f"  {m.name:16} no result")
            continue
        def med(key):
            return statistics.median(s[key] for s, _ in both)
        r = sorted(s["ms"] / p["ms"] for s, p in both)
        c = sorted(s["cpu_ms"] / p["cpu_ms"] for s, p in both)
        k = sorted(s["main_ms"] / p["main_ms"] for s, p in both)
        out.append(f"  {m.name:16} step {med('ms'):8.3f} ms x{statistics.median(r):.3f} [{r[0]:.3f}..{r[-1]:.3f}]   "
                   f"CPU {med('cpu_ms'):8.3f} ms x{statistics.median(c):.3f} [{c[0]:.3f}..{c[-1]:.3f}]   "
                   f"main thread {med('main_ms'):8.3f} ms x{statistics.median(k):.3f}")
    return "\n".join(out) + "\n"


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1][len("usage: "):])
    p.add_argument("gpuwhy", nargs="?")
    p.add_argument("out", nargs="?")
    p.add_argument("case", nargs="?")
    p.add_argument("--worker")
    p.add_argument("--profile", default="")
    p.add_argument("--modes", default="plain;host,no-stacks;host;loaded;attached;windows;full")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--slice", type=float, default=1.2)
    p.add_argument("--budget", type=float, default=90, help="seconds, starts included")
    a = p.parse_args()
    if a.worker:
        return worker(a.worker, a.profile)
    os.makedirs(a.out, exist_ok=True)
    began, path = time.time(), os.path.join(a.out, f"turns-{a.case}.txt")
    modes = [Mode(a, m) for m in a.modes.split(";")]
    ready = []
    for m in modes:
        said = m.line(min(START_S, a.budget) - (time.time() - began))
        if said and said.strip() == "ready":
            m.let(False)
            ready.append(m)
        else:
            print(f"{a.case} {m.name}: did not start: {said!r}", flush=True)
    print(f"{a.case}: {len(ready)} modes ready after {time.time() - began:.1f} s", flush=True)
    done = 0
    for n in range(a.rounds):
        if time.time() - began > a.budget:
            print("budget spent", flush=True)
            break
        k = n % max(1, len(ready))
        for m in ready[k:] + ready[:k]:
            got = m.work(a.slice, 4 * a.slice + 10)
            if got:
                m.slices.append((n, got))
                with open(os.path.join(a.out, "turns.jsonl"), "a", encoding="utf-8") as f:
                    f.write(json.dumps(dict(got, case=a.case, mode=m.name, round=n)) + "\n")
        done = n + 1
        print(f"round {n}: " + "  ".join(f"{m.name} {m.slices[-1][1]['ms']:.2f}" for m in ready if m.slices), flush=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(table(ready, a.case, done))
    for m in modes:
        m.end()
    text = table(ready, a.case, done)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    print(text, end="", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
