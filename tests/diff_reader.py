#!/usr/bin/env python3
"""The Kineto importer against a second reader: Python's json with decimal arithmetic.

usage: diff_reader.py DUMP_EVENTS [--traces DIR] [--random N] [--seed N]

Compares every event, field by field, on (1) generated traces, valid JSON with every quirk that JSON allows, (2) the samples
of the project, (3) recorded traces under --traces (or GPUWHY_TRACES), with the exact sums of accounting.tsv where that is
there. Exit 0 all equal, 1 a difference, 77 nothing to compare with.
"""
import argparse
import decimal
import glob
import gzip
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from decimal import Decimal

decimal.getcontext().prec = 60
LIMIT = 1 << 62
HERE = os.path.dirname(os.path.abspath(__file__))

GPU = {"kernel", "copy", "set"}
HOST = {"api", "op", "annotation", "python", "overhead"}
CATS = {
    "kernel": "kernel", "mtia_ccp_events": "kernel", "hpu_op": "kernel", "gpu_memcpy": "copy", "memcpy": "copy",
    "gpu_memset": "set", "memset": "set", "cpu_op": "op", "operator": "op", "cuda_runtime": "api", "runtime": "api",
    "cuda_driver": "api", "hip_runtime": "api", "xpu_runtime": "api", "user_annotation": "annotation",
    "python_function": "python", "overhead": "overhead", "cuda_sync": "gpu_sync", "cuda_profiler_range": "range",
}
DROPPED = {"gpu_user_annotation", "trace", "fwdbwd", "ac2g", "async", "cpu_instant_event", "cuda_event"}
MEMORY = ["", "pageable", "pinned", "device", "array", "managed", "host"]  # enum gw_mem
WAYS = {"htod": (6, 3), "dtoh": (3, 6), "dtod": (3, 3), "hosttodevice": (6, 3), "devicetohost": (3, 6),
        "devicetodevice": (3, 3), "ptop": (3, 3)}
DTYPE = {"float": 4, "half": 2, "bfloat16": 2, "double": 8, "int": 4, "long": 8, "byte": 1, "char": 1, "bool": 1}


def raw(s):
    """Bytes of a decoded JSON string, as text with one character a byte: what dump_events prints."""
    s = re.sub("[\ud800-\udbff]|[\udc00-\udc7f]|[\udd00-\udfff]", "\ufffd", s)
    return s.encode("utf-8", "surrogateescape").decode("latin-1")


def to_ns(v):
    """Microseconds to ns, exactly. None when it is no usable number, "range" when it is out of range."""
    if isinstance(v, str):
        if v.lower() in ("nan", "inf", "infinity", "-inf", "-infinity", "-nan"):
            return "range"
        if not re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", v):
            return None
        v = Decimal(v)
    elif isinstance(v, bool) or not isinstance(v, (int, Decimal, float)):
        return None
    v = Decimal(v)
    if not v.is_finite() or v.adjusted() > 40:
        return "range"
    n = int((v * 1000).to_integral_value(decimal.ROUND_HALF_EVEN))
    return n if abs(n) <= LIMIT else "range"


def plain_id(s):
    """The integer in the text of an id, or None."""
    m = re.fullmatch(r"0[xX]([0-9a-fA-F]{1,16})", s)
    if m:
        v = int(m.group(1), 16)
    elif re.fullmatch(r"-?\d+(\.0*)?", s):
        v = int(s.split(".")[0])
        if not -(1 << 63) < v < 1 << 64:
            return None
    else:
        return None
    return v - (1 << 64) if v >= 1 << 63 else v


def to_id(v):
    """A row's or stream's number, or None: what kineto_text_id() documents."""
    if isinstance(v, (list, dict)) or v is None:
        return None
    s = v if isinstance(v, str) else {True: "true", False: "false"}[v] if isinstance(v, bool) else str(v)
    n = plain_id(s)
    if n is None and s.lower().startswith("stream "):
        n = plain_id(s[7:])
    if n is not None:
        return n
    h = 0xcbf29ce484222325
    for b in s.encode("utf-8", "surrogateescape"):
        h = ((h ^ b) * 0x100000001b3) & ((1 << 64) - 1)
    return h >> 2 | 1 << 62


