#!/usr/bin/env python3
"""Completion in real shells: bash always, zsh and fish where they are installed.

usage: test_completion.py GPUWHY
"""
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

GPUWHY = os.path.abspath(sys.argv[1])


def script(shell):
    return subprocess.run([GPUWHY, "help", "--completion", shell], stdout=subprocess.PIPE, check=True).stdout.decode()


def commands():
    top = subprocess.run([GPUWHY, "--help"], stdout=subprocess.PIPE, check=True, env={"LC_ALL": "C"}).stdout.decode()
    return re.findall(r"^  (\w[\w-]*)  ", top.split("Commands:")[1].split("Examples:")[0], re.M)


def options(command):
    text = subprocess.run([GPUWHY, command, "--help"], stdout=subprocess.PIPE, check=True, env={"LC_ALL": "C"}).stdout.decode()
    return set(re.findall(r"^ {2,6}(?:-., )?(--[\w-]+)", text.split("\nExamples:")[0], re.M))


class Typed:
    """What a shell on a terminal shows after some keys."""

    def __init__(self, argv, env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(argv[0], argv, env)

    def read_until(self, pattern, seconds=20.0):
        text, end = "", time.time() + seconds
        while time.time() < end:
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    text += os.read(self.fd, 65536).decode("utf-8", "replace")
                except OSError:
                    break
            if re.search(pattern, text):
                return text
        return text

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def close(self):
        try:
            os.kill(self.pid, 9)
        except OSError:
            pass
        os.waitpid(self.pid, 0)
        os.close(self.fd)


class Bash(unittest.TestCase):
    def complete(self, line):
        """The words that bash would offer at the end of `line`."""
        words = [w for w in re.split(r"(=)|\s+", line) if w]
        if line.endswith((" ", "=")) and not line.endswith("="):
            words.append("")
        code = ("compopt() { printf 'opt %s\\n' \"$*\"; }\n" + script("bash") + "\nCOMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _gpuwhy\n"
                "printf 'word %s\\n' \"${COMPREPLY[@]}\"\n")
        p = subprocess.run(["bash", "--norc", "-c", code, "bash", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual((p.returncode, p.stderr), (0, b""))
        out = p.stdout.decode().splitlines()
        return ([o[5:] for o in out if o.startswith("word ") and o != "word "], [o[4:] for o in out if o.startswith("opt ")])

    def test_syntax(self):
        self.assertEqual(subprocess.run(["bash", "-n"], input=script("bash").encode()).returncode, 0)

    def test_commands(self):
        self.assertEqual(set(self.complete("gpuwhy ")[0]) & set(commands()), set(commands()))
        self.assertEqual(self.complete("gpuwhy exp")[0], [c for c in commands() if c.startswith("exp")])
        self.assertEqual(self.complete("gpuwhy --lang ")[0], ["en", "zh_CN"])
        self.assertEqual(self.complete("gpuwhy --lang zh_CN rea")[0], ["read"])

    def test_options_are_those_of_help(self):
        for c in commands():
            with self.subTest(command=c):
                offered = {w.rstrip("=") for w in self.complete(f"gpuwhy {c} --")[0]}
                self.assertEqual(offered, options(c))

    def test_values(self):
        self.assertEqual(self.complete("gpuwhy read --lang=")[0], ["en", "zh_CN"])
        self.assertEqual(self.complete("gpuwhy read --lang=z")[0], ["zh_CN"])
        self.assertEqual(self.complete("gpuwhy explain host-s")[0], ["host-sync"])
        self.assertEqual(self.complete("gpuwhy help exp")[0], [c for c in commands() if c.startswith("exp")])
        for files in ("gpuwhy read ", "gpuwhy read --json=", "gpuwhy read --json ", "gpuwhy diff a.json "):
            self.assertEqual(self.complete(files), ([], ["-o default"]), files)
        if "run" in commands():
            self.assertIn("bash", self.complete("gpuwhy run -- bas")[0])
            self.assertEqual(self.complete("gpuwhy run -o ")[1], ["-o dirnames"])
        self.assertEqual(self.complete("gpuwhy zzz --")[0], [])

    def test_in_a_terminal(self):
        with tempfile.TemporaryDirectory() as d:
            with open(d + "/c", "w") as f:
                f.write(script("bash"))
            os.symlink(GPUWHY, d + "/gpuwhy")
            env = {"PATH": d + ":" + os.environ["PATH"], "TERM": "dumb", "PS1": "$ ", "HOME": d, "LC_ALL": "C.UTF-8"}
            t = Typed(["bash", "--norc", "--noprofile", "-i"], env)
            try:
                t.type(f"source {d}/c; bind 'set bell-style none'; echo read''y\n")
                self.assertRegex(t.read_until(r"\nready|\rready"), "ready")
                t.type("gpuwhy expl\thost-sy\t\n")  # becomes: gpuwhy explain host-sync
                self.assertRegex(t.read_until(r"How to check it"), r"How to check it")
                t.type("gpuwhy read --no-c\t --bogus\n")
                self.assertRegex(t.read_until(r"unknown option '--bogus'"), r"read --no-color ")
            finally:
                t.close()


@unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
class Zsh(unittest.TestCase):
    def test_in_a_terminal(self):
        with tempfile.TemporaryDirectory() as d:
            with open(d + "/_gpuwhy", "w") as f:
                f.write(script("zsh"))
            self.assertEqual(subprocess.run(["zsh", "-n", d + "/_gpuwhy"]).returncode, 0)
            os.symlink(GPUWHY, d + "/gpuwhy")
            env = {"PATH": d + ":" + os.environ["PATH"], "TERM": "dumb", "HOME": d, "LC_ALL": "C.UTF-8"}
            t = Typed(["zsh", "-f", "-i"], env)
            try:
                t.type(f"fpath=({d} $fpath); autoload -U compinit; compinit -u -D; unsetopt zle_bracketed_paste; echo read''y\n")
                self.assertRegex(t.read_until(r"\nready|\rready"), "ready")
                t.type("gpuwhy expl\thost-sy\t\n")
                self.assertRegex(t.read_until(r"How to check it"), r"How to check it")
                t.type("gpuwhy read --no-c\t --bogus\n")
                self.assertRegex(t.read_until(r"unknown option '--bogus'"), r"unknown option '--bogus'")
            finally:
                t.close()


@unittest.skipUnless(shutil.which("fish"), "fish is not installed")
class Fish(unittest.TestCase):
    def complete(self, line):
        with tempfile.TemporaryDirectory() as d:
            with open(d + "/c.fish", "w") as f:
                f.write(script("fish"))
            p = subprocess.run(["fish", "--no-config", "-c", f"source {d}/c.fish; complete -C '{line}'"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={"HOME": d, "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"})
            self.assertEqual((p.returncode, p.stderr), (0, b""))
            return [w.split("\t")[0] for w in p.stdout.decode().splitlines()]

    def test_completion(self):
        self.assertEqual(set(self.complete("gpuwhy ")) & set(commands()), set(commands()))
        for c in commands():
            self.assertEqual({w.rstrip("=") for w in self.complete(f"gpuwhy {c} --")}, options(c), c)
        self.assertEqual(self.complete("gpuwhy read --lang z"), ["zh_CN"])
        self.assertIn("host-sync", self.complete("gpuwhy explain host"))


if __name__ == "__main__":
    if not shutil.which("bash"):
        print("skipped: there is no bash")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
