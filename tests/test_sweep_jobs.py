#!/usr/bin/env python3
"""`gpuwhy sweep` with real jobs: pools of worker processes whose knee is known, and jobs that fail, hang, drift and make noise.

usage: test_sweep_jobs.py BUILD_DIR [NAME...]

The jobs sleep instead of computing, so that a knee is where it is put also on a busy machine with two CPUs. Cases run in
parallel for the same reason.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import runner

BUILD = os.path.abspath(sys.argv[1])
GPUWHY = os.path.join(BUILD, "gpuwhy")
PY = sys.executable
QUICK = ["--least", "0.6s", "--point-limit", "6s", "--precision", "3"]

# A loader with worker processes in front of a model: workers * 1/PREPARE batches a second against 1/STEP.
POOL = """
import multiprocessing, sys, time
workers, prepare, step = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
def work(queue):
    while True:
        time.sleep(prepare)
        queue.put(1)
queue = multiprocessing.Queue(maxsize=2 * workers + 1)
for _ in range(workers):
    multiprocessing.Process(target=work, args=(queue,), daemon=True).start()
ready = time.monotonic()
while True:
    queue.get() if workers else time.sleep(prepare)
    ready = max(ready, time.monotonic()) + step      # the model is busy until then
    time.sleep(max(0, ready - time.monotonic()))
    print("step")
"""

# A batch on a GPU with so much memory: time of a step grows with the batch, and too large a one fails as PyTorch does.
BATCH = """
import sys, time
batch, limit = int(sys.argv[1]), int(sys.argv[2])
time.sleep(0.1)
if batch > limit:
    sys.stderr.write('Traceback (most recent call last):\\n  File "train.py", line 7, in <module>\\n'
                     'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.\\n')
    sys.exit(1)
while True:
    time.sleep(0.02 + batch * 0.0001)
    print("loss 0.5")
