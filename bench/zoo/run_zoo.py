#!/usr/bin/env python3
"""Runs the cases of zoo.py one after the other on the GPU, and writes what is right about each trace.

usage: run_zoo.py --out DIR [--seconds BUDGET] [--cases a,b] [--traces] [--gpuwhy PATH]

In DIR, written as it goes:
  times.tsv     step times of both variants, untraced
  labels.tsv    for each trace: right verdicts, findings that must be silent, measured speed-up of the fix (samples a
                second); a fixed twin is "none" only where its trace shows a GPU at least 90 % busy
  fix_info.tsv  the fixed twins that are not labelled, and how busy they are
  busy.tsv      for every trace: share of time with a kernel, kernel time a step against the untraced step
  verdicts.tsv  with --gpuwhy: what it says about each trace
  zoo.tar       the above with the traces, under 16 MB; what does not fit goes to zoo-2.tar, zoo-3.tar

All variants of a case run in one process, forked from this one after the import of PyTorch (which must not touch the
GPU), since that import takes seconds. --exec starts a fresh interpreter instead.
"""
import argparse
import gzip
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tarfile
import time

import zoo
from parts import CASES

HERE = os.path.dirname(os.path.abspath(__file__))
LARGEST = 3 << 20  # bytes of one compressed trace
TAR_BYTES, TARS = 15 << 20, 3
BUSY = 0.90
LABELS = "# file\tverdicts that are right (first is best)\tfindings that must not have a likely gain over 1.10\tmeasured speed-up of the fix (untraced)"
TIMES = "# case\tvariant\tmean_ms\tmedian_ms\tp95_ms\tsteps\tsamples\tsamples_per_s\tcpu_ms\twarm_up_s\tnote"
# The first ones hardly need the host, so that a build beside them does no harm.
FIRST = ["sync_busy", "fp32_matmul", "fp32_mlp", "fp32_conv", "embedding", "elementwise_chain", "healthy_gpt"]


class Table:
    """A file of tab-separated rows that is complete after each row."""

    def __init__(self, out, name, head):
        self.path = os.path.join(out, name)
        self.row(head, mode="w")

    def row(self, *cells, mode="a"):
        with open(self.path, mode, encoding="utf-8") as f:
            f.write("\t".join(str(c) for c in cells) + "\n")


# --- one case in a process of its own ---------------------------------------------------------------------------------


