#!/usr/bin/env python3
"""Python stacks of running processes, with every interpreter that is here: lines against what the program says of itself.

usage: test_py_stack.py PY_STACK_DUMP [PYTHON...]     default: this one and what ~/.pyenv/versions and /usr/bin have
"""
import functools
import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import runner

DUMP = os.path.abspath(sys.argv[1])

# Each program prints "READY", its threads' ids, and the line that its main thread stays in.
STILL = """
import sys, time
class Outer:
    def method(self):
        def inner(n):
            if n:
                return inner(n - 1)
            print('READY', sys._getframe().f_lineno + 1, flush=True)
            time.sleep(1000)
        inner(3)
Outer().method()
"""
THREADS = """
import sys, threading, time
def beside():
    tids.append(threading.get_native_id() if hasattr(threading, 'get_native_id') else 0)
    time.sleep(1000)
tids = []
for _ in range(3): threading.Thread(target=beside, daemon=True).start()
while len(tids) < 3: time.sleep(0.01)
print('READY', *tids, flush=True)
time.sleep(1000)
"""
DEEP = """
import sys, time
sys.setrecursionlimit(5000)
def down(n):
    if n: return down(n - 1)
    print('READY', flush=True)
    time.sleep(1000)
down(%d)
"""
LONG = """
import time
def %s(n):
    if n: return %s(n - 1)
    print('READY', flush=True)
    time.sleep(1000)
%s(25)
""" % (("down" * 60,) * 3)
BUSY = """
import sys
print('READY', flush=True)
def leaf(i): return [x * i for x in range(10)]
def mid(i): return sum(leaf(i)) + (mid(i - 1) if i % 7 else 0)
def gen(n):
    for i in range(n): yield mid(i)
while True:
    code = compile('def fresh(a):\\n    return mid(a)\\n', 'fresh.py', 'exec')
    space = {'mid': mid}
    exec(code, space)
    for v in gen(200): space['fresh'](v % 30)
"""
CALLBACK = """
import time, functools
def key(x):
    print('READY', flush=True)
    time.sleep(1000)
def outer():
    sorted([2, 1], key=key)     # Python from C from Python
outer()
"""
UNICODE = """
import time
def na\u00efve_\u5b57():
    print('READY', flush=True)
    time.sleep(1000)
na\u00efve_\u5b57()
"""
LINES = """
import time
def many(
    a,
    b=1,
):
    x = [i
         for i in range(3)]

    print('READY', flush=True)
    time.sleep(
        1000
    ) if a else None
many(
    1)
"""


class Program:
    def __init__(self, py, text):
        self.dir = tempfile.TemporaryDirectory(prefix="gwpy-")
        self.path = os.path.join(self.dir.name, "prog.py")
        with open(self.path, "w", encoding="utf-8") as f:
            f.write(text)
        self.p = subprocess.Popen([py, self.path], stdout=subprocess.PIPE, universal_newlines=True, env=dict(os.environ, PYTHONIOENCODING="utf-8"))
        self.said = self.p.stdout.readline().split()
        assert self.said and self.said[0] == "READY", self.said
        time.sleep(0.1)

    def dump(self, tid=None, n=1):
        out = subprocess.run([DUMP, str(self.p.pid), str(tid or self.p.pid), str(n)], stdout=subprocess.PIPE, universal_newlines=True, timeout=60).stdout
        head, _, stack = out.partition("\n")
        if "Operation not permitted" in head:
            raise runner.Skip("process_vm_readv is not permitted here")
        self.head = dict(x.split("=") for x in head.split() if "=" in x)
        return stack.strip().split("\n"), head

    def __enter__(self):
        return self

    def __exit__(self, *a):
        self.p.kill()
        self.p.wait()
        self.p.stdout.close()
        self.dir.cleanup()


def case_still(py):
    with Program(py, STILL) as p:
        stack, head = p.dump()
        names = [re.sub(r".*: (.*\.)?", "", x) for x in stack]
        assert names == ["inner"] * 4 + ["method", "<module>"], (head, stack)
        lines = [int(re.search(r"\((\d+)\)", x).group(1)) for x in stack]
        assert lines == [int(p.said[1]), 7, 7, 7, 10, 11], (stack, p.said)
        assert all(x.startswith(p.path + "(") for x in stack), stack
        want = subprocess.run([py, "-c", "import sys; print('%x' % (sys.hexversion >> 16))"], stdout=subprocess.PIPE, universal_newlines=True).stdout.strip()
        assert p.head["version"] == want, (p.head, want)
        if p.head["version"] >= "30b":
            assert stack[0].endswith("Outer.method.<locals>.inner"), stack