"""


class Sweep:
    def __init__(self, script=POOL):
        self.dir = tempfile.mkdtemp(prefix="gwsweep-")
        self.script = os.path.join(self.dir, "job.py")
        with open(self.script, "w") as f:
            f.write(script)

    def command(self, options, args):
        return [GPUWHY, "sweep", "--json", os.path.join(self.dir, "out.json")] + QUICK + list(options) + ["--", PY, self.script] + [str(a) for a in args]

    def env(self):
        return dict(os.environ, TMPDIR=self.dir, LC_ALL="C.UTF-8", PYTHONDONTWRITEBYTECODE="1", ASAN_OPTIONS="detect_leaks=0", GPUWHY_NVML="/nonexistent")

    def run(self, options, args, status=0, timeout=100):
        p = subprocess.run(self.command(options, args), cwd=self.dir, env=self.env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, universal_newlines=True, timeout=timeout)
        self.out, self.err = p.stdout, p.stderr
        assert p.returncode == status, (p.returncode, p.stdout, p.stderr)
        path = os.path.join(self.dir, "out.json")
        if os.path.exists(path):
            with open(path) as f:
                self.json = json.load(f)
            self.verdict = self.json["verdict"]
            self.points = {",".join("%g" % v if isinstance(v, float) else str(v) for v in x["setting"].values()): x for x in self.json["points"]}
        return self

    def close(self):
        left = [x for x in os.listdir(self.dir) if x.startswith("gpuwhy-sweep-")]
        assert not left, left
        assert not self.processes(), self.processes()
        shutil.rmtree(self.dir)

    def processes(self):
        out = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as f:
                    if self.script.encode() in f.read() and int(pid) != os.getpid():
                        out.append(pid)
            except OSError:
                pass
        return out


# --- the knee ----------------------------------------------------------------------------------------------------------


def case_knee_of_a_pool():
    """50 batches a second at most, 12.5 of each worker: the fourth is the last that brings something."""
    s = Sweep().run(["--vary", "workers=0..15", "--metric", "lines"], ["{workers}", 0.08, 0.02])
    assert s.verdict["kind"] == "knee", s.out
    assert abs(s.verdict["knee"]["workers"] - 4) <= 1, s.out
    assert abs(s.points["0"]["rate"] - 10) < 1.5, s.out
    runs = sum(len(p["runs"]) for p in s.json["points"])
    assert runs <= 16, runs  # half of two runs of each
    assert "Take workers=" in s.out and s.json["found_by"] == "output", s.out
    knee = s.points["%g" % s.verdict["knee"]["workers"]]
    assert knee["workers"] == s.verdict["knee"]["workers"], knee  # the processes were counted
    assert 1e5 < knee["worker_bytes"] < 1e9, knee
    s.close()


def case_flat():
    s = Sweep().run(["--vary", "workers=2,4,6,8", "--metric", "^step", "--repeats", "1"], ["{workers}", 0.02, 0.05])
    assert s.verdict["kind"] == "flat" and s.verdict["knee"] == {"workers": 2}, s.out
    assert "flat" in s.out, s.out
    s.close()


def case_batch_until_memory_ends():
    """The step takes 20 ms and 0.1 ms a sample. 512 fits, 1024 does not."""
    s = Sweep(BATCH).run(["--vary", "batch=32..4096x2", "--metric", "loss", "--repeats", "1"], ["{batch}", 600])
    assert s.json["unit"] == "samples", s.json["unit"]
    assert s.points["1024"]["outcome"] == "out-of-memory" and "CUDA out of memory" in s.points["1024"]["why"], s.out
    assert s.points["2048"]["state"] == s.points["4096"]["state"] == "skipped", s.out
    assert abs(s.points["256"]["rate"] / (256 / 0.0456) - 1) < 0.1, s.out
    assert s.verdict["knee"] == {"batch": 512} and s.verdict["kind"] == "bounded", s.out
    s.close()


def case_two_knobs_and_environment():
    """Twice as fast with the second knob at 2; both through the environment."""
    script = "import os, time\na, b = int(os.environ['A']), int(os.environ['B'])\nwhile True:\n time.sleep(max(0.09 / a, 0.02) / min(b, 2)); print('s')\n"
    s = Sweep(script).run(["--vary", "a=1,2,3,6", "--vary", "b=1,2,3", "--env", "A={a}", "--env", "B={b}", "--metric", "lines", "--repeats", "1"], [])
    assert s.verdict["knee"] == {"a": 6, "b": 2}, s.out
    assert s.json["runs"] < 12, s.out
    s.close()


def case_a_rate_that_the_job_prints():
    script = ("import sys, time\nw = int(sys.argv[1])\nfor i in range(10**6):\n time.sleep(0.02)\n"
              " sys.stderr.write('\\r epoch 0 %d/999 [%.2fit/s]' % (i, 5 if i < 20 else min(w, 3) * 100 + i % 2)); sys.stderr.flush()\n")
    s = Sweep(script).run(["--vary", "w=1,2,3,4", "--metric", r"([0-9.]+)it/s", "--repeats", "1"], ["{w}"])
    assert s.verdict["knee"] == {"w": 3} and abs(s.points["2"]["rate"] - 200.5) < 0.5, s.out  # without the slow start
    s.close()


def case_rhythm_of_the_gpu():
    """No line is printed: the steps are found in the kernels that the GPU runs. A step has ten of them, named 0 1 2 0 1 2 0 1 2 0."""
    job = os.path.join(BUILD, "fakes", "fake_job")
    if not os.path.exists(job):
        return
    s = Sweep("")
    env = dict(s.env(), LD_LIBRARY_PATH=os.path.join(BUILD, "fakes"), FAKE_CUPTI_LIB=os.path.join(BUILD, "fakes", "libcupti.so.13"),
               GPUWHY_NVML=os.path.join(BUILD, "fakes", "libnvidia-ml.so.1"), FAKE_LOG=os.path.join(s.dir, "breaches"))
    began = time.monotonic()
    subprocess.run([job, "steps", "1000"], env=env, stdout=subprocess.DEVNULL, check=True)
    alone = 1000 / (time.monotonic() - began)
    p = subprocess.run([GPUWHY, "sweep", "--json", "-", "--vary", "n=100000,100001", "--repeats", "1", "--no-diagnosis"] + QUICK + ["--", job, "steps", "{n}"],
                       env=env, cwd=s.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=60)
    assert p.returncode == 0, p.stderr
    r = json.loads(p.stdout)
    assert r["found_by"] == "gpu-rhythm" and r["unit"] == "steps" and r["verdict"]["knee"], p.stdout
    for x in r["points"]:
        assert x["kernels_per_step"] == 10 and 0.4 < x["rate"] / alone < 2.5, (x, alone)
        assert x["gpu_memory_bytes"] > 0 and x["gpu_memory_total_bytes"] > x["gpu_memory_bytes"], x
    assert not os.path.exists(env["FAKE_LOG"]), open(env["FAKE_LOG"]).read()
    s.close()


# A torch with a DataLoader whose workers need 80 ms for a batch; it may work ahead by two batches for each worker.
TORCH = """
import time
class _BaseDataLoaderIter:
    def __init__(self, loader): self.workers, self.n, self.start = loader.num_workers, 0, time.monotonic()
    def __iter__(self): return self
    def __next__(self):
        if not self.workers: time.sleep(0.08)
        self.n += 1
        ready = self.start + self.n * 0.08 / max(1, self.workers)
        time.sleep(max(0, ready - time.monotonic()))
        self.start = max(self.start, time.monotonic() - (self.n + 2 * self.workers) * 0.08 / max(1, self.workers))
        return self.n
