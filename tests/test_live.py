#!/usr/bin/env python3
"""`gpuwhy run` on small Python jobs that use a fake CUDA, with a package that looks like torch's loader: the verdict, the line.

usage: test_live.py BUILD_DIR [CASE...]
Verdicts that depend on free CPUs are asked for as a group: the machine may be busy.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import runner

BUILD = os.path.abspath(sys.argv[1])
FAKES = os.path.join(BUILD, "fakes")
HOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python", "gpuwhy_hook")

TORCH = {
    "__init__.py": "__version__ = '9.8.7'\nANOMALY = False\ndef is_anomaly_enabled(): return ANOMALY\n",
    "compiler/__init__.py": "def is_dynamo_compiling(): return False\n",
    "optim/__init__.py": "", "optim/optimizer.py": """
HOOKS = []
def register_optimizer_step_post_hook(hook): HOOKS.append(hook)
class Optimizer:
    def step(self):
        for hook in HOOKS: hook(self, (), {})
""",
    "utils/__init__.py": "", "utils/data/__init__.py": "from .dataloader import DataLoader\n", "utils/data/_utils/__init__.py": "",
    "utils/data/_utils/fetch.py": "def fetch(dataset, i):\n    return dataset[i]\n",
    "utils/data/_utils/worker.py": """
from . import fetch
def _worker_loop(dataset, tasks, results):
    while True:
        i = tasks.get()
        if i is None:
            break
        results.put(fetch.fetch(dataset, i))
""",
    "utils/data/dataloader.py": """
import multiprocessing
from ._utils import fetch, worker
class _SingleProcessDataLoaderIter:
    def __init__(self, loader): self.loader, self.i = loader, 0
    def __next__(self): return self._next_data()
    def _next_data(self):
        self.i += 1
        return fetch.fetch(self.loader.dataset, self.i)
class _MultiProcessingDataLoaderIter:
    def __init__(self, loader):
        ctx = multiprocessing.get_context('fork')
        self.tasks, self.results = ctx.Queue(), ctx.Queue()
        self.workers = [ctx.Process(target=worker._worker_loop, args=(loader.dataset, self.tasks, self.results), daemon=True) for _ in range(loader.num_workers)]
        for w in self.workers: w.start()
        for i in range(2 * loader.num_workers): self.tasks.put(i)
    def __next__(self): return self._next_data()
    def _next_data(self):
        data = self.results.get()
        self.tasks.put(0)
        return data
class DataLoader:
    def __init__(self, dataset, num_workers=0): self.dataset, self.num_workers = dataset, num_workers
    def __len__(self): return 10
    def __iter__(self): return (_MultiProcessingDataLoaderIter if self.num_workers else _SingleProcessDataLoaderIter)(self)
""",
}

JOB = """
import ctypes, sys, threading, time
from torch.utils.data import DataLoader
gpu = ctypes.CDLL('libcuda.so.1')
gpu.cuInit(0)

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(300))

class Decode:
    def __getitem__(self, i):
        burn(0.02)  # DECODE
        return i

class Read:
    def __getitem__(self, i):
        time.sleep(0.04)  # READ
        return i

def train(batches, extra=None, seconds=6):
    it, end, n = iter(batches), time.time() + seconds, 0
    while time.time() < end:
        next(it)
        if extra:
            extra()
        for name in (b'gemm', b'relu', b'norm', b'loss'):
            gpu.fake_launch(name, ctypes.c_uint64(20000), 0)
        n += 1
    print('steps', n)

class Nothing:
    def __getitem__(self, i): return i

def tokenise():
    burn(0.02)  # TOKENISE

def log_lines():
    while True:
        [str(x) for x in range(100000)]  # LOG

def save_checkpoint():
    end = time.time() + 1.5
    while time.time() < end:
        sum(range(1000))  # SAVE

def f1_score():
    burn(0.2)  # METRIC

def evaluates(anomaly=False):
    import torch, torch.compiler, torch.optim.optimizer
    torch.ANOMALY = anomaly
    optimizer, n = torch.optim.optimizer.Optimizer(), 0
    def step():
        nonlocal n
        burn(0.01)
        optimizer.step()
        n += 1
        if n % 5 == 0 and not anomaly:
            f1_score()
    train(DataLoader(Nothing()), step)

