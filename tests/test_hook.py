#!/usr/bin/env python3
"""The settings hook, with a small package that looks like torch where the hook looks.

usage: test_hook.py HOOK_FOLDER [PYTHON...]     PYTHON: interpreters to test with besides this one
"""
import functools
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

import runner

HOOK = os.path.abspath(sys.argv[1])

FAKE = {
    "__init__.py": """
__version__ = '9.8.7'
class version: cuda = '13.0'
from . import backends, utils, autograd
def get_float32_matmul_precision(): return 'highest'
def get_num_threads(): return 7
def is_anomaly_enabled(): return False
""",
    "backends/__init__.py": """
class cudnn:
    benchmark = True
    allow_tf32 = True
class cuda:
    class matmul:
        @property
        def allow_tf32(self): raise RuntimeError('mixed use of old and new settings')
    matmul = matmul()
""",
    "utils/__init__.py": "from . import data\n",
    "utils/data/__init__.py": "from .dataloader import DataLoader, IterableDataset\nfrom .distributed import DistributedSampler\n",
    "utils/data/dataloader.py": """
class IterableDataset: pass
class BatchSampler:
    def __init__(self, sampler): self.sampler = sampler
class RandomSampler: pass
class DataLoader:
    def __init__(self, dataset, batch_size=1, num_workers=0, sampler=None, batch_sampler=None, pin_memory=False, prefetch_factor=None):
        self.dataset, self.batch_size, self.num_workers, self.pin_memory = dataset, batch_size, num_workers, pin_memory
        self.prefetch_factor, self.persistent_workers, self.drop_last = prefetch_factor, False, False
        self.sampler = sampler or RandomSampler()
        self.batch_sampler = batch_sampler or BatchSampler(self.sampler)
    def __len__(self): return len(self.dataset) // self.batch_size
    def __iter__(self):
        'the real one'
        return iter(range(len(self)))
""",
    "utils/data/distributed.py": """
class DistributedSampler:
    def __init__(self): self.epoch, self.num_replicas = 0, 2
    def set_epoch(self, epoch): self.epoch = epoch
""",
    "autograd/__init__.py": "from . import profiler\n",
    "autograd/profiler.py": """
LOG = []
class profile:
    def __enter__(self):
        self._prepare_trace()
        LOG.append('enter')
        return self
    def _prepare_trace(self): LOG.append('prepare')
    def __exit__(self, *a):
        LOG.append('exit')
        return None
""",
}


class Job:
    def __init__(self, py):
        self.py, self.dir = py, tempfile.mkdtemp(prefix="gwhook-")
        self.rec = os.path.join(self.dir, "rec")
        os.mkdir(self.rec)
        for name, text in FAKE.items():
            path = os.path.join(self.dir, "lib", "torch", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as f:
                f.write(text)

    def run(self, code, hook=True, **env):
        e = dict(os.environ, PYTHONPATH=os.pathsep.join(([HOOK] if hook else []) + [os.path.join(self.dir, "lib")]), PYTHONDONTWRITEBYTECODE="1")
        e.pop("CUDA_INJECTION64_PATH", None)
        if hook:
            e["GPUWHY_HOOK"] = self.rec
        e.update(env)
        p = subprocess.run([self.py, "-c", code], env=e, cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=60)
        self.out, self.err, self.status = p.stdout, p.stderr, p.returncode
        return self

    def lines(self):
        out = []
        for path in sorted(glob.glob(os.path.join(self.rec, "hook-*.jsonl"))):
            with open(path) as f:
                out += [json.loads(x) for x in f]
        return out

    def loader(self, number=1):
        merged = {}
        for x in self.lines():
            if x["what"] == "loader" and x["id"] == number:
                merged.update(x)
        return merged

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)


def case_settings(py):
    j = Job(py).run("""
import torch
from torch.utils.data import DataLoader
d = DataLoader(list(range(100)), batch_size=10, num_workers=4, pin_memory=True, prefetch_factor=2)
for epoch in range(4):
    assert list(d) == list(range(10))
print(DataLoader.__iter__.__doc__, type(torch.utils.data.dataloader.__loader__).__name__)
""")
    assert j.status == 0 and j.err == "", j.err
    assert j.out.startswith("the real one SourceFileLoader"), j.out
    x = j.loader()
    want = {"num_workers": 4, "pin_memory": True, "persistent_workers": False, "prefetch_factor": 2, "batch_size": 10, "sampler": "RandomSampler",
            "dataset": "list", "iterable": False, "distributed": False, "length": 10, "epochs": 4, "set_epoch": 0}
    assert {k: x.get(k) for k in want} == want, x
    t = [x for x in j.lines() if x["what"] == "torch"]
    assert len(t) == 1 and t[0]["version"] == "9.8.7" and t[0]["cudnn_benchmark"] is True and t[0]["threads"] == 7, t
    assert "matmul_tf32" not in t[0], t  # a setting that cannot be read is left out
    j.close()