class DataLoader:
    def __init__(self, dataset, batch_size=1, num_workers=0, prefetch_factor=None, persistent_workers=False):
        self.dataset, self.batch_size, self.num_workers = dataset, batch_size, num_workers
    def __iter__(self): return _BaseDataLoaderIter(self)
"""
TRAIN = "import time\nfrom torch.utils.data.dataloader import DataLoader\nfor b in DataLoader([], batch_size=16, num_workers=1): time.sleep(0.02)\n"


def torch_job():
    s = Sweep(TRAIN)
    os.makedirs(os.path.join(s.dir, "torch", "utils", "data"))
    for path, text in (("torch", ""), ("torch/utils", ""), ("torch/utils/data", "from .dataloader import DataLoader")):
        with open(os.path.join(s.dir, path, "__init__.py"), "w") as f:
            f.write(text)
    with open(os.path.join(s.dir, "torch", "utils", "data", "dataloader.py"), "w") as f:
        f.write(TORCH)
    return s


def case_loader_settings_from_outside():
    """The script says one worker; the hook makes it more. Steps are the batches that the loader hands out."""
    s = torch_job().run(["--loader", "workers", "--vary", "workers=0,1,2,4,8", "--repeats", "1"], [])
    assert s.json["found_by"] == "loader-batches" and s.json["unit"] == "batches", s.out
    assert s.verdict["knee"] == {"workers": 4}, s.out
    assert abs(s.points["1"]["rate"] / 12.5 - 1) < 0.1, s.out
    assert "from outside" in s.out, s.out
    s.close()


def case_supply_and_demand():
    s = torch_job().run(["--loader-only", "--repeats", "1"], [])
    parts = s.json["parts"]
    assert s.json["unit"] == "samples" and parts["dataset"] == "list" and parts["batch_size"] == 16, s.json
    assert abs(parts["supply"] / (16 * 12.5) - 1) < 0.1 and abs(parts["demand"] / (16 * 50) - 1) < 0.15, s.out
    assert abs(parts["together"] / parts["supply"] - 1) < 0.1 and "The loader is the limit" in s.out, s.out
    s.close()


# --- jobs that go wrong ----------------------------------------------------------------------------------------------------


def case_failures_are_results():
    """Works with 1 and 2, hangs with 3 before it is measured, fails at once with 4."""
    script = ("import sys, time\nw = int(sys.argv[1])\n"
              "if w == 4: raise ValueError('four is too many')\n"
              "for i in range(10**6):\n time.sleep(0.02); print('step')\n if w == 3 and i > 8: time.sleep(1000)\n")
    s = Sweep(script).run(["--vary", "w=1,2,3,4", "--metric", "step", "--exhaustive", "--repeats", "1", "--point-limit", "4s"], ["{w}"])
    assert s.points["1"]["state"] == s.points["2"]["state"] == "measured", s.out
    assert s.points["3"]["outcome"] == "hung" and "then none for" in s.points["3"]["why"], s.out
    assert s.points["4"]["outcome"] == "crashed" and s.points["4"]["why"] == "failed: ValueError: four is too many", s.points["4"]
    assert "ValueError: four is too many" in s.out and "hung" in s.out, s.out
    s.close()


def case_fails_everywhere():
    s = Sweep("import sys\nsys.exit(3)\n").run(["--vary", "w=1..9", "--metric", "lines"], ["{w}"], status=3)
    assert s.verdict["kind"] == "nothing" and s.json["runs"] == 2, s.out
    assert "ended with status 3" in s.out and "run it once by hand" in s.err, s.err
    s.close()


def case_no_steps_are_seen():
    s = Sweep("import time\ntime.sleep(100)\n").run(["--vary", "w=1,2,3", "--point-limit", "1s", "--least", "0.5s"], ["{w}"], status=3)
    assert s.points["1"]["outcome"] == "no-steps" and "--metric" in s.err, (s.out, s.err)
    s.close()


def case_killed_for_memory():
    s = Sweep("import os, sys\nos.kill(os.getpid(), 9) if int(sys.argv[1]) > 1 else None\nimport time\nwhile 1: time.sleep(.02); print(1)\n")
    s.run(["--vary", "w=1,2", "--metric", "lines", "--repeats", "1"], ["{w}"])
    assert s.points["2"]["outcome"] == "crashed" and "signal 9" in s.points["2"]["why"], s.out
    s.close()


def case_the_whole_tree_ends():
    """Children that ignore TERM, that left their session, and grandchildren of dead parents: none is left behind."""
    script = ("import os, signal, subprocess, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
              "if len(sys.argv) > 2: time.sleep(1000)\n"
              "subprocess.Popen([sys.executable, __file__, sys.argv[1], 'child'], start_new_session=True)\n"
              "if os.fork() == 0:\n    if os.fork() == 0: time.sleep(1000)\n    os._exit(0)\n"
              "os.wait()\nwhile 1: time.sleep(.02); print(1)\n")
    s = Sweep(script).run(["--vary", "w=1,2", "--metric", "lines", "--repeats", "1"], ["{w}"])
    assert s.verdict["kind"] == "flat", s.out
    s.close()


# --- noise and drift --------------------------------------------------------------------------------------------------------------


def case_a_machine_that_gets_slower():
    """Each start is 4 % slower than the one before. In the order of the list the larger settings would look worse."""
    script = ("import os, sys, time\np = os.path.join(os.path.dirname(__file__), 'starts')\n"
              "n = int(open(p).read()) if os.path.exists(p) else 0\nopen(p, 'w').write(str(n + 1))\n"
              "w = int(sys.argv[1])\nwhile 1: time.sleep(0.1 / min(w, 6) * 1.04 ** n); print(1)\n")
    s = Sweep(script).run(["--vary", "w=1,2,4,6,8", "--metric", "lines", "--repeats", "3"], ["{w}"])
    assert s.verdict["drift"] is not None and s.verdict["drift"] < -0.1, (s.verdict, s.out)
    assert s.verdict["knee"] == {"w": 6}, s.out
    assert "changed by" in s.out, s.out
    s.close()


def case_noise():
    """Steps of very different length, and starts that differ by 12 %: the range is wide and says so."""
    script = ("import os, random, sys, time\nw = int(sys.argv[1])\nrandom.seed(os.getpid())\nslow = random.choice([0.94, 1.06])\n"
              "while 1: time.sleep(0.012 / min(w, 3) * random.expovariate(1) * slow); print(1)\n")
    s = Sweep(script).run(["--vary", "w=1,2,3,4", "--metric", "lines", "--repeats", "2", "--point-limit", "3s"], ["{w}"])
    assert s.verdict["knee"]["w"] in (3, 4), s.out
    worst = max(p["error"] for p in s.points.values() if p["error"] is not None)
    assert worst > 0.03, s.out
    s.close()


def case_slow_start():
    """Compilation, then three times the pace: the slow steps are left out."""
    script = ("import sys, time\ntime.sleep(0.3)\nfor i in range(10**6): time.sleep(0.1 if i < 8 else 0.02); print(i)\n")
    s = Sweep(script).run(["--vary", "w=1,2", "--metric", "lines", "--repeats", "1"], ["{w}"])
    for p in s.points.values():
        assert abs(p["rate"] * 0.0203 - 1) < 0.08 and p["runs"][0]["warmup_s"] > 0.6, p
    s.close()


# --- time, files, signals ------------------------------------------------------------------------------------------------------------


def case_budget():
    began = time.monotonic()
    s = Sweep().run(["--vary", "workers=1..16", "--metric", "lines", "--budget", "5s"], ["{workers}", 0.02, 0.02])
    assert time.monotonic() - began < 14, s.err
    assert s.json["ended"] == "budget" and "--budget" in s.out and s.json["runs"] >= 1, s.out
    s.close()


def case_resume_after_an_interrupt():
    s = Sweep()
    state = os.path.join(s.dir, "state")
    options = ["--vary", "workers=1,2,4,8", "--metric", "lines", "--resume", state]
    args = ["{workers}", 0.08, 0.02]
    p = subprocess.Popen(s.command(options, args), cwd=s.dir, env=s.env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, universal_newlines=True)
    for line in p.stderr:
        if "workers=2:" in line:
            break
    time.sleep(0.4)
    p.send_signal(signal.SIGINT)
    out, _ = p.communicate(timeout=30)
    assert p.returncode == -signal.SIGINT and "interrupted" in out and "workers=2" in out, (p.returncode, out)
    with open(state, "a") as f:
        f.write("run 8 0 1 3 5.0 0.0")  # as if the machine had gone down in the middle of a line
    s.run(options, args)
    assert s.json["resumed_runs"] == 2 and s.verdict["knee"] == {"workers": 4}, s.out
    s.run(["--vary", "workers=1,2,4,8", "--metric", "step", "--resume", state], args, status=3)
    assert "another command" in s.err, s.err
    s.close()


def case_wrong_usage():
    s = Sweep()
    vary = ["--vary", "w=1,2"]
    for options, args, word in (([], ["{w}"], "nothing to vary"), (vary, [], "no {w} in the command"), (["--vary", "w=8..2"], ["{w}"], "smaller to the larger"),
                                (vary + ["--metric", "([0-9"], ["{w}"], "regular expression"), (vary + ["--metric", "samples"], ["{w}"], "named batch"),
                                (vary * 3, ["{w}"], "at most two"), (vary + vary, ["{w}"], "varied already"), (["--loader", "colour"], [], "workers,prefetch"),
                                (["--vary", "workers=1,x", "--loader", "workers"], [], "whole number"), (vary + ["--loader-only"], ["{w}"], "varies nothing"),
                                (vary + ["--budget", "soon"], ["{w}"], "no time"), (["--vary", "w=1"], ["{w}"], "points"),
                                (vary + ["--least", "90s"], ["{w}"], "shorter than"), (vary + ["--env", "X"], ["{w}"], "NAME=VALUE")):
        s.run(options, args, status=2)
        assert word in s.err, (options, s.err)
    p = subprocess.run([GPUWHY, "sweep", "--vary", "w=1,2", "--metric", "lines", "--", "/nonexistent/job", "{w}"], env=s.env(), stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, universal_newlines=True)
    assert p.returncode == 2 and "cannot be started" in p.stderr, (p.returncode, p.stderr)
    s.close()


if __name__ == "__main__":
    sys.exit(runner.run(runner.cases(globals(), sys.argv[2:]), threads=6))
