#!/usr/bin/env python3
"""Checks docs/record-format.md and docs/permissions.md against the code: nothing in the code that the pages do not name, and no
message on a page that the program does not print.

usage: check_docs.py ROOT
"""
import os
import re
import sys

ROOT = sys.argv[1]


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as f:
        return f.read()


def sources(*folders):
    for folder in folders:
        for top, _, files in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(files):
                if name.endswith((".c", ".h", ".def")):
                    yield os.path.join(top, name)


def words(text):
    return set(re.findall(r"[A-Za-z_][A-Za-z0-9_.-]*", text))


def fields(body):
    """Names of the members of a struct's body."""
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    for line in re.split(r";", body):
        m = re.match(r"\s*(?:const\s+)?(?:struct\s+)?\w+\s+(.*)", line.strip(), re.S)
        for name in m.group(1).split(",") if m else []:
            name = re.sub(r"\[.*?\]", "", name).strip()
            if name and name != "reserved":
                yield name


def check_record():
    header, page = read("src", "record", "record.h"), read("docs", "record-format.md")
    known, bad = words(page), []
    structs = re.findall(r"^struct (gw_\w+) \{(.*?)^\};", header, re.M | re.S)
    assert len(structs) > 15, structs
    for name, body in structs:
        if name not in known:
            bad.append("record-format.md does not name struct " + name)
        bad += ["record-format.md does not name %s.%s" % (name, f) for f in fields(body) if f not in known]
    types = re.findall(r"\bGW_RT_(\w+) = (\d+)", header)
    assert len(types) > 15, types
    bad += ["record-format.md has no row for chunk %s %s" % t for t in types if "| %s %s |" % t not in page]
    for _, name in re.findall(r'#define (GW_REC_META|GW_REC_CONTROL|GW_REC_MACHINE|GW_REC_PM) +"([^"]+)"', header):
        if "`%s`" % name not in page:
            bad.append("record-format.md does not name the file " + name)
    bad += ["record-format.md does not name the state " + s for s in re.findall(r'GW_REC_STATE\(\w+, "([^"]+)"', read("src", "record", "states.def")) if s not in known]
    bad += ["record-format.md does not name the call group " + s for s in re.findall(r'GW_CALL\(\w+, "([^"]+)"', read("src", "model", "calls.def")) if s not in known]
    bad += ["record-format.md does not name the PM metric " + s for s in re.findall(r'GW_PM_METRIC\(\w+, "([^"]+)"', read("src", "record", "pm_metrics.def")) if s not in known]
    facts = set()
    for path in sources("src"):
        with open(path, encoding="utf-8") as f:
            facts |= set(re.findall(r'gw_sink_factf?\([^,()]+, "([a-z0-9_.]+)"', f.read()))
    assert len(facts) > 25, facts
    bad += ["record-format.md does not name the fact " + k for k in sorted(facts) if k not in known]
    gpu = re.findall(r'fact(?:_number)?\(n, i, "(\w+)"', read("src", "collect", "proc", "proc_nvml.c"))
    assert len(gpu) > 8, gpu
    bad += ["record-format.md does not name the fact gpu.N." + k for k in gpu if "gpu.N." + k not in known]
    return bad


def strings(text):
    """C string literals, neighbours joined."""
    text = re.sub(r'"\s*\n?\s*"', "", text)
    return [s.replace('\\"', '"') for s in re.findall(r'"((?:[^"\\\n]|\\.)*)"', text)]


def check_permissions():
    page, bad = read("docs", "permissions.md"), []
    rows = re.findall(r'GW_PERMISSION\("(\w+)", N_\("(.*?)"\), N_\("(.*?)"\)\)', read("src", "collect", "permissions.def"))
    assert len(rows) > 3, rows
    for key, lost, remedy in rows:
        bad += ["permissions.md lacks %s" % s for s in ("`permission.%s`" % key, lost, remedy) if s not in page]
    written = set()
    for path in sources("src"):
        with open(path, encoding="utf-8") as f:
            written |= set(re.findall(r'"permission\.(\w+)"', f.read()))
    bad += ["permissions.def has no row for permission." + k for k in sorted(written - {r[0] for r in rows})]
    for text in re.findall(r'GW_REC_STATE\(\w+, "[^"]+", 1, "(.*?)"\)', read("src", "record", "states.def")):
        if "`%s`" % text not in page:
            bad.append("permissions.md lacks the message: " + text)
    for sym, text in re.findall(r'GW_PM_STATE\((\w+), "[^"]+", N_\("(.*?)"\)\)', read("src", "record", "pm_states.def")):
        if sym not in ("OFF", "STARTING", "RUNNING", "ENDED") and "`%s`" % text not in page:
            bad.append("permissions.md lacks the message: " + text)
    program = []
    for path in sources("src", "inject"):
        with open(path, encoding="utf-8") as f:
            program += strings(f.read())
    for line in page.splitlines():
        for text in re.findall(r"`([^`]+)`", line) if line.startswith("| ") or "machine.missing" in line else []:
            if text.count(" ") >= 3 and not any(text in s for s in program): # a message, and no command
                bad.append("no such message in the program: " + text)
    return bad


def main():
    bad = check_record() + check_permissions()
    for line in bad:
        print(line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
