#!/usr/bin/env python3
"""Checks JSON reports against the contract gpuwhy.report/1 (docs/json.md): keys, types, vocabularies, sums.

usage: check_json.py FILE...                      reports that exist
       check_json.py --samples REPORT_SAMPLES     every hand-made report
       check_json.py --gpuwhy GPUWHY TRACE...     what `read --json -` writes
Importable: check(report) yields one complaint for each thing that is wrong.
"""
import json
import math
import re
import subprocess
import sys

LAYERS = {"data_supply", "cpu_preprocess", "memory_batch", "communication", "kernel_efficiency", "environment", "outside"}
NUM = (int, float)
OPT_INT, OPT_NUM, OPT_STR = (int, type(None)), NUM + (type(None),), (str, type(None))
PARTITION = {k: int for k in ("wall_ns", "compute_ns", "comm_exposed_ns", "copy_exposed_ns", "idle_ns", "comm_hidden_ns",
                              "copy_hidden_ns", "ops")}
CAUSE = {"cause": str, "ns": int, "gaps": int}
EVIDENCE = {"text": OPT_STR, "value": OPT_NUM, "unit": OPT_STR}
# The keys that must be there, and their types. A list holds objects of the one shape; keys may be added freely.
SHAPE = {
    "schema": str,
    "tool": str,
    "source": {"files": [{"path": OPT_STR, "format": OPT_STR, "bytes": OPT_INT, "events": OPT_INT}],
               "ranks": OPT_INT, "framework": str},
    "devices": [{"id": int, "name": str, "whole": PARTITION, "steady": PARTITION, "idle_by_cause": [CAUSE]}],
    "steps": {"count": OPT_INT, "median_ns": OPT_INT, "p95_ns": OPT_INT, "found_by": str},
    "verdict": {"finding": str, "layer": str, "sentence": str},
    "findings": [{"id": str, "layer": str, "rank": int, "lost_ns": OPT_INT, "share_of_wall": OPT_NUM, "confidence": str,
                  "gain": {"low": OPT_NUM, "likely": OPT_NUM, "high": OPT_NUM}, "evidence": [EVIDENCE],
                  "against": [EVIDENCE], "where": [{"file": OPT_STR, "line": OPT_INT, "share": OPT_NUM}],
                  "fix": [{"do": str, "check": str, "cost": str}]}],
    "not_evaluated": [{"id": str, "needs": str}],
    "trust": {"complete": bool, "losses": [{"id": str, "count": int, "text": str}], "own_overhead": OPT_NUM},
}


def shape(value, want, path):
    if isinstance(want, dict):
        if not isinstance(value, dict):
            yield f"{path}: not an object"
            return
        for key, sub in want.items():
            if key not in value:
                yield f"{path}.{key}: missing"
            else:
                yield from shape(value[key], sub, f"{path}.{key}")
    elif isinstance(want, list):
        if not isinstance(value, list):
            yield f"{path}: not a list"
            return
        for i, item in enumerate(value):
            yield from shape(item, want[0], f"{path}[{i}]")
    elif not isinstance(value, want) or (isinstance(value, bool) and want is not bool):
        yield f"{path}: {value!r} has the wrong type"


def numbers(value, path):
    """No NaN or infinity, no -1 that stands for "unknown"."""
    if isinstance(value, dict):
        for k, v in value.items():
            yield from numbers(v, f"{path}.{k}")
    elif isinstance(value, list):
        for i, v in enumerate(value):
            yield from numbers(v, f"{path}[{i}]")
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{path}: {value} is no JSON"
    elif value == -1 and not isinstance(value, bool) and not path.endswith((".id", ".value")):
        yield f"{path}: -1 for a number that is not known"


def sums(report):
    for i, d in enumerate(report["devices"]):
        for window, causes in (("whole", "whole_idle_by_cause"), ("steady", "idle_by_cause")):
            p = d[window]
            total = p["compute_ns"] + p["comm_exposed_ns"] + p["copy_exposed_ns"] + p["idle_ns"]
            if total != p["wall_ns"]:
                yield f"devices[{i}].{window}: the parts add up to {total}, not to {p['wall_ns']}"
            if causes in d and sum(c["ns"] for c in d[causes]) != p["idle_ns"]:
                yield f"devices[{i}].{causes}: adds up to {sum(c['ns'] for c in d[causes])}, not to {p['idle_ns']}"


