#!/usr/bin/env python3
"""How fast a trace is read: gpuwhy beside Python's json and jq, on one file, in one run.

usage: bench_read.py [--gpuwhy PATH] [--dump PATH] [--mb N] [--source TRACE] [--keep FILE] [--no-peers] [--repeat N]

Makes a trace of at least --mb MB (default 350) out of a recorded one by repeating it with shifted times and ids, so that
it stays a valid trace; reads it plain, gzipped and as zstd. Prints a table; it never fails on a time. The source is
the largest of GPUWHY_TRACES/h200 or of samples/, unless named.
"""
import argparse
import ast
import glob
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SHIFT = re.compile(rb'"(ts)": ?(\d+)|"(correlation|id|External id)": ?(\d+)')


def pick_source():
    roots = [os.path.join(os.environ.get("GPUWHY_TRACES", os.path.join(HERE, "../../shared/traces")), "h200"),
             os.path.join(HERE, "../samples")]
    for root in roots:
        files = glob.glob(os.path.join(root, "*.json.gz"))
        if files:
            return max(files, key=os.path.getsize)
    sys.exit("bench_read: no trace to repeat; name one with --source")


def make_trace(source, target, mb):
    data = (gzip.open if source.endswith(".gz") else open)(source, "rb").read()
    start = data.index(b"[", data.index(b'"traceEvents"')) + 1
    end = data.rindex(b"]")
    head, body, tail = data[:start], data[start:end].rstrip(), data[end:]
    ts = [int(m.group(2)) for m in SHIFT.finditer(body) if m.group(1)]
    ids = [int(m.group(4)) for m in SHIFT.finditer(body) if m.group(3)]
    span, step = max(ts) - min(ts) + 10_000_000, max(ids) + 1
    size = copies = 0
    with open(target, "wb") as f:
        size += f.write(head)
        while size < mb * 1_000_000:
            dt, di = copies * span, copies * step

            def shift(m):
                key, v = (m.group(1), int(m.group(2)) + dt) if m.group(1) else (m.group(3), int(m.group(4)) + di)
                return b'"%s": %d' % (key, v)

            size += f.write((b"," if copies else b"") + (SHIFT.sub(shift, body) if copies else body))
            copies += 1
        size += f.write(tail)
    return size, copies, body.count(b'"ph"') * copies


def measure(cmd, repeat):
    """Seconds (the best of `repeat`), the peak RSS in bytes, and the errors of the last run; None when it failed."""
    best = rss = 0
    for _ in range(repeat):
        t0 = time.monotonic()
        p = subprocess.Popen(cmd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        err = p.stderr.read().decode(errors="replace").strip()
        _, status, usage = os.wait4(p.pid, 0)
        dt = time.monotonic() - t0
        p.returncode = status
        if status:
            return None, None, err
        best = dt if not best else min(best, dt)
        rss = max(rss, usage.ru_maxrss * 1024)
    return best, rss, err


def apart(f, *args):
    """f(*args) in a child, so that this process stays small: a child's peak RSS counts from what it was forked from."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(w, repr(f(*args)).encode())
        os._exit(0)
    os.close(w)
    with os.fdopen(r) as p:
        text = p.read()
    os.waitpid(pid, 0)
    return ast.literal_eval(text)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--gpuwhy", default=os.path.join(HERE, "../build/gpuwhy"))
    a.add_argument("--dump", default=os.path.join(HERE, "../build/dump_events"))
    a.add_argument("--mb", type=int, default=350)
    a.add_argument("--source")
    a.add_argument("--keep")
    a.add_argument("--no-peers", action="store_true")
    a.add_argument("--repeat", type=int, default=3)
    o = a.parse_args()
    tmp = tempfile.mkdtemp(prefix="bench_read.")
    trace = o.keep or os.path.join(tmp, "bench.json")
    source = o.source or pick_source()
    size, copies, events = apart(make_trace, source, trace, o.mb)
    print(f"{os.path.basename(source)} x {copies}: {size / 1e6:.0f} MB, {events} events, {size / events:.0f} bytes an event, "
          f"{len(os.sched_getaffinity(0))} cores")
    rows = []
    gpuwhy = [o.gpuwhy, "read", trace, "--json", "-", "--quiet"] if os.access(o.gpuwhy, os.X_OK) else None
    if gpuwhy:
        rows.append(("gpuwhy read --json", gpuwhy, trace))
    if os.access(o.dump, os.X_OK):
        rows.append(("  import alone", [o.dump, "--lines", "0", "--phases", "1", trace], trace))
        rows.append(("  import, one thread", [o.dump, "--lines", "0", "--threads", "1", trace], trace))
    packed = []
    for suffix, cmd in ((".gz", ["gzip", "-kf", "-6"]), (".zst", ["zstd", "-qkf", "-3"])):
        if shutil.which(cmd[0]) and subprocess.run(cmd + [trace]).returncode == 0:
            packed.append(trace + suffix)
            exe = gpuwhy[:2] + [trace + suffix] + gpuwhy[3:] if gpuwhy else [o.dump, "--lines", "0", trace + suffix]
            rows.append((f"gpuwhy, {suffix} ({os.path.getsize(trace + suffix) / 1e6:.0f} MB)", exe, trace + suffix))
            rows.append((f"  {cmd[0]} -dc alone", [cmd[0], "-dc", trace + suffix], trace + suffix))
    if not o.no_peers:
        rows.append(("python3 json.load", ["python3", "-c", f"import json; json.load(open({trace!r}))"], trace))
        if shutil.which("jq"):
            rows.append(("jq length", ["jq", ".traceEvents | length", trace], trace))
    print(f"{'':28}{'seconds':>9}{'MB/s':>8}{'events/s':>11}{'peak MB':>9}{'B/byte':>8}{'times slower':>14}")
    base = None
    for name, cmd, _ in rows:
        best, rss, err = measure(cmd, 1 if name.startswith(("python3", "jq")) else o.repeat)
        if best is None:
            print(f"{name:28}  failed: {err}")
            continue
        base = base or best
        print(f"{name:28}{best:9.3f}{size / 1e6 / best:8.0f}{events / best:11.0f}{rss / 1e6:9.0f}{rss / size:8.2f}"
              f"{best / base:14.1f}  {err if 'finish' in err else ''}")
    for p in packed:
        os.unlink(p)
    if not o.keep:
        os.unlink(trace)
    os.rmdir(tmp)
    return 0


if __name__ == "__main__":
    sys.exit(main())