def to_count(v):
    if isinstance(v, (bool, list, dict)) or v is None:
        return None
    n = plain_id(str(v))
    return n if n is not None and n >= 0 else None


def product(v):
    if not isinstance(v, list) or not v:
        return None
    p = 1
    for x in v:
        if isinstance(x, (bool, str, list, dict)) or x is None or plain_id(str(x)) is None or x <= 0:
            return None
        p *= int(x)
    return p if p < 1 << 64 else None


def mem(word):
    for i, m in enumerate(MEMORY):
        if m and word.lower().startswith(m):
            return i
    return 0


def copy_sub(name):
    src = dst = 0
    m = re.search(r"\(([^>]*?)->\s*(.*)", name, re.S)
    if m:
        src, dst = mem(m.group(1)), mem(m.group(2))
    if not (src and dst):
        for word, (s, d) in WAYS.items():
            if word in name.lower():
                src, dst = src or s, dst or d
                break
    return src << 8 | dst


class Model:
    """What the importer should make of the events."""

    def __init__(self):
        self.events, self.losses, self.open = [], {}, {}

    def lose(self, what):
        self.losses[what] = self.losses.get(what, 0) + 1

    def times(self, e, slice_):
        ts = to_ns(e["ts"]) if "ts" in e else None
        dur = (to_ns(e["dur"]) if "dur" in e else None) if slice_ else 0
        if ts is None or dur is None:
            self.lose("bad-event")
            return None
        if "range" in (ts, dur) or ts + max(dur, 0) > LIMIT:
            self.lose("bad-time")
            return None
        if dur < 0:
            self.lose("negative-duration")
        return ts, ts + max(dur, 0)

    def counters(self, e, kind):
        t = self.times(e, e["ph"] == "X")
        args = e.get("args")
        if not t or not isinstance(args, dict):
            return
        pid = to_id(e.get("pid")) or 0
        for k, v in args.items():
            if isinstance(v, bool) or not re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", str(v)) or \
                    abs(float(v)) == float("inf"):
                continue
            name = raw(k) if kind == "range" else raw(e.get("name", "")) + ": " + raw(k)
            row = {"device": pid, "pid": -1} if kind == "range" else {"device": -1, "pid": pid}
            self.events.append({"kind": "counter", "start": t[0], "end": t[1], "name": name, **row})

    def slice(self, e, kind):
        ph, args = e["ph"], e.get("args")
        args = args if isinstance(args, dict) else {}
        if kind is None and ph != "E":
            if to_id(args.get("device")) is None or to_id(args.get("stream")) is None:
                return self.lose("unknown-record")
            kind = "kernel"
        t = self.times(e, ph == "X")
        if not t:
            return
        pid, tid = to_id(e.get("pid")), to_id(e.get("tid"))
        if ph != "X":
            if pid is None or tid is None:
                return self.lose("bad-event")
            if ph == "E":
                stack = self.open.get((pid, tid))
                if not stack:
                    return self.lose("bad-event")
                o = stack.pop()
                if t[0] < o["start"]:
                    self.lose("negative-duration")
                o["end"] = max(t[0], o["start"])
                return self.events.append(o)
        if not e.get("name") or not isinstance(e["name"], (str, int, Decimal)) or isinstance(e["name"], bool):
            return self.lose("bad-event")
        o = {"kind": kind, "start": t[0], "end": t[1], "name": raw(str(e["name"]))}
        if kind in GPU or kind == "gpu_sync":
            d, s = to_id(args.get("device")), to_id(args.get("stream"))
            d, s = pid if d is None else d, tid if s is None else s
            if d is None or s is None:
                return self.lose("bad-event")
            o.update(device=d, stream=s)
        else:
            if pid is None or tid is None:
                return self.lose("bad-event")
            o.update(pid=pid, tid=tid)
        self.details(o, kind, args)
        if ph == "B":
            self.open.setdefault((pid, tid), []).append(o)
        else:
            self.events.append(o)

    def details(self, o, kind, args):
        corr = to_id(args.get("correlation"))
        if corr and (kind in GPU or kind in ("gpu_sync", "api")):
            o["corr"] = corr % (1 << 64)
        nbytes = to_count(args.get("bytes"))
        if kind in ("copy", "set") and nbytes is not None:
            o["arg0"] = nbytes
        if kind == "api":
            for k, v in args.items():
                if k in ("bytes", "size"):
                    nbytes = to_count(v)
            if nbytes is not None:
                o["arg0"] = nbytes
        if kind == "copy":
            sub = copy_sub(o["name"]) or copy_sub(str(args.get("kind") or ""))
            if sub:
                o["sub"] = sub
        if kind == "gpu_sync" and to_id(args.get("wait_on_stream")) is not None:
            o["arg0"] = to_id(args["wait_on_stream"]) % (1 << 64)
        if kind == "op":
            for key, field in (("Input Dims", "dims"), ("Input dims", "dims"), ("Input type", "types")):
                if key in args:
                    o[field] = args[key]
        if kind == "kernel":
            g, b = product(args.get("grid")), product(args.get("block"))
            if g is not None:
                o["arg0"] = g
            if b is not None and b < 1 << 32:
                o["sub"] = b
            if to_id(args.get("graph node id")):
                o["graph"] = 1
            n = [x for x in (to_count(args.get("In msg nelems")), to_count(args.get("Out msg nelems"))) if x is not None]
            size = DTYPE.get(str(args.get("dtype")).lower())
            if n and size:
                o["arg1"] = max(n) * size

    def feed(self, e):
        ph = e.get("ph")
        if not e:
            return
        cat = e.get("cat")
        kind = CATS.get(cat.lower()) if isinstance(cat, str) else None
        if ph is None:
            self.lose("bad-event")
        elif ph == "M":
            pass
        elif ph == "C" or (ph == "X" and kind == "range"):
            self.counters(e, kind)
        elif ph in "stfiIRnbe" or (isinstance(cat, str) and cat.lower() in DROPPED):
            pass
        elif ph == "B" and kind == "range":
            self.lose("unknown-record")
        elif ph in ("X", "B", "E"):
            self.slice(e, kind)
        else:
            self.lose("unknown-record")

    def finish(self):
        for stack in self.open.values():
            for _ in stack:
                self.lose("bad-event")
        launches = {e["corr"] for e in self.events if e["kind"] == "api" and "corr" in e and "GraphLaunch" in e["name"]}
        for e in self.events:
            if e["kind"] in GPU and e.get("corr") in launches:
                e["graph"] = 1


