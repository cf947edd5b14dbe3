#!/usr/bin/env python3
"""The settings hook's notes of optimizer steps, with a small package that looks like torch where the hook looks.

usage: test_hook_steps.py HOOK_FOLDER
"""
import json
import os
import sys

import runner
import test_hook

PACKAGE = {
    "__init__.py": """
__version__ = '9.8.7'
class version: cuda = '13.0'
from . import cuda, optim, compiler
def get_num_threads(): return 7
ANOMALY = False
def is_anomaly_enabled(): return ANOMALY
""",
    "cuda/__init__.py": "STATE = []\ndef is_initialized(): return bool(STATE)\n",
    "compiler/__init__.py": "TRACING = []\ndef is_dynamo_compiling(): return bool(TRACING)\n",
    "optim/__init__.py": """
from .optimizer import Optimizer
class SGD(Optimizer):
    def step(self): return 'stepped'
""",
    # as torch does it: the class's step is wrapped when its first instance is made, and the wrapper runs the hooks
    "optim/optimizer.py": """
import functools
HOOKS = {}
def register_optimizer_step_post_hook(hook):
    HOOKS[len(HOOKS)] = hook
def profiled(step):
    @functools.wraps(step)
    def wrapper(self, *args, **kwargs):
        out = step(self, *args, **kwargs)
        for hook in HOOKS.values():
            assert hook(self, args, kwargs) is None
        return out
    return wrapper
class Optimizer:
    def __init__(self):
        if not getattr(type(self).step, 'hooked', False):
            type(self).step = profiled(type(self).step)
            type(self).step.hooked = True
""",
}


