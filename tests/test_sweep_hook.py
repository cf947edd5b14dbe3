#!/usr/bin/env python3
"""What the hook does for `gpuwhy sweep`: settings put into DataLoaders, marks of batches, the loader or the model alone.

usage: test_sweep_hook.py HOOK_FOLDER [PYTHON...]     PYTHON: interpreters to test with besides this one, perhaps with torch

With a small package that refuses what torch refuses; and once more with torch itself, where an interpreter has it.
"""
import functools
import glob
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

import runner

HOOK = os.path.abspath(sys.argv[1])

# The rules of torch.utils.data.dataloader that matter here.
FAKE = """
class _BaseDataLoaderIter:
    def __init__(self, loader): self.left, self.loader, self.ended = list(loader.batches()), loader, False
    def __iter__(self): return self
    def __next__(self):
        if not self.left: raise StopIteration
        return self.left.pop(0)
    def _shutdown_workers(self): self.ended = True
class IterableDataset: pass
class DataLoader:
    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0, collate_fn=None,
                 pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None, multiprocessing_context=None, generator=None,
                 *, prefetch_factor=None, persistent_workers=False):
        if num_workers == 0 and prefetch_factor is not None: raise ValueError('prefetch_factor needs workers')
        if num_workers == 0 and persistent_workers: raise ValueError('persistent_workers option needs num_workers > 0')
        if num_workers == 0 and multiprocessing_context: raise ValueError('multiprocessing_context needs workers')
        if num_workers > 99: raise RuntimeError('too many')
        self.dataset, self.batch_size, self.num_workers, self.prefetch_factor = dataset, batch_size, num_workers, prefetch_factor
        self.pin_memory, self.persistent_workers, self.timeout, self.drop_last = pin_memory, persistent_workers, timeout, drop_last
        self.sampler = self.batch_sampler = None
        self._iterator = None
    def batches(self): return [self.dataset[i:i + self.batch_size] for i in range(0, len(self.dataset), self.batch_size)]
    def __len__(self): return len(self.batches())
    def __iter__(self): return _BaseDataLoaderIter(self)
"""