def parse(text):
    return json.loads(text, strict=False, parse_float=Decimal, parse_constant=lambda c: c)


def model_of(data):
    """Events and losses that a reader should find in the bytes of a trace."""
    d = parse(data.decode("utf-8", "surrogateescape"))
    m = Model()
    for e in d["traceEvents"] if isinstance(d, dict) else d:
        m.feed(e)
    m.finish()
    return m


CHECKED_LOSSES = ("bad-event", "bad-time", "negative-duration", "unknown-record", "damaged", "truncated", "decompress")


def run(exe, path, *opts):
    p = subprocess.run([exe, *opts, path], capture_output=True, timeout=280)
    if p.returncode:
        return None, p.stderr.decode(errors="replace")
    lines = p.stdout.decode("ascii").splitlines()
    return [json.loads(x) for x in lines], ""


def compare(exe, path, data, opts=()):
    """None, or a sentence about the first difference."""
    got, err = run(exe, path, *opts)
    return compare_dump(got, data) if got else f"dump_events failed: {err.strip()[:200]}"


def compare_dump(got, data):
    want = model_of(data)
    head, events = got[0], got[1:]
    for e in events:
        e.pop("lane", None)
        if e["kind"] == "counter":
            e.pop("arg0")
        for k in ("dims", "types"):
            if k in e:
                e[k] = parse(e[k].encode("latin-1").decode("utf-8", "surrogateescape"))  # the text of the value
    for i, (a, b) in enumerate(zip(events, want.events)):
        if a != b:
            return f"event {i}: got {a} want {b}"
    if len(events) != len(want.events):
        return f"{len(events)} events, want {len(want.events)}"
    losses = {k: v[0] for k, v in head["losses"].items() if k in CHECKED_LOSSES}
    if losses != want.losses:
        return f"losses {losses}, want {want.losses}"
    return None


