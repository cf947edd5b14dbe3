#!/usr/bin/env python3
"""Is the verdict still right when a recording shows no operators, as those of `gpuwhy run` and of nsys without NVTX?

usage: strip_test.py GPUWHY FOLDER [FOLDER...]

Each FOLDER holds labels.tsv and Kineto traces. Operators, annotations, steps and Python frames are taken out of each trace;
kernels, copies and calls of the runtime stay. The verdict has to be one of the right ones, or the one that KNOWN says, with
its reason. Where a value is read (`.item()`), the reads have to be counted alike. At least the share LEAST must be right.
"""
import gzip
import json
import os
import subprocess
import sys
import tempfile

KEPT = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset", "cuda_runtime", "cuda_driver", "runtime", "driver", "overhead",
        "cuda_sync", "ac2g"}
LEAST = 0.80
SLOWED = "torch.profiler slowed the host by half, and only the operators' rows would have told that it did"
SILENT = "host code without calls: that it loads, waits or compiles is in ranges or in stacks alone (gpuwhy run has stacks)"
KNOWN = {
    "alloc_thrash": ("launch-bound", SLOWED),
    "main_loading": ("main-thread-preprocess", SILENT),
    "fetch_wait": ("main-thread-preprocess", SILENT),
    "resnet50_num_workers_0": ("main-thread-preprocess", SILENT),
    "starved_workers": ("main-thread-preprocess", SILENT),
    "recompile": ("main-thread-preprocess", SILENT),
    "slow_read": ("evaluation", SILENT + "; it comes in one step of six, as an evaluation does"),
}


def rows(folder):
    with open(os.path.join(folder, "labels.tsv"), encoding="utf-8") as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                name, right = line.rstrip("\n").split("\t")[:2]
                if not os.path.isdir(os.path.join(folder, name)):
                    yield os.path.join(folder, name), right.split(",")


def strip(src, dst):
    opener = gzip.open if src.endswith(".gz") else open
    with opener(src, "rt", encoding="utf-8") as f:
        doc = json.load(f)
    kept = [e for e in doc["traceEvents"] if e.get("ph") == "M" or str(e.get("cat", "")).lower() in KEPT]
    doc["traceEvents"] = kept
    with gzip.open(dst, "wt", encoding="utf-8", compresslevel=1) as f:
        json.dump(doc, f)


def read(exe, path):
    p = subprocess.run([exe, "read", path, "--json", "-", "--quiet"], capture_output=True, timeout=300)
    if p.returncode != 0:
        sys.exit(f"{path}: exit {p.returncode}: {p.stderr.decode(errors='replace')[-300:]}")
    return json.loads(p.stdout)


def known(path):
    name = next((k for k in KNOWN if f"~{k}~" in path or os.path.basename(path).startswith(k + ".json")), None)
    return KNOWN.get(name, (None, ""))


def reads(report):
    f = next((f for f in report["findings"] if f["id"] == "host-sync"), None)
    return (f["evidence"][0]["value"] * report["steps"]["steady_count"] / sum(report["steps"]["times_ns"]) * 1e9) if f else None


def main():
    exe, folders = sys.argv[1], [d for d in sys.argv[2:] if os.path.exists(os.path.join(d, "labels.tsv"))]
    bad, right_n, total = [], 0, 0
    with tempfile.TemporaryDirectory(prefix="gpuwhy-strip-") as tmp:
        for folder in folders:
            for path, right in rows(folder):
                bare = os.path.join(tmp, "bare.json.gz")
                strip(path, bare)
                a, b = read(exe, path), read(exe, bare)
                said, (expected, why) = b["verdict"]["finding"], known(path)
                total += 1
                right_n += said in right
                note = "" if said in right else f"known: {why}" if said == expected else "WRONG"
                print("%-34s %-24s %-24s %s" % (os.path.basename(path).replace(".json.gz", "")[-34:], a["verdict"]["finding"], said, note))
                if said not in right and said != expected:
                    bad.append(f"{path}: says {said} without operators, right is {' or '.join(right)}")
                if expected and said in right:
                    bad.append(f"{path}: is right by now: take it off the list of known ones")
                for x, y in zip(a["devices"], b["devices"]):
                    # times of more than 53 bits pass through Python as doubles: equal to a few ns an edge
                    x, y = x["whole"], y["whole"]
                    if abs(x["idle_ns"] - y["idle_ns"]) > 1e-3 * x["wall_ns"] or x["ops"] != y["ops"]:
                        bad.append(f"{path}: the parts of the time changed with the operators")
                if a["verdict"]["finding"] == said == "host-sync":
                    x, y = reads(a), reads(b)
                    if abs(x - y) > 0.03 * x:
                        bad.append(f"{path}: {x:.0f} reads a second with operators, {y:.0f} without")
    print(f"\n{right_n} of {total} right without operators")
    if right_n < LEAST * total or not total:
        bad.append(f"{right_n} of {total} is less than {LEAST:.0%}")
    for b in bad:
        print("FAIL", b)
    sys.exit(bool(bad))


main()