def meaning(report):
    if report["schema"] != "gpuwhy.report/1":
        yield f"schema is {report['schema']}"
    if not re.fullmatch(r"gpuwhy \d+\.\d+\.\d+\S*", report["tool"]):
        yield f"tool is {report['tool']!r}"
    if report["verdict"]["layer"] not in LAYERS:
        yield f"verdict.layer is {report['verdict']['layer']!r}"
    for i, f in enumerate(report["findings"]):
        g = f["gain"]
        if f["layer"] not in LAYERS:
            yield f"findings[{i}].layer is {f['layer']!r}"
        if f["confidence"] not in ("low", "medium", "high"):
            yield f"findings[{i}].confidence is {f['confidence']!r}"
        if None not in g.values() and not 1 <= g["low"] <= g["likely"] <= g["high"]:
            yield f"findings[{i}].gain is not in order: {g}"
    if [f["rank"] for f in report["findings"]] != list(range(1, len(report["findings"]) + 1)):
        yield "findings are not in the order of their rank"


def check(report, exact=True):
    """Yields complaints. `exact`: also the sums and the vocabularies, which a hand-made report may break."""
    bad = list(shape(report, SHAPE, "report")) + list(numbers(report, "report"))
    if not bad and exact:
        bad = list(sums(report)) + list(meaning(report))
    yield from bad


def parse(raw):
    """Strict: UTF-8 only, no control characters that a terminal would obey, no key twice."""
    text = raw.decode("utf-8")
    if re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", text):
        raise ValueError("control characters in the text")

    def once(pairs):
        d = dict(pairs)
        if len(d) != len(pairs):
            raise ValueError(f"a key is there twice: {[k for k, _ in pairs]}")
        return d

    return json.loads(text, object_pairs_hook=once, parse_constant=lambda c: float(c))


class Refused(Exception):
    """The program says that this input cannot be used."""


def command(args):
    p = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    if p.returncode == 3 and not p.stdout:
        raise Refused(p.stderr.decode(errors="replace").strip())
    if p.returncode:
        raise ValueError(f"exit status {p.returncode}: {p.stderr.decode(errors='replace').strip()}")
    return p.stdout


def reports(argv):
    """(name, function that gives the bytes, exact) for each report to check."""
    if argv[:1] == ["--samples"]:
        for name in command([argv[1], "list"]).decode().split():
            # Hand-made: figures of "hostile" and of lists that are shared between windows need not add up.
            yield name, lambda: command([argv[1], name, "json"]), name in ("fine", "no-gpu", "unknown")
    elif argv[:1] == ["--gpuwhy"]:
        for trace in argv[2:]:
            yield trace, lambda: command([argv[1], "read", "--quiet", "--json", "-", trace]), True
    else:
        for path in argv:
            yield path, lambda: open(path, "rb").read(), True


def self_test():
    """The checker must see what is wrong, else its silence means nothing."""
    part = {k: 0 for k in PARTITION}
    good = {"schema": "gpuwhy.report/1", "tool": "gpuwhy 0.1.0", "source": {"files": [], "ranks": None, "framework": ""},
            "devices": [{"id": 0, "name": "", "whole": part, "steady": part, "idle_by_cause": []}],
            "steps": {"count": 0, "median_ns": None, "p95_ns": None, "found_by": "none"},
            "verdict": {"finding": "none", "layer": "outside", "sentence": ""}, "findings": [], "not_evaluated": [],
            "trust": {"complete": True, "losses": [], "own_overhead": None}}
    assert not list(check(good)), list(check(good))
    for path, value in (("schema", "x"), ("verdict", {"finding": "none"}), ("trust", []), ("steps.median_ns", -1),
                        ("steps.count", 1.5), ("steps.count", True), ("verdict.layer", "x"),
                        ("devices", [{**good["devices"][0], "whole": {**part, "idle_ns": 1}}])):
        wrong = json.loads(json.dumps(good))
        at = wrong
        for key in path.split(".")[:-1]:
            at = at[key]
        at[path.split(".")[-1]] = value
        assert list(check(wrong)), f"{path}={value!r} was not seen"


def main(argv):
    if len(argv) < 2 and not (argv and not argv[0].startswith("--")):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    self_test()
    count = failed = refused = 0
    for name, read, exact in reports(argv):
        count += 1
        try:
            bad = list(check(parse(read()), exact))
        except Refused as e:
            refused += 1
            print(f"refused: {e}")
            continue
        except ValueError as e:
            bad = [str(e)]
        if bad:
            failed += 1
            print(f"FAIL {name}")
            print("\n".join("  " + b for b in bad[:20]))
    print(f"{count} reports, {failed} failed, {refused} refused")
    return 1 if failed or count == refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