def job(**files):
    j = test_hook.Job(sys.executable)
    for name, text in dict(PACKAGE, **files).items():
        path = os.path.join(j.dir, "lib", "torch", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
    return j


def steps(j, pid=None):
    """Rows (time in us, optimizer, steps since its row before), and the lines."""
    rows, lines = [], [x for x in j.lines() if x["what"] == "steps"]
    if pid is not None:
        with open(os.path.join(j.rec, "hook-%d.jsonl" % pid)) as f:
            lines = [x for x in map(json.loads, f) if x["what"] == "steps"]
    for x in lines:
        t = x["at"] // 1000
        for i in range(len(x["us"]) + 1):
            t += x["us"][i - 1] if i else 0
            rows.append((t, x["of"][i] if "of" in x else 0, x["steps"][i] if "steps" in x else 1))
        assert x["n"] == sum(r[2] for r in rows), (x["n"], len(rows))
    return rows, lines


def settings(j):
    return [x for x in j.lines() if x["what"] == "torch"]


def case_times():
    """Each step has its time; few lines; the last ones are written when the job ends."""
    j = job().run("""
import time, torch
o = torch.optim.SGD()
a = time.time_ns()
for i in range(600):
    if i % 200 == 150: time.sleep(0.2)
    assert o.step() == 'stepped'
print(a // 1000, time.time_ns() // 1000)
""")
    assert j.status == 0 and j.err == "", j.err
    rows, lines = steps(j)
    first, last = map(int, j.out.split())
    assert len(rows) == 600 and len(lines) <= 10, (len(rows), len(lines))
    assert first <= rows[0][0] and rows[-1][0] <= last and rows == sorted(rows), (first, rows[0], rows[-1], last)
    assert [i for i in range(1, 600) if rows[i][0] - rows[i - 1][0] >= 200000] == [150, 350, 550]
    assert "of" not in lines[0] and "steps" not in lines[0], lines[0]
    j.close()


def case_once_a_second():
    """A slow job's steps are in the file while it runs."""
    j = job().run("""
import os, time, torch
o = torch.optim.SGD()
for i in range(12):
    o.step()
    time.sleep(0.3)
os._exit(0)
""")
    rows, lines = steps(j)
    assert 9 <= len(rows) <= 12 and len(lines) <= 6, (len(rows), len(lines))  # killed: no more than a second is lost
    j.close()


def case_settings():
    """Told without a DataLoader: after three steps, again when they changed, and at the end when CUDA was used."""
    code = "import torch\no = torch.optim.SGD()\nfor i in range(%d):\n    torch.ANOMALY = i >= 4\n    o.step()\n%s"
    j = job().run(code % (2, ""))
    assert not settings(j) and len(steps(j)[0]) == 2, j.lines()
    j.close()
    j = job().run(code % (3, ""))
    assert [x["anomaly"] for x in settings(j)] == [False] and settings(j)[0]["version"] == "9.8.7", j.lines()
    j.close()
    j = job().run(code % (10, ""))
    assert [x["anomaly"] for x in settings(j)] == [False, True], j.lines()
    j.close()
    j = job().run("import torch\ntorch.cuda.STATE.append(1)\ntorch.ANOMALY = True")
    assert [x["anomaly"] for x in settings(j)] == [True], j.lines()
    j.close()
    j = job().run("import torch")  # a process that only imports torch has nothing to say
    assert not j.lines(), j.lines()
    j.close()


def case_optimizers():
    """Several optimizers are told apart, sixteen at most."""
    j = job().run("""
import torch
class Other(torch.optim.Optimizer):
    def step(self): pass
a, b = torch.optim.SGD(), Other()
for i in range(30):
    a.step()
    if i % 3 == 0: b.step()
""")
    rows, _ = steps(j)
    assert [sum(1 for r in rows if r[1] == k) for k in (0, 1)] == [30, 10], rows
    j.close()
    j = job().run("import torch\nmany = [torch.optim.SGD() for _ in range(40)]\nfor _ in range(5):\n    for o in many: o.step()")
    rows, _ = steps(j)
    assert sorted({r[1] for r in rows}) == list(range(16)) and len(rows) == 80, len(rows)
    j.close()


def case_fork():
    """A forked child writes its own file, with its own steps."""
    j = job().run("""
import os, sys, torch
o = torch.optim.SGD()
for i in range(5): o.step()
pid = os.fork()
if pid == 0:
    for i in range(7): o.step()
    sys.exit(0)
os.waitpid(pid, 0)
for i in range(4): o.step()
print(os.getpid(), pid)
""")
    assert j.status == 0 and j.err == "", j.err
    parent, child = map(int, j.out.split())
    assert len(steps(j, parent)[0]) == 9 and len(steps(j, child)[0]) == 7, j.lines()
    j.close()


def case_threads():
    """Steps of several threads: each is counted once."""
    j = job().run("""
import threading, torch
def work():
    o = torch.optim.SGD()
    for i in range(3000): o.step()
t = [threading.Thread(target=work) for _ in range(4)]
for x in t: x.start()
for x in t: x.join()
""")
    rows, _ = steps(j)
    assert j.err == "" and 11990 <= len(rows) <= 12000, len(rows)  # one that falls between two lists may be lost
    j.close()


def case_compiled():
    """While Dynamo traces a step the hook is over after its first question."""
    j = job().run("""
import torch
torch.compiler.TRACING.append(1)
o = torch.optim.SGD()
for i in range(10): o.step()
""")
    assert j.status == 0 and not j.lines(), j.lines()
    j.close()


def case_versions():
    """Without the hook, or without the question whether a step is compiled, nothing is registered."""
    code = "import torch\nfrom torch.optim import optimizer\no = torch.optim.SGD()\nfor i in range(10): o.step()\nprint(len(optimizer.HOOKS))"
    for name, old, new, hooks in (("optim/optimizer.py", "def register_optimizer_step_post_hook", "def other", 0),
                                  ("compiler/__init__.py", "def is_dynamo_compiling", "def other", 0),
                                  ("compiler/__init__.py", "def is_dynamo_compiling", "def is_compiling", 1)):
        j = job(**{name: PACKAGE[name].replace(old, new)}).run(code)
        assert j.status == 0 and j.err == "" and j.out == "%d\n" % hooks, (name, j.out, j.err)
        assert bool(steps(j)[0]) == bool(hooks)
        j.close()


def case_unwritable():
    """A record that cannot be written costs the job nothing that it could notice."""
    for folder in ("/nonexistent/x", "/proc"):
        j = job().run("import torch\no = torch.optim.SGD()\nfor i in range(3000): o.step()\nprint('ok')", GPUWHY_HOOK=folder)
        assert j.out == "ok\n" and j.err == "", j.err
        j.close()


# A clock that runs as the test wants it, before the hook takes it.
CLOCK = """
import time
class Clock:
    t = 1790000000 * 10**9
    def __call__(self): return Clock.t
time.time_ns = Clock()
"""


def sparse(j, count, step_ns, more=""):
    """Runs `count` steps of `step_ns` on a clock of the test's own."""
    with open(os.path.join(j.dir, "clock.py"), "w") as f:
        f.write(CLOCK)
    # the hook's folder comes first on the path, so the clock is set by a start-up file that Python reads before sitecustomize
    code = "import torch\no = torch.optim.SGD()\nfrom clock import Clock\nfor i in range(%d):\n    Clock.t += %d\n    %s\n    o.step()\n" % (count, step_ns, more or "pass")
    runpy = "import sys, os; sys.path[:0] = [%r, %r]; import clock, runpy; runpy.run_path(%r); exec(%r)" % (
        j.dir, os.path.join(j.dir, "lib"), os.path.join(test_hook.HOOK, "sitecustomize.py"), code)
    return j.run(runpy, hook=False, GPUWHY_HOOK=j.rec)


def case_sparse():
    """After five minutes one time a second is kept, with the steps that it stands for, and long steps: the file stays small."""
    j = sparse(job(), 60000, 10**7)  # ten minutes of 10 ms
    assert j.status == 0 and j.err == "", j.err
    rows, lines = steps(j)
    assert len(rows) - 30001 in range(295, 302), len(rows)
    assert sum(r[2] for r in rows) >= 59900 and rows[-1][2] == 100, (sum(r[2] for r in rows), rows[-1])
    size = sum(os.path.getsize(os.path.join(j.rec, x)) for x in os.listdir(j.rec))
    assert size < 400000 and len(lines) < 320, (size, len(lines))
    j.close()
    j = sparse(job(), 60000, 10**7, "Clock.t += 10**8 * (i % 1000 == 500)")  # long ones stand alone, also late
    rows, _ = steps(j)
    long = [i for i in range(1, len(rows)) if rows[i][0] - rows[i - 1][0] == 110000]
    assert len(long) == 60 and all(rows[i][2] == 1 for i in long) and len(rows) < 31000, (len(long), len(rows))
    j.close()
    j = sparse(job(), 200000, 10**5)  # 20 s of 0.1 ms
    rows, _ = steps(j)
    assert len([r for r in rows if r[2] == 1]) in range(65280, 65540), len(rows)
    assert sum(r[2] for r in rows) > 185000, sum(r[2] for r in rows)
    j.close()


def case_clock_set_back():
    """A clock that is set back an hour: the times say so, no step is lost."""
    j = sparse(job(), 5000, 10**6, "Clock.t -= 3600 * 10**9 * (i == 2000)")
    rows, _ = steps(j)
    assert j.err == "" and len(rows) == 5000 and rows[2000][0] < rows[0][0], len(rows)
    j.close()


def case_cost():
    """Printed, not judged: what the hook adds to a step."""
    code = """
import time, torch
from torch.optim import optimizer
o = torch.optim.SGD()
for i in range(2000): o.step()
hook, best, one = optimizer.HOOKS.get(0), [], []
for _ in range(100):
    a = time.thread_time_ns()
    for i in range(512): o.step()
    b = time.thread_time_ns()
    best.append((b - a) / 512)
    if hook is not None:
        a = time.thread_time_ns()
        for i in range(50): hook(o, (), {})
        one.append((time.thread_time_ns() - a) / 50)
print(min(best), min(one) if one else 0)
"""
    (with_hook, one), (without, _) = (map(float, job().run(code, hook=hook).out.split()) for hook in (True, False))
    print("step hook: %.0f ns a call; at 256 steps a line, with the writing, %.0f ns a step" % (one, with_hook - without))


if __name__ == "__main__":
    sys.exit(runner.run(runner.cases(globals())))