def case_threads(py):
    with Program(py, THREADS) as p:
        for tid in p.said[1:]:
            stack, head = p.dump(int(tid))
            assert stack[0].endswith("(5): beside") and "threading.py" in stack[-1], (head, stack)
        stack, _ = p.dump()
        assert stack == [p.path + "(10): <module>"], stack
        stack, head = p.dump(1)  # no such thread
        assert stack == [""] and p.head["good"] == "0", (head, stack)


def case_deep(py):
    with Program(py, DEEP % 300) as p:
        stack, head = p.dump()
        assert len(stack) == 45 and stack[30] == "..." and stack[0].endswith("(7): down") and stack[-1].endswith("<module>"), (head, len(stack))
    with Program(py, DEEP % 2500) as p:  # beyond what is walked: no stack, no harm
        stack, head = p.dump()
        assert p.head["good"] == "0", (head, stack[:3])


def case_long(py):
    """What does not fit is left out of the middle: the innermost frame and the program itself stay."""
    with Program(py, LONG) as p:
        stack, head = p.dump()
        assert stack.count("...") == 1 and 8 < len(stack) < 20 and sum(len(x) + 1 for x in stack) < 4096, (head, len(stack))
        assert stack[0].split(": ")[0].endswith("(6)") and stack[-1].endswith("<module>") and stack[-2].split(": ")[0].endswith("(4)"), (head, stack)
        assert stack.index("...") > len(stack) / 2, stack


def case_busy(py):
    """A stack that changes all the time, of functions that come and go: most samples are good, none is nonsense."""
    with Program(py, BUSY) as p:
        stack, head = p.dump(n=3000)
        assert int(p.head["good"]) > 1000 and p.head["good"] == p.head["lines"], head
        assert all(re.match(r".*(prog|fresh)\.py\(\d+\): (leaf|mid|gen|<module>|fresh|<listcomp>|leaf\.<locals>\.<listcomp>)$", x) for x in stack), stack
        assert p.head["holder"] in (str(p.p.pid), "0") and p.head["lock"] == "0", head
        assert float(p.head["us"]) < 5000, head  # 10 to 60 without sanitizers


def case_callback(py):
    with Program(py, CALLBACK) as p:
        stack, _ = p.dump()
        assert [x.split(": ")[1] for x in stack] == ["key", "outer", "<module>"], stack


def case_unicode(py):
    with Program(py, UNICODE) as p:
        stack, _ = p.dump()
        assert stack[0].endswith("(5): na\u00efve_\u5b57"), stack


def case_lines(py):
    """Statements over several lines: the line that Python itself would name."""
    with Program(py, LINES) as p:
        stack, _ = p.dump()
        at = [int(re.search(r"\((\d+)\)", x).group(1)) for x in stack]
        assert at[0] == 11 and at[1] == 14, stack


def case_gone(py):
    """The process ends, or becomes another program, while it is read."""
    with Program(py, BUSY) as p:
        reader = subprocess.Popen([DUMP, str(p.p.pid), str(p.p.pid), "60000"], stdout=subprocess.PIPE, universal_newlines=True)
        time.sleep(0.3)
        p.p.send_signal(signal.SIGKILL)
        out, _ = reader.communicate(timeout=60)
        assert reader.returncode == 0 and "good=" in out, out
    with Program(py, "import os, sys, time\nprint('READY', flush=True)\ntime.sleep(0.8)\nos.execv('/bin/sleep', ['sleep', '100'])\n") as p:
        reader = subprocess.Popen([DUMP, str(p.p.pid), str(p.p.pid), "300000"], stdout=subprocess.PIPE, universal_newlines=True)
        out, _ = reader.communicate(timeout=120)
        assert reader.returncode == 0 and "good=" in out, out


def case_not_python(_):
    p = subprocess.Popen(["sleep", "100"])
    out = subprocess.run([DUMP, str(p.pid), str(p.pid)], stdout=subprocess.PIPE, universal_newlines=True)
    p.kill()
    p.wait()
    assert out.returncode == 1 and out.stdout.startswith("none: no Python"), out
    out = subprocess.run([DUMP, "999999999", "999999999"], stdout=subprocess.PIPE, universal_newlines=True)
    assert out.returncode == 1 and out.stdout.startswith("none:"), out


def interpreters():
    found, seen = [], set()
    for py in [sys.executable] + sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python"))) + ["/usr/bin/python3"]:
        text = subprocess.run([py, "-c", "import sys; print('%d.%d %s' % (sys.version_info[0], sys.version_info[1], sys.base_prefix if hasattr(sys, 'base_prefix') else ''))"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True).stdout.strip() if os.path.exists(py) else ""
        version = text.split(" ")[0]
        if version in ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14") and text not in seen:
            seen.add(text)
            found.append(py)
    return found


if __name__ == "__main__":
    sys.exit(runner.run([(py + " " + name, functools.partial(fn, py)) for py in sys.argv[2:] or interpreters()
                              for name, fn in runner.cases(globals())]))
