#!/usr/bin/env python3
"""Checks that includes point one way between the folders of src/ (docs/architecture.md).

usage: check_includes.py [ROOT]
Exit 0 when every #include "folder/..." is allowed, 1 with one line for each that is not.
"""
import os
import re
import sys

# folder -> folders it may include besides itself. One row a folder; a folder without a row is an error.
ALLOWED = {
    "base": set(),
    "model": {"base"},
    "record": {"base", "model"},
    "import": {"base", "model", "record"},
    "collect": {"base", "model", "record"},
    "sweep": {"base"},
    "engine": {"base", "model"},
    "layers": {"base", "model", "engine"},
    "report": {"base", "model", "engine", "layers", "sweep"},
    "cli": {"base", "model", "import", "collect", "record", "engine", "layers", "report", "sweep"},
    # Outside src/: the injected library knows the base and the format of its own records, and nothing else.
    "inject": {"base", "record"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def sources(top):
    for folder, subfolders, files in os.walk(top):
        subfolders.sort()
        for name in sorted(files):
            if name.endswith((".c", ".h", ".def", ".inc")):
                yield os.path.join(folder, name)


def check(root):
    """Returns (files read, list of complaints)."""
    bad, count = [], 0
    src = os.path.join(root, "src")
    parts = [(d, os.path.join(src, d)) for d in sorted(os.listdir(src)) if os.path.isdir(os.path.join(src, d))]
    if os.path.isdir(os.path.join(root, "inject")):
        parts.append(("inject", os.path.join(root, "inject")))
    for part, top in parts:
        if part not in ALLOWED:
            bad.append(f"src/{part}: no row for this folder in ALLOWED of check_includes.py")
            continue
        for path in sources(top):
            count += 1
            with open(path, encoding="utf-8") as f:
                text = f.read()
            for m in INCLUDE.finditer(text):
                name = m.group(1)
                where = f"{os.path.relpath(path, root)}:{text.count(chr(10), 0, m.start(1)) + 1}"
                target = name.split("/", 1)[0] if "/" in name else None
                if target is None:
                    if not os.path.exists(os.path.join(os.path.dirname(path), name)):
                        bad.append(f'{where}: "{name}" is not beside the file; write "folder/{name}"')
                elif target == "..":
                    bad.append(f'{where}: "{name}" climbs out of its folder')
                elif target != part and target not in ALLOWED[part]:
                    bad.append(f'{where}: {part} must not include {target} ("{name}")')
    if count == 0:
        bad.append(f"no source files under {src}")
    return count, bad


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    count, bad = check(root)
    for line in bad:
        print(line)
    print(f"{count} files read, {len(bad)} includes that point the wrong way")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
