#!/usr/bin/env python3
"""Small PyTorch jobs, each with one planted bottleneck and a repaired twin.

usage: zoo.py --list
       zoo.py CASE base|fix [--seconds S] [--steps N] [--warmup N] [--trace FILE.json.gz] [--stack] [--wait]
       zoo.py CASE all --trace FILE.json.gz     base and fix timed, then both traced (FILE.fix.json.gz), in one process

Prints one line of JSON for each timed variant. `mean_ms` is wall clock over the steps between two synchronisations of
the GPU, with none inside; `median_ms` and `p95_ms` are of the host's steps. A trace is recorded after the timing.
A case that cannot run here prints {"skip": reason}. Data is made up; nothing is downloaded.
"""
import argparse
import gc
import json
import math
import os
import statistics
import subprocess
import sys
import time
import traceback

import cases_copy  # noqa: F401  (importing a file registers its cases)
import cases_data  # noqa: F401
import cases_host  # noqa: F401
import cases_kernels  # noqa: F401
import cases_phases  # noqa: F401
from parts import CASES, Skip, torch

PATIENCE_S = 4.0  # warm-up and timing are each cut here, once they have enough steps to say anything
FEW = 5


def warm_up(job, case, fixed, steps):
    """Runs the warm-up; gives the time of a step, measured over its last period."""
    steps = case.warm_up_steps(fixed) if steps is None else steps
    last = max(2, case.period)
    begin, done = time.perf_counter(), 0
    while done < steps - last and (done < 1 or time.perf_counter() - begin < PATIENCE_S):
        next(job)
        done += 1
    while done % case.period:
        next(job)
        done += 1
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(last):
        next(job)
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / last


def timed_steps(case, step_s, seconds, most):
    n = max(case.min_steps, int(seconds / max(step_s, 1e-6)))
    n = min(n, most) if most else n
    return max(case.period, -(-n // case.period) * case.period)


def measure(job, case, fixed, args):
    """Times whole periods. The queue of the GPU is empty before and after, and never waited for in between."""
    begin = time.perf_counter()
    step_s = warm_up(job, case, fixed, args.warmup)
    n = timed_steps(case, step_s, args.seconds, args.steps)
    limit = max(PATIENCE_S, 2 * args.seconds)
    set_up, stamps, samples = time.perf_counter() - begin, [], 0
    cpu, start = time.thread_time(), time.perf_counter()
    for i in range(n):
        samples += next(job)
        stamps.append(time.perf_counter())
        if stamps[-1] - start > limit and i + 1 >= FEW and (i + 1) % case.period == 0:
            break
    torch.cuda.synchronize()
    wall, cpu = time.perf_counter() - start, time.thread_time() - cpu
    steps = sorted(b - a for a, b in zip([start] + stamps, stamps))
    return {"mean_ms": round(wall / len(steps) * 1e3, 4), "median_ms": round(statistics.median(steps) * 1e3, 4),
            "p95_ms": round(steps[math.ceil(0.95 * len(steps)) - 1] * 1e3, 4), "steps": len(steps), "samples": samples,
            "samples_per_s": round(samples / wall, 3), "cpu_ms": round(cpu / len(steps) * 1e3, 4), "warm_up_s": round(set_up, 2)}


def trace(job, case, path, stack):
    """Records the next steps with torch.profiler, as its documentation says."""
    from torch.profiler import ProfilerActivity, profile, schedule
    plan = schedule(wait=1, warmup=2, active=case.active, repeat=1)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], schedule=plan, with_stack=stack,
                 on_trace_ready=lambda p: p.export_chrome_trace(path)) as prof:
        for _ in range(1 + 2 + case.active):
            next(job)
            prof.step()


