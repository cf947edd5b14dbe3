#!/usr/bin/env python3
"""`gpuwhy sweep` with real jobs: pools of worker processes whose knee is known, and jobs that fail, hang, drift and make noise.

usage: test_sweep_jobs.py BUILD_DIR [NAME...]

The jobs sleep instead of computing, so that a knee is where it is put also on a busy machine with two CPUs. Cases run in
parallel for the same reason.
"""
import json
import os
import pty
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


# --- what users do ---------------------------------------------------------------------------------------------------------------

STEADY = "import sys, time\nw = float(sys.argv[1])\nwhile True: time.sleep(0.04 / w); print('step')\n"
ONCE = ["--metric", "lines", "--repeats", "1"]


def case_resume_with_blanks_in_values():
    script = "import sys, time\nd = {'a b': 0.04, 'c %20 d': 0.02}[sys.argv[1]]\nwhile True: time.sleep(d); print(1)\n"
    s = Sweep(script)
    for resumed in (0, 2):
        s.run(ONCE + ["--vary", "m=a b,c %20 d", "--resume", os.path.join(s.dir, "state")], ["{m}"])
        assert s.json["resumed_runs"] == resumed and s.json["runs"] == 2, s.out
        assert abs(s.points["c %20 d"]["rate"] - 49) < 4, s.out
    s.close()


def case_resume_after_a_torn_line():
    """What follows a line that was not finished must not become part of it, however often the sweep is resumed."""
    s = Sweep(STEADY)
    state = os.path.join(s.dir, "state")
    s.run(ONCE + ["--vary", "w=1,2", "--resume", state], ["{w}"])
    with open(state, "a") as f:
        f.write("run 4 0 1 3 5.0 0.0")
    for resumed in (2, 3):
        s.run(ONCE + ["--vary", "w=1,2,4", "--resume", state], ["{w}"])
        assert s.json["resumed_runs"] == resumed and s.points["4"]["rate"] > 60, s.out
    with open(state, "w") as f:
        f.write("gpuwhy.sweep-st")
    s.run(ONCE + ["--vary", "w=1,2", "--resume", state], ["{w}"])
    assert s.json["resumed_runs"] == 0 and s.json["runs"] == 2, s.out
    s.close()


def case_resume_notices_a_change_at_the_end():
    s = Sweep(STEADY)
    options = ONCE + ["--vary", "w=1,2", "--resume", os.path.join(s.dir, "state")]
    s.run(options, ["{w}", "x" * 3000, "a"])
    s.run(options, ["{w}", "x" * 3000, "b"], status=3)
    assert "another command" in s.err, s.err
    s.close()


def case_resume_cannot_be_written():
    """Said before the first run, not after it."""
    s = Sweep("import sys\nopen(sys.argv[2], 'w')\n")
    s.run(ONCE + ["--vary", "w=1,2", "--resume", os.path.join(s.dir, "nowhere", "state")], ["{w}", os.path.join(s.dir, "ran")], status=3)
    assert "--resume a file that can be written" in s.err and not os.path.exists(os.path.join(s.dir, "ran")), s.err
    s.close()


def case_resume_file_gets_lost():
    """The disk fills up meanwhile: the report comes all the same."""
    s = Sweep("import os, sys, time\nw, d = float(sys.argv[1]), sys.argv[2]\nif w == 2: os.rename(d, d + '2')\n"
              "while True: time.sleep(0.04 / w); print('step')\n")
    folder = os.path.join(s.dir, "states")
    os.mkdir(folder)
    s.run(ONCE + ["--vary", "w=1,2,3", "--resume", os.path.join(folder, "state")], ["{w}", folder])
    assert s.json["runs"] == 3 and s.err.count("--resume a file that can be written") == 1, s.err
    s.close()


def case_long_tmpdir():
    s = Sweep(STEADY)
    deep = os.path.join(s.dir, "scratch-of-a-cluster", "users", "someone", "jobs", "12345678")
    os.makedirs(deep)
    p = subprocess.run(s.command(ONCE + ["--vary", "w=1,2"], ["{w}"]), env=dict(s.env(), TMPDIR=deep), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, universal_newlines=True, timeout=60)
    assert p.returncode == 0 and os.listdir(deep) == [], (p.returncode, p.stderr)
    s.close()


