#!/usr/bin/env python3
"""`gpuwhy run --after-steps` and `--status`: steps are counted, windows wait for them, the live line is one line on a terminal.

usage: test_status.py BUILD_DIR [NAME...]
"""
import fcntl
import glob
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

import runner

BUILD = os.path.abspath(sys.argv[1])
GPUWHY = os.path.join(BUILD, "gpuwhy")
FAKES = os.path.join(BUILD, "fakes")
DUMP = os.path.join(FAKES, "record_dump")

LOADER = """
class _BaseDataLoaderIter:
    def __init__(self, loader): self.left = loader.batches
    def __iter__(self): return self
    def __next__(self):
        if not self.left: raise StopIteration
        self.left -= 1
        return self.left
class DataLoader:
    def __init__(self, batches): self.batches, self.dataset, self.sampler, self.batch_sampler = batches, [], None, None
    def __iter__(self): return _BaseDataLoaderIter(self)
    def __len__(self): return self.batches
"""

JOB = """
import ctypes, sys, time
from torch.utils.data import DataLoader
gpu = ctypes.CDLL('libcuda.so.1')
gpu.cuInit(0)
for _ in DataLoader(int(sys.argv[1])):
    for name in (b'gemm', b'relu', b'norm', b'adam'):
        gpu.fake_launch(name, ctypes.c_uint64(20000), 0)
    gpu.fake_stream_sync(0)
    time.sleep(0.01)
print('done', flush=True)
sys.exit(3)
"""


