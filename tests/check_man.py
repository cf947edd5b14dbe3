#!/usr/bin/env python3
"""Checks that the manual pages and --help know the same commands and the same options.

usage: check_man.py GPUWHY docs/man
"""
import os
import re
import subprocess
import sys

# Options that every command has.
EVERYWHERE = {"--help", "--usage", "--version", "-?", "-V"}
# Commands that a build may lack, because what they need is not there.
OPTIONAL = {"check", "run", "sweep"}


def options_of_help(text):
    """{'--json', '-q', ...}: the left column of the option list."""
    found = set()
    for line in text.splitlines():
        m = re.match(r" {2,6}((?:-.|--[\w-]+)(?:=\S+|\[=\S+\])?(?:, (?:-.|--[\w-]+)\S*)*)(?: |$)", line)
        if m:
            found |= set(re.findall(r"(?<![\w-])(--[\w-]+|-[^\s,=-])", m.group(1)))
    return found - EVERYWHERE


def commands_of_man(folder):
    """{'read': {'--json', ...}, ...} of the pages that gpuwhy.1 lists."""
    commands = {}
    with open(os.path.join(folder, "gpuwhy.1"), encoding="utf-8") as f:
        names = re.findall(r"^\.BR gpuwhy\\-(\S+) \(1\)$", f.read().split(".SH COMMANDS", 1)[1].split("\n.SH ", 1)[0], re.M)
    for name in names:
        with open(os.path.join(folder, f"gpuwhy-{name}.1"), encoding="utf-8") as f:
            part = f.read().split(".SH OPTIONS", 1)[1].split("\n.SH ", 1)[0]
        tags = re.findall(r"^\.TP\n(.*)$", part, re.M)
        plain = [re.sub(r"\\f.", "", t).replace("\\-", "-") for t in tags]
        commands[name] = set(o for t in plain for o in re.findall(r"(?<![\w-])(--[\w-]+|-[^\s,=-])", t)) - EVERYWHERE
    stray = set(os.listdir(folder)) - {"gpuwhy.1"} - {f"gpuwhy-{n}.1" for n in names}
    assert not stray, f"pages that gpuwhy.1 does not list: {stray}"
    return commands


def main():
    gpuwhy, folder = sys.argv[1:3]
    man = commands_of_man(folder)
    top = subprocess.run([gpuwhy, "--help"], stdout=subprocess.PIPE, check=True).stdout.decode()
    listed = re.findall(r"^  (\w[\w-]*)  ", top.split("Commands:")[1].split("Examples:")[0], re.M)
    bad = []
    if not listed or not man:
        bad.append("no commands found; has the form of the help or of the page changed?")
    bad += [f"'{c}' is in the manual but not in --help" for c in man if c not in listed and c not in OPTIONAL]
    options = 0
    for c in listed:
        text = subprocess.run([gpuwhy, c, "--help"], stdout=subprocess.PIPE, check=True).stdout.decode()
        here = options_of_help(text)
        options += len(here)
        if "Examples:" not in text:
            bad.append(f"'{c} --help' shows no examples")
        if c not in man:
            bad.append(f"'{c}' is in --help but not in the manual")
            continue
        bad += [f"'{c} {o}' is in --help but not in the manual" for o in sorted(here - man[c])]
        bad += [f"'{c} {o}' is in the manual but not in --help" for o in sorted(man[c] - here)]
    if not options:
        bad.append("no options found; has the form of the help changed?")
    for line in bad:
        print(line)
    if bad:
        print("`make docs` writes the manual anew")
    print(f"{len(listed)} commands, {options} options, {len(bad)} differences")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