def case_decimal_commas():
    for text, want in (("12,75", 12.75), ("1,234.5", 1234.5), ("1.234,5", 1234.5), ("1,234", 1234), ("0,125", 0.125), ("1.234.567", 1234567), ("7.5", 7.5)):
        script = "import time\nwhile True: time.sleep(0.02); print('rate: %s/s')\n" % text
        s = Sweep(script).run(["--vary", "w=1,2", "--metric", "rate: ([0-9.,]+)/s", "--repeats", "1"], ["{w}"])
        assert abs(s.points["1"]["rate"] - want) < 1e-6, (text, s.points["1"]["rate"])
        s.close()


def case_output_without_newlines():
    """A dot for each step, and words on a line that never ends; the digits of a number are one match."""
    for pattern, words in (("[.]", "'.'"), ("step [0-9]+", "' step %d' % i")):
        script = "import sys, time\nw = float(sys.argv[1])\nfor i in range(10**6): time.sleep(0.02 / w); sys.stdout.write(%s); sys.stdout.flush()\n" % words
        s = Sweep(script).run(["--vary", "w=1,2", "--metric", pattern, "--repeats", "1"], ["{w}"])
        assert abs(s.points["1"]["rate"] / 49 - 1) < 0.1 and abs(s.points["2"]["rate"] / 96 - 1) < 0.1, s.out
        s.close()
    s = Sweep("import time\nwhile True: time.sleep(0.04); print('loss ' * 4)\n").run(["--vary", "w=1,2", "--metric", "loss", "--repeats", "1"], ["{w}"])
    assert abs(s.points["1"]["rate"] / 98 - 1) < 0.1, s.out  # each match, also on one line
    s.close()


def case_users_environment():
    """--env holds beside what the sweep sets itself; ${w} is a variable of the shell, and no place for a value."""
    s = Sweep("import mine, os, time\nassert os.environ['PYTHONUNBUFFERED'] == '2'\nwhile True: time.sleep(mine.STEP); print(1)\n")
    os.mkdir(os.path.join(s.dir, "src"))
    with open(os.path.join(s.dir, "src", "mine.py"), "w") as f:
        f.write("STEP = 0.02\n")
    s.run(ONCE + ["--vary", "w=1,2", "--env", "W={w}", "--env", "PYTHONPATH=src", "--env", "PYTHONUNBUFFERED=2"], [])
    assert s.verdict["kind"] == "flat", (s.out, s.err)
    s.close()
    s = Sweep("import sys, time\nassert sys.argv[1] in ('1', '2'), sys.argv\nwhile True: time.sleep(0.02); print(1)\n")
    p = subprocess.run([GPUWHY, "sweep"] + QUICK + ONCE + ["--vary", "w=1,2", "--env", "w={w}", "--", "sh", "-c", "exec %s %s ${w}" % (PY, s.script)],
                       env=s.env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=60)
    assert p.returncode == 0 and "flat" in p.stdout, (p.stdout, p.stderr)
    s.close()


def case_the_jobs_own_reason():
    """Why it failed is the job's last word, when that says something."""
    progress = "import os, sys, time\nfor i in range(20): sys.stderr.write('\\r%d/99 [5.00it/s]' % i)\n"
    for script, why in (("import no_such_thing\n", "ModuleNotFoundError: No module named 'no_such_thing'"),
                        (progress + "os.kill(os.getpid(), 11)\n", "killed by signal 11"), (progress + "os.kill(os.getpid(), 9)\n", "killed by signal 9, as"),
                        ("import sys\nsys.exit(137)\n", "killed by signal 9, as"), ("import sys\nsys.exit(4)\n", "ended with status 4")):
        s = Sweep(script).run(["--loader", "workers", "--vary", "workers=0,1", "--repeats", "1"], [], status=3)
        assert why in s.points["0"]["why"], (why, s.points["0"])
        s.close()