def clean():
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def run(case, variant, work):
    """Builds the job, hands it to work(job, fixed) and closes it; an error becomes part of the result."""
    torch.manual_seed(0)
    fixed = variant == "fix"
    job = case.fn(fixed)
    out = {"case": case.name, "variant": variant}
    try:
        out.update(work(job, fixed) or {})
    except Skip as e:
        out["skip"] = str(e)
    except Exception as e:
        traceback.print_exc()
        out["error"] = f"{type(e).__name__}: {str(e)[:300]}"
    finally:
        job.close()
        del job
        clean()
    return out


def say(result):
    print(json.dumps(result), flush=True)
    return 1 if "error" in result else 0


def both_names(path):
    stem = path[:-len(".json.gz")] if path.endswith(".json.gz") else os.path.splitext(path)[0]
    return {"base": path, "fix": stem + ".fix" + path[len(stem):]}


def variants(case):
    return ("base", "fix") if case.twin else ("base",)


def one(case, variant, args, path):
    def work(job, fixed):
        result = measure(job, case, fixed, args)
        if path:
            trace(job, case, path, args.stack)
        return result
    return say(run(case, variant, work))


def everything(case, args):
    """Both variants timed before anything is traced: a profiler that ran once is not free afterwards."""
    paths, rc = both_names(args.trace) if args.trace else {}, 0
    if case.env:  # a variant that needs an environment of its own needs a process of its own
        for variant in variants(case):
            argv = [sys.executable, os.path.abspath(__file__), case.name, variant, "--seconds", str(args.seconds)]
            rc |= subprocess.run(argv + (["--trace", paths[variant]] if paths else []), check=False).returncode
        return rc
    good = []
    for _ in range(args.repeats):
        for variant in variants(case):
            result = run(case, variant, lambda job, fixed: measure(job, case, fixed, args))
            rc |= say(result)
            good += [variant] if "mean_ms" in result and variant not in good else []
    for variant in good if paths else ():
        def work(job, fixed, path=paths[variant]):
            warm_up(job, case, fixed, args.warmup)
            trace(job, case, path, args.stack)
        result = run(case, variant, work)
        if "error" in result:
            rc |= say({"case": case.name, "variant": variant, "trace_error": result["error"]})
    return rc


def own_environment(case, variant):
    """Starts this process anew when the variant needs, or must not have, some environment."""
    wanted = dict(os.environ)
    for name, value in case.env.items():
        if variant == "base":
            wanted[name] = value
        else:
            wanted.pop(name, None)
    if wanted != dict(os.environ):
        os.execve(sys.executable, [sys.executable] + sys.argv, wanted)


def table():
    for c in CASES.values():
        print(f"{c.name}\t{','.join(c.right)}\t{','.join(c.live)}\t{c.doc}")
    return 0


def parse(argv):
    p = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1][len("usage: "):])
    p.add_argument("--list", action="store_true")
    p.add_argument("case", nargs="?")
    p.add_argument("variant", nargs="?", default="base", choices=("base", "fix", "all"))
    p.add_argument("--seconds", type=float, default=1.5, help="of timed steps, about")
    p.add_argument("--steps", type=int, help="timed steps at most")
    p.add_argument("--warmup", type=int, help="warm-up steps; default: what the case needs")
    p.add_argument("--repeats", type=int, default=1, help="with `all`: rounds of timing, base and fix in turn")
    p.add_argument("--trace", metavar="FILE.json.gz")
    p.add_argument("--wait", action="store_true", help="begin when a line comes on standard input; all is imported by then")
    p.add_argument("--stack", action="store_true", help="record Python stacks in the trace")
    return p.parse_args(argv)


def main(argv=None):
    args = parse(argv)
    if args.list or args.case is None:
        return table()
    case = CASES.get(args.case)
    if case is None:
        print(f"zoo.py: no case {args.case}; see --list", file=sys.stderr)
        return 2
    if torch is None:
        return say({"case": case.name, "skip": "PyTorch is not installed"})
    if args.wait:
        sys.stdin.readline()
    if args.variant == "all":
        return everything(case, args)
    own_environment(case, args.variant)
    return one(case, args.variant, args, args.trace)


if __name__ == "__main__":
    sys.exit(main())