def end_group(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass


def forked(argv, out, err):
    """Runs zoo.main(argv) in a child; gives its pid, which leads a process group of its own."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    rc = 1
    try:
        os.setsid()
        for path, to in ((out, 1), (err, 2)):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(fd, to)
        rc = zoo.main(argv)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException as e:  # the parent's code must not run on in this child
        print(f"{type(e).__name__}: {e}", file=sys.stderr, flush=True)
    finally:
        os._exit(rc)


def executed(argv, out, err):
    cmd = [sys.executable, os.path.join(HERE, "zoo.py")] + argv
    with open(out, "wb") as o, open(err, "wb") as e:
        return subprocess.Popen(cmd, stdout=o, stderr=e, start_new_session=True).pid


def wait(pid, seconds):
    """Waits for a child; a child that takes too long is ended with its group. Gives the exit status, None when ended."""
    end = time.time() + seconds
    while time.time() < end:
        got, status = os.waitpid(pid, os.WNOHANG)
        if got:
            end_group(pid)  # what it left behind
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    end_group(pid)
    os.waitpid(pid, 0)
    return None


def results(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        for line in f:
            if line.startswith("{"):
                try:
                    yield json.loads(line)
                except ValueError:
                    pass


def tail(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return " | ".join(f.read().strip().splitlines()[-2:])[-200:]


# --- tables -----------------------------------------------------------------------------------------------------------


def speed_up(timed):
    """From samples a second, each variant's rounds together; 1 where there is nothing to fix, None when unknown."""
    rate = {}
    for variant in ("base", "fix"):
        rounds = [r for r in timed if r["variant"] == variant]
        if rounds:
            rate[variant] = sum(r["samples"] for r in rounds) / sum(r["samples"] / r["samples_per_s"] for r in rounds)
    if "base" in rate and "fix" in rate:
        return rate["fix"] / rate["base"]
    return None


def run_case(case, a, tables, seconds_left):
    """Times and traces one case; gives a line for people."""
    log = os.path.join(a.out, "log")
    out, err = os.path.join(log, case.name + ".out"), os.path.join(log, case.name + ".err")
    argv = [case.name, "all", "--seconds", str(a.step_seconds), "--repeats", str(a.repeats)]
    if a.traces:
        argv += ["--trace", os.path.join(a.out, case.name + ".json.gz")]
    rc = wait((executed if a.exec else forked)(argv, out, err), min(a.patience, seconds_left))
    timed, notes = [], []
    for r in results(out):
        if "mean_ms" in r:
            timed.append(r)
        note = r.get("skip") or r.get("error") or r.get("trace_error") or ""
        if note:
            notes.append(f"{r['variant'] if 'variant' in r else '?'}: {note}")
        if "trace_error" not in r:
            tables["times"].row(r["case"], r.get("variant", "?"), *[r.get(k, "") for k in TIMES.split("\t")[2:-1]], note.replace("\t", " "))
    if rc is None:
        notes.append("took too long and was ended")
    elif rc and not notes:
        notes.append(f"exit {rc}: {tail(err)}")
    gain = 1.0 if not case.twin and timed else speed_up(timed)
    if gain and os.path.exists(os.path.join(a.out, case.name + ".json.gz")):
        tables["labels"].row(case.name + ".json.gz", ",".join(case.right), ",".join(case.silent), f"{gain:.3g}")
    mean = {v: next((r["mean_ms"] for r in timed if r["variant"] == v), None) for v in ("base", "fix")}
    text = f"{mean['base'] or float('nan'):10.2f} {mean['fix'] or float('nan'):10.2f} {gain or float('nan'):8.2f}  {'; '.join(notes)[:160]}"
    return {"case": case, "gain": gain, "mean": mean, "timed": timed}, text


def fork_is_no_good(a, d):
    """True when a forked process could not use the GPU, or its trace holds no kernel."""
    trace = os.path.join(a.out, d["case"].name + ".json.gz")
    return not d["timed"] or (os.path.exists(trace) and try_busy(trace)[1][0] is None)


def busy(path):
    """Share of the time between the first kernel and the last with a kernel running, and the sum in ms."""
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as f:
        events = json.load(f, strict=False)["traceEvents"]
    spans = sorted((float(e["ts"]), float(e["ts"]) + float(e["dur"])) for e in events if e.get("cat") == "kernel" and "dur" in e)
    if not spans:
        return None, 0.0
    total, end = 0.0, spans[0][0]
    for a, b in spans:
        total += max(0.0, b - max(a, end))
        end = max(end, b)
    return total / (end - spans[0][0]) if end > spans[0][0] else None, total / 1e3


def try_busy(path):
    try:
        return path, busy(path)
    except (OSError, EOFError, ValueError, KeyError, TypeError) as e:
        return path, (None, f"{type(e).__name__}: {e}")


def label_fixes(a, done, tables):
    """How busy each trace is; the fixed twins with a busy GPU get a label."""
    names = {}
    for d in done:
        for variant, path in zoo.both_names(os.path.join(a.out, d["case"].name + ".json.gz")).items():
            if os.path.exists(path):
                names[path] = (d, variant)
    with multiprocessing.get_context("fork").Pool(min(8, os.cpu_count() or 1)) as pool:
        measured = pool.map(try_busy, list(names), chunksize=1)
    for path, (share, kernel_ms) in measured:
        d, variant = names[path]
        case, mean = d["case"], d["mean"][variant]
        if share is None:
            tables["busy"].row(os.path.basename(path), "", "", mean, "", kernel_ms or "no kernels")
            continue
        step = kernel_ms / case.active
        untraced = f"{step / mean:.3f}" if mean else ""
        tables["busy"].row(os.path.basename(path), f"{share:.3f}", f"{step:.3f}", mean, untraced, "")
        if variant == "fix" and share >= BUSY:
            silent = case.silent + [r for r in case.right if r != "none" and r not in case.silent and r not in case.fix_right]
            tables["labels"].row(os.path.basename(path), ",".join(case.fix_right), ",".join(silent), "1.0")
        elif variant == "fix":
            tables["fix_info"].row(os.path.basename(path), f"{share:.3f}", untraced, "not labelled: GPU less than 90 % busy in the trace")


# --- the tool under test ----------------------------------------------------------------------------------------------


def judge(a, tables):
    """What gpuwhy says about each labelled trace. Gives lines for people."""
    lines, good, bad = [], 0, 0
    with open(tables["labels"].path, encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f if not line.startswith("#")]
    for name, right, silent, gain in rows:
        cmd = [a.gpuwhy, "read", os.path.join(a.out, name), "--json", "-", "--quiet"]
        try:
            p = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
            report = json.loads(p.stdout)
            said = report["verdict"]["finding"]
        except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as e:
            lines.append(f"{name:34} no report: {type(e).__name__}")
            tables["verdicts"].row(name, "", "no report", right, "", "", "", gain, "")
            bad += 1
            continue
        ok = said in right.split(",")
        top = next((x["gain"] for x in report["findings"] if x["id"] == said), None) or {}
        loud = [x["id"] for x in report["findings"] if x["id"] in silent.split(",") and x["gain"]["likely"] >= 1.10]
        good, bad = good + (ok and not loud), bad + (not ok or bool(loud))
        low, likely, high = (f"{top[k]:.2f}" if k in top else "" for k in ("low", "likely", "high"))
        tables["verdicts"].row(name, said, "right" if ok else "wrong", right, low, likely, high, gain, ",".join(loud))
        lines.append(f"{name:34} {said:24} {'right' if ok else 'WRONG':6} {low:>6} {likely:>6} {high:>6}  measured {gain:>6}"
                     f"{'  blames ' + ','.join(loud) if loud else ''}")
    return lines + [f"{good} right and silent where they must be, {bad} not"]


# --- packing ----------------------------------------------------------------------------------------------------------


def pack(out):
    """Tables first, then traces, the small ones first; each archive stays under TAR_BYTES."""
    names = sorted(n for n in os.listdir(out) if n.endswith((".tsv", ".txt")))
    traces = sorted((os.path.getsize(os.path.join(out, n)), n) for n in os.listdir(out) if n.endswith(".json.gz"))
    left = [f"{n}: {size} bytes, over the limit of one trace" for size, n in traces if size > LARGEST]
    todo = names + [n for size, n in traces if size <= LARGEST]
    for part in range(TARS):
        taken, size = [], 10240
        for n in todo:
            need = (os.path.getsize(os.path.join(out, n)) + 511) // 512 * 512 + 1536
            if size + need <= TAR_BYTES:
                taken.append(n)
                size += need
        if not taken:
            break
        with tarfile.open(os.path.join(out, f"zoo-{part + 1}.tar" if part else "zoo.tar"), "w") as tar:
            for n in taken:
                tar.add(os.path.join(out, n), arcname=n)
        todo = [n for n in todo if n not in taken]
    left += [f"{n}: no room" for n in todo]
    for line in left:
        print(f"not packed: {line}", flush=True)


def parse():
    p = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1][len("usage: "):])
    p.add_argument("--out", required=True)
    p.add_argument("--seconds", type=float, default=420, help="budget of the whole run")
    p.add_argument("--cases", default="", help="names, separated by commas; default: all")
    p.add_argument("--traces", action="store_true")
    p.add_argument("--gpuwhy")
    p.add_argument("--step-seconds", type=float, default=1.5, help="timed seconds of a variant")
    p.add_argument("--repeats", type=int, default=1, help="rounds of timing, base and fix in turn")
    p.add_argument("--patience", type=float, default=75, help="seconds after which a case is ended")
    p.add_argument("--exec", action="store_true", help="a fresh interpreter for each case")
    a = p.parse_args()
    unknown = [c for c in a.cases.split(",") if c and c not in CASES]
    if unknown:
        p.error(f"no such case: {', '.join(unknown)}")
    chosen = [c for c in a.cases.split(",") if c] or FIRST + [c for c in CASES if c not in FIRST]
    return a, [CASES[c] for c in chosen]