# ---- generated traces ----

def random_number(r):
    form = r.randrange(8)
    if form == 0:
        return str(r.randrange(1 << 50))
    if form == 1:
        return f"{r.randrange(10**13)}.{r.randrange(1000):03d}"
    if form == 2:
        return f"{r.randrange(10**6)}.{r.randrange(10**6):06d}"
    if form == 3:
        return f"{r.randrange(10**4)}.{r.choice(['0005', '0015', '00050', '000500001', '00049999', '5'])}"
    if form == 4:
        return f"{r.randrange(1, 10)}.{r.randrange(10**9)}e{r.choice(['', '+', '-'])}{r.randrange(12)}"
    if form == 5:
        return str(-r.randrange(10**6))
    if form == 6:
        return '"' + str(r.randrange(10**9)) + '.' + str(r.randrange(1000)) + '"'
    return r.choice(["0", "-0", "0.0", "1e3", "1E+2", "12.5", "NaN", "Infinity", "-Infinity", "1e400", "null",
                     '"abc"', '""', "5e18", "9223372036854775807", "[1]", "true", "4611686018427387.904"])


def random_string(r):
    parts = []
    for _ in range(r.choice([1, 1, 2, 5, 40])):
        parts.append(r.choice(["aten::add_", "void k<float, 4>(int)", "{lambda(int)#1}", "train.py(57): step", "\\\"",
                               "\\\\", "\\n", "\\u00e9", "\\ud83d\\ude00", "\\u0041", "é", "日本", "\\/", "[", "]", "}", "{",
                               ",", ":", " ", "\\t", "\\ud800", "/", "\n", "\x01", "\"ph\"".replace('"', '\\"'), "x" * 70]))
    return '"' + "".join(parts) + '"'


def random_id(r):
    return r.choice(["0", "7", "1203", "-1", '"7"', '"stream 7"', '"Spans"', '"0x7f00"', "18446744073709551615",
                     "9223372036854775808", "99999999999999999999", "7.0", '""', "null", "[1]", '"thread é"', "true"])


def random_value(r, depth=0):
    k = r.randrange(7 if depth < 4 else 4)
    if k == 0:
        return str(r.randrange(10**6))
    if k == 1:
        return random_string(r)
    if k == 2:
        return r.choice(["null", "true", "false", "1.5e3", "-0.25"])
    if k == 3:
        return "[]"
    if k in (4, 5):
        return "[" + r.choice([", ", ",", " ,\n"]).join(random_value(r, depth + 1) for _ in range(r.randrange(4))) + "]"
    return "{" + ", ".join(f'{random_string(r)}: {random_value(r, depth + 1)}' for _ in range(r.randrange(3))) + "}"