what = sys.argv[1]
if what == 'blocking':
    import os
    if 'CUDA_LAUNCH_BLOCKING' not in os.environ:
        os.execve(sys.executable, [sys.executable] + sys.argv, dict(os.environ, CUDA_LAUNCH_BLOCKING='1'))
    train(DataLoader(Nothing()), lambda: burn(0.01), 3)
elif what == 'evaluates': evaluates()
elif what == 'anomaly': evaluates(True)
elif what == 'main_loading': train(DataLoader(Decode()))
elif what == 'workers': train(DataLoader(Decode(), 2))
elif what == 'storage': train(DataLoader(Read(), 2))
elif what == 'preprocess': train(DataLoader(Nothing()), tokenise)
elif what == 'saves':
    for i in range(4):
        train(DataLoader(Nothing()), lambda: burn(0.0005), 2)
        save_checkpoint()
    train(DataLoader(Nothing()), lambda: burn(0.0005), 2)
elif what == 'lock':
    threading.Thread(target=log_lines, daemon=True).start()
    train(DataLoader(Nothing()), lambda: sum(range(30000)))
"""


class Job:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="gwlive-")
        self.rec, self.prog = os.path.join(self.dir, "rec"), os.path.join(self.dir, "job.py")
        for name, text in TORCH.items():
            path = os.path.join(self.dir, "torch", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as f:
                f.write(text)
        with open(self.prog, "w") as f:
            f.write(JOB)

    def line(self, mark):
        return JOB.split("# " + mark)[0].count("\n") + 1

    def run(self, what, *options, **more):
        env = dict(os.environ, LD_LIBRARY_PATH=FAKES, FAKE_CUPTI_LIB=os.path.join(FAKES, "libcupti.so.13"), GPUWHY_NVML=os.path.join(FAKES, "libnvidia-ml.so.1"),
                   ASAN_OPTIONS="detect_leaks=0:handle_segv=0", PYTHONPATH=self.dir)
        env.pop("CUDA_INJECTION64_PATH", None)
        env.update(more)
        p = subprocess.run([os.path.join(BUILD, "gpuwhy"), "run", "-o", self.rec, "--windows", "500ms,2s,2s,3s", "--no-report"] + list(options) +
                           ["--", sys.executable, self.prog, what], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=120)
        assert p.returncode == 0, (p.returncode, p.stderr)
        out = subprocess.run([os.path.join(BUILD, "gpuwhy"), "read", "-q", "--json", "-", self.rec], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        assert out.returncode == 0, out.stderr
        self.report = json.loads(out.stdout)
        return self

    def verdict(self):
        return self.report["verdict"]["finding"]

    def finding(self, name):
        return next((f for f in self.report["findings"] if f["id"] == name), None)

    def says(self):
        return self.report["verdict"]["sentence"], [(f["id"], f["where"][:2], [e["text"] for e in f["evidence"]]) for f in self.report["findings"]]

    def at(self, name, mark):
        f = self.finding(name)
        return f and any(w["file"] == self.prog and w["line"] == self.line(mark) for w in f["where"])

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)


def case_main_loading():
    j = Job().run("main_loading")
    assert j.verdict() == "main-process-loading", j.says()
    assert j.at("main-process-loading", "DECODE") or any("burn" in w["text"] or w["line"] in range(8, 12) for w in j.finding("main-process-loading")["where"]), j.says()
    return j


def case_workers():
    j = Job().run("workers")
    assert j.verdict() in ("too-few-workers", "workers-cpu-bound", "cpu-oversubscribed", "cpu-starved"), j.says()
    assert any("workers" in e["text"] for e in j.finding(j.verdict())["evidence"]) or j.verdict() == "cpu-starved", j.says()
    return j


def case_storage():
    j = Job().run("storage")
    assert j.verdict() == "slow-storage", j.says()
    assert j.at("slow-storage", "READ"), j.says()
    return j


def case_preprocess():
    j = Job().run("preprocess")
    assert j.verdict() == "main-thread-preprocess", j.says()
    assert any(w["file"] == j.prog for w in j.finding("main-thread-preprocess")["where"]), j.says()
    return j


def case_machine():
    """A real pool of workers: what the machine says stands beside what the job says, and nothing of it is left open."""
    j = Job().run("storage", CUDA_LAUNCH_BLOCKING="1")
    assert j.verdict() == "slow-storage", j.says()
    debug = j.finding("debug-mode")
    assert debug and debug["gain"]["likely"] is None and any("CUDA_LAUNCH_BLOCKING=1" in e["text"] for e in debug["evidence"]), j.says()
    still = {n["id"] for n in j.report["not_evaluated"]}
    assert not still & {"shm-small", "memlock", "debug-mode"}, still
    return j


def case_lock():
    j = Job().run("lock")
    assert j.finding("gil-contention") and j.at("gil-contention", "LOG"), j.says()
    return j


def case_checkpoints_between_windows():
    """6 of 16 s, and none in the only window: the samples of the whole run show them, and other gains shrink."""
    j = Job().run("saves", "--windows", "500ms,1s,60s,60s")
    f = j.finding("checkpoint")
    assert f and j.at("checkpoint", "SAVE"), j.says()
    assert 1.2 < f["gain"]["likely"] < 2.2 and f["gain"]["low"] < f["gain"]["likely"] < f["gain"]["high"] < 3, f["gain"]
    assert any("of the whole run" in n or "gains are those of the run" in n for n in j.report["trust"]["notes"]), j.report["trust"]["notes"]
    return j


def case_no_stacks():
    """Without stacks the workers' states still tell that they sleep."""
    j = Job().run("storage", "--no-stacks")
    assert j.verdict() in ("slow-storage", "loader-starved", "main-thread-preprocess"), j.says()
    return j


