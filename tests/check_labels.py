#!/usr/bin/env python3
"""Does gpuwhy say the right thing about recorded jobs whose trouble is known?

usage: check_labels.py GPUWHY FOLDER [--markdown]

FOLDER holds labels.tsv (see tests/traces/labels.tsv) and the traces. A case fails when the verdict is not one of the right
ones, when a finding that must be silent promises 1.10 or more, or when the parts of a device's time do not add up. Gains
are forecasts: one outside its range by more than a tenth is shown, and it is a failure only when less than four in five
hold. --markdown prints the table of docs/accuracy.md.
"""
import json
import os
import subprocess
import sys


def rows(path):
    with open(path, encoding="utf-8") as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                yield line.rstrip("\n").split("\t")


def diagnose(exe, path):
    p = subprocess.run([exe, "read", path, "--json", "-", "--quiet"], capture_output=True, timeout=300)
    if p.returncode != 0:
        sys.exit(f"{path}: exit {p.returncode}: {p.stderr.decode(errors='replace')[-300:]}")
    return json.loads(p.stdout)


def adds_up(report):
    for dev in report["devices"]:
        for window in ("whole", "steady"):
            w = dev[window]
            if w["compute_ns"] + w["comm_exposed_ns"] + w["copy_exposed_ns"] + w["idle_ns"] != w["wall_ns"]:
                return False
        if sum(c["ns"] for c in dev["idle_by_cause"]) != dev["steady"]["idle_ns"]:
            return False
    return True


def main():
    exe, folder = sys.argv[1:3]
    markdown = "--markdown" in sys.argv
    bad, table, held, asked = [], [], 0, 0
    for name, right, silent, gain in (r[:4] for r in rows(os.path.join(folder, "labels.tsv"))):
        j = diagnose(exe, os.path.join(folder, name))
        said, gain = j["verdict"]["finding"], float(gain)
        found = {f["id"]: f["gain"] for f in j["findings"]}
        problems = []
        if said not in right.split(","):
            problems.append(f"said {said}, right is {right}")
        problems += [f"blames {s} for {found[s]['likely']:.2f}" for s in silent.split(",")
                     if s in found and found[s]["likely"] >= 1.10]
        if not adds_up(j):
            problems.append("the parts do not add up")
        predicted, inside = "", ""
        if said in found and gain > 1.0 and said in right.split(","):
            g = found[said]
            asked += 1
            ok = g["low"] <= gain * 1.1 and g["high"] >= gain / 1.1
            held += ok
            predicted, inside = f"{g['low']:.2f} – {g['likely']:.2f} – {g['high']:.2f}", "yes" if ok else "no"
        bad += [f"{name}: {p}" for p in problems]
        measured = f"{gain:g}" if gain > 1.0 else ""
        table.append((name.replace(".json.gz", ""), said, "right" if not problems else "; ".join(problems), predicted, measured, inside))
    if markdown:
        print("| job | verdict | | predicted (low – likely – high) | measured | inside |\n|---|---|---|---|---|---|")
        for t in table:
            print("| " + " | ".join(t) + " |")
    else:
        for t in table:
            print("%-26s %-24s %-8s %-24s %-6s %s" % t)
    print(f"\n{len(table) - len({b.split(':')[0] for b in bad})} of {len(table)} right, {held} of {asked} gains inside the predicted range"
          " (a tenth allowed)")
    for b in bad:
        print("FAIL", b)
    if bad or held * 5 < asked * 4:
        sys.exit(1)


main()