class Job:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="gwstatus-")
        self.rec, self.prog = os.path.join(self.dir, "rec"), os.path.join(self.dir, "job.py")
        for name, text in {"__init__.py": "__version__ = '9.8.7'\n", "utils/__init__.py": "", "utils/data/__init__.py": "from .dataloader import DataLoader\n",
                           "utils/data/dataloader.py": LOADER}.items():
            path = os.path.join(self.dir, "torch", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as f:
                f.write(text)
        with open(self.prog, "w") as f:
            f.write(JOB)
        self.env = dict(os.environ, LD_LIBRARY_PATH=FAKES, FAKE_CUPTI_LIB=os.path.join(FAKES, "libcupti.so.13"), PYTHONPATH=self.dir,
                        GPUWHY_NVML=os.path.join(FAKES, "libnvidia-ml.so.1"), ASAN_OPTIONS="detect_leaks=0:handle_segv=0", TERM="xterm", LC_ALL="C.UTF-8")
        self.env.pop("CUDA_INJECTION64_PATH", None)

    def command(self, *options, batches=300):
        return [GPUWHY, "run", "-o", self.rec, "--no-report", *options, "--", sys.executable, self.prog, str(batches)]

    def run(self, *options, batches=300):
        self.p = subprocess.run(self.command(*options, batches=batches), env=self.env, cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, timeout=120, check=False)
        return self

    def facts(self):
        text = subprocess.run([DUMP, "-v", os.path.join(self.rec, "record.gwr")], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
        return dict(m.split("=", 1) for m in re.findall(r"^([a-z_.]+=.*)$", text, re.M))

    def windows(self):
        """CLOCK_REALTIME at which windows opened."""
        out = []
        for path in glob.glob(os.path.join(self.rec, "cuda-*.gwr")):
            text = subprocess.run([DUMP, "-v", path], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
            out += [int(t) for t in re.findall(r"^window what=1 .* t=(\d+)", text, re.M)]
        return sorted(out)

    def marks(self):
        """When each batch was taken, as CLOCK_REALTIME."""
        shift = time.time_ns() - time.monotonic_ns()
        out = []
        for path in glob.glob(os.path.join(self.rec, "marks-*")):
            with open(path, "rb") as f:
                data = f.read()
            out += [t[0] + shift for t in struct.iter_unpack("=q", data)]
        return sorted(out)

    def on_terminal(self, *options, columns=70, batches=300, term="xterm"):
        pid, fd = pty.fork()
        if pid == 0:
            os.chdir(self.dir)
            os.execvpe(GPUWHY, self.command(*options, batches=batches), dict(self.env, TERM=term))
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        out, end = b"", time.time() + 60
        while time.time() < end:
            if select.select([fd], [], [], 0.1)[0]:
                try:
                    got = os.read(fd, 65536)
                except OSError:
                    break
                if not got:
                    break
                out += got
        else:
            os.kill(pid, signal.SIGKILL)
        _, self.status = os.waitpid(pid, 0)
        os.close(fd)
        return out.decode("utf-8", "replace")

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)


def case_windows_wait_for_steps():
    j = Job().run("--after-steps", "100", "--windows", "0s,300ms,300ms,600ms", batches=400)
    assert j.p.returncode == 3 and j.p.stderr == b"", (j.p.returncode, j.p.stderr)
    opened, marks = j.windows(), j.marks()
    assert len(marks) == 400, len(marks)
    assert opened, "no window"
    # looked at twice a second, and the library looks for itself: not before the 100th batch, and not much after it
    assert marks[99] <= opened[0] + 2e6 and opened[0] < marks[99] + 2.5e9, (opened, marks[99], marks[-1])
    assert j.facts()["after_steps"].endswith(" batches") and int(j.facts()["after_steps"].split()[0]) >= 100, j.facts()["after_steps"]
    return j


def case_steps_not_reached():
    j = Job().run("--after-steps", "5000", batches=100)
    assert j.p.returncode == 3 and j.p.stdout == b"done\n"
    assert j.p.stderr.count(b"\n") == 1 and b"the job took 100 batches" in j.p.stderr, j.p.stderr
    assert not j.windows() and j.facts()["after_steps"] == "not reached: 100 batches"
    return j


def case_without_the_options():
    """Nothing is marked in a job that nobody asked to count."""
    j = Job().run(batches=20)
    assert not glob.glob(os.path.join(j.rec, "marks-*")) and "after_steps" not in j.facts()
    return j


def case_usage():
    j = Job()
    for bad in (["--after-steps", "0"], ["--after-steps", "-1"], ["--after-steps", "some"], ["--after-steps", "99999999999999999999999"],
                ["--after-steps", "5", "--full"], ["--after-steps", "5", "--no-hook"], ["--after-steps", "5", "--no-gpu-records"],
                ["--after-steps", "5", "--gpu-records", "never"]):
        j.run(*bad)
        assert j.p.returncode == 125 and b"--after-steps" in j.p.stderr, (bad, j.p.returncode, j.p.stderr)
    return j


def case_live_line():
    """One line, drawn over itself, never wider than the terminal, gone at the end."""
    j = Job()
    out = j.on_terminal("--status", batches=350, columns=110)
    assert os.WEXITSTATUS(j.status) == 3, j.status
    lines = re.findall(r"\r(gpuwhy [^\r\n\x1b]*)\x1b\[K", out)
    assert len(lines) >= 3, out
    assert all(len(x) < 110 for x in lines), lines
    text = " | ".join(lines)
    for want in ("GPU-Util 37 %", "SM active 42 %", " steps, ", "/s", "main thread "):
        assert want in text, (want, lines)
    steps = [int(n) for n in re.findall(r"(\d+) steps", text)]
    assert steps == sorted(steps) and 0 < steps[-1] <= 350, steps
    rate = float(re.findall(r"steps, ([\d.]+)/s", text)[-1])
    assert 40 < rate < 100, rate # a sleep of 10 ms and the launches between two batches
    assert len(set(lines)) == len(lines) # nothing is drawn twice
    assert "\n" not in out[out.index("gpuwhy "):out.rindex("gpuwhy ")].replace("done\r\n", ""), out
    last = out.rindex("\x1b[K")
    assert out[:last].endswith("\r"), out[-200:] # erased
    return j


def case_narrow_terminal():
    j = Job()
    out = j.on_terminal("--status", columns=24, batches=200)
    lines = re.findall(r"\r(gpuwhy [^\r\n\x1b]*)\x1b\[K", out)
    assert lines and all(len(x) < 24 for x in lines), lines
    return j


def case_no_line_elsewhere():
    j = Job().run("--status", batches=150)
    assert j.p.stderr == b"" and j.p.stdout == b"done\n", j.p.stderr
    j.close()
    j = Job()
    out = j.on_terminal("--status", batches=150, term="dumb")
    assert out.replace("\r\n", "\n") == "done\n", out
    return j


if __name__ == "__main__":
    if not os.path.exists(os.path.join(FAKES, "libcupti.so.13")):
        sys.exit(77)
    sys.exit(runner.run(runner.cases(globals(), sys.argv[2:])))