def random_args(r):
    pool = [("device", random_id), ("stream", random_id), ("correlation", random_id), ("bytes", random_id),
            ("size", random_id), ("grid", lambda r: r.choice(["[1, 2, 3]", "[8,32,1]", "[]", "[0, 1, 1]", "7",
                                                              "[4294967296, 4294967296, 2]"])),
            ("block", lambda r: r.choice(["[256, 1, 1]", "[1024,1,1]", '["a"]', "[4294967296, 1, 1]"])),
            ("graph node id", lambda r: r.choice(["0", "12"])), ("Input Dims", random_value),
            ("Input type", random_value), ("In msg nelems", lambda r: str(r.randrange(10**6))),
            ("Out msg nelems", lambda r: str(r.randrange(10**6))),
            ("dtype", lambda r: r.choice(['"Float"', '"BFloat16"', '"Strange"', "null"])),
            ("wait_on_stream", random_id), ("kind", lambda r: r.choice(['"HtoD"', '"DtoH"', '"x"'])),
            ("External id", lambda r: str(r.randrange(10**6))), ("Call stack", random_string)]
    keys = r.sample(pool, r.randrange(len(pool) // 2))
    if r.random() < .6:
        keys += [k for k in pool[:3] if k not in keys]
    return "{" + ", ".join(f'"{k}": {f(r)}' for k, f in keys) + "}"


def random_event(r):
    if r.random() < .02:
        return "{}"
    cat = r.choice(list(CATS) + list(DROPPED) + ["Kernel", "Runtime", "Memcpy", "strange", "KERNEL"])
    name = r.choice([random_string(r), '"Memcpy HtoD (Pageable -> Device)"', '"Memcpy DtoD"', '"CopyDeviceToHost"',
                     '"cudaGraphLaunch"', '"cudaLaunchKernel"'])
    fields = [("ph", '"' + r.choice("XXXXXXXXXXXXXXBEsfiCMtZ") + '"'), ("cat", f'"{cat}"'), ("name", name),
              ("pid", random_id(r)), ("tid", random_id(r)), ("ts", random_number(r)), ("dur", random_number(r)),
              ("args", r.choice([random_args(r)] * 8 + ["null", "[1, 2]", '"x"', "{}"]))]
    if r.random() < .5:
        for i, (k, v) in enumerate(fields):
            if k in ("ts", "dur"):
                fields[i] = (k, f"{r.randrange(10**7)}.{r.randrange(1000):03d}")
            if k in ("pid", "tid"):
                fields[i] = (k, str(r.randrange(4)))
    if r.random() < .25:
        r.shuffle(fields)
    fields = [f for f in fields if r.random() > .02]
    if r.random() < .05:
        fields.insert(r.randrange(len(fields) + 1), ("id", str(r.randrange(100))))
    sep = r.choice([", ", ",", ",\n    ", " , "])
    return r.choice(["{", "{\n  ", "{ "]) + sep.join(f'"{k}"{r.choice([": ", ":", " : "])}{v}' for k, v in fields) + \
        r.choice(["}", "\n  }", " }"])


def random_trace(r):
    ev = r.choice([",\n  ", ",", " ,\n\n"]).join(random_event(r) for _ in range(r.randrange(1, 120)))
    ev += r.choice([', {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2}', ""])
    if not re.search(r'"cat"', ev):
        ev += ', {"ph": "X", "cat": "cpu_op", "name": "o", "pid": 0, "tid": 7, "ts": 1, "dur": 2}'
    events = "[" + r.choice(["", "\n"]) + ev + r.choice(["", "\n "]) + "]"
    if r.random() < .15:
        return events.encode()
    meta = [f'"schemaVersion": 1', f'"meta": {random_value(r)}', f'{random_string(r)}: {random_value(r)}']
    r.shuffle(meta)
    meta.insert(r.randrange(len(meta) + 1), '"traceEvents": ' + events)
    return ("{" + ",\n".join(meta) + "}").encode()


def check_random(exe, n, seed):
    bad = 0
    with tempfile.TemporaryDirectory() as tmp:
        for i in range(n):
            r = random.Random(seed + i)
            data = random_trace(r)
            path = os.path.join(tmp, "t.json")
            with open(path, "wb") as f:
                f.write(data)
            opts = r.choice([(), ("--threads", "1"), ("--block", "1"), ("--block", "7", "--head", "3"),
                             ("--block", "64", "--head", "16"), ("--block", "1000", "--threads", "1"),
                             ("--block", "4096", "--head", "64", "--threads", "3")])
            try:
                want = model_of(data)
            except ValueError as e:
                print(f"the generator made no JSON (seed {seed + i}): {e}")
                bad += 1
                continue
            why = compare(exe, path, data, opts)
            if why and not want.events and "failed" in why:
                why = None  # nothing to keep: the importer refuses such a file
            if why:
                bad += 1
                keep = os.path.join(tempfile.gettempdir(), f"diff_reader_{seed + i}.json")
                with open(keep, "wb") as f:
                    f.write(data)
                print(f"DIFFERS random trace {seed + i} {' '.join(opts)} (kept as {keep}): {why}")
            if bad > 5:
                break
    return bad


# ---- recorded traces ----

COMM = ("ncclDevKernel", "ncclKernel", "ncclSymk", "rcclGenericKernel", "nvshmem", "deep_ep::", "dpsk::ep::",
        "cross_device_reduce", "mscclpp", "multimem_")


def accounting(events):
    """The exact sums of accounting.tsv for each device, by sweeping over starts and ends."""
    out = {}
    for e in events:
        if e["kind"] in GPU:
            what = 2 if e["kind"] != "kernel" else 1 if any(c in e["name"] for c in COMM) else 0
            out.setdefault(e["device"], []).append((e["start"], e["end"], what))
    for dev, ops in out.items():
        points = sorted([(s, 1, w) for s, e, w in ops if e > s] + [(e, -1, w) for s, e, w in ops if e > s])
        w0, w1 = min(s for s, _, _ in ops), max(e for _, e, _ in ops)
        n, at, sums = [0, 0, 0], w0, [0, 0, 0, 0]
        for t, d, w in points:
            sums[next((i for i in range(3) if n[i]), 3)] += t - at
            n[w] += d
            at = t
        out[dev] = [w1 - w0] + sums
    return out


def check_traces(exe, folders):
    bad = seen = 0
    for folder in folders:
        want = {}
        tsv = os.path.join(folder, "accounting.tsv")
        if os.path.exists(tsv):
            with open(tsv, encoding="utf-8") as f:
                for line in f:
                    if not line.startswith("#") and line.strip():
                        r = line.rstrip("\n").split("\t")
                        want[r[0], int(r[1])] = [int(x) for x in r[2:7]]
        for path in sorted(glob.glob(os.path.join(folder, "*.json")) + glob.glob(os.path.join(folder, "*.json.gz"))):
            data = (gzip.open if path.endswith(".gz") else open)(path, "rb").read()
            if b'"traceEvents"' not in data:
                continue
            seen += 1
            got, err = run(exe, path)
            sums = accounting(got[1:]) if got else {}
            why = compare_dump(got, data) if got else f"dump_events failed: {err.strip()[:200]}"
            for (name, dev), row in want.items():
                if name == os.path.basename(path) and sums.get(dev) != row:
                    why = why or f"device {dev}: sums {sums.get(dev)}, want {row}"
            if why:
                bad += 1
                print(f"DIFFERS {os.path.basename(path)}: {why}")
    return bad, seen


def main():
    a = argparse.ArgumentParser()
    a.add_argument("exe")
    a.add_argument("--traces", default=os.environ.get("GPUWHY_TRACES") or os.path.join(HERE, "../../shared/traces"))
    a.add_argument("--random", type=int, default=300)
    a.add_argument("--seed", type=int, default=1)
    o = a.parse_args()
    bad = check_random(o.exe, o.random, o.seed)
    folders = [os.path.join(HERE, "../samples")]
    if os.path.isdir(o.traces):
        folders += [d for d, _, files in sorted(os.walk(o.traces)) if any(".json" in f for f in files)]
    else:
        print(f"no further traces at {o.traces}: only generated ones and the samples are compared")
    more, seen = check_traces(o.exe, folders)
    bad += more
    print(f"{o.random} generated and {seen} recorded traces, {bad} differ")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
