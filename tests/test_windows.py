#!/usr/bin/env python3
"""Records of several windows: what lies between two of them is never counted, another phase is told apart, the noise is said.

usage: test_windows.py BUILD_DIR [NAME...]
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import runner

BUILD = os.path.abspath(sys.argv[1])
GPUWHY = os.path.join(BUILD, "gpuwhy")
FAKES = os.path.join(BUILD, "fakes")

JOB = """
import ctypes, sys, time
gpu = ctypes.CDLL('libcuda.so.1')
gpu.cuInit(0)

def phase(seconds, names, rest):
    end = time.time() + seconds
    while time.time() < end:
        for name in names:
            gpu.fake_launch(name, ctypes.c_uint64(400000), 0)
        gpu.fake_stream_sync(0)
        time.sleep(rest)

for part in sys.argv[1:]:
    what, seconds = part.split('=')
    if what == 'train': phase(float(seconds), (b'gemm', b'relu', b'norm', b'adam'), 0.001)
    if what == 'slow': phase(float(seconds), (b'gemm', b'relu', b'norm', b'adam'), 0.004)
    if what == 'evaluate': phase(float(seconds), (b'decode', b'beam', b'top_k'), 0.0005)
"""


class Run:
    def __init__(self, *parts, windows="300ms,400ms,400ms,700ms"):
        self.dir = tempfile.mkdtemp(prefix="gwwin-")
        self.rec = os.path.join(self.dir, "rec")
        env = dict(os.environ, LD_LIBRARY_PATH=FAKES, FAKE_CUPTI_LIB=os.path.join(FAKES, "libcupti.so.13"), GPUWHY_NVML="/nonexistent",
                   ASAN_OPTIONS="detect_leaks=0:handle_segv=0")
        env.pop("CUDA_INJECTION64_PATH", None)
        p = subprocess.run([GPUWHY, "run", "-o", self.rec, "--no-report", "--windows", windows, "--", sys.executable, "-c", JOB, *parts], env=env,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
        assert p.returncode == 0, p.stderr
        out = subprocess.run([GPUWHY, "read", "-q", "--json", "-", self.rec], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        assert out.returncode == 0, out.stderr
        self.report = json.loads(out.stdout)
        self.windows = self.report["windows"]
        self.notes = " ".join(self.report["trust"]["notes"])
        self.main = next(d for d in self.report["devices"] if d["main"])

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)


def idle(w):
    return w["idle_ns"] / w["wall_ns"]


def case_median_of_equals():
    """No window is longer than it was open; the report is about the one in the middle of those that are alike."""
    r = Run("train=7")
    assert len(r.windows) >= 4 and all(w["same_kernels"] for w in r.windows), r.windows
    assert all(w["wall_ns"] < 0.65e9 for w in r.windows), r.windows # 0.4 s, and nothing of the next one 0.3 s later
    reported = [w for w in r.windows if w["reported"]]
    assert len(reported) == 1
    order = sorted(r.windows, key=lambda w: (idle(w), w["start_ns"]))
    middle = {w["start_ns"] for w in (order[len(order) // 2], order[(len(order) - 1) // 2])}
    assert reported[0]["start_ns"] == max(middle), (order, reported)
    assert r.main["whole"]["wall_ns"] < 0.65e9 and r.main["steady"]["wall_ns"] == reported[0]["wall_ns"], (r.main, reported)
    assert r.main["steady"]["idle_ns"] == reported[0]["idle_ns"]
    assert "%d windows of the recording were compared" % len(r.windows) in r.notes, r.notes
    assert "other kernels" not in r.notes
    starts = [w["start_ns"] for w in r.windows]
    assert starts == sorted(starts) and starts[-1] > 3e9, starts
    return r


def case_another_phase():
    """Windows that lie in an evaluation do not count, even when they are the last ones."""
    r = Run("train=5", "evaluate=2.5")
    other = [w for w in r.windows if not w["same_kernels"]]
    same = [w for w in r.windows if w["same_kernels"]]
    assert other and len(same) > len(other), r.windows
    assert min(w["start_ns"] for w in other) > max(w["start_ns"] for w in same), r.windows
    assert "another phase of the job" in r.notes, r.notes
    time_of = {k["name"]: k["ns_per_step"] for k in r.report["kernels"]}
    training = sum(time_of[name] for name in ("gemm", "relu", "norm", "adam"))
    assert training > 0.69 * sum(time_of.values()), time_of # a window in which the one turns into the other may be the median
    return r


def case_noise():
    """Windows of one job at two speeds: the difference is told, and the steps of both."""
    r = Run("train=3", "slow=3")
    assert all(w["same_kernels"] for w in r.windows), r.windows
    low, high = min(map(idle, r.windows)), max(map(idle, r.windows))
    assert high - low > 0.15, (low, high)
    assert "%.0f to %.0f %%" % (100 * low, 100 * high) in r.notes, (low, high, r.notes)
    steps = [w["median_step_ns"] for w in r.windows]
    if all(steps):
        assert "what the job varies by itself" in r.notes, r.notes
    return r


def case_two_windows():
    """Of two the later one, when the job is warm."""
    r = Run("slow=1.6", "train=2.5", windows="100ms,1s,1s,2s")
    assert len(r.windows) == 2 and r.windows[1]["reported"] and not r.windows[0]["reported"], r.windows
    return r


def case_one_window():
    """One window: nothing to choose, nothing to say."""
    r = Run("train=2", windows="300ms,1s,1s,60s")
    assert r.windows == [] and "windows of the recording" not in r.notes
    return r


if __name__ == "__main__":
    if not os.path.exists(os.path.join(FAKES, "libcupti.so.13")):
        sys.exit(77)
    sys.exit(runner.run(runner.cases(globals(), sys.argv[2:])))