def case_set_epoch(py):
    code = """
from torch.utils.data import DataLoader, DistributedSampler
s = DistributedSampler()
d = DataLoader(list(range(100)), batch_size=10, sampler=s)
for epoch in range(3):
    %s
    for _ in d: pass
print(s.epoch)
"""
    j = Job(py).run(code % "s.set_epoch(epoch)")
    assert j.out == "2\n" and j.loader()["set_epoch"] == 3 and j.loader()["distributed"] is True, (j.err, j.lines())
    j.close()
    j = Job(py).run(code % "pass")
    assert j.loader()["set_epoch"] == 0 and j.loader()["epochs"] == 3, j.lines()
    j.close()


def case_own_samplers(py):
    """A sampler class of the job is counted too; a batch sampler of its own leaves the question open."""
    j = Job(py).run("""
from torch.utils.data import DataLoader, IterableDataset
class MySplit:
    num_replicas = 2
    def set_epoch(self, e): self.e = e
class MyBatches: pass
s = MySplit()
d = DataLoader(list(range(10)), sampler=s)
for e in range(3):
    s.set_epoch(e)
    for _ in d: pass
for _ in DataLoader(list(range(10)), batch_sampler=MyBatches()): pass
class Stream(IterableDataset):
    def __len__(self): return 5
for _ in DataLoader(Stream()): pass
""")
    assert j.status == 0, j.err
    assert j.loader(1)["set_epoch"] == 2 and j.loader(1)["distributed"] is True, j.loader(1)  # the first call came before the first epoch
    assert "distributed" not in j.loader(2) and j.loader(2)["sampler"] == "MyBatches", j.loader(2)
    assert j.loader(3)["iterable"] is True and "length" not in j.loader(3), j.loader(3)
    j.close()


def case_many_epochs(py):
    """A loader of one batch an epoch, ten thousand times: few lines, right count, no slow-down worth a word."""
    j = Job(py).run("""
from torch.utils.data import DataLoader
d = DataLoader([1])
for _ in range(10000):
    for _ in d: pass
""")
    assert j.loader()["epochs"] == 10000 and len(j.lines()) < 20, len(j.lines())
    j.close()


def case_chain(py):
    """The job's own sitecustomize runs, once, is the module that others see, and its errors show as without us."""
    j = Job(py)
    site = os.path.join(j.dir, "lib", "sitecustomize.py")
    with open(site, "w") as f:
        f.write("import builtins\nbuiltins.mine = getattr(builtins, 'mine', 0) + 1\nWHO = 'job'\n")
    code = "import sitecustomize, sys, builtins; print(sitecustomize.WHO, builtins.mine, [p for p in sys.path if 'gpuwhy_hook' in p])"
    j.run(code)
    assert j.out == "job 1 []\n", (j.out, j.err)
    with open(site, "w") as f:
        f.write("import no_such_module\n")
    with_us, without = j.run("print(1)").err, j.run("print(1)", hook=False).err
    assert "no_such_module" in with_us and "no_such_module" in without and j.out == "1\n", (with_us, without)
    j.close()
    j = Job(py).run("import sys; print(sys.path[0] == '', len([p for p in sys.path if 'gpuwhy_hook' in p]))")
    assert j.out == "True 0\n" and j.err == "", (j.out, j.err)
    j.close()


def case_harmless(py):
    """No folder, no room, or no torch: nothing is written and nothing is said."""
    code = "from torch.utils.data import DataLoader\nfor _ in DataLoader([1, 2]): pass\nprint('ok')"
    for folder in ("/nonexistent/x", "/proc", ""):
        j = Job(py).run(code, GPUWHY_HOOK=folder)
        assert j.out == "ok\n" and j.err == "" and j.status == 0, (folder, j.err)
        j.close()
    j = Job(py).run("import json, multiprocessing; print('ok')")
    assert j.out == "ok\n" and j.err == "" and not j.lines()
    j.close()
    j = Job(py).run(code.replace("for _ in DataLoader([1, 2])", "class D(DataLoader):\n    __hash__ = None\n    __slots__ = ()\nfor _ in D([1, 2])"))
    assert j.out == "ok\n" and j.err == "", j.err
    j.close()


def case_broken_torch(py):
    """A torch whose import fails: the job sees that very failure."""
    j = Job(py)
    with open(os.path.join(j.dir, "lib", "torch", "utils", "data", "dataloader.py"), "w") as f:
        f.write("raise RuntimeError('broken build')\n")
    j.run("import torch")
    assert j.status == 1 and "RuntimeError: broken build" in j.err, j.err
    j.close()
    j = Job(py)
    with open(os.path.join(j.dir, "lib", "torch", "utils", "data", "dataloader.py"), "w") as f:
        f.write("class Other: pass\nDataLoader = IterableDataset = None\n")
    j.run("import torch; print('ok')")
    assert j.out == "ok\n" and j.err == "", j.err
    j.close()