class Job:
    def __init__(self, py, fake=True):
        self.py, self.dir = py, tempfile.mkdtemp(prefix="gwhook-")
        self.rec, lib = os.path.join(self.dir, "rec"), os.path.join(self.dir, "lib", "torch", "utils", "data")
        os.mkdir(self.rec)
        os.makedirs(lib)
        if fake:
            for path, text in ((os.path.join(lib, "dataloader.py"), FAKE), (os.path.join(lib, "__init__.py"), "from .dataloader import DataLoader\n"),
                               (os.path.join(self.dir, "lib", "torch", "utils", "__init__.py"), ""), (os.path.join(self.dir, "lib", "torch", "__init__.py"), "from .utils import data\n")):
                with open(path, "w") as f:
                    f.write(text)
        else:
            shutil.rmtree(os.path.join(self.dir, "lib"))

    def run(self, code, timeout=60, **env):
        path = [HOOK, os.path.join(self.dir, "lib")] + ([os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else [])
        e = dict(os.environ, PYTHONPATH=os.pathsep.join(path), GPUWHY_HOOK=self.rec, PYTHONDONTWRITEBYTECODE="1", **env)
        e.pop("CUDA_INJECTION64_PATH", None)
        p = subprocess.Popen([self.py, "-c", code], env=e, cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        try:
            self.out, self.err = p.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            p.kill()
            self.out, self.err = p.communicate()
        self.status = p.returncode
        return self

    def notes(self):
        out = []
        for path in glob.glob(os.path.join(self.rec, "hook-*.jsonl")):
            with open(path) as f:
                out += [x for x in map(json.loads, f) if x["what"] == "sweep"]
        return out

    def marks(self):
        out = []
        for path in glob.glob(os.path.join(self.rec, "marks-*")):
            with open(path, "rb") as f:
                data = f.read()
            out += struct.unpack("=%dq" % (len(data) // 8), data)
        assert out == sorted(out)
        return out

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)


START = "from torch.utils.data import DataLoader\n"
SHOW = "print(d.num_workers, d.prefetch_factor, d.pin_memory, d.persistent_workers)\n"


def case_settings(py):
    wanted = dict(GPUWHY_LOADER_WORKERS="3", GPUWHY_LOADER_PREFETCH="7", GPUWHY_LOADER_PIN="1", GPUWHY_LOADER_PERSISTENT="1")
    for made in ("DataLoader([1, 2])", "DataLoader([1, 2], 1, None, None, None, 5, None, False)", "DataLoader([1, 2], num_workers=2, prefetch_factor=2)",
                 "type('Own', (DataLoader,), {})(dataset=[1, 2])"):
        j = Job(py).run(START + "d = " + made + "\n" + SHOW + "print([list(b) for b in d])", **wanted)
        assert j.out == "3 7 True True\n[[1], [2]]\n" and j.err == "", (made, j.out, j.err)
        assert j.notes() == [{"what": "sweep", "applied": True}], j.notes()
        j.close()


def case_no_workers(py):
    """Arguments that need workers go with them."""
    j = Job(py).run(START + "d = DataLoader([1], num_workers=4, prefetch_factor=2, persistent_workers=True, timeout=9, multiprocessing_context='fork')\n" + SHOW +
                    "print(d.timeout)", GPUWHY_LOADER_WORKERS="0", GPUWHY_LOADER_PREFETCH="4")
    assert j.out == "0 None False False\n0\n" and j.err == "", (j.out, j.err)
    j.close()


def case_refused(py):
    """What the loader refuses leaves it as the script wrote it; what is wrong in the script is the script's."""
    j = Job(py).run(START + "d = DataLoader([1], num_workers=2)\n" + SHOW, GPUWHY_LOADER_WORKERS="100")
    assert j.out == "2 None False False\n" and j.err == "", (j.out, j.err)
    assert j.notes() == [{"what": "sweep", "applied": False, "error": "too many"}], j.notes()
    j.close()
    j = Job(py).run(START + "DataLoader()", GPUWHY_LOADER_WORKERS="1")
    assert j.status == 1 and "TypeError" in j.err and "dataset" in j.err, j.err
    j.close()
    j = Job(py).run(START + "d = DataLoader([1], num_workers=2)\n" + SHOW, GPUWHY_LOADER_WORKERS="many", GPUWHY_LOADER_PIN="")
    assert j.out == "2 None False False\n" and j.notes() == [], (j.out, j.notes())
    j.close()


def case_marks(py):
    j = Job(py).run(START + "for e in range(3):\n  for b in DataLoader(list(range(10)), 2): pass\n", GPUWHY_LOADER_MARKS="1")
    assert len(j.marks()) == 15 and j.err == "", (j.marks(), j.err)
    j.close()
    j = Job(py).run(START + "for b in DataLoader(list(range(10)), 2): pass\n")
    assert j.marks() == [] and j.notes() == []
    j.close()


def case_marks_cannot_be_written(py):
    j = Job(py)
    os.rmdir(j.rec)
    j.run(START + "print(len(list(DataLoader(list(range(10)), 2))))\n", GPUWHY_LOADER_MARKS="1", GPUWHY_LOADER_WORKERS="1", GPUWHY_LOADER_ALONE="model")
    assert j.out == "5\n" and j.err == "", (j.out, j.err)
    j.close()


def case_loader_alone(py):
    """Batches come and come, and none reaches the script; an empty loader is shown to it."""
    j = Job(py).run(START + "for b in DataLoader(list(range(10)), 2): print('a step')\n", timeout=2, GPUWHY_LOADER_ALONE="loader", GPUWHY_LOADER_MARKS="1")
    assert j.out == "" and j.err == "" and len(j.marks()) > 100, (j.out, j.err)
    assert j.notes() == [{"what": "sweep", "alone": "loader", "dataset": "list", "batch_size": 2}], j.notes()
    j.close()
    j = Job(py).run(START + "print(list(DataLoader([], 2)))\n", GPUWHY_LOADER_ALONE="loader", GPUWHY_LOADER_MARKS="1")
    assert j.out == "[]\n", j.out
    j.close()


def case_model_alone(py):
    """The first batch again and again, as many as the loader has, and its workers end."""
    j = Job(py).run("import torch\n" + START + "L = torch.utils.data.dataloader\nends = []\n"
                    "L._BaseDataLoaderIter._shutdown_workers = lambda self: ends.append(1)\n"
                    "d = DataLoader(list(range(10)), 2)\nfor e in range(2): print([list(b) for b in d])\nprint(len(ends), list(DataLoader([])))\n",
                    GPUWHY_LOADER_ALONE="model", GPUWHY_LOADER_MARKS="1")
    assert j.out == "[[0, 1], [0, 1], [0, 1], [0, 1], [0, 1]]\n" * 2 + "1 []\n", (j.out, j.err)
    assert len(j.marks()) == 10, j.marks()
    j.close()


def case_other_torch(py):
    """A torch that is built otherwise is left alone."""
    j = Job(py)
    with open(os.path.join(j.dir, "lib", "torch", "utils", "data", "dataloader.py"), "w") as f:
        f.write("class DataLoader:\n    def __init__(self, data): self.data = data\n    def __iter__(self): return iter(self.data)\n")
    j.run(START + "print(list(DataLoader([1, 2])))", GPUWHY_LOADER_WORKERS="2", GPUWHY_LOADER_MARKS="1")
    assert j.out == "[1, 2]\n" and j.err == "", (j.out, j.err)
    j.close()


def case_real_torch(py):
    j = Job(py, fake=False)
    code = ("import os\nfrom torch.utils.data import DataLoader\nclass D:\n  def __len__(self): return 12\n  def __getitem__(self, i): return os.getpid()\n"
            "d = DataLoader(D(), batch_size=2)\nn = [set(b.tolist()) for b in d]\nprint(len(n), os.getpid() in set.union(*n), d.num_workers)\n")
    if "No module named" in j.run("import torch").err:
        j.close()
        raise runner.Skip("no torch here")
    j.run(code, GPUWHY_LOADER_WORKERS="2", GPUWHY_LOADER_PREFETCH="3", GPUWHY_LOADER_PERSISTENT="1", GPUWHY_LOADER_MARKS="1")
    assert j.out == "6 False 2\n", (j.out, j.err)
    assert len(j.marks()) == 6 and j.notes()[0]["applied"] is True, (j.marks(), j.notes())
    j.close()
    j = Job(py, fake=False).run(code, GPUWHY_LOADER_WORKERS="0", GPUWHY_LOADER_ALONE="model", GPUWHY_LOADER_MARKS="1")
    assert j.out == "6 True 0\n" and len(j.marks()) == 6, (j.out, j.err)
    j.close()
    j = Job(py, fake=False).run(code, timeout=8, GPUWHY_LOADER_ALONE="loader", GPUWHY_LOADER_MARKS="1")
    assert j.out == "" and len(j.marks()) > 20, (j.out, j.err)
    j.close()


if __name__ == "__main__":
    sys.exit(runner.run([(py + " " + name, functools.partial(fn, py)) for py in [sys.executable] + sys.argv[2:]
                              for name, fn in runner.cases(globals())]))
