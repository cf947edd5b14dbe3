#!/usr/bin/env python3
"""Compares what the terminal renderer prints for hand-made reports with the files in report_golden/.

usage: check_golden.py REPORT_SAMPLES
UPDATE_GOLDEN=1 in the environment writes the files anew; look at the difference before you commit it.
"""
import difflib
import os
import re
import subprocess
import sys
import unicodedata

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "report_golden")

# file name -> arguments of report_samples
CASES = {
    "fine": ["fine", "terminal"],
    "host_sync": ["host-sync", "terminal"],
    "host_sync_ascii": ["host-sync", "terminal", "ascii"],
    "host_sync_narrow": ["host-sync", "terminal", "width=50"],
    "host_sync_colour": ["host-sync", "terminal", "colour"],
    "host_sync_all": ["host-sync", "terminal", "all", "width=100"],
    "no_gpu": ["no-gpu", "terminal"],
    "two_devices": ["two-devices", "terminal"],
    "many_devices": ["many-devices", "terminal"],
    "many_findings": ["many-findings", "terminal"],
    "hostile": ["hostile", "terminal"],
    "hostile_ascii_all": ["hostile", "terminal", "ascii", "all"],
    "unknown": ["unknown", "terminal"],
    "whole_run": ["whole-run", "terminal"],
}
SGR = re.compile("\033\\[[0-9;]*m")


def columns(line):
    """Width of a line, by Unicode data and not by wcwidth, so that the two check each other."""
    n = 0
    for ch in line:
        if unicodedata.category(ch) in ("Mn", "Me"):
            continue
        n += 2 if unicodedata.east_asian_width(ch) in "WF" else 1
    return n


def complaints(args, text):
    """What must hold for every report, whatever the golden file says."""
    width = next((int(a[6:]) for a in args if a.startswith("width=")), 80)
    plain = SGR.sub("", text) if "colour" in args else text
    for n, line in enumerate(plain.split("\n"), 1):
        if columns(line) > width:
            yield f"line {n} is {columns(line)} columns wide, more than {width}: {line!r}"
        if line != line.rstrip():
            yield f"line {n} ends in blanks: {line!r}"
        for ch in line:
            if unicodedata.category(ch) in ("Cc", "Cf", "Zl", "Zp"):
                yield f"line {n} holds the control character U+{ord(ch):04X}"
    if "ascii" in args and not text.isascii():
        yield "not all of it is ASCII"
    if re.search(r"\bnan\b|\binf\b|(?<![\w.])-1\b", plain, re.I) and args[0] != "hostile":
        yield "an unknown number is printed as a number"
    if not text.endswith("\n") or text.endswith("\n\n"):
        yield "does not end in exactly one line end"


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    update = os.environ.get("UPDATE_GOLDEN") == "1"
    os.makedirs(GOLDEN, exist_ok=True)
    failed = 0
    for name, args in CASES.items():
        p = subprocess.run([sys.argv[1]] + args, stdout=subprocess.PIPE, timeout=60)
        if p.returncode == 77:
            print("no C.UTF-8 locale here")
            return 77
        path = os.path.join(GOLDEN, name + ".txt")
        got = p.stdout.decode("utf-8")  # invalid UTF-8 is a failure of its own
        bad = list(complaints(args, got))
        if p.returncode:
            bad.append(f"exit status {p.returncode}")
        if update:
            with open(path, "w", encoding="utf-8", newline="") as f:
                f.write(got)
        want = open(path, encoding="utf-8", newline="").read() if os.path.exists(path) else ""
        if got != want:
            bad += difflib.unified_diff(want.splitlines(), got.splitlines(), path, "now", lineterm="")
        if bad:
            failed += 1
            print(f"FAIL {name}")
            print("\n".join("  " + b for b in bad))
    stale = {f[:-4] for f in os.listdir(GOLDEN) if f.endswith(".txt")} - set(CASES)
    for name in sorted(stale):
        failed += 1
        print(f"FAIL {name}: no case makes this file any more")
    print(f"{len(CASES)} reports, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