def case_no_gpu_records():
    """NVML and threads alone: a verdict, and a word about what it rests on."""
    j = Job().run("storage", "--no-gpu-records")
    assert "rests on NVML" in j.report["verdict"]["sentence"], j.says()
    assert not j.report["devices"], j.report["devices"]
    return j


def case_evaluation():
    """No GPU records, and an optimizer that tells its steps: what comes back every fifth step, its line, and what a step would take."""
    j = Job().run("evaluates", "--no-gpu-records")
    f, s = j.finding("evaluation"), j.report["steps"]
    assert j.verdict() == "evaluation" and j.at("evaluation", "METRIC") or any("burn" in w["text"] for w in f["where"]), j.says()
    assert s["found_by"] == "optimizer-calls" and s["count"] > 50 and s["median_ns"] < 40e6 < s["mean_ns"] and len(s["times_ns"]) == s["count"], s
    assert f["step"]["now_ns"] == s["mean_ns"] and f["step"]["then_low_ns"] < s["mean_ns"] / 1.5, f["step"]
    text = subprocess.run([os.path.join(BUILD, "gpuwhy"), "read", "-q", "--lang", "en", j.rec], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
    assert "a step (p95" in " ".join(text.split()) and "steps a second" in " ".join(text.split()), text
    return j


def case_no_hook_no_steps():
    """--no-hook: nothing of the above, and no file of the hook's."""
    j = Job().run("evaluates", "--no-gpu-records", "--no-hook")
    assert j.report["steps"]["found_by"] == "none" and not any(n.startswith("hook-") for n in os.listdir(j.rec)), j.says()
    return j


def case_anomaly():
    """A mode that the job switched on by itself; the hook asked torch, though there is no DataLoader whose epoch begins."""
    j = Job().run("anomaly", "--no-gpu-records")
    f = j.finding("debug-mode")
    assert f and "set_detect_anomaly" in f["fix"][0]["do"] and f["gain"]["likely"] > 1.1, j.says()
    return j


def case_environment_of_the_program():
    """The job's first program becomes another one with a variable of its own: that one's environment counts."""
    j = Job().run("blocking")
    text = subprocess.run([os.path.join(FAKES, "record_dump"), "-v", os.path.join(j.rec, "record.gwr")], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
    facts = [x for x in text.splitlines() if x.startswith("env")]
    again = [i for i, x in enumerate(facts) if x.startswith("env_of=")]
    assert len(again) > 1 and facts[again[-1] + 1:] and facts[-1].endswith(".CUDA_LAUNCH_BLOCKING=1"), facts
    assert not any("BLOCKING" in x for x in facts[:again[1]]), facts
    return j


if __name__ == "__main__":
    if not os.path.exists(os.path.join(FAKES, "libcupti.so.13")):
        sys.exit(77)
    sys.exit(runner.run(runner.cases(globals(), sys.argv[2:])))
