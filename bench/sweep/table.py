#!/usr/bin/env python3
"""A short table of what sweeps found: one line for each JSON file that is given, with its cost.

usage: table.py FILE.json...      A file NAME-all.json is the exhaustive curve that NAME.json is compared with.
"""
import json
import os
import sys


def setting(x):
    return " ".join("%s=%s" % (k, "%g" % v if isinstance(v, (int, float)) else v) for k, v in x.items()) if x else "-"


def index(report, x):
    """Number of the knee in the list of the first knob."""
    knob = report["knobs"][0]
    return knob["values"].index(x[knob["name"]])


def main():
    reports = {}
    for path in sys.argv[1:]:
        try:
            with open(path) as f:
                reports[os.path.basename(path)[:-5]] = json.load(f)
        except (OSError, ValueError) as e:
            print("%s: %s" % (path, e))
    for name, r in reports.items():
        v = r["verdict"]
        if v["kind"] == "parts":
            print("%-14s supply %.4g, demand %.4g, together %.4g %s/s; %.0f s" % (name, r["parts"]["supply"] or 0, r["parts"]["demand"] or 0,
                                                                              r["parts"]["together"] or 0, r["unit"], r["spent_s"]))
            continue
        print("%-14s %-8s knee %s (%s to %s), best %s; %d runs, %.0f s, by %s%s" % (
            name, v["kind"], setting(v["knee"]), setting(v["knee_from"]), setting(v["knee_to"]), setting(v["best"]), r["runs"], r["spent_s"],
            r["found_by"], "; then " + r["next"]["finding"] if r["next"] else ""))
        whole = reports.get(name + "-all")
        if whole and v["knee"] and whole["verdict"]["knee"]:
            print("%-14s %+d points from the knee of the whole curve, at %.0f %% of its time" % (
                "", index(r, v["knee"]) - index(whole, whole["verdict"]["knee"]), 100 * r["spent_s"] / whole["spent_s"]))
        for p in r["points"]:
            if p["state"] == "measured":
                print("    %-14s %9.2f %s/s +-%.1f %%%s%s%s" % (
                    setting(p["setting"]), p["rate"], r["unit"], 100 * p["error"],
                    "  %.1f of %.1f GiB" % (p["gpu_memory_bytes"] / 2**30, p["gpu_memory_total_bytes"] / 2**30) if p["gpu_memory_total_bytes"] else "",
                    "  %.0f kernels" % p["kernels_per_step"] if p["kernels_per_step"] else "",
                    "  worker %.0f MiB" % (p["worker_bytes"] / 2**20) if p["worker_bytes"] else ""))
            elif p["why"]:
                print("    %-14s %s" % (setting(p["setting"]), p["why"][:110]))


if __name__ == "__main__":
    main()
