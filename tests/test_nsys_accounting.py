#!/usr/bin/env python3
"""usage: test_nsys_accounting.py NSYS_ACCOUNT FOLDER. Compares the sums that NSYS_ACCOUNT prints for each export in
FOLDER with FOLDER/accounting.tsv, with one thread and with four. Exit 77 when the folder is not there."""
import os, subprocess, sys

exe, folder = sys.argv[1:3]
want = {}
try:
    with open(os.path.join(folder, "accounting.tsv"), encoding="utf-8") as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                cells = line.rstrip("\n").split("\t")
                want.setdefault(cells[0], []).append("\t".join(cells[1:7]))
except OSError:
    print(f"skipped: no {folder}/accounting.tsv")
    sys.exit(77)
bad = 0
for name, lines in want.items():
    for threads in "1", "4":
        p = subprocess.run([exe, os.path.join(folder, name)], capture_output=True, text=True, env={"GW_THREADS": threads})
        got = p.stdout.splitlines()
        if sorted(got) != sorted(lines):
            bad += 1
            print(f"FAIL {name} with {threads} threads: want {lines}, got {got} {p.stderr.strip()}")
print(f"{len(want)} exports, {bad} wrong")
sys.exit(1 if bad or not want else 0)