def case_warnings(py):
    """What the hook reads may warn; the job's own warnings come as often as without it."""
    code = ("import warnings, torch\nfrom torch.utils.data import DataLoader\n"
            "def old(): warnings.warn('old API'); return 'highest'\ntorch.get_float32_matmul_precision = old\n"
            "class Data(list):\n    def __len__(self): warnings.warn('length is slow'); return 4\n"
            "for epoch in range(5):\n    for b in DataLoader(Data()): warnings.warn('mine')\n    torch.get_float32_matmul_precision()\n"
            "print(len([f for f in warnings.filters if f[:3] == ('ignore', None, Warning)]))\n")
    j = Job(py).run(code)
    seen = [text for text in ("mine", "old API", "length is slow") for line in j.err.splitlines() if line.endswith("Warning: " + text)]
    if version(py) < (3, 7):  # it remembers what it ignored as shown
        seen = ["mine"] + ["old API", "length is slow"] if seen == ["mine"] else seen
    assert j.out == "0\n" and seen == ["mine", "old API", "length is slow"], (j.out, j.err)
    assert [x["matmul_precision"] for x in j.lines() if x["what"] == "torch"] == ["highest"], j.lines()
    j.close()


def case_objects_that_exit(py):
    """An attribute whose reading raises SystemExit ends nobody."""
    j = Job(py).run("from torch.utils.data import DataLoader\nclass Odd(DataLoader):\n"
                    "    def __getattribute__(self, name):\n        if name in ('batch_sampler', 'num_workers'): raise SystemExit(name)\n"
                    "        return super().__getattribute__(name)\nprint(len(list(Odd([1, 2, 3]))))\n")
    assert j.out == "3\n" and j.status == 0, (j.out, j.err, j.status)
    j.close()


def case_fork(py):
    """Forked children do not write into their parent's file."""
    j = Job(py).run("""
import os
from torch.utils.data import DataLoader
d = DataLoader([1, 2])
for _ in d: pass
pid = os.fork()
if pid == 0:
    for _ in d: pass
    os._exit(0)
os.waitpid(pid, 0)
print(os.getpid())
""")
    files = glob.glob(os.path.join(j.rec, "hook-*.jsonl"))
    assert len(files) == 2, files
    with open(os.path.join(j.rec, "hook-%s.jsonl" % j.out.strip())) as f:
        assert [json.loads(x)["epochs"] for x in f if "epochs" in x][-1] == 1
    j.close()


PROFILER = """
import ctypes, os
calls = []
class Lib:
    def gpuwhy_inject_pause(self, on): calls.append(on)
real, want = ctypes.CDLL, os.environ['CUDA_INJECTION64_PATH']
ctypes.CDLL = lambda path, mode=0, **k: Lib() if path == want and mode & os.RTLD_NOLOAD else real(path, mode, **k)
from torch.autograd import profiler
with profiler.profile() as p:
    assert calls == [1], calls
    with profiler.profile(): pass
    assert calls == [1], calls
print(calls, profiler.LOG)
try:
    with profiler.profile(): raise ValueError
except ValueError: print(calls)
"""


def case_profiler(py):
    """While torch.profiler is on the recorder pauses; nested ones count once."""
    j = Job(py).run(PROFILER, CUDA_INJECTION64_PATH="/somewhere/libgpuwhy_inject.so")
    assert j.status == 0, j.err
    assert j.out == "[1, 0] ['prepare', 'enter', 'prepare', 'enter', 'exit', 'exit']\n[1, 0, 1, 0]\n", j.out
    assert [x["on"] for x in j.lines() if x["what"] == "profiler"] == [True, False, True, False]
    j.close()
    j = Job(py).run("from torch.autograd import profiler\nwith profiler.profile(): print('ok')", CUDA_INJECTION64_PATH="/nonexistent/libgpuwhy_inject.so")
    assert j.out == "ok\n" and j.err == "", j.err
    j.close()


def case_old_python(py):
    """What is too old for the hook runs as without it."""
    j = Job(py).run("print('ok')")
    assert j.out == "ok\n" and j.err == "", j.err
    j.close()


def version(py):
    text = subprocess.run([py, "-c", "import sys; print('%d %d' % sys.version_info[:2])"], stdout=subprocess.PIPE, universal_newlines=True).stdout
    return tuple(int(x) for x in text.split()) if text else (0, 0)


if __name__ == "__main__":
    sys.exit(runner.run([(py + " " + name, functools.partial(fn, py)) for py in [sys.executable] + sys.argv[2:]
                              for name, fn in runner.cases(globals(), ["old_python"] if version(py) < (3, 6) else [])]))