def case_the_kernel_ends_it_for_memory():
    """In a cgroup that is too small for two workers' worth of memory."""
    for root, limit in (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")):
        group = os.path.join(root, "gwsweep-%d" % os.getpid())
        try:
            os.mkdir(group)
            with open(os.path.join(group, limit), "r+") as f:
                f.write("80M")
            break
        except OSError:
            if os.path.isdir(group):
                os.rmdir(group)
    else:
        raise runner.Skip("no cgroup can be made")
    script = ("import os, sys, time\nopen(sys.argv[2] + '/cgroup.procs', 'w').write(str(os.getpid()))\nw = int(sys.argv[1])\n"
              "x = bytearray(30 << 20) if w == 1 else b'1' * (300 << 20)\nwhile True: time.sleep(0.02); print(1)\n")
    s = Sweep(script)
    try:
        s.run(ONCE + ["--vary", "w=1,2"], ["{w}", group])
        assert s.points["1"]["state"] == "measured", s.out
        assert s.points["2"]["outcome"] == "out-of-memory" and "the host's memory ran out" in s.points["2"]["why"], s.points["2"]
    finally:
        for _ in range(50):
            try:
                os.rmdir(group)
                break
            except OSError:
                time.sleep(0.1)
    s.close()


def case_budget_is_too_small():
    s = Sweep("import time\ntime.sleep(100)\n").run(["--vary", "w=1,2", "--metric", "lines", "--budget", "1s"], ["{w}"], status=3)
    assert s.json["ended"] == "budget" and "--budget ended before a step was seen" in s.err and "pattern" not in s.err, s.err
    s.close()


def start(s, options, args, **kw):
    return subprocess.Popen(s.command(options, args), cwd=s.dir, env=s.env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            universal_newlines=True, **kw)


def case_ends_by_the_signal_it_got():
    for signo in (signal.SIGTERM, signal.SIGHUP):
        s = Sweep(STEADY)
        p = start(s, ONCE + ["--vary", "w=1,2"], ["{w}"])
        p.stderr.readline()
        p.send_signal(signo)
        out, _ = p.communicate(timeout=30)
        assert p.returncode == -signo and "interrupted before" in out, (p.returncode, out)
        s.close()
    s = Sweep(STEADY)  # as nohup does it
    p = start(s, ONCE + ["--vary", "w=1,2"], ["{w}"], preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    p.stderr.readline()
    p.send_signal(signal.SIGHUP)
    out, _ = p.communicate(timeout=30)
    assert p.returncode == 0 and "interrupted" not in out, (p.returncode, out)
    s.close()


def case_interrupted_between_two_runs():
    """Whenever Ctrl-C comes, what is known is reported."""
    s = Sweep("import sys\nsys.exit(1)\n")
    for i in range(8):
        p = start(s, ["--vary", "w=1..100", "--metric", "lines", "--exhaustive"], ["{w}"])
        p.stderr.readline()
        time.sleep(0.005 * i)
        p.send_signal(signal.SIGINT)
        out, _ = p.communicate(timeout=30)
        assert p.returncode == -signal.SIGINT and "interrupted before" in out and "w=1 " in out, (i, p.returncode, out)
    s.close()


def case_stopped_meanwhile():
    """Ctrl-Z stops the job too, and the run that it fell into is made again."""
    s = Sweep("import os, sys, time\nopen(sys.argv[2], 'a').write('%d\\n' % os.getpid())\nwhile True: time.sleep(0.02); print(1)\n")
    pids = os.path.join(s.dir, "pids")
    p = start(s, ONCE + ["--vary", "w=1,2"], ["{w}", pids])
    end = time.monotonic() + 20
    while not os.path.exists(pids) and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.4)
    p.send_signal(signal.SIGTSTP)
    time.sleep(1.5)
    with open(pids) as f:
        job = f.read().split()
    with open("/proc/%s/stat" % job[0]) as f:
        state = f.read().rsplit(")", 1)[1].split()[0]
    p.send_signal(signal.SIGCONT)
    out, err = p.communicate(timeout=60)
    with open(os.path.join(s.dir, "out.json")) as f:
        points = json.load(f)["points"]
    assert len(job) == 1 and state == "T", (job, state)
    assert p.returncode == 0 and all(abs(x["rate"] / 49 - 1) < 0.1 for x in points), (out, err)
    with open(pids) as f:
        assert len(f.read().split()) == 3
    s.close()


def case_progress_on_a_terminal_only():
    s = Sweep(STEADY)
    main, end = pty.openpty()
    p = subprocess.Popen(s.command(ONCE + ["--vary", "w=1,2"], ["{w}"]), env=dict(s.env(), TERM="xterm", COLUMNS="100"), stdin=subprocess.DEVNULL,
                         stdout=subprocess.DEVNULL, stderr=end)
    os.close(end)
    seen = b""
    while True:
        try:
            got = os.read(main, 4096)
        except OSError:
            break
        if not got:
            break
        seen += got
    os.close(main)
    p.wait()
    assert b"run 1 of about 2" in seen and b"run 2 of about 2" in seen and b" s left" in seen and b"\r" in seen, seen
    s.run(ONCE + ["--vary", "w=1,2"], ["{w}"])
    assert "of about" not in s.err and "\r" not in s.err and len(s.err.splitlines()) == 2, s.err
    s.close()


if __name__ == "__main__":
    sys.exit(runner.run(runner.cases(globals(), sys.argv[2:]), threads=6))