def main():
    began = time.time()
    a, cases = parse()
    os.makedirs(os.path.join(a.out, "log"), exist_ok=True)
    tables = {"times": Table(a.out, "times.tsv", TIMES), "labels": Table(a.out, "labels.tsv", LABELS),
              "fix_info": Table(a.out, "fix_info.tsv", "# file\tbusy share in the trace\tkernel time / untraced step\tnote"),
              "busy": Table(a.out, "busy.tsv", "# file\tbusy share in the trace\tkernel ms a step\tuntraced ms a step\tkernel time / untraced step\tnote")}
    end = began + a.seconds - (25 if a.traces else 5)  # the tables at the end take a while
    done = []
    print(f"{'case':20} {'base ms':>10} {'fix ms':>10} {'speed-up':>8}", flush=True)
    for case in cases:
        left = end - time.time()
        if left < 10:
            print(f"budget spent; not run: {' '.join(c.name for c in cases[cases.index(case):])}", flush=True)
            break
        t = time.time()
        d, text = run_case(case, a, tables, left)
        if not done and not a.exec and fork_is_no_good(a, d):
            print(f"{case.name:20} {text}\nthe forked process got no result or no kernel: a fresh interpreter for each case", flush=True)
            a.exec = True
            d, text = run_case(case, a, tables, end - time.time())
        done.append(d)
        print(f"{case.name:20} {text}  [{time.time() - t:.0f} s]", flush=True)
    if a.traces:
        label_fixes(a, done, tables)
    if a.gpuwhy and os.path.exists(a.gpuwhy):
        tables["verdicts"] = Table(a.out, "verdicts.tsv", "# file\tverdict\tjudged\tright\tlow\tlikely\thigh\tmeasured\tblamed though it must be silent")
        print("\n".join(judge(a, tables)), flush=True)
    elif a.gpuwhy:
        print(f"no {a.gpuwhy}: verdicts not judged", flush=True)
    pack(a.out)
    print(f"{len(done)} cases in {time.time() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
